/* SPDX-License-Identifier: MIT */
/*
 * The scene of the cluster tests: its clock, names, trace, set-up and tear-down. The fake
 * nodes are in cluster_fakes.c; the commands and the route's events are in
 * cluster_asked.c.
 */
#include "cluster_scene.h"
#include "cluster_scene_inside.h"
#include "skip_clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_S 30 /* for a condition to hold */

/* ---- the clock ---- */

static void on_kick(void *arg)
{
    (void)arg;
}

void jump(struct scene *scene, int64_t seconds)
{
    skip_clock_by(seconds * 1000000);
    lw__timer_set(scene->loop, &scene->kick, 0); /* wakes the timers that are due */
}

/* ---- names in place of addresses ---- */

static const char *address_of(const struct fake *fake)
{
    static char address[32];

    (void)snprintf(address, sizeof(address), fake->six ? "::1:%u" : "127.0.0.1:%u",
                   (unsigned)fake->port);
    return address;
}

/* Returns the length of this fake's address if the text begins with it; 0 if it does
 * not. */
static size_t is_address(const struct fake *fake, const char *text)
{
    const char *address = address_of(fake);
    size_t length = strlen(address);
    bool matches = strncmp(text, address, length) == 0;

    return matches && (text[length] < '0' || text[length] > '9') ? length : 0;
}

/* Replaces "127.0.0.1:40123" by "N1", since ports differ from run to run. */
void with_names(const struct scene *scene, const char *text, char *ret, size_t size)
{
    size_t length = 0;

    while (*text != '\0' && length + 8 < size) {
        size_t matched = 0;

        for (int i = 0; i < NODES && matched == 0; i++) {
            matched = is_address(&scene->n[i], text);
            if (matched > 0) {
                length +=
                    (size_t)snprintf(ret + length, size - length, "%s", scene->n[i].name);
            }
        }
        if (matched == 0) {
            ret[length++] = *text;
            matched = 1;
        }
        text += matched;
    }
    ret[length] = '\0';
}

/* Replaces names by addresses. */
void with_addresses(const struct scene *scene, const char *text, char *ret, size_t size)
{
    size_t length = 0;

    while (*text != '\0' && length + 1 < size) {
        if (text[0] == 'N' && text[1] >= '1' && text[1] <= '0' + NODES) {
            length += (size_t)snprintf(ret + length, size - length, "%s",
                                       address_of(&scene->n[text[1] - '1']));
            text += 2;
        } else {
            ret[length++] = *text++;
        }
    }
    ret[length] = '\0';
}

/* ---- the trace and the log ---- */

void note(struct scene *scene, const char *form, ...)
{
    char text[1024], named[1024];
    va_list list;

    va_start(list, form);
    (void)vsnprintf(text, sizeof(text), form, list);
    va_end(list);
    with_names(scene, text, named, sizeof(named));
    scene->length += (size_t)snprintf(scene->trace + scene->length,
                                      sizeof(scene->trace) - scene->length, "%s; ",
                                      named);
    assert_true(scene->length < sizeof(scene->trace));
}

static void on_log(int level, const char *message, void *arg)
{
    struct scene *scene = arg;
    char named[1024];

    (void)level;
    with_names(scene, message, named, sizeof(named));
    scene->told_length += (size_t)snprintf(scene->told + scene->told_length,
                                           sizeof(scene->told) - scene->told_length,
                                           "%s\n", named);
    assert_true(scene->told_length < sizeof(scene->told));
}

/* ---- the scene ---- */

int scene_set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_non_null(scene);
    scene->base = event_base_new();
    assert_int_equal(lw__loop_new(scene->base, &scene->loop), 0);
    assert_int_equal(lw__timer_reserve(scene->loop, 1), 0);
    lw__timer_init(&scene->kick, on_kick, scene);
    lw__random_seed(&scene->random, 1);
    scene->log = (struct lw__log){on_log, 5, scene, &scene->causes};
    for (int i = 0; i < NODES; i++) {
        struct fake *fake = &scene->n[i];

        fake->scene = scene;
        (void)snprintf(fake->name, sizeof(fake->name), "N%d", i + 1);
        come(fake);
    }
    map_is(scene, THIRDS);
    scene->options.seeds = scene->seeds;
    scene->options.node =
        (struct lw__node_options){.config = {.loop = scene->loop,
                                             .log = &scene->log,
                                             .random = &scene->random,
                                             .client_name = "test",
                                             .connect_timeout_ms = 60000,
                                             .request_timeout_ms = 60000,
                                             .backoff_min_ms = 5,
                                             .backoff_max_ms = 20},
                                  .uuid = UUID,
                                  .message = scene_on_message,
                                  .message_arg = scene,
                                  .max_inflight = 100,
                                  .stats = &scene->stats};
    *state = scene;
    return 0;
}

static void list_seeds(struct scene *scene, const char *seeds)
{
    struct lw__route_options *options = &scene->options;
    char text[256], *rest = text;

    with_addresses(scene, seeds, text, sizeof(text));
    options->seed_count = 0;
    for (const char *one; (one = strtok_r(rest, " ", &rest)) != NULL;) {
        size_t i = options->seed_count++;
        const char *colon = strrchr(one, ':');

        assert_true(i < SEEDS);
        (void)snprintf(scene->seed_names[i], sizeof(*scene->seed_names), "%.*s",
                       (int)(colon - one), one);
        scene->seeds[i] = (struct lw__url_host){scene->seed_names[i],
                                                (uint16_t)strtoul(colon + 1, NULL, 10)};
    }
}

void scene_start(struct scene *scene, const char *seeds)
{
    list_seeds(scene, seeds);
    assert_int_equal(
        lw__route_new(&scene->options, &scene_route_events, scene, &scene->route), 0);
}

void scene_stop(struct scene *scene)
{
    lw__route_free(scene->route);
    scene->route = NULL;
}

int scene_tear_down(void **state)
{
    struct scene *scene = *state;

    scene_stop(scene);
    lw__loop_free(scene->loop);
    for (int i = 0; i < NODES; i++) {
        leave(&scene->n[i]);
        (void)close(scene->n[i].keeper);
    }
    (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
    assert_int_equal(event_base_get_num_events(scene->base, EVENT_BASE_COUNT_ADDED), 0);
    event_base_free(scene->base);
    free(scene);
    skip_clock_reset();
    return 0;
}

bool was_told(const struct scene *scene, const char *text)
{
    return strstr(scene->told, text) != NULL;
}

unsigned count_told(const struct scene *scene, const char *text)
{
    unsigned count = 0;

    for (const char *at = scene->told; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

bool came(const struct scene *scene, const char *text)
{
    return strstr(scene->trace + scene->read, text) != NULL;
}

void pass(struct scene *scene)
{
    scene->read = scene->length;
}

static bool skips;

void skip_idle_time(bool skip)
{
    skips = skip;
}

static void turn(struct scene *scene, int64_t until_us)
{
    uint64_t refreshes = scene->stats.refreshes;
    int64_t before_us = lw__now_us();

    skip_clock_turn(scene->base, skips ? until_us : 0);
    if (scene->stats.refreshes > refreshes && scene->stats.refreshes <= 64) {
        scene->refreshes[refreshes].after_us = before_us;
        scene->refreshes[refreshes].before_us = lw__now_us();
    }
}

void scene_turn(struct scene *scene, int turns, const char *awaited)
{
    static int64_t begun_s;

    if (turns == 1) {
        begun_s = skip_clock_real_s();
    } else if (skip_clock_real_s() - begun_s > LIMIT_S) {
        fail_msg("waited for \"%s\"; there is \"%s\"; the log: %s", awaited,
                 scene->trace + scene->read, scene->told);
    }
    turn(scene, INT64_MAX);
}

int64_t pause_after(const struct scene *scene, int first)
{
    return scene->refreshes[first + 1].before_us - scene->refreshes[first].after_us;
}

void await(struct scene *scene, const char *text)
{
    UNTIL(scene, scene->length >= scene->read + strlen(text) ||
                     strncmp(scene->trace + scene->read, text,
                             scene->length - scene->read) != 0);
    if (strncmp(scene->trace + scene->read, text, strlen(text)) != 0) {
        fail_msg("not \"%s\" but \"%s\"", text, scene->trace + scene->read);
    }
    scene->read += strlen(text);
}

void spend(struct scene *scene, int64_t seconds)
{
    int64_t end_us = lw__now_us() + seconds * 1000000;

    while (lw__now_us() < end_us) {
        turn(scene, end_us);
    }
    pass(scene);
}

void nothing_for(struct scene *scene, int ms)
{
    int64_t end_us = lw__now_us() + (int64_t)ms * LW__MS;

    while (lw__now_us() < end_us) {
        turn(scene, end_us);
    }
    assert_string_equal(scene->trace + scene->read, "");
}

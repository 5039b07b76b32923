/* SPDX-License-Identifier: MIT */
/*
 * The scene of the cluster tests: its clock, set-up and tear-down. The fake nodes are in
 * cluster_fakes.c and fake_nodes.c; the commands and the route's events are in
 * cluster_asked.c.
 */
#include "cluster_scene.h"
#include "cluster_scene_inside.h"
#include "skip_clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the clock ---- */

static void on_kick(void *arg)
{
    (void)arg;
}

void jump(struct scene *scene, int64_t seconds)
{
    skip_clock_by(seconds * 1000000);
    lw__timer_set(scene->nodes.loop, &scene->kick, 0); /* wakes the timers that are due */
}

/* ---- addresses in place of names ---- */

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

/* ---- the scene ---- */

int scene_set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_non_null(scene);
    nodes_set_up(scene, 1);
    lw__timer_init(&scene->kick, on_kick, scene);
    scene->nodes.log.causes = &scene->causes;
    for (int i = 0; i < NODES; i++) {
        add_fake(scene, &scene->n[i], 'N', i + 1);
    }
    map_is(scene, THIRDS);
    scene->options.seeds = scene->seeds;
    scene->options.node =
        (struct lw__node_options){.config = {.loop = scene->nodes.loop,
                                             .log = &scene->nodes.log,
                                             .random = &scene->nodes.random,
                                             .client_name = "test",
                                             .connect_timeout_ms = 60000,
                                             .request_timeout_ms = 60000,
                                             .backoff_min_ms = 5,
                                             .backoff_max_ms = 20},
                                  .uuid = UUID,
                                  .prefix = "",
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

void start_linked(struct scene *scene, const char *seeds)
{
    scene_start(scene, seeds);
    await(scene, "link; led; ");
}

void scene_stop(struct scene *scene)
{
    lw__route_free(scene->route);
    scene->route = NULL;
}

int scene_tear_down(void **state)
{
    scene_stop(*state);
    nodes_tear_down(*state);
    return 0;
}

static bool skips;

void skip_idle_time(bool skip)
{
    skips = skip;
}

void turn(struct scene *scene, int64_t until_us)
{
    uint64_t refreshes = scene->stats.refreshes;
    int64_t before_us = lw__now_us();

    skip_clock_turn(scene->nodes.base, skips ? until_us : 0);
    if (scene->stats.refreshes > refreshes && scene->stats.refreshes <= 64) {
        scene->refreshes[refreshes].after_us = before_us;
        scene->refreshes[refreshes].before_us = lw__now_us();
    }
}

int64_t pause_after(const struct scene *scene, int first)
{
    return scene->refreshes[first + 1].before_us - scene->refreshes[first].after_us;
}

void spend(struct scene *scene, int64_t seconds)
{
    int64_t end_us = lw__now_us() + seconds * 1000000;

    while (lw__now_us() < end_us) {
        turn(scene, end_us);
    }
    pass(scene);
}

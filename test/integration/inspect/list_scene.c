/* SPDX-License-Identifier: MIT */
/* Implements inspect/list_scene.h: on_found records each name, on_listed the end. */
#include "inspect/list_scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct list list;
static bool in_call;

static void judge(const struct lw_client *client, const struct lw_listing *listing,
                  const void *arg)
{
    if (in_call || arg != &list || list.status != PENDING ||
        client != list.peer->client) {
        stage_complain("rule 1 or 2: a callback out of place");
    }
    if (listing->size != sizeof(*listing) || listing->found != list.told ||
        listing->seen < list.seen) {
        stage_complain("it counts wrongly: %llu found, %llu seen",
                       (unsigned long long)listing->found,
                       (unsigned long long)listing->seen);
    }
    list.seen = listing->seen;
    list.keys = listing->keys;
}

/* Records the name, unless it came before. */
static void note(const struct lw_inspection *found)
{
    const struct lw_inspected *holder = lw_inspection_holder(found, 0);
    char line[sizeof(*list.names)];

    (void)snprintf(line, sizeof(line), "%s:%c", found->name,
                   holder != NULL ? "mwr"[holder->mode] : '?');
    for (size_t i = 0; i < list.count; i++) {
        if (strcmp(list.names[i], line) == 0) {
            return;
        }
    }
    if (list.count < sizeof(list.names) / sizeof(*list.names)) {
        memcpy(list.names[list.count++], line, sizeof(line));
    }
}

static int on_found(struct lw_client *client, const struct lw_inspection *found,
                    const struct lw_listing *listing, void *arg)
{
    list.told += found != NULL;
    list.steps += found == NULL;
    judge(client, listing, arg);
    if (found != NULL) {
        note(found);
    }
    if (list.then != NULL) {
        list.then(list.peer);
    }
    return list.stops_at > 0 && (int)(list.told + list.steps) >= list.stops_at;
}

static void on_listed(struct lw_client *client, int status,
                      const struct lw_listing *listing, const char *why, void *arg)
{
    judge(client, listing, arg);
    list.status = status;
    (void)snprintf(list.why, sizeof(list.why), "%s", why);
    stage_note("listed %s", status_name(status));
}

void call_list(struct peer *peer, const char *pattern)
{
    int stops_at = list.stops_at;
    void (*then)(struct peer *) = list.then;

    memset(&list, 0, sizeof(list));
    list.peer = peer;
    list.status = PENDING;
    list.stops_at = stops_at;
    list.then = then;
    in_call = true;
    int result = lw_list(peer->client, pattern, on_found, on_listed, &list);
    in_call = false;
    if (result != LW_OK) {
        stage_complain("lw_list: %s: %s", status_name(result), peer->error);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

const char *listed(void)
{
    static char text[65536];
    size_t used = 0;

    text[0] = '\0';
    qsort(list.names, list.count, sizeof(*list.names), by_text);
    for (size_t i = 0; i < list.count; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i ? " " : "",
                                 list.names[i]);
    }
    return text;
}

void list_all(struct peer *peer, const char *pattern)
{
    call_list(peer, pattern);
    UNTIL(list.status != PENDING);
    if (list.status != LW_OK) {
        stage_fail("lw_list: %s: %s", status_name(list.status), list.why);
    }
    stage_clear_trace();
}

void begin_listing(void)
{
    list.then = NULL;
    list.stops_at = 0;
    three_clients();
}

struct hold *hold_as(struct peer *peer, const char *name, enum lw_mode mode,
                     const char *owner)
{
    struct hold *hold = acquire_hold_with(
        peer, name, name, asking(.mode = mode, .owner = owner, .wait_ms = -1));

    UNTIL(hold->result != PENDING);
    assert_int_equal(hold->result, LW_OK);
    stage_clear_trace();
    return hold;
}

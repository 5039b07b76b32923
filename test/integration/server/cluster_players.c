/* SPDX-License-Identifier: MIT */
/* See cluster_players.h. */
#include "cluster_players.h"

#include <stdio.h>

const struct kind kinds[KINDS] = {
    {"a mutex", LW_MUTEX, LW_MUTEX, 0},
    {"a writer behind a writer", LW_EXCLUSIVE, LW_EXCLUSIVE, 0},
    {"a reader behind a writer", LW_EXCLUSIVE, LW_SHARED, 0},
    {"a writer behind a reader", LW_SHARED, LW_EXCLUSIVE, 0},
    {"a permit", LW_SHARED, LW_SHARED, 1},
};

static struct peer *start(const char *label, lw_asked_cb *asked, uint32_t timeout_ms)
{
    struct peer *peer =
        peer_start_at(label, cluster_url(),
                      client_of(.local_turns = 1, .backoff_max_ms = 200,
                                .request_timeout_ms = timeout_ms,
                                .connect_timeout_ms = 2000, .asked_to_yield = asked));

    UNTIL(peer->up);
    return peer;
}

struct peer *client(const char *label)
{
    return start(label, NULL, 2000);
}

struct peer *client_that_is_asked(const char *label, uint32_t request_timeout_ms)
{
    return start(label, on_asked, request_timeout_ms);
}

const char *name_at(int node, int number)
{
    static char names[4][16];
    static int next;
    char *name = names[next++ % 4];

    for (int i = 0, found = -1; found < number; i++) {
        (void)snprintf(name, sizeof(names[0]), "n%d", i);
        found += cluster_owner(cluster_slot(name)) == node;
    }
    return name;
}

int slot_of(const struct hold *hold)
{
    return cluster_slot(lw_lock_name(hold->lock));
}

static struct hold *ask_as(struct peer *peer, const char *label, const char *name,
                           enum lw_mode mode, uint32_t permits, uint32_t lease_ms)
{
    return acquire_hold_with(peer, label, name,
                             asking(.mode = mode,
                                    .permits = mode == LW_SHARED ? permits : 0,
                                    .wait_ms = -1, .lease_ms = lease_ms));
}

static void granted(struct hold *hold)
{
    UNTIL(hold->result != PENDING);
    if (hold->result != LW_OK) {
        stage_fail("%s %s: %s", hold->label, status_name(hold->result),
                   lw_lock_errstr(hold->lock));
    }
    stage_clear_trace();
}

struct hold *hold_of(struct peer *peer, const char *label, const char *name,
                     const struct kind *kind, uint32_t lease_ms)
{
    struct hold *hold = ask_as(peer, label, name, kind->holder, kind->permits, lease_ms);

    granted(hold);
    return hold;
}

static int answers; /* to lw_inspect */

static void on_inspected(struct lw_client *looking, int status,
                         const struct lw_inspection *found, const char *why, void *arg)
{
    (void)looking, (void)status, (void)found, (void)why, (void)arg;
    answers++;
}

/* Waits until the client has received the replies to all its earlier commands. */
static void all_is_answered(struct peer *peer, const char *name)
{
    int before = answers;

    assert_int_equal(lw_inspect(peer->client, name, on_inspected, NULL), 0);
    UNTIL(answers > before);
}

struct hold *queue_behind(struct peer *peer, const char *label, const struct hold *holder,
                          const struct kind *kind)
{
    const char *name = lw_lock_name(holder->lock);
    struct hold *hold;

    cluster_need_places();
    hold = ask_as(peer, label, name, kind->waiter, kind->permits, 0);
    cluster_ask_owner(cluster_slot(name));
    UNTIL(redis_int("ZCARD lockwire:2:%s:{%s}",
                    kind->waiter == LW_MUTEX ? "queue" : "rwqueue", name) == 1);
    all_is_answered(peer, name);
    return hold;
}

void pass_on(struct hold *from, struct hold *to)
{
    assert_int_equal(to->result, PENDING);
    release_hold(from);
    granted(to);
    UNTIL(from->released != PENDING);
    assert_int_equal(from->released, LW_OK);
    assert_true(to->fence > from->fence);
    assert_held(to);
    stage_clear_trace();
}

void hand_over(struct hold *from, struct hold *to)
{
    uint64_t before = peer_stats(to->peer).handed_over;

    pass_on(from, to);
    assert_int_equal(peer_stats(to->peer).handed_over, before + 1);
}

void end(struct hold *hold)
{
    release_hold(hold);
    UNTIL(hold->released != PENDING);
    assert_int_equal(hold->released, LW_OK);
    free_hold(hold);
    stage_clear_trace();
}

void assert_held(const struct hold *hold)
{
    cluster_ask_owner(slot_of(hold));
    assert_held_by_redis(hold);
}

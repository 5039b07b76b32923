/* SPDX-License-Identifier: MIT */
/*
 * The n-th allocation fails, as in memory.c, for clients of a quorum of three servers.
 * Whatever fails, a grant is believed only if a majority of the servers has the key.
 *
 * Usual course: lives(), once for each kind of life and each way to fail. */
#include "allocator.h"
#include "guard_record.h"
#include "lives.h"
#include "players.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVERS 3
#define MAJORITY 2
#define GUARD_MS 45000 /* the default of a quorum's clients */

static struct server further[SERVERS - 1];
static char url[128];
static life_function *lived;
static int stranger_ms;

static struct server *server_at(int index)
{
    return index == 0 ? &stage.server : &further[index - 1];
}

static void stop_further(bool in_good_order)
{
    (void)in_good_order;
    for (int i = 0; i < SERVERS - 1; i++) {
        if (further[i].dir[0] != 0) {
            server_stop(&further[i]);
        }
    }
    life_deletes = life_granted = NULL;
    life_is_settled = NULL;
}

/* ---- the servers that a life does not know ---- */

/* A foreign holder has the key there for a while. Otherwise the holder might be granted
 * one of its votes again before it misses the others. In an undisturbed life that must
 * not happen, and the time is long enough for a slow machine. */
static void take_further(const char *key)
{
    for (int i = 0; i < SERVERS - 1; i++) {
        freeReplyObject(
            server_command(&further[i], "SET %s stranger PX %d", key, stranger_ms));
    }
}

static int servers_that_hold(const char *name)
{
    int held = 0;

    for (int i = 0; i < SERVERS; i++) {
        redisReply *reply = server_command(server_at(i), "GET %s", name);

        held += reply->str != NULL && strcmp(reply->str, "stranger") != 0;
        freeReplyObject(reply);
    }
    return held;
}

static bool all_votes_are_granted(const char *name)
{
    return servers_that_hold(name) == SERVERS;
}

/* The keys outlive the deadline, so they are there if the callback came in time. */
static void check_grant(const char *name)
{
    int64_t begin = now_ms();
    int held = servers_that_hold(name);

    if (held < MAJORITY && now_ms() - begin < 20) { /* else the lease may have expired */
        stage_complain("%s is granted, and held at %d servers", name, held);
    }
}

static void clear_servers(void)
{
    for (int i = 0; i < SERVERS; i++) {
        freeReplyObject(server_command(server_at(i), "FLUSHALL"));
        guard_record_open_in(server_at(i), GUARD_MS, 0);
    }
}

static void check_further_keys(void)
{
    redisContext *own = stage.server.admin;

    for (int i = 0; i < SERVERS - 1; i++) {
        stage.server.admin = further[i].admin;
        lives_check_keys();
    }
    stage.server.admin = own;
}

/* ---- lives ---- */

static int live(const char *at, int64_t wait_ms)
{
    bool armed = allocator_pause();
    int good;

    clear_servers();
    stranger_ms = wait_ms == STAGE_WAIT_MS ? 3000 : 200;
    allocator_resume(armed);
    good = lived(at, wait_ms);
    armed = allocator_pause();
    check_further_keys();
    allocator_resume(armed);
    return good;
}

static void live_at_quorum(life_function *life, bool always)
{
    int length = snprintf(url, sizeof(url), "redis-quorum://127.0.0.1:%d",
                          server_listen(&stage.server));

    stage_at_exit(stop_further);
    stage.keys_may_stay = stage.notes_may_stay = true;
    for (int i = 0; i < SERVERS - 1; i++) {
        server_start(&further[i], NULL);
        length += snprintf(url + length, sizeof(url) - (size_t)length, ",127.0.0.1:%d",
                           server_listen(&further[i]));
    }
    life_deletes = take_further;
    life_granted = check_grant;
    life_is_settled = all_votes_are_granted;
    lived = life;
    lives(live, url, always, 1);
}

#define LIFE(name)                                                                       \
    static void name##__one_allocation_fails(void **state)                               \
    {                                                                                    \
        (void)state;                                                                     \
        live_at_quorum(life_##name, false);                                              \
    }                                                                                    \
    static void name##__all_allocations_fail(void **state)                               \
    {                                                                                    \
        (void)state;                                                                     \
        live_at_quorum(life_##name, true);                                               \
    }

LIFE(mutex)
LIFE(turns)
LIFE(kept_mutex)
LIFE(minority)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(mutex__one_allocation_fails),
        STAGE_TEST(mutex__all_allocations_fail),
        STAGE_TEST(turns__one_allocation_fails),
        STAGE_TEST(turns__all_allocations_fail),
        STAGE_TEST(kept_mutex__one_allocation_fails),
        STAGE_TEST(minority__one_allocation_fails),
        STAGE_TEST(minority__all_allocations_fail),
        STAGE_TEST(kept_mutex__all_allocations_fail),
    };

    allocator_install();
    return STAGE_RUN(tests);
}

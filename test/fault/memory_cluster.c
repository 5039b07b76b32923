/* SPDX-License-Identifier: MIT */
/*
 * The n-th allocation fails, as in memory.c, for clients of a cluster: a dead seed and
 * two masters. The second master has at most the slot of the present name. In the course
 * of each life that slot begins to move to it, with the name's key ahead of the others.
 * The move ends after the lock was released; a mutex has by then passed to its waiter,
 * during the move. Later the slot moves back.
 *
 * Usual course: lives(), once for each kind of life and each way to fail.
 */
#include "allocator.h"
#include "cluster.h"
#include "lives.h"
#include "players.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static redisContext *own_admin;
static int dead_seed;
static life_function *lived;

/* Directs the queries for the stage's server to this node. */
static void look_at_node(int node)
{
    stage.server.admin = cluster_server(node)->admin;
}

static void leave(bool in_good_order)
{
    (void)in_good_order;
    stage.server.admin = own_admin;
    close(dead_seed);
    life_meanwhile = NULL;
    life_is_settled = NULL;
    life_polls = false;
}

/* Returns true if the server is Redis 7.0 or later. */
static bool has_shards(void)
{
    redisReply *reply = server_command(cluster_server(0), "COMMAND INFO SPUBLISH");
    bool yes = reply->element[0]->type == REDIS_REPLY_ARRAY;

    freeReplyObject(reply);
    return yes;
}

/* ---- a slot moves ---- */

static void travel(const char *name, enum life_moment moment)
{
    int slot = cluster_slot(name);

    switch (moment) {
    case LIFE_WANTED:
        cluster_begin(slot, 1);
        cluster_carry_key(name, 1);
        break;
    case LIFE_LEFT:
        cluster_carry(slot, 1, -1);
        cluster_end(slot, 1);
        look_at_node(1);
        break;
    case LIFE_PASSED:
        cluster_move(slot, 0);
        look_at_node(0);
        break;
    }
}

static void go_home(const char *name, enum life_moment moment)
{
    (void)moment;
    cluster_move(cluster_slot(name), 0);
}

/* Returns true if no client is connected to the node that the name came from. */
static bool is_left(const char *name)
{
    (void)name;
    redisReply *reply = server_command(cluster_server(1), "CLIENT LIST");
    bool left = strstr(reply->str, "name=lockwire") == NULL;

    freeReplyObject(reply);
    return left;
}

/* ---- lives ---- */

/* Also clears and checks the other node. */
static int live(const char *url, int64_t wait_ms)
{
    bool armed = allocator_pause();
    int good;

    look_at_node(1);
    redis_ok("FLUSHALL");
    if (life_is_settled != NULL) {
        cluster_move(cluster_slot("m"), 1);
    }
    look_at_node(0);
    allocator_resume(armed);
    good = lived(url, wait_ms);
    armed = allocator_pause();
    look_at_node(1);
    lives_check_keys();
    look_at_node(0);
    allocator_resume(armed);
    return good;
}

static void live_in_cluster(life_function *life, bool always)
{
    char url[160];
    int port = 0;

    dead_seed = server_reserve_port(&port);
    own_admin = stage.server.admin;
    stage_at_exit(leave);
    cluster_set(1, 0, "--cluster-allow-replica-migration no");
    (void)cluster_add();
    (void)snprintf(url, sizeof(url), "redis-cluster://127.0.0.1:%d,%s", port,
                   cluster_hosts());
    look_at_node(0);
    life_polls = !has_shards();
    lived = life;
    lives(live, url, always, 1);
}

static void live_while_it_moves(life_function *life, bool always)
{
    life_meanwhile = travel;
    live_in_cluster(life, always);
}

#define LIFE(name)                                                                       \
    static void name##__one_allocation_fails(void **state)                               \
    {                                                                                    \
        (void)state;                                                                     \
        live_while_it_moves(life_##name, false);                                         \
    }                                                                                    \
    static void name##__all_allocations_fail(void **state)                               \
    {                                                                                    \
        (void)state;                                                                     \
        live_while_it_moves(life_##name, true);                                          \
    }

LIFE(mutex)
LIFE(readwrite)
LIFE(semaphore)
LIFE(inquiries)

/* When the name has moved, the node that it came from has no slot left. The client learns
 * this a second later. */
static void live_until_it_is_let_go(bool always)
{
    life_meanwhile = go_home;
    life_is_settled = is_left;
    live_in_cluster(life_moved, always);
}

static void moved__one_allocation_fails(void **state)
{
    (void)state;
    live_until_it_is_let_go(false);
}

static void moved__all_allocations_fail(void **state)
{
    (void)state;
    live_until_it_is_let_go(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(mutex__one_allocation_fails),
        STAGE_TEST(mutex__all_allocations_fail),
        STAGE_TEST(readwrite__one_allocation_fails),
        STAGE_TEST(readwrite__all_allocations_fail),
        STAGE_TEST(semaphore__one_allocation_fails),
        STAGE_TEST(semaphore__all_allocations_fail),
        STAGE_TEST(inquiries__one_allocation_fails),
        STAGE_TEST(inquiries__all_allocations_fail),
        STAGE_TEST(moved__one_allocation_fails),
        STAGE_TEST(moved__all_allocations_fail),
    };

    allocator_install();
    return STAGE_RUN(tests);
}

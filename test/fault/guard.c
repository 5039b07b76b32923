/* SPDX-License-Identifier: MIT */
/*
 * Locks at a master that three sentinels replace while its replicas do not have its last
 * writes: with guard_ms no two owners hold one lock, without it some do. The clients
 * without the guard are the canary: if they did not overlap, the other tests would prove
 * nothing.
 *
 * Client a uses no sentinel, as if it were cut off from them: it stays at the old master,
 * and continues to acquire locks there. Client b waits for each of them, and follows the
 * sentinels to the new master, which does not know them.
 *
 * Fails if two owners hold a lock with the guard, if no two do without it, and if a
 * waiter is not granted its lock in the end. */
#include "guard_record.h"
#include "players.h"
#include "trio.h"

#include <stdio.h>
#include <string.h>

#define GUARD_MS 20000
#define LEASE_MS 8000 /* the longest that GUARD_MS allows */
#define NAMES 40      /* acquiring all takes longer than the old master grants any */
#define EVERY_MS 400

static struct {
    struct peer *a, *b;
    struct hold *owners[NAMES], *waiters[NAMES];
    int count;
    bool guarded;
} scene;

static struct peer *start(const char *label, const char *url)
{
    struct peer *peer = peer_start_at(
        label, url,
        client_of(.local_turns = 1, .guard_ms = scene.guarded ? GUARD_MS : LW_GUARD_NONE,
                  .backoff_min_ms = 10, .backoff_max_ms = 200, .request_timeout_ms = 1000,
                  .connect_timeout_ms = 1000));

    UNTIL(peer->up);
    return peer;
}

static void set_scene(bool guarded)
{
    memset(&scene, 0, sizeof(scene));
    scene.guarded = guarded;
    trio_set("--min-replicas-to-write 1 --min-replicas-max-lag 10");
    guard_record_open_in(trio_master(), GUARD_MS, 0); /* as if it had started long ago */
    scene.a = start("a", trio_master()->url);
    scene.b = start("b", trio_url());
}

/* Acquires one more lock for client a, for which client b waits. Returns false if a was
 * not granted the lock. */
static bool grant_one(void)
{
    struct hold **owner = &scene.owners[scene.count],
                **waiter = &scene.waiters[scene.count];
    char name[16], label[16];

    (void)snprintf(name, sizeof(name), "lock-%d", scene.count);
    (void)snprintf(label, sizeof(label), "A%d", scene.count);
    *owner = acquire_hold_with(scene.a, label, name, asking(.lease_ms = LEASE_MS));
    UNTIL((*owner)->result != PENDING);
    if ((*owner)->result != LW_OK) {
        return false;
    }
    label[0] = 'B';
    *waiter = acquire_hold_with(scene.b, label, name,
                                asking(.wait_ms = -1, .lease_ms = LEASE_MS));
    scene.count++;
    return true;
}

/* Acquires locks until the old master refuses, or until there are enough of them. */
static void grant_while_it_takes_writes(void)
{
    while (scene.count < NAMES && grant_one()) {
        stage_run_for(EVERY_MS);
    }
}

/* Returns how many locks of client a were granted to client b before a had lost them. */
static int overlaps(void)
{
    int count = 0;

    for (int i = 0; i < scene.count; i++) {
        const struct hold *owner = scene.owners[i], *waiter = scene.waiters[i];

        count += waiter->result == LW_OK &&
                 (owner->lost == PENDING || owner->lost_ms > waiter->result_ms);
    }
    return count;
}

static bool all_are_granted(void)
{
    for (int i = 0; i < scene.count; i++) {
        if (scene.waiters[i]->result == PENDING) {
            return false;
        }
    }
    return true;
}

static void end_scene(void)
{
    UNTIL(all_are_granted());
    stage_clear_trace();
    (void)fprintf(stderr, "%s: %d locks, %d had two owners\n", stage.test, scene.count,
                  overlaps());
    assert_true(scene.count > 0);
    if (scene.guarded) {
        assert_int_equal(overlaps(), 0);
    } else {
        assert_true(overlaps() > 0);
    }
}

/* The old master and its clients are parted from all others. The old master continues to
 * grant locks for as long as min-replicas-max-lag allows. */
static void part(bool guarded)
{
    set_scene(guarded);
    trio_part_servers(trio_gate(trio_leader()), true);
    grant_while_it_takes_writes();
    trio_switched();
    end_scene();
}

/* The old master dies a moment after its replicas have been cut off. */
static void kill_it(bool guarded)
{
    struct proxy *gate;

    set_scene(guarded);
    gate = trio_gate(trio_leader());
    trio_part_servers(gate, true);
    for (int i = 0; i < 4; i++) {
        assert_true(grant_one());
    }
    server_kill(trio_master());
    proxy_cut(gate, SERVERS);
    trio_part_servers(gate, false);
    trio_switched();
    end_scene();
}

static void parted_master__with_the_guard_no_lock_has_two_owners(void **state)
{
    (void)state;
    part(true);
}

static void parted_master__without_it_some_have(void **state)
{
    (void)state;
    part(false);
}

static void killed_master__with_the_guard_no_lock_has_two_owners(void **state)
{
    (void)state;
    kill_it(true);
}

static void killed_master__without_it_some_have(void **state)
{
    (void)state;
    kill_it(false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(parted_master__with_the_guard_no_lock_has_two_owners),
        STAGE_TEST(parted_master__without_it_some_have),
        STAGE_TEST(killed_master__with_the_guard_no_lock_has_two_owners),
        STAGE_TEST(killed_master__without_it_some_have),
    };

    cmocka_set_test_filter(getenv("LOCKWIRE_TEST"));
    return cmocka_run_group_tests(tests, trio_open, trio_close);
}

/* SPDX-License-Identifier: MIT */
/*
 * The n-th allocation fails, for every n of each kind of life: that one alone, or all
 * from it on. Whatever fails, every call is refused with LW_ENOMEM or ends by exactly one
 * callback, a release is accepted, no memory leaks, and no key stays without a lease. The
 * allocations are those of lockwire, of hiredis, and of libevent on their behalf; the
 * host's event_base is created before. Independent of how the library allocates.
 *
 * spared.c lists what hiredis 0.14.1 cannot guarantee here; there are no other
 * exceptions.
 *
 * Usual course: lives(), once for each kind of life and each way to fail.
 */
#include "allocator.h"
#include "lives.h"
#include "players.h"
#include "sentinel.h"

#include <stdio.h>

#define LIFE(name)                                                                       \
    static void name##__one_allocation_fails(void **state)                               \
    {                                                                                    \
        (void)state;                                                                     \
        lives(life_##name, stage.server.url, false, 1);                                  \
    }                                                                                    \
    static void name##__all_allocations_fail(void **state)                               \
    {                                                                                    \
        (void)state;                                                                     \
        lives(life_##name, stage.server.url, true, 1);                                   \
    }

LIFE(mutex)
LIFE(turns)
LIFE(readwrite)
LIFE(upgrade)
LIFE(semaphore)
LIFE(detached)
LIFE(redisson)
LIFE(inquiries)
LIFE(keep)
LIFE(several)

/* While resolving, libevent's own allocations do not fail. Without memory for its
 * deferred call, evdns (reply_schedule_callback, libevent 2.1.12) silently drops an
 * answer and frees the request, which the caller may still cancel by its pointer. */
#define NOWHERE "redis://nowhere.invalid"

static void resolving__one_allocation_fails(void **state)
{
    (void)state;
    allocator_spare_libevent(true);
    lives(life_in_vain, NOWHERE, false, 1);
    allocator_spare_libevent(false);
}

static void resolving__all_allocations_fail(void **state)
{
    (void)state;
    allocator_spare_libevent(true);
    lives(life_in_vain, NOWHERE, true, 1);
    allocator_spare_libevent(false);
}

/* ---- by a sentinel ---- */

static struct sentinel sentinel;

static void sentinel_leaves(bool in_good_order)
{
    (void)in_good_order;
    sentinel_stop(&sentinel);
}

static void live_by_sentinel(bool always)
{
    stage_at_exit(sentinel_leaves);
    sentinel_start(&sentinel, server_listen(&stage.server), "");
    lives(life_mutex, sentinel.url, always, 1);
}

static void sentinel__one_allocation_fails(void **state)
{
    (void)state;
    live_by_sentinel(false);
}

static void sentinel__all_allocations_fail(void **state)
{
    (void)state;
    live_by_sentinel(true);
}

/* ---- a release without any memory ----
 * A release that finds no memory takes the link down, and is sent again on the next
 * link. */

static struct hold *held_and_waited_for(struct hold **ret_waiter)
{
    struct peer *a = peer_ready("a", client_of(.backoff_max_ms = 50));
    struct peer *b = peer_ready("b", client_of(.backoff_max_ms = 50));
    struct hold *before = acquire_and_wait(a, "", "x"), *holder;

    stage.notes_may_stay = true; /* a link may be down for lack of memory at the end */
    release_hold(before);
    UNTIL(before->released == LW_OK);
    holder = acquire_and_wait(a, "A", "x");
    stage_clear_trace();
    *ret_waiter = acquire_hold(b, "B", "x", STAGE_WAIT_MS);
    wait_queued("x", 1);
    return holder;
}

static void turn_without_memory(void)
{
    for (int i = 0; i < 20; i++) {
        event_base_loop(stage.base, EVLOOP_ONCE);
    }
}

static void release_without_memory_is_sent_when_there_is_some(void **state)
{
    struct hold *waiter, *holder = held_and_waited_for(&waiter);

    (void)state;
    allocator_arm(1, true);
    release_hold(holder);
    turn_without_memory();
    allocator_disarm();
    UNTIL(holder->released != PENDING && waiter->result != PENDING);
    assert_int_equal(holder->released, LW_OK);
    assert_int_equal(waiter->result, LW_OK);
    stage_clear_trace();
}

static void free_without_memory_releases_when_there_is_some(void **state)
{
    struct hold *waiter, *holder = held_and_waited_for(&waiter);

    (void)state;
    allocator_arm(1, true);
    free_hold(holder);
    turn_without_memory();
    allocator_disarm();
    UNTIL(waiter->result != PENDING);
    assert_int_equal(waiter->result, LW_OK);
    stage_clear_trace();
}

/* ---- calls without memory for a text ----
 * A call whose n-th allocation fails is refused, or keeps its whole promise. */

static void note_status(struct lw_lock *lock, int status, void *arg)
{
    (void)lock;
    *(int *)arg = status;
}

/* Without its token an adoption would be an acquisition, which the detached lock
 * refuses. */
static void an_adoption_without_memory_is_refused_or_adopts(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    bool failed = true; /* the allocation; else the call needed fewer */

    (void)state;
    for (long at = 1; failed; at++) {
        struct hold *before = acquire_and_wait(a, "A", "x");
        static int result;
        int status;
        struct lw_lock *lock;
        char token[96];

        result = PENDING;
        (void)snprintf(token, sizeof(token), "%s", lw_lock_token(before->lock));
        detach_hold(before, STAGE_WAIT_MS);
        UNTIL(before->released == LW_OK);
        allocator_arm(at, false);
        status = lw_adopt(a->client, "x", token, NULL, note_status, &result, &lock);
        failed = allocator_disarm() >= at;
        if (status == LW_OK) {
            UNTIL(result != PENDING);
            assert_true(result == LW_OK || result == LW_ECONN); /* links need memory */
            lw_lock_free(lock);
        } else {
            assert_int_equal(status, LW_ENOMEM);
        }
        if (result == LW_OK) {
            UNTIL(redis_int("EXISTS x") == 0);
        } else {
            redis_ok("DEL x");
        }
        free_hold(before);
        stage_clear_trace();
    }
}

static void note_gain(struct lw_keep *keep, int status, void *arg)
{
    (void)keep;
    *(int *)arg = status;
}

static void a_keep_without_memory_is_refused_or_has_its_owner(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    bool failed = true; /* the allocation; else the call needed fewer */

    (void)state;
    for (long at = 1; failed; at++) {
        struct lw_keep *keep;
        int status, gained = PENDING;

        allocator_arm(at, false);
        status = lw_keep_new(a->client, "x",
                             asking(.mode = LW_EXCLUSIVE, .owner = "anna", .wait_ms = -1),
                             note_gain, NULL, &gained, &keep);
        failed = allocator_disarm() >= at;
        if (status == LW_OK) {
            UNTIL(gained == LW_OK);
            assert_string_equal(lw_lock_owner(lw_keep_lock(keep)), "anna");
            lw_keep_free(keep);
            UNTIL(redis_int("EXISTS x") == 0);
        } else {
            assert_int_equal(status, LW_ENOMEM);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(release_without_memory_is_sent_when_there_is_some),
        STAGE_TEST(free_without_memory_releases_when_there_is_some),
        STAGE_TEST(an_adoption_without_memory_is_refused_or_adopts),
        STAGE_TEST(a_keep_without_memory_is_refused_or_has_its_owner),
        STAGE_TEST(resolving__one_allocation_fails),
        STAGE_TEST(resolving__all_allocations_fail),
        STAGE_TEST(sentinel__one_allocation_fails),
        STAGE_TEST(sentinel__all_allocations_fail),
        STAGE_TEST(mutex__one_allocation_fails),
        STAGE_TEST(mutex__all_allocations_fail),
        STAGE_TEST(turns__one_allocation_fails),
        STAGE_TEST(turns__all_allocations_fail),
        STAGE_TEST(readwrite__one_allocation_fails),
        STAGE_TEST(readwrite__all_allocations_fail),
        STAGE_TEST(upgrade__one_allocation_fails),
        STAGE_TEST(upgrade__all_allocations_fail),
        STAGE_TEST(semaphore__one_allocation_fails),
        STAGE_TEST(semaphore__all_allocations_fail),
        STAGE_TEST(detached__one_allocation_fails),
        STAGE_TEST(detached__all_allocations_fail),
        STAGE_TEST(redisson__one_allocation_fails),
        STAGE_TEST(redisson__all_allocations_fail),
        STAGE_TEST(inquiries__one_allocation_fails),
        STAGE_TEST(inquiries__all_allocations_fail),
        STAGE_TEST(keep__one_allocation_fails),
        STAGE_TEST(keep__all_allocations_fail),
        STAGE_TEST(several__one_allocation_fails),
        STAGE_TEST(several__all_allocations_fail),
    };

    allocator_install();
    return STAGE_RUN(tests);
}

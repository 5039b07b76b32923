/* SPDX-License-Identifier: MIT */
/* cells.h's scenes and checks. */
#include "cells.h"

#include "cluster.h"

#include <stdio.h>
#include <stdlib.h>

static const struct way ways[] = {
    {"turns_off", LW_MUTEX, LW_MUTEX, 0, 1, false, NULL, "", ""},
    {"turns_on", LW_MUTEX, LW_MUTEX, 0, 16, true, "team:", "", ""},
    {"exclusive", LW_EXCLUSIVE, LW_EXCLUSIVE, 0, 16, false, NULL, "w", "w"},
    {"writer_waits", LW_SHARED, LW_EXCLUSIVE, 0, 16, false, NULL, "r", "w"},
    {"readers_wait", LW_EXCLUSIVE, LW_SHARED, 0, 16, true, "team:", "w", "r"},
    {"semaphore", LW_SHARED, LW_SHARED, 1, 16, false, NULL, "r - 1", "r - 1"},
    {"redisson", LW_REDISSON, LW_REDISSON, 0, 16, false, NULL, "j", "j"},
};
#define WAYS (sizeof(ways) / sizeof(*ways))

const struct way *way;
bool smoke;

/* ---- the tests: each cell in each requested way ---- */

struct played {
    struct stage_test test; /* must be first, for the stage */
    const struct cell *cell;
    const struct way *way;
    bool smoke;
    char name[128];
};

static void play(void **state)
{
    const struct played *played = *state;

    way = played->way;
    stage.prefix = way->prefix;
    /* The identity note of a client that closes during an outage stays until its TTL. */
    stage.notes_may_stay = true;
    played->cell->function();
}

static bool is_wanted(char *const *words, const struct cell *cell, size_t number,
                      size_t index)
{
    size_t count = cell->ours ? WAYS - 1 : WAYS; /* Redisson's is the last */

    if (index >= count) {
        return false;
    }
    if (words[0] == NULL) {
        return true;
    }
    if (smoke) {
        return number % count == index;
    }
    for (; *words != NULL; words++) {
        if (strcmp(*words, ways[index].name) == 0) {
            return true;
        }
    }
    return false;
}

int cells_run(const struct cell *cells, size_t count, char *const *words,
              int (*open)(void **state), int (*close)(void **state))
{
    struct CMUnitTest *tests = calloc(count * WAYS, sizeof(*tests));
    struct played *played = calloc(count * WAYS, sizeof(*played));
    size_t used = 0;

    if (tests == NULL || played == NULL) {
        abort();
    }
    smoke = words[0] != NULL && strcmp(words[0], "smoke") == 0;
    for (size_t i = 0; i < count * WAYS; i++) {
        struct played *next = &played[used];

        if (!is_wanted(words, &cells[i / WAYS], i / WAYS, i % WAYS)) {
            continue;
        }
        next->cell = &cells[i / WAYS];
        next->way = &ways[i % WAYS];
        (void)snprintf(next->name, sizeof(next->name), "%s__%s", next->cell->name,
                       next->way->name);
        next->test = (struct stage_test){next->name, play};
        tests[used++] =
            (struct CMUnitTest){next->name, stage_play, stage_set, stage_strike, next};
    }
    cmocka_set_test_filter(getenv("LOCKWIRE_TEST"));
    int failed = used > 0 ? _cmocka_run_group_tests("cells", tests, used, open, close)
                          : 1;
    free(tests);
    free(played);
    return failed;
}

/* ---- the scene ---- */

struct peer *client_at(const char *label, const char *url)
{
    struct peer *peer = peer_start_at(
        label, url,
        client_of(.local_turns = way->turns, .claim_ms = 1000,
                  .request_timeout_ms = REQUEST_MS, .connect_timeout_ms = REQUEST_MS,
                  .backoff_max_ms = 200, .close_timeout_ms = 3000));

    peer_wait_ready(peer);
    return peer;
}

static struct hold *ask_as(struct peer *peer, const char *label, const char *name,
                           enum lw_mode mode, int64_t wait_ms, uint32_t lease_ms)
{
    return acquire_hold_with(peer, label, name,
                             asking(.mode = mode,
                                    .permits = mode == LW_SHARED ? way->permits : 0,
                                    .wait_ms = wait_ms, .lease_ms = lease_ms));
}

struct hold *ask_to_hold(struct peer *peer, const char *label, int64_t wait_ms,
                         uint32_t lease_ms)
{
    return ask_as(peer, label, "x", way->holder, wait_ms, lease_ms);
}

struct hold *ask_to_wait(struct peer *peer, const char *label, int64_t wait_ms,
                         uint32_t lease_ms)
{
    return ask_as(peer, label, "x", way->waiter, wait_ms, lease_ms);
}

struct hold *own(struct peer *peer, uint32_t lease_ms)
{
    struct hold *owner = ask_to_hold(peer, "A", STAGE_WAIT_MS, lease_ms);

    EXPECT("A granted");
    return owner;
}

void wait_in_line(long long members)
{
    static const char count[] = "return redis.call('PUBSUB', 'NUMSUB', "
                                "'redisson_lock__channel:{x}')[2]";

    if (way->waiter == LW_REDISSON) {
        UNTIL(redis_int("EVAL %s 0", count) > 0);
    } else if (way->waiter == LW_MUTEX) {
        wait_queued("x", members);
    } else {
        UNTIL(redis_int("ZCARD %slockwire:2:rwqueue:{%s}",
                        way->prefix != NULL ? way->prefix : "", key_of("x")) == members);
    }
}

struct hold *stand_behind(struct peer *waiter, struct hold *holder, int64_t wait_ms)
{
    struct hold *first;

    if (cluster_count() > 0) {
        cluster_need_places();
    }
    first = ask_to_wait(waiter, "B", wait_ms, holder != NULL ? LONG_MS : 0);
    if (way->sibling) {
        first->aim = ask_to_wait(waiter, "C", wait_ms, 0);
    }
    wait_in_line(way->waiter == LW_MUTEX || !way->sibling ? 1 : 2);
    return first;
}

void leave_detached(struct hold *owner, uint32_t keep_ms)
{
    detach_hold(owner, keep_ms);
    EXPECT("A detached OK");
}

struct hold *ask_to_adopt(struct peer *peer, const struct hold *earlier, int64_t wait_ms,
                          uint32_t lease_ms)
{
    return adopt_hold(
        peer, "D", "x", lw_lock_token(earlier->lock),
        asking(.mode = way->holder, .wait_ms = wait_ms, .lease_ms = lease_ms));
}

bool is_held_by(const char *token)
{
    if (way->holder == LW_MUTEX) { /* the last character is the queue mark */
        return strncmp(redis_text("GET %s", key_of("x")), token, strlen(token) - 1) == 0;
    }
    return redis_int("HEXISTS %s h:%s", key_of("x"), token) == 1;
}

/* ---- the checks ---- */

int64_t late_ms(void)
{
    return 500 + 3 * stage.worst_lag_ms;
}

void expect_O1(struct hold *owner, int64_t since_ms, uint32_t lease_ms)
{
    UNTIL(owner->lost != PENDING);
    if (owner->lost_ms > since_ms + lease_ms + late_ms()) {
        stage_fail("O1: lost after %lld ms with a lease of %u",
                   (long long)(owner->lost_ms - since_ms), lease_ms);
    }
    assert_int_equal(lw_lock_state(owner->lock), LW_LOST);
    stage_clear_trace();
}

void expect_O2(struct hold *owner)
{
    UNTIL(owner->lost != PENDING);
    assert_int_equal(owner->lost, LW_ENOTHELD);
    if (owner->lost_ms - owner->result_ms > LONG_MS / 3) {
        stage_fail("O2: lost only at a renewal");
    }
    stage_clear_trace();
}

void expect_kept(struct hold *owner, uint64_t renewed_before)
{
    UNTIL(peer_stats(owner->peer).renewed > renewed_before);
    assert_int_equal(owner->lost, PENDING);
    assert_held_by_redis(owner);
}

void expect_W1(struct hold *waiter)
{
    struct hold *sibling = waiter->aim;

    UNTIL(waiter->result != PENDING);
    if (waiter->result != LW_OK) {
        stage_fail("W1: %s", status_name(waiter->result));
    }
    assert_held_by_redis(waiter);
    release_hold(waiter);
    UNTIL(waiter->released != PENDING && (sibling == NULL || sibling->result != PENDING));
    assert_int_equal(waiter->released, LW_OK);
    assert_true(sibling == NULL || sibling->result == LW_OK);
    stage_clear_trace();
}

void expect_W2(struct hold *waiter, int64_t wait_ms)
{
    struct hold *both[] = {waiter, waiter->aim};

    for (int i = 0; i < 2 && both[i] != NULL; i++) {
        int64_t waited;

        UNTIL(both[i]->result != PENDING);
        assert_int_equal(both[i]->result, LW_ETIMEOUT);
        waited = both[i]->result_ms - both[i]->asked_ms;
        if (waited < wait_ms - 1 || waited > wait_ms + late_ms()) {
            stage_fail("W2: %lld ms in place of %lld", (long long)waited,
                       (long long)wait_ms);
        }
    }
    stage_clear_trace();
}

void expect_released(struct hold *owner, int status)
{
    UNTIL(owner->released != PENDING);
    if (status == LW_ECONN && owner->released == LW_EUNKNOWN) {
        stage_skip_if_lag(100); /* a reply was that late */
    }
    if (owner->released != status) {
        stage_fail("released %s in place of %s", status_name(owner->released),
                   status_name(status));
    }
    stage_clear_trace();
}

void expect_adopted(struct hold *adopter, const struct hold *earlier)
{
    UNTIL(adopter->result != PENDING);
    if (adopter->result != LW_OK) {
        stage_fail("adoption: %s, %s", status_name(adopter->result),
                   lw_lock_errstr(adopter->lock));
    }
    assert_held_by_redis(adopter);
    assert_false(is_held_by(lw_lock_token(earlier->lock)));
    assert_true(adopter->fence > earlier->fence);
    stage_clear_trace();
}

void expect_not_adopted(struct hold *adopter, int status)
{
    UNTIL(adopter->result != PENDING);
    if (adopter->result != status) {
        stage_fail("adoption: %s in place of %s", status_name(adopter->result),
                   status_name(status));
    }
    stage_clear_trace();
}

void expect_W1_after(struct hold *waiter, int64_t end_ms)
{
    UNTIL(waiter->result != PENDING);
    if (waiter->result_ms < end_ms) {
        stage_fail("W1: granted %lld ms too early",
                   (long long)(end_ms - waiter->result_ms));
    }
    expect_W1(waiter);
}

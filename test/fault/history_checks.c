/* SPDX-License-Identifier: MIT */
/*
 * Tests of the fault campaigns' checker with good and bad histories: what it must find,
 * and how little it may forgive. Independent of lockwire.
 *
 * Usual course: note() some records of two clients, judge(), and compare the verdict.
 */
#include "history.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#define CLIENTS 4
#define DRIVER 3
#define LEASE 1000

static char dir[64];
static int files[CLIENTS];
static struct verdict verdict;

static int set(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/lockwire-history-XXXXXX");
    if (mkdtemp(dir) == NULL) {
        return -1;
    }
    for (uint32_t i = 0; i < CLIENTS; i++) {
        files[i] = history_open(dir, i);
    }
    return 0;
}

static int strike(void **state)
{
    char path[128];

    (void)state;
    for (int i = 0; i < CLIENTS; i++) {
        close(files[i]);
        (void)snprintf(path, sizeof(path), "%s/history-%d", dir, i);
        unlink(path);
    }
    return rmdir(dir);
}

static void note(int client, enum what what, int64_t time, int64_t until, uint64_t fence,
                 bool shared)
{
    struct record record = {.time_us = time,
                            .until_us = until,
                            .fence = fence,
                            .client = (uint32_t)client,
                            .operation = 1,
                            .what = (uint16_t)what,
                            .shared = shared};

    history_note(files[client], &record);
}

static void holds(int client, int64_t from, int64_t to, uint64_t fence)
{
    note(client, BEGIN, from, 0, 0, false);
    note(client, GRANTED, from, from + LEASE, fence, false);
    note(client, ENDED, to, to, fence, false);
}

static void reads(int client, int64_t from, int64_t to, uint64_t fence)
{
    note(client, BEGIN, from, 0, 0, true);
    note(client, GRANTED, from, from + LEASE, fence, true);
    note(client, ENDED, to, to, fence, true);
}

static void loss(int64_t from, int64_t to)
{
    note(DRIVER, LOSS_BEGINS, from, 0, 0, false);
    note(DRIVER, LOSS_ENDS, to, 0, 0, false);
}

static void judge(size_t overlaps, size_t fences, size_t forgiven)
{
    verdict = history_check(dir, CLIENTS, LEASE);
    assert_int_equal(verdict.overlaps, overlaps);
    assert_int_equal(verdict.fences, fences);
    assert_int_equal(verdict.forgiven, forgiven);
    assert_int_equal(verdict.repeated, 0);
    assert_int_equal(!verdict.first[0], overlaps + fences == 0);
}

static void judge_numbers(size_t doubled)
{
    verdict = history_check(dir, CLIENTS, LEASE);
    assert_int_equal(verdict.doubled, doubled);
    assert_int_equal(!verdict.first[0], doubled + verdict.fences == 0);
}

static void one_after_the_other_is_good(void **state)
{
    (void)state;
    holds(0, 0, 500, 1);
    holds(1, 500, 900, 2);
    judge(0, 0, 0);
    assert_int_equal(verdict.grants, 2);
}

static void two_at_once_are_found(void **state)
{
    (void)state;
    holds(0, 0, 500, 1);
    holds(1, 499, 900, 2);
    judge(1, 0, 0);
}

static void a_claim_ends_at_its_deadline(void **state)
{
    (void)state;
    holds(0, 0, 5000, 1); /* never renewed, as far as is recorded */
    holds(1, LEASE, 1500, 2);
    judge(0, 0, 0);
}

static void one_who_still_believes_is_found_later(void **state)
{
    (void)state;
    note(0, BEGIN, 0, 0, 0, false);
    note(0, GRANTED, 0, LEASE, 1, false);
    holds(1, LEASE + 1, LEASE + 100, 2);
    note(0, TOUCHED, LEASE + 500, LEASE + 600, 1, false);
    judge(1, 0, 0);
}

static void one_who_touches_without_belief_is_good(void **state)
{
    (void)state;
    note(0, BEGIN, 0, 0, 0, false);
    note(0, GRANTED, 0, LEASE, 1, false);
    holds(1, LEASE + 1, LEASE + 100, 2);
    note(0, TOUCHED, LEASE + 500, LEASE + 500, 1, false);
    judge(0, 0, 0);
}

static void a_fence_that_does_not_grow_is_found(void **state)
{
    (void)state;
    holds(0, 0, 500, 2);
    holds(1, 500, 900, 2);
    judge(0, 1, 0);
}

static void a_fence_that_came_after_its_deadline_is_good(void **state)
{
    (void)state;
    note(0, BEGIN, 0, 0, 0, false);
    holds(1, LEASE + 1, LEASE + 100, 2);
    note(0, GRANTED, LEASE + 200, LEASE + 200, 1, false);
    judge(0, 0, 0);
}

static void a_number_given_to_two_readers_is_found(void **state)
{
    (void)state;
    reads(0, 0, 500, 2);
    reads(1, 100, 600, 2);
    judge_numbers(1);
}

static void a_number_given_again_much_later_is_found(void **state)
{
    (void)state;
    reads(0, 0, 500, 2);
    reads(1, 600, 700, 3);
    loss(700, 710);
    reads(2, 800, 900, 2);
    judge_numbers(1);
}

static void no_number_is_not_given_twice(void **state)
{
    (void)state;
    reads(0, 0, 500, 0);
    reads(1, 100, 600, 0);
    judge_numbers(0);
}

static void the_longest_wait_is_told(void **state)
{
    (void)state;
    note(0, BEGIN, 100, 0, 0, false);
    holds(1, 200, 400, 1);
    note(0, GRANTED, 450, 450 + LEASE, 2, false);
    judge(0, 0, 0);
    assert_int_equal(verdict.longest_wait_us, 350);
    assert_int_equal(verdict.failed, 0);
}

static void who_gave_up_is_told(void **state)
{
    (void)state;
    note(0, BEGIN, 100, 0, 0, false);
    note(0, FAILED, 900, 0, 0, false);
    judge(0, 0, 0);
    assert_int_equal(verdict.longest_wait_us, 0);
    assert_int_equal(verdict.failed, 1);
}

static void readers_may_read_together(void **state)
{
    (void)state;
    reads(0, 0, 500, 2);
    reads(1, 100, 600, 1); /* readers may be recorded in any order */
    judge(0, 0, 0);
    assert_int_equal(verdict.together, 1);
}

static void a_writer_among_readers_is_found(void **state)
{
    (void)state;
    reads(0, 0, 500, 1);
    holds(1, 400, 600, 2);
    reads(2, 550, 700, 3);
    judge(2, 0, 0);
}

static void a_readers_fence_is_larger_than_the_last_writers(void **state)
{
    (void)state;
    holds(0, 0, 100, 5);
    reads(1, 200, 300, 4);
    judge(0, 1, 0);
}

static void a_second_result_is_found(void **state)
{
    (void)state;
    holds(0, 0, 500, 1);
    note(0, FAILED, 600, 0, 0, false);
    assert_int_equal(history_check(dir, CLIENTS, LEASE).repeated, 1);
}

/* ---- holds that are detached and adopted ---- */

static void detaches(int client, int64_t from, int64_t to, int64_t until, uint64_t fence)
{
    note(client, BEGIN, from, 0, 0, false);
    note(client, GRANTED, from, from + LEASE, fence, false);
    note(client, DETACHED, to, until, fence, false);
}

/* Records a step of an adoption of client 0's hold. */
static void note_adoption(int client, enum what what, int64_t time, uint64_t fence)
{
    struct record record = {.time_us = time,
                            .until_us = what == GRANTED ? time + LEASE : time,
                            .fence = fence,
                            .client = (uint32_t)client,
                            .operation = 1,
                            .what = (uint16_t)what,
                            .of_operation = 1};

    history_note(files[client], &record);
}

static void adopts(int client, int64_t asked, int64_t from, int64_t to, uint64_t fence)
{
    note_adoption(client, BEGIN, asked, 0);
    note_adoption(client, GRANTED, from, fence);
    note(client, ENDED, to, to, fence, false);
}

static void one_after_a_detached_hold_is_good(void **state)
{
    (void)state;
    detaches(0, 0, 100, 400, 1);
    holds(1, 400, 500, 2);
    judge(0, 0, 0);
    assert_int_equal(verdict.detached, 1);
    assert_int_equal(verdict.adopted, 0);
}

static void an_adopted_hold_goes_on_and_is_good(void **state)
{
    (void)state;
    detaches(0, 0, 100, 400, 1);
    adopts(1, 200, 300, 700, 2);
    holds(2, 700, 800, 3);
    judge(0, 0, 0);
    assert_int_equal(verdict.adopted, 1);
}

static void one_beside_a_detached_hold_is_found(void **state)
{
    (void)state;
    detaches(0, 0, 100, 1500, 1);
    holds(1, 1499, 1600, 2);
    judge(1, 0, 0);
}

/* At the call the detach is recorded until the deadline at most; the server then confirms
 * a longer time. */
static void one_before_a_detach_was_confirmed_is_found(void **state)
{
    (void)state;
    detaches(0, 0, 100, 200, 1);
    holds(1, 250, 300, 2);
    note(0, DETACHED, 310, 400, 1, false);
    judge(1, 0, 0);
}

static void one_after_a_detach_that_was_confirmed_late_is_good(void **state)
{
    (void)state;
    detaches(0, 0, 100, 200, 1);
    holds(1, 250, 300, 2);
    note(0, DETACHED, 310, 250, 1, false);
    judge(0, 0, 0);
}

static void one_between_a_detached_hold_and_its_adoption_is_found(void **state)
{
    (void)state;
    detaches(0, 0, 100, 200, 1);
    note_adoption(1, BEGIN, 150, 0);
    holds(2, 300, 350, 2);
    note_adoption(1, GRANTED, 400, 3);
    judge(1, 0, 0);
}

/* The adopter has the lock in the meantime, and releases it. */
static void an_adoption_that_is_given_up_may_end_the_hold(void **state)
{
    (void)state;
    detaches(0, 0, 100, 900, 1);
    note_adoption(1, BEGIN, 150, 0);
    holds(2, 300, 350, 2);
    note_adoption(1, FAILED, 400, 0);
    note(0, DETACHED, 410, 900, 1, false);
    judge(0, 0, 0);
    assert_int_equal(verdict.failed, 0);
}

static void a_hold_adopted_twice_is_found(void **state)
{
    (void)state;
    detaches(0, 0, 100, 900, 1);
    adopts(1, 150, 200, 300, 2);
    adopts(2, 150, 400, 500, 3);
    judge(1, 0, 0);
}

static void an_adopters_fence_must_grow(void **state)
{
    (void)state;
    detaches(0, 0, 100, 900, 2);
    adopts(1, 150, 200, 300, 2);
    judge(0, 1, 0);
}

/* ---- what a loss of state forgives ---- */

static void across_a_loss_a_detached_hold_may_be_gone(void **state)
{
    (void)state;
    detaches(0, 0, 100, 900, 1);
    loss(400, 410);
    holds(1, 500, 600, 2);
    judge(0, 0, 1);
}

static void across_a_loss_two_may_hold(void **state)
{
    (void)state;
    holds(0, 0, 800, 1);
    loss(400, 410);
    holds(1, 500, 900, 2);
    judge(0, 0, 1);
}

static void both_before_the_loss_are_found(void **state)
{
    (void)state;
    holds(0, 0, 800, 1);
    holds(1, 300, 900, 2);
    loss(400, 410);
    judge(1, 0, 0);
}

static void both_after_the_loss_are_found(void **state)
{
    (void)state;
    loss(400, 410);
    holds(0, 411, 800, 1);
    holds(1, 500, 900, 2);
    judge(1, 0, 0);
}

static void a_third_one_after_the_loss_is_found(void **state)
{
    (void)state;
    holds(0, 0, 800, 1);
    loss(400, 410);
    holds(1, 500, 900, 2);
    holds(2, 600, 950, 3);
    judge(1, 0, 2);
}

/* Redis granted the lock before the loss, but the grant is recorded after another one
 * from after the loss. */
static void one_told_late_of_a_grant_before_the_loss_is_forgiven(void **state)
{
    (void)state;
    loss(400, 410);
    note(0, BEGIN, 420, 0, 0, false);
    note(0, GRANTED, 420, 420 + LEASE, 2, false);
    note(1, BEGIN, 300, 0, 0, false);
    note(1, GRANTED, 500, 390 + LEASE, 1, false);
    note(0, TOUCHED, 600, 420 + LEASE, 2, false);
    judge(0, 0, 1);
}

static void fences_grow_across_a_loss(void **state)
{
    (void)state;
    holds(0, 0, 100, 7);
    loss(400, 410);
    holds(1, 500, 900, 6);
    judge(0, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_after_the_other_is_good, set, strike),
        cmocka_unit_test_setup_teardown(two_at_once_are_found, set, strike),
        cmocka_unit_test_setup_teardown(a_claim_ends_at_its_deadline, set, strike),
        cmocka_unit_test_setup_teardown(one_who_still_believes_is_found_later, set,
                                        strike),
        cmocka_unit_test_setup_teardown(one_who_touches_without_belief_is_good, set,
                                        strike),
        cmocka_unit_test_setup_teardown(a_fence_that_does_not_grow_is_found, set, strike),
        cmocka_unit_test_setup_teardown(a_fence_that_came_after_its_deadline_is_good, set,
                                        strike),
        cmocka_unit_test_setup_teardown(a_number_given_to_two_readers_is_found, set,
                                        strike),
        cmocka_unit_test_setup_teardown(a_number_given_again_much_later_is_found, set,
                                        strike),
        cmocka_unit_test_setup_teardown(no_number_is_not_given_twice, set, strike),
        cmocka_unit_test_setup_teardown(the_longest_wait_is_told, set, strike),
        cmocka_unit_test_setup_teardown(who_gave_up_is_told, set, strike),
        cmocka_unit_test_setup_teardown(readers_may_read_together, set, strike),
        cmocka_unit_test_setup_teardown(a_writer_among_readers_is_found, set, strike),
        cmocka_unit_test_setup_teardown(a_readers_fence_is_larger_than_the_last_writers,
                                        set, strike),
        cmocka_unit_test_setup_teardown(a_second_result_is_found, set, strike),
        cmocka_unit_test_setup_teardown(one_after_a_detached_hold_is_good, set, strike),
        cmocka_unit_test_setup_teardown(an_adopted_hold_goes_on_and_is_good, set, strike),
        cmocka_unit_test_setup_teardown(one_beside_a_detached_hold_is_found, set, strike),
        cmocka_unit_test_setup_teardown(one_before_a_detach_was_confirmed_is_found, set,
                                        strike),
        cmocka_unit_test_setup_teardown(
            one_after_a_detach_that_was_confirmed_late_is_good, set, strike),
        cmocka_unit_test_setup_teardown(
            one_between_a_detached_hold_and_its_adoption_is_found, set, strike),
        cmocka_unit_test_setup_teardown(an_adoption_that_is_given_up_may_end_the_hold,
                                        set, strike),
        cmocka_unit_test_setup_teardown(a_hold_adopted_twice_is_found, set, strike),
        cmocka_unit_test_setup_teardown(an_adopters_fence_must_grow, set, strike),
        cmocka_unit_test_setup_teardown(across_a_loss_a_detached_hold_may_be_gone, set,
                                        strike),
        cmocka_unit_test_setup_teardown(across_a_loss_two_may_hold, set, strike),
        cmocka_unit_test_setup_teardown(both_before_the_loss_are_found, set, strike),
        cmocka_unit_test_setup_teardown(both_after_the_loss_are_found, set, strike),
        cmocka_unit_test_setup_teardown(a_third_one_after_the_loss_is_found, set, strike),
        cmocka_unit_test_setup_teardown(
            one_told_late_of_a_grant_before_the_loss_is_forgiven, set, strike),
        cmocka_unit_test_setup_teardown(fences_grow_across_a_loss, set, strike),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

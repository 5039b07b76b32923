/* SPDX-License-Identifier: MIT */
/* LW_REDISSON, the holds of one owner: its levels in one client, their renewal, and each
 * way to lose them.
 *
 * Usual course: anna holds and enters again, which costs no command; the release of the
 * last level is published on the channel. */
#include "redisson/scene.h"

#include "monitor.h"

#include <stdio.h>
#include <string.h>

static void re_entry_costs_no_command_and_the_last_one_releases(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = take_as(a, "A", "anna");
    char before[128];
    (void)snprintf(before, sizeof(before), "%s", fields());
    monitor_start();
    struct hold *B = want_as(a, "B", "anna", 0), *C = want_as(a, "C", "anna", -1);
    EXPECT("B granted; C granted");
    assert_string_equal(lw_lock_owner(B->lock), "anna");
    assert_true(lw_lock_remaining_ms(C->lock) > 0);
    release_hold(A);
    EXPECT("A released STILLHELD");
    free_hold(C); /* no callback; one level less */
    assert_int_equal(monitor_count(""), 0);
    assert_string_equal(fields(), before);
    release_hold(B);
    EXPECT("B released OK");
    assert_int_equal(monitor_count("evalsha"), 1);
    monitor_stop();
    assert_int_equal(redis_int("EXISTS x"), 0);
}

static void another_owner_of_the_same_client_waits(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = take_as(a, "A", "anna");
    want_as(a, "B", "bert", 0);
    EXPECT("B EBUSY");
    struct hold *C = want_as(a, "C", "bert", -1);
    UNTIL(listeners(CHANNEL) == 1);
    release_hold(A);
    EXPECT_SET("A released OK; C granted");
    release_hold(C);
    EXPECT("C released OK");
}

/* A handle without an owner holds alone, even if another handle names its token as
 * owner. */
static void a_token_is_no_owner(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = take_as(a, "A", NULL);
    want_as(a, "B", lw_lock_owner(A->lock), 0);
    EXPECT("B EBUSY");
    release_hold(A);
    EXPECT("A released OK");
}

static void those_who_wait_as_one_owner_enter_together(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    java_holds("x", 1, 3600000);
    struct hold *A = want_as(a, "A", "anna", -1), *B = want_as(a, "B", "anna", -1);
    UNTIL(listeners(CHANNEL) == 1);
    want_as(a, "C", "anna", 0);
    EXPECT("C EBUSY");
    struct hold *D = want_as(a, "D", "anna", 20000);
    free_hold(D);
    java_unlocks("x", "0");
    EXPECT("A granted; B granted");
    release_hold(B);
    EXPECT("B released STILLHELD");
    release_hold(A);
    EXPECT("A released OK");
}

static void two_that_ask_at_once_enter_together(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    want_as(a, "A", "anna", 0);
    want_as(a, "B", "anna", 0);
    EXPECT("A granted; B granted");
    assert_int_equal(redis_int("HLEN x"), 1);
}

static void a_cap_ends_its_own_level_alone(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(
        a, "A", "x", asking(.mode = LW_REDISSON, .owner = "anna", .max_hold_ms = 100));
    EXPECT("A granted");
    struct hold *B = take_as(a, "B", "anna");
    EXPECT("A lost ETIMEOUT");
    assert_int_equal(lw_lock_state(B->lock), LW_HELD);
    release_refused(A, LW_ENOTHELD);
    stage_expect_nothing(300);
    assert_int_equal(redis_int("HLEN x"), 1);
    release_hold(B);
    EXPECT("B released OK");
}

static void the_longest_lease_of_all_levels_counts(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x",
                                       asking(.mode = LW_REDISSON, .owner = "anna",
                                              .lease_ms = 2000, .flags = LW_NO_RENEW));
    EXPECT("A granted");
    struct hold *B = acquire_hold_with(
        a, "B", "x", asking(.mode = LW_REDISSON, .owner = "anna", .lease_ms = 60000));
    EXPECT("B granted");
    UNTIL(redis_int("PTTL x") > 50000);
    UNTIL(lw_lock_remaining_ms(A->lock) > 50000);
    release_hold(B);
    EXPECT("B released STILLHELD");
    release_hold(A);
    EXPECT("A released OK");
}

/* ---- leases ---- */

static void it_is_renewed_until_released(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.mode = LW_REDISSON, .lease_ms = 3000));
    EXPECT("A granted");
    UNTIL(peer_stats(a).renewed >= 2);
    assert_string_equal(stage.trace, "");
    renew_hold(A, 50000);
    EXPECT("A renewed OK");
    assert_int_in_range(redis_int("PTTL x"), 40000, 50000);
    release_hold(A);
    EXPECT("A released OK");
}

static void what_was_re_entered_and_let_go_is_renewed_when_taken_again(void **state)
{
    struct lw_acquire_options *options =
        asking(.mode = LW_REDISSON, .owner = "anna", .lease_ms = 1500);

    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", options);
    EXPECT("A granted");
    struct hold *B = acquire_hold_with(a, "B", "x", options);
    EXPECT("B granted");
    release_hold(B);
    EXPECT("B released STILLHELD");
    release_hold(A);
    EXPECT("A released OK");
    struct hold *C = acquire_hold_with(a, "C", "x", options);
    EXPECT("C granted");
    uint64_t before = peer_stats(a).renewed;
    UNTIL(peer_stats(a).renewed >= before + 4); /* longer than its lease */
    assert_int_equal(lw_lock_state(C->lock), LW_HELD);
    assert_int_in_range(redis_int("PTTL x"), 1, 1500);
    release_hold(C);
    EXPECT("C released OK");
    UNTIL(redis_int("EXISTS x") == 0);
}

static void a_deleted_lock_is_lost_by_all_levels(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = take_as(a, "A", "anna"), *B = take_as(a, "B", "anna");
    redis_ok("DEL x");
    renew_hold(B, 0);
    EXPECT_SET("A lost ENOTHELD; B lost ENOTHELD; B renewed ELOST");
    release_refused(A, LW_ENOTHELD);
    release_refused(B, LW_ENOTHELD);
}

static void a_stolen_lock_is_not_released(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = take_as(a, "A", "anna");
    redis_ok("DEL x");
    java_holds("x", 1, 20000);
    release_hold(A);
    EXPECT("A released ENOTHELD");
    assert_string_equal(fields(), "4a0fc1f8-0000-4000-8000-1c6f654f1aaa:52 1");
    redis_ok("DEL x");
}

static void a_deadline_ends_all_levels(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    for (int i = 0; i < 2; i++) {
        acquire_hold_with(a, i == 0 ? "A" : "B", "x",
                          asking(.mode = LW_REDISSON, .owner = "anna", .lease_ms = 1000,
                                 .flags = LW_NO_RENEW));
    }
    EXPECT("A granted; B granted");
    EXPECT_SET("A lost ELOST; B lost ELOST");
    struct hold *C = want_as(a, "C", "anna", -1); /* not a level of the lost hold */
    EXPECT("C granted");
    release_hold(C);
    EXPECT("C released OK");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(re_entry_costs_no_command_and_the_last_one_releases),
        STAGE_TEST(another_owner_of_the_same_client_waits),
        STAGE_TEST(a_token_is_no_owner),
        STAGE_TEST(those_who_wait_as_one_owner_enter_together),
        STAGE_TEST(two_that_ask_at_once_enter_together),
        STAGE_TEST(a_cap_ends_its_own_level_alone),
        STAGE_TEST(the_longest_lease_of_all_levels_counts),
        STAGE_TEST(it_is_renewed_until_released),
        STAGE_TEST(what_was_re_entered_and_let_go_is_renewed_when_taken_again),
        STAGE_TEST(a_deleted_lock_is_lost_by_all_levels),
        STAGE_TEST(a_stolen_lock_is_not_released),
        STAGE_TEST(a_deadline_ends_all_levels),
    };

    return STAGE_RUN(tests);
}

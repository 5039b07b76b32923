/* SPDX-License-Identifier: MIT */
/* Loops that stall, and callbacks that take long: afterwards much is due at once, and a
 * result that is queued for its callback may no longer be true. Independent of the order
 * in which the library checks.
 *
 * Usual course: two grants are queued. The first one's callback stalls past the second
 * one's lease; the second lock is requested again, and its grant is delivered once it is
 * held. */
#include "players.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MANY 400

static struct hold *A, *B;

static void stall(struct hold *hold, enum moment moment)
{
    (void)hold;
    if (moment == AT_RESULT) {
        stage_stall(400);
    }
}

/* The grants of A and B come in one packet, or nearly so. */
static void two_grants(struct peer *a, uint32_t lease_of_B, int64_t wait_of_B,
                       void (*in_A)(struct hold *hold, enum moment moment))
{
    A = acquire_hold(a, "A", "x", 0);
    B = acquire_hold_with(a, "B", "y",
                          asking(.lease_ms = lease_of_B, .wait_ms = wait_of_B));
    A->then = in_A;
}

/* ---- grants that are not delivered yet ---- */

static void a_grant_that_ends_before_it_is_told_is_asked_for_again(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    two_grants(a, 300, -1, stall);
    UNTIL(B->result != PENDING); /* players.h checks that time remains */
    assert_int_equal(B->result, LW_OK);
    stage_clear_trace();
}

static int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

/* A's deadline is B's, or earlier by the time it took to send B's command. */
static void stall_to_the_last_millisecond(struct hold *hold, enum moment moment)
{
    int64_t until;

    if (moment != AT_RESULT) {
        return;
    }
    stage_stall(50);
    while (lw_lock_remaining_ms(hold->lock) > 0) {
        continue;
    }
    until = now_us() + 400;
    while (now_us() < until) {
        continue;
    }
}

static void a_grant_with_less_than_a_millisecond_left_is_asked_for_again(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    for (int i = 0; i < 5; i++) {
        A = acquire_hold_with(
            a, "A", "x", asking(.wait_ms = -1, .lease_ms = 100, .flags = LW_NO_RENEW));
        B = acquire_hold_with(
            a, "B", "y", asking(.wait_ms = -1, .lease_ms = 100, .flags = LW_NO_RENEW));
        A->then = stall_to_the_last_millisecond;
        UNTIL(B->result != PENDING); /* players.h checks that time remains */
        assert_int_equal(B->result, LW_OK);
        free_hold(A);
        free_hold(B);
        UNTIL(redis_int("EXISTS x y") == 0);
    }
    stage_clear_trace();
}

static void stall_and_steal(struct hold *hold, enum moment moment)
{
    stall(hold, moment);
    if (moment == AT_RESULT) {
        redis_ok("SET y theirs PX 60000");
    }
}

static void a_grant_that_is_taken_before_it_is_told_is_none(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    two_grants(a, 300, 0, stall_and_steal);
    EXPECT("A granted; B EBUSY");
    assert_true(lw_lock_fence(B->lock) == 0);
    assert_string_equal(lw_lock_owner(B->lock), "");
    assert_int_in_range(lw_lock_retry_ms(B->lock), 1, 60000);
    assert_string_equal(redis_text("GET y"), "theirs");
    redis_ok("DEL y");
}

static void close_the_client(struct hold *hold, enum moment moment)
{
    if (moment == AT_RESULT) {
        peer_close(hold->peer);
    }
}

static void a_grant_that_is_not_told_at_close_is_given_back(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    two_grants(a, 30000, -1, close_the_client);
    EXPECT("A granted; B ECLOSED; a closed");
    assert_int_equal(redis_int("EXISTS x y"), 0);
}

static void free_the_other(struct hold *hold, enum moment moment)
{
    (void)hold;
    if (moment == AT_RESULT) {
        free_hold(B);
    }
}

static void a_grant_that_is_not_told_at_free_is_given_back(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    two_grants(a, 30000, -1, free_the_other);
    EXPECT("A granted");
    UNTIL(redis_int("EXISTS y") == 0);
    stage_expect_nothing(50);
}

/* ---- losses that are not delivered yet ---- */

/* Both leases end during the stall; A's loss is delivered first. */
static void two_losses(struct peer *a,
                       void (*in_A)(struct hold *hold, enum moment moment))
{
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 2000, .flags = LW_NO_RENEW));
    B = acquire_hold_with(a, "B", "y", asking(.lease_ms = 2000, .flags = LW_NO_RENEW));
    EXPECT("A granted; B granted");
    A->then = in_A;
    stage_stall(2100);
}

static void release_the_other(struct hold *hold, enum moment moment)
{
    (void)hold;
    if (moment == AT_LOST) {
        release_hold(B);
    }
}

static void a_release_before_the_loss_is_told_is_ENOTHELD(void **state)
{
    (void)state;
    two_losses(peer_ready("a", NULL), release_the_other);
    EXPECT("A lost ELOST; B released ENOTHELD");
    stage_expect_nothing(50);
}

static void renew_the_other(struct hold *hold, enum moment moment)
{
    (void)hold;
    if (moment == AT_LOST) {
        renew_hold(B, 5000);
    }
}

static void a_renewal_before_the_loss_is_told_is_ELOST_after_it(void **state)
{
    (void)state;
    two_losses(peer_ready("a", NULL), renew_the_other);
    EXPECT("A lost ELOST; B lost ELOST; B renewed ELOST");
}

static void close_at_loss(struct hold *hold, enum moment moment)
{
    if (moment == AT_LOST) {
        peer_close(hold->peer);
    }
}

static void a_loss_that_is_not_told_at_close_never_is(void **state)
{
    (void)state;
    two_losses(peer_ready("a", NULL), close_at_loss);
    EXPECT("A lost ELOST; a closed");
    assert_int_equal(lw_lock_state(A->lock), LW_LOST);
    assert_int_equal(lw_lock_state(B->lock), LW_DONE);
}

static struct hold *first;

/* One reply reports that both locks are gone. */
static void two_stolen(void (*in_both)(struct hold *hold, enum moment moment))
{
    struct peer *a = peer_ready("a", client_of(.local_turns = 1, .backoff_min_ms = 1));

    first = NULL;
    A = acquire_and_wait(a, "A", "x");
    B = acquire_and_wait(a, "B", "y");
    EXPECT("A granted; B granted");
    A->then = B->then = in_both;
    redis_ok("DEL x y");
    redis_ok("CLIENT KILL ID %lld", peer_link_id(a, false));
    UNTIL(first != NULL);
}

static void release_whoever_is_left(struct hold *hold, enum moment moment)
{
    if (moment != AT_LOST || first != NULL) {
        return;
    }
    first = hold;
    release_hold(hold == A ? B : A);
}

static void a_release_before_the_theft_is_told_is_ENOTHELD(void **state)
{
    struct hold *other;

    (void)state;
    two_stolen(release_whoever_is_left);
    other = first == A ? B : A;
    UNTIL(other->released != PENDING);
    assert_int_equal(first->lost, LW_ENOTHELD);
    assert_int_equal(other->released, LW_ENOTHELD);
    assert_int_equal(other->lost, PENDING);
}

static void renew_whoever_is_left(struct hold *hold, enum moment moment)
{
    if (moment != AT_LOST || first != NULL) {
        return;
    }
    first = hold;
    renew_hold(hold == A ? B : A, 5000);
}

static void a_renewal_before_the_theft_is_told_is_ELOST_after_it(void **state)
{
    struct hold *other;

    (void)state;
    two_stolen(renew_whoever_is_left);
    other = first == A ? B : A;
    UNTIL(other->renewals == 0); /* players.h checks that its loss came before */
    assert_int_equal(other->lost, LW_ENOTHELD);
    assert_int_equal(other->renewed, LW_ELOST);
}

/* ---- much at once ---- */

/* The end of closing comes first; when the release's own time-out is due, the release has
 * already been reported. */
static void a_release_and_a_close_that_are_both_overdue_end_once(void **state)
{
    struct peer *a =
        peer_ready("a", client_of(.request_timeout_ms = 300, .close_timeout_ms = 250));

    (void)state;
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    server_pause(&stage.server);
    release_hold(A);
    peer_close(a);
    stage_stall(400);
    EXPECT("A released EUNKNOWN; a closed");
    server_resume(&stage.server);
    stage.keys_may_stay = true;
}

static void stall_shortly(struct hold *hold, enum moment moment)
{
    (void)hold;
    if (moment == AT_RESULT) {
        stage_stall(2);
    }
}

/* `count` results are due at the same time. */
static void check_turns(int count, void (*in_each)(struct hold *hold, enum moment moment),
                        int turn_most)
{
    static struct hold *all[MANY];
    struct peer *a = peer_ready("a", client_of(.local_turns = 16));
    char label[16];
    int told = 0;

    acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    for (int i = 0; i < count; i++) {
        (void)snprintf(label, sizeof(label), "%d", i);
        all[i] = acquire_hold(a, label, "x", 0); /* busy without a command */
        all[i]->then = in_each;
    }
    while (told < count) {
        int before = told;

        event_base_loop(stage.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        while (told < count && all[told]->result != PENDING) {
            told++;
        }
        for (int i = told; i < count; i++) {
            assert_int_equal(all[i]->result, PENDING); /* in order */
        }
        if (told - before > turn_most) {
            stage_fail("%d callbacks in one turn", told - before);
        }
    }
    stage_clear_trace();
}

static void at_most_256_callbacks_come_in_one_turn_of_the_loop(void **state)
{
    (void)state;
    check_turns(MANY, NULL, 256);
}

static void callbacks_that_take_long_come_in_turns_of_their_own(void **state)
{
    (void)state;
    check_turns(20, stall_shortly, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_grant_that_ends_before_it_is_told_is_asked_for_again),
        STAGE_TEST(a_grant_with_less_than_a_millisecond_left_is_asked_for_again),
        STAGE_TEST(a_grant_that_is_taken_before_it_is_told_is_none),
        STAGE_TEST(a_grant_that_is_not_told_at_close_is_given_back),
        STAGE_TEST(a_grant_that_is_not_told_at_free_is_given_back),
        STAGE_TEST(a_release_before_the_loss_is_told_is_ENOTHELD),
        STAGE_TEST(a_renewal_before_the_loss_is_told_is_ELOST_after_it),
        STAGE_TEST(a_loss_that_is_not_told_at_close_never_is),
        STAGE_TEST(a_release_before_the_theft_is_told_is_ENOTHELD),
        STAGE_TEST(a_renewal_before_the_theft_is_told_is_ELOST_after_it),
        STAGE_TEST(a_release_and_a_close_that_are_both_overdue_end_once),
        STAGE_TEST(at_most_256_callbacks_come_in_one_turn_of_the_loop),
        STAGE_TEST(callbacks_that_take_long_come_in_turns_of_their_own),
    };

    return STAGE_RUN(tests);
}

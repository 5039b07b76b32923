/* SPDX-License-Identifier: MIT */
/* LW_SHARED with permits: a request enters only while fewer owners hold than it has
 * permits. Independent of how the scripts count.
 *
 * Usual course: three permits let three owners in; the fourth waits until the first
 * leaves. */
#include "modes/scene.h"
#include "process.h"

#include <stdio.h>
#include <string.h>

static void as_many_owners_as_permits(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = get_in(a, "A", "r3", "anna");
    get_in(b, "B", "r3", "bert");
    get_in(a, "C", "r3", NULL);
    enter(b, "D", "r3", "dora", 0);
    EXPECT("D EBUSY");
    struct hold *E = enter(b, "E", "r3", "emil", -1);
    wait_rw_queued(1);
    stage_expect_nothing(50);
    release_hold(A);
    EXPECT_SET("A released OK; E granted");
    assert_true(E->fence > A->fence);
    assert_string_equal(redis_counts("x"), "3 3 0");
}

static void no_bound_without_permits(void **state)
{
    char label[16], owner[16];

    (void)state;
    two_clients();
    for (int i = 0; i < 40; i++) {
        (void)snprintf(label, sizeof(label), "%d", i);
        (void)snprintf(owner, sizeof(owner), "o%d", i);
        get_in(i % 2 ? a : b, label, "r", owner);
    }
    assert_string_equal(redis_counts("x"), "40 40 0");
}

static void a_re_entrant_hold_takes_no_permit(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = get_in(a, "A", "r2", "anna");
    struct hold *B = get_in(b, "B", "r2", "bert");
    struct hold *A2 = enter(b, "A2", "r2", "anna", 0); /* at the limit, but it enters */
    EXPECT("A2 granted");
    HOLDS("x", "read anna=2 bert=1");
    enter(a, "C", "r2", "carl", -1);
    wait_rw_queued(1);
    get_out(A, LW_STILLHELD); /* frees no permit */
    stage_expect_nothing(100);
    enter(a, "A3", "r2", "anna", 0); /* past the queue */
    EXPECT("A3 granted");
    struct hold *A3 = holds;
    get_out(A3, LW_STILLHELD);
    release_hold(A2);
    EXPECT_SET("A2 released OK; C granted");
    get_out(B, LW_OK);
}

static void a_hand_over_lets_in_as_many_as_there_is_room_for(void **state)
{
    (void)state;
    two_clients();
    struct hold *W = get_in(a, "W", "w", "anna");
    static const char *const labels[] = {"1", "2", "3", "4", "5"};
    static const char *const owners[] = {"o1", "o2", "o3", "o4", "o5"};
    struct hold *all[5];

    for (int i = 0; i < 5; i++) {
        all[i] = enter(i % 2 ? a : b, labels[i], "r3", owners[i], -1);
        wait_rw_queued(i + 1);
    }
    release_hold(W);
    EXPECT_SET("W released OK; 1 granted; 2 granted; 3 granted");
    stage_expect_nothing(100);
    HOLDS("x", "read o1=1 o2=1 o3=1");
    release_hold(all[1]);
    EXPECT_SET("2 released OK; 4 granted");
    release_hold(all[0]);
    EXPECT_SET("1 released OK; 5 granted");
    HOLDS("x", "read o3=1 o4=1 o5=1");
}

static void each_request_brings_its_own_number_and_the_order_stays(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = get_in(a, "A", "r", "anna"), *B = get_in(b, "B", "r", "bert");
    enter(a, "C", "r1", "carl", -1);
    wait_rw_queued(1);
    enter(b, "D", "r9", "dora", -1); /* it would fit, but waits behind earlier ones */
    wait_rw_queued(2);
    stage_expect_nothing(100);
    get_out(A, LW_OK);
    release_hold(B);
    EXPECT_SET("B released OK; C granted; D granted");
}

static void a_semaphore_of_one_is_a_mutex_of_owners(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = get_in(a, "A", "r1", "anna");
    struct hold *B = enter(b, "B", "r1", "bert", -1);
    wait_rw_queued(1);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    enter(a, "A2", "r1", "anna", 0);
    EXPECT("A2 EBUSY");
    get_out(B, LW_OK);
}

/* The living holders renew all the time, so the key never expires. */
static void a_crashed_holder_s_permit_comes_back_at_its_own_lease_s_end(void **state)
{
    struct process *p = process_start("P", NULL);

    (void)state;
    two_clients();
    enter_with(a, "A", "r2", "anna", asking(.lease_ms = 20000));
    EXPECT("A granted");
    process_tell(p, "acquire D x -1 1500 r dead 2");
    EXPECT("P: D granted");
    process_kill(p);
    int64_t died = now_ms();
    enter(b, "B", "r2", "bert", -1);
    wait_rw_queued(1);
    EXPECT("B granted");
    HOLDS("x", "read anna=1 bert=1");
    stage_skip_if_lag(300);
    assert_int_in_range(now_ms() - died, 1, 1500 + 1000);
}

/* ---- many grants ---- */

static struct hold *inside[16]; /* in order of their grants */
static int count;

static void note_grant(struct hold *hold, enum moment moment)
{
    if (moment == AT_RELEASED) {
        free_hold(hold);
        enter(hold->peer, hold->label, "r3", NULL, -1)->then = note_grant;
    } else if (moment == AT_RESULT && hold->result == LW_OK && count < 16) {
        inside[count++] = hold;
    } else {
        stage_complain("%s: %s", hold->label, status_name(hold->result));
    }
}

static void nobody_gets_in_above_the_limit_under_contention(void **state)
{
    char label[16];

    (void)state;
    two_clients();
    count = 0;
    for (int i = 0; i < 10; i++) {
        (void)snprintf(label, sizeof(label), "%d", i);
        enter(i % 2 ? a : b, label, "r3", NULL, -1)->then = note_grant;
    }
    for (int round = 0; round < 100; round++) {
        UNTIL(count >= 3);
        stage_run_for(5); /* so that a fourth would show */
        assert_int_equal(count, 3);
        int go = 1 + round % 3;
        count -= go;
        struct hold *going[3];
        memcpy(going, inside, sizeof(going));
        memmove(inside, inside + go, (size_t)count * sizeof(*inside));
        for (int i = 0; i < go; i++) {
            release_hold(going[i]);
        }
    }
    for (struct hold *hold = holds; hold != NULL; hold = hold->next) {
        hold->then = NULL;
    }
    stage_clear_trace();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(as_many_owners_as_permits),
        STAGE_TEST(no_bound_without_permits),
        STAGE_TEST(a_re_entrant_hold_takes_no_permit),
        STAGE_TEST(a_hand_over_lets_in_as_many_as_there_is_room_for),
        STAGE_TEST(each_request_brings_its_own_number_and_the_order_stays),
        STAGE_TEST(a_semaphore_of_one_is_a_mutex_of_owners),
        STAGE_TEST(a_crashed_holder_s_permit_comes_back_at_its_own_lease_s_end),
        STAGE_TEST(nobody_gets_in_above_the_limit_under_contention),
    };

    return STAGE_RUN(tests);
}

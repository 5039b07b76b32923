/* SPDX-License-Identifier: MIT */
/* A keep's gains and losses: what ends a hold, and how the next one comes. Independent of
 * how the library retries.
 *
 * Usual course: the keep gains, something happens, it loses, and it gains again with a
 * larger fencing token. */
#include "keep_scene.h"
#include "process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static void gains_at_once_where_nobody_else_is(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct keeper *K = keeper_start(a, "K", "x", NULL);

    (void)state;
    EXPECT("K gained");
    assert_int_equal(redis_int("EXISTS x"), 1);
    assert_string_equal(lw_lock_name(lock_of(K)), "x");
    assert_true(lw_lock_remaining_ms(lock_of(K)) > 20000);
    keeper_free(K);
    UNTIL(redis_int("EXISTS x") == 0);
    stage_expect_nothing(50);
}

static void goes_on_holding_beyond_its_lease(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct keeper *K = keeper_start(a, "K", "x", asking(.lease_ms = 500));

    (void)state;
    EXPECT("K gained");
    stage_forget_lag();
    stage_run_for(1500);
    stage_skip_if_lag(100);
    assert_int_equal(K->losses, 0);
    assert_true(lw_lock_remaining_ms(lock_of(K)) > 0);
    stage_expect_nothing(0);
}

static void waits_in_the_queue_for_its_turn(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "x");
    struct keeper *K = keeper_start(a, "K", "x", NULL);

    (void)state;
    EXPECT("B granted");
    wait_queued("x", 1);
    assert_int_equal(lw_lock_state(lock_of(K)), LW_WAITING);
    release_hold(B);
    EXPECT_SET("B released OK; K gained");
    assert_true(K->fence > B->fence);
}

/* ---- losses ---- */

static void gains_again_after_its_key_was_deleted(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct keeper *K = keeper_start(a, "K", "x", asking(.lease_ms = 900));

    (void)state;
    EXPECT("K gained");
    redis_ok("DEL x");
    EXPECT("K lost ENOTHELD; K gained");
    assert_int_equal(K->gains, 2);
    assert_int_equal(lw_lock_state(lock_of(K)), LW_HELD);
}

static void on_broken(struct lw_client *client, int status, const char *why, void *arg)
{
    (void)client;
    (void)why;
    (void)arg;
    stage_note("broken %s", status_name(status));
}

static void queues_behind_those_who_wait_after_a_break(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct keeper *K = keeper_start(a, "K", "x", asking(.lease_ms = 900));

    (void)state;
    EXPECT("K gained");
    struct hold *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    assert_int_equal(lw_break(b->client, "x", NULL, on_broken, NULL), LW_OK);
    EXPECT_SET("broken OK; B granted; K lost ENOTHELD");
    UNTIL(lw_lock_state(lock_of(K)) == LW_WAITING);
    wait_queued("x", 1);
    release_hold(B);
    EXPECT_SET("B released OK; K gained");
    assert_true(K->fence > B->fence);
}

static void gains_again_when_a_killed_server_is_back(void **state)
{
    struct peer *a = peer_ready("a", client_of(.backoff_max_ms = 100));
    struct keeper *K = keeper_start(a, "K", "x", asking(.lease_ms = 1000));
    int64_t killed_ms, back_ms;

    (void)state;
    EXPECT("K gained");
    uint64_t before = K->fence;
    killed_ms = now_ms();
    server_kill(&stage.server);
    EXPECT("K lost ELOST");
    assert_true(K->lost_ms - killed_ms <= 1000 + 20 + 2 * stage.worst_lag_ms);
    stage_expect_nothing(200);
    server_restart(&stage.server);
    back_ms = now_ms();
    EXPECT("K gained");
    assert_true(K->fence > before);
    print_message("lost %lld ms after the kill, gained %lld ms after the restart\n",
                  (long long)(K->lost_ms - killed_ms),
                  (long long)(K->gained_ms - back_ms));
}

static void loses_first_of_all_after_a_stall(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "y");

    (void)state;
    keeper_start(a, "K", "x", asking(.lease_ms = 300));
    EXPECT("A granted; K gained");
    release_hold(A); /* its reply comes during the stall */
    stage_stall(600);
    EXPECT("K lost ELOST; A released OK; K gained");
}

static void keeps_the_lock_to_itself_until_its_margin_is_over(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct keeper *K = keeper_start(
        a, "K", "x", asking(.lease_ms = 2000, .max_hold_ms = 1000, .margin_ms = 600));

    (void)state;
    EXPECT("K gained");
    acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    EXPECT("K lost ETIMEOUT");
    assert_true(K->remaining_at_lost > 300 || stage.worst_lag_ms > 100);
    assert_int_equal(lw_lock_state(lock_of(K)), LW_LOST);
    int64_t end_ms = now_ms() + lw_lock_remaining_ms(lock_of(K));
    EXPECT("B granted");
    assert_true(now_ms() >= end_ms);
    UNTIL(lw_lock_state(lock_of(K)) == LW_WAITING);
}

static void on_kept_risk(struct lw_lock *lock, int at_risk, int64_t remaining_ms,
                         void *arg)
{
    struct keeper *keeper = arg;

    if (lock != lock_of(keeper) || !keeper->leads || remaining_ms <= 0) {
        stage_complain("at_risk of another hold");
    }
    stage_note("%s %s", keeper->label, at_risk ? "at risk" : "safe");
}

static void at_risk_gets_its_handle_and_the_arg_of_the_keep(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    keeper_start(a, "K", "x", asking(.lease_ms = 2000, .at_risk = on_kept_risk));
    EXPECT("K gained");
    server_pause(&stage.server);
    EXPECT("K at risk");
    server_resume(&stage.server);
    EXPECT("K safe");
    redis_ok("DEL x");
    EXPECT("K lost ENOTHELD; K gained");
    server_pause(&stage.server);
    EXPECT("K at risk; K lost ELOST");
    server_resume(&stage.server);
    EXPECT("K gained");
}

/* ---- leadership that rotates ---- */

static void goes_around_by_max_hold(const struct lw_acquire_options *one,
                                    const struct lw_acquire_options *other)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct keeper *K = keeper_start(a, "K", "x", one);

    EXPECT("K gained");
    struct keeper *L = keeper_start(b, "L", "x", other);
    for (int i = 0; i < 3; i++) {
        EXPECT("K lost ETIMEOUT; L gained; L lost ETIMEOUT; K gained");
        assert_true(K->fence > L->fence);
    }
}

static void mutex_goes_around_by_max_hold(void **state)
{
    (void)state;
    goes_around_by_max_hold(asking(.lease_ms = 3000, .max_hold_ms = 300),
                            asking(.lease_ms = 3000, .max_hold_ms = 300));
}

static void exclusive_goes_around_by_max_hold(void **state)
{
    (void)state;
    goes_around_by_max_hold(
        asking(.mode = LW_EXCLUSIVE, .owner = "a", .lease_ms = 3000, .max_hold_ms = 300,
               .margin_ms = 100),
        asking(.mode = LW_EXCLUSIVE, .owner = "b", .lease_ms = 3000, .max_hold_ms = 300));
}

static void two_of_one_client_go_around(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct keeper *K =
        keeper_start(a, "K", "x", asking(.lease_ms = 3000, .max_hold_ms = 300));

    (void)state;
    EXPECT("K gained");
    struct keeper *L =
        keeper_start(a, "L", "x", asking(.lease_ms = 3000, .max_hold_ms = 300));
    EXPECT("K lost ETIMEOUT; L gained; L lost ETIMEOUT; K gained");
    assert_true(K->fence > L->fence);
}

static void permits_are_kept_by_as_many(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    const struct lw_acquire_options *options = asking(.mode = LW_SHARED, .permits = 2);

    (void)state;
    keeper_start(a, "K", "x", options);
    EXPECT("K gained");
    struct keeper *L = keeper_start(b, "L", "x", options);
    EXPECT("L gained");
    struct keeper *M = keeper_start(a, "M", "x", options);
    stage_expect_nothing(200);
    keeper_free(L);
    EXPECT("M gained");
    assert_int_equal(M->gains, 1);
}

static void redisson_has_no_fence_and_is_kept_all_the_same(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    keeper_start(a, "K", "x", asking(.mode = LW_REDISSON, .lease_ms = 900));
    EXPECT("K gained");
    redis_ok("DEL x");
    EXPECT("K lost ENOTHELD; K gained");
}

static void another_process_leads_when_the_leader_is_killed(void **state)
{
    struct process *p = process_start("P", NULL), *q = process_start("Q", NULL);
    int64_t killed_ms;

    (void)state;
    process_tell(p, "keep K x 1500");
    EXPECT("P: K gained");
    process_tell(q, "keep L x 1500");
    wait_queued("x", 1);
    stage_forget_lag();
    killed_ms = now_ms();
    process_kill(p);
    EXPECT("Q: L gained");
    assert_true(q->fence > p->fence);
    assert_true(now_ms() - killed_ms < 1500 + 2500 + 2 * stage.worst_lag_ms);
    stage.keys_may_stay = true;
    print_message("gained %lld ms after the kill\n", (long long)(now_ms() - killed_ms));
}

static void a_leader_that_was_stopped_is_told_and_queues_again(void **state)
{
    struct process *p = process_start("P", NULL), *q = process_start("Q", NULL);

    (void)state;
    process_tell(p, "keep K x 500");
    EXPECT("P: K gained");
    process_tell(q, "keep L x 500");
    wait_queued("x", 1);
    process_signal(p, SIGSTOP);
    EXPECT("Q: L gained");
    process_signal(p, SIGCONT);
    EXPECT("P: K lost ELOST");
    wait_queued("x", 1);
    process_kill(q);
    EXPECT("P: K gained");
    assert_true(p->fence > q->fence);
    stage.keys_may_stay = true;
}

/* ---- refusals ---- */

static void gains_as_soon_as_it_is_allowed_to(void **state)
{
    (void)state;
    redis_ok("ACL SETUSER app reset on >secret +@all -set -eval -evalsha ~* &*");
    struct peer *a = peer_ready("a", client_of(.username = "app", .password = "secret"));
    struct keeper *K = keeper_start(a, "K", "x", NULL);

    UNTIL(lw_lock_state(lock_of(K)) == LW_DONE);
    if (strstr(lw_lock_errstr(lock_of(K)), "NOPERM") == NULL) {
        stage_fail("\"%s\" does not say NOPERM", lw_lock_errstr(lock_of(K)));
    }
    assert_true(peer_logged(a, "4 x: refused by the server: "));
    assert_true(peer_logged(a, "; retrying in 1000 ms"));
    UNTIL(peer_logged(a, "; retrying in 2000 ms"));
    redis_ok("ACL SETUSER app +@all");
    EXPECT("K gained");
    assert_string_equal(lw_lock_errstr(lock_of(K)), "");
}

static void after_a_refusal_it_was_lost_before(void **state)
{
    (void)state;
    redis_ok("ACL SETUSER app reset on >secret +@all ~* &*");
    struct peer *a = peer_ready("a", client_of(.username = "app", .password = "secret"));

    keeper_start(a, "K", "x", asking(.lease_ms = 500));
    EXPECT("K gained");
    redis_ok("ACL SETUSER app -set -eval -evalsha");
    EXPECT("K lost ELOST");
    UNTIL(peer_logged(a, "; retrying in 1000 ms"));
    redis_ok("ACL SETUSER app +@all");
    EXPECT("K gained");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(gains_at_once_where_nobody_else_is),
        STAGE_TEST(goes_on_holding_beyond_its_lease),
        STAGE_TEST(waits_in_the_queue_for_its_turn),
        STAGE_TEST(gains_again_after_its_key_was_deleted),
        STAGE_TEST(queues_behind_those_who_wait_after_a_break),
        STAGE_TEST(gains_again_when_a_killed_server_is_back),
        STAGE_TEST(loses_first_of_all_after_a_stall),
        STAGE_TEST(keeps_the_lock_to_itself_until_its_margin_is_over),
        STAGE_TEST(at_risk_gets_its_handle_and_the_arg_of_the_keep),
        STAGE_TEST(mutex_goes_around_by_max_hold),
        STAGE_TEST(exclusive_goes_around_by_max_hold),
        STAGE_TEST(two_of_one_client_go_around),
        STAGE_TEST(permits_are_kept_by_as_many),
        STAGE_TEST(redisson_has_no_fence_and_is_kept_all_the_same),
        STAGE_TEST(another_process_leads_when_the_leader_is_killed),
        STAGE_TEST(a_leader_that_was_stopped_is_told_and_queues_again),
        STAGE_TEST(gains_as_soon_as_it_is_allowed_to),
        STAGE_TEST(after_a_refusal_it_was_lost_before),
    };

    return STAGE_RUN(tests);
}

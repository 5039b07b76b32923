/* SPDX-License-Identifier: MIT */
/* lw_client_stats: each counter changes by what it counts, and by nothing else.
 * Independent of when the library counts.
 *
 * Usual course: a test does one thing, and checks one counter. */
#include "known.h"
#include "monitor.h"
#include "players.h"
#include "proxy.h"

#include <string.h>

static void granted_held_and_released(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_and_wait(a, "B", "y");
    struct lw_stats stats = peer_stats(a);
    assert_int_equal(stats.granted, 2);
    assert_int_equal(stats.held, 2);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.released, 0);
    release_hold(A);
    EXPECT("A granted; B granted; A released OK");
    free_hold(B);
    stats = peer_stats(a);
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.released, 2);
    assert_int_equal(stats.granted, 2);
}

static void waiting_busy_timed_out_and_failed(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    acquire_and_wait(b, "H", "x");
    acquire_hold(a, "B", "x", 0);
    acquire_hold(a, "T", "x", 50);
    EXPECT_SET("H granted; B EBUSY; T ETIMEOUT");
    struct hold *W = acquire_hold(a, "W", "x", -1);
    acquire_hold(a, "C", "x", -1);
    struct lw_stats stats = peer_stats(a);
    assert_int_equal(stats.busy, 1);
    assert_int_equal(stats.timed_out, 1);
    assert_int_equal(stats.waiting, 2);
    free_hold(W);
    assert_int_equal(peer_stats(a).waiting, 1);
    peer_close(a);
    EXPECT("C ECLOSED; a closed");
    stats = peer_stats(a);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.failed, 1);
    assert_int_equal(stats.granted, 0);
}

/* A keep and a wait without a limit are standbys until they hold, or end in any way. */
static void waits_without_a_limit_are_standbys(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "x");
    struct lw_keep *keep;

    (void)state;
    struct hold *L = acquire_hold(a, "L", "x", 60000);
    struct hold *S = acquire_hold(a, "S", "x", -1);
    assert_int_equal(lw_keep_new(a->client, "x", NULL, NULL, NULL, NULL, &keep), LW_OK);
    struct lw_stats stats = peer_stats(a);
    assert_int_equal(stats.waiting, 3);
    assert_int_equal(stats.standby, 2);
    free_hold(S);
    stats = peer_stats(a);
    assert_int_equal(stats.waiting, 2);
    assert_int_equal(stats.standby, 1);
    release_hold(B);
    EXPECT_SET("B granted; B released OK; L granted");
    assert_int_equal(peer_stats(a).waiting, 1);
    assert_int_equal(peer_stats(a).standby, 1);
    release_hold(L);
    EXPECT("L released OK");
    UNTIL(peer_stats(a).held == 1);
    assert_int_equal(peer_stats(a).waiting, 0);
    assert_int_equal(peer_stats(a).standby, 0);
    acquire_hold(b, "E", "x", -1);
    assert_int_equal(peer_stats(b).standby, 1);
    peer_close(b);
    EXPECT("E ECLOSED; b closed");
    assert_int_equal(peer_stats(b).standby, 0);
    lw_keep_free(keep);
}

static void lost_by_reason(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    acquire_hold_with(a, "D", "d", asking(.lease_ms = 200, .flags = LW_NO_RENEW));
    acquire_hold_with(a, "M", "m", asking(.max_hold_ms = 100));
    struct hold *T = acquire_and_wait(a, "T", "t");
    redis_ok("DEL t");
    renew_hold(T, 0);
    UNTIL(peer_stats(a).held == 0 && peer_stats(a).granted == 3);
    struct lw_stats stats = peer_stats(a);
    assert_int_equal(stats.lost_deadline, 1);
    assert_int_equal(stats.lost_max_hold, 1);
    assert_int_equal(stats.lost_taken, 1);
    assert_int_equal(stats.released, 0);
    stage_clear_trace();
    stage.keys_may_stay = true;
}

static void handed_over_and_passed(void **state)
{
    struct peer *a = peer_ready("a", client_of(.local_turns = 16)),
                *b = peer_ready("b", NULL);
    struct hold *H = acquire_and_wait(b, "H", "x");
    struct hold *A = acquire_hold(a, "A", "x", -1), *B = acquire_hold(a, "B", "x", -1);

    (void)state;
    wait_queued("x", 1);
    release_hold(H);
    UNTIL(A->result == LW_OK);
    assert_int_equal(peer_stats(a).handed_over, 1);
    assert_int_equal(peer_stats(a).passed, 0);
    release_hold(A);
    UNTIL(B->result == LW_OK);
    assert_int_equal(peer_stats(a).passed, 1);
    assert_int_equal(peer_stats(a).handed_over, 1);
    assert_int_equal(peer_stats(a).granted, 2);
    stage_clear_trace();
}

static void renewed(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 600));

    (void)state;
    UNTIL(peer_stats(a).renewed >= 3);
    stage_skip_if_lag(20);
    assert_int_equal(peer_stats(a).renewals_late, 0);
    stage_forget_lag();
    stage_stall(320); /* a renewal was due during it */
    UNTIL(peer_stats(a).renewals_late == 1 || A->lost != PENDING);
    stage_skip_if_lag(380); /* the lease may have ended */
    assert_int_equal(peer_stats(a).renewals_late, 1);
    stage_clear_trace();
}

/* The library's count equals the server's, as MONITOR shows it. */
static void commands_are_those_that_the_server_saw(void **state)
{
    (void)state;
    monitor_start();
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    for (int i = 0; i < 10; i++) {
        struct hold *A = acquire_and_wait(a, "A", "x"),
                    *B = acquire_hold(b, "B", "x", -1);
        wait_queued("x", 1);
        renew_hold(A, 0);
        release_hold(A);
        UNTIL(B->result == LW_OK);
        release_hold(B);
        UNTIL(B->released == LW_OK);
    }
    stage_clear_trace();
    uint64_t counted = peer_stats(a).commands + peer_stats(b).commands;
    int seen = monitor_count("") + monitor_count("get"); /* of the guard's record */
    if ((uint64_t)seen != counted) {
        stage_fail("%d seen, %llu counted:\n%s", seen, (unsigned long long)counted,
                   monitor_text());
    }
}

static void reconnects_and_resent(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a = peer_start_at("a", proxy->url, client_of(.backoff_max_ms = 50));

    (void)state;
    peer_wait_ready(a);
    assert_int_equal(peer_stats(a).reconnects, 0);
    assert_int_equal(peer_stats(a).resent, 0);
    make_scripts_known();
    struct hold *A = acquire_and_wait(a, "A", "x");
    proxy_swallow(proxy, COMMANDS, TO_CLIENT, true);
    release_hold(A);
    UNTIL(redis_int("EXISTS x") == 0);
    proxy_cut(proxy, COMMANDS);
    proxy_swallow(proxy, COMMANDS, TO_CLIENT, false);
    EXPECT("A granted; A released OK");
    assert_int_equal(peer_stats(a).reconnects, 1);
    assert_true(peer_stats(a).resent >= 1);
}

static void link_up(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a = peer_start_at("a", proxy->url, client_of(.backoff_max_ms = 50));

    (void)state;
    assert_int_equal(peer_stats(a).link_up, 0);
    peer_wait_ready(a);
    assert_int_equal(peer_stats(a).link_up, 1);
    proxy_refuse(proxy, true);
    proxy_cut(proxy, COMMANDS);
    UNTIL(peer_stats(a).link_up == 0);
    proxy_refuse(proxy, false);
    UNTIL(peer_stats(a).link_up == 1);
    peer_close(a);
    EXPECT("a closed");
    assert_int_equal(peer_stats(a).link_up, 0);
}

static void wait_times(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *H = acquire_and_wait(b, "H", "x"), *A = acquire_hold(a, "A", "x", -1);
    uint64_t sum = 0;
    int bucket = 0;

    (void)state;
    stage_run_for(200);
    release_hold(H);
    UNTIL(A->result == LW_OK);
    struct lw_stats stats = peer_stats(a);
    int64_t took = A->result_ms - A->asked_ms;
    assert_int_in_range(stats.wait_us, 199000, (took + 2) * 1000);
    for (int i = 0; i < LW_WAIT_BUCKETS; i++) {
        sum += stats.wait_histogram[i];
        if (stats.wait_histogram[i]) {
            bucket = i;
        }
    }
    assert_int_equal(sum, 1);
    int64_t upper = bucket == LW_WAIT_BUCKETS - 1 ? INT64_MAX : INT64_C(1) << bucket;
    int64_t lower = bucket == 0 ? 0 : INT64_C(1) << (bucket - 1);
    assert_true(took + 2 >= lower && (int64_t)(stats.wait_us / 1000) <= upper);
    stage_clear_trace();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(granted_held_and_released),
        STAGE_TEST(waiting_busy_timed_out_and_failed),
        STAGE_TEST(waits_without_a_limit_are_standbys),
        STAGE_TEST(lost_by_reason),
        STAGE_TEST(handed_over_and_passed),
        STAGE_TEST(renewed),
        STAGE_TEST(commands_are_those_that_the_server_saw),
        STAGE_TEST(reconnects_and_resent),
        STAGE_TEST(link_up),
        STAGE_TEST(wait_times),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/* The column LW_HELD of the header's table of calls by state: what lw_release, lw_renew
 * and lw_lock_free do, and each status that their callbacks may have. The other columns
 * are in states.c. Relies only on what the header says about states.
 *
 * Usual course: a held handle, a call, its result, and what is in Redis afterwards. */
#include "players.h"
#include "proxy.h"

#include <string.h>

static struct peer *a, *b;

static struct hold *held(void)
{
    a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    return A;
}

static void assert_state(const struct hold *hold, enum lw_state state)
{
    assert_int_equal(lw_lock_state(hold->lock), state);
}

/* ---- lw_release ---- */

static void held_release_is_OK(void **state)
{
    struct hold *A = held();

    (void)state;
    release_hold(A);
    assert_state(A, LW_RELEASING);
    EXPECT("A released OK");
    assert_state(A, LW_DONE);
    assert_int_equal(redis_int("EXISTS x"), 0);
}

static void held_release_without_callback(void **state)
{
    struct hold *A = held();

    (void)state;
    assert_int_equal(lw_release(A->lock, NULL, NULL), LW_OK);
    assert_state(A, LW_RELEASING);
    UNTIL(lw_lock_state(A->lock) == LW_DONE);
    UNTIL(redis_int("EXISTS x") == 0);
}

static void held_release_of_a_key_that_is_gone_is_ENOTHELD(void **state)
{
    struct hold *A = held();

    (void)state;
    redis_ok("DEL x");
    release_hold(A);
    EXPECT("A released ENOTHELD");
    assert_state(A, LW_DONE);
}

static void held_release_at_a_stopped_server_is_EUNKNOWN(void **state)
{
    (void)state;
    a = peer_ready("a", client_of(.request_timeout_ms = 400, .backoff_max_ms = 200));
    struct hold *A = acquire_and_wait(a, "A", "x");
    server_pause(&stage.server);
    release_hold(A);
    EXPECT("A granted; A released EUNKNOWN");
    assert_state(A, LW_DONE);
    assert_true(A->released_ms - A->result_ms >= 390);
    server_resume(&stage.server);
    UNTIL(redis_int("EXISTS x") == 0); /* it is retried in the background */
    UNTIL(a->downs > 0 && a->up);      /* so that it leaves nothing behind */
}

/* Neither the release nor a new connection gets through at first; later one does. */
static void held_release_that_was_swallowed_is_EUNKNOWN_and_tried_on(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);

    (void)state;
    a = peer_start_at("a", proxy->url,
                      client_of(.request_timeout_ms = 400, .backoff_max_ms = 100));
    peer_wait_ready(a);
    struct hold *A = acquire_and_wait(a, "A", "x");
    proxy_black_hole(proxy, true);
    release_hold(A);
    EXPECT("A granted; A released EUNKNOWN");
    free_hold(A);
    assert_int_equal(redis_int("EXISTS x"), 1);
    proxy_cut(proxy, COMMANDS);
    proxy_black_hole(proxy, false);
    UNTIL(redis_int("EXISTS x") == 0);
}

/* ---- lw_renew ---- */

static void held_renew_is_OK(void **state)
{
    struct hold *A = held();

    (void)state;
    renew_hold(A, 0);
    assert_state(A, LW_HELD);
    EXPECT("A renewed OK");
    assert_state(A, LW_HELD);
}

static void held_renew_without_callback(void **state)
{
    struct hold *A = held();

    (void)state;
    assert_int_equal(lw_renew(A->lock, 90000, NULL, NULL), LW_OK);
    UNTIL(lw_lock_remaining_ms(A->lock) > 60000);
    assert_held_by_redis(A);
}

static void held_renew_of_a_bad_lease_is_EINVAL(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 2000, .margin_ms = 500));
    EXPECT("A granted");
    renew_refused(A, 99, LW_EINVAL);
    renew_refused(A, 1000, LW_EINVAL); /* not above twice the margin */
    renew_refused(A, UINT32_MAX, LW_EINVAL);
    assert_state(A, LW_HELD);
    renew_hold(A, 1001);
    EXPECT("A renewed OK");
}

static void held_renew_pending_at_lost_is_ELOST_after_it(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 600));
    EXPECT("A granted");
    server_pause(&stage.server);
    renew_hold(A, 0);
    renew_hold(A, 500);
    EXPECT("A lost ELOST; A renewed ELOST; A renewed ELOST");
    server_resume(&stage.server);
    stage_expect_nothing(100);
    stage.keys_may_stay = true;
}

static void held_renew_pending_at_release_is_ECANCELED_before_it(void **state)
{
    struct hold *A = held();

    (void)state;
    renew_hold(A, 0);
    renew_hold(A, 1000);
    release_hold(A);
    EXPECT("A renewed ECANCELED; A renewed ECANCELED; A released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
}

static void held_renew_without_connection_is_ECONN_and_still_held(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);

    (void)state;
    a = peer_start_at("a", proxy->url, client_of(.backoff_max_ms = 100));
    peer_wait_ready(a);
    struct hold *A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    proxy_refuse(proxy, true);
    proxy_cut(proxy, COMMANDS);
    UNTIL(!a->up);
    renew_hold(A, 0);
    assert_state(A, LW_HELD);
    EXPECT("A renewed ECONN");
    assert_state(A, LW_HELD);
    assert_true(lw_lock_remaining_ms(A->lock) > 0);
    proxy_refuse(proxy, false);
    UNTIL(a->up);
    renew_hold(A, 0);
    EXPECT("A renewed OK");
    assert_held_by_redis(A);
}

static void held_renew_cut_in_flight_is_ECONN_and_still_held(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);

    (void)state;
    a = peer_start_at("a", proxy->url, client_of(.backoff_max_ms = 100));
    peer_wait_ready(a);
    struct hold *A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    proxy_hold(proxy, COMMANDS, TO_SERVER, true);
    long long before = proxy->bytes[COMMANDS][TO_SERVER];
    renew_hold(A, 0);
    UNTIL(proxy->bytes[COMMANDS][TO_SERVER] > before);
    proxy_cut(proxy, COMMANDS);
    proxy_hold(proxy, COMMANDS, TO_SERVER, false);
    EXPECT("A renewed ECONN");
    assert_state(A, LW_HELD);
    UNTIL(a->up);
    assert_held_by_redis(A);
}

static void held_renew_forbidden_is_EREDIS_and_still_held(void **state)
{
    (void)state;
    redis_ok("ACL SETUSER app reset on >secret +@all ~* &*");
    a = peer_ready("a", client_of(.username = "app", .password = "secret"));
    struct hold *A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    redis_ok("ACL SETUSER app -evalsha -eval -get -pexpire");
    renew_hold(A, 0);
    EXPECT("A renewed EREDIS");
    assert_state(A, LW_HELD);
    assert_non_null(strstr(lw_lock_errstr(A->lock), "NOPERM"));
    redis_ok("ACL SETUSER app +@all");
    renew_hold(A, 0);
    EXPECT("A renewed OK");
}

/* ---- lw_lock_free ---- */

static void held_free_releases(void **state)
{
    struct hold *A = held();

    (void)state;
    free_hold(A);
    UNTIL(redis_int("EXISTS x") == 0);
    stage_expect_nothing(50);
}

static void held_free_hands_over(void **state)
{
    struct hold *A = held(), *B;

    (void)state;
    b = peer_ready("b", NULL);
    B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    free_hold(A);
    EXPECT("B granted");
    assert_held_by_redis(B);
}

static void held_free_with_a_renewal_pending_is_silent(void **state)
{
    struct hold *A = held();

    (void)state;
    renew_hold(A, 0);
    free_hold(A);
    UNTIL(redis_int("EXISTS x") == 0);
    stage_expect_nothing(50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(held_release_is_OK),
        STAGE_TEST(held_release_without_callback),
        STAGE_TEST(held_release_of_a_key_that_is_gone_is_ENOTHELD),
        STAGE_TEST(held_release_at_a_stopped_server_is_EUNKNOWN),
        STAGE_TEST(held_release_that_was_swallowed_is_EUNKNOWN_and_tried_on),
        STAGE_TEST(held_renew_is_OK),
        STAGE_TEST(held_renew_without_callback),
        STAGE_TEST(held_renew_of_a_bad_lease_is_EINVAL),
        STAGE_TEST(held_renew_pending_at_lost_is_ELOST_after_it),
        STAGE_TEST(held_renew_pending_at_release_is_ECANCELED_before_it),
        STAGE_TEST(held_renew_without_connection_is_ECONN_and_still_held),
        STAGE_TEST(held_renew_cut_in_flight_is_ECONN_and_still_held),
        STAGE_TEST(held_renew_forbidden_is_EREDIS_and_still_held),
        STAGE_TEST(held_free_releases),
        STAGE_TEST(held_free_hands_over),
        STAGE_TEST(held_free_with_a_renewal_pending_is_silent),
    };

    return STAGE_RUN(tests);
}

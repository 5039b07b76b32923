/* SPDX-License-Identifier: MIT */
/* Callback rules 7 (lw_client_close, lw_client_free) and 8 (the loop). Independent of how
 * the client drains.
 *
 * Usual course: handles are in several states, the client ends, and the test checks the
 * callbacks, and the keys that are left in Redis. */
#include "known.h"
#include "players.h"
#include "proxy.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* ---- 7: lw_client_close ---- */

static void rule7_close_releases_what_is_held_silently(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_hold(b, "B", "x", -1);

    (void)state;
    EXPECT("A granted");
    wait_queued("x", 1);
    peer_close(a);
    assert_int_equal(lw_lock_state(A->lock), LW_DONE);
    assert_int_equal(lw_lock_remaining_ms(A->lock), 0);
    EXPECT_SET("a closed; B granted"); /* handed over; A gets no callback */
    assert_int_equal(A->lost, PENDING);
    assert_held_by_redis(B);
}

static void rule7_close_gives_away_what_is_left_of_a_lost_one(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A =
        acquire_hold_with(a, "A", "x",
                          asking(.lease_ms = 1000000, .margin_ms = 499990,
                                 .max_hold_ms = 500000, .flags = LW_NO_RENEW));

    (void)state;
    EXPECT("A granted");
    EXPECT("A lost ETIMEOUT");
    assert_int_equal(lw_lock_state(A->lock), LW_LOST);
    assert_true(lw_lock_remaining_ms(A->lock) > 0);
    peer_close(a);
    assert_int_equal(lw_lock_remaining_ms(A->lock), 0);
    EXPECT("a closed");
    assert_int_equal(redis_int("EXISTS x"), 0);
}

static void rule7_close_ends_what_waits_with_ECLOSED(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    acquire_and_wait(b, "B", "x");
    EXPECT("B granted");
    struct hold *A = acquire_hold(a, "A", "x", -1), *C = acquire_hold(a, "C", "x", 60000);
    wait_queued("x", 2);
    peer_close(a);
    assert_int_equal(A->result, PENDING); /* not inside the call */
    EXPECT_SET("A ECLOSED; C ECLOSED");
    EXPECT("a closed");
    assert_int_equal(C->result, LW_ECLOSED);
    assert_int_equal(redis_int("EXISTS %s", queue_of("x")), 0); /* it has drained */
}

static void rule7_close_waits_for_what_is_releasing(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    release_hold(A);
    peer_close(a);
    EXPECT("A granted; A released OK; a closed");
}

static void rule7_close_calls_back_last(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *R;

    (void)state;
    acquire_and_wait(b, "B", "x");
    R = acquire_and_wait(a, "R", "r");
    acquire_and_wait(a, "H", "h");
    EXPECT("B granted; R granted; H granted");
    acquire_hold(a, "W", "x", -1);
    renew_hold(R, 0);
    release_hold(R);
    acquire_hold(a, "N", "n", 0);
    peer_close(a);
    EXPECT_SET("R renewed ECANCELED; R released OK; W ECLOSED; N ECLOSED");
    EXPECT("a closed");
    stage_expect_nothing(100);
    UNTIL(redis_int("EXISTS r h n %s", queue_of("x")) == 0);
}

static void rule7_close_cancels_a_pending_renewal_of_what_is_held(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    renew_hold(A, 0);
    peer_close(a);
    EXPECT("A granted; A renewed ECANCELED; a closed");
}

static void rule7_close_of_an_idle_client(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    peer_close(a);
    EXPECT("a closed");
}

static void rule7_close_before_the_first_connection(void **state)
{
    struct peer *a = peer_start("a", NULL);

    (void)state;
    acquire_hold(a, "A", "x", -1);
    peer_close(a);
    EXPECT("A ECLOSED; a closed");
}

static void rule7_close_without_a_server(void **state)
{
    struct server nobody;

    (void)state;
    server_absent(&nobody);
    struct peer *a = peer_start_at("a", nobody.url, NULL);
    acquire_hold(a, "A", "x", -1);
    UNTIL(a->downs > 0);
    peer_close(a);
    EXPECT("A ECLOSED; a closed");
    server_stop(&nobody);
}

static void rule7_close_without_callback(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    assert_int_equal(lw_client_close(a->client, NULL, NULL), LW_OK);
    UNTIL(redis_int("EXISTS x") == 0);
    UNTIL(peer_link_id(a, false) == 0); /* the client has closed */
    peer_free(a);
}

static void rule7_close_ends_in_time_although_the_server_is_stopped(void **state)
{
    struct peer *a = peer_ready("a", client_of(.close_timeout_ms = 600));
    struct hold *R = acquire_and_wait(a, "R", "r");

    (void)state;
    acquire_and_wait(a, "H", "h");
    EXPECT("R granted; H granted");
    server_pause(&stage.server);
    release_hold(R);
    acquire_hold(a, "W", "x", -1);
    stage_forget_lag();
    peer_close(a);
    EXPECT_SET("W ECLOSED; R released EUNKNOWN");
    EXPECT("a closed");
    server_resume(&stage.server);
    if (a->closed_ms - a->close_called_ms > 600 + 50 + 2 * stage.worst_lag_ms) {
        stage_fail("it took %lld ms", (long long)(a->closed_ms - a->close_called_ms));
    }
    assert_true(a->closed_ms - a->close_called_ms >= 590);
    stage.keys_may_stay = true;
}

static void rule7_nothing_comes_after_close_has_called_back(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a = peer_start_at("a", proxy->url, client_of(.close_timeout_ms = 300));

    (void)state;
    peer_wait_ready(a);
    make_scripts_known();
    acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    peer_close(a);
    EXPECT("a closed");
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    proxy_cut(proxy, COMMANDS);
    proxy_cut(proxy, SUBSCRIPTION);
    stage_expect_nothing(200);
}

static void free_client(struct peer *peer)
{
    peer_free(peer);
}

static void rule7_client_freed_inside_the_close_callback(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    a->on_closed = free_client;
    peer_close(a);
    EXPECT("A granted; a closed");
    release_refused(A, LW_ECLOSED);
}

static void free_client_of(struct hold *hold, enum moment moment)
{
    (void)moment;
    peer_free(hold->peer);
}

/* Both grants arrive together; the second one is not delivered. */
static void rule7_grant_that_was_not_told_leaves_no_number(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold(a, "A", "x", 0), *B = acquire_hold(a, "B", "y", 0);

    (void)state;
    server_pause(&stage.server); /* so that both are answered at once */
    stage_run_for(10);
    A->then = free_client_of;
    stage_forget_lag();
    server_resume(&stage.server);
    EXPECT("A granted");
    assert_int_equal(B->result, PENDING);
    assert_int_equal(lw_lock_state(B->lock), LW_DONE);
    assert_int_equal(lw_lock_fence(B->lock), 0);
    assert_string_equal(lw_lock_owner(B->lock), "");
    assert_true(lw_lock_fence(A->lock) == A->fence); /* this one was delivered */
    stage.keys_may_stay = true;
}

static void rule7_client_freed_while_it_closes(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    acquire_and_wait(a, "A", "x");
    acquire_hold(a, "W", "x", -1);
    EXPECT("A granted");
    peer_close(a);
    peer_free(a);
    stage_expect_nothing(100);
    stage.keys_may_stay = true;
}

static void rule7_client_freed_before_it_is_told_that_it_is_closed(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    peer_close(a); /* nothing to drain: the callback is already queued */
    peer_free(a);
    stage_expect_nothing(50);
}

/* ---- 7: lw_client_free ---- */

static void rule7_free_is_immediate_and_silent(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    acquire_and_wait(b, "B", "y");
    struct hold *A = acquire_and_wait(a, "A", "x"), *R = acquire_and_wait(a, "R", "r");
    EXPECT("B granted; A granted; R granted");
    acquire_hold(a, "W", "y", -1);
    acquire_hold(a, "T", "y", 100);
    renew_hold(A, 0);
    release_hold(R);
    peer_free(a);
    stage_expect_nothing(300);
    stage.keys_may_stay = true;
}

static void rule7_free_with_every_kind_of_command_in_flight(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a = peer_start_at("a", proxy->url, NULL);
    struct hold *E, *R;

    (void)state;
    peer_wait_ready(a);
    /* The renewal of this lock will be in flight. */
    acquire_hold_with(a, "A", "x", asking(.lease_ms = 1000));
    E = acquire_and_wait(a, "E", "e"), R = acquire_and_wait(a, "R", "r");
    EXPECT_SET("A granted; E granted; R granted");
    long long before = proxy->bytes[COMMANDS][TO_SERVER];
    proxy_hold(proxy, COMMANDS, TO_SERVER, true);
    UNTIL(proxy->bytes[COMMANDS][TO_SERVER] > before);
    renew_hold(E, 0);
    release_hold(R);
    acquire_hold(a, "W", "x", -1);
    free_hold(acquire_hold(a, "D", "d", -1));
    stage_run_for(20);
    peer_free(a);
    stage_clear_trace();
    stage_expect_nothing(50);
    stage.keys_may_stay = true;
}

static void rule7_free_at_every_moment_of_connecting(void **state)
{
    (void)state;
    for (int turns = 0; turns < 40; turns++) {
        struct peer *a = peer_start("a", NULL);
        acquire_hold(a, "A", "x", turns % 3 ? -1 : 0);
        for (int i = 0; i < turns; i++) {
            event_base_loop(stage.base, EVLOOP_NONBLOCK);
        }
        peer_free(a);
    }
    stage_clear_trace();
    stage_expect_nothing(100);
    stage.keys_may_stay = true;
}

/* ---- 8: the loop ---- */

static void rule8_events_keep_dispatch_running_and_end_with_free(void **state)
{
    struct event_base *base = event_base_new();
    struct lw_client *client = NULL;

    (void)state;
    assert_int_equal(lw_client_new(base, stage.server.url, NULL, &client), LW_OK);
    event_base_loopexit(base, &(struct timeval){.tv_usec = 300000});
    assert_int_equal(event_base_dispatch(base), 0); /* ended by loopexit: 1 = no events */
    assert_true(event_base_got_exit(base));
    lw_client_free(client);
    assert_int_equal(event_base_dispatch(base), 1); /* no events are left */
    event_base_free(base);
}

static void closed_in_own_base(struct lw_client *client, void *arg)
{
    (void)client;
    *(int *)arg += 1;
}

static void rule8_dispatch_returns_after_close(void **state)
{
    struct event_base *base = event_base_new();
    struct lw_client *client = NULL;
    int closed = 0;

    (void)state;
    assert_int_equal(lw_client_new(base, stage.server.url, NULL, &client), LW_OK);
    assert_int_equal(lw_client_close(client, closed_in_own_base, &closed), LW_OK);
    assert_int_equal(event_base_dispatch(base), 1);
    assert_int_equal(closed, 1);
    lw_client_free(client);
    event_base_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(rule7_close_releases_what_is_held_silently),
        STAGE_TEST(rule7_close_gives_away_what_is_left_of_a_lost_one),
        STAGE_TEST(rule7_close_ends_what_waits_with_ECLOSED),
        STAGE_TEST(rule7_close_waits_for_what_is_releasing),
        STAGE_TEST(rule7_close_calls_back_last),
        STAGE_TEST(rule7_close_cancels_a_pending_renewal_of_what_is_held),
        STAGE_TEST(rule7_close_of_an_idle_client),
        STAGE_TEST(rule7_close_before_the_first_connection),
        STAGE_TEST(rule7_close_without_a_server),
        STAGE_TEST(rule7_close_without_callback),
        STAGE_TEST(rule7_close_ends_in_time_although_the_server_is_stopped),
        STAGE_TEST(rule7_nothing_comes_after_close_has_called_back),
        STAGE_TEST(rule7_client_freed_inside_the_close_callback),
        STAGE_TEST(rule7_grant_that_was_not_told_leaves_no_number),
        STAGE_TEST(rule7_client_freed_while_it_closes),
        STAGE_TEST(rule7_client_freed_before_it_is_told_that_it_is_closed),
        STAGE_TEST(rule7_free_is_immediate_and_silent),
        STAGE_TEST(rule7_free_with_every_kind_of_command_in_flight),
        STAGE_TEST(rule7_free_at_every_moment_of_connecting),
        STAGE_TEST(rule8_events_keep_dispatch_running_and_end_with_free),
        STAGE_TEST(rule8_dispatch_returns_after_close),
    };

    return STAGE_RUN(tests);
}

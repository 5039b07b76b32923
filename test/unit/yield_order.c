/* SPDX-License-Identifier: MIT */
/*
 * When asked_to_yield is called, next to the other callbacks of a hold, with which it
 * shares the handle's only notice: after `done` and `at_risk`, never after `lost` or a
 * release, once for requests that no callback has separated.
 *
 * Usual course: hold() makes the test's handle the holder, without a server;
 * lw__handle_ask() is what a message does; delivered() runs the callbacks that are due.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lock/lock_private.h"

#include "loop/loop.h"

#include <event2/event.h>
#include <stdio.h>
#include <string.h>

#define LEASE_MS 30000

static struct event_base *base;
static struct lw_client *client;
static struct lw_lock *lock;
static char trace[256];

static void note(const char *word)
{
    size_t used = strlen(trace);

    (void)snprintf(trace + used, sizeof(trace) - used, "%s; ", word);
}

static void on_done(struct lw_lock *of, int status, void *arg)
{
    (void)of, (void)arg;
    note(status == LW_OK ? "granted" : "failed");
}

static void on_lost(struct lw_lock *of, int reason, void *arg)
{
    (void)of, (void)reason, (void)arg;
    note("lost");
}

static void on_risk(struct lw_lock *of, int at_risk, int64_t remaining_ms, void *arg)
{
    (void)of, (void)remaining_ms, (void)arg;
    note(at_risk ? "at risk" : "safe");
}

static void on_asked(struct lw_lock *of, void *arg)
{
    assert_ptr_equal(of, lock);
    assert_ptr_equal(arg, trace);
    assert_int_equal(lw_lock_state(of), LW_HELD);
    note("asked");
}

static void set_up_with(lw_asked_cb *asked)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    struct lw_acquire_options wanted = LW_ACQUIRE_OPTIONS_INIT;

    trace[0] = '\0';
    base = event_base_new();
    assert_non_null(base);
    options.asked_to_yield = asked;
    options.arg = trace;
    assert_int_equal(
        lw_client_new(base, "unix:///nonexistent/lockwire", &options, &client), 0);
    wanted.wait_ms = -1;
    wanted.lease_ms = LEASE_MS;
    wanted.lost = on_lost;
    wanted.at_risk = on_risk;
    assert_int_equal(lw_acquire(client, "x", &wanted, on_done, NULL, &lock), 0);
}

static int set_up(void **state)
{
    (void)state;
    set_up_with(on_asked);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lw_lock_free(lock);
    lw_client_free(client);
    event_base_free(base);
    return 0;
}

/* The handle, which waits, becomes the holder, as after a grant. */
static void hold(void)
{
    struct lw__claim *claim = lock->claim;

    lw__handle_stop_waiting(lw__handles(claim), lock);
    lw__handles(claim)->holder = lock;
    lw__timer_cancel(client->loop, &claim->timer);
    claim->machine.phase = LW__HELD;
    claim->machine.deadline_us = lw__now_us() + (int64_t)LEASE_MS * LW__MS;
    lw__handle_hold(lw__handles(claim), lock);
}

static void take_back(void)
{
    struct lw__handles *handles = lw__handles(lock->claim);

    handles->holder = NULL;
    lw__handle_take_back(lock);
    lw__handle_wait_first(handles, lock);
}

/* The warning is due now. */
static void be_at_risk(void)
{
    lw__extras_own(lock)->risk_at_us = 0;
    lw__handle_arm_loss(lock);
}

/* A renewal moves the deadline. */
static void be_renewed(void)
{
    lock->claim->machine.deadline_us += (int64_t)LW__MS * 1000;
    lw__handle_arm_loss(lock);
}

/* Returns the callbacks since the last call. One call of lw__deliver makes some of them
 * only, if the machine stands still between two. */
static const char *delivered(void)
{
    static char text[sizeof(trace)];

    do {
        lw__deliver(client);
    } while (lw__notify_first(client) != NULL);
    memcpy(text, trace, sizeof(text));
    trace[0] = '\0';
    return text;
}

static void be_held(void)
{
    hold();
    assert_string_equal(delivered(), "granted; ");
}

/* ---- tests ---- */

static void test_requests_before_the_call_are_one(void **state)
{
    (void)state;
    be_held();
    lw__handle_ask(lock);
    lw__handle_ask(lock);
    assert_string_equal(delivered(), "asked; ");
    assert_string_equal(delivered(), "");
    be_at_risk();
    assert_string_equal(delivered(), "at risk; ");
    lw__handle_ask(lock);
    assert_string_equal(delivered(), "asked; ");
}

static void test_a_request_before_the_grant_is_delivered_follows_it(void **state)
{
    (void)state;
    hold();
    lw__handle_ask(lock);
    lw__handle_ask(lock);
    assert_string_equal(delivered(), "granted; asked; ");
    assert_string_equal(delivered(), "");
}

static void test_a_request_for_a_grant_that_is_taken_back_is_forgotten(void **state)
{
    (void)state;
    hold();
    lw__handle_ask(lock);
    take_back();
    assert_string_equal(delivered(), "");
    hold();
    assert_string_equal(delivered(), "granted; ");
}

static void test_a_warning_goes_before_an_earlier_request(void **state)
{
    (void)state;
    be_held();
    lw__handle_ask(lock);
    be_at_risk();
    assert_string_equal(delivered(), "at risk; asked; ");
    assert_string_equal(delivered(), "");
}

static void test_a_request_after_a_warning(void **state)
{
    (void)state;
    be_held();
    be_at_risk();
    lw__handle_ask(lock);
    assert_string_equal(delivered(), "at risk; asked; ");
    be_renewed();
    lw__handle_ask(lock);
    assert_string_equal(delivered(), "safe; asked; ");
}

static void test_a_warning_that_is_canceled_leaves_the_request(void **state)
{
    (void)state;
    be_held();
    lw__handle_ask(lock);
    be_at_risk();
    be_renewed();
    assert_string_equal(delivered(), "asked; ");
}

static void test_a_warning_that_is_repeated_leaves_the_request(void **state)
{
    (void)state;
    be_held();
    be_at_risk();
    assert_string_equal(delivered(), "at risk; ");
    lw__handle_ask(lock);
    lw__handle_repeat_risk(lock);
    assert_string_equal(delivered(), "at risk; asked; ");
    be_renewed();
    lw__handle_ask(lock);
    lw__handle_repeat_risk(lock); /* the caller knows of no risk that could have ended */
    assert_string_equal(delivered(), "asked; ");
}

static void test_a_loss_replaces_a_request(void **state)
{
    (void)state;
    be_held();
    lw__handle_ask(lock);
    lw__handle_lose(lock, LW_ELOST);
    assert_string_equal(delivered(), "lost; ");
}

static void test_a_release_cancels_a_request(void **state)
{
    (void)state;
    be_held();
    be_at_risk();
    lw__handle_ask(lock);
    assert_int_equal(lw_release(lock, NULL, NULL), 0);
    assert_string_equal(delivered(), "");
}

static void test_without_the_callback_nothing_is_queued(void **state)
{
    (void)state;
    set_up_with(NULL);
    be_held();
    lw__handle_ask(lock);
    assert_string_equal(delivered(), "");
    be_at_risk();
    assert_string_equal(delivered(), "at risk; ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_requests_before_the_call_are_one, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_request_before_the_grant_is_delivered_follows_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_request_for_a_grant_that_is_taken_back_is_forgotten, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(test_a_warning_goes_before_an_earlier_request,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_request_after_a_warning, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_warning_that_is_canceled_leaves_the_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_warning_that_is_repeated_leaves_the_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_loss_replaces_a_request, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_release_cancels_a_request, set_up,
                                        tear_down),
        cmocka_unit_test_teardown(test_without_the_callback_nothing_is_queued, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

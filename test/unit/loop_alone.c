/* SPDX-License-Identifier: MIT */
/*
 * The loop in a process that has no descriptor left for the loop's timer: libevent's own
 * timers replace it.
 *
 * Usual course: a loop is made while no descriptor is available; timers run in order,
 * never early, and once each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "loop/loop.h"

#include <event2/event.h>
#include <string.h>
#include <sys/resource.h>

static struct event_base *base;
static struct lw__loop *loop;
static char word[64];

struct actor {
    char letter;
    int64_t due_us;
    struct lw__timer timer;
    void (*act)(void);
};

static int set_up(void **state)
{
    struct rlimit before, none;

    (void)state;
    memset(word, 0, sizeof(word));
    base = event_base_new();
    assert_non_null(base);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int status = lw__loop_new(base, &loop);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, 0);
    return lw__timer_reserve(loop, 8);
}

static int tear_down(void **state)
{
    (void)state;
    lw__loop_free(loop);
    assert_int_equal(event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED), 0);
    event_base_free(base);
    return 0;
}

static void on_timer(void *arg)
{
    const struct actor *actor = arg;

    word[strlen(word)] = actor->letter;
    assert_true(lw__now_us() >= actor->due_us);
    if (actor->act != NULL) {
        actor->act();
    }
}

static void start_at(struct actor *actor, char letter, int64_t due_us)
{
    *actor = (struct actor){.letter = letter, .due_us = due_us};
    lw__timer_init(&actor->timer, on_timer, actor);
    lw__timer_set(loop, &actor->timer, actor->due_us);
}

static void start(struct actor *actor, char letter, int64_t in_us)
{
    start_at(actor, letter, lw__now_us() + in_us);
}

static void await(size_t letters)
{
    while (strlen(word) < letters) {
        assert_int_equal(event_base_loop(base, EVLOOP_ONCE),
                         0); /* 1: nothing to wait for */
    }
}

static void test_timers_come_in_order_and_never_early(void **state)
{
    struct actor a, b, c, d;
    int64_t now_us = lw__now_us();

    (void)state;
    start_at(&c, 'c', now_us + 30000);
    start_at(&a, 'a', now_us + 10000);
    start_at(&b, 'b', now_us + 20000);
    start(&d, 'd', INT64_C(9) * 3600 * 1000000);
    await(3);
    assert_string_equal(word, "abc");
    assert_true(lw__timer_is_set(&d.timer));
    lw__timer_cancel(loop, &d.timer);
}

static void test_one_that_is_due_already_comes_at_once(void **state)
{
    struct actor a;

    (void)state;
    start(&a, 'a', -5000);
    await(1);
    assert_string_equal(word, "a");
}

static void catch_up(void)
{
    lw__timer_catch_up(loop); /* has no effect from within a timer */
}

static void test_catching_up_from_within_a_timer_is_left_to_it(void **state)
{
    struct actor a, b;

    (void)state;
    start(&a, 'a', -2000);
    start(&b, 'b', -1000);
    a.act = catch_up;
    lw__timer_catch_up(loop);
    assert_string_equal(word, "ab");
}

static void free_loop(void)
{
    lw__loop_free(loop);
    loop = NULL;
}

static void test_the_loop_is_freed_by_a_timer(void **state)
{
    struct actor a, b;

    (void)state;
    start(&a, 'a', 1000);
    start(&b, 'b', 1000);
    a.act = free_loop;
    b.act = free_loop;
    await(1);
    assert_int_equal(event_base_loop(base, EVLOOP_NONBLOCK), 1);
    assert_int_equal(strlen(word), 1);
}

/* Nothing is due, but an event of the loop keeps the host's event_base running. */
static void test_an_idle_loop_keeps_dispatch_running(void **state)
{
    (void)state;
    assert_int_equal(event_base_loop(base, EVLOOP_NONBLOCK), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_timers_come_in_order_and_never_early),
        TEST(test_one_that_is_due_already_comes_at_once),
        TEST(test_catching_up_from_within_a_timer_is_left_to_it),
        TEST(test_the_loop_is_freed_by_a_timer),
        TEST(test_an_idle_loop_keeps_dispatch_running),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * The loop: the order of timers and deferred calls, descriptors, and freeing from within
 * a callback. Each test has a loop of loop_scene.h, and compares the word that results.
 * Names are resolved in the tests of resolve.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../lib/child.h"
#include "loop/resolve.h"
#include "loop/loop.h"
#include "loop_scene.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Timers */

static void test_timers_run_in_order_of_due_time(void **state)
{
    struct scene *scene = *state;
    struct actor actors[4];
    int64_t now = lw__now_us();

    for (int i = 0; i < 4; i++) {
        loop_cast(&actors[i], scene, (char)('a' + i), NULL);
    }
    lw__timer_set(scene->loop, &actors[2].timer, now + 3000);
    lw__timer_set(scene->loop, &actors[0].timer, now - 1000);
    lw__timer_set(scene->loop, &actors[3].timer, now + 4000);
    lw__timer_set(scene->loop, &actors[1].timer, now + 2000);
    assert_true(lw__timer_is_set(&actors[1].timer));
    assert_int_equal(scene->length, 0);
    loop_await(scene, 4);
    assert_string_equal(scene->word, "abcd");
    assert_true(lw__now_us() >= now + 4000);
    assert_false(lw__timer_is_set(&actors[1].timer));
}

static void test_a_timer_moves_and_is_canceled(void **state)
{
    struct scene *scene = *state;
    struct actor a, b, c;
    int64_t now = lw__now_us();

    loop_cast(&a, scene, 'a', NULL);
    loop_cast(&b, scene, 'b', NULL);
    loop_cast(&c, scene, 'c', NULL);
    lw__timer_set(scene->loop, &a.timer, now + 1000);
    lw__timer_set(scene->loop, &b.timer, now + 2000);
    lw__timer_set(scene->loop, &c.timer, now + INT64_C(3600000000));
    lw__timer_set(scene->loop, &a.timer,
                  now + 5000); /* later: the first wake-up finds no due timer */
    lw__timer_set(scene->loop, &c.timer, now + 4000);
    lw__timer_cancel(scene->loop, &b.timer);
    lw__timer_cancel(scene->loop, &b.timer);
    loop_await(scene, 2);
    assert_string_equal(scene->word, "ca");
}

static void cancel_other(struct actor *actor)
{
    lw__timer_cancel(actor->scene->loop, &actor->other->timer);
    lw__defer_cancel(actor->scene->loop, &actor->other->call);
}

static void test_a_timer_cancels_another_that_is_due(void **state)
{
    struct scene *scene = *state;
    struct actor a, b, c;

    loop_cast(&a, scene, 'a', cancel_other);
    loop_cast(&b, scene, 'b', NULL);
    loop_cast(&c, scene, 'c', NULL);
    a.other = &b;
    lw__timer_set(scene->loop, &a.timer, 1);
    lw__timer_set(scene->loop, &b.timer, 2);
    lw__timer_set(scene->loop, &c.timer, 3);
    loop_await(scene, 2);
    loop_turn(scene);
    assert_string_equal(scene->word, "ac");
}

static void again_in_the_past(struct actor *actor)
{
    if (actor->left-- > 0) {
        lw__timer_set(actor->scene->loop, &actor->timer, 1);
    }
}

static void test_a_timer_that_sets_itself_does_not_starve_the_loop(void **state)
{
    struct scene *scene = *state;
    struct actor a;

    loop_cast(&a, scene, 't', again_in_the_past);
    a.left = 100;
    loop_watch(scene, EV_READ);
    assert_int_equal(write(scene->ends[1], "x", 1), 1);
    lw__timer_set(scene->loop, &a.timer, 1);
    loop_await(scene, 102);
    assert_non_null(strchr(scene->word, 'r'));
    assert_true(strchr(scene->word, 'r') - scene->word < 50);
}

static void test_after_a_stall_due_timers_run_before_a_descriptor(void **state)
{
    struct scene *scene = *state;
    struct actor a;
    int64_t due = lw__now_us() + 2000;

    loop_cast(&a, scene, 't', NULL);
    loop_watch(scene, EV_READ);
    lw__timer_set(scene->loop, &a.timer, due);
    assert_int_equal(write(scene->ends[1], "x", 1), 1);
    loop_stall(due);
    loop_await(scene, 2);
    assert_string_equal(scene->word, "tr");
}

static void test_after_a_stall_due_timers_run_before_deferred_calls(void **state)
{
    struct scene *scene = *state;
    struct actor t, d;
    int64_t due = lw__now_us() + 2000;

    loop_cast(&t, scene, 't', NULL);
    loop_cast(&d, scene, 'd', NULL);
    lw__defer(scene->loop, &d.call, false);
    lw__timer_set(scene->loop, &t.timer, due);
    loop_stall(due);
    loop_await(scene, 2);
    assert_string_equal(scene->word, "td");
}

/* Deferred calls */

static void test_deferred_calls_run_once_in_order_and_late_ones_last(void **state)
{
    struct scene *scene = *state;
    struct actor a, b, late;

    loop_cast(&a, scene, 'a', NULL);
    loop_cast(&b, scene, 'b', NULL);
    loop_cast(&late, scene, 'l', NULL);
    lw__defer(scene->loop, &late.call, true);
    lw__defer(scene->loop, &a.call, false);
    lw__defer(scene->loop, &b.call, false);
    lw__defer(scene->loop, &a.call, false);
    lw__defer(scene->loop, &late.call, true);
    assert_int_equal(scene->length, 0);
    loop_turn(scene);
    assert_string_equal(scene->word, "abl");
    loop_turn(scene);
    assert_string_equal(scene->word, "abl");
}

static void test_deferred_calls_are_canceled_in_any_place(void **state)
{
    struct scene *scene = *state;
    struct actor actors[5];

    for (int i = 0; i < 5; i++) {
        loop_cast(&actors[i], scene, (char)('a' + i), NULL);
        lw__defer(scene->loop, &actors[i].call, i == 4);
    }
    actors[1].act = cancel_other;
    actors[1].other = &actors[3];
    lw__defer_cancel(scene->loop, &actors[0].call);
    lw__defer_cancel(scene->loop, &actors[0].call);
    lw__defer_cancel(scene->loop, &actors[4].call);
    lw__defer(scene->loop, &actors[0].call, false);
    loop_await(scene, 3);
    loop_turn(scene);
    assert_string_equal(scene->word, "bca");
}

static void defer_self(struct actor *actor)
{
    if (actor->left-- > 0) {
        lw__defer(actor->scene->loop, &actor->call, false);
    }
}

static void test_calls_deferred_by_calls_leave_descriptors_their_turn(void **state)
{
    struct scene *scene = *state;
    struct actor a;

    loop_cast(&a, scene, 'd', defer_self);
    a.left = 100;
    loop_watch(scene, EV_READ);
    assert_int_equal(write(scene->ends[1], "x", 1), 1);
    lw__defer(scene->loop, &a.call, false);
    loop_await(scene, 102);
    assert_true(strchr(scene->word, 'r') - scene->word < 50);
}

static void defer_late(struct actor *actor)
{
    lw__defer(actor->scene->loop, &actor->other->call, true);
}

static void test_a_late_call_runs_in_the_turn_of_what_deferred_it(void **state)
{
    struct scene *scene = *state;
    struct actor t, d, l;

    loop_cast(&t, scene, 't', defer_late);
    loop_cast(&d, scene, 'd', defer_late);
    loop_cast(&l, scene, 'l', NULL);
    t.other = d.other = &l;
    lw__timer_set(scene->loop, &t.timer, 1);
    lw__defer(scene->loop, &d.call, false);
    loop_turn(scene); /* timer and call in one turn: one late call, after both */
    assert_string_equal(scene->word, "tdl");
}

/* Freeing from within */

static void free_all(struct actor *actor)
{
    struct scene *scene = actor->scene;

    loop_unwatch(scene);
    lw__loop_free(scene->loop);
    scene->loop = NULL;
}

static void test_the_loop_is_freed_by_any_of_its_callbacks(void **state)
{
    struct scene *scene = *state;
    struct actor t, d, l, w;
    struct actor *all[] = {&t, &d, &l, &w};

    for (int who = 0; who < 4; who++) {
        if (scene->loop == NULL) {
            assert_int_equal(lw__loop_new(scene->base, &scene->loop), 0);
            assert_int_equal(lw__timer_reserve(scene->loop, 8), 0);
        }
        memset(scene->word, 0, sizeof(scene->word));
        scene->length = 0;
        loop_cast(&t, scene, 't', NULL);
        loop_cast(&d, scene, 'd', NULL);
        loop_cast(&l, scene, 'l', NULL);
        loop_cast(&w, scene, 'w', NULL);
        all[who]->act = free_all;
        scene->watcher = &w;
        loop_watch(scene, EV_WRITE);
        lw__timer_set(scene->loop, &t.timer, 1);
        lw__defer(scene->loop, &d.call, false);
        lw__defer(scene->loop, &l.call, true);
        loop_await(scene, 1);
        for (int i = 0; i < 20 && scene->loop != NULL; i++) {
            loop_turn(scene);
        }
        assert_null(scene->loop);
        assert_int_equal(scene->word[scene->length - 1], all[who]->letter);
        loop_turn(scene); /* no call follows */
        assert_int_equal(scene->word[scene->length - 1], all[who]->letter);
    }
}

static void test_an_event_whose_loop_a_due_timer_frees_goes_no_further(void **state)
{
    struct scene *scene = *state;
    struct actor t;

    loop_cast(&t, scene, 't', free_all);
    loop_watch(scene, EV_WRITE);
    lw__timer_set(scene->loop, &t.timer, 1);
    loop_await(scene, 1);
    loop_turn(scene);
    assert_int_equal(scene->word[scene->length - 1], 't');
    assert_null(strchr(scene->word, 't')[1] ? scene->word : NULL);
}

/* The time of an event */

static int64_t first_us, second_us, forgotten_us;

static void look_twice(struct actor *actor)
{
    struct lw__loop *loop = actor->scene->loop;

    first_us = lw__loop_now_us(loop);
    loop_stall(first_us + 2 * LW__MS);
    second_us = lw__loop_now_us(loop);
    lw__loop_forget_time(loop);
    forgotten_us = lw__loop_now_us(loop);
}

static void test_an_event_reads_the_time_once_until_it_is_forgotten(void **state)
{
    struct scene *scene = *state;
    struct actor a, b;
    int64_t before_us = lw__now_us();

    loop_cast(&a, scene, 'a', look_twice);
    loop_cast(&b, scene, 'b', look_twice);
    lw__defer(scene->loop, &a.call, false);
    loop_await(scene, 1);
    assert_true(before_us <= first_us && first_us == second_us);
    assert_true(forgotten_us >= first_us + 2 * LW__MS);
    before_us = forgotten_us;
    lw__timer_set(scene->loop, &b.timer, before_us + LW__MS);
    loop_await(scene, 2);
    assert_true(before_us + LW__MS <= first_us && first_us == second_us);
}

static void test_after_an_event_each_call_reads_the_time(void **state)
{
    struct lw__loop *loop = ((struct scene *)*state)->loop;
    int64_t entered_us;

    assert_true(lw__loop_enter(loop));
    entered_us = lw__loop_now_us(loop);
    lw__loop_leave(loop);
    loop_stall(entered_us + 2 * LW__MS);
    assert_true(lw__loop_now_us(loop) >= entered_us + 2 * LW__MS);
    lw__loop_enter_again(loop); /* the next reply of the same read */
    assert_true(lw__loop_now_us(loop) == entered_us);
    lw__loop_forget_time(loop); /* the host's log function was called */
    lw__loop_leave(loop);
    lw__loop_enter_again(loop);
    assert_true(lw__loop_now_us(loop) >= entered_us + 2 * LW__MS);
    lw__loop_leave(loop);
}

static void test_a_call_reads_the_time_once(void **state)
{
    struct lw__loop *loop = ((struct scene *)*state)->loop;
    int64_t read_us;

    lw__loop_read_time(loop);
    read_us = lw__loop_now_us(loop);
    loop_stall(read_us + 2 * LW__MS);
    assert_true(lw__loop_now_us(loop) == read_us);
    lw__timer_catch_up(loop);
    assert_true(lw__loop_now_us(loop) >= read_us + 2 * LW__MS);
    lw__loop_forget_time(loop);
}

static void test_null_is_freed_in_peace(void **state)
{
    (void)state;
    lw__loop_free(NULL);
    lw__resolve_cancel(NULL);
}

static void test_a_forked_child_leaves_the_parents_events_alone(void **state)
{
    struct scene *scene = *state;
    struct actor t;
    int status = -1;
    pid_t child;

    loop_cast(&t, scene, 't', NULL);
    loop_watch(scene, EV_READ);
    lw__defer(scene->loop, &t.call, false);
    child = fork_for_test();
    assert_true(child >= 0);
    if (child == 0) { /* whatever the child's event_base does, nothing is called */
        lw__loop_free(scene->loop);
        (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
        end_child(scene->length == 0 ? 0 : 1);
    }
    lw__defer_cancel(scene->loop, &t.call);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(write(scene->ends[1], "x", 1), 1);
    loop_await(scene, 1);
    lw__timer_set(scene->loop, &t.timer, lw__now_us() + 1000);
    loop_await(scene, 2);
    assert_string_equal(scene->word, "rt");
}

/* A watched descriptor, whose event a child frees with the loop. */
struct inherited {
    struct scene *scene;
    struct event *readable;
    unsigned read, ended;
    bool closed;
};

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct inherited *inherited = arg;
    char byte;

    (void)what;
    if (!lw__loop_skips(inherited->scene->loop)) {
        inherited->read += read(fd, &byte, 1) == 1;
    }
}

/* Like a link, closes the descriptor first if the set may be the parent's. */
static void end_it(struct inherited *inherited)
{
    inherited->closed = lw__loop_shares_set(inherited->scene->loop);
    if (inherited->closed) {
        (void)close(event_get_fd(inherited->readable));
    }
    event_free(inherited->readable);
}

static void on_child(void *arg)
{
    struct inherited *inherited = arg;

    inherited->ended++;
    end_it(inherited);
    lw__loop_free(inherited->scene->loop);
    inherited->scene->loop = NULL;
}

static void exit_of_a_child(const struct scene *scene, const struct inherited *inherited,
                            bool reinits)
{
    if (reinits && event_reinit(scene->base) != 0) {
        end_child(1);
    }
    if (event_base_dispatch(scene->base) != 1) { /* no event is left */
        end_child(2);
    }
    end_child(scene->length != 0             ? 3
              : inherited->read != 0         ? 4
              : inherited->ended != 1        ? 5
              : inherited->closed == reinits ? 6
                                             : 0);
}

/* Everything for which libevent calls the loop is due when the process forks. */
static void run_in_a_child(struct scene *scene, bool reinits)
{
    struct inherited inherited = {.scene = scene};
    struct actor t, c;
    int status = -1;
    pid_t child;

    loop_cast(&t, scene, 't', NULL);
    loop_cast(&c, scene, 'c', NULL);
    lw__loop_on_child(scene->loop, on_child, &inherited);
    inherited.readable = event_new(scene->base, scene->ends[0], EV_READ | EV_PERSIST,
                                   on_readable, &inherited);
    assert_non_null(inherited.readable);
    assert_int_equal(event_add(inherited.readable, NULL), 0);
    lw__timer_set(scene->loop, &t.timer, lw__now_us());
    lw__defer(scene->loop, &c.call, false);
    assert_int_equal(write(scene->ends[1], "x", 1), 1);
    child = fork_for_test();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(60);
        exit_of_a_child(scene, &inherited, reinits);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    loop_await(scene, 2);
    for (int i = 0; i < 1000 && inherited.read == 0; i++) { /* it is ready */
        loop_turn(scene);
    }
    end_it(&inherited);
    assert_int_equal(status, 0);
    assert_int_equal(inherited.read, 1);
    assert_int_equal(inherited.ended, 0);
    assert_false(inherited.closed);
}

static void test_nothing_is_called_in_a_forked_child(void **state)
{
    run_in_a_child(*state, false);
}

static void test_nothing_is_called_in_a_child_with_a_set_of_its_own(void **state)
{
    run_in_a_child(*state, true);
}

static pid_t made = -1; /* the result of act_forks' fork */

static void act_forks(struct actor *actor)
{
    (void)actor;
    made = fork_for_test();
}

static void test_a_call_forks_and_the_next_is_the_parents(void **state)
{
    struct scene *scene = *state;
    struct actor a, b;
    int status = -1;

    loop_cast(&a, scene, 'a', act_forks);
    loop_cast(&b, scene, 'b', NULL);
    lw__defer(scene->loop, &a.call, false);
    lw__defer(scene->loop, &b.call, true);
    loop_turn(scene);
    if (made == 0) {
        end_child(strcmp(scene->word, "a") == 0 ? 0 : 1);
    }
    assert_true(made > 0);
    assert_int_equal(waitpid(made, &status, 0), made);
    assert_int_equal(status, 0);
    assert_string_equal(scene->word, "ab");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, loop_set_up, loop_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_timers_run_in_order_of_due_time),
        TEST(test_a_timer_moves_and_is_canceled),
        TEST(test_a_timer_cancels_another_that_is_due),
        TEST(test_a_timer_that_sets_itself_does_not_starve_the_loop),
        TEST(test_after_a_stall_due_timers_run_before_a_descriptor),
        TEST(test_after_a_stall_due_timers_run_before_deferred_calls),
        TEST(test_deferred_calls_run_once_in_order_and_late_ones_last),
        TEST(test_deferred_calls_are_canceled_in_any_place),
        TEST(test_calls_deferred_by_calls_leave_descriptors_their_turn),
        TEST(test_a_late_call_runs_in_the_turn_of_what_deferred_it),
        TEST(test_the_loop_is_freed_by_any_of_its_callbacks),
        TEST(test_an_event_whose_loop_a_due_timer_frees_goes_no_further),
        TEST(test_an_event_reads_the_time_once_until_it_is_forgotten),
        TEST(test_after_an_event_each_call_reads_the_time),
        TEST(test_a_call_reads_the_time_once),
        TEST(test_null_is_freed_in_peace),
        TEST(test_a_forked_child_leaves_the_parents_events_alone),
        TEST(test_nothing_is_called_in_a_forked_child),
        TEST(test_nothing_is_called_in_a_child_with_a_set_of_its_own),
        TEST(test_a_call_forks_and_the_next_is_the_parents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * A process is stopped while it waits: its claim window passes, the hand-over to it
 * expires, another client is granted the lock, the next hand-over comes. When the process
 * continues, the timer, the messages and the replies are all there. They are taken in
 * every order, with more time in between, with the caller giving up at any point, or with
 * the link lost: a tree of which every path is walked to its end. The world is a model of
 * one server (machine_model.h).
 *
 * orders_check() has the conditions for each node. Every path must end, and leave nothing
 * behind. An argument makes the tree deeper than 5. Usual course: walk() takes the next
 * event of each kind on a copy of the scene.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "machine_orders_scene.h"

#include <stdlib.h>
#include <string.h>

static int depth_wanted = 5;

/* ---- the tree ---- */

/* Takes the shortest way to the end, which must exist and leave nothing behind. */
static void end(struct scene s)
{
    orders.paths++;
    for (int i = 0; s.machine.phase != LW__ENDED; i++) {
        if (i == 40) {
            orders_show(&s, "this does not end");
        }
        orders_look_at_deadline(&s);
        if (!s.linked) {
            orders_link_up(&s);
        } else if (s.in_flight && s.executed) {
            orders_take_answer(&s);
        } else if (s.in_flight) {
            orders_pass_time(&s, s.execute_us);
        } else if (lw__machine_holds(s.machine.phase) || !s.gave_up) {
            orders_give_up(&s);
        } else if (s.machine.due_us != LW__NEVER) {
            orders_due(&s);
        }
    }
    if (!s.excused && model_has(&s.server, US)) {
        orders_show(&s, "something is left behind");
    }
}

static void walk(const struct scene *before, int depth);

/* One branch: this event, then time passes, then deadlines are checked. */
static void branch(const struct scene *before, int depth, void (*take)(struct scene *))
{
    static const int64_t passes_us[] = {MS, 700 * MS};

    for (size_t i = 0; i < sizeof(passes_us) / sizeof(*passes_us); i++) {
        struct scene s = *before;

        take(&s);
        orders_pass_time(&s, s.now_us + passes_us[i]);
        orders_check(&s);
        orders_look_at_deadline(&s);
        walk(&s, depth - 1);
    }
}

static void take_message_0(struct scene *s)
{
    orders_take_message(s, 0);
}

static void take_message_1(struct scene *s)
{
    orders_take_message(s, 1);
}

static void repeat_message_0(struct scene *s)
{
    struct model_message again = s->messages[0];

    orders_take_message(s, 0);
    if (s->count < MESSAGES) {
        s->messages[s->count++] = again;
    }
    orders_take_message(s, s->count - 1);
}

static void drop_message_0(struct scene *s)
{
    s->count--;
    memmove(s->messages, s->messages + 1, s->count * sizeof(*s->messages));
}

static void wait_on(struct scene *s)
{
    (void)s;
}

static void walk(const struct scene *s, int depth)
{
    if (depth == 0 || s->machine.phase == LW__ENDED) {
        end(*s);
        return;
    }
    branch(s, depth, wait_on);
    if (s->count > 0) {
        branch(s, depth, take_message_0);
        branch(s, depth, repeat_message_0);
        branch(s, depth, drop_message_0);
    }
    if (s->count > 1) {
        branch(s, depth, take_message_1);
    }
    if (s->in_flight && s->executed) {
        branch(s, depth, orders_take_answer);
    }
    if (s->in_flight && !s->lost_once) {
        branch(s, depth, orders_lose_link);
    }
    if (!s->linked) {
        branch(s, depth, orders_link_up);
    }
    if (s->renewal == NO_RENEWAL && s->linked && lw__machine_holds(s->machine.phase)) {
        branch(s, depth, orders_send_renewal);
    }
    if (s->renewal == RENEWAL_DONE) {
        branch(s, depth, orders_take_renewal);
    }
    if (s->machine.due_us <= s->now_us && !lw__machine_holds(s->machine.phase)) {
        branch(s, depth, orders_due);
    }
    if (!s->gave_up) {
        branch(s, depth, orders_give_up);
    }
}

/* ---- the beginnings ---- */

/* Another client holds the lock, and one more waits behind us. */
static struct scene waiting(void)
{
    struct scene s = {
        .server = {.ahead_us = (int64_t)5000000 * MS,
                   .ppm = 9000, /* the drift that we allow for is 1 % */
                   .window_us = WINDOW,
                   .mutex = {.holder = MODEL_NOBODY},
                   .last_number = 15},
        .linked = true,
        .now_us = 10 * MS,
    };
    static const struct model_call holder = REQUEST_OF(HOLDER), other = REQUEST_OF(OTHER);
    struct lw__input ignored;

    model_run(&s.server, 0, LEASE, &holder, &ignored);
    lw__machine_init(&s.machine, WINDOW, LEASE);
    orders_step(
        &s, (struct lw__input){.event = LW__EV_START, .start = {.first_script = true}},
        "start");
    orders_pass_time(&s, 12 * MS);
    model_run(&s.server, 12 * MS, LEASE, &other, &ignored);
    return s;
}

/* When the process continues, relative to the hand-over, in parts of the window. */
static const int64_t resumed_us[] = {
    0,           WINDOW / 5,      WINDOW * 7 / 10, WINDOW * 4 / 5,
    WINDOW - MS, WINDOW + 2 * MS, WINDOW * 3 / 2,  WINDOW * 2,
    WINDOW * 4};

static void resume_at_all_times(const struct scene *stopped)
{
    for (size_t i = 0; i < sizeof(resumed_us) / sizeof(*resumed_us); i++) {
        struct scene s = *stopped;

        orders_pass_time(&s, others_us[RELEASE_1] + resumed_us[i]);
        orders_check(&s);
        orders_look_at_deadline(&s);
        walk(&s, depth_wanted);
    }
}

static void report(void)
{
    print_message("%lu nodes, %lu paths, %lu grants (%lu by message), %lu losses\n",
                  orders.nodes, orders.paths, orders.grants, orders.by_message,
                  orders.losses);
    assert_true(orders.paths > 1000 && orders.grants > 0 && orders.losses > 0);
    orders = (struct orders_counts){0};
}

static void test_stopped_in_the_queue(void **state)
{
    struct scene s = waiting();

    (void)state;
    orders_take_answer(&s);
    resume_at_all_times(&s);
    assert_true(orders.by_message > 0);
    report();
}

/* The reply from before the hand-over is still unread when the process continues. */
static void test_stopped_with_the_first_answer_unread(void **state)
{
    struct scene s = waiting();

    (void)state;
    resume_at_all_times(&s);
    assert_true(orders.by_message > 0);
    report();
}

/* A request was on its way. It runs before the hand-over, in the window, after it has
 * expired, or while the other client holds (so that the next release hands over a second
 * time). */
static void test_stopped_with_an_ask_on_its_way(void **state)
{
    static const int64_t runs_us[] = {50 * MS, 600 * MS, 1102 * MS, 1400 * MS};

    (void)state;
    for (size_t i = 0; i < sizeof(runs_us) / sizeof(*runs_us); i++) {
        struct scene s = waiting();

        orders_take_answer(&s);
        orders_pass_time(&s, 20 * MS);
        orders_step(&s, (struct lw__input){.event = LW__EV_RETRY_NOW}, "asked once more");
        s.execute_us = runs_us[i];
        resume_at_all_times(&s);
        report();
    }
}

/* The hand-over was believed; the process stops before its renewal, or with the reply to
 * it unread. */
static void test_stopped_while_holding(void **state)
{
    struct scene s = waiting();

    (void)state;
    orders_take_answer(&s);
    orders_pass_time(&s, others_us[RELEASE_1]);
    assert_int_equal(s.count, 1);
    orders_take_message(&s, 0);
    assert_true(lw__machine_holds(s.machine.phase));
    resume_at_all_times(&s);
    orders_send_renewal(&s);
    resume_at_all_times(&s);
    report();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stopped_in_the_queue),
        cmocka_unit_test(test_stopped_with_the_first_answer_unread),
        cmocka_unit_test(test_stopped_with_an_ask_on_its_way),
        cmocka_unit_test(test_stopped_while_holding),
    };

    if (argc > 1) {
        depth_wanted = atoi(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

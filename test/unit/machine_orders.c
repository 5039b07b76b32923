/* SPDX-License-Identifier: MIT */
/*
 * A process is stopped while it waits: its claim window passes, its turn expires, another
 * one is granted the lock, the next hand-over comes. When it goes on, the timer, the
 * messages and the answers are all there, and are taken in every order, with more time
 * passing between them, with its caller giving up at any point or the link lost: a tree
 * of which every path is walked to its end. The world is a model of one server
 * (machine_model.h).
 *
 * What must be true at each node is in check(); every path ends, and leaves nothing. An
 * argument makes the tree deeper than 5.
 * Happy path: walk() takes the next event of each kind on a copy of the scene.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lockwire.h"
#include "machine_model.h"

#include <stdlib.h>
#include <string.h>

#define MS 1000
#define WINDOW (1000 * MS)
#define LEASE (3000 * MS)
#define US MODEL_TOKEN(1, 1) /* the token of the process that is stopped */
#define OTHER MODEL_TOKEN(2, 1)
#define HOLDER MODEL_TOKEN(3, 1)
#define MESSAGES 4

/* What the others do, whenever that is. */
enum { RELEASE_1, ACQUIRE_2, RELEASE_2, EVENTS_OF_OTHERS };
static const int64_t others_us[EVENTS_OF_OTHERS] = {
    100 * MS,                   /* the holder lets go: handed to us */
    100 * MS + WINDOW + 5 * MS, /* the other, standing by, finds that we did not come */
    100 * MS + WINDOW + 800 * MS}; /* and lets go */

struct scene {
    struct lw__machine machine;
    struct model server;
    int64_t now_us;
    unsigned others_done;
    struct model_message messages[MESSAGES]; /* on their way to us */
    size_t count;
    bool in_flight, executed, linked, lost_once, gave_up;
    bool excused; /* it ended without a link: Redis itself will see to what is left */
    int64_t sent_us, execute_us, pair_sent_us, pair_server_us;
    unsigned sent; /* LW__SEND_... */
    struct lw__input answer;
    enum { NO_RENEWAL, RENEWAL_SENT, RENEWAL_DONE } renewal; /* on the same link */
    int64_t renewal_us;
    bool renewed;
    const char *trail[32]; /* what was taken, for the message of a failure */
    size_t taken;
};

static int depth_wanted = 5;
static unsigned long nodes, paths, grants, by_message, losses;

static void show(const struct scene *s, const char *what)
{
    print_error("%s; at %lld us, phase %d, D %lld us, after:\n", what,
                (long long)s->now_us, s->machine.phase,
                (long long)s->machine.deadline_us);
    for (size_t i = 0; i < s->taken; i++) {
        print_error("  %s\n", s->trail[i]);
    }
    fail();
}

/* Never held past D; D never past the end of what Redis knows as ours. */
static void check(const struct scene *s)
{
    const struct lw__machine *m = &s->machine;

    nodes++;
    if ((m->phase != LW__HELD && m->phase != LW__LAPSED) || s->now_us >= m->deadline_us) {
        return;
    }
    if (s->server.holder != US) {
        show(s, "held, but not ours");
    }
    if (s->server.ends_us < model_time(&s->server, m->deadline_us)) {
        show(s, "D is past the lease's end");
    }
}

/* ---- the world ---- */

static void collect(struct scene *s)
{
    for (size_t i = 0; i < s->server.messages; i++) {
        if (s->server.outbox[i].token != US) {
            continue;
        }
        assert_true(s->count < MESSAGES);
        s->messages[s->count++] = s->server.outbox[i];
    }
    s->server.messages = 0;
}

static void others_act(struct scene *s)
{
    struct lw__input ignored = {.now_us = 0};
    int64_t now = others_us[s->others_done];

    if (s->others_done == RELEASE_1) {
        model_release(&s->server, now, HOLDER, &ignored);
    } else if (s->others_done == ACQUIRE_2) {
        model_acquire(&s->server, now, OTHER, LEASE, true, -1, &ignored);
    } else {
        model_release(&s->server, now, OTHER, &ignored);
    }
    s->others_done++;
}

static void execute(struct scene *s)
{
    s->answer = (struct lw__input){.sent_us = s->sent_us};
    if (s->sent == LW__SEND_RELEASE) {
        model_release(&s->server, s->execute_us, US, &s->answer);
    } else {
        model_acquire(&s->server, s->execute_us, US, s->machine.lease_us,
                      !s->machine.abandoned, s->machine.ticket, &s->answer);
    }
    s->executed = true;
}

/* Whatever happens on the server until then, in order of time. A renewal runs as
 * soon as it was sent; its answer may be read late. */
static void pass_time(struct scene *s, int64_t until_us)
{
    if (s->renewal == RENEWAL_SENT && s->renewal_us <= until_us) {
        s->renewed = model_renew(&s->server, s->renewal_us, US, LEASE);
        s->renewal = RENEWAL_DONE;
    }
    for (;;) {
        int64_t theirs = s->others_done < EVENTS_OF_OTHERS ? others_us[s->others_done]
                                                           : INT64_MAX;
        int64_t ours = s->in_flight && !s->executed ? s->execute_us : INT64_MAX;

        if (theirs > until_us && ours > until_us) {
            break;
        }
        if (theirs <= ours) {
            others_act(s);
        } else {
            execute(s);
        }
        collect(s);
    }
    s->now_us = until_us;
}

/* ---- the process ---- */

static void step(struct scene *s, struct lw__input in, const char *what);

static void send(struct scene *s, unsigned actions)
{
    assert_false(s->in_flight); /* never two at once */
    if (!s->linked) {
        step(s, (struct lw__input){.event = LW__EV_UNKNOWN}, "(not sent)");
        return;
    }
    s->sent = actions & (LW__SEND_TRY | LW__SEND_ACQUIRE | LW__SEND_RELEASE);
    s->sent_us = s->now_us;
    s->execute_us = s->now_us + MS;
    s->in_flight = true;
    s->executed = false;
}

static void step(struct scene *s, struct lw__input in, const char *what)
{
    struct lw__output out;

    in.now_us = s->now_us;
    in.linked = s->linked;
    if (s->taken < sizeof(s->trail) / sizeof(*s->trail)) {
        s->trail[s->taken++] = what;
    }
    out = lw__machine_step(&s->machine, &in);
    if ((out.actions & LW__DO_GRANT) && s->now_us >= s->machine.deadline_us) {
        show(s, "granted, but too late");
    }
    if ((out.actions & LW__DO_GRANT) && s->gave_up) {
        show(s, "granted to one who gave up");
    }
    grants += (out.actions & LW__DO_GRANT) != 0;
    s->excused = (out.actions & LW__DO_END) && out.release_status == LW_EUNKNOWN;
    by_message += (out.actions & LW__DO_GRANT) != 0 && s->machine.by_message;
    if (out.actions & (LW__SEND_TRY | LW__SEND_ACQUIRE | LW__SEND_RELEASE)) {
        send(s, out.actions);
    }
    check(s);
}

/* Deadlines are looked at before anything else, as the library's loop promises. */
static void look_at_deadline(struct scene *s)
{
    if (s->machine.phase == LW__HELD && s->now_us >= s->machine.deadline_us) {
        losses++;
        step(s,
             (struct lw__input){.event = LW__EV_LAPSE,
                                .lapse = {.at_us = s->machine.deadline_us}},
             "lost");
    }
}

static void take_message(struct scene *s, size_t i)
{
    struct model_message message = s->messages[i];
    struct lw__input in = {.event = LW__EV_STANDBY};

    s->count--;
    memmove(&s->messages[i], &s->messages[i + 1], (s->count - i) * sizeof(*s->messages));
    if (message.handed) {
        in.event = LW__EV_HANDED;
        in.handed.handed_us = message.us;
        in.handed.fence = message.fence;
        in.handed.pair_sent_us = s->pair_sent_us;
        if (message.us >=
            s->pair_server_us) { /* as hints.c: only what came before it is */
            in.handed.pair_server_us = s->pair_server_us; /* of use */
        }
    } else {
        in.standby.window_us = message.window_us;
    }
    step(s, in, message.handed ? "hand-over" : "standby");
}

static void take_answer(struct scene *s)
{
    s->in_flight = false;
    if (s->answer.event == LW__EV_QUEUED) {
        s->pair_sent_us = s->answer.sent_us;
        s->pair_server_us = s->answer.queued.server_us;
    }
    step(s, s->answer, "answer");
}

static void lose_link(struct scene *s)
{
    s->linked = false;
    s->lost_once = true;
    s->in_flight = false; /* executed or not, as it stands */
    s->pair_server_us = 0;
    step(s,
         (struct lw__input){
             .event = LW__EV_UNKNOWN, .unknown = {true}, .sent_us = s->sent_us},
         "the link is lost");
}

static void send_renewal(struct scene *s)
{
    s->renewal = RENEWAL_SENT;
    s->renewal_us = s->now_us;
}

static void take_renewal(struct scene *s)
{
    struct lw__input in = {.event = LW__EV_GONE, .sent_us = s->renewal_us};

    if (s->renewed) {
        in.event = LW__EV_RENEWED;
        in.renewed.lease_us = in.renewed.wanted_us = LEASE;
    }
    s->renewal = NO_RENEWAL;
    step(s, in, "renewal");
}

static void give_up(struct scene *s)
{
    s->gave_up = true;
    step(s,
         (struct lw__input){.event = s->machine.phase == LW__HELD ? LW__EV_RELEASE
                                                                  : LW__EV_ABANDON},
         "given up");
}

static void link_up(struct scene *s)
{
    s->linked = true;
    step(s, (struct lw__input){.event = LW__EV_ASK_NOW}, "the link is up");
}

static void due(struct scene *s)
{
    if (s->machine.due_us > s->now_us) {
        pass_time(s, s->machine.due_us);
    }
    step(s, (struct lw__input){.event = LW__EV_DUE}, "due");
}

/* ---- the tree ---- */

/* The shortest way out must lead out, and leave nothing. */
static void end(struct scene s)
{
    paths++;
    for (int i = 0; s.machine.phase != LW__ENDED; i++) {
        if (i == 40) {
            show(&s, "this does not end");
        }
        look_at_deadline(&s);
        if (!s.linked) {
            link_up(&s);
        } else if (s.in_flight && s.executed) {
            take_answer(&s);
        } else if (s.in_flight) {
            pass_time(&s, s.execute_us);
        } else if (s.machine.phase == LW__HELD || !s.gave_up) {
            give_up(&s);
        } else if (s.machine.due_us != LW__NEVER) {
            due(&s);
        }
    }
    if (!s.excused && model_has(&s.server, US)) {
        show(&s, "something is left behind");
    }
}

static void walk(const struct scene *before, int depth);

/* One branch: time passes, deadlines are looked at, then this event. */
static void branch(const struct scene *before, int depth, void (*take)(struct scene *))
{
    static const int64_t passes_us[] = {MS, 700 * MS};

    for (size_t i = 0; i < sizeof(passes_us) / sizeof(*passes_us); i++) {
        struct scene s = *before;

        take(&s);
        pass_time(&s, s.now_us + passes_us[i]);
        check(&s);
        look_at_deadline(&s);
        walk(&s, depth - 1);
    }
}

static void take_message_0(struct scene *s)
{
    take_message(s, 0);
}

static void take_message_1(struct scene *s)
{
    take_message(s, 1);
}

static void repeat_message_0(struct scene *s)
{
    struct model_message again = s->messages[0];

    take_message(s, 0);
    if (s->count < MESSAGES) {
        s->messages[s->count++] = again;
    }
    take_message(s, s->count - 1);
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
        branch(s, depth, take_answer);
    }
    if (s->in_flight && !s->lost_once) {
        branch(s, depth, lose_link);
    }
    if (!s->linked) {
        branch(s, depth, link_up);
    }
    if (s->renewal == NO_RENEWAL && s->linked && s->machine.phase == LW__HELD) {
        branch(s, depth, send_renewal);
    }
    if (s->renewal == RENEWAL_DONE) {
        branch(s, depth, take_renewal);
    }
    if (s->machine.due_us <= s->now_us && s->machine.phase != LW__HELD) {
        branch(s, depth, due);
    }
    if (!s->gave_up) {
        branch(s, depth, give_up);
    }
}

/* ---- how it begins ---- */

/* The lock is another's, and one waits behind us. */
static struct scene waiting(void)
{
    struct scene s = {
        .server = {.ahead_us = (int64_t)5000000 * MS,
                   .ppm = 9000, /* the drift that we allow for is 1 % */

                   .window_us = WINDOW,
                   .last_number = 15},
        .linked = true,
        .now_us = 10 * MS,
    };
    struct lw__input ignored = {.now_us = 0};

    model_acquire(&s.server, 0, HOLDER, LEASE, false, -1, &ignored);
    lw__machine_init(&s.machine, WINDOW, LEASE);
    step(&s, (struct lw__input){.event = LW__EV_START, .start = {.first_script = true}},
         "start");
    pass_time(&s, 12 * MS);
    model_acquire(&s.server, 12 * MS, OTHER, LEASE, true, -1, &ignored);
    return s;
}

/* In shares of the window, from the hand-over on: when the process goes on. */
static const int64_t resumed_us[] = {
    0,           WINDOW / 5,      WINDOW * 7 / 10, WINDOW * 4 / 5,
    WINDOW - MS, WINDOW + 2 * MS, WINDOW * 3 / 2,  WINDOW * 2,
    WINDOW * 4};

static void resume_at_all_times(const struct scene *stopped)
{
    for (size_t i = 0; i < sizeof(resumed_us) / sizeof(*resumed_us); i++) {
        struct scene s = *stopped;

        pass_time(&s, others_us[RELEASE_1] + resumed_us[i]);
        check(&s);
        look_at_deadline(&s);
        walk(&s, depth_wanted);
    }
}

static void report(void)
{
    print_message("%lu nodes, %lu paths, %lu grants (%lu by message), %lu losses\n",
                  nodes, paths, grants, by_message, losses);
    assert_true(paths > 1000 && grants > 0 && losses > 0);
    nodes = paths = grants = by_message = losses = 0;
}

static void test_stopped_in_the_queue(void **state)
{
    struct scene s = waiting();

    (void)state;
    take_answer(&s);
    resume_at_all_times(&s);
    assert_true(by_message > 0);
    report();
}

/* The answer from before the hand-over is still to be read when the process goes on. */
static void test_stopped_with_the_first_answer_unread(void **state)
{
    struct scene s = waiting();

    (void)state;
    resume_at_all_times(&s);
    assert_true(by_message > 0);
    report();
}

/* An ask was on its way, and runs: before the hand-over, in the window, when it has
 * expired, when the other one holds (so that the next release hands over a second
 * time). */
static void test_stopped_with_an_ask_on_its_way(void **state)
{
    static const int64_t runs_us[] = {50 * MS, 600 * MS, 1102 * MS, 1400 * MS};

    (void)state;
    for (size_t i = 0; i < sizeof(runs_us) / sizeof(*runs_us); i++) {
        struct scene s = waiting();

        take_answer(&s);
        pass_time(&s, 20 * MS);
        step(&s, (struct lw__input){.event = LW__EV_ASK_NOW}, "asked once more");
        s.execute_us = runs_us[i];
        resume_at_all_times(&s);
        report();
    }
}

/* The hand-over was believed; the process stops before its renewal, or with its answer
 * unread. */
static void test_stopped_while_holding(void **state)
{
    struct scene s = waiting();

    (void)state;
    take_answer(&s);
    pass_time(&s, others_us[RELEASE_1]);
    assert_int_equal(s.count, 1);
    take_message(&s, 0);
    assert_int_equal(s.machine.phase, LW__HELD);
    resume_at_all_times(&s);
    send_renewal(&s);
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

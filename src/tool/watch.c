/* SPDX-License-Identifier: MIT */
/*
 * `lockwire watch`: follows a lock. In a terminal the picture is drawn anew at each look;
 * else each change is a line, or a JSON object. Owns the looks' rhythm, and what is wrong
 * when there is no answer: then the last picture stays, and its age grows. Outages are
 * shown and ridden out.
 *
 * Happy path: the link comes up, look(); on_inspected shows it, the timer has it look
 * again; a signal ends it, or the key q.
 *
 * Keys are read from the terminal only while this job is in its foreground, which each
 * tick looks at; the terminal's modes are restored whenever this job leaves it.
 */
#include "base/escape.h"
#include "codes.h"
#include "lockwire.h"
#include "look.h"
#include "options.h"
#include "patience.h"
#include "reach.h"
#include "say.h"
#include "signals.h"
#include "terminal.h"
#include "watch_inside.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SILENCE_MS 1000 /* a look that has no answer by then is told of */
#define TICK_MS 1000    /* so often, or at each interval, a picture's age is drawn */

enum form { SCREEN, LINES, JSON };

struct watch {
    struct reach reach;
    struct event *tick;
    enum form form;
    struct watch_screen screen;
    struct watch_lines lines;
    struct watch_json json;
    bool up, asking;
    int failures;      /* looks in a row that came to nothing */
    int64_t due_ms;    /* when to look again, by patience_now_ms */
    int64_t answer_ms; /* when the last look that was answered began; -1: none was */
    struct watch_outage outage;
    struct terminal terminal; /* in the form SCREEN, where its keys are read */
    struct event *key;        /* NULL: keys are never read */
    bool reading_keys;        /* the terminal has modes of watch's own */
};

static bool written(struct watch *watch)
{
    if (fflush(stdout) == 0) {
        return true;
    }
    if (errno == EPIPE) { /* nobody reads any more: a pipe's usual end */
        reach_end(&watch->reach, EXIT_SUCCESS);
        return false;
    }
    say("cannot write: %s", strerror(errno));
    reach_end(&watch->reach, STATUS_SYSTEM);
    return false;
}

/* What was to be shown; false: there is no memory for it. */
static void shown(struct watch *watch, bool done)
{
    if (!done) {
        reach_fail(&watch->reach, LW_ENOMEM, "");
    } else {
        (void)written(watch);
    }
}

static int64_t age_ms(const struct watch *watch)
{
    return watch->answer_ms < 0 ? -1 : patience_now_ms() - watch->answer_ms;
}

static bool draw(struct watch *watch)
{
    return watch_screen_draw(&watch->screen, watch->reach.options->name, &watch->outage,
                             age_ms(watch));
}

/* ---- keys ---- */

static void on_key(evutil_socket_t fd, short what, void *arg)
{
    struct watch *watch = arg;
    char keys[64];
    ssize_t length;

    (void)what;
    if (!terminal_is_ours(&watch->terminal)) { /* reading it would stop this process */
        watch->reading_keys = false;
        return;
    }
    length = read(fd, keys, sizeof(keys));
    if (length > 0 && memchr(keys, 'q', (size_t)length) != NULL) {
        reach_end(&watch->reach, EXIT_SUCCESS);
    } else if (length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR))) {
        event_add(watch->key, NULL);
    }
}

/* Begins to read keys, unless it does or the terminal is another job's. */
static void read_keys(struct watch *watch)
{
    if (watch->key != NULL && !watch->reading_keys &&
        terminal_read_keys(&watch->terminal)) {
        watch->reading_keys = true;
        event_add(watch->key, NULL);
    }
}

static void leave_keys(struct watch *watch)
{
    if (watch->reading_keys) {
        watch->reading_keys = false;
        event_del(watch->key);
        terminal_restore(&watch->terminal);
    }
}

static bool open_keys(struct watch *watch)
{
    if (watch->form != SCREEN || isatty(STDIN_FILENO) != 1) {
        return true;
    }
    terminal_open(&watch->terminal);
    if (watch->terminal.fd < 0) {
        return true;
    }
    signals_job();
    (void)evutil_make_socket_nonblocking(watch->terminal.fd); /* its own description */
    watch->key = event_new(watch->reach.base, watch->terminal.fd, EV_READ, on_key, watch);
    read_keys(watch);
    return watch->key != NULL;
}

static void close_keys(struct watch *watch)
{
    if (watch->key != NULL) {
        leave_keys(watch);
        event_free(watch->key);
    }
    terminal_close(&watch->terminal);
}

/* ---- outages ---- */

static void show_outage(struct watch *watch)
{
    switch (watch->form) {
    case SCREEN:
        shown(watch, draw(watch));
        break;
    case LINES:
        watch_lines_outage(&watch->lines, &watch->outage, age_ms(watch));
        shown(watch, true);
        break;
    case JSON:
        shown(watch, watch_json_outage(&watch->json, watch->reach.options->name,
                                       &watch->outage, age_ms(watch)));
    }
}

/* At its beginning, and when it is another one. */
static void note_outage(struct watch *watch, const char *what, const char *why)
{
    struct watch_outage outage = {.what = what};

    lw__escape(why, outage.why, sizeof(outage.why));
    if (watch->outage.what == NULL || strcmp(watch->outage.what, what) != 0 ||
        strcmp(watch->outage.why, outage.why) != 0) {
        watch->outage = outage;
        show_outage(watch);
    }
}

static void note_no_connection(struct watch *watch, const char *why)
{
    note_outage(watch, "no connection", *why ? why : "it is being made");
}

/* ---- the looks ---- */

static bool show(struct watch *watch, const struct lw_inspection *seen)
{
    struct lw_master followed = LW_MASTER_INIT;
    const struct lw_master *master = reach_master(&watch->reach, &followed);

    switch (watch->form) {
    case SCREEN:
        return watch_screen_seen(&watch->screen, seen, master) && draw(watch);
    case LINES:
        return watch_lines_seen(&watch->lines, seen, master);
    default:
        return watch_json_seen(&watch->json, seen, master);
    }
}

static int64_t interval_ms(const struct watch *watch, int64_t most)
{
    int64_t ms = watch->reach.options->interval_ms;

    return ms < most ? ms : most;
}

static void schedule(struct watch *watch)
{
    int64_t ms = interval_ms(watch, TICK_MS), due = watch->due_ms - patience_now_ms();
    struct timeval wait;

    if (watch->up && !watch->asking && due < ms) {
        ms = due > 0 ? due : 0;
    }
    wait = (struct timeval){(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};
    if (!watch->reach.ending) {
        event_add(watch->tick, &wait);
    }
}

static void on_inspected(struct lw_client *client, int result,
                         const struct lw_inspection *seen, const char *why, void *arg)
{
    struct watch *watch = arg;

    (void)client;
    watch->asking = false;
    if (watch->reach.ending) {
        return;
    }
    if (result == LW_OK) {
        watch->failures = 0;
        watch->answer_ms = watch->reach.asked_ms;
        watch->due_ms = patience_now_ms() + watch->reach.options->interval_ms;
        watch->outage = (struct watch_outage){.what = NULL};
        shown(watch, show(watch, seen));
    } else if (result != LW_ECONN) {
        reach_fail(&watch->reach, result, why);
    } else if (watch->up) { /* at first `down` is waited for, which knows more */
        watch->due_ms = patience_now_ms() + interval_ms(watch, TICK_MS);
        if (watch->failures++ > 0) {
            note_no_connection(watch, why);
        }
    }
    schedule(watch);
}

static void look(struct watch *watch)
{
    watch->asking = true;
    reach_look(&watch->reach, on_inspected, watch);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct watch *watch = arg;
    int64_t now = patience_now_ms();

    (void)fd, (void)what;
    if (watch->reach.ending) {
        return;
    }
    read_keys(watch);
    if (watch->up && !watch->asking && now >= watch->due_ms) {
        look(watch);
    } else if (watch->asking && watch->outage.what == NULL &&
               now - watch->reach.asked_ms >= SILENCE_MS) {
        note_outage(watch, "no answer", "");
    } else if (watch->form == SCREEN) {
        shown(watch, draw(watch));
    }
    schedule(watch);
}

static void on_up(struct reach *reach)
{
    struct watch *watch = reach->arg;

    watch->up = true;
    watch->due_ms = patience_now_ms();
    if (!watch->asking) {
        look(watch);
    }
    schedule(watch);
}

static void on_down(struct reach *reach, const char *why)
{
    struct watch *watch = reach->arg;

    watch->up = false;
    note_no_connection(watch, why);
    if (!event_pending(watch->tick, EV_TIMEOUT, NULL)) { /* attempts do not put it off */
        schedule(watch);
    }
}

static void on_signal(int number, bool from_terminal, void *arg)
{
    struct watch *watch = arg;

    (void)from_terminal;
    if (number == SIGTSTP) {
        leave_keys(watch);
        (void)signals_stop(number, false);
        watch->screen.drawn = false; /* the shell has written since */
        read_keys(watch);
    } else if (number != SIGCHLD && number != SIGTTIN) {
        reach_end(&watch->reach, EXIT_SUCCESS);
    }
}

static void forget(struct watch *watch)
{
    watch_screen_forget(&watch->screen);
    watch_lines_forget(&watch->lines);
    watch_json_forget(&watch->json);
}

int watch(const struct options *options)
{
    static const struct reach_events events = {.up = on_up, .down = on_down};
    struct watch watch = {.reach = {.options = options, .events = &events},
                          .answer_ms = -1,
                          .terminal.fd = -1};
    int code;

    watch.reach.arg = &watch;
    watch.form = options->json ? JSON : isatty(STDOUT_FILENO) == 1 ? SCREEN : LINES;
    code = reach_open(&watch.reach, "lockwire-watch");
    if (code == 0) {
        watch.tick = event_new(watch.reach.base, -1, 0, on_tick, &watch);
        if (watch.tick != NULL && open_keys(&watch) &&
            signals_watch(watch.reach.base, on_signal, &watch) == 0) {
            code = reach_run(&watch.reach);
        } else {
            say("cannot start an event loop");
            code = STATUS_SYSTEM;
        }
    }
    close_keys(&watch);
    signals_unwatch();
    if (watch.tick != NULL) {
        event_free(watch.tick);
    }
    reach_close(&watch.reach);
    forget(&watch);
    return code;
}

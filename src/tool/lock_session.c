/* SPDX-License-Identifier: MIT */
/* run, lead and hold: acquire a lock, hold it for a command or a script, release it.
 * Single-threaded and never blocking, so that the lock is renewed as long as it is held.
 *
 * A session asks for the lock; `held` is called; session_release releases it and closes
 * the client, which ends the loop. run starts the command in `held`, and releases when
 * nothing of it is left. hold prints the fencing token, and releases at the end of the
 * standard input. lead holds by lw_keep_new, which acquires the lock again after each
 * loss.
 *
 * Failures:
 *  - A wait that times out, a server that refuses, or a signal ends a session that waits,
 *    with the exit code of that.
 *  - A loss is reported, and `lost` is called. run and lead end the command and wait
 * until nothing of it is left: the margin of the hold is the time for that. Then run
 * exits; lead starts the command again once the lock is held again. hold exits at once:
 * its margin is the script's.
 *  - A signal while the lock is held goes to the command; with hold it is like the end of
 *    the input. After a loss it ends lead as well. */
#include "job.h"
#include "lockwire.h"
#include "options.h"
#include "password.h"
#include "report.h"
#include "signals.h"
#include "subcommands.h"
#include "system.h"
#include "wait_status.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

struct event_base;
struct locked;
struct lw_all;
struct lw_client;
struct lw_keep;
struct lw_lock;
struct options;

struct locked_events {
    /* Before the lock is asked for, the loop is there; NULL: nothing to do. 0, or -1: it
     * has been said why. */
    int (*begin)(struct locked *locked);
    void (*held)(struct locked *locked);
    /* While it is held; it has been said. */
    void (*lost)(struct locked *locked);
    /* While it is held, or was and is lost. */
    void (*signal)(struct locked *locked, int number, bool from_terminal);
};

enum locked_stage { LOCKED_WAITING, LOCKED_HELD, LOCKED_ENDING };

struct locked {
    const struct options *options;
    const struct locked_events *events;
    void *arg; /* the caller's */
    struct event_base *base;
    struct lw_client *client;
    struct lw_lock *lock; /* run, hold; else NULL */
    struct lw_all *all;   /* run with --and; else NULL */
    struct lw_keep *keep; /* lead; else NULL */
    struct waiting waiting;
    int64_t once_until_ms; /* for a wait of 0 */
    enum locked_stage stage;
    int code;  /* what to exit with */
    bool lost; /* `lost` was called, or the caller found out */
    int lost_code;
    bool link_up;
    bool connected;   /* once; what comes after is an outage */
    bool interrupted; /* by a key, while waiting */
    char why_down[200];
    char error[300];
};

/* `options`, `events` and `arg` are set, the rest is zeros. Runs until the end; the exit
 * code. Everything has been said. signals_catch was called before. */
static int locked_run(struct locked *locked, const char *client_name);
/* After locked_run; the loop is there until then. */
static void locked_close(struct locked *locked);

/* Its handle, for the getters and until the loop has control again. */
static struct lw_lock *locked_lock(const struct locked *locked);
/* For how long it may still be used, in ms: less than its margin is not counted. */
static int64_t locked_left_ms(const struct locked *locked);
/* lead: what the lock was held for before a loss is over, and may begin anew: `held`. */
static void locked_again(struct locked *locked);
/* Lets go of it, where it is still held, and ends: with this code, or 70 where it turns
 * out to be lost. */
static void locked_release(struct locked *locked, int code);
/* Ends, and gives back what there is. */
static void locked_end(struct locked *locked, int code);
/* Of lead: a signal by which a command is asked for something else than its end. While
 * there is none it means nothing. */
static bool locked_is_for_command(const struct locked *locked, int number,
                                  bool from_terminal);
/* Ends at once: the rest of the lease is left to whoever works by it. */
static void locked_leave(struct locked *locked, int code);

#define ONCE_MS 5000      /* for a wait of 0: to ask and to release what may be granted */
#define TAKE_BACK_MS 1000 /* for the release, at the end of another wait */

static void on_closed(struct lw_client *client, void *arg)
{
    struct locked *locked = arg;

    (void)client;
    event_base_loopbreak(locked->base);
}

static void locked_end(struct locked *locked, int code)
{
    waiting_end(&locked->waiting);
    locked->stage = LOCKED_ENDING;
    locked->code = code;
    if (lw_client_close(locked->client, on_closed, locked) < 0) {
        event_base_loopbreak(locked->base);
    }
}

static void locked_leave(struct locked *locked, int code)
{
    locked->stage = LOCKED_ENDING;
    locked->code = code;
    event_base_loopbreak(locked->base);
}

/* Returns the handle that explains a failure or a loss: with --and the first one with
 * this status as its error, or else with any error, or else that is not held. NULL if
 * there is none. */
static const struct lw_lock *culprit(const struct locked *locked, int status)
{
    const struct lw_lock *failed = NULL, *first = NULL;

    for (int i = 0; locked->all != NULL && i < locked->options->more_count + 1; i++) {
        const struct lw_lock *lock = lw_all_lock(locked->all, (size_t)i);

        if (lock == NULL || lw_lock_state(lock) == LW_HELD) {
            continue;
        }
        if (lw_lock_error(lock) == status) {
            return lock;
        }
        failed = failed == NULL && lw_lock_error(lock) != LW_OK ? lock : failed;
        first = first != NULL ? first : lock;
    }
    return locked->all == NULL ? locked_lock(locked) : failed != NULL ? failed : first;
}

static const char *name_of(const struct locked *locked, const struct lw_lock *lock)
{
    return lock != NULL ? lw_lock_name(lock) : locked->options->name;
}

static const char *errstr_of(const struct lw_lock *lock)
{
    return lock != NULL ? lw_lock_errstr(lock) : "";
}

/* The client is closing by now, and calls back when it has closed. */
static void released(struct locked *locked, int status)
{
    const struct lw_lock *lock = culprit(locked, status);
    const char *name = name_of(locked, lock), *said = errstr_of(lock);
    const char *colon = *said ? ": " : "";

    if (status == LW_ENOTHELD) {
        say("'%s' was no longer ours when it was to be released", name);
        locked->code = codes_for(status, LW_OK, STATUS_BUSY);
    } else if (status == LW_EREDIS) {
        say("the server refuses to release '%s', which stays locked until its lease "
            "ends%s%s",
            name, colon, said);
        locked->code = codes_for(status, LW_OK, STATUS_BUSY);
    } else if (status < 0) {
        say("cannot tell whether '%s' was released: %s%s%s", name, lw_strerror(status),
            colon, said);
    }
}

static void on_released(struct lw_lock *lock, int status, void *arg)
{
    (void)lock;
    released(arg, status);
}

static void on_all_released(struct lw_all *all, int status, void *arg)
{
    (void)all;
    released(arg, status);
}

static void locked_release(struct locked *locked, int code)
{
    locked->stage = LOCKED_ENDING;
    locked->code = locked->lost ? locked->lost_code : code;
    if (!locked->lost && locked->keep == NULL) {
        (void)(locked->all != NULL ? lw_all_release(locked->all, on_all_released, locked)
                                   : lw_release(locked->lock, on_released, locked));
    }
    locked_end(locked, locked->code); /* at once: one limit for both */
}

static struct lw_lock *locked_lock(const struct locked *locked)
{
    return locked->keep != NULL  ? lw_keep_lock(locked->keep)
           : locked->all != NULL ? lw_all_lock(locked->all, 0)
                                 : locked->lock;
}

static int64_t locked_left_ms(const struct locked *locked)
{
    const struct lw_lock *lock = locked_lock(locked);

    if (locked->all != NULL) {
        return lw_all_remaining_ms(locked->all) - locked->options->margin_ms;
    }
    if (lw_lock_state(lock) != LW_HELD) {
        return 0;
    }
    return lw_lock_remaining_ms(lock) - locked->options->margin_ms;
}

static int error_of(const struct lw_lock *lock)
{
    return lock != NULL ? lw_lock_error(lock) : LW_OK;
}

static void lose(struct locked *locked, int reason)
{
    const struct lw_lock *lock = culprit(locked, reason);
    const char *name = name_of(locked, lock), *said = errstr_of(lock);
    int error = error_of(lock);

    if (reason == LW_ETIMEOUT) {
        say("the lock '%s' was lost: it was held for as long as --max-hold allows",
            name);
    } else if (reason == LW_ELOST && *said) {
        say("the lock '%s' was lost: %s: %s", name,
            error == LW_EREDIS ? "the server refuses to renew it" : lw_strerror(reason),
            said);
    } else {
        say("the lock '%s' was lost: %s", name, lw_strerror(reason));
    }
    locked->lost = true;
    locked->lost_code = reason == LW_ELOST ? codes_for(reason, error, STATUS_BUSY)
                                           : STATUS_LOST;
    locked->events->lost(locked);
}

static void on_lost(struct lw_lock *lock, int reason, void *arg)
{
    (void)lock;
    lose(arg, reason);
}

/* Says why it could not be locked, by the class of that. */
static void say_cause(const struct locked *locked, const char *name, int error,
                      const char *why)
{
    const char *colon = *why ? ": " : "";

    if (error == LW_EREDIS && locked->link_up) {
        say("the server refuses '%s'%s%s", name, colon, why);
    } else if (error == LW_EREDIS) {
        say("the server refuses the connection%s%s", colon, why);
    } else if (error == LW_ECONN && locked->link_up) {
        say("the server cannot serve '%s' now%s%s", name, colon, why);
    } else if (error == LW_ECONN) {
        say("no connection to the server%s%s", colon, why);
    } else {
        say("cannot lock '%s': %s%s%s", name, lw_strerror(error), colon, why);
    }
}

/* What the end of a wait means. */
static int code_of(struct locked *locked, int status)
{
    const struct lw_lock *lock = culprit(locked, status);
    const char *name = name_of(locked, lock), *said = errstr_of(lock);
    const char *why = *said ? said : locked->why_down;
    int error = error_of(lock);

    switch (status) {
    case LW_EBUSY:
        say("'%s' is locked by somebody else", name);
        break;
    case LW_EDEADLOCK:
        say("'%s': another owner that reads it waits to write, too", name);
        break;
    case LW_ETIMEOUT:
        if (error == LW_OK) {
            say("the wait for '%s' is over", name);
            break;
        } /* fall through */
    case LW_ECONN:
    case LW_EREDIS:
        say_cause(locked, name, error != LW_OK ? error : status, why);
        break;
    default:
        say_cause(locked, name, status, said);
    }
    return codes_for(status, error, locked->options->busy_code);
}

static void begin_hold(struct locked *locked)
{
    waiting_end(&locked->waiting);
    locked->stage = LOCKED_HELD;
    locked->lost = false;
    locked->events->held(locked);
}

static void acquired(struct locked *locked, int status)
{
    bool once = locked->options->wait_ms == 0;
    int code;

    if (locked->stage != LOCKED_WAITING) {
        return; /* given up: the end of the client ends it too */
    }
    if (status == LW_OK) {
        begin_hold(locked);
        return;
    }
    waiting_end(&locked->waiting);
    code = code_of(locked, status);
    locked_end(locked, code);
    /* A silent server, which of several names another one may have, may have granted a
     * lock all the same: it gets some time to release that. */
    if (code == STATUS_NO_SERVER || once) {
        int64_t ms = once ? locked->once_until_ms - system_now_ms() : TAKE_BACK_MS;

        ms = ms < 0 ? 0 : ms < TAKE_BACK_MS ? ms : TAKE_BACK_MS;
        event_base_loopexit(locked->base, &(struct timeval){ms / 1000, ms % 1000 * 1000});
    }
}

static void on_acquired(struct lw_lock *lock, int status, void *arg)
{
    (void)lock;
    acquired(arg, status);
}

static void on_all_acquired(struct lw_all *all, int status, void *arg)
{
    (void)all;
    acquired(arg, status);
}

static void on_all_lost(struct lw_all *all, int reason, void *arg)
{
    (void)all;
    lose(arg, reason);
}

/* ---- lead ---- */

/* While what was held for before is not over, locked_again looks. */
static void on_gained(struct lw_keep *keep, int status, void *arg)
{
    struct locked *locked = arg;

    (void)keep, (void)status;
    if (locked->stage == LOCKED_WAITING) {
        begin_hold(locked);
    }
}

/* A begin_hold that came and went while what was held for before was not over is
 * nobody's. */
static void on_kept_lost(struct lw_keep *keep, int reason, void *arg)
{
    struct locked *locked = arg;

    (void)keep;
    if (locked->stage == LOCKED_HELD && !locked->lost) {
        lose(locked, reason);
    }
}

static void locked_again(struct locked *locked)
{
    if (locked_left_ms(locked) > 0) {
        begin_hold(locked);
        return;
    }
    locked->stage = LOCKED_WAITING;
    waiting_begin(&locked->waiting, locked->client);
}

/* ---- the beginning ---- */

static int ask_for_all(struct locked *locked, const struct lw_acquire_options *acquire)
{
    const struct options *options = locked->options;
    const char *names[MORE_NAMES + 1] = {options->name};
    size_t count = (size_t)options->more_count + 1;

    for (size_t i = 1; i < count; i++) {
        names[i] = options->more_names[i - 1];
    }
    return lw_acquire_all(locked->client, names, count, acquire, on_all_acquired,
                          on_all_lost, locked, &locked->all);
}

/* 0, or an lw_error. */
static int ask(struct locked *locked)
{
    struct lw_acquire_options acquire = LW_ACQUIRE_OPTIONS_INIT;
    const struct options *options = locked->options;

    acquire.mode = options->mode;
    acquire.owner = options->owner;
    acquire.permits = options->permits;
    acquire.lease_ms = options->lease_ms;
    acquire.wait_ms = options->wait_ms;
    acquire.max_hold_ms = options->max_hold_ms;
    acquire.margin_ms = (uint32_t)options->margin_ms;
    if (options->subcommand == LEAD) {
        return lw_keep_new(locked->client, options->name, &acquire, on_gained,
                           on_kept_lost, locked, &locked->keep);
    }
    if (options->more_count > 0) {
        return ask_for_all(locked, &acquire);
    }
    acquire.lost = on_lost;
    return lw_acquire(locked->client, options->name, &acquire, on_acquired, locked,
                      &locked->lock);
}

static bool locked_is_for_command(const struct locked *locked, int number,
                                  bool from_terminal)
{
    return locked->options->subcommand == LEAD && !from_terminal &&
           (number == SIGUSR1 || number == SIGUSR2);
}

/* SIGTSTP and SIGTTIN come once lead had a job. */
static void on_signal(int number, bool from_terminal, void *arg)
{
    struct locked *locked = arg;

    if (locked->stage == LOCKED_HELD) {
        locked->events->signal(locked, number, from_terminal);
    } else if (locked->stage == LOCKED_ENDING || number == SIGCHLD ||
               locked_is_for_command(locked, number, from_terminal)) {
        return;
    } else if (number == SIGTSTP || number == SIGTTIN) {
        say_passing("");
        (void)signals_stop(number, false);
    } else {
        locked->interrupted = number == SIGINT && from_terminal;
        locked_end(locked, STATUS_SIGNAL + number);
    }
}

static void on_link(struct lw_client *client, int up, const char *why, void *arg)
{
    struct locked *locked = arg;
    int error = lw_client_error(client);

    locked->link_up = up;
    locked->connected = locked->connected || up;
    if (!up) { /* the library's log tells it at once */
        (void)snprintf(locked->why_down, sizeof(locked->why_down), "%s", why);
    }
    if (!locked->connected && locked->stage == LOCKED_WAITING &&
        (error == LW_EREDIS || error == LW_ESYSTEM)) { /* another try fails as well */
        say_cause(locked, locked->options->name, error, why);
        locked_end(locked, codes_for(LW_ECONN, error, locked->options->busy_code));
    }
}

static void on_log(int level, const char *message, void *arg)
{
    const struct locked *locked = arg;

    /* A permanent failure is logged as an error, and on_link writes it. */
    if (locked->connected || level > LOG_ERR || !say_is_no_connection(message)) {
        say("%s", message);
    }
}

static int start(struct locked *locked, const char *client_name)
{
    struct lw_client_options client = LW_CLIENT_OPTIONS_INIT;
    const struct options *options = locked->options;
    int error;

    client.client_name = client_name;
    client.link = on_link;
    client.log = on_log;
    client.arg = locked;
    client.errbuf = locked->error;
    client.errbuf_size = sizeof(locked->error);
    options_client(options, &client);
    error = lw_client_new(locked->base, options->url, &client, &locked->client);
    password_wipe(options->password);
    password_wipe(options->sentinel_password);
    locked->once_until_ms = system_now_ms() + ONCE_MS;
    if (error == 0) {
        error = ask(locked);
    }
    if (error == 0) {
        locked->waiting.all = locked->all;
        waiting_begin(&locked->waiting, locked->client);
        return 0;
    }
    say("%s", *locked->error ? locked->error : lw_strerror(error));
    return error == LW_EINVAL ? STATUS_USAGE : STATUS_SYSTEM;
}

static int locked_run(struct locked *locked, const char *client_name)
{
    locked->code = STATUS_SYSTEM; /* unless locked_end tells better */
    locked->base = event_base_new();
    if (locked->base == NULL || signals_watch(locked->base, on_signal, locked) < 0 ||
        waiting_open(&locked->waiting, locked->base, locked->options, client_name) < 0) {
        say("cannot start an event loop");
    } else if (locked->events->begin == NULL || locked->events->begin(locked) == 0) {
        int code = start(locked, client_name);

        if (code != 0) {
            return code;
        }
        event_base_dispatch(locked->base);
    }
    return locked->code;
}

static void locked_close(struct locked *locked)
{
    signals_unwatch();
    waiting_close(&locked->waiting);
    lw_keep_free(locked->keep);
    lw_all_free(locked->all);
    lw_lock_free(locked->lock);
    lw_client_free(locked->client);
    if (locked->base != NULL) {
        event_base_free(locked->base);
    }
}

_Static_assert(CHILD_FENCES == MORE_NAMES, "a fencing token for each --and");

struct run {
    struct locked locked;
    struct embedded *server; /* or NULL */
    struct work work;
    int stop_code; /* lead: a signal came while the command was being ended; else 0 */
};

/* After a loss: none, whatever lead holds anew. */
static int64_t run_left_ms(void *arg)
{
    const struct run *run = arg;

    return run->locked.lost ? 0 : locked_left_ms(&run->locked);
}

static void run_on_end(int code, void *arg)
{
    struct run *run = arg;

    if (run->work.ending && !run->locked.lost && run_left_ms(run) <= 0) {
        say("the lock '%s' was lost while lockwire was stopped",
            run->locked.options->name);
        run->locked.lost = true;
        run->locked.lost_code = STATUS_LOST;
    }
    if (!run->locked.lost || run->locked.options->subcommand == RUN) {
        locked_release(&run->locked, code);
    } else if (run->stop_code != 0) {
        locked_end(&run->locked, run->stop_code);
    } else {
        work_free(&run->work);
        run->work = (struct work){.grace = NULL}; /* there may be no other one */
        locked_again(&run->locked);
    }
}

static void run_on_lost(struct locked *locked)
{
    struct run *run = locked->arg;

    work_end(&run->work);
}

static void run_on_held(struct locked *locked)
{
    struct run *run = locked->arg;
    const struct options *options = locked->options;
    struct work_plan plan = {.child = {.argv = options->command,
                                       .name = options->name,
                                       .fence = lw_lock_fence(locked_lock(locked)),
                                       .url = options->embedded ? options->url : NULL},
                             .direct = options->direct,
                             .grace_ms = options->grace_ms,
                             .kill_ms = options->margin_ms - options->grace_ms,
                             .server = run->server,
                             .over = run_on_end,
                             .left_ms = run_left_ms,
                             .arg = run};

    for (int i = 0; i < options->more_count; i++) {
        plan.child.more_fences[i] =
            lw_lock_fence(lw_all_lock(locked->all, (size_t)i + 1));
    }
    if (work_start(&run->work, locked->base, &plan) < 0) {
        say("cannot start %s: %s", options->command[0], strerror(errno));
        locked_release(locked, STATUS_SYSTEM);
    }
}

static void run_on_signal(struct locked *locked, int number, bool from_terminal)
{
    struct run *run = locked->arg;

    if (locked->lost && number != SIGCHLD && number != SIGTSTP && number != SIGTTIN &&
        !locked_is_for_command(locked, number, from_terminal)) {
        run->stop_code = STATUS_SIGNAL + number;
    }
    work_signal(&run->work, number, from_terminal);
}

int run(const struct options *options, struct embedded *server)
{
    static const struct locked_events events = {NULL, run_on_held, run_on_lost,
                                                run_on_signal};
    struct run run = {.locked = {.options = options, .events = &events},
                      .server = server};
    bool interrupted;
    int code;

    run.locked.arg = &run;
    code = locked_run(&run.locked,
                      options->subcommand == LEAD ? "lockwire-lead" : "lockwire-run");
    interrupted = run.locked.interrupted || run.work.interrupted;
    work_free(&run.work);
    locked_close(&run.locked);
    return interrupted && code == STATUS_SIGNAL + SIGINT ? -SIGINT : code;
}

struct event;
struct event_base;

struct input {
    int fd;
    struct event *readable;
    struct event *later; /* a terminal whose foreground is another's */
    void (*ended)(void *arg);
    void *arg;
};

/* Returns true if the standard input is a pipe, a socket or a terminal. The end of
 * anything else (a file, /dev/null, a closed descriptor) comes at once. */
static bool input_can_be_awaited(void);
/* Waits for the end of an input for which that is true. Returns 0, or -1: no memory. A
 * terminal is read only while this process is in its foreground. */
static int input_open(struct input *input, struct event_base *base,
                      void (*ended)(void *arg), void *arg);
/* A struct of zeros is fine. */
static void input_close(struct input *input);

#define BLOCK 4096
#define LATER_MS 500

static bool input_can_be_awaited(void)
{
    struct stat about;

    return fstat(STDIN_FILENO, &about) == 0 &&
           (S_ISFIFO(about.st_mode) || S_ISSOCK(about.st_mode) ||
            isatty(STDIN_FILENO) == 1);
}

/* To read it would stop this process. Of a terminal that is not this session's nobody is
 * in the foreground, for this process. */
static bool is_others(int fd)
{
    pid_t group = isatty(fd) == 1 ? tcgetpgrp(fd) : -1;

    return group >= 0 && group != getpgrp();
}

static ssize_t read_some(int fd)
{
    char thrown_away[BLOCK];
    ssize_t length = recv(fd, thrown_away, sizeof(thrown_away), MSG_DONTWAIT);

    return length < 0 && errno == ENOTSOCK ? read(fd, thrown_away, sizeof(thrown_away))
                                           : length;
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct input *input = arg;
    ssize_t length;

    (void)what;
    if (is_others(fd)) {
        event_add(input->later, &(struct timeval){0, LATER_MS * 1000L});
        return;
    }
    length = read_some(fd);
    if (length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR))) {
        event_add(input->readable, NULL);
    } else {
        input->ended(input->arg); /* an error, too: nothing will come of it */
    }
}

static void on_later(evutil_socket_t fd, short what, void *arg)
{
    struct input *input = arg;

    (void)fd, (void)what;
    event_add(input->readable, NULL);
}

static int input_open(struct input *input, struct event_base *base,
                      void (*ended)(void *arg), void *arg)
{
    *input = (struct input){.fd = STDIN_FILENO, .ended = ended, .arg = arg};
    input->fd = open("/proc/self/fd/0", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (input->fd < 0) {
        input->fd = STDIN_FILENO;
    }
    input->readable = event_new(base, input->fd, EV_READ, on_readable, input);
    input->later = event_new(base, -1, 0, on_later, input);
    if (input->readable == NULL || input->later == NULL) {
        return -1;
    }
    return event_add(input->readable, NULL);
}

static void input_close(struct input *input)
{
    if (input->readable != NULL) {
        event_free(input->readable);
    }
    if (input->later != NULL) {
        event_free(input->later);
    }
    if (input->fd > STDIN_FILENO) {
        close(input->fd);
    }
}

struct hold {
    struct locked locked;
    struct input input;
};

static void hold_on_input_end(void *arg)
{
    struct hold *hold = arg;
    struct locked *locked = &hold->locked;

    if (locked->stage == LOCKED_HELD) {
        locked_release(locked, EXIT_SUCCESS);
    } else if (locked->stage == LOCKED_WAITING) {
        say("the standard input ended before '%s' was held", locked->options->name);
        locked_end(locked, locked->options->busy_code);
    }
}

static int hold_on_begin(struct locked *locked)
{
    struct hold *hold = locked->arg;

    if (input_open(&hold->input, locked->base, hold_on_input_end, hold) == 0) {
        return 0;
    }
    say("cannot wait for the end of the standard input");
    return -1;
}

static void hold_on_held(struct locked *locked)
{
    uint64_t fence = lw_lock_fence(locked_lock(locked));

    if (fence > 0) {
        (void)printf("%" PRIu64 "\n", fence);
    } else {
        (void)puts("-");
    }
    if (fflush(stdout) != 0) {
        say("cannot write: %s", strerror(errno));
        locked_release(locked, STATUS_SYSTEM);
    }
}

static void hold_on_lost(struct locked *locked)
{
    locked_leave(locked, locked->lost_code);
}

static void hold_on_signal(struct locked *locked, int number, bool from_terminal)
{
    (void)from_terminal;
    if (number != SIGCHLD) {
        locked_release(locked, EXIT_SUCCESS);
    }
}

int hold(const struct options *options)
{
    static const struct locked_events events = {hold_on_begin, hold_on_held, hold_on_lost,
                                                hold_on_signal};
    struct hold hold = {.locked = {.options = options, .events = &events}};
    int code;

    if (!input_can_be_awaited()) {
        say("hold needs a standard input whose end it can wait for, a pipe, a socket or "
            "a "
            "terminal: this one (a file, /dev/null, or closed) ends at once");
        return STATUS_USAGE;
    }
    hold.locked.arg = &hold;
    code = locked_run(&hold.locked, "lockwire-hold");
    input_close(&hold.input);
    locked_close(&hold.locked);
    return hold.locked.interrupted && code == STATUS_SIGNAL + SIGINT ? -SIGINT : code;
}

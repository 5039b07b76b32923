/* SPDX-License-Identifier: MIT */
/*
 * See locked.h. Single-threaded on libevent, and never blocking: whatever happens, the
 * lock is renewed while it is held.
 *
 * Happy path: start asks; on_acquired calls `held`; locked_release; on_released closes
 * the client; on_closed ends the loop. With lead the library asks again after each loss
 * (lw_keep_new), and on_gained is told each time.
 */
#include "locked.h"

#include "codes.h"
#include "lockwire.h"
#include "options.h"
#include "password.h"
#include "patience.h"
#include "say.h"
#include "signals.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <syslog.h>

#define ONCE_MS 5000      /* for a wait of 0: to ask and to release what may be granted */
#define TAKE_BACK_MS 1000 /* for the release, at the end of another wait */

static void on_closed(struct lw_client *client, void *arg)
{
    struct locked *locked = arg;

    (void)client;
    event_base_loopbreak(locked->base);
}

void locked_end(struct locked *locked, int code)
{
    waiting_end(&locked->waiting);
    locked->stage = LOCKED_ENDING;
    locked->code = code;
    if (lw_client_close(locked->client, on_closed, locked) < 0) {
        event_base_loopbreak(locked->base);
    }
}

void locked_leave(struct locked *locked, int code)
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

void locked_release(struct locked *locked, int code)
{
    locked->stage = LOCKED_ENDING;
    locked->code = locked->lost ? locked->lost_code : code;
    if (!locked->lost && locked->keep == NULL) {
        (void)(locked->all != NULL ? lw_all_release(locked->all, on_all_released, locked)
                                   : lw_release(locked->lock, on_released, locked));
    }
    locked_end(locked, locked->code); /* at once: one limit for both */
}

struct lw_lock *locked_lock(const struct locked *locked)
{
    return locked->keep != NULL  ? lw_keep_lock(locked->keep)
           : locked->all != NULL ? lw_all_lock(locked->all, 0)
                                 : locked->lock;
}

int64_t locked_left_ms(const struct locked *locked)
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
        say("the lock '%s' was lost: it was held for as long as --max-hold allows", name);
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

static void hold(struct locked *locked)
{
    waiting_end(&locked->waiting);
    locked->stage = LOCKED_HELD;
    locked->lost = false;
    locked->events->held(locked);
}

static void acquired(struct locked *locked, int status)
{
    int code;

    if (locked->stage != LOCKED_WAITING) {
        return; /* given up: the end of the client ends it too */
    }
    if (status == LW_OK) {
        hold(locked);
        return;
    }
    waiting_end(&locked->waiting);
    code = code_of(locked, status);
    locked_end(locked, code);
    /* A silent server, which of several names another one may have, may have granted a
     * lock all the same: it gets some time to release that. */
    if (code == STATUS_NO_SERVER || locked->options->wait_ms == 0) {
        int ms = locked->options->wait_ms == 0 ? patience_left_ms(&locked->patience)
                                               : TAKE_BACK_MS;

        ms = ms < TAKE_BACK_MS ? ms : TAKE_BACK_MS;
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
        hold(locked);
    }
}

/* A hold that came and went while what was held for before was not over is nobody's. */
static void on_kept_lost(struct lw_keep *keep, int reason, void *arg)
{
    struct locked *locked = arg;

    (void)keep;
    if (locked->stage == LOCKED_HELD && !locked->lost) {
        lose(locked, reason);
    }
}

void locked_again(struct locked *locked)
{
    if (locked_left_ms(locked) > 0) {
        hold(locked);
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

bool locked_is_for_command(const struct locked *locked, int number, bool from_terminal)
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
    locked->patience = patience_for(ONCE_MS);
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

int locked_run(struct locked *locked, const char *client_name)
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

void locked_close(struct locked *locked)
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

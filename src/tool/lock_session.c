/* SPDX-License-Identifier: MIT */
/* run, lead, hold and take: acquire a lock, hold it for a command or a script, release
 * it; or leave it to others. Single-threaded and never blocking, so that the lock is
 * renewed as long as it is held.
 *
 * A session requests the lock; `held` is called; session_release releases it and closes
 * the client, which ends the loop. run starts the command in `held`, and releases when no
 * process of it is left. hold prints the fencing token, and releases at the end of the
 * standard input. lead holds by lw_keep_new, which acquires the lock again after each
 * loss. take detaches the lock in `held`, prints its token, and exits. With --token run
 * and take adopt the lock in place of acquiring it.
 *
 * A wait that times out, a server that refuses, or a signal ends a session that waits.
 *
 * A loss is reported, and `lost` is called. run and lead end the command, and wait until
 * no process of it is left: the margin of the hold is the time for that. Then run exits;
 * lead starts the command again once the lock is held again. hold exits at once: its
 * margin is the script's. With --keep-running run waits for the end of the command. The
 * command of --on-lost (hooks.h) is started at a loss and at each early warning.
 *
 * A request of `lockwire yield` is reported, and `asked` is called; with --on-yield its
 * command is started instead. run and lead send their command SIGTERM, and set it no
 * limit. When it has ended run exits as otherwise, and lead releases the lock and queues
 * again. hold releases and exits.
 *
 * A signal while the lock is held goes to the command; with hold it is like the end of
 * the input. After a loss or a request it ends lead as well. */
#include "lock_session_private.h"

#include "job.h"
#include "options.h"
#include "report.h"
#include "signals.h"
#include "subcommands.h"
#include "system.h"

#include <errno.h>
#include <event2/event.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#define NOWAIT_LIMIT_MS                                                                  \
    5000                      /* with --wait 0: to acquire, and to release a late grant  \
                               */
#define RELEASE_LIMIT_MS 1000 /* after another wait: to release a late grant */

/* ---- the end ---- */

static void on_closed(struct lw_client *client, void *arg)
{
    struct session *session = arg;

    (void)client;
    event_base_loopbreak(session->base);
}

void session_end(struct session *session, int code)
{
    wait_status_end(&session->wait_status);
    session->stage = SESSION_ENDING;
    session->code = code;
    if (lw_client_close(session->client, on_closed, session) < 0) {
        event_base_loopbreak(session->base);
    }
}

void session_abandon(struct session *session, int code)
{
    session->stage = SESSION_ENDING;
    session->code = code;
    event_base_loopbreak(session->base);
}

/* Returns a handle, valid until the event loop continues. */
static struct lw_lock *session_lock(const struct session *session)
{
    return session->keep != NULL  ? lw_keep_lock(session->keep)
           : session->all != NULL ? lw_all_lock(session->all, 0)
                                  : session->lock;
}

/* Returns the handle that explains a failure or a loss: with --and the first one with
 * this status as its error, or else with any error, or else that is not held. NULL if
 * there is none. */
static const struct lw_lock *failed_lock(const struct session *session, int status)
{
    const struct lw_lock *failed = NULL, *first = NULL;

    for (int i = 0; session->all != NULL && i < session->options->more_count + 1; i++) {
        const struct lw_lock *lock = lw_all_lock(session->all, (size_t)i);

        if (lock == NULL || lw_lock_state(lock) == LW_HELD) {
            continue;
        }
        if (lw_lock_error(lock) == status) {
            return lock;
        }
        failed = failed == NULL && lw_lock_error(lock) != LW_OK ? lock : failed;
        first = first != NULL ? first : lock;
    }
    return session->all == NULL ? session_lock(session) : failed != NULL ? failed : first;
}

static const char *lock_name(const struct session *session, const struct lw_lock *lock)
{
    return lock != NULL ? lw_lock_name(lock) : session->options->name;
}

static int lock_error(const struct lw_lock *lock)
{
    return lock != NULL ? lw_lock_error(lock) : LW_OK;
}

static const char *lock_errstr(const struct lw_lock *lock)
{
    return lock != NULL ? lw_lock_errstr(lock) : "";
}

/* ---- --on-lost ---- */

static void run_hook(struct session *session, enum hook hook, const char *name,
                     const char *reason)
{
    struct hook_event event = {hook, name, reason, session->fence};

    hooks_run(&session->hooks, &event);
}

/* Requested with --on-lost only. */
static void handle_risk(struct lw_lock *lock, int at_risk, int64_t remaining_ms,
                        void *arg)
{
    struct session *session = arg;
    const char *errstr = lw_lock_errstr(lock);

    if (at_risk && session->stage == SESSION_HELD && !session->lost) {
        report("the lock '%s' is at risk, %lld ms are left%s%s", lw_lock_name(lock),
               (long long)remaining_ms, *errstr ? ": " : "", errstr);
        run_hook(session, HOOK_AT_RISK, lw_lock_name(lock),
                 *errstr ? errstr : "the lease was not renewed yet");
    }
}

/* ---- the release ---- */

static void released(struct session *session, int status)
{
    const struct lw_lock *lock = failed_lock(session, status);
    const char *name = lock_name(session, lock), *errstr = lock_errstr(lock);
    const char *colon = *errstr ? ": " : "";

    if (status == LW_ENOTHELD) {
        report("'%s' was lost before it could be released", name);
        run_hook(session, HOOK_LOST, name, lw_strerror(status));
        session->code = exit_code_for(status, LW_OK, EXIT_BUSY);
    } else if (status == LW_EREDIS || status == LW_ECONN) {
        report_drop(errstr);
        report("%s '%s'; it stays locked until its lease expires%s%s",
               status == LW_EREDIS ? "the server refused to release"
                                   : "no server could release",
               name, colon, errstr);
        session->code = exit_code_for(status, LW_OK, EXIT_BUSY);
    } else if (status < 0) {
        report("the release of '%s' was not confirmed: %s%s%s", name, lw_strerror(status),
               colon, errstr);
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

void session_release(struct session *session, int code)
{
    session->stage = SESSION_ENDING;
    session->code = session->lost ? session->lost_code : code;
    if (!session->lost && session->keep == NULL) {
        (void)(session->all != NULL
                   ? lw_all_release(session->all, on_all_released, session)
                   : lw_release(session->lock, on_released, session));
    }
    session_end(session, session->code); /* at once: one limit for both */
}

/* Returns for how long the lock may still be used, its margin excluded. */
static int64_t session_remaining_ms(const struct session *session)
{
    const struct lw_lock *lock = session_lock(session);

    if (session->all != NULL) {
        return lw_all_remaining_ms(session->all) - session->options->margin_ms;
    }
    if (lw_lock_state(lock) != LW_HELD) {
        return 0;
    }
    return lw_lock_remaining_ms(lock) - session->options->margin_ms;
}

/* ---- the wait and the loss ---- */

static void handle_loss(struct session *session, int reason)
{
    const struct lw_lock *lock = failed_lock(session, reason);
    const char *name = lock_name(session, lock), *errstr = lock_errstr(lock);
    int error = lock_error(lock);

    const char *why = reason == LW_ETIMEOUT ? "the time of --max-hold has passed"
                      : reason == LW_ELOST && *errstr && error == LW_EREDIS
                          ? "the server refused to renew the lease"
                          : lw_strerror(reason);
    const char *more = reason == LW_ELOST ? errstr : "";
    char text[600];

    (void)snprintf(text, sizeof(text), "%s%s%s", why, *more ? ": " : "", more);
    report("the lock '%s' was lost: %s", name, text);
    session->lost = true;
    session->asked = false;
    session->lost_code = reason == LW_ELOST ? exit_code_for(reason, error, EXIT_BUSY)
                                            : EXIT_LOST;
    session->events->lost(session); /* first: SIGTERM does not wait for a fork */
    run_hook(session, HOOK_LOST, name, text);
}

static void on_lost(struct lw_lock *lock, int reason, void *arg)
{
    (void)lock;
    handle_loss(arg, reason);
}

/* Reports that the lock was busy, without --quiet. A value without a TTL was written by
 * something else, and stays whatever the limit of the wait is: that is always reported.
 */
static void report_busy(const struct session *session, const char *name, int status)
{
    const char *what = status == LW_EBUSY ? "cannot lock" : "timed out waiting for";

    if (*session->unlimited) {
        report_drop(" has no TTL: ");
        report("%s '%s': held without a time limit by the value '%s'; `lockwire break "
               "'%s' --foreign` frees it",
               what, name, session->unlimited, name);
        return;
    }
    if (session->options->quiet) {
        return;
    }
    report("%s '%s'%s", what, name, status == LW_EBUSY ? ": held by another client" : "");
}

/* Reports the end of an unsuccessful wait, and returns its exit code. */
static int failure_code(struct session *session, int status)
{
    const struct lw_lock *lock = failed_lock(session, status);
    const char *name = lock_name(session, lock), *errstr = lock_errstr(lock);
    const char *why = *errstr ? errstr : session->down_reason;
    int error = lock_error(lock);

    switch (status) {
    case LW_EBUSY:
        if (session->options->wait_ms != 0 && session->options->quiet) {
            break;
        }
        if (session->options->wait_ms != 0) {
            report("cannot lock '%s': %" PRIu32 " or more others already wait for it",
                   name, session->options->max_waiting);
            break;
        }
        report_busy(session, name, status);
        break;
    case LW_EDEADLOCK:
        report("cannot lock '%s': deadlock: another reader is waiting to write", name);
        break;
    case LW_ENOTHELD:
        report("cannot lock '%s': not held by the given --token; `lockwire status '%s' "
               "--wide` shows the tokens",
               name, name);
        break;
    case LW_EINVAL:
        report("cannot lock '%s': %s", name, errstr);
        break;
    case LW_ETIMEOUT:
        if (error == LW_OK) {
            report_busy(session, name, status);
            break;
        } /* fall through */
    case LW_ECONN:
    case LW_EREDIS:
        report_failure("lock", name, error != LW_OK ? error : status, session->link_up,
                       why);
        break;
    default:
        report_failure("lock", name, status, session->link_up, errstr);
    }
    return exit_code_for(status, error, session->options->busy_code);
}

static void begin_hold(struct session *session)
{
    wait_status_end(&session->wait_status);
    session->stage = SESSION_HELD;
    session->lost = session->asked = false;
    session->fence = lw_lock_fence(session_lock(session));
    session->events->held(session);
}

/* Ends the session after an unsuccessful wait. */
static void end_wait(struct session *session, int code)
{
    bool once = session->options->wait_ms == 0;

    session_end(session, code);
    /* A silent server may have granted a lock all the same: the client gets some time to
     * release it. */
    if (code == EXIT_NO_SERVER || once) {
        int64_t ms = once ? session->nowait_deadline_ms - system_now_ms()
                          : RELEASE_LIMIT_MS;

        ms = ms < 0 ? 0 : ms < RELEASE_LIMIT_MS ? ms : RELEASE_LIMIT_MS;
        event_base_loopexit(session->base,
                            &(struct timeval){ms / 1000, ms % 1000 * 1000});
    }
}

/* Reports the end of an unsuccessful wait, and ends the session. */
static void give_up(struct session *session, int status)
{
    end_wait(session, failure_code(session, status));
}

/* The time of --connect-timeout has passed. Some servers of a quorum may be connected,
 * and have granted their votes. */
static void on_connect_timeout(evutil_socket_t fd, short what, void *arg)
{
    struct session *session = arg;
    int error = lw_client_error(session->client);
    char text[2 * LW_WHY_SIZE];
    const char *why;

    (void)fd, (void)what;
    if (session->connected || session->stage != SESSION_WAITING) {
        return;
    }
    (void)lw_client_is_up(session->client, &why);
    options_explain_timeout(session->options, why, text, sizeof(text));
    report_failure("lock", session->options->name, error != LW_OK ? error : LW_ECONN,
                   false, text);
    end_wait(session, exit_code_for(LW_ECONN, error, session->options->busy_code));
}

/* Ends the session after a wait that ended because the lock was busy: with the reply to
 * look_at_holder, or with a signal before it. */
static void end_look(struct session *session)
{
    int status = session->busy_status;

    session->busy_status = LW_OK;
    give_up(session, status);
}

/* Called by the library with the reply to look_at_holder, within request_timeout_ms. */
static void on_busy_seen(struct lw_client *client, int result,
                         const struct lw_inspection *seen, const char *why, void *arg)
{
    struct session *session = arg;
    const struct lw_inspected *holder = result == LW_OK ? lw_inspection_holder(seen, 0)
                                                        : NULL;

    (void)client, (void)why;
    if (session->busy_status == LW_OK) {
        return; /* a signal came before the reply */
    }
    if (holder != NULL && holder->remaining_ms < 0) {
        status_value(holder->token, session->unlimited);
    }
    end_look(session);
}

/* After a wait that ended because the lock was busy: looks whether its key has no TTL.
 * Returns false if that cannot be, or cannot be found out. */
static bool look_at_holder(struct session *session, int status)
{
    const struct lw_lock *lock = failed_lock(session, status);
    bool busy = lock != NULL && (status == LW_EBUSY ? lw_lock_retry_ms(lock) < 0
                                                    : status == LW_ETIMEOUT &&
                                                          lw_lock_error(lock) == LW_OK);

    if (!busy || lw_inspect(session->client, lock_name(session, lock), on_busy_seen,
                            session) != 0) {
        return false;
    }
    session->stage = SESSION_ENDING;
    session->busy_status = status;
    return true;
}

static void acquired(struct session *session, int status)
{
    if (session->stage != SESSION_WAITING) {
        return; /* the closing client releases it */
    }
    if (status == LW_OK) {
        begin_hold(session);
        return;
    }
    wait_status_end(&session->wait_status);
    if (!look_at_holder(session, status)) {
        give_up(session, status);
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
    handle_loss(arg, reason);
}

/* ---- lead ---- */

/* While the job of a former hold is ending, session_restart checks later. */
static void on_gained(struct lw_keep *keep, int status, void *arg)
{
    struct session *session = arg;

    (void)keep, (void)status;
    if (session->stage == SESSION_WAITING) {
        begin_hold(session);
    }
}

/* A hold that began and ended while the job of the former one was ending is ignored. */
static void on_keep_lost(struct lw_keep *keep, int reason, void *arg)
{
    struct session *session = arg;

    (void)keep;
    if (session->stage == SESSION_HELD && !session->lost) {
        handle_loss(session, reason);
    }
}

/* lead: nothing of the job of a lost hold is left; starts the next one, or waits. */
static void session_restart(struct session *session)
{
    if (session_remaining_ms(session) > 0) {
        begin_hold(session);
        return;
    }
    session->stage = SESSION_WAITING;
    wait_status_begin(&session->wait_status, session->client);
}

/* ---- requests to release the lock ---- */

/* Called by the library for each request. After a loss lead may hold the lock again while
 * the command of the former hold is being ended. */
static void on_asked(struct lw_lock *lock, void *arg)
{
    struct session *session = arg;
    const char *name = lw_lock_name(lock);
    bool first = !session->asked;

    if (session->stage != SESSION_HELD) {
        return;
    }
    session->asked = true;
    if (session->lost) {
        report("asked to release '%s'; the command is already being ended", name);
    } else if (session->hooks.commands[HOOK_ASKED] != NULL) {
        struct hook_event event = {HOOK_ASKED, name, NULL, lw_lock_fence(lock)};

        report("asked to release '%s'", name);
        hooks_run(&session->hooks, &event);
    } else if (first) {
        session->events->asked(session, name);
    } else {
        report("asked again to release '%s'", name);
    }
}

/* ---- the start ---- */

static int acquire_all(struct session *session, const struct lw_acquire_options *acquire)
{
    const struct options *options = session->options;
    const char *names[MAX_MORE_NAMES + 1] = {options->name};
    size_t count = (size_t)options->more_count + 1;

    for (size_t i = 1; i < count; i++) {
        names[i] = options->more_names[i - 1];
    }
    return lw_acquire_all(session->client, names, count, acquire, on_all_acquired,
                          on_all_lost, session, &session->all);
}

/* Returns 0, or an lw_error. */
static int acquire(struct session *session)
{
    struct lw_acquire_options acquire = LW_ACQUIRE_OPTIONS_INIT;
    const struct options *options = session->options;

    acquire.mode = options->mode;
    acquire.owner = options->owner;
    acquire.permits = options->permits;
    acquire.lease_ms = options->lease_ms;
    acquire.wait_ms = options->wait_ms;
    acquire.max_waiting = options->max_waiting;
    acquire.note = options->note;
    acquire.at_risk = options->on_lost != NULL ? handle_risk : NULL;
    acquire.max_hold_ms = options->max_hold_ms;
    acquire.margin_ms = (uint32_t)options->margin_ms;
    acquire.at_least_ms = (uint32_t)options->at_least_ms;
    if (options->subcommand == LEAD) {
        return lw_keep_new(session->client, options->name, &acquire, on_gained,
                           on_keep_lost, session, &session->keep);
    }
    if (options->more_count > 0) {
        return acquire_all(session, &acquire);
    }
    acquire.lost = on_lost;
    if (options->token != NULL) {
        return lw_adopt(session->client, options->name, options->token, &acquire,
                        on_acquired, session, &session->lock);
    }
    return lw_acquire(session->client, options->name, &acquire, on_acquired, session,
                      &session->lock);
}

/* lead: nothing is left of the job, whose end was asked for. Releases the lock, and waits
 * behind all that wait for it now. */
static void session_requeue(struct session *session)
{
    int error;

    lw_keep_free(session->keep);
    session->keep = NULL;
    session->stage = SESSION_WAITING;
    error = acquire(session);
    if (error != 0) {
        report("%s", *session->error ? session->error : lw_strerror(error));
        session_end(session, EXIT_SYSTEM);
        return;
    }
    wait_status_begin(&session->wait_status, session->client);
}

/* Returns true for a signal of lead that does not mean its end: while there is no
 * command, it is ignored. */
static bool session_is_for_command(const struct session *session, int number,
                                   bool from_terminal)
{
    return session->options->subcommand == LEAD && !from_terminal &&
           (number == SIGUSR1 || number == SIGUSR2);
}

/* SIGTSTP and SIGTTIN are caught once lead has had a job. */
static void on_signal(int number, bool from_terminal, void *arg)
{
    struct session *session = arg;

    if (number == SIGCHLD) {
        hooks_reap(&session->hooks);
    }
    if (session->busy_status != LW_OK && number != SIGCHLD && number != SIGTSTP &&
        number != SIGTTIN) {
        end_look(session);
    } else if (session->stage == SESSION_HELD) {
        session->events->signal(session, number, from_terminal);
    } else if (session->stage == SESSION_ENDING || number == SIGCHLD ||
               session_is_for_command(session, number, from_terminal)) {
        return;
    } else if (number == SIGTSTP || number == SIGTTIN) {
        report_transient("");
        (void)signals_stop(number, false);
    } else {
        session->interrupted = number == SIGINT && from_terminal;
        session_end(session, EXIT_SIGNAL + number);
    }
}

/* Returns true if lead is to end because of this error of the link: the logins have been
 * refused for a whole lease. A rotation of passwords may take some time until it has
 * reached both the server and our file; a holder has a lease for that. */
static bool lead_is_refused(struct session *session, int error)
{
    if (error != LW_EREDIS) {
        session->refused_since_ms = 0;
        return false;
    }
    if (session->refused_since_ms == 0) {
        session->refused_since_ms = system_now_ms();
    }
    return !session->options->keep_trying && session->stage == SESSION_WAITING &&
           system_now_ms() - session->refused_since_ms >= session->options->lease_ms;
}

/* lead: looks each second while the link is down, because on_link is not called for each
 * attempt in a cluster. */
static void look_at_link(evutil_socket_t fd, short what, void *arg)
{
    struct session *session = arg;
    int error = lw_client_error(session->client);
    const char *why;

    (void)fd, (void)what;
    session->looking = false;
    if (session->stage == SESSION_ENDING) {
        return;
    }
    if (lead_is_refused(session, error)) {
        (void)lw_client_is_up(session->client, &why);
        report_failure("lock", session->options->name, error, false, why);
        session_end(session, exit_code_for(LW_ECONN, error, session->options->busy_code));
    } else if (!session->link_up) {
        session->looking = event_base_once(session->base, -1, EV_TIMEOUT, look_at_link,
                                           session, &(struct timeval){1, 0}) == 0;
    }
}

/* Returns true if another attempt to make the first connection would be useless. */
static bool is_useless(const struct session *session, int error)
{
    return error == LW_ESYSTEM || (error == LW_EREDIS && !session->options->keep_trying);
}

static void on_link(struct lw_client *client, int up, const char *why, void *arg)
{
    struct session *session = arg;
    int error = lw_client_error(client);

    session->link_up = up;
    session->connected = session->connected || up;
    if (!up) { /* the library logs it, too */
        (void)snprintf(session->down_reason, sizeof(session->down_reason), "%s", why);
    } else if (session->stage == SESSION_WAITING) {
        wait_status_guard(&session->wait_status, client);
    }
    if (session->options->subcommand == LEAD && !session->looking) {
        look_at_link(-1, 0, session);
    }
    if (!session->connected && session->stage == SESSION_WAITING &&
        is_useless(session, error)) {
        report_failure("lock", session->options->name, error, up, why);
        session_end(session, exit_code_for(LW_ECONN, error, session->options->busy_code));
    }
}

static void on_log(int level, const char *message, void *arg)
{
    const struct session *session = arg;

    /* A permanent failure is logged as an error, and on_link reports it. */
    if (!session->connected && !session->options->keep_trying && level <= LOG_ERR &&
        report_is_no_connection(message)) {
        return;
    }
    if (session->stage == SESSION_HELD) {
        report("%s", message);
    } else {
        report_later(session->base, message);
    }
}

/* Returns 0, or the exit code. */
static int start(struct session *session, const char *client_name)
{
    struct lw_client_options client = LW_CLIENT_OPTIONS_INIT;
    const struct options *options = session->options;
    int error;

    client.client_name = client_name;
    client.link = on_link;
    client.log = on_log;
    client.asked_to_yield = session->events->asked != NULL ? on_asked : NULL;
    client.arg = session;
    client.errbuf = session->error;
    client.errbuf_size = sizeof(session->error);
    error = options_new_client(options, session->base, &client, &session->client);
    session->nowait_deadline_ms = system_now_ms() + NOWAIT_LIMIT_MS;
    if (error == 0) {
        error =
            options_limit_connecting(options, session->base, on_connect_timeout, session);
    }
    if (error == 0) {
        error = acquire(session);
    }
    if (error == 0) {
        session->wait_status.all = session->all;
        wait_status_begin(&session->wait_status, session->client);
        return 0;
    }
    report("%s", *session->error ? session->error : lw_strerror(error));
    return error == LW_EINVAL ? EXIT_USAGE : EXIT_SYSTEM;
}

int session_run(struct session *session, const char *client_name)
{
    session->code = EXIT_SYSTEM; /* unless session_end is called */
    session->hooks.commands[HOOK_AT_RISK] = session->options->on_lost;
    session->hooks.commands[HOOK_LOST] = session->options->on_lost;
    session->hooks.commands[HOOK_ASKED] = session->options->on_yield;
    session->base = event_base_new();
    if (session->base == NULL || signals_watch(session->base, on_signal, session) < 0 ||
        wait_status_open(&session->wait_status, session->base, session->options,
                         client_name) < 0) {
        report("cannot start an event loop");
    } else if (session->events->begin == NULL || session->events->begin(session) == 0) {
        int code = start(session, client_name);

        if (code != 0) {
            return code;
        }
        event_base_dispatch(session->base);
    }
    return session->code;
}

void session_close(struct session *session)
{
    report_kept();
    signals_unwatch();
    wait_status_close(&session->wait_status);
    lw_keep_free(session->keep);
    lw_all_free(session->all);
    lw_lock_free(session->lock);
    lw_client_free(session->client);
    if (session->base != NULL) {
        event_base_free(session->base);
    }
}

/* ---- run and lead ---- */

_Static_assert(JOB_MORE_FENCES == MAX_MORE_NAMES, "a fencing token for each --and");

struct run {
    struct session session;
    struct embedded *server; /* or NULL */
    struct job job;
    int stop_code; /* lead: of a signal after a loss or a request; else 0 */
};

#define FOREVER_MS INT32_MAX /* each order to the watchdog counts from then again */

/* Returns 0 after a loss, also if lead holds the lock again. With --keep-running the time
 * of a command is not limited. */
static int64_t run_left_ms(void *arg)
{
    const struct run *run = arg;

    if (run->session.options->keep_running) {
        return FOREVER_MS;
    }
    return run->session.lost ? 0 : session_remaining_ms(&run->session);
}

static bool run_on_other_child(pid_t pid, int status, void *arg)
{
    struct run *run = arg;

    return hooks_reaped(&run->session.hooks, pid, status);
}

/* Returns true if lead goes on at the end of the command. */
static bool run_goes_on(const struct run *run)
{
    const struct session *session = &run->session;

    return session->options->subcommand == LEAD && run->stop_code == 0 &&
           (session->lost || session->asked);
}

static void run_on_end(int code, void *arg)
{
    struct run *run = arg;
    struct session *session = &run->session;

    if (run->job.ending && !session->lost && run_left_ms(run) <= 0) {
        report("the lock '%s' was lost while lockwire was stopped",
               session->options->name);
        session->lost = true;
        session->lost_code = EXIT_LOST;
        run_hook(session, HOOK_LOST, session->options->name, "lockwire was stopped");
    }
    if (run_goes_on(run)) {
        job_free(&run->job);
        run->job = (struct job){
            .grace_timer = NULL}; /* for job_free, if there is no other job */
        if (session->asked) {
            session_requeue(session);
        } else {
            session_restart(session);
        }
    } else if (session->lost && session->options->subcommand == LEAD) {
        session_end(session, run->stop_code);
    } else {
        session_release(session, code);
    }
}

static void run_on_lost(struct session *session)
{
    struct run *run = session->arg;

    if (session->options->keep_running) {
        report("%s continues without the lock (--keep-running)",
               session->options->command[0]);
    } else {
        job_end(&run->job);
    }
}

static void run_on_asked(struct session *session, const char *name)
{
    struct run *run = session->arg;

    report("asked to release '%s': %s gets SIGTERM", name, session->options->command[0]);
    job_signal(&run->job, SIGTERM, false);
}

static void run_on_held(struct session *session)
{
    struct run *run = session->arg;
    const struct options *options = session->options;
    struct job_plan plan = {.argv = options->command,
                            .name = options->name,
                            .fence = session->fence,
                            .token = lw_lock_token(session_lock(session)),
                            .url = options->embedded ? options->url : NULL,
                            .direct = options->direct,
                            .grace_ms = options->grace_ms,
                            .kill_ms = options->margin_ms - options->grace_ms,
                            .server = run->server,
                            .on_end = run_on_end,
                            .on_other_child = run_on_other_child,
                            .left_ms = run_left_ms,
                            .arg = run};

    for (int i = 0; i < options->more_count; i++) {
        plan.more_fences[i] = lw_lock_fence(lw_all_lock(session->all, (size_t)i + 1));
    }
    if (job_start(&run->job, session->base, &plan) < 0) {
        report("cannot start %s: %s", options->command[0], strerror(errno));
        session_release(session, EXIT_SYSTEM);
    }
}

static void run_on_signal(struct session *session, int number, bool from_terminal)
{
    struct run *run = session->arg;

    if ((session->lost || session->asked) && number != SIGCHLD && number != SIGTSTP &&
        number != SIGTTIN && !session_is_for_command(session, number, from_terminal)) {
        run->stop_code = EXIT_SIGNAL + number;
    }
    job_signal(&run->job, number, from_terminal);
}

int run(const struct options *options, struct embedded *server)
{
    static const struct session_events events = {NULL, run_on_held, run_on_lost,
                                                 run_on_asked, run_on_signal};
    struct run run = {.session = {.options = options, .events = &events},
                      .server = server};
    bool interrupted;
    int code;

    run.session.arg = &run;
    code = session_run(&run.session,
                       options->subcommand == LEAD ? "lockwire-lead" : "lockwire-run");
    interrupted = run.session.interrupted || run.job.interrupted;
    job_free(&run.job);
    session_close(&run.session);
    return interrupted && code == EXIT_SIGNAL + SIGINT ? -SIGINT : code;
}

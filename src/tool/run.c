/* SPDX-License-Identifier: MIT */
/*
 * See run.h. Single-threaded on libevent, and never blocking: whatever happens, the lock
 * is renewed while the program runs.
 *
 * Happy path: on_acquired starts the command; on_over releases; on_released closes the
 * client; on_closed ends the loop; the exit code is the command's.
 *
 * Lost: the command is ended, and its end awaited, since only then nobody works on what
 * the lock protects; the margin of the hold is the time that this takes, so that it is
 * over before the lease is. A signal while waiting: the client is closed, which leaves
 * the queue. A signal while the command runs: passed on. Afterwards: ignored, the end is
 * near.
 */
#include "run.h"

#include "codes.h"
#include "lockwire.h"
#include "options.h"
#include "password.h"
#include "refusal.h"
#include "say.h"
#include "signals.h"
#include "work.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum stage { WAITING, RUNNING, ENDING };

struct run {
    const struct options *options;
    struct embedded *server; /* or NULL */
    struct event_base *base;
    struct lw_client *client;
    struct lw_lock *lock;
    struct work work;
    enum stage stage;
    int code; /* what to exit with */
    bool lost, link_up;
    bool connected; /* once; what comes after is an outage */
    char why_down[200];
    char error[300];
};

static void on_closed(struct lw_client *client, void *arg)
{
    struct run *run = arg;

    (void)client;
    event_base_loopbreak(run->base);
}

static void end(struct run *run, int code)
{
    run->stage = ENDING;
    run->code = code;
    if (lw_client_close(run->client, on_closed, run) < 0) {
        event_base_loopbreak(run->base);
    }
}

static void on_released(struct lw_lock *lock, int status, void *arg)
{
    struct run *run = arg;
    const char *name = lw_lock_name(lock);

    if (status == LW_ENOTHELD) {
        say("'%s' was no longer ours when the command ended", name);
        run->code = STATUS_LOST;
    } else if (status < 0) {
        say("cannot tell whether '%s' was released: %s", name, lw_strerror(status));
    }
    end(run, run->code);
}

static int64_t left_ms(void *arg)
{
    const struct run *run = arg;

    if (lw_lock_state(run->lock) != LW_HELD) {
        return 0;
    }
    return lw_lock_remaining_ms(run->lock) - run->options->margin_ms;
}

static void on_over(int code, void *arg)
{
    struct run *run = arg;

    run->stage = ENDING;
    if (run->work.ending && !run->lost && left_ms(run) <= 0) {
        say("the lock '%s' was lost while lockwire was stopped", run->options->name);
        run->lost = true;
    }
    run->code = run->lost ? STATUS_LOST : code;
    if (run->lost || lw_release(run->lock, on_released, run) < 0) {
        end(run, run->code);
    }
}

static void on_lost(struct lw_lock *lock, int reason, void *arg)
{
    struct run *run = arg;

    say("the lock '%s' was lost: %s", lw_lock_name(lock), lw_strerror(reason));
    run->lost = true;
    work_end(&run->work);
}

static int code_of(struct run *run, int status)
{
    const char *name = run->options->name, *said = lw_lock_errstr(run->lock);
    const char *why = *said ? said : run->why_down;

    switch (status) {
    case LW_EBUSY:
        say("'%s' is locked by somebody else", name);
        return STATUS_BUSY;
    case LW_EDEADLOCK:
        say("'%s': another owner that reads it waits to write, too", name);
        return STATUS_BUSY;
    case LW_ETIMEOUT:
        if (run->link_up && !*said) {
            say("the wait for '%s' is over", name);
            return STATUS_BUSY;
        }
        if (run->link_up) {
            say("the server refuses '%s': %s", name, said);
            return STATUS_REFUSED;
        } /* fall through */
    case LW_ECONN:
        say("no connection to the server%s%s", *why ? ": " : "", why);
        return STATUS_NO_SERVER;
    case LW_EREDIS:
        say("the server refuses '%s': %s", name, said);
        return STATUS_REFUSED;
    default:
        say("cannot lock '%s': %s%s%s", name, lw_strerror(status), *said ? ": " : "",
            said);
        return STATUS_SYSTEM;
    }
}

static void on_acquired(struct lw_lock *lock, int status, void *arg)
{
    struct run *run = arg;
    const struct options *options = run->options;
    struct work_plan plan = {.child = {.argv = options->command,
                                       .name = options->name,
                                       .fence = lw_lock_fence(lock),
                                       .url = options->embedded ? options->url : NULL},
                             .direct = options->direct,
                             .grace_ms = options->grace_ms,
                             .kill_ms = options->margin_ms - options->grace_ms,
                             .server = run->server,
                             .over = on_over,
                             .left_ms = left_ms,
                             .arg = run};

    if (run->stage != WAITING) {
        return; /* given up: the end of the client ends it too */
    }
    if (status != LW_OK) {
        end(run, code_of(run, status));
        return;
    }
    if (work_start(&run->work, run->base, &plan) == 0) {
        run->stage = RUNNING;
        return;
    }
    say("cannot start %s: %s", options->command[0], strerror(errno));
    run->stage = ENDING;
    run->code = STATUS_SYSTEM;
    if (lw_release(lock, on_released, run) < 0) {
        end(run, run->code);
    }
}

static void on_signal(int number, bool from_terminal, void *arg)
{
    struct run *run = arg;

    if (run->stage == RUNNING) {
        work_signal(&run->work, number, from_terminal);
    } else if (run->stage == WAITING && number != SIGCHLD) {
        run->work.interrupted = number == SIGINT && from_terminal;
        end(run, STATUS_SIGNAL + number);
    }
}

static void on_link(struct lw_client *client, int up, const char *why, void *arg)
{
    struct run *run = arg;

    (void)client;
    run->link_up = up;
    run->connected = run->connected || up;
    if (!up) { /* the library's log tells it at once */
        (void)snprintf(run->why_down, sizeof(run->why_down), "%s", why);
    }
    if (!run->connected && run->stage == WAITING && is_refusal(why)) {
        say("the server refuses the connection: %s", why);
        end(run, STATUS_REFUSED);
    }
}

static void on_log(int level, const char *message, void *arg)
{
    const struct run *run = arg;

    (void)level;
    if (run->connected || !is_refusal(message)) { /* else on_link tells it */
        say("%s", message);
    }
}

static int start(struct run *run)
{
    struct lw_client_options client = LW_CLIENT_OPTIONS_INIT;
    struct lw_acquire_options acquire = LW_ACQUIRE_OPTIONS_INIT;
    int error;

    client.client_name = "lockwire-run";
    client.link = on_link;
    client.log = on_log;
    client.arg = run;
    client.errbuf = run->error;
    client.errbuf_size = sizeof(run->error);
    acquire.mode = run->options->mode;
    acquire.owner = run->options->owner;
    acquire.permits = run->options->permits;
    acquire.lease_ms = run->options->lease_ms;
    acquire.wait_ms = run->options->wait_ms;
    acquire.margin_ms = (uint32_t)run->options->margin_ms;
    acquire.lost = on_lost;
    options_client(run->options, &client);
    error = lw_client_new(run->base, run->options->url, &client, &run->client);
    password_wipe(run->options->password);
    password_wipe(run->options->sentinel_password);
    if (error == 0) {
        error = lw_acquire(run->client, run->options->name, &acquire, on_acquired, run,
                           &run->lock);
    }
    if (error == 0) {
        return 0;
    }
    say("%s", *run->error ? run->error : lw_strerror(error));
    return error == LW_EINVAL ? STATUS_USAGE : STATUS_SYSTEM;
}

int run(const struct options *options, struct embedded *server)
{
    struct run run = {.options = options, .server = server, .code = STATUS_SYSTEM};

    run.base = event_base_new();
    if (run.base == NULL || signals_watch(run.base, on_signal, &run) < 0) {
        say("cannot start an event loop");
    } else {
        run.code = start(&run);
        if (run.code == 0) {
            run.code = STATUS_SYSTEM; /* unless end() tells better */
            event_base_dispatch(run.base);
        }
    }
    signals_unwatch();
    lw_lock_free(run.lock);
    lw_client_free(run.client);
    work_free(&run.work);
    if (run.base != NULL) {
        event_base_free(run.base);
    }
    return run.work.interrupted && run.code == STATUS_SIGNAL + SIGINT ? -SIGINT
                                                                      : run.code;
}

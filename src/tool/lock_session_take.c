/* SPDX-License-Identifier: MIT */
/* take: acquires a lock, or adopts one with --token, detaches it in `held`, prints its
 * token, and exits. The session is lock_session.c's. */
#include "lock_session_private.h"
#include "options.h"
#include "report.h"
#include "status_format.h"
#include "subcommands.h"
#include "system.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct take {
    struct session session;
    int64_t detached_ms; /* when the lock was detached */
};

static void on_given_back(struct lw_client *client, int status, const char *why,
                          void *arg)
{
    struct session *session = arg;

    (void)client;
    if (status != LW_OK && status != LW_ENOTHELD) {
        report("'%s' stays locked until its lease expires: %s%s%s",
               session->options->name, lw_strerror(status), *why ? ": " : "", why);
    }
    session_end(session, EXIT_SYSTEM);
}

/* Writes the token. Returns false, after a report, if it could not be written. */
static bool print_token(const struct take *take)
{
    const struct session *session = &take->session;
    const char *token = lw_lock_token(session->lock);
    int64_t left_ms = session->options->lease_ms - (system_now_ms() - take->detached_ms);
    char *line;

    if (!session->options->json) {
        (void)puts(token);
        return report_flush();
    }
    line = status_json_taken(session->options->name, token, lw_lock_fence(session->lock),
                             left_ms);
    if (line == NULL) {
        report("%s", lw_strerror(LW_ENOMEM));
        return false;
    }
    (void)puts(line);
    free(line);
    return report_flush();
}

static void on_detached(struct lw_lock *lock, int status, void *arg)
{
    struct take *take = arg;
    struct session *session = &take->session;
    const char *name = session->options->name, *errstr = lw_lock_errstr(lock);

    if (status == LW_OK && print_token(take)) {
        session_end(session, EXIT_SUCCESS);
    } else if (status == LW_OK) { /* no one else knows the token */
        if (lw_break(session->client, name, lw_lock_token(lock), on_given_back,
                     session) != 0) {
            session_end(session, EXIT_SYSTEM);
        }
    } else if (status == LW_ENOTHELD) {
        report("'%s' was lost before its lease could be set", name);
        session_end(session, EXIT_LOST);
    } else {
        report("the lease of '%s' could not be set; it stays locked until its lease "
               "expires: %s%s%s",
               name, lw_strerror(status), *errstr ? ": " : "", errstr);
        session_end(session, status == LW_EREDIS
                                 ? exit_code_for(status, lw_lock_error(lock), EXIT_BUSY)
                                 : EXIT_NO_SERVER);
    }
}

static void take_on_held(struct session *session)
{
    struct take *take = session->arg;
    int error;

    if (*lw_lock_token(session->lock) == '\0') { /* before no one could release it */
        report("%s", lw_strerror(LW_ENOMEM));
        session_release(session, EXIT_SYSTEM);
        return;
    }
    take->detached_ms = system_now_ms();
    error = lw_detach(session->lock, session->options->lease_ms, on_detached, take);
    if (error != 0) { /* lost in the same turn of the loop */
        session_release(session, exit_code_for(error, LW_OK, EXIT_BUSY));
    }
}

static void take_on_lost(struct session *session)
{
    session_abandon(session, session->lost_code);
}

/* The lock is being detached: its token is still to be written. */
static void take_on_signal(struct session *session, int number, bool from_terminal)
{
    (void)session, (void)number, (void)from_terminal;
}

int take(const struct options *options)
{
    static const struct session_events events = {NULL, take_on_held, take_on_lost, NULL,
                                                 take_on_signal};
    struct take take = {.session = {.options = options, .events = &events}};
    int code;

    take.session.arg = &take;
    code = session_run(&take.session, "lockwire-take");
    session_close(&take.session);
    return take.session.interrupted && code == EXIT_SIGNAL + SIGINT ? -SIGINT : code;
}

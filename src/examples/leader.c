/* SPDX-License-Identifier: MIT */
/*
 * One leader among any number of processes on any hosts, and another one as soon as it is
 * gone: the process that holds the lock does the work that only one may do.
 *
 *     cc leader.c $(pkg-config --cflags --libs lockwire) -o leader
 *     LOCKWIRE_URL=redis://localhost ./leader NAME [JOB_MS]
 *
 * After lw_keep_new the library calls gained(): one job after another begins and is done,
 * with the fencing token. While the lock is at risk, no new job begins. lost() drops the
 * job at hand at once; the library requests the lock again, and calls gained() again.
 *
 * SIGTERM, or a request for the lock (`lockwire yield NAME`): the job at hand is
 * finished; then the client is closed, which releases the lock, so that the next process
 * leads at once. After a kill, it leads when the lease has expired.
 */
#include <event2/event.h>
#include <inttypes.h>
#include <lockwire.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define PAUSE_MS 50 /* between two jobs */

struct leader {
    struct lw_client *client;
    struct lw_keep *keep;
    struct event *next, *done; /* the next job begins; the job at hand is done */
    struct event *term;
    long job_ms;
    int at_risk, stopping;
    char why[LW_WHY_SIZE]; /* the library's explanation of a refused call */
    int code;              /* the exit code */
};

static void set_timer(struct leader *leader, struct event *timer, long ms)
{
    struct timeval wait = {ms / 1000, ms % 1000 * 1000};

    if (event_add(timer, &wait) < 0) {
        (void)fprintf(stderr, "leader: no timer\n"); /* let another process lead */
        leader->code = EXIT_FAILURE;
        event_base_loopbreak(event_get_base(timer));
    }
}

static void print_fence(const char *what, const struct leader *leader)
{
    (void)printf("%s with fence %" PRIu64 "\n", what,
                 lw_lock_fence(lw_keep_lock(leader->keep)));
    (void)fflush(stdout);
}

/* While renewals fail, no job begins: the lease might expire before its end. */
static void begin(evutil_socket_t fd, short what, void *arg)
{
    struct leader *leader = arg;

    (void)fd, (void)what;
    if (!leader->at_risk) {
        print_fence("begun", leader);
        set_timer(leader, leader->done, leader->job_ms);
    }
}

static void stop(struct leader *leader);

/* The work that only the leader does. It is done before the loop continues, so the lock
 * lasts long enough if any time is left. A resource whose writes may be delayed has to
 * check the fencing token. */
static void finish(evutil_socket_t fd, short what, void *arg)
{
    struct leader *leader = arg;

    (void)fd, (void)what;
    if (lw_lock_remaining_ms(lw_keep_lock(leader->keep)) > 0) {
        print_fence("leading", leader);
    }
    if (leader->stopping) {
        stop(leader);
    } else {
        set_timer(leader, leader->next, PAUSE_MS);
    }
}

static void gained(struct lw_keep *keep, int status, void *arg)
{
    struct leader *leader = arg;

    (void)keep, (void)status; /* LW_OK */
    leader->at_risk = 0;
    set_timer(leader, leader->next, PAUSE_MS);
}

/* Renewals fail, or succeed again; the lock is held until `lost`. */
static void risked(struct lw_lock *lock, int at_risk, int64_t remaining_ms, void *arg)
{
    struct leader *leader = arg;

    (void)lock;
    leader->at_risk = at_risk;
    (void)fprintf(stderr, "leader: %s, %" PRId64 " ms left\n",
                  at_risk ? "at risk" : "safe again", remaining_ms);
    if (!at_risk && !leader->stopping && !event_pending(leader->done, EV_TIMEOUT, NULL)) {
        set_timer(leader, leader->next, PAUSE_MS);
    }
}

static void lost(struct lw_keep *keep, int reason, void *arg)
{
    struct leader *leader = arg;

    (void)keep;
    (void)event_del(leader->next);
    (void)event_del(leader->done);
    (void)fprintf(stderr, "leader: no longer: %s\n", lw_strerror(reason));
    if (leader->stopping) {
        stop(leader);
    }
}

static void closed(struct lw_client *client, void *arg)
{
    (void)client;
    event_base_loopbreak(arg);
}

/* Closing releases the lock, without a call of `lost`. */
static void stop(struct leader *leader)
{
    (void)lw_client_close(leader->client, closed, event_get_base(leader->next));
}

static void finish_and_stop(struct leader *leader)
{
    leader->stopping = 1;
    (void)event_del(leader->next);
    if (!event_pending(leader->done, EV_TIMEOUT, NULL)) {
        stop(leader);
    }
}

static void asked(struct lw_lock *lock, void *arg)
{
    struct leader *leader = arg;

    (void)lock;
    if (!leader->stopping) {
        finish_and_stop(leader);
    }
}

static void terminated(evutil_socket_t fd, short what, void *arg)
{
    struct leader *leader = arg;

    (void)fd, (void)what;
    if (leader->stopping) { /* the second SIGTERM does not wait for the job */
        event_base_loopbreak(event_get_base(leader->next));
        return;
    }
    finish_and_stop(leader);
}

/* Failures of the link, and refusals: an operator needs to see them. */
static void log_line(int level, const char *message, void *arg)
{
    (void)level, (void)arg;
    (void)fprintf(stderr, "leader: %s\n", message);
}

static int start(struct leader *leader, struct event_base *base, const char *name)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    struct lw_acquire_options hold = LW_ACQUIRE_OPTIONS_INIT;
    const char *url = getenv("LOCKWIRE_URL"); /* no argument: it may have a password */

    leader->next = event_new(base, -1, 0, begin, leader);
    leader->done = event_new(base, -1, 0, finish, leader);
    leader->term = evsignal_new(base, SIGTERM, terminated, leader);
    if (url == NULL || leader->next == NULL || leader->done == NULL ||
        leader->term == NULL || event_add(leader->term, NULL) < 0) {
        return -1;
    }
    options.client_name = "leader";
    options.log = log_line;
    options.asked_to_yield = asked;
    options.arg = leader;
    options.errbuf = leader->why;
    options.errbuf_size = sizeof(leader->why);
    hold.lease_ms = 2000; /* after the leader is killed, no process leads for so long */
    hold.at_risk = risked;
    if (lw_client_new(base, url, &options, &leader->client) < 0) {
        return -1;
    }
    return lw_keep_new(leader->client, name, &hold, gained, lost, leader, &leader->keep);
}

int main(int argc, char **argv)
{
    struct leader leader = {.why = "out of memory", /* or the library's text */
                            .job_ms = argc > 2 ? strtol(argv[2], NULL, 10) : 50,
                            .code = EXIT_FAILURE};
    struct event_base *base = event_base_new();

    if (argc < 2 || argc > 3 || base == NULL) {
        (void)fprintf(stderr, "usage: leader NAME [JOB_MS]\n");
    } else if (start(&leader, base, argv[1]) < 0) {
        (void)fprintf(stderr, "leader: %s\n",
                      getenv("LOCKWIRE_URL") != NULL ? leader.why
                                                     : "LOCKWIRE_URL is not set");
    } else {
        leader.code = EXIT_SUCCESS;
        if (event_base_dispatch(base) < 0) {
            leader.code = EXIT_FAILURE;
        }
    }
    lw_keep_free(leader.keep);
    lw_client_free(leader.client);
    if (leader.next != NULL) {
        event_free(leader.next);
    }
    if (leader.done != NULL) {
        event_free(leader.done);
    }
    if (leader.term != NULL) {
        event_free(leader.term);
    }
    if (base != NULL) {
        event_base_free(base);
    }
    return leader.code;
}

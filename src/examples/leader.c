/* SPDX-License-Identifier: MIT */
/*
 * One leader among any number of processes on any hosts, and another one as soon as it is
 * gone: what only one may do is done by whoever has the lock.
 *
 *     cc leader.c $(pkg-config --cflags --libs lockwire) -o leader
 *     LOCKWIRE_URL=redis://localhost ./leader NAME
 *
 * Happy path: lw_keep_new -> gained: the timer runs -> at each tick something is done
 * with the fencing token. lost: the timer stops at once; the library asks for the lock
 * again, and gained comes anew. SIGTERM: the client is closed, which gives the lock back,
 * so that the next one leads at once; who is killed is followed when its lease is over.
 */
#include <event2/event.h>
#include <inttypes.h>
#include <lockwire.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

struct leader {
    struct lw_client *client;
    struct lw_keep *keep;
    struct event *tick, *term;
    char why[200]; /* what was wrong with an argument, as the library says it */
    int code;      /* to exit with */
};

/* What only the leader does. It is over before the loop goes on, so the lock that stands
 * now stands long enough, if there is time left at all; the token is for what it writes
 * to that might come late. */
static void ticked(evutil_socket_t fd, short what, void *arg)
{
    struct leader *leader = arg;
    struct lw_lock *lock = lw_keep_lock(leader->keep);

    (void)fd, (void)what;
    if (lw_lock_remaining_ms(lock) > 0) {
        (void)printf("leading with fence %" PRIu64 "\n", lw_lock_fence(lock));
        (void)fflush(stdout);
    }
}

static void gained(struct lw_keep *keep, int status, void *arg)
{
    struct leader *leader = arg;
    struct timeval period = {0, 100000};

    (void)keep, (void)status; /* LW_OK */
    if (event_add(leader->tick, &period) < 0) {
        (void)fprintf(stderr, "leader: no timer\n"); /* let somebody else lead */
        leader->code = EXIT_FAILURE;
        event_base_loopbreak(event_get_base(leader->tick));
    }
}

static void lost(struct lw_keep *keep, int reason, void *arg)
{
    struct leader *leader = arg;

    (void)keep;
    (void)event_del(leader->tick);
    (void)fprintf(stderr, "leader: no longer: %s\n", lw_strerror(reason));
}

static void closed(struct lw_client *client, void *arg)
{
    (void)client;
    event_base_loopbreak(arg);
}

static void terminated(evutil_socket_t fd, short what, void *arg)
{
    struct leader *leader = arg;

    (void)fd, (void)what;
    (void)event_del(leader->tick); /* the lock is given back without `lost` */
    (void)lw_client_close(leader->client, closed, event_get_base(leader->tick));
}

/* The link's troubles, refusals: what an operator wants to know. */
static void said(int level, const char *message, void *arg)
{
    (void)level, (void)arg;
    (void)fprintf(stderr, "leader: %s\n", message);
}

static int start(struct leader *leader, struct event_base *base, const char *name)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    struct lw_acquire_options hold = LW_ACQUIRE_OPTIONS_INIT;
    const char *url = getenv("LOCKWIRE_URL"); /* no argument: it may have a password */

    leader->tick = event_new(base, -1, EV_PERSIST, ticked, leader);
    leader->term = evsignal_new(base, SIGTERM, terminated, leader);
    if (url == NULL || leader->tick == NULL || leader->term == NULL ||
        event_add(leader->term, NULL) < 0) {
        return -1;
    }
    options.client_name = "leader";
    options.log = said;
    options.errbuf = leader->why;
    options.errbuf_size = sizeof(leader->why);
    hold.lease_ms = 2000; /* for so long nobody leads when the leader is killed */
    if (lw_client_new(base, url, &options, &leader->client) < 0) {
        return -1;
    }
    return lw_keep_new(leader->client, name, &hold, gained, lost, leader, &leader->keep);
}

int main(int argc, char **argv)
{
    struct leader leader = {.why = "out of memory", /* or what the library says */
                            .code = EXIT_FAILURE};
    struct event_base *base = event_base_new();

    if (argc != 2 || base == NULL) {
        (void)fprintf(stderr, "usage: leader NAME\n");
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
    if (leader.tick != NULL) {
        event_free(leader.tick);
    }
    if (leader.term != NULL) {
        event_free(leader.term);
    }
    if (base != NULL) {
        event_base_free(base);
    }
    return leader.code;
}

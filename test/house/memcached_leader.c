/* SPDX-License-Identifier: MIT */
/* What memcached needs in order to lead: its loop, which it dispatches itself, has a keep
 * on it. memcached.py adds the two calls, before that loop and after it. */
#include <event2/event.h>
#include <inttypes.h>
#include <lockwire.h>
#include <stdio.h>
#include <stdlib.h>

void leader_begin(struct event_base *base);
void leader_end(struct event_base *base);

static struct lw_client *client;
static struct lw_keep *keep;
static int is_closed;

static void gained(struct lw_keep *of, int status, void *arg)
{
    (void)status, (void)arg;
    (void)fprintf(stderr, "leads %" PRIu64 "\n", lw_lock_fence(lw_keep_lock(of)));
}

static void lost(struct lw_keep *of, int reason, void *arg)
{
    (void)of, (void)arg;
    (void)fprintf(stderr, "leads no longer: %s\n", lw_strerror(reason));
}

static void closed(struct lw_client *of, void *arg)
{
    (void)of, (void)arg;
    is_closed = 1;
}

void leader_begin(struct event_base *base)
{
    if (lw_client_new(base, getenv("LOCKWIRE_URL"), NULL, &client) < 0 ||
        lw_keep_new(client, "memcached", NULL, gained, lost, NULL, &keep) < 0) {
        exit(EXIT_FAILURE);
    }
}

/* The host's loop has ended. Closing releases the lock, for which the loop has to turn.
 */
void leader_end(struct event_base *base)
{
    if (lw_client_close(client, closed, NULL) == LW_OK) {
        while (!is_closed && event_base_loop(base, EVLOOP_ONCE) == 0) {
        }
    }
    lw_keep_free(keep);
    lw_client_free(client);
}

/* SPDX-License-Identifier: MIT */
/*
 * Follows the leader without competing for its lock: a client that sends its requests to
 * whichever process leads. The leader's note has its address.
 *
 *     cc follower.c $(pkg-config --cflags --libs lockwire) -o follower
 *     lockwire lead NAME --note http://10.0.0.5:8080 -- COMMAND &
 *     LOCKWIRE_URL=redis://localhost ./follower NAME
 *
 * changed() is called with the first state, and at each change. If the state is unknown,
 * the last address is probably still right: requests go there until the next call. A
 * leader that was replaced must refuse them by itself, with its fencing token.
 */
#include <event2/event.h>
#include <lockwire.h>
#include <stdio.h>
#include <stdlib.h>

struct follower {
    struct lw_client *client;
    struct lw_watcher *watcher;
    char address[512]; /* "": there is no leader, or it has not written its note yet */
    char why[LW_WHY_SIZE];
};

static void changed(struct lw_watcher *watcher, int status,
                    const struct lw_inspection *now, const char *why, void *arg)
{
    struct follower *follower = arg;
    const struct lw_inspected *leader;

    (void)watcher;
    if (status != LW_OK) {
        (void)fprintf(stderr, "follower: %s: %s\n", lw_strerror(status), why);
        return;
    }
    leader = lw_inspection_holder(now, 0);
    (void)snprintf(follower->address, sizeof(follower->address), "%s",
                   leader != NULL ? leader->note : "");
    /* Whoever may acquire the lock writes the note: check it before you connect. */
    (void)printf("%s\n", *follower->address ? follower->address : "no leader");
    (void)fflush(stdout);
}

static int start(struct follower *follower, struct event_base *base, const char *name)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    const char *url = getenv("LOCKWIRE_URL"); /* no argument: it may have a password */

    if (url == NULL) {
        return -1;
    }
    options.client_name = "follower";
    options.errbuf = follower->why;
    options.errbuf_size = sizeof(follower->why);
    if (lw_client_new(base, url, &options, &follower->client) < 0) {
        return -1;
    }
    return lw_watch(follower->client, name, NULL, changed, follower, &follower->watcher);
}

int main(int argc, char **argv)
{
    struct follower follower = {.why = "LOCKWIRE_URL is not set"};
    struct event_base *base = event_base_new();
    int code = EXIT_FAILURE;

    if (argc != 2 || base == NULL) {
        (void)fprintf(stderr, "usage: follower NAME\n");
    } else if (start(&follower, base, argv[1]) < 0) {
        (void)fprintf(stderr, "follower: %s\n", follower.why);
    } else {
        code = event_base_dispatch(base) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
    }
    lw_watcher_free(follower.watcher);
    lw_client_free(follower.client);
    if (base != NULL) {
        event_base_free(base);
    }
    return code;
}

/* SPDX-License-Identifier: MIT
 *
 * The model server as a program, with the real clock: for inspecting it with redis-cli,
 * or for running a client against it.
 *
 * Usual course: model-redis --unixsocket PATH, or --port N, until it is killed.
 */
#include "transport.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int64_t real_clock(void *arg)
{
    struct timespec now;

    (void)arg;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static bool listen_as_told(struct transport *transport, int argc, char **argv)
{
    bool any = false;

    for (int i = 1; i + 1 < argc; i += 2) {
        bool good;
        if (strcmp(argv[i], "--unixsocket") == 0) {
            good = transport_listen_unix(transport, argv[i + 1]);
        } else if (strcmp(argv[i], "--port") == 0) {
            good = transport_listen_tcp(transport, atoi(argv[i + 1]));
        } else {
            return false;
        }
        if (!good) {
            (void)fprintf(stderr, "model-redis: %s: %s\n", argv[i + 1], strerror(errno));
            exit(1);
        }
        any = true;
    }
    return any && argc % 2;
}

int main(int argc, char **argv)
{
    struct model_server *server = model_server_new(real_clock, NULL);
    struct transport *transport = transport_new(server);

    if (!listen_as_told(transport, argc, argv)) {
        (void)fputs("usage: model-redis [--unixsocket PATH] [--port N]\n", stderr);
        return 2;
    }
    for (;;) {
        while (transport_pump(transport)) {
            ;
        }
        transport_wait(transport, -1);
    }
}

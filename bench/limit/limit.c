/* SPDX-License-Identifier: MIT */
/*
 * The command line of the limits, and the two timers that all of them need. Independent
 * of the way of locking: main() parses the options, runs the workload's family, and
 * prints the last line.
 */
#include "limit.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIANTS                                                                         \
    "plain hash fence pipelined delifeq delifeq-fence connections handover turns race "  \
    "herd"

static void stop(evutil_socket_t socket, short what, void *arg)
{
    (void)socket, (void)what;
    event_base_loopbreak(arg);
}

void limit_stop_after(struct event_base *base, const struct measure_options *options)
{
    struct timeval delay = {.tv_sec = (time_t)options->seconds};

    delay.tv_usec = (suseconds_t)((options->seconds - (double)delay.tv_sec) * 1e6);
    if (event_base_once(base, -1, EV_TIMEOUT, stop, base, &delay) < 0) {
        exit(1);
    }
}

struct later {
    void (*then)(void *arg);
    void *arg;
};

static void on_later(evutil_socket_t socket, short what, void *arg)
{
    struct later later = *(struct later *)arg;

    (void)socket, (void)what;
    free(arg);
    later.then(later.arg);
}

void limit_later(struct event_base *base, unsigned us, void (*then)(void *arg), void *arg)
{
    struct timeval delay = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};
    struct later *later;

    if (!us) {
        then(arg);
        return;
    }
    later = malloc(sizeof(*later));
    if (later == NULL) {
        exit(1);
    }
    *later = (struct later){then, arg};
    if (event_base_once(base, -1, EV_TIMEOUT, on_later, later, &delay) < 0) {
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct measure_options options;
    struct event_base *base = event_base_new();
    char version[64];
    uint64_t errors;

    measure_options(argc, argv, VARIANTS, &options);
    if (base == NULL || strchr("HX", options.workload) != NULL) {
        (void)fprintf(stderr, "limit: no limit is defined for %c\n", options.workload);
        return 64;
    }
    if (options.workload == 'U') {
        errors = limit_uncontended(base, &options);
    } else if (strcmp(options.variant, "race") == 0 ||
               strcmp(options.variant, "herd") == 0) {
        errors = limit_race(base, &options);
    } else {
        errors = limit_handover(base, &options);
    }
    (void)snprintf(version, sizeof(version), "hiredis %d.%d.%d", HIREDIS_MAJOR,
                   HIREDIS_MINOR, HIREDIS_PATCH);
    return measure_finish(&options, version, errors, 0);
}

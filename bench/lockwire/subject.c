/* SPDX-License-Identifier: MIT */
/*
 * The command line of lockwire's own measurements, the client's life, and running the
 * loop for a while. Independent of the workloads: main() parses the options, opens the
 * client, runs the workload, and prints the last line.
 */
#include "subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void subject_check(const char *what, int status)
{
    if (status >= 0) {
        return;
    }
    (void)fprintf(stderr, "bench: %s: %s\n", what, lw_strerror(status));
    exit(1);
}

static void on_link(struct lw_client *client, int up, const char *why, void *arg)
{
    struct subject *subject = arg;

    (void)client;
    if (up && !subject->connected) {
        subject->connected = true;
        event_base_loopbreak(subject->base);
    } else if (!up) {
        (void)fprintf(stderr, "bench: the link is down: %s\n", why);
        if (subject->options->workload != 'F') {
            exit(1);
        }
    }
}

static void on_log(int level, const char *message, void *arg)
{
    (void)arg;
    (void)fprintf(stderr, "bench: log %d: %s\n", level, message);
}

/* Waits until the server grants locks, which a guard delays. */
static void await_guard(struct subject *subject)
{
    struct lw_stats stats = LW_STATS_INIT;

    for (;;) {
        subject_check("lw_client_stats", lw_client_stats(subject->client, &stats));
        if (stats.guard_left_ms == 0) {
            return;
        }
        subject_run(subject, (double)stats.guard_left_ms / 1000 + 0.01);
    }
}

void subject_open(struct subject *subject, struct event_base *base,
                  const struct measure_options *options)
{
    struct lw_client_options client = LW_CLIENT_OPTIONS_INIT;
    const char *variant = options->variant;
    char why[256] = "";

    *subject = (struct subject){
        .base = base, .options = options, .acquire = LW_ACQUIRE_OPTIONS_INIT};
    if (strncmp(variant, "noturns", 7) == 0) {
        client.local_turns = 1;
    }
    if (strstr(variant, "nofence") != NULL) {
        subject->acquire.flags = LW_NO_FENCE;
    }
    if (strcmp(variant, "exclusive") == 0) {
        subject->acquire.mode = LW_EXCLUSIVE;
    }
    if (strcmp(variant, "shared") == 0) {
        subject->acquire.mode = LW_SHARED;
    }
    subject->acquire.lease_ms = options->lease_ms;
    subject->acquire.wait_ms = -1;
    client.guard_ms = options->guard_ms > 0 || strstr(options->url, "-quorum:") != NULL
                          ? options->guard_ms /* a quorum is never without a guard */
                          : LW_GUARD_NONE;
    client.busy_poll_us = options->busy_poll;
    client.tls_ca = options->tls_ca;
    client.link = on_link;
    client.log = on_log;
    client.arg = subject;
    client.errbuf = why;
    client.errbuf_size = sizeof(why);
    int status = lw_client_new(base, options->url, &client, &subject->client);
    subject_check(why[0] ? why : "lw_client_new", status);
    event_base_dispatch(base);
    await_guard(subject);
}

static void on_closed(struct lw_client *client, void *arg)
{
    struct subject *subject = arg;

    (void)client;
    event_base_loopbreak(subject->base);
}

void subject_close(struct subject *subject)
{
    subject_check("lw_client_close",
                  lw_client_close(subject->client, on_closed, subject));
    event_base_dispatch(subject->base);
    lw_client_free(subject->client);
}

static void stop(evutil_socket_t socket, short what, void *arg)
{
    (void)socket, (void)what;
    event_base_loopbreak(arg);
}

void subject_run(struct subject *subject, double seconds)
{
    struct timeval delay = {.tv_sec = (time_t)seconds};
    struct event *timer = event_new(subject->base, -1, 0, stop, subject->base);

    delay.tv_usec = (suseconds_t)((seconds - (double)delay.tv_sec) * 1e6);
    if (timer == NULL || event_add(timer, &delay) < 0) {
        exit(1);
    }
    event_base_dispatch(subject->base);
    event_free(timer);
}

void subject_run_until_told(struct subject *subject)
{
    struct event *input = event_new(subject->base, 0, EV_READ, stop, subject->base);

    if (input == NULL || event_add(input, NULL) < 0) {
        exit(1);
    }
    event_base_dispatch(subject->base);
    event_free(input);
}

int main(int argc, char **argv)
{
    struct measure_options options;
    struct subject subject;
    struct event_base *base = event_base_new();
    uint64_t errors = 0;

    measure_options(argc, argv, VARIANTS, &options);
    if (base == NULL) {
        return 1;
    }
    subject_open(&subject, base, &options);
    if (strchr("HX", options.workload) != NULL) {
        subject_hold(&subject);
    } else if (options.workload == 'W') {
        subject_watch(&subject);
    } else if (options.workload == 'E') {
        subject_let_end(&subject);
    } else if (options.workload == 'F') {
        subject_fail_over(&subject);
    } else {
        errors = subject_loop(&subject);
    }
    return measure_finish(&options, lw_version(), errors, subject.commands);
}

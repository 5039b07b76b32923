/* SPDX-License-Identifier: MIT */
/* See wait_status.h. The first look is delayed, so that a free lock costs none. Nothing
 * is written to a terminal while this process is in its background. Failures to look are
 * not reported: the line is erased until a look succeeds. */
#include "wait_status.h"

#include "base/escape.h"
#include "columns.h"
#include "lockwire.h"
#include "options.h"
#include "report.h"
#include "status_format.h"
#include "system.h"
#include "terminal.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIRST_LOOK_MS 300
#define LOOK_MS 1000
#define WORDS 600 /* bytes of a name or a client, which may be cut */

static void arm(struct wait_status *display, int64_t ms)
{
    struct timeval time = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};

    event_add(display->timer, &time);
}

/* ---- the text ---- */

/* Writes this client as lw_inspect shows it. */
static void format_own_client(const struct wait_status *display, char *text, size_t size)
{
    char host[65] = "";

    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0') {
        memcpy(host, "-", 2);
    }
    (void)snprintf(text, size, "%s %s %ld", display->client_name, host, (long)getpid());
}

/* Returns the place, from 1; 0 if this client is not listed, as always in LW_REDISSON.
 * `total` is the length of its queue, which mutexes do not share with the other modes. */
static size_t find_place(const struct wait_status *display,
                         const struct lw_inspection *seen, size_t *total)
{
    enum lw_mode mode = display->options->mode;
    const struct lw_inspected *entry;
    size_t place = 0, before = 0;
    char self[WORDS];

    format_own_client(display, self, sizeof(self));
    *total = seen->waiter_total;
    for (size_t i = 0; (entry = lw_inspection_waiter(seen, i)) != NULL; i++) {
        if ((entry->mode == LW_MUTEX) != (mode == LW_MUTEX)) {
            --*total;
            continue;
        }
        before++;
        if (place == 0 && mode != LW_REDISSON && strcmp(entry->client, self) == 0) {
            place = before;
        }
    }
    return place;
}

/* Writes nothing if the place is unknown. */
static void format_place(const struct wait_status *display,
                         const struct lw_inspection *seen, char *text, size_t size)
{
    size_t total, place = find_place(display, seen, &total);

    if (place > 0) {
        (void)snprintf(text, size, ", place %zu of %zu", place, total);
    } else {
        *text = '\0';
    }
}

/* Locks of two kinds exclude each other, but are never handed over between them: all
 * users of a name should use one kind. */
static bool same_kind(enum lw_mode a, enum lw_mode b)
{
    bool reads_a = a == LW_SHARED || a == LW_EXCLUSIVE;
    bool reads_b = b == LW_SHARED || b == LW_EXCLUSIVE;

    return reads_a ? reads_b : a == b;
}

static const char *requested_kind(enum lw_mode mode)
{
    switch (mode) {
    case LW_EXCLUSIVE:
        return "--exclusive";
    case LW_SHARED:
        return "--shared";
    case LW_REDISSON:
        return "--redisson";
    default:
        return "mutex";
    }
}

/* Writes the holder, or the type of a foreign key, which lw_inspect also reports for a
 * lock of Redisson's. */
static void format_holder(const struct wait_status *display,
                          const struct lw_inspection *seen, char *text, size_t size)
{
    const struct lw_inspected *holder = lw_inspection_holder(seen, 0);
    char name[WORDS];
    int used;

    if (*seen->foreign && display->options->mode == LW_REDISSON) {
        (void)snprintf(text, size, "held by another client");
    } else if (*seen->foreign) {
        lw__escape(seen->foreign, name, sizeof(name));
        (void)snprintf(text, size, "held by another program, the key is a %s", name);
    } else if (holder == NULL) {
        (void)snprintf(text, size, "free at the moment");
    } else {
        if (*holder->client || *holder->owner) {
            lw__escape(*holder->client ? holder->client : holder->owner, name,
                       sizeof(name));
        } else {
            status_value(holder->token, name);
        }
        if (!same_kind(holder->mode, display->options->mode)) {
            used = snprintf(text, size, "held as a %s (requested: %s) by %s",
                            holder->mode == LW_MUTEX ? "mutex" : "read-write lock",
                            requested_kind(display->options->mode), name);
        } else {
            used = snprintf(text, size, "held by %s", name);
        }
        if (seen->holder_total > 1) {
            (void)snprintf(text + used, size - (size_t)used, " and %zu more",
                           seen->holder_total - 1);
        }
    }
}

/* Returns false if the server grants locks. */
static bool format_guard(const struct wait_status *display, char *text, size_t size)
{
    struct lw_stats stats = LW_STATS_INIT;

    if (lw_client_stats(display->client, &stats) != 0 || stats.guard_left_ms == 0) {
        return false;
    }
    if (stats.guard_left_ms == 1) { /* unknown; the log has the reason */
        (void)snprintf(text, size, "no locks are granted because of a guard");
    } else {
        (void)snprintf(
            text, size,
            "no locks for %" PRIu64
            "s more: the server was restarted, promoted or exchanged, or is new to "
            "the guard",
            (stats.guard_left_ms + 999) / 1000);
    }
    return true;
}

static void format_lease(const struct lw_inspection *seen, char *text, size_t size)
{
    const struct lw_inspected *holder = lw_inspection_holder(seen, 0);

    if (holder != NULL && holder->remaining_ms >= 0) {
        (void)snprintf(text, size, ", lease %" PRId64 "s", holder->remaining_ms / 1000);
    }
}

/* ---- the lines ---- */

static void draw(const struct wait_status *display, const char *name, const char *place,
                 const char *holder, const char *lease)
{
    char line[3 * WORDS];

    (void)snprintf(line, sizeof(line), "lockwire: %s: waiting %" PRId64 "s%s; %s%s", name,
                   (system_now_ms() - display->started_ms) / 1000, place, holder, lease);
    line[columns_fit(line, strlen(line), terminal_size(STDERR_FILENO).ws_col - 1)] = '\0';
    report_transient(line);
}

static void write_change(struct wait_status *display, const char *name, const char *place,
                         const char *holder)
{
    char line[sizeof(display->last_line)];

    (void)snprintf(line, sizeof(line), "%s: waiting%s; %s", name, place, holder);
    if (strcmp(line, display->last_line) != 0) {
        memcpy(display->last_line, line, sizeof(line));
        report("%s", line);
    }
}

/* Without a terminal it is reported once, with the time that is left then. */
static void show_guard(struct wait_status *display, const char *name, const char *place,
                       const char *guard)
{
    if (display->terminal) {
        draw(display, name, place, guard, "");
    } else if (!display->guard_reported) {
        display->guard_reported = true;
        report("%s: waiting%s; %s", name, place, guard);
    }
}

static void show(struct wait_status *display, const struct lw_inspection *seen)
{
    char name[WORDS], place[80], holder[WORDS + 80], lease[40] = "", guard[120];

    lw__escape(seen->name, name, sizeof(name));
    format_place(display, seen, place, sizeof(place));
    format_holder(display, seen, holder, sizeof(holder));
    if (format_guard(display, guard, sizeof(guard))) {
        show_guard(display, name, place, guard);
        return;
    }
    format_lease(seen, lease, sizeof(lease));
    if (display->terminal) {
        draw(display, name, place, holder, lease);
    } else {
        write_change(display, name, place, holder);
    }
}

/* ---- the looks ---- */

static void on_seen(struct lw_client *client, int status,
                    const struct lw_inspection *seen, const char *why, void *arg)
{
    struct wait_status *display = arg;

    (void)client, (void)why;
    display->query_pending = false;
    if (!display->active) {
        return;
    }
    if (status == LW_OK) {
        show(display, seen);
    } else {
        report_transient("");
    }
    arm(display, LOOK_MS);
}

/* A terminal that does not control this session counts as in the foreground. */
static bool in_foreground(void)
{
    pid_t group = tcgetpgrp(STDERR_FILENO);

    return group < 0 || group == getpgrp();
}

/* Returns the name to show: with --and the one that is being waited for. */
static const char *awaited_name(const struct wait_status *display)
{
    for (int i = 0; i < display->options->more_count + 1; i++) {
        const struct lw_lock *lock =
            display->all != NULL ? lw_all_lock(display->all, (size_t)i) : NULL;

        if (lock != NULL && lw_lock_state(lock) == LW_WAITING) {
            return lw_lock_name(lock);
        }
    }
    return display->options->name;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct wait_status *display = arg;

    (void)fd, (void)what;
    if (display->query_pending) {
        return; /* on_seen sets the timer */
    }
    display->query_pending =
        (!display->terminal || in_foreground()) &&
        lw_inspect(display->client, awaited_name(display), on_seen, display) == 0;
    if (!display->query_pending) {
        arm(display, LOOK_MS);
    }
}

int wait_status_open(struct wait_status *display, struct event_base *base,
                     const struct options *options, const char *client_name)
{
    *display = (struct wait_status){.options = options, .client_name = client_name};
    display->terminal = isatty(STDERR_FILENO) == 1 && !options->quiet;
    if (display->terminal || options->verbose) {
        display->timer = event_new(base, -1, 0, on_timer, display);
        return display->timer != NULL ? 0 : -1;
    }
    return 0;
}

void wait_status_begin(struct wait_status *display, struct lw_client *client)
{
    if (display->timer == NULL || display->options->wait_ms == 0) {
        return;
    }
    display->client = client;
    display->active = true;
    display->started_ms = system_now_ms();
    display->last_line[0] = '\0';
    display->guard_reported = false;
    arm(display, FIRST_LOOK_MS);
}

void wait_status_guard(struct wait_status *display, struct lw_client *client)
{
    const struct options *options = display->options;
    struct lw_stats stats = LW_STATS_INIT;
    char name[WORDS], guard[120];

    display->client = client;
    (void)lw_client_stats(client, &stats);
    if (display->terminal || stats.guard_left_ms <= 1 ||
        (options->wait_ms >= 0 && (uint64_t)options->wait_ms < stats.guard_left_ms) ||
        !format_guard(display, guard, sizeof(guard))) {
        return;
    }
    lw__escape(options->name, name, sizeof(name));
    show_guard(display, name, "", guard);
}

void wait_status_end(struct wait_status *display)
{
    if (display->active) {
        display->active = false;
        event_del(display->timer);
        report_transient("");
    }
}

void wait_status_close(struct wait_status *display)
{
    if (display->timer != NULL) {
        event_free(display->timer);
    }
}

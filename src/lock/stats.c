/* SPDX-License-Identifier: MIT */
/* Statistics as text for Prometheus: a pure function of its arguments, with the names and
 * the help of all metrics. Independent of clients, and of how anything is counted.
 *
 * The labels are checked. Each row of the table is written for all clients under one HELP
 * and one TYPE, then the histogram. The result is the length of the whole text, as
 * snprintf's. Numbers are written as integers, since the locale defines the decimal
 * point. Invalid arguments leave the buffer unchanged. */
#include "base/degraded.h"
#include "base/escape.h"
#include "lockwire.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define WAIT "lockwire_wait_seconds"

/* `help` is NULL for a further sample of the same family. Prometheus has seconds: a time
 * in ms is written as such. With `bit` the sample is 1 if that is set, else 0. */
static const struct row {
    const char *name, *type, *help, *label;
    size_t offset;
    bool is_ms;
    uint64_t bit;
} rows[] = {
#define ROW(name, type, help, label, field)                                              \
    {                                                                                    \
        "lockwire_" name, type, help, label, offsetof(struct lw_stats, field), false, 0  \
    }
#define SECONDS(name, field, help)                                                       \
    {                                                                                    \
        "lockwire_" name, "gauge", help, "", offsetof(struct lw_stats, field), true, 0   \
    }
#define DEGRADED(name, word)                                                             \
    {"lockwire_degraded",                                                                \
     "gauge",                                                                            \
     LW_DEGRADED_##name == 1                                                             \
         ? "Missing permission or command: 1 if it is missing, else 0."                  \
         : NULL,                                                                         \
     "capability=\"" word "\"",                                                          \
     offsetof(struct lw_stats, degraded),                                                \
     false,                                                                              \
     LW_DEGRADED_##name},
#define GAUGE(field, help) ROW(#field, "gauge", help, "", field)
#define COUNTER(field, help) ROW(#field "_total", "counter", help, "", field)
#define LOST(reason, help, field)                                                        \
    ROW("lost_total", "counter", help, "reason=\"" reason "\"", field)
    GAUGE(held, "Handles that hold a lock."),
    GAUGE(waiting, "Handles that wait for a lock."),
    GAUGE(standby, "Of these, handles that wait without a limit."),
    GAUGE(link_up, "Reachability: 1 if the server can be reached, else 0."),
    GAUGE(subscription_up,
          "Messages: 1 if they arrive; if 0, waiters poll and may starve."),
    COUNTER(granted, "Acquisitions granted."),
    COUNTER(busy, "Acquisitions refused because another owner holds the lock."),
    COUNTER(timed_out, "Acquisitions that timed out."),
    COUNTER(failed, "Acquisitions ended by any other error."),
    COUNTER(released, "Holds released."),
    LOST("deadline",
         "Holds lost: not renewed in time (deadline), no longer held according to "
         "the server (taken), ended by max_hold_ms (max_hold).",
         lost_deadline),
    LOST("taken", NULL, lost_taken), LOST("max_hold", NULL, lost_max_hold),
    COUNTER(handed_over, "Grants handed over by the previous holder."),
    COUNTER(passed, "Grants handed over inside this client without a command."),
    COUNTER(renewed, "Leases renewed."), COUNTER(renewals_late, "Renewals sent late."),
    COUNTER(commands, "Commands sent to Redis."),
    COUNTER(resent, "Commands sent again after an unknown outcome."),
    COUNTER(reconnects, "Connections made after the first."),
    COUNTER(failovers, "Changes of the master reported by sentinels."),
    COUNTER(redirects, "Commands redirected to another node of the cluster."),
    COUNTER(refreshes, "Requests for the slot map of a cluster."),
    SECONDS("guard_left_seconds", guard_left_ms,
            "For how long the server grants no locks because of a guard."),
    SECONDS("server_guard_seconds", server_guard_ms,
            "Guard time in the server's record; 0: none."),
    COUNTER(guarded, "Requests not sent because of a guard."),
    /* clang-format off */
    LW__DEGRADED_MAP(DEGRADED)
/* clang-format on */
#undef DEGRADED
#undef LOST
#undef COUNTER
#undef GAUGE
#undef SECONDS
#undef ROW
};

/* ---- the labels ---- */

/* Returns the end of the label (name="value") at `at`. Returns NULL if it is malformed,
 * or reserved for the metrics' own labels. */
static const char *end_of_label(const char *at)
{
    static const char digits[] = "0123456789";
    size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
                               "0123456789");

    if (length == 0 || strchr(digits, *at) != NULL || strncmp(at, "__", 2) == 0 ||
        strncmp(at, "le=", 3) == 0 || strncmp(at, "reason=", 7) == 0 ||
        strncmp(at, "capability=", 11) == 0 || strncmp(at + length, "=\"", 2) != 0) {
        return NULL;
    }
    at += length + 2;
    while (*at != '"') {
        bool escaped = *at == '\\';

        length = lw__escape_character(at + escaped); /* 0 at the end, too */
        if (length == 0 || (escaped && strchr("\\\"n", at[1]) == NULL)) {
            return NULL;
        }
        at += escaped + length;
    }
    return at + 1;
}

/* Returns true if a label before `label` has the same name. Those are well formed. */
static bool is_repeated(const char *labels, const char *label)
{
    size_t length = strcspn(label, "=") + 1;

    for (const char *at = labels; at < label; at = end_of_label(at) + 1) {
        if (strncmp(at, label, length) == 0) {
            return true;
        }
    }
    return false;
}

static bool are_valid_labels(const char *labels)
{
    const char *at = labels;

    while (*at != '\0') {
        const char *end = end_of_label(at);

        if (end == NULL || is_repeated(labels, at) ||
            (*end != '\0' && (*end != ',' || end[1] == '\0'))) {
            return false;
        }
        at = *end == ',' ? end + 1 : end;
    }
    return true;
}

/* ---- the text ---- */

struct text {
    const struct lw_stats *const *stats;
    const char *const *labels; /* may be NULL */
    size_t count;
    char *buffer;
    size_t size;
    size_t length; /* of the whole text, also beyond `size` */
};

static const char *labels_of(const struct text *text, size_t client)
{
    return text->labels != NULL && text->labels[client] != NULL ? text->labels[client]
                                                                : "";
}

static void print(struct text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void print(struct text *text, const char *format, ...)
{
    size_t room = text->length < text->size ? text->size - text->length : 0;
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(room > 0 ? text->buffer + text->length : NULL, room, format, args);
    va_end(args);
    /* negative: more than INT_MAX, and so is the whole */
    text->length += length < 0 ? (size_t)INT_MAX + 1 : (size_t)length;
}

/* Writes a sample's name, and its labels: the client's, then its own. */
static void print_name(struct text *text, const char *name, size_t client,
                       const char *own)
{
    const char *labels = labels_of(text, client);

    if (*labels == '\0' && *own == '\0') {
        print(text, "%s ", name);
    } else {
        print(text, "%s{%s%s%s} ", name, labels,
              *labels != '\0' && *own != '\0' ? "," : "", own);
    }
}

/* Returns true if the client's struct is at least so long: that of an earlier header may
 * be shorter. */
static bool reaches(const struct text *text, size_t client, size_t end)
{
    return text->stats[client]->size >= end;
}

static void print_head(struct text *text, const char *name, const char *type,
                       const char *help, size_t end)
{
    for (size_t i = 0; i < text->count; i++) {
        if (reaches(text, i, end)) {
            print(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
            return;
        }
    }
}

static void print_row(struct text *text, const struct row *row)
{
    size_t end = row->offset + sizeof(uint64_t);

    if (row->help != NULL) {
        print_head(text, row->name, row->type, row->help, end);
    }
    for (size_t i = 0; i < text->count; i++) {
        if (reaches(text, i, end)) {
            uint64_t value;

            memcpy(&value, (const char *)text->stats[i] + row->offset, sizeof(value));
            value = row->bit != 0 ? (value & row->bit) != 0 : value;
            print_name(text, row->name, i, row->label);
            if (row->is_ms) {
                print(text, "%" PRIu64 ".%03" PRIu64 "\n", value / 1000, value % 1000);
            } else {
                print(text, "%" PRIu64 "\n", value);
            }
        }
    }
}

/* Writes cumulative buckets. A sum that overflows stays at the largest number, so that
 * the counts never decrease. */
static void print_waits(struct text *text, size_t client)
{
    const struct lw_stats *stats = text->stats[client];
    uint64_t count = 0;

    for (unsigned i = 0; i < LW_WAIT_BUCKETS; i++) {
        uint64_t more = stats->wait_histogram[i];
        char bound[32] = "le=\"+Inf\"";

        count = count > UINT64_MAX - more ? UINT64_MAX : count + more;
        if (i < LW_WAIT_BUCKETS - 1) {
            (void)snprintf(bound, sizeof(bound), "le=\"%u.%03u\"", (1u << i) / 1000,
                           (1u << i) % 1000);
        }
        print_name(text, WAIT "_bucket", client, bound);
        print(text, "%" PRIu64 "\n", count);
    }
    print_name(text, WAIT "_sum", client, "");
    print(text, "%" PRIu64 ".%06" PRIu64 "\n", stats->wait_us / 1000000,
          stats->wait_us % 1000000);
    print_name(text, WAIT "_count", client, "");
    print(text, "%" PRIu64 "\n", count);
}

static void print_histogram(struct text *text)
{
    size_t end = offsetof(struct lw_stats, wait_histogram) +
                 sizeof(((struct lw_stats *)NULL)->wait_histogram);

    print_head(text, WAIT, "histogram", "How long granted acquisitions waited.", end);
    for (size_t i = 0; i < text->count; i++) {
        if (reaches(text, i, end)) {
            print_waits(text, i);
        }
    }
}

/* Returns true if the arguments are valid. Two clients with the same labels are not: they
 * would be one series with two values. */
static bool is_valid(const struct text *text)
{
    if ((text->stats == NULL && text->count > 0) ||
        (text->buffer == NULL && text->size > 0)) {
        return false;
    }
    for (size_t i = 0; i < text->count; i++) {
        if (text->stats[i] == NULL || !reaches(text, i, sizeof(text->stats[i]->size)) ||
            !are_valid_labels(labels_of(text, i))) {
            return false;
        }
        for (size_t j = 0; j < i; j++) {
            if (strcmp(labels_of(text, i), labels_of(text, j)) == 0) {
                return false;
            }
        }
    }
    return true;
}

int lw_stats_prometheus(const struct lw_stats *const *stats, const char *const *labels,
                        size_t count, char *buffer, size_t size)
{
    struct text text = {stats, labels, count, buffer, size, 0};

    if (!is_valid(&text)) {
        return LW_EINVAL;
    }
    if (size > 0) {
        *buffer = '\0'; /* without clients nothing is written */
    }
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_row(&text, &rows[i]);
    }
    print_histogram(&text);
    return text.length <= INT_MAX ? (int)text.length : LW_EINVAL;
}

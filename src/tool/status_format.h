/* SPDX-License-Identifier: MIT */
/* The result of lw_inspect as text: tables for people, JSON for programs, one line for
 * each holder or waiter. No byte of a key reaches a terminal as a control character. */
#ifndef LW_TOOL_STATUS_FORMAT_H
#define LW_TOOL_STATUS_FORMAT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct lw_inspected;
struct lw_inspection;
struct lw_master;
struct query_guard;

/* A state as text, which outlives the inspection. */
struct status_view {
    char *headline, *server, *tables; /* NULL: none yet */
};

/* Replaces the view. `free` has the words for a lock without a holder; `width` is that of
 * the tables, 0 if nothing is to be cut; `master` is the one that sentinels report, or
 * NULL. Returns 0, or -1 if there is no memory, and then the view is unchanged. */
int status_view_take(struct status_view *view, const struct lw_inspection *seen,
                     const char *free, const struct lw_master *master, int width);
/* Writes the view with its age, a remark on that or "", and a line of explanation or "".
 */
void status_view_write(FILE *out, const struct status_view *view, int64_t age_ms,
                       const char *remark, const char *why, int width);
void status_view_clear(struct status_view *view);

/* Writes a JSON object. `guard` may be NULL; `degraded` has bits of enum lw_degraded.
 * Returns 0, or -1 if there is no memory. */
int status_json(FILE *out, const struct lw_inspection *seen,
                const struct query_guard *guard, const struct lw_master *master,
                uint64_t degraded);
/* Returns the object as a line, to be freed, or NULL. It contains the time of day; with
 * `lasting` it contains nothing that changes as time passes, to be compared. */
char *status_json_line(const struct lw_inspection *seen, const struct query_guard *guard,
                       const struct lw_master *master, bool lasting);
/* Returns a line for an outage, to be freed, or NULL. `why` may be ""; `age_ms` is that
 * of the last state, or -1. */
char *status_json_outage(const char *name, const char *outage, const char *why,
                         int64_t age_ms);

/* Returns a line for a lock that was taken, to be freed, or NULL. `left_ms` is the rest
 * of its time. */
char *status_json_taken(const char *name, const char *token, uint64_t fence,
                        int64_t left_ms);

/* "10.0.0.1:6379", "[::1]:6379" */
void status_endpoint(const struct lw_master *master, char *text, size_t size);
/* "redis 10.0.0.1:6379, master" */
void status_server(const struct lw_inspection *seen, char *text, size_t size);
/* "0.3s", "2h01m", "3d04h" */
void status_age(int64_t ms, char *text, size_t size);
/* "job: 2 holders, 1 waiter" ...; "job: free" with the words for that in `free`. `width`
 * limits it by cutting the name. */
void status_headline(const struct lw_inspection *seen, const char *free, int width,
                     char *text, size_t size);
/* "write anna lockwire-run host 1234 token" */
void status_entry(const struct lw_inspected *entry, char *text, size_t size);
/* "free", or "no lock can be granted for 12.3s: ..." */
void status_free(const struct query_guard *guard, char *text, size_t size);
/* The guard time, with what it means now; "" without a guard. */
void status_guard(const struct query_guard *guard, char *text, size_t size);
/* "3.5s"; "no limit" if it is negative */
void status_duration(int64_t ms, char *text, size_t size);
/* "mutex", "write", "read" */
const char *status_mode(const struct lw_inspected *entry);
/* Returns the owner's name, or "" if none was given and the token is the owner. */
const char *status_owner(const struct lw_inspected *entry);
/* Writes at most 64 characters of a value that others may have written, with control
 * characters escaped, and an ellipsis in place of the rest. */
#define STATUS_VALUE_SIZE (64 * 4 + 4)
void status_value(const char *value, char text[STATUS_VALUE_SIZE]);
/* Writes the text with control characters escaped; "-" for "". */
void status_printable(const char *from, char *text, size_t size);

#endif

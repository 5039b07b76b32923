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

/* One look for people, which outlives the inspection. */
struct status_view {
    char *headline, *server, *tables; /* NULL: it was not taken */
};

/* width: of the tables; 0: nothing is cut. master: that sentinels lead to; NULL: there
 * are none to say so. 0, or -1: no memory, and the picture is what it was. */
int status_view_take(struct status_view *view, const struct lw_inspection *seen,
                     const struct lw_master *master, int width);
/* With the age that it has by now. remark: what is to be said of that, or ""; why: more
 * of it, for a line of its own, or "". */
void status_view_write(FILE *out, const struct status_view *view, int64_t age_ms,
                       const char *remark, const char *why, int width);
void status_view_clear(struct status_view *view);

/* 0, or -1: no memory. */
int status_json(FILE *out, const struct lw_inspection *seen,
                const struct lw_master *master);
/* The same in one line, with the time of day; NULL: no memory. lasting: instead of that
 * without whatever passes by itself, to be compared with the next one. */
char *status_json_line(const struct lw_inspection *seen, const struct lw_master *master,
                       bool lasting);
/* A line of a look that there is not: what is the matter, and if not "" why. age_ms: of
 * the last one; -1: there was none. NULL: no memory. */
char *status_json_outage(const char *name, const char *outage, const char *why,
                         int64_t age_ms);

/* "10.0.0.1:6379", "[::1]:6379" */
void status_endpoint(const struct lw_master *master, char *text, size_t size);
/* "redis 10.0.0.1:6379, master" */
void status_server(const struct lw_inspection *seen, char *text, size_t size);
/* "0.3s", "2h01m", "3d04h" */
void status_age(int64_t ms, char *text, size_t size);
/* "job: free", "job: held by 2, 1 waiting" ...; width 0: however long the name is */
void status_headline(const struct lw_inspection *seen, int width, char *text,
                     size_t size);
/* "write anna lockwire-run host 1234 token", for a line of its own. */
void status_entry(const struct lw_inspected *entry, char *text, size_t size);

/* ---- of one holder or waiter, for whoever makes a table of his own ---- */

/* "3.5s", "no limit" where it is negative */
void status_duration(int64_t ms, char *text, size_t size);
/* "mutex", "write", "read" */
const char *status_mode(const struct lw_inspected *entry);
/* What was given as the owner; where nothing was, the token stands for it: "". */
const char *status_owner(const struct lw_inspected *entry);
/* The holders in the order in which they came, as far as their numbers tell, so that none
 * changes its place while it holds. To be freed; NULL: no memory. */
const struct lw_inspected **status_sorted_holders(const struct lw_inspection *seen);
/* Somebody's text, as it can be shown; "-" for "". */
void status_printable(const char *from, char *text, size_t size);

#endif

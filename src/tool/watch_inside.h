/* SPDX-License-Identifier: MIT */
/*
 * What `lockwire watch` shows, in three forms: a screen that is drawn anew, a line for
 * each change, a JSON object for each change. Each owns what it must remember of the last
 * look; none knows when it is looked, or what is wrong with the link.
 *
 * Happy path: watch_..._seen for each look that was answered; where there is no answer,
 * watch_..._outage.
 */
#ifndef LW_TOOL_WATCH_INSIDE_H
#define LW_TOOL_WATCH_INSIDE_H
#include "picture.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WATCH_WORDS 13000

struct lw_inspection;
struct lw_master;

/* Why nothing newer is to be seen. */
struct watch_outage {
    const char *what; /* "no answer", "no connection"; NULL: all is well */
    char why[2000];   /* "" or more of it */
};

/* ---- lines (watch_lines.c) ---- */

struct watch_known;
struct watch_lines {
    struct watch_known *known; /* who held and waited at the last look */
    size_t count;
    bool cut_off;               /* an outage was told, its end not yet */
    char master[300];           /* "": there are no sentinels */
    char headline[WATCH_WORDS]; /* the last one without holders, so that it is written
                                 * once */
};

/* False: no memory. */
bool watch_lines_seen(struct watch_lines *lines, const struct lw_inspection *seen,
                      const struct lw_master *master);
/* At its beginning, and when it is another one. age_ms: of the last look; -1: none. */
void watch_lines_outage(struct watch_lines *lines, const struct watch_outage *outage,
                        int64_t age_ms);
void watch_lines_forget(struct watch_lines *lines);

/* ---- JSON (watch_json.c) ---- */

struct watch_json {
    char *last; /* what was seen, without times; NULL: nothing, or an outage since */
};

bool watch_json_seen(struct watch_json *json, const struct lw_inspection *seen,
                     const struct lw_master *master);
bool watch_json_outage(struct watch_json *json, const char *name,
                       const struct watch_outage *outage, int64_t age_ms);
void watch_json_forget(struct watch_json *json);

/* ---- the screen (watch_screen.c) ---- */

struct watch_screen {
    struct picture picture; /* of the last look that was answered */
    bool drawn;
};

bool watch_screen_seen(struct watch_screen *screen, const struct lw_inspection *seen,
                       const struct lw_master *master);
/* The last picture, with its age; without one, what the outage is. False: no memory. */
bool watch_screen_draw(struct watch_screen *screen, const char *name,
                       const struct watch_outage *outage, int64_t age_ms);
void watch_screen_forget(struct watch_screen *screen);

#endif

/* SPDX-License-Identifier: MIT */
/* See watch_inside.h: a JSON object in a line of its own for the first look, for each
 * that differs from the one before by more than the time that passed, for an outage, and
 * for the first look after it. */
#include "watch_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool write_line(char *line)
{
    if (line == NULL) {
        return false;
    }
    (void)printf("%s\n", line);
    free(line);
    return true;
}

bool watch_json_seen(struct watch_json *json, const struct lw_inspection *seen,
                     const struct lw_master *master)
{
    char *lasting = picture_json_line(seen, master, true);

    if (lasting == NULL) {
        return false;
    }
    if (json->last != NULL && strcmp(json->last, lasting) == 0) {
        free(lasting);
        return true;
    }
    watch_json_forget(json);
    json->last = lasting;
    return write_line(picture_json_line(seen, master, false));
}

bool watch_json_outage(struct watch_json *json, const char *name,
                       const struct watch_outage *outage, int64_t age_ms)
{
    watch_json_forget(json);
    return write_line(picture_json_outage(name, outage->what, outage->why, age_ms));
}

void watch_json_forget(struct watch_json *json)
{
    free(json->last);
    json->last = NULL;
}

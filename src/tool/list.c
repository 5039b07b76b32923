/* SPDX-License-Identifier: MIT */
/*
 * `lockwire list`: the locks that are held. Must not know how they are found, nor how
 * they are drawn.
 *
 * Happy path: the link comes up, lw_list tells of each, and how far it is; then all are
 * written, by their names, each once. A list that ends before is not written: a part
 * would pass for the whole.
 */
#include "codes.h"
#include "columns.h"
#include "lockwire.h"
#include "look.h"
#include "options.h"
#include "patience.h"
#include "reach.h"
#include "rows.h"
#include "say.h"
#include "screen.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRESS_MS 100 /* between two looks at how far it is */

struct list {
    struct reach *reach;
    struct rows rows;
    bool shows;     /* how far it is, on a terminal */
    int64_t due_ms; /* the next time */
};

/* ---- how far it is ---- */

/* "1,234,567" */
static void write_thousands(uint64_t number, char *text, size_t size)
{
    char digits[24];
    int count = snprintf(digits, sizeof(digits), "%" PRIu64, number);
    size_t used = 0;

    for (int i = 0; i < count && used + 2 < size; i++) {
        if (i > 0 && (count - i) % 3 == 0) {
            text[used++] = ',';
        }
        text[used++] = digits[i];
    }
    text[used] = '\0';
}

static void show_progress(struct list *list, const struct lw_listing *listing)
{
    char seen[40], keys[40], found[40], line[200];

    if (!list->shows || patience_now_ms() < list->due_ms) {
        return;
    }
    list->due_ms = patience_now_ms() + PROGRESS_MS;
    write_thousands(listing->seen, seen, sizeof(seen));
    write_thousands(listing->keys, keys, sizeof(keys));
    write_thousands(listing->found, found, sizeof(found));
    (void)snprintf(line, sizeof(line), "%s%s%s keys, %s lock%s", seen,
                   listing->keys > 0 ? " of " : "", listing->keys > 0 ? keys : "", found,
                   listing->found == 1 ? "" : "s");
    line[columns_fitting(line, strlen(line), screen_size(STDERR_FILENO).ws_col - 1)] =
        '\0';
    say_passing(line);
}

/* ---- its ends ---- */

static void fail(struct list *list, int status, const char *why)
{
    struct reach *reach = list->reach;
    const char *colon = *why ? ": " : "";

    say_passing("");
    if (status == LW_EINVAL || status == LW_ECONN) {
        reach_fail(reach, status, why);
        return;
    }
    say("%s%s%s", status == LW_EREDIS ? "the server refuses" : lw_strerror(status), colon,
        why);
    reach_end(reach, codes_for(status, LW_OK, STATUS_BUSY));
}

static void write_all(struct list *list)
{
    const struct options *options = list->reach->options;

    rows_sort(&list->rows);
    if (options->json) {
        rows_json(stdout, &list->rows);
    } else {
        rows_table(stdout, &list->rows,
                   options->wide ? 0 : screen_size(STDOUT_FILENO).ws_col);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        say("cannot write: %s", strerror(errno));
        reach_end(list->reach, STATUS_SYSTEM);
        return;
    }
    reach_end(list->reach, EXIT_SUCCESS);
}

/* ---- what the library tells ---- */

static int on_found(struct lw_client *client, const struct lw_inspection *found,
                    const struct lw_listing *listing, void *arg)
{
    struct list *list = arg;
    struct lw_master followed = LW_MASTER_INIT;

    (void)client;
    if (found != NULL && rows_add(&list->rows, found, list->reach->options->json,
                                  reach_master(list->reach, &followed)) < 0) {
        fail(list, LW_ENOMEM, "");
        return 1;
    }
    show_progress(list, listing);
    return 0;
}

static void on_listed(struct lw_client *client, int status,
                      const struct lw_listing *listing, const char *why, void *arg)
{
    struct list *list = arg;

    (void)client, (void)listing;
    say_passing("");
    if (list->reach->ending) {
        return;
    }
    if (status == LW_OK) {
        write_all(list);
    } else {
        fail(list, status, why);
    }
}

static void on_up(struct reach *reach)
{
    struct list *list = reach->arg;
    int error;

    list->reach = reach;
    error = lw_list(reach->client, reach->options->name, on_found, on_listed, list);
    if (error != 0) {
        fail(list, error, "");
    }
}

static void on_down(struct reach *reach, const char *why)
{
    say_passing("");
    reach_fail(reach, LW_ECONN, why);
}

int list(const struct options *options)
{
    static const struct reach_events events = {.up = on_up, .down = on_down};
    struct list list = {.shows = isatty(STDERR_FILENO) == 1};
    int code = reach(options, &events, "lockwire-list", &list);

    rows_clear(&list.rows);
    return code;
}

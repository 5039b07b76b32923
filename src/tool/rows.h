/* SPDX-License-Identifier: MIT */
/*
 * Many locks, a line for each: a table or JSON. Owns these forms, and what is kept of
 * each lock for them. Must not know where they come from. Happy path: rows_add for each,
 * rows_sort, rows_table or rows_json, rows_clear.
 */
#ifndef LW_TOOL_ROWS_H
#define LW_TOOL_ROWS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct lw_inspection;
struct lw_master;
struct row;

struct rows {
    struct row *all;
    size_t count, room;
};

/* `json`: for that, else for a table. 0, or -1: no memory. */
int rows_add(struct rows *rows, const struct lw_inspection *seen, bool json,
             const struct lw_master *master);
/* By name; of one that came twice what came last. */
void rows_sort(struct rows *rows);
/* width 0: nothing is cut. */
void rows_table(FILE *out, const struct rows *rows, int width);
void rows_json(FILE *out, const struct rows *rows);
void rows_clear(struct rows *rows);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A table of texts that fits a width: which columns give way, and what is left out where
 * a text is cut. Owns how wide a text is: ideographs and emoji are two columns, marks
 * that combine with what stands before them none, any other character one. Must not know
 * what is in the table, or where it is written to.
 *
 * Happy path: columns_write(stdout, columns, row, rows, count, 80).
 */
#ifndef LW_TOOL_COLUMNS_H
#define LW_TOOL_COLUMNS_H
#include <stddef.h>
#include <stdio.h>

#define COLUMNS_CELL_MAX                                                                 \
    4200              /* bytes of a cell: 1024 bytes of somebody's, each as \xNN */
#define COLUMNS_MAX 8 /* of a table */

/* Where a table is too wide, those columns give way first in which nothing but "-"
 * stands. Then the last one, if it may be cut: down to `least`, or altogether where that
 * is not enough. Then what may be cut of the others, the widest first, whichever it is at
 * the moment. The rest is cut off. */
struct column {
    const char *title; /* NULL ends a list of columns */
    /* UTF-8 that can be shown (base/escape.h), in `size` bytes; "-": nothing */
    void (*cell)(const void *row, size_t index, char *text, size_t size);
    int min_width; /* it may be cut to so few, or to its title; 0: it is never cut */
};
typedef const void *columns_row(const void *rows, size_t index);

/* Titles, then `count` rows, below each other. width 0: as wide as it gets. */
void columns_write(FILE *out, const struct column *columns, columns_row *row,
                   const void *rows, size_t count, int width);

int columns_width(const char *text);
/* How many of these bytes can stand within `width`, no character split. */
size_t columns_fit(const char *text, size_t length, int width);
/* The text, or what is left of it in `width` columns when an ellipsis stands for its
 * middle: names and tokens differ at their ends. `from` and `text` do not overlap. */
void columns_cut(const char *from, int width, char *text, size_t size);

#endif

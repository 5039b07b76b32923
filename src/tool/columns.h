/* SPDX-License-Identifier: MIT */
/* A table that fits a width. Independent of its contents. Owns how wide a text is:
 * ideographs and wide emoji have two columns, combining marks none, others one. */
#ifndef LW_TOOL_COLUMNS_H
#define LW_TOOL_COLUMNS_H
#include <stddef.h>
#include <stdio.h>

#define COLUMNS_CELL_MAX 4200 /* bytes of a cell: 1024 bytes, each as \xNN */
#define COLUMNS_MAX 9         /* of a table */

/* If a table is too wide, columns that contain only "-" are left out first. Then the last
 * column is cut to min_width, or left out if that is not enough. Then the others are cut,
 * the widest one first. The rest of each line is cut off. */
struct column {
    const char *title; /* NULL ends a list of columns */
    int field;         /* for columns_cell */
    int min_width;     /* the column is not cut below it and its title; 0: never */
};

/* Writes a cell, as printable UTF-8 (base/escape.h); "-" if it is empty. */
typedef void columns_cell(const void *rows, size_t index, int field, char *text,
                          size_t size);

/* Writes the titles and `count` rows. With a width of 0 nothing is cut. */
void columns_write(FILE *out, const struct column *columns, columns_cell *cell,
                   const void *rows, size_t count, int width);

int columns_width(const char *text);
/* Returns how many of the bytes fit within `width`, without splitting a character. */
size_t columns_fit(const char *text, size_t length, int width);
/* Copies the text; if it is wider than `width`, with an ellipsis in place of its middle,
 * since names and tokens differ at their ends. `from` and `text` must not overlap. */
void columns_cut(const char *from, int width, char *text, size_t size);

#endif

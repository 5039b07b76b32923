/* SPDX-License-Identifier: MIT */
/* See columns.h. Cells are written twice, first to measure them: that needs no memory. */
#include "columns.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define GAP 2       /* between two columns */
#define LEFT_OUT -1 /* in place of a column's width */
#define ELLIPSIS "\xe2\x80\xa6"

/* ---- widths ---- */

struct range {
    uint32_t first, last;
};

static bool is_in(uint32_t character, const struct range *ranges)
{
    while (ranges->last != 0 && character > ranges->last) {
        ranges++;
    }
    return ranges->last != 0 && character >= ranges->first;
}

/* Returns the character at `text`, and its bytes; an invalid byte counts as one. */
static uint32_t character_at(const char *text, size_t length, size_t *bytes)
{
    unsigned char first = (unsigned char)*text;
    uint32_t character = first < 0xc0 ? first
                                      : first & (first < 0xe0   ? 0x1fU
                                                 : first < 0xf0 ? 0x0fU
                                                                : 0x07U);

    for (*bytes = 1; first >= 0xc0 && *bytes < length; ++*bytes) {
        if (((unsigned char)text[*bytes] & 0xc0) != 0x80) {
            break;
        }
        character = character << 6 | ((unsigned char)text[*bytes] & 0x3fU);
    }
    return character;
}

/* As most terminals have it. (wcwidth depends on the locale, which may have no UTF-8.) */
static int width_of(uint32_t character)
{
    static const struct range combining[] = {
        {0x0300, 0x036f}, {0x0483, 0x0489},   {0x0591, 0x05bd}, {0x064b, 0x065f},
        {0x1ab0, 0x1aff}, {0x1dc0, 0x1dff},   {0x200b, 0x200f}, {0x202a, 0x202e},
        {0x2060, 0x2069}, {0x20d0, 0x20ff},   {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f},
        {0xfeff, 0xfeff}, {0xe0100, 0xe01ef}, {0, 0},
    };
    /* East_Asian_Width W or F in Unicode 14, with what is reserved for such characters */
    static const struct range wide[] = {
        {0x1100, 0x115f},   {0x231a, 0x231b},
        {0x2329, 0x232a},   {0x23e9, 0x23ec},
        {0x23f0, 0x23f0},   {0x23f3, 0x23f3},
        {0x25fd, 0x25fe},   {0x2614, 0x2615},
        {0x2648, 0x2653},   {0x267f, 0x267f},
        {0x2693, 0x2693},   {0x26a1, 0x26a1},
        {0x26aa, 0x26ab},   {0x26bd, 0x26be},
        {0x26c4, 0x26c5},   {0x26ce, 0x26ce},
        {0x26d4, 0x26d4},   {0x26ea, 0x26ea},
        {0x26f2, 0x26f3},   {0x26f5, 0x26f5},
        {0x26fa, 0x26fa},   {0x26fd, 0x26fd},
        {0x2705, 0x2705},   {0x270a, 0x270b},
        {0x2728, 0x2728},   {0x274c, 0x274c},
        {0x274e, 0x274e},   {0x2753, 0x2755},
        {0x2757, 0x2757},   {0x2795, 0x2797},
        {0x27b0, 0x27b0},   {0x27bf, 0x27bf},
        {0x2b1b, 0x2b1c},   {0x2b50, 0x2b50},
        {0x2b55, 0x2b55},   {0x2e80, 0x303e},
        {0x3041, 0x3247},   {0x3250, 0x4dbf},
        {0x4e00, 0xa4cf},   {0xa960, 0xa97f},
        {0xac00, 0xd7a3},   {0xf900, 0xfaff},
        {0xfe10, 0xfe19},   {0xfe30, 0xfe6f},
        {0xff01, 0xff60},   {0xffe0, 0xffe6},
        {0x16fe0, 0x1b2ff}, {0x1f004, 0x1f004},
        {0x1f0cf, 0x1f0cf}, {0x1f18e, 0x1f18e},
        {0x1f191, 0x1f19a}, {0x1f200, 0x1f320},
        {0x1f32d, 0x1f335}, {0x1f337, 0x1f37c},
        {0x1f37e, 0x1f393}, {0x1f3a0, 0x1f3ca},
        {0x1f3cf, 0x1f3d3}, {0x1f3e0, 0x1f3f0},
        {0x1f3f4, 0x1f3f4}, {0x1f3f8, 0x1f43e},
        {0x1f440, 0x1f440}, {0x1f442, 0x1f4fc},
        {0x1f4ff, 0x1f53d}, {0x1f54b, 0x1f54e},
        {0x1f550, 0x1f567}, {0x1f57a, 0x1f57a},
        {0x1f595, 0x1f596}, {0x1f5a4, 0x1f5a4},
        {0x1f5fb, 0x1f64f}, {0x1f680, 0x1f6c5},
        {0x1f6cc, 0x1f6cc}, {0x1f6d0, 0x1f6d2},
        {0x1f6d5, 0x1f6df}, {0x1f6eb, 0x1f6ec},
        {0x1f6f4, 0x1f6fc}, {0x1f7e0, 0x1f7f0},
        {0x1f90c, 0x1f93a}, {0x1f93c, 0x1f945},
        {0x1f947, 0x1f9ff}, {0x1fa70, 0x1faff},
        {0x20000, 0x3fffd}, {0, 0},
    };

    return is_in(character, combining) ? 0 : is_in(character, wide) ? 2 : 1;
}

int columns_width(const char *text)
{
    size_t length = strlen(text), bytes;
    int width = 0;

    for (; length > 0; text += bytes, length -= bytes) {
        width += width_of(character_at(text, length, &bytes));
    }
    return width;
}

size_t columns_fit(const char *text, size_t length, int width)
{
    size_t at = 0, bytes;

    for (; at < length; at += bytes) {
        width -= width_of(character_at(text + at, length - at, &bytes));
        if (width < 0) {
            break;
        }
    }
    return at;
}

/* Returns the end of the text that fits; it does not begin with a combining mark. */
static const char *ending(const char *text, int width)
{
    size_t length = strlen(text), bytes;
    int left = columns_width(text), wide;

    for (; length > 0; text += bytes, length -= bytes) {
        wide = width_of(character_at(text, length, &bytes));
        if (left <= width && wide > 0) {
            break;
        }
        left -= wide;
    }
    return text;
}

void columns_cut(const char *from, int width, char *text, size_t size)
{
    int room = width > 0 ? width - 1 : 0; /* without the ellipsis */
    size_t head;

    if (columns_width(from) <= width) {
        (void)snprintf(text, size, "%s", from);
        return;
    }
    head = columns_fit(from, strlen(from), room - room / 2);
    (void)snprintf(text, size, "%.*s%s%s", (int)head, from, width > 0 ? ELLIPSIS : "",
                   ending(from, room / 2));
}

/* ---- the table ---- */

static int column_count(const struct column *columns)
{
    int count = 0;

    while (count < COLUMNS_MAX && columns[count].title != NULL) {
        count++;
    }
    return count;
}

/* Finds the width of each column, and whether a cell has more than "-". */
static void measure(const struct column *columns, columns_cell *cell, const void *rows,
                    size_t count, int *widths, bool *has_content)
{
    char text[COLUMNS_CELL_MAX];
    int wide;

    for (int i = 0; i < column_count(columns); i++) {
        widths[i] = columns_width(columns[i].title);
        has_content[i] = false;
        for (size_t j = 0; j < count; j++) {
            cell(rows, j, columns[i].field, text, sizeof(text));
            wide = columns_width(text);
            widths[i] = wide > widths[i] ? wide : widths[i];
            has_content[i] = has_content[i] || strcmp(text, "-") != 0;
        }
    }
}

static int full_width(const int *widths, int count)
{
    int sum = -GAP;

    for (int i = 0; i < count; i++) {
        sum += widths[i] != LEFT_OUT ? widths[i] + GAP : 0;
    }
    return sum;
}

static int min_width(const struct column *column)
{
    int title = columns_width(column->title);

    return column->min_width > title ? column->min_width : title;
}

/* Returns by how much the column can be cut. */
static int slack(const struct column *column, int width)
{
    return column->min_width > 0 && width > min_width(column) ? width - min_width(column)
                                                              : 0;
}

static int widest_to_cut(const struct column *columns, const int *widths, int count)
{
    int widest = -1;

    for (int i = 0; i < count; i++) {
        if (slack(&columns[i], widths[i]) > 0 &&
            (widest < 0 || widths[i] > widths[widest])) {
            widest = i;
        }
    }
    return widest;
}

/* Cuts the last column by `over`, or leaves it out. */
static void shrink_last(const struct column *column, int *width, int over)
{
    if (over > 0 && column->min_width > 0 && *width != LEFT_OUT) {
        *width = over <= slack(column, *width) ? *width - over : LEFT_OUT;
    }
}

/* Cuts columns in the order of columns.h until the table fits. */
static void fit(const struct column *columns, int *widths, const bool *has_content,
                int width)
{
    int count = column_count(columns), last = count - 1, widest;

    for (int i = 0; i < count && full_width(widths, count) > width; i++) {
        widths[i] = has_content[i] ? widths[i] : LEFT_OUT;
    }
    shrink_last(&columns[last], &widths[last], full_width(widths, count) - width);
    while (full_width(widths, count) > width &&
           (widest = widest_to_cut(columns, widths, count)) >= 0) {
        widths[widest]--;
    }
}

/* `cell` is NULL for the titles. */
static void write_row(FILE *out, const struct column *columns, const int *widths,
                      columns_cell *cell, const void *rows, size_t index, int width)
{
    char text[COLUMNS_CELL_MAX], shown[COLUMNS_CELL_MAX];
    int used = 0, to = 0; /* the width written, and where the next cell begins */

    for (int i = 0; i < column_count(columns); i++) {
        if (widths[i] == LEFT_OUT || (width > 0 && to >= width)) {
            continue;
        }
        if (cell != NULL) {
            cell(rows, index, columns[i].field, text, sizeof(text));
        } else {
            (void)snprintf(text, sizeof(text), "%s", columns[i].title);
        }
        columns_cut(text, width > 0 && width - to < widths[i] ? width - to : widths[i],
                    shown, sizeof(shown));
        (void)fprintf(out, "%*s%s", to - used, "", shown);
        used = to + columns_width(shown);
        to += widths[i] + GAP;
    }
    (void)fputc('\n', out);
}

void columns_write(FILE *out, const struct column *columns, columns_cell *cell,
                   const void *rows, size_t count, int width)
{
    int widths[COLUMNS_MAX] = {0};
    bool has_content[COLUMNS_MAX] = {false};

    measure(columns, cell, rows, count, widths, has_content);
    if (width > 0) {
        fit(columns, widths, has_content, width);
    }
    write_row(out, columns, widths, NULL, NULL, 0, width);
    for (size_t i = 0; i < count; i++) {
        write_row(out, columns, widths, cell, rows, i, width);
    }
}

/* SPDX-License-Identifier: MIT */
/* What the forms of a picture have in common. */
#ifndef LW_TOOL_PICTURE_INSIDE_H
#define LW_TOOL_PICTURE_INSIDE_H
#include "columns.h"
#include "picture.h"

#define CELL COLUMNS_CELL

/* "3.5s", "no limit" where it is negative */
void picture_time(int64_t ms, char *text, size_t size);
/* "mutex", "write", "read" */
const char *picture_mode(const struct lw_inspected *entry);
/* What was given as the owner; where nothing was, the token stands for it: "". */
const char *picture_owner(const struct lw_inspected *entry);
/* The holders in the order in which they came, as far as their numbers tell, so that none
 * changes its place while it holds. To be freed; NULL: no memory. */
const struct lw_inspected **picture_holders(const struct lw_inspection *seen);
/* Somebody's text, as it can be shown; "-" for "". */
void picture_text(const char *from, char *text, size_t size);

#endif

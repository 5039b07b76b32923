/* SPDX-License-Identifier: MIT */
/* A reply, independent of hiredis. Depends on libc alone. */
#ifndef LW_REPLY_H
#define LW_REPLY_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__reply;

enum lw__reply_type {
    LW__REPLY_NIL,
    LW__REPLY_STATUS,
    LW__REPLY_ERROR,
    LW__REPLY_INTEGER,
    LW__REPLY_STRING,
    LW__REPLY_ARRAY
};
enum lw__reply_type lw__reply_type(const struct lw__reply *reply);
/* Returns 0 if the reply is not an integer. */
int64_t lw__reply_integer(const struct lw__reply *reply);
/* Returns the text of a status, error or string (NUL-terminated, may contain NULs), else
 * "". The error of a command in a script is returned without the prefix that servers
 * before 7.0 put around it. `length` may be NULL. */
const char *lw__reply_text(const struct lw__reply *reply, size_t *length);
/* Returns the whole text of an error, also with the prefix; "" for another reply. */
const char *lw__reply_error(const struct lw__reply *reply);
/* Returns true for an error after which the command had no effect: see
 * lw__classify_undone. */
bool lw__reply_undone(const struct lw__reply *reply);
/* Returns the number of an array's elements; 0 if the reply is not an array. */
size_t lw__reply_count(const struct lw__reply *reply);
const struct lw__reply *lw__reply_at(const struct lw__reply *reply, size_t index);
/* Returns the value of a field, if it is a string, in an array of fields and values; or
 * NULL. `length` may be NULL. */
const char *lw__reply_field(const struct lw__reply *reply, const char *name,
                            size_t *length);
/* Returns the value of a field in the text of INFO or CLUSTER INFO, where it begins a
 * line, up to the end of the text; NULL if it is missing. */
const char *lw__reply_info_field(const char *info, const char *field);
#endif

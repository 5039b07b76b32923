/* SPDX-License-Identifier: MIT */
/* Checks of what others pass in: names, words, numbers, and structs that begin with their
 * size. Depends on libc alone. */
#ifndef LW_CHECK_H
#define LW_CHECK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns NULL if `name` is a legal name of a lock (see lw_acquire), else `why`, filled
 * with what is wrong and where. */
const char *lw__check_name(const char *name, char *why, size_t why_size);
/* Returns NULL if the caller may use this name behind `prefix`, which is valid or "",
 * else `why`. */
#define LW__NAME_MOST 512
const char *lw__check_key(const char *prefix, const char *name, char *why,
                          size_t why_size);
/* Returns NULL if `prefix` may come before all names and keys of a client (see
 * lw_client_options.prefix), else `why`. */
#define LW__PREFIX_MOST 64
const char *lw__check_prefix(const char *prefix, char *why, size_t why_size);
/* Returns NULL if `word` has 1 to 128 printable ASCII bytes without spaces, else `why`;
 * `what` names the word in it. */
const char *lw__check_word(const char *word, const char *what, char *why,
                           size_t why_size);

/* Returns NULL if `note` has at most LW__NOTE_MOST bytes of UTF-8 without control
 * characters, else `why`. */
#define LW__NOTE_MOST 100
const char *lw__check_note(const char *note, char *why, size_t why_size);

/* Returns the number that the text holds in decimal digits alone, or -1 if it is not one
 * from 0 to `most`. */
int64_t lw__check_number(const char *text, size_t length, int64_t most);

/* Public structs begin with their size, so that they can grow: a shorter one comes from a
 * caller compiled against an older header, a longer one from a newer header. */

/* Copies the caller's struct over `ret`, which holds the defaults. Returns false, without
 * any effect, if `given` has no size, or has values beyond what this version knows. */
bool lw__check_take_struct(void *ret, size_t size, const void *given, size_t given_size);
/* Copies `from` to the caller's struct, as far as that reaches. The rest of it becomes
 * zeros, and its size stays. Returns false if it is too short for the size itself. */
bool lw__check_give_struct(void *ret, size_t ret_size, const void *from, size_t size);
#endif

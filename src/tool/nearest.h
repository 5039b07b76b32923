/* SPDX-License-Identifier: MIT */
/* Finds the name that is nearest to a word with typos. options.c uses it for options and
 * subcommands that are unknown. */
#ifndef LW_TOOL_NEAREST_H
#define LW_TOOL_NEAREST_H
#include <stddef.h>

struct nearest {
    const char *name; /* "" if no name is near */
    size_t distance;  /* typos */
};

/* Makes `name` the nearest one in `best`, which is {"", 0} at first, if it has fewer
 * typos than that: at most two, and fewer than half of the word's `length`. */
void nearest_compare(const char *word, size_t length, const char *name,
                     struct nearest *best);

#endif

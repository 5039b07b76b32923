/* SPDX-License-Identifier: MIT */
/* Durations as text: 500ms, 30s, 5m, 1h, 1.5h; a plain number is seconds. Independent of
 * options and their limits. */
#ifndef LW_DURATION_H
#define LW_DURATION_H
#include <stddef.h>
#include <stdint.h>

/* Returns 0; or -1, with the reason and the position in `why`, and *ms unchanged. Rounds
 * up to milliseconds, so that only 0 becomes 0. */
int lw__duration_parse(const char *text, int64_t *ms, char *why, size_t why_size);

#endif

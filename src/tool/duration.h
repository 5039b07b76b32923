/* SPDX-License-Identifier: MIT */
/*
 * Times as people write them: 500ms, 30s, 5m, 1h, 1.5h; a plain number is seconds. Pure:
 * text in, milliseconds or an explanation out. Knows no option's name and no bounds.
 *
 * Happy path: duration_parse("1.5s", &ms, ...) sets ms to 1500 and returns 0.
 */
#ifndef LW_TOOL_DURATION_H
#define LW_TOOL_DURATION_H
#include <stddef.h>
#include <stdint.h>

/* 0; or -1, with what is wrong and where in `why`, and *ms untouched. Parts of a
 * millisecond round up, so that only 0 becomes 0. */
int duration_parse(const char *text, int64_t *ms, char *why, size_t why_size);

#endif

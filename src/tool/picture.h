/* SPDX-License-Identifier: MIT */
/*
 * What lw_inspect found, for people and for programs: a table, JSON, one line for each
 * holder or waiter. Owns these forms, and that no byte of somebody else's key reaches a
 * terminal as a control character. Must not know where it is written to.
 *
 * Happy path: picture_table(stdout, inspection).
 */
#ifndef LW_TOOL_PICTURE_H
#define LW_TOOL_PICTURE_H
#include <stddef.h>
#include <stdio.h>

struct lw_inspected;
struct lw_inspection;
struct lw_master;

/* master: that it was asked at; NULL: there are no sentinels to say so. */
void picture_table(FILE *out, const struct lw_inspection *seen,
                   const struct lw_master *master);
/* 0, or -1: no memory. */
int picture_json(FILE *out, const struct lw_inspection *seen,
                 const struct lw_master *master);

/* "10.0.0.1:6379", "[::1]:6379" */
void picture_place(const struct lw_master *master, char *text, size_t size);

/* "job: free", "job: held by 2, 1 waits" ...; */
void picture_headline(const struct lw_inspection *seen, char *text, size_t size);
/* "write anna lockwire-run host 1234 token", for a line of its own. */
void picture_words(const struct lw_inspected *entry, char *text, size_t size);

#endif

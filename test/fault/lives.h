/* SPDX-License-Identifier: MIT */
/*
 * Repeats the same life, each time with another allocation failing, until no allocation
 * failed in it. After each life nothing may be left, in memory or in Redis. Independent
 * of what the life does.
 *
 * LOCKWIRE_MEMORY="once 17" or "always 17" runs that single life.
 *
 * Usual course: an undisturbed life, then a life for each of its allocations.
 */
#ifndef TEST_LIVES_H
#define TEST_LIVES_H
#include "life.h"

#include <stdbool.h>

/* With `always` all allocations after the failing one fail as well. Every `step`-th
 * allocation gets a life. */
void lives(life_function *live, const char *url, bool always, long step);
/* Checks that no key in the stage's server lacks a TTL. Called after each life, and
 * wherever else a life may have left keys. */
void lives_check_keys(void);

#endif

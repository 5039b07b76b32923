/* SPDX-License-Identifier: MIT */
/*
 * The same life again and again, each time with another allocation failing, until one
 * passes in which none did; after each nothing may be left, in memory or in Redis. Must
 * not know what is lived.
 *
 * LOCKWIRE_MEMORY="once 17" or "always 17" runs that single life.
 *
 * Happy path: count the allocations of an undisturbed life, then a life for each of them.
 */
#ifndef TEST_LIVES_H
#define TEST_LIVES_H
#include "life.h"

#include <stdbool.h>

/* With `always` all allocations after that one fail as well. Each `step`-th gets a life.
 */
void lives(life_function *live, const char *url, bool always, long step);
/* In the stage's server: no key stays for ever. After each life, and wherever else it may
 * have left some. */
void lives_check_keys(void);

#endif

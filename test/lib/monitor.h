/* SPDX-License-Identifier: MIT */
/*
 * What clients send to the stage's server, as the server itself tells (MONITOR): commands
 * of clients only, not those of scripts nor the test's own. Owns one connection of its
 * own.
 *
 * Happy path: monitor_start, the test, monitor_count("evalsha"), monitor_stop.
 */
#ifndef TEST_MONITOR_H
#define TEST_MONITOR_H
#include <stdbool.h>

void monitor_start(void);
/* Forgets what was seen. */
void monitor_clear(void);
/* How often this command (lower case) came since; "" counts all but the heartbeats and
 * greetings: set, incr, incrby, evalsha, eval, pexpire, del, delifeq, delex. */
int monitor_count(const char *command);
/* Did a command with this text in its arguments come? */
bool monitor_saw(const char *text);
/* All of it, one command a line. */
const char *monitor_text(void);
void monitor_stop(void);

#endif

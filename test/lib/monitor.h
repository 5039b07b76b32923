/* SPDX-License-Identifier: MIT */
/*
 * The commands that clients send to the stage's server, as reported by the server itself
 * (MONITOR). Commands of scripts and the test's own are left out. Owns one connection.
 *
 * Usual course: monitor_start, the test, monitor_count("evalsha"), monitor_stop.
 */
#ifndef TEST_MONITOR_H
#define TEST_MONITOR_H
#include <stdbool.h>

void monitor_start(void);
/* Forgets the commands seen so far. */
void monitor_clear(void);
/* Returns how often this command (lower case) came since monitor_start() or
 * monitor_clear(). "" counts all commands except heartbeats and handshakes: set, incr,
 * incrby, evalsha, eval, pexpire, del, delifeq, delex, pubsub. */
int monitor_count(const char *command);
/* Returns true if a command with this text in its arguments came. */
bool monitor_saw(const char *text);
/* Returns all commands, one per line. */
const char *monitor_text(void);
void monitor_stop(void);

#endif

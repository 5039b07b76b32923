/* SPDX-License-Identifier: MIT */
/* The command's messages on the standard error output: lines with its name in front, and
 * in a terminal one that goes away before the next. */
#ifndef LW_TOOL_SAY_H
#define LW_TOOL_SAY_H
#include <stdbool.h>

/* Never blocks for long: of an output that nobody reads nothing is to hold up a loss.
 * What it does not take in a moment is not said. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line of a terminal that may be written over: by the next one, by whatever is said, or
 * by "", which erases it. It must fit the terminal and hold nothing but what can be
 * shown. Where the terminal takes nothing at the moment (Ctrl-S), nothing is written:
 * never blocks. */
void say_passing(const char *line);

/* Returns true for the message by which the library logs that it cannot connect. */
bool say_is_no_connection(const char *message);

#endif

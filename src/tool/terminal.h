/* SPDX-License-Identifier: MIT */
/*
 * The terminal that lockwire was started from, and whose it is: a terminal is read, and
 * its keys' signals are received, by one process group, and the command's is not
 * lockwire's. Owns the handing back and forth. Knows nothing of the command but its
 * group.
 *
 * Happy path: terminal_open; terminal_give when the command is to read; terminal_take
 * when it was stopped or has ended.
 */
#ifndef LW_TOOL_TERMINAL_H
#define LW_TOOL_TERMINAL_H
#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

struct terminal {
    int fd; /* -1: there is none */
    bool given;
    bool has_modes;
    struct termios modes; /* as they were found */
};

void terminal_open(struct terminal *terminal);
void terminal_close(struct terminal *terminal);
/* Is lockwire's group the one that has the terminal now? */
bool terminal_is_ours(const struct terminal *terminal);
/* Is it all lockwire's: a job of a shell by itself, no part of a script or a pipeline
 * whose others need the terminal, too? */
bool terminal_is_ours_alone(const struct terminal *terminal);
/* To this group, if it was ours; SIGTTOU must be ignored or blocked. */
void terminal_give(struct terminal *terminal, pid_t group);
/* Back to lockwire's own group, if it was given away. Was it? */
bool terminal_take(struct terminal *terminal);

/* Has the terminal deliver each key at once and without an echo. Returns false if the
 * terminal is another job's. Undone by terminal_restore. */
bool terminal_read_keys(struct terminal *terminal);

/* Its modes as they were found, by terminal_open or by terminal_read_keys: also for a
 * command that was killed, and could not do it. */
void terminal_restore(const struct terminal *terminal);

#endif

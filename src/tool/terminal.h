/* SPDX-License-Identifier: MIT */
/* The terminal: its size, its foreground process group, its modes. The command runs in a
 * process group of its own, and only the foreground group may read the terminal and gets
 * the signals of its keys. Independent of the command except for its group.
 *
 * terminal_open opens it; terminal_give makes the command's group the foreground when it
 * starts or continues; terminal_take takes it back when it has stopped or ended. */
#ifndef LW_TOOL_TERMINAL_H
#define LW_TOOL_TERMINAL_H
#include <stdbool.h>
#include <sys/ioctl.h>
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

/* 24 rows of 80 columns where this is no terminal, or one that does not know. */
struct winsize terminal_size(int fd);

#endif

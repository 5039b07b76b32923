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
    int fd;     /* -1: no terminal */
    bool given; /* to the command */
    bool has_modes;
    struct termios modes; /* the original ones */
};

void terminal_open(struct terminal *terminal);
void terminal_close(struct terminal *terminal);
/* Returns true if lockwire's group is in the foreground. */
bool terminal_is_ours(const struct terminal *terminal);
/* Returns true if lockwire is a shell's job by itself, not a part of a script or a
 * pipeline whose other processes need the terminal, too. */
bool terminal_is_ours_alone(const struct terminal *terminal);
/* Puts `group` into the foreground if lockwire's is. SIGTTOU must be ignored or blocked.
 */
void terminal_give(struct terminal *terminal, pid_t group);
/* Puts lockwire's group back into the foreground. Returns false if it was not given away.
 */
bool terminal_take(struct terminal *terminal);

/* Makes the terminal deliver each key at once and without an echo, until
 * terminal_restore. Returns false if the terminal is another job's. */
bool terminal_read_keys(struct terminal *terminal);

/* Restores the modes that terminal_open or terminal_read_keys found; also for a command
 * that was killed. */
void terminal_restore(const struct terminal *terminal);

/* Returns the size; 24 rows of 80 columns if it is unknown or this is no terminal. */
struct winsize terminal_size(int fd);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The standard input whose end is awaited; what comes before it is read and thrown away.
 * Owns how it is read, which never blocks. Must not know what its end means.
 *
 * Happy path: input_open; `ended` is called, from the loop; input_close.
 */
#ifndef LW_TOOL_INPUT_H
#define LW_TOOL_INPUT_H
#include <stdbool.h>

struct event;
struct event_base;

struct input {
    int fd;
    struct event *readable;
    struct event *later; /* a terminal whose foreground is another's */
    void (*ended)(void *arg);
    void *arg;
};

/* Returns true if the standard input is a pipe, a socket or a terminal. The end of
 * anything else (a file, /dev/null, a closed descriptor) comes at once. */
bool input_can_be_awaited(void);
/* Waits for the end of an input for which that is true. Returns 0, or -1: no memory. A
 * terminal is read only while this process is in its foreground. */
int input_open(struct input *input, struct event_base *base, void (*ended)(void *arg),
               void *arg);
/* A struct of zeros is fine. */
void input_close(struct input *input);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A client in a process of its own, to be stopped or killed: owns the child and the pipes
 * to it. The child runs one client on its own event_base and does what it is told by
 * lines: "acquire <label> <name> <wait ms> <lease ms> [r|w|j [<owner> [<permits>]]]" (j
 * as Redisson; without a letter a mutex; owner "-": none), "adopt <label> <name> <token>"
 * and the rest as in "acquire", "release <label>", "detach <label> <keep ms>", "keep
 * <label> <name> <lease ms>" (for good: "P: K gained", "P: K lost ELOST"), "quit". It
 * reports each callback by a line, in the words of the trace, which come into the stage's
 * trace with the process's label before them: "P: A granted".
 *
 * Happy path: process_start, process_tell(p, "acquire A name -1 1000"), EXPECT("P: A
 * granted"), process_signal(p, SIGSTOP), process_stop.
 */
#ifndef TEST_PROCESS_H
#define TEST_PROCESS_H
#include "stage.h"

#include <lockwire.h>

struct process {
    struct process *next;
    char label[16];
    pid_t pid;
    int to;
    struct event *from;
    char line[256];
    size_t used;
    bool linked;              /* it has said that its links stand */
    unsigned long long fence; /* of its last grant */
    char token[96];           /* the same */
};

/* Returns when its connections stand. The clients of the parent are not touched by it. */
struct process *process_start(const char *label, const struct lw_client_options *options);
void process_tell(struct process *process, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void process_signal(struct process *process, int signal);
/* SIGKILL, and waits for its end. */
void process_kill(struct process *process);

#endif

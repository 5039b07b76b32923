/* SPDX-License-Identifier: MIT */
/*
 * A client in a process of its own, to be stopped or killed. Owns the child and the pipes
 * to it. The child runs one client on its own event_base, and executes orders, one per
 * line: "acquire <label> <name> <wait ms> <lease ms> [r|w|j [<owner> [<permits>]]]" (j as
 * Redisson; without a letter a mutex; owner "-": none), "adopt <label> <name> <token>"
 * and the rest as in "acquire", "release <label>", "detach <label> <keep ms>", "keep
 * <label> <name> <lease ms>" (indefinitely: "P: K gained", "P: K lost ELOST"), "quit". It
 * reports each callback by a line in the words of the trace. The line is added to the
 * stage's trace with the process's label before it: "P: A granted".
 *
 * Usual course: process_start, process_tell(p, "acquire A name -1 1000"), EXPECT("P: A
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
    bool linked;              /* it has reported that its link is up */
    unsigned long long fence; /* of its last grant */
    char token[96];           /* the same */
};

/* Starts the process, and returns when its connections are up. The parent's clients are
 * not affected. */
struct process *process_start(const char *label, const struct lw_client_options *options);
void process_tell(struct process *process, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void process_signal(struct process *process, int signal);
/* Sends SIGKILL, and waits for its end. */
void process_kill(struct process *process);

#endif

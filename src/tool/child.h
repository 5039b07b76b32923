/* SPDX-License-Identifier: MIT */
/*
 * The program that runs while the lock is held. Owns fork, environment and exec, and what
 * its end means as an exit code. Knows nothing of locks or the loop.
 *
 * Happy path: child_start; after SIGCHLD child_code of what waitpid tells.
 */
#ifndef LW_TOOL_CHILD_H
#define LW_TOOL_CHILD_H
#include "keeper.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CHILD_FENCES 15 /* beyond the first */

struct child {
    char *const *argv;
    const char *name; /* LOCKWIRE_NAME */
    uint64_t fence;   /* LOCKWIRE_FENCE; 0: it is not set, an outer lock's neither */
    uint64_t more_fences[CHILD_FENCES]; /* LOCKWIRE_FENCE_2 to _16, likewise */
    const char *url;                    /* LOCKWIRE_URL; NULL: as this process has it */
    bool group;   /* in a process group of its own, whose number is its pid ... */
    int terminal; /* ... which has this terminal from its start; -1: not */
    const struct keeper
        *keeper;        /* of a group: who is told of it before it does anything */
    struct order order; /* the first one */
};

/* Starts it. Its pid, or -1 and errno. What cannot be executed ends as a shell would have
 * it end, with a message: code 126, or 127 where there is no such program. */
pid_t child_start(const struct child *child);
/* The exit code of one that has ended, 128 + n after signal n. */
int child_code(int status);

#endif

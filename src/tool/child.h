/* SPDX-License-Identifier: MIT */
/*
 * The program that runs while the lock is held. Owns fork, environment and exec, and what
 * its end means as an exit code. Knows nothing of locks or the loop.
 *
 * Happy path: child_start; after SIGCHLD child_ended; exit with its code.
 */
#ifndef LW_TOOL_CHILD_H
#define LW_TOOL_CHILD_H
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Starts argv, with LOCKWIRE_NAME and LOCKWIRE_FENCE, and LOCKWIRE_URL unless url is NULL.
 * Its pid, or -1 and errno. What cannot be executed ends as a shell would have it end, with
 * a message: code 126, or 127 where there is no such program. */
pid_t child_start(char *const argv[], const char *name, uint64_t fence, const char *url);
/* Has it ended? Then its exit code, 128 + n after signal n. Reaps it. */
bool child_ended(pid_t pid, int *code);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Which processes are the command's. Owns the looking and the signalling, nothing else.
 *
 * A process belongs to the command that is in the command's group; on Linux also one that
 * descends from it and is still in its session: a shell's job control and timeout(1) make
 * groups of their own, and on their parent's death such a process is adopted by lockwire.
 * Who called setsid(2) has left, as a daemon means to.
 * Whoever was found once belongs for good, also when its parent is gone; a pid that
 * another process has got since is known by when that one started. Children that lockwire
 * had before (a shell's that it was exec'ed from) never belong.
 *
 * Happy path: family_begin; the command starts, its group is set; family_signal(&family,
 * SIGTERM); family_look until it says 0; family_free.
 */
#ifndef LW_TOOL_FAMILY_H
#define LW_TOOL_FAMILY_H
#include <stddef.h>
#include <sys/types.h>

struct relative;

struct relatives {
    struct relative *list; /* in the order of their pids */
    size_t count, room;
};

struct family {
    pid_t group;   /* the command's; 0: not started yet, or nobody is left in it */
    pid_t session; /* the one that it is started in */
    pid_t root; /* whose descendants there belong to it; 0: nobody's, but the group's */
    pid_t outside;          /* the root's own group, which is never signalled as one */
    struct relatives known; /* who was found at the last look */
    struct relatives strangers; /* who descended from the root before */
    int unseen; /* looks in a row at a group that answers and of which nobody is seen */
};

/* Before the command is started by this process, which from now on is the parent of what
 * its descendants leave behind (Linux). */
void family_begin(struct family *family);
/* How many are alive; where there is no /proc to look at, 1 for the whole group. Who ends
 * during the look may leave a child that it does not see: a parent that has reaped nobody
 * since can take 0 for granted, others look more often. */
size_t family_look(struct family *family);
/* Looks, and sends all of them the signal; how many those were. */
size_t family_signal(struct family *family, int number);
/* Stops those outside the group, and continues whom it has stopped. */
void family_halt(struct family *family);
void family_resume(struct family *family);
void family_free(struct family *family);

#endif

/* SPDX-License-Identifier: MIT */
/* Finds and signals the processes of a command.
 *
 * A process belongs to the command if it is in the command's group. On Linux a descendant
 * in the command's session belongs as well: job control of shells and timeout(1) make
 * groups of their own, and lockwire adopts such a process when its parent ends. A process
 * that has called setsid(2) does not belong, as a daemon intends. A process once found
 * belongs until it ends, also when its parent has ended; its start time tells it from a
 * later process of the same pid. Children that lockwire had before (of a shell that
 * exec'ed it) never belong.
 *
 * process_tree_begin is called before the command starts, then `group` is set;
 * process_tree_signal signals all, process_tree_update returns 0 when none is left. */
#ifndef LW_TOOL_PROCESS_TREE_H
#define LW_TOOL_PROCESS_TREE_H
#include <stddef.h>
#include <sys/types.h>

struct process;

struct process_list {
    struct process *list; /* in the order of their pids */
    size_t count, room;
};

struct process_tree {
    pid_t group;   /* the command's; 0: not started yet, or nobody is left in it */
    pid_t session; /* the one that it is started in */
    pid_t root; /* whose descendants there belong to it; 0: nobody's, but the group's */
    pid_t root_group; /* the root's own group, which is never signalled as one */
    struct process_list members;   /* who was found at the last look */
    struct process_list unrelated; /* who descended from the root before */
    int empty_looks; /* looks in a row at a group that answers and of which nobody is seen
                      */
};

/* Before the command is started by this process, which from now on is the parent of what
 * its descendants leave behind (Linux). */
void process_tree_begin(struct process_tree *tree);
/* How many are alive; where there is no /proc to look at, 1 for the whole group. Who ends
 * during the look may leave a child that it does not see: a parent that has reaped nobody
 * since can take 0 for granted, others look more often. */
size_t process_tree_update(struct process_tree *tree);
/* Looks, and sends all of them the signal; how many those were. */
size_t process_tree_signal(struct process_tree *tree, int number);
/* Stops those outside the group, and continues whom it has stopped. */
void process_tree_stop_outsiders(struct process_tree *tree);
void process_tree_resume_outsiders(struct process_tree *tree);
void process_tree_free(struct process_tree *tree);

#endif

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
    struct process *list; /* sorted by pid */
    size_t count, room;
};

struct process_tree {
    pid_t group;      /* the command's; 0: not started yet, or empty */
    pid_t session;    /* the command's at its start */
    pid_t root;       /* its descendants in the session belong; 0: only the group does */
    pid_t root_group; /* never signaled as a whole */
    struct process_list members;   /* as found by the last update */
    struct process_list unrelated; /* descendants that the root had before */
    int empty_looks; /* successive updates that found no member of an existing group */
};

/* To be called before this process starts the command. On Linux this process adopts the
 * descendants that lose their parent from then on. */
void process_tree_begin(struct process_tree *tree);
/* Finds the members, and returns how many are alive; without a usable /proc, 1 if the
 * group exists. A process that ends during the search may leave a child that is missed: 0
 * is certain only for a parent that has reaped no process since; others must repeat. */
size_t process_tree_update(struct process_tree *tree);
/* Calls process_tree_update, sends all members the signal, and returns their number. */
size_t process_tree_signal(struct process_tree *tree, int number);
/* Stops the members outside the group, and continues those that it has stopped. */
void process_tree_stop_outsiders(struct process_tree *tree);
void process_tree_resume_outsiders(struct process_tree *tree);
void process_tree_free(struct process_tree *tree);

#endif

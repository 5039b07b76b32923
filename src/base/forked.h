/* SPDX-License-Identifier: MIT */
/* A mark of this process, which says so in its children. */
#ifndef LW_FORKED_H
#define LW_FORKED_H
#include <stdbool.h>
#include <sys/types.h>

struct lw__forked {
    pid_t pid;
    volatile char *page; /* 1; 0 in a child. NULL: the pid tells */
};
void lw__forked_mark(struct lw__forked *mark);
bool lw__forked_is_child(const struct lw__forked *mark);
void lw__forked_drop(struct lw__forked *mark);
#endif

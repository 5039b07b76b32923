/* SPDX-License-Identifier: MIT */
/* A mark of this process, by which its forked children recognize themselves. */
#ifndef LW_FORKED_H
#define LW_FORKED_H
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

struct lw__forked {
    pid_t pid;
    volatile char *page; /* holds 1, and 0 in a child; NULL if only the pid can tell */
};
void lw__forked_mark(struct lw__forked *mark);
void lw__forked_drop(struct lw__forked *mark);
static inline bool lw__forked_is_child(const struct lw__forked *mark)
{
    return mark->page != NULL ? *mark->page == 0 : mark->pid != getpid();
}
#endif

/* SPDX-License-Identifier: MIT */
/* What a library must respect in its host's process: fork and SIGPIPE. */
#ifndef LW_PROCESS_H
#define LW_PROCESS_H
#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

/* A mark of this process, by which its forked children recognize themselves. */
struct lw__process_mark {
    pid_t pid;
    volatile char *page; /* holds 1, and 0 in a child; NULL if only the pid can tell */
};
void lw__process_mark(struct lw__process_mark *mark);
void lw__process_unmark(struct lw__process_mark *mark);
static inline bool lw__process_is_child(const struct lw__process_mark *mark)
{
    return mark->page != NULL ? *mark->page == 0 : mark->pid != getpid();
}

/* Blocks SIGPIPE in this thread around a write by a library that does not suppress it. */
struct lw__process_sigpipe {
    sigset_t before;
    bool pending; /* the host had one pending before */
};
void lw__process_block_sigpipe(struct lw__process_sigpipe *blocked);
/* Discards a SIGPIPE that the write raised, and restores the signal mask. */
void lw__process_unblock_sigpipe(const struct lw__process_sigpipe *blocked);
#endif

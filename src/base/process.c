/* SPDX-License-Identifier: MIT */
/* Forked children and SIGPIPE, independent of clients and of the loop.
 *
 * Every callback from libevent asks whether this process is a forked child, and getpid()
 * is a system call. If the kernel can wipe a page at fork (Linux 4.14), the page answers;
 * otherwise the process ids are compared.
 *
 * A write to a closed connection raises SIGPIPE in the thread that writes. Blocking it
 * there for the duration of the write keeps it from the host. A SIGPIPE that was pending
 * before stays pending. macOS has no sigtimedwait, but SO_NOSIGPIPE: wire.c sets it, and
 * the write raises none. */
#include "base/process.h"

#include <sys/mman.h>
#include <time.h>

#ifdef MADV_WIPEONFORK

/* An emulator may ignore madvise() and return 0 (qemu-user 7.2 does). If it accepts
 * advice that does not exist, its result does not count. */
static bool wipe_on_fork(void *page, size_t size)
{
    return madvise(page, size, -1) != 0 && madvise(page, size, MADV_WIPEONFORK) == 0;
}

#elif defined(INHERIT_ZERO) /* FreeBSD */

static bool wipe_on_fork(void *page, size_t size)
{
    return minherit(page, size, INHERIT_ZERO) == 0;
}

#endif

void lw__process_mark(struct lw__process_mark *mark)
{
    *mark = (struct lw__process_mark){.pid = getpid()};
#if defined(MADV_WIPEONFORK) || defined(INHERIT_ZERO)
    size_t size = (size_t)sysconf(_SC_PAGESIZE);
    void *page =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED) {
        return;
    }
    if (!wipe_on_fork(page, size)) {
        (void)munmap(page, size);
        return;
    }
    mark->page = page;
    *mark->page = 1;
#endif
}

void lw__process_unmark(struct lw__process_mark *mark)
{
    if (mark->page != NULL) {
        (void)munmap((void *)mark->page, (size_t)sysconf(_SC_PAGESIZE));
    }
    mark->page = NULL;
}

static void only_broken_pipe(sigset_t *set)
{
    (void)sigemptyset(set);
    (void)sigaddset(set, SIGPIPE);
}

void lw__process_block_sigpipe(struct lw__process_sigpipe *blocked)
{
    sigset_t broken_pipe, pending;

    only_broken_pipe(&broken_pipe);
    (void)sigpending(&pending);
    blocked->pending = sigismember(&pending, SIGPIPE) != 0;
    (void)pthread_sigmask(SIG_BLOCK, &broken_pipe, &blocked->before);
}

void lw__process_unblock_sigpipe(const struct lw__process_sigpipe *blocked)
{
#ifndef __APPLE__
    const struct timespec at_once = {0, 0};
    sigset_t broken_pipe;

    only_broken_pipe(&broken_pipe);
    if (!blocked->pending) {
        (void)sigtimedwait(&broken_pipe, NULL, &at_once);
    }
#endif
    (void)pthread_sigmask(SIG_SETMASK, &blocked->before, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Whether this process is a forked child of the one that made a mark. The question is
 * asked in each callback from libevent, and getpid() is a system call. If the kernel can
 * wipe a page at fork (Linux 4.14), the page answers; else the process ids are compared.
 * Independent of clients and of the loop. */
#include "base/forked.h"

#include <sys/mman.h>
#include <unistd.h>

#ifdef MADV_WIPEONFORK

/* An emulator may ignore madvise() and return 0 (qemu-user 7.2 does): one that accepts
 * advice that does not exist is not believed. */
static bool wipe_on_fork(void *page, size_t size)
{
    return madvise(page, size, -1) != 0 && madvise(page, size, MADV_WIPEONFORK) == 0;
}

#endif

void lw__forked_mark(struct lw__forked *mark)
{
    *mark = (struct lw__forked){.pid = getpid()};
#ifdef MADV_WIPEONFORK
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

void lw__forked_drop(struct lw__forked *mark)
{
    if (mark->page != NULL) {
        (void)munmap((void *)mark->page, (size_t)sysconf(_SC_PAGESIZE));
    }
    mark->page = NULL;
}

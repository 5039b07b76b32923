/* SPDX-License-Identifier: MIT */
/* Whether this process is a forked child of the one that made a mark. Asked at every call
 * of the API, and getpid() is a system call: where the kernel can wipe a page at fork
 * (Linux 4.14), a look at that page tells; else the pid is compared. Knows nothing of
 * clients. */
#include "base/forked.h"

#include <sys/mman.h>
#include <unistd.h>

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
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
        (void)munmap(page, size);
        return;
    }
    mark->page = page;
    *mark->page = 1;
#endif
}

bool lw__forked_is_child(const struct lw__forked *mark)
{
    return mark->page != NULL ? *mark->page == 0 : mark->pid != getpid();
}

void lw__forked_drop(struct lw__forked *mark)
{
    if (mark->page != NULL) {
        (void)munmap((void *)mark->page, (size_t)sysconf(_SC_PAGESIZE));
    }
    mark->page = NULL;
}

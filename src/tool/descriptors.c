/* SPDX-License-Identifier: MIT */
/*
 * See descriptors.h. Three ways, each for where the one before is not to be had: the
 * system's own call, the list of those that are open, every number that may be.
 */
#include "descriptors.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static bool close_listed_above(int last)
{
    DIR *open = opendir("/proc/self/fd");
    struct dirent *entry;

    if (open == NULL) {
        return false;
    }
    while ((entry = readdir(open)) != NULL) {
        int fd = (int)strtol(entry->d_name, NULL, 10); /* 0 for "." and ".." */
        if (fd > last && fd != dirfd(open)) {
            close(fd);
        }
    }
    closedir(open);
    return true;
}

void descriptors_close_above(int last)
{
#ifdef HAVE_CLOSE_RANGE
    if (close_range((unsigned)last + 1, ~0U, 0) == 0) {
        return;
    }
#endif
    if (close_listed_above(last)) {
        return;
    }
    for (long fd = sysconf(_SC_OPEN_MAX) - 1; fd > last; fd--) {
        close((int)fd);
    }
}

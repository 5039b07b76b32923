/* SPDX-License-Identifier: MIT */
/* See system.h. */
#include "system.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/prctl.h>
#elif defined(__FreeBSD__)
#include <sys/procctl.h>
#endif
#include <time.h>
#include <unistd.h>

int64_t system_now_ms(void)
{
    struct timespec now;

#if defined(__linux__) /* as in loop.h */
    clock_gettime(CLOCK_BOOTTIME, &now);
#elif defined(__APPLE__)
    clock_gettime(CLOCK_MONOTONIC_RAW, &now);
#else
    clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void system_sleep_ms(int ms)
{
    nanosleep(&(struct timespec){0, ms * 1000000L}, NULL);
}

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

/* Closes a range, or the descriptors in the system's list, or every possible number. */
void system_close_descriptors_above(int last)
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

int system_pipe(int ends[2])
{
#ifdef __APPLE__
    if (pipe(ends) < 0) {
        return -1;
    }
    (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return 0;
#else
    return pipe2(ends, O_CLOEXEC);
#endif
}

void system_die_with_parent(int number)
{
#if defined(__linux__)
    prctl(PR_SET_PDEATHSIG, number);
#elif defined(__FreeBSD__)
    procctl(P_PID, 0, PROC_PDEATHSIG_CTL, &number);
#else
    (void)number;
#endif
}

void system_adopt_descendants(void)
{
#if defined(__linux__)
    prctl(PR_SET_CHILD_SUBREAPER, 1);
#elif defined(__FreeBSD__)
    procctl(P_PID, 0, PROC_REAP_ACQUIRE, NULL);
#endif
}

void system_set_name(const char *name)
{
#ifdef __linux__
    prctl(PR_SET_NAME, name);
#else
    (void)name;
#endif
}

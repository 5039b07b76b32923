/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a process whose wall clock shall jump: adds the seconds that stand in a
 * shared file to every reading of it. Other clocks are left alone. Must not know whose
 * clock it is.
 *
 * Happy path: LD_PRELOAD, LOCKWIRE_TEST_CLOCK=<file of one int64>, write 60 into the
 * file.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *jump;

__attribute__((constructor)) static void open_jump(void)
{
    const char *path = getenv("LOCKWIRE_TEST_CLOCK");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *memory;

    if (fd < 0) {
        return;
    }
    memory = mmap(NULL, sizeof(*jump), PROT_READ, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) {
        jump = memory;
    }
    close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    long result = syscall(SYS_clock_gettime, clock, ret);

    if (result == 0 && jump != NULL &&
        (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        ret->tv_sec += (time_t)*jump;
    }
    return (int)result;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
    struct timespec now;

    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now) < 0) {
        return -1;
    }
    *ret = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (ret != NULL) {
        *ret = now.tv_sec;
    }
    return now.tv_sec;
}

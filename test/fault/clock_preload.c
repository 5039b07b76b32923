/* SPDX-License-Identifier: MIT */
/*
 * Preloaded into a process whose wall clock is to jump, or to run at another rate.
 * Changes every reading of that clock by a shared file (clock_slots.h). Other clocks are
 * unchanged. Independent of the process.
 *
 * Usual course: LD_PRELOAD, LOCKWIRE_TEST_CLOCK=<file of slots>,
 * LOCKWIRE_TEST_CLOCK_SLOT=0, write 60 into the file.
 */
#include "clock_slots.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile struct clock_slot *slot;

__attribute__((constructor)) static void open_jump(void)
{
    const char *path = getenv("LOCKWIRE_TEST_CLOCK");
    const char *number = getenv("LOCKWIRE_TEST_CLOCK_SLOT");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *memory;

    if (fd < 0) {
        return;
    }
    memory = mmap(NULL, CLOCK_SLOTS * sizeof(*slot), PROT_READ, MAP_SHARED, fd, 0);
    if (memory != MAP_FAILED) {
        slot = memory;
        slot += number != NULL ? atoi(number) : 0;
    }
    close(fd);
}

static void change(struct timespec *now)
{
    int64_t us = (int64_t)now->tv_sec * 1000000 + now->tv_nsec / 1000;
    int64_t ppm = slot->ppm;

    if (slot->us != 0 || ppm != 0) {
        us += slot->us + (us - slot->from_us) * ppm / 1000000;
        now->tv_sec = (time_t)(us / 1000000);
        now->tv_nsec = (long)(us % 1000000 * 1000);
    }
    now->tv_sec += (time_t)slot->seconds;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    long result = syscall(SYS_clock_gettime, clock, ret);

    if (result == 0 && slot != NULL &&
        (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        change(ret);
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

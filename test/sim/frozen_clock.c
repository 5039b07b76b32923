/* SPDX-License-Identifier: MIT
 *
 * A frozen wall clock, to be preloaded into a real redis-server. difftest writes the time
 * into a file, and the server reads it there, so that both servers see the same
 * microsecond. The monotonic clock goes on, since otherwise the server's own timers would
 * never run.
 *
 * LOCKWIRE_FROZEN_CLOCK names the file, of eight bytes: the microseconds since 1970.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *frozen;

__attribute__((constructor)) static void open_clock(void)
{
    const char *path = getenv("LOCKWIRE_FROZEN_CLOCK");
    int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    if (fd < 0) {
        return;
    }
    void *memory = mmap(NULL, sizeof(*frozen), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (memory != MAP_FAILED) {
        frozen = memory;
    }
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    if (frozen == NULL) {
        struct timespec real;
        clock_gettime(CLOCK_REALTIME, &real);
        *now = (struct timeval){real.tv_sec, real.tv_nsec / 1000};
        return 0;
    }
    *now = (struct timeval){*frozen / 1000000, *frozen % 1000000};
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);

    if (frozen != NULL && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        *now = (struct timespec){*frozen / 1000000, *frozen % 1000000 * 1000};
        return 0;
    }
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    }
    return real(clock, now);
}

time_t time(time_t *ret)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (ret != NULL) {
        *ret = now.tv_sec;
    }
    return now.tv_sec;
}

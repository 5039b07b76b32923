/* SPDX-License-Identifier: MIT */
/* clocks.h's file: one number, mapped here and in the preloaded processes. */
#include "clocks.h"

#include "stage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

volatile int64_t *clock_seconds;
static char path[] = "/tmp/lockwire-clock-XXXXXX";

void clocks_open(void)
{
    const char *inherited = getenv("LOCKWIRE_TEST_CLOCK");
    int fd = inherited != NULL ? open(inherited, O_RDWR | O_CLOEXEC) : mkstemp(path);
    void *memory;

    if (fd < 0 || ftruncate(fd, sizeof(*clock_seconds)) < 0) {
        abort();
    }
    memory =
        mmap(NULL, sizeof(*clock_seconds), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        abort();
    }
    clock_seconds = memory;
    close(fd);
    if (inherited != NULL) {
        (void)snprintf(path, sizeof(path), "%s", inherited);
    } else {
        setenv("LOCKWIRE_TEST_CLOCK", path, 1);
    }
}

void clocks_close(void)
{
    unlink(path);
}

void clocks_of_children(bool on)
{
    const char *preload = getenv("LOCKWIRE_CLOCK_PRELOAD");

    if (preload == NULL) {
        abort();
    }
    if (on) {
        setenv("LD_PRELOAD", preload, 1);
    } else {
        unsetenv("LD_PRELOAD");
    }
}

int clocks_open_stage(void **state)
{
    clocks_open();
    clocks_of_children(true);
    stage_open(state);
    clocks_of_children(false);
    return 0;
}

int clocks_close_stage(void **state)
{
    clocks_close();
    return stage_close(state);
}

int64_t clock_of(struct server *server)
{
    redisReply *reply = server_command(server, "TIME");
    int64_t result = atoll(reply->element[0]->str);

    freeReplyObject(reply);
    return result;
}

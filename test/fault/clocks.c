/* SPDX-License-Identifier: MIT */
/* clocks.h's file: the slots, mapped here and in the preloaded processes. */
#include "clocks.h"

#include "stage.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

volatile int64_t *clock_seconds;
volatile struct clock_slot *clock_slots;
static char path[] = "/tmp/lockwire-clock-XXXXXX";

void clocks_open(void)
{
    const char *inherited = getenv("LOCKWIRE_TEST_CLOCK");
    int fd = inherited != NULL ? open(inherited, O_RDWR | O_CLOEXEC) : mkstemp(path);
    void *memory;

    if (fd < 0 || ftruncate(fd, CLOCK_SLOTS * sizeof(struct clock_slot)) < 0) {
        abort();
    }
    memory = mmap(NULL, CLOCK_SLOTS * sizeof(struct clock_slot), PROT_READ | PROT_WRITE,
                  MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        abort();
    }
    clock_slots = memory;
    clock_seconds = &clock_slots[0].seconds;
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

void clocks_slot_of_children(int slot)
{
    char number[16];

    (void)snprintf(number, sizeof(number), "%d", slot);
    setenv("LOCKWIRE_TEST_CLOCK_SLOT", number, 1);
}

void clocks_gain(int slot, int64_t ppm)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    clock_slots[slot].ppm = 0;
    clock_slots[slot].from_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    clock_slots[slot].ppm = ppm;
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

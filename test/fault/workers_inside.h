/* SPDX-License-Identifier: MIT */
/* What the processes of workers.h share with who started them. */
#ifndef TEST_WORKERS_INSIDE_H
#define TEST_WORKERS_INSIDE_H
#include "resource.h"
#include "workers.h"

#include <stdatomic.h>
#include <sys/types.h>

#define WORKERS_LOCK "x" /* its name */

struct page {
    _Atomic uint64_t number;
    _Atomic uint64_t done[WORKERS_MAX], grants[WORKERS_MAX];
    _Atomic uint64_t disturbed, forks;
    struct resource resource;
    atomic_bool forking[WORKERS_MAX], stop;
};

extern struct crew {
    struct page *page;
    const char *dir, *url;
    struct wishes wishes;
    bool unlocked;
    int started, driver;
    struct {
        pid_t pid;
        uint32_t client;
    } workers[WORKERS];
} crew;

int64_t workers_lease_us(void);

/* The life of a process, from its fork on; `self`: its client's number. */
_Noreturn void worker_run(uint32_t self, pid_t parent);

#endif

/* SPDX-License-Identifier: MIT */
/* What the processes of workers.h share with who started them. */
#ifndef TEST_WORKERS_INSIDE_H
#define TEST_WORKERS_INSIDE_H
#include "resource.h"
#include "workers.h"

#include <stdatomic.h>
#include <sys/types.h>

#define WORKERS_LOCK "x" /* its name */
#define LETTERS 64       /* a process that is killed may leave one of them in use */

/* A token for another process. */
struct letter {
    _Atomic uint32_t state;
    enum lw_mode mode;
    uint32_t client, operation; /* whose hold it is */
    uint64_t read;              /* the canary's number, as it was at that hold's grant */
    bool again;                 /* a second process may take it as well */
    char token[96];
};
enum { LETTER_NONE, LETTER_IN_USE, LETTER_THERE };

struct page {
    _Atomic uint64_t number;
    _Atomic uint64_t done[WORKERS_MAX], grants[WORKERS_MAX];
    _Atomic uint64_t disturbed, forks;
    struct resource resource;
    struct letter letters[LETTERS];
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

/* SPDX-License-Identifier: MIT */
/* What workers.h's processes share with the process that started them. */
#ifndef TEST_WORKERS_INSIDE_H
#define TEST_WORKERS_INSIDE_H
#include "resource.h"
#include "workers.h"

#include <stdatomic.h>
#include <sys/types.h>

#define WORKERS_LOCK "x" /* the lock's name */
#define LETTERS 64       /* a killed process may leave one of them in use */

/* A token for another process. */
struct letter {
    _Atomic uint32_t state;
    enum lw_mode mode;
    uint32_t client, operation; /* of the detached hold */
    uint64_t read;              /* the canary's number at that hold's grant */
    bool again;                 /* a second process may take the letter as well */
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

/* Runs a process from its fork on; `self` is the number of its client. */
_Noreturn void worker_run(uint32_t self, pid_t parent);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * workers.h's processes from outside: their start by fork, their end, and the verdict on
 * what they left in the shared page. worker.c has what each process does.
 */
#include "workers_inside.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct crew crew;

int64_t workers_lease_us(void)
{
    return (int64_t)crew.wishes.lease_ms * 1000;
}

static void start(int index)
{
    pid_t parent = getpid();
    uint32_t client = (uint32_t)crew.started++;

    if (client >= WORKERS_MAX) {
        stage_fail("too many workers");
    }
    crew.workers[index].client = client;
    crew.workers[index].pid = fork();
    if (crew.workers[index].pid == 0) {
        worker_run(client, parent);
    }
}

static void at_exit(bool in_good_order)
{
    (void)in_good_order;
    workers_kill_all();
    if (crew.driver >= 0) {
        close(crew.driver);
    }
    crew.driver = -1;
    if (crew.page != NULL) {
        munmap(crew.page, sizeof(*crew.page));
    }
    crew.page = NULL;
}

static uint32_t or_else(uint32_t wish, uint32_t otherwise)
{
    return wish ? wish : otherwise;
}

static struct wishes with_defaults(struct wishes wishes)
{
    return (struct wishes){.wait_ms = wishes.wait_ms ? wishes.wait_ms : 2000,
                           .lease_ms = or_else(wishes.lease_ms, LEASE_MS),
                           .claim_ms = or_else(wishes.claim_ms, 300),
                           .long_hold_every = or_else(wishes.long_hold_every, 16),
                           .long_hold_ms = or_else(wishes.long_hold_ms, 250),
                           .touch_ms = wishes.touch_ms,
                           .detach_every = wishes.detach_every};
}

void workers_start(const char *dir, const char *url, struct wishes wishes, bool unlocked)
{
    memset(&crew, 0, sizeof(crew));
    crew.dir = dir;
    crew.url = url;
    crew.wishes = with_defaults(wishes);
    crew.unlocked = unlocked;
    crew.page = mmap(NULL, sizeof(*crew.page), PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (crew.page == MAP_FAILED) {
        stage_fail("mmap");
    }
    /* Below all fencing tokens, which start from the server's clock. */
    resource_start(&crew.page->resource,
                   unlocked ? 0 : ((uint64_t)time(NULL) - 3600) * 1000000);
    crew.driver = history_open(dir, DRIVER);
    stage_at_exit(at_exit);
    for (int i = 0; i < WORKERS; i++) {
        start(i);
    }
}

pid_t workers_pid(int index)
{
    return crew.workers[index].pid;
}

static void kill_one(int index)
{
    if (crew.workers[index].pid <= 0) {
        return;
    }
    kill(crew.workers[index].pid, SIGKILL);
    waitpid(crew.workers[index].pid, NULL, 0);
    crew.workers[index].pid = 0;
}

void workers_replace(int index)
{
    kill_one(index);
    start(index);
}

void workers_kill_all(void)
{
    for (int i = 0; i < WORKERS; i++) {
        kill_one(i);
    }
}

void workers_fork(void)
{
    for (int i = 0; i < WORKERS_MAX; i++) {
        atomic_store(&crew.page->forking[i], true);
    }
}

static void note_loss(enum what what, int64_t time_us)
{
    struct record record = {.time_us = time_us, .client = DRIVER, .what = (uint16_t)what};

    history_note(crew.driver, &record);
}

void workers_loss(bool begins)
{
    note_loss(begins ? LOSS_BEGINS : LOSS_ENDS, history_now_us());
}

void workers_lost_between(int64_t begin_us, int64_t end_us)
{
    note_loss(LOSS_BEGINS, begin_us);
    note_loss(LOSS_ENDS, end_us);
}

static bool has_ended(int index)
{
    int status;

    if (crew.workers[index].pid == 0 ||
        waitpid(crew.workers[index].pid, &status, WNOHANG) == 0) {
        return crew.workers[index].pid == 0;
    }
    crew.workers[index].pid = 0;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        stage_fail("a worker ended with status %x", (unsigned)status);
    }
    return true;
}

void workers_stop(void)
{
    atomic_store(&crew.page->stop, true);
    for (int i = 0; i < WORKERS; i++) {
        UNTIL(has_ended(i));
    }
}

static uint64_t sum(_Atomic uint64_t *numbers)
{
    uint64_t total = 0;

    for (int i = 0; i < WORKERS_MAX; i++) {
        total += atomic_load(&numbers[i]);
    }
    return total;
}

uint64_t workers_grants(void)
{
    return sum(crew.page->grants);
}

uint64_t workers_forks(void)
{
    return atomic_load(&crew.page->forks);
}

uint64_t workers_disturbed_reads(void)
{
    return atomic_load(&crew.page->disturbed);
}

int64_t workers_lost_updates(void)
{
    return (int64_t)sum(crew.page->done) - (int64_t)atomic_load(&crew.page->number);
}

static void keep_history(void)
{
    const char *kept = getenv("LOCKWIRE_HISTORY_DIR");
    char path[512];

    if (kept == NULL) {
        return;
    }
    (void)snprintf(path, sizeof(path), "%s/%s.jsonl", kept, stage.test);
    history_write(crew.dir, WORKERS_MAX + 1, workers_lease_us(), WORKERS_LOCK, path);
}

struct verdict workers_check(void)
{
    keep_history();
    return history_check(crew.dir, WORKERS_MAX + 1, workers_lease_us());
}

/* SPDX-License-Identifier: MIT */
/*
 * One of workers.h's processes. Each of its jobs repeats a round: request, grant, read,
 * wait, write, release. After any interruption it starts again. If holds are detached,
 * one more job adopts those of other processes.
 */
#include "workers_inside.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define SHARED_FENCE_US 100000 /* unlocked: how long all get one fencing token */
#define JOBS_MAX (HANDLES + 1) /* the last one adopts */
#define LOOK_MS 3              /* the interval between looks for a letter */
#define ROUNDED_US 2000        /* the server counts whole milliseconds */

/* The ways in which detached holds end, in turn. */
static const struct parting {
    uint32_t keep_ms;
    bool left, at_once; /* left: as a letter; at_once: before the confirmation */
    bool again;
} partings[] = {
    {1000, true, true, false},  {1000, true, false, true},
    {120, false, false, false}, /* expires, before its lease */
    {20, true, true, true},     /* may expire before it is adopted */
    {1000, true, true, true},   {800, false, false, false}, /* expires, after its lease */
};
#define PARTINGS (sizeof(partings) / sizeof(partings[0]))

struct job {
    struct lw_lock *lock;
    struct event *timer;
    uint64_t read, fence;
    uint32_t operation, value; /* value: of the resource, as it was read */
    enum lw_mode mode;
    uint32_t left_ms; /* until the release */
    bool holding;
    struct letter letter; /* for the hold to adopt; operation 0: none */
    const struct parting *parting;
    int64_t parted_us;
};

static struct {
    struct event_base *base;
    struct lw_client *client;
    struct job jobs[JOBS_MAX];
    uint32_t self, operations, holds, detached;
    int history, idle;
} child;

static void begin(struct job *job);

/* Returns true if the job shares the lock with other readers; a semaphore of one
 * excludes. */
static bool is_reader(const struct job *job)
{
    return job->mode == LW_SHARED && way->permits == 0;
}

static struct record record_of(const struct job *job, enum what what)
{
    return (struct record){.time_us = history_now_us(),
                           .fence = job->fence,
                           .client = child.self,
                           .operation = job->operation,
                           .what = (uint16_t)what,
                           .shared = is_reader(job),
                           .of_client = job->letter.client,
                           .of_operation = job->letter.operation};
}

static void note(const struct job *job, enum what what)
{
    struct record record = record_of(job, what);
    int64_t left = job->lock != NULL && what != BEGIN ? lw_lock_remaining_ms(job->lock)
                                                      : 0;

    record.until_us = record.time_us + left * 1000;
    if (crew.unlocked) {
        record.until_us = record.time_us + workers_lease_us();
    }
    history_note(child.history, &record);
}

/* ---- the resource that checks fencing tokens; Redisson's locks have none ---- */

static void note_access(const struct job *job, enum what what, uint32_t value)
{
    struct record record = {.time_us = history_now_us(),
                            .fence = job->fence,
                            .client = child.self,
                            .operation = job->operation,
                            .what = (uint16_t)what,
                            .value = value};

    history_note(child.history, &record);
}

static void read_resource(struct job *job)
{
    if (job->fence == 0) {
        return;
    }
    note_access(job, READS, 0);
    job->value = resource_read(&crew.page->resource, job->fence);
    note_access(job, READ, job->value);
}

static void write_resource(struct job *job)
{
    if (job->fence == 0) {
        return;
    }
    note_access(job, WRITES, job->value + 1);
    bool written = resource_write(&crew.page->resource, job->fence, job->value + 1);
    note_access(job, written ? WRITTEN : REFUSED, job->value + 1);
}

/* ---- a job's round ---- */

static void after(struct job *job, int64_t ms)
{
    event_add(job->timer, &(struct timeval){ms / 1000, ms % 1000 * 1000});
}

static void leave(struct lw_client *client, void *arg)
{
    (void)client, (void)arg;
    _exit(0);
}

static int jobs(void)
{
    return crew.wishes.detach_every > 0 ? JOBS_MAX : HANDLES;
}

static void pause_job(struct job *job, int64_t pause_ms)
{
    if (!atomic_load(&crew.page->stop)) {
        after(job, pause_ms);
    } else if (++child.idle == jobs()) {
        if (lw_client_close(child.client, leave, NULL) != LW_OK) {
            _exit(8);
        }
    }
}

static void done_with(struct job *job, int64_t pause_ms)
{
    lw_lock_free(job->lock);
    job->lock = NULL;
    job->holding = false;
    pause_job(job, pause_ms);
}

/* In the forked child the lock counts as not held, and locks and client may only be
 * freed. */
static void fork_and_free(struct job *job)
{
    if (fork() != 0) {
        return;
    }
    if (lw_lock_remaining_ms(job->lock) != 0) {
        _exit(11);
    }
    for (int i = 0; i < jobs(); i++) {
        lw_lock_free(child.jobs[i].lock);
    }
    lw_client_free(child.client);
    atomic_fetch_add(&crew.page->forks, 1);
    _exit(0);
}

/* Waits for the end of the hold, or in steps of touch_ms if the guarded resource is to be
 * used in between. */
static void hold_on(struct job *job)
{
    uint32_t most_ms = crew.wishes.touch_ms;
    uint32_t ms = most_ms > 0 && most_ms < job->left_ms ? most_ms : job->left_ms;

    job->left_ms -= ms;
    after(job, ms);
}

static void is_granted(struct job *job)
{
    static unsigned count;

    job->holding = true;
    job->fence = crew.unlocked ? (uint64_t)history_now_us() / SHARED_FENCE_US
                               : lw_lock_fence(job->lock);
    note(job, GRANTED);
    atomic_fetch_add(&crew.page->grants[child.self], 1);
    read_resource(job);
    job->read = job->letter.operation != 0 ? job->letter.read
                                           : atomic_load(&crew.page->number);
    if (atomic_exchange(&crew.page->forking[child.self], false)) {
        fork_and_free(job);
    }
    job->left_ms = ++count % crew.wishes.long_hold_every == 0 ? crew.wishes.long_hold_ms
                                                              : 1 + count % 3;
    hold_on(job);
}

static void on_result(struct lw_lock *lock, int status, void *arg)
{
    struct job *job = arg;

    (void)lock;
    if (status == LW_OK) {
        is_granted(job);
    } else {
        note(job, FAILED);
        done_with(job, 5);
    }
}

static void on_lost(struct lw_lock *lock, int reason, void *arg)
{
    struct job *job = arg;

    (void)lock, (void)reason;
    event_del(job->timer);
    note(job, ENDED);
    done_with(job, 1);
}

static void on_released(struct lw_lock *lock, int status, void *arg)
{
    (void)lock, (void)status;
    done_with(arg, 0);
}

/* ---- a hold that ends by a detach, and its letter ---- */

static struct letter *take_letter(uint32_t state)
{
    for (int i = 0; i < LETTERS; i++) {
        struct letter *letter = &crew.page->letters[i];
        uint32_t expected = state;

        if (atomic_compare_exchange_strong(&letter->state, &expected, LETTER_IN_USE)) {
            if (state == LETTER_NONE || letter->client != child.self) {
                return letter;
            }
            atomic_store(&letter->state, state);
        }
    }
    return NULL;
}

static void leave_letter(const struct job *job)
{
    struct letter *letter = take_letter(LETTER_NONE);

    if (letter == NULL) {
        return;
    }
    letter->mode = job->mode;
    letter->client = child.self;
    letter->operation = job->operation;
    letter->read = job->read;
    letter->again = job->parting->again;
    (void)snprintf(letter->token, sizeof(letter->token), "%s", lw_lock_token(job->lock));
    atomic_store(&letter->state, LETTER_THERE);
}

static void note_detached(const struct job *job, int64_t keep_ms)
{
    struct record record = record_of(job, DETACHED);

    record.until_us = job->parted_us + keep_ms * 1000 - ROUNDED_US;
    history_note(child.history, &record);
}

static void on_detached(struct lw_lock *lock, int status, void *arg)
{
    struct job *job = arg;

    (void)lock;
    if (status == LW_OK) {
        note_detached(job, job->parting->keep_ms);
    }
    if (status == LW_OK && job->parting->left && !job->parting->at_once) {
        leave_letter(job);
    }
    done_with(job, 0);
}

/* Until the server has confirmed the detach, the lock may end with its lease if that is
 * earlier. */
static void detach(struct job *job, int64_t lease_ms)
{
    int64_t keep_ms;

    job->parting = &partings[child.detached++ % PARTINGS];
    job->parted_us = history_now_us();
    keep_ms = job->parting->keep_ms;
    note_detached(job, keep_ms < lease_ms ? keep_ms : lease_ms);
    if (lw_detach(job->lock, keep_ms, on_detached, job) != LW_OK) {
        _exit(12);
    }
    if (job->parting->left && job->parting->at_once) {
        leave_letter(job);
    }
}

static bool should_detach(void)
{
    return crew.wishes.detach_every > 0 && ++child.holds % crew.wishes.detach_every == 0;
}

/* Uses the canary: a writer stores the number that it read at its grant, plus one; a
 * reader must find the number unchanged. */
static void use(struct job *job)
{
    if (!is_reader(job)) {
        atomic_store(&crew.page->number, job->read + 1);
        atomic_fetch_add(&crew.page->done[child.self], 1);
        write_resource(job);
    } else {
        if (atomic_load(&crew.page->number) != job->read) {
            atomic_fetch_add(&crew.page->disturbed, 1);
        }
        read_resource(job);
    }
    note(job, TOUCHED);
}

static void finish(struct job *job)
{
    int64_t lease_ms = crew.unlocked ? 0 : lw_lock_remaining_ms(job->lock);

    if (lease_ms > 0 && should_detach()) {
        detach(job, lease_ms);
        return;
    }
    if (crew.unlocked || lw_lock_remaining_ms(job->lock) > 0) {
        use(job);
    }
    note(job, ENDED);
    if (crew.unlocked) {
        done_with(job, 0);
    } else if (lw_release(job->lock, on_released, job) != LW_OK) {
        _exit(9);
    }
}

static void adopt(struct job *job)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    struct letter *letter = take_letter(LETTER_THERE);

    if (letter == NULL) {
        pause_job(job, LOOK_MS);
        return;
    }
    memcpy(&job->letter, letter, sizeof(job->letter));
    letter->again = false;
    atomic_store(&letter->state, job->letter.again ? LETTER_THERE : LETTER_NONE);
    options.wait_ms = crew.wishes.wait_ms;
    options.lease_ms = crew.wishes.lease_ms;
    options.lost = on_lost;
    job->operation = ++child.operations;
    job->mode = options.mode = job->letter.mode;
    job->fence = 0;
    note(job, BEGIN);
    if (lw_adopt(child.client, WORKERS_LOCK, job->letter.token, &options, on_result, job,
                 &job->lock) != LW_OK) {
        _exit(13);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct job *job = arg;

    (void)fd, (void)what;
    if (job->holding && job->left_ms > 0) {
        note(job, TOUCHED);
        hold_on(job);
    } else if (job->holding) {
        finish(job);
    } else if (job == &child.jobs[HANDLES]) {
        adopt(job);
    } else {
        begin(job);
    }
}

static void begin(struct job *job)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;

    options.wait_ms = crew.wishes.wait_ms;
    options.lease_ms = crew.wishes.lease_ms;
    options.lost = on_lost;
    job->operation = ++child.operations;
    job->mode = options.mode = job->operation % 2 ? way->holder : way->waiter;
    options.permits = options.mode == LW_SHARED ? way->permits : 0;
    job->fence = 0;
    note(job, BEGIN);
    if (crew.unlocked) {
        is_granted(job);
    } else if (lw_acquire(child.client, WORKERS_LOCK, &options, on_result, job,
                          &job->lock) != LW_OK) {
        _exit(10);
    }
}

_Noreturn void worker_run(uint32_t self, pid_t parent)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)signal(SIGCHLD, SIG_IGN);
    if (getppid() != parent) {
        _exit(0);
    }
    for (int fd = 3; fd < 1024; fd++) {
        close(fd);
    }
    options.local_turns = way->turns;
    options.claim_ms = crew.wishes.claim_ms;
    options.request_timeout_ms = options.connect_timeout_ms = 1000;
    options.backoff_max_ms = 100;
    options.close_timeout_ms = 3000;
    child.self = self;
    child.detached = 2 * self; /* each process begins with a different parting */
    child.history = history_open(crew.dir, self);
    child.base = event_base_new();
    if (child.base == NULL ||
        lw_client_new(child.base, crew.url, &options, &child.client) != LW_OK) {
        _exit(2);
    }
    for (int i = 0; i < jobs(); i++) {
        child.jobs[i].timer = evtimer_new(child.base, on_timer, &child.jobs[i]);
        after(&child.jobs[i], 1);
    }
    event_base_dispatch(child.base);
    _exit(3);
}

/* SPDX-License-Identifier: MIT */
/*
 * Workloads U, D, L and N: slots that acquire and release. Owns the slots, and of the
 * variant `first` the rounds. Must not know what another variant means.
 * Happy path: ask, on_granted, over, on_released, ask again.
 *
 * A round is a stretch of the clock with a name of its own, so that the release which
 * hands over is the first one of that name, and so that two processes agree on it: both
 * ask in its first half, who has the lock at half-time releases it, who waited then
 * holds.
 */
#include "subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct slot {
    struct run *run;
    struct lw_client *client;
    struct lw_lock *lock;
    struct event *timer; /* the hold's end, or the pause's */
    struct measure_row row;
};

struct run {
    struct subject *subject;
    struct slot *slots;
    unsigned count, finished;
    char workload;
    bool warming; /* keys of our own, nothing is noted */
    bool ending;  /* nobody asks again */
    bool rounds;
    uint64_t errors;
};

static void ask(struct slot *slot);

static void wait_for(struct slot *slot, unsigned us)
{
    struct timeval delay = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};

    event_add(slot->timer, &delay);
}

/* Long enough for timers that come a tick late, which may be 4 ms. */
static int64_t round_ns(const struct run *run)
{
    return 6000 * (int64_t)run->subject->options->hold_us;
}

/* Until so many halves of this round are over; 0 where they are. */
static unsigned us_until(const struct run *run, int halves)
{
    int64_t round = round_ns(run), left = halves * round / 2 - measure_now() % round;

    return left > 0 ? (unsigned)(left / 1000) : 0;
}

static unsigned pause_us(const struct run *run)
{
    unsigned pause = measure_pause_us(run->subject->options);

    return run->rounds ? pause + us_until(run, 2) : pause;
}

static unsigned hold_us(const struct run *run)
{
    if (run->warming) {
        return 0;
    }
    return run->rounds ? us_until(run, 1) : run->subject->options->hold_us;
}

static void on_released(struct lw_lock *lock, int status, void *arg)
{
    struct slot *slot = arg;
    struct run *run = slot->run;

    run->errors += status != LW_OK;
    slot->row.done = measure_now();
    lw_lock_free(lock);
    slot->lock = NULL;
    if (!run->warming) {
        measure_row(&slot->row);
    }
    if (run->workload != 'D' && !run->ending && run->subject->options->pause_us) {
        wait_for(slot, pause_us(run));
    } else if (run->workload != 'D' && !run->ending) {
        ask(slot);
    } else if (++run->finished == run->count) {
        event_base_loopbreak(run->subject->base);
    }
}

static void release(struct slot *slot)
{
    slot->row.released = measure_now();
    subject_check("lw_release", lw_release(slot->lock, on_released, slot));
}

static void over(evutil_socket_t socket, short what, void *arg)
{
    struct slot *slot = arg;

    (void)socket, (void)what;
    if (slot->lock != NULL) {
        release(slot);
    } else {
        ask(slot);
    }
}

static void on_granted(struct lw_lock *lock, int status, void *arg)
{
    struct slot *slot = arg;
    unsigned hold = hold_us(slot->run);

    (void)lock;
    subject_check("acquiring", status);
    slot->row.granted = measure_now();
    if (hold > 0) {
        wait_for(slot, hold);
    } else {
        release(slot);
    }
}

static void ask(struct slot *slot)
{
    struct run *run = slot->run;
    struct subject *subject = run->subject;
    char name[512];
    int length = snprintf(name, sizeof(name), "%s", subject->options->name);

    if (run->warming) {
        length +=
            snprintf(name + length, sizeof(name) - length, ":warm:%d", (int)getpid());
    }
    if (run->rounds) {
        slot->row.slot = measure_now() / round_ns(run);
    }
    if (run->workload == 'U' || run->rounds) {
        (void)snprintf(name + length, sizeof(name) - length, ":%lld",
                       (long long)slot->row.slot);
    }
    slot->row = (struct measure_row){.slot = slot->row.slot, .asked = measure_now()};
    subject_check("lw_acquire", lw_acquire(slot->client, name, &subject->acquire,
                                           on_granted, slot, &slot->lock));
}

static struct slot *slots_new(struct run *run, unsigned count)
{
    struct slot *slots = calloc(count, sizeof(*slots));

    if (slots == NULL) {
        exit(1);
    }
    for (unsigned i = 0; i < count; i++) {
        slots[i].run = run;
        slots[i].client = run->subject->client;
        slots[i].row.slot = i;
        slots[i].timer = event_new(run->subject->base, -1, 0, over, &slots[i]);
        if (slots[i].timer == NULL) {
            exit(1);
        }
    }
    return slots;
}

static void ask_all(struct run *run, double seconds)
{
    for (unsigned i = 0; i < run->count; i++) {
        ask(&run->slots[i]);
    }
    subject_run(run->subject, seconds);
}

static void warm_up(struct run *run)
{
    ask_all(run, 0.1);
    run->ending = true;
    subject_run(run->subject, 10);
    if (run->finished != run->count) {
        (void)fprintf(stderr, "bench: the warm-up does not end\n");
        exit(1);
    }
    for (unsigned i = 0; i < run->count; i++) {
        event_free(run->slots[i].timer);
    }
    free(run->slots);
}

/* The connections stand, the pools are filled. */
static void warm_up_alone(struct subject *subject)
{
    unsigned count = subject->options->slots;
    struct run run = {.subject = subject, .workload = 'U', .warming = true};

    run.count = count < 256 ? count : 256;
    run.slots = slots_new(&run, run.count);
    warm_up(&run);
}

/* Two clients on one key, so that the server has been given all scripts. */
static void warm_up_against_another(struct subject *subject)
{
    struct run run = {.subject = subject, .workload = 'L', .warming = true, .count = 4};
    struct subject other;

    subject_open(&other, subject->base, subject->options);
    run.slots = slots_new(&run, run.count);
    run.slots[2].client = run.slots[3].client = other.client;
    warm_up(&run);
    subject_close(&other);
}

static uint64_t commands(const struct subject *subject)
{
    struct lw_stats stats = LW_STATS_INIT;

    subject_check("lw_client_stats", lw_client_stats(subject->client, &stats));
    return stats.commands;
}

uint64_t subject_loop(struct subject *subject)
{
    const struct measure_options *options = subject->options;
    struct run run = {
        .subject = subject, .workload = options->workload, .count = options->slots};

    warm_up_alone(subject);
    if (options->workload != 'U') {
        warm_up_against_another(subject);
    }
    run.rounds = options->hold_us > 0 && strcmp(options->variant, "first") == 0;
    run.slots = slots_new(&run, run.count);
    measure_start();
    subject->commands = commands(subject);
    ask_all(&run, options->seconds);
    subject->commands = commands(subject) - subject->commands;
    for (unsigned i = 0; i < run.count; i++) {
        if (run.slots[i].lock != NULL) {
            measure_row(&run.slots[i].row);
        }
    }
    if (options->workload == 'D' && run.finished == run.count) {
        subject_close(subject);
    }
    return run.errors;
}

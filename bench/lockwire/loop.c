/* SPDX-License-Identifier: MIT */
/*
 * Workloads U, D, L, N and M: slots that acquire and release. Independent of the variant.
 * ask() acquires, on_granted() releases at once or after the hold time, on_released()
 * calls ask() again. The name of a slot is formatted once, as the peers and the limits
 * do. In workload M the drawn names are formatted for each set.
 *
 * Each round has its own name, so that the release which hands over is the first of that
 * name.
 */
#include "subject.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct slot {
    struct run *run;
    struct lw_client *client;
    char *name; /* of the lock; not in M */
    struct lw_lock *lock;
    struct lw_all *all; /* in M, in place of `lock` */
    unsigned random;
    struct event *timer; /* for the end of the hold or of the pause */
    struct measure_row row;
};

struct run {
    struct subject *subject;
    struct slot *slots;
    struct subject *subjects; /* the subjects whose clients the slots use in turn */
    unsigned count, finished;
    char workload;
    bool warming; /* warm-up: separate keys, and no rows */
    bool ending;  /* no slot acquires again */
    uint64_t errors;
};

static void ask(struct slot *slot);

static void wait_for(struct slot *slot, unsigned us)
{
    struct timeval delay = {.tv_sec = us / 1000000, .tv_usec = us % 1000000};

    event_add(slot->timer, &delay);
}

static void released(struct slot *slot, int status)
{
    struct run *run = slot->run;

    run->errors += status != LW_OK;
    slot->row.done = measure_now();
    lw_lock_free(slot->lock);
    lw_all_free(slot->all);
    slot->lock = NULL;
    slot->all = NULL;
    if (!run->warming) {
        measure_row(&slot->row);
    }
    if (run->workload != 'D' && !run->ending && run->subject->options->pause_us) {
        wait_for(slot, measure_pause_us(run->subject->options));
    } else if (run->workload != 'D' && !run->ending) {
        ask(slot);
    } else if (++run->finished == run->count) {
        event_base_loopbreak(run->subject->base);
    }
}

static void on_released(struct lw_lock *lock, int status, void *arg)
{
    (void)lock;
    released(arg, status);
}

static void on_all_released(struct lw_all *all, int status, void *arg)
{
    (void)all;
    released(arg, status);
}

static void release(struct slot *slot)
{
    slot->row.released = measure_now();
    if (slot->all != NULL) {
        subject_check("lw_all_release", lw_all_release(slot->all, on_all_released, slot));
        return;
    }
    subject_check("lw_release", lw_release(slot->lock, on_released, slot));
}

static void over(evutil_socket_t socket, short what, void *arg)
{
    struct slot *slot = arg;

    (void)socket, (void)what;
    if (slot->lock != NULL || slot->all != NULL) {
        release(slot);
    } else {
        ask(slot);
    }
}

static void granted(struct slot *slot, int status)
{
    const struct run *run = slot->run;
    unsigned hold = run->warming ? 0 : measure_hold_us(run->subject->options);

    subject_check("acquiring", status);
    slot->row.granted = measure_now();
    if (hold > 0) {
        wait_for(slot, hold);
    } else {
        release(slot);
    }
}

static void on_granted(struct lw_lock *lock, int status, void *arg)
{
    (void)lock;
    granted(arg, status);
}

static void on_all_granted(struct lw_all *all, int status, void *arg)
{
    (void)all;
    granted(arg, status);
}

static unsigned draw(struct slot *slot, unsigned below)
{
    slot->random = slot->random * 1664525 + 1013904223;
    return (slot->random >> 8) % below;
}

/* M: acquires different names, in random order. */
static void ask_for_all(struct slot *slot)
{
    const struct measure_options *options = slot->run->subject->options;
    char texts[16][128];
    const char *names[16];
    unsigned drawn[16];

    for (unsigned i = 0; i < options->names; i++) {
        unsigned before = 0;

        drawn[i] = options->names == options->of ? i : draw(slot, options->of);
        while (before < i && drawn[before] != drawn[i]) {
            before++;
        }
        if (before < i) {
            i--; /* draw it again */
            continue;
        }
        (void)snprintf(texts[i], sizeof(texts[i]), "%s:%u", options->name, drawn[i]);
        names[i] = texts[i];
    }
    slot->row = (struct measure_row){.slot = slot->row.slot, .asked = measure_now()};
    subject_check("lw_acquire_all",
                  lw_acquire_all(slot->client, names, options->names,
                                 &slot->run->subject->acquire, on_all_granted, NULL, slot,
                                 &slot->all));
}

static bool has_rounds(const struct run *run)
{
    return run->subject->options->round_us > 0 && !run->warming;
}

/* Sets the slot's name. In U it ends with the number of the slot, and with rounds with
 * that of the round; row.slot has the one or the other. */
static void format_name(struct slot *slot)
{
    const struct run *run = slot->run;
    char warm[32] = "", number[32] = "";

    if (run->warming) {
        (void)snprintf(warm, sizeof(warm), ":warm:%d", (int)getpid());
    }
    if (run->workload == 'U' || has_rounds(run)) {
        (void)snprintf(number, sizeof(number), ":%lld", (long long)slot->row.slot);
    }
    free(slot->name);
    if (asprintf(&slot->name, "%s%s%s", run->subject->options->name, warm, number) < 0) {
        exit(1);
    }
}

static void ask(struct slot *slot)
{
    struct run *run = slot->run;
    struct subject *subject = run->subject;

    if (run->workload == 'M') {
        ask_for_all(slot);
        return;
    }
    if (has_rounds(run)) {
        slot->row.slot = measure_round(subject->options);
        format_name(slot);
    }
    slot->row = (struct measure_row){.slot = slot->row.slot, .asked = measure_now()};
    subject_check("lw_acquire", lw_acquire(slot->client, slot->name, &subject->acquire,
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
        slots[i].client = run->subjects[i % run->subject->options->clients].client;
        slots[i].row.slot = i;
        slots[i].random = (unsigned)getpid() * 1000 + i;
        format_name(&slots[i]);
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
        free(run->slots[i].name);
    }
    free(run->slots);
}

/* Makes sure that the connections are up and the pools are filled. */
static void warm_up_alone(struct subject *subject, struct subject *subjects)
{
    unsigned count = subject->options->slots;
    struct run run = {
        .subject = subject, .subjects = subjects, .workload = 'U', .warming = true};

    run.count = count < 256 || subject->options->clients > 1 ? count : 256;
    run.slots = slots_new(&run, run.count);
    warm_up(&run);
}

/* Lets two clients contend for one key, so that the server has loaded all scripts. */
static void warm_up_against_another(struct subject *subject, struct subject *subjects)
{
    struct run run = {.subject = subject,
                      .subjects = subjects,
                      .workload = 'L',
                      .warming = true,
                      .count = 4};
    struct subject other;

    subject_open(&other, subject->base, subject->options);
    run.slots = slots_new(&run, run.count);
    run.slots[2].client = run.slots[3].client = other.client;
    warm_up(&run);
    subject_close(&other);
}

static uint64_t commands(const struct run *run)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < run->subject->options->clients; i++) {
        struct lw_stats stats = LW_STATS_INIT;

        subject_check("lw_client_stats",
                      lw_client_stats(run->subjects[i].client, &stats));
        sum += stats.commands;
    }
    return sum;
}

/* Opens the further clients. The first of the subjects is `subject`. */
static struct subject *open_others(const struct subject *subject)
{
    unsigned count = subject->options->clients;
    struct subject *subjects = calloc(count, sizeof(*subjects));

    if (subjects == NULL) {
        exit(1);
    }
    subjects[0] = *subject;
    for (unsigned i = 1; i < count; i++) {
        subject_open(&subjects[i], subject->base, subject->options);
    }
    return subjects;
}

uint64_t subject_loop(struct subject *subject)
{
    const struct measure_options *options = subject->options;
    struct run run = {
        .subject = subject, .workload = options->workload, .count = options->slots};

    run.subjects = open_others(subject);
    warm_up_alone(subject, run.subjects);
    if (options->workload != 'U') {
        warm_up_against_another(subject, run.subjects);
    }
    run.slots = slots_new(&run, run.count);
    measure_start();
    subject->commands = commands(&run);
    ask_all(&run, options->seconds);
    subject->commands = commands(&run) - subject->commands;
    for (unsigned i = 0; i < run.count; i++) {
        if (run.slots[i].lock != NULL || run.slots[i].all != NULL) {
            measure_row(&run.slots[i].row);
        }
    }
    if (options->workload == 'D' && run.finished == run.count) {
        subject_close(subject);
    }
    return run.errors;
}

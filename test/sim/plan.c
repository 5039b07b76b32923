/* SPDX-License-Identifier: MIT
 *
 * What a seed makes likely, drawn before anything runs. Most seeds have a few things go
 * wrong often, rather than everything sometimes: one fault must not hide another.
 *
 * Happy path: plan_draw() fills world.plan.
 */
#include "world.h"

static bool chance(unsigned in_thousand)
{
    return rng_chance(&world.rng, in_thousand);
}

static unsigned sometimes(unsigned of_seeds, unsigned most)
{
    bool has = chance(of_seeds);
    unsigned how = (unsigned)rng_between(&world.rng, 1, most);

    return has ? how : 0;
}

static int64_t one_of(const int64_t *choices, size_t count)
{
    return choices[rng_below(&world.rng, count)];
}

#define ONE_OF(...)                                                                      \
    one_of((const int64_t[]){__VA_ARGS__},                                               \
           sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

static void draw_network(struct plan *plan)
{
    plan->latency_us = ONE_OF(30, 200, 1 * MS, 5 * MS);
    plan->jitter_us = ONE_OF(20, 200, 2 * MS, 20 * MS);
    plan->slow = sometimes(300, 50);
    plan->slow_us = ONE_OF(50 * MS, 500 * MS, 3 * SECOND);
    plan->split = sometimes(300, 500);
    plan->late = sometimes(400, 400);
    plan->twice = sometimes(300, 300);
    plan->muted = sometimes(200, 200);
    plan->unkillable = chance(300);
    plan->drift = ONE_OF(0, 0, -8000, 8000); /* 1 % is allowed for */
    plan->request_timeout_ms = (uint32_t)ONE_OF(300, 1000, 5000);
}

static void draw_load(struct plan *plan)
{
    plan->hosts = (unsigned)rng_between(&world.rng, 1, HOSTS);
    plan->names = (unsigned)rng_between(&world.rng, 1, NAMES);
    for (int i = 0; i < NAMES; i++)
        plan->kinds[i] = (enum kind)ONE_OF(KIND_MUTEX, KIND_MUTEX, KIND_MUTEX, KIND_RW,
                                           KIND_RW, KIND_SEMAPHORE, KIND_REDISSON);
    plan->owned = sometimes(500, 600);
    plan->actors = (unsigned)rng_between(&world.rng, 1, ACTORS);
    plan->local_turns = (uint32_t)ONE_OF(1, 2, 16, 16);
    plan->claim_ms = (uint32_t)ONE_OF(100, 300, 2000, 2000);
    plan->hold_us = ONE_OF(1 * MS, 20 * MS, 200 * MS, 1 * SECOND);
    plan->think_us = ONE_OF(1 * MS, 20 * MS, 200 * MS, 2 * SECOND);
    plan->margin = sometimes(300, 500);
    plan->capped = sometimes(300, 300);
    plan->unrenewed = sometimes(400, 300);
    plan->unfenced = sometimes(300, 300);
    plan->hasty = sometimes(500, 500);
    plan->freed = sometimes(500, 500);
    plan->abandoned = sometimes(500, 200);
    plan->extended = sometimes(500, 300);
    plan->inside = (unsigned)ONE_OF(0, 200, 800);
}

/* Nothing hurries or leaves, and holds are shorter than any poll delay. */
static void make_quiet(struct plan *plan)
{
    plan->quiet = true;
    for (int i = 0; i < NAMES; i++)
        plan->kinds[i] = KIND_MUTEX;
    plan->local_turns = 1;
    plan->hold_us = 5 * MS;
    plan->margin = plan->capped = plan->unrenewed = plan->hasty = 0;
    plan->freed = plan->abandoned = plan->extended = 0;
}

/* Turns are handed over in messages that come too late to be believed, or nearly. */
static void make_belated(struct plan *plan)
{
    for (int i = 0; i < NAMES; i++)
        plan->kinds[i] = KIND_MUTEX;
    plan->names = 1;
    plan->local_turns = 1;
    plan->claim_ms = (uint32_t)ONE_OF(100, 300);
    plan->hold_us = ONE_OF(1 * MS, 20 * MS, 200 * MS);
    plan->think_us = ONE_OF(1 * MS, 20 * MS);
    plan->late = (unsigned)ONE_OF(100, 300, 600);
    plan->slow_us = ONE_OF(200 * MS, 500 * MS, 1 * SECOND);
    plan->brief = true;
}

/* While the server has lost something two may hold. */
static bool voids_judgement(int fault)
{
    return fault == FAULT_LOSS || fault == FAULT_CLOCK || fault == FAULT_BREAK;
}

static void draw_faults(struct plan *plan)
{
    plan->tame = chance(150);
    if (plan->tame) {
        plan->slow = plan->late = plan->muted = plan->twice = 0;
        plan->claim_ms = 2000; /* or the second way that NOSCRIPT takes may be too long */
        if (chance(300))
            make_quiet(plan);
        return;
    }
    plan->lengthy = sometimes(350, 100);
    plan->fatal = sometimes(200, 20);
    plan->startled = sometimes(250, 50);
    plan->brief = chance(300);
    if (chance(150))
        make_belated(plan);
    plan->stall_us = ONE_OF(50 * MS, 500 * MS, 5 * SECOND, 20 * SECOND);
    for (int i = 0; i < FAULTS; i++) {
        if (chance(voids_judgement(i) ? 80 : 200))
            plan->every_us[i] = ONE_OF(100 * MS, 1 * SECOND, 5 * SECOND);
    }
    /* A new counter starts at the server's time: that must not be behind the old one's. */
    if (plan->every_us[FAULT_CLOCK])
        plan->every_us[FAULT_LOSS] = plan->every_us[FAULT_FENCE] = 0;
}

void plan_draw(void)
{
    struct plan *plan = &world.plan;

    draw_network(plan);
    draw_load(plan);
    draw_faults(plan);
    plan->faults_us = rng_between(&world.rng, 5, 30) * SECOND;
}

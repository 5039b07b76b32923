/* SPDX-License-Identifier: MIT
 *
 * Draws what a seed makes likely, before anything runs. With most seeds a few things go
 * wrong often, rather than everything sometimes, so that one fault does not hide another.
 *
 * Usual course: plan_draw() fills in world.plan.
 */
#include "world.h"

#include <string.h>

#define WATCHED 6   /* one seed in so many; the other seeds draw the same as without it */
#define CLUSTERED 6 /* one seed in so many; offset 3 */
#define DETACHED 8  /* one seed in so many detaches and adopts locks */
#define LIMITED 8   /* one seed in so many has acquisitions with max_waiting; offset 6 */
#define GUARDED 12  /* one seed in so many uses the guard; offset 4 */
#define KEPT 4      /* one seed in so many has keeps */

bool plan_watches_all, plan_clusters_all, plan_sets_all, plan_guards_all;
bool plan_detaches_all, plan_quorums_all, plan_uneventful;
const char *plan_option = "";

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
    plan->ghostly = sometimes(300, 500);
    plan->unkillable = chance(300);
    plan->drift = ONE_OF(0, 0, -8000, 8000); /* 1 % is allowed for */
    plan->request_timeout_ms = (uint32_t)ONE_OF(300, 1000, 5000);
}

static void draw_load(struct plan *plan)
{
    plan->hosts = (unsigned)rng_between(&world.rng, 1, HOSTS);
    plan->names = (unsigned)rng_between(&world.rng, 1, SINGLE_NAMES);
    for (int i = 0; i < SINGLE_NAMES; i++) {
        plan->kinds[i] = (enum kind)ONE_OF(KIND_MUTEX, KIND_MUTEX, KIND_MUTEX, KIND_RW,
                                           KIND_RW, KIND_SEMAPHORE, KIND_REDISSON);
    }
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

/* Makes a world in which no waiter times out or leaves, and holds are shorter than any
 * poll delay. */
static void make_quiet(struct plan *plan)
{
    plan->quiet = true;
    for (int i = 0; i < NAMES; i++) {
        plan->kinds[i] = KIND_MUTEX;
    }
    plan->local_turns = 1;
    plan->hold_us = 5 * MS;
    plan->margin = plan->capped = plan->unrenewed = plan->hasty = 0;
    plan->freed = plan->abandoned = plan->extended = 0;
}

/* Makes a world in which locks are handed over by messages that come too late to be
 * trusted, or almost. */
static void make_belated(struct plan *plan)
{
    for (int i = 0; i < NAMES; i++) {
        plan->kinds[i] = KIND_MUTEX;
    }
    plan->names = 1;
    plan->local_turns = 1;
    plan->claim_ms = (uint32_t)ONE_OF(100, 300);
    plan->hold_us = ONE_OF(1 * MS, 20 * MS, 200 * MS);
    plan->think_us = ONE_OF(1 * MS, 20 * MS);
    plan->late = (unsigned)ONE_OF(100, 300, 600);
    plan->slow_us = ONE_OF(200 * MS, 500 * MS, 1 * SECOND);
    plan->brief = true;
}

/* Returns true for faults after which two may hold, because the server has lost
 * something. */
static bool voids_judgement(int fault)
{
    return fault == FAULT_LOSS || fault == FAULT_CLOCK || fault == FAULT_BREAK;
}

/* Returns true for faults that need several servers, or sentinels, or a guard. */
static bool needs_more_servers(int fault)
{
    return fault == FAULT_SWAP || fault == FAULT_SPLIT || fault == FAULT_FAILOVER ||
           fault == FAULT_SENTINEL || fault == FAULT_SLOT || fault == FAULT_NODE ||
           fault == FAULT_MEMBER || fault == FAULT_EXCHANGE || fault == FAULT_FOREIGN;
}

/* Excludes faults by which a fence counter is lost. A new counter starts at the server's
 * time, which must not be behind the old counter. */
static void keep_numbers(struct plan *plan)
{
    plan->every_us[FAULT_LOSS] = plan->every_us[FAULT_FENCE] = 0;
    plan->every_us[FAULT_SPLIT] = plan->every_us[FAULT_FAILOVER] = 0;
}

static bool only_mutexes(const struct plan *plan)
{
    for (unsigned i = 0; i < plan->names; i++) {
        if (plan->kinds[i] != KIND_MUTEX) {
            return false;
        }
    }
    return true;
}

/* Makes a world in which messages come late, by way of the other server. Connections that
 * no client owns are counted there as receivers. That server's clock is ahead by about as
 * much as the lag. */
static void make_strayed(struct plan *plan)
{
    make_belated(plan);
    plan->hosts = HOSTS;
    plan->actors = 2;
    plan->brief = false;
    plan->lengthened = true;
    plan->claim_ms = (uint32_t)ONE_OF(100, 100, 300);
    plan->hasty = plan->balanced = plan->late = 0;
    plan->request_timeout_ms = 5000;
    plan->lag_us = ONE_OF(60, 100, 160) * MS;
    plan->apart_us = plan->lag_us * ONE_OF(0, 2, 2, 3) / 4;
    plan->ends_by_clock = plan->ends_apart = false;
    plan->slow = plan->muted = plan->lengthy = plan->startled = 0;
    plan->nameless = false;
    plan->faults_us = rng_between(&world.rng, 5, 15) * SECOND;
    plan->ghostly = 800;
    memset(plan->every_us, 0, sizeof(plan->every_us));
    plan->latency_us = 5 * MS;
    plan->jitter_us = ONE_OF(2, 20) * MS;
    plan->every_us[FAULT_NOSCRIPT] = 100 * MS; /* connecting takes longer */
    plan->every_us[FAULT_RESET] = ONE_OF(200 * MS, 500 * MS);
    plan->every_us[FAULT_SWAP] = ONE_OF(500 * MS, 1 * SECOND, 2 * SECOND);
}

/* Makes a world in which links end at different servers. Then there is only load, for a
 * long time. */
static void make_lasting(struct plan *plan)
{
    make_quiet(plan);
    plan->quiet = false;
    plan->names = 1;
    plan->hosts = HOSTS;
    plan->actors = 2;
    plan->hold_us = plan->think_us = 100 * MS;
    plan->muted = plan->lengthy = plan->startled = plan->fatal = 0;
    plan->nameless = false;
    memset(plan->every_us, 0, sizeof(plan->every_us));
    plan->every_us[FAULT_SWAP] = 500 * MS;
    plan->every_us[FAULT_RESET] = 200 * MS;
    plan->calm_us = 5 * SECOND;
    plan->deaf = chance(500);
    plan->faults_us = 50 * SECOND;
}

/* Adds a replica. Some seeds then have no faults except those of two servers. */
static void add_replica(struct plan *plan)
{
    plan->servers = PAIR;
    if (chance(400)) {
        for (int i = 0; i < NAMES; i++) {
            plan->kinds[i] = KIND_MUTEX;
        }
    }
    if (chance(300)) {
        memset(plan->every_us, 0, sizeof(plan->every_us));
    }
    plan->lag_us = ONE_OF(50, 1 * MS, 20 * MS, 300 * MS);
    plan->balanced = (unsigned)ONE_OF(0, 0, 500, 1000);
    plan->name_lag_us = ONE_OF(1, 1, 500 * MS, 3 * SECOND);
    plan->split_us = ONE_OF(500 * MS, 5 * SECOND);
    plan->every_us[FAULT_CLOCK] = 0;
    if (chance(800)) {
        plan->every_us[FAULT_SWAP] = ONE_OF(300 * MS, 1 * SECOND, 5 * SECOND);
    }
    plan->every_us[FAULT_SPLIT] = chance(350) ? ONE_OF(2, 5) * SECOND : 0;
    plan->every_us[FAULT_FAILOVER] = chance(350) ? ONE_OF(2, 5) * SECOND : 0;
    plan->ends_by_clock = chance(500);
    if (chance(350)) {
        plan->apart_us = ONE_OF(-5, -2, 2, 5) * SECOND;
        plan->ends_by_clock = chance(200);
        plan->ends_apart = plan->ends_by_clock || !only_mutexes(plan);
        keep_numbers(plan);
    }
    if (chance(350)) {
        make_strayed(plan);
    } else if (chance(150)) {
        make_lasting(plan);
    }
}

static void draw_faults(struct plan *plan)
{
    plan->tame = chance(150);
    if (plan->tame) {
        plan->slow = plan->late = plan->muted = plan->twice = 0;
        /* else the second attempt after NOSCRIPT might take too long */
        plan->claim_ms = 2000;
        if (chance(300)) {
            make_quiet(plan);
        }
        return;
    }
    plan->nameless = chance(60);
    plan->lengthy = sometimes(350, 100);
    plan->fatal = sometimes(200, 20);
    plan->startled = sometimes(250, 50);
    plan->brief = chance(300);
    if (chance(150)) {
        make_belated(plan);
    }
    plan->stall_us = ONE_OF(50 * MS, 500 * MS, 5 * SECOND, 20 * SECOND);
    for (int i = 0; i < FAULTS; i++) {
        if (!needs_more_servers(i) && chance(voids_judgement(i) ? 80 : 200)) {
            plan->every_us[i] = ONE_OF(100 * MS, 1 * SECOND, 5 * SECOND);
        }
    }
    if (plan->every_us[FAULT_CLOCK]) {
        keep_numbers(plan);
    }
    if (chance(300)) {
        add_replica(plan);
    }
}

/* Makes a world in which only servers and sentinels have faults, so that every duty of
 * the hosts is due at once. */
static void make_clear(struct plan *plan)
{
    static const int kept[] = {FAULT_NOSCRIPT, FAULT_STRANGER, FAULT_QUEUE,
                               FAULT_INSPECT};
    int64_t every_us[FAULTS] = {0};

    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        every_us[kept[i]] = plan->every_us[kept[i]];
    }
    memcpy(plan->every_us, every_us, sizeof(every_us));
    plan->clear = true;
    plan->nameless = false;
    plan->slow = plan->late = plan->lengthy = plan->startled = plan->split = 0;
    plan->fatal = 0;
}

/* Makes the servers' clocks equal: nothing is promised about the order of fencing tokens
 * from two clocks if one is behind. */
static void keep_clocks(struct plan *plan)
{
    plan->every_us[FAULT_CLOCK] = plan->apart_us = 0;
    plan->ends_apart = false;
}

/* Makes a world in which connections stay open while their server is replaced, and when
 * it becomes the master again, which the sentinels learn later. Few commands are sent
 * that it would refuse in between. */
static void make_unkilled(struct plan *plan)
{
    plan->unkilled = true;
    plan->listed = SENTINELS;
    plan->actors = 1;
    plan->think_us = 2 * SECOND;
    plan->brief = false;
    plan->lengthened = true;
    plan->name_lag_us = ONE_OF(1, 3) * SECOND;
    plan->split_us = 500 * MS;
    plan->every_us[FAULT_SPLIT] = 1 * SECOND;
    plan->every_us[FAULT_SENTINEL] = 0;
}

/* Makes a world in which hosts ask sentinels for the master. Only writes that a failover
 * lost, and the time in which two servers are masters, excuse anything. */
static void make_watched(struct plan *plan)
{
    plan->watched = true;
    plan->servers = PAIR;
    plan->listed = (unsigned)ONE_OF(1, 2, 3, 3, 3);
    plan->secretive = chance(200);
    if (plan->tame) {
        return;
    }
    if (chance(600)) {
        make_clear(plan);
    }
    keep_clocks(plan);
    plan->every_us[FAULT_LOSS] = plan->every_us[FAULT_BREAK] = 0;
    plan->balanced = 0;
    plan->calm_us = 0;
    plan->deaf = false;
    plan->lag_us = ONE_OF(50, 1 * MS, 20 * MS, 300 * MS);
    plan->ends_by_clock = chance(500);
    plan->name_lag_us = ONE_OF(1, 20 * MS, 1 * SECOND, 3 * SECOND);
    plan->split_us = ONE_OF(500 * MS, 5 * SECOND);
    plan->down_us = ONE_OF(10 * MS, 300 * MS, 2 * SECOND);
    plan->every_us[FAULT_SWAP] = chance(400) ? ONE_OF(1, 5) * SECOND : 0;
    plan->every_us[FAULT_SPLIT] = chance(600) ? ONE_OF(2, 5) * SECOND : 0;
    plan->every_us[FAULT_FAILOVER] = chance(600) ? ONE_OF(2, 5) * SECOND : 0;
    plan->every_us[FAULT_SENTINEL] = chance(500) ? ONE_OF(500 * MS, 3 * SECOND) : 0;
    if (chance(200)) {
        make_unkilled(plan);
    }
}

/* Makes the clocks of masters differ; a replica has its master's. All locks are mutexes:
 * a key that moves with its slot keeps the time left, but the hash of a read-write lock
 * has expiry times inside. */
static void set_apart(struct plan *plan)
{
    for (int i = 0; i < NAMES; i++) {
        plan->kinds[i] = KIND_MUTEX;
    }
    plan->apart_us = ONE_OF(-5, -2, 2, 5) * SECOND;
    keep_numbers(plan);
}

/* Makes a world in which nothing goes wrong, except that slots may move, by which nothing
 * is lost. In most of these worlds they move for some time or not at all. From then on a
 * waiter is handed the lock as soon as at a single server. */
static void make_level(struct plan *plan, bool quiet)
{
    bool moves = chance(600);

    plan->name_lag_us = ONE_OF(1, 20 * MS);
    if (moves) {
        plan->every_us[FAULT_SLOT] = ONE_OF(100 * MS, 500 * MS);
        plan->calm_us = chance(700) ? ONE_OF(1, 5) * SECOND : 0;
    } else {
        plan->quiet = quiet;
        plan->calm_us = 1;
    }
    if (plan->calm_us && chance(500)) {
        plan->faults_us = rng_between(&world.rng, 30, 50) * SECOND;
    }
}

/* Makes a world in which slots move and masters are replaced. Then there is only load,
 * for a long time: waiters are served in order again. */
static void make_orderly(struct plan *plan)
{
    make_lasting(plan);
    plan->names = 2;
    plan->hosts = HOSTS / 2;
    plan->late = plan->slow = 0;
    plan->deaf = false;
    plan->every_us[FAULT_SLOT] = ONE_OF(100, 500) * MS;
    plan->every_us[FAULT_SWAP] = chance(500) ? 1 * SECOND : 0;
    plan->every_us[FAULT_FAILOVER] = chance(300) ? 2 * SECOND : 0;
    plan->every_us[FAULT_NODE] = chance(300) ? 1 * SECOND : 0;
}

/* Makes the servers a cluster, which has database 0 only, and no Redisson mode. Only what
 * its failovers lost excuses anything. */
static void make_clustered(struct plan *plan)
{
    bool quiet = plan->quiet;

    plan->clustered = true;
    plan->servers = SERVERS;
    plan->names = (unsigned)rng_between(&world.rng, 2, SINGLE_NAMES);
    for (int i = 0; i < NAMES; i++) {
        plan->kinds[i] = plan->kinds[i] == KIND_REDISSON ? KIND_MUTEX : plan->kinds[i];
    }
    plan->seeds = (unsigned)rng_between(&world.rng, 1, 31);
    plan->sixth = chance(300);
    plan->selfless = chance(300);
    plan->quiet = plan->deaf = plan->ends_apart = false;
    plan->balanced = 0;
    plan->calm_us = 0;
    plan->lag_us = ONE_OF(50, 1 * MS, 20 * MS, 300 * MS);
    plan->name_lag_us = ONE_OF(1, 20 * MS, 1 * SECOND, 3 * SECOND);
    plan->split_us = ONE_OF(500 * MS, 5 * SECOND);
    plan->down_us = ONE_OF(10 * MS, 300 * MS, 2 * SECOND);
    plan->move_us = ONE_OF(1 * MS, 50 * MS, 1 * SECOND);
    if (plan->tame) {
        make_level(plan, quiet);
        return;
    }
    if (chance(500)) {
        make_clear(plan);
        plan->clear = false; /* `clear` is for hosts that ask sentinels */
    }
    keep_clocks(plan);
    plan->every_us[FAULT_LOSS] = plan->every_us[FAULT_BREAK] = 0;
    plan->ends_by_clock = chance(500);
    plan->every_us[FAULT_SLOT] = chance(600) ? ONE_OF(200 * MS, 1 * SECOND, 3 * SECOND)
                                             : 0;
    plan->every_us[FAULT_NODE] = chance(400) ? ONE_OF(500 * MS, 3 * SECOND) : 0;
    plan->every_us[FAULT_MEMBER] = chance(300) ? ONE_OF(1, 5) * SECOND : 0;
    plan->every_us[FAULT_SWAP] = chance(300) ? ONE_OF(1, 5) * SECOND : 0;
    plan->every_us[FAULT_SPLIT] = chance(350) ? ONE_OF(2, 5) * SECOND : 0;
    plan->every_us[FAULT_FAILOVER] = chance(350) ? ONE_OF(2, 5) * SECOND : 0;
    if (chance(100)) {
        make_orderly(plan);
    } else if (chance(250)) {
        set_apart(plan);
    }
}

/* Makes a world with partitions only, while two actors of each host compete for one lock
 * and hold it as long as they can. */
static void make_contended(struct plan *plan)
{
    memset(plan->every_us, 0, sizeof(plan->every_us));
    plan->guard_ms = 15000;
    plan->request_timeout_ms = 5000;
    plan->kinds[0] = KIND_MUTEX;
    plan->names = 1;
    plan->hosts = HOSTS;
    plan->actors = 2;
    plan->think_us = 20 * MS;
    plan->lengthened = true;
    plan->margin = plan->hasty = plan->abandoned = plan->freed = plan->inside = 0;
    plan->late = plan->slow = plan->startled = plan->lengthy = plan->fatal = 0;
    plan->faults_us = 240 * SECOND;
}

/* Makes a world in which an old master grants locks for as long as it may, and some
 * hosts' requests for the guard's time are slow. */
static void make_besieged(struct plan *plan)
{
    make_contended(plan);
    plan->besieged = true;
    plan->hold_us = 6 * SECOND;
    plan->unrenewed = (unsigned)ONE_OF(0, 800);
    plan->lag_us = 20 * MS;
    plan->name_lag_us = 20 * MS;
    plan->split_us = 30 * SECOND;
    plan->every_us[FAULT_SPLIT] = 25 * SECOND;
}

/* Makes a world in which a server that was replaced is the master again before the
 * clients know of it. */
static void make_hurried(struct plan *plan)
{
    make_contended(plan);
    plan->returns = true;
    plan->hold_us = 1 * SECOND;
    plan->lag_us = ONE_OF(300 * MS, 1 * SECOND);
    plan->name_lag_us = 3 * SECOND;
    plan->split_us = 300 * MS;
    plan->down_us = 10 * MS;
    plan->every_us[FAULT_SPLIT] = 30 * SECOND;
}

/* Makes a world in which restarts lose writes, sentinels promote replicas that lack the
 * last writes, and an old master accepts writes for as long as min-replicas allows. None
 * of it excuses two owners that believe. The faults are so rare that the guard opens
 * between most of them. */
static void make_guarded(struct plan *plan)
{
    plan->guard_ms = (uint32_t)ONE_OF(15000, 15000, 22000);
    plan->uptime_us = ONE_OF(0, 5 * SECOND, 3600 * SECOND, 3600 * SECOND);
    for (int i = 0; i < NAMES; i++) {
        plan->kinds[i] = plan->kinds[i] == KIND_REDISSON ? KIND_MUTEX : plan->kinds[i];
    }
    if (chance(500)) {
        memset(plan->every_us, 0, sizeof(plan->every_us));
    }
    plan->tame = plan->quiet = plan->nameless = plan->deaf = false;
    plan->servers = 1;
    plan->balanced = 0;
    plan->calm_us = 0;
    keep_clocks(plan);
    plan->every_us[FAULT_BREAK] = plan->every_us[FAULT_STRANGER] = 0;
    plan->every_us[FAULT_SWAP] = plan->every_us[FAULT_SPLIT] = 0;
    plan->every_us[FAULT_FAILOVER] = 0;
    plan->names = (unsigned)rng_between(&world.rng, 1, 2);
    plan->hosts = (unsigned)rng_between(&world.rng, 2, HOSTS);
    plan->actors = (unsigned)rng_between(&world.rng, 1, 2);
    plan->hold_us = ONE_OF(200 * MS, 1 * SECOND, 3 * SECOND);
    plan->think_us = ONE_OF(20 * MS, 500 * MS, 2 * SECOND);
    plan->brief = false;
    plan->lengthened = chance(700);
    plan->faults_us = rng_between(&world.rng, 60, 180) * SECOND;
    plan->ops = 3000;
    plan->every_us[FAULT_LOSS] = chance(500) ? ONE_OF(8, 20, 40) * SECOND : 0;
    plan->every_us[FAULT_EXCHANGE] = chance(400) ? ONE_OF(20, 40) * SECOND : 0;
    plan->every_us[FAULT_FOREIGN] = chance(300) ? ONE_OF(2, 10) * SECOND : 0;
    if (chance(300)) {
        plan->every_us[FAULT_LOSS] = 20 * SECOND;
        return;
    }
    plan->watched = true;
    plan->servers = PAIR;
    plan->listed = (unsigned)ONE_OF(1, 2, 3, 3, 3);
    plan->lag_us = ONE_OF(1 * MS, 20 * MS, 300 * MS, 1 * SECOND);
    plan->ends_by_clock = chance(500);
    plan->name_lag_us = ONE_OF(1, 20 * MS, 1 * SECOND, 3 * SECOND);
    plan->split_us = ONE_OF(5 * SECOND, 20 * SECOND);
    plan->down_us = ONE_OF(10 * MS, 300 * MS, 2 * SECOND);
    plan->every_us[FAULT_SWAP] = chance(300) ? ONE_OF(20, 40) * SECOND : 0;
    plan->every_us[FAULT_SPLIT] = chance(700) ? ONE_OF(8, 20, 40) * SECOND : 0;
    plan->every_us[FAULT_FAILOVER] = chance(600) ? ONE_OF(8, 20, 40) * SECOND : 0;
    plan->every_us[FAULT_SENTINEL] = chance(300) ? 3 * SECOND : 0;
    if (chance(400)) {
        make_besieged(plan);
    } else if (chance(500)) {
        make_hurried(plan);
    }
}

/* Makes a world with a quorum of three or five servers. Any of them may restart without
 * its last writes or empty, freeze, or refuse commands or connections. None of it excuses
 * two owners that believe, or a fencing token that falls. */
static void make_quorum(struct plan *plan)
{
    make_guarded(plan);
    plan->guard_ms = 15000;
    plan->quorum = true;
    plan->watched = plan->besieged = plan->returns = false;
    plan->servers = (unsigned)ONE_OF(3, 3, 5);
    plan->uptime_us = ONE_OF(5 * SECOND, 3600 * SECOND, 3600 * SECOND);
    plan->apart_us = ONE_OF(0, 1 * MS, 300 * MS);
    plan->names = (unsigned)rng_between(&world.rng, 1, 2);
    plan->hosts = (unsigned)rng_between(&world.rng, 2, HOSTS);
    plan->ops = 1500;
    plan->faults_us = rng_between(&world.rng, 40, 120) * SECOND;
    for (int i = 0; i < NAMES; i++) {
        plan->kinds[i] = KIND_MUTEX;
    }
    for (unsigned i = FAULT_SWAP; i <= FAULT_FAILOVER; i++) {
        plan->every_us[i] = 0;
    }
    plan->every_us[FAULT_SENTINEL] = plan->every_us[FAULT_FENCE] = 0;
    plan->every_us[FAULT_BREAK] = plan->every_us[FAULT_INSPECT] = 0;
    plan->every_us[FAULT_CLOCK] = plan->every_us[FAULT_STRANGER] = 0;
    plan->every_us[FAULT_FREEZE] = chance(500) ? ONE_OF(2, 5, 10) * SECOND : 0;
    plan->every_us[FAULT_RESTART] = chance(300) ? ONE_OF(5, 20) * SECOND : 0;
    plan->every_us[FAULT_LOSS] = chance(600) ? ONE_OF(8, 20, 40) * SECOND : 0;
}

static void draw_abilities(struct plan *plan)
{
    static const char *const words[] = {NULL, NULL, "delifeq", "delex"};
    uint64_t common = rng_below(&world.rng, 4);

    for (int i = 0; i < PAIR; i++) {
        plan->knows[i] = words[chance(800) ? common : rng_below(&world.rng, 4)];
    }
}

/* Adds calls that acquire several names, besides those that acquire one. */
static void add_sets(struct plan *plan)
{
    plan->sets = (unsigned)ONE_OF(200, 500, 900);
    plan->names = (unsigned)rng_between(&world.rng, 3, NAMES);
    for (int i = 0; i < NAMES; i++) {
        plan->kinds[i] = KIND_MUTEX;
    }
    plan->kept = 0;
    plan->quiet = false; /* a refused try is one command more than a quiet world has */
}

/* One server, three hosts, a fast network. */
static void make_uneventful(struct plan *plan)
{
    plan->hosts = 3;
    plan->names = 1;
    plan->servers = 1;
    plan->latency_us = plan->jitter_us = 200;
    plan->name_lag_us = 1;
    plan->request_timeout_ms = 5000;
    plan->claim_ms = 2000;
    plan->local_turns = 1;
    plan->tame = true;
}

void plan_draw(void)
{
    struct plan *plan = &world.plan;

    if (plan_uneventful) {
        make_uneventful(plan);
        return;
    }
    plan->servers = 1;
    plan->ops = 600;
    plan->faults_us = rng_between(&world.rng, 5, 30) * SECOND;
    draw_network(plan);
    draw_load(plan);
    draw_faults(plan);
    draw_abilities(plan);
    plan->kept = world.seed % KEPT == 1 && !plan->quiet ? 300 : 0;
    if (plan_quorums_all) {
        make_quorum(plan);
    } else if (plan_guards_all || (world.seed % GUARDED == 4 && !plan_watches_all &&
                                   !plan_clusters_all && !plan_sets_all)) {
        make_guarded(plan);
    } else if (plan_clusters_all || (world.seed % CLUSTERED == 3 && !plan_watches_all)) {
        make_clustered(plan);
    } else if (world.seed % WATCHED == 0 || plan_watches_all) {
        make_watched(plan);
    }
    if (plan_sets_all) {
        add_sets(plan);
    }
    if (plan->quorum) {
        return; /* which supports neither of the following */
    }
    if (plan_detaches_all || (world.seed % DETACHED == 2 && !plan->tame)) {
        /* both assume that no lock is held without a holder */
        plan->tame = plan->quiet = false;
        plan->detached = (unsigned)ONE_OF(100, 300, 600);
    }
    if (world.seed % LIMITED == 6 && !plan->tame) {
        plan->limited = (unsigned)ONE_OF(100, 300, 600);
    }
}

/* SPDX-License-Identifier: MIT */
/*
 * campaign.h's campaigns. Independent of what a fault does.
 *
 * Usual course: the workers start; then several times strike, a pause, mend, and a wait
 * until they make progress; finally the verdict.
 */
#include "campaign.h"

#include <stdio.h>
#include <unistd.h>

#define STRIKES 6
#define SHORTER 3 /* the divisor of the number of strikes in smoke mode */
#define STRIKE_MS 250
#define PROGRESS 30 /* grants between two strikes */

struct proxy *proxy;
const char *campaign_url;
int swaps;
static int losses; /* that campaign_lost recorded */
static char dir[64];

/* Removes the directory however the test ends, since it may be played again. */
static void remove_dir(bool in_good_order)
{
    char path[128];

    (void)in_good_order;
    for (int i = 0; i <= WORKERS_MAX; i++) {
        (void)snprintf(path, sizeof(path), "%s/history-%d", dir, i);
        unlink(path);
    }
    rmdir(dir);
}

static void make_dir(void)
{
    (void)snprintf(dir, sizeof(dir), "/tmp/lockwire-history-XXXXXX");
    if (mkdtemp(dir) == NULL) {
        stage_fail("mkdtemp");
    }
    stage_at_exit(remove_dir);
}

static void go_on(void)
{
    uint64_t before = workers_grants();

    UNTIL(workers_grants() >= before + PROGRESS);
}

static void strike_and_mend(const struct fault *fault, int round)
{
    if (fault->loses_state) {
        workers_loss(true);
    }
    fault->strike(round);
    if (fault->loses_state) {
        workers_loss(false);
    }
    stage_run_for(fault->while_ms ? fault->while_ms : STRIKE_MS);
    if (fault->mend != NULL) {
        fault->mend(round);
    }
    go_on();
}

/* Returns true if readers have held together, in the ways that have both modes. */
static bool readers_read_together(const struct verdict *verdict)
{
    return way->holder == way->waiter || verdict->together > 0;
}

/* Redisson's locks have no fencing tokens. */
static size_t wrong_fences(const struct verdict *verdict)
{
    return way->holder == LW_REDISSON ? 0 : verdict->fences;
}

/* Prints the counts to the log, also for runs that succeed. */
static void tell(const struct verdict *verdict, int strikes)
{
    (void)fprintf(stderr, "%s: %d strikes, %d swaps, %zu grants, ", stage.test, strikes,
                  swaps, verdict->grants);
    (void)fprintf(stderr,
                  "overlaps %zu, doubled numbers %zu, numbers that did not grow %zu, ",
                  verdict->overlaps, verdict->doubled, wrong_fences(verdict));
    if (losses > 0) {
        (void)fprintf(stderr, "by %d losses %zu overlaps and %zu late numbers, ", losses,
                      verdict->forgiven, verdict->excused);
    }
    if (verdict->detached > 0) {
        (void)fprintf(stderr, "detached %zu, adopted %zu, ", verdict->detached,
                      verdict->adopted);
    }
    (void)fprintf(stderr, "lost updates %lld, given up %zu, longest wait %lld ms\n",
                  (long long)workers_lost_updates(), verdict->failed,
                  (long long)verdict->longest_wait_us / 1000);
}

static void judge(const struct fault *fault, int strikes)
{
    struct verdict verdict = workers_check();

    tell(&verdict, strikes);
    /* A slow machine is no excuse, so the test is not played again: a client never relies
     * on a lock beyond its deadline. */
    if (verdict.overlaps || verdict.doubled || verdict.repeated ||
        wrong_fences(&verdict)) {
        stage_complain("I1 or I2: %zu overlaps, %zu numbers given twice, %zu that do not "
                       "grow, %zu repeated results in %zu grants: %s",
                       verdict.overlaps, verdict.doubled, verdict.fences,
                       verdict.repeated, verdict.grants, verdict.first);
    }
    if (stage.broken) {
        stage_fail("%s", stage.complaint);
    }
    if (fault->one_at_a_time && way->holder != LW_REDISSON) {
        assert_int_equal(verdict.excused, 0);
    }
    assert_true(verdict.grants >= PROGRESS);
    assert_true(readers_read_together(&verdict));
    if (fault->wishes.detach_every > 0) {
        assert_true(verdict.adopted > 0 && verdict.adopted < verdict.detached);
    }
    if (fault->wishes.wait_ms >= STAGE_WAIT_MS && verdict.failed != 0) {
        stage_fail("%zu were not served", verdict.failed);
    }
    if (!fault->loses_state && losses == 0) {
        assert_int_equal(verdict.forgiven, 0);
    }
    if (fault->loses_state || fault->stops_process || verdict.forgiven > 0) {
        return;
    }
    if (workers_lost_updates() != 0 || workers_disturbed_reads() != 0) {
        stage_fail("the canary lost %lld updates, %llu reads were disturbed",
                   (long long)workers_lost_updates(),
                   (unsigned long long)workers_disturbed_reads());
    }
}

void campaign(const struct fault *fault)
{
    int strikes = (fault->strikes ? fault->strikes : STRIKES) / (smoke ? SHORTER : 1);

    make_dir();
    swaps = losses = 0;
    campaign_url = NULL;
    proxy = proxy_start(stage.server.path, true);
    if (fault->scene != NULL) {
        fault->scene();
    }
    workers_start(dir, campaign_url != NULL ? campaign_url : proxy->url, fault->wishes,
                  false);
    go_on();
    for (int round = 0; fault->strike != NULL && round < strikes; round++) {
        strike_and_mend(fault, round);
    }
    workers_stop();
    if (fault->check != NULL) {
        fault->check();
    }
    judge(fault, fault->strike != NULL ? strikes : 0);
    stage.keys_may_stay = true; /* a lock left by an unknown outcome expires */
}

void campaign_lost(int64_t since_us)
{
    losses++;
    workers_lost_between(since_us, history_now_us());
}

void campaign_unlocked(void)
{
    make_dir();
    workers_start(dir, stage.server.url, (struct wishes){0}, true);
    UNTIL(workers_grants() > 500);
    workers_stop();
    struct verdict verdict = workers_check();
    assert_true(verdict.overlaps > 0);
    assert_true(verdict.doubled > 0);
    assert_true(workers_lost_updates() > 0);
    assert_true(way->holder == way->waiter || workers_disturbed_reads() > 0);
    stage.prefix = NULL; /* the workers have none */
}

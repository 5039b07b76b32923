/* SPDX-License-Identifier: MIT */
/*
 * The campaigns on two servers: orderly role changes under load while connections stay
 * open, a balancer that leads the two links of a client to different servers, clocks that
 * differ, late messages, and subscriptions that only the server still considers open. No
 * write is ever lost. So no overlap is forgiven, no fencing token is repeated, and all
 * waiters are served.
 *
 * A key expires by the leader's clock. If the roles change between clocks, every lease
 * and claim time is much longer than the difference of the clocks.
 *
 * Usual course: CAMPAIGN(name, .scene = the roles of the servers, .strike = what changes
 * them)
 */
#include "campaign.h"
#include "pair.h"

#define APART_S 2
/* A hold that was never granted is noticed only if it lasts until the next grant, which
 * may need a reconnection first. So some holds are long. */
#define PATIENT .wait_ms = STAGE_WAIT_MS, .long_hold_every = 8, .long_hold_ms = 120

static void lead_on(void)
{
    proxy_lead(proxy, pair_leader()->path, NULL);
}

static void one_clock(void)
{
    pair_set(0);
    lead_on();
}

static void clocks_apart(void)
{
    pair_set(APART_S);
    lead_on();
}

static void balanced(void)
{
    pair_set(0);
    proxy_lead(proxy, pair_leader()->path, pair_follower()->path);
}

static void balanced_and_apart(void)
{
    pair_set(APART_S);
    proxy_lead(proxy, pair_leader()->path, pair_follower()->path);
}

static void swap(void)
{
    pair_swap();
    swaps++;
    lead_on();
}

static void fail_over(void)
{
    pair_fail_over();
    swaps++;
    lead_on();
}

/* Swaps the roles; every third time there and back, so that some links never notice. */
static void swap_often(int round)
{
    swap();
    if (round % 3 == 2) {
        swap();
    }
}

static void fail_over_often(int round)
{
    fail_over();
    if (round % 3 == 2) {
        fail_over();
    }
}

/* Makes the balancer distribute the clients again. */
static void cut(int round)
{
    proxy_cut(proxy, round % 2 ? COMMANDS : SUBSCRIPTION);
}

static void late_cut(int round)
{
    proxy_delay(proxy, SUBSCRIPTION, TO_CLIENT, 100 + 50 * round);
    cut(round);
}

static void late_fail_over(int round)
{
    proxy_delay(proxy, SUBSCRIPTION, TO_CLIENT, 100 + 50 * round);
    fail_over_often(round);
}

static void in_time(int round)
{
    (void)round;
    proxy_delay(proxy, SUBSCRIPTION, TO_CLIENT, 0);
}

/* The clients leave their subscriptions at the leader for new ones at the follower, and
 * keep these when the follower has led for a while. The leader never learns that they
 * left. */
static void desert(int round)
{
    int before = proxy->subscriptions;

    (void)round;
    proxy_lead(proxy, pair_follower()->path, NULL);
    proxy_desert(proxy, SUBSCRIPTION);
    UNTIL(proxy->subscriptions >= before + WORKERS);
    swap();
    swap();
}

static void end_deserted(int round)
{
    (void)round;
    proxy_cut(proxy, SUBSCRIPTION);
}

CAMPAIGN(failovers, .scene = one_clock, .strike = fail_over_often, .strikes = 9,
         .while_ms = 50, .wishes = {PATIENT})
CAMPAIGN(swaps_behind_a_name, .scene = one_clock, .strike = swap_often, .strikes = 9,
         .while_ms = 50, .wishes = {PATIENT})
CAMPAIGN(balancer, .scene = balanced, .strike = cut, .strikes = 9, .while_ms = 50,
         .wishes = {PATIENT})
CAMPAIGN(balancer_clocks_apart_late_messages, .scene = balanced_and_apart,
         .strike = late_cut, .mend = in_time, .while_ms = 500, .wishes = {PATIENT})
CAMPAIGN(failovers_clocks_apart_late_messages, .scene = clocks_apart,
         .strike = late_fail_over, .mend = in_time, .while_ms = 500,
         .wishes = {PATIENT, .lease_ms = 20000, .claim_ms = 8000})
CAMPAIGN(half_open_subscriptions, .scene = one_clock, .strike = desert,
         .mend = end_deserted, .wishes = {PATIENT})

CAMPAIGN(failovers_of_detached_locks, .scene = one_clock, .strike = fail_over_often,
         .strikes = 9, .while_ms = 50, .wishes = {PATIENT, .detach_every = 4})

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY_OURS(campaign_failovers),
        PLAY_OURS(campaign_swaps_behind_a_name),
        PLAY_OURS(campaign_balancer),
        PLAY_OURS(campaign_balancer_clocks_apart_late_messages),
        PLAY_OURS(campaign_failovers_clocks_apart_late_messages),
        PLAY_OURS(campaign_half_open_subscriptions),
        PLAY_OURS(campaign_failovers_of_detached_locks),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, pair_open, pair_close);
}

/* SPDX-License-Identifier: MIT */
/*
 * The campaigns on a master that three sentinels replace. It dies, is stopped and
 * continues, or is replaced by order while all processes contend. Clients are parted from
 * it or from the sentinels, and it from the other servers. Sentinels are away, or one
 * lags. The old master comes back each time as a master, until it is made a replica.
 *
 * If the replicas have everything when the old master is left, no overlap is forgiven.
 * Otherwise overlaps are forgiven from the first write that may be lost until no client
 * is at the old master. The new master's fencing tokens are larger all the same. All
 * waiters are served in the end.
 *
 * Usual course: CAMPAIGN(name, .scene = sentinels, .strike = what replaces the master,
 * .mend = what brings it back)
 */
#include "campaign.h"
#include "trio.h"

#include <stdio.h>

#define NUMBERS "lockwire:fence"
#define SOME 10 /* grants, so that something was written */
#define LAGGING_MS 400
#define AWAY_MS 1000

static int old; /* the master before the last strike */

static void scene(void)
{
    trio_set("");
    campaign_url = trio_url();
}

static void more_grants(void)
{
    uint64_t before = workers_grants();

    UNTIL(workers_grants() > before + SOME);
}

/* ---- what was lost ---- */

/* Returns the number of bytes that the server has written to its replicas. */
static long long written(int server)
{
    return trio_info(server, "replication", "master_repl_offset:");
}

static void until_left(void)
{
    UNTIL(trio_clients(old) == 0);
}

/* Forgives overlaps since since_us. `last` is the old master's largest fencing token. */
static void forgive(int64_t since_us, long long last)
{
    campaign_lost(since_us);
    more_grants();
    /* equal if the old master is a replica of the new one by now */
    assert_true(way->holder == LW_REDISSON ||
                trio_number(trio_leader(), NUMBERS) >= last);
}

/* Does not assert that a write was lost. That depends on whether a client writes to the
 * old master between the promotion and its own switch. Lost writes cannot be counted
 * afterwards: the old master may be a replica by then, or a slow machine may have
 * promoted two servers one after the other. */
static void forgive_old(int64_t since_us)
{
    until_left();
    forgive(since_us, trio_number(old, NUMBERS));
}

/* ---- the ends of a master ---- */

/* Logs for how long no request was granted. It looks for grants only after all earlier
 * leases have expired. */
static void tell_outage(int64_t since_ms)
{
    UNTIL(now_ms() > since_ms + LEASE_MS);
    uint64_t before = workers_grants();

    UNTIL(workers_grants() > before);
    (void)fprintf(stderr, "%s: granted again %lld ms after the master's end\n",
                  stage.test, (long long)(now_ms() - since_ms));
}

static void switched(void)
{
    trio_switched();
    swaps++;
}

static void begin(void)
{
    trio_stand();
    old = trio_leader();
}

static void kill_frozen(int round)
{
    int64_t killed_ms;

    (void)round;
    begin();
    trio_freeze();
    killed_ms = now_ms();
    server_kill(trio_master());
    tell_outage(killed_ms);
    switched();
}

/* The last writes before the master is killed reach no replica. */
static void kill_unheard(int round)
{
    int64_t since_us, killed_ms;
    long long offset, last;

    (void)round;
    begin();
    since_us = history_now_us();
    trio_part_servers(trio_gate(old), true);
    offset = written(old);
    /* The old master's writes from here on are lost, since no replica can read them. A
     * grant may be handed over locally, without a command. On a slow machine the old
     * master may be replaced before its next write. */
    UNTIL(written(old) > offset || !trio_is_as_before());
    more_grants();
    trio_check();
    last = trio_number(old, NUMBERS);
    server_kill(trio_master());
    killed_ms = now_ms();
    proxy_cut(trio_gate(old), SERVERS);
    trio_part_servers(trio_gate(old), false);
    tell_outage(killed_ms);
    switched();
    forgive(since_us, last);
}

static void come_back(int round)
{
    (void)round;
    server_restart(trio_server(old));
    trio_stand();
}

/* In odd rounds the master accepts writes until it is stopped, and again as it continues;
 * both may be lost. */
static void stop(int round)
{
    int64_t since_us, stopped_ms;

    begin();
    since_us = history_now_us();
    if (round % 2 == 0) {
        trio_freeze();
    }
    stopped_ms = now_ms();
    server_pause(trio_master());
    tell_outage(stopped_ms);
    switched();
    until_left();
    if (round % 2 != 0) {
        campaign_lost(since_us);
    }
}

static void thaw(int round)
{
    (void)round;
    server_resume(trio_server(old));
    /* Frozen or not, it now works like any master. */
    (void)trio_takes(old, "CLIENT UNPAUSE");
    trio_stand();
    assert_int_equal(trio_clients(old), 0);
}

static void fail_over(int round)
{
    int64_t since_us;

    begin();
    since_us = history_now_us();
    trio_fail_over(round % TRIO);
    switched();
    forgive_old(since_us);
}

static void stand(int round)
{
    (void)round;
    trio_stand();
}

/* ---- partitions ---- */

/* In even rounds the master is replaced in the meantime, and receives the held-back
 * commands only after that. */
static void part_clients_from_master(int round)
{
    begin();
    trio_part_clients(trio_gate(old), true);
    trio_agree();
    if (round % 2 == 0) {
        trio_fail_over(round % TRIO);
        switched();
        more_grants();
    } else {
        stage_run_for(AWAY_MS);
    }
}

static void join_clients_and_master(int round)
{
    (void)round;
    trio_part_clients(trio_gate(old), false);
    trio_stand();
}

/* Even rounds: from all sentinels; odd ones: from all except one, which reports the
 * change. */
static void part_clients_from_sentinels(int round)
{
    int64_t since_us;

    begin();
    since_us = history_now_us();
    for (int i = round % 2; i < TRIO; i++) {
        trio_part_clients(trio_sentinel_gate(i), true);
    }
    trio_fail_over(round % TRIO);
    switched();
    if (round % 2 == 0) {
        until_left();
        campaign_lost(since_us);
    } else {
        forgive_old(since_us);
    }
}

static void join_clients_and_sentinels(int round)
{
    (void)round;
    for (int i = 0; i < TRIO; i++) {
        trio_part_clients(trio_sentinel_gate(i), false);
    }
    trio_stand();
}

static void part_master_from_servers(int round)
{
    int64_t since_us;

    (void)round;
    begin();
    since_us = history_now_us();
    trio_part_servers(trio_gate(old), true);
    switched();
    forgive_old(since_us);
}

static void join_master_and_servers(int round)
{
    (void)round;
    trio_part_servers(trio_gate(old), false);
    trio_stand();
}

/* ---- sentinels ---- */

static void sentinels_away(int round)
{
    begin();
    trio_sentinels_away(round % 2);
    more_grants();
}

static void sentinels_back(int round)
{
    (void)round;
    trio_sentinels_back();
    trio_stand();
}

static void delay(int sentinel, int64_t ms)
{
    proxy_delay(trio_sentinel_gate(sentinel), COMMANDS, TO_CLIENT, ms);
    proxy_delay(trio_sentinel_gate(sentinel), SUBSCRIPTION, TO_CLIENT, ms);
}

/* In even rounds the sentinel is stopped, and knows only the old master when it
 * continues. */
static void lag(int round)
{
    int lagging = round % TRIO;
    int64_t since_us;

    begin();
    since_us = history_now_us();
    if (round % 2 == 0) {
        sentinel_pause(trio_sentinel(lagging));
    } else {
        delay(lagging, LAGGING_MS);
    }
    trio_fail_over((lagging + 1) % TRIO);
    switched();
    forgive_old(since_us);
}

static void catch_up(int round)
{
    delay(round % TRIO, 0);
    trio_sentinels_back();
    trio_stand();
}

/* All waiters are served, however long that takes. */
#define SENTINELS                                                                        \
    .scene = scene, .check = trio_check, .strikes = 3,                                   \
    .wishes = {.wait_ms = STAGE_WAIT_MS}

CAMPAIGN(master_killed, .strike = kill_frozen, .mend = come_back, SENTINELS)
CAMPAIGN(master_killed_with_its_last_writes, .strike = kill_unheard, .mend = come_back,
         .one_at_a_time = true, SENTINELS)
CAMPAIGN(master_killed_while_locks_are_detached, .scene = scene, .strike = kill_frozen,
         .mend = come_back, .check = trio_check, .strikes = 3,
         .wishes = {.wait_ms = STAGE_WAIT_MS, .detach_every = 4})
CAMPAIGN(master_stopped_that_thaws, .strike = stop, .mend = thaw, SENTINELS)
CAMPAIGN(master_replaced_by_order, .strike = fail_over, .mend = stand, SENTINELS)
CAMPAIGN(parted_clients_and_master, .strike = part_clients_from_master,
         .mend = join_clients_and_master, SENTINELS)
CAMPAIGN(parted_clients_and_sentinels, .strike = part_clients_from_sentinels,
         .mend = join_clients_and_sentinels, SENTINELS)
CAMPAIGN(parted_master_and_servers, .strike = part_master_from_servers,
         .mend = join_master_and_servers, SENTINELS)
CAMPAIGN(sentinels_away, .strike = sentinels_away, .mend = sentinels_back, SENTINELS)
CAMPAIGN(sentinel_lags, .strike = lag, .mend = catch_up, SENTINELS)

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY(campaign_master_killed),
        PLAY(campaign_master_killed_with_its_last_writes),
        PLAY_OURS(campaign_master_killed_while_locks_are_detached),
        PLAY(campaign_master_stopped_that_thaws),
        PLAY(campaign_master_replaced_by_order),
        PLAY(campaign_parted_clients_and_master),
        PLAY(campaign_parted_clients_and_sentinels),
        PLAY(campaign_parted_master_and_servers),
        PLAY(campaign_sentinels_away),
        PLAY(campaign_sentinel_lags),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, trio_open, trio_close);
}

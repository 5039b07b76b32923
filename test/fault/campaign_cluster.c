/* SPDX-License-Identifier: MIT */
/*
 * The campaigns on a cluster of three masters, each with a replica: the slot for whose
 * lock all contend moves, fast and step by step, also to nodes that come and go; its
 * master is replaced by order in each of the three ways, dies, or stands still and thaws.
 *
 * Where the replica has everything when its master is left, nothing is forgiven: a slot
 * that moves, an orderly failover, a master that took no more writes before its end. In
 * every other round it takes writes until then; what its replica did not read of them is
 * lost, and overlaps from then on until the new one serves are forgiven. Everybody is
 * served in the end.
 *
 * Happy path: CAMPAIGN(name, .scene = masters, .strike = what befalls the slot or its
 * master, .mend = what brings it back)
 */
#include "campaign.h"
#include "cluster.h"

#include <stdio.h>

#define NAME "x"
#define MASTERS 3
#define FREEZE_MS 60000 /* longer than any failover here */
#define STEP_MS 150     /* how long a slot has some keys here and some there */
#define MOVES 3         /* of each strike */

static int slot, old, added;
static int64_t struck_us; /* by history.h's clock */

static void masters(void)
{
    cluster_set(MASTERS, 0, "");
    slot = cluster_slot(NAME);
    campaign_url = cluster_url();
}

static void with_replicas(void)
{
    cluster_set(MASTERS, MASTERS, "");
    slot = cluster_slot(NAME);
    campaign_url = cluster_url();
}

/* ---- slots that move ---- */

static void move_fast(int round)
{
    (void)round;
    for (int i = 0; i < MOVES; i++) {
        cluster_move(slot, (cluster_owner(slot) + 1) % MASTERS);
        stage_run_for(STEP_MS / 3);
    }
}

/* Nothing there yet, one key after the other, all but not told. */
static void move_slowly(int round)
{
    uint64_t before = workers_grants();
    int to = (cluster_owner(slot) + 1) % MASTERS;

    (void)round;
    cluster_begin(slot, to);
    for (int keys = 0; keys < 3; keys++) {
        stage_run_for(STEP_MS);
        cluster_carry(slot, to, 1);
    }
    stage_run_for(STEP_MS);
    cluster_carry(slot, to, -1);
    stage_run_for(STEP_MS);
    cluster_end(slot, to);
    (void)fprintf(stderr, "%s: %llu grants while the slot moved\n", stage.test,
                  (unsigned long long)(workers_grants() - before));
}

/* As one step, by servers that can. */
static void move_as_a_whole(int round)
{
    (void)round;
    for (int i = 0; i < MOVES; i++) {
        if (!cluster_move_whole(slot, (cluster_owner(slot) + 1) % MASTERS)) {
            skip();
        }
    }
}

static void add_node(int round)
{
    (void)round;
    added = cluster_add();
    cluster_move(slot, added);
}

static void forget_node(int round)
{
    (void)round;
    cluster_move(slot, round % MASTERS);
    cluster_forget(added);
}

/* ---- masters that are replaced ---- */

static int partner(int node)
{
    return (node + MASTERS) % (2 * MASTERS);
}

static long long offset_of(int node)
{
    redisReply *reply = server_command(cluster_server(node), "INFO replication");
    const char *at = strstr(reply->str, "master_repl_offset:");
    long long offset = at != NULL ? atoll(strchr(at, ':') + 1) : -1;

    freeReplyObject(reply);
    return offset;
}

/* It takes no writes any more, and its replica has all that it took. */
static void freeze(int node)
{
    freeReplyObject(
        server_command(cluster_server(node), "CLIENT PAUSE %d WRITE", FREEZE_MS));
    UNTIL(offset_of(node) == offset_of(partner(node)));
}

static void begin(void)
{
    cluster_stand();
    old = cluster_owner(slot);
    struck_us = history_now_us();
}

static void promoted(void)
{
    cluster_promoted(partner(old));
    swaps++;
}

/* How long nobody was granted: by then all leases of before are over. */
static void tell_outage(int64_t since_ms, const char *what)
{
    UNTIL(now_ms() > since_ms + LEASE_MS);
    uint64_t before = workers_grants();

    UNTIL(workers_grants() > before);
    (void)fprintf(stderr, "%s: granted again %lld ms after %s\n", stage.test,
                  (long long)(now_ms() - since_ms), what);
}

static void fail_over(int round)
{
    int64_t since_ms;

    (void)round;
    begin();
    since_ms = now_ms();
    cluster_fail_over(partner(old), "");
    (void)fprintf(stderr, "%s: a failover took %lld ms\n", stage.test,
                  (long long)(now_ms() - since_ms));
    promoted();
}

static void replace_unasked(int round, const char *how)
{
    begin();
    if (round % 2 == 0) {
        freeze(old);
    }
    cluster_fail_over(partner(old), how);
    promoted();
    freeReplyObject(server_command(cluster_server(old), "CLIENT UNPAUSE"));
    if (round % 2 != 0) {
        campaign_lost(struck_us);
    }
}

static void force(int round)
{
    replace_unasked(round, "FORCE");
}

static void take_over(int round)
{
    replace_unasked(round, "TAKEOVER");
}

static void stand(int round)
{
    (void)round;
    cluster_stand();
}

static void kill_master(int round)
{
    int64_t killed_ms;

    begin();
    if (round % 2 == 0) {
        freeze(old);
    }
    killed_ms = now_ms();
    server_kill(cluster_server(old));
    tell_outage(killed_ms, "the master's death");
    promoted();
    if (round % 2 != 0) {
        campaign_lost(struck_us);
    }
}

static void come_back(int round)
{
    (void)round;
    server_restart(cluster_server(old));
    cluster_stand();
}

/* What it takes as it thaws counts as well. */
static void stop_master(int round)
{
    int64_t stopped_ms;

    begin();
    if (round % 2 == 0) {
        freeze(old);
    }
    stopped_ms = now_ms();
    server_pause(cluster_server(old));
    tell_outage(stopped_ms, "the master stood still");
    promoted();
}

static void thaw(int round)
{
    server_resume(cluster_server(old));
    freeReplyObject(server_command(cluster_server(old), "CLIENT UNPAUSE"));
    cluster_stand();
    if (round % 2 != 0) {
        campaign_lost(struck_us);
    }
}

/* Whoever waits is served, however long that takes. */
#define CLUSTER .check = cluster_check, .wishes = {.wait_ms = STAGE_WAIT_MS}

CAMPAIGN(slot_moves_fast, .scene = masters, .strike = move_fast, CLUSTER)
CAMPAIGN(slot_moves_slowly, .scene = masters, .strike = move_slowly, CLUSTER)
CAMPAIGN(slot_moves_as_a_whole, .scene = masters, .strike = move_as_a_whole, CLUSTER)
CAMPAIGN(slot_moves_to_a_node_that_comes_and_goes, .scene = masters, .strike = add_node,
         .mend = forget_node, .strikes = 3, CLUSTER)
CAMPAIGN(master_replaced_in_order, .scene = with_replicas, .strike = fail_over,
         .mend = stand, CLUSTER)
CAMPAIGN(master_replaced_by_force, .scene = with_replicas, .strike = force, .mend = stand,
         CLUSTER)
CAMPAIGN(master_taken_over, .scene = with_replicas, .strike = take_over, .mend = stand,
         CLUSTER)
CAMPAIGN(master_killed, .scene = with_replicas, .strike = kill_master, .mend = come_back,
         CLUSTER)
CAMPAIGN(master_stopped_that_thaws, .scene = with_replicas, .strike = stop_master,
         .mend = thaw, CLUSTER)

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY_OURS(campaign_slot_moves_fast),
        PLAY_OURS(campaign_slot_moves_slowly),
        PLAY_OURS(campaign_slot_moves_as_a_whole),
        PLAY_OURS(campaign_slot_moves_to_a_node_that_comes_and_goes),
        PLAY_OURS(campaign_master_replaced_in_order),
        PLAY_OURS(campaign_master_replaced_by_force),
        PLAY_OURS(campaign_master_taken_over),
        PLAY_OURS(campaign_master_killed),
        PLAY_OURS(campaign_master_stopped_that_thaws),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, stage_open, stage_close);
}

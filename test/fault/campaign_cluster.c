/* SPDX-License-Identifier: MIT */
/*
 * The campaigns on a cluster of three masters with a replica each. The slot of the
 * contended lock moves, fast or step by step, also to nodes that come and go. Its master
 * is replaced by order in each of the three ways, dies, or is stopped and continues.
 *
 * No overlap is forgiven if only a slot moves, or if the replica has everything when its
 * master is replaced: by an orderly failover, or after the master has stopped accepting
 * writes. In every other round the master accepts writes until its end. The writes that
 * its replica has not read are lost, and overlaps are forgiven from then on until the new
 * master serves. All waiters are served in the end.
 *
 * Or the master is parted from all other nodes, but not from the clients. It continues to
 * grant locks until it notices the partition. The other nodes promote its replica, and
 * clients must switch to it while the old master still reports itself as the master. Then
 * the old master comes back as a replica. Its last writes have reached the replica, or
 * are lost as above. Or clients are on its side, and reach no other node. Or the first
 * addresses in the clients' URL are bad ones, and clients start at the worst moments.
 *
 * Usual course: CAMPAIGN(name, .scene = masters, .strike = what happens to the slot or
 * its master, .mend = what repairs it)
 */
#include "campaign.h"
#include "gated.h"

#include <stdio.h>

#define NAME "x"
#define MASTERS 3
#define FREEZE_MS 60000 /* longer than any failover here */
#define STEP_MS 150     /* for how long some of the slot's keys are at each node */
#define SOME 10         /* grants, so that something was written */
#define IDLE_MS 100     /* without a grant for so long: a long hold is in progress */
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

/* Moves the slot in steps, with pauses: no key has moved, one key after the other, all
 * keys; only then is the new owner announced. */
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

/* Moves the slot in a single step; skips the test if the servers cannot. */
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

static long long info_of(int node, const char *field)
{
    redisReply *reply = server_command(cluster_server(node), "INFO replication");
    const char *at = strstr(reply->str, field);
    long long number = at != NULL ? atoll(strchr(at, ':') + 1) : -1;

    freeReplyObject(reply);
    return number;
}

static long long offset_of(int node)
{
    return info_of(node, "master_repl_offset:");
}

/* Pauses writes at the node, and waits until its replica has all earlier ones. */
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

/* Logs for how long no request was granted. It looks for grants only after all earlier
 * leases have expired. */
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

/* In odd rounds the writes that the master accepts as it continues are lost as well. */
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

/* ---- a master that is parted from the others ---- */

static int64_t parted_ms;
static int alone; /* the node that the others do not know */

static void with_gates(void)
{
    gated_set(MASTERS, MASTERS);
    slot = cluster_slot(NAME);
    campaign_url = cluster_url();
}

/* Waits until a long hold is in progress; with `over`, until it has ended. */
static void until_long_hold(bool over)
{
    uint64_t before;

    do {
        before = workers_grants();
        stage_run_for(IDLE_MS);
    } while (workers_grants() != before);
    UNTIL(!over || workers_grants() != before);
}

static void part(bool streams)
{
    begin();
    parted_ms = now_ms();
    gated_part(old, true);
    if (streams) {
        gated_part_streams(old, true);
    }
}

static void more_grants(void)
{
    uint64_t before = workers_grants();

    UNTIL(workers_grants() > before + SOME);
}

/* Waits until the parted node accepts no more writes, while it still considers itself the
 * master. Returns its replication offset then. */
static long long until_alone(void)
{
    uint64_t before = workers_grants();

    UNTIL(cluster_is_down_by(old));
    (void)fprintf(stderr, "%s: alone, and it knows after %lld ms and %llu grants\n",
                  stage.test, (long long)(now_ms() - parted_ms),
                  (unsigned long long)(workers_grants() - before));
    assert_int_equal(cluster_owner_by(old, slot), old);
    return offset_of(old);
}

/* Waits until the other nodes have replaced the old master, and checks that it still
 * considers itself the slot's owner. `offset` is the old master's replication offset.
 * Returns how many of its bytes the new master has never read. */
static long long until_replaced(long long offset)
{
    long long lost;

    promoted();
    assert_true(cluster_has_failed(partner(old), old));
    assert_true(cluster_is_down_by(old));
    assert_int_equal(cluster_owner_by(old, slot), old);
    lost = offset - info_of(partner(old), "second_repl_offset:") + 1;
    lost = lost > 0 ? lost : 0;
    (void)fprintf(stderr, "%s: replaced after %lld ms, %lld bytes are lost\n", stage.test,
                  (long long)(now_ms() - parted_ms), lost);
    return lost;
}

/* Checks that requests are granted at the new master: the old one accepts nothing. */
static void lead_on(void)
{
    tell_outage(parted_ms, "the partition");
    more_grants();
    assert_true(cluster_is_down_by(old));
}

/* Even rounds: during a hold that lasts until long after the new master leads. Odd
 * rounds: while locks are granted, and such a grant may begin a long hold.
 *
 * The replication stream is not cut: what the old master writes reaches its replica until
 * the replica is promoted. The replica lacks writes only if it is promoted before the old
 * master notices that it is alone. */
static void part_master(int round)
{
    long long offset;

    until_long_hold(round % 2 != 0);
    part(false);
    offset = until_alone();
    if (until_replaced(offset) > 0) {
        campaign_lost(struck_us);
    }
    lead_on();
}

/* A holder whose grant is lost still relies on it when the new master leads. */
static void part_master_and_replica(int round)
{
    long long offset;

    until_long_hold(round % 2 != 0);
    part(true);
    offset = until_alone();
    assert_true(until_replaced(offset) > 0);
    campaign_lost(struck_us);
    lead_on();
}

/* The first seed has no listener, the second is a server outside any cluster, the third
 * is a node that the others do not know and that serves the slot. Then follow the slot's
 * master and its replica, one of which is the former master when clients start. */
static void with_bad_first_seeds(void)
{
    static char url[512];
    int owner;

    with_gates();
    owner = cluster_owner(slot);
    alone = cluster_add_alone(CLUSTER_SLOTS / 2, CLUSTER_SLOTS - 1);
    assert_in_range(slot, CLUSTER_SLOTS / 2, CLUSTER_SLOTS - 1);
    (void)snprintf(url, sizeof(url),
                   "redis-cluster://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d,%s,%s,%s",
                   server_free_port(), server_listen(&stage.server), cluster_port(alone),
                   cluster_address(owner), cluster_address(partner(owner)),
                   cluster_hosts());
    campaign_url = url;
}

/* Half of the clients start while no node serves the slot, as all nodes report except
 * the one that is alone; the others start when the new master leads. They know only
 * the URL. */
static void part_master_and_start_clients(int round)
{
    long long offset;

    (void)round;
    part(false);
    UNTIL(cluster_has_failed(partner(old), old));
    for (int i = 0; i < WORKERS / 2; i++) {
        workers_replace(i);
    }
    offset = until_alone();
    if (until_replaced(offset) > 0) {
        campaign_lost(struck_us);
    }
    for (int i = WORKERS / 2; i < WORKERS; i++) {
        workers_replace(i);
    }
    lead_on();
}

/* Checks that no client was directed to the lone node and acquired a lock there that no
 * other node knows of. */
static void nobody_was_alone(void)
{
    redisReply *reply = server_command(cluster_server(alone), "DBSIZE");

    assert_int_equal(reply->integer, 0);
    freeReplyObject(reply);
    cluster_check();
}

static void join(int round)
{
    (void)round;
    gated_part_streams(old, false);
    gated_part(old, false);
    cluster_stand();
    cluster_check(); /* the new master leads, unless it was too slow for a moment */
}

/* No request is granted until the clients reach the other nodes again. So no overlap is
 * forgiven, although all writes of the old master are lost. */
static void part_master_with_clients(int round)
{
    int64_t alone_ms;
    long long offset;
    uint64_t before;

    (void)round;
    part(true);
    gated_keep_clients_at(old, true);
    offset = until_alone();
    alone_ms = now_ms();
    assert_true(until_replaced(offset) > 0);
    UNTIL(now_ms() > alone_ms + LEASE_MS);
    before = workers_grants();
    stage_run_for(LEASE_MS);
    assert_int_equal(workers_grants(), before);
}

static void join_with_clients(int round)
{
    gated_keep_clients_at(old, false);
    join(round);
}

/* All waiters are served, however long that takes. */
#define CLUSTER .check = cluster_check, .wishes = {.wait_ms = STAGE_WAIT_MS}

CAMPAIGN(slot_moves_fast, .scene = masters, .strike = move_fast, CLUSTER)
CAMPAIGN(slot_moves_slowly, .scene = masters, .strike = move_slowly, CLUSTER)
CAMPAIGN(slot_moves_slowly_while_locks_are_detached, .scene = masters,
         .strike = move_slowly, .check = cluster_check,
         .wishes = {.wait_ms = STAGE_WAIT_MS, .detach_every = 4})
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
/* The waits are longer, since some holds are long, and servers without SPUBLISH do not
 * serve waiters in order. */
#define PARTED .scene = with_gates, .check = cluster_check, PARTED_WISHES
#define PARTED_WISHES                                                                    \
    .mend = join, .wishes.wait_ms = 2 * STAGE_WAIT_MS, .wishes.long_hold_every = 48,     \
    .wishes.long_hold_ms = 3000, .wishes.touch_ms = 50

CAMPAIGN(parted_master, .strike = part_master, PARTED)
CAMPAIGN(parted_master_and_replica, .strike = part_master_and_replica,
         .wishes.lease_ms = 2400, PARTED)
CAMPAIGN(parted_master_with_clients, .scene = with_gates,
         .strike = part_master_with_clients, .mend = join_with_clients, .strikes = 3,
         CLUSTER)
CAMPAIGN(bad_first_seeds, .scene = with_bad_first_seeds,
         .strike = part_master_and_start_clients, .check = nobody_was_alone,
         PARTED_WISHES)

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY_OURS(campaign_slot_moves_fast),
        PLAY_OURS(campaign_slot_moves_slowly),
        PLAY_OURS(campaign_slot_moves_slowly_while_locks_are_detached),
        PLAY_OURS(campaign_slot_moves_as_a_whole),
        PLAY_OURS(campaign_slot_moves_to_a_node_that_comes_and_goes),
        PLAY_OURS(campaign_master_replaced_in_order),
        PLAY_OURS(campaign_master_replaced_by_force),
        PLAY_OURS(campaign_master_taken_over),
        PLAY_OURS(campaign_master_killed),
        PLAY_OURS(campaign_master_stopped_that_thaws),
        PLAY_OURS(campaign_parted_master),
        PLAY_OURS(campaign_parted_master_and_replica),
        PLAY_OURS(campaign_parted_master_with_clients),
        PLAY_OURS(campaign_bad_first_seeds),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, stage_open, stage_close);
}

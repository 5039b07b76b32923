/* SPDX-License-Identifier: MIT
 *
 * The servers: one, or a master and a replica that change roles while all connections
 * stay open. This file decides which server is the master (world.server, whose state
 * counts), where a new connection ends, and when the master's writes reach the replica.
 * Lost writes are declared (world.loss_until_us). Independent of locks.
 *
 * If sentinels watch, a master may also be dead or frozen for some time before it is
 * replaced. Then each hold that is lost is known (stray.c), and nothing is declared. If
 * the clients use the guard, an old master stops accepting writes twelve seconds after
 * its replica has left, and some hosts reach only that master in the meantime.
 *
 * The calls about a cluster's servers are passed on to nodes.c.
 *
 * Usual course: servers_begin(). The agenda delivers each step of the master. faults.c
 * calls servers_swap(), servers_split() and servers_fail_over(). servers_heal() joins
 * servers that are apart, and points the name at the master.
 */
#include "network.h"
#include "nodes.h"
#include "sentinels.h"

static unsigned master, named; /* named: where the name that hosts connect to points */
static bool paused, split, deaf;
static bool dead; /* the master seems to be dead, and the replica will take its place */
static bool cut;  /* steps that are under way to the replica do not arrive */
static unsigned changes;
static int64_t since_us;
static uintptr_t partitions; /* a counter, so that an earlier one starves no master */
static unsigned starved;     /* an old master that accepts no more writes; or SERVERS */
static bool starves;         /* there is such a master, or will be */
static uintptr_t stream;     /* a counter, so that the steps of an earlier one are void */
static int64_t arrives_us;
static int64_t refuses_until_us[SERVERS], frozen_until_us[SERVERS];

int64_t servers_time_us(void *arg)
{
    (void)arg;
    return INT64_C(1700000000000000) + world.now_us +
           (world.now_us - BEGIN_US) * world.plan.drift / 1000000;
}

static struct model_server *replica(void)
{
    return world.servers[1 - master];
}

static bool has_replica(void)
{
    return world.plan.servers == PAIR && !split && !dead;
}

unsigned servers_any(void)
{
    return (unsigned)rng_below(&world.rng, world.plan.servers);
}

const char *servers_quorum_url(void)
{
    static char url[256];
    int length = snprintf(url, sizeof(url), "redis-quorum://");

    for (unsigned i = 0; i < world.plan.servers; i++) {
        length += snprintf(url + length, sizeof(url) - (size_t)length, "%s10.2.0.%u",
                           i > 0 ? "," : "", i + 1);
    }
    return url;
}

unsigned servers_place(const char *host)
{
    unsigned number;

    return sscanf(host, "10.2.0.%u", &number) == 1 && number >= 1 &&
                   number <= world.plan.servers
               ? number - 1
               : NODES_NOWHERE;
}

unsigned servers_route(void)
{
    if (!world.healed && rng_chance(&world.rng, world.plan.balanced)) {
        return servers_any();
    }
    return named;
}

struct model_server *servers_of(const char *key)
{
    return world.plan.clustered ? world.servers[nodes_with(key)] : world.server;
}

unsigned servers_index(const struct model_server *server)
{
    unsigned i = 0;

    while (world.servers[i] != server) {
        i++;
    }
    return i;
}

bool servers_refuse(unsigned server)
{
    if (world.plan.clustered) {
        return nodes_refuse(server);
    }
    return world.now_us < refuses_until_us[server];
}

bool servers_lack_replicas(unsigned server)
{
    return starved == server;
}

int64_t servers_frozen_until(unsigned server)
{
    return world.plan.clustered ? nodes_frozen_until(server) : frozen_until_us[server];
}

unsigned servers_changes(void)
{
    return changes;
}

int64_t servers_since_us(void)
{
    return since_us;
}

void servers_ran(unsigned server)
{
    if (world.plan.clustered) {
        nodes_ran(server);
    } else if (split && world.plan.watched && server == 1 - master) {
        stray_note(world.servers[server]);
    }
}

static void refuse_for_some_time(unsigned server)
{
    if (rng_chance(&world.rng, 500)) {
        refuses_until_us[server] = world.now_us + rng_between(&world.rng, 1, 3 * SECOND);
    }
}

/* ---- replication ---- */

static void arrive(void *arg)
{
    if ((uintptr_t)arg != stream || deaf || cut) {
        return;
    }
    model_server_deliver(replica());
    network_flush();
}

static void on_step(struct model_server *server, void *arg)
{
    int64_t at_us = world.now_us + world.plan.lag_us / 2 +
                    rng_between(&world.rng, 0, world.plan.lag_us / 2);

    (void)server;
    (void)arg;
    arrives_us = at_us > arrives_us ? at_us : arrives_us;
    agenda_add(arrives_us, arrive, (void *)stream);
}

static void replicate(void)
{
    stream++;
    cut = false;
    changes++;
    model_server_replicate(replica(), world.server);
}

static void catch_up(void)
{
    while (model_server_deliver(replica())) {
        ;
    }
}

/* ---- roles ---- */

static void move_name(void *arg)
{
    (void)arg;
    trace("the name points at s%u", master);
    named = master;
}

/* Ends all connections of a server that sentinels promote or demote, except in `unkilled`
 * worlds. An operator who does so leaves them open. */
static void end_connections(struct model_server *server)
{
    if (world.plan.watched && !world.plan.unkilled) {
        model_server_hang_up(server);
    }
}

static void change_master(void)
{
    master = 1 - master;
    changes++;
    since_us = world.now_us;
    world.server = world.servers[master];
    trace("s%u is the master", master);
    if (world.plan.watched) {
        end_connections(world.server);
        world.failovers++;
        sentinels_switch(master);
        return;
    }
    agenda_add(world.now_us + rng_between(&world.rng, 0, world.plan.name_lag_us),
               move_name, NULL);
}

/* Declares the loss of keys that expire early because the new master's clock is ahead. */
static void declare_early_ends(void)
{
    if (world.plan.ends_apart &&
        model_server_time_us(world.server) > model_server_time_us(replica())) {
        declare_loss(world.now_us, 0);
    }
}

static void end_swap(void *arg)
{
    struct model_server *old = world.server;

    (void)arg;
    if (!paused) {
        return;
    }
    paused = false;
    catch_up();
    change_master();
    replicate();
    declare_early_ends();
    model_server_pause_writes(old, false);
    end_connections(old);
    network_flush();
}

/* FAILOVER TO: nothing is lost. */
void servers_swap(void)
{
    if (world.plan.clustered) {
        nodes_swap();
        return;
    }
    if (!has_replica() || paused) {
        return;
    }
    trace("s%u pauses its writes", master);
    paused = true;
    model_server_pause_writes(world.server, true);
    agenda_add(world.now_us + rng_between(&world.rng, 1, 2 * world.plan.lag_us), end_swap,
               NULL);
}

/* Promotes the replica; steps under way are lost. Returns since when writes are lost. */
static int64_t promote(void)
{
    int64_t step_us = model_server_oldest_step_us(replica());
    int64_t from_us = step_us < 0 ? world.now_us
                                  : world.now_us - (servers_time_us(NULL) - step_us);

    stream++;
    model_server_promote(replica());
    change_master();
    return from_us - MS;
}

/* ---- an old master stops accepting writes (min-replicas-to-write 1, max-lag 10) ---- */

static void starve(void *arg)
{
    if ((uintptr_t)arg == partitions && starves) {
        starved = split ? 1 - master : master;
        trace("s%u lacks a replica and accepts no more writes", starved);
        model_server_faults(world.servers[starved])->noreplicas = true;
    }
}

/* The time is ten seconds after the replica's last message, plus up to two until the
 * master's periodic check, by the master's clock. */
static void begin_starving(void)
{
    int64_t us = world.plan.besieged ? 12 * SECOND
                                     : rng_between(&world.rng, 10 * SECOND, 12 * SECOND);

    if (world.plan.guard_ms && !starves) {
        starves = true;
        agenda_add(world.now_us + us * 1000000 / (1000000 + world.plan.drift), starve,
                   (void *)++partitions);
    }
}

static void end_starving(void)
{
    starves = false;
    if (starved < SERVERS) {
        model_server_faults(world.servers[starved])->noreplicas = false;
    }
    starved = SERVERS;
}

static void return_soon(void *arg)
{
    (void)arg;
    if (!world.healed) {
        servers_swap();
    }
}

static void join(void *arg)
{
    (void)arg;
    if (!split) {
        return;
    }
    trace("s%u follows s%u again", 1 - master, master);
    if (world.plan.watched) {
        stray_note(replica());
    }
    end_connections(replica());
    end_starving();
    split = false;
    replicate();
    told_join();
    network_flush();
    if (world.plan.returns && !world.healed && rng_chance(&world.rng, 700)) {
        agenda_add(world.now_us + rng_between(&world.rng, 1, 500 * MS), return_soon,
                   NULL);
    }
}

/* Restarts the server that has just been promoted; its new process does not know that. */
static void restart_promoted(void *arg)
{
    if (split && (uintptr_t)arg == changes && !world.healed) {
        servers_restart(master, 0);
    }
}

/* Cuts some hosts off from all servers except the old master; or from all servers, if the
 * old master will soon be the master again. */
static void cut_hosts_off(int64_t lasts_us)
{
    if (world.plan.returns) {
        network_cut_off(SERVERS + SENTINELS, world.now_us + 3 * SECOND);
    } else {
        network_cut_off(master, world.now_us + lasts_us);
    }
}

static void live_apart(int64_t lasts_us)
{
    int64_t from_us;

    trace("s%u lives on by itself for %.3f ms", master, (double)lasts_us / 1000);
    if (world.plan.guard_ms) {
        cut_hosts_off(lasts_us);
    }
    begin_starving();
    split = true;
    from_us = promote();
    if (world.plan.watched) {
        stray_begin(replica(), from_us);
    } else {
        declare_loss(from_us, lasts_us);
        check_split(from_us, world.loss_until_us);
    }
    told_split(1 - master, from_us);
    agenda_add(world.now_us + lasts_us, join, NULL);
    if (world.plan.besieged && rng_chance(&world.rng, 300)) {
        agenda_add(world.now_us + rng_between(&world.rng, 1, 500 * MS), restart_promoted,
                   (void *)(uintptr_t)changes);
    }
}

static void take_over(void *arg)
{
    (void)arg;
    if (dead) {
        dead = false;
        live_apart(rng_between(&world.rng, 1, world.plan.split_us));
    }
}

/* Makes the master die or freeze. It is replaced some time later, and comes back before
 * or after that. */
static void fall(bool freezes)
{
    int64_t replaced_us = world.now_us + rng_between(&world.rng, 1, world.plan.down_us);
    int64_t back_us = replaced_us +
                      rng_between(&world.rng, -world.plan.down_us, world.plan.split_us);

    trace("s%u %s", master, freezes ? "stands still" : "dies");
    if (freezes) {
        frozen_until_us[master] = back_us;
    } else {
        model_server_restart(world.server, 0);
        refuses_until_us[master] = back_us;
    }
    dead = true;
    cut = rng_chance(&world.rng, 700);
    sentinels_see_down();
    agenda_add(replaced_us, take_over, NULL);
    network_flush();
}

/* Cuts the replica off. It takes the master's place some time later. */
static void come_apart(void)
{
    int64_t us = rng_between(&world.rng, 1, 8 * SECOND);

    trace("s%u does not reach its replica", master);
    dead = cut = true;
    begin_starving();
    network_cut_off(master, world.now_us + us + rng_between(&world.rng, 1, 15 * SECOND));
    agenda_add(world.now_us + us, take_over, NULL);
}

/* REPLICAOF NO ONE: the old master lives on by itself, and its writes are lost when it
 * becomes a replica. */
void servers_split(void)
{
    if (world.plan.clustered) {
        nodes_split();
        return;
    }
    if (!has_replica() || paused) {
        return;
    }
    if (world.plan.guard_ms && rng_chance(&world.rng, 500)) {
        come_apart();
        return;
    }
    if (world.plan.watched && rng_chance(&world.rng, 500)) {
        fall(true);
        return;
    }
    live_apart(rng_between(&world.rng, 1, world.plan.split_us));
}

/* The master dies and loses writes that had not reached the replica. It comes back as a
 * replica. */
void servers_fail_over(void)
{
    int64_t from_us;

    if (world.plan.clustered) {
        nodes_fail_over();
        return;
    }
    if (!has_replica() || paused) {
        return;
    }
    if (world.plan.watched) {
        fall(false);
        return;
    }
    trace("s%u dies", master);
    model_server_restart(world.server, 0);
    refuse_for_some_time(master);
    from_us = promote();
    declare_loss(from_us, 0);
    check_split(from_us, world.loss_until_us);
    told_split(1 - master, from_us);
    told_join();
    replicate();
    network_flush();
}

/* Freezes a server for some time. This is not prolonged while it lasts, or the packets
 * that wait there would change their order. */
void servers_freeze(unsigned server, int64_t us)
{
    if (frozen_until_us[server] < world.now_us) {
        trace("s%u stands still for %.3f ms", server, (double)us / 1000);
        frozen_until_us[server] = world.now_us + us;
    }
}

void servers_restart(unsigned server, int64_t lost_us)
{
    trace("s%u restarts, %s", server,
          lost_us > 0    ? "the last writes are lost"
          : lost_us == 0 ? "with its data"
                         : "empty");
    if (world.plan.clustered) {
        nodes_restart(server);
        return;
    }
    if (server == master) {
        paused = false;
    }
    model_server_restart(world.servers[server], lost_us);
    if (has_replica()) {
        replicate();
    }
    refuse_for_some_time(server);
    network_flush();
}

void servers_exchange(unsigned server)
{
    trace("another server, which has long been up, takes the place of s%u", server);
    servers_restart(server, -1);
    model_server_set_uptime(world.servers[server], 3600 * SECOND);
}

/* Completes a change of roles, or the move of a slot, first. */
void servers_calm_down(void)
{
    if (world.plan.clustered) {
        slots_heal();
        return;
    }
    end_swap(NULL);
    deaf = world.plan.deaf;
}

void servers_heal(void)
{
    if (world.plan.clustered) {
        slots_heal();
        nodes_heal();
        return;
    }
    for (unsigned i = 0; i < SERVERS; i++) {
        refuses_until_us[i] = 0;
    }
    dead = false;
    end_swap(NULL);
    end_starving();
    join(NULL);
    if (deaf || cut) {
        replicate();
    }
    deaf = false;
    named = master;
}

void servers_begin(void)
{
    master = named = 0;
    paused = split = deaf = dead = cut = starves = false;
    starved = SERVERS;
    arrives_us = since_us = 0;
    changes = 0;
    for (unsigned i = 0; i < world.plan.servers; i++) {
        refuses_until_us[i] = frozen_until_us[i] = 0;
        world.servers[i] = model_server_new(servers_time_us, NULL);
        model_server_set_number(world.servers[i], i + 1);
        model_server_set_uptime(world.servers[i], world.plan.uptime_us);
        model_server_know(world.servers[i], world.plan.knows[i % PAIR]);
        model_server_remember(world.servers[i], 3 * SECOND);
        model_server_on_step(world.servers[i], on_step, NULL);
        model_server_takes_what_is_left(world.servers[i], !world.plan.ends_by_clock);
    }
    world.server = world.servers[master];
    for (unsigned i = 0; world.plan.quorum && i < world.plan.servers; i++) {
        model_server_step_clock(world.servers[i],
                                rng_between(&world.rng, 0, world.plan.apart_us));
    }
    if (world.plan.clustered) {
        nodes_begin();
        slots_begin();
    }
    if (!has_replica()) {
        return;
    }
    model_server_step_clock(replica(), world.plan.apart_us);
    replicate();
}

void servers_end(void)
{
    if (world.plan.clustered) {
        nodes_end();
    }
    for (unsigned i = 0; i < world.plan.servers; i++) {
        model_server_free(world.servers[i]);
    }
}

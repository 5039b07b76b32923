/* SPDX-License-Identifier: MIT
 *
 * Draws the faults and executes them. Declares those that destroy data of the server:
 * until world.loss_until_us two may hold at once.
 *
 * Usual course: faults_begin() puts the plan's faults on the agenda, and each fault puts
 * its next one there; faults_end() repairs everything.
 */
#include "look.h"
#include "network.h"
#include "nodes.h"
#include "sentinels.h"

#include "redis/slot.h"

#include <stdio.h>
#include <string.h>

static int64_t clock_off_us;
static unsigned refusal; /* a count, so that the end of an earlier one is ignored */

static int64_t up_to(int64_t us)
{
    return rng_between(&world.rng, 1, us);
}

static bool even(void)
{
    return rng_chance(&world.rng, 500);
}

static struct host *any_host(void)
{
    return &world.hosts[rng_below(&world.rng, world.plan.hosts)];
}

static struct wire *any_wire(void)
{
    struct wire *found = NULL;
    uint64_t count = 0;

    for (struct wire *wire = wires; wire != NULL; wire = wire->next) {
        if (wire->fd >= 0 && rng_below(&world.rng, ++count) == 0) {
            found = wire;
        }
    }
    return found;
}

static void ask(const char *key, const char *words, struct buffer *answer)
{
    model_server_ask_words(servers_of(key), words, answer);
    network_flush();
}

static void evict(const char *kind, const char *name)
{
    struct buffer words = {0}, answer = {0};

    buffer_printf(&words, "DEL %s%s%s", load_prefix(), kind, name);
    buffer_append(&words, "", 1);
    trace("evicted: %s%s", kind, name);
    ask(words.data + strlen("DEL "), words.data, &answer);
    buffer_free(&words);
    buffer_free(&answer);
}

static const char *any_name(void)
{
    return load_name((unsigned)rng_below(&world.rng, world.plan.names));
}

void declare_loss(int64_t since_us, int64_t within_us)
{
    if (world.now_us > world.loss_until_us || since_us < world.loss_us) {
        world.loss_us = since_us;
    }
    if (world.loss_until_us < world.now_us + within_us + LONGEST_LEASE_US) {
        world.loss_until_us = world.now_us + within_us + LONGEST_LEASE_US;
    }
}

/* ---- connections ---- */

/* Resets a connection. The server notices that at once, or as late as a packet from the
 * host would arrive, or never: then it still counts the subscriber. */
static void reset(void)
{
    struct wire *wire = any_wire();

    if (wire == NULL) {
        return;
    }
    wire->up_dead = wire->up_dead || rng_chance(&world.rng, world.plan.ghostly);
    wire_reset(wire, !wire->up_dead && even());
}

static void half_open(void)
{
    struct wire *wire = any_wire();
    uint64_t which = rng_below(&world.rng, 3);

    if (wire == NULL) {
        return;
    }
    trace("w%d is half open: %s", wire->id,
          (const char *[]){"up", "down", "both ways"}[which]);
    wire->up_dead = wire->up_dead || which != 1;
    wire->down_dead = wire->down_dead || which != 0;
}

/* Delays one direction of a wire. So the server may run a request that the host has given
 * up, after the next requests of the host. */
static void clog_one(void)
{
    struct wire *wire = any_wire();

    if (wire != NULL) {
        wire_clog(wire, !rng_chance(&world.rng, 300),
                  world.now_us + up_to(even() ? SECOND : LONGEST_CLOG_US));
    }
}

/* ---- hosts ---- */

static void stall(void)
{
    host_stall(any_host(), world.now_us + up_to(world.plan.stall_us));
}

static void reopen(void *arg)
{
    struct host *host = arg;

    if (world.healed || host->client != NULL) {
        return;
    }
    if (host_can_run(host) && !host->closing) {
        host_open(host);
    } else {
        agenda_add(world.now_us + 10 * MS, reopen, host);
    }
}

static void die(void)
{
    struct host *host = any_host();

    if (host->client == NULL || host->busy) {
        return;
    }
    /* its connections may vanish silently, as in a power cut */
    for (struct wire *wire = wires; wire != NULL; wire = wire->next) {
        if (wire->host == host && wire->fd >= 0 && even()) {
            wire->up_dead = true;
        }
    }
    host_kill(host);
    agenda_add(world.now_us + up_to(SECOND), reopen, host);
}

void faults_end_client(struct host *host)
{
    if (even()) {
        host_kill(host);
    } else {
        host_close(host);
    }
    agenda_add(world.now_us + up_to(6 * SECOND), reopen, host);
}

static void close_one(void)
{
    struct host *host = any_host();

    if (host->client == NULL || host->closing || !host_can_run(host)) {
        return;
    }
    host_close(host);
    agenda_add(world.now_us + up_to(6 * SECOND), reopen, host);
}

/* ---- the server's replies ---- */

/* Returns the commands that are denied during the whole run, or NULL. */
static const char *denied(void)
{
    if (world.plan.unkillable) {
        return world.plan.nameless ? "client|kill info" : "client|kill";
    }
    return world.plan.nameless ? "info" : NULL;
}

static void repair_servers(void)
{
    for (unsigned i = 0; i < world.plan.servers; i++) {
        *model_server_faults(world.servers[i]) = (struct model_faults){
            .denied_commands = denied(),
            .noreplicas = servers_lack_replicas(i),
        };
    }
}

static struct model_server *any_server(void)
{
    return world.servers[servers_any()];
}

static void end_refusal(void *arg)
{
    if ((uintptr_t)arg != refusal) {
        return;
    }
    trace("the server answers again");
    repair_servers();
}

static void plan_end_of_refusal(void)
{
    agenda_add(world.now_us + up_to(3 * SECOND), end_refusal,
               (void *)(uintptr_t)++refusal);
}

static void refuse(void)
{
    struct model_faults *faults = model_server_faults(any_server());
    bool *const kinds[] = {&faults->oom,        &faults->loading,       &faults->busy,
                           &faults->misconf,    &faults->noreplicas,    &faults->readonly,
                           &faults->masterdown, &faults->forget_scripts};
    static const char *const texts[] = {"OOM",        "LOADING",    "BUSY",
                                        "MISCONF",    "NOREPLICAS", "READONLY",
                                        "MASTERDOWN", "NOSCRIPT"};
    uint64_t kind = rng_below(&world.rng, sizeof(kinds) / sizeof(kinds[0]));

    if (rng_chance(&world.rng, 100)) {
        trace("the server takes no more clients");
        faults->max_clients = 1;
    } else {
        trace("the server says %s", texts[kind]);
        *kinds[kind] = true;
    }
    plan_end_of_refusal();
}

/* Denies channels, publishing, or the counting of subscribers: the clients have to poll.
 */
static void deny_channels(void)
{
    struct model_server *server = any_server();
    const char *const commands[] = {NULL, "publish", "pubsub|numsub"};
    uint64_t which = rng_below(&world.rng, 3);

    trace("a server denies %s", which ? commands[which] : "channels");
    if (which) {
        model_server_faults(server)->denied_commands = commands[which];
    } else {
        model_server_deny_channels(server, true);
    }
    network_flush();
    plan_end_of_refusal();
}

static void one_error(void)
{
    static const char *const errors[] = {
        "ERR something is wrong",
        "BUSY Redis is busy running a script.",
        "LOADING Redis is loading the dataset in memory",
        "READONLY You can't write against a read only replica.",
        "NOSCRIPT No matching script. Please use EVAL.",
        "OOM command not allowed when used memory > 'maxmemory'."};

    model_server_faults(any_server())->error_once = errors[rng_below(&world.rng, 6)];
}

static void no_script(void)
{
    trace("the scripts are flushed");
    model_server_flush_scripts(any_server());
}

/* Freezes a server. No effect in a cluster, whose nodes freeze by FAULT_NODE. */
static void freeze_one(void)
{
    servers_freeze(servers_any(), up_to(even() ? 300 * MS : 8 * SECOND));
}

/* ---- the server's data ---- */

static void restart_with_all(void)
{
    servers_restart(servers_any(), 0);
}

static void lose(void)
{
    declare_loss(world.now_us, 0);
    if (!world.plan.guard_ms && even()) {
        evict("", any_name());
    } else {
        servers_restart(servers_any(), even() ? up_to(2 * SECOND) : -1);
    }
}

/* Some hosts may be cut off in the meantime, so that they do not learn of it. Of a
 * quorum, several servers may move at once. */
static void exchange(void)
{
    bool many = world.plan.quorum && even();

    declare_loss(world.now_us, 0);
    if (even()) {
        network_cut_off(SERVERS + SENTINELS, world.now_us + up_to(8 * SECOND));
    }
    servers_exchange(servers_any());
    for (unsigned i = 0; many && i < world.plan.servers; i++) {
        if (even()) {
            servers_exchange(i);
        }
    }
}

static void evict_queue(void)
{
    const char *name = any_name();

    char braced[64] = "{";

    evict(QUEUE ":", name);
    evict(RW_QUEUE ":", name);
    strcat(strcat(braced, name), "}");
    evict(QUEUE, braced);
    evict(RW_QUEUE, braced);
}

static void evict_fence(void)
{
    char tag[LW__SLOT_TAG_SIZE], braced[16];

    if (!world.plan.clustered) {
        evict("lockwire:", "fence");
        return;
    }
    (void)lw__slot_tag(nodes_slot(any_name()), tag);
    (void)snprintf(braced, sizeof(braced), "{%s}", tag);
    evict("lockwire:fence:", braced);
}

static void set_clock(void)
{
    int64_t off_us = rng_between(&world.rng, -60 * SECOND, 60 * SECOND);
    int64_t by_us = off_us - clock_off_us;

    clock_off_us = off_us;
    trace("the server's clock is set by %.3f ms", (double)by_us / 1000);
    if (by_us > 0) { /* leases expire early */
        declare_loss(world.now_us, 0);
    }
    model_server_step_clock(world.server, by_us);
}

static void come_as_stranger(void)
{
    struct buffer words = {0}, answer = {0};
    const char *name = any_name();

    buffer_printf(&words, "SET %s %s NX PX %d", name,
                  rng_chance(&world.rng, 500) ? "stranger" : "stranger:1:2000-",
                  (int)rng_between(&world.rng, 1, 3000));
    buffer_append(&words, "", 1);
    ask(name, words.data, &answer);
    if (answer.len && answer.data[0] == '+') {
        trace("a stranger takes %s", name);
        check_nobody_believes(name);
    }
    buffer_free(&words);
    buffer_free(&answer);
}

/* ---- operators ---- */

/* The break's command may take as long as any other, also on a clogged link. */
static void break_lock(void)
{
    declare_loss(world.now_us, 2 * LONGEST_CLOG_US);
    inquire(any_host(), any_name(), true);
}

static void inspect(void)
{
    inquire(any_host(), any_name(), false);
}

/* ---- the agenda ---- */

static void (*const makers[FAULTS])(void) = {
    [FAULT_RESET] = reset,
    [FAULT_HALF_OPEN] = half_open,
    [FAULT_CLOG] = clog_one,
    [FAULT_STALL] = stall,
    [FAULT_DEATH] = die,
    [FAULT_CLOSE] = close_one,
    [FAULT_NOSCRIPT] = no_script,
    [FAULT_REFUSAL] = refuse,
    [FAULT_ERROR] = one_error,
    [FAULT_CHANNELS] = deny_channels,
    [FAULT_RESTART] = restart_with_all,
    [FAULT_STRANGER] = come_as_stranger,
    [FAULT_QUEUE] = evict_queue,
    [FAULT_FENCE] = evict_fence,
    [FAULT_LOSS] = lose,
    [FAULT_CLOCK] = set_clock,
    [FAULT_SWAP] = servers_swap,
    [FAULT_SPLIT] = servers_split,
    [FAULT_FAILOVER] = servers_fail_over,
    [FAULT_BREAK] = break_lock,
    [FAULT_INSPECT] = inspect,
    [FAULT_SENTINEL] = sentinels_trouble,
    [FAULT_SLOT] = slots_move,
    [FAULT_NODE] = nodes_trouble,
    [FAULT_MEMBER] = slots_change_member,
    [FAULT_FREEZE] = freeze_one,
    [FAULT_EXCHANGE] = exchange,
    [FAULT_FOREIGN] = foreign_come,
};

static void plan_next(uintptr_t fault);

static void happen(void *arg)
{
    uintptr_t fault = (uintptr_t)arg;

    if (world.healed || world.calm_us != NEVER) {
        return;
    }
    makers[fault]();
    plan_next(fault);
}

static void plan_next(uintptr_t fault)
{
    agenda_add(world.now_us + up_to(2 * world.plan.every_us[fault]), happen,
               (void *)fault);
}

static void calm_down(void *arg)
{
    (void)arg;
    if (world.healed) {
        return;
    }
    trace("nothing happens any more");
    world.calm_us = world.now_us;
    servers_calm_down();
}

void faults_begin(void)
{
    clock_off_us = 0;
    refusal = 0;
    repair_servers();
    for (uintptr_t i = 0; i < FAULTS; i++) {
        if (world.plan.every_us[i]) {
            plan_next(i);
        }
    }
    if (world.plan.calm_us) {
        agenda_add(world.now_us + world.plan.calm_us, calm_down, NULL);
    }
}

void faults_end(void)
{
    trace("everything works again");
    servers_heal();
    sentinels_heal();
    for (unsigned i = 0; i < world.plan.hosts; i++) {
        world.hosts[i].stalled_until_us = world.now_us;
    }
    refusal++;
    network_bury();
    repair_servers();
    foreign_end();
}

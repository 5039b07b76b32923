/* SPDX-License-Identifier: MIT
 *
 * The processes that use the library, called hosts, each with a loop and a client of its
 * own. Here they take turns in one thread. This file decides in which order they run, and
 * advances the time. Independent of what they do with locks.
 *
 * Usual course: world_run_until() runs the hosts that have something to do, in any order.
 * When there are none, the time jumps to the next event. A host that stalls is skipped. A
 * host whose callback takes time stays on the stack while the others run.
 */
#include "nodes.h"
#include "sentinels.h"

/* All waiters get a result within this once there are no more faults. It is so long
 * because a server's clock that was set back by a minute or two prolongs every lease by
 * as much. */
#define HEALED_US (200 * SECOND)
#define SETTLED_US (20 * SECOND) /* all links are up again */
#define TURN_US 30               /* the longest time that a turn of a loop takes */

struct world world;

static void on_closed(struct lw_client *client, void *arg)
{
    struct host *host = arg;

    trace("h%d has closed its client", host->id);
    if (!host->closing || host->in_call || client != host->client) {
        violation("h%d: a close callback that nobody waits for", host->id);
    }
    if (world.now_us > host->close_due_us && host->stall_end_us < host->close_due_us) {
        violation("h%d: closing took too long", host->id);
    }
    host->closing = false;
    load_client_gone(host);
    host->client = NULL;
    lw_client_free(client);
}

static void on_link(struct lw_client *client, int up, const char *why, void *arg)
{
    struct host *host = arg;

    trace("h%d's link is %s: %s", host->id, up ? "up" : "down", why);
    check_link(host, client, up);
}

void host_open(struct host *host)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    int status;

    options.request_timeout_ms = world.plan.request_timeout_ms;
    options.connect_timeout_ms = world.plan.request_timeout_ms;
    options.claim_ms = world.plan.claim_ms;
    options.local_turns = world.plan.local_turns;
    options.backoff_max_ms = 1000;
    options.guard_ms = world.plan.guard_ms;
    options.prefix = *load_prefix() ? load_prefix() : NULL;
    options.link = on_link;
    options.arg = host;
    host->link_up = false;
    world.current = host;
    host->life++;
    trace("h%d opens a client", host->id);
    if (world.plan.secretive) {
        options.sentinel_password = SENTINEL_PASSWORD;
    }
    status = lw_client_new(host->base,
                           world.plan.quorum      ? servers_quorum_url()
                           : world.plan.watched   ? sentinels_url()
                           : world.plan.clustered ? nodes_url()
                                                  : "unix:///model",
                           &options, &host->client);
    if (status != 0) {
        violation("lw_client_new: %s", lw_strerror(status));
    }
    host->ready = true;
    world.current = NULL;
}

void host_close(struct host *host)
{
    struct host *before = world.current;
    int status;

    world.current = host;
    trace("h%d closes its client", host->id);
    host->closing = true;
    host->close_due_us = world.now_us + 5 * SECOND + 20 * MS;
    host->in_call++;
    status = lw_client_close(host->client, on_closed, host);
    host->in_call--;
    if (status != 0) {
        violation("lw_client_close: %s", lw_strerror(status));
    }
    host->ready = true;
    world.current = before;
}

void host_kill(struct host *host)
{
    struct lw_client *client = host->client;
    struct host *before = world.current;

    world.current = host;
    trace("h%d dies", host->id);
    host->client = NULL;
    host->closing = false;
    host->in_call++;
    lw_client_free(client);
    host->in_call--;
    load_client_gone(host);
    network_collect(host);
    host->ready = true;
    world.current = before;
}

bool host_can_run(const struct host *host)
{
    return !host->busy && host->stalled_until_us <= world.now_us;
}

void host_stall(struct host *host, int64_t until_us)
{
    trace("h%d stalls for %.3f ms", host->id, (double)(until_us - world.now_us) / 1000);
    if (until_us > host->stalled_until_us) {
        host->stalled_until_us = host->stall_end_us = until_us;
    }
}

void host_take_time(int64_t us)
{
    struct host *host = world.current;

    keeping_review();
    trace("a callback takes %.3f ms", (double)us / 1000);
    host->busy = true;
    world.current = NULL;
    world_run_until(world.now_us + us);
    world.current = host;
    host->busy = false;
    if (host->stall_end_us < world.now_us) {
        host->stall_end_us = world.now_us;
    }
}

static void run_host(struct host *host)
{
    host->ready = false;
    host->idle = false;
    host->wake_us = NEVER;
    world.current = host;
    world.now_us += rng_between(&world.rng, 1, TURN_US);
    if (event_base_loop(host->base, EVLOOP_ONCE) == 1) {
        host->idle = true; /* it has no events at all */
    }
    network_collect(host);
    world.current = NULL;
    if (!host->idle) {
        host->ready = true;
    }
    check_beliefs();
}

static bool run_ready_hosts(void)
{
    unsigned first = (unsigned)rng_below(&world.rng, world.plan.hosts);
    bool any = false;

    for (unsigned i = 0; i < world.plan.hosts; i++) {
        struct host *host = &world.hosts[(first + i) % world.plan.hosts];

        if ((host->ready || host->wake_us <= world.now_us) && host_can_run(host)) {
            run_host(host);
            any = true;
        }
    }
    return any;
}

static int64_t next_us(void)
{
    int64_t next = agenda_next();

    for (unsigned i = 0; i < world.plan.hosts; i++) {
        const struct host *host = &world.hosts[i];
        int64_t at = host->ready ? world.now_us : host->wake_us;

        if (host->busy) {
            continue;
        }
        if (at < host->stalled_until_us) {
            at = host->stalled_until_us;
        }
        if (at < next) {
            next = at;
        }
    }
    return next;
}

void world_run_until(int64_t us)
{
    while (world.now_us < us) {
        int64_t next;

        agenda_run_due();
        if (run_ready_hosts()) {
            continue;
        }
        next = next_us();
        if (next > us) {
            next = us;
        }
        if (next > world.now_us) {
            world.now_us = next;
        }
    }
}

void world_begin(uint64_t seed)
{
    world = (struct world){.seed = seed, .now_us = BEGIN_US};
    world.calm_us = NEVER;
    world.loss_until_us = world.split_until_us = -1;
    rng_seed(&world.rng, seed);
    plan_draw();
    virtual_begin();
    servers_begin();
    sentinels_begin();
    network_begin();
    check_scripts_begin();
    for (unsigned i = 0; i < world.plan.hosts; i++) {
        struct host *host = &world.hosts[i];

        host->id = (int)i;
        host->wake_us = NEVER;
        host->base = event_base_new();
        if (host->base == NULL) {
            violation("event_base_new failed");
        }
        host_open(host);
    }
}

void world_end(void)
{
    load_end();
    for (unsigned i = 0; i < world.plan.hosts; i++) {
        event_base_free(world.hosts[i].base);
    }
    network_end();
    servers_end();
    sentinels_end();
    stray_end();
    agenda_clear();
    virtual_end();
}

/* Closes all clients gracefully. Then all keys that have a TTL expire. */
static void wind_up(void)
{
    for (unsigned i = 0; i < world.plan.hosts; i++) {
        if (world.hosts[i].client != NULL && !world.hosts[i].closing) {
            host_close(&world.hosts[i]);
        }
    }
    world_run_until(world.now_us + 6 * SECOND);
    for (unsigned i = 0; i < world.plan.hosts; i++) {
        if (world.hosts[i].client != NULL) {
            violation("h%u: closing has not called back", i);
        }
    }
    world_run_until(world.now_us + 300 * SECOND);
    check_end();
}

void world_run(uint64_t seed)
{
    int64_t end_us;

    world_begin(seed);
    load_begin();
    faults_begin();
    end_us = world.now_us + world.plan.faults_us;
    while (world.now_us < end_us && world.op_count < world.plan.ops) {
        world_run_until(world.now_us + SECOND);
    }
    faults_end();
    world.healed = true;
    world.healed_us = world.now_us;
    while (world.now_us < world.healed_us + SETTLED_US ||
           (!load_is_over() && world.now_us < world.healed_us + HEALED_US)) {
        world_run_until(world.now_us + SECOND);
    }
    check_healed();
    inquire_end();
    wind_up();
    world_end();
}

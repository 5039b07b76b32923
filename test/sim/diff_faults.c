/* SPDX-License-Identifier: MIT
 *
 * Faults that both servers can have, and the subscribers: switched on and off between
 * steps, on the real server by its administrator's commands, on the model by its
 * switches.
 *
 * Usual course: diff_step_fault() ends the fault that is on, or begins one.
 */
#include "diff.h"

#include <stdio.h>
#include <string.h>

static void out_of_memory(struct model_faults *faults, bool on)
{
    faults->oom = on;
}

static void no_replicas(struct model_faults *faults, bool on)
{
    faults->noreplicas = on;
}

static void no_publish(struct model_faults *faults, bool on)
{
    faults->denied_commands = on ? "publish hset" : NULL;
}

static void no_counting(struct model_faults *faults, bool on)
{
    faults->denied_commands = on ? "pubsub|numsub info" : NULL;
}

static void no_reading(struct model_faults *faults, bool on)
{
    faults->denied_commands = on ? "get zrange eval script|load client|setname" : NULL;
}

static void read_only(struct model_faults *faults, bool on)
{
    faults->readonly = on;
}

static void some_keys(struct model_faults *faults, bool on)
{
    faults->allowed_prefix = on ? "lockwire:" : NULL;
}

static void no_channels(struct model_faults *faults, bool on)
{
    faults->deny_channels = on;
}

static void other_policy(struct model_faults *faults, bool on)
{
    faults->eviction_policy = on ? "allkeys-lru" : NULL;
}

static const struct {
    const char *on, *off;
    void (*model)(struct model_faults *faults, bool on);
} faults[] = {
    {"config set maxmemory 1", "config set maxmemory 0", out_of_memory},
    {"config set min-replicas-to-write 1", "config set min-replicas-to-write 0",
     no_replicas},
    {"acl setuser default -publish -hset", "acl setuser default +@all", no_publish},
    {"acl setuser default -pubsub|numsub -info", "acl setuser default +@all",
     no_counting},
    {"acl setuser default -get -zrange -eval -script|load -client|setname",
     "acl setuser default +@all", no_reading},
    {"acl setuser default resetkeys ~lockwire:*", "acl setuser default allkeys",
     some_keys},
    {"acl setuser default resetchannels", "acl setuser default allchannels", no_channels},
    {"replicaof 127.0.0.1 1", "replicaof no one",
     read_only}, /* a master that does not exist */
    {"config set maxmemory-policy allkeys-lru", "config set maxmemory-policy noeviction",
     other_policy},
};

#define FAULTS (sizeof(faults) / sizeof(faults[0]))

/* Closes the links of subscribers that both servers disconnect, as their channels are
 * denied. */
static void close_the_closed(struct diff *diff)
{
    for (int i = 0; i < DIFF_LINKS; i++) {
        struct diff_link *link = &diff->listen[i];
        if (link->open && model_conn_closing(link->model)) {
            diff_close(diff, link);
        }
    }
}

/* Returns true if 6.2 has the fault, too. It cannot deny a subcommand, and on its
 * replicas scripts see expired keys (the client sends nothing to replicas). */
static bool is_of_6_2(int fault)
{
    return strchr(faults[fault].on, '|') == NULL && faults[fault].model != read_only;
}

static void begin_fault(struct diff *diff, int fault)
{
    if (diff->version < 700 && !is_of_6_2(fault)) {
        return;
    }
    diff->fault = fault;
    diff_admin(diff, faults[fault].on);
    faults[fault].model(model_server_faults(diff->model), true);
    if (faults[fault].model == no_channels) {
        model_server_deny_channels(diff->model, true);
    }
    close_the_closed(diff);
}

void diff_clear_fault(struct diff *diff)
{
    if (diff->fault < 0) {
        return;
    }
    diff_admin(diff, faults[diff->fault].off);
    faults[diff->fault].model(model_server_faults(diff->model), false);
    diff->fault = -1;
}

void diff_step_fault(struct diff *diff)
{
    if (diff->fault >= 0) {
        diff_clear_fault(diff);
    } else if (rng_chance(&diff->rng, 400)) {
        begin_fault(diff, (int)rng_below(&diff->rng, FAULTS));
    }
}

/* Subscribes a client, again if it is subscribed (its heartbeat), or disconnects it. One
 * link is a foreign client's, which subscribes to a pattern. */
void diff_step_listen(struct diff *diff)
{
    int index = (int)rng_below(&diff->rng, DIFF_LINKS);
    struct diff_link *link = &diff->listen[index];
    char channel[64];

    if (link->open && rng_chance(&diff->rng, index == DIFF_STRANGER ? 900 : 400)) {
        diff_close(diff, link);
        return;
    }
    if (index == DIFF_STRANGER && rng_chance(&diff->rng, 700)) {
        return;
    }
    if (!link->open) {
        diff_open(diff, link);
    }
    diff_client_channel(index, channel, sizeof(channel));
    arguments_clear(diff);
    arguments_add(diff, index == DIFF_STRANGER ? "psubscribe" : "subscribe");
    arguments_add(diff, "%s", index == DIFF_STRANGER ? "lockwire:2:c0f*" : channel);
    diff_send_on(diff, link);
    if (rng_chance(&diff->rng, 100)) {
        arguments_words(diff, rng_chance(&diff->rng, 500) ? "ping" : "get a");
        diff_send_on(diff, link);
    }
}

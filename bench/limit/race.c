/* SPDX-License-Identifier: MIT */
/*
 * Limits D, L and N the usual way: the release deletes the key and publishes, and waiters
 * that receive the message try SET NX. With `race` one waiter of each process tries, with
 * `herd` all of them. Owns its script. A new waiter always tries at once.
 *
 * Usual course: a slot tries, fails and queues here; after a message it tries again,
 * holds, and releases.
 */
#include "limit.h"
#include "wire.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

static const char release_script[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end "
    "redis.call('DEL', KEYS[1]) redis.call('PUBLISH', KEYS[2], '0') return 1";

struct slot {
    TAILQ_ENTRY(slot) next;
    bool queued, trying;
    unsigned long heard; /* number of messages at its last try */
    char *try, *release;
    size_t try_size, release_size;
    struct measure_row row;
};

static const struct measure_options *options;
static struct event_base *base;
static redisAsyncContext *orders, *messages;
static struct slot *slots;
static char sha[41], channel[128];
static unsigned finished;
static unsigned long heard;
static uint64_t errors;
static bool herd, subscribed;
static TAILQ_HEAD(, slot) waiting = TAILQ_HEAD_INITIALIZER(waiting);

static void try_again(void);
static void ask(void *arg);

static void on_released(redisAsyncContext *context, void *answer, void *arg)
{
    const redisReply *reply = answer;
    struct slot *slot = arg;

    (void)context;
    wire_check(reply);
    errors += reply->integer != 1;
    slot->row.done = measure_now();
    measure_row(&slot->row);
    if (options->workload != 'D') {
        limit_later(base, measure_pause_us(options), ask, slot);
    } else if (++finished == options->slots) {
        event_base_loopbreak(base);
    }
}

static void held(void *arg)
{
    struct slot *slot = arg;

    slot->row.released = measure_now();
    redisAsyncFormattedCommand(orders, on_released, slot, slot->release,
                               slot->release_size);
}

static void on_tried(redisAsyncContext *context, void *answer, void *arg)
{
    const redisReply *reply = answer;
    struct slot *slot = arg;

    (void)context;
    wire_check(reply);
    slot->trying = false;
    if (reply->type != REDIS_REPLY_NIL) {
        if (slot->queued) {
            TAILQ_REMOVE(&waiting, slot, next);
        }
        slot->queued = false;
        slot->row.granted = measure_now();
        limit_later(base, options->hold_us, held, slot);
        return;
    }
    if (!slot->queued) {
        TAILQ_INSERT_TAIL(&waiting, slot, next);
    }
    slot->queued = true;
    if (slot->heard != heard) {
        try_again();
    }
}

static void try(struct slot *slot)
{
    if (slot->trying) {
        return;
    }
    slot->trying = true;
    slot->heard = heard;
    redisAsyncFormattedCommand(orders, on_tried, slot, slot->try, slot->try_size);
}

static void try_again(void)
{
    struct slot *slot = TAILQ_FIRST(&waiting);

    if (!herd && slot != NULL) {
        try(slot);
    }
    if (!herd) {
        return;
    }
    TAILQ_FOREACH(slot, &waiting, next)
    {
        if (slot->heard != heard) {
            try(slot);
        }
    }
}

static void ask(void *arg)
{
    struct slot *slot = arg;

    slot->row = (struct measure_row){.slot = slot - slots, .asked = measure_now()};
    try(slot);
}

static void on_message(redisAsyncContext *context, void *answer, void *arg)
{
    const redisReply *reply = answer;

    (void)context, (void)arg;
    wire_check(reply);
    if (reply->elements != 3 || reply->element[2]->type != REDIS_REPLY_STRING) {
        subscribed = true;
        event_base_loopbreak(base);
        return;
    }
    heard++;
    try_again();
}

static void prepare(struct slot *slot)
{
    char token[64], lease[16];

    (void)snprintf(token, sizeof(token), "%d:%u", (int)getpid(),
                   (unsigned)(slot - slots));
    (void)snprintf(lease, sizeof(lease), "%u", options->lease_ms);
    const char *set[] = {"SET", options->name, token, "NX", "PX", lease};
    const char *release[] = {"EVALSHA", sha, "2", options->name, channel, token};
    slot->try = wire_format(&slot->try_size, 6, set);
    slot->release = wire_format(&slot->release_size, 6, release);
}

static void connect_all(void)
{
    redisContext *waiting_link = wire_open_waiting(options);

    wire_load(waiting_link, release_script, sha);
    redisFree(waiting_link);
    (void)snprintf(channel, sizeof(channel), "%s:channel", options->name);
    orders = wire_open(base, options);
    messages = wire_open(base, options);
    redisAsyncCommand(messages, on_message, NULL, "SUBSCRIBE %s", channel);
    while (!subscribed) {
        event_base_dispatch(base);
    }
    slots = calloc(options->slots, sizeof(*slots));
    if (slots == NULL) {
        exit(1);
    }
    for (unsigned i = 0; i < options->slots; i++) {
        prepare(&slots[i]);
    }
}

uint64_t limit_race(struct event_base *its_base, const struct measure_options *given)
{
    base = its_base;
    options = given;
    herd = strcmp(options->variant, "herd") == 0;
    connect_all();
    measure_start();
    for (unsigned i = 0; i < options->slots; i++) {
        ask(&slots[i]);
    }
    limit_stop_after(base, options);
    event_base_dispatch(base);
    for (unsigned i = 0; i < options->slots; i++) {
        if (!slots[i].row.done) {
            measure_row(&slots[i].row);
        }
    }
    return errors;
}

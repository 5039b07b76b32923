/* SPDX-License-Identifier: MIT */
/*
 * Limits D, L and N: the release script hands the lock over to the first slot in the
 * queue and publishes the grant. A hand-over costs two commands. With `turns`, a process
 * that has the lock serves up to 16 of its own waiters before it hands over. Owns its
 * scripts. A holder or waiter that dies blocks the queue: nothing handles that.
 *
 * Usual course: a slot requests the lock and is queued; the message for its process
 * grants the lock; the slot holds and releases.
 */
#include "limit.h"
#include "wire.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#define TURNS 16
#define TELL                                                                             \
    "local channel, slot = string.match(head, '^(%S+) (%S+)$') "                         \
    "redis.call('SET', KEYS[1], head, 'PX', ARGV[2]) redis.call('PUBLISH', channel, "    \
    "slot) "

static const char ask_script[] =
    "if redis.call('EXISTS', KEYS[2]) == 0 "
    "and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end "
    "redis.call('RPUSH', KEYS[2], ARGV[1]) return 0";
static const char release_script[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end "
    "local head = redis.call('LPOP', KEYS[2]) "
    "if not head then redis.call('DEL', KEYS[1]) return 0 end " TELL "return 0";
static const char turn_script[] =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end "
    "local head = redis.call('LPOP', KEYS[2]) if not head then return 1 end "
    "redis.call('RPUSH', KEYS[2], ARGV[1]) " TELL "return 0";

enum call { ASK, RELEASE, TURN, CALLS };

struct slot {
    TAILQ_ENTRY(slot) next; /* in the list of local waiters, with turns */
    char *calls[CALLS];
    size_t sizes[CALLS];
    struct measure_row row;
};

static const struct measure_options *options;
static struct event_base *base;
static redisAsyncContext *orders, *messages;
static struct slot *slots;
static char shas[CALLS][41], channel[128];
static unsigned finished, served;
static uint64_t errors;
static bool turns, claimed, subscribed;
static TAILQ_HEAD(, slot) waiting = TAILQ_HEAD_INITIALIZER(waiting);

static void granted(struct slot *slot);

static void send_call(enum call call, struct slot *slot, redisCallbackFn *then)
{
    redisAsyncFormattedCommand(orders, then, slot, slot->calls[call], slot->sizes[call]);
}

/* The reply is 1 if the lock is ours. It is 0 if a message will grant the lock, or if
 * none was requested. */
static void on_answer(redisAsyncContext *context, void *answer, void *arg)
{
    const redisReply *reply = answer;

    (void)context;
    wire_check(reply);
    errors += reply->integer < 0;
    if (reply->integer == 1) {
        granted(arg);
    }
}

static void ask(void *arg)
{
    struct slot *slot = arg;

    slot->row = (struct measure_row){.slot = slot - slots, .asked = measure_now()};
    if (!turns) {
        send_call(ASK, slot, on_answer);
        return;
    }
    TAILQ_INSERT_TAIL(&waiting, slot, next);
    if (!claimed) {
        claimed = true;
        send_call(ASK, slots, on_answer);
    }
}

static void finish(struct slot *slot)
{
    slot->row.done = measure_now();
    measure_row(&slot->row);
    if (options->workload != 'D') {
        limit_later(base, measure_pause_us(options), ask, slot);
    } else {
        finished++;
    }
    if (finished == options->slots && !turns) {
        event_base_loopbreak(base);
    }
}

static void on_released(redisAsyncContext *context, void *answer, void *arg)
{
    on_answer(context, answer, arg);
    finish(arg);
}

static void on_turn_over(redisAsyncContext *context, void *answer, void *arg)
{
    on_answer(context, answer, arg);
    if (finished == options->slots) {
        event_base_loopbreak(base);
    }
}

static void serve(void);

static void held(void *arg)
{
    struct slot *slot = arg;

    slot->row.released = measure_now();
    if (!turns) {
        send_call(RELEASE, slot, on_released);
        return;
    }
    finish(slot);
    served++;
    serve();
}

/* With turns: serves the next local waiter, or ends the turn. */
static void serve(void)
{
    struct slot *slot = TAILQ_FIRST(&waiting);

    if (slot == NULL) {
        claimed = false;
        send_call(RELEASE, slots, on_turn_over);
    } else if (served == TURNS) {
        send_call(TURN, slots, on_answer);
    } else {
        TAILQ_REMOVE(&waiting, slot, next);
        slot->row.granted = measure_now();
        limit_later(base, measure_hold_us(options), held, slot);
    }
}

static void granted(struct slot *slot)
{
    if (turns) {
        served = 0;
        serve();
        return;
    }
    slot->row.granted = measure_now();
    limit_later(base, measure_hold_us(options), held, slot);
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
    granted(&slots[strtoul(reply->element[2]->str, NULL, 10) % options->slots]);
}

static void prepare(struct slot *slot)
{
    char queue[256], token[192], lease[16];

    (void)snprintf(queue, sizeof(queue), "%s:queue", options->name);
    (void)snprintf(token, sizeof(token), "%s %u", channel, (unsigned)(slot - slots));
    (void)snprintf(lease, sizeof(lease), "%u", options->lease_ms);
    for (int i = 0; i < CALLS; i++) {
        const char *words[] = {"EVALSHA", shas[i], "2",  options->name,
                               queue,     token,   lease};

        slot->calls[i] = wire_format(&slot->sizes[i], 7, words);
    }
}

static void connect_all(void)
{
    redisContext *waiting_link = wire_open_waiting(options);

    wire_load(waiting_link, ask_script, shas[ASK]);
    wire_load(waiting_link, release_script, shas[RELEASE]);
    wire_load(waiting_link, turn_script, shas[TURN]);
    redisFree(waiting_link);
    (void)snprintf(channel, sizeof(channel), "%s:%d", options->name, (int)getpid());
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

uint64_t limit_handover(struct event_base *its_base, const struct measure_options *given)
{
    base = its_base;
    options = given;
    turns = strcmp(options->variant, "turns") == 0;
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

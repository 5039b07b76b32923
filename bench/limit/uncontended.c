/* SPDX-License-Identifier: MIT */
/*
 * Limit U: acquire and release of a key without contention, in the usual ways. Owns its
 * scripts, and knows the servers' commands that compare and delete. All commands are
 * formatted beforehand, so that only hiredis and Redis are measured.
 *
 * Usual course: a slot sends its acquire, and on the reply its release. When the reply to
 * the release comes, the slot notes the row and sends the next acquire.
 */
#include "limit.h"
#include "wire.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char compare_and_delete[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end "
    "return 0";
static const char set_with_fence[] =
    "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then "
    "return redis.call('INCR', KEYS[2]) end return 0";
static const char enter_hash[] =
    "if redis.call('EXISTS', KEYS[1]) == 0 "
    "or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then "
    "redis.call('HINCRBY', KEYS[1], ARGV[1], 1) "
    "redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1 end return 0";
static const char leave_hash[] =
    "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end "
    "if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then "
    "redis.call('PEXPIRE', KEYS[1], ARGV[2]) return 1 end "
    "redis.call('DEL', KEYS[1]) redis.call('PUBLISH', KEYS[2], '0') return 1";

enum deletes { BY_SCRIPT, BY_DELIFEQ, BY_DELEX };

/* How the slots of a run acquire and release, by the variant and the server's
 * commands. */
struct ways {
    char acquire[41], release[41]; /* digests; acquire: "" = use SET */
    enum deletes deletes;
};

struct slot {
    redisAsyncContext *link;
    char *acquire, *fence, *release; /* fence: a separate command, or NULL */
    size_t acquire_size, fence_size, release_size;
    struct measure_row row;
};

static uint64_t errors;

static void acquire(struct slot *slot);

static void on_released(redisAsyncContext *link, void *answer, void *arg)
{
    struct slot *slot = arg;
    const redisReply *reply = answer;

    (void)link;
    wire_check(reply);
    errors += reply->integer != 1;
    slot->row.done = measure_now();
    measure_row(&slot->row);
    acquire(slot);
}

static void on_granted(redisAsyncContext *link, void *answer, void *arg)
{
    struct slot *slot = arg;
    const redisReply *reply = answer;

    wire_check(reply);
    errors += reply->type == REDIS_REPLY_NIL ||
              (reply->type == REDIS_REPLY_INTEGER && reply->integer < 1);
    slot->row.granted = slot->row.released = measure_now();
    redisAsyncFormattedCommand(link, on_released, slot, slot->release,
                               slot->release_size);
}

static void on_set(redisAsyncContext *link, void *answer, void *arg)
{
    (void)link, (void)arg;
    wire_check(answer);
    errors += ((const redisReply *)answer)->type == REDIS_REPLY_NIL;
}

static void acquire(struct slot *slot)
{
    slot->row.asked = measure_now();
    redisAsyncFormattedCommand(slot->link, slot->fence != NULL ? on_set : on_granted,
                               slot, slot->acquire, slot->acquire_size);
    if (slot->fence != NULL) {
        redisAsyncFormattedCommand(slot->link, on_granted, slot, slot->fence,
                                   slot->fence_size);
    }
}

static bool is(const struct measure_options *options, const char *variant)
{
    return strcmp(options->variant, variant) == 0;
}

static void prepare_release(struct slot *slot, const struct ways *ways, const char *key,
                            const char *token)
{
    const char *script[] = {"EVALSHA", ways->release, "1", key, token};
    const char *delifeq[] = {"DELIFEQ", key, token};
    const char *delex[] = {"DELEX", key, "IFEQ", token};

    if (ways->deletes == BY_DELIFEQ) {
        slot->release = wire_format(&slot->release_size, 3, delifeq);
    } else if (ways->deletes == BY_DELEX) {
        slot->release = wire_format(&slot->release_size, 4, delex);
    } else {
        slot->release = wire_format(&slot->release_size, 5, script);
    }
}

static void prepare(struct slot *slot, unsigned index,
                    const struct measure_options *options, const struct ways *ways)
{
    char key[256], fence[256], token[64], lease[16];

    (void)snprintf(key, sizeof(key), "%s:%u", options->name, index);
    (void)snprintf(fence, sizeof(fence), "%s:fence", options->name);
    (void)snprintf(token, sizeof(token), "6b1f0a6e-0000-4000-8000-0123456789ab:%u",
                   index);
    (void)snprintf(lease, sizeof(lease), "%u", options->lease_ms);
    const char *set[] = {"SET", key, token, "NX", "PX", lease};
    const char *script[] = {"EVALSHA", ways->acquire, "2", key, fence, token, lease};
    const char *leave[] = {"EVALSHA", ways->release, "2", key, fence, token, lease};
    const char *incr[] = {"INCR", fence};
    if (ways->acquire[0] != '\0') {
        slot->acquire = wire_format(&slot->acquire_size, 7, script);
    } else {
        slot->acquire = wire_format(&slot->acquire_size, 6, set);
    }
    if (is(options, "hash")) {
        slot->release = wire_format(&slot->release_size, 7, leave);
    } else {
        prepare_release(slot, ways, key, token);
    }
    if (is(options, "pipelined") || is(options, "delifeq-fence")) {
        slot->fence = wire_format(&slot->fence_size, 2, incr);
    }
    slot->row.slot = index;
}

/* Returns the server's own command. Ends the program if the server has no such
 * command; the driver has checked that before. */
static enum deletes own_compare_and_delete(redisContext *link)
{
    redisReply *reply = redisCommand(link, "COMMAND INFO DELIFEQ DELEX");
    enum deletes deletes = BY_SCRIPT;

    wire_check(reply);
    for (size_t i = reply->elements; i-- > 0;) {
        if (reply->element[i]->elements > 0) {
            deletes = i > 0 ? BY_DELEX : BY_DELIFEQ;
        }
    }
    freeReplyObject(reply);
    if (deletes == BY_SCRIPT) {
        (void)fprintf(stderr, "limit: the server has neither DELIFEQ nor DELEX\n");
        exit(1);
    }
    return deletes;
}

static void find_ways(const struct measure_options *options, struct ways *ret)
{
    redisContext *link = wire_open_waiting(options);

    *ret = (struct ways){.deletes = BY_SCRIPT};
    wire_load(link, is(options, "hash") ? leave_hash : compare_and_delete, ret->release);
    if (is(options, "hash")) {
        wire_load(link, enter_hash, ret->acquire);
    }
    if (is(options, "fence")) {
        wire_load(link, set_with_fence, ret->acquire);
    }
    if (strncmp(options->variant, "delifeq", 7) == 0) {
        ret->deletes = own_compare_and_delete(link);
    }
    redisFree(link);
}

static struct slot *slots_new(struct event_base *base,
                              const struct measure_options *options)
{
    struct slot *slots = calloc(options->slots, sizeof(*slots));
    struct ways ways;

    if (slots == NULL) {
        exit(1);
    }
    find_ways(options, &ways);
    for (unsigned i = 0; i < options->slots; i++) {
        prepare(&slots[i], i, options, &ways);
        slots[i].link = i && !is(options, "connections") ? slots[0].link
                                                         : wire_open(base, options);
    }
    return slots;
}

static void run(struct event_base *base, const struct measure_options *options,
                double seconds)
{
    struct measure_options limit = *options;

    limit.seconds = seconds;
    limit_stop_after(base, &limit);
    event_base_dispatch(base);
}

uint64_t limit_uncontended(struct event_base *base, const struct measure_options *options)
{
    struct slot *slots = slots_new(base, options);

    for (unsigned i = 0; i < options->slots; i++) {
        acquire(&slots[i]);
    }
    run(base, options, 0.1);
    measure_start();
    run(base, options, options->seconds);
    return errors;
}

/* SPDX-License-Identifier: MIT */
/* Encodes commands and scripts: see encode.h. If memory is short, the buffer's `failed`
 * is set. */
#include "redis/encode.h"

#include "base/buffer.h"
#include "base/random.h"
#include "redis/resp.h"
#include "scripts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FENCE_TTL_MS 86400000
#define WHOAMI_TTL_MS 120000

/* Mostly EVALSHA and the SHA-1, which the build has put into one text (embed.py). */
static void put_script(struct lw__buffer *out, bool eval, enum lw__script_id id,
                       size_t keys, size_t args)
{
    const struct lw__script *script = &lw__scripts[id];

    lw__resp_command(out, 3 + keys + args);
    if (eval) {
        lw__resp_text(out, "EVAL");
        lw__resp_bytes(out, script->text, script->length);
    } else {
        lw__buffer_put(out, script->evalsha, sizeof(script->evalsha) - 1);
    }
    lw__resp_number(out, (int64_t)keys);
}

static void put_keys(struct lw__buffer *out, const char *name, bool rw,
                     const struct lw__script_env *env)
{
    lw__resp_text(out, name);
    lw__format_put_queue(out, env->prefix, name, rw);
    lw__resp_text(out, env->fence);
}

/* The last argument of a script that publishes or draws fencing tokens. */
static void put_channel(struct lw__buffer *out, const struct lw__script_env *env)
{
    if (env->channel != NULL) {
        lw__resp_text(out, env->channel);
    }
}

void lw__encode_try(struct lw__buffer *out, const char *name,
                    const struct lw__token *token, uint32_t lease_ms)
{
    lw__buffer_put(out, "*6\r\n$3\r\nSET\r\n", 13);
    lw__resp_text(out, name);
    lw__format_put_token(out, token);
    lw__buffer_put(out, "$2\r\nNX\r\n$2\r\nPX\r\n", 16);
    lw__resp_number(out, lease_ms);
}

/* Writes `/<max_waiting>`, or nothing if that is 0. Returns its length. */
static size_t format_limit(const struct lw__acquire_args *args, char ret[LW__DIGITS + 1])
{
    if (args->max_waiting == 0) {
        return 0;
    }
    *ret = '/';
    return 1 + lw__resp_digits(args->max_waiting, ret + 1);
}

/* `<wait> <ticket> <permits>[/<limit>] <numbers>` in one word: four words would cost the
 * server more. */
static void put_waiting(struct lw__buffer *out, const struct lw__acquire_args *args)
{
    char ticket[LW__DIGITS] = "-1", permits[LW__DIGITS], limit[LW__DIGITS + 1];
    size_t limit_length = format_limit(args, limit);
    size_t permits_length = lw__resp_digits(args->rw->permits, permits);
    size_t ticket_length = 2, numbers_length = strlen(args->site.numbers);

    if (args->ticket >= 0) {
        ticket_length = lw__resp_digits((uint64_t)args->ticket, ticket);
    }
    lw__resp_begin(out, 2 + ticket_length + 1 + permits_length + limit_length + 1 +
                            numbers_length);
    lw__buffer_put(out, args->wait ? "1 " : "0 ", 2);
    lw__buffer_put(out, ticket, ticket_length);
    lw__buffer_put(out, " ", 1);
    lw__buffer_put(out, permits, permits_length);
    lw__buffer_put(out, limit, limit_length);
    lw__buffer_put(out, " ", 1);
    lw__buffer_put(out, args->site.numbers, numbers_length);
    lw__resp_end(out);
}

static void put_rw_acquire(struct lw__buffer *out, bool eval,
                           const struct lw__acquire_args *args)
{
    put_script(out, eval, LW__SCRIPT_RW_ACQUIRE, 3, 4 + (args->site.channel != NULL));
    put_keys(out, args->name, true, &args->site);
    lw__format_put_token(out, &args->token);
    lw__resp_number(out, args->lease_ms);
    lw__format_put_rw_request(out, args->rw);
    put_waiting(out, args);
    put_channel(out, &args->site);
}

/* The argument `how` of mutex_acquire.lua. */
static void put_how(struct lw__buffer *out, const struct lw__acquire_args *args)
{
    const char *joins = !args->wait ? "n" : args->keep ? "k" : "j";
    char ticket[LW__DIGITS], limit[LW__DIGITS + 1], lease[LW__DIGITS];
    size_t digits = 0, numbers = strlen(args->site.numbers);
    size_t lease_length = lw__resp_digits(args->lease_ms, lease);
    size_t limit_length = format_limit(args, limit);

    if (args->ticket >= 0) {
        digits = lw__resp_digits((uint64_t)args->ticket, ticket);
    }
    lw__resp_begin(out, 2 + digits + limit_length + 1 + numbers + 1 + lease_length);
    lw__buffer_put(out, joins, 1);
    lw__buffer_put(out, args->fence ? "f" : "-", 1);
    lw__buffer_put(out, ticket, digits);
    lw__buffer_put(out, limit, limit_length);
    lw__buffer_put(out, " ", 1);
    lw__buffer_put(out, args->site.numbers, numbers);
    lw__buffer_put(out, " ", 1);
    lw__buffer_put(out, lease, lease_length);
    lw__resp_end(out);
}

void lw__encode_acquire(struct lw__buffer *out, bool eval,
                        const struct lw__acquire_args *args)
{
    if (args->rw != NULL) {
        put_rw_acquire(out, eval, args);
        return;
    }
    put_script(out, eval, LW__SCRIPT_MUTEX_ACQUIRE, 3, 2 + (args->site.channel != NULL));
    put_keys(out, args->name, false, &args->site);
    lw__format_put_token(out, &args->token);
    put_how(out, args);
    put_channel(out, &args->site);
}

void lw__encode_redisson_acquire(struct lw__buffer *out, bool eval,
                                 const struct lw__acquire_args *args)
{
    put_script(out, eval, LW__SCRIPT_REDISSON_ACQUIRE, 1, 2);
    lw__resp_text(out, args->name);
    lw__format_put_field(out, &args->token);
    lw__resp_number(out, args->lease_ms);
}

void lw__encode_fast_release(struct lw__buffer *out, bool eval,
                             enum lw__fast_release method, const char *name,
                             const struct lw__token *token)
{
    switch (method) {
    case LW__FAST_RELEASE_SCRIPT:
        put_script(out, eval, LW__SCRIPT_MUTEX_RELEASE_FAST, 1, 1);
        break;
    case LW__FAST_RELEASE_DELIFEQ:
        lw__resp_command(out, 3);
        lw__resp_text(out, "DELIFEQ");
        break;
    case LW__FAST_RELEASE_DELEX:
        lw__resp_command(out, 4);
        lw__resp_text(out, "DELEX");
        break;
    }
    lw__resp_text(out, name);
    if (method == LW__FAST_RELEASE_DELEX) {
        lw__resp_text(out, "IFEQ");
    }
    lw__format_put_token(out, token);
}

void lw__encode_release(struct lw__buffer *out, bool eval,
                        const struct lw__release_args *args)
{
    bool rw = args->rw != NULL;

    if (args->in_short) {
        put_script(out, eval, LW__SCRIPT_RW_RELEASE, 2, 1);
        lw__resp_text(out, args->name);
        lw__format_put_queue(out, args->site.prefix, args->name, true);
        lw__format_put_hold_field(out, &args->token);
        return;
    }
    put_script(out, eval, rw ? LW__SCRIPT_RW_RELEASE : LW__SCRIPT_MUTEX_RELEASE,
               args->described && !rw ? 4 : 3, 2 + (args->site.channel != NULL));
    put_keys(out, args->name, rw, &args->site);
    if (args->described && !rw) {
        lw__format_put_holder(out, args->site.prefix, args->name);
    }
    lw__format_put_token(out, &args->token);
    if (rw) {
        lw__format_put_rw_release(out, args->rw, args->site.numbers);
    } else {
        lw__resp_text(out, args->site.numbers);
    }
    put_channel(out, &args->site);
}

void lw__encode_redisson_release(struct lw__buffer *out, bool eval,
                                 const struct lw__release_args *args)
{
    char channel[LW__CHANNEL_SIZE];

    put_script(out, eval, LW__SCRIPT_REDISSON_RELEASE, 1, 2);
    lw__resp_text(out, args->name);
    lw__format_put_field(out, &args->token);
    lw__format_redisson_channel(args->name, channel);
    lw__resp_text(out, channel);
}

/* The last arguments of a script that may describe a hold. `about` is "" if the channel
 * follows and there is no description. */
static void put_about(struct lw__buffer *out, const char *about,
                      const struct lw__script_env *env)
{
    if (about != NULL || (env != NULL && env->channel != NULL)) {
        lw__resp_text(out, about != NULL ? about : "");
    }
    if (env != NULL) {
        put_channel(out, env);
    }
}

void lw__encode_detach(struct lw__buffer *out, bool eval,
                       const struct lw__detach_args *args)
{
    enum lw__script_id id = args->rw ? LW__SCRIPT_RW_DETACH : LW__SCRIPT_MUTEX_DETACH;
    char lease[LW__DIGITS + 1];

    bool described = !args->one_key && args->about != NULL;
    bool channel = !args->one_key && args->site.channel != NULL;
    size_t keys = args->one_key ? 1 : described && !args->rw ? 4 : 3;

    put_script(out, eval, id, keys, channel ? 4 : described ? 3 : 2);
    if (args->one_key) {
        lw__resp_text(out, args->name);
    } else {
        put_keys(out, args->name, args->rw, &args->site);
    }
    if (described && !args->rw) {
        lw__format_put_holder(out, args->site.prefix, args->name);
    }
    lw__format_put_token(out, &args->token);
    (void)snprintf(lease, sizeof(lease), "%" PRId64, args->lease_ms);
    lw__resp_text(out, lease);
    put_about(out, described ? args->about : NULL, channel ? &args->site : NULL);
}

void lw__encode_adopt(struct lw__buffer *out, bool eval,
                      const struct lw__adopt_args *args)
{
    bool rw = args->rw != NULL, has_holder = !rw && args->about != NULL;

    put_script(out, eval, rw ? LW__SCRIPT_RW_ADOPT : LW__SCRIPT_MUTEX_ADOPT,
               has_holder ? 3 : 2,
               args->site.channel != NULL ? 6
               : args->about != NULL      ? 5
                                          : 4);
    lw__resp_text(out, args->name);
    lw__resp_text(out, args->site.fence);
    if (has_holder) {
        lw__format_put_holder(out, args->site.prefix, args->name);
    }
    lw__resp_text(out, args->previous);
    lw__format_put_token(out, &args->token);
    lw__resp_number(out, args->lease_ms);
    if (rw) {
        lw__format_put_rw_request(out, args->rw);
    } else {
        lw__resp_text(out, args->fence ? "f" : "-");
    }
    put_about(out, args->about, &args->site);
}

void lw__encode_describe(struct lw__buffer *out, bool eval, const char *prefix,
                         const char *name, const struct lw__token *token,
                         const char *about)
{
    put_script(out, eval, LW__SCRIPT_DESCRIBE, 2, 2);
    lw__resp_text(out, name);
    lw__format_put_holder(out, prefix, name);
    lw__format_put_token(out, token);
    lw__resp_text(out, about);
}

void lw__encode_break(struct lw__buffer *out, bool eval, const char *name,
                      const char *token, bool rw, const struct lw__script_env *env)
{
    put_script(out, eval, rw ? LW__SCRIPT_RW_RELEASE : LW__SCRIPT_MUTEX_RELEASE,
               rw ? 3 : 4, 2 + (env->channel != NULL));
    put_keys(out, name, rw, env);
    if (!rw) {
        lw__format_put_holder(out, env->prefix, name);
    }
    lw__resp_text(out, token);
    lw__resp_text(out, env->numbers); /* no request: a holder is in no queue */
    put_channel(out, env);
}

/* Returns the number of leases to send: one if all are equal, since a word costs the
 * server more than this comparison costs us. */
static size_t count_leases(size_t count, const struct lw__renew_args *args)
{
    for (size_t i = 1; i < count; i++) {
        if (args[i].lease_ms != args[0].lease_ms) {
            return count;
        }
    }
    return count > 0;
}

static void put_leases(struct lw__buffer *out, size_t leases,
                       const struct lw__renew_args *args)
{
    for (size_t i = 0; i < leases; i++) {
        lw__resp_number(out, args[i].lease_ms);
    }
}

/* Renews holds by a script that does not hand over. */
static void put_renewal(struct lw__buffer *out, bool eval, enum lw__script_id id,
                        size_t count, const struct lw__renew_args *args,
                        void (*put)(struct lw__buffer *, const struct lw__token *))
{
    size_t leases = count_leases(count, args);

    put_script(out, eval, id, count, count + leases);
    for (size_t i = 0; i < count; i++) {
        lw__resp_text(out, args[i].name);
    }
    for (size_t i = 0; i < count; i++) {
        put(out, &args[i].token);
    }
    put_leases(out, leases, args);
}

void lw__encode_renew(struct lw__buffer *out, bool eval, size_t count,
                      const struct lw__renew_args *args, const struct lw__script_env *env)
{
    (void)env;
    put_renewal(out, eval, LW__SCRIPT_MUTEX_RENEW, count, args, lw__format_put_token);
}

void lw__encode_redisson_renew(struct lw__buffer *out, bool eval, size_t count,
                               const struct lw__renew_args *args,
                               const struct lw__script_env *env)
{
    (void)env;
    put_renewal(out, eval, LW__SCRIPT_REDISSON_RENEW, count, args, lw__format_put_field);
}

void lw__encode_rw_renew(struct lw__buffer *out, bool eval, size_t count,
                         const struct lw__renew_args *args,
                         const struct lw__script_env *env)
{
    bool channel = env->channel != NULL; /* then each hold has its lease, for its place */
    size_t leases = channel ? count : count_leases(count, args);

    put_script(out, eval, LW__SCRIPT_RW_RENEW, 1 + 2 * count,
               1 + count + leases + channel);
    lw__resp_text(out, env->fence);
    for (size_t i = 0; i < count; i++) {
        lw__resp_text(out, args[i].name);
        lw__format_put_queue(out, env->prefix, args[i].name, true);
    }
    lw__resp_text(out, env->numbers);
    for (size_t i = 0; i < count; i++) {
        lw__format_put_token(out, &args[i].token);
    }
    put_leases(out, leases, args);
    put_channel(out, env);
}

void lw__encode_release_one_key(struct lw__buffer *out, bool eval, const char *name,
                                const char *token, bool rw)
{
    put_script(out, eval,
               rw ? LW__SCRIPT_RW_RELEASE_ONE_KEY : LW__SCRIPT_MUTEX_RELEASE_FAST, 1,
               rw ? 1 : 2);
    lw__resp_text(out, name);
    lw__resp_text(out, token);
    if (!rw) {
        lw__resp_text(out, "anyway");
    }
}

void lw__encode_message(struct lw__buffer *out, char letter, const char *prefix, int slot,
                        const char *name, const char *token)
{
    char uuid[LW__UUID_SIZE], channel[LW__CHANNEL_OF_OURS_SIZE];
    size_t token_length = strlen(token), name_length = strlen(name);

    memcpy(uuid, token, LW__UUID_SIZE - 1);
    uuid[LW__UUID_SIZE - 1] = '\0';
    lw__format_channel(prefix, uuid, slot, channel);
    lw__resp_command(out, 3);
    lw__resp_text(out, slot >= 0 ? "SPUBLISH" : "PUBLISH");
    lw__resp_text(out, channel);
    lw__resp_begin(out, 2 + token_length + 1 + name_length);
    lw__buffer_put(out, &letter, 1);
    lw__buffer_put(out, " ", 1);
    lw__buffer_put(out, token, token_length);
    lw__buffer_put(out, " ", 1);
    lw__buffer_put(out, name, name_length);
    lw__resp_end(out);
}

void lw__encode_rw_keepalive(struct lw__buffer *out, bool eval,
                             const struct lw__renew_args *args)
{
    put_script(out, eval, LW__SCRIPT_RW_KEEPALIVE, 1, 2);
    lw__resp_text(out, args->name);
    lw__format_put_token(out, &args->token);
    lw__resp_number(out, args->lease_ms);
}

void lw__encode_inspect(struct lw__buffer *out, bool eval, const char *prefix,
                        const char *name, bool one_key, int most_holders,
                        int most_waiters)
{
    put_script(out, eval, LW__SCRIPT_INSPECT, one_key ? 1 : 4, 2);
    lw__resp_text(out, name);
    if (!one_key) {
        lw__format_put_queue(out, prefix, name, false);
        lw__format_put_queue(out, prefix, name, true);
        lw__format_put_holder(out, prefix, name);
    }
    lw__resp_number(out, most_holders);
    lw__resp_number(out, most_waiters);
}

void lw__encode_list(struct lw__buffer *out, bool eval, const char *prefix,
                     const char *cursor, int count, const char *pattern)
{
    if (pattern == NULL && *prefix != '\0') {
        pattern = "*";
    }
    put_script(out, eval, LW__SCRIPT_LIST, 0, pattern != NULL ? 3 : 2);
    lw__resp_text(out, cursor);
    lw__resp_number(out, count);
    if (pattern != NULL) {
        lw__resp_begin(out, strlen(prefix) + strlen(pattern));
        lw__buffer_put(out, prefix, strlen(prefix));
        lw__buffer_put(out, pattern, strlen(pattern));
        lw__resp_end(out);
    }
}

void lw__encode_identity(struct lw__buffer *out, const char *prefix, const char *uuid,
                         const char *text)
{
    lw__resp_command(out, text != NULL ? 5 : 2);
    lw__resp_text(out, text != NULL ? "SET" : "DEL");
    lw__format_put_client(out, prefix, uuid);
    if (text != NULL) {
        lw__resp_text(out, text);
        lw__resp_text(out, "PX");
        lw__resp_number(out, WHOAMI_TTL_MS);
    }
}

void lw__encode_get_identities(struct lw__buffer *out, const char *prefix, size_t count,
                               const char *const *uuids)
{
    lw__resp_command(out, 1 + count);
    lw__resp_text(out, "MGET");
    for (size_t i = 0; i < count; i++) {
        lw__format_put_client(out, prefix, uuids[i]);
    }
}

void lw__encode_get_identity(struct lw__buffer *out, const char *prefix, const char *uuid)
{
    lw__resp_command(out, 2);
    lw__resp_text(out, "GET");
    lw__format_put_client(out, prefix, uuid);
}

void lw__encode_fence_next(struct lw__buffer *out, const char *fence)
{
    lw__buffer_put(out, "*2\r\n$4\r\nINCR\r\n", 14);
    lw__resp_text(out, fence);
}

void lw__encode_fence_seed(struct lw__buffer *out, bool eval, const char *fence)
{
    put_script(out, eval, LW__SCRIPT_FENCE_SEED, 1, 0);
    lw__resp_text(out, fence);
}

void lw__encode_fence_raise(struct lw__buffer *out, bool eval, const char *fence,
                            uint64_t number, const char *name,
                            const struct lw__token *token)
{
    put_script(out, eval, LW__SCRIPT_FENCE_RAISE, 2, 2);
    lw__resp_text(out, fence);
    lw__resp_text(out, name);
    lw__resp_number(out, (int64_t)number);
    lw__format_put_token(out, token);
}

void lw__encode_guard(struct lw__buffer *out, bool eval, const char *prefix,
                      const char *identity, uint32_t guard_ms, bool goes_on)
{
    put_script(out, eval, LW__SCRIPT_GUARD, 1, 3);
    lw__format_put_guard(out, prefix);
    lw__resp_text(out, identity);
    lw__resp_number(out, guard_ms);
    lw__resp_number(out, goes_on);
}

void lw__encode_get_guard(struct lw__buffer *out, const char *prefix)
{
    lw__resp_command(out, 2);
    lw__resp_text(out, "GET");
    lw__format_put_guard(out, prefix);
}

void lw__encode_fence_extend(struct lw__buffer *out, const char *fence)
{
    lw__resp_command(out, 3);
    lw__resp_text(out, "PEXPIRE");
    lw__resp_text(out, fence);
    lw__resp_number(out, FENCE_TTL_MS);
}

void lw__encode_count(struct lw__buffer *out, const char *channel)
{
    lw__resp_words(out, 3, (const char *[]){"PUBSUB", "NUMSUB", channel});
}

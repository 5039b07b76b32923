/* SPDX-License-Identifier: MIT */
/* Arguments out: see encode.h. Lack of memory is the buffer's to tell. */
#include "redis/encode.h"

#include "base/buffer.h"
#include "redis/resp.h"
#include "scripts.h"

#define FENCE_TTL_MS 86400000
#define WHOAMI_TTL_MS 120000

static void put_script(struct lw__buffer *out, bool eval, enum lw__script_id id,
                       size_t keys, size_t args)
{
    const struct lw__script *script = &lw__scripts[id];

    lw__resp_command(out, 3 + keys + args);
    if (eval) {
        lw__resp_text(out, "EVAL");
        lw__resp_bytes(out, script->text, script->length);
    } else {
        lw__buffer_put(out, "$7\r\nEVALSHA\r\n$40\r\n", 18);
        lw__buffer_put(out, script->sha1, 40);
        lw__resp_end(out);
    }
    lw__resp_number(out, (int64_t)keys);
}

static void put_keys(struct lw__buffer *out, const char *name, bool rw)
{
    lw__resp_text(out, name);
    lw__format_put_queue(out, name, rw);
    lw__resp_text(out, LW__FENCE_KEY);
}

size_t lw__encode_try(struct lw__buffer *out, const char *name,
                      const struct lw__token *token, uint32_t lease_ms, bool fence)
{
    static const char incr[] = "*2\r\n$4\r\nINCR\r\n$14\r\n" LW__FENCE_KEY "\r\n";
    size_t second;

    lw__buffer_put(out, "*6\r\n$3\r\nSET\r\n", 13);
    lw__resp_text(out, name);
    lw__format_put_token(out, token);
    lw__buffer_put(out, "$2\r\nNX\r\n$2\r\nPX\r\n", 16);
    lw__resp_number(out, lease_ms);
    second = out->length;
    if (fence) {
        lw__buffer_put(out, incr, sizeof(incr) - 1);
    }
    return second;
}

static void put_request(struct lw__buffer *out, const struct lw__rw *rw,
                        const struct lw__token *token)
{
    lw__resp_text(out, rw->write ? "w" : "r");
    if (rw->owner != NULL) {
        lw__resp_text(out, rw->owner);
    } else {
        lw__format_put_token(out, token);
    }
    lw__resp_number(out, rw->permits);
}

void lw__encode_acquire(struct lw__buffer *out, bool eval,
                        const struct lw__acquire_args *args)
{
    if (args->rw != NULL) {
        put_script(out, eval, LW__SCRIPT_RW_ACQUIRE, 3, 8);
        put_keys(out, args->name, true);
    } else if (args->previous != NULL) {
        put_script(out, eval, LW__SCRIPT_MUTEX_TURN, 3, 7);
        put_keys(out, args->name, false);
        lw__format_put_token(out, args->previous);
    } else {
        put_script(out, eval, LW__SCRIPT_MUTEX_ACQUIRE, 3, 6);
        put_keys(out, args->name, false);
    }
    lw__format_put_token(out, &args->token);
    lw__resp_number(out, args->lease_ms);
    if (args->previous == NULL) {
        lw__resp_number(out, args->wait);
    }
    lw__resp_number(out, args->ticket);
    if (args->rw != NULL) {
        put_request(out, args->rw, &args->token);
    } else {
        lw__resp_number(out, args->fence);
        if (args->previous != NULL) {
            lw__resp_number(out, args->wait);
        }
    }
    lw__resp_text(out, args->server);
}

void lw__encode_redisson_acquire(struct lw__buffer *out, bool eval,
                                 const struct lw__acquire_args *args)
{
    put_script(out, eval, LW__SCRIPT_REDISSON_ACQUIRE, 1, 2);
    lw__resp_text(out, args->name);
    lw__format_put_field(out, &args->token);
    lw__resp_number(out, args->lease_ms);
}

void lw__encode_release(struct lw__buffer *out, bool eval,
                        const struct lw__release_args *args)
{
    bool rw = args->rw != NULL;

    put_script(out, eval, rw ? LW__SCRIPT_RW_RELEASE : LW__SCRIPT_MUTEX_RELEASE, 3,
               rw ? 3 : 2);
    put_keys(out, args->name, rw);
    lw__format_put_token(out, &args->token);
    if (rw) {
        lw__format_put_member(out, args->rw, &args->token);
    }
    lw__resp_text(out, args->server);
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

void lw__encode_break(struct lw__buffer *out, bool eval, const char *name,
                      const char *token, bool rw, const char *server)
{
    put_script(out, eval, rw ? LW__SCRIPT_RW_RELEASE : LW__SCRIPT_MUTEX_RELEASE, 3,
               rw ? 3 : 2);
    put_keys(out, name, rw);
    lw__resp_text(out, token);
    if (rw) {
        lw__resp_text(out, ""); /* it does not wait: no member of the queue */
    }
    lw__resp_text(out, server);
}

/* How many leases a renewal tells: one where all are alike, since a word costs the server
 * more than it costs us to look. */
static size_t leases(size_t count, const struct lw__renew_args *args)
{
    for (size_t i = 1; i < count; i++) {
        if (args[i].lease_ms != args[0].lease_ms) {
            return count;
        }
    }
    return count > 0;
}

static void put_leases(struct lw__buffer *out, size_t told,
                       const struct lw__renew_args *args)
{
    for (size_t i = 0; i < told; i++) {
        lw__resp_number(out, args[i].lease_ms);
    }
}

/* Holds of which none hands anything over. */
static void put_renewal(struct lw__buffer *out, bool eval, enum lw__script_id id,
                        size_t count, const struct lw__renew_args *args,
                        void (*put)(struct lw__buffer *, const struct lw__token *))
{
    size_t told = leases(count, args);

    put_script(out, eval, id, count, count + told);
    for (size_t i = 0; i < count; i++) {
        lw__resp_text(out, args[i].name);
    }
    for (size_t i = 0; i < count; i++) {
        put(out, &args[i].token);
    }
    put_leases(out, told, args);
}

void lw__encode_renew(struct lw__buffer *out, bool eval, size_t count,
                      const struct lw__renew_args *args, const char *server)
{
    (void)server;
    put_renewal(out, eval, LW__SCRIPT_MUTEX_RENEW, count, args, lw__format_put_token);
}

void lw__encode_redisson_renew(struct lw__buffer *out, bool eval, size_t count,
                               const struct lw__renew_args *args, const char *server)
{
    (void)server;
    put_renewal(out, eval, LW__SCRIPT_REDISSON_RENEW, count, args, lw__format_put_field);
}

void lw__encode_rw_renew(struct lw__buffer *out, bool eval, size_t count,
                         const struct lw__renew_args *args, const char *server)
{
    size_t told = leases(count, args);

    put_script(out, eval, LW__SCRIPT_RW_RENEW, 1 + 2 * count, 1 + count + told);
    lw__resp_text(out, LW__FENCE_KEY);
    for (size_t i = 0; i < count; i++) {
        lw__resp_text(out, args[i].name);
        lw__format_put_queue(out, args[i].name, true);
    }
    lw__resp_text(out, server);
    for (size_t i = 0; i < count; i++) {
        lw__format_put_token(out, &args[i].token);
    }
    put_leases(out, told, args);
}

void lw__encode_inspect(struct lw__buffer *out, bool eval, const char *name,
                        int most_holders, int most_waiters)
{
    put_script(out, eval, LW__SCRIPT_INSPECT, 3, 2);
    lw__resp_text(out, name);
    lw__format_put_queue(out, name, false);
    lw__format_put_queue(out, name, true);
    lw__resp_number(out, most_holders);
    lw__resp_number(out, most_waiters);
}

void lw__encode_whoami(struct lw__buffer *out, const char *uuid, const char *text)
{
    lw__resp_command(out, text != NULL ? 5 : 2);
    lw__resp_text(out, text != NULL ? "SET" : "DEL");
    lw__format_put_client(out, uuid);
    if (text != NULL) {
        lw__resp_text(out, text);
        lw__resp_text(out, "PX");
        lw__resp_number(out, WHOAMI_TTL_MS);
    }
}

void lw__encode_who(struct lw__buffer *out, size_t count, const char *const *uuids)
{
    lw__resp_command(out, 1 + count);
    lw__resp_text(out, "MGET");
    for (size_t i = 0; i < count; i++) {
        lw__format_put_client(out, uuids[i]);
    }
}

void lw__encode_fence_seed(struct lw__buffer *out, bool eval)
{
    put_script(out, eval, LW__SCRIPT_FENCE_SEED, 1, 0);
    lw__resp_text(out, LW__FENCE_KEY);
}

void lw__encode_fence_keep(struct lw__buffer *out)
{
    lw__resp_command(out, 3);
    lw__resp_text(out, "PEXPIRE");
    lw__resp_text(out, LW__FENCE_KEY);
    lw__resp_number(out, FENCE_TTL_MS);
}

void lw__encode_count(struct lw__buffer *out, const char *channel)
{
    lw__resp_words(out, 3, (const char *[]){"PUBSUB", "NUMSUB", channel});
}

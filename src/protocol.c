/* SPDX-License-Identifier: MIT */
/*
 * Arguments out: see protocol.h. Owns the names of keys, tokens and members; must not
 * know a connection. Happy path: lw__put_try writes `SET name token NX PX lease` and
 * `INCR fence`.
 */
#include "protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FENCE_KEY "lockwire:fence"
#define FENCE_TTL_MS 86400000
#define NOTE_KEY "lockwire:client:"
#define NOTE_TTL_MS 120000
#define DIGITS 21 /* of a 64-bit number, its sign and a NUL */

void lw__buffer_clear(struct lw__buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct lw__buffer){0};
}

/* Room for so many bytes more, at the buffer's end; NULL: an allocation failed. */
static char *reserve(struct lw__buffer *out, size_t length)
{
    size_t capacity = out->capacity ? out->capacity : 512;
    char *data;

    if (out->failed) {
        return NULL;
    }
    if (out->capacity - out->length >= length) {
        return out->data + out->length;
    }
    while (capacity - out->length < length) {
        capacity *= 2;
    }
    data = realloc(out->data, capacity);
    if (data == NULL) {
        out->failed = true;
        return NULL;
    }
    out->data = data;
    out->capacity = capacity;
    return data + out->length;
}

static void put(struct lw__buffer *out, const char *bytes, size_t length)
{
    char *at = reserve(out, length);

    if (at == NULL) {
        return;
    }
    memcpy(at, bytes, length);
    out->length += length;
}

/* Decimal digits from the end of `room`; printf is a tenth of a pair's cost otherwise. */
static const char *digits(uint64_t number, char room[DIGITS], size_t *length)
{
    char *at = &room[DIGITS - 1];

    *at = '\0';
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    *length = (size_t)(&room[DIGITS - 1] - at);
    return at;
}

#define HEADER (1 + DIGITS + 2) /* at most */

/* The kind, a number, which mostly has one digit or two, a line's end; where that
 * ends. */
static char *write_header(char *at, char kind, size_t number)
{
    *at++ = kind;
    if (number >= 100) {
        char room[DIGITS];
        size_t length;
        const char *text = digits(number, room, &length);

        memcpy(at, text, length);
        at += length;
    } else {
        if (number >= 10) {
            *at++ = (char)('0' + number / 10);
        }
        *at++ = (char)('0' + number % 10);
    }
    memcpy(at, "\r\n", 2);
    return at + 2;
}

static void put_header(struct lw__buffer *out, char kind, size_t number)
{
    char *at = reserve(out, HEADER);

    if (at != NULL) {
        out->length = (size_t)(write_header(at, kind, number) - out->data);
    }
}

static void put_bytes(struct lw__buffer *out, const char *bytes, size_t length)
{
    char *at = reserve(out, HEADER + length + 2);

    if (at == NULL) {
        return;
    }
    at = write_header(at, '$', length);
    memcpy(at, bytes, length);
    memcpy(at + length, "\r\n", 2);
    out->length = (size_t)(at + length + 2 - out->data);
}

void lw__put_command(struct lw__buffer *out, size_t words)
{
    put_header(out, '*', words);
}

void lw__put_text(struct lw__buffer *out, const char *text)
{
    put_bytes(out, text, strlen(text));
}

void lw__put_number(struct lw__buffer *out, int64_t number)
{
    char room[DIGITS], text[DIGITS + 1];
    size_t length;
    const char *unsigned_text;

    if (number >= 0) {
        unsigned_text = digits((uint64_t)number, room, &length);
        put_bytes(out, unsigned_text, length);
        return;
    }
    unsigned_text = digits(0 - (uint64_t)number, room, &length);
    text[0] = '-';
    memcpy(text + 1, unsigned_text, length);
    put_bytes(out, text, length + 1);
}

static size_t token_length(const struct lw__token_id *id, char ret[LW__TOKEN_SIZE])
{
    char room[DIGITS];
    size_t at = LW__UUID_SIZE - 1, length;
    const char *text;

    memcpy(ret, id->uuid, at);
    ret[at++] = ':';
    text = digits(id->n, room, &length);
    memcpy(ret + at, text, length);
    at += length;
    ret[at++] = ':';
    text = digits(id->window_ms, room, &length);
    memcpy(ret + at, text, length);
    at += length;
    memcpy(ret + at, "-", 2);
    return at + 1;
}

void lw__token_text(const struct lw__token_id *id, char ret[LW__TOKEN_SIZE])
{
    token_length(id, ret);
}

void lw__own_channel(const char *uuid, char ret[LW__CHANNEL_OF_OURS_SIZE])
{
    (void)snprintf(ret, LW__CHANNEL_OF_OURS_SIZE, "lockwire:2:%s", uuid);
}

void lw__connection_channel(const char *uuid, unsigned nonce,
                            char ret[LW__CHANNEL_OF_OURS_SIZE])
{
    (void)snprintf(ret, LW__CHANNEL_OF_OURS_SIZE, "lockwire:2:%s:%x", uuid, nonce);
}

void lw__server_id(const char *run_id, char ret[LW__SERVER_SIZE])
{
    size_t length = strspn(run_id, "0123456789abcdef");

    (void)snprintf(ret, LW__SERVER_SIZE, "%.*s", (int)length, run_id);
}

static void put_token(struct lw__buffer *out, const struct lw__token_id *id)
{
    char text[LW__TOKEN_SIZE];

    put_bytes(out, text, token_length(id, text));
}

/* The queue of a name stands in the name's cluster slot: `{name}`, or as it is where the
 * name carries a tag of its own. */
static void put_queue(struct lw__buffer *out, const char *name, bool rw)
{
    const char *prefix = rw ? "lockwire:2:rwqueue:" : "lockwire:2:queue:";
    bool tagged = strchr(name, '{') != NULL && strchr(name, '}') != NULL;
    size_t length = strlen(name), before = strlen(prefix);

    put_header(out, '$', before + length + (tagged ? 1 : 2));
    put(out, prefix, before);
    put(out, tagged ? ":" : "{", 1);
    put(out, name, length);
    put(out, tagged ? "\r\n" : "}\r\n", tagged ? 2 : 3);
}

/* EVALSHA or EVAL, and the number of keys. */
static void put_script(struct lw__buffer *out, bool eval, enum lw__script_id id,
                       size_t keys, size_t args)
{
    const struct lw__script *script = &lw__scripts[id];

    lw__put_command(out, 3 + keys + args);
    lw__put_text(out, eval ? "EVAL" : "EVALSHA");
    if (eval) {
        put_bytes(out, script->text, script->length);
    } else {
        put_bytes(out, script->sha1, 40);
    }
    lw__put_number(out, (int64_t)keys);
}

static void put_keys(struct lw__buffer *out, const char *name, bool rw)
{
    lw__put_text(out, name);
    put_queue(out, name, rw);
    lw__put_text(out, FENCE_KEY);
}

size_t lw__put_try(struct lw__buffer *out, const char *name,
                   const struct lw__token_id *token, uint32_t lease_ms, bool fence)
{
    size_t second;

    lw__put_command(out, 6);
    put(out, "$3\r\nSET\r\n", 9);
    lw__put_text(out, name);
    put_token(out, token);
    put(out, "$2\r\nNX\r\n$2\r\nPX\r\n", 16);
    lw__put_number(out, lease_ms);
    second = out->length;
    if (fence) {
        static const char incr[] = "*2\r\n$4\r\nINCR\r\n$14\r\n" FENCE_KEY "\r\n";

        put(out, incr, sizeof(incr) - 1);
    }
    return second;
}

static void put_member_parts(struct lw__buffer *out, const struct lw__rw *rw,
                             const struct lw__token_id *token)
{
    lw__put_text(out, rw->write ? "w" : "r");
    if (rw->owner != NULL) {
        lw__put_text(out, rw->owner);
    } else {
        put_token(out, token);
    }
    lw__put_number(out, rw->permits);
}

void lw__put_acquire(struct lw__buffer *out, bool eval,
                     const struct lw__acquire_args *args)
{
    if (args->rw != NULL) {
        put_script(out, eval, LW__SCRIPT_RW_ACQUIRE, 3, 8);
        put_keys(out, args->name, true);
    } else if (args->previous != NULL) {
        put_script(out, eval, LW__SCRIPT_MUTEX_TURN, 3, 7);
        put_keys(out, args->name, false);
        put_token(out, args->previous);
    } else {
        put_script(out, eval, LW__SCRIPT_MUTEX_ACQUIRE, 3, 6);
        put_keys(out, args->name, false);
    }
    put_token(out, &args->token);
    lw__put_number(out, args->lease_ms);
    if (args->previous == NULL) {
        lw__put_number(out, args->wait);
    }
    lw__put_number(out, args->ticket);
    if (args->rw != NULL) {
        put_member_parts(out, args->rw, &args->token);
    } else {
        lw__put_number(out, args->fence);
        if (args->previous != NULL) {
            lw__put_number(out, args->wait);
        }
    }
    lw__put_text(out, args->server);
}

void lw__redisson_field(const struct lw__token_id *id, char ret[LW__TOKEN_SIZE])
{
    char *window;

    (void)token_length(id, ret);
    window = strrchr(ret, ':');
    *window = '\0';
}

void lw__redisson_channel(const char *name, char ret[LW__CHANNEL_SIZE])
{
    bool tagged = strchr(name, '{') != NULL;

    (void)snprintf(ret, LW__CHANNEL_SIZE, "redisson_lock__channel:%s%s%s",
                   tagged ? "" : "{", name, tagged ? "" : "}");
}

static void put_field(struct lw__buffer *out, const struct lw__token_id *id)
{
    char field[LW__TOKEN_SIZE];

    lw__redisson_field(id, field);
    lw__put_text(out, field);
}

void lw__put_redisson_acquire(struct lw__buffer *out, bool eval, const char *name,
                              const struct lw__token_id *token, uint32_t lease_ms)
{
    put_script(out, eval, LW__SCRIPT_REDISSON_ACQUIRE, 1, 2);
    lw__put_text(out, name);
    put_field(out, token);
    lw__put_number(out, lease_ms);
}

void lw__put_redisson_release(struct lw__buffer *out, bool eval, const char *name,
                              const struct lw__token_id *token)
{
    char channel[LW__CHANNEL_SIZE];

    put_script(out, eval, LW__SCRIPT_REDISSON_RELEASE, 1, 2);
    lw__put_text(out, name);
    put_field(out, token);
    lw__redisson_channel(name, channel);
    lw__put_text(out, channel);
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
        lw__put_number(out, args[i].lease_ms);
    }
}

void lw__put_redisson_renew(struct lw__buffer *out, bool eval, size_t count,
                            const struct lw__renew_args *args)
{
    size_t told = leases(count, args);

    put_script(out, eval, LW__SCRIPT_REDISSON_RENEW, count, count + told);
    for (size_t i = 0; i < count; i++) {
        lw__put_text(out, args[i].name);
    }
    for (size_t i = 0; i < count; i++) {
        put_field(out, &args[i].token);
    }
    put_leases(out, told, args);
}

/* `<r|w><permits> <token> <owner>`, as the queue holds it. */
static void put_member(struct lw__buffer *out, const struct lw__rw *rw,
                       const struct lw__token_id *id)
{
    char room[DIGITS], token[LW__TOKEN_SIZE];
    size_t number, length = token_length(id, token), owner;
    const char *permits = digits(rw->permits, room, &number);

    owner = rw->owner != NULL ? strlen(rw->owner) : length;
    put_header(out, '$', 1 + number + 1 + length + 1 + owner);
    put(out, rw->write ? "w" : "r", 1);
    put(out, permits, number);
    put(out, " ", 1);
    put(out, token, length);
    put(out, " ", 1);
    put(out, rw->owner != NULL ? rw->owner : token, owner);
    put(out, "\r\n", 2);
}

void lw__put_release(struct lw__buffer *out, bool eval, const char *name,
                     const struct lw__token_id *token, const struct lw__rw *rw,
                     const char *server)
{
    put_script(out, eval, rw != NULL ? LW__SCRIPT_RW_RELEASE : LW__SCRIPT_MUTEX_RELEASE,
               3, rw != NULL ? 3 : 2);
    put_keys(out, name, rw != NULL);
    put_token(out, token);
    if (rw != NULL) {
        put_member(out, rw, token);
    }
    lw__put_text(out, server);
}

void lw__put_renew(struct lw__buffer *out, bool eval, size_t count,
                   const struct lw__renew_args *args, const char *server)
{
    size_t told = leases(count, args);
    bool rw = server != NULL;

    put_script(out, eval, rw ? LW__SCRIPT_RW_RENEW : LW__SCRIPT_MUTEX_RENEW,
               rw ? 1 + 2 * count : count, rw + count + told);
    if (rw) {
        lw__put_text(out, FENCE_KEY);
    }
    for (size_t i = 0; i < count; i++) {
        lw__put_text(out, args[i].name);
        if (rw) {
            put_queue(out, args[i].name, true);
        }
    }
    if (rw) {
        lw__put_text(out, server);
    }
    for (size_t i = 0; i < count; i++) {
        put_token(out, &args[i].token);
    }
    put_leases(out, told, args);
}

void lw__put_break(struct lw__buffer *out, bool eval, const char *name, const char *token,
                   bool rw, const char *server)
{
    put_script(out, eval, rw ? LW__SCRIPT_RW_RELEASE : LW__SCRIPT_MUTEX_RELEASE, 3,
               rw ? 3 : 2);
    put_keys(out, name, rw);
    lw__put_text(out, token);
    if (rw) {
        lw__put_text(out, ""); /* it does not wait: no member of the queue */
    }
    lw__put_text(out, server);
}

void lw__put_inspect(struct lw__buffer *out, bool eval, const char *name,
                     int most_holders, int most_waiters)
{
    put_script(out, eval, LW__SCRIPT_INSPECT, 3, 2);
    lw__put_text(out, name);
    put_queue(out, name, false);
    put_queue(out, name, true);
    lw__put_number(out, most_holders);
    lw__put_number(out, most_waiters);
}

static void put_note_key(struct lw__buffer *out, const char *uuid)
{
    put_header(out, '$', sizeof(NOTE_KEY) - 1 + LW__UUID_SIZE - 1);
    put(out, NOTE_KEY, sizeof(NOTE_KEY) - 1);
    put(out, uuid, LW__UUID_SIZE - 1);
    put(out, "\r\n", 2);
}

void lw__put_note(struct lw__buffer *out, const char *uuid, const char *note)
{
    lw__put_command(out, note != NULL ? 5 : 2);
    lw__put_text(out, note != NULL ? "SET" : "DEL");
    put_note_key(out, uuid);
    if (note == NULL) {
        return;
    }
    lw__put_text(out, note);
    lw__put_text(out, "PX");
    lw__put_number(out, NOTE_TTL_MS);
}

void lw__put_get_notes(struct lw__buffer *out, size_t count, const char *const *uuids)
{
    lw__put_command(out, 1 + count);
    lw__put_text(out, "MGET");
    for (size_t i = 0; i < count; i++) {
        put_note_key(out, uuids[i]);
    }
}

void lw__put_fence_seed(struct lw__buffer *out, bool eval)
{
    put_script(out, eval, LW__SCRIPT_FENCE_SEED, 1, 0);
    lw__put_text(out, FENCE_KEY);
}

void lw__put_fence_keep(struct lw__buffer *out)
{
    lw__put_command(out, 3);
    lw__put_text(out, "PEXPIRE");
    lw__put_text(out, FENCE_KEY);
    lw__put_number(out, FENCE_TTL_MS);
}

void lw__put_count(struct lw__buffer *out, const char *channel)
{
    lw__put_command(out, 3);
    lw__put_text(out, "PUBSUB");
    lw__put_text(out, "NUMSUB");
    lw__put_text(out, channel);
}

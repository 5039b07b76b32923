/* SPDX-License-Identifier: MIT */
/* Texts in Redis: see format.h. A text that is read may come from any program. Unless it
 * has exactly the expected form it is rejected. */
#include "redis/format.h"

#include "base/buffer.h"
#include "base/check.h"
#include "base/random.h"
#include "base/escape.h"
#include "redis/resp.h"
#include "redis/slot.h"
#include "lockwire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LUA_MAX ((int64_t)1 << 53) /* scripts cannot count beyond it */
#define WINDOW_MAX 60000           /* of a claim, in ms */
#define PADDED_DIGITS 23           /* of n, so that the shortest window makes 65 bytes */

/* ---- tokens ---- */

/* Tokens are written from their end, since that needs no count of the digits. Both return
 * where the text begins, which ends before `end` and has no NUL. */

static char *field_before(const struct lw__token *token, char *end)
{
    char *at = lw__resp_digits_before(token->n & ~LW__PADDED, end);

    if (token->n & LW__PADDED) {
        end -= PADDED_DIGITS;
        memset(end, '0', (size_t)(at - end));
        at = end;
    }
    *--at = ':';
    at -= LW__UUID_SIZE - 1;
    memcpy(at, token->uuid, LW__UUID_SIZE - 1);
    return at;
}

static char *token_before(const struct lw__token *token, char *end)
{
    *--end = '-';
    end = lw__resp_digits_before(token->window_ms, end);
    *--end = ':';
    return field_before(token, end);
}

/* Moves a text to `ret`, with a NUL. Returns its length. */
static size_t give(const char *from, const char *end, char ret[LW__TOKEN_SIZE])
{
    size_t length = (size_t)(end - from);

    memcpy(ret, from, length);
    ret[length] = '\0';
    return length;
}

size_t lw__format_field(const struct lw__token *token, char ret[LW__TOKEN_SIZE])
{
    char room[LW__TOKEN_SIZE], *end = room + sizeof(room);

    return give(field_before(token, end), end, ret);
}

size_t lw__format_token(const struct lw__token *token, char ret[LW__TOKEN_SIZE])
{
    char room[LW__TOKEN_SIZE], *end = room + sizeof(room);

    return give(token_before(token, end), end, ret);
}

void lw__format_put_token(struct lw__buffer *out, const struct lw__token *token)
{
    char room[LW__TOKEN_SIZE], *end = room + sizeof(room);
    const char *at = token_before(token, end);

    lw__resp_bytes(out, at, (size_t)(end - at));
}

void lw__format_put_field(struct lw__buffer *out, const struct lw__token *token)
{
    char room[LW__TOKEN_SIZE], *end = room + sizeof(room);
    const char *at = field_before(token, end);

    lw__resp_bytes(out, at, (size_t)(end - at));
}

bool lw__format_is_token(const char *text)
{
    size_t length = strlen(text);

    return length > LW__UUID_SIZE && text[LW__UUID_SIZE - 1] == ':' && text[8] == '-';
}

bool lw__format_token_matches(const char *given, const char *token)
{
    size_t length = strlen(token);

    return strcmp(given, token) == 0 ||
           (lw__format_is_token(token) && token[length - 1] == '-' &&
            strlen(given) == length && strncmp(given, token, length - 1) == 0 &&
            given[length - 1] == '+');
}

/* ---- requests and holds of a read-write lock ---- */

void lw__format_put_rw_request(struct lw__buffer *out, const struct lw__rw *rw)
{
    const char *owner = rw->owner != NULL ? rw->owner : "";
    size_t length = strlen(owner);

    lw__resp_begin(out, 2 + length);
    lw__buffer_put(out, rw->write ? "w " : "r ", 2);
    lw__buffer_put(out, owner, length);
    lw__resp_end(out);
}

void lw__format_put_hold_field(struct lw__buffer *out, const struct lw__token *token)
{
    char text[LW__TOKEN_SIZE];
    size_t length = lw__format_token(token, text);

    lw__resp_begin(out, 2 + length);
    lw__buffer_put(out, "h:", 2);
    lw__buffer_put(out, text, length);
    lw__resp_end(out);
}

void lw__format_put_rw_release(struct lw__buffer *out, const struct lw__rw *rw,
                               const char *numbers)
{
    char permits[LW__DIGITS];
    const char *owner = rw->owner != NULL ? rw->owner : "";
    size_t digits = lw__resp_digits(rw->permits, permits);
    size_t length = strlen(owner), before = strlen(numbers);

    lw__resp_begin(out, before + 2 + digits + 1 + length);
    lw__buffer_put(out, numbers, before);
    lw__buffer_put(out, rw->write ? " w" : " r", 2);
    lw__buffer_put(out, permits, digits);
    lw__buffer_put(out, " ", 1);
    lw__buffer_put(out, owner, length);
    lw__resp_end(out);
}

bool lw__format_read_member(const char *text, struct lw__member *ret)
{
    const char *token = strchr(text, ' ');
    const char *owner = token != NULL ? strchr(token + 1, ' ') : NULL;

    if (owner == NULL || (*text != 'r' && *text != 'w')) {
        return false;
    }
    *ret = (struct lw__member){
        .write = *text == 'w',
        .permits = (uint32_t)strtoul(text + 1, NULL, 10),
        .token = token + 1,
        .token_length = (size_t)(owner - token - 1),
        .owner = owner + 1,
    };
    return true;
}

bool lw__format_read_hold(const char *text, struct lw__hold *ret)
{
    char *end;
    long long ends_ms = strtoll(text, &end, 10);

    if (ends_ms < 0 || (strncmp(end, " r ", 3) != 0 && strncmp(end, " w ", 3) != 0)) {
        return false;
    }
    *ret = (struct lw__hold){ends_ms, end[1] == 'w', end + 3};
    return true;
}

/* ---- keys ---- */

#define CLIENT_KEY "lockwire:client:"
#define CHANNEL "lockwire:2:"

/* No other place puts a prefix before anything. */

size_t lw__format_name(const char *prefix, const char *name, char ret[LW__NAME_SIZE])
{
    size_t before = strlen(prefix), length = strlen(name);

    memcpy(ret, prefix, before);
    memcpy(ret + before, name, length + 1);
    return before + length;
}

bool lw__format_has_tag(const char *text)
{
    const char *open = strchr(text, '{');
    const char *close = open != NULL ? strchr(open, '}') : NULL;

    return close != NULL && close > open + 1;
}

/* Writes `:{tag}` of the slot; nothing for LW__NO_SLOT. */
static void format_slot(int slot, char ret[LW__SLOT_TAG_SIZE + 3])
{
    char tag[LW__SLOT_TAG_SIZE];

    *ret = '\0';
    if (slot >= 0) {
        (void)lw__slot_tag((unsigned)slot, tag);
        (void)snprintf(ret, LW__SLOT_TAG_SIZE + 3, ":{%s}", tag);
    }
}

size_t lw__format_fence(const char *prefix, int slot, char ret[LW__FENCE_SIZE])
{
    char tag[LW__SLOT_TAG_SIZE + 3];

    format_slot(lw__format_has_tag(prefix) ? LW__NO_SLOT : slot, tag);
    return (size_t)snprintf(ret, LW__FENCE_SIZE, "%s" LW__FENCE_KEY "%s", prefix, tag);
}

void lw__format_put_guard(struct lw__buffer *out, const char *prefix)
{
    lw__resp_begin(out, strlen(prefix) + sizeof(LW__GUARD_KEY) - 1);
    lw__buffer_put(out, prefix, strlen(prefix));
    lw__buffer_put(out, LW__GUARD_KEY, sizeof(LW__GUARD_KEY) - 1);
    lw__resp_end(out);
}

static char *append(char *at, const char *bytes, size_t length)
{
    memcpy(at, bytes, length);
    return at + length;
}

/* The prefix and the kind, then `{name}`; `:name` if the name has a tag; `{tag of its
 * slot}:name` if it has no tag, but a }. */
static void put_companion(struct lw__buffer *out, const char *prefix, const char *kind,
                          const char *name)
{
    size_t length = strlen(name), prefix_length = strlen(prefix),
           kind_length = strlen(kind);
    char start[LW__SLOT_TAG_SIZE + 3] = "{", *at;
    bool wrapped = strchr(name, '}') == NULL;
    size_t start_length = 1;

    if (!wrapped && lw__format_has_tag(name)) {
        start[0] = ':';
    } else if (!wrapped) {
        start_length += lw__slot_tag(lw__slot_of(name, length), start + 1);
        start[start_length++] = '}';
        start[start_length++] = ':';
    }
    at =
        lw__resp_word(out, prefix_length + kind_length + start_length + length + wrapped);
    if (at != NULL) {
        at = append(at, prefix, prefix_length);
        at = append(at, kind, kind_length);
        at = append(at, start, start_length);
        at = append(at, name, length);
        if (wrapped) {
            *at = '}';
        }
    }
}

void lw__format_put_queue(struct lw__buffer *out, const char *prefix, const char *name,
                          bool rw)
{
    put_companion(out, prefix, rw ? "lockwire:2:rwqueue:" : "lockwire:2:queue:", name);
}

void lw__format_put_holder(struct lw__buffer *out, const char *prefix, const char *name)
{
    put_companion(out, prefix, "lockwire:2:holder:", name);
}

void lw__format_client(const char *prefix, const char *uuid, char ret[LW__CLIENT_SIZE])
{
    (void)snprintf(ret, LW__CLIENT_SIZE, "%s" CLIENT_KEY "%.*s", prefix,
                   LW__UUID_SIZE - 1, uuid);
}

void lw__format_put_client(struct lw__buffer *out, const char *prefix, const char *uuid)
{
    char key[LW__CLIENT_SIZE];

    lw__format_client(prefix, uuid, key);
    lw__resp_text(out, key);
}

/* ---- channels ---- */

void lw__format_channel(const char *prefix, const char *uuid, int slot,
                        char ret[LW__CHANNEL_OF_OURS_SIZE])
{
    char tag[LW__SLOT_TAG_SIZE + 3];

    format_slot(slot, tag);
    (void)snprintf(ret, LW__CHANNEL_OF_OURS_SIZE, "%s" CHANNEL "%s%s", prefix, uuid, tag);
}

void lw__format_channel_parts(const char *prefix, int slot,
                              char ret[LW__CHANNEL_OF_OURS_SIZE])
{
    lw__format_channel(prefix, " ", slot, ret);
}

void lw__format_connection_channel(const char *prefix, const char *uuid, unsigned nonce,
                                   char ret[LW__CHANNEL_OF_OURS_SIZE])
{
    (void)snprintf(ret, LW__CHANNEL_OF_OURS_SIZE, "%s" CHANNEL "%s:%x", prefix, uuid,
                   nonce);
}

void lw__format_redisson_channel(const char *name, char ret[LW__CHANNEL_SIZE])
{
    bool tagged = strchr(name, '{') != NULL;

    (void)snprintf(ret, LW__CHANNEL_SIZE, "redisson_lock__channel:%s%s%s",
                   tagged ? "" : "{", name, tagged ? "" : "}");
}

void lw__format_server(const char *run_id, char ret[LW__SERVER_SIZE])
{
    size_t length = strspn(run_id, "0123456789abcdef");

    (void)snprintf(ret, LW__SERVER_SIZE, "%.*s", (int)length, run_id);
}

void lw__format_numbers(const char *server, bool wide, char ret[LW__NUMBERS_SIZE])
{
    (void)snprintf(ret, LW__NUMBERS_SIZE, "%s %s", wide ? "%d" : "%.0f", server);
}

/* ---- messages ---- */

#define US_PER_SECOND 1000000
#define SAFE_DIGITS 19 /* as many as INT64_MAX has; cannot overflow 64 bits */

/* Reads a number from 1 to `most`, as the scripts write it, and the `stop` after it. */
static bool read_number(const char **at, char stop, uint64_t most, uint64_t *ret)
{
    uint64_t value = 0;
    const char *text = *at, *most_digits = text + SAFE_DIGITS;

    if (*text < '1' || *text > '9') {
        return false;
    }
    for (unsigned digit; (digit = (unsigned)(*text - '0')) <= 9; text++) {
        if (text == most_digits) {
            return false;
        }
        value = value * 10 + digit;
    }
    if (*text != stop || value > most) {
        return false;
    }
    *at = text + 1;
    *ret = value;
    return true;
}

/* Reads the number of a token, which may be padded, and the colon after it. */
static bool read_n(const char **at, uint64_t *ret)
{
    size_t digits = strspn(*at, "0123456789"), zeros = strspn(*at, "0");
    bool padded = zeros > 0 && digits == PADDED_DIGITS;

    if (padded) {
        *at += zeros;
    }
    if (!read_number(at, ':', INT64_MAX, ret)) {
        return false;
    }
    *ret |= padded ? LW__PADDED : 0;
    return true;
}

/* Reads the server's time, which has two words, seconds and microseconds. */
static bool read_time(const char **at, int64_t *ret)
{
    uint64_t seconds, us = 0;

    if (!read_number(at, ' ', LUA_MAX / US_PER_SECOND - 1, &seconds)) {
        return false;
    }
    if ((*at)[0] == '0' && (*at)[1] == ' ') {
        *at += 2;
    } else if (!read_number(at, ' ', US_PER_SECOND - 1, &us)) {
        return false;
    }
    *ret = (int64_t)(seconds * US_PER_SECOND + us);
    return true;
}

/* Reads a token of this client, and the space after it. */
static bool read_token(const char **at, const char *uuid, struct lw__token *ret)
{
    uint64_t window;

    ret->uuid = uuid;
    if (strncmp(*at, uuid, LW__UUID_SIZE - 1) != 0 || (*at)[LW__UUID_SIZE - 1] != ':') {
        return false;
    }
    *at += LW__UUID_SIZE;
    if (!read_n(at, &ret->n) || !read_number(at, '-', WINDOW_MAX, &window) ||
        *(*at)++ != ' ') {
        return false;
    }
    ret->window_ms = (uint32_t)window;
    return true;
}

/* Reads a server's id, which may be empty, and the space after it. */
static bool read_server(const char **at, char ret[LW__SERVER_SIZE])
{
    size_t length = strspn(*at, "0123456789abcdef");

    if (length >= LW__SERVER_SIZE || (*at)[length] != ' ') {
        return false;
    }
    memcpy(ret, *at, length);
    ret[length] = '\0';
    *at += length + 1;
    return true;
}

bool lw__format_read_message(const char *text, size_t length, const char *uuid,
                             struct lw__message *ret)
{
    const char *at = text;
    char why[LW_WHY_SIZE];
    uint64_t window;

    *ret = (struct lw__message){0};
    if (strlen(text) != length || strchr("trsvy", *at) == NULL || *at == '\0' ||
        *++at != ' ') {
        return false;
    }
    at++;
    if (!read_token(&at, uuid, &ret->token)) {
        return false;
    }
    ret->handed = text[0] == 't' || text[0] == 'r';
    ret->verify = text[0] == 'v';
    ret->yield = text[0] == 'y';
    ret->rw = text[0] == 'r';
    if (ret->handed) {
        if (!read_number(&at, ' ', LUA_MAX, &ret->fence) ||
            !read_server(&at, ret->server) || !read_time(&at, &ret->handed_us)) {
            return false;
        }
    } else if (!ret->verify && !ret->yield) {
        if (!read_number(&at, ' ', WINDOW_MAX, &window)) {
            return false;
        }
        ret->window_ms = (int64_t)window;
    }
    ret->name = at;
    return lw__check_name(at, why, sizeof(why)) == NULL;
}

/* ---- tokens from the caller ---- */

/* Returns true for `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx:`, in lower case. */
static bool begins_with_uuid(const char *text)
{
    static const char form[] = "00000000-0000-0000-0000-000000000000:";

    for (size_t i = 0; i < sizeof(form) - 1; i++) {
        bool fits = form[i] == '0'
                        ? text[i] != '\0' && strchr("0123456789abcdef", text[i]) != NULL
                        : text[i] == form[i];

        if (!fits) {
            return false;
        }
    }
    return true;
}

/* Reads `<n>:<window>` and the sign of this version, which is '\0' in version 1. */
static bool read_rest(const char *at, char sign)
{
    uint64_t n, window;

    return read_n(&at, &n) && read_number(&at, sign, WINDOW_MAX, &window) &&
           (sign == '\0' || *at == '\0');
}

const char *lw__format_check_token(const char *text, char ret[LW__TOKEN_SIZE], char *why,
                                   size_t why_size)
{
    size_t length = strlen(text);
    const char *reason = "no lock token of lockwire (lw_lock_token, LOCKWIRE_TOKEN, or "
                         "what `lockwire take` "
                         "printed)",
               *rest = text + LW__UUID_SIZE;

    if (length < LW__TOKEN_SIZE && begins_with_uuid(text)) {
        if (read_rest(rest, '-') || read_rest(rest, '+')) {
            memcpy(ret, text, length + 1);
            ret[length - 1] = '-';
            return NULL;
        }
        if (strspn(rest, "0123456789") == strlen(rest)) {
            reason = "a token of LW_REDISSON";
        } else if (read_rest(rest, '\0')) {
            reason = "a token of another version of lockwire";
        }
    }
    (void)snprintf(why, why_size, "token is %s", *text ? reason : "empty");
    return why;
}

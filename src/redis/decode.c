/* SPDX-License-Identifier: MIT */
/* Decodes replies: see decode.h. Each element must be of the type and in the range that
 * the script gives it, otherwise the whole reply is rejected. */
#include "redis/decode.h"

#include "redis/reply.h"
#include "redis/resp.h"

#include <string.h>

#define NAME_MAX_BYTES 512
#define LUA_MAX ((int64_t)1 << 53) /* scripts cannot count beyond it */

/* Reads an integer from `low` to `high` at this index of an array. Returns false if it is
 * anything else. */
static bool integer_at(const struct lw__reply *reply, size_t index, int64_t low,
                       int64_t high, int64_t *ret)
{
    const struct lw__reply *element;

    if (index >= lw__reply_count(reply)) {
        return false;
    }
    element = lw__reply_at(reply, index);
    *ret = lw__reply_integer(element);
    return lw__reply_type(element) == LW__REPLY_INTEGER && *ret >= low && *ret <= high;
}

static bool flag_at(const struct lw__reply *reply, size_t index, bool *ret)
{
    int64_t number;

    if (!integer_at(reply, index, 0, 1, &number)) {
        return false;
    }
    *ret = number == 1;
    return true;
}

/* Returns a text that is not empty, such as the TYPE of a key; or NULL. */
static const char *word_at(const struct lw__reply *reply, size_t index)
{
    const struct lw__reply *element = lw__reply_at(reply, index);
    const char *text = lw__reply_text(element, NULL);

    if (lw__reply_type(element) == LW__REPLY_ERROR || *text == '\0') {
        return NULL;
    }
    return text;
}

/* In place of a position: the token did not join, since the queue is full. */
#define FULL (-2)

static void read_position(struct lw__acquired *ret, int64_t position)
{
    ret->full = position == FULL;
    ret->position = ret->full ? -1 : position;
}

/* See rw_acquire.lua for the format. */
static bool read_queued(const struct lw__reply *reply, int64_t least_position,
                        struct lw__acquired *ret)
{
    size_t count = lw__reply_count(reply);
    int64_t zero, position;

    ret->kind = LW__ANSWER_QUEUED;
    if (!integer_at(reply, 0, 0, 0, &zero) ||
        !integer_at(reply, 1, -1, INT64_MAX, &ret->remaining_ms) ||
        !integer_at(reply, 2, least_position, LUA_MAX, &position) ||
        !integer_at(reply, 3, -1, LUA_MAX, &ret->ticket) ||
        !integer_at(reply, 4, 1, LUA_MAX, &ret->server_us) ||
        !flag_at(reply, 5, &ret->again)) {
        return false;
    }
    read_position(ret, position);
    if (count == 7) {
        ret->foreign = word_at(reply, 6);
        return ret->foreign != NULL;
    }
    return count == 6;
}

/* The fencing token, -1 for a deadlock, or a reply for read_queued. */
bool lw__decode_rw_acquired(const struct lw__reply *reply, struct lw__acquired *ret)
{
    int64_t number = lw__reply_integer(reply);

    *ret = (struct lw__acquired){0};
    if (lw__reply_type(reply) != LW__REPLY_INTEGER) {
        return read_queued(reply, FULL, ret);
    }
    ret->kind = number > 0 ? LW__ANSWER_GRANTED : LW__ANSWER_DEADLOCK;
    ret->fence = number > 0 ? (uint64_t)number : 0;
    return number == -1 || (number > 0 && number <= LUA_MAX);
}

/* {1, 0}, or a reply for read_queued. There are no fencing tokens. */
bool lw__decode_redisson_acquired(const struct lw__reply *reply, struct lw__acquired *ret)
{
    int64_t granted, fence;

    *ret = (struct lw__acquired){0};
    if (!integer_at(reply, 0, 0, 1, &granted)) {
        return false;
    }
    if (granted == 0) {
        return read_queued(reply, -1, ret);
    }
    ret->kind = LW__ANSWER_GRANTED;
    return integer_at(reply, 1, 0, 0, &fence) && lw__reply_count(reply) == 2;
}

/* Reads an integer as Lua writes it, up to a space or the end, and moves `at` past that.
 */
static bool read_integer(const char **at, int64_t low, int64_t high, int64_t *ret)
{
    bool negative = **at == '-';
    const char *text = *at + negative, *first = text;
    int64_t value = 0;

    for (; *text >= '0' && *text <= '9'; text++) {
        if (value > LUA_MAX / 10) {
            return false;
        }
        value = value * 10 + (*text - '0');
    }
    if (text == first || (*first == '0' && (negative || text > first + 1)) ||
        (*text != ' ' && *text != '\0')) {
        return false;
    }
    *at = text + (*text == ' ');
    *ret = negative ? -value : value;
    return *ret >= low && *ret <= high;
}

static bool read_flag(const char **at, bool *ret)
{
    int64_t number;
    bool good = read_integer(at, 0, 1, &number);

    *ret = good && number == 1;
    return good;
}

/* Reads what follows the server's time. A newcomer has that time as its ticket, and then
 * nothing follows. */
static bool read_ticket(const char *at, struct lw__acquired *ret)
{
    if (*at == '\0') {
        ret->ticket = ret->server_us;
        return true;
    }
    if (!read_integer(&at, -1, LUA_MAX, &ret->ticket) || !read_flag(&at, &ret->again)) {
        return false;
    }
    ret->foreign = *at != '\0' ? at : NULL;
    return strchr(at, ' ') == NULL;
}

/* See mutex_acquire.lua for the format. */
static bool read_refused(const struct lw__reply *reply, struct lw__acquired *ret)
{
    size_t length;
    const char *text = lw__reply_text(reply, &length), *at = text;
    int64_t position;

    ret->kind = LW__ANSWER_QUEUED;
    if (lw__reply_type(reply) != LW__REPLY_STRING || strlen(text) != length ||
        !read_integer(&at, LW__NOT_TOLD, LUA_MAX, &ret->remaining_ms) ||
        !read_integer(&at, FULL, LUA_MAX, &position)) {
        return false;
    }
    read_position(ret, position);
    return read_integer(&at, 1, LUA_MAX, &ret->server_us) && read_ticket(at, ret) &&
           text[length - 1] != ' ';
}

bool lw__decode_acquired(const struct lw__reply *reply, struct lw__acquired *ret)
{
    int64_t number = lw__reply_integer(reply);

    *ret = (struct lw__acquired){0};
    if (lw__reply_type(reply) != LW__REPLY_INTEGER) {
        return read_refused(reply, ret);
    }
    ret->kind = LW__ANSWER_GRANTED;
    ret->fence = (uint64_t)number;
    return number >= 0 && number <= LUA_MAX;
}

/* Returns true for a number of up to 64 bits, as SCAN writes it. */
static bool is_cursor(const char *text, size_t length)
{
    return length > 0 && length < LW__DIGITS && strspn(text, "0123456789") == length &&
           (*text != '0' || length == 1);
}

static bool is_name(const struct lw__reply *reply)
{
    size_t length;

    (void)lw__reply_text(reply, &length);
    return lw__reply_type(reply) == LW__REPLY_STRING && length <= NAME_MAX_BYTES;
}

bool lw__decode_scan_page(const struct lw__reply *reply, struct lw__scan_page *ret)
{
    const struct lw__reply *cursor;
    size_t length;

    if (lw__reply_count(reply) < LW__SCAN_PAGE_NAMES ||
        !integer_at(reply, 1, 0, LUA_MAX, &ret->seen) ||
        !integer_at(reply, 2, -1, LUA_MAX, &ret->keys)) {
        return false;
    }
    for (size_t i = LW__SCAN_PAGE_NAMES; i < lw__reply_count(reply); i++) {
        if (!is_name(lw__reply_at(reply, i))) {
            return false;
        }
    }
    cursor = lw__reply_at(reply, 0);
    ret->cursor = lw__reply_text(cursor, &length);
    return lw__reply_type(cursor) == LW__REPLY_STRING && is_cursor(ret->cursor, length);
}

bool lw__decode_count(const struct lw__reply *reply, int64_t *ret)
{
    return lw__reply_count(reply) == 2 && integer_at(reply, 1, 0, INT64_MAX, ret);
}

bool lw__decode_fast_released(const struct lw__reply *reply, struct lw__released *ret)
{
    int64_t number = lw__reply_integer(reply);

    *ret = (struct lw__released){.released = number == 1, .again = number == 0};
    return lw__reply_type(reply) == LW__REPLY_INTEGER && (number == 0 || number == 1);
}

bool lw__decode_released(const struct lw__reply *reply, struct lw__released *ret)
{
    int64_t number = lw__reply_integer(reply);

    *ret =
        (struct lw__released){.released = (number & 1) != 0, .again = (number & 2) != 0};
    return lw__reply_type(reply) == LW__REPLY_INTEGER && number >= 0 && number <= 3;
}

bool lw__decode_rw_released(const struct lw__reply *reply, struct lw__released *ret)
{
    int64_t number = lw__reply_integer(reply);

    *ret = (struct lw__released){.released = (number & 1) != 0,
                                 .again = (number & 2) != 0,
                                 .holds_left = number / 4};
    return lw__reply_type(reply) == LW__REPLY_INTEGER && number >= 0 && number <= LUA_MAX;
}

bool lw__decode_released_one_key(const struct lw__reply *reply, bool rw,
                                 struct lw__released *ret)
{
    bool valid = rw ? lw__decode_rw_released(reply, ret)
                    : lw__decode_fast_released(reply, ret);

    ret->again = false;
    return valid;
}

bool lw__decode_detached(const struct lw__reply *reply, bool *ret)
{
    int64_t number = lw__reply_integer(reply);

    *ret = number == 1;
    return lw__reply_type(reply) == LW__REPLY_INTEGER && (number == 0 || number == 1);
}

bool lw__decode_adopted(const struct lw__reply *reply, bool rw, struct lw__adopted *ret)
{
    int64_t number = lw__reply_integer(reply);
    const char *owner;

    *ret = (struct lw__adopted){.owner = ""};
    if (lw__reply_type(reply) == LW__REPLY_INTEGER && number < 0) {
        ret->kind = number == -1 ? LW__ADOPTED_NOT_HELD : LW__ADOPTED_OTHER_KIND;
        return number >= -2;
    }
    if (rw) {
        if (lw__reply_count(reply) != 2 || !integer_at(reply, 0, 1, LUA_MAX, &number) ||
            (owner = word_at(reply, 1)) == NULL) {
            return false;
        }
        ret->owner = owner;
    } else if (lw__reply_type(reply) != LW__REPLY_INTEGER || number > LUA_MAX) {
        return false;
    }
    ret->fence = (uint64_t)number;
    return true;
}

bool lw__decode_renewed(const struct lw__reply *reply, size_t count, bool *renewed)
{
    if (lw__reply_type(reply) == LW__REPLY_INTEGER) {
        for (size_t i = 0; i < count; i++) {
            renewed[i] = true;
        }
        return lw__reply_integer(reply) == (int64_t)count;
    }
    if (lw__reply_type(reply) != LW__REPLY_ARRAY || lw__reply_count(reply) != count) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        if (!flag_at(reply, i, &renewed[i])) {
            return false;
        }
    }
    return true;
}

/* 0 if it was not held, else one more than the number of subscribers. */
bool lw__decode_redisson_released(const struct lw__reply *reply, struct lw__released *ret)
{
    int64_t number = lw__reply_integer(reply);

    *ret = (struct lw__released){.released = number > 0, .subscribers = number - 1};
    return lw__reply_type(reply) == LW__REPLY_INTEGER && number >= 0;
}

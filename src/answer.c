/* SPDX-License-Identifier: MIT */
/*
 * Replies and messages in, strictly: see protocol.h. Whatever a script of ours cannot
 * have said is refused as a whole; nothing is guessed.
 */
#include "protocol.h"

#include "url.h"

#include <string.h>

#define LUA_MAX ((int64_t)1 << 53) /* above it a script cannot count */
#define WINDOW_MAX 60000           /* of a claim, in ms */

/* An integer from `low` to `high` at this place of an array; nothing else, nothing
 * missing. */
static bool integer_at(const struct lw__reply *reply, size_t index, int64_t low,
                       int64_t high, int64_t *ret)
{
    const struct lw__reply *element;

    if (index >= lw__reply_count(reply)) {
        return false;
    }
    element = lw__reply_at(reply, index);
    if (lw__reply_type(element) != LW__REPLY_INTEGER ||
        lw__reply_integer(element) < low || lw__reply_integer(element) > high) {
        return false;
    }
    *ret = lw__reply_integer(element);
    return true;
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

/* The TYPE of a key: a word, which Lua hands on as a string. */
static const char *word_at(const struct lw__reply *reply, size_t index)
{
    const struct lw__reply *element = lw__reply_at(reply, index);
    const char *text = lw__reply_text(element, NULL);

    if (lw__reply_type(element) == LW__REPLY_ERROR || *text == '\0') {
        return NULL;
    }
    return text;
}

static bool get_queued(const struct lw__reply *reply, size_t first,
                       struct lw__acquired *ret)
{
    size_t count = lw__reply_count(reply);

    ret->kind = LW__ANSWER_QUEUED;
    if (!integer_at(reply, first + 1, -1, INT64_MAX, &ret->remaining_ms) ||
        !integer_at(reply, first + 2, -1, LUA_MAX, &ret->position) ||
        !integer_at(reply, first + 3, -1, LUA_MAX, &ret->ticket) ||
        !integer_at(reply, first + 4, 1, LUA_MAX, &ret->server_us) ||
        !flag_at(reply, first + 5, &ret->again)) {
        return false;
    }
    if (count == first + 7) {
        ret->stranger = word_at(reply, first + 6);
        return ret->stranger != NULL;
    }
    return count == first + 6;
}

bool lw__get_acquired(const struct lw__reply *reply, bool turn, struct lw__acquired *ret)
{
    size_t first = turn ? 1 : 0;
    int64_t kind, fence;

    *ret = (struct lw__acquired){0};
    if ((turn && !flag_at(reply, 0, &ret->released)) ||
        !integer_at(reply, first, turn ? 0 : -1, 1, &kind)) {
        return false;
    }
    switch (kind) {
    case 1:
        ret->kind = LW__ANSWER_GRANTED;
        if (!integer_at(reply, first + 1, 0, LUA_MAX, &fence)) {
            return false;
        }
        ret->fence = (uint64_t)fence;
        return lw__reply_count(reply) == first + 2;
    case 0:
        return get_queued(reply, first, ret);
    default:
        ret->kind = LW__ANSWER_DEADLOCK;
        return lw__reply_count(reply) == first + 1;
    }
}

/* The channel, and how many. */
bool lw__get_count(const struct lw__reply *reply, int64_t *ret)
{
    return lw__reply_count(reply) == 2 && integer_at(reply, 1, 0, INT64_MAX, ret);
}

bool lw__get_released(const struct lw__reply *reply, bool rw, struct lw__released *ret)
{
    *ret = (struct lw__released){0};
    if (!rw) {
        if (lw__reply_type(reply) != LW__REPLY_INTEGER || lw__reply_integer(reply) < 0 ||
            lw__reply_integer(reply) > 3) {
            return false;
        }
        ret->released = (lw__reply_integer(reply) & 1) != 0;
        ret->again = (lw__reply_integer(reply) & 2) != 0;
        return true;
    }
    return lw__reply_count(reply) == 3 && flag_at(reply, 0, &ret->released) &&
           integer_at(reply, 1, 0, LUA_MAX, &ret->holds_left) &&
           flag_at(reply, 2, &ret->again);
}

bool lw__get_renewed(const struct lw__reply *reply, size_t count, bool *renewed)
{
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

/* One more than were told. */
bool lw__get_redisson_released(const struct lw__reply *reply, struct lw__released *ret)
{
    int64_t number = lw__reply_integer(reply);

    *ret = (struct lw__released){.released = number > 0, .told = number - 1};
    return lw__reply_type(reply) == LW__REPLY_INTEGER && number >= 0;
}

/* Digits up to `stop`: from 1 to `most`, as the scripts write it. */
static bool number(const char **at, char stop, uint64_t most, uint64_t *ret)
{
    uint64_t value = 0;
    const char *text = *at;

    if (*text < '1' || *text > '9') {
        return false;
    }
    for (; *text >= '0' && *text <= '9'; text++) {
        uint64_t digit = (uint64_t)(*text - '0');

        if (value > (most - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    if (*text != stop) {
        return false;
    }
    *at = text + 1;
    *ret = value;
    return true;
}

/* A server's id: hexadecimal digits up to a blank, or none. */
static bool server(const char **at, char ret[LW__SERVER_SIZE])
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

bool lw__get_message(const char *text, size_t length, const char *uuid,
                     struct lw__message *ret)
{
    const char *at;
    char why[LW__WHY];
    uint64_t token_window, window, handed_us;

    *ret = (struct lw__message){0};
    if (strlen(text) != length || length < 2 + LW__UUID_SIZE || text[1] != ' ' ||
        (text[0] != 't' && text[0] != 'r' && text[0] != 's') ||
        strncmp(text + 2, uuid, LW__UUID_SIZE - 1) != 0 ||
        text[1 + LW__UUID_SIZE] != ':') {
        return false;
    }
    at = text + 2 + LW__UUID_SIZE;
    ret->handed = text[0] != 's';
    ret->rw = text[0] == 'r';
    if (!number(&at, ':', INT64_MAX, &ret->n) ||
        !number(&at, '-', WINDOW_MAX, &token_window) || *at++ != ' ') {
        return false;
    }
    ret->token_window_ms = (uint32_t)token_window;
    if (ret->handed) {
        if (!number(&at, ' ', LUA_MAX, &ret->fence) ||
            !number(&at, ' ', LUA_MAX, &handed_us) || !server(&at, ret->server)) {
            return false;
        }
        ret->handed_us = (int64_t)handed_us;
    } else {
        if (!number(&at, ' ', WINDOW_MAX, &window)) {
            return false;
        }
        ret->window_ms = (int64_t)window;
    }
    ret->name = at;
    return lw__name_check(at, why, sizeof(why)) == NULL;
}

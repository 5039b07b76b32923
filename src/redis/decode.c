/* SPDX-License-Identifier: MIT */
/* Answers in. Happy path: each element is of the type and in the range that the script
 * gives it. Whatever a script of ours cannot have said is refused as a whole; nothing is
 * guessed. */
#include "redis/decode.h"

#include "redis/reply.h"

#define LUA_MAX ((int64_t)1 << 53) /* above it a script cannot count */

/* An integer from `low` to `high` at this place of an array, and nothing else. */
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

bool lw__decode_acquired(const struct lw__reply *reply, bool turn,
                         struct lw__acquired *ret)
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

bool lw__decode_count(const struct lw__reply *reply, int64_t *ret)
{
    return lw__reply_count(reply) == 2 && integer_at(reply, 1, 0, INT64_MAX, ret);
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
    *ret = (struct lw__released){0};
    return lw__reply_count(reply) == 3 && flag_at(reply, 0, &ret->released) &&
           integer_at(reply, 1, 0, LUA_MAX, &ret->holds_left) &&
           flag_at(reply, 2, &ret->again);
}

bool lw__decode_renewed(const struct lw__reply *reply, size_t count, bool *renewed)
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
bool lw__decode_redisson_released(const struct lw__reply *reply, struct lw__released *ret)
{
    int64_t number = lw__reply_integer(reply);

    *ret = (struct lw__released){.released = number > 0, .told = number - 1};
    return lw__reply_type(reply) == LW__REPLY_INTEGER && number >= 0;
}

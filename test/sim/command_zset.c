/* SPDX-License-Identifier: MIT
 *
 * Commands on sorted sets.
 */
#include "model.h"

#include <limits.h>
#include <stdlib.h>

struct zadd_options {
    bool only_new, only_old, greater, less, count_changes;
    int first_pair;
};

static const char *parse_zadd(const struct call *call, struct zadd_options *options)
{
    int at = 2;

    *options = (struct zadd_options){0};
    for (; at < call->argc; at++) {
        struct bytes word = call->argv[at];
        if (bytes_is(word, "nx")) {
            options->only_new = true;
        } else if (bytes_is(word, "xx")) {
            options->only_old = true;
        } else if (bytes_is(word, "gt")) {
            options->greater = true;
        } else if (bytes_is(word, "lt")) {
            options->less = true;
        } else if (bytes_is(word, "ch")) {
            options->count_changes = true;
        } else {
            break;
        }
    }
    options->first_pair = at;
    if (at == call->argc || (call->argc - at) % 2) {
        return "ERR syntax error";
    }
    if (options->only_new && options->only_old) {
        return "ERR XX and NX options at the same time are not compatible";
    }
    if ((options->greater && options->only_new) || (options->less && options->only_new) ||
        (options->greater && options->less)) {
        return "ERR GT, LT, and/or NX options at the same time are not compatible";
    }
    return NULL;
}

/* Returns 1 if the member was added, 2 if its score was changed, 0 if neither. */
static int zadd_one(struct zset *zset, const struct zadd_options *options, double score,
                    struct bytes member)
{
    double old;

    if (!zset_score(zset, member, &old)) {
        if (options->only_old) {
            return 0;
        }
        zset_put(zset, member, score);
        return 1;
    }
    if (options->only_new || score == old || (options->greater && score < old) ||
        (options->less && score > old)) {
        return 0;
    }
    zset_put(zset, member, score);
    return 2;
}

static bool parse_scores(struct call *call, int first_pair, double *scores)
{
    for (int i = first_pair; i < call->argc; i += 2) {
        if (!bytes_to_double(call->argv[i], &scores[(i - first_pair) / 2])) {
            resp_error(call->reply, "ERR value is not a valid float");
            return false;
        }
    }
    return true;
}

static void zadd_all(struct call *call, const struct zadd_options *options,
                     const double *scores)
{
    struct content *content;
    int64_t added = 0, changed = 0;

    if (!call_make(call, VALUE_ZSET, &content)) {
        return;
    }
    for (int i = options->first_pair; i < call->argc; i += 2) {
        double score = scores[(i - options->first_pair) / 2];
        int what = zadd_one(&content->zset, options, score, call->argv[i + 1]);
        added += what == 1;
        changed += what == 2;
    }
    keyspace_drop_if_empty(call_space(call), call->argv[1]);
    resp_int(call->reply, options->count_changes ? added + changed : added);
}

void run_zadd(struct call *call)
{
    struct zadd_options options;
    const char *error = parse_zadd(call, &options);
    double *scores;

    if (error != NULL) {
        resp_error(call->reply, "%s", error);
        return;
    }
    scores = must_alloc((size_t)(call->argc - options.first_pair) / 2 * sizeof(*scores));
    if (parse_scores(call, options.first_pair, scores)) {
        zadd_all(call, &options, scores);
    }
    free(scores);
}

void run_zrem(struct call *call)
{
    struct content *content;
    int64_t removed = 0;

    if (!call_write(call, VALUE_ZSET, &content)) {
        return;
    }
    for (int i = 2; content != NULL && i < call->argc; i++) {
        removed += zset_remove(&content->zset, call->argv[i]);
    }
    keyspace_drop_if_empty(call_space(call), call->argv[1]);
    resp_int(call->reply, removed);
}

void run_zscore(struct call *call)
{
    struct content *content;
    double score;

    if (!call_read(call, VALUE_ZSET, &content)) {
        return;
    }
    if (content != NULL && zset_score(&content->zset, call->argv[2], &score)) {
        resp_double(call->reply, score);
    } else {
        resp_nil(call->reply);
    }
}

static void reply_rank(struct call *call, bool reverse)
{
    struct content *content;
    size_t rank;

    if (!call_read(call, VALUE_ZSET, &content)) {
        return;
    }
    if (content != NULL && zset_rank(&content->zset, call->argv[2], &rank)) {
        resp_int(call->reply, (int64_t)(reverse ? content->zset.count - 1 - rank : rank));
    } else {
        resp_nil(call->reply);
    }
}

void run_zrank(struct call *call)
{
    reply_rank(call, false);
}

void run_zrevrank(struct call *call)
{
    reply_rank(call, true);
}

void run_zcard(struct call *call)
{
    struct content *content;
    if (call_read(call, VALUE_ZSET, &content)) {
        resp_int(call->reply, content != NULL ? (int64_t)content->zset.count : 0);
    }
}

static void reply_range(struct call *call, bool reverse, bool scores)
{
    struct content *content;
    int64_t start, stop;

    if (!call_long(call, 2, &start) || !call_long(call, 3, &stop) ||
        !call_read(call, VALUE_ZSET, &content)) {
        return;
    }
    if (content == NULL || !clip_range((int64_t)content->zset.count, &start, &stop)) {
        resp_array(call->reply, 0);
        return;
    }
    resp_array(call->reply, (size_t)(stop - start + 1) * (scores ? 2 : 1));
    for (int64_t i = start; i <= stop; i++) {
        const struct zset *zset = &content->zset;
        double score;
        size_t rank = reverse ? zset->count - 1 - (size_t)i : (size_t)i;
        resp_bulk(call->reply, zset_at(zset, rank, &score));
        if (scores) {
            resp_double(call->reply, score);
        }
    }
}

static void parse_range(struct call *call, bool reverse, bool may_reverse)
{
    bool scores = false;

    for (int i = 4; i < call->argc; i++) {
        if (bytes_is(call->argv[i], "withscores")) {
            scores = true;
        } else if (may_reverse && bytes_is(call->argv[i], "rev")) {
            reverse = true;
        } else {
            call_syntax_error(call);
            return;
        }
    }
    reply_range(call, reverse, scores);
}

void run_zrange(struct call *call)
{
    parse_range(call, false, true);
}

void run_zrevrange(struct call *call)
{
    parse_range(call, true, false);
}

/* Parses an end of a range of scores: a number, after '(' if the end itself is excluded.
 */
static bool parse_end(struct bytes text, double *score, bool *outside)
{
    *outside = text.len && text.data[0] == '(';
    if (*outside) {
        text = (struct bytes){text.data + 1, text.len - 1};
    }
    return bytes_to_double(text, score);
}

void run_zrangebyscore(struct call *call)
{
    struct content *content;
    struct buffer found = {0};
    size_t count = 0;
    double low, high, score;
    bool above_low, below_high;

    if (call->argc > 4) {
        call_syntax_error(call);
        return;
    }
    if (!parse_end(call->argv[2], &low, &above_low) ||
        !parse_end(call->argv[3], &high, &below_high)) {
        resp_error(call->reply, "ERR min or max is not a float");
        return;
    }
    if (!call_read(call, VALUE_ZSET, &content)) {
        return;
    }
    for (size_t rank = 0; content != NULL && rank < content->zset.count; rank++) {
        struct bytes member = zset_at(&content->zset, rank, &score);
        if (score < low || score > high || (above_low && score == low) ||
            (below_high && score == high)) {
            continue;
        }
        resp_bulk(&found, member);
        count++;
    }
    resp_array(call->reply, count);
    buffer_append(call->reply, found.data, found.len);
    buffer_free(&found);
}

void run_zpopmin(struct call *call)
{
    struct content *content;
    int64_t count = 1;

    if (call->argc > 3) {
        call_syntax_error(call);
        return;
    }
    if (call->argc == 3 &&
        (!bytes_to_int(call->argv[2], &count) || count < 0 || count > LONG_MAX)) {
        resp_error(call->reply, "ERR value is out of range, must be positive");
        return;
    }
    if (!call_write(call, VALUE_ZSET, &content)) {
        return;
    }
    if (content == NULL || count > (int64_t)content->zset.count) {
        count = content != NULL ? (int64_t)content->zset.count : 0;
    }
    resp_array(call->reply, (size_t)count * 2);
    for (int64_t i = 0; i < count; i++) {
        double score;
        struct bytes member = zset_at(&content->zset, 0, &score);
        resp_bulk(call->reply, member);
        resp_double(call->reply, score);
        zset_remove(&content->zset, member);
    }
    keyspace_drop_if_empty(call_space(call), call->argv[1]);
}

/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: a connection's bytes go through the guarded reader, and each reply through
 * every decoder. What a decoder accepts must be within its limits. The first bytes of the
 * input determine how the rest is cut up, and the limit of one reply.
 *
 * Usual course: feed a piece, take its replies, pass each to all decoders.
 */
#include "fuzz.h"
#include "base/escape.h"
#include "redis/classify.h"
#include "redis/cluster_parse.h"
#include "redis/decode.h"
#include "redis/format.h"
#include "redis/reader.h"
#include "redis/reply.h"
#include "redis/sentinel_parse.h"
#include "redis/slot.h"
#include "lockwire.h"

#include <string.h>

#define LUA_MAX ((int64_t)1 << 53)
#define COUNT 3 /* tokens of a renewal */

static const char uuid[] = "6ba7b810-9dad-41d1-80b4-00c04fd430c8";

typedef bool acquired_decoder(const struct lw__reply *reply, struct lw__acquired *ret);

static void check_acquired(const struct lw__reply *reply, acquired_decoder *decode)
{
    struct lw__acquired got;

    if (!decode(reply, &got)) {
        return;
    }
    CHECK(lw__reply_type(reply) == LW__REPLY_ARRAY ||
          decode != lw__decode_redisson_acquired);
    CHECK(got.fence <= (uint64_t)LUA_MAX);
    if (got.kind == LW__ANSWER_QUEUED) {
        CHECK(got.remaining_ms >= (decode == lw__decode_acquired ? LW__NOT_TOLD : -1));
        CHECK(got.position >= -1 && got.ticket >= -1);
        CHECK(got.position <= LUA_MAX && got.ticket <= LUA_MAX);
        CHECK(got.server_us > 0 && got.server_us <= LUA_MAX);
        CHECK(got.foreign == NULL || strlen(got.foreign) > 0);
    } else {
        CHECK(got.foreign == NULL && !got.again);
    }
    CHECK(decode == lw__decode_rw_acquired || got.kind != LW__ANSWER_DEADLOCK);
}

static void check_message(const struct lw__reply *reply)
{
    struct lw__message message;
    size_t length;
    const char *text = lw__reply_text(reply, &length);

    CHECK(text[length] == '\0');
    if (!lw__format_read_message(text, length, uuid, &message)) {
        return;
    }
    CHECK(message.token.n > 0 && message.token.window_ms > 0);
    CHECK(message.name > text && message.name < text + length);
    CHECK(message.handed + message.verify + message.yield <= 1);
    CHECK(message.handed                    ? message.fence > 0 && message.handed_us > 0
          : message.verify || message.yield ? message.window_ms == 0
                                            : message.window_ms > 0);
}

static void check_place(const struct lw__endpoint *place)
{
    size_t length = strnlen(place->host, sizeof(place->host));

    CHECK(length > 0 && length < sizeof(place->host) && place->port > 0);
    for (size_t i = 0; i < length; i++) {
        CHECK(place->host[i] > ' ' && place->host[i] < 0x7f);
    }
}

static void check_switch(const struct lw__reply *reply)
{
    struct lw__endpoint from, to;
    size_t length;
    const char *text = lw__reply_text(reply, &length);

    if (lw__sentinel_parse_switch(text, length, "m", &from, &to)) {
        check_place(&from);
        check_place(&to);
    }
}

static void check_sentinel(const struct lw__reply *reply)
{
    struct lw__sentinel_answer master;
    struct lw__sentinel_peer other;
    char why[LW_WHY_SIZE] = "";

    if (lw__sentinel_parse_master(reply, &master, why)) {
        check_place(&master.endpoint);
        CHECK(master.epoch >= 0 && why[0] == '\0');
        CHECK(master.for_ms >= -1 && master.for_ms <= LUA_MAX);
    } else {
        CHECK(lw__reply_type(reply) == LW__REPLY_ERROR || why[0] != '\0');
        CHECK(memchr(why, '\0', sizeof(why)) != NULL);
    }
    for (size_t at = 0; lw__sentinel_parse_peer(reply, &at, &other);) {
        check_place(&other.endpoint);
        CHECK(other.id[0] != '\0' &&
              strspn(other.id, "0123456789abcdef") == strlen(other.id));
    }
}

/* Checks an endpoint that may be incomplete: cluster_parse.h. */
static void check_told_place(const struct lw__endpoint *place)
{
    struct lw__endpoint whole = *place;

    CHECK(memchr(place->host, '\0', sizeof(place->host)) != NULL);
    CHECK(strcmp(place->host, "?") != 0);
    whole.port = 1;
    if (*place->host != '\0') {
        check_place(&whole);
    }
}

static void check_redirect(const struct lw__reply *reply)
{
    struct lw__redirect redirect;
    size_t length;
    const char *text = lw__reply_text(reply, &length);

    if (lw__cluster_parse_redirect(text, length, &redirect)) {
        CHECK(redirect.slot < LW__SLOTS);
        CHECK(redirect.ask == (text[0] == 'A'));
        check_told_place(&redirect.endpoint);
    }
}

static void check_cluster(const struct lw__reply *reply)
{
    struct lw__range range;
    char why[LW_WHY_SIZE] = "", id[LW__NODE_ID_SIZE];
    bool good = lw__cluster_parse_map(reply, why);
    size_t ranges = 0, slots = 0;

    for (size_t at = 0; lw__cluster_parse_range(reply, &at, &range); ranges++) {
        CHECK(range.first <= range.last && range.last < LW__SLOTS);
        check_told_place(&range.master);
        CHECK(range.id[0] == '\0' || strlen(range.id) == sizeof(range.id) - 1);
        slots += range.last - range.first + 1;
    }
    for (size_t at = 0; at < lw__reply_count(reply); at++) {
        for (size_t node = 0; lw__cluster_parse_node_id(reply, at, node, id); node++) {
            CHECK(id[0] == '\0' || strlen(id) == sizeof(id) - 1);
        }
    }
    lw__cluster_parse_myid(reply, id);
    CHECK(id[0] == '\0' || strlen(id) == sizeof(id) - 1);
    (void)lw__cluster_parse_info(reply);
    if (good) {
        CHECK(ranges == lw__reply_count(reply) && ranges > 0 && slots <= LW__SLOTS);
        CHECK(why[0] == '\0');
    } else {
        CHECK(lw__reply_type(reply) == LW__REPLY_ERROR || why[0] != '\0');
        CHECK(memchr(why, '\0', sizeof(why)) != NULL);
    }
}

static void check_tree(const struct lw__reply *reply, unsigned depth)
{
    CHECK(depth <= LW__REPLY_DEPTH + 1);
    check_message(reply);
    check_switch(reply);
    check_sentinel(reply);
    check_redirect(reply);
    check_cluster(reply);
    (void)lw__reply_integer(reply);
    for (size_t i = 0; i < lw__reply_count(reply); i++) {
        check_tree(lw__reply_at(reply, i), depth + 1);
    }
}

static void check_page(const struct lw__reply *reply)
{
    struct lw__scan_page page;

    if (!lw__decode_scan_page(reply, &page)) {
        return;
    }
    CHECK(strlen(page.cursor) > 0 && strlen(page.cursor) <= 20);
    CHECK(strspn(page.cursor, "0123456789") == strlen(page.cursor));
    CHECK(page.seen >= 0 && page.keys >= -1);
    for (size_t i = LW__SCAN_PAGE_NAMES; i < lw__reply_count(reply); i++) {
        size_t length;

        (void)lw__reply_text(lw__reply_at(reply, i), &length);
        CHECK(length <= 512);
    }
}

static void check_reply(const struct lw__reply *reply)
{
    struct lw__released released;
    struct lw__adopted adopted;
    bool renewed[COUNT];

    check_tree(reply, 1);
    check_acquired(reply, lw__decode_acquired);
    check_acquired(reply, lw__decode_rw_acquired);
    check_acquired(reply, lw__decode_redisson_acquired);
    check_page(reply);
    (void)lw__decode_fast_released(reply, &released);
    if (lw__decode_released(reply, &released)) {
        CHECK(released.holds_left == 0);
    }
    if (lw__decode_rw_released(reply, &released)) {
        CHECK(released.holds_left >= 0 && released.holds_left <= LUA_MAX);
    }
    (void)lw__decode_detached(reply, &renewed[0]);
    for (int rw = 0; rw < 2; rw++) {
        if (lw__decode_adopted(reply, rw, &adopted)) {
            CHECK(adopted.fence <= 1ull << 53 && (rw || *adopted.owner == '\0'));
        }
    }
    if (lw__decode_renewed(reply, COUNT, renewed)) {
        CHECK(lw__reply_count(reply) == COUNT || lw__reply_integer(reply) == COUNT);
    }
    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        CHECK(lw__classify(lw__reply_text(reply, NULL)) <= LW__ERR_REFUSED);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    size_t max = input_number(&in, 2) + 1, piece = input_number(&in, 1) + 1;
    struct lw__reader *guard = malloc(sizeof(*guard));
    redisReader *reader = redisReaderCreate();
    void *reply;
    int status = REDIS_OK;

    CHECK(guard != NULL && reader != NULL);
    lw__reader_init(guard, max);
    lw__reader_install(guard, reader);
    while (in.left > 0 && status == REDIS_OK) {
        size_t length = in.left < piece ? in.left : piece;

        CHECK(redisReaderFeed(reader, (const char *)in.data, length) == REDIS_OK);
        in.data += length;
        in.left -= length;
        while ((status = redisReaderGetReply(reader, &reply)) == REDIS_OK &&
               reply != NULL) {
            check_reply(reply);
        }
    }
    CHECK(status == REDIS_OK || lw__reader_why(guard) != NULL || reader->errstr[0]);
    redisReaderFree(reader);
    lw__reader_clear(guard);
    free(guard);
    return 0;
}

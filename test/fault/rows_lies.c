/* SPDX-License-Identifier: MIT */
/*
 * Rows of the fault table: a server that lies: garbage, truncated replies, wrong types,
 * huge arrays and bulks, deep nesting, replies without a request, messages on a wrong
 * channel. While it does not lie, a real server executes the scripts.
 *
 * Usual course of each cell: the scene, lies in reply to every script for a while, then
 * the truth.
 */
#include "cells.h"
#include "fake_redis.h"

#include <strings.h>

static const char *lie; /* NULL: the truth */
static struct fake_redis *fake;

/* Lies in reply to every script, to the server's own commands in place of scripts, and to
 * the plain try for `x`; but not to the identity note, whose reply concerns no lock. */
static const char *answer(struct fake_redis *server, int argc, char **argv)
{
    bool script = argc > 0 && (strncasecmp(argv[0], "EVAL", 4) == 0 ||
                               strcasecmp(argv[0], "DELIFEQ") == 0 ||
                               strcasecmp(argv[0], "DELEX") == 0);
    bool plain = argc > 1 && strcasecmp(argv[0], "SET") == 0 &&
                 strcmp(argv[1], key_of("x")) == 0;

    server->count += lie != NULL && script;
    return lie != NULL && (script || plain) ? lie : FAKE_REAL;
}

static struct peer *at_liar(const char *label)
{
    struct peer *peer;

    lie = NULL;
    fake = fake_start(answer);
    peer = peer_start_at(label, fake->url,
                         client_of(.local_turns = way->turns, .claim_ms = 1000,
                                   .request_timeout_ms = REQUEST_MS,
                                   .backoff_max_ms = 100, .close_timeout_ms = 2000));
    UNTIL(peer->up);
    return peer;
}

static void owner_hears(const char *words)
{
    struct hold *A = own(at_liar("a"), SHORT_MS);

    lie = words;
    expect_O1(A, now_ms(), SHORT_MS);
    lie = NULL;
}

/* An owner that got lies in between is verified as soon as the server stops lying. */
static void owner_hears_for_a_while(const char *words)
{
    struct hold *A = own(at_liar("a"), 6000);
    int before = fake->count;

    lie = words;
    renew_hold(A, 0);
    UNTIL(fake->count > before);
    lie = NULL;
    expect_kept(A, peer_stats(A->peer).renewed);
    stage_clear_trace();
}

static void waiter_hears(const char *words)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;
    struct peer *b = at_liar("b");

    B = ask_to_wait(b, "B", STAGE_WAIT_MS, 0);
    lie = words;
    UNTIL(fake->count >= 2);
    lie = NULL;
    release_hold(A);
    expect_W1(B);
}

static void release_hears(const char *words)
{
    struct hold *A = own(at_liar("a"), LONG_MS);

    lie = words;
    release_hold(A);
    expect_released(A, LW_EUNKNOWN);
    lie = NULL;
    UNTIL(redis_int("EXISTS %s", key_of("x")) == 0);
}

#define LIE(name, words)                                                                 \
    CELL(name##__owner_O1)                                                               \
    {                                                                                    \
        owner_hears(words);                                                              \
    }                                                                                    \
    CELL(name##__owner_verified_afterwards)                                              \
    {                                                                                    \
        owner_hears_for_a_while(words);                                                  \
    }                                                                                    \
    CELL(name##__waiter_asks_again)                                                      \
    {                                                                                    \
        waiter_hears(words);                                                             \
    }                                                                                    \
    CELL(name##__release_EUNKNOWN)                                                       \
    {                                                                                    \
        release_hears(words);                                                            \
    }
#define PLAY_LIE(name)                                                                   \
    PLAY(name##__owner_O1), PLAY(name##__owner_verified_afterwards),                     \
        PLAY(name##__waiter_asks_again), PLAY(name##__release_EUNKNOWN)

LIE(garbage, "\x01garbage\r\n")
LIE(truncated, "*6\r\n:0\r\n:29")
LIE(wrong_type, "+QUEUED\r\n")
LIE(wrong_number, ":-17\r\n")
LIE(wrong_array, "*2\r\n$1\r\na\r\n*0\r\n")
LIE(huge_array, "*2147483647\r\n")
LIE(huge_bulk, "$2147483647\r\nabc")
LIE(deep_nesting, "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n")

/* There are more replies than requests, which makes the link unusable. */
CELL(replies_never_asked_for__waiter_W1)
{
    struct hold *A = own(client_at("a", stage.server.url), LONG_MS), *B;
    struct peer *b = at_liar("b");
    int downs = b->downs;

    B = ask_to_wait(b, "B", STAGE_WAIT_MS, 0);
    lie =
        "$26\r\n100 0 1 1700000000000000 0\r\n:1700000000000000\r\n:1700000000000000\r\n";
    UNTIL(b->downs > downs);
    lie = NULL;
    assert_int_equal(B->result, PENDING);
    release_hold(A);
    expect_W1(B);
}

/* Messages that are not for us, or that no client can have published, are ignored or end
 * the subscription; the owner is not affected. */
CELL(push_of_another_kind__owner_unaffected)
{
    static const char *const pushes[] = {
        "*3\r\n$7\r\nmessage\r\n$5\r\nother\r\n$1\r\nx\r\n",
        "*3\r\n$7\r\nmessage\r\n$8\r\nlockwire\r\n:1\r\n",
        "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\na\r\n$1\r\nx\r\n",
        ":1\r\n",
        "+OK\r\n",
        "*0\r\n",
        "-ERR no\r\n",
        "\x02\r\n",
    };
    struct hold *A = own(at_liar("a"), SHORT_MS);

    for (size_t i = 0; i < sizeof(pushes) / sizeof(*pushes); i++) {
        int accepted = fake->accepted;
        uint64_t renewed = peer_stats(A->peer).renewed;

        fake_push(fake, pushes[i]);
        UNTIL(peer_stats(A->peer).renewed > renewed || fake->accepted > accepted);
        assert_int_equal(A->lost, PENDING);
    }
    assert_held_by_redis(A);
    assert_int_equal(A->peer->downs, 0);
}

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY_LIE(garbage),
        PLAY_LIE(truncated),
        PLAY_LIE(wrong_type),
        PLAY_LIE(wrong_number),
        PLAY_LIE(wrong_array),
        PLAY_LIE(huge_array),
        PLAY_LIE(huge_bulk),
        PLAY_LIE(deep_nesting),
        PLAY(replies_never_asked_for__waiter_W1),
        PLAY(push_of_another_kind__owner_unaffected),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, stage_open, stage_close);
}

/* SPDX-License-Identifier: MIT */
/*
 * A server that replies nonsense, hangs up at any command, or does not reply, and foreign
 * messages on the client's channel. There is no crash and no false grant, and every
 * operation completes once. Independent of how replies are checked.
 *
 * Usual course: there is one wrong reply among true ones; the lock is granted and
 * released.
 */
#include "fake_redis.h"
#include "players.h"
#include "proxy.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *lie;    /* the wrong reply */
static const char *lie_to; /* the command that gets it; NULL: any */
static int lies, truths;   /* how many wrong replies come, after how many true ones */

static const char *liar(struct fake_redis *fake, int argc, char **argv)
{
    (void)fake, (void)argc;
    if (lie_to != NULL && strcasecmp(argv[0], lie_to) != 0) {
        return FAKE_REAL;
    }
    if (truths > 0) {
        truths--;
        return FAKE_REAL;
    }
    if (lies == 0) {
        return FAKE_REAL;
    }
    lies--;
    return lie;
}

static struct peer *quick_peer(const char *label, const char *url)
{
    return peer_start_at(label, url,
                         client_of(.local_turns = 1, .backoff_min_ms = 10,
                                   .backoff_max_ms = 40, .connect_timeout_ms = 400,
                                   .request_timeout_ms = 400));
}

/* Acquires, extends and releases the lock, whatever the replies in between. */
static void hold_once(struct peer *a, const char *what)
{
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.wait_ms = -1, .lease_ms = 20000));

    UNTIL(A->result != PENDING);
    if (A->result != LW_OK) {
        stage_fail("%s: %s: %s", what, status_name(A->result), lw_lock_errstr(A->lock));
    }
    if (lw_lock_state(A->lock) == LW_HELD) {
        assert_held_by_redis(A);
        renew_hold(A, 0);
        UNTIL(A->renewals == 0);
    }
    if (lw_lock_state(A->lock) == LW_HELD) {
        release_hold(A);
        UNTIL(A->released != PENDING);
    }
    free_hold(A);
}

/* Holds the lock twice: the first fencing token of a connection comes without an INCR. */
static void live_through(const char *what, struct fake_redis *fake)
{
    stage.history[0] = '\0';
    stage_note("%.40s", what);
    stage_clear_trace();
    redis_ok("SCRIPT FLUSH");
    struct peer *a = quick_peer("a", fake->url);
    hold_once(a, what);
    hold_once(a, what);
    UNTIL(lies == 0 || lie_to == NULL);
    peer_free(a);
    stage_clear_trace();
    redis_ok("DEL x %s", queue_of("x"));
}

static const char *const nonsense[] = {
    "+WHAT\r\n",
    ":5\r\n",
    ":-1\r\n",
    "$-1\r\n",
    "*-1\r\n",
    "*0\r\n",
    "$3\r\nabc\r\n",
    "*1\r\n:1\r\n",
    "*2\r\n:1\r\n:0\r\n",
    "*2\r\n:1\r\n$1\r\nx\r\n",
    "*2\r\n:7\r\n:7\r\n",
    "*6\r\n:0\r\n:-5\r\n:0\r\n:1\r\n:1\r\n:9\r\n",
    "*2\r\n*0\r\n*0\r\n",
    "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n",
    "*2147483647\r\n",
    "$2147483647\r\n",
    "!garbage\r\n",
    "\r\n\r\n",
    "+OK\r\n+OK\r\n+OK\r\n",
};

static void nonsense_in_answer_to(const char *command, int before)
{
    struct fake_redis *fake = fake_start(liar);

    for (size_t i = 0; i < sizeof(nonsense) / sizeof(*nonsense); i++) {
        lie_to = command;
        lie = nonsense[i];
        truths = before;
        lies = 1;
        live_through(lie, fake);
    }
    lie_to = NULL;
    stage.keys_may_stay = true;
}

static void nonsense_for_SET_is_no_grant(void **state)
{
    (void)state;
    nonsense_in_answer_to("SET", 0);
}

static void nonsense_for_INCR_is_no_fence(void **state)
{
    (void)state;
    nonsense_in_answer_to("INCR", 0);
}

static void nonsense_for_EVALSHA_is_survived(void **state)
{
    (void)state;
    for (int before = 0; before < 3; before++) { /* the fence, a renewal, a release */
        nonsense_in_answer_to("EVALSHA", before);
    }
}

static void nonsense_for_EVAL_is_survived(void **state)
{
    (void)state;
    for (int before = 0; before < 3; before++) {
        nonsense_in_answer_to("EVAL", before);
    }
}

static void nonsense_in_the_greeting_is_survived(void **state)
{
    (void)state;
    nonsense_in_answer_to("CLIENT", 0);
    nonsense_in_answer_to("INFO", 0);
}

static void nonsense_for_SUBSCRIBE_is_survived(void **state)
{
    (void)state;
    nonsense_in_answer_to("SUBSCRIBE", 0);
}

/* ---- hanging up, and not replying, at every command ---- */

static void at_every_command(const char *what)
{
    struct fake_redis *fake = fake_start(liar);

    for (int i = 0; i < 24; i++) {
        lie_to = NULL;
        lie = what;
        truths = i;
        lies = 1;
        live_through("at every command", fake);
    }
    lies = 0;
    stage.keys_may_stay = true;
}

static void I6_server_hangs_up_at_every_command(void **state)
{
    (void)state;
    at_every_command(FAKE_HANG_UP);
}

static void I6_server_says_nothing_to_every_command(void **state)
{
    (void)state;
    at_every_command("");
}

/* The command was executed, and its reply is lost. Sending it again has no further
 * effect. */
static void I6_reply_lost_at_every_command(void **state)
{
    (void)state;
    stage.notes_may_stay = true; /* clients are freed while disconnected */
    for (int i = 0; i < 12; i++) {
        struct proxy *proxy = proxy_start(stage.server.path, false);
        struct peer *a = quick_peer("a", proxy->url), *b = peer_ready("b", NULL);
        peer_wait_ready(a);
        struct hold *A = acquire_hold(a, "A", "x", -1), *B = NULL;
        for (int turns = 0; turns < i; turns++) {
            event_base_loop(stage.base, EVLOOP_NONBLOCK);
        }
        proxy_swallow(proxy, COMMANDS, TO_CLIENT, true);
        stage_run_for(10);
        proxy_cut(proxy, COMMANDS);
        proxy_swallow(proxy, COMMANDS, TO_CLIENT, false);
        UNTIL(A->result != PENDING);
        assert_int_equal(A->result, LW_OK);
        assert_held_by_redis(A);
        B = acquire_hold(b, "B", "x", -1);
        wait_queued("x", 1);
        proxy_swallow(proxy, COMMANDS, TO_CLIENT, true);
        release_hold(A);
        stage_run_for(10);
        proxy_cut(proxy, COMMANDS);
        proxy_swallow(proxy, COMMANDS, TO_CLIENT, false);
        UNTIL(A->released != PENDING && B->result != PENDING);
        assert_int_equal(A->released, LW_OK);
        assert_int_equal(B->result, LW_OK);
        assert_held_by_redis(B); /* the repeated release did not affect the next owner */
        free_hold(B);
        UNTIL(redis_int("EXISTS x") == 0);
        peer_free(a);
        peer_free(b);
        proxy_stop(proxy);
    }
    stage_clear_trace();
}

/* ---- foreign messages ---- */

/* Publishes the text, with the token in place of the @. */
static void publish(const char *uuid, const char *text, const char *token)
{
    const char *at = strchr(text, '@');
    int before = at != NULL ? (int)(at - text) : (int)strlen(text);
    char whole[512];

    (void)snprintf(whole, sizeof(whole), "%.*s%s%s", before, text,
                   at != NULL ? token : "", at != NULL ? at + 1 : "");
    redis_ok("PUBLISH lockwire:2:%s %s", uuid, whole);
}

static const char *const strange_texts[] = {
    "",
    " ",
    "t",
    "t ",
    "s",
    "s  ",
    "x y z",
    "t a b c",
    "t :1:2000 1 1 x",
    "t @ 0 0 x",
    "t @ -1 -1 x",
    "t @ 99999999999999999999 1 x",
    "t @ 1 1",
    "t @ 1",
    "s @",
    "s @ -1 x",
    "s @ 99999999999999999999 x",
    "s @ 1 y",
    "t @ 5 5 nosuchname",
    "t @ 5 5 ",
    "t @ 5 5  nosuchname",
    "t @ 5 5  ",
    "t @ 1 1  x\n",
    "t @ 1 1 an.id x",
    "t @ 1 1 0123456789abcdef0 x",
    "s @ 2000 x",
};

static void stranger_s_messages_on_our_channel_are_ignored(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_hold(b, "B", "x", -1),
                *H = acquire_and_wait(b, "H", "h");
    char uuid[64], token[128], waiting[128];

    (void)state;
    EXPECT("A granted; H granted");
    wait_queued("x", 1);
    (void)snprintf(token, sizeof(token), "%s", lw_lock_owner(H->lock));
    (void)snprintf(uuid, sizeof(uuid), "%.36s", token);
    (void)snprintf(waiting, sizeof(waiting), "%s",
                   redis_text("EVAL %s 0 %s",
                              "return redis.call('ZRANGE', ARGV[1], 0, 0)[1]",
                              queue_of("x")));
    for (size_t i = 0; i < sizeof(strange_texts) / sizeof(*strange_texts); i++) {
        publish(uuid, strange_texts[i], token);
        publish(uuid, strange_texts[i], waiting);
    }
    stage_expect_nothing(300);
    assert_int_equal(peer_count_logged(b, "unknown message ignored"), 1);
    assert_held_by_redis(A);
    assert_held_by_redis(H);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_held_by_redis(B);
}

static void long_message_on_our_channel_is_ignored(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");
    static char text[100000];
    char uuid[40];

    (void)state;
    EXPECT("A granted");
    memset(text, 't', sizeof(text) - 1);
    (void)snprintf(uuid, sizeof(uuid), "%.36s", lw_lock_owner(A->lock));
    redis_ok("PUBLISH lockwire:2:%s %s", uuid, text);
    stage_expect_nothing(200);
    assert_held_by_redis(A);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(nonsense_for_SET_is_no_grant),
        STAGE_TEST(nonsense_for_INCR_is_no_fence),
        STAGE_TEST(nonsense_for_EVALSHA_is_survived),
        STAGE_TEST(nonsense_for_EVAL_is_survived),
        STAGE_TEST(nonsense_in_the_greeting_is_survived),
        STAGE_TEST(nonsense_for_SUBSCRIBE_is_survived),
        STAGE_TEST(I6_server_hangs_up_at_every_command),
        STAGE_TEST(I6_server_says_nothing_to_every_command),
        STAGE_TEST(I6_reply_lost_at_every_command),
        STAGE_TEST(stranger_s_messages_on_our_channel_are_ignored),
        STAGE_TEST(long_message_on_our_channel_is_ignored),
    };

    return STAGE_RUN(tests);
}

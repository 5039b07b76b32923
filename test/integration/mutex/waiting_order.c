/* SPDX-License-Identifier: MIT */
/*
 * Waiting in order of arrival from the first request on, though the first ones are sent
 * before their client may join the queue. Independent of how a place is kept.
 *
 * Usual course: all handles request the lock, the subscription comes up in the midst of
 * it, and all join the queue; then each one is granted in its turn.
 */
#include "monitor.h"
#include "players.h"
#include "proxy.h"

#include <stdio.h>

#define MOST 5000

static struct proxy *way;
static struct peer *a;
static struct hold *holder;
static int granted;

static void in_its_turn(struct hold *hold, enum moment moment)
{
    if (moment == AT_RELEASED) {
        stage_clear_trace();
    }
    if (moment != AT_RESULT) {
        return;
    }
    if (hold->aim != &((char *)NULL)[++granted]) {
        stage_complain("%s was granted as number %d", hold->label, granted);
    }
    if (hold->result == LW_OK) {
        release_hold(hold);
    }
}

/* Requests the lock for handles number `first` to `last`, counted from 1. */
static void ask_for(enum lw_mode mode, int first, int last)
{
    char label[16];

    for (int i = first; i <= last; i++) {
        (void)snprintf(label, sizeof(label), "n%d", i);
        struct hold *hold =
            acquire_hold_with(a, label, "x", asking(.mode = mode, .wait_ms = -1));
        hold->aim = &((char *)NULL)[i];
        hold->then = in_its_turn;
    }
}

/* Another client holds x; the subscription of a is held back. */
static void open_the_scene(enum lw_mode mode, uint32_t max_inflight)
{
    way = proxy_start(stage.server.path, false);
    holder =
        acquire_hold_with(peer_ready("b", NULL), "holder", "x", asking(.mode = mode));
    EXPECT("holder granted");
    granted = 0;
    proxy_hold(way, SUBSCRIPTION, TO_CLIENT, true);
    a = peer_start_at("a", way->url,
                      client_of(.max_inflight = max_inflight, .local_turns = 1));
}

static void all_are_granted_in_order(enum lw_mode mode, int count)
{
    const char *queue = mode == LW_MUTEX ? "lockwire:2:queue:{x}"
                                         : "lockwire:2:rwqueue:{x}";

    UNTIL(redis_int("ZCARD %s", queue) == count);
    release_hold(holder);
    UNTIL(granted == count || stage.broken);
    UNTIL(redis_int("EXISTS x") == 0);
    assert_int_equal(granted, count);
}

/* When the subscription comes up, a third of the requests have been sent, some of these
 * are not answered, and the others wait to be sent. */
static void the_subscription_comes_while_they_ask(enum lw_mode mode, int count)
{
    open_the_scene(mode, (uint32_t)count / 20);
    proxy_delay(way, COMMANDS, TO_SERVER, 5);
    ask_for(mode, 1, count);
    UNTIL(peer_stats(a).commands > (uint64_t)count / 3);
    assert_true(peer_stats(a).commands < (uint64_t)count);
    proxy_hold(way, SUBSCRIPTION, TO_CLIENT, false);
    proxy_delay(way, COMMANDS, TO_SERVER, 0);
    all_are_granted_in_order(mode, count);
}

static void who_asked_before_the_first_subscription_goes_first_mutex(void **state)
{
    (void)state;
    the_subscription_comes_while_they_ask(LW_MUTEX, MOST);
}

static void who_asked_before_the_first_subscription_goes_first_exclusive(void **state)
{
    (void)state;
    the_subscription_comes_while_they_ask(LW_EXCLUSIVE, MOST / 10);
}

/* The link is full of requests that did not join when the client learns that they may. */
static void they_may_join_while_the_first_are_unanswered(void)
{
    proxy_hold(way, COMMANDS, TO_CLIENT, true);
    monitor_start();
    proxy_hold(way, SUBSCRIPTION, TO_CLIENT, false);
    UNTIL(monitor_saw("NUMSUB"));
    monitor_stop();
    ask_for(LW_MUTEX, 1, 20);
    ask_for(LW_MUTEX, 21, 100);
    proxy_hold(way, COMMANDS, TO_CLIENT, false);
    all_are_granted_in_order(LW_MUTEX, 100);
}

static void who_comes_while_the_first_are_unanswered_goes_last(void **state)
{
    (void)state;
    open_the_scene(LW_MUTEX, 20);
    UNTIL(a->up);
    acquire_hold(a, "W", "x", 0); /* so the name is known as contended */
    EXPECT("W EBUSY");
    they_may_join_while_the_first_are_unanswered();
}

/* Only the first handle has sent a request, a plain try; the others wait behind it. */
static void who_stands_behind_a_try_goes_behind_who_tries(void **state)
{
    (void)state;
    open_the_scene(LW_MUTEX, 20);
    UNTIL(a->up);
    they_may_join_while_the_first_are_unanswered();
}

/* A request that waits to be sent is encoded when it is sent: it is not sent twice. */
static void an_ask_that_is_not_sent_yet_is_sent_once(void **state)
{
    (void)state;
    open_the_scene(LW_MUTEX, 10);
    UNTIL(a->up);
    proxy_hold(way, COMMANDS, TO_SERVER, true);
    ask_for(LW_MUTEX, 1, 100);
    monitor_start();
    proxy_hold(way, SUBSCRIPTION, TO_CLIENT, false);
    proxy_hold(way, COMMANDS, TO_SERVER, false);
    UNTIL(redis_int("ZCARD lockwire:2:queue:{x}") == 100);
    assert_int_in_range(monitor_count("evalsha") + monitor_count("eval"), 100, 125);
    monitor_stop();
    all_are_granted_in_order(LW_MUTEX, 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(who_asked_before_the_first_subscription_goes_first_mutex),
        STAGE_TEST(who_asked_before_the_first_subscription_goes_first_exclusive),
        STAGE_TEST(who_comes_while_the_first_are_unanswered_goes_last),
        STAGE_TEST(who_stands_behind_a_try_goes_behind_who_tries),
        STAGE_TEST(an_ask_that_is_not_sent_yet_is_sent_once),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT
 *
 * Tests how the mutex scripts treat heads of the queue that are dead or have no form of
 * ours, and that fencing tokens grow despite all accidents of their counter. Independent
 * of the C client.
 *
 * Each test starts as in mutex.c. A dead client is a name without a subscriber. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "script_calls.h"

static void queue_dead(int count)
{
    struct script_client dead;

    for (int i = 0; i < count; i++) {
        script_client_dead(&dead, 0x1000 + i);
        script_do(&server, "ZADD " QUEUE " %d %s:1:60000-", i + 1, dead.uuid);
    }
    script_do(&server, "PEXPIRE " QUEUE " 120000");
}

static void fifteen_dead_heads_are_skipped_in_the_release(void **state)
{
    const char *holder = script_token(&a, 1, WINDOW),
               *waiter = script_token(&b, 1, WINDOW);

    (void)state;
    acquire(holder, LEASE, 1, NO_TICKET);
    queue_dead(15);
    refused(acquire(waiter, LEASE, 1, NO_TICKET), 15);
    assert_int_equal(release(holder), 1);
    assert_holder(waiter);
    script_client_turn(&b, waiter);
}

static void seventeen_dead_heads_take_a_second_call(void **state)
{
    const char *holder = script_token(&a, 1, WINDOW),
               *waiter = script_token(&b, 1, WINDOW);

    (void)state;
    acquire(holder, LEASE, 1, NO_TICKET);
    queue_dead(17);
    refused(acquire(waiter, LEASE, 1, NO_TICKET), 17);
    assert_int_equal(release(holder), 3);
    assert_free();
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 2);
    assert_int_equal(release(holder), 0);
    assert_holder(waiter);
    script_client_turn(&b, waiter);
}

/* The holder acquired the name by its key alone while the slot was moving, and its place
 * in the queue has arrived since. The holder is alive, but its own release must not hand
 * the lock to it. */
static void who_lets_go_is_not_handed_the_name_by_a_place_that_it_left(void **state)
{
    const char *holder = script_token(&a, 1, WINDOW),
               *waiter = script_token(&b, 1, WINDOW);

    (void)state;
    script_do(&server, "ZADD " QUEUE " 1 %s", holder);
    script_do(&server, "PEXPIRE " QUEUE " 120000");
    script_do(&server, "SET n %s PX 600000", holder);
    refused(acquire(waiter, LEASE, 1, NO_TICKET), 1);
    assert_int_equal(release(holder), 1);
    assert_holder(waiter);
    script_client_turn(&b, waiter);
    assert_int_equal(release(waiter), 1);
    assert_free();
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 0);
}

/* The same without waiters. */
static void who_left_a_place_leaves_nothing(void **state)
{
    const char *holder = script_token(&a, 1, WINDOW);

    (void)state;
    script_do(&server, "ZADD " QUEUE " 1 %s", holder);
    script_do(&server, "PEXPIRE " QUEUE " 120000");
    script_do(&server, "SET n %s PX 600000", holder);
    assert_int_equal(release(holder), 1);
    assert_free();
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 0);
}

static void a_thousand_dead_heads_end_after_63_calls(void **state)
{
    const char *holder = script_token(&a, 1, WINDOW),
               *waiter = script_token(&b, 1, WINDOW);
    int calls = 1;

    (void)state;
    acquire(holder, LEASE, 1, NO_TICKET);
    queue_dead(1000);
    refused(acquire(waiter, LEASE, 1, NO_TICKET), 1000);
    assert_int_equal(release(holder), 3);
    for (; release(holder) & 2; calls++) {
        assert_free();
    }
    assert_int_equal(calls + 1, 63);
    assert_holder(waiter);
    script_client_turn(&b, waiter);
}

static void dead_heads_only_leave_the_name_to_whoever_asks(void **state)
{
    const char *token = script_token(&a, 1, WINDOW);
    struct script_answer answer;

    (void)state;
    queue_dead(16);
    granted(acquire(token, LEASE, 0, NO_TICKET));
    assert_int_equal(release(token), 1);
    queue_dead(17);
    answer = acquire(token, LEASE, 0, NO_TICKET);
    assert_int_equal(answer.n[0], 0);
    assert_int_equal(answer.n[1], 0);
    assert_int_equal(answer.n[5], 1);
    granted(acquire(token, LEASE, 0, NO_TICKET));
}

static void a_process_that_ended_while_it_waited_is_skipped(void **state)
{
    const char *holder = script_token(&a, 1, WINDOW),
               *waiter = script_token(&b, 1, WINDOW);
    struct script_client mortal;

    (void)state;
    script_client_start(&mortal, &server, 3);
    acquire(holder, LEASE, 1, NO_TICKET);
    acquire(script_token(&mortal, 1, WINDOW), LEASE, 1, NO_TICKET);
    acquire(waiter, LEASE, 1, NO_TICKET);
    script_client_stop(&mortal);
    assert_int_equal(release(holder), 1);
    assert_holder(waiter);
    script_client_turn(&b, waiter);
}

static void members_of_no_known_form_are_dropped(void **state)
{
    static const char *const members[] = {
        "hello",
        "x:1-",
        "x:1:0-",
        "x:1:60001-",
        "x:1:99999999999999999999-",
        "x:1:2000:4-",
        "x:one:2000-",
        "x y:1:2000-",
        ":1:2000-",
        "x:1:-5-",
        "x:1:1e3-",
        "x:1:0x10-",
        "x:1:-",
        "x:1:2000--",
    };
    const char *holder = script_token(&a, 1, WINDOW),
               *waiter = script_token(&b, 1, WINDOW);

    (void)state;
    acquire(holder, LEASE, 1, NO_TICKET);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        script_do(&server, "ZADD " QUEUE " %d %s", (int)i, members[i]);
    }
    script_do(&server, "ZADD " QUEUE " 14 %s:9:60000", a.uuid); /* of wire version 1 */
    script_do(&server, "PEXPIRE " QUEUE " 120000");
    acquire(waiter, LEASE, 1, NO_TICKET);
    assert_int_equal(release(holder), 1);
    assert_holder(waiter);
    script_client_turn(&b, waiter);
}

static void an_infinite_score_of_a_strangers_spoils_no_ticket(void **state)
{
    (void)state;
    acquire(script_token(&a, 1, WINDOW), LEASE, 1, NO_TICKET);
    script_do(&server, "ZADD " QUEUE " inf stranger");
    script_do(&server, "PEXPIRE " QUEUE " 120000");
    assert_true(refused(acquire(script_token(&b, 1, WINDOW), LEASE, 1, NO_TICKET), 0) >
                1LL << 50);
}

/* A pattern subscriber receives the messages of every channel, and makes no client look
 * alive. */
static void a_pattern_subscriber_hears_of_locks_that_were_set_alone(void **state)
{
    const char *holder = script_token(&a, 1, WINDOW),
               *waiter = script_token(&b, 1, WINDOW);
    struct script_client dead;
    redisContext *spy = redisConnectUnix(server.socket);
    redisReply *reply = redisCommand(spy, "PSUBSCRIBE *");
    char channel[64];

    (void)state;
    assert_non_null(reply);
    freeReplyObject(reply);
    script_client_dead(&dead, 0x1000);
    acquire(holder, LEASE, 1, NO_TICKET);
    script_do(&server, "ZADD " QUEUE " 1 %s", script_token(&dead, 1, 40000));
    script_do(&server, "PEXPIRE " QUEUE " 120000");
    acquire(waiter, LEASE, 1, NO_TICKET);
    assert_int_equal(release(holder), 1);
    assert_holder(waiter);
    script_client_turn(&b, waiter);
    assert_int_equal(redisGetReply(spy, (void **)&reply), REDIS_OK);
    (void)snprintf(channel, sizeof(channel), "lockwire:2:%s", b.uuid);
    assert_string_equal(reply->element[2]->str, channel); /* the first that it receives */
    freeReplyObject(reply);
    redisFree(spy);
}

/* The largest fencing token so far. After each accident of the counter, `count` tokens
 * are drawn, beginning with `first`. */

static long long last_number;

static void assert_larger(long long first, int count)
{
    assert_true(first > last_number);
    last_number = first + count - 1;
    assert_true(script_do(&server, "PTTL lockwire:fence") > 0);
    assert_true(script_do(&server, "PTTL lockwire:fence") <= 86400000);
}

/* Deletes the counter, and creates it by this command. Does nothing if it is NULL. */
static void spoil_counter(const char *command, const char *value)
{
    if (command != NULL) {
        script_do(&server, "DEL lockwire:fence");
        script_do(&server, "%s lockwire:fence %s", command, value);
    }
}

static void numbers_grow_past(const char *command, const char *value)
{
    const char *t1 = script_token(&a, 1, WINDOW), *t2 = script_token(&a, 2, WINDOW);
    const char *t3 = script_token(&b, 3, WINDOW);

    last_number = 0;
    spoil_counter(command, value);
    assert_larger(granted(acquire(t1, LEASE, 1, NO_TICKET)), 16);
    spoil_counter(command, value);
    assert_larger(granted(acquire(t1, LEASE, 1, NO_TICKET)), 16);
    assert_int_equal(release(t1), 1);
    spoil_counter(command, value);
    assert_larger(granted(acquire(t2, LEASE, 1, NO_TICKET)), 16);
    acquire(t3, LEASE, 1, NO_TICKET);
    spoil_counter(command, value);
    assert_int_equal(release(t2), 1);
    assert_larger(script_client_turn(&b, t3).fence, 16);
    spoil_counter(command, value);
    assert_larger(
        script_run(&server, LW__SCRIPT_FENCE_SEED, 1, "lockwire:fence", NULL).n[0], 1);
    spoil_counter(command, value);
    assert_larger(granted(acquire(t3, LEASE, 1, NO_TICKET)), 16);
    spoil_counter(command, value);
    assert_larger(granted(rw_acquire(t1, "r", "o", 1, NO_TICKET)), 1);
    spoil_counter(command, value);
    assert_larger(granted(rw_acquire(t2, "w", "o", 1, NO_TICKET)), 1);
    refused(rw_acquire(t3, "w", "p", 1, NO_TICKET), 0);
    rw_released(rw_release(t1, "r", "o"), 1);
    spoil_counter(command, value);
    rw_released(rw_release(t2, "w", "o"), 0);
    assert_larger(script_client_turn(&b, t3).fence, 1);
}

static void numbers_grow_while_nothing_happens(void **state)
{
    (void)state;
    numbers_grow_past(NULL, NULL);
}

static void numbers_grow_though_the_counter_is_deleted(void **state)
{
    (void)state;
    numbers_grow_past("DEL", "");
}

static void numbers_grow_though_a_plain_incr_began_the_counter_anew(void **state)
{
    (void)state;
    numbers_grow_past("SET", "1");
}

static void numbers_grow_though_the_counter_became_text(void **state)
{
    (void)state;
    numbers_grow_past("SET", "hello");
}

static void numbers_grow_though_the_counter_grew_past_lua(void **state)
{
    (void)state;
    numbers_grow_past("SET", "9223372036854775800");
    script_server_flush(&server);
    numbers_grow_past("SET", "9007199254740992");
}

static void numbers_grow_though_the_counter_became_another_type(void **state)
{
    (void)state;
    numbers_grow_past("RPUSH", "1");
    script_server_flush(&server);
    numbers_grow_past("SADD", "1");
}

static void seeding_keeps_a_counter_that_is_ahead_of_the_time(void **state)
{
    (void)state;
    script_do(&server, "SET lockwire:fence 4000000000000000 PX 60000");
    assert_int_equal(
        script_run(&server, LW__SCRIPT_FENCE_SEED, 1, "lockwire:fence", NULL).n[0],
        4000000000000001);
    assert_true(script_do(&server, "PTTL lockwire:fence") > 60000);
    assert_int_equal(granted(acquire(script_token(&a, 1, WINDOW), LEASE, 1, NO_TICKET)),
                     4000000000000002);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(fifteen_dead_heads_are_skipped_in_the_release),
        SCRIPT_TEST(seventeen_dead_heads_take_a_second_call),
        SCRIPT_TEST(who_lets_go_is_not_handed_the_name_by_a_place_that_it_left),
        SCRIPT_TEST(who_left_a_place_leaves_nothing),
        SCRIPT_TEST(a_thousand_dead_heads_end_after_63_calls),
        SCRIPT_TEST(dead_heads_only_leave_the_name_to_whoever_asks),
        SCRIPT_TEST(a_process_that_ended_while_it_waited_is_skipped),
        SCRIPT_TEST(members_of_no_known_form_are_dropped),
        SCRIPT_TEST(an_infinite_score_of_a_strangers_spoils_no_ticket),
        SCRIPT_TEST(a_pattern_subscriber_hears_of_locks_that_were_set_alone),
        SCRIPT_TEST(numbers_grow_while_nothing_happens),
        SCRIPT_TEST(numbers_grow_though_the_counter_is_deleted),
        SCRIPT_TEST(numbers_grow_though_a_plain_incr_began_the_counter_anew),
        SCRIPT_TEST(numbers_grow_though_the_counter_became_text),
        SCRIPT_TEST(numbers_grow_though_the_counter_grew_past_lua),
        SCRIPT_TEST(numbers_grow_though_the_counter_became_another_type),
        SCRIPT_TEST(seeding_keeps_a_counter_that_is_ahead_of_the_time),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}

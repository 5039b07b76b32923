/* SPDX-License-Identifier: MIT */
/* lw_break: force-releases a lock and hands it over, in each mode. Tests what the old
 * holder learns, and which holders and waiters are left alone. Independent of the
 * scripts.
 *
 * Usual course: one client holds, one waits. After the break the second has the lock, and
 * the first loses it as soon as the message arrives that asks it to verify its hold. The
 * leases are so long (LONG) that a holder cannot learn of the break by its own renewal
 * before a test gives up. */
#include "inspect/scene.h"
#include "monitor.h"
#include "process.h"
#include "proxy.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define LONG 600000

static void a_mutex_goes_to_the_first_who_waits(void **state)
{
    (void)state;
    three_clients();
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = LONG));
    EXPECT("A granted");
    struct hold *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    monitor_start();
    call_break(c, "x", NULL);
    EXPECT_SET("broken OK; B granted; A lost ENOTHELD");
    assert_true(B->fence > A->fence);
    assert_held_by_redis(B);
    release_refused(A, LW_ENOTHELD);
    assert_held_by_redis(B);
}

/* A holder that never renews learns of the break as well. */
static void a_holder_without_renewals_is_told(void **state)
{
    (void)state;
    three_clients();
    acquire_hold_with(a, "A", "x", asking(.lease_ms = LONG, .flags = LW_NO_RENEW));
    EXPECT("A granted");
    call_break(c, "x", NULL);
    EXPECT_SET("broken OK; A lost ENOTHELD");
}

static struct proxy *proxy;

/* Returns a client that connects through the proxy, next to the three others. */
static struct peer *client_behind_a_proxy(void)
{
    struct peer *d;

    proxy = proxy_start(stage.server.path, false); /* first: it stays until all closed */
    three_clients();
    d = peer_start_at("d", proxy->url, NULL);
    peer_wait_ready(d);
    return d;
}

static void publish_hint(const char *token, const char *name)
{
    char channel[64], text[256];

    (void)snprintf(channel, sizeof(channel), "lockwire:2:%.36s", token);
    (void)snprintf(text, sizeof(text), "v %s %s", token, name);
    assert_int_equal(redis_int("PUBLISH %s %s", channel, text), 1);
}

/* The server replies to the renewal before the break, and the reply arrives after the
 * message: the client verifies once more. */
static void a_hint_during_a_renewal_is_kept(void **state)
{
    int messages;

    (void)state;
    struct peer *d = client_behind_a_proxy();
    struct hold *D = acquire_hold_with(d, "D", "x", asking(.lease_ms = LONG));
    EXPECT("D granted");
    uint64_t renewed = peer_stats(d).renewed;
    publish_hint(lw_lock_owner(D->lock), "x"); /* so that the server knows the script */
    UNTIL(peer_stats(d).renewed == renewed + 1);
    monitor_start();
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    publish_hint(lw_lock_owner(D->lock), "x");
    UNTIL(monitor_count("evalsha") == 1);
    monitor_stop();
    messages = proxy->messages;
    call_break(c, "x", NULL);
    EXPECT("broken OK");
    UNTIL(proxy->messages > messages);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    EXPECT("D lost ENOTHELD");
    assert_int_equal(peer_stats(d).renewed, renewed + 2);
}

/* The same with the reply that grants the lock. */
static void a_hint_before_the_grant_is_kept(void **state)
{
    int messages;

    (void)state;
    struct peer *d = client_behind_a_proxy();
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    acquire_hold_with(d, "D", "x", asking(.lease_ms = LONG));
    UNTIL(redis_int("EXISTS x") == 1);
    messages = proxy->messages;
    call_break(c, "x", NULL);
    EXPECT("broken OK");
    UNTIL(proxy->messages > messages);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    EXPECT("D granted; D lost ENOTHELD");
}

/* The message is only a hint: a holder keeps its lock, whatever message arrives. */
static void a_hint_alone_takes_nothing_away(void **state)
{
    char other[128];
    uint64_t renewed;

    (void)state;
    three_clients();
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = LONG));
    EXPECT("A granted");
    renewed = peer_stats(a).renewed;
    (void)snprintf(other, sizeof(other), "%.36s:99999:2000-", lw_lock_owner(A->lock));
    publish_hint(other, "x");
    publish_hint(lw_lock_owner(A->lock), "x");
    UNTIL(peer_stats(a).renewed == renewed + 1);
    assert_held_by_redis(A);
    assert_false(peer_logged(a, "message"));
}

/* A break by an account that may not publish succeeds all the same; the holder finds out
 * by itself. */
static void a_hint_that_is_refused_costs_nothing_else(void **state)
{
    (void)state;
    three_clients();
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = LONG));
    EXPECT("A granted");
    redis_ok("ACL SETUSER default -publish");
    call_break(c, "x", NULL);
    EXPECT("broken OK");
    redis_ok("ACL SETUSER default +@all");
    assert_int_equal(redis_int("EXISTS x"), 0);
    renew_hold(A, LONG);
    EXPECT_SET("A lost ENOTHELD; A renewed ELOST");
}

/* A release that the server refuses is followed by no message, which would be untrue. */
static void a_refused_break_publishes_nothing(void **state)
{
    (void)state;
    three_clients();
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = LONG));
    EXPECT("A granted");
    monitor_start();
    redis_ok("ACL SETUSER default -del");
    call_break(c, "x", NULL);
    EXPECT("broken EREDIS");
    redis_ok("ACL SETUSER default +@all");
    assert_int_equal(monitor_count("publish"), 0);
    assert_held_by_redis(A);
}

static void a_release_of_the_broken_tells(void **state)
{
    (void)state;
    struct peer *d = client_behind_a_proxy();
    struct hold *A = acquire_and_wait(d, "A", "x");
    EXPECT("A granted");
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, true);
    call_break(b, "x", NULL);
    EXPECT("broken OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
    struct hold *B = acquire_and_wait(b, "B", "x");
    EXPECT("B granted");
    get_out(A, LW_ENOTHELD);
    assert_held_by_redis(B);
}

static void only_the_token_s(void **state)
{
    char token[128];

    (void)state;
    three_clients();
    struct hold *A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    (void)snprintf(token, sizeof(token), "%s", lw_lock_owner(A->lock));
    struct hold *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    break_it(c, "x", "5f0e8f4b-0000-4000-8000-000000000001:1:2000", LW_ENOTHELD);
    assert_true(look.why[0] != '\0');
    assert_held_by_redis(A);
    wait_queued("x", 1);
    stage_clear_trace();
    call_break(c, "x", token);
    EXPECT_SET("broken OK; B granted; A lost ENOTHELD");
    call_break(c, "x", token); /* not B's token */
    EXPECT("broken ENOTHELD");
    assert_held_by_redis(B);
}

/* A waiter is not a holder: lw_break does not remove it from the queue. */
static void a_waiter_s_token_is_left_in_the_queue(void **state)
{
    (void)state;
    three_clients();
    acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    look_at(c, "x");
    char token[128];
    (void)snprintf(token, sizeof(token), "%.127s", look.waiters[0].token);
    call_break(c, "x", token);
    EXPECT("broken ENOTHELD");
    wait_queued("x", 1);
}

static void nothing_to_break(void **state)
{
    (void)state;
    three_clients();
    call_break(a, "x", NULL);
    EXPECT("broken ENOTHELD");
    assert_non_null(strstr(look.why, "the lock is not held"));
    redis_ok("HSET stranger field value");
    call_break(a, "stranger", NULL);
    EXPECT("broken ENOTHELD");
    assert_non_null(strstr(look.why, "not written by lockwire"));
    assert_string_equal(redis_text("HGET stranger field"), "value");
    redis_ok("DEL stranger");
}

static void a_foreign_mutex_can_be_broken_too(void **state)
{
    (void)state;
    three_clients();
    redis_ok("SET x theirs");
    struct hold *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    call_break(c, "x", "theirs");
    EXPECT_SET("broken OK; B granted");
    assert_held_by_redis(B);
}

static void a_writer_with_all_its_levels(void **state)
{
    (void)state;
    three_clients();
    struct hold *W = enter_with(a, "W", "w", "anna", asking(.lease_ms = LONG));
    struct hold *W2 = enter_with(a, "W2", "w", "anna", asking(.lease_ms = LONG));
    struct hold *R = enter_with(a, "R", "r", "anna", asking(.lease_ms = LONG));
    EXPECT_SET("W granted; W2 granted; R granted");
    struct hold *B = enter(b, "B", "w", "bert", -1);
    wait_rw_queued(1);
    call_break(c, "x", NULL);
    EXPECT_SET("broken OK; B granted; W lost ENOTHELD; W2 lost ENOTHELD; "
               "R lost ENOTHELD");
    assert_true(B->fence > W->fence);
    (void)W2, (void)R;
    HOLDS("x", "write bert*1");
}

static void one_reader_of_several_by_its_token(void **state)
{
    char token[128] = "";

    (void)state;
    three_clients();
    struct hold *A = get_in(a, "A", "r", "anna");
    get_in(b, "B", "r", "bert");
    enter(c, "W", "w", "bert", -1);
    wait_rw_queued(1);
    look_at(c, "x");
    for (size_t i = 0; i < look.holder_count; i++) {
        if (strcmp(look.holders[i].owner, "anna") == 0) {
            (void)snprintf(token, sizeof(token), "%.127s", look.holders[i].token);
        }
    }
    call_break(c, "x", token);
    EXPECT_SET("broken OK; W granted"); /* bert is now the sole reader */
    HOLDS("x", "write bert*1 bert=1");
    get_out(A, LW_ENOTHELD);
    HOLDS("x", "write bert*1 bert=1");
}

static void many_readers(void **state)
{
    struct hold *readers[250], *W;
    char label[16];

    (void)state;
    three_clients();
    for (int i = 0; i < 250; i++) {
        (void)snprintf(label, sizeof(label), "%d", i);
        readers[i] = enter(a, label, "r", NULL, -1);
        UNTIL(holds->result == LW_OK);
    }
    stage_clear_trace();
    W = enter(b, "W", "w", NULL, -1);
    wait_rw_queued(1);
    call_break(c, "x", NULL);
    UNTIL(look.broken == LW_OK && W->result == LW_OK);
    for (int i = 0; i < 250; i++) {
        UNTIL(readers[i]->lost == LW_ENOTHELD);
    }
    stage_clear_trace();
    assert_string_equal(redis_counts("x"), "1 0 1");
}

/* The release replies `again`: there are more dead heads than one call passes over. */
static void forty_dead_waiters_are_passed_over(void **state)
{
    struct process *p = process_start("P", NULL);
    char label[16];

    (void)state;
    three_clients();
    acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    process_tell(p, "acquire D x -1 30000");
    wait_queued("x", 1);
    process_kill(p);
    char dead[128];
    (void)snprintf(dead, sizeof(dead), "%.36s",
                   redis_text("EVAL %s 1 lockwire:2:queue:{x}",
                              "return redis.call('ZRANGE', KEYS[1], 0, 0)[1]"));
    for (int i = 0; i < 40; i++) {
        redis_ok("ZADD lockwire:2:queue:{x} %d %s:%d:2000-", i + 1, dead, i + 100);
    }
    (void)snprintf(label, sizeof(label), "B");
    struct hold *B = acquire_hold(b, label, "x", -1);
    wait_queued("x", 42);
    UNTIL(redis_int("EVAL %s 0", "return #redis.call('PUBSUB', 'CHANNELS')") == 6);
    call_break(c, "x", NULL);
    EXPECT_SET("broken OK; B granted; A lost ENOTHELD");
    assert_held_by_redis(B);
}

static void a_stuck_process_s_lock_goes_to_who_waits(void **state)
{
    struct process *p = process_start("P", NULL);

    (void)state;
    three_clients();
    process_tell(p, "acquire A x 0 3000");
    EXPECT("P: A granted");
    process_signal(p, SIGSTOP);
    struct hold *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    call_break(c, "x", NULL);
    EXPECT_SET("broken OK; B granted");
    process_signal(p, SIGCONT);
    UNTIL(stage_has("P: A lost"));
    stage_clear_trace();
    assert_held_by_redis(B);
}

static void bad_calls_are_refused(void **state)
{
    (void)state;
    three_clients();
    break_refused(a, "", LW_EINVAL, "name");
    break_refused(a, "lockwire:x", LW_EINVAL, "name");
    assert_int_equal(lw_break(a->client, "x", NULL, NULL, NULL), LW_EINVAL);
    peer_close(a);
    break_refused(a, "x", LW_ECLOSED, "closed");
    EXPECT("a closed");
}

/* If the link ends before the first command is answered, which only reads, nothing was
 * broken. If it ends before the second one is answered, the outcome is unknown. */
static void an_answer_that_was_lost_leaves_the_outcome_open(void **state)
{
    (void)state;
    three_clients();
    proxy = proxy_start(stage.server.path, false);
    struct peer *d = peer_start_at("d", proxy->url, NULL);
    peer_wait_ready(d);
    acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    proxy_hold(proxy, COMMANDS, TO_SERVER, true);
    call_break(d, "x", NULL);
    stage_expect_nothing(20);
    proxy_cut(proxy, COMMANDS);
    EXPECT("broken ECONN");
    proxy_hold(proxy, COMMANDS, TO_SERVER, false);
    peer_wait_ready(d);
    assert_int_equal(redis_int("EXISTS x"), 1);
    proxy_delay(proxy, COMMANDS, TO_CLIENT, 100);
    call_break(d, "x", NULL);
    UNTIL(redis_int("EXISTS x") == 0);
    proxy_cut(proxy, COMMANDS);
    EXPECT("broken EUNKNOWN");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_mutex_goes_to_the_first_who_waits),
        STAGE_TEST(a_holder_without_renewals_is_told),
        STAGE_TEST(a_hint_during_a_renewal_is_kept),
        STAGE_TEST(a_hint_before_the_grant_is_kept),
        STAGE_TEST(a_hint_alone_takes_nothing_away),
        STAGE_TEST(a_hint_that_is_refused_costs_nothing_else),
        STAGE_TEST(a_refused_break_publishes_nothing),
        STAGE_TEST(a_release_of_the_broken_tells),
        STAGE_TEST(only_the_token_s),
        STAGE_TEST(a_waiter_s_token_is_left_in_the_queue),
        STAGE_TEST(nothing_to_break),
        STAGE_TEST(a_foreign_mutex_can_be_broken_too),
        STAGE_TEST(a_writer_with_all_its_levels),
        STAGE_TEST(one_reader_of_several_by_its_token),
        STAGE_TEST(many_readers),
        STAGE_TEST(forty_dead_waiters_are_passed_over),
        STAGE_TEST(a_stuck_process_s_lock_goes_to_who_waits),
        STAGE_TEST(bad_calls_are_refused),
        STAGE_TEST(an_answer_that_was_lost_leaves_the_outcome_open),
    };

    return STAGE_RUN(tests);
}

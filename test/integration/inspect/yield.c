/* SPDX-License-Identifier: MIT */
/* lw_ask_to_yield: each holder's client calls asked_to_yield, once for each request, and
 * nothing else happens to the lock: in each mode, for the present holder only. Which
 * holders count as reached, the callback rules, errors of the server. Clusters, sentinels
 * and quorums are in integration/server and integration/quorum.
 *
 * Usual course: a holds x, c calls lw_ask_to_yield; the trace has "A asked" and "yielded
 * OK". */
#include "fake_redis.h"
#include "inspect/scene.h"
#include "monitor.h"
#include "proxy.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static struct peer *holder(const char *label)
{
    return peer_ready(label, client_of(.local_turns = 1, .asked_to_yield = on_asked));
}

/* Clients a and b that hold, and c that asks. */
static void scene(void)
{
    look.then = NULL;
    a = holder("a");
    b = holder("b");
    c = peer_ready("c", NULL);
}

static void assert_reached(size_t reached, size_t holders)
{
    assert_int_equal(look.reached, reached);
    assert_int_equal(look.asked, holders);
}

/* Asks, and waits for the result alone. */
static void ask(const char *name, int status, size_t reached, size_t holders)
{
    call_yield(c, name);
    UNTIL(look.yielded != PENDING);
    assert_int_equal(look.yielded, status);
    assert_reached(reached, holders);
}

/* ---- holders ---- */

static void a_holder_that_is_asked_keeps_its_lock(void **state)
{
    struct hold *A;

    (void)state;
    scene();
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    call_yield(c, "x");
    EXPECT_SET("A asked; yielded OK");
    assert_reached(1, 1);
    assert_string_equal(look.why, "");
    assert_held_by_redis(A);
    release_hold(A);
    EXPECT("A released OK");
}

static void release_it(struct hold *hold, enum moment moment)
{
    if (moment == AT_ASKED) {
        release_hold(hold);
    }
}

static void the_waiter_gets_the_lock_and_is_not_asked(void **state)
{
    struct hold *A;

    (void)state;
    scene();
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    (void)acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    A->then = release_it;
    call_yield(c, "x");
    EXPECT_SET("A asked; yielded OK; A released OK; B granted");
    call_yield(c, "x");
    EXPECT_SET("B asked; yielded OK");
}

/* The message overtakes the reply, which comes on another connection. */
static void a_request_before_the_reply_waits_for_it(void **state)
{
    struct proxy *proxy;
    struct peer *d;
    int messages;

    (void)state;
    proxy = proxy_start(stage.server.path, false); /* first: it stays until all closed */
    scene();
    d = peer_start_at("d", proxy->url, client_of(.asked_to_yield = on_asked));
    UNTIL(d->up && peer_stats(d).subscription_up);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    (void)acquire_hold(d, "D", "x", -1);
    UNTIL(redis_int("EXISTS x") == 1);
    messages = proxy->messages;
    ask("x", LW_OK, 1, 1);
    UNTIL(proxy->messages > messages);
    stage_clear_trace();
    stage_expect_nothing(100);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    EXPECT("D granted; D asked");
    stage_expect_nothing(100); /* once */
}

static void each_reader_is_asked(void **state)
{
    (void)state;
    scene();
    (void)get_in(a, "A", "r", "anna");
    (void)get_in(b, "B", "r", "bert");
    (void)enter(c, "W", "w", NULL, -1);
    wait_rw_queued(1);
    call_yield(c, "x");
    EXPECT_SET("A asked; B asked; yielded OK");
    assert_reached(2, 2);
}

/* Each handle of a re-entrant hold has a token of its own. */
static void each_handle_of_an_owner_is_asked(void **state)
{
    (void)state;
    scene();
    (void)get_in(a, "W", "w", "anna");
    (void)get_in(a, "V", "w", "anna");
    (void)get_in(b, "R", "r", "anna");
    call_yield(c, "x");
    EXPECT_SET("W asked; V asked; R asked; yielded OK");
    assert_reached(3, 3);
}

#define READERS 150 /* more than lw_inspect reports */

static void all_of_many_holders_are_asked(void **state)
{
    struct hold *readers[READERS];
    char label[16];

    (void)state;
    scene();
    for (int i = 0; i < READERS; i++) {
        (void)snprintf(label, sizeof(label), "%d", i);
        readers[i] = enter(a, label, "r", NULL, -1);
    }
    for (int i = 0; i < READERS; i++) {
        UNTIL(readers[i]->result == LW_OK);
    }
    ask("x", LW_OK, READERS, READERS);
    for (int i = 0; i < READERS; i++) {
        UNTIL(readers[i]->asked == 1);
    }
    stage_clear_trace();
}

static void of_the_handles_that_share_a_grant_the_holder_is_asked(void **state)
{
    struct hold *A;

    (void)state;
    scene();
    struct peer *d = peer_ready("d", client_of(.asked_to_yield = on_asked));
    A = acquire_and_wait(d, "A", "x");
    (void)acquire_hold(d, "B", "x", -1);
    EXPECT("A granted");
    call_yield(c, "x");
    EXPECT_SET("A asked; yielded OK");
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    call_yield(c, "x");
    EXPECT_SET("B asked; yielded OK");
}

static void a_client_may_ask_itself(void **state)
{
    (void)state;
    scene();
    (void)acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    call_yield(a, "x");
    EXPECT_SET("A asked; yielded OK");
    assert_reached(1, 1);
}

static void a_prefix_belongs_to_the_name(void **state)
{
    (void)state;
    stage.prefix = "team:";
    scene();
    (void)acquire_hold(a, "A", "x", 0);
    EXPECT("A granted");
    call_yield(c, "x");
    EXPECT_SET("A asked; yielded OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
}

/* ---- a keep, a set ---- */

static struct lw_keep *keep;
static int gains, askings;

static void on_gained(struct lw_keep *of, int status, void *arg)
{
    (void)of, (void)status, (void)arg;
    gains++;
}

/* Steps down: another process may lead, and this one queues behind it. */
static void step_down(struct lw_lock *lock, void *arg)
{
    struct peer *peer = arg;

    if (lock != lw_keep_lock(keep)) {
        stage_complain("asked about another handle than the keep's");
    }
    askings++;
    lw_keep_free(keep);
    if (lw_keep_new(peer->client, "x", NULL, on_gained, NULL, NULL, &keep) != 0) {
        stage_complain("lw_keep_new");
    }
}

static void a_leader_steps_down_in_the_callback(void **state)
{
    struct hold *B;

    (void)state;
    gains = askings = 0;
    look.then = NULL;
    a = peer_ready("a", client_of(.local_turns = 1, .asked_to_yield = step_down));
    b = holder("b");
    c = peer_ready("c", NULL);
    assert_int_equal(lw_keep_new(a->client, "x", NULL, on_gained, NULL, NULL, &keep), 0);
    UNTIL(gains == 1);
    B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    call_yield(c, "x");
    EXPECT_SET("yielded OK; B granted");
    assert_int_equal(askings, 1);
    wait_queued("x", 1);
    release_hold(B);
    EXPECT("B released OK");
    UNTIL(gains == 2);
    lw_keep_free(keep);
}

static struct lw_all *all;
static int done;

static void on_all(struct lw_all *of, int status, void *arg)
{
    (void)of, (void)arg;
    done = status;
}

static void note_member(struct lw_lock *lock, void *arg)
{
    (void)arg;
    if (lock != lw_all_lock(all, 1)) {
        stage_complain("asked about another handle than that of the name");
    }
    askings++;
}

static void a_request_for_one_name_of_a_set(void **state)
{
    static const char *const names[] = {"w", "x"};

    (void)state;
    askings = 0;
    done = PENDING;
    look.then = NULL;
    a = peer_ready("a", client_of(.asked_to_yield = note_member));
    c = peer_ready("c", NULL);
    assert_int_equal(lw_acquire_all(a->client, names, 2, NULL, on_all, NULL, NULL, &all),
                     0);
    UNTIL(done == LW_OK);
    ask("x", LW_OK, 1, 1);
    UNTIL(askings == 1);
    lw_all_free(all);
    stage_clear_trace();
}

/* ---- how often ---- */

/* Publishes the request for this token; `times` in one step, so that they arrive
 * together. */
static void publish(const char *token, const char *name, int times)
{
    char channel[64], text[256];

    (void)snprintf(channel, sizeof(channel), "lockwire:2:%.36s", token);
    (void)snprintf(text, sizeof(text), "y %s %s", token, name);
    redis_ok("EVAL %s 0 %s %s %d",
             "for i = 1, ARGV[3] do redis.call('PUBLISH', ARGV[1], ARGV[2]) end", channel,
             text, times);
}

static void each_request_is_one_call_unless_they_arrive_together(void **state)
{
    struct hold *A;

    (void)state;
    scene();
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    for (int i = 0; i < 3; i++) {
        call_yield(c, "x");
        EXPECT_SET("A asked; yielded OK");
    }
    publish(lw_lock_token(A->lock), "x", 5);
    EXPECT("A asked");
    stage_expect_nothing(100);
}

/* A request names the token: it is not for the next hold of the same client. */
static void requests_for_other_tokens_are_ignored_without_a_word(void **state)
{
    char old[128], unknown[128], waiting[128];
    struct hold *A, *B;

    (void)state;
    scene();
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    (void)snprintf(old, sizeof(old), "%s", lw_lock_token(A->lock));
    (void)snprintf(unknown, sizeof(unknown), "%.36s:99999:2000-", old);
    release_hold(A);
    EXPECT("A released OK");
    B = acquire_and_wait(a, "B", "x");
    EXPECT("B granted");
    (void)acquire_hold(b, "W", "x", -1);
    wait_queued("x", 1);
    look_at(c, "x");
    (void)snprintf(waiting, sizeof(waiting), "%.127s", look.waiters[0].token);
    publish(old, "x", 1);
    publish(unknown, "x", 1);
    publish(waiting, "x", 1);
    publish(lw_lock_token(B->lock), "y", 1);
    stage_expect_nothing(200);
    assert_false(peer_logged(a, "message"));
    assert_false(peer_logged(b, "message"));
}

static void a_warning_and_a_request_are_both_delivered(void **state)
{
    struct hold *A;

    (void)state;
    scene();
    A = acquire_hold_with(
        a, "A", "x", asking(.lease_ms = 600, .flags = LW_NO_RENEW, .at_risk = on_risk));
    EXPECT("A granted");
    A->then = NULL;
    UNTIL(A->warnings == 1);
    EXPECT("A at risk");
    call_yield(c, "x");
    renew_hold(A, 60000);
    EXPECT_SET("A renewed OK; A safe; A asked; yielded OK");
}

/* ---- who is not reached ---- */

static void a_lock_that_is_free_or_foreign_has_no_holder_to_ask(void **state)
{
    (void)state;
    scene();
    call_yield(c, "x");
    EXPECT("yielded ENOTHELD");
    assert_reached(0, 0);
    assert_non_null(strstr(look.why, "the lock is not held"));
    redis_ok("HSET x field value");
    call_yield(c, "x");
    EXPECT("yielded ENOTHELD");
    assert_non_null(strstr(look.why, "not written by lockwire"));
    redis_ok("DEL x");
    (void)acquire_hold_with(a, "A", "x", asking(.mode = LW_REDISSON));
    EXPECT("A granted");
    call_yield(c, "x");
    EXPECT("yielded ENOTHELD");
}

static void another_library_s_string_is_held_and_not_reached(void **state)
{
    (void)state;
    scene();
    redis_ok("SET x 3f2b8a52:96d5-11 PX 60000");
    monitor_start();
    call_yield(c, "x");
    EXPECT("yielded OK");
    assert_reached(0, 1);
    assert_int_equal(monitor_count("publish"), 0);
    monitor_stop();
    redis_ok("DEL x");
}

static void a_client_without_the_callback_ignores_the_request(void **state)
{
    struct hold *C;

    (void)state;
    scene();
    C = acquire_and_wait(c, "C", "x");
    EXPECT("C granted");
    call_yield(c, "x");
    EXPECT("yielded OK");
    assert_reached(1, 1);
    stage_expect_nothing(100);
    assert_held_by_redis(C);
    assert_false(peer_logged(c, "message"));
}

static void a_client_that_is_gone_is_not_reached(void **state)
{
    (void)state;
    stage.notes_may_stay = true;
    scene();
    (void)acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    peer_free(a);
    UNTIL(redis_int("EVAL %s 0", "return #redis.call('PUBSUB', 'CHANNELS')") == 4);
    ask("x", LW_OK, 0, 1);
    break_it(c, "x", NULL, LW_OK);
    stage_clear_trace();
}

/* Its client may have forgotten it long ago, and another process may adopt it. */
static void a_token_that_was_detached_is_not_asked(void **state)
{
    struct hold *A;

    (void)state;
    scene();
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    detach_hold(A, 60000);
    EXPECT("A detached OK");
    call_yield(c, "x");
    EXPECT("yielded OK");
    stage_expect_nothing(100);
    break_it(c, "x", NULL, LW_OK);
    stage_clear_trace();
}

static void an_account_that_may_not_subscribe_is_not_reached(void **state)
{
    (void)state;
    look.then = NULL;
    redis_ok("ACL SETUSER app reset on >pw +@all -SUBSCRIBE ~* &*");
    a = peer_start(
        "a", client_of(.username = "app", .password = "pw", .asked_to_yield = on_asked));
    c = peer_ready("c", NULL);
    (void)acquire_hold(a, "A", "x", -1);
    EXPECT("A granted");
    call_yield(c, "x");
    EXPECT("yielded OK");
    assert_reached(0, 1);
    stage_expect_nothing(50);
}

/* ---- errors ---- */

static void an_account_that_may_not_publish_is_refused(void **state)
{
    struct peer *d;

    (void)state;
    scene();
    redis_ok("ACL SETUSER app reset on >pw +@all -PUBLISH ~* &*");
    d = peer_start("d", client_of(.username = "app", .password = "pw"));
    UNTIL(d->up);
    (void)acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    call_yield(d, "x");
    EXPECT("yielded EREDIS");
    assert_reached(0, 1);
    assert_non_null(strstr(look.why, "permission"));
    stage_expect_nothing(50);
}

static void without_a_link_no_holder_is_asked(void **state)
{
    struct server other;
    struct peer *d;

    (void)state;
    scene();
    server_absent(&other);
    d = peer_start_at("d", other.url, NULL);
    UNTIL(d->downs > 0);
    call_yield(d, "x");
    EXPECT("yielded ECONN");
    assert_reached(0, 0);
    assert_true(*look.why != '\0');
}

static const char *published; /* the fake server's reply to PUBLISH */

static const char *answer(struct fake_redis *fake, int argc, char **argv)
{
    (void)fake;
    return argc == 3 && strcasecmp(argv[0], "PUBLISH") == 0 && strlen(argv[2]) > 0
               ? published
               : FAKE_REAL;
}

static void odd_replies_of_the_server(void **state)
{
    struct fake_redis *fake = fake_start(answer);
    struct peer *d;

    (void)state;
    scene();
    d = peer_start_at("d", fake->url, client_of(.backoff_min_ms = 1));
    UNTIL(d->up);
    (void)acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    published = "-BUSY Redis is busy running a script\r\n";
    call_yield(d, "x");
    EXPECT("yielded ECONN");
    published = ":0\r\n";
    call_yield(d, "x");
    EXPECT("yielded OK");
    assert_reached(0, 1);
    published = ":7\r\n";
    call_yield(d, "x");
    EXPECT("yielded OK");
    assert_reached(1, 1);
    published = "+WHAT\r\n";
    call_yield(d, "x");
    EXPECT("yielded ECONN");
    assert_reached(0, 1);
    assert_non_null(strstr(look.why, "invalid reply"));
    stage_expect_nothing(20);
}

static void invalid_calls_are_refused_with_a_reason(void **state)
{
    (void)state;
    scene();
    yield_refused(a, "", LW_EINVAL, "name");
    yield_refused(a, "lockwire:x", LW_EINVAL, "name");
    a->error[0] = '\0';
    assert_int_equal(lw_ask_to_yield(a->client, "x", NULL, NULL), LW_EINVAL);
    assert_non_null(strstr(a->error, "done is NULL"));
    peer_close(a);
    yield_refused(a, "x", LW_ECLOSED, "closed");
    EXPECT("a closed");
}

/* ---- the end of handles and clients ---- */

static void free_it(struct hold *hold, enum moment moment)
{
    if (moment == AT_ASKED) {
        free_hold(hold);
    }
}

static void free_client(struct hold *hold, enum moment moment)
{
    if (moment == AT_ASKED) {
        peer_free(hold->peer);
    }
}

static void close_client(struct hold *hold, enum moment moment)
{
    if (moment == AT_ASKED) {
        peer_close(hold->peer);
    }
}

static void anything_may_end_in_the_callback(void **state)
{
    static void (*const ways[])(struct hold *, enum moment) = {release_it, free_it,
                                                               free_client, close_client};
    static const char *const traces[] = {"A asked; yielded OK; A released OK",
                                         "A asked; yielded OK", "A asked; yielded OK",
                                         "A asked; yielded OK; d closed"};

    (void)state;
    stage.notes_may_stay = true;
    scene();
    for (int i = 0; i < 4; i++) {
        struct peer *d = holder("d");
        struct hold *A = acquire_hold_with(d, "A", "x", asking(.lease_ms = 3000));

        EXPECT("A granted");
        A->then = ways[i];
        call_yield(c, "x");
        EXPECT_SET(traces[i]);
        free_hold(A);
        peer_free(d);
        UNTIL(redis_int("EXISTS x") == 0);
    }
}

static void free_asker(struct peer *peer)
{
    peer_free(peer);
}

static void the_client_that_asks_may_end_in_its_callback(void **state)
{
    (void)state;
    stage.notes_may_stay = true;
    scene();
    look.then = free_asker;
    call_yield(c, "x");
    EXPECT("yielded ENOTHELD");
    look.then = NULL;
}

static void closing_ends_a_call_and_freeing_drops_it(void **state)
{
    (void)state;
    stage.notes_may_stay = true;
    scene();
    (void)acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    call_yield(b, "x");
    peer_close(b);
    EXPECT("yielded ECLOSED; b closed");
    call_yield(c, "x");
    peer_free(c);
    stage_expect_nothing(100);
}

/* A request from before a release or a loss is not delivered after it. */
static void a_hold_that_has_ended_is_not_asked(void **state)
{
    char token[128];
    struct hold *A;

    (void)state;
    scene();
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    (void)snprintf(token, sizeof(token), "%s", lw_lock_token(A->lock));
    publish(token, "x", 1);
    release_hold(A); /* before the loop has read the message */
    EXPECT("A released OK");
    A = acquire_and_wait(a, "B", "x");
    EXPECT("B granted");
    redis_ok("DEL x");
    publish(lw_lock_token(A->lock), "x", 1);
    renew_hold(A, 0);
    UNTIL(A->lost == LW_ENOTHELD);
    assert_true(A->asked <= 1);
    stage_clear_trace();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_holder_that_is_asked_keeps_its_lock),
        STAGE_TEST(the_waiter_gets_the_lock_and_is_not_asked),
        STAGE_TEST(a_request_before_the_reply_waits_for_it),
        STAGE_TEST(each_reader_is_asked),
        STAGE_TEST(each_handle_of_an_owner_is_asked),
        STAGE_TEST(all_of_many_holders_are_asked),
        STAGE_TEST(of_the_handles_that_share_a_grant_the_holder_is_asked),
        STAGE_TEST(a_client_may_ask_itself),
        STAGE_TEST(a_prefix_belongs_to_the_name),
        STAGE_TEST(a_leader_steps_down_in_the_callback),
        STAGE_TEST(a_request_for_one_name_of_a_set),
        STAGE_TEST(each_request_is_one_call_unless_they_arrive_together),
        STAGE_TEST(requests_for_other_tokens_are_ignored_without_a_word),
        STAGE_TEST(a_warning_and_a_request_are_both_delivered),
        STAGE_TEST(a_lock_that_is_free_or_foreign_has_no_holder_to_ask),
        STAGE_TEST(another_library_s_string_is_held_and_not_reached),
        STAGE_TEST(a_client_without_the_callback_ignores_the_request),
        STAGE_TEST(a_client_that_is_gone_is_not_reached),
        STAGE_TEST(a_token_that_was_detached_is_not_asked),
        STAGE_TEST(an_account_that_may_not_subscribe_is_not_reached),
        STAGE_TEST(an_account_that_may_not_publish_is_refused),
        STAGE_TEST(without_a_link_no_holder_is_asked),
        STAGE_TEST(odd_replies_of_the_server),
        STAGE_TEST(invalid_calls_are_refused_with_a_reason),
        STAGE_TEST(anything_may_end_in_the_callback),
        STAGE_TEST(the_client_that_asks_may_end_in_its_callback),
        STAGE_TEST(closing_ends_a_call_and_freeing_drops_it),
        STAGE_TEST(a_hold_that_has_ended_is_not_asked),
    };

    return STAGE_RUN(tests);
}

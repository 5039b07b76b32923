/* SPDX-License-Identifier: MIT */
/*
 * Which messages count: only those of the server that receives the commands. The tests
 * check whether a waiter joins the queue while its subscription is at another server,
 * what a message of another server is worth, and what a client does that may not use
 * PUBSUB NUMSUB. Both servers are one here, which is made to reply as if there were two;
 * test/fault has two real ones.
 *
 * Usual course: PUBSUB NUMSUB is answered 0; the waiter polls, and is granted the lock
 * nevertheless.
 */
#include "fake_redis.h"
#include "monitor.h"
#include "players.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* ---- two links to different servers ---- */

static const char *count; /* the reply to NUMSUB; FAKE_REAL: the server's own */
static int counts;

static const char *count_as_told(struct fake_redis *fake, int argc, char **argv)
{
    (void)fake;
    if (argc < 3 || strcasecmp(argv[1], "NUMSUB") != 0) {
        return FAKE_REAL;
    }
    counts++;
    return count;
}

static struct peer *behind_a_balancer(const char *answer)
{
    count = answer;
    counts = 0;
    struct fake_redis *fake = fake_start(count_as_told);
    struct peer *b =
        peer_start_at("b", fake->url,
                      client_of(.local_turns = 1, .backoff_min_ms = 1,
                                .backoff_max_ms = 10, .request_timeout_ms = 500));

    UNTIL(b->up);
    return b;
}

#define NOBODY "*2\r\n$1\r\nc\r\n:0\r\n"

static void who_listens_elsewhere_polls_and_does_not_queue(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = behind_a_balancer(NOBODY);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    acquire_hold_with(b, "B", "x", asking(.wait_ms = -1, .lease_ms = 1500));
    UNTIL(counts > 3);
    EXPECT("A granted");
    assert_int_equal(redis_int("EXISTS %s", queue_of("x")), 0);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    const char *said = strstr(b->log, "seem to reach different servers");
    if (said == NULL) {
        stage_fail("the log: %s", b->log);
    }
    assert_null(strstr(said + 1, "seem to reach different servers"));
    stage.keys_may_stay = true; /* a link that comes and goes leaves some */
}

static void both_links_connect_anew_until_they_agree(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = behind_a_balancer(NOBODY);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    UNTIL(strstr(b->whys, "different server than the subscription connection") != NULL);
    assert_true(counts >= 3); /* at first the subscription reconnects alone */
    acquire_hold(b, "B", "x", -1);
    count = FAKE_REAL;
    wait_queued("x", 1);
    EXPECT("A granted");
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    stage.keys_may_stay = true;
}

static void heartbeat_finds_that_they_part(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = behind_a_balancer(FAKE_REAL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    UNTIL(counts > 0);
    acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    count = NOBODY;
    UNTIL(strstr(b->log, "seem to reach different servers") != NULL);
    count = FAKE_REAL;
    EXPECT("A granted");
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    stage.keys_may_stay = true;
}

static void a_count_that_no_server_can_give_is_none(void **state)
{
    static const char *const answers[] = {"*0\r\n", "*2\r\n$1\r\nc\r\n:-1\r\n",
                                          "*2\r\n$1\r\nc\r\n$1\r\n1\r\n", "+OK\r\n",
                                          ":1\r\n"};

    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
        struct peer *b = behind_a_balancer(answers[i]);

        UNTIL(strstr(b->whys, "invalid reply") != NULL);
        count = FAKE_REAL;
        UNTIL(b->up);
        peer_close(b);
        UNTIL(b->closed);
    }
    stage_clear_trace();
}

/* A temporary error does not count as a lack of permission. */
static void an_error_of_the_count_is_asked_about_again(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct peer *b = behind_a_balancer("-ERR something is wrong\r\n");
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    UNTIL(counts > 0);
    acquire_hold_with(b, "B", "x", asking(.wait_ms = -1));
    count = "*2\r\n$1\r\nc\r\n:1\r\n";
    UNTIL(redis_int("EXISTS %s", queue_of("x")) == 1); /* a client that is bound queues */
    peer_free(b);
    release_hold(A);
    EXPECT("A granted; A released OK");
    stage.notes_may_stay = true;
}

/* ---- permissions ---- */

static void who_may_not_count_polls_and_the_log_says_so_once(void **state)
{
    (void)state;
    redis_ok("ACL SETUSER app reset on >secret +@all -pubsub ~* &*");
    struct peer *a = peer_ready("a", NULL);
    struct peer *b = peer_start("b", client_of(.username = "app", .password = "secret",
                                               .request_timeout_ms = 100));
    struct hold *A = acquire_and_wait(a, "A", "x");
    redis_ok("ACL LOG RESET");
    UNTIL(peer_logged(b, "4 PUBSUB NUMSUB is not permitted"));
    acquire_hold_with(b, "B", "x", asking(.wait_ms = -1, .lease_ms = 1500));
    EXPECT("A granted");
    stage_expect_nothing(350); /* time for heartbeats */
    assert_int_equal(redis_int("EXISTS %s", queue_of("x")), 0);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    const char *said = strstr(b->log, "NUMSUB");
    assert_null(strstr(said + 1, "NUMSUB"));
}

static void who_may_not_count_any_more_is_bound_no_more(void **state)
{
    (void)state;
    redis_ok("ACL SETUSER app reset on >secret +@all ~* &*");
    struct peer *a = peer_ready("a", NULL);
    struct peer *b = peer_ready("b", client_of(.username = "app", .password = "secret",
                                               .request_timeout_ms = 100));
    struct hold *A = acquire_and_wait(a, "A", "x");
    redis_ok("ACL SETUSER app -pubsub");
    UNTIL(peer_logged(b, "4 PUBSUB NUMSUB is not permitted"));
    acquire_hold_with(b, "B", "x", asking(.wait_ms = -1, .lease_ms = 1500));
    EXPECT("A granted");
    stage_expect_nothing(100);
    assert_int_equal(redis_int("EXISTS %s", queue_of("x")), 0);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
}

/* Without INFO a client cannot know which server sent a message. It takes each message as
 * a reason to poll. */
static void without_INFO_a_message_means_ask(void **state)
{
    (void)state;
    redis_ok("ACL SETUSER app reset on >secret +@all -info ~* &*");
    struct lw_client_options options =
        *client_of(.username = "app", .password = "secret", .local_turns = 1);
    struct peer *a = peer_ready("a", &options), *b = peer_ready("b", &options);
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    EXPECT("A granted");
    monitor_start();
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_held_by_redis(B);
    /* the release, perhaps after a fast release; and the request of B */
    assert_int_in_range(monitor_count("evalsha"), 2, 3);
    assert_int_equal(peer_stats(b).handed_over, 0);
}

/* Hands over a mutex from a to b, and closes b. */
static void hand_over_a_mutex(struct peer *a, struct peer *b)
{
    struct hold *A = acquire_and_wait(a, "A", "x");

    acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    renew_hold(A, 0);
    EXPECT("A granted; A renewed OK");
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_int_equal(peer_stats(b).handed_over, 1);
    peer_close(b);
    EXPECT("b closed");
}

/* Hands over a lock of another kind, as a writer or with one permit. */
static void hand_over_as(const struct lw_acquire_options *wanted, struct peer *a,
                         struct peer *c)
{
    struct hold *A = acquire_hold_with(a, "A", "x", wanted);

    EXPECT("A granted");
    acquire_hold_with(c, "C", "x", wanted);
    UNTIL(redis_int("ZCARD lockwire:2:rwqueue:{x}") == 1);
    renew_hold(A, 0);
    EXPECT("A renewed OK");
    release_hold(A);
    EXPECT_SET("A released OK; C granted");
    peer_close(c);
    EXPECT("c closed");
    peer_free(c);
}

/* Redis 6.2 logs no subcommands. */
static void only_what_is_optional_was_refused(void)
{
    static const char *const optional[] = {"config|get", "client|kill",  "config",
                                           "client",     "command|info", "command"};
    redisReply *log = redisCommand(stage.server.admin, "ACL LOG");

    for (size_t i = 0; i < log->elements; i++) {
        const char *object = log->element[i]->element[7]->str;
        bool known = false;

        for (size_t j = 0; j < sizeof(optional) / sizeof(*optional); j++) {
            known = known || strcmp(object, optional[j]) == 0;
        }
        if (!known) {
            stage_fail("refused: %s", object);
        }
    }
    freeReplyObject(log);
}

/* lockwire(7)'s account, without the optional commands. The server refuses no others. */
static void the_least_account_misses_nothing(void **state)
{
    (void)state;
    redis_ok(
        "ACL SETUSER least on >pw ~x ~lockwire:* resetchannels &lockwire:* -@all +auth "
        "+select +client|setname +client|id +info +eval +evalsha +set +get +mget +del "
        "+exists "
        "+type +incr +incrby +pexpire +pexpireat +pttl +time +publish +subscribe "
        "+pubsub|numsub +zadd +zcard +zrange +zrangebyscore +zrank +zrem +zscore +hset "
        "+hsetnx +hget +hgetall +hdel +hexists +hkeys "
        "+hlen");
    redis_ok("ACL LOG RESET");
    struct lw_client_options options =
        *client_of(.username = "least", .password = "pw", .local_turns = 1);
    struct peer *a = peer_ready("a", &options);
    hand_over_a_mutex(a, peer_ready("b", &options));
    hand_over_as(asking(.mode = LW_EXCLUSIVE, .wait_ms = -1), a,
                 peer_ready("c", &options));
    hand_over_as(asking(.mode = LW_SHARED, .permits = 1, .wait_ms = -1), a,
                 peer_ready("c", &options));
    only_what_is_optional_was_refused();
}

/* ---- messages ---- */

/* Publishes a well-formed hand-over message for B, as if from another server. */
static void forge(const char *server)
{
    char token[128], client[40];

    (void)snprintf(token, sizeof(token), "%s",
                   redis_text("EVAL %s 0 %s",
                              "return redis.call('ZRANGE', ARGV[1], 0, 0)[1]",
                              queue_of("x")));
    (void)snprintf(client, sizeof(client), "%.36s", token);
    redis_ok("EVAL %s 0 %s %s %s",
             "local t = redis.call('TIME') "
             "redis.call('PUBLISH', 'lockwire:2:' .. ARGV[1], 't ' .. ARGV[2] .. "
             "' 1763690000000016 ' .. ARGV[3] .. ' ' .. t[1] .. ' ' .. t[2] .. "
             "' x') return redis.status_reply('OK')",
             client, token, server);
}

static void a_message_of_another_server_means_ask(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");
    static const char *const servers[] = {"", "0", "0123456789abcdef"};

    (void)state;
    acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    EXPECT("A granted");
    monitor_start();
    for (size_t i = 0; i < sizeof(servers) / sizeof(*servers); i++) {
        monitor_clear();
        forge(servers[i]);
        UNTIL(monitor_count("evalsha") + monitor_count("eval") > 0);
        stage_expect_nothing(50);
        assert_held_by_redis(A);
    }
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_int_equal(peer_stats(b).handed_over, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(who_listens_elsewhere_polls_and_does_not_queue),
        STAGE_TEST(an_error_of_the_count_is_asked_about_again),
        STAGE_TEST(both_links_connect_anew_until_they_agree),
        STAGE_TEST(heartbeat_finds_that_they_part),
        STAGE_TEST(a_count_that_no_server_can_give_is_none),
        STAGE_TEST(who_may_not_count_polls_and_the_log_says_so_once),
        STAGE_TEST(who_may_not_count_any_more_is_bound_no_more),
        STAGE_TEST(without_INFO_a_message_means_ask),
        STAGE_TEST(the_least_account_misses_nothing),
        STAGE_TEST(a_message_of_another_server_means_ask),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/* LW_REDISSON, times at which a client does not request. After a release with other
 * subscribers the client leaves the name to them for a while (the cooldown). Waiters
 * sleep until a message comes or the holder's lease ends; if no message can come, they
 * poll.
 *
 * Usual course: two clients request the name again and again, and each gets its share of
 * the grants. */
#include "lock/lock_private.h"
#include "monitor.h"
#include "redisson/scene.h"

#include <stdio.h>
#include <string.h>

/* ---- after a release the name is left to other subscribers ---- */

/* The grants of slots; each slot requests the name again after each release. */
static struct {
    struct peer *who[1024];
    int64_t at_ms[1024];
    int count;
    bool stopped;
} grants;

static void open_slot(struct peer *peer);

static void turn_slot(struct hold *hold, enum moment moment)
{
    if (moment == AT_RELEASED) {
        if (!grants.stopped) {
            open_slot(hold->peer);
        }
        return;
    }
    grants.count %= 1024;
    grants.who[grants.count] = hold->peer;
    grants.at_ms[grants.count++] = now_ms();
    release_hold(hold);
}

static void open_slot(struct peer *peer)
{
    join_line(peer, "s")->then = turn_slot;
}

static int granted_to(const struct peer *peer)
{
    int count = 0;

    for (int i = 0; i < grants.count; i++) {
        count += grants.who[i] == peer;
    }
    return count;
}

static void play_slots(int of_a, int of_b)
{
    grants.stopped = false;
    a = peer_ready("a", NULL);
    b = peer_ready("b", NULL);
    for (int i = 0; i < of_a; i++) {
        open_slot(a);
    }
    for (int i = 0; i < of_b; i++) {
        open_slot(b);
    }
    UNTIL(of_b == 0 || listeners(CHANNEL) == 2); /* until then b gets no messages */
    grants.count = 0;
    stage_clear_trace();
}

static void stop_slots(void)
{
    grants.stopped = true;
    UNTIL(peer_stats(a).waiting + peer_stats(b).waiting == 0);
    UNTIL(redis_int("EXISTS x") == 0);
    stage_clear_trace();
}

/* The RLock takes 3 ms from the message to its try. */
static void a_release_leaves_the_name_to_others(void **state)
{
    redisContext *ear = redisConnectUnix(stage.server.path);
    int taken = 0;

    (void)state;
    a = peer_ready("a", NULL);
    freeReplyObject(redisCommand(ear, "SUBSCRIBE " CHANNEL));
    struct hold *A = want(a, "A", asking(.wait_ms = 0)), *B;
    UNTIL(A->result == LW_OK);
    for (int i = 0; i < 20; i++, A = B) {
        B = join_line(a, "B");
        UNTIL(listeners(CHANNEL) == 2);
        stage_run_for(5); /* B is refused, and waits */
        release_hold(A);
        UNTIL(A->released == LW_OK);
        stage_run_for(3);
        if (redis_int("EXISTS x") == 0) {
            java_holds("x", 1, HOUR_MS);
            taken++;
            java_unlocks("x", "0");
        }
        UNTIL(B->result == LW_OK);
    }
    redisFree(ear);
    if (taken < 5) {
        stage_skip_if_lag(5);
    }
    assert_int_in_range(taken, 5, 20); /* without the cooldown: none */
    stage_clear_trace();
}

/* A client that releases and requests again at once is no faster than a waiter: they
 * alternate. */
static void a_slot_beside_eight_has_every_other_grant(void **state)
{
    (void)state;
    play_slots(8, 1);
    UNTIL(granted_to(b) == 20 || grants.count > 500);
    if (grants.count > 60) {
        stage_skip_if_lag(5);
    }
    assert_int_in_range(grants.count, 20, 60);
    stop_slots();
}

/* No other client is subscribed: a cooldown after each release would show. */
static void siblings_pass_it_without_a_rest(void **state)
{
    int at_once = 0;

    (void)state;
    play_slots(4, 0);
    UNTIL(grants.count > 100);
    for (int i = 1; i < 100; i++) {
        at_once += grants.at_ms[i] - grants.at_ms[i - 1] < 8;
    }
    assert_true(at_once > 10);
    stop_slots();
}

/* The other client's release comes before the cooldown ends. */
static void a_message_ends_the_rest(void **state)
{
    int at_once = 0;

    (void)state;
    play_slots(3, 3);
    UNTIL(grants.count > 200);
    for (int i = 2; i < 200; i++) {
        at_once += grants.who[i] == grants.who[i - 2] &&
                   grants.who[i] != grants.who[i - 1] &&
                   grants.at_ms[i] - grants.at_ms[i - 2] < 8;
    }
    assert_true(at_once > 10);
    assert_int_in_range(granted_to(b), 40, 160);
    stop_slots();
}

/* A message that came while one release was in flight does not count for the next one. */
static void a_release_that_finds_nothing_leaves_nothing_behind(void **state)
{
    struct hold *line[2];

    (void)state;
    line_behind_java(line, 2);
    java_unlocks("x", "0");
    EXPECT("0 granted");
    java_unlocks("x", "0"); /* forced: the RLock held nothing */
    release_hold(line[0]);
    EXPECT_SET("0 released ENOTHELD; 1 granted");
    for (size_t i = 0;
         i < sizeof(a->client->holds.cooldowns) / sizeof(*a->client->holds.cooldowns);
         i++) {
        assert_false(a->client->holds.cooldowns[i].message_before);
    }
    monitor_stop();
    release_hold(line[1]);
    EXPECT("1 released OK");
}

/* ---- polling ---- */

/* Returns a handle that waits for an RLock and is subscribed to its channel. */
static struct hold *asleep(void)
{
    struct hold *A;

    a = peer_ready("a", NULL);
    java_holds("x", 1, HOUR_MS);
    A = join_line(a, "A");
    UNTIL(listeners(CHANNEL) == 1);
    stage_expect_nothing(200);
    return A;
}

static void a_lease_is_asked_for_when_it_ends(void **state)
{
    struct hold *A = asleep();

    (void)state;
    monitor_start();
    int64_t ends_ms = now_ms() + 1500;
    java_holds("x", 1, 1500);
    redis_ok("PUBLISH " CHANNEL " 0"); /* A requests, and learns of the new lease */
    EXPECT("A granted");
    stage_skip_if_lag(100);
    assert_int_in_range(A->result_ms - ends_ms, 0, 150);
    assert_int_equal(scripts_sent(), 2);
    monitor_stop();
    release_hold(A);
    EXPECT("A released OK");
}

/* The subscription link is cut, and may not subscribe again. */
static void a_link_that_hears_no_more_is_made_up_for_by_polling(void **state)
{
    struct hold *A = asleep();

    (void)state;
    redis_ok("ACL SETUSER default resetchannels &lockwire:*");
    UNTIL(peer_logged(a, "refused SUBSCRIBE"));
    redis_ok("DEL x");
    int64_t freed_ms = now_ms();
    EXPECT("A granted");
    redis_ok("ACL SETUSER default allchannels");
    stage_skip_if_lag(1000);
    assert_int_in_range(A->result_ms - freed_ms, 0, 4000);
    release_hold(A);
    EXPECT("A released OK");
}

static void assign_all_slots(struct server *server)
{
    enum { SLOTS = 16384 };
    static char numbers[SLOTS][8];
    static const char *words[SLOTS + 2] = {"CLUSTER", "ADDSLOTS"};
    redisReply *reply;

    for (int i = 0; i < SLOTS; i++) {
        (void)snprintf(numbers[i], sizeof(numbers[i]), "%d", i);
        words[i + 2] = numbers[i];
    }
    reply = redisCommandArgv(server->admin, SLOTS + 2, words, NULL);
    assert_int_equal(reply->type, REDIS_REPLY_STATUS);
    freeReplyObject(reply);
    do {
        reply = server_command(server, "CLUSTER INFO");
    } while (strstr(reply->str, "cluster_state:ok") == NULL &&
             (freeReplyObject(reply), true));
    freeReplyObject(reply);
}

static void in_cluster_mode_it_says_so_once_and_polls(void **state)
{
    struct server server;
    char args[64];

    (void)state;
    if (redis_info("redis_version") < 7) {
        skip(); /* no sharded channels, and no option for the bus port */
    }
    (void)snprintf(args, sizeof(args), "--cluster-enabled yes --cluster-port %d",
                   server_free_port());
    server_start(&server, args);
    assign_all_slots(&server);
    a = peer_start_at("a", server.url, NULL);
    UNTIL(a->up);
    freeReplyObject(server_command(&server, "HSET x java:1 1"));
    freeReplyObject(server_command(&server, "PEXPIRE x %d", HOUR_MS));
    struct hold *A = join_line(a, "A");
    UNTIL(peer_logged(a, "cluster mode"));
    stage_expect_nothing(1000);
    freeReplyObject(server_command(&server, "DEL x"));
    int64_t freed_ms = now_ms();
    EXPECT("A granted");
    stage_skip_if_lag(1000);
    assert_int_in_range(A->result_ms - freed_ms, 0, 4000);
    release_hold(A);
    EXPECT("A released OK");
    A = want(a, "A", asking(.wait_ms = 0));
    EXPECT("A granted");
    const char *told = strstr(a->log, "cluster mode");
    assert_null(strstr(told + 1, "cluster mode"));
    peer_free(a);
    server_stop(&server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_release_leaves_the_name_to_others),
        STAGE_TEST(a_slot_beside_eight_has_every_other_grant),
        STAGE_TEST(siblings_pass_it_without_a_rest),
        STAGE_TEST(a_message_ends_the_rest),
        STAGE_TEST(a_release_that_finds_nothing_leaves_nothing_behind),
        STAGE_TEST(a_lease_is_asked_for_when_it_ends),
        STAGE_TEST(a_link_that_hears_no_more_is_made_up_for_by_polling),
        STAGE_TEST(in_cluster_mode_it_says_so_once_and_polls),
    };

    return STAGE_RUN(tests);
}

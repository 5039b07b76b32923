/* SPDX-License-Identifier: MIT */
/*
 * LW_REDISSON where many wait: one handle asks for all of a client, in order of arrival; who
 * leaves hands the asking on; a name that others were told of is left to them; a lease's end
 * is asked for when it comes. And the leases of those who enter together. The other side is
 * played by commands that do what an RLock does, or by a second client.
 *
 * Happy path: fifty wait, Redisson unlocks, and each that is granted lets go: two commands for
 * each of them.
 */
#include "core.h"
#include "monitor.h"
#include "players.h"

#include <stdio.h>
#include <string.h>

#define CHANNEL "redisson_lock__channel:{x}"
#define LISTENERS                                                                        \
    (redis_int("EVAL %s 0 " CHANNEL, "return redis.call('PUBSUB', 'NUMSUB', "            \
                                     "ARGV[1])[2]"))
#define HOUR_MS 3600000

static struct peer *a, *b;

static struct hold *want(struct peer *peer, const char *label,
                         const struct lw_acquire_options *options)
{
    struct lw_acquire_options his = *options;

    his.mode = LW_REDISSON;
    if (his.lease_ms == 0)
        his.lease_ms = 20000;
    return ask_with(peer, label, "x", &his);
}

static struct hold *join_line(struct peer *peer, const char *label)
{
    return want(peer, label, asking(.wait_ms = -1));
}

static void held_by_java(int lease_ms)
{
    redis_ok("HSET x 4a0fc1f8-0000-4000-8000-1c6f654f1aaa:52 1");
    redis_ok("PEXPIRE x %d", lease_ms);
}

static void unlocked_by_java(void)
{
    redis_ok("DEL x");
    redis_ok("PUBLISH " CHANNEL " 0");
}

/* Asks and releases since the monitor started. */
static int commands(void)
{
    return monitor_count("evalsha");
}

/* Java holds, so many wait, and all is quiet: the first one was refused once it listened. */
static void line_behind_java(struct hold **line, int count)
{
    char label[16];

    a = peer_ready("a", NULL);
    held_by_java(HOUR_MS);
    for (int i = 0; i < count; i++) {
        snprintf(label, sizeof(label), "%d", i);
        line[i] = join_line(a, label);
    }
    UNTIL(LISTENERS == 1);
    stage_expect_nothing(200);
    monitor_start();
}

/* ---- leases of those who enter together ---- */

static struct hold *anna(const char *label, uint32_t lease_ms, int64_t wait_ms)
{
    return want(a, label,
                asking(.owner = "anna", .lease_ms = lease_ms, .wait_ms = wait_ms,
                       .flags = LW_NO_RENEW));
}

static void both_have_the_long_lease(struct hold *A, struct hold *B)
{
    UNTIL(redis_int("PTTL x") > 20000);
    UNTIL(lw_lock_remaining_ms(A->lock) > 20000);
    assert_true(lw_lock_remaining_ms(B->lock) > 20000);
    let_go(A);
    EXPECT("A released STILLHELD");
    let_go(B);
    EXPECT("B released OK");
}

static void who_joins_and_does_not_renew_has_its_lease(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = anna("A", 1000, 0);
    EXPECT("A granted");
    struct hold *B = anna("B", 30000, 0);
    EXPECT("B granted");
    both_have_the_long_lease(A, B);
}

static void who_joins_with_less_shortens_nothing(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *B = anna("B", 30000, 0);
    EXPECT("B granted");
    struct hold *A = anna("A", 1000, 0);
    EXPECT("A granted");
    UNTIL(peer_stats(a).renewed == 1);
    stage_expect_nothing(100);
    assert_int_equal(peer_stats(a).renewed, 1); /* asked for once */
    both_have_the_long_lease(A, B);
}

static void who_comes_while_the_first_one_asks_has_its_lease(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = anna("A", 1000, 0);
    EXPECT("A granted"); /* from then on the server knows the script: it is told once */
    let_go(A);
    EXPECT("A released OK");
    A = anna("A", 1000, 0);
    struct hold *B = anna("B", 30000, 0);
    EXPECT("A granted; B granted");
    both_have_the_long_lease(A, B);
}

static void those_who_wait_ask_for_the_longest_lease(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    held_by_java(HOUR_MS);
    struct hold *A = anna("A", 1000, -1), *B = anna("B", 30000, -1);
    UNTIL(LISTENERS == 1);
    stage_expect_nothing(200);
    monitor_start();
    unlocked_by_java();
    EXPECT("A granted; B granted");
    assert_true(redis_int("PTTL x") > 20000);
    assert_int_equal(commands(), 1); /* the grant's was long enough */
    monitor_stop();
    both_have_the_long_lease(A, B);
}

/* ---- one asks for all ---- */

static void release_at_once(struct hold *hold, enum moment moment)
{
    if (moment == AT_RESULT)
        let_go(hold);
}

static void each_grant_costs_two_commands_in_order_of_arrival(void **state)
{
    enum { MANY = 50 };
    struct hold *line[MANY];
    char expected[32];

    (void)state;
    line_behind_java(line, MANY);
    for (int i = 0; i < MANY; i++)
        line[i]->then = release_at_once;
    unlocked_by_java();
    UNTIL(line[MANY - 1]->released != PENDING);
    for (int i = 0; i + 1 < MANY; i++) {
        assert_int_equal(line[i]->result, LW_OK);
        assert_true(line[i]->released_ms <= line[i + 1]->result_ms);
    }
    assert_int_in_range(commands(), 2 * MANY, 2 * MANY + MANY / 5);
    monitor_stop();
    snprintf(expected, sizeof(expected), "%d granted", MANY - 1);
    assert_true(stage_has(expected));
    stage_clear_trace();
}

static void a_try_does_not_overtake_who_waits(void **state)
{
    struct hold *line[1];

    (void)state;
    line_behind_java(line, 1);
    struct hold *B = want(a, "B", asking(.owner = "bert"));
    struct hold *C = want(a, "C", asking(.wait_ms = 0));
    EXPECT("B EBUSY; C EBUSY");
    assert_int_in_range(lw_lock_retry_ms(B->lock), 1, HOUR_MS);
    assert_int_in_range(lw_lock_retry_ms(C->lock), 1, HOUR_MS);
    assert_int_equal(commands(), 0);
    monitor_stop();
    unlocked_by_java();
    EXPECT("0 granted");
}

/* The holder's lease went on since the first one was refused. */
static void a_try_is_told_what_is_left_of_the_lease(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    held_by_java(60000);
    join_line(a, "A");
    UNTIL(LISTENERS == 1);
    stage_expect_nothing(300);
    int64_t left_ms = redis_int("PTTL x");
    struct hold *B = want(a, "B", asking(.wait_ms = 0));
    EXPECT("B EBUSY");
    assert_int_in_range(lw_lock_retry_ms(B->lock), left_ms - 10000, left_ms + 1);
    redis_ok("DEL x");
}

/* `leave` is what the first one does; the second one asks in its place. */
static void asking_is_handed_on(void (*leave)(struct hold *first))
{
    struct hold *line[3];

    line_behind_java(line, 3);
    leave(line[0]);
    UNTIL(commands() == 1);
    stage_expect_nothing(100);
    assert_int_equal(commands(), 1); /* the third one sleeps on */
    unlocked_by_java();
    EXPECT("1 granted");
    let_go(line[1]);
    EXPECT_SET("1 released OK; 2 granted");
    monitor_stop();
}

static void who_leaves_hands_the_asking_on(void **state)
{
    (void)state;
    asking_is_handed_on(drop);
}

static void who_gives_up_hands_the_asking_on(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    held_by_java(HOUR_MS);
    want(a, "A", asking(.wait_ms = 1000));
    struct hold *B = join_line(a, "B");
    UNTIL(LISTENERS == 1);
    stage_run_for(100);
    monitor_start();
    EXPECT("A ETIMEOUT");
    UNTIL(commands() == 1);
    monitor_stop();
    unlocked_by_java();
    EXPECT("B granted");
    assert_true(B->result_ms - B->asked_ms < 9000); /* not by its poll */
}

/* Its answer is to come, and nobody wants it: the lock that it may bring is given back. */
static void who_leaves_while_asking_hands_the_asking_on(void **state)
{
    struct hold *line[2];

    (void)state;
    line_behind_java(line, 2);
    redis_ok("DEL x");
    redis_ok("CLIENT PAUSE 200 ALL");
    drop(join_line(a, "C"));
    drop(line[0]); /* its successor asks, */
    struct hold *D = join_line(a, "D");
    drop(line[1]); /* and leaves at once */
    EXPECT("D granted");
    assert_int_equal(redis_int("HLEN x"), 1);
    let_go(D);
    EXPECT("D released OK");
    monitor_stop();
}

/* Its owner sleeps behind another one, and the link is not up yet: the try ends when it
 * comes up, and has its owner ask nothing. */
static void a_try_that_joins_a_sleeper_has_it_sleep_on(void **state)
{
    (void)state;
    held_by_java(HOUR_MS);
    monitor_start();
    a = peer_start("a", NULL);
    struct hold *A = want(a, "A", asking(.owner = "bert", .wait_ms = -1));
    want(a, "B", asking(.owner = "anna", .wait_ms = -1));
    want(a, "C", asking(.owner = "anna"));
    EXPECT("C EBUSY");
    UNTIL(LISTENERS == 1);
    stage_expect_nothing(300);
    assert_true(monitor_saw(":1\" \"20000\""));
    assert_false(monitor_saw(":2\" \"20000\""));
    monitor_clear();
    stage_expect_nothing(4000);
    assert_int_equal(commands(), 0);
    monitor_stop();
    unlocked_by_java();
    EXPECT("A granted");
    let_go(A);
    EXPECT_SET("A released OK; B granted");
}

static void a_sibling_whose_release_never_comes_is_outlived(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = anna("A", 1000, 0);
    struct hold *B = join_line(a, "B"), *C = join_line(a, "C");
    EXPECT("A granted; A lost ELOST; B granted");
    let_go(B);
    EXPECT_SET("B released OK; C granted");
    drop(A);
    let_go(C);
    EXPECT("C released OK");
}

/* ---- a name is left to whom a release told of it ---- */

/* Grants of slots that want the name again and again, one after the other. */
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
        if (!grants.stopped)
            open_slot(hold->peer);
        return;
    }
    grants.count %= 1024;
    grants.who[grants.count] = hold->peer;
    grants.at_ms[grants.count++] = now_ms();
    let_go(hold);
}

static void open_slot(struct peer *peer)
{
    join_line(peer, "s")->then = turn_slot;
}

static int granted_to(const struct peer *peer)
{
    int count = 0;

    for (int i = 0; i < grants.count; i++)
        count += grants.who[i] == peer;
    return count;
}

static void play_slots(int of_a, int of_b)
{
    grants.stopped = false;
    a = peer_ready("a", NULL);
    b = peer_ready("b", NULL);
    for (int i = 0; i < of_a; i++)
        open_slot(a);
    for (int i = 0; i < of_b; i++)
        open_slot(b);
    UNTIL(of_b == 0 || LISTENERS == 2); /* until then b is not told */
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

/* An RLock that needs 3 ms from the message to its try. */
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
        UNTIL(LISTENERS == 2);
        stage_run_for(5); /* it is refused, and waits */
        let_go(A);
        UNTIL(A->released == LW_OK);
        stage_run_for(3);
        if (redis_int("EXISTS x") == 0) {
            held_by_java(HOUR_MS);
            taken++;
            unlocked_by_java();
        }
        UNTIL(B->result == LW_OK);
    }
    redisFree(ear);
    if (taken < 15)
        stage_skip_if_lag(5);
    assert_int_in_range(taken, 15, 20);
    stage_clear_trace();
}

/* Who lets go and asks anew at once is no faster than who waited: one after the other. */
static void a_slot_beside_eight_has_every_other_grant(void **state)
{
    (void)state;
    play_slots(8, 1);
    UNTIL(granted_to(b) == 20 || grants.count > 500);
    if (grants.count > 60)
        stage_skip_if_lag(5);
    assert_int_in_range(grants.count, 20, 60);
    stop_slots();
}

/* Nobody else listens: a rest after each would show. */
static void siblings_pass_it_without_a_rest(void **state)
{
    int at_once = 0;

    (void)state;
    play_slots(4, 0);
    UNTIL(grants.count > 100);
    for (int i = 1; i < 100; i++)
        at_once += grants.at_ms[i] - grants.at_ms[i - 1] < 8;
    assert_true(at_once > 10);
    stop_slots();
}

/* The other one's release comes before the rest is over. */
static void a_message_ends_the_rest(void **state)
{
    int at_once = 0;

    (void)state;
    play_slots(3, 3);
    UNTIL(grants.count > 200);
    for (int i = 2; i < 200; i++)
        at_once += grants.who[i] == grants.who[i - 2] &&
                   grants.who[i] != grants.who[i - 1] &&
                   grants.at_ms[i] - grants.at_ms[i - 2] < 8;
    assert_true(at_once > 10);
    assert_int_in_range(granted_to(b), 40, 160);
    stop_slots();
}

/* What was heard while it was on its way is not the next one's. */
static void a_release_that_finds_nothing_leaves_nothing_behind(void **state)
{
    struct hold *line[2];

    (void)state;
    line_behind_java(line, 2);
    unlocked_by_java();
    EXPECT("0 granted");
    unlocked_by_java(); /* by force: it held nothing */
    let_go(line[0]);
    EXPECT_SET("0 released ENOTHELD; 1 granted");
    for (size_t i = 0; i < sizeof a->client->rests / sizeof *a->client->rests; i++)
        assert_false(a->client->rests[i].heard);
    monitor_stop();
    let_go(line[1]);
    EXPECT("1 released OK");
}

/* ---- polling ---- */

/* It waits for an RLock, and hears of its name. */
static struct hold *asleep(void)
{
    struct hold *A;

    a = peer_ready("a", NULL);
    held_by_java(HOUR_MS);
    A = join_line(a, "A");
    UNTIL(LISTENERS == 1);
    stage_expect_nothing(200);
    return A;
}

static void a_lease_is_asked_for_when_it_ends(void **state)
{
    struct hold *A = asleep();

    (void)state;
    monitor_start();
    int64_t ends_ms = now_ms() + 1500;
    held_by_java(1500);
    redis_ok("PUBLISH " CHANNEL " 0"); /* it asks, and learns of it */
    EXPECT("A granted");
    stage_skip_if_lag(100);
    assert_int_in_range(A->result_ms - ends_ms, 0, 150);
    assert_int_equal(commands(), 2);
    monitor_stop();
    let_go(A);
    EXPECT("A released OK");
}

/* The link that listens is cut off and may not subscribe again. */
static void a_link_that_hears_no_more_is_made_up_for_by_polling(void **state)
{
    struct hold *A = asleep();

    (void)state;
    redis_ok("ACL SETUSER default resetchannels &lockwire:*");
    UNTIL(peer_logged(a, "not permitted"));
    redis_ok("DEL x");
    int64_t freed_ms = now_ms();
    EXPECT("A granted");
    redis_ok("ACL SETUSER default allchannels");
    stage_skip_if_lag(1000);
    assert_int_in_range(A->result_ms - freed_ms, 0, 4000);
    let_go(A);
    EXPECT("A released OK");
}

static void assign_all_slots(struct server *server)
{
    enum { SLOTS = 16384 };
    static char numbers[SLOTS][8];
    static const char *words[SLOTS + 2] = {"CLUSTER", "ADDSLOTS"};
    redisReply *reply;

    for (int i = 0; i < SLOTS; i++) {
        snprintf(numbers[i], sizeof(numbers[i]), "%d", i);
        words[i + 2] = numbers[i];
    }
    reply = redisCommandArgv(server->admin, SLOTS + 2, words, NULL);
    assert_int_equal(reply->type, REDIS_REPLY_STATUS);
    freeReplyObject(reply);
    do {
        reply = server_command(server, "CLUSTER INFO");
    } while (!strstr(reply->str, "cluster_state:ok") && (freeReplyObject(reply), true));
    freeReplyObject(reply);
}

static void in_cluster_mode_it_says_so_once_and_polls(void **state)
{
    struct server server;
    char args[64];

    (void)state;
    if (redis_info("redis_version") < 7)
        skip(); /* it has no sharded channels, nor a port of the bus to choose */
    snprintf(args, sizeof(args), "--cluster-enabled yes --cluster-port %d",
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
    let_go(A);
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
        STAGE_TEST(who_joins_and_does_not_renew_has_its_lease),
        STAGE_TEST(who_joins_with_less_shortens_nothing),
        STAGE_TEST(who_comes_while_the_first_one_asks_has_its_lease),
        STAGE_TEST(those_who_wait_ask_for_the_longest_lease),
        STAGE_TEST(each_grant_costs_two_commands_in_order_of_arrival),
        STAGE_TEST(a_try_does_not_overtake_who_waits),
        STAGE_TEST(a_try_is_told_what_is_left_of_the_lease),
        STAGE_TEST(who_leaves_hands_the_asking_on),
        STAGE_TEST(who_gives_up_hands_the_asking_on),
        STAGE_TEST(who_leaves_while_asking_hands_the_asking_on),
        STAGE_TEST(a_try_that_joins_a_sleeper_has_it_sleep_on),
        STAGE_TEST(a_sibling_whose_release_never_comes_is_outlived),
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

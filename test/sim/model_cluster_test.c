/* SPDX-License-Identifier: MIT
 *
 * Tests two model servers as nodes of a cluster. The expected replies are those of two
 * real nodes of Redis 7.0.15, word for word, of which the first gives the slot of `c` to
 * the second.
 *
 * Each test has two nodes with half of the slots each, and three keys.
 */
#include "model_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define SLOT 7365 /* of c */

static const struct model_place places[] = {{"127.0.0.1", 7001}, {"127.0.0.1", 7002}};
static const unsigned char masters[] = {0, 1};
static struct model_map maps[2];
static struct model_server *servers[2];
static struct model_conn *conns[2];

static int64_t no_time(void *arg)
{
    (void)arg;
    return 1795000000000000;
}

static void expect(struct model_conn *conn, const char *line, const char *expected)
{
    struct bytes output;
    char text[1024] = "";

    model_conn_feed(conn, line, strlen(line));
    model_conn_feed(conn, "\r\n", 2);
    output = model_conn_output(conn);
    assert_true(output.len < sizeof(text));
    if (output.len) {
        memcpy(text, output.data, output.len);
    }
    assert_string_equal(text, expected);
    model_conn_consume(conn, output.len);
}

static int start(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        maps[i] = (struct model_map){.places = places,
                                     .masters = masters,
                                     .self = i,
                                     .count = 2,
                                     .self_host = places[i].host};
        for (unsigned slot = 0; slot < MODEL_SLOTS; slot++) {
            maps[i].owners[slot] = slot > 8191;
        }
        memset(maps[i].gives_to, MODEL_NOBODY, sizeof(maps[i].gives_to));
        memset(maps[i].gets_from, MODEL_NOBODY, sizeof(maps[i].gets_from));
        servers[i] = model_server_new(no_time, NULL);
        model_server_be_node(servers[i], &maps[i]);
        conns[i] = model_server_connect(servers[i]);
    }
    expect(conns[0], "SET c 1", "+OK\r\n");
    expect(conns[0], "SET {c}q 1", "+OK\r\n");
    expect(conns[0], "SET {c}n 1", "+OK\r\n");
    return 0;
}

static int clear(void **state)
{
    (void)state;
    model_server_free(servers[0]);
    model_server_free(servers[1]);
    return 0;
}

static void begin_to_move(void)
{
    maps[1].gets_from[SLOT] = 0;
    maps[0].gives_to[SLOT] = 1;
}

static void a_key_of_another_node_is_sent_there(void **state)
{
    (void)state;
    expect(conns[1], "GET c", "-MOVED 7365 127.0.0.1:7001\r\n");
    expect(conns[1], "GET {c}x", "-MOVED 7365 127.0.0.1:7001\r\n");
    expect(conns[0], "EVALSHA abc 1 a", "-MOVED 15495 127.0.0.1:7002\r\n");
    expect(conns[0], "MGET c a",
           "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
    expect(conns[0], "SELECT 1", "-ERR SELECT is not allowed in cluster mode\r\n");
    expect(conns[0], "CLUSTER KEYSLOT c", ":7365\r\n");
    expect(conns[1], "CLUSTER MYID",
           "$40\r\n0000000000000000000000000000000000000002\r\n");
    expect(conns[1], "CLUSTER INFO",
           "$43\r\ncluster_state:ok\r\ncluster_current_epoch:0\r\n\r\n");
}

static void of_a_slot_that_moves_one_has_the_keys_that_are_there(void **state)
{
    (void)state;
    begin_to_move();
    expect(conns[0], "GET c", "$1\r\n1\r\n");
    expect(conns[0], "GET {c}x", "-ASK 7365 127.0.0.1:7002\r\n");
    expect(conns[0], "MGET c {c}x",
           "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
    expect(conns[0], "MGET {c}x {c}y", "-ASK 7365 127.0.0.1:7002\r\n");
    expect(conns[1], "GET {c}x", "-MOVED 7365 127.0.0.1:7001\r\n");
}

static void asking_lasts_for_one_command(void **state)
{
    (void)state;
    begin_to_move();
    expect(conns[1], "ASKING", "+OK\r\n");
    expect(conns[1], "GET {c}x", "$-1\r\n");
    expect(conns[1], "GET {c}x", "-MOVED 7365 127.0.0.1:7001\r\n");
    expect(conns[1], "ASKING", "+OK\r\n");
    expect(conns[1], "EVALSHA abc 1 {c}x",
           "-NOSCRIPT No matching script. Please use EVAL.\r\n");
    expect(conns[1], "EVALSHA abc 1 {c}x", "-MOVED 7365 127.0.0.1:7001\r\n");
    expect(conns[1], "ASKING", "+OK\r\n");
    expect(conns[1], "MGET {c}x {c}y",
           "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
    expect(conns[1], "ASKING", "+OK\r\n");
    expect(conns[1], "MGET {c}x {c}x", "*2\r\n$-1\r\n$-1\r\n");
}

/* Feeds EVAL with the script, the number of keys, and three keys. */
static void feed_script(const char *script, const char *count)
{
    char text[1024];

    (void)snprintf(text, sizeof(text),
                   "*6\r\n$4\r\nEVAL\r\n$%zu\r\n%s\r\n$1\r\n%s\r\n$1\r\nc\r\n"
                   "$4\r\n{c}q\r\n$4\r\n{c}n\r\n",
                   strlen(script), script, count);
    model_conn_feed(conns[0], text, strlen(text));
}

static void expect_not_local(const char *script, const char *count)
{
    static const char begin[] =
        "-ERR Script attempted to access a non local key in a cluster node";
    struct bytes output;

    feed_script(script, count);
    output = model_conn_output(conns[0]);
    assert_true(output.len > sizeof(begin));
    assert_memory_equal(output.data, begin, sizeof(begin) - 1);
    model_conn_consume(conns[0], output.len);
}

/* A script cannot recreate a key that it has deleted. */
static void a_script_has_what_is_there_at_each_command(void **state)
{
    (void)state;
    begin_to_move();
    expect_not_local("return redis.call('GET','a')", "3");
    expect_not_local("return redis.call('GET','a')", "0");
    expect_not_local("return redis.call('GET','{c}x')", "2");
    expect_not_local("redis.call('DEL',KEYS[1]) redis.call('INCR',KEYS[3]) "
                     "return redis.call('SET',KEYS[1],'2')",
                     "3");
    expect(conns[0], "GET {c}n", "$1\r\n2\r\n");
    expect(conns[0], "GET c", "-ASK 7365 127.0.0.1:7002\r\n");
}

static void channels_of_a_slot_go_when_it_goes(void **state)
{
    (void)state;
    begin_to_move();
    expect(conns[1], "SSUBSCRIBE {c}ch", "-MOVED 7365 127.0.0.1:7001\r\n");
    expect(conns[0], "SSUBSCRIBE {c}ch",
           "*3\r\n$10\r\nssubscribe\r\n$5\r\n{c}ch\r\n:1\r\n");
    model_server_end_channels(servers[0]);
    expect(conns[0], "PING", "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    maps[0].owners[SLOT] = 1;
    model_server_end_channels(servers[0]);
    expect(conns[0], "PING",
           "*3\r\n$12\r\nsunsubscribe\r\n$5\r\n{c}ch\r\n:0\r\n+PONG\r\n");
}

static void scripts_tell_and_count_who_listens_here(void **state)
{
    struct model_conn *listener = model_server_connect(servers[0]);

    (void)state;
    expect(listener, "SSUBSCRIBE {c}ch",
           "*3\r\n$10\r\nssubscribe\r\n$5\r\n{c}ch\r\n:1\r\n");
    feed_script("return redis.call('SPUBLISH','{c}ch','x')", "3");
    expect(conns[0], "PING", ":1\r\n+PONG\r\n");
    expect_not_local("return redis.call('SPUBLISH','{a}ch','x')", "3");
    feed_script("return redis.call('PUBSUB','SHARDNUMSUB','{c}ch','{a}ch')", "3");
    expect(conns[0], "PING", "*4\r\n$5\r\n{c}ch\r\n:1\r\n$5\r\n{a}ch\r\n:0\r\n+PONG\r\n");
    expect(listener, "PING",
           "*3\r\n$8\r\nsmessage\r\n$5\r\n{c}ch\r\n$1\r\nx\r\n"
           "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
}

static void a_cluster_that_is_down_does_nothing_with_keys(void **state)
{
    (void)state;
    maps[0].down = true;
    expect(conns[0], "GET c", "-CLUSTERDOWN The cluster is down\r\n");
    expect(conns[0], "PING", "+PONG\r\n");
    maps[0].down = false;
    maps[0].owners[SLOT] = MODEL_NOBODY;
    expect(conns[0], "GET c", "-CLUSTERDOWN Hash slot not served\r\n");
}

static void keys_go_with_what_they_have_left(void **state)
{
    (void)state;
    expect(conns[0], "PEXPIRE c 500", ":1\r\n");
    model_server_step_clock(servers[1], 5000000);
    assert_true(model_server_migrate(servers[0], servers[1], bytes_of("c")));
    maps[0].owners[SLOT] = maps[1].owners[SLOT] = 1;
    expect(conns[1], "PTTL c", ":500\r\n");
    maps[0].owners[SLOT] = 0;
    expect(conns[0], "GET c", "$-1\r\n");
    expect(conns[0], "SET c 2", "+OK\r\n");
    assert_false(model_server_migrate(servers[0], servers[1], bytes_of("c")));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, start, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_key_of_another_node_is_sent_there),
        TEST(of_a_slot_that_moves_one_has_the_keys_that_are_there),
        TEST(asking_lasts_for_one_command),
        TEST(a_script_has_what_is_there_at_each_command),
        TEST(channels_of_a_slot_go_when_it_goes),
        TEST(scripts_tell_and_count_who_listens_here),
        TEST(a_cluster_that_is_down_does_nothing_with_keys),
        TEST(keys_go_with_what_they_have_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

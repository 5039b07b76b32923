/* SPDX-License-Identifier: MIT
 *
 * Tests what difftest cannot compare with a real server: the model server's own
 * interface, restarts and the writes they lose, replication, faults that a real server
 * does not have on demand, and its sockets.
 *
 * Each test has a server of its own, whose clock is the variable `now_us`.
 */
#include "transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static int64_t now_us;
static int notified;

static int64_t test_clock(void *arg)
{
    (void)arg;
    return now_us;
}

static void count_notice(struct model_conn *conn, void *arg)
{
    (void)conn;
    (void)arg;
    notified++;
}

static int start(void **state)
{
    now_us = 1795000000000000;
    notified = 0;
    *state = model_server_new(test_clock, NULL);
    model_server_on_output(*state, count_notice, NULL);
    return 0;
}

static int clear(void **state)
{
    model_server_free(*state);
    return 0;
}

static void expect_output(struct model_conn *conn, const char *expected)
{
    struct bytes output = model_conn_output(conn);
    char text[1024];

    assert_true(output.len < sizeof(text));
    if (output.len) {
        memcpy(text, output.data, output.len);
    }
    text[output.len] = '\0';
    assert_string_equal(text, expected);
    model_conn_consume(conn, output.len);
}

static void expect(struct model_conn *conn, const char *line, const char *expected)
{
    model_conn_feed(conn, line, strlen(line));
    model_conn_feed(conn, "\r\n", 2);
    expect_output(conn, expected);
}

static void a_request_may_come_in_pieces_of_any_size(void **state)
{
    static const char requests[] = "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n"
                                   "*2\r\n$3\r\nGET\r\n$1\r\nk\r\nPING\r\n";
    size_t len = sizeof(requests) - 1;

    for (size_t first = 0; first <= len; first++) {
        for (size_t second = first; second <= len; second++) {
            struct model_conn *conn = model_server_connect(*state);
            model_conn_feed(conn, requests, first);
            model_conn_feed(conn, requests + first, second - first);
            model_conn_feed(conn, requests + second, len - second);
            expect_output(conn, "+OK\r\n$4\r\na\r\nb\r\n+PONG\r\n");
            model_conn_free(conn);
        }
    }
}

static void a_protocol_error_is_told_and_closes(void **state)
{
    struct model_conn *conn = model_server_connect(*state);

    expect(conn, "*1\r\n$x", "-ERR Protocol error: invalid bulk length\r\n");
    assert_true(model_conn_closing(conn));
    expect(conn, "PING", "");
}

static void a_key_lives_through_its_last_millisecond(void **state)
{
    struct model_conn *conn = model_server_connect(*state);

    expect(conn, "SET k v PX 100", "+OK\r\n");
    now_us += 100 * 1000;
    expect(conn, "PTTL k", ":0\r\n");
    now_us += 1000;
    expect(conn, "PTTL k", ":-2\r\n");
}

static void a_clock_step_moves_ttls_but_not_true_time(void **state)
{
    struct model_conn *conn = model_server_connect(*state);

    expect(conn, "SET k v PX 30000", "+OK\r\n");
    model_server_step_clock(*state, -60000000);
    expect(conn, "PTTL k", ":90000\r\n");
    assert_int_equal(model_server_time_us(*state), now_us - 60000000);
    model_server_step_clock(*state, 120000000);
    expect(conn, "GET k", "$-1\r\n");
}

static void a_restart_closes_and_forgets_scripts_and_ids(void **state)
{
    struct model_conn *conn = model_server_connect(*state);
    struct model_conn *listener = model_server_connect(*state);

    assert_int_equal(model_conn_id(listener), 2);
    expect(conn, "SET k v", "+OK\r\n");
    expect(conn, "SCRIPT LOAD return",
           "$40\r\n63143b6f8007b98c53ca2149822777b3566f9241\r\n");
    expect(listener, "SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    notified = 0;
    model_server_restart(*state, 0);
    assert_int_equal(notified, 2);
    assert_true(model_conn_closing(conn));
    assert_true(model_conn_closing(listener));
    model_conn_free(conn);
    conn = model_server_connect(*state);
    assert_int_equal(model_conn_id(conn), 1);
    expect(conn, "GET k", "$1\r\nv\r\n");
    expect(conn, "PUBLISH c m", ":0\r\n");
    expect(conn, "EVALSHA 63143b6f8007b98c53ca2149822777b3566f9241 0",
           "-NOSCRIPT No matching script. Please use EVAL.\r\n");
}

static void a_restart_may_lose_the_last_writes_or_all(void **state)
{
    struct model_conn *conn = model_server_connect(*state);

    model_server_remember(*state, 10000000);
    expect(conn, "HSET kept a 1", ":1\r\n");
    expect(conn, "SET gone 1", "+OK\r\n");
    now_us += 2000;
    expect(conn, "HSET kept a 2 b 3", ":1\r\n");
    expect(conn, "DEL gone", ":1\r\n");
    expect(conn, "ZADD new 1 m", ":1\r\n");
    now_us += 500;
    model_server_restart(*state, 1000);
    model_conn_free(conn);
    conn = model_server_connect(*state);
    expect(conn, "HGETALL kept", "*2\r\n$1\r\na\r\n$1\r\n1\r\n");
    expect(conn, "GET gone", "$1\r\n1\r\n");
    expect(conn, "EXISTS new", ":0\r\n");
    model_server_restart(*state, -1);
    model_conn_free(conn);
    conn = model_server_connect(*state);
    expect(conn, "KEYS *", "*0\r\n");
}

static void expect_after_loss(struct model_server *server, const char *line,
                              const char *expected)
{
    model_server_restart(server, 5000000);
    expect(model_server_connect(server), line, expected);
}

/* A server without its data, or with a copy of a master's, has nothing older to go back
 * to. */
static void a_restart_brings_back_nothing_from_before_the_data_was_replaced(void **state)
{
    struct model_server *master = model_server_new(test_clock, NULL);

    model_server_remember(*state, 10000000);
    expect(model_server_connect(*state), "SET k 1", "+OK\r\n");
    now_us += 1000;
    model_server_restart(*state, -1);
    expect_after_loss(*state, "GET k", "$-1\r\n");
    expect(model_server_connect(*state), "SET k 2", "+OK\r\n");
    expect(model_server_connect(master), "SET k 3", "+OK\r\n");
    now_us += 1000;
    model_server_replicate(*state, master);
    model_server_promote(*state);
    expect_after_loss(*state, "GET k", "$1\r\n3\r\n");
    model_server_free(master);
}

static void a_killed_client_hears_nothing_more(void **state)
{
    struct model_conn *conn = model_server_connect(*state);
    struct model_conn *other = model_server_connect(*state);

    expect(other, "SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    expect(conn, "PUBLISH c m", ":1\r\n");
    expect(conn, "CLIENT KILL ID 2", ":1\r\n");
    assert_true(model_conn_closing(other));
    expect_output(other, "");
    expect(conn, "PUBLISH c m", ":0\r\n");
    expect(conn, "CLIENT KILL ID 2", ":0\r\n");
    expect(conn, "CLIENT KILL ID 1", ":1\r\n");
    assert_true(model_conn_closing(conn));
}

static void a_half_open_link_counts_until_it_is_freed(void **state)
{
    struct model_conn *conn = model_server_connect(*state);
    struct model_conn *half_open = model_server_connect(*state);

    expect(half_open, "SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    expect(conn, "PUBLISH c m", ":1\r\n");
    model_conn_free(half_open);
    expect(conn, "PUBLISH c m", ":0\r\n");
}

static void new_output_is_told_once_until_it_is_taken(void **state)
{
    struct model_conn *conn = model_server_connect(*state);
    struct model_conn *listener = model_server_connect(*state);

    expect(listener, "SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    notified = 0;
    model_conn_feed(conn, "PUBLISH c 1\r\nPUBLISH c 2\r\n", 26);
    assert_int_equal(notified, 2); /* one for the listener, one for the publisher */
    expect_output(listener, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n1\r\n"
                            "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n2\r\n");
    model_conn_feed(conn, "PUBLISH c 3\r\n", 13);
    assert_int_equal(notified, 3);
}

static void faults_refuse_in_the_servers_words(void **state)
{
    struct model_faults *faults = model_server_faults(*state);
    struct model_conn *conn = model_server_connect(*state);

    faults->loading = true;
    expect(conn, "GET k", "-LOADING Redis is loading the dataset in memory\r\n");
    expect(conn, "SELECT 1", "+OK\r\n");
    faults->loading = false;
    faults->misconf = true;
    model_conn_feed(conn, "DEL k\r\n", 7);
    assert_memory_equal(model_conn_output(conn).data,
                        "-MISCONF Redis is configured to save", 36);
    model_conn_consume(conn, model_conn_output(conn).len);
    faults->misconf = false;
    faults->error_once = "TRYAGAIN for a test";
    expect(conn, "PING", "-TRYAGAIN for a test\r\n");
    expect(conn, "PING", "+PONG\r\n");
    faults->max_clients = 1;
    struct model_conn *refused = model_server_connect(*state);
    expect_output(refused, "-ERR max number of clients reached\r\n");
    assert_true(model_conn_closing(refused));
}

static void the_checker_asks_past_all_faults(void **state)
{
    struct model_faults *faults = model_server_faults(*state);
    struct buffer answer = {0};

    faults->loading = faults->oom = faults->busy = true;
    faults->password = "secret";
    model_server_ask_words(*state, "set k 1 px 500", &answer);
    model_server_ask_words(*state, "incr k", &answer);
    assert_int_equal(answer.len, 9);
    assert_memory_equal(answer.data, "+OK\r\n:2\r\n", 9);
    buffer_free(&answer);
}

static void databases_are_apart(void **state)
{
    struct model_conn *conn = model_server_connect(*state);

    expect(conn, "SET k 0", "+OK\r\n");
    expect(conn, "SELECT 3", "+OK\r\n");
    expect(conn, "GET k", "$-1\r\n");
    expect(conn, "SET k 3", "+OK\r\n");
    expect(conn, "SELECT 0", "+OK\r\n");
    expect(conn, "GET k", "$1\r\n0\r\n");
}

static struct model_server *begin_replica(struct model_server *master)
{
    struct model_server *replica = model_server_new(test_clock, NULL);

    model_server_replicate(replica, master);
    return replica;
}

static void a_replica_learns_what_was_done_when_it_arrives(void **state)
{
    struct model_conn *conn = model_server_connect(*state), *other;
    struct model_server *replica;

    expect(conn, "SET before 1", "+OK\r\n");
    replica = begin_replica(*state);
    other = model_server_connect(replica);
    expect(other, "GET before", "$1\r\n1\r\n");
    expect(conn, "HSET h a 1 b 2", ":2\r\n");
    expect(conn,
           "EVAL redis.call('hset','h','a','3')redis.call('zadd','z',7,'m')return{} 0",
           "*0\r\n");
    expect(conn, "DEL before", ":1\r\n");
    assert_int_equal(model_server_oldest_step_us(replica), now_us);
    expect(other, "EXISTS h z before", ":1\r\n");
    assert_true(model_server_deliver(replica));
    expect(other, "HGET h a", "$1\r\n1\r\n");
    assert_true(model_server_deliver(replica));
    expect(other, "HGET h a", "$1\r\n3\r\n");
    expect(other, "ZSCORE z m", "$1\r\n7\r\n");
    assert_true(model_server_deliver(replica));
    expect(other, "EXISTS before", ":0\r\n");
    assert_false(model_server_deliver(replica));
    model_server_free(replica);
}

static void each_says_its_role(void **state)
{
    struct model_conn *conn = model_server_connect(*state), *other;
    struct model_server *replica = begin_replica(*state);

    other = model_server_connect(replica);
    model_server_set_place(*state, &(struct model_place){"10.0.0.1", 6379});
    model_server_set_place(replica, &(struct model_place){"10.0.0.2", 6380});
    expect(conn, "ROLE",
           "*3\r\n$6\r\nmaster\r\n:0\r\n*1\r\n"
           "*3\r\n$8\r\n10.0.0.2\r\n$4\r\n6380\r\n$1\r\n0\r\n");
    expect(other, "ROLE",
           "*5\r\n$5\r\nslave\r\n$8\r\n10.0.0.1\r\n:6379\r\n$9\r\nconnected\r\n:0\r\n");
    model_server_promote(replica);
    expect(other, "ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
    model_server_free(replica);
}

/* Returns true if the server reports this line in INFO. */
static bool reports(struct model_server *server, const char *line)
{
    struct buffer info = {0};
    bool does;

    model_server_ask_words(server, "INFO", &info);
    buffer_append(&info, "", 1);
    does = strstr(info.data, line) != NULL;
    buffer_free(&info);
    return does;
}

/* The former replication id and its end are changed by a promotion, and by a restart of a
 * master that has a replica. */
static void a_promotion_is_seen_in_the_replication_ids(void **state)
{
    static const char none[] =
        "\r\nmaster_replid2:0000000000000000000000000000000000000000"
        "\r\nsecond_repl_offset:-1\r\n";
    struct model_conn *conn = model_server_connect(*state);
    struct model_server *replica = begin_replica(*state);

    assert_true(reports(*state, none));
    assert_true(reports(replica, none));
    expect(conn, "SET k v", "+OK\r\n");
    expect(conn, "SET k w", "+OK\r\n");
    assert_true(model_server_deliver(replica));
    model_server_promote(replica);
    assert_true(reports(replica, "\r\nsecond_repl_offset:2\r\n"));
    assert_true(reports(*state, none));
    model_server_replicate(*state, replica);
    assert_true(reports(*state, none));
    model_server_promote(*state);
    assert_true(reports(*state, "\r\nsecond_repl_offset:2\r\n"));
    model_server_restart(*state, 1);
    assert_true(reports(*state, none));
    model_server_free(replica);
}

static void a_server_reports_for_how_long_it_runs(void **state)
{
    model_server_set_uptime(*state, 0);
    assert_true(reports(*state, "\r\nuptime_in_seconds:0\r\n"));
    now_us += 5000000;
    assert_true(reports(*state, "\r\nuptime_in_seconds:5\r\n"));
    model_server_restart(*state, 0);
    assert_true(reports(*state, "\r\nuptime_in_seconds:0\r\n"));
    model_server_set_uptime(*state, 60000000);
    assert_true(reports(*state, "\r\nuptime_in_seconds:60\r\n"));
}

static void a_sentinel_says_what_its_view_is(void **state)
{
    static const struct model_other others[] = {{{"10.0.1.2", 26379}, "b5"}};
    const struct model_view view = {.service = "locks",
                                    .master = {{"10.0.0.1", 6379}, "", now_us - 8000000},
                                    .replica = {{"10.0.0.2", 6379}, "cd", now_us - 30000},
                                    .config_epoch = 7,
                                    .flags = "master,s_down",
                                    .id = "a4",
                                    .others = others,
                                    .other_count = 1};
    struct model_conn *conn = model_server_connect(*state);

    expect(conn, "SENTINEL MASTER locks",
           "-ERR unknown command 'SENTINEL', with args beginning with: 'MASTER' "
           "'locks' \r\n");
    model_server_be_sentinel(*state, &view);
    expect(conn, "GET a",
           "-ERR unknown command 'GET', with args beginning with: 'a' \r\n");
    expect(conn, "ROLE", "*2\r\n$8\r\nsentinel\r\n*1\r\n$5\r\nlocks\r\n");
    expect(conn, "SENTINEL MASTER other", "-ERR No such master with that name\r\n");
    expect(
        conn, "SENTINEL MASTER locks",
        "*14\r\n$4\r\nname\r\n$5\r\nlocks\r\n$2\r\nip\r\n$8\r\n10.0.0.1\r\n$4\r\nport\r\n"
        "$4\r\n6379\r\n$5\r\nflags\r\n$13\r\nmaster,s_down\r\n$5\r\nrunid\r\n$0\r\n\r\n"
        "$12\r\ninfo-refresh\r\n$4\r\n8000\r\n$12\r\nconfig-epoch\r\n$1\r\n7\r\n");
    expect(conn, "SENTINEL REPLICAS locks",
           "*1\r\n*12\r\n$4\r\nname\r\n$7\r\nreplica\r\n$2\r\nip\r\n$8\r\n10.0.0.2\r\n"
           "$4\r\nport\r\n$4\r\n6379\r\n$5\r\nflags\r\n$5\r\nslave\r\n"
           "$5\r\nrunid\r\n$2\r\ncd\r\n$12\r\ninfo-refresh\r\n$2\r\n30\r\n");
    expect(conn, "SENTINEL SENTINELS locks",
           "*1\r\n*10\r\n$4\r\nname\r\n$2\r\nb5\r\n$2\r\nip\r\n$8\r\n10.0.1.2\r\n"
           "$4\r\nport\r\n$5\r\n26379\r\n$5\r\nflags\r\n$8\r\nsentinel\r\n"
           "$5\r\nrunid\r\n$2\r\nb5\r\n");
    expect(conn, "SENTINEL MYID", "$2\r\na4\r\n");
    expect(conn, "SUBSCRIBE +switch-master",
           "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n");
    model_server_publish(*state, "+switch-master", "x");
    assert_int_equal(model_conn_output(conn).len, 45);
}

static void a_replica_refuses_writes_and_permits_messages(void **state)
{
    struct model_server *replica = begin_replica(*state);
    struct model_conn *conn = model_server_connect(replica);
    struct model_conn *listener = model_server_connect(replica);
    struct model_conn *elsewhere = model_server_connect(*state);

    expect(listener, "SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    expect(elsewhere, "SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    expect(conn, "SET k v", "-READONLY You can't write against a read only replica.\r\n");
    expect(conn, "GET k", "$-1\r\n");
    expect(conn, "PUBSUB NUMSUB c", "*2\r\n$1\r\nc\r\n:1\r\n");
    expect(conn, "PUBLISH c m", ":1\r\n");
    expect_output(listener, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n");
    expect_output(elsewhere, "");
    model_server_free(replica);
}

static void a_masters_message_is_passed_on_and_not_counted(void **state)
{
    struct model_server *replica = begin_replica(*state);
    struct model_conn *conn = model_server_connect(*state);
    struct model_conn *listener = model_server_connect(replica);

    expect(listener, "SUBSCRIBE c", "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n");
    expect(conn, "PUBSUB NUMSUB c", "*2\r\n$1\r\nc\r\n:0\r\n");
    expect(conn, "PUBLISH c 1", ":0\r\n");
    expect(conn, "EVAL return(redis.call('publish','c','2')) 0", ":0\r\n");
    expect_output(listener, "");
    assert_true(model_server_deliver(replica));
    assert_true(model_server_deliver(replica));
    expect_output(listener, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n1\r\n"
                            "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n2\r\n");
    model_server_free(replica);
}

static void roles_change_and_connections_stay(void **state)
{
    struct model_server *old = *state, *replica = begin_replica(old);
    struct model_conn *conn = model_server_connect(old);
    struct model_conn *other = model_server_connect(replica);

    model_server_pause_writes(old, true);
    expect(conn, "PING", "+PONG\r\n");
    expect(conn, "SET k v", "");
    expect(conn, "PING", "");
    model_server_replicate(old, replica);
    model_server_pause_writes(old, false);
    expect_output(conn, "-READONLY You can't write against a read only replica.\r\n"
                        "+PONG\r\n");
    expect(other, "SET k v", "+OK\r\n");
    assert_true(model_server_deliver(old));
    expect(conn, "GET k", "$1\r\nv\r\n");
    model_server_promote(old);
    expect(other, "SET k w", "+OK\r\n");
    assert_false(model_server_deliver(old));
    expect(conn, "GET k", "$1\r\nv\r\n");
    model_server_free(replica);
}

static void a_key_ends_by_the_replicas_clock_or_after_what_is_left(void **state)
{
    struct model_server *replica = begin_replica(*state);
    struct model_conn *conn = model_server_connect(*state);
    struct model_conn *other = model_server_connect(replica);

    model_server_step_clock(replica, 2000000);
    expect(conn, "SET k v PX 5000", "+OK\r\n");
    assert_true(model_server_deliver(replica));
    expect(other, "PTTL k", ":3000\r\n");
    model_server_takes_what_is_left(replica, true);
    expect(conn, "SET k v PX 5000", "+OK\r\n");
    now_us += 50000;
    assert_true(model_server_deliver(replica));
    expect(other, "PTTL k", ":5000\r\n");
    model_server_free(replica);
}

static void sockets_pass_everything_on(void **state)
{
    struct transport *transport = transport_new(*state);
    char answer[32] = "";
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    transport_adopt(transport, ends[0]);
    assert_int_equal(write(ends[1], "PING\r\nQUIT\r\n", 12), 12);
    transport_wait(transport, 10000);
    while (transport_pump(transport)) {
        ;
    }
    assert_int_equal(read(ends[1], answer, sizeof(answer)), 12);
    assert_string_equal(answer, "+PONG\r\n+OK\r\n");
    assert_int_equal(read(ends[1], answer, sizeof(answer)), 0);
    close(ends[1]);
    transport_free(transport);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_may_come_in_pieces_of_any_size),
        TEST(a_protocol_error_is_told_and_closes),
        TEST(a_key_lives_through_its_last_millisecond),
        TEST(a_clock_step_moves_ttls_but_not_true_time),
        TEST(a_restart_closes_and_forgets_scripts_and_ids),
        TEST(a_restart_may_lose_the_last_writes_or_all),
        TEST(a_restart_brings_back_nothing_from_before_the_data_was_replaced),
        TEST(a_killed_client_hears_nothing_more),
        TEST(a_half_open_link_counts_until_it_is_freed),
        TEST(new_output_is_told_once_until_it_is_taken),
        TEST(faults_refuse_in_the_servers_words),
        TEST(the_checker_asks_past_all_faults),
        TEST(databases_are_apart),
        TEST(a_replica_learns_what_was_done_when_it_arrives),
        TEST(each_says_its_role),
        TEST(a_promotion_is_seen_in_the_replication_ids),
        TEST(a_server_reports_for_how_long_it_runs),
        TEST(a_sentinel_says_what_its_view_is),
        TEST(a_replica_refuses_writes_and_permits_messages),
        TEST(a_masters_message_is_passed_on_and_not_counted),
        TEST(roles_change_and_connections_stay),
        TEST(a_key_ends_by_the_replicas_clock_or_after_what_is_left),
        TEST(sockets_pass_everything_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

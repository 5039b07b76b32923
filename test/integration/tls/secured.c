/* SPDX-License-Identifier: MIT */
/* A client at rediss://: the library's promises hold as they do without TLS, by whichever
 * certificate the server is trusted, and however the bytes arrive. Refused connections
 * are tested in refused.c.
 *
 * Usual course: a link comes up; a lock is handed over, held, lost. */
#include "child.h"
#include "tls/scene.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* ---- the life of a lock ---- */

static void a_lock_is_handed_over_from_client_to_client(void **state)
{
    int port = tls_listen("server", false);
    struct peer *a = tls_start("a", port, NULL), *b = tls_start("b", port, NULL);

    (void)state;
    peer_wait_ready(a);
    peer_wait_ready(b);
    struct hold *A = acquire_and_wait(a, "A", "x");
    struct hold *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    assert_held_by_redis(A);
    release_hold(A);
    EXPECT_SET("A granted; A released OK; B granted");
    assert_true(B->fence > A->fence);
    renew_hold(B, 0);
    EXPECT("B renewed OK");
    release_hold(B);
    EXPECT("B released OK");
}

static void what_is_lost_is_told(void **state)
{
    struct peer *a = tls_start("a", tls_listen("server", false), NULL);

    (void)state;
    peer_wait_ready(a);
    struct hold *A = acquire_and_wait(a, "A", "x");
    redis_ok("DEL x");
    renew_hold(A, 0);
    EXPECT("A granted; A lost ENOTHELD; A renewed ELOST");
}

static void on_changed(struct lw_watcher *watch, int status,
                       const struct lw_inspection *now, const char *why, void *arg)
{
    (void)watch, (void)why;
    *(int *)arg = status == LW_OK ? (int)now->holder_total : -1;
}

static void a_watch_is_told_of_changes(void **state)
{
    struct lw_watch_options options = LW_WATCH_OPTIONS_INIT;
    struct peer *a = tls_start("a", tls_listen("server", false), NULL);
    struct lw_watcher *watch = NULL;
    static int holders = -1;

    (void)state;
    peer_wait_ready(a);
    options.interval_ms = 5000;
    assert_int_equal(lw_watch(a->client, "x", &options, on_changed, &holders, &watch), 0);
    UNTIL(holders == 0);
    redis_ok("SET x other");
    UNTIL(holders == 1);
    redis_ok("DEL x");
    UNTIL(holders == 0);
    lw_watcher_free(watch);
}

static void on_yielded(struct lw_client *client, int status, size_t holders,
                       size_t reached, const char *why, void *arg)
{
    (void)client, (void)why;
    *(int *)arg = status == LW_OK && holders == 1 ? (int)reached : -1;
}

static void a_holder_is_asked_to_yield(void **state)
{
    int port = tls_listen("server", false), reached[] = {PENDING};
    struct peer *a = tls_start("a", port, client_of(.asked_to_yield = on_asked));

    (void)state;
    peer_wait_ready(a);
    struct hold *A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    assert_int_equal(lw_ask_to_yield(a->client, "x", on_yielded, reached), 0);
    EXPECT("A asked");
    UNTIL(reached[0] != PENDING);
    assert_int_equal(reached[0], 1);
    release_hold(A);
    EXPECT("A released OK");
}

static void both_connections_are_secured(void **state)
{
    struct relay *relay = relay_start(tls_listen("server", false));
    struct peer *a = tls_start("a", relay->port, NULL);

    (void)state;
    peer_wait_ready(a);
    assert_int_equal(relay->accepted, 2);
    works(a);
}

static void a_connection_that_is_lost_is_made_again(void **state)
{
    struct relay *relay = relay_start(tls_listen("server", false));
    struct peer *a = tls_start("a", relay->port, NULL);

    (void)state;
    peer_wait_ready(a);
    struct hold *A = acquire_and_wait(a, "A", "x");
    relay_cut(relay);
    UNTIL(a->downs >= 1 && a->up);
    peer_wait_ready(a);
    assert_held_by_redis(A);
    release_hold(A);
    EXPECT("A granted; A released OK");
}

/* Many records each way, more than fit into a socket at once. */
static void a_thousand_locks_at_once(void **state)
{
    int port = tls_listen("server", false);
    struct peer *a = tls_start("a", port, NULL);
    struct hold *held[1000];
    char name[32];

    (void)state;
    peer_wait_ready(a);
    make_narrow(port);
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        held[i] = acquire_hold(a, name, name, -1);
    }
    for (int i = 0; i < 1000; i++) {
        UNTIL(held[i]->result == LW_OK);
        release_hold(held[i]);
    }
    for (int i = 0; i < 1000; i++) {
        UNTIL(held[i]->released == LW_OK);
    }
    assert_int_equal(a->downs, 0);
    stage_clear_trace();
}

/* ---- the certificate ---- */

static void by_the_name(void **state)
{
    int port = tls_listen("server", false);

    (void)state;
    works(tls_start_at("a", "localhost", port, NULL));
}

static void by_a_folder(void **state)
{
    int port = tls_listen("server", false);

    (void)state;
    works(tls_start("a", port, client_of(.tls_ca = tls_file("folder"))));
}

static void by_another_name_than_the_url_has(void **state)
{
    int port = tls_listen("name", false);

    (void)state;
    works(tls_start("a", port, client_of(.tls_server_name = "redis.example")));
    works(tls_start("b", port, client_of(.tls_server_name = "redis.example.")));
}

static void with_a_certificate_of_the_clients(void **state)
{
    int port = tls_listen("server", true);

    (void)state;
    works(tls_start("a", port,
                    client_of(.tls_cert = tls_file("client.pem"),
                              .tls_key = tls_file("client.key"))));
}

/* ---- records in parts, and several at once ---- */

/* Byte by byte, even a handshake may take long on a busy machine. */
static const struct lw_client_options patient = {.size = sizeof(patient),
                                                 .connect_timeout_ms = 120000,
                                                 .request_timeout_ms = 120000,
                                                 .claim_ms = 60000};

static void records_split_at_every_byte(void **state)
{
    struct relay *relay = relay_start(tls_listen("server", false));

    (void)state;
    relay->chunk = 1;
    struct peer *a = tls_start("a", relay->port, &patient);
    peer_wait_ready(a);
    works(a);
    assert_int_equal(a->downs, 0);
}

static void every_mode_split_at_every_byte(void **state)
{
    static const enum lw_mode modes[] = {LW_MUTEX, LW_SHARED, LW_EXCLUSIVE, LW_REDISSON};
    struct relay *relay = relay_start(tls_listen("server", false));
    struct hold *A, *B;

    (void)state;
    relay->chunk = 1;
    struct peer *a = tls_start("a", relay->port, &patient);
    struct peer *b = tls_start("b", relay->port, &patient);
    peer_wait_ready(a);
    peer_wait_ready(b);
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        uint32_t permits = modes[i] == LW_SHARED ? 1 : 0;
        A = acquire_hold_with(a, "A", "x", asking(.mode = modes[i], .permits = permits));
        EXPECT("A granted");
        B = acquire_hold_with(
            b, "B", "x", asking(.mode = modes[i], .permits = permits, .wait_ms = -1));
        renew_hold(A, 0);
        EXPECT("A renewed OK");
        release_hold(A);
        EXPECT_SET("A released OK; B granted");
        release_hold(B);
        EXPECT("B released OK");
    }
    assert_int_equal(a->downs + b->downs, 0);
}

static void records_split_at_odd_places(void **state)
{
    struct relay *relay = relay_start(tls_listen("server", false));
    struct hold *held[100];
    char name[32];

    (void)state;
    relay->chunk = 97;
    struct peer *a = tls_start("a", relay->port, &patient);
    peer_wait_ready(a);
    for (int i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        held[i] = acquire_hold(a, name, name, -1);
    }
    for (int i = 0; i < 100; i++) {
        UNTIL(held[i]->result == LW_OK);
    }
    assert_int_equal(a->downs, 0);
    stage_clear_trace();
}

/* Renews "x" and "y"; the replies are two records, which wait in the relay. */
static void extend_unheard(struct relay *relay, struct hold *A, struct hold *B)
{
    relay_hold(relay, true);
    renew_hold(A, 90000);
    UNTIL(redis_int("PTTL x") > 60000);
    renew_hold(B, 90000);
    UNTIL(redis_int("PTTL y") > 60000);
    (void)redis_int("PTTL y"); /* both replies have been written by now */
}

/* OpenSSL reads both from the socket at once, so that no event comes for the second. */
static void records_that_come_together(void **state)
{
    struct relay *relay = relay_start(tls_listen("server", false));
    struct peer *a = tls_start("a", relay->port, client_of(.request_timeout_ms = 120000));

    (void)state;
    peer_wait_ready(a);
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_and_wait(a, "B", "y");
    renew_hold(A, 0);
    EXPECT("A granted; B granted; A renewed OK"); /* the server knows the script */
    stage_run_for(50); /* what the client sends after a grant is answered by then */
    extend_unheard(relay, A, B);
    long given = relay->given;
    relay_hold(relay, false);
    EXPECT("A renewed OK; B renewed OK");
    assert_int_equal(relay->given, given + 1); /* another write would cause an event */
}

static void extend_again(struct hold *hold, enum moment moment)
{
    if (moment == AT_RENEWED) {
        hold->then = NULL;
        renew_hold(hold, 90000);
    }
}

/* The client's next requests go out in one record. With one record for each, the server
 * would receive them one by one, and also answer so. */
static void records_that_come_together_are_answered_by_one(void **state)
{
    static const char *const names[] = {"w", "x", "y", "z"};
    struct relay *relay = relay_start(tls_listen("server", false));
    struct peer *a = tls_start("a", relay->port, client_of(.request_timeout_ms = 120000));
    struct hold *held[4];
    int records;

    (void)state;
    peer_wait_ready(a);
    for (int i = 0; i < 4; i++) {
        held[i] = acquire_and_wait(a, names[i], names[i]);
        renew_hold(held[i], 0);
        UNTIL(held[i]->renewals == 0); /* the server knows the script */
    }
    stage_run_for(50); /* what the client sends after a grant is answered by then */
    relay_hold(relay, true);
    for (int i = 0; i < 4; i++) {
        held[i]->then = extend_again;
        renew_hold(held[i], 90000);
        UNTIL(redis_int("PTTL %s", names[i]) > 60000);
    }
    (void)redis_int("PTTL z"); /* all replies have been written by now */
    records = relay->records;
    relay_hold(relay, false);
    for (int i = 0; i < 4; i++) {
        UNTIL(held[i]->then == NULL && held[i]->renewals == 0);
    }
    assert_int_equal(relay->records, records + 1);
    stage_clear_trace();
}

/* The second record has arrived as well, though only in OpenSSL's buffer, when the
 * time-out of its request checks for it. */
static void records_that_come_together_to_a_loop_that_stalled(void **state)
{
    struct relay *relay = relay_start(tls_listen("server", false));
    struct peer *a = tls_start("a", relay->port, client_of(.request_timeout_ms = 2000));

    (void)state;
    peer_wait_ready(a);
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_and_wait(a, "B", "y");
    renew_hold(A, 0);
    EXPECT("A granted; B granted; A renewed OK");
    stage_run_for(50); /* what the client sends after a grant is answered by then */
    extend_unheard(relay, A, B);
    relay_hold(relay, false);
    stage_stall(2100);
    EXPECT("A renewed OK; B renewed OK");
    assert_int_equal(a->downs, 0);
}

/* In the meantime only part of a record can be read. The client must not wait for the
 * rest of it before it writes more. */
static void more_is_written_than_a_socket_takes(void **state)
{
    struct relay *relay = relay_start(tls_listen("server", false));
    struct peer *a = tls_start(
        "a", relay->port, client_of(.request_timeout_ms = 120000, .max_inflight = 50000));
    struct hold *held[2000];
    char name[32];

    (void)state;
    peer_wait_ready(a);
    struct hold *A = acquire_and_wait(a, "A", "x");
    renew_hold(A, 0);
    EXPECT("A granted; A renewed OK"); /* the server knows the script */
    stage_run_for(50); /* what the client sends after a grant is answered by then */
    relay_hold(relay, true);
    renew_hold(A, 90000);
    UNTIL(redis_int("PTTL x") > 60000);
    relay->chunk = 3;
    relay_hold(relay, false);
    relay_hold(relay, true);
    relay->chunk = 0;
    stage_run_for(50); /* the client has read them by then */
    make_narrow(relay->port);
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        held[i] = acquire_hold(a, name, name, -1);
    }
    UNTIL(redis_int("EXISTS n1999") == 1);
    relay_hold(relay, false);
    UNTIL(A->renewed == LW_OK);
    for (int i = 0; i < 2000; i++) {
        UNTIL(held[i]->result == LW_OK);
    }
    assert_int_equal(a->downs, 0);
    stage_clear_trace();
}

/* ---- the host ---- */

static void leave_an_error(evutil_socket_t fd, short what, void *arg)
{
    BIO *nothing = BIO_new_mem_buf("nothing", -1);

    (void)fd, (void)what, (void)arg;
    assert_null(PEM_read_bio_X509(nothing, NULL, NULL, NULL));
    BIO_free(nothing);
    assert_true(ERR_peek_error() != 0);
}

/* Such an error must not be taken for one of this connection. */
static void errors_that_the_host_left_in_the_queue(void **state)
{
    struct relay *relay = relay_start(tls_listen("server", false));
    struct event *all_the_time =
        event_new(stage.base, -1, EV_PERSIST, leave_an_error, NULL);

    (void)state;
    relay->chunk = 50;
    leave_an_error(-1, 0, NULL);
    event_add(all_the_time, &(struct timeval){0, 500});
    struct peer *a = tls_start("a", relay->port, NULL);
    peer_wait_ready(a);
    for (int i = 0; i < 10; i++) {
        works(a);
    }
    assert_int_equal(a->downs, 0);
    event_free(all_the_time);
    ERR_clear_error();
}

static void shut_at_once(struct relay *relay)
{
    (void)shut_writing(relay->port);
}

static void no_signal_while_the_handshake_begins(void **state)
{
    struct relay *relay = relay_start(tls_listen("server", false));

    (void)state;
    relay->on_accept = shut_at_once;
    struct peer *a = tls_start("a", relay->port, NULL);
    UNTIL(a->downs >= 3);
    assert_int_equal(ERR_peek_error(), 0);
    relay->on_accept = NULL;
    UNTIL(a->up);
    works(a);
}

static void no_signal_of_a_connection_that_is_up(void **state)
{
    int port = tls_listen("server", false);
    struct peer *a = tls_start("a", port, NULL);

    (void)state;
    peer_wait_ready(a);
    assert_true(shut_writing(port) >= 2);
    struct hold *A = acquire_hold(a, "A", "x", -1);
    UNTIL(a->downs >= 1);
    EXPECT("A granted");
    release_hold(A);
    EXPECT("A released OK");
}

static void a_forked_child_shuts_nothing_down(void **state)
{
    struct peer *a = tls_start("a", tls_listen("server", false), NULL);
    int status = 1;

    (void)state;
    peer_wait_ready(a);
    struct hold *A = acquire_and_wait(a, "A", "x");
    long long commands = peer_link_id(a, false), messages = peer_link_id(a, true);
    pid_t child = fork_for_test();
    if (child == 0) {
        lw_lock_free(A->lock);
        lw_client_free(a->client);
        end_child(0);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    assert_int_equal(status, 0);
    renew_hold(A, 0);
    EXPECT("A granted; A renewed OK");
    assert_int_equal(peer_link_id(a, false), commands);
    assert_int_equal(peer_link_id(a, true), messages);
    assert_int_equal(a->downs, 0);
}

static void with_busy_polling(void **state)
{
    struct peer *a =
        tls_start("a", tls_listen("server", false), client_of(.busy_poll_us = 100));
    struct hold *A;

    (void)state;
    works(a);
    A = acquire_and_wait(a, "A", "x");
    renew_hold(A, 0);
    release_hold(A);
    EXPECT("A granted; A renewed ECANCELED; A released OK");
    assert_int_equal(a->downs, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_lock_is_handed_over_from_client_to_client),
        STAGE_TEST(what_is_lost_is_told),
        STAGE_TEST(a_watch_is_told_of_changes),
        STAGE_TEST(a_holder_is_asked_to_yield),
        STAGE_TEST(both_connections_are_secured),
        STAGE_TEST(a_connection_that_is_lost_is_made_again),
        STAGE_TEST(a_thousand_locks_at_once),
        STAGE_TEST(with_busy_polling),
        STAGE_TEST(by_the_name),
        STAGE_TEST(by_a_folder),
        STAGE_TEST(by_another_name_than_the_url_has),
        STAGE_TEST(with_a_certificate_of_the_clients),
        STAGE_TEST(records_split_at_every_byte),
        STAGE_TEST(every_mode_split_at_every_byte),
        STAGE_TEST(records_split_at_odd_places),
        STAGE_TEST(records_that_come_together),
        STAGE_TEST(records_that_come_together_are_answered_by_one),
        STAGE_TEST(records_that_come_together_to_a_loop_that_stalled),
        STAGE_TEST(more_is_written_than_a_socket_takes),
        STAGE_TEST(errors_that_the_host_left_in_the_queue),
        STAGE_TEST(no_signal_while_the_handshake_begins),
        STAGE_TEST(no_signal_of_a_connection_that_is_up),
        STAGE_TEST(a_forked_child_shuts_nothing_down),
    };
    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/*
 * Faults of the servers of a quorum: what holders, waiters and releases notice if a
 * minority or a majority is killed, stopped, emptied or restarted. Depends on the public
 * header and test/lib.
 */
#include "scene.h"

#include <stdio.h>
#include <string.h>

static void let_minority_die(void)
{
    struct peer *a = quorum_peer("a", NULL), *b = quorum_peer("b", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 900)), *B;

    EXPECT("A granted");
    B = acquire_hold(b, "B", "x", -1);
    UNTIL(quorum_queued(1, "x") == 1 && quorum_queued(2, "x") == 1);
    server_kill(&quorum_server[0]);
    stage_expect_nothing(2500);
    assert_true(lw_lock_remaining_ms(A->lock) > 0);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_true(B->fence > A->fence);
    release_hold(B);
    EXPECT("B released OK");
    UNTIL(quorum_count("x") == 0);
}

static void a_dead_server_is_not_noticed(void **state)
{
    (void)state;
    quorum_start(3);
    let_minority_die();
}

static void two_dead_servers_of_five_are_not_noticed(void **state)
{
    (void)state;
    quorum_start(5);
    server_kill(&quorum_server[4]);
    let_minority_die();
}

/* The vote of server 1 is released before its grant is known, and counts. */
static void a_vote_that_is_not_known_yet_is_released(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    (void)quorum_take(a, "0", "w");
    UNTIL(quorum_count("w") == 3); /* so that server 1 is asked at once */
    proxy_hold(quorum_proxy[1], COMMANDS, TO_CLIENT, true);
    A = quorum_take(a, "A", "x");
    UNTIL(quorum_count("x") == 3);
    server_kill(&quorum_server[2]);
    release_hold(A);
    UNTIL(*quorum_value(0, "x") == '\0');
    proxy_hold(quorum_proxy[1], COMMANDS, TO_CLIENT, false);
    EXPECT("A released OK");
    assert_string_equal(quorum_value(1, "x"), "");
    server_restart(&quorum_server[2]); /* so that the client can close at once */
}

/* Server 2 was never asked, and server 1 cannot be asked again. */
/* The request for it is not sent again, because the acquisition does not wait. */
static void a_vote_that_fails_in_a_release_is_unknown(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", client_of(.request_timeout_ms = 300));
    UNTIL(a->up);
    (void)quorum_take(a, "0", "w");
    UNTIL(quorum_count("w") == 3); /* so that server 2 is asked at once */
    proxy_hold(quorum_proxy[2], COMMANDS, TO_CLIENT, true);
    A = acquire_hold(a, "A", "x", 0);
    EXPECT("A granted");
    UNTIL(quorum_count("x") == 3);
    proxy_hold(quorum_proxy[1], COMMANDS, TO_CLIENT, true);
    release_hold(A);
    UNTIL(*quorum_value(0, "x") == '\0');
    proxy_cut(quorum_proxy[2], COMMANDS);
    EXPECT("A released EUNKNOWN");
    proxy_hold(quorum_proxy[1], COMMANDS, TO_CLIENT, false);
    proxy_hold(quorum_proxy[2], COMMANDS, TO_CLIENT, false);
    UNTIL(quorum_count("x") == 0);
}

static void a_vote_that_was_never_requested_is_not_held(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    quorum_start(3);
    server_kill(&quorum_server[2]);
    a = quorum_peer("a", NULL);
    A = quorum_take(a, "A", "x");
    server_kill(&quorum_server[1]);
    release_hold(A);
    EXPECT("A released OK");
    server_restart(&quorum_server[1]); /* as above */
}

static void a_stopped_server_is_not_noticed(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    b = quorum_peer("b", NULL);
    server_pause(&quorum_server[1]);
    A = quorum_take(a, "A", "x");
    B = acquire_hold(b, "B", "x", -1);
    UNTIL(quorum_queued(0, "x") == 1 && quorum_queued(2, "x") == 1);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    server_resume(&quorum_server[1]);
    UNTIL(quorum_count("x") == 3); /* B still requests it */
    release_hold(B);
    EXPECT("B released OK");
    UNTIL(quorum_count("x") == 0);
}

static void a_server_that_restarts_empty_is_asked_again(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;
    char first[40], last[40]; /* the uuids of client a there */

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    b = quorum_peer("b", NULL);
    A = quorum_take(a, "A", "x");
    UNTIL(quorum_count("x") == 3);
    (void)snprintf(first, sizeof(first), "%.36s", quorum_value(0, "x"));
    (void)snprintf(last, sizeof(last), "%.36s", quorum_value(2, "x"));
    B = acquire_hold(b, "B", "x", -1);
    UNTIL(quorum_queued(0, "x") == 1 && quorum_queued(1, "x") == 1);
    quorum_restart_empty(0);
    UNTIL(strncmp(quorum_value(0, "x"), first, 36) == 0);
    quorum_restart_empty(2);
    UNTIL(strncmp(quorum_value(2, "x"), last, 36) == 0);
    stage_expect_nothing(200);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_true(B->fence > A->fence);
    release_hold(B);
    EXPECT("B released OK");
    UNTIL(quorum_count("x") == 0);
}

static void a_majority_that_restarts_empty_loses_the_lock(void **state)
{
    struct peer *a;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    (void)quorum_take(a, "A", "x");
    UNTIL(quorum_count("x") == 3);
    for (int i = 0; i < 2; i++) { /* without a record: they grant no locks */
        server_kill(&quorum_server[i]);
        server_restart(&quorum_server[i]);
    }
    EXPECT("A lost ENOTHELD");
    UNTIL(quorum_count("x") == 0);
}

static void a_majority_without_its_data_loses_the_lock(void **state)
{
    struct peer *a;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    (void)acquire_hold_with(a, "A", "x", asking(.lease_ms = 900));
    EXPECT("A granted");
    UNTIL(quorum_count("x") == 3);
    freeReplyObject(server_command(&quorum_server[0], "DEL x"));
    UNTIL(quorum_count("x") == 3); /* found at the next renewal, and requested again */
    stage_expect_nothing(0);
    freeReplyObject(server_command(&quorum_server[1], "SET x stranger PX 60000"));
    freeReplyObject(server_command(&quorum_server[2], "SET x stranger PX 60000"));
    EXPECT("A lost ENOTHELD");
    UNTIL(*quorum_value(0, "x") == '\0');
}

static void on_broken(struct lw_client *client, int status, const char *why, void *arg)
{
    (void)client, (void)why;
    *(int *)arg = status;
}

/* The holder learns of each break at once. Its lease is so long that it does not request
 * a lost vote during the test. */
static void a_lock_that_is_broken_at_one_server_after_the_other_is_lost(void **state)
{
    struct peer *a;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    (void)acquire_hold_with(a, "A", "x", asking(.lease_ms = 33000));
    EXPECT("A granted");
    UNTIL(quorum_count("x") == 3);
    for (int i = 0; i < 2; i++) {
        char url[64], label[] = {(char)('0' + i), '\0'};
        struct peer *peer;
        int status = PENDING;

        (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d", quorum_proxy[i]->port);
        peer = peer_start_at(label, url, NULL);
        UNTIL(peer->up);
        assert_int_equal(lw_break(peer->client, "x", NULL, on_broken, &status), LW_OK);
        UNTIL(status == LW_OK);
        if (i == 0) {
            stage_expect_nothing(200); /* in which it must not get the vote again */
            assert_int_equal(quorum_count("x"), 2);
        }
    }
    EXPECT("A lost ENOTHELD");
    UNTIL(quorum_count("x") == 0);
}

static void without_a_majority_every_server_is_listed(void **state)
{
    struct peer *a;
    struct hold *A;
    char first[64], second[64];

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    server_kill(&quorum_server[0]);
    server_kill(&quorum_server[2]);
    UNTIL(!a->up);
    UNTIL(strstr(a->why, "127.0.0.1:") != NULL);
    A = acquire_hold(a, "A", "x", 0);
    EXPECT("A ECONN");
    (void)snprintf(first, sizeof(first), "127.0.0.1:%d", quorum_proxy[0]->port);
    (void)snprintf(second, sizeof(second), "127.0.0.1:%d: connected",
                   quorum_proxy[1]->port);
    quorum_says(A, first);
    quorum_says(A, second);
    assert_int_equal(lw_lock_error(A->lock), LW_ECONN);
    assert_int_equal(lw_client_error(a->client), LW_ECONN);
    A = acquire_hold(a, "B", "x", 300);
    EXPECT("B ETIMEOUT");
    quorum_says(A, first);
    UNTIL(quorum_count("x") == 0);
}

/* Tries the lock, and returns true if the reason has this text. */
static bool is_listed(struct peer *peer, const char *text)
{
    struct hold *hold = acquire_hold(peer, "A", "x", 50);
    bool listed;

    EXPECT("A ETIMEOUT");
    listed = strstr(lw_lock_errstr(hold->lock), text) != NULL;
    free_hold(hold);
    return listed;
}

/* The servers accept connections and answer questions, but execute no writes. */
static void a_server_that_is_connected_but_not_up_has_a_reason(void **state)
{
    static const char pause[] = "CLIENT PAUSE 60000 WRITE";
    struct peer *a;
    char third[96];

    (void)state;
    quorum_start(3);
    freeReplyObject(server_command(&quorum_server[1], pause));
    freeReplyObject(server_command(&quorum_server[2], pause));
    a = quorum_peer("a", client_of(.backoff_max_ms = 100));
    (void)snprintf(third, sizeof(third),
                   "127.0.0.1:%d: connected, but no reply to the first commands yet",
                   quorum_proxy[2]->port);
    UNTIL(is_listed(a, third));
}

/* The link callback also lists all of them, with shorter reasons if they are many. */
static void each_of_seven_servers_is_listed(void **state)
{
    struct peer *a;

    (void)state;
    quorum_start(7);
    a = quorum_peer("a", NULL);
    for (int i = 0; i < 6; i++) {
        server_kill(&quorum_server[i]);
    }
    UNTIL(!a->up);
    for (int i = 0; i < 7; i++) {
        char address[32];

        (void)snprintf(address, sizeof(address), "127.0.0.1:%d", quorum_proxy[i]->port);
        UNTIL(strstr(a->why, address) != NULL);
    }
}

static void a_hold_without_a_majority_ends_with_its_deadline(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    b = quorum_peer("b", client_of(.request_timeout_ms = 300, .backoff_max_ms = 100));
    UNTIL(b->up);
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 900));
    B = acquire_hold_with(b, "B", "y", asking(.lease_ms = 20000));
    EXPECT_SET("A granted; B granted");
    UNTIL(quorum_count("y") == 3); /* what was not requested is known not to be held */
    server_kill(&quorum_server[0]);
    server_kill(&quorum_server[1]);
    release_hold(B);
    EXPECT_SET("B released EUNKNOWN; A lost ELOST");
    assert_true(A->lost_ms - A->result_ms >= 500);
    UNTIL(quorum_count("x") == 0);
}

static void set_min_replicas(int count)
{
    for (int i = 0; i < 2; i++) {
        freeReplyObject(
            server_try(&quorum_server[i], "CONFIG SET min-replicas-to-write %d", count));
    }
}

/* Returns true if the outcome is known. It is unknown if an attempt was under way when
 * the time for the release had passed. */
static bool is_release_known(struct peer *a)
{
    struct hold *A = quorum_take(a, "A", "x");
    bool known;

    /* A server that has not answered the request yet may count as unknown. It has, and by
     * the end of a renewal the client has read the answer. */
    UNTIL(quorum_count("x") == 3);
    renew_hold(A, 0);
    EXPECT("A renewed OK");
    stage_clear_trace();
    set_min_replicas(1);
    release_hold(A);
    UNTIL(stage_has("A released ECONN") || stage_has("A released EUNKNOWN"));
    known = stage_has("A released ECONN");
    if (known) {
        assert_non_null(strstr(lw_lock_errstr(A->lock), "NOREPLICAS"));
        assert_null(strstr(lw_lock_errstr(A->lock), ": held"));
    }
    stage_clear_trace();
    set_min_replicas(0);
    UNTIL(quorum_count("x") == 0); /* it is retried */
    return known;
}

/* Two servers of three reply that they cannot release now. */
static void a_release_that_a_majority_cannot_execute_has_a_known_outcome(void **state)
{
    struct peer *a;
    int tries = 1;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    while (!is_release_known(a)) {
        assert_true(tries++ < 10);
    }
}

static void waiters_outlast_the_absence_of_a_majority(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    server_kill(&quorum_server[0]);
    server_kill(&quorum_server[1]);
    UNTIL(!a->up);
    A = acquire_hold(a, "A", "x", -1);
    stage_expect_nothing(200);
    quorum_restart_empty(1);
    EXPECT("A granted");
    quorum_restart_empty(0);
    UNTIL(quorum_count("x") == 3);
    release_hold(A);
    EXPECT("A released OK");
    UNTIL(quorum_count("x") == 0);
}

/* A minority that cannot become a majority is released for others. */
static void a_minority_is_given_back(void **state)
{
    struct peer *a;
    struct hold *A;
    char first[128];

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", client_of(.claim_ms = 300, .backoff_max_ms = 100));
    UNTIL(a->up && peer_stats(a).subscription_up);
    server_pause(&quorum_server[1]);
    server_pause(&quorum_server[2]);
    A = acquire_hold(a, "A", "x", -1);
    UNTIL(*quorum_value(0, "x") != '\0');
    (void)snprintf(first, sizeof(first), "%s", quorum_value(0, "x"));
    UNTIL(strcmp(quorum_value(0, "x"), first) != 0);
    server_resume(&quorum_server[1]);
    server_resume(&quorum_server[2]);
    EXPECT("A granted");
    UNTIL(quorum_count("x") == 3);
    release_hold(A);
    EXPECT("A released OK");
    UNTIL(quorum_count("x") == 0);
}

/* Servers that have just started grant no locks, and the client reports it. */
static void new_servers_grant_nothing_for_the_guard_time(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    quorum_start(3);
    for (int i = 0; i < 3; i++) {
        server_kill(&quorum_server[i]);
        server_restart(&quorum_server[i]);
    }
    a = quorum_peer("a", NULL);
    A = acquire_hold(a, "A", "x", 0);
    EXPECT("A ECONN");
    quorum_says(A, "the server was restarted or is new; no locks for ");
    assert_int_in_range(peer_stats(a).guard_left_ms, 20000, 46000);
    A = acquire_hold(a, "B", "x", 300);
    EXPECT("B ETIMEOUT");
    quorum_says(A, "the server was restarted or is new; no locks for ");
    assert_int_equal(quorum_count("x"), 0);
}

/* Two replies that arrive at once are evaluated together. */
static void keys_that_are_taken_at_once_are_told(void **state)
{
    struct peer *a;

    (void)state;
    quorum_start(3);
    a = quorum_peer("a", NULL);
    for (int i = 0; i < 100; i++) {
        struct hold *A = quorum_take(a, "A", "x");

        UNTIL(quorum_count("x") == 3);
        for (int at = 0; at < 3; at++) {
            freeReplyObject(
                server_command(&quorum_server[at], "SET x stranger PX 60000"));
        }
        assert_int_equal(lw_renew(A->lock, 0, NULL, NULL), 0);
        EXPECT("A lost ENOTHELD");
        free_hold(A);
        for (int at = 0; at < 3; at++) {
            freeReplyObject(server_command(&quorum_server[at], "DEL x"));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(keys_that_are_taken_at_once_are_told),
        STAGE_TEST(a_dead_server_is_not_noticed),
        STAGE_TEST(two_dead_servers_of_five_are_not_noticed),
        STAGE_TEST(a_vote_that_is_not_known_yet_is_released),
        STAGE_TEST(a_vote_that_fails_in_a_release_is_unknown),
        STAGE_TEST(a_vote_that_was_never_requested_is_not_held),
        STAGE_TEST(a_stopped_server_is_not_noticed),
        STAGE_TEST(a_server_that_restarts_empty_is_asked_again),
        STAGE_TEST(a_majority_that_restarts_empty_loses_the_lock),
        STAGE_TEST(a_majority_without_its_data_loses_the_lock),
        STAGE_TEST(a_lock_that_is_broken_at_one_server_after_the_other_is_lost),
        STAGE_TEST(without_a_majority_every_server_is_listed),
        STAGE_TEST(a_server_that_is_connected_but_not_up_has_a_reason),
        STAGE_TEST(each_of_seven_servers_is_listed),
        STAGE_TEST(a_hold_without_a_majority_ends_with_its_deadline),
        STAGE_TEST(a_release_that_a_majority_cannot_execute_has_a_known_outcome),
        STAGE_TEST(waiters_outlast_the_absence_of_a_majority),
        STAGE_TEST(a_minority_is_given_back),
        STAGE_TEST(new_servers_grant_nothing_for_the_guard_time),
    };

    return STAGE_RUN(tests);
}

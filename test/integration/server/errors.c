/* SPDX-License-Identifier: MIT */
/*
 * Errors that a server may reply instead of executing a command: LOADING, READONLY, OOM,
 * BUSY, NOSCRIPT, NOREPLICAS, too many clients (denied.c has NOAUTH and NOPERM). Each has
 * the documented result, with a text that has the reason, and nothing is lost.
 * Independent of how the library classifies errors.
 *
 * Usual course: the server is made to refuse commands, a client requests, holds or
 * releases a lock, and the server recovers.
 */
#include "fake_redis.h"
#include "players.h"
#include "server/scene.h"

#include <stdio.h>
#include <string.h>

static void assert_says_nothing(const struct hold *hold)
{
    assert_string_equal(lw_lock_errstr(hold->lock), "");
}

static struct peer *quick_peer(const char *label, const char *url)
{
    return peer_start_at(
        label, url,
        client_of(.local_turns = 1, .backoff_max_ms = 100, .request_timeout_ms = 2000));
}

/* ---- LOADING: as if the link were down ---- */

static const char *loading(struct fake_redis *fake, int argc, char **argv)
{
    (void)argc, (void)argv;
    return fake->count ? "-LOADING Redis is loading the dataset in memory\r\n"
                       : FAKE_REAL;
}

static void LOADING_counts_as_link_down_and_is_ridden_out(void **state)
{
    struct fake_redis *fake = fake_start(loading);

    (void)state;
    fake->count = 1;
    struct peer *a = quick_peer("a", fake->url);
    struct hold *A = acquire_hold(a, "A", "x", -1);
    acquire_hold(a, "B", "y", 0);
    acquire_hold(a, "C", "z", 300);
    EXPECT_SET("B ECONN; C ETIMEOUT");
    assert_int_equal(a->ups, 0);
    assert_true(a->downs > 0);
    assert_non_null(strstr(a->whys, "LOADING"));
    fake->count = 0;
    EXPECT("A granted");
    assert_held_by_redis(A);
    assert_true(a->up);
}

static void LOADING_on_a_link_that_was_up_takes_it_down(void **state)
{
    struct fake_redis *fake = fake_start(loading);

    (void)state;
    struct peer *a = quick_peer("a", fake->url);
    UNTIL(a->up);
    fake->count = 1;
    struct hold *A = acquire_hold(a, "A", "x", -1);
    UNTIL(!a->up);
    assert_non_null(strstr(a->why, "LOADING"));
    fake->count = 0;
    EXPECT("A granted");
    assert_held_by_redis(A);
}

/* ---- errors that mean that nothing was done ---- */

static const char *undone;

static const char *turning_down(struct fake_redis *fake, int argc, char **argv)
{
    for (int i = 1; i < argc && fake->count > 0; i++) {
        if (strcmp(argv[i], "x") == 0) {
            return undone;
        }
    }
    return FAKE_REAL;
}

/* Otherwise a release would be retried until the lease expires, for a lock that was never
 * granted. */
static void what_was_turned_down_is_not_given_back(void **state)
{
    static const struct {
        const char *error;
        const char *once, *later;
    } cases[] = {
        {"-CLUSTERDOWN Hash slot not served\r\n", "A ECONN", "B ETIMEOUT"},
        {"-TRYAGAIN Multiple keys request during rehashing of slot\r\n", "A ECONN",
         "B ETIMEOUT"},
        {"-MISCONF Redis is configured to save RDB snapshots\r\n", "A ECONN",
         "B ETIMEOUT"},
        {"-NOREPLICAS Not enough good replicas to write.\r\n", "A ECONN", "B ETIMEOUT"},
    };
    struct fake_redis *fake = fake_start(turning_down);

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct peer *a;

        fake->count = 0;
        a = peer_start_at("a", fake->url, client_of(.close_timeout_ms = 3600000));
        UNTIL(a->up);
        fake->count = 1;
        undone = cases[i].error;
        acquire_hold_with(a, "A", "x", asking(.wait_ms = 0, .lease_ms = 3600000));
        EXPECT(cases[i].once);
        acquire_hold_with(a, "B", "x", asking(.wait_ms = 200, .lease_ms = 3600000));
        EXPECT(cases[i].later);
        peer_close(a);
        EXPECT("a closed");
        peer_free(a);
    }
}

/* ---- no reply ---- */

static const char *silent(struct fake_redis *fake, int argc, char **argv)
{
    for (int i = 1; i < argc && fake->count > 0; i++) {
        if (strcmp(argv[i], "x") == 0) {
            return "";
        }
    }
    return FAKE_REAL;
}

static void what_was_never_answered_is_not_busy(void **state)
{
    struct fake_redis *fake = fake_start(silent);
    struct peer *a = peer_start_at("a", fake->url, client_of(.local_turns = 1));

    (void)state;
    stage.keys_may_stay = true; /* it cannot leave the queue: no reply comes */
    UNTIL(a->up);
    redis_ok("SET y theirs PX 600000");
    struct hold *A = acquire_hold(a, "A", "y", 300);
    EXPECT("A ETIMEOUT");
    assert_int_equal(lw_lock_error(A->lock), LW_OK);
    assert_says_nothing(A);
    fake->count = 1;
    struct hold *B = acquire_hold(a, "B", "x", 300);
    EXPECT("B ETIMEOUT");
    assert_int_equal(lw_lock_error(B->lock), LW_ECONN);
    assert_says(B, "no reply in time");
    redis_ok("DEL y");
}

/* ---- a connection that ended ---- */

/* A count of 1 ends the connection at the request for x; from 2 on there is no reply to
 * it. */
static const char *hanging_up(struct fake_redis *fake, int argc, char **argv)
{
    for (int i = 1; i < argc && fake->count > 0; i++) {
        if (strcmp(argv[i], "x") == 0) {
            return fake->count++ == 1 ? FAKE_HANG_UP : "";
        }
    }
    return FAKE_REAL;
}

static void a_lost_connection_is_no_longer_told_once_there_is_another(void **state)
{
    struct fake_redis *fake = fake_start(hanging_up);
    struct peer *a = quick_peer("a", fake->url);

    (void)state;
    UNTIL(a->up);
    fake->count = 1;
    struct hold *A = acquire_hold(a, "A", "x", -1);
    UNTIL(!a->up);
    assert_says(A, "closed");
    UNTIL(a->up);
    assert_says_nothing(A);
    fake->count = 0;
    EXPECT("A granted");
    assert_held_by_redis(A);
}

/* ---- READONLY: a demoted server ---- */

static void READONLY_is_ridden_out_by_who_waits(void **state)
{
    (void)state;
    struct peer *a = quick_peer("a", stage.server.url);
    peer_wait_ready(a);
    redis_ok("REPLICAOF 127.0.0.1 1");
    struct hold *A = acquire_hold(a, "A", "x", -1);
    struct hold *B = acquire_hold(a, "B", "y", 500);
    EXPECT("B ETIMEOUT");
    assert_int_equal(A->result, PENDING);
    assert_true(strstr(a->whys, "READONLY") != NULL ||
                strstr(lw_lock_errstr(B->lock), "READONLY") != NULL);
    redis_ok("REPLICAOF NO ONE");
    EXPECT("A granted");
    assert_held_by_redis(A);
}

static void READONLY_leaves_a_holder_its_lease(void **state)
{
    (void)state;
    struct peer *a = quick_peer("a", stage.server.url);
    peer_wait_ready(a);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 1200));
    EXPECT("A granted");
    redis_ok("REPLICAOF 127.0.0.1 1");
    EXPECT("A lost ELOST");
    stage_skip_if_lag(300);
    assert_true(A->lost_ms - A->asked_ms >= 1000);
    redis_ok("REPLICAOF NO ONE");
    stage.keys_may_stay = true;
}

static void a_replica_is_down_until_it_is_promoted(void **state)
{
    struct peer *a;
    int downs;

    (void)state;
    redis_ok("REPLICAOF 127.0.0.1 1");
    a = quick_peer("a", stage.server.url);
    UNTIL(a->downs >= 4);
    assert_int_equal(a->ups, 0);
    assert_non_null(strstr(a->why, "READONLY"));
    redis_ok("REPLICAOF NO ONE");
    UNTIL(a->up);
    acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    redis_ok("REPLICAOF 127.0.0.1 1");
    acquire_hold(a, "B", "y", -1);
    UNTIL(!a->up);
    downs = a->downs;
    UNTIL(a->downs >= downs + 4);
    assert_int_equal(a->ups, 1);
    redis_ok("REPLICAOF NO ONE");
    EXPECT("B granted");
    assert_int_equal(a->ups, 2);
}

/* ---- OOM: holders can still renew and release ---- */

static void OOM_lets_a_holder_renew_and_release(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 1200));
    EXPECT("A granted");
    redis_ok("CONFIG SET maxmemory 1");
    stage_run_for(2500);
    stage_skip_if_lag(400);
    assert_held_by_redis(A);
    renew_hold(A, 0);
    EXPECT("A renewed OK");
    release_hold(A);
    EXPECT("A released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
    redis_ok("CONFIG SET maxmemory 0");
}

static void OOM_is_ridden_out_by_who_waits(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    redis_ok("CONFIG SET maxmemory 1");
    struct hold *A = acquire_hold(a, "A", "x", -1), *B = acquire_hold(a, "B", "y", 400);
    struct hold *C = acquire_hold(a, "C", "z", 0);
    EXPECT_SET("B ETIMEOUT; C ECONN");
    assert_says(B, "OOM");
    assert_says(C, "OOM");
    assert_int_equal(A->result, PENDING);
    UNTIL(peer_logged(a, "7 error of a script: ")); /* with the place in the script */
    assert_null(strstr(lw_lock_errstr(A->lock), "user_script"));
    redis_ok("CONFIG SET maxmemory 0");
    EXPECT("A granted");
    assert_held_by_redis(A);
    assert_says_nothing(A);
}

/* lw_lock_errstr is about the last reply. A waiter that only a holder keeps out has no
 * error. */
static void OOM_is_no_longer_told_once_it_has_passed(void **state)
{
    struct peer *a = peer_ready("a", client_of(.local_turns = 1));

    (void)state;
    redis_ok("SET x theirs PX 600000");
    redis_ok("CONFIG SET maxmemory 1");
    struct hold *A = acquire_hold(a, "A", "x", -1), *B = acquire_hold(a, "B", "y", -1);
    UNTIL(*lw_lock_errstr(A->lock) && *lw_lock_errstr(B->lock));
    assert_says(A, "OOM");
    redis_ok("CONFIG SET maxmemory 0");
    UNTIL(*lw_lock_errstr(A->lock) == '\0');
    assert_int_equal(A->result, PENDING);
    EXPECT("B granted");
    assert_says_nothing(B);
    redis_ok("DEL x");
}

static void OOM_hands_over_to_who_queued_before(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_hold(b, "B", "x", -1);

    (void)state;
    EXPECT("A granted");
    wait_queued("x", 1);
    redis_ok("CONFIG SET maxmemory 1");
    release_hold(A);
    EXPECT("A released OK");
    stage_run_for(200);
    redis_ok("CONFIG SET maxmemory 0");
    EXPECT_SET("B granted");
    assert_held_by_redis(B);
}

/* ---- NOREPLICAS: even releases are refused ---- */

static void NOREPLICAS_ends_a_release_with_ECONN_and_a_holder_keeps_its_lease(
    void **state)
{
    (void)state;
    struct peer *a = quick_peer("a", stage.server.url);
    peer_wait_ready(a);
    struct hold *A = acquire_and_wait(a, "A", "x");
    struct hold *B = acquire_hold_with(a, "B", "y", asking(.lease_ms = 1500));
    EXPECT("A granted; B granted");
    redis_ok("CONFIG SET min-replicas-to-write 1");
    release_hold(A);
    acquire_hold(a, "C", "z", 300);
    UNTIL(A->released != PENDING);
    if (A->released == LW_EUNKNOWN) {
        stage_skip_if_lag(100); /* a reply was that late */
    }
    EXPECT_SET("C ETIMEOUT; A released ECONN; B lost ELOST");
    assert_says(A, "NOREPLICAS");
    stage_skip_if_lag(300);
    assert_true(B->lost_ms - B->asked_ms >= 1300);
    redis_ok("CONFIG SET min-replicas-to-write 0");
    UNTIL(redis_int("EXISTS x") == 0); /* the release was retried */
}

static void NOREPLICAS_ends_a_renewal_with_ECONN(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    EXPECT("A granted");
    redis_ok("CONFIG SET min-replicas-to-write 1");
    renew_hold(A, 0);
    EXPECT("A renewed ECONN");
    assert_says(A, "NOREPLICAS");
    redis_ok("CONFIG SET min-replicas-to-write 0");
    renew_hold(A, 0);
    EXPECT("A renewed OK");
}

/* The server refuses each attempt, and is silent once it has refused one in the last
 * quarter of request_timeout_ms: by then the outcome has been reported. */
#define LIMIT_MS 6000
static int64_t last_quarter_ms;
static bool silent_now;

static const char *refusing_then_silent(struct fake_redis *fake, int argc, char **argv)
{
    for (int i = 1; i < argc && fake->count > 0; i++) {
        if (strcmp(argv[i], "x") == 0) {
            if (silent_now) {
                return "";
            }
            silent_now = now_ms() > last_quarter_ms;
            return "-NOREPLICAS Not enough good replicas to write.\r\n";
        }
    }
    return FAKE_REAL;
}

static void a_release_that_was_refused_until_the_end_has_a_known_outcome(void **state)
{
    struct fake_redis *fake = fake_start(refusing_then_silent);
    struct peer *a;
    struct hold *A;

    (void)state;
    fake->count = 0;
    silent_now = false;
    a = peer_start_at("a", fake->url, client_of(.request_timeout_ms = LIMIT_MS));
    UNTIL(a->up);
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    fake->count = 1;
    last_quarter_ms = now_ms() + LIMIT_MS * 3 / 4 + 20;
    release_hold(A);
    UNTIL(A->released != PENDING);
    stage_skip_if_lag(300);
    EXPECT("A released ECONN");
    assert_says(A, "NOREPLICAS");
    redis_ok("DEL x");
}

/* Each connection begins with a write. After a failover a new master may refuse it again
 * and again, on several connections. One log line reports that the client waits for
 * replicas. */
static void NOREPLICAS_is_logged_once_as_waiting_for_replicas(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A;
    int lines = 0;

    (void)state;
    for (int i = 0; i < 3; i++) {
        int ups = a->ups;

        redis_ok("CONFIG SET min-replicas-to-write 1");
        assert_int_equal(redis_int("CLIENT KILL ID %lld", peer_link_id(a, false)), 1);
        UNTIL(a->ups > ups);
        acquire_hold(a, "W", "w", 0);
        EXPECT("W ECONN");
        redis_ok("CONFIG SET min-replicas-to-write 0");
        A = acquire_hold(a, "A", "x", -1);
        EXPECT("A granted");
        release_hold(A);
        EXPECT("A released OK");
    }
    for (const char *at = a->log; (at = strstr(at, "waiting for replicas")); at++) {
        lines++;
    }
    assert_int_equal(lines, 1);
    assert_false(peer_logged(a, "fence counter"));
}

/* ---- BUSY: a script that does not end ---- */

static bool is_busy(void)
{
    redisReply *reply = server_try(&stage.server, "PING");
    bool busy = reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "BUSY") != NULL;

    freeReplyObject(reply);
    return busy;
}

static void BUSY_is_ridden_out(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");
    int done = 0;

    (void)state;
    redis_ok("CONFIG SET lua-time-limit 20");
    redisContext *runaway = redisConnectUnix(stage.server.path);
    redisAppendCommand(runaway, "EVAL %s 0", "while true do end");
    while (!done) {
        redisBufferWrite(runaway, &done);
    }
    UNTIL(is_busy());
    struct hold *B = acquire_hold(a, "B", "y", -1);
    release_hold(A);
    stage_run_for(300);
    assert_int_equal(B->result, PENDING);
    freeReplyObject(server_try(&stage.server, "SCRIPT KILL"));
    EXPECT("A granted");
    EXPECT_SET("A released OK; B granted");
    redisFree(runaway);
    assert_held_by_redis(B);
}

/* ---- NOSCRIPT never surfaces ---- */

static void NOSCRIPT_never_surfaces(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    for (int i = 0; i < 10; i++) {
        redis_ok("SCRIPT FLUSH");
        struct hold *A = acquire_and_wait(a, "A", "x");
        redis_ok("SCRIPT FLUSH");
        struct hold *B = acquire_hold(b, "B", "x", -1);
        wait_queued("x", 1);
        redis_ok("SCRIPT FLUSH");
        renew_hold(A, 0);
        UNTIL(A->renewals == 0);
        assert_int_equal(A->renewed, LW_OK);
        redis_ok("SCRIPT FLUSH");
        release_hold(A);
        UNTIL(A->released != PENDING && B->result != PENDING);
        assert_int_equal(A->released, LW_OK);
        assert_int_equal(B->result, LW_OK);
        redis_ok("SCRIPT FLUSH");
        release_hold(B);
        UNTIL(B->released == LW_OK);
        assert_string_equal(lw_lock_errstr(A->lock), "");
        assert_string_equal(lw_lock_errstr(B->lock), "");
    }
    stage_clear_trace();
    assert_false(peer_logged(a, "NOSCRIPT") || peer_logged(b, "NOSCRIPT"));
}

/* ---- too many clients ---- */

static void too_many_clients_is_told_and_ridden_out(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    EXPECT("A granted");
    redis_ok("CONFIG SET maxclients 1");
    struct peer *b = quick_peer("b", stage.server.url);
    acquire_hold(b, "B", "y", 300);
    EXPECT("B ETIMEOUT");
    assert_non_null(strstr(b->whys, "max number of clients"));
    renew_hold(A, 0);
    EXPECT("A renewed OK"); /* a connection that is up is unaffected */
    struct hold *C = acquire_hold(b, "C", "y", -1);
    redis_ok("CONFIG SET maxclients 10000");
    EXPECT("C granted");
    assert_held_by_redis(C);
}

static void eviction_policy_is_warned_of(void **state)
{
    (void)state;
    redis_ok("CONFIG SET maxmemory-policy allkeys-lru");
    struct peer *a = peer_ready("a", NULL);
    UNTIL(peer_logged(a, "allkeys-lru"));
    assert_non_null(strstr(a->log, "4 ")); /* a warning */
    redis_ok("CONFIG SET maxmemory-policy noeviction");
    struct peer *b = peer_ready("b", NULL);
    UNTIL(peer_logged(b, " is noeviction"));
    assert_false(peer_logged(b, "evict held"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(LOADING_counts_as_link_down_and_is_ridden_out),
        STAGE_TEST(LOADING_on_a_link_that_was_up_takes_it_down),
        STAGE_TEST(what_was_turned_down_is_not_given_back),
        STAGE_TEST(what_was_never_answered_is_not_busy),
        STAGE_TEST(a_lost_connection_is_no_longer_told_once_there_is_another),
        STAGE_TEST(READONLY_is_ridden_out_by_who_waits),
        STAGE_TEST(READONLY_leaves_a_holder_its_lease),
        STAGE_TEST(a_replica_is_down_until_it_is_promoted),
        STAGE_TEST(OOM_lets_a_holder_renew_and_release),
        STAGE_TEST(OOM_is_ridden_out_by_who_waits),
        STAGE_TEST(OOM_is_no_longer_told_once_it_has_passed),
        STAGE_TEST(OOM_hands_over_to_who_queued_before),
        STAGE_TEST(NOREPLICAS_ends_a_release_with_ECONN_and_a_holder_keeps_its_lease),
        STAGE_TEST(NOREPLICAS_ends_a_renewal_with_ECONN),
        STAGE_TEST(a_release_that_was_refused_until_the_end_has_a_known_outcome),
        STAGE_TEST(NOREPLICAS_is_logged_once_as_waiting_for_replicas),
        STAGE_TEST(BUSY_is_ridden_out),
        STAGE_TEST(NOSCRIPT_never_surfaces),
        STAGE_TEST(too_many_clients_is_told_and_ridden_out),
        STAGE_TEST(eviction_policy_is_warned_of),
    };

    return STAGE_RUN(tests);
}

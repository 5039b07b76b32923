/* SPDX-License-Identifier: MIT */
/*
 * When the guard (guard_ms) closes a server, and for how long: after a start, a
 * promotion, a restart or lost writes. Also what happens to locks that are held then.
 * Depends on test/lib and its scenes alone.
 *
 * The first test waits for the real guard time.
 *
 * A grant must come after the time that is in the record, by the server's clock. */
#include "api/keep_scene.h"
#include "fake_redis.h"
#include "groups.h"
#include "proxy.h"
#include "server/guard_scene.h"
#include "server/scene.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RESTARTED "the server was restarted or is new"

static struct server other;

static void stop_other(bool in_good_order)
{
    (void)in_good_order;
    if (other.running) {
        server_stop(&other);
    }
}

static void start_other(const char *args)
{
    stage_at_exit(stop_other);
    stage.keys_may_stay = stage.notes_may_stay = true;
    server_start(&other, args);
}

/* Ends the connections of clients, as sentinels do at a promotion, and waits until this
 * one has new ones. */
static void reconnect(struct peer *peer)
{
    int ups = peer->ups;

    redis_ok("CLIENT KILL TYPE normal");
    UNTIL(peer->ups > ups);
    peer_wait_ready(peer);
}

/* ---- after a start ---- */

static void a_server_that_has_just_started_grants_nothing(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B, *C;
    struct group *G;
    struct keeper *K;
    int64_t opened_ms;
    uint64_t left_ms;

    (void)state;
    server_restart(&stage.server);
    a = guarded("a");
    b = guarded("b");
    left_ms = peer_stats(a).guard_left_ms;
    assert_in_range(left_ms, GUARD_MS - 4000, GUARD_MS + 1000);
    assert_true(peer_logged(a, RESTARTED "; no locks are granted for 1"));
    A = ask_guarded(a, "A", "x", 0);
    EXPECT("A ECONN");
    assert_says(A, RESTARTED "; no locks for 1");
    assert_says(A, " s more");
    assert_true(peer_stats(a).guarded > 0);
    B = ask_guarded(a, "B", "x", 500);
    EXPECT("B ETIMEOUT");
    assert_says(B, RESTARTED "; no locks for 1");
    assert_true(B->result_ms - B->asked_ms >= 500);
    opened_ms = now_ms() + guard_record_left_us(&stage.server) / 1000;
    C = ask_guarded(a, "C", "x", -1);
    G = group_ask(b, "G", asking(.wait_ms = -1, .lease_ms = LEASE_MS), "y z");
    K = keeper_start(b, "K", "k", asking(.lease_ms = LEASE_MS));
    stage_expect_nothing(2000);
    assert_int_equal(redis_int("EXISTS x y z k"), 0);
    left_ms = peer_stats(a).guard_left_ms;
    assert_in_range(left_ms, 1000, GUARD_MS - 1000);
    EXPECT_SET("C granted; G granted; K gained");
    assert_open();
    assert_true(C->result_ms >= opened_ms);
    assert_true(G->result_ms >= opened_ms);
    assert_true(K->gained_ms >= opened_ms);
    assert_int_equal(peer_stats(a).guard_left_ms, 0);
    group_assert_held(G);
}

/* Nothing tells it from one that has just taken another's place. */
static void an_old_server_without_a_record_waits_as_a_new_one(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    grow_old();
    a = guarded("a");
    A = ask_guarded(a, "A", "x", 0);
    EXPECT("A ECONN");
    assert_says(A, RESTARTED "; no locks for 1");
    assert_in_range(guard_record_left_us(&stage.server), (GUARD_MS - 10000) * 1000LL,
                    GUARD_MS * 1000LL);
}

static void a_reconnect_to_the_same_process_waits_for_nothing(void **state)
{
    struct peer *a;

    (void)state;
    close_for(0);
    a = guarded("a");
    open_at_once(a);
    reconnect(a);
    open_at_once(a);
}

static void a_first_replica_changes_nothing(void **state)
{
    int port;
    struct peer *a;

    (void)state;
    close_for(0);
    port = server_listen(&stage.server);
    redis_ok("CONFIG SET repl-diskless-sync-delay 0");
    a = guarded("a");
    start_other("--repl-diskless-sync-delay 0");
    freeReplyObject(server_command(&other, "REPLICAOF 127.0.0.1 %d", port));
    while (redis_info("connected_slaves") == 0) {
        stage_run_for(20);
    }
    open_at_once(a);
    reconnect(a);
    open_at_once(a);
    open_at_once(guarded("b"));
}

/* ---- promotions ---- */

static void promote_other(void)
{
    freeReplyObject(server_command(&other, "REPLICAOF NO ONE"));
    freeReplyObject(server_command(&other, "CLIENT KILL TYPE normal"));
}

/* The data is copied to the replica and back, including the record. A server that was a
 * replica for a moment has its own record again, and counts as another server
 * nevertheless. */
static void a_promotion_closes_what_was_open(void **state)
{
    int port = server_listen(&stage.server);
    struct peer *a, *b;
    struct hold *A, *B;
    char record[256];

    (void)state;
    redis_ok("CONFIG SET repl-diskless-sync-delay 0");
    start_other("--repl-diskless-sync-delay 0");
    guard_record_open_in(&other, GUARD_MS, 0);
    (void)snprintf(record, sizeof(record), "%s", guard_record_text(&other));
    a = guarded_at("a", other.url);
    open_at_once(a);
    redis_ok("SET " GUARD_RECORD " %s PX 86400000", record);
    freeReplyObject(server_command(&other, "REPLICAOF 127.0.0.1 %d", port));
    while (redis_info("connected_slaves") == 0 || redis_int("WAIT 1 100") != 1) {
        stage_run_for(20);
    }
    promote_other();
    UNTIL(a->downs > 0 && a->up);
    A = ask_guarded(a, "A", "x", 0);
    EXPECT("A ECONN");
    assert_says(A, "the server was promoted; no locks for 16 s more");
    assert_true(peer_stats(a).guard_left_ms > GUARD_MS - 2000);
    assert_true(peer_logged(a, "the server was promoted; no locks are granted for 16 s"));
    b = guarded_at("b", other.url);
    B = ask_guarded(b, "B", "x", 0);
    EXPECT("B ECONN");
    assert_says(B, "the server was promoted");
}

/* Makes the stage's server one that was promoted, with the same data. */
static void promote(void)
{
    redis_ok("REPLICAOF 127.0.0.1 1");
    redis_ok("REPLICAOF NO ONE");
    redis_ok("CLIENT KILL TYPE normal");
}

static bool other_reports(const char *text)
{
    redisReply *reply = server_command(&other, "INFO");
    bool yes = strstr(reply->str, text) != NULL;

    freeReplyObject(reply);
    return yes;
}

/* Without replicas a server forgets after repl-backlog-ttl that it was promoted. Then it
 * looks like one that was never promoted. */
static void a_promotion_that_the_server_forgets_is_waited_for(void **state)
{
    int port = server_listen(&stage.server);
    struct peer *a, *b;
    long long left_us;

    (void)state;
    redis_ok("CONFIG SET repl-diskless-sync-delay 0");
    start_other("--repl-diskless-sync-delay 0 --repl-backlog-ttl 1");
    freeReplyObject(server_command(&other, "REPLICAOF 127.0.0.1 %d", port));
    while (!other_reports("master_link_status:up")) {
        stage_run_for(20);
    }
    promote_other();
    a = peer_start_at("a", other.url,
                      client_of(.guard_ms = GUARD_MS, .request_timeout_ms = 200));
    UNTIL(a->up);
    assert_true(peer_stats(a).guard_left_ms > 0);
    while (!other_reports("second_repl_offset:-1")) {
        stage_run_for(20);
    }
    b = guarded_at("b", other.url);
    UNTIL(b->up);
    assert_in_range(peer_stats(b).guard_left_ms, 1000, GUARD_MS + 1000);
    left_us = guard_record_left_us(&other);
    stage_run_for(1000); /* some heartbeats of `a`, which knows the identity of before */
    assert_true(guard_record_left_us(&other) < left_us);
}

#define LONG_GUARD_MS 45000

static struct peer *long_guarded(const char *label)
{
    struct peer *peer = peer_start_at(
        label, stage.server.url,
        client_of(.local_turns = 1, .guard_ms = LONG_GUARD_MS, .backoff_max_ms = 100));

    UNTIL(peer->up);
    return peer;
}

/* The old master may run for 11 s more. Before that the lease of B ends, and the old
 * master, which B does not renew at, would grant the lock to a waiter. */
static void a_lease_that_ends_before_the_old_master_stops_is_not_extended(void **state)
{
    static const char text[] =
        "the server was promoted, and the lease may end before the "
        "old master stops granting locks";
    struct peer *a;
    struct hold *A, *B;
    int ups;

    (void)state;
    promote();
    guard_record_open_in(&stage.server, LONG_GUARD_MS, 0);
    a = long_guarded("a");
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 30000));
    EXPECT("A granted");
    B = acquire_hold_with(a, "B", "y", asking(.lease_ms = 6000));
    EXPECT("B granted");
    stage_run_for(1000);
    ups = a->ups;
    guard_record_open_in(&stage.server, LONG_GUARD_MS, LONG_GUARD_MS - 1000);
    redis_ok("CLIENT KILL TYPE normal");
    UNTIL(a->ups > ups);
    UNTIL(lw_lock_remaining_ms(A->lock) > 29200); /* of 30000, less the drift */
    assert_true(lw_lock_remaining_ms(B->lock) <= 5000);
    renew_hold(A, 0);
    EXPECT("A renewed OK");
    renew_hold(B, 0);
    EXPECT("B renewed ECONN");
    assert_says(B, text);
    assert_int_equal(lw_lock_error(B->lock), LW_ECONN);
    assert_in_range(redis_int("PTTL y"), 1, 5000);
    EXPECT("B lost ELOST");
    assert_says(B, text);
    stage_skip_if_lag(500);
    assert_in_range(B->lost_ms - B->asked_ms, 5000, 6100);
    assert_int_equal(lw_lock_state(A->lock), LW_HELD);
    assert_int_equal(redis_int("EXISTS x"), 1);
}

/* The owner of a detached lock's token relies on its lease. */
static void nor_by_a_detach(void **state)
{
    struct peer *a;
    struct hold *A, *B, *C, *D, *E;
    int ups;

    (void)state;
    stage.keys_may_stay = true;
    promote();
    guard_record_open_in(&stage.server, LONG_GUARD_MS, 0);
    a = long_guarded("a");
    A = acquire_hold_with(a, "A", "v", asking(.lease_ms = 30000));
    B = acquire_hold_with(a, "B", "w", asking(.lease_ms = 6000));
    C = acquire_hold_with(a, "C", "x", asking(.lease_ms = 6000, .mode = LW_SHARED));
    D = acquire_hold_with(a, "D", "y", asking(.lease_ms = 6000));
    E = acquire_hold_with(a, "E", "z", asking(.lease_ms = 6000));
    EXPECT_SET("A granted; B granted; C granted; D granted; E granted");
    detach_refused(A, LONG_GUARD_MS - 12000 + 1, LW_EINVAL,
                   "keep_ms 33001 is not between");
    ups = a->ups;
    guard_record_open_in(&stage.server, LONG_GUARD_MS, LONG_GUARD_MS - 1000);
    redis_ok("CLIENT KILL TYPE normal");
    UNTIL(a->ups > ups);
    /* This lease ends after the old master has stopped granting locks. */
    detach_hold(A, LONG_GUARD_MS - 12000);
    detach_hold(B, 30000);
    detach_hold(C, 30000);
    detach_hold(D, 1000);
    detach_hold(E, 0);
    EXPECT_SET("A detached OK; B detached ECONN; C detached ECONN; D detached OK; "
               "E detached OK");
    assert_says(B, "the server was promoted, and the old master may still grant");
    assert_int_equal(lw_lock_error(B->lock), LW_ECONN);
    assert_in_range(redis_int("PTTL v"), 30001, 33000);
    assert_true(redis_int("PTTL w") <= 6000);
    assert_true(redis_int("PTTL x") <= 6000);
    assert_true(redis_int("PTTL y") <= 1000);
    assert_true(redis_int("PTTL z") <= 6000);
}

/* A new master has no replicas at first, and refuses the guard's script. */
static void a_lack_of_replicas_is_over_with_the_next_retry(void **state)
{
    struct peer *a;
    struct hold *A, *B;
    int64_t back_ms;
    int ups;

    (void)state;
    stage.notes_may_stay = true; /* the server refuses writes */
    promote();
    guard_record_open_in(&stage.server, LONG_GUARD_MS, 0);
    a = long_guarded("a");
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 30000));
    EXPECT("A granted");
    ups = a->ups;
    redis_ok("DEL " GUARD_RECORD); /* as if this were another server */
    redis_ok("CONFIG SET min-replicas-to-write 1");
    redis_ok("CLIENT KILL TYPE normal");
    UNTIL(a->ups > ups);
    B = acquire_hold_with(a, "T", "y", asking(.lease_ms = 30000));
    EXPECT("T ECONN");
    assert_says(B, "NOREPLICAS");
    B = acquire_hold_with(a, "B", "y", asking(.wait_ms = -1, .lease_ms = 30000));
    stage_expect_nothing(1500); /* A is verified again and again */
    assert_int_equal(peer_stats(a).guard_left_ms, 1);
    redis_ok("CONFIG SET min-replicas-to-write 0");
    back_ms = now_ms();
    UNTIL(peer_stats(a).guard_left_ms > 1);
    back_ms = now_ms() - back_ms;
    UNTIL(lw_lock_remaining_ms(A->lock) > 29000);
    UNTIL(strstr(lw_lock_errstr(B->lock), "the server was promoted; no locks for 4") !=
          NULL);
    assert_int_equal(B->result, PENDING);
    stage_skip_if_lag(1200);
    assert_true(back_ms < 2500); /* the next heartbeat is 3.5 s later, or more */
}

/* The hold is verified while it is unknown which leases may be extended: it has to be
 * renewed when that is known. */
static void a_hold_is_renewed_when_the_server_is_known(void **state)
{
    struct peer *a;
    struct hold *A;
    int ups;

    (void)state;
    promote();
    guard_record_open_in(&stage.server, LONG_GUARD_MS, 0);
    a = long_guarded("a");
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 30000));
    EXPECT("A granted");
    ups = a->ups;
    redis_ok("DEL " GUARD_RECORD);
    redis_ok("RPUSH " GUARD_RECORD " x"); /* the guard's script fails, nothing else */
    redis_ok("CLIENT KILL TYPE normal");
    UNTIL(a->ups > ups);
    stage_expect_nothing(1000);
    assert_held_by_redis(A);
    redis_ok("DEL " GUARD_RECORD);
    /* This request makes the client send the guard's script again. */
    acquire_hold_with(a, "T", "y", asking(.lease_ms = 30000));
    UNTIL(lw_lock_remaining_ms(A->lock) > 29200);
}

/* ---- restarts ---- */

static struct peer *young(const char *label, struct server *server)
{
    struct peer *peer = guarded_at(label, server->url);

    UNTIL(peer->up);
    return peer;
}

/* While a background fsync runs, writes wait for it. */
static bool has_written(struct server *server)
{
    redisReply *reply = server_command(server, "INFO persistence");
    bool yes = strstr(reply->str, "\naof_buffer_length:0\r") != NULL;

    freeReplyObject(reply);
    return yes;
}

/* One server loses everything, the other one nothing. On both, the holder from before is
 * the only one that may believe that it holds, until the guard time has passed. */
static void a_restart_closes_and_holders_renew_or_lose(void **state)
{
    struct peer *a, *b, *c, *d;
    struct hold *B, *C, *D;
    int64_t killed_ms;

    (void)state;
    close_for(0);
    start_other("--appendonly yes --appendfsync everysec");
    guard_record_open_in(&other, GUARD_MS, 0);
    a = guarded("a");
    b = guarded("b");
    c = young("c", &other);
    d = young("d", &other);
    (void)take_guarded(a, "A", "x");
    C = take_guarded(c, "C", "x");
    B = ask_guarded(b, "B", "x", -1);
    D = ask_guarded(d, "D", "x", -1);
    wait_queued("x", 1);
    UNTIL(peer_stats(d).waiting == 1 && has_written(&other));
    killed_ms = now_ms();
    server_restart(&stage.server);
    server_restart(&other);
    EXPECT("A lost ENOTHELD");
    UNTIL(a->ups == 2 && b->ups == 2 && c->ups == 2 && d->ups == 2);
    assert_closed();
    assert_true(guard_record_left_us(&other) > 0);
    stage_expect_nothing(2 * LEASE_MS); /* C has been renewed since */
    assert_int_equal(lw_lock_state(C->lock), LW_HELD);
    assert_true(lw_lock_remaining_ms(C->lock) > 0);
    assert_int_equal(redis_int("EXISTS x"), 0);
    EXPECT("B granted");
    assert_open();
    assert_true(B->result_ms - killed_ms >= GUARD_MS);
    UNTIL(guard_record_left_us(&other) < 0);
    release_hold(C);
    EXPECT_SET("C released OK; D granted");
    assert_true(D->fence > C->fence);
}

/* ---- writes that were lost ---- */

/* Returns the file to which the server appends its writes; before Redis 7 there is one,
 * later the last of several. */
static const char *file_of_writes(const struct server *server)
{
    static char path[512];
    char folder[128];
    struct dirent *entry;
    DIR *dir;

    (void)snprintf(folder, sizeof(folder), "%s/appendonlydir", server->dir);
    dir = opendir(folder);
    (void)snprintf(path, sizeof(path), "%s/appendonly.aof", server->dir);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strstr(entry->d_name, ".incr.aof") != NULL) {
            (void)snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return path;
}

static off_t size_of_writes(const struct server *server)
{
    struct stat file;

    assert_int_equal(stat(file_of_writes(server), &file), 0);
    return file.st_size;
}

static bool has_loaded(void)
{
    redisReply *reply = server_try(&stage.server, "PING");
    bool yes = reply->type != REDIS_REPLY_ERROR;

    freeReplyObject(reply);
    return yes;
}

/* X releases, and H is handed the lock. Both writes are lost with the server, and H
 * cannot be reached. Then X, whose release was not answered, sends it again: the key has
 * X's token, and W waits. */
static void a_lost_release_that_is_sent_again_hands_over_to_nobody(void **state)
{
    struct proxy *to_x, *to_h;
    struct peer *x, *h, *w;
    struct hold *T, *X, *H, *W;
    char value[160];
    off_t size;

    (void)state;
    start_other("--appendonly yes --appendfsync everysec");
    guard_record_open_in(&other, GUARD_MS, 0);
    to_x = proxy_start(other.path, false);
    to_h = proxy_start(other.path, false);
    x = guarded_at("x", to_x->url);
    h = guarded_at("h", to_h->url);
    w = young("w", &other);
    UNTIL(x->up && h->up && to_x->subscriptions > 0 && to_h->subscriptions > 0);
    server_ask_in_place(&stage.server, &other);
    T = take_guarded(w, "T", "n"); /* X is handed the lock: its release reads the queue */
    X = ask_guarded(x, "X", "n", -1);
    wait_queued("n", 1);
    release_hold(T);
    EXPECT_SET("T released OK; X granted");
    H = ask_guarded(h, "H", "n", -1);
    wait_queued("n", 1);
    W = ask_guarded(w, "W", "n", -1);
    wait_queued("n", 2);
    (void)snprintf(value, sizeof(value), "%s", redis_text("GET n"));
    UNTIL(has_written(&other));
    size = size_of_writes(&other);
    proxy_swallow(to_x, COMMANDS, TO_CLIENT, true);
    release_hold(X);
    EXPECT("H granted");
    proxy_black_hole(to_h, true);
    proxy_refuse(to_x, true);
    server_ask_in_place(&stage.server, &stage.server);
    server_kill(&other);
    assert_int_equal(truncate(file_of_writes(&other), size), 0);
    server_restart(&other);
    server_ask_in_place(&stage.server, &other);
    UNTIL(has_loaded());
    assert_string_equal(redis_text("GET n"), value);
    assert_int_equal(redis_int("ZCARD %s", queue_of("n")), 2);
    UNTIL(w->ups == 2);
    proxy_swallow(to_x, COMMANDS, TO_CLIENT, false);
    proxy_refuse(to_x, false);
    EXPECT("X released OK");
    assert_true(lw_lock_remaining_ms(H->lock) > 0);
    assert_int_equal(redis_int("EXISTS n"), 0);
    EXPECT("H lost ELOST");
    stage_expect_nothing(2000);
    assert_true(guard_record_left_us(&other) > 0);
    EXPECT("W granted");
    assert_true(guard_record_left_us(&other) <= 0);
    server_ask_in_place(&stage.server, &stage.server);
    assert_true(W->result_ms > H->lost_ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_server_that_has_just_started_grants_nothing),
        STAGE_TEST(an_old_server_without_a_record_waits_as_a_new_one),
        STAGE_TEST(a_reconnect_to_the_same_process_waits_for_nothing),
        STAGE_TEST(a_first_replica_changes_nothing),
        STAGE_TEST(a_promotion_closes_what_was_open),
        STAGE_TEST(a_promotion_that_the_server_forgets_is_waited_for),
        STAGE_TEST(a_lease_that_ends_before_the_old_master_stops_is_not_extended),
        STAGE_TEST(nor_by_a_detach),
        STAGE_TEST(a_lack_of_replicas_is_over_with_the_next_retry),
        STAGE_TEST(a_hold_is_renewed_when_the_server_is_known),
        STAGE_TEST(a_restart_closes_and_holders_renew_or_lose),
        STAGE_TEST(a_lost_release_that_is_sent_again_hands_over_to_nobody),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/*
 * The guard (guard_ms) at real servers: after a restart or a promotion a server grants no
 * locks for the guard time, in every call that acquires, and holders renew and release in
 * the meantime. Depends on test/lib and its scenes alone.
 *
 * The shortest guard time is 15 s. Most tests do not wait so long: close_for() writes a
 * record as another client would, so that the gate opens when the test wants. The first
 * tests wait for the real time; they begin with a server that has just started.
 *
 * A grant must come after the time that is in the record, by the server's clock. */
#include "api/keep_scene.h"
#include "fake_redis.h"
#include "groups.h"
#include "guard_record.h"
#include "monitor.h"
#include "proxy.h"
#include "sentinel.h"
#include "server/scene.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GUARD_MS 15000
#define LEASE_MS 3000 /* the longest that it allows */

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

/* Clients that connect from now on are granted locks in so many ms; 0: at once. */
static void close_for(int ms)
{
    guard_record_open_in(&stage.server, GUARD_MS, ms);
}

static void assert_open(void)
{
    assert_true(guard_record_left_us(&stage.server) <= 0);
}

static void assert_closed(void)
{
    assert_true(guard_record_left_us(&stage.server) > 0);
}

/* Waits until the stage's server has run for longer than the guard time. */
static void grow_old(void)
{
    while (redis_info("uptime_in_seconds") < GUARD_MS / 1000 + 1) {
        stage_run_for(100);
    }
}

/* ---- clients ---- */

static struct peer *guarded_at(const char *label, const char *url)
{
    return peer_start_at(
        label, url,
        client_of(.local_turns = 1, .guard_ms = GUARD_MS, .backoff_max_ms = 100));
}

static struct peer *guarded(const char *label)
{
    struct peer *peer = guarded_at(label, stage.server.url);

    peer_wait_ready(peer);
    return peer;
}

static struct hold *ask_guarded(struct peer *peer, const char *label, const char *name,
                                int64_t wait_ms)
{
    return ask_with(peer, label, name, asking(.wait_ms = wait_ms, .lease_ms = LEASE_MS));
}

static struct hold *take_guarded(struct peer *peer, const char *label, const char *name)
{
    struct hold *hold = ask_guarded(peer, label, name, 0);

    UNTIL(hold->result != PENDING);
    assert_int_equal(hold->result, LW_OK);
    stage_clear_trace();
    return hold;
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

static void open_at_once(struct peer *peer)
{
    struct hold *hold = ask_guarded(peer, "O", "o", 0);

    EXPECT("O granted");
    assert_int_equal(peer_stats(peer).guard_left_ms, 0);
    assert_int_equal(peer_stats(peer).guarded, 0);
    assert_false(peer_logged(peer, "no locks are granted"));
    let_go(hold);
    EXPECT("O released OK");
    drop(hold);
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
    assert_true(peer_logged(a, "the server was restarted; no locks are granted for 1"));
    A = ask_guarded(a, "A", "x", 0);
    EXPECT("A ECONN");
    assert_says(A, "the server was restarted; no locks for 1");
    assert_says(A, " s more");
    assert_true(A->result_ms - A->asked_ms < 1000);
    assert_true(peer_stats(a).guarded > 0);
    B = ask_guarded(a, "B", "x", 500);
    EXPECT("B ETIMEOUT");
    assert_says(B, "the server was restarted; no locks for 1");
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

static void an_old_server_grants_at_once(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    grow_old();
    a = guarded_at("a", stage.server.url);
    A = ask_guarded(a, "A", "x", 0); /* tried when the link comes up */
    EXPECT("A granted");
    assert_open();
    assert_int_equal(peer_stats(a).guarded, 0);
    open_at_once(a);
    assert_held_by_redis(A);
}

static void a_reconnect_to_the_same_process_waits_for_nothing(void **state)
{
    struct peer *a;

    (void)state;
    grow_old();
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
    grow_old();
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

/* Data travels to the replica and back, also the record: a server that was a replica for
 * a moment has its own record again, and is another one all the same. */
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
    stage_run_for(3000); /* the uptime must not count after a promotion */
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

/* The stage's server is one that was promoted, and has the same data. */
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
 * looks like one that has run for longer than the guard time. */
static void a_promotion_that_the_server_forgets_is_waited_for(void **state)
{
    int port = server_listen(&stage.server);
    struct peer *a, *b;

    (void)state;
    redis_ok("CONFIG SET repl-diskless-sync-delay 0");
    start_other("--repl-diskless-sync-delay 0 --repl-backlog-ttl 1");
    freeReplyObject(server_command(&other, "REPLICAOF 127.0.0.1 %d", port));
    stage_run_for(GUARD_MS + 2000);
    while (!other_reports("master_link_status:up")) {
        stage_run_for(20);
    }
    promote_other();
    a = guarded_at("a", other.url);
    UNTIL(a->up);
    assert_true(peer_stats(a).guard_left_ms > 0);
    while (!other_reports("second_repl_offset:-1")) {
        stage_run_for(20);
    }
    b = guarded_at("b", other.url);
    UNTIL(b->up);
    assert_in_range(peer_stats(b).guard_left_ms, 1000, GUARD_MS + 1000);
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

/* The old master may run for 11 s more. Until then the lease of B ends, and the old
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
    A = ask_with(a, "A", "x", asking(.lease_ms = 30000));
    EXPECT("A granted");
    B = ask_with(a, "B", "y", asking(.lease_ms = 6000));
    EXPECT("B granted");
    stage_run_for(1000);
    ups = a->ups;
    guard_record_open_in(&stage.server, LONG_GUARD_MS, LONG_GUARD_MS - 1000);
    redis_ok("CLIENT KILL TYPE normal");
    UNTIL(a->ups > ups);
    UNTIL(lw_lock_remaining_ms(A->lock) > 29200); /* of 30000, less the drift */
    assert_true(lw_lock_remaining_ms(B->lock) <= 5000);
    extend(A, 0);
    EXPECT("A renewed OK");
    extend(B, 0);
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

/* Whoever has the token of a lock that was detached relies on its lease. */
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
    A = ask_with(a, "A", "v", asking(.lease_ms = 30000));
    B = ask_with(a, "B", "w", asking(.lease_ms = 6000));
    C = ask_with(a, "C", "x", asking(.lease_ms = 6000, .mode = LW_SHARED));
    D = ask_with(a, "D", "y", asking(.lease_ms = 6000));
    E = ask_with(a, "E", "z", asking(.lease_ms = 6000));
    EXPECT_SET("A granted; B granted; C granted; D granted; E granted");
    detach_refused(A, LONG_GUARD_MS - 12000 + 1, LW_EINVAL,
                   "keep_ms 33001 is not between");
    ups = a->ups;
    guard_record_open_in(&stage.server, LONG_GUARD_MS, LONG_GUARD_MS - 1000);
    redis_ok("CLIENT KILL TYPE normal");
    UNTIL(a->ups > ups);
    detach_hold(A,
                LONG_GUARD_MS - 12000); /* its lease ends behind the old master's time */
    detach_hold(B, 30000);
    detach_hold(C, 30000);
    detach_hold(D, 1000);
    detach_hold(E, 0);
    EXPECT_SET("A detached OK; B detached EREDIS; C detached EREDIS; D detached OK; "
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
    stage.notes_may_stay = true; /* it refuses them */
    promote();
    guard_record_open_in(&stage.server, LONG_GUARD_MS, 0);
    a = long_guarded("a");
    A = ask_with(a, "A", "x", asking(.lease_ms = 30000));
    EXPECT("A granted");
    ups = a->ups;
    redis_ok("DEL " GUARD_RECORD); /* as if the server was another one */
    redis_ok("CONFIG SET min-replicas-to-write 1");
    redis_ok("CLIENT KILL TYPE normal");
    UNTIL(a->ups > ups);
    B = ask_with(a, "T", "y", asking(.lease_ms = 30000));
    EXPECT("T EREDIS");
    assert_says(B, "NOREPLICAS");
    B = ask_with(a, "B", "y", asking(.wait_ms = -1, .lease_ms = 30000));
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
    A = ask_with(a, "A", "x", asking(.lease_ms = 30000));
    EXPECT("A granted");
    ups = a->ups;
    redis_ok("DEL " GUARD_RECORD);
    redis_ok("RPUSH " GUARD_RECORD " x"); /* refuses the question, and nothing else */
    redis_ok("CLIENT KILL TYPE normal");
    UNTIL(a->ups > ups);
    stage_expect_nothing(1000);
    assert_held_by_redis(A);
    redis_ok("DEL " GUARD_RECORD);
    ask_with(a, "T", "y", asking(.lease_ms = 30000)); /* which asks again */
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
    struct hold *A, *B, *C, *D;
    int64_t killed_ms;

    (void)state;
    close_for(0);
    start_other("--appendonly yes --appendfsync everysec");
    guard_record_open_in(&other, GUARD_MS, 0);
    a = guarded("a");
    b = guarded("b");
    c = young("c", &other);
    d = young("d", &other);
    A = take_guarded(a, "A", "x");
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
    assert_true(B->result_ms - killed_ms > GUARD_MS - 1000); /* INFO counts in seconds */
    UNTIL(guard_record_left_us(&other) < 0);
    let_go(C);
    EXPECT_SET("C released OK; D granted");
    assert_true(D->fence > C->fence);
    assert_true(A->lost_ms - killed_ms < LEASE_MS);
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
    let_go(T);
    EXPECT_SET("T released OK; X granted");
    H = ask_guarded(h, "H", "n", -1);
    wait_queued("n", 1);
    W = ask_guarded(w, "W", "n", -1);
    wait_queued("n", 2);
    (void)snprintf(value, sizeof(value), "%s", redis_text("GET n"));
    UNTIL(has_written(&other));
    size = size_of_writes(&other);
    proxy_swallow(to_x, COMMANDS, TO_CLIENT, true);
    let_go(X);
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

/* ---- what happens while a server is closed ---- */

#define CLOSED_MS 2000

/* Closes the stage's server to clients that are connected, as if it was another one. */
static void close_to(struct peer *a, struct peer *b)
{
    int ups[2] = {a->ups, b->ups};

    close_for(CLOSED_MS);
    redis_ok("CLIENT KILL TYPE normal");
    redis_ok("CLIENT KILL TYPE pubsub");
    UNTIL(a->ups > ups[0] && b->ups > ups[1]);
    peer_wait_ready(a);
    peer_wait_ready(b);
}

static void grants_wait_for_the_time_from_the_server_s_reply(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    close_for(CLOSED_MS);
    (void)guarded("b");                  /* has the server load the scripts */
    redis_ok("CLIENT PAUSE 1000 WRITE"); /* INFO is answered, and no script */
    a = guarded_at("a", stage.server.url);
    A = ask_guarded(a, "A", "x", -1);
    EXPECT("A granted");
    assert_open();
    assert_true(A->result_ms - A->asked_ms >= CLOSED_MS - 50);
}

static void a_try_waits_for_the_server_s_reply(void **state)
{
    struct peer *a;

    (void)state;
    close_for(0);
    a = guarded_at("a", stage.server.url);
    open_at_once(a); /* tried as soon as the link is up */
}

/* A waiter retries after 50, 100, 200, 400 and 800 ms, each with a jitter of a tenth: the
 * fifth retry is within 1710 ms, the sixth not before 2110 ms have passed. */
static void waiters_are_served_by_the_event_of_the_opening(void **state)
{
    struct peer *a;
    struct hold *A;
    int64_t opens_ms;

    (void)state;
    opens_ms = now_ms() + 1750;
    close_for(1750);
    a = guarded("a");
    A = ask_guarded(a, "A", "x", -1);
    EXPECT("A granted");
    assert_open();
    stage_skip_if_lag(100);
    assert_true(A->result_ms - opens_ms < 300);
}

/* The record is asked about at a connection alone. Without heartbeats it would be lost
 * after a day, and each connection from then on would begin a wait. */
static void heartbeats_keep_the_record(void **state)
{
    struct peer *a;
    char record[256];

    (void)state;
    close_for(0);
    (void)snprintf(record, sizeof(record), "%s", guard_record_text(&stage.server));
    a = peer_ready("a", client_of(.guard_ms = GUARD_MS, .request_timeout_ms = 200));
    redis_ok("PEXPIRE " GUARD_RECORD " 60000");
    UNTIL(redis_int("PTTL " GUARD_RECORD) > 80000000);
    assert_string_equal(guard_record_text(&stage.server), record);
    assert_int_equal(peer_stats(a).guard_left_ms, 0);
}

static void a_claim_that_repeats_its_request_is_not_granted(void **state)
{
    struct proxy *proxy;
    struct peer *a;
    struct hold *A;

    (void)state;
    close_for(0);
    proxy = proxy_start(stage.server.path, false);
    a = guarded_at("a", proxy->url);
    UNTIL(a->up);
    proxy_swallow(proxy, COMMANDS, TO_CLIENT, true);
    A = ask_guarded(a, "A", "x", -1);
    while (redis_int("EXISTS x") == 0) {
        stage_run_for(5);
    }
    redis_ok("DEL x"); /* the write is lost */
    close_for(CLOSED_MS);
    proxy_swallow(proxy, COMMANDS, TO_CLIENT, false);
    proxy_cut(proxy, COMMANDS);
    UNTIL(a->ups == 2);
    stage_expect_nothing(CLOSED_MS / 2);
    assert_closed();
    assert_int_equal(redis_int("EXISTS x"), 0);
    EXPECT("A granted");
    assert_open();
    assert_held_by_redis(A);
}

static void a_mutex_is_released_and_handed_to_no_waiter(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;

    (void)state;
    close_for(0);
    a = guarded("a");
    b = guarded("b");
    A = take_guarded(a, "A", "x");
    B = ask_guarded(b, "B", "x", -1);
    wait_queued("x", 1);
    close_to(a, b);
    extend(A, LEASE_MS);
    EXPECT("A renewed OK");
    let_go(A);
    EXPECT("A released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
    assert_int_equal(redis_int("ZCARD %s", queue_of("x")), 1);
    stage_expect_nothing(CLOSED_MS / 4);
    assert_closed();
    assert_int_equal(redis_int("EXISTS x"), 0);
    EXPECT("B granted");
    assert_open();
    assert_true(B->fence > A->fence);
}

/* The next handle of the same client has the lock without a command, by the same token:
 * that is no grant of the server. Behind that, the release does not re-acquire. */
static void handles_of_one_client_do_not_re_acquire(void **state)
{
    struct peer *a, *b;
    struct hold *A;

    (void)state;
    close_for(0);
    a = guarded("a");
    b = guarded("b");
    A = take_guarded(a, "A", "x");
    ask_guarded(a, "N", "x", -1);
    close_to(a, b);
    let_go(A);
    EXPECT("A released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
    stage_expect_nothing(CLOSED_MS / 4);
    assert_closed();
    EXPECT("N granted");
    assert_open();
}

/* A re-acquire was sent while the gate was open, and its reply is lost: it is not sent
 * again while closed, though it contains the release. */
static void a_re_acquire_is_not_repeated(void **state)
{
    struct proxy *proxy;
    struct peer *a;
    struct hold *A, *N;

    (void)state;
    close_for(0);
    proxy = proxy_start(stage.server.path, false);
    a = peer_start_at("a", proxy->url,
                      client_of(.local_turns = 1, .guard_ms = GUARD_MS,
                                .request_timeout_ms = 500, .backoff_max_ms = 100));
    UNTIL(a->up);
    A = take_guarded(a, "A", "x");
    N = ask_guarded(a, "N", "x", -1);
    proxy_swallow(proxy, COMMANDS, TO_CLIENT, true);
    let_go(A);
    UNTIL(strstr(redis_text("GET x"), ":1:") == NULL); /* it is the next token's */
    redis_ok("DEL x");                                 /* the write is lost */
    close_for(CLOSED_MS);
    proxy_swallow(proxy, COMMANDS, TO_CLIENT, false);
    proxy_cut(proxy, COMMANDS);
    UNTIL(a->ups == 2);
    EXPECT("A released EUNKNOWN");
    assert_closed();
    assert_int_equal(redis_int("EXISTS x"), 0);
    assert_int_equal(N->result, PENDING);
    EXPECT("N granted");
    assert_open();
    assert_held_by_redis(N);
}

static void a_waiter_that_leaves_serves_no_queue(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B, *L;

    (void)state;
    close_for(0);
    a = guarded("a");
    b = guarded("b");
    A = take_guarded(a, "A", "x");
    L = ask_guarded(a, "L", "y", -1);
    EXPECT("L granted");
    drop(L);
    B = ask_guarded(b, "B", "x", -1);
    wait_queued("x", 1);
    struct peer *c = guarded("c");
    L = ask_guarded(c, "L", "x", -1);
    wait_queued("x", 2);
    close_to(b, c);
    redis_ok("DEL x"); /* the lease of A expires */
    drop(L);
    UNTIL(redis_int("ZCARD %s", queue_of("x")) == 1);
    assert_closed();
    assert_int_equal(redis_int("EXISTS x"), 0);
    EXPECT_SET("A lost ENOTHELD; B granted");
    assert_open();
    assert_true(B->fence > A->fence);
}

static void on_broken(struct lw_client *client, int status, const char *why, void *arg)
{
    (void)client, (void)why, (void)arg;
    stage_note("broken %s", status_name(status));
}

static void on_inspected(struct lw_client *client, int status,
                         const struct lw_inspection *found, const char *why, void *arg)
{
    (void)client, (void)found, (void)why, (void)arg;
    stage_note("inspected %s", status_name(status));
}

static void a_break_hands_over_to_nobody(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;

    (void)state;
    close_for(0);
    a = guarded("a");
    b = guarded("b");
    A = take_guarded(a, "A", "x");
    B = ask_guarded(b, "B", "x", -1);
    wait_queued("x", 1);
    close_to(a, b);
    assert_int_equal(lw_break(b->client, "x", NULL, on_broken, NULL), LW_OK);
    EXPECT_SET("broken OK; A lost ENOTHELD");
    assert_closed();
    assert_int_equal(redis_int("EXISTS x"), 0);
    EXPECT("B granted");
    assert_open();
    assert_true(B->fence > A->fence);
}

#define RW_QUEUE "lockwire:2:rwqueue:{x}"

static void queue_up(long long members)
{
    while (redis_int("ZCARD " RW_QUEUE) != members) {
        stage_run_for(10);
    }
}

static struct hold *ask_mode(struct peer *peer, const char *label, enum lw_mode mode)
{
    return ask_with(peer, label, "x",
                    asking(.wait_ms = -1, .lease_ms = LEASE_MS, .mode = mode,
                           .permits = mode == LW_SHARED ? 2 : 0));
}

static void a_read_write_lock_is_released_to_no_waiter(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;

    (void)state;
    close_for(0);
    a = guarded("a");
    b = guarded("b");
    A = ask_mode(a, "A", LW_EXCLUSIVE);
    EXPECT("A granted");
    B = ask_mode(b, "B", LW_SHARED);
    queue_up(1);
    close_to(a, b);
    let_go(A);
    EXPECT("A released OK");
    stage_expect_nothing(CLOSED_MS / 4);
    assert_closed();
    assert_int_equal(redis_int("HEXISTS x mode"), 0);
    EXPECT("B granted");
    assert_open();
    assert_true(B->fence > A->fence);
}

/* An adoption is a grant: the write of another one may be lost. */
static void a_token_is_adopted_when_the_gate_opens(void **state)
{
    static const enum lw_mode modes[] = {LW_MUTEX, LW_EXCLUSIVE, LW_SHARED};
    struct peer *a, *b;

    (void)state;
    close_for(0);
    a = guarded("a");
    b = guarded("b");
    for (int i = 0; i < 3; i++) {
        struct hold *A = ask_mode(a, "A", modes[i]), *B;
        char token[96];

        EXPECT("A granted");
        (void)snprintf(token, sizeof(token), "%s", lw_lock_token(A->lock));
        detach_hold(A, LEASE_MS);
        EXPECT("A detached OK");
        redis_ok("PEXPIRE x 600000"); /* so that it outlives the test's own time */
        close_to(a, b);
        B = adopt_hold(b, "B", "x", token,
                       asking(.lease_ms = LEASE_MS, .mode = modes[i]));
        EXPECT("B ECONN");
        assert_says(B, "; no locks for ");
        B = adopt_hold(b, "B", "x", token,
                       asking(.wait_ms = -1, .lease_ms = LEASE_MS, .mode = modes[i],
                              .max_waiting = 1));
        stage_expect_nothing(CLOSED_MS / 4);
        assert_closed();
        if (modes[i] == LW_MUTEX) {
            assert_string_equal(redis_text("GET x"), token);
        } else {
            assert_int_equal(redis_int("HEXISTS x h:%s", token), 1);
        }
        EXPECT("B granted");
        assert_open();
        assert_true(B->fence > A->fence);
        assert_held_by_redis(B);
        let_go(B);
        EXPECT("B released OK");
    }
}

/* Until the server has removed what an expired hold left in the hash. */
static bool has_one_hold(void)
{
    return strncmp(redis_text("HGET x mode"), "2 1 ", 4) == 0;
}

/* A renewal finds that the lease of another hold has expired, so that the first waiter
 * could enter. */
static void a_renewal_lets_in_no_waiter(void **state)
{
    struct peer *a, *b, *dead;
    struct hold *A, *B;

    (void)state;
    stage.notes_may_stay = true;
    close_for(0);
    a = guarded("a");
    b = guarded("b");
    dead = peer_ready("d", NULL);
    A = ask_mode(a, "A", LW_SHARED);
    EXPECT("A granted");
    ask_with(dead, "D", "x", asking(.lease_ms = 1000, .mode = LW_SHARED, .permits = 2));
    EXPECT("D granted");
    B = ask_mode(b, "B", LW_SHARED);
    queue_up(1);
    close_for(2 * CLOSED_MS);
    peer_free(dead);
    int ups[] = {a->ups, b->ups};
    redis_ok("CLIENT KILL TYPE normal");
    redis_ok("CLIENT KILL TYPE pubsub");
    UNTIL(a->ups > ups[0] && b->ups > ups[1]);
    UNTIL(has_one_hold());
    assert_closed();
    stage_expect_nothing(CLOSED_MS / 4);
    assert_closed();
    assert_int_equal(redis_int("ZCARD " RW_QUEUE), 1);
    assert_int_equal(lw_lock_state(A->lock), LW_HELD);
    EXPECT("B granted");
    assert_open();
    assert_true(B->fence > A->fence);
}

/* The message of a client without the guard, or of one that released before. */
static void a_hand_over_is_believed_when_the_gate_opens(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;

    (void)state;
    close_for(0);
    a = peer_ready("a", client_of(.local_turns = 1));
    b = peer_ready("b", client_of(.local_turns = 1, .guard_ms = GUARD_MS,
                                  .backoff_max_ms = 100, .claim_ms = 10000));
    A = take_guarded(a, "A", "x");
    B = ask_guarded(b, "B", "x", -1);
    wait_queued("x", 1);
    close_to(a, b);
    let_go(A);
    EXPECT("A released OK");
    UNTIL(redis_int("ZCARD %s", queue_of("x")) == 0);
    stage_expect_nothing(CLOSED_MS / 4);
    assert_closed();
    assert_int_equal(redis_int("EXISTS x"), 1); /* it is B's, and B does not hold it */
    EXPECT("B granted");
    assert_open();
    assert_true(B->fence > A->fence);
    assert_held_by_redis(B);
}

/* ---- servers that do not open ---- */

static int logged_times(const struct peer *peer, const char *text)
{
    int times = 0;

    for (const char *at = peer->log; (at = strstr(at, text)) != NULL; at++) {
        times++;
    }
    return times;
}

static void assert_refused_with(struct peer *peer, const char *text)
{
    struct hold *hold = ask_guarded(peer, "R", "r", 0);

    EXPECT("R EREDIS");
    assert_says(hold, text);
    assert_true(peer_stats(peer).guard_left_ms > 0);
    drop(hold);
}

static int asked_times(void)
{
    int times = 0;

    for (const char *at = monitor_text();
         (at = strstr(at, "\"" GUARD_RECORD "\"")) != NULL; at++) {
        times++;
    }
    return times;
}

static void two_guard_times_exclude_each_other(void **state)
{
    static const char text[] = "other clients of this server use another guard time";
    struct peer *a, *b;
    struct hold *B;
    char line[160];

    (void)state;
    close_for(0);
    a = guarded("a");
    b = peer_ready("b", client_of(.local_turns = 1, .guard_ms = GUARD_MS + 1000,
                                  .request_timeout_ms = 200, .backoff_max_ms = 50));
    assert_refused_with(b, text);
    B = ask_guarded(b, "B", "x", -1); /* does not wait */
    EXPECT("B EREDIS");
    assert_says(B, text);
    monitor_start();
    UNTIL(asked_times() >= 3); /* at heartbeats */
    monitor_stop();
    (void)snprintf(line, sizeof(line), "3 no locks are granted by this server: %s", text);
    assert_int_equal(logged_times(b, line), 1);
    assert_int_equal(logged_times(b, text), 1);
    open_at_once(a);
    grow_old();
    redis_ok("DEL " GUARD_RECORD);
    UNTIL(peer_stats(b).guard_left_ms == 0);
    ask_with(b, "C", "x", asking(.lease_ms = LEASE_MS));
    EXPECT("C granted");
    assert_open();
}

static struct peer *user(const char *rules)
{
    redis_ok("ACL SETUSER app reset on >secret +@all ~* &*");
    char line[256];
    (void)snprintf(line, sizeof(line), "ACL SETUSER app %s", rules);
    redis_ok(line);
    return peer_start("u", client_of(.username = "app", .password = "secret",
                                     .local_turns = 1, .guard_ms = GUARD_MS,
                                     .request_timeout_ms = 200, .backoff_max_ms = 100));
}

/* The account may do everything again. (The fence counter is another matter.) */
static void serves_when_permitted(struct peer *peer)
{
    redis_ok("ACL SETUSER app +@all allkeys");
    grow_old();
    UNTIL(peer->up && peer_stats(peer).guard_left_ms == 0); /* at a heartbeat */
    ask_with(peer, "B", "x",
             asking(.wait_ms = -1, .lease_ms = LEASE_MS, .flags = LW_NO_FENCE));
    EXPECT("B granted");
    assert_open();
}

static void INFO_that_is_denied_is_the_reason_of_a_link_that_stays_down(void **state)
{
    struct peer *u = user("-info");
    struct hold *A;

    (void)state;
    A = ask_guarded(u, "A", "x", 0);
    EXPECT("A ECONN");
    assert_says(A, "INFO does not report the run id");
    assert_int_equal(u->ups, 0);
    assert_non_null(strstr(u->whys, "INFO does not report the run id"));
    serves_when_permitted(u);
}

static void a_record_that_is_denied_is_the_reason_of_a_refusal(void **state)
{
    struct peer *u = user("resetkeys ~x ~r ~lockwire:fence ~lockwire:2:* "
                          "~lockwire:client:*");

    (void)state;
    UNTIL(u->up);
    assert_refused_with(u, "NOPERM");
    assert_int_equal(logged_times(u, "no locks are granted by this server: NOPERM"), 1);
    serves_when_permitted(u);
}

static void scripts_that_are_denied_are_the_reason_of_a_refusal(void **state)
{
    struct peer *u = user("-evalsha -eval");

    (void)state;
    UNTIL(u->up);
    assert_refused_with(u, "NOPERM");
    assert_int_equal(logged_times(u, "no locks are granted by this server: NOPERM"), 1);
    serves_when_permitted(u);
}

static void a_record_of_another_type_is_the_reason_of_a_refusal(void **state)
{
    struct peer *u;

    (void)state;
    redis_ok("LPUSH " GUARD_RECORD " 1");
    u = user("~*");
    UNTIL(u->up);
    assert_refused_with(u, "WRONGTYPE");
    stage_run_for(1000); /* some heartbeats */
    assert_int_equal(logged_times(u, "no locks are granted by this server: "), 1);
    redis_ok("DEL " GUARD_RECORD);
    serves_when_permitted(u);
}

/* ---- servers that reply nonsense ---- */

static const char *guard_reply; /* of the fake server; or FAKE_REAL */

static const char *reply_to_guard(struct fake_redis *fake, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], GUARD_RECORD) == 0 && strcmp(argv[0], "PEXPIRE") != 0) {
            fake->count++;
            return guard_reply;
        }
    }
    return FAKE_REAL;
}

/* Longer than a reason may be, and with bytes that are not printable. */
static void a_long_refusal_is_logged_once(void **state)
{
    static char reply[400] = "-ERR \x01";
    struct fake_redis *fake;
    struct peer *a;

    (void)state;
    close_for(0);
    memset(reply + strlen(reply), 'x', 300);
    strcpy(reply + strlen(reply), "\r\n");
    guard_reply = reply;
    fake = fake_start(reply_to_guard);
    a = peer_start_at(
        "a", fake->url,
        client_of(.local_turns = 1, .guard_ms = GUARD_MS, .request_timeout_ms = 200));
    UNTIL(fake->count >= 4); /* at heartbeats */
    assert_int_equal(logged_times(a, "no locks are granted by this server: ERR"), 1);
    assert_int_equal(a->ups, 1);
    guard_reply = FAKE_REAL;
    UNTIL(peer_stats(a).guard_left_ms == 0);
}

static void a_reply_that_no_server_gives_ends_the_connection(void **state)
{
    static const char *const replies[] = {":-2\r\n", ":15001\r\n", "+OK\r\n", "$-1\r\n"};
    struct fake_redis *fake;
    struct peer *a;

    (void)state;
    stage.notes_may_stay = true;
    close_for(0);
    fake = fake_start(reply_to_guard);
    for (size_t i = 0; i < sizeof(replies) / sizeof(*replies); i++) {
        int accepted = fake->accepted;

        guard_reply = replies[i];
        a = guarded_at("a", fake->url);
        UNTIL(fake->accepted > accepted + 3);
        assert_int_equal(a->ups, 0);
        assert_int_equal(peer_stats(a).guard_left_ms, 0); /* without a connection */
        guard_reply = FAKE_REAL;
        UNTIL(a->up);
        open_at_once(a);
        peer_free(a);
    }
}

/* INFO has the difference of two times in whole seconds: nearly one of them may be too
 * many. `uptime` is the entry of the peer that connects. */
static int uptime;

static const char *reply_with_uptime(struct fake_redis *fake, int argc, char **argv)
{
    static const char *const uptimes[] = {"0", "1", "9"}, *const sent[] = {"0", "0",
                                                                           "8000"};
    static char reply[400];
    char info[300];

    if (strcmp(argv[0], "INFO") == 0) {
        (void)snprintf(info, sizeof(info),
                       "# Server\r\nrun_id:%040d\r\nuptime_in_seconds:%s\r\nrole:master"
                       "\r\nmaster_replid:%040d\r\nmaster_replid2:%040d\r\n"
                       "second_repl_offset:-1\r\n",
                       1, uptimes[uptime], 2, 0);
        (void)snprintf(reply, sizeof(reply), "$%zu\r\n%s\r\n", strlen(info), info);
        return reply;
    }
    if (argc == 7 && strcmp(argv[3], GUARD_RECORD) == 0) {
        assert_string_equal(argv[6], sent[uptime]);
        fake->count++;
        return ":0\r\n";
    }
    return FAKE_REAL;
}

static void the_uptime_counts_a_second_less(void **state)
{
    struct fake_redis *fake = fake_start(reply_with_uptime);
    struct peer *a;

    (void)state;
    for (uptime = 0; uptime < 3; uptime++) {
        a = guarded_at("a", fake->url);
        UNTIL(a->up);
        assert_int_equal(fake->count, uptime + 1);
        peer_free(a);
    }
}

/* ---- a configuration that endangers locks ---- */

static struct sentinel sentinel;

static void stop_sentinel(bool in_good_order)
{
    (void)in_good_order;
    sentinel_stop(&sentinel);
}

/* With the guard, an old master must stop within 10 s. */
static bool is_warned(int to_write, int max_lag_s, const char *text, uint32_t guard_ms)
{
    struct peer *peer;
    bool is;

    redis_ok("CONFIG SET min-replicas-to-write %d", to_write);
    redis_ok("CONFIG SET min-replicas-max-lag %d", max_lag_s);
    peer = peer_start_at("s", sentinel.url,
                         client_of(.local_turns = 1, .guard_ms = guard_ms));
    UNTIL(peer->up);
    redis_ok("CLIENT KILL TYPE normal");
    UNTIL(peer->ups == 2);
    assert_true(lw_inspect(peer->client, "x", on_inspected, NULL) == LW_OK);
    EXPECT("inspected OK"); /* a reply behind that of the settings */
    is = logged_times(peer, text) == 1;
    assert_true(is || logged_times(peer, text) == 0);
    peer_close(peer);
    EXPECT("s closed");
    return is;
}

static void settings_of_replicas_are_warned_of_once(void **state)
{
    static const char none[] = "min-replicas-to-write or min-replicas-max-lag is 0";
    static const char lag[] = "min-replicas-max-lag is 11 on the master: with the guard "
                              "it must not be above 10";

    (void)state;
    close_for(0);
    stage.notes_may_stay = true; /* a master without replicas takes no writes */
    stage_at_exit(stop_sentinel);
    sentinel_start(&sentinel, server_listen(&stage.server), "");
    assert_true(is_warned(0, 10, none, GUARD_MS));
    assert_true(is_warned(1, 0, none, GUARD_MS));
    assert_true(is_warned(1, 11, lag, GUARD_MS));
    assert_false(is_warned(1, 10, "min-replicas", GUARD_MS));
    assert_false(is_warned(1, 11, "min-replicas", 0));
    redis_ok("CONFIG SET min-replicas-to-write 0");
    redis_ok("CONFIG SET min-replicas-max-lag 10");
}

/* ---- options ---- */

static void client_refused(const char *url, const struct lw_client_options *wanted,
                           const char *text)
{
    struct lw_client_options options = *wanted;
    struct lw_client *client = NULL;
    char error[256] = "";

    options.errbuf = error;
    options.errbuf_size = sizeof(error);
    assert_int_equal(lw_client_new(stage.base, url, &options, &client), LW_EINVAL);
    assert_string_equal(error, text);
}

static void guard_times_have_a_range(void **state)
{
    static const uint32_t good[] = {15000, 600000};
    struct lw_client *client = NULL;

    (void)state;
    client_refused("redis://h", client_of(.guard_ms = 1),
                   "guard_ms 1 is not between 15000 and 600000");
    client_refused("redis://h", client_of(.guard_ms = 14999),
                   "guard_ms 14999 is not between 15000 and 600000");
    client_refused("redis://h", client_of(.guard_ms = 600001),
                   "guard_ms 600001 is not between 15000 and 600000");
    client_refused("redis-cluster://h", client_of(.guard_ms = 45000),
                   "guard_ms is not supported in a cluster");
    client_refused("redis://h", client_of(.guard_ms = 15000, .request_timeout_ms = 7451),
                   "guard_ms 15000 leaves no time for a lease: it must be above twice "
                   "request_timeout_ms 7451");
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_int_equal(lw_client_new(stage.base, "redis://h",
                                       client_of(.guard_ms = good[i]), &client),
                         LW_OK);
        lw_client_free(client);
    }
}

static void leases_are_bounded_by_the_guard_time(void **state)
{
    static const char *const names[] = {"x", "y"};
    static const char text[] = "lease_ms 3001 is above 3000, the most that guard_ms "
                               "15000 allows";
    struct peer *a, *slow;
    struct hold *A;

    (void)state;
    close_for(0);
    a = guarded("a");
    ask_refused(a, "x", asking(.lease_ms = 3001), LW_EINVAL, text);
    ask_refused(a, "x", NULL, LW_EINVAL,
                "lease_ms 30000 is above 3000, the most that guard_ms 15000 allows");
    keeper_refused(a, "x", asking(.lease_ms = 3001), LW_EINVAL, text);
    group_refused(a, names, 2, asking(.lease_ms = 3001), LW_EINVAL, text);
    adopt_refused(a, "x", "3f1c0a9b-7d5e-4468-8a1b-0123456789ab:7:2000-",
                  asking(.lease_ms = 3001), LW_EINVAL, text);
    ask_refused(a, "x", asking(.lease_ms = 3000, .at_least_ms = 3001), LW_EINVAL,
                "at_least_ms 3001 is above 3000, the longest lease");
    ask_refused(a, "x", asking(.lease_ms = 3000, .mode = LW_REDISSON), LW_EINVAL,
                "LW_REDISSON is not supported with guard_ms 15000");
    A = ask_with(a, "A", "x", asking(.lease_ms = 3000));
    EXPECT("A granted");
    extend_refused(A, 3001, LW_EINVAL);
    extend(A, 3000);
    EXPECT("A renewed OK");
    slow = peer_ready("s",
                      client_of(.guard_ms = GUARD_MS + 1000, .request_timeout_ms = 7000));
    ask_refused(slow, "y", asking(.lease_ms = 2001), LW_EINVAL,
                "lease_ms 2001 is above 2000, the most that guard_ms 16000 allows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_server_that_has_just_started_grants_nothing),
        STAGE_TEST(an_old_server_grants_at_once),
        STAGE_TEST(a_reconnect_to_the_same_process_waits_for_nothing),
        STAGE_TEST(a_first_replica_changes_nothing),
        STAGE_TEST(a_promotion_closes_what_was_open),
        STAGE_TEST(a_promotion_that_the_server_forgets_is_waited_for),
        STAGE_TEST(a_lease_that_ends_before_the_old_master_stops_is_not_extended),
        STAGE_TEST(nor_by_a_detach),
        STAGE_TEST(a_lack_of_replicas_is_over_with_the_next_retry),
        STAGE_TEST(a_hold_is_renewed_when_the_server_is_known),
        STAGE_TEST(the_uptime_counts_a_second_less),
        STAGE_TEST(grants_wait_for_the_time_from_the_server_s_reply),
        STAGE_TEST(a_try_waits_for_the_server_s_reply),
        STAGE_TEST(waiters_are_served_by_the_event_of_the_opening),
        STAGE_TEST(heartbeats_keep_the_record),
        STAGE_TEST(a_claim_that_repeats_its_request_is_not_granted),
        STAGE_TEST(a_mutex_is_released_and_handed_to_no_waiter),
        STAGE_TEST(handles_of_one_client_do_not_re_acquire),
        STAGE_TEST(a_re_acquire_is_not_repeated),
        STAGE_TEST(a_waiter_that_leaves_serves_no_queue),
        STAGE_TEST(a_break_hands_over_to_nobody),
        STAGE_TEST(a_read_write_lock_is_released_to_no_waiter),
        STAGE_TEST(a_token_is_adopted_when_the_gate_opens),
        STAGE_TEST(a_renewal_lets_in_no_waiter),
        STAGE_TEST(a_hand_over_is_believed_when_the_gate_opens),
        STAGE_TEST(two_guard_times_exclude_each_other),
        STAGE_TEST(INFO_that_is_denied_is_the_reason_of_a_link_that_stays_down),
        STAGE_TEST(a_record_that_is_denied_is_the_reason_of_a_refusal),
        STAGE_TEST(scripts_that_are_denied_are_the_reason_of_a_refusal),
        STAGE_TEST(a_record_of_another_type_is_the_reason_of_a_refusal),
        STAGE_TEST(a_long_refusal_is_logged_once),
        STAGE_TEST(a_reply_that_no_server_gives_ends_the_connection),
        STAGE_TEST(settings_of_replicas_are_warned_of_once),
        STAGE_TEST(guard_times_have_a_range),
        STAGE_TEST(leases_are_bounded_by_the_guard_time),
        STAGE_TEST(a_restart_closes_and_holders_renew_or_lose),
        STAGE_TEST(a_lost_release_that_is_sent_again_hands_over_to_nobody),
    };

    return STAGE_RUN(tests);
}

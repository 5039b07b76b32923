/* SPDX-License-Identifier: MIT */
/*
 * A server that the guard (guard_ms) has closed: no call is granted a lock, and holders
 * renew and release. Also servers that never open, and the options. Depends on test/lib
 * and its scenes alone.
 *
 * Each test closes the server itself (close_for), and so decides when it opens. */
#include "api/keep_scene.h"
#include "fake_redis.h"
#include "groups.h"
#include "monitor.h"
#include "proxy.h"
#include "sentinel.h"
#include "server/guard_scene.h"
#include "server/scene.h"

#include <stdio.h>
#include <string.h>

/* ---- what happens while a server is closed ---- */

#define CLOSED_MS 2000

/* Closes the server for `ms`, for which all that follows is checked. */
static void stay_closed(int ms)
{
    stage_relies_until(now_ms() + ms);
    close_for(ms);
}

/* Closes the stage's server to clients that are connected, as if it were another one. */
static void close_to(struct peer *a, struct peer *b)
{
    int ups[2] = {a->ups, b->ups};

    stay_closed(CLOSED_MS);
    redis_ok("CLIENT KILL TYPE normal");
    redis_ok("CLIENT KILL TYPE pubsub");
    UNTIL(a->ups > ups[0] && b->ups > ups[1]);
    peer_wait_ready(a);
    peer_wait_ready(b);
}

static void grants_wait_for_the_time_from_the_server_s_reply(void **state)
{
    int64_t closed_ms = now_ms();
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
    assert_true(A->result_ms - closed_ms >= CLOSED_MS - 50);
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

/* A server that lost its data seeds the fence counter by its clock at the connection,
 * which may be behind earlier fencing tokens. At the opening the clock is ahead of all
 * tokens of earlier leases. */
static void the_fence_counter_is_set_at_the_opening(void **state)
{
    struct peer *a;
    struct hold *A;

    (void)state;
    close_for(1000);
    a = guarded("a");
    redis_ok("SET lockwire:fence 1125899906842700 PX 86400000"); /* 2005 */
    A = ask_guarded(a, "A", "x", -1);
    EXPECT("A granted");
    assert_true(A->fence > UINT64_C(1500000000000000));
}

/* The record is only read at a connection. Without heartbeats it would expire after a
 * day, and each connection from then on would begin a wait. */
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
    stay_closed(CLOSED_MS);
    proxy_swallow(proxy, COMMANDS, TO_CLIENT, false);
    proxy_cut(proxy, COMMANDS);
    UNTIL(a->ups == 2);
    stage_expect_nothing(CLOSED_MS / 2);
    assert_closed();
    assert_int_equal(redis_int("EXISTS x"), 0);
    stage_relies_until(0);
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
    renew_hold(A, LEASE_MS);
    EXPECT("A renewed OK");
    release_hold(A);
    EXPECT("A released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
    assert_int_equal(redis_int("ZCARD %s", queue_of("x")), 1);
    stage_expect_nothing(CLOSED_MS / 4);
    assert_closed();
    assert_int_equal(redis_int("EXISTS x"), 0);
    stage_relies_until(0);
    EXPECT("B granted");
    assert_open();
    assert_true(B->fence > A->fence);
}

/* N waits in the client of A, so that a request would follow A's release. While the
 * server is closed none does. */
static void no_request_follows_the_release_of_its_own_client(void **state)
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
    release_hold(A);
    EXPECT("A released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
    stage_expect_nothing(CLOSED_MS / 4);
    assert_closed();
    stage_relies_until(0);
    EXPECT("N granted");
    assert_open();
}

/* A release and the next handle's request were sent while the gate was open, and their
 * replies are lost. While it is closed the release is sent again, the request is not. */
static void a_request_behind_a_release_is_not_repeated(void **state)
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
    release_hold(A);
    UNTIL(strstr(redis_text("GET x"), ":1:") == NULL); /* it is the next token's */
    redis_ok("DEL x");                                 /* the write is lost */
    stay_closed(CLOSED_MS);
    proxy_swallow(proxy, COMMANDS, TO_CLIENT, false);
    proxy_cut(proxy, COMMANDS);
    UNTIL(a->ups == 2);
    EXPECT("A released EUNKNOWN");
    assert_closed();
    assert_int_equal(redis_int("EXISTS x"), 0);
    assert_int_equal(N->result, PENDING);
    stage_relies_until(0);
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
    free_hold(L);
    B = ask_guarded(b, "B", "x", -1);
    wait_queued("x", 1);
    struct peer *c = guarded("c");
    L = ask_guarded(c, "L", "x", -1);
    wait_queued("x", 2);
    close_to(b, c);
    redis_ok("DEL x"); /* the lease of A expires */
    free_hold(L);
    UNTIL(redis_int("ZCARD %s", queue_of("x")) == 1);
    assert_closed();
    assert_int_equal(redis_int("EXISTS x"), 0);
    stage_relies_until(0);
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
    stage_relies_until(0);
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
    return acquire_hold_with(peer, label, "x",
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
    release_hold(A);
    EXPECT("A released OK");
    stage_expect_nothing(CLOSED_MS / 4);
    assert_closed();
    assert_int_equal(redis_int("HEXISTS x mode"), 0);
    stage_relies_until(0);
    EXPECT("B granted");
    assert_open();
    assert_true(B->fence > A->fence);
}

/* An adoption is a grant: the write of another adoption may be lost. */
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
        stage_relies_until(0);
        EXPECT("B granted");
        assert_open();
        assert_true(B->fence > A->fence);
        assert_held_by_redis(B);
        release_hold(B);
        EXPECT("B released OK");
    }
}

/* Returns true once the server has removed an expired hold from the hash. */
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
    dead = peer_ready("d", client_of(.guard_ms = LW_GUARD_NONE));
    A = ask_mode(a, "A", LW_SHARED);
    EXPECT("A granted");
    acquire_hold_with(dead, "D", "x",
                      asking(.lease_ms = 1000, .mode = LW_SHARED, .permits = 2));
    EXPECT("D granted");
    B = ask_mode(b, "B", LW_SHARED);
    queue_up(1);
    stay_closed(2 * CLOSED_MS);
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
    stage_relies_until(0);
    EXPECT("B granted");
    assert_open();
    assert_true(B->fence > A->fence);
}

/* The message is from a client without the guard, or from one that released before. */
static void a_hand_over_is_believed_when_the_gate_opens(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;

    (void)state;
    close_for(0);
    a = peer_ready("a", client_of(.local_turns = 1, .guard_ms = LW_GUARD_NONE));
    b = peer_ready("b", client_of(.local_turns = 1, .guard_ms = GUARD_MS,
                                  .backoff_max_ms = 100, .claim_ms = 10000));
    A = take_guarded(a, "A", "x");
    B = ask_guarded(b, "B", "x", -1);
    wait_queued("x", 1);
    close_to(a, b);
    release_hold(A);
    EXPECT("A released OK");
    UNTIL(redis_int("ZCARD %s", queue_of("x")) == 0);
    stage_expect_nothing(CLOSED_MS / 4);
    assert_closed();
    assert_int_equal(redis_int("EXISTS x"), 1); /* it is B's, but not granted yet */
    stage_relies_until(0);
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
    free_hold(hold);
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
    static const char text[] =
        "this server's guard time is 15000 ms (key lockwire:guard), not 16000: use the "
        "same in all clients, as ?guard=15000ms in the URL; other clients wrote the key, "
        "and it expires a day after their last heartbeat; to change the time, stop them "
        "all, wait for the longer one, DEL lockwire:guard";
    struct peer *a, *b;
    struct hold *B;
    char line[400];

    (void)state;
    close_for(0);
    a = guarded("a");
    b = peer_ready("b", client_of(.local_turns = 1, .guard_ms = GUARD_MS + 1000,
                                  .request_timeout_ms = 200, .backoff_max_ms = 50));
    assert_refused_with(b, text);
    assert_int_equal(peer_stats(b).server_guard_ms, GUARD_MS);
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
    peer_close(a);
    EXPECT("a closed");
    guard_record_open_in(&stage.server, GUARD_MS + 1000, 0);
    UNTIL(peer_stats(b).guard_left_ms == 0);
    acquire_hold_with(b, "C", "x", asking(.lease_ms = LEASE_MS));
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

/* Permits the account everything again. (The fence counter is another matter.) */
static void serves_when_permitted(struct peer *peer)
{
    redis_ok("ACL SETUSER app +@all allkeys");
    close_for(0);
    UNTIL(peer->up && peer_stats(peer).guard_left_ms == 0); /* at a heartbeat */
    acquire_hold_with(peer, "B", "x",
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
        if (strcmp(argv[i], GUARD_RECORD) == 0) {
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
    static const char *const replies[] = {":15001\r\n", "+OK\r\n", "$-1\r\n"};
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
        assert_int_equal(peer_stats(a).guard_left_ms, 0); /* it has no connection */
        guard_reply = FAKE_REAL;
        UNTIL(a->up);
        open_at_once(a);
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
    EXPECT("inspected OK"); /* its reply comes after that of the settings */
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
    stage.notes_may_stay = true; /* a master without replicas refuses writes */
    stage_at_exit(stop_sentinel);
    sentinel_start(&sentinel, server_listen(&stage.server), "");
    assert_true(is_warned(0, 10, none, GUARD_MS));
    assert_true(is_warned(1, 0, none, GUARD_MS));
    assert_true(is_warned(1, 11, lag, GUARD_MS));
    assert_false(is_warned(1, 10, none, GUARD_MS));
    assert_false(is_warned(1, 10, "with the guard it must", GUARD_MS));
    assert_false(is_warned(1, 11, lag, 0));
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
    static const uint32_t good[] = {15000, 600000, LW_GUARD_NONE};
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
    client_refused("redis-quorum://h,i,j", client_of(.guard_ms = LW_GUARD_NONE),
                   "guard_ms LW_GUARD_NONE is not supported by a quorum");
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
    acquire_refused(a, "x", asking(.lease_ms = 3001), LW_EINVAL, text);
    acquire_refused(a, "x", NULL, LW_EINVAL,
                    "lease_ms 30000 is above 3000, the most that guard_ms 15000 allows");
    keeper_refused(a, "x", asking(.lease_ms = 3001), LW_EINVAL, text);
    group_refused(a, names, 2, asking(.lease_ms = 3001), LW_EINVAL, text);
    adopt_refused(a, "x", "3f1c0a9b-7d5e-4468-8a1b-0123456789ab:7:2000-",
                  asking(.lease_ms = 3001), LW_EINVAL, text);
    acquire_refused(a, "x", asking(.lease_ms = 3000, .at_least_ms = 3001), LW_EINVAL,
                    "at_least_ms 3001 is above 3000, the longest lease");
    acquire_refused(a, "x", asking(.lease_ms = 3000, .mode = LW_REDISSON), LW_EINVAL,
                    "LW_REDISSON is not supported with guard_ms 15000");
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 3000));
    EXPECT("A granted");
    renew_refused(A, 3001, LW_EINVAL);
    renew_hold(A, 3000);
    EXPECT("A renewed OK");
    slow = peer_ready("s",
                      client_of(.guard_ms = GUARD_MS + 1000, .request_timeout_ms = 7000));
    acquire_refused(slow, "y", asking(.lease_ms = 2001), LW_EINVAL,
                    "lease_ms 2001 is above 2000, the most that guard_ms 16000 allows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(grants_wait_for_the_time_from_the_server_s_reply),
        STAGE_TEST(a_try_waits_for_the_server_s_reply),
        STAGE_TEST(waiters_are_served_by_the_event_of_the_opening),
        STAGE_TEST(the_fence_counter_is_set_at_the_opening),
        STAGE_TEST(heartbeats_keep_the_record),
        STAGE_TEST(a_claim_that_repeats_its_request_is_not_granted),
        STAGE_TEST(a_mutex_is_released_and_handed_to_no_waiter),
        STAGE_TEST(no_request_follows_the_release_of_its_own_client),
        STAGE_TEST(a_request_behind_a_release_is_not_repeated),
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
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/*
 * The guard's record at real servers: servers that are put in another's place, unequal
 * guard times, a record that is lost while it is used, and clients without a guard.
 * Depends on test/lib and its scenes alone.
 *
 * A proxy is the address of a server; where it leads changes, and connections are cut, as
 * when an address moves. */
#include "fake_redis.h"
#include "proxy.h"
#include "server/guard_scene.h"
#include "server/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LONG_GUARD_MS 45000
#define LONGEST_LEASE_MS (GUARD_MS - 12000)

static struct server other;
static struct proxy *address;

static void stop_other(bool in_good_order)
{
    (void)in_good_order;
    if (other.running) {
        server_stop(&other);
    }
}

/* Moves the stage's server's snapshot to the other server's folder. */
static void copy_data(void)
{
    redisReply *dir = server_command(&stage.server, "CONFIG GET dir");
    char from[200], to[200];

    redis_ok("SAVE");
    (void)snprintf(from, sizeof(from), "%s/dump.rdb", dir->element[1]->str);
    (void)snprintf(to, sizeof(to), "%s/dump.rdb", other.dir);
    assert_int_equal(rename(from, to), 0);
    freeReplyObject(dir);
}

/* With the data of the stage's server, or empty. */
static void start_other(bool restored)
{
    stage_at_exit(stop_other);
    stage.keys_may_stay = stage.notes_may_stay = true;
    server_absent(&other);
    if (restored) {
        copy_data();
    }
    /* the first of these keeps it in its own folder */
    server_run(&other, "--appendonly yes --appendonly no");
}

static void move_address(struct server *server)
{
    proxy_lead(address, server->path, NULL);
    proxy_cut(address, COMMANDS);
    proxy_cut(address, SUBSCRIPTION);
}

static struct peer *with_guard(const char *label, uint32_t guard_ms)
{
    return peer_ready(label, client_of(.local_turns = 1, .guard_ms = guard_ms,
                                       .request_timeout_ms = 200, .backoff_max_ms = 100));
}

/* ---- servers that take another's place ---- */

/* Starts the other server, and waits until both are older than the guard time. Client `a`
 * acquires a lock at the stage's server, which its connections go on to reach. */
static struct hold *hold_at_first(bool restored)
{
    struct proxy *first = proxy_start(stage.server.path, false);
    struct peer *a;

    close_for(0);
    start_other(restored);
    grow_old();
    while (true) {
        redisReply *reply = server_command(&other, "INFO server");
        int up_s = atoi(strstr(reply->str, "uptime_in_seconds:") + 18);

        freeReplyObject(reply);
        if (up_s > GUARD_MS / 1000) {
            break;
        }
        stage_run_for(100);
    }
    address = proxy_start(stage.server.path, false);
    a = guarded_at("a", first->url);
    UNTIL(a->up);
    return acquire_hold_with(a, "A", "x", asking(.lease_ms = LONGEST_LEASE_MS));
}

static void assert_refused_while_held(const struct hold *holder)
{
    struct peer *b = guarded_at("b", address->url);
    struct hold *B;

    UNTIL(b->up);
    B = ask_guarded(b, "B", "x", 0);
    EXPECT("B ECONN");
    assert_says(B, "the server was restarted or is new; no locks for 1");
    assert_true(lw_lock_remaining_ms(holder->lock) > 0);
    assert_true(peer_stats(b).guard_left_ms > GUARD_MS - 5000);
}

static void an_empty_server_in_anothers_place_grants_nothing(void **state)
{
    struct hold *A = hold_at_first(false);

    (void)state;
    EXPECT("A granted");
    move_address(&other);
    assert_refused_while_held(A);
}

/* The copy has the record of the server that it was taken from. */
static void a_restored_copy_grants_nothing(void **state)
{
    struct hold *A = hold_at_first(true);

    (void)state;
    EXPECT("A granted");
    assert_string_equal(guard_record_text(&other), guard_record_text(&stage.server));
    move_address(&other);
    assert_refused_while_held(A);
}

/* The address moves to the other server, where the guard time passes, and back. The first
 * server still has its own record: that is excluded, unless the record was deleted. */
static void moving_back_is_safe_if_the_record_is_deleted(void **state)
{
    struct peer *b, *c;
    struct hold *B, *C;

    (void)state;
    close_for(0);
    start_other(false);
    address = proxy_start(stage.server.path, false);
    move_address(&other);
    guard_record_open_in(&other, GUARD_MS, 0); /* as after the guard time */
    b = guarded_at("b", other.url);
    UNTIL(b->up);
    B = acquire_hold_with(b, "B", "x", asking(.lease_ms = LONGEST_LEASE_MS));
    EXPECT("B granted");
    move_address(&stage.server);
    c = guarded_at("c", address->url);
    UNTIL(c->up);
    C = acquire_hold_with(c, "C", "x", asking(.lease_ms = LEASE_MS));
    EXPECT("C granted"); /* the exclusion: a second holder */
    release_hold(C);
    EXPECT("C released OK");
    peer_close(c);
    EXPECT("c closed");
    move_address(&other);
    redis_ok("DEL " GUARD_RECORD); /* the remedy */
    move_address(&stage.server);
    assert_refused_while_held(B);
}

/* ---- unequal guard times ---- */

static void assert_named(struct peer *peer, int theirs, int ours)
{
    struct hold *hold = ask_guarded(peer, "R", "r", -1); /* does not wait */
    char text[400];

    (void)snprintf(text, sizeof(text),
                   "this server's guard time is %d ms (key lockwire:guard), not %d: use "
                   "the same in all clients, as ?guard=%dms in the URL; other clients "
                   "wrote the key, and it expires a day after their last heartbeat; to "
                   "change the time, stop them all, wait for the longer one, DEL "
                   "lockwire:guard",
                   theirs, ours, theirs);
    EXPECT("R EREDIS");
    assert_says(hold, text);
    free_hold(hold);
}

/* A client with a shorter time came first after a loss. Its wait ends by its own clock,
 * before another heartbeat. */
static void a_longer_guard_time_replaces_one_that_is_waited_for(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;

    (void)state;
    close_for(2000);
    a = guarded("a");
    A = ask_guarded(a, "A", "x", -1);
    stage_expect_nothing(200);
    b = with_guard("b", LONG_GUARD_MS);
    assert_in_range(peer_stats(b).guard_left_ms, LONG_GUARD_MS - 5000,
                    LONG_GUARD_MS + 1000);
    EXPECT("A EREDIS");
    assert_says(A,
                "this server's guard time is 45000 ms (key lockwire:guard), not 15000");
    assert_int_equal(redis_int("EXISTS x"), 0);
    B = ask_guarded(b, "B", "x", 0);
    EXPECT("B ECONN");
    assert_says(B, "no locks for 4");
    assert_named(a, LONG_GUARD_MS, GUARD_MS);
}

static void a_longer_guard_time_is_refused_once_locks_were_granted(void **state)
{
    struct peer *a, *b;

    (void)state;
    close_for(0);
    a = guarded("a");
    b = with_guard("b", LONG_GUARD_MS);
    assert_named(b, GUARD_MS, LONG_GUARD_MS);
    open_at_once(a);
}

/* As an operator does it: all clients stop, the record is deleted, and clients with the
 * other time start. */
static void change_guard(uint32_t from_ms, uint32_t to_ms)
{
    struct peer *before, *after;

    guard_record_open_in(&stage.server, from_ms, 0);
    before = with_guard("a", from_ms);
    peer_close(before);
    EXPECT("a closed");
    redis_ok("DEL " GUARD_RECORD);
    after = with_guard("b", to_ms);
    assert_in_range(peer_stats(after).guard_left_ms, to_ms - 5000, to_ms + 1000);
    before = with_guard("a", from_ms); /* one that was forgotten */
    if (from_ms < to_ms) {
        assert_named(before, (int)to_ms, (int)from_ms);
    }
    peer_close(before);
    EXPECT("a closed");
    peer_close(after);
    EXPECT("b closed");
}

static void the_guard_time_is_raised_and_lowered_without_the_record(void **state)
{
    (void)state;
    change_guard(GUARD_MS, LONG_GUARD_MS);
    redis_ok("DEL " GUARD_RECORD);
    change_guard(LONG_GUARD_MS, GUARD_MS);
}

/* ---- a record that is lost or replaced while connections go on ---- */

static void a_deleted_record_closes_the_server(void **state)
{
    struct peer *a;
    struct hold *A, *B;

    (void)state;
    redis_ok("REPLICAOF 127.0.0.1 1"); /* so that it was promoted */
    redis_ok("REPLICAOF NO ONE");
    close_for(0);
    a = with_guard("a", GUARD_MS);
    A = take_guarded(a, "A", "x");
    redis_ok("DEL " GUARD_RECORD);
    UNTIL(peer_stats(a).guard_left_ms > GUARD_MS - 5000);
    assert_true(peer_logged(a, "the guard's record was lost or replaced; no locks "
                               "are granted for 16 s"));
    B = ask_guarded(a, "B", "y", 0);
    EXPECT("B ECONN");
    assert_says(B, "the guard's record was lost or replaced; no locks for 1");
    stage_expect_nothing(2 * LEASE_MS); /* A is renewed: no master was replaced */
    assert_int_equal(lw_lock_state(A->lock), LW_HELD);
}

/* As if the server's clock had been set forward: its replies no longer ask for a wait. */
static void a_wait_on_one_connection_is_not_shortened(void **state)
{
    struct peer *a;
    struct hold *A;
    uint64_t before;

    (void)state;
    close_for(GUARD_MS);
    a = with_guard("a", GUARD_MS);
    close_for(0);
    before = peer_stats(a).commands;
    UNTIL(peer_stats(a).commands > before + 3); /* heartbeats, and their replies */
    A = ask_guarded(a, "A", "x", 0);
    EXPECT("A ECONN");
    assert_says(A, "no locks for 1");
    assert_int_equal(redis_int("EXISTS x"), 0);
}

static void another_guard_time_in_the_record_is_noticed(void **state)
{
    struct peer *a;

    (void)state;
    close_for(0);
    a = with_guard("a", GUARD_MS);
    guard_record_open_in(&stage.server, LONG_GUARD_MS, 0);
    UNTIL(peer_stats(a).guard_left_ms == 1);
    assert_named(a, LONG_GUARD_MS, GUARD_MS);
    close_for(0);
    UNTIL(peer_stats(a).guard_left_ms == 0);
    (void)take_guarded(a, "A", "x");
}

/* Nothing was lost: the connection goes on. */
static void an_open_gate_stays_open_if_a_heartbeat_is_refused(void **state)
{
    struct peer *a;

    (void)state;
    close_for(0);
    a = with_guard("a", GUARD_MS);
    redis_ok("LPUSH k 1");
    redis_ok("RENAME k " GUARD_RECORD);
    UNTIL(peer_logged(a, "the record lockwire:guard is not extended: WRONGTYPE"));
    assert_int_equal(peer_stats(a).guard_left_ms, 0);
    (void)take_guarded(a, "A", "x");
    redis_ok("DEL " GUARD_RECORD);
}

/* ---- clients without a guard ---- */

static void assert_unguarded_refused(struct peer *peer)
{
    struct hold *hold = ask_guarded(peer, "R", "r", -1); /* does not wait */

    EXPECT("R EREDIS");
    assert_says(
        hold, "this server's guard time is 15000 ms (key lockwire:guard), and this "
              "client has none: use the same in all clients, as ?guard=15000ms in the "
              "URL, or \"none\" here; other clients wrote the key, and it expires a day "
              "after their last heartbeat; if all clients have stopped using it, DEL "
              "lockwire:guard");
    assert_int_equal(redis_int("EXISTS r"), 0);
    free_hold(hold);
}

static void a_client_without_a_guard_is_refused_where_others_use_one(void **state)
{
    struct peer *u;

    (void)state;
    close_for(5000);
    u = with_guard("u", 0);
    assert_unguarded_refused(u);
    assert_int_equal(peer_stats(u).server_guard_ms, GUARD_MS);
    assert_in_range(peer_stats(u).guard_left_ms, 2, 5100);
    assert_true(peer_stats(u).guarded > 0);
    close_for(0);
    redis_ok("CLIENT KILL TYPE normal");
    UNTIL(u->ups == 2);
    assert_int_equal(peer_stats(u).guard_left_ms, 1);
    redis_ok("SET " GUARD_RECORD " %s PX 60000", "another:0:-1 15000 0");
    redis_ok("CLIENT KILL TYPE normal");
    UNTIL(u->ups == 3);
    assert_in_range(peer_stats(u).guard_left_ms, GUARD_MS - 5000, GUARD_MS);
    assert_string_equal(strchr(guard_record_text(&stage.server), ':'), ":0:-1 15000 0");
}

static void a_client_without_a_guard_learns_of_one_at_its_heartbeat(void **state)
{
    struct peer *u = with_guard("u", 0);

    (void)state;
    (void)take_guarded(u, "A", "x");
    assert_int_equal(redis_int("EXISTS " GUARD_RECORD), 0);
    close_for(0);
    UNTIL(peer_stats(u).guard_left_ms > 0);
    assert_unguarded_refused(u);
    redis_ok("DEL " GUARD_RECORD);
    UNTIL(peer_stats(u).guard_left_ms == 0);
    (void)take_guarded(u, "B", "y");
    assert_int_equal(peer_stats(u).server_guard_ms, 0);
}

static void a_guard_is_ignored_if_that_is_said(void **state)
{
    struct peer *u;

    (void)state;
    close_for(5000);
    u = with_guard("u", LW_GUARD_NONE);
    (void)take_guarded(u, "A", "x");
    assert_int_equal(peer_stats(u).guard_left_ms, 0);
    assert_int_equal(peer_stats(u).server_guard_ms, 0);
}

static void a_record_that_may_not_be_read_is_no_record(void **state)
{
    struct peer *u;

    (void)state;
    stage.keys_may_stay = true;
    close_for(0);
    redis_ok("ACL SETUSER app reset on >secret +@all &* ~x ~lockwire:fence ~lockwire:2:* "
             "~lockwire:client:*");
    u = peer_ready("u", client_of(.username = "app", .password = "secret",
                                  .local_turns = 1, .request_timeout_ms = 200));
    (void)take_guarded(u, "A", "x");
    redis_ok("CLIENT KILL TYPE normal");
    UNTIL(u->ups == 2);
    assert_true(peer_logged(u, "the key lockwire:guard cannot be read"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(an_empty_server_in_anothers_place_grants_nothing),
        STAGE_TEST(a_restored_copy_grants_nothing),
        STAGE_TEST(moving_back_is_safe_if_the_record_is_deleted),
        STAGE_TEST(a_longer_guard_time_replaces_one_that_is_waited_for),
        STAGE_TEST(a_longer_guard_time_is_refused_once_locks_were_granted),
        STAGE_TEST(the_guard_time_is_raised_and_lowered_without_the_record),
        STAGE_TEST(a_deleted_record_closes_the_server),
        STAGE_TEST(a_wait_on_one_connection_is_not_shortened),
        STAGE_TEST(another_guard_time_in_the_record_is_noticed),
        STAGE_TEST(an_open_gate_stays_open_if_a_heartbeat_is_refused),
        STAGE_TEST(a_client_without_a_guard_is_refused_where_others_use_one),
        STAGE_TEST(a_client_without_a_guard_learns_of_one_at_its_heartbeat),
        STAGE_TEST(a_guard_is_ignored_if_that_is_said),
        STAGE_TEST(a_record_that_may_not_be_read_is_no_record),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/* lw_inspect: everything about a name, in each mode, from each client, and with foreign
 * contents; and the note by which a client identifies itself. Independent of the script.
 *
 * Usual course: one client holds, others wait; any client sees the holder and the
 * waiters, since when, and from which client. */
#include "inspect/scene.h"
#include "monitor.h"
#include "process.h"
#include "proxy.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void rw(struct peer *peer, const char *label, enum lw_mode mode, const char *owner,
               unsigned permits, int64_t wait_ms)
{
    acquire_hold_with(peer, label, "x",
                      asking(.mode = mode, .owner = owner, .permits = permits,
                             .wait_ms = wait_ms, .lease_ms = 40000));
}

static void nothing_there(void **state)
{
    (void)state;
    three_clients();
    look_at(a, "x");
    FOUND("");
    assert_int_equal(look.holder_total + look.waiter_total, 0);
    assert_string_equal(look.foreign, "");
}

static void a_mutex_its_holder_and_its_queue(void **state)
{
    (void)state;
    three_clients();
    struct hold *A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    stage_run_for(150);
    acquire_hold(a, "A2", "x", -1);
    wait_queued("x", 2);
    look_at(c, "x");
    FOUND("held by m - test-a; 1 m - test-b; 2 m - test-a");
    assert_string_equal(look.holders[0].token, lw_lock_owner(A->lock));
    assert_int_in_range(look.holders[0].remaining_ms, 1, 30000);
    assert_true(look.holders[0].fence == 0);
    assert_true(look.waiters[0].waited_ms >= 150);
    assert_true(look.waiters[1].waited_ms < look.waiters[0].waited_ms);
    assert_int_equal(look.waiter_total, 2);
}

static void readers_and_who_waits_with_owners_and_permits(void **state)
{
    (void)state;
    three_clients();
    rw(a, "A", LW_SHARED, "anna", 2, 0);
    EXPECT("A granted");
    struct hold *A = holds;
    rw(b, "B", LW_SHARED, "bert", 0, 0);
    EXPECT("B granted");
    struct hold *B = holds;
    rw(b, "C", LW_SHARED, "carl", 2, -1);
    UNTIL(redis_int("ZCARD lockwire:2:rwqueue:{x}") == 1);
    rw(a, "W", LW_EXCLUSIVE, "dora", 0, -1);
    UNTIL(redis_int("ZCARD lockwire:2:rwqueue:{x}") == 2);
    look_at(c, "x");
    FOUND("held by r anna test-a, r bert test-b; 1 r2 carl test-b; 2 w dora test-a");
    assert_true(look.holders[0].fence == A->fence);
    assert_true(look.holders[1].fence == B->fence);
    assert_int_in_range(look.holders[0].remaining_ms, 20000, 40000);
    assert_int_equal(look.holder_total, 2);
    look_at(a, "x"); /* and from a client that holds itself */
    assert_int_equal(look.holder_count, 2);
}

static void a_writer_that_reads_and_each_hold_s_own_lease(void **state)
{
    (void)state;
    three_clients();
    rw(a, "W", LW_EXCLUSIVE, "anna", 0, 0);
    EXPECT("W granted");
    acquire_hold_with(b, "R", "x",
                      asking(.mode = LW_SHARED, .owner = "anna", .lease_ms = 90000));
    EXPECT("R granted");
    look_at(c, "x");
    FOUND("held by r anna test-b, w anna test-a");
    assert_true(look.holders[0].remaining_ms > 60000);
    assert_true(look.holders[1].remaining_ms <= 40000);
    assert_true(look.holders[0].fence == look.holders[1].fence);
}

/* ---- foreign contents ---- */

static void a_foreign_string_is_a_holder_without_a_note(void **state)
{
    char big[3000];

    (void)state;
    three_clients();
    redis_ok("SET stranger %s", "somebody:else");
    look_at(a, "stranger");
    FOUND("held by m - -");
    assert_string_equal(look.holders[0].token, "somebody:else");
    assert_int_equal(look.holders[0].remaining_ms, -1);
    memset(big, 'z', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    redis_ok("SET stranger %s PX 5000", big);
    look_at(a, "stranger"); /* only the beginning is fetched */
    assert_true(look.holders[0].token[0] == 'z');
    assert_int_in_range(look.holders[0].remaining_ms, 1, 5000);
    assert_true(a->up);
    redis_ok("DEL stranger");
}

static void other_types_are_told_by_their_name(void **state)
{
    static const char *const made[][2] = {
        {"hash", "HSET stranger field value"}, {"list", "RPUSH stranger value"},
        {"set", "SADD stranger value"},        {"zset", "ZADD stranger 1 value"},
        {"stream", "XADD stranger * f v"},
    };

    (void)state;
    three_clients();
    for (size_t i = 0; i < sizeof(made) / sizeof(*made); i++) {
        redis_ok(made[i][1]);
        look_at(a, "stranger");
        FOUND("");
        assert_string_equal(look.foreign, made[i][0]);
        redis_ok("DEL stranger");
    }
    assert_true(a->up);
    assert_int_equal(a->downs, 0);
}

/* Nonsense must not end the connection, on which locks may depend. */
static void nonsense_in_our_own_keys_is_passed_over(void **state)
{
    (void)state;
    three_clients();
    rw(a, "A", LW_SHARED, "anna", 0, 0);
    EXPECT("A granted");
    redis_ok("HSET x h:one nonsense h:two %s h:three %s h:four %s", "99 x owner",
             "-9223372036854775808 r o", "");
    redis_ok("ZADD lockwire:2:rwqueue:{x} 1 nonsense inf %s 3 %s 4 %s", "r0 a:1:2 owner",
             "x0 a:1:2 owner", "");
    redis_ok("RPUSH lockwire:2:queue:{x} value");
    redis_ok("PEXPIRE lockwire:2:rwqueue:{x} 5000");
    redis_ok("PEXPIRE lockwire:2:queue:{x} 5000");
    look_at(b, "x");
    FOUND("held by r anna test-a; 1 r owner -");
    assert_int_equal(look.waiters[0].waited_ms, 0);
    assert_int_equal(look.waiter_total, 4);
    assert_int_equal(b->downs, 0);
    redis_ok("DEL x lockwire:2:rwqueue:{x} lockwire:2:queue:{x}");
}

static void more_than_are_shown_are_counted(void **state)
{
    char label[16], owner[16];

    (void)state;
    three_clients();
    for (int i = 0; i < 120; i++) {
        (void)snprintf(label, sizeof(label), "%d", i);
        (void)snprintf(owner, sizeof(owner), "o%d", i);
        rw(a, label, LW_SHARED, owner, 0, -1);
        UNTIL(holds->result == LW_OK);
    }
    stage_clear_trace();
    for (int i = 0; i < 130; i++) {
        (void)snprintf(label, sizeof(label), "w%d", i);
        rw(b, label, LW_EXCLUSIVE, label, 0, -1);
    }
    UNTIL(redis_int("ZCARD lockwire:2:rwqueue:{x}") == 130);
    look_at(c, "x");
    assert_int_equal(look.holder_count, 100);
    assert_int_equal(look.waiter_count, 100);
    assert_int_equal(look.holder_total, 120);
    assert_int_equal(look.waiter_total, 130);
    assert_string_equal(look.waiters[99].owner, "w99");
}

/* ---- the server that replied ---- */

static void the_server_that_answered_is_told_as_the_url_has_it(void **state)
{
    const char *at = strstr(stage.server.url, "://") + 3;
    int port = server_listen(&stage.server);
    char place[32], url[48];

    (void)state;
    three_clients();
    look_at(a, "x");
    assert_string_equal(look.server, at); /* a socket's path, or host:port */
    assert_string_equal(look.role, "master");
    (void)snprintf(place, sizeof(place), "127.0.0.1:%d", port);
    (void)snprintf(url, sizeof(url), "redis://%s", place);
    struct peer *d = peer_start_at("d", url, NULL);
    UNTIL(d->up);
    look_at(d, "x");
    assert_string_equal(look.server, place);
}

static void its_role_is_that_of_the_moment(void **state)
{
    (void)state;
    three_clients();
    redis_ok("CONFIG SET replica-read-only no"); /* otherwise it would serve no lock */
    redis_ok("REPLICAOF 127.0.0.1 1");
    look_at(a, "x");
    assert_string_equal(look.role, "replica");
    redis_ok("REPLICAOF NO ONE");
    redis_ok("CONFIG SET replica-read-only yes");
    look_at(a, "x");
    assert_string_equal(look.role, "master");
}

static void without_permission_for_the_role_the_rest_is_told(void **state)
{
    (void)state;
    three_clients();
    acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    redis_ok("ACL SETUSER default -info");
    look_at(b, "x");
    FOUND("held by m - test-a");
    assert_string_equal(look.role, "");
    assert_string_equal(look.server, strstr(stage.server.url, "://") + 3);
    redis_ok("ACL SETUSER default +@all");
}

/* ---- the call itself ---- */

static void bad_calls_are_refused(void **state)
{
    (void)state;
    three_clients();
    inspect_refused(a, "", LW_EINVAL, "name");
    inspect_refused(a, "a\nb", LW_EINVAL, "name");
    inspect_refused(a, "lockwire:fence", LW_EINVAL, "name");
    assert_int_equal(lw_inspect(a->client, "x", NULL, NULL), LW_EINVAL);
    assert_non_null(strstr(a->error, "done"));
    stage_expect_nothing(50);
    peer_close(a);
    inspect_refused(a, "x", LW_ECLOSED, "closed");
    EXPECT("a closed");
}

static void without_a_link_it_ends_at_once(void **state)
{
    struct server late;

    (void)state;
    look.then = NULL;
    server_absent(&late);
    a = peer_start_at("a", late.url, NULL);
    UNTIL(a->downs > 0);
    call_inspect(a, "x");
    EXPECT("inspected ECONN");
    assert_true(look.why[0] != '\0');
    server_restart(&late);
    UNTIL(a->up);
    look_at(a, "x");
    peer_close(a);
    EXPECT("a closed");
    server_stop(&late);
}

static void a_link_that_goes_ends_it(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);

    (void)state;
    look.then = NULL;
    a = peer_start_at("a", proxy->url, NULL);
    peer_wait_ready(a);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    call_inspect(a, "x");
    stage_expect_nothing(50);
    proxy_cut(proxy, COMMANDS);
    EXPECT("inspected ECONN");
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
}

static void what_the_server_refuses_is_told(void **state)
{
    (void)state;
    look.then = NULL;
    redis_ok("ACL SETUSER default -evalsha -eval");
    a = peer_ready("a", NULL);
    call_inspect(a, "x");
    EXPECT("inspected EREDIS");
    assert_non_null(strstr(look.why, "NOPERM"));
    redis_ok("ACL SETUSER default +@all");
}

static void without_permission_for_the_notes_the_rest_is_told(void **state)
{
    (void)state;
    three_clients();
    acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    redis_ok("ACL SETUSER default -mget");
    look_at(b, "x");
    FOUND("held by m - -");
    redis_ok("ACL SETUSER default +@all");
}

static void free_the_client(struct peer *peer)
{
    peer_free(peer);
}

static void rule4_the_client_may_be_freed_in_the_callback(void **state)
{
    (void)state;
    three_clients();
    acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    look.then = free_the_client;
    call_inspect(b, "x");
    EXPECT("inspected OK");
    call_break(c, "x", NULL);
    EXPECT_SET("broken OK; A lost ENOTHELD");
    look.then = NULL;
    stage_expect_nothing(50);
}

static void rule7_free_is_silent_and_close_ends_it_first(void **state)
{
    (void)state;
    three_clients();
    call_inspect(a, "x");
    peer_free(a);
    stage_expect_nothing(100);
    call_inspect(b, "x");
    peer_close(b);
    EXPECT("inspected ECLOSED; b closed");
    call_break(c, "x", NULL);
    peer_close(c);
    EXPECT("broken ECLOSED; c closed");
}

/* ---- the note ---- */

static const char *note_of(const char *token)
{
    return redis_text("GET lockwire:client:%b", token, (size_t)36);
}

static long long ttl_of_note(const struct hold *hold)
{
    return redis_int("PTTL lockwire:client:%b", lw_lock_owner(hold->lock), (size_t)36);
}

static void a_client_in_use_says_who_it_is(void **state)
{
    char host[65] = "", wanted[200];

    (void)state;
    three_clients();
    gethostname(host, sizeof(host) - 1);
    assert_int_equal(
        redis_int("EVAL %s 0", "return #redis.call('KEYS', 'lockwire:client:*')"), 0);
    monitor_start();
    struct hold *A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    (void)snprintf(wanted, sizeof(wanted), "test-a %s %ld", host, (long)getpid());
    UNTIL(strcmp(note_of(lw_lock_owner(A->lock)), wanted) == 0);
    assert_int_in_range(ttl_of_note(A), 100000, 120000);
    release_hold(A);
    EXPECT("A released OK");
    monitor_clear();
    for (int i = 0; i < 20; i++) {
        struct hold *again = acquire_and_wait(a, "again", "x");
        release_hold(again);
        EXPECT("again granted; again released OK");
    }
    assert_int_equal(monitor_count("set"), 20); /* and none for the note */
    monitor_stop();
    peer_close(a);
    EXPECT("a closed");
    assert_int_equal(
        redis_int("EVAL %s 0", "return #redis.call('KEYS', 'lockwire:client:*')"), 0);
}

static void who_waited_before_the_link_stood_has_a_note(void **state)
{
    (void)state;
    look.then = NULL;
    a = peer_start("a", NULL);
    struct hold *A = acquire_hold(a, "A", "x", -1);
    EXPECT("A granted");
    UNTIL(strncmp(note_of(lw_lock_owner(A->lock)), "test-a ", 7) == 0);
}

static void a_lost_note_comes_back_with_the_connection(void **state)
{
    (void)state;
    three_clients();
    struct hold *A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    UNTIL(note_of(lw_lock_owner(A->lock))[0] != '\0');
    redis_ok("DEL lockwire:client:%b", lw_lock_owner(A->lock), (size_t)36);
    redis_ok("CLIENT KILL ID %d", (int)peer_link_id(a, false));
    UNTIL(note_of(lw_lock_owner(A->lock))[0] != '\0');
}

static void a_killed_process_is_known_as_long_as_its_lease_lives(void **state)
{
    struct process *p = process_start("P", NULL);
    char pid[32];

    (void)state;
    three_clients();
    process_tell(p, "acquire A x 0 30000 w anna");
    EXPECT("P: A granted");
    (void)snprintf(pid, sizeof(pid), " %ld", (long)p->pid);
    UNTIL(redis_int("EVAL %s 0", "return #redis.call('KEYS', 'lockwire:client:*')") == 1);
    process_kill(p);
    look_at(a, "x");
    FOUND("held by w anna test-P");
    assert_non_null(strstr(look.holders[0].client, pid));
    redis_ok("DEL x");
}

/* A long test: the note is refreshed only every 40 s while a handle holds or waits. */
static void the_note_is_refreshed_while_the_client_holds(void **state)
{
    (void)state;
    three_clients();
    struct hold *A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    UNTIL(note_of(lw_lock_owner(A->lock))[0] != '\0');
    UNTIL_FOR(3 * STAGE_WAIT_MS, ttl_of_note(A) <= 85000);
    UNTIL_FOR(3 * STAGE_WAIT_MS, ttl_of_note(A) >= 110000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(nothing_there),
        STAGE_TEST(a_mutex_its_holder_and_its_queue),
        STAGE_TEST(readers_and_who_waits_with_owners_and_permits),
        STAGE_TEST(a_writer_that_reads_and_each_hold_s_own_lease),
        STAGE_TEST(a_foreign_string_is_a_holder_without_a_note),
        STAGE_TEST(other_types_are_told_by_their_name),
        STAGE_TEST(nonsense_in_our_own_keys_is_passed_over),
        STAGE_TEST(more_than_are_shown_are_counted),
        STAGE_TEST(the_server_that_answered_is_told_as_the_url_has_it),
        STAGE_TEST(its_role_is_that_of_the_moment),
        STAGE_TEST(without_permission_for_the_role_the_rest_is_told),
        STAGE_TEST(bad_calls_are_refused),
        STAGE_TEST(without_a_link_it_ends_at_once),
        STAGE_TEST(a_link_that_goes_ends_it),
        STAGE_TEST(what_the_server_refuses_is_told),
        STAGE_TEST(without_permission_for_the_notes_the_rest_is_told),
        STAGE_TEST(rule4_the_client_may_be_freed_in_the_callback),
        STAGE_TEST(rule7_free_is_silent_and_close_ends_it_first),
        STAGE_TEST(a_client_in_use_says_who_it_is),
        STAGE_TEST(who_waited_before_the_link_stood_has_a_note),
        STAGE_TEST(a_lost_note_comes_back_with_the_connection),
        STAGE_TEST(a_killed_process_is_known_as_long_as_its_lease_lives),
        STAGE_TEST(the_note_is_refreshed_while_the_client_holds),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/* Hand-over in the re-entrant modes: its order and cost, waiters that are dead or hang,
 * messages and replies that never come, and foreign keys. Independent of how the scripts
 * work.
 *
 * Usual course: one client holds and another waits; the lock is handed over by a message,
 * and released once. */
#include "modes/scene.h"
#include "monitor.h"
#include "process.h"
#include "proxy.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static struct proxy *way; /* b's, started by far_clients */

static void far_clients(void)
{
    way = proxy_start(stage.server.path, false);
    a = peer_ready("a", NULL);
    b = peer_start_at("b", way->url, client_of(.claim_ms = 1000));
    peer_wait_ready(b);
    /* The server knows the scripts from here on. */
    get_out(get_in(b, "0", "r", NULL), LW_OK);
}

/* ---- hand-over ---- */

static int grants, inside;

static void go_round(struct hold *hold, enum moment moment)
{
    if (moment == AT_RESULT) {
        if (hold->result != LW_OK || inside) {
            stage_complain("I1: %s %s beside %d", hold->label, status_name(hold->result),
                           inside);
        }
        grants++;
        inside++;
        release_hold(hold);
        inside--;
    } else if (moment == AT_RELEASED) {
        free_hold(hold);
        if (grants < 300) {
            enter(hold->peer, hold->label, "w", NULL, -1)->then = go_round;
        }
    }
}

static void I4_a_hand_over_costs_two_commands(void **state)
{
    char label[8];

    (void)state;
    two_clients();
    grants = inside = 0;
    monitor_start();
    for (int i = 0; i < 6; i++) {
        (void)snprintf(label, sizeof(label), "%d", i);
        enter(i % 2 ? a : b, label, "w", NULL, -1)->then = go_round;
    }
    UNTIL(grants >= 300);
    UNTIL(redis_int("EXISTS x lockwire:2:rwqueue:{x}") == 0);
    stage_clear_trace();
    int commands = monitor_count("");
    if (commands * 10 > grants * 22) {
        stage_fail("I4: %d commands for %d grants", commands, grants);
    }
    assert_true(peer_stats(a).handed_over + peer_stats(b).handed_over > 200);
}

static void order_of_arrival_over_two_clients(void **state)
{
    static const char *const labels[] = {"1", "2", "3", "4"};
    struct hold *holder, *all[4];

    (void)state;
    two_clients();
    holder = get_in(a, "0", "w", NULL);
    for (int i = 0; i < 4; i++) {
        all[i] = enter(i % 2 ? a : b, labels[i], "w", NULL, -1);
        wait_rw_queued(i + 1);
    }
    for (int i = 0; i < 4; i++) {
        char events[64];

        (void)snprintf(events, sizeof(events), "%s released OK; %s granted",
                       holder->label, labels[i]);
        release_hold(holder);
        EXPECT_SET(events);
        assert_true(all[i]->fence > holder->fence);
        holder = all[i];
    }
}

static void I3_a_lost_message_is_found_by_asking(void **state)
{
    (void)state;
    far_clients();
    struct hold *A = get_in(a, "A", "w", "anna");
    enter(b, "W", "w", "bert", -1);
    wait_rw_queued(1);
    enter(b, "R", "r", "carl", -1);
    wait_rw_queued(2);
    proxy_swallow(way, SUBSCRIPTION, TO_CLIENT, true);
    get_out(A, LW_OK);
    EXPECT("W granted");
    struct hold *W = holds->next;
    release_hold(W);
    EXPECT_SET("W released OK; R granted");
    HOLDS("x", "read carl=1");
    proxy_swallow(way, SUBSCRIPTION, TO_CLIENT, false);
}

static void I5_dead_waiters_cost_nothing(void **state)
{
    struct process *p = process_start("P", NULL), *q = process_start("Q", NULL);

    (void)state;
    two_clients();
    struct hold *A = get_in(a, "A", "w", "anna");
    process_tell(p, "acquire D1 x -1 30000 w one");
    wait_rw_queued(1);
    process_tell(q, "acquire D2 x -1 30000 r two");
    wait_rw_queued(2);
    struct hold *B = enter(b, "B", "w", "bert", -1);
    wait_rw_queued(3);
    process_kill(p);
    process_kill(q);
    UNTIL(redis_int("EVAL %s 0", "return #redis.call('PUBSUB', 'CHANNELS')") == 4);
    monitor_start();
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    HOLDS("x", "write bert*1");
    assert_true(B->fence > A->fence);
}

static void a_hung_head_costs_its_claim_window(void **state)
{
    struct process *p = process_start("P", client_of(.claim_ms = 500));

    (void)state;
    two_clients();
    struct hold *A = get_in(a, "A", "w", "anna");
    process_tell(p, "acquire D x -1 30000 w hung");
    wait_rw_queued(1);
    struct hold *B = enter(b, "B", "r", "bert", -1);
    wait_rw_queued(2);
    process_signal(p, SIGSTOP);
    int64_t released = now_ms();
    release_hold(A);
    EXPECT("A released OK; B granted");
    stage_skip_if_lag(100);
    assert_int_in_range(now_ms() - released, 400, 1500);
    HOLDS("x", "read bert=1");
    process_signal(p, SIGCONT); /* and P must not act on the late message */
    wait_rw_queued(1);
    HOLDS("x", "read bert=1");
    release_hold(B);
    EXPECT_SET("B released OK; P: D granted");
    process_tell(p, "release D");
    EXPECT("P: D released OK");
}

/* A dead writer at the head, readers that hold, and no other waiters. */
static void a_dead_writer_does_not_keep_readers_out(void **state)
{
    struct process *p = process_start("P", NULL);

    (void)state;
    two_clients();
    get_in(a, "A", "r", "anna");
    process_tell(p, "acquire D x -1 30000 w dead");
    wait_rw_queued(1);
    process_kill(p);
    UNTIL(redis_int("EVAL %s 0", "return #redis.call('PUBSUB', 'CHANNELS')") == 4);
    enter(b, "B", "r", "bert", -1);
    EXPECT("B granted");
    HOLDS("x", "read anna=1 bert=1");
}

/* ---- replies that never come ---- */

static void cut_after(const char *kind, bool at_server)
{
    struct hold *A = enter(b, "A", kind, "anna", -1);

    if (at_server) {
        UNTIL(redis_int("EXISTS x") == 1);
    }
    stage_run_for(20);
    proxy_cut(way, COMMANDS);
    proxy_hold(way, COMMANDS, TO_CLIENT, false);
    proxy_hold(way, COMMANDS, TO_SERVER, false);
    UNTIL(A->result != PENDING);
    EXPECT("A granted");
    HOLDS("x", kind[0] == 'r' ? "read anna=1" : "write anna*1");
    get_out(A, LW_OK);
    HOLDS("x", "");
}

static void I6_an_acquire_whose_answer_was_lost_counts_once(void **state)
{
    (void)state;
    far_clients();
    for (const char *kind = "rw"; *kind; kind++) {
        char one[] = {*kind, '\0'};

        proxy_hold(way, COMMANDS, TO_CLIENT, true);
        cut_after(one, true);
        peer_wait_ready(b);
        proxy_hold(way, COMMANDS, TO_SERVER, true);
        cut_after(one, false);
        peer_wait_ready(b);
    }
}

static void I6_a_release_whose_answer_was_lost_lets_go_of_one_level(void **state)
{
    (void)state;
    far_clients();
    for (const char *kind = "rw"; *kind; kind++) {
        char one[] = {*kind, '\0'};

        struct hold *first = get_in(b, "1", one, "anna");
        struct hold *second = get_in(b, "2", one, "anna");
        proxy_hold(way, COMMANDS, TO_CLIENT, true);
        release_hold(second);
        UNTIL(strcmp(holds_of("x"), *kind == 'r' ? "read anna=1" : "write anna*1") == 0);
        proxy_cut(way, COMMANDS);
        proxy_hold(way, COMMANDS, TO_CLIENT, false);
        EXPECT("2 released STILLHELD");
        HOLDS("x", *kind == 'r' ? "read anna=1" : "write anna*1");
        get_out(first, LW_OK);
        HOLDS("x", "");
        peer_wait_ready(b);
    }
}

static void I6_a_grant_after_a_free_is_given_back(void **state)
{
    (void)state;
    two_clients();
    for (int i = 0; i < 30; i++) { /* freed at each stage of the request */
        struct hold *A = enter(a, "A", i & 1 ? "r" : "w", "anna", -1);
        for (int turns = 0; turns < i % 10; turns++) {
            event_base_loop(stage.base, EVLOOP_NONBLOCK);
        }
        free_hold(A);
        struct hold *B = enter(b, "B", "w", "bert", STAGE_WAIT_MS);
        UNTIL(B->result == LW_OK);
        HOLDS("x", "write bert*1");
        release_hold(B);
        UNTIL(B->released == LW_OK);
        free_hold(B);
        stage_clear_trace();
    }
    UNTIL(redis_int("EXISTS x lockwire:2:rwqueue:{x}") == 0);
}

/* A member of ours in the queue that belongs to no handle, as a command of a former
 * connection may leave it. If the lock is handed over to it, this client releases the
 * lock. */
static void a_turn_for_nobody_is_given_back(void **state)
{
    char token[128], client[64];

    (void)state;
    two_clients();
    for (const char *kind = "rw"; *kind; kind++) {
        struct hold *B = get_in(b, "B", "w", NULL);
        (void)snprintf(token, sizeof(token), "%s", lw_lock_owner(B->lock));
        (void)snprintf(client, sizeof(client), "%.36s", token);
        get_out(B, LW_OK);
        struct hold *A = get_in(a, "A", "w", "anna");
        char member[256];
        (void)snprintf(member, sizeof(member), "%c0 %s:99999999:60000- ghost", *kind,
                       client);
        redis_ok("ZADD lockwire:2:rwqueue:{x} 2 %b", member, strlen(member));
        struct hold *C = enter(a, "C", "w", "carl", -1);
        wait_rw_queued(2);
        release_hold(A);
        EXPECT_SET("A released OK; C granted"); /* before the ghost's window ends */
        HOLDS("x", "write carl*1");
        get_out(C, LW_OK);
        HOLDS("x", "");
    }
}

/* ---- foreign keys ---- */

static void held_by_a_stranger(const char *type, const char *command)
{
    static const char sum[] = "return redis.sha1hex(redis.call('DUMP', KEYS[1]))";
    char dump[64];

    redis_ok(command);
    redis_ok("PERSIST stranger");
    (void)snprintf(dump, sizeof(dump), "%s", redis_text("EVAL %s 1 stranger", sum));
    for (int mode = LW_EXCLUSIVE; mode <= LW_SHARED; mode++) {
        struct hold *A =
            acquire_hold_with(a, "A", "stranger", asking(.mode = (enum lw_mode)mode));
        struct hold *B = acquire_hold_with(
            a, "B", "stranger", asking(.mode = (enum lw_mode)mode, .wait_ms = 150));
        EXPECT("A EBUSY; B ETIMEOUT");
        assert_int_equal(lw_lock_retry_ms(A->lock), -1);
        free_hold(A);
        free_hold(B);
    }
    assert_string_equal(redis_text("EVAL %s 1 stranger", sum), dump);
    if (!peer_logged(a, type) || !peer_logged(a, "stranger")) {
        stage_fail("the log says neither \"%s\" nor where: %s", type, a->log);
    }
    struct hold *C =
        acquire_hold_with(a, "C", "stranger", asking(.mode = LW_SHARED, .wait_ms = -1));
    UNTIL(redis_int("EXISTS lockwire:2:rwqueue:{stranger}") == 1);
    redis_ok("DEL stranger");
    EXPECT("C granted");
    get_out(C, LW_OK);
}

static void whatever_is_no_hash_of_ours_is_a_stranger_s(void **state)
{
    (void)state;
    two_clients();
    held_by_a_stranger("string", "SET stranger value");
    held_by_a_stranger("hash", "HSET stranger 5f0e8f4b-0000-4000-8000-000000000001:1 1");
    held_by_a_stranger("list", "RPUSH stranger value");
    held_by_a_stranger("zset", "ZADD stranger 1 value");
}

static void modes_on_one_name_are_strangers_to_each_other(void **state)
{
    (void)state;
    two_clients();
    struct hold *M = acquire_and_wait(a, "M", "x");
    EXPECT("M granted");
    enter(b, "W", "w", NULL, 0);
    EXPECT("W EBUSY");
    struct hold *R = enter(b, "R", "r", NULL, -1);
    wait_rw_queued(1);
    get_out(M, LW_OK);
    EXPECT("R granted"); /* by polling: a mutex's release does not know R's queue */
    acquire_hold(a, "M2", "x", 0);
    EXPECT("M2 EBUSY");
    get_out(R, LW_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(I4_a_hand_over_costs_two_commands),
        STAGE_TEST(order_of_arrival_over_two_clients),
        STAGE_TEST(I3_a_lost_message_is_found_by_asking),
        STAGE_TEST(I5_dead_waiters_cost_nothing),
        STAGE_TEST(a_hung_head_costs_its_claim_window),
        STAGE_TEST(a_dead_writer_does_not_keep_readers_out),
        STAGE_TEST(I6_an_acquire_whose_answer_was_lost_counts_once),
        STAGE_TEST(I6_a_release_whose_answer_was_lost_lets_go_of_one_level),
        STAGE_TEST(I6_a_grant_after_a_free_is_given_back),
        STAGE_TEST(a_turn_for_nobody_is_given_back),
        STAGE_TEST(whatever_is_no_hash_of_ours_is_a_stranger_s),
        STAGE_TEST(modes_on_one_name_are_strangers_to_each_other),
    };

    return STAGE_RUN(tests);
}

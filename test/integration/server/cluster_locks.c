/* SPDX-License-Identifier: MIT */
/*
 * Locks on a real cluster. Each kind goes through its whole life at each master, with
 * hand-overs; names are in one slot and in many; slots move, at once and step by step,
 * while locks are held and waited for. What happens to nodes is in test/fault.
 *
 * Usual course: cluster_set(3, 0, ""), one client holds a lock, and another one waits
 * until a message hands it over.
 */
#include "cluster_players.h"
#include "groups.h"
#include "inspect/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- lives ---- */

static void live(struct peer *one, struct peer *other, const char *name,
                 const struct kind *kind)
{
    struct hold *A = hold_of(one, "A", name, kind, 0), *B, *C;

    B = queue_behind(other, "B", A, kind);
    renew_hold(A, 0);
    UNTIL(A->renewed == LW_OK && A->renewals == 0);
    assert_held(A);
    hand_over(A, B);
    free_hold(A);
    C = acquire_hold_with(one, "C", name,
                          asking(.mode = kind->holder, .permits = kind->permits));
    UNTIL(C->result != PENDING);
    assert_int_equal(C->result, LW_EBUSY);
    assert_true(lw_lock_retry_ms(C->lock) > 0);
    free_hold(C);
    end(B);
}

static void every_kind_has_its_life_at_each_master(void **state)
{
    struct peer *one, *other;

    (void)state;
    cluster_set(3, 0, "");
    one = client("a");
    other = client("b");
    for (int i = 0; i < 3 * KINDS; i++) {
        live(one, other, name_at(i % 3, i / 3), &kinds[i / 3]);
    }
    assert_int_equal(peer_stats(one).redirects + peer_stats(other).redirects, 0);
    assert_int_equal(peer_stats(one).lost_taken + peer_stats(other).lost_taken, 0);
}

/* The keys of a Redisson lock may be in three slots. */
static void redissons_lock_is_refused(void **state)
{
    (void)state;
    cluster_set(3, 0, "");
    acquire_refused(client("a"), "x", asking(.mode = LW_REDISSON), LW_EINVAL,
                    "LW_REDISSON");
}

static void a_semaphore_lets_in_as_many_as_it_has(void **state)
{
    struct hold *held[3], *next;
    struct kind permits = {"", LW_SHARED, LW_SHARED, 3};
    struct peer *one, *other;

    (void)state;
    cluster_set(3, 0, "");
    one = client("a");
    other = client("b");
    for (int i = 0; i < 3; i++) {
        held[i] = hold_of(one, "A", "x", &permits, 0);
    }
    next = queue_behind(other, "B", held[0], &permits);
    hand_over(held[1], next);
    end(held[0]);
    end(held[2]);
    end(next);
}

/* ---- many names ---- */

#define NAMES 24

static void take_all(struct peer *peer, struct hold **held, const char *format)
{
    char name[32];

    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof(name), format, i);
        held[i] =
            acquire_hold_with(peer, "A", name, asking(.wait_ms = -1, .lease_ms = 1500));
    }
    for (int i = 0; i < NAMES; i++) {
        UNTIL(held[i]->result != PENDING);
        assert_int_equal(held[i]->result, LW_OK);
    }
    stage_clear_trace();
}

static void be_renewed_thrice(struct peer *peer)
{
    uint64_t renewed = peer_stats(peer).renewed;

    UNTIL(peer_stats(peer).renewed >= renewed + (uint64_t)(3 * NAMES));
    assert_int_equal(peer_stats(peer).lost_deadline + peer_stats(peer).lost_taken, 0);
}

/* Holds all names for three renewals. The next fencing token of each name is larger. */
static void live_together(struct peer *peer, const char *format)
{
    struct hold *first[NAMES], *second[NAMES];

    take_all(peer, first, format);
    be_renewed_thrice(peer);
    for (int i = 0; i < NAMES; i++) {
        assert_held(first[i]);
        release_hold(first[i]);
    }
    take_all(peer, second, format);
    for (int i = 0; i < NAMES; i++) {
        /* A hand-over message may overtake the reply to the release. */
        UNTIL(first[i]->released != PENDING);
        assert_int_equal(first[i]->released, LW_OK);
        assert_true(second[i]->fence > first[i]->fence);
        release_hold(second[i]);
    }
    for (int i = 0; i < NAMES; i++) {
        UNTIL(second[i]->released == LW_OK);
        free_hold(first[i]);
        free_hold(second[i]);
    }
    stage_clear_trace();
}

static void names_in_one_slot_and_in_many_are_renewed(void **state)
{
    struct peer *peer;

    (void)state;
    cluster_set(3, 0, "");
    peer = client("a");
    live_together(peer, "{one}%d");
    live_together(peer, "n%d");
    assert_int_equal(peer_stats(peer).lost_deadline + peer_stats(peer).lost_taken, 0);
}

/* Fencing tokens are drawn per slot, so those of a name increase whichever client holds
 * it. */
static void numbers_rise_from_client_to_client(void **state)
{
    struct peer *peers_of[3];
    uint64_t last[2] = {0};
    const char *labels[] = {"a", "b", "c"};

    (void)state;
    cluster_set(3, 0, "");
    for (int i = 0; i < 3; i++) {
        peers_of[i] = client(labels[i]);
    }
    for (int i = 0; i < 30; i++) {
        struct hold *A = hold_of(peers_of[i % 3], "A", i % 2 ? "{one}x" : "{one}y",
                                 &kinds[i % 4 ? 0 : 1], 0);
        assert_true(A->fence > last[i % 2]);
        last[i % 2] = A->fence;
        end(A);
    }
}

/* Sets the slot's fence counter back, as if the slot had come from a replica that lacked
 * the last writes. A client that has drawn from it must still get larger tokens. */
static void set_back(int slot, long long by)
{
    redisReply *keys;

    cluster_ask_owner(slot);
    keys = server_command(&stage.server, "CLUSTER GETKEYSINSLOT %d 10", slot);
    for (size_t i = 0; i < keys->elements; i++) {
        const char *key = keys->element[i]->str;
        if (strncmp(key, "lockwire:fence:", strlen("lockwire:fence:")) == 0) {
            redis_ok("DECRBY %s %lld", key, by);
            by = 0;
        }
    }
    freeReplyObject(keys);
    assert_int_equal(by, 0);
}

static void numbers_rise_although_the_last_ones_are_lost(void **state)
{
    struct peer *one;
    uint64_t last = 0;
    int home;

    (void)state;
    cluster_set(3, 0, "");
    one = client("a");
    home = cluster_owner(cluster_slot("x"));
    for (int i = 0; i < 6; i++) {
        struct hold *A = hold_of(one, "A", "x", &kinds[i / 3], 0);
        assert_true(A->fence > last);
        last = A->fence;
        end(A);
        cluster_move(cluster_slot("x"), i % 2 ? home : (home + 1) % 3);
        set_back(cluster_slot("x"), 100);
    }
}

/* ---- lw_inspect and lw_break ---- */

static void it_is_looked_at_and_broken(void **state)
{
    struct peer *one, *other;
    struct hold *A, *B;
    char place[32];

    (void)state;
    cluster_set(3, 0, "");
    one = client("a");
    other = client("b");
    for (int node = 0; node < 3; node++) {
        A = hold_of(one, "A", name_at(node, 0), &kinds[0], 0);
        B = queue_behind(other, "B", A, &kinds[0]);
        look_at(other, lw_lock_name(A->lock));
        (void)snprintf(place, sizeof(place), "127.0.0.1:%d", cluster_main_port(node));
        assert_string_equal(look.server, place);
        assert_string_equal(look.role, "master");
        FOUND("held by m - test-a; 1 m - test-b");
        break_it(other, lw_lock_name(A->lock), NULL, LW_OK);
        UNTIL(B->result == LW_OK);
        renew_hold(A, 0);
        UNTIL(A->lost == LW_ENOTHELD);
        free_hold(A);
        end(B);
    }
}

/* A client that has queued for the name is subscribed in its slot, and so receives the
 * message about the break. The lease is so long that the client cannot learn of the break
 * by a renewal of its own. */
static void a_broken_holder_that_queued_is_told(void **state)
{
    struct peer *one, *other;
    struct hold *A, *B;

    (void)state;
    cluster_set(3, 0, "");
    one = client("a");
    other = client("b");
    A = hold_of(one, "A", name_at(0, 0), &kinds[0], 0);
    B = queue_behind(other, "B", A, &kinds[0]);
    hand_over(A, B);
    free_hold(A);
    renew_hold(B, 600000);
    UNTIL(B->renewals == 0);
    break_it(one, lw_lock_name(B->lock), NULL, LW_OK);
    UNTIL(B->lost == LW_ENOTHELD);
    free_hold(B);
}

#define HEARTBEAT_MS 30000

/* Asks until the holder is reached: its subscription follows the grant or the move, long
 * before the first heartbeat. */
static void ask_until_reached(struct peer *peer, struct hold *hold)
{
    int64_t begun_ms = now_ms();
    int asked = hold->asked;

    do {
        call_yield(peer, lw_lock_name(hold->lock));
        UNTIL(look.yielded != PENDING);
        assert_true(look.yielded == LW_OK || look.yielded == LW_ECONN);
        assert_true(now_ms() - begun_ms < HEARTBEAT_MS / 2);
    } while (look.reached == 0);
    assert_int_equal(look.asked, 1);
    UNTIL(hold->asked == asked + 1);
    stage_clear_trace();
}

/* Acquires the lock without waiting, so that no place in the queue is asked for. */
static struct hold *try(struct peer *peer, const char *name, enum lw_mode mode)
{
    struct hold *hold = acquire_hold_with(peer, "A", name, asking(.mode = mode));

    EXPECT("A granted");
    return hold;
}

static void a_holder_that_never_waited_is_asked_at_each_master(void **state)
{
    struct peer *one, *other;

    (void)state;
    cluster_set(3, 0, "");
    cluster_need_places();
    one = client_that_is_asked("a", HEARTBEAT_MS);
    other = client("b");
    for (int node = 0; node < 3; node++) {
        struct hold *A = try(one, name_at(node, 0), kinds[node].holder);

        ask_until_reached(other, A);
        assert_held(A);
        end(A);
    }
}

/* Without asked_to_yield a client that only holds has no subscription. A server without
 * sharded channels refuses the message. */
static void a_holder_that_ignores_requests_is_not_subscribed(void **state)
{
    struct peer *one;
    struct hold *A;

    (void)state;
    cluster_set(3, 0, "");
    one = client("a");
    A = try(one, "x", LW_MUTEX);
    stage_run_for(200);
    call_yield(client("b"), "x");
    EXPECT(cluster_has_places() ? "yielded OK" : "yielded EREDIS");
    assert_int_equal(look.asked, 1);
    assert_int_equal(look.reached, 0);
    end(A);
}

/* Also while the slot is on its way, when the name's own key alone can be read. */
static void a_holder_is_asked_wherever_its_slot_moves(void **state)
{
    struct peer *one, *other;
    struct hold *A;
    int slot, home;

    (void)state;
    cluster_set(3, 0, "");
    cluster_need_places();
    one = client_that_is_asked("a", HEARTBEAT_MS);
    other = client("b");
    slot = cluster_slot("x");
    home = cluster_owner(slot);
    A = try(one, "x", LW_MUTEX);
    ask_until_reached(other, A);
    for (int i = 1; i < 3; i++) {
        int to = (home + i) % 3;

        cluster_begin(slot, to);
        ask_until_reached(other, A);
        cluster_carry(slot, to, -1);
        ask_until_reached(other, A);
        cluster_end(slot, to);
        ask_until_reached(other, A);
        assert_held(A);
    }
    end(A);
}

/* Each change is seen long before the next poll, also after the slot has moved. */
static void a_watch_follows_a_slot_that_moves(void **state)
{
    struct peer *one, *other;
    struct hold *A;
    int slot, home;

    (void)state;
    cluster_set(3, 0, "");
    cluster_need_places();
    one = client("a");
    other = client("b");
    slot = cluster_slot("x");
    home = cluster_owner(slot);
    begin_watch(other, "x", 5000);
    EXPECT("seen free");
    for (int i = 0; i < 3; i++) {
        int64_t begun;

        UNTIL(peer_stats(other).subscription_up == 1);
        stage_run_for(700); /* the look that follows the subscription, or the move */
        stage_clear_trace();
        begun = now_ms();
        A = acquire_hold(one, "A", "x", 0);
        EXPECT_SET("A granted; seen held by m - test-a");
        assert_true(now_ms() - begun < 27000);
        if (i == 2) {
            break;
        }
        cluster_move(slot, (home + 1 + i) % 3);
        end(A);
        UNTIL(look.holder_total == 0);
    }
    end(A);
    UNTIL(look.holder_total == 0);
    end_watch();
}

/* ---- slots that have moved ---- */

static int another(const struct hold *hold)
{
    return (cluster_owner(slot_of(hold)) + 1) % 3;
}

static void renewed(struct hold *hold)
{
    renew_hold(hold, 0);
    UNTIL(hold->renewals == 0);
    if (hold->renewed != LW_OK) {
        stage_fail("%s: %s", status_name(hold->renewed), lw_lock_errstr(hold->lock));
    }
    stage_clear_trace();
}

/* The holder learns the slot's new node by a redirect; the waiter, by the end of its
 * subscription. */
static void what_has_moved_is_followed(void **state)
{
    struct peer *one, *other;

    (void)state;
    cluster_set(3, 0, "");
    one = client("a");
    other = client("b");
    for (int i = 0; i < KINDS; i++) {
        uint64_t before = peer_stats(one).redirects;
        struct hold *A = hold_of(one, "A", name_at(0, 0), &kinds[i], 0), *B;
        B = queue_behind(other, "B", A, &kinds[i]);
        cluster_move(slot_of(A), another(A));
        renewed(A);
        assert_held(A);
        assert_true(peer_stats(one).redirects > before);
        pass_on(A, B);
        free_hold(A);
        end(B);
        live(one, other, name_at(1, 0), &kinds[i]);
    }
}

/* Passes a hold from one client to another by its token. The slot moves if `moves` is
 * true. */
static struct hold *pass_by_token(struct hold *A, struct peer *to, enum lw_mode mode,
                                  bool moves)
{
    struct hold *C;
    char token[96];

    (void)snprintf(token, sizeof(token), "%s", lw_lock_token(A->lock));
    if (moves) {
        cluster_move(slot_of(A), another(A));
    }
    detach_hold(A, 600000);
    UNTIL(A->released != PENDING);
    assert_int_equal(A->released, LW_OK);
    if (moves) {
        cluster_move(slot_of(A), another(A));
    }
    C = adopt_hold(to, "C", lw_lock_name(A->lock), token,
                   asking(.mode = mode, .wait_ms = -1));
    UNTIL(C->result != PENDING);
    assert_int_equal(C->result, LW_OK);
    assert_true(C->fence > A->fence);
    assert_held(C);
    return C;
}

static void locks_are_detached_and_adopted_at_each_master(void **state)
{
    struct peer *one, *other;

    (void)state;
    cluster_set(3, 0, "");
    one = client("a");
    other = client("b");
    for (int i = 0; i < 3 * KINDS; i++) {
        const struct kind *kind = &kinds[i / 3];
        struct hold *A = hold_of(one, "A", name_at(i % 3, i / 3), kind, 0),
                    *B = queue_behind(one, "B", A, kind),
                    *C = pass_by_token(A, other, kind->holder, false);

        hand_over(C, B);
        free_hold(A);
        free_hold(C);
        end(B);
    }
}

static void so_many_wait_at_each_master(void **state)
{
    struct peer *one, *other;

    (void)state;
    cluster_set(3, 0, "");
    one = client("a");
    other = client("b");
    for (int i = 0; i < 3 * KINDS; i++) {
        const struct kind *kind = &kinds[i / 3];
        const char *name = name_at(i % 3, i / 3);
        struct hold *A = hold_of(one, "A", name, kind, 0),
                    *B = queue_behind(other, "B", A, kind),
                    *C = acquire_hold_with(one, "C", name,
                                           asking(.mode = kind->waiter,
                                                  .permits = kind->permits, .wait_ms = -1,
                                                  .max_waiting = 1));

        UNTIL(C->result != PENDING);
        assert_int_equal(C->result, LW_EBUSY);
        hand_over(A, B);
        free_hold(A);
        free_hold(C);
        end(B);
    }
}

static void what_has_moved_is_detached_and_adopted(void **state)
{
    struct peer *one, *other;

    (void)state;
    cluster_set(3, 0, "");
    one = client("a");
    other = client("b");
    for (int i = 0; i < KINDS; i++) {
        struct hold *A = hold_of(one, "A", name_at(0, i), &kinds[i], 0),
                    *C = pass_by_token(A, other, kinds[i].holder, true);

        free_hold(A);
        end(C);
    }
}

/* Detaching needs only the key of the name. Adopting waits until the slot has moved. */
static void what_is_on_its_way_is_detached_and_then_adopted(void **state)
{
    struct peer *one, *other;

    (void)state;
    cluster_set(3, 0, "");
    one = client("a");
    other = client("b");
    for (int i = 0; i < KINDS; i++) {
        struct hold *A = hold_of(one, "A", name_at(0, i), &kinds[i], 0), *C;
        int slot = slot_of(A), to = another(A);

        cluster_begin(slot, to);
        cluster_carry_key(lw_lock_name(A->lock), to);
        detach_hold(A, 600000);
        UNTIL(A->released != PENDING);
        assert_int_equal(A->released, LW_OK);
        C = adopt_hold(other, "C", lw_lock_name(A->lock), lw_lock_token(A->lock),
                       asking(.mode = kinds[i].holder, .wait_ms = -1));
        stage_run_for(100);
        cluster_carry(slot, to, -1);
        cluster_end(slot, to);
        UNTIL(C->result != PENDING);
        assert_int_equal(C->result, LW_OK);
        assert_held(C);
        free_hold(A);
        end(C);
    }
}

static void what_has_moved_and_back_is_handed_over(void **state)
{
    struct peer *one, *two, *other;
    struct hold *A, *B;
    int home;

    (void)state;
    cluster_set(3, 0, "");
    one = client("a");
    other = two = client("b");
    A = hold_of(one, "A", "x", &kinds[0], 0);
    home = cluster_owner(slot_of(A));
    for (int i = 0; i < 6; i++) {
        cluster_move(slot_of(A), i % 2 ? home : (home + 1) % 3);
        B = queue_behind(other, "B", A, &kinds[0]);
        hand_over(A, B);
        free_hold(A);
        A = B;
        other = i % 2 ? two : one;
    }
    end(A);
}

/* The slot moves in one step, if the servers can do that. */
static void what_has_moved_as_a_whole_is_followed(void **state)
{
    struct peer *one, *other;
    struct hold *A, *B;

    (void)state;
    cluster_set(3, 0, "");
    one = client("a");
    other = client("b");
    for (int i = 0; i < KINDS; i++) {
        A = hold_of(one, "A", name_at(0, 0), &kinds[i], 0);
        B = queue_behind(other, "B", A, &kinds[i]);
        if (!cluster_move_whole(slot_of(A), another(A))) {
            skip();
        }
        renewed(A);
        assert_held(A);
        pass_on(A, B);
        free_hold(A);
        end(B);
    }
}

/* ---- several names at once ---- */

static void sets_of_many_slots(void **state)
{
    struct peer *one, *other;
    struct group *G, *H;

    (void)state;
    cluster_set(3, 0, "");
    one = client("a");
    other = client("b");
    for (int i = 0; i < 5; i++) {
        G = group_take(one, "G", "n1 n2 n3 n4 n5 n6 n7");
        H = group_ask(other, "H", asking(.wait_ms = -1), "n9 n7 n3 n8");
        group_release(G);
        UNTIL(H->result != PENDING);
        assert_int_equal(H->result, LW_OK);
        UNTIL(G->released == LW_OK);
        group_free(G);
        group_free(H);
    }
    stage_clear_trace();
}

/* The node of one name is silent, so it does not answer the release either. The name on
 * the other node is nevertheless released when the margin has passed. */
static void a_silent_node_does_not_keep_the_others_of_a_set(void **state)
{
    struct peer *one, *other;
    struct group *G;
    struct hold *B;
    char names[80];

    (void)state;
    cluster_set(3, 0, "--cluster-node-timeout 60000");
    cluster_need_places(); /* B must get a message; if it polled, it would be as late as
                              that */
    one = client("a");
    other = client("b");
    (void)snprintf(names, sizeof(names), "%s %s", name_at(0, 0), name_at(1, 0));
    G = group_ask(one, "G", asking(.lease_ms = 3000, .margin_ms = 500), names);
    UNTIL(G->result != PENDING);
    assert_int_equal(G->result, LW_OK);
    B = acquire_hold(other, "B", name_at(1, 0), -1);
    server_pause(cluster_server(0));
    UNTIL(G->lost != PENDING);
    assert_int_equal(G->lost, LW_ELOST);
    UNTIL(B->result != PENDING);
    assert_int_equal(B->result, LW_OK);
    /* otherwise B would wait until the lease of the other claim ends */
    assert_true(B->result_ms - G->lost_ms < 2500 || stage.worst_lag_ms > 500);
    assert_true(one->up);
    server_resume(cluster_server(0));
    stage_clear_trace();
}

static struct crowd crowd;

/* Takes one step of a move after every 20 grants. */
static bool slots_move(void)
{
    static int step, granted, slot, to;

    if (crowd.granted == 0) {
        step = granted = 0;
    }
    if (crowd.granted < granted + 20) {
        return true;
    }
    granted = crowd.granted;
    if (step % 4 == 0) {
        char name[8];

        (void)snprintf(name, sizeof(name), "n%d", step / 4 * 7 % 20);
        slot = cluster_slot(name);
        to = (cluster_owner(slot) + 1) % 3;
        cluster_begin(slot, to);
    } else if (step % 4 < 3) {
        cluster_carry(slot, to, step % 4 == 1 ? 1 : -1);
    } else {
        cluster_carry(slot, to, -1);
        cluster_end(slot, to);
    }
    step++;
    return step < 4 * 12;
}

static void sets_are_acquired_while_slots_move(void **state)
{
    (void)state;
    cluster_set(3, 0, "");
    cluster_need_places(); /* clients that poll can starve */
    crowd = (struct crowd){.url = cluster_url(),
                           .seed = 6,
                           .clients = 4,
                           .lease_ms = 5000,
                           .elsewhere = true,
                           .disturb = slots_move};
    crowd_run(&crowd);
    stage_skip_if_lag(1000);
    assert_int_equal(crowd.lost, 0);
    for (int i = 0; i < 20; i++) {
        char name[8];

        (void)snprintf(name, sizeof(name), "n%d", i);
        cluster_ask_owner(cluster_slot(name));
        UNTIL(redis_int("EXISTS %s", name) == 0);
    }
}

static bool a_master_dies(void)
{
    static int granted;

    if (crowd.granted < 200) {
        granted = 0;
        return true;
    }
    if (granted == 0) {
        granted = crowd.granted;
        server_kill(cluster_server(0));
    }
    return crowd.granted < granted + 300;
}

/* An overlap that lost writes cause is excused; a standstill is not. */
static void sets_are_acquired_when_a_master_has_died(void **state)
{
    (void)state;
    cluster_set(3, 3, "");
    cluster_need_places();
    crowd = (struct crowd){.url = cluster_url(),
                           .seed = 7,
                           .clients = 4,
                           .lease_ms = 1500,
                           .overlaps = true,
                           .elsewhere = true,
                           .disturb = a_master_dies};
    crowd_run(&crowd);
    assert_true(crowd.granted >= 500);
}

/* ---- masters that are replaced ---- */

static bool was_asked_for_its_role(int node)
{
    redisReply *stats = server_command(cluster_server(node), "INFO commandstats");
    bool asked = strstr(stats->str, "cmdstat_role:") != NULL;

    freeReplyObject(stats);
    return asked;
}

/* `strike` puts node 0 out of service. Node 3 is its replica, and waits for the client's
 * question before it takes over. */
static void replica_is_followed(void (*strike)(struct server *server))
{
    struct peer *a;
    struct hold *A, *B;

    cluster_set(3, 3,
                "--cluster-replica-no-failover yes --cluster-replica-validity-factor 0");
    a = client("a");
    A = acquire_and_wait(a, "A", name_at(0, 0));
    strike(cluster_server(0));
    B = acquire_hold_with(a, "B", name_at(0, 1), asking(.wait_ms = -1));
    UNTIL(was_asked_for_its_role(3));
    freeReplyObject(
        server_command(cluster_server(3), "CONFIG SET cluster-replica-no-failover no"));
    cluster_promoted(3);
    UNTIL(B->result != PENDING);
    assert_int_equal(B->result, LW_OK);
    free_hold(B);
    free_hold(A);
    server_resume(cluster_server(0));
    stage_clear_trace();
}

static void the_replica_of_a_dead_master_is_watched(void **state)
{
    (void)state;
    replica_is_followed(server_kill);
}

static void the_replica_of_a_silent_master_is_watched(void **state)
{
    (void)state;
    replica_is_followed(server_pause);
}

/* ---- slots that move ---- */

/* Renews and releases a hold while its slot moves, when `carried` keys have moved: none,
 * some, or all (-1). */
static void held_and_released_on_its_way(struct peer *one, struct peer *other,
                                         const struct kind *kind, int carried)
{
    struct hold *A = hold_of(one, "A", name_at(0, 0), kind, 0), *B;
    int slot = slot_of(A), to = another(A);

    B = queue_behind(other, "B", A, kind);
    cluster_begin(slot, to);
    cluster_carry(slot, to, carried);
    renewed(A);
    assert_int_equal(B->result, PENDING);
    release_hold(A);
    UNTIL(A->released != PENDING);
    if (A->released != LW_OK) {
        stage_fail("%s, %d keys are there: released %s, %s", kind->name, carried,
                   status_name(A->released), lw_lock_errstr(A->lock));
    }
    free_hold(A);
    if (kind->waiter == LW_MUTEX) {
        UNTIL(B->result != PENDING); /* although the slot still moves */
        assert_int_equal(B->result, LW_OK);
        renewed(B);
    }
    cluster_carry(slot, to, -1);
    cluster_end(slot, to);
    UNTIL(B->result != PENDING);
    assert_int_equal(B->result, LW_OK);
    assert_true(B->fence > 0);
    end(B);
    cluster_move(slot, 0);
}

static void what_moves_is_renewed_and_released(void **state)
{
    static const int carried[] = {0, 1, 2, -1};
    struct peer *one, *other;

    (void)state;
    cluster_set(3, 0, "");
    one = client("a");
    other = client("b");
    for (int i = 0; i < 4 * KINDS; i++) {
        held_and_released_on_its_way(one, other, &kinds[i / 4], carried[i % 4]);
    }
    assert_int_equal(peer_stats(one).lost_taken + peer_stats(one).lost_deadline, 0);
}

/* All are renewed together before the move, one by one during it, and together again
 * afterwards. */
static void many_names_on_their_way_are_renewed(void **state)
{
    struct hold *held[NAMES];
    struct peer *peer;
    int slot, to;

    (void)state;
    cluster_set(3, 0, "");
    peer = client("a");
    take_all(peer, held, "{one}%d");
    slot = slot_of(held[0]);
    to = another(held[0]);
    cluster_begin(slot, to);
    be_renewed_thrice(peer);
    cluster_carry(slot, to, NAMES / 2);
    be_renewed_thrice(peer);
    for (int i = 0; i < NAMES; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "{one}%d", i);
        end(held[i]);
        held[i] = hold_of(peer, "A", name, &kinds[0], 1500);
    }
    cluster_carry(slot, to, -1);
    cluster_end(slot, to);
    be_renewed_thrice(peer);
}

/* A client that closes releases its locks, although there are waiters. */
static void who_closes_lets_go_on_its_way(void **state)
{
    struct peer *one, *other;

    (void)state;
    cluster_set(3, 0, "");
    other = client("b");
    for (int i = 0; i < KINDS; i++) {
        struct hold *A, *B;
        int slot, to;

        one = client("a");
        A = hold_of(one, "A", name_at(0, 0), &kinds[i], 0);
        B = queue_behind(other, "B", A, &kinds[i]);
        slot = slot_of(A);
        to = another(A);
        cluster_begin(slot, to);
        cluster_carry(slot, to, 1);
        peer_close(one);
        UNTIL(one->closed);
        peer_free(one);
        cluster_carry(slot, to, -1);
        cluster_end(slot, to);
        /* Without the release the lease of A would last as long as this wait. */
        UNTIL(B->result != PENDING);
        assert_int_equal(B->result, LW_OK);
        free_hold(A);
        end(B);
    }
}

static long long sets_so_far(void)
{
    const char *calls = strstr(redis_text("INFO commandstats"), "cmdstat_set:calls=");

    return calls != NULL ? atoll(strchr(calls, '=') + 1) : 0;
}

/* The margin is so large that B does not trust the hand-over message, and sends its
 * request again. Its queue entry was the last one, so the queue's key is gone, and the
 * script with three keys gets TRYAGAIN. B nevertheless finds out that it has the lock,
 * without waiting until its own claim has expired. */
static void who_was_handed_the_last_place_takes_it(void **state)
{
    struct hold *A, *B;
    int slot, to;
    long long sets;

    (void)state;
    cluster_set(3, 0, "");
    cluster_need_places();
    A = hold_of(client("a"), "A", name_at(0, 0), &kinds[0], 0);
    slot = slot_of(A);
    to = another(A);
    B = acquire_hold_with(client("b"), "B", lw_lock_name(A->lock),
                          asking(.wait_ms = -1, .lease_ms = 10000, .margin_ms = 2500));
    cluster_ask_owner(slot);
    UNTIL(redis_int("ZCARD lockwire:2:queue:{%s}", lw_lock_name(A->lock)) == 1);
    cluster_begin(slot, to);
    sets = sets_so_far();
    release_hold(A);
    UNTIL(A->released != PENDING && B->result != PENDING);
    assert_int_equal(A->released, LW_OK);
    assert_int_equal(B->result, LW_OK);
    /* Two of these commands are for the fencing tokens. */
    assert_in_range(sets_so_far() - sets, 1, 6);
    assert_true(B->fence > A->fence);
    free_hold(A);
    cluster_carry(slot, to, -1);
    cluster_end(slot, to);
    end(B);
}

/* The last handle that one grant serves releases, and the next one's request follows in
 * the same write. */
static void turns_are_taken_on_its_way(void **state)
{
    struct hold *held[3];
    struct peer *peer;
    int slot, to;

    (void)state;
    cluster_set(3, 0, "");
    peer = peer_start_at("a", cluster_url(), client_of(.local_turns = 2));
    for (int i = 0; i < 3; i++) {
        held[i] =
            acquire_hold_with(peer, "A", "x", asking(.wait_ms = -1, .lease_ms = 60000));
    }
    UNTIL(held[0]->result == LW_OK);
    slot = slot_of(held[0]);
    to = another(held[0]);
    cluster_begin(slot, to);
    cluster_carry(slot, to, 1);
    for (int i = 0; i < 2; i++) {
        release_hold(held[i]);
        UNTIL(held[i]->released != PENDING && held[i + 1]->result != PENDING);
        assert_int_equal(held[i]->released, LW_OK);
        assert_int_equal(held[i + 1]->result, LW_OK);
        assert_true(held[i + 1]->fence > held[i]->fence);
    }
    cluster_carry(slot, to, -1);
    cluster_end(slot, to);
    assert_held(held[2]);
    release_hold(held[2]);
    UNTIL(held[2]->released != PENDING);
    assert_int_equal(held[2]->released, LW_OK);
    stage_clear_trace();
}

/* A node that serves reads while the cluster is down runs scripts, and refuses their
 * writes in words of its own: those of Redis and Valkey 8, or of Valkey 9. */
static void a_script_may_not_write_while_the_cluster_is_down(void **state)
{
    static const char text[] = "while the cluster is down";
    const char *name;
    struct peer *a;
    struct hold *A, *B, *C;

    (void)state;
    cluster_set(3, 0, "--cluster-allow-reads-when-down yes");
    a = client("a");
    name = name_at(0, 1);
    A = acquire_hold_with(a, "A", name_at(0, 0),
                          asking(.mode = LW_EXCLUSIVE, .lease_ms = 60000));
    EXPECT("A granted");
    server_kill(cluster_server(2));
    UNTIL(cluster_is_down_by(0));
    B = acquire_hold_with(a, "B", name, asking(.mode = LW_EXCLUSIVE, .wait_ms = 0));
    EXPECT("B ECONN");
    assert_non_null(strstr(lw_lock_errstr(B->lock), text));
    assert_null(strstr(lw_lock_errstr(B->lock), "CLUSTERDOWN")); /* it ran the script */
    renew_hold(A, 0);
    EXPECT("A renewed ECONN");
    assert_non_null(strstr(lw_lock_errstr(A->lock), text));
    C = acquire_hold_with(a, "C", name, asking(.mode = LW_EXCLUSIVE, .wait_ms = -1));
    UNTIL(strstr(lw_lock_errstr(C->lock), text) != NULL);
    server_restart(cluster_server(2));
    EXPECT("C granted");
    renew_hold(A, 0);
    EXPECT("A renewed OK");
    assert_held(A);
    assert_int_equal(peer_stats(a).lost_taken, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(every_kind_has_its_life_at_each_master),
        STAGE_TEST(redissons_lock_is_refused),
        STAGE_TEST(a_semaphore_lets_in_as_many_as_it_has),
        STAGE_TEST(names_in_one_slot_and_in_many_are_renewed),
        STAGE_TEST(numbers_rise_from_client_to_client),
        STAGE_TEST(numbers_rise_although_the_last_ones_are_lost),
        STAGE_TEST(it_is_looked_at_and_broken),
        STAGE_TEST(a_broken_holder_that_queued_is_told),
        STAGE_TEST(a_holder_that_never_waited_is_asked_at_each_master),
        STAGE_TEST(a_holder_that_ignores_requests_is_not_subscribed),
        STAGE_TEST(a_holder_is_asked_wherever_its_slot_moves),
        STAGE_TEST(a_watch_follows_a_slot_that_moves),
        STAGE_TEST(sets_of_many_slots),
        STAGE_TEST(a_silent_node_does_not_keep_the_others_of_a_set),
        STAGE_TEST(sets_are_acquired_while_slots_move),
        STAGE_TEST(sets_are_acquired_when_a_master_has_died),
        STAGE_TEST(the_replica_of_a_dead_master_is_watched),
        STAGE_TEST(the_replica_of_a_silent_master_is_watched),
        STAGE_TEST(what_has_moved_is_followed),
        STAGE_TEST(locks_are_detached_and_adopted_at_each_master),
        STAGE_TEST(so_many_wait_at_each_master),
        STAGE_TEST(what_has_moved_is_detached_and_adopted),
        STAGE_TEST(what_is_on_its_way_is_detached_and_then_adopted),
        STAGE_TEST(what_has_moved_and_back_is_handed_over),
        STAGE_TEST(what_has_moved_as_a_whole_is_followed),
        STAGE_TEST(what_moves_is_renewed_and_released),
        STAGE_TEST(many_names_on_their_way_are_renewed),
        STAGE_TEST(who_was_handed_the_last_place_takes_it),
        STAGE_TEST(turns_are_taken_on_its_way),
        STAGE_TEST(who_closes_lets_go_on_its_way),
        STAGE_TEST(a_script_may_not_write_while_the_cluster_is_down),
    };

    return STAGE_RUN(tests);
}

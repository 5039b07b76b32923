/* SPDX-License-Identifier: MIT */
/*
 * Wall clocks of a quorum's servers and clients that are stepped, differ, or run at other
 * rates. A step of a minority of the servers costs at most the order of waiters; a step
 * of a majority ahead loses the lock; clients' clocks have no effect; rates within the
 * drift margin keep exclusion. The first argument is "servers" or "own"; with "own" this
 * program runs itself again with the preload. The environment's LOCKWIRE_CLOCK_PRELOAD is
 * the preload's path.
 *
 * Usual course: a lock is held, and waited for; a clock changes; the waiters are served
 * one after another. */
#include "clocks.h"
#include "quorum/scene.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LEASE_MS 6000

/* Gives each server the slot with its index. */
static void before_start(int server)
{
    clocks_slot_of_children(server);
}

/* Starts the servers with clocks that are ahead by these seconds; NULL: by none. */
static void start(int count, const int64_t *ahead_s)
{
    memset((void *)clock_slots, 0, CLOCK_SLOTS * sizeof(*clock_slots));
    for (int i = 0; ahead_s != NULL && i < count; i++) {
        clock_slots[i].seconds = ahead_s[i];
    }
    clocks_of_children(true);
    quorum_start(count);
    clocks_of_children(false);
}

static void step(int server, int64_t seconds)
{
    int64_t before = clock_of(&quorum_server[server]);

    clock_slots[server].seconds += seconds;
    UNTIL(seconds > 0 ? clock_of(&quorum_server[server]) >= before + seconds
                      : clock_of(&quorum_server[server]) < before);
}

/* ---- a crowd, which holds the lock for a moment each ---- */

#define CROWD 6
#define ROUNDS 8
#define HOLD_US 2000

struct member {
    struct peer *peer;
    struct hold *hold;
    struct event *timer;
    int rounds;
};

static struct {
    struct member members[CROWD];
    int holders, done, served;
    uint64_t last;
} crowd;

static void crowd_moves(struct hold *hold, enum moment moment);

static void crowd_ask(struct member *member)
{
    member->hold = acquire_hold_with(member->peer, "M", "x", asking(.wait_ms = -1));
    member->hold->aim = member;
    member->hold->then = crowd_moves;
}

static void crowd_ends(evutil_socket_t none, short what, void *arg)
{
    struct member *member = arg;

    (void)none, (void)what;
    crowd.holders--;
    crowd.served++;
    free_hold(member->hold);
    if (++member->rounds < ROUNDS) {
        crowd_ask(member);
    } else {
        crowd.done++;
    }
}

static void crowd_moves(struct hold *hold, enum moment moment)
{
    struct member *member = hold->aim;

    if (moment != AT_RESULT || hold->result != LW_OK) {
        stage_complain("a member of the crowd: %s",
                       status_name(moment == AT_RESULT ? hold->result : hold->lost));
        return;
    }
    if (crowd.holders++ != 0 || hold->fence <= crowd.last) {
        stage_complain("%d hold, number %llu after %llu", crowd.holders,
                       (unsigned long long)hold->fence, (unsigned long long)crowd.last);
    }
    crowd.last = hold->fence;
    event_add(member->timer, &(struct timeval){0, HOLD_US});
}

/* Starts the crowd. With `parted` its second half does not reach the first server, and
 * takes its tickets from the second. */
static void crowd_begin(bool parted)
{
    memset(&crowd, 0, sizeof(crowd));
    for (int i = 0; i < CROWD; i++) {
        struct member *member = &crowd.members[i];
        char label[16];

        (void)snprintf(label, sizeof(label), "p%d", i);
        proxy_refuse(quorum_proxy[0], parted && i >= CROWD / 2);
        if (parted && i >= CROWD / 2) {
            member->peer =
                quorum_peer(label, client_of(.local_turns = 1, .backoff_max_ms = 100));
            UNTIL(member->peer->up && peer_stats(member->peer).subscription_up);
        } else {
            member->peer = quorum_peer(label, NULL);
        }
        member->timer = event_new(stage.base, -1, 0, crowd_ends, member);
    }
    for (int i = 0; i < CROWD; i++) {
        crowd_ask(&crowd.members[i]);
    }
    UNTIL(crowd.served >=
          CROWD); /* all have sent requests to the servers that they reach */
}

static void crowd_end(void)
{
    UNTIL(crowd.done == CROWD);
    stage_clear_trace();
    for (int i = 0; i < CROWD; i++) {
        event_free(crowd.members[i].timer);
    }
    UNTIL(quorum_count("x") == 0);
}

/* ---- a minority ---- */

static void let_a_minority_step(int server, int64_t seconds)
{
    struct peer *a, *b;
    struct hold *A, *B;

    start(3, NULL);
    a = quorum_peer("a", NULL);
    b = quorum_peer("b", NULL);
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 900));
    EXPECT("A granted");
    UNTIL(quorum_count("x") == 3);
    B = acquire_hold(b, "B", "x", -1);
    UNTIL(quorum_queued(0, "x") == 1 && quorum_queued(1, "x") == 1 &&
          quorum_queued(2, "x") == 1);
    step(server, seconds);
    stage_expect_nothing(2000); /* renewed twice */
    assert_true(lw_lock_remaining_ms(A->lock) > 0);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_true(B->fence > A->fence);
    release_hold(B);
    EXPECT("B released OK");
    UNTIL(quorum_queued(0, "x") == 0 && quorum_queued(1, "x") == 0);
}

/* The first server's clock gives the tickets. */
static void the_first_server_steps_ahead(void **state)
{
    (void)state;
    let_a_minority_step(0, 60);
}

static void the_first_server_steps_back(void **state)
{
    (void)state;
    let_a_minority_step(0, -60);
}

static void another_server_steps_ahead(void **state)
{
    (void)state;
    let_a_minority_step(2, 60);
}

static void another_server_steps_back(void **state)
{
    (void)state;
    let_a_minority_step(2, -60);
}

static void a_crowd_is_served_while_the_first_server_steps(void **state)
{
    (void)state;
    start(3, NULL);
    crowd_begin(false);
    step(0, 3600);
    UNTIL(crowd.served >= 2 * CROWD);
    step(0, -7200);
    crowd_end();
}

/* ---- a majority ---- */

/* Without the foreign holder the holder might request its votes again before it misses
 * both. */
static void a_majority_that_steps_ahead_loses_the_lock(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;

    (void)state;
    start(3, NULL);
    a = quorum_peer("a", NULL);
    b = quorum_peer("b", NULL);
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = LEASE_MS));
    EXPECT("A granted");
    UNTIL(quorum_count("x") == 3);
    B = acquire_hold(b, "B", "x", -1);
    UNTIL(quorum_queued(0, "x") == 1 && quorum_queued(1, "x") == 1 &&
          quorum_queued(2, "x") == 1);
    for (int i = 1; i <= 2; i++) {
        step(i, 60);
        freeReplyObject(
            server_command(&quorum_server[i], "SET x stranger NX PX %d", LEASE_MS / 2));
    }
    EXPECT("A lost ENOTHELD; B granted");
    assert_true(B->fence > A->fence);
    release_hold(B);
    EXPECT("B released OK");
}

static void a_majority_that_steps_back_keeps_the_lock(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;

    (void)state;
    start(3, NULL);
    a = quorum_peer("a", NULL);
    b = quorum_peer("b", NULL);
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 900));
    EXPECT("A granted");
    B = acquire_hold(b, "B", "x", -1);
    UNTIL(quorum_queued(0, "x") == 1 && quorum_queued(1, "x") == 1 &&
          quorum_queued(2, "x") == 1);
    step(0, -60);
    step(1, -60);
    stage_expect_nothing(2000);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_true(B->fence > A->fence);
    release_hold(B);
    EXPECT("B released OK");
}

/* ---- clocks that differ ---- */

/* The tickets of all clients are by the first server's clock. */
static void clocks_that_differ_by_10_ms_keep_the_order(void **state)
{
    struct peer *a, *b, *c;
    struct hold *A, *B, *C;

    (void)state;
    start(3, NULL);
    clock_slots[0].us = 10000;
    clock_slots[1].us = -10000;
    a = quorum_peer("a", NULL);
    b = quorum_peer("b", NULL);
    c = quorum_peer("c", NULL);
    A = quorum_take(a, "A", "x");
    B = acquire_hold(b, "B", "x", -1);
    stage_run_for(100); /* more than the error of a ticket */
    C = acquire_hold(c, "C", "x", -1);
    UNTIL(quorum_queued(0, "x") == 2 && quorum_queued(1, "x") == 2 &&
          quorum_queued(2, "x") == 2);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    release_hold(B);
    EXPECT_SET("B released OK; C granted");
    assert_true(C->fence > B->fence);
    release_hold(C);
    EXPECT("C released OK");
}

static uint64_t commands_of_parted_crowd(void)
{
    uint64_t commands = 0;

    crowd_begin(true);
    crowd_end();
    for (int i = 0; i < CROWD; i++) {
        commands += peer_stats(crowd.members[i].peer).commands;
    }
    return commands;
}

/* Two halves of the waiters have tickets that differ by 20 ms. To release a
 * minority and to request the lock again would cost more commands. */
static void clocks_that_differ_by_10_ms_cost_nothing(void **state)
{
    uint64_t before;

    (void)state;
    start(3, NULL);
    before = commands_of_parted_crowd();
    clock_slots[0].us = 10000;
    clock_slots[1].us = -10000;
    assert_in_range(commands_of_parted_crowd(), 1, before + before / 2);
}

static void a_crowd_is_served_by_clocks_that_differ(void **state)
{
    static const int64_t ahead_s[] = {0, -3600, 3600, 60, -60};

    (void)state;
    start(5, ahead_s);
    crowd_begin(false);
    crowd_end();
}

/* Returns the waiter that holds the lock, or NULL. */
static struct hold *holder_of(struct hold *const waiters[3])
{
    struct hold *holder = NULL;

    for (int i = 0; i < 3; i++) {
        if (waiters[i]->lock != NULL && waiters[i]->result == LW_OK) {
            assert_null(holder);
            holder = waiters[i];
        }
    }
    return holder;
}

/* A client that does not reach the first server takes its tickets from the second. */
static void tickets_of_two_servers_serve_all(void **state)
{
    struct peer *a, *others[3];

    (void)state;
    start(3, NULL);
    clock_slots[1].us = 10000;
    a = quorum_peer("a", NULL);
    others[1] = quorum_peer("c", NULL);
    proxy_refuse(quorum_proxy[0], true);
    others[0] = quorum_peer("b", client_of(.local_turns = 1, .backoff_max_ms = 100));
    others[2] = quorum_peer("d", client_of(.local_turns = 1, .backoff_max_ms = 100));
    UNTIL(peer_stats(others[0]).subscription_up && peer_stats(others[2]).subscription_up);
    for (int round = 0; round < 5; round++) {
        struct hold *A = acquire_and_wait(a, "A", "x"), *waiters[3];

        for (int i = 0; i < 3; i++) {
            waiters[i] = acquire_hold(others[i], "W", "x", -1);
        }
        UNTIL(quorum_queued(1, "x") == 3 && quorum_queued(2, "x") == 3);
        free_hold(A);
        for (int served = 0; served < 3; served++) {
            UNTIL(holder_of(waiters) != NULL);
            free_hold(holder_of(waiters));
        }
        stage_clear_trace();
    }
    UNTIL(quorum_count("x") == 0);
}

/* ---- rates ---- */

#define RATE_PPM 5000        /* half of what the deadline allows for */
#define RATE_LEASE_MS 4000   /* is 20 ms shorter at such a server */
#define RATE_EXPIRES_MS 3975 /* after the request, at the earliest, less 5 ms to look */
#define RATE_TRIES 7         /* a look may come too late on a busy machine */

static void look_at_loss(struct hold *hold, enum moment moment)
{
    int held = moment == AT_LOST ? quorum_count("x") : 0;

    if (moment == AT_LOST && now_ms() - hold->asked_ms <= RATE_EXPIRES_MS) {
        hold->aim = hold;
        if (held < 2) {
            stage_complain("before its deadline the lock was held at %d servers", held);
        }
    }
}

/* The lease is not renewed. At its deadline a majority of the servers still has the lock,
 * and the waiter is granted after that. */
static void expect_deadline_before_expiry(void)
{
    struct peer *a = quorum_peer("a", NULL), *b = quorum_peer("b", NULL);
    struct hold *A, *B;

    for (int i = 0; i < RATE_TRIES; i++) {
        A = acquire_hold_with(a, "A", "x",
                              asking(.lease_ms = RATE_LEASE_MS, .flags = LW_NO_RENEW));
        EXPECT("A granted");
        A->then = look_at_loss;
        UNTIL(quorum_count("x") == 3);
        B = acquire_hold(b, "B", "x", -1);
        EXPECT("A lost ELOST; B granted");
        assert_true(B->fence > A->fence);
        release_hold(B);
        EXPECT("B released OK");
        if (A->aim != NULL) {
            return;
        }
        UNTIL(quorum_count("x") == 0);
    }
    skip();
}

static void servers_that_gain_half_a_percent_keep_exclusion(void **state)
{
    (void)state;
    start(3, NULL);
    for (int i = 0; i < 3; i++) {
        clocks_gain(i, RATE_PPM);
    }
    expect_deadline_before_expiry();
}

static void servers_at_different_rates_keep_exclusion(void **state)
{
    (void)state;
    start(3, NULL);
    clocks_gain(0, RATE_PPM);
    clocks_gain(1, -RATE_PPM);
    expect_deadline_before_expiry();
}

static void a_crowd_is_served_at_different_rates(void **state)
{
    (void)state;
    start(3, NULL);
    clocks_gain(0, RATE_PPM);
    clocks_gain(1, -RATE_PPM);
    crowd_begin(false);
    crowd_end();
}

/* ---- the client's own clock ---- */

static void let_own_clock_step(int64_t seconds)
{
    struct peer *a, *b;
    struct hold *A, *B;
    time_t before;

    clocks_of_children(false);
    quorum_start(3);
    a = quorum_peer("a", NULL);
    b = quorum_peer("b", NULL);
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 900));
    EXPECT("A granted");
    B = acquire_hold(b, "B", "x", -1);
    UNTIL(quorum_queued(0, "x") == 1 && quorum_queued(1, "x") == 1 &&
          quorum_queued(2, "x") == 1);
    before = time(NULL);
    *clock_seconds += seconds;
    assert_int_in_range(time(NULL) - before - seconds + 10, 0, 20);
    stage_expect_nothing(2000);
    assert_int_equal(quorum_count("x"), 3);
    assert_true(lw_lock_remaining_ms(A->lock) <= 900);
    assert_int_equal(a->downs, 0);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    release_hold(B);
    EXPECT("B released OK");
}

static void the_own_clock_steps_ahead(void **state)
{
    (void)state;
    let_own_clock_step(3600);
}

static void the_own_clock_steps_back(void **state)
{
    (void)state;
    let_own_clock_step(-3600);
}

/* ---- */

static int open_stage(void **state)
{
    clocks_of_children(false);
    return stage_open(state);
}

static int open_servers(void **state)
{
    clocks_open();
    quorum_before_start = before_start;
    return open_stage(state);
}

static int run_own(char **argv)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(the_own_clock_steps_ahead),
        STAGE_TEST(the_own_clock_steps_back),
    };
    bool preloaded = getenv("LOCKWIRE_TEST_CLOCK") != NULL;

    clocks_open();
    if (!preloaded) {
        clocks_of_children(true);
        execv("/proc/self/exe", argv);
        return 127;
    }
    return cmocka_run_group_tests(tests, open_stage, clocks_close_stage);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(the_first_server_steps_ahead),
        STAGE_TEST(the_first_server_steps_back),
        STAGE_TEST(another_server_steps_ahead),
        STAGE_TEST(another_server_steps_back),
        STAGE_TEST(a_crowd_is_served_while_the_first_server_steps),
        STAGE_TEST(a_majority_that_steps_ahead_loses_the_lock),
        STAGE_TEST(a_majority_that_steps_back_keeps_the_lock),
        STAGE_TEST(clocks_that_differ_by_10_ms_keep_the_order),
        STAGE_TEST(clocks_that_differ_by_10_ms_cost_nothing),
        STAGE_TEST(a_crowd_is_served_by_clocks_that_differ),
        STAGE_TEST(tickets_of_two_servers_serve_all),
        STAGE_TEST(servers_that_gain_half_a_percent_keep_exclusion),
        STAGE_TEST(servers_at_different_rates_keep_exclusion),
        STAGE_TEST(a_crowd_is_served_at_different_rates),
    };

    cmocka_set_test_filter(getenv("LOCKWIRE_TEST"));
    if (argc > 1 && strcmp(argv[1], "own") == 0) {
        return run_own(argv);
    }
    return cmocka_run_group_tests(tests, open_servers, clocks_close_stage);
}

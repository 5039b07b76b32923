/* SPDX-License-Identifier: MIT */
/*
 * The fence counters of a cluster's node, one for each slot: how fencing tokens are
 * drawn, and how the replies are used.
 *
 * Usual course: the node comes up when the counter of one slot has been seeded; a try in
 * any slot has SEED behind its SET, which draws a token by the clock.
 */
#include "cluster_scene.h"

#include <stdio.h>
#include <string.h>

#define NUMBER "1700000000000001"
#define NOSCRIPT "-NOSCRIPT No matching script. Please use EVAL."

static void start_at_n3(struct scene *scene)
{
    scene->tells_seeds = true;
    start_linked(scene, "N1");
    (void)at(scene, "x");
    await(scene, "N3 < SEED 16287; N3 up; ");
}

/* ---- fencing tokens ---- */

static void test_tries_draw_by_the_clock_of_their_slot_and_count_on_for_a_while(
    void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    (void)ask(scene, TRY, "x");
    await(scene, "N3 < SET x; N3 < SEED 16287; x: OK; x: " NUMBER "; ");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a: " NUMBER "; ");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < INCR 15495; a: OK; a: " NUMBER "; ");
    jump(scene, 1);
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a: " NUMBER "; ");
}

/* Sends a try to each name. Returns true if none of them draws by the clock. */
static bool count_on(struct scene *scene, const char *const *names, unsigned count)
{
    bool seeds;

    for (unsigned i = 0; i < count; i++) {
        (void)ask(scene, TRY, names[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        char number[64];

        (void)snprintf(number, sizeof(number), "%s: " NUMBER "; ", names[i]);
        UNTIL(scene, came(scene, number));
    }
    seeds = came(scene, "SEED");
    pass(scene);
    return !seeds;
}

/* These four slots are equal in their last eight bits. On a slow machine the time in
 * which tries may draw without the clock can have passed before the next try. */
static void test_slots_with_the_same_last_bits_count_on_side_by_side(void **state)
{
    static const char *const names[] = {"a", "atg", "eih", "bap"};
    struct scene *scene = *state;
    int rounds = 0;

    start_at_n3(scene);
    assert_false(count_on(scene, names, 4));
    while (!count_on(scene, names, 4)) {
        assert_true(++rounds < COMMANDS / 4 - 1);
    }
}

/* The slot may come back with an older counter. */
static void test_a_slot_that_was_elsewhere_draws_by_the_clock_again(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a: " NUMBER "; ");
    says(&scene->n[2], "a", "-ASK 15495 N1");
    (void)ask(scene, ONE, "a");
    UNTIL(scene, came(scene, "N1 < GET a; a: 1; "));
    pass(scene);
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a: " NUMBER "; ");
}

static void test_a_number_that_is_too_small_is_not_counted_on(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a: " NUMBER "; ");
    says(&scene->n[2], "INCR 15495", ":1");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < INCR 15495; a: OK; a: no number; ");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a: " NUMBER "; ");
}

static void test_a_try_that_moves_draws_where_it_goes(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    (void)at(scene, "b");
    await(scene, "N1 < SEED 3300; N1 up; ");
    says(&scene->n[2], "SET x", "-MOVED 16287 N1");
    (void)ask(scene, TRY, "x"); /* the token that N3 draws is ignored */
    await(scene, "N3 < SET x; N3 < SEED 16287; led; N1 < SET x; N1 < SEED 16287; "
                 "x: OK; x: " NUMBER "; ");
}

/* ---- NOSCRIPT ---- */

static void test_a_server_that_does_not_know_the_seed(void **state)
{
    struct scene *scene = *state;

    scene->tells_seeds = true;
    says(&scene->n[2], "SEED 16287", NOSCRIPT);
    start_linked(scene, "N1");
    (void)at(scene, "x");
    await(scene, "N3 < SEED 16287; N3 < SEED text 16287; N3 up; ");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a: " NUMBER "; ");
}

/* A second SET would find the token of the first one, and count the lock as another's. */
static void test_a_server_that_has_forgotten_the_seed_is_not_asked_to_set_again(
    void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "SEED 15495", NOSCRIPT);
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a: no number; ");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED text 15495; a: OK; a: " NUMBER "; ");
    jump(scene, 1);
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a: " NUMBER "; ");
}

static void test_who_has_forgotten_one_script_may_have_forgotten_all(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "EVALSHA x", NOSCRIPT);
    (void)ask(scene, SCRIPT, "x");
    await(scene, "N3 < EVALSHA x; N3 < EVAL x; x: OK; ");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED text 15495; a: OK; a: " NUMBER "; ");
}

/* ---- seeding again ---- */

static void test_a_new_connection_seeds_anew(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    leave(&scene->n[2]);
    come(&scene->n[2]);
    await(scene, "N3 down: N3 closed the connection; led; ");
    await(scene, "N3 < SEED 16287; N3 up; ");
}

static void test_a_counter_that_was_lost_is_seeded_at_a_heartbeat(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "PEXPIRE", ":0");
    jump(scene, 61);
    await(scene, "N3 < SEED 16287; ");
}

/* A heartbeat may be the only command for a long time. */
static void test_a_heartbeat_that_is_sent_on_asks_for_the_map(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    scene->follow = "x";
    map_is(scene, "0-5460 N1, 5461-10922 N2, 10923-16383 N4");
    says(&scene->n[2], "PEXPIRE 16287", "-MOVED 16287 N4");
    jump(scene, 61);
    await(scene, "x led to N4; N4 < SEED 16287; N4 up; ");
}

static void test_heartbeats_are_of_a_slot_that_it_has(void **state)
{
    struct scene *scene = *state;
    uint64_t refreshes;

    start_at_n3(scene);
    map_is(scene, "0-15494 N1, 15495-15495 N3, 15496-16383 N4");
    says_always(&scene->n[2], "PEXPIRE 16287", "-MOVED 16287 N4");
    jump(scene, 61);
    UNTIL(scene, came(scene, "led; "));
    pass(scene);
    says(&scene->n[2], "PEXPIRE 15495", ":0");
    refreshes = scene->stats.refreshes;
    jump(scene, 61);
    await(scene, "N3 < SEED 15495; ");
    nothing_for(scene, 20);
    assert_int_equal(scene->stats.refreshes, refreshes);
}

/* ---- errors ---- */

static void no_number(struct scene *scene, const char *said)
{
    says(&scene->n[2], "SEED 15495", said);
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED ");
    UNTIL(scene, came(scene, "a: OK; a: no number; "));
    pass(scene);
    assert_true(lw__node_is_up(at(scene, "a")));
    assert_null(lw__node_fence_fault(at(scene, "a"))); /* this slot's fault only */
}

static void test_what_is_no_number(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    no_number(scene, "-NOPERM this user has no permissions");
    says(&scene->n[2], "SEED text 15495", ":86400000000"); /* a clock never set */
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED text 15495; a: OK; a: no number; ");
    says(&scene->n[2], "SEED text 15495", ":9223372036854775807");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED text 15495; a: OK; a: no number; ");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED text 15495; a: OK; a: " NUMBER "; ");
}

static void test_who_may_not_seed_is_up(void **state)
{
    struct scene *scene = *state;

    scene->tells_seeds = true;
    says_always(&scene->n[2], "SEED", "-NOPERM this user has no permissions");
    start_linked(scene, "N1");
    (void)at(scene, "x");
    await(scene, "N3 < SEED 16287; N3 up; ");
    assert_string_equal(scene->nodes.told,
                        "the fence counter cannot be set: NOPERM this user "
                        "has no permissions\n");
}

#define INVALID "invalid reply: the server sent something this command cannot return"

static void test_no_server_answers_that(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "SEED 15495", "+OK");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a failed: " INVALID
                 "; N3 down: " INVALID "; led; ");
    UNTIL(scene, came(scene, "N3 < SEED 16287; N3 up; "));
}

static void test_a_replica_is_left(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "SET a", "-READONLY You can't write against a read only replica.");
    (void)ask(scene, TRY, "a");
    UNTIL(scene, came(scene, "N3 down: READONLY You can't write against a read only"));
    UNTIL(scene, came(scene, "N3 < SEED 16287; N3 up; "));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_tries_draw_by_the_clock_of_their_slot_and_count_on_for_a_while),
        TEST(test_slots_with_the_same_last_bits_count_on_side_by_side),
        TEST(test_a_slot_that_was_elsewhere_draws_by_the_clock_again),
        TEST(test_a_number_that_is_too_small_is_not_counted_on),
        TEST(test_a_try_that_moves_draws_where_it_goes),
        TEST(test_a_server_that_does_not_know_the_seed),
        TEST(test_a_server_that_has_forgotten_the_seed_is_not_asked_to_set_again),
        TEST(test_who_has_forgotten_one_script_may_have_forgotten_all),
        TEST(test_a_new_connection_seeds_anew),
        TEST(test_a_counter_that_was_lost_is_seeded_at_a_heartbeat),
        TEST(test_a_heartbeat_that_is_sent_on_asks_for_the_map),
        TEST(test_heartbeats_are_of_a_slot_that_it_has),
        TEST(test_what_is_no_number),
        TEST(test_who_may_not_seed_is_up),
        TEST(test_no_server_answers_that),
        TEST(test_a_replica_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

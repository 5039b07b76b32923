/* SPDX-License-Identifier: MIT */
/*
 * The fence counters of a cluster's node, one for each slot: which write has the seed in
 * it, when it is wanted again, and what is made of its answers. Knows node.h.
 *
 * Happy path: the node comes up with one slot's; the first try in another slot has SEED
 * in INCR's place.
 */
#include "cluster_scene.h"

#include <string.h>

#define NUMBER "1700000000000001"
#define NOSCRIPT "-NOSCRIPT No matching script. Please use EVAL."

static void start_at_n3(struct scene *scene)
{
    scene->tells_seeds = true;
    scene_start(scene, "N1");
    await(scene, "link; led; ");
    (void)at(scene, "x");
    await(scene, "N3 < SEED 16287; N3 up; ");
}

/* ---- with the first write ---- */

static void test_the_first_try_in_a_slot_seeds_and_draws_at_once(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    (void)ask(scene, TRY, "x"); /* it was seeded with the connection */
    await(scene, "N3 < SET x; N3 < INCR 16287; x: OK; x: " NUMBER "; ");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a: " NUMBER "; ");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < INCR 15495; a: OK; a: " NUMBER "; ");
    (void)ask(scene, FENCED, "a");
    await(scene, "N3 < EVALSHA a; a: OK; ");
}

static void test_before_the_first_script_in_a_slot_stands_the_seed(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    (void)ask(scene, FENCED, "a");
    await(scene, "N3 < SEED 15495; N3 < EVALSHA a; a: " NUMBER "; a: OK; ");
    (void)ask(scene, FENCED, "a");
    await(scene, "N3 < EVALSHA a; a: OK; ");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < INCR 15495; a: OK; a: " NUMBER "; ");
}

static void test_those_of_before_its_answer_seed_as_well(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    (void)ask(scene, TRY, "a");
    (void)ask(scene, FENCED, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; N3 < SEED 15495; N3 < EVALSHA a; "
                 "a: OK; a: " NUMBER "; a: " NUMBER "; a: OK; ");
}

static void test_each_node_is_seeded_by_itself(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    (void)at(scene, "b");
    await(scene, "N1 < SEED 3300; N1 up; ");
    (void)ask(scene, TRY, "x");
    await(scene, "N3 < SET x; N3 < INCR 16287; x: OK; x: " NUMBER "; ");
}

/* As a whole, to a node that has not seeded that slot. */
static void test_where_it_moves_to_it_is_seeded_anew(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    (void)at(scene, "b");
    await(scene, "N1 < SEED 3300; N1 up; ");
    says(&scene->n[2], "SET x", "-MOVED 16287 N1");
    says(&scene->n[2], "INCR 16287", "-MOVED 16287 N1");
    (void)ask(scene, TRY, "x");
    await(scene, "N3 < SET x; N3 < INCR 16287; led; N1 < SET x; N1 < SEED 16287; "
                 "x: OK; x: " NUMBER "; ");
}

/* ---- NOSCRIPT ---- */

static void test_a_server_that_does_not_know_the_seed(void **state)
{
    struct scene *scene = *state;

    scene->tells_seeds = true;
    says(&scene->n[2], "SEED 16287", NOSCRIPT);
    scene_start(scene, "N1");
    await(scene, "link; led; ");
    (void)at(scene, "x");
    await(scene, "N3 < SEED 16287; N3 < SEED text 16287; N3 up; ");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a: " NUMBER "; ");
}

static void test_a_server_that_has_forgotten_the_seed(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "SEED 15495", NOSCRIPT);
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a: NOSCRIPT No matching script. "
                 "Please use EVAL.; ");
    assert_false(lw__node_is_seeded(at(scene, "a"), SLOT_A));
    assert_null(lw__node_unseeded(at(scene, "a"))); /* the next one will */
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED text 15495; a: OK; a: " NUMBER "; ");
}

static void test_a_server_that_has_forgotten_both_scripts(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "SEED 15495", NOSCRIPT);
    says(&scene->n[2], "EVALSHA a", NOSCRIPT);
    (void)ask(scene, FENCED, "a");
    await(scene,
          "N3 < SEED 15495; N3 < EVALSHA a; a: NOSCRIPT No matching script. "
          "Please use EVAL.; N3 < SEED text 15495; N3 < EVAL a; a: " NUMBER "; a: OK; ");
}

/* ---- again ---- */

static void test_a_new_connection_seeds_anew(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a: " NUMBER "; ");
    leave(&scene->n[2]);
    come(&scene->n[2]);
    await(scene, "N3 down: the server closed the connection; led; ");
    UNTIL(scene, came(scene, "N3 up; "));
    await(scene, "N3 < SEED 15495; N3 up; "); /* the one that was used last */
    (void)ask(scene, TRY, "x");
    await(scene, "N3 < SET x; N3 < SEED 16287; x: OK; x: " NUMBER "; ");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < INCR 15495; a: OK; a: " NUMBER "; ");
}

/* A counter lives for a day after its last seed. */
static void test_six_hours_later_each_slot_is_seeded_anew(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    (void)ask(scene, FENCED, "a");
    await(scene, "N3 < SEED 15495; N3 < EVALSHA a; a: " NUMBER "; a: OK; ");
    jump(scene, 5 * 3600 + 3000);
    nothing_for(scene, 30);
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < INCR 15495; a: OK; a: " NUMBER "; ");
    jump(scene, 700);
    nothing_for(scene, 30);
    (void)ask(scene, TRY, "x");
    await(scene, "N3 < SET x; N3 < SEED text 16287; x: OK; x: " NUMBER "; ");
    (void)ask(scene, FENCED, "a");
    await(scene, "N3 < SEED 15495; N3 < EVALSHA a; a: " NUMBER "; a: OK; ");
}

static void test_a_counter_that_was_lost_is_seeded_at_a_heartbeat(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "PEXPIRE", ":0");
    jump(scene, 61);
    await(scene, "N3 < SEED 16287; ");
}

/* ---- errors ---- */

static void test_who_may_not_seed_has_no_numbers(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "SEED 15495", "-NOPERM this user has no permissions");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a: NOPERM this user has no "
                 "permissions; ");
    assert_string_equal(scene->told, "the fence counter cannot be set: NOPERM this user "
                                     "has no permissions\n");
    assert_true(lw__node_is_up(at(scene, "a")));
    assert_false(lw__node_is_seeded(at(scene, "a"), SLOT_A));
    assert_true(lw__node_is_seeded(at(scene, "x"), SLOT_X));
    /* whoever asks has it tried again */
    assert_int_equal(lw__node_unseeded(at(scene, "a"))->class, LW__ERR_REFUSED);
    await(scene, "N3 < SEED 15495; ");
    UNTIL(scene, lw__node_is_seeded(at(scene, "a"), SLOT_A));
    assert_null(lw__node_unseeded(at(scene, "a")));
}

static void test_a_clock_that_was_never_set(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "SEED 15495", ":86400000000");
    (void)ask(scene, TRY, "a");
    await(scene, "N3 < SET a; N3 < SEED 15495; a: OK; a: 86400000000; ");
    assert_true(was_told(scene, "the server's clock is wrong, it says 1970-01-02"));
    assert_false(lw__node_is_seeded(at(scene, "a"), SLOT_A));
}

static void test_no_server_answers_that(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "SEED 15495", "+OK");
    (void)ask(scene, FENCED, "a");
    await(scene, "N3 < SEED 15495; N3 < EVALSHA a; a failed: the server answered what no "
                 "server can answer; N3 down: the server answered what no server can "
                 "answer; led; ");
    UNTIL(scene, came(scene, "N3 < SEED 16287; N3 up; "));
}

static void test_a_replica_is_left(void **state)
{
    struct scene *scene = *state;
    const char *why = "READONLY You can't write against a read only replica.";

    start_at_n3(scene);
    says(&scene->n[2], "SEED 15495",
         "-READONLY You can't write against a read only "
         "replica.");
    (void)ask(scene, TRY, "a");
    UNTIL(scene, came(scene, "N3 down: "));
    assert_non_null(strstr(scene->trace, why));
    UNTIL(scene, came(scene, "N3 < SEED 16287; N3 up; "));
    assert_false(was_told(scene, "the fence counter cannot be set"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_first_try_in_a_slot_seeds_and_draws_at_once),
        TEST(test_before_the_first_script_in_a_slot_stands_the_seed),
        TEST(test_those_of_before_its_answer_seed_as_well),
        TEST(test_each_node_is_seeded_by_itself),
        TEST(test_where_it_moves_to_it_is_seeded_anew),
        TEST(test_a_server_that_does_not_know_the_seed),
        TEST(test_a_server_that_has_forgotten_the_seed),
        TEST(test_a_server_that_has_forgotten_both_scripts),
        TEST(test_a_new_connection_seeds_anew),
        TEST(test_six_hours_later_each_slot_is_seeded_anew),
        TEST(test_a_counter_that_was_lost_is_seeded_at_a_heartbeat),
        TEST(test_who_may_not_seed_has_no_numbers),
        TEST(test_a_clock_that_was_never_set),
        TEST(test_no_server_answers_that),
        TEST(test_a_replica_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Replicas of a cluster's masters that are down or silent: when one of them has been
 * promoted it is asked for the slot map, and its map is judged as in any survey.
 *
 * Usual course: N3 is lost; N4, its replica, replies to ROLE that it is a master.
 */
#include "cluster_scene.h"

#define WITH_REPLICA "0-5460 N1, 5461-10922 N2, 10923-16383 N3/N4"
#define PROMOTED "0-5460 N1, 5461-10922 N2, 10923-16383 N4"
#define TWO_REPLICAS "0-10922 N1, 10923-16383 N3/N4/N2"
#define FIRST_OF_TWO "0-10922 N1, 10923-16383 N4"
#define SECOND_OF_TWO "0-10922 N1, 10923-16383 N2"
#define MASTER "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
#define DENIED "-NOPERM this user has no permissions to run the 'role' command\r\n"

static void start_with(struct scene *scene, const char *map)
{
    map_is(scene, map);
    for (int i = 0; i < NODES; i++) {
        scene->n[i].epoch = 7;
    }
    skip_idle_time(true);
    start_linked(scene, "N1");
    leads(scene, "x", "N3");
    scene->follow = "x";
}

/* Loses N3, and waits until its replica N4 is watched. */
static void lose_n3(struct scene *scene)
{
    start_with(scene, WITH_REPLICA);
    leave(&scene->n[2]);
    UNTIL(scene, scene->n[3].roles_asked > 0);
}

static void promote_n4(struct scene *scene)
{
    scene->n[3].map = PROMOTED;
    scene->n[3].epoch = 8;
    scene->n[3].role = MASTER;
}

/* Waits for a map that is believed after N4 has been asked for its own. */
static void n4_was_asked_in_vain(struct scene *scene)
{
    UNTIL(scene, scene->n[3].asked > 0);
    pass(scene);
    UNTIL(scene, came(scene, "x led to N3; "));
    assert_false(came(scene, "x led to N4"));
}

/* ---- masters that are out of service ---- */

/* No other node knows of it, and no ordinary survey asks N4. */
static void test_a_promoted_replica_of_a_dead_master_is_found(void **state)
{
    struct scene *scene = *state;

    lose_n3(scene);
    promote_n4(scene);
    UNTIL(scene, came(scene, "x led to N4; "));
    assert_int_equal(scene->n[3].asked, 1);
}

static void test_a_promoted_replica_of_a_silent_master_is_found(void **state)
{
    struct scene *scene = *state;

    start_with(scene, WITH_REPLICA);
    says_always(&scene->n[2], "x", "");
    (void)ask(scene, ONE, "x");
    UNTIL(scene, scene->n[3].roles_asked > 0);
    promote_n4(scene);
    UNTIL(scene, came(scene, "x led to N4; "));
    UNTIL(scene, came(scene, "x failed: the node no longer has a slot of the cluster"));
}

static void test_the_watch_ends_when_the_master_is_back(void **state)
{
    struct scene *scene = *state;

    lose_n3(scene);
    come(&scene->n[2]);
    UNTIL(scene, came(scene, "N3 up; "));
    UNTIL(scene, connections_to(&scene->n[3]) == 0);
    (void)ask(scene, ONE, "x");
    UNTIL(scene, came(scene, "x: 1; "));
}

static void test_an_account_without_ROLE_does_not_ask_again(void **state)
{
    struct scene *scene = *state;

    uint64_t before;

    start_with(scene, WITH_REPLICA);
    scene->n[3].role = DENIED;
    leave(&scene->n[2]);
    UNTIL(scene, scene->n[3].roles_asked > 0);
    before = scene->stats.refreshes;
    UNTIL(scene, scene->stats.refreshes > before + 1); /* a second at least */
    assert_int_equal(scene->n[3].roles_asked, 1);
    assert_true(was_told(scene, "the successor of a master that is down is found later"));
    assert_int_equal(lw__route_degraded(scene->route), LW_DEGRADED_ROLE);
}

/* ---- replicas that call themselves masters, and are not believed ---- */

static void test_a_replica_that_was_reset_gets_nothing(void **state)
{
    struct scene *scene = *state;

    lose_n3(scene);
    scene->n[3].raw = "*0\r\n";
    scene->n[3].role = MASTER;
    n4_was_asked_in_vain(scene);
}

static void test_a_replica_that_a_minority_promoted_gets_nothing(void **state)
{
    struct scene *scene = *state;

    lose_n3(scene);
    promote_n4(scene);
    scene->n[3].down = true;
    n4_was_asked_in_vain(scene);
}

static void test_a_replica_with_an_earlier_epoch_gets_nothing(void **state)
{
    struct scene *scene = *state;

    lose_n3(scene);
    promote_n4(scene);
    scene->n[3].epoch = 6;
    n4_was_asked_in_vain(scene);
}

static void test_a_node_of_another_cluster_is_not_asked(void **state)
{
    struct scene *scene = *state;

    start_with(scene, WITH_REPLICA);
    promote_n4(scene);
    scene->n[3].foreign = true;
    leave(&scene->n[2]);
    UNTIL(scene, scene->n[3].node.connected > 1); /* it is tried again */
    assert_int_equal(scene->n[3].roles_asked, 0);
    assert_int_equal(scene->n[3].asked, 0);
}

/* Its promotions are not heard more than once a second, so that surveys can end. */
static void test_a_replica_that_is_promoted_and_demoted_stops_no_survey(void **state)
{
    struct scene *scene = *state;
    uint64_t before;

    lose_n3(scene);
    before = scene->stats.refreshes;
    for (int i = 0; i < 40; i++) {
        int asked = scene->n[3].roles_asked;

        scene->n[3].role = i % 2 == 0 ? MASTER : NULL;
        UNTIL(scene, scene->n[3].roles_asked > asked);
    }
    assert_true(scene->stats.refreshes > before);
    assert_true(scene->stats.refreshes < before + 20);
}

/* Both of two replicas call themselves masters. */
static void test_the_later_epoch_of_two_wins(void **state)
{
    struct scene *scene = *state;

    start_with(scene, TWO_REPLICAS);
    leave(&scene->n[2]);
    UNTIL(scene, scene->n[3].roles_asked > 0 && scene->n[1].roles_asked > 0);
    scene->n[0].map = scene->n[1].map = SECOND_OF_TWO;
    scene->n[0].epoch = scene->n[1].epoch = 9;
    scene->n[3].map = FIRST_OF_TWO;
    scene->n[3].epoch = 8;
    scene->n[3].role = scene->n[1].role = MASTER;
    UNTIL(scene, came(scene, "x led to N2; "));
    pass(scene);
    spend(scene, 20);
    assert_false(came(scene, "x led to N4; "));
}

/* N4 is found first. Another node is asked afterwards, long before the map is requested
 * again anyway, and knows of N2. */
static void test_another_node_corrects_the_replica(void **state)
{
    struct scene *scene = *state;
    int64_t found_us;

    lose_n3(scene);
    promote_n4(scene);
    UNTIL(scene, came(scene, "x led to N4; "));
    found_us = lw__now_us();
    scene->n[0].map = scene->n[1].map = "0-5460 N1, 5461-16383 N2";
    scene->n[0].epoch = scene->n[1].epoch = 9;
    UNTIL(scene, came(scene, "x led to N2; "));
    assert_true(lw__now_us() - found_us < 100 * 1000000);
    spend(scene, 20);
    assert_false(came(scene, "x led to N2; x led to N4; "));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_promoted_replica_of_a_dead_master_is_found),
        TEST(test_a_promoted_replica_of_a_silent_master_is_found),
        TEST(test_the_watch_ends_when_the_master_is_back),
        TEST(test_an_account_without_ROLE_does_not_ask_again),
        TEST(test_a_replica_that_was_reset_gets_nothing),
        TEST(test_a_replica_that_a_minority_promoted_gets_nothing),
        TEST(test_a_replica_with_an_earlier_epoch_gets_nothing),
        TEST(test_a_node_of_another_cluster_is_not_asked),
        TEST(test_a_replica_that_is_promoted_and_demoted_stops_no_survey),
        TEST(test_the_later_epoch_of_two_wins),
        TEST(test_another_node_corrects_the_replica),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

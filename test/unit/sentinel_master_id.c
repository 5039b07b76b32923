/* SPDX-License-Identifier: MIT */
/*
 * Which process sentinels mean by the master: the run id that they report is compared
 * with that of the server at its endpoint. Uses sentinel.h and session.h.
 *
 * Usual course: a sentinel that reports M1 with an id; M1's INFO has another one.
 */
#include "sentinel_scene.h"

#include "lockwire.h"

#define NOT_M1 "a lost: M1 is not the process that the sentinels know as the master"
#define UNCERTAIN "it is not certain that M1 is the master that the sentinels mean: "
#define OLD_ID "00000000000000000000000000000000000000ab"
#define NEW_ID "00000000000000000000000000000000000000cd"

static bool has_trace(const struct scene *scene, const char *text)
{
    return strstr(scene->nodes.trace, text) != NULL;
}

static void test_a_server_with_another_run_id_is_not_used(void **state)
{
    struct scene *scene = *state;

    names(&scene->s[0], &scene->m[0], 1, "master");
    scene->m[0].run_id = NEW_ID;
    scene->s[0].master_id = OLD_ID;
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, NOT_M1 ": its run id is " NEW_ID ", theirs " OLD_ID "; ");
    UNTIL(scene, scene->s[0].asked > 5);
    assert_false(has_trace(scene, "a at M1; "));
    scene->s[0].master_id = NULL; /* as after a restart, at the sentinel's next INFO */
    UNTIL(scene, has_trace(scene, "a at M1; "));
    assert_int_equal(scene->failovers, 0);
}

/* A process that started after the sentinel's INFO may be the restarted master, or
 * another installation's. */
static void test_a_restart_is_no_excuse_for_the_present_master(void **state)
{
    struct scene *scene = *state;

    names(&scene->s[0], &scene->m[0], 1, "master");
    scene->m[0].uptime_s = 1;
    scene->s[0].info_ms = 9000;
    scene->s[0].master_id = OLD_ID;
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, NOT_M1);
    UNTIL(scene, scene->s[0].asked > 5);
    assert_false(has_trace(scene, "a at M1; "));
}

static void test_the_latest_report_of_a_run_id_counts(void **state)
{
    struct scene *scene = *state;

    names(&scene->s[0], &scene->m[0], 1, "master");
    names(&scene->s[1], &scene->m[0], 1, "master");
    scene->s[0].master_id = OLD_ID;
    scene->s[0].info_ms = 9000;
    scene->s[1].info_ms = 100;
    scene_start(scene, 2);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    assert_string_equal(scene->nodes.told, "");
}

static void test_a_discovered_sentinel_overrules_no_listed_one(void **state)
{
    struct scene *scene = *state;
    char others[1024];

    scene->config.request_timeout_ms = 50;
    names(&scene->s[0], &scene->m[0], 1, "master");
    names(&scene->s[1], &scene->m[0], 1, "master");
    scene->s[0].info_ms = 9000;
    scene->s[1].master_id = OLD_ID;
    (void)snprintf(others, sizeof(others), "*1\r\n%s", other(&scene->s[1], "sentinel"));
    scene->s[0].others = others;
    scene_start(scene, 1);
    go(scene, &scene->a);
    UNTIL(scene, scene->s[1].asked > 3);
    assert_true(has_trace(scene, "a at M1; "));
    assert_false(has_trace(scene, "a lost"));
}

static void test_without_a_run_id_of_the_sentinels_it_warns(void **state)
{
    struct scene *scene = *state;

    names(&scene->s[0], &scene->m[0], 1, "master");
    scene->s[0].master_id = "";
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    assert_true(was_told(scene, UNCERTAIN "they have not reported its run id yet"));
}

static void test_without_a_run_id_of_the_server_it_warns(void **state)
{
    struct scene *scene = *state;

    names(&scene->s[0], &scene->m[0], 1, "master");
    scene->s[0].master_id = OLD_ID;
    scene->m[0].run_id = "";
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    assert_true(was_told(scene, UNCERTAIN "its reply to INFO has no run id"));
}

static void test_a_connection_ends_when_the_id_turns_out_to_be_another(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 50;
    names(&scene->s[0], &scene->m[0], 1, "master");
    scene->s[0].master_id = "";
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    scene->s[0].master_id = OLD_ID;
    await(scene, NOT_M1);
}

/* ---- after a switch, when the sentinels have no run id ---- */

static void switch_to_m2(struct scene *scene, const char *known_id, const char *info_ms)
{
    scene->s[0].replicas = replica(&scene->m[1], known_id, info_ms);
    names(&scene->s[0], &scene->m[0], 1, "master");
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    UNTIL(scene, scene->s[0].asked_for_replicas > 1); /* the first reply was read */
    names(&scene->s[0], &scene->m[1], 2, "master");
    scene->s[0].master_id = "";
    scene->s[0].replicas = NULL;
    announce_switch(&scene->s[0], &scene->m[0], &scene->m[1]);
}

static void test_a_new_master_is_known_from_its_time_as_a_replica(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 50;
    switch_to_m2(scene, NULL, "3000");
    await(scene, "a lost: the master is now M2, was M1; a at M2; ");
    assert_false(was_told(scene, "not certain"));
}

static void test_a_server_in_place_of_the_replica_is_not_used(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 50;
    switch_to_m2(scene, OLD_ID, "3000");
    await(scene, "a lost: the master is now M2, was M1; a lost: M2 is not the process");
    UNTIL(scene, scene->s[0].asked > 5);
    assert_false(has_trace(scene, "a at M2; "));
    scene->s[0].master_id = NULL;
    UNTIL(scene, has_trace(scene, "a at M2; "));
}

/* A restart of the replica before a planned failover delays nothing. */
static void test_a_replica_that_restarted_since_is_used(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 50;
    scene->m[1].uptime_s = 3;
    switch_to_m2(scene, OLD_ID, "9000");
    await(scene, "a lost: the master is now M2, was M1; a at M2; ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_server_with_another_run_id_is_not_used),
        TEST(test_a_restart_is_no_excuse_for_the_present_master),
        TEST(test_the_latest_report_of_a_run_id_counts),
        TEST(test_a_discovered_sentinel_overrules_no_listed_one),
        TEST(test_without_a_run_id_of_the_sentinels_it_warns),
        TEST(test_without_a_run_id_of_the_server_it_warns),
        TEST(test_a_connection_ends_when_the_id_turns_out_to_be_another),
        TEST(test_a_new_master_is_known_from_its_time_as_a_replica),
        TEST(test_a_server_in_place_of_the_replica_is_not_used),
        TEST(test_a_replica_that_restarted_since_is_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

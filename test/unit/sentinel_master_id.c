/* SPDX-License-Identifier: MIT */
/*
 * Which process sentinels mean by the master: the run id that they report is compared
 * with that of the server at its endpoint. Uses sentinel.h and session.h.
 *
 * Usual course: a sentinel that reports M1 with an id; M1's INFO has another one.
 */
#include "sentinel_scene.h"

#include "base/address.h"
#include "lockwire.h"
#include "redis/address_map.h"

#include <ifaddrs.h>

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

/* ---- loopback addresses ---- */

static bool elsewhere; /* the fakes' loopback address is another host's */

int __real_getifaddrs(struct ifaddrs **list);
int __wrap_getifaddrs(struct ifaddrs **list);

int __wrap_getifaddrs(struct ifaddrs **list)
{
    *list = NULL;
    return elsewhere ? 0 : __real_getifaddrs(list);
}

#define LOOPBACK "names M1 as master, a loopback address of the sentinel's host"

static void test_a_loopback_address_of_another_host_is_refused_at_once(void **state)
{
    struct scene *scene = *state;

    elsewhere = true;
    names(&scene->s[0], &scene->m[0], 1, "master");
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a lost: no sentinel reported a usable master; S1: " LOOPBACK);
    assert_int_equal(scene->a.session.failure.status, LW_EREDIS);
    elsewhere = false;
}

static void test_a_loopback_address_that_is_mapped_is_not(void **state)
{
    struct scene *scene = *state;
    struct lw__address_map *map;
    char why[LW_WHY_SIZE], text[64];

    elsewhere = true;
    names(&scene->s[0], &scene->m[0], 1, "master");
    (void)snprintf(text, sizeof(text), "127.0.0.1:%u=127.0.0.2:%u",
                   (unsigned)scene->m[0].node.port, (unsigned)scene->m[1].node.port);
    assert_int_equal(lw__address_map_parse(text, &map, why, sizeof(why)), 0);
    scene->config.address_map = map;
    scene_start(scene, 1);
    go(scene, &scene->a);
    UNTIL(scene, strstr(scene->nodes.trace, "connecting to 127.0.0.2") != NULL);
    scene_stop(scene);
    lw__address_map_free(map);
    elsewhere = false;
}

static void test_a_switch_to_a_loopback_address_of_another_host_is_not_followed(
    void **state)
{
    struct scene *scene = *state;

    names(&scene->s[0], &scene->m[0], 1, "master");
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    UNTIL(scene, scene->s[0].subscriptions > 0);
    elsewhere = true;
    announce_switch(&scene->s[0], &scene->m[0], &scene->m[1]);
    nothing_for(scene, 100);
    elsewhere = false;
}

static void test_which_addresses_are_loopback_ones(void **state)
{
    (void)state;
    assert_true(lw__address_is_loopback("127.0.0.1"));
    assert_true(lw__address_is_loopback("127.8.9.1"));
    assert_true(lw__address_is_loopback("::1"));
    assert_true(lw__address_is_loopback("localhost"));
    assert_false(lw__address_is_loopback("10.0.0.1"));
    assert_false(lw__address_is_loopback("redis"));
    assert_true(lw__address_is_here("127.0.0.1"));
    assert_true(lw__address_is_here("127.8.9.1"));
    assert_false(lw__address_is_here("192.0.2.1"));
    assert_false(lw__address_is_here("2001:db8::1"));
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
        TEST(test_a_loopback_address_of_another_host_is_refused_at_once),
        TEST(test_a_loopback_address_that_is_mapped_is_not),
        TEST(test_a_switch_to_a_loopback_address_of_another_host_is_not_followed),
        cmocka_unit_test(test_which_addresses_are_loopback_ones),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

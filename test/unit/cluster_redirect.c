/* SPDX-License-Identifier: MIT */
/*
 * Redirects of a cluster, by MOVED and ASK, and the errors TRYAGAIN and CLUSTERDOWN:
 * where the command is sent, and how the map changes.
 *
 * Usual course: N3 replies MOVED, and N4 answers the command.
 */
#include "cluster_scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_US (1000 * (int64_t)LW__MS)
#define WITHOUT_N3 "0-5460 N1, 5461-10922 N2, 10923-16383 N4"

/* Like await(), but skips events by which a name is led again to where it was led before.
 * The map is requested a second after the start, which may be before the reply that a
 * test awaits. */
static void await_past(struct scene *scene, const char *text)
{
    for (const char *end; (end = strstr(text, "; ")) != NULL; text = end + 2) {
        size_t length = (size_t)(end + 2 - text);
        char event[1024];

        for (;;) {
            const char *at = scene->nodes.trace + scene->nodes.read;

            UNTIL(scene, scene->nodes.length > scene->nodes.read);
            (void)snprintf(event, sizeof(event), "%.*s", (int)(strstr(at, "; ") + 2 - at),
                           at);
            if (strncmp(event, text, length) == 0 || strstr(event, "led") == NULL ||
                strstr(scene->nodes.trace, event) == at) {
                break;
            }
            scene->nodes.read += strlen(event);
        }
        (void)snprintf(event, sizeof(event), "%.*s", (int)length, text);
        await(scene, event);
    }
}

static void start_at_n3(struct scene *scene)
{
    start_linked(scene, "N1");
    (void)ask(scene, ONE, "x");
    await_past(scene, "N3 up; N3 < GET x; x: 1; ");
}

/* ---- MOVED ---- */

static void test_moved_is_sent_there_and_the_map_is_right_at_once(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    map_is(scene, WITHOUT_N3);
    scene->follow = "x";
    says(&scene->n[2], "x", "-MOVED 16287 N4");
    (void)ask(scene, ONE, "x");
    await_past(scene, "N3 < GET x; x led to N4; N4 up; N4 < GET x; x: 1; ");
    (void)ask(scene, ONE, "x");
    await_past(scene, "N4 < GET x; x: 1; ");
    assert_int_equal(scene->stats.redirects, 1);
    UNTIL(scene, scene->n[3].asked == 1); /* N4 reports the rest of the map */
    assert_int_equal(scene->n[0].asked, 1);
    assert_true(pause_after(scene, 0) >= SECOND_US);
    assert_int_equal(scene->stats.refreshes, 2);
    UNTIL(scene, connections_to(&scene->n[2]) == 0); /* N3 no longer has a slot */
}

/* The node that knew better is asked for the map before the seeds are. */
static void test_a_stale_map_is_corrected_once_more(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    scene->follow = "x";
    says_always(&scene->n[2], "x", "-MOVED 16287 N4");
    (void)ask(scene, ONE, "x");
    UNTIL(scene, came(scene, "x: 1; "));
    assert_true(came(scene, "N3 < GET x; x led to N4; "));
    UNTIL(scene, came(scene, "x led to N3; ")); /* by a node with an old map */
    pass(scene);
    (void)ask(scene, ONE, "x");
    await_past(scene, "N3 < GET x; x led to N4; ");
    map_is(scene, WITHOUT_N3);
    UNTIL(scene, came(scene, "x: 1; x led to N4; "));
}

static void test_of_a_pair_both_are_sent_again(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    map_is(scene, WITHOUT_N3);
    says(&scene->n[2], "SET x", "-MOVED 16287 N4");
    says(&scene->n[2], "INCR x", "-MOVED 16287 N4");
    (void)ask(scene, PAIR, "x");
    await_past(scene, "N3 < SET x; N3 < INCR x; led; N4 up; N4 < SET x; N4 < INCR x; "
                      "x: OK; x: 1700000000000001; ");
    assert_int_equal(scene->stats.redirects, 1);
}

/* A fencing token that was drawn without its SET is ignored. */
static void test_what_comes_behind_a_redirected_one_is_thrown_away(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    map_is(scene, WITHOUT_N3);
    says(&scene->n[2], "SET x", "-MOVED 16287 N4");
    says(&scene->n[2], "INCR x", ":5");
    (void)ask(scene, PAIR, "x");
    await_past(scene, "N3 < SET x; N3 < INCR x; led; N4 up; N4 < SET x; N4 < INCR x; "
                      "x: OK; x: 1700000000000001; ");
}

static void test_the_second_alone_is_not_redirected(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "INCR x", "-MOVED 16287 N4");
    (void)ask(scene, PAIR, "x");
    UNTIL(scene, came(scene, "x: OK; x: MOVED 16287 N4; "));
    assert_false(came(scene, "N4 < "));
}

static void test_the_connection_ends_before_the_second_answer(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "SET x", "-MOVED 16287 N4");
    says(&scene->n[2], "INCR x", "");
    (void)ask(scene, PAIR, "x");
    await_past(scene, "N3 < SET x; N3 < INCR x; ");
    nothing_for(scene, 20);
    leave(&scene->n[2]);
    await_past(scene,
               "x failed: N3 closed the connection; N3 down: N3 closed the connection; ");
}

/* ---- endless redirects ---- */

static int count(const struct scene *scene, const char *what)
{
    int times = 0;

    for (const char *at = scene->nodes.trace; (at = strstr(at, what)) != NULL; at++) {
        times++;
    }
    return times;
}

static void test_five_hops_and_no_more(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says_always(&scene->n[2], "{x}y", "-MOVED 16287 N4");
    says_always(&scene->n[3], "{x}y", "-MOVED 16287 N3");
    (void)ask(scene, ONE, "{x}y");
    UNTIL(
        scene,
        came(
            scene,
            "{x}y failed unsent: slot 16287 was redirected to N3: too many redirects; "));
    assert_int_equal(count(scene, "N3 < GET {x}y; "), 3);
    assert_int_equal(count(scene, "N4 < GET {x}y; "), 3);
    assert_int_equal(scene->stats.redirects, 5);
    /* contradicting redirects do not lead the name to and fro, with a map request each
     * time */
    UNTIL(scene, count(scene, "led; ") > 1);
    pass(scene);
    nothing_for(scene, 20);
    assert_true(count(scene, "led; ") <= 4 + (int)scene->stats.refreshes);
    /* the next command starts counting at 0 */
    says_always(&scene->n[2], "{x}y", NULL);
    pass(scene);
    (void)ask(scene, ONE, "{x}y");
    UNTIL(scene, came(scene, "{x}y: 1; "));
}

/* Several commands fail for this reason, but only one log entry is written. */
static void is_logged_once(struct scene *scene, const char *to)
{
    says_always(&scene->n[2], "x", to);
    for (int again = 0; again < 3; again++) {
        pass(scene);
        (void)ask(scene, ONE, "x");
        UNTIL(scene, came(scene, "x failed unsent: "));
    }
    assert_int_equal(
        count_told(scene,
                   "commands redirected to N3 cannot be sent there: too many redirects"),
        1);
}

static void test_moved_without_an_end_is_logged_once(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    is_logged_once(scene, "-MOVED 16287 N3");
}

static void test_asking_without_an_end_is_logged_once(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    is_logged_once(scene, "-ASK 16287 N3");
}

static void test_a_node_that_redirects_to_itself(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says_always(&scene->n[2], "x", "-MOVED 16287 N3");
    (void)ask(scene, ONE, "x");
    UNTIL(scene,
          came(scene,
               "x failed unsent: slot 16287 was redirected to N3: too many redirects; "));
    assert_int_equal(count(scene, "N3 < GET x; "), 7); /* one before */
}

static void test_asking_without_an_end(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says_always(&scene->n[2], "x", "-ASK 16287 N3");
    (void)ask(scene, ONE, "x");
    UNTIL(scene,
          came(scene,
               "x failed unsent: slot 16287 was redirected to N3: too many redirects; "));
    assert_int_equal(count(scene, "N3 < ASKING; N3 < GET x; "), 5);
}

/* ---- endpoints ---- */

static void test_a_host_that_is_not_named_is_the_nodes_own(void **state)
{
    struct scene *scene = *state;
    char moved[64];

    start_at_n3(scene);
    map_is(scene, WITHOUT_N3);
    (void)snprintf(moved, sizeof(moved), "-MOVED 16287 :%u",
                   (unsigned)scene->n[3].node.port);
    says(&scene->n[2], "x", moved);
    (void)ask(scene, ONE, "x");
    await_past(scene, "N3 < GET x; led; N4 up; N4 < GET x; x: 1; ");
}

static void refused_at(struct scene *scene, const char *moved, const char *why)
{
    says(&scene->n[2], "x", moved);
    (void)ask(scene, ONE, "x");
    UNTIL(scene, came(scene, why));
    pass(scene);
    (void)ask(scene, ONE, "x"); /* the map has not changed */
    UNTIL(scene, came(scene, "N3 < GET x; x: 1; "));
    pass(scene);
}

#define NOT_TOLD "x failed unsent: redirected to a node without an endpoint; "

static void test_a_place_that_is_not_told(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    refused_at(scene, "-MOVED 16287 ?:6379", NOT_TOLD);
    refused_at(scene, "-MOVED 16287 127.0.0.1:0", NOT_TOLD);
    refused_at(scene, "-ASK 16287 ?:6379", NOT_TOLD);
    refused_at(scene, "-MOVED 16384 N4", "x: MOVED 16384 N4; ");
    refused_at(scene, "-MOVED 16287 127.0.0.1", "x: MOVED 16287 127.0.0.1; ");
    refused_at(scene, "-MOVED", "x: MOVED; ");
    assert_int_equal(scene->stats.redirects, 0);
    assert_int_equal(
        count_told(scene,
                   "a redirect names no endpoint (a node without "
                   "cluster-announce-hostname?); names in its slots cannot be locked"),
        1);
}

/* The map may have the endpoint that the redirect does not name. */
static void test_who_is_sent_to_a_place_that_is_not_told_asks_where_it_is(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    map_is(scene, WITHOUT_N3);
    scene->follow = "x";
    says(&scene->n[2], "x", "-MOVED 16287 ?:6379");
    (void)ask(scene, ONE, "x");
    await_past(scene, "N3 < GET x; " NOT_TOLD "x led to N4; N4 up; ");
}

static void test_moved_to_an_address_of_version_6(void **state)
{
    struct scene *scene = *state;
    struct fake *six = &scene->n[3];

    leave(six);
    six->node.six = true;
    come(six);
    if (six->node.listening == NULL) {
        skip();
    }
    start_at_n3(scene);
    map_is(scene, WITHOUT_N3);
    says(&scene->n[2], "x", "-MOVED 16287 N4");
    (void)ask(scene, ONE, "x");
    await_past(scene, "N3 < GET x; led; N4 up; N4 < GET x; x: 1; ");
}

#define N4_REFUSED                                                                       \
    "connecting to N4: Connection refused (announced by node N3; address_map or --map "  \
    "replaces it); "

static void test_moved_to_where_nobody_is(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    leave(&scene->n[3]);
    says(&scene->n[2], "x", "-MOVED 16287 N4");
    (void)ask(scene, ONE, "x");
    await_past(scene,
               "N3 < GET x; led; x failed unsent: " N4_REFUSED "N4 down: " N4_REFUSED);
    UNTIL(scene, came(scene, "led; "));
    pass(scene);
    UNTIL(scene, scene->n[2].asked == 1);         /* N3 is up, and reports the same map */
    UNTIL(scene, lw__node_is_up(at(scene, "x"))); /* N3, by the map */
}

/* A command that waited for the next attempt to connect would get no result for long. */
static void test_moved_to_where_nobody_was_a_moment_ago(void **state)
{
    struct scene *scene = *state;

    scene->options.node.config.backoff_min_ms = 3600000;
    scene->options.node.config.backoff_max_ms = 3600000;
    start_at_n3(scene);
    leave(&scene->n[3]);
    says(&scene->n[2], "x", "-MOVED 16287 N4");
    (void)ask(scene, ONE, "x");
    await_past(scene,
               "N3 < GET x; led; x failed unsent: " N4_REFUSED "N4 down: " N4_REFUSED);
    says(&scene->n[2], "a", "-MOVED 15495 N4");
    (void)ask(scene, ONE, "a");
    UNTIL(scene,
          came(scene,
               "a failed unsent: slot 15495 was redirected to N4: connecting to N4: "));
}

/* ---- ASK ---- */

static void test_ask_is_for_this_once(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    scene->follow = "x";
    says(&scene->n[2], "x", "-ASK 16287 N4");
    (void)ask(scene, ONE, "x");
    await_past(scene, "N3 < GET x; N4 up; N4 < ASKING; N4 < GET x; x: 1; ");
    (void)ask(scene, ONE, "x");
    await_past(scene, "N3 < GET x; x: 1; ");
    assert_int_equal(scene->stats.redirects, 1);
    nothing_for(scene, 20);
    assert_int_equal(scene->stats.refreshes, 1);
    assert_int_equal(connections_to(&scene->n[3]), 1); /* kept for further commands */
    jump(scene, 11);
    await_past(scene, "x led to N3; ");
    UNTIL(scene, connections_to(&scene->n[3]) == 0); /* N4 is not in the map */
}

static void test_a_script_that_is_not_known_there_is_asked_for_anew(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "x", "-ASK 16287 N4");
    says(&scene->n[3], "EVALSHA x", "-NOSCRIPT No matching script");
    (void)ask(scene, SCRIPT, "x");
    await_past(scene, "N3 < EVALSHA x; N4 up; N4 < ASKING; N4 < EVALSHA x; "
                      "N4 < ASKING; N4 < EVAL x; x: OK; ");
}

static void test_a_script_that_is_not_known_here_and_moved(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    map_is(scene, WITHOUT_N3);
    says(&scene->n[2], "EVALSHA x", "-NOSCRIPT No matching script");
    says(&scene->n[2], "EVAL x", "-MOVED 16287 N4");
    (void)ask(scene, SCRIPT, "x");
    await_past(scene, "N3 < EVALSHA x; N3 < EVAL x; led; N4 up; N4 < EVALSHA x; x: OK; ");
}

static void test_asked_and_moved_on(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "x", "-ASK 16287 N4");
    says(&scene->n[3], "GET x", "-MOVED 16287 N2");
    (void)ask(scene, ONE, "x");
    await_past(scene,
               "N3 < GET x; N4 up; N4 < ASKING; N4 < GET x; led; N2 up; N2 < GET x; "
               "x: 1; ");
}

/* ASKING is refused: whether the command fails depends on the reply to the command
 * itself. */
static void test_asking_is_refused(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "x", "-ASK 16287 N4");
    says(&scene->n[3], "ASKING", "-NOPERM this user has no permissions");
    says(&scene->n[3], "GET x", "-MOVED 16287 N3");
    (void)ask(scene, ONE, "x");
    UNTIL(scene, came(scene, "x failed unsent: NOPERM this user has no permissions; "));
}

/* ASKING is no longer needed: the slot has arrived, and the command was executed. */
static void test_asking_is_refused_too_late(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "x", "-ASK 16287 N4");
    says(&scene->n[3], "ASKING", "-NOPERM this user has no permissions");
    (void)ask(scene, ONE, "x");
    await_past(scene, "N3 < GET x; N4 up; N4 < ASKING; N4 < GET x; x: 1; ");
}

/* ---- errors that are passed on ---- */

/* `refreshes` is the number of map requests, including the first one. */
static void is_told(struct scene *scene, enum kind kind, const char *what,
                    const char *told, int refreshes)
{
    start_at_n3(scene);
    says(&scene->n[2], "x", what);
    (void)ask(scene, kind, "x");
    await_past(scene, kind == SOME ? "N3 < MGET x; " : "N3 < GET x; ");
    await_past(scene, told);
    if (refreshes > 1) {
        await_past(scene, "led; ");
    }
    nothing_for(scene, 20);
    assert_int_equal(scene->stats.refreshes, refreshes);
    assert_int_equal(scene->stats.redirects, 0);
    assert_int_equal(connections_to(&scene->n[3]), 0);
}

static void test_ask_of_several_keys_is_told(void **state)
{
    is_told(*state, SOME, "-ASK 16287 N4", "x: ASK 16287 N4; ", 1);
}

static void test_try_again_is_told(void **state)
{
    is_told(*state, SOME, "-TRYAGAIN Multiple keys request",
            "x: TRYAGAIN Multiple keys request; ", 1);
}

static void test_cluster_down_is_told(void **state)
{
    is_told(*state, ONE, "-CLUSTERDOWN The cluster is down",
            "x: CLUSTERDOWN The cluster is down; ", 2);
}

static void test_moved_of_several_keys_is_sent_there(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    map_is(scene, WITHOUT_N3);
    says(&scene->n[2], "x", "-MOVED 16287 N4");
    (void)ask(scene, SOME, "x");
    await_past(scene, "N3 < MGET x; led; N4 up; N4 < MGET x; x: array; ");
}

/* ---- many ---- */

static void test_all_that_was_on_its_way_follows(void **state)
{
    struct scene *scene = *state;

    scene->options.node.max_inflight = 5; /* the number that a connection begins with */
    start_at_n3(scene);
    map_is(scene, WITHOUT_N3);
    says_always(&scene->n[2], "x", "-MOVED 16287 N4");
    for (int i = 0; i < 20; i++) {
        (void)ask(scene, ONE, "x");
    }
    UNTIL(scene, count(scene, "x: 1; ") == 21);
    assert_int_equal(count(scene, "N3 < GET x; "), 21);
    assert_int_equal(count(scene, "N4 < GET x; "), 20);
    assert_int_equal(count(scene, "failed"), 0);
}

/* A command that was forgotten is not redirected. */
static void test_one_that_is_forgotten_goes_nowhere(void **state)
{
    struct scene *scene = *state;
    struct asked *asked;

    start_at_n3(scene);
    says(&scene->n[2], "x", "-MOVED 16287 N4");
    asked = ask(scene, ONE, "x");
    UNTIL(scene, came(scene, "N3 < GET x; "));
    lw__node_forget(&asked->command);
    pass(scene);
    nothing_for(scene, 30);
    /* nor is a forgotten command that waits for the node it was redirected to */
    says(&scene->n[2], "x", "-MOVED 16287 N4");
    asked = ask(scene, ONE, "x");
    UNTIL(scene,
          lw__node_of_command(&asked->command) != at(scene, "y") || came(scene, "led; "));
    lw__node_forget(&asked->command);
    UNTIL(scene, came(scene, "N4 up; "));
    assert_false(came(scene, "N4 < "));
}

/* The command that seeds the fence counter is redirected, because the node no longer has
 * the slot. The node comes up all the same. */
static void test_a_node_whose_slot_moved_is_up(void **state)
{
    struct scene *scene = *state;

    scene->tells_seeds = true;
    says_always(&scene->n[2], "SEED", "-MOVED 16287 N4");
    start_linked(scene, "N1");
    (void)ask(scene, ONE, "x");
    UNTIL(scene, came(scene, "N3 up; ") && came(scene, "N3 < GET x; x: 1; "));
    assert_null(lw__node_fence_fault(at(scene, "x")));
    assert_string_equal(scene->nodes.told, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_moved_is_sent_there_and_the_map_is_right_at_once),
        TEST(test_a_stale_map_is_corrected_once_more),
        TEST(test_of_a_pair_both_are_sent_again),
        TEST(test_what_comes_behind_a_redirected_one_is_thrown_away),
        TEST(test_the_second_alone_is_not_redirected),
        TEST(test_the_connection_ends_before_the_second_answer),
        TEST(test_five_hops_and_no_more),
        TEST(test_moved_without_an_end_is_logged_once),
        TEST(test_asking_without_an_end_is_logged_once),
        TEST(test_a_node_that_redirects_to_itself),
        TEST(test_asking_without_an_end),
        TEST(test_a_host_that_is_not_named_is_the_nodes_own),
        TEST(test_a_place_that_is_not_told),
        TEST(test_who_is_sent_to_a_place_that_is_not_told_asks_where_it_is),
        TEST(test_moved_to_an_address_of_version_6),
        TEST(test_moved_to_where_nobody_is),
        TEST(test_moved_to_where_nobody_was_a_moment_ago),
        TEST(test_ask_is_for_this_once),
        TEST(test_a_script_that_is_not_known_there_is_asked_for_anew),
        TEST(test_a_script_that_is_not_known_here_and_moved),
        TEST(test_asked_and_moved_on),
        TEST(test_asking_is_refused),
        TEST(test_asking_is_refused_too_late),
        TEST(test_ask_of_several_keys_is_told),
        TEST(test_try_again_is_told),
        TEST(test_cluster_down_is_told),
        TEST(test_moved_of_several_keys_is_sent_there),
        TEST(test_all_that_was_on_its_way_follows),
        TEST(test_one_that_is_forgotten_goes_nowhere),
        TEST(test_a_node_whose_slot_moved_is_up),
    };

    cmocka_set_test_filter(getenv("LOCKWIRE_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * The slot map, as the nodes of a cluster report it: which nodes are asked, which are
 * unusable, and when the map is requested again.
 *
 * Usual course: a seed reports the map, "link; led".
 */
#include "cluster_scene.h"
#include "skip_clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_US (1000 * (int64_t)LW__MS)
#define REFUSED "-NOPERM this user has no permissions\r\n"

/* ---- the first node that replies ---- */

static void test_names_lead_to_nodes_that_are_connected_to_at_need(void **state)
{
    struct scene *scene = *state;

    start_linked(scene, "N2");
    UNTIL(scene, connections_to(&scene->n[1]) == 0); /* it was for the map request only */
    leads(scene, "b", "N1");
    leads(scene, "x", "N3");
    (void)ask(scene, ONE, "{b}other");
    await(scene, "N1 < GET {b}other; {b}other: 1; ");
    assert_int_equal(connections_to(&scene->n[0]), 1);
    assert_int_equal(connections_to(&scene->n[1]), 0);
    assert_int_equal(scene->stats.refreshes, 1);
    assert_int_equal(scene->stats.redirects, 0);
    assert_true(lw__route_is_cluster(scene->route));
    assert_int_equal(lw__route_slot(scene->route, "x"), SLOT_X);
    assert_int_equal(lw__route_master(scene->route, &(struct lw_master){.size = 0}),
                     LW_EINVAL);
}

static void test_who_is_not_there_costs_no_time(void **state)
{
    struct scene *scene = *state;

    leave(&scene->n[0]);
    scene->n[1].raw = REFUSED;
    start_linked(scene, "N1 N2 N3");
    assert_int_equal(scene->n[1].asked, 1);
    assert_int_equal(scene->n[2].asked, 1);
}

static void test_one_that_says_nothing_costs_200_ms(void **state)
{
    struct scene *scene = *state;
    int64_t begun = lw__now_us();

    scene->n[0].raw = "";
    start_linked(scene, "N1 N2 N3");
    assert_true(lw__now_us() - begun >= 200 * LW__MS);
    assert_int_equal(scene->n[0].asked, 1);
    assert_int_equal(scene->n[1].asked, 1);
    UNTIL(scene, connections_to(&scene->n[0]) == 0); /* it is disconnected */
}

static void test_two_that_say_nothing_cost_400_ms(void **state)
{
    struct scene *scene = *state;
    int64_t begun = lw__now_us();

    scene->n[0].raw = scene->n[1].raw = "";
    start_linked(scene, "N1 N2 N3");
    assert_true(lw__now_us() - begun >= 400 * LW__MS);
    assert_int_equal(scene->n[2].asked, 1);
}

static void test_who_lies_is_passed_over(void **state)
{
    struct scene *scene = *state;

    scene->n[0].map = "0-100 N1, 100-16383 N2";
    scene->n[1].raw = "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n";
    start_linked(scene, "N1 N2 N3");
    leads(scene, "b", "N1");
}

static void test_a_map_of_as_many_ranges_as_slots(void **state)
{
    struct scene *scene = *state;

    skip_idle_time(false); /* TCP pauses now and then while the map is sent */
    scene->n[2].in_pieces = true;
    start_linked(scene, "N3");
    leads(scene, "b", "N1");
    leads(scene, "c", "N2");
    (void)ask(scene, ONE, "x");
    await(scene, "N2 < GET x; x: 1; ");
    skip_idle_time(true);
}

/* ---- hosts ---- */

static void test_a_node_that_knows_no_host_means_its_own(void **state)
{
    struct scene *scene = *state;

    scene->n[0].host = "";
    start_linked(scene, "N1");
    leads(scene, "x", "N3");
}

static void test_a_host_that_is_nil_is_the_nodes_own(void **state)
{
    struct scene *scene = *state;

    scene->n[0].host = "nil";
    start_linked(scene, "N1");
    leads(scene, "x", "N3");
}

static void test_a_host_that_is_not_told_leads_nowhere(void **state)
{
    struct scene *scene = *state;

    scene->n[0].host = "?";
    scene->follow = "x";
    scene_start(scene, "N1");
    await(scene, "no link: the cluster reports no endpoint for the slot's master; "
                 "x led to nowhere; nowhere down: "
                 "the cluster reports no endpoint for the slot's master; ");
    scene->n[0].host = NULL;
    UNTIL(scene, came(scene, "link; x led to N3; N3 up; "));
    assert_int_equal(
        count_told(scene,
                   "16384 of 16384 slots are unreachable; names in these slots cannot be "
                   "locked: the cluster reports no endpoint for the slot's master"),
        1);
}

static void test_nodes_have_names(void **state)
{
    struct scene *scene = *state;

    scene->n[0].host = "localhost";
    start_linked(scene, "N1");
    (void)ask(scene, ONE, "x");
    UNTIL(scene, came(scene, "x: 1; "));
    assert_int_equal(connections_to(&scene->n[2]), 1);
}

static void test_a_node_at_an_address_of_version_6(void **state)
{
    struct scene *scene = *state;
    struct fake *six = &scene->n[3];

    leave(six);
    six->node.six = true;
    come(six);
    if (six->node.listening == NULL) {
        skip();
    }
    scene->n[0].map = "0-16383 N4";
    start_linked(scene, "N1");
    leads(scene, "x", "N4");
}

/* ---- without success ---- */

static void test_each_says_why_it_is_of_no_use(void **state)
{
    struct scene *scene = *state;

    scene->options.node.config.backoff_min_ms = 600;
    scene->options.node.config.backoff_max_ms = 600;
    scene->n[0].raw = "-ERR This instance has cluster support disabled\r\n";
    leave(&scene->n[1]);
    scene->n[2].raw = "*0\r\n";
    scene->n[3].raw = "+OK\r\n";
    scene_start(scene, "N1 N2 N3 N4");
    await(scene, "no link: no node returned a usable slot map; "
                 "N1: ERR This instance has cluster support disabled (use redis://); "
                 "N2: connecting to N2: Connection refused; "
                 "N3: CLUSTER SLOTS: no node has any slot; "
                 "N4: CLUSTER SLOTS: the reply is not an array; "
                 "nowhere down: no node returned a usable slot map; N1: ERR This");
    pass(scene);
    (void)ask(scene, ONE, "x");
    await(scene, "x is not sent; ");
    scene->n[3].raw = NULL;
    await(scene, "link; led; ");
}

static void test_in_vain_they_are_asked_ever_more_rarely(void **state)
{
    static const int64_t least_ms[] = {20, 40, 80, 80};
    struct scene *scene = *state;

    scene->options.node.config.backoff_min_ms = 40;
    scene->options.node.config.backoff_max_ms = 160;
    scene->n[0].raw = REFUSED;
    scene_start(scene, "N1");
    UNTIL(scene, scene->stats.refreshes == 5);
    for (int i = 0; i < 4; i++) {
        assert_true(pause_after(scene, i) >= least_ms[i] * LW__MS);
    }
    scene->n[0].raw = NULL;
    UNTIL(scene, came(scene, "link; led; "));
}

static void test_silence_ends_with_the_time_for_an_answer(void **state)
{
    struct scene *scene = *state;

    scene->options.node.config.request_timeout_ms = 100;
    scene->n[0].raw = "";
    scene_start(scene, "N1");
    UNTIL(scene, came(scene, "no link: no node returned a usable slot map; N1: "));
    scene->n[0].raw = NULL;
    UNTIL(scene, came(scene, "link; led; "));
}

/* ---- further requests ---- */

static void test_they_are_asked_once_a_second_at_the_most(void **state)
{
    struct scene *scene = *state;

    start_linked(scene, "N1");
    says_always(&scene->n[0], "b", "-CLUSTERDOWN The cluster is down");
    for (int again = 2; again <= 3; again++) {
        (void)ask(scene, ONE, "b");
        (void)ask(scene, ONE, "b");
        UNTIL(scene, (int)scene->stats.refreshes == again);
        UNTIL(scene, came(scene, "led; ")); /* until then a request is pending */
        pass(scene);
    }
    assert_true(pause_after(scene, 0) >= SECOND_US);
    assert_true(pause_after(scene, 1) >= SECOND_US);
    assert_int_equal(scene->stats.refreshes, 3);
}

/* A reply to the map request may be older than a redirect that came while it was
 * pending. */
static void test_an_answer_that_may_be_older_is_asked_for_again(void **state)
{
    struct scene *scene = *state;

    scene->follow = "x";
    scene_start(scene, "N1");
    await(scene, "link; x led to N3; N3 up; ");
    scene->n[0].raw = scene->n[2].raw = "";
    says(&scene->n[2], "x", "-CLUSTERDOWN The cluster is down");
    (void)ask(scene, ONE, "x");
    UNTIL(scene, scene->stats.refreshes == 2);
    says(&scene->n[2], "x", "-MOVED 16287 N1");
    (void)ask(scene, ONE, "x");
    UNTIL(scene, came(scene, "x led to N1; "));
    pass(scene);
    scene->n[0].raw = scene->n[2].raw = NULL;
    UNTIL(scene, came(scene, "led to ")); /* the older map, which does not count for x */
    assert_false(came(scene, "x led to N3; "));
    pass(scene);
    map_is(scene, "0-5460 N1, 5461-10922 N2, 10923-16383 N2");
    UNTIL(scene, came(scene, "x led to N2; "));
    assert_int_equal(scene->stats.refreshes, 3);
}

static void test_slots_that_nobody_has_are_asked_for_until_somebody_has(void **state)
{
    struct scene *scene = *state;

    scene->follow = "x";
    scene->n[0].map = "0-5460 N1";
    scene_start(scene, "N1");
    await(scene, "link; x led to nowhere; "
                 "nowhere down: no node of the cluster serves the slot; ");
    await(scene, "x led to nowhere; "
                 "nowhere down: no node of the cluster serves the slot; ");
    assert_true(pause_after(scene, 0) >= SECOND_US);
    assert_int_equal(
        count_told(scene, "10923 of 16384 slots are unreachable; names in these slots "
                          "cannot be locked: no node of the cluster serves the slot"),
        1);
    (void)ask(scene, ONE, "x");
    await(scene, "x is not sent; ");
    scene->n[0].map = THIRDS;
    await(scene, "x led to N3; N3 up; ");
    (void)ask(scene, ONE, "x");
    await(scene, "N3 < GET x; x: 1; ");
}

static void test_slots_that_nobody_has_and_nobody_wants_are_not_asked_for(void **state)
{
    struct scene *scene = *state;

    scene->follow = "b";
    scene->n[0].map = "0-5460 N1";
    scene_start(scene, "N1");
    await(scene, "link; b led to N1; N1 up; ");
    jump(scene, 2);
    nothing_for(scene, 50);
    assert_int_equal(scene->n[0].asked, 1);
}

static void test_a_node_that_is_lost_has_the_others_asked(void **state)
{
    struct scene *scene = *state;

    start_linked(scene, "N1");
    leads(scene, "x", "N3");
    says(&scene->n[2], "x", "");
    (void)ask(scene, ONE, "x");
    await(scene, "N3 < GET x; ");
    map_is(scene, "0-5460 N1, 5461-10922 N2, 10923-16383 N4");
    scene->follow = "x";
    leave(&scene->n[2]);
    await(scene, "x failed: N3 closed the connection; "
                 "N3 down: N3 closed the connection; x led to N3; ");
    UNTIL(scene, came(scene, "x led to N4; "));
    pass(scene);
    assert_true(was_told(
        scene, "no connection to the cluster's node N3: N3 closed the connection"));
    UNTIL(scene, came(scene, "N4 up; "));
    (void)ask(scene, ONE, "x");
    UNTIL(scene, came(scene, "N4 < GET x; x: 1; "));
}

/* N3 has lost the other nodes, and reports CLUSTERDOWN. It would report the old map at
 * once. */
static void test_a_node_that_lost_the_others_is_asked_last(void **state)
{
    struct scene *scene = *state;

    start_linked(scene, "N3 N1");
    leads(scene, "x", "N3");
    scene->n[0].map = "0-5460 N1, 5461-10922 N2, 10923-16383 N4";
    says(&scene->n[2], "x", "-CLUSTERDOWN The cluster is down");
    scene->follow = "x";
    (void)ask(scene, ONE, "x");
    await(scene, "N3 < GET x; x: CLUSTERDOWN The cluster is down; x led to N4; ");
}

static void test_without_any_node_there_is_no_link(void **state)
{
    struct scene *scene = *state;

    scene->options.node.config.backoff_min_ms = 10;
    scene->options.node.config.backoff_max_ms = 20;
    start_linked(scene, "N1");
    leads(scene, "x", "N3");
    for (int i = 0; i < NODES; i++) {
        leave(&scene->n[i]);
    }
    UNTIL(scene, came(scene, "no link: no node returned a usable slot map; N1: "));
    for (int i = 0; i < NODES; i++) {
        come(&scene->n[i]);
    }
    UNTIL(scene, came(scene, "link; "));
    UNTIL(scene, came(scene, "N3 up; "));
}

static void test_a_node_that_is_there_again_is_a_link_whoever_tells_the_map(void **state)
{
    struct scene *scene = *state;
    int asked; /* map requests to nodes that would report the map */

    scene->options.node.config.backoff_min_ms = 10;
    scene->options.node.config.backoff_max_ms = 20;
    start_linked(scene, "N1");
    leads(scene, "x", "N3");
    for (int i = 0; i < NODES; i++) {
        leave(&scene->n[i]);
    }
    UNTIL(scene, came(scene, "no link: no node returned a usable slot map; N1: "));
    asked = scene->n[0].asked + scene->n[1].asked + scene->n[3].asked;
    scene->n[2].raw = REFUSED;
    come(&scene->n[2]);
    pass(scene);
    UNTIL(scene, came(scene, "link; N3 up; "));
    assert_int_equal(scene->n[0].asked + scene->n[1].asked + scene->n[3].asked, asked);
}

/* All seeds are down: the nodes in use are asked, those in doubt last. */
static void test_the_nodes_are_asked_as_well(void **state)
{
    struct scene *scene = *state;

    start_linked(scene, "N4");
    leads(scene, "b", "N1");
    leave(&scene->n[3]);
    says(&scene->n[0], "b", "-CLUSTERDOWN Hash slot not served");
    (void)ask(scene, ONE, "b");
    await(scene, "N1 < GET b; b: CLUSTERDOWN Hash slot not served; led; ");
    assert_int_equal(scene->n[1].asked, 1);
}

static void test_without_an_answer_the_map_stays(void **state)
{
    struct scene *scene = *state;

    start_linked(scene, "N1");
    leads(scene, "b", "N1");
    for (int i = 0; i < NODES; i++) {
        scene->n[i].raw = REFUSED;
    }
    says(&scene->n[0], "b", "-CLUSTERDOWN Hash slot not served");
    (void)ask(scene, ONE, "b");
    await(scene, "N1 < GET b; b: CLUSTERDOWN Hash slot not served; ");
    UNTIL(scene, was_told(scene, "no node returned a usable slot map; N2: NOPERM"));
    (void)ask(scene, ONE, "b");
    await(scene, "N1 < GET b; b: 1; ");
}

/* ---- which node's map is believed ---- */

#define TAKEN_OVER "0-5460 N1, 5461-10922 N2, 10923-16383 N4"

static void turn_often(struct scene *scene)
{
    for (int turn = 0; turn < 100; turn++) {
        scene_turn(scene, 1, "a question");
    }
}

/* N3 reports the cluster as down, and the map from before it lost the other nodes. */
static void test_a_first_seed_that_lost_the_others_is_not_believed(void **state)
{
    struct scene *scene = *state;

    map_is(scene, TAKEN_OVER);
    scene->n[2].map = THIRDS;
    scene->n[2].down = true;
    scene->follow = "x";
    scene_start(scene, "N3 N1");
    await(scene, "link; x led to N4; N4 up; ");
    assert_int_equal(scene->n[2].asked, 1);
}

/* Between the failure of N1 and the take-over, all nodes reported the cluster as down. */
static void test_of_several_in_doubt_one_that_serves_is_believed(void **state)
{
    static const char *const keys[] = {"b", "c", "x"};
    struct scene *scene = *state;

    start_linked(scene, "N1");
    for (int i = 0; i < 3; i++) {
        (void)ask(scene, ONE, keys[i]);
        UNTIL(scene, came(scene, ": 1; "));
        pass(scene);
        says_always(&scene->n[i], keys[i], "-CLUSTERDOWN The cluster is down");
    }
    for (int i = 0; i < 3; i++) {
        (void)ask(scene, ONE, keys[i]);
        UNTIL(scene, came(scene, ": CLUSTERDOWN The cluster is down; "));
        pass(scene);
    }
    map_is(scene, "0-5460 N4, 5461-10922 N2, 10923-16383 N3");
    scene->n[0].map = THIRDS;
    scene->n[0].down = true;
    scene->follow = "b";
    UNTIL(scene, came(scene, "b led to "));
    await(scene, "b led to N4; ");
    assert_int_equal(scene->n[0].asked, 2);
}

static void test_a_first_seed_that_has_some_slots_only_is_not_believed(void **state)
{
    struct scene *scene = *state;

    scene->n[0].map = "0-5460 N1";
    scene->follow = "x";
    scene_start(scene, "N1 N2");
    await(scene, "link; x led to N3; N3 up; ");
    assert_int_equal(scene->n[0].asked, 1);
}

/* The real cluster reports itself as down for a moment, so that only N4, which knows no
 * other node, seems to serve. A lock acquired there would not exclude the other
 * clients. */
static void test_a_first_seed_that_stands_alone_is_not_believed(void **state)
{
    struct scene *scene = *state;

    scene->n[3].id = 'a';
    scene->n[3].map = "10923-16383 N4";
    scene->n[0].down = scene->n[1].down = scene->n[2].down = true;
    scene->follow = "x";
    scene_start(scene, "N4 N1 N2");
    await(scene, "link; x led to N3; N3 up; ");
    assert_int_equal(connections_to(&scene->n[3]), 0);
    scene->n[0].down = scene->n[1].down = scene->n[2].down = false;
    UNTIL(scene, came(scene, "x led to N3; "));
}

/* The other seeds do not report which cluster it is: one is down, one is silent. */
static void test_a_first_seed_that_is_left_alone_is_not_believed(void **state)
{
    struct scene *scene = *state;

    scene->n[3].id = 'a';
    scene->n[3].map = "10923-16383 N4";
    leave(&scene->n[0]);
    scene->n[1].raw = "";
    scene->follow = "x";
    scene_start(scene, "N4 N1 N2");
    UNTIL(scene, came(scene, "no link: no node returned a usable slot map; N4: reports "
                             "no master for some slots; N1: "));
    assert_false(came(scene, "x led to N4"));
    pass(scene);
    scene->n[1].raw = NULL;
    UNTIL(scene, came(scene, "x led to N3; "));
    assert_false(came(scene, "x led to N4"));
}

static void test_of_clusters_parts_the_larger_one_is_better_than_none(void **state)
{
    struct scene *scene = *state;

    map_is(scene, "0-5460 N1");
    scene->follow = "b";
    scene_start(scene, "N1 N2");
    await(scene, "link; b led to N1; N1 up; ");
    assert_int_equal(scene->n[1].asked, 1);
    assert_true(was_told(scene,
                         "10923 of 16384 slots are unreachable; names in these slots "
                         "cannot be locked: no node of the cluster serves the slot"));
}

static void refresh(struct scene *scene)
{
    uint64_t refreshes = scene->stats.refreshes;

    jump(scene, 301);
    UNTIL(scene, scene->stats.refreshes > refreshes);
    UNTIL(scene, came(scene, "led to ") || came(scene, "led; "));
}

static void test_an_earlier_epoch_than_known_is_not_believed(void **state)
{
    struct scene *scene = *state;

    map_is(scene, TAKEN_OVER);
    scene->n[2].map = THIRDS;
    scene->n[0].epoch = scene->n[1].epoch = 8;
    scene->n[2].epoch = 7;
    scene->follow = "x";
    scene_start(scene, "N1 N2");
    await(scene, "link; x led to N4; N4 up; ");
    says(&scene->n[3], "x", "-MOVED 16287 N3"); /* makes N3 the first one to be asked */
    (void)ask(scene, ONE, "x");
    UNTIL(scene, scene->n[2].asked == 1);
    pass(scene);
    UNTIL(scene, came(scene, "led to N4; ") && scene->stats.refreshes >= 2);
}

/* All nodes may have an earlier epoch, after a restore from old files. */
static void test_an_earlier_epoch_of_all_is_believed(void **state)
{
    struct scene *scene = *state;

    scene->n[0].epoch = 8;
    scene->follow = "x";
    scene_start(scene, "N1 N2");
    await(scene, "link; x led to N3; N3 up; ");
    map_is(scene, TAKEN_OVER);
    for (int i = 0; i < NODES; i++) {
        scene->n[i].epoch = 2;
    }
    refresh(scene);
    UNTIL(scene, came(scene, "x led to N4; "));
    pass(scene);
    refresh(scene); /* that epoch is the known one now: one node is enough */
    assert_int_equal(scene->n[0].asked + scene->n[1].asked + scene->n[2].asked +
                         scene->n[3].asked,
                     (int)scene->stats.refreshes + 2);
}

/* The only node that still answers lost the others before its slots went to N4. */
static void test_an_earlier_epoch_of_a_node_that_is_down_never_is(void **state)
{
    struct scene *scene = *state;

    map_is(scene, TAKEN_OVER);
    for (int i = 0; i < NODES; i++) {
        scene->n[i].epoch = 8;
    }
    scene->follow = "x";
    scene_start(scene, "N1 N3");
    await(scene, "link; x led to N4; N4 up; ");
    scene->n[0].raw = scene->n[1].raw = scene->n[3].raw = REFUSED;
    scene->n[2].map = THIRDS;
    scene->n[2].epoch = 7;
    scene->n[2].down = true;
    jump(scene, 301);
    UNTIL(scene, was_told(scene, "N3: reports the cluster as down, with a slot map older "
                                 "than the one in use"));
    (void)ask(scene, ONE, "x");
    UNTIL(scene, came(scene, "x: 1; "));
    assert_false(came(scene, "led to N3"));
    pass(scene);
    scene->n[2].epoch = 8; /* no earlier than that of the map in use */
    UNTIL(scene, came(scene, "x led to N3; "));
}

/* Elections that the replica loses raise its epoch, without any other node's consent. */
static void test_an_isolated_replica_is_not_believed(void **state)
{
    struct scene *scene = *state;

    map_is(scene, THIRDS);
    scene->n[3].map = "0-5460 N1, 5461-10922 N2, 10923-16383 N4";
    scene->n[3].down = true;
    scene->n[3].epoch = 99;
    scene->n[0].epoch = scene->n[1].epoch = scene->n[2].epoch = 7;
    scene->n[0].down = scene->n[1].down = scene->n[2].down = true;
    scene->follow = "x";
    scene_start(scene, "N1 N4");
    await(scene, "link; x led to N4; "); /* both report the cluster as down */
    scene->n[0].down = scene->n[1].down = scene->n[2].down = false;
    UNTIL(scene, came(scene, "x led to N3; "));
    jump(scene, 301);
    UNTIL(scene, connections_to(&scene->n[3]) == 0);
    assert_int_equal(
        count_told(scene, "no node reports the cluster as up; using the slot map of"), 1);
}

static void test_a_node_that_serves_is_better_than_a_later_epoch(void **state)
{
    struct scene *scene = *state;

    scene->n[3].map = "0-5460 N4, 5461-10922 N2, 10923-16383 N3";
    scene->n[3].down = true;
    scene->n[3].epoch = 99;
    scene->n[0].map = scene->n[1].map = "0-5460 N1"; /* not good either */
    scene->n[0].epoch = scene->n[1].epoch = 7;
    scene->follow = "b";
    scene_start(scene, "N4 N1 N2");
    await(scene, "link; b led to N1; N1 up; ");
}

/* A node that answers late is waited for if no good map has been reported. */
static void test_the_last_one_has_its_time(void **state)
{
    struct scene *scene = *state;
    int64_t begun_us = lw__now_us();

    scene->n[0].down = true;
    scene->n[1].raw = "";
    scene->follow = "x";
    scene_start(scene, "N1 N2");
    await(scene, "link; x led to N3; N3 up; ");
    assert_true(lw__now_us() - begun_us >= SECOND_US);
    assert_int_equal(scene->n[1].asked, 1);
}

static void test_who_may_not_ask_for_more_has_the_map(void **state)
{
    struct scene *scene = *state;

    for (int i = 0; i < NODES; i++) {
        scene->n[i].refuses_cluster = true;
    }
    scene->n[2].id = 'f';
    start_linked(scene, "N1");
    leads(scene, "x", "N3");
    assert_int_equal(scene->n[0].asked, 1);
}

static void test_doubt_ends_when_the_node_serves(void **state)
{
    struct scene *scene = *state;

    start_linked(scene, "N4");
    leads(scene, "b", "N1");
    says(&scene->n[0], "b", "-CLUSTERDOWN The cluster is down");
    (void)ask(scene, ONE, "b");
    (void)ask(scene, ONE, "b");
    UNTIL(scene, came(scene, "b: CLUSTERDOWN The cluster is down; N1 < GET b; b: 1; ") ||
                     came(scene, "N1 < GET b; N1 < GET b; b: CLUSTERDOWN The cluster is "
                                 "down; b: 1; "));
    UNTIL(scene, scene->stats.refreshes == 2);
    UNTIL(scene, came(scene, "led; "));
    assert_int_equal(scene->n[0].asked, 1);
}

/* ---- the identity of a node ---- */

static void test_a_node_with_another_id_is_not_used(void **state)
{
    struct scene *scene = *state;

    start_linked(scene, "N1");
    leads(scene, "x", "N3");
    scene->n[0].raw = scene->n[1].raw = scene->n[2].raw = REFUSED;
    scene->follow = "x";
    leave(&scene->n[2]);
    scene->n[2].id = 'f'; /* the map still has the former id at this address */
    come(&scene->n[2]);
    pass(scene);
    (void)ask(scene, ONE, "x");
    UNTIL(scene,
          was_told(scene,
                   "no connection to the cluster's node N3: this is node "
                   "ffffffffffffffffffffffffffffffffffffffff; the slot map has node "
                   "3333333333333333333333333333333333333333 at this address"));
    assert_false(came(scene, "N3 < GET"));
    assert_false(came(scene, "N3 up"));
    /* now the map has the new id at this address */
    scene->n[0].raw = scene->n[1].raw = scene->n[2].raw = NULL;
    UNTIL(scene, came(scene, "N3 up; "));
}

/* N3 is at the endpoint of a master, but knows none of the other nodes. */
static void test_a_node_of_another_cluster_is_not_believed(void **state)
{
    struct scene *scene = *state;

    start_linked(scene, "N1");
    leads(scene, "b", "N1");
    leave(&scene->n[2]);
    scene->n[2].map = "0-16383 N4";
    come(&scene->n[2]);
    says(&scene->n[0], "b", "-MOVED 3300 N3");
    scene->n[0].raw = scene->n[1].raw = ""; /* silent for now */
    scene->follow = "b";
    says_always(&scene->n[2], "b", "");
    (void)ask(scene, ONE, "b");
    UNTIL(scene, scene->n[2].asked == 1);
    jump(scene, 2);
    scene->n[0].raw = scene->n[1].raw = NULL;
    UNTIL(scene,
          scene->stats.refreshes >= 2 && scene->n[0].asked + scene->n[1].asked > 1);
    jump(scene, 12);
    UNTIL(scene, came(scene, "b led to N1; "));
    assert_false(came(scene, "led to N4"));
}

static void turn_over(struct scene *scene)
{
    scene->follow = "x";
    UNTIL(scene, came(scene, "x led to N3; N3 up; "));
    pass(scene);
    for (int i = 0; i < NODES; i++) {
        scene->n[i].id = (char)('a' + i);
    }
    leave(&scene->n[2]);
    come(&scene->n[2]);
}

/* All nodes were replaced, also at the endpoints of the seeds: the new cluster must not
 * count as foreign indefinitely. */
static void test_what_the_seeds_agree_on_is_believed(void **state)
{
    struct scene *scene = *state;

    scene->options.node.config.backoff_min_ms = 500;
    scene->options.node.config.backoff_max_ms = 500;
    scene->follow = "x";
    scene_start(scene, "N1 N2");
    turn_over(scene);
    UNTIL(scene, came(scene, "N3 up; "));
    assert_int_equal(connections_to(&scene->n[3]), 0);
}

/* Each of the two seeds has moved to a cluster of its own: neither is a majority. */
static void test_a_minority_of_the_seeds_is_not_believed(void **state)
{
    struct scene *scene = *state;

    scene->follow = "x";
    scene_start(scene, "N1 N2");
    UNTIL(scene, came(scene, "x led to N3; N3 up; "));
    pass(scene);
    scene->n[0].id = 'a';
    scene->n[0].map = "0-16383 N1";
    scene->n[1].id = 'b';
    scene->n[1].map = "0-16383 N2";
    leave(&scene->n[2]); /* the only node that reports the right map */
    UNTIL(scene,
          was_told(scene,
                   "N1: belongs to another cluster; N2: belongs to another cluster"));
    assert_false(came(scene, "led to N1"));
    assert_false(came(scene, "led to N2"));
}

/* The other seed does not answer, so that there is no majority. */
static void test_seeds_that_do_not_answer_count_against_another_cluster(void **state)
{
    struct scene *scene = *state;

    scene->follow = "x";
    scene_start(scene, "N1 N2");
    await(scene, "link; x led to N3; N3 up; ");
    scene->n[0].id = 'a';
    scene->n[0].map = "0-16383 N1";
    leave(&scene->n[1]);
    leave(&scene->n[2]);
    for (int again = 0; again < 2; again++) {
        uint64_t before = scene->stats.refreshes;

        jump(scene, 31);
        UNTIL(scene, scene->stats.refreshes > before);
        UNTIL(scene, was_told(scene, "N1: belongs to another cluster; N2: "));
        turn_often(scene);
    }
    assert_false(came(scene, "led to N1"));
}

static void start_with_two_names_of_n1(struct scene *scene, const char *further)
{
    char seeds[64];

    (void)snprintf(seeds, sizeof(seeds), "N1 localhost:%u%s",
                   (unsigned)scene->n[0].node.port, further);
    scene->options.node.config.backoff_min_ms = 500;
    scene->options.node.config.backoff_max_ms = 500;
    scene->follow = "x";
    scene_start(scene, seeds);
    await(scene, "link; x led to N3; N3 up; ");
    scene->n[0].id = 'a';
    scene->n[0].map = "0-16383 N1";
    leave(&scene->n[1]);
    leave(&scene->n[2]);
}

static void test_two_names_of_one_seed_have_one_vote(void **state)
{
    struct scene *scene = *state;

    start_with_two_names_of_n1(scene, " N2");
    UNTIL(scene, scene->n[0].asked >= 3); /* at the start, and under both names */
    turn_often(scene);
    assert_false(came(scene, "led to N1"));
}

static void test_two_names_of_one_seed_are_one_seed(void **state)
{
    struct scene *scene = *state;

    start_with_two_names_of_n1(scene, " N1"); /* N1 is listed twice, too */
    UNTIL(scene, came(scene, "x led to N1; "));
}

/* Other maps are not compared with the ids that this node reports: otherwise the
 * cluster's own map would count as another cluster's. */
static void test_a_node_that_stands_alone_does_not_decide_which_cluster_it_is(
    void **state)
{
    struct scene *scene = *state;

    scene->n[0].map = scene->n[3].map = "0-5460 N1";
    scene->follow = "x";
    scene_start(scene, "N1 N4");
    await(scene, "link; x led to nowhere; ");
    leave(&scene->n[0]);
    scene->n[3].map = "0-10922 N2, 10923-16383 N3";
    UNTIL(scene, came(scene, "x led to N3; N3 up; "));
}

/* The map has slots without a node, and a majority of the seeds agreed on it. When a seed
 * and a master are gone, the nodes in use report which node is the master now. */
static void test_a_map_with_gaps_in_use_is_kept_up_by_its_nodes(void **state)
{
    struct scene *scene = *state;

    map_is(scene, "0-5460 N1, 10923-16383 N3");
    scene->follow = "x";
    scene_start(scene, "N1 N2");
    await(scene, "link; x led to N3; ");
    UNTIL(scene, came(scene, "N3 up; "));
    leave(&scene->n[1]);
    map_is(scene, "0-5460 N1, 10923-16383 N4");
    leave(&scene->n[2]);
    UNTIL(scene, came(scene, "x led to N4; "));
}

/* The same, with a node that reports the cluster as down, and whose lost elections have
 * raised its epoch. */
static void test_a_map_with_gaps_of_a_node_that_serves_is_better(void **state)
{
    struct scene *scene = *state;

    map_is(scene, "0-5460 N1, 10923-16383 N3");
    for (int i = 0; i < NODES; i++) {
        scene->n[i].epoch = 8;
    }
    scene->follow = "x";
    scene_start(scene, "N1 N2");
    await(scene, "link; x led to N3; ");
    UNTIL(scene, came(scene, "N3 up; "));
    scene->n[0].map = "0-5460 N1, 10923-16383 N4";
    scene->n[0].epoch = 9;
    scene->n[0].down = true;
    refresh(scene);
    assert_false(came(scene, "led to N4"));
}

/* The same; the only node that answers reports the cluster as down, and an older
 * epoch. */
static void test_a_map_with_gaps_in_use_is_not_replaced_by_an_older_one(void **state)
{
    struct scene *scene = *state;

    map_is(scene, "0-5460 N1, 10923-16383 N3");
    for (int i = 0; i < NODES; i++) {
        scene->n[i].epoch = 8;
    }
    scene->follow = "x";
    scene_start(scene, "N1 N2");
    await(scene, "link; x led to N3; ");
    UNTIL(scene, came(scene, "N3 up; "));
    leave(&scene->n[1]);
    scene->n[2].raw = REFUSED;
    scene->n[0].map = "0-5460 N1, 10923-16383 N4";
    scene->n[0].epoch = 7;
    scene->n[0].down = true;
    jump(scene, 301);
    UNTIL(scene, was_told(scene, "N1: reports the cluster as down, with a slot map older "
                                 "than the one in use"));
    turn_often(scene);
    assert_false(came(scene, "led to N4"));
}

/* Two nodes share one endpoint behind a proxy, where commands may go to either. */
static void test_two_ids_at_one_place_are_no_reason_to_distrust_it(void **state)
{
    struct scene *scene = *state;
    char map[400];
    int length;

    scene->options.node.config.backoff_min_ms = 500;
    scene->options.node.config.backoff_max_ms = 500;
    start_linked(scene, "N1");
    leads(scene, "x", "N3");
    length = snprintf(map, sizeof(map),
                      "*2\r\n*3\r\n:0\r\n:5460\r\n*3\r\n$9\r\n127.0.0.1\r\n:%u\r\n"
                      "$40\r\n%s\r\n*3\r\n:5461\r\n:16383\r\n*3\r\n",
                      (unsigned)scene->n[2].node.port, id_of(&scene->n[2]));
    (void)snprintf(map + length, sizeof(map) - (size_t)length,
                   "$9\r\n127.0.0.1\r\n:%u\r\n$40\r\n%s\r\n",
                   (unsigned)scene->n[2].node.port, id_of(&scene->n[1]));
    for (int i = 0; i < NODES; i++) {
        scene->n[i].raw = map;
    }
    for (int again = 0; again < 3; again++) {
        refresh(scene);
        pass(scene);
        scene->n[2].id = again == 0 ? '2' : '3'; /* at the next connection */
    }
    leave(&scene->n[2]);
    come(&scene->n[2]);
    UNTIL(scene, came(scene, "N3 up; "));
    assert_false(was_told(scene, "this is node"));
    (void)ask(scene, ONE, "b");
    UNTIL(scene, came(scene, "N3 < GET b; b: 1; "));
    (void)ask(scene, ONE, "x"); /* the map has x at the other id */
    UNTIL(scene, came(scene, "N3 < GET x; x: 1; "));
}

/* ---- how often ---- */

static void test_the_map_is_refreshed_every_few_minutes(void **state)
{
    struct scene *scene = *state;

    scene->follow = "x";
    scene_start(scene, "N1");
    await(scene, "link; x led to N3; N3 up; ");
    jump(scene, 299);
    nothing_for(scene, 50);
    assert_int_equal(scene->stats.refreshes, 1);
    map_is(scene, TAKEN_OVER);
    jump(scene, 2);
    await(scene, "x led to N4; ");
}

/* With many clients the first node of the map would otherwise reply to all of them. */
static void test_the_nodes_are_asked_in_any_order(void **state)
{
    struct scene *scene = *state;
    int asked[3];

    start_linked(scene, "N1");
    leads(scene, "b", "N1");
    leads(scene, "c", "N2");
    leads(scene, "x", "N3");
    for (int i = 0; i < 3; i++) {
        asked[i] = scene->n[i].asked;
    }
    for (int i = 0; i < 30; i++) {
        refresh(scene);
    }
    for (int i = 0; i < 3; i++) {
        assert_in_range(scene->n[i].asked - asked[i], 5, 25);
    }
}

/* A cluster that stays down does not get a map request each second from each client. */
static void test_without_a_change_it_is_asked_ever_more_rarely(void **state)
{
    struct scene *scene = *state;
    uint64_t before;

    for (int i = 0; i < NODES; i++) {
        scene->n[i].down = true;
    }
    scene->follow = "b";
    scene_start(scene, "N1");
    await(scene, "link; b led to N1; ");
    before = scene->stats.refreshes;
    spend(scene, 200);
    assert_in_range(scene->stats.refreshes - before, 15, 60);
    says(&scene->n[0], "b", "-MOVED 3300 N2");
    (void)ask(scene, ONE, "b"); /* the redirect changes the map */
    UNTIL(scene, came(scene, "b led to N2; "));
    jump(scene, 1);
    UNTIL(scene, came(scene, "b led to N1; "));
    assert_int_equal(
        count_told(scene, "no node reports the cluster as up; using the slot map of"), 1);
}

/* N3 is down for so long, without a change of the map, that the pauses between map
 * requests are at their longest, 10 seconds. So the next request is not due yet, however
 * often N3 fails. Returns the real time before the last request. */
static int64_t wait_for_long_pauses(struct scene *scene)
{
    int64_t real_s = 0;
    uint64_t before;

    scene->options.node.config.backoff_min_ms = 50;
    scene->options.node.config.backoff_max_ms = 100;
    scene->follow = "b";
    scene_start(scene, "N2");
    await(scene, "link; b led to N1; N1 up; ");
    (void)ask(scene, ONE, "x");
    UNTIL(scene, came(scene, "x: 1; "));
    leave(&scene->n[2]);
    UNTIL(scene, scene->stats.refreshes == 2);
    for (int i = 0; i < 4; i++) {
        UNTIL(scene, came(scene, "led to N1; "));
        pass(scene);
        before = scene->stats.refreshes;
        real_s = skip_clock_real_s();
        jump(scene, 25);
        UNTIL(scene, scene->stats.refreshes > before);
    }
    UNTIL(scene, came(scene, "led to N1; "));
    jump(scene, 2);
    pass(scene);
    before = scene->stats.refreshes;
    for (int again = 0; again < 3; again++) { /* the known failure */
        UNTIL(scene, came(scene, "N3 down: "));
        pass(scene);
    }
    if (lw__now_us() - scene->refreshes[before - 1].after_us < 9 * SECOND_US) {
        assert_int_equal(scene->stats.refreshes, before);
    }
    return real_s;
}

/* The last request was some 3 seconds ago. With the old pauses the next one would be due
 * after 10 seconds. The time that a slow machine takes does not count. */
static void is_asked_at_once(struct scene *scene, uint64_t before, int64_t real_s)
{
    int64_t pause_us;

    UNTIL(scene, scene->stats.refreshes > before);
    pause_us = pause_after(scene, (int)before - 1);
    assert_true(pause_us - (skip_clock_real_s() - real_s) * SECOND_US < 6 * SECOND_US);
}

static void test_a_node_lost_during_another_failure_is_asked_about_soon(void **state)
{
    struct scene *scene = *state;
    int64_t real_s = wait_for_long_pauses(scene);
    uint64_t before = scene->stats.refreshes;

    leave(&scene->n[0]);
    is_asked_at_once(scene, before, real_s);
}

static void test_an_unsettled_node_during_another_failure_is_asked_about_soon(
    void **state)
{
    struct scene *scene = *state;
    int64_t real_s = wait_for_long_pauses(scene);
    uint64_t before = scene->stats.refreshes;

    says(&scene->n[0], "b", "-CLUSTERDOWN Hash slot not served");
    (void)ask(scene, ONE, "b");
    is_asked_at_once(scene, before, real_s);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_names_lead_to_nodes_that_are_connected_to_at_need),
        TEST(test_who_is_not_there_costs_no_time),
        TEST(test_one_that_says_nothing_costs_200_ms),
        TEST(test_two_that_say_nothing_cost_400_ms),
        TEST(test_who_lies_is_passed_over),
        TEST(test_a_map_of_as_many_ranges_as_slots),
        TEST(test_a_node_that_knows_no_host_means_its_own),
        TEST(test_a_host_that_is_nil_is_the_nodes_own),
        TEST(test_a_host_that_is_not_told_leads_nowhere),
        TEST(test_nodes_have_names),
        TEST(test_a_node_at_an_address_of_version_6),
        TEST(test_each_says_why_it_is_of_no_use),
        TEST(test_in_vain_they_are_asked_ever_more_rarely),
        TEST(test_silence_ends_with_the_time_for_an_answer),
        TEST(test_they_are_asked_once_a_second_at_the_most),
        TEST(test_an_answer_that_may_be_older_is_asked_for_again),
        TEST(test_slots_that_nobody_has_are_asked_for_until_somebody_has),
        TEST(test_slots_that_nobody_has_and_nobody_wants_are_not_asked_for),
        TEST(test_a_node_that_is_lost_has_the_others_asked),
        TEST(test_a_node_that_lost_the_others_is_asked_last),
        TEST(test_a_node_that_is_there_again_is_a_link_whoever_tells_the_map),
        TEST(test_without_any_node_there_is_no_link),
        TEST(test_the_nodes_are_asked_as_well),
        TEST(test_without_an_answer_the_map_stays),
        TEST(test_a_first_seed_that_lost_the_others_is_not_believed),
        TEST(test_of_several_in_doubt_one_that_serves_is_believed),
        TEST(test_a_first_seed_that_has_some_slots_only_is_not_believed),
        TEST(test_a_first_seed_that_stands_alone_is_not_believed),
        TEST(test_a_first_seed_that_is_left_alone_is_not_believed),
        TEST(test_of_clusters_parts_the_larger_one_is_better_than_none),
        TEST(test_an_earlier_epoch_than_known_is_not_believed),
        TEST(test_an_earlier_epoch_of_all_is_believed),
        TEST(test_an_earlier_epoch_of_a_node_that_is_down_never_is),
        TEST(test_an_isolated_replica_is_not_believed),
        TEST(test_a_node_that_serves_is_better_than_a_later_epoch),
        TEST(test_the_last_one_has_its_time),
        TEST(test_who_may_not_ask_for_more_has_the_map),
        TEST(test_doubt_ends_when_the_node_serves),
        TEST(test_a_node_with_another_id_is_not_used),
        TEST(test_a_node_of_another_cluster_is_not_believed),
        TEST(test_what_the_seeds_agree_on_is_believed),
        TEST(test_a_minority_of_the_seeds_is_not_believed),
        TEST(test_seeds_that_do_not_answer_count_against_another_cluster),
        TEST(test_two_names_of_one_seed_have_one_vote),
        TEST(test_two_names_of_one_seed_are_one_seed),
        TEST(test_a_node_that_stands_alone_does_not_decide_which_cluster_it_is),
        TEST(test_a_map_with_gaps_in_use_is_kept_up_by_its_nodes),
        TEST(test_a_map_with_gaps_of_a_node_that_serves_is_better),
        TEST(test_a_map_with_gaps_in_use_is_not_replaced_by_an_older_one),
        TEST(test_two_ids_at_one_place_are_no_reason_to_distrust_it),
        TEST(test_the_map_is_refreshed_every_few_minutes),
        TEST(test_the_nodes_are_asked_in_any_order),
        TEST(test_without_a_change_it_is_asked_ever_more_rarely),
        TEST(test_a_node_lost_during_another_failure_is_asked_about_soon),
        TEST(test_an_unsettled_node_during_another_failure_is_asked_about_soon),
    };

    skip_idle_time(true);
    cmocka_set_test_filter(getenv("LOCKWIRE_TEST"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}

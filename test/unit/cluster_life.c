/* SPDX-License-Identifier: MIT */
/*
 * How nodes of a cluster, and the route to them, end: when nodes lose their slots, in a
 * forked child, and at any moment.
 *
 * Usual course: N3 no longer has a slot, and its connections are closed.
 */
#include "cluster_scene.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REFUSED "-NOPERM this user has no permissions\r\n"

/* ---- nodes that come up ---- */

/* Commands are sent to a node that accepts them but is not up yet, because the reply
 * about its fence counter is outstanding. */
static void test_what_is_asked_while_the_counter_is_awaited_is_sent(void **state)
{
    struct scene *scene = *state;

    says(&scene->n[2], "SEED", "");
    says_always(&scene->n[2], "x", "");
    start_linked(scene, "N1");
    (void)ask(scene, ONE, "x");
    await(scene, "N3 < GET x; ");
    (void)ask(scene, ONE, "x");
    await(scene, "N3 < GET x; ");
}

/* ---- nodes that lose their slots ---- */

#define WITHOUT_N3 "0-5460 N1, 5461-10922 N2, 10923-16383 N4"

static void lose_n3(struct scene *scene)
{
    start_linked(scene, "N1");
    (void)ask(scene, ONE, "b");
    (void)ask(scene, ONE, "x");
    UNTIL(scene, came(scene, "b: 1; ") && came(scene, "x: 1; "));
    pass(scene);
    map_is(scene, WITHOUT_N3);
    says(&scene->n[0], "b", "-CLUSTERDOWN Hash slot not served");
}

static void test_a_master_without_slots_is_let_go_of(void **state)
{
    struct scene *scene = *state;

    lose_n3(scene);
    (void)ask(scene, ONE, "b");
    await(scene, "N1 < GET b; b: CLUSTERDOWN Hash slot not served; led; ");
    UNTIL(scene, connections_to(&scene->n[2]) == 0);
    leads(scene, "x", "N4");
}

static void test_what_is_on_its_way_to_one_without_slots_fails(void **state)
{
    struct scene *scene = *state;

    lose_n3(scene);
    says(&scene->n[2], "x", "");
    (void)ask(scene, ONE, "x");
    (void)ask(scene, ONE, "b");
    UNTIL(scene, came(scene, "led; "));
    pass(scene);
    await(scene, "x failed: the node no longer has a slot of the cluster; "
                 "N3 down: the node no longer has a slot of the cluster; led; ");
    UNTIL(scene, connections_to(&scene->n[2]) == 0);
    nothing_for(scene, 50); /* and the node is not connected to again */
    assert_int_equal(connections_to(&scene->n[2]), 0);
}

static void test_one_that_is_not_there_and_has_no_slots_is_let_go_of(void **state)
{
    struct scene *scene = *state;

    lose_n3(scene);
    leave(&scene->n[2]);
    (void)ask(scene, ONE, "x"); /* waits for N3 to come up */
    UNTIL(scene, came(scene, "N3 down: connecting to N3: Connection refused "));
    UNTIL(scene, scene->n[0].asked == 2);
    UNTIL(scene, came(scene, "led; "));
    jump(scene, 2); /* any pause has passed */
    for (int i = 0; i < 40; i++) {
        scene_turn(scene, 1, "nothing");
    }
    pass(scene);
    nothing_for(scene, 50);
    leads(scene, "x", "N4");
}

/* ---- the rest ---- */

static void test_a_forked_child_lets_go(void **state)
{
    struct scene *scene = *state;
    int status;
    pid_t child;

    scene->n[3].raw = "";
    start_linked(scene, "N4 N1"); /* a map request is pending */
    leads(scene, "x", "N3");
    lw__node_subscribe(at(scene, "x"), SLOT_X);
    await(scene, "N3 < SSUBSCRIBE 16287; N3 bound: x; ");
    child = fork();
    if (child == 0) {
        lw__route_free(scene->route);
        lw__loop_free(scene->nodes.loop);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    nothing_for(scene, 20);
    (void)ask(scene, ONE, "x");
    await(scene, "N3 < GET x; x: 1; ");
}

static void test_a_child_is_forked_while_the_map_is_asked_for(void **state)
{
    struct scene *scene = *state;
    int status;
    pid_t child;

    scene->n[0].raw = "";
    scene_start(scene, "N1 N2");
    UNTIL(scene, scene->n[0].asked == 1);
    child = fork();
    if (child == 0) {
        lw__route_free(scene->route);
        lw__loop_free(scene->nodes.loop);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    await(scene, "link; led; ");
}

static void test_it_ends_at_any_moment(void **state)
{
    struct scene *scene = *state;

    scene->n[0].raw = REFUSED;
    for (int turns = 0; turns < 60; turns++) {
        says(&scene->n[2], "x", "-MOVED 16287 N4");
        says(&scene->n[2], "{x}y", "-ASK 16287 N2");
        scene_start(scene, "N1 N2");
        for (int i = 0; i < turns; i++) {
            (void)event_base_loop(scene->nodes.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
            if (came(scene, "led; ")) {
                (void)ask(scene, ONE, "x");
                (void)ask(scene, TRY, "b");
                (void)ask(scene, ONE, "{x}y");
                lw__node_subscribe(at(scene, "c"), SLOT_C);
                pass(scene);
            }
        }
        scene_stop(scene);
        memset(scene->asked, 0, sizeof(scene->asked));
        for (int i = 0; i < 5; i++) {
            (void)event_base_loop(scene->nodes.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        }
        pass(scene);
        memset(scene->n[2].answers, 0, sizeof(scene->n[2].answers));
        nothing_for(scene, 1);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_is_asked_while_the_counter_is_awaited_is_sent),
        TEST(test_a_master_without_slots_is_let_go_of),
        TEST(test_what_is_on_its_way_to_one_without_slots_fails),
        TEST(test_one_that_is_not_there_and_has_no_slots_is_let_go_of),
        TEST(test_a_forked_child_lets_go),
        TEST(test_a_child_is_forked_while_the_map_is_asked_for),
        TEST(test_it_ends_at_any_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * A client's subscriptions to the sharded channels of a cluster's node, one for each
 * slot: confirmed, believed, dropped by either side, forbidden, lost and restored.
 *
 * Usual course: listen_to(), "N3 < SSUBSCRIBE 16287; N3 bound: x", "message hello".
 */
#include "cluster_scene.h"

#include "redis/format.h"

#include <stdio.h>
#include <string.h>

static void start_at_n3(struct scene *scene)
{
    start_linked(scene, "N1");
    (void)at(scene, "x");
    await(scene, "N3 up; ");
}

static void listen_to(struct scene *scene, const char *key)
{
    lw__node_subscribe(at(scene, key), lw__route_slot(scene->route, key));
}

static bool is_bound(struct scene *scene, const char *key)
{
    return lw__node_is_bound(at(scene, key), lw__route_slot(scene->route, key));
}

static void listen_to_x(struct scene *scene)
{
    start_at_n3(scene);
    listen_to(scene, "x");
    await(scene, "N3 < SSUBSCRIBE 16287; N3 bound: x; ");
}

/* ---- listening ---- */

static void test_nobody_listens_before_somebody_waits(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    nothing_for(scene, 20);
    assert_int_equal(connections_to(&scene->n[2]), 1);
    assert_false(is_bound(scene, "x"));
}

static void test_a_channel_for_each_slot_that_is_waited_in(void **state)
{
    struct scene *scene = *state;

    listen_to_x(scene);
    assert_true(is_bound(scene, "x"));
    assert_false(is_bound(scene, "a"));
    assert_false(lw__node_is_newly_bound(at(scene, "x"), SLOT_X)); /* reported */
    listen_to(scene, "a");
    listen_to(scene, "a");
    listen_to(scene, "x");
    await(scene, "N3 < SSUBSCRIBE 15495; N3 bound: a; ");
    nothing_for(scene, 20);
    assert_int_equal(connections_to(&scene->n[2]), 2);
}

static void test_two_at_once_are_told_at_once(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    listen_to(scene, "a");
    listen_to(scene, "x");
    await(scene, "N3 < SSUBSCRIBE 15495; N3 < SSUBSCRIBE 16287; N3 bound: ax; ");
}

static void test_messages_of_its_own_slots_are_told(void **state)
{
    struct scene *scene = *state;

    listen_to_x(scene);
    publish(&scene->n[2], SLOT_X, "hello");
    publish(&scene->n[2], SLOT_A, "of nobody's");
    publish(&scene->n[2], SLOT_X, "again");
    await(scene, "message hello; message again; ");
}

static void test_each_node_has_its_own(void **state)
{
    struct scene *scene = *state;

    listen_to_x(scene);
    (void)at(scene, "b");
    await(scene, "N1 up; ");
    listen_to(scene, "b");
    await(scene, "N1 < SSUBSCRIBE 3300; N1 bound: b; ");
    publish(&scene->n[0], SLOT_B, "one");
    await(scene, "message one; ");
    end_subscriptions(&scene->n[0]);
    await(scene, "N1 < SSUBSCRIBE 3300; N1 bound: b; ");
    assert_true(is_bound(scene, "x"));
}

/* ---- channels that the node drops ---- */

static void test_a_channel_that_the_node_drops(void **state)
{
    struct scene *scene = *state;

    listen_to_x(scene);
    listen_to(scene, "a");
    await(scene, "N3 < SSUBSCRIBE 15495; N3 bound: a; ");
    drop_channel(&scene->n[2], SLOT_X);
    await(scene, "N3 dropped 16287; ");
    assert_false(is_bound(scene, "x"));
    assert_true(is_bound(scene, "a"));
    publish(&scene->n[2], SLOT_X, "of nobody's");
    UNTIL(scene, scene->stats.refreshes == 2); /* to find the slot's node */
    await(scene, "led; ");
    listen_to(scene, "x"); /* at the same node */
    await(scene, "N3 < SSUBSCRIBE 16287; N3 bound: x; ");
}

static void test_a_slot_that_is_elsewhere_is_not_listened_to(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "SSUBSCRIBE", "-MOVED 16287 N4");
    listen_to(scene, "x");
    await(scene, "N3 < SSUBSCRIBE 16287; led; "); /* not bound before: no event */
    assert_int_equal(scene->stats.refreshes, 2);
    assert_false(is_bound(scene, "x"));
    nothing_for(scene, 50);
    listen_to(scene, "x");
    await(scene, "N3 < SSUBSCRIBE 16287; N3 bound: x; ");
}

static void test_one_that_is_elsewhere_is_no_matter_to_the_others(void **state)
{
    struct scene *scene = *state;

    listen_to_x(scene);
    says(&scene->n[2], "SSUBSCRIBE", "-MOVED 15495 N4");
    listen_to(scene, "a");
    await(scene, "N3 < SSUBSCRIBE 15495; led; ");
    assert_true(is_bound(scene, "x"));
    publish(&scene->n[2], SLOT_X, "of x");
    await(scene, "message of x; ");
    assert_int_equal(connections_to(&scene->n[2]), 2);
}

static void test_one_that_nobody_has_is_no_matter_to_the_others(void **state)
{
    struct scene *scene = *state;

    listen_to_x(scene);
    says(&scene->n[2], "SSUBSCRIBE 15495", "-CLUSTERDOWN Hash slot not served");
    listen_to(scene, "a");
    await(scene, "N3 < SSUBSCRIBE 15495; led; ");
    assert_int_equal(scene->stats.refreshes, 2);
    publish(&scene->n[2], SLOT_X, "of x");
    await(scene, "message of x; ");
    assert_int_equal(connections_to(&scene->n[2]), 2);
    listen_to(scene, "a");
    await(scene, "N3 < SSUBSCRIBE 15495; N3 bound: a; ");
}

/* The heartbeat subscribes again to a channel that was confirmed before. */
static void test_a_slot_that_went_without_a_word_is_told(void **state)
{
    struct scene *scene = *state;

    listen_to_x(scene);
    jump(scene, 40);
    listen_to(scene, "x");
    says(&scene->n[2], "SSUBSCRIBE", "-MOVED 16287 N4");
    jump(scene, 21);
    UNTIL(scene, came(scene, "N3 dropped 16287; "));
    assert_false(is_bound(scene, "x"));
}

static void test_another_server_is_not_believed(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    scene->n[2].astray = 2;
    listen_to(scene, "x");
    await(scene, "N3 < SSUBSCRIBE 16287; N3 < SSUBSCRIBE 16287; ");
    assert_false(is_bound(scene, "x"));
    await(scene, "N3 < SSUBSCRIBE 16287; N3 bound: x; ");
}

/* ---- channels that the client drops ---- */

static void test_what_nobody_wants_for_a_minute_is_dropped(void **state)
{
    struct scene *scene = *state;

    listen_to_x(scene);
    listen_to(scene, "a");
    await(scene, "N3 < SSUBSCRIBE 15495; N3 bound: a; ");
    jump(scene, 40);
    nothing_for(scene, 20);
    listen_to(scene, "a");
    jump(scene, 21);
    await(scene, "N3 < SUNSUBSCRIBE 16287; ");
    assert_false(is_bound(scene, "x"));
    assert_true(is_bound(scene, "a"));
    UNTIL(scene, came(scene, "N3 < SSUBSCRIBE 15495; ")); /* the heartbeat */
    pass(scene);
    nothing_for(scene, 20);
    listen_to(scene, "x");
    await(scene, "N3 < SSUBSCRIBE 16287; N3 bound: x; ");
}

static void test_the_connection_goes_with_the_last_of_them(void **state)
{
    struct scene *scene = *state;

    listen_to_x(scene);
    jump(scene, 61);
    UNTIL(scene, connections_to(&scene->n[2]) == 1);
    assert_false(is_bound(scene, "x"));
    pass(scene);
    nothing_for(scene, 20);
    listen_to(scene, "x");
    await(scene, "N3 < SSUBSCRIBE 16287; N3 bound: x; ");
}

static void test_what_is_kept_stays_without_a_waiter(void **state)
{
    struct scene *scene = *state;

    listen_to_x(scene);
    scene->keeps = "x";
    for (int i = 0; i < 3; i++) {
        jump(scene, 61);
        UNTIL(scene, came(scene, "N3 < SSUBSCRIBE 16287; ")); /* the heartbeat */
        pass(scene);
        assert_true(is_bound(scene, "x"));
    }
    assert_int_equal(connections_to(&scene->n[2]), 2);
}

/* For a moment the node has reported that the slot is elsewhere. */
static void test_what_is_kept_is_had_again_if_the_node_drops_it(void **state)
{
    struct scene *scene = *state;

    listen_to_x(scene);
    scene->keeps = "x";
    drop_channel(&scene->n[2], SLOT_X);
    UNTIL(scene, came(scene, "N3 dropped 16287; "));
    assert_false(is_bound(scene, "x"));
    jump(scene, 61);
    UNTIL(scene, came(scene, "N3 < SSUBSCRIBE 16287; N3 bound: x; "));
    assert_true(is_bound(scene, "x"));
}

/* The reply to the earlier unsubscription comes first. */
static void test_what_is_wanted_while_it_is_dropped_is_had_again(void **state)
{
    struct scene *scene = *state;

    listen_to_x(scene);
    listen_to(scene, "a");
    await(scene, "N3 < SSUBSCRIBE 15495; N3 bound: a; ");
    jump(scene, 40);
    nothing_for(scene, 20);
    listen_to(scene, "a");
    jump(scene, 21);
    UNTIL(scene, !is_bound(scene, "x"));
    listen_to(scene, "x");
    UNTIL(scene, came(scene, "N3 < SSUBSCRIBE 16287; N3 bound: x; "));
    assert_int_equal(scene->stats.refreshes, 1);
}

/* An unsubscription that the node sends unasked is no reply: the reply to the pending
 * command is still to come. */
static void test_a_drop_is_no_answer_to_what_was_asked(void **state)
{
    struct scene *scene = *state;
    char channel[LW__CHANNEL_OF_OURS_SIZE], said[256];

    listen_to_x(scene);
    listen_to(scene, "a");
    await(scene, "N3 < SSUBSCRIBE 15495; N3 bound: a; ");
    lw__format_channel("", UUID, SLOT_X, channel);
    (void)snprintf(said, sizeof(said),
                   "*3\r\n$12\r\nsunsubscribe\r\n$%zu\r\n%s\r\n:0\r\n-MOVED 15363 N4",
                   strlen(channel), channel);
    says(&scene->n[2], "SSUBSCRIBE 15363", said);
    listen_to(scene, "e");
    await(scene, "N3 < SSUBSCRIBE 15363; N3 dropped 16287; led; ");
    assert_false(is_bound(scene, "e"));
    assert_true(is_bound(scene, "a"));
}

static void test_drops_may_cross_our_own(void **state)
{
    struct scene *scene = *state;
    char x[LW__CHANNEL_OF_OURS_SIZE], e[LW__CHANNEL_OF_OURS_SIZE], said[400];

    listen_to_x(scene);
    listen_to(scene, "e");
    await(scene, "N3 < SSUBSCRIBE 15363; N3 bound: ; ");
    listen_to(scene, "a");
    await(scene, "N3 < SSUBSCRIBE 15495; N3 bound: a; ");
    jump(scene, 40);
    nothing_for(scene, 20);
    listen_to(scene, "a");
    lw__format_channel("", UUID, SLOT_X, x);
    lw__format_channel("", UUID, 15363, e);
    (void)snprintf(said, sizeof(said),
                   "*3\r\n$12\r\nsunsubscribe\r\n$%zu\r\n%s\r\n:0\r\n"
                   "*3\r\n$12\r\nsunsubscribe\r\n$%zu\r\n%s\r\n:0\r\n-MOVED 16287 N4",
                   strlen(x), x, strlen(e), e);
    says(&scene->n[2], "SUNSUBSCRIBE 16287", said);
    says(&scene->n[2], "SUNSUBSCRIBE 15363", "-MOVED 15363 N4");
    jump(scene, 21);
    await(scene,
          "N3 < SUNSUBSCRIBE 16287; N3 < SUNSUBSCRIBE 15363; N3 < SSUBSCRIBE 15495; ");
    nothing_for(scene, 50);
    assert_true(is_bound(scene, "a") && !is_bound(scene, "x"));
}

/* At one address, the subscription and the commands may reach different servers. */
static void test_what_another_server_drops_is_not_told(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    scene->n[2].astray = 1;
    says(&scene->n[2], "SSUBSCRIBE", "-MOVED 16287 N4");
    listen_to(scene, "x");
    await(scene, "N3 < SSUBSCRIBE 16287; ");
    UNTIL(scene, scene->n[2].node.subscribers == 0);
    nothing_for(scene, 50);
    assert_int_equal(scene->stats.refreshes, 1);
}

/* ---- refused, lost ---- */

static void test_who_may_not_listen_is_told_once_and_does_not_try_again(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says_always(&scene->n[2], "SSUBSCRIBE", "-NOPERM no permission for this channel");
    listen_to(scene, "x");
    await(scene, "N3 < SSUBSCRIBE 16287; ");
    UNTIL(scene, was_told(scene, "NOPERM"));
    assert_string_equal(scene->nodes.told,
                        "N3 refused SSUBSCRIBE; waiters poll: NOPERM no "
                        "permission for this channel\n");
    listen_to(scene, "x");
    listen_to(scene, "a");
    nothing_for(scene, 50);
    assert_int_equal(connections_to(&scene->n[2]), 1);
    assert_false(is_bound(scene, "x"));
}

/* Permissions may have changed since. */
static void test_who_may_not_listen_tries_again_with_the_next_connection(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says(&scene->n[2], "SSUBSCRIBE", "-NOPERM no permission for this channel");
    listen_to(scene, "x");
    await(scene, "N3 < SSUBSCRIBE 16287; ");
    UNTIL(scene, was_told(scene, "NOPERM"));
    leave(&scene->n[2]);
    come(&scene->n[2]);
    UNTIL(scene, came(scene, "N3 up; "));
    pass(scene);
    listen_to(scene, "x");
    UNTIL(scene, came(scene, "N3 bound: x; "));
}

static void test_a_server_without_such_channels_is_told_once_and_left_alone(void **state)
{
    struct scene *scene = *state;

    start_at_n3(scene);
    says_always(&scene->n[2], "SSUBSCRIBE", "-ERR unknown command 'SSUBSCRIBE'");
    listen_to(scene, "x");
    await(scene, "N3 < SSUBSCRIBE 16287; ");
    UNTIL(scene, was_told(scene, "; waiters poll: ERR unknown command"));
    listen_to(scene, "x");
    nothing_for(scene, 50);
    leave(&scene->n[2]);
    says_always(&scene->n[2], "SSUBSCRIBE", NULL); /* the server has been upgraded */
    come(&scene->n[2]);
    UNTIL(scene, came(scene, "N3 up; "));
    pass(scene);
    listen_to(scene, "x");
    UNTIL(scene, came(scene, "N3 bound: x; "));
}

static void test_a_connection_that_is_lost_is_made_again(void **state)
{
    struct scene *scene = *state;
    unsigned connection;

    listen_to_x(scene);
    listen_to(scene, "a");
    await(scene, "N3 < SSUBSCRIBE 15495; N3 bound: a; ");
    connection = lw__node_connection(at(scene, "x"));
    end_subscriptions(&scene->n[2]);
    UNTIL(scene, !is_bound(scene, "x"));
    assert_false(is_bound(scene, "a"));
    UNTIL(scene, came(scene, "N3 bound: ax; "));
    assert_true(is_bound(scene, "x") && is_bound(scene, "a"));
    assert_int_not_equal(lw__node_connection(at(scene, "x")), connection);
}

/* The channel is bound as soon as both connections are up. */
static void test_the_node_itself_is_lost(void **state)
{
    struct scene *scene = *state;

    listen_to_x(scene);
    leave(&scene->n[2]);
    come(&scene->n[2]);
    UNTIL(scene, came(scene, "N3 down: "));
    assert_false(is_bound(scene, "x"));
    UNTIL(scene, is_bound(scene, "x"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nobody_listens_before_somebody_waits),
        TEST(test_a_channel_for_each_slot_that_is_waited_in),
        TEST(test_two_at_once_are_told_at_once),
        TEST(test_messages_of_its_own_slots_are_told),
        TEST(test_each_node_has_its_own),
        TEST(test_a_channel_that_the_node_drops),
        TEST(test_a_slot_that_is_elsewhere_is_not_listened_to),
        TEST(test_one_that_is_elsewhere_is_no_matter_to_the_others),
        TEST(test_one_that_nobody_has_is_no_matter_to_the_others),
        TEST(test_a_slot_that_went_without_a_word_is_told),
        TEST(test_another_server_is_not_believed),
        TEST(test_what_nobody_wants_for_a_minute_is_dropped),
        TEST(test_the_connection_goes_with_the_last_of_them),
        TEST(test_what_is_kept_stays_without_a_waiter),
        TEST(test_what_is_kept_is_had_again_if_the_node_drops_it),
        TEST(test_what_is_wanted_while_it_is_dropped_is_had_again),
        TEST(test_a_drop_is_no_answer_to_what_was_asked),
        TEST(test_drops_may_cross_our_own),
        TEST(test_what_another_server_drops_is_not_told),
        TEST(test_who_may_not_listen_is_told_once_and_does_not_try_again),
        TEST(test_who_may_not_listen_tries_again_with_the_next_connection),
        TEST(test_a_server_without_such_channels_is_told_once_and_left_alone),
        TEST(test_a_connection_that_is_lost_is_made_again),
        TEST(test_the_node_itself_is_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Which name servers are asked, and when the file that names them is read. Uses the scene
 * of resolve_scene.h.
 *
 * Usual course: the file names a server, it is asked, the file changes.
 */
#include "resolve_scene.h"

#include "../lib/child.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The first of two servers is mute: the second is asked long before evdns' own time-out
 * for a server. One success is enough, since the machine may be slow. */
static void test_a_mute_name_server_leaves_time_for_the_next(void **state)
{
    struct scene *scene = *state;
    char mute[32];
    int fd = lookup_open_port(mute, sizeof(mute));
    bool in_time = false;

    lookup_play_server(scene);
    lookup_name_servers(scene, mute, scene->address);
    scene->patience_ms = 600;
    for (int i = 0; i < 20 && !in_time; i++) {
        int64_t begun = lw__now_us();

        /* each server is first asked for one family */
        lookup_find(scene, "just4.example");
        assert_string_equal(scene->found, "10.0.0.1 10.0.0.2 ");
        in_time = lw__now_us() - begun < 5000000;
    }
    assert_true(in_time);
    (void)close(fd);
}

/* The only server takes longer than it would get if there were another one. */
static void test_a_slow_name_server_is_waited_for(void **state)
{
    struct scene *scene = *state;

    lookup_play_server(scene);
    scene->mute_until = 8; /* of both families */
    lookup_find(scene, "late.example");
    assert_string_equal(scene->found, "10.0.0.1 2001::6 10.0.0.2 2001::7 ");
}

/* A name server does not answer for IPv6: its answer for IPv4 must be used before the
 * time is up. One success is enough, since the machine may be slow. */
static void test_an_answer_does_not_wait_for_the_other_until_it_is_too_late(void **state)
{
    struct scene *scene = *state;
    bool in_time = false;

    lookup_play_server(scene);
    scene->patience_ms = 240;
    for (int i = 0; i < 20 && !in_time; i++) {
        int64_t begun = lw__now_us();

        lookup_find(scene, "only4.example");
        assert_string_equal(scene->found, "10.0.0.1 10.0.0.2 ");
        in_time = lw__now_us() - begun < (int64_t)scene->patience_ms * 1000;
    }
    assert_true(in_time);
}

static void test_the_file_is_read_by_each_lookup(void **state)
{
    struct scene *scene = *state;
    char mute[32];
    int fd = lookup_open_port(mute, sizeof(mute));

    lookup_play_server(scene);
    lookup_find(scene, "both.example");
    assert_string_equal(scene->found, "10.0.0.1 2001::6 10.0.0.2 2001::7 ");
    lookup_name_servers(scene, mute, NULL);
    scene->patience_ms = 60;
    lookup_find(scene, "both.example");
    assert_non_null(strstr(scene->found, "cannot resolve \"both.example\""));
    lookup_name_servers(scene, scene->address, NULL);
    scene->patience_ms = 60000;
    lookup_find(scene, "both.example");
    assert_string_equal(scene->found, "10.0.0.1 2001::6 10.0.0.2 2001::7 ");
    (void)close(fd);
}

/* A client looks up for two connections, and one of them may always have a query
 * pending. */
static void test_the_file_is_read_while_another_still_asks(void **state)
{
    struct scene *scene = *state;
    struct lw__resolve *silent;
    char mute[32];
    int fd = lookup_open_port(mute, sizeof(mute));

    lookup_play_server(scene);
    lookup_name_servers(scene, mute, NULL);
    lookup_start(scene, "both.example");
    silent = scene->lookup;
    lookup_name_servers(scene, scene->address, NULL);
    lookup_find(scene, "both.example");
    assert_string_equal(scene->found, "10.0.0.1 2001::6 10.0.0.2 2001::7 ");
    lw__resolve_cancel(silent);
    (void)close(fd);
}

static void test_the_systems_file_does_no_harm(void **state)
{
    struct scene *scene = *state;

    assert_string_equal(*lw__loop_resolv_conf(scene->loop), "/etc/resolv.conf");
    lookup_start(scene, "lockwire-test.invalid");
    (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
}

/* The child must not remove the query's socket from the parent's epoll. */
static void test_a_forked_child_leaves_the_parents_question_alone(void **state)
{
    const bool always = true;
    struct scene *scene = *state;
    int status = -1;
    pid_t child;

    lookup_play_server(scene);
    lookup_start(scene, "only4.example");
    lookup_await(scene, &always, 2);
    child = fork_for_test();
    assert_true(child >= 0);
    if (child == 0) {
        lw__resolve_cancel(scene->lookup);
        lw__loop_free(scene->loop);
        end_child(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    lookup_await(scene, &scene->called, 0);
    assert_string_equal(scene->found, "10.0.0.1 10.0.0.2 ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, lookup_set_up, lookup_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_mute_name_server_leaves_time_for_the_next),
        TEST(test_a_slow_name_server_is_waited_for),
        TEST(test_an_answer_does_not_wait_for_the_other_until_it_is_too_late),
        TEST(test_the_file_is_read_by_each_lookup),
        TEST(test_the_file_is_read_while_another_still_asks),
        TEST(test_the_systems_file_does_no_harm),
        TEST(test_a_forked_child_leaves_the_parents_question_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

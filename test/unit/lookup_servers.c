/* SPDX-License-Identifier: MIT */
/*
 * Which name servers are asked, and when the file that names them is read. Knows the scene of
 * lookup_scene.h. Happy path: the file names a server, it is asked, the file changes.
 */
#include "lookup_scene.h"

#include "../lib/child.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The first of two servers is mute: the second is asked long before patience is over. */
static void test_a_mute_name_server_leaves_time_for_the_next(void **state)
{
    struct scene *scene = *state;
    char mute[32];
    int fd = lookup_open_port(mute, sizeof(mute));
    int64_t begun;

    lookup_play_server(scene);
    lookup_name_servers(scene, mute, scene->address);
    scene->patience_ms = 600;
    begun = lw__now_us();
    lookup_find(
        scene,
        "just4.example"); /* asked of the one; that there is no other, of the other */
    assert_string_equal(scene->found, "10.0.0.1 10.0.0.2 ");
    assert_true(lw__now_us() - begun < 5000000); /* evdns' own patience with a server */
    (void)close(fd);
}

/* A name server that says nothing of IPv6: what it said of IPv4 is of use only before patience
 * is over. Once is enough: the machine may be slow. */
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

static void test_the_file_is_read_again_when_it_has_changed(void **state)
{
    struct scene *scene = *state;
    struct evdns_base *before;
    char mute[32];
    int fd = lookup_open_port(mute, sizeof(mute));

    lookup_play_server(scene);
    lookup_find(scene, "both.example");
    before = lw__loop_resolver(scene->loop)->dns;
    lookup_find(scene, "both.example");
    assert_ptr_equal(lw__loop_resolver(scene->loop)->dns, before);
    lookup_name_servers(scene, mute, mute); /* of another size: times are coarse */
    scene->patience_ms = 60;
    lookup_find(scene, "both.example");
    assert_non_null(strstr(scene->found, "cannot resolve \"both.example\""));
    (void)close(fd);
}

/* Though it looks as it did: what it names may have been unreachable at first. */
static void test_the_file_is_read_again_after_a_failure(void **state)
{
    struct scene *scene = *state;
    struct lw__resolver *resolver = lw__loop_resolver(scene->loop);
    struct evdns_base *before;

    lookup_play_server(scene);
    lookup_find(scene, "nobody.example");
    before = resolver->dns;
    assert_true(resolver->failed);
    assert_int_equal(evdns_base_nameserver_ip_add(before, "127.0.0.1:9"), 0); /* a mark */
    lookup_find(scene, "both.example");
    assert_int_equal(evdns_base_count_nameservers(resolver->dns), 1);
    assert_false(resolver->failed);
}

/* Two of a client's look: one's failure takes nothing from the other. */
static void test_a_resolver_that_is_asked_is_not_replaced(void **state)
{
    const bool always = true;
    struct scene *scene = *state;
    struct lw__lookup *silent;

    lookup_play_server(scene);
    lookup_start(scene, "silent.example");
    silent = scene->lookup;
    lookup_await(scene, &always, 2);
    lookup_name_servers(scene, scene->address, "127.0.0.1");
    lookup_find(scene, "both.example");
    assert_string_equal(scene->found, "10.0.0.1 2001::6 10.0.0.2 2001::7 ");
    assert_int_equal(lw__loop_resolver(scene->loop)->lookups, 1);
    lw__lookup_cancel(silent);
    assert_int_equal(lw__loop_resolver(scene->loop)->lookups, 0);
}

static void test_the_systems_resolver_is_made_without_harm(void **state)
{
    struct scene *scene = *state;

    lookup_start(scene, "lockwire-test.invalid");
    assert_non_null(lw__loop_resolver(scene->loop)->dns);
    (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
}

/* The child may not take the question's socket out of the parent's epoll. */
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
        lw__lookup_abandon(scene->lookup);
        lw__loop_abandon(scene->loop);
        end_child(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    lookup_await(scene, &scene->called, 0);
    assert_string_equal(scene->found, "10.0.0.1 10.0.0.2 ");
    lookup_find(scene, "both.example"); /* by the socket that still waits */
    assert_string_equal(scene->found, "10.0.0.1 2001::6 10.0.0.2 2001::7 ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, lookup_set_up, lookup_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_mute_name_server_leaves_time_for_the_next),
        TEST(test_an_answer_does_not_wait_for_the_other_until_it_is_too_late),
        TEST(test_the_file_is_read_again_when_it_has_changed),
        TEST(test_the_file_is_read_again_after_a_failure),
        TEST(test_a_resolver_that_is_asked_is_not_replaced),
        TEST(test_the_systems_resolver_is_made_without_harm),
        TEST(test_a_forked_child_leaves_the_parents_question_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

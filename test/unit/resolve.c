/* SPDX-License-Identifier: MIT */
/*
 * Host names to addresses: numeric, from a hosts file, and from a name server that the
 * test plays itself. Uses the scene of resolve_scene.h.
 *
 * Usual course: each answer is noted as words, and compared.
 */
#include "resolve_scene.h"

#include "lockwire.h"

#include "base/address.h"
#include "loop/resolve.h"
#include "loop/loop.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Without a name server */

static void test_numeric_addresses_are_their_own_answer(void **state)
{
    static const char *const hosts[] = {
        "127.0.0.1",   "10.1.2.3",
        "::1",         "fe80::1%lo",
        "2001:db8::7", "fe80:0000:0000:0000:0123:4567:89ab:cdef%interface0" /* long */};
    struct scene *scene = *state;
    char wanted[64];

    lookup_play_server(scene);
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        lookup_find(scene, hosts[i]);
        (void)snprintf(wanted, sizeof(wanted), "%s ", hosts[i]);
        assert_string_equal(scene->found, wanted);
    }
    assert_int_equal(scene->asked, 0);
}

static void test_localhost_has_both_families(void **state)
{
    struct scene *scene = *state;

    lookup_play_server(scene);
    lookup_find(scene, "LocalHost");
    assert_non_null(strstr(scene->found, "127.0.0.1 "));
    assert_non_null(strstr(scene->found, "::1 "));
    assert_int_equal(scene->asked, 0);
}

static void test_a_canceled_lookup_does_not_call(void **state)
{
    struct scene *scene = *state;

    lookup_start(scene, "127.0.0.1");
    lw__resolve_cancel(scene->lookup);
    scene->lookup = NULL;
    for (int i = 0; i < 5; i++) {
        (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
    }
    assert_false(scene->called);
}

static void end_loop(struct scene *scene)
{
    lw__loop_free(scene->loop);
    scene->loop = NULL;
}

static void test_the_loop_is_freed_by_the_answer(void **state)
{
    struct scene *scene = *state;

    scene->meanwhile = end_loop;
    lookup_find(scene, "127.0.0.1");
    assert_null(scene->loop);
}

static void test_a_hosts_file(void **state)
{
    char path[] = "/tmp/lockwire-hosts.XXXXXX";
    int fd = mkstemp(path);
    FILE *file = fdopen(fd, "w");
    struct lw__addresses found = {0};

    (void)state;
    assert_non_null(file);
    (void)fputs("# comment me\n\n127.0.0.1\tlocalhost me # other\n  ::1 x ME\r\nbad me\n"
                "10.0.0.1 notme me2\n10.0.0.2\n",
                file);
    for (int i = 0; i < 3000; i++) {
        (void)fputc('y', file); /* a line longer than any buffer */
    }
    (void)fputs(" me\n127.0.0.1 me\n10.0.0.3 me",
                file); /* one address twice; no newline at the end */
    assert_int_equal(fclose(file), 0);
    lw__resolve_in_file(path, "me", &found);
    assert_int_equal(found.count, 3);
    assert_string_equal(found.list[0].text, "127.0.0.1");
    assert_string_equal(found.list[1].text, "::1");
    assert_string_equal(found.list[2].text, "10.0.0.3");
    found.count = 0;
    lw__resolve_in_file(path, "other", &found);
    lw__resolve_in_file("/nowhere/at/all", "me", &found);
    lw__resolve_in_file("/", "me", &found);
    assert_int_equal(found.count, 0);
    (void)unlink(path);
}

/* The test's own files are open: the lookup finds no descriptor left, for the hosts file
 * or for a name server. */
static void test_no_more_descriptors_is_the_system_s_failure(void **state)
{
    struct scene *scene = *state;
    struct rlimit limit, none;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){3, limit.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    scene->status = LW_ESYSTEM;
    lookup_find(scene, "some.name");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_non_null(strstr(scene->found, strerror(EMFILE)));
}

static void test_no_more_addresses_than_there_is_room_for(void **state)
{
    struct lw__addresses found = {0};
    struct lw__address address;

    (void)state;
    for (int i = 0; i < 20; i++) {
        (void)snprintf(address.text, sizeof(address.text), "10.0.0.%d", i / 2);
        lw__address_add(&found, &address);
    }
    assert_int_equal(found.count, LW__ADDRESSES);
    assert_string_equal(found.list[7].text, "10.0.0.7");
}

/* With a name server */

static void test_both_families_are_asked_for_and_alternate(void **state)
{
    struct scene *scene = *state;

    lookup_play_server(scene);
    lookup_find(scene, "both.example");
    assert_string_equal(scene->found, "10.0.0.1 2001::6 10.0.0.2 2001::7 ");
    lookup_find(scene, "both.example");
    assert_string_equal(scene->found, "10.0.0.1 2001::6 10.0.0.2 2001::7 ");
}

static void test_one_family_alone_is_not_waited_for_long(void **state)
{
    struct scene *scene = *state;
    int64_t begun = lw__now_us();

    lookup_play_server(scene);
    lookup_find(scene, "only4.example");
    assert_string_equal(scene->found, "10.0.0.1 10.0.0.2 ");
    assert_true(lw__now_us() - begun >= 200000);
}

static void test_a_name_that_does_not_exist(void **state)
{
    struct scene *scene = *state;

    lookup_play_server(scene);
    lookup_find(scene, "nobody.example");
    assert_string_equal(scene->found,
                        "cannot resolve \"nobody.example\": name does not exist");
    lookup_find(scene, "empty.example");
    assert_non_null(strstr(scene->found, "cannot resolve \"empty.example\": "));
    lookup_find(scene,
                "no6.example"); /* no address of one family, an error for the other */
    assert_non_null(strstr(scene->found, "cannot resolve \"no6.example\": "));
}

/* Such a text is not an address that a socket could use. It counts as a name, which is
 * unknown. */
static void test_an_address_with_an_endless_zone(void **state)
{
    struct scene *scene = *state;
    char host[80] = "::1%";

    memset(host + 4, 'z', 70);
    lookup_play_server(scene);
    lookup_find(scene, host);
    assert_non_null(strstr(scene->found, "::1%zzz"));
    lookup_find(scene, "1.2.3.4.5.6.7.8.9.10.11.12.13.14.15.16.17.18.19.20.21.22");
    assert_string_equal(scene->found, "10.0.0.1 2001::6 10.0.0.2 2001::7 ");
}

static void test_a_name_that_cannot_be_asked_for(void **state)
{
    struct scene *scene = *state;
    char host[254];

    memset(host, 'h', sizeof(host));
    host[253] = '\0';
    lookup_play_server(scene);
    lookup_find(scene, host);
    assert_non_null(strstr(scene->found, "cannot resolve \"hhh"));
    assert_int_equal(scene->asked, 0);
}

static void test_a_lookup_is_canceled_while_it_is_asked(void **state)
{
    const bool always = true;
    struct scene *scene = *state;

    lookup_play_server(scene);
    lookup_start(scene, "silent.example");
    lookup_await(scene, &always, 2);
    lw__resolve_cancel(scene->lookup);
    lookup_start(scene, "both.example");
    lw__resolve_cancel(scene->lookup); /* before any query was sent */
    scene->lookup = NULL;
    for (int i = 0; i < 5; i++) {
        (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
    }
    assert_false(scene->called);
}

static void test_the_loop_is_freed_while_a_name_is_asked_for(void **state)
{
    const bool always = true;
    struct scene *scene = *state;

    lookup_play_server(scene);
    lookup_start(scene, "silent.example");
    lookup_await(scene, &always, 2);
    lw__resolve_cancel(scene->lookup);
    end_loop(scene);
    scene->lookup = NULL;
}

/* In the turn of the answer, evdns has a call pending that outlives everything. */
static void test_the_loop_is_freed_in_every_turn_of_a_lookup(void **state)
{
    (void)state;
    for (int turns = 0; turns < 12; turns++) {
        struct scene *scene;
        assert_int_equal(lookup_set_up((void **)&scene), 0);
        lookup_play_server(scene);
        lookup_start(scene, "both.example");
        for (int i = 0; i < turns; i++) {
            (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
        }
        lw__resolve_cancel(scene->lookup);
        scene->lookup = NULL;
        end_loop(scene);
        assert_int_equal(lookup_tear_down((void **)&scene), 0);
    }
}

static void on_timer(void *arg)
{
    struct scene *scene = arg;

    lw__resolve_cancel(scene->lookup);
    scene->lookup = NULL;
    end_loop(scene);
    scene->called = true;
}

static void test_the_loop_is_freed_by_a_timer_while_a_name_is_asked_for(void **state)
{
    struct scene *scene = *state;

    lookup_play_server(scene);
    lookup_start(scene, "both.example");
    assert_int_equal(lw__timer_reserve(scene->loop, 1), 0);
    lw__timer_init(&scene->timer, on_timer, scene);
    lw__timer_set(scene->loop, &scene->timer, 1); /* due when the answer is passed on */
    lookup_await(scene, &scene->called, 0);
    assert_string_equal(scene->found, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, lookup_set_up, lookup_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_numeric_addresses_are_their_own_answer),
        TEST(test_localhost_has_both_families),
        TEST(test_a_canceled_lookup_does_not_call),
        TEST(test_the_loop_is_freed_by_the_answer),
        TEST(test_no_more_descriptors_is_the_system_s_failure),
        cmocka_unit_test(test_a_hosts_file),
        cmocka_unit_test(test_no_more_addresses_than_there_is_room_for),
        TEST(test_both_families_are_asked_for_and_alternate),
        TEST(test_one_family_alone_is_not_waited_for_long),
        TEST(test_a_name_that_does_not_exist),
        TEST(test_an_address_with_an_endless_zone),
        TEST(test_a_name_that_cannot_be_asked_for),
        TEST(test_a_lookup_is_canceled_while_it_is_asked),
        TEST(test_the_loop_is_freed_while_a_name_is_asked_for),
        cmocka_unit_test(test_the_loop_is_freed_in_every_turn_of_a_lookup),
        TEST(test_the_loop_is_freed_by_a_timer_while_a_name_is_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

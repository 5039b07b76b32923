/* SPDX-License-Identifier: MIT */
/*
 * The n-th allocation fails, for every n of a link's life: connecting, a pair and a
 * single command, forgetting a request, a subscription's confirmation and messages,
 * closing. Whatever fails, no reply goes to another request, each request is answered or
 * fails once, and no memory leaks. With hiredis 0.14.1 the allocations of spared.c never
 * fail.
 *
 * Usual course: an undisturbed life, then a life for each of its allocations.
 */
#include "../unit/link_scene.h"
#include "allocator.h"

#include "lockwire.h"

#include <event2/event.h>
#include <stdio.h>
#include <string.h>

static struct scene *scene;
static struct ask asks[3];

static void turn_some(void)
{
    for (int i = 0; i < 20; i++) {
        (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
    }
}

/* Serves the bytes; no allocation of the test itself fails. */
static void serve_spared(const char *bytes)
{
    bool armed = allocator_pause();

    if (scene->peer >= 0) {
        (void)send(scene->peer, bytes, strlen(bytes), MSG_NOSIGNAL);
    }
    allocator_resume(armed);
    turn_some();
}

static bool try_open(void)
{
    bool armed = allocator_pause();

    for (int i = 0; i < 100 && scene->link != NULL && scene->peer < 0; i++) {
        turn_some();
    }
    allocator_resume(armed);
    return scene->link != NULL && strstr(scene->trace, "up ") != NULL;
}

static void try_send(int number, unsigned replies)
{
    if (scene->link != NULL) {
        (void)scene_try_send(scene, &asks[number], number, replies);
    }
}

static void count(const char *what, int most)
{
    int found = 0;

    for (const char *at = scene->trace; (at = strstr(at, what)) != NULL; at++) {
        found++;
    }
    if (found > most) {
        fail_msg("%s %d times: %s", what, found, scene->trace);
    }
}

static void check_commands(bool undisturbed)
{
    static const char *const wrong[] = {
        "0:+c",         "1:+a",
        "1:+b",         "2:+a",
        "2:+b",         "2:+c",
        "out of order", "no command is waiting", /* a failed send is reported at once */
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_null(strstr(scene->trace, wrong[i]));
    }
    count("0:+a", 1);
    count("0:+b", 1);
    count("failed0", 1);
    count("failed2", 1);
    count("down", 1);
    if (undisturbed) {
        assert_string_equal(scene->trace, "up 0:+a 0:+b 2:+d ");
    }
}

static void commands(bool undisturbed)
{
    if (try_open()) {
        try_send(0, 2);
        try_send(1, 1);
        if (scene->link != NULL) {
            lw__link_forget(&asks[1].request);
        }
        try_send(2, 1);
        turn_some();
        serve_spared("+a\r\n+b\r\n+c\r\n+d\r\n");
    }
    turn_some();
    check_commands(undisturbed);
}

static void subscription(bool undisturbed)
{
    if (try_open() && lw__link_subscribe(scene->link, "ch") == 0) {
        turn_some();
        serve_spared("*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n");
        for (int i = 0; i < 3; i++) {
            serve_spared("*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$2\r\nhi\r\n");
        }
    }
    turn_some();
    count("push:['subscribe'", 1);
    count("push:['message'", 3);
    count("down", 1);
    if (undisturbed) {
        assert_non_null(strstr(scene->trace, "'hi'] push:['message','ch','hi'] push:"));
    }
}

/* Returns the number of allocations. */
static long one_life(void (*live)(bool), long at, bool always)
{
    long open = allocator_open(), asked;

    assert_int_equal(scene_set_up((void **)&scene), 0);
    memset(asks, 0, sizeof(asks));
    allocator_arm(at, always);
    if (scene_try_start(scene) == 0) {
        live(at == 0);
    }
    lw__link_close(scene->link);
    scene->link = NULL;
    asked = allocator_disarm();
    assert_int_equal(scene_tear_down((void **)&scene), 0);
    assert_int_equal(allocator_open(), open);
    return asked;
}

static void lives(void (*live)(bool))
{
    for (int always = 0; always < 2; always++) {
        long at = 0, asked;

        one_life(live, 0, false);
        do {
            asked = one_life(live, ++at, always);
        } while (asked >= at);
        assert_true(at > 5); /* a life has at least so many allocations */
    }
}

static void commands_without_memory(void **state)
{
    (void)state;
    lives(commands);
}

static void subscriptions_without_memory(void **state)
{
    (void)state;
    lives(subscription);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_without_memory),
        cmocka_unit_test(subscriptions_without_memory),
    };

    allocator_install();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

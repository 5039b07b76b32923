/* SPDX-License-Identifier: MIT */
/*
 * A faulty server: replies that are invalid, or that no request waits for, of any size
 * and depth, on a link for commands and on a subscribed one. Uses the scene of
 * link_scene.h.
 */
#include "link_scene.h"

#include "lockwire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lie {
    const char *bytes, *why;
};

static void test_replies_that_nobody_can_use(void **state)
{
    static const struct lie lies[] = {
        {"HTTP/1.1 400 Bad Request\r\n", "\"H\""},
        {"\r\n", ""},
        {":x\r\n", "integer"},
        {":\r\n", ""},
        {"$-2\r\n", ""},
        {"$99999999999999999999\r\n", ""},
        {"*-2\r\n", ""},
        {"*x\r\n", ""},
        {"*2\r\n:1\r\n?", "\"?\""},
        {"*4097\r\n", "too many elements"},
        {"*2147483647\r\n", "too many elements"},
        {"*2\r\n*3000\r\n", NULL},
        {"*4000\r\n*4000\r\n", "too many elements"},
        {"*2\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", NULL},
        {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "nested"},
        {"%1\r\n+a\r\n:1\r\n", ""},
        {"~1\r\n:1\r\n", ""},
        {">2\r\n+a\r\n:1\r\n", ""},
        {"#t\r\n", ""},
        {",1.5\r\n", ""},
        {"*1\r\n,1.5\r\n", ""},
        {"(12\r\n", ""},
        {"=7\r\ntxt:abc\r\n", ""},
    };

    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct scene *scene;
        static struct ask ask;
        (void)state;
        assert_int_equal(scene_set_up((void **)&scene), 0);
        scene_open(scene);
        scene_send(scene, &ask, 1, 1);
        serve(scene, lies[i].bytes);
        if (lies[i].why == NULL) { /* valid so far */
            settle(scene);
            assert_string_equal(scene->trace, "up ");
            lw__link_forget(&ask.request);
        } else {
            await(scene, "down(");
            assert_non_null(strstr(scene->trace, "up failed1 down("));
            assert_null(strstr(scene->trace, "down()"));
            assert_non_null(strstr(scene->trace, lies[i].why));
        }
        assert_int_equal(scene_tear_down((void **)&scene), 0);
    }
}

static void test_the_largest_replies_that_are_taken(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;
    char *text = malloc(REPLY_MAX);

    assert_non_null(text);
    memset(text, 't', REPLY_MAX);
    scene_open(scene);
    scene_send(scene, &ask, 1, 1);
    serve(scene, "*4096\r\n");
    for (int i = 0; i < 4096; i++) {
        serve(scene, ":1\r\n");
    }
    await(scene, "1:[1,1,1,1,1,1,1,1,...4096] ");
    scene_send(scene, &ask, 2, 1);
    serve(scene, "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n");
    await(scene, "2:[[[[[[1]]]]]] ");
    scene_send(scene, &ask, 3, 1);
    serve(scene, "$99000\r\n");
    serve_bytes(scene, text, 99000);
    serve(scene, "\r\n");
    await(scene, "3:$99000 ");
    scene_send(scene, &ask, 4, 1);
    serve(scene, "$200000\r\n");
    serve_bytes(scene, text, REPLY_MAX);
    serve_bytes(scene, text, REPLY_MAX);
    await(scene, "failed4 down(invalid reply from PEER: longer than 100000 bytes) ");
    free(text);
}

/* Parsed bytes leave the parser's buffer, but still count towards the limit on the
 * reply. */
static void test_a_reply_of_many_pieces_is_bounded_too(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;
    char piece[256];

    memset(piece, 'p', sizeof(piece));
    memcpy(piece, "$248\r\n", 6);
    memcpy(piece + 254, "\r\n", 2);
    scene_open(scene);
    scene_send(scene, &ask, 1, 1);
    serve(scene, "*4000\r\n");
    for (int i = 0; i < 4000; i++) {
        serve_bytes(scene, piece, sizeof(piece));
    }
    await(scene, "failed1 down(invalid reply from PEER: longer than 100000 bytes) ");
}

static void test_deep_nesting(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    scene_open(scene);
    scene_send(scene, &ask, 1, 1);
    for (int i = 0; i < 10000; i++) {
        serve(scene, "*1\r\n");
    }
    await(scene, "failed1 down(invalid reply from PEER: nested too deeply) ");
}

static void test_replies_that_nobody_asked_for(void **state)
{
    static const char *const bytes[] = {"+OK\r\n",
                                        ":1\r\n",
                                        "$1\r\na\r\n",
                                        "$-1\r\n",
                                        "*0\r\n",
                                        "*1\r\n:1\r\n",
                                        "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n"};

    (void)state;
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        struct scene *scene;
        assert_int_equal(scene_set_up((void **)&scene), 0);
        scene_open(scene);
        serve(scene, bytes[i]);
        await(scene, "down");
        assert_string_equal(
            scene->trace,
            "up down(invalid reply from PEER: no command is waiting for a reply) ");
        assert_int_equal(scene_tear_down((void **)&scene), 0);
    }
}

static void test_more_replies_than_were_asked_for(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    scene_open(scene);
    scene_send(scene, &ask, 1, 1);
    serve(scene, ":1\r\n:2\r\n:3\r\n");
    await(scene, "down");
    assert_string_equal(
        scene->trace,
        "up 1:1 down(invalid reply from PEER: no command is waiting for a reply) ");
}

static void test_an_error_that_nobody_asked_for_is_told(void **state)
{
    struct scene *scene = *state;

    scene_open(scene);
    serve(scene, "-ERR max number of clients reached\r\n");
    serve_end(scene);
    await(scene, "down");
    assert_string_equal(scene->trace, "up down(ERR max number of clients reached) ");
}

static void test_a_subscription(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    scene_open(scene);
    scene_send(scene, &ask, 1, 1); /* as in a handshake; answered first */
    assert_int_equal(lw__link_subscribe(scene->link, "ch"), 0);
    assert_int_equal(lw__link_inflight(scene->link), 2);
    serve(scene, "+OK\r\n" CONFIRMED MESSAGE);
    await(scene, "'hi'");
    assert_int_equal(lw__link_inflight(scene->link), 0);
    assert_string_equal(scene->trace, "up 1:+OK push:['subscribe','ch',1] "
                                      "push:['message','ch','hi'] ");
    ask.request.expected = 1;
    assert_int_equal(lw__link_send(scene->link, &ask.request, "x", 1), LW_ECONN);
    assert_int_equal(lw__link_subscribe(scene->link, "ch"), 0);
    assert_int_equal(lw__link_subscribe(scene->link, "ch"), 0);
    serve(scene, MESSAGE);
    await(scene, "'hi'] push:['message','ch','hi'] ");
    assert_int_equal(lw__link_inflight(scene->link), 2);
    serve(scene, CONFIRMED CONFIRMED CONFIRMED);
    await(scene, "1] push:['subscribe','ch',1] push:['subscribe','ch',1] ");
    assert_int_equal(lw__link_inflight(scene->link), 0);
}

static void test_messages_of_other_channels_are_ignored(void **state)
{
    struct scene *scene = *state;

    scene_open_subscribed(scene);
    serve(scene, CONFIRMED "*3\r\n$7\r\nmessage\r\n$2\r\nxx\r\n$2\r\nno\r\n"
                           "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n" MESSAGE);
    await(scene, "'hi'");
    assert_string_equal(scene->trace,
                        "up push:['subscribe','ch',1] push:['message','ch','hi'] ");
}

static void test_subscribing_is_denied(void **state)
{
    struct scene *scene = *state;

    scene_open_subscribed(scene);
    serve(scene, "-NOPERM no channel\r\n");
    await(scene, "push:-NOPERM no channel ");
    assert_int_equal(lw__link_inflight(scene->link), 0);
    settle(scene);
    assert_non_null(scene->link);
}

static void test_a_confirmation_that_does_not_come(void **state)
{
    struct scene *scene = *state;

    scene->request_timeout_ms = 50;
    scene_open(scene);
    assert_int_equal(lw__link_subscribe(scene->link, "ch"), 0);
    serve(scene, MESSAGE); /* not a confirmation */
    await(scene, "down(no reply from PEER within ");
    assert_non_null(strstr(scene->trace, "up push:['message','ch','hi'] down("));
}

static void test_lies_on_a_subscription(void **state)
{
    static const char *const bytes[] = {
        "+OK\r\n",
        ":1\r\n",
        "$-1\r\n",
        "*0\r\n",
        "*1\r\n$7\r\nmessage\r\n",
        "*2\r\n$7\r\nmessage\r\n$2\r\nch\r\n",
        "*3\r\n:1\r\n$2\r\nch\r\n$1\r\nx\r\n",
        "*3\r\n$-1\r\n$2\r\nch\r\n$1\r\nx\r\n",
        "*3\r\n*0\r\n*0\r\n*0\r\n",
        "*3\r\n$11\r\nunsubscribe\r\n$2\r\nch\r\n:0\r\n",
        "*3\r\n$10\r\npsubscribe\r\n$2\r\nch\r\n:1\r\n",
        "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$2\r\nch\r\n$1\r\nx\r\n",
        "*3\r\n$0\r\n\r\n$0\r\n\r\n:1\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        struct scene *scene;
        assert_int_equal(scene_set_up((void **)&scene), 0);
        scene_open_subscribed(scene);
        serve(scene, CONFIRMED);
        serve(scene, bytes[i]);
        await(scene, "down");
        assert_string_equal(scene->trace,
                            "up push:['subscribe','ch',1] down(invalid reply from PEER: "
                            "neither a message nor a confirmation of a subscription) ");
        assert_int_equal(scene_tear_down((void **)&scene), 0);
    }
}

static void test_an_error_on_a_confirmed_subscription(void **state)
{
    struct scene *scene = *state;

    scene_open_subscribed(scene);
    serve(scene, CONFIRMED "-ERR late\r\n");
    await(scene, "down");
    assert_string_equal(scene->trace, "up push:['subscribe','ch',1] down(ERR late) ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replies_that_nobody_can_use),
        TEST(test_the_largest_replies_that_are_taken),
        TEST(test_a_reply_of_many_pieces_is_bounded_too),
        TEST(test_deep_nesting),
        cmocka_unit_test(test_replies_that_nobody_asked_for),
        TEST(test_more_replies_than_were_asked_for),
        TEST(test_an_error_that_nobody_asked_for_is_told),
        TEST(test_a_subscription),
        TEST(test_messages_of_other_channels_are_ignored),
        TEST(test_subscribing_is_denied),
        TEST(test_a_confirmation_that_does_not_come),
        cmocka_unit_test(test_lies_on_a_subscription),
        TEST(test_an_error_on_a_confirmed_subscription),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

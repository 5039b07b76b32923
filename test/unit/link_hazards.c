/* SPDX-License-Identifier: MIT */
/*
 * Cases that hiredis' asynchronous context does not survive, or handles differently, and
 * that the link must handle. Some of them depend on hiredis' version. Uses the scene of
 * link_scene.h.
 */
#include "link_scene.h"

#include "lockwire.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Sends the bytes without a turn of the loop. */
static void say(struct scene *scene, const char *bytes)
{
    assert_int_equal(send(scene->peer, bytes, strlen(bytes), MSG_NOSIGNAL),
                     strlen(bytes));
}

/* ---- input from the server ---- */

static void run_lie(const char *bytes, bool subscribed, const char *why)
{
    struct scene *scene;
    char wanted[128];

    assert_int_equal(scene_set_up((void **)&scene), 0);
    scene_open(scene);
    if (subscribed) {
        assert_int_equal(lw__link_subscribe(scene->link, "ch"), 0);
        await_bytes(scene, strlen(SUBSCRIBE));
        serve(scene, CONFIRMED);
    }
    serve(scene, bytes);
    await(scene, "down");
    (void)snprintf(wanted, sizeof(wanted), "down(%s) ", why);
    if (strstr(scene->trace, wanted) == NULL) {
        fail_msg("%s: %s", bytes, scene->trace);
    }
    assert_int_equal(scene_tear_down((void **)&scene), 0);
}

static void test_lies_that_abort_in_a_subscribed_context(void **state)
{
    static const char *const bytes[] = {
        "*3\r\n$11\r\nunsubscribe\r\n$2\r\nch\r\n+x\r\n", /* no count */
        "*2\r\n$11\r\nunsubscribe\r\n$2\r\nch\r\n", /* hiredis would read past its end */
        "*1\r\n$11\r\nunsubscribe\r\n",
        "*3\r\n:1\r\n:2\r\n:3\r\n",
        "*3\r\n$9\r\nsubscribe\r\n:1\r\n:1\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n$1\r\n1\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n$-1\r\n",
        "*3\r\n$10\r\nxsubscribe\r\n$2\r\nch\r\n:1\r\n",
        "*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n:1\r\n",
        "*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n*1\r\n:1\r\n",
        "*3\r\n$7\r\nmessage\r\n$-1\r\n$1\r\nx\r\n",
        "*4\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\nx\r\n:1\r\n",
        "*-1\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bytes) / sizeof(*bytes); i++) {
        run_lie(bytes[i], true,
                "invalid reply from PEER: neither a message nor a confirmation of a "
                "subscription");
    }
}

/* Pushes of RESP3, most of them short. */
static void test_pushes_that_nobody_asked_for(void **state)
{
    static const char *const bytes[] = {
        ">0\r\n",
        ">1\r\n$7\r\nmessage\r\n",
        ">1\r\n:1\r\n",
        ">2\r\n$7\r\nmessage\r\n$2\r\nch\r\n",
        ">3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n",
        ">-1\r\n",
        "*1\r\n>1\r\n:1\r\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bytes) / sizeof(*bytes); i++) {
        for (int subscribed = 0; subscribed < 2; subscribed++) {
            struct scene *scene;

            assert_int_equal(scene_set_up((void **)&scene), 0);
            scene_open(scene);
            if (subscribed) {
                assert_int_equal(lw__link_subscribe(scene->link, "ch"), 0);
            }
            serve(scene, bytes[i]);
            await(scene, "down(");
            assert_null(strstr(scene->trace, "push"));
            assert_int_equal(scene_tear_down((void **)&scene), 0);
        }
    }
}

/* A confirmation of a channel that was never subscribed to makes hiredis 1.x abort. */
static void test_a_foreign_confirmation_is_ignored(void **state)
{
    struct scene *scene = *state;

    scene_open(scene);
    assert_int_equal(lw__link_subscribe(scene->link, "ch"), 0);
    serve(scene, "*3\r\n$9\r\nsubscribe\r\n$2\r\nxx\r\n:1\r\n" CONFIRMED MESSAGE);
    await(scene, "'hi'");
    assert_string_equal(scene->trace,
                        "up push:['subscribe','ch',1] push:['message','ch','hi'] ");
}

static void test_many_messages_of_one_read(void **state)
{
    struct scene *scene = *state;
    int messages = 0;

    scene_open(scene);
    assert_int_equal(lw__link_subscribe(scene->link, "ch"), 0);
    serve(scene, CONFIRMED);
    for (int i = 0; i < 100; i++) {
        say(scene, MESSAGE);
    }
    say(scene, CONFIRMED);
    await(scene, "1] push:['message'");
    await(scene, "'hi'] push:['subscribe','ch',1] ");
    for (const char *at = scene->trace; (at = strstr(at, "push:['message'")) != NULL;
         at++) {
        messages++;
    }
    assert_int_equal(messages, 100);
}

/* The size of a large reply does not count towards the next one. */
static void test_large_and_small_replies_alternate(void **state)
{
    struct scene *scene = *state;
    static struct ask asks[6];
    char *text = malloc(50000);

    assert_non_null(text);
    memset(text, 'x', 50000);
    scene_open(scene);
    for (int i = 0; i < 6; i++) {
        scene_send(scene, &asks[i], i, 1);
    }
    for (int i = 0; i < 3; i++) {
        serve(scene, "*2\r\n$50000\r\n");
        serve_bytes(scene, text, 50000);
        serve(scene, "\r\n$3\r\nend\r\n*2\r\n+a\r\n*1\r\n:7\r\n");
    }
    await(scene, "5:");
    assert_string_equal(scene->trace, "up 0:[$50000,'end'] 1:[+a,[7]] 2:[$50000,'end'] "
                                      "3:[+a,[7]] 4:[$50000,'end'] 5:[+a,[7]] ");
    free(text);
}

/* ---- the order of calls ---- */

static void on_timer(void *arg)
{
    struct scene *scene = arg;

    scene->length += (size_t)snprintf(scene->trace + scene->length,
                                      sizeof(scene->trace) - scene->length, "timer ");
    if (scene->meanwhile != NULL) {
        scene->meanwhile(scene, NULL);
    }
}

/* Lets a timer become due before the loop sees a reply that has arrived. */
static void stall_over(struct scene *scene, const char *bytes)
{
    int64_t due = lw__now_us() + 1000;

    assert_int_equal(lw__timer_reserve(scene->loop, 1), 0);
    lw__timer_init(&scene->timer, on_timer, scene);
    lw__timer_set(scene->loop, &scene->timer, due);
    say(scene, bytes);
    while (lw__now_us() <= due) {
    }
}

static void test_due_timers_run_before_an_answer_is_believed(void **state)
{
    struct scene *scene = *state;
    static struct ask asks[2];

    scene_open(scene);
    scene_send(scene, &asks[0], 0, 1);
    scene_send(scene, &asks[1], 1, 1);
    await_bytes(scene, 28);
    stall_over(scene, ":1\r\n:2\r\n");
    await(scene, "1:2 ");
    assert_string_equal(scene->trace, "up timer 0:1 1:2 ");
}

static void close_link(struct scene *scene, struct ask *ask)
{
    (void)ask;
    lw__link_close(scene->link);
    scene->link = NULL;
}

static void close_all(struct scene *scene, struct ask *ask)
{
    close_link(scene, ask);
    lw__loop_free(scene->loop);
    scene->loop = NULL;
}

static void fail_link(struct scene *scene, struct ask *ask)
{
    (void)ask;
    if (scene->link != NULL) {
        lw__link_fail(scene->link, "by a timer");
    }
}

/* hiredis holds the reply when the link ends. */
static void test_a_due_timer_ends_the_link_before_an_answer(void **state)
{
    static void (*const ends[])(struct scene *, struct ask *) = {close_link, close_all,
                                                                 fail_link};
    (void)state;
    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
        struct scene *scene;
        static struct ask ask;

        assert_int_equal(scene_set_up((void **)&scene), 0);
        scene_open(scene);
        scene_send(scene, &ask, 0, 1);
        await_bytes(scene, 14);
        scene->meanwhile = ends[i];
        stall_over(scene, ":1\r\n");
        await(scene, "timer ");
        scene->meanwhile = NULL;
        settle(scene);
        assert_null(strstr(scene->trace, "0:1"));
        assert_int_equal(strstr(scene->trace, "failed0 down(by a timer)") != NULL,
                         i == 2);
        assert_int_equal(scene_tear_down((void **)&scene), 0);
    }
}

static void subscribe_at_once(struct scene *scene, struct ask *ask)
{
    (void)ask;
    scene->meanwhile = NULL;
    assert_int_equal(lw__link_subscribe(scene->link, "ch"), 0);
}

static void test_a_subscription_before_and_in_up(void **state)
{
    (void)state;
    for (int in_up = 0; in_up < 2; in_up++) {
        struct scene *scene;

        assert_int_equal(scene_set_up((void **)&scene), 0);
        if (in_up) {
            scene->meanwhile = subscribe_at_once;
        }
        scene_start(scene);
        if (!in_up) {
            assert_int_equal(lw__link_subscribe(scene->link, "ch"), 0);
        }
        await_bytes(scene, strlen(SUBSCRIBE));
        serve(scene, CONFIRMED MESSAGE);
        await(scene, "'hi'");
        assert_string_equal(scene->trace,
                            "up push:['subscribe','ch',1] push:['message','ch','hi'] ");
        assert_int_equal(scene_tear_down((void **)&scene), 0);
    }
}

/* ---- ends ---- */

/* The write fails before the loop reads the reply that has arrived: the reply is passed
 * on all the same. */
static void test_the_last_words_are_read_although_writing_fails(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    scene_open(scene);
    say(scene, "-ERR max number of clients reached\r\n");
    serve_end(scene);
    scene_send(scene, &ask, 1, 1);
    await(scene, "down");
    assert_string_equal(scene->trace, "up 1:-ERR max number of clients reached "
                                      "down(PEER closed the connection) ");
}

/* Replies that have arrived are passed on, however much of them is unread. */
static void test_all_is_read_although_writing_fails(void **state)
{
    struct scene *scene = *state;
    static struct ask asks[6];
    char reply[20012] = "$20000\r\n";

    memset(reply + 8, 'x', 20000);
    strcpy(reply + 20008, "\r\n");
    scene_open(scene);
    for (int i = 0; i < 5; i++) {
        scene_send(scene, &asks[i], i, 1);
    }
    await_bytes(scene, 5 * 14);
    for (int i = 0; i < 5; i++) {
        say(scene, reply);
    }
    serve_end(scene);
    scene_send(scene, &asks[5], 5, 1);
    await(scene, "down");
    assert_string_equal(scene->trace, "up 0:$20000 1:$20000 2:$20000 3:$20000 4:$20000 "
                                      "failed5 down(PEER closed the connection) ");
}

/* In a host program without a standard input, the connection gets descriptor 0, which
 * hiredis 0.14.1 does not close. */
static void test_descriptor_0_is_closed_like_any_other(void **state)
{
    struct scene *scene = *state;
    int input = dup(STDIN_FILENO);

    assert_true(input > STDIN_FILENO);
    (void)close(STDIN_FILENO);
    scene_start(scene);
    if (fcntl(STDIN_FILENO, F_GETFD) < 0) { /* the server must not get descriptor 0 */
        assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
    }
    await(scene, "up ");
    while (scene->peer < 0) {
        assert_true(event_base_loop(scene->base, EVLOOP_ONCE) >= 0);
    }
    lw__link_close(scene->link);
    scene->link = NULL;
    await_end(scene);
    assert_int_equal(dup2(input, STDIN_FILENO), STDIN_FILENO);
    (void)close(input);
}

/* hiredis 1.x would connect a second time, when the path no longer exists. */
static void test_a_path_that_is_gone_once_connected(void **state)
{
    struct scene *scene = *state;

    scene_start(scene);
    assert_int_equal(unlink(scene->path), 0);
    await(scene, "up ");
    settle(scene);
    assert_string_equal(scene->trace, "up ");
}

/* A busy server does not accept connections. If the last client in its queue connected a
 * second time, it would get EAGAIN. */
static void test_a_path_whose_queue_is_full_by_now(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    assert_int_equal(listen(scene->listening, 0), 0);
    assert_int_equal(event_del(scene->accepting), 0);
    scene_start(scene);
    scene_send(scene, &ask, 1, 1);
    await(scene, "up ");
    settle(scene);
    assert_string_equal(scene->trace, "up ");
}

/* The end of the connection is detected although no command was sent that could fail. */
static void test_a_path_whose_server_ends_before_a_word(void **state)
{
    struct scene *scene = *state;

    scene_open(scene);
    serve_end(scene);
    await(scene, "down");
    assert_string_equal(scene->trace, "up down(PEER closed the connection) ");
}

static void test_a_path_whose_queue_has_no_room(void **state)
{
    struct scene *scene = *state;
    struct lw__link *first;

    assert_int_equal(listen(scene->listening, 0), 0);
    assert_int_equal(event_del(scene->accepting), 0);
    scene_start(scene);
    first = scene->link;
    scene->link = NULL;
    assert_int_equal(scene_try_start(scene), LW_ECONN);
    lw__link_close(first);
}

static void test_a_link_ends_in_the_turn_in_which_it_comes_up(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    scene_start(scene);
    scene_send(scene, &ask, 1, 1);
    scene->peer = accept(scene->listening, NULL, NULL);
    say(scene, "-ERR max number of clients reached\r\n");
    (void)shutdown(scene->peer, SHUT_WR);
    await(scene, "down");
    (void)close(scene->peer);
    scene->peer = -1;
    assert_string_equal(scene->trace, "up 1:-ERR max number of clients reached "
                                      "down(PEER closed the connection) ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lies_that_abort_in_a_subscribed_context),
        cmocka_unit_test(test_pushes_that_nobody_asked_for),
        TEST(test_a_foreign_confirmation_is_ignored),
        TEST(test_many_messages_of_one_read),
        TEST(test_large_and_small_replies_alternate),
        TEST(test_due_timers_run_before_an_answer_is_believed),
        cmocka_unit_test(test_a_due_timer_ends_the_link_before_an_answer),
        cmocka_unit_test(test_a_subscription_before_and_in_up),
        TEST(test_the_last_words_are_read_although_writing_fails),
        TEST(test_all_is_read_although_writing_fails),
        TEST(test_descriptor_0_is_closed_like_any_other),
        TEST(test_a_path_that_is_gone_once_connected),
        TEST(test_a_path_whose_queue_is_full_by_now),
        TEST(test_a_path_whose_server_ends_before_a_word),
        TEST(test_a_path_whose_queue_has_no_room),
        TEST(test_a_link_ends_in_the_turn_in_which_it_comes_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * A link, and a server that behaves well, is slow or goes away: which commands are sent,
 * which replies come, and how the link ends. Uses the scene of link_scene.h; the link's
 * calls are compared as a trace in words.
 */
#include "link_scene.h"

#include "lockwire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void test_commands_are_answered_in_order(void **state)
{
    struct scene *scene = *state;
    static struct ask asks[3];

    scene_open(scene);
    for (int i = 0; i < 3; i++) {
        scene_send(scene, &asks[i], i, 1);
        assert_int_equal(lw__link_inflight(scene->link), i + 1);
    }
    await_bytes(scene, 3 * 14);
    serve(scene, "+OK\r\n:-7\r\n$-1\r\n");
    await(scene, "2:");
    assert_string_equal(scene->trace, "up 0:+OK 1:-7 2:nil ");
    assert_int_equal(lw__link_inflight(scene->link), 0);
}

static void test_commands_sent_before_up_leave_when_up(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    scene_start(scene);
    scene_send(scene, &ask, 1, 1);
    await_bytes(scene, 14);
    serve(scene, "+OK\r\n");
    await(scene, "1:");
    assert_string_equal(scene->trace, "up 1:+OK ");
}

static void test_commands_of_one_turn_leave_at_its_end(void **state)
{
    struct scene *scene = *state;
    static struct ask asks[2];
    char bytes[100];

    scene_open(scene);
    scene_send(scene, &asks[0], 0, 1);
    scene_send(scene, &asks[1], 1, 1);
    assert_int_equal(recv(scene->peer, bytes, sizeof(bytes), MSG_PEEK), -1);
    await_bytes(scene, 28);
}

static void test_a_pair_gets_both_its_answers(void **state)
{
    struct scene *scene = *state;
    static struct ask pair, next;

    scene_open(scene);
    scene_send(scene, &pair, 1, 2);
    scene_send(scene, &next, 2, 1);
    assert_int_equal(lw__link_inflight(scene->link), 3);
    serve(scene, "+OK\r\n");
    await(scene, "1:+OK");
    assert_int_equal(lw__link_inflight(scene->link), 2);
    serve(scene, ":5\r\n:6\r\n");
    await(scene, "2:");
    assert_string_equal(scene->trace, "up 1:+OK 1:5 2:6 ");
}

static const char rich[] =
    "*6\r\n:1\r\n$3\r\na\0b\r\n$-1\r\n*2\r\n+yes\r\n-ERR no\r\n*0\r\n$0\r\n\r\n";

static void test_answers_split_at_every_byte(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;
    const size_t size = sizeof(rich) - 1;

    scene_open(scene);
    for (size_t split = 1; split < size; split++) {
        char *end = scene->trace + scene->length;
        scene_send(scene, &ask, 1, 1);
        serve_bytes(scene, rich, split);
        settle(scene);
        assert_string_equal(end, "");
        serve_bytes(scene, rich + split, size - split);
        while (lw__link_inflight(scene->link) > 0) {
            assert_true(event_base_loop(scene->base, EVLOOP_ONCE) >= 0);
        }
        assert_string_equal(end, "1:[1,'a.b',nil,[+yes,-ERR no],[],''] ");
    }
}

static void test_answers_byte_by_byte(void **state)
{
    struct scene *scene = *state;
    static struct ask asks[2];
    static const char bytes[] = "*2\r\n$5\r\nhello\r\n*1\r\n:12\r\n+OK\r\n";

    scene_open(scene);
    scene_send(scene, &asks[0], 0, 1);
    scene_send(scene, &asks[1], 1, 1);
    for (size_t i = 0; i < sizeof(bytes) - 1; i++) {
        serve_bytes(scene, bytes + i, 1);
        settle(scene);
    }
    await(scene, "1:");
    assert_string_equal(scene->trace, "up 0:['hello',[12]] 1:+OK ");
}

static void test_the_view_of_a_reply(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    scene_open(scene);
    scene_send(scene, &ask, 1, 1);
    serve(scene, "*5\r\n:9223372036854775807\r\n*-1\r\n*0\r\n$0\r\n\r\n-E\r\n");
    await(scene, "1:");
    assert_string_equal(scene->trace, "up 1:[9223372036854775807,nil,[],'',-E] ");
}

static void test_many_in_flight(void **state)
{
    enum { MANY = 1000 };
    struct scene *scene = *state;
    static struct ask asks[MANY];
    char wanted[32];

    scene_open(scene);
    for (int round = 0; round < 3; round++) { /* the start of the ring moves */
        for (int i = 0; i < MANY; i++) {
            scene_send(scene, &asks[i], i, 1);
        }
        for (int i = 0; i < MANY; i += 3) { /* one in three is forgotten */
            lw__link_forget(&asks[i].request);
            lw__link_forget(&asks[i].request);
            assert_null(asks[i].request.prev);
        }
        assert_int_equal(lw__link_inflight(scene->link), MANY);
        memset(scene->trace, 0, sizeof(scene->trace));
        scene->trace[0] = ' ';
        scene->length = 1;
        for (int i = 0; i < MANY; i++) {
            char reply[32];
            (void)snprintf(reply, sizeof(reply), ":%d\r\n", i);
            serve(scene, reply);
        }
        while (lw__link_inflight(scene->link) > 0) {
            assert_true(event_base_loop(scene->base, EVLOOP_ONCE) >= 0);
        }
        for (int i = 0; i < MANY; i++) {
            (void)snprintf(wanted, sizeof(wanted), " %d:%d ", i, i);
            assert_int_equal(strstr(scene->trace, wanted) != NULL, i % 3 != 0);
        }
        assert_int_equal(scene->unclaimed, (round + 1) * (MANY + 2) / 3);
    }
}

static void test_a_request_is_forgotten_between_its_answers(void **state)
{
    struct scene *scene = *state;
    static struct ask pair, next;

    scene_open(scene);
    scene_send(scene, &pair, 1, 2);
    scene_send(scene, &next, 2, 1);
    serve(scene, ":1\r\n");
    await(scene, "1:1");
    lw__link_forget(&pair.request);
    memset(&pair, 0xee, sizeof(pair)); /* it may be freed at once */
    serve(scene, ":2\r\n:3\r\n");
    await(scene, "2:3");
    assert_string_equal(scene->trace, "up 1:1 2:3 ");
    assert_int_equal(scene->unclaimed, 1);
}

static void test_forgetting_leaves_anothers_list_alone(void **state)
{
    struct scene *scene = *state;
    struct ask ask = {.number = 1};
    struct lw__request *backlog = &ask.request;

    scene_open(scene);
    ask.request.prev = &backlog;
    lw__link_forget(&ask.request);
    assert_ptr_equal(backlog, &ask.request);
    assert_ptr_equal(ask.request.prev, &backlog);
    ask.request.prev = NULL;
    lw__link_forget(&ask.request);
}

static void test_a_server_that_reads_late_gets_every_byte(void **state)
{
    struct scene *scene = *state;
    struct ask ask = {.scene = scene, .number = 1};
    const size_t size = 8 * 1024 * 1024;
    char *bytes = calloc(1, size);

    assert_non_null(bytes);
    memset(bytes, 'x', size); /* one command, of two words */
    assert_int_equal(snprintf(bytes, size, "*2\r\n$4\r\nPING\r\n$%zu\r\n", size - 26),
                     24);
    bytes[24] = 'x';
    memcpy(bytes + size - 2, "\r\n", 2);
    scene_open(scene);
    (void)event_del(scene->reading);
    ask.request.expected = 1;
    assert_int_equal(lw__link_send(scene->link, &ask.request, bytes, size), 0);
    settle(scene); /* the socket's buffer is full */
    lw__link_forget(&ask.request);
    assert_int_equal(event_add(scene->reading, NULL), 0);
    await_bytes(scene, size);
    scene_send(scene, &ask, 2, 1);
    await_bytes(scene, size + 14);
    assert_int_equal(scene->received, size + 14);
    lw__link_forget(&ask.request);
    free(bytes);
}

static void test_the_server_goes_away(void **state)
{
    struct scene *scene = *state;
    static struct ask asks[3];

    scene_open(scene);
    for (int i = 0; i < 3; i++) {
        scene_send(scene, &asks[i], i, 1);
    }
    serve(scene, ":1\r\n:2");
    await(scene, "0:1");
    serve_end(scene);
    await(scene, "down");
    assert_string_equal(scene->trace, "up 0:1 failed1 failed2 "
                                      "down(PEER closed the connection) ");
}

static void test_the_connection_is_reset(void **state)
{
    struct scene *scene = *state;
    struct linger at_once = {1, 0};
    static struct ask ask;

    scene_listen_tcp(scene);
    scene_open(scene);
    scene_send(scene, &ask, 1, 1);
    assert_int_equal(
        setsockopt(scene->peer, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    serve_end(scene);
    await(scene, "down(");
    assert_non_null(strstr(scene->trace, "failed1 down("));
}

static void test_a_failed_link_takes_nothing_and_says_so_later(void **state)
{
    struct scene *scene = *state;
    static struct ask ask, late;

    scene_open(scene);
    scene_send(scene, &ask, 1, 1);
    lw__link_fail(scene->link, "enough \x01 of it\r");
    lw__link_fail(scene->link, "twice");
    assert_string_equal(scene->trace, "up ");
    late.request.expected = 1;
    assert_int_equal(lw__link_send(scene->link, &late.request, "x", 1), LW_ECONN);
    assert_null(late.request.prev);
    assert_int_equal(lw__link_subscribe(scene->link, "c"), LW_ECONN);
    await(scene, "down");
    assert_string_equal(scene->trace, "up failed1 down(enough \\x01 of it\\x0d) ");
}

static void test_a_closed_link_is_silent(void **state)
{
    struct scene *scene = *state;
    static struct ask asks[2];

    scene_open(scene);
    scene_send(scene, &asks[0], 0, 1);
    scene_send(scene, &asks[1], 1, 1);
    lw__link_close(scene->link);
    scene->link = NULL;
    assert_null(asks[0].request.prev);
    assert_null(asks[1].request.prev);
    await_end(scene);
    settle(scene);
    assert_string_equal(scene->trace, "up ");
    lw__link_close(NULL);
}

static void test_a_link_is_closed_before_it_is_up_or_down(void **state)
{
    struct scene *scene = *state;

    scene_start(scene);
    lw__link_close(scene->link);
    scene_start(scene);
    lw__link_fail(scene->link, "why");
    lw__link_close(scene->link);
    scene->link = NULL;
    (void)event_del(scene->accepting); /* clients still in the queue do not matter */
    settle(scene);
    assert_string_equal(scene->trace, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_commands_are_answered_in_order),
        TEST(test_commands_sent_before_up_leave_when_up),
        TEST(test_commands_of_one_turn_leave_at_its_end),
        TEST(test_a_pair_gets_both_its_answers),
        TEST(test_answers_split_at_every_byte),
        TEST(test_answers_byte_by_byte),
        TEST(test_the_view_of_a_reply),
        TEST(test_many_in_flight),
        TEST(test_a_request_is_forgotten_between_its_answers),
        TEST(test_forgetting_leaves_anothers_list_alone),
        TEST(test_a_server_that_reads_late_gets_every_byte),
        TEST(test_the_server_goes_away),
        TEST(test_the_connection_is_reset),
        TEST(test_a_failed_link_takes_nothing_and_says_so_later),
        TEST(test_a_closed_link_is_silent),
        TEST(test_a_link_is_closed_before_it_is_up_or_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * A link against a server that behaves, dawdles, lies, and goes away. Knows the scene of
 * link_scene.h; what the link calls is compared as a trace in words.
 */
#include "link_scene.h"

#include "../lib/child.h"
#include "lockwire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* Sending and answers */

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
    for (int round = 0; round < 3; round++) { /* the ring's begin wanders */
        for (int i = 0; i < MANY; i++) {
            scene_send(scene, &asks[i], i, 1);
        }
        for (int i = 0; i < MANY; i += 3) { /* one in three is forgotten */
            lw__link_forget(scene->link, &asks[i].request);
            lw__link_forget(scene->link, &asks[i].request);
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
    lw__link_forget(scene->link, &pair.request);
    memset(&pair, 0xee, sizeof(pair)); /* it may go at once */
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
    lw__link_forget(scene->link, &ask.request);
    assert_ptr_equal(backlog, &ask.request);
    assert_ptr_equal(ask.request.prev, &backlog);
    ask.request.prev = NULL;
    lw__link_forget(scene->link, &ask.request);
}

static void test_a_server_that_reads_late_gets_every_byte(void **state)
{
    struct scene *scene = *state;
    struct ask ask = {.scene = scene, .number = 1};
    const size_t size = 8 * 1024 * 1024;
    char *bytes = calloc(1, size);

    assert_non_null(bytes);
    memset(bytes, 'x', size); /* one command, of two words */
    assert_int_equal(snprintf(bytes, size, "*2\r\n$4\r\nPING\r\n$%zu\r\n", size - 26), 24);
    bytes[24] = 'x';
    memcpy(bytes + size - 2, "\r\n", 2);
    scene_open(scene);
    (void)event_del(scene->reading);
    ask.request.expected = 1;
    assert_int_equal(lw__link_send(scene->link, &ask.request, bytes, size), 0);
    settle(scene); /* the socket's buffer is full */
    lw__link_forget(scene->link, &ask.request);
    assert_int_equal(event_add(scene->reading, NULL), 0);
    await_bytes(scene, size);
    scene_send(scene, &ask, 2, 1);
    await_bytes(scene, size + 14);
    assert_int_equal(scene->received, size + 14);
    lw__link_forget(scene->link, &ask.request);
    free(bytes);
}

/* Ends */

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
                                      "down(the server closed the connection) ");
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
    (void)event_del(scene->accepting); /* who is still in the queue does not matter */
    settle(scene);
    assert_string_equal(scene->trace, "");
}

/* Connecting */

static int try_open(struct scene *scene, const char *host, const char *path, char *why)
{
    static const struct lw__link_events events = {NULL, NULL, NULL, NULL};
    struct lw__link_options options = {host, 1, path, 1000, 1000, 1000};
    struct lw__link *link = NULL;
    int status = lw__link_open(scene->loop, &options, &events, NULL, why, &link);

    assert_int_equal(status == 0, link != NULL);
    lw__link_close(link);
    return status;
}

static void test_connect_calls_that_fail_at_once(void **state)
{
    struct scene *scene = *state;
    char why[LW__WHY], path[200];

    assert_int_equal(try_open(scene, NULL, "/nowhere/at/all", why), LW_ECONN);
    assert_string_equal(why, "connecting to /nowhere/at/all: No such file or directory");
    assert_int_equal(try_open(scene, "not-a-number", NULL, why), LW_ECONN);
    assert_string_equal(why, "connecting to not-a-number:1: Invalid argument");
    assert_int_equal(try_open(scene, "fe80::1%no-such-zone", NULL, why), LW_ECONN);
    assert_non_null(strstr(why, "connecting to [fe80::1%no-such-zone]:1: "));
    memset(path, 'p', sizeof(path));
    path[199] = '\0';
    assert_int_equal(try_open(scene, NULL, path, why), LW_ECONN);
    path[sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1] = '\0'; /* just too long */
    assert_int_equal(try_open(scene, NULL, path, why), LW_ECONN);
    assert_non_null(strstr(why, "Invalid argument"));
    path[sizeof(((struct sockaddr_un *)NULL)->sun_path) - 2] = '\0';
    assert_int_equal(try_open(scene, NULL, path, why), LW_ECONN);
    assert_non_null(strstr(why, "No such file"));
}

static void test_connecting_is_refused(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    scene_listen_tcp(scene);
    event_free(scene->accepting);
    scene->accepting = NULL;
    (void)close(scene->listening);
    scene_start(scene);
    scene_send(scene, &ask, 1, 1);
    await(scene, "down");
    assert_non_null(strstr(scene->trace, "failed1 down(connecting to 127.0.0.1:"));
    assert_non_null(strstr(scene->trace, "Connection refused"));
}

/* A listener whose queue is full: the kernel does not answer who connects. */
static void test_connecting_takes_too_long(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    scene_listen_tcp(scene);
    (void)event_del(scene->accepting);
    assert_int_equal(listen(scene->listening, 0), 0);
    scene->connect_timeout_ms = 100;
    for (int i = 0; i < 50 && strstr(scene->trace, "down") == NULL; i++) {
        scene->length = 0;
        memset(scene->trace, 0, sizeof(scene->trace));
        if (scene->link != NULL) {
            lw__link_close(scene->link); /* accepted or not, it stays in the queue */
        }
        scene_start(scene);
        scene_send(scene, &ask, 1, 1);
        while (scene->length == 0) {
            assert_true(event_base_loop(scene->base, EVLOOP_ONCE) >= 0);
        }
    }
    assert_non_null(strstr(scene->trace, "failed1 down(no connection to 127.0.0.1:"));
    assert_non_null(strstr(scene->trace, "within 100 ms"));
}

/* The stall was longer than connecting may take; it had been decided long before. */
static void test_after_a_stall_a_connection_that_stands_counts(void **state)
{
    struct scene *scene = *state;

    scene->connect_timeout_ms = 50;
    scene_start(scene);
    (void)usleep(100000);
    await(scene, "up");
    assert_string_equal(scene->trace, "up ");
}

/* SIGPIPE has its default action here: it would end the test. */
static void test_writing_to_nobody_raises_no_signal(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    scene_open(scene);
    serve_end(scene);
    scene_send(scene, &ask, 1, 1);
    await(scene, "down");
    assert_non_null(strstr(scene->trace, "up failed1 down("));
}

/* What was sent before the connection came up is written when it does. */
static void test_the_first_write_raises_no_signal(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    scene_start(scene);
    scene_send(scene, &ask, 1, 1);
    scene->peer = accept(scene->listening, NULL, NULL);
    assert_true(scene->peer >= 0);
    (void)close(scene->peer);
    scene->peer = -1;
    await(scene, "down");
    assert_non_null(strstr(scene->trace, "failed1 down("));
}

/* Of the process' open descriptors, the one that is connected to the scene's server. */
static int descriptor_of_the_link(const struct scene *scene)
{
    struct sockaddr_un address;

    for (int fd = 3; fd < 1024; fd++) {
        socklen_t length = sizeof(address);
        if (fd != scene->peer &&
            getpeername(fd, (struct sockaddr *)&address, &length) == 0 &&
            strcmp(address.sun_path, scene->path) == 0) {
            return fd;
        }
    }
    fail_msg("no descriptor is connected to %s", scene->path);
    return -1;
}

static void test_a_socket_neither_blocks_nor_is_inherited(void **state)
{
    struct scene *scene = *state;
    int fd;

    scene_open(scene);
    fd = descriptor_of_the_link(scene);
    assert_true((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
    assert_true((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
}

/* Time-outs */

static void test_a_server_that_never_answers(void **state)
{
    struct scene *scene = *state;
    static struct ask first, second;

    scene->request_timeout_ms = 50;
    scene_open(scene);
    scene_send(scene, &first, 1, 1);
    scene_send(scene, &second, 2, 1);
    await(scene, "down");
    assert_non_null(strstr(scene->trace, "up failed1 failed2 down(no answer from "));
    assert_non_null(strstr(scene->trace, "within 50 ms"));
    assert_true(lw__now_us() - first.request.sent_us >= 50000);
}

static void test_other_traffic_does_not_hide_a_dead_request(void **state)
{
    enum { MORE = 1000 };
    static struct ask pair, more[MORE];
    struct scene *scene = *state;
    int sent = 0;

    scene->request_timeout_ms = 100;
    scene_open(scene);
    scene_send(scene, &pair, 0, 2);
    serve(scene, ":1\r\n"); /* an answer, but not the last one */
    while (strstr(scene->trace, "failed0") == NULL) {
        if (sent < MORE && lw__now_us() > pair.request.sent_us + sent * 1000) {
            scene_send(scene, &more[sent], 1, 1);
            sent++;
        }
        assert_true(event_base_loop(scene->base, EVLOOP_NONBLOCK) >= 0);
    }
    await(scene, "down(no answer");
    assert_non_null(strstr(scene->trace, "up 0:1 failed0 failed1 "));
}

static void test_an_idle_link_has_no_time_out(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;
    int64_t until;

    scene->request_timeout_ms = 20;
    scene_open(scene);
    scene_send(scene, &ask, 1, 1);
    serve(scene, ":1\r\n");
    until = lw__now_us() + 100000;
    while (lw__now_us() < until) {
        assert_true(event_base_loop(scene->base, EVLOOP_NONBLOCK) >= 0);
    }
    await(scene, "1:1");
    assert_string_equal(scene->trace, "up 1:1 ");
}

static void test_after_a_stall_what_has_arrived_counts(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;
    int64_t until;

    scene->request_timeout_ms = 50;
    scene_open(scene);
    scene_send(scene, &ask, 1, 1);
    assert_int_equal(write(scene->peer, ":1\r\n", 4), 4);
    until = lw__now_us() + 100000;
    while (lw__now_us() < until) {
    }
    await(scene, "1:1");
    settle(scene);
    assert_string_equal(scene->trace, "up 1:1 ");
}

/* Lies */

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
        {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "nested"},
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
        if (lies[i].why == NULL) { /* legal so far */
            settle(scene);
            assert_string_equal(scene->trace, "up ");
            lw__link_forget(scene->link, &ask.request);
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
    await(scene, "failed4 down(a reply is longer than 100000 bytes) ");
    free(text);
}

/* What was parsed leaves the parser's buffer: the bound is on the reply all the same. */
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
    await(scene, "failed1 down(a reply is longer than 100000 bytes) ");
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
    await(scene, "failed1 down(a reply is nested too deeply) ");
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
        assert_string_equal(scene->trace, "up down(a reply that nobody asked for) ");
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
    assert_string_equal(scene->trace, "up 1:1 down(a reply that nobody asked for) ");
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

/* Subscriptions */

#define CONFIRMED "*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n"
#define MESSAGE "*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$2\r\nhi\r\n"

static void open_subscribed(struct scene *scene)
{
    scene_open(scene);
    assert_int_equal(lw__link_subscribe(scene->link, "ch"), 0);
    await_bytes(scene, strlen("*2\r\n$9\r\nSUBSCRIBE\r\n$2\r\nch\r\n"));
}

static void test_a_subscription(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    scene_open(scene);
    scene_send(scene, &ask, 1, 1); /* a greeting, answered first */
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

    open_subscribed(scene);
    serve(scene, CONFIRMED "*3\r\n$7\r\nmessage\r\n$2\r\nxx\r\n$2\r\nno\r\n"
                           "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n" MESSAGE);
    await(scene, "'hi'");
    assert_string_equal(scene->trace,
                        "up push:['subscribe','ch',1] push:['message','ch','hi'] ");
}

static void test_subscribing_is_denied(void **state)
{
    struct scene *scene = *state;

    open_subscribed(scene);
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
    serve(scene, MESSAGE); /* a message is none */
    await(scene, "down(no answer");
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
        open_subscribed(scene);
        serve(scene, CONFIRMED);
        serve(scene, bytes[i]);
        await(scene, "down");
        assert_string_equal(scene->trace,
                            "up push:['subscribe','ch',1] down(no message and no "
                            "confirmation from the subscription) ");
        assert_int_equal(scene_tear_down((void **)&scene), 0);
    }
}

static void test_an_error_on_a_confirmed_subscription(void **state)
{
    struct scene *scene = *state;

    open_subscribed(scene);
    serve(scene, CONFIRMED "-ERR late\r\n");
    await(scene, "down");
    assert_string_equal(scene->trace, "up push:['subscribe','ch',1] down(ERR late) ");
}

/* From within */

static void close_link(struct scene *scene, struct ask *ask)
{
    (void)ask;
    lw__link_close(scene->link);
    scene->link = NULL;
    scene->meanwhile = NULL;
}

static void close_all(struct scene *scene, struct ask *ask)
{
    close_link(scene, ask);
    lw__loop_free(scene->loop);
    scene->loop = NULL;
}

/* Each event in turn closes the link, and then the loop with it. */
static void run_ends(const char *event, void (*end)(struct scene *, struct ask *))
{
    struct scene *scene;
    static struct ask asks[2];
    bool failed = strcmp(event, "failed0") == 0, down = strcmp(event, "down") == 0;

    assert_int_equal(scene_set_up((void **)&scene), 0);
    if (strcmp(event, "up") == 0) {
        scene->meanwhile = end;
        scene_start(scene);
        await(scene, "up ");
    } else if (strcmp(event, "push") == 0) {
        open_subscribed(scene);
        scene->meanwhile = end;
        serve(scene, CONFIRMED MESSAGE);
    } else {
        scene_open(scene);
        scene->meanwhile = down ? NULL : end;
        if (!down) {
            scene_send(scene, &asks[0], 0, 1);
            scene_send(scene, &asks[1], 1, 1);
        }
        if (failed || down) {
            scene->meanwhile = end;
            serve_end(scene);
        } else {
            serve(scene, ":1\r\n:2\r\n");
        }
    }
    await(scene, event);
    assert_null(scene->link);
    settle(scene);
    assert_null(strstr(scene->trace, "1:2"));
    assert_null(strstr(scene->trace, "failed1"));
    assert_int_equal(strstr(scene->trace, "down") != NULL, down);
    assert_int_equal(scene_tear_down((void **)&scene), 0);
}

static void test_the_link_is_closed_by_each_of_its_events(void **state)
{
    static const char *const events[] = {"up", "0:1", "push", "failed0", "down"};

    (void)state;
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        run_ends(events[i], close_link);
        run_ends(events[i], close_all);
    }
}

static struct ask shared[4];

static void forget_the_others(struct scene *scene, struct ask *ask)
{
    if (ask != NULL && scene->link != NULL) {
        lw__link_forget(scene->link, &shared[1].request);
        lw__link_forget(scene->link, &shared[3].request);
        memset(&shared[1], 0xee, sizeof(shared[1]));
        memset(&shared[3], 0xee, sizeof(shared[3]));
        assert_int_equal(lw__link_send(scene->link, &ask->request, "x", 1), LW_ECONN);
        scene->meanwhile = NULL;
    }
}

static void test_one_failure_forgets_the_others(void **state)
{
    struct scene *scene = *state;

    scene_open(scene);
    for (int i = 0; i < 4; i++) {
        scene_send(scene, &shared[i], i, 1);
    }
    await_bytes(scene, 4 * 14);
    scene->meanwhile = forget_the_others;
    serve_end(scene);
    await(scene, "down");
    assert_string_equal(scene->trace, "up failed0 failed2 "
                                      "down(the server closed the connection) ");
}

static void fail_link(struct scene *scene, struct ask *ask)
{
    (void)ask;
    if (scene->link != NULL) {
        lw__link_fail(scene->link, "had enough");
    }
}

static void test_the_link_is_failed_from_a_reply(void **state)
{
    struct scene *scene = *state;
    static struct ask asks[2];

    scene_open(scene);
    scene_send(scene, &asks[0], 0, 1);
    scene_send(scene, &asks[1], 1, 1);
    scene->meanwhile = fail_link;
    serve(scene, ":1\r\n:2\r\n");
    await(scene, "down");
    assert_string_equal(scene->trace, "up 0:1 failed1 down(had enough) ");
}

static void ask_again(struct scene *scene, struct ask *ask)
{
    if (ask->number < 5) {
        scene_send(scene, ask, ask->number + 1, 1);
    }
}

static void test_a_request_is_sent_again_by_its_answer(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    scene_open(scene);
    scene->meanwhile = ask_again;
    scene_send(scene, &ask, 1, 1);
    serve(scene, ":1\r\n:2\r\n:3\r\n:4\r\n:5\r\n");
    await(scene, "5:");
    assert_string_equal(scene->trace, "up 1:1 2:2 3:3 4:4 5:5 ");
}

static void test_a_forked_child_leaves_the_parents_link_alone(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;
    int status = -1;
    pid_t child;

    scene_open(scene);
    scene_send(scene, &ask, 1, 1);
    child = fork_for_test();
    assert_true(child >= 0);
    if (child == 0) {
        lw__link_abandon(scene->link);
        lw__loop_abandon(scene->loop);
        (void)event_base_loop(scene->base, EVLOOP_NONBLOCK); /* nothing is called */
        end_child(scene->trace[3] == '\0' ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    await_bytes(scene, 14);
    serve(scene, ":1\r\n");
    await(scene, "1:1");
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
        TEST(test_connect_calls_that_fail_at_once),
        TEST(test_connecting_is_refused),
        TEST(test_connecting_takes_too_long),
        TEST(test_after_a_stall_a_connection_that_stands_counts),
        TEST(test_writing_to_nobody_raises_no_signal),
        TEST(test_the_first_write_raises_no_signal),
        TEST(test_a_socket_neither_blocks_nor_is_inherited),
        TEST(test_a_server_that_never_answers),
        TEST(test_other_traffic_does_not_hide_a_dead_request),
        TEST(test_an_idle_link_has_no_time_out),
        TEST(test_after_a_stall_what_has_arrived_counts),
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
        cmocka_unit_test(test_the_link_is_closed_by_each_of_its_events),
        TEST(test_one_failure_forgets_the_others),
        TEST(test_the_link_is_failed_from_a_reply),
        TEST(test_a_request_is_sent_again_by_its_answer),
        TEST(test_a_forked_child_leaves_the_parents_link_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

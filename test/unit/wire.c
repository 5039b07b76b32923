/* SPDX-License-Identifier: MIT */
/*
 * Output of a hiredis context: the bytes stay in order however few the socket takes, one
 * write per turn, no large buffer is kept and no small one freed, no signal. Uses wire.h.
 *
 * Usual course: a context connects to the test's listener, bytes are appended to its
 * output, the loop turns, they are read at the other end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "loop/loop.h"
#include "redis/wire.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <hiredis/sds.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LARGE ((size_t)1 << 20)
#define BUFFERED_MAX ((size_t)20000)

struct scene {
    struct event_base *base;
    struct lw__loop *loop;
    struct lw__wire wire;
    struct lw__deferred broken;
    int breaks;
    redisAsyncContext *context;
    bool up;
    int listening, peer;
    char folder[32], path[48];
};

static void on_broken(void *arg)
{
    ((struct scene *)arg)->breaks++;
}

static void on_connect(const redisAsyncContext *context, int status)
{
    struct scene *scene = lw__wire_owner(context);

    assert_int_equal(status, REDIS_OK);
    scene->up = true;
}

static void turn(struct scene *scene)
{
    assert_true(event_base_loop(scene->base, EVLOOP_NONBLOCK) >= 0);
}

static void listen_at(struct scene *scene)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    (void)snprintf(scene->folder, sizeof(scene->folder), "/tmp/lockwire-wire.XXXXXX");
    assert_non_null(mkdtemp(scene->folder));
    (void)snprintf(scene->path, sizeof(scene->path), "%s/s", scene->folder);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", scene->path);
    scene->listening = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(scene->listening, (struct sockaddr *)&address, sizeof(address)),
                     0);
    assert_int_equal(listen(scene->listening, 1), 0);
}

static int set_up(void **state)
{
    static struct scene scene;

    memset(&scene, 0, sizeof(scene));
    scene.base = event_base_new();
    assert_int_equal(lw__loop_new(scene.base, &scene.loop), 0);
    listen_at(&scene);
    scene.context = redisAsyncConnectUnix(scene.path);
    assert_non_null(scene.context);
    lw__defer_init(&scene.broken, on_broken, &scene);
    lw__wire_init(&scene.wire, scene.loop, &scene, &scene.broken, BUFFERED_MAX);
    assert_int_equal(lw__wire_attach(&scene.wire, scene.context), 0);
    assert_int_equal(redisAsyncSetConnectCallback(scene.context, on_connect), REDIS_OK);
    while (!scene.up) {
        assert_true(event_base_loop(scene.base, EVLOOP_ONCE) >= 0);
    }
    scene.peer = accept(scene.listening, NULL, NULL);
    assert_true(scene.peer >= 0);
    assert_int_equal(fcntl(scene.peer, F_SETFL, O_NONBLOCK), 0);
    *state = &scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    lw__wire_detach(&scene->wire);
    redisAsyncFree(scene->context);
    lw__loop_free(scene->loop);
    (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
    assert_int_equal(event_base_get_num_events(scene->base, EVENT_BASE_COUNT_ADDED |
                                                                EVENT_BASE_COUNT_ACTIVE),
                     0);
    event_base_free(scene->base);
    (void)close(scene->peer);
    (void)close(scene->listening);
    (void)unlink(scene->path);
    (void)rmdir(scene->folder);
    return 0;
}

/* Returns byte `at` of everything that is ever written. */
static char byte_at(size_t at)
{
    return (char)('a' + at % 26);
}

/* Adds bytes in the same way as a command. */
static void add(struct scene *scene, size_t at, size_t length)
{
    static char bytes[LARGE];
    redisAsyncContext *context = scene->context;

    for (size_t i = 0; i < length; i++) {
        bytes[i] = byte_at(at + i);
    }
    assert_int_equal(redisAppendFormattedCommand(&context->c, bytes, length), REDIS_OK);
    context->ev.addWrite(context->ev.data);
}

/* Reads all that has arrived, which must continue at byte `at`. Returns how much it
 * was. */
static size_t take_in(struct scene *scene, size_t at)
{
    static char bytes[4096];
    size_t taken = 0;
    ssize_t length;

    while ((length = recv(scene->peer, bytes, sizeof(bytes), 0)) > 0) {
        for (ssize_t i = 0; i < length; i++) {
            assert_int_equal(bytes[i], byte_at(at + taken + (size_t)i));
        }
        taken += (size_t)length;
    }
    return taken;
}

static size_t left(const struct scene *scene)
{
    return sdslen(scene->context->c.obuf);
}

static void test_what_one_turn_sends_leaves_at_its_end(void **state)
{
    struct scene *scene = *state;

    add(scene, 0, 10);
    add(scene, 10, 20);
    assert_int_equal(take_in(scene, 0), 0);
    turn(scene);
    assert_int_equal(take_in(scene, 0), 30);
    assert_false(scene->wire.waiting); /* and nothing is left in the loop */
    turn(scene);
    assert_int_equal(take_in(scene, 30), 0);
}

/* The socket takes less than there is. More is added behind the rest, and the loop has
 * nothing to do until the socket is writable. */
static void test_what_is_left_goes_first(void **state)
{
    struct scene *scene = *state;
    size_t added = LARGE, taken = 0;

    add(scene, 0, LARGE);
    turn(scene);
    assert_true(left(scene) > 0);
    assert_true(scene->wire.waiting);
    for (int i = 0; taken < added; i++) {
        assert_true(!scene->wire.waiting || scene->wire.flush.prev == NULL);
        turn(scene);
        if (i < 40) {
            add(scene, added, 1000);
            added += 1000;
        }
        taken += take_in(scene, taken);
    }
    turn(scene);
    assert_int_equal(left(scene), 0);
    assert_false(scene->wire.waiting);
    /* a large buffer is not kept */
    assert_true(sdsalloc(scene->context->c.obuf) < LARGE / 4);
    add(scene, added, 10);
    turn(scene);
    assert_int_equal(take_in(scene, added), 10);
}

static void test_a_full_socket_is_not_asked_again_and_again(void **state)
{
    struct scene *scene = *state;

    add(scene, 0, LARGE);
    turn(scene);
    size_t before = left(scene);
    for (int i = 0; i < 20; i++) {
        turn(scene);
        assert_int_equal(event_base_get_num_events(scene->base, EVENT_BASE_COUNT_ACTIVE),
                         0);
    }
    assert_int_equal(left(scene), before);
}

static void test_a_small_buffer_is_kept(void **state)
{
    struct scene *scene = *state;
    const char *kept = NULL;

    for (size_t at = 0; at < 30000; at += 3000) {
        add(scene, at, 3000);
        turn(scene);
        assert_int_equal(take_in(scene, at), 3000);
        assert_true(kept == NULL || kept == scene->context->c.obuf);
        kept = scene->context->c.obuf;
    }
}

/* SIGPIPE has its default action here: it would end the test. */
static void test_an_error_of_the_socket_is_told(void **state)
{
    struct scene *scene = *state;

    assert_int_equal(shutdown(scene->context->c.fd, SHUT_WR), 0);
    add(scene, 0, 10);
    turn(scene);
    turn(scene);
    assert_int_equal(scene->breaks, 1);
    assert_int_equal(scene->wire.error, EPIPE);
    assert_int_equal(left(scene), 0);
}

/* The same if the adapter writes, because the socket was full. */
static void test_the_peer_goes_while_the_socket_is_full(void **state)
{
    struct scene *scene = *state;

    add(scene, 0, LARGE);
    turn(scene);
    assert_true(scene->wire.waiting);
    assert_int_equal(shutdown(scene->context->c.fd, SHUT_WR), 0);
    assert_true(take_in(scene, 0) > 0);
    while (scene->breaks == 0) {
        assert_true(event_base_loop(scene->base, EVLOOP_ONCE) >= 0);
    }
    assert_int_equal(scene->wire.error, EPIPE);
}

static void test_what_is_read_and_makes_no_reply_is_bounded(void **state)
{
    static const char head[] = "$90000\r\n";
    struct scene *scene = *state;
    char bytes[1000];

    memset(bytes, 'x', sizeof(bytes));
    assert_int_equal(send(scene->peer, head, strlen(head), 0), strlen(head));
    for (size_t sent = 0; sent < BUFFERED_MAX - sizeof(bytes); sent += sizeof(bytes)) {
        assert_int_equal(send(scene->peer, bytes, sizeof(bytes), 0), sizeof(bytes));
        turn(scene);
    }
    turn(scene);
    assert_int_equal(scene->breaks, 0);
    assert_int_equal(send(scene->peer, bytes, sizeof(bytes), 0), sizeof(bytes));
    turn(scene);
    turn(scene);
    assert_int_equal(scene->breaks, 1);
    assert_int_equal(scene->wire.error, EMSGSIZE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_what_one_turn_sends_leaves_at_its_end),
        TEST(test_what_is_left_goes_first),
        TEST(test_a_full_socket_is_not_asked_again_and_again),
        TEST(test_a_small_buffer_is_kept),
        TEST(test_an_error_of_the_socket_is_told),
        TEST(test_the_peer_goes_while_the_socket_is_full),
        TEST(test_what_is_read_and_makes_no_reply_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

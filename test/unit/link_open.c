/* SPDX-License-Identifier: MIT */
/*
 * How a link comes up, and how long it waits: connecting that fails, is refused or takes
 * too long; its socket; time-outs; stalls of the loop. Uses the scene of link_scene.h.
 */
#include "keep_port.h"
#include "link_scene.h"

#include "lockwire.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int try_open(struct scene *scene, const char *host, const char *path, char *why)
{
    static const struct lw__link_events events = {NULL, NULL, NULL, NULL};
    struct lw__link_options options = {host, 1, path, 1000, 1000, 1000, 0, NULL, NULL, 0};
    struct lw__link *link = NULL;
    int status = lw__link_open(scene->loop, &options, &events, NULL, why, &link);

    assert_int_equal(status == 0, link != NULL);
    lw__link_close(link);
    return status;
}

static void test_connect_calls_that_fail_at_once(void **state)
{
    struct scene *scene = *state;
    char why[LW_WHY_SIZE], path[200];

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
    int keeper;

    scene->port = 0;
    keeper = keep_port(AF_INET, &scene->port);
    assert_true(keeper >= 0);
    scene_start(scene);
    scene_send(scene, &ask, 1, 1);
    await(scene, "down");
    assert_non_null(strstr(scene->trace, "failed1 down(connecting to PEER: "));
    assert_non_null(strstr(scene->trace, "Connection refused"));
    (void)close(keeper);
}

/* The listener's queue is full: the kernel does not accept connections. */
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
            lw__link_close(scene->link); /* it stays in the queue, accepted or not */
        }
        scene_start(scene);
        scene_send(scene, &ask, 1, 1);
        while (scene->length == 0) {
            assert_true(event_base_loop(scene->base, EVLOOP_ONCE) >= 0);
        }
    }
    assert_non_null(strstr(scene->trace, "failed1 down(no connection to PEER within "));
    assert_non_null(strstr(scene->trace, "within 100 ms"));
}

/* The loop stalled for longer than connecting may take, but the connection was up
 * before. */
static void test_after_a_stall_a_connection_that_stands_counts(void **state)
{
    struct scene *scene = *state;

    scene->connect_timeout_ms = 50;
    scene_start(scene);
    (void)usleep(100000);
    await(scene, "up");
    assert_string_equal(scene->trace, "up ");
}

/* SIGPIPE has its default action here, and would end the test. */
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

/* Commands sent before the connection is up are written when it comes up. */
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

/* Returns the descriptor that is connected to the scene's server. */
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

static void test_a_server_that_never_answers(void **state)
{
    struct scene *scene = *state;
    static struct ask first, second;

    scene->request_timeout_ms = 50;
    scene_open(scene);
    scene_send(scene, &first, 1, 1);
    scene_send(scene, &second, 2, 1);
    await(scene, "down");
    assert_non_null(
        strstr(scene->trace, "up failed1 failed2 down(no reply from PEER within "));
    assert_non_null(strstr(scene->trace, "within 50 ms"));
    assert_true(lw__now_us() - first.request.sent_us >= 50000);
}

static void test_other_traffic_does_not_hide_a_dead_request(void **state)
{
    enum { MORE = 1000 };
    static struct ask pair, more[MORE];
    struct scene *scene = *state;
    int sent = 1;

    scene->request_timeout_ms = 100;
    scene_open(scene);
    scene_send(scene, &pair, 0, 2);
    scene_send(scene, &more[0], 1, 1);
    serve(scene, ":1\r\n"); /* a reply, but not the last one */
    while (strstr(scene->trace, "failed0") == NULL) {
        if (sent < MORE && lw__now_us() > pair.request.sent_us + sent * 1000) {
            scene_send(scene, &more[sent], 1, 1);
            sent++;
        }
        assert_true(event_base_loop(scene->base, EVLOOP_NONBLOCK) >= 0);
    }
    await(scene, "down(no reply from PEER within ");
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
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
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

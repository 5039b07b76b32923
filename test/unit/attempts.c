/* SPDX-License-Identifier: MIT */
/*
 * The attempts of a session to become ready: one time limit covers all addresses of a
 * name and the handshake, the server's last error is reported, and the id of the
 * connection that was ready last is kept. The two addresses of localhost lead to
 * listeners of the test's own.
 *
 * Usual course: the test sets the reply to each accepted connection beforehand, in order,
 * and counts the session's events.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "keep_port.h"

#include "base/log.h"
#include "base/random.h"
#include "base/escape.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/session.h"

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS 8
#define CONNECT_MS 600          /* if the attempt has to time out */
#define CONNECT_IN_TIME_MS 4000 /* if half of it has to suffice */
#define NAMED "+OK\r\n"
#define MASTER "$11\r\nrole:master\r\n" /* INFO replication */
#define INFO(run) "$48\r\nrun_id:" run "\r\n"
#define RUN_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define RUN_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

enum at { V4, V6, FAMILIES };

struct scene {
    struct event_base *base;
    struct lw__loop *loop;
    struct lw__log log;
    struct lw__random random;
    struct lw__session_config config;
    struct lw__session session;
    int ready, lost;
    char why[LW_WHY_SIZE];
    /* The servers */
    struct event *listening[FAMILIES];
    int keepers[FAMILIES]; /* keep the ports */
    int accepted[FAMILIES];
    /* The reply to the first byte of each connection, and whether the connection is
     * closed after it; NULL: no reply at all. */
    struct {
        const char *bytes;
        bool close;
    } answers[CONNECTIONS];
    struct event *peers[CONNECTIONS];
    int peer_count;
    int fillers[64], filler_count;
    bool overdue; /* the attempt's time is up when the first reply comes */
};

static void on_ready(void *arg)
{
    ((struct scene *)arg)->ready++;
}

static void on_lost(void *arg, const char *why)
{
    struct scene *scene = arg;

    scene->lost++;
    (void)snprintf(scene->why, sizeof(scene->why), "%s", why);
}

static void close_peer(struct scene *scene, int index)
{
    if (scene->peers[index] != NULL) {
        (void)close(event_get_fd(scene->peers[index]));
        event_free(scene->peers[index]);
        scene->peers[index] = NULL;
    }
}

static void on_greeting(evutil_socket_t fd, short what, void *arg)
{
    struct scene *scene = arg;
    char bytes[4096];
    int index = 0;

    (void)what;
    while (scene->peers[index] == NULL || event_get_fd(scene->peers[index]) != fd) {
        index++;
    }
    if (read(fd, bytes, sizeof(bytes)) <= 0) {
        close_peer(scene, index);
        return;
    }
    if (scene->answers[index].bytes != NULL) {
        (void)send(fd, scene->answers[index].bytes, strlen(scene->answers[index].bytes),
                   MSG_NOSIGNAL);
        scene->answers[index].bytes = NULL;
        if (scene->overdue) {
            lw__timer_set(scene->loop, &scene->session.timer, lw__now_us());
            scene->session.attempt_deadline_us = lw__now_us();
        }
    }
    if (scene->answers[index].close) {
        close_peer(scene, index);
    }
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
    struct scene *scene = arg;
    int peer = accept(fd, NULL, NULL), index = scene->peer_count++;
    const struct event *v4 = scene->listening[V4];
    enum at at = v4 != NULL && event_get_fd(v4) == fd ? V4 : V6;

    (void)what;
    assert_true(peer >= 0 && index < CONNECTIONS);
    scene->accepted[at]++;
    scene->peers[index] =
        event_new(scene->base, peer, EV_READ | EV_PERSIST, on_greeting, scene);
    assert_int_equal(event_add(scene->peers[index], NULL), 0);
}

/* Returns a listener on this port of the loopback, or -1 if the family is not
 * supported. */
static int listen_on(enum at at, uint16_t port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr *address = at == V4 ? (struct sockaddr *)&v4 : (struct sockaddr *)&v6;
    socklen_t length = at == V4 ? sizeof(v4) : sizeof(v6);
    int on = 1, fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    v6.sin6_addr = in6addr_loopback;
    if (fd < 0) {
        return -1;
    }
    if (at == V6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, address, length) < 0 || listen(fd, 0) < 0) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

static void listen_on_both(struct scene *scene)
{
    for (int at = V4; at < FAMILIES; at++) {
        int fd = -1;

        scene->keepers[at] =
            keep_port(at == V4 ? AF_INET : AF_INET6, &scene->config.port);
        if (scene->keepers[at] >= 0) {
            fd = listen_on((enum at)at, scene->config.port);
        }
        if (fd < 0) {
            skip(); /* no IPv6 on this machine, or the port is in use */
        }
        scene->listening[at] =
            event_new(scene->base, fd, EV_READ | EV_PERSIST, on_accept, scene);
        assert_int_equal(event_add(scene->listening[at], NULL), 0);
    }
}

/* Fills the listener's queue: from now on the kernel does not accept connections. */
static void fill(struct scene *scene, enum at at)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);
    int fd = event_get_fd(scene->listening[at]);

    (void)event_del(scene->listening[at]);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    for (int i = 0; i < 4; i++) {
        int filler = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
        (void)connect(filler, (struct sockaddr *)&address, length);
        scene->fillers[scene->filler_count++] = filler;
    }
}

static int set_up(void **state)
{
    static const struct lw__session_events events = {on_ready, on_lost, NULL, NULL, NULL};
    static struct scene scene;

    memset(&scene, 0, sizeof(scene));
    scene.base = event_base_new();
    assert_int_equal(lw__loop_new(scene.base, &scene.loop), 0);
    assert_int_equal(lw__timer_reserve(scene.loop, 1), 0);
    lw__random_seed(&scene.random, 1);
    scene.config = (struct lw__session_config){
        .loop = scene.loop,
        .log = &scene.log,
        .random = &scene.random,
        .host = "localhost",
        .client_name = "test",
        .connect_timeout_ms = 60000,
        .request_timeout_ms = 60000,
        .backoff_min_ms = 5,
        .backoff_max_ms = 5,
    };
    lw__session_init(&scene.session, &scene.config, &events, &scene);
    *state = &scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    lw__session_stop(&scene->session);
    lw__loop_free(scene->loop);
    for (int i = 0; i < CONNECTIONS; i++) {
        close_peer(scene, i);
    }
    for (int at = V4; at < FAMILIES; at++) {
        if (scene->listening[at] != NULL) {
            (void)close(event_get_fd(scene->listening[at]));
            event_free(scene->listening[at]);
        }
        if (scene->keepers[at] > 0) {
            (void)close(scene->keepers[at]);
        }
    }
    for (int i = 0; i < scene->filler_count; i++) {
        (void)close(scene->fillers[i]);
    }
    event_base_free(scene->base);
    return 0;
}

static void await(struct scene *scene, int ready, int lost)
{
    lw__session_start(&scene->session);
    while (scene->ready < ready || scene->lost < lost) {
        assert_int_equal(event_base_loop(scene->base, EVLOOP_ONCE), 0);
    }
}

/* Returns the first address tried, which depends on the hosts file. */
static enum at first(const struct scene *scene)
{
    return strchr(scene->session.addresses.list[0].text, ':') == NULL ? V4 : V6;
}

/* ---- one limit ---- */

static void test_dead_addresses_share_the_time(void **state)
{
    struct scene *scene = *state;
    const char *within;
    int ms = 0;

    scene->config.connect_timeout_ms = CONNECT_MS;
    listen_on_both(scene);
    fill(scene, V4);
    fill(scene, V6);
    await(scene, 0, 1);
    within = strstr(scene->why, " within ");
    assert_non_null(within); /* the time-out of one address is reported */
    assert_non_null(strstr(scene->why, "no connection to "));
    assert_int_equal(sscanf(within, " within %d ms", &ms), 1);
    assert_true(ms <= CONNECT_MS / 2);
}

static void test_a_dead_address_leaves_time_for_the_next(void **state)
{
    struct scene *scene = *state;

    scene->config.connect_timeout_ms = CONNECT_IN_TIME_MS;
    listen_on_both(scene);
    scene->answers[0].bytes = NAMED ":1\r\n" INFO(RUN_A) MASTER;
    lw__session_start(&scene->session);
    while (scene->session.addresses.count == 0) { /* in the order tried */
        assert_int_equal(event_base_loop(scene->base, EVLOOP_ONCE), 0);
    }
    lw__session_stop(&scene->session);
    fill(scene, first(scene));
    for (int i = 0; i < scene->peer_count; i++) {
        close_peer(scene, i);
    }
    scene->peer_count = scene->ready = scene->lost = 0;
    await(scene, 1, 0);
    assert_int_equal(scene->lost, 0);
}

/* A server that accepts and stays silent uses up its own share of the time, not the next
 * one's. */
static void test_a_mute_address_leaves_time_for_the_next(void **state)
{
    struct scene *scene = *state;

    scene->config.connect_timeout_ms = CONNECT_IN_TIME_MS;
    listen_on_both(scene);
    scene->answers[1].bytes = NAMED ":1\r\n" INFO(RUN_A) MASTER;
    await(scene, 1, 0);
    assert_int_equal(scene->lost, 0);
    assert_int_equal(scene->accepted[V4] + scene->accepted[V6], 2);
    assert_true(scene->session.ready_us <= scene->session.connect_deadline_us);
}

static void test_mute_servers_are_told_of(void **state)
{
    struct scene *scene = *state;

    scene->config.connect_timeout_ms = CONNECT_MS;
    listen_on_both(scene);
    await(scene, 0, 1);
    assert_string_equal(scene->why, "connected, but no reply to the handshake in time");
}

/* After a stall of the loop, replies that have already arrived count, even if the time is
 * up. */
static void test_answers_that_are_there_count_although_time_is_over(void **state)
{
    struct scene *scene = *state;

    listen_on_both(scene);
    scene->overdue = true;
    scene->answers[0].bytes = NAMED ":1\r\n" INFO(RUN_A) MASTER;
    lw__session_start(&scene->session);
    while (scene->ready == 0 && scene->peer_count < 2) {
        assert_int_equal(event_base_loop(scene->base, EVLOOP_ONCE), 0);
    }
    assert_int_equal(scene->peer_count, 1);
}

/* ---- the server's last error ---- */

static void test_who_denies_everybody_is_told_of(void **state)
{
    static const char *const words[] = {
        "-DENIED Redis is running in protected mode because of this and that\r\n",
        "-ERR max number of clients reached\r\n",
    };
    struct scene *scene = *state;

    listen_on_both(scene);
    for (int i = 0; i < 4; i++) {
        scene->answers[i].bytes = words[i / 2];
        scene->answers[i].close = true;
    }
    await(scene, 0, 1);
    assert_non_null(strstr(scene->why, "DENIED Redis is running in protected mode"));
    await(scene, 0, 2);
    assert_non_null(strstr(scene->why, "max number of clients"));
}

/* An error that does not explain the end of the connection is not its reason: otherwise a
 * subscription would count as forbidden. */
static void test_a_command_that_is_not_permitted_is_no_reason(void **state)
{
    struct scene *scene = *state;

    listen_on_both(scene);
    for (int i = 0; i < 2; i++) {
        scene->answers[i].bytes = "-NOPERM no 'client|setname'\r\n";
        scene->answers[i].close = true;
    }
    await(scene, 0, 1);
    assert_null(strstr(scene->why, "NOPERM"));
}

static void test_an_error_before_the_last_answer_is_no_reason(void **state)
{
    struct scene *scene = *state;

    listen_on_both(scene);
    for (int i = 0; i < 2; i++) {
        scene->answers[i].bytes = "-ERR unknown command\r\n:5\r\n";
        scene->answers[i].close = true;
    }
    await(scene, 0, 1);
    assert_null(strstr(scene->why, "unknown"));
}

/* ---- the failure that got farthest ---- */

#define WRONG "-WRONGPASS invalid username-password pair\r\n"

static void with_password(struct scene *scene)
{
    scene->config.password = "wrong";
}

static void assert_failure(const struct scene *scene, enum lw__stage stage, int status,
                           const char *part)
{
    assert_int_equal(scene->session.failure.stage, stage);
    assert_int_equal(scene->session.failure.status, status);
    assert_string_equal(scene->session.failure.why, scene->why);
    if (strstr(scene->why, part) == NULL) {
        fail_msg("not \"%s\" but \"%s\"", part, scene->why);
    }
}

/* Only one of localhost's two addresses has a server, whichever is tried first. */
static void refused_at_one(struct scene *scene, enum at at)
{
    with_password(scene);
    listen_on_both(scene);
    (void)close(event_get_fd(scene->listening[1 - at]));
    event_free(scene->listening[1 - at]);
    scene->listening[1 - at] = NULL;
    scene->answers[0].bytes = WRONG;
    await(scene, 0, 1);
    assert_failure(scene, LW__STAGE_HANDSHAKE, LW_EREDIS, "AUTH: WRONGPASS");
}

static void test_a_refusal_says_more_than_a_closed_port(void **state)
{
    refused_at_one(*state, V4);
}

static void test_whichever_address_is_tried_first(void **state)
{
    refused_at_one(*state, V6);
}

/* Another server of the same name may still serve us. */
static void test_one_that_may_serve_later_is_told_rather_than_one_that_refuses(
    void **state)
{
    static const char *const orders[][2] = {{WRONG, "-LOADING Redis is loading\r\n"},
                                            {"-LOADING Redis is loading\r\n", WRONG}};
    struct scene *scene = *state;

    with_password(scene);
    listen_on_both(scene);
    for (int i = 0; i < 4; i++) {
        scene->answers[i].bytes = orders[i / 2][i % 2];
    }
    for (int i = 1; i <= 2; i++) {
        await(scene, 0, i);
        assert_failure(scene, LW__STAGE_HANDSHAKE, LW_ECONN, "AUTH: LOADING");
    }
}

static void test_of_the_next_attempt_the_last_one_s_failure_is_forgotten(void **state)
{
    struct scene *scene = *state;

    with_password(scene);
    listen_on_both(scene);
    scene->answers[0].bytes = scene->answers[1].bytes = WRONG;
    await(scene, 0, 1);
    assert_failure(scene, LW__STAGE_HANDSHAKE, LW_EREDIS, "WRONGPASS");
    for (int at = V4; at < FAMILIES; at++) {
        (void)close(event_get_fd(scene->listening[at]));
        event_free(scene->listening[at]);
        scene->listening[at] = NULL;
    }
    await(scene, 0, 2);
    assert_failure(scene, LW__STAGE_CONNECT, LW_ECONN, "Connection refused");
}

/* Before an attempt has ended, the reply that it waits for is reported. */
static void test_what_an_attempt_waits_for_is_told(void **state)
{
    struct scene *scene = *state;

    listen_on_both(scene);
    lw__session_start(&scene->session);
    assert_string_equal(lw__session_pending(&scene->session), "");
    while (scene->accepted[V4] + scene->accepted[V6] == 0 ||
           scene->session.state != LW__SESSION_HANDSHAKING) {
        assert_int_equal(event_base_loop(scene->base, EVLOOP_ONCE), 0);
    }
    assert_non_null(strstr(lw__session_pending(&scene->session), "no reply from "));
    assert_non_null(strstr(lw__session_pending(&scene->session), " yet"));
}

/* A proxy like twemproxy answers AUTH, and closes the connection at CLIENT. */
static void test_a_proxy_that_closes_at_a_command_is_told_of(void **state)
{
    struct scene *scene = *state;

    with_password(scene);
    listen_on_both(scene);
    for (int i = 0; i < 2; i++) {
        scene->answers[i].bytes = "+OK\r\n";
        scene->answers[i].close = true;
    }
    await(scene, 0, 1);
    assert_failure(scene, LW__STAGE_HANDSHAKE, LW_ECONN,
                   "closed the connection at CLIENT SETNAME (a proxy that does not "
                   "support this command?)");
}

static void test_no_more_descriptors_is_the_system_s_failure(void **state)
{
    struct scene *scene = *state;
    struct rlimit limit, none;

    listen_on_both(scene);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = (struct rlimit){3, limit.rlim_max};
    lw__session_start(&scene->session);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    while (scene->lost == 0) {
        assert_int_equal(event_base_loop(scene->base, EVLOOP_ONCE), 0);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_failure(scene, LW__STAGE_CONNECT, LW_ESYSTEM, strerror(EMFILE));
}

/* ---- the id of the connection to kill ---- */

static void test_the_id_that_was_ready_last_is_kept(void **state)
{
    struct scene *scene = *state;

    listen_on_both(scene);
    scene->answers[0].bytes = NAMED ":7\r\n" INFO(RUN_A) MASTER;
    for (int i = 1; i < 3; i++) { /* both addresses: the attempt fails */
        scene->answers[i].bytes = NAMED ":9\r\n";
        scene->answers[i].close = true;
    }
    scene->answers[3].bytes = NAMED ":11\r\n" INFO(RUN_A) MASTER;
    await(scene, 1, 0);
    assert_int_equal(scene->session.id, 7);
    assert_int_equal(scene->session.previous_id, 0);
    close_peer(scene, 0);
    await(scene, 2, 2);
    assert_int_equal(scene->session.id, 11);
    assert_int_equal(scene->session.previous_id, 7);
}

static void test_ids_of_another_process_are_not_kept(void **state)
{
    struct scene *scene = *state;

    listen_on_both(scene);
    scene->answers[0].bytes = NAMED ":7\r\n" INFO(RUN_A) MASTER;
    scene->answers[1].bytes = NAMED ":3\r\n" INFO(RUN_B) MASTER;
    await(scene, 1, 0);
    close_peer(scene, 0);
    await(scene, 2, 1);
    assert_int_equal(scene->session.previous_id, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_dead_addresses_share_the_time),
        TEST(test_a_dead_address_leaves_time_for_the_next),
        TEST(test_a_mute_address_leaves_time_for_the_next),
        TEST(test_mute_servers_are_told_of),
        TEST(test_answers_that_are_there_count_although_time_is_over),
        TEST(test_who_denies_everybody_is_told_of),
        TEST(test_a_command_that_is_not_permitted_is_no_reason),
        TEST(test_an_error_before_the_last_answer_is_no_reason),
        TEST(test_a_refusal_says_more_than_a_closed_port),
        TEST(test_whichever_address_is_tried_first),
        TEST(test_one_that_may_serve_later_is_told_rather_than_one_that_refuses),
        TEST(test_of_the_next_attempt_the_last_one_s_failure_is_forgotten),
        TEST(test_what_an_attempt_waits_for_is_told),
        TEST(test_a_proxy_that_closes_at_a_command_is_told_of),
        TEST(test_no_more_descriptors_is_the_system_s_failure),
        TEST(test_the_id_that_was_ready_last_is_kept),
        TEST(test_ids_of_another_process_are_not_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * A session that does not become ready: the name server is silent, no address answers,
 * there are no credentials, it is stopped in between. Uses session.h, and loop.h's
 * setting of the file that names the name servers.
 *
 * Usual course: each attempt's end is noted with its reason, and the delay before the
 * next one grows.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/log.h"
#include "base/random.h"
#include "base/escape.h"
#include "loop/loop.h"
#include "redis/session.h"

#include <arpa/inet.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct scene {
    struct event_base *base;
    struct lw__loop *loop;
    struct lw__log log;
    struct lw__random random;
    struct lw__session_config config;
    struct lw__session session;
    int name_server;
    char file[40]; /* in place of /etc/resolv.conf */
    int lost;
    char why[LW_WHY_SIZE];
    int64_t lost_us;
    int wanted, forgotten; /* calls of the login's events */
    struct lw__deferred stops;
};

static void on_ready(void *arg)
{
    (void)arg;
    fail_msg("%s", "ready without a server");
}

static void on_lost(void *arg, const char *why)
{
    struct scene *scene = arg;

    scene->lost++;
    scene->lost_us = lw__now_us();
    (void)snprintf(scene->why, sizeof(scene->why), "%s", why);
}

static void on_wanted(void *arg, struct lw__login *login)
{
    struct scene *scene = arg;

    assert_ptr_equal(login, &scene->session.login);
    scene->wanted++;
}

static void on_forget(void *arg, struct lw__login *login)
{
    struct scene *scene = arg;

    assert_ptr_equal(login, &scene->session.login);
    scene->forgotten++;
}

/* Makes a name server that never answers the only one. */
static void ask_the_mute(struct scene *scene)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    FILE *file;

    scene->name_server = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(bind(scene->name_server, (struct sockaddr *)&address, length), 0);
    assert_int_equal(
        getsockname(scene->name_server, (struct sockaddr *)&address, &length), 0);
    (void)snprintf(scene->file, sizeof(scene->file), "/tmp/lockwire-resolv.XXXXXX");
    file = fdopen(mkstemp(scene->file), "w");
    assert_non_null(file);
    (void)fprintf(file, "nameserver 127.0.0.1:%u\n", (unsigned)ntohs(address.sin_port));
    assert_int_equal(fclose(file), 0);
    *lw__loop_resolv_conf(scene->loop) = scene->file;
}

static int set_up(void **state)
{
    static const struct lw__session_events events = {on_ready, on_lost, NULL, NULL, NULL};
    static struct scene scene;

    memset(&scene, 0, sizeof(scene));
    scene.base = event_base_new();
    assert_non_null(scene.base);
    assert_int_equal(lw__loop_new(scene.base, &scene.loop), 0);
    assert_int_equal(lw__timer_reserve(scene.loop, 1), 0);
    lw__random_seed(&scene.random, 1);
    ask_the_mute(&scene);
    scene.config = (struct lw__session_config){
        .loop = scene.loop,
        .log = &scene.log,
        .random = &scene.random,
        .host = "lock.example",
        .port = 1,
        .client_name = "test",
        .connect_timeout_ms = 100,
        .request_timeout_ms = 1000,
        .backoff_min_ms = 20,
        .backoff_max_ms = 80,
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
    for (int i = 0; i < 5; i++) { /* pending calls of evdns */
        (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
    }
    event_base_free(scene->base);
    (void)close(scene->name_server);
    (void)unlink(scene->file);
    return 0;
}

static void await_losses(struct scene *scene, int lost)
{
    while (scene->lost < lost) {
        assert_int_equal(event_base_loop(scene->base, EVLOOP_ONCE), 0);
    }
}

static void test_a_look_up_that_takes_too_long_is_given_up(void **state)
{
    struct scene *scene = *state;
    int64_t begun = lw__now_us();

    lw__session_start(&scene->session);
    assert_int_equal(scene->lost, 0); /* nothing happens inside a call */
    await_losses(scene, 1);
    assert_string_equal(scene->why, "timed out looking up \"lock.example\"");
    assert_true(lw__now_us() - begun >= 100000);
    assert_null(scene->session.lookup);
    await_losses(scene, 2); /* the session tries again */
}

static void test_the_delay_grows_up_to_its_limit(void **state)
{
    static const uint32_t delays[] = {20, 40, 80, 80};
    struct scene *scene = *state;

    scene->config.path = "/nowhere/at/all";
    lw__session_start(&scene->session);
    for (int i = 0; i < 4; i++) {
        int64_t before = scene->lost_us;

        await_losses(scene, i + 1);
        assert_int_equal(scene->session.backoff_ms, delays[i]);
        if (i > 0) { /* at least half the delay that was set then */
            assert_true(scene->lost_us - before >= (int64_t)delays[i - 1] * 500);
        }
    }
    assert_string_equal(scene->why,
                        "connecting to /nowhere/at/all: No such file or directory");
}

static void test_it_is_stopped_and_started_at_any_moment(void **state)
{
    struct scene *scene = *state;

    for (int turns = 0; turns < 6; turns++) {
        lw__session_start(&scene->session);
        lw__session_start(&scene->session); /* no effect */
        for (int i = 0; i < turns; i++) {
            assert_int_equal(event_base_loop(scene->base, EVLOOP_ONCE | EVLOOP_NONBLOCK),
                             0);
        }
        lw__session_stop(&scene->session);
        lw__session_stop(&scene->session);
        assert_null(scene->session.lookup);
        assert_null(scene->session.link);
    }
    lw__session_fail(&scene->session, "why"); /* no connection could fail */
    (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
    assert_int_equal(scene->lost, 0);
}

/* Listens on a unix socket at a path of its own. */
static int listen_at(char *path, size_t size)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    (void)snprintf(path, size, "/tmp/lockwire-session.%d", (int)getpid());
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static void await_wanted(struct scene *scene, int wanted)
{
    while (scene->wanted < wanted) {
        assert_int_equal(event_base_loop(scene->base, EVLOOP_ONCE), 0);
    }
}

/* Credentials that were requested must not be used for a connection that has ended. */
static void test_a_login_is_forgotten_with_its_connection(void **state)
{
    static const struct lw__login_events events = {on_wanted, on_forget};
    struct scene *scene = *state;
    char path[64];
    int listener = listen_at(path, sizeof(path));

    scene->config.path = path;
    scene->config.login = &events;
    scene->config.login_arg = scene;
    lw__session_start(&scene->session);
    await_wanted(scene, 1);
    assert_int_equal(scene->forgotten, 0);
    (void)close(accept(listener, NULL, NULL));
    await_losses(scene, 1);
    assert_int_equal(scene->forgotten, 1);
    await_wanted(scene, 2);
    lw__session_stop(&scene->session);
    assert_int_equal(scene->forgotten, 2);
    lw__session_start(&scene->session);
    await_wanted(scene, 3);
    lw__session_refuse(&scene->session.login, "nothing to log in with");
    assert_int_equal(scene->forgotten, 3);
    await_losses(scene, 2);
    assert_string_equal(scene->why, "nothing to log in with");
    assert_int_equal(scene->forgotten, 3);
    (void)close(listener);
    (void)unlink(path);
}

static void on_ready_to_subscribe(void *arg)
{
    struct scene *scene = arg;

    assert_int_equal(lw__link_subscribe(scene->session.link, "c"), 0);
}

static void stop(void *arg)
{
    struct scene *scene = arg;

    lw__session_stop(&scene->session);
}

/* Stops the session before it learns that its connection has ended. */
static bool on_refused(void *arg, const char *error)
{
    struct scene *scene = arg;

    assert_string_equal(error, "NOPERM no channel");
    lw__defer_init(&scene->stops, stop, scene);
    lw__defer(scene->loop, &scene->stops, false);
    return false;
}

/* A refusal on the last connection says nothing about the next one. */
static void test_a_refusal_is_forgotten_by_a_stop(void **state)
{
    static const char greetings[] = "+OK\r\n:1\r\n$0\r\n\r\n-NOPERM no channel\r\n";
    static const struct lw__session_events events = {on_ready_to_subscribe, on_lost, NULL,
                                                     NULL, on_refused};
    struct scene *scene = *state;
    char path[64];
    int listener = listen_at(path, sizeof(path)), peer;

    scene->config.path = path;
    lw__session_init(&scene->session, &scene->config, &events, scene);
    lw__session_start(&scene->session);
    while (!lw__session_is_connecting(&scene->session)) {
        assert_int_equal(event_base_loop(scene->base, EVLOOP_ONCE), 0);
    }
    peer = accept(listener, NULL, NULL);
    assert_true(send(peer, greetings, sizeof(greetings) - 1, MSG_NOSIGNAL) > 0);
    while (scene->session.state != LW__SESSION_STOPPED) {
        assert_int_equal(event_base_loop(scene->base, EVLOOP_ONCE), 0);
    }
    assert_int_equal(scene->lost, 0);
    (void)close(peer);
    (void)close(listener);
    (void)unlink(path);
    lw__session_start(&scene->session);
    await_losses(scene, 1);
    assert_int_equal(scene->session.state, LW__SESSION_BACKOFF);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_look_up_that_takes_too_long_is_given_up),
        TEST(test_the_delay_grows_up_to_its_limit),
        TEST(test_it_is_stopped_and_started_at_any_moment),
        TEST(test_a_login_is_forgotten_with_its_connection),
        TEST(test_a_refusal_is_forgotten_by_a_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

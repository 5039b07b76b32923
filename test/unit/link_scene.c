/* SPDX-License-Identifier: MIT */
/*
 * The scene of the link's tests. Waits end on an event, or fail after a generous time
 * limit.
 */
#include "link_scene.h"
#include "lockwire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int count_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    assert_non_null(folder);
    while (readdir(folder) != NULL) {
        count++;
    }
    (void)closedir(folder);
    return count;
}

__attribute__((format(printf, 2, 3))) static void trace(struct scene *scene,
                                                        const char *format, ...)
{
    va_list args;

    va_start(args, format);
    scene->length += (size_t)vsnprintf(
        scene->trace + scene->length, sizeof(scene->trace) - scene->length, format, args);
    va_end(args);
    assert_true(scene->length < sizeof(scene->trace));
}

static void trace_text(struct scene *scene, const char *text, size_t length)
{
    if (length > 40) {
        trace(scene, "$%zu", length);
        return;
    }
    trace(scene, "'");
    for (size_t i = 0; i < length; i++) {
        trace(scene, "%c", text[i] != '\0' ? text[i] : '.');
    }
    trace(scene, "'");
}

static void trace_reply(struct scene *scene, const struct lw__reply *reply)
{
    size_t length;
    const char *text = lw__reply_text(reply, &length);

    switch (lw__reply_type(reply)) {
    case LW__REPLY_NIL:
        trace(scene, "nil");
        break;
    case LW__REPLY_STATUS:
        trace(scene, "+%s", text);
        break;
    case LW__REPLY_ERROR:
        trace(scene, "-%s", text);
        break;
    case LW__REPLY_INTEGER:
        trace(scene, "%lld", (long long)lw__reply_integer(reply));
        break;
    case LW__REPLY_STRING:
        trace_text(scene, text, length);
        break;
    case LW__REPLY_ARRAY:
        trace(scene, "[");
        for (size_t i = 0; i < lw__reply_count(reply) && i < 8; i++) {
            trace(scene, "%s", i > 0 ? "," : "");
            trace_reply(scene, lw__reply_at(reply, i));
        }
        if (lw__reply_count(reply) > 8) {
            trace(scene, ",...%zu", lw__reply_count(reply));
        }
        trace(scene, "]");
        break;
    }
}

static void act(struct scene *scene, struct ask *ask)
{
    if (scene->meanwhile != NULL) {
        scene->meanwhile(scene, ask);
    }
}

static void on_up(void *arg)
{
    struct scene *scene = arg;

    trace(scene, "up ");
    act(scene, NULL);
}

/* Traces the reason with the peer as "PEER", since ports and paths differ from run to
 * run. */
static void trace_down(struct scene *scene, const char *why)
{
    char peer[sizeof(scene->path)];
    const char *at;

    (void)snprintf(peer, sizeof(peer), "%s", scene->path);
    if (scene->port != 0) {
        (void)snprintf(peer, sizeof(peer), "127.0.0.1:%u", (unsigned)scene->port);
    }
    at = strstr(why, peer);
    if (at == NULL) {
        trace(scene, "down(%s) ", why);
    } else {
        trace(scene, "down(%.*sPEER%s) ", (int)(at - why), why, at + strlen(peer));
    }
}

static void on_down(void *arg, const char *why)
{
    struct scene *scene = arg;

    scene->link = NULL;
    trace_down(scene, why);
    act(scene, NULL);
}

static void on_push(void *arg, const struct lw__reply *reply)
{
    struct scene *scene = arg;

    trace(scene, "push:");
    trace_reply(scene, reply);
    trace(scene, " ");
    act(scene, NULL);
}

static void on_reply(struct lw__request *request, const struct lw__reply *reply)
{
    struct ask *ask = (struct ask *)request;

    assert_int_equal(request->prev == NULL, request->expected == 0);
    trace(ask->scene, "%d:", ask->number);
    trace_reply(ask->scene, reply);
    trace(ask->scene, " ");
    act(ask->scene, ask);
}

static void on_failed(struct lw__request *request, const char *why)
{
    struct ask *ask = (struct ask *)request;

    assert_null(request->prev);
    assert_true(why[0] != '\0');
    trace(ask->scene, "failed%d ", ask->number);
    act(ask->scene, ask);
}

/* The server */

static void on_peer(evutil_socket_t fd, short what, void *arg)
{
    struct scene *scene = arg;
    char bytes[65536];
    ssize_t length = read(fd, bytes, sizeof(bytes));

    (void)what;
    if (length > 0) {
        scene->received += (size_t)length;
    } else if (length == 0 || (errno != EAGAIN && errno != EINTR)) {
        scene->ended = true;
        (void)event_del(scene->reading);
    }
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
    struct scene *scene = arg;

    (void)what;
    assert_int_equal(scene->peer, -1);
    scene->peer = accept(fd, NULL, NULL);
    assert_true(scene->peer >= 0);
    assert_int_equal(fcntl(scene->peer, F_SETFL, O_NONBLOCK), 0);
    scene->reading =
        event_new(scene->base, scene->peer, EV_READ | EV_PERSIST, on_peer, scene);
    assert_int_equal(event_add(scene->reading, NULL), 0);
}

static void start_listening(struct scene *scene)
{
    assert_int_equal(listen(scene->listening, 5), 0);
    scene->accepting =
        event_new(scene->base, scene->listening, EV_READ | EV_PERSIST, on_accept, scene);
    assert_int_equal(event_add(scene->accepting, NULL), 0);
}

static void stop_listening(struct scene *scene)
{
    if (scene->accepting != NULL) {
        event_free(scene->accepting);
        (void)close(scene->listening);
    }
    scene->accepting = NULL;
}

void scene_listen_tcp(struct scene *scene)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);

    stop_listening(scene);
    scene->listening = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(scene->listening >= 0);
    assert_int_equal(bind(scene->listening, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(scene->listening, (struct sockaddr *)&address, &length),
                     0);
    scene->port = ntohs(address.sin_port);
    start_listening(scene);
}

int scene_set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    assert_non_null(scene);
    scene->descriptors = count_descriptors();
    scene->peer = -1;
    scene->connect_timeout_ms = scene->request_timeout_ms = 60000;
    scene->base = event_base_new();
    assert_non_null(scene->base);
    assert_int_equal(lw__loop_new(scene->base, &scene->loop), 0);
    (void)snprintf(scene->folder, sizeof(scene->folder), "/tmp/lockwire-link.XXXXXX");
    assert_non_null(mkdtemp(scene->folder));
    (void)snprintf(scene->path, sizeof(scene->path), "%s/s", scene->folder);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", scene->path);
    scene->listening = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(scene->listening >= 0);
    assert_int_equal(bind(scene->listening, (struct sockaddr *)&address, sizeof(address)),
                     0);
    start_listening(scene);
    *state = scene;
    return 0;
}

void serve_end(struct scene *scene)
{
    if (scene->peer >= 0) {
        event_free(scene->reading);
        (void)close(scene->peer);
        scene->peer = -1;
    }
}

int scene_tear_down(void **state)
{
    struct scene *scene = *state;

    lw__link_close(scene->link);
    lw__loop_free(scene->loop);
    serve_end(scene);
    stop_listening(scene);
    (void)unlink(scene->path);
    (void)rmdir(scene->folder);
    (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
    assert_int_equal(event_base_get_num_events(scene->base, EVENT_BASE_COUNT_ADDED |
                                                                EVENT_BASE_COUNT_ACTIVE |
                                                                EVENT_BASE_COUNT_VIRTUAL),
                     0);
    event_base_free(scene->base);
    assert_int_equal(count_descriptors(), scene->descriptors);
    free(scene);
    return 0;
}

static void on_unclaimed(void *arg)
{
    struct scene *scene = arg;

    scene->unclaimed++;
}

int scene_try_start(struct scene *scene)
{
    static const struct lw__link_events events = {on_up, on_down, on_push, on_unclaimed};
    struct lw__link_options options = {
        .host = scene->port != 0 ? "127.0.0.1" : NULL,
        .port = scene->port,
        .path = scene->path,
        .connect_timeout_ms = scene->connect_timeout_ms,
        .request_timeout_ms = scene->request_timeout_ms,
        .busy_poll_us = scene->busy_poll_us,
        .reply_max = REPLY_MAX,
    };
    char why[LW_WHY_SIZE];

    return lw__link_open(scene->loop, &options, &events, scene, why, &scene->link);
}

void scene_start(struct scene *scene)
{
    assert_int_equal(scene_try_start(scene), 0);
    assert_string_equal(scene->trace, "");
}

static void on_too_long(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    *(bool *)arg = true;
}

static void turn_until(struct scene *scene, const char *text, size_t received, bool ended)
{
    const struct timeval limit = {30, 0};
    bool too_long = false;
    struct event *event = evtimer_new(scene->base, on_too_long, &too_long);

    assert_int_equal(evtimer_add(event, &limit), 0);
    while ((strstr(scene->trace, text) == NULL || scene->received < received ||
            (ended && !scene->ended)) &&
           !too_long) {
        assert_true(event_base_loop(scene->base, EVLOOP_ONCE) >= 0);
    }
    event_free(event);
    if (too_long) {
        fail_msg("waited for \"%s\", %zu bytes; there are \"%s\", %zu bytes", text,
                 received, scene->trace, scene->received);
    }
}

void await(struct scene *scene, const char *text)
{
    turn_until(scene, text, 0, false);
}

void await_bytes(struct scene *scene, size_t received)
{
    turn_until(scene, "", received, false);
}

void await_end(struct scene *scene)
{
    turn_until(scene, "", 0, true);
}

void settle(struct scene *scene)
{
    for (int i = 0; i < 10; i++) {
        assert_true(event_base_loop(scene->base, EVLOOP_NONBLOCK) >= 0);
    }
}

void scene_open(struct scene *scene)
{
    scene_start(scene);
    await(scene, "up ");
    while (scene->peer < 0) {
        assert_true(event_base_loop(scene->base, EVLOOP_ONCE) >= 0);
    }
}

static const struct lw__request_type ask_type = {on_reply, on_failed};

int scene_try_send(struct scene *scene, struct ask *ask, int number, unsigned replies)
{
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";
    char bytes[64] = "";

    *ask = (struct ask){.scene = scene, .number = number};
    ask->request.expected = (uint8_t)replies;
    ask->request.second = (uint32_t)strlen(ping);
    ask->request.type = &ask_type;
    for (unsigned i = 0; i < replies; i++) {
        strcat(bytes, ping);
    }
    return lw__link_send(scene->link, &ask->request, bytes, strlen(bytes));
}

void scene_send(struct scene *scene, struct ask *ask, int number, unsigned replies)
{
    assert_int_equal(scene_try_send(scene, ask, number, replies), 0);
    assert_non_null(ask->request.prev);
}

void serve_bytes(struct scene *scene, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t written = send(scene->peer, bytes, length, MSG_NOSIGNAL);
        if (written < 0 && (errno == EPIPE || errno == ECONNRESET)) {
            return; /* the link has closed; the trace shows it */
        }
        assert_true(written > 0 || errno == EAGAIN);
        if (written > 0) {
            bytes += written;
            length -= (size_t)written;
        }
        settle(scene);
    }
}

void scene_open_subscribed(struct scene *scene)
{
    scene_open(scene);
    assert_int_equal(lw__link_subscribe(scene->link, "ch"), 0);
    await_bytes(scene, strlen(SUBSCRIBE));
}

void serve(struct scene *scene, const char *bytes)
{
    serve_bytes(scene, bytes, strlen(bytes));
}

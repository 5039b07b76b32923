/* SPDX-License-Identifier: MIT */
/*
 * The scene of the tests of lookups, see resolve_scene.h. Independent of the tests.
 */
#include "resolve_scene.h"

#include "lockwire.h"

#include <arpa/inet.h>
#include <event2/dns_struct.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

int lookup_set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_non_null(scene);
    scene->base = event_base_new();
    assert_non_null(scene->base);
    assert_int_equal(lw__loop_new(scene->base, &scene->loop), 0);
    scene->patience_ms = 60000;
    *state = scene;
    return 0;
}

int lookup_tear_down(void **state)
{
    struct scene *scene = *state;

    lw__resolve_cancel(scene->lookup);
    lw__loop_free(scene->loop);
    if (scene->server != NULL) {
        evdns_close_server_port(scene->server);
    }
    for (int i = 0; i < 5; i++) { /* pending calls of evdns */
        (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
    }
    assert_int_equal(event_base_get_num_events(scene->base, EVENT_BASE_COUNT_ADDED |
                                                                EVENT_BASE_COUNT_ACTIVE),
                     0);
    event_base_free(scene->base);
    if (scene->file[0] != '\0') {
        (void)unlink(scene->file);
    }
    free(scene);
    return 0;
}

static void on_found(void *arg, const struct lw__addresses *addresses, int status,
                     const char *why)
{
    struct scene *scene = arg;
    size_t length = 0;

    assert_false(scene->called);
    scene->called = true;
    scene->lookup = NULL;
    for (size_t i = 0; i < addresses->count; i++) {
        length += (size_t)snprintf(scene->found + length, sizeof(scene->found) - length,
                                   "%s ", addresses->list[i].text);
    }
    assert_int_equal(addresses->count == 0, why[0] != '\0');
    if (addresses->count > 0) {
        assert_int_equal(status, LW_OK);
    } else {
        assert_int_equal(status, scene->status != 0 ? scene->status : LW_ECONN);
    }
    (void)snprintf(scene->found + length, sizeof(scene->found) - length, "%s", why);
    if (scene->meanwhile != NULL) {
        scene->meanwhile(scene);
    }
}

void lookup_start(struct scene *scene, const char *host)
{
    scene->called = false;
    memset(scene->found, 0, sizeof(scene->found));
    assert_int_equal(lw__resolve_start(scene->loop, host, scene->patience_ms, on_found,
                                       scene, &scene->lookup),
                     0);
    assert_false(scene->called);
}

static void on_too_long(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    *(bool *)arg = true;
}

void lookup_await(struct scene *scene, const bool *what, int asked)
{
    const struct timeval limit = {60, 0};
    bool too_long = false;
    struct event *event = evtimer_new(scene->base, on_too_long, &too_long);

    assert_int_equal(evtimer_add(event, &limit), 0);
    while ((!*what || scene->asked < asked) && !too_long) {
        assert_true(event_base_loop(scene->base, EVLOOP_ONCE) >= 0);
    }
    event_free(event);
    assert_false(too_long);
}

void lookup_find(struct scene *scene, const char *host)
{
    lookup_start(scene, host);
    lookup_await(scene, &scene->called, 0);
}

static void on_question(struct evdns_server_request *request, void *arg)
{
    static const char v6[2][16] = {{0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6},
                                   {0x20, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}};
    static const unsigned char v4[2][4] = {{10, 0, 0, 1}, {10, 0, 0, 2}};
    struct scene *scene = arg;
    const struct evdns_server_question *question = request->questions[0];
    const char *name = question->name;
    bool a = question->type == EVDNS_TYPE_A;

    scene->asked++;
    if (strncasecmp(name, "silent", 6) == 0 ||
        (strncasecmp(name, "late", 4) == 0 && scene->asked <= scene->mute_until) ||
        (strncasecmp(name, "only4", 5) == 0 && !a)) {
        (void)evdns_server_request_drop(request);
        return;
    }
    if (strncasecmp(name, "nobody", 6) == 0 || (strncasecmp(name, "no6", 3) == 0 && !a)) {
        (void)evdns_server_request_respond(request, DNS_ERR_NOTEXIST);
        return;
    }
    if (strncasecmp(name, "empty", 5) != 0 && strncasecmp(name, "no6", 3) != 0 &&
        (a || strncasecmp(name, "just4", 5) != 0)) {
        if (a) {
            (void)evdns_server_request_add_a_reply(request, name, 2, v4, 60);
        } else {
            (void)evdns_server_request_add_aaaa_reply(request, name, 2, v6, 60);
        }
    }
    (void)evdns_server_request_respond(request, 0);
}

int lookup_open_port(char *ret, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    (void)snprintf(ret, size, "127.0.0.1:%u", (unsigned)ntohs(address.sin_port));
    return fd;
}

void lookup_name_servers(struct scene *scene, const char *first, const char *second)
{
    FILE *file;

    if (scene->file[0] == '\0') {
        (void)snprintf(scene->file, sizeof(scene->file), "/tmp/lockwire-resolv.XXXXXX");
        (void)close(mkstemp(scene->file));
        *lw__loop_resolv_conf(scene->loop) = scene->file;
    }
    file = fopen(scene->file, "w");
    assert_non_null(file);
    (void)fprintf(file, "# ours\nnameserver %s\n", first);
    if (second != NULL) {
        (void)fprintf(file, "nameserver %s\n", second);
    }
    assert_int_equal(fclose(file), 0);
}

void lookup_play_server(struct scene *scene)
{
    int fd = lookup_open_port(scene->address, sizeof(scene->address));

    scene->server =
        evdns_add_server_port_with_base(scene->base, fd, 0, on_question, scene);
    assert_non_null(scene->server);
    lookup_name_servers(scene, scene->address, NULL);
}

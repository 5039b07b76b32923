/* SPDX-License-Identifier: MIT */
/* See fake_nodes.h. */
#include "fake_nodes.h"
#include "keep_port.h"
#include "skip_clock.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIMIT_S 30 /* for a condition to hold */

static struct nodes *nodes_of(const struct scene *scene)
{
    return (struct nodes *)scene;
}

static struct fake_node *node_of(const struct fake *fake)
{
    return (struct fake_node *)fake;
}

static struct connection *connections_of(const struct fake *fake)
{
    return nodes_of(node_of(fake)->scene)->connections;
}

/* ---- names in place of addresses ---- */

const char *address_of(const struct fake *fake)
{
    static char address[32];

    (void)snprintf(address, sizeof(address),
                   node_of(fake)->six ? "::1:%u" : "127.0.0.1:%u",
                   (unsigned)node_of(fake)->port);
    return address;
}

/* Returns the length of this fake's address if the text begins with it; 0 if it does
 * not. */
static size_t is_address(const struct fake *fake, const char *text)
{
    const char *address = address_of(fake);
    size_t length = strlen(address);
    bool matches = strncmp(text, address, length) == 0;

    return matches && (text[length] < '0' || text[length] > '9') ? length : 0;
}

void with_names(const struct scene *scene, const char *text, char *ret, size_t size)
{
    struct fake *const *fakes = nodes_of(scene)->fakes;
    size_t length = 0;

    while (*text != '\0' && length + 8 < size) {
        size_t matched = 0;

        for (int i = 0; i < FAKES && fakes[i] != NULL && matched == 0; i++) {
            matched = is_address(fakes[i], text);
            if (matched > 0) {
                length += (size_t)snprintf(ret + length, size - length, "%s",
                                           node_of(fakes[i])->name);
            }
        }
        if (matched == 0) {
            ret[length++] = *text;
            matched = 1;
        }
        text += matched;
    }
    ret[length] = '\0';
}

/* ---- the trace and the log ---- */

void note(struct scene *scene, const char *form, ...)
{
    struct nodes *nodes = nodes_of(scene);
    char text[1024], named[1024];
    va_list list;

    va_start(list, form);
    (void)vsnprintf(text, sizeof(text), form, list);
    va_end(list);
    with_names(scene, text, named, sizeof(named));
    nodes->length += (size_t)snprintf(nodes->trace + nodes->length,
                                      sizeof(nodes->trace) - nodes->length, "%s; ",
                                      named);
    assert_true(nodes->length < sizeof(nodes->trace));
}

static void on_log(int level, const char *message, void *arg)
{
    struct nodes *nodes = arg;
    char named[1024];

    (void)level;
    with_names(arg, message, named, sizeof(named));
    nodes->told_length += (size_t)snprintf(nodes->told + nodes->told_length,
                                           sizeof(nodes->told) - nodes->told_length,
                                           "%s\n", named);
    assert_true(nodes->told_length < sizeof(nodes->told));
}

bool was_told(const struct scene *scene, const char *text)
{
    return strstr(nodes_of(scene)->told, text) != NULL;
}

unsigned count_told(const struct scene *scene, const char *text)
{
    unsigned count = 0;

    for (const char *at = nodes_of(scene)->told; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

bool came(const struct scene *scene, const char *text)
{
    const struct nodes *nodes = nodes_of(scene);

    return strstr(nodes->trace + nodes->read, text) != NULL;
}

void pass(struct scene *scene)
{
    nodes_of(scene)->read = nodes_of(scene)->length;
}

/* ---- turns of the loop ---- */

void scene_turn(struct scene *scene, int turns, const char *awaited)
{
    const struct nodes *nodes = nodes_of(scene);
    static int64_t begun_s;

    if (turns == 1) {
        begun_s = skip_clock_real_s();
    } else if (skip_clock_real_s() - begun_s > LIMIT_S) {
        fail_msg("waited for \"%s\"; there is \"%s\"; the log: %s", awaited,
                 nodes->trace + nodes->read, nodes->told);
    }
    turn(scene, INT64_MAX);
}

void await(struct scene *scene, const char *text)
{
    struct nodes *nodes = nodes_of(scene);
    const char *unread = nodes->trace + nodes->read;
    size_t length = strlen(text);

    UNTIL(scene, nodes->length >= nodes->read + length ||
                     strncmp(unread, text, nodes->length - nodes->read) != 0);
    if (strncmp(unread, text, length) != 0) {
        fail_msg("not \"%s\" but \"%s\"", text, unread);
    }
    nodes->read += length;
}

void nothing_for(struct scene *scene, int ms)
{
    const struct nodes *nodes = nodes_of(scene);
    int64_t end_us = lw__now_us() + (int64_t)ms * LW__MS;

    while (lw__now_us() < end_us) {
        turn(scene, end_us);
    }
    assert_string_equal(nodes->trace + nodes->read, "");
}

/* ---- what the nodes send ---- */

void say(struct connection *connection, const char *bytes)
{
    (void)evbuffer_add(bufferevent_get_output(connection->stream), bytes, strlen(bytes));
}

void say_text(struct connection *connection, const char *text)
{
    (void)evbuffer_add_printf(bufferevent_get_output(connection->stream),
                              "$%zu\r\n%s\r\n", strlen(text), text);
}

void say_channel(struct connection *connection, const char *kind, const char *channel,
                 const char *text)
{
    say(connection, "*3\r\n");
    say_text(connection, kind);
    say_text(connection, channel);
    if (text == NULL) {
        say(connection, ":1\r\n");
    } else {
        say_text(connection, text);
    }
}

void say_to_subscribers(struct fake *fake, const char *kind, const char *channel,
                        const char *text)
{
    struct connection *connections = connections_of(fake);

    for (int i = 0; i < CONNECTIONS; i++) {
        if (connections[i].fake == fake && connections[i].subscribed) {
            say_channel(&connections[i], kind, channel, text);
        }
    }
}

/* ---- connections ---- */

void add_subscriber(struct connection *connection)
{
    node_of(connection->fake)->subscribers += !connection->subscribed;
    connection->subscribed = true;
}

void end_connection(struct connection *connection)
{
    node_of(connection->fake)->subscribers -= connection->subscribed;
    bufferevent_free(connection->stream);
    *connection = (struct connection){0};
}

int connections_to(const struct fake *fake)
{
    const struct connection *connections = connections_of(fake);
    int count = 0;

    for (int i = 0; i < CONNECTIONS; i++) {
        count += connections[i].fake == fake;
    }
    return count;
}

/* Cuts the words of one command out of `at`; returns the rest. */
static char *cut(char *at, char *words[8])
{
    long count = strtol(at + 1, &at, 10);

    memset(words, 0, 8 * sizeof(*words));
    at += 2;
    for (long i = 0; i < count; i++) {
        long length = strtol(at + 1, &at, 10);

        words[i < 7 ? i : 7] = at + 2;
        at += 2 + length;
        *at = '\0';
        at += 2;
    }
    return at;
}

static void on_bytes(struct bufferevent *stream, void *arg)
{
    char bytes[65536], *words[8];
    size_t length = bufferevent_read(stream, bytes, sizeof(bytes) - 1);

    bytes[length] = '\0';
    for (char *at = bytes; at < bytes + length;) {
        at = cut(at, words);
        obey(arg, words);
    }
}

static void on_end(struct bufferevent *stream, short what, void *arg)
{
    (void)stream;
    (void)what;
    end_connection(arg);
}

static void on_connection(struct evconnlistener *listener, evutil_socket_t fd,
                          struct sockaddr *address, int length, void *arg)
{
    struct nodes *nodes = nodes_of(node_of(arg)->scene);
    struct connection *connection = nodes->connections;
    int on = 1;

    (void)listener, (void)address, (void)length;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    while (connection->fake != NULL) {
        connection++;
        assert_true(connection < nodes->connections + CONNECTIONS);
    }
    connection->fake = arg;
    node_of(arg)->connected++;
    connection->stream = bufferevent_socket_new(nodes->base, fd, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(connection->stream, on_bytes, NULL, on_end, connection);
    assert_int_equal(bufferevent_enable(connection->stream, EV_READ | EV_WRITE), 0);
}

void come(struct fake *fake)
{
    struct fake_node *node = node_of(fake);
    struct sockaddr_in four = {.sin_family = AF_INET,
                               .sin_port = htons(node->port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6,
                               .sin6_port = htons(node->port),
                               .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const struct sockaddr *address = node->six ? (const struct sockaddr *)&six
                                               : (const struct sockaddr *)&four;
    struct sockaddr_storage got;
    socklen_t length = sizeof(got);

    if (node->keeper == 0) {
        node->keeper = keep_port(AF_INET, &node->port);
        assert_true(node->keeper > 0);
        four.sin_port = htons(node->port);
    }
    node->listening = evconnlistener_new_bind(
        nodes_of(node->scene)->base, on_connection, fake,
        LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_EXEC, 16, address,
        (int)(node->six ? sizeof(six) : sizeof(four)));
    if (node->listening == NULL && node->six) {
        return; /* there is no such address here */
    }
    assert_non_null(node->listening);
    assert_int_equal(getsockname(evconnlistener_get_fd(node->listening),
                                 (struct sockaddr *)&got, &length),
                     0);
    node->port = ntohs(node->six ? ((struct sockaddr_in6 *)&got)->sin6_port
                                 : ((struct sockaddr_in *)&got)->sin_port);
}

void leave(struct fake *fake)
{
    struct fake_node *node = node_of(fake);
    struct connection *connections = connections_of(fake);

    if (node->listening == NULL) {
        return;
    }
    evconnlistener_free(node->listening);
    node->listening = NULL;
    for (int i = 0; i < CONNECTIONS; i++) {
        if (connections[i].fake == fake) {
            end_connection(&connections[i]);
        }
    }
}

/* ---- the common part of a scene ---- */

void add_fake(struct scene *scene, struct fake *fake, char letter, int number)
{
    struct fake **place = nodes_of(scene)->fakes;

    while (*place != NULL) {
        place++;
        assert_true(place < nodes_of(scene)->fakes + FAKES);
    }
    *place = fake;
    node_of(fake)->scene = scene;
    (void)snprintf(node_of(fake)->name, sizeof(node_of(fake)->name), "%c%d", letter,
                   number);
    come(fake);
}

void nodes_set_up(struct scene *scene, unsigned timers)
{
    struct nodes *nodes = nodes_of(scene);

    nodes->base = event_base_new();
    assert_int_equal(lw__loop_new(nodes->base, &nodes->loop), 0);
    assert_int_equal(lw__timer_reserve(nodes->loop, timers), 0);
    lw__random_seed(&nodes->random, 1);
    nodes->log = (struct lw__log){on_log, 5, scene, NULL, NULL};
}

void nodes_tear_down(struct scene *scene)
{
    struct nodes *nodes = nodes_of(scene);

    lw__loop_free(nodes->loop);
    for (int i = 0; i < FAKES && nodes->fakes[i] != NULL; i++) {
        leave(nodes->fakes[i]);
        (void)close(node_of(nodes->fakes[i])->keeper);
    }
    (void)event_base_loop(nodes->base, EVLOOP_NONBLOCK);
    assert_int_equal(event_base_get_num_events(nodes->base, EVENT_BASE_COUNT_ADDED), 0);
    event_base_free(nodes->base);
    free(scene);
    skip_clock_reset();
}

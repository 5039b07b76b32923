/* SPDX-License-Identifier: MIT */
/*
 * The scene of the sentinels' tests, see sentinel_scene.h. Independent of the tests.
 * Assumes that a command arrives whole, as it does on loopback.
 */
#include "sentinel_scene.h"
#include "keep_port.h"
#include "skip_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIMIT_S 30 /* for each condition awaited */
#define CONFIRMED "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"

/* ---- the trace and the log ---- */

/* Replaces "127.0.0.1:40123" by "M1", since ports differ from run to run. */
static void with_names(const struct scene *scene, const char *text, char *ret,
                       size_t size)
{
    const struct fake *fakes[SENTINELS + MASTERS];
    size_t length = 0, count = 0;

    for (int i = 0; i < SENTINELS; i++) {
        fakes[count++] = &scene->s[i];
    }
    for (int i = 0; i < MASTERS; i++) {
        fakes[count++] = &scene->m[i];
    }
    while (*text != '\0' && length + 8 < size) {
        size_t matched = 0;

        for (size_t i = 0; i < count && matched == 0; i++) {
            char address[32];

            (void)snprintf(address, sizeof(address), "127.0.0.1:%u",
                           (unsigned)fakes[i]->port);
            if (strncmp(text, address, strlen(address)) == 0) {
                matched = strlen(address);
                length +=
                    (size_t)snprintf(ret + length, size - length, "%s", fakes[i]->name);
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

static void note(struct scene *scene, const char *who, const char *what, const char *text)
{
    char named[1024];

    with_names(scene, text, named, sizeof(named));
    scene->length += (size_t)snprintf(scene->trace + scene->length,
                                      sizeof(scene->trace) - scene->length, "%s %s%s; ",
                                      who, what, named);
    assert_true(scene->length < sizeof(scene->trace));
}

static void on_log(int level, const char *message, void *arg)
{
    struct scene *scene = arg;
    char named[1024];

    (void)level;
    with_names(scene, message, named, sizeof(named));
    scene->told_length += (size_t)snprintf(scene->told + scene->told_length,
                                           sizeof(scene->told) - scene->told_length,
                                           "%s\n", named);
    assert_true(scene->told_length < sizeof(scene->told));
}

static void on_ready(void *arg)
{
    struct guided *guided = arg;
    char place[64];

    lw__sentinel_note(guided->scene->sentinels, &guided->session.endpoint,
                      guided->session.replication_id);
    (void)snprintf(place, sizeof(place), "127.0.0.1:%u",
                   (unsigned)guided->session.endpoint.port);
    note(guided->scene, guided->name, "at ", place);
}

static void on_lost(void *arg, const char *why)
{
    struct guided *guided = arg;

    note(guided->scene, guided->name, "lost: ", why);
}

/* ---- the fakes ---- */

static void say(const struct connection *connection, const char *bytes)
{
    (void)send(event_get_fd(connection->event), bytes, strlen(bytes), MSG_NOSIGNAL);
}

static void end_connection(struct connection *connection)
{
    if (connection->subscribed) {
        connection->fake->subscribers--;
    }
    (void)close(event_get_fd(connection->event));
    event_free(connection->event);
    *connection = (struct connection){0};
}

static void put(char *out, size_t size, const char *word)
{
    size_t length = strlen(out);

    (void)snprintf(out + length, size - length, "$%zu\r\n%s\r\n", strlen(word), word);
}

static void put_place(char *out, size_t size, const struct fake *fake, const char *flags)
{
    char port[8];

    (void)snprintf(port, sizeof(port), "%u", (unsigned)fake->port);
    put(out, size, "name");
    put(out, size, SERVICE);
    put(out, size, "ip");
    put(out, size, "127.0.0.1");
    put(out, size, "port");
    put(out, size, port);
    put(out, size, "flags");
    put(out, size, flags);
}

static void say_master(struct connection *connection)
{
    const struct fake *fake = connection->fake;
    char out[1024], epoch[16];

    connection->owes = fake->mute;
    if (fake->mute) {
        return;
    }
    if (fake->raw != NULL || fake->master == NULL) {
        say(connection,
            fake->raw != NULL ? fake->raw : "-ERR No such master with that name\r\n");
        return;
    }
    (void)snprintf(out, sizeof(out), "*%d\r\n", fake->for_ms != NULL ? 14 : 10);
    put_place(out, sizeof(out), fake->master, fake->flags);
    (void)snprintf(epoch, sizeof(epoch), "%d", fake->epoch);
    put(out, sizeof(out), "config-epoch");
    put(out, sizeof(out), epoch);
    if (fake->for_ms != NULL) {
        put(out, sizeof(out), "role-reported");
        put(out, sizeof(out), "master");
        put(out, sizeof(out), "role-reported-time");
        put(out, sizeof(out), fake->for_ms);
    }
    say(connection, out);
}

/* Returns the id by which other sentinels know the one at this port. */
static const char *id_of(const struct fake *sentinel)
{
    static char id[41];

    (void)snprintf(id, sizeof(id), "%040x", (unsigned)sentinel->port);
    return sentinel->known_as != NULL ? sentinel->known_as : id;
}

const char *other(const struct fake *sentinel, const char *flags)
{
    static char out[1024];

    (void)snprintf(out, sizeof(out), "*10\r\n");
    put_place(out, sizeof(out), sentinel, flags);
    put(out, sizeof(out), "runid");
    put(out, sizeof(out), id_of(sentinel));
    return out;
}

static void say_id(struct connection *connection)
{
    char out[128] = "";

    if (connection->fake->id != NULL && *connection->fake->id == '-') {
        say(connection, connection->fake->id);
        return;
    }
    put(out, sizeof(out),
        connection->fake->id != NULL ? connection->fake->id : id_of(connection->fake));
    say(connection, out);
}

static void subscribe(struct connection *connection)
{
    struct fake *fake = connection->fake;

    fake->subscriptions++;
    if (fake->subscription != NULL && *fake->subscription != '\0') {
        say(connection, fake->subscription);
        return;
    }
    fake->subscribers += !connection->subscribed;
    connection->subscribed = true;
    if (fake->subscription == NULL) {
        say(connection, CONFIRMED);
    }
}

void confirm(struct fake *sentinel)
{
    sentinel->subscription = NULL;
    for (int i = 0; i < CONNECTIONS; i++) {
        struct connection *connection = &sentinel->scene->connections[i];

        if (connection->fake == sentinel && connection->subscribed) {
            say(connection, CONFIRMED);
        }
    }
}

/* Cuts the words of one command out of `at`. Returns what follows it. */
static char *cut(char *at, char *words[8])
{
    long count = strtol(at + 1, &at, 10);

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

static void say_replication(struct connection *connection)
{
    const struct fake *fake = connection->fake;
    char info[256], out[512] = "";

    (void)snprintf(info, sizeof(info),
                   "# Replication\r\nrole:master\r\nmaster_replid:%s\r\n"
                   "master_replid2:%s\r\n",
                   fake->replication_id, fake->former_id);
    put(out, sizeof(out), info);
    connection->owes_info = fake->info != NULL && *fake->info == '\0';
    say(connection, fake->info != NULL ? fake->info : out);
}

void inform(struct fake *server)
{
    server->info = NULL;
    for (int i = 0; i < CONNECTIONS; i++) {
        struct connection *connection = &server->scene->connections[i];

        if (connection->fake == server && connection->owes_info) {
            say_replication(connection);
        }
    }
}

bool owes_info(const struct fake *server)
{
    for (int i = 0; i < CONNECTIONS; i++) {
        const struct connection *connection = &server->scene->connections[i];

        if (connection->fake == server && connection->owes_info) {
            return true;
        }
    }
    return false;
}

void promote(struct fake *to, const struct fake *from)
{
    (void)snprintf(to->former_id, sizeof(to->former_id), "%s", from->replication_id);
}

static void obey(struct connection *connection, char *const words[8])
{
    struct fake *fake = connection->fake;

    if (fake->guarded && !connection->authenticated && strcmp(words[0], "AUTH") != 0) {
        say(connection, "-NOAUTH Authentication required.\r\n");
    } else if (strcmp(words[0], "SENTINEL") == 0 && strcmp(words[1], "MASTER") == 0) {
        assert_string_equal(words[2], SERVICE);
        fake->asked++;
        say_master(connection);
    } else if (strcmp(words[0], "SENTINEL") == 0 && strcmp(words[1], "MYID") == 0) {
        say_id(connection);
    } else if (strcmp(words[0], "SENTINEL") == 0) {
        say(connection, fake->others != NULL ? fake->others : "*0\r\n");
    } else if (strcmp(words[0], "SUBSCRIBE") == 0) {
        subscribe(connection);
    } else if (strcmp(words[0], "ROLE") == 0) {
        say(connection, fake->role);
    } else if (strcmp(words[0], "AUTH") == 0) {
        connection->authenticated = true;
        (void)snprintf(fake->password, sizeof(fake->password), "%s", words[1]);
        say(connection, "+OK\r\n");
    } else if (strcmp(words[0], "CLIENT") == 0) {
        say(connection, strcmp(words[1], "ID") == 0 ? ":1\r\n" : "+OK\r\n");
    } else if (words[1] != NULL && strcmp(words[1], "replication") == 0) {
        say_replication(connection);
    } else {
        say(connection, "$0\r\n\r\n"); /* INFO */
    }
}

static void on_bytes(evutil_socket_t fd, short what, void *arg)
{
    struct connection *connection = arg;
    char bytes[8192], *words[8] = {0};
    ssize_t length = read(fd, bytes, sizeof(bytes) - 1);

    (void)what;
    if (length <= 0) {
        end_connection(connection);
        return;
    }
    bytes[length] = '\0';
    for (char *at = bytes; at < bytes + length;) {
        at = cut(at, words);
        obey(connection, words);
    }
}

static void on_connection(evutil_socket_t fd, short what, void *arg)
{
    struct fake *fake = arg;
    struct connection *connection = fake->scene->connections;
    int on = 1, peer = accept(fd, NULL, NULL);

    (void)what;
    (void)setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    while (connection->fake != NULL) {
        connection++;
        assert_true(connection < fake->scene->connections + CONNECTIONS);
    }
    connection->fake = fake;
    fake->connected++;
    connection->event =
        event_new(fake->scene->base, peer, EV_READ | EV_PERSIST, on_bytes, connection);
    assert_int_equal(event_add(connection->event, NULL), 0);
}

void come(struct fake *fake)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(fake->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fake->keeper == 0) {
        fake->keeper = keep_port(AF_INET, &fake->port);
        assert_true(fake->keeper > 0);
        address.sin_port = htons(fake->port);
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(listen(fd, 16), 0);
    fake->listening =
        event_new(fake->scene->base, fd, EV_READ | EV_PERSIST, on_connection, fake);
    assert_int_equal(event_add(fake->listening, NULL), 0);
}

void leave(struct fake *fake)
{
    if (fake->listening == NULL) {
        return;
    }
    (void)close(event_get_fd(fake->listening));
    event_free(fake->listening);
    fake->listening = NULL;
    for (int i = 0; i < CONNECTIONS; i++) {
        if (fake->scene->connections[i].fake == fake) {
            end_connection(&fake->scene->connections[i]);
        }
    }
}

void names(struct fake *sentinel, struct fake *master, int epoch, const char *flags)
{
    sentinel->master = master;
    sentinel->epoch = epoch;
    sentinel->flags = flags;
}

void speak(struct fake *sentinel)
{
    sentinel->mute = false;
    for (int i = 0; i < CONNECTIONS; i++) {
        struct connection *connection = &sentinel->scene->connections[i];

        if (connection->fake == sentinel && connection->owes) {
            say_master(connection);
        }
    }
}

void announce(struct fake *sentinel, const char *text)
{
    char out[512];

    (void)snprintf(out, sizeof(out),
                   "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n$%zu\r\n%s\r\n",
                   strlen(text), text);
    for (int i = 0; i < CONNECTIONS; i++) {
        struct connection *connection = &sentinel->scene->connections[i];

        if (connection->fake == sentinel && connection->subscribed) {
            say(connection, out);
        }
    }
}

void announce_switch(struct fake *sentinel, const struct fake *from,
                     const struct fake *to)
{
    char text[256];

    (void)snprintf(text, sizeof(text), "%s 127.0.0.1 %u 127.0.0.1 %u", SERVICE,
                   (unsigned)from->port, (unsigned)to->port);
    announce(sentinel, text);
}

/* ---- the scene ---- */

static void stage_fakes(struct scene *scene)
{
    for (int i = 0; i < SENTINELS; i++) {
        struct fake *fake = &scene->s[i];

        fake->scene = scene;
        (void)snprintf(fake->name, sizeof(fake->name), "S%d", i + 1);
        come(fake);
        scene->hosts[i] = (struct lw__url_host){scene->host, fake->port};
    }
    for (int i = 0; i < MASTERS; i++) {
        struct fake *fake = &scene->m[i];

        fake->scene = scene;
        (void)snprintf(fake->name, sizeof(fake->name), "M%d", i + 1);
        (void)snprintf(fake->replication_id, sizeof(fake->replication_id), "%039x%d", 0,
                       i + 1);
        (void)snprintf(fake->former_id, sizeof(fake->former_id), "%040d", 0);
        fake->role = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
        come(fake);
    }
}

int scene_set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_non_null(scene);
    scene->base = event_base_new();
    assert_int_equal(lw__loop_new(scene->base, &scene->loop), 0);
    assert_int_equal(lw__timer_reserve(scene->loop, 2), 0);
    lw__random_seed(&scene->random, 1);
    (void)snprintf(scene->host, sizeof(scene->host), "127.0.0.1");
    scene->log = (struct lw__log){on_log, 5, scene, NULL};
    stage_fakes(scene);
    scene->config = (struct lw__session_config){
        .loop = scene->loop,
        .log = &scene->log,
        .random = &scene->random,
        .client_name = "test",
        .connect_timeout_ms = 60000,
        .request_timeout_ms = 60000,
        .backoff_min_ms = 5,
        .backoff_max_ms = 20,
    };
    scene->a = (struct guided){.scene = scene, .name = "a"};
    scene->b = (struct guided){.scene = scene, .name = "b"};
    *state = scene;
    return 0;
}

void scene_start(struct scene *scene, size_t listed)
{
    static const struct lw__session_events events = {on_ready, on_lost, NULL, NULL, NULL};

    scene->options.service = SERVICE;
    scene->options.hosts = scene->hosts;
    scene->options.host_count = listed;
    assert_int_equal(lw__sentinel_new(&scene->options, &scene->config, &scene->failovers,
                                      &scene->sentinels),
                     0);
    lw__sentinel_configure(scene->sentinels, &scene->config);
    lw__session_init(&scene->a.session, &scene->config, &events, &scene->a);
    lw__session_init(&scene->b.session, &scene->config, &events, &scene->b);
}

void go(struct scene *scene, struct guided *guided)
{
    (void)scene;
    lw__session_start(&guided->session);
}

void scene_stop(struct scene *scene)
{
    if (scene->sentinels != NULL) {
        lw__session_stop(&scene->a.session);
        lw__session_stop(&scene->b.session);
    }
    lw__sentinel_free(scene->sentinels);
    scene->sentinels = NULL;
}

int scene_tear_down(void **state)
{
    struct scene *scene = *state;

    scene_stop(scene);
    lw__loop_free(scene->loop);
    for (int i = 0; i < SENTINELS; i++) {
        leave(&scene->s[i]);
        (void)close(scene->s[i].keeper);
    }
    for (int i = 0; i < MASTERS; i++) {
        leave(&scene->m[i]);
        (void)close(scene->m[i].keeper);
    }
    (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
    assert_int_equal(event_base_get_num_events(scene->base, EVENT_BASE_COUNT_ADDED), 0);
    event_base_free(scene->base);
    free(scene);
    skip_clock_reset();
    return 0;
}

void scene_turn(struct scene *scene, int turns, const char *awaited)
{
    static int64_t begun_s;

    if (turns == 1) {
        begun_s = skip_clock_real_s();
    } else if (skip_clock_real_s() - begun_s > LIMIT_S) {
        fail_msg("waited for \"%s\"; there is \"%s\"; the log: %s", awaited,
                 scene->trace + scene->read, scene->told);
    }
    skip_clock_turn(scene->base, INT64_MAX);
}

void await(struct scene *scene, const char *text)
{
    UNTIL(scene, scene->length >= scene->read + strlen(text));
    if (strncmp(scene->trace + scene->read, text, strlen(text)) != 0) {
        fail_msg("not \"%s\" but \"%s\"", text, scene->trace + scene->read);
    }
    scene->read += strlen(text);
}

void nothing_for(struct scene *scene, int ms)
{
    int64_t end_us = lw__now_us() + (int64_t)ms * LW__MS;

    while (lw__now_us() < end_us) {
        skip_clock_turn(scene->base, end_us);
    }
    assert_string_equal(scene->trace + scene->read, "");
}

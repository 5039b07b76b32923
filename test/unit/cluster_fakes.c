/* SPDX-License-Identifier: MIT */
/*
 * The fake nodes of a cluster's scene. come() starts a node; each command gets the reply
 * that the test has set, or else the usual reply of a node. A command is assumed to
 * arrive whole, as it does on loopback.
 */
#include "cluster_scene.h"
#include "cluster_scene_inside.h"
#include "keep_port.h"

#include "redis/slot.h"
#include "scripts.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define RUN_ID "%c123456789abcdef0123456789abcdef01234567"

/* ---- the map ---- */

static void put_range(struct evbuffer *out, unsigned first, unsigned last,
                      const char *host, uint16_t port, const char *id)
{
    (void)evbuffer_add_printf(out, "*3\r\n:%u\r\n:%u\r\n*3\r\n", first, last);
    if (host == NULL) {
        (void)evbuffer_add_printf(out, "$-1\r\n");
    } else {
        (void)evbuffer_add_printf(out, "$%zu\r\n%s\r\n", strlen(host), host);
    }
    (void)evbuffer_add_printf(out, ":%u\r\n$40\r\n%s\r\n", port, id);
}

static void say_pieces(struct connection *connection)
{
    struct evbuffer *out = bufferevent_get_output(connection->stream);
    const struct fake *n = connection->fake->scene->n;

    (void)evbuffer_add_printf(out, "*%d\r\n", LW__SLOTS);
    for (unsigned slot = 0; slot < LW__SLOTS; slot++) {
        put_range(out, slot, slot, "127.0.0.1", n[slot % 2].port, id_of(&n[slot % 2]));
    }
}

/* Sends fake->map, "0-5460 N1, ...", as the reply to CLUSTER SLOTS. */
static void say_map(struct connection *connection)
{
    const struct fake *fake = connection->fake;
    struct evbuffer *out = bufferevent_get_output(connection->stream);
    struct evbuffer *ranges = evbuffer_new();
    unsigned first, last, node;
    int count = 0, length;

    for (const char *at = fake->map; *at != '\0'; at += length, count++) {
        const struct fake *master;
        const char *host = fake->host;

        at += strspn(at, ", ");
        assert_int_equal(sscanf(at, "%u-%u N%u%n", &first, &last, &node, &length), 3);
        master = &fake->scene->n[node - 1];
        if (host == NULL) {
            host = master->six ? "::1" : "127.0.0.1";
        }
        put_range(ranges, first, last, strcmp(host, "nil") == 0 ? NULL : host,
                  master->port, id_of(master));
    }
    (void)evbuffer_add_printf(out, "*%d\r\n", count);
    (void)evbuffer_add_buffer(out, ranges);
    evbuffer_free(ranges);
}

static void tell_map(struct connection *connection)
{
    struct fake *fake = connection->fake;

    fake->asked++;
    if (fake->raw != NULL) {
        say(connection, fake->raw);
    } else if (fake->in_pieces) {
        say_pieces(connection);
    } else {
        say_map(connection);
    }
}

/* Returns the id of the node within its cluster: for "N1", 40 times its digit. */
const char *id_of(const struct fake *fake)
{
    static char id[41];

    memset(id, fake->id != '\0' ? fake->id : fake->name[1], 40);
    return id;
}

static void say_text(struct connection *connection, const char *text)
{
    char out[300];

    (void)snprintf(out, sizeof(out), "$%zu\r\n%s\r\n", strlen(text), text);
    say(connection, out);
}

static void say_cluster(struct connection *connection, const char *what)
{
    struct fake *fake = connection->fake;
    char info[200];

    if (fake->refuses_cluster && strcmp(what, "SLOTS") != 0) {
        say(connection, "-NOPERM this user has no permissions\r\n");
    } else if (strcmp(what, "MYID") == 0) {
        say_text(connection, id_of(fake));
    } else if (strcmp(what, "INFO") == 0) {
        (void)snprintf(info, sizeof(info),
                       "cluster_enabled:1\r\ncluster_state:%s\r\n"
                       "cluster_current_epoch:%u\r\ncluster_my_epoch:1\r\n",
                       fake->down ? "fail" : "ok", fake->epoch);
        say_text(connection, info);
    } else {
        tell_map(connection);
    }
}

void map_is(struct scene *scene, const char *map)
{
    for (int i = 0; i < NODES; i++) {
        scene->n[i].map = map;
    }
}

/* ---- the fakes ---- */

void say(struct connection *connection, const char *bytes)
{
    (void)evbuffer_add(bufferevent_get_output(connection->stream), bytes, strlen(bytes));
}

static void end_connection(struct connection *connection)
{
    connection->fake->subscribers -= connection->subscribed;
    bufferevent_free(connection->stream);
    *connection = (struct connection){0};
}

static void say_channel(struct connection *connection, const char *kind,
                        const char *channel, const char *text)
{
    char out[512];

    (void)snprintf(out, sizeof(out), "*3\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(kind),
                   kind, strlen(channel), channel);
    say(connection, out);
    if (text == NULL) {
        (void)snprintf(out, sizeof(out), ":1\r\n");
    } else {
        (void)snprintf(out, sizeof(out), "$%zu\r\n%s\r\n", strlen(text), text);
    }
    say(connection, out);
}

static void say_to_all(struct fake *fake, const char *kind, unsigned slot,
                       const char *text)
{
    char channel[LW__CHANNEL_OF_OURS_SIZE];

    lw__format_shard_channel(UUID, slot, channel);
    for (int i = 0; i < CONNECTIONS; i++) {
        struct connection *connection = &fake->scene->connections[i];

        if (connection->fake == fake && connection->subscribed) {
            say_channel(connection, kind, channel, text);
        }
    }
}

void publish(struct fake *fake, unsigned slot, const char *text)
{
    say_to_all(fake, "smessage", slot, text);
}

void drop_channel(struct fake *fake, unsigned slot)
{
    say_to_all(fake, "sunsubscribe", slot, NULL);
}

void says(struct fake *fake, const char *to, const char *text)
{
    struct answer *answer = fake->answers;

    while (answer->text != NULL) {
        answer++;
        assert_true(answer < fake->answers + ANSWERS);
    }
    *answer = (struct answer){to, text, false};
}

void says_always(struct fake *fake, const char *to, const char *text)
{
    for (int i = 0; i < ANSWERS; i++) {
        if (fake->answers[i].text != NULL && strcmp(fake->answers[i].to, to) == 0) {
            fake->answers[i].text = NULL;
        }
    }
    if (text != NULL) {
        says(fake, to, text);
        for (int i = 0; i < ANSWERS; i++) {
            if (fake->answers[i].text == text) {
                fake->answers[i].always = true;
            }
        }
    }
}

/* Sends the reply that the test has set for this command. Returns false if there is
 * none. */
static bool say_told(struct connection *connection, const char *line, const char *key)
{
    struct fake *fake = connection->fake;
    char out[512];

    for (int i = 0; i < ANSWERS; i++) {
        struct answer *answer = &fake->answers[i];

        if (answer->text != NULL && (strncmp(line, answer->to, strlen(answer->to)) == 0 ||
                                     strcmp(key, answer->to) == 0)) {
            with_addresses(fake->scene, answer->text, out, sizeof(out) - 3);
            if (!answer->always) {
                answer->text = NULL;
            }
            if (*out != '\0') {
                (void)strcat(out, "\r\n");
            }
            say(connection, out);
            return true;
        }
    }
    return false;
}

static void say_info(struct connection *connection)
{
    struct fake *fake = connection->fake;
    char info[256], out[300];

    (void)snprintf(info, sizeof(info),
                   "# Server\r\nredis_mode:cluster\r\narch_bits:64\r\nrun_id:" RUN_ID
                   "\r\n",
                   fake->astray > 0 ? 'f' : fake->name[1]);
    fake->astray -= fake->astray > 0;
    (void)snprintf(out, sizeof(out), "$%zu\r\n%s\r\n", strlen(info), info);
    say(connection, out);
}

static void subscribe(struct connection *connection, const char *line,
                      const char *channel, bool on)
{
    struct fake *fake = connection->fake;

    note(fake->scene, "%s < %s", fake->name, line);
    if (say_told(connection, line, "")) {
        return;
    }
    fake->subscribers += !connection->subscribed;
    connection->subscribed = true;
    say_channel(connection, on ? "ssubscribe" : "sunsubscribe", channel, NULL);
}

/* Answers the commands of the handshake and the like, which no test is about. */
static bool is_greeting(struct connection *connection, char *const words[8])
{
    if (strcmp(words[0], "INFO") == 0) {
        say_info(connection);
    } else if (strcmp(words[0], "CLIENT") == 0) {
        say(connection, strcmp(words[1], "ID") == 0 ? ":1\r\n" : "+OK\r\n");
    } else if (strcmp(words[0], "CONFIG") == 0 || strcmp(words[0], "COMMAND") == 0) {
        say(connection, "*0\r\n");
    } else if (strcmp(words[0], "SPUBLISH") == 0) { /* may we publish? */
        say(connection, ":0\r\n");
    } else if (strcmp(words[0], "CLUSTER") == 0) {
        say_cluster(connection, words[1]);
    } else if (strcmp(words[0], "AUTH") == 0) {
        say(connection, "+OK\r\n");
    } else {
        return false;
    }
    return true;
}

static bool is_seed(char *const words[8])
{
    const struct lw__script *seed = &lw__scripts[LW__SCRIPT_FENCE_SEED];

    return strcmp(words[1], seed->sha1) == 0 || strcmp(words[1], seed->text) == 0;
}

static void answer_as_usual(struct connection *connection, const char *command)
{
    if (strcmp(command, "GET") == 0) {
        say(connection, "$1\r\n1\r\n");
    } else if (strcmp(command, "MGET") == 0) {
        say(connection, "*0\r\n");
    } else if (strcmp(command, "INCR") == 0 || strncmp(command, "SEED", 4) == 0) {
        say(connection, ":1700000000000001\r\n");
    } else if (strcmp(command, "PEXPIRE") == 0) {
        say(connection, ":1\r\n");
    } else {
        say(connection, "+OK\r\n");
    }
}

static void obey(struct connection *connection, char *const words[8])
{
    struct fake *fake = connection->fake;
    bool script = strncmp(words[0], "EVAL", 4) == 0, seed = script && is_seed(words);
    const char *key = script ? words[3] : words[1] != NULL ? words[1] : "";
    const char *command = words[0];
    char line[256];

    if (is_greeting(connection, words)) {
        return;
    }
    if (seed) {
        command = strcmp(words[0], "EVAL") == 0 ? "SEED text" : "SEED";
        fake->seeded++;
    }
    if (strstr(words[0], "SUBSCRIBE") != NULL ||
        strncmp(key, "lockwire:fence:", 15) == 0) {
        (void)snprintf(line, sizeof(line), "%s %u", command,
                       lw__slot_of(key, strlen(key)));
    } else {
        (void)snprintf(line, sizeof(line), *key != '\0' ? "%s %s" : "%s", command, key);
    }
    if (strstr(words[0], "SUBSCRIBE") != NULL) {
        subscribe(connection, line, key, words[0][1] == 'S');
        return;
    }
    if (strcmp(command, "PEXPIRE") != 0 && (!seed || fake->scene->tells_seeds)) {
        note(fake->scene, "%s < %s", fake->name, line);
    }
    if (!say_told(connection, line, key)) {
        answer_as_usual(connection, command);
    }
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
    struct connection *connection = arg;
    char bytes[65536], *words[8];
    size_t length = bufferevent_read(stream, bytes, sizeof(bytes) - 1);

    bytes[length] = '\0';
    for (char *at = bytes; at < bytes + length;) {
        at = cut(at, words);
        obey(connection, words);
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
    struct fake *fake = arg;
    struct connection *connection = fake->scene->connections;

    (void)listener, (void)address, (void)length;
    while (connection->fake != NULL) {
        connection++;
        assert_true(connection < fake->scene->connections + CONNECTIONS);
    }
    connection->fake = fake;
    connection->stream =
        bufferevent_socket_new(fake->scene->base, fd, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(connection->stream, on_bytes, NULL, on_end, connection);
    assert_int_equal(bufferevent_enable(connection->stream, EV_READ | EV_WRITE), 0);
}

void end_subscriptions(struct fake *fake)
{
    for (int i = 0; i < CONNECTIONS; i++) {
        struct connection *connection = &fake->scene->connections[i];

        if (connection->fake == fake && connection->subscribed) {
            end_connection(connection);
        }
    }
}

int connections_to(const struct fake *fake)
{
    int count = 0;

    for (int i = 0; i < CONNECTIONS; i++) {
        count += fake->scene->connections[i].fake == fake;
    }
    return count;
}

void come(struct fake *fake)
{
    struct sockaddr_in four = {.sin_family = AF_INET,
                               .sin_port = htons(fake->port),
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6,
                               .sin6_port = htons(fake->port),
                               .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    const struct sockaddr *address = fake->six ? (const struct sockaddr *)&six
                                               : (const struct sockaddr *)&four;
    struct sockaddr_storage got;
    socklen_t length = sizeof(got);

    if (fake->keeper == 0) {
        fake->keeper = keep_port(AF_INET, &fake->port);
        assert_true(fake->keeper > 0);
        four.sin_port = htons(fake->port);
    }
    fake->listening = evconnlistener_new_bind(
        fake->scene->base, on_connection, fake,
        LEV_OPT_CLOSE_ON_FREE | LEV_OPT_REUSEABLE | LEV_OPT_CLOSE_ON_EXEC, 16, address,
        (int)(fake->six ? sizeof(six) : sizeof(four)));
    if (fake->listening == NULL && fake->six) {
        return; /* there is no such address here */
    }
    assert_non_null(fake->listening);
    assert_int_equal(getsockname(evconnlistener_get_fd(fake->listening),
                                 (struct sockaddr *)&got, &length),
                     0);
    fake->port = ntohs(fake->six ? ((struct sockaddr_in6 *)&got)->sin6_port
                                 : ((struct sockaddr_in *)&got)->sin_port);
}

void leave(struct fake *fake)
{
    if (fake->listening == NULL) {
        return;
    }
    evconnlistener_free(fake->listening);
    fake->listening = NULL;
    for (int i = 0; i < CONNECTIONS; i++) {
        if (fake->scene->connections[i].fake == fake) {
            end_connection(&fake->scene->connections[i]);
        }
    }
}

/* SPDX-License-Identifier: MIT */
/*
 * fake_redis.h's server. Interprets no command except SUBSCRIBE and PUBSUB NUMSUB.
 *
 * Usual course: it reads, takes a command out of the bytes, asks the test for a reply,
 * else the real server, and writes the reply.
 */
#include "fake_redis.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_ARGC 512

const char FAKE_HANG_UP[] = "hang up";

struct fake_connection {
    struct fake_connection *next;
    struct fake_redis *fake;
    int fd;
    struct event *readable, *writable;
    struct evbuffer *out; /* bytes that the socket has not taken yet */
    redisContext *real;
    char bytes[65536];
    size_t used;
    char channels[4][128]; /* that it subscribes to */
    bool subscribed, mute, ended;
};

static struct fake_redis *fakes;

static void end_connection(struct fake_connection *connection)
{
    if (connection->ended) {
        return;
    }
    connection->ended = true;
    event_free(connection->readable);
    event_free(connection->writable);
    evbuffer_free(connection->out);
    close(connection->fd);
    if (connection->real != NULL) {
        redisFree(connection->real);
    }
}

static void sweep(struct fake_redis *fake)
{
    for (struct fake_connection **at = &fake->connections, *one; (one = *at) != NULL;) {
        if (!one->ended) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        free(one);
    }
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct fake_connection *connection = arg;
    struct evbuffer *out = connection->out;
    size_t length = evbuffer_get_length(out);
    ssize_t sent = send(fd, evbuffer_pullup(out, -1), length, MSG_NOSIGNAL);

    (void)what;
    if (sent < 0 && errno != EAGAIN) {
        end_connection(connection);
        return;
    }
    evbuffer_drain(out, sent > 0 ? (size_t)sent : 0);
    if (evbuffer_get_length(out) > 0 && event_add(connection->writable, NULL) < 0) {
        abort();
    }
}

static void say(struct fake_connection *connection, const char *bytes, size_t length)
{
    bool waits = evbuffer_get_length(connection->out) > 0;

    if (evbuffer_add(connection->out, bytes, length) < 0) {
        abort();
    }
    if (!waits && length > 0) {
        on_writable(connection->fd, EV_WRITE, connection);
    }
}

/* ---- encoding the real server's reply again ---- */

static void print_reply(FILE *out, const redisReply *reply)
{
    switch (reply->type) {
    case REDIS_REPLY_STATUS:
        (void)fprintf(out, "+%s\r\n", reply->str);
        break;
    case REDIS_REPLY_ERROR:
        (void)fprintf(out, "-%s\r\n", reply->str);
        break;
    case REDIS_REPLY_INTEGER:
        (void)fprintf(out, ":%lld\r\n", reply->integer);
        break;
    case REDIS_REPLY_STRING:
        (void)fprintf(out, "$%zu\r\n", (size_t)reply->len);
        (void)fwrite(reply->str, 1, (size_t)reply->len, out);
        (void)fputs("\r\n", out);
        break;
    case REDIS_REPLY_ARRAY:
        (void)fprintf(out, "*%zu\r\n", reply->elements);
        for (size_t i = 0; i < reply->elements; i++) {
            print_reply(out, reply->element[i]);
        }
        break;
    default:
        (void)fputs("$-1\r\n", out);
    }
}

static void ask_real(struct fake_connection *connection, int argc, char **argv,
                     const size_t *lengths)
{
    char *bytes = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&bytes, &length);

    if (connection->real == NULL) {
        connection->real = redisConnectUnix(stage.server.path);
    }
    redisReply *reply =
        redisCommandArgv(connection->real, argc, (const char **)(uintptr_t)argv, lengths);
    if (reply == NULL || out == NULL) {
        abort();
    }
    print_reply(out, reply);
    (void)fclose(out);
    say(connection, bytes, length);
    freeReplyObject(reply);
    free(bytes);
}

static void confirm(struct fake_connection *connection, const char *channel)
{
    char bytes[256];
    int length = snprintf(bytes, sizeof(bytes),
                          "*3\r\n$9\r\nsubscribe\r\n$%zu\r\n%s\r\n:1\r\n",
                          strlen(channel), channel);

    for (size_t i = 0; i < sizeof(connection->channels) / sizeof(*connection->channels);
         i++) {
        if (!connection->channels[i][0]) {
            (void)snprintf(connection->channels[i], sizeof(*connection->channels), "%s",
                           channel);
        }
        if (strcmp(connection->channels[i], channel) == 0) {
            break;
        }
    }
    connection->subscribed = true;
    say(connection, bytes, (size_t)length);
}

/* Answers PUBSUB NUMSUB for one channel. */
static void count(struct fake_connection *connection, const char *channel)
{
    char bytes[256];
    int subscribers = 0, length;

    for (struct fake_connection *one = connection->fake->connections; one != NULL;
         one = one->next) {
        for (size_t i = 0; i < sizeof(one->channels) / sizeof(*one->channels); i++) {
            subscribers += !one->ended && strcmp(one->channels[i], channel) == 0;
        }
    }
    length = snprintf(bytes, sizeof(bytes), "*2\r\n$%zu\r\n%s\r\n:%d\r\n",
                      strlen(channel), channel, subscribers);
    say(connection, bytes, (size_t)length);
}

static void obey(struct fake_connection *connection, int argc, char **argv,
                 const size_t *lengths)
{
    struct fake_redis *fake = connection->fake;
    const char *answer;

    if (connection->mute) {
        return;
    }
    fake->commands++;
    answer = fake->answer != NULL ? fake->answer(fake, argc, argv) : FAKE_REAL;
    connection->mute = answer != NULL &&
                       answer[0] == '\0'; /* no server omits a single reply */
    if (answer == FAKE_HANG_UP) {
        end_connection(connection);
    } else if (answer != NULL) {
        say(connection, answer, strlen(answer));
    } else if (strcasecmp(argv[0], "SUBSCRIBE") == 0) {
        confirm(connection, argv[1]);
    } else if (argc == 3 && strcasecmp(argv[0], "PUBSUB") == 0) {
        count(connection, argv[2]);
    } else {
        ask_real(connection, argc, argv, lengths);
    }
}

/* Reads a number of the protocol. Returns the end of its line, or NULL if the line is
 * incomplete. */
static char *read_number(char *at, const char *end, char kind, long *number)
{
    char *line_end = memchr(at, '\n', (size_t)(end - at));

    if (line_end == NULL) {
        return NULL;
    }
    if (*at != kind) {
        abort(); /* only our own clients connect here */
    }
    *number = strtol(at + 1, NULL, 10);
    return line_end + 1;
}

/* Executes the first command in the bytes. Returns its length, or 0 if it is
 * incomplete. */
static size_t take_command(struct fake_connection *connection)
{
    char *at = connection->bytes, *end = at + connection->used, *argv[MAX_ARGC];
    size_t lengths[MAX_ARGC];
    long argc, length;

    at = read_number(at, end, '*', &argc);
    if (at == NULL || argc < 1 || argc > MAX_ARGC) {
        return 0;
    }
    for (long i = 0; i < argc; i++) {
        at = at < end ? read_number(at, end, '$', &length) : NULL;
        if (at == NULL || at + length + 2 > end) {
            return 0;
        }
        argv[i] = at;
        lengths[i] = (size_t)length;
        at += length + 2;
    }
    for (long i = 0; i < argc; i++) {
        argv[i][lengths[i]] = '\0';
    }
    obey(connection, (int)argc, argv, lengths);
    return (size_t)(at - connection->bytes);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct fake_connection *connection = arg;
    ssize_t count = recv(fd, connection->bytes + connection->used,
                         sizeof(connection->bytes) - connection->used, 0);

    (void)what;
    if (count < 0 && errno == EAGAIN) {
        return;
    }
    if (count <= 0) {
        end_connection(connection);
        return;
    }
    connection->used += (size_t)count;
    for (size_t taken; !connection->ended && connection->used > 0 &&
                       (taken = take_command(connection)) > 0;) {
        connection->used -= taken;
        memmove(connection->bytes, connection->bytes + taken, connection->used);
    }
}

static void on_connection(evutil_socket_t fd, short what, void *arg)
{
    struct fake_redis *fake = arg;
    int client = accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    (void)what;
    sweep(fake);
    if (client < 0) {
        return;
    }
    fake->accepted++;
    struct fake_connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL) {
        abort();
    }
    connection->fake = fake;
    connection->fd = client;
    connection->readable =
        event_new(stage.base, client, EV_READ | EV_PERSIST, on_readable, connection);
    connection->writable =
        event_new(stage.base, client, EV_WRITE, on_writable, connection);
    connection->out = evbuffer_new();
    connection->next = fake->connections;
    fake->connections = connection;
    if (connection->readable == NULL || connection->writable == NULL ||
        connection->out == NULL || event_add(connection->readable, NULL) < 0) {
        abort();
    }
}

void fake_hang_up(struct fake_redis *fake)
{
    for (struct fake_connection *one = fake->connections; one != NULL; one = one->next) {
        end_connection(one);
    }
    sweep(fake);
}

static void all_leave(bool in_good_order)
{
    (void)in_good_order;
    while (fakes != NULL) {
        struct fake_redis *fake = fakes;
        fake_hang_up(fake);
        int fd = event_get_fd(fake->listening);
        event_free(fake->listening);
        close(fd);
        unlink(fake->path);
        fakes = fake->next;
        free(fake);
    }
}

struct fake_redis *fake_start(const char *(*answer)(struct fake_redis *fake, int argc,
                                                    char **argv))
{
    static int number;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct fake_redis *fake = calloc(1, sizeof(*fake));

    if (fake == NULL) {
        stage_fail("fake: memory");
    }
    stage_at_exit(all_leave);
    fake->answer = answer;
    (void)snprintf(fake->path, sizeof(fake->path), "%s/fake-%d", stage.server.dir,
                   ++number);
    (void)snprintf(fake->url, sizeof(fake->url), "unix://%s", fake->path);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", fake->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(fd, 64) < 0) {
        stage_fail("fake: %s", strerror(errno));
    }
    fake->listening =
        event_new(stage.base, fd, EV_READ | EV_PERSIST, on_connection, fake);
    if (fake->listening == NULL || event_add(fake->listening, NULL) < 0) {
        stage_fail("fake: memory");
    }
    fake->next = fakes;
    fakes = fake;
    return fake;
}

void fake_push(struct fake_redis *fake, const char *bytes)
{
    for (struct fake_connection *one = fake->connections; one != NULL; one = one->next) {
        if (!one->ended && one->subscribed) {
            say(one, bytes, strlen(bytes));
        }
    }
}

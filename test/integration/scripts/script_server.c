/* SPDX-License-Identifier: MIT
 *
 * The server and the clients of script_server.h. Independent of the meaning of replies.
 *
 * Usual course: forks a redis-server on a unix socket in a new directory, connects, and
 * loads the scripts. Every script_run() looks at all keys before and after the script. */
#include "script_server.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define LIMIT_S 30 /* for anything that must happen */

static void wait_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

static time_t now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static redisContext *connect_to(const char *path)
{
    struct timeval limit = {.tv_sec = LIMIT_S};
    for (time_t end = now_s() + LIMIT_S; now_s() < end; wait_a_little()) {
        redisContext *link = redisConnectUnix(path);
        assert_non_null(link);
        if (!link->err) {
            redisSetTimeout(link, limit);
            return link;
        }
        redisFree(link);
    }
    fail_msg("%s", "redis-server did not start");
    return NULL;
}

static void become_redis(const struct script_server *server)
{
    int log;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (chdir(server->directory) < 0) {
        _exit(126);
    }
    log = open("log", O_WRONLY | O_CREAT, 0600);
    dup2(log, 1);
    dup2(log, 2);
    execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", server->socket,
           "--save", "", "--appendonly", "no", (char *)NULL);
    _exit(127);
}

static void forget_look(struct script_server *server)
{
    if (server->seen != NULL) {
        freeReplyObject(server->seen);
    }
    server->seen = NULL;
}

void script_server_start(struct script_server *server)
{
    *server = (struct script_server){.directory = "/tmp/lockwire-scripts-XXXXXX"};
    assert_non_null(mkdtemp(server->directory));
    (void)snprintf(server->socket, sizeof(server->socket), "%s/redis", server->directory);
    server->process = fork();
    assert_true(server->process >= 0);
    if (server->process == 0) {
        become_redis(server);
    }
    server->admin = connect_to(server->socket);
    server->link = server->admin;
    for (int i = 0; i < LW__SCRIPT_COUNT; i++) {
        redisReply *reply = redisCommand(server->admin, "SCRIPT LOAD %b",
                                         lw__scripts[i].text, lw__scripts[i].length);
        assert_non_null(reply);
        assert_string_equal(reply->str, lw__scripts[i].sha1);
        freeReplyObject(reply);
    }
    (void)snprintf(server->look, sizeof(server->look), "%s",
                   script_get(server, "SCRIPT LOAD %s", script_look));
}

void script_server_stop(struct script_server *server)
{
    char path[128];

    script_server_become(server, NULL);
    forget_look(server);
    redisFree(server->admin);
    kill(server->process, SIGKILL);
    waitpid(server->process, NULL, 0);
    (void)snprintf(path, sizeof(path), "%s/log", server->directory);
    unlink(path);
    unlink(server->socket);
    assert_int_equal(rmdir(server->directory), 0);
}

void script_server_flush(struct script_server *server)
{
    script_server_become(server, NULL);
    script_do(server, "CONFIG SET maxmemory 0");
    script_do(server, "FLUSHALL");
}

void script_server_become(struct script_server *server, const char *rule)
{
    redisReply *reply;
    char line[256];

    if (server->link != server->admin) {
        redisFree(server->link);
    }
    server->link = server->admin;
    if (rule == NULL) {
        return;
    }
    (void)snprintf(line, sizeof(line),
                   "ACL SETUSER other reset on >secret +@all ~* &* %s", rule);
    reply = redisCommand(server->admin, line);
    assert_non_null(reply);
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
    server->link = connect_to(server->socket);
    reply = redisCommand(server->link, "AUTH other secret");
    assert_non_null(reply);
    assert_string_equal(reply->str, "OK");
    freeReplyObject(reply);
}

static redisReply *command(struct script_server *server, const char *format, va_list list)
{
    redisReply *reply = redisvCommand(server->admin, format, list);

    forget_look(server); /* the test itself may have changed something */
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR) {
        fail_msg("%s: %s", format, reply->str);
    }
    return reply;
}

long long script_do(struct script_server *server, const char *format, ...)
{
    va_list list;
    redisReply *reply;
    long long number;

    va_start(list, format);
    reply = command(server, format, list);
    va_end(list);
    number = reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    freeReplyObject(reply);
    return number;
}

const char *script_get(struct script_server *server, const char *format, ...)
{
    static char text[256];
    va_list list;
    redisReply *reply, *item;

    va_start(list, format);
    reply = command(server, format, list);
    va_end(list);
    item = reply->type == REDIS_REPLY_ARRAY && reply->elements ? reply->element[0]
                                                               : reply;
    (void)snprintf(text, sizeof(text), "%s", item->str != NULL ? item->str : "");
    freeReplyObject(reply);
    return text;
}

void script_server_watch(struct script_server *server, const char *lua)
{
    (void)snprintf(server->watch, sizeof(server->watch), "%s",
                   script_get(server, "SCRIPT LOAD %s", lua));
}

static void ask_look(struct script_server *server, const char *when)
{
    assert_int_equal(
        redisAppendCommand(server->admin, "EVALSHA %s 0 %s", server->look, when),
        REDIS_OK);
    if (server->watch[0]) {
        assert_int_equal(redisAppendCommand(server->admin, "EVALSHA %s 0", server->watch),
                         REDIS_OK);
    }
}

static redisReply *read_one(struct script_server *server)
{
    void *reply;

    assert_int_equal(redisGetReply(server->admin, &reply), REDIS_OK);
    server->wrong[0] = '\0';
    if (((redisReply *)reply)->type == REDIS_REPLY_ERROR) {
        if (!server->lenient) {
            fail_msg("%s", ((redisReply *)reply)->str);
        }
        (void)snprintf(server->wrong, sizeof(server->wrong), "%s",
                       ((redisReply *)reply)->str);
    }
    return reply;
}

static redisReply *read_look(struct script_server *server)
{
    redisReply *look = read_one(server), *watched;

    if (server->watch[0]) {
        watched = read_one(server);
        assert_true(watched->len < sizeof(server->watched));
        memcpy(server->watched, watched->str, watched->len + 1);
        freeReplyObject(watched);
    }
    return look;
}

/* Returns the end of this entry; it is mostly where the other look had it. */
static const redisReply *find_end(const redisReply *look, const char *id, size_t guess)
{
    if (guess < look->elements && strcmp(look->element[guess]->str, id) == 0) {
        return look->element[guess + 1];
    }
    for (size_t i = 0; i < look->elements; i += 2) {
        if (strcmp(look->element[i]->str, id) == 0) {
            return look->element[i + 1];
        }
    }
    return NULL;
}

/* `except` is the token whose lease may have become shorter, or NULL. */
static void assert_not_shortened(const redisReply *before, const redisReply *after,
                                 const char *except)
{
    for (size_t i = 0; i < before->elements; i += 2) {
        const char *id = before->element[i]->str;
        const redisReply *end = find_end(after, id, i);

        if (except != NULL && strstr(id, except) != NULL) {
            continue;
        }
        if (end != NULL && atoll(end->str) < atoll(before->element[i + 1]->str)) {
            fail_msg("shortened: %s", id);
        }
    }
}

/* Returns the token of a script that may shorten its lease, without the queue mark; NULL
 * for any other script. */
static const char *shortened_token(enum lw__script_id script, const char *token)
{
    static char text[80];

    if (script != LW__SCRIPT_MUTEX_DETACH && script != LW__SCRIPT_RW_DETACH) {
        return NULL;
    }
    (void)snprintf(text, sizeof(text), "%.*s", (int)strlen(token) - 1, token);
    return text;
}

static void flatten(const redisReply *reply, struct script_answer *answer)
{
    if (reply->type == REDIS_REPLY_INTEGER) {
        assert_true(answer->count < 40);
        answer->n[answer->count++] = reply->integer;
    } else if (reply->type == REDIS_REPLY_ARRAY) {
        for (size_t i = 0; i < reply->elements; i++) {
            flatten(reply->element[i], answer);
        }
    } else if (reply->str != NULL) {
        answer->error |= reply->type == REDIS_REPLY_ERROR;
        (void)snprintf(answer->text, sizeof(answer->text), "%s", reply->str);
    }
}

struct script_answer script_run(struct script_server *server, enum lw__script_id script,
                                int keys, ...)
{
    const char *words[80] = {"EVALSHA", lw__scripts[script].sha1, script_number(keys)};
    struct script_answer answer = {.count = 0};
    redisReply *after;
    void *reply;
    int count = 3;
    va_list list;

    va_start(list, keys);
    for (const char *word; count < 80 && (word = va_arg(list, const char *)) != NULL;
         count++) {
        words[count] = word;
    }
    va_end(list);
    if (server->seen == NULL) {
        ask_look(server, "before");
        server->seen = read_look(server);
    }
    assert_int_equal(redisAppendCommandArgv(server->link, count, words, NULL), REDIS_OK);
    if (server->link == server->admin) { /* one round trip for both */
        ask_look(server, "after");
    }
    assert_int_equal(redisGetReply(server->link, &reply), REDIS_OK);
    flatten(reply, &answer);
    freeReplyObject(reply);
    if (server->link != server->admin) {
        ask_look(server, "after");
    }
    after = read_look(server);
    assert_not_shortened(server->seen, after, shortened_token(script, words[3 + keys]));
    forget_look(server);
    server->seen = after;
    return answer;
}

const char *script_number(long long number)
{
    static char texts[16][24];
    static unsigned next;
    char *text = texts[next++ % 16];

    (void)snprintf(text, sizeof(texts[0]), "%lld", number);
    return text;
}

const char *script_token(const struct script_client *client, int n, int window_ms)
{
    static char texts[64][80];
    static unsigned next;
    char *text = texts[next++ % 64];

    (void)snprintf(text, sizeof(texts[0]), "%s:%d:%d-", client->uuid, n, window_ms);
    return text;
}

/* Returns the next reply on the subscription. */
static redisReply *read_reply(struct script_client *client)
{
    void *reply;

    assert_int_equal(redisGetReply(client->link, &reply), REDIS_OK);
    return reply;
}

void script_client_dead(struct script_client *client, int id)
{
    *client = (struct script_client){.link = NULL};
    (void)snprintf(client->uuid, sizeof(client->uuid), "%08x-0000-4000-8000-00000000c0de",
                   (unsigned)id);
}

void script_client_start(struct script_client *client, struct script_server *server,
                         int id)
{
    redisReply *reply;

    script_client_dead(client, id);
    client->server = server;
    client->link = connect_to(server->socket);
    reply = redisCommand(client->link, "SUBSCRIBE lockwire:2:%s", client->uuid);
    assert_non_null(reply);
    assert_string_equal(reply->element[0]->str, "subscribe");
    freeReplyObject(reply);
}

void script_client_stop(struct script_client *client)
{
    bool gone = false;

    redisFree(client->link);
    client->link = NULL;
    for (time_t end = now_s() + LIMIT_S; !gone && now_s() < end;) {
        redisReply *reply = redisCommand(client->server->admin,
                                         "PUBSUB NUMSUB lockwire:2:%s", client->uuid);
        assert_non_null(reply);
        gone = reply->element[1]->integer == 0;
        freeReplyObject(reply);
    }
    assert_true(gone);
}

static void read_message(struct script_client *client, char *text, size_t size)
{
    redisReply *reply;
    char channel[64];

    reply = read_reply(client);
    assert_string_equal(reply->element[0]->str, "message");
    (void)snprintf(channel, sizeof(channel), "lockwire:2:%s", client->uuid);
    assert_string_equal(reply->element[1]->str, channel);
    (void)snprintf(text, size, "%s", reply->element[2]->str);
    freeReplyObject(reply);
}

struct script_turn script_client_turn(struct script_client *client, const char *token)
{
    struct script_turn turn = {.fence = 0};
    long long seconds, us;
    char text[512];
    int end = 0;

    read_message(client, text, sizeof(text));
    if (sscanf(text, "%*1[tr] %79s %lld " SCRIPT_SERVER_ID " %lld %lld %n", turn.token,
               &turn.fence, &seconds, &us, &end) != 4 ||
        end == 0) {
        fail_msg("no turn: %s", text);
    }
    turn.us = seconds * 1000000 + us;
    (void)snprintf(turn.name, sizeof(turn.name), "%s", text + end);
    assert_int_equal(text[0], strcmp(turn.name, "rw") == 0 ? 'r' : 't');
    assert_string_equal(turn.token, token);
    return turn;
}

void script_client_standby(struct script_client *client, const char *token, int window_ms)
{
    char text[512], expected[128];

    read_message(client, text, sizeof(text));
    (void)snprintf(expected, sizeof(expected), "s %s %d ", token, window_ms);
    if (strncmp(text, expected, strlen(expected)) != 0) {
        fail_msg("no standby for %s: %s", token, text);
    }
    assert_true(strcmp(text + strlen(expected), "n") == 0 ||
                strcmp(text + strlen(expected), "rw") == 0);
}

/* The reply to a PING comes after all messages that were published before it. */
void script_client_silent(struct script_client *client)
{
    redisReply *reply;

    assert_int_equal(redisAppendCommand(client->link, "PING"), REDIS_OK);
    reply = read_reply(client);
    if (strcmp(reply->element[0]->str, "pong") != 0) {
        fail_msg("unexpected: %s", reply->element[2]->str);
    }
    freeReplyObject(reply);
}

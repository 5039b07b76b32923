/* SPDX-License-Identifier: MIT
 *
 * Owns: a private redis-server with the embedded scripts loaded, the processes that
 * subscribe to it, and what must be true after every script, whichever: each key has
 * a TTL, none was shortened while its holder stayed. Must not know: what a script answers
 * when.
 *
 * Happy path: script_server_start(), script_run() many times, script_server_stop().
 * Everything that fails fails the running test. */
#ifndef SCRIPT_SERVER_H
#define SCRIPT_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <hiredis/hiredis.h>

#include "scripts.h"

struct script_server {
    char directory[64];
    char socket[96];
    pid_t process;
    redisContext *admin; /* may everything */
    redisContext *link;  /* runs the scripts; the admin's unless script_server_become() */
    char look[41];       /* the script that looks at all keys after each script */
    redisReply *seen; /* what it saw last; NULL where the test changed something since */
    char watch[41];   /* script_server_watch() */
    char watched[32768];
    bool lenient;    /* what a look finds wrong goes to `wrong`, and fails no test */
    char wrong[128]; /* "" if the last look found nothing */
};

/* A script's answer, an array's integers flattened one level. */
struct script_answer {
    int count;
    long long n[40];
    char text[128]; /* its last string: a type; or an error's text */
    bool error;
};

/* A process that waits: its channel is subscribed, its messages are read in order. */
struct script_client {
    char uuid[37];
    redisContext *link;
    struct script_server *server;
};

struct script_turn {
    char token[80];
    long long fence;
    long long us;
    char name[64];
};

/* The short id that callers say their server has; messages repeat it. */
#define SCRIPT_SERVER_ID "5e12fe12"

/* Lua, for the server itself: ARGV[1] is "before" or "after" a script. */
extern const char script_look[];

void script_server_start(struct script_server *server);
void script_server_stop(struct script_server *server);
void script_server_flush(struct script_server *server);
/* The scripts run as a user with this ACL rule besides everything; NULL: the admin. */
void script_server_become(struct script_server *server, const char *rule);

/* After every script, in the same round trip, this Lua runs, too; its text is
 * `watched`. */
void script_server_watch(struct script_server *server, const char *lua);

/* A command of the admin's, as printf; its integer, or -1 for other replies. */
long long script_do(struct script_server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for a string ("" where there is none); valid until the next call. */
const char *script_get(struct script_server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Keys and arguments as strings, the end is NULL. */
struct script_answer script_run(struct script_server *server, enum lw__script_id script,
                                int keys, ...);
/* A number as an argument: valid for the next 16 calls. */
const char *script_number(long long number);
/* `<uuid>:<n>:<window>`, valid for the next 64 calls. */
const char *script_token(const struct script_client *client, int n, int window_ms);

void script_client_start(struct script_client *client, struct script_server *server,
                         int id);
/* Only its name: nobody listens. */
void script_client_dead(struct script_client *client, int id);
/* Returns once the server knows that it is gone. */
void script_client_stop(struct script_client *client);
/* The next message must be this one. */
struct script_turn script_client_turn(struct script_client *client, const char *token);
void script_client_standby(struct script_client *client, const char *token,
                           int window_ms);
/* Nothing was sent that is not read yet. */
void script_client_silent(struct script_client *client);

#endif

/* SPDX-License-Identifier: MIT
 *
 * A private redis-server with the embedded scripts loaded, the processes that subscribe
 * to it, and what must be true after every script: each key has a TTL, and none was
 * shortened while its holder stayed. Independent of the replies of single scripts.
 *
 * Usual course: script_server_start(), script_run() many times, script_server_stop().
 * Each failure fails the running test. */
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
    redisContext *admin; /* has all permissions */
    redisContext *link;  /* runs the scripts; admin unless script_server_become() */
    char look[41];       /* the script that looks at all keys after each script */
    redisReply *seen; /* by the last look; NULL if the test has changed something since */
    char watch[41];   /* script_server_watch() */
    char watched[32768];
    bool lenient; /* faults that a look finds are stored in `wrong`, and fail no test */
    char wrong[128]; /* "" if the last look found nothing */
};

/* A script's reply; the integers of an array are flattened one level. */
struct script_answer {
    int count;
    long long n[40];
    char text[128]; /* the last string: a type, or an error's text */
    bool error;
};

/* A process that waits: it is subscribed to its channel, and its messages are read in
 * order. */
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

/* The short id of the server that callers pass; messages repeat it. */
#define SCRIPT_SERVER_ID "5e12fe12"

/* Lua, for the server itself: ARGV[1] is "before" or "after" a script. */
extern const char script_look[];

void script_server_start(struct script_server *server);
void script_server_stop(struct script_server *server);
void script_server_flush(struct script_server *server);
/* Runs the scripts as a user with all permissions and then this ACL rule; NULL stands for
 * the admin. */
void script_server_become(struct script_server *server, const char *rule);

/* Runs this Lua after every script, in the same round trip; its text goes to
 * `watched`. */
void script_server_watch(struct script_server *server, const char *lua);

/* Sends a command of the admin's, formatted as by printf. Returns its integer, or -1 for
 * any other reply. */
long long script_do(struct script_server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for a string ("" for other replies); valid until the next call. */
const char *script_get(struct script_server *server, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Runs a script; keys and arguments are strings, ended by NULL. */
struct script_answer script_run(struct script_server *server, enum lw__script_id script,
                                int keys, ...);
/* Returns a number as an argument, valid for the next 16 calls. */
const char *script_number(long long number);
/* Returns `<uuid>:<n>:<window>-`, valid for the next 64 calls. */
const char *script_token(const struct script_client *client, int n, int window_ms);

void script_client_start(struct script_client *client, struct script_server *server,
                         int id);
/* Makes only the name of a client, without a subscriber. */
void script_client_dead(struct script_client *client, int id);
/* Returns once the server no longer counts the subscriber. */
void script_client_stop(struct script_client *client);
/* Read the next message, which must be this one. */
struct script_turn script_client_turn(struct script_client *client, const char *token);
void script_client_standby(struct script_client *client, const char *token,
                           int window_ms);
/* Checks that no unread message is left. */
void script_client_silent(struct script_client *client);

#endif

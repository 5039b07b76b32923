/* SPDX-License-Identifier: MIT */
/*
 * A real Redis for tests: owns the private server's process, the way to it and a
 * synchronous connection of the test's own. Must not know lockwire. What cannot be done
 * fails the running test with a text.
 *
 * The way is a symbolic link, so that a server that was killed and started again stands
 * at the same URL, empty unless it was started with "--appendonly yes".
 *
 * With LOCKWIRE_TLS in the environment the URL is a rediss:// one, on a TCP port that
 * stays the same, too; the server's certificate is of LOCKWIRE_CERTIFICATES
 * (certificates.sh), which clients trust if SSL_CERT_FILE says so. The test's own
 * connection is plain. Where the server has no TLS, the executable ends as skipped.
 *
 * Happy path: server_start, redis_ok("SET a 1"), server_stop.
 */
#ifndef TEST_SERVER_H
#define TEST_SERVER_H
#include "embedded.h"

#include <stdbool.h>
#include <hiredis/hiredis.h>

struct server {
    struct embedded process;
    bool running, paused;
    bool keeps; /* append-only: its folder is `dir`, which outlives it */
    redisContext *admin;
    char dir[64];  /* where the link stands */
    char path[80]; /* the link */
    char url[96];
    int tls_port, reserved; /* and the socket that keeps it for us; 0: no TLS */
    char *args[16];         /* of redis-server, beside the usual; NULL-terminated */
    char words[256];
};

/* `args` is further arguments of redis-server, separated by blanks; may be NULL. */
void server_start(struct server *server, const char *args);
/* The same in two: first the way is there, to which nobody listens. */
void server_absent(struct server *server);
void server_run(struct server *server, const char *args);
void server_stop(struct server *server);

/* One of 127.0.0.1, which is nobody else's until the test ends; whoever listens there
 * says SO_REUSEADDR, as redis-server does. */
int server_free_port(void);
/* This port of 127.0.0.1, or any (0), which nobody else is given while the descriptor
 * returned is open, but where a server may listen; -1: somebody else has it. */
int server_reserve_port(int *port);
/* Opens a TCP port on 127.0.0.1, too, for its replica; returns it. */
int server_listen(struct server *server);

void server_pause(struct server *server);  /* SIGSTOP */
void server_resume(struct server *server); /* SIGCONT; no effect unless paused */
void server_kill(struct server *server);   /* SIGKILL: connections are reset */
void server_restart(struct server *server);
/* `other`, which runs, becomes what is at the way to `server`, which was killed; what was
 * the way to `other` is no more. */
void server_succeed(struct server *server, struct server *other);

/* What the test asks this one is asked of `other` from here on, by a new connection;
 * `other` may be itself. */
void server_ask_in_place(struct server *server, const struct server *other);

/* As it was after the start: empty, no limits, one user, no other connections. */
void server_clear(struct server *server);

/* A command as printf makes it, by hiredis' rules; the caller frees the reply. An error
 * reply fails the test, except with server_try. */
redisReply *server_command(struct server *server, const char *format, ...);
redisReply *server_try(struct server *server, const char *format, ...);

/* The same on the stage's own server. */
void redis_ok(const char *format, ...);          /* whatever the reply, if no error */
long long redis_int(const char *format, ...);    /* fails unless it is an integer */
const char *redis_text(const char *format, ...); /* "" for nil; until the next call */
/* Of a read-write lock: "<holds> <owners that read> <write holds>"; until the next call.
 */
const char *redis_counts(const char *name);
const char *redis_writer(
    const char *name); /* "" where nobody writes; until the next call */

/* A field of INFO as a number, e.g. "expired_keys"; 0 if it is not there. */
long long redis_info(const char *field);

#endif

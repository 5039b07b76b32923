/* SPDX-License-Identifier: MIT */
/*
 * A real Redis for tests. Owns the private server's process, a link to its socket and a
 * synchronous connection for the test. Independent of lockwire. A step that fails makes
 * the running test fail with a text.
 *
 * The link is symbolic, so that a server that was killed and started again has the same
 * URL. It is empty then, unless it was started with "--appendonly yes".
 *
 * With LOCKWIRE_TLS in the environment the URL is a rediss:// one, on a TCP port that
 * also stays the same. The server's certificate is from LOCKWIRE_CERTIFICATES
 * (certificates.sh); clients trust it if SSL_CERT_FILE is set accordingly. The test's own
 * connection does not use TLS. If the server has no TLS, the executable ends as skipped.
 *
 * Usual course: server_start, redis_ok("SET a 1"), server_stop.
 */
#ifndef TEST_SERVER_H
#define TEST_SERVER_H
#include "embedded.h"

#include <stdbool.h>
#include <hiredis/hiredis.h>

struct server {
    struct embedded process;
    bool running, paused;
    bool keeps; /* append-only: its folder is `dir`, which outlives the process */
    redisContext *admin;
    char dir[64];  /* the folder of the link */
    char path[80]; /* the link */
    char url[96];
    int tls_port, reserved; /* with the socket that reserves it; 0: no TLS */
    char *args[16];         /* for redis-server, after embedded.h's */
    char words[256];
};

/* `args` are further arguments of redis-server, separated by blanks; may be NULL. */
void server_start(struct server *server, const char *args);
/* The same in two steps: server_absent makes the link's folder, where no server listens
 * yet. */
void server_absent(struct server *server);
void server_run(struct server *server, const char *args);
void server_stop(struct server *server);

/* Returns a port of 127.0.0.1 that is reserved until the test ends. A program that
 * listens there must set SO_REUSEADDR, as redis-server does. */
int server_free_port(void);
/* Reserves this port of 127.0.0.1, or any if it is 0, while the returned descriptor is
 * open; a server may listen there. Returns -1 if the port is in use. */
int server_reserve_port(int *port);
/* Also opens a TCP port on 127.0.0.1, for a replica, and returns it. */
int server_listen(struct server *server);

void server_pause(struct server *server);  /* SIGSTOP */
void server_resume(struct server *server); /* SIGCONT; no effect unless paused */
void server_kill(struct server *server);   /* SIGKILL: connections are reset */
void server_restart(struct server *server);
/* Puts `other`, which runs, in the place of `server`, which was killed; the link of
 * `other` is removed. */
void server_succeed(struct server *server, struct server *other);

/* From now on sends the test's own commands for this server to `other`, over a new
 * connection; `other` may be the server itself. */
void server_ask_in_place(struct server *server, const struct server *other);

/* Resets the server to its state after the start: empty, no limits, one user. */
void server_clear(struct server *server);

/* Sends a command, formatted by hiredis' rules; the caller frees the reply. An error
 * reply fails the test, except with server_try. */
redisReply *server_command(struct server *server, const char *format, ...);
redisReply *server_try(struct server *server, const char *format, ...);

/* The same on the stage's own server. */
void redis_ok(const char *format, ...);          /* an error fails the test */
long long redis_int(const char *format, ...);    /* fails unless it is an integer */
const char *redis_text(const char *format, ...); /* "" for nil; static buffer */
/* Returns "<holds> <reading owners> <write holds>" of a read-write lock; valid until the
 * next call. */
const char *redis_counts(const char *name);
const char *redis_writer(
    const char *name); /* "" if there is no writer; valid until the next call */

/* Returns a field of INFO as a number, e.g. "expired_keys", or 0 if it is missing. */
long long redis_info(const char *field);

#endif

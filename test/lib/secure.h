/* SPDX-License-Identifier: MIT */
/*
 * The server's side of one TLS connection, without its socket: what came from the client
 * is fed, what is for it is fetched. Owns the SSL; must not know who carries the bytes.
 *
 * Happy path: secure_feed, secure_take until it has no more, secure_put, secure_fetch.
 */
#ifndef TEST_SECURE_H
#define TEST_SECURE_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct secure;

/* Is the stage's server one with TLS, by the environment's LOCKWIRE_TLS? */
bool secure_wanted(void);
/* `certificate` is one of certificates.sh's, with server.key; "server". */
struct secure *secure_new(const char *certificate);
void secure_free(struct secure *secure); /* NULL is fine */
void *secure_ssl(struct secure *secure); /* SSL *, for what only one room does with it */

/* Bytes of the client's. */
void secure_feed(struct secure *secure, const char *bytes, size_t length);
/* What they say: so many bytes; 0: the end, or what is no TLS; -1: no more for now. */
ssize_t secure_take(struct secure *secure, char *bytes, size_t size);
/* Have hands been shaken? */
bool secure_ready(const struct secure *secure);
/* To be said, once they have; in one record if it is not longer than that. */
void secure_put(struct secure *secure, const char *bytes, size_t length);
void secure_put_end(struct secure *secure); /* close_notify */
/* Bytes for the client; 0: none for now. */
size_t secure_fetch(struct secure *secure, char *bytes, size_t size);

#endif

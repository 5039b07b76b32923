/* SPDX-License-Identifier: MIT */
/*
 * The server's side of one TLS connection, without its socket: bytes from the client are
 * fed, bytes for the client are fetched. Owns the SSL. Independent of how the bytes are
 * carried.
 *
 * Usual course: secure_feed, secure_take until it has no more, secure_put, secure_fetch.
 */
#ifndef TEST_SECURE_H
#define TEST_SECURE_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct secure;

/* Returns true if the environment has LOCKWIRE_TLS, so that the stage's server has
 * TLS. */
bool secure_wanted(void);
/* `certificate` is a name of certificates.sh's, for example "server"; the key is
 * server.key. */
struct secure *secure_new(const char *certificate);
void secure_free(struct secure *secure); /* NULL is fine */
void *secure_ssl(struct secure *secure); /* SSL *, for tests that need more */

/* Takes bytes from the client. */
void secure_feed(struct secure *secure, const char *bytes, size_t length);
/* Decrypts them. Returns the length of the plain text; 0 at the end or if it is not TLS;
 * -1 if there is no more for now. */
ssize_t secure_take(struct secure *secure, char *bytes, size_t size);
/* Returns true once the handshake is complete. */
bool secure_ready(const struct secure *secure);
/* Sends plain text, after the handshake; in one record if it fits. */
void secure_put(struct secure *secure, const char *bytes, size_t length);
void secure_put_end(struct secure *secure); /* close_notify */
/* Returns how many bytes it has fetched for the client, 0 if nothing is to be sent
 * now. */
size_t secure_fetch(struct secure *secure, char *bytes, size_t size);

#endif

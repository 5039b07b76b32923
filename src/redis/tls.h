/* SPDX-License-Identifier: MIT */
/* The TLS of one connection, by OpenSSL and hiredis_ssl. Independent of links. In a build
 * without them lw__tls_new fails, and explains what the build needs.
 *
 * lw__tls_new reads the files. When the connection is established, lw__tls_begin starts
 * the handshake; lw__tls_shake continues it whenever the socket is readable or writable.
 * After that hiredis_ssl reads and writes. lw__tls_free must come before the context is
 * freed. */
#ifndef LW_TLS_H
#define LW_TLS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__tls;
struct lw__tls_trust;
struct redisAsyncContext;

struct lw__tls_options {
    const char *ca;          /* file or folder; NULL: the system's authorities */
    const char *cert, *key;  /* files; both or neither */
    const char *server_name; /* to verify, a name or an address; NULL: no TLS */
    bool names_another;      /* server_name is an option, not the host in the URL */
    /* The authorities that were read last, for the next connection: see tls_files.c. */
    struct lw__tls_trust **trust;
};

enum lw__tls_step {
    LW__TLS_WANTS_READ,
    LW__TLS_WANTS_WRITE,
    LW__TLS_DONE,
    LW__TLS_FAILED /* lw__tls_why explains it */
};

/* Called when a write has failed with `error` (errno). OpenSSL counts the data as
 * written.
 */
typedef void lw__tls_unwritable_fn(void *arg, int error);

#ifdef HAVE_TLS

/* Returns 0, LW_EINVAL (a file or name is unusable, or the build has no TLS) or
 * LW_ENOMEM, with an explanation in `why`. */
int lw__tls_new(const struct lw__tls_options *options, char *why, size_t size,
                struct lw__tls **ret);
/* Starts the handshake, and makes the context use hiredis_ssl's functions. Returns 0, or
 * LW_ECONN: then the functions are unchanged, and the context has an error. */
int lw__tls_begin(struct lw__tls *tls, struct redisAsyncContext *context,
                  lw__tls_unwritable_fn *unwritable, void *arg);
enum lw__tls_step lw__tls_shake(struct lw__tls *tls);
/* Returns the number of bytes received since lw__tls_begin. */
uint64_t lw__tls_heard(const struct lw__tls *tls);
/* Must be called before hiredis reads or writes: OpenSSL would take an error that other
 * code has left in the thread's error queue for its own. */
void lw__tls_forget_errors(struct lw__tls *tls);
/* Returns true if OpenSSL has bytes for which the socket will not become readable. */
bool lw__tls_has_more(const struct lw__tls *tls);
/* Returns why it failed, or what hiredis has just met; NULL if TLS has no error. */
const char *lw__tls_why(struct lw__tls *tls);
/* Returns true if lw__tls_why reports that one side does not accept the other's
 * certificate, protocol version or cipher suites, so that another attempt fails as well.
 * A certificate that is not valid yet does not count.
 */
bool lw__tls_is_rejected(const struct lw__tls *tls);
/* Afterwards only redisAsyncFree may use the connection's functions. NULL is fine. */
void lw__tls_free(struct lw__tls *tls);
void lw__tls_trust_free(struct lw__tls_trust *trust); /* NULL is fine */

#else

#include "lockwire.h"

#include <stdio.h>

static inline int lw__tls_new(const struct lw__tls_options *options, char *why,
                              size_t size, struct lw__tls **ret)
{
    (void)options, (void)ret;
    (void)snprintf(why, size,
                   "rediss:// or valkeys://: this lockwire was built without TLS, "
                   "for which it needs hiredis_ssl 1.1 or later and OpenSSL");
    return LW_EINVAL;
}
/* Without a struct lw__tls the others are never called with one. */
static inline uint64_t lw__tls_heard(const struct lw__tls *tls)
{
    (void)tls;
    return 0;
}
static inline bool lw__tls_has_more(const struct lw__tls *tls)
{
    (void)tls;
    return false;
}
static inline const char *lw__tls_why(struct lw__tls *tls)
{
    (void)tls;
    return "";
}
static inline bool lw__tls_is_rejected(const struct lw__tls *tls)
{
    (void)tls;
    return false;
}
static inline void lw__tls_free(struct lw__tls *tls)
{
    (void)tls;
}
static inline void lw__tls_trust_free(struct lw__tls_trust *trust)
{
    (void)trust;
}

#endif
#endif

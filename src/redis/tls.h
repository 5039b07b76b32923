/* SPDX-License-Identifier: MIT */
/* The TLS of one connection, by OpenSSL and hiredis_ssl; in a build without them every
 * call that makes one explains how to get it. Knows nothing of links.
 *
 * Happy path: lw__tls_new reads the files; once the connection stands, lw__tls_begin;
 * lw__tls_shake whenever something can be read or written, until it is done; from then on
 * hiredis_ssl reads and writes; lw__tls_free before the context is freed. */
#ifndef LW_TLS_H
#define LW_TLS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__tls;
struct lw__tls_trust;
struct redisAsyncContext;

struct lw__tls_options {
    const char *ca;          /* file or folder; NULL: the system's */
    const char *cert, *key;  /* files, both or neither */
    const char *server_name; /* a name or an address; NULL: no TLS */
    bool names_another;      /* that was an option: else it is the URL's host */
    /* What was read of `ca`, for the next connection to use while nothing changes there:
     * a system's hundred authorities take a loop's time. */
    struct lw__tls_trust **trust;
};

enum lw__tls_step {
    LW__TLS_WANTS_READ,
    LW__TLS_WANTS_WRITE,
    LW__TLS_DONE,
    LW__TLS_FAILED /* lw__tls_why tells */
};

/* Writing found that the connection is of no use, and why (errno); to OpenSSL it went. */
typedef void lw__tls_unwritable_fn(void *arg, int error);

/* 0, LW_EINVAL (a file, or a name, is of no use; or the build has no TLS), LW_ENOMEM;
 * `why` tells. */
int lw__tls_new(const struct lw__tls_options *options, char *why, size_t size,
                struct lw__tls **ret);
/* The context's functions are hiredis_ssl's then. 0, LW_ECONN: they are as they were, the
 * context has its error, lw__tls_why tells. */
int lw__tls_begin(struct lw__tls *tls, struct redisAsyncContext *context,
                  lw__tls_unwritable_fn *unwritable, void *arg);
enum lw__tls_step lw__tls_shake(struct lw__tls *tls);
/* How many bytes have come since it has begun. */
uint64_t lw__tls_heard(const struct lw__tls *tls);
/* To be called before hiredis reads or writes: OpenSSL takes an error that somebody else
 * has left in the thread's queue for its own. */
void lw__tls_forget_errors(struct lw__tls *tls);
/* Whether OpenSSL has bytes for which no descriptor will wake. */
bool lw__tls_has_more(const struct lw__tls *tls);
/* Why it failed, or what hiredis has just met; NULL: nothing of TLS. */
const char *lw__tls_why(struct lw__tls *tls);
/* Returns true if lw__tls_why reports that one side does not accept the other's
 * certificate, protocol version or cipher suites, so that another attempt fails as well.
 * A certificate that is not valid yet does not count.
 */
bool lw__tls_is_rejected(const struct lw__tls *tls);
/* The connection's functions must not be called any more, but to free it. NULL is fine.
 */
void lw__tls_free(struct lw__tls *tls);
void lw__tls_trust_free(struct lw__tls_trust *trust); /* NULL is fine */
#endif

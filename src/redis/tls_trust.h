/* SPDX-License-Identifier: MIT */
/* Between tls_files.c and tls_trust.c alone: whom a client's last connection trusted, for
 * its next one. */
#ifndef LW_TLS_TRUST_H
#define LW_TLS_TRUST_H
#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

struct lw__tls_trust;

/* A file that was written to, or is another one, is another version. */
struct lw__tls_version {
    dev_t device;
    ino_t number;
    struct timespec changed;
};

/* What there was before it was read. */
struct lw__tls_seen {
    struct lw__tls_version file, folder;
    bool settled; /* a change from now on would show */
};

/* `ca` NULL: the system's. */
void lw__tls_trust_look(const char *ca, struct lw__tls_seen *ret);
/* The context trusts the same again. False: `trust` is NULL, or of other versions. */
bool lw__tls_trust_again(const struct lw__tls_trust *trust,
                         const struct lw__tls_seen *seen, SSL_CTX *ctx);
/* Whom the context trusts is what was seen: kept, if a change of it would show, in place
 * of what was. */
void lw__tls_trust_keep(struct lw__tls_trust **trust, const struct lw__tls_seen *seen,
                        SSL_CTX *ctx);
#endif

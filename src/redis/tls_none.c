/* SPDX-License-Identifier: MIT */
/* In place of tls.c in a build without TLS: nothing begins, and it is told how to get
 * it. Must not know of OpenSSL. */
#include "redis/tls.h"

#ifndef HAVE_TLS

#include "lockwire.h"

#include <stdio.h>

struct lw__tls {
    char nothing;
};

int lw__tls_new(const struct lw__tls_options *options, char *why, size_t size,
                struct lw__tls **ret)
{
    (void)options;
    (void)ret;
    (void)snprintf(why, size,
                   "rediss://: this lockwire was built without TLS, for which "
                   "it needs hiredis_ssl 1.1 or later and OpenSSL");
    return LW_EINVAL;
}

int lw__tls_begin(struct lw__tls *tls, struct redisAsyncContext *context,
                  lw__tls_unwritable_fn *unwritable, void *arg)
{
    (void)tls;
    (void)context;
    (void)unwritable;
    (void)arg;
    return LW_ECONN;
}

enum lw__tls_step lw__tls_shake(struct lw__tls *tls)
{
    (void)tls;
    return LW__TLS_FAILED;
}

void lw__tls_forget_errors(struct lw__tls *tls)
{
    (void)tls;
}

uint64_t lw__tls_heard(const struct lw__tls *tls)
{
    (void)tls;
    return 0;
}

bool lw__tls_has_more(const struct lw__tls *tls)
{
    (void)tls;
    return false;
}

const char *lw__tls_why(struct lw__tls *tls)
{
    (void)tls;
    return NULL;
}

bool lw__tls_is_rejected(const struct lw__tls *tls)
{
    (void)tls;
    return false;
}

void lw__tls_free(struct lw__tls *tls)
{
    (void)tls;
}

void lw__tls_trust_free(struct lw__tls_trust *trust)
{
    (void)trust;
}

#endif

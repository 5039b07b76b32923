/* SPDX-License-Identifier: MIT */
/* Between tls.c and tls_files.c alone: OpenSSL's context of the files that the options
 * name, and how it is explained that something is of no use. */
#ifndef LW_TLS_INSIDE_H
#define LW_TLS_INSIDE_H
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stddef.h>

struct lw__tls_options;

/* Where it is told what was wrong, and where. */
struct lw__tls_explain {
    char *why;
    size_t size;
};

/* Reads them anew, but for whom to trust where that has not changed (tls_trust.h). 0,
 * LW_EINVAL, LW_ENOMEM: told. */
int lw__tls_files_read(const struct lw__tls_options *options,
                       struct lw__tls_explain explain, SSL_CTX **ret);

/* Each empties OpenSSL's queue of errors, and returns LW_EINVAL or LW_ENOMEM. */
int lw__tls_refuse(struct lw__tls_explain explain, const char *option, const char *value,
                   const char *why);
int lw__tls_no_memory(struct lw__tls_explain explain);
/* Why OpenSSL failed: the first error in its queue, which is empty then; but lack of
 * memory wherever there was any since errno was set to 0. 0: it is not said. */
#define LW__TLS_NO_MEMORY ERR_PACK(ERR_LIB_SSL, 0, ERR_R_MALLOC_FAILURE)
unsigned long lw__tls_cause(void);
const char *lw__tls_text(unsigned long cause);
#endif

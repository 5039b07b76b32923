/* SPDX-License-Identifier: MIT */
/* Shared by tls.c and tls_files.c alone: OpenSSL's context for the files that the options
 * name, and how errors are explained. */
#ifndef LW_TLS_PRIVATE_H
#define LW_TLS_PRIVATE_H
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stddef.h>

struct lw__tls_options;

/* The buffer for an explanation. */
struct lw__tls_explain {
    char *why;
    size_t size;
};

/* Reads the files again, except for trusted authorities that have not changed. Returns 0,
 * or LW_EINVAL or LW_ENOMEM with an explanation. */
int lw__tls_files_read(const struct lw__tls_options *options,
                       struct lw__tls_explain explain, SSL_CTX **ret);

/* Explain an error, and clear OpenSSL's error queue. Return LW_EINVAL and LW_ENOMEM. */
int lw__tls_refuse(struct lw__tls_explain explain, const char *option, const char *value,
                   const char *why);
int lw__tls_no_memory(struct lw__tls_explain explain);
/* lw__tls_cause clears OpenSSL's error queue and returns its first error, 0 if it was
 * empty, or LW__TLS_NO_MEMORY if memory was short at any time since errno was set to 0.
 */
#define LW__TLS_NO_MEMORY ERR_PACK(ERR_LIB_SSL, 0, ERR_R_MALLOC_FAILURE)
unsigned long lw__tls_cause(void);
const char *lw__tls_text(unsigned long cause);
#endif

/* SPDX-License-Identifier: MIT */
/*
 * Owns the use of OpenSSL. Independent of events: hiredis_ssl does the handshake as it
 * reads and writes. tls_begin loads the authority, sets the host name to verify, and
 * calls redisInitiateSSL.
 */
#include "tls.h"

#ifdef HAVE_TLS

#include <hiredis/hiredis.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

const char *tls_begin(redisContext *context, const char *host, const char *ca)
{
    SSL_CTX *trust = SSL_CTX_new(TLS_client_method());
    SSL *ssl;

    if (trust == NULL || (ca != NULL ? SSL_CTX_load_verify_locations(trust, ca, NULL)
                                     : SSL_CTX_set_default_verify_paths(trust)) != 1) {
        return "the authority cannot be read";
    }
    SSL_CTX_set_verify(trust, SSL_VERIFY_PEER, NULL);
    ssl = SSL_new(trust);
    SSL_CTX_free(trust);
    if (ssl == NULL || (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) != 1 &&
                        SSL_set1_host(ssl, host) != 1)) {
        return "out of memory";
    }
    return redisInitiateSSL(context, ssl) == REDIS_OK ? NULL : context->errstr;
}

#else

const char *tls_begin(struct redisContext *context, const char *host, const char *ca)
{
    (void)context, (void)host, (void)ca;
    return "built without TLS";
}

#endif

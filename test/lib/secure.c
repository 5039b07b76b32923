/* SPDX-License-Identifier: MIT */
/*
 * secure.h's side of a connection, by OpenSSL between two buffers. It uses no socket, so
 * that it cannot raise a SIGPIPE, which the library's tests would take for the library's.
 *
 * Usual course: SSL_set_accept_state; SSL_read also does the handshake.
 */
#include "secure.h"
#include "stage.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>

struct secure {
    SSL *ssl;
};

bool secure_wanted(void)
{
    return getenv("LOCKWIRE_TLS") != NULL;
}

static SSL_CTX *read_files(const char *certificate)
{
    const char *folder = getenv("LOCKWIRE_CERTIFICATES");
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    char file[2][300];

    (void)snprintf(file[0], sizeof(file[0]), "%s/%s.pem", folder, certificate);
    (void)snprintf(file[1], sizeof(file[1]), "%s/server.key", folder);
    if (ctx == NULL || SSL_CTX_use_certificate_chain_file(ctx, file[0]) != 1 ||
        SSL_CTX_use_PrivateKey_file(ctx, file[1], SSL_FILETYPE_PEM) != 1) {
        stage_fail("%s: %s", file[0], ERR_reason_error_string(ERR_peek_error()));
    }
    return ctx;
}

struct secure *secure_new(const char *certificate)
{
    struct secure *secure = calloc(1, sizeof(*secure));
    SSL_CTX *ctx = read_files(certificate);

    if (secure == NULL || (secure->ssl = SSL_new(ctx)) == NULL) {
        stage_fail("secure: memory");
    }
    SSL_CTX_free(ctx);
    SSL_set_bio(secure->ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_accept_state(secure->ssl);
    return secure;
}

void secure_free(struct secure *secure)
{
    if (secure != NULL) {
        SSL_free(secure->ssl);
    }
    free(secure);
}

void *secure_ssl(struct secure *secure)
{
    return secure->ssl;
}

void secure_feed(struct secure *secure, const char *bytes, size_t length)
{
    (void)BIO_write(SSL_get_rbio(secure->ssl), bytes, (int)length);
}

/* Clears the error queue: the library under test runs in the same thread, and would find
 * our errors. */
ssize_t secure_take(struct secure *secure, char *bytes, size_t size)
{
    int length, error;

    ERR_clear_error();
    length = SSL_read(secure->ssl, bytes, (int)size);
    error = SSL_get_error(secure->ssl, length);
    ERR_clear_error();
    if (length > 0) {
        return length;
    }
    return error == SSL_ERROR_WANT_READ ? -1 : 0;
}

bool secure_ready(const struct secure *secure)
{
    return SSL_is_init_finished(secure->ssl) == 1;
}

void secure_put(struct secure *secure, const char *bytes, size_t length)
{
    ERR_clear_error();
    if (SSL_write(secure->ssl, bytes, (int)length) != (int)length) {
        stage_complain("secure: %s", ERR_reason_error_string(ERR_peek_error()));
    }
    ERR_clear_error();
}

void secure_put_end(struct secure *secure)
{
    (void)SSL_shutdown(secure->ssl);
    ERR_clear_error();
}

size_t secure_fetch(struct secure *secure, char *bytes, size_t size)
{
    int length = BIO_read(SSL_get_wbio(secure->ssl), bytes, (int)size);

    return length > 0 ? (size_t)length : 0;
}

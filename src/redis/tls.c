/* SPDX-License-Identifier: MIT */
/* The TLS of one connection: see tls.h. Independent of the data that it carries.
 *
 * Every connection reads the files again (see tls_files.c for the exception), so that
 * certificates can be renewed while a client runs. The server's chain and name are always
 * verified; nothing turns that off. An error gives the file or the certificate's name,
 * and OpenSSL's own reason.
 *
 * hiredis_ssl makes OpenSSL write with write(2), which raises SIGPIPE. So the first
 * message is sent with that signal blocked, and from then on a BIO of ours writes. It
 * accepts data that it cannot write and reports the error separately, so that what the
 * server sent last is still read before the connection ends. */
#include "redis/tls.h"

#ifdef HAVE_TLS

#include "base/process.h"
#include "base/escape.h"
#include "lockwire.h"
#include "redis/tls_private.h"

#include <errno.h>
#include <hiredis/async.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* SO_NOSIGPIPE does it there */
#endif

#define NAME_SIZE 256 /* of a host's name, NUL included */
#define CLOSED "the server closed the connection"

struct lw__tls {
    SSL *ssl; /* owned by hiredis_ssl once it has begun */
    BIO_METHOD *method;
    BIO *bio; /* owned by the SSL once it has begun */
    int fd;
    bool begun, shaken, failed;
    bool rejected;     /* see lw__tls_is_rejected */
    bool lacks_memory; /* during the handshake, or in the last read or write */
    lw__tls_unwritable_fn *unwritable;
    void *arg;
    char name[NAME_SIZE];
    char why[LW_WHY_SIZE]; /* "" while nothing has failed */
};

/* ---- the server's name ---- */

/* Copies the name that the certificate must have, without the zone of an address and
 * without the final dot of a complete name. OpenSSL would verify no name if it were
 * empty, and any subdomain if it began with a dot: these are rejected. */
static bool read_name(struct lw__tls *tls, const char *name)
{
    size_t length = strcspn(name, "%");

    if (length == 0 || length >= sizeof(tls->name) || name[0] == '.') {
        return false;
    }
    memcpy(tls->name, name, length);
    if (tls->name[length - 1] == '.') {
        length--;
    }
    tls->name[length] = '\0';
    return true;
}

/* An address is not sent as SNI, which RFC 6066 forbids. The common name of a certificate
 * does not count (RFC 9525). */
static bool expect_name(SSL *ssl, const char *name)
{
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1) {
        return true;
    }
    ERR_clear_error(); /* it is not an address */
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS |
                               X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

/* Without memory OpenSSL may continue, and fail later with a reason that blames the
 * server. Its error queue does not show that, but errno does until the alert is written;
 * this callback runs before that. */
static void look_for_memory(int writing, int version, int type, const void *bytes,
                            size_t length, SSL *ssl, void *arg)
{
    struct lw__tls *tls = arg;

    (void)writing, (void)version, (void)type, (void)bytes, (void)length, (void)ssl;
    if (errno == ENOMEM) {
        tls->lacks_memory = true;
    }
}

/* ---- the BIO ---- */

static int write_bio(BIO *bio, const char *bytes, int length)
{
    struct lw__tls *tls = BIO_get_data(bio);
    ssize_t written = send(tls->fd, bytes, (size_t)length, MSG_NOSIGNAL);

    BIO_clear_retry_flags(bio);
    if (written < 0 && (errno == EAGAIN || errno == EINTR)) {
        BIO_set_retry_write(bio);
        return -1;
    }
    if (written < 0) {
        tls->unwritable(tls->arg, errno);
        return length;
    }
    return (int)written;
}

static long control_bio(BIO *bio, int what, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return what == BIO_CTRL_FLUSH ? 1 : 0; /* nothing is buffered */
}

/* Each connection has its own method: a shared one would have to outlive every thread. */
static bool make_bio(struct lw__tls *tls)
{
    tls->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "lockwire");
    if (tls->method == NULL || BIO_meth_set_write(tls->method, write_bio) != 1 ||
        BIO_meth_set_ctrl(tls->method, control_bio) != 1) {
        return false;
    }
    tls->bio = BIO_new(tls->method);
    if (tls->bio == NULL) {
        return false;
    }
    BIO_set_data(tls->bio, tls);
    BIO_set_init(tls->bio, 1);
    return true;
}

/* ---- life ---- */

int lw__tls_new(const struct lw__tls_options *options, char *why, size_t size,
                struct lw__tls **ret)
{
    struct lw__tls_explain explain = {why, size};
    struct lw__tls *tls = calloc(1, sizeof(*tls));
    SSL_CTX *ctx = NULL;
    int status = LW_ENOMEM;

    ERR_clear_error();
    errno = 0;
    if (tls == NULL) {
        return lw__tls_no_memory(explain);
    }
    if (!read_name(tls, options->server_name)) {
        status = lw__tls_refuse(
            explain, options->names_another ? "tls_server_name" : "the URL's host",
            options->server_name, "not a valid server name");
    } else {
        status = lw__tls_files_read(options, explain, &ctx);
    }
    if (status == 0) {
        tls->ssl = SSL_new(ctx);
        if (tls->ssl == NULL || !expect_name(tls->ssl, tls->name) || !make_bio(tls)) {
            status = lw__tls_no_memory(explain);
        } else {
            SSL_set_msg_callback(tls->ssl, look_for_memory);
            SSL_set_msg_callback_arg(tls->ssl, tls);
            tls->lacks_memory = lw__tls_cause() == LW__TLS_NO_MEMORY;
        }
    }
    SSL_CTX_free(ctx); /* the SSL has a reference */
    if (status != 0) {
        lw__tls_free(tls);
        return status;
    }
    *ret = tls;
    return 0;
}

void lw__tls_free(struct lw__tls *tls)
{
    if (tls == NULL) {
        return;
    }
    if (tls->begun) {
        SSL_set_msg_callback(tls->ssl, NULL);
        SSL_set0_wbio(tls->ssl, NULL); /* hiredis frees the SSL after its method */
    } else {
        SSL_free(tls->ssl);
        (void)BIO_free(tls->bio);
    }
    BIO_meth_free(tls->method);
    free(tls);
}

/* ---- the handshake ---- */

/* Returns true for an alert by which the server rejects our certificate, protocol version
 * or cipher suites, and if we reject the server's version. Alerts of other kinds
 * (internal error, user canceled) may pass. */
static bool is_rejection(unsigned long cause)
{
    if (ERR_GET_LIB(cause) != ERR_LIB_SSL) {
        return false;
    }
    if (ERR_GET_REASON(cause) == SSL_R_UNSUPPORTED_PROTOCOL ||
        ERR_GET_REASON(cause) == SSL_R_NO_PROTOCOLS_AVAILABLE) {
        return true;
    }
    switch (ERR_GET_REASON(cause) - SSL_AD_REASON_OFFSET) {
    case SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_PROTOCOL_VERSION:
    case SSL_AD_INSUFFICIENT_SECURITY:
    case SSL_AD_UNRECOGNIZED_NAME:
    case SSL_AD_CERTIFICATE_REQUIRED:
        return true;
    default:
        return false;
    }
}

/* Records the failure. `otherwise` is the reason if OpenSSL has none (`cause` is 0). */
static void note(struct lw__tls *tls, unsigned long cause, const char *otherwise)
{
    long verified = SSL_get_verify_result(tls->ssl);
    const char *why = cause != 0 ? lw__tls_text(cause) : otherwise;

    tls->failed = true;
    if (cause == LW__TLS_NO_MEMORY || tls->lacks_memory ||
        verified == X509_V_ERR_OUT_OF_MEM) {
        (void)snprintf(tls->why, sizeof(tls->why), "%s", lw_strerror(LW_ENOMEM));
    } else if (verified != X509_V_OK) {
        (void)snprintf(tls->why, sizeof(tls->why),
                       "the certificate is refused: %.60s (%.60s)",
                       X509_verify_cert_error_string(verified), tls->name);
        /* A certificate becomes valid when the clock of this machine is set. */
        tls->rejected = verified != X509_V_ERR_CERT_NOT_YET_VALID;
    } else if (!tls->shaken && ERR_GET_LIB(cause) == ERR_LIB_SSL &&
               ERR_GET_REASON(cause) == SSL_R_WRONG_VERSION_NUMBER) {
        (void)snprintf(
            tls->why, sizeof(tls->why),
            "the server does not use TLS on this port (try redis:// or valkey://): %.40s",
            why);
    } else {
        (void)snprintf(tls->why, sizeof(tls->why), "%s", why);
        tls->rejected = is_rejection(cause);
    }
    ERR_clear_error(); /* the host might take it for its own */
}

int lw__tls_begin(struct lw__tls *tls, struct redisAsyncContext *context,
                  lw__tls_unwritable_fn *unwritable, void *arg)
{
    const redisContextFuncs *before = context->c.funcs;
    struct lw__process_sigpipe held;
    int status;

    tls->fd = context->c.fd;
    tls->unwritable = unwritable;
    tls->arg = arg;
    lw__process_block_sigpipe(&held);
    errno = 0;
    status = redisInitiateSSL(&context->c, tls->ssl);
    if (status != REDIS_OK) {
        tls->lacks_memory = tls->lacks_memory || SSL_get_rbio(tls->ssl) == NULL;
        note(tls, lw__tls_cause(),
             SSL_get_shutdown(tls->ssl) != 0 ? CLOSED : context->c.errstr);
    }
    lw__process_unblock_sigpipe(&held);
    if (status != REDIS_OK) {
        context->c.funcs = before;
        return LW_ECONN;
    }
    SSL_set0_wbio(tls->ssl, tls->bio);
    tls->begun = true;
    return 0;
}

enum lw__tls_step lw__tls_shake(struct lw__tls *tls)
{
    unsigned long cause;
    int result, error;

    if (tls->failed) {
        return LW__TLS_FAILED;
    }
    ERR_clear_error();
    errno = 0;
    result = SSL_do_handshake(tls->ssl);
    if (result == 1) {
        tls->shaken = true;
        return LW__TLS_DONE;
    }
    error = errno;
    switch (SSL_get_error(tls->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return LW__TLS_WANTS_READ;
    case SSL_ERROR_WANT_WRITE:
        return LW__TLS_WANTS_WRITE;
    default:
        break;
    }
    errno = error;
    cause = lw__tls_cause();
    note(tls, cause, error != 0 ? strerror(error) : CLOSED);
    return LW__TLS_FAILED;
}

uint64_t lw__tls_heard(const struct lw__tls *tls)
{
    return BIO_number_read(SSL_get_rbio(tls->ssl));
}

/* ---- after the handshake ---- */

/* Peeking costs a quarter of clearing, which goes through the whole queue. */
void lw__tls_forget_errors(struct lw__tls *tls)
{
    if (ERR_peek_error() != 0) {
        ERR_clear_error();
    }
    errno = 0;
    tls->lacks_memory = false;
}

/* An incomplete record does not count: the socket becomes readable for its rest. */
bool lw__tls_has_more(const struct lw__tls *tls)
{
    return SSL_has_pending(tls->ssl) == 1 && !SSL_want_read(tls->ssl);
}

const char *lw__tls_why(struct lw__tls *tls)
{
    unsigned long cause = lw__tls_cause();

    if (tls->why[0] == '\0' && (cause != 0 || tls->lacks_memory)) {
        note(tls, cause, "");
    }
    return tls->why[0] != '\0' ? tls->why : NULL;
}

bool lw__tls_is_rejected(const struct lw__tls *tls)
{
    return tls->rejected;
}

#endif

/* SPDX-License-Identifier: MIT */
/* The TLS of one connection. Must not know what is said on it, or what a link is.
 *
 * Every connection reads the files anew, so that certificates may be renewed under a
 * client that runs. The server's chain and name are always verified; nothing turns that
 * off. Each failure tells the file, or the certificate's, and OpenSSL's own reason.
 *
 * hiredis_ssl makes OpenSSL write by write(2), which raises SIGPIPE; so the first message
 * is sent with that signal held, and from then on a BIO of ours writes. What it cannot
 * write it takes all the same and tells: what the server said last is read before the
 * connection ends. */
#include "redis/tls.h"

#include "lockwire.h"

#include <stdio.h>

#ifdef HAVE_TLS

#include "base/sigpipe.h"
#include "base/told.h"

#include <errno.h>
#include <hiredis/async.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* SO_NOSIGPIPE does it there */
#endif

#define NAME_SIZE 256 /* of a host's name, NUL included */

struct lw__tls {
    SSL *ssl; /* hiredis_ssl's once it has begun */
    BIO_METHOD *method;
    BIO *bio; /* the SSL's once it has begun */
    int fd;
    bool begun, failed;
    lw__tls_unwritable_fn *unwritable;
    void *arg;
    char name[NAME_SIZE];
    char why[LW__WHY]; /* "": nothing has failed */
};

/* Explaining */

struct explain {
    char *why;
    size_t size;
};

/* The first error in the queue is the cause of the others. NULL: there is none. */
static const char *reason(void)
{
    unsigned long error = ERR_peek_error();
    const char *text = NULL;

    if (error == 0) {
        return NULL;
    }
    if (ERR_GET_LIB(error) == ERR_LIB_SYS) {
        return strerror(ERR_GET_REASON(error));
    }
    text = ERR_reason_error_string(error);
    return text != NULL ? text : "an error without a name";
}

static bool is_no_memory(void)
{
    unsigned long error = ERR_peek_error();

    return error != 0 && ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE;
}

static int no_memory(struct explain explain)
{
    ERR_clear_error();
    (void)snprintf(explain.why, explain.size, "%s", lw_strerror(LW_ENOMEM));
    return LW_ENOMEM;
}

static int refuse(struct explain explain, const char *option, const char *value,
                  const char *why)
{
    (void)snprintf(explain.why, explain.size, "%s %s: %s", option, value, why);
    ERR_clear_error();
    return LW_EINVAL;
}

static int refuse_file(struct explain explain, const char *option, const char *file)
{
    const char *why = reason();

    return is_no_memory()
               ? no_memory(explain)
               : refuse(explain, option, file, why != NULL ? why : "it cannot be used");
}

/* The files */

/* What is neither could be one that takes for ever to be opened. */
static int look_at(const char *option, const char *file, bool folder_too, bool *folder,
                   struct explain explain)
{
    struct stat about;

    if (stat(file, &about) < 0 || access(file, R_OK) < 0) {
        return refuse(explain, option, file, strerror(errno));
    }
    *folder = S_ISDIR(about.st_mode);
    if (!S_ISREG(about.st_mode) && !(folder_too && *folder)) {
        return refuse(explain, option, file,
                      folder_too ? "it is neither a file nor a folder" : "it is no file");
    }
    return 0;
}

static int load_ca(SSL_CTX *ctx, const char *ca, struct explain explain)
{
    bool folder = false;
    int status;

    if (ca == NULL) {
        return SSL_CTX_set_default_verify_paths(ctx) == 1
                   ? 0
                   : refuse_file(explain, "tls_ca", "(the system's)");
    }
    status = look_at("tls_ca", ca, true, &folder, explain);
    if (status == 0 &&
        SSL_CTX_load_verify_locations(ctx, folder ? NULL : ca, folder ? ca : NULL) != 1) {
        status = refuse_file(explain, "tls_ca", ca);
    }
    return status;
}

/* OpenSSL would ask at the terminal, and wait. */
static int no_passphrase(char *text, int size, int writing, void *arg)
{
    (void)text;
    (void)size;
    (void)writing;
    *(bool *)arg = true;
    return -1;
}

static int load_cert(SSL_CTX *ctx, const struct lw__tls_options *o,
                     struct explain explain)
{
    bool folder = false, asked = false;
    int status;

    if (o->cert == NULL) {
        return 0;
    }
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(ctx, &asked);
    status = look_at("tls_cert", o->cert, false, &folder, explain);
    if (status == 0 && SSL_CTX_use_certificate_chain_file(ctx, o->cert) != 1) {
        status = refuse_file(explain, "tls_cert", o->cert);
    }
    if (status == 0) {
        status = look_at("tls_key", o->key, false, &folder, explain);
    }
    if (status == 0 && (SSL_CTX_use_PrivateKey_file(ctx, o->key, SSL_FILETYPE_PEM) != 1 ||
                        SSL_CTX_check_private_key(ctx) != 1)) {
        status = asked ? refuse(explain, "tls_key", o->key, "it has a passphrase")
                       : refuse_file(explain, "tls_key", o->key);
    }
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    return status;
}

static int make_ctx(const struct lw__tls_options *o, struct explain explain,
                    SSL_CTX **ret)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    int status;

    if (ctx == NULL || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1) {
        SSL_CTX_free(ctx);
        return no_memory(explain);
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(ctx, 1); /* else each record takes two system calls */
    status = load_ca(ctx, o->ca, explain);
    if (status == 0) {
        status = load_cert(ctx, o, explain);
    }
    if (status != 0) {
        SSL_CTX_free(ctx);
        return status;
    }
    *ret = ctx;
    return 0;
}

/* The name that the certificate must be for: without the zone of an address, and without
 * the dot of a name that is complete. OpenSSL would verify no name at all if it were
 * empty, and any below it if it began with a dot. */
static bool take_name(struct lw__tls *tls, const char *name)
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

/* Addresses are not announced to the server, which RFC 6066 forbids. */
static bool expect_name(SSL *ssl, const char *name)
{
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1) {
        return true;
    }
    ERR_clear_error(); /* that it was none */
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

/* The BIO */

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
    return what == BIO_CTRL_FLUSH ? 1 : 0; /* nothing is kept back */
}

/* The method is the connection's own: one for all would have to outlive every thread. */
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

/* Its life */

int lw__tls_new(const struct lw__tls_options *options, char *why, size_t size,
                struct lw__tls **ret)
{
    struct explain explain = {why, size};
    struct lw__tls *tls = calloc(1, sizeof(*tls));
    SSL_CTX *ctx = NULL;
    int status = LW_ENOMEM;

    ERR_clear_error();
    if (tls == NULL) {
        return no_memory(explain);
    }
    if (!take_name(tls, options->server_name)) {
        status = refuse(explain, "tls_server_name", options->server_name,
                        "it is no name of a server");
    } else {
        status = make_ctx(options, explain, &ctx);
    }
    if (status == 0) {
        tls->ssl = SSL_new(ctx);
        if (tls->ssl == NULL || !expect_name(tls->ssl, tls->name) || !make_bio(tls)) {
            status = no_memory(explain);
        }
    }
    SSL_CTX_free(ctx); /* the SSL keeps it */
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
        SSL_set0_wbio(tls->ssl, NULL); /* whose method goes now, and hiredis' SSL later */
    } else {
        SSL_free(tls->ssl);
        (void)BIO_free(tls->bio);
    }
    BIO_meth_free(tls->method);
    free(tls);
}

/* Shaking hands */

static void note(struct lw__tls *tls, const char *why)
{
    long verified = SSL_get_verify_result(tls->ssl);

    tls->failed = true;
    if (verified != X509_V_OK) {
        (void)snprintf(tls->why, sizeof(tls->why),
                       "the certificate is refused: %.60s (%.60s)",
                       X509_verify_cert_error_string(verified), tls->name);
    } else if (ERR_GET_LIB(ERR_peek_error()) == ERR_LIB_SSL &&
               ERR_GET_REASON(ERR_peek_error()) == SSL_R_WRONG_VERSION_NUMBER) {
        (void)snprintf(tls->why, sizeof(tls->why),
                       "the server speaks no TLS there (%.40s): redis:// is without",
                       why);
    } else {
        (void)snprintf(tls->why, sizeof(tls->why), "%s", why);
    }
}

int lw__tls_begin(struct lw__tls *tls, struct redisAsyncContext *context,
                  lw__tls_unwritable_fn *unwritable, void *arg)
{
    const redisContextFuncs *before = context->c.funcs;
    struct lw__sigpipe held;
    int status;

    tls->fd = context->c.fd;
    tls->unwritable = unwritable;
    tls->arg = arg;
    lw__sigpipe_hold(&held);
    status = redisInitiateSSL(&context->c, tls->ssl);
    lw__sigpipe_let_go(&held);
    if (status != REDIS_OK) {
        const char *why = reason();
        context->c.funcs = before;
        note(tls, why != NULL ? why : context->c.errstr);
        return LW_ECONN;
    }
    SSL_set0_wbio(tls->ssl, tls->bio);
    tls->begun = true;
    return 0;
}

enum lw__tls_step lw__tls_shake(struct lw__tls *tls)
{
    const char *why;
    int result, error;

    if (tls->failed) {
        return LW__TLS_FAILED;
    }
    ERR_clear_error();
    errno = 0;
    result = SSL_do_handshake(tls->ssl);
    if (result == 1) {
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
    why = reason();
    if (why == NULL) {
        why = error != 0 ? strerror(error) : "the server closed the connection";
    }
    note(tls, why);
    ERR_clear_error();
    return LW__TLS_FAILED;
}

bool lw__tls_has_heard(const struct lw__tls *tls)
{
    return BIO_number_read(SSL_get_rbio(tls->ssl)) > 0;
}

/* Afterwards */

void lw__tls_forget_errors(void)
{
    ERR_clear_error();
}

/* What is left of a record that is not whole wants to be read, and is not looked at. */
bool lw__tls_has_more(const struct lw__tls *tls)
{
    return SSL_has_pending(tls->ssl) == 1 && !SSL_want_read(tls->ssl);
}

const char *lw__tls_why(struct lw__tls *tls)
{
    const char *why = reason();

    if (tls->why[0] == '\0' && why != NULL) {
        note(tls, why);
        ERR_clear_error();
    }
    return tls->why[0] != '\0' ? tls->why : NULL;
}

#else

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

void lw__tls_forget_errors(void)
{
}

bool lw__tls_has_heard(const struct lw__tls *tls)
{
    (void)tls;
    return false;
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

void lw__tls_free(struct lw__tls *tls)
{
    (void)tls;
}

#endif

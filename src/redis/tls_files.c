/* SPDX-License-Identifier: MIT */
/* The files of TLS: whom to trust, the client's own certificate and its key. Must not
 * know of connections. What is of no use is told with its option, the file, and OpenSSL's
 * own reason. Happy path: lw__tls_files_read, and a context that verifies every server.
 */
#include "redis/tls.h"

#ifdef HAVE_TLS

#include "lockwire.h"
#include "redis/tls_inside.h"
#include "redis/tls_trust.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Explaining */

/* Memory is out where OpenSSL says so of anything that it tried, be it that the reason
 * it gives first is another one; where it had none to say so either, errno tells. */
static bool is_no_memory(unsigned long error)
{
    int reason = ERR_GET_REASON(error);

    return ERR_GET_LIB(error) == ERR_LIB_SYS ? reason == ENOMEM
                                             : reason == ERR_R_MALLOC_FAILURE;
}

unsigned long lw__tls_cause(void)
{
    bool no_memory = errno == ENOMEM;
    unsigned long first = ERR_peek_error(), error;

    while ((error = ERR_get_error()) != 0) {
        no_memory = no_memory || is_no_memory(error);
    }
    return no_memory ? LW__TLS_NO_MEMORY : first;
}

const char *lw__tls_text(unsigned long cause)
{
    const char *text;

    if (cause == LW__TLS_NO_MEMORY) {
        return lw_strerror(LW_ENOMEM);
    }
    if (ERR_GET_LIB(cause) == ERR_LIB_SYS) {
        return strerror(ERR_GET_REASON(cause));
    }
    text = ERR_reason_error_string(cause);
    return text != NULL ? text : "an error without a name";
}

int lw__tls_no_memory(struct lw__tls_explain explain)
{
    ERR_clear_error();
    (void)snprintf(explain.why, explain.size, "%s", lw_strerror(LW_ENOMEM));
    return LW_ENOMEM;
}

int lw__tls_refuse(struct lw__tls_explain explain, const char *option, const char *value,
                   const char *why)
{
    (void)snprintf(explain.why, explain.size, "%s %s: %s", option, value, why);
    ERR_clear_error();
    return LW_EINVAL;
}

static int refuse_file(struct lw__tls_explain explain, const char *option,
                       const char *file)
{
    unsigned long cause = lw__tls_cause();

    if (cause == LW__TLS_NO_MEMORY) {
        return lw__tls_no_memory(explain);
    }
    return lw__tls_refuse(explain, option, file,
                          cause != 0 ? lw__tls_text(cause) : "it cannot be used");
}

/* The files */

/* What is neither could be one that takes for ever to be opened. */
static int look_at(const char *option, const char *file, bool folder_too, bool *folder,
                   struct lw__tls_explain explain)
{
    struct stat about;

    if (stat(file, &about) < 0 || access(file, R_OK) < 0) {
        return lw__tls_refuse(explain, option, file, strerror(errno));
    }
    *folder = S_ISDIR(about.st_mode);
    if (!S_ISREG(about.st_mode) && !(folder_too && *folder)) {
        return lw__tls_refuse(explain, option, file,
                              folder_too ? "it is neither a file nor a folder"
                                         : "it is no file");
    }
    return 0;
}

static int read_ca(SSL_CTX *ctx, const char *ca, struct lw__tls_explain explain)
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

static int load_ca(SSL_CTX *ctx, const struct lw__tls_options *o,
                   struct lw__tls_explain explain)
{
    struct lw__tls_seen seen;
    int status;

    lw__tls_trust_look(o->ca, &seen);
    if (lw__tls_trust_again(*o->trust, &seen, ctx)) {
        return 0;
    }
    status = read_ca(ctx, o->ca, explain);
    if (status == 0 && lw__tls_cause() == LW__TLS_NO_MEMORY) {
        errno = ENOMEM; /* an authority may lack its key: not to be kept, but noted */
    } else if (status == 0) {
        lw__tls_trust_keep(o->trust, &seen, ctx);
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

/* The C library would read the file into memory of its own, and leave it there. */
static bool use_key(SSL_CTX *ctx, const char *file)
{
    char text[4096];
    BIO *in = BIO_new_file(file, "r");
    FILE *stream = NULL;
    EVP_PKEY *key = NULL;
    bool good;

    if (in != NULL && BIO_get_fp(in, &stream) == 1 &&
        setvbuf(stream, text, _IOFBF, sizeof(text)) == 0) {
        key = PEM_read_bio_PrivateKey(in, NULL, SSL_CTX_get_default_passwd_cb(ctx),
                                      SSL_CTX_get_default_passwd_cb_userdata(ctx));
    }
    good = key != NULL && SSL_CTX_use_PrivateKey(ctx, key) == 1;
    EVP_PKEY_free(key);
    (void)BIO_free(in);
    explicit_bzero(text, sizeof(text));
    return good;
}

static int load_cert(SSL_CTX *ctx, const struct lw__tls_options *o,
                     struct lw__tls_explain explain)
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
    if (status == 0 && (!use_key(ctx, o->key) || SSL_CTX_check_private_key(ctx) != 1)) {
        status = asked ? lw__tls_refuse(explain, "tls_key", o->key, "it has a passphrase")
                       : refuse_file(explain, "tls_key", o->key);
    }
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    return status;
}

/* The machine's own configuration may want more, and has been heard by then. */
static bool is_modern(SSL_CTX *ctx)
{
    return SSL_CTX_get_min_proto_version(ctx) >= TLS1_2_VERSION ||
           SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1;
}

int lw__tls_files_read(const struct lw__tls_options *o, struct lw__tls_explain explain,
                       SSL_CTX **ret)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    int status;

    if (ctx == NULL || !is_modern(ctx)) {
        SSL_CTX_free(ctx);
        return lw__tls_no_memory(explain);
    }
    SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(ctx, 1); /* else each record takes two system calls */
    status = load_ca(ctx, o, explain);
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

#endif

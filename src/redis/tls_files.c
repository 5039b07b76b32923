/* SPDX-License-Identifier: MIT */
/* Reads the files of TLS: the trusted authorities, and the client's certificate and key.
 * Independent of connections. An error names the option, the file, and OpenSSL's own
 * reason. The result is an OpenSSL context that verifies every server. */
#include "redis/tls.h"

#ifdef HAVE_TLS

#include "base/wipe.h"
#include "lockwire.h"
#include "redis/tls_private.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- errors ---- */

/* Lack of memory may appear anywhere in OpenSSL's error queue, not only first; if OpenSSL
 * had no memory to note that either, errno is ENOMEM. */
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
    return text != NULL ? text : "unknown OpenSSL error";
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
                          cause != 0 ? lw__tls_text(cause)
                                     : "unusable, OpenSSL reports no reason");
}

/* ---- the authorities that are trusted ----
 *
 * OpenSSL takes tens of milliseconds to read a system's authorities, too long for each
 * connection, and memory for each. So connections share them for as long as the files
 * have not changed. */

#ifdef __APPLE__
#define st_ctim st_ctimespec
#endif

#define SETTLED_S 2 /* file times are coarse: after this a further change is visible */

/* A file that was written to, or replaced, has another version. */
struct version {
    dev_t device;
    ino_t number;
    struct timespec changed;
};

/* The versions before the files were read. */
struct seen {
    struct version file, folder;
    bool settled; /* a change from now on would be visible */
};

struct lw__tls_trust {
    X509_STORE *store;
    struct seen seen;
};

static void note_version(const char *path, struct version *version, bool *settled)
{
    struct stat about;

    if (stat(path, &about) == 0) {
        version->device = about.st_dev;
        version->number = about.st_ino;
        version->changed = about.st_ctim;
        *settled = *settled && time(NULL) - about.st_ctim.tv_sec >= SETTLED_S;
    }
}

static bool is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

static const char *system_path(const char *variable, const char *otherwise)
{
    const char *path = getenv(variable);

    return path != NULL ? path : otherwise;
}

/* `ca` NULL: the system's authorities. A folder is never settled: OpenSSL itself reads
 * only what it needs of it. */
static void note_versions(const char *ca, struct seen *ret)
{
    *ret = (struct seen){.settled = true};
    if (ca != NULL) {
        note_version(ca, &ret->file, &ret->settled);
        ret->settled = ret->settled && !is_folder(ca);
    } else {
        note_version(
            system_path(X509_get_default_cert_file_env(), X509_get_default_cert_file()),
            &ret->file, &ret->settled);
        note_version(
            system_path(X509_get_default_cert_dir_env(), X509_get_default_cert_dir()),
            &ret->folder, &ret->settled);
    }
}

static bool is_same(const struct version *a, const struct version *b)
{
    return a->device == b->device && a->number == b->number &&
           a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

/* Makes the context trust the same authorities again. Returns false if `trust` is NULL or
 * belongs to other versions of the files. */
static bool trust_again(const struct lw__tls_trust *trust, const struct seen *seen,
                        SSL_CTX *ctx)
{
    if (trust == NULL || !is_same(&trust->seen.file, &seen->file) ||
        !is_same(&trust->seen.folder, &seen->folder)) {
        return false;
    }
    SSL_CTX_set1_cert_store(ctx, trust->store);
    return true;
}

/* Keeps the authorities that the context trusts for the next connection, if a later
 * change of their files would be noticed. */
static void keep_trust(struct lw__tls_trust **trust, const struct seen *seen,
                       SSL_CTX *ctx)
{
    lw__tls_trust_free(*trust);
    *trust = seen->settled ? malloc(sizeof(**trust)) : NULL;
    if (*trust != NULL) { /* else they are read again next time */
        (*trust)->store = SSL_CTX_get_cert_store(ctx);
        (*trust)->seen = *seen;
        (void)X509_STORE_up_ref((*trust)->store);
    }
}

void lw__tls_trust_free(struct lw__tls_trust *trust)
{
    if (trust != NULL) {
        X509_STORE_free(trust->store);
        free(trust);
    }
}

/* ---- the files ---- */

/* Checks the kind of file before opening it: opening a FIFO, for example, would block. */
static int check_file(const char *option, const char *file, bool folder_too, bool *folder,
                      struct lw__tls_explain explain)
{
    struct stat about;

    if (stat(file, &about) < 0 || access(file, R_OK) < 0) {
        return lw__tls_refuse(explain, option, file, strerror(errno));
    }
    *folder = S_ISDIR(about.st_mode);
    if (!S_ISREG(about.st_mode) && !(folder_too && *folder)) {
        return lw__tls_refuse(explain, option, file,
                              folder_too ? "neither a regular file nor a directory"
                                         : "not a regular file");
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
    status = check_file("tls_ca", ca, true, &folder, explain);
    if (status == 0 &&
        SSL_CTX_load_verify_locations(ctx, folder ? NULL : ca, folder ? ca : NULL) != 1) {
        status = refuse_file(explain, "tls_ca", ca);
    }
    return status;
}

static int load_ca(SSL_CTX *ctx, const struct lw__tls_options *o,
                   struct lw__tls_explain explain)
{
    struct seen seen;
    int status;

    note_versions(o->ca, &seen);
    if (trust_again(*o->trust, &seen, ctx)) {
        return 0;
    }
    status = read_ca(ctx, o->ca, explain);
    if (status == 0 && lw__tls_cause() == LW__TLS_NO_MEMORY) {
        errno = ENOMEM; /* an authority may be incomplete: do not keep it, but note it */
    } else if (status == 0) {
        keep_trust(o->trust, &seen, ctx);
    }
    return status;
}

/* Without this OpenSSL would ask at the terminal, and wait. */
static int no_passphrase(char *text, int size, int writing, void *arg)
{
    (void)text;
    (void)size;
    (void)writing;
    *(bool *)arg = true;
    return -1;
}

/* With a buffer of its own, the C library would leave the key in memory. */
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
    lw__wipe(text, sizeof(text));
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
    status = check_file("tls_cert", o->cert, false, &folder, explain);
    if (status == 0 && SSL_CTX_use_certificate_chain_file(ctx, o->cert) != 1) {
        status = refuse_file(explain, "tls_cert", o->cert);
    }
    if (status == 0) {
        status = check_file("tls_key", o->key, false, &folder, explain);
    }
    if (status == 0 && (!use_key(ctx, o->key) || SSL_CTX_check_private_key(ctx) != 1)) {
        status = asked
                     ? lw__tls_refuse(explain, "tls_key", o->key,
                                      "protected by a passphrase, which is not supported")
                     : refuse_file(explain, "tls_key", o->key);
    }
    SSL_CTX_set_default_passwd_cb_userdata(ctx, NULL);
    return status;
}

/* The configuration of the machine, which is in effect by now, may require a later
 * version. */
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

/* SPDX-License-Identifier: MIT */
/* Whom a client's connections trust. Must not know how it is read.
 *
 * OpenSSL takes tens of milliseconds for a system's authorities, which the loop has not
 * for each connection, nor memory for each: they are shared for as long as their file is
 * the same. Happy path: look; again, or else read, and keep. */
#include "redis/tls.h"

#ifdef HAVE_TLS

#include "redis/tls_trust.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SETTLED_S 2 /* the clock of files is coarse: by then a further change shows */

struct lw__tls_trust {
    X509_STORE *store;
    struct lw__tls_seen seen;
};

static void look(const char *path, struct lw__tls_version *version, bool *settled)
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

/* Of a folder OpenSSL itself reads no more than it needs. */
void lw__tls_trust_look(const char *ca, struct lw__tls_seen *ret)
{
    *ret = (struct lw__tls_seen){.settled = true};
    if (ca != NULL) {
        look(ca, &ret->file, &ret->settled);
        ret->settled = ret->settled && !is_folder(ca);
    } else {
        look(system_path(X509_get_default_cert_file_env(), X509_get_default_cert_file()),
             &ret->file, &ret->settled);
        look(system_path(X509_get_default_cert_dir_env(), X509_get_default_cert_dir()),
             &ret->folder, &ret->settled);
    }
}

static bool is_same(const struct lw__tls_version *a, const struct lw__tls_version *b)
{
    return a->device == b->device && a->number == b->number &&
           a->changed.tv_sec == b->changed.tv_sec &&
           a->changed.tv_nsec == b->changed.tv_nsec;
}

bool lw__tls_trust_again(const struct lw__tls_trust *trust,
                         const struct lw__tls_seen *seen, SSL_CTX *ctx)
{
    if (trust == NULL || !is_same(&trust->seen.file, &seen->file) ||
        !is_same(&trust->seen.folder, &seen->folder)) {
        return false;
    }
    SSL_CTX_set1_cert_store(ctx, trust->store);
    return true;
}

void lw__tls_trust_keep(struct lw__tls_trust **trust, const struct lw__tls_seen *seen,
                        SSL_CTX *ctx)
{
    lw__tls_trust_free(*trust);
    *trust = seen->settled ? malloc(sizeof(**trust)) : NULL;
    if (*trust != NULL) { /* else it is read again the next time */
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

#endif

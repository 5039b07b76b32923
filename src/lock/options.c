/* SPDX-License-Identifier: MIT */
/* A client's options: the caller's over the defaults, then the parts of the URL for those
 * that are not set, then copies of all strings. Independent of their use. An
 * invalid option is explained in errbuf, by its name. After any failure the client must
 * still be passed to lw__options_clear. Also the checks that every public call begins
 * with. */
#include "lock/lock_private.h"

#include "base/check.h"
#include "base/escape.h"
#include "base/first_line.h"
#include "base/log.h"
#include "base/url.h"
#include "base/wipe.h"
#include "redis/address_map.h"
#include "redis/node.h"
#include "redis/route.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define OR_VALKEY " (or with valkey in place of redis)"

/* ---- errbuf ---- */

void lw__options_explain(struct lw_client *client, const char *format, ...)
{
    va_list args;

    if (client->options.errbuf == NULL || client->options.errbuf_size == 0) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(client->options.errbuf, client->options.errbuf_size, format, args);
    va_end(args);
}

/* ---- checks ---- */

static void set_default(uint32_t *field, uint32_t value)
{
    if (*field == 0) {
        *field = value;
    }
}

bool lw__options_use_guard(const struct lw_client_options *options)
{
    return options->guard_ms != 0 && options->guard_ms != LW_GUARD_NONE;
}

int64_t lw__options_lease_max(const struct lw_client *client)
{
    const struct lw_client_options *o = &client->options;
    int64_t spare = 2 * (int64_t)o->request_timeout_ms;

    if (!lw__options_use_guard(o)) {
        return INT32_MAX;
    }
    return o->guard_ms -
           (spare > LW__GUARD_OLD_MASTER_MS ? spare : LW__GUARD_OLD_MASTER_MS);
}

static int check_options(struct lw_client *client)
{
    struct lw_client_options *o = &client->options;
    char why[LW_WHY_SIZE];

    set_default(&o->connect_timeout_ms, 5000);
    set_default(&o->request_timeout_ms, 5000);
    set_default(&o->backoff_min_ms, 50);
    set_default(&o->backoff_max_ms, o->backoff_min_ms > 5000 ? o->backoff_min_ms : 5000);
    set_default(&o->close_timeout_ms, 5000);
    set_default(&o->claim_ms, 2000);
    set_default(&o->local_turns, 16);
    set_default(&o->max_inflight, 1024);
    if (client->url.quorum) {
        set_default(&o->guard_ms, 45000);
    }
    if (o->log_level == 0) {
        o->log_level = LOG_WARNING;
    }
    if (o->client_name == NULL) {
        o->client_name = "lockwire";
    }
    if (o->claim_ms < 100 || o->claim_ms > 60000) {
        lw__options_explain(client, "claim_ms %lu is not between 100 and 60000",
                            (unsigned long)o->claim_ms);
    } else if (o->local_turns > 16) {
        lw__options_explain(client, "local_turns %lu is not between 1 and 16",
                            (unsigned long)o->local_turns);
    } else if (o->busy_poll_us > 100) {
        lw__options_explain(client, "busy_poll_us %lu is not between 0 and 100",
                            (unsigned long)o->busy_poll_us);
    } else if (o->backoff_min_ms > o->backoff_max_ms) {
        lw__options_explain(client, "backoff_min_ms %lu is above backoff_max_ms %lu",
                            (unsigned long)o->backoff_min_ms,
                            (unsigned long)o->backoff_max_ms);
    } else if (o->guard_ms == LW_GUARD_NONE && client->url.quorum) {
        lw__options_explain(client,
                            "guard_ms LW_GUARD_NONE is not supported by a quorum");
    } else if (lw__options_use_guard(o) &&
               (o->guard_ms < 15000 || o->guard_ms > 600000)) {
        lw__options_explain(client, "guard_ms %lu is not between 15000 and 600000",
                            (unsigned long)o->guard_ms);
    } else if (lw__options_use_guard(o) && client->url.cluster) {
        lw__options_explain(client, "guard_ms is not supported in a cluster");
    } else if (lw__options_use_guard(o) &&
               lw__options_lease_max(client) < LW__LEASE_MIN) {
        lw__options_explain(client,
                            "guard_ms %lu leaves no time for a lease: it must be above "
                            "twice request_timeout_ms %lu",
                            (unsigned long)o->guard_ms,
                            (unsigned long)o->request_timeout_ms);
    } else if (o->db < 0) {
        lw__options_explain(client, "db %d is negative", o->db);
    } else if (o->credentials != NULL &&
               (o->username != NULL || o->password != NULL || o->password_file != NULL ||
                client->url.username != NULL || client->url.password != NULL)) {
        lw__options_explain(client,
                            "credentials is set together with a username or a password");
    } else if (o->password != NULL && o->password_file != NULL) {
        lw__options_explain(client, "password and password_file are both given");
    } else if ((o->username != NULL || client->url.username != NULL) &&
               o->password == NULL && o->password_file == NULL &&
               client->url.password == NULL) {
        lw__options_explain(client,
                            "a username is given without a password (in the URL, or "
                            "options->password; the command has --password-file)");
    } else if (lw__check_word(o->client_name, "client_name", why, sizeof(why)) != NULL ||
               (o->user != NULL &&
                lw__check_word(o->user, "user", why, sizeof(why)) != NULL)) {
        lw__options_explain(client, "%s", why);
    } else {
        return 0;
    }
    return LW_EINVAL;
}

/* ---- values ---- */

static int copy_string(char **copy, const char **field)
{
    if (*field == NULL) {
        return 0;
    }
    *copy = strdup(*field);
    *field = *copy;
    return *copy != NULL ? 0 : LW_ENOMEM;
}

/* Returns the first option set that requires TLS, or NULL if there is none. */
static const char *first_tls_option(const struct lw_client_options *o)
{
    return o->tls_ca != NULL            ? "tls_ca"
           : o->tls_cert != NULL        ? "tls_cert"
           : o->tls_key != NULL         ? "tls_key"
           : o->tls_server_name != NULL ? "tls_server_name"
                                        : NULL;
}

static int check_tls(struct lw_client *client)
{
    const struct lw_client_options *o = &client->options;

    if (!client->url.tls && first_tls_option(o) != NULL) {
        lw__options_explain(client,
                            "%s needs a URL that begins with rediss://, "
                            "rediss-sentinel://, rediss-cluster:// or "
                            "rediss-quorum://" OR_VALKEY,
                            first_tls_option(o));
    } else if (o->tls_key != NULL && o->tls_cert == NULL) {
        lw__options_explain(client, "tls_key is given without tls_cert");
    } else if (o->tls_cert != NULL && o->tls_key == NULL) {
        lw__options_explain(client, "tls_cert is given without tls_key");
    } else {
        return 0;
    }
    return LW_EINVAL;
}

static int check_sentinel(struct lw_client *client)
{
    const struct lw_client_options *o = &client->options;
    const char *given = o->sentinel_username != NULL        ? "sentinel_username"
                        : o->sentinel_password != NULL      ? "sentinel_password"
                        : o->sentinel_password_file != NULL ? "sentinel_password_file"
                                                            : NULL;

    if (given != NULL && client->url.service == NULL) {
        lw__options_explain(client,
                            "%s needs a URL that begins with redis-sentinel:// or "
                            "rediss-sentinel://" OR_VALKEY,
                            given);
    } else if (o->sentinel_username != NULL && o->sentinel_password == NULL &&
               o->sentinel_password_file == NULL) {
        lw__options_explain(client,
                            "sentinel_username is given without sentinel_password");
    } else if (o->sentinel_password != NULL && o->sentinel_password_file != NULL) {
        lw__options_explain(client, "sentinel_password and sentinel_password_file are "
                                    "both given");
    } else {
        return 0;
    }
    return LW_EINVAL;
}

/* Reads the password to find errors now; each login reads it again. */
static int check_file(struct lw_client *client, const char *option, const char *file)
{
    char password[LW__FIRST_LINE_MAX + 1], why[200];
    int status;

    if (file == NULL) {
        return 0;
    }
    status = lw__first_line_of(file, false, password, why, sizeof(why));
    lw__wipe(password, sizeof(password));
    if (status != 0) {
        lw__options_explain(client, "%s '%.250s': %s", option, file, why);
    }
    return status;
}

/* The map is copied: the option is not used after this. */
static int set_address_map(struct lw_client *client)
{
    const char *text = client->options.address_map;
    char why[LW_WHY_SIZE];
    int status;

    if (text == NULL) {
        return 0;
    }
    client->options.address_map = NULL;
    if (client->url.service == NULL && !client->url.cluster) {
        lw__options_explain(client,
                            "address_map needs a URL that begins with redis-sentinel://, "
                            "rediss-sentinel://, redis-cluster:// or "
                            "rediss-cluster://" OR_VALKEY);
        return LW_EINVAL;
    }
    status = lw__address_map_parse(text, &client->address_map, why, sizeof(why));
    if (status != 0) {
        lw__options_explain(client, "%s", why);
    }
    return status;
}

static void format_guard(uint32_t guard_ms, char *text, size_t size)
{
    if (guard_ms == LW_GUARD_NONE) {
        (void)snprintf(text, size, "none");
    } else {
        (void)snprintf(text, size, "%lums", (unsigned long)guard_ms);
    }
}

/* Takes the guard of the URL, if the options have none. */
static int merge_guard(struct lw_client *client)
{
    struct lw_client_options *o = &client->options;
    uint32_t url_ms = client->url.guard_ms;
    char given[LW__DIGITS + 2], in_url[LW__DIGITS + 2];

    if (o->guard_ms == 0) {
        o->guard_ms = url_ms;
    } else if (url_ms != 0 && url_ms != o->guard_ms) {
        format_guard(o->guard_ms, given, sizeof(given));
        format_guard(url_ms, in_url, sizeof(in_url));
        lw__options_explain(client, "guard_ms %s differs from guard=%s in the URL", given,
                            in_url);
        return LW_EINVAL;
    }
    return 0;
}

/* Takes the prefix of the URL, if the options have none. */
static int merge_prefix(struct lw_client *client)
{
    struct lw_client_options *o = &client->options;
    const char *in_url = client->url.prefix;
    char why[LW_WHY_SIZE];

    if (o->prefix == NULL) {
        o->prefix = in_url;
    } else if (in_url != NULL && strcmp(o->prefix, in_url) != 0) {
        lw__options_explain(client, "prefix \"%.64s\" differs from prefix=%s in the URL",
                            o->prefix, in_url);
        return LW_EINVAL;
    }
    if (o->prefix != NULL && lw__check_prefix(o->prefix, why, sizeof(why)) != NULL) {
        lw__options_explain(client, "%s", why);
        return LW_EINVAL;
    }
    return 0;
}

/* Reads the files to find errors now; each connection rereads them. */
static int set_tls(struct lw_client *client)
{
    const struct lw_client_options *o = &client->options;
    const struct lw__url *url = &client->url;
    struct lw__tls_options trial;
    struct lw__tls *tls = NULL;
    char why[LW_WHY_SIZE];
    int status;

    client->tls = (struct lw__tls_options){.ca = o->tls_ca,
                                           .cert = o->tls_cert,
                                           .key = o->tls_key,
                                           .server_name = o->tls_server_name,
                                           .names_another = o->tls_server_name != NULL,
                                           .trust = &client->trust};
    trial = client->tls;
    if (trial.server_name == NULL) {
        trial.server_name = url->host != NULL ? url->host : url->hosts[0].name;
    }
    status = lw__tls_new(&trial, why, sizeof(why), &tls);
    lw__tls_free(tls);
    if (status != 0) {
        lw__options_explain(client, "%s", why);
    }
    return status;
}

/* The host's log function may take long: what was read of the clock before is forgotten.
 */
static void pass_to_host(int level, const char *message, void *arg)
{
    const struct lw_client *client = arg;

    if (client->loop != NULL) {
        lw__loop_forget_time(client->loop);
    }
    client->options.log(level, message, client->options.arg);
}

static int complete(struct lw_client *client)
{
    struct lw_client_options *o = &client->options;
    int status;

    if ((status = merge_guard(client)) != 0 || (status = merge_prefix(client)) != 0 ||
        (status = check_options(client)) != 0 || (status = check_tls(client)) != 0 ||
        (status = check_sentinel(client)) != 0 ||
        (status = check_file(client, "password_file", o->password_file)) != 0 ||
        (status = check_file(client, "sentinel_password_file",
                             o->sentinel_password_file)) != 0 ||
        (status = set_address_map(client)) != 0) {
        return status;
    }
    if (o->username == NULL) {
        o->username = client->url.username;
    }
    if (o->password == NULL && o->password_file == NULL) {
        o->password = client->url.password;
    }
    if (o->db == 0 && client->url.db > 0) {
        o->db = client->url.db;
    }
    if (copy_string(&client->strings[0], &o->username) != 0 ||
        copy_string(&client->strings[1], &o->password) != 0 ||
        copy_string(&client->strings[2], &o->client_name) != 0 ||
        copy_string(&client->strings[3], &o->tls_ca) != 0 ||
        copy_string(&client->strings[4], &o->tls_cert) != 0 ||
        copy_string(&client->strings[5], &o->tls_key) != 0 ||
        copy_string(&client->strings[6], &o->tls_server_name) != 0 ||
        copy_string(&client->strings[7], &o->sentinel_username) != 0 ||
        copy_string(&client->strings[8], &o->sentinel_password) != 0 ||
        copy_string(&client->strings[9], &o->user) != 0 ||
        copy_string(&client->strings[10], &o->password_file) != 0 ||
        copy_string(&client->strings[11], &o->sentinel_password_file) != 0 ||
        copy_string(&client->strings[12], &o->prefix) != 0) {
        return LW_ENOMEM;
    }
    client->log = (struct lw__log){o->log != NULL ? pass_to_host : NULL, o->log_level,
                                   client, &client->causes, NULL};
    return client->url.tls ? set_tls(client) : 0;
}

void lw__options_explain_given(const struct lw_client_options *given, const char *why)
{
    /* the struct of version 0.1 ended with errbuf_size */
    if (given != NULL && given->size >= offsetof(struct lw_client_options, tls_ca) &&
        given->errbuf != NULL && given->errbuf_size > 0) {
        (void)snprintf(given->errbuf, given->errbuf_size, "%s", why);
    }
}

int lw__options_take(struct lw_client *client, const char *url,
                     const struct lw_client_options *given)
{
    struct lw_client_options *o = &client->options;
    char why[LW_WHY_SIZE];
    int status;

    *o = (struct lw_client_options)LW_CLIENT_OPTIONS_INIT;
    if (given != NULL && !lw__check_take_struct(o, sizeof(*o), given, given->size)) {
        lw__options_explain_given(
            given, "lw_client_options.size: too small, or fields of a newer "
                   "version are set");
        return LW_EINVAL;
    }
    status = lw__url_parse(url, &client->url, why, sizeof(why));
    if (status != 0) {
        lw__options_explain(client, "%s", why);
        return status;
    }
    return complete(client);
}

void lw__options_clear(struct lw_client *client)
{
    lw__url_clear(&client->url);
    lw__tls_trust_free(client->trust);
    lw__address_map_free(client->address_map);
    for (size_t i = 0; i < sizeof(client->strings) / sizeof(*client->strings); i++) {
        free(client->strings[i]);
    }
}

void lw__options_fill_route(struct lw_client *client, struct lw__holds *holds,
                            struct lw__route_options *ret)
{
    const struct lw_client_options *o = &client->options;

    *ret = (struct lw__route_options){
        .node.config.loop = client->loop,
        .node.config.log = holds->log,
        .node.config.random = &holds->random,
        .node.config.host = client->url.host,
        .node.config.path = client->url.path,
        .node.config.port = client->url.port,
        .node.config.address_map = client->address_map,
        .node.config.username = o->username,
        .node.config.password = o->password,
        .node.config.password_file = o->password_file,
        .node.config.client_name = o->client_name,
        .node.config.secure = client->url.tls,
        .node.config.tls = client->tls,
        .node.config.db = o->db,
        .node.config.connect_timeout_ms = o->connect_timeout_ms,
        .node.config.request_timeout_ms = o->request_timeout_ms,
        .node.config.backoff_min_ms = o->backoff_min_ms,
        .node.config.backoff_max_ms = o->backoff_max_ms,
        .node.config.busy_poll_us = o->busy_poll_us,
        .node.config.replication = !client->url.cluster,
        .node.sentinel.service = client->url.service,
        .node.sentinel.hosts = client->url.hosts,
        .node.sentinel.host_count = client->url.host_count,
        .node.sentinel.username = o->sentinel_username,
        .node.sentinel.password = o->sentinel_password,
        .node.sentinel.password_file = o->sentinel_password_file,
        .node.uuid = holds->uuid,
        .node.prefix = holds->prefix,
        .node.message = lw__claim_message,
        .node.message_arg = holds,
        .node.max_inflight = o->max_inflight,
        .node.guard_ms = o->guard_ms,
        .node.stats = &client->stats,
        .seeds = client->url.cluster ? client->url.hosts : NULL,
        .seed_count = client->url.host_count,
    };
}

/* ---- checks of calls ---- */

int lw__options_check_open(struct lw_client *client)
{
    if (lw__is_inherited(client)) {
        lw__options_explain(client, "%s", LW__INHERITED);
    } else if (client->closing) {
        lw__options_explain(client, "the client is closed");
    } else {
        return 0;
    }
    return LW_ECLOSED;
}

int lw__options_check_single(struct lw_client *client)
{
    if (client->quorum == NULL) {
        return 0;
    }
    lw__options_explain(client,
                        "not supported by a quorum; ask each server by its own URL");
    return LW_EINVAL;
}

const char *lw__options_check_name(const struct lw_client *client, const char *name,
                                   char why[LW_WHY_SIZE])
{
    return lw__check_key(client->holds.prefix, name, why, LW_WHY_SIZE);
}

int lw__options_check_call(struct lw_client *client, const char *name)
{
    char why[LW_WHY_SIZE];
    int status = lw__options_check_open(client);

    if (status != 0) {
        return status;
    }
    if (lw__check_key(client->holds.prefix, name, why, sizeof(why)) != NULL) {
        lw__options_explain(client, "%s", why);
        return LW_EINVAL;
    }
    return 0;
}

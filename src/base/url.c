/* SPDX-License-Identifier: MIT */
/* Parses the URLs of servers: see url.h. Each error names the part of the URL. Nothing
 * before an '@' is ever quoted, since it may hold a password. */
#include "base/url.h"

#include "base/check.h"
#include "base/duration.h"
#include "base/escape.h"
#include "lockwire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>

struct span {
    const char *start;
    size_t length;
};

struct explain {
    char *text;
    size_t size;
    int status; /* 0 while nothing is wrong */
};

__attribute__((format(printf, 2, 3))) static bool invalid(struct explain *why,
                                                          const char *format, ...)
{
    char text[LW_WHY_SIZE];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    lw__escape(text, why->text, why->size); /* a newline at the end of a variable */
    why->status = LW_EINVAL;
    return false;
}

static struct span span_between(const char *start, const char *end)
{
    return (struct span){start, (size_t)(end - start)};
}

static const char *span_find(struct span span, char c)
{
    return span.length > 0 ? memchr(span.start, c, span.length) : NULL;
}

/* Returns how many bytes of `span` a message shows. */
static int shown(struct span span)
{
    return span.length > 40 ? 40 : (int)span.length;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Returns the byte that %XX at `at` encodes, or -1 if these are no two digits or encode
 * NUL. */
static int escaped(struct span span, size_t at)
{
    int high, low;

    if (at + 2 >= span.length) {
        return -1;
    }
    high = hex_digit(span.start[at + 1]);
    low = hex_digit(span.start[at + 2]);
    return high < 0 || low < 0 || (high | low) == 0 ? -1 : high * 16 + low;
}

/* Copies `span` to a new string, with %XX decoded. */
static bool decode(struct span span, const char *what, struct explain *why, char **ret)
{
    char *text = malloc(span.length + 1);
    size_t length = 0;

    if (text == NULL) {
        (void)invalid(why, "out of memory");
        why->status = LW_ENOMEM;
        return false;
    }
    for (size_t i = 0; i < span.length; i++) {
        int byte = (unsigned char)span.start[i];
        if (byte == '%') {
            byte = escaped(span, i);
            i += 2;
        }
        if (byte < 0) {
            free(text);
            (void)invalid(why,
                          "%s: the \"%%\" at byte %zu must be followed by two "
                          "hexadecimal digits (not 00)",
                          what, i - 1);
            return false;
        }
        text[length++] = (char)byte;
    }
    text[length] = '\0';
    *ret = text;
    return true;
}

static bool parse_db(struct span span, struct lw__url *url, struct explain *why)
{
    int64_t db = lw__check_number(span.start, span.length, INT32_MAX);

    if (db < 0) {
        return invalid(why, "database \"%.*s\" is not a number from 0 to %d", shown(span),
                       span.start, INT32_MAX);
    }
    url->db = (int)db;
    return true;
}

/* Parses the guard time, or "none". */
static bool parse_guard(struct span span, struct lw__url *url, struct explain *why)
{
    char text[40], ignored[LW_WHY_SIZE];
    int64_t ms = 0;

    if (span.length < sizeof(text)) {
        memcpy(text, span.start, span.length);
        text[span.length] = '\0';
        if (strcmp(text, "none") == 0) {
            url->guard_ms = LW_GUARD_NONE;
            return true;
        }
        if (lw__duration_parse(text, &ms, ignored, sizeof(ignored)) == 0 &&
            ms >= LW__GUARD_LEAST_MS && ms <= LW__GUARD_MOST_MS) {
            url->guard_ms = (uint32_t)ms;
            return true;
        }
    }
    return invalid(why,
                   "guard \"%.*s\" is neither \"none\" nor a time between 15s and 10m",
                   shown(span), span.start);
}

/* Returns true if `span` begins with `name`, which is then removed from it. */
static bool take_name(struct span *span, const char *name)
{
    size_t length = strlen(name);

    if (span->length < length || strncmp(span->start, name, length) != 0) {
        return false;
    }
    *span = (struct span){span->start + length, span->length - length};
    return true;
}

/* Parses user, or [user]:password. */
static bool parse_user(struct span span, struct lw__url *url, struct explain *why)
{
    const char *end = span.start + span.length;
    const char *colon = span_find(span, ':');

    if (span.length == 0) {
        return invalid(why, "the user is missing before the \"@\"");
    }
    if (colon == NULL) {
        return decode(span, "user", why, &url->username);
    }
    if (span.length == 1) {
        return true; /* ":@": neither */
    }
    return (colon == span.start ||
            decode(span_between(span.start, colon), "user", why, &url->username)) &&
           decode(span_between(colon + 1, end), "password", why, &url->password);
}

static bool check_host(const char *host, bool bracketed, struct explain *why)
{
    static const char legal[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-._";
    unsigned char address[sizeof(struct in6_addr)];
    char numeric[INET6_ADDRSTRLEN];
    size_t length = strcspn(host, "%"); /* a zone may follow an address */

    if (host[0] == '\0') {
        return invalid(why, "the host is missing");
    }
    if (strlen(host) >= LW__HOST_SIZE) {
        return invalid(why, "the host is longer than %d bytes", LW__HOST_SIZE - 1);
    }
    if (!bracketed) {
        size_t good = strspn(host, legal);
        return host[good] == '\0' ||
               invalid(why,
                       "byte 0x%02x at position %zu of host "
                       "\"%.40s\" is not allowed%s",
                       (unsigned char)host[good], good + 1, host,
                       host[good] == ',' ? "; several hosts are for "
                                           "redis-sentinel://, redis-cluster:// "
                                           "and redis-quorum://"
                                         : "");
    }
    if (length < sizeof(numeric)) {
        memcpy(numeric, host, length);
        numeric[length] = '\0';
        if (inet_pton(AF_INET6, numeric, address) == 1) {
            return true;
        }
    }
    return invalid(why, "host \"[%.46s]\" is not an IPv6 address", host);
}

static bool parse_port(struct span rest, uint16_t *ret, struct explain *why)
{
    struct span port;
    int64_t value;

    if (rest.length == 0) {
        return true;
    }
    if (*rest.start != ':') {
        return invalid(why, "only \":\" and a port may follow the \"]\" after the host");
    }
    port = (struct span){rest.start + 1, rest.length - 1};
    value = lw__check_number(port.start, port.length, UINT16_MAX);
    if (value < 1) {
        return invalid(why, "port \"%.*s\" is not between 1 and 65535", shown(port),
                       port.start);
    }
    *ret = (uint16_t)value;
    return true;
}

/* Parses host[:port], or [v6][:port]. */
static bool parse_host(struct span span, char **host, uint16_t *port, struct explain *why)
{
    const char *end = span.start + span.length;
    bool bracketed = span.length > 0 && span.start[0] == '[';
    const char *close = bracketed ? span_find(span, ']') : NULL;
    const char *stop;

    if (bracketed && close == NULL) {
        return invalid(why, "the \"]\" after the host is missing");
    }
    stop = bracketed ? close + 1 : span_find(span, ':');
    if (stop == NULL) {
        stop = end;
    }
    return decode(bracketed ? span_between(span.start + 1, close)
                            : span_between(span.start, stop),
                  "host", why, host) &&
           check_host(*host, bracketed, why) &&
           parse_port(span_between(stop, end), port, why);
}

/* Parses [user[:password]@]. `authority` becomes the host or hosts behind it, and `rest`
 * the text from the first "/", "?" or "#" on. */
static bool parse_authority(const char *text, struct lw__url *url, struct span *authority,
                            const char **rest, struct explain *why)
{
    const char *at = NULL;

    *authority = (struct span){text, strcspn(text, "/?#")};
    *rest = text + authority->length;
    if (strchr(*rest, '@') != NULL) {
        return invalid(
            why, "\"@\" after the host; write \"/\", \"?\", \"#\" and \"@\" in a user "
                 "or password as %%2F, %%3F, %%23 and %%40");
    }
    for (size_t i = 0; i < authority->length; i++) {
        at = text[i] == '@' ? text + i : at; /* the last one */
    }
    if (at == NULL) {
        return true;
    }
    *authority = span_between(at + 1, *rest);
    return parse_user(span_between(text, at), url, why);
}

/* Parses ?guard= and ?prefix=, behind `after`. Behind a path also ?db=. In any order. */
static bool parse_query(const char *query, const char *after, struct lw__url *url,
                        struct explain *why)
{
    for (char before = '?'; *query != '\0'; before = '&') {
        struct span item = {query + 1, strcspn(query + 1, "&#")};
        bool begun = *query == before;

        if (begun && url->guard_ms == 0 && take_name(&item, "guard=")) {
            if (!parse_guard(item, url, why)) {
                return false;
            }
        } else if (begun && url->prefix == NULL && take_name(&item, "prefix=")) {
            if (!decode(item, "prefix", why, &url->prefix)) {
                return false;
            }
        } else if (begun && url->path != NULL && url->db < 0 && take_name(&item, "db=")) {
            if (!parse_db(item, url, why)) {
                return false;
            }
        } else {
            return invalid(why,
                           "only %sone \"?guard=\" with a time or \"none\", and one "
                           "\"?prefix=\", may "
                           "follow %s",
                           url->path != NULL ? "\"?db=\" with a number, " : "", after);
        }
        query = item.start + item.length;
    }
    return true;
}

/* Parses [/[db]][?guard=][&prefix=]. */
static bool parse_end(const char *rest, const char *after, struct lw__url *url,
                      struct explain *why)
{
    struct span db = {rest, strcspn(rest, "?#")};

    if (!parse_query(rest + db.length, after, url, why)) {
        return false;
    }
    return db.length < 2 ||
           parse_db((struct span){db.start + 1, db.length - 1}, url, why);
}

static bool parse_redis(const char *text, struct lw__url *url, struct explain *why)
{
    struct span authority;
    const char *rest;

    url->port = 6379;
    return parse_authority(text, url, &authority, &rest, why) &&
           parse_host(authority, &url->host, &url->port, why) &&
           parse_end(rest, "the host or database", url, why);
}

/* Parses one host of the list. Unless it is the only one, an error says which it is. */
static bool parse_listed(struct span span, bool alone, struct lw__url *url,
                         struct explain *why)
{
    struct lw__url_host *host = &url->hosts[url->host_count++];
    char text[LW_WHY_SIZE] = "";
    struct explain own = {.text = text, .size = sizeof(text)};

    host->port = url->cluster || url->quorum ? 6379 : 26379;
    if (parse_host(span, &host->name, &host->port, alone ? why : &own)) {
        return true;
    }
    if (!alone) {
        (void)invalid(why, "host %zu of the list: %s", url->host_count, text);
        why->status = own.status;
    }
    return false;
}

/* Parses host[:port][,host[:port]...]. */
static bool parse_hosts(struct span span, struct lw__url *url, struct explain *why)
{
    const char *end = span.start + span.length, *comma;
    bool alone = span_find(span, ',') == NULL;

    do {
        if (url->host_count == LW__URL_HOSTS) {
            return invalid(why, "more than %d hosts are listed", LW__URL_HOSTS);
        }
        comma = span_find(span, ',');
        if (!parse_listed(span_between(span.start, comma != NULL ? comma : end), alone,
                          url, why)) {
            return false;
        }
        span = comma != NULL ? span_between(comma + 1, end) : span;
    } while (comma != NULL);
    return true;
}

static bool parse_sentinel(const char *text, struct lw__url *url, struct explain *why)
{
    struct span authority, service;
    const char *rest;

    if (!parse_authority(text, url, &authority, &rest, why) ||
        !parse_hosts(authority, url, why)) {
        return false;
    }
    rest += *rest == '/';
    service = (struct span){rest, strcspn(rest, "/?#")};
    if (service.length == 0) {
        return invalid(why,
                       "the service is missing; write \"/\" and the name under which "
                       "the sentinels monitor the master after the hosts");
    }
    if (!decode(service, "service", why, &url->service)) {
        return false;
    }
    if (lw__check_word(url->service, "service", why->text, why->size) != NULL) {
        why->status = LW_EINVAL;
        return false;
    }
    return parse_end(rest + service.length, "the service or database", url, why);
}

static bool parse_cluster(const char *text, struct lw__url *url, struct explain *why)
{
    struct span authority;
    const char *rest;

    url->cluster = true;
    return parse_authority(text, url, &authority, &rest, why) &&
           parse_hosts(authority, url, why) &&
           parse_end(rest, "the hosts or database", url, why);
}

/* Returns the earlier host of the list that is the same as hosts[i], or NULL. */
static const struct lw__url_host *find_same(const struct lw__url *url, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (url->hosts[j].port == url->hosts[i].port &&
            strcasecmp(url->hosts[j].name, url->hosts[i].name) == 0) {
            return &url->hosts[j];
        }
    }
    return NULL;
}

static bool check_quorum(const struct lw__url *url, struct explain *why)
{
    size_t count = url->host_count;

    if (count != 3 && count != 5 && count != LW__QUORUM_MOST) {
        return invalid(why, "a quorum has 3, 5 or 7 servers; %zu %s listed", count,
                       count == 1 ? "is" : "are");
    }
    for (size_t i = 1; i < count; i++) {
        const struct lw__url_host *same = find_same(url, i);

        if (same != NULL) {
            return invalid(why, "host %zu of the list is the same as host %zu: %s:%u",
                           i + 1, (size_t)(same - url->hosts) + 1, same->name,
                           (unsigned)same->port);
        }
    }
    return true;
}

static bool parse_quorum(const char *text, struct lw__url *url, struct explain *why)
{
    struct span authority;
    const char *rest;

    url->quorum = true;
    return parse_authority(text, url, &authority, &rest, why) &&
           parse_hosts(authority, url, why) && check_quorum(url, why) &&
           parse_end(rest, "the hosts or database", url, why);
}

static bool parse_unix(const char *text, struct lw__url *url, struct explain *why)
{
    struct span path = {text, strcspn(text, "?#")};
    /* One byte less than fits: see connect_context in link.c about the NUL. */
    const size_t longest = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 2;

    if (text[0] != '/') {
        return invalid(why, "the path after unix:// must begin with \"/\"");
    }
    if (!decode(path, "path", why, &url->path)) {
        return false;
    }
    if (strlen(url->path) > longest) {
        return invalid(why, "the path has %zu bytes; a unix socket allows at most %zu",
                       strlen(url->path), longest);
    }
    return parse_query(text + path.length, "the path", url, why);
}

static const struct scheme {
    const char *text;
    bool (*parse)(const char *text, struct lw__url *url, struct explain *why);
    bool tls;
} schemes[] = {
    {"redis://", parse_redis, false},
    {"rediss://", parse_redis, true},
    {"redis-sentinel://", parse_sentinel, false},
    {"rediss-sentinel://", parse_sentinel, true},
    {"redis-cluster://", parse_cluster, false},
    {"rediss-cluster://", parse_cluster, true},
    {"redis-quorum://", parse_quorum, false},
    {"rediss-quorum://", parse_quorum, true},
    {"valkey://", parse_redis, false},
    {"valkeys://", parse_redis, true},
    {"valkey-sentinel://", parse_sentinel, false},
    {"valkeys-sentinel://", parse_sentinel, true},
    {"valkey-cluster://", parse_cluster, false},
    {"valkeys-cluster://", parse_cluster, true},
    {"valkey-quorum://", parse_quorum, false},
    {"valkeys-quorum://", parse_quorum, true},
    {"unix://", parse_unix, false},
};

/* Returns NULL after an error. */
static const struct scheme *find_scheme(const char *text, struct explain *why)
{
    for (size_t i = 0; i < sizeof(schemes) / sizeof(*schemes); i++) {
        const struct scheme *scheme = &schemes[i];
        const char *rest = text + strlen(scheme->text);

        if (strncasecmp(text, scheme->text, strlen(scheme->text)) != 0) {
            continue;
        }
        if (scheme->parse != parse_unix && strstr(rest, "://") != NULL) {
            (void)invalid(why, "\"://\" occurs twice; write the scheme once, before the "
                               "first host");
            return NULL;
        }
        return scheme;
    }
    (void)invalid(why, "the URL must begin with redis://, redis-sentinel://, "
                       "redis-cluster:// or redis-quorum:// (rediss for TLS, the same "
                       "with valkey), or unix://");
    return NULL;
}

int lw__url_parse(const char *text, struct lw__url *ret, char *why_text, size_t why_size)
{
    struct explain why = {.text = why_text, .size = why_size};
    struct lw__url url = {.db = -1};
    const struct scheme *scheme = NULL;

    if (text == NULL) {
        (void)invalid(&why, "the URL is NULL");
    } else {
        scheme = find_scheme(text, &why);
    }
    if (scheme == NULL) {
        return why.status;
    }
    url.tls = scheme->tls;
    if (scheme->parse(text + strlen(scheme->text), &url, &why)) {
        *ret = url;
    } else {
        lw__url_clear(&url);
    }
    return why.status;
}

int lw__url_parse_host(const char *text, size_t length, struct lw__url_host *ret,
                       char *why_text, size_t why_size)
{
    struct explain why = {.text = why_text, .size = why_size};

    (void)parse_host((struct span){text, length}, &ret->name, &ret->port, &why);
    return why.status;
}

void lw__url_clear(struct lw__url *url)
{
    free(url->host);
    free(url->path);
    free(url->username);
    free(url->password);
    free(url->service);
    free(url->prefix);
    for (size_t i = 0; i < url->host_count; i++) {
        free(url->hosts[i].name);
    }
    *url = (struct lw__url){.db = -1};
}

/* SPDX-License-Identifier: MIT */
/* Takes URLs of servers apart. Must not know what is done with them. Each failure names
 * the part; nothing is ever repeated of what stands before an '@', since a password may
 * be in it. */
#include "base/url.h"

#include "lockwire.h"

#include <arpa/inet.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

struct span {
    const char *start;
    size_t length;
};

struct explain {
    char *text;
    size_t size;
    int status; /* of what is explained */
};

__attribute__((format(printf, 2, 3))) static bool invalid(struct explain *why,
                                                          const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(why->text, why->size, format, args);
    va_end(args);
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

/* how much is shown in a message */
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

/* The byte that %XX at `at` stands for; -1: no such thing there, or a NUL. */
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

/* A new string with the %XX of `span` decoded. */
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
                          "%s: after the \"%%\" at its byte %zu two hexadecimal digits "
                          "(not 00) must follow",
                          what, i - 1);
            return false;
        }
        text[length++] = (char)byte;
    }
    text[length] = '\0';
    *ret = text;
    return true;
}

/* Decimal digits only; -1: not a number from `low` to `high`. */
static int64_t number(struct span span, int64_t low, int64_t high)
{
    int64_t value = 0;

    if (span.length == 0 || span.length > 10) {
        return -1;
    }
    for (size_t i = 0; i < span.length; i++) {
        if (span.start[i] < '0' || span.start[i] > '9') {
            return -1;
        }
        value = value * 10 + (span.start[i] - '0');
    }
    return value >= low && value <= high ? value : -1;
}

static bool parse_db(struct span span, struct lw__url *url, struct explain *why)
{
    int64_t db = number(span, 0, INT32_MAX);

    if (db < 0) {
        return invalid(why, "database \"%.*s\" is not a number from 0 to %d", shown(span),
                       span.start, INT32_MAX);
    }
    url->db = (int)db;
    return true;
}

/* user, or [user]:password */
static bool parse_user(struct span span, struct lw__url *url, struct explain *why)
{
    const char *end = span.start + span.length;
    const char *colon = span_find(span, ':');

    if (span.length == 0) {
        return invalid(why, "nothing stands before the \"@\"");
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
    if (strlen(host) > 253) {
        return invalid(why, "the host is longer than 253 bytes");
    }
    if (!bracketed) {
        size_t good = strspn(host, legal);
        return host[good] == '\0' || invalid(why,
                                             "byte 0x%02x at position %zu of host "
                                             "\"%.40s\" is not allowed",
                                             (unsigned char)host[good], good + 1, host);
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

static bool parse_port(struct span rest, struct lw__url *url, struct explain *why)
{
    struct span port;
    int64_t value;

    if (rest.length == 0) {
        return true;
    }
    if (*rest.start != ':') {
        return invalid(why, "between the host's \"]\" and the end or the port only a "
                            "\":\" may stand");
    }
    port = (struct span){rest.start + 1, rest.length - 1};
    value = number(port, 1, 65535);
    if (value < 0) {
        return invalid(why, "port \"%.*s\" is not between 1 and 65535", shown(port),
                       port.start);
    }
    url->port = (uint16_t)value;
    return true;
}

/* host[:port], [v6][:port] */
static bool parse_host(struct span span, struct lw__url *url, struct explain *why)
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
                  "host", why, &url->host) &&
           check_host(url->host, bracketed, why) &&
           parse_port(span_between(stop, end), url, why);
}

static bool parse_redis(const char *text, struct lw__url *url, struct explain *why)
{
    struct span authority = {text, strcspn(text, "/?#")};
    const char *rest = text + authority.length;
    const char *at = NULL;

    if (strchr(rest, '@') != NULL) {
        return invalid(why,
                       "an \"@\" after the host: \"/\", \"?\", \"#\" and \"@\" in user "
                       "and password are written %%2F, %%3F, %%23 and %%40");
    }
    for (size_t i = 0; i < authority.length; i++) {
        at = text[i] == '@' ? text + i : at; /* the last one */
    }
    if (at != NULL) {
        if (!parse_user(span_between(text, at), url, why)) {
            return false;
        }
        authority = span_between(at + 1, rest);
    }
    url->port = 6379;
    if (!parse_host(authority, url, why)) {
        return false;
    }
    if (strpbrk(rest, "?#") != NULL) {
        return invalid(why, "\"%c\" after the host or database is not allowed",
                       *strpbrk(rest, "?#"));
    }
    if (rest[0] == '/' && rest[1] != '\0') {
        return parse_db((struct span){rest + 1, strlen(rest + 1)}, url, why);
    }
    return true;
}

static bool parse_unix(const char *text, struct lw__url *url, struct explain *why)
{
    struct span path = {text, strcspn(text, "?#")};
    const char *query = text + path.length;
    /* One less than fits: what ends such a path cannot be relied on (link_open.c). */
    const size_t longest = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 2;

    if (text[0] != '/') {
        return invalid(why, "after unix:// the path must follow, and begin with a \"/\"");
    }
    if (!decode(path, "path", why, &url->path)) {
        return false;
    }
    if (strlen(url->path) > longest) {
        return invalid(why, "the path has %zu bytes, a unix socket's has at most %zu",
                       strlen(url->path), longest);
    }
    if (query[0] == '\0') {
        return true;
    }
    if (strncmp(query, "?db=", 4) != 0) {
        return invalid(why, "after the path only \"?db=\" and a number may follow");
    }
    return parse_db((struct span){query + 4, strlen(query + 4)}, url, why);
}

int lw__url_parse(const char *text, struct lw__url *ret, char *why_text, size_t why_size)
{
    struct explain why = {.text = why_text, .size = why_size};
    struct lw__url url = {.db = -1};
    bool good;

    if (text == NULL) {
        good = invalid(&why, "the URL is NULL");
    } else if (strncasecmp(text, "redis://", 8) == 0) {
        good = parse_redis(text + 8, &url, &why);
    } else if (strncasecmp(text, "rediss://", 9) == 0) {
        url.tls = true;
        good = parse_redis(text + 9, &url, &why);
    } else if (strncasecmp(text, "unix://", 7) == 0) {
        good = parse_unix(text + 7, &url, &why);
    } else {
        good =
            invalid(&why, "the URL begins with none of redis://, rediss:// and unix://");
    }
    if (good) {
        *ret = url;
    } else {
        lw__url_clear(&url);
    }
    return why.status;
}

void lw__url_clear(struct lw__url *url)
{
    free(url->host);
    free(url->path);
    free(url->username);
    free(url->password);
    *url = (struct lw__url){.db = -1};
}

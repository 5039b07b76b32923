/* SPDX-License-Identifier: MIT */
/* The address map: see address_map.h.
 *
 * Each pair has two sides, both with a port or both without. An address is replaced once:
 * a right side that is a left side, of the same pair or of another one, is an error. So
 * is a left side that occurs twice. IPv6 addresses are compared by value, names without
 * regard to case. */
#include "redis/address_map.h"

#include "base/escape.h"
#include "base/url.h"
#include "lockwire.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define PAIRS_MAX 1024
#define ENDPOINT_SIZE (LW__HOST_SIZE + sizeof("[]:65535") - 1)

/* The port is 0 in a pair of whole hosts. */
struct pair {
    struct lw__endpoint from, to;
};

struct lw__address_map {
    size_t count;
    struct pair pairs[];
};

struct explain {
    char *text;
    size_t size;
};

__attribute__((format(printf, 4, 5))) static int invalid(const struct explain *why,
                                                         size_t number, const char *pair,
                                                         const char *format, ...)
{
    char shown[80], text[LW_WHY_SIZE];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    lw__escape(pair, shown, sizeof(shown));
    (void)snprintf(why->text, why->size, "address_map: pair %zu \"%s\": %s", number,
                   shown, text);
    return LW_EINVAL;
}

/* Writes an IPv6 address in its shortest form. */
static void normalize(struct lw__endpoint *endpoint)
{
    struct in6_addr address;

    if (inet_pton(AF_INET6, endpoint->host, &address) == 1) {
        (void)inet_ntop(AF_INET6, &address, endpoint->host, sizeof(endpoint->host));
    }
}

/* ---- parsing ---- */

/* Returns 0, or an error after it has been explained. */
static int parse_side(const char *text, size_t length, struct lw__endpoint *ret,
                      char *why, size_t why_size)
{
    struct lw__url_host host = {NULL, 0};
    int status = lw__url_parse_host(text, length, &host, why, why_size);

    if (status == 0) {
        (void)snprintf(ret->host, sizeof(ret->host), "%s", host.name);
        ret->port = host.port;
        normalize(ret);
    }
    free(host.name);
    return status;
}

static int parse_pair(const char *text, size_t number, struct pair *ret,
                      const struct explain *explain)
{
    const char *equals = strchr(text, '=');
    char why[LW_WHY_SIZE];
    int status;

    if (equals == NULL) {
        return invalid(explain, number, text,
                       *text == '\0' ? "it is empty" : "the \"=\" is missing");
    }
    status = parse_side(text, (size_t)(equals - text), &ret->from, why, sizeof(why));
    if (status == LW_EINVAL) {
        return invalid(explain, number, text, "left of the \"=\": %s", why);
    }
    if (status == 0) {
        status = parse_side(equals + 1, strlen(equals + 1), &ret->to, why, sizeof(why));
    }
    if (status == LW_EINVAL) {
        return invalid(explain, number, text, "right of the \"=\": %s", why);
    }
    if (status == 0 && (ret->from.port == 0) != (ret->to.port == 0)) {
        return invalid(explain, number, text, "only one side has a port");
    }
    return status;
}

/* Parses all pairs; `text` is cut into them. */
static int parse_all(char *text, struct lw__address_map *map,
                     const struct explain *explain)
{
    char *rest = text;
    int status = 0;

    while (status == 0 && (text = strsep(&rest, ",")) != NULL) {
        status = parse_pair(text, map->count + 1, &map->pairs[map->count], explain);
        map->count++;
    }
    return status;
}

/* ---- pairs together ---- */

static bool is_host(const struct lw__endpoint *a, const struct lw__endpoint *b)
{
    return strcasecmp(a->host, b->host) == 0;
}

/* Returns true if some endpoint that `to` may lead to is replaced by the pair. */
static bool is_replaced(const struct pair *pair, const struct lw__endpoint *to)
{
    return is_host(&pair->from, to) &&
           (pair->from.port == 0 || to->port == 0 || pair->from.port == to->port);
}

static void write_endpoint(const struct lw__endpoint *endpoint, char text[ENDPOINT_SIZE])
{
    bool v6 = strchr(endpoint->host, ':') != NULL;
    char port[sizeof(":65535")] = "";

    if (endpoint->port != 0) {
        (void)snprintf(port, sizeof(port), ":%u", (unsigned)endpoint->port);
    }
    (void)snprintf(text, ENDPOINT_SIZE, "%s%s%s%s", v6 ? "[" : "", endpoint->host,
                   v6 ? "]" : "", port);
}

static int refuse_pair(const struct pair *pair, size_t number, const char *what,
                       size_t other, const struct explain *explain)
{
    char from[ENDPOINT_SIZE], to[ENDPOINT_SIZE], text[2 * ENDPOINT_SIZE];

    write_endpoint(&pair->from, from);
    write_endpoint(&pair->to, to);
    (void)snprintf(text, sizeof(text), "%s=%s", from, to);
    return number == other ? invalid(explain, number, text, "%s this pair itself", what)
                           : invalid(explain, number, text, "%s pair %zu", what, other);
}

static int check_pairs(const struct lw__address_map *map, const struct explain *explain)
{
    for (size_t i = 0; i < map->count; i++) {
        const struct pair *pair = &map->pairs[i];

        for (size_t j = 0; j < i; j++) {
            if (lw__endpoint_equal(&map->pairs[j].from, &pair->from)) {
                return refuse_pair(pair, i + 1, "the left side is also that of", j + 1,
                                   explain);
            }
        }
        for (size_t j = 0; j < map->count; j++) {
            if (is_replaced(&map->pairs[j], &pair->to)) {
                return refuse_pair(pair, i + 1, "the right side is the left side of",
                                   j + 1, explain);
            }
        }
    }
    return 0;
}

/* ---- its life ---- */

static size_t count_pairs(const char *text)
{
    size_t count = 1;

    for (; *text != '\0'; text++) {
        count += *text == ',';
    }
    return count;
}

int lw__address_map_parse(const char *text, struct lw__address_map **ret, char *why,
                          size_t why_size)
{
    struct explain explain = {why, why_size};
    size_t count = count_pairs(text);
    struct lw__address_map *map;
    char *copy;
    int status;

    if (count > PAIRS_MAX) {
        (void)snprintf(why, why_size, "address_map: more than %d pairs", PAIRS_MAX);
        return LW_EINVAL;
    }
    (void)snprintf(why, why_size, "%s", lw_strerror(LW_ENOMEM));
    map = calloc(1, sizeof(*map) + count * sizeof(*map->pairs));
    copy = strdup(text);
    status = map != NULL && copy != NULL ? parse_all(copy, map, &explain) : LW_ENOMEM;
    if (status == 0) {
        status = check_pairs(map, &explain);
    }
    free(copy);
    if (status != 0) {
        free(map);
        return status;
    }
    *ret = map;
    return 0;
}

void lw__address_map_free(struct lw__address_map *map)
{
    free(map);
}

/* ---- its use ---- */

bool lw__address_map_apply(const struct lw__address_map *map,
                           struct lw__endpoint *endpoint)
{
    const struct pair *found = NULL;
    struct lw__endpoint key = *endpoint;

    normalize(&key);
    for (size_t i = 0; map != NULL && i < map->count; i++) {
        const struct pair *pair = &map->pairs[i];

        if (is_host(&pair->from, &key) &&
            (pair->from.port == key.port || (pair->from.port == 0 && found == NULL))) {
            found = pair;
        }
    }
    if (found == NULL) {
        return false;
    }
    (void)snprintf(endpoint->host, sizeof(endpoint->host), "%s", found->to.host);
    if (found->to.port != 0) {
        endpoint->port = found->to.port;
    }
    return true;
}

static void note(const struct lw__address_map *map, const struct lw__endpoint *announced,
                 bool target, char ret[LW__ADDRESS_MAP_NOTE_SIZE])
{
    struct lw__endpoint to = *announced;
    char text[ENDPOINT_SIZE];

    *ret = '\0';
    if (lw__address_map_apply(map, &to)) {
        write_endpoint(target ? &to : announced, text);
        (void)snprintf(ret, LW__ADDRESS_MAP_NOTE_SIZE, " (mapped %s %s)",
                       target ? "to" : "from", text);
    }
}

void lw__address_map_note_target(const struct lw__address_map *map,
                                 const struct lw__endpoint *announced,
                                 char ret[LW__ADDRESS_MAP_NOTE_SIZE])
{
    note(map, announced, true, ret);
}

void lw__address_map_note_origin(const struct lw__address_map *map,
                                 const struct lw__endpoint *announced,
                                 char ret[LW__ADDRESS_MAP_NOTE_SIZE])
{
    note(map, announced, false, ret);
}

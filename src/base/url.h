/* SPDX-License-Identifier: MIT */
/* Parses the URLs of servers: a string in, values or an explanation out. */
#ifndef LW_URL_H
#define LW_URL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LW__HOST_SIZE 254 /* of the longest host name, with its NUL */
#define LW__URL_HOSTS 16
#define LW__QUORUM_MOST 7 /* servers */
#define LW__GUARD_LEAST_MS 15000
#define LW__GUARD_MOST_MS 600000

struct lw__url_host {
    char *name;
    uint16_t port;
};

struct lw__url {
    char *host;                /* or NULL: path, service, cluster or quorum */
    char *path;                /* of a unix socket, or NULL */
    char *username, *password; /* NULL if absent */
    uint16_t port;
    int db;        /* -1 if absent */
    bool tls;      /* rediss:// or valkeys:// */
    char *service; /* that the sentinels in `hosts` monitor, or NULL */
    bool cluster;  /* `hosts` are nodes of a cluster */
    bool quorum;   /* `hosts` are the servers of a quorum: 3, 5 or 7, no two the same */
    struct lw__url_host hosts[LW__URL_HOSTS];
    size_t host_count;
    uint32_t guard_ms; /* 0 if absent, LW_GUARD_NONE for "none" */
    char *prefix;      /* NULL if absent */
};
/* Parses redis://[[user][:password]@]host[:port][/db], unix:///path[?db=N],
 * redis-sentinel://[[user][:password]@]host[:port][,host[:port]...]/service[/db],
 * redis-cluster://[[user][:password]@]host[:port][,host[:port]...][/db], or
 * redis-quorum://[[user][:password]@]host[:port],host[:port],host[:port]...[/db]; the
 * schemes with rediss use TLS. A scheme may begin with valkey in place of redis. Behind
 * each may be ?guard=TIME or ?guard=none, and ?prefix=TEXT; the second item and those
 * after it begin with & in place of ?. %XX is decoded, a host may be [v6], a user may
 * have no password. The prefix is not checked. Returns 0, LW_EINVAL or LW_ENOMEM; then
 * `why` says what is wrong and where. It never quotes the user part, which may hold a
 * password.
 */
int lw__url_parse(const char *text, struct lw__url *ret, char *why, size_t why_size);
void lw__url_clear(struct lw__url *url);
/* Parses host[:port] as in a URL. `ret->port` keeps its value if the text
 * has no port; `ret->name` is to be freed. Returns like lw__url_parse. */
int lw__url_parse_host(const char *text, size_t length, struct lw__url_host *ret,
                       char *why, size_t why_size);
#endif

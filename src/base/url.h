/* SPDX-License-Identifier: MIT */
/* URLs of servers. Pure: a string in, values or an explanation out. */
#ifndef LW_URL_H
#define LW_URL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LW__HOST_SIZE 254 /* of the longest name, with its NUL */
#define LW__URL_HOSTS 16

struct lw__url_host {
    char *name;
    uint16_t port;
};

struct lw__url {
    char *host;                /* NULL: path, or service */
    char *path;                /* NULL: host, or service */
    char *username, *password; /* NULL where absent */
    uint16_t port;
    int db;        /* -1: not said */
    bool tls;      /* rediss:// */
    char *service; /* of sentinels, NULL: host, path, or cluster */
    bool cluster;  /* the hosts are nodes of one */
    struct lw__url_host hosts[LW__URL_HOSTS];
    size_t host_count;
};
/* redis://[[user][:password]@]host[:port][/db], or unix:///path[?db=N], or
 * redis-sentinel://[[user][:password]@]host[:port][,host[:port]...]/service[/db]; with
 * rediss in place of redis by TLS; %XX decoded; a host may be [v6]; a user may come
 * without a password. LW_EINVAL and LW_ENOMEM are explained in `why`, what and where,
 * without the user part (it may hold a password). */
int lw__url_parse(const char *text, struct lw__url *ret, char *why, size_t why_size);
void lw__url_clear(struct lw__url *url);
#endif

/* SPDX-License-Identifier: MIT */
/* URLs of servers. Pure: a string in, values or an explanation out. */
#ifndef LW_URL_H
#define LW_URL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__url {
    char *host;                /* NULL: path */
    char *path;                /* NULL: host */
    char *username, *password; /* NULL where absent */
    uint16_t port;
    int db;   /* -1: not said */
    bool tls; /* rediss:// */
};
/* redis://[[user][:password]@]host[:port][/db], the same with rediss://, or
 * unix:///path[?db=N], %XX decoded; host may be [v6]; a user may come without a password.
 * LW_EINVAL and LW_ENOMEM are explained in `why`, what and where, without the user part
 * (it may hold a password). */
int lw__url_parse(const char *text, struct lw__url *ret, char *why, size_t why_size);
void lw__url_clear(struct lw__url *url);
#endif

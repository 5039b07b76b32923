/* SPDX-License-Identifier: MIT */
/* See quorum_url.h. */
#include "quorum_url.h"

#include <stdio.h>
#include <string.h>

struct quorum_url quorum_url_split(const char *url)
{
    const char *authority = strstr(url, "://") + 3;
    struct quorum_url parts = {.scheme = url,
                               .scheme_length = strcspn(url, "-"),
                               .user = authority,
                               .hosts = authority,
                               .rest = authority + strcspn(authority, "/?#")};

    for (const char *at = authority; at < parts.rest; at++) {
        if (*at == '@') {
            parts.hosts = at + 1;
        }
    }
    parts.user_length = (size_t)(parts.hosts - authority);
    return parts;
}

bool quorum_url_has_more(const struct quorum_url *parts)
{
    return parts->hosts < parts->rest;
}

int quorum_url_take(struct quorum_url *parts, struct quorum_member *ret)
{
    size_t left = (size_t)(parts->rest - parts->hosts);
    const char *comma = memchr(parts->hosts, ',', left);
    size_t length = comma != NULL ? (size_t)(comma - parts->hosts) : left;

    (void)snprintf(ret->host, sizeof(ret->host), "%.*s", (int)length, parts->hosts);
    if (asprintf(&ret->url, "%.*s://%.*s%.*s%s", (int)parts->scheme_length, parts->scheme,
                 (int)parts->user_length, parts->user, (int)length, parts->hosts,
                 parts->rest) < 0) {
        ret->url = NULL;
    }
    parts->hosts += length + (comma != NULL);
    return ret->url != NULL ? 0 : -1;
}

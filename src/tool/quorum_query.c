/* SPDX-License-Identifier: MIT */
/* See quorum_query.h. */
#include "quorum_query.h"

#include "options.h"
#include "query.h"
#include "report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int quorum_query_servers(const struct options *options, struct quorum_servers *ret)
{
    struct quorum_url parts;
    int code = query_check(options);

    *ret = (struct quorum_servers){0};
    if (code != 0) {
        return code;
    }
    parts = quorum_url_split(options->url);
    while (ret->count < QUORUM_MOST && quorum_url_has_more(&parts)) {
        if (quorum_url_take(&parts, &ret->at[ret->count]) < 0) {
            report("%s", lw_strerror(LW_ENOMEM));
            return EXIT_SYSTEM;
        }
        ret->count++;
    }
    ret->majority = ret->count / 2 + 1;
    return 0;
}

void quorum_query_clear(struct quorum_servers *servers)
{
    for (unsigned i = 0; i < servers->count; i++) {
        free(servers->at[i].url);
    }
}

/* Each client wipes its copy of the password. */
int quorum_query(struct query *ret, const struct options *options,
                 const struct quorum_member *at, const char *client_name)
{
    struct options own = *options;
    int code;

    own.url = at->url;
    own.quorum = false;
    own.password = options->password != NULL ? strdup(options->password) : NULL;
    if (options->password != NULL && own.password == NULL) {
        (void)snprintf(ret->error, sizeof(ret->error), "%s", lw_strerror(LW_ENOMEM));
        return EXIT_SYSTEM;
    }
    ret->options = &own;
    ret->silent = true;
    ret->default_guard_ms = QUORUM_GUARD_MS;
    code = query(ret, client_name);
    ret->options = options;
    free(own.password);
    return code;
}

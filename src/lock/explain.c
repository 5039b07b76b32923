/* SPDX-License-Identifier: MIT */
/* Explanations of refused calls. Where the caller gave no room for one, or too little, it
 * is not told, or cut. */
#include "lock/explain.h"

#include "base/check.h"
#include "base/forked.h"
#include "lock/structs.h"

#include <stdarg.h>
#include <stdio.h>

void lw__explain(struct lw_client *client, const char *format, ...)
{
    va_list args;

    if (client->options.errbuf == NULL || client->options.errbuf_size == 0) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(client->options.errbuf, client->options.errbuf_size, format, args);
    va_end(args);
}

int lw__explain_name(struct lw_client *client, const char *name)
{
    char why[LW__WHY];

    if (client->closing || lw__forked_is_child(&client->forked)) {
        lw__explain(client, "the client is closed");
        return LW_ECLOSED;
    }
    if (lw__check_name(name, why, sizeof(why)) != NULL) {
        lw__explain(client, "%s", why);
        return LW_EINVAL;
    }
    return 0;
}

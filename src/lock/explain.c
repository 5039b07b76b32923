/* SPDX-License-Identifier: MIT */
/*
 * Explanations of refused calls. Where the caller gave no room for one, or too little, it
 * is not told, or cut. Happy path: lw__explain.
 */
#include "lock/explain.h"

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

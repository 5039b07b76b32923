/* SPDX-License-Identifier: MIT */
/* See reasons.h. */
#include "base/reasons.h"

#include <stdio.h>
#include <string.h>

/* Room for an address and the beginning of a reason: of many servers only the first are
 * listed. */
#define LEAST 64

void lw__reasons_begin(struct lw__reasons *reasons, char *text, size_t size,
                       const char *head, size_t count)
{
    (void)snprintf(text, size, "%s", head);
    *reasons = (struct lw__reasons){text, size, strlen(text), count};
}

void lw__reasons_add(struct lw__reasons *reasons, const char *server, const char *why)
{
    size_t rest = reasons->size - reasons->length;
    size_t share = reasons->left > 1 ? rest / reasons->left : rest;

    share = share > LEAST ? share : LEAST;
    (void)snprintf(reasons->text + reasons->length, share < rest ? share : rest,
                   "%s%s: %s", reasons->length > 0 ? "; " : "", server,
                   *why ? why : "not asked yet");
    reasons->length += strlen(reasons->text + reasons->length);
    reasons->left -= reasons->left > 0;
}

/* SPDX-License-Identifier: MIT */
/* Why a call was refused, into the caller's errbuf. */
#ifndef LW_EXPLAIN_H
#define LW_EXPLAIN_H

struct lw_client;

void lw__explain(struct lw_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* What every call that names a lock asks first: 0, LW_ECLOSED, LW_EINVAL; explained. */
int lw__explain_name(struct lw_client *client, const char *name);
#endif

/* SPDX-License-Identifier: MIT */
/*
 * Between loop.c and lookup.c alone: what name resolution needs of the loop. The rest of
 * the library sees lw__lookup_new and lw__lookup_cancel in loop.h.
 */
#ifndef LW_LOOKUP_H
#define LW_LOOKUP_H
#include "loop.h"

struct evdns_base;

/* Where the loop keeps its resolver, made by the first lookup that needs one. */
struct evdns_base **lw__loop_resolver(struct lw__loop *loop);
/* Legal at any time that no lookup is left. NULL is fine. */
void lw__resolver_free(struct evdns_base *resolver);
#endif

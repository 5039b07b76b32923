/* SPDX-License-Identifier: MIT */
/*
 * Between loop.c and lookup.c alone: what name resolution needs of the loop. The rest of
 * the library sees lw__lookup_new and lw__lookup_cancel in loop.h.
 */
#ifndef LW_LOOKUP_H
#define LW_LOOKUP_H
#include "loop.h"

/* The file that names the servers, /etc/resolv.conf; a test leads elsewhere. */
const char **lw__loop_resolv_conf(struct lw__loop *loop);
#endif

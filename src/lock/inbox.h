/* SPDX-License-Identifier: MIT */
/* Messages on the client's channel, to the claims that they mean. */
#ifndef LW_INBOX_H
#define LW_INBOX_H
#include <stddef.h>

struct lw_client;

void lw__inbox_message(void *arg, const char *text, size_t length);
#endif

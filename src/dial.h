/* SPDX-License-Identifier: MIT */
/* Sockets to a Redis: starting a connection without blocking, and how it went. */
#ifndef LW_DIAL_H
#define LW_DIAL_H
#include "link.h"

#include <sys/types.h>

/* Who is dialed, for messages. */
void lw__dial_name(const struct lw__link_options *options, char *ret, size_t size);
/* A descriptor whose connection is made or being made; or the negative of an errno. */
int lw__dial(const struct lw__link_options *options);
/* Whether it is decided, and then 0 or the errno that ended it. */
bool lw__dial_decided(int fd);
int lw__dial_result(int fd);
/* As write(2), but never raises SIGPIPE. */
ssize_t lw__dial_write(int fd, const char *bytes, size_t length);
#endif

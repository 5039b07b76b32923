/* SPDX-License-Identifier: MIT */
/* The channels that a connection subscribes to, each once. libc only. */
#ifndef LW_CHANNELS_H
#define LW_CHANNELS_H
#include <stdbool.h>

struct lw__channel;

struct lw__channels {
    struct lw__channel *newest;
};

bool lw__channels_have(const struct lw__channels *channels, const char *name);
int lw__channels_add(struct lw__channels *channels, const char *name); /* 0, LW_ENOMEM */
void lw__channels_clear(struct lw__channels *channels);
#endif

/* SPDX-License-Identifier: MIT */
/*
 * A list of channels. Must not know who says what on them. Happy path: add, have, clear.
 * One for which there is no memory is not added.
 */
#include "redis/channels.h"

#include "lockwire.h"

#include <stdlib.h>
#include <string.h>

struct lw__channel {
    struct lw__channel *older;
    char name[];
};

bool lw__channels_have(const struct lw__channels *channels, const char *name)
{
    const struct lw__channel *channel = channels->newest;

    while (channel != NULL && strcmp(channel->name, name) != 0) {
        channel = channel->older;
    }
    return channel != NULL;
}

int lw__channels_add(struct lw__channels *channels, const char *name)
{
    size_t size = strlen(name) + 1;
    struct lw__channel *channel;

    if (lw__channels_have(channels, name)) {
        return 0;
    }
    channel = malloc(sizeof(*channel) + size);
    if (channel == NULL) {
        return LW_ENOMEM;
    }
    memcpy(channel->name, name, size);
    channel->older = channels->newest;
    channels->newest = channel;
    return 0;
}

void lw__channels_clear(struct lw__channels *channels)
{
    struct lw__channel *channel;

    while ((channel = channels->newest) != NULL) {
        channels->newest = channel->older;
        free(channel);
    }
}

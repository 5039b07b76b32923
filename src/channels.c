/* SPDX-License-Identifier: MIT */
/* A list of channels. Must not know who says what on them. Happy path: add, have, clear. */
#include "channels.h"

#include "lockwire.h"

#include <stdlib.h>
#include <string.h>

bool lw__channels_have(const struct lw__channels *channels, const char *name)
{
    for (size_t i = channels->count; i > 0; i--) {
        if (strcmp(channels->names[i - 1], name) == 0) {
            return true;
        }
    }
    return false;
}

int lw__channels_add(struct lw__channels *channels, const char *name)
{
    char *copy;

    if (lw__channels_have(channels, name)) {
        return 0;
    }
    if (channels->count == channels->room) {
        size_t room = channels->room == 0 ? 2 : 2 * channels->room;
        char **names = realloc(channels->names, room * sizeof(*names));

        if (names == NULL) {
            return LW_ENOMEM;
        }
        channels->names = names;
        channels->room = room;
    }
    copy = strdup(name);
    if (copy == NULL) {
        return LW_ENOMEM;
    }
    channels->names[channels->count++] = copy;
    return 0;
}

void lw__channels_clear(struct lw__channels *channels)
{
    for (size_t i = 0; i < channels->count; i++) {
        free(channels->names[i]);
    }
    free(channels->names);
    *channels = (struct lw__channels){NULL, 0, 0};
}

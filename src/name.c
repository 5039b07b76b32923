/* SPDX-License-Identifier: MIT */
/* The names that a client uses now, found by their text; gone with their last user. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

struct lw__name *lw__name_find(struct lw_client *client, const char *text)
{
    struct lw__name *name;

    HASH_FIND_STR(client->names, text, name);
    return name;
}

struct lw__name *lw__name_get(struct lw_client *client, const char *text)
{
    struct lw__name *name = lw__name_find(client, text);
    size_t length = strlen(text);

    if (!name) {
        name = malloc(sizeof *name + length + 1);
        if (!name)
            return NULL;
        memset(name, 0, sizeof *name);
        memcpy(name->text, text, length + 1);
        HASH_ADD_KEYPTR(hh, client->names, name->text, length, name);
        if (!lw__name_find(client, text)) { /* uthash had no memory */
            free(name);
            return NULL;
        }
    }
    name->references++;
    return name;
}

void lw__name_put(struct lw_client *client, struct lw__name *name)
{
    if (--name->references > 0)
        return;
    if (client)
        HASH_DEL(client->names, name);
    free(name);
}

/* SPDX-License-Identifier: MIT */
/* The names that a client uses now, found by their text; gone with their last user. */
#include "lock/name.h"

#include "base/check.h"
#include "base/forked.h"
#include "base/hash.h"
#include "base/told.h"
#include "lock/options.h"
#include "lock/structs.h"

#include <stdlib.h>
#include <string.h>

static struct lw__name *find(struct lw_client *client, const char *text, size_t length,
                             unsigned hash)
{
    struct lw__name *name;

    HASH_FIND_BYHASHVALUE(hh, client->names, text, length, hash, name);
    return name;
}

struct lw__name *lw__name_find(struct lw_client *client, const char *text)
{
    size_t length = strlen(text);

    return find(client, text, length,
                (unsigned)lw__hash(&client->hash_key, text, length));
}

void lw__name_keep(struct lw__name *name)
{
    name->references++;
}

struct lw__name *lw__name_get(struct lw_client *client, const char *text)
{
    size_t length = strlen(text);
    unsigned hash = (unsigned)lw__hash(&client->hash_key, text, length);
    struct lw__name *name = find(client, text, length, hash);

    if (name == NULL) {
        name = malloc(sizeof(*name) + length + 1);
        if (name == NULL) {
            return NULL;
        }
        memset(name, 0, sizeof(*name));
        memcpy(name->text, text, length + 1);
        HASH_ADD_KEYPTR_BYHASHVALUE(hh, client->names, name->text, length, hash, name);
        if (name->hh.tbl == NULL) { /* uthash had no memory */
            free(name);
            return NULL;
        }
    }
    lw__name_keep(name);
    return name;
}

void lw__name_put(struct lw_client *client, struct lw__name *name)
{
    if (--name->references > 0) {
        return;
    }
    if (client != NULL) {
        HASH_DEL(client->names, name);
    }
    free(name);
}

int lw__name_check(struct lw_client *client, const char *name)
{
    char why[LW__WHY];

    if (client->closing || lw__forked_is_child(&client->forked)) {
        lw__options_explain(client, "the client is closed");
        return LW_ECLOSED;
    }
    if (lw__check_name(name, why, sizeof(why)) != NULL) {
        lw__options_explain(client, "%s", why);
        return LW_EINVAL;
    }
    return 0;
}

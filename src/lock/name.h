/* SPDX-License-Identifier: MIT */
/* The names that a client uses now. */
#ifndef LW_NAME_H
#define LW_NAME_H
#include <stddef.h>

struct lw__name;
struct lw_client;

/* By the hash of their text. No uthash: its handle takes more than all else of a name, of
 * which a client may have a hundred thousand. */
struct lw__names {
    struct lw__name **slots;
    size_t count, size; /* of the slots: a power of two, or 0 */
};

/* What every call asks first: 0, LW_ECLOSED; explained. And every call that names a lock,
 * which may be LW_EINVAL, too. */
int lw__name_check_open(struct lw_client *client);
int lw__name_check(struct lw_client *client, const char *name);
/* The name, new or known; NULL: no memory. Each get wants a put. */
struct lw__name *lw__name_get(struct lw_client *client, const char *text);
struct lw__name *lw__name_find(struct lw_client *client, const char *text);
/* Each that is in use, in no order: the one after this, which is in use still; NULL: the
 * first one. None may be new meanwhile. */
struct lw__name *lw__name_after(const struct lw_client *client,
                                const struct lw__name *name);
/* One more user of a name that is in use. */
void lw__name_keep(struct lw__name *name);
/* client NULL: it is gone, the name is nobody's but its handles'. */
void lw__name_put(struct lw_client *client, struct lw__name *name);
/* The client goes: names that handles still use belong to these from now on. */
void lw__name_clear(struct lw_client *client);
#endif

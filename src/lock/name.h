/* SPDX-License-Identifier: MIT */
/* The names that a client uses now. */
#ifndef LW_NAME_H
#define LW_NAME_H

struct lw__name;
struct lw_client;

/* What every call that names a lock asks first: 0, LW_ECLOSED, LW_EINVAL; explained. */
int lw__name_check(struct lw_client *client, const char *name);
/* The name, new or known; NULL: no memory. Each get wants a put. */
struct lw__name *lw__name_get(struct lw_client *client, const char *text);
struct lw__name *lw__name_find(struct lw_client *client, const char *text);
/* One more user of a name that is in use. */
void lw__name_keep(struct lw__name *name);
/* client NULL: it is gone, the name is nobody's but its handles'. */
void lw__name_put(struct lw_client *client, struct lw__name *name);
#endif

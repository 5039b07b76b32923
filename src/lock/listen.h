/* SPDX-License-Identifier: MIT */
/* The connection that listens to Redisson's channels while handles wait. */
#ifndef LW_LISTEN_H
#define LW_LISTEN_H
#include <stdbool.h>

struct lw__name;
struct lw_client;

/* The name's channel is, or shall be, listened to. Without memory it is not. */
void lw__listen_to(struct lw_client *client, const struct lw__name *awaited);
/* Is it, as far as the server confirmed? */
bool lw__listen_hears(const struct lw_client *client, const char *name);
void lw__listen_close(struct lw_client *client); /* listens no more */
#endif

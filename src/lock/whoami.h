/* SPDX-License-Identifier: MIT */
/* Who this client is, for whoever asks Redis. */
#ifndef LW_WHOAMI_H
#define LW_WHOAMI_H
#include "loop/loop.h"
#include "redis/command.h"
#include "redis/format.h"

#include <stdbool.h>
#include <stdint.h>

struct lw_client;

struct lw__whoami {
    struct lw__command command;
    char key[LW__CLIENT_SIZE];
    struct lw_client *client;
    struct lw__timer timer;
    int64_t due_us;
    bool kept; /* it stands in Redis */
};

void lw__whoami_init(struct lw_client *client);
/* The client is in use: it shall be there. Costs nothing while it is. */
void lw__whoami_keep(struct lw_client *client, int64_t now_us);
void lw__whoami_renew(struct lw_client *client); /* a link came up: is it still there? */
void lw__whoami_drop(struct lw_client *client);  /* the client closes */
#endif

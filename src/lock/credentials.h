/* SPDX-License-Identifier: MIT */
/* The connections that wait to be told what to log in with. */
#ifndef LW_CREDENTIALS_H
#define LW_CREDENTIALS_H
#include "lock/notify.h"

struct lw__session_config;
struct lw__login;
struct lw_client;
struct lw_credentials;

struct lw__credentials {
    struct lw__login *logins; /* in order of asking */
    struct lw__notice notice; /* queued while there are any */
};

/* Where the client's caller gives them, connections by this config ask for them. */
void lw__credentials_ask(struct lw_client *client, struct lw__session_config *config);
/* The one that has waited longest; NULL: none. */
struct lw__login *lw__credentials_first(const struct lw_client *client);
/* What the caller answered for it, and gave; it may have ended meanwhile, and the client
 * may have been freed. */
void lw__credentials_answer(struct lw_client *client, struct lw__login *login, int status,
                            const struct lw_credentials *given);
#endif

/* SPDX-License-Identifier: MIT */
/* Who waits to be told what to log in with. Must not call the user, nor keep what he
 * gives. Happy path: a connection stands, wanted(); deliver.c asks the caller;
 * lw__credentials_answer has the connection log in. Where there is nothing to log in
 * with, or nothing that can be sent, it is refused, and its session backs off. */
#include "lock/lock_private.h"

#include "base/log.h"
#include "redis/session.h"

#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <utlist.h>

static void needed(void *arg, struct lw__login *login)
{
    struct lw_client *client = arg;

    DL_APPEND(client->credentials.logins, login);
    lw__notify_credentials(client);
}

static void cancel(void *arg, struct lw__login *login)
{
    struct lw_client *client = arg;

    DL_DELETE(client->credentials.logins, login);
    if (client->credentials.logins == NULL) {
        lw__notify_cancel(client, &client->credentials.notice);
    }
}

void lw__credentials_ask(struct lw_client *client, struct lw__session_config *config)
{
    static const struct lw__login_events events = {needed, cancel};

    if (client->options.credentials != NULL) {
        config->login = &events;
        config->login_arg = client;
    }
}

struct lw__login *lw__credentials_first(const struct lw_client *client)
{
    return client->credentials.logins;
}

static bool still_waits(const struct lw_client *client, const struct lw__login *login)
{
    const struct lw__login *waiting;

    DL_FOREACH(client->credentials.logins, waiting) {
        if (waiting == login) {
            return true;
        }
    }
    return false;
}

static bool ends(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

/* What is wrong with it; NULL: nothing. */
static const char *fault_of(int status, const struct lw_credentials *given)
{
    if (status != 0) {
        return lw_strerror(status);
    }
    if (!ends(given->username, sizeof(given->username)) ||
        !ends(given->password, sizeof(given->password))) {
        return "a string without its end";
    }
    return given->password[0] == '\0' ? "no password" : NULL;
}

/* The subscription's end is told nowhere else. */
static void refuse(struct lw_client *client, struct lw__login *login, const char *fault)
{
    char why[LW__WHY_MAX];

    (void)snprintf(why, sizeof(why), "no credentials were given: %s", fault);
    lw__log(&client->log, LOG_WARNING, "%s", why);
    lw__session_refuse(login, why);
}

void lw__credentials_answer(struct lw_client *client, struct lw__login *login, int status,
                            const struct lw_credentials *given)
{
    const char *fault = fault_of(status, given);

    if (!still_waits(client, login)) {
        return;
    }
    if (fault != NULL) {
        refuse(client, login, fault);
    } else {
        lw__session_log_in(login, given->username, given->password);
    }
    if (!client->freed && client->credentials.logins != NULL) {
        lw__notify_credentials(client);
    }
}

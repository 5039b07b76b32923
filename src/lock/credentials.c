/* SPDX-License-Identifier: MIT */
/* The connections that wait for the credentials callback. Calls no user callback, and
 * keeps no credentials.
 *
 * A connection that is established queues a request and a notice; deliver.c calls the
 * user's callback; lw__credentials_answer has the connection log in. If the callback
 * fails, or returns credentials that cannot be sent, the login is refused and the session
 * backs off. */
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

static bool is_pending(const struct lw_client *client, const struct lw__login *login)
{
    const struct lw__login *waiting;

    DL_FOREACH(client->credentials.logins, waiting) {
        if (waiting == login) {
            return true;
        }
    }
    return false;
}

static bool is_terminated(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

/* Returns the reason why the credentials cannot be used, or NULL if they can. */
static const char *fault_of(int status, const struct lw_credentials *given)
{
    if (status != 0) {
        return lw_strerror(status);
    }
    if (!is_terminated(given->username, sizeof(given->username)) ||
        !is_terminated(given->password, sizeof(given->password))) {
        return "username or password without a terminating NUL";
    }
    return given->password[0] == '\0' ? "the password is empty" : NULL;
}

/* Logs the refusal as well: that of a subscription is reported nowhere else. */
static void refuse(struct lw_client *client, struct lw__login *login, const char *fault)
{
    char why[LW_WHY_SIZE];

    (void)snprintf(why, sizeof(why), "no credentials available: %s", fault);
    lw__log_cause(&client->log, lw__now_us(), LOG_WARNING, "%s", why);
    lw__session_refuse(login, why);
}

void lw__credentials_answer(struct lw_client *client, struct lw__login *login, int status,
                            const struct lw_credentials *given)
{
    const char *fault = fault_of(status, given);

    if (!is_pending(client, login)) {
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

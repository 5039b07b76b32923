/* SPDX-License-Identifier: MIT */
/* See query.h. */
#include "query.h"

#include "options.h"
#include "password.h"
#include "report.h"
#include "system.h"

#include <event2/event.h>
#include <syslog.h>

static void on_closed(struct lw_client *client, void *arg)
{
    struct reach *reach = arg;

    (void)client;
    event_base_loopbreak(reach->base);
}

void reach_end(struct reach *reach, int code)
{
    if (reach->ending) {
        return;
    }
    reach->ending = 1;
    reach->code = code;
    if (lw_client_close(reach->client, on_closed, reach) < 0) {
        event_base_loopbreak(reach->base);
    }
}

void reach_fail(struct reach *reach, int status, const char *why)
{
    const char *colon = *why ? ": " : "";

    switch (status) {
    case LW_EINVAL:
        say("%s", *reach->error ? reach->error : lw_strerror(status));
        break;
    case LW_ECONN:
        if (lw_client_is_up(reach->client, NULL)) {
            say("the server cannot serve '%s' now%s%s", reach->options->name, colon, why);
        } else {
            say("no connection to the server%s%s", colon, why);
        }
        break;
    case LW_EREDIS:
        say("the server refuses '%s'%s%s", reach->options->name, colon, why);
        break;
    default:
        say("'%s': %s%s%s", reach->options->name, lw_strerror(status), colon, why);
    }
    reach_end(reach, codes_for(status, LW_OK, STATUS_BUSY));
}

/* Returns true if the first connection failed permanently, so that waiting is useless. */
static bool is_for_good(const struct reach *reach, int error)
{
    return !reach->connected && (error == LW_EREDIS || error == LW_ESYSTEM);
}

static void on_link(struct lw_client *client, int up, const char *why, void *arg)
{
    struct reach *reach = arg;
    int error = lw_client_error(client);

    if (reach->ending) {
        return;
    }
    reach->connected = reach->connected || up;
    if (up) {
        reach->events->up(reach);
    } else if (is_for_good(reach, error)) {
        say("%s: %s",
            error == LW_EREDIS ? "the server refuses the connection" : lw_strerror(error),
            why);
        reach_end(reach, codes_for(LW_ECONN, error, STATUS_BUSY));
    } else if (reach->events->down) {
        reach->events->down(reach, why);
    } else {
        reach_fail(reach, LW_ECONN, why);
    }
}

static void on_log(int level, const char *message, void *arg)
{
    struct reach *reach = arg;

    (void)level;
    if (!say_is_no_connection(message)) { /* `down` or on_link writes that */
        reach->warned = 1;
        say("%s", message);
    }
}

void reach_look(struct reach *reach, lw_inspect_cb *done, void *arg)
{
    int error;

    reach->asked_ms = system_now_ms();
    error = lw_inspect(reach->client, reach->options->name, done, arg);
    if (error != 0) {
        reach_fail(reach, error, "");
    }
}

const struct lw_master *reach_master(const struct reach *reach, struct lw_master *ret)
{
    return lw_client_master(reach->client, ret) == 0 ? ret : NULL;
}

int reach_open(struct reach *reach, const char *client_name)
{
    struct lw_client_options client = LW_CLIENT_OPTIONS_INIT;
    int error;

    reach->code = STATUS_SYSTEM; /* unless reach_end tells better */
    reach->base = event_base_new();
    if (reach->base == NULL) {
        say("cannot start an event loop");
        return STATUS_SYSTEM;
    }
    client.client_name = client_name;
    client.link = on_link;
    client.log = on_log;
    client.log_level = reach->warns ? LOG_WARNING : LOG_ERR;
    client.arg = reach;
    client.errbuf = reach->error;
    client.errbuf_size = sizeof(reach->error);
    options_client(reach->options, &client);
    error = lw_client_new(reach->base, reach->options->url, &client, &reach->client);
    password_wipe(reach->options->password);
    password_wipe(reach->options->sentinel_password);
    if (error == 0) {
        return 0;
    }
    say("%s", *reach->error ? reach->error : lw_strerror(error));
    return error == LW_EINVAL ? STATUS_USAGE : STATUS_SYSTEM;
}

int reach_run(struct reach *reach)
{
    event_base_dispatch(reach->base);
    return reach->code;
}

void reach_close(struct reach *reach)
{
    lw_client_free(reach->client);
    if (reach->base != NULL) {
        event_base_free(reach->base);
    }
}

int reach(const struct options *options, const struct reach_events *events,
          const char *client_name, void *arg)
{
    struct reach reach = {.options = options, .events = events, .arg = arg};
    int code = reach_open(&reach, client_name);

    if (code == 0) {
        code = reach_run(&reach);
    }
    reach_close(&reach);
    return code;
}

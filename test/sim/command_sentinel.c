/* SPDX-License-Identifier: MIT
 *
 * ROLE, and what a sentinel replies about the one service that it monitors. Independent
 * of how roles change. Offsets are all 0, since no client uses them.
 */
#include "model.h"

#include <inttypes.h>
#include <stdio.h>

static const char *host_of(const struct model_place *place)
{
    return place->host != NULL ? place->host : "";
}

static void reply_number(struct call *call, int64_t number)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%" PRId64, number);
    resp_text(call->reply, text);
}

static void reply_role_of_sentinel(struct call *call)
{
    resp_array(call->reply, 2);
    resp_text(call->reply, "sentinel");
    resp_array(call->reply, 1);
    resp_text(call->reply, call->server->view->service);
}

static void reply_role_of_replica(struct call *call)
{
    const struct model_place *place = &call->server->master->place;

    resp_array(call->reply, 5);
    resp_text(call->reply, "slave");
    resp_text(call->reply, host_of(place));
    resp_int(call->reply, place->port);
    resp_text(call->reply, "connected");
    resp_int(call->reply, 0);
}

static void reply_role_of_master(struct call *call)
{
    const struct model_server *replica = call->server->replica;

    resp_array(call->reply, 3);
    resp_text(call->reply, "master");
    resp_int(call->reply, 0);
    resp_array(call->reply, replica != NULL ? 1 : 0);
    if (replica != NULL) {
        resp_array(call->reply, 3);
        resp_text(call->reply, host_of(&replica->place));
        reply_number(call, replica->place.port);
        resp_text(call->reply, "0");
    }
}

void run_role(struct call *call)
{
    if (call->server->view != NULL) {
        reply_role_of_sentinel(call);
    } else if (call->server->master != NULL &&
               !(call->server->map != NULL && call->server->map->boasts)) {
        reply_role_of_replica(call);
    } else {
        reply_role_of_master(call);
    }
}

static bool knows_service(struct call *call)
{
    if (bytes_equal(call->argv[2], bytes_of(call->server->view->service))) {
        return true;
    }
    resp_error(call->reply, "ERR No such master with that name");
    return false;
}

static void reply_place(struct call *call, const char *name,
                        const struct model_place *place)
{
    resp_text(call->reply, "name");
    resp_text(call->reply, name);
    resp_text(call->reply, "ip");
    resp_text(call->reply, host_of(place));
    resp_text(call->reply, "port");
    reply_number(call, place->port);
    resp_text(call->reply, "flags");
}

static void reply_known(struct call *call, const struct model_known *known)
{
    resp_text(call->reply, "runid");
    resp_text(call->reply, known->run_id);
    resp_text(call->reply, "info-refresh");
    reply_number(call, (call->server->now_us - known->info_us) / 1000);
}

/* Replies with only the fields that a client may use. */
void run_sentinel_master(struct call *call)
{
    const struct model_view *view = call->server->view;

    if (!knows_service(call)) {
        return;
    }
    resp_array(call->reply, 14);
    reply_place(call, view->service, &view->master.place);
    resp_text(call->reply, view->flags);
    reply_known(call, &view->master);
    resp_text(call->reply, "config-epoch");
    reply_number(call, view->config_epoch);
}

void run_sentinel_replicas(struct call *call)
{
    const struct model_view *view = call->server->view;

    if (!knows_service(call)) {
        return;
    }
    resp_array(call->reply, 1);
    resp_array(call->reply, 12);
    reply_place(call, "replica", &view->replica.place);
    resp_text(call->reply, "slave");
    reply_known(call, &view->replica);
}

void run_sentinel_myid(struct call *call)
{
    resp_text(call->reply, call->server->view->id);
}

void run_sentinel_sentinels(struct call *call)
{
    const struct model_view *view = call->server->view;

    if (!knows_service(call)) {
        return;
    }
    resp_array(call->reply, view->other_count);
    for (size_t i = 0; i < view->other_count; i++) {
        const struct model_other *other = &view->others[i];

        resp_array(call->reply, 10);
        reply_place(call, other->id, &other->place);
        resp_text(call->reply, "sentinel");
        resp_text(call->reply, "runid");
        resp_text(call->reply, other->id);
    }
}

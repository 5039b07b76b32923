/* SPDX-License-Identifier: MIT */
/* A client's life: creation, closing, statistics. Connects the parts: the events of
 * nodes, claims and notices are registered here. Independent of single locks.
 *
 * lw_client_new starts to connect. Once the node is up, or the slot map of a cluster is
 * known, the link callback is called. lw_client_close waits until the client is drained,
 * and calls back. lw_client_free may be called at any time.
 *
 * A failed attempt to connect is logged and reported to the link callback; one to a
 * single node of a cluster is logged only. A client that is not drained within
 * close_timeout_ms is closed all the same; its open releases end with LW_EUNKNOWN. */
#include "lock/lock_private.h"

#include "base/check.h"
#include "base/container_of.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/random.h"
#include "look/look.h"
#include "loop/loop.h"
#include "quorum/quorum_private.h"
#include "redis/route.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>
#include <utlist.h>

/* ---- events of the servers ---- */

static void link_changed(void *arg, int status, const char *why)
{
    struct lw_client *client = arg;
    bool up = status == LW_OK;
    bool for_good = status == LW_EREDIS || status == LW_ESYSTEM;

    client->stats.link_up = up;
    client->error = status;
    lw__escape(why, client->why, sizeof(client->why));
    if (up) {
        lw__log(&client->log, LOG_INFO, "connected");
    } else {
        lw__log_cause(&client->log, lw__now_us(), for_good ? LOG_ERR : LOG_WARNING,
                      "no connection: %s", why);
        lw__list_map_unavailable(client, UINT_MAX, why);
    }
    lw__notify_link(client, up, why);
    lw__watch_look_again(client, NULL);
}

static void remapped(void *arg)
{
    struct lw_client *client = arg;

    lw__retry_remap_all(&client->holds);
    lw__turns_subscribe(client, NULL);
    lw__list_remapped(client);
    lw__watch_look_again(client, NULL);
}

static void map_unavailable(void *arg, unsigned map, const char *why)
{
    lw__list_map_unavailable(arg, map, why);
}

/* Each member of the quorum verifies its votes by itself. */
static void quorum_changed(struct lw_client *client, bool was_up)
{
    struct lw__node *node = lw__route_node(client->route, 0);

    link_changed(client, lw__quorum_error(client->quorum), client->quorum->why);
    if (client->quorum->up) {
        lw__retry_all(&client->holds, node, false);
    } else if (was_up || lw__node_is_backing_off(node)) {
        lw__turns_link_down(client, node);
    }
}

static void node_up(void *arg, struct lw__node *node)
{
    struct lw_client *client = arg;

    lw__retry_all(&client->holds, node, true);
    lw__identity_verify(&client->identity);
    lw__turns_subscribe(client, node);
    lw__watch_look_again(client, node);
}

static void node_down(void *arg, struct lw__node *node)
{
    lw__turns_link_down(arg, node);
    lw__watch_look_again(arg, node);
}

static void node_bound(void *arg, struct lw__node *node)
{
    struct lw_client *client = arg;

    lw__watch_look_again(client, node);
    lw__retry_all(&client->holds, node, false);
}

/* A hold that could not be extended may be extended now. */
static void guard_changed(void *arg, struct lw__node *node)
{
    struct lw_client *client = arg;

    lw__retry_all(&client->holds, node, true);
}

static void slot_unsubscribed(void *arg, struct lw__node *node, unsigned slot)
{
    struct lw_client *client = arg;

    lw__retry_slot(&client->holds, node, slot);
    lw__watch_look_again(client, node);
}

static void keep_slots(void *arg, struct lw__node *node)
{
    lw__turns_subscribe(arg, node);
}

/* `arg` is the client's holds. */
static void key_changed(void *arg, const char *key)
{
    lw__watch_key_changed(LW__CONTAINER_OF(struct lw_client, holds, arg), key);
}

/* ---- creation ---- */

static int start_route(struct lw_client *client)
{
    static const struct lw__route_events events = {
        link_changed,
        remapped,
        map_unavailable,
        {.up = node_up,
         .down = node_down,
         .bound = node_bound,
         .guard_changed = guard_changed,
         .slot_unsubscribed = slot_unsubscribed,
         .keep_slots = keep_slots}};
    struct lw__route_options options;
    int status;

    lw__options_fill_route(client, &client->holds, &options);
    options.node.inert = client->quorum != NULL;
    options.node.key_changed = key_changed;
    lw__credentials_ask(client, &options.node.config);
    status = lw__route_new(&options, &events, client, &client->route);
    client->holds.route = client->route;
    return status;
}

/* Drops all inspections, lists and queued callbacks, without calling back. */
static void cancel_callbacks(struct lw_client *client)
{
    while (client->lists != NULL) {
        lw__list_free(client->lists);
    }
    while (client->inspect_calls != NULL) {
        lw__inspect_free(client->inspect_calls);
    }
    lw__watch_end_all(client);
    lw__notify_clear(client);
}

/* The event loop runs in a forked child: frees everything except the handles, and closes
 * the child's copies of the descriptors, so that the connections end with the parent. */
static void end_in_child(void *arg)
{
    struct lw_client *client = arg;
    struct lw_lock *lock;

    DL_FOREACH(client->locks, lock) {
        lw__renew_call_free_all(lock); /* linked in lists of the nodes, freed below */
    }
    client->inherited = client->closing = true;
    lw__log(&client->log, LOG_WARNING, "process %ld: %s", (long)getpid(), LW__INHERITED);
    cancel_callbacks(client);
    lw__ending_closed(client);
}

static void close_timed_out(void *arg)
{
    struct lw_client *client = arg;
    struct lw_lock *lock;

    DL_FOREACH(client->locks, lock) {
        if (lock->state == LW_RELEASING && lock->notice.kind == LW__NOTICE_NONE) {
            lw__turns_abandon_release(lock);
        }
    }
    lw__notify_closed(client);
}

static int init(struct lw_client *client, struct event_base *base, const char *url,
                const struct lw_client_options *given)
{
    int status = lw__options_take(client, url, given);

    if (status != 0) {
        return status;
    }
    if (lw__loop_new(base, &client->loop) != 0) {
        return LW_ENOMEM;
    }
    client->process = lw__loop_process(client->loop);
    client->holds.loop = client->loop;
    client->holds.claim_size = sizeof(struct lw__handles);
    client->holds.log = &client->log;
    client->holds.prefix = client->options.prefix != NULL ? client->options.prefix : "";
    client->holds.prefix_length = (uint8_t)strlen(client->holds.prefix);
    client->holds.stats = &client->stats;
    client->holds.request_timeout_ms = client->options.request_timeout_ms;
    if (lw__timer_reserve(client->loop, 3) != 0) {
        return LW_ENOMEM;
    }
    lw__loop_on_child(client->loop, end_in_child, client);
    if (lw__loop_set_priority(client->loop, client->options.priority) != 0) {
        lw__options_explain(
            client,
            "priority %d is not between 0 and %d, the priorities of the event_base",
            client->options.priority, lw__loop_priorities(client->loop) - 1);
        return LW_EINVAL;
    }
    lw__random_seed(&client->holds.random, (uint64_t)lw__now_us() ^
                                               (uint64_t)(uintptr_t)client ^
                                               (uint64_t)getpid() << 32);
    lw__notify_init(client, lw__deliver);
    lw__renewal_init(&client->holds);
    lw__identity_describe(client);
    lw__identity_init(&client->identity, client, &client->holds);
    lw__timer_init(&client->close_timer, close_timed_out, client);
    if (client->url.quorum && lw__quorum_new(client, quorum_changed) != 0) {
        return LW_ENOMEM;
    }
    status = start_route(client);
    return status == 0 && client->quorum != NULL ? lw__quorum_votes_start(client)
                                                 : status;
}

int lw_client_new(struct event_base *base, const char *url,
                  const struct lw_client_options *options, struct lw_client **ret)
{
    struct lw_client *client = calloc(1, sizeof(*client));
    int status;

    if (client == NULL) {
        lw__options_explain_given(options, lw_strerror(LW_ENOMEM));
        return LW_ENOMEM;
    }
    if (!lw__random_uuid(client->holds.uuid) ||
        !lw__random_bytes(&client->holds.hash_key, sizeof(client->holds.hash_key))) {
        lw__options_explain_given(options, "no random bytes from the system");
        free(client);
        return LW_ENOMEM;
    }
    client->holds.events = &lw__turns_events;
    client->holds.modes = lw__mode_table;
    status = init(client, base, url, options);
    if (status != 0) {
        if (status == LW_ENOMEM) {
            lw__options_explain(client, "%s", lw_strerror(status));
        }
        lw_client_free(client);
        return status;
    }
    *ret = client;
    return 0;
}

/* ---- the end ---- */

void lw_client_free(struct lw_client *client)
{
    if (client == NULL || client->freed) {
        return;
    }
    client->freed = true;
    client->closing = true;
    while (client->locks != NULL) {
        lw__lock_make_inert(client->locks);
    }
    cancel_callbacks(client);
    lw__ending_take_down(client);
    lw__quorum_free(client);
    lw__name_clear(&client->holds);
    lw__ending_unref(client);
}

int lw_client_close(struct lw_client *client, lw_close_cb *done, void *arg)
{
    struct lw_lock *lock, *next;

    if (client->closing || lw__is_inherited(client)) {
        return LW_ECLOSED;
    }
    client->closing = true;
    client->closed = done;
    client->closed_arg = arg;
    for (int waiting = 1; waiting >= 0;
         waiting--) { /* waiters first, so that no hold is passed to one */
        DL_FOREACH_SAFE(client->locks, lock, next) {
            if ((lock->state == LW_WAITING) == (waiting == 1)) {
                lw__lock_close(lock);
            }
        }
    }
    if (client->quorum != NULL) {
        lw__quorum_close(client->quorum);
    }
    lw__claim_close(&client->holds);
    lw__list_close(client);
    lw__inspect_close(client);
    lw__watch_end_all(client);
    lw__identity_withdraw(&client->identity);
    lw__timer_set(client->loop, &client->close_timer,
                  lw__now_us() + (int64_t)client->options.close_timeout_ms * LW__MS);
    lw__ending_drained(client);
    return 0;
}

/* ---- state ---- */

int lw_client_stats(const struct lw_client *client, struct lw_stats *ret)
{
    struct lw_stats now = client->stats;

    now.subscription_up = client->route != NULL && now.link_up != 0 &&
                          !lw__is_inherited(client) &&
                          lw__route_is_subscribed(client->route);
    if (client->route != NULL && !lw__is_inherited(client)) {
        now.guard_left_ms =
            (uint64_t)((lw__route_guard_left_us(client->route) + LW__MS - 1) / LW__MS);
        now.server_guard_ms = (uint64_t)lw__route_server_guard_ms(client->route);
        now.degraded = lw__route_degraded(client->route);
    }
    if (client->quorum != NULL && !lw__is_inherited(client)) {
        lw__quorum_fill_stats(client->quorum, &now);
    }
    return lw__check_give_struct(ret, ret->size, &now, sizeof(now)) ? 0 : LW_EINVAL;
}

int lw_client_is_up(const struct lw_client *client, const char **why)
{
    bool inherited = lw__is_inherited(client), closed = client->loop == NULL;

    if (why != NULL) {
        *why = inherited ? LW__INHERITED : closed ? lw_strerror(LW_ECLOSED) : client->why;
    }
    return client->stats.link_up != 0 && !closed && !inherited;
}

int lw_client_error(const struct lw_client *client)
{
    if (client->loop == NULL || lw__is_inherited(client)) {
        return LW_ECLOSED;
    }
    return client->error;
}

int lw_client_master(const struct lw_client *client, struct lw_master *ret)
{
    struct lw_master master = LW_MASTER_INIT;
    int status;

    if (ret->size < sizeof(ret->size)) {
        return LW_EINVAL;
    }
    if (client->closing || lw__is_inherited(client)) {
        return LW_ECLOSED;
    }
    status = lw__route_master(client->route, &master);
    if (status == 0) {
        (void)lw__check_give_struct(ret, ret->size, &master, sizeof(master));
    }
    return status;
}

/* SPDX-License-Identifier: MIT */
/* The client: its life, closing, statistics. Ties the parts together: who is told of the
 * node's events, of claims' and of notices is registered here. Must not know one lock's
 * business. Happy path: lw_client_new -> node up -> link callback; lw_client_close
 * drains, calls back; lw_client_free. Each failed attempt to connect goes to the link
 * callback and the log; a client that is not drained in close_timeout_ms is closed all
 * the same, and releases still open then end as LW_EUNKNOWN. */
#include "base/forked.h"
#include "base/log.h"
#include "base/random.h"
#include "base/sized.h"
#include "base/told.h"
#include "lock/credentials.h"
#include "lock/deliver.h"
#include "lock/ending.h"
#include "lock/inbox.h"
#include "lock/inspect.h"
#include "lock/lock.h"
#include "lock/mode.h"
#include "lock/name.h"
#include "lock/notify.h"
#include "lock/options.h"
#include "lock/renewal.h"
#include "lock/structs.h"
#include "lock/turns.h"
#include "lock/whoami.h"
#include "loop/loop.h"
#include "loop/now.h"
#include "loop/timer.h"
#include "redis/node.h"

#include <stdlib.h>
#include <syslog.h>
#include <utlist.h>

static void node_up(void *arg)
{
    struct lw_client *client = arg;

    client->down_why[0] = '\0';
    lw__log(&client->log, LOG_INFO, "connected");
    lw__notify_link(client, 1, "");
    lw__turns_ask_all(client, true);
    lw__whoami_renew(client);
}

static void node_down(void *arg, const char *why)
{
    struct lw_client *client = arg;

    lw__told(why, client->down_why, sizeof(client->down_why));
    lw__log(&client->log, LOG_WARNING, "no connection: %s", client->down_why);
    lw__notify_link(client, 0, client->down_why);
    lw__turns_link_down(client);
}

static void node_bound(void *arg)
{
    lw__turns_ask_all(arg, false);
}

static void node_message(void *arg, const char *text, size_t length)
{
    lw__inbox_message(arg, text, length);
}

static int start_node(struct lw_client *client)
{
    static const struct lw__node_events events = {node_up, node_down, node_bound,
                                                  node_message};
    const struct lw_client_options *o = &client->options;
    struct lw__node_options options = {
        .access.loop = client->loop,
        .access.log = &client->log,
        .access.random = &client->random,
        .access.host = client->url.host,
        .access.path = client->url.path,
        .access.port = client->url.port,
        .access.username = o->username,
        .access.password = o->password,
        .access.client_name = o->client_name,
        .access.secure = client->url.tls,
        .access.tls = client->tls,
        .access.db = o->db,
        .access.connect_timeout_ms = o->connect_timeout_ms,
        .access.request_timeout_ms = o->request_timeout_ms,
        .access.backoff_min_ms = o->backoff_min_ms,
        .access.backoff_max_ms = o->backoff_max_ms,
        .sentinel.service = client->url.service,
        .sentinel.hosts = client->url.hosts,
        .sentinel.host_count = client->url.host_count,
        .sentinel.username = o->sentinel_username,
        .sentinel.password = o->sentinel_password,
        .uuid = client->uuid,
        .max_inflight = o->max_inflight,
        .stats = &client->stats,
    };

    lw__credentials_ask(client, &options.access);
    return lw__node_new(&options, &events, client, &client->node);
}

static void close_overdue(void *arg);

static int set_up(struct lw_client *client, struct event_base *base, const char *url,
                  const struct lw_client_options *given)
{
    int status = lw__options_take(client, url, given);

    if (status != 0) {
        return status;
    }
    if (lw__loop_new(base, &client->loop) != 0 ||
        lw__timer_reserve(client->loop, 3) != 0) {
        return LW_ENOMEM;
    }
    lw__random_seed(&client->random, (uint64_t)lw__now_us() ^
                                         (uint64_t)(uintptr_t)client ^
                                         (uint64_t)client->forked.pid << 32);
    lw__notify_init(client, lw__deliver);
    lw__renewal_init(client);
    lw__whoami_init(client);
    lw__timer_init(&client->close_timer, close_overdue, client);
    return start_node(client);
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
    if (!lw__random_uuid(client->uuid) ||
        !lw__random_bytes(&client->hash_key, sizeof(client->hash_key))) {
        lw__options_explain_given(options, "the system has no random bytes to give");
        free(client);
        return LW_ENOMEM;
    }
    lw__forked_mark(&client->forked);
    client->events = &lw__turns_events;
    client->modes = lw__mode_table;
    status = set_up(client, base, url, options);
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
    while (client->inquiries != NULL) {
        lw__inspect_free(client->inquiries);
    }
    lw__notify_clear(client);
    lw__ending_take_down(client);
    lw__name_clear(client);
    lw__ending_unref(client);
}

static void close_overdue(void *arg)
{
    struct lw_client *client = arg;
    struct lw_lock *lock;

    DL_FOREACH(client->locks, lock) {
        if (lock->state == LW_RELEASING && lock->notice.kind == LW__NOTICE_NONE) {
            lw__turns_give_up_release(lock);
        }
    }
    lw__notify_closed(client);
}

int lw_client_close(struct lw_client *client, lw_close_cb *done, void *arg)
{
    struct lw_lock *lock, *next;

    if (client->closing || lw__forked_is_child(&client->forked)) {
        return LW_ECLOSED;
    }
    client->closing = true;
    client->closed = done;
    client->closed_arg = arg;
    for (int waiting = 1; waiting >= 0; waiting--) { /* nobody shall be passed a turn */
        DL_FOREACH_SAFE(client->locks, lock, next) {
            if ((lock->state == LW_WAITING) == (waiting == 1)) {
                lw__lock_close(lock);
            }
        }
    }
    lw__inspect_close(client);
    lw__whoami_drop(client);
    lw__timer_set(client->loop, &client->close_timer,
                  lw__now_us() + (int64_t)client->options.close_timeout_ms * LW__MS);
    lw__ending_drained(client);
    return 0;
}

int lw_client_stats(const struct lw_client *client, struct lw_stats *ret)
{
    bool given = lw__sized_give(ret, ret->size, &client->stats, sizeof(client->stats));

    return given ? 0 : LW_EINVAL;
}

int lw_client_master(const struct lw_client *client, struct lw_master *ret)
{
    struct lw_master master = LW_MASTER_INIT;
    int status;

    if (ret->size < sizeof(ret->size)) {
        return LW_EINVAL;
    }
    if (client->closing || lw__forked_is_child(&client->forked)) {
        return LW_ECLOSED;
    }
    status = lw__node_master(client->node, &master);
    if (status == 0) {
        (void)lw__sized_give(ret, ret->size, &master, sizeof(master));
    }
    return status;
}

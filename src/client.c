/* SPDX-License-Identifier: MIT */
/*
 * The client: its options, its life, closing, statistics. Ties the parts together: the
 * node's events go to wait.c and turns.c from here. Must not know one lock's business.
 *
 * Happy path: lw_client_new -> node up -> link callback; lw_client_close drains, calls
 * back; lw_client_free.
 */
#include "core.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>
#include <utlist.h>

/* ---- options ---- */

bool lw__copy_options(void *ret, size_t size, const void *given, size_t given_size)
{
    const unsigned char *bytes = given;

    if (given_size < sizeof(size_t)) {
        return false;
    }
    for (size_t i = size; i < given_size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    memcpy(ret, given, given_size < size ? given_size : size);
    return true;
}

void lw__client_explain(struct lw_client *client, const char *format, ...)
{
    va_list args;

    if (client->options.errbuf == NULL || client->options.errbuf_size == 0) {
        return;
    }
    va_start(args, format);
    (void)vsnprintf(client->options.errbuf, client->options.errbuf_size, format, args);
    va_end(args);
}

static void fill_in(uint32_t *field, uint32_t value)
{
    if (*field == 0) {
        *field = value;
    }
}

static int check_options(struct lw_client *client)
{
    struct lw_client_options *o = &client->options;
    char why[LW__WHY];

    fill_in(&o->connect_timeout_ms, 5000);
    fill_in(&o->request_timeout_ms, 5000);
    fill_in(&o->backoff_min_ms, 50);
    fill_in(&o->backoff_max_ms, o->backoff_min_ms > 5000 ? o->backoff_min_ms : 5000);
    fill_in(&o->close_timeout_ms, 5000);
    fill_in(&o->claim_ms, 2000);
    fill_in(&o->local_turns, 16);
    fill_in(&o->max_inflight, 1024);
    if (o->log_level == 0) {
        o->log_level = LOG_WARNING;
    }
    if (o->client_name == NULL) {
        o->client_name = "lockwire";
    }
    if (o->claim_ms < 100 || o->claim_ms > 60000) {
        lw__client_explain(client, "claim_ms %lu is not between 100 and 60000",
                           (unsigned long)o->claim_ms);
    } else if (o->local_turns > 16) {
        lw__client_explain(client, "local_turns %lu is not between 1 and 16",
                           (unsigned long)o->local_turns);
    } else if (o->backoff_min_ms > o->backoff_max_ms) {
        lw__client_explain(client, "backoff_min_ms %lu is above backoff_max_ms %lu",
                           (unsigned long)o->backoff_min_ms,
                           (unsigned long)o->backoff_max_ms);
    } else if (o->db < 0) {
        lw__client_explain(client, "db %d is negative", o->db);
    } else if ((o->username != NULL || client->url.username != NULL) &&
               o->password == NULL && client->url.password == NULL) {
        lw__client_explain(client, "a username is given without a password");
    } else if (lw__word_check(o->client_name, "client_name", why, sizeof(why)) != NULL) {
        lw__client_explain(client, "%s", why);
    } else {
        return 0;
    }
    return LW_EINVAL;
}

static int copy_string(char **copy, const char **field)
{
    if (*field == NULL) {
        return 0;
    }
    *copy = strdup(*field);
    *field = *copy;
    return *copy != NULL ? 0 : LW_ENOMEM;
}

/* The URL's parts, where the options do not override them; then copies of the strings. */
static int take_options(struct lw_client *client)
{
    struct lw_client_options *o = &client->options;
    int status = check_options(client);

    if (status != 0) {
        return status;
    }
    if (o->username == NULL) {
        o->username = client->url.username;
    }
    if (o->password == NULL) {
        o->password = client->url.password;
    }
    if (o->db == 0 && client->url.db > 0) {
        o->db = client->url.db;
    }
    if (copy_string(&client->strings[0], &o->username) != 0 ||
        copy_string(&client->strings[1], &o->password) != 0 ||
        copy_string(&client->strings[2], &o->client_name) != 0) {
        return LW_ENOMEM;
    }
    client->log = (struct lw__log){o->log, o->log_level, o->arg};
    return 0;
}

/* ---- the node's events ---- */

static void node_up(void *arg)
{
    struct lw_client *client = arg;

    client->down_why[0] = '\0';
    lw__log(&client->log, LOG_INFO, "connected");
    lw__notify_link(client, 1, "");
    lw__turns_ask_all(client, true);
    lw__note_renew(client);
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
    lw__wait_message(arg, text, length);
}

static int start_node(struct lw_client *client)
{
    static const struct lw__node_events events = {node_up, node_down, node_bound,
                                                  node_message};
    const struct lw_client_options *o = &client->options;
    struct lw__node_options options = {
        .access =
            {
                .loop = client->loop,
                .log = &client->log,
                .random = &client->random,
                .host = client->url.host,
                .path = client->url.path,
                .port = client->url.port,
                .username = o->username,
                .password = o->password,
                .client_name = o->client_name,
                .db = o->db,
                .connect_timeout_ms = o->connect_timeout_ms,
                .request_timeout_ms = o->request_timeout_ms,
                .backoff_min_ms = o->backoff_min_ms,
                .backoff_max_ms = o->backoff_max_ms,
            },
        .uuid = client->uuid,
        .max_inflight = o->max_inflight,
        .stats = &client->stats,
    };

    return lw__node_new(&options, &events, client, &client->node);
}

/* ---- life ---- */

static void close_overdue(void *arg);

static void explain_to(const struct lw_client_options *options, const char *why)
{
    if (options != NULL && options->size >= sizeof(*options) && options->errbuf != NULL &&
        options->errbuf_size > 0) {
        (void)snprintf(options->errbuf, options->errbuf_size, "%s", why);
    }
}

static int set_up(struct lw_client *client, struct event_base *base, const char *url,
                  const struct lw_client_options *given)
{
    char why[LW__WHY];
    int status;

    client->options = (struct lw_client_options)LW_CLIENT_OPTIONS_INIT;
    if (given != NULL && !lw__copy_options(&client->options, sizeof(client->options),
                                           given, given->size)) {
        explain_to(given, "lw_client_options.size: unknown fields of a newer version are "
                          "set, or it is too small");
        return LW_EINVAL;
    }
    if ((status = lw__url_parse(url, &client->url, why, sizeof(why))) != 0) {
        lw__client_explain(client, "%s", why);
        return status;
    }
    if ((status = take_options(client)) != 0) {
        return status;
    }
    if (lw__loop_new(base, &client->loop) != 0 ||
        lw__loop_reserve(client->loop, 3) != 0) {
        return LW_ENOMEM;
    }
    lw__random_seed(&client->random, (uint64_t)lw__now_us() ^
                                         (uint64_t)(uintptr_t)client ^
                                         (uint64_t)client->fork_mark.pid << 32);
    lw__notify_init(client);
    lw__renewal_init(client);
    lw__note_init(client);
    lw__timer_init(&client->close_timer, close_overdue, client);
    return start_node(client);
}

int lw_client_new(struct event_base *base, const char *url,
                  const struct lw_client_options *options, struct lw_client **ret)
{
    struct lw_client *client = calloc(1, sizeof(*client));
    int status;

    if (client == NULL) {
        explain_to(options, lw_strerror(LW_ENOMEM));
        return LW_ENOMEM;
    }
    if (!lw__uuid(client->uuid) ||
        !lw__random_bytes(&client->hash_key, sizeof(client->hash_key))) {
        explain_to(options, "the system has no random bytes to give");
        free(client);
        return LW_ENOMEM;
    }
    lw__fork_mark_set(&client->fork_mark);
    client->events = &lw__turns_events;
    status = set_up(client, base, url, options);
    if (status != 0) {
        if (status == LW_ENOMEM) {
            lw__client_explain(client, "%s", lw_strerror(status));
        }
        lw_client_free(client);
        return status;
    }
    *ret = client;
    return 0;
}

bool lw__client_in_child(const struct lw_client *client)
{
    return lw__fork_mark_is_childs(&client->fork_mark);
}

/* No token, no command, no event remains; handles stay, inert. */
static void take_down(struct lw_client *client)
{
    struct lw__name *name, *next;

    if (client->loop == NULL) {
        return;
    }
    HASH_ITER(hh, client->names, name, next) {
        name->references++;
        while (name->tokens != NULL) {
            lw__token_free(name->tokens);
        }
        lw__name_put(client, name);
    }
    if (client->node != NULL) {
        lw__timer_cancel(client->loop, &client->renewal_timer);
        lw__timer_cancel(client->loop, &client->close_timer);
        lw__timer_cancel(client->loop, &client->note_timer);
    }
    lw__redisson_close(client);
    if (lw__client_in_child(client)) {
        lw__node_abandon(client->node);
        lw__loop_abandon(client->loop);
    } else {
        lw__node_free(client->node);
        lw__loop_free(client->loop);
    }
    client->node = NULL;
    client->loop = NULL;
}

void lw__client_free_memory(struct lw_client *client)
{
    while (client->free_tokens != NULL) {
        struct lw__token *token = client->free_tokens;

        client->free_tokens = token->next;
        free(token);
    }
    while (client->free_locks != NULL) {
        struct lw_lock *lock = client->free_locks;

        client->free_locks = lock->next;
        free(lock);
    }
    lw__renewal_clear(client);
    lw__fork_mark_drop(&client->fork_mark);
    lw__url_clear(&client->url);
    for (size_t i = 0; i < sizeof(client->strings) / sizeof(*client->strings); i++) {
        free(client->strings[i]);
    }
    free(client);
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
        lw__inquiry_free(client->inquiries);
    }
    lw__notify_clear(client);
    take_down(client);
    /* names that only handles still use belong to these from now on */
    HASH_CLEAR(hh, client->names);
    lw__client_unref(client);
}

/* ---- closing ---- */

void lw__client_closed(struct lw_client *client)
{
    struct lw_lock *lock;

    DL_FOREACH(client->locks, lock) {
        lock->token = NULL;
        lw__timer_cancel(client->loop, &lock->timer);
    }
    take_down(client);
}

static bool is_drained(const struct lw_client *client)
{
    return client->open_tokens == 0 && client->note_command.request.prev == NULL;
}

void lw__client_drained(struct lw_client *client)
{
    if (client->closing && !client->freed && client->loop != NULL && is_drained(client)) {
        lw__notify_closed(client);
    }
}

static void close_overdue(void *arg)
{
    struct lw_client *client = arg;
    struct lw_lock *lock;

    DL_FOREACH(client->locks, lock) {
        if (lock->state != LW_RELEASING || lock->notice.kind != LW__NOTICE_NONE) {
            continue;
        }
        lw__timer_cancel(client->loop, &lock->timer);
        lock->token->releasing = NULL;
        lock->token = NULL;
        lw__notify_lock(lock, LW__NOTICE_RELEASED, LW_EUNKNOWN);
    }
    lw__notify_closed(client);
}

int lw_client_close(struct lw_client *client, lw_close_cb *done, void *arg)
{
    struct lw_lock *lock, *next;

    if (client->closing || lw__client_in_child(client)) {
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
    lw__inquiries_close(client);
    lw__note_drop(client);
    lw__timer_set(client->loop, &client->close_timer,
                  lw__now_us() + (int64_t)client->options.close_timeout_ms * LW__MS);
    lw__client_drained(client);
    return 0;
}

int lw_client_stats(const struct lw_client *client, struct lw_stats *ret)
{
    size_t size = ret->size;

    if (size < sizeof(ret->size)) {
        return LW_EINVAL;
    }
    if (size > sizeof(*ret)) {
        memset((char *)ret + sizeof(*ret), 0, size - sizeof(*ret));
    }
    memcpy(ret, &client->stats, size < sizeof(*ret) ? size : sizeof(*ret));
    ret->size = size;
    return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * LW_REDISSON: locks shared with Redisson's RLock. Owns what no other mode has: the
 * handles of one owner that hold one token together (they are counted here; Redis sees
 * one hold), and the link that listens to Redisson's channels while handles wait. Must
 * not know replies, nor decide when a grant may be believed.
 *
 * Happy path: the first try is refused; lw__redisson_await has the name's channel
 * subscribed; its confirmation has the first who waits for the name ask again, as does
 * each message (line.c). Once held, lw__redisson_join lets in who has the same owner;
 * lw__redisson_leave lets it out.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <syslog.h>
#include <utlist.h>

/* The link is closed when nobody waited for so long. */
#define IDLE_US (10000 * (int64_t)LW__MS)
#define NAMES_MAX 1024 /* channels that nobody waits for go at that many, or more */
#define POLL_MS 10000
#define POLL_UNHEARD_MS 3000

/* A name whose channel is, or shall be, subscribed. */
struct awaited {
    UT_hash_handle hh; /* by channel */
    bool confirmed;
    char channel[LW__CHANNEL_SIZE];
    char name[];
};

struct lw__listener {
    struct lw_client *client;
    struct lw__session session;
    bool denied;           /* why the link ends: we may not subscribe */
    struct lw__timer tick; /* heartbeat, and: is it still wanted? */
    struct awaited *names;
    unsigned names_max;    /* at least twice as many as were awaited when it was set */
    int64_t idle_since_us; /* LW__NEVER: somebody waits */
};

/* ---- the holds of one owner ---- */

static bool needs_it_longer(const struct lw_lock *a, const struct lw_lock *b)
{
    bool renews = !(a->flags & LW_NO_RENEW);

    if (renews != !(b->flags & LW_NO_RENEW)) {
        return renews;
    }
    return a->hold_until_us > b->hold_until_us;
}

/* Renewals go by `holder`: of all who hold, the one that needs the lock longest. */
static void choose_holder(struct lw__token *token)
{
    struct lw_lock *lock, *first = token->holder;

    DL_FOREACH2(token->others, lock, turn_next) {
        if (first == NULL || needs_it_longer(lock, first)) {
            first = lock;
        }
    }
    if (first != token->holder) {
        DL_DELETE2(token->others, first, turn_prev, turn_next);
        if (token->holder != NULL) {
            DL_APPEND2(token->others, token->holder, turn_prev, turn_next);
        }
        token->holder = first;
    }
    lw__renewal_plan(token);
}

static int64_t longest(int64_t lease_us, const struct lw_lock *lock)
{
    int64_t other_us = (int64_t)lock->lease_ms * LW__MS;

    return other_us > lease_us ? other_us : lease_us;
}

int64_t lw__redisson_lease_us(const struct lw__token *token)
{
    int64_t lease_us = token->holder != NULL ? longest(0, token->holder) : 0;
    const struct lw_lock *lock;

    DL_FOREACH2(token->others, lock, turn_next) {
        lease_us = longest(lease_us, lock);
    }
    DL_FOREACH2(token->waiting, lock, turn_next) {
        lease_us = longest(lease_us, lock);
    }
    return lease_us > 0 ? lease_us : token->machine.lease_us;
}

static bool may_enter(const struct lw__token *token, const struct lw_lock *lock)
{
    return token->machine.phase == LW__HELD &&
           token->machine.deadline_us - (int64_t)lock->margin_ms * LW__MS > lw__now_us();
}

/* Its lease begins now. Who does not renew has it asked for once, unless the grant that
 * lets it in was asked for with a lease as long. */
static void enter(struct lw__token *token, struct lw_lock *lock, bool by_grant)
{
    if ((lock->flags & LW_NO_RENEW) &&
        (!by_grant || token->machine.lease_us < longest(0, lock))) {
        token->entered_us = lw__now_us();
    }
    DL_APPEND2(token->others, lock, turn_prev, turn_next);
    lw__turns_begin(token, lock);
    choose_holder(token);
}

static void tell_of_cluster(struct lw_client *client)
{
    if (client->cluster_told || !lw__node_is_clustered(client->node)) {
        return;
    }
    client->cluster_told = true;
    lw__log(
        &client->log, LOG_WARNING,
        "the server is in cluster mode, where Redisson wakes by sharded channels: it and "
        "this client exclude each other, but waiting will be by polling");
}

void lw__redisson_admit(struct lw__token *token)
{
    struct lw_lock *lock, *next;

    tell_of_cluster(token->client);
    DL_FOREACH_SAFE2(token->waiting, lock, next, turn_next) {
        if (!may_enter(token, lock)) {
            continue;
        }
        lw__turns_unlist(token, lock);
        enter(token, lock, true);
    }
}

/* Not one that is lost, or let go. */
static bool is_alive(const struct lw__token *token)
{
    enum lw__phase phase = token->machine.phase;

    return (phase == LW__ASKING || phase == LW__QUEUED || phase == LW__HELD) &&
           (token->holder != NULL || token->waiting != NULL);
}

/* The token by which its owner holds the name, or waits for it. */
static struct lw__token *find(const struct lw_lock *lock)
{
    struct lw__token *token;

    if (lock->mode != LW_REDISSON || lock->owner == NULL) {
        return NULL;
    }
    DL_FOREACH(lock->name->tokens, token) {
        if (token->mode == LW_REDISSON && token->rw_owner != NULL &&
            strcmp(token->rw_owner, lock->owner) == 0 && is_alive(token)) {
            return token;
        }
    }
    return NULL;
}

/* Somebody of this client is in line before it. */
static void refuse(struct lw_lock *lock)
{
    lock->retry_ms = lw__line_busy_ms(lock->name);
    lw__turns_finish(lock, LW_EBUSY, NULL);
}

bool lw__redisson_join(struct lw_lock *lock)
{
    struct lw__token *token = find(lock);
    struct lw__node *node = lock->client->node;

    if (token == NULL) {
        if (lock->mode != LW_REDISSON || !lock->once || !lw__node_is_up(node) ||
            lw__line_first(lock->name) == NULL) {
            return false;
        }
        refuse(lock);
        return true;
    }
    if (may_enter(token, lock)) {
        enter(token, lock, false);
        return true;
    }
    if (lock->once && lw__node_is_backing_off(node)) {
        return false;
    }
    if (lock->once && token->machine.phase == LW__QUEUED && lw__node_is_up(node)) {
        refuse(lock);
        return true;
    }
    lw__turns_append(token, lock);
    if (token->machine.phase == LW__HELD) {
        lw__renewal_now(token); /* so near to its end, the renewal's answer lets it in */
    }
    return true;
}

void lw__redisson_leave(struct lw_lock *lock)
{
    struct lw__token *token = lock->token;

    if (token->holder == lock) {
        token->holder = NULL;
    } else {
        DL_DELETE2(token->others, lock, turn_prev, turn_next);
    }
    choose_holder(token);
}

/* ---- who waits ---- */

static bool is_awaited(const struct lw__listener *listener, const struct awaited *entry)
{
    const struct lw__name *name = lw__name_find(listener->client, entry->name);

    return name != NULL && lw__line_first(name) != NULL;
}

static unsigned hash_of(const struct lw__listener *listener, const char *channel)
{
    return (unsigned)lw__hash(&listener->client->hash_key, channel, strlen(channel));
}

static struct awaited *find_channel(const struct lw__listener *listener,
                                    const char *channel)
{
    struct awaited *entry;

    HASH_FIND_BYHASHVALUE(hh, listener->names, channel, strlen(channel),
                          hash_of(listener, channel), entry);
    return entry;
}

static struct awaited *find_awaited(const struct lw_client *client, const char *name)
{
    char channel[LW__CHANNEL_SIZE];

    if (client->listener == NULL) {
        return NULL;
    }
    lw__redisson_channel(name, channel);
    return find_channel(client->listener, channel);
}

bool lw__redisson_hears(const struct lw_client *client, const char *name)
{
    const struct awaited *entry = find_awaited(client, name);

    return entry != NULL && entry->confirmed;
}

int64_t lw__redisson_poll_ms(const struct lw__token *token)
{
    struct lw_client *client = token->client;

    return lw__redisson_hears(client, token->name->text) &&
                   !lw__node_is_clustered(client->node)
               ? POLL_MS
               : POLL_UNHEARD_MS;
}

/* ---- the link ---- */

static void subscribe(struct lw__listener *listener, const struct awaited *entry)
{
    if (listener->session.state == LW__SESSION_READY &&
        lw__link_subscribe(listener->session.link, entry->channel) != 0) {
        lw__session_fail(&listener->session, lw_strerror(LW_ENOMEM));
    }
}

static void ready(void *arg)
{
    struct lw__listener *listener = arg;
    struct awaited *entry, *next;

    HASH_ITER(hh, listener->names, entry, next) {
        subscribe(listener, entry);
    }
}

static void unconfirm(struct lw__listener *listener)
{
    struct awaited *entry, *next;

    HASH_ITER(hh, listener->names, entry, next) {
        if (!entry->confirmed) {
            continue;
        }
        entry->confirmed = false;
        lw__line_unheard(listener->client, entry->name);
    }
}

static void lost(void *arg, const char *why)
{
    struct lw__listener *listener = arg;
    struct lw_client *client = listener->client;

    unconfirm(listener);
    if (!listener->denied) {
        return;
    }
    listener->denied = false;
    lw__session_stop(&listener->session);
    if (!client->channels_forbidden_told) {
        lw__log(&client->log, LOG_WARNING,
                "subscribing to Redisson's channels is not permitted, waiting will be by "
                "polling: %s",
                why);
    }
    client->channels_forbidden_told = true;
}

static void push(void *arg, const struct lw__reply *reply)
{
    struct lw__listener *listener = arg;
    const char *kind, *channel, *text;
    struct awaited *entry;
    size_t length;

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        listener->denied = lw__denied(lw__reply_text(reply, NULL));
        lw__session_fail(&listener->session, lw__reply_text(reply, NULL));
        return;
    }
    kind = lw__reply_text(lw__reply_at(reply, 0), NULL);
    channel = lw__reply_text(lw__reply_at(reply, 1), NULL);
    text = lw__reply_text(lw__reply_at(reply, 2), &length);
    entry = find_channel(listener, channel);
    if (entry == NULL) {
        return;
    }
    if (strcasecmp(kind, "message") == 0) {
        if (length == 1 && (*text == '0' || *text == '1')) {
            lw__line_message(listener->client, entry->name);
        }
    } else if (!entry->confirmed) {
        entry->confirmed = true;
        /* what was freed before it came was not heard of */
        lw__line_message(listener->client, entry->name);
    }
}

/* ---- its life ---- */

static void forget(struct lw__listener *listener, struct awaited *entry)
{
    /* NOLINTNEXTLINE(clang-analyzer-*): uthash keeps count of its table by itself */
    HASH_DEL(listener->names, entry);
    free(entry);
}

/* Without UNSUBSCRIBE the only way to have fewer channels is another connection: not
 * again before there are as many more as were left. */
static void start_over(struct lw__listener *listener)
{
    struct awaited *entry, *next;

    lw__session_stop(&listener->session);
    HASH_ITER(hh, listener->names, entry, next) {
        if (!is_awaited(listener, entry)) {
            forget(listener, entry);
        }
    }
    listener->names_max = 2 * HASH_COUNT(listener->names);
    if (listener->names_max < NAMES_MAX) {
        listener->names_max = NAMES_MAX;
    }
    unconfirm(listener);
    lw__session_start(&listener->session);
}

static bool is_wanted(const struct lw__listener *listener)
{
    struct awaited *entry, *next;

    HASH_ITER(hh, listener->names, entry, next) {
        if (is_awaited(listener, entry)) {
            return true;
        }
    }
    return false;
}

static void tick(void *arg)
{
    struct lw__listener *listener = arg;
    struct lw_client *client = listener->client;
    int64_t now = lw__now_us();
    int64_t next = now + (int64_t)client->options.request_timeout_ms * LW__MS;

    if (is_wanted(listener)) {
        listener->idle_since_us = LW__NEVER;
    } else if (listener->idle_since_us == LW__NEVER) {
        listener->idle_since_us = now;
    } else if (now - listener->idle_since_us >= IDLE_US) {
        lw__redisson_close(client);
        return;
    }
    if (listener->names != NULL && listener->names->confirmed) {
        subscribe(listener, listener->names); /* the heartbeat: it is confirmed again */
    }
    if (listener->idle_since_us != LW__NEVER &&
        next > listener->idle_since_us + IDLE_US) {
        next = listener->idle_since_us + IDLE_US;
    }
    lw__timer_set(client->loop, &listener->tick, next);
}

static struct lw__listener *listen_for(struct lw_client *client)
{
    static const struct lw__session_events events = {ready, lost, push, NULL};
    struct lw__listener *listener = client->listener;

    if (listener != NULL) {
        return listener;
    }
    listener = calloc(1, sizeof(*listener));
    if (listener == NULL) {
        return NULL;
    }
    if (lw__loop_reserve(client->loop, 2) != 0) {
        free(listener);
        return NULL;
    }
    listener->client = client;
    listener->names_max = NAMES_MAX;
    listener->idle_since_us = LW__NEVER;
    lw__session_init(&listener->session, lw__node_access(client->node), &events,
                     listener);
    lw__session_start(&listener->session);
    lw__timer_init(&listener->tick, tick, listener);
    lw__timer_set(client->loop, &listener->tick,
                  lw__now_us() + (int64_t)client->options.request_timeout_ms * LW__MS);
    client->listener = listener;
    return listener;
}

/* Where there is no memory for it, polling does without. */
void lw__redisson_await(struct lw__token *token)
{
    struct lw__listener *listener = listen_for(token->client);
    const char *name = token->name->text;
    char channel[LW__CHANNEL_SIZE];
    struct awaited *entry;

    tell_of_cluster(token->client);
    if (listener == NULL) {
        return;
    }
    listener->idle_since_us = LW__NEVER;
    lw__redisson_channel(name, channel);
    if (find_channel(listener, channel) != NULL) {
        return;
    }
    if (HASH_COUNT(listener->names) >= listener->names_max) {
        start_over(listener);
    }
    entry = calloc(1, sizeof(*entry) + strlen(name) + 1);
    if (entry == NULL) {
        return;
    }
    memcpy(entry->channel, channel, sizeof(channel));
    memcpy(entry->name, name, strlen(name) + 1);
    HASH_ADD_BYHASHVALUE(hh, listener->names, channel, strlen(channel),
                         hash_of(listener, channel), entry);
    if (entry->hh.tbl != NULL) { /* else uthash had no memory */
        subscribe(listener, entry);
    } else {
        free(entry);
    }
}

void lw__redisson_close(struct lw_client *client)
{
    struct lw__listener *listener = client->listener;
    struct awaited *entry, *next;

    if (listener == NULL) {
        return;
    }
    client->listener = NULL;
    lw__timer_cancel(client->loop, &listener->tick);
    if (lw__client_in_child(client)) {
        lw__session_abandon(&listener->session);
    } else {
        lw__session_stop(&listener->session);
        lw__loop_unreserve(client->loop, 2);
    }
    HASH_ITER(hh, listener->names, entry, next) {
        forget(listener, entry);
    }
    free(listener);
}

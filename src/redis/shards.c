/* SPDX-License-Identifier: MIT */
/* Channels by slot: see shards.h. Must not know where a slot leads. Happy path: wanted,
 * ready(), push() of the confirmation, and of messages. A channel whose slot is elsewhere
 * (MOVED) is forgotten; one of a slot that nobody has (CLUSTERDOWN) is subscribed to
 * again when somebody wants it; any other refusal ends the connection, which is made
 * anew. Who may not subscribe, or to whom a server before 7.0 has nothing of the kind to
 * offer, polls. */
#include "redis/shards.h"

#include "base/hash.h"
#include "base/log.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/classify.h"
#include "redis/cluster_parse.h"
#include "redis/format.h"
#include "redis/link.h"
#include "redis/reply.h"
#include "redis/slot.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <syslog.h>

#define IDLE_US (60 * 1000 * (int64_t)LW__MS) /* twice as long as any waiter sleeps */

struct lw__shard {
    UT_hash_handle hh; /* by slot */
    unsigned slot;
    int64_t wanted_us; /* last */
    bool confirmed, fresh;
    bool refused; /* maybe: it is to be subscribed to again when it is wanted */
    bool leaving; /* it is dropped, and that is not confirmed yet */
    char channel[LW__CHANNEL_OF_OURS_SIZE];
};

static struct lw__shard *find(const struct lw__shards *shards, unsigned slot)
{
    struct lw__shard *shard;

    HASH_FIND_BYHASHVALUE(hh, shards->all, &slot, sizeof(slot), slot, shard);
    return shard;
}

static bool is_wanted(const struct lw__shard *shard)
{
    return lw__now_us() - shard->wanted_us < IDLE_US;
}

static void subscribe(struct lw__shards *shards, const struct lw__shard *shard)
{
    if (shards->session.state == LW__SESSION_READY &&
        lw__link_ssubscribe(shards->session.link, shard->channel) != 0) {
        lw__session_fail(&shards->session, lw_strerror(LW_ENOMEM));
    }
}

static void forget(struct lw__shards *shards, struct lw__shard *shard)
{
    HASH_DELETE(hh, shards->all, shard);
    free(shard);
}

static void ready(void *arg)
{
    struct lw__shards *shards = arg;
    struct lw__shard *shard, *next;

    shards->nonce++;
    HASH_ITER(hh, shards->all, shard, next) {
        subscribe(shards, shard);
    }
}

/* Who is not confirmed to be heard polls, and is told where its slot is by that. */
static void forget_refused(struct lw__shards *shards, struct lw__shard *shard)
{
    unsigned slot = shard->slot;
    bool confirmed = shard->confirmed;

    forget(shards, shard);
    if (confirmed) {
        shards->events->dropped(shards->arg, slot);
    } else {
        shards->events->unsettled(shards->arg);
    }
}

/* An answer that names no slot: it may be any that is not answered yet. */
static void note_down(struct lw__shards *shards)
{
    struct lw__shard *shard, *next;

    HASH_ITER(hh, shards->all, shard, next) {
        shard->refused = !shard->confirmed;
        if (shard->leaving) {
            forget(shards, shard);
        }
    }
    shards->events->unsettled(shards->arg);
}

static bool refused(void *arg, const char *error)
{
    struct lw__shards *shards = arg;
    struct lw__shard *shard;
    struct lw__redirect there;

    if (lw__classify_down(error)) {
        note_down(shards);
        return true;
    }
    if (!lw__cluster_parse_redirect(error, strlen(error), &there)) {
        return false;
    }
    shard = find(shards, there.slot);
    if (shard != NULL) {
        forget_refused(shards, shard);
    }
    return true;
}

static void lost(void *arg, const char *why)
{
    struct lw__shards *shards = arg;
    struct lw__shard *shard, *next;
    bool was_there = false;

    HASH_ITER(hh, shards->all, shard, next) {
        was_there = was_there || shard->confirmed;
        shard->confirmed = shard->fresh = false;
        if (shard->leaving) {
            forget(shards, shard);
        }
    }
    shards->forbidden = shards->session.state == LW__SESSION_STOPPED;
    if (!shards->forbidden && !was_there) {
        shards->events->failed(shards->arg, why);
    }
    if (shards->forbidden && !shards->forbidden_told) {
        shards->forbidden_told = true;
        lw__log(shards->session.config->log, LOG_WARNING,
                "channels of slots cannot be subscribed to, waiting will be by polling: "
                "%s",
                why);
    }
}

static void tell(void *arg)
{
    struct lw__shards *shards = arg;
    struct lw__shard *shard, *next;

    shards->events->confirmed(shards->arg);
    HASH_ITER(hh, shards->all, shard, next) {
        shard->fresh = false;
    }
}

/* By us, or by the node. Who wants a channel of which we were rid has it anew. */
static void dropped(struct lw__shards *shards, struct lw__shard *shard)
{
    unsigned slot = shard->slot;

    if (!shard->leaving) {
        forget(shards, shard);
        shards->events->dropped(shards->arg, slot);
    } else if (is_wanted(shard)) {
        shard->leaving = false;
        subscribe(shards, shard);
    } else {
        forget(shards, shard);
    }
}

static void push(void *arg, const struct lw__reply *reply)
{
    struct lw__shards *shards = arg;
    size_t length;
    const char *kind = lw__reply_text(lw__reply_at(reply, 0), NULL);
    const char *text = lw__reply_text(lw__reply_at(reply, 2), &length);
    const char *channel = lw__reply_text(lw__reply_at(reply, 1), NULL);
    struct lw__shard *shard = find(shards, lw__slot_of(channel, strlen(channel)));

    if (shard == NULL || strcmp(shard->channel, channel) != 0) {
        return;
    }
    if (strcasecmp(kind, "smessage") == 0) {
        shards->events->message(shards->arg, text, length);
    } else if (strcasecmp(kind, "sunsubscribe") == 0) {
        dropped(shards, shard);
    } else if (!shard->confirmed && !shard->leaving) {
        shard->confirmed = shard->fresh = true;
        shard->refused = false;
        lw__defer(shards->session.config->loop, &shards->tell, false);
    }
}

void lw__shards_init(struct lw__shards *shards, const struct lw__session_config *config,
                     const char *uuid, const struct lw__shards_events *events, void *arg)
{
    static const struct lw__session_events session_events = {ready, lost, push, NULL,
                                                             refused};

    *shards = (struct lw__shards){.events = events, .arg = arg, .uuid = uuid};
    lw__defer_init(&shards->tell, tell, shards);
    lw__session_init(&shards->session, config, &session_events, shards);
}

static void free_all(struct lw__shards *shards)
{
    struct lw__shard *shard, *next;

    HASH_ITER(hh, shards->all, shard, next) {
        forget(shards, shard);
    }
}

void lw__shards_clear(struct lw__shards *shards)
{
    lw__session_stop(&shards->session);
    lw__defer_cancel(shards->session.config->loop, &shards->tell);
    free_all(shards);
}

void lw__shards_want(struct lw__shards *shards, unsigned slot)
{
    struct lw__shard *shard = find(shards, slot);

    if (shards->forbidden) {
        return;
    }
    if (shard == NULL) {
        shard = calloc(1, sizeof(*shard));
        if (shard == NULL) {
            return;
        }
        shard->slot = slot;
        lw__format_shard_channel(shards->uuid, slot, shard->channel);
        HASH_ADD_BYHASHVALUE(hh, shards->all, slot, sizeof(slot), slot, shard);
        if (shard->hh.tbl == NULL) { /* uthash had no memory */
            free(shard);
            return;
        }
        lw__session_start(&shards->session);
        subscribe(shards, shard);
    } else if (shard->refused) {
        shard->refused = false;
        subscribe(shards, shard);
    }
    shard->wanted_us = lw__now_us();
}

bool lw__shards_has(const struct lw__shards *shards, unsigned slot)
{
    const struct lw__shard *shard = find(shards, slot);

    return shard != NULL && shard->confirmed;
}

bool lw__shards_is_fresh(const struct lw__shards *shards, unsigned slot)
{
    const struct lw__shard *shard = find(shards, slot);

    return shard != NULL && shard->fresh;
}

void lw__shards_permit(struct lw__shards *shards)
{
    shards->forbidden = false;
    if (shards->all != NULL) {
        lw__session_start(&shards->session);
    }
}

static void leave(struct lw__shards *shards, struct lw__shard *shard)
{
    shard->confirmed = false;
    if (shards->session.state != LW__SESSION_READY) {
        forget(shards, shard);
    } else if (!shard->leaving) {
        shard->leaving = true;
        (void)lw__link_sunsubscribe(shards->session.link, shard->channel);
    }
}

void lw__shards_heartbeat(struct lw__shards *shards)
{
    struct lw__shard *shard, *next, *living = NULL;

    HASH_ITER(hh, shards->all, shard, next) {
        if (is_wanted(shard)) {
            living = shard;
        } else {
            leave(shards, shard);
        }
    }
    if (living == NULL) {
        lw__session_stop(&shards->session);
        free_all(shards);
    } else if (living->confirmed) {
        subscribe(shards, living);
    }
}

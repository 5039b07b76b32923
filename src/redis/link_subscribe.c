/* SPDX-License-Identifier: MIT */
/* A link that listens. Must not know what is said on its channels. Happy path: SUBSCRIBE
 * goes out past hiredis' own bookkeeping, and a callback waits for what the server says
 * next (guard.c): a confirmation, messages. An error that a confirmation was awaited for
 * is pushed as well; any other, and what is neither, takes the link down; of channels
 * that are not ours nothing is heard, but for those of slots. */
#include "redis/link_inside.h"

#include "base/buffer.h"
#include "lockwire.h"
#include "redis/classify.h"
#include "redis/reply.h"
#include "redis/resp.h"
#include "redis/slot.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool listens_to(const struct lw__link *link, const char *name)
{
    const struct lw__channel *channel = link->channels;

    while (channel != NULL && strcmp(channel->name, name) != 0) {
        channel = channel->older;
    }
    return channel != NULL;
}

/* Each once, however often it is subscribed to. 0, LW_ENOMEM. */
static int add_channel(struct lw__link *link, const char *name)
{
    size_t size = strlen(name) + 1;
    struct lw__channel *channel;

    if (listens_to(link, name)) {
        return 0;
    }
    channel = malloc(sizeof(*channel) + size);
    if (channel == NULL) {
        return LW_ENOMEM;
    }
    memcpy(channel->name, name, size);
    channel->older = link->channels;
    link->channels = channel;
    return 0;
}

/* About a channel of a slot, of which there may be as many as slots: who has them here
 * knows them by their slots. */
static bool is_of_shard(const struct lw__reply *reply)
{
    const char *kind = lw__reply_text(lw__reply_at(reply, 0), NULL);

    return strncasecmp(kind, "ss", 2) == 0 || strncasecmp(kind, "sm", 2) == 0 ||
           strncasecmp(kind, "sun", 3) == 0;
}

/* A client has one channel to a slot. */
static unsigned left_by(const char *channel)
{
    return 1 + lw__slot_of(channel, strlen(channel));
}

/* What is awaited; a node says unasked as well that a channel is none of its own now. */
static bool is_awaited(const struct lw__link *link, enum lw__said said,
                       const struct lw__reply *reply)
{
    const struct lw__record *first = link->awaited.first;

    if (first == NULL || said == LW__SAID_MESSAGE) {
        return false;
    }
    return said != LW__SAID_UNSUBSCRIBED ||
           first->left == left_by(lw__reply_text(lw__reply_at(reply, 1), NULL));
}

static void take_push(struct lw__link *link, const struct lw__reply *reply)
{
    enum lw__said said = lw__guard_said(reply);
    bool awaited = is_awaited(link, said, reply);

    switch (said) {
    case LW__SAID_NONSENSE:
        lw__link_fail(link, "no message and no confirmation from the subscription");
        return;
    case LW__SAID_ERROR:
        if (!awaited && !lw__classify_moved(lw__reply_text(reply, NULL))) {
            /* "max number of clients reached", and the like; MOVED is said of a channel
             * to leave as well, behind a drop that was taken for the answer */
            lw__link_fail(link, lw__reply_text(reply, NULL));
            return;
        }
        break;
    default:
        if (!listens_to(link, lw__reply_text(lw__reply_at(reply, 1), NULL)) &&
            !is_of_shard(reply)) {
            return; /* of a channel that is not ours */
        }
    }
    if (awaited) {
        (void)lw__awaited_pop(&link->awaited);
    }
    link->events.push(link->arg, reply);
}

static void on_push(redisAsyncContext *context, void *reply, void *data)
{
    struct lw__link *link = lw__link_enter(context, reply);

    if (link == NULL) {
        return;
    }
    if (link->state == LW__LINK_UP && lw__guard_listen(context, on_push, data) != 0) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
    }
    lw__link_tell_up(link);
    if (link->state == LW__LINK_UP) {
        take_push(link, reply);
    }
    lw__link_leave(link);
}

static int say(struct lw__link *link, const char *verb, const char *channel)
{
    struct lw__buffer out = {0};
    int status = LW_ENOMEM;

    if (lw__awaited_reserve(&link->awaited) == NULL) {
        return LW_ENOMEM;
    }
    lw__resp_words(&out, 2, (const char *[]){verb, channel});
    if (!out.failed) {
        status = lw__guard_send_unseen(link->context, out.data, out.length);
    }
    lw__buffer_clear(&out);
    if (status == 0 && !link->listening) {
        status = lw__guard_listen(link->context, on_push, NULL);
        link->listening = true;
    }
    return status;
}

static int say_or_fail(struct lw__link *link, const char *verb, const char *channel)
{
    if (!lw__link_is_open(link)) {
        return LW_ECONN;
    }
    if (say(link, verb, channel) != 0) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
        return LW_ENOMEM;
    }
    lw__link_sent(link, NULL, 1);
    return 0;
}

int lw__link_subscribe(struct lw__link *link, const char *channel)
{
    if (lw__link_is_open(link) && add_channel(link, channel) != 0) {
        lw__link_fail(link, lw_strerror(LW_ENOMEM));
        return LW_ENOMEM;
    }
    return say_or_fail(link, "SUBSCRIBE", channel);
}

int lw__link_subscribe_shard(struct lw__link *link, const char *channel)
{
    return say_or_fail(link, "SSUBSCRIBE", channel);
}

int lw__link_unsubscribe_shard(struct lw__link *link, const char *channel)
{
    int status = say_or_fail(link, "SUNSUBSCRIBE", channel);

    if (status == 0) {
        lw__awaited_last(&link->awaited)->left = left_by(channel);
    }
    return status;
}

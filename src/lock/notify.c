/* SPDX-License-Identifier: MIT */
/* Queues the user callbacks that are due, losses before all others. Calls none of them
 * (deliver.c does, from the loop), and decides nothing about a lock. Needs no memory,
 * except for the notice about the link: if memory is short that one is dropped, and the
 * next change is reported. */
#include "lock/lock_private.h"

#include <stdlib.h>
#include <utlist.h>

void lw__notify_init(struct lw_client *client, lw__call_fn *deliver)
{
    lw__defer_init(&client->notify.call, deliver, client);
}

static struct lw__notice **queue_of(struct lw_client *client,
                                    const struct lw__notice *notice)
{
    return notice->urgent ? &client->notify.urgent : &client->notify.normal;
}

static void queue(struct lw_client *client, struct lw__notice *notice,
                  enum lw__notice_kind kind, int status, bool urgent)
{
    lw__notify_cancel(client, notice);
    notice->kind = (uint8_t)kind;
    notice->status = status;
    notice->urgent = urgent;
    DL_APPEND(*queue_of(client, notice), notice);
    lw__defer(client->loop, &client->notify.call, false);
}

void lw__notify_remove(struct lw_client *client, struct lw__notice *notice)
{
    notice->kind = LW__NOTICE_NONE;
    DL_DELETE(*queue_of(client, notice), notice);
}

void lw__notify_lock(struct lw_lock *lock, enum lw__notice_kind kind, int status)
{
    queue(lock->client, &lock->notice, kind, status, kind == LW__NOTICE_LOST);
}

void lw__notify_renewed(struct lw__renew_call *call, int status)
{
    queue(call->lock->client, &call->notice, LW__NOTICE_RENEWED, status,
          status == LW_ELOST);
}

void lw__notify_call(struct lw_client *client, struct lw__notice *notice,
                     enum lw__notice_kind kind, int status)
{
    queue(client, notice, kind, status, false);
}

void lw__notify_closed(struct lw_client *client)
{
    queue(client, &client->closed_notice, LW__NOTICE_CLOSED, LW_OK, false);
}

void lw__notify_link(struct lw_client *client, int up, const char *why)
{
    struct lw__link_notice *notice;

    if (client->options.link == NULL || client->closing) {
        return;
    }
    notice = calloc(1, sizeof(*notice));
    if (notice == NULL) {
        return;
    }
    notice->up = up;
    lw__escape(why, notice->why, sizeof(notice->why));
    queue(client, &notice->notice, LW__NOTICE_LINK, LW_OK, false);
}

void lw__notify_credentials(struct lw_client *client)
{
    queue(client, &client->credentials.notice, LW__NOTICE_CREDENTIALS, LW_OK, false);
}

struct lw__notice *lw__notify_first(const struct lw_client *client)
{
    return client->notify.urgent != NULL ? client->notify.urgent : client->notify.normal;
}

void lw__notify_clear(struct lw_client *client)
{
    struct lw__notice *notice, *next;

    DL_CONCAT(client->notify.urgent, client->notify.normal);
    DL_FOREACH_SAFE(client->notify.urgent, notice, next) {
        enum lw__notice_kind kind = notice->kind;

        notice->kind = LW__NOTICE_NONE;
        if (kind == LW__NOTICE_LINK) {
            free(notice);
        }
    }
    client->notify.urgent = client->notify.normal = NULL;
    if (client->loop != NULL) {
        lw__defer_cancel(client->loop, &client->notify.call);
    }
}

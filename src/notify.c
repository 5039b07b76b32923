/* SPDX-License-Identifier: MIT */
/*
 * The only caller of user callbacks: their order, and what stays alive around them. Owns
 * the two queues (losses first), the states that a handle shows, and the references that
 * let any call be made inside any callback. Must not decide anything about a lock.
 *
 * Happy path: lw__notify_lock queues a notice; from the loop, run() brings the clock's
 * business up to date, takes the notice off, sets the handle's state and calls back.
 */
#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <utlist.h>

#define A_TURN 64 /* callbacks before I/O has its chance again */

static void run(void *arg);

void lw__notify_init(struct lw_client *client)
{
    lw__deferred_init(&client->notify.call, run, client);
}

static void queue(struct lw_client *client, struct lw__notice *notice,
                  enum lw__notice_kind kind, int status, bool urgent)
{
    lw__notify_cancel(client, notice);
    notice->kind = kind;
    notice->status = status;
    notice->urgent = urgent;
    if (urgent) {
        DL_APPEND(client->notify.urgent, notice);
    } else {
        DL_APPEND(client->notify.normal, notice);
    }
    lw__defer(client->loop, &client->notify.call, false);
}

void lw__notify_cancel(struct lw_client *client, struct lw__notice *notice)
{
    if (notice->kind == LW__NOTICE_NONE) {
        return;
    }
    notice->kind = LW__NOTICE_NONE;
    if (notice->urgent) {
        DL_DELETE(client->notify.urgent, notice);
    } else {
        DL_DELETE(client->notify.normal, notice);
    }
}

void lw__notify_lock(struct lw_lock *lock, enum lw__notice_kind kind, int status)
{
    queue(lock->client, &lock->notice, kind, status, kind == LW__NOTICE_LOST);
}

void lw__notify_extension(struct lw__extension *extension, int status)
{
    queue(extension->lock->client, &extension->notice, LW__NOTICE_RENEWED, status,
          status == LW_ELOST);
}

void lw__notify_inquiry(struct lw__inquiry *inquiry, int status)
{
    queue(inquiry->client, &inquiry->notice, LW__NOTICE_INQUIRED, status, false);
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
    if (notice == NULL) { /* the next failure will be told; that it is up again, if not
                             told already */
        return;
    }
    notice->up = up;
    (void)snprintf(notice->why, sizeof(notice->why), "%s", why);
    queue(client, &notice->notice, LW__NOTICE_LINK, LW_OK, false);
}

static struct lw_lock *lock_of(struct lw__notice *notice)
{
    return (struct lw_lock *)((char *)notice - offsetof(struct lw_lock, notice));
}

static void count_granted(struct lw_lock *lock)
{
    struct lw_stats *stats = &lock->client->stats;
    int64_t waited_us = lw__now_us() - lock->asked_us;
    size_t bucket = 0;

    while (bucket < LW_WAIT_BUCKETS - 1 && waited_us > ((int64_t)LW__MS << bucket)) {
        bucket++;
    }
    stats->granted++;
    stats->held++;
    stats->wait_us += (uint64_t)(waited_us > 0 ? waited_us : 0);
    stats->wait_histogram[bucket]++;
}

static void count_ended(struct lw_stats *stats, int status)
{
    if (status == LW_EBUSY) {
        stats->busy++;
    } else if (status == LW_ETIMEOUT) {
        stats->timed_out++;
    } else {
        stats->failed++;
    }
}

static void count_lost(struct lw_stats *stats, int reason)
{
    stats->held--;
    if (reason == LW_ELOST) {
        stats->lost_deadline++;
    } else if (reason == LW_ETIMEOUT) {
        stats->lost_max_hold++;
    } else {
        stats->lost_taken++;
    }
}

static void deliver_to_lock(struct lw_lock *lock, enum lw__notice_kind kind, int status)
{
    struct lw_stats *stats = &lock->client->stats;
    lw_lock_cb *callback = NULL;
    void *arg = lock->arg;

    switch (kind) {
    case LW__NOTICE_DONE:
        lock->state = status == LW_OK ? LW_HELD : LW_DONE;
        lock->granted = false;
        stats->waiting--;
        if (status == LW_OK) {
            count_granted(lock);
        } else {
            count_ended(stats, status);
        }
        callback = lock->done;
        break;
    case LW__NOTICE_LOST:
        lock->state = LW_LOST;
        count_lost(stats, status);
        callback = lock->lost;
        break;
    default:
        lock->state = LW_DONE;
        callback = lock->released;
        arg = lock->released_arg;
        break;
    }
    if (callback == NULL) {
        return;
    }
    lock->in_callback = true;
    callback(lock, status, arg);
    lock->in_callback = false;
    lw__lock_unref(lock);
}

static void deliver_extension(struct lw__extension *extension, int status)
{
    struct lw_lock *lock = extension->lock;
    lw_lock_cb *callback = extension->done;
    void *arg = extension->arg;
    bool outer = lock->in_callback;

    lw__extension_free(extension);
    if (callback == NULL) {
        return;
    }
    lock->in_callback = true;
    callback(lock, status, arg);
    lock->in_callback = outer;
    lw__lock_unref(lock);
}

static void deliver_inquiry(struct lw__inquiry *inquiry, int status)
{
    struct lw_client *client = inquiry->client;

    /* out of reach of lw_client_free, which the callback may call */
    DL_DELETE(client->inquiries, inquiry);
    inquiry->client = NULL;
    if (inquiry->inspected != NULL) {
        inquiry->inspected(client, status, status == LW_OK ? &inquiry->found : NULL,
                           inquiry->why, inquiry->arg);
    } else {
        inquiry->broken(client, status, inquiry->why, inquiry->arg);
    }
    lw__inquiry_free(inquiry);
}

static void deliver_link(struct lw_client *client, struct lw__link_notice *notice)
{
    bool known = notice->up && client->told_up; /* the end of it could not be told */

    client->told_up = notice->up;
    if (!known) {
        client->options.link(client, notice->up, notice->why, client->options.arg);
    }
    free(notice);
}

static void deliver(struct lw_client *client, struct lw__notice *notice)
{
    enum lw__notice_kind kind = notice->kind;
    int status = notice->status;

    lw__notify_cancel(client, notice);
    switch (kind) {
    case LW__NOTICE_RENEWED:
        deliver_extension(
            (struct lw__extension *)((char *)notice -
                                     offsetof(struct lw__extension, notice)),
            status);
        break;
    case LW__NOTICE_INQUIRED:
        deliver_inquiry(
            (struct lw__inquiry *)((char *)notice - offsetof(struct lw__inquiry, notice)),
            status);
        break;
    case LW__NOTICE_LINK:
        deliver_link(client, (struct lw__link_notice *)notice);
        break;
    case LW__NOTICE_CLOSED:
        if (client->notify.urgent != NULL || client->notify.normal != NULL) {
            lw__notify_closed(client); /* it comes last */
            break;
        }
        lw__client_closed(client);
        if (client->closed != NULL) {
            client->closed(client, client->closed_arg);
        }
        break;
    default:
        deliver_to_lock(lock_of(notice), kind, status);
    }
}

/* Time passes in callbacks: before each, whatever is due is done, so that a loss found
 * there comes first. */
static void run(void *arg)
{
    struct lw_client *client = arg;
    unsigned room = A_TURN;

    client->references++;
    while (room-- > 0 && !client->freed && client->loop != NULL) {
        struct lw__notice *next;

        lw__loop_catch_up(client->loop);
        next = client->notify.urgent != NULL ? client->notify.urgent
                                             : client->notify.normal;
        if (next == NULL) {
            break;
        }
        deliver(client, next);
    }
    if (!client->freed && client->loop != NULL &&
        (client->notify.urgent != NULL || client->notify.normal != NULL)) {
        lw__defer(client->loop, &client->notify.call, false);
    }
    client->references--;
    lw__client_unref(client);
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

void lw__lock_unref(struct lw_lock *lock)
{
    if (lock->freed && !lock->in_callback) {
        lw__lock_free_memory(lock);
    }
}

void lw__client_unref(struct lw_client *client)
{
    if (client->freed && client->references == 0) {
        lw__client_free_memory(client);
    }
}

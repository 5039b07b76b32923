/* SPDX-License-Identifier: MIT */
/* The only caller of user callbacks: what stays alive around them, the states that a
 * handle shows, and what is counted of them. Must not decide anything about a lock. Happy
 * path: lw__deliver brings the clock's business up to date, takes the first notice off
 * (notify.c), sets the handle's state and calls back. A callback may make any call, and
 * free its handle or the client: their memory goes when the last callback of them has
 * returned. */
#include "lock/lock_private.h"

#include "base/container_of.h"
#include "loop/loop.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define A_TURN 64 /* callbacks before I/O has its chance again */

static void count_granted(struct lw_lock *lock)
{
    struct lw_stats *stats = &lock->client->stats;
    int64_t waited_us = lw__now_us() - lock->asking.asked_us;
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

static void call_back(struct lw_lock *lock, lw_lock_cb *callback, int status, void *arg)
{
    bool outer = lock->in_callback;

    if (callback == NULL) {
        return;
    }
    lock->in_callback = true;
    callback(lock, status, arg);
    lock->in_callback = outer;
    lw__handle_unref(lock);
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
            lw__handle_delivered(lock);
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
    case LW__NOTICE_LATER:
        callback = lock->done;
        break;
    default:
        lock->state = LW_DONE;
        callback = lock->done;
        break;
    }
    call_back(lock, callback, status, arg);
}

static void deliver_risk(struct lw_lock *lock, int at_risk)
{
    bool outer = lock->in_callback;

    lock->in_callback = true;
    lock->at_risk(lock, at_risk, lw__handle_left_ms(lock), lock->arg);
    lock->in_callback = outer;
    lw__handle_unref(lock);
}

static void deliver_renewed(struct lw__renew_call *call, int status)
{
    struct lw_lock *lock = call->lock;
    lw_lock_cb *callback = call->done;
    void *arg = call->arg;

    lw__renewal_free_call(call);
    call_back(lock, callback, status, arg);
}

static void tell_listing(struct lw__list *list, const struct lw_inspection *found)
{
    bool stops;

    list->in_callback = true;
    stops = list->found(list->client, found, &list->listing, list->arg) != 0;
    lw__list_delivered(list, stops);
}

static void deliver_listed(struct lw__list *list, int status)
{
    struct lw_client *client = list->client;

    DL_DELETE(client->lists, list); /* as an inquiry */
    list->client = NULL;
    list->done(client, status, &list->listing, list->why, list->arg);
    lw__list_free(list);
}

static void deliver_inquiry(struct lw__inspect_call *inquiry, int status)
{
    struct lw_client *client = inquiry->client;

    /* out of reach of lw_client_free, which the callback may call */
    DL_DELETE(client->inspect_calls, inquiry);
    inquiry->client = NULL;
    if (inquiry->list != NULL) {
        struct lw__list *list = inquiry->list;

        if (lw__list_inspected(list, inquiry, status)) {
            tell_listing(list, &inquiry->look.found);
        } else {
            lw__list_continue(list);
        }
    } else if (inquiry->inspected != NULL) {
        inquiry->inspected(client, status, status == LW_OK ? &inquiry->look.found : NULL,
                           inquiry->why, inquiry->arg);
    } else {
        inquiry->broken(client, status, inquiry->why, inquiry->arg);
    }
    lw__inspect_free(inquiry);
}

static void deliver_link(struct lw_client *client, struct lw__link_notice *notice)
{
    bool known = notice->up && client->reported_up; /* the end of it could not be told */

    client->reported_up = notice->up;
    if (!known) {
        client->options.link(client, notice->up, notice->why, client->options.arg);
    }
    free(notice);
}

/* On the stack, so that there is one place to wipe, and no memory to be short of. */
static void deliver_credentials(struct lw_client *client)
{
    struct lw_credentials given = {.size = sizeof(given)};
    struct lw__login *login = lw__credentials_first(client);
    int status = client->options.credentials(client, &given, client->options.arg);

    lw__credentials_answer(client, login, status, &given);
    explicit_bzero(&given, sizeof(given));
}

static void deliver(struct lw_client *client, struct lw__notice *notice)
{
    enum lw__notice_kind kind = notice->kind;
    int status = notice->status;

    lw__notify_cancel(client, notice);
    switch (kind) {
    case LW__NOTICE_RISK:
        deliver_risk(LW__CONTAINER_OF(struct lw_lock, notice, notice), status);
        break;
    case LW__NOTICE_RENEWED:
        deliver_renewed(LW__CONTAINER_OF(struct lw__renew_call, notice, notice), status);
        break;
    case LW__NOTICE_INSPECTED:
        deliver_inquiry(LW__CONTAINER_OF(struct lw__inspect_call, notice, notice),
                        status);
        break;
    case LW__NOTICE_LISTING:
        tell_listing(LW__CONTAINER_OF(struct lw__list, notice, notice), NULL);
        break;
    case LW__NOTICE_LISTED:
        deliver_listed(LW__CONTAINER_OF(struct lw__list, notice, notice), status);
        break;
    case LW__NOTICE_LINK:
        deliver_link(client, LW__CONTAINER_OF(struct lw__link_notice, notice, notice));
        break;
    case LW__NOTICE_CREDENTIALS:
        deliver_credentials(client);
        break;
    case LW__NOTICE_CLOSED:
        if (lw__notify_first(client) != NULL) {
            lw__notify_closed(client); /* it comes last */
            break;
        }
        lw__ending_closed(client);
        if (client->closed != NULL) {
            client->closed(client, client->closed_arg);
        }
        break;
    default:
        deliver_to_lock(LW__CONTAINER_OF(struct lw_lock, notice, notice), kind, status);
    }
}

/* Time passes in callbacks: before each, whatever is due is done, so that a loss found
 * there comes first. */
void lw__deliver(void *arg)
{
    struct lw_client *client = arg;
    unsigned room = A_TURN;

    client->references++;
    while (room-- > 0 && !client->freed && client->loop != NULL) {
        struct lw__notice *first;

        lw__timer_catch_up(client->loop);
        first = lw__notify_first(client);
        if (first == NULL) {
            break;
        }
        deliver(client, first);
        if (lw__is_inherited(client)) {
            break; /* the callback forked: the next one is the parent's */
        }
    }
    if (!client->freed && client->loop != NULL && lw__notify_first(client) != NULL) {
        lw__notify_again(client);
    }
    client->references--;
    lw__ending_unref(client);
}

/* SPDX-License-Identifier: MIT */
/* Calls the user callbacks: keeps their objects alive, sets the states that handles show,
 * and counts. No other file calls any, except for the log callback. Decides nothing about
 * a lock.
 *
 * lw__deliver first runs the timers that are due, takes the first notice from its queue
 * (notify.c), sets the handle's state and calls back. A callback may make any call, and
 * may free its handle or the client: memory is freed after their last callback has
 * returned. */
#include "lock/lock_private.h"

#include "base/container_of.h"
#include "base/wipe.h"
#include "look/look.h"
#include "loop/loop.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

/* Other events of the loop go first after so many callbacks, or after so long. */
#define PER_CALL 256
#define PER_CALL_US 1000

/* ---- handles ---- */

static void count_granted(struct lw_lock *lock, int64_t now_us)
{
    struct lw_stats *stats = &lock->client->stats;
    int64_t waited_us = now_us - lock->asking.asked_us;
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

static void deliver_to_lock(struct lw_lock *lock, enum lw__notice_kind kind, int status,
                            int64_t now_us)
{
    struct lw_stats *stats = &lock->client->stats;
    lw_lock_cb *callback = NULL;
    void *arg = lock->arg;

    switch (kind) {
    case LW__NOTICE_DONE:
        lock->state = status == LW_OK ? LW_HELD : LW_DONE;
        lw__handle_count_wait(lock, -1);
        if (status == LW_OK) {
            count_granted(lock, now_us);
            lw__handle_delivered(lock);
            lw__handle_resume_yield(lock);
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

    lw__handle_resume_yield(lock);
    lock->in_callback = true;
    lock->extras->at_risk(lock, at_risk, lw__handle_left_ms(lock), lock->arg);
    lock->in_callback = outer;
    lw__handle_unref(lock);
}

static void deliver_yield(struct lw_lock *lock)
{
    const struct lw_client_options *options = &lock->client->options;
    bool outer = lock->in_callback;

    lock->in_callback = true;
    options->asked_to_yield(lock, options->arg);
    lock->in_callback = outer;
    lw__handle_unref(lock);
}

static void deliver_renewed(struct lw__renew_call *call, int status)
{
    struct lw_lock *lock = call->lock;
    lw_lock_cb *callback = call->done;
    void *arg = call->arg;

    lw__renew_call_free(call);
    call_back(lock, callback, status, arg);
}

/* ---- lw_watch, lw_list, lw_inspect, lw_break, lw_ask_to_yield ---- */

static void deliver_watched(struct lw_watcher *watch, int status)
{
    if (lw__watch_looked(watch, status)) {
        watch->in_callback = true;
        watch->changed(watch, status, status == LW_OK ? &watch->call.look.found : NULL,
                       watch->call.why, watch->arg);
        watch->in_callback = false;
    }
    lw__watch_continue(watch);
}

static void deliver_listing(struct lw__list *list, const struct lw_inspection *found)
{
    bool stops;

    list->in_callback = true;
    stops = list->found(list->client, found, &list->listing, list->arg) != 0;
    lw__list_delivered(list, stops);
}

static void deliver_listed(struct lw__list *list, int status)
{
    struct lw_client *client = list->client;

    lw__list_take_out(list); /* for the same reason as in deliver_inspected */
    list->done(client, status, &list->listing, list->why, list->arg);
    lw__list_free(list);
}

static void deliver_inspected(struct lw__inspect_call *call, int status)
{
    struct lw_client *client = call->client;

    if (call->watch != NULL) {
        deliver_watched(call->watch, status);
        return;
    }
    /* out of reach of lw_client_free, which the callback may call */
    lw__inspect_take_out(call);
    if (call->list != NULL) {
        struct lw__list *list = call->list;

        if (lw__list_inspected(list, call, status)) {
            deliver_listing(list, &call->look.found);
        } else {
            lw__list_continue(list);
        }
    } else if (call->inspected != NULL) {
        call->inspected(client, status, status == LW_OK ? &call->look.found : NULL,
                        call->why, call->arg);
    } else if (call->broken != NULL) {
        call->broken(client, status, call->why, call->arg);
    } else {
        call->yielded(client, status, call->look.found.holder_total, call->reached,
                      call->why, call->arg);
    }
    lw__inspect_free(call);
}

/* ---- the client ---- */

static void deliver_link(struct lw_client *client, struct lw__link_notice *notice)
{
    /* true if no memory was left for a notice that the link was down in between */
    bool known = notice->up && client->reported_up;

    client->reported_up = notice->up;
    if (!known) {
        client->options.link(client, notice->up, notice->why, client->options.arg);
    }
    free(notice);
}

/* The credentials are on the stack: one place to wipe, and no allocation to fail. */
static void deliver_credentials(struct lw_client *client)
{
    struct lw_credentials given = {.size = sizeof(given)};
    struct lw__login *login = client->credentials.logins;
    int status = client->options.credentials(client, &given, client->options.arg);

    lw__credentials_answer(client, login, status, &given);
    lw__wipe(&given, sizeof(given));
}

/* ---- all notices ---- */

static void deliver(struct lw_client *client, struct lw__notice *notice, int64_t now_us)
{
    enum lw__notice_kind kind = notice->kind;
    int status = notice->status;

    lw__notify_cancel(client, notice);
    switch (kind) {
    case LW__NOTICE_RISK:
        deliver_risk(LW__CONTAINER_OF(struct lw_lock, notice, notice), status);
        break;
    case LW__NOTICE_YIELD:
        deliver_yield(LW__CONTAINER_OF(struct lw_lock, notice, notice));
        break;
    case LW__NOTICE_RENEWED:
        deliver_renewed(LW__CONTAINER_OF(struct lw__renew_call, notice, notice), status);
        break;
    case LW__NOTICE_INSPECTED:
        deliver_inspected(LW__CONTAINER_OF(struct lw__inspect_call, notice, notice),
                          status);
        break;
    case LW__NOTICE_LISTING:
        deliver_listing(LW__CONTAINER_OF(struct lw__list, notice, notice), NULL);
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
            lw__notify_closed(client); /* all others go first */
            break;
        }
        lw__ending_closed(client);
        if (client->closed != NULL) {
            client->closed(client, client->closed_arg);
        }
        break;
    default:
        deliver_to_lock(LW__CONTAINER_OF(struct lw_lock, notice, notice), kind, status,
                        now_us);
    }
}

/* Callbacks take time: before each one the time is read and the timers that are due run,
 * so that a loss that they find is delivered first; and it is forgotten, because after
 * the callback it would be too old. */
void lw__deliver(void *arg)
{
    struct lw_client *client = arg;
    unsigned room = PER_CALL;
    int64_t begun_us = 0;

    client->references++;
    while (room-- > 0 && !client->freed && client->loop != NULL) {
        struct lw__notice *first;
        int64_t now_us;

        lw__timer_catch_up(client->loop);
        first = lw__notify_first(client);
        now_us = lw__loop_now_us(client->loop);
        begun_us = begun_us != 0 ? begun_us : now_us;
        if (first == NULL || now_us - begun_us > PER_CALL_US) {
            break;
        }
        lw__loop_forget_time(client->loop);
        deliver(client, first, now_us);
        if (lw__is_inherited(client)) {
            break; /* the callback forked: the parent delivers the rest */
        }
    }
    if (!client->freed && client->loop != NULL && lw__notify_first(client) != NULL) {
        lw__defer(client->loop, &client->notify.call, false); /* other events first */
    }
    client->references--;
    lw__ending_unref(client);
}

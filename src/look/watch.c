/* SPDX-License-Identifier: MIT */
/* lw_watch: looks at a name again and again, as lw_inspect does, and calls back when the
 * holders or the waiters have changed. Owns the watches. Writes nothing to Redis, so that
 * it neither delays nor changes a grant. Independent of how the state is read
 * (inspect.c).
 *
 * The look is preceded by CLIENT CACHING: the server then sends one message to the
 * listener when a key changes that the script has read, whoever changes it, also when it
 * expires. (The messages of lockwire's own channels go to the clients that wait, and an
 * uncontended lock is acquired without any.) The next look follows within the spacing, at
 * random, so that a thousand watches do not look at once. The spacing is a tenth of the
 * interval at first. It doubles, up to the interval, with each look that a message calls
 * for before twice the spacing has passed: a lock that is handed over all the time costs
 * each watch one look an interval. Other looks follow when a link, a subscription or a
 * slot has changed, and after the interval, since messages may be lost.
 *
 * A look that fails is repeated after the interval, or a second if that is shorter; the
 * first one waits until the first attempt to connect has ended. */
#include "look/look.h"

#include "base/check.h"
#include "base/random.h"
#include "loop/loop.h"
#include "redis/route.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define INTERVAL_MS 1000
#define INTERVAL_MIN_MS 10
#define SPACING 10 /* looks in one interval, while few messages arrive */
#define TRACKED 10 /* intervals between two looks, if none does */
/* Less than the time for which a channel that none has named stays subscribed to. */
#define TRACKED_MS 30000
#define NOT_LOOKED 1 /* in place of the status of the last look */

/* ---- what has changed ---- */

/* Compares everything except the passing times. A client that ends withdraws its name
 * before its token is gone: the name that is missing now is no change. */
static bool is_same_entry(const struct lw_inspected *a, const struct lw_inspected *b)
{
    return strcmp(a->token, b->token) == 0 && a->mode == b->mode &&
           strcmp(a->owner, b->owner) == 0 && a->fence == b->fence &&
           a->permits == b->permits && a->since_ms == b->since_ms &&
           strcmp(a->user, b->user) == 0 && strcmp(a->note, b->note) == 0 &&
           (a->remaining_ms < 0) == (b->remaining_ms < 0) &&
           (*b->client == '\0' || strcmp(a->client, b->client) == 0);
}

/* Holders are in no order. */
static bool has_holder(const struct lw_inspection *found,
                       const struct lw_inspected *holder)
{
    for (size_t i = 0; i < found->holder_count; i++) {
        if (is_same_entry(lw_inspection_holder(found, i), holder)) {
            return true;
        }
    }
    return false;
}

static bool is_same(const struct lw_inspection *a, const struct lw_inspection *b)
{
    if (a->holder_total != b->holder_total || a->waiter_total != b->waiter_total ||
        a->holder_count != b->holder_count || a->waiter_count != b->waiter_count ||
        strcmp(a->foreign, b->foreign) != 0) {
        return false;
    }
    for (size_t i = 0; i < b->holder_count; i++) {
        const struct lw_inspected *holder = lw_inspection_holder(b, i);

        if (!is_same_entry(lw_inspection_holder(a, i), holder) &&
            !has_holder(a, holder)) {
            return false;
        }
    }
    for (size_t i = 0; i < b->waiter_count; i++) {
        if (!is_same_entry(lw_inspection_waiter(a, i), lw_inspection_waiter(b, i))) {
            return false;
        }
    }
    return true;
}

/* ---- looks ---- */

/* Returns true until the first attempt to connect has ended, after which all watches look
 * again. */
static bool is_connecting(const struct lw_client *client)
{
    return client->error == LW_OK && client->stats.link_up == 0;
}

static void set_spacing(struct lw_watcher *watch, int64_t now_us)
{
    int64_t interval_us = (int64_t)watch->interval_ms * LW__MS;

    if (now_us >= watch->looked_us + 2 * watch->spacing_us) {
        watch->spacing_us = interval_us / SPACING;
    } else if (watch->again && !watch->again_soon) {
        watch->spacing_us *= 2;
    }
    if (watch->spacing_us > interval_us) {
        watch->spacing_us = interval_us;
    }
}

static void look(void *arg)
{
    struct lw_watcher *watch = arg;

    if (is_connecting(watch->call.client)) {
        return;
    }
    set_spacing(watch, lw__now_us());
    watch->again = watch->again_soon = false;
    watch->looking = true;
    watch->looked_us = lw__now_us();
    lw__inspect_look(&watch->call);
}

/* Returns when the next look follows if nothing is reported. */
static int64_t idle_due_us(const struct lw_watcher *watch)
{
    struct lw__random *random = &watch->call.client->holds.random;
    int64_t ms = watch->interval_ms, jitter;

    if (watch->status != LW_OK && ms > INTERVAL_MS) {
        ms = INTERVAL_MS;
    } else if (watch->call.tracked && watch->status == LW_OK && !watch->every_look &&
               ms < TRACKED_MS) {
        ms = ms * TRACKED < TRACKED_MS ? ms * TRACKED : TRACKED_MS;
    }
    jitter = ms * LW__MS / 10;
    return watch->looked_us + ms * LW__MS - lw__random_between(random, 0, jitter);
}

static void plan(struct lw_watcher *watch)
{
    struct lw_client *client = watch->call.client;
    int64_t due;

    if (watch->looking) {
        return;
    }
    if (watch->again_soon) {
        due = lw__now_us();
    } else if (watch->again) {
        due = lw__now_us() +
              lw__random_between(&client->holds.random, 0, watch->spacing_us);
        if (due < watch->looked_us + watch->spacing_us) {
            due = watch->looked_us + watch->spacing_us;
        }
        if (lw__timer_is_set(&watch->timer) &&
            due > lw__timer_due_us(client->loop, &watch->timer)) {
            return; /* a further message of the same change does not delay the look */
        }
    } else {
        due = idle_due_us(watch);
    }
    lw__timer_set(client->loop, &watch->timer, due);
}

bool lw__watch_looked(struct lw_watcher *watch, int status)
{
    int before = watch->status;

    watch->status = status;
    if (watch->every_look) {
        return true;
    }
    if (status != LW_OK || before != LW_OK || !watch->seen) {
        return status != before || status == LW_OK;
    }
    return !is_same(&watch->last.found, &watch->call.look.found);
}

static void free_watch(struct lw_watcher *watch)
{
    lw__inspect_reply_clear(&watch->last);
    lw__inspect_clear(&watch->call);
    free(watch);
}

void lw__watch_continue(struct lw_watcher *watch)
{
    if (watch->freed) {
        free_watch(watch);
        return;
    }
    if (watch->status == LW_OK) {
        lw__inspect_reply_clear(&watch->last);
        watch->last = watch->call.look;
        watch->seen = true;
    } else {
        lw__inspect_reply_clear(&watch->call.look);
    }
    watch->call.look = (struct lw__inspect_reply){.entries = NULL};
    watch->looking = false;
    if (watch->call.client != NULL) {
        plan(watch);
    }
}

void lw__watch_look_again(struct lw_client *client, const struct lw__node *node)
{
    struct lw_watcher *watch;

    DL_FOREACH(client->watches, watch) {
        if (node == NULL ||
            lw__route_find(client->route, watch->call.name, NULL) == node) {
            watch->again = watch->again_soon = true;
            plan(watch);
        }
    }
}

/* Returns true if the key is this name, or its queue or holder (format.c), which end with
 * the name, perhaps in braces. Another key may look like these: that costs a look. */
static bool is_of(const char *key, size_t length, const char *name)
{
    size_t size = strlen(name);

    return (length >= size && memcmp(key + length - size, name, size) == 0) ||
           (length > size && memcmp(key + length - size - 1, name, size) == 0);
}

void lw__watch_key_changed(struct lw_client *client, const char *key)
{
    size_t length = key != NULL ? strlen(key) : 0;
    struct lw_watcher *watch;

    DL_FOREACH(client->watches, watch) {
        if (key == NULL || is_of(key, length, watch->call.name)) {
            watch->again = true;
            plan(watch);
        }
    }
}

/* ---- life ---- */

static void end(struct lw_client *client, struct lw_watcher *watch)
{
    lw__inspect_stop(&watch->call);
    lw__timer_cancel(client->loop, &watch->timer);
    lw__timer_unreserve(client->loop, 1);
    DL_DELETE(client->watches, watch);
    watch->call.client = NULL;
}

void lw__watch_end_all(struct lw_client *client)
{
    while (client->watches != NULL) {
        end(client, client->watches);
    }
}

void lw_watcher_free(struct lw_watcher *watch)
{
    if (watch == NULL) {
        return;
    }
    if (watch->call.client != NULL) {
        end(watch->call.client, watch);
    }
    watch->freed = true;
    if (!watch->in_callback) {
        free_watch(watch);
    }
}

/* Copies the options given (may be NULL) into `ret`. Returns 0, or LW_EINVAL with the
 * reason in errbuf. */
static int take_options(struct lw_client *client, const struct lw_watch_options *given,
                        struct lw_watch_options *ret)
{
    *ret = (struct lw_watch_options)LW_WATCH_OPTIONS_INIT;
    if (given != NULL && !lw__check_take_struct(ret, sizeof(*ret), given, given->size)) {
        lw__options_explain(client, "lw_watch_options.size %zu: %s", given->size,
                            "too small, or fields of a newer version are set");
        return LW_EINVAL;
    }
    if (ret->interval_ms == 0) {
        ret->interval_ms = INTERVAL_MS;
    }
    if (ret->interval_ms < INTERVAL_MIN_MS || ret->interval_ms > INT32_MAX) {
        lw__options_explain(client, "interval_ms %u is not between %d and 2^31 - 1",
                            (unsigned)ret->interval_ms, INTERVAL_MIN_MS);
        return LW_EINVAL;
    }
    return 0;
}

static struct lw_watcher *new_watch(struct lw_client *client, const char *name)
{
    struct lw_watcher *watch = calloc(1, sizeof(*watch));

    if (watch == NULL || lw__inspect_init(&watch->call, client, name) != 0) {
        free(watch);
        return NULL;
    }
    if (lw__timer_reserve(client->loop, 1) != 0) {
        free_watch(watch);
        return NULL;
    }
    lw__timer_init(&watch->timer, look, watch);
    watch->call.watch = watch;
    watch->status = NOT_LOOKED;
    DL_APPEND(client->watches, watch);
    return watch;
}

int lw_watch(struct lw_client *client, const char *name,
             const struct lw_watch_options *options, lw_watch_cb *changed, void *arg,
             struct lw_watcher **ret)
{
    struct lw_watch_options taken;
    struct lw_watcher *watch;
    int status;

    if (changed == NULL || ret == NULL) {
        lw__options_explain(client, "%s is NULL", changed == NULL ? "changed" : "ret");
        return LW_EINVAL;
    }
    status = lw__options_check_call(client, name);
    if (status == 0) {
        status = lw__options_check_single(client);
    }
    if (status == 0) {
        status = take_options(client, options, &taken);
    }
    if (status != 0) {
        return status;
    }
    watch = new_watch(client, name);
    if (watch == NULL) {
        lw__options_explain(client, "%s", lw_strerror(LW_ENOMEM));
        return LW_ENOMEM;
    }
    watch->changed = changed;
    watch->arg = arg;
    watch->interval_ms = taken.interval_ms;
    watch->spacing_us = (int64_t)taken.interval_ms * LW__MS / SPACING;
    watch->every_look = taken.every_look != 0;
    watch->again = watch->again_soon = true;
    plan(watch);
    *ret = watch;
    return 0;
}

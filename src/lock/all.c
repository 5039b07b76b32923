/* SPDX-License-Identifier: MIT */
/* Several mutexes acquired as one: all of them, or none. Built on the public header, and
 * on extension.h for checked options, a limit for a try-once and delayed callbacks.
 * Independent of claims and commands.
 *
 * The names are sorted. start() tries all of them at once. If one is refused, the names
 * below it are kept, the others are released, and climb() acquires the rest in ascending
 * order, waiting for one at a time. A call that waits for a name therefore holds only
 * smaller names, so that no cycle of waiting calls can form. The larger names that a try
 * holds for one round trip do not matter, because it never waits.
 *
 * If a name is lost before all are held, everything is released and start() runs again,
 * within the same time limit. If a wait fails, or memory is short, everything is released
 * and the acquisition ends. If a name of a complete hold is lost, the caller has its
 * margin before the others are released. A closed or freed client ends the callbacks.
 *
 * Each user callback is the last action of its function, since it may free the struct. */
#include "base/check.h"
#include "base/escape.h"
#include "lock/extension.h"
#include "lockwire.h"
#include "loop/loop.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX 16
#define NEVER INT64_MAX

enum stage {
    TRYING,    /* all names at once; `pending` attempts have no result yet */
    CLIMBING,  /* one name waits, some smaller ones are held */
    HELD,      /* `done` was called with LW_OK */
    RELEASING, /* lw_all_release; `pending` releases have no result yet */
    LOST,      /* `lost` was called; release_others() may still be due */
    ENDED      /* failed, or released */
};

struct member {
    struct lw_all *all;
    struct lw_lock *lock; /* or NULL */
    char *name;
    int status;  /* TRYING: the result of the attempt */
    bool warned; /* the caller was last called with at_risk 1 */
};

struct lw_all {
    struct lw_client *client; /* valid in a callback of a member, and in lw_acquire_all */
    struct lw_acquire_options
        options; /* of each member; wait_ms is set before each use */
    char note[LW__NOTE_MOST + 1];
    int64_t give_up_us; /* NEVER: none */
    lw_all_cb *done, *lost;
    lw_risk_cb *at_risk;
    void *arg;
    enum stage stage;
    unsigned pending;
    int outcome;          /* RELEASING: the worst so far */
    bool once;            /* wait_ms 0 */
    uint32_t at_least_ms; /* once all are held; a name that is released before is not kept
                           */
    size_t count;
    struct member *sorted[NAMES_MAX]; /* by name */
    struct member members[];          /* in the caller's order; then the names' texts */
};

static void free_handle(struct member *member)
{
    lw_lock_free(member->lock);
    member->lock = NULL;
}

static bool is_held(const struct member *member)
{
    return member->lock != NULL && lw_lock_state(member->lock) == LW_HELD;
}

/* Returns the index in `sorted` of the first name that is not held, or `count`. */
static size_t first_missing(const struct lw_all *all)
{
    size_t i = 0;

    while (i < all->count && is_held(all->sorted[i])) {
        i++;
    }
    return i;
}

/* Returns the rest of wait_ms, rounded up: 0 if it has passed, -1 without a limit. */
static int64_t left_ms(const struct lw_all *all)
{
    int64_t left_us = all->give_up_us - lw__now_us();

    if (all->give_up_us == NEVER) {
        return -1;
    }
    return left_us > 0 ? (left_us + LW__MS - 1) / LW__MS : 0;
}

/* ---- acquiring ---- */

/* Releases every name except that of `culprit` (or NULL), whose handle explains the
 * failure. */
static void fail(struct lw_all *all, const struct member *culprit, int status)
{
    all->stage = ENDED;
    for (size_t i = 0; i < all->count; i++) {
        if (&all->members[i] != culprit) {
            free_handle(&all->members[i]);
        }
    }
    all->done(all, status, all->arg);
}

static void climbed(struct lw_lock *lock, int status, void *arg);

/* Acquires the first missing name by waiting for it. A handle of an earlier attempt stays
 * until its successor exists. */
static void climb(struct lw_all *all)
{
    size_t first = first_missing(all);
    struct member *member;
    struct lw_lock *earlier;
    int status = LW_ETIMEOUT;

    if (first == all->count) {
        all->stage = HELD; /* from now on warnings reach the caller */
        for (size_t i = 0; i < all->count; i++) {
            lw__handle_keep_at_least(all->members[i].lock, all->at_least_ms);
            lw__handle_repeat_risk(all->members[i].lock);
        }
        all->done(all, LW_OK, all->arg);
        return;
    }
    all->stage = CLIMBING;
    member = all->sorted[first];
    earlier = member->lock;
    all->options.wait_ms = left_ms(all);
    if (all->options.wait_ms != 0) {
        status = lw_acquire(all->client, member->name, &all->options, climbed, member,
                            &member->lock);
    }
    if (status != LW_OK) {
        fail(all, member, status);
        return;
    }
    lw_lock_free(earlier);
}

static void climbed(struct lw_lock *lock, int status, void *arg)
{
    struct member *member = arg;

    (void)lock;
    if (status == LW_OK) {
        climb(member->all);
    } else {
        fail(member->all, member, status);
    }
}

/* A name that is not held and has no error was ended by lw_client_close. */
static int status_of(const struct member *member)
{
    return member->status != LW_OK ? member->status : LW_ECLOSED;
}

/* All attempts have a result. */
static void tried_all(struct lw_all *all)
{
    size_t first = first_missing(all);

    for (size_t i = first + 1; i < all->count; i++) {
        free_handle(all->sorted[i]);
    }
    if (all->once && first < all->count) {
        fail(all, all->sorted[first], status_of(all->sorted[first]));
    } else {
        climb(all);
    }
}

static void tried(struct lw_lock *lock, int status, void *arg)
{
    struct member *member = arg;

    (void)lock;
    member->status = status;
    if (--member->all->pending == 0) {
        tried_all(member->all);
    }
}

/* Returns 0, or the error of lw_acquire; then no name has a handle. */
static int start(struct lw_all *all)
{
    all->stage = TRYING;
    all->pending = 0;
    all->options.wait_ms = 0;
    for (size_t i = 0; i < all->count; i++) {
        struct member *member = all->sorted[i];
        int status = lw_acquire(all->client, member->name, &all->options, tried, member,
                                &member->lock);

        if (status != LW_OK) {
            while (i-- > 0) {
                free_handle(all->sorted[i]);
            }
            return status;
        }
        if (!all->once) {
            lw__handle_limit_try(member->lock, all->give_up_us);
        }
        all->pending++;
    }
    return LW_OK;
}

static void restart(struct lw_all *all)
{
    int status;

    for (size_t i = 0; i < all->count; i++) {
        free_handle(&all->members[i]);
    }
    status = left_ms(all) != 0 ? start(all) : LW_ETIMEOUT;
    if (status != LW_OK) {
        fail(all, NULL, status);
    }
}

/* ---- holding ---- */

static void release_others(struct lw_lock *lock, int status, void *arg)
{
    struct lw_all *all = ((struct member *)arg)->all;

    (void)lock, (void)status;
    for (size_t i = 0; i < all->count; i++) {
        (void)lw_release(all->members[i].lock, NULL, NULL); /* refused if it is lost */
    }
}

static void member_lost(struct lw_lock *lock, int reason, void *arg)
{
    struct member *member = arg;
    struct lw_all *all = member->all;

    if (all->stage == TRYING) {
        member->status = reason == LW_ELOST      ? LW_ECONN
                         : reason == LW_ENOTHELD ? LW_EBUSY
                                                 : reason;
    } else if (all->stage == CLIMBING && left_ms(all) != 0) {
        restart(all); /* else the wait times out, after all losses that are due */
    } else if (all->stage == HELD) {
        all->stage = LOST;
        (void)lw__lock_call_later(lock, (int64_t)all->options.margin_ms + 1,
                                  LW__LATER_IN_TIME, release_others, member);
        if (all->lost != NULL) {
            all->lost(all, reason, all->arg);
        }
    }
}

/* The caller is called with 0 only for a name that it was warned of. */
static void risk_changed(struct lw_lock *lock, int at_risk, int64_t remaining_ms,
                         void *arg)
{
    struct member *member = arg;
    struct lw_all *all = member->all;

    if (all->stage == HELD && (at_risk || member->warned)) {
        member->warned = at_risk;
        all->at_risk(lock, at_risk, remaining_ms, all->arg);
    }
}

/* Ranks outcomes for the caller: a name that stays locked is the worst. */
static int severity(int status)
{
    return status == LW_EREDIS     ? 4
           : status == LW_ECONN    ? 3
           : status == LW_ENOTHELD ? 2
           : status != LW_OK       ? 1
                                   : 0;
}

static void released(struct lw_lock *lock, int status, void *arg)
{
    struct lw_all *all = ((struct member *)arg)->all;
    char why[LW_WHY_SIZE];

    if (status != LW_OK) {
        (void)snprintf(why, sizeof(why), "%s",
                       *lw_lock_errstr(lock) ? lw_lock_errstr(lock)
                                             : lw_strerror(status));
        lw__handle_set_error(lock, status, why);
    }
    if (severity(status) > severity(all->outcome)) {
        all->outcome = status;
    }
    if (--all->pending > 0) {
        return;
    }
    all->stage = ENDED;
    if (all->done != NULL) {
        all->done(all, all->outcome, all->arg);
    }
}

int lw_all_release(struct lw_all *all, lw_all_cb *done, void *arg)
{
    int status = all->stage == LOST || all->stage == ENDED ? LW_ENOTHELD : LW_EINVAL;

    for (size_t i = 0; i < all->count; i++) {
        struct lw_lock *lock = all->members[i].lock;

        if (lock != NULL &&
            (lw_lock_client(lock) == NULL || lw_lock_error(lock) == LW_ECLOSED)) {
            return LW_ECLOSED;
        }
    }
    for (size_t i = 0; all->stage == HELD && i < all->count; i++) {
        status = lw_release(all->members[i].lock, released, &all->members[i]);
        if (status != LW_OK) { /* the first one: the client is closing, or forked */
            return status;
        }
    }
    if (status == LW_OK) {
        all->stage = RELEASING;
        all->pending = (unsigned)all->count;
        all->outcome = LW_OK;
        all->done = done;
        all->arg = arg;
    }
    return status;
}

/* ---- life ---- */

static int check_call(struct lw_client *client, const char *const *names, size_t count,
                      lw_all_cb *done, struct lw_all *const *ret)
{
    char why[LW_WHY_SIZE];

    if (done == NULL || ret == NULL || names == NULL) {
        lw__options_explain(client, "%s is NULL",
                            done == NULL  ? "done"
                            : ret == NULL ? "ret"
                                          : "names");
        return LW_EINVAL;
    }
    if (count < 1 || count > NAMES_MAX) {
        lw__options_explain(client, "count %zu is not between 1 and %d", count,
                            NAMES_MAX);
        return LW_EINVAL;
    }
    for (size_t i = 0; i < count; i++) {
        if (lw__options_check_name(client, names[i], why) != NULL) {
            lw__options_explain(client, "names[%zu]: %s", i, why);
            return LW_EINVAL;
        }
    }
    return LW_OK;
}

static int check_options(struct lw_client *client,
                         const struct lw_acquire_options *options)
{
    if (options->mode != LW_MUTEX) {
        lw__options_explain(
            client, "mode is not LW_MUTEX, the only one that lw_acquire_all supports");
        return LW_EINVAL;
    }
    if (options->lost != NULL) {
        lw__options_explain(client,
                            "options.lost is set; pass `lost` to lw_acquire_all instead");
        return LW_EINVAL;
    }
    return LW_OK;
}

/* Returns NULL if memory is short. */
static struct lw_all *allocate(const char *const *names, size_t count)
{
    struct lw_all *all;
    size_t size = sizeof(*all) + count * sizeof(all->members[0]);
    char *text;

    for (size_t i = 0; i < count; i++) {
        size += strlen(names[i]) + 1;
    }
    all = calloc(1, size);
    if (all == NULL) {
        return NULL;
    }
    all->count = count;
    text = (char *)&all->members[count];
    for (size_t i = 0; i < count; i++) {
        all->members[i].all = all;
        all->members[i].name = text;
        text = stpcpy(text, names[i]) + 1;
    }
    return all;
}

/* Sorts the names; every caller must use the same order. Returns LW_EINVAL if two are
 * equal. */
static int sort(struct lw_client *client, struct lw_all *all)
{
    for (size_t i = 0; i < all->count; i++) {
        struct member *member = &all->members[i];
        size_t at = i;

        for (; at > 0; at--) {
            struct member *before = all->sorted[at - 1];
            int order = strcmp(before->name, member->name);

            if (order == 0) {
                lw__options_explain(client, "names[%zu] and names[%zu] are the same",
                                    (size_t)(before - all->members), i);
                return LW_EINVAL;
            }
            if (order < 0) {
                break;
            }
            all->sorted[at] = before;
        }
        all->sorted[at] = member;
    }
    return LW_OK;
}

static void copy_options(struct lw_all *all, const struct lw_acquire_options *options)
{
    all->options = *options;
    all->options.size = sizeof(all->options); /* the caller's may be another version's */
    all->options.lost = member_lost;
    if (options->note != NULL) {
        (void)snprintf(all->note, sizeof(all->note), "%s", options->note);
        all->options.note = all->note;
    }
    all->at_least_ms = options->at_least_ms;
    all->options.at_least_ms = 0;
    all->at_risk = options->at_risk;
    if (options->at_risk != NULL) {
        all->options.at_risk = risk_changed;
    }
    all->once = options->wait_ms == 0;
    all->give_up_us = NEVER;
    if (options->wait_ms > 0 && options->wait_ms < INT64_MAX / LW__MS / 2) {
        all->give_up_us = lw__now_us() + options->wait_ms * LW__MS;
    }
}

int lw_acquire_all(struct lw_client *client, const char *const *names, size_t count,
                   const struct lw_acquire_options *options, lw_all_cb *done,
                   lw_all_cb *lost, void *arg, struct lw_all **ret)
{
    struct lw_acquire_options checked;
    struct lw_all *all;
    int status = lw__options_check_open(client);

    if (status != LW_OK || (status = lw__options_check_single(client)) != 0 ||
        (status = check_call(client, names, count, done, ret)) != 0 ||
        (status = lw__lock_options(client, options, &checked)) != 0 ||
        (status = check_options(client, &checked)) != 0) {
        return status;
    }
    all = allocate(names, count);
    if (all == NULL) {
        lw__options_explain(client, "%s", lw_strerror(LW_ENOMEM));
        return LW_ENOMEM;
    }
    all->client = client;
    all->done = done;
    all->lost = lost;
    all->arg = arg;
    copy_options(all, &checked);
    status = sort(client, all);
    if (status == LW_OK) {
        status = start(all);
    }
    if (status != LW_OK) {
        free(all);
        return status;
    }
    *ret = all;
    return LW_OK;
}

void lw_all_free(struct lw_all *all)
{
    if (all == NULL) {
        return;
    }
    for (size_t i = 0; i < all->count; i++) {
        free_handle(&all->members[i]);
    }
    free(all);
}

/* ---- getters ---- */

struct lw_lock *lw_all_lock(const struct lw_all *all, size_t index)
{
    return index < all->count ? all->members[index].lock : NULL;
}

int64_t lw_all_remaining_ms(const struct lw_all *all)
{
    int64_t least = INT64_MAX;

    if (all->stage != HELD && all->stage != LOST) {
        return 0;
    }
    for (size_t i = 0; i < all->count; i++) {
        int64_t left = lw_lock_remaining_ms(all->members[i].lock);

        least = left < least ? left : least;
    }
    return least;
}

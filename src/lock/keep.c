/* SPDX-License-Identifier: MIT */
/* A lock that is held whenever possible: one handle after another. Built on the public
 * header, as its caller is, and on extension.h for the reason of a refused call and for
 * delayed callbacks. Independent of claims and commands.
 *
 * lw_keep_new calls lw_acquire, which waits without limit. The grant calls `gained`. A
 * loss calls `lost`; when the rest of the lease has passed and the key is gone, the keep
 * acquires the lock again. If an acquisition fails, or cannot begin, it is retried after
 * a pause, which doubles up to 30 s. The old handle calls back then, so that it stays
 * until the next one exists. A closed or freed client ends the keep without a callback.
 *
 * Each user callback is the last action of its function, since it may free the keep. */
#include "lock/extension.h"
#include "lockwire.h"

#include <stdlib.h>
#include <string.h>

#define PAUSE_MIN_MS 1000
#define PAUSE_MAX_MS 30000

struct lw_keep {
    struct lw_client *client;
    struct lw_lock *lock; /* the current handle, or the last one */
    lw_keep_cb *gained, *lost;
    lw_risk_cb *at_risk;
    void *arg;
    struct lw_acquire_options *options; /* its texts are these: */
    char *owner, *note;
    int64_t pause_ms; /* the last one; 0: none since the last grant */
};

static void reacquire(struct lw_lock *lock, int status, void *arg);

static void retry_after_pause(struct lw_keep *keep, int status)
{
    int64_t doubled = keep->pause_ms * 2;

    keep->pause_ms = doubled < PAUSE_MIN_MS   ? PAUSE_MIN_MS
                     : doubled > PAUSE_MAX_MS ? PAUSE_MAX_MS
                                              : doubled;
    if (lw__lock_call_later(keep->lock, keep->pause_ms, LW__LATER_WHEN_GONE, reacquire,
                            keep)) {
        lw__lock_warn_retry(keep->lock, status, keep->pause_ms);
    }
}

static void acquired(struct lw_lock *lock, int status, void *arg)
{
    struct lw_keep *keep = arg;

    (void)lock;
    if (status == LW_OK) {
        keep->pause_ms = 0;
        if (keep->gained != NULL) {
            keep->gained(keep, LW_OK, keep->arg);
        }
    } else if (status != LW_ECLOSED) {
        retry_after_pause(keep, status);
    }
}

/* The margin belongs to the caller: the lock is requested again after the deadline. */
static void hold_lost(struct lw_lock *lock, int reason, void *arg)
{
    struct lw_keep *keep = arg;

    (void)lw__lock_call_later(lock, lw_lock_remaining_ms(lock) + 1, LW__LATER_WHEN_GONE,
                              reacquire, keep);
    if (keep->lost != NULL) {
        keep->lost(keep, reason, keep->arg);
    }
}

static void risk_changed(struct lw_lock *lock, int at_risk, int64_t remaining_ms,
                         void *arg)
{
    struct lw_keep *keep = arg;

    keep->at_risk(lock, at_risk, remaining_ms, keep->arg);
}

static int acquire(struct lw_keep *keep, const char *name)
{
    return lw_acquire(keep->client, name, keep->options, acquired, keep, &keep->lock);
}

static void reacquire(struct lw_lock *lock, int status, void *arg)
{
    struct lw_keep *keep = arg;

    status = acquire(keep, lw_lock_name(lock));
    if (status == LW_OK) {
        lw_lock_free(lock);
    } else if (status != LW_ECLOSED) {
        retry_after_pause(keep, status);
    }
}

/* ---- life ---- */

/* Keeps the fields of a newer version, and an invalid size, for lw_acquire to check.
 * Returns NULL if memory is short. */
static struct lw_acquire_options *copy_options(const struct lw_acquire_options *given)
{
    size_t given_size = given != NULL ? given->size : 0;
    size_t size = given_size > sizeof(*given) ? given_size : sizeof(*given);
    struct lw_acquire_options *options = calloc(1, size);

    if (options == NULL) {
        return NULL;
    }
    if (given != NULL) {
        memcpy(options, given, given_size);
    }
    if (given == NULL || given_size >= sizeof(given_size)) {
        options->size = size;
    }
    return options;
}

/* Checks the copied options, and puts the callbacks of the keep into them. Returns 0,
 * LW_EINVAL with the reason in errbuf, or LW_ENOMEM. */
static int adopt_options(struct lw_keep *keep)
{
    struct lw_acquire_options *options = keep->options;

    if (options->lost != NULL) {
        lw__options_explain(keep->client,
                            "options.lost is set; pass `lost` to lw_keep_new instead");
        return LW_EINVAL;
    }
    if (options->wait_ms != 0 && options->wait_ms != -1) {
        lw__options_explain(
            keep->client, "wait_ms %lld is neither 0 nor -1; a keep waits without limit",
            (long long)options->wait_ms);
        return LW_EINVAL;
    }
    options->lost = hold_lost;
    if (options->at_risk != NULL) {
        keep->at_risk = options->at_risk;
        options->at_risk = risk_changed;
    }
    options->wait_ms = -1;
    if (options->owner != NULL &&
        (options->owner = keep->owner = strdup(options->owner)) == NULL) {
        return LW_ENOMEM;
    }
    if (options->note != NULL &&
        (options->note = keep->note = strdup(options->note)) == NULL) {
        return LW_ENOMEM;
    }
    return LW_OK;
}

int lw_keep_new(struct lw_client *client, const char *name,
                const struct lw_acquire_options *options, lw_keep_cb *gained,
                lw_keep_cb *lost, void *arg, struct lw_keep **ret)
{
    struct lw_keep *keep = calloc(1, sizeof(*keep));
    int status = LW_ENOMEM;

    if (keep != NULL && (keep->options = copy_options(options)) != NULL) {
        keep->client = client;
        keep->gained = gained;
        keep->lost = lost;
        keep->arg = arg;
        status = adopt_options(keep);
    }
    if (status == LW_ENOMEM) {
        lw__options_explain(client, "%s", lw_strerror(status));
    } else if (status == LW_OK && ret == NULL) {
        lw__options_explain(client, "ret is NULL");
        status = LW_EINVAL;
    } else if (status == LW_OK) {
        status = acquire(keep, name);
    }
    if (status != LW_OK) {
        lw_keep_free(keep);
        return status;
    }
    *ret = keep;
    return LW_OK;
}

void lw_keep_free(struct lw_keep *keep)
{
    if (keep == NULL) {
        return;
    }
    lw_lock_free(keep->lock);
    free(keep->owner);
    free(keep->note);
    free(keep->options);
    free(keep);
}

struct lw_lock *lw_keep_lock(const struct lw_keep *keep)
{
    return keep->lock;
}

/* SPDX-License-Identifier: MIT */
/* The public calls on a handle. Calls no user callback and sends no command: turns.c and
 * renewal.c do what a call requests.
 *
 * lw_acquire checks the name and the options, creates a handle and passes it to
 * lw__turns_join; lw_adopt does the same with lw__turns_adopt. lw_release passes the
 * handle to lw__turns_release, and lw_detach to lw__turns_detach. lw_lock_free releases
 * the lock or leaves the queue, and then frees the handle. A call that is refused has no
 * effect, and its reason is in errbuf (options.c).
 *
 * lw__lock_call_later needs no memory: the handle has ended, so that its timer and its
 * notice are free. The timer (turns.c), or the end of the claim if that comes later,
 * queues the notice. If the client is closed, or one of both is freed, no callback is
 * called.
 *
 * The getters change nothing, and work for an inert handle and in a forked child, too.
 * lw_lock_owner formats the owner when it is first called; if memory for that is short,
 * it returns "". */
#include "lock/lock_private.h"

#include "base/check.h"
#include "base/log.h"
#include "loop/loop.h"

#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <utlist.h>

#define FLAGS (LW_NO_RENEW | LW_NO_FENCE)
/* Subtracted when a lease is shortened, so that the reply moves the deadline, and ends a
 * warning (handle.c). */
#define SHORTENED_MORE_US (2 * LW__MS)

/* ---- options ---- */

static const char *const mode_names[] = {[LW_MUTEX] = "LW_MUTEX",
                                         [LW_EXCLUSIVE] = "LW_EXCLUSIVE",
                                         [LW_SHARED] = "LW_SHARED",
                                         [LW_REDISSON] = "LW_REDISSON"};

/* Returns true, with the reason in errbuf, if one of the options is invalid. */
static bool has_invalid_option(struct lw_client *client,
                               const struct lw_acquire_options *o)
{
    char why[LW_WHY_SIZE];
    int64_t lease_max = lw__options_lease_max(client);

    if ((unsigned)o->mode > LW_REDISSON) {
        lw__options_explain(client, "mode %d is not an lw_mode", (int)o->mode);
    } else if (o->flags & ~(uint32_t)FLAGS) {
        lw__options_explain(client, "flags 0x%x has unknown bits", (unsigned)o->flags);
    } else if (o->lease_ms < LW__LEASE_MIN || o->lease_ms > INT32_MAX) {
        lw__options_explain(client, "lease_ms %lu is not between %d and 2147483647",
                            (unsigned long)o->lease_ms, LW__LEASE_MIN);
    } else if ((int64_t)o->lease_ms > lease_max) {
        lw__options_explain(
            client, "lease_ms %lu is above %lld, the most that guard_ms %lu allows",
            (unsigned long)o->lease_ms, (long long)lease_max,
            (unsigned long)client->options.guard_ms);
    } else if (o->wait_ms < -1) {
        lw__options_explain(client, "wait_ms %lld is below -1", (long long)o->wait_ms);
    } else if (o->max_hold_ms < 0) {
        lw__options_explain(client, "max_hold_ms %lld is negative",
                            (long long)o->max_hold_ms);
    } else if (o->margin_ms >= (o->lease_ms + 1) / 2) {
        lw__options_explain(client, "margin_ms %lu is not below half of lease_ms %lu",
                            (unsigned long)o->margin_ms, (unsigned long)o->lease_ms);
    } else if (o->max_hold_ms > 0 && o->max_hold_ms <= (int64_t)o->margin_ms) {
        lw__options_explain(client, "max_hold_ms %lld is not above margin_ms %lu",
                            (long long)o->max_hold_ms, (unsigned long)o->margin_ms);
    } else if (o->at_risk_ms != 0 && o->at_risk == NULL) {
        lw__options_explain(client, "at_risk_ms %lu is given without at_risk",
                            (unsigned long)o->at_risk_ms);
    } else if (o->at_risk_ms != 0 && o->at_risk_ms <= o->margin_ms) {
        lw__options_explain(client, "at_risk_ms %lu is not above margin_ms %lu",
                            (unsigned long)o->at_risk_ms, (unsigned long)o->margin_ms);
    } else if (o->at_risk_ms >= (o->lease_ms + 1) / 2) {
        lw__options_explain(client, "at_risk_ms %lu is not below half of lease_ms %lu",
                            (unsigned long)o->at_risk_ms, (unsigned long)o->lease_ms);
    } else if (o->at_least_ms > lease_max) {
        lw__options_explain(client, "at_least_ms %lu is above %lld, the longest lease",
                            (unsigned long)o->at_least_ms, (long long)lease_max);
    } else if (o->max_hold_ms > 0 && o->at_least_ms > o->max_hold_ms) {
        lw__options_explain(client, "at_least_ms %lu is above max_hold_ms %lld",
                            (unsigned long)o->at_least_ms, (long long)o->max_hold_ms);
    } else if (o->at_least_ms > 0 && o->mode == LW_REDISSON) {
        lw__options_explain(client, "at_least_ms is not supported with LW_REDISSON");
    } else if (o->at_least_ms > 0 && client->quorum != NULL) {
        lw__options_explain(client, "at_least_ms is not supported by a quorum");
    } else if (o->max_waiting > 0 && client->quorum != NULL) {
        lw__options_explain(client, "max_waiting is not supported by a quorum");
    } else if (o->owner != NULL && o->mode == LW_MUTEX) {
        lw__options_explain(client, "owner is given, but LW_MUTEX is not re-entrant");
    } else if (o->owner != NULL && o->mode == LW_REDISSON) {
        lw__options_explain(client, "owner is given, but LW_REDISSON is not re-entrant; "
                                    "LW_EXCLUSIVE is");
    } else if (o->mode != LW_MUTEX && client->quorum != NULL) {
        lw__options_explain(client,
                            "%s is not supported by a quorum, which has LW_MUTEX only",
                            mode_names[o->mode]);
    } else if (o->mode == LW_REDISSON && client->url.cluster) {
        lw__options_explain(client, "LW_REDISSON is not supported in a cluster");
    } else if (o->mode == LW_REDISSON && lw__options_use_guard(&client->options)) {
        lw__options_explain(client, "LW_REDISSON is not supported with guard_ms %lu",
                            (unsigned long)client->options.guard_ms);
    } else if (o->mode == LW_REDISSON && o->max_waiting != 0) {
        lw__options_explain(client,
                            "max_waiting %lu is given, but LW_REDISSON has no queue",
                            (unsigned long)o->max_waiting);
    } else if (o->max_waiting > INT32_MAX) {
        lw__options_explain(client, "max_waiting %lu is above 2147483647",
                            (unsigned long)o->max_waiting);
    } else if (o->permits != 0 && o->mode != LW_SHARED) {
        lw__options_explain(client, "permits is set, but mode is not LW_SHARED");
    } else if (o->note != NULL && o->mode == LW_REDISSON) {
        lw__options_explain(client, "note is not supported with LW_REDISSON");
    } else if ((o->note != NULL && lw__check_note(o->note, why, sizeof(why)) != NULL) ||
               (o->owner != NULL &&
                lw__check_word(o->owner, "owner", why, sizeof(why)) != NULL)) {
        lw__options_explain(client, "%s", why);
    } else {
        return false;
    }
    return true;
}

int lw__lock_options(struct lw_client *client, const struct lw_acquire_options *given,
                     struct lw_acquire_options *ret)
{
    *ret = (struct lw_acquire_options)LW_ACQUIRE_OPTIONS_INIT;
    if (given != NULL && !lw__check_take_struct(ret, sizeof(*ret), given, given->size)) {
        lw__options_explain(client, "lw_acquire_options.size %zu: %s", given->size,
                            "too small, or fields of a newer version are set");
        return LW_EINVAL;
    }
    if (ret->lease_ms == 0) {
        ret->lease_ms = 30000;
    }
    return has_invalid_option(client, ret) ? LW_EINVAL : 0;
}

/* ---- acquiring ---- */

/* Returns NULL if memory is short. */
static struct lw_lock *new_lock(struct lw_client *client)
{
    struct lw_lock *lock = lw__handle_allocate(client);

    if (lock == NULL) {
        return NULL;
    }
    lock->client = client;
    lw__timer_init(&lock->timer, lw__turns_timer, lock);
    DL_APPEND(client->locks, lock);
    return lock;
}

static void copy_options(struct lw_lock *lock, const struct lw_acquire_options *options)
{
    uint32_t window_ms = lock->client->options.claim_ms;

    lock->mode = &lw__mode_table[options->mode];
    lock->flags = (uint8_t)options->flags;
    if (lock->mode->polls) {
        lock->flags |= LW_NO_FENCE;
    }
    lock->lease_ms = options->lease_ms;
    lock->window_ms = window_ms < options->lease_ms ? window_ms : options->lease_ms;
    lock->margin_ms = options->margin_ms;
    lock->lost = options->lost;
    lock->once = options->wait_ms == 0;
    lock->standby = options->wait_ms == -1;
    lock->queue_limit = lock->once ? 0 : options->max_waiting;
    lock->limited = lock->queue_limit > 0;
    lock->asking.asked_us = lw__loop_now_us(lock->client->loop);
    lw__handle_limit_try(lock,
                         options->wait_ms > 0 && options->wait_ms < INT64_MAX / LW__MS / 2
                             ? lock->asking.asked_us + options->wait_ms * LW__MS
                             : LW__NEVER);
}

static bool needs_extras(const struct lw_acquire_options *options)
{
    return options->owner != NULL || options->at_risk != NULL ||
           options->max_hold_ms > 0 || options->permits > 0 || options->at_least_ms > 0 ||
           options->note != NULL;
}

/* Keeps the owner, if one is given; false if memory is short. A hold of a read-write lock
 * that is adopted has an owner already, for which there must be room. */
static bool keep_owner(struct lw__extras *extras, const char *owner, bool needs_room)
{
    size_t size = owner != NULL ? strlen(owner) + 1 : 0;

    if (owner == NULL && !needs_room) {
        return true;
    }
    extras->owner = calloc(1, needs_room ? LW__OWNER_SIZE : size);
    if (extras->owner != NULL && size > 0) {
        memcpy(extras->owner, owner, size);
    }
    return extras->owner != NULL;
}

/* Copies the options that few handles have; false if memory is short. */
static bool copy_extras(struct lw_lock *lock, const struct lw_acquire_options *options,
                        bool adopts)
{
    bool needs_room = adopts && lock->mode->rw;
    struct lw__extras *extras;

    if (!needs_room && !needs_extras(options)) {
        return true;
    }
    extras = lw__extras_add(lock);
    if (extras == NULL) {
        return false;
    }
    extras->permits = options->permits;
    extras->at_risk = options->at_risk;
    extras->at_risk_ms = options->at_risk_ms;
    extras->at_least_ms = options->at_least_ms;
    if (options->max_hold_ms < INT64_MAX / LW__MS / 2) {
        extras->max_hold_us = options->max_hold_ms * LW__MS;
    }
    if (options->note != NULL && (extras->note = strdup(options->note)) == NULL) {
        return false;
    }
    return keep_owner(extras, options->owner, needs_room);
}

/* Removes a handle without lw_renew calls from its client. No callback follows. */
static void unlink_handle(struct lw_lock *lock)
{
    struct lw_client *client = lock->client;

    if (client->loop != NULL) {
        lw__notify_cancel(client, &lock->notice);
        lw__timer_cancel(client->loop, &lock->timer);
    }
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it is in the list */
    DL_DELETE(client->locks, lock);
}

/* Checks the arguments that lw_acquire and lw_adopt share. Returns 0, LW_EINVAL or
 * LW_ECLOSED, with the reason in errbuf. */
static int check_call(struct lw_client *client, const char *name,
                      const struct lw_acquire_options *options, lw_lock_cb *done,
                      struct lw_lock *const *ret, struct lw_acquire_options *checked)
{
    int status = lw__options_check_call(client, name);

    if (status != 0) {
        return status;
    }
    if (done == NULL || ret == NULL) {
        lw__options_explain(client, "%s is NULL", done != NULL ? "ret" : "done");
        return LW_EINVAL;
    }
    return lw__lock_options(client, options, checked);
}

/* Returns NULL if memory is short. */
static struct lw__name *get_name(struct lw_client *client, const char *name)
{
    char key[LW__NAME_SIZE];

    if (client->holds.prefix_length > 0) {
        (void)lw__format_name(client->holds.prefix, name, key);
        name = key;
    }
    return lw__name_get(&client->holds, name);
}

/* Creates a handle that acquires the lock; or adopts it, if `token` is not NULL. The
 * arguments have been checked. */
static int request(struct lw_client *client, const char *name, const char *token,
                   const struct lw_acquire_options *options, lw_lock_cb *done, void *arg,
                   struct lw_lock **ret)
{
    struct lw_lock *lock = new_lock(client);

    if (lock == NULL) {
        goto fail;
    }
    copy_options(lock, options);
    lock->done = done;
    lock->arg = arg;
    lock->name = get_name(client, name);
    if (lock->name == NULL || !copy_extras(lock, options, token != NULL)) {
        goto fail;
    }
    lw__handle_count_wait(lock, 1);
    lw__identity_publish(&client->identity, lock->asking.asked_us);
    if ((token != NULL ? lw__turns_adopt(lock, token) : lw__turns_join(lock)) != 0) {
        lw__handle_count_wait(lock, -1);
        goto fail;
    }
    *ret = lock;
    return 0;

fail:
    if (lock != NULL) {
        unlink_handle(lock);
        lw__handle_free(lock);
    }
    lw__options_explain(client, "%s", lw_strerror(LW_ENOMEM));
    return LW_ENOMEM;
}

int lw_acquire(struct lw_client *client, const char *name,
               const struct lw_acquire_options *options, lw_lock_cb *done, void *arg,
               struct lw_lock **ret)
{
    struct lw_acquire_options checked;
    int status = check_call(client, name, options, done, ret, &checked);

    if (status == 0) {
        lw__loop_read_time(client->loop);
        status = request(client, name, NULL, &checked, done, arg, ret);
        lw__loop_forget_time(client->loop);
    }
    return status;
}

int lw_adopt(struct lw_client *client, const char *name, const char *token,
             const struct lw_acquire_options *options, lw_lock_cb *done, void *arg,
             struct lw_lock **ret)
{
    struct lw_acquire_options checked;
    char why[LW_WHY_SIZE], text[LW__TOKEN_SIZE];
    int status = check_call(client, name, options, done, ret, &checked);

    if (status != 0) {
        return status;
    }
    if (checked.mode == LW_REDISSON) {
        lw__options_explain(client, "a lock in LW_REDISSON cannot be adopted");
        return LW_EINVAL;
    }
    if (client->quorum != NULL) {
        lw__options_explain(client, "a lock of a quorum cannot be adopted");
        return LW_EINVAL;
    }
    if (token == NULL || lw__format_check_token(token, text, why, sizeof(why)) != NULL) {
        lw__options_explain(client, "%s", token != NULL ? why : "token is NULL");
        return LW_EINVAL;
    }
    return request(client, name, text, &checked, done, arg, ret);
}

/* ---- releasing, renewing ---- */

/* Returns 0 if the handle holds the lock, else the error that a call on it returns. */
static int check_held(const struct lw_lock *lock)
{
    if (lock->client == NULL || lw__is_inherited(lock->client)) {
        return LW_ECLOSED;
    }
    if (lock->state == LW_WAITING || lock->state == LW_RELEASING) {
        return LW_EINVAL;
    }
    return lock->state == LW_HELD ? 0 : LW_ENOTHELD;
}

/* The handle gives up its hold, and `done` follows. Returns false if it has lost it, and
 * `done` is called with LW_ENOTHELD. */
static bool give_up(struct lw_lock *lock, lw_lock_cb *done, void *arg)
{
    lw__renew_call_end_all(lock, LW_ECANCELED);
    lw__notify_cancel(lock->client, &lock->notice); /* an undelivered loss or warning */
    lock->state = LW_RELEASING;
    lock->done = done;
    lock->arg = arg;
    lock->client->stats.held--;
    lock->client->stats.released++;
    if (lock->claim == NULL) {
        lw__notify_lock(lock, LW__NOTICE_RELEASED, LW_ENOTHELD);
        return false;
    }
    lw__timer_set(lock->client->loop, &lock->timer,
                  lw__loop_now_us(lock->client->loop) +
                      (int64_t)lock->client->options.request_timeout_ms * LW__MS);
    return true;
}

int lw_release(struct lw_lock *lock, lw_lock_cb *done, void *arg)
{
    int status = check_held(lock);
    struct lw__loop *loop;

    if (status == 0) {
        loop = lock->client->loop;
        lw__loop_read_time(loop);
        if (give_up(lock, done, arg)) {
            lw__turns_release(lock);
        }
        lw__loop_forget_time(loop);
    }
    return status;
}

int lw_detach(struct lw_lock *lock, int64_t keep_ms, lw_lock_cb *done, void *arg)
{
    int status = check_held(lock);

    if (status != 0) {
        return status;
    }
    if (lock->mode->polls) {
        lw__options_explain(lock->client, "a lock in LW_REDISSON cannot be detached");
        return LW_EINVAL;
    }
    if (lock->client->quorum != NULL) {
        lw__options_explain(lock->client, "a lock of a quorum cannot be detached");
        return LW_EINVAL;
    }
    if (keep_ms < 0 || keep_ms > lw__options_lease_max(lock->client)) {
        lw__options_explain(
            lock->client, "keep_ms %lld is not between 0 and %lld, the longest lease",
            (long long)keep_ms, (long long)lw__options_lease_max(lock->client));
        return LW_EINVAL;
    }
    if (give_up(lock, done, arg)) {
        lw__turns_detach(lock, keep_ms * LW__MS);
    }
    return 0;
}

int lw_renew(struct lw_lock *lock, uint32_t lease_ms, lw_lock_cb *done, void *arg)
{
    int status = check_held(lock);
    struct lw__input input = {.event = LW__EV_SHORTEN};

    if (status != 0) {
        return status;
    }
    if (lease_ms == 0) {
        lease_ms = lock->lease_ms;
    }
    if (lease_ms < LW__LEASE_MIN || lease_ms > lw__options_lease_max(lock->client) ||
        lock->margin_ms >= (lease_ms + 1) / 2) {
        return LW_EINVAL;
    }
    if (lw__renew_call_start(lock, lease_ms, done, arg) != 0) {
        return LW_ENOMEM;
    }
    lock->lease_ms = lease_ms;
    if (lock->claim == NULL || !lw__machine_holds(lock->claim->machine.phase)) {
        return 0;
    }
    input.shorten.lease_us = (int64_t)lease_ms * LW__MS - SHORTENED_MORE_US;
    lw__claim_step(lock->claim, &input);
    lw__handle_arm_loss(lock);
    lw__renewal_plan(lock->claim);
    return 0;
}

/* ---- ending ---- */

/* Leaves the queue, or releases the lock in the background. */
static void leave_or_release(struct lw_lock *lock)
{
    struct lw_stats *stats = &lock->client->stats;

    if (lock->state == LW_HELD) {
        stats->held--;
        stats->released++;
    } else if (lock->state == LW_WAITING) {
        lw__handle_count_wait(lock, -1);
    }
    lw__notify_cancel(lock->client, &lock->notice);
    if (lock->claim == NULL) {
        return;
    }
    if (lock->state == LW_RELEASING) {
        lw__turns_leave_release(lock);
    } else if (lock->state == LW_WAITING && !lock->granted) {
        lw__turns_cancel_wait(lock);
    } else {
        lw__turns_release(lock);
    }
}

void lw_lock_free(struct lw_lock *lock)
{
    if (lock == NULL || lock->freed) {
        return;
    }
    lock->freed = true;
    if (lock->client != NULL) {
        lw__renew_call_free_all(lock);
        if (lock->client->loop != NULL && !lw__is_inherited(lock->client)) {
            leave_or_release(lock);
        }
        unlink_handle(lock);
        lw__ending_drained(lock->client);
    }
    lw__handle_unref(lock);
}

void lw__lock_make_inert(struct lw_lock *lock)
{
    lw__renew_call_free_all(lock);
    unlink_handle(lock);
    lock->client = NULL;
    lw__handle_leave_claim(lock);
    if (lock->state == LW_WAITING) {
        lw__handle_forget_grant(lock);
    }
    lock->state = LW_DONE;
}

void lw__lock_close(struct lw_lock *lock)
{
    if (lock->state == LW_WAITING && !lock->granted && lock->claim != NULL) {
        lw__turns_cancel_wait(lock);
        lw__handle_end(lock, LW_ECLOSED);
    } else if (lock->state == LW_WAITING && lock->granted) {
        struct lw__claim *claim = lock->claim;

        lw__handle_take_back(lock);
        if (claim != NULL) {
            lw__turns_release(lock);
        }
        lw__handle_end(lock, LW_ECLOSED);
    } else if (lock->state == LW_HELD || lock->state == LW_LOST) {
        lw__renew_call_end_all(lock, LW_ECANCELED);
        lw__notify_cancel(lock->client, &lock->notice);
        if (lock->claim != NULL) {
            lw__turns_release(lock);
        }
        if (lock->state == LW_HELD) {
            lock->client->stats.held--;
            lock->client->stats.released++;
            lock->state = LW_DONE;
        }
        lw__handle_leave_claim(lock);
        lw__handle_end_lease(lock);
        lw__timer_cancel(lock->client->loop, &lock->timer);
    } else if (lock->later) {
        lw__notify_cancel(lock->client, &lock->notice);
        lw__timer_cancel(lock->client->loop, &lock->timer);
    }
}

/* ---- calling back later ---- */

bool lw__lock_call_later(struct lw_lock *lock, int64_t after_ms, enum lw__later when,
                         lw_lock_cb *done, void *arg)
{
    if (lock->client == NULL || lock->client->closing) {
        return false;
    }
    lock->done = done;
    lock->arg = arg;
    lock->later = when;
    lw__timer_set(lock->client->loop, &lock->timer, lw__now_us() + after_ms * LW__MS);
    return true;
}

void lw__lock_warn_retry(struct lw_lock *lock, int status, int64_t after_ms)
{
    const char *why = lw_lock_errstr(lock), *what = lw_strerror(status);

    if (status == LW_EBUSY) { /* the text says it all */
        what = LW__FULL;
        why = "";
    }

    if (lock->client != NULL) {
        lw__log(&lock->client->log, LOG_WARNING, "%s: %s%s%s; retrying in %lld ms",
                lw_lock_name(lock), what, *why ? ": " : "", why, (long long)after_ms);
    }
}

/* ---- getters ---- */

static bool is_inherited(const struct lw_lock *lock)
{
    return lock->client != NULL && lw__is_inherited(lock->client);
}

enum lw_state lw_lock_state(const struct lw_lock *lock)
{
    return is_inherited(lock) ? LW_DONE : (enum lw_state)lock->state;
}

int64_t lw_lock_remaining_ms(const struct lw_lock *lock)
{
    if (lock->client == NULL || (lock->state != LW_HELD && lock->state != LW_LOST) ||
        lw__is_inherited(lock->client)) {
        return 0;
    }
    return lw__handle_left_ms(lock);
}

uint64_t lw_lock_fence(const struct lw_lock *lock)
{
    return lock->state == LW_WAITING ? 0 : lock->fence;
}

const char *lw_lock_name(const struct lw_lock *lock)
{
    return lw__name_given(lock->name);
}

/* Returns the text of the handle's token, which the caller frees; NULL if memory is
 * short. */
static char *format_token(const struct lw_lock *lock)
{
    struct lw__token token = {lock->client->holds.uuid, lock->token_n, lock->window_ms};
    char *text = malloc(LW__TOKEN_SIZE);

    if (text != NULL) {
        (void)lock->mode->format_owner(&token, text);
    }
    return text;
}

const char *lw_lock_owner(const struct lw_lock *lock)
{
    struct lw__extras *extras;

    if (lock->state == LW_WAITING || lock->token_n == 0) {
        return "";
    }
    if (lock->extras->owner == NULL && lock->client != NULL &&
        (extras = lw__extras_add((struct lw_lock *)lock)) != NULL) {
        extras->owner = format_token(lock);
    }
    return lock->extras->owner != NULL ? lock->extras->owner : "";
}

const char *lw_lock_token(const struct lw_lock *lock)
{
    struct lw__extras *extras;

    if (lock->state == LW_WAITING || lock->token_n == 0 ||
        (lock->client != NULL && lock->client->quorum != NULL)) {
        return "";
    }
    if (lock->extras->token == NULL && lock->client != NULL &&
        (extras = lw__extras_add((struct lw_lock *)lock)) != NULL) {
        extras->token = format_token(lock);
    }
    return lock->extras->token != NULL ? lock->extras->token : "";
}

const char *lw_lock_errstr(const struct lw_lock *lock)
{
    if (is_inherited(lock)) {
        return LW__INHERITED;
    }
    return lock->extras->errstr != NULL ? lock->extras->errstr : "";
}

int lw_lock_error(const struct lw_lock *lock)
{
    if (is_inherited(lock)) {
        return LW_ECLOSED;
    }
    return lock->error;
}

enum lw_mode lw_lock_mode(const struct lw_lock *lock)
{
    return (enum lw_mode)(lock->mode - lw__mode_table);
}

/* Returns the number of handles that wait for the same claim ahead of this one: all of
 * them if it does not wait. */
static int64_t count_ahead(const struct lw_lock *lock)
{
    const struct lw_lock *other;
    int64_t count = 0;

    DL_FOREACH2(lw__handles(lock->claim)->waiting, other, turn_next) {
        if (other == lock) {
            break;
        }
        count++;
    }
    return count;
}

int64_t lw_lock_position(const struct lw_lock *lock)
{
    const struct lw__claim *claim = lock->claim;

    if (lock->client == NULL || lock->state != LW_WAITING || claim == NULL ||
        lw__is_inherited(lock->client)) {
        return -1;
    }
    if (lock->granted) {
        return 0;
    }
    if (lock->mode->polls || !lw__machine_asks(claim->machine.phase)) {
        return count_ahead(lock);
    }
    return claim->asking.place == 0
               ? -1
               : (int64_t)claim->asking.place - 1 + count_ahead(lock);
}

struct lw_client *lw_lock_client(const struct lw_lock *lock)
{
    return lock->client != NULL && lock->client->loop != NULL ? lock->client : NULL;
}

void *lw_lock_arg(const struct lw_lock *lock)
{
    return lock->arg;
}

void lw_lock_set_arg(struct lw_lock *lock, void *arg)
{
    lock->arg = arg;
}

int64_t lw_lock_retry_ms(const struct lw_lock *lock)
{
    return lock->state == LW_DONE && !lock->delivered ? lock->retry_ms : 0;
}

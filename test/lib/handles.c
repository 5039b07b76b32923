/* SPDX-License-Identifier: MIT */
/*
 * players.h's handles: the calls, and the callbacks with the rules that each must keep.
 * Independent of the tests.
 *
 * Usual course: acquire_hold_with makes the call, on_result checks that it is pending and
 * writes the trace.
 */
#include "players.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct hold *holds;

/* ---- the callbacks ---- */

/* Checks the rules that hold for every callback. */
static bool is_fair(const struct hold *hold, const struct lw_lock *lock, const char *what)
{
    if (players_in_call) {
        stage_complain("rule 1: %s %s came inside a call", hold->label, what);
    } else if (hold->lock == NULL) {
        stage_complain("rule 3: %s %s came after lw_lock_free", hold->label, what);
    } else if (hold->lock != lock) {
        stage_complain("%s %s came with another handle", hold->label, what);
    } else if (hold->peer->client == NULL) {
        stage_complain("rule 7: %s %s came after lw_client_free", hold->label, what);
    } else {
        return true;
    }
    return false;
}

static void on_result(struct lw_lock *lock, int status, void *arg)
{
    struct hold *hold = arg;

    if (!is_fair(hold, lock, "result")) {
        return;
    }
    if (hold->result != PENDING) {
        stage_complain("rule 2: %s got a second result", hold->label);
    }
    hold->result = status;
    hold->result_ms = now_ms();
    hold->fence = lw_lock_fence(lock);
    stage_note("%s %s", hold->label, status == LW_OK ? "granted" : status_name(status));
    if (lw_lock_state(lock) != (status == LW_OK ? LW_HELD : LW_DONE)) {
        stage_complain("rule 5: %s is in state %d at its result %s", hold->label,
                       (int)lw_lock_state(lock), status_name(status));
    }
    if (status == LW_OK && lw_lock_remaining_ms(lock) <= 0) {
        stage_complain("I1: %s was granted with no time remaining", hold->label);
    }
    if ((status == LW_OK && !hold->no_fence) != (hold->fence != 0) && !hold->no_fence) {
        stage_complain("I2: %s has fence %llu at its result %s", hold->label,
                       (unsigned long long)hold->fence, status_name(status));
    }
    if (hold->then != NULL) {
        hold->then(hold, AT_RESULT);
    }
}

static void on_lost(struct lw_lock *lock, int reason, void *arg)
{
    struct hold *hold = arg;

    if (!is_fair(hold, lock, "lost")) {
        return;
    }
    if (hold->lost != PENDING) {
        stage_complain("rule 6: %s was lost twice", hold->label);
    }
    if (hold->result != LW_OK || hold->releasing || hold->released != PENDING) {
        stage_complain("rule 6: %s was lost while it was not held", hold->label);
    }
    if (reason != LW_ELOST && reason != LW_ENOTHELD && reason != LW_ETIMEOUT) {
        stage_complain("rule 6: %s was lost for reason %d", hold->label, reason);
    }
    hold->lost = reason;
    hold->lost_ms = now_ms();
    hold->remaining_at_lost = lw_lock_remaining_ms(lock);
    stage_note("%s lost %s", hold->label, status_name(reason));
    if (lw_lock_state(lock) != LW_LOST) {
        stage_complain("rule 5: %s is in state %d when lost", hold->label,
                       (int)lw_lock_state(lock));
    }
    if (hold->then != NULL) {
        hold->then(hold, AT_LOST);
    }
}

static void gave_up(struct lw_lock *lock, int status, struct hold *hold, const char *what)
{
    if (!is_fair(hold, lock, what)) {
        return;
    }
    if (!hold->releasing) {
        stage_complain("rule 2: %s released without a call", hold->label);
    }
    if (hold->renewals) {
        stage_complain("rule 6: %s released before %d pending renewals ended",
                       hold->label, hold->renewals);
    }
    hold->releasing = false;
    hold->released = status;
    hold->released_ms = now_ms();
    stage_note("%s %s %s", hold->label, what, status_name(status));
    if (lw_lock_state(lock) != LW_DONE || lw_lock_remaining_ms(lock) != 0) {
        stage_complain("rule 5: %s is in state %d when released", hold->label,
                       (int)lw_lock_state(lock));
    }
    if (hold->then != NULL) {
        hold->then(hold, AT_RELEASED);
    }
}

static void on_released(struct lw_lock *lock, int status, void *arg)
{
    gave_up(lock, status, arg, "released");
}

static void on_detached(struct lw_lock *lock, int status, void *arg)
{
    gave_up(lock, status, arg, "detached");
}

static void on_renewed(struct lw_lock *lock, int status, void *arg)
{
    struct hold *hold = arg;

    if (!is_fair(hold, lock, "renewed")) {
        return;
    }
    if (hold->renewals-- == 0) {
        stage_complain("rule 2: %s renewed without a call", hold->label);
    }
    hold->renewed = status;
    hold->renewed_ms = now_ms();
    stage_note("%s renewed %s", hold->label, status_name(status));
    if (status == LW_OK && lw_lock_state(lock) != LW_HELD) {
        stage_complain("rule 5: %s renewed in state %d", hold->label,
                       (int)lw_lock_state(lock));
    }
    if (status == LW_ELOST && hold->lost == PENDING) {
        stage_complain("rule 6: %s renewal ELOST before lost", hold->label);
    }
    if (hold->then != NULL) {
        hold->then(hold, AT_RENEWED);
    }
}

void on_risk(struct lw_lock *lock, int at_risk, int64_t remaining_ms, void *arg)
{
    struct hold *hold = arg;

    if (!is_fair(hold, lock, "at_risk")) {
        return;
    }
    if (hold->result != LW_OK || hold->lost != PENDING || hold->releasing ||
        hold->released != PENDING || lw_lock_state(lock) != LW_HELD) {
        stage_complain("%s is warned while it is not held", hold->label);
    }
    if ((at_risk != 0 && at_risk != 1) || at_risk == hold->at_risk) {
        stage_complain("%s is told %d at risk twice", hold->label, at_risk);
    }
    if (remaining_ms < lw_lock_remaining_ms(lock) ||
        remaining_ms > lw_lock_remaining_ms(lock) + 500) {
        stage_complain("%s is told that %lld ms remain, not %lld", hold->label,
                       (long long)remaining_ms, (long long)lw_lock_remaining_ms(lock));
    }
    hold->at_risk = at_risk;
    hold->warnings += at_risk;
    hold->at_risk_ms = now_ms();
    hold->remaining_at_risk = remaining_ms;
    stage_note("%s %s", hold->label, at_risk ? "at risk" : "safe");
    if (hold->then != NULL) {
        hold->then(hold, AT_RISK);
    }
}

void on_asked(struct lw_lock *lock, void *arg)
{
    struct hold *hold = holds;

    while (hold != NULL && hold->lock != lock) {
        hold = hold->next;
    }
    if (hold == NULL) {
        stage_complain("rule 3: asked_to_yield with a handle that is not there");
        return;
    }
    if (!is_fair(hold, lock, "asked_to_yield")) {
        return;
    }
    if (arg != hold->peer || lw_lock_state(lock) != LW_HELD) {
        stage_complain("%s is asked in state %d", hold->label, (int)lw_lock_state(lock));
    }
    hold->asked++;
    stage_note("%s asked", hold->label);
    if (hold->then != NULL) {
        hold->then(hold, AT_ASKED);
    }
}

/* ---- the calls ---- */

static int try_request(struct hold *hold, const char *name, const char *token,
                       bool adopts, const struct lw_acquire_options *wanted)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;

    if (wanted != NULL) {
        options = *wanted;
    }
    if (options.lost == NULL) {
        options.lost = on_lost;
    }
    hold->no_fence = (options.flags & LW_NO_FENCE) || options.mode == LW_REDISSON;
    hold->mode = options.mode;
    hold->margin_ms = options.margin_ms;
    hold->asked_ms = now_ms();
    players_in_call++;
    int result = adopts ? lw_adopt(hold->peer->client, name, token, &options, on_result,
                                   hold, &hold->lock)
                        : lw_acquire(hold->peer->client, name, &options, on_result, hold,
                                     &hold->lock);
    players_in_call--;
    return result;
}

static int try_ask(struct hold *hold, const char *name,
                   const struct lw_acquire_options *wanted)
{
    return try_request(hold, name, NULL, false, wanted);
}

static struct hold *new_hold(struct peer *peer, const char *label)
{
    struct hold *hold = calloc(1, sizeof(*hold));

    if (hold == NULL) {
        abort();
    }
    *hold = (struct hold){.peer = peer,
                          .result = PENDING,
                          .lost = PENDING,
                          .released = PENDING,
                          .renewed = PENDING};
    (void)snprintf(hold->label, sizeof(hold->label), "%s", label);
    hold->next = holds;
    holds = hold;
    return hold;
}

struct hold *acquire_hold_with(struct peer *peer, const char *label, const char *name,
                               const struct lw_acquire_options *options)
{
    struct hold *hold = new_hold(peer, label);
    int result = try_ask(hold, name, options);

    if (result != LW_OK) {
        stage_complain("lw_acquire %s: %s: %s", label, status_name(result), peer->error);
    } else if (lw_lock_state(hold->lock) != LW_WAITING) {
        stage_complain("rule 5: %s does not wait after lw_acquire", label);
    }
    return hold;
}

struct hold *acquire_hold(struct peer *peer, const char *label, const char *name,
                          int64_t wait_ms)
{
    return acquire_hold_with(peer, label, name, asking(.wait_ms = wait_ms));
}

struct hold *acquire_and_wait(struct peer *peer, const char *label, const char *name)
{
    struct hold *hold = acquire_hold(peer, label, name, STAGE_WAIT_MS);

    UNTIL(hold->result != PENDING);
    if (hold->result != LW_OK) {
        stage_fail("%s was to be granted: %s", label, status_name(hold->result));
    }
    return hold;
}

/* `ret` must stay unchanged, and no callback may come; hold->lock stays NULL to check
 * that. */
static void request_refused(struct peer *peer, const char *name, const char *token,
                            bool adopts, const struct lw_acquire_options *options,
                            int error, const char *text)
{
    struct hold *hold = new_hold(peer, "refused");
    const char *call = adopts ? "lw_adopt" : "lw_acquire";

    peer->error[0] = '\0';
    int result = try_request(hold, name, token, adopts, options);
    if (result != error) {
        stage_fail("%s \"%s\": %s, not %s: %s", call, name != NULL ? name : "(null)",
                   status_name(result), status_name(error), peer->error);
    }
    if (hold->lock != NULL) {
        stage_fail("%s \"%s\" touched *ret", call, name != NULL ? name : "(null)");
    }
    if (strstr(peer->error, text) == NULL) {
        stage_fail("%s \"%s\": \"%s\" does not say \"%s\"", call,
                   name != NULL ? name : "(null)", peer->error, text);
    }
}

void acquire_refused(struct peer *peer, const char *name,
                     const struct lw_acquire_options *options, int error,
                     const char *text)
{
    request_refused(peer, name, NULL, false, options, error, text);
}

void adopt_refused(struct peer *peer, const char *name, const char *token,
                   const struct lw_acquire_options *options, int error, const char *text)
{
    request_refused(peer, name, token, true, options, error, text);
}

struct hold *adopt_hold(struct peer *peer, const char *label, const char *name,
                        const char *token, const struct lw_acquire_options *options)
{
    struct hold *hold = new_hold(peer, label);
    int result = try_request(hold, name, token, true, options);

    if (result != LW_OK) {
        stage_complain("lw_adopt %s: %s: %s", label, status_name(result), peer->error);
    } else if (lw_lock_state(hold->lock) != LW_WAITING ||
               *lw_lock_token(hold->lock) != '\0') {
        stage_complain("rule 5: %s does not wait after lw_adopt", label);
    }
    return hold;
}

void wait_queued(const char *name, long long members)
{
    UNTIL(redis_int("ZCARD %s", queue_of(name)) == members);
}

static void check_given_up(const struct hold *hold, int result, const char *call)
{
    if (result != LW_OK) {
        stage_complain("%s %s: %s", call, hold->label, status_name(result));
    } else if (lw_lock_state(hold->lock) != LW_RELEASING ||
               lw_lock_remaining_ms(hold->lock) != 0) {
        stage_complain("rule 5: %s is in state %d, %lld ms, after %s", hold->label,
                       (int)lw_lock_state(hold->lock),
                       (long long)lw_lock_remaining_ms(hold->lock), call);
    }
}

void release_hold(struct hold *hold)
{
    hold->releasing = true;
    players_in_call++;
    int result = lw_release(hold->lock, on_released, hold);
    players_in_call--;
    check_given_up(hold, result, "lw_release");
}

void detach_hold(struct hold *hold, int64_t keep_ms)
{
    hold->releasing = true;
    players_in_call++;
    int result = lw_detach(hold->lock, keep_ms, on_detached, hold);
    players_in_call--;
    check_given_up(hold, result, "lw_detach");
}

void detach_refused(struct hold *hold, int64_t keep_ms, int error, const char *text)
{
    hold->peer->error[0] = '\0';
    players_in_call++;
    int result = lw_detach(hold->lock, keep_ms, on_detached, hold);
    players_in_call--;
    if (result != error || strstr(hold->peer->error, text) == NULL) {
        stage_complain("lw_detach %s: %s (%s), not %s (%s)", hold->label,
                       status_name(result), hold->peer->error, status_name(error), text);
    }
}

void release_refused(struct hold *hold, int error)
{
    players_in_call++;
    int result = lw_release(hold->lock, on_released, hold);
    players_in_call--;
    if (result != error) {
        stage_complain("lw_release %s: %s, not %s", hold->label, status_name(result),
                       status_name(error));
    }
}

void renew_hold(struct hold *hold, uint32_t lease_ms)
{
    hold->renewals++;
    players_in_call++;
    int result = lw_renew(hold->lock, lease_ms, on_renewed, hold);
    players_in_call--;
    if (result != LW_OK) {
        stage_complain("lw_renew %s: %s", hold->label, status_name(result));
    }
}

void renew_refused(struct hold *hold, uint32_t lease_ms, int error)
{
    players_in_call++;
    int result = lw_renew(hold->lock, lease_ms, on_renewed, hold);
    players_in_call--;
    if (result != error) {
        stage_complain("lw_renew %s: %s, not %s", hold->label, status_name(result),
                       status_name(error));
    }
}

void free_hold(struct hold *hold)
{
    struct lw_lock *lock = hold->lock;

    hold->lock = NULL;
    players_in_call++;
    lw_lock_free(lock);
    players_in_call--;
}

/* Returns true if Redis has the lock for this handle's owner, as the mode stores it. Uses
 * plain reads: every version knows them, a pause of writes does not delay them, and tests
 * that count commands ignore them. */
static bool is_held_in_redis(const struct hold *hold)
{
    const char *key = key_of(lw_lock_name(hold->lock));
    const char *owner = lw_lock_owner(hold->lock), *value;

    switch (hold->mode) {
    case LW_MUTEX: /* the token, whose last character becomes + when a waiter queues */
        value = redis_text("GET %s", key);
        return strlen(value) == strlen(owner) &&
               strncmp(value, owner, strlen(owner) - 1) == 0;
    case LW_EXCLUSIVE:
        return strcmp(redis_writer(key), owner) == 0;
    case LW_SHARED:
        return redis_int("HEXISTS %s r:%s", key, owner) == 1;
    case LW_REDISSON:
        break;
    }
    return redis_int("HEXISTS %s %s", key, owner) == 1;
}

/* The key belongs to this handle, and lives at least as long as the handle relies on
 * it. */
void assert_held_by_redis(const struct hold *hold)
{
    long long left = redis_int("PTTL %s", key_of(lw_lock_name(hold->lock))) + 1;
    int64_t remaining = lw_lock_remaining_ms(hold->lock); /* time has passed since */

    if (remaining > left) {
        stage_fail("I1: %s believes in %lld ms, Redis in %lld", hold->label,
                   (long long)remaining, left);
    }
    if (!is_held_in_redis(hold)) {
        stage_fail("I1: %s believes, Redis does not: %s", hold->label,
                   lw_lock_owner(hold->lock));
    }
    assert_int_equal(lw_lock_state(hold->lock), LW_HELD);
}

void works(struct peer *peer)
{
    struct hold *A = acquire_and_wait(peer, "A", "x");

    assert_held_by_redis(A);
    release_hold(A);
    UNTIL(A->released == LW_OK);
    free_hold(A);
    stage_clear_trace();
}

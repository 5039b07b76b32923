/* SPDX-License-Identifier: MIT */
/* What can be asked of a handle, at no I/O and in any state: the caller's own words, what
 * it has, how it waits. Changes nothing except the arg. Each reads what structs.h
 * describes, and answers as well for an inert handle and in a forked child.
 * Without memory for it the owner is "". */
#include "lock/line.h"
#include "lock/mode.h"
#include "lock/structs.h"
#include "lock/terms.h"

#include <stdlib.h>
#include <utlist.h>

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
    return lw__terms_left_ms(lock);
}

uint64_t lw_lock_fence(const struct lw_lock *lock)
{
    return lock->state == LW_WAITING ? 0 : lock->fence;
}

const char *lw_lock_name(const struct lw_lock *lock)
{
    return lock->name->text;
}

const char *lw_lock_owner(const struct lw_lock *lock)
{
    struct lw_lock *mine = (struct lw_lock *)lock;

    if (lock->state == LW_WAITING || lock->token_n == 0) {
        return "";
    }
    if (lock->owner == NULL && lock->client != NULL) {
        struct lw__token token = {lock->client->uuid, lock->token_n, lock->window_ms};

        mine->owner = malloc(LW__TOKEN_SIZE);
        if (mine->owner != NULL) {
            (void)lock->mode->format_owner(&token, mine->owner);
        }
    }
    return lock->owner != NULL ? lock->owner : "";
}

const char *lw_lock_errstr(const struct lw_lock *lock)
{
    if (is_inherited(lock)) {
        return LW__INHERITED;
    }
    return lock->errstr != NULL ? lock->errstr : "";
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

/* Those who wait by the same claim before it; all of them, if it does not wait. */
static int64_t behind_by_claim(const struct lw_lock *lock)
{
    const struct lw_lock *before;
    int64_t count = 0;

    DL_FOREACH2(lock->claim->waiting, before, turn_next) {
        if (before == lock) {
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
    if (lock->mode->in_line != NULL) {
        return lw__line_before(claim) + behind_by_claim(lock);
    }
    if (!lw__machine_asks(claim->machine.phase)) {
        return behind_by_claim(lock);
    }
    return claim->asking.place == 0
               ? -1
               : (int64_t)claim->asking.place - 1 + behind_by_claim(lock);
}

/* A client that is closed has no loop any more. */
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
    return lock->state == LW_DONE && !lock->told ? lock->retry_ms : 0;
}

/* SPDX-License-Identifier: MIT */
/* A callback after a while, by a handle that is over: its timer and its notice are free,
 * and there whatever memory there is. Must not know what it is for. Happy path: lw__later
 * -> the timer (turns.c), and its claim's end (turns_events.c) if that comes later -> a
 * notice -> deliver.c calls. Closing the client and freeing either of them end it in
 * silence, as with all that a handle has. */
#include "lock/later.h"

#include "base/log.h"
#include "lock/structs.h"
#include "loop/loop.h"

#include <syslog.h>

bool lw__later(struct lw_lock *lock, int64_t after_ms, enum lw__later when,
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

void lw__later_warn(struct lw_lock *lock, int status, int64_t after_ms)
{
    const char *why = lw_lock_errstr(lock);

    if (lock->client != NULL) {
        lw__log(&lock->client->log, LOG_WARNING,
                "%s: %s%s%s; it is asked for again in %lld ms", lw_lock_name(lock),
                lw_strerror(status), *why ? ": " : "", why, (long long)after_ms);
    }
}

/* SPDX-License-Identifier: MIT */
/* What keep.c and all.c use besides the public header. Both are written as a caller of
 * the library would be, and see handles only as that caller does. */
#ifndef LW_EXTENSION_H
#define LW_EXTENSION_H
#include "lockwire.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- options.c ---- */

/* Every public call begins with one of these two. They return 0, LW_ECLOSED if the client
 * is closed or was made before a fork, or LW_EINVAL for an invalid name, and put the
 * reason into the caller's errbuf. */
int lw__options_check_open(struct lw_client *client);
/* Returns LW_EINVAL for a quorum's client, which the call does not support. */
int lw__options_check_single(struct lw_client *client);
int lw__options_check_call(struct lw_client *client, const char *name);
/* Returns NULL if the client may use this name, else `why`, filled with what is wrong. */
const char *lw__options_check_name(const struct lw_client *client, const char *name,
                                   char why[LW_WHY_SIZE]);

/* Writes the reason of a refused call into the errbuf of the client's options, cut to its
 * size. */
void lw__options_explain(struct lw_client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- lock.c ---- */

/* Copies the options given (may be NULL) into `ret`, with defaults filled in. Returns 0,
 * or LW_EINVAL with the reason in errbuf. */
int lw__lock_options(struct lw_client *client, const struct lw_acquire_options *given,
                     struct lw_acquire_options *ret);

/* When lw__lock_call_later calls back. */
enum lw__later {
    LW__LATER_NOT,
    LW__LATER_IN_TIME, /* after the delay */
    /* After the delay, and once the release of the handle was answered or its lease has
     * expired, so that the next attempt does not meet the hold of the earlier one. */
    LW__LATER_WHEN_GONE
};

/* Calls `done` with LW_OK at the time that `when` defines. For a handle in LW_LOST or
 * LW_DONE whose callbacks have all been called. Needs no memory. `done` is not called
 * once the client is closed, or after the client or the handle was freed. Returns false,
 * without any effect, if the client is closing or closed. */
bool lw__lock_call_later(struct lw_lock *lock, int64_t after_ms, enum lw__later when,
                         lw_lock_cb *done, void *arg);
/* Logs the failure and the delay until the next attempt. Call it after
 * lw__lock_call_later has arranged that attempt. */
void lw__lock_warn_retry(struct lw_lock *lock, int status, int64_t after_ms);

/* ---- handle.c ---- */

/* The lock stays held until so long from now, also after its release: at_least_ms. For a
 * held handle. */
void lw__handle_keep_at_least(struct lw_lock *lock, uint32_t at_least_ms);
/* Right after lw_acquire with wait_ms 0: ends the attempt at `at_us` if neither a reply
 * nor request_timeout_ms has ended it by then. */
void lw__handle_limit_try(struct lw_lock *lock, int64_t at_us);
/* For a caller that has not passed on what `at_risk` was called with so far: calls it
 * with 1 again, later, if the hold is still at risk, and otherwise drops a pending call
 * with 0. For a held handle only. */
void lw__handle_repeat_risk(struct lw_lock *lock);
/* Sets what lw_lock_error and lw_lock_errstr return; `why` is "" if there is no error. */
void lw__handle_set_error(struct lw_lock *lock, int error, const char *why);
#endif

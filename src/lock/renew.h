/* SPDX-License-Identifier: MIT */
/* The calls of lw_renew that are pending. */
#ifndef LW_RENEW_H
#define LW_RENEW_H
#include "lock/notify.h"
#include "lockwire.h"
#include "redis/command.h"

#include <stdint.h>

struct lw__renew_call {
    struct lw__command command;
    struct lw__notice notice;
    struct lw__renew_call *next, *prev;
    struct lw_lock *lock;
    lw_lock_cb *done;
    void *arg;
    uint32_t lease_ms;
};

int lw__renew_new(struct lw_lock *lock, uint32_t lease_ms, lw_lock_cb *done, void *arg);
/* All that are pending of the handle, which was told of its grant, end with this
 * status. */
void lw__renew_end_all(struct lw_lock *lock, int status);
void lw__renew_free(struct lw__renew_call *call);
void lw__renew_free_all(struct lw_lock *lock); /* in silence */
#endif

/* SPDX-License-Identifier: MIT */
/* What outlives all else of a handle: its error text and its memory. Must not know what
 * it waits for or holds. Where there is no memory for an error text there is none. */
#include "lock/handle.h"

#include "base/told.h"
#include "lock/name.h"
#include "lock/structs.h"

#include <stdlib.h>
#include <string.h>

void lw__handle_set_errstr(struct lw_lock *lock, const char *why)
{
    char told[LW__TOLD];

    lw__told(why, told, sizeof(told));
    if (lock->errstr != NULL && strcmp(lock->errstr, told) == 0) {
        return;
    }
    free(lock->errstr);
    lock->errstr = *told ? strdup(told) : NULL;
    if (*why && lock->claim != NULL) {
        lock->claim->error_told = true;
    }
}

void lw__handle_free(struct lw_lock *lock)
{
    struct lw_client *client = lock->client;

    if (client != NULL && client->freed) { /* both in one callback: its names are loose */
        client = NULL;
    }
    if (lock->name != NULL) {
        lw__name_put(client, lock->name);
    }
    free(lock->owner);
    free(lock->owner_text);
    free(lock->errstr);
    if (client == NULL || client->free_lock_count == LW__POOLED) {
        free(lock);
        return;
    }
    client->free_lock_count++;
    lock->next = client->free_locks;
    client->free_locks = lock;
}

void lw__handle_unref(struct lw_lock *lock)
{
    if (lock->freed && !lock->in_callback) {
        lw__handle_free(lock);
    }
}

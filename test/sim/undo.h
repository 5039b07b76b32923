/* SPDX-License-Identifier: MIT
 *
 * What keys were before each of the last writes, so that a restart can lose the last n ms
 * of them. Knows keys as opaque contents and time as numbers.
 *
 * Happy path: the server sets `now_us` (true time, not the server's stepped clock) before
 * each command, keyspace_open() remembers, undo_back_to() takes keys back at a restart.
 */
#ifndef LW_SIM_UNDO_H
#define LW_SIM_UNDO_H

#include "keyspace.h"

struct undo_entry;

struct undo_log {
    struct undo_entry *oldest;
    struct undo_entry *newest;
    int64_t now_us;
    int64_t window_us; /* how far back may be asked for; 0: nothing is remembered */
};

void undo_remember(struct undo_log *log, int space, struct bytes name,
                   const struct content *content);
void undo_back_to(struct undo_log *log, int64_t when_us, struct keyspace *spaces);
void undo_free(struct undo_log *log);

#endif

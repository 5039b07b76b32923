/* SPDX-License-Identifier: MIT
 *
 * The former contents of keys, before each of the last writes, so that a restart can lose
 * the writes of the last n ms. Independent of what the contents mean.
 *
 * Usual course: the server sets `now_us` (true time, not the server's stepped clock)
 * before each command. keyspace_open() records. undo_back_to() restores keys at a
 * restart.
 */
#ifndef LW_SIM_UNDO_H
#define LW_SIM_UNDO_H

#include "keyspace.h"

struct undo_entry;

struct undo_log {
    struct undo_entry *oldest;
    struct undo_entry *newest;
    int64_t now_us;
    int64_t window_us; /* how far back a restart may go; 0: nothing is recorded */
};

void undo_remember(struct undo_log *log, int space, struct bytes name,
                   const struct content *content);
void undo_back_to(struct undo_log *log, int64_t when_us, struct keyspace *spaces);
/* Forgets all of it: no restart goes back behind this moment. */
void undo_forget(struct undo_log *log);

#endif

/* SPDX-License-Identifier: MIT */
/* Answers of scripts, strictly. Must not know a connection, nor a lock's state. */
#ifndef LW_DECODE_H
#define LW_DECODE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__reply;

/* Out of this range the counter was lost; a script cannot count beyond it. */
#define LW__FENCE_MIN ((int64_t)1 << 50)
#define LW__FENCE_END ((int64_t)1 << 53)

#define LW__NOT_TOLD (-2) /* the holder's lease: the others in front come first */

struct lw__acquired {
    enum { LW__ANSWER_GRANTED, LW__ANSWER_QUEUED, LW__ANSWER_DEADLOCK } kind;
    uint64_t fence;
    int64_t remaining_ms, position, ticket, server_us;
    bool again;
    const char *stranger; /* the TYPE of a key that is not ours to understand, or NULL */
    bool released;        /* of a turn's previous token */
};
struct lw__released {
    bool released, again;
    int64_t holds_left;
    int64_t told; /* Redisson's: how many heard of it */
};
/* false: not what the script can have answered. */
bool lw__decode_acquired(const struct lw__reply *reply, bool turn,
                         struct lw__acquired *ret);
bool lw__decode_rw_acquired(const struct lw__reply *reply, bool turn,
                            struct lw__acquired *ret);
bool lw__decode_redisson_acquired(const struct lw__reply *reply, bool turn,
                                  struct lw__acquired *ret);
/* Of lw__encode_fast_release: `again` where the queue is to be looked at. */
bool lw__decode_fast_released(const struct lw__reply *reply, struct lw__released *ret);
bool lw__decode_released(const struct lw__reply *reply, struct lw__released *ret);
bool lw__decode_rw_released(const struct lw__reply *reply, struct lw__released *ret);
bool lw__decode_redisson_released(const struct lw__reply *reply,
                                  struct lw__released *ret);
/* Whether each was renewed; or one number, which is theirs, where all were. */
bool lw__decode_renewed(const struct lw__reply *reply, size_t count, bool *renewed);
/* Of lw__encode_list: where the next step begins, and how many keys were looked at. The
 * elements from LW__SCAN_PAGE_NAMES on are names, of which any may be no lock's. */
#define LW__SCAN_PAGE_NAMES 3
struct lw__scan_page {
    const char *cursor; /* inside the reply; "0": that was all */
    int64_t seen, keys; /* keys: how many the server has; -1: it does not tell */
};
bool lw__decode_scan_page(const struct lw__reply *reply, struct lw__scan_page *ret);
/* The channel, and how many. */
bool lw__decode_count(const struct lw__reply *reply, int64_t *ret);
#endif

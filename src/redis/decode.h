/* SPDX-License-Identifier: MIT */
/* Decodes the replies of scripts, strictly: each function returns false if its script
 * cannot have returned this reply. Independent of connections and of the state of a lock.
 */
#ifndef LW_DECODE_H
#define LW_DECODE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__reply;

/* A fence counter outside of this range has been lost. At the end scripts cannot count
 * any further. */
#define LW__FENCE_MIN ((int64_t)1 << 50)
#define LW__FENCE_END ((int64_t)1 << 53)

/* A remaining_ms that the script did not look up, since other waiters come first. */
#define LW__NOT_TOLD (-2)

struct lw__acquired {
    enum { LW__ANSWER_GRANTED, LW__ANSWER_QUEUED, LW__ANSWER_DEADLOCK } kind;
    uint64_t fence;
    int64_t remaining_ms, position, ticket, server_us;
    bool full;           /* max_waiting others are queued; the position is -1 */
    bool again;          /* the script is to be sent again: it left dead waiters */
    const char *foreign; /* the TYPE of a key that is not a lock of ours, or NULL */
};
struct lw__released {
    bool released, again;
    int64_t holds_left;
    int64_t subscribers; /* Redisson's: as many received the message of the release */
};
bool lw__decode_acquired(const struct lw__reply *reply, struct lw__acquired *ret);
bool lw__decode_rw_acquired(const struct lw__reply *reply, struct lw__acquired *ret);
bool lw__decode_redisson_acquired(const struct lw__reply *reply,
                                  struct lw__acquired *ret);
/* The reply to lw__encode_fast_release. `again`: lw__encode_release has to look at the
 * queue. */
bool lw__decode_fast_released(const struct lw__reply *reply, struct lw__released *ret);
bool lw__decode_released(const struct lw__reply *reply, struct lw__released *ret);
bool lw__decode_rw_released(const struct lw__reply *reply, struct lw__released *ret);
/* The reply to lw__encode_release_one_key, which does not read the queue. */
bool lw__decode_released_one_key(const struct lw__reply *reply, bool rw,
                                 struct lw__released *ret);
/* The reply to lw__encode_detach: whether the token holds the lock. */
bool lw__decode_detached(const struct lw__reply *reply, bool *ret);
/* The reply to lw__encode_adopt. `owner` is that of a read-write lock's hold, inside the
 * reply; else "". */
struct lw__adopted {
    enum { LW__ADOPTED, LW__ADOPTED_NOT_HELD, LW__ADOPTED_OTHER_KIND } kind;
    uint64_t fence;
    const char *owner;
};
bool lw__decode_adopted(const struct lw__reply *reply, bool rw, struct lw__adopted *ret);
bool lw__decode_redisson_released(const struct lw__reply *reply,
                                  struct lw__released *ret);
/* Fills `renewed` for each of `count` holds: from a flag for each, or from the number
 * `count` if all were renewed. */
bool lw__decode_renewed(const struct lw__reply *reply, size_t count, bool *renewed);
/* The reply to lw__encode_list. Its elements from LW__SCAN_PAGE_NAMES on are names, which
 * may belong to other keys than locks. */
#define LW__SCAN_PAGE_NAMES 3
struct lw__scan_page {
    const char *cursor; /* of the next step, inside the reply; "0" after the last one */
    int64_t seen;       /* keys that this step looked at */
    int64_t keys;       /* all keys of the server, or -1 if unknown */
};
bool lw__decode_scan_page(const struct lw__reply *reply, struct lw__scan_page *ret);
/* The reply to lw__encode_count. */
bool lw__decode_count(const struct lw__reply *reply, int64_t *ret);
#endif

/* SPDX-License-Identifier: MIT */
/* Keeps under the labels that the trace shows. Their callbacks check what is true of
 * every keep: none inside a call, none after the end, `gained` and `lost` alternate, the
 * fencing token grows. Depends only on the public header.
 *
 * The trace has "K gained", "K lost ELOST". Usual course: keeper_start(peer, "K", "x",
 * NULL), EXPECT("K gained"), keeper_free(K). */
#ifndef KEEP_SCENE_H
#define KEEP_SCENE_H
#include "players.h"

struct keeper {
    struct keeper *next;
    char label[16];
    struct peer *peer;
    struct lw_keep *keep; /* NULL once freed */
    bool leads;
    int gains, losses;
    uint64_t fence; /* of its last hold */
    bool no_fence;
    int64_t gained_ms, lost_ms;
    int64_t remaining_at_lost;
    void (*then)(struct keeper *keeper); /* called at the end of each callback */
};

/* Calls lw_keep_new, which must succeed. */
struct keeper *keeper_start(struct peer *peer, const char *label, const char *name,
                            const struct lw_acquire_options *options);
/* Calls lw_keep_new, which must fail with `error`, and with `text` in errbuf. */
void keeper_refused(struct peer *peer, const char *name,
                    const struct lw_acquire_options *options, int error,
                    const char *text);
void keeper_free(struct keeper *keeper);
struct lw_lock *lock_of(const struct keeper *keeper);
#endif

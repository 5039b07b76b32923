/* SPDX-License-Identifier: MIT */
/* server/scene.h's helper: an acquisition, seen in Redis, and its release. */
#include "server/scene.h"

void works(struct peer *peer)
{
    struct hold *A = take(peer, "A", "x");

    assert_held_by_redis(A);
    let_go(A);
    UNTIL(A->released == LW_OK);
    drop(A);
    stage_clear_trace();
}

/* SPDX-License-Identifier: MIT */
/* Whether a connection looks at its socket before the loop sleeps. A look that finds the
 * reply after a while saves both the time to fall asleep and that to wake up. A fruitless
 * one, which ends without a reply, costs its whole time; a needless one, which finds the
 * reply at once, a system call. If too many of these come in a row there are no looks for
 * a number of writes, each time for twice as many; then one more fruitless look is too
 * many. Independent of sockets and of the time. */
#ifndef LW_BUSY_POLL_H
#define LW_BUSY_POLL_H
#include <stdbool.h>
#include <stdint.h>

/* So many needless looks in a row are too many; a fruitless one counts as so many. */
#define LW__BUSY_POLL_ENOUGH 64
#define LW__BUSY_POLL_FRUITLESS 16
/* Writes without a look: */
#define LW__BUSY_POLL_PAUSE_LEAST 256
#define LW__BUSY_POLL_PAUSE_MOST 4096

struct lw__busy_poll {
    uint16_t wasted;      /* the looks in a row that did not pay */
    uint16_t pause, left; /* writes: of the last pause, and those until its end */
};

/* Called after a write that replies follow. Returns true if there is to be a look. */
static inline bool lw__busy_poll_wants(struct lw__busy_poll *poll)
{
    if (poll->left == 0) {
        return true;
    }
    poll->left--;
    return false;
}

/* Notes a look that asked the socket `times` times. */
static inline void lw__busy_poll_note(struct lw__busy_poll *poll, unsigned times,
                                      bool arrived)
{
    if (arrived && times > 1) {
        *poll = (struct lw__busy_poll){0};
        return;
    }
    poll->wasted += arrived ? 1 : LW__BUSY_POLL_FRUITLESS;
    if (poll->wasted < LW__BUSY_POLL_ENOUGH) {
        return;
    }
    poll->wasted = LW__BUSY_POLL_ENOUGH - LW__BUSY_POLL_FRUITLESS;
    if (poll->pause == 0) {
        poll->pause = LW__BUSY_POLL_PAUSE_LEAST;
    } else if (poll->pause < LW__BUSY_POLL_PAUSE_MOST) {
        poll->pause *= 2;
    }
    poll->left = poll->pause;
}
#endif

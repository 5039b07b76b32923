/* SPDX-License-Identifier: MIT */
/*
 * A blocking wait with an end, for what can only be asked for again and again.
 *
 * Happy path: patience_for, and as long as it is not there yet, patience_pause.
 */
#ifndef LW_TOOL_PATIENCE_H
#define LW_TOOL_PATIENCE_H
#include <stdbool.h>
#include <stdint.h>

struct patience {
    int64_t end_ms;
    int pause_ms;
};

/* Of the clock that it goes by, which nobody sets. */
int64_t patience_now_ms(void);

struct patience patience_for(int limit_ms);

/* What is left of it; 0 when it is over. */
int patience_left_ms(const struct patience *patience);

/* Sleeps a little, the longer the later; false, at once, when it is over. */
bool patience_pause(struct patience *patience);

#endif

/* SPDX-License-Identifier: MIT */
/* See patience.h. A signal shortens a pause, not the whole wait. */
#include "patience.h"

#include <time.h>

#define LONGEST_PAUSE_MS 20

int64_t patience_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

struct patience patience_for(int limit_ms)
{
    return (struct patience){.end_ms = patience_now_ms() + limit_ms, .pause_ms = 1};
}

int patience_left_ms(const struct patience *patience)
{
    int64_t left = patience->end_ms - patience_now_ms();

    return left > 0 ? (int)left : 0;
}

bool patience_pause(struct patience *patience)
{
    if (patience_left_ms(patience) == 0) {
        return false;
    }
    nanosleep(&(struct timespec){0, patience->pause_ms * 1000000L}, NULL);
    patience->pause_ms *= 2;
    if (patience->pause_ms > LONGEST_PAUSE_MS) {
        patience->pause_ms = LONGEST_PAUSE_MS;
    }
    return true;
}

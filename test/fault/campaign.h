/* SPDX-License-Identifier: MIT */
/*
 * Campaigns: four processes contend for a lock while something is broken again and again.
 * What they record must be what the modes allow, with fences that grow and no number
 * given twice, and the unfenced canary must not lose an update, nor a reader see one; and
 * with the lock disabled all of it must be seen to fail. In each of the cells' ways. Owns
 * the proxy on the processes' way to the server, and the verdict.
 *
 * Happy path: CAMPAIGN(resets, .strike = cut), PLAY(campaign_resets) among the cells.
 */
#ifndef TEST_CAMPAIGN_H
#define TEST_CAMPAIGN_H
#include "cells.h"
#include "workers.h"

struct fault {
    void (*scene)(void); /* before the processes start; the proxy is there already */
    void (*strike)(int round);
    void (*mend)(int round);
    bool loses_state, stops_process;
    bool one_at_a_time;   /* of two servers: numbers grow although state is lost */
    void (*check)(void);  /* before the verdict: that nothing else was broken */
    int strikes;          /* 0: six; a third of them where it should be short */
    int64_t while_ms;     /* between strike and mend; 0: a quarter of a second */
    struct wishes wishes; /* who may wait for as long as a test must be granted */
};

/* Of the campaign that runs. */
extern struct proxy *proxy;
extern const char *campaign_url; /* where clients go; NULL: through the proxy */
extern int swaps;                /* of two servers' roles, for the log */

void campaign(const struct fault *fault);
/* State was lost since then, by history.h's clock; now no more. */
void campaign_lost(int64_t since_us);
/* The processes take the lock for granted. */
void campaign_unlocked(void);

#define CAMPAIGN(name, ...)                                                              \
    CELL(campaign_##name)                                                                \
    {                                                                                    \
        static const struct fault fault = {__VA_ARGS__};                                 \
        campaign(&fault);                                                                \
    }

#endif

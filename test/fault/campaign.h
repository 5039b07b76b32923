/* SPDX-License-Identifier: MIT */
/*
 * Campaigns: four processes contend for a lock while a fault strikes again and again, in
 * each of the cells' ways. Their records must be what the modes allow. Fencing tokens
 * must grow and never repeat. The unfenced canary must not lose an update, and no reader
 * may see one. With the lock disabled, overlaps, lost updates and disturbed readers must
 * be found. This file owns the proxy between the processes and the server, and the
 * verdict.
 *
 * Usual course: CAMPAIGN(resets, .strike = cut), and PLAY(campaign_resets) among the
 * cells.
 */
#ifndef TEST_CAMPAIGN_H
#define TEST_CAMPAIGN_H
#include "cells.h"
#include "workers.h"

struct fault {
    void (*scene)(void); /* before the processes start; the proxy has started */
    void (*strike)(int round);
    void (*mend)(int round);
    bool loses_state, stops_process;
    bool one_at_a_time;   /* of two servers: fencing tokens grow although state is lost */
    void (*check)(void);  /* before the verdict: nothing else may be broken */
    int strikes;          /* 0: six; in smoke mode a third of the number */
    int64_t while_ms;     /* between strike and mend; 0: a quarter of a second */
    struct wishes wishes; /* with wait_ms >= STAGE_WAIT_MS all must be granted */
};

/* These belong to the running campaign. */
extern struct proxy *proxy;
extern const char *campaign_url; /* of the clients; NULL: through the proxy */
extern int swaps;                /* role changes between servers, for the log */

void campaign(const struct fault *fault);
/* Records that state was lost between since_us, by history.h's clock, and now. */
void campaign_lost(int64_t since_us);
/* Runs the processes without the lock: each request counts as granted at once. */
void campaign_unlocked(void);

#define CAMPAIGN(name, ...)                                                              \
    CELL(campaign_##name)                                                                \
    {                                                                                    \
        static const struct fault fault = {__VA_ARGS__};                                 \
        campaign(&fault);                                                                \
    }

#endif

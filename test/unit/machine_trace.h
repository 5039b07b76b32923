/* SPDX-License-Identifier: MIT */
/*
 * A run of the lock's state machine as readable text, which is script and oracle at once:
 * each line has an event, and after the arrow the expected result. Depends on machine.h
 * alone.
 *
 *     0 start -> try, acquiring
 *     5 granted fence=7 -> GRANT, held D=9898 fence=7
 *     900 release -> release, releasing
 *     905 released released -> RELEASED OK, END, ended
 *
 * Before the arrow: the time, an event (lw__event's names in lower case), its fields. All
 * times are in milliseconds, with decimals if needed. Omitted fields have these values:
 * `sent` is when the last command was sent. The server's clock is 50 s ahead of ours, and
 * showed 50 s + `sent` in a queued reply, which gives the ticket 100 to a token without
 * one. The clock pair of a hand-over (`s`, `tau`) is the last queued reply's. The link is
 * up (otherwise `unlinked`). A command whose outcome is unknown had been sent (otherwise
 * `unsent`). After the arrow: reports, commands, the phase, D while held or expired, the
 * due time, the ticket for the next request.
 *
 * A first line `terms lease=1000 margin=0` sets the lease to request, and the margin
 * wanted; the defaults are lease=10000 margin=0. The claim window is 2000.
 */
#ifndef TEST_MACHINE_TRACE_H
#define TEST_MACHINE_TRACE_H
#include "hold/machine.h"

/* The first lines of many runs: the token holds after a try; it waits behind another. */
#define TRACE_HELD                                                                       \
    "0 start -> try, acquiring\n"                                                        \
    "5 granted fence=7 -> GRANT, held D=9898 fence=7\n"
#define TRACE_WAITS                                                                      \
    "0 start -> try, acquiring\n"                                                        \
    "5 not_granted -> acquire, acquiring\n"                                              \
    "8 queued left=9000 pos=1 -> BUSY, queued due=6008 ticket=100\n"

struct trace {
    struct lw__machine machine;
    int64_t sent_us;                      /* of the last command */
    int64_t margin_us;                    /* of the first waiter */
    int64_t pair_sent_us, pair_server_us; /* of the last queued reply */
};

void trace_init(struct trace *trace);
/* Runs the lines, and fails the test at the first one with another result. */
void trace_run(struct trace *trace, const char *script);
/* Runs lines from the beginning. */
void trace_check(const char *script);
/* Runs each line by itself after `before`. Events without a line must change nothing
 * there. */
void trace_cells(const char *before, const char *lines);
/* Returns "1234.5": microseconds as milliseconds. */
const char *trace_ms(int64_t us, char room[32]);
const char *trace_phase(enum lw__phase phase);
#endif

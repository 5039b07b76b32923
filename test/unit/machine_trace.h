/* SPDX-License-Identifier: MIT */
/*
 * A run of the lock's state machine as readable text, which is the script and the oracle
 * at once: each line says what happens and, behind the arrow, what must come of it. Knows
 * machine.h alone.
 *
 *     0 start -> try, acquiring
 *     5 granted fence=7 -> GRANT, held D=9898 fence=7
 *     900 release -> release, releasing
 *     905 released released -> RELEASED OK, END, ended
 *
 * In front: the time, an event (lw__event's names in small letters), its fields. All
 * times are milliseconds, with decimals where needed. Fields left out take what is usual:
 * `sent` is when the last command went out; the server's clock is 50 s ahead of ours, and
 * stood at 50 s + `sent` in a queued answer, which gives the ticket 100 to who had none;
 * the pair of a hand-over (`s`, `tau`) is the last queued answer's; the link stands (else
 * `unlinked`); what is unknown had been sent (else `unsent`). Behind the arrow: what is
 * to be told, what is sent, the phase, D while held or expired, when it is due, the
 * ticket for the next ask.
 *
 * A first line `terms lease=1000 margin=0` says what is asked for, and what is wanted of
 * it; they are lease=10000 margin=0 without, and the claim window is 2000.
 */
#ifndef TEST_MACHINE_TRACE_H
#define TEST_MACHINE_TRACE_H
#include "lock/machine.h"

struct trace {
    struct lw__machine machine;
    int64_t sent_us;                      /* of the last command */
    int64_t margin_us;                    /* of who waits */
    int64_t pair_sent_us, pair_server_us; /* of the last queued answer */
};

void trace_init(struct trace *trace);
/* Runs the lines and fails the test at the first that comes out otherwise. */
void trace_run(struct trace *trace, const char *script);
/* A run from the beginning. */
void trace_check(const char *script);
/* Runs each line by itself on what `before` led to. Events that no line has must change
 * nothing there. */
void trace_cells(const char *before, const char *lines);
/* "1234.5": microseconds as milliseconds. */
const char *trace_ms(int64_t us, char room[32]);
const char *trace_phase(enum lw__phase phase);
#endif

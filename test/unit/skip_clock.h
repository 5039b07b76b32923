/* SPDX-License-Identifier: MIT */
/* The library's clock, put forward while nothing happens: link with --wrap=clock_gettime
 * and --wrap=timerfd_settime. Sockets stay real, and both ends of each connection are in
 * this process. If none is ready and the kernel has nothing on its way to one, only a
 * timer can be next. A stopped clock passes in no other way, so that no time limit ends
 * because the machine is slow. */
#ifndef SKIP_CLOCK_H
#define SKIP_CLOCK_H
#include <event2/event.h>
#include <stdint.h>

/* Puts the clock forward; the timers that are due run in the next turn. */
void skip_clock_by(int64_t us);
/* Stops the clock: from now on only skip_clock_by and skip_clock_turn put it forward. */
void skip_clock_stop(void);
/* Returns to the real time, for the next test. */
void skip_clock_reset(void);
/* Dispatches what is ready. If nothing is ready or on its way, puts the clock forward to
 * the library's next timer, but not beyond `until_us`, by the clock that is put
 * forward. */
void skip_clock_turn(struct event_base *base, int64_t until_us);
/* Returns the time of a clock that is not put forward. */
int64_t skip_clock_real_s(void);
#endif

/* SPDX-License-Identifier: MIT */
/*
 * One hiredis connection on libevent, as fast as hiredis allows: the read event is
 * persistent, and all commands of one loop turn are sent by one write at its end.
 * Independent of the commands. A broken connection ends the program, since its
 * measurement is invalid.
 *
 * Usual course: wire_open, then redisAsync... on the context that it returns.
 */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H
#include "measure.h"

#include <event2/event.h>
#include <hiredis/async.h>

/* Opens the URL: redis://host:port, rediss://host:port, the same with valkey, or
 * unix:///path. Ends the program on failure. */
redisAsyncContext *wire_open(struct event_base *base,
                             const struct measure_options *options);
/* Opens the URL in the same way for blocking commands. */
redisContext *wire_open_waiting(const struct measure_options *options);
/* Loads a script; `sha` receives its 40 digits and a NUL. */
void wire_load(redisContext *link, const char *script, char sha[41]);
/* Formats a command once, to be sent often; the caller frees the bytes with free(). */
char *wire_format(size_t *length, int argc, const char **argv);
/* Ends the program if there is no reply or it is an error. */
void wire_check(const redisReply *reply);
#endif

/* SPDX-License-Identifier: MIT */
/*
 * One hiredis connection on libevent, as fast as hiredis goes: a persistent read event,
 * all that was asked for in one turn of the loop goes out in one write at its end. Must
 * not know what is asked. A connection that breaks ends the program: these are
 * measurements.
 *
 * Happy path: wire_open, redisAsync... on what it returns.
 */
#ifndef BENCH_WIRE_H
#define BENCH_WIRE_H
#include "measure.h"

#include <event2/event.h>
#include <hiredis/async.h>

/* redis://host:port, rediss://host:port, the same with valkey, or unix:///path. Ends the
 * program where that fails. */
redisAsyncContext *wire_open(struct event_base *base,
                             const struct measure_options *options);
/* The same, for questions that are waited for. */
redisContext *wire_open_waiting(const struct measure_options *options);
/* Loads a script; `sha` gets its 40 digits and a NUL. */
void wire_load(redisContext *link, const char *script, char sha[41]);
/* A command's bytes, made once and sent often; the caller frees them with free(). */
char *wire_format(size_t *length, int argc, const char **argv);
/* Ends the program if the reply is none or an error. */
void wire_check(const redisReply *reply);
#endif

/* SPDX-License-Identifier: MIT */
/*
 * The record that clients with guard_ms keep on a real server, for tests: writes it as
 * another client would, so that no test has to wait for the shortest guard time, and
 * reads for how long it keeps the server closed. Each call has a connection of its own,
 * because tests end all others.
 *
 * A test calls guard_record_open_in(&stage.server, 15000, 2000), starts a client with
 * guard_ms 15000, and the client is granted locks after two seconds.
 */
#ifndef TEST_GUARD_RECORD_H
#define TEST_GUARD_RECORD_H
#include "server.h"

#define GUARD_RECORD "lockwire:guard"

/* Writes the record for the present run of the server, which then grants locks after
 * `ms`, at once if it is 0. */
void guard_record_open_in(const struct server *server, int guard_ms, int ms);
/* Returns the time in us for which the server still grants no locks, by its own clock;
 * negative afterwards. */
long long guard_record_left_us(const struct server *server);
/* Returns the record, or "" without one; valid until the next call. */
const char *guard_record_text(const struct server *server);

#endif

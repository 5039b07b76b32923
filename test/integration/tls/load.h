/* SPDX-License-Identifier: MIT */
/*
 * Locks that are taken and released all the time, while a test does something else: each
 * name by each client, which asks again as soon as it has released. Owns who holds by the
 * callbacks; two at once, a fence that does not grow, a hold that is lost or any end but
 * LW_OK fails the test. Must not know of TLS.
 *
 * Happy path: load_begin(a); load_begin(b); load_pass(100); ...; load_end();
 */
#ifndef TEST_TLS_LOAD_H
#define TEST_TLS_LOAD_H
#include "players.h"

void load_begin(struct peer *peer);
void load_pass(int grants); /* runs the loop until so many more were granted */
void load_end(void);        /* all is released; the trace is forgotten */
#endif

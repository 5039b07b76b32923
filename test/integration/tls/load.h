/* SPDX-License-Identifier: MIT */
/* Locks that are acquired and released all the time while a test does something else:
 * each name by each client, which requests it again as soon as it has released it.
 * Follows the holders by the callbacks. Two holders at once, a fencing token that does
 * not grow, a lost hold or any status except LW_OK fails the test. Independent of TLS.
 *
 * Usual course: load_begin(a); load_begin(b); load_pass(100); ...; load_end(); */
#ifndef TEST_TLS_LOAD_H
#define TEST_TLS_LOAD_H
#include "players.h"

void load_begin(struct peer *peer);
void load_pass(int grants); /* runs the loop until there were this many more grants */
void load_end(void);        /* all locks are released, and the trace is cleared */
#endif

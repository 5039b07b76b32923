/* SPDX-License-Identifier: MIT */
/*
 * A server that knows lockwire's scripts, so that no command is sent a second time for
 * that. By lockwire alone it is left to chance which one a release takes. Must not know
 * what they do. Happy path: make_scripts_known(), before a connection is spoilt.
 */
#ifndef TEST_KNOWN_H
#define TEST_KNOWN_H

/* All of them, until the stage's server starts anew. */
void make_scripts_known(void);
#endif

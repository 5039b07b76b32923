/* SPDX-License-Identifier: MIT */
/*
 * What the tests of a server's answers share. Must not know what the server does.
 *
 * Happy path: a client has come up; works(peer).
 */
#ifndef TEST_SERVER_SCENE_H
#define TEST_SERVER_SCENE_H
#include "players.h"

/* lw_lock_errstr has this text. */
void assert_says(const struct hold *hold, const char *text);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Shared by the tests of a server's replies. Independent of what the server does.
 */
#ifndef TEST_SERVER_SCENE_H
#define TEST_SERVER_SCENE_H
#include "players.h"

/* Checks that lw_lock_errstr contains this text. */
void assert_says(const struct hold *hold, const char *text);

#endif

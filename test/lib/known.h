/* SPDX-License-Identifier: MIT */
/*
 * Loads lockwire's scripts into a server, so that no command is sent a second time
 * because of an unknown script. Otherwise it depends on chance which script a release
 * uses first. Usual course: make_scripts_known(), before the test disturbs a connection.
 */
#ifndef TEST_KNOWN_H
#define TEST_KNOWN_H

/* Loads all scripts. They stay loaded until the stage's server is restarted. */
void make_scripts_known(void);
#endif

/* SPDX-License-Identifier: MIT */
/*
 * A password that no command line and no environment shows: the first line of a file.
 * Owns how it is read and wiped. Must not know what it is for; no message repeats any of
 * it.
 *
 * Happy path: password_read, a client is made, password_wipe.
 */
#ifndef LW_TOOL_PASSWORD_H
#define LW_TOOL_PASSWORD_H
#include <stddef.h>

#define PASSWORD_MAX 4096 /* bytes */

/* Reads the first line of `file`, which `option` named, without its newline, into
 * `password`. "-" is the standard input, which is read no further than that newline. 0,
 * or the code to exit with; it has been said why. Blocks, as for a pipe whose writer
 * takes its time. */
int password_read(const char *option, const char *file, char password[PASSWORD_MAX + 1]);
/* NULL is fine. */
void password_wipe(char *password);

#endif

/* SPDX-License-Identifier: MIT */
/* Passwords, and tokens, from the first line of a file, which neither the process list
 * nor the environment shows. No message repeats any part of them. */
#ifndef LW_TOOL_PASSWORD_H
#define LW_TOOL_PASSWORD_H
#include "base/first_line.h"

#include <stdbool.h>

#define PASSWORD_MAX LW__FIRST_LINE_MAX

/* Reads the first line of `file`, the value of `option`, without its newline, or its
 * CRLF. "-" is the standard input, which is read no further than that newline. Blocks
 * while there is no input. Returns 0, or the exit code after a report. */
int password_read(const char *option, const char *file, char password[PASSWORD_MAX + 1]);
/* Returns true if `file` can be read again: it is neither "-" nor a pipe. */
bool password_is_kept(const char *file);
/* Overwrites it with zeros. `password` may be NULL. */
void password_wipe(char *password);

#endif

/* SPDX-License-Identifier: MIT */
/* Secrets from the first line of a file. No message repeats any part of them. Depends on
 * libc alone; the command is built with it as well. */
#ifndef LW_FIRST_LINE_H
#define LW_FIRST_LINE_H
#include <stdbool.h>
#include <stddef.h>

#define LW__FIRST_LINE_MAX 4096 /* bytes */

/* Reads the first line from `fd` into `ret`, without its newline or its CRLF, and nothing
 * behind the newline. Blocks while there is no input. Returns 0; LW_EINVAL if the line is
 * empty, too long, or not readable; LW_ESYSTEM or LW_ENOMEM for a lack of resources.
 * After a failure `why` has the reason, and `ret` a part of the line. */
int lw__first_line_from(int fd, char ret[LW__FIRST_LINE_MAX + 1], char *why, size_t size);
/* The same for a file. Unless it may block, LW_EINVAL if that is no regular file: a pipe
 * or a device. */
int lw__first_line_of(const char *file, bool may_block, char ret[LW__FIRST_LINE_MAX + 1],
                      char *why, size_t size);

#endif

/* SPDX-License-Identifier: MIT */
/* Text of foreign origin (from a server, a socket, a resolver or a key) made safe to
 * show. Logs, error texts, the `why` of callbacks and the command's output show such text
 * only after lw__escape. Depends on libc alone; the command is built with it as well. */
#ifndef LW_ESCAPE_H
#define LW_ESCAPE_H
#include <stddef.h>

/* Enough for a script's error, with the line where it occurred. */
#define LW__TEXT_MAX 512

/* Copies `from` to `ret`, of `size` bytes including the NUL; writes nothing if `size` is
 * 0. Every byte that is not part of a printable UTF-8 character becomes \xNN. A text that
 * is too long is cut between two characters. Escaping twice changes nothing. `from` and
 * `ret` must not overlap. */
void lw__escape(const char *from, char *ret, size_t size);
/* Returns the length in bytes of the printable UTF-8 character at `text`, or 0 if there
 * is none. */
size_t lw__escape_character(const char *text);
#endif

/* SPDX-License-Identifier: MIT */
/* What somebody else said: a server, a socket, a resolver, a key's content. It reaches a
 * log, an error text, a `why` or a terminal through this alone. libc only; the command is
 * built with it, too. */
#ifndef LW_TOLD_H
#define LW_TOLD_H
#include <stddef.h>

#define LW__WHY 160  /* of a short `why` */
#define LW__TOLD 512 /* enough for an error of a script, with where it happened */

/* The text in `size` bytes at most, NUL included (0: nothing is written), so that it can
 * be shown: whatever is no printable character of UTF-8 stands as \xNN, and what is cut
 * is cut between characters. What was told once stays as it is. `from` and `ret` do not
 * overlap. */
void lw__told(const char *from, char *ret, size_t size);
/* Bytes of the printable character of UTF-8 that begins here; 0: none does. */
size_t lw__told_character(const char *text);
#endif

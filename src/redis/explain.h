/* SPDX-License-Identifier: MIT */
/* The text of an error reply, as a user reads it. A pure function. */
#ifndef LW_EXPLAIN_H
#define LW_EXPLAIN_H
#include "lockwire.h"

/* Writes to `ret` what an error reply says: of a command that the server does not know,
 * its name, and what the command is needed for; of a script, the error without the
 * script's hash and the position; any other error unchanged. Returns `ret`.
 * The result is no longer an error that lw__classify knows. `error` is a result of
 * lw__reply_text, and not escaped. */
const char *lw__explain(const char *error, char ret[LW_WHY_SIZE]);
#endif

/* SPDX-License-Identifier: MIT */
/* Tokens of locks as text: which are this library's, and which are the same client's.
 * Independent of where a token was read. */
#ifndef LW_TOOL_TOKEN_H
#define LW_TOOL_TOKEN_H
#include <stdbool.h>

bool token_is_ours(const char *token);
/* Returns true if `given` is the token, also if it was given as it is stored while
 * clients queue, with a + at its end. */
bool token_matches(const char *given, const char *token);
/* Returns true if both are of one client. At each server of a quorum a client of this
 * library has another token, and a client of another library the same one. */
bool token_same_client(const char *token, const char *other);

#endif

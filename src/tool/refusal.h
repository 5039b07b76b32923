/* SPDX-License-Identifier: MIT */
/*
 * What a connection that did not come up means: will it be another time, or does the
 * server not want us? Pure; must not know what follows from it.
 */
#ifndef LW_TOOL_REFUSAL_H
#define LW_TOOL_REFUSAL_H
#include <stdbool.h>

/* Of why there is no connection, as the library's link callback or its log tells it: does
 * the server refuse the password, or that there is none, or the database? */
bool is_refusal(const char *why);

#endif

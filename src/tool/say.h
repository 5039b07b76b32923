/* SPDX-License-Identifier: MIT */
/* The command's messages: one line on the standard error output, its name in front. */
#ifndef LW_TOOL_SAY_H
#define LW_TOOL_SAY_H

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif

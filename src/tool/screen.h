/* SPDX-License-Identifier: MIT */
/* How large the terminal is that is written to. Happy path:
 * screen_size(STDOUT_FILENO).ws_col. */
#ifndef LW_TOOL_SCREEN_H
#define LW_TOOL_SCREEN_H
#include <sys/ioctl.h>

/* 24 rows of 80 columns where this is no terminal, or one that does not know. */
struct winsize screen_size(int fd);

#endif

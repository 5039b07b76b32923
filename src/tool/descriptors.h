/* SPDX-License-Identifier: MIT */
/* Which descriptors a program that is started gets along. */
#ifndef LW_TOOL_DESCRIPTORS_H
#define LW_TOOL_DESCRIPTORS_H

/* Closes all with a higher number than `last`, for a child between fork and exec. Of a
 * process with one thread only: it may allocate memory. */
void descriptors_close_above(int last);

#endif

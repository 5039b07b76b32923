/* SPDX-License-Identifier: MIT */
/* The only caller of user callbacks, whatever call was given them; but for the log's,
 * which base/log.c calls at once. */
#ifndef LW_DELIVER_H
#define LW_DELIVER_H

/* Makes what callbacks are queued; `arg`: the client. */
void lw__deliver(void *arg);
#endif

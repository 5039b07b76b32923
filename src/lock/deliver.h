/* SPDX-License-Identifier: MIT */
/* The only caller of user callbacks (of lw_client_new and all else that takes one). */
#ifndef LW_DELIVER_H
#define LW_DELIVER_H

/* Makes what callbacks are queued; `arg`: the client. */
void lw__deliver(void *arg);
#endif

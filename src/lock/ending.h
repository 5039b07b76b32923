/* SPDX-License-Identifier: MIT */
/* How a client ends: drained, taken down, freed. */
#ifndef LW_ENDING_H
#define LW_ENDING_H

struct lw_client;

void lw__ending_drained(struct lw_client *client); /* less is open: closing may be over */
void lw__ending_closed(struct lw_client *client);  /* closing is over: no loop any more */
/* No claim, no command, no event remains; handles stay, inert. */
void lw__ending_take_down(struct lw_client *client);
/* Ends its memory if it is freed and no callback runs. */
void lw__ending_unref(struct lw_client *client);
#endif

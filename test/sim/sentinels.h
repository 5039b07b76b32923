/* SPDX-License-Identifier: MIT
 *
 * The sentinels, for the files that change roles and connect hosts. See sentinels.c.
 */
#ifndef LW_SIM_SENTINELS_H
#define LW_SIM_SENTINELS_H

#include "world.h"

#define SENTINEL_PASSWORD "s3cret"

void sentinels_begin(void);
void sentinels_end(void);
void sentinels_heal(void);
void sentinels_switch(unsigned master); /* it is the master from now on */
void sentinels_see_down(void);          /* the master seems to be dead */
void sentinels_trouble(void);           /* puts one sentinel, or all, into trouble */
bool sentinels_refuse(unsigned which);
int64_t sentinels_frozen_until(unsigned which);
/* Returns false if most sentinels reply, the best informed of them reports another
 * master, and no sentinel has changed for so long. */
bool sentinels_lead_to(unsigned server, int64_t for_us);
/* Returns true if all have known the present master for so long, and reported it. */
bool sentinels_agree(int64_t for_us);
const char *sentinels_url(void); /* the URL that hosts are given */
/* Returns the server at that address, or SERVERS plus the index of the sentinel. No host
 * may connect to the master of another installation, which only unlisted ones name. */
unsigned sentinels_place(const char *host, int port);

#endif

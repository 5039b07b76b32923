/* SPDX-License-Identifier: MIT
 *
 * The sentinels, for who has roles change, and who has hosts connect. See sentinels.c.
 */
#ifndef LW_SIM_SENTINELS_H
#define LW_SIM_SENTINELS_H

#include "world.h"

#define SENTINEL_PASSWORD "s3cret"
#define SENTINELS_FOREIGN "10.0.9.9"            /* another installation's master */
#define SENTINELS_NOWHERE (SERVERS + SENTINELS) /* where it is; nothing reaches that */

void sentinels_begin(void);
void sentinels_end(void);
void sentinels_heal(void);
void sentinels_switch(unsigned master); /* it is that from now on */
void sentinels_see_down(void);          /* the master seems to be dead */
void sentinels_trouble(void);           /* one of them is in trouble, or all are */
bool sentinels_refuse(unsigned which);
int64_t sentinels_frozen_until(unsigned which);
/* False: the one that knows best says that the master is another one, and nothing has
 * changed at any of them for so long. */
bool sentinels_lead_to(unsigned server, int64_t for_us);
/* All have known of the present master for so long, and said so. */
bool sentinels_agree(int64_t for_us);
const char *sentinels_url(void); /* what hosts are given */
/* Which of the servers is at that address; SERVERS and above: which sentinel. */
unsigned sentinels_place(const char *host, int port);

#endif

/* SPDX-License-Identifier: MIT
 *
 * The wires between hosts and servers, for the files that break them. See network.c.
 */
#ifndef LW_SIM_NETWORK_H
#define LW_SIM_NETWORK_H

#include "world.h"

struct wire {
    struct wire *next;
    int id;
    unsigned references; /* the socket, the connection, and each packet under way */
    struct host *host;
    unsigned server;  /* where it ends; SERVERS and above: at a sentinel */
    bool at_replica;  /* the server was a replica when it accepted the connection, */
    unsigned changes; /* after so many changes of roles */
    int fd;           /* our end; -1: the host's end is closed */
    struct model_conn *conn;
    bool accepted, has_output, down_ended;
    bool up_dead, down_dead; /* packets are lost, and neither end notices */
    int64_t up_us, down_us;  /* when the last packet arrives */
    int64_t begun_us;
};

extern struct wire *wires; /* newest first */

void wire_reset(struct wire *wire, bool server_too);
void wire_clog(struct wire *wire, bool up, int64_t until_us);
/* Until then half of the hosts reach only that server. */
void network_cut_off(unsigned server, int64_t until_us);
void network_bury(void);  /* servers notice connections whose host end is closed */
void network_flush(void); /* sends what the server has put out by itself */
/* Returns true if the host has a connection to that server from before that time. */
bool network_joins(const struct host *host, unsigned server, int64_t before_us);

#endif

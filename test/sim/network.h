/* SPDX-License-Identifier: MIT
 *
 * The wires, for who breaks them. See network.c.
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
    bool led;         /* a sentinel led here, and ROLE is asked */
    bool at_replica;  /* that was none when the connection was accepted, */
    unsigned changes; /* after so many changes of roles */
    int fd;           /* our end; -1: the host's end is closed */
    struct model_conn *conn;
    bool accepted, has_output, down_ended;
    bool up_dead, down_dead; /* nothing gets through any more, and nobody is told */
    int64_t up_us, down_us;  /* when the last packet arrives */
    int64_t begun_us;
};

extern struct wire *wires; /* the newest first */

void wire_reset(struct wire *wire, bool server_too);
void wire_clog(struct wire *wire, bool up, int64_t until_us);
/* Half of the hosts reach only that server until then. */
void network_cut_off(unsigned server, int64_t until_us);
void network_bury(void);  /* the server notices whose host is gone */
void network_flush(void); /* the server did something by itself */
/* The host has a connection to that server from before that time. */
bool network_joins(const struct host *host, unsigned server, int64_t before_us);

#endif

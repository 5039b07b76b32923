/* SPDX-License-Identifier: MIT */
/*
 * gated.h's gates. Independent of the clients.
 *
 * Usual course: gates in front of ports at which no node listens yet, nodes that announce
 * the gates' ports, rules.
 */
#include "gated.h"
#include "proxy.h"

#include <stdio.h>

#define HOST 10 /* of 127.0.0.<n>, the source address of the first node */
#define CLIENTS 1

static struct {
    struct proxy *ports[CLUSTER_MOST], *buses[CLUSTER_MOST];
} gates;

static struct cluster_told tell(int node, int port, int bus_port)
{
    struct cluster_told told;

    gates.ports[node] = proxy_start_at_port(port);
    gates.buses[node] = proxy_start_at_port(bus_port);
    told.port = gates.ports[node]->port;
    told.bus_port = gates.buses[node]->port;
    (void)snprintf(told.from, sizeof(told.from), "127.0.0.%d", HOST + node);
    return told;
}

void gated_set(int masters, int replicas)
{
    cluster_set_told(masters, replicas, "", tell);
}

/* A gate is in front of the node that accepts a connection, and each node connects to the
 * other one. */
static void part(struct proxy *const *all, int node, bool on)
{
    for (int other = 0; other < cluster_count(); other++) {
        if (other != node) {
            proxy_part(all[node], HOST + other, on);
            proxy_part(all[other], HOST + node, on);
        }
    }
}

void gated_part(int node, bool on)
{
    cluster_leave_out(node, on);
    part(gates.buses, node, on);
}

void gated_part_streams(int node, bool on)
{
    part(gates.ports, node, on);
}

void gated_keep_clients_at(int node, bool on)
{
    for (int other = 0; other < cluster_count(); other++) {
        if (other != node) {
            proxy_part(gates.ports[other], CLIENTS, on);
        }
    }
}

/* SPDX-License-Identifier: MIT
 *
 * The wires between the hosts and the model servers. A host has one end of a socket pair,
 * this file the other. Bytes that enter at one side leave at the other as packets of the
 * agenda: late, in pieces, or never. Independent of RESP, except to recognize messages,
 * and of locks.
 *
 * Usual course: network_connect() makes a wire. The server accepts when the first packet
 * arrives. network_collect() takes the bytes that a host has written. The model server
 * reports by on_output() which connections have output. The order within a direction is
 * kept.
 */
#include "network.h"

#include "nodes.h"
#include "sentinels.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct packet {
    struct wire *wire;
    bool up;  /* to the server */
    bool end; /* nothing follows */
    size_t len;
    char data[];
};

struct wire *wires;
static int wire_count;

static bool sometimes(unsigned in_thousand)
{
    return !world.healed && rng_chance(&world.rng, in_thousand);
}

static int64_t travel_us(bool of_message)
{
    const struct plan *plan = &world.plan;
    int64_t us = plan->latency_us + rng_between(&world.rng, 0, plan->jitter_us);

    if (sometimes(of_message ? plan->late : plan->slow)) {
        us += rng_between(&world.rng, 0, plan->slow_us);
    }
    return us;
}

/* Frees wires without references. */
static void sweep(void)
{
    struct wire **at = &wires;

    while (*at != NULL) {
        struct wire *wire = *at;

        if (wire->references > 0) {
            at = &wire->next;
            continue;
        }
        *at = wire->next;
        free(wire);
    }
}

static void hang_up(struct wire *wire)
{
    if (wire->fd < 0) {
        return;
    }
    close(wire->fd);
    wire->fd = -1;
    wire->host->ready = true;
    wire->references--;
}

static void forget_conn(struct wire *wire)
{
    if (wire->conn == NULL) {
        return;
    }
    model_conn_free(wire->conn);
    wire->conn = NULL;
    wire->references--;
}

static void send_packet(struct wire *wire, bool up, bool end, const char *data,
                        size_t len);

static bool is_message(const struct wire *wire, bool up, const char *data, size_t len)
{
    static const char begin[] = "*3\r\n$7\r\nmessage\r\n",
                      of_slot[] = "*3\r\n$8\r\nsmessage\r\n";

    return !up && wire->conn != NULL && model_conn_subscribed(wire->conn) &&
           ((len >= sizeof(begin) - 1 && memcmp(data, begin, sizeof(begin) - 1) == 0) ||
            (len >= sizeof(of_slot) - 1 &&
             memcmp(data, of_slot, sizeof(of_slot) - 1) == 0));
}

/* Messages are hints: some never come, some come twice. */
static void send_messages(struct wire *wire, struct bytes messages)
{
    if (sometimes(world.plan.muted)) {
        trace("w%d does not get its messages", wire->id);
        return;
    }
    send_packet(wire, false, false, messages.data, messages.len);
    if (sometimes(world.plan.twice)) {
        send_packet(wire, false, false, messages.data, messages.len);
    }
}

/* Sends the output of all connections. */
static void send_output(void)
{
    for (struct wire *wire = wires; wire != NULL; wire = wire->next) {
        struct bytes output;

        if (wire->conn == NULL || !wire->has_output) {
            continue;
        }
        wire->has_output = false;
        output = model_conn_output(wire->conn);
        if (is_message(wire, false, output.data, output.len)) {
            send_messages(wire, output);
        } else if (output.len) {
            send_packet(wire, false, false, output.data, output.len);
        }
        model_conn_consume(wire->conn, output.len);
        if (model_conn_closing(wire->conn) && !wire->down_ended) {
            wire->down_ended = true;
            send_packet(wire, false, true, NULL, 0);
        }
    }
}

static void on_output(struct model_conn *conn, void *arg)
{
    struct wire *wire = model_conn_user(conn);

    (void)arg;
    if (wire != NULL) {
        wire->has_output = true;
    }
}

static struct model_server *end_of(const struct wire *wire)
{
    return wire->server < SERVERS ? world.servers[wire->server]
                                  : world.sentinels[wire->server - SERVERS];
}

static int64_t frozen_until(const struct wire *wire)
{
    return wire->server < SERVERS ? servers_frozen_until(wire->server)
                                  : sentinels_frozen_until(wire->server - SERVERS);
}

static void accept_wire(struct wire *wire)
{
    wire->accepted = true;
    wire->conn = model_server_connect(end_of(wire));
    wire->at_replica = wire->server < SERVERS && model_server_is_replica(end_of(wire));
    wire->changes = servers_changes();
    wire->references++;
    model_conn_set_user(wire->conn, wire);
    wire->has_output = true;
}

static void arrive_up(struct packet *packet)
{
    struct wire *wire = packet->wire;

    if (packet->end) {
        forget_conn(wire);
        return;
    }
    if (!wire->accepted) {
        accept_wire(wire);
    }
    if (wire->conn == NULL) {
        return;
    }
    trace_bytes("> w", wire->id, packet->data, packet->len);
    check_greeted(wire, (struct bytes){packet->data, packet->len});
    model_conn_feed(wire->conn, packet->data, packet->len);
    servers_ran(wire->server);
    check_keys();
}

static void arrive_down(struct packet *packet)
{
    struct wire *wire = packet->wire;
    ssize_t written;

    if (packet->end) {
        forget_conn(wire);
        hang_up(wire);
        return;
    }
    if (wire->fd < 0) {
        return;
    }
    trace_bytes("< w", wire->id, packet->data, packet->len);
    written = send(wire->fd, packet->data, packet->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written >= 0 && (size_t)written != packet->len) {
        violation("the simulator's socket is full");
    }
    wire->host->ready = true;
    check_told_turn(wire, (struct bytes){packet->data, packet->len});
    if (sometimes(world.plan.startled)) {
        host_stall(wire->host,
                   world.now_us + rng_between(&world.rng, 1, world.plan.stall_us));
    }
}

static void arrive(void *arg)
{
    struct packet *packet = arg;
    struct wire *wire = packet->wire;

    if (packet->up && frozen_until(wire) > world.now_us) {
        agenda_add(frozen_until(wire), arrive, packet);
        return;
    }
    if (packet->up) {
        arrive_up(packet);
    } else {
        arrive_down(packet);
    }
    free(packet);
    wire->references--;
    send_output();
    if (wire->references == 0) {
        sweep();
    }
}

/* Returns true if the wire's packets arrive only after a partition. The host gives the
 * connection up before that. */
static bool is_cut_off(const struct wire *wire)
{
    return !world.healed && wire->host->cut_off_until_us > world.now_us &&
           wire->server != wire->host->cut_off_with;
}

static bool is_slow_question(bool up, const char *data, size_t len)
{
    static const char key[] = "lockwire:guard";

    return world.plan.besieged && up && len > 0 &&
           memmem(data, len, key, strlen(key)) != NULL && sometimes(400);
}

static void send_one(struct wire *wire, bool up, bool end, const char *data, size_t len)
{
    struct packet *packet = must_alloc(sizeof(*packet) + len);
    int64_t *last_us = up ? &wire->up_us : &wire->down_us;
    int64_t at_us = world.now_us + travel_us(is_message(wire, up, data, len));

    if (up ? wire->up_dead : wire->down_dead) {
        free(packet);
        return;
    }
    *packet = (struct packet){wire, up, end, len};
    if (len) {
        memcpy(packet->data, data, len);
    }
    wire->references++;
    *last_us = at_us > *last_us ? at_us : *last_us;
    if (is_slow_question(up, data, len)) {
        *last_us += rng_between(&world.rng, 1, 4500 * MS);
    }
    if (is_cut_off(wire) && *last_us < wire->host->cut_off_until_us) {
        *last_us = wire->host->cut_off_until_us + at_us - world.now_us;
    }
    agenda_add(*last_us, arrive, packet);
}

static void send_packet(struct wire *wire, bool up, bool end, const char *data,
                        size_t len)
{
    while (len > 1 && rng_chance(&world.rng, world.plan.split)) {
        size_t piece = (size_t)rng_between(&world.rng, 1, (int64_t)len - 1);

        send_one(wire, up, false, data, piece);
        data += piece;
        len -= piece;
    }
    send_one(wire, up, end, data, len);
}

/* Returns which end has that address. Hosts that connect to a socket path use one name
 * for all servers. */
static unsigned end_at(const struct sockaddr *address)
{
    const struct sockaddr_in *inet = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *inet6 = (const struct sockaddr_in6 *)address;
    char host[INET6_ADDRSTRLEN];

    if (address->sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &inet6->sin6_addr, host, sizeof(host));
        return nodes_place(host, ntohs(inet6->sin6_port));
    }
    if (address->sa_family != AF_INET) {
        return servers_route();
    }
    inet_ntop(AF_INET, &inet->sin_addr, host, sizeof(host));
    if (world.plan.quorum) {
        return servers_place(host);
    }
    return world.plan.clustered ? nodes_place(host, ntohs(inet->sin_port))
                                : sentinels_place(host, ntohs(inet->sin_port));
}

static bool refuses(unsigned end)
{
    if (end == NODES_NOWHERE) {
        return true;
    }
    return end < SERVERS ? servers_refuse(end) : sentinels_refuse(end - SERVERS);
}

int network_connect(int fd, const struct sockaddr *address)
{
    unsigned server = end_at(address);
    struct wire *wire;
    int pair[2];

    if (server < SERVERS && !world.plan.clustered && !world.plan.quorum) {
        check_way(world.current, server);
    }
    if (refuses(server)) {
        errno = ECONNREFUSED;
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        violation("socketpair: %s", strerror(errno));
    }
    dup3(pair[0], fd, O_CLOEXEC);
    close(pair[0]);
    wire = must_alloc(sizeof(*wire));
    wire->id = ++wire_count;
    wire->fd = pair[1];
    wire->references = 1;
    wire->host = world.current;
    wire->begun_us = world.now_us;
    wire->server = server;
    wire->next = wires;
    wires = wire;
    trace("w%d connects to %s%u", wire->id, server < SERVERS ? "s" : "sentinel ",
          server < SERVERS ? server : server - SERVERS);
    return 0;
}

static void collect(struct wire *wire)
{
    char data[65536];
    ssize_t len;

    while ((len = recv(wire->fd, data, sizeof(data), MSG_DONTWAIT)) > 0) {
        send_packet(wire, true, false, data, (size_t)len);
    }
    if (len < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    trace("w%d hung up by its host", wire->id);
    send_packet(wire, true, true, NULL, 0);
    hang_up(wire);
}

/* Returns the wire at which to go on, or NULL. One poll serves many wires, since most of
 * them have sent nothing. */
static struct wire *collect_some(const struct host *host, struct wire *wire)
{
    enum { ROOM = 64 };
    struct wire *some[ROOM];
    struct pollfd fds[ROOM];
    nfds_t count = 0;

    for (; wire != NULL && count < ROOM; wire = wire->next) {
        if (wire->host == host && wire->fd >= 0) {
            some[count] = wire;
            fds[count++] = (struct pollfd){.fd = wire->fd, .events = POLLIN};
        }
    }
    if (count > 0 && poll(fds, count, 0) < 0) {
        violation("poll: %s", strerror(errno));
    }
    for (nfds_t i = 0; i < count; i++) {
        if (fds[i].revents) {
            collect(some[i]);
        }
    }
    return wire;
}

void network_collect(const struct host *host)
{
    for (struct wire *wire = wires; wire != NULL;) {
        wire = collect_some(host, wire);
    }
    sweep();
}

void wire_reset(struct wire *wire, bool server_too)
{
    trace("w%d is reset%s", wire->id, server_too ? "" : ", the server does not know yet");
    if (server_too) {
        forget_conn(wire);
        wire->up_dead = true;
    } else {
        send_packet(wire, true, true, NULL, 0);
    }
    wire->down_dead = true;
    hang_up(wire);
}

/* Delays packets from now on until after `until_us`. */
void wire_clog(struct wire *wire, bool up, int64_t until_us)
{
    int64_t *last_us = up ? &wire->up_us : &wire->down_us;

    trace("w%d is clogged %s for %.3f ms", wire->id, up ? "up" : "down",
          (double)(until_us - world.now_us) / 1000);
    if (until_us > *last_us) {
        *last_us = until_us;
    }
}

void network_cut_off(unsigned server, int64_t until_us)
{
    for (unsigned i = 0; i < world.plan.hosts; i++) {
        if (rng_chance(&world.rng, 500)) {
            trace(server < SERVERS ? "h%u reaches only s%u for %.3f ms"
                                   : "h%u reaches no server (%u) for %.3f ms",
                  i, server, (double)(until_us - world.now_us) / 1000);
            world.hosts[i].cut_off_until_us = until_us;
            world.hosts[i].cut_off_with = server;
        }
    }
}

void network_bury(void)
{
    for (struct wire *wire = wires; wire != NULL; wire = wire->next) {
        if (wire->fd < 0) {
            forget_conn(wire);
        }
    }
    sweep();
}

void network_flush(void)
{
    send_output();
}

bool network_joins(const struct host *host, unsigned server, int64_t before_us)
{
    for (const struct wire *wire = wires; wire != NULL; wire = wire->next) {
        if (wire->host == host && wire->server == server && wire->fd >= 0 &&
            wire->begun_us <= before_us) {
            return true;
        }
    }
    return false;
}

void network_begin(void)
{
    wire_count = 0;
    for (unsigned i = 0; i < world.plan.servers; i++) {
        model_server_on_output(world.servers[i], on_output, NULL);
    }
    for (unsigned i = 0; i < SENTINELS && world.plan.watched; i++) {
        model_server_on_output(world.sentinels[i], on_output, NULL);
    }
}

void network_end(void)
{
    for (struct wire *wire = wires; wire != NULL; wire = wire->next) {
        forget_conn(wire);
        hang_up(wire);
    }
    sweep();
}

/* SPDX-License-Identifier: MIT */
/*
 * A man in the middle, in the stage's own loop: clients connect to the proxy, and the
 * proxy to the real server. Owns both sockets of each connection. For each direction and
 * each kind of link it can delay, hold back or discard the bytes, cut the connection, or
 * close the client's side alone. A link is a subscription from its first SUBSCRIBE on.
 * New connections may be sent to another server, or to two in turn; old ones keep theirs.
 * The proxy knows only the words SUBSCRIBE and `message` of Redis. Servers and sentinels
 * that connect through it come from addresses other than 127.0.0.1, and are a kind of
 * their own.
 *
 * If the stage's server has TLS (secure.h), so has the proxy on the client's side: it
 * holds or discards plain text then, and before the handshake is complete the bytes of
 * TLS. A proxy in front of a port, a cluster's node for example, passes bytes on and does
 * no TLS itself.
 *
 * Usual course: proxy_start, peer_start_at("a", proxy->url, NULL), proxy_swallow(...).
 */
#ifndef TEST_PROXY_H
#define TEST_PROXY_H
#include "stage.h"

enum proxy_kind { COMMANDS = 0, SUBSCRIPTION = 1, SERVERS = 2, PROXY_KINDS };
enum proxy_way { TO_SERVER = 0, TO_CLIENT = 1, PROXY_WAYS };

struct proxy_rule {
    int64_t delay_ms;
    bool hold, swallow;
};

struct proxy_pair;
struct proxy {
    struct proxy *next;
    struct event *listening;
    const char *target; /* the server's unix socket */
    const char *other;  /* for every second connection, if not NULL */
    const char *listen; /* the server that subscriptions must reach, if not NULL */
    int target_port;    /* of 127.0.0.1, in place of all of these; 0: unused */
    uint64_t apart;     /* a bit for each 127.0.0.<n> that is cut off */
    char url[128];
    char path[96];    /* of its own unix socket; "" with TCP */
    int port, keeper; /* the socket that reserves the port; 0: none */
    bool refusing;
    struct proxy_rule rules[PROXY_KINDS][PROXY_WAYS];
    struct proxy_pair *pairs;
    int accepted, open;
    int subscriptions; /* made so far, including those that ended */
    int messages;      /* that arrived; several at once count as one */
    long long bytes[PROXY_KINDS][PROXY_WAYS]; /* that arrived, passed on or not */
};

/* Listens on a unix socket, or with `tcp` (and always with TLS) on 127.0.0.1. */
struct proxy *proxy_start(const char *target, bool tcp);
/* Listens on any port of 127.0.0.1, for any protocol and any client. */
struct proxy *proxy_start_at_port(int target_port);
/* Ends the listener and all connections; the end of the test does the same. */
void proxy_stop(struct proxy *proxy);

void proxy_delay(struct proxy *proxy, enum proxy_kind kind, enum proxy_way way,
                 int64_t ms);
/* Holds everything back until it is called with false: then all of it passes, in
 * order. */
void proxy_hold(struct proxy *proxy, enum proxy_kind kind, enum proxy_way way, bool on);
/* The same in both directions for connections from 127.0.0.<host>, host below 64. */
void proxy_part(struct proxy *proxy, int host, bool on);
/* Discards the bytes that come; the connection stays open. */
void proxy_swallow(struct proxy *proxy, enum proxy_kind kind, enum proxy_way way,
                   bool on);
/* Sends new connections to `target`; with `other` to the two in turn, as a balancer
 * does. */
void proxy_lead(struct proxy *proxy, const char *target, const char *other);
/* Cuts each subscription at a server other than `target` as it begins, so that clients
 * must try again until they reach `target`. NULL: any server will do. */
void proxy_listen_only(struct proxy *proxy, const char *target);
/* Ends connections of this kind with a reset for the client only. The server notices
 * nothing, and what it sends is lost: half-open until the server closes or the proxy
 * stops. */
void proxy_desert(struct proxy *proxy, enum proxy_kind kind);
/* Discards all kinds in both directions, also for new connections: a black hole. */
void proxy_black_hole(struct proxy *proxy, bool on);
/* Ends connections of this kind with a reset; bytes that are held back are lost. */
void proxy_cut(struct proxy *proxy, enum proxy_kind kind);
/* Closes new connections at once. */
void proxy_refuse(struct proxy *proxy, bool on);
/* Returns the number of connections of that kind. */
int proxy_count(const struct proxy *proxy, enum proxy_kind kind);

#endif

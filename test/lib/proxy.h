/* SPDX-License-Identifier: MIT */
/*
 * A man in the middle, in the stage's own loop: clients connect to the proxy, it to the
 * real server. Owns both sockets of each connection and can, for each direction and for
 * each kind of link (a link is a subscription from the first SUBSCRIBE in it on), delay,
 * hold back, swallow what passes, cut, and hang up on the client alone. New connections
 * may be sent to another server, or to two in turn; old ones stay where they are. Knows
 * of Redis that word and `message` alone. Servers and sentinels that pass here as well
 * come from addresses other than 127.0.0.1, and are a kind of their own.
 *
 * Where the stage's server has TLS (secure.h), so has the proxy: on the client's side,
 * and what is held or swallowed is what was said. Before hands are shaken it is the
 * bytes. One in front of a port knows bytes alone, and no TLS: those of a cluster's
 * nodes, say.
 *
 * Happy path: proxy_start, peer_start_at("a", proxy->url, NULL), proxy_swallow(...).
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
    const char *other;  /* where every second connection goes, if not NULL */
    const char *listen; /* where subscriptions must stand, if not NULL */
    int target_port;    /* of 127.0.0.1, in place of all of these; 0: none */
    uint64_t apart;     /* a bit for each 127.0.0.<n> with which nothing is exchanged */
    char url[128];
    char path[96];    /* of its own unix socket; "" with TCP */
    int port, keeper; /* which keeps the port until the test ends; 0: there is none */
    bool refusing;
    struct proxy_rule rules[PROXY_KINDS][PROXY_WAYS];
    struct proxy_pair *pairs;
    int accepted, open;
    int subscriptions; /* that were made, those that ended included */
    int messages;      /* that came to be passed on; several at once count as one */
    long long bytes[PROXY_KINDS][PROXY_WAYS]; /* that came in, passed on or not */
};

/* On a unix socket, or with `tcp` (and always with TLS) on 127.0.0.1. */
struct proxy *proxy_start(const char *target, bool tcp);
/* On any port of 127.0.0.1, whatever is said there, by whomever. */
struct proxy *proxy_start_at_port(int target_port);
/* The listener and all connections; the end of the test does the same. */
void proxy_stop(struct proxy *proxy);

void proxy_delay(struct proxy *proxy, enum proxy_kind kind, enum proxy_way way,
                 int64_t ms);
/* Nothing passes until it is called with false: then all of it, in order. */
void proxy_hold(struct proxy *proxy, enum proxy_kind kind, enum proxy_way way, bool on);
/* The same of those who come from 127.0.0.<host>, below 64, both ways. */
void proxy_part(struct proxy *proxy, int host, bool on);
/* What comes is lost, and the connection stays. */
void proxy_swallow(struct proxy *proxy, enum proxy_kind kind, enum proxy_way way,
                   bool on);
/* Connections to come lead there; with `other` to the two in turn, as a balancer's. */
void proxy_lead(struct proxy *proxy, const char *target, const char *other);
/* A subscription at another server is cut as it begins, until the clients' luck leads it
 * to this one. NULL: wherever it is. */
void proxy_listen_only(struct proxy *proxy, const char *target);
/* Connections of this kind end with a reset for the client; the server is not told, and
 * what it says is lost: half-open until the server hangs up or the proxy stops. */
void proxy_desert(struct proxy *proxy, enum proxy_kind kind);
/* All kinds, both ways: the black hole, for connections to come, too. */
void proxy_black_hole(struct proxy *proxy, bool on);
/* Connections of this kind end with a reset; what is held back is lost. */
void proxy_cut(struct proxy *proxy, enum proxy_kind kind);
/* New connections are closed at once. */
void proxy_refuse(struct proxy *proxy, bool on);
/* How many of that kind there are. */
int proxy_count(const struct proxy *proxy, enum proxy_kind kind);

#endif

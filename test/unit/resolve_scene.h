/* SPDX-License-Identifier: MIT */
/*
 * For the tests of lookups: a loop whose only name server is the test's own, which
 * answers by the beginning of the name in the query, and the addresses found as words.
 *
 * Usual course: lookup_play_server, lookup_find, scene->found is "10.0.0.1 2001::6 ...".
 */
#ifndef TEST_RESOLVE_SCENE_H
#define TEST_RESOLVE_SCENE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/address.h"
#include "loop/resolve.h"
#include "loop/loop.h"

#include <event2/dns.h>
#include <event2/event.h>

struct scene {
    int status; /* expected of a failure; 0: LW_ECONN */
    struct event_base *base;
    struct lw__loop *loop;
    struct lw__resolve *lookup;
    struct evdns_server_port *server;
    char found[512];
    bool called;
    int asked, mute_until; /* late: the queries that get no answer */
    void (*meanwhile)(struct scene *scene);
    struct lw__timer timer;
    uint32_t patience_ms;
    char file[40], address[32]; /* in place of /etc/resolv.conf; its server */
};

int lookup_set_up(void **state);
int lookup_tear_down(void **state);
/* Returns a socket on a port of the loopback, whose address is written to `ret`. */
int lookup_open_port(char *ret, size_t size);
/* From now on the file names these servers, in this order; the second may be NULL. */
void lookup_name_servers(struct scene *scene, const char *first, const char *second);
/* Makes the test's own server the only one. By the name, its answer is: silent: none;
 * late: none until `mute_until` queries came; only4: none for IPv6; nobody: no such name;
 * no6: no such name for IPv6, no address for IPv4; just4: no address for IPv6; empty: no
 * address; otherwise both families. */
void lookup_play_server(struct scene *scene);
void lookup_start(struct scene *scene, const char *host);
/* Runs the loop until `*what` is true, and so many queries came. */
void lookup_await(struct scene *scene, const bool *what, int asked);
void lookup_find(struct scene *scene, const char *host);
#endif

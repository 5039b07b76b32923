/* SPDX-License-Identifier: MIT */
/*
 * For the tests of look-ups: a loop whose only name server is the test's own, which
 * answers by the beginning of the name it is asked for, and what was found as words.
 * Test-only.
 *
 * Happy path: lookup_play_server, lookup_find, scene->found is "10.0.0.1 2001::6 ...".
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
    int status; /* that a failure is to have; 0: LW_ECONN */
    struct event_base *base;
    struct lw__loop *loop;
    struct lw__resolve *lookup;
    struct evdns_server_port *server;
    char found[512];
    bool called;
    int asked, mute_until; /* late: no answer to so many questions */
    void (*meanwhile)(struct scene *scene);
    struct lw__timer timer;
    uint32_t patience_ms;
    char file[40], address[32]; /* in place of /etc/resolv.conf, and what it names */
};

int lookup_set_up(void **state);
int lookup_tear_down(void **state);
/* A socket on a port of the loopback, whose address is written to `ret`. */
int lookup_open_port(char *ret, size_t size);
/* The file names these servers, in this order, from now on; the second may be NULL. */
void lookup_name_servers(struct scene *scene, const char *first, const char *second);
/* Only we are asked. silent: no answer; late: none until `mute_until` were asked; only4:
 * none of IPv6; nobody: no such name; no6: no such name of IPv6, nothing of IPv4; just4:
 * nothing of IPv6; empty: nothing; else both. */
void lookup_play_server(struct scene *scene);
void lookup_start(struct scene *scene, const char *host);
/* Turns the loop until that is so, and so many questions came. */
void lookup_await(struct scene *scene, const bool *what, int asked);
void lookup_find(struct scene *scene, const char *host);
#endif

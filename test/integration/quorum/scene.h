/* SPDX-License-Identifier: MIT */
/*
 * The servers of a quorum, each behind a proxy, and what they store. Independent of what
 * a test does with them.
 *
 * A test calls quorum_start(3), quorum_peer("a"), and acts; the end of the test stops the
 * servers. */
#ifndef TEST_QUORUM_SCENE_H
#define TEST_QUORUM_SCENE_H
#include "players.h"
#include "proxy.h"

#define QUORUM_MOST 7
#define QUORUM_GUARD_MS 45000 /* the default of a quorum's clients */

extern struct server quorum_server[QUORUM_MOST];
extern struct proxy *quorum_proxy[QUORUM_MOST];
extern char quorum_url[512];

/* Called, if not NULL, before each server is started. */
extern void (*quorum_before_start)(int server);
/* Starts `count` servers, which grant locks at once. */
void quorum_start(int count);
/* Writes quorum_url again, for the first `count` proxies. */
void quorum_list(int count);
/* Starts a client of the quorum. Unless `options` are given, waits until it is connected
 * to all servers. */
struct peer *quorum_peer(const char *label, const struct lw_client_options *options);
/* Acquires the name, waits for the grant, and clears the trace. */
struct hold *quorum_take(struct peer *peer, const char *label, const char *name);
/* Returns the value of a key at this server, "" if it is absent; valid until the next
 * call. */
const char *quorum_value(int server, const char *key);
/* Returns at how many servers that run the key exists. */
int quorum_count(const char *key);
/* Returns how many members wait in the queue of the name at this server. */
long long quorum_queued(int server, const char *name);
/* Ends the server, and starts it again without any data. It grants locks at once. */
void quorum_restart_empty(int server);
/* Checks that lw_lock_errstr contains this text. */
void quorum_says(const struct hold *hold, const char *text);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * pair.h's two servers. Independent of their clients.
 *
 * Usual course of a role change: the follower is in sync, the leader accepts no writes,
 * the follower has everything, it leads, the old leader follows.
 */
#include "pair.h"
#include "clocks.h"
#include "stage.h"

#include <stdio.h>
#include <string.h>

#define PAUSE_MS 20000 /* CLIENT UNPAUSE ends it earlier, if nothing fails */

static struct server second;
static int ports[2]; /* of the stage's server and of the second */
static int leading;

struct server *pair_leader(void)
{
    return leading == 0 ? &stage.server : &second;
}

struct server *pair_follower(void)
{
    return leading == 0 ? &second : &stage.server;
}

static bool says(struct server *server, const char *text)
{
    redisReply *reply = server_command(server, "INFO replication");
    bool yes = strstr(reply->str, text) != NULL;

    freeReplyObject(reply);
    return yes;
}

static long long number_of(struct server *server, const char *field)
{
    redisReply *reply = server_command(server, "INFO replication");
    const char *at = strstr(reply->str, field);
    long long number = at != NULL ? atoll(at + strlen(field)) : -1;

    freeReplyObject(reply);
    return number;
}

static void tell(struct server *server, const char *command)
{
    freeReplyObject(server_command(server, command));
}

static void follow(struct server *server, int port)
{
    freeReplyObject(server_command(server, "REPLICAOF 127.0.0.1 %d", port));
}

static bool in_step(void)
{
    return says(pair_leader(), "state=online") &&
           says(pair_leader(), "master_failover_state:no-failover") &&
           says(pair_follower(), "master_link_status:up");
}

void pair_stand(void)
{
    UNTIL(in_step());
}

static void prepare(struct server *server, int *port)
{
    *port = server_listen(server);
    tell(server, "CONFIG SET repl-diskless-sync-delay 0");
}

int pair_open(void **state)
{
    stage_open(state);
    clocks_open();
    clocks_of_children(true);
    server_start(&second, NULL);
    clocks_of_children(false);
    prepare(&stage.server, &ports[0]);
    prepare(&second, &ports[1]);
    return 0;
}

int pair_close(void **state)
{
    server_stop(&second);
    clocks_close();
    return stage_close(state);
}

static void set_clock(int64_t ahead_s)
{
    *clock_seconds = ahead_s;
    UNTIL(llabs(clock_of(&second) - clock_of(&stage.server) - ahead_s) <= 1);
}

void pair_set(int64_t ahead_s)
{
    tell(&second, "CLIENT UNPAUSE");
    tell(&stage.server, "CLIENT UNPAUSE");
    tell(&second, "SCRIPT FLUSH");
    set_clock(ahead_s);
    leading = 0;
    follow(&second, ports[0]);
    pair_stand();
}

static bool is_complete(void)
{
    return number_of(pair_leader(), "master_repl_offset:") ==
           number_of(pair_follower(), "slave_repl_offset:");
}

void pair_agree(void)
{
    UNTIL(is_complete());
}

static void change_leader(void)
{
    leading = !leading;
    UNTIL(says(pair_leader(), "role:master") && says(pair_follower(), "role:slave"));
}

void pair_fail_over(void)
{
    pair_stand();
    freeReplyObject(
        server_command(pair_leader(), "FAILOVER TO 127.0.0.1 %d", ports[!leading]));
    change_leader();
}

void pair_swap(void)
{
    struct server *old = pair_leader();

    pair_stand();
    freeReplyObject(server_command(old, "CLIENT PAUSE %d WRITE", PAUSE_MS));
    pair_agree();
    tell(pair_follower(), "REPLICAOF NO ONE");
    follow(old, ports[!leading]);
    tell(old, "CLIENT UNPAUSE");
    change_leader();
}

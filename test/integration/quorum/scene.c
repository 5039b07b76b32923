/* SPDX-License-Identifier: MIT */
/* See scene.h. */
#include "scene.h"

#include "guard_record.h"

#include <stdio.h>
#include <string.h>

struct server quorum_server[QUORUM_MOST];
struct proxy *quorum_proxy[QUORUM_MOST];
char quorum_url[512];
void (*quorum_before_start)(int server);
static int servers;

static void stop_all(bool in_good_order)
{
    (void)in_good_order;
    for (int i = 0; i < servers; i++) {
        if (quorum_server[i].dir[0] != 0) { /* also a killed one */
            server_resume(&quorum_server[i]);
            server_stop(&quorum_server[i]);
        }
    }
    servers = 0;
}

void quorum_list(int count)
{
    int length = snprintf(quorum_url, sizeof(quorum_url), "redis-quorum://");

    for (int i = 0; i < count; i++) {
        length += snprintf(quorum_url + length, sizeof(quorum_url) - (size_t)length,
                           "%s127.0.0.1:%d", i > 0 ? "," : "", quorum_proxy[i]->port);
    }
}

void quorum_start(int count)
{
    stage_at_exit(stop_all);
    stage.keys_may_stay = stage.notes_may_stay = true;
    for (servers = 0; servers < count; servers++) {
        if (quorum_before_start != NULL) {
            quorum_before_start(servers);
        }
        server_start(&quorum_server[servers], NULL);
        guard_record_open_in(&quorum_server[servers], QUORUM_GUARD_MS, 0);
        quorum_proxy[servers] = proxy_start(quorum_server[servers].path, true);
    }
    quorum_list(count);
}

static bool has_all(struct peer *peer)
{
    for (int i = 0; i < servers; i++) {
        if (quorum_server[i].running && proxy_count(quorum_proxy[i], SUBSCRIPTION) <
                                            (int)(1 + (peer->next != NULL))) {
            return false;
        }
    }
    return peer->up && peer_stats(peer).subscription_up;
}

struct peer *quorum_peer(const char *label, const struct lw_client_options *options)
{
    struct peer *peer = peer_start_at(
        label, quorum_url,
        options != NULL ? options : client_of(.local_turns = 1, .backoff_max_ms = 100));

    if (options == NULL) {
        UNTIL(has_all(peer));
    }
    return peer;
}

struct hold *quorum_take(struct peer *peer, const char *label, const char *name)
{
    struct hold *hold = acquire_and_wait(peer, label, name);

    stage_clear_trace();
    return hold;
}

const char *quorum_value(int server, const char *key)
{
    static char text[256];
    redisReply *reply = server_command(&quorum_server[server], "GET %s", key);

    (void)snprintf(text, sizeof(text), "%s", reply->str != NULL ? reply->str : "");
    freeReplyObject(reply);
    return text;
}

int quorum_count(const char *key)
{
    int count = 0;

    for (int i = 0; i < servers; i++) {
        if (quorum_server[i].running && !quorum_server[i].paused) {
            redisReply *reply = server_command(&quorum_server[i], "EXISTS %s", key);

            count += reply->integer == 1;
            freeReplyObject(reply);
        }
    }
    return count;
}

long long quorum_queued(int server, const char *name)
{
    redisReply *reply =
        server_command(&quorum_server[server], "ZCARD %s", queue_of(name));
    long long count = reply->integer;

    freeReplyObject(reply);
    return count;
}

void quorum_restart_empty(int server)
{
    proxy_refuse(quorum_proxy[server], true);
    server_kill(&quorum_server[server]);
    server_restart(&quorum_server[server]);
    guard_record_open_in(&quorum_server[server], QUORUM_GUARD_MS, 0);
    proxy_refuse(quorum_proxy[server], false);
}

void quorum_says(const struct hold *hold, const char *text)
{
    if (strstr(lw_lock_errstr(hold->lock), text) == NULL) {
        stage_fail("\"%s\" does not say \"%s\"", lw_lock_errstr(hold->lock), text);
    }
}

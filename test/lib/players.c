/* SPDX-License-Identifier: MIT */
/*
 * players.h's clients: the calls, and the callbacks with the rules that each must keep;
 * handles.c has the handles. Independent of the tests.
 *
 * Usual course: peer_start, on_link writes the trace, peer_close, on_closed checks that
 * everything has ended.
 */
#include "players.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct peer *peers;
int players_in_call;

const char *status_name(int status)
{
    switch (status) {
#define NAME(name, value, text)                                                          \
    case name:                                                                           \
        return &#name[3];
        LW_ERROR_MAP(NAME)
#undef NAME
    default:
        return "?";
    }
}

static const char *prefix(void)
{
    return stage.prefix != NULL ? stage.prefix : "";
}

const char *key_of(const char *name)
{
    static char key[600];

    (void)snprintf(key, sizeof(key), "%s%s", prefix(), name);
    return key;
}

const char *queue_of(const char *name)
{
    static char key[600];

    (void)snprintf(key, sizeof(key), "%slockwire:2:queue:{%s%s}", prefix(), prefix(),
                   name);
    return key;
}

/* ---- the callbacks ---- */

static void add_line(char *text, size_t size, const char *line)
{
    size_t used = strlen(text);

    (void)snprintf(text + used, size - used, "%s\n", line);
}

static void on_link(struct lw_client *client, int up, const char *why, void *arg)
{
    struct peer *peer = arg;

    if (players_in_call) {
        stage_complain("rule 1: link of %s came inside a call", peer->label);
    }
    if (peer->client == NULL || (client != peer->client) || peer->closed) {
        stage_complain("link of %s came after its end", peer->label);
    }
    if (up && peer->up) {
        stage_complain("link of %s came up twice", peer->label);
    }
    peer->up = up;
    up ? peer->ups++ : peer->downs++;
    if (peer->links < 64) {
        peer->linked_ms[peer->links++] = now_ms();
    }
    if (strlen(why) >= LW_WHY_SIZE) {
        stage_complain("a reason of %zu bytes came to %s", strlen(why), peer->label);
    }
    (void)snprintf(peer->why, sizeof(peer->why), "%s", why);
    add_line(peer->whys, sizeof(peer->whys), why);
    if (peer->shows_link) {
        stage_note("%s %s", peer->label, up ? "up" : "down");
    }
    if (peer->on_link != NULL) {
        peer->on_link(peer);
    }
}

static void on_log(int level, const char *message, void *arg)
{
    struct peer *peer = arg;
    char line[1024];

    (void)snprintf(line, sizeof(line), "%d %s", level, message);
    add_line(peer->log, sizeof(peer->log), line);
}

static void on_closed(struct lw_client *client, void *arg)
{
    struct peer *peer = arg;

    if (players_in_call) {
        stage_complain("rule 1: close of %s came inside a call", peer->label);
    }
    if (client != peer->client || !peer->closing || peer->closed) {
        stage_complain("rule 7: close of %s came out of place", peer->label);
    }
    for (struct hold *hold = holds; hold != NULL; hold = hold->next) {
        if (hold->peer == peer && hold->lock != NULL &&
            (hold->result == PENDING || hold->releasing)) {
            stage_complain("rule 7: %s closed before %s ended", peer->label, hold->label);
        }
    }
    peer->closed = true;
    peer->closed_ms = now_ms();
    stage_note("%s closed", peer->label);
    if (peer->on_closed != NULL) {
        peer->on_closed(peer);
    }
}

/* ---- clients ---- */

static void everybody_leaves(bool in_good_order)
{
    for (struct hold *hold = holds; hold != NULL; hold = hold->next) {
        hold->then = NULL;
        free_hold(hold);
    }
    for (struct peer *peer = peers; in_good_order && peer != NULL; peer = peer->next) {
        peer->on_link = NULL;
        peer->on_closed = NULL;
        if (peer->client != NULL && !peer->closing) {
            peer_close(peer);
        }
        while (peer->client != NULL && !peer->closed && !stage.broken) {
            if (now_ms() > peer->close_called_ms + STAGE_WAIT_MS) {
                stage_complain("rule 7: %s does not close", peer->label);
            }
            event_base_loop(stage.base, EVLOOP_ONCE);
        }
    }
    while (peers != NULL) {
        struct peer *peer = peers;
        peer_free(peer);
        peers = peer->next;
        free(peer);
    }
    while (holds != NULL) {
        struct hold *hold = holds;
        holds = hold->next;
        free(hold);
    }
}

void players_leave(void)
{
    everybody_leaves(false);
}

struct peer *peer_start_at(const char *label, const char *url,
                           const struct lw_client_options *wanted)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    struct peer *peer = calloc(1, sizeof(*peer));
    char name[32];

    if (peer == NULL) {
        stage_fail("memory");
    }
    (void)snprintf(name, sizeof(name), "test-%s", label);
    stage_at_exit(everybody_leaves);
    (void)snprintf(peer->label, sizeof(peer->label), "%s", label);
    peer->next = peers;
    peers = peer;
    if (wanted != NULL) {
        options = *wanted;
    } else {
        options.local_turns = 1;
    }
    if (options.client_name == NULL) {
        options.client_name = name;
    }
    if (options.prefix == NULL) {
        options.prefix = stage.prefix;
    }
    options.link = on_link;
    options.log = on_log;
    options.log_level = 7;
    options.arg = peer;
    options.errbuf = peer->error;
    options.errbuf_size = sizeof(peer->error);
    players_in_call++;
    int result = lw_client_new(stage.base, url, &options, &peer->client);
    players_in_call--;
    if (result != LW_OK) {
        stage_fail("lw_client_new %s: %s: %s", label, status_name(result), peer->error);
    }
    return peer;
}

struct peer *peer_start(const char *label, const struct lw_client_options *options)
{
    return peer_start_at(label, stage.server.url, options);
}

/* Finds the client's lines of CLIENT LIST by the name that peer_start_at gave. */
long long peer_link_id(const struct peer *peer, bool subscription)
{
    char name[64];
    const char *wanted = subscription ? " sub=2 " : " sub=0 ";

    (void)snprintf(name, sizeof(name), " name=test-%s ", peer->label);
    for (char *rest = (char *)(uintptr_t)redis_text("CLIENT LIST"), *line;
         (line = strtok_r(rest, "\n", &rest)) != NULL;) {
        if (strstr(line, name) != NULL && strstr(line, wanted) != NULL) {
            return atoll(line + strlen("id="));
        }
    }
    return 0;
}

void peer_wait_ready(struct peer *peer)
{
    UNTIL(peer->up);
    UNTIL(peer_link_id(peer, true) != 0);
    stage_run_for(5); /* until the confirmation has been read */
}

struct peer *peer_ready(const char *label, const struct lw_client_options *options)
{
    struct peer *peer = peer_start(label, options);

    peer_wait_ready(peer);
    return peer;
}

void peer_close(struct peer *peer)
{
    peer->closing = true;
    peer->close_called_ms = now_ms();
    players_in_call++;
    int result = lw_client_close(peer->client, on_closed, peer);
    players_in_call--;
    if (result != LW_OK) {
        stage_complain("lw_client_close %s: %s", peer->label, status_name(result));
    }
}

void peer_free(struct peer *peer)
{
    struct lw_client *client = peer->client;

    peer->client = NULL;
    peer->up = false;
    players_in_call++;
    lw_client_free(client);
    players_in_call--;
}

struct lw_stats peer_stats(const struct peer *peer)
{
    struct lw_stats stats = LW_STATS_INIT;

    if (lw_client_stats(peer->client, &stats) != LW_OK) {
        stage_complain("lw_client_stats %s", peer->label);
    }
    return stats;
}

bool peer_logged(const struct peer *peer, const char *text)
{
    return strstr(peer->log, text) != NULL;
}

int peer_count_logged(const struct peer *peer, const char *text)
{
    int count = 0;

    for (const char *at = peer->log; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

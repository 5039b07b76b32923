/* SPDX-License-Identifier: MIT
 *
 * Holds that the master does not know, or not for as long: they belong to writes that a
 * failover lost, or to a server that still takes itself for the master. Only clients that
 * believe by such a hold are excused. This is exact, because the keys of both servers are
 * compared. Changes nothing.
 *
 * Usual course: stray_begin() when the master has been replaced. stray_note() after each
 * command that the old master executes while it lives on. stray_is() when two clients
 * believe.
 */
#include "look.h"
#include "network.h"
#include "nodes.h"

#include "lock/lock_private.h"
#include "redis/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAME_MS 2 /* expiry times that differ by no more are the same */

struct stray {
    struct stray *next;
    unsigned name, server; /* server: the one that knows the hold */
    int64_t noted_us;
    uint64_t void_from; /* fencing tokens from there on may be issued twice */
    char token[LW__TOKEN_SIZE];
};

static struct stray *strays;
static uint64_t replaced_at[SERVERS]; /* by the new master's clock, as fences are */

void stray_token(const struct op *op, char *ret)
{
    struct lw__token id = {op->host->client->holds.uuid, op->lock->token_n,
                           op->lock->window_ms};

    if (world.plan.kinds[op->name] == KIND_REDISSON) {
        lw__format_field(&id, ret);
    } else {
        lw__format_token(&id, ret);
    }
}

static struct stray **find(unsigned name, const char *token)
{
    struct stray **at = &strays;

    while (*at != NULL && ((*at)->name != name || strcmp((*at)->token, token) != 0)) {
        at = &(*at)->next;
    }
    return at;
}

static void add(unsigned name, unsigned server, const char *token)
{
    struct stray **at = find(name, token);

    if (*at != NULL) {
        (*at)->noted_us = world.now_us;
        (*at)->server = server;
        return;
    }
    trace("%s is held by %s, which the master does not know", load_name(name), token);
    *at = must_alloc(sizeof(**at));
    (*at)->name = name;
    (*at)->server = server;
    (*at)->void_from = replaced_at[server];
    (*at)->noted_us = world.now_us;
    (void)snprintf((*at)->token, sizeof((*at)->token), "%s", token);
}

static void note_token(struct model_server *old, unsigned name, const char *token)
{
    int64_t had_ms, has_ms;

    look_from(old);
    had_ms = look_left_ms(name, token);
    look_from(NULL);
    has_ms = look_left_ms(name, token);
    if (had_ms > has_ms + SAME_MS) {
        add(name, servers_index(old), token);
    }
}

/* Lists the tokens that the name's key has, one after the other, in `list`. */
static void list_tokens(struct model_server *server, unsigned name, struct buffer *list)
{
    enum kind kind = world.plan.kinds[name];
    const char *prefix = kind == KIND_RW || kind == KIND_SEMAPHORE ? "h:" : "";
    char *rest, *item;

    look_from(server);
    rest = (char *)look_ask(kind == KIND_MUTEX ? "GET" : "HKEYS", load_name(name), NULL);
    while ((item = look_take(&rest)) != NULL) {
        if (strncmp(item, prefix, strlen(prefix)) == 0) {
            item = kind == KIND_MUTEX ? look_unmark(item) : item + strlen(prefix);
            buffer_append(list, item, strlen(item) + 1);
        }
    }
    look_from(NULL);
}

void stray_note(struct model_server *old)
{
    for (unsigned name = 0; name < world.plan.names; name++) {
        struct buffer list = {0};

        list_tokens(old, name, &list);
        for (size_t at = 0; at < list.len; at += strlen(list.data + at) + 1) {
            if (strlen(list.data + at) < LW__TOKEN_SIZE) { /* else it is foreign */
                note_token(old, name, list.data + at);
            }
        }
        buffer_free(&list);
    }
}

/* Marks the grants since `since_us`; in a cluster only those of names that `old` had. */
static void note_lost(struct op *op, const struct model_server *old, int64_t since_us)
{
    for (; op != NULL; op = op->next) {
        op->of_lost = op->of_lost || (op->granted_us >= since_us &&
                                      (!world.plan.clustered ||
                                       nodes_succeeds(old, load_name(op->name))));
    }
}

void stray_begin(struct model_server *old, int64_t since_us)
{
    note_lost(world.ops, old, since_us);
    note_lost(world.past, old, since_us);
    replaced_at[servers_index(old)] = (uint64_t)model_server_time_us(world.server);
    stray_note(old);
}

static const struct stray *stray_of(const struct op *op)
{
    char token[LW__TOKEN_SIZE];

    if (strays == NULL || op->host->client == NULL || op->life != op->host->life) {
        return NULL;
    }
    stray_token(op, token);
    return *find(op->name, token);
}

bool stray_is(const struct op *op)
{
    return stray_of(op) != NULL;
}

bool stray_was(const struct op *op)
{
    return *find(op->name, op->token) != NULL;
}

bool stray_is_void(const struct op *op)
{
    const struct stray *stray = stray_of(op);

    return stray != NULL && op->fence >= stray->void_from;
}

/* Returns true if no reply of the old master is still under way to the host. */
static bool is_heard(const struct op *op, const struct stray *stray)
{
    if (world.plan.clustered) {
        return !network_joins(op->host, stray->server, stray->noted_us);
    }
    return op->host->link_up && op->host->up_us > stray->noted_us &&
           check_is_at_master(op->host);
}

/* Forgets the hold once the master has it for at least as long as the client believes. */
void stray_review(const struct op *op)
{
    char token[LW__TOKEN_SIZE];
    struct stray **at;
    int64_t left_ms = lw_lock_remaining_ms(op->lock);

    if (left_ms <= 0 || !stray_is(op) || !is_heard(op, stray_of(op))) {
        return;
    }
    stray_token(op, token);
    if (look_left_ms(op->name, token) >= left_ms + left_ms / 100) {
        at = find(op->name, token);
        struct stray *known = *at;

        trace("op %u is known to the master again", op->id);
        *at = known->next;
        free(known);
    }
}

void stray_end(void)
{
    while (strays != NULL) {
        struct stray *next = strays->next;

        free(strays);
        strays = next;
    }
}

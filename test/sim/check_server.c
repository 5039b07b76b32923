/* SPDX-License-Identifier: MIT
 *
 * Checks the server's keys at any time: a client that believes that it holds a lock is in
 * the lock's key, and each key has a TTL. Changes nothing. What hosts believe is checked
 * by check.c.
 *
 * Each function returns if all is well; a violation does not return.
 */
#include "look.h"

#include "redis/format.h"

#include <stdlib.h>
#include <string.h>

/* Checks that the server has the hold of `op`, which believes that it holds the lock. The
 * key cannot expire before the client's deadline: its TTL counts from the arrival of the
 * command, the deadline from the sending. */
void check_backed(const struct op *op)
{
    char token[LW__TOKEN_SIZE];

    if (world.plan.quorum) {
        check_votes(op);
        return;
    }
    stray_token(op, token);
    if (look_left_ms(op->name, token) < 0 && !stray_is(op)) {
        violation("op %u believes to hold %s, but the server does not have it", op->id,
                  load_name(op->name));
    }
}

/* Returns true if the key, behind the prefix of all clients, begins with this. */
static bool begins(const struct model_key *key, const char *text)
{
    size_t before = strlen(load_prefix()), length = strlen(text);

    return key->name.len >= before + length &&
           memcmp(key->name.data, load_prefix(), before) == 0 &&
           memcmp(key->name.data + before, text, length) == 0;
}

static bool is_fence(const struct model_key *key)
{
    return begins(key, "lockwire:fence"); /* in a cluster, one for each slot */
}

/* Returns true if the key may lack a TTL. An evicted fence counter is created again by
 * the next token drawn. It gets its TTL when the client has noticed that, or at any other
 * client's heartbeat. */
static bool may_be_bare(const struct model_key *key)
{
    const int64_t *every_us = world.plan.every_us;

    return is_fence(key) && (every_us[FAULT_FENCE] || every_us[FAULT_LOSS]);
}

static void check_key(const struct model_key *key, void *arg)
{
    (void)arg;
    if (!begins(key, "")) {
        violation("the key %.*s lacks the prefix", (int)key->name.len, key->name.data);
    }
    if (key->ttl_ms < 0 && !may_be_bare(key)) {
        violation("the key %.*s has no TTL", (int)key->name.len, key->name.data);
    }
}

void check_keys(void)
{
    for (unsigned i = 0; i < world.plan.servers; i++) {
        model_server_each_key(world.servers[i], check_key, NULL);
    }
}

static bool is_guard(const struct model_key *key)
{
    return begins(key, "lockwire:guard");
}

static void check_last_key(const struct model_key *key, void *arg)
{
    (void)arg;
    if (!is_fence(key) && !is_guard(key)) {
        violation("the key %.*s is left behind", (int)key->name.len, key->name.data);
    }
}

void check_last_keys(void)
{
    for (unsigned i = 0; i < world.plan.servers; i++) {
        model_server_each_key(world.servers[i], check_last_key, NULL);
    }
}

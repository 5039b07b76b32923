/* SPDX-License-Identifier: MIT
 *
 * What must be true of the server's keys at any time: whoever believes to hold is in the
 * name's key, and each key has a TTL. Changes nothing; what hosts believe is check.c's.
 *
 * Happy path: each function returns; a violation does not.
 */
#include "look.h"

#include "redis/format.h"

#include <stdlib.h>
#include <string.h>

/* `op` believes to hold. The key cannot have ended before that: it began to count when
 * the command arrived, and belief when it was sent. */
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

static bool is_fence(const struct model_key *key)
{
    static const char begin[] = "lockwire:fence"; /* in a cluster one for each slot */

    return key->name.len >= sizeof(begin) - 1 &&
           memcmp(key->name.data, begin, sizeof(begin) - 1) == 0;
}

/* The fence counter, evicted, comes back with the next number drawn, and has its TTL when
 * the client has seen that, or any other's heartbeat comes. */
static bool may_be_bare(const struct model_key *key)
{
    const int64_t *every_us = world.plan.every_us;

    return is_fence(key) && (every_us[FAULT_FENCE] || every_us[FAULT_LOSS]);
}

static void check_key(const struct model_key *key, void *arg)
{
    (void)arg;
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
    return bytes_equal(key->name, bytes_of("lockwire:guard"));
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

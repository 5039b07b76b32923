/* SPDX-License-Identifier: MIT */
/* Helpers of redisson/scene.h: requests for "x", and a key in Redisson's format that
 * appears, and is deleted with a message. */
#include "redisson/scene.h"

#include "monitor.h"

#include <stdio.h>

struct hold *want(struct peer *peer, const char *label,
                  const struct lw_acquire_options *options)
{
    struct lw_acquire_options his = *options;

    his.mode = LW_REDISSON;
    if (his.lease_ms == 0) {
        his.lease_ms = 20000;
    }
    return acquire_hold_with(peer, label, "x", &his);
}

struct hold *try_once(struct peer *peer, const char *label)
{
    return want(peer, label, asking(.wait_ms = 0));
}

struct hold *take(struct peer *peer, const char *label)
{
    struct hold *hold = try_once(peer, label);

    UNTIL(hold->result != PENDING);
    assert_int_equal(hold->result, LW_OK);
    stage_clear_trace();
    return hold;
}

const char *fields(void)
{
    return redis_text("EVAL %s 1 x",
                      "return table.concat(redis.call('HGETALL', KEYS[1]), ' ')");
}

struct hold *join_line(struct peer *peer, const char *label)
{
    return want(peer, label, asking(.wait_ms = -1));
}

void java_holds(const char *name, int holds, int lease_ms)
{
    redis_ok("HSET %s 4a0fc1f8-0000-4000-8000-1c6f654f1aaa:52 %d", name, holds);
    if (lease_ms > 0) {
        redis_ok("PEXPIRE %s %d", name, lease_ms);
    }
}

void java_unlocks(const char *name, const char *message)
{
    redis_ok("DEL %s", name);
    redis_ok("PUBLISH redisson_lock__channel:{%s} %s", name, message);
}

long long listeners(const char *channel)
{
    return redis_int("EVAL %s 0 %s", "return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]",
                     channel);
}

int scripts_sent(void)
{
    return monitor_count("evalsha");
}

void line_behind_java(struct hold **line, int count)
{
    char label[16];

    a = peer_ready("a", NULL);
    java_holds("x", 1, HOUR_MS);
    for (int i = 0; i < count; i++) {
        (void)snprintf(label, sizeof(label), "%d", i);
        line[i] = join_line(a, label);
    }
    UNTIL(listeners(CHANNEL) == 1);
    stage_expect_nothing(200);
    monitor_start();
}

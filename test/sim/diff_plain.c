/* SPDX-License-Identifier: MIT
 *
 * Random plain commands with good and bad arguments on few keys, including those of the
 * locks: what a foreign client might send, and what the model replies to each mistake.
 * Options that the model does not have (SET GET, ZADD INCR, ZRANGE BYSCORE ...) are never
 * drawn.
 *
 * Usual course: diff_step_plain() draws a pattern such as "zadd @ # %", fills it in and
 * sends it.
 */
#include "diff.h"

#include <string.h>

/* @ stands for a key, % for a value, # for a number, ! for a score. */
static const char *const patterns[] = {
    "get @",
    "set @ %",
    "set @ % px #",
    "set @ % nx px #",
    "set @ % xx",
    "set @ % ex #",
    "set @ % keepttl",
    "set @ % nx",
    "set @ % %",
    "mget @ @",
    "delifeq @ %",
    "delex @ ifeq %",
    "incr @",
    "incrby @ #",
    "del @",
    "del @ @",
    "exists @ @",
    "type @",
    "pttl @",
    "pexpire @ #",
    "pexpireat @ #",
    "pexpireat @ 9000000000000",
    "persist @",
    "lpush @ %",
    "rpush @ % %",
    "llen @",
    "lrange @ # #",
    "hset @ % %",
    "hset @ % % % %",
    "hset @ % % %",
    "hsetnx @ % %",
    "hget @ %",
    "hmget @ % %",
    "hdel @ % %",
    "hgetall @",
    "hkeys @",
    "hvals @",
    "hincrby @ % #",
    "hexists @ %",
    "hlen @",
    "zadd @ ! %",
    "zadd @ ! % ! %",
    "zadd @ nx ! %",
    "zadd @ xx ch ! %",
    "zadd @ gt ! %",
    "zadd @ lt ch ! %",
    "zadd @ nx xx ! %",
    "zadd @ ! % !",
    "zrem @ % %",
    "zscore @ %",
    "zrank @ %",
    "zrevrank @ %",
    "zrange @ # #",
    "zrange @ # # withscores",
    "zrange @ # # rev",
    "zrange @ # # rev withscores",
    "zrangebyscore @ ! !",
    "zrevrange @ # # withscores",
    "zpopmin @",
    "zcard @",
    "publish % %",
    "pubsub numsub % %",
    "time",
    "ping",
    "ping %",
    "config get maxmemory-policy",
    "client setname %",
    "client getname",
    "flushall %",
    "nonsense % %",
    "client nonsense",
    "script nonsense",
    /* unknown to 6.2, or with mistakes that it does not detect: */
    "zpopmin @ #",
    "script exists %",
    "pexpire @ # nx",
    "pexpire @ # gt",
    "pexpire @ # lt",
    "pexpire @ # xx gt",
    "pexpire @ # nx lt",
    "pexpireat @ 9000000000001 gt",
};
#define SINCE_7 8 /* of the patterns, the last ones */

static const char *any_of(struct diff *diff, const char *const *words)
{
    size_t count = 0;
    while (words[count] != NULL) {
        count++;
    }
    return words[rng_below(&diff->rng, count)];
}

static void add_filled(struct diff *diff, const char *word, size_t len)
{
    static const char *const values[] = {"a",    "b",   "c", "d e", "",       "17",
                                         "\r\n", "1e3", "5", "xx",  "mode",   "writer",
                                         "-0",   "01",  "+", "1.5", "rcount", NULL};
    static const char *const numbers[] = {"0",
                                          "1",
                                          "2",
                                          "-1",
                                          "-2",
                                          "7",
                                          "100",
                                          "3000",
                                          "60000",
                                          "abc",
                                          "1.5",
                                          "",
                                          "01",
                                          "-0",
                                          "5",
                                          "250",
                                          "9223372036854775807",
                                          "-5",
                                          "1000",
                                          "2000",
                                          "3",
                                          "10",
                                          "4",
                                          "500",
                                          "-9223372036854775808",
                                          NULL};
    static const char *const scores[] = {
        "0.1", "0",   "1",    "2",   "1.5", "-1", "1e15", "1795000000000001",
        "3",   "inf", "-inf", "nan", "abc", NULL};
    /* Versions write 0.1 differently. */
    static const char *const *const exact_scores = scores + 1;

    if (len == 1 && *word == '@') {
        arguments_add(diff, "%s", diff_any_key(diff));
    } else if (len == 1 && *word == '%') {
        arguments_add(diff, "%s", any_of(diff, values));
    } else if (len == 1 && *word == '#') {
        arguments_add(diff, "%s", any_of(diff, numbers));
    } else if (len == 1 && *word == '!') {
        arguments_add(diff, "%s", any_of(diff, diff->texts ? scores : exact_scores));
    } else {
        arguments_add(diff, "%.*s", (int)len, word);
    }
}

void diff_step_plain(struct diff *diff)
{
    size_t count = sizeof(patterns) / sizeof(patterns[0]) -
                   (diff->version < 700 ? SINCE_7 : 0);
    const char *at = patterns[rng_below(&diff->rng, count)];

    arguments_clear(diff);
    while (*at) {
        size_t len = strcspn(at, " ");
        add_filled(diff, at, len);
        at += len;
        at += strspn(at, " ");
    }
    if (rng_chance(&diff->rng, 20) && diff->last.count > 1) {
        diff->last.count--;
    } else if (rng_chance(&diff->rng, 10) &&
               diff->texts) { /* 6.2 has fewer variadic commands, 7.2 more */
        add_filled(diff, "%", 1);
    }
    diff_send(diff);
}

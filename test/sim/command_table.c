/* SPDX-License-Identifier: MIT
 *
 * The table of commands: name, arity, flags for what each may be refused for, positions
 * of the keys. The flags are those of Redis 7.0, as far as a refusal shows them.
 */
#include "model.h"

#define ALWAYS (CMD_LOADING | CMD_STALE)
#define GROW (CMD_WRITE | CMD_DENY_OOM)
#define SCRIPT (CMD_NO_SCRIPT | CMD_EVAL | CMD_MAY_REPLICATE)
#define ADMIN (CMD_NO_SCRIPT | ALWAYS)
#define BOTH CMD_SENTINEL

const struct command command_table[] = {
    {"ping", run_ping, -1, CMD_SUBSCRIBED | BOTH, 0, 0},
    {"quit", run_quit, -1, ADMIN | CMD_NO_AUTH | CMD_ALLOW_BUSY | CMD_SUBSCRIBED | BOTH,
     0, 0},
    {"auth", run_auth, -2, ADMIN | CMD_NO_AUTH | CMD_ALLOW_BUSY | BOTH, 0, 0},
    {"select", run_select, 2, ALWAYS, 0, 0},
    {"info", run_info, -1, ALWAYS | BOTH, 0, 0},
    {"time", run_time, 1, ALWAYS, 0, 0},
    {"role", run_role, 1, ADMIN | BOTH, 0, 0},
    {"flushall", run_flushall, -1, CMD_WRITE, 0, 0},
    {"config", NULL, -2, 0, 0, 0},
    {"config|get", run_config_get, -3, ADMIN, 0, 0},
    {"command", NULL, -2, BOTH, 0, 0},
    {"command|info", run_command_info, -3, ALWAYS | BOTH, 0, 0},
    {"client", NULL, -2, BOTH, 0, 0},
    {"client|id", run_client_id, 2, ADMIN | BOTH, 0, 0},
    {"client|setname", run_client_setname, 3, ADMIN | BOTH, 0, 0},
    {"client|getname", run_client_getname, 2, ADMIN | BOTH, 0, 0},
    {"client|kill", run_client_kill, -3, ADMIN | BOTH, 0, 0},

    {"cluster", NULL, -2, 0, 0, 0},
    {"cluster|slots", run_cluster_slots, 2, ALWAYS, 0, 0},
    {"cluster|info", run_cluster_info, 2, ALWAYS, 0, 0},
    {"cluster|myid", run_cluster_myid, 2, ALWAYS, 0, 0},
    {"cluster|keyslot", run_cluster_keyslot, 3, ALWAYS, 0, 0},
    {"asking", run_asking, 1, CMD_ASKING, 0, 0},

    {"sentinel", NULL, -2, CMD_SENTINEL_ONLY, 0, 0},
    {"sentinel|master", run_sentinel_master, 3, ADMIN | CMD_SENTINEL_ONLY, 0, 0},
    {"sentinel|myid", run_sentinel_myid, 2, ADMIN | CMD_SENTINEL_ONLY, 0, 0},
    {"sentinel|replicas", run_sentinel_replicas, 3, ADMIN | CMD_SENTINEL_ONLY, 0, 0},
    {"sentinel|sentinels", run_sentinel_sentinels, 3, ADMIN | CMD_SENTINEL_ONLY, 0, 0},

    {"get", run_get, 2, 0, 1, 1},
    {"mget", run_mget, -2, 0, 1, -1},
    {"set", run_set, -3, GROW, 1, 1},
    {"incr", run_incr, 2, GROW, 1, 1},
    {"incrby", run_incrby, 3, GROW, 1, 1},

    {"del", run_del, -2, CMD_WRITE, 1, -1},
    {"delifeq", run_delifeq, 3, CMD_WRITE | CMD_ABILITY, 1, 1}, /* Valkey 9.0 */
    {"delex", run_delex, -2, CMD_WRITE | CMD_ABILITY, 1, 1},    /* Redis 8.4 */
    {"exists", run_exists, -2, 0, 1, -1},
    {"type", run_type, 2, 0, 1, 1},
    {"pttl", run_pttl, 2, 0, 1, 1},
    {"pexpire", run_pexpire, -3, CMD_WRITE, 1, 1},
    {"pexpireat", run_pexpireat, -3, CMD_WRITE, 1, 1},
    {"persist", run_persist, 2, CMD_WRITE, 1, 1},
    {"keys", run_keys, 2, 0, 0, 0},
    {"lpush", run_lpush, -3, GROW, 1, 1},
    {"rpush", run_rpush, -3, GROW, 1, 1},
    {"llen", run_llen, 2, 0, 1, 1},
    {"lrange", run_lrange, 4, 0, 1, 1},

    {"hset", run_hset, -4, GROW, 1, 1},
    {"hsetnx", run_hsetnx, 4, GROW, 1, 1},
    {"hget", run_hget, 3, 0, 1, 1},
    {"hmget", run_hmget, -3, 0, 1, 1},
    {"hdel", run_hdel, -3, CMD_WRITE, 1, 1},
    {"hgetall", run_hgetall, 2, 0, 1, 1},
    {"hkeys", run_hkeys, 2, 0, 1, 1},
    {"hvals", run_hvals, 2, 0, 1, 1},
    {"hincrby", run_hincrby, 4, GROW, 1, 1},
    {"hexists", run_hexists, 3, 0, 1, 1},
    {"hlen", run_hlen, 2, 0, 1, 1},

    {"zadd", run_zadd, -4, GROW, 1, 1},
    {"zrem", run_zrem, -3, CMD_WRITE, 1, 1},
    {"zscore", run_zscore, 3, 0, 1, 1},
    {"zrank", run_zrank, 3, 0, 1, 1},
    {"zrevrank", run_zrevrank, 3, 0, 1, 1},
    {"zrange", run_zrange, -4, 0, 1, 1},
    {"zrevrange", run_zrevrange, -4, 0, 1, 1},
    {"zrangebyscore", run_zrangebyscore, -4, 0, 1, 1},
    {"zpopmin", run_zpopmin, -2, CMD_WRITE, 1, 1},
    {"zcard", run_zcard, 2, 0, 1, 1},

    {"subscribe", run_subscribe, -2, ADMIN | CMD_CHANNELS | CMD_SUBSCRIBED | BOTH, 0, 0},
    {"psubscribe", run_psubscribe, -2, ADMIN | CMD_CHANNELS | CMD_SUBSCRIBED | BOTH, 0,
     0},
    {"unsubscribe", run_unsubscribe, -1, ADMIN | CMD_SUBSCRIBED | BOTH, 0, 0},
    {"punsubscribe", run_punsubscribe, -1, ADMIN | CMD_SUBSCRIBED | BOTH, 0, 0},
    {"publish", run_publish, 3, ALWAYS | CMD_FIRST_CHANNEL | CMD_MAY_REPLICATE | BOTH, 0,
     0},
    {"pubsub", NULL, -2, 0, 0, 0},
    {"pubsub|numsub", run_pubsub_numsub, -2, ALWAYS, 0, 0},
    {"pubsub|shardnumsub", run_pubsub_shardnumsub, -2, ALWAYS, 0, 0},
    {"ssubscribe", run_ssubscribe, -2, ADMIN | CMD_CHANNELS | CMD_SUBSCRIBED | CMD_SHARD,
     1, -1},
    {"sunsubscribe", run_sunsubscribe, -1, ADMIN | CMD_SUBSCRIBED, 0, 0},
    {"spublish", run_spublish, 3,
     ALWAYS | CMD_FIRST_CHANNEL | CMD_MAY_REPLICATE | CMD_SHARD, 1, 1},

    {"eval", run_eval, -3, SCRIPT, 0, 0},
    {"evalsha", run_evalsha, -3, SCRIPT, 0, 0},
    {"script", NULL, -2, 0, 0, 0},
    {"script|load", run_script_load, 3, CMD_NO_SCRIPT | CMD_STALE, 0, 0},
    {"script|exists", run_script_exists, -3, CMD_NO_SCRIPT, 0, 0},
    {"script|flush", run_script_flush, -2, CMD_NO_SCRIPT, 0, 0},
};

const size_t command_count = sizeof(command_table) / sizeof(command_table[0]);

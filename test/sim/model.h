/* SPDX-License-Identifier: MIT
 *
 * The declarations that the model server's files share. Other files include
 * model_server.h.
 *
 * Usual course: server.c cuts a request out of a connection's input. commands.c finds the
 * command, and asks gate.c whether it may run. Its function in command_*.c, pubsub.c or
 * script.c writes the reply into call->reply. Commands of a script use the same table, by
 * way of script_call.c.
 */
#ifndef LW_SIM_MODEL_H
#define LW_SIM_MODEL_H

#include "keyspace.h"
#include "model_server.h"
#include "replication.h"
#include "resp.h"
#include "undo.h"

struct topic;
struct subscription;
struct script_engine;

struct model_server {
    model_clock_fn *clock;
    void *clock_arg;
    int64_t clock_step_us;
    int64_t now_us; /* the reply to TIME; taken once per command, and per script */
    struct keyspace spaces[MODEL_DATABASES];
    struct undo_log undo;
    struct model_faults faults;
    struct model_conn *conns;
    int64_t last_client_id;
    const char *knows;         /* its compare-and-delete command; or NULL */
    unsigned number, restarts; /* each run of each server has an id of its own */
    struct lineage {
        unsigned number, count;
    } lineage, former; /* the replication id of its data, and the one before it */
    unsigned lineages; /* how many it has begun */
    int64_t offset,
        former_offset;  /* what it has replicated; the end of `former`, or -1 */
    int64_t started_us; /* when its process started, by its own clock */
    struct model_place place;
    const struct model_view *view;         /* of a sentinel; else NULL */
    const struct model_map *map;           /* of a cluster's node; else NULL */
    bool paused;                           /* commands that may write wait */
    struct model_server *master, *replica; /* NULL if there is none */
    struct stream stream;                  /* to the replica */
    bool takes_what_is_left;
    model_step_fn *on_step;
    void *on_step_arg;
    struct topic *channels;
    struct topic *patterns;
    struct topic *shards; /* sharded channels */
    struct script_engine *scripts;
    model_output_fn *notify;
    void *notify_arg;
    struct model_watch watch;
};

struct model_conn {
    struct model_server *server;
    struct model_conn *previous;
    struct model_conn *next;
    int64_t id;
    int database;
    bool authenticated;
    bool closing;
    bool asking; /* ASKING was sent, and applies to the next command */
    struct buffer name;
    struct buffer in;
    struct buffer out;
    struct resp_request request;
    struct subscription *subscriptions; /* in order; channels and patterns */
    int subscription_count;
    void *user;
};

/* The execution of one command. */
struct call {
    struct model_server *server;
    struct model_conn *conn; /* of the request; NULL for model_server_ask() */
    const struct command *command;
    int *database; /* the connection's, or the running script's own */
    const struct bytes *argv;
    int argc;
    struct buffer *reply;
};

enum command_flags {
    CMD_WRITE = 1 << 0,
    CMD_DENY_OOM = 1 << 1,
    CMD_NO_SCRIPT = 1 << 2,
    CMD_LOADING = 1 << 3, /* allowed while loading */
    CMD_STALE = 1 << 4,   /* allowed without a master */
    CMD_NO_AUTH = 1 << 5,
    CMD_ALLOW_BUSY = 1 << 6,
    CMD_CHANNELS = 1 << 7,       /* all arguments are channels */
    CMD_FIRST_CHANNEL = 1 << 8,  /* the first argument is one */
    CMD_SUBSCRIBED = 1 << 9,     /* allowed on a subscribed connection */
    CMD_EVAL = 1 << 10,          /* the second argument is the number of keys */
    CMD_MAY_REPLICATE = 1 << 11, /* has to wait while writes are paused, as writes do */
    CMD_ABILITY = 1 << 12,       /* only if model_server_know() has named it */
    CMD_SENTINEL = 1 << 13,      /* exists on a sentinel, too */
    CMD_SENTINEL_ONLY = 1 << 14, /* exists on a sentinel only */
    CMD_ASKING = 1 << 15,        /* affects the next command */
    CMD_SHARD = 1 << 16,         /* its keys are sharded channels */
};

typedef void command_fn(struct call *call);

struct command {
    const char *name; /* "get", or "client|id" */
    command_fn *run;  /* NULL if it has subcommands */
    int arity;        /* negative: at least that many */
    unsigned flags;
    int first_key; /* 0 if it has no keys */
    int last_key;  /* negative: counted from the end */
};

/* command_table.c */
extern const struct command command_table[];
extern const size_t command_count;

/* commands.c */
const struct command *command_find(const struct bytes *argv, int argc);
bool command_is_there(const struct model_server *server, const struct command *command);
bool command_arity_fits(const struct command *command, int argc);
void command_execute(struct call *call); /* looks up, checks, runs */
void command_run_unchecked(struct call *call);

/* gate.c */
bool gate_pass(struct call *call); /* if false, the reply has the error */
const char *gate_write_error(const struct call *call); /* READONLY, MISCONF ... or NULL */
const char *gate_script_permission(const struct call *call); /* worded as in a script */
extern const char gate_oom_error[], gate_wrong_type[], gate_masterdown[];

/* gate_slots.c */
/* Finds out which arguments are keys. Returns false if there are none. */
bool gate_keys(const struct call *call, int *first, int *last);
/* Returns false if a node redirects or refuses the command, after having replied so. */
bool gate_slots(struct call *call);
/* The same for a command of a script, worded as in a script. Returns NULL if it may
 * run. */
const char *gate_script_slots(struct call *call, const struct call *script);

/* server.c */
void server_begin(struct model_server *server); /* takes the time */
void conn_output(struct model_conn *conn, const void *data, size_t len);
void conn_close(struct model_conn *conn); /* by the server; output is dropped */

/* pubsub.c */
void pubsub_forget(struct model_conn *conn); /* ends all subscriptions */

/* Delivers to the server's own subscribers. Returns how many there were. */
int64_t pubsub_deliver(struct model_server *server, struct bytes channel,
                       struct bytes message);

/* The same for the subscribers of a sharded channel. */
int64_t pubsub_deliver_to_slot(struct model_server *server, struct bytes channel,
                               struct bytes message);

/* replication.c */
/* `succeeds`: the new replication id continues the data of the one before. */
void replication_begin_lineage(struct model_server *server, bool succeeds);
void replication_end_command(struct model_server *server);

/* script.c */
struct script_engine *script_engine_new(struct model_server *server);
void script_engine_free(struct script_engine *engine);
void script_engine_flush(struct script_engine *engine);

/* Functions that commands share (command_util.c). */
struct keyspace *call_space(const struct call *call);
bool call_int(struct call *call, int index, int64_t *ret);
/* The same for a C long, which has 32 bits if the server has. */
bool call_long(struct call *call, int index,
               int64_t *ret); /* if false, the error is replied */
void call_syntax_error(struct call *call);
/* Returns false, after having replied WRONGTYPE, if the content exists and has another
 * type. */
bool call_check_type(struct call *call, const struct content *content,
                     enum value_type type);
/* Finds a key for reading. Returns false if an error was replied. *ret is NULL if there
 * is no such key. */
bool call_read(struct call *call, enum value_type type, struct content **ret);
/* The same for a change. */
bool call_write(struct call *call, enum value_type type, struct content **ret);
/* Creates the key if it is missing. Returns false if an error was replied. */
bool call_make(struct call *call, enum value_type type, struct content **ret);
bool glob_match(struct bytes pattern, struct bytes text);
/* Resolves a range as Redis does: negative indexes count from the end. Returns false if
 * the range is empty. */
bool clip_range(int64_t count, int64_t *start, int64_t *stop);

/* The commands. */
command_fn run_get, run_mget, run_set, run_delifeq, run_delex, run_incr, run_incrby;
command_fn run_del, run_exists, run_type, run_pttl, run_pexpire, run_pexpireat,
    run_persist, run_keys;
command_fn run_lpush, run_rpush, run_llen, run_lrange;
command_fn run_hset, run_hsetnx, run_hget, run_hdel, run_hgetall, run_hmget, run_hincrby;
command_fn run_hexists, run_hlen, run_hkeys, run_hvals;
command_fn run_zadd, run_zrem, run_zscore, run_zrank, run_zrevrank, run_zrange,
    run_zrevrange;
command_fn run_zrangebyscore, run_zpopmin, run_zcard;
command_fn run_ping, run_auth, run_select, run_quit, run_time, run_info, run_flushall,
    run_config_get, run_command_info;
command_fn run_client_id, run_client_setname, run_client_getname, run_client_kill;
command_fn run_role, run_sentinel_master, run_sentinel_myid, run_sentinel_replicas,
    run_sentinel_sentinels;
command_fn run_cluster_slots, run_cluster_keyslot, run_cluster_info, run_cluster_myid;
command_fn run_asking;
command_fn run_subscribe, run_psubscribe, run_unsubscribe, run_punsubscribe, run_publish;
command_fn run_pubsub_numsub;
command_fn run_ssubscribe, run_sunsubscribe, run_spublish, run_pubsub_shardnumsub;
command_fn run_eval, run_evalsha, run_script_load, run_script_exists, run_script_flush;

#endif

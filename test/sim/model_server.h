/* SPDX-License-Identifier: MIT
 *
 * The model server: an imitation of Redis 7.0 in this process, for the simulator. It runs
 * the real scripts in Lua 5.1. It has no thread, event loop, socket or clock of its own.
 * It acts only inside the calls below, and depends only on them and on the given clock.
 *
 * Usual course: model_server_new() with the virtual clock. model_server_connect() for
 * each accepted connection. model_conn_feed() for the bytes that arrive, in pieces of any
 * size. model_conn_output() and model_conn_consume() for the bytes to be sent. A PUBLISH
 * produces output on connections other than the one that was fed: the callback of
 * model_server_on_output() is called for each connection whose output was empty and no
 * longer is, and for each that the server closes. That callback may only take notes.
 *
 * For the simulator's network layer:
 *  - a half-open link is a connection that is neither fed nor freed. It stays subscribed.
 *  - a reset is model_conn_free(). The server forgets the client and its output at once.
 *  - a restart closes all connections (model_conn_closing()). Client ids begin again.
 *  - each fault is a switch in struct model_faults, to be set between calls.
 *  - model_server_step_clock() steps the server's own clock, but not true time.
 *  - foreign clients, checks and evictions use model_server_ask(), past all faults.
 *  - a second server replicates the first. model_server_replicate() changes roles, and
 *    all connections stay open.
 *  - a node of a cluster follows a map of its own, model_server_be_node().
 *    model_server_migrate() moves keys between nodes.
 *
 * difftest compares the replies with those of a real server. Not modelled: RESP3, MULTI,
 * memory, ACL users other than the default one, `map` and `double` replies of scripts.
 */
#ifndef LW_SIM_MODEL_SERVER_H
#define LW_SIM_MODEL_SERVER_H

#include "bytes.h"

struct model_server;
struct model_conn;

#define MODEL_DATABASES 16

typedef int64_t model_clock_fn(void *arg); /* true time, in us since 1970 */
typedef void model_step_fn(struct model_server *replica, void *arg);
typedef void model_output_fn(struct model_conn *conn, void *arg);

/* All off by default. The strings are borrowed while they are set. */
struct model_faults {
    bool oom;      /* "used memory > maxmemory": commands that grow memory are refused */
    bool loading;  /* LOADING */
    bool busy;     /* BUSY: a script does not end */
    bool readonly; /* READONLY, as on a replica */
    bool masterdown;     /* MASTERDOWN, as on a replica that lost its master */
    bool misconf;        /* MISCONF: the disk is full */
    bool noreplicas;     /* NOREPLICAS */
    bool deny_channels;  /* NOPERM to every channel; see model_server_deny_channels() */
    bool forget_scripts; /* EVALSHA finds no script: NOSCRIPT */
    const char *denied_commands; /* NOPERM; in lower case, "publish client|kill" */
    const char *allowed_prefix;  /* NOPERM to every key with another prefix */
    const char *password;        /* new connections must AUTH; NULL: none */
    const char *error_once;      /* the reply to the next command, which has no effect */
    const char *eviction_policy; /* for CONFIG GET; NULL: noeviction */
    int max_clients;             /* 0: no limit */
};

struct model_server *model_server_new(model_clock_fn *clock, void *arg);
void model_server_free(struct model_server *server); /* and all connections */
void model_server_on_output(struct model_server *server, model_output_fn *notify,
                            void *arg);
struct model_faults *model_server_faults(struct model_server *server);

/* How far back a restart may lose writes. Before this is called nothing is recorded. */
void model_server_remember(struct model_server *server, int64_t window_us);
/* Restarts the server. lost_us 0 keeps all data; a positive one loses the writes of that
 * time, within the recorded window; a negative one loses everything. Scripts and
 * subscriptions are gone, and connections are closing. */
void model_server_restart(struct model_server *server, int64_t lost_us);
void model_server_hang_up(struct model_server *server); /* closes all connections */
void model_server_step_clock(struct model_server *server, int64_t step_us);
int64_t model_server_time_us(struct model_server *server); /* as TIME would reply */
void model_server_flush_scripts(struct model_server *server);
/* Like ACL SETUSER resetchannels or allchannels: denying closes subscribed
 * connections. */
void model_server_deny_channels(struct model_server *server, bool deny);

/* Sets which compare-and-delete command the server has ("delifeq", "delex"). NULL: none,
 * as initially. */
void model_server_know(struct model_server *server, const char *word);
/* The beginning of INFO's run_id, which differs between servers. */
void model_server_set_number(struct model_server *server, unsigned number);
/* Sets the server's uptime. */
void model_server_set_uptime(struct model_server *server, int64_t us);

/* The server's address, as ROLE reports it to others. */
struct model_place {
    const char *host; /* NULL: unknown */
    int port;
};
void model_server_set_place(struct model_server *server, const struct model_place *place);

struct model_other {
    struct model_place place;
    const char *id;
};

#define MODEL_RUN_ID_SIZE 41
/* Returns the run_id of INFO. */
void model_server_run_id(const struct model_server *server, char ret[MODEL_RUN_ID_SIZE]);

/* A server as a sentinel knows it by its last INFO. */
struct model_known {
    struct model_place place;
    char run_id[MODEL_RUN_ID_SIZE]; /* "": none since the last switch */
    int64_t info_us;                /* when that was, by the sentinel's clock */
};

/* A sentinel: its report about the one service that it watches, and the other sentinels.
 * All is borrowed, and may change between calls. */
struct model_view {
    const char *service;
    struct model_known master, replica;
    int64_t config_epoch;
    const char *flags; /* "master", "master,s_down" ... */
    const char *id;    /* its own */
    const struct model_other *others;
    size_t other_count;
};
/* Makes the server a sentinel, with a sentinel's commands only. */
void model_server_be_sentinel(struct model_server *server, const struct model_view *view);
void model_server_publish(struct model_server *server, const char *channel,
                          const char *message);

/* A node of a cluster: the owner of each slot in its view, and the slots that are moving.
 * All is borrowed, and may change between calls. Nodes are identified by numbers. */
#define MODEL_SLOTS 16384
#define MODEL_NOBODY 255

enum model_vileness {
    MODEL_SOUND,
    MODEL_NO_CLUSTER, /* CLUSTER SLOTS is refused: no cluster */
    MODEL_NO_ARRAY,
    MODEL_NO_RANGE,  /* the first slot is above the last */
    MODEL_NO_NUMBER, /* the slots are no numbers */
    MODEL_NO_MASTER,
    MODEL_OVERLAPS, /* two ranges overlap */
    MODEL_NO_PLACE, /* an invalid port */
    MODEL_VILENESSES
};

struct model_map {
    const struct model_place *places; /* of all nodes */
    const unsigned char *masters; /* the master of each; its own number for a master */
    unsigned self, count;
    unsigned char owners[MODEL_SLOTS]; /* MODEL_NOBODY for none, in all three */
    unsigned char gives_to[MODEL_SLOTS], gets_from[MODEL_SLOTS];
    /* Slots from the first to before the second are reported as unassigned. */
    unsigned hidden_from, hidden_to;
    bool down;                    /* the cluster, in its view */
    bool boasts;                  /* its reply to ROLE is that of a master */
    unsigned epoch;               /* the latest that it knows of */
    const char *self_host;        /* its host in its own replies; NULL: nil */
    enum model_vileness vileness; /* of its reply to CLUSTER SLOTS */
};
/* Makes the server a node; NULL: an ordinary server again. */
void model_server_be_node(struct model_server *server, const struct model_map *map);
/* Ends sharded channels of slots that the node does not own, and notifies their
 * subscribers. */
void model_server_end_channels(struct model_server *server);
/* Moves a key with its TTL, as MIGRATE does. Returns false, without any effect, if the
 * target has such a key. Returns true if the source has none. */
bool model_server_migrate(struct model_server *from, struct model_server *to,
                          struct bytes key);

/* Replication (replication.c). `replica` gets a copy of the data of `master`, refuses
 * writes from then on, and receives the effects of each command, including messages to
 * its subscribers. They are steps, which are under way until they are delivered, the
 * oldest first. */
void model_server_replicate(struct model_server *replica, struct model_server *master);
bool model_server_is_replica(const struct model_server *server);
bool model_server_deliver(struct model_server *replica); /* false: none is under way */
/* Sets the callback for each new step. It may only take notes. */
void model_server_on_step(struct model_server *replica, model_step_fn *on_step,
                          void *arg);
/* Returns the true time of the oldest step under way, or -1 if there is none. */
int64_t model_server_oldest_step_us(const struct model_server *replica);
/* REPLICAOF NO ONE: steps under way to it are lost. */
void model_server_promote(struct model_server *replica);
/* Sets how the replica receives expiry: as a time by the master's clock (Redis 7), or as
 * the time left (older versions), which does not depend on its clock. */
void model_server_takes_what_is_left(struct model_server *replica, bool takes);
/* As FAILOVER does: commands that may write wait, and all others are executed. When the
 * pause ends, they are run. */
void model_server_pause_writes(struct model_server *server, bool pause);

/* One run of a script that came by a connection, after its end; or of a
 * compare-and-delete command in its place. */
struct model_script_run {
    const struct bytes *keys, *args;
    int key_count, arg_count;
    struct bytes reply; /* RESP */
    const char *sha1;   /* of the script; "" for such a command */
};

/* Observers, which may ask the server but change nothing. */
struct model_watch {
    void (*before)(struct model_server *server, const struct model_script_run *run);
    void (*script)(struct model_server *server, const struct model_script_run *run);
    void (*publish)(struct model_server *server, struct bytes channel,
                    struct bytes message, int64_t receivers);
    /* A node's script uses a key that was not passed to it. */
    void (*undeclared)(struct model_server *server, struct bytes key);
};
void model_server_watch(struct model_server *server, const struct model_watch *watch);

/* Runs one command without a connection, past all faults. The reply is RESP. */
void model_server_ask(struct model_server *server, int database, const struct bytes *argv,
                      int argc, struct buffer *answer);
void model_server_ask_words(struct model_server *server, const char *words,
                            struct buffer *answer); /* database 0, split at blanks */

struct model_key {
    struct bytes name;
    int database;
    const char *type;
    int64_t ttl_ms; /* -1: none */
};
typedef void model_key_fn(const struct model_key *key, void *arg);
void model_server_each_key(struct model_server *server, model_key_fn *visit, void *arg);

struct model_conn *model_server_connect(struct model_server *server);
void model_conn_feed(struct model_conn *conn, const void *data, size_t len);
struct bytes model_conn_output(const struct model_conn *conn);
void model_conn_consume(struct model_conn *conn, size_t len);
bool model_conn_closing(const struct model_conn *conn); /* after its output */
void model_conn_set_user(struct model_conn *conn, void *user);
void *model_conn_user(const struct model_conn *conn);
int64_t model_conn_id(const struct model_conn *conn);
bool model_conn_subscribed(const struct model_conn *conn);
void model_conn_free(struct model_conn *conn); /* NULL is fine */

#endif

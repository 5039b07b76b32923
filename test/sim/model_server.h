/* SPDX-License-Identifier: MIT
 *
 * The model server: a look-alike of Redis 7.0 in this process, for the simulator. It runs
 * the real scripts in Lua 5.1, has no thread, no loop, no socket and no clock of its own,
 * and does nothing but inside the calls below; what it does depends on nothing but these
 * calls and the clock.
 *
 * Happy path: model_server_new() with the virtual clock; model_server_connect() for each
 * accepted transport; model_conn_feed() what arrived, in pieces of any size;
 * model_conn_output() and model_conn_consume() what is to be sent. A publish gives output
 * to other connections than the one that was fed: model_server_on_output() tells of every
 * connection whose output was empty and is not any more, and of every one that the server
 * closes. That callback may only take notes.
 *
 * For the simulator's network layer:
 *  - a half-open link is a connection that is neither fed nor freed: it stays subscribed;
 *  - a reset is model_conn_free(): the server forgets the client at once, output and all;
 *  - a restart closes all connections (model_conn_closing()) and begins client ids anew;
 *  - each of the faults is a switch in struct model_faults, to be set between calls;
 *  - the server's own clock steps by model_server_step_clock(), true time does not;
 *  - a stranger, a checker or an evictor asks by model_server_ask(), past all faults.
 *  - a second server replicates the first; roles change by model_server_replicate(), with
 *    all connections open;
 *  - a node of a cluster goes by a map of its own, model_server_be_node(); keys go from
 *    one to the other by model_server_migrate().
 * The answers are compared with a real server's by difftest; what is not modelled: RESP3,
 * MULTI, memory, ACL users other than the default one, `map` and `double` answers of
 * scripts.
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

/* All off by default. The strings are borrowed for as long as they stand here. */
struct model_faults {
    bool oom;      /* "used memory > maxmemory": commands that grow memory are refused */
    bool loading;  /* LOADING */
    bool busy;     /* BUSY: a script runs for ever */
    bool readonly; /* a replica now: READONLY */
    bool masterdown;     /* a replica that lost its master: MASTERDOWN */
    bool misconf;        /* MISCONF: the disk is full */
    bool noreplicas;     /* NOREPLICAS */
    bool deny_channels;  /* NOPERM to every channel; see model_server_deny_channels() */
    bool forget_scripts; /* every EVALSHA meets an empty cache: NOSCRIPT */
    const char *denied_commands; /* NOPERM: small letters, "publish client|kill" */
    const char *allowed_prefix;  /* NOPERM to every key that does not begin so */
    const char *password;        /* new connections have to AUTH; NULL: none */
    const char *error_once;      /* the next command answers this and does nothing */
    const char *eviction_policy; /* for CONFIG GET; NULL: noeviction */
    int max_clients;             /* 0: any number */
};

struct model_server *model_server_new(model_clock_fn *clock, void *arg);
void model_server_free(struct model_server *server); /* with all connections */
void model_server_on_output(struct model_server *server, model_output_fn *notify,
                            void *arg);
struct model_faults *model_server_faults(struct model_server *server);

/* How far back a restart may go. Nothing is remembered before this is called. */
void model_server_remember(struct model_server *server, int64_t window_us);
/* lost_us 0: the data is all there; above: without that much of the last writes (within
 * the window remembered); below 0: empty. Scripts and subscriptions are gone, connections
 * are closing. */
void model_server_restart(struct model_server *server, int64_t lost_us);
void model_server_hang_up(struct model_server *server); /* on all connections */
void model_server_step_clock(struct model_server *server, int64_t step_us);
int64_t model_server_time_us(struct model_server *server); /* what TIME would say */
void model_server_flush_scripts(struct model_server *server);
/* Like ACL SETUSER resetchannels or allchannels: denying closes who is subscribed. */
void model_server_deny_channels(struct model_server *server, bool deny);
uint64_t model_server_commands(
    const struct model_server *server); /* taken from connections */

/* The commands that not every server has: this one has `word` ("delifeq", "delex"). NULL:
 * none of them, as before. */
void model_server_know(struct model_server *server, const char *word);
/* What INFO's run_id begins with; servers side by side differ in it. */
void model_server_set_number(struct model_server *server, unsigned number);
/* It has been running for so long. */
void model_server_set_uptime(struct model_server *server, int64_t us);

/* Where it is, as others are told (ROLE). */
struct model_place {
    const char *host; /* NULL: nowhere */
    int port;
};
void model_server_set_place(struct model_server *server, const struct model_place *place);

struct model_other {
    struct model_place place;
    const char *id;
};

/* A sentinel: what it says of the one service that it watches over, and who else does.
 * All is borrowed, and may change between calls. */
struct model_view {
    const char *service;
    struct model_place master;
    int64_t config_epoch;
    const char *flags; /* "master", "master,s_down" ... */
    const char *id;    /* its own */
    const struct model_other *others;
    size_t other_count;
};
/* It is a sentinel from now on, and knows a sentinel's commands alone. */
void model_server_be_sentinel(struct model_server *server, const struct model_view *view);
void model_server_publish(struct model_server *server, const char *channel,
                          const char *message);

/* A node of a cluster: where it takes each slot to be, and which it gives away or gets.
 * All is borrowed, and may change between calls. Nodes are told by their numbers. */
#define MODEL_SLOTS 16384
#define MODEL_NOBODY 255

enum model_vileness {
    MODEL_SOUND,
    MODEL_NO_CLUSTER, /* CLUSTER SLOTS: it is none */
    MODEL_NO_ARRAY,
    MODEL_NO_RANGE,  /* the first slot is above the last */
    MODEL_NO_NUMBER, /* the slots are words */
    MODEL_NO_MASTER,
    MODEL_OVERLAPS, /* two have the same slots */
    MODEL_NO_PLACE, /* a port that is none */
    MODEL_VILENESSES
};

struct model_map {
    const struct model_place *places; /* of all nodes */
    const unsigned char *masters;     /* whom each follows; itself: it is one */
    unsigned self, count;
    unsigned char owners[MODEL_SLOTS]; /* MODEL_NOBODY: none of them, in all three */
    unsigned char gives_to[MODEL_SLOTS], gets_from[MODEL_SLOTS];
    unsigned hidden_from, hidden_to; /* slots before the second that nobody has */
    bool down;                       /* the cluster, as it sees it */
    unsigned epoch;                  /* the latest that it knows of */
    const char *self_host; /* what it says of its own host; NULL: nil; places': that */
    enum model_vileness vileness; /* of its answer to CLUSTER SLOTS */
};
/* It is a node from now on; NULL: a server by itself again. */
void model_server_be_node(struct model_server *server, const struct model_map *map);
/* Those of slots that it has not: who listens to them is told that they are over. */
void model_server_end_channels(struct model_server *server);
/* As MIGRATE does it: the key is there with what it has left, and not here any more.
 * false: there is one already, and nothing is done. No such key here is fine. */
bool model_server_migrate(struct model_server *from, struct model_server *to,
                          struct bytes key);

/* Replication (replication.c). `replica` gets a copy of what `master` has, refuses writes
 * from then on, and is sent what each command does there, messages for its subscribers
 * included: as steps, which are under way until they are delivered, the oldest first. */
void model_server_replicate(struct model_server *replica, struct model_server *master);
bool model_server_is_replica(const struct model_server *server);
bool model_server_deliver(struct model_server *replica); /* false: none is under way */
/* Told of each new step. That callback may only take notes. */
void model_server_on_step(struct model_server *replica, model_step_fn *on_step,
                          void *arg);
/* True time of the oldest step under way; -1: there is none. */
int64_t model_server_oldest_step_us(const struct model_server *replica);
/* REPLICAOF NO ONE: what is under way to it is lost. */
void model_server_promote(struct model_server *replica);
/* How it is told when keys end: as a time by the master's clock (Redis 7), or as what is
 * left until then (before), which does not mind that their clocks are apart. */
void model_server_takes_what_is_left(struct model_server *replica, bool takes);
/* As FAILOVER does it: what may write waits, all else is answered; in the end it is
 * run. */
void model_server_pause_writes(struct model_server *server, bool pause);

/* One run of a script that came by a connection, when it is over; or of a command that
 * compares and deletes, in the place of one. */
struct model_script_run {
    const struct bytes *keys, *args;
    int key_count, arg_count;
    struct bytes reply; /* RESP */
    const char *sha1;   /* of the script; "" for a command in its place */
};

/* Who looks on: may ask the server, and change nothing. */
struct model_watch {
    void (*before)(struct model_server *server, const struct model_script_run *run);
    void (*script)(struct model_server *server, const struct model_script_run *run);
    void (*publish)(struct model_server *server, struct bytes channel,
                    struct bytes message, int64_t receivers);
    /* A node's script uses a key that it was not given. */
    void (*undeclared)(struct model_server *server, struct bytes key);
};
void model_server_watch(struct model_server *server, const struct model_watch *watch);

/* Runs one command without a connection, past all faults; the answer is RESP. */
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
bool model_conn_closing(const struct model_conn *conn); /* send, then hang up */
void model_conn_set_user(struct model_conn *conn, void *user);
void *model_conn_user(const struct model_conn *conn);
int64_t model_conn_id(const struct model_conn *conn);
bool model_conn_subscribed(const struct model_conn *conn);
void model_conn_free(struct model_conn *conn); /* NULL is fine */

#endif

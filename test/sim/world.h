/* SPDX-License-Identifier: MIT
 *
 * The simulator's world: the declarations that its files share. One run is a function of
 * its seed alone: it runs the shipped library on the real libevent and hiredis, in
 * virtual time, against the model server. All events come from one heap, and all random
 * choices from one generator.
 *
 *   sim.c         the command line; one process per seed
 *   hour.c        another program: an hour without faults, minute by minute
 *   plan.c        what a seed makes likely
 *   trace.c       the trace of a run, and violations
 *   virtual.c     the clock, timerfd and epoll_wait that the library and libevent use
 *   agenda.c      the heap of events
 *   network.c     the wires between hosts and servers
 *   host.c        the processes that use the library: their loops, stalls and deaths
 *   load.c        what the hosts do with locks
 *   keeping.c     keeps
 *   inquire.c     operators, who inspect and break locks
 *   faults.c      the faults
 *   foreign.c     clients with another guard time
 *   servers.c     one server, or a master and a replica, and their roles
 *   sentinels.c   the sentinels that watch over them
 *   nodes.c       a cluster's nodes
 *   slots.c       slots that move between the nodes
 *   stray.c       holds that a failover lost
 *   look.c        reads the servers' keys, for the checks
 *   check.c       checks what the library reports
 *   check_server.c, check_quorum.c   check the servers' keys
 *   check_script.c, check_told.c     check each script, and the messages it publishes
 *   check_watched.c                  checks hosts that ask sentinels
 *
 * Usual course: world_run(seed) makes the hosts, runs the agenda through a time with
 * faults and a time without them, closes everything, and checks all along. A violation
 * prints the seed and the trace and ends the process.
 */
#ifndef LW_SIM_WORLD_H
#define LW_SIM_WORLD_H

#include "lockwire.h"
#include "model_server.h"
#include "rng.h"

#include <event2/event.h>

#define MS INT64_C(1000)
#define SECOND INT64_C(1000000)
#define NEVER INT64_MAX
#define LONGEST_CLOG_US (8 * SECOND)
#define LONGEST_LEASE_US (10 * SECOND)
#define BEGIN_US (1000 * SECOND)
#define HOSTS 6
#define NAMES 8        /* at most */
#define SINGLE_NAMES 4 /* at most, in a world without sets */
#define PAIR 2         /* a master and a replica */
#define SERVERS 7      /* a cluster's nodes: three masters, three replicas, and a spare */
#define SENTINELS 3
#define PERMITS 2 /* of a semaphore */
#define ACTORS 4
#define EVENTS 3000000 /* more than any run needs that makes progress */

enum fault {
    FAULT_RESET,     /* a connection is reset, for both ends or for the host alone */
    FAULT_HALF_OPEN, /* a connection loses everything from now on, one way or both */
    FAULT_CLOG,      /* a connection delays everything for some time */
    FAULT_STALL,     /* a host's loop stalls */
    FAULT_DEATH,     /* a host's process dies, and another takes its place */
    FAULT_CLOSE,     /* a client is closed gracefully, and another opened */
    FAULT_NOSCRIPT,  /* the scripts are flushed */
    FAULT_REFUSAL,   /* a server replies OOM, LOADING, BUSY and the like for some time */
    FAULT_ERROR,     /* a server replies to one command with an error */
    FAULT_CHANNELS,  /* a server denies channels, or PUBLISH, or counting subscribers */
    FAULT_RESTART,   /* a server restarts and has all its data */
    FAULT_STRANGER,  /* a foreign client takes a lock with SET NX PX */
    FAULT_QUEUE,     /* a queue is evicted */
    FAULT_FENCE,     /* the fence counter is evicted */
    FAULT_LOSS,      /* a restart without the last writes, or empty; a lock is evicted */
    FAULT_CLOCK,     /* the server's clock is set */
    FAULT_SWAP,      /* master and replica change roles */
    FAULT_SPLIT,     /* the replica is promoted, and the old master stays up */
    FAULT_FAILOVER,  /* the master dies, and the replica is promoted */
    FAULT_BREAK,     /* an operator breaks a lock */
    FAULT_INSPECT,   /* an operator inspects a lock */
    FAULT_SENTINEL,  /* a sentinel is down, or reports something wrong */
    FAULT_SLOT,      /* a slot moves from one node of a cluster to another */
    FAULT_NODE,      /* one node, or all, are down or report something wrong */
    FAULT_MEMBER,    /* a node leaves the cluster, or joins it */
    FAULT_FREEZE,    /* a server freezes, unless it is a cluster's */
    FAULT_EXCHANGE,  /* an empty server that has long been up takes a server's address */
    FAULT_FOREIGN,   /* a client with another guard time asks a server, and goes */
    FAULTS
};

enum kind { KIND_MUTEX, KIND_RW, KIND_SEMAPHORE, KIND_REDISSON };

/* ---- plan.c: what the seed makes likely; each is per mille unless noted ---- */

extern bool plan_watches_all;   /* sentinels in all worlds, not only in some */
extern bool plan_clusters_all;  /* a cluster in all worlds */
extern bool plan_sets_all;      /* calls of lw_acquire_all in all worlds */
extern bool plan_guards_all;    /* clients use the guard in all worlds */
extern bool plan_detaches_all;  /* locks are detached and adopted in all worlds */
extern bool plan_quorums_all;   /* a quorum in all worlds */
extern bool plan_uneventful;    /* no faults and no load: hour.c has its own */
extern const char *plan_option; /* of the program, that set one of these; "" if none */
void plan_draw(void);

struct plan {
    unsigned hosts, names, actors; /* actors: per host */
    int64_t faults_us;             /* length of the time with faults, */
    unsigned ops;                  /* which ends earlier when this many ops have begun */
    int64_t latency_us, jitter_us;
    unsigned slow; /* packets that take up to slow_us longer */
    int64_t slow_us;
    int64_t drift;               /* how fast the server's clock is, in millionths */
    unsigned split;              /* packets that arrive in pieces */
    unsigned late, twice, muted; /* messages that arrive late, twice, never */
    bool nameless;    /* INFO is denied: clients do not learn which server this is */
    unsigned ghostly; /* resets that the server never notices */
    bool unkillable;  /* CLIENT KILL is denied: no client can kill its old connection */
    bool brief, lengthened; /* leases are short; or long, so that polls are rare */
    unsigned local_turns;
    uint32_t claim_ms, request_timeout_ms;
    int64_t hold_us, think_us;
    unsigned margin, capped, unrenewed, unfenced, hasty; /* acquisitions, by options */
    unsigned freed, abandoned, extended;
    unsigned kept;     /* acquisitions by a keep */
    unsigned sets;     /* acquisitions of several names at once */
    unsigned detached; /* holds that are detached or have a minimum time; adoptions */
    unsigned limited;  /* acquisitions with max_waiting */
    enum kind kinds[NAMES];
    unsigned owned;   /* read-write acquisitions for one of a few owners */
    unsigned inside;  /* calls made within callbacks */
    unsigned fatal;   /* callbacks in which the client is freed or closed */
    bool tame;        /* nothing goes wrong at all; slots may move */
    bool quiet;       /* tame; also, mutex waiters do not time out, and holders release */
    unsigned lengthy; /* callbacks that take a long time */
    unsigned startled;        /* packets on whose arrival the host stalls */
    int64_t stall_us;         /* the longest such callback, and the longest stall */
    int64_t every_us[FAULTS]; /* the mean interval of each fault; 0: never */
    unsigned servers;         /* PAIR: a master and a replica; SERVERS: a cluster */
    const char *knows[PAIR];  /* their compare-and-delete command; or NULL */
    int64_t lag_us;           /* the replica's longest replication lag */
    unsigned balanced;        /* new connections that go to a random server */
    int64_t name_lag_us;      /* the longest time until the name points at a new master */
    int64_t split_us;         /* the longest time for which an old master lives on */
    int64_t calm_us;    /* from then on there is only load, and no fault; 0: never */
    bool deaf;          /* and the replica receives nothing from then on */
    int64_t apart_us;   /* how far the second server's clock is ahead */
    bool ends_by_clock; /* the replica receives expiry times, not the time left */
    bool ends_apart;    /* so expiry times are different after a swap */
    bool watched;       /* by sentinels; hosts ask them for the master */
    unsigned listed;    /* the number of sentinels that hosts know from the beginning */
    bool secretive;     /* the sentinels require a password */
    bool clear;         /* packets arrive, and in time, and no host stalls */
    int64_t down_us;    /* the longest time until a dead master is replaced */
    bool unkilled;      /* a master that becomes a replica keeps its connections */
    bool clustered;     /* the servers are a cluster's nodes */
    unsigned seeds;     /* the nodes that hosts know from the beginning: bits */
    int64_t move_us;    /* the longest time that moving a key takes */
    bool sixth;         /* some nodes have IPv6 addresses */
    bool selfless;      /* the nodes do not know their own address */
    bool quorum;        /* the servers are a quorum: independent of each other */
    uint32_t guard_ms;  /* the clients' guard time; 0: no guard */
    bool besieged;      /* old masters live on for as long as they may */
    bool returns;       /* a master that was replaced is soon the master again */
    int64_t uptime_us;  /* the servers' uptime at the beginning */
};

/* ---- the world ---- */

struct event_entry {
    int64_t at_us;
    uint64_t order;
    void (*run)(void *arg);
    void *arg;
};

struct host {
    int id;
    struct event_base *base;
    struct lw_client *client;
    unsigned life;   /* of its client: calls planned for an earlier one are void */
    int64_t wake_us; /* when libevent wants to be called at the latest */
    int64_t stalled_until_us;
    int64_t stall_end_us; /* of the last stall */
    bool ready;           /* there is input or a due timer: its loop must run */
    bool idle;            /* libevent found nothing to do */
    bool busy;            /* it is on the stack, inside a callback that takes time */
    bool closing;
    bool link_up;  /* as the library reported */
    int64_t up_us; /* when it came up */
    struct {
        int64_t at_us; /* when a sentinel reported it; 0: nothing to check */
        unsigned to;   /* the new master */
        int last_wire; /* wires up to this one must end, unless they lead to `to` */
        int told_by;   /* the wire of the report */
    } turn;
    unsigned in_call;         /* how many API calls are on the stack */
    int64_t cut_off_until_us; /* until then it reaches nothing except cut_off_with */
    unsigned cut_off_with;
    int64_t close_due_us;
};

struct op;

struct world {
    uint64_t seed;
    struct rng rng;
    struct plan plan;
    int64_t now_us; /* true time, and CLOCK_BOOTTIME */
    struct event_entry *agenda;
    size_t agenda_count, agenda_size;
    uint64_t order;
    struct model_server *server; /* the master */
    struct model_server *servers[SERVERS];
    struct model_server *sentinels[SENTINELS];
    struct host hosts[HOSTS];
    struct host *current;   /* the one whose code runs */
    struct op *ops;         /* those whose handle is not freed yet */
    struct op *past;        /* the others, for which no callback may come */
    uint64_t fence[NAMES];  /* the largest granted */
    int64_t idle_us[NAMES]; /* since when there are waiters and no holder; 0: not so */
    int64_t idle_until_us[NAMES]; /* when that must have ended */
    unsigned op_count, granted, failed, lost;
    unsigned failovers, excused; /* excused: overlaps that failovers caused */
    unsigned moves;              /* of slots */
    int64_t calm_us; /* from then on there is only load, and no fault; NEVER: not so */
    bool healed;     /* there are no faults and no new acquisitions */
    int64_t healed_us;
    int64_t loss_until_us; /* a server lost state: two may hold until then */
    int64_t loss_us;       /* since when writes are lost, by losses up to loss_until_us */
    int64_t split_until_us; /* fencing tokens of a lost server may be issued again */
};

extern struct world world;

/* ---- trace.c ---- */

enum trace_mode { TRACE_OFF, TRACE_ALL, TRACE_LAST, TRACE_SUM };
extern enum trace_mode trace_mode;
extern uint64_t trace_sum; /* of all lines, under TRACE_SUM */
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
void trace_bytes(const char *what, int id, const void *data, size_t len);
/* Reports a failed check, and ends the process. */
void violation(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* ---- agenda.c ---- */

void agenda_add(int64_t at_us, void (*run)(void *arg), void *arg);
int64_t agenda_next(void); /* or NEVER if it is empty */
void agenda_run_due(void); /* all events that are due */
void agenda_clear(void);

/* ---- virtual.c ---- */

void virtual_begin(void);
void virtual_end(void);

/* ---- network.c ---- */

void network_begin(void);
void network_collect(const struct host *host); /* takes what the host has sent */
void network_end(void);
struct sockaddr;
int network_connect(int fd, const struct sockaddr *address); /* instead of connect() */

/* ---- servers.c ---- */

void servers_begin(void);
void servers_end(void);
void servers_heal(void);
unsigned servers_any(void);
const char *servers_quorum_url(void);
/* Returns the server of a quorum that has this address. */
unsigned servers_place(const char *host);
unsigned servers_route(void); /* the server of a new connection */
bool servers_refuse(unsigned server);
int64_t servers_frozen_until(unsigned server);
/* Returns true if it is an old master whose replicas are gone: it accepts no writes. */
bool servers_lack_replicas(unsigned server);
void servers_ran(unsigned server); /* the server has executed a command */
unsigned servers_changes(void);    /* of roles, so far */
int64_t servers_since_us(void);    /* when the present master became it */
/* Returns the server that decides about a key: the master, or in a cluster the node that
 * has the key. */
struct model_server *servers_of(const char *key);
unsigned servers_index(const struct model_server *server);
int64_t servers_time_us(void *arg);
void servers_restart(unsigned server, int64_t lost_us);
/* Puts an empty server in its place, which has been running for a long time. */
void servers_exchange(unsigned server);
void servers_freeze(unsigned server, int64_t us);
void servers_calm_down(void);
void servers_swap(void);
void servers_split(void);
void servers_fail_over(void);

/* ---- host.c ---- */

void host_open(struct host *host);
void host_close(struct host *host); /* gracefully */
void host_kill(struct host *host);  /* its process dies */
void host_stall(struct host *host, int64_t until_us);
void host_take_time(int64_t us); /* the current host's callback takes that long */
bool host_can_run(const struct host *host);
void world_run_until(int64_t us);
void world_run(uint64_t seed);
/* The first and the last part of world_run, for hour.c. */
void world_begin(uint64_t seed);
void world_end(void);

/* ---- load.c ---- */

enum op_state { OP_WAITING, OP_HELD, OP_RELEASING, OP_OVER };

/* One lw_acquire_all. Each of its names is an op, whose lock is NULL until the set is
 * held: the caller has no access to the members before that. */
struct set {
    struct lw_all *all; /* NULL once freed */
    unsigned count, done;
    struct op *ops[NAMES]; /* in the caller's order */
    int64_t lost_us;       /* 0: not lost */
};

/* One lw_acquire, one acquisition of a keep, or one name of a set, with its results. */
struct op {
    struct op *next;
    unsigned id, name;
    struct host *host;
    unsigned life;
    struct lw_lock *lock; /* NULL once freed */
    struct lw_keep *keep; /* NULL if it is lw_acquire's */
    struct set *set;      /* or NULL */
    unsigned index;       /* in set->ops */
    struct lw_acquire_options options;
    char owner[16]; /* "": the op is its own owner */
    int64_t begun_us, granted_us, release_us;
    int64_t left_ms;     /* when it was granted */
    int64_t deadline_us; /* at the time of the release */
    uint64_t fence;
    bool of_split;      /* its fence may be issued again */
    bool excused;       /* it overlapped with another holder, and was counted */
    bool of_lost;       /* granted by writes that a failover lost */
    int64_t unknown_us; /* since when the master does not know the hold; 0: it does */
    unsigned overtaken; /* by later waiters, without a reason */
    enum op_state state;
    unsigned done, lost, released, renews, renewed;
    unsigned warned; /* how many calls of at_risk it had */
    int lost_why;
    bool wants_release_call;
    bool let_go;    /* the server has released it, in time */
    char token[80]; /* once it is held */
    bool adopted;   /* its op was begun by lw_adopt */
    bool detaches;  /* lw_detach was called, */
    bool detached;  /* and a server has executed it */
    bool passed_on; /* an adopter's token has replaced its own */
};

void load_begin(void);
void load_client_gone(struct host *host); /* its client has been closed or freed */
void load_end(void);
bool load_is_over(void);              /* no op is open */
const char *load_name(unsigned name); /* the key, with the prefix */
/* Returns the same without the prefix, as the library's caller names it. */
const char *load_given(const char *key);
/* The prefix of all clients (LOCKWIRE_TEST_PREFIX), or "". */
const char *load_prefix(void);

/* Records the result of an acquisition. */
void load_done(struct op *op, const struct lw_lock *lock, int status);
/* Records the loss. Returns false if the client, and `op` with it, has ended or will
 * end. */
bool load_lost(struct op *op, const struct lw_lock *lock, int status);

/* ---- keeping.c ---- */

/* Returns true if the acquisition is to be a keep's. Then sets options by which many
 * keeps lose the lock again and again. */
bool keeping_draw(struct lw_acquire_options *options);
int keeping_begin(struct op *op); /* returns the result of lw_keep_new */
void keeping_review(void);        /* updates which acquisition each keep is at */

/* ---- inquire.c ---- */

void inquire(struct host *host, const char *name, bool to_break);
void inquire_end(void);

/* ---- faults.c ---- */

void faults_begin(void);
void faults_end(void);
/* Ends the client of a host, from the host's own code. Another client takes its place. */
void faults_end_client(struct host *host);
/* Declares that writes since `since_us` may be lost, and that more may be lost for
 * `within_us`. */
void declare_loss(int64_t since_us, int64_t within_us);

/* ---- foreign.c ---- */

/* A client with another guard time than the hosts' asks a server for it, and goes. If the
 * hosts are refused then, an operator deletes the record some time later. */
void foreign_come(void);
/* An operator deletes all records that refuse the hosts. */
void foreign_end(void);
/* Checks the reply of guard.lua to a host. */
struct model_script_run;
void foreign_check(struct model_server *server, const struct model_script_run *run);

/* ---- check.c ---- */

void check_callback(const struct op *op, const char *what, bool of_loss);
void check_done(const struct op *op, int status);
void check_lost(const struct op *op, int why);
void check_risk(const struct op *op, int at_risk, int64_t remaining_ms);
void check_beliefs(void);
void check_nobody_believes(const char *name); /* a foreign client just took it */
void check_healed(void);                      /* all waiters have got a result */
void check_link(struct host *host, const struct lw_client *client, bool up);
void check_end(void);
/* Declares that fencing tokens granted from `since_us` to `until_us` may be issued again,
 * and so do not count. */
void check_split(int64_t since_us, int64_t until_us);

/* ---- check_server.c ---- */

void check_backed(const struct op *op); /* the server has the hold that it believes in */
void check_keys(void);
void check_last_keys(void); /* all keys with a TTL have expired */

/* ---- check_quorum.c ---- */

/* Checks that a majority of the servers has votes of the client that believes to hold. */
void check_votes(const struct op *op);
/* Returns true if the name has no majority of the servers. */
bool check_has_no_majority(const char *name);

/* ---- check_watched.c ---- */

struct wire;
/* Checks the server that a host connects to. */
void check_way(const struct host *host, unsigned server);
void check_greeted(struct wire *wire, struct bytes data);
void check_told_turn(struct wire *wire, struct bytes data); /* by a sentinel */
void check_watched(void);
/* Returns true if the host's connection is from before its server was replaced, so that
 * it may not know of that. */
bool check_is_unaware(const struct host *host);
bool check_is_at_master(const struct host *host); /* its command link is */
void check_settled(void);

/* ---- stray.c ---- */

/* Called when a master has been replaced: its writes since `since_us` are lost. */
void stray_begin(struct model_server *old, int64_t since_us);
void stray_note(struct model_server *old); /* it has executed something since */
bool stray_is(const struct op *op);
bool stray_was(const struct op *op); /* also if its client is gone, or it was released */
bool stray_is_void(const struct op *op); /* its fence may have been issued before */
void stray_review(const struct op *op);
void stray_token(const struct op *op, char *ret); /* in the form that the server stores */
void stray_end(void);

/* ---- check_script.c ---- */

void check_scripts_begin(void);
void check_scripts_end(void);

/* ---- check_told.c ---- */

void told_begin(void);
void told_end(void);
void told_note(struct bytes message, int64_t receivers);
void told_begin_script(struct bytes name); /* "": it is about several names, or none */
/* Checks the messages of the script that has ended on that server. A holder whose
 * token is among the arguments learns of its grant by the reply, without a message. */
void told_check(unsigned server, const struct bytes *args, int arg_count);
/* Declares that the fencing tokens that this server has issued since then, until both
 * servers are joined, are void. */
void told_split(unsigned loser, int64_t since_us);
void told_join(void);
void told_lose(unsigned loser, int64_t since_us);

#endif

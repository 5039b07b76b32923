/* SPDX-License-Identifier: MIT
 *
 * The simulator's world: what its files share. One run is a function of its seed alone:
 * the shipped library on the real libevent and hiredis, in virtual time, against the
 * model server. Everything that happens comes from one heap of events and one source of
 * chance.
 *
 *   sim.c      the command line; one process for each seed
 *   plan.c     what a seed makes likely          trace.c    what is told of a run
 *   virtual.c  the clock, timerfd and epoll_wait that the library and libevent are given
 *   agenda.c   the heap of what happens when     network.c  the wires to the server
 *   host.c     the processes that use the library: their loops, stalls and deaths
 *   load.c     what they do with locks           check.c    what must be true of that
 *   faults.c   what goes wrong            check_server.c    what of the server's keys
 *   inquire.c  who inspects and breaks    check_script.c    what after each script
 *   check_told.c   what of messages    check_watched.c  what of who asks sentinels
 *   look.c     what the keys say       servers.c    one server or two, and their roles
 *   keeping.c  or have them kept
 *   stray.c    holds that are lost     sentinels.c  who watches over them
 *   nodes.c    or a cluster's nodes    slots.c      and slots that move between them
 *
 * Happy path: world_run(seed) makes the hosts, lets the agenda run through a time of
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
#define SERVERS 7      /* a cluster's nodes: three times that, and one more */
#define SENTINELS 3
#define PERMITS 2 /* of a semaphore */
#define ACTORS 4
#define EVENTS 3000000 /* more than any run needs that gets anywhere */

enum fault {
    FAULT_RESET,     /* a connection is reset, for both or for the host alone */
    FAULT_HALF_OPEN, /* nothing gets through any more, one way or both */
    FAULT_CLOG,      /* nothing gets through for some time, and then all of it */
    FAULT_STALL,     /* a host's loop stands still */
    FAULT_DEATH,     /* a host's process dies, another takes its place */
    FAULT_CLOSE,     /* a client is closed in good order, another opened */
    FAULT_NOSCRIPT,  /* the scripts are flushed */
    FAULT_REFUSAL,   /* OOM, LOADING, BUSY and the like, for some time */
    FAULT_ERROR,     /* one command is answered with an error */
    FAULT_CHANNELS,  /* no channels, or no counting of who listens, for some time */
    FAULT_RESTART,   /* the server restarts and has all its data */
    FAULT_STRANGER,  /* another program takes a lock with SET NX PX */
    FAULT_QUEUE,     /* a queue is evicted */
    FAULT_FENCE,     /* the fence counter is evicted */
    FAULT_LOSS,      /* restarts without the last writes, or empty; a lock is evicted */
    FAULT_CLOCK,     /* the server's clock is set */
    FAULT_SWAP,      /* master and replica change roles */
    FAULT_SPLIT,     /* the replica is made a master, and the old one lives on */
    FAULT_FAILOVER,  /* the master dies, the replica takes its place */
    FAULT_BREAK,     /* an operator takes a lock away */
    FAULT_INSPECT,   /* and one only looks */
    FAULT_SENTINEL,  /* a sentinel is away, or tells what is not so */
    FAULT_SLOT,      /* a slot moves from one node of a cluster to another */
    FAULT_NODE,      /* a node is away, or tells what is not so, or all have no cluster */
    FAULT_MEMBER,    /* a node leaves the cluster, or joins it */
    FAULT_FREEZE,    /* a server of a quorum stands still */
    FAULTS
};

enum kind { KIND_MUTEX, KIND_RW, KIND_SEMAPHORE, KIND_REDISSON };

/* ---- plan.c: what the seed makes likely; each "in thousand" or as it says ---- */

extern bool plan_watches_all;  /* not one seed in some: sentinels in all worlds */
extern bool plan_clusters_all; /* a cluster in all of them */
extern bool plan_sets_all;     /* calls of lw_acquire_all in all of them */
extern bool plan_guards_all;   /* clients use the guard in all of them */
extern bool plan_detaches_all; /* locks are detached and adopted in all of them */
extern bool plan_quorums_all;  /* a quorum in all of them */
void plan_draw(void);

struct plan {
    unsigned hosts, names, actors; /* actors: of each host */
    int64_t faults_us;             /* how long the first part lasts, */
    unsigned ops;                  /* unless so many have begun before */
    int64_t latency_us, jitter_us;
    unsigned slow; /* packets that take up to slow_us */
    int64_t slow_us;
    int64_t drift;               /* millionths by which the server's clock is fast */
    unsigned split;              /* packets that arrive in pieces */
    unsigned late, twice, muted; /* messages to subscribers that are so */
    bool nameless;               /* nobody is told which server this is */
    unsigned ghostly;            /* resets that the server never hears of */
    bool unkillable;             /* no client may kill its connection before */
    bool brief, lengthened;      /* leases are short; or long, so that polls are rare */
    unsigned local_turns;
    uint32_t claim_ms, request_timeout_ms;
    int64_t hold_us, think_us;
    unsigned margin, capped, unrenewed, unfenced, hasty; /* acquisitions that are so */
    unsigned freed, abandoned, extended;
    unsigned kept;     /* acquisitions that are a keep's */
    unsigned sets;     /* acquisitions of several names at once */
    unsigned detached; /* holds that are detached, or have a minimum time; adoptions */
    unsigned limited;  /* acquisitions that do not wait behind so many others */
    enum kind kinds[NAMES];
    unsigned owned;           /* read-write acquisitions for one of a few owners */
    unsigned inside;          /* calls made within callbacks */
    unsigned fatal;           /* callbacks in which the client is freed or closed */
    bool tame;                /* nothing goes wrong at all */
    bool quiet;               /* and besides, mutexes wait their turn and are let go */
    unsigned lengthy;         /* callbacks that take their time */
    unsigned startled;        /* packets at whose arrival the host stalls */
    int64_t stall_us;         /* how long that is, and stalls, at most */
    int64_t every_us[FAULTS]; /* how often each fault comes; 0: never */
    unsigned servers;         /* PAIR: a master and a replica; SERVERS: a cluster */
    const char *knows[PAIR];  /* the command by which they compare and delete; or NULL */
    int64_t lag_us;           /* what the replica is behind by, at most */
    unsigned balanced;        /* new connections that go to either */
    int64_t name_lag_us;      /* how late the name points at a new master, at most */
    int64_t split_us;         /* how long two live on by themselves, at most */
    int64_t calm_us;          /* after it nothing happens any more but load; 0: never */
    bool deaf;                /* and the replica hears nothing any more */
    int64_t apart_us;         /* what the second one's clock is ahead by */
    bool ends_by_clock;       /* the replica is told when keys end, not what is left */
    bool ends_apart;          /* so ends are other ones after a swap */
    bool watched;             /* by sentinels, who are asked where the master is */
    unsigned listed;          /* of those, whom hosts know from the beginning */
    bool secretive;           /* they want a password */
    bool clear;               /* what travels does so, in time, and no host stalls */
    int64_t down_us;          /* how long a dead master is not replaced, at most */
    bool unkilled;            /* a master that becomes a replica keeps its connections */
    bool clustered;           /* the servers are a cluster's nodes */
    unsigned seeds;           /* of those, whom hosts know from the beginning: bits */
    int64_t move_us;          /* how long a key that moves takes, at most */
    bool sixth;               /* nodes have addresses of IPv6, too */
    bool selfless;            /* they do not know their own */
    bool quorum;              /* the servers are one: none knows of another */
    uint32_t guard_ms;        /* the clients' guard time; 0: they have none */
    bool besieged;            /* old masters live on for as long as they may */
    bool returns;             /* a master that was replaced is it again soon */
    int64_t uptime_us;        /* for how long the servers have been up at the beginning */
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
    int64_t wake_us; /* when libevent wants to be called, whatever happens */
    int64_t stalled_until_us;
    int64_t stall_end_us; /* of the last stall */
    bool ready;           /* something came: its loop has to run */
    bool idle;            /* libevent found nothing to do */
    bool busy;            /* it is on the stack: inside a callback that takes time */
    bool closing;
    bool link_up;  /* as it was told */
    int64_t up_us; /* since when */
    struct {
        int64_t at_us; /* when a sentinel told it; 0: nothing to be seen to */
        unsigned to;   /* that this is the master */
        int last_wire; /* all that it had then, but to there, must go */
        int told_by;   /* the wire that it came by */
    } turn;
    unsigned in_call;         /* of the API */
    int64_t cut_off_until_us; /* it reaches no server and no sentinel but the one: */
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
    struct host *current;   /* whose code runs */
    struct op *ops;         /* those whose handle is not freed yet */
    struct op *past;        /* the others: nothing of them may be heard any more */
    uint64_t fence[NAMES];  /* the largest granted */
    int64_t idle_us[NAMES]; /* since when somebody waits and nobody holds; 0: not so */
    int64_t idle_until_us[NAMES]; /* how long that may be */
    unsigned op_count, granted, failed, lost;
    unsigned failovers, excused; /* two believed, by a hold that a failover lost */
    unsigned moves;              /* of slots */
    int64_t calm_us;             /* nothing happens any more but load; NEVER: it does */
    bool healed; /* nothing goes wrong any more, and nobody starts anything */
    int64_t healed_us;
    int64_t loss_until_us;  /* the server lost state: two may hold until then */
    int64_t loss_us;        /* when it did first, of those times that touch */
    int64_t split_until_us; /* numbers may be told again that a lost server told */
};

extern struct world world;

/* ---- trace.c ---- */

enum trace_mode { TRACE_OFF, TRACE_ALL, TRACE_LAST, TRACE_SUM };
extern enum trace_mode trace_mode;
extern uint64_t trace_sum; /* of all that was told, under TRACE_SUM */
void trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
void trace_bytes(const char *what, int id, const void *data, size_t len);
/* Something that must be true is not. Does not return. */
void violation(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* ---- agenda.c ---- */

void agenda_add(int64_t at_us, void (*run)(void *arg), void *arg);
int64_t agenda_next(void); /* NEVER: nothing */
void agenda_run_due(void); /* all until now */
void agenda_clear(void);

/* ---- virtual.c ---- */

void virtual_begin(void);
void virtual_end(void);

/* ---- network.c ---- */

void network_begin(void);
void network_collect(const struct host *host); /* takes what its sockets were given */
void network_end(void);
struct sockaddr;
int network_connect(int fd, const struct sockaddr *address); /* instead of connect() */

/* ---- servers.c ---- */

void servers_begin(void);
void servers_end(void);
void servers_heal(void);
unsigned servers_any(void);
const char *servers_quorum_url(void);
/* Which server of a quorum has this address. */
unsigned servers_place(const char *host);
unsigned servers_route(void); /* where a new connection ends */
bool servers_refuse(unsigned server);
int64_t servers_frozen_until(unsigned server);
/* Returns true if it is an old master whose replicas are gone: it accepts no writes. */
bool servers_lack_replicas(unsigned server);
void servers_ran(unsigned server); /* it did what it was asked for */
unsigned servers_changes(void);    /* of roles, until now */
int64_t servers_since_us(void);    /* since when the master is it */
/* Whose word counts about a key: the master's, of a cluster the one that has it. */
struct model_server *servers_of(const char *key);
unsigned servers_index(const struct model_server *server);
int64_t servers_time_us(void *arg);
void servers_restart(unsigned server, int64_t lost_us);
void servers_freeze(unsigned server, int64_t us);
void servers_calm_down(void);
void servers_swap(void);
void servers_split(void);
void servers_fail_over(void);

/* ---- host.c ---- */

void host_open(struct host *host);
void host_close(struct host *host); /* in good order */
void host_kill(struct host *host);  /* its process dies */
void host_stall(struct host *host, int64_t until_us);
void host_take_time(int64_t us); /* the current one's callback takes that long */
bool host_can_run(const struct host *host);
void world_run_until(int64_t us);
void world_run(uint64_t seed);

/* ---- load.c ---- */

enum op_state { OP_WAITING, OP_HELD, OP_RELEASING, OP_OVER };

/* One lw_acquire_all. Each of its names is an op, whose lock is NULL until the set is
 * held: the caller knows nothing of the members before that. */
struct set {
    struct lw_all *all; /* NULL: freed */
    unsigned count, done;
    struct op *ops[NAMES]; /* in the caller's order */
    int64_t lost_us;       /* 0: not lost */
};

/* One lw_acquire, or one of those that a keep makes, and all that came of it; or one name
 * of a set. */
struct op {
    struct op *next;
    unsigned id, name;
    struct host *host;
    unsigned life;
    struct lw_lock *lock; /* NULL: freed */
    struct lw_keep *keep; /* NULL: of lw_acquire */
    struct set *set;      /* or NULL */
    unsigned index;       /* in set->ops */
    struct lw_acquire_options options;
    char owner[16]; /* "": itself alone */
    int64_t begun_us, granted_us, release_us;
    int64_t left_ms;     /* when it was granted */
    int64_t deadline_us; /* as it stood at the release */
    uint64_t fence;
    bool of_split;      /* its fence may be told again */
    bool excused;       /* another believed along with it, and was counted */
    bool of_lost;       /* granted by what a failover lost */
    int64_t unknown_us; /* since when the master does not know it; 0: it does */
    unsigned overtaken; /* by later ones, where that has no reason */
    enum op_state state;
    unsigned done, lost, released, renews, renewed;
    unsigned warned; /* how often it was told that it is at risk, or that it is not */
    int lost_why;
    bool wants_release_call;
    bool let_go;    /* the server has released it, in time */
    char token[80]; /* once it is held */
    bool adopted;   /* by lw_adopt */
    bool detaches;  /* lw_detach was called, */
    bool detached;  /* and a server has executed that */
};

void load_begin(void);
void load_client_gone(struct host *host); /* its client has been closed or freed */
void load_end(void);
bool load_is_over(void); /* nothing is open any more */
const char *load_name(unsigned name);

/* Its result came. */
void load_done(struct op *op, const struct lw_lock *lock, int status);
/* Its loss. False: the client ended, and `op` with it, or will. */
bool load_lost(struct op *op, const struct lw_lock *lock, int status);

/* ---- keeping.c ---- */

/* It is to be a keep's, and the options are such that many lose again and again. */
bool keeping_draw(struct lw_acquire_options *options);
int keeping_begin(struct op *op); /* what lw_keep_new returned */
void keeping_review(void);        /* which acquisition each keep is at */

/* ---- inquire.c ---- */

void inquire(struct host *host, const char *name, bool to_break);
void inquire_end(void);

/* ---- faults.c ---- */

void faults_begin(void);
void faults_end(void);
void faults_end_client(struct host *host); /* which runs; another takes its place */
/* What was done since then may be lost, and for `within_us` more may be. */
void declare_loss(int64_t since_us, int64_t within_us);

/* ---- check.c ---- */

void check_callback(const struct op *op, const char *what, bool of_loss);
void check_done(const struct op *op, int status);
void check_lost(const struct op *op, int why);
void check_risk(const struct op *op, int at_risk, int64_t remaining_ms);
void check_beliefs(void);
void check_nobody_believes(const char *name); /* a stranger just took it */
void check_healed(void);                      /* all that waited has ended */
void check_link(struct host *host, const struct lw_client *client, bool up);
void check_end(void);
/* This server's numbers from then on do not count, if nobody holds by them any more. */
void check_split(int64_t since_us, int64_t until_us);

/* ---- check_server.c ---- */

void check_backed(const struct op *op); /* it believes to hold */
bool check_is_free(const char *name);   /* no such key */
void check_keys(void);
void check_last_keys(void); /* of those that expire all have expired */

/* ---- check_quorum.c ---- */

/* It believes to hold: a majority of the servers has votes of its client. */
void check_votes(const struct op *op);
/* No majority of the servers has the name. */
bool check_has_no_majority(const char *name);

/* ---- check_watched.c ---- */

struct wire;
/* It connects to a server. */
void check_way(const struct host *host, unsigned server);
void check_greeted(struct wire *wire, struct bytes data);
void check_told_turn(struct wire *wire, struct bytes data); /* by a sentinel */
void check_watched(void);
/* It has a connection from before its server was replaced, and so may not know of it. */
bool check_is_unaware(const struct host *host);
bool check_is_at_master(const struct host *host); /* its commands are */
void check_settled(void);

/* ---- stray.c ---- */

/* It is not the master any more, and what it did since then is lost. */
void stray_begin(struct model_server *old, int64_t since_us);
void stray_note(struct model_server *old); /* but did something */
bool stray_is(const struct op *op);
bool stray_is_void(const struct op *op); /* its number may have been told before */
void stray_review(const struct op *op);
void stray_token(const struct op *op, char *ret); /* as the server has it */
void stray_end(void);

/* ---- check_script.c ---- */

void check_scripts_begin(void);
void check_scripts_end(void);

/* ---- check_told.c ---- */

void told_begin(void);
void told_end(void);
void told_note(struct bytes message, int64_t receivers);
void told_begin_script(struct bytes name); /* "": it is of several, or none */
/* It has ended, on that server. Its arguments: one that acquires there need not be
 * told. */
void told_check(unsigned server, const struct bytes *args, int arg_count);
/* The numbers that this server has told since then, until both are joined, are void. */
void told_split(unsigned loser, int64_t since_us);
void told_join(void);
void told_lose(unsigned loser, int64_t since_us);

#endif

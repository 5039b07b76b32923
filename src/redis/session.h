/* SPDX-License-Identifier: MIT */
/* One connection to a Redis server or a sentinel, kept alive: it resolves the host's
 * name, connects, exchanges the handshake, and after every failure does all of that
 * again, with exponential backoff and jitter. Independent of the commands that are sent
 * on the connection once it is ready.
 *
 * The handshake consists of AUTH, SELECT and CLIENT SETNAME, and of the questions which
 * server this is: CLIENT ID and INFO; CLUSTER MYID for a node of a cluster, so that a
 * node of another cluster at its address is not used; ROLE for a server whose endpoint
 * may change, which must be the master; SENTINEL MYID for a discovered sentinel.
 *
 * lw__session_start begins; `ready` is called; the owner sends commands on session->link;
 * `lost` is called when the connection ends, and `ready` again when the next one is up.
 *
 * A name may have several addresses. With redis:// the handshake then includes INFO
 * replication, and a replica counts as a failure. If all of them fail, `lost` is called
 * with the failure that got farthest: a password that one server refuses says more than a
 * port that is closed at another address. */
#ifndef LW_SESSION_H
#define LW_SESSION_H
#include "base/address.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/url.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/endpoint.h"
#include "redis/link.h"
#include "redis/resp.h"
#include "redis/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__address_map;
struct lw__resolve;
struct lw__random;
struct lw__session;

#define LW__RUN_ID_SIZE 41

/* Which process the sentinels mean. */
struct lw__master_id {
    char run_id[LW__RUN_ID_SIZE]; /* "" if unknown */
    /* When it was reported, by our clock: one that started later may have another id.
     * INT64_MAX: none may. */
    int64_t known_us;
};

/* A connection that is up and needs credentials. */
struct lw__login {
    struct lw__login *next, *prev; /* the list of the module that provides them */
    bool needed;
};

/* The module that provides credentials. It answers a request by lw__session_log_in or
 * lw__session_refuse, later and from the event loop, unless `cancel` is called before. */
struct lw__login_events {
    void (*needed)(void *arg, struct lw__login *login);
    void (*cancel)(void *arg, struct lw__login *login);
};

/* How connections are made; shared by all sessions with one server. All strings must live
 * as long as these sessions. */
struct lw__session_config {
    struct lw__loop *loop;
    const struct lw__log *log;
    struct lw__random *random;
    /* One of them is set; or neither, and then `resolve` is. */
    const char *host, *path;
    uint16_t port;
    /* The endpoint may change, and the server there must be the master. Called before
     * each attempt; has to add the session to the list of the module that knows the
     * endpoint (`next_resolved`), and to answer by lw__session_resolved or
     * lw__session_unresolved, later and from the event loop. That module may call
     * lw__session_retarget at any time. NULL if the endpoint is fixed. */
    void (*resolve)(void *arg, struct lw__session *session);
    void *resolve_arg;
    /* Where to connect in place of the endpoint, which stays the name to verify. NULL if
     * the endpoint is the URL's. */
    const struct lw__address_map *address_map;
    /* The sentinel or the cluster's node that announced the endpoint; NULL, or without a
     * host, if the endpoint is the URL's. Read when an attempt fails. */
    const struct lw__endpoint *announced_by;
    /* The id of the cluster's node that must be there, "" for any; NULL outside a
     * cluster. Read at each connection. */
    const char *node_id;
    /* The process that the server must be, with sentinels; or NULL. Read at each
     * connection. */
    const struct lw__master_id *master_id;
    const char *username, *password; /* or NULL */
    /* Its first line is the password, in place of `password`; read for each attempt. */
    const char *password_file;
    const struct lw__login_events *login; /* in place of both; or NULL */
    void *login_arg;
    const char *client_name;
    /* The id that SENTINEL MYID must return before the session is ready, or NULL. It is
     * asked for before AUTH, so that the password is not sent to another sentinel; only a
     * sentinel that refuses the question before AUTH is sent the password first. */
    const char *sentinel_id;
    bool of_sentinel;           /* the server is to be a sentinel */
    bool replication;           /* the handshake always includes INFO replication */
    bool secure;                /* TLS */
    struct lw__tls_options tls; /* server_name: NULL for the host's */
    int db;
    size_t reply_max, reply_elements; /* 0: enough for any reply but a slot map */
    uint32_t connect_timeout_ms;      /* for name, connection and handshake together */
    uint32_t request_timeout_ms, backoff_min_ms, backoff_max_ms;
    struct lw__deferred *silence; /* these two: lw__link_options */
    uint32_t busy_poll_us;
};

/* How far an attempt to connect got before it failed, in this order. */
enum lw__stage {
    LW__STAGE_RESOLVE,
    LW__STAGE_CONNECT,
    LW__STAGE_TLS,
    LW__STAGE_HANDSHAKE
};

/* Why a connection, or an attempt to make one, ended. */
struct lw__failure {
    enum lw__stage stage;
    /* LW_ECONN; LW_EREDIS if the server refuses this account or this database, or if one
     * side rejects the other's TLS certificate, so that the next try fails as well;
     * LW_ESYSTEM if this process can open no more sockets; LW_ENOMEM */
    int status;
    char why[LW_WHY_SIZE]; /* "" if there was no failure */
};

struct lw__session_events {
    void (*ready)(void *arg);
    /* A connection that was ready, or an attempt to make one, ended: session->failure has
     * the reason and its class. The session tries again, unless the server does not let
     * it subscribe (NOPERM, unknown command): then it is stopped. */
    void (*lost)(void *arg, const char *why);
    /* The link's events of the same name, except that an error of the subscription ends
     * the connection. NULL if the session never subscribes, or never forgets a request.
     */
    void (*push)(void *arg, const struct lw__reply *reply);
    void (*unclaimed)(void *arg);
    /* An error of the subscription. Returns true if it has been handled, so that the
     * connection goes on. NULL if no error is. */
    bool (*refused)(void *arg, const char *error);
};

enum lw__handshake {
    LW__HANDSHAKE_SENTINEL_ID,
    LW__HANDSHAKE_AUTH,
    LW__HANDSHAKE_SELECT,
    LW__HANDSHAKE_ROLE,
    LW__HANDSHAKE_SETNAME,
    LW__HANDSHAKE_CLIENT_ID,
    LW__HANDSHAKE_INFO,
    LW__HANDSHAKE_REPLICATION,
    LW__HANDSHAKE_NODE_ID,
    LW__HANDSHAKE_STEPS
};

enum lw__session_state {
    LW__SESSION_STOPPED,
    LW__SESSION_RESOLVING,   /* config->resolve has been called */
    LW__SESSION_LOOKING_UP,  /* the host's addresses */
    LW__SESSION_CONNECTING,  /* TCP, and TLS */
    LW__SESSION_HANDSHAKING, /* the link is up */
    LW__SESSION_READY,
    LW__SESSION_BACKOFF
};

/* Why the connection is about to end, if that is known before it does. */
enum lw__session_end {
    LW__END_FAULT,          /* nothing special */
    LW__END_REFUSED,        /* the server refuses this account or database for good */
    LW__END_NO_SUBSCRIBE,   /* the server refuses SUBSCRIBE for good: the session stops */
    LW__END_OTHER_SENTINEL, /* the server has not proved to have config->sentinel_id */
    LW__END_RETARGETED /* the master is elsewhere: the next attempt follows at once */
};

struct lw__session {
    const struct lw__session_config *config;
    const struct lw__session_events *events;
    void *arg;
    enum lw__session_state state;
    enum lw__session_end end; /* of the present connection, or of the last one */
    struct lw__link *link;
    struct lw__resolve *lookup;
    struct lw__login login;
    /* Linked from the first question for the endpoint until the session is stopped. */
    struct lw__session *next_resolved, **prev_resolved;
    struct lw__endpoint endpoint; /* as resolved last */
    struct lw__timer timer;       /* ends the attempt; in BACKOFF: begins the next one */
    struct lw__late_check late_check; /* of the handshake */
    int64_t connect_deadline_us;      /* for name, connection and handshake together */
    int64_t attempt_deadline_us;      /* for the present address */
    struct lw__handshake_step {
        struct lw__request request;
        struct lw__session *session;
        enum lw__handshake kind;
    } steps[LW__HANDSHAKE_STEPS];
    unsigned steps_pending;
    unsigned steps_sent, steps_answered; /* bits, by enum lw__handshake */
    bool authenticated; /* SENTINEL MYID was refused without AUTH, which has been sent */
    uint32_t backoff_ms;
    int64_t ready_us; /* when it became ready */
    struct lw__addresses addresses;
    size_t address; /* the index of the one that is tried */
    int64_t id;     /* CLIENT ID of the connection that was ready last; 0 if unknown */
    int64_t previous_id; /* the same of the one before; 0: unknown, or another process */
    char run_id[LW__RUN_ID_SIZE];
    char node_id[LW__NODE_ID_SIZE]; /* as CLUSTER MYID replied; "" if unknown */
    bool clustered, wide;           /* by INFO: in cluster mode; a 64-bit build */
    int64_t started_us;             /* by INFO: when the process started, or earlier */
    /* By INFO replication on the present connection: the replication id of the server's
     * former master, "" if unknown. */
    char former_replication_id[LW__RUN_ID_SIZE];
    char former_offset[LW__DIGITS + 2]; /* second_repl_offset, "" if unknown */
    int64_t replicas;                   /* connected to it then; -1 if unknown */
    /* By INFO: the server's clock, and when it was asked for; 0 if unknown. */
    int64_t server_us, server_asked_us;
    int64_t clock_ahead_us; /* of this host's, if server_us is known; may be negative */
    char software[48];      /* by INFO: "Redis 7.0.15", "Valkey 8.0.1"; "" if unknown */
    /* These belong to the handshake in progress. */
    int64_t new_id;
    char new_run_id[LW__RUN_ID_SIZE];
    char handshake_error[LW_WHY_SIZE]; /* the last one; "" after another reply */
    struct lw__failure failure;        /* of this attempt so far, or of the last one */
    char pending[LW__TEXT_MAX];        /* what the attempt waits for; "" if for nothing */
    unsigned
        degraded; /* enum lw_degraded: what this connection, or the last one, lacks */
};

/* Initializes a session without starting it. The caller must have reserved a timer. */
void lw__session_init(struct lw__session *session,
                      const struct lw__session_config *config,
                      const struct lw__session_events *events, void *arg);
/* Begins to connect. Events come from the event loop. No effect unless it is stopped. */
void lw__session_start(struct lw__session *session);
/* Closes the connection without an event. lw__session_start begins again. */
void lw__session_stop(struct lw__session *session);
/* Returns true from the beginning of an attempt until it has succeeded or failed. */
static inline bool lw__session_is_connecting(const struct lw__session *session)
{
    return session->state >= LW__SESSION_RESOLVING &&
           session->state <= LW__SESSION_HANDSHAKING;
}
/* Sends a command of `words` words; its reply goes to `type`. If there will be no reply,
 * `lost` is called. */
void lw__session_request(struct lw__session *session, struct lw__request *request,
                         const struct lw__request_type *type, size_t words,
                         const char *const *text);

/* Notes in session->degraded, and logs, once and then once a minute, that the reply
 * denies an optional command, or that the server does not know it, and what that costs.
 * No effect after another reply. */
void lw__session_note_missing(struct lw__session *session, const struct lw__reply *reply,
                              unsigned degraded, int level, const char *command,
                              const char *price);

/* Continues the handshake as this user; "" is the default user. */
void lw__session_log_in(struct lw__login *login, const char *username,
                        const char *password);
/* There are no credentials: backs off, without trying a further address. */
void lw__session_refuse(struct lw__login *login, const char *why);

/* Connects to this endpoint, where a master must be. */
void lw__session_resolved(struct lw__session *session,
                          const struct lw__endpoint *endpoint);
/* The endpoint is unknown: backs off, with a failure of this status. */
void lw__session_unresolved(struct lw__session *session, int status, const char *why);
/* The endpoint has changed: the connection ends, for the reason `why`, and the endpoint
 * is asked for again without a delay. */
void lw__session_retarget(struct lw__session *session, const char *why);

/* config->master_id has changed: ends a connection to another process. */
void lw__session_check_master(struct lw__session *session);

/* Returns the status of several failures of different servers together: LW_EREDIS only if
 * all of them are, because otherwise one of those servers may serve us later. LW_ESYSTEM
 * and LW_ENOMEM, which are about this process, win. `so_far` is 0 at first. */
int lw__session_combine_status(int so_far, int status);
/* Returns what has kept the attempt from succeeding so far: the farthest failure of its
 * addresses, or what it waits for now. Returns "" unless the session connects. */
const char *lw__session_pending(const struct lw__session *session);
/* Returns the server's endpoint as text, also with what the address map replaces it by.
 */
void lw__session_endpoint(const struct lw__session *session, char ret[LW__TEXT_MAX]);
/* Ends the connection as if the server had: it is unusable. */
void lw__session_fail(struct lw__session *session, const char *why);
#endif

/* SPDX-License-Identifier: MIT */
/* One connection kept alive: resolve, connect, greet (AUTH, SELECT, CLIENT SETNAME, and
 * CLIENT ID and INFO, which tell what server it is; of a cluster's node CLUSTER MYID, so
 * that another cluster's node at its address is not used), and after every end the same
 * again, with exponential backoff and jitter. Where the server moves, a guide is asked
 * for the way each time, and ROLE is part of the greeting. Knows nothing of what is said
 * on it afterwards. Happy path: lw__session_start, `ready`, commands on session->link,
 * `lost`, `ready` ...
 *
 * A name may have several addresses. If all of them fail, `lost` is called with the
 * failure that got farthest: a password that one server refuses says more than a port
 * that is closed at another address. */
#ifndef LW_SESSION_H
#define LW_SESSION_H
#include "base/address.h"
#include "base/log.h"
#include "base/escape.h"
#include "base/url.h"
#include "loop/loop.h"
#include "redis/link.h"
#include "redis/endpoint.h"
#include "redis/tls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lw__resolve;
struct lw__random;

#define LW__RUN_ID_SIZE 41

/* A connection that stands, and is to be told what to log in with. */
struct lw__login {
    struct lw__login *next, *prev; /* of whoever is asked */
    bool wanted;
};

/* Who is asked that: answers by lw__session_log_in or lw__session_refuse, later and from
 * the loop, unless told to forget it. */
struct lw__login_events {
    void (*wanted)(void *arg, struct lw__login *login);
    void (*forget)(void *arg, struct lw__login *login);
};

/* Where a connection leads, and who asks that. */
struct lw__way {
    struct lw__way *next, **prev; /* whoever guides has it among his while prev is set */
    bool wanted;
    char host[LW__HOST_SIZE];
    uint16_t port;
};

/* Who is asked that before each attempt: answers by lw__session_go or
 * lw__session_astray, later and from the loop; may turn a way that he knows. */
struct lw__guide_events {
    void (*wanted)(void *arg, struct lw__way *way);
    void (*forget)(void *arg, struct lw__way *way);
    /* A session is ready at the endpoint it was led to, or lw__session_note_replication
     * was called for it. `replication_id`: the replication id of that server, or "" if it
     * is unknown. */
    void (*arrived)(void *arg, const struct lw__way *way, const char *replication_id);
};

/* What both connections of a node share; all strings live as long as the node. */
struct lw__session_config {
    struct lw__loop *loop;
    const struct lw__log *log;
    struct lw__random *random;
    const char *host, *path; /* one of them; or neither, and a guide */
    /* The id of the cluster's node that must answer there, "" for any; NULL outside a
     * cluster. Read at each connection. */
    const char *node_id;
    uint16_t port;
    const struct lw__guide_events *guide; /* or NULL */
    void *guide_arg;
    const char *username, *password;      /* or NULL */
    const struct lw__login_events *login; /* in place of both; or NULL */
    void *login_arg;
    const char *client_name;
    /* The id that SENTINEL MYID must return before the session is ready, or NULL. It is
     * asked before AUTH, so that the password is not sent to another sentinel; only to a
     * sentinel that refuses the question before AUTH the password is sent first. */
    const char *sentinel_id;
    bool replication;           /* the handshake includes INFO replication */
    bool secure;                /* by TLS */
    struct lw__tls_options tls; /* without a name: the host's */
    int db;
    size_t reply_max, reply_elements; /* 0: what all but a large map has room in */
    uint32_t connect_timeout_ms;      /* for name, connection and greeting together */
    uint32_t request_timeout_ms, backoff_min_ms, backoff_max_ms;
};

/* How far an attempt to connect got before it failed, in this order. */
enum lw__stage {
    LW__STAGE_RESOLVE,
    LW__STAGE_CONNECT,
    LW__STAGE_HANDSHAKE, /* TLS */
    LW__STAGE_GREET
};

/* Why a connection, or an attempt to make one, ended. */
struct lw__failure {
    enum lw__stage stage;
    /* LW_ECONN; LW_EREDIS if the server refuses this account or this database, or if one
     * side rejects the other's TLS certificate, so that the next try fails as well;
     * LW_ESYSTEM if this process can open no more sockets; LW_ENOMEM */
    int status;
    char why[LW__TEXT_MAX]; /* "": there was none */
};

struct lw__session_events {
    void (*ready)(void *arg);
    /* A connection that was ready, or an attempt to make one, ended: the session's
     * `failure` says the same and its class. The session has stopped where we cannot
     * subscribe (NOPERM, no such command), else it tries again. */
    void (*lost)(void *arg, const char *why);
    /* As the link's, without errors, which end the connection; NULL where nothing is
     * subscribed, and where nothing is forgotten. */
    void (*push)(void *arg, const struct lw__reply *reply);
    void (*unclaimed)(void *arg);
    /* An error of the subscription: whether it is dealt with, and is not to end the
     * connection. NULL: none is. */
    bool (*refused)(void *arg, const char *error);
};

enum lw__greeting {
    LW__GREET_MYID,
    LW__GREET_AUTH,
    LW__GREET_SELECT,
    LW__GREET_ROLE,
    LW__GREET_SETNAME,
    LW__GREET_ID,
    LW__GREET_INFO,
    LW__GREET_REPLICATION,
    LW__GREET_NODE,
    LW__GREETINGS
};

struct lw__session {
    const struct lw__session_config *config;
    const struct lw__session_events *events;
    void *arg;
    enum {
        LW__SESSION_STOPPED,
        LW__SESSION_CONNECTING, /* resolving, connecting or greeting */
        LW__SESSION_READY,
        LW__SESSION_BACKOFF
    } state;
    struct lw__link *link;
    struct lw__resolve *lookup;
    struct lw__login login;
    struct lw__way way;
    struct lw__timer timer;      /* its limit; backing off: the next attempt */
    struct lw__deferred overdue; /* its limit has passed, are the answers there? */
    bool looked;                 /* the loop has looked for them since */
    int64_t limit_us;            /* of name, connection and greeting together */
    int64_t share_us;            /* until when the present address may take */
    struct lw__greet {
        struct lw__request request;
        struct lw__session *session;
        enum lw__greeting kind;
    } greetings[LW__GREETINGS];
    unsigned greetings_open;
    unsigned greetings_sent, greetings_answered; /* bits, by enum lw__greeting */
    bool greeting;                               /* the link is up, and not ready yet */
    bool denied;   /* why the connection ends: we may not subscribe */
    bool refused;  /* the server turns this account or database down for good */
    bool turned;   /* or: it leads elsewhere now, and the next attempt follows at once */
    bool stranger; /* the last attempt met a server that did not prove to have
                    * config->sentinel_id, though it could serve */
    bool authenticated; /* MYID was refused without AUTH, which has been sent */
    uint32_t backoff_ms;
    int64_t ready_us; /* when it became ready */
    struct lw__addresses addresses;
    size_t address; /* which of them is tried */
    int64_t id;     /* CLIENT ID of the connection that was ready last, 0: not told */
    int64_t previous_id; /* of the one before, if the same server process still runs */
    char run_id[LW__RUN_ID_SIZE];
    char node_id[LW__NODE_ID_SIZE]; /* of a cluster's node; "" if it did not tell */
    bool clustered, wide;           /* INFO says so: in cluster mode; of 64 bits */
    /* From INFO replication of the present connection: the server's replication id and
     * the one of the master it was a replica of before, "" if unknown. */
    char replication_id[LW__RUN_ID_SIZE], former_replication_id[LW__RUN_ID_SIZE];
    bool is_master; /* its role there */
    /* Of the connection that is greeted: what was told, and the last error. */
    int64_t told_id;
    char told_run_id[LW__RUN_ID_SIZE], last_words[LW__WHY_MAX];
    struct lw__failure failure; /* of this attempt so far, or of the last one */
    char pending[LW__WHY_MAX];  /* what the attempt waits for; "": nothing */
};

/* Room for its timer must have been reserved (one). Starts nothing. */
void lw__session_init(struct lw__session *session,
                      const struct lw__session_config *config,
                      const struct lw__session_events *events, void *arg);
/* Begins to connect; events come from the loop. No effect unless stopped. */
void lw__session_start(struct lw__session *session);
/* Closes in silence. lw__session_start begins anew. */
void lw__session_stop(struct lw__session *session);
/* Sends a command of these words, to be answered as its type says; where no reply comes
 * the session's `lost` says so. */
void lw__session_request(struct lw__session *session, struct lw__request *request,
                         const struct lw__request_type *type, size_t words,
                         const char *const *text);
/* Records another reply to INFO replication, of a session that is ready, and reports the
 * replication id to its guide. An error, or the reply of a server that is no longer a
 * master, changes nothing. */
void lw__session_note_replication(struct lw__session *session,
                                  const struct lw__reply *reply);
/* Greets, as this user ("": the default one), unless the connection has ended. */
void lw__session_log_in(struct lw__login *login, const char *username,
                        const char *password);
/* There is nothing to log in with: backs off, without a try at a further address. */
void lw__session_refuse(struct lw__login *login, const char *why);
/* To this host, which must say that it is the master. */
void lw__session_go(struct lw__way *way, const char *host, uint16_t port);
/* The server's address is unknown: backs off, with a failure of this status. */
void lw__session_astray(struct lw__way *way, int status, const char *why);
/* It is somewhere else now: what stands ends, `lost` says why, and without a delay the
 * way is asked for anew. */
void lw__session_turn(struct lw__way *way, const char *why);
/* Whether the connection that it leads to is ready. */
bool lw__session_stands(const struct lw__way *way);
/* Returns the class of several failures together, one of which is to be another server's:
 * LW_EREDIS if all of them are, since else one of those servers may serve us later.
 * LW_ESYSTEM and LW_ENOMEM, which are about this process, win. `so_far` is 0 at first. */
int lw__session_combine_status(int so_far, int status);
/* Returns what has kept an attempt from success so far: the farthest failure of its
 * addresses, or what it waits for now. "" unless the session connects. */
const char *lw__session_pending(const struct lw__session *session);
/* This connection is of no use: ends it as if the server had. */
void lw__session_fail(struct lw__session *session, const char *why);
#endif

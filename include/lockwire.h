/* SPDX-License-Identifier: MIT */
#ifndef LOCKWIRE_H
#define LOCKWIRE_H
/*
 * lockwire: asynchronous distributed locks in Redis, on the caller's libevent loop.
 *
 * An example:
 *
 *     lw_client_new(base, "redis://localhost", NULL, &client);
 *     lw_acquire(client, "job:42", NULL, on_acquired, arg, &lock);
 *     event_base_dispatch(base);
 *
 *     void on_acquired(struct lw_lock *lock, int status, void *arg) {
 *         if (status == LW_OK) {
 *             ... work, passing lw_lock_fence(lock) to the resource ...
 *         }
 *         lw_lock_free(lock); // releases the lock; or in a later callback
 *     }
 *
 * THE WORDS OF THIS PAGE
 *
 * A hold lasts from the grant of a lock to a handle until its release or loss. It has a
 * lease in Redis, which is renewed in the background. From the deadline on the holder
 * must not rely on the lock: one lease, less 1 % of it and 2 ms, after this client sent
 * the command that granted or last renewed the lock. (lockwire(7), GUARANTEES, says what
 * it is after a hand-over.) max_hold_ms may end the hold earlier.
 *
 * The link is the connection for commands; a second connection receives messages.
 * lockwire(7), WORDS, explains the other terms: fencing token, lock token, foreign.
 *
 * THE CALLBACK RULES
 *
 *  1. Callbacks run from the event loop, never inside an API call. Only the log callback
 *     may run inside one, and may call nothing except lw_strerror.
 *  2. If a function returns a negative value, nothing was started and no callback
 *     follows. If a function with a `done` returns 0, `done` is called once. It is not
 *     called if it is NULL, if the handle or the client is freed first, or in a forked
 *     child (rule 8).
 *  3. The caller owns a handle until lw_lock_free, in every state, also after a failure
 *     or a loss. After lw_lock_free no callback of the handle runs, and `arg` may be
 *     freed. Freeing a waiting handle leaves the queue; freeing a held one releases the
 *     lock. Both happen in the background.
 *  4. Every function may be called in every callback except the log callback, also to
 *     free the callback's own handle or client.
 *  5. The state of a handle changes only in a call or right before a callback.
 *     lw_lock_remaining_ms is 0 from the deadline on, and from the call of lw_release,
 *     lw_detach or lw_client_close. It is also 0 once the server has reported that the
 *     lock is not held, even before `lost` is called with LW_ENOTHELD.
 *  6. `lost` is called at most once, and only for a held lock. The reason is LW_ELOST
 *     (the lease was not renewed in time), LW_ETIMEOUT (max_hold_ms has passed) or
 *     LW_ENOTHELD (the server reports that the lock is free or has another holder). With
 *     LW_ELOST and LW_ETIMEOUT it is called no later than margin_ms before the deadline.
 *     If the event loop stalled past that time, it is called as soon as the loop
 *     continues, before any other callback of the client. With LW_ENOTHELD no time is
 *     left. When a hold is lost, whatever the reason, its pending renewals complete with
 *     LW_ELOST, after `lost`. After a call of lw_release, lw_detach or lw_client_close
 *     they complete with LW_ECANCELED.
 *  7. lw_client_close releases all held locks (their handles become LW_DONE without a
 *     callback), and fails all waiting handles with LW_ECLOSED. Then it waits for
 *     outstanding replies, also to earlier calls of lw_release, and calls its `done`
 *     last, within close_timeout_ms if the event loop runs. lw_client_free acts at once,
 *     without callbacks. After lw_client_free all the client's handles are LW_DONE, and
 *     every function that can fail returns LW_ECLOSED for them.
 *  8. Use one thread per event_base. The library's events keep event_base_dispatch
 *     running until the client is closed or freed. Free the client before its event_base.
 *     In a forked child (also after daemon(3)) a client made before the fork is inert: it
 *     does no I/O and makes no callbacks, except one call of `log`. lw_lock_state returns
 *     LW_DONE. Functions that can fail return LW_ECLOSED, except lw_client_stats. The
 *     child need not free anything. If it runs the event_base, it calls event_reinit
 *     first, as libevent requires, and frees no client between that and the first run of
 *     the loop: lockwire(7), GUARANTEES.
 *
 * WHAT A CALL ON A HANDLE DOES IN EACH STATE (its result, then its callback's status)
 *
 *                LW_       LW_HELD                LW_       LW_LOST,
 *                WAITING                          RELEASING LW_DONE
 *   lw_release   LW_EINVAL 0, then LW_OK,         LW_EINVAL LW_ENOTHELD
 *                          LW_STILLHELD,
 *                          LW_ENOTHELD, LW_ECONN,
 *                          LW_EREDIS, LW_EUNKNOWN
 *   lw_detach    LW_EINVAL 0, then LW_OK,         LW_EINVAL LW_ENOTHELD
 *                          LW_ENOTHELD, LW_ECONN,
 *                          LW_EREDIS, LW_EUNKNOWN
 *   lw_renew     LW_EINVAL 0, then LW_OK,         LW_EINVAL LW_ENOTHELD
 *                          LW_ELOST, LW_ECONN,
 *                          LW_EREDIS, LW_ECANCELED
 *   lw_lock_free leaves    releases the lock      finishes  frees the
 *                the queue                        silently  handle
 *
 * A grant that comes after lw_lock_free is released.
 * In every state lw_release, lw_detach and lw_renew return LW_ECLOSED once the client has
 * been freed, and in a forked child.
 *
 * WHAT A RESULT MEANS, in every call
 *
 *   not now   LW_ECONN: no server can do it at the moment. There is no
 *             connection, or the server replies LOADING, BUSY, OOM,
 *             MISCONF, NOREPLICAS, READONLY, MASTERDOWN, CLUSTERDOWN,
 *             TRYAGAIN, ASK or DENIED, has too many clients or a wrong
 *             clock, or grants no locks because of guard_ms. Requests
 *             that wait, the client's own renewals and releases are
 *             retried while there is time.
 *   never     LW_EREDIS: the server refuses (a permission, a password, a
 *             certificate), or has replied with any other error. Only
 *             connections are retried.
 *   unknown   LW_EUNKNOWN: a command was sent and has no reply, so that
 *             it may have been executed
 *   busy      LW_EBUSY, LW_EDEADLOCK; also LW_ETIMEOUT if lw_lock_error
 *             is LW_OK
 *   lost      LW_ELOST, LW_ENOTHELD
 *
 * Times are in milliseconds on a monotonic clock. On Linux it counts suspend
 * (CLOCK_BOOTTIME). Functions return 0 or a negative error of `enum lw_error`, unless
 * their comment says otherwise; `*ret` is unchanged on failure. Destructors accept NULL.
 * A returned string is valid until control returns to the event loop, or its handle or
 * client is freed. An argument of a callback (`why`, a log message) is valid during the
 * callback. A string is "" if there is nothing to report.
 *
 * Log messages, lw_lock_errstr and each `why` are safe to display: one line of printable
 * UTF-8, with any other byte as \xNN. Each fits into LW_WHY_SIZE bytes, with its NUL; a
 * longer text is cut.
 */
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LW_VERSION_MAJOR 0
#define LW_VERSION_MINOR 3
#define LW_VERSION_PATCH 0
#define LW_VERSION "0.3.0"

/* Enough bytes for any `why`, lw_lock_errstr and errbuf. */
#define LW_WHY_SIZE 512

struct event_base; /* libevent's */
struct lw_client;  /* its locks, and two connections to each server that it uses */
struct lw_lock;    /* one acquisition: waiting, held, releasing, then done; or lost */
struct lw_keep;    /* a lock held whenever possible: one acquisition after another */
struct lw_all;     /* several locks acquired as one: all of them, or none */
struct lw_watcher; /* the holders and waiters of a name, reported at each change */

/* == lw_strerror(3): results, and the version == */
/* The results, each with its text for lw_strerror. Their values never change. */
#define LW_ERROR_MAP(X)                                                                  \
    X(LW_OK, 0, "success")                                                               \
    X(LW_STILLHELD, 1, "released; this owner has further holds")                         \
    X(LW_EBUSY, -1, "the lock is busy: held by another owner, or too many wait for it")  \
    X(LW_ETIMEOUT, -2, "timed out")                                                      \
    X(LW_ECANCELED, -3, "canceled by a later call")                                      \
    X(LW_ELOST, -4, "the lease could not be renewed in time")                            \
    X(LW_ENOTHELD, -5, "the lock is not held")                                           \
    X(LW_EDEADLOCK, -6, "deadlock: another reader is waiting to upgrade")                \
    X(LW_ECONN, -7, "no server can process the request now")                             \
    X(LW_EREDIS, -8, "refused by the server")                                            \
    X(LW_EUNKNOWN, -9, "outcome unknown; released at the latest when the lease expires") \
    X(LW_EINVAL, -10, "invalid argument")                                                \
    X(LW_ENOMEM, -11, "out of memory")                                                   \
    X(LW_ECLOSED, -12, "the client is closed")                                           \
    X(LW_ESYSTEM, -13, "out of file descriptors or another system resource")

enum lw_error {
#define LW_ERROR_VALUE(name, value, text) name = value,
    LW_ERROR_MAP(LW_ERROR_VALUE)
#undef LW_ERROR_VALUE
        LW_ERROR_FORCE_INT_ = 0x7fffffff
};

/* Makes an enum as wide as int, also with -fshort-enums, as LW_ERROR_FORCE_INT_ does. */
#if defined(__GNUC__)
#define LW_INT_WIDE __attribute__((mode(SI)))
#else
#define LW_INT_WIDE
#endif

#if defined(__GNUC__) && !defined(LW_PUBLIC)
#define LW_PUBLIC __attribute__((visibility("default")))
#elif !defined(LW_PUBLIC)
#define LW_PUBLIC
#endif

/* == lw_client_new(3): a client of a Redis server, a master, a cluster == */
struct lw_client_options; /* below */
/*
 * Creates a client of the Redis at `url`. Returns at once; the client connects in the
 * event loop, and reconnects after every loss of the connection. `base` and
 * options->errbuf must outlive the client. Reserved characters in user, password and path
 * are written as %XX. The URL is one of:
 *
 *   redis://[ACCOUNT@]host[:port][/db]
 *   unix:///path[?db=N]
 *   redis-sentinel://[ACCOUNT@]host[:port][,host[:port]...]/service[/db]
 *   redis-cluster://[ACCOUNT@]host[:port][,host[:port]...][/db]
 *   redis-quorum://[ACCOUNT@]host[:port],host[:port],host[:port]...[/db]
 *   ...?guard=TIME&prefix=TEXT        (behind ?db=N: &guard=TIME)
 *   rediss://, rediss-sentinel:// ... (with TLS)
 *   valkey://, valkeys://, ...        (the same as with redis)
 *
 * ACCOUNT is [user][:password]. guard= and prefix= are the options guard_ms (15s to 10m,
 * or none) and prefix, so that all programs that use a URL agree. If an option is given
 * as well, it must be the same.
 *
 * The link is up while the client is connected to the server, to the master that
 * sentinels report, or to a majority of the servers of a quorum; in a cluster while its
 * slot map gives a slot to a master. lockwire-sentinel(7), lockwire-cluster(7) and
 * lockwire-quorum(7) describe these; a quorum has not all functions and options
 * (LW_EINVAL).
 *
 * Returns 0, LW_EINVAL (see errbuf) or LW_ENOMEM.
 */
LW_PUBLIC int lw_client_new(struct event_base *base, const char *url,
                            const struct lw_client_options *options,
                            struct lw_client **ret);
/* lw_client_close is finished. */
typedef void lw_close_cb(struct lw_client *client, void *arg);
/*
 * Closes the client gracefully: rule 7. `done` may be NULL. The caller must still free
 * the client. Returns 0, or LW_ECLOSED on a second call and in a forked child.
 */
LW_PUBLIC int lw_client_close(struct lw_client *client, lw_close_cb *done, void *arg);
/* Frees the client at once: rule 7. Held locks expire with their leases. */
LW_PUBLIC void lw_client_free(struct lw_client *client);

/* == lw_acquire(3): acquiring, renewing and releasing a lock == */
struct lw_acquire_options; /* below */
/* An event of a lock. `status` is an lw_error (see each call). `arg` is the one given to
 * that call. */
typedef void lw_lock_cb(struct lw_lock *lock, int status, void *arg);
/*
 * Requests the lock `name`. A name has 1 to 512 bytes without control characters (0x00 to
 * 0x1f, 0x7f), and does not begin with "lockwire:". A '}' is allowed only once, as the
 * end of a hash tag of Redis Cluster, "{tag}", that is not empty. `options` may be NULL
 * (a mutex, try once). `done` is called once, with:
 *   LW_OK         the lock is held; see lw_lock_fence and lw_lock_remaining_ms
 *   LW_EBUSY      wait_ms is 0, and the lock is held by another; or max_waiting others
 *                 already wait for it, as lw_lock_errstr then says; see lw_lock_retry_ms
 *   LW_ETIMEOUT   wait_ms has passed; lw_lock_errstr is "" if the lock was busy until
 *                 then
 *   LW_EDEADLOCK  this owner reads and wants to write, and so does another reader
 *   LW_ECONN      wait_ms is 0, and no server can grant the lock now; with another
 *                 wait_ms the request waits for the server. See lw_lock_errstr
 *   LW_EREDIS     the server refuses (permissions): see lw_lock_errstr
 *   LW_ENOMEM, LW_ECLOSED
 * If the server refuses the connection (a password), `status` is LW_ECONN, and
 * lw_lock_error returns LW_EREDIS. Neither `done` nor `ret` may be NULL. Returns 0,
 * LW_EINVAL (see errbuf), LW_ENOMEM or LW_ECLOSED.
 */
LW_PUBLIC int lw_acquire(struct lw_client *client, const char *name,
                         const struct lw_acquire_options *options, lw_lock_cb *done,
                         void *arg, struct lw_lock **ret);
/*
 * Releases the lock: rule 5. `done` (may be NULL) is called once, with:
 *   LW_OK         the lock is released
 *   LW_STILLHELD  released, but this owner has further holds
 *   LW_ENOTHELD   the lock was no longer held
 *   LW_ECONN      no server could release it within request_timeout_ms (lw_lock_errstr
 *                 says why); no attempt is unanswered, so it was not released
 *   LW_EREDIS     the server refuses the release, or the connection (lw_lock_errstr has
 *                 its error)
 *   LW_EUNKNOWN   an attempt that was sent had no reply within request_timeout_ms
 * After LW_ECONN and LW_EUNKNOWN the release is retried in the background. After these
 * three the lock expires with its lease at the latest. Returns 0, or the value in the
 * table of states.
 */
LW_PUBLIC int lw_release(struct lw_lock *lock, lw_lock_cb *done, void *arg);
/* Frees the handle: rule 3. */
LW_PUBLIC void lw_lock_free(struct lw_lock *lock);
/*
 * Extends the lease now. `lease_ms` is the new lease, also for
 * later renewals: 100 to 2^31 - 1, and more than twice margin_ms; or 0, which keeps the
 * present lease. A shorter lease takes effect locally at once. A renewal never extends
 * the hold beyond max_hold_ms. Several renewals may be pending, each with its `done` (may
 * be NULL). A renewal is sent once. It ends with LW_ECONN if no server can do it, if
 * there is no reply, or if the server refuses the connection. After LW_ECONN or LW_EREDIS
 * the lock is still held until its deadline. Returns 0, LW_EINVAL, LW_ENOMEM or the value
 * in the table of states.
 */
LW_PUBLIC int lw_renew(struct lw_lock *lock, uint32_t lease_ms, lw_lock_cb *done,
                       void *arg);

/* == lw_acquire(3) == */
enum lw_mode {
    LW_MUTEX = 0,     /* one holder, not re-entrant; the key is a plain string, as written
                         by every `SET name token NX PX` client */
    LW_EXCLUSIVE = 1, /* one owner, re-entrant, counted; a read-write lock's writer */
    LW_SHARED = 2,    /* many owners, re-entrant, counted; with `permits` a semaphore */
    LW_REDISSON = 3   /* shared with Redisson's RLock; see below */
} LW_INT_WIDE;

/*
 * LW_REDISSON has no fencing token and no queue, is not re-entrant here, and does not
 * work in a cluster: lockwire-redisson(7).
 */
/* == lw_lock_state(3): the state of a handle, without I/O == */
enum lw_state {
    LW_WAITING = 0,   /* requested, neither granted nor failed yet */
    LW_HELD = 1,      /* granted; held while lw_lock_remaining_ms is above 0 */
    LW_RELEASING = 2, /* lw_release or lw_detach was called, its callback is pending */
    LW_LOST = 3,      /* was held; `lost` (if not NULL) has been called, or is running */
    LW_DONE = 4       /* released, detached, failed, or its client was closed */
} LW_INT_WIDE;

/* == lw_acquire(3) == */
/* The early warning for a held lock. `at_risk` is 1 if no more than at_risk_ms of the
 * lease are left, because renewals fail or, with LW_NO_RENEW, lw_renew was not called; it
 * is 0 if a renewal has ended the risk. Calls with 1 and with 0 alternate, 1 first. The
 * lock stays held until `lost`, which alone is called if the event loop stalled too long.
 * No call follows `lost`, lw_release, lw_detach or lw_client_close. `remaining_ms` is
 * that of lw_lock_remaining_ms; `arg` that of `lost`. */
typedef void lw_risk_cb(struct lw_lock *lock, int at_risk, int64_t remaining_ms,
                        void *arg);
/* == lw_keep_new(3) == */
/* A keep gained or lost its lock: see lw_keep_new. */
typedef void lw_keep_cb(struct lw_keep *keep, int status, void *arg);
/* == lw_client_new(3) == */
/* The link came up (`up` is 1) or went down (0); `why` is the reason. Called at each
 * change and, while the link is down, at each failed attempt (in a cluster only until a
 * slot map is known). A server that cannot serve locks, such as a replica, counts as
 * down. */
typedef void lw_link_cb(struct lw_client *client, int up, const char *why, void *arg);
/* The credentials for one AUTH. The struct is the library's, all zeros except for `size`.
 * The arrays keep their sizes in later versions. */
struct lw_credentials {
    size_t size;         /* the library's; later versions append */
    char username[1024]; /* "": the user is "default" */
    char password[16385];
};
/*
 * Fills in the present credentials. Called before each AUTH of each of the client's
 * connections, also while it closes. Rule 4 applies: a client that is freed here does not
 * log in. Must not block: fetch an access token beforehand. Returns 0, or an lw_error if
 * there are no credentials. An error, an empty password and a string without a NUL make
 * the attempt fail: `log` gets the reason, and `link` if it is the link's. The
 * credentials are wiped after use. A connection that is up does not authenticate again.
 */
typedef int lw_credentials_cb(struct lw_client *client, struct lw_credentials *ret,
                              void *arg);
/* A message for the operator, never with a password. `level` is one of syslog's, LOG_ERR
 * (3) to LOG_DEBUG (7). May be called inside an API call. */
typedef void lw_log_cb(int level, const char *message, void *arg);
/* A client asks by lw_ask_to_yield that this held lock be released. Called for each
 * request, but once for those that come before the call. `arg` is the options'. */
typedef void lw_asked_cb(struct lw_lock *lock, void *arg);

/*
 * Options of a client. Start from LW_CLIENT_OPTIONS_INIT. A field that is 0 or NULL has
 * its default: the number with which its comment begins, or what the comment says; the
 * range may follow in parentheses. Strings are copied. A smaller struct than this
 * header's is accepted (absent fields have their defaults), and so is a larger one if its
 * tail is zero; otherwise the call returns LW_EINVAL.
 */
struct lw_client_options {
    size_t size;
    /* Each of the two overrides its part of the URL. A user name needs a password, here,
     * in the URL or in password_file. */
    const char *username, *password;
    /* The database (SELECT). If it is above 0 it overrides that of the URL. */
    int db;
    /* For CLIENT SETNAME: 1 to 128 printable bytes without spaces. Default "lockwire". */
    const char *client_name;
    /* 5000: name resolution, the queries to sentinels, connecting and AUTH together. */
    uint32_t connect_timeout_ms;
    /* 5000: if a command is unanswered for so long, the client reconnects. */
    uint32_t request_timeout_ms;
    /* 50 and 5000: the delay before a reconnection doubles from the minimum to the
     * maximum, less up to half of it at random. */
    uint32_t backoff_min_ms, backoff_max_ms;
    /* 5000: how long lw_client_close may take. */
    uint32_t close_timeout_ms;
    /* 2000 (100 to 60000): how long a waiter that is handed the lock has to claim it. */
    uint32_t claim_ms;
    /* 16 (1 to 16): how many handles of this client may hold a mutex one after another by
     * one grant of Redis, before other clients have their turn. */
    uint32_t local_turns;
    /* 1024: the most unanswered commands on the link. Further commands queue in the
     * client, renewals and releases first. */
    uint32_t max_inflight;
    lw_link_cb *link;
    lw_log_cb *log;
    /* 4 (LOG_WARNING): the least urgent level for which `log` is called. */
    int log_level;
    /* For `link`, `log`, `credentials` and `asked_to_yield`. */
    void *arg;
    /* Gets the reason, with the field or argument that is wrong, if a function fails
     * whose comment refers to errbuf. */
    char *errbuf;
    size_t errbuf_size;
    /* The tls_ options are for URLs that begin with rediss: lockwire(7), TLS. The files
     * are PEM. lw_client_new reads them, and blocks for that; each connection rereads
     * them.
     *
     * The trusted certificates: a file, or a directory with OpenSSL's hashes. Default:
     * the system's. */
    const char *tls_ca;
    /* The client's certificate, with its chain, and its key, without a passphrase: both,
     * or neither (the default). */
    const char *tls_cert, *tls_key;
    /* The name to verify in the certificates of all servers, sentinels and nodes. Unless
     * it is an address it is also sent to the server (SNI). Default: the host in the URL,
     * or the host that a sentinel or a node reports. */
    const char *tls_server_name;
    /* Called for the user name and the password, in place of both, of password_file, and
     * of those in the URL: together with any of these it is LW_EINVAL. */
    lw_credentials_cb *credentials;
    /* For the sentinels themselves, with a URL that names them. A user name needs the
     * password, here or in sentinel_password_file. Default: none. */
    const char *sentinel_username, *sentinel_password;
    /* libevent's priority of the client's events and callbacks, less than the number of
     * priorities of `base` (1, unless event_base_priority_init was called before
     * lw_client_new); the default 0 is the most urgent. With a priority above 0 nothing
     * is renewed, granted or reported as lost while more urgent events are always ready.
     */
    int priority;
    /* 0 or 15000 to 600000, the same in all clients of the server: how long it grants no
     * locks after a restart, a failover or an exchange of the server, and when a guard is
     * used there first. 45000 fits the default lease, and is the default for a quorum.
     * Not for a cluster, nor for LW_REDISSON. lockwire-guard(7) has the conditions, the
     * price, and the longest lease that it allows.
     *
     * 0: no guard, refused if other clients use one. LW_GUARD_NONE: no guard, whatever
     * other clients use; LW_EINVAL with a quorum. */
    uint32_t guard_ms;
    /* Where to connect in place of the addresses that sentinels and cluster nodes
     * announce: lockwire(7), ADDRESS MAP. Not with a single server or a quorum. */
    const char *address_map;
    /* The user, for those who inspect a lock: 1 to 128 printable bytes without spaces.
     * Default: the number of the effective user. */
    const char *user;
    /* If it is not 0, neither this client's name, host and process nor the user are
     * stored in Redis. Notes are. */
    uint32_t no_identity;
    /* Regular files for the passwords of the servers and of the sentinels, in place of
     * `password`, `credentials` and sentinel_password (together: LW_EINVAL): the first
     * line, of 1 to 4096 bytes, without its newline or CRLF. lw_client_new and each login
     * of a connection read them. */
    const char *password_file, *sentinel_password_file;
    /* The text before each key and channel: with the prefix "team:" the
     * lock "x" is the key "team:x". 1 to 64 printable ASCII bytes without spaces, quotes
     * and the characters *?[]\, not beginning with "lockwire:". A '{' or '}' is allowed
     * only as one tag, such as "{team}:"; names have no tag of their own then. Prefix and
     * name together have at most 512 bytes. All users of a lock must use the same prefix:
     * lockwire(7), PREFIX. Default: that of the URL (see there), else none. */
    const char *prefix;
    /* 0 (to 100): for how many microseconds the client looks at the socket after it has
     * sent commands, before the loop sleeps. Meanwhile the other events of `base` and
     * your callbacks wait: lockwire-embedding(7). */
    uint32_t busy_poll_us;
    /* Called for each handle that is asked to release its lock: see lw_ask_to_yield. */
    lw_asked_cb *asked_to_yield;
};
#define LW_GUARD_NONE UINT32_MAX
#define LW_CLIENT_OPTIONS_INIT                                                           \
    {                                                                                    \
        sizeof(struct lw_client_options), NULL, NULL, 0, NULL, 0, 0, 0, 0, 0, 0, 0, 0,   \
            NULL, NULL, 0, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0,   \
            0, NULL, NULL, 0, NULL, NULL, NULL, 0, NULL                                  \
    }

/* == lw_acquire(3) == */
/* Options of one acquisition. The rules of lw_client_options apply. */
struct lw_acquire_options {
    size_t size;
    enum lw_mode mode;
    /* Bits of enum lw_acquire_flags. */
    uint32_t flags;
    /* 30000 (100 to 2^31 - 1): how long a grant lasts without renewal. */
    uint32_t lease_ms;
    /* 0: try once (LW_EBUSY). -1: wait without limit. Else LW_ETIMEOUT after so long. */
    int64_t wait_ms;
    /* 0: no limit. Else the hold ends after this time (`lost` with LW_ETIMEOUT). */
    int64_t max_hold_ms;
    /* How long before the deadline `lost` is called: the time that you need to stop
     * working. The default 0 leaves none. Must be less than half of the lease, and less
     * than max_hold_ms. */
    uint32_t margin_ms;
    /* For LW_EXCLUSIVE and LW_SHARED: the owner, which may acquire the lock again while
     * it holds it. 1 to 128 printable bytes without spaces. Default: this handle alone.
     * All processes with the same string are the same owner, and do not exclude each
     * other. */
    const char *owner;
    /* LW_SHARED: the request is granted only while fewer owners than this number hold the
     * lock. 0: no limit. All users of a name should pass the same number. */
    uint32_t permits;
    /* Called with the `arg` of lw_acquire; may be NULL. */
    lw_lock_cb *lost;
    /* How much of the lease is left when `at_risk` is called, which must be given if this
     * is not 0. More than margin_ms, and less than half of the lease. The default 0 is a
     * third of the lease, if that is more than margin_ms. lockwire(7), HOW IT WORKS, has
     * the other cases. */
    uint32_t at_risk_ms;
    /* May be NULL. */
    lw_risk_cb *at_risk;
    /* 0: no limit. Else (up to 2^31 - 1) the request ends with LW_EBUSY at once if this
     * number of others already wait: lockwire(7), HOW IT WORKS, says which others count.
     * With wait_ms 0 it has no effect. Not with LW_REDISSON or a quorum (LW_EINVAL). */
    uint32_t max_waiting;
    /* 0: no minimum. Else how long the lock stays held, from the grant on, even if the
     * hold ends earlier. Its token is then detached for the rest (lw_detach), and
     * lw_release completes with LW_OK. Until then handles of the same client wait as
     * well. At most 2^31 - 1, max_hold_ms (if that is not 0), and the longest lease that
     * guard_ms allows. Not with LW_REDISSON or a quorum. */
    uint32_t at_least_ms;
    /* A text that lw_inspect shows, with the time of the grant and the user, as long as
     * the hold lasts, detached or not: at most 100 bytes of UTF-8 without control
     * characters. It is copied. lockwire(7), INSPECTING LOCKS, has its price, which ""
     * has too. Not with LW_REDISSON. */
    const char *note;
};
#define LW_ACQUIRE_OPTIONS_INIT                                                          \
    {                                                                                    \
        sizeof(struct lw_acquire_options), LW_MUTEX, 0, 0, 0, 0, 0, NULL, 0, NULL, 0,    \
            NULL, 0, 0, NULL                                                             \
    }

enum lw_acquire_flags {
    /* The hold ends with its lease unless lw_renew is called. */
    LW_NO_RENEW = 1,
    /* A free mutex is granted without a fencing token, and so without its INCR.
     * lw_lock_fence may then be 0. (A hand-over, a read-write lock and a quorum draw one
     * all the same.) */
    LW_NO_FENCE = 2
} LW_INT_WIDE;

/* == lw_client_stats(3): statistics of a client, and its master == */
/* Commands that a client can do without: bits of lw_stats.degraded, each with its word in
 * lw_stats_prometheus and `lockwire status --json`. lockwire(7), MONITORING, has the
 * price of each. */
enum lw_degraded {
    LW_DEGRADED_PUBLISH = 1,   /* "publish": PUBLISH or SPUBLISH */
    LW_DEGRADED_SUBSCRIBE = 2, /* "subscribe": SUBSCRIBE or SSUBSCRIBE */
    LW_DEGRADED_NUMSUB = 4,    /* "numsub": PUBSUB NUMSUB or SHARDNUMSUB */
    LW_DEGRADED_INFO = 8,      /* "info": INFO */
    LW_DEGRADED_CONFIG = 16,   /* "config": CONFIG GET */
    LW_DEGRADED_KILL = 32,     /* "kill": CLIENT KILL */
    LW_DEGRADED_COMMAND = 64,  /* "command": COMMAND INFO */
    LW_DEGRADED_CLUSTER = 128, /* "cluster": CLUSTER INFO or MYID */
    LW_DEGRADED_ROLE = 256,    /* "role": ROLE, at replicas of a cluster */
    /* "sentinel": SENTINEL SENTINELS or REPLICAS, or SUBSCRIBE at a sentinel */
    LW_DEGRADED_SENTINEL = 512
} LW_INT_WIDE;

/* Statistics: counters since lw_client_new, except for the gauges `held`, `waiting`,
 * `link_up`, `subscription_up`, `guard_left_ms`, `server_guard_ms`, `standby` and
 * `degraded`. */
#define LW_WAIT_BUCKETS 16
struct lw_stats {
    size_t size;
    uint64_t held, waiting; /* handles that hold, and that wait, now */
    uint64_t granted;       /* acquisitions that were granted */
    uint64_t busy;          /* ended with LW_EBUSY */
    uint64_t timed_out;     /* ended with LW_ETIMEOUT */
    uint64_t failed;        /* ended with any other error */
    uint64_t released;      /* releases, detaches, and frees of held handles */
    uint64_t lost_deadline; /* lost with LW_ELOST */
    uint64_t lost_taken;    /* lost with LW_ENOTHELD */
    uint64_t lost_max_hold; /* lost with LW_ETIMEOUT */
    uint64_t handed_over;   /* grants by a hand-over message */
    uint64_t passed;        /* grants by a local hand-over, without a command */
    uint64_t renewed;       /* leases renewed */
    uint64_t renewals_late; /* renewals sent late, by more than a tenth of the lease */
    uint64_t commands;      /* commands sent to Redis */
    uint64_t resent;        /* commands sent again after an unknown outcome */
    uint64_t reconnects;    /* connections made after the first */
    uint64_t wait_us;       /* total waiting time of the granted acquisitions, in us */
    /* The waiting times of wait_us, not cumulative: bucket i counts those of up to 2^i
     * ms, the last one all longer ones.
     */
    uint64_t wait_histogram[LW_WAIT_BUCKETS];
    uint64_t failovers; /* how often sentinels named another master than before */
    uint64_t redirects; /* commands that a cluster's node redirected to another one */
    uint64_t refreshes; /* requests for a cluster's slot map */
    uint64_t link_up;   /* 1 while the link is up; else 0 */
    /* 1 while the subscription to messages is up, in a cluster at every node where a
     * handle waits. Else 0: waiters poll without a place in the queue, and may starve. */
    uint64_t subscription_up;
    uint64_t guarded; /* requests that were not sent because of a guard */
    /* For how long the server grants no locks because of a guard, in ms; 1 if something
     * else than time prevents grants, which is logged; else 0. */
    uint64_t guard_left_ms;
    /* Guard time that clients of the server use, in ms; 0 without a record or a
     * connection, and with LW_GUARD_NONE. With a quorum, the longest of its servers. */
    uint64_t server_guard_ms;
    /* Of `waiting`: handles that wait without a limit (wait_ms -1), as a keep's do. */
    uint64_t standby;
    /* Bits of enum lw_degraded: what the account may not use, or a server does not know,
     * on the present connections, or on the last ones. The log has the reason of each. */
    uint64_t degraded;
};
#define LW_STATS_INIT                                                                    \
    {                                                                                    \
        sizeof(struct lw_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,   \
            {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                            \
    }

/* The master that a client follows. The arrays never change their sizes. */
struct lw_master {
    size_t size;
    char service[129]; /* as in the URL */
    char host[254];    /* a name or an address, as reported by the sentinels */
    uint16_t port;
    /* For how long it has been the master, in ms, as the sentinel reports that led here:
     * from the failover, or from the sentinel's own start; -1 if unknown. */
    int64_t for_ms;
};
#define LW_MASTER_INIT                                                                   \
    {                                                                                    \
        sizeof(struct lw_master), "", "", 0, 0                                           \
    }

/* == lw_client_new(3) == */
/* Returns 1 if the link is up, else 0. If `why` is not NULL, sets `*why` to the reason
 * that the link callback got last or will get in a pending call: "" before the first
 * attempt has ended. */
LW_PUBLIC int lw_client_is_up(const struct lw_client *client, const char **why);
/* Returns the class of that `why`:
 *   LW_OK        the link is up, or the first attempt has not ended
 *   LW_ECONN     no server can be reached, or it cannot serve locks now (a replica, a
 *                certificate that is not valid yet); the client tries again
 *   LW_EREDIS    the server rejects the account or the database, or one side the other's
 *                TLS settings; the client tries again
 *   LW_ESYSTEM, LW_ENOMEM
 *   LW_ECLOSED   closing is finished, or this is a forked child */
LW_PUBLIC int lw_client_error(const struct lw_client *client);
/* == lw_client_stats(3) == */
/* Fills `ret`, whose size field must be set (LW_STATS_INIT). Returns 0, or LW_EINVAL if
 * it is not. */
LW_PUBLIC int lw_client_stats(const struct lw_client *client, struct lw_stats *ret);
/*
 * Writes the statistics of `count` clients as one text for Prometheus (text format
 * 0.0.4), to which the caller may append. labels[i] distinguishes the client of stats[i]:
 * lockwire(7), MONITORING. With a single client `labels` may be NULL, or labels[0] "" or
 * NULL. No client is accessed.
 *
 * At most `size` bytes are written, with a NUL, as by snprintf. (One client needs about 5
 * KiB.) Returns the length of the whole text without the NUL, or LW_EINVAL: a struct has
 * no size, labels are invalid or the same for two clients, or the text is longer than
 * INT_MAX.
 */
LW_PUBLIC int lw_stats_prometheus(const struct lw_stats *const *stats,
                                  const char *const *labels, size_t count, char *buffer,
                                  size_t size);
/*
 * Fills `ret`, whose size field must be set (LW_MASTER_INIT), with the master that is
 * followed now, reachable or not. Returns 0, LW_ECONN if no sentinel has led to a master
 * yet, LW_EINVAL if the URL names no service or `ret` has no size, or LW_ECLOSED.
 */
LW_PUBLIC int lw_client_master(const struct lw_client *client, struct lw_master *ret);

/* == lw_acquire(3) == */
/*
 * Gives up the hold, and leaves the lock in Redis under its token (lw_lock_token), for
 * another process or a later run of this one, which calls lw_adopt: it stays held for
 * `keep_ms` from this call on, without renewal. `keep_ms` is 1 to 2^31 - 1, whatever the
 * lease is, but not above the longest lease that guard_ms allows; or 0 for the rest of
 * the lease (of the claim window, if the lock was handed over just now). If at_least_ms
 * ends later, the lock stays held until then. Not for the handles of lw_keep_lock and
 * lw_all_lock. `done` (may be NULL) is called once, with:
 *   LW_OK         the token holds the lock, and will not be renewed by this client
 *   LW_ENOTHELD   the token no longer holds the lock
 *   LW_ECONN      no server could do it within request_timeout_ms, as for lw_release; or
 *                 guard_ms does not allow a longer lease after a failover
 *   LW_EREDIS     the server refuses, as for lw_release; the lock ends with its lease
 *   LW_EUNKNOWN   an attempt that was sent had no reply within request_timeout_ms
 * After LW_ECONN (except that of guard_ms) and LW_EUNKNOWN this is retried in the
 * background, and the lock ends after keep_ms or with its lease, whichever is later.
 * Returns 0, LW_EINVAL (see errbuf; also with LW_REDISSON or a quorum), or the value in
 * the table of states.
 */
LW_PUBLIC int lw_detach(struct lw_lock *lock, int64_t keep_ms, lw_lock_cb *done,
                        void *arg);
/*
 * Takes over the lock `name` from `token`, which was detached, or whose process is gone.
 * The lock is then held as after lw_acquire, with a new token and a new fencing token,
 * and with the lease of the options or the rest of the present one, whichever is longer.
 * A token can be adopted once. If its holder still runs and has not detached the lock,
 * there are two holders until that holder's next renewal.
 *
 * `token` is that of lw_lock_token or lw_inspect, from any client. `options` are those of
 * lw_acquire (NULL: a mutex, try once), with the mode in which the lock is held; not
 * LW_REDISSON, nor with a quorum. permits and max_waiting have no effect. The hold keeps
 * its owner, with which `owner` must agree if it is given, and its note unless there is
 * another. wait_ms limits the waiting for the server. `done` is called once, with:
 *   LW_OK         the lock is held
 *   LW_ENOTHELD   the token does not hold the lock (any longer)
 *   LW_EINVAL     the key is another kind of lock, or the hold has another mode or owner:
 *                 see lw_lock_errstr
 *   LW_ETIMEOUT, LW_ECONN, LW_EREDIS, LW_ENOMEM, LW_ECLOSED  as for lw_acquire
 * If the lock is adopted after `done` was called with an error, or after lw_lock_free, it
 * is released. Returns 0, LW_EINVAL (see errbuf; also a token of another version, or none
 * of lockwire's), LW_ENOMEM or LW_ECLOSED.
 */
LW_PUBLIC int lw_adopt(struct lw_client *client, const char *name, const char *token,
                       const struct lw_acquire_options *options, lw_lock_cb *done,
                       void *arg, struct lw_lock **ret);
/* == lw_lock_state(3) == */
/* Returns the state of the handle. */
LW_PUBLIC enum lw_state lw_lock_state(const struct lw_lock *lock);
/* Returns how long, in ms, the lock is certain to be held without another renewal,
 * without I/O. 0: do not touch the resource. */
LW_PUBLIC int64_t lw_lock_remaining_ms(const struct lw_lock *lock);
/* Returns the fencing token of this hold, larger than those of all earlier holders of the
 * name, and above 2^50. Returns 0 if the lock was not granted, with LW_REDISSON, or if
 * LW_NO_FENCE skipped it. An owner that acquires the lock again has the same number,
 * except for a larger one when it begins to write. Pass the fencing token along with
 * every write to the resource, which must reject any that is smaller than the largest
 * that it has seen. */
LW_PUBLIC uint64_t lw_lock_fence(const struct lw_lock *lock);
LW_PUBLIC const char *lw_lock_name(const struct lw_lock *lock);
LW_PUBLIC enum lw_mode lw_lock_mode(const struct lw_lock *lock);
/* Returns the handle's client; NULL once that was freed, or its closing finished. */
LW_PUBLIC struct lw_client *lw_lock_client(const struct lw_lock *lock);
/* Returns the `arg` of the callbacks that are still to come or due: that of lw_acquire
 * or, from lw_release on, of that call. May be called in any state. */
LW_PUBLIC void *lw_lock_arg(const struct lw_lock *lock);
/* Replaces the `arg` of lw_lock_arg, in any state, but not that of an lw_renew. */
LW_PUBLIC void lw_lock_set_arg(struct lw_lock *lock, void *arg);
/* Returns how many handles wait before this one, by the last reply; 0 if it is next, -1
 * if it does not wait or its position is unknown (no reply yet, or no place). Handles of
 * another client that share one grant (local_turns) count as one; with LW_REDISSON, and
 * while this client holds the lock, none of them counts. */
LW_PUBLIC int64_t lw_lock_position(const struct lw_lock *lock);
/* Returns the `owner` of the options, or the lock token if none was given; "" while the
 * handle waits, or if it was never granted. With LW_REDISSON it is `<client uuid>:<n>`,
 * with a quorum a text of this client that no server stores. */
LW_PUBLIC const char *lw_lock_owner(const struct lw_lock *lock);
/* Returns the lock token, by which the lock can be adopted, released or broken; "" while
 * waiting, and with a quorum. Treat it as a secret. */
LW_PUBLIC const char *lw_lock_token(const struct lw_lock *lock);
/* Returns the last error from the server or the socket that affected this handle; the
 * next successful reply and a reconnection clear it. */
LW_PUBLIC const char *lw_lock_errstr(const struct lw_lock *lock);
/* Returns the class of lw_lock_errstr; LW_OK if that is "":
 *   LW_ECONN, LW_EREDIS  see WHAT A RESULT MEANS
 *   LW_EBUSY     max_waiting others already wait
 *   LW_EINVAL    see lw_adopt
 *   LW_ESYSTEM, LW_ENOMEM, LW_ECLOSED  as for lw_client_error
 * After LW_ETIMEOUT it is LW_OK if the lock was busy until the end. In `lost` with
 * LW_ELOST it is why the lock was not renewed. */
LW_PUBLIC int lw_lock_error(const struct lw_lock *lock);
/* After LW_EBUSY: returns the holder's remaining lease in ms, for a Retry-After, or -1 if
 * the key has no TTL. It may be claim_ms if handles of this client wait for the name, and
 * is a suggested delay while a cluster moves the name's slot. Else returns 0. */
LW_PUBLIC int64_t lw_lock_retry_ms(const struct lw_lock *lock);

/* == lw_keep_new(3): leader election, a lock that is held whenever possible == */
/*
 * Holds the lock `name` whenever possible, until lw_keep_free. A keep waits without
 * limit, renews the lock while it holds it, and after each loss joins the end of the
 * queue. `gained` and `lost` alternate, `gained` first; either may be NULL:
 *   gained   LW_OK: the lock is held, by a new acquisition. Its fencing
 *            token is larger than all earlier ones, also the keep's own
 *            (lockwire(7), LEADERSHIP, has the exceptions)
 *   lost     LW_ELOST, LW_ENOTHELD or LW_ETIMEOUT, as for any lock:
 *            rule 6
 *
 * `options` are those of lw_acquire (NULL: a mutex) and apply to each acquisition, but
 * `lost` must be NULL, and wait_ms 0 or -1, which mean the same here. max_hold_ms limits
 * each hold. After `lost` with LW_ELOST or LW_ETIMEOUT the caller steps down within
 * margin_ms; then the keep releases the lock, and queues again. `at_risk` is called with
 * the keep's `arg`. If a request fails otherwise (such as by LW_EREDIS, LW_EDEADLOCK or
 * max_waiting), the keep logs it, and tries again after 1 s, later after up to 30 s.
 *
 * Rules 1 to 8 apply to a keep as to a handle. lw_client_close releases its hold, and
 * lw_client_free lets it expire, both without calling `lost`. The keep then calls back no
 * more, and must still be freed. Returns 0, LW_EINVAL (see errbuf), LW_ENOMEM or
 * LW_ECLOSED.
 */
LW_PUBLIC int lw_keep_new(struct lw_client *client, const char *name,
                          const struct lw_acquire_options *options, lw_keep_cb *gained,
                          lw_keep_cb *lost, void *arg, struct lw_keep **ret);
/* Frees the keep. In the background it releases the lock, or leaves the queue. */
LW_PUBLIC void lw_keep_free(struct lw_keep *keep);
/* Returns the keep's present handle, never NULL. Its state is one of:
 *   LW_HELD     the keep holds the lock
 *   LW_WAITING  the keep waits for it
 *   LW_LOST     the hold was lost, and its margin has not passed yet
 *   LW_DONE     the request failed, and is retried later (lw_lock_errstr has the reason);
 *               or the client is closed
 * Use it for the getters and lw_renew only. The keep owns it, and replaces it with each
 * request: do not store it beyond one turn of the event loop. */
LW_PUBLIC struct lw_lock *lw_keep_lock(const struct lw_keep *keep);

/* == lw_acquire_all(3): several locks at once, all of them or none == */
/* See lw_lock_cb. */
typedef void lw_all_cb(struct lw_all *all, int status, void *arg);
/*
 * Acquires the mutexes `names`, 1 to 16 different ones, as one: `done` is called with
 * LW_OK once all of them are held. Calls that share names, in whatever order, never
 * deadlock with one another. A caller that already holds one of the names, or that
 * acquires another lock while it holds these, can deadlock: lockwire(7), SEVERAL NAMES.
 *
 * `options` are those of lw_acquire (NULL: try once), but mode must be LW_MUTEX and
 * `lost` must be NULL. wait_ms limits the whole acquisition. Every other option applies
 * to each name by itself. max_hold_ms counts from each name's own grant, at_least_ms from
 * the time at which all are held. `at_risk` is called with the handle of the name and the
 * `arg` of this call, after `done` at the earliest. `done` is called once, with:
 *   LW_OK         all are held, each with its own fencing token
 *   LW_EBUSY      wait_ms is 0, and a name is held by another; or max_waiting others
 *                 already wait for the name that is missing
 *   LW_ETIMEOUT   wait_ms has passed
 *   LW_ECONN, LW_EREDIS, LW_ENOMEM, LW_ECLOSED  as for lw_acquire, of one name
 * After any status except LW_OK all names are being released, in the background.
 *
 * The names are lost together: `lost` (may be NULL) is called at most once, never before
 * `done`, with the reason of rule 6. The other names are released after margin_ms, in
 * which the caller steps down, or by lw_all_free. The other callback rules are those of a
 * handle; lw_client_close and lw_client_free end a hold without `lost`. Returns 0,
 * LW_EINVAL (see errbuf), LW_ENOMEM or LW_ECLOSED.
 */
LW_PUBLIC int lw_acquire_all(struct lw_client *client, const char *const *names,
                             size_t count, const struct lw_acquire_options *options,
                             lw_all_cb *done, lw_all_cb *lost, void *arg,
                             struct lw_all **ret);
/*
 * Releases all names. `done` (may be NULL) is called after the last reply: with LW_OK if
 * all were released, LW_EREDIS if the server refused to release one of them, else
 * LW_ECONN if no server could release one, else LW_ENOTHELD if one was no longer held,
 * else LW_EUNKNOWN: see lw_release. Returns 0; LW_EINVAL while the acquisition waits or
 * is being released; LW_ENOTHELD if it failed, was lost or was released; LW_ECLOSED.
 */
LW_PUBLIC int lw_all_release(struct lw_all *all, lw_all_cb *done, void *arg);
/* Frees the acquisition in any state: rule 3. */
LW_PUBLIC void lw_all_free(struct lw_all *all);
/* Returns the handle of the name with this index in `names`, or NULL if it has none at
 * the moment; never NULL while all names are held. Use it for the getters and lw_renew
 * only, and before `done` not beyond one turn of the event loop. After a failure only the
 * name that caused it has a handle, if any. If lw_all_release fails, lw_lock_error
 * returns the result of each name, also LW_ENOTHELD and LW_EUNKNOWN. */
LW_PUBLIC struct lw_lock *lw_all_lock(const struct lw_all *all, size_t index);
/* Returns how long all names are certain to be held without another renewal, in ms: the
 * least of their lw_lock_remaining_ms. Returns 0 before `done` and after a release. */
LW_PUBLIC int64_t lw_all_remaining_ms(const struct lw_all *all);

/* == lw_inspect(3): the holders and waiters of a lock; force-releasing it == */
/* One holder or waiter. The strings are unchanged from Redis, where anyone may have
 * written them: do not print them as they are. */
struct lw_inspected {
    /* The lock token; of another library's plain string the first 1024 bytes. */
    const char *token;
    const char *owner; /* in re-entrant modes; else "" */
    /* The client of the token, or the client that has detached it: "<client_name> <host>
     * <pid>"; "" if unknown. */
    const char *client;
    /* The remainder of a holder's own lease; -1 if it has no TTL. 0 for a waiter. */
    int64_t remaining_ms;
    /* How long a waiter has waited, by the server's clock; 0 if unknown (a reader that
     * wants to upgrade). 0 for a holder. */
    int64_t waited_ms;
    uint64_t fence;    /* of a holder in a re-entrant mode; 0 if Redis does not keep it */
    uint32_t permits;  /* of a waiter in LW_SHARED */
    enum lw_mode mode; /* the mode of the hold or of the request */
    /* The next three are known only of a holder that has a note, or that has adopted or
     * detached the lock. The options `user` and `note`; "" if unknown, or without one. */
    const char *user, *note;
    /* When the lock was granted, before all adoptions, in ms since 1970 by the server's
     * clock; 0 if unknown. */
    int64_t since_ms;
};
/* The holders and waiters of a name at one moment. Valid during the callback, as are its
 * entries and strings. */
struct lw_inspection {
    size_t size; /* the library's; later versions append */
    const char *name;
    /* The type of a foreign key, as TYPE returns it; "" if the key is not foreign. */
    const char *foreign;
    const void *holders_, *waiters_;   /* for the two functions below */
    size_t holder_count, waiter_count; /* number of entries */
    size_t holder_total, waiter_total; /* number in Redis */
    /* The size of an lw_inspected in the library in use; fields beyond it are absent. */
    size_t entry_size;
    /* The server that replied: "host:port", "[::1]:6379" or the socket's path. If
     * address_map replaces it, " (mapped to host:port)" follows. */
    const char *server;
    /* "master" or "replica", as that server reports; "" if INFO is not permitted. */
    const char *role;
};
/* Returns the holder with this index, or NULL if `index` is not below holder_count. There
 * are at most 100, in no order. */
LW_PUBLIC const struct lw_inspected *lw_inspection_holder(
    const struct lw_inspection *inspection, size_t index);
/* Returns the waiter with this index, or NULL if `index` is not below waiter_count. First
 * come up to 100 waiters for LW_MUTEX, then up to 100 for LW_EXCLUSIVE and LW_SHARED,
 * each in the order of the queue. */
LW_PUBLIC const struct lw_inspected *lw_inspection_waiter(
    const struct lw_inspection *inspection, size_t index);
/* The result of lw_inspect. `why` is the reason. `status` is:
 *   LW_OK      `inspection` has the result; in all other cases it is NULL
 *   LW_ECONN   there is no link, it was lost, or the server cannot reply now. The call
 *              does not wait for the link: after lw_client_new, call it once `link` has
 *              reported up
 *   LW_EREDIS  the server refused (also the connection), or a field or member in Redis is
 *              too long (above 512 bytes)
 *   LW_ENOMEM, LW_ECLOSED
 */
typedef void lw_inspect_cb(struct lw_client *client, int status,
                           const struct lw_inspection *inspection, const char *why,
                           void *arg);
/* The result of lw_break. `why` is the reason. `status` is:
 *   LW_OK        the lock was force-released, and handed to the first waiter
 *   LW_ENOTHELD  the lock is free, foreign, or not held with this token
 *   LW_ECONN     not done: there is no link, or the server cannot do it now
 *   LW_EUNKNOWN  it may have been done
 *   LW_EREDIS, LW_ENOMEM, LW_ECLOSED */
typedef void lw_break_cb(struct lw_client *client, int status, const char *why,
                         void *arg);

/* Reads the holders and waiters of `name`. While a cluster moves the name's slot, waiters
 * are not found. Returns 0, LW_EINVAL (see errbuf), LW_ENOMEM or LW_ECLOSED. */
LW_PUBLIC int lw_inspect(struct lw_client *client, const char *name, lw_inspect_cb *done,
                         void *arg);
/*
 * Force-releases a lock and hands it over, as if its holder had released it. `token`
 * selects a holder; NULL all present holders, up to 1000. There may be two holders until
 * the old holder's `lost` is called with LW_ENOTHELD, normally within milliseconds, at
 * the latest at its next renewal.
 *
 * A plain string of another library is a mutex, and is broken as well (LW_EREDIS above
 * 512 KiB). A token longer than 512 bytes selects no holder: pass NULL. While a cluster
 * moves the name's slot, the lock becomes free and is handed to no waiter. Returns as
 * lw_inspect does.
 */
LW_PUBLIC int lw_break(struct lw_client *client, const char *name, const char *token,
                       lw_break_cb *done, void *arg);

/* == lw_ask_to_yield(3): asks who holds a lock to release it == */
/* The result of lw_ask_to_yield. `holders` is how many there are, and `reached` how many
 * of them the request has reached; it is valid whatever the status is:
 *   LW_OK        each holder that can be reached was sent the request
 *   LW_ENOTHELD  the lock is free, or `foreign` (lw_inspection)
 *   LW_ECONN, LW_EREDIS, LW_ENOMEM, LW_ECLOSED  as for lw_inspect */
typedef void lw_yield_cb(struct lw_client *client, int status, size_t holders,
                         size_t reached, const char *why, void *arg);
/*
 * Asks each holder of `name`, up to 1000, to release it: its client calls asked_to_yield.
 * Nothing is released by force. Not reached are clients without a subscription or that
 * are gone, and other libraries'. A client without asked_to_yield ignores the request,
 * although it is reached. Returns as lw_inspect does; LW_EINVAL also with a quorum.
 */
LW_PUBLIC int lw_ask_to_yield(struct lw_client *client, const char *name,
                              lw_yield_cb *done, void *arg);

/* == lw_watch(3): the holders and waiters of a lock, at each change == */
/* The state of a watched lock. `now`, `why` and all `status` except LW_ECLOSED are those
 * of lw_inspect's callback; `arg` is that of lw_watch. */
typedef void lw_watch_cb(struct lw_watcher *watcher, int status,
                         const struct lw_inspection *now, const char *why, void *arg);
/* Options of a watch. The rules of lw_client_options apply. */
struct lw_watch_options {
    size_t size;
    /* 1000 (10 to 2^31 - 1): the time between two looks at the lock: lockwire(7),
     * INSPECTING LOCKS. */
    uint32_t interval_ms;
    /* Not 0: `changed` is called after each look, one each interval_ms. */
    uint32_t every_look;
};
#define LW_WATCH_OPTIONS_INIT                                                            \
    {                                                                                    \
        sizeof(struct lw_watch_options), 0, 0                                            \
    }
/*
 * Watches the lock `name`, in any mode, without competing for it: nothing is written to
 * Redis. `changed` is called with the first state, and with the present one after
 * anything has changed except the passing times, the server and its role. States between
 * two looks are not seen; the last one always is. When the state becomes unknown
 * `changed` is called once with LW_ECONN, LW_EREDIS or LW_ENOMEM; the next state is
 * reported again. With a new client the first call comes when it is connected, or when
 * its first attempt has failed.
 *
 * `options` may be NULL. Rules 1 to 8 apply to a watcher as to a handle. After
 * lw_client_close it calls back no more, and must still be freed. Returns 0, LW_EINVAL
 * (see errbuf; also with a quorum), LW_ENOMEM or LW_ECLOSED.
 */
LW_PUBLIC int lw_watch(struct lw_client *client, const char *name,
                       const struct lw_watch_options *options, lw_watch_cb *changed,
                       void *arg, struct lw_watcher **ret);
/* Ends the watch. */
LW_PUBLIC void lw_watcher_free(struct lw_watcher *watcher);

/* == lw_list(3): the locks that are held == */
/* The progress of lw_list. Valid during the callback. */
struct lw_listing {
    size_t size;    /* the library's; later versions append */
    uint64_t found; /* locks so far, including the present one */
    uint64_t seen;  /* keys examined so far; an estimate if there is a pattern */
    /* The number of keys at the servers that were asked so far, for the progress; a
     * master of a cluster whose scan begins again counts again. 0 if DBSIZE is not
     * permitted. */
    uint64_t keys;
};
/*
 * Reports a held lock as lw_inspect does, with its waiters; without a holder if
 * lw_inspect of its name fails with LW_EREDIS. `found` is NULL after each step, to report
 * progress. Returns 0 to continue; any other value ends the list with LW_ECANCELED.
 */
typedef int lw_found_cb(struct lw_client *client, const struct lw_inspection *found,
                        const struct lw_listing *listing, void *arg);
/* The end of lw_list. `why` is the reason. `status` is:
 *   LW_OK         the list is complete
 *   LW_ECANCELED  the callback `found` has ended the list
 *   LW_ECONN      there is no link, it was lost, or a server cannot reply now; the list
 *                 is incomplete
 *   LW_EREDIS, LW_ENOMEM, LW_ECLOSED */
typedef void lw_listed_cb(struct lw_client *client, int status,
                          const struct lw_listing *listing, const char *why, void *arg);
/*
 * Lists the locks that are held at the server, at the master that the sentinels report,
 * or at all masters of a cluster. `found` is called for each lock, in no order, and after
 * each step; `done` last. `pattern` is a glob as for SCAN's MATCH, of 1 to 512 bytes, or
 * NULL (all).
 *
 * A lock that is held throughout is found at least once, except perhaps in a slot of a
 * cluster that moves. Not in the list are locks in LW_REDISSON or of other libraries,
 * free names that only have waiters, and names that this account may not read. Up to 100
 * bytes of each string are read. Returns 0, LW_EINVAL (see errbuf), LW_ENOMEM or
 * LW_ECLOSED.
 */
LW_PUBLIC int lw_list(struct lw_client *client, const char *pattern, lw_found_cb *found,
                      lw_listed_cb *done, void *arg);

/* == lw_strerror(3) == */
/* Returns the text of an lw_error, or "unknown error" for any other number. */
LW_PUBLIC const char *lw_strerror(int error);
/* Returns LW_VERSION of the library in use. */
LW_PUBLIC const char *lw_version(void);

#ifdef __cplusplus
}
#endif
#endif

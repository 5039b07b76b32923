/* SPDX-License-Identifier: MIT */
/* The structs that the files of this room share: a client, a name, a claim, a handle, and
 * what is told of them. Each group of fields says which file writes them; others read
 * them, and have them changed by that file's functions. */
#ifndef LW_STRUCTS_H
#define LW_STRUCTS_H
#include "base/hash.h"
#include "base/log.h"
#include "base/random.h"
#include "base/url.h"
#include "lock/credentials.h"
#include "lock/hints.h"
#include "lock/line.h"
#include "lock/machine.h"
#include "lock/name.h"
#include "lock/notify.h"
#include "lock/renewal.h"
#include "lock/whoami.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/encode.h"
#include "redis/format.h"
#include "redis/tls.h"

#include <stdbool.h>
#include <stdint.h>

struct lw__claim_events;
struct lw__redisson;
struct lw__mode;

#if defined(__SANITIZE_ADDRESS__)
#define LW__SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define LW__SANITIZED 1
#endif
#endif
#ifdef LW__SANITIZED
#define LW__POOLED 0 /* so that a use after free is seen */
#else
#define LW__POOLED 1024 /* freed objects of one kind that a client keeps for reuse */
#endif

/* A name in use, found by its text: name.c's, but for the claims. */
struct lw__name {
    struct lw__name *next; /* of its slot */
    uint32_t hash;
    unsigned references;   /* claims and handles */
    struct lw__node *node; /* where its slot leads: turns_events.c's */
    uint16_t slot;         /* of a cluster; 0: all are in one */
    /* renewal.c's, which renew.c and turns_events.c clear: the slot was on its way to
     * another node when a script of several keys was refused last. */
    bool moving;
    struct lw__claim *claims; /* claim.c's: of one client, in order of making */
    char text[];
};

/* When lw__later calls back. */
enum lw__later {
    LW__LATER_NOT,
    LW__LATER_IN_TIME, /* after the delay */
    /* After the delay, and once the release of the handle was answered or its lease has
     * expired, so that the next attempt does not meet the hold of the earlier one. */
    LW__LATER_WHEN_GONE
};

/* A handle: one acquisition, as its caller sees it. */
struct lw_lock {
    /* lock.c's: what the caller said, from his call on */
    struct lw_client *client;    /* NULL: inert */
    struct lw_lock *next, *prev; /* all handles of the client */
    struct lw__name *name;
    const struct lw__mode *mode;
    /* `done` and `arg`: from lw_release, or lw__later, on of that call */
    lw_lock_cb *lost, *done;
    lw_risk_cb *at_risk; /* NULL: nobody is to be warned */
    void *arg;
    char *owner; /* as given; NULL: none, or not asked for yet (lw_lock_owner) */
    uint32_t lease_ms, margin_ms, permits;
    uint8_t flags;
    bool once; /* wait_ms 0 */
    bool freed;

    bool told; /* handle.c's: of its grant */
    /* `asking` is in force until it is told of its grant, `held` from then on; `retry_ms`
     * once it ended without one. */
    union {
        struct { /* lock.c's */
            int64_t asked_us;
            int64_t give_up_us; /* LW__NEVER: waits for ever */
            int64_t max_hold_us;
        } asking;
        struct {
            struct lw__renew_call *renew_calls; /* renew.c's */
            /* handle.c's: its deadline, once it is lost by the clock; else 0 */
            int64_t lost_at_us;
            /* risk.c's: when it is at risk, and by which deadline that was counted */
            int64_t risk_at_us, risk_deadline_us;
        } held;
        int64_t retry_ms; /* handle.c's and who calls it: of LW_EBUSY; else 0 */
    };

    char *errstr; /* handle.c's; or NULL */

    /* handle.c's, together.c's and turns*.c's; lock.c, ending.c take them away at the
     * end */
    struct lw_lock *turn_next, *turn_prev; /* those who wait for, or hold, one claim */
    struct lw__claim *claim;               /* NULL: it has nothing in Redis */
    /* waiting: give up; held: lost; releasing: LW_EUNKNOWN; else later.c's */
    struct lw__timer timer;

    struct lw__notice notice; /* notify.c's */

    /* handle.c's; lock.c's before it holds */
    uint64_t fence;
    int64_t hold_until_us; /* by max_hold_ms; LW__NEVER */
    uint64_t token_n;      /* of the claim that it holds or held, */
    uint32_t window_ms;    /* and its window; the one to ask for until then */

    /* handle.c's; taken away by whoever tells it or takes the grant back: deliver.c,
     * lock.c, turns.c */
    bool granted; /* LW_OK is on its way to the callback */

    /* deliver.c's: a state that is told; lock.c's: one that the caller chose */
    uint8_t state;
    bool in_callback;
    bool warned;         /* risk.c's: what `at_risk` is told last */
    uint8_t later;       /* later.c's */
    int error;           /* handle.c's: the class of `errstr`, an lw_error */
    uint32_t at_risk_ms; /* lock.c's; 0: the default */
};

/* One token in Redis at a time, and all that is asked, held and given back by it. */
struct lw__claim {
    /* claim*.c's */
    struct lw__command command; /* at most one in flight */
    struct lw_client *client;
    struct lw__name *name;
    struct lw__claim *next, *prev; /* of its name */
    const struct lw__mode *mode;
    struct lw__machine machine; /* machine.c's alone */
    struct lw__timer timer;     /* machine.due_us */
    char *owner;                /* the handle's, copied; NULL: none, or LW_MUTEX */
    uint64_t n, previous_n;
    uint32_t window_ms, previous_window_ms, permits;

    struct lw__heap_node renewal; /* renewal.c's: when it is due */
    unsigned tries;               /* handle.c's: of those who wait, who try once */
    uint8_t numbers;              /* fencing tokens that its grant drew */
    uint8_t served;               /* handles: turns*.c's; handle.c counts them */
    bool asked_to_join : 1;       /* the ask in flight joins the queue */
    bool named : 1;  /* its token was sent, and may be in Redis by that text */
    bool trying : 1; /* the plain try is in flight */
    bool tried : 1;  /* it was the last that was sent */
    enum lw__fast_release drop : 2; /* how its release without a look was sent */
    bool set_answered : 1, set_done : 1, set_failed : 1, set_undone : 1; /* its SET */
    bool stranger_told : 1;
    bool open : 1;              /* turns.c's: further handles may join it */
    bool renewing_for_next : 1; /* turns*.c's: the next one wants a fresh lease */
    bool next_left : 1;         /* and it is no longer the one that this was asked for */
    bool verify : 1;            /* renewal.c's: a hint says that its token was broken */
    bool error_told : 1; /* handle.c's: one is, and no ordinary answer came since */

    /* Which is in force lw__machine_asks says; it begins with zeros, by claim_step.c. */
    union {
        struct {
            struct lw__pair pair; /* hints.c's: of its last answer */
            int64_t set_us;       /* claim_moving.c's: when its SET was sent */
            /* claim_step.c's, turns_events.c's: of the holder, as last heard */
            int64_t remaining_ms;
            /* claim_step.c's, inbox.c's: its place in the queue as last heard, from 1;
             * 0: not known */
            uint32_t place;
        } asking;
        struct {
            struct lw__batch *batch; /* renewal.c's: the one in flight that it is in */
            struct lw_lock *others;  /* together.c's: hold as well, beside `holder` */
            /* together.c's: its lease is to be had from then on; 0: renewal.c's, it was
             */
            int64_t entered_us;
            unsigned drawn_on; /* turns*.c's: the connection of its grant's numbers */
        } held;
    };

    struct lw_lock *waiting;   /* handle.c's: in order of arrival */
    struct lw_lock *releasing; /* turns*.c's: wants to be told of the release */
    struct lw_lock *holder;    /* together.c's, turns*.c's: or lost and not freed yet */
};

struct lw_client {
    /* options.c's */
    struct lw_client_options options; /* with every default filled in; strings copied */
    struct lw__url url;
    struct lw__tls_options tls; /* without a name: the host's */
    struct lw__tls_trust *trust;
    char *strings[9]; /* copies: username, password, client_name, tls_*, sentinel_* */
    struct lw__log log;
    struct lw__causes causes; /* log.c's */

    /* client.c's; ending.c lets go of the loop and the route */
    struct lw__loop *loop; /* NULL: closed */
    struct lw__route *route;
    struct lw__random random;
    char uuid[LW__UUID_SIZE];
    const struct lw__claim_events *events; /* turns.c's */
    const struct lw__mode *modes;          /* by enum lw_mode */
    struct lw__timer close_timer;
    lw_close_cb *closed;
    void *closed_arg;
    bool closing, freed;
    bool inherited;        /* in a forked child, where it was ended: loop is NULL */
    int error;             /* the class of `why`, an lw_error */
    char why[LW__WHY_MAX]; /* what the link callback is told */
    struct lw_stats stats; /* each counter where it happens */

    struct lw__hash_key hash_key; /* of all its tables */
    struct lw__names names;       /* name.c's */

    struct lw_lock *locks;      /* lock.c's */
    struct lw_lock *free_locks; /* handle.c's, and lock.c's who takes from them */
    unsigned free_lock_count;

    /* claim*.c's */
    uint64_t next_n;
    struct lw__claim *free_claims;
    unsigned free_claim_count, open_claims;

    struct lw__renewals renewals;     /* renewal.c's */
    struct lw__hints hints;           /* hints.c's */
    struct lw__rest rests[LW__RESTS]; /* line.c's */
    struct lw__redisson *redisson;    /* redisson.c's; NULL before the first waiter */
    bool cluster_logged;
    struct lw__inquiry *inquiries; /* inspect.c's */
    struct lw__list *lists;        /* list.c's */
    struct lw__whoami whoami;      /* whoami.c's */
    struct lw__notify notify;      /* notify.c's */
    struct lw__notice closed_notice;
    struct lw__credentials credentials; /* credentials.c's */

    /* deliver.c's */
    unsigned references; /* callbacks that run */
    bool told_up;        /* what the link callback was told last */
};

#define LW__INHERITED "the client belongs to the parent process: it was made before fork"

/* Returns true in a forked child of the process that made the client. */
static inline bool lw__is_inherited(const struct lw_client *client)
{
    return client->inherited || (client->loop != NULL && lw__loop_is_child(client->loop));
}
#endif

/* SPDX-License-Identifier: MIT */
/* The life of one token, as a pure function: (state, input, now) -> (state, actions). It
 * decides whether a grant is believed, until when, when to send a request again, and what
 * to release. (src/README.md lists the functions elsewhere on which the safety of a lock
 * depends as well.) It is independent of clocks, sockets, memory and callbacks, and uses
 * libc only.
 *
 * Usual course: START sends a try; the reply GRANTED grants; RELEASE sends a release; the
 * reply RELEASED reports it, and the token has ended.
 * Waiting: START sends a try; NOT_GRANTED sends a request to join; the reply QUEUED leads
 * to sleep. HANDED_OVER grants at once if enough of the claim window is left, else the
 * token requests the lock again.
 * Failures: after UNKNOWN the machine retries. An acquisition is retried by the script,
 * even if a try was sent before, until no handle wants it. A release is retried until the
 * lease has expired, and for at least one lease. Then it ends with LW_OK
 * if a reply has confirmed it, with LW_EUNKNOWN if an attempt was left
 * without a reply, and otherwise with LW_ECONN. REFUSED is a permanent error. An
 * acquisition then fails, and the machine releases what the token may have in Redis. A
 * release then ends. A deadline that passes leads to UNDELIVERED or LOST_LOCALLY.
 *
 * The table has the phase that follows an event. "same" means that the phase does not
 * change, but a field of the machine does. HELD and HELD_BY_MESSAGE share a column, and
 * so do RELEASING and RELEASE_DUE. An event with an empty cell is ignored. In ENDED every
 * event is ignored.
 *
 *                 IDLE       ACQUIRING   QUEUED     HELD       EXPIRED    RELEASING
 * START           ACQUIRING
 * LEASE_SET                  same
 * GRANTED                    HELD (1)
 * NOT_GRANTED                ACQUIRING
 * QUEUED                     QUEUED (2)
 * DEADLOCK                   give up
 * NOT_ADOPTED                give up
 * UNKNOWN                    QUEUED                                       RELEASE_DUE
 * REFUSED                    give up                                      ENDED
 * HANDED_OVER                same        HELD (1)
 * STANDBY                    same        same
 * RETRY_NOW                  same        ACQUIRING                        RELEASING
 * DUE                        same        ACQUIRING             RELEASING  RELEASING (3)
 * CANCEL                     same        give up
 * RENEWED                                           HELD
 * SHORTEN                                           same
 * VOTED                                             same
 * UNDELIVERED                                       ACQUIRING
 * LOST_LOCALLY                                      EXPIRED
 * LOST_ON_SERVER                                    ENDED      ENDED
 * RELEASE         RELEASING                         RELEASING  RELEASING
 * RELEASED                                                                ENDED (4)
 *
 * Each step to ACQUIRING sends a try or a request, each to RELEASING a release. "give up"
 * leads to RELEASING if the token may be in Redis, and otherwise to ENDED. START leads to
 * QUEUED if the link is down, or if the claim has to wait first (`start.behind`). After
 * CANCEL in ACQUIRING, GRANTED leads to RELEASING, and NOT_GRANTED, QUEUED and UNKNOWN
 * give up. RETRY_NOW is ignored in RELEASING, but not in RELEASE_DUE.
 *
 * - (1) ACQUIRING if too little of the lease is left. After HANDED_OVER also if too
 *   little of the claim window is left, or if the clocks do not prove when the hand-over
 *   was: there is no clock pair, or the server's clock was set.
 * - (2) If HANDED_OVER came while the request was in flight, and the message is not older
 *   than the reply, then as for HANDED_OVER in QUEUED. Otherwise ACQUIRING if the script
 *   has more to do, or if RETRY_NOW or DUE came while the request was in flight.
 * - (3) ENDED once release_until_us has come.
 * - (4) RELEASING if the script has more to do. */
#ifndef LW_MACHINE_H
#define LW_MACHINE_H
#include <stdbool.h>
#include <stdint.h>

#define LW__NEVER INT64_MAX

/* A command is in flight from the time when it is sent until its reply has come. */
enum lw__phase {
    LW__IDLE,            /* nothing in Redis, nothing in flight */
    LW__ACQUIRING,       /* a try or a request is in flight */
    LW__QUEUED,          /* not granted; sends a request at due_us, or when woken */
    LW__HELD,            /* ours until deadline_us */
    LW__HELD_BY_MESSAGE, /* the same; the lease is the claim window of a hand-over */
    LW__EXPIRED,         /* lost on this side; released at deadline_us, or earlier if the
                            handle is freed or released, or the client closes */
    LW__RELEASING,       /* a release is in flight; it leaves the queue as well */
    LW__RELEASE_DUE,     /* the outcome of a release is unknown; sends it at due_us */
    LW__ENDED            /* no command follows. Until its lease expires the token may be
                            in Redis still: detached, or after a refused release */
};

/* Which file sends the event, and when. In a quorum, votes.c sends to the claim of the
 * handles what comes with a reply elsewhere, and RETRY_NOW before a grant. To the claim
 * of a vote, ask.c sends CANCEL, RELEASE and UNDELIVERED in place of turns.c. */
enum lw__event {
    /* claim.c, when turns.c starts a claim: a handle wants the lock. */
    LW__EV_START,
    /* claim.c, when it encodes a request whose lease is another one than the last, or
     * after a hand-over message was noted. */
    LW__EV_LEASE_SET,
    /* claim.c, with the reply to a try or a request; claim_migrating.c, after a SET while
     * the slot migrates. */
    LW__EV_GRANTED,
    /* claim.c and claim_migrating.c: a try found the name busy, or its fencing token is
     * unusable. claim.c: a request found it busy because of this client's own release,
     * which has no reply yet. */
    LW__EV_NOT_GRANTED,
    /* claim.c and claim_migrating.c, with the reply to a request: the lock is busy. */
    LW__EV_QUEUED,
    /* claim.c, with the reply to a request: two owners that read want to upgrade. */
    LW__EV_DEADLOCK,
    /* claim.c: there is no reply to a request or a release, or an error that may pass, so
     * that the outcome is unknown. */
    LW__EV_UNKNOWN,
    /* claim.c, with a permanent error. votes.c, when so many servers refuse that no
     * majority can grant, or when the releases of all votes have ended and a majority has
     * not confirmed it. */
    LW__EV_REFUSED,
    /* claim.c, with the reply to a release or a detach. */
    LW__EV_RELEASED,
    /* renewal.c, with the reply to a renewal. */
    LW__EV_RENEWED,
    /* renewal.c: a renewal found the lock not ours. */
    LW__EV_LOST_ON_SERVER,
    /* lock.c, when lw_renew sets the lease; ask.c, when the votes get another lease. The
     * deadline only moves to an earlier time. */
    LW__EV_SHORTEN,
    /* claim_message.c, with a message. */
    LW__EV_HANDED_OVER,
    /* claim_message.c, with a message: the waiter ahead was handed the lock, or the
     * holder has detached it. claim.c and redisson.c, when a claim has to rest before its
     * next request. */
    LW__EV_STANDBY,
    /* retry.c: the link came up or was bound, the guard has changed, a quorum is up, or
     * the name's slot has moved. turns.c: a
     * waiter joined a claim that has no place in the queue, or the first waiter of a mode
     * that polls has left. claim.c: the try of the claim ahead has ended.
     * claim_message.c: a hand-over message by which the lock cannot be held, because it
     * is of another server or the guard is closed. redisson.c: a message, or a confirmed
     * channel. */
    LW__EV_RETRY_NOW,
    /* claim.c, when due_us has come. */
    LW__EV_DUE,
    /* turns.c: no handle waits any longer. */
    LW__EV_CANCEL,
    /* turns.c, when a holder releases or detaches and no handle takes over the claim, or
     * a grant has no waiter. claim_message.c, for a hand-over to an unknown token. */
    LW__EV_RELEASE,
    /* turns.c: the deadline came before the grant could be delivered, or the grant has no
     * fencing token and the waiter wants one. */
    LW__EV_UNDELIVERED,
    /* turns.c, when the deadline or max_hold_ms has come, and the holder's `lost` will be
     * called. */
    LW__EV_LOST_LOCALLY,
    /* claim.c, with the reply to a request that adopts: it cannot be. */
    LW__EV_NOT_ADOPTED,
    /* votes.c: the deadline of a majority of votes has moved, either way. */
    LW__EV_VOTED
};

struct lw__input {
    enum lw__event event;
    bool linked; /* the link is up */
    int64_t now_us;
    int64_t sent_us;   /* when the command was sent that was answered, or was not */
    int64_t jitter;    /* random, -1000 to 1000: up to 10 % of a delay; see
                          lw__machine_delays */
    int64_t margin_us; /* what the first waiter needs left of a grant; see
                          lw__machine_grants */
    union {            /* by event; the others have no arguments */
        /* The largest is first, because an initializer that names no member sets the
         * first one only. */
        struct {
            int64_t remaining_ms; /* -1: the key has no TTL */
            int64_t poll_ms;  /* the longest sleep of a mode without a queue; else 0 */
            int64_t position; /* -1: not queued */
            int64_t ticket;
            int64_t server_us; /* TIME in the reply */
            bool again;        /* send it again at once: the script had more to do */
        } queued;
        struct {
            bool first_script; /* send the script rather than SET NX */
            bool behind;       /* it must not be sent yet: RETRY_NOW follows when the try
                                  of another claim has ended, or STANDBY for a rest */
            int64_t ticket;    /* with which it joins the queue; 0: none */
        } start;
        struct {
            int64_t lease_us;
        } lease_set;
        struct {
            uint64_t fence;
        } granted;
        struct {
            bool set_done;  /* the name is ours, but has no fencing token */
            int64_t ticket; /* the script's, to be sent again; 0: none */
        } not_granted;
        struct {
            int status; /* for the waiters */
        } not_adopted;
        struct {
            bool was_sent;
            bool for_now; /* LW__EV_REFUSED of a release: a later one may succeed */
        } unknown;        /* also of LW__EV_REFUSED */
        struct {
            int64_t holds_left; /* of the same owner */
            bool released, again;
        } released;
        struct {
            int64_t lease_us;  /* that the renewal requested */
            int64_t wanted_us; /* that is wanted now. The shorter one of both counts */
        } renewed;
        struct {
            int64_t lease_us;
        } shorten;
        struct {
            int64_t handed_us; /* the server's TIME of the hand-over */
            uint64_t fence;
            /* a clock pair; pair_server_us 0: none */
            int64_t pair_sent_us, pair_server_us;
        } handed_over;
        struct {
            int64_t window_us; /* from the message until the claim polls */
        } standby;
        struct {
            bool detaches; /* the caller wants the token to stay in Redis. The reply "not
                              yours" then never means that an earlier attempt succeeded */
        } release;
        struct {
            int64_t at_us; /* when it shall be released */
        } lost_locally;
        struct {
            int64_t deadline_us;
            int64_t wanted_us; /* the lease that is wanted now */
        } voted;
    };
};

enum lw__action {
    LW__SEND_TRY = 1,
    LW__SEND_ACQUIRE = 2,
    LW__SEND_RELEASE = 4,
    LW__DO_GRANT = 8,     /* held from now on; fence, deadline_us */
    LW__DO_BUSY = 16,     /* the reply QUEUED: the lock is busy */
    LW__DO_FAIL = 32,     /* the waiters end with fail_status */
    LW__DO_RELEASED = 64, /* the release has ended with release_status */
    LW__DO_LOST = 128,    /* the server reports the loss */
    LW__DO_END = 256      /* the phase is LW__ENDED */
};

struct lw__output {
    unsigned actions;
    int fail_status, release_status; /* an lw_error */
};

/* Written by machine.c only. */
struct lw__machine {
    int64_t lease_us; /* requested last */
    int64_t due_us;   /* when LW__EV_DUE is wanted. ACQUIRING: when to poll after a noted
                         standby message. HELD_BY_MESSAGE: when to renew */
    int64_t ticket;   /* the place in the queue, or for joining it; -1: none yet */
    union {
        int64_t handed_us;   /* in flight: time of a noted hand-over message; 0: none */
        int64_t deadline_us; /* held, EXPIRED */
        int64_t release_until_us; /* releasing: when it stops retrying */
    };
    uint64_t fence;        /* of the hold; in flight, of the noted message */
    int64_t held_until_us; /* the deadline by the last grant, renewal or vote; SHORTEN and
                              LOST_LOCALLY do not move it. 0: the token was never held */
    int64_t first_sent_us; /* when the command with an unknown outcome was first sent */
    uint32_t window_us;    /* the claim window of the token, up to a minute */
    enum lw__phase phase : 8;
    uint8_t failures;           /* unknown outcomes in a row, on a link that is up */
    bool release_confirmed : 1; /* a reply said that the token was released */
    bool detaches : 1;          /* the release is a caller's detach */
    bool unwanted : 1;          /* no handle wants the outcome of the request */
    bool retry_at_once : 1;     /* another request follows the reply */
    bool unconfirmed : 1; /* an earlier command of the token was sent and not answered */
    bool maybe_in_redis : 1; /* the token may have the name or a place in the queue */
    bool maybe_held : 1;     /* the token may have the name, and its lease is running */
};

/* `lease_us` is the lease to request, and the least time for which a release is retried.
 */
void lw__machine_init(struct lw__machine *machine, int64_t window_us, int64_t lease_us);
struct lw__output lw__machine_step(struct lw__machine *machine,
                                   const struct lw__input *input);
/* Returns the lw_error of a release that has not ended, for a caller that waits no
 * longer: LW_OK if a reply has confirmed it; LW_EUNKNOWN if an attempt was left without a
 * reply, or is in flight; else LW_ECONN, because every attempt was answered, or none was
 * sent. Called by claim.c (lw__claim_release_status). */
int lw__machine_release_status(const struct lw__machine *machine, bool in_flight);
/* Returns true for the events that may begin a delay: no other needs jitter. */
static inline bool lw__machine_delays(enum lw__event event)
{
    return event == LW__EV_QUEUED || event == LW__EV_UNKNOWN;
}
/* Returns true for the events that may grant the lock: no other needs the margin. */
static inline bool lw__machine_grants(enum lw__event event)
{
    return event == LW__EV_GRANTED || event == LW__EV_QUEUED ||
           event == LW__EV_HANDED_OVER;
}
/* Returns true before a grant of the token is believed. It may have the name in Redis. */
static inline bool lw__machine_asks(enum lw__phase phase)
{
    return phase <= LW__QUEUED;
}
static inline bool lw__machine_holds(enum lw__phase phase)
{
    return phase == LW__HELD || phase == LW__HELD_BY_MESSAGE;
}
static inline bool lw__machine_releases(enum lw__phase phase)
{
    return phase == LW__RELEASING || phase == LW__RELEASE_DUE;
}
/* Polling by TTL: returns the delay, in us, until a waiter polls again after this reply.
 * `position` is -1 if it is not in the queue. */
int64_t lw__machine_poll_us(int64_t remaining_ms, int64_t position, int64_t jitter);
/* The same without a queue: as soon as the lease has ended, or after up to most_ms. */
int64_t lw__machine_lease_poll_us(int64_t remaining_ms, int64_t most_ms, int64_t jitter);
/* Returns the drift margin of a lease of span_us: its deadline is so long before its end.
 * That is 1 % and 2 ms. */
int64_t lw__machine_drift_us(int64_t span_us);
/* Returns true if a hold whose lease of lease_us has this deadline needs no renewal
 * before it ends, at until_us (LW__NEVER: it has no end). */
bool lw__machine_covers(int64_t deadline_us, int64_t lease_us, int64_t until_us);
/* A grant with less left than this is unusable. */
#define LW__LEAST_US 1000
#endif

/* SPDX-License-Identifier: MIT */
/* The life of one token, as a pure function: (state, input, now) -> (state, actions). It
 * owns every decision on which lock safety rests: when a grant may be believed, until
 * when, when to ask again, what to give back. It knows no clock, socket, allocation or
 * callback; libc only.
 *
 * Happy path: START -> SEND_TRY; GRANTED answer -> GRANTED; RELEASE -> SEND_RELEASE;
 * RELEASED answer -> RELEASED and ENDED.
 * Waiting: START -> SEND_TRY; NOT_GRANTED -> SEND_ACQUIRE; QUEUED answer -> BUSY, sleep;
 * HANDED -> GRANTED at once if the arithmetic of the claim window allows, else
 * SEND_ACQUIRE.
 * Failing: UNKNOWN (no answer, or none that decides) -> the same again after a while, or
 * when the link is up; a release until its lease is over. REFUSED -> FAIL, and whatever
 * the token may have is released. D comes -> LATE asks anew, LAPSE gives back. GONE ->
 * LOST. */
#ifndef LW_MACHINE_H
#define LW_MACHINE_H
#include <stdbool.h>
#include <stdint.h>

#define LW__NEVER INT64_MAX

enum lw__phase {
    LW__IDLE,      /* nothing in Redis, nothing in flight */
    LW__ACQUIRING, /* an acquire is in flight */
    LW__QUEUED,    /* not granted; asks again at due_us, or when told */
    LW__HELD,      /* ours until deadline_us */
    LW__EXPIRED,   /* lost on this side; given back at deadline_us, not before */
    LW__RELEASING, /* a release (or leave, or give-back: one script) is in flight or due
                    */
    LW__ENDED      /* nothing of it is left in Redis as far as can be known */
};

enum lw__event {
    LW__EV_START,          /* somebody wants the lock */
    LW__EV_LEASE_SET,      /* the try or ask goes out now, for another lease */
    LW__EV_GRANTED,        /* acquire's answer */
    LW__EV_NOT_GRANTED,    /* the plain SET NX said no, or its fence could not be used; or
                              the script did, before the release of this client's own hold */
    LW__EV_QUEUED,         /* acquire's answer */
    LW__EV_DEADLOCK,       /* acquire's answer */
    LW__EV_UNKNOWN,        /* the outcome is open, answered or not */
    LW__EV_REFUSED,        /* the server refuses for good; but the outcome is open */
    LW__EV_RELEASED,       /* release's answer */
    LW__EV_RENEWED,        /* renewal's answer */
    LW__EV_LOST_ON_SERVER, /* a renewal found the lock not ours */
    LW__EV_SHORTEN,        /* the holder wants a shorter lease, from now on */
    LW__EV_HANDED_OVER,    /* hand-over message */
    LW__EV_STANDBY,        /* standby message */
    LW__EV_RETRY_NOW, /* linked or bound now, who was first tried, or a message came that
                       is not believed */
    LW__EV_DUE,       /* due_us has come */
    LW__EV_CANCEL,    /* nobody here waits for it any more */
    LW__EV_RELEASE,   /* the holder lets go, and nobody here follows */
    LW__EV_REACQUIRE, /* the holder lets go, a fresh token asks in the same script */
    LW__EV_UNDELIVERED, /* the deadline came before the holder could be told of its grant
                         */
    LW__EV_LOST_LOCALLY /* the holder was told `lost` on this side's own account */
};

struct lw__input {
    enum lw__event event;
    bool linked; /* the link stands */
    int64_t now_us;
    int64_t sent_us;   /* of an answer, or none: when what is answered was sent */
    int64_t jitter;    /* drawn by the caller, -1000 to 1000: up to 10 % of a delay */
    int64_t margin_us; /* what the first who waits wants left of a grant */
    union {            /* by the event; those that are not here have no more to say */
        /* The largest first: an initializer that names none of them sets the first
         * alone, and what is beyond it may be anything. */
        struct {
            int64_t remaining_ms; /* -1: no TTL */
            int64_t poll_ms;      /* of who never queues: the longest sleep; else 0 */
            int64_t position;     /* -1: not queued */
            int64_t ticket;
            int64_t server_us; /* TIME in the answer */
            bool again;        /* at once: the script had more to do */
            bool asked_to_join;
            bool released; /* where it was a turn: of the previous token */
        } queued;
        struct {
            bool first_script; /* do not try SET NX first */
            bool behind; /* another one of this client tries: ASK_NOW comes after it */
        } start;
        struct {
            int64_t lease_us;
        } asked;
        struct {
            uint64_t fence;
            bool released; /* as above */
        } granted;
        struct {
            bool set_done;  /* the name is ours, but has no number */
            int64_t ticket; /* the script's: ask again, with this one; 0: none */
        } not_granted;
        struct {
            bool released; /* as above */
        } deadlock;
        struct {
            bool was_sent;
        } unknown; /* and refused */
        struct {
            int64_t holds_left; /* of this owner */
            bool released, again;
        } released;
        struct {
            int64_t lease_us;  /* that was asked for */
            int64_t wanted_us; /* that is wanted by now: one made shorter stays short */
        } renewed;
        struct {
            int64_t lease_us;
        } shorten;
        struct {
            int64_t handed_us; /* server's TIME of the hand-over */
            uint64_t fence;
            /* what is known of the server's clock; pair_server_us 0: nothing */
            int64_t pair_sent_us, pair_server_us;
        } handed;
        struct {
            int64_t window_us;
        } standby;
        struct {
            int64_t window_us; /* the fresh token's */
        } turn;
        struct {
            int64_t at_us; /* when it shall be given back */
        } lapse;
    };
};

enum lw__action {
    LW__SEND_TRY = 1,
    LW__SEND_ACQUIRE = 2, /* with the previous token to release first where `turning` */
    LW__SEND_RELEASE = 4,
    LW__DO_GRANT = 8,     /* held from now on; fence, deadline_us */
    LW__DO_BUSY = 16,     /* somebody else has it; remaining_ms */
    LW__DO_FAIL = 32,     /* those who wait end with this status */
    LW__DO_RELEASED = 64, /* the release's outcome is this status */
    LW__DO_LOST = 128,    /* the server says so */
    LW__DO_END = 256      /* phase is LW__ENDED */
};

struct lw__output {
    unsigned actions;
    int fail_status, release_status; /* an lw_error */
};

/* Written by machine.c alone, and read by whoever has it. */
struct lw__machine {
    int64_t lease_us;  /* that was asked for last */
    int64_t window_us; /* the claim window of its token */
    int64_t due_us;    /* LW__EV_DUE is wanted then; held by message: extend then */
    int64_t ticket;    /* its place, in the queue or once it joins; -1: none yet */
    union {
        int64_t handed_us;        /* ASKING: a hand-over message was noted; 0: none */
        int64_t deadline_us;      /* HELD, LAPSED: D */
        int64_t release_until_us; /* LEAVING: when a release stops being tried */
    };
    uint64_t fence;        /* of the hold; while asking, of that message */
    int64_t held_until_us; /* D of the token that is being released */
    int64_t first_sent_us; /* when the release of unknown outcome was first sent */
    enum lw__phase phase : 8;
    uint8_t failures;    /* unknown outcomes in a row, on a link that stands */
    bool released : 1;   /* an answer said that the release was done */
    bool abandoned : 1;  /* the answer awaited is wanted by nobody */
    bool ask_again : 1;  /* ask once more as soon as this answer is in */
    bool in_flight : 1;  /* while leaving: an answer is to come */
    bool uncertain : 1;  /* the release was sent before, with no answer */
    bool turning : 1;    /* the ask also releases the previous token */
    bool by_message : 1; /* held by message, not yet extended to the full lease */
    bool in_redis : 1;   /* may have the name or a place in the queue */
    bool keeps : 1; /* the lock may be ours already, and its lease runs: no waiting */
};

/* `lease_us`: what will be asked for, and how long at least a release is tried. */
void lw__machine_init(struct lw__machine *machine, int64_t window_us, int64_t lease_us);
struct lw__output lw__machine_step(struct lw__machine *machine,
                                   const struct lw__input *input);
/* Its token holds nothing yet, and nobody has let go of it: IDLE, ASKING or QUEUED. */
static inline bool lw__machine_asks(enum lw__phase phase)
{
    return phase <= LW__QUEUED;
}
/* Polling by TTL: returns the delay, in us, until a waiter polls again after this reply.
 * `position` is -1 if it is not in the queue. */
int64_t lw__machine_poll_us(int64_t remaining_ms, int64_t position, int64_t jitter);
/* The same without a queue: as soon as the lease has ended, or after up to most_ms. */
int64_t lw__machine_lease_poll_us(int64_t remaining_ms, int64_t most_ms, int64_t jitter);
/* How much earlier than the lease's end the client stops believing: 1 % and 2 ms. */
int64_t lw__machine_drift_us(int64_t span_us);
/* A grant with less than that is of no use: it shows as none. */
#define LW__LEAST_US 1000
#endif

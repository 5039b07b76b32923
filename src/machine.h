/* SPDX-License-Identifier: MIT */
/*
 * The life of one token, as a pure function: (state, input, now) -> (state, actions). It
 * owns every decision on which lock safety rests: when a grant may be believed, until
 * when, when to ask again, what to give back. It knows no clock, socket, allocation or
 * callback; libc only.
 *
 * Happy path: START -> SEND_TRY; GRANTED answer -> GRANTED; RELEASE -> SEND_RELEASE;
 * RELEASED answer -> RELEASED and ENDED.
 *
 * Waiting: START -> SEND_TRY; NOT_GRANTED -> SEND_ACQUIRE; QUEUED answer -> BUSY, sleep;
 * HANDED -> GRANTED at once if the arithmetic of the claim window allows, else
 * SEND_ACQUIRE.
 */
#ifndef LW_MACHINE_H
#define LW_MACHINE_H
#include <stdbool.h>
#include <stdint.h>

#define LW__NEVER INT64_MAX

enum lw__phase {
    LW__IDLE,    /* nothing in Redis, nothing in flight */
    LW__ASKING,  /* an acquire is in flight */
    LW__QUEUED,  /* not granted; asks again at due_us, or when told */
    LW__HELD,    /* ours until deadline_us */
    LW__LAPSED,  /* lost on this side; given back at deadline_us, not before */
    LW__LEAVING, /* a release (or leave, or give-back: one script) is in flight or due */
    LW__ENDED    /* nothing of it is left in Redis as far as can be known */
};

enum lw__event {
    LW__EV_START,       /* somebody wants the lock: first_script, behind */
    LW__EV_GRANTED,     /* acquire's answer: sent_us, fence */
    LW__EV_NOT_GRANTED, /* the plain SET NX said no, or its fence could not be used */
    LW__EV_QUEUED,      /* acquire's answer: sent_us, remaining_ms .. again */
    LW__EV_DEADLOCK,    /* acquire's answer */
    LW__EV_UNKNOWN,  /* the outcome is open, answered or not: linked, was_sent, sent_us */
    LW__EV_REFUSED,  /* the server refuses for good; but the outcome is open: was_sent */
    LW__EV_RELEASED, /* release's answer: released, holds_left, again */
    LW__EV_RENEWED,  /* sent_us, lease_us */
    LW__EV_GONE,     /* a renewal found the lock not ours */
    LW__EV_HANDED,   /* hand-over message: handed_us, fence, and what is known of the
                           server's clock: pair_sent_us, pair_server_us */
    LW__EV_STANDBY,  /* standby message: window_us */
    LW__EV_ASK_NOW,  /* the link came up or is bound, who was first tried, or a message
                        came  that cannot be believed */
    LW__EV_DUE,      /* due_us has come */
    LW__EV_ABANDON,  /* nobody here waits for it any more */
    LW__EV_RELEASE,  /* the holder lets go, and nobody here follows */
    LW__EV_TURN,     /* the holder lets go, a fresh token asks in the same script */
    LW__EV_LATE,     /* the deadline came before the holder could be told of its grant */
    LW__EV_LAPSE     /* the holder was told `lost` on this side's own account */
};

struct lw__input {
    enum lw__event event;
    int64_t now_us;
    int64_t sent_us; /* when what is answered was sent */
    uint64_t fence;
    int64_t remaining_ms; /* -1: no TTL */
    int64_t poll_ms;      /* of who never queues: ask after that at the latest; else 0 */
    int64_t position;     /* -1: not queued */
    int64_t ticket;
    int64_t server_us;                    /* TIME in the answer */
    int64_t handed_us;                    /* server's TIME of the hand-over */
    int64_t pair_sent_us, pair_server_us; /* pair_server_us 0: none of this connection */
    int64_t window_us;
    int64_t lease_us;
    int64_t jitter; /* drawn by the caller, -1000 to 1000: up to 10 % of a delay */
    int64_t holds_left;
    bool first_script; /* do not try SET NX first */
    bool behind; /* another one of this client tries: LW__EV_ASK_NOW comes after it */
    bool again, released, linked, was_sent;
    bool set_done; /* NOT_GRANTED: the name is ours, but has no number */
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

struct lw__machine {
    enum lw__phase phase;
    /* of the one in whose name it asks, set by the owner before an input */
    int64_t lease_us, margin_us, window_us;
    int64_t deadline_us; /* D, while held or lapsed */
    int64_t due_us;      /* LW__EV_DUE is wanted then; held by message: extend then */
    int64_t ticket;      /* its place, in the queue or once it joins; -1: none yet */
    int64_t handed_us;   /* a hand-over message noted while asking; 0: none */
    uint64_t handed_fence;
    uint64_t fence;
    int64_t release_until_us; /* when a release stops being tried */
    int64_t held_until_us;    /* D of the token that is being released */
    int64_t first_sent_us;    /* when the release of unknown outcome was first sent */
    bool released;            /* an answer said that the release was done */
    bool abandoned;           /* the answer awaited is wanted by nobody */
    bool ask_again;           /* ask once more as soon as this answer is in */
    bool in_flight;           /* while leaving: an answer is to come */
    bool uncertain;           /* the release was sent before, with no answer */
    bool turning;             /* the ask also releases the previous token */
    bool claims; /* the lock may be ours already, and its lease runs: it shall not wait */
    bool by_message;  /* held by message, not yet extended to the full lease */
    bool in_redis;    /* may have the name or a place in the queue */
    uint8_t failures; /* unknown outcomes in a row, on a link that stands */
};

void lw__machine_init(struct lw__machine *machine);
struct lw__output lw__machine_step(struct lw__machine *machine,
                                   const struct lw__input *input);
/* How much earlier than the lease's end the client stops believing: 1 % and 2 ms. */
int64_t lw__drift_us(int64_t span_us);
/* A grant with less than that is of no use: it shows as none. */
#define LW__LEAST_US 1000
/* TTL-based polling: when to ask again, after an answer with this remaining lease and
 * position (-1: not queued). Microseconds from now. */
int64_t lw__poll_delay_us(int64_t remaining_ms, int64_t position, int64_t jitter);
/* The same where nobody queues: as soon as the lease has ended, or after up to
 * most_ms. */
int64_t lw__poll_lease_us(int64_t remaining_ms, int64_t most_ms, int64_t jitter);
#endif

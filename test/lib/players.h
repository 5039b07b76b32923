/* SPDX-License-Identifier: MIT */
/*
 * Clients and lock handles under the labels that the trace shows. Owns every callback
 * that the library makes in a test. Each is written to the trace and checked against
 * those callback rules that can be judged there: no callback inside a call, exactly one
 * for each call, none after the handle was freed, the state that goes with it. Depends on
 * the public header alone.
 *
 * The trace's words: "A granted", "A EBUSY" (any other end of lw_acquire), "A lost
 * ELOST", "A released OK", "A renewed OK"; with .at_risk = on_risk "A at risk", "A safe";
 * with .asked_to_yield = on_asked "A asked"; "a closed"; with peer->shows_link "a up", "a
 * down".
 *
 * Usual course:
 *     struct peer *a = peer_start("a", NULL);
 *     struct hold *A = acquire_hold(a, "A", "name", 0);
 *     EXPECT("A granted");
 *     release_hold(A);
 *     EXPECT("A released OK");
 */
#ifndef TEST_PLAYERS_H
#define TEST_PLAYERS_H
#include "stage.h"

#include <lockwire.h>

#define PENDING 1000 /* no callback yet */

struct peer {
    struct peer *next;
    char label[16];
    struct lw_client *client; /* NULL once freed */
    int ups, downs;
    bool up, closed, closing, shows_link;
    char why[LW_WHY_SIZE]; /* of the last link callback */
    char whys[8192];       /* of all, one per line */
    char log[32768];       /* all messages, "<level> text", one per line */
    char error[256];       /* errbuf */
    int64_t linked_ms[64]; /* when each link callback came */
    int links;
    int64_t close_called_ms, closed_ms;
    void (*on_link)(struct peer *peer);
    void (*on_closed)(struct peer *peer);
};

enum moment { AT_RESULT, AT_LOST, AT_RELEASED, AT_RENEWED, AT_RISK, AT_ASKED };

struct hold {
    struct hold *next;
    char label[16];
    struct peer *peer;
    struct lw_lock *lock;       /* NULL once freed */
    int result, lost, released; /* PENDING, or the callback's status */
    bool releasing; /* release_hold was called, its callback has not come yet */
    int renewals;   /* calls of renew_hold whose callback has not come yet */
    int renewed;    /* status of the last one */
    bool at_risk;   /* the last state that at_risk reported */
    int warnings;   /* how often at_risk reported a risk */
    int asked;      /* calls of asked_to_yield */
    int64_t at_risk_ms, remaining_at_risk; /* of the last call */
    enum lw_mode mode;
    bool no_fence;
    uint64_t fence; /* at the grant */
    uint32_t margin_ms;
    int64_t asked_ms, result_ms, lost_ms, released_ms, renewed_ms;
    int64_t remaining_at_lost;
    void (*then)(struct hold *hold, enum moment moment); /* in the callback, at its end */
    void *aim;                                           /* for `then` */
};

extern struct peer *peers; /* of this test, latest first */
extern struct hold *holds;
extern int players_in_call; /* above 0 while a function of the API runs */

/* NULL: local_turns 1, everything else by default. The callbacks, arg, errbuf, the log
 * level and, unless given, client_name (test-<label>) are filled in. */
struct peer *peer_start(const char *label, const struct lw_client_options *options);
struct peer *peer_start_at(const char *label, const char *url,
                           const struct lw_client_options *options);
/* The same, and waits until both of its connections are up. */
struct peer *peer_ready(const char *label, const struct lw_client_options *options);
void peer_wait_ready(struct peer *peer);
/* Returns the present CLIENT ID of its command or subscription link, from CLIENT LIST, or
 * 0. */
long long peer_link_id(const struct peer *peer, bool subscription);
/* Calls lw_client_close; the trace will show "<label> closed". */
void peer_close(struct peer *peer);
/* Calls lw_client_free, without a line in the trace; handles remain, inert. */
void peer_free(struct peer *peer);
struct lw_stats peer_stats(const struct peer *peer);
/* Returns whether, and how often, a message with this text was logged. */
bool peer_logged(const struct peer *peer, const char *text);
int peer_count_logged(const struct peer *peer, const char *text);

/* Calls lw_acquire, which must accept; `acquire_hold` with the defaults and this wait_ms.
 */
struct hold *acquire_hold(struct peer *peer, const char *label, const char *name,
                          int64_t wait_ms);
struct hold *acquire_hold_with(struct peer *peer, const char *label, const char *name,
                               const struct lw_acquire_options *options);
/* Calls lw_acquire, which must refuse with `error`; errbuf must contain `text`. */
void acquire_refused(struct peer *peer, const char *name,
                     const struct lw_acquire_options *options, int error,
                     const char *text);
/* Calls `acquire_hold`, and waits for the grant. */
struct hold *acquire_and_wait(struct peer *peer, const char *label, const char *name);
/* Waits until the queue in Redis has so many members: the requests are no longer under
 * way. */
void wait_queued(const char *name, long long members);

void release_hold(struct hold *hold); /* lw_release, accepted */
void release_refused(struct hold *hold, int error);
/* Calls lw_detach, which must accept ("A detached OK"), or refuse with `text` in
 * errbuf. */
void detach_hold(struct hold *hold, int64_t keep_ms);
void detach_refused(struct hold *hold, int64_t keep_ms, int error, const char *text);
/* Calls lw_adopt, which must accept or refuse; NULL: the default options. */
struct hold *adopt_hold(struct peer *peer, const char *label, const char *name,
                        const char *token, const struct lw_acquire_options *options);
void adopt_refused(struct peer *peer, const char *name, const char *token,
                   const struct lw_acquire_options *options, int error, const char *text);
void renew_hold(struct hold *hold, uint32_t lease_ms); /* lw_renew, accepted */
void renew_refused(struct hold *hold, uint32_t lease_ms, int error);
void free_hold(struct hold *hold); /* lw_lock_free */

/* Frees all handles and clients now, without a line in the trace, as at the end of a test
 * that failed. */
void players_leave(void);

/* For an acquisition's `at_risk`. */
void on_risk(struct lw_lock *lock, int at_risk, int64_t remaining_ms, void *arg);

/* For a client's `asked_to_yield`. */
void on_asked(struct lw_lock *lock, void *arg);

/* LW_ACQUIRE_OPTIONS with a few fields: asking(.wait_ms = -1, .lease_ms = 1000). */
#define asking(...)                                                                      \
    (&(struct lw_acquire_options){.size = sizeof(struct lw_acquire_options), __VA_ARGS__})
#define client_of(...)                                                                   \
    (&(struct lw_client_options){.size = sizeof(struct lw_client_options), __VA_ARGS__})

/* "OK", "EBUSY" ... */
const char *status_name(int status);
/* Returns the key of a name, and the queue's of a name without a hash tag. Both begin
 * with stage.prefix. */
const char *key_of(const char *name);
const char *queue_of(const char *name);

/* Checks with the server what a held handle promises at any moment. */
void assert_held_by_redis(const struct hold *hold);
/* Checks that the client can acquire "x", as seen in Redis, and release it; clears the
 * trace. */
void works(struct peer *peer);

#endif

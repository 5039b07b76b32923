/* SPDX-License-Identifier: MIT */
/* A quorum, and a claim's votes: the structs that the files of src/quorum share, then
 * the functions that each file offers. */
#ifndef LW_QUORUM_PRIVATE_H
#define LW_QUORUM_PRIVATE_H
#include "lock/lock_private.h"

#include "loop/loop.h"
#include "redis/node.h"
#include "redis/route.h"

#include <utlist.h>

#define LW__QUORUM_FENCES 16 /* that a script draws */

/* One server of a quorum. */
struct lw__quorum_member {
    struct lw__holds holds; /* their claims are votes (struct lw__ballot) */
    /* quorum.c */
    struct lw_client *client;
    struct lw__log log;
    struct lw__identity identity;
    int error;                      /* the class of its last failure; LW_OK: none */
    char server[LW__HOST_SIZE + 8]; /* host:port as in the URL */

    struct lw__clock_pair clock; /* ask.c: of its fastest request lately */
};

struct lw__quorum {
    /* quorum.c */
    unsigned count, majority;
    bool up; /* a majority is connected */
    char why[LW_WHY_SIZE];
    /* The quorum came up or went down, or failed to come up, as `up` and `why` say. */
    void (*changed)(struct lw_client *client, bool was_up);

    struct lw__votes *changed_votes; /* to be counted */
    struct lw__deferred count_call;  /* votes.c */

    int64_t round_trip_us; /* ask.c: of a request, on average */
    int64_t last_ticket;   /* ask.c */

    struct lw__quorum_member members[];
};

/* A claim at one server. The vote that it is for forgets it when it has ended, or before:
 * it then goes on by itself until its token is in Redis no longer. */
struct lw__ballot {
    struct lw__claim claim;
    struct lw__vote *vote; /* ask.c; or NULL */
};

/* What one server replies to the requests of a claim. */
struct lw__vote {
    struct lw__votes *votes; /* votes.c */
    struct lw__quorum_member *member;

    /* ask.c */
    struct lw__claim *claim; /* a ballot; NULL: not asked, or not any longer */
    int64_t asked_us;        /* 0: answered since */
    int64_t again_us;        /* not to be asked before */
    char *why;               /* its last error; or NULL */
    int error;               /* the class of that; LW_OK: it was asked again since */
    int64_t remaining_ms;    /* of the holder's lease, if it was busy once */
    int renewed;             /* status of the last renewal that was asked for */
    bool renewing;           /* such a renewal is not answered yet */
    bool waits;              /* the request may wait in the queue */
    bool held;               /* until its deadline */
    bool busy;               /* as last answered, another owner holds it */
    bool gone;               /* the server reports that it was lost */
    bool tried;              /* without waiting, since the claim requested last */
    bool lapsed;             /* it was lost since the claim requested, or renewed, last */
    int released;            /* LW__PENDING, or the status of its release */

    /* fence.c */
    struct lw__command raise; /* of the fence counter */
    uint64_t raising_to;
    struct lw__token token; /* of that */
    uint64_t raised_to;     /* the counter is not below this while the vote is held */
};
#define LW__PENDING 1000 /* no lw_error */

struct lw__votes {
    struct lw__claim *claim;       /* votes.c */
    struct lw__quorum *quorum;     /* votes.c */
    struct lw__votes *next, *prev; /* of quorum->changed_votes */
    struct lw__timer timer;
    bool is_changed;

    /* votes.c */
    uint64_t floor; /* numbers below it were used by this claim */
    bool asks;      /* votes are wanted */
    bool renewing;  /* the claim waits for `renewed` */

    /* ask.c */
    struct lw__terms wanted; /* of each vote */
    int64_t ticket;
    int64_t news_us;     /* when the last vote was granted */
    int64_t minority_us; /* since when a minority is held; 0: none */
    int64_t yield_us;    /* without news, until the next yield */
    int64_t paused_until_us;
    unsigned yields; /* of a minority, since the last grant */

    struct lw__vote vote[];
};

/* Valid until the client ends. */
static inline struct lw__node *lw__member_node(const struct lw__quorum_member *member)
{
    return lw__route_node(member->holds.route, 0);
}

static inline bool lw__member_is_up(const struct lw__quorum_member *member)
{
    return member->holds.route != NULL && lw__node_is_up(lw__member_node(member));
}

static inline int64_t lw__vote_deadline_us(const struct lw__vote *vote)
{
    return vote->claim->machine.deadline_us;
}

static inline bool lw__vote_is_live(const struct lw__vote *vote)
{
    return vote->held && lw__vote_deadline_us(vote) - lw__now_us() > LW__LEAST_US;
}

static inline const struct lw_lock *lw__claim_first_handle(const struct lw__claim *claim)
{
    return lw__handles(claim)->holder != NULL ? lw__handles(claim)->holder
                                              : lw__handles(claim)->waiting;
}

/* Has the votes counted, later in this turn of the loop. */
static inline void lw__votes_changed(struct lw__votes *votes)
{
    struct lw__quorum *quorum = votes->quorum;

    if (!votes->is_changed) {
        votes->is_changed = true;
        DL_APPEND(quorum->changed_votes, votes);
    }
    lw__defer(votes->claim->holds->loop, &quorum->count_call, false);
}

/* They are about to be counted, or freed. */
static inline void lw__votes_unchanged(struct lw__votes *votes)
{
    if (votes->is_changed) {
        votes->is_changed = false;
        DL_DELETE(votes->quorum->changed_votes, votes);
    }
}

/* At that time at the latest. */
static inline void lw__votes_count_at(struct lw__votes *votes, int64_t at_us)
{
    struct lw__loop *loop = votes->claim->holds->loop;

    if (at_us < lw__timer_due_us(loop, &votes->timer)) {
        lw__timer_set(loop, &votes->timer, at_us);
    }
}

/* ---- votes.c ---- */

/* Starts to connect to the members of the client's quorum. Returns 0, or LW_ENOMEM. */
int lw__quorum_votes_start(struct lw_client *client);

/* ---- ask.c ---- */

/* The events of a member's claims. */
extern const struct lw__claim_events lw__quorum_ask_events;
/* The claim requests votes: all servers are asked, or asked again. */
void lw__quorum_ask_anew(struct lw__votes *votes);
/* Asks each server that has not been asked, or whose vote was lost. */
void lw__quorum_ask_all(struct lw__votes *votes);
/* Releases the vote, or leaves the queue, in the background. */
void lw__quorum_ask_drop(struct lw__vote *vote);
/* Forgets votes whose deadline has come. */
void lw__quorum_ask_drop_expired(struct lw__votes *votes);
/* Releases the vote, or leaves the queue, for a claim that waits for the outcome
 * (vote->released). */
void lw__quorum_ask_release(struct lw__vote *vote);
/* The vote has no claim any longer. Nothing is sent. If its release was waited for, the
 * outcome is LW_EUNKNOWN. */
void lw__quorum_ask_forget(struct lw__vote *vote);
/* Frees what the votes have allocated. */
void lw__quorum_ask_clear(struct lw__votes *votes);
/* Renews all votes with this lease. Returns false if none can be renewed. */
bool lw__quorum_ask_renew(struct lw__votes *votes, uint32_t lease_ms);
/* The votes have the lease, the margin and the flags of the holder, or of the first
 * waiter, which may have changed. */
void lw__quorum_ask_match(struct lw__claim *claim);
/* A minority is held. Releases it if it was held for long enough. `others`: another
 * client has other servers. */
void lw__quorum_ask_minority(struct lw__votes *votes, bool others);
/* No vote is held. */
void lw__quorum_ask_none(struct lw__votes *votes);
/* The claim was granted. */
void lw__quorum_ask_granted(struct lw__votes *votes);

/* ---- fence.c ---- */

/* Returns the first number of a grant: the votes of a majority drew no larger one. `held`
 * votes are live, as many as a majority or more. */
uint64_t lw__quorum_fence_choose(const struct lw__votes *votes);
/* Counts the live votes whose counters are not below `number`, and has the others raise
 * theirs to `raise_to`. Returns the deadline until which a majority of the counted ones
 * is held; 0 if fewer are counted. Stores in `last` the number below which no counter of
 * such a majority is. */
int64_t lw__quorum_fence_agree(struct lw__votes *votes, uint64_t number,
                               uint64_t raise_to, uint64_t *last);
/* Forgets the command in flight: the vote has no claim any longer. */
void lw__quorum_fence_forget(struct lw__vote *vote);

/* ---- quorum.c ---- */

/* Allocates the quorum of a client with such a URL. Returns 0, or LW_ENOMEM. */
int lw__quorum_new(struct lw_client *client,
                   void (*changed)(struct lw_client *client, bool was_up));
/* Starts to connect to the members, whose claims have these events. Returns 0, or
 * LW_ENOMEM. */
int lw__quorum_start(struct lw_client *client, const struct lw__claim_events *events);
/* The client closes. */
void lw__quorum_close(struct lw__quorum *quorum);
/* Frees the members' claims, which no vote has any longer, and the connections. Nothing
 * is sent. */
void lw__quorum_end(struct lw__quorum *quorum);
/* Returns true if no vote is left, and nothing is to be sent. */
bool lw__quorum_is_drained(const struct lw__quorum *quorum);
void lw__quorum_free(struct lw_client *client);
/* Returns why the quorum is not up now, with each server; "" if it is up. */
const char *lw__quorum_reason(struct lw__quorum *quorum);
/* Returns the class of quorum->why. */
int lw__quorum_error(const struct lw__quorum *quorum);
/* Writes each server with its reason; NULL or "": it has not been asked. */
void lw__quorum_list(const struct lw__quorum *quorum,
                     const char *const why[LW__QUORUM_MOST], char ret[LW_WHY_SIZE]);
/* Fills in what depends on a majority: its subscriptions and its guard. */
void lw__quorum_fill_stats(const struct lw__quorum *quorum, struct lw_stats *stats);

/* Compares two uint64_t, for qsort. */
int lw__quorum_compare(const void *a, const void *b);
#endif

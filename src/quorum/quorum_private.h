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

/* One server of a quorum, and the client that uses it. */
struct lw__quorum_member {
    struct lw_client *client; /* NULL: it could not be made */
    struct lw_client *whole;  /* the quorum's client */
    unsigned index;
    char server[LW__HOST_SIZE + 8]; /* host:port as in the URL */
    struct lw__clock_pair clock;    /* ask.c: of its fastest request lately */
};

struct lw__quorum {
    /* quorum.c */
    struct lw__quorum_member members[LW__QUORUM_MOST];
    unsigned count, majority;
    bool up; /* a majority is connected */
    char why[LW_WHY_SIZE];

    struct lw__votes *changed; /* to be counted */
    /* votes.c */
    struct lw__claim_events member_events; /* those of turns.c, and what votes need */
    struct lw__deferred count_call;

    int64_t round_trip_us; /* ask.c: of a request, on average */
    int64_t last_ticket;   /* ask.c */
};

struct lw__vote {
    struct lw__votes *votes;
    struct lw__quorum_member *member;
    struct lw_lock *lock;     /* NULL: not asked */
    struct lw__command raise; /* of the fence counter */
    uint64_t raising_to;
    struct lw__token token; /* of that */
    uint64_t first;         /* the first number that it drew */
    uint64_t last;          /* the counter is not below this while the vote is held */
    int64_t asked_us;       /* 0: answered since */
    int64_t again_us;       /* not to be asked before */
    char *why;              /* it failed; or NULL */
    int error;
    int64_t remaining_ms; /* of the holder's lease, if it was busy once */
    int released;         /* PENDING, or the status of its release */
    unsigned renewals;    /* pending calls of lw_renew */
    int renewed;          /* status of the last one */
    bool held; /* until its deadline, also if it was lost a margin before that */
    bool lost;
    bool busy;   /* as last answered, another owner holds it */
    bool gone;   /* the server reports that it was lost */
    bool tried;  /* without waiting, since the claim requested last */
    bool lapsed; /* it was lost since the claim requested, or renewed, last */
};

struct lw__votes {
    struct lw__claim *claim;
    struct lw__votes *next, *prev; /* of quorum->changed */
    struct lw__timer timer;
    int64_t ticket;
    int64_t news_us;     /* when the last vote was granted */
    int64_t minority_us; /* since when a minority is held; 0: none */
    int64_t yield_us;    /* without news, until the next yield */
    int64_t paused_until_us;
    uint64_t floor; /* numbers below it were used by this claim */
    unsigned yields;
    unsigned minority;       /* the votes that the last yield released, a bit each */
    unsigned yields_in_vain; /* after which the same ones were held again */
    bool is_changed;
    bool asks;     /* votes are wanted */
    bool renewing; /* the claim waits for `renewed` */
    struct lw__vote vote[];
};

static inline struct lw__quorum *lw__votes_quorum(const struct lw__votes *votes)
{
    return lw__client_of(votes->claim)->quorum;
}

static inline unsigned lw__votes_count(const struct lw__votes *votes)
{
    return lw__votes_quorum(votes)->count;
}

static inline unsigned lw__votes_majority(const struct lw__votes *votes)
{
    return lw__votes_quorum(votes)->majority;
}

static inline struct lw__node *lw__vote_node(const struct lw__vote *vote)
{
    return lw__route_node(vote->member->client->route, 0);
}

/* After its close a member has no node. */
static inline bool lw__vote_is_up(const struct lw__vote *vote)
{
    return vote->member->client->route != NULL && lw__node_is_up(lw__vote_node(vote));
}

static inline int64_t lw__vote_deadline_us(const struct lw__vote *vote)
{
    return lw__handle_deadline_us(vote->lock);
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
    struct lw__quorum *quorum = lw__votes_quorum(votes);

    if (!votes->is_changed) {
        votes->is_changed = true;
        DL_APPEND(quorum->changed, votes);
    }
    lw__defer(votes->claim->holds->loop, &quorum->count_call, false);
}

/* They are about to be counted, or freed. */
static inline void lw__votes_unchanged(struct lw__votes *votes)
{
    if (votes->is_changed) {
        votes->is_changed = false;
        DL_DELETE(lw__votes_quorum(votes)->changed, votes);
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

extern const struct lw__vote_ops lw__quorum_votes_ops;
void lw__quorum_votes_init(struct lw_client *client);
/* Forgets the commands in flight: the members' clients are about to be freed. */
void lw__quorum_votes_forget(struct lw_client *client);

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

/* ---- ask.c ---- */

/* Asks each server that has not been asked, or whose vote was lost. */
void lw__quorum_ask_all(struct lw__votes *votes);
/* Releases the vote, or leaves the queue, in the background. */
void lw__quorum_ask_drop(struct lw__vote *vote);
/* Forgets votes that were lost, and whose deadline has come: Redis has none of them. */
void lw__quorum_ask_drop_lost(struct lw__votes *votes);
void lw__quorum_ask_forget_error(struct lw__vote *vote);
/* The server has answered: notes how long it took. */
void lw__quorum_ask_answered(struct lw__vote *vote);
/* Renews with this lease from now on. Returns false if the vote cannot be renewed. */
bool lw__quorum_ask_renew(struct lw__vote *vote, uint32_t lease_ms);
/* The votes have the lease, the margin and the flags of the holder, or of the first
 * waiter, which may have changed. */
void lw__quorum_ask_match(struct lw__claim *claim);
/* A minority is held. Releases it if it was held for long enough. `others`: another
 * client has other servers. */
void lw__quorum_ask_minority(struct lw__votes *votes, bool others);

/* ---- quorum.c ---- */

/* Allocates the quorum of a client with such a URL, without its members' clients. Returns
 * 0, or LW_ENOMEM. */
int lw__quorum_new(struct lw_client *client);
void lw__quorum_free(struct lw_client *client);
/* Fills in the options of a member's client, and its URL; the caller frees that. Returns
 * NULL if memory is short. */
char *lw__quorum_describe(struct lw__quorum_member *member,
                          struct lw_client_options *ret);
/* Chooses the id of a member's client. */
void lw__quorum_identify(const struct lw__quorum_member *member, char ret[LW__UUID_SIZE]);
/* A member's node came up. Returns false if the server cannot be a member: its link is
 * ended with the reason. */
bool lw__quorum_admit(struct lw__quorum_member *member, struct lw__node *node);
/* A member came up or went down, or failed to come up. Sets whether the quorum is up, and
 * why it is not. Returns true if that is to be reported. */
bool lw__quorum_note(struct lw_client *client);
/* Returns why the quorum is not up now, with each server; "" if it is up. */
const char *lw__quorum_reason(struct lw__quorum *quorum);
/* Returns the class of quorum->why. */
int lw__quorum_error(const struct lw__quorum *quorum);
/* Writes each server with its reason; NULL or "": it has not been asked. */
void lw__quorum_list(const struct lw__quorum *quorum,
                     const char *const why[LW__QUORUM_MOST], char ret[LW_WHY_SIZE]);
/* Adds what the members' clients have counted, `each` by itself. */
void lw__quorum_add_stats(const struct lw__quorum *quorum, const struct lw_stats *each,
                          struct lw_stats *stats);

/* Compares two uint64_t, for qsort. */
int lw__quorum_compare(const void *a, const void *b);
#endif

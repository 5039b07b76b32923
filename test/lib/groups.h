/* SPDX-License-Identifier: MIT */
/*
 * Locks of lw_acquire_all under the labels that the trace shows, and a crowd of clients
 * that acquire random sets. Owns their callbacks, which check the rules that each
 * must keep: none inside a call, none after lw_all_free, one result, `lost` once and only
 * while held. Depends on the public header alone.
 *
 * The trace's words: "G granted", "G EBUSY" (any other result), "G lost ELOST",
 * "G released OK", "G at risk", "G safe".
 *
 * A test calls group_ask(peer, "G", options, "x y z"), EXPECT("G granted"),
 * group_release(G), EXPECT("G released OK").
 */
#ifndef TEST_GROUPS_H
#define TEST_GROUPS_H
#include "players.h"

#define GROUP_MOST 16

struct group {
    struct group *next;
    char label[16];
    struct peer *peer;
    struct lw_all *all; /* NULL once freed */
    int count;
    char names[GROUP_MOST][24]; /* in the order of the call */
    int result, lost, released; /* PENDING, or the status of the callback */
    bool releasing;             /* lw_all_release was accepted */
    int64_t asked_ms, result_ms, lost_ms;
    void (*then)(struct group *group, enum moment moment); /* last in each callback */
};

/* Calls lw_acquire_all, which must accept; `names` are separated by blanks. at_risk is
 * filled in if at_risk_ms is given. */
struct group *group_ask(struct peer *peer, const char *label,
                        const struct lw_acquire_options *options, const char *names);
/* The same, and waits for the grant. */
struct group *group_take(struct peer *peer, const char *label, const char *names);
/* Calls lw_acquire_all, which must refuse with `error`; errbuf must contain `text`. */
void group_refused(struct peer *peer, const char *const *names, size_t count,
                   const struct lw_acquire_options *options, int error, const char *text);
void group_release(struct group *group); /* accepted */
void group_free(struct group *group);
/* Fails unless all names are held, each with a fencing token, also according to Redis. */
void group_assert_held(const struct group *group);

/* ---- a crowd ---- */

struct crowd {
    const char *url;
    unsigned seed;
    int clients;       /* 2 to 8, each with two actors that acquire sets and one that
                          acquires single names */
    int grants;        /* ends after so many, 0: when `disturb` returns false */
    uint32_t lease_ms; /* of all */
    bool kills;        /* clients are freed without warning, and replaced */
    bool overlaps;     /* keys get lost: two holders of a name are counted, not refused,
                          and fencing tokens need not grow */
    bool elsewhere;    /* names are not on the stage's server: their end is not checked */
    /* Called every few milliseconds, or NULL. Returns false when it has finished. */
    bool (*disturb)(void);
    /* Results. */
    int granted, ended, lost, overlapped;
    int64_t longest_ms; /* from a call to its result */
};

/* Runs the crowd until the end: every acquisition has a result, no name is held by two,
 * fencing tokens of each name grow, and in the end no key of a name is left. A standstill
 * of STAGE_WAIT_MS fails the test as a deadlock. */
void crowd_run(struct crowd *wanted);

#endif

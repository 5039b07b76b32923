/* SPDX-License-Identifier: MIT */
/* Between sentinel.c and its parts alone. */
#ifndef LW_SENTINEL_INSIDE_H
#define LW_SENTINEL_INSIDE_H
#include "base/told.h"
#include "redis/sentinel.h"
#include "redis/sentinel_says.h"
#include "redis/session.h"

#include <stdbool.h>

/* ---- sentinel_ask.c: one of them, to be asked ---- */

struct lw__sentinel;

struct lw__sentinel_events {
    /* What it says has come, or it is known that nothing will. */
    void (*heard)(void *arg, struct lw__sentinel *sentinel);
    /* It knows this one, too. */
    void (*other)(void *arg, const struct lw__place *place);
};

struct lw__sentinel {
    struct lw__sentinel *next;
    const struct lw__sentinel_events *events;
    void *arg;
    const char *service;
    struct lw__place place;
    struct lw__access access; /* leads to it */
    struct lw__session session;
    struct lw__request master_request, others_request;
    bool open;              /* it was asked, and is still to be heard */
    bool stale;             /* what comes next answers an earlier question */
    bool useful;            /* what it said last is `said`, else why not is `why` */
    bool useless_told;      /* since it was useful */
    bool learnt;            /* from another one */
    struct lw__master said; /* when it was useful last: */
    int64_t said_us;
    char why[LW__WHY];
};

/* As the access says, but to this place. NULL: no memory. */
struct lw__sentinel *lw__sentinel_ask_new(const struct lw__access *access,
                                          const char *service,
                                          const struct lw__place *place,
                                          const struct lw__sentinel_events *events,
                                          void *arg);
void lw__sentinel_ask_free(struct lw__sentinel *sentinel);
void lw__sentinel_ask_abandon(struct lw__sentinel *sentinel);
/* Connects if it has to, without a further delay; `heard` follows. */
void lw__sentinel_ask(struct lw__sentinel *sentinel);
/* An answer that is on its way is to none of the questions that follow. */
void lw__sentinel_ask_forget(struct lw__sentinel *sentinel);
/* Who else is there? Asked in vain where it is not connected. */
void lw__sentinel_ask_others(struct lw__sentinel *sentinel);
bool lw__sentinel_ask_stands(const struct lw__sentinel *sentinel);
/* Whether that is where it is, by the name given or the address found. */
bool lw__sentinel_ask_is_at(const struct lw__sentinel *sentinel,
                            const struct lw__place *place);

/* ---- sentinel_believe.c: which of them is to be believed ---- */

/* Whether `a` tells of a later configuration than `b`. */
bool lw__sentinel_is_later(const struct lw__master *a, const struct lw__master *b);
/* Of those who are of use and were heard: the one of the highest epoch; of several, one
 * that does not say down, and rather what is followed. It may say down all the same.
 * NULL: there is none. */
struct lw__sentinel *lw__sentinel_believe(struct lw__sentinel *all,
                                          const struct lw__master *followed);
/* Whether more than half of them, or of those listed, are of use and were heard. */
bool lw__sentinel_believe_most(const struct lw__sentinel *all, bool learnt_too);
/* Whether one of them is still to be heard. */
bool lw__sentinel_believe_waits(const struct lw__sentinel *all);
/* Some are: those may be told of again. */
void lw__sentinel_believe_some(struct lw__sentinel *all);
/* None is: what each of them said, in short, and through the log, there once until it is
 * of use again. */
void lw__sentinel_believe_none(struct lw__sentinel *all, char *why, size_t size);

/* ---- sentinel_follow.c: a switch is told by one of them ---- */

struct lw__follow_events {
    /* From here on switches are told; earlier ones may have been missed. */
    void (*following)(void *arg);
    void (*switched)(void *arg, const struct lw__place *to);
    /* The one that told is gone: who is next? NULL: the same. */
    const struct lw__place *(*next)(void *arg, const struct lw__place *place);
};

struct lw__follow {
    const struct lw__follow_events *events;
    void *arg;
    const char *service;
    struct lw__place place;
    struct lw__access access; /* leads there */
    struct lw__session session;
    bool following, forbidden_told;
    unsigned waits, pause; /* starts passed over: still, and after the last refusal */
};

/* Room for a timer must have been reserved. Starts nothing. */
void lw__sentinel_follow_init(struct lw__follow *follow, const struct lw__access *access,
                              const char *service, const struct lw__follow_events *events,
                              void *arg);
/* At that place, unless it is done already, here or elsewhere. */
void lw__sentinel_follow_start(struct lw__follow *follow, const struct lw__place *place);
/* Subscribes once more, so that a connection that is dead shows. */
void lw__sentinel_follow_heartbeat(struct lw__follow *follow);
/* That sentinel is of no use any more. */
void lw__sentinel_follow_leave(struct lw__follow *follow, const char *why);
#endif

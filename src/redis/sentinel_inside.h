/* SPDX-License-Identifier: MIT */
/* Between sentinel.c and its parts alone. */
#ifndef LW_SENTINEL_INSIDE_H
#define LW_SENTINEL_INSIDE_H
#include "base/escape.h"
#include "redis/sentinel.h"
#include "redis/sentinel_parse.h"
#include "redis/session.h"

#include <stdbool.h>

/* ---- sentinel_follow.c: one of them, that tells of switches ---- */

struct lw__follow_events {
    /* From here on switches are told; earlier ones may have been missed. */
    void (*following)(void *arg);
    void (*switched)(void *arg, const struct lw__endpoint *from,
                     const struct lw__endpoint *to);
};

struct lw__follow {
    const struct lw__follow_events *events;
    void *arg;
    const char *service;
    const struct lw__session_config *config; /* leads to it */
    struct lw__session session;
    bool following, forbidden_told;
    unsigned waits, pause; /* starts passed over: still, and after the last refusal */
};

/* Starts nothing. 0, LW_ENOMEM. */
int lw__sentinel_follow_open(struct lw__follow *follow,
                             const struct lw__session_config *config, const char *service,
                             const struct lw__follow_events *events, void *arg);
void lw__sentinel_follow_close(struct lw__follow *follow);
/* Unless it is done already. */
void lw__sentinel_follow_start(struct lw__follow *follow);
/* Ends the subscription until it is started again. */
void lw__sentinel_follow_stop(struct lw__follow *follow);
/* Subscribes once more, so that a connection that is dead shows. */
void lw__sentinel_follow_heartbeat(struct lw__follow *follow);

/* ---- sentinel_ask.c: one of them, to be asked ---- */

struct lw__sentinel;

struct lw__sentinel_events {
    /* What it says has come, or it is known that nothing will. */
    void (*heard)(void *arg, struct lw__sentinel *sentinel);
    /* The reply to SENTINEL SENTINELS: `by` names these sentinels. */
    void (*others)(void *arg, struct lw__sentinel *by, const struct lw__reply *reply);
};

/* ---- sentinel_master.c: a connection to a master that is claimed ---- */

struct lw__probe {
    /* The server says these two of itself: see lw__session. */
    void (*answered)(void *arg, const char *replication_id,
                     const char *former_replication_id);
    /* An attempt failed. The next one follows after a backoff. */
    void (*delayed)(void *arg);
    void *arg;
    struct lw__session_config config;
    struct lw__session session;
    struct lw__endpoint place;
    bool open;  /* from the start until `answered` or the stop */
    bool first; /* open, and no attempt has failed yet */
};

/* Prepares a probe, whose two events the caller sets; connects to nothing. `servers` says
 * how connections to the servers are made. Returns 0, or LW_ENOMEM. */
int lw__sentinel_master_probe_open(struct lw__probe *probe,
                                   const struct lw__session_config *servers, void *arg);
void lw__sentinel_master_probe_close(struct lw__probe *probe);
void lw__sentinel_master_probe_start(struct lw__probe *probe,
                                     const struct lw__endpoint *place);
void lw__sentinel_master_probe_stop(struct lw__probe *probe);

struct lw__sentinel {
    struct lw__sentinel *next;
    const struct lw__sentinel_events *events;
    void *arg;
    const char *service;
    struct lw__endpoint place;
    struct lw__session_config config; /* leads to it */
    struct lw__session session;
    struct lw__follow follow; /* the set's to open and to close */
    struct lw__request master_request, others_request;
    bool open;         /* it was asked, and is still to be heard */
    bool stale;        /* what comes next answers an earlier question */
    bool useful;       /* what it said last is `said`, else why not is `why` */
    bool useless_told; /* since it was useful */
    bool learnt;       /* from a listed one */
    unsigned number;   /* of a listed one: its place in the URL */
    unsigned named;    /* of a learnt one: a bit for each listed one that names it */
    char id[LW__SENTINEL_ID_SIZE]; /* of a learnt one: what SENTINEL MYID must return */
    /* Rounds in which a learnt one that did not prove its id is not connected to: those
     * that are left, and as many as there were after the last failure. */
    unsigned waits, pause;
    struct lw__probe probe;             /* of a learnt one: of the master that it names */
    struct lw__sentinel_answer refuted; /* the last claim that it refuted; or no host */
    struct lw__sentinel_answer said;    /* when it was useful last: */
    int64_t said_us;
    char why[LW__WHY_MAX];
    int status; /* the class of that: struct lw__failure */
};

/* Makes a sentinel at this place, connected to as the config says. `id`: what it must
 * prove to be, or NULL if it is listed. Returns NULL if there is no memory. */
struct lw__sentinel *lw__sentinel_ask_new(const struct lw__session_config *config,
                                          const char *service,
                                          const struct lw__endpoint *place,
                                          const char *id,
                                          const struct lw__sentinel_events *events,
                                          void *arg);
void lw__sentinel_ask_free(struct lw__sentinel *sentinel);
/* Connects if it has to, without a further delay; `heard` follows. */
void lw__sentinel_ask(struct lw__sentinel *sentinel);
/* An answer that is on its way is to none of the questions that follow. */
void lw__sentinel_ask_forget(struct lw__sentinel *sentinel);
/* Who else is there? Asked in vain where it is not connected. */
void lw__sentinel_ask_others(struct lw__sentinel *sentinel);
bool lw__sentinel_ask_stands(const struct lw__sentinel *sentinel);
/* Whether that is where it is, by the name given or the address found. */
bool lw__sentinel_ask_is_at(const struct lw__sentinel *sentinel,
                            const struct lw__endpoint *place);

/* ---- sentinel_believe.c: which of them is to be believed ---- */

/* Whether `a` tells of a later configuration than `b`. */
bool lw__sentinel_is_later(const struct lw__sentinel_answer *a,
                           const struct lw__sentinel_answer *b);
/* Returns the sentinel with the highest config-epoch among those that gave a usable
 * answer and count: all listed ones, and the learnt ones that name the master that is
 * followed. Ties prefer a master that is not flagged down, then the one being followed.
 * The result may still be flagged down. Returns NULL if there is none. */
struct lw__sentinel *lw__sentinel_believe(struct lw__sentinel *all,
                                          const struct lw__sentinel_answer *followed);
/* Whether more than half of them, or of those listed, are of use and were heard. */
bool lw__sentinel_believe_most(const struct lw__sentinel *all, bool learnt_too);
/* Whether one of them is still to be heard. */
bool lw__sentinel_believe_waits(const struct lw__sentinel *all);
/* Some are: those may be told of again. */
void lw__sentinel_believe_some(struct lw__sentinel *all);
/* None is: what each of them said, in short, and through the log, there once until it is
 * of use again. Returns the class of it all: lw__session_combine_status. */
int lw__sentinel_believe_none(struct lw__sentinel *all, char *why, size_t size);

/* ---- sentinel_master.c: whom to follow ---- */

struct lw__followed {
    struct lw__sentinel_answer master; /* no host: none yet */
    int64_t told_epoch;                /* the highest that was told of it; -1: none was */
    int64_t since_us;                  /* the master, if that is known */
    bool since_known;
    int doubts; /* rounds in a row in which most named another place, of no later epoch */
    bool unconvinced_told; /* of this one */
    /* From the last reply of its server, at a connection or a heartbeat; "" if unknown.
     */
    char replication_id[LW__RUN_ID_SIZE];
};

bool lw__sentinel_master_known(const struct lw__followed *followed);
bool lw__sentinel_master_is(const struct lw__followed *followed,
                            const struct lw__endpoint *place);
/* Whether to follow what is said by one of them; `stands`: a connection to whom is
 * followed would be left for it. */
bool lw__sentinel_master_convinces(struct lw__followed *followed,
                                   const struct lw__sentinel_answer *said,
                                   const struct lw__sentinel *all, bool stands);
/* Records what a server at that place says of itself, if it is the one being followed. */
void lw__sentinel_master_note(struct lw__followed *followed, const char *host,
                              uint16_t port, const char *replication_id);
/* Returns true if a server with these ids is the one being followed, or was its replica
 * until it became a master. */
bool lw__sentinel_master_is_kin(const struct lw__followed *followed,
                                const char *replication_id,
                                const char *former_replication_id);
/* Returns true if what this learnt sentinel said last would have another master followed,
 * but has to be proved first, and can be. */
bool lw__sentinel_master_is_claim(const struct lw__followed *followed,
                                  const struct lw__sentinel *sentinel);
/* Records that its probe has shown this claim to be false. */
void lw__sentinel_master_refute(const struct lw__followed *followed,
                                struct lw__sentinel *sentinel);
/* It is not followed, and whoever wants the way is led to whom that was known to be last:
 * told through the log, once until there is another. */
void lw__sentinel_master_tell_unconvinced(struct lw__followed *followed,
                                          const struct lw__log *log,
                                          const struct lw__endpoint *named);
/* It is followed from now on; `told_epoch`: as it was told of it, -1: that may be another
 * one's. Whether whoever was led to the one before has to leave, and why. */
bool lw__sentinel_master_take(struct lw__followed *followed,
                              const struct lw__sentinel_answer *said, int64_t told_epoch,
                              int64_t now_us, char why[LW__WHY_MAX]);
/* For how long it has been the master; -1: nobody says so. */
int64_t lw__sentinel_master_for_ms(const struct lw__followed *followed, int64_t now_us);

/* ---- sentinel_ways.c: who is led ---- */

/* Unless it is known already. */
void lw__sentinel_ways_know(struct lw__way **ways, struct lw__way *way);
void lw__sentinel_ways_forget(void *arg, struct lw__way *way);
/* Whether one of them is wanted. */
bool lw__sentinel_ways_wanted(struct lw__way *ways);
/* Whether what they lead to stands, all of it. */
bool lw__sentinel_ways_stand(const struct lw__way *ways);
/* Those that are wanted lead there; or nobody knows where. */
void lw__sentinel_ways_lead(struct lw__way **ways, const struct lw__endpoint *place);
void lw__sentinel_ways_leave(struct lw__way **ways, int status, const char *why);
/* All of them, away from where they have led. */
void lw__sentinel_ways_turn(struct lw__way *ways, const char *why);

#endif

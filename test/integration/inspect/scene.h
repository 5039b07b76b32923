/* SPDX-License-Identifier: MIT */
/* lw_inspect, lw_break and lw_ask_to_yield for tests: the result as a readable line, and
 * a check that the callbacks keep the rules (none inside a call, exactly one, none after
 * lw_client_free).
 *
 * Usual course: look_at(a, "x"); FOUND("held by m - test-a; 1 m - test-b"). */
#ifndef TEST_INSPECT_SCENE_H
#define TEST_INSPECT_SCENE_H
#include "modes/scene.h"

#define MOST 300

struct entry {
    char token[512], owner[160], client[256], user[160], note[160];
    long long remaining_ms, waited_ms, since_ms;
    unsigned long long fence;
    unsigned permits;
    enum lw_mode mode;
};

struct look {
    struct peer *peer;
    int status, broken, yielded; /* PENDING, or the callback's status */
    size_t asked, reached;       /* lw_ask_to_yield's holders, and those it reached */
    char why[256], foreign[64], server[512], role[16];
    struct entry holders[MOST], waiters[MOST];
    size_t holder_count, waiter_count, holder_total, waiter_total;
    struct lw_watcher *watch;
    int calls;                       /* of its callback */
    void (*then)(struct peer *peer); /* called at the end of the callback */
};
extern struct look look;

/* A third client, next to those of two_clients; three_clients starts all of them. */
extern struct peer *c;
void three_clients(void);

/* The calls, which must be accepted; the trace will have "inspected OK", "broken OK". */
void call_inspect(struct peer *peer, const char *name);
void call_break(struct peer *peer, const char *name, const char *token);
/* Calls lw_ask_to_yield, which must accept; the trace will have "yielded OK". */
void call_yield(struct peer *peer, const char *name);
void inspect_refused(struct peer *peer, const char *name, int error, const char *text);
void break_refused(struct peer *peer, const char *name, int error, const char *text);
void yield_refused(struct peer *peer, const char *name, int error, const char *text);
/* Calls call_inspect, and waits for LW_OK. */
void look_at(struct peer *peer, const char *name);
/* Calls call_break, and waits for its callback, which must have this status. */
void break_it(struct peer *peer, const char *name, const char *token, int status);

/* Calls lw_watch, which must accept; the trace will have "seen <found()>" or "seen
 * ECONN". look.watch is the watch, which end_watch frees. */
void begin_watch(struct peer *peer, const char *name, uint32_t interval_ms);
void end_watch(void);

/* Returns the holders, sorted, then the waiters in order: "held by w anna test-a; 1 r3
 * bert test-b". A missing word is "-"; of a client's note only the name is shown. */
const char *found(void);
#define FOUND(words) assert_string_equal(found(), words)

#endif

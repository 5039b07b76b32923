/* SPDX-License-Identifier: MIT */
/*
 * lw_inspect and lw_break for tests: what was found, as a readable line, and whether the
 * callbacks kept the rules (none inside a call, exactly one, none after lw_client_free).
 *
 * Happy path: look_at(a, "x"); FOUND("held by m - test-a; 1 m - test-b").
 */
#ifndef TEST_INSPECT_SCENE_H
#define TEST_INSPECT_SCENE_H
#include "modes/scene.h"

#define MOST 300

struct entry {
    char token[512], owner[160], client[256];
    long long remaining_ms, waited_ms;
    unsigned long long fence;
    unsigned permits;
    enum lw_mode mode;
};

struct look {
    struct peer *peer;
    int status, broken; /* PENDING, or what the callback was told */
    char why[256], stranger[64], server[512], role[16];
    struct entry holders[MOST], waiters[MOST];
    size_t holder_count, waiter_count, holder_total, waiter_total;
    void (*then)(struct peer *peer); /* in the callback, at its end */
};
extern struct look look;

/* Those of two_clients, and another one. */
extern struct peer *c;
void three_clients(void);

/* The calls, which must be accepted; the trace will show "inspected OK", "broken OK". */
void call_inspect(struct peer *peer, const char *name);
void call_break(struct peer *peer, const char *name, const char *token);
void inspect_refused(struct peer *peer, const char *name, int error, const char *text);
void break_refused(struct peer *peer, const char *name, int error, const char *text);
/* call_inspect, and waits for LW_OK. */
void look_at(struct peer *peer, const char *name);
/* call_break, and waits for its callback. */
void break_it(struct peer *peer, const char *name, const char *token, int status);

/* Holders by their words, then waiters in order: "held by w anna test-a; 1 r3 bert
 * test-b". A word that there is none of is "-"; of the client's note only the name. */
const char *found(void);
#define FOUND(words) assert_string_equal(found(), words)

#endif

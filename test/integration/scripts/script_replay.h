/* SPDX-License-Identifier: MIT
 *
 * Owns: what the property test's random part and its comparing part share: the world as
 * the test believes it to be, and one call. Must not know: how either works.
 *
 * Happy path: replay_run() for each random call. */
#ifndef SCRIPT_REPLAY_H
#define SCRIPT_REPLAY_H

#include "script_calls.h"
#include "script_model.h"

struct call {
    enum lw__script_id script;
    int token, old; /* old: a turn's */
    bool wait, want_fence;
    bool closed; /* the guard, for releases and renewals */
    int limit;   /* of waiters, for requests; 0: none */
    long long ticket;
};

struct world {
    unsigned long long seed;
    long step;
    enum lw__script_id current;
    struct model_token *tokens;
    long long *tickets; /* each token's, as last told */
    struct model model;
    long long last_number, numbers[MODEL_OWNERS];
    long done[LW__SCRIPT_COUNT], closed, full, grants, turns, deadlocks, agains;
};

extern struct world world;

/* Lua: what the server has, as one line. */
extern const char replay_state[];

/* Sends the call, once or twice; everything must then be as the model says. */
void replay_run(const struct call *call, bool twice);

#define CHECK(condition, ...)                                                            \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            print_error("seed %llu, step %ld, %s: ", world.seed, world.step,             \
                        lw__scripts[world.current].name);                                \
            fail_msg(__VA_ARGS__);                                                       \
        }                                                                                \
    } while (0)

#endif

/* SPDX-License-Identifier: MIT
 *
 * The state that the random part and the comparing part of the property test share: the
 * world as the test believes it to be, and one call.
 *
 * Usual course: replay_run() for each random call. */
#ifndef SCRIPT_REPLAY_H
#define SCRIPT_REPLAY_H

#include "rw_model.h"
#include "script_calls.h"

struct call {
    enum lw__script_id script;
    int token, old; /* old: the released token of a turn, or the adopted one */
    bool wait, want_fence;
    bool closed; /* the guard is closed, for releases and renewals */
    int limit;   /* of waiters, for requests; 0: none */
    long long ticket;
};

struct world {
    unsigned long long seed;
    long step;
    enum lw__script_id current;
    struct model_token *tokens;
    long long *tickets; /* each token's last ticket */
    struct mutex_model mutex;
    struct rw_model rw;
    long long last_number, numbers[MODEL_OWNERS];
    long done[LW__SCRIPT_COUNT], closed, full, grants, turns, deadlocks, agains;
};

extern struct world world;

/* Lua: returns the server's state in one line. */
extern const char replay_state[];

/* Sends the call, once or twice, and checks that everything is as in the model. */
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

/* SPDX-License-Identifier: MIT */
/*
 * What run, lead and hold share: a client on a loop of its own, a lock that is asked for,
 * held and let go of, signals while that is waited for, and what is said of it all. Must
 * not know what the lock is held for.
 *
 * Happy path: locked_run asks for the lock and calls `held`; whoever is done calls
 * locked_release; locked_run returns the exit code; locked_close.
 *
 * A signal while waiting, a server that refuses, a wait that is over: it ends by itself,
 * with a code that says so. A loss is said, and told by `lost`; what becomes of it, and
 * of signals while the lock is held, is the caller's. From locked_end on nothing is
 * called.
 */
#ifndef LW_TOOL_LOCKED_H
#define LW_TOOL_LOCKED_H
#include "patience.h"
#include "waiting.h"

#include <stdbool.h>
#include <stdint.h>

struct event_base;
struct locked;
struct lw_all;
struct lw_client;
struct lw_keep;
struct lw_lock;
struct options;

struct locked_events {
    /* Before the lock is asked for, the loop is there; NULL: nothing to do. 0, or -1: it
     * has been said why. */
    int (*begin)(struct locked *locked);
    void (*held)(struct locked *locked);
    /* While it is held; it has been said. */
    void (*lost)(struct locked *locked);
    /* While it is held, or was and is lost. */
    void (*signal)(struct locked *locked, int number, bool from_terminal);
};

enum locked_stage { LOCKED_WAITING, LOCKED_HELD, LOCKED_ENDING };

struct locked {
    const struct options *options;
    const struct locked_events *events;
    void *arg; /* the caller's */
    struct event_base *base;
    struct lw_client *client;
    struct lw_lock *lock; /* run, hold; else NULL */
    struct lw_all *all;   /* run with --and; else NULL */
    struct lw_keep *keep; /* lead; else NULL */
    struct waiting waiting;
    struct patience patience; /* for a wait of 0 */
    enum locked_stage stage;
    int code;  /* what to exit with */
    bool lost; /* `lost` was called, or the caller found out */
    int lost_code;
    bool link_up;
    bool connected;   /* once; what comes after is an outage */
    bool interrupted; /* by a key, while waiting */
    char why_down[200];
    char error[300];
};

/* `options`, `events` and `arg` are set, the rest is zeros. Runs until the end; the exit
 * code. Everything has been said. signals_catch was called before. */
int locked_run(struct locked *locked, const char *client_name);
/* After locked_run; the loop is there until then. */
void locked_close(struct locked *locked);

/* Its handle, for the getters and until the loop has control again. */
struct lw_lock *locked_lock(const struct locked *locked);
/* For how long it may still be used, in ms: less than its margin is not counted. */
int64_t locked_left_ms(const struct locked *locked);
/* lead: what the lock was held for before a loss is over, and may begin anew: `held`. */
void locked_again(struct locked *locked);
/* Lets go of it, where it is still held, and ends: with this code, or 70 where it turns
 * out to be lost. */
void locked_release(struct locked *locked, int code);
/* Ends, and gives back what there is. */
void locked_end(struct locked *locked, int code);
/* Of lead: a signal by which a command is asked for something else than its end. While
 * there is none it means nothing. */
bool locked_is_for_command(const struct locked *locked, int number, bool from_terminal);
/* Ends at once: the rest of the lease is left to whoever works by it. */
void locked_leave(struct locked *locked, int code);

#endif

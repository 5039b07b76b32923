/* SPDX-License-Identifier: MIT */
/* The one table of outcomes, for the library and for the command: what the end of an
 * operation is for its caller, and which error of a server stands for which outcome.
 * redis/classify.c and the command's report.c are made from it. test/house/outcomes.py
 * compares lockwire.h and --help with it, test/integration/command/outcomes.py the exit
 * codes of all subcommands. It consists of macros, so that the command needs no file of
 * the library for it. */
#ifndef LW_OUTCOME_H
#define LW_OUTCOME_H
#include <stdbool.h>

/* X(outcome, exit code, retried while there is time, sentence). The sentence completes
 * "cannot lock 'x': " of the command. */
#define LW__OUTCOME_MAP(X)                                                               \
    X(OK, 0, false, "done")                                                              \
    X(BUSY, 75, true, "the lock is busy")                                                \
    X(NOT_NOW, 69, true, "the server cannot process the request now")                    \
    X(NEVER, 77, false, "refused by the server")                                         \
    X(INVALID, 64, false, "invalid argument")                                            \
    X(LOST, 70, false, "the lock is not held")                                           \
    X(UNKNOWN, 69, true, "no reply in time")                                             \
    X(SYSTEM, 71, false, "system error")

/* X(lw_error, outcome): each lw_error once. LW_ETIMEOUT is BUSY if the lock was busy
 * until the end; otherwise the outcome is that of lw_lock_error. */
#define LW__OUTCOME_OF_ERROR_MAP(X)                                                      \
    X(LW_OK, OK)                                                                         \
    X(LW_STILLHELD, OK)                                                                  \
    X(LW_EBUSY, BUSY)                                                                    \
    X(LW_ETIMEOUT, BUSY)                                                                 \
    X(LW_EDEADLOCK, BUSY)                                                                \
    X(LW_ECONN, NOT_NOW)                                                                 \
    X(LW_EREDIS, NEVER)                                                                  \
    X(LW_EINVAL, INVALID)                                                                \
    X(LW_ELOST, LOST)                                                                    \
    X(LW_ENOTHELD, LOST)                                                                 \
    X(LW_EUNKNOWN, UNKNOWN)                                                              \
    X(LW_ESYSTEM, SYSTEM)                                                                \
    X(LW_ENOMEM, SYSTEM)                                                                 \
    X(LW_ECANCELED, SYSTEM)                                                              \
    X(LW_ECLOSED, SYSTEM)

/* X(code, class, sentence): the errors of a server that are NOT_NOW, by the words with
 * which they begin. LINK: the connection is unusable as well; TRANSIENT: it is not. The
 * sentence has the place of NOT_NOW's. Every other error is NEVER, except that MOVED and
 * a cluster that is down in a script are NOT_NOW (redis/classify.c). */
#define LW__OUTCOME_NOT_NOW_MAP(X)                                                       \
    X("LOADING", LINK, "the server is loading its data")                                 \
    X("READONLY", LINK, "the server is a replica")                                       \
    X("MASTERDOWN", LINK, "the server is a replica without its master")                  \
    X("DENIED", LINK, "the server is in protected mode")                                 \
    X("ERR max number of clients", LINK, "the server has too many clients")              \
    X("BUSY", TRANSIENT, "the server is executing a script or a function")               \
    X("OOM", TRANSIENT, "the server is out of memory")                                   \
    X("MISCONF", TRANSIENT, "the server cannot write its data to disk")                  \
    X("NOREPLICAS", TRANSIENT, "the server has too few replicas")                        \
    X("CLUSTERDOWN", TRANSIENT, "the cluster is down")                                   \
    X("TRYAGAIN", TRANSIENT, "the slot of the name is moving")                           \
    X("ASK", TRANSIENT, "the slot of the name is moving")                                \
    X("ERR Script attempted to access a non local key", TRANSIENT,                       \
      "the slot of the name is moving")                                                  \
    X("ERR Attempted to access a non local key", TRANSIENT,                              \
      "the slot of the name is moving")

/* LW__OUTCOME_BUSY and so on, and LW__EXIT_BUSY and so on. */
enum lw__outcome {
#define LW__OUTCOME_NAME(outcome, code, retried, sentence) LW__OUTCOME_##outcome,
    LW__OUTCOME_MAP(LW__OUTCOME_NAME)
#undef LW__OUTCOME_NAME
};
enum {
#define LW__OUTCOME_EXIT(outcome, code, retried, sentence) LW__EXIT_##outcome = (code),
    LW__OUTCOME_MAP(LW__OUTCOME_EXIT)
#undef LW__OUTCOME_EXIT
};
#endif

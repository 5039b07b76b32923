/* SPDX-License-Identifier: MIT */
/* The words of enum lw_degraded, for the statistics and for the command. A macro, so that
 * the command needs no file of the library for it. */
#ifndef LW_DEGRADED_H
#define LW_DEGRADED_H

/* X(name, word): each value of the enum once, the first one first. */
#define LW__DEGRADED_MAP(X)                                                              \
    X(PUBLISH, "publish")                                                                \
    X(SUBSCRIBE, "subscribe")                                                            \
    X(NUMSUB, "numsub")                                                                  \
    X(INFO, "info")                                                                      \
    X(CONFIG, "config")                                                                  \
    X(KILL, "kill")                                                                      \
    X(COMMAND, "command")                                                                \
    X(CLUSTER, "cluster")                                                                \
    X(ROLE, "role")                                                                      \
    X(SENTINEL, "sentinel")

#endif

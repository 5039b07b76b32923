/* SPDX-License-Identifier: MIT */
/*
 * A real sentinel that watches over one master, for tests: owns its process and a
 * connection to it. Must not know lockwire. What cannot be done fails the running test
 * with a text.
 *
 * Happy path: sentinel_start(&sentinel, server_listen(&stage.server), ""), a client
 * of sentinel.url, sentinel_stop.
 */
#ifndef TEST_SENTINEL_H
#define TEST_SENTINEL_H
#include <hiredis/hiredis.h>
#include <sys/types.h>

#define SENTINEL_SERVICE "the-master"

struct sentinel {
    pid_t pid; /* 0: none */
    int port;
    redisContext *admin;
    char url[128]; /* redis-sentinel://... of this one alone */
};

/* It calls that master down after half a second, and alone is the quorum. `more`: further
 * lines of its configuration, or "". */
void sentinel_start(struct sentinel *sentinel, int master_port, const char *more);
void sentinel_stop(struct sentinel *sentinel);
/* What it says of SENTINEL MASTER, or of the first of SENTINEL REPLICAS, under `field`;
 * until the next call, "": nothing. */
const char *sentinel_says(const struct sentinel *sentinel, const char *of,
                          const char *field);
/* Has it promote a replica while the master is well. */
void sentinel_fail_over(const struct sentinel *sentinel);

#endif

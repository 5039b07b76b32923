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
#include <stdbool.h>
#include <hiredis/hiredis.h>
#include <sys/types.h>

#define SENTINEL_SERVICE "the-master"

struct sentinel {
    pid_t pid; /* 0: none */
    bool paused;
    int port, reserved;
    redisContext *admin;
    char url[128]; /* redis-sentinel://... of this one alone */
};

/* It calls that master down after half a second, and alone is the quorum. `more`: further
 * lines of its configuration, or "". */
void sentinel_start(struct sentinel *sentinel, int master_port, const char *more);
/* One whose configuration is in that file, and which listens at a unix socket; or it
 * once more, which then knows what it wrote there. */
void sentinel_launch(struct sentinel *sentinel, const char *path, const char *socket);
void sentinel_stop(struct sentinel *sentinel);
void sentinel_pause(struct sentinel *sentinel);  /* SIGSTOP */
void sentinel_resume(struct sentinel *sentinel); /* SIGCONT */
/* What it says of SENTINEL MASTER, or of the first of SENTINEL REPLICAS, under `field`;
 * until the next call, "": nothing. */
const char *sentinel_says(const struct sentinel *sentinel, const char *of,
                          const char *field);
/* The same of one entry of such an answer, while that is there. */
const char *sentinel_field(const redisReply *entry, const char *field);
/* Has it promote a replica while the master is well. */
void sentinel_fail_over(const struct sentinel *sentinel);

#endif

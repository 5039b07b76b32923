/* SPDX-License-Identifier: MIT */
/*
 * A real sentinel that watches one master, for tests. Owns its process and a connection
 * to it. Independent of lockwire. A step that fails makes the running test fail with a
 * text.
 *
 * Usual course: sentinel_start(&sentinel, server_listen(&stage.server), ""), a client of
 * sentinel.url, sentinel_stop.
 */
#ifndef TEST_SENTINEL_H
#define TEST_SENTINEL_H
#include <stdbool.h>
#include <hiredis/hiredis.h>
#include <sys/types.h>

#define SENTINEL_SERVICE "the-master"

struct sentinel {
    pid_t pid; /* 0: not running */
    bool paused;
    int port, reserved;
    redisContext *admin;
    char url[128]; /* redis-sentinel://... of this one alone */
};

/* Starts a sentinel that declares the master down after half a second, with a quorum of
 * one. `more`: further lines of its configuration, or "". */
void sentinel_start(struct sentinel *sentinel, int master_port, const char *more);
/* Starts a sentinel with this configuration file, which listens at a unix socket; or
 * starts it again, with what it wrote to the file. */
void sentinel_launch(struct sentinel *sentinel, const char *path, const char *socket);
void sentinel_stop(struct sentinel *sentinel);
void sentinel_pause(struct sentinel *sentinel);  /* SIGSTOP */
void sentinel_resume(struct sentinel *sentinel); /* SIGCONT */
/* Returns the value of `field` in the reply to SENTINEL MASTER, or in the first entry of
 * SENTINEL REPLICAS; "" if it is missing. Valid until the next call. */
const char *sentinel_says(const struct sentinel *sentinel, const char *of,
                          const char *field);
/* Returns the same for one entry of such a reply, valid as long as the reply. */
const char *sentinel_field(const redisReply *entry, const char *field);
/* Makes it promote a replica although the master is well. */
void sentinel_fail_over(const struct sentinel *sentinel);

#endif

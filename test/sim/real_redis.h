/* SPDX-License-Identifier: MIT
 *
 * A private redis-server on a unix socket in a fresh directory, with a clock that the
 * test sets, and blocking connections to it. Of RESP, it knows only where a reply ends.
 *
 * Usual course: real_redis_start(), real_redis_set_time(), real_open(), real_write() and
 * real_read_answer(). real_redis_stop() ends the server and removes the directory. Any
 * failure here ends the test with a message.
 */
#ifndef LW_SIM_REAL_REDIS_H
#define LW_SIM_REAL_REDIS_H

#include "bytes.h"

#include <sys/types.h>

struct real_redis {
    char directory[64];
    char socket_path[96];
    char clock_path[96];
    pid_t pid;
    int log;
    volatile int64_t *clock_us;
};

struct real_link {
    int fd;
    struct buffer in;
};

/* Returns false if there is no such program. clock_library is frozen_clock.c as a shared
 * object. */
bool real_redis_start(struct real_redis *redis, const char *program,
                      const char *clock_library, int64_t time_us);
void real_redis_stop(struct real_redis *redis);
void real_redis_set_time(struct real_redis *redis, int64_t time_us);

void real_open(struct real_link *link, const struct real_redis *redis);
void real_close(struct real_link *link);
void real_write(struct real_link *link, struct bytes data);
/* Waits for one whole reply, and appends it to `answer`. Returns false if the server
 * closed. */
bool real_read_answer(struct real_link *link, struct buffer *answer);
/* Waits for that many bytes. Returns false if the server closed before. */
bool real_read_bytes(struct real_link *link, size_t len, struct buffer *answer);

#endif

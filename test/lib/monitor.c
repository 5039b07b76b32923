/* SPDX-License-Identifier: MIT */
/*
 * monitor.h over hiredis.
 *
 * Usual course: MONITOR is sent. When the test asks, its own connection sends a mark, and
 * all lines up to the mark are read, so that no command that the server executed before
 * is missing.
 */
#include "monitor.h"
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define TEXT_SIZE (4u << 20)

static redisContext *link_;
static char *seen;
static size_t used;
static int marks;

static void leave(bool in_good_order)
{
    (void)in_good_order;
    monitor_stop();
}

void monitor_start(void)
{
    stage_at_exit(leave);
    link_ = redisConnectUnix(stage.server.path);
    if (link_ == NULL || link_->err) {
        stage_fail("monitor: no connection");
    }
    redisSetTimeout(link_, (struct timeval){.tv_sec = 30});
    freeReplyObject(redisCommand(link_, "MONITOR"));
    seen = calloc(1, TEXT_SIZE);
    if (seen == NULL) {
        stage_fail("memory");
    }
    used = 0;
}

void monitor_stop(void)
{
    if (link_ != NULL) {
        redisFree(link_);
    }
    link_ = NULL;
    free(seen);
    seen = NULL;
}

/* A line is: time [db address] "command" "argument" ...; a script's commands have [db
 * lua]. */
static void note(const char *line)
{
    const char *at = strstr(line, "] \"");
    size_t length;

    if (at == NULL || strncmp(at - 4, " lua", 4) == 0 || strncmp(at - 3, "lua", 3) == 0) {
        return;
    }
    at += 2;
    length = strlen(at);
    if (used + length + 2 >= TEXT_SIZE) {
        stage_fail("monitor: too much was sent");
    }
    memcpy(seen + used, at, length);
    seen[used + length] = '\n';
    used += length + 1;
    seen[used] = '\0';
}

static void read_up_to_mark(void)
{
    char mark[32];
    void *reply;

    (void)snprintf(mark, sizeof(mark), "mark-%d", ++marks);
    redis_ok("ECHO %s", mark);
    for (bool found = false; !found;) {
        if (redisGetReply(link_, &reply) != REDIS_OK) {
            stage_fail("monitor: %s", link_->errstr);
        }
        const char *line = ((redisReply *)reply)->str;
        found = line != NULL && strstr(line, mark) != NULL;
        if (line != NULL && !found) {
            note(line);
        }
        freeReplyObject(reply);
    }
}

void monitor_clear(void)
{
    read_up_to_mark();
    used = 0;
    seen[0] = '\0';
}

static bool is_named(const char *line, const char *command)
{
    size_t length = strlen(command);

    return strncasecmp(line + 1, command, length) == 0 && line[1 + length] == '"';
}

static bool is_work(const char *line)
{
    static const char *const work[] = {"set",     "incr", "incrby",  "evalsha", "eval",
                                       "pexpire", "del",  "delifeq", "delex",   "pubsub"};

    for (size_t i = 0; i < sizeof(work) / sizeof(*work); i++) {
        if (is_named(line, work[i])) {
            return true;
        }
    }
    return false;
}

int monitor_count(const char *command)
{
    int count = 0;

    read_up_to_mark();
    for (const char *line = seen; *line; line = strchr(line, '\n') + 1) {
        count += command[0] ? is_named(line, command) : is_work(line);
    }
    return count;
}

bool monitor_saw(const char *text)
{
    read_up_to_mark();
    return strstr(seen, text) != NULL;
}

const char *monitor_text(void)
{
    read_up_to_mark();
    return seen;
}

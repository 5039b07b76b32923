/* SPDX-License-Identifier: MIT */
/*
 * sentinel.h's sentinel. Independent of the tests.
 *
 * Usual course: a configuration in the stage's folder, which the sentinel may rewrite;
 * fork; a connection as soon as it listens.
 */
#include "sentinel.h"
#include "server.h"
#include "stage.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void write_configuration(const char *path, int port, int master_port,
                                const char *more)
{
    FILE *file = fopen(path, "w");
    const char *name = SENTINEL_SERVICE;

    if (file == NULL ||
        fprintf(file,
                "port %d\nbind 127.0.0.1\ndir %s\nlogfile %s.log\n%s"
                "sentinel monitor %s 127.0.0.1 %d 1\n"
                "sentinel down-after-milliseconds %s 500\n"
                "sentinel failover-timeout %s 3000\n",
                port, stage.server.dir, path, more, name, master_port, name, name) < 0 ||
        fclose(file) != 0) {
        stage_fail("%s: %s", path, strerror(errno));
    }
}

static void await_answer(struct sentinel *sentinel, const char *socket)
{
    for (int64_t limit = now_ms() + STAGE_WAIT_MS;;) {
        sentinel->admin = socket != NULL ? redisConnectUnix(socket)
                                         : redisConnect("127.0.0.1", sentinel->port);
        if (sentinel->admin != NULL && sentinel->admin->err == 0) {
            return;
        }
        redisFree(sentinel->admin);
        sentinel->admin = NULL;
        if (now_ms() > limit) {
            stage_fail("the sentinel does not answer");
        }
        stage_run_for(5);
    }
}

void sentinel_launch(struct sentinel *sentinel, const char *path, const char *socket)
{
    sentinel->pid = fork();
    if (sentinel->pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)execlp("redis-server", "redis-server", path, "--sentinel", (char *)NULL);
        _exit(127);
    }
    await_answer(sentinel, socket);
}

void sentinel_start(struct sentinel *sentinel, int master_port, const char *more)
{
    char path[128];
    int port = 0, reserved = server_reserve_port(&port);

    *sentinel = (struct sentinel){.port = port, .reserved = reserved};
    (void)snprintf(path, sizeof(path), "%s/sentinel-%d", stage.server.dir, port);
    (void)snprintf(sentinel->url, sizeof(sentinel->url),
                   "redis-sentinel://127.0.0.1:%d/%s", port, SENTINEL_SERVICE);
    write_configuration(path, port, master_port, more);
    sentinel_launch(sentinel, path, NULL);
}

void sentinel_pause(struct sentinel *sentinel)
{
    (void)kill(sentinel->pid, SIGSTOP);
    (void)waitpid(sentinel->pid, NULL, WUNTRACED);
    sentinel->paused = true;
}

void sentinel_resume(struct sentinel *sentinel)
{
    (void)kill(sentinel->pid, SIGCONT);
    sentinel->paused = false;
}

void sentinel_stop(struct sentinel *sentinel)
{
    redisFree(sentinel->admin);
    if (sentinel->pid > 0) {
        (void)kill(sentinel->pid, SIGKILL);
        (void)waitpid(sentinel->pid, NULL, 0);
    }
    if (sentinel->reserved > 0) {
        close(sentinel->reserved);
    }
    *sentinel = (struct sentinel){0};
}

const char *sentinel_field(const redisReply *entry, const char *field)
{
    for (size_t i = 0; entry != NULL && i + 1 < entry->elements; i += 2) {
        if (strcmp(entry->element[i]->str, field) == 0) {
            return entry->element[i + 1]->str;
        }
    }
    return "";
}

const char *sentinel_says(const struct sentinel *sentinel, const char *of,
                          const char *field)
{
    static char text[256];
    redisReply *reply =
        redisCommand(sentinel->admin, "SENTINEL %s %s", of, SENTINEL_SERVICE);
    const redisReply *fields = reply;

    text[0] = '\0';
    if (reply != NULL && strcmp(of, "REPLICAS") == 0) {
        fields = reply->elements > 0 ? reply->element[0] : NULL;
    }
    (void)snprintf(text, sizeof(text), "%s", sentinel_field(fields, field));
    freeReplyObject(reply);
    return text;
}

void sentinel_fail_over(const struct sentinel *sentinel)
{
    redisReply *reply =
        redisCommand(sentinel->admin, "SENTINEL FAILOVER %s", SENTINEL_SERVICE);

    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        stage_fail("SENTINEL FAILOVER: %s", reply != NULL ? reply->str : "no answer");
    }
    freeReplyObject(reply);
}

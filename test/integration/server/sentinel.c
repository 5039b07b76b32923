/* SPDX-License-Identifier: MIT */
/*
 * A master that a real sentinel watches over, and its replica: it is found, it is
 * followed when they change roles by order or when it dies, and what was held and waited
 * for goes on at the new one. Needs nothing beyond test/lib. What sentinels do that a
 * real one will not do on demand is in test/unit/sentinel.c.
 *
 * Happy path: watch(), peer_start_at("a", url), SENTINEL FAILOVER.
 */
#include "players.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MASTER "the-master"

static struct server replica;
static redisContext *sentinel;
static pid_t sentinel_pid;
static int master_port, replica_port;
static char url[128];

static void sentinel_leaves(bool in_good_order)
{
    (void)in_good_order;
    if (sentinel != NULL) {
        redisFree(sentinel);
        sentinel = NULL;
    }
    if (sentinel_pid > 0) {
        (void)kill(sentinel_pid, SIGKILL);
        (void)waitpid(sentinel_pid, NULL, 0);
        sentinel_pid = 0;
    }
    if (replica.running) {
        server_stop(&replica);
    }
    if (!stage.server.running) {
        server_restart(&stage.server);
    }
}

/* Its configuration is its own to write. */
static void write_configuration(const char *path, int port)
{
    FILE *file = fopen(path, "w");

    if (file == NULL ||
        fprintf(file,
                "port %d\nbind 127.0.0.1\ndir %s\nlogfile %s.log\n"
                "sentinel monitor %s 127.0.0.1 %d 1\n"
                "sentinel down-after-milliseconds %s 500\n"
                "sentinel failover-timeout %s 3000\n",
                port, stage.server.dir, path, MASTER, master_port, MASTER, MASTER) < 0 ||
        fclose(file) != 0) {
        stage_fail("%s: %s", path, strerror(errno));
    }
}

static void start_sentinel(int port)
{
    char path[128];

    (void)snprintf(path, sizeof(path), "%s/sentinel-%d", stage.server.dir, port);
    write_configuration(path, port);
    sentinel_pid = fork();
    if (sentinel_pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)execlp("redis-server", "redis-server", path, "--sentinel", (char *)NULL);
        _exit(127);
    }
    for (int64_t limit = now_ms() + STAGE_WAIT_MS; sentinel == NULL || sentinel->err;) {
        if (sentinel != NULL) {
            redisFree(sentinel);
        }
        if (now_ms() > limit) {
            stage_fail("the sentinel does not answer");
        }
        stage_run_for(5);
        sentinel = redisConnect("127.0.0.1", port);
    }
}

/* What it says of the master, or of its first replica. */
static const char *told(const char *of, const char *name)
{
    static char text[256];
    redisReply *reply = redisCommand(sentinel, "SENTINEL %s %s", of, MASTER), *fields;

    text[0] = '\0';
    fields = reply;
    if (reply != NULL && strcmp(of, "REPLICAS") == 0) {
        fields = reply->elements > 0 ? reply->element[0] : NULL;
    }
    for (size_t i = 0; fields != NULL && i + 1 < fields->elements; i += 2) {
        if (strcmp(fields->element[i]->str, name) == 0) {
            (void)snprintf(text, sizeof(text), "%s", fields->element[i + 1]->str);
        }
    }
    freeReplyObject(reply);
    return text;
}

/* How often its answer has that text. By a connection for this alone: sentinels have a
 * server that changes its role end all others. */
static int replica_says(const char *command, const char *text)
{
    redisContext *context = redisConnectUnix(replica.path);
    redisReply *reply = redisCommand(context, command);
    int times = 0;

    for (const char *at = reply != NULL ? reply->str : NULL;
         at != NULL && (at = strstr(at, text)) != NULL; at++) {
        times++;
    }
    freeReplyObject(reply);
    redisFree(context);
    return times;
}

static void watch(void)
{
    int port = server_free_port();

    stage_at_exit(sentinel_leaves);
    stage.keys_may_stay = stage.notes_may_stay = true;
    master_port = server_listen(&stage.server);
    redis_ok("CONFIG SET repl-diskless-sync-delay 0");
    server_start(&replica, "--repl-diskless-sync-delay 0");
    replica_port = server_listen(&replica);
    freeReplyObject(server_command(&replica, "REPLICAOF 127.0.0.1 %d", master_port));
    UNTIL(replica_says("INFO replication", "master_link_status:up") == 1);
    start_sentinel(port);
    UNTIL(atoi(told("REPLICAS", "port")) == replica_port);
    UNTIL(strcmp(told("REPLICAS", "master-link-status"), "ok") == 0);
    (void)snprintf(url, sizeof(url), "redis-sentinel://127.0.0.1:%d/%s", port, MASTER);
}

static struct peer *start(const char *label)
{
    struct peer *peer =
        peer_start_at(label, url,
                      client_of(.local_turns = 1, .connect_timeout_ms = 2000,
                                .request_timeout_ms = 2000, .backoff_min_ms = 10));

    UNTIL(peer->up);
    return peer;
}

/* Both of its connections, at the replica that was. */
static bool is_at_the_replica(const struct peer *peer)
{
    char name[64];

    (void)snprintf(name, sizeof(name), " name=test-%s ", peer->label);
    return peer->up && replica_says("CLIENT LIST", name) == 2;
}

static void the_master_is_found_and_what_it_lacks_is_told(void **state)
{
    (void)state;
    watch();

    struct peer *a = start("a");
    struct hold *A = take(a, "A", "x");

    EXPECT("A granted");
    UNTIL(peer_logged(a, "min-replicas-to-write"));
    let_go(A);
    EXPECT("A released OK");
    assert_int_equal(peer_stats(a).failovers, 0);
}

static void a_failover_by_order_is_followed_by_both_links(void **state)
{
    (void)state;
    watch();

    struct peer *a = start("a"), *b = start("b");
    struct hold *A = take(a, "A", "x"), *B = ask(b, "B", "x", -1);

    EXPECT("A granted");
    wait_queued("x", 1);
    redis_int("WAIT 1 5000");
    freeReplyObject(redisCommand(sentinel, "SENTINEL FAILOVER %s", MASTER));
    UNTIL(is_at_the_replica(a) && is_at_the_replica(b));
    stage_expect_nothing(300);
    let_go(A);
    EXPECT_SET("A released OK; B granted");
    assert_true(B->fence > A->fence);
    assert_int_equal(peer_stats(a).failovers, 1);
    assert_int_equal(peer_stats(b).failovers, 1);
}

static void the_master_dies_and_its_replica_goes_on(void **state)
{
    (void)state;
    watch();

    struct peer *a = start("a"), *b = start("b");
    struct hold *A = take(a, "A", "x"), *B = ask(b, "B", "x", -1);

    EXPECT("A granted");
    wait_queued("x", 1);
    redis_int("WAIT 1 5000");
    server_kill(&stage.server);
    UNTIL(is_at_the_replica(a) && is_at_the_replica(b));
    let_go(A);
    EXPECT_SET("A released OK; B granted");
    assert_true(B->fence > A->fence);
    assert_int_equal(peer_stats(a).failovers, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(the_master_is_found_and_what_it_lacks_is_told),
        STAGE_TEST(a_failover_by_order_is_followed_by_both_links),
        STAGE_TEST(the_master_dies_and_its_replica_goes_on),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/*
 * A master that a real sentinel monitors, and its replica. Clients find the master and
 * follow it through failovers, planned or because it died; holders and waiters go on at
 * the new master. Behaviour of sentinels that a real one does not show on demand is in
 * test/unit/sentinel.c. No client follows a discovered sentinel alone, and none a
 * sentinel of another installation that gets the address of a discovered one.
 *
 * Usual course: watch(), peer_start_at("a", url), SENTINEL FAILOVER.
 */
#include "groups.h"
#include "sentinel.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static struct server replica, frozen, foreign;
static struct sentinel sentinel, second;
static int master_port, replica_port;

static void all_leave(bool in_good_order)
{
    (void)in_good_order;
    sentinel_stop(&sentinel);
    sentinel_stop(&second);
    if (frozen.running) {
        server_resume(&frozen);
        server_stop(&frozen);
    }
    if (replica.running) {
        server_stop(&replica);
    }
    if (foreign.running) {
        server_stop(&foreign);
    }
    server_restart(&stage.server); /* the stage's connection may have been closed, too */
}

/* Counts `text` in the replica's reply. Uses a connection of its own, which may end at
 * any moment: sentinels have a server that changes its role close all others. */
static int replica_says(const char *command, const char *text)
{
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    redisContext *context = redisConnectUnix(replica.path);
    redisReply *reply = redisCommand(context, command);
    int times = 0;

    for (const char *at = reply != NULL ? reply->str : NULL;
         at != NULL && (at = strstr(at, text)) != NULL; at++) {
        times++;
    }
    freeReplyObject(reply);
    redisFree(context);
    (void)signal(SIGPIPE, before);
    return times;
}

static void set_up_servers(void)
{
    stage_at_exit(all_leave);
    stage.keys_may_stay = stage.notes_may_stay = true;
    master_port = server_listen(&stage.server);
    redis_ok("CONFIG SET repl-diskless-sync-delay 0");
    server_start(&replica, "--repl-diskless-sync-delay 0");
    replica_port = server_listen(&replica);
}

static void make_it_a_replica(void)
{
    freeReplyObject(server_command(&replica, "REPLICAOF 127.0.0.1 %d", master_port));
    UNTIL(replica_says("INFO replication", "master_link_status:up") == 1);
}

static void watch_more(const char *more, const char *password)
{
    char port_text[16];

    set_up_servers();
    make_it_a_replica();
    (void)snprintf(port_text, sizeof(port_text), "%d", replica_port);
    sentinel_start(&sentinel, master_port, more);
    if (password != NULL) {
        freeReplyObject(redisCommand(sentinel.admin, "AUTH %s", password));
    }
    UNTIL(strcmp(sentinel_says(&sentinel, "REPLICAS", "port"), port_text) == 0);
    UNTIL(strcmp(sentinel_says(&sentinel, "REPLICAS", "master-link-status"), "ok") == 0);
}

static void watch_with(const char *more)
{
    watch_more(more, NULL);
}

static void watch(void)
{
    watch_with("");
}

/* Waits until the replica has all writes. (WAIT covers the writes of its connection.) */
static void replicate(void)
{
    redis_ok("SET last 1");
    assert_int_equal(redis_int("WAIT 1 5000"), 1);
}

static struct peer *start(const char *label)
{
    struct peer *peer =
        peer_start_at(label, sentinel.url,
                      client_of(.local_turns = 1, .connect_timeout_ms = 2000,
                                .request_timeout_ms = 2000, .backoff_min_ms = 10,
                                .asked_to_yield = on_asked));

    UNTIL(peer->up);
    return peer;
}

/* Returns true if both connections of the client are at the former replica. */
static bool is_at_the_replica(const struct peer *peer)
{
    char name[64];

    (void)snprintf(name, sizeof(name), " name=test-%s ", peer->label);
    return peer->up && replica_says("CLIENT LIST", name) == 2;
}

/* Checks which master is followed. Returns for how long it has been, or -1 if unknown. */
static int64_t followed_for(const struct peer *peer, int port)
{
    struct lw_master master = LW_MASTER_INIT;

    assert_int_equal(lw_client_master(peer->client, &master), LW_OK);
    assert_string_equal(master.service, SENTINEL_SERVICE);
    assert_string_equal(master.host, "127.0.0.1");
    assert_int_equal(master.port, port);
    return master.for_ms;
}

static char answered[64]; /* the server that replied, and its role */

static void on_inspected(struct lw_client *client, int status,
                         const struct lw_inspection *found, const char *why, void *arg)
{
    (void)client, (void)why, (void)arg;
    if (status == LW_OK) {
        (void)snprintf(answered, sizeof(answered), "%s %s", found->server, found->role);
    }
}

static void answers_as_the_master(const struct peer *peer, int port)
{
    char wanted[64];

    (void)snprintf(wanted, sizeof(wanted), "127.0.0.1:%d master", port);
    *answered = '\0';
    assert_int_equal(lw_inspect(peer->client, "x", on_inspected, NULL), 0);
    UNTIL(*answered != '\0');
    assert_string_equal(answered, wanted);
}

static void the_master_is_found_and_what_it_lacks_is_told(void **state)
{
    (void)state;
    watch();

    struct peer *a = start("a");
    struct hold *A = acquire_and_wait(a, "A", "x");

    EXPECT("A granted");
    UNTIL(peer_logged(a, "min-replicas-to-write"));
    release_hold(A);
    EXPECT("A released OK");
    assert_int_equal(peer_stats(a).failovers, 0);
    assert_true(followed_for(a, master_port) >= 0);
    answers_as_the_master(a, master_port);
}

static void a_switch_begins_the_master_s_time_anew(void **state)
{
    (void)state;
    watch();

    struct peer *a = start("a");
    int64_t begun = now_ms(), for_ms;

    /* the time since the sentinel started, as it reports */
    UNTIL(followed_for(a, master_port) > 1000);
    sentinel_fail_over(&sentinel);
    UNTIL(is_at_the_replica(a));
    for_ms = followed_for(a, replica_port);
    assert_in_range(for_ms, 0, now_ms() - begun);
    UNTIL(followed_for(a, replica_port) > for_ms + 2500); /* a heartbeat later */
    assert_true(followed_for(a, replica_port) <= now_ms() - begun);
}

static void a_failover_by_order_is_followed_by_both_links(void **state)
{
    (void)state;
    watch();

    struct peer *a = start("a"), *b = start("b");
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_hold(b, "B", "x", -1);

    EXPECT("A granted");
    wait_queued("x", 1);
    replicate();
    sentinel_fail_over(&sentinel);
    UNTIL(is_at_the_replica(a) && is_at_the_replica(b));
    stage_expect_nothing(300);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_true(B->fence > A->fence);
    assert_int_equal(peer_stats(a).failovers, 1);
    assert_int_equal(peer_stats(b).failovers, 1);
    answers_as_the_master(a, replica_port);
}

static void on_changed(struct lw_watcher *watch, int status,
                       const struct lw_inspection *now, const char *why, void *arg)
{
    const struct lw_inspected *holder = now != NULL ? lw_inspection_holder(now, 0) : NULL;

    (void)watch, (void)why;
    (void)snprintf(arg, 64, "%s",
                   status != LW_OK  ? "unknown"
                   : holder != NULL ? holder->client
                                    : "free");
}

static void a_watch_goes_on_at_the_new_master(void **state)
{
    struct lw_watch_options options = LW_WATCH_OPTIONS_INIT;
    struct lw_watcher *of = NULL;
    struct hold *A;
    char seen[64] = "";

    (void)state;
    watch();

    struct peer *a = start("a"), *b = start("b");

    options.interval_ms = 5000;
    assert_int_equal(lw_watch(b->client, "x", &options, on_changed, seen, &of), 0);
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    UNTIL(strncmp(seen, "test-a ", 7) == 0);
    replicate();
    server_kill(&stage.server);
    UNTIL(strcmp(seen, "unknown") == 0);
    UNTIL(is_at_the_replica(a) && is_at_the_replica(b));
    UNTIL(strncmp(seen, "test-a ", 7) == 0);
    release_hold(A);
    EXPECT("A released OK");
    UNTIL(strcmp(seen, "free") == 0);
    lw_watcher_free(of);
}

static void on_yielded(struct lw_client *client, int status, size_t holders,
                       size_t reached, const char *why, void *arg)
{
    (void)client, (void)why;
    *(int *)arg = status == LW_OK && holders == 1 ? (int)reached : -1;
}

/* The subscription to the new master may be up later than the link. */
static void ask_until_reached(const struct peer *peer, const struct hold *hold)
{
    int asked = hold->asked, reached[1];

    do {
        reached[0] = PENDING;
        assert_int_equal(lw_ask_to_yield(peer->client, "x", on_yielded, reached), 0);
        UNTIL(reached[0] != PENDING);
    } while (reached[0] != 1);
    UNTIL(hold->asked == asked + 1);
    stage_clear_trace();
}

static void a_holder_is_asked_at_the_new_master(void **state)
{
    (void)state;
    watch();

    struct peer *a = start("a"), *b = start("b");
    struct hold *A = acquire_and_wait(a, "A", "x");

    ask_until_reached(b, A);
    replicate();
    server_kill(&stage.server);
    UNTIL(is_at_the_replica(a) && is_at_the_replica(b));
    ask_until_reached(b, A);
    release_hold(A);
    EXPECT("A released OK");
}

/* In each mode a lock is detached at one master and adopted at the next one. */
static void a_detached_lock_is_adopted_at_the_new_master(void **state)
{
    static const enum lw_mode modes[] = {LW_MUTEX, LW_EXCLUSIVE, LW_SHARED};
    static const char *const labels[] = {"A", "B", "C"}, *const names[] = {"x", "y", "z"};
    struct hold *old[3], *adopted[3], *late;
    struct peer *a, *b;

    (void)state;
    watch();
    a = start("a");
    b = start("b");
    for (int i = 0; i < 3; i++) {
        old[i] = acquire_hold_with(a, labels[i], names[i], asking(.mode = modes[i]));
        UNTIL(old[i]->result == LW_OK);
        detach_hold(old[i], 600000);
        UNTIL(old[i]->released == LW_OK);
    }
    replicate();
    server_kill(&stage.server);
    for (int i = 0; i < 3; i++) { /* waits for the new master */
        adopted[i] = adopt_hold(b, labels[i], names[i], lw_lock_token(old[i]->lock),
                                asking(.mode = modes[i], .wait_ms = -1));
    }
    UNTIL(is_at_the_replica(b));
    for (int i = 0; i < 3; i++) {
        UNTIL(adopted[i]->result != PENDING);
        assert_int_equal(adopted[i]->result, LW_OK);
        assert_true(adopted[i]->fence > old[i]->fence);
        release_hold(adopted[i]);
        UNTIL(adopted[i]->released == LW_OK);
    }
    late = adopt_hold(b, "L", "x", lw_lock_token(old[0]->lock), asking(.wait_ms = -1));
    UNTIL(late->result == LW_ENOTHELD);
    stage_clear_trace();
}

/* Returns how many waiters the replica's queue has, from 1 to 9; 0 for another number. */
static int count_waiters(void)
{
    int count = 9;

    while (count > 0 &&
           replica_says("EVAL return(tostring(redis.call('ZCARD',KEYS[1]))) 1 "
                        "lockwire:2:queue:{x}",
                        (char[]){(char)('0' + count), '\0'}) == 0) {
        count--;
    }
    return count;
}

/* The queue is lost with the master, and another client is the first in the new one. B
 * had its place before, and so is not refused. */
static void a_limit_goes_on_at_the_new_master(void **state)
{
    (void)state;
    watch();

    struct peer *a = start("a"), *b = start("b");
    struct hold *A = acquire_and_wait(a, "A", "x"), *B;
    const char *queue = queue_of("x");

    EXPECT("A granted");
    B = acquire_hold_with(b, "B", "x", asking(.wait_ms = -1, .max_waiting = 1));
    wait_queued("x", 1);
    replicate();
    freeReplyObject(server_command(&replica, "CONFIG SET replica-read-only no"));
    freeReplyObject(server_command(&replica, "DEL %s", queue));
    freeReplyObject(
        server_command(&replica,
                       "ZADD %s 8000000000000000 3f1c0a9b-7d5e-4468-8a1b-0123456789ab:"
                       "00000000000000000000001:2000-",
                       queue)); /* its client is dead */
    freeReplyObject(server_command(&replica, "PEXPIRE %s 120000", queue));
    server_kill(&stage.server);
    UNTIL(is_at_the_replica(a) && is_at_the_replica(b));
    UNTIL(count_waiters() == 2);
    acquire_hold_with(a, "E", "x", asking(.wait_ms = -1, .max_waiting = 2));
    EXPECT("E EBUSY");
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_true(B->fence > A->fence);
}

static void the_master_dies_and_its_replica_goes_on(void **state)
{
    (void)state;
    watch();

    struct peer *a = start("a"), *b = start("b");
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_hold(b, "B", "x", -1);

    EXPECT("A granted");
    wait_queued("x", 1);
    replicate();
    server_kill(&stage.server);
    UNTIL(is_at_the_replica(a) && is_at_the_replica(b));
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_true(B->fence > A->fence);
    assert_int_equal(peer_stats(a).failovers, 1);
}

/* The replica lacks the hold, as if the last writes had not reached it. */
static void a_hold_that_the_new_master_does_not_know_is_lost(void **state)
{
    (void)state;
    watch();

    struct peer *a = start("a"), *b = start("b");
    struct hold *A = acquire_and_wait(a, "A", "x");

    EXPECT("A granted");
    replicate();
    freeReplyObject(server_command(&replica, "CONFIG SET replica-read-only no"));
    freeReplyObject(server_command(&replica, "DEL x lockwire:fence"));
    server_kill(&stage.server);
    EXPECT("A lost ENOTHELD");
    UNTIL(is_at_the_replica(b));

    struct hold *B = acquire_and_wait(b, "B", "x");

    EXPECT("B granted");
    assert_true(B->fence > A->fence);
    assert_int_equal(peer_stats(a).lost_taken, 1);
}

/* The old master resumes as a master, and for a while accepts all commands. */
static void a_master_that_stood_still_is_left_though_it_lives_on(void **state)
{
    (void)state;
    watch();

    struct peer *a = start("a"), *b = start("b");
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_hold(b, "B", "x", -1);

    EXPECT("A granted");
    wait_queued("x", 1);
    replicate();
    server_pause(&stage.server);
    UNTIL(is_at_the_replica(a) && is_at_the_replica(b));
    server_resume(&stage.server);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_true(B->fence > A->fence);
    assert_true(is_at_the_replica(a) && is_at_the_replica(b));
}

/* The third connection, which is subscribed to Redisson's channels, follows as well. */
static void who_waits_as_redisson_does_is_woken_at_the_new_master(void **state)
{
    (void)state;
    watch();

    struct peer *a = start("a"), *b = start("b");
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.mode = LW_REDISSON, .lease_ms = 60000));

    EXPECT("A granted");
    acquire_hold_with(b, "B", "x", asking(.mode = LW_REDISSON, .wait_ms = -1));
    UNTIL(redis_int("EVAL %s 0", "return redis.call('PUBSUB', 'NUMSUB', "
                                 "'redisson_lock__channel:{x}')[2]") == 1);
    replicate();
    sentinel_fail_over(&sentinel);
    UNTIL(a->up && replica_says("CLIENT LIST", " name=test-b ") == 3);
    UNTIL(replica_says("CLIENT LIST", " name=test-a ") == 2);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
}

/* ---- several names at once ---- */

static struct crowd crowd;
static bool kills; /* kills the master, instead of a planned failover */

static bool is_replaced(void)
{
    static int grants;

    if (crowd.granted < 200) {
        grants = 0;
        return true;
    }
    if (grants == 0) {
        grants = crowd.granted;
        if (kills) {
            server_kill(&stage.server);
        } else {
            sentinel_fail_over(&sentinel);
        }
    }
    return crowd.granted < grants + 300;
}

/* An overlap that lost writes cause is excused; a standstill is not. */
static void crowd_of_sets(bool by_kill)
{
    watch();
    kills = by_kill;
    crowd = (struct crowd){.url = sentinel.url,
                           .seed = 5,
                           .clients = 4,
                           .lease_ms = 1500,
                           .overlaps = true,
                           .disturb = is_replaced};
    crowd_run(&crowd);
    assert_true(crowd.granted >= 500);
}

static void sets_are_acquired_through_a_failover_by_order(void **state)
{
    (void)state;
    crowd_of_sets(false);
}

static void sets_are_acquired_when_the_master_has_died(void **state)
{
    (void)state;
    crowd_of_sets(true);
}

static void is_patient(const struct sentinel *one)
{
    freeReplyObject(redisCommand(one->admin, "SENTINEL SET " SENTINEL_SERVICE
                                             " down-after-milliseconds 60000"));
}

static bool names_the_old_one(const struct sentinel *one)
{
    return atoi(sentinel_says(one, "MASTER", "port")) == master_port;
}

/* While a replica does not follow the new master yet, the sentinel that leads the
 * failover reports the old master with the new epoch. That server still calls itself a
 * master. */
static void who_leads_a_failover_leads_nobody_to_the_old_master(void **state)
{
    char url[160];

    (void)state;
    watch();
    server_start(&frozen, "--repl-diskless-sync-delay 0 --replica-priority 0");
    freeReplyObject(server_command(&frozen, "REPLICAOF 127.0.0.1 %d", master_port));
    UNTIL(redis_int("WAIT 2 100") == 2);
    sentinel_stop(&sentinel); /* a new sentinel finds both replicas at once */
    sentinel_start(&sentinel, master_port, "");
    sentinel_start(&second, master_port, "");
    is_patient(&sentinel);
    is_patient(&second);
    UNTIL(strcmp(sentinel_says(&sentinel, "MASTER", "num-slaves"), "2") == 0);
    UNTIL(strcmp(sentinel_says(&second, "MASTER", "num-slaves"), "2") == 0);
    UNTIL(strcmp(sentinel_says(&sentinel, "MASTER", "num-other-sentinels"), "1") == 0);
    server_pause(&frozen);
    sentinel_fail_over(&sentinel);
    UNTIL(!names_the_old_one(&second));
    assert_true(names_the_old_one(&sentinel));
    assert_string_equal(sentinel_says(&sentinel, "MASTER", "config-epoch"), "1");
    (void)snprintf(url, sizeof(url), "redis-sentinel://127.0.0.1:%d,127.0.0.1:%d/%s",
                   sentinel.port, second.port, SENTINEL_SERVICE);

    struct peer *a = peer_start_at("a", url, client_of(.local_turns = 1));

    UNTIL(a->up);
    assert_true(replica_says("CLIENT LIST", " name=test-a ") > 0);
    assert_int_equal(peer_stats(a).failovers, 0);
    assert_true(names_the_old_one(&sentinel)); /* still */
}

static size_t elements(const char *command)
{
    redisReply *reply = redisCommand(sentinel.admin, command);
    size_t count = reply != NULL ? reply->elements : SIZE_MAX;

    freeReplyObject(reply);
    return count;
}

static bool somebody_subscribes(void)
{
    redisReply *reply = redisCommand(sentinel.admin, "CLIENT LIST");
    bool yes = reply != NULL && strstr(reply->str, " sub=1 ") != NULL;

    freeReplyObject(reply);
    return yes;
}

/* Uses the account that lockwire(7) gives for sentinels. */
static void an_account_at_the_sentinel_is_enough(void **state)
{
    (void)state;
    watch_with("user watcher on >secret resetchannels &*switch-master -@all +auth "
               "+client|setname +client|id +info +sentinel|master +sentinel|sentinels "
               "+sentinel|replicas +sentinel|myid +subscribe\n");

    struct peer *a = peer_start_at(
        "a", sentinel.url,
        client_of(.local_turns = 1, .sentinel_username = "watcher",
                  .sentinel_password = "secret", .request_timeout_ms = 200));

    UNTIL(a->up && somebody_subscribes());
    sentinel_fail_over(&sentinel);
    UNTIL(is_at_the_replica(a));
    stage_run_for(500); /* some heartbeats */
    assert_int_equal(elements("ACL LOG"), 0);
    assert_int_equal(peer_stats(a).degraded, 0);
    assert_null(strstr(a->log, "NOPERM"));
    (void)peer_start_at("b", sentinel.url,
                        client_of(.sentinel_username = "watcher",
                                  .sentinel_password = "wrong", .local_turns = 1));
    UNTIL(elements("ACL LOG") > 0);
}

static void what_a_sentinel_denies_is_logged_with_its_price(void **state)
{
    struct peer *a;

    (void)state;
    watch_with("user watcher on >secret -@all +auth +client|setname +client|id +info "
               "+sentinel|master +sentinel|myid\n");
    a = peer_start_at("a", sentinel.url,
                      client_of(.local_turns = 1, .sentinel_username = "watcher",
                                .sentinel_password = "secret"));
    UNTIL(peer_logged(a, "4 SENTINEL SENTINELS is not permitted; ") &&
          peer_logged(a, "4 SENTINEL REPLICAS is not permitted; ") &&
          peer_logged(a, " refused SUBSCRIBE; polling this sentinel "));
    assert_int_equal(peer_stats(a).degraded, LW_DEGRADED_SENTINEL);
}

/* ---- discovered sentinels ---- */

static bool has_subscriber(const struct sentinel *one)
{
    redisReply *reply = redisCommand(one->admin, "CLIENT LIST");
    bool yes = reply != NULL && reply->type == REDIS_REPLY_STRING &&
               strstr(reply->str, " sub=1 ") != NULL;

    freeReplyObject(reply);
    return yes;
}

static struct peer *start_that_learns(const char *password)
{
    struct peer *peer =
        peer_start_at("a", sentinel.url,
                      client_of(.local_turns = 1, .sentinel_password = password,
                                .request_timeout_ms = 500, .backoff_min_ms = 10));

    UNTIL(peer->up && has_subscriber(&second));
    return peer;
}

/* Starts the second sentinel. Client a discovers it by the first, which is listed. */
static struct peer *learn_the_second(const char *more, const char *password)
{
    sentinel_start(&second, master_port, more);
    if (password != NULL) {
        freeReplyObject(redisCommand(second.admin, "AUTH %s", password));
        freeReplyObject(redisCommand(sentinel.admin, "AUTH %s", password));
    }
    UNTIL(strcmp(sentinel_says(&sentinel, "MASTER", "num-other-sentinels"), "1") == 0);
    UNTIL(strcmp(sentinel_says(&second, "REPLICAS", "master-link-status"), "ok") == 0);
    return start_that_learns(password);
}

/* Replaces the second sentinel by one of another installation, at the same address, with
 * the same service name and a later epoch. */
static void replace_the_second(const char *foreign_password)
{
    char path[128];
    int foreign_port;
    FILE *file;

    server_start(&foreign, NULL);
    foreign_port = server_listen(&foreign);
    freeReplyObject(
        server_command(&foreign, "CONFIG SET requirepass %s", foreign_password));
    redisFree(second.admin);
    (void)kill(second.pid, SIGKILL);
    (void)waitpid(second.pid, NULL, 0);
    (void)snprintf(path, sizeof(path), "%s/foreign", stage.server.dir);
    file = fopen(path, "w");
    assert_non_null(file);
    (void)fprintf(file,
                  "port %d\nbind 127.0.0.1\ndir %s\nlogfile %s.log\n"
                  "sentinel monitor " SENTINEL_SERVICE " 127.0.0.1 %d 1\n"
                  "sentinel config-epoch " SENTINEL_SERVICE " 100\n",
                  second.port, stage.server.dir, path, foreign_port);
    (void)fclose(file);
    sentinel_launch(&second, path, NULL);
    UNTIL(strcmp(sentinel_says(&second, "MASTER", "config-epoch"), "100") == 0);
}

static void stays_at_the_master(struct peer *a)
{
    struct hold *A, *B;
    struct peer *b;

    UNTIL(peer_logged(a, "a different sentinel is at this address now") ||
          peer_stats(a).failovers > 0);
    (void)followed_for(a, master_port);
    redis_ok("CLIENT KILL TYPE normal");
    redis_ok("CLIENT KILL TYPE pubsub");
    UNTIL(!a->up);
    UNTIL(a->up);
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    b = peer_start_at("b", sentinel.url, client_of(.local_turns = 1));
    B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    assert_false(peer_logged(b, "is now"));
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_true(B->fence > 0);
    (void)followed_for(a, master_port);
    assert_int_equal(peer_stats(a).failovers, 0);
}

static void a_foreign_sentinel_at_a_learnt_address_leads_nowhere(void **state)
{
    redisReply *seen;

    (void)state;
    watch();

    struct peer *a = learn_the_second("", NULL);

    replace_the_second("");
    stays_at_the_master(a);
    seen = server_command(&foreign, "CLIENT LIST");
    assert_null(strstr(seen->str, " name=test-"));
    freeReplyObject(seen);
}

/* The foreign master has another password. A client that followed could not log in there,
 * and could not come back. */
static void a_foreign_sentinel_keeps_nobody_from_the_master(void **state)
{
    (void)state;
    watch();

    struct peer *a = learn_the_second("", NULL);

    replace_the_second("other");
    stays_at_the_master(a);
}

/* The only listed sentinel is frozen during the failover. It still believes in the old
 * master when it goes on, and learns of the new one from the second sentinel. */
static void a_learnt_one_alone_leads_to_no_new_master(void **state)
{
    static const char said[] = " as master, which a listed sentinel has to confirm";
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    struct hold *A, *B;
    struct peer *a;

    (void)state;
    options.lease_ms = 120000;
    options.wait_ms = -1;
    watch();
    a = learn_the_second("", NULL);
    A = acquire_hold_with(a, "A", "x", &options);
    EXPECT("A granted");
    replicate();
    sentinel_pause(&sentinel);
    sentinel_fail_over(&second);
    UNTIL(!a->up && peer_logged(a, said) && strstr(a->why, said) != NULL);
    B = acquire_hold(a, "B", "y", 100);
    EXPECT("B ETIMEOUT");
    assert_non_null(strstr(lw_lock_errstr(B->lock), said));
    (void)acquire_hold(a, "C", "y", -1);
    assert_int_equal(replica_says("CLIENT LIST", " name=test-a "), 0);
    (void)followed_for(a, master_port);
    sentinel_resume(&sentinel);
    EXPECT("C granted");
    assert_true(is_at_the_replica(a));
    release_hold(A);
    EXPECT("A released OK");
    assert_int_equal(peer_stats(a).failovers, 1);
}

/* These sentinels reply to nothing before AUTH. */
static void sentinels_with_a_password_are_learnt(void **state)
{
    static const char more[] = "requirepass secret\nsentinel sentinel-pass secret\n";

    (void)state;
    watch_more(more, "secret");

    struct peer *a = learn_the_second(more, "secret");

    sentinel_fail_over(&second);
    UNTIL(is_at_the_replica(a));
    assert_null(strstr(a->log, "MYID"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(the_master_is_found_and_what_it_lacks_is_told),
        STAGE_TEST(a_switch_begins_the_master_s_time_anew),
        STAGE_TEST(a_failover_by_order_is_followed_by_both_links),
        STAGE_TEST(a_watch_goes_on_at_the_new_master),
        STAGE_TEST(a_holder_is_asked_at_the_new_master),
        STAGE_TEST(a_detached_lock_is_adopted_at_the_new_master),
        STAGE_TEST(who_leads_a_failover_leads_nobody_to_the_old_master),
        STAGE_TEST(an_account_at_the_sentinel_is_enough),
        STAGE_TEST(what_a_sentinel_denies_is_logged_with_its_price),
        STAGE_TEST(a_foreign_sentinel_at_a_learnt_address_leads_nowhere),
        STAGE_TEST(a_foreign_sentinel_keeps_nobody_from_the_master),
        STAGE_TEST(a_learnt_one_alone_leads_to_no_new_master),
        STAGE_TEST(sentinels_with_a_password_are_learnt),
        STAGE_TEST(the_master_dies_and_its_replica_goes_on),
        STAGE_TEST(a_limit_goes_on_at_the_new_master),
        STAGE_TEST(sets_are_acquired_through_a_failover_by_order),
        STAGE_TEST(sets_are_acquired_when_the_master_has_died),
        STAGE_TEST(who_waits_as_redisson_does_is_woken_at_the_new_master),
        STAGE_TEST(a_hold_that_the_new_master_does_not_know_is_lost),
        STAGE_TEST(a_master_that_stood_still_is_left_though_it_lives_on),
    };

    return STAGE_RUN(tests);
}

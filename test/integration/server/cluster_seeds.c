/* SPDX-License-Identifier: MIT */
/*
 * What a client reports if it cannot use its cluster: seeds that are not in a cluster, or
 * are dead or silent next to a good one; slots without an owner; a cluster that reports
 * itself down; a wrong password; and a node of a cluster behind redis://. The client goes
 * on by itself once the fault is repaired.
 *
 * Usual course: there is a fault, and `link`, lw_lock_errstr and the log report the
 * reason.
 */
#include "cluster_players.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct peer *start_with(const char *label, const char *url, const char *password)
{
    return peer_start_at(label, url,
                         client_of(.local_turns = 1, .password = password,
                                   .backoff_min_ms = 20, .backoff_max_ms = 100,
                                   .connect_timeout_ms = 2000,
                                   .request_timeout_ms = 2000));
}

static struct peer *start(const char *label, const char *format, int port)
{
    char url[160];

    (void)snprintf(url, sizeof(url), format, port,
                   cluster_count() ? cluster_hosts() : "");
    return start_with(label, url, NULL);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) {
        stage_fail("\"%s\" has no \"%s\"", text, part);
    }
}

/* Tries the lock once, and waits for it until a time-out. Both requests report the
 * reason. */
static void is_told(struct peer *peer, const char *name, int error, const char *why)
{
    struct hold *A = acquire_hold(peer, "A", name, 0),
                *B = acquire_hold(peer, "B", name, 200);

    UNTIL(A->result != PENDING && B->result != PENDING);
    if (A->result != error || B->result != LW_ETIMEOUT) {
        stage_fail("%s: %s; %s: %s", status_name(A->result), lw_lock_errstr(A->lock),
                   status_name(B->result), lw_lock_errstr(B->lock));
    }
    assert_has(lw_lock_errstr(A->lock), why);
    assert_has(lw_lock_errstr(B->lock), why);
    free_hold(A);
    free_hold(B);
    stage_clear_trace();
}

static void serves(struct peer *peer, const char *name)
{
    struct hold *A = hold_of(peer, "A", name, &kinds[0], 0);

    assert_held(A);
    end(A);
}

/* ---- seeds ---- */

static void a_server_without_cluster_says_so(void **state)
{
    char place[32];
    struct peer *a;
    int port = server_listen(&stage.server);

    (void)state;
    (void)snprintf(place, sizeof(place), "127.0.0.1:%d: ", port);
    a = start("a", "redis-cluster://127.0.0.1:%d", port);
    UNTIL(a->downs > 1);
    assert_int_equal(a->ups, 0);
    assert_has(a->why, place);
    assert_has(a->why, "cluster support disabled");
    is_told(a, "x", LW_ECONN, "cluster support disabled");
}

static void nobody_there_is_told(void **state)
{
    int port = 0, fd = server_reserve_port(&port);
    struct peer *a;

    (void)state;
    a = start("a", "redis-cluster://127.0.0.1:%d", port);
    UNTIL(a->downs > 1);
    assert_has(a->why, "onnection refused");
    is_told(a, "x", LW_ECONN, "onnection refused");
    close(fd);
}

static void a_dead_seed_beside_good_ones_is_no_matter(void **state)
{
    int port = 0, fd = server_reserve_port(&port);

    (void)state;
    cluster_set(3, 0, "");
    struct peer *a = start("a", "redis-cluster://127.0.0.1:%d,%s", port);
    UNTIL(a->up);
    assert_int_equal(a->downs, 0);
    serves(a, "x");
    close(fd);
}

static void a_silent_seed_is_not_waited_for(void **state)
{
    int port = server_listen(&stage.server);
    int64_t begun_ms;

    (void)state;
    cluster_set(3, 0, "");
    server_pause(&stage.server);
    begun_ms = now_ms();
    struct peer *a = start("a", "redis-cluster://127.0.0.1:%d,%s", port);
    UNTIL(a->up);
    assert_int_equal(a->downs, 0);
    stage_skip_if_lag(500);
    assert_true(now_ms() - begun_ms < 2000);
    server_resume(&stage.server);
    serves(a, "x");
}

static void a_wrong_password_is_told(void **state)
{
    (void)state;
    cluster_set(3, 0, "");
    for (int i = 0; i < 3; i++) {
        freeReplyObject(
            server_command(cluster_server(i), "CONFIG SET requirepass secret"));
    }
    struct peer *a = start_with("a", cluster_url(), "no secret");
    UNTIL(a->downs > 0);
    assert_int_equal(a->ups, 0);
    assert_has(a->why, "WRONGPASS");
    end(hold_of(start_with("b", cluster_url(), "secret"), "A", "x", &kinds[0], 0));
}

/* ---- incomplete clusters ---- */

static int slots_assigned(int node)
{
    redisReply *reply = server_command(cluster_server(node), "CLUSTER INFO");
    const char *found = strstr(reply->str, "cluster_slots_assigned:");
    int count = found ? (int)strtol(strchr(found, ':') + 1, NULL, 10) : -1;

    freeReplyObject(reply);
    return count;
}

/* Removes the slots from their owner first, since each of an owner's messages informs the
 * others that the slots are its own. A message that it sent before may still arrive. So
 * all nodes are asked until each has reported twice in a row that the slots have no
 * owner. */
static void take_away_the_last_slots(void)
{
    int64_t until_ms = now_ms() + STAGE_WAIT_MS;

    for (int node = cluster_count() - 1, agree = 0; agree < 2 * cluster_count();
         node = (node + 1) % cluster_count()) {
        if (slots_assigned(node) == 10922) {
            agree++;
            continue;
        }
        if (now_ms() > until_ms) {
            stage_fail("node %d still knows of the slots", node);
        }
        agree = 0;
        freeReplyObject(
            server_command(cluster_server(node), "CLUSTER DELSLOTSRANGE 10922 16383"));
    }
}

static void slots_that_nobody_has_lead_nowhere(void **state)
{
    struct peer *a, *b;
    struct hold *B;
    const char *lost, *other;

    (void)state;
    cluster_set(3, 0, "--cluster-require-full-coverage no");
    cluster_need_places(); /* for DELSLOTSRANGE, which also came with Redis 7 */
    lost = name_at(2, 0);
    other = name_at(1, 0);
    a = client("a");
    serves(a, lost);
    take_away_the_last_slots();
    b = client("b");
    is_told(b, lost, LW_ECONN, "no node of the cluster serves the slot");
    serves(b, other);
    B = acquire_hold(b, "B", lost, -1);
    freeReplyObject(
        server_command(cluster_server(2), "CLUSTER ADDSLOTSRANGE 10922 16383"));
    UNTIL(B->result != PENDING);
    assert_int_equal(B->result, LW_OK);
    end(B);
    serves(a, lost);
}

static bool is_down(int node)
{
    redisReply *reply = server_command(cluster_server(node), "CLUSTER INFO");
    bool down = strstr(reply->str, "cluster_state:fail") != NULL;

    freeReplyObject(reply);
    return down;
}

static void a_cluster_that_calls_itself_down_says_so(void **state)
{
    struct peer *a, *b;
    struct hold *A, *B;
    const char *held, *other;

    (void)state;
    cluster_set(3, 0, "");
    held = name_at(0, 0);
    other = name_at(0, 1);
    a = client("a");
    A = hold_of(a, "A", held, &kinds[0], 0);
    server_kill(cluster_server(2));
    UNTIL(is_down(0) && is_down(1));
    is_told(a, other, LW_ECONN, "CLUSTERDOWN");
    b = client("b");
    is_told(b, other, LW_ECONN, "CLUSTERDOWN");
    B = acquire_hold(b, "B", other, -1);
    server_restart(cluster_server(2));
    UNTIL(B->result != PENDING);
    assert_int_equal(B->result, LW_OK);
    assert_int_equal(A->lost, PENDING);
    end(A);
    end(B);
}

/* ---- nodes that are in no cluster, or in another one ---- */

/* Makes the node forget the cluster. It keeps its address, which the cluster's other
 * nodes know, and may get slots of its own. */
static void stand_alone(int node)
{
    cluster_leave_out(node, true);
    freeReplyObject(server_command(cluster_server(node), "FLUSHALL"));
    freeReplyObject(server_command(cluster_server(node), "CLUSTER RESET HARD"));
}

static void add_slots(int node, int first, int last)
{
    freeReplyObject(
        server_command(cluster_server(node), "CLUSTER ADDSLOTSRANGE %d %d", first, last));
}

static bool calls_itself_well(int node)
{
    return !is_down(node);
}

/* The node has some of the slots, so it does not know where the others are. */
static void a_first_seed_that_stands_alone_is_not_believed(void **state)
{
    struct peer *a;
    int alone;

    (void)state;
    cluster_set(3, 0, "--cluster-require-full-coverage no");
    cluster_need_places(); /* for ADDSLOTSRANGE, which also came with Redis 7 */
    alone = cluster_add();
    stand_alone(alone);
    add_slots(alone, 0, 8000);
    UNTIL(calls_itself_well(alone));
    a = start("a", "redis-cluster://127.0.0.1:%d,%s", cluster_port(alone));
    UNTIL(a->up);
    assert_int_equal(a->downs, 0);
    for (int node = 0; node < 3; node++) {
        serves(a, name_at(node, 0));
    }
}

static void pause_all_but(int node)
{
    for (int i = 0; i < cluster_count(); i++) {
        if (i != node) {
            server_pause(cluster_server(i));
        }
    }
}

static void resume_all_but(int node)
{
    for (int i = 0; i < cluster_count(); i++) {
        if (i != node) {
            server_resume(cluster_server(i));
        }
    }
}

/* A lock granted at that address would not be in the cluster. The other nodes are paused,
 * so none of them can report the change. */
static void an_address_that_went_to_another_cluster_is_not_used(void **state)
{
    struct peer *a;
    struct hold *A;
    redisReply *reply;
    const char *name;
    int added;

    (void)state;
    cluster_set(3, 0, "--cluster-require-full-coverage no");
    cluster_need_places();
    added = cluster_add();
    name = name_at(0, 0);
    cluster_move(cluster_slot(name), added);
    a = start("a", "redis-cluster://127.0.0.1:%d", cluster_port(0));
    A = hold_of(a, "A", name, &kinds[0], 60000);
    pause_all_but(added);
    stand_alone(added);
    add_slots(added, 0, CLUSTER_SLOTS - 1);
    UNTIL(calls_itself_well(added));
    freeReplyObject(server_command(cluster_server(added), "CLIENT KILL TYPE normal"));
    UNTIL(peer_logged(a, ": this is node "));
    struct hold *B = acquire_hold(a, "B", name, 1000);
    UNTIL(B->result != PENDING);
    assert_int_equal(B->result, LW_ETIMEOUT);
    reply = server_command(cluster_server(added), "DBSIZE");
    assert_int_equal(reply->integer, 0);
    freeReplyObject(reply);
    free_hold(A);
    free_hold(B);
    stage_clear_trace();
    resume_all_but(added);
    serves(a, name_at(1, 0));
}

/* Redis, and Valkey before 9, refuse SELECT; Valkey 9 has one database by default. */
static void a_database_that_the_nodes_lack_is_reported(void **state)
{
    char url[512];
    struct peer *a;

    (void)state;
    cluster_set(3, 0, "");
    (void)snprintf(url, sizeof(url), "%s/3", cluster_url());
    a = start_with("a", url, NULL);
    UNTIL(a->downs > 1);
    assert_int_equal(a->ups, 0);
    assert_has(a->why, "SELECT: ERR ");
    if (strstr(a->why, "DB index is out of range") == NULL) {
        assert_has(a->why, "(use database 0, or Valkey 9 with cluster-databases)");
    }
    is_told(a, "x", LW_ECONN, "SELECT: ERR ");
}

/* Valkey 9. Each node is connected to when its first lock is acquired. */
static void a_database_is_used_at_each_node(void **state)
{
    redisReply *known = server_command(&stage.server, "CONFIG GET cluster-databases");
    bool has_databases = known->elements == 2;
    char url[512];
    struct peer *a;

    (void)state;
    freeReplyObject(known);
    if (!has_databases) {
        skip();
    }
    cluster_set(3, 0, "--cluster-databases 16");
    (void)snprintf(url, sizeof(url), "%s/3", cluster_url());
    a = start_with("a", url, NULL);
    for (int node = 0; node < 3; node++) {
        const char *name = name_at(node, 0);
        struct hold *A = hold_of(a, "A", name, &kinds[0], 0);

        for (int database = 0; database <= 3; database += 3) {
            redisReply *reply;

            freeReplyObject(server_command(cluster_server(node), "SELECT %d", database));
            reply = server_command(cluster_server(node), "EXISTS %s", name);
            assert_int_equal(reply->integer, database == 3);
            freeReplyObject(reply);
        }
        freeReplyObject(server_command(cluster_server(node), "SELECT 0"));
        end(A);
    }
}

/* ---- a node without its cluster ---- */

static void a_node_behind_the_url_of_one_server_says_which(void **state)
{
    struct peer *a;
    const char *there;

    (void)state;
    cluster_set(3, 0, "");
    there = name_at(1, 0);
    a = start("a", "redis://127.0.0.1:%d", cluster_port(0));
    UNTIL(a->up);
    assert_true(peer_logged(a, "redis-cluster://"));
    struct hold *B = acquire_hold(a, "B", there, 0);
    UNTIL(B->result != PENDING);
    assert_int_equal(B->result, LW_EREDIS);
    assert_has(lw_lock_errstr(B->lock), "MOVED");
    stage_clear_trace();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_server_without_cluster_says_so),
        STAGE_TEST(nobody_there_is_told),
        STAGE_TEST(a_dead_seed_beside_good_ones_is_no_matter),
        STAGE_TEST(a_silent_seed_is_not_waited_for),
        STAGE_TEST(a_wrong_password_is_told),
        STAGE_TEST(slots_that_nobody_has_lead_nowhere),
        STAGE_TEST(a_cluster_that_calls_itself_down_says_so),
        STAGE_TEST(a_first_seed_that_stands_alone_is_not_believed),
        STAGE_TEST(an_address_that_went_to_another_cluster_is_not_used),
        STAGE_TEST(a_database_that_the_nodes_lack_is_reported),
        STAGE_TEST(a_database_is_used_at_each_node),
        STAGE_TEST(a_node_behind_the_url_of_one_server_says_which),
    };

    return STAGE_RUN(tests);
}

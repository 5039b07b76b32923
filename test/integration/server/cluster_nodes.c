/* SPDX-License-Identifier: MIT */
/*
 * What a real cluster replies while nodes change their roles, die, are added and removed,
 * and which hosts it reports for them: facts like those of cluster_slots.c. Independent
 * of lockwire.
 *
 * Usual course: cluster_set, a node changes, and a test checks the replies of the others
 * about its slots.
 */
#include "cluster_scene.h"

#include <stdio.h>
#include <string.h>

/* ---- changes of the master ---- */

/* A replica that takes over gets the slots. The former master follows it, and redirects
 * all clients to it. */
static void a_takeover_moves_all_slots(void **state)
{
    int slot, owner, replica;

    (void)state;
    cluster_set(3, 3, "");
    slot = cluster_slot(NAME);
    owner = cluster_owner(slot);
    replica = owner + 3;
    give_keys(owner);
    cluster_fail_over(replica, "TAKEOVER");
    cluster_promoted(replica);
    assert_int_equal(cluster_owner(slot), replica);
    assert_string_equal(answer_of(owner, "SET " NAME " 2"),
                        redirect("MOVED", slot, replica));
    assert_string_equal(answer_of(owner, THREE), redirect("MOVED", slot, replica));
    assert_begins(answer_of(replica, "SET " NAME " 2"), "OK");
}

/* A planned failover loses no writes. It is then reversed. */
static void a_planned_failover_keeps_all_keys(void **state)
{
    int slot, owner, replica;

    (void)state;
    cluster_set(3, 3, "");
    slot = cluster_slot(NAME);
    owner = cluster_owner(slot);
    replica = owner + 3;
    give_keys(owner);
    cluster_fail_over(replica, "");
    cluster_promoted(replica);
    assert_string_equal(answer_of(replica, THREE), "3");
    cluster_fail_over(owner, "");
    cluster_promoted(owner);
    assert_string_equal(answer_of(owner, THREE), "3");
    assert_string_equal(answer_of(replica, THREE), redirect("MOVED", slot, owner));
}

/* The other masters elect its replica. The old master follows it after a restart. */
static void a_dead_masters_replica_takes_over(void **state)
{
    int slot, owner, replica;

    (void)state;
    cluster_set(3, 3, "");
    slot = cluster_slot(NAME);
    owner = cluster_owner(slot);
    replica = owner + 3;
    server_kill(cluster_server(owner));
    cluster_promoted(replica);
    assert_int_equal(cluster_owner(slot), replica);
    assert_string_equal(answer_of(replica, "SET " NAME " 2"), "OK");
    server_restart(cluster_server(owner));
    cluster_stand();
    assert_string_equal(answer_of(owner, "GET " NAME), redirect("MOVED", slot, replica));
}

/* The same for a master that hung. It continues as a master until it hears of its
 * successor. */
static void a_stopped_masters_replica_takes_over(void **state)
{
    int slot, owner, replica;

    (void)state;
    cluster_set(3, 3, "");
    slot = cluster_slot(NAME);
    owner = cluster_owner(slot);
    replica = owner + 3;
    server_pause(cluster_server(owner));
    cluster_promoted(replica);
    server_resume(cluster_server(owner));
    cluster_stand();
    assert_int_equal(cluster_owner(slot), replica);
    assert_string_equal(answer_of(owner, "GET " NAME), redirect("MOVED", slot, replica));
}

/* If no replica takes over, all nodes refuse all slots with CLUSTERDOWN (unless
 * cluster-require-full-coverage is "no"). CLUSTER SLOTS still lists the former owners. */
static void without_a_replica_all_are_down(void **state)
{
    int slot, owner, other;

    (void)state;
    cluster_set(3, 0, "");
    slot = cluster_slot(NAME);
    owner = cluster_owner(slot);
    other = other_than(owner);
    server_kill(cluster_server(owner));
    UNTIL(strncmp(answer_of(other, "GET " NAME), "CLUSTERDOWN ", 12) == 0);
    assert_string_equal(answer_of(other, THREE), "CLUSTERDOWN The cluster is down");
    assert_int_equal(cluster_owner_by(other, slot), owner);
    server_restart(cluster_server(owner));
    cluster_stand();
    assert_string_equal(answer_of(owner, "GET " NAME), "");
}

/* The cluster is incomplete: some slots have no owner. */
static void a_slot_of_nobodys_is_not_served(void **state)
{
    int slot, owner, other;
    char command[64];

    (void)state;
    cluster_set(3, 0, "--cluster-require-full-coverage no");
    slot = cluster_slot(NAME);
    owner = cluster_owner(slot);
    other = other_than(owner);
    (void)snprintf(command, sizeof(command), "CLUSTER DELSLOTS %d", slot);
    assert_string_equal(answer_of(owner, command), "OK");
    assert_string_equal(answer_of(owner, "GET " NAME),
                        "CLUSTERDOWN Hash slot not served");
    assert_int_equal(cluster_owner_by(owner, slot), -1);
    assert_string_equal(answer_of(other, command), "OK");
    assert_string_equal(answer_of(other, "GET " NAME),
                        "CLUSTERDOWN Hash slot not served");
}

/* ---- nodes are added and removed ---- */

/* A node without slots is not in the slot map, and redirects like any other node. A
 * master that loses its last slot becomes a replica of the slot's new owner (since Redis
 * 7). */
static void a_node_is_added_and_forgotten(void **state)
{
    int slot, owner, added;

    (void)state;
    cluster_set(3, 0, "");
    slot = cluster_slot(NAME);
    owner = cluster_owner(slot);
    added = cluster_add();
    assert_string_equal(answer_of(added, "GET " NAME), redirect("MOVED", slot, owner));
    give_keys(owner);
    cluster_move(slot, added);
    assert_string_equal(answer_of(added, THREE), "3");
    assert_string_equal(answer_of(owner, THREE), redirect("MOVED", slot, added));
    cluster_move(slot, owner);
    cluster_forget(added);
    assert_string_equal(answer_of(owner, THREE), "3");
    cluster_check();
}

/* ---- the hosts that nodes announce ---- */

static const redisReply *first_master(redisReply **slots)
{
    *slots = server_command(cluster_server(0), "CLUSTER SLOTS");
    return (*slots)->element[0]->element[2];
}

static bool takes(const char *setting)
{
    for (int i = 0; i < cluster_count(); i++) {
        if (strcmp(answer_of(i, setting), "OK") != 0) {
            return false; /* before Redis 7 */
        }
    }
    return true;
}

/* Node 0 is asked, and owns the first slots. It describes itself like other nodes. */
static void nodes_have_names(void **state)
{
    const redisReply *master;
    redisReply *slots;
    int slot, owner, other;
    char text[80];

    (void)state;
    cluster_set(3, 0, "");
    if (!takes("CONFIG SET cluster-announce-hostname node.example")) {
        skip();
    }
    master = first_master(&slots);
    assert_string_equal(master->element[0]->str, "127.0.0.1");
    assert_string_equal(master->element[3]->element[0]->str, "hostname");
    assert_string_equal(master->element[3]->element[1]->str, "node.example");
    freeReplyObject(slots);

    assert_true(takes("CONFIG SET cluster-preferred-endpoint-type hostname"));
    master = first_master(&slots);
    assert_string_equal(master->element[0]->str, "node.example");
    assert_string_equal(master->element[3]->element[0]->str, "ip");
    assert_string_equal(master->element[3]->element[1]->str, "127.0.0.1");
    freeReplyObject(slots);
    slot = cluster_slot(NAME);
    owner = cluster_owner(slot);
    other = other_than(owner);
    (void)snprintf(text, sizeof(text), "MOVED %d node.example:%d", slot,
                   cluster_port(owner));
    /* Nodes inform each other with a delay. */
    UNTIL(strcmp(answer_of(other, "GET " NAME), text) == 0);
    cluster_check();
}

/* The client is to use the host that it asked: the slot map has nil for the host, and a
 * redirect has nothing before the port. */
static void nodes_have_no_known_endpoint(void **state)
{
    const redisReply *master;
    redisReply *slots;
    int slot, owner;
    char text[80];

    (void)state;
    cluster_set(3, 0, "");
    if (!takes("CONFIG SET cluster-preferred-endpoint-type unknown-endpoint")) {
        skip();
    }
    master = first_master(&slots);
    assert_int_equal(master->element[0]->type, REDIS_REPLY_NIL);
    assert_int_equal(master->element[1]->integer, cluster_port(0));
    assert_string_equal(master->element[3]->element[0]->str, "ip");
    freeReplyObject(slots);
    slot = cluster_slot(NAME);
    owner = cluster_owner(slot);
    (void)snprintf(text, sizeof(text), "MOVED %d :%d", slot, cluster_port(owner));
    assert_string_equal(answer_of(other_than(owner), "GET " NAME), text);
    cluster_check();
}

/* "?" stands for a preferred hostname that was not announced. */
static void a_name_is_preferred_and_not_there(void **state)
{
    const redisReply *master;
    redisReply *slots;

    (void)state;
    cluster_set(3, 0, "");
    if (!takes("CONFIG SET cluster-preferred-endpoint-type hostname")) {
        skip();
    }
    master = first_master(&slots);
    assert_string_equal(master->element[0]->str, "?");
    freeReplyObject(slots);
    cluster_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_takeover_moves_all_slots),
        STAGE_TEST(a_planned_failover_keeps_all_keys),
        STAGE_TEST(a_dead_masters_replica_takes_over),
        STAGE_TEST(a_stopped_masters_replica_takes_over),
        STAGE_TEST(without_a_replica_all_are_down),
        STAGE_TEST(a_slot_of_nobodys_is_not_served),
        STAGE_TEST(a_node_is_added_and_forgotten),
        STAGE_TEST(nodes_have_names),
        STAGE_TEST(nodes_have_no_known_endpoint),
        STAGE_TEST(a_name_is_preferred_and_not_there),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/*
 * What a real cluster replies about keys, slots that move, and channels: the facts that a
 * client relies on, by plain commands alone. If a new version of a server changes one,
 * these tests find it first. Independent of lockwire.
 *
 * Usual course: cluster_set, a command at one node, its exact reply.
 */
#include "cluster_scene.h"

#include <stdio.h>
#include <string.h>

/* ---- the slot of a name ---- */

static bool all_list_a_replica(int node)
{
    redisReply *slots = server_command(cluster_server(node), "CLUSTER SLOTS");
    bool yes = slots->elements == 3;

    for (size_t i = 0; i < slots->elements; i++) {
        yes = yes && slots->element[i]->elements == 4;
    }
    freeReplyObject(slots);
    return yes;
}

/* All slots have a master, which is listed first. A replica is listed only when the node
 * that is asked has heard that the replica has the data. */
static void comes_up(void **state)
{
    redisReply *slots;
    long long covered = 0;

    (void)state;
    cluster_set(3, 3, "");
    UNTIL(all_list_a_replica(4));
    slots = server_command(cluster_server(4), "CLUSTER SLOTS");
    assert_int_equal(slots->elements, 3);
    for (int i = 0; i < 3; i++) {
        redisReply **range = slots->element[i]->element;
        int master = cluster_at((int)range[2]->element[1]->integer);
        assert_int_equal(slots->element[i]->elements, 4);
        covered += range[1]->integer - range[0]->integer + 1;
        assert_in_range(master, 0, 2);
        assert_string_equal(range[2]->element[0]->str, "127.0.0.1");
        assert_string_equal(range[2]->element[2]->str, cluster_id(master));
        assert_string_equal(range[3]->element[2]->str, cluster_id(master + 3));
    }
    assert_int_equal(covered, CLUSTER_SLOTS);
    freeReplyObject(slots);
}

/* A node that does not own the slot redirects to the one that does, also for scripts, and
 * also if the node is a replica. Keys of two slots are refused everywhere, before any
 * look-up. */
static void the_wrong_node_tells_the_right_one(void **state)
{
    int slot, owner, other;

    (void)state;
    cluster_set(3, 3, "");
    slot = cluster_slot(NAME);
    owner = cluster_owner(slot);
    other = other_than(owner);
    assert_int_equal(cluster_slot(QUEUE), slot);
    give_keys(owner);
    assert_string_equal(answer_of(other, "SET " NAME " 2"),
                        redirect("MOVED", slot, owner));
    assert_string_equal(answer_of(other, THREE), redirect("MOVED", slot, owner));
    assert_string_equal(answer_of(owner + 3, "GET " NAME),
                        redirect("MOVED", slot, owner));
    assert_string_equal(answer_of(owner, THREE), "3");
    assert_begins(answer_of(owner, "MGET " NAME " elsewhere"), "CROSSSLOT ");
    assert_begins(answer_of(other, "EVAL return%s1 2 " NAME " elsewhere"), "CROSSSLOT ");
    cluster_check();
}

/* A transaction, SCRIPT LOAD, PING, TIME, PUBSUB and a script without keys have no slot:
 * any node accepts them. Each command in a write gets its own reply; a redirect of one
 * does not affect those behind it. */
static void each_command_is_answered_for_itself(void **state)
{
    redisContext *link;
    void *reply;
    int slot, owner;

    (void)state;
    cluster_set(3, 0, "");
    slot = cluster_slot(NAME);
    owner = cluster_owner(slot);
    link = cluster_server(other_than(owner))->admin;
    assert_int_equal(redisAppendCommand(link, "SET " NAME " 1"), REDIS_OK);
    assert_int_equal(redisAppendCommand(link, "EVAL return%s7 0", " "), REDIS_OK);
    assert_int_equal(redisGetReply(link, &reply), REDIS_OK);
    assert_string_equal(((redisReply *)reply)->str, redirect("MOVED", slot, owner));
    freeReplyObject(reply);
    assert_int_equal(redisGetReply(link, &reply), REDIS_OK);
    assert_int_equal(((redisReply *)reply)->integer, 7);
    freeReplyObject(reply);
    cluster_check();
}

/* A cluster has only one database. A server without cluster mode refuses CLUSTER and
 * ASKING. */
static void what_one_server_says(void **state)
{
    redisReply *reply;

    (void)state;
    cluster_set(3, 0, "");
    assert_begins(answer_of(0, "SELECT 1"), "ERR ");
    reply = server_try(&stage.server, "CLUSTER SLOTS");
    assert_string_equal(reply->str, "ERR This instance has cluster support disabled");
    freeReplyObject(reply);
    reply = server_try(&stage.server, "ASKING");
    assert_string_equal(reply->str, "ERR This instance has cluster support disabled");
    freeReplyObject(reply);
    cluster_check();
}

/* ---- a slot that moves ---- */

/* The old node serves a key that it still has, and redirects to the new node for one that
 * it lacks (ASK). A command with several keys gets TRYAGAIN if only some of them are
 * there. The new node redirects back (MOVED), except after ASKING. */
static void of_a_moving_slot_one_key_is_asked_for(void **state)
{
    int slot, from, to;

    (void)state;
    cluster_set(3, 0, "");
    slot = cluster_slot(NAME);
    from = cluster_owner(slot);
    to = other_than(from);
    assert_string_equal(answer_of(from, "SET " NAME " 1"), "OK");
    cluster_begin(slot, to);
    assert_string_equal(answer_of(from, "GET " NAME), "1");
    assert_string_equal(answer_of(from, ONE), "1");
    assert_string_equal(answer_of(to, "GET " NAME), redirect("MOVED", slot, from));
    cluster_carry_key(NAME, to);
    assert_string_equal(answer_of(from, "GET " NAME), redirect("ASK", slot, to));
    assert_string_equal(answer_of(from, ONE), redirect("ASK", slot, to));
    assert_string_equal(answer_of(to, "GET " NAME), redirect("MOVED", slot, from));
    assert_string_equal(answer_if_asking(to, "GET " NAME), "1");
    assert_string_equal(answer_if_asking(to, ONE), "1");
    assert_string_equal(answer_of(to, "GET " NAME), redirect("MOVED", slot, from));
    assert_string_equal(answer_if_asking(to, "SET " NAME " 2 NX"), "");
    cluster_end(slot, to);
    assert_string_equal(answer_of(to, "GET " NAME), "1");
    assert_string_equal(answer_of(from, "GET " NAME), redirect("MOVED", slot, to));
    cluster_check();
}

static const char *try_to_carry(const char *key, int from, int to)
{
    char command[128];

    (void)snprintf(command, sizeof(command), "MIGRATE 127.0.0.1 %d %s 0 10000",
                   cluster_main_port(to), key);
    return answer_of(from, command);
}

/* While SET of the name is redirected, a fence counter at the old node still counts
 * there. A client that draws from it after ASKING begins a second counter at the new
 * node, and then the first one cannot be moved. */
static void an_ask_is_for_its_key_alone(void **state)
{
    int slot, from, to;

    (void)state;
    cluster_set(3, 0, "");
    slot = cluster_slot(NAME);
    from = cluster_owner(slot);
    to = other_than(from);
    assert_string_equal(answer_of(from, "SET " FENCE " 1000"), "OK");
    cluster_begin(slot, to);
    assert_string_equal(answer_of(from, "SET " NAME " 1 NX"), redirect("ASK", slot, to));
    assert_string_equal(answer_if_asking(to, "SET " NAME " 1 NX"), "OK");
    assert_string_equal(answer_of(from, "INCR " FENCE), "1001");
    assert_string_equal(answer_if_asking(to, "INCR " FENCE), "1");
    assert_begins(try_to_carry(FENCE, from, to),
                  "ERR Target instance replied with error: BUSYKEY");
    assert_string_equal(answer_if_asking(to, "DEL " FENCE), "1");
    assert_string_equal(try_to_carry(FENCE, from, to), "OK");
    assert_string_equal(answer_of(from, "INCR " FENCE), redirect("ASK", slot, to));
    assert_string_equal(answer_if_asking(to, "INCR " FENCE), "1002");
    cluster_end(slot, to);
    cluster_check();
}

static void skip_before_redis_7(void)
{
    if (redis_info("redis_version") < 7) { /* Valkey reports 7 in this field */
        skip();
    }
}

/* A command with three keys is served if the old node has all of them, and gets TRYAGAIN
 * if it has some. If it has none, it replies ASK, and the new node replies TRYAGAIN while
 * one of them is missing, even if that was never written. */
static void of_a_moving_slot_three_keys_are_to_be_tried_again(void **state)
{
    int slot, from, to;

    (void)state;
    skip_before_redis_7(); /* 6.2 replies ASK whenever one key is missing */
    cluster_set(3, 0, "");
    slot = cluster_slot(NAME);
    from = cluster_owner(slot);
    to = other_than(from);
    give_keys(from);
    cluster_begin(slot, to);
    assert_string_equal(answer_of(from, THREE), "3");
    assert_begins(answer_if_asking(to, THREE), "TRYAGAIN ");
    cluster_carry_key(NAME, to);
    assert_begins(answer_of(from, THREE), "TRYAGAIN ");
    assert_begins(answer_if_asking(to, THREE), "TRYAGAIN ");
    cluster_carry_key(QUEUE, to);
    cluster_carry_key(FENCE, to);
    assert_string_equal(answer_of(from, THREE), redirect("ASK", slot, to));
    assert_string_equal(answer_if_asking(to, THREE), "3");
    assert_string_equal(answer_if_asking(to, "DEL " QUEUE), "1");
    assert_string_equal(answer_of(from, THREE), redirect("ASK", slot, to));
    assert_begins(answer_if_asking(to, THREE), "TRYAGAIN ");
    cluster_end(slot, to);
    assert_string_equal(answer_of(to, THREE), "2");
    cluster_check();
}

/* ASKING is valid for the next command only, even if that is a script which the node does
 * not know. */
static void asking_ends_with_noscript(void **state)
{
    static const char sha1[] = "EVALSHA 0123456789012345678901234567890123456789 1 " NAME;
    int slot, from, to;

    (void)state;
    cluster_set(3, 0, "");
    slot = cluster_slot(NAME);
    from = cluster_owner(slot);
    to = other_than(from);
    cluster_begin(slot, to);
    assert_begins(answer_if_asking(to, sha1), "NOSCRIPT ");
    assert_string_equal(answer_of(to, ONE), redirect("MOVED", slot, from));
    assert_string_equal(answer_if_asking(to, ONE), "0");
    cluster_end(slot, to);
    cluster_check();
}

/* After ASKING, a script that accesses an undeclared key finds it absent until the key
 * has moved. Before the slot moves, it may find it. */
static void an_undeclared_key_seems_absent(void **state)
{
    static const char look[] = "EVAL return%sredis.call('EXISTS','" QUEUE "') 1 " NAME;
    int slot, from, to;

    (void)state;
    cluster_set(3, 0, "");
    slot = cluster_slot(NAME);
    from = cluster_owner(slot);
    to = other_than(from);
    give_keys(from);
    assert_string_equal(answer_of(from, look), "1");
    cluster_begin(slot, to);
    cluster_carry_key(NAME, to);
    assert_string_equal(answer_if_asking(to, look), "0");
    cluster_carry(slot, to, -1);
    cluster_end(slot, to);
    assert_string_equal(answer_of(to, look), "1");
    cluster_check();
}

/* The servers move the slot in one step: no ASK, no TRYAGAIN. */
static void a_slot_moves_whole(void **state)
{
    int slot, from, to;

    (void)state;
    cluster_set(3, 0, "");
    slot = cluster_slot(NAME);
    from = cluster_owner(slot);
    to = other_than(from);
    give_keys(from);
    if (!cluster_move_whole(slot, to)) {
        skip();
    }
    assert_string_equal(answer_of(to, THREE), "3");
    assert_string_equal(answer_of(from, THREE), redirect("MOVED", slot, to));
    cluster_check();
}

/* ---- subscriptions ---- */

static redisContext *subscribe(int node, const char *command)
{
    redisContext *link = redisConnectUnix(cluster_server(node)->path);
    redisReply *reply;

    assert_non_null(link);
    reply = redisCommand(link, command);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR) {
        assert_begins(reply->str, "ERR unknown command"); /* before Redis 7 */
        freeReplyObject(reply);
        redisFree(link);
        skip();
    }
    assert_string_equal(reply->element[0]->str, "ssubscribe");
    freeReplyObject(reply);
    return link;
}

static void assert_pushed(redisContext *link, const char *kind)
{
    struct timeval limit = {.tv_sec = 30};
    void *reply = NULL;

    redisSetTimeout(link, limit);
    assert_int_equal(redisGetReply(link, &reply), REDIS_OK);
    assert_string_equal(((redisReply *)reply)->element[0]->str, kind);
    assert_string_equal(((redisReply *)reply)->element[1]->str, "heard:{job}");
    freeReplyObject(reply);
}

/* A message to a sharded channel is delivered, and subscribers are counted, only at the
 * node that owns its slot. When the slot moves, the node sends sunsubscribe, and the
 * connection goes on. */
static void a_shards_subscriber_is_told_that_the_slot_went(void **state)
{
    redisContext *link;
    int slot, from, to;

    (void)state;
    cluster_set(3, 0, "");
    slot = cluster_slot(NAME);
    from = cluster_owner(slot);
    to = other_than(from);
    link = subscribe(from, "SSUBSCRIBE heard:{job}");
    assert_string_equal(answer_of(from, "EVAL return%sredis.call('SPUBLISH',KEYS[1],'x')"
                                        " 1 heard:{job}"),
                        "1");
    assert_pushed(link, "smessage");
    assert_string_equal(answer_of(to, "SPUBLISH heard:{job} x"),
                        redirect("MOVED", slot, from));
    cluster_move(slot, to);
    assert_pushed(link, "sunsubscribe");
    assert_string_equal(answer_of(to, "SPUBLISH heard:{job} x"), "0");
    redisFree(link);
    cluster_check();
}

/* A replica accepts subscribers, too. They receive messages that are published at the
 * master, but the master does not count them. SHARDNUMSUB counts only the subscribers of
 * the node that is asked, whoever owns the slot. */
static void a_replicas_subscriber_is_not_counted(void **state)
{
    redisContext *link;
    redisReply *reply;
    int owner;

    (void)state;
    cluster_set(3, 3, "");
    owner = cluster_owner(cluster_slot(NAME));
    link = subscribe(owner + 3, "SSUBSCRIBE heard:{job}");
    assert_string_equal(answer_of(owner, "SPUBLISH heard:{job} x"), "0");
    assert_pushed(link, "smessage");
    reply = server_command(cluster_server(owner), "PUBSUB SHARDNUMSUB heard:{job}");
    assert_int_equal(reply->element[1]->integer, 0);
    freeReplyObject(reply);
    redisFree(link);
    cluster_check();
}

/* A message to a plain channel is delivered at all nodes, but PUBLISH and NUMSUB count
 * only the subscribers at the node that is asked. */
static void a_plain_message_is_heard_everywhere(void **state)
{
    redisContext *link;
    redisReply *reply;

    (void)state;
    cluster_set(3, 0, "");
    link = redisConnectUnix(cluster_server(1)->path);
    freeReplyObject(redisCommand(link, "SUBSCRIBE heard:{job}"));
    assert_string_equal(answer_of(0, "PUBLISH heard:{job} x"), "0");
    assert_pushed(link, "message");
    reply = server_command(cluster_server(0), "PUBSUB NUMSUB heard:{job}");
    assert_int_equal(reply->element[1]->integer, 0);
    freeReplyObject(reply);
    redisFree(link);
    cluster_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(comes_up),
        STAGE_TEST(the_wrong_node_tells_the_right_one),
        STAGE_TEST(each_command_is_answered_for_itself),
        STAGE_TEST(what_one_server_says),
        STAGE_TEST(of_a_moving_slot_one_key_is_asked_for),
        STAGE_TEST(an_ask_is_for_its_key_alone),
        STAGE_TEST(of_a_moving_slot_three_keys_are_to_be_tried_again),
        STAGE_TEST(asking_ends_with_noscript),
        STAGE_TEST(an_undeclared_key_seems_absent),
        STAGE_TEST(a_slot_moves_whole),
        STAGE_TEST(a_shards_subscriber_is_told_that_the_slot_went),
        STAGE_TEST(a_replicas_subscriber_is_not_counted),
        STAGE_TEST(a_plain_message_is_heard_everywhere),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/*
 * A client's claims at the fake nodes of a cluster: replies of one node do not affect
 * claims at another one, and a command that took effect is undone by a release.
 *
 * Usual course: start(); acquire(), which the fakes answer as the test has set; UNTIL the
 * request has completed, or a command has come.
 */
#include "cluster_scene.h"
#include "cluster_scene_inside.h"

#include "lock/lock_private.h"
#include "redis/format.h"
#include "skip_clock.h"

#include <stdio.h>
#include <string.h>

#define NUMBER ":1700000000000001"
#define QUEUED "$24\r\n60000 0 1700000000000000"
#define QUEUED_BEHIND "$24\r\n60000 9 1700000000000000" /* polls again in ten seconds */
#define QUEUED_UNBOUND "$44\r\n60000 -1 1700000000000000 1700000000000000 0"
#define REQUESTS 4

struct request {
    struct lw_lock *lock;
    int status; /* 1: not completed yet */
    char why[LW_WHY_SIZE];
};

static struct lw_client *client;
static struct request requests[REQUESTS];

static int end(void **state)
{
    for (int i = 0; i < REQUESTS; i++) {
        lw_lock_free(requests[i].lock);
    }
    lw_client_free(client);
    client = NULL;
    skip_idle_time(false);
    return scene_tear_down(state);
}

static void start(struct scene *scene)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    char url[64];

    options.claim_ms = 30000;
    options.request_timeout_ms = 60000;
    (void)snprintf(url, sizeof(url), "redis-cluster://127.0.0.1:%u",
                   (unsigned)scene->n[0].node.port);
    assert_int_equal(lw_client_new(scene->nodes.base, url, &options, &client), 0);
    (void)strcpy(client->holds.uuid, UUID); /* for drop_channel */
    memset(requests, 0, sizeof(requests));
}

static void done(struct lw_lock *lock, int status, void *arg)
{
    struct request *request = arg;

    request->status = status;
    (void)snprintf(request->why, sizeof(request->why), "%s", lw_lock_errstr(lock));
}

static struct request *acquire(int i, const char *name, int64_t wait_ms)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;

    options.wait_ms = wait_ms;
    options.lease_ms = 600000;
    requests[i].status = 1;
    assert_int_equal(
        lw_acquire(client, name, &options, done, &requests[i], &requests[i].lock), 0);
    return &requests[i];
}

/* Acquires the first name at its node, which therefore takes a script. */
static void hold(struct scene *scene, int i, const char *name, int node)
{
    char command[32];
    const struct request *request;

    (void)snprintf(command, sizeof(command), "EVALSHA %s", name);
    says(&scene->n[node - 1], command, NUMBER);
    request = acquire(i, name, -1);
    UNTIL(scene, request->status != 1);
    assert_int_equal(request->status, LW_OK);
}

/* Returns true if both have come, in this order. */
static bool came_both(const struct scene *scene, const char *first, const char *second)
{
    const char *at = strstr(scene->nodes.trace + scene->nodes.read, first);

    return at != NULL && strstr(at, second) != NULL;
}

/* At N1 a SET has failed and its fencing token is outstanding when a SET fails at N2:
 * each request fails with the error of its own node. */
static void test_an_error_of_set_is_that_of_its_own_node(void **state)
{
    struct scene *scene = *state;
    const struct request *one, *other;

    start(scene);
    hold(scene, 0, "b", 1);
    hold(scene, 1, "c", 2);
    pass(scene);
    says(&scene->n[0], "SET {b}2", "-ERR of the one");
    says(&scene->n[0], "SEED 3300", "");
    one = acquire(2, "{b}2", 0);
    UNTIL(scene, came(scene, "N1 < SET {b}2; "));
    says(&scene->n[1], "SET {c}2", "-ERR of the other");
    other = acquire(3, "{c}2", 0);
    UNTIL(scene, other->status != 1);
    assert_int_equal(other->status, LW_EREDIS);
    assert_string_equal(other->why, "ERR of the other");
    assert_int_equal(one->status, 1);
    lw_lock_free(requests[1].lock);
    says(&scene->n[0], "SET {b}3", NUMBER "\r\n+OK"); /* the outstanding token */
    requests[1] = (struct request){0};
    (void)acquire(1, "{b}3", 0);
    UNTIL(scene, one->status != 1);
    assert_int_equal(one->status, LW_EREDIS);
    assert_string_equal(one->why, "ERR of the one");
}

/* The slot is moving, so that SET is sent by itself. The command after it, which draws
 * the fencing token, is redirected to a node that is down, and so is never executed. */
static void test_a_name_that_was_set_is_let_go_of_although_its_number_was_not_sent(
    void **state)
{
    struct scene *scene = *state;
    const struct request *request;

    skip_clock_stop(); /* a node's number is used for 100 ms only */
    skip_idle_time(true);
    start(scene);
    hold(scene, 0, "x", 3);
    leave(&scene->n[3]);
    pass(scene);
    says(&scene->n[2], "SET {x}2", "-TRYAGAIN Multiple keys request during rehashing");
    says(&scene->n[2], "SEED 16287", NUMBER);
    says(&scene->n[2], "SET {x}2", "+OK");
    says(&scene->n[2], "INCR 16287", "-MOVED 16287 N4");
    for (int i = 0; i < NODES; i++) {
        scene->n[i].raw = ""; /* no map leads the command elsewhere before N4 refuses */
    }
    request = acquire(1, "{x}2", 0);
    UNTIL(scene, request->status != 1);
    assert_int_equal(request->status, LW_ECONN);
    for (int i = 0; i < NODES; i++) {
        scene->n[i].raw = NULL;
    }
    assert_non_null(strstr(request->why, "connecting to "));
    UNTIL(scene, came(scene, "N3 < EVALSHA {x}2; "));
}

static void hand_over(struct lw__claim *claim, struct lw__node *node)
{
    struct lw__token token = lw__claim_token(claim);
    char words[LW__TOKEN_SIZE], text[256];
    size_t length = lw__format_token(&token, words);

    length = (size_t)snprintf(text, sizeof(text),
                              "t %.*s 1700000000000017 %s 1700000000 5 x", (int)length,
                              words, lw__node_server(node));
    lw__claim_message(&client->holds, text, length);
}

/* The lock was handed over when its slot began to move; the message is on its way, or
 * lost. */
static void test_a_name_that_is_its_own_already_is_found(void **state)
{
    struct scene *scene = *state;
    const struct request *request;

    start(scene);
    says(&scene->n[2], "EVALSHA x", QUEUED_UNBOUND);
    says(&scene->n[2], "EVALSHA x", QUEUED);
    request = acquire(0, "x", -1);
    UNTIL(scene, came_both(scene, "N3 < SSUBSCRIBE 16287; ", "N3 < EVALSHA x; "));
    UNTIL(scene,
          lw__name_find(&client->holds, "x")->claims->command.request.prev == NULL);
    pass(scene);
    says(&scene->n[2], "EVALSHA x", "-TRYAGAIN Multiple keys request during rehashing");
    says(&scene->n[2], "SET x", "$-1");
    says(&scene->n[2], "EVALSHA x", "*1\r\n:1");
    says(&scene->n[2], "SEED 16287", NUMBER);
    lw__retry_all(&client->holds, lw__route_find(client->route, "x", NULL), true);
    UNTIL(scene, request->status != 1);
    assert_int_equal(request->status, LW_OK);
}

static void test_who_is_not_heard_does_not_queue(void **state)
{
    struct scene *scene = *state;

    start(scene);
    says_always(&scene->n[2], "SSUBSCRIBE", "");
    says(&scene->n[2], "EVALSHA x", "");
    (void)acquire(0, "x", -1);
    UNTIL(scene, came_both(scene, "N3 < EVALSHA x; ", "N3 < SSUBSCRIBE 16287; ") ||
                     came_both(scene, "N3 < SSUBSCRIBE 16287; ", "N3 < EVALSHA x; "));
    assert_false(lw__name_find(&client->holds, "x")->claims->asked_to_join);
}

/* When the channel of its slot is dropped, a waiter polls at once, not only when its next
 * poll is due. */
static void test_who_waits_asks_when_its_channel_is_dropped(void **state)
{
    struct scene *scene = *state;
    struct lw__node *node;

    start(scene);
    says(&scene->n[2], "EVALSHA x", QUEUED_UNBOUND);
    says(&scene->n[2], "EVALSHA x", QUEUED_BEHIND);
    (void)acquire(0, "x", -1);
    UNTIL(scene, came_both(scene, "N3 < SSUBSCRIBE 16287; ", "N3 < EVALSHA x; "));
    UNTIL(scene,
          lw__name_find(&client->holds, "x")->claims->command.request.prev == NULL);
    pass(scene);
    node = lw__route_find(client->route, "x", NULL);
    assert_true(lw__node_is_bound(node, SLOT_X));
    says_always(&scene->n[2], "SSUBSCRIBE", "");
    says(&scene->n[2], "EVALSHA x", "");
    drop_channel(&scene->n[2], SLOT_X);
    UNTIL(scene, !lw__node_is_bound(node, SLOT_X));
    (void)acquire(1, "{x}2", 0);
    UNTIL(scene, came(scene, "N3 < SET {x}2; "));
    assert_true(came_both(scene, "N3 < EVALSHA x; ", "N3 < SET {x}2; "));
}

/* N1 does not serve the slot of x: its message is not believed, and N3 is asked. */
static void test_a_message_of_another_node_is_not_believed(void **state)
{
    struct scene *scene = *state;
    const struct request *request;

    start(scene);
    hold(scene, 0, "b", 1);
    says(&scene->n[2], "EVALSHA x", QUEUED_UNBOUND);
    says(&scene->n[2], "EVALSHA x", QUEUED);
    request = acquire(1, "x", -1);
    UNTIL(scene, came_both(scene, "N3 < SSUBSCRIBE 16287; ", "N3 < EVALSHA x; "));
    UNTIL(scene,
          lw__name_find(&client->holds, "x")->claims->command.request.prev == NULL);
    pass(scene);
    says(&scene->n[2], "EVALSHA x", "");
    hand_over(lw__name_find(&client->holds, "x")->claims,
              lw__route_find(client->route, "b", NULL));
    UNTIL(scene, request->status != 1 || came(scene, "N3 < EVALSHA x; "));
    assert_int_equal(request->status, 1);
}

/* The name leads to N1 by now, which has not confirmed the channel of its slot, and has
 * not reported its clock. The clock of N3 does not count. */
static void test_a_message_is_not_believed_before_its_node_is_bound(void **state)
{
    struct scene *scene = *state;
    const struct request *request;
    struct lw__name *name;

    start(scene);
    hold(scene, 0, "b", 1);
    says(&scene->n[2], "EVALSHA x", QUEUED_UNBOUND);
    says(&scene->n[2], "EVALSHA x", QUEUED);
    request = acquire(1, "x", -1);
    UNTIL(scene, came_both(scene, "N3 < SSUBSCRIBE 16287; ", "N3 < EVALSHA x; "));
    name = lw__name_find(&client->holds, "x");
    UNTIL(scene, name->claims->command.request.prev == NULL);
    pass(scene);
    name->node = lw__route_find(client->route, "b", NULL);
    assert_false(lw__node_is_bound(name->node, SLOT_X));
    says(&scene->n[0], "EVALSHA x", "");
    hand_over(name->claims, name->node);
    UNTIL(scene, request->status != 1 || came(scene, "N1 < EVALSHA x; "));
    assert_int_equal(request->status, 1);
}

/* The claim has a request at N3 when its name leads to N1, which hands the lock over. The
 * clock of N3 cannot date that hand-over. */
static void test_a_message_is_not_measured_by_another_nodes_answer(void **state)
{
    struct scene *scene = *state;
    const struct request *request;
    struct lw__node *before, *now;
    struct lw__name *name;

    start(scene);
    hold(scene, 0, "b", 1);
    says(&scene->n[2], "EVALSHA x", QUEUED_UNBOUND);
    says(&scene->n[2], "EVALSHA x", "");
    request = acquire(1, "x", -1);
    UNTIL(scene, came_both(scene, "N3 < SSUBSCRIBE 16287; ", "N3 < EVALSHA x; "));
    before = lw__route_find(client->route, "x", NULL);
    now = lw__route_find(client->route, "b", NULL);
    lw__node_subscribe(now, SLOT_X);
    UNTIL(scene, lw__node_is_bound(now, SLOT_X));
    pass(scene);
    name = lw__name_find(&client->holds, "x");
    name->node = now;
    hand_over(name->claims, now);
    says(&scene->n[0], "EVALSHA x", "");
    says(&scene->n[2], "SET {x}2", QUEUED "\r\n+OK"); /* first the reply to x */
    (void)acquire(2, "{x}2", 0);
    UNTIL(scene, request->status != 1 || came(scene, "N1 < EVALSHA x; "));
    assert_int_equal(request->status, 1);
    assert_int_equal(client->holds.last_clock.connection, lw__node_connection(before));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_error_of_set_is_that_of_its_own_node,
                                        scene_set_up, end),
        cmocka_unit_test_setup_teardown(
            test_a_name_that_was_set_is_let_go_of_although_its_number_was_not_sent,
            scene_set_up, end),
        cmocka_unit_test_setup_teardown(test_a_name_that_is_its_own_already_is_found,
                                        scene_set_up, end),
        cmocka_unit_test_setup_teardown(test_who_is_not_heard_does_not_queue,
                                        scene_set_up, end),
        cmocka_unit_test_setup_teardown(test_who_waits_asks_when_its_channel_is_dropped,
                                        scene_set_up, end),
        cmocka_unit_test_setup_teardown(test_a_message_of_another_node_is_not_believed,
                                        scene_set_up, end),
        cmocka_unit_test_setup_teardown(
            test_a_message_is_not_believed_before_its_node_is_bound, scene_set_up, end),
        cmocka_unit_test_setup_teardown(
            test_a_message_is_not_measured_by_another_nodes_answer, scene_set_up, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * The present master, as reported by sentinels: which sentinel is believed, what unusable
 * ones cost, how a switch is announced, missed and found, and that it retargets every
 * session. Uses sentinel.h and session.h.
 *
 * Usual course: sentinels that report a server, "a at M1".
 */
#include "sentinel_scene.h"

#include "lockwire.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPLICA "*5\r\n$5\r\nslave\r\n$1\r\nh\r\n:1\r\n$9\r\nconnected\r\n:0\r\n"

/* ---- which sentinel is believed ---- */

static void test_all_are_asked_and_the_latest_is_believed(void **state)
{
    struct scene *scene = *state;

    names(&scene->s[0], &scene->m[0], 1, "master");
    names(&scene->s[1], &scene->m[1], 3, "master");
    names(&scene->s[2], &scene->m[2], 2, "master");
    scene_start(scene, 3);
    go(scene, &scene->a);
    await(scene, "a at M2; ");
    go(scene, &scene->b);
    await(scene, "b at M2; ");
    assert_int_equal(scene->failovers, 0);
    assert_string_equal(scene->nodes.told, "");
}

static void test_one_that_says_nothing_costs_200_ms(void **state)
{
    struct scene *scene = *state;
    int64_t begun = lw__now_us();

    names(&scene->s[0], &scene->m[0], 1, "master");
    scene->s[1].mute = true;
    scene_start(scene, 2);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    assert_true(lw__now_us() - begun >= 200 * LW__MS);
}

/* S1 reports M1 at once; the reply of S2, with a later epoch, is on its way. */
static void the_better_comes_second(struct scene *scene)
{
    names(&scene->s[0], &scene->m[0], 1, "master");
    names(&scene->s[1], &scene->m[1], 2, "master");
    scene->s[1].mute = true;
    scene_start(scene, 2);
    go(scene, &scene->a);
    UNTIL(scene, scene->s[0].asked == 1 && scene->s[1].asked == 1);
    nothing_for(scene, 20);
    speak(&scene->s[1]);
}

static void test_what_comes_in_time_is_believed_though_it_is_not_the_first(void **state)
{
    struct scene *scene = *state;

    the_better_comes_second(scene);
    await(scene, "a at M2; ");
}

static void test_who_knows_better_too_late_is_believed_then(void **state)
{
    struct scene *scene = *state;

    names(&scene->s[0], &scene->m[0], 1, "master");
    names(&scene->s[1], &scene->m[1], 2, "master");
    scene->s[1].mute = true;
    scene->s[0].subscription = "-NOPERM no channel\r\n";
    scene_start(scene, 2);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    UNTIL(scene, was_told(scene, "refused SUBSCRIBE"));
    speak(&scene->s[1]);
    await(scene, "a lost: the master is now M2, was M1; a at M2; ");
    assert_int_equal(scene->failovers, 1);
}

static void test_a_master_that_is_down_is_nowhere_to_go(void **state)
{
    struct scene *scene = *state;

    scene->config.backoff_min_ms = scene->config.backoff_max_ms = 50;
    names(&scene->s[0], &scene->m[0], 1, "master");
    names(&scene->s[1], &scene->m[1], 2, "s_down,master,o_down");
    scene_start(scene, 2);
    go(scene, &scene->a);
    /* a master of an earlier epoch is not used either */
    await(scene, "a lost: no sentinel reported a usable master; S1: reports an older");
    UNTIL(scene, was_told(scene, "sentinel S2: reports the master as down\n"));
    names(&scene->s[1], &scene->m[1], 2, "master,disconnected");
    UNTIL(scene, strstr(scene->nodes.trace, "a at M2; ") != NULL);
}

static int count(const char *text, const char *what)
{
    int times = 0;

    while ((text = strstr(text, what)) != NULL) {
        times++;
        text++;
    }
    return times;
}

static void test_while_the_master_is_down_each_one_is_told_of_once(void **state)
{
    struct scene *scene = *state;

    scene->config.backoff_min_ms = scene->config.backoff_max_ms = 5;
    names(&scene->s[0], &scene->m[0], 1, "master");
    names(&scene->s[1], &scene->m[1], 2, "s_down,master,o_down");
    scene_start(scene, 2);
    go(scene, &scene->a);
    UNTIL(scene, scene->s[0].asked > 5);
    assert_int_equal(count(scene->nodes.told, "sentinel S1: reports an older master"), 1);
    assert_int_equal(count(scene->nodes.told, "sentinel S2: reports the master as down"),
                     1);
}

static void test_who_does_not_see_it_down_is_believed(void **state)
{
    struct scene *scene = *state;

    names(&scene->s[0], &scene->m[0], 2, "s_down,master");
    names(&scene->s[1], &scene->m[0], 2, "master");
    scene_start(scene, 2);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
}

/* The sentinel that leads a failover reports the old master with the new one's epoch
 * until the failover is complete. The new one may already be a master all that time. */
static void test_who_leads_a_failover_is_believed_last(void **state)
{
    static const char flags[] = "master,failover_in_progress,force_failover";
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 100;
    names(&scene->s[0], &scene->m[0], 1, flags);
    names(&scene->s[1], &scene->m[1], 1, "master");
    scene_start(scene, 2);
    go(scene, &scene->a);
    await(scene, "a at M2; ");
    UNTIL(scene, scene->s[1].asked > 3);
    nothing_for(scene, 1);
}

static void test_who_leads_a_failover_is_left_as_soon_as_others_know(void **state)
{
    static const char flags[] = "master,failover_in_progress,force_failover";
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 100;
    names(&scene->s[0], &scene->m[0], 1, flags);
    names(&scene->s[1], &scene->m[0], 0, "master");
    scene->s[0].subscription = scene->s[1].subscription = "-NOPERM no channel\r\n";
    scene_start(scene, 2);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    names(&scene->s[1], &scene->m[1], 1, "master");
    await(scene, "a lost: the master is now M2, was M1; a at M2; ");
}

static void test_older_than_known_is_not_believed_while_one_is_to_be_heard(void **state)
{
    struct scene *scene = *state;

    names(&scene->s[0], &scene->m[0], 1, "master");
    names(&scene->s[1], &scene->m[1], 2, "master");
    scene_start(scene, 2);
    go(scene, &scene->a);
    await(scene, "a at M2; ");
    /* both are asked again once their subscriptions are up */
    UNTIL(scene, scene->s[0].asked > 1 && scene->s[1].asked > 1);
    scene->s[1].mute = true;
    leave(&scene->m[1]);
    come(&scene->m[1]);
    await(scene, "a lost: M2 closed the connection; ");
    nothing_for(scene, 300);
    speak(&scene->s[1]);
    await(scene, "a at M2; ");
}

/* The minority may be cut off together with an earlier master: the one that was followed
 * has a later epoch. */
#define BY_S2 "(announced by sentinel S2; address_map or --map replaces it); "

static void test_older_than_known_is_not_believed_of_a_minority(void **state)
{
    struct scene *scene = *state;

    scene->config.backoff_min_ms = scene->config.backoff_max_ms = 20;
    names(&scene->s[0], &scene->m[0], 1, "master");
    names(&scene->s[1], &scene->m[1], 2, "master");
    names(&scene->s[2], &scene->m[1], 2, "master");
    scene_start(scene, 3);
    go(scene, &scene->a);
    await(scene, "a at M2; ");
    leave(&scene->s[1]);
    leave(&scene->s[2]);
    leave(&scene->m[1]);
    await(scene, "a lost: M2 closed the connection; "
                 "a lost: connecting to M2: Connection refused " BY_S2
                 "a lost: connecting to M2: Connection refused " BY_S2);
    come(&scene->m[1]);
    UNTIL(scene, came(scene, "a at M2; "));
    assert_null(strstr(scene->nodes.trace, "M1"));
    assert_int_equal(scene->failovers, 0);
    assert_string_equal(scene->nodes.told,
                        "sentinels report M1 as master, but with a "
                        "config-epoch no later than that of M2, and a "
                        "majority of the listed sentinels has not answered: "
                        "still trying M2\n");
}

/* The only listed sentinel reports an earlier epoch than before. Most of all sentinels,
 * the discovered one included, must be up before a connection ends because of that. */
static void test_older_than_known_ends_no_connection(void **state)
{
    struct scene *scene = *state;
    char others[1024] = "*1\r\n";
    int asked;

    (void)strcat(others, other(&scene->s[1], "sentinel"));
    scene->s[0].others = others;
    scene->config.request_timeout_ms = 100;
    names(&scene->s[0], &scene->m[1], 2, "master");
    names(&scene->s[1], &scene->m[1], 2, "master");
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a at M2; ");
    UNTIL(scene, scene->s[1].node.subscribers == 1);
    names(&scene->s[0], &scene->m[0], 1, "master");
    leave(&scene->s[1]);
    asked = scene->s[0].asked;
    UNTIL(scene, scene->s[0].asked > asked + 6);
    nothing_for(scene, 1);
}

static void test_another_name_of_the_server_ends_no_connection(void **state)
{
    struct scene *scene = *state;
    int asked;

    scene->config.request_timeout_ms = 100;
    names(&scene->s[0], &scene->m[1], 1, "master"); /* as if another name of M1 */
    names(&scene->s[1], &scene->m[0], 1, "master");
    scene->s[0].mute = true;
    scene_start(scene, 2);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    speak(&scene->s[0]);
    leave(&scene->s[1]);
    asked = scene->s[0].asked;
    UNTIL(scene, scene->s[0].asked > asked + 5);
    nothing_for(scene, 1);
}

/* The new sentinels' epochs are lower, and the old master is still up, so that no session
 * asks for the endpoint. */
static void test_sentinels_that_were_set_up_anew_elsewhere_are_believed(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 100;
    for (int i = 0; i < 3; i++) {
        names(&scene->s[i], &scene->m[0], 7, "master");
    }
    scene_start(scene, 3);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    names(&scene->s[0], &scene->m[1], 0, "master");
    names(&scene->s[1], &scene->m[1], 0, "master");
    leave(&scene->s[2]);
    await(scene, "a lost: the master is now M2, was M1; a at M2; ");
}

/* All have answered, so that no later epoch can come: the earlier one is used. */
static void test_older_than_known_is_believed_when_all_are_heard(void **state)
{
    struct scene *scene = *state;

    names(&scene->s[0], &scene->m[1], 5, "master");
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a at M2; ");
    names(&scene->s[0], &scene->m[0], 1, "master"); /* they were set up again */
    leave(&scene->m[1]);
    await(scene, "a lost: M2 closed the connection; a at M1; ");
}

static void test_a_name_and_an_address_for_one_server_do_not_alternate(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 100; /* heartbeats */
    names(&scene->s[0], &scene->m[1], 1, "master");
    names(&scene->s[1], &scene->m[0], 1, "master");
    scene->s[0].mute = true;
    scene_start(scene, 2);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    speak(&scene->s[0]);
    UNTIL(scene, scene->s[1].asked > 5 && scene->s[0].asked > 5);
    nothing_for(scene, 1);
}

/* ---- no sentinel is usable ---- */

static void test_each_one_says_why_it_is_of_no_use(void **state)
{
    struct scene *scene = *state;

    scene->config.backoff_min_ms = scene->config.backoff_max_ms = 50;
    scene->s[1].raw = "-ERR unknown command 'SENTINEL'\r\n";
    leave(&scene->s[2]);
    scene->s[3].raw = "*2\r\n$2\r\nip\r\n$4\r\na b!\r\n";
    scene_start(scene, 4);
    go(scene, &scene->a);
    await(scene,
          "a lost: no sentinel reported a usable master; "
          "S1: ERR No such master with that name; "
          "S2: unknown command SENTINEL: not a sentinel (list the sentinels, or use "
          "redis://); "
          "S3: connecting to S3: Connection refused; "
          "S4: invalid reply to SENTINEL MASTER: no valid ip; ");
    names(&scene->s[0], &scene->m[0], 1, "master");
    UNTIL(scene, strstr(scene->nodes.trace, "a at M1; ") != NULL);
    /* each was logged once */
    assert_string_equal(scene->nodes.told,
                        "sentinel S1: ERR No such master with that name\n"
                        "sentinel S2: unknown command SENTINEL: not a sentinel (list "
                        "the sentinels, or use redis://)\n"
                        "sentinel S3: connecting to S3: Connection refused\n"
                        "sentinel S4: invalid reply to SENTINEL MASTER: no valid ip\n");
}

static void test_a_long_reason_leaves_room_for_the_others(void **state)
{
    struct scene *scene = *state;
    static const char error[] = "-ERR 000000000000000000000000000000000000000000000000000"
                                "00000000000000000000000000000000000000000000000000000000"
                                "00000000000000000000000000000000000000000000000000000000"
                                "00000000000000000000000000000000000000000000000000000000"
                                "00000000000000000000000000000000000000000000000000000000"
                                "00000000000000000000000000000000000000000000000000000000"
                                "00000000000000000000000000000000000000000000000000000000"
                                "000000000000000000000000000000000000000000000000\r\n";

    scene->config.backoff_min_ms = scene->config.backoff_max_ms = 50;
    scene->s[0].raw = scene->s[1].raw = error;
    scene->s[2].raw = "-ERR unknown command 'SENTINEL'\r\n";
    scene_start(scene, 3);
    go(scene, &scene->a);
    await(scene, "a lost: no sentinel reported a usable master; S1: ERR 0000");
    assert_true(strlen(scene->nodes.trace) < LW_WHY_SIZE + sizeof("a lost: ; "));
    assert_non_null(strstr(scene->nodes.trace, "0; S2: ERR 0000"));
    assert_non_null(
        strstr(scene->nodes.trace, "0; S3: unknown command SENTINEL: not a sentinel "));
}

static void test_silence_ends_with_half_the_time_for_connecting(void **state)
{
    struct scene *scene = *state;
    int64_t begun = lw__now_us();

    scene->config.connect_timeout_ms = 300;
    scene->s[0].mute = true;
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a lost: no sentinel reported a usable master; S1: no reply in time; ");
    assert_true(lw__now_us() - begun >= 150 * LW__MS);
}

static void test_when_all_have_gone_the_connection_stays(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 100;
    names(&scene->s[0], &scene->m[0], 1, "master");
    names(&scene->s[1], &scene->m[0], 1, "master");
    scene_start(scene, 2);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    leave(&scene->s[0]);
    leave(&scene->s[1]);
    UNTIL(scene, was_told(scene, "sentinel S1: ") && was_told(scene, "sentinel S2: "));
    nothing_for(scene, 100);
    names(&scene->s[1], &scene->m[1], 2, "master");
    come(&scene->s[1]);
    await(scene, "a lost: the master is now M2, was M1; a at M2; ");
}

static void test_who_is_no_master_is_left_and_asked_about_again(void **state)
{
    struct scene *scene = *state;

    scene->config.backoff_min_ms = scene->config.backoff_max_ms = 100;
    names(&scene->s[0], &scene->m[0], 1, "master");
    scene->m[0].role = REPLICA;
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a lost: M1 is not the master: ROLE reports \"slave\"; ");
    scene->m[0].role = "-NOPERM this user has no permissions to run 'role'\r\n";
    await(scene, "a lost: ROLE: NOPERM this user has no permissions to run 'role'; ");
    scene->m[0].role = "*0\r\n";
    await(scene, "a lost: M1 is not the master: ROLE reports \"\"; ");
    names(&scene->s[0], &scene->m[1], 1, "master");
    await(scene, "a at M2; ");
}

/* ---- a switch ---- */

static void both_at_first(struct scene *scene, size_t listed)
{
    for (size_t i = 0; i < listed; i++) {
        names(&scene->s[i], &scene->m[0], 1, "master");
    }
    scene_start(scene, listed);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    go(scene, &scene->b);
    await(scene, "b at M1; ");
    for (size_t i = 0; i < listed; i++) {
        UNTIL(scene, scene->s[i].node.subscribers == 1);
    }
}

#define BOTH_TURN                                                                        \
    "b lost: the master is now M2, was M1; "                                             \
    "a lost: the master is now M2, was M1; "

static void test_a_switch_that_is_told_turns_both_at_once(void **state)
{
    struct scene *scene = *state;
    struct fake *told_by;

    scene->config.backoff_min_ms = scene->config.backoff_max_ms = 600000;
    both_at_first(scene, 2);
    told_by = &scene->s[1];
    names(told_by, &scene->m[1], 2, "master");
    announce_switch(told_by, &scene->m[0], &scene->m[1]);
    await(scene, BOTH_TURN);
    UNTIL(scene, came(scene, "a at M2; ") && came(scene, "b at M2; "));
    assert_int_equal(scene->failovers, 1);
    assert_string_equal(scene->nodes.told, "the master is now M2, was M1\n");
}

static void test_a_switch_that_was_missed_is_found_at_a_heartbeat(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 100;
    both_at_first(scene, 2);
    names(&scene->s[1], &scene->m[1], 2, "master"); /* the other one never announces it */
    await(scene, BOTH_TURN);
    UNTIL(scene, came(scene, "a at M2; ") && came(scene, "b at M2; "));
    assert_int_equal(scene->failovers, 1);
}

#define BOTH_RETURN                                                                      \
    "b lost: M1 is the master again after another failover; locks granted in between "   \
    "may be lost; "                                                                      \
    "a lost: M1 is the master again after another failover; locks granted in between "   \
    "may be lost; "

/* M1 may have lost what was written in between, although its connections stayed up. */
static void test_a_switch_to_and_fro_that_was_missed_is_found(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 50;
    both_at_first(scene, 2);
    names(&scene->s[1], &scene->m[0], 3, "master");
    await(scene, BOTH_RETURN);
    UNTIL(scene, came(scene, "a at M1; ") && came(scene, "b at M1; "));
    names(&scene->s[0], &scene->m[0], 3, "master"); /* a lagging one does not repeat it */
    pass(scene);
    nothing_for(scene, 200);
    assert_int_equal(scene->failovers, 1);
}

/* The sentinel that replaces the master reports the old master's address with the new
 * epoch until the failover is complete. */
static void test_who_is_being_replaced_is_left_for_whom_another_names(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 50;
    both_at_first(scene, 2);
    names(&scene->s[0], &scene->m[0], 2, "master,failover_in_progress");
    pass(scene);
    nothing_for(scene, 200);
    names(&scene->s[1], &scene->m[1], 2, "master");
    await(scene, BOTH_TURN);
    assert_int_equal(scene->failovers, 1);
}

/* Only the switch back is announced, with no heartbeat near. */
static void test_the_way_back_of_a_switch_that_was_missed(void **state)
{
    struct scene *scene = *state;
    struct fake *told_by;

    both_at_first(scene, 2);
    told_by = &scene->s[1];
    names(told_by, &scene->m[0], 3, "master");
    announce_switch(told_by, &scene->m[1], &scene->m[0]);
    await(scene, BOTH_RETURN);
}

/* The epoch that was guessed is not compared with the reported one. */
static void test_a_switch_that_is_told_turns_them_once(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 30;
    both_at_first(scene, 1);
    names(&scene->s[0], &scene->m[1], 9, "master");
    announce_switch(&scene->s[0], &scene->m[0], &scene->m[1]);
    UNTIL(scene, came(scene, "a at M2; ") && came(scene, "b at M2; "));
    pass(scene);
    nothing_for(scene, 200);
    assert_int_equal(scene->failovers, 1);
}

/* The switch comes between the reply and the subscription, with no heartbeat near. */
static void test_a_switch_before_the_subscription_is_found_with_it(void **state)
{
    struct scene *scene = *state;

    scene->s[0].subscription = "";
    both_at_first(scene, 1);
    names(&scene->s[0], &scene->m[1], 2, "master");
    nothing_for(scene, 20);
    confirm(&scene->s[0]);
    await(scene, BOTH_TURN);
}

static void test_answers_of_before_a_switch_do_not_lead_back(void **state)
{
    struct scene *scene = *state;
    struct fake *told_by, *slow;
    int asked;

    scene->config.request_timeout_ms = 100;
    both_at_first(scene, 2);
    told_by = &scene->s[1];
    slow = &scene->s[0];
    slow->mute = true;
    asked = slow->asked;
    UNTIL(scene, slow->asked > asked); /* at a heartbeat; the other has answered */
    nothing_for(scene, 20);
    names(told_by, &scene->m[1], 2, "master");
    announce_switch(told_by, &scene->m[0], &scene->m[1]);
    await(scene, BOTH_TURN);
    UNTIL(scene, scene->nodes.length > scene->nodes.read);
    assert_false(came(scene, "at M1"));
    assert_int_equal(scene->failovers, 1);
}

/* A reply from before a switch is not used, even if there is no other. */
static void test_an_answer_from_before_a_switch_is_asked_for_again(void **state)
{
    struct scene *scene = *state;
    int asked;

    scene->config.request_timeout_ms = 200;
    both_at_first(scene, 1);
    scene->s[0].mute = true;
    asked = scene->s[0].asked;
    UNTIL(scene, scene->s[0].asked > asked);
    announce_switch(&scene->s[0], &scene->m[0], &scene->m[1]);
    await(scene, BOTH_TURN);
    UNTIL(scene, scene->a.session.state == LW__SESSION_RESOLVING &&
                     scene->b.session.state == LW__SESSION_RESOLVING);
    speak(&scene->s[0]);
    names(&scene->s[0], &scene->m[1], 2, "master");
    UNTIL(scene, scene->a.session.state == LW__SESSION_READY);
    assert_int_equal(scene->a.session.endpoint.port, scene->m[1].node.port);
    assert_int_equal(scene->failovers, 1);
}

/* The switch comes while all are asked: replies that were already received may be
 * older. */
static void test_a_switch_before_the_subscription_is_found_after_a_round(void **state)
{
    struct scene *scene = *state;
    int asked;

    scene->s[0].subscription = "";
    scene->s[1].mute = true;
    names(&scene->s[0], &scene->m[0], 1, "master");
    scene_start(scene, 2);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    UNTIL(scene, scene->s[0].node.subscribers == 1);
    asked = scene->s[0].asked;
    go(scene, &scene->b);
    UNTIL(scene, scene->s[0].asked > asked);
    nothing_for(scene, 20);
    names(&scene->s[0], &scene->m[1], 2, "master");
    confirm(&scene->s[0]);
    UNTIL(scene, strstr(scene->nodes.trace, "a at M2; ") != NULL &&
                     strstr(scene->nodes.trace, "b at M2; ") != NULL);
}

/* Replies that arrived during a stall are read before a round times out. */
static void test_a_loop_that_stalls_does_not_end_a_round(void **state)
{
    struct scene *scene = *state;

    the_better_comes_second(scene);
    (void)usleep(250000);
    await(scene, "a at M2; ");
    assert_int_equal(scene->failovers, 0);
}

static void test_one_that_lags_does_not_lead_back(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 100;
    names(&scene->s[0], &scene->m[0], 1, "master");
    names(&scene->s[1], &scene->m[1], 2, "master");
    scene_start(scene, 2);
    go(scene, &scene->a);
    await(scene, "a at M2; ");
    leave(&scene->s[1]);
    UNTIL(scene, scene->s[0].asked > 5);
    nothing_for(scene, 1);
}

static void test_sentinels_that_were_set_up_anew_are_followed_on(void **state)
{
    struct scene *scene = *state;
    int asked;

    scene->config.request_timeout_ms = 100;
    names(&scene->s[0], &scene->m[0], 7, "master");
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    names(&scene->s[0], &scene->m[0], 0, "master");
    asked = scene->s[0].asked;
    UNTIL(scene, scene->s[0].asked > asked + 2);
    names(&scene->s[0], &scene->m[1], 1, "master");
    await(scene, "a lost: the master is now M2, was M1; a at M2; ");
}

static void test_messages_about_others_and_nonsense_are_passed_over(void **state)
{
    static const char *const texts[] = {
        "",
        "the-master",
        "another 127.0.0.1 1 127.0.0.1 2",
        "the-master2 127.0.0.1 1 127.0.0.1 2",
        "the-master 127.0.0.1 1 127.0.0.1 0",
        "the-master 127.0.0.1 1 127.0.0.1 2 3",
        "the-master 127.0.0.1 1  2",
        "the-master 127.0.0.1 1 a/b 2",
    };
    struct scene *scene = *state;
    struct fake *told_by;

    both_at_first(scene, 1);
    told_by = &scene->s[0];
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        announce(told_by, texts[i]);
    }
    announce_switch(told_by, &scene->m[1], &scene->m[0]); /* to the present master */
    announce_switch(told_by, &scene->m[1], &scene->m[2]); /* not from the present one */
    nothing_for(scene, 50);
    announce_switch(told_by, &scene->m[0], &scene->m[1]);
    await(scene, BOTH_TURN);
}

static void test_a_long_delay_is_cut_short_by_a_switch(void **state)
{
    struct scene *scene = *state;

    scene->config.backoff_min_ms = scene->config.backoff_max_ms = 600000;
    both_at_first(scene, 1);
    leave(&scene->m[0]);
    UNTIL(scene, strstr(scene->nodes.trace, "a lost") != NULL &&
                     strstr(scene->nodes.trace, "b lost") != NULL);
    pass(scene);
    names(&scene->s[0], &scene->m[1], 2, "master");
    announce_switch(&scene->s[0], &scene->m[0], &scene->m[1]);
    UNTIL(scene, strstr(scene->nodes.trace, "a at M2; ") != NULL &&
                     strstr(scene->nodes.trace, "b at M2; ") != NULL);
}

/* Neither the session's own backoff nor an ordinary heartbeat would find it within this
 * test. */
static void test_who_waits_for_a_switch_that_is_not_told_finds_it(void **state)
{
    struct scene *scene = *state;

    scene->config.backoff_min_ms = scene->config.backoff_max_ms = 600000;
    scene->config.request_timeout_ms = 600000;
    names(&scene->s[0], &scene->m[0], 1, "master");
    leave(&scene->m[0]);
    scene_start(scene, 1);
    go(scene, &scene->a);
    UNTIL(scene, strstr(scene->nodes.trace, "a lost") != NULL);
    names(&scene->s[0], &scene->m[0], 1, "master,s_down");
    int asked = scene->s[0].asked;

    UNTIL(scene, scene->s[0].asked >= asked + 3);
    names(&scene->s[0], &scene->m[1], 2, "master");
    UNTIL(scene, strstr(scene->nodes.trace, "a at M2; ") != NULL);
}

/* While all sessions are up there is no haste. */
static void test_who_stands_asks_once_more_and_is_quiet(void **state)
{
    struct scene *scene = *state;
    int asked;

    scene->config.request_timeout_ms = 600000;
    both_at_first(scene, 1);
    asked = scene->s[0].asked;
    nothing_for(scene, 1500);
    assert_true(scene->s[0].asked <= asked + 1);
}

static void test_a_switch_to_and_fro_is_followed(void **state)
{
    struct scene *scene = *state;

    both_at_first(scene, 1);
    for (int i = 1; i < 6; i++) {
        struct fake *from = &scene->m[(i + 1) % 2], *to = &scene->m[i % 2];

        names(&scene->s[0], to, i + 1, "master");
        announce_switch(&scene->s[0], from, to);
        UNTIL(scene, scene->a.session.endpoint.port == to->node.port &&
                         scene->b.session.endpoint.port == to->node.port &&
                         scene->a.session.state == LW__SESSION_READY &&
                         scene->b.session.state == LW__SESSION_READY);
    }
    assert_int_equal(scene->failovers, 5);
}

/* ---- the master that is followed, and since when ---- */

/* Returns for how long `master` has been followed, by a clock that may have advanced a
 * little; -1 if no master is followed yet, or if the time is unknown. */
static int64_t followed_for(const struct scene *scene, const struct fake *master)
{
    struct lw_master followed = LW_MASTER_INIT;

    if (lw__sentinel_master(scene->sentinels, &followed) != 0) {
        assert_null(master);
        return -1;
    }
    assert_string_equal(followed.service, SERVICE);
    assert_string_equal(followed.host, "127.0.0.1");
    assert_int_equal(followed.port, master->node.port);
    return followed.for_ms;
}

static void test_who_is_followed_is_told_with_its_time(void **state)
{
    struct scene *scene = *state;
    int64_t for_ms;

    names(&scene->s[0], &scene->m[0], 1, "master");
    scene->s[0].for_ms = "86400000";
    scene_start(scene, 1);
    assert_int_equal(followed_for(scene, NULL), -1);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    scene->s[0].for_ms = NULL; /* it is asked again, which must not reset the time */
    for_ms = followed_for(scene, &scene->m[0]);
    assert_in_range(for_ms, 86400000, 86400000 + 60000);
    nothing_for(scene, 20);
    assert_true(followed_for(scene, &scene->m[0]) >= for_ms + 20);
}

static void test_a_switch_begins_its_time_anew(void **state)
{
    struct scene *scene = *state;

    scene->s[0].for_ms = "86400000";
    both_at_first(scene, 1);
    scene->s[0].mute = true; /* our own count, without a reply */
    announce_switch(&scene->s[0], &scene->m[0], &scene->m[1]);
    await(scene, BOTH_TURN);
    assert_in_range(followed_for(scene, &scene->m[1]), 0, 60000);
    names(&scene->s[0], &scene->m[1], 2, "master");
    scene->s[0].for_ms = "70000000";
    scene->s[0].mute = false;
    speak(&scene->s[0]);
    UNTIL(scene, followed_for(scene, &scene->m[1]) >= 70000000);
}

static void test_an_answer_without_the_time_leaves_what_is_counted(void **state)
{
    struct scene *scene = *state;
    int asked;

    scene->config.request_timeout_ms = 30;
    scene->s[0].for_ms = "86400000";
    both_at_first(scene, 1);
    scene->s[0].for_ms = NULL;
    asked = scene->s[0].asked;
    UNTIL(scene, scene->s[0].asked > asked + 2);
    assert_true(followed_for(scene, &scene->m[0]) >= 86400000);
    names(&scene->s[0], &scene->m[1], 2, "master"); /* no announcement, no time */
    await(scene, BOTH_TURN);
    assert_int_equal(followed_for(scene, &scene->m[1]), -1);
}

/* ---- which sentinels announce a switch ---- */

/* The sentinel that makes a switch may be the first or the last to announce it. No
 * heartbeat is near. */
static void test_each_of_them_tells(void **state)
{
    struct scene *scene = *state;

    both_at_first(scene, 3);
    for (int i = 0; i < 3; i++) {
        struct fake *from = &scene->m[i % 2], *to = &scene->m[(i + 1) % 2];

        pass(scene);
        names(&scene->s[i], to, i + 2, "master");
        announce_switch(&scene->s[i], from, to);
        UNTIL(scene, scene->failovers == (uint64_t)i + 1 &&
                         scene->a.session.endpoint.port == to->node.port &&
                         scene->b.session.endpoint.port == to->node.port &&
                         scene->a.session.state == LW__SESSION_READY &&
                         scene->b.session.state == LW__SESSION_READY);
    }
}

static void test_one_that_was_away_tells_again(void **state)
{
    struct scene *scene = *state;

    both_at_first(scene, 1);
    leave(&scene->s[0]);
    UNTIL(scene, scene->s[0].node.subscribers == 0);
    come(&scene->s[0]);
    UNTIL(scene, scene->s[0].node.subscribers == 1);
    names(&scene->s[0], &scene->m[1], 2, "master");
    announce_switch(&scene->s[0], &scene->m[0], &scene->m[1]);
    await(scene, BOTH_TURN);
}

/* The silent sentinel's connections stay open. */
static void test_one_that_falls_silent_hides_nothing(void **state)
{
    struct scene *scene = *state;
    struct fake *silent, *other_one;

    scene->config.request_timeout_ms = 100;
    both_at_first(scene, 2);
    silent = &scene->s[0];
    other_one = &scene->s[1];
    silent->mute = true;
    silent->subscription = "";
    names(other_one, &scene->m[1], 2, "master");
    announce_switch(other_one, &scene->m[0], &scene->m[1]);
    UNTIL(scene, scene->a.session.endpoint.port == scene->m[1].node.port &&
                     scene->a.session.state == LW__SESSION_READY);
}

static void test_where_subscribing_is_forbidden_heartbeats_find_it(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 100;
    scene->s[0].subscription = "-NOPERM no channel\r\n";
    names(&scene->s[0], &scene->m[0], 1, "master");
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    UNTIL(scene, was_told(scene, "refused SUBSCRIBE"));
    names(&scene->s[0], &scene->m[1], 2, "master");
    await(scene, "a lost: the master is now M2, was M1; a at M2; ");
}

/* A refused subscription is tried again at growing intervals. */
static void test_what_is_forbidden_is_not_asked_for_all_the_time(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 50;
    scene->s[0].subscription = "-NOPERM no channel\r\n";
    names(&scene->s[0], &scene->m[0], 1, "master");
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    UNTIL(scene, scene->s[0].asked > 30);
    assert_in_range(scene->s[0].subscriptions, 2, 6);
    scene->s[0].subscription = NULL;
    UNTIL(scene, scene->s[0].node.subscribers == 1);
}

static void test_sentinels_are_learnt_from_sentinels(void **state)
{
    struct scene *scene = *state;
    char both[2048];

    (void)strcpy(both, "*3\r\n");
    (void)strcat(both, other(&scene->s[0], "sentinel")); /* itself, which is known */
    (void)strcat(both, other(&scene->s[1], "sentinel"));
    (void)strcat(both, other(&scene->s[2], "s_down,sentinel"));
    scene->s[0].others = both;
    names(&scene->s[0], &scene->m[0], 1, "master");
    names(&scene->s[1], &scene->m[0], 1, "master");
    scene->config.request_timeout_ms = 100;
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    UNTIL(scene, scene->s[1].asked > 2 && scene->s[1].node.subscribers == 1);
    assert_int_equal(scene->s[2].asked, 0);
}

/* ---- discovered sentinels, which the user did not list ---- */

/* Lists S1 only, which reports `count` others, S2 first. Returns when a is at M1. */
static void one_listed(struct scene *scene, int count)
{
    static char text[4096];

    (void)snprintf(text, sizeof(text), "*%d\r\n", count);
    for (int i = 1; i <= count; i++) {
        (void)strcat(text, other(&scene->s[i], "sentinel"));
        names(&scene->s[i], &scene->m[0], 1, "master");
    }
    scene->s[0].others = text;
    names(&scene->s[0], &scene->m[0], 1, "master");
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
}

static void one_learnt(struct scene *scene)
{
    one_listed(scene, 1);
    UNTIL(scene, scene->s[1].node.subscribers == 1 && scene->s[1].asked > 1);
}

#define TO_CONFIRM " as master, which a listed sentinel has to confirm"

/* The listed sentinel reports the present master, as a sentinel of the same installation
 * does. The discovered one has joined another installation. */
static void test_a_learnt_one_alone_leads_nowhere(void **state)
{
    struct scene *scene = *state;
    int64_t begun;

    one_learnt(scene);
    begun = lw__now_us();
    names(&scene->s[1], &scene->m[2], 9, "master");
    announce_switch(&scene->s[1], &scene->m[0], &scene->m[2]);
    UNTIL(scene, was_told(scene, "sentinel S2: names M3" TO_CONFIRM));
    assert_true(lw__now_us() - begun >= 5000 * LW__MS);
    nothing_for(scene, 300);
    leave(&scene->m[0]);
    await(scene, "a lost: M1 closed the connection; ");
    come(&scene->m[0]);
    UNTIL(scene, came(scene, "a at M1; "));
    assert_int_equal(scene->m[2].node.connected, 0);
    assert_int_equal(count(scene->nodes.told, "names M3"), 1);
    assert_int_equal(scene->failovers, 0);
}

/* The master has died, and so has the listed sentinel. It comes back with what it knew,
 * and learns of the new master later. */
static void test_a_learnt_one_leads_nowhere_while_all_listed_ones_are_dead(void **state)
{
    struct scene *scene = *state;

    scene->config.backoff_min_ms = scene->config.backoff_max_ms = 50;
    one_learnt(scene);
    leave(&scene->s[0]);
    names(&scene->s[1], &scene->m[1], 2, "master");
    announce_switch(&scene->s[1], &scene->m[0], &scene->m[1]);
    nothing_for(scene, 300); /* the connection to the present master stays */
    leave(&scene->m[0]);
    await(scene, "a lost: M1 closed the connection; "
                 "a lost: no sentinel reported a usable master; "
                 "S1: connecting to S1: Connection refused; "
                 "S2: names M2" TO_CONFIRM "; ");
    assert_int_equal(count(scene->nodes.told, "sentinel S2: names M2" TO_CONFIRM "\n"),
                     1);
    names(&scene->s[0], &scene->m[0], 1, "master");
    come(&scene->s[0]);
    UNTIL(scene, came(scene, "a lost: connecting to M1: Connection refused"));
    assert_int_equal(scene->m[1].node.connected, 0);
    assert_int_equal(scene->failovers, 0);
    names(&scene->s[0], &scene->m[1], 2, "master");
    UNTIL(scene, came(scene, "a at M2; "));
    assert_int_equal(scene->failovers, 1);
}

#define FAR_MS 600000
#define SOON_US (FAR_MS / 10 * (int64_t)LW__MS)

/* A session waits for its next attempt for ten minutes, and a heartbeat is as rare. */
static void test_a_listed_one_that_comes_back_is_found_while_a_learnt_one_waits_for_it(
    void **state)
{
    struct scene *scene = *state;

    int64_t begun;

    scene->config.backoff_min_ms = scene->config.backoff_max_ms = FAR_MS;
    scene->config.request_timeout_ms = FAR_MS;
    one_learnt(scene);
    begun = lw__now_us();
    leave(&scene->s[0]);
    names(&scene->s[1], &scene->m[1], 2, "master");
    leave(&scene->m[0]);
    UNTIL(scene, came(scene, "a lost: M1 closed the connection; "));
    announce_switch(&scene->s[1], &scene->m[0], &scene->m[1]);
    UNTIL(scene, was_told(scene, "sentinel S2: names M2" TO_CONFIRM));
    pass(scene);
    nothing_for(scene, 2000);
    names(&scene->s[0], &scene->m[1], 2, "master");
    come(&scene->s[0]);
    UNTIL(scene, came(scene, "a at M2; "));
    assert_true(lw__now_us() - begun < SOON_US);
}

/* It names the master that a listed one has named before. */
static void test_a_learnt_one_replaces_listed_ones_that_are_dead(void **state)
{
    struct scene *scene = *state;

    one_learnt(scene);
    leave(&scene->s[0]);
    leave(&scene->m[0]);
    await(scene, "a lost: M1 closed the connection; ");
    come(&scene->m[0]);
    UNTIL(scene, came(scene, "a at M1; "));
    assert_int_equal(scene->failovers, 0);
}

/* Two failovers, to another server and back, were missed. The listed sentinel comes back
 * with a third one, whose epoch is below that of the discovered sentinel. */
static void test_a_learnt_one_with_a_later_epoch_leads_to_the_present_master(void **state)
{
    struct scene *scene = *state;

    one_learnt(scene);
    leave(&scene->s[0]);
    names(&scene->s[1], &scene->m[0], 99, "master");
    leave(&scene->m[0]);
    await(scene, "a lost: M1 closed the connection; ");
    come(&scene->m[0]);
    UNTIL(scene, came(scene, "a at M1; "));
    assert_false(was_told(scene, "names M1"));
    pass(scene);
    scene->m[0].role = REPLICA;
    names(&scene->s[0], &scene->m[1], 2, "master");
    come(&scene->s[0]);
    leave(&scene->m[0]);
    UNTIL(scene, came(scene, "a at M2; "));
    assert_int_equal(scene->failovers, 1);
}

/* It names the present master, with an epoch that no listed sentinel has. */
static void test_a_learnt_one_outranks_no_listed_one(void **state)
{
    struct scene *scene = *state;
    int asked;

    scene->config.request_timeout_ms = 50;
    one_learnt(scene);
    names(&scene->s[1], &scene->m[0], 99, "master");
    asked = scene->s[1].asked;
    UNTIL(scene, scene->s[1].asked > asked + 2);
    nothing_for(scene, 1);
    names(&scene->s[0], &scene->m[1], 2, "master");
    await(scene, "a lost: the master is now M2, was M1; a at M2; ");
    assert_int_equal(scene->failovers, 1);
}

/* The listed sentinel reports a later master, but as down. */
static void test_a_learnt_one_at_the_present_master_needs_no_confirmation(void **state)
{
    struct scene *scene = *state;

    one_learnt(scene);
    names(&scene->s[0], &scene->m[1], 2, "s_down,master");
    leave(&scene->m[0]);
    await(scene, "a lost: M1 closed the connection; "
                 "a lost: no sentinel reported a usable master; "
                 "S1: reports the master as down; "
                 "S2: reports an older master than other sentinels; ");
}

/* S1 announces a switch, and replies late. S2 and S3, which are listed as well, lag. S4
 * is discovered. */
static void test_an_epoch_of_a_learnt_one_is_no_sign_of_a_failover(void **state)
{
    struct scene *scene = *state;
    char others[1024] = "*1\r\n";
    int asked;

    scene->config.request_timeout_ms = 500; /* heartbeats */
    (void)strcat(others, other(&scene->s[3], "sentinel"));
    scene->s[0].others = others;
    names(&scene->s[3], &scene->m[0], 1, "master");
    both_at_first(scene, 3);
    UNTIL(scene, scene->s[3].node.subscribers == 1);
    scene->s[0].mute = true;
    names(&scene->s[3], &scene->m[1], 3, "master");
    announce_switch(&scene->s[0], &scene->m[0], &scene->m[1]);
    await(scene, BOTH_TURN "b at M2; a at M2; ");
    names(&scene->s[0], &scene->m[1], 3, "master");
    asked = scene->s[0].asked;
    speak(&scene->s[0]);
    UNTIL(scene, scene->s[0].asked > asked + 2);
    nothing_for(scene, 1);
    assert_int_equal(scene->failovers, 1);
}

/* The listed sentinel does not announce switches, and learns of this one late. The next
 * heartbeat is far away. */
static void test_a_switch_that_a_learnt_one_reports_is_confirmed_soon(void **state)
{
    struct scene *scene = *state;
    int64_t begun;
    int asked;

    scene->config.request_timeout_ms = FAR_MS;
    scene->s[0].subscription = "-NOPERM no channel\r\n";
    one_learnt(scene);
    nothing_for(scene, 20);
    begun = lw__now_us();
    names(&scene->s[1], &scene->m[1], 2, "master");
    asked = scene->s[0].asked;
    announce_switch(&scene->s[1], &scene->m[0], &scene->m[1]);
    UNTIL(scene, scene->s[0].asked == asked + 1);
    nothing_for(scene, 20);
    names(&scene->s[0], &scene->m[1], 2, "master");
    await(scene, "a lost: the master is now M2, was M1; a at M2; ");
    assert_true(lw__now_us() - begun < SOON_US);
    assert_int_equal(scene->failovers, 1);
    assert_false(was_told(scene, TO_CONFIRM));
}

static void test_another_one_at_a_learnt_address_is_not_asked(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 100;
    scene->options.password = "secret";
    one_learnt(scene);
    assert_string_equal(scene->s[1].password, "secret"); /* after it had proved its id */
    leave(&scene->s[1]);
    UNTIL(scene, scene->s[0].asked > 3);
    *scene->s[1].password = '\0';
    scene->s[1].id = "feedfeedfeedfeedfeedfeedfeedfeedfeedfeed";
    scene->s[1].asked = scene->s[1].node.connected = 0;
    scene->s[1].subscriptions = 0;
    names(&scene->s[1], &scene->m[2], 9, "master");
    come(&scene->s[1]);
    UNTIL(scene, scene->s[1].node.connected > 3);
    leave(&scene->m[0]);
    come(&scene->m[0]);
    await(scene, "a lost: M1 closed the connection; a at M1; ");
    assert_int_equal(scene->s[1].asked, 0);
    assert_int_equal(scene->s[1].subscriptions, 0);
    assert_string_equal(scene->s[1].password, "");
    scene->s[1].id = NULL; /* the right one is back */
    UNTIL(scene, scene->s[1].asked > 0);
}

/* A sentinel may refuse MYID before AUTH; then the password is sent first. */
static void test_an_id_that_is_given_after_the_password_alone(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 100;
    scene->options.password = "secret";
    scene->s[1].guarded = scene->s[2].guarded = true;
    scene->s[2].id = "feedfeedfeedfeedfeedfeedfeedfeedfeedfeed";
    one_listed(scene, 2);
    UNTIL(scene, scene->s[1].asked > 1 && scene->s[2].node.connected > 1);
    assert_string_equal(scene->s[1].password, "secret");
    assert_int_equal(scene->s[2].asked, 0);
    assert_int_equal(scene->s[2].subscriptions, 0);
}

/* Such a sentinel is tried at growing intervals, because one that refuses MYID before
 * AUTH gets the password at each attempt. */
static void test_who_does_not_prove_its_id_is_left_alone(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 50;
    scene->s[1].id = "-NOPERM no permissions to run 'sentinel|myid'\r\n";
    one_listed(scene, 1);
    UNTIL(scene, scene->s[0].asked > 60);
    assert_in_range(scene->s[1].node.connected, 2, 8);
    assert_int_equal(scene->s[1].asked, 0);
}

/* A server without room sends this error to any connection. The error says nothing about
 * the server's id. */
static void test_a_learnt_one_that_is_busy_is_asked_in_each_round(void **state)
{
    struct scene *scene = *state;

    scene->config.request_timeout_ms = 50;
    scene->s[1].id = "-ERR max number of clients reached\r\n";
    one_listed(scene, 1);
    UNTIL(scene, scene->s[0].asked > 60);
    assert_true(scene->s[1].node.connected > 30); /* pauses would grow to 60 rounds */
    assert_int_equal(scene->s[1].asked, 0);
    scene->s[1].id = NULL;
    UNTIL(scene, scene->s[1].asked > 0);
}

static void test_a_learnt_one_that_no_listed_one_names_is_dropped(void **state)
{
    struct scene *scene = *state;
    char one[1024] = "*1\r\n";
    int asked;

    scene->config.request_timeout_ms = 100;
    (void)strcat(one, other(&scene->s[2], "sentinel"));
    scene->s[0].others = scene->s[1].others = one;
    names(&scene->s[0], &scene->m[0], 1, "master");
    names(&scene->s[1], &scene->m[0], 1, "master");
    names(&scene->s[2], &scene->m[0], 1, "master");
    scene_start(scene, 2);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    UNTIL(scene, scene->s[2].node.subscribers == 1);
    scene->s[0].others = NULL;
    asked = scene->s[0].asked;
    UNTIL(scene, scene->s[0].asked > asked + 5);
    assert_int_equal(scene->s[2].node.subscribers, 1); /* the other one names it */
    leave(&scene->s[1]); /* its earlier reply no longer counts */
    UNTIL(scene, scene->s[2].node.subscribers == 0);
    asked = scene->s[2].asked;
    UNTIL(scene, scene->s[0].asked > 20);
    assert_true(scene->s[2].asked <= asked + 1);
    come(&scene->s[1]);
    UNTIL(scene, scene->s[2].node.subscribers == 1);
    assert_string_equal(scene->nodes.trace + scene->nodes.read, "");
}

/* Pods have other addresses after a restart. */
static void test_a_learnt_one_is_found_at_its_new_address(void **state)
{
    struct scene *scene = *state;
    char id[41], moved[1024] = "*1\r\n";

    scene->config.request_timeout_ms = 100;
    one_learnt(scene);
    (void)snprintf(id, sizeof(id), "%040x", (unsigned)scene->s[1].node.port);
    scene->s[2].known_as = scene->s[3].known_as = id;
    (void)strcat(moved, other(&scene->s[2], "sentinel"));
    leave(&scene->s[1]);
    names(&scene->s[2], &scene->m[0], 1, "master");
    scene->s[0].others = moved;
    UNTIL(scene, scene->s[2].node.subscribers == 1);
    moved[0] = '\0';
    (void)strcat(strcat(moved, "*1\r\n"), other(&scene->s[3], "s_down,sentinel"));
    UNTIL(scene, scene->s[2].asked > 9);
    assert_int_equal(scene->s[3].node.connected, 0); /* not tried: it is down there */
}

/* The other sentinel reports the listed one by its address. */
static void test_one_that_is_listed_by_name_is_known(void **state)
{
    static char name[] = "localhost";
    struct scene *scene = *state;
    char both[2048] = "*2\r\n";

    (void)strcat(both, other(&scene->s[0], "sentinel"));
    (void)strcat(both, other(&scene->s[1], "sentinel"));
    scene->s[0].others = scene->s[1].others = both;
    names(&scene->s[0], &scene->m[0], 1, "master");
    names(&scene->s[1], &scene->m[0], 1, "master");
    scene->hosts[0].name = name;
    scene->config.request_timeout_ms = 100;
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    UNTIL(scene, scene->s[0].asked > 3 && scene->s[1].asked > 3);
    assert_int_equal(connections_to(&scene->s[0]) + connections_to(&scene->s[1]),
                     4); /* one each, and one that is subscribed */
}

/* A lying sentinel makes the client know 16 at most, and never forget the listed ones. */
static void test_no_more_are_learnt_than_can_be_listed(void **state)
{
    struct scene *scene = *state;
    char many[32768] = "*100\r\n";

    for (int i = 0; i < 100; i++) {
        struct fake nobody = {.node.port = (uint16_t)(i + 1)};

        (void)strcat(many, other(&nobody, "sentinel"));
    }
    scene->s[0].others = many;
    names(&scene->s[0], &scene->m[0], 1, "master");
    leave(&scene->s[1]);
    scene->config.request_timeout_ms = 100;
    scene_start(scene, 2);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    UNTIL(scene, scene->s[0].asked > 4);
    leave(&scene->s[0]);
    UNTIL(scene, count(scene->nodes.told, "\n") >= 16);
    nothing_for(scene, 120);
    assert_int_equal(count(scene->nodes.told, "\n"), 16);
    assert_non_null(strstr(scene->nodes.told, "sentinel S1: "));
    assert_non_null(strstr(scene->nodes.told, "sentinel S2: "));
}

/* ---- the rest ---- */

/* The child frees everything without affecting the servers or the parent's epoll. */
static void test_a_forked_child_lets_go(void **state)
{
    struct scene *scene = *state;
    int status;
    pid_t child;

    both_at_first(scene, 2);
    child = fork();
    if (child == 0) {
        lw__session_stop(&scene->a.session);
        lw__session_stop(&scene->b.session);
        lw__sentinel_free(scene->sentinels);
        lw__loop_free(scene->nodes.loop);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    nothing_for(scene, 20);
    names(&scene->s[0], &scene->m[1], 2, "master");
    names(&scene->s[1], &scene->m[1], 2, "master");
    announce_switch(&scene->s[0], &scene->m[0], &scene->m[1]);
    announce_switch(&scene->s[1], &scene->m[0], &scene->m[1]);
    await(scene, BOTH_TURN);
}

static void test_each_is_given_its_own_password(void **state)
{
    struct scene *scene = *state;

    scene->config.password = "the server's";
    scene->options.password = "the sentinels'";
    names(&scene->s[0], &scene->m[0], 1, "master");
    scene_start(scene, 1);
    go(scene, &scene->a);
    await(scene, "a at M1; ");
    assert_string_equal(scene->m[0].password, "the server's");
    assert_string_equal(scene->s[0].password, "the sentinels'");
}

static void test_it_ends_at_any_moment(void **state)
{
    struct scene *scene = *state;

    names(&scene->s[0], &scene->m[0], 1, "master");
    names(&scene->s[1], &scene->m[1], 2, "master");
    scene->s[0].others =
        "*1\r\n*6\r\n$2\r\nip\r\n$5\r\n127.1\r\n$4\r\nport\r\n$1\r\n9\r\n"
        "$5\r\nflags\r\n$1\r\ns\r\n";
    for (int turns = 0; turns < 60; turns++) {
        scene_start(scene, 2);
        go(scene, &scene->a);
        go(scene, &scene->b);
        for (int i = 0; i < turns; i++) {
            (void)event_base_loop(scene->nodes.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        }
        scene_stop(scene);
        pass(scene);
        nothing_for(scene, 1);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_all_are_asked_and_the_latest_is_believed),
        TEST(test_one_that_says_nothing_costs_200_ms),
        TEST(test_what_comes_in_time_is_believed_though_it_is_not_the_first),
        TEST(test_who_knows_better_too_late_is_believed_then),
        TEST(test_a_master_that_is_down_is_nowhere_to_go),
        TEST(test_while_the_master_is_down_each_one_is_told_of_once),
        TEST(test_who_does_not_see_it_down_is_believed),
        TEST(test_who_leads_a_failover_is_believed_last),
        TEST(test_who_leads_a_failover_is_left_as_soon_as_others_know),
        TEST(test_older_than_known_is_not_believed_while_one_is_to_be_heard),
        TEST(test_older_than_known_is_not_believed_of_a_minority),
        TEST(test_older_than_known_ends_no_connection),
        TEST(test_another_name_of_the_server_ends_no_connection),
        TEST(test_sentinels_that_were_set_up_anew_elsewhere_are_believed),
        TEST(test_older_than_known_is_believed_when_all_are_heard),
        TEST(test_a_name_and_an_address_for_one_server_do_not_alternate),
        TEST(test_each_one_says_why_it_is_of_no_use),
        TEST(test_a_long_reason_leaves_room_for_the_others),
        TEST(test_silence_ends_with_half_the_time_for_connecting),
        TEST(test_when_all_have_gone_the_connection_stays),
        TEST(test_who_is_no_master_is_left_and_asked_about_again),
        TEST(test_a_switch_that_is_told_turns_both_at_once),
        TEST(test_a_switch_that_was_missed_is_found_at_a_heartbeat),
        TEST(test_a_switch_to_and_fro_that_was_missed_is_found),
        TEST(test_who_is_being_replaced_is_left_for_whom_another_names),
        TEST(test_the_way_back_of_a_switch_that_was_missed),
        TEST(test_a_switch_that_is_told_turns_them_once),
        TEST(test_a_switch_before_the_subscription_is_found_with_it),
        TEST(test_answers_of_before_a_switch_do_not_lead_back),
        TEST(test_an_answer_from_before_a_switch_is_asked_for_again),
        TEST(test_a_switch_before_the_subscription_is_found_after_a_round),
        TEST(test_a_loop_that_stalls_does_not_end_a_round),
        TEST(test_one_that_lags_does_not_lead_back),
        TEST(test_sentinels_that_were_set_up_anew_are_followed_on),
        TEST(test_messages_about_others_and_nonsense_are_passed_over),
        TEST(test_a_long_delay_is_cut_short_by_a_switch),
        TEST(test_who_waits_for_a_switch_that_is_not_told_finds_it),
        TEST(test_who_stands_asks_once_more_and_is_quiet),
        TEST(test_a_switch_to_and_fro_is_followed),
        TEST(test_who_is_followed_is_told_with_its_time),
        TEST(test_a_switch_begins_its_time_anew),
        TEST(test_an_answer_without_the_time_leaves_what_is_counted),
        TEST(test_each_of_them_tells),
        TEST(test_one_that_was_away_tells_again),
        TEST(test_one_that_falls_silent_hides_nothing),
        TEST(test_where_subscribing_is_forbidden_heartbeats_find_it),
        TEST(test_what_is_forbidden_is_not_asked_for_all_the_time),
        TEST(test_sentinels_are_learnt_from_sentinels),
        TEST(test_a_learnt_one_alone_leads_nowhere),
        TEST(test_a_learnt_one_leads_nowhere_while_all_listed_ones_are_dead),
        TEST(test_a_listed_one_that_comes_back_is_found_while_a_learnt_one_waits_for_it),
        TEST(test_a_learnt_one_replaces_listed_ones_that_are_dead),
        TEST(test_a_learnt_one_with_a_later_epoch_leads_to_the_present_master),
        TEST(test_a_learnt_one_outranks_no_listed_one),
        TEST(test_a_learnt_one_at_the_present_master_needs_no_confirmation),
        TEST(test_an_epoch_of_a_learnt_one_is_no_sign_of_a_failover),
        TEST(test_a_switch_that_a_learnt_one_reports_is_confirmed_soon),
        TEST(test_another_one_at_a_learnt_address_is_not_asked),
        TEST(test_an_id_that_is_given_after_the_password_alone),
        TEST(test_who_does_not_prove_its_id_is_left_alone),
        TEST(test_a_learnt_one_that_is_busy_is_asked_in_each_round),
        TEST(test_a_learnt_one_that_no_listed_one_names_is_dropped),
        TEST(test_a_learnt_one_is_found_at_its_new_address),
        TEST(test_one_that_is_listed_by_name_is_known),
        TEST(test_no_more_are_learnt_than_can_be_listed),
        TEST(test_a_forked_child_lets_go),
        TEST(test_each_is_given_its_own_password),
        TEST(test_it_ends_at_any_moment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * Tests what the scripts do if the server refuses a command: missing permissions, a
 * read-only server, no memory. Each test plays one fault and checks the state afterwards.
 * Independent of the C client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "script_calls.h"

/* Permissions. */

static void who_may_not_tell_leaves_the_key_free_and_the_queue_whole(const char *rule)
{
    struct script_answer answer;

    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    refused(acquire(t4, LEASE, 1, NO_TICKET), 1);
    script_do(&server, "PEXPIRE " QUEUE " 60000");
    script_server_become(&server, rule);
    assert_int_equal(release(t1), 1);
    assert_free();
    assert_string_equal(script_get(&server, "ZRANGE " QUEUE " 0 0"), t2);
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 2);
    assert_true(script_do(&server, "PTTL " QUEUE) <= 60000);
    answer = acquire(t3, LEASE, 0, NO_TICKET);
    refused(answer, -1);
    assert_int_equal(answer.n[1], 0);
    script_server_become(&server, NULL);
    granted(acquire(t2, LEASE, 1, NO_TICKET));
}

static void who_may_not_tell_leaves_the_last_of_a_queue_its_place(const char *rule)
{
    char ticket[32];

    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    (void)snprintf(ticket, sizeof(ticket), "%s",
                   script_get(&server, "ZSCORE " QUEUE " %s", t2));
    script_do(&server, "PEXPIRE " QUEUE " 60000");
    script_server_become(&server, rule);
    assert_int_equal(release(t1), 1);
    refused(acquire(t3, LEASE, 0, NO_TICKET), -1);
    assert_free();
    assert_string_equal(script_get(&server, "ZSCORE " QUEUE " %s", t2), ticket);
    assert_true(script_do(&server, "PTTL " QUEUE) <= 60000);
}

static void who_may_not_tell_leaves_the_head_where_it_is_rw(const char *rule)
{
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    script_server_become(&server, rule);
    rw_released(rw_release(t1, "w", "A"), 0);
    assert_int_equal(script_do(&server, "EXISTS rw"), 0);
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), 1);
    refused(rw_acquire(t3, "w", "C", 0, NO_TICKET), -1);
    script_server_become(&server, NULL);
    granted(rw_acquire(t2, "w", "B", 1, NO_TICKET));
}

static void without_the_channels_a_release_leaves_the_key_free_and_the_queue_whole(
    void **state)
{
    (void)state;
    who_may_not_tell_leaves_the_key_free_and_the_queue_whole("resetchannels");
}

static void without_numsub_a_release_leaves_the_key_free_and_the_queue_whole(void **state)
{
    (void)state;
    who_may_not_tell_leaves_the_key_free_and_the_queue_whole("-pubsub");
}

static void without_the_channels_the_last_of_a_queue_keeps_its_place_too(void **state)
{
    (void)state;
    who_may_not_tell_leaves_the_last_of_a_queue_its_place("resetchannels");
}

static void without_numsub_the_last_of_a_queue_keeps_its_place_too(void **state)
{
    (void)state;
    who_may_not_tell_leaves_the_last_of_a_queue_its_place("-pubsub");
}

static void without_the_channels_rw_leaves_the_head_where_it_is(void **state)
{
    (void)state;
    who_may_not_tell_leaves_the_head_where_it_is_rw("resetchannels");
}

static void without_numsub_rw_leaves_the_head_where_it_is(void **state)
{
    (void)state;
    who_may_not_tell_leaves_the_head_where_it_is_rw("-pubsub");
}

static void assert_read_only(struct script_answer answer)
{
    assert_true(answer.error);
    assert_non_null(strstr(answer.text, "READONLY"));
}

/* A read-only server would deliver a message but refuse the write: no message may be sent
 * (both_silent checks that). */
static void a_read_only_server_tells_nobody(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    script_do(&server, "REPLICAOF 127.0.0.1 1");
    assert_read_only(
        script_run(&server, LW__SCRIPT_MUTEX_RELEASE, 3, KEYS, t1, NUMBERS, NULL));
    assert_read_only(rw_release(t1, "w", "A"));
    script_do(&server, "REPLICAOF NO ONE");
    script_do(&server, "DEL n rw"); /* free, with a queue */
    script_do(&server, "REPLICAOF 127.0.0.1 1");
    assert_read_only(acquire(t3, LEASE, 0, NO_TICKET));
    assert_read_only(rw_acquire(t3, "r", "C", 0, NO_TICKET));
    script_do(&server, "REPLICAOF NO ONE");
    assert_free();
}

/* Also if the requested lease is shorter than the rest of the present one: a server that
 * was demoted no longer knows the holder. */
static void a_read_only_server_renews_nothing(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 0, NO_TICKET));
    granted(rw_acquire(t1, "w", "A", 0, NO_TICKET));
    script_do(&server, "REPLICAOF 127.0.0.1 1");
    assert_read_only(
        script_run(&server, LW__SCRIPT_MUTEX_RENEW, 1, "n", t1, "100", NULL));
    assert_read_only(script_run(&server, LW__SCRIPT_RW_RENEW, 3, "lockwire:fence", "rw",
                                RW_QUEUE, NUMBERS, t1, "100", NULL));
    script_do(&server, "REPLICAOF NO ONE");
}

static void without_pubsub_a_writer_at_the_head_counts_as_alive(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    script_server_become(&server, "-pubsub");
    refused(rw_acquire(t4, "r", "C", 1, NO_TICKET), 1);
}

static void without_a_write_permission_the_error_leaves_no_grant(void **state)
{
    struct script_answer answer;

    (void)state;
    script_server_become(&server, "-incrby -zadd");
    script_do(&server, "ACL SETUSER other -set");
    answer = acquire(t1, LEASE, 1, NO_TICKET);
    assert_true(answer.error);
    assert_free();
    script_do(&server, "ACL SETUSER other +set");
    script_do(&server, "SET n x PX 600000");
    answer = acquire(t1, LEASE, 1, NO_TICKET);
    assert_true(answer.error);
    assert_int_equal(script_do(&server, "EXISTS " QUEUE), 0);
}

/* No other script follows a release that uses the lock's key alone, while a slot
 * moves. */
static void a_value_that_may_not_be_read_is_no_stranger_s(void **state)
{
    struct script_answer answer;

    (void)state;
    script_do(&server, "SET n %s PX 600000", t1);
    script_server_become(&server, "-get");
    answer =
        script_run(&server, LW__SCRIPT_MUTEX_RELEASE_FAST, 1, "n", t1, "anyway", NULL);
    assert_true(answer.error);
    assert_int_equal(script_do(&server, "EXISTS n"), 1);
}

/* Returns all fields of the lock's hash; its TTL is not part of them. */
static const char *what_stands(void)
{
    return script_get(&server, "EVAL %s 1 rw",
                      "local out = redis.call('HGETALL', KEYS[1]) "
                      "for i = 1, #out, 2 do out[i] = out[i] .. '=' .. out[i + 1] end "
                      "table.sort(out) return table.concat(out, ', ')");
}

/* Both ways of the script: the fast one, and the slow one, which also starts the
 * counter. */
static void without_pexpire_a_grant_leaves_nothing_that_never_ends_rw(void **state)
{
    static const char *const kinds[] = {"w", "r"};
    struct script_answer answer;

    (void)state;
    for (int seeded = 0; seeded < 2; seeded++) {
        for (int i = 0; i < 2; i++) {
            script_do(&server, "DEL lockwire:fence");
            if (seeded) {
                script_run(&server, LW__SCRIPT_FENCE_SEED, 1, "lockwire:fence", NULL);
            }
            script_server_become(&server, "-pexpire");
            answer = rw_acquire(t1, kinds[i], "A", 0, NO_TICKET);
            assert_true(answer.error);
            assert_non_null(strstr(answer.text, "run"));
            assert_int_equal(script_do(&server, "EXISTS rw"), 0);
            script_server_become(&server, NULL);
        }
    }
}

static void without_pexpire_nobody_begins_a_queue_rw(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    script_server_become(&server, "-pexpire");
    assert_true(rw_acquire(t2, "w", "B", 1, NO_TICKET).error);
    assert_int_equal(script_do(&server, "EXISTS " RW_QUEUE), 0);
}

/* In the first round t1 holds alone and its end is that of the key; in the second it
 * holds next to t2 and has an end of its own. */
static void without_pexpire_who_comes_to_read_leaves_the_others_as_they_were(void **state)
{
    struct script_answer answer;
    char before[1024];

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    for (int others = 1; others <= 2; others++) {
        (void)snprintf(before, sizeof(before), "%s", what_stands());
        script_server_become(&server, "-pexpire");
        answer = script_run(&server, LW__SCRIPT_RW_ACQUIRE, 3, RW_KEYS, t3,
                            script_number(2 * LEASE), "r C", "0 -1 0 " NUMBERS, NULL);
        assert_true(answer.error);
        assert_string_equal(what_stands(), before);
        script_server_become(&server, NULL);
        granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    }
}

/* No message is sent about a hold that could not be written (both_silent checks that). */
static void without_pexpire_a_release_tells_nobody_rw(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    script_server_become(&server, "-pexpire");
    assert_true(rw_release(t1, "w", "A").error);
    assert_int_equal(script_do(&server, "EXISTS rw"), 0);
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), 1);
    script_server_become(&server, NULL);
    granted(rw_acquire(t2, "w", "B", 1, NO_TICKET));
}

/* A message would announce a lock that no waiter got (both_silent checks that). */
static void without_a_command_no_hand_over_is_announced(const char *rule)
{
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    refused(acquire(t3, LEASE, 1, NO_TICKET), 1);
    script_server_become(&server, rule);
    assert_true(
        script_run(&server, LW__SCRIPT_MUTEX_RELEASE, 3, KEYS, t1, NUMBERS, NULL).error);
    assert_holder(t1);
    expire();
    assert_true(acquire(t4, LEASE, 0, NO_TICKET).error);
    assert_free();
    assert_string_equal(script_get(&server, "ZRANGE " QUEUE " 0 0"), t2);
    script_client_silent(&b);
    script_server_become(&server, NULL);
    assert_int_equal(release(t1), 0);
    script_client_turn(&b, t2);
    script_client_standby(&a, t3, 50000);
}

static void without_set_no_hand_over_is_announced(void **state)
{
    (void)state;
    without_a_command_no_hand_over_is_announced("-set");
}

static void without_zrem_no_hand_over_is_announced(void **state)
{
    (void)state;
    without_a_command_no_hand_over_is_announced("-zrem");
}

static void without_hset_no_hold_is_left_without_its_count(void **state)
{
    char before[1024];

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "C", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    /* Without a queue the first release takes the short way, the second the long one. */
    script_do(&server, "DEL " RW_QUEUE);
    for (int waiting = 0; waiting < 2; waiting++) {
        (void)snprintf(before, sizeof(before), "%s", what_stands());
        script_server_become(&server, "-hset");
        assert_true(rw_release(t1, "r", "A").error);
        assert_string_equal(what_stands(), before);
        script_server_become(&server, NULL);
        refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    }
    rw_released(rw_release(t3, "r", "C"), 0);
    script_server_become(&server, "-hset");
    assert_true(rw_release(t1, "r", "A").error); /* the writer cannot enter */
    assert_int_equal(script_do(&server, "EXISTS rw"), 0);
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), 1);
}

/* The look after each script finds no key without a TTL. */
static void a_counter_that_was_lost_is_not_begun_without_an_end(void **state)
{
    (void)state;
    script_server_become(&server, "-zrange -set");
    assert_true(acquire(t1, LEASE, 1, NO_TICKET).error);
    assert_true(rw_acquire(t1, "r", "A", 1, NO_TICKET).error);
}

static void without_zcard_no_queue_is_begun_without_an_end(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    script_do(&server, "DEL " QUEUE);
    script_server_become(&server, "-zcard");
    assert_true(acquire(t2, LEASE, 1, NO_TICKET).error);
}

/* A waiter that cannot be notified gets no hold, and the holders keep theirs. */
static void without_the_channels_a_head_that_could_enter_beside_others_stays(void **state)
{
    struct script_client mortal;
    const char *t5;

    (void)state;
    script_client_start(&mortal, &server, 3);
    t5 = script_token(&mortal, 5, WINDOW);
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "C", 1, NO_TICKET));
    refused(rw_acquire(t5, "w", "E", 1, NO_TICKET), 0);
    refused(rw_acquire(t2, "r", "B", 1, NO_TICKET), 1);
    script_client_stop(&mortal);
    script_server_become(&server, "resetchannels");
    refused(rw_acquire(t4, "r", "D", 0, NO_TICKET), -1);
    assert_int_equal(script_do(&server, "ZCARD " RW_QUEUE), 1);
    assert_string_equal(script_get(&server, "HGET rw h:%s", t2), "");
    assert_counts(2, 2, 0);
    script_server_become(&server, NULL);
    rw_released(rw_release(t1, "r", "A"), 0);
    script_client_turn(&b, t2);
}

/* Without the counter only the time is known, which is the same for the two readers that
 * one script lets in. */
static void without_incrby_nobody_is_granted_a_lock(void **state)
{
    (void)state;
    script_server_become(&server, "-incrby");
    assert_true(acquire(t1, LEASE, 1, NO_TICKET).error);
    assert_free();
    script_server_become(&server, NULL);
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "r", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t3, "r", "C", 1, NO_TICKET), 1);
    script_server_become(&server, "-incrby");
    assert_true(rw_release(t1, "w", "A").error);
    assert_int_equal(script_do(&server, "EXISTS rw"), 0);
    script_server_become(&server, NULL);
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    assert_counts(2, 2, 0);
    script_client_turn(&a, t3);
}

/* An account that was set up for an earlier version lacks ZREVRANK. */
static void without_zrevrank_they_queue_all_the_same(void **state)
{
    (void)state;
    script_server_become(&server, "-zrevrank");
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    script_do(&server, "DEL " QUEUE);
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0); /* behind a marked holder */
    assert_true(script_do(&server, "PTTL " QUEUE) > 0);
    refused(acquire(t3, LEASE, 1, NO_TICKET), 1);
    refused(acquire(t4, LEASE, 1, NO_TICKET), 2);
    assert_int_equal(release(t1), 1);
    assert_marked(t2);
    assert_string_equal(script_get(&server, "ZRANGE " QUEUE " 0 0"), t3);
    assert_string_equal(script_get(&server, "ZRANGE " QUEUE " 1 1"), t4);
    script_client_turn(&b, t2);
    script_client_standby(&a, t3, WINDOW - 10000);
}

/* Memory. */

static void run_out_of_memory(void)
{
    script_do(&server, "CONFIG SET maxmemory 1");
}

static void assert_oom(struct script_answer answer)
{
    assert_true(answer.error);
    assert_non_null(strstr(answer.text, "OOM"));
}

static void out_of_memory_nothing_is_granted_or_queued(void **state)
{
    (void)state;
    run_out_of_memory();
    assert_oom(acquire(t1, LEASE, 1, NO_TICKET));
    assert_oom(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    assert_oom(script_run(&server, LW__SCRIPT_FENCE_SEED, 1, "lockwire:fence", NULL));
    assert_int_equal(script_do(&server, "DBSIZE"), 0);
    script_do(&server, "CONFIG SET maxmemory 0");
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    run_out_of_memory();
    assert_oom(acquire(t2, LEASE, 1, NO_TICKET));
    assert_oom(rw_acquire(t2, "w", "B", 1, NO_TICKET));
    assert_oom(rw_acquire(t3, "w", "A", 1, NO_TICKET));
    refused(acquire(t2, LEASE, 0, NO_TICKET), -1); /* needs no memory */
    assert_holder(t1);
    assert_int_equal(script_do(&server, "EXISTS " QUEUE), 0);
    assert_int_equal(script_do(&server, "EXISTS " RW_QUEUE), 0);
}

static void out_of_memory_a_mutex_is_renewed_handed_over_claimed_and_released(
    void **state)
{
    struct script_answer answer;

    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    refused(acquire(t4, LEASE, 1, NO_TICKET), 1);
    refused(acquire(t3, LEASE, 1, NO_TICKET), 2);
    run_out_of_memory();
    answer = script_run(&server, LW__SCRIPT_MUTEX_RENEW, 1, "n", t1, "900000", NULL);
    assert_int_equal(answer.n[0], 1);
    assert_int_equal(release(t1), 1);
    assert_holder(t2);
    script_client_turn(&b, t2);
    granted(acquire(t2, LEASE, 1, NO_TICKET));
    assert_int_equal(release(t2), 1);
    assert_oom(
        acquire(t1, LEASE, 1, NO_TICKET)); /* as a client that follows its release */
    script_client_turn(&b, t4);
    script_client_standby(&a, t3, 30000);
    assert_int_equal(release(t4), 1);
    script_client_turn(&a, t3);
    assert_int_equal(release(t3), 1);
    assert_free();
}

static void out_of_memory_a_read_write_lock_is_renewed_released_and_handed_over(
    void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "C", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    refused(rw_acquire(t4, "r", "D", 1, NO_TICKET), 1);
    run_out_of_memory();
    assert_int_equal(rw_renew(t1, 2 * LEASE), 1);
    script_do(&server, "CONFIG SET maxmemory 0");
    rw_end(t3);
    run_out_of_memory();
    assert_int_equal(rw_renew(t1, 2 * LEASE), 1);
    assert_counts(1, 1, 0);
    rw_released(rw_release(t1, "r", "A"), 0);
    script_client_turn(&b, t2);
    script_client_standby(&b, t4, 50000);
    granted(rw_acquire(t2, "w", "B", 1, NO_TICKET));
    rw_released(rw_release(t2, "w", "B"), 0);
    script_client_turn(&b, t4);
    rw_released(rw_release(t4, "r", "D"), 0);
    assert_int_equal(script_do(&server, "EXISTS rw"), 0);
}

/* An operator's break of the holds whose token is too long to be named: if there are
 * none, it writes nothing. */
static void out_of_memory_a_break_that_finds_nothing_is_answered(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "C", 1, NO_TICKET));
    run_out_of_memory();
    assert_int_equal(first_of(rw_release("", "r", ""), 3), 0);
    assert_counts(2, 2, 0);
}

static void out_of_memory_a_vanished_hold_s_renewal_serves_the_queue(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    script_do(&server, "DEL rw");
    run_out_of_memory();
    assert_int_equal(rw_renew(t1, LEASE), 0);
    script_client_turn(&b, t2);
    assert_counts(0, 0, 1);
}

/* The reply of inspect, as described in the script's own comment. */

static void inspect_shows_holds_and_waiters(void **state)
{
    redisReply *reply;
    long long fence = granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));

    (void)state;
    refused(rw_acquire(t2, "w", "B", 1, NO_TICKET), 0);
    reply = redisCommand(server.admin, "EVALSHA %s 3 rw %s %s",
                         lw__scripts[LW__SCRIPT_INSPECT].sha1, QUEUE, RW_QUEUE);
    assert_non_null(reply);
    assert_int_equal(reply->elements, 10);
    assert_string_equal(reply->element[0]->str, "hash");
    assert_true(reply->element[1]->integer > LEASE / 2);
    assert_string_equal(reply->element[3]->str, "");
    assert_int_equal(reply->element[4]->integer, 1);
    assert_int_equal(reply->element[5]->elements, 4);
    assert_string_equal(reply->element[5]->element[0]->str, t1);
    assert_int_equal(strtoll(reply->element[5]->element[2]->str, NULL, 10), fence);
    assert_int_equal(reply->element[6]->elements, 2);
    assert_int_equal(reply->element[6]->element[0]->integer, 0);
    assert_int_equal(reply->element[7]->elements, 4);
    assert_int_equal(reply->element[7]->element[0]->integer, 1);
    assert_int_equal(strncmp(reply->element[7]->element[2]->str, "w0 ", 3), 0);
    assert_string_equal(reply->element[5]->element[3]->str, "");
    assert_string_equal(reply->element[8]->str, "master");
    assert_string_equal(reply->element[9]->str, "");
    freeReplyObject(reply);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOKENS_TEST(
            without_the_channels_a_release_leaves_the_key_free_and_the_queue_whole),
        TOKENS_TEST(without_numsub_a_release_leaves_the_key_free_and_the_queue_whole),
        TOKENS_TEST(without_the_channels_the_last_of_a_queue_keeps_its_place_too),
        TOKENS_TEST(without_numsub_the_last_of_a_queue_keeps_its_place_too),
        TOKENS_TEST(without_the_channels_rw_leaves_the_head_where_it_is),
        TOKENS_TEST(without_numsub_rw_leaves_the_head_where_it_is),
        TOKENS_TEST(a_read_only_server_tells_nobody),
        TOKENS_TEST(a_read_only_server_renews_nothing),
        TOKENS_TEST(without_pubsub_a_writer_at_the_head_counts_as_alive),
        TOKENS_TEST(without_a_write_permission_the_error_leaves_no_grant),
        TOKENS_TEST(a_value_that_may_not_be_read_is_no_stranger_s),
        TOKENS_TEST(without_pexpire_a_grant_leaves_nothing_that_never_ends_rw),
        TOKENS_TEST(without_pexpire_nobody_begins_a_queue_rw),
        TOKENS_TEST(without_pexpire_who_comes_to_read_leaves_the_others_as_they_were),
        TOKENS_TEST(without_pexpire_a_release_tells_nobody_rw),
        TOKENS_TEST(without_set_no_hand_over_is_announced),
        TOKENS_TEST(without_zrem_no_hand_over_is_announced),
        TOKENS_TEST(without_hset_no_hold_is_left_without_its_count),
        TOKENS_TEST(a_counter_that_was_lost_is_not_begun_without_an_end),
        TOKENS_TEST(without_zcard_no_queue_is_begun_without_an_end),
        TOKENS_TEST(without_the_channels_a_head_that_could_enter_beside_others_stays),
        TOKENS_TEST(without_incrby_nobody_is_granted_a_lock),
        TOKENS_TEST(without_zrevrank_they_queue_all_the_same),
        TOKENS_TEST(out_of_memory_nothing_is_granted_or_queued),
        TOKENS_TEST(out_of_memory_a_mutex_is_renewed_handed_over_claimed_and_released),
        TOKENS_TEST(out_of_memory_a_read_write_lock_is_renewed_released_and_handed_over),
        TOKENS_TEST(out_of_memory_a_break_that_finds_nothing_is_answered),
        TOKENS_TEST(out_of_memory_a_vanished_hold_s_renewal_serves_the_queue),
        TOKENS_TEST(inspect_shows_holds_and_waiters),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}

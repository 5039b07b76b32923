/* SPDX-License-Identifier: MIT
 *
 * Owns: what the read-write scripts make of a head that may not enter yet and so keeps out
 * others that might: a dead one, one that hangs, a former reader with an upgrader's ticket.
 * Must not know: the C client. That time passes is played by writing a waiter's note into
 * the past.
 *
 * Happy path: as in scripts_rw.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "script_calls.h"

static char t1[80], t2[80], t3[80], t4[80];

static int four_tokens(void **state)
{
    strcpy(t1, script_token(&a, 1, WINDOW));
    strcpy(t2, script_token(&b, 2, 50000));
    strcpy(t3, script_token(&a, 3, 40000));
    strcpy(t4, script_token(&b, 4, 30000));
    return empty_server(state);
}

/* Queues a request of a process that ends then. */
static void queue_of_the_dead(const char *kind, const char *owner, int position)
{
    struct script_client mortal;

    script_client_start(&mortal, &server, 3);
    refused(rw_acquire(script_token(&mortal, 5 + position, WINDOW), kind, owner, 1,
                       NO_TICKET),
            position);
    script_client_stop(&mortal);
}

static void a_dead_writer_does_not_keep_out_a_reader_that_tries_once(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    queue_of_the_dead("w", "B", 0);
    granted(rw_acquire(t4, "r", "C", 0, NO_TICKET));
    assert_counts("read", 2, 2, 0);
    assert_int_equal(script_do(&server, "EXISTS " RW_QUEUE), 0);
}

static void behind_the_dead_a_live_writer_still_comes_before_who_tries_once(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    queue_of_the_dead("w", "B", 0);
    refused(rw_acquire(t2, "w", "C", 1, NO_TICKET), 0);
    refused(rw_acquire(t4, "r", "D", 0, NO_TICKET), -1);
    refused(rw_acquire(t4, "r", "D", 0, NO_TICKET), -1);
    rw_released(rw_release(t1, "r", "A"), 0);
    script_client_turn(&b, t2);
}

static void a_dead_request_at_its_permits_limit_keeps_nobody_out(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r1", "A", 1, NO_TICKET));
    queue_of_the_dead("r1", "B", 0);
    granted(rw_acquire(t2, "r5", "C", 0, NO_TICKET));
    queue_of_the_dead("r1", "D", 0);
    granted(rw_acquire(t4, "r5", "E", 1, NO_TICKET));
    assert_counts("read", 3, 3, 0);
}

/* An upgrader's ticket, 0, is worth its place only while its owner holds. */

static void a_former_reader_waits_behind_whoever_came_meanwhile(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    assert_int_equal(refused(rw_acquire(t3, "w", "A", 1, NO_TICKET), 0), 0);
    refused(rw_acquire(t4, "w", "C", 1, NO_TICKET), 1);
    rw_released(rw_release(t1, "r", "A"), 0);
    rw_released(rw_release(t2, "r", "B"), 0);
    script_client_turn(&b, t4);
    script_client_standby(&a, t3, 30000);
    rw_released(rw_release(t4, "w", "C"), 0);
    script_client_turn(&a, t3);
}

static void a_former_reader_that_asks_is_told_its_new_ticket(void **state)
{
    long long place, ticket;

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    refused(rw_acquire(t3, "w", "A", 1, NO_TICKET), 0);
    place = refused(rw_acquire(t4, "w", "C", 1, NO_TICKET), 1);
    rw_end(t1);
    ticket = refused(rw_acquire(t3, "w", "A", 1, 0), 1);
    assert_true(ticket > place);
    assert_int_equal(refused(rw_acquire(t3, "w", "A", 1, 0), 1), ticket);
    assert_int_equal(refused(rw_acquire(t3, "w", "A", 1, ticket), 1), ticket);
    rw_released(rw_release(t2, "r", "B"), 0);
    script_client_turn(&b, t4);
    script_client_standby(&a, t3, 30000);
}

static void a_former_reader_of_a_lock_that_vanished_is_no_upgrader_either(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    refused(rw_acquire(t3, "w", "A", 1, NO_TICKET), 0);
    refused(rw_acquire(t4, "w", "C", 1, NO_TICKET), 1);
    script_do(&server, "DEL rw");
    assert_int_equal(rw_renew(t1, LEASE), 0);
    script_client_turn(&b, t4);
    script_client_standby(&a, t3, 30000);
}

/* Else it would wait for a writer that waits for the end of its own read. */
static void a_waiting_writer_that_becomes_a_reader_waits_as_an_upgrader(void **state)
{
    char t5[80];

    (void)state;
    strcpy(t5, script_token(&a, 5, WINDOW));
    granted(rw_acquire(t1, "w", "X", 1, NO_TICKET));
    refused(rw_acquire(t2, "r", "A", 1, NO_TICKET), 0);
    refused(rw_acquire(t5, "r", "B", 1, NO_TICKET), 1);
    refused(rw_acquire(t3, "w", "C", 1, NO_TICKET), 2);
    refused(rw_acquire(t4, "w", "A", 1, NO_TICKET), 3);
    rw_released(rw_release(t1, "w", "X"), 0);
    script_client_turn(&b, t2);
    script_client_turn(&a, t5);
    script_client_standby(&a, t3, 60000);
    assert_int_equal(refused(rw_acquire(t4, "w", "A", 1, NO_TICKET), 0), 0);
    rw_released(rw_release(t5, "r", "B"), 0);
    script_client_turn(&b, t4);
    script_client_standby(&a, t3, 30000);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, four_tokens, both_silent)
    const struct CMUnitTest tests[] = {
        TEST(a_dead_writer_does_not_keep_out_a_reader_that_tries_once),
        TEST(behind_the_dead_a_live_writer_still_comes_before_who_tries_once),
        TEST(a_dead_request_at_its_permits_limit_keeps_nobody_out),
        TEST(a_former_reader_waits_behind_whoever_came_meanwhile),
        TEST(a_former_reader_that_asks_is_told_its_new_ticket),
        TEST(a_former_reader_of_a_lock_that_vanished_is_no_upgrader_either),
        TEST(a_waiting_writer_that_becomes_a_reader_waits_as_an_upgrader),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}

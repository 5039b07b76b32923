/* SPDX-License-Identifier: MIT
 *
 * Tests the queue mark in a mutex's value, by which a release knows without reading the
 * queue that there are no waiters: which scripts set it, and that each script that
 * compares the value accepts both forms. Independent of the C client.
 *
 * Usual course: a holds, b joins the queue, and the value is marked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "range.h"
#include "script_calls.h"

static void a_lock_that_nobody_waits_for_is_not_marked(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    assert_unmarked(t1);
    refused(acquire(t2, LEASE, 0, NO_TICKET), -1);
    assert_unmarked(t1);
    assert_int_equal(release(t2), 0);
    assert_unmarked(t1);
}

static void who_joins_marks_and_the_lease_runs_on(void **state)
{
    (void)state;
    script_do(&server, "SET n %s PX 500000", t1);
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    assert_marked(t1);
    assert_int_in_range(script_do(&server, "PTTL n"), 400000, 500000);
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    assert_marked(t1);
}

static void a_hand_over_is_marked_while_others_wait(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    refused(acquire(t3, LEASE, 1, NO_TICKET), 1);
    assert_int_equal(release(t1), 1);
    assert_marked(t2);
    script_client_turn(&b, t2);
    script_client_standby(&a, t3, WINDOW - 10000);
    assert_int_equal(release(t2), 1);
    assert_unmarked(t3);
    script_client_turn(&a, t3);
    assert_int_equal(release(t3), 1);
    assert_free();
}

static void who_takes_a_free_name_marks_it_while_others_wait(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    refused(acquire(t3, LEASE, 1, NO_TICKET), 1);
    expire();
    granted(acquire(t2, LEASE, 1, NO_TICKET));
    assert_marked(t2);
    expire();
    granted(acquire(t3, LEASE, 1, NO_TICKET));
    assert_unmarked(t3);
}

/* A newcomer's SET NX took the free name first; it could not know of the queue. */
static void take_unmarked(const char *token)
{
    script_do(&server, "SET n %s PX 600000", token);
}

static void each_who_looks_marks_what_was_taken_unmarked(void **state)
{
    long long ticket;

    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    ticket = refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    take_unmarked(t3);
    refused(acquire(t2, LEASE, 1, ticket), 0); /* a poll */
    assert_marked(t3);
    take_unmarked(t3);
    /* t2 waits, and may not queue at the moment. */
    refused(acquire(t2, LEASE, 0, ticket), 0);
    assert_marked(t3);
    take_unmarked(t3);
    refused(acquire(t4, LEASE, 0, NO_TICKET), -1); /* a request that does not wait */
    assert_marked(t3);
    refused(acquire(t4, LEASE, 1, NO_TICKET), 1);
    take_unmarked(t3);
    assert_int_equal(release(t4), 0); /* t4 leaves, and one waiter is left */
    assert_marked(t3);
    take_unmarked(t3);
    granted(acquire(t3, LEASE, 1, NO_TICKET)); /* the holder itself */
    assert_marked(t3);
}

static void who_leaves_an_empty_queue_marks_nothing(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    take_unmarked(t3);
    assert_int_equal(release(t2), 0);
    assert_unmarked(t3);
}

static void a_marked_holder_is_renewed_and_granted_again(void **state)
{
    struct script_answer answer;

    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    answer = script_run(&server, LW__SCRIPT_MUTEX_RENEW, 1, "n", t1, "900000", NULL);
    assert_int_equal(answer.n[0], 1);
    assert_marked(t1);
    assert_true(script_do(&server, "PTTL n") > LEASE);
    granted(acquire(t1, 2 * LEASE, 1, NO_TICKET));
    assert_marked(t1);
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 1);
}

static void a_marked_holder_that_requests_again_waits(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    assert_int_equal(release(t1), 1);
    refused(acquire(t3, LEASE, 1, NO_TICKET), 0);
    assert_marked(t2); /* t3 waits */
    script_client_turn(&b, t2);
    assert_int_equal(release(t1), 0); /* sent again */
    assert_marked(t2);
    assert_int_equal(release(t2), 1);
    assert_unmarked(t3);
    script_client_turn(&a, t3);
}

static void what_is_not_marked_is_dropped_once(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    assert_int_equal(drop(t2), 0);
    assert_unmarked(t1);
    assert_int_equal(drop(t1), 1);
    assert_free();
    assert_int_equal(drop(t1), 0);
    granted(acquire(t2, LEASE, 1, NO_TICKET));
    assert_int_equal(drop(t1), 0); /* a late duplicate */
    assert_unmarked(t2);
}

static void what_is_marked_is_not_dropped(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    assert_int_equal(drop(t1), 0);
    assert_marked(t1);
    assert_int_equal(release(t1), 1);
    script_client_turn(&b, t2);
    assert_int_equal(drop(t1), 0);
    assert_int_equal(drop(t2), 1);
    assert_free();
}

/* While the slot moves to another node, the queue cannot be read. */
static void what_is_marked_is_dropped_anyway(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    assert_int_equal(drop_anyway(t2), 0);
    assert_marked(t1);
    assert_int_equal(drop_anyway(t1), 1);
    assert_free();
    assert_int_equal(drop_anyway(t1), 0);
    assert_int_equal(script_do(&server, "ZCARD " QUEUE), 1);
    granted(acquire(t2, LEASE, 1, 0));    /* t2 has kept its place, and requests */
    assert_int_equal(drop_anyway(t1), 0); /* a late duplicate */
    assert_int_equal(drop_anyway(t2), 1); /* not marked */
    assert_free();
}

static void no_stranger_is_dropped(long long (*by)(const char *token))
{
    script_do(&server, "SET n foreign PX 600000");
    assert_int_equal(by(t1), 0);
    assert_string_equal(script_get(&server, "GET n"), "foreign");
    script_do(&server, "DEL n");
    script_do(&server, "RPUSH n x");
    script_do(&server, "PEXPIRE n 600000");
    assert_int_equal(by(t1), 0);
    assert_int_equal(script_do(&server, "LLEN n"), 1);
}

static void a_stranger_is_not_dropped(void **state)
{
    (void)state;
    no_stranger_is_dropped(drop);
}

static void a_stranger_is_not_dropped_anyway(void **state)
{
    (void)state;
    no_stranger_is_dropped(drop_anyway);
}

/* The queue of a marked holder is gone: its turn finds no waiters, and the next value is
 * unmarked. */
static void a_mark_without_a_queue_does_no_harm(void **state)
{
    char value[80];

    (void)state;
    (void)snprintf(value, sizeof(value), "%.*s+", (int)strlen(t1) - 1, t1);
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    assert_int_equal(release(t2), 0);
    assert_marked(t1);
    assert_int_equal(release(t1), 1);
    granted(acquire(t3, LEASE, 1, NO_TICKET));
    assert_unmarked(t3);
    script_do(&server, "DEL n");
    script_do(&server, "SET n %s PX 600000", value);
    assert_int_equal(release(t1), 1);
    assert_free();
}

/* Other libraries' values, some of which look like a token of ours. */
static void a_stranger_s_value_is_never_changed(void **state)
{
    static const char *const values[] = {"foreign",
                                         "foreign-",
                                         "-",
                                         "01234567-89ab-cdef-0123-456789abcdef:7:2000",
                                         "client:7:2000-",
                                         "01234567-89ab-cdef-0123-456789abcdef:7:0-",
                                         "01234567-89ab-cdef-0123-456789abcdef:7-",
                                         "x01234567-89ab-cdef-0123-456789abcdef:7:2000-"};

    (void)state;
    for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
        long long ticket;

        script_do(&server, "DEL " QUEUE);
        script_do(&server, "SET n %s PX 600000", values[i]);
        ticket = refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
        refused(acquire(t2, LEASE, 1, ticket), 0);
        refused(acquire(t4, LEASE, 0, NO_TICKET), -1);
        refused(acquire(t4, LEASE, 1, NO_TICKET), 1);
        assert_int_equal(release(t4), 0);
        assert_int_equal(release(t1), 0);
        refused(acquire(t3, LEASE, 1, NO_TICKET), 1);
        assert_string_equal(script_get(&server, "GET n"), values[i]);
        assert_int_equal(release(t2), 0);
    }
}

static void out_of_memory_who_waits_already_polls_and_marks(void **state)
{
    long long ticket;

    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    ticket = refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    script_do(&server, "CONFIG SET maxmemory 1");
    refused(acquire(t2, LEASE, 1, ticket), 0);
    assert_marked(t1);
    assert_int_equal(release(t1), 1);
    script_client_turn(&b, t2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOKENS_TEST(a_lock_that_nobody_waits_for_is_not_marked),
        TOKENS_TEST(who_joins_marks_and_the_lease_runs_on),
        TOKENS_TEST(a_hand_over_is_marked_while_others_wait),
        TOKENS_TEST(who_takes_a_free_name_marks_it_while_others_wait),
        TOKENS_TEST(each_who_looks_marks_what_was_taken_unmarked),
        TOKENS_TEST(who_leaves_an_empty_queue_marks_nothing),
        TOKENS_TEST(a_marked_holder_is_renewed_and_granted_again),
        TOKENS_TEST(a_marked_holder_that_requests_again_waits),
        TOKENS_TEST(what_is_not_marked_is_dropped_once),
        TOKENS_TEST(what_is_marked_is_not_dropped),
        TOKENS_TEST(what_is_marked_is_dropped_anyway),
        TOKENS_TEST(a_stranger_is_not_dropped_anyway),
        TOKENS_TEST(a_stranger_is_not_dropped),
        TOKENS_TEST(a_mark_without_a_queue_does_no_harm),
        TOKENS_TEST(a_stranger_s_value_is_never_changed),
        TOKENS_TEST(out_of_memory_who_waits_already_polls_and_marks),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}

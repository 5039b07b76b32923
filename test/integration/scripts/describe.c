/* SPDX-License-Identifier: MIT
 *
 * Descriptions of holds: describe, and the arguments of other scripts that make, move and
 * remove them. A description belongs to a token, lasts as long as its lease, and goes
 * with it. A mutex's is in a key of its own, a read-write lock's in the hash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "script_calls.h"

#define SHORT 60000
#define SPARE 50000 /* more than a slow machine takes */
#define NOTED ABOUT " a note"

/* Returns the description of the mutex's hold, or of one of the read-write lock's; ""
 * without one. */
static const char *described(void)
{
    static char text[600];
    redisReply *reply = redisCommand(server.admin, "EVALSHA %s 4 n %s %s %s",
                                     lw__scripts[LW__SCRIPT_INSPECT].sha1, QUEUE,
                                     "lockwire:2:rwqueue:{n}", HOLDER);

    assert_int_equal(reply->elements, 10);
    (void)snprintf(text, sizeof(text), "%s", reply->element[9]->str);
    freeReplyObject(reply);
    return text;
}

static const char *rw_described(const char *token)
{
    static char text[600];
    redisReply *reply = redisCommand(
        server.admin, "EVALSHA %s 4 rw %s %s %s", lw__scripts[LW__SCRIPT_INSPECT].sha1,
        "lockwire:2:queue:{rw}", RW_QUEUE, "lockwire:2:holder:{rw}");
    const redisReply *holds;

    assert_int_equal(reply->elements, 10);
    holds = reply->element[5];
    text[0] = '\0';
    for (size_t i = 0; i < holds->elements; i += 4) {
        if (strcmp(holds->element[i]->str, token) == 0) {
            (void)snprintf(text, sizeof(text), "%s", holds->element[i + 3]->str);
        }
    }
    freeReplyObject(reply);
    return text;
}

/* Asserts the words behind the time, and returns that time. */
static long long since(const char *description, const char *words)
{
    char *end;
    long long ms = strtoll(description, &end, 10);

    assert_string_equal(end, words);
    return ms;
}

static long long server_ms(void)
{
    redisReply *reply = redisCommand(server.admin, "TIME");
    long long ms = strtoll(reply->element[0]->str, NULL, 10) * 1000 +
                   strtoll(reply->element[1]->str, NULL, 10) / 1000;

    freeReplyObject(reply);
    return ms;
}

static void assert_ttl(long long ms)
{
    long long left = script_do(&server, "PTTL " HOLDER);

    assert_true(left <= ms && left > ms - SPARE);
}

static void assert_no_key(void)
{
    assert_int_equal(script_do(&server, "EXISTS " HOLDER " lockwire:2:holder:{rw}"), 0);
}

/* ---- a mutex ---- */

static void a_holder_is_described_for_the_rest_of_its_lease(void **state)
{
    long long before = server_ms(), first;

    (void)state;
    granted(acquire(t1, SHORT, 1, NO_TICKET));
    assert_string_equal(described(), "");
    assert_int_equal(describe(t1, NOTED), 1);
    first = since(described(), " app host 7 root a note");
    assert_true(first >= before - 2000 && first <= server_ms() - 2000);
    assert_ttl(SHORT);
    granted(acquire(t1, LEASE, 1, NO_TICKET)); /* extends it */
    assert_ttl(SHORT);
    assert_int_equal(describe(t1, "900 app host 7 root a note"), 1);
    assert_ttl(LEASE);
    assert_true(since(described(), " app host 7 root a note") == first);
}

static void only_a_holder_is_described(void **state)
{
    (void)state;
    assert_int_equal(describe(t1, ABOUT), 0);
    assert_free();
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    assert_int_equal(describe(t2, ABOUT), 0);
    assert_no_key();
    assert_int_equal(describe(t1, ABOUT), 1); /* the value is marked now */
    since(described(), " app host 7 root");
    script_do(&server, "DEL " HOLDER);
    script_do(&server, "PERSIST n"); /* by an operator */
    server.lenient = true;
    assert_int_equal(describe(t1, ABOUT), 0);
    server.lenient = false;
    assert_no_key();
}

static void a_release_removes_it(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    describe(t1, ABOUT);
    assert_int_equal(release_described(t2), 0); /* another token */
    since(described(), " app host 7 root");
    assert_int_equal(release_described(t1), 1);
    assert_free();
    assert_no_key();
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    describe(t1, ABOUT);
    script_numbers = CLOSED; /* the guard */
    assert_int_equal(release_described(t1), 1);
    assert_free();
    assert_no_key();
}

static void the_next_holder_is_not_described_by_it(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    describe(t1, NOTED);
    assert_int_equal(release(t1), 1); /* by a client that knows no descriptions */
    script_client_turn(&b, t2);
    assert_string_equal(described(), "");
    assert_int_equal(describe(t1, NOTED), 0); /* late */
    assert_string_equal(described(), "");
    assert_int_equal(describe(t2, ABOUT), 1);
    since(described(), " app host 7 root");
}

static void a_detach_describes_for_its_lease(void **state)
{
    long long first;

    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    assert_int_equal(detach_described(t2, SHORT, NOTED), 0);
    assert_no_key();
    assert_int_equal(detach_described(t1, SHORT, NOTED), 1);
    first = since(described(), " app host 7 root a note");
    assert_ttl(SHORT);
    assert_int_equal(detach_described(t1, 2 * SHORT, "1 app host 7 root a note"), 1);
    assert_true(since(described(), " app host 7 root a note") == first);
    assert_ttl(2 * SHORT);
    assert_int_equal(detach_described(t1, -SHORT, NOTED), 1);
    assert_ttl(2 * SHORT);
    assert_int_equal(release_described(t1), 1);
    assert_no_key();
}

static void an_adoption_takes_it_along(void **state)
{
    long long first;

    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    detach_described(t1, SHORT, NOTED);
    first = since(described(), " app host 7 root a note");
    assert_int_equal(adopt_described(t2, t3, LEASE, "0 b h 8 u").n[0], -1);
    assert_true(adopt_described(t1, t2, LEASE, "0 b h 8 u").n[0] > 0);
    assert_true(since(described(), " b h 8 u a note") == first);
    assert_ttl(LEASE);
    assert_true(adopt_described(t1, t2, LEASE, "0 b h 8 u").n[0] > 0); /* sent twice */
    assert_true(since(described(), " b h 8 u a note") == first);
    assert_true(adopt_described(t2, t3, LEASE, "0 c h 9 u another one").n[0] > 0);
    assert_true(since(described(), " c h 9 u another one") == first);
    assert_int_equal(release_described(t3), 1);
    assert_no_key();
}

static void a_lock_without_one_is_described_when_it_is_adopted(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    detach(t1, SHORT);
    assert_string_equal(described(), "");
    assert_true(adopt_described(t1, t2, LEASE, NOTED).n[0] > 0);
    since(described(), " app host 7 root a note");
}

static void what_others_wrote_there_is_shown_for_no_token(void **state)
{
    char text[1000];

    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    script_do(&server, "SET " HOLDER " %s", "nonsense");
    assert_string_equal(described(), "");
    assert_int_equal(describe(t1, ABOUT), 1);
    since(described(), " app host 7 root");
    (void)snprintf(text, sizeof(text), "%s %0600d", t1, 0); /* too long */
    script_do(&server, "SET " HOLDER " %s", text);
    assert_string_equal(described(), "");
    script_do(&server, "DEL " HOLDER);
    script_do(&server, "RPUSH " HOLDER " x");
    assert_string_equal(described(), "");
    assert_int_equal(detach_described(t1, SHORT, ABOUT), 1); /* SET replaces it */
    since(described(), " app host 7 root");
}

/* ---- a read-write lock ---- */

static void each_hold_has_its_own(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "C", 1, NO_TICKET));
    assert_int_equal(rw_describe(t1, NOTED), 1);
    assert_int_equal(rw_detach_described(t2, SHORT, ABOUT), 1);
    assert_int_equal(rw_describe(t4, ABOUT), 0);
    since(rw_described(t1), " app host 7 root a note");
    since(rw_described(t2), " app host 7 root");
    assert_string_equal(rw_described(t3), "");
    rw_released(rw_release(t1, "r", "A"), 0);
    assert_int_equal(script_do(&server, "HEXISTS rw d:%s", t1), 0);
    since(rw_described(t2), " app host 7 root");
    rw_released(rw_release(t3, "r", "C"), 0);
    rw_released(rw_release(t2, "r", "B"), 0);
    assert_int_equal(script_do(&server, "EXISTS rw"), 0);
    assert_no_key();
}

static void a_writer_s_stays_when_its_reader_goes(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "A", 1, NO_TICKET));
    rw_describe(t1, NOTED);
    rw_describe(t2, ABOUT);
    rw_released(rw_release(t2, "r", "A"), 1);
    assert_int_equal(script_do(&server, "HEXISTS rw d:%s", t2), 0);
    since(rw_described(t1), " app host 7 root a note");
    rw_released(rw_release_one_key(t1), 0);
    assert_int_equal(script_do(&server, "EXISTS rw"), 0);
}

static void it_goes_with_a_hold_that_expires(void **state)
{
    (void)state;
    granted(rw_acquire(t1, "w", "A", 1, NO_TICKET));
    granted(rw_acquire(t2, "r", "A", 1, NO_TICKET));
    rw_describe(t1, NOTED);
    rw_describe(t2, ABOUT);
    rw_end(t2);
    assert_int_equal(rw_renew(t1, LEASE), 1);
    assert_int_equal(script_do(&server, "HEXISTS rw d:%s", t2), 0);
    since(rw_described(t1), " app host 7 root a note");
}

static void an_adopted_hold_keeps_it(void **state)
{
    long long first;

    (void)state;
    granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
    granted(rw_acquire(t3, "r", "C", 1, NO_TICKET));
    rw_detach_described(t1, -SHORT, NOTED);
    first = since(rw_described(t1), " app host 7 root a note");
    assert_true(rw_adopt_described(t1, t2, LEASE, "r ", "0 b h 8 u").n[0] > 0);
    assert_int_equal(script_do(&server, "HEXISTS rw d:%s", t1), 0);
    assert_true(since(rw_described(t2), " b h 8 u a note") == first);
    assert_true(rw_adopt(t2, t4, LEASE, "r ").n[0] > 0); /* by another client */
    assert_int_equal(script_do(&server, "HEXISTS rw d:%s", t2), 0);
    assert_string_equal(rw_described(t4), "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOKENS_TEST(a_holder_is_described_for_the_rest_of_its_lease),
        TOKENS_TEST(only_a_holder_is_described),
        TOKENS_TEST(a_release_removes_it),
        TOKENS_TEST(the_next_holder_is_not_described_by_it),
        TOKENS_TEST(a_detach_describes_for_its_lease),
        TOKENS_TEST(an_adoption_takes_it_along),
        TOKENS_TEST(a_lock_without_one_is_described_when_it_is_adopted),
        TOKENS_TEST(what_others_wrote_there_is_shown_for_no_token),
        TOKENS_TEST(each_hold_has_its_own),
        TOKENS_TEST(a_writer_s_stays_when_its_reader_goes),
        TOKENS_TEST(it_goes_with_a_hold_that_expires),
        TOKENS_TEST(an_adopted_hold_keeps_it),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* SPDX-License-Identifier: MIT
 *
 * Tests what fence_raise.lua promises: the counter is never set back, fencing tokens
 * drawn after a call are larger than the call's number, and the reply says whether the
 * token holds the mutex. Independent of the C client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "range.h"
#include "script_calls.h"

#define COUNTER "lockwire:fence"
#define LARGE 4000000000000000LL

static struct script_answer call(long long number, const char *token)
{
    return script_run(&server, LW__SCRIPT_FENCE_RAISE, 2, COUNTER, "n",
                      script_number(number), token, NULL);
}

static long long raise_to(long long number, const char *token)
{
    return first_of(call(number, token), 1);
}

static long long counter(void)
{
    return strtoll(script_get(&server, "GET " COUNTER), NULL, 10);
}

static void a_smaller_counter_is_raised_for_a_holder(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    assert_int_equal(raise_to(LARGE, t1), 1);
    assert_int_equal(counter(), LARGE);
    assert_int_in_range(script_do(&server, "PTTL " COUNTER), 86000000, 86400000);
    assert_int_equal(raise_to(LARGE, t1), 1); /* a duplicate */
    assert_int_equal(counter(), LARGE);
    assert_int_equal(release(t1), 1);
    assert_int_equal(granted(acquire(t2, LEASE, 1, NO_TICKET)), LARGE + 1);
}

static void a_larger_counter_is_not_set_back(void **state)
{
    long long before;

    (void)state;
    before = granted(acquire(t1, LEASE, 1, NO_TICKET)) + 15;
    script_do(&server, "PEXPIRE " COUNTER " 60000");
    assert_int_equal(raise_to(before - 1, t1), 1);
    assert_int_equal(counter(), before);
    assert_int_in_range(script_do(&server, "PTTL " COUNTER), 86000000, 86400000);
}

static void a_marked_holder_counts(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    refused(acquire(t2, LEASE, 1, NO_TICKET), 0);
    assert_marked(t1);
    assert_int_equal(raise_to(LARGE, t1), 1);
    assert_int_equal(raise_to(LARGE, t2), 0); /* t2 waits */
}

static void who_does_not_hold_raises_all_the_same(void **state)
{
    (void)state;
    assert_int_equal(raise_to(LARGE, t1), 0);
    assert_int_equal(counter(), LARGE);
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    assert_int_equal(raise_to(LARGE + 100, t2), 0);
    assert_int_equal(counter(), LARGE + 100);
}

static void a_counter_that_is_none_is_replaced(void **state)
{
    static const char *const texts[] = {"x", "-1", "9007199254740992", "1e300", "nan"};

    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        script_do(&server, "SET " COUNTER " %s PX 60000", texts[i]);
        assert_int_equal(raise_to(LARGE, t1), 1);
        assert_int_equal(counter(), LARGE);
    }
    script_do(&server, "DEL " COUNTER);
    script_do(&server, "LPUSH " COUNTER " 1");
    script_do(&server, "PEXPIRE " COUNTER " 60000");
    assert_int_equal(raise_to(LARGE, t1), 1);
    assert_int_equal(counter(), LARGE);
}

/* Sixteen fencing tokens are drawn at once; the largest number that a client may send is
 * exact. */
static void large_numbers_are_exact(void **state)
{
    (void)state;
    granted(acquire(t1, LEASE, 1, NO_TICKET));
    assert_int_equal(raise_to(9007199254740989LL, t1), 1);
    assert_int_equal(counter(), 9007199254740989LL);
    assert_int_equal(raise_to(9007199254740988LL, t1), 1);
    assert_int_equal(counter(), 9007199254740989LL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOKENS_TEST(a_smaller_counter_is_raised_for_a_holder),
        TOKENS_TEST(a_larger_counter_is_not_set_back),
        TOKENS_TEST(a_marked_holder_counts),
        TOKENS_TEST(who_does_not_hold_raises_all_the_same),
        TOKENS_TEST(a_counter_that_is_none_is_replaced),
        TOKENS_TEST(large_numbers_are_exact),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}

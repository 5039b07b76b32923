/* SPDX-License-Identifier: MIT */
/*
 * The command's view of a connection that did not come up: does the server refuse it for
 * good? Knows refusal.h alone.
 *
 * Happy path: the library's text, yes or no.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "refusal.h"

#include <stdio.h>
#include <string.h>

static void test_what_is_for_good(void **state)
{
    (void)state;
    assert_true(is_refusal("AUTH: WRONGPASS invalid username-password pair or user is "
                           "disabled."));
    assert_true(is_refusal("no connection: AUTH: ERR AUTH <password> called without any "
                           "password configured for the default user."));
    assert_true(is_refusal("SELECT: ERR DB index is out of range"));
    assert_true(
        is_refusal("SELECT: NOPERM User max number of clients has no permissions"));
    assert_true(is_refusal("CLIENT SETNAME: NOAUTH Authentication required."));
    assert_true(is_refusal("no connection: INFO: NOAUTH Authentication required."));
}

#define NONE "no sentinel leads to the master; "

static void test_what_all_sentinels_say(void **state)
{
    static const char *const refusals[] = {
        "h:1: AUTH: WRONGPASS invalid",
        "h:1: NOAUTH Authentication required.",
        "h:1: NOPERM User x has no permissions",
        "fe80::1%eth0:26379: ERR No such master with that name",
        "h:1: ERR unknown command 'SENTINEL', with args",
        "h:1: AUTH: WRONGPASS invalid; i:2: ERR No such master with that name",
    };
    char text[160];

    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
        (void)snprintf(text, sizeof(text), NONE "%s", refusals[i]);
        assert_true(is_refusal(text));
        (void)snprintf(text, sizeof(text), "no connection: " NONE "%s", refusals[i]);
        assert_true(is_refusal(text));
    }
    assert_false(is_refusal(NONE "h:1: AUTH: WRONGPASS x; i:2: no answer in time"));
    assert_false(is_refusal(NONE "h:1: Connection refused; i:2: AUTH: WRONGPASS x"));
    assert_false(is_refusal(NONE "h:1: says that the master is down"));
    assert_false(is_refusal(NONE "h:1: AUTH: WRONGPASS x; i:2"));
    assert_false(is_refusal(NONE "h:1: ERR max number of clients reached"));
    assert_false(is_refusal(NONE));
}

/* As long as the library lets it be, by the first one's host. */
static bool is_refusal_cut(const char *last)
{
    char text[300], host[160] = "";
    size_t others = strlen(NONE ":1: AUTH: WRONGPASS x; ") + strlen(last);

    memset(host, 'h', 159 - others);
    (void)snprintf(text, sizeof(text), NONE "%s:1: AUTH: WRONGPASS x; %s", host, last);
    assert_int_equal(strlen(text), 159);
    return is_refusal(text);
}

static void test_of_a_list_that_is_cut_the_last_counts_as_far_as_it_is_seen(void **state)
{
    (void)state;
    assert_true(is_refusal_cut("i:2"));
    assert_true(is_refusal_cut("i:2: AU"));
    assert_true(is_refusal_cut("i:2: AUTH: WRONG"));
    assert_true(is_refusal_cut("i:2: ERR unknown comm"));
    assert_true(is_refusal_cut("i:2: ERR unknown command 'SENT"));
    assert_false(is_refusal_cut("i:2: connecting to i:"));
    assert_false(is_refusal_cut("i:2: no answer in ti"));
    assert_false(is_refusal(NONE "h:1: AUTH: WRONGPASS x; i:2: AU")); /* it is not cut */
}

static void test_what_passes(void **state)
{
    (void)state;
    assert_false(is_refusal("AUTH: ERR max number of clients reached"));
    assert_false(is_refusal("AUTH: LOADING Redis is loading the dataset in memory"));
    assert_false(is_refusal("connecting to /tmp/: NOAUTH x: Connection refused"));
    assert_false(is_refusal("the server closed the connection"));
    assert_false(is_refusal(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_for_good),
        cmocka_unit_test(test_what_all_sentinels_say),
        cmocka_unit_test(test_of_a_list_that_is_cut_the_last_counts_as_far_as_it_is_seen),
        cmocka_unit_test(test_what_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

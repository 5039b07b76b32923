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
        cmocka_unit_test(test_what_passes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * The texts of error replies for users: the forms of Redis 6.2, 7 and 8 and of Valkey,
 * and errors that are left as they are.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "redis/explain.h"

#include <string.h>

#define KIND "(a proxy, another kind of server, or a renamed command?)"

static void check(const char *error, const char *expected)
{
    char text[LW_WHY_SIZE];

    assert_ptr_equal(lw__explain(error, text), text);
    assert_string_equal(text, expected);
}

static void test_a_missing_command_is_named_with_its_purpose(void **state)
{
    static const char scripts[] =
        "unknown command EVALSHA, which waiting, releasing and fencing tokens need " KIND;

    (void)state;
    check("ERR unknown command 'EVALSHA', with args beginning with: '8c60' '1' ",
          scripts);
    check("ERR unknown command `EVALSHA`, with args beginning with: `8c60`, ", scripts);
    check("ERR unknown command EVALSHA", scripts);
    check("ERR unknown command 'eval'",
          "unknown command eval, which waiting, releasing and fencing tokens need " KIND);
    check("ERR unknown command 'SET', with args beginning with: 'a' ",
          "unknown command SET, which locks need " KIND);
    check("ERR unknown command 'EVALS'", "unknown command EVALS, which locks need " KIND);
}

static void test_a_server_of_another_kind_is_named(void **state)
{
    (void)state;
    check("ERR unknown command 'SENTINEL', with args beginning with: 'MASTER' 'm' ",
          "unknown command SENTINEL: not a sentinel (list the sentinels, or use "
          "redis://)");
    check("ERR unknown command 'CLUSTER', with args beginning with: 'SLOTS' ",
          "unknown command CLUSTER: not a node of a cluster (use redis://)");
    check("ERR This instance has cluster support disabled",
          "ERR This instance has cluster support disabled (use redis://)");
}

#define SHA "8c6058acf7f561aa5ff67c9e2886bffde6fd65d5"
#define OOM "OOM command not allowed when used memory > 'maxmemory'."
#define DENIED "The user executing the script can't run this command or subcommand"

static void test_the_place_in_a_script_is_left_out(void **state)
{
    (void)state;
    check(OOM " script: " SHA ", on @user_script:9.", OOM); /* Redis 7, 8, Valkey 8 */
    check(OOM " script: on @user_script:9.", OOM);          /* Valkey 9 */
    check("ERR " DENIED " script: " SHA ", on @user_script:113.", "ERR " DENIED);
    check("ERR Error running script (call to f_" SHA
          "): @user_script:9: @user_script: 9: " DENIED,
          "ERR " DENIED); /* Redis 6.2 */
    check("ERR x script: y script: on @user_script:9.", "ERR x script: y");
    check("ERR a script: on @user_script:9", "ERR a script: on @user_script:9");
    check("ERR a script: " SHA ", on x", "ERR a script: " SHA ", on x");
}

static void test_any_other_error_stays(void **state)
{
    static const char *const errors[] = {"",
                                         "OOM command not allowed",
                                         "ERR",
                                         "ERR unknown command",
                                         "ERR unknown command ''",
                                         "NOPERM User x: ERR unknown command 'EVAL'"};

    (void)state;
    for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
        check(errors[i], errors[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_missing_command_is_named_with_its_purpose),
        cmocka_unit_test(test_a_server_of_another_kind_is_named),
        cmocka_unit_test(test_the_place_in_a_script_is_left_out),
        cmocka_unit_test(test_any_other_error_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

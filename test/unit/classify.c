/* SPDX-License-Identifier: MIT */
/*
 * The class of each error, for the texts of Redis 6.2, 7 and 8 and of Valkey 8, and for
 * texts that only quote a code.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/outcome.h"
#include "lockwire.h"
#include "redis/classify.h"

#define SHA "6b1bf486c81ceb7edf3c093f0fb1291d6438a1cc"
#define IN_SCRIPT                                                                        \
    " script: " SHA ", on @user_script:12." /* the end of such a text in Redis 7 */
#define WRAPPED "ERR Error running script (call to f_" SHA "): @user_script:12: "

struct text {
    const char *text;
    enum lw__error_class expected;
};

static void check(const struct text *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        enum lw__error_class class = lw__classify(lw__classify_own_words(texts[i].text));

        if (class != texts[i].expected) {
            fail_msg("\"%s\" is %d", texts[i].text, (int)class);
        }
    }
}
#define CHECK(texts) check(texts, sizeof(texts) / sizeof(*texts))

static void test_a_code_in_front(void **state)
{
    static const struct text texts[] = {
        {"NOSCRIPT No matching script. Please use EVAL.", LW__ERR_NOSCRIPT},
        {"NOSCRIPT No matching script.", LW__ERR_NOSCRIPT},
        {"LOADING Redis is loading the dataset in memory", LW__ERR_LINK},
        {"LOADING Valkey is loading the dataset in memory", LW__ERR_LINK},
        {"NOAUTH Authentication required.", LW__ERR_LINK},
        {"READONLY You can't write against a read only replica.", LW__ERR_LINK},
        {"READONLY You can't write against a read only replica." IN_SCRIPT, LW__ERR_LINK},
        {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to "
         "'no'.",
         LW__ERR_LINK},
        {"ERR max number of clients reached", LW__ERR_LINK},
        {"DENIED Redis is running in protected mode because protected mode is enabled",
         LW__ERR_LINK},
        {"ERR max number of clients + cluster connections reached", LW__ERR_LINK},
        {"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN "
         "NOSAVE.",
         LW__ERR_TRANSIENT},
        {"OOM command not allowed when used memory > 'maxmemory'.", LW__ERR_TRANSIENT},
        {"OOM command not allowed when used memory > 'maxmemory'." IN_SCRIPT,
         LW__ERR_TRANSIENT},
        {"MISCONF Redis is configured to save RDB snapshots, but it's currently unable "
         "to "
         "persist to disk." IN_SCRIPT,
         LW__ERR_TRANSIENT},
        {"NOREPLICAS Not enough good replicas to write.", LW__ERR_TRANSIENT},
        {"CLUSTERDOWN The cluster is down", LW__ERR_TRANSIENT},
        {"ERR Script attempted to execute a command while the cluster is down" IN_SCRIPT,
         LW__ERR_TRANSIENT},
        {"ERR Script attempted to execute a write command while the cluster is down and "
         "readonly" IN_SCRIPT,
         LW__ERR_TRANSIENT},
        {"ERR Error running script (call to f_1): @user_script:13: @user_script: 13: Lua "
         "script attempted to execute a write command while the cluster is down and "
         "readonly",
         LW__ERR_TRANSIENT},
        {"ERR Can not execute a command 'set' while the cluster is down script: on "
         "@user_script:12.",
         LW__ERR_TRANSIENT},
        {"ERR a key while the cluster is down", LW__ERR_REFUSED},
        {"TRYAGAIN Multiple keys request during rehashing of slot", LW__ERR_TRANSIENT},
        {"ASK 3671 127.0.0.1:7001", LW__ERR_TRANSIENT},
        {"ERR Script attempted to access a non local key in a cluster node" IN_SCRIPT,
         LW__ERR_TRANSIENT},
        {"ERR Attempted to access a non local key in a cluster node script: on "
         "@user_script:113.",
         LW__ERR_TRANSIENT},
        {"ERR Script attempted to access keys that do not hash to the same "
         "slot" IN_SCRIPT,
         LW__ERR_REFUSED},
        {"OOM", LW__ERR_TRANSIENT},
        {"NOPERM this user has no permissions to run the 'evalsha' command",
         LW__ERR_REFUSED},
        {"NOPERM User default has no permissions to run the 'evalsha' command",
         LW__ERR_REFUSED},
        {"ERR The user executing the script can't run this command or "
         "subcommand" IN_SCRIPT,
         LW__ERR_REFUSED},
        {"", LW__ERR_REFUSED},
    };

    (void)state;
    CHECK(texts);
}

static void test_a_code_behind_the_place_in_a_script(void **state)
{
    static const struct text texts[] = {
        {WRAPPED "@user_script: 12: -OOM command not allowed when used memory > "
                 "'maxmemory'.  ",
         LW__ERR_TRANSIENT},
        {WRAPPED "@user_script: 12: -READONLY You can't write against a read only "
                 "replica.  ",
         LW__ERR_LINK},
        {WRAPPED "@user_script: 12: -LOADING Redis is loading the dataset in memory",
         LW__ERR_LINK},
        {WRAPPED "-MISCONF Redis is configured to save RDB snapshots", LW__ERR_TRANSIENT},
        {WRAPPED "NOREPLICAS Not enough good replicas to write.", LW__ERR_TRANSIENT},
        {"ERR Error running script (call to f_" SHA "): user_script:3: OOM no more",
         LW__ERR_TRANSIENT},
        {"@user_script: 12: -OOM command not allowed when used memory > 'maxmemory'.",
         LW__ERR_TRANSIENT},
        {WRAPPED "@user_script: 12: -NOPERM The user executing the script can't run this "
                 "command or subcommand",
         LW__ERR_REFUSED},
        {WRAPPED "WRONGTYPE Operation against a key holding the wrong kind of value",
         LW__ERR_REFUSED},
        {"user_script:3: WRONGTYPE Operation against a key", LW__ERR_REFUSED},
    };

    (void)state;
    CHECK(texts);
}

static void test_what_is_only_quoted_is_no_code(void **state)
{
    static const struct text texts[] = {
        {"ERR unknown command 'EVALSHA', with args beginning with: '" SHA
         "' '3' 'job:LOADING' ",
         LW__ERR_REFUSED},
        {"ERR unknown command 'EVALSHA', with args beginning with: 'LOADING ' 'NOSCRIPT ",
         LW__ERR_REFUSED},
        {"NOPERM User BUSY has no permissions to run the 'get' command", LW__ERR_REFUSED},
        {"NOPERM No permissions to access the key 'max number of clients'",
         LW__ERR_REFUSED},
        {"ERR LOADING", LW__ERR_REFUSED},
        {"ERR of a proxy: LOADING", LW__ERR_REFUSED},
        {"BUSYKEY Target key name already exists.", LW__ERR_REFUSED},
        {"BUSYGROUP Consumer Group name already exists", LW__ERR_REFUSED},
        {WRAPPED "BUSYKEY Target key name already exists.", LW__ERR_REFUSED},
        {WRAPPED "Script attempted to access OOM ", LW__ERR_REFUSED},
        {"ERR Error running script (call to f_" SHA " -OOM", LW__ERR_REFUSED},
        {"@user_script: x: -OOM command", LW__ERR_REFUSED},
        {"@other:12: -OOM command", LW__ERR_REFUSED},
        {" OOM command not allowed", LW__ERR_REFUSED},
    };

    (void)state;
    CHECK(texts);
}

static void test_what_is_on_its_way(void **state)
{
    (void)state;
    assert_true(lw__classify_moving("TRYAGAIN Multiple keys request during rehashing"));
    assert_true(lw__classify_moving("ASK 3671 127.0.0.1:7001"));
    assert_false(lw__classify_moving(
        "ERR Script attempted to access a non local key in a cluster node" IN_SCRIPT));
    assert_false(lw__classify_moving("CLUSTERDOWN The cluster is down"));
    assert_true(lw__classify_down("CLUSTERDOWN The cluster is down"));
    assert_true(lw__classify_down(
        "ERR Script attempted to execute a command while the cluster is down" IN_SCRIPT));
    assert_false(lw__classify_down("ASK 3671 127.0.0.1:7001"));
    assert_true(lw__classify_unknown("ERR unknown command `SSUBSCRIBE`, with args"));
    assert_false(lw__classify_unknown("ERR unknown subcommand"));
}

static void test_who_is_denied(void **state)
{
    (void)state;
    assert_true(
        lw__classify_denied("NOPERM this user has no permissions to access one of the "
                            "channels used as arguments"));
    assert_true(lw__classify_denied(
        lw__classify_own_words(WRAPPED "@user_script: 12: -NOPERM The user")));
    assert_false(
        lw__classify_denied("ERR unknown command 'SUBSCRIBE', with args beginning with: "
                            "'NOPERM ' "));
    assert_false(lw__classify_denied("NOPERMISSION"));
    assert_false(lw__classify_denied(""));
}

/* ---- what an error means for the caller ---- */

static void test_what_turns_an_account_down(void **state)
{
    (void)state;
    assert_true(lw__classify_account("WRONGPASS invalid"));
    assert_true(lw__classify_account("NOAUTH Authentication required."));
    assert_true(lw__classify_account("NOPERM User x has no permissions"));
    assert_false(lw__classify_account("ERR invalid password"));
    assert_false(lw__classify_account("LOADING Redis is loading"));
    assert_true(lw__classify_login("ERR AUTH <password> called without any password"));
    assert_true(lw__classify_login("ERR DB index is out of range"));
    assert_true(lw__classify_login("WRONGPASS invalid"));
    assert_false(lw__classify_login("ERR max number of clients reached"));
    assert_false(lw__classify_login("LOADING Redis is loading"));
}

static void test_what_turns_down_who_asks_the_way(void **state)
{
    (void)state;
    assert_true(lw__classify_topology("ERR No such master with that name"));
    assert_true(lw__classify_topology("ERR unknown command 'SENTINEL', with args"));
    assert_true(lw__classify_topology("ERR This instance has cluster support disabled"));
    assert_true(lw__classify_topology("NOAUTH Authentication required."));
    assert_false(lw__classify_topology("ERR max number of clients reached"));
    assert_false(lw__classify_topology("CLUSTERDOWN The cluster is down"));
}

static void test_what_an_error_is_for_a_caller(void **state)
{
    static const char *const away[] = {
        "LOADING Redis is loading",
        "READONLY You can't write",
        "MASTERDOWN Link",
        "CLUSTERDOWN Hash slot not served",
        "TRYAGAIN Multiple keys",
        "ASK 1 a:1",
        "MOVED 1 a:1",
        "ERR Script attempted to access a non local key in a cluster node",
        "ERR Script attempted to execute a command while the cluster is down script: x",
        "ERR max number of clients reached",
        "BUSY Redis is busy running a script",
        "OOM command not allowed",
        "MISCONF Redis is configured to save",
        "NOREPLICAS Not enough good replicas to write."};
    static const char *const refused[] = {"NOPERM x", "NOAUTH x", "WRONGPASS x",
                                          "ERR whatever"};

    (void)state;
    for (size_t i = 0; i < sizeof(away) / sizeof(*away); i++) {
        assert_int_equal(lw__classify_status(away[i]), LW_ECONN);
    }
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        assert_int_equal(lw__classify_status(refused[i]), LW_EREDIS);
    }
}

/* The table of outcomes: each error that is not now is LW_ECONN and is retried. */
static void test_each_error_of_the_table_is_not_now(void **state)
{
    static const struct text texts[] = {
#define TEXT(code, class, sentence) {code " x", LW__ERR_##class},
        LW__OUTCOME_NOT_NOW_MAP(TEXT)
#undef TEXT
    };
    static const bool retried[] = {
#define RETRIED(outcome, code, retried, sentence) retried,
        LW__OUTCOME_MAP(RETRIED)
#undef RETRIED
    };

    (void)state;
    CHECK(texts);
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        assert_int_equal(lw__classify_status(texts[i].text), LW_ECONN);
        assert_true(retried[LW__OUTCOME_NOT_NOW] ==
                    (lw__classify(texts[i].text) != LW__ERR_REFUSED));
    }
    assert_true(retried[LW__OUTCOME_NEVER] ==
                (lw__classify("ERR any other error") != LW__ERR_REFUSED));
}

static void test_a_cluster_that_is_down_in_a_script_is_down(void **state)
{
    (void)state;
    assert_true(lw__classify_down(
        "ERR Script attempted to execute a command while the cluster is down script: x"));
    assert_int_equal(lw__classify("ERR Script attempted to execute a command while the "
                                  "cluster is down and readonly"),
                     LW__ERR_TRANSIENT);
}

/* A script may have written before one of its commands was refused, unless the server
 * refuses every write of the script. */
static void test_what_says_that_nothing_was_done(void **state)
{
    (void)state;
    assert_true(lw__classify_undone("CLUSTERDOWN Hash slot not served"));
    assert_true(lw__classify_undone("TRYAGAIN Multiple keys request during rehashing"));
    assert_true(lw__classify_undone("MISCONF Redis is configured to save"));
    assert_true(lw__classify_undone("NOREPLICAS Not enough good replicas to write."));
    assert_true(lw__classify_undone("OOM command not allowed." IN_SCRIPT));
    assert_true(lw__classify_undone("MISCONF Redis is configured to save" IN_SCRIPT));
    assert_true(lw__classify_undone("NOREPLICAS Not enough good replicas." IN_SCRIPT));
    assert_true(lw__classify_undone(WRAPPED "@user_script: 7: -READONLY You can't"));
    assert_true(lw__classify_undone(WRAPPED "@user_script: 7: -OOM x"));
    assert_false(lw__classify_undone("NOPERM The user executing the script" IN_SCRIPT));
    assert_false(lw__classify_undone(WRAPPED "@user_script: 7: -NOPERM x"));
    assert_false(lw__classify_undone("ERR Script attempted to access a non local "
                                     "key" IN_SCRIPT));
    assert_false(lw__classify_undone("ERR upstream failure"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_code_in_front),
        cmocka_unit_test(test_a_code_behind_the_place_in_a_script),
        cmocka_unit_test(test_what_is_only_quoted_is_no_code),
        cmocka_unit_test(test_what_is_on_its_way),
        cmocka_unit_test(test_who_is_denied),
        cmocka_unit_test(test_what_turns_an_account_down),
        cmocka_unit_test(test_what_turns_down_who_asks_the_way),
        cmocka_unit_test(test_what_an_error_is_for_a_caller),
        cmocka_unit_test(test_each_error_of_the_table_is_not_now),
        cmocka_unit_test(test_a_cluster_that_is_down_in_a_script_is_down),
        cmocka_unit_test(test_what_says_that_nothing_was_done),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

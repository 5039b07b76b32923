/* SPDX-License-Identifier: MIT */
/* lw_list finds each lock that is held, in each mode, among keys of all kinds, and
 * nothing else; and which permissions an account needs. Independent of the script.
 *
 * Usual course: some handles hold, list_all(a, NULL), LISTED("r:r x:m"). */
#include "inspect/list_scene.h"

#include <stdio.h>
#include <string.h>

#define TOKEN "c0ffee00-0000-4000-8000-00000000000%d:7:2000"

/* ---- what is found ---- */

static void nothing_is_held(void **state)
{
    (void)state;
    begin_listing();
    list_all(a, NULL);
    LISTED("");
    assert_int_equal(list.steps, 1);
}

static void each_mode_is_found_with_all_that_is_known(void **state)
{
    (void)state;
    begin_listing();
    hold_as(a, "job:1", LW_MUTEX, NULL);
    hold_as(a, "{tag}job:2", LW_EXCLUSIVE, "anna");
    hold_as(a, "job:3", LW_SHARED, "bert");
    hold_as(b, "job:3", LW_SHARED, NULL);
    acquire_hold(b, "W", "job:1", -1);
    wait_queued("job:1", 1); /* which marks the value */
    list_all(c, NULL);
    LISTED("job:1:m job:3:r {tag}job:2:w");
    list_all(c, "job:*");
    LISTED("job:1:m job:3:r");
    list_all(c, "nothing*");
    LISTED("");
}

static void make_others(void)
{
    redis_ok("SET plain value");
    redis_ok("SET job:uuid c0ffee00-0000-4000-8000-000000000001");
    redis_ok("SET job:more " TOKEN "x", 1);
    redis_ok("SET job:number 12");
    redis_ok("SET job:empty %s", "");
    redis_ok("RPUSH job:list 1");
    redis_ok("SADD job:set 1");
    redis_ok("ZADD job:zset 1 1");
    redis_ok("XADD job:stream * a b");
    redis_ok("HSET job:hash field value");
    redis_ok("HSET job:mode mode 2");
    redis_ok("HSET job:redisson mode read");
    redis_ok("HSET job:rlock " TOKEN " 1", 1);
    redis_ok("SETRANGE job:large 30000000 x");
    redis_ok("EVAL %s 0",
             "for i = 1, 3 do redis.call('SET', string.rep(i, 1000000), 1) end");
    redis_ok("SET lockwire:mine " TOKEN "-", 2);
    redis_ok("SET job:}bad{ " TOKEN "-", 3);
    redis_ok("SET %b " TOKEN "-", "job:\n", (size_t)5, 4);
    redis_ok("SET %b " TOKEN "-", "job:\0x", (size_t)6, 5);
}

static void other_keys_are_none(void **state)
{
    (void)state;
    begin_listing();
    make_others();
    list_all(a, NULL);
    LISTED("");
    assert_int_equal(list.seen, redis_int("DBSIZE"));
    assert_int_equal(list.keys, list.seen);
    assert_int_equal(a->downs, 0);
    redis_ok("FLUSHALL");
}

static void those_that_version_0_1_wrote_are_found(void **state)
{
    (void)state;
    begin_listing();
    redis_ok("SET old " TOKEN " PX 60000", 1);
    redis_ok("SET new " TOKEN "- PX 60000", 2);
    redis_ok("SET marked " TOKEN "+ PX 60000", 3);
    list_all(a, NULL);
    LISTED("marked:m new:m old:m");
    redis_ok("DEL old new marked");
}

static void among_very_many(void **state)
{
    char name[32], wanted[4096] = "";
    size_t used = 0;

    (void)state;
    begin_listing();
    redis_ok("EVAL %s 0",
             "for i = 1, 10000 do redis.call('SET', 'key:' .. i, i, 'EX', 600) end");
    for (int i = 10; i < 90; i++) {
        (void)snprintf(name, sizeof(name), "job:%d", i);
        hold_as(a, name, i % 2 ? LW_MUTEX : LW_SHARED, NULL);
        used += (size_t)snprintf(wanted + used, sizeof(wanted) - used, "%s%s:%c",
                                 used > 0 ? " " : "", name, i % 2 ? 'm' : 'r');
    }
    redis_ok("CONFIG RESETSTAT");
    list_all(b, NULL);
    LISTED(wanted);
    assert_true(list.steps >= 40);
    assert_true(list.seen >= 10080);
    assert_in_range(list.keys, 10080, 10100);
    assert_non_null(strstr(redis_text("INFO commandstats"), "cmdstat_scan:"));
    assert_null(strstr(redis_text("INFO commandstats"), "cmdstat_keys:"));
    list_all(b, "job:1?");
    LISTED("job:10:r job:11:m job:12:r job:13:m job:14:r job:15:m job:16:r job:17:m "
           "job:18:r job:19:m");
    stage.keys_may_stay = true;
}

static void a_lock_of_which_too_much_is_said_is_named(void **state)
{
    char owner[600];

    (void)state;
    begin_listing();
    hold_as(a, "x", LW_SHARED, "anna");
    hold_as(a, "y", LW_SHARED, "anna");
    memset(owner, 'o', sizeof(owner) - 1);
    owner[sizeof(owner) - 1] = '\0';
    redis_ok("HSET x h:one %s", owner);
    list_all(b, NULL);
    LISTED("x:? y:r");
    redis_ok("DEL x");
}

static void others_commands_are_answered_meanwhile(void **state)
{
    (void)state;
    begin_listing();
    redis_ok("EVAL %s 0",
             "for i = 1, 20000 do redis.call('SET', 'key:' .. i, i, 'EX', 600) end");
    call_list(a, NULL);
    struct hold *A = acquire_hold(a, "A", "x", 0);
    UNTIL(A->result == LW_OK);
    assert_int_equal(list.status, PENDING);
    UNTIL(list.status == LW_OK);
    stage.keys_may_stay = true;
    stage_clear_trace();
}

/* ---- missing permissions ---- */

static void what_is_denied_is_told(void **state)
{
    static const char *const commands[] = {"scan", "type", "getrange", "hstrlen", "hget"};

    (void)state;
    begin_listing();
    hold_as(a, "m", LW_MUTEX, NULL);
    hold_as(a, "x", LW_SHARED, NULL);
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
        redis_ok("ACL SETUSER default -%s", commands[i]);
        call_list(b, NULL);
        EXPECT("listed EREDIS");
        redis_ok("ACL SETUSER default +@all");
        assert_non_null(strcasestr(list.why, commands[i]));
    }
    redis_ok("ACL SETUSER default -dbsize");
    list_all(b, NULL);
    LISTED("m:m x:r");
    assert_int_equal(list.keys, 0);
    redis_ok("ACL SETUSER default +@all");
}

static void keys_that_may_not_be_read_are_passed_over(void **state)
{
    (void)state;
    begin_listing();
    redis_ok("SET secret value");
    redis_ok("HSET shadows field value");
    hold_as(a, "job:1", LW_MUTEX, NULL);
    redis_ok("ACL SETUSER default resetkeys ~job:* ~lockwire:*");
    list_all(b, NULL);
    redis_ok("ACL SETUSER default allkeys");
    LISTED("job:1:m");
    redis_ok("DEL secret shadows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(nothing_is_held),
        STAGE_TEST(each_mode_is_found_with_all_that_is_known),
        STAGE_TEST(other_keys_are_none),
        STAGE_TEST(those_that_version_0_1_wrote_are_found),
        STAGE_TEST(among_very_many),
        STAGE_TEST(a_lock_of_which_too_much_is_said_is_named),
        STAGE_TEST(others_commands_are_answered_meanwhile),
        STAGE_TEST(what_is_denied_is_told),
        STAGE_TEST(keys_that_may_not_be_read_are_passed_over),
    };

    return STAGE_RUN(tests);
}

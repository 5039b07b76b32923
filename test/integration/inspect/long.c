/* SPDX-License-Identifier: MIT */
/* lw_inspect and lw_break for a name with contents longer than a client reads: another
 * program wrote fields, members or values of megabytes there. Independent of the script.
 *
 * lw_inspect reports that, and lw_break succeeds all the same. The link, which all locks
 * share, stays up. */
#include "inspect/scene.h"

#include <stdio.h>
#include <string.h>

#define LONG ((size_t)3 << 19) /* bytes; a reply may have 1 MiB */

/* Returns a long text that begins with `start`, valid until the next call. */
static const char *long_text(const char *start)
{
    static char text[LONG + 1];

    memset(text, 'o', LONG);
    memcpy(text, start, strlen(start));
    return text;
}

static struct peer *reader_of_long_things(void)
{
    struct peer *a = peer_ready("a", NULL);

    look.then = NULL;
    return a;
}

static void assert_too_long(struct peer *a)
{
    call_inspect(a, "x");
    EXPECT("inspected EREDIS");
    assert_non_null(strstr(look.why, "too long"));
}

/* Asserts that the link, which all locks share, was up all the time. */
static void assert_stayed_up(const struct peer *a)
{
    assert_true(a->up);
    assert_int_equal(a->downs, 0);
}

static void write_lock(const char *token)
{
    redis_ok("HSET x mode %s h:%s %s", "2 1 0 1 99999999999999 9 anna", token,
             "99999999999999 w anna");
    redis_ok("PEXPIRE x 60000");
}

static void a_long_field_is_told_of_and_the_lock_is_broken(void **state)
{
    struct peer *a = reader_of_long_things();
    struct hold *A = acquire_and_wait(a, "A", "other");
    static const char *const fields[][2] = {{"mode", "2 1 0 1 99999999999999 9 anna"},
                                            {"h:t", "99999999999999 w anna"},
                                            {"r:bert", "1 9"}};

    (void)state;
    EXPECT("A granted");
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        write_lock("t");
        redis_ok("HSET x h:t %s", "99999999999999 r bert");
        redis_ok("HSET x %s %s", fields[i][0], long_text(fields[i][1]));
        assert_too_long(a);
        call_break(a, "x", NULL);
        EXPECT("broken OK");
        assert_int_equal(redis_int("EXISTS x"), 0);
    }
    assert_stayed_up(a);
    assert_held_by_redis(A);
}

static void a_long_token_is_broken_beside_others(void **state)
{
    struct peer *a = reader_of_long_things(), *b = peer_ready("b", NULL);

    (void)state;
    write_lock("t");
    redis_ok("HSET x mode %s h:%s %s", "2 3 0 3 99999999999999 9 anna", long_text("1"),
             "99999999999999 w anna");
    redis_ok("HSET x h:%s %s", long_text("2"), "99999999999999 w anna");
    redis_ok("HSET x h:%s %s", long_text("3"), "no hold");
    struct hold *B =
        acquire_hold_with(b, "B", "x", asking(.mode = LW_EXCLUSIVE, .wait_ms = -1));
    UNTIL(redis_int("EXISTS lockwire:2:rwqueue:{x}") == 1);
    assert_too_long(a);
    call_break(a, "x", "t");
    EXPECT("broken OK");
    assert_string_equal(redis_counts("x"), "2 0 2");
    call_break(a, "x", ""); /* matches no token, though the scripts accept it */
    EXPECT("broken ENOTHELD");
    assert_string_equal(redis_counts("x"), "2 0 2");
    call_break(a, "x", NULL);
    EXPECT_SET("broken OK; B granted");
    assert_held_by_redis(B);
    assert_stayed_up(a);
}

static void a_long_waiter_is_told_of_and_the_holder_broken(void **state)
{
    struct peer *a = reader_of_long_things();

    (void)state;
    write_lock("t");
    redis_ok("ZADD lockwire:2:rwqueue:{x} 5 %s", long_text("w0 token "));
    redis_ok("PEXPIRE lockwire:2:rwqueue:{x} 60000");
    assert_too_long(a);
    call_break(a, "x", NULL);
    EXPECT("broken OK");
    assert_int_equal(redis_int("EXISTS x lockwire:2:rwqueue:{x}"), 0);
    assert_stayed_up(a);
}

static void a_long_value_is_broken_up_to_a_bound(void **state)
{
    struct peer *a = reader_of_long_things();

    (void)state;
    redis_ok("SET x %s PX 60000", long_text("") + LONG - 5000);
    look_at(a, "x");
    assert_int_equal(look.holder_count, 1);
    call_break(a, "x", NULL);
    EXPECT("broken OK");
    redis_ok("SET x %s PX 60000", long_text(""));
    look_at(a, "x");
    call_break(a, "x", NULL);
    EXPECT("broken EREDIS");
    assert_non_null(strstr(look.why, "too long"));
    assert_stayed_up(a);
    redis_ok("DEL x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_long_field_is_told_of_and_the_lock_is_broken),
        STAGE_TEST(a_long_token_is_broken_beside_others),
        STAGE_TEST(a_long_waiter_is_told_of_and_the_holder_broken),
        STAGE_TEST(a_long_value_is_broken_up_to_a_bound),
    };

    return STAGE_RUN(tests);
}

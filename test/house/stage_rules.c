/* SPDX-License-Identifier: MIT */
/*
 * Tests that fail, for stage_rules.py: each assert of asserts.h, and stage_fail(), once
 * without a reason in the machine (fails_*), and once after the loop stood still
 * (repeats_*). Those that are repeated pass the second time.
 */
#include "stage.h"

#include <unistd.h>

/* Stands still as on a machine without a CPU for this process: not with stage_stall(). */
static void stand_still(void)
{
    stage_run_for(50);
    usleep(400000);
    stage_run_for(50);
}

#define BOTH(name, failure)                                                              \
    static void fails_##name(void **state)                                               \
    {                                                                                    \
        (void)state;                                                                     \
        stage_forget_lag();                                                              \
        failure;                                                                         \
    }                                                                                    \
    static void repeats_##name(void **state)                                             \
    {                                                                                    \
        static bool again;                                                               \
                                                                                         \
        (void)state;                                                                     \
        if (!again) {                                                                    \
            again = true;                                                                \
            stand_still();                                                               \
            failure;                                                                     \
        }                                                                                \
    }

static const int seven = 7;
static const char *const red = "red", *const nothing;

BOTH(true, assert_true(seven == 8))
BOTH(false, assert_false(seven == 7))
BOTH(null, assert_null(red))
BOTH(non_null, assert_non_null(nothing))
BOTH(pointers, assert_ptr_equal(red, nothing))
BOTH(memory, assert_memory_equal(red, "rot", 3))
BOTH(numbers, assert_int_equal(seven, -8))
BOTH(other_numbers, assert_int_not_equal(seven, 7))
BOTH(strings, assert_string_equal(red, "blue"))
BOTH(other_strings, assert_string_not_equal(red, "red"))
BOTH(below, assert_int_in_range(seven, 8, 9))
BOTH(above, assert_in_range(seven, -2, 6))
BOTH(message, fail_msg("%d is %s", seven, red))
BOTH(stage, stage_fail("%d is %s", seven, red))

static void passes(void **state)
{
    (void)state;
    assert_true(red);
    assert_false(nothing);
    assert_null(nothing);
    assert_non_null(red);
    assert_ptr_equal(red, red);
    assert_memory_equal(red, "redder", 3);
    assert_int_equal(seven, 7);
    assert_int_not_equal(seven, -7);
    assert_string_equal(red, "red");
    assert_string_not_equal(red, "blue");
    assert_int_in_range(seven, 7, 7);
    assert_in_range(seven, -1, 8);
}

/* A test that fails each time fails in the end, also on a slow machine. */
static void fails_at_last(void **state)
{
    (void)state;
    stand_still();
    assert_true(seven == 8);
}

static void fails_if_it_stalls_itself(void **state)
{
    (void)state;
    stand_still();
    stage_stall(1);
    assert_true(seven == 8);
}

static void fails_if_the_loop_is_blocked(void **state)
{
    (void)state;
    stage_forget_lag();
    stand_still();
    stage_expect_turning(300);
}

/* What the test checks holds for less time than it waits. */
static void fails_if_an_event_never_comes(void **state)
{
    (void)state;
    stage_forget_lag();
    stage_relies_until(now_ms() + 50);
    UNTIL_FOR(150, stage_has("never"));
}

static void repeats_what_came_too_late(void **state)
{
    static bool again;

    (void)state;
    if (!again) {
        again = true;
        stage_relies_until(now_ms() + 50);
        stage_run_for(100);
        assert_true(seven == 8);
    }
}

static void is_too_slow(void **state)
{
    (void)state;
    stage_skip_if(true);
}

#define TWO(name) STAGE_TEST(fails_##name), STAGE_TEST(repeats_##name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TWO(true),
        TWO(false),
        TWO(null),
        TWO(non_null),
        TWO(pointers),
        TWO(memory),
        TWO(numbers),
        TWO(other_numbers),
        TWO(strings),
        TWO(other_strings),
        TWO(below),
        TWO(above),
        TWO(message),
        TWO(stage),
        STAGE_TEST(passes),
        STAGE_TEST(fails_at_last),
        STAGE_TEST(fails_if_it_stalls_itself),
        STAGE_TEST(fails_if_the_loop_is_blocked),
        STAGE_TEST(fails_if_an_event_never_comes),
        STAGE_TEST(repeats_what_came_too_late),
        STAGE_TEST(is_too_slow),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/*
 * The list of several servers' reasons: its form, and how the room is shared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/reasons.h"

#include <stdio.h>
#include <string.h>

static void test_each_server_has_a_reason(void **state)
{
    struct lw__reasons reasons;
    char text[200];

    (void)state;
    lw__reasons_begin(&reasons, text, sizeof(text), "no server", 3);
    assert_string_equal(text, "no server");
    lw__reasons_add(&reasons, "a:1", "refused");
    lw__reasons_add(&reasons, "b:2", "no reply");
    lw__reasons_add(&reasons, "c:3", "");
    assert_string_equal(text,
                        "no server; a:1: refused; b:2: no reply; c:3: not asked yet");
    lw__reasons_begin(&reasons, text, sizeof(text), "", 1);
    lw__reasons_add(&reasons, "a:1", "refused");
    assert_string_equal(text, "a:1: refused");
}

static void test_a_long_reason_leaves_room_for_the_others(void **state)
{
    struct lw__reasons reasons;
    char text[400], why[600];

    (void)state;
    memset(why, 'x', sizeof(why) - 1);
    why[sizeof(why) - 1] = '\0';
    lw__reasons_begin(&reasons, text, sizeof(text), "", 4);
    for (int i = 0; i < 3; i++) {
        lw__reasons_add(&reasons, (const char *[]){"a:1", "b:2", "c:3"}[i], why);
    }
    lw__reasons_add(&reasons, "d:4", "refused");
    assert_memory_equal(text, "a:1: xxx", 8);
    assert_int_equal(strcspn(text, ";"), 99);
    assert_non_null(strstr(text, "x; b:2: x"));
    assert_non_null(strstr(text, "x; c:3: x"));
    assert_non_null(strstr(text, "x; d:4: refused"));
}

/* Each has at least an address and a part of its reason, and the text ends in its room.
 */
static void test_of_many_the_first_are_listed(void **state)
{
    struct lw__reasons reasons;
    char text[160 + 1];

    (void)state;
    text[160] = '#';
    lw__reasons_begin(&reasons, text, 160, "", 1000);
    for (int i = 0; i < 1001; i++) {
        lw__reasons_add(&reasons, "node", "connecting to it took too long");
    }
    assert_int_equal(strlen(text), 159);
    assert_int_equal(text[160], '#');
    assert_non_null(
        strstr(text, "node: connecting to it took too long; node: connecting "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_server_has_a_reason),
        cmocka_unit_test(test_a_long_reason_leaves_room_for_the_others),
        cmocka_unit_test(test_of_many_the_first_are_listed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

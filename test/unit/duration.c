/* SPDX-License-Identifier: MIT */
/*
 * Times as users write them: which are accepted, and which are refused, with the place of
 * the error. There is one table of texts and their milliseconds, and one of texts and
 * their errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/duration.h"

#include <inttypes.h>
#include <string.h>

static const struct good {
    const char *text;
    int64_t ms;
} good[] = {
    {"0", 0},
    {"0ms", 0},
    {"0.0h", 0},
    {"500ms", 500},
    {"30s", 30000},
    {"30", 30000},
    {"5m", 300000},
    {"1h", 3600000},
    {"1.5s", 1500},
    {"1.5", 1500},
    {"0.25m", 15000},
    {"0.5h", 1800000},
    {"007s", 7000},
    {"0.1ms", 1},
    {"0.0001s", 1},
    {"0.000000001s", 1},
    {"1.0000001s", 1001},
    {"2147483647ms", INT32_MAX},
    {"1000000000h", INT64_C(3600000000000000)},
};

static const struct bad {
    const char *text, *place, *what;
} bad[] = {
    {"", "character 1", "a time"},
    {"s", "character 1", "a time"},
    {".5s", "character 1", "a time"},
    {"-1s", "character 1", "a time"},
    {"+1s", "character 1", "a time"},
    {" 1s", "character 1", "a time"},
    {"forever", "character 1", "a time"},
    {"inf", "character 1", "a time"},
    {"1.", "character 3", "decimals"},
    {"1.s", "character 3", "decimals"},
    {"1.0123456789s", "character 3", "decimals"},
    {"1x", "character 2", "unit"},
    {"1S", "character 2", "unit"},
    {"1s ", "character 2", "unit"},
    {"1 s", "character 2", "unit"},
    {"1sm", "character 2", "unit"},
    {"0x10", "character 2", "unit"},
    {"1e3", "character 2", "unit"},
    {"1,5s", "character 2", "unit"},
    {"1.5.5s", "character 4", "unit"},
    {"9999999999999999999", "character 1", "too long"},
    {"18446744073709551616ms", "character 1", "too long"},
    {"2000000000h", "character 1", "too long"},
};

static void test_what_is_taken(void **state)
{
    char why[100];
    int64_t ms;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        ms = -7;
        if (lw__duration_parse(good[i].text, &ms, why, sizeof(why)) != 0) {
            fail_msg("'%s' was refused: %s", good[i].text, why);
        }
        if (ms != good[i].ms) {
            fail_msg("'%s' became %" PRId64 " ms", good[i].text, ms);
        }
    }
}

static void test_what_is_refused_and_where(void **state)
{
    char why[100];
    int64_t ms;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        ms = -7;
        if (lw__duration_parse(bad[i].text, &ms, why, sizeof(why)) == 0) {
            fail_msg("'%s' was taken", bad[i].text);
        }
        if (strstr(why, bad[i].text) == NULL || strstr(why, bad[i].place) == NULL ||
            strstr(why, bad[i].what) == NULL) {
            fail_msg("'%s' was explained as: %s", bad[i].text, why);
        }
        assert_int_equal(ms, -7);
    }
}

static void test_a_short_buffer_is_kept_to(void **state)
{
    char why[8] = "";
    int64_t ms;

    (void)state;
    assert_int_equal(lw__duration_parse("x", &ms, why, sizeof(why)), -1);
    assert_int_equal(strlen(why), sizeof(why) - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_taken),
        cmocka_unit_test(test_what_is_refused_and_where),
        cmocka_unit_test(test_a_short_buffer_is_kept_to),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

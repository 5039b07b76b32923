/* SPDX-License-Identifier: MIT */
/*
 * Text of other programs, escaped for display: no control byte is left, no result is
 * larger than its buffer, and no character is cut. The test compares each text with its
 * escaped form.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../lib/range.h"
#include "base/log.h"
#include "base/escape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void told_as(const char *from, const char *expected)
{
    char text[LW__TEXT_MAX], again[LW__TEXT_MAX];

    lw__escape(from, text, sizeof(text));
    assert_string_equal(text, expected);
    lw__escape(text, again, sizeof(again));
    assert_string_equal(again, expected);
}

static void test_text_goes_through(void **state)
{
    (void)state;
    told_as("", "");
    told_as("ERR no such key ~", "ERR no such key ~");
    told_as("Schl\xc3\xbcssel \xe2\x82\xac \xf0\x9f\x94\x92",
            "Schl\xc3\xbcssel \xe2\x82\xac \xf0\x9f\x94\x92");
}

static void test_control_bytes_do_not(void **state)
{
    (void)state;
    told_as("\x1b[2J\r\n\x07\x7f", "\\x1b[2J\\x0d\\x0a\\x07\\x7f");
    told_as("\x9b"
            "31m",
            "\\x9b31m"); /* C1 control, as one byte */
    told_as("\xc2\x9b"
            "31m",
            "\\xc2\\x9b31m"); /* the same in UTF-8 */
    told_as("\xc1\xbf \xed\xa0\x80 \xe2\x82", "\\xc1\\xbf \\xed\\xa0\\x80 \\xe2\\x82");
}

static void test_every_byte_has_room_or_is_left_out(void **state)
{
    char from[300], text[40];

    (void)state;
    for (int byte = 1; byte < 256; byte++) {
        memset(from, byte, sizeof(from) - 1);
        from[sizeof(from) - 1] = '\0';
        for (size_t size = 1; size < sizeof(text); size++) {
            memset(text, '#', sizeof(text));
            lw__escape(from, text, size);
            assert_int_in_range(strlen(text), size < 5 ? 0 : size - 4, size - 1);
            assert_int_equal(text[size], '#');
            for (const char *at = text; *at; at++) {
                assert_int_in_range(*at, 0x20, 0x7e);
            }
        }
    }
    text[0] = '#';
    lw__escape("x", text, 0);
    assert_int_equal(text[0], '#');
}

static void test_a_character_is_not_cut(void **state)
{
    char text[8];

    (void)state;
    lw__escape("12345\xe2\x82\xac", text, 8);
    assert_string_equal(text, "12345");
    lw__escape("1234\xe2\x82\xac", text, 8);
    assert_string_equal(text, "1234\xe2\x82\xac");
    lw__escape("1234\x01", text, 8);
    assert_string_equal(text, "1234");
}

static void test_a_megabyte_is_cut(void **state)
{
    size_t length = 1 << 20;
    char *from = malloc(length + 1), text[LW__TEXT_MAX];

    (void)state;
    assert_non_null(from);
    memset(from, 'e', length);
    from[length] = '\0';
    lw__escape(from, text, sizeof(text));
    assert_int_equal(strlen(text), sizeof(text) - 1);
    free(from);
}

static void logged(int level, const char *message, void *arg)
{
    (void)level;
    *(char **)arg = strdup(message);
}

static void test_a_message_quotes_it_so(void **state)
{
    char *message = NULL;
    struct lw__log log = {logged, 7, &message, NULL, NULL};

    (void)state;
    lw__log(&log, 4, "it said: %s", "\x1b]0;title\x07");
    assert_string_equal(message, "it said: \\x1b]0;title\\x07");
    free(message);
}

/* ---- causes ---- */

#define SECOND ((int64_t)1000000)

struct heard {
    int count;
    char last[LW__TEXT_MAX];
};

static void hear(int level, const char *message, void *arg)
{
    struct heard *heard = arg;

    (void)level;
    heard->count++;
    (void)snprintf(heard->last, sizeof(heard->last), "%s", message);
}

static void fail_at(const struct lw__log *log, int64_t second, int address)
{
    lw__log_cause(log, second * SECOND, 4, "10.0.0.%d: Connection refused", address);
}

static void test_a_cause_that_repeats_is_logged_once_a_minute(void **state)
{
    static struct lw__causes causes;
    struct heard heard = {0};
    struct lw__log log = {hear, 4, &heard, &causes, NULL};

    (void)state;
    for (int64_t second = 1000; second < 1060; second++) {
        fail_at(&log, second, 1);
    }
    assert_int_equal(heard.count, 1);
    assert_string_equal(heard.last, "10.0.0.1: Connection refused");
    fail_at(&log, 1060, 1);
    assert_int_equal(heard.count, 2);
    assert_string_equal(heard.last, "10.0.0.1: Connection refused (repeated 60 times in "
                                    "the last minute)");
    fail_at(&log, 1200, 1); /* the cause had ended, and begins again */
    assert_int_equal(heard.count, 3);
    assert_string_equal(heard.last, "10.0.0.1: Connection refused");
}

/* As many causes as a large cluster has nodes: each one is logged once, however they
 * alternate. */
static void test_causes_that_alternate_are_told_apart(void **state)
{
    static struct lw__causes causes;
    struct heard heard = {0};
    struct lw__log log = {hear, 4, &heard, &causes, NULL};

    (void)state;
    for (int64_t second = 1000; second < 1050; second++) {
        for (int address = 1; address <= LW__CAUSES; address++) {
            fail_at(&log, second, address);
        }
    }
    assert_int_equal(heard.count, LW__CAUSES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_goes_through),
        cmocka_unit_test(test_control_bytes_do_not),
        cmocka_unit_test(test_every_byte_has_room_or_is_left_out),
        cmocka_unit_test(test_a_character_is_not_cut),
        cmocka_unit_test(test_a_megabyte_is_cut),
        cmocka_unit_test(test_a_message_quotes_it_so),
        cmocka_unit_test(test_a_cause_that_repeats_is_logged_once_a_minute),
        cmocka_unit_test(test_causes_that_alternate_are_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

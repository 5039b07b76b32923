/* SPDX-License-Identifier: MIT */
/*
 * Tables that fit the terminal: how wide a text is, where it is cut, and which column is
 * shortened first. A row of these tests is an array of texts.
 *
 * Usual course: cells are given, and the whole text of the table is compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "columns.h"

#include <stdlib.h>
#include <string.h>

static const char token[] = "3f2a9c1b-7d44-4c1e-9a52-0c6f1e8d7b23:12:2000-";

static void test_how_wide_a_text_is(void **state)
{
    static const struct {
        const char *text;
        int width;
    } texts[] = {
        {"", 0},
        {"abc", 3},
        {"gr\u00fcn", 4},
        {"\u20ac\u20ac", 2},
        {"e\u0301a\u0308", 2},           /* combining marks */
        {"a\u200db", 2},                 /* a joiner */
        {"\u65e5\u672c", 4},             /* ideographs */
        {"\ud55c\uff21", 4},             /* Hangul, a full-width A */
        {"\U0001f512x", 3},              /* emoji */
        {"\u2705\u231a\u26a1\u2b50", 8}, /* wide ones among symbols; narrow ones: */
        {"\u2713\u2600\u231b\U0001f321\U0001f5a5", 6},
        {"\u2713\ufe0f", 1}, /* a variation selector */
        {"\xe2\x82", 1},     /* half a character */
        {"\U0010ffff", 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        assert_int_equal(columns_width(texts[i].text), texts[i].width);
    }
}

static void test_no_character_is_split(void **state)
{
    static const char text[] = "a\u65e5e\u0301b";
    static const size_t fit[] = {0, 1, 1, 4, 7, 8, 8};

    (void)state;
    for (int width = 0; width < 7; width++) {
        assert_int_equal(columns_fit(text, strlen(text), width), fit[width]);
    }
    assert_int_equal(columns_fit(text, 2, 9), 2);
    assert_int_equal(columns_fit(text, strlen(text), -1), 0);
}

static void test_the_middle_is_left_out(void **state)
{
    static const struct {
        const char *from;
        int width;
        const char *text;
    } cuts[] = {
        {"abcdef", 6, "abcdef"},
        {"abcdef", 5, "ab\u2026ef"},
        {"abcdef", 4, "ab\u2026f"},
        {"abcdef", 3, "a\u2026f"},
        {"abcdef", 2, "a\u2026"},
        {"abcdef", 1, "\u2026"},
        {"abcdef", 0, ""},
        {"abcdef", -1, ""},
        {"", 0, ""},
        {"\u65e5\u672c\u8a9e", 5, "\u65e5\u2026\u8a9e"},
        {"\u65e5\u672c\u8a9e", 4, "\u65e5\u2026"},
        {"abcde\u0301", 3, "a\u2026e\u0301"},
        {"ab\u0301cde\u0301f", 4, "ab\u0301\u2026f"},
        {"abe\u0301\u0301", 2, "a\u2026"},
    };
    char text[64];

    (void)state;
    for (size_t i = 0; i < sizeof(cuts) / sizeof(*cuts); i++) {
        columns_cut(cuts[i].from, cuts[i].width, text, sizeof(text));
        assert_string_equal(text, cuts[i].text);
    }
    columns_cut(token, 17, text, sizeof(text));
    assert_string_equal(text, "3f2a9c1b\u202612:2000-");
}

static void test_what_is_cut_has_that_width(void **state)
{
    static const char from[] = "a\u65e5b\u0301\U0001f512c\u00fc\u672c\u8a9ed\u0301ef";
    char text[64];

    (void)state;
    for (int width = 0; width <= columns_width(from); width++) {
        columns_cut(from, width, text, sizeof(text));
        assert_in_range(columns_width(text), width > 2 ? width - 2 : 0, width);
        columns_cut(from, width, text, 1);
        assert_string_equal(text, "");
    }
}

/* ---- tables ---- */

struct cells {
    const char *texts[4];
};

#define NUMBER (-1)

static void cell(const void *rows, size_t index, int field, char *text, size_t size)
{
    const struct cells *row = (const struct cells *)rows + index;

    if (field == NUMBER) {
        (void)snprintf(text, size, "%zu", index + 1);
    } else {
        (void)snprintf(text, size, "%s", row->texts[field]);
    }
}

static const struct column columns[] = {
    {"#", NUMBER, 0}, {"OWNER", 0, 8}, {"FENCE", 1, 0},
    {"CLIENT", 2, 8}, {"TOKEN", 3, 5}, {NULL, 0, 0},
};

static void check_columns(const struct column *given, const struct cells *rows,
                          size_t count, int width, const char *expected)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    columns_write(out, given, cell, rows, count, width);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, expected);
    free(text);
}

static void check(const struct cells *rows, size_t count, int width, const char *expected)
{
    check_columns(columns, rows, count, width, expected);
}

static const struct cells two[] = {
    {{"anna", "7", "backup db-1 4711", "abcdefghijklmnop"}},
    {{"a-very-much-longer-owner", "12", "-", "qrstuvwxyz"}},
};

static void test_as_wide_as_it_gets(void **state)
{
    static const char full_width[] =
        "#  OWNER                     FENCE  CLIENT            TOKEN\n"
        "1  anna                      7      backup db-1 4711  abcdefghijklmnop\n"
        "2  a-very-much-longer-owner  12     -                 qrstuvwxyz\n";

    (void)state;
    check(two, 2, 0, full_width);
    check(two, 2, 70, full_width);
    check(two, 2, 1000, full_width);
}

static void test_the_last_gives_way_first(void **state)
{
    (void)state;
    check(two, 2, 60,
          "#  OWNER                     FENCE  CLIENT            TOKEN\n"
          "1  anna                      7      backup db-1 4711  abc\u2026op\n"
          "2  a-very-much-longer-owner  12     -                 qrs\u2026yz\n");
}

static void test_then_it_is_left_out(void **state)
{
    (void)state;
    check(two, 2, 58,
          "#  OWNER                     FENCE  CLIENT\n"
          "1  anna                      7      backup db-1 4711\n"
          "2  a-very-much-longer-owner  12     -\n");
}

static void test_then_the_widest_is_cut(void **state)
{
    (void)state;
    check(two, 2, 46,
          "#  OWNER               FENCE  CLIENT\n"
          "1  anna                7      backup db-1 4711\n"
          "2  a-very-mu\u2026er-owner  12     -\n");
    check(two, 2, 34,
          "#  OWNER        FENCE  CLIENT\n"
          "1  anna         7      backu\u2026 4711\n"
          "2  a-ver\u2026owner  12     -\n");
}

static void test_then_the_rest(void **state)
{
    (void)state;
    check(two, 2, 24,
          "#  OWNER     FENCE  CL\u2026T\n"
          "1  anna      7      ba\u20261\n"
          "2  a-ve\u2026ner  12     -\n");
    check(two, 2, 15,
          "#  OWNER     F\u2026\n"
          "1  anna      7\n"
          "2  a-ve\u2026ner  12\n");
    check(two, 2, 2, "#\n1\n2\n");
}

static void test_what_is_never_cut(void **state)
{
    static const struct column fixed[] = {{"OWNER", 0, 0}, {"TOKEN", 3, 0}, {NULL, 0, 0}};

    (void)state;
    check_columns(fixed, two, 2, 30,
                  "OWNER                     TO\u2026N\n"
                  "anna                      ab\u2026p\n"
                  "a-very-much-longer-owner  qr\u2026z\n");
}

static void test_where_nothing_is_said(void **state)
{
    static const struct cells silent[] = {{{"-", "-", "backup db-1 4711", "abcdefghij"}}};

    (void)state;
    check(silent, 1, 0,
          "#  OWNER  FENCE  CLIENT            TOKEN\n"
          "1  -      -      backup db-1 4711  abcdefghij\n");
    check(silent, 1, 44,
          "#  FENCE  CLIENT            TOKEN\n"
          "1  -      backup db-1 4711  abcdefghij\n");
    check(silent, 1, 31,
          "#  CLIENT            TOKEN\n"
          "1  backup db-1 4711  abcdefghij\n");
    check(NULL, 0, 80, "#  OWNER  FENCE  CLIENT  TOKEN\n");
}

static void test_letters_of_several_bytes_keep_the_columns(void **state)
{
    static const struct cells foreign[] = {
        {{"gr\u00fcn", "1", "\u65e5\u672c", "x"}},
        {{"e\u0301", "2", "\U0001f512", "y"}},
    };

    (void)state;
    check(foreign, 2, 80,
          "#  OWNER  FENCE  CLIENT  TOKEN\n"
          "1  gr\u00fcn   1      \u65e5\u672c    x\n"
          "2  e\u0301      2      \U0001f512      y\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_how_wide_a_text_is),
        cmocka_unit_test(test_no_character_is_split),
        cmocka_unit_test(test_the_middle_is_left_out),
        cmocka_unit_test(test_what_is_cut_has_that_width),
        cmocka_unit_test(test_as_wide_as_it_gets),
        cmocka_unit_test(test_the_last_gives_way_first),
        cmocka_unit_test(test_then_it_is_left_out),
        cmocka_unit_test(test_then_the_widest_is_cut),
        cmocka_unit_test(test_then_the_rest),
        cmocka_unit_test(test_what_is_never_cut),
        cmocka_unit_test(test_where_nothing_is_said),
        cmocka_unit_test(test_letters_of_several_bytes_keep_the_columns),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

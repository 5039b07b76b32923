/* SPDX-License-Identifier: MIT */
/*
 * The parsing of messages and the formatting of tokens: what fits exactly is accepted,
 * all else is refused. Usual course: a message as a script publishes it is parsed, and
 * each of its fields is compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "redis/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UUID "0189d0f0-1111-4222-8333-444455556666"

static struct lw__message message;

static bool is_message(const char *text)
{
    return lw__format_read_message(text, strlen(text), UUID, &message);
}

static void test_a_hand_over(void **state)
{
    (void)state;
    assert_true(
        is_message("t " UUID ":7:2000- 1763690000000016 5e1f 1763690000 1 a job"));
    assert_true(message.handed);
    assert_false(message.rw);
    assert_true(message.token.n == 7);
    assert_int_equal(message.token.window_ms, 2000);
    assert_true(message.fence == 1763690000000016);
    assert_true(message.handed_us == 1763690000000001);
    assert_string_equal(message.server, "5e1f");
    assert_string_equal(message.name, "a job");
}

static void test_a_hand_over_of_a_read_write_lock(void **state)
{
    (void)state;
    assert_true(
        is_message("r " UUID ":7:2000- 1763690000000016 5e1f 1763690000 1 a job"));
    assert_true(message.handed);
    assert_true(message.rw);
    assert_true(message.fence == 1763690000000016);
    assert_string_equal(message.name, "a job");
}

/* A releaser that does not know its server's run_id leaves it empty. */
static void test_a_hand_over_by_any_server(void **state)
{
    (void)state;
    assert_true(is_message("t " UUID ":7:2000- 16  17 0 job"));
    assert_string_equal(message.server, "");
    assert_string_equal(message.name, "job");
    assert_true(is_message("t " UUID ":7:2000- 16 0123456789abcdef 17 0 job"));
    assert_string_equal(message.server, "0123456789abcdef");
    assert_false(is_message("t " UUID ":7:2000- 16 0123456789abcdef0 17 0 job"));
    assert_false(is_message("t " UUID ":7:2000- 16 5E1F 17 0 job"));
    assert_false(is_message("t " UUID ":7:2000- 16 5e1f 17 0"));
    assert_false(is_message("t " UUID ":7:2000- 16 17 job"));
}

/* Tokens of wire version 1 had no end mark, and its messages had no server. */
static void test_messages_of_another_version(void **state)
{
    (void)state;
    assert_false(is_message("t " UUID ":7:2000 16 17 job"));
    assert_false(is_message("t " UUID ":7:2000 16 5e1f 17 0 job"));
    assert_false(is_message("t " UUID ":7:2000- 16 17 job"));
    assert_false(is_message("s " UUID ":7:2000 500 job"));
}

static void test_a_standby(void **state)
{
    (void)state;
    assert_true(is_message("s " UUID ":7:2000- 500 job"));
    assert_false(message.handed);
    assert_false(message.rw);
    assert_true(message.token.n == 7);
    assert_int_equal(message.token.window_ms, 2000);
    assert_int_equal(message.window_ms, 500);
    assert_string_equal(message.name, "job");
}

static void test_a_hint_to_verify(void **state)
{
    (void)state;
    assert_true(is_message("v " UUID ":7:2000- a job"));
    assert_true(message.verify);
    assert_false(message.handed);
    assert_false(message.rw);
    assert_true(message.token.n == 7);
    assert_string_equal(message.name, "a job");
    assert_true(is_message("s " UUID ":7:2000- 500 job"));
    assert_false(message.verify);
    assert_false(is_message("v " UUID ":7:2000+ job"));
    assert_false(is_message("v " UUID ":7:2000- "));
    assert_false(is_message("u " UUID ":7:2000- job"));
    assert_false(is_message(""));
}

static void test_a_request_to_yield(void **state)
{
    (void)state;
    assert_true(is_message("y " UUID ":7:2000- a job"));
    assert_true(message.yield);
    assert_false(message.verify);
    assert_false(message.handed);
    assert_true(message.token.n == 7);
    assert_string_equal(message.name, "a job");
    assert_true(is_message("v " UUID ":7:2000- a job"));
    assert_false(message.yield);
    assert_false(is_message("y " UUID ":7:2000- "));
    assert_false(is_message("y " UUID " job"));
}

/* A message is refused if it is cut before the first byte of the name, or if no lock can
 * have the name. */
static void test_messages_cut_at_every_byte(void **state)
{
    static const char *const whole[] = {
        "t " UUID ":7:2000- 1763690000000016 5e1f 1763690000 1 j",
        "s " UUID ":7:2000- 500 j", "v " UUID ":7:2000- j"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        size_t length = strlen(whole[i]);
        char *copy;

        for (size_t cut = 0; cut < length; cut++) {
            copy = strndup(whole[i], cut); /* so that a read beyond it is detected */
            assert_non_null(copy);
            assert_false(lw__format_read_message(copy, cut, UUID, &message));
            free(copy);
        }
        assert_true(is_message(whole[i]));
        assert_false(lw__format_read_message(whole[i], length + 1, UUID, &message));
    }
    assert_false(lw__format_read_message("s " UUID ":7:2000- 500 j\0k",
                                         strlen(whole[1]) + 2, UUID, &message));
}

/* Each field of a message, with each invalid value. */
static void test_messages_with_each_field_wrong(void **state)
{
    static const char *const wrong[] = {"",
                                        "00",
                                        "-1",
                                        "+1",
                                        "01",
                                        " 1",
                                        "1x",
                                        "x",
                                        "0x1",
                                        "9223372036854775808",
                                        "18446744073709551617",
                                        "99999999999999999999999999"};
    char text[256];

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        for (int place = 0; place < 8; place++) {
            const char *field[8] = {"7",      "2000", "16",   "1763690000",
                                    "999999", "7",    "2000", "500"};

            field[place] = wrong[i];
            if (place < 5) {
                (void)snprintf(text, sizeof(text), "t " UUID ":%s:%s- %s 5e1f %s %s job",
                               field[0], field[1], field[2], field[3], field[4]);
            } else {
                (void)snprintf(text, sizeof(text), "s " UUID ":%s:%s- %s job", field[5],
                               field[6], field[7]);
            }
            assert_false(is_message(text));
        }
    }
}

static void test_messages_at_the_limits(void **state)
{
    (void)state;
    assert_true(is_message("t " UUID ":9223372036854775807:60000- 9007199254740992 "
                           "5e1f 9007199253 999999 j"));
    assert_true(message.token.n == INT64_MAX);
    assert_true(message.handed_us == 9007199253999999);
    assert_false(is_message("t " UUID ":7:60001- 16 5e1f 17 0 j"));
    assert_false(is_message("t " UUID ":7:2000- 9007199254740993 5e1f 17 0 j"));
    assert_false(is_message("t " UUID ":7:2000- 16 5e1f 9007199254 0 j"));
    assert_false(is_message("t " UUID ":7:2000- 16 5e1f 17 1000000 j"));
    assert_false(is_message("t " UUID ":7:2000- 16 5e1f 0 17 j"));
    assert_false(is_message("t " UUID ":0:2000- 16 5e1f 17 0 j"));
    assert_false(is_message("t " UUID ":7:0- 16 5e1f 17 0 j"));
    assert_false(is_message("t " UUID ":7:2000- 0 5e1f 17 0 j"));
    assert_false(is_message("s " UUID ":7:2000- 0 j"));
    assert_true(is_message("s " UUID ":7:2000- 60000 j"));
    assert_false(is_message("s " UUID ":7:2000- 60001 j"));
}

static void test_messages_of_others(void **state)
{
    (void)state;
    assert_false(
        is_message("t 0189d0f0-1111-4222-8333-444455556667:7:2000- 16 5e1f 17 0 job"));
    assert_false(
        is_message("t 0189D0F0-1111-4222-8333-444455556666:7:2000- 16 5e1f 17 0 job"));
    assert_false(is_message("u " UUID ":7:2000- 16 5e1f 17 0 job"));
    assert_false(is_message("tt" UUID ":7:2000- 16 5e1f 17 0 job"));
    assert_false(is_message("t " UUID " 7:2000- 16 5e1f 17 0 job"));
    assert_false(is_message("s " UUID ":7:2000- 500 a\nb"));
    assert_false(is_message("s " UUID ":7:2000- 500 lockwire:fence"));
    assert_false(is_message("s " UUID ":7:2000- 500 a}b{c"));
}

static void test_a_token_is_uuid_number_window(void **state)
{
    const struct lw__token token = {UUID, 7, 2000};
    const struct lw__token largest = {UUID, INT64_MAX, UINT32_MAX}, least = {UUID, 0, 0};
    char text[LW__TOKEN_SIZE];

    (void)state;
    lw__format_token(&token, text);
    assert_string_equal(text, UUID ":7:2000-");
    lw__format_token(&largest, text);
    assert_string_equal(text, UUID ":9223372036854775807:4294967295-");
    lw__format_token(&least, text);
    assert_string_equal(text, UUID ":0:0-");
}

static void test_numbers_are_written_as_the_server_can(void **state)
{
    char numbers[LW__NUMBERS_SIZE];

    (void)state;
    lw__format_numbers("0123456789abcdef", true, numbers);
    assert_string_equal(numbers, "%d 0123456789abcdef");
    lw__format_numbers("0123456789abcdef", false, numbers);
    assert_string_equal(numbers, "%.0f 0123456789abcdef");
    lw__format_numbers("", true, numbers);
    assert_string_equal(numbers, "%d ");
}

/* The text of a token that queues is padded to more than 64 bytes, so that Redis does not
 * store the queue as a list. All else of the token is the same. */
static void test_a_token_that_queues_is_padded(void **state)
{
    struct lw__token queues = {UUID, 7 | LW__PADDED, 100};
    struct lw__message message;
    char text[LW__TOKEN_SIZE], line[160];

    (void)state;
    assert_int_equal(lw__format_token(&queues, text), 65);
    assert_string_equal(text, UUID ":00000000000000000000007:100-");
    (void)snprintf(line, sizeof(line), "s %s 500 job", text);
    assert_true(lw__format_read_message(line, strlen(line), UUID, &message));
    assert_true(message.token.n == queues.n);
    assert_int_equal(lw__format_token(&message.token, text), 65);
    queues.n = INT64_MAX | LW__PADDED;
    queues.window_ms = 60000;
    assert_int_equal(lw__format_token(&queues, text), 67);
    assert_string_equal(text, UUID ":00009223372036854775807:60000-");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers_are_written_as_the_server_can),
        cmocka_unit_test(test_a_token_that_queues_is_padded),
        cmocka_unit_test(test_a_hand_over),
        cmocka_unit_test(test_a_hand_over_of_a_read_write_lock),
        cmocka_unit_test(test_a_hand_over_by_any_server),
        cmocka_unit_test(test_messages_of_another_version),
        cmocka_unit_test(test_a_standby),
        cmocka_unit_test(test_a_hint_to_verify),
        cmocka_unit_test(test_a_request_to_yield),
        cmocka_unit_test(test_messages_cut_at_every_byte),
        cmocka_unit_test(test_messages_with_each_field_wrong),
        cmocka_unit_test(test_messages_at_the_limits),
        cmocka_unit_test(test_messages_of_others),
        cmocka_unit_test(test_a_token_is_uuid_number_window),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * The parsing of replies: what fits exactly is accepted, all else is refused. The replies
 * are made from bytes by the reader of reader.h.
 *
 * A reply is written as its elements: 12 -1 (integers), 'x (a string), +x (a status), !x
 * (an error), nil, [ (an array that contains a 1). Every valid reply is also spoilt at
 * each place by each of these, cut short and made longer.
 *
 * Usual course: a reply as the script sends it is parsed, and each field of the result is
 * compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "redis/decode.h"
#include "redis/reader.h"
#include "redis/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 9 /* elements of a reply, and one more that spoils it */

static void element_bytes(char *bytes, size_t size, const char *element)
{
    if (strcmp(element, "nil") == 0) {
        (void)snprintf(bytes, size, "$-1\r\n");
    } else if (*element == '\'') {
        (void)snprintf(bytes, size, "$%zu\r\n%s\r\n", strlen(element + 1), element + 1);
    } else if (*element == '+') {
        (void)snprintf(bytes, size, "%s\r\n", element);
    } else if (*element == '!') {
        (void)snprintf(bytes, size, "-%s\r\n", element + 1);
    } else if (*element == '[') {
        (void)snprintf(bytes, size, "*1\r\n:1\r\n");
    } else {
        (void)snprintf(bytes, size, ":%s\r\n", element);
    }
}

/* Passes the reply to `decode`, and frees it. */
static bool decoded(bool (*decode)(const struct lw__reply *), const char *bytes)
{
    redisReader *reader = redisReaderCreate();
    struct lw__reader guard;
    void *reply;
    bool good;

    assert_non_null(reader);
    lw__reader_init(&guard, 1 << 16);
    lw__reader_install(&guard, reader);
    assert_int_equal(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    good = decode(reply);
    redisReaderFree(reader);
    lw__reader_clear(&guard);
    return good;
}

static bool array_decoded(bool (*decode)(const struct lw__reply *), size_t count,
                          const char *const *elements)
{
    char bytes[1024];

    (void)snprintf(bytes, sizeof(bytes), "*%zu\r\n", count);
    for (size_t i = 0; i < count; i++) {
        size_t at = strlen(bytes);

        element_bytes(bytes + at, sizeof(bytes) - at, elements[i]);
    }
    return decoded(decode, bytes);
}

/* Checks that the valid reply is accepted, and refused if any place has something other
 * than an integer, or a number that no script returns, or if it is cut short or made
 * longer. The element at `word`, if there is one, is a word. */
static void check(bool (*decode)(const struct lw__reply *), size_t count, size_t word,
                  const char *const *right)
{
    static const char *const wrong[] = {
        "nil", "'1", "+1", "!ERR x", "[", "-3", "-9223372036854775808"};
    const char *elements[MOST] = {NULL};

    for (size_t i = 0; i < count; i++) {
        elements[i] = right[i];
    }
    assert_true(array_decoded(decode, count, elements));
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < sizeof(wrong) / sizeof(*wrong); j++) {
            bool is_word = *wrong[j] == '\'' || *wrong[j] == '+';

            elements[i] = wrong[j];
            assert_int_equal(array_decoded(decode, count, elements),
                             i == word && is_word);
        }
        elements[i] = right[i];
        if (i != word) {
            assert_false(array_decoded(decode, i, elements));
        }
    }
    elements[count] = "1";
    assert_false(array_decoded(decode, count + 1, elements));
}

#define NO_WORD MOST
#define CHECK(decode, word, ...)                                                         \
    check(decode, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), word,     \
          (const char *const[]){__VA_ARGS__})

static const char *const scalars[] = {"$-1\r\n", "*-1\r\n",     "*0\r\n", "$1\r\n1\r\n",
                                      "+OK\r\n", "-ERR no\r\n", ":4\r\n", ":-1\r\n"};

static void refuses_scalars(bool (*decode)(const struct lw__reply *))
{
    for (size_t i = 0; i < sizeof(scalars) / sizeof(*scalars); i++) {
        assert_false(decoded(decode, scalars[i]));
    }
}

/* ---- acquire ---- */

static struct lw__acquired acquired; /* the last one decoded */
static char stranger[32];            /* its word, which ends with the reply */

static bool keep_acquired(const struct lw__reply *reply,
                          bool (*decode)(const struct lw__reply *, struct lw__acquired *))
{
    bool good = decode(reply, &acquired);

    (void)snprintf(stranger, sizeof(stranger), "%s",
                   good && acquired.foreign != NULL ? acquired.foreign : "");
    return good;
}

static bool as_acquired(const struct lw__reply *reply)
{
    return keep_acquired(reply, lw__decode_acquired);
}

static bool as_rw_acquired(const struct lw__reply *reply)
{
    return keep_acquired(reply, lw__decode_rw_acquired);
}

static bool as_redisson_acquired(const struct lw__reply *reply)
{
    return keep_acquired(reply, lw__decode_redisson_acquired);
}

static bool redisson_of(size_t count, const char *const *elements)
{
    return array_decoded(as_redisson_acquired, count, elements);
}

static void test_a_grant_of_redisson_s_has_no_number(void **state)
{
    (void)state;
    CHECK(as_redisson_acquired, NO_WORD, "1", "0");
    assert_true(redisson_of(2, (const char *[]){"1", "0"}));
    assert_int_equal(acquired.kind, LW__ANSWER_GRANTED);
    assert_true(acquired.fence == 0);
    assert_false(redisson_of(2, (const char *[]){"1", "1"}));
}

static void test_a_place_in_the_queue(void **state)
{
    (void)state;
    CHECK(as_redisson_acquired, NO_WORD, "0", "29000", "2", "1763690000000001",
          "1763690000000002", "0");
    assert_true(redisson_of(6, (const char *[]){"0", "29000", "2", "11", "12", "1"}));
    assert_int_equal(acquired.kind, LW__ANSWER_QUEUED);
    assert_int_equal(acquired.remaining_ms, 29000);
    assert_int_equal(acquired.position, 2);
    assert_int_equal(acquired.ticket, 11);
    assert_int_equal(acquired.server_us, 12);
    assert_true(acquired.again);
    assert_null(acquired.foreign);
}

static void test_a_place_at_the_limits(void **state)
{
    (void)state;
    assert_true(redisson_of(
        6, (const char *[]){"0", "9223372036854775807", "-1", "-1", "1", "0"}));
    assert_true(acquired.remaining_ms == INT64_MAX);
    assert_true(redisson_of(6, (const char *[]){"0", "-1", "0", "0", "1", "0"}));
    assert_int_equal(acquired.remaining_ms, -1);
    assert_false(redisson_of(6, (const char *[]){"0", "1", "0", "0", "0", "0"}));
    assert_false(redisson_of(6, (const char *[]){"0", "1", "0", "0", "1", "2"}));
    assert_false(redisson_of(6, (const char *[]){"2", "1", "0", "0", "1", "0"}));
}

static void test_a_stranger_is_named(void **state)
{
    (void)state;
    CHECK(as_redisson_acquired, 6, "0", "-1", "0", "11", "12", "0", "'hash");
    assert_true(
        redisson_of(7, (const char *[]){"0", "-1", "0", "11", "12", "0", "'hash"}));
    assert_string_equal(stranger, "hash");
    assert_false(redisson_of(7, (const char *[]){"0", "-1", "0", "11", "12", "0", "'"}));
}

static void test_a_deadlock_is_of_read_write_locks_alone(void **state)
{
    (void)state;
    assert_true(decoded(as_rw_acquired, ":-1\r\n"));
    assert_int_equal(acquired.kind, LW__ANSWER_DEADLOCK);
    assert_false(decoded(as_acquired, ":-1\r\n"));
    assert_false(decoded(as_redisson_acquired, ":-1\r\n"));
    assert_false(redisson_of(1, (const char *[]){"-1"}));
}

static void test_a_read_write_grant_is_its_fence(void **state)
{
    static const char *const wrong[] = {":0\r\n",      ":-2\r\n", ":9007199254740993\r\n",
                                        "$1\r\n1\r\n", "+1\r\n",  "-ERR no\r\n",
                                        "$-1\r\n"};

    (void)state;
    assert_true(decoded(as_rw_acquired, ":9007199254740992\r\n"));
    assert_int_equal(acquired.kind, LW__ANSWER_GRANTED);
    assert_true(acquired.fence == (uint64_t)1 << 53);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_false(decoded(as_rw_acquired, wrong[i]));
    }
    CHECK(as_rw_acquired, NO_WORD, "0", "500", "2", "11", "12", "1");
    CHECK(as_rw_acquired, 6, "0", "-1", "0", "11", "12", "0", "'hash");
    assert_true(array_decoded(
        as_rw_acquired, 7, (const char *[]){"0", "-1", "0", "11", "12", "0", "'hash"}));
    assert_string_equal(stranger, "hash");
    assert_false(array_decoded(as_rw_acquired, 2, (const char *[]){"1", "7"}));
}

static void test_no_array_is_no_answer_to_redisson_s(void **state)
{
    (void)state;
    refuses_scalars(as_redisson_acquired);
}

static bool mutex_text(const char *text)
{
    char bytes[256];

    (void)snprintf(bytes, sizeof(bytes), "$%zu\r\n%s\r\n", strlen(text), text);
    return decoded(as_acquired, bytes);
}

static void test_a_mutex_s_grant_is_its_number(void **state)
{
    (void)state;
    assert_true(decoded(as_acquired, ":1763690000000016\r\n"));
    assert_int_equal(acquired.kind, LW__ANSWER_GRANTED);
    assert_true(acquired.fence == 1763690000000016);
    assert_true(decoded(as_acquired, ":0\r\n"));
    assert_true(acquired.fence == 0);
    assert_false(decoded(as_acquired, ":-1\r\n"));
    assert_true(decoded(as_acquired, ":9007199254740992\r\n"));
    assert_false(decoded(as_acquired, ":9007199254740993\r\n"));
}

static void test_a_mutex_s_refusal_is_a_line(void **state)
{
    (void)state;
    assert_true(mutex_text("29000 2 1763690000000002 1763690000000001 1"));
    assert_int_equal(acquired.kind, LW__ANSWER_QUEUED);
    assert_int_equal(acquired.remaining_ms, 29000);
    assert_int_equal(acquired.position, 2);
    assert_true(acquired.ticket == 1763690000000001);
    assert_true(acquired.server_us == 1763690000000002);
    assert_true(acquired.again && acquired.foreign == NULL);
    assert_true(mutex_text("-1 -1 1 -1 0"));
    assert_int_equal(acquired.remaining_ms, -1);
    assert_false(acquired.again);
    assert_true(mutex_text("0 0 11 12 0 list"));
    assert_string_equal(stranger, "list");
}

static void test_who_joins_a_mutex_s_queue_has_the_time_as_ticket(void **state)
{
    (void)state;
    assert_true(mutex_text("2000 0 1763690000000002"));
    assert_int_equal(acquired.remaining_ms, 2000);
    assert_int_equal(acquired.position, 0);
    assert_true(acquired.ticket == 1763690000000002);
    assert_true(acquired.server_us == 1763690000000002);
    assert_true(!acquired.again && acquired.foreign == NULL);
    assert_true(mutex_text("-2 49 12"));
    assert_int_equal(acquired.remaining_ms, LW__NOT_TOLD);
    assert_int_equal(acquired.position, 49);
    assert_true(acquired.ticket == 12 && acquired.server_us == 12);
}

static void test_a_full_queue_is_a_position_of_minus_two(void **state)
{
    (void)state;
    assert_true(mutex_text("29000 -2 1763690000000002"));
    assert_int_equal(acquired.kind, LW__ANSWER_QUEUED);
    assert_int_equal(acquired.position, -1);
    assert_true(acquired.full);
    assert_true(mutex_text("29000 -1 1763690000000002"));
    assert_int_equal(acquired.position, -1);
    assert_false(acquired.full);
    assert_true(array_decoded(as_rw_acquired, 6,
                              (const char *[]){"0", "29000", "-2", "11", "12", "0"}));
    assert_int_equal(acquired.position, -1);
    assert_true(acquired.full);
    assert_false(redisson_of(6, (const char *[]){"0", "29000", "-2", "11", "12", "0"}));
    for (size_t i = 0; i < 6; i++) { /* only the position may be -2 */
        const char *elements[] = {"0", "29000", "2", "11", "12", "0"};

        elements[i] = "-2";
        assert_int_equal(array_decoded(as_rw_acquired, 6, elements), i == 2);
    }
}

static void test_no_other_line_is_a_mutex_s_refusal(void **state)
{
    static const char *const wrong[] = {
        "",
        "1",
        "1 2",
        "1 2 ",
        "1 2 0",
        "1 2 3 ",
        "1 2 3 4",
        "1 2 3 4 0 ",
        "1 2 3 4 0  ",
        "1 2 3 4 0 list ",
        "1 2 3 4 0 list 5",
        "1 2 3 4 2",
        "1 2 0 4 0",
        "-3 2 3 4 0",
        "1 -3 3 4 0",
        "1 2 3 -2 0",
        "01 2 3 4 0",
        "-0 2 3 4 0",
        "+1 2 3 4 0",
        " 1 2 3 4 0",
        "1  2 3 4 0",
        "1.0 2 3 4 0",
        "1e3 2 3 4 0",
        "1 2 3 9007199254740993 0",
        "1 2 3 99999999999999999999999999 0",
        "1 2 3 4 0x",
        "nil 2 3 4 0",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_false(mutex_text(wrong[i]));
    }
    assert_false(decoded(as_acquired, "+1 2 3 4 0\r\n"));
    assert_false(decoded(as_acquired, "-1 2 3 4 0\r\n"));
    assert_false(decoded(as_acquired, "$-1\r\n"));
    assert_false(decoded(as_acquired, "*1\r\n:1\r\n"));
}

/* ---- release, renew ---- */

static struct lw__released released;

static bool as_released(const struct lw__reply *reply)
{
    return lw__decode_released(reply, &released);
}

static bool as_dropped(const struct lw__reply *reply)
{
    return lw__decode_fast_released(reply, &released);
}

static bool as_rw_released(const struct lw__reply *reply)
{
    return lw__decode_rw_released(reply, &released);
}

static void test_a_mutex_release_is_two_bits(void **state)
{
    static const char *const wrong[] = {":4\r\n", ":-1\r\n",    "$1\r\n1\r\n",
                                        "+1\r\n", "-ERR x\r\n", "*1\r\n:1\r\n",
                                        "$-1\r\n"};
    char bytes[16];

    (void)state;
    for (int bits = 0; bits < 4; bits++) {
        (void)snprintf(bytes, sizeof(bytes), ":%d\r\n", bits);
        assert_true(decoded(as_released, bytes));
        assert_int_equal(released.released, bits & 1);
        assert_int_equal(released.again, bits >> 1);
        assert_int_equal(released.holds_left, 0);
    }
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_false(decoded(as_released, wrong[i]));
    }
}

static void test_a_drop_is_done_or_to_be_looked_at(void **state)
{
    static const char *const wrong[] = {":2\r\n",  ":-1\r\n",      "$1\r\n1\r\n",
                                        "+OK\r\n", "*1\r\n:1\r\n", "$-1\r\n"};

    (void)state;
    assert_true(decoded(as_dropped, ":1\r\n"));
    assert_true(released.released && !released.again);
    assert_true(decoded(as_dropped, ":0\r\n"));
    assert_true(!released.released && released.again);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_false(decoded(as_dropped, wrong[i]));
    }
}

static void test_a_read_write_release_counts_what_is_left(void **state)
{
    static const char *const wrong[] = {
        ":-1\r\n",    ":9007199254740993\r\n", "$1\r\n1\r\n", "+1\r\n",
        "-ERR x\r\n", "*1\r\n:1\r\n",          "$-1\r\n"};

    (void)state;
    assert_true(decoded(as_rw_released, ":15\r\n"));
    assert_true(released.released);
    assert_true(released.again);
    assert_int_equal(released.holds_left, 3);
    assert_true(decoded(as_rw_released, ":4\r\n"));
    assert_false(released.released);
    assert_false(released.again);
    assert_int_equal(released.holds_left, 1);
    assert_true(decoded(as_rw_released, ":0\r\n"));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_false(decoded(as_rw_released, wrong[i]));
    }
}

/* ---- list ---- */

static struct lw__scan_page page;
static char cursor[32];

static bool as_page(const struct lw__reply *reply)
{
    if (!lw__decode_scan_page(reply, &page)) {
        return false;
    }
    (void)snprintf(cursor, sizeof(cursor), "%s", page.cursor);
    return true;
}

static void test_a_page_has_a_cursor_and_names(void **state)
{
    static const char *const wrong[] = {
        "$-1\r\n",
        ":0\r\n",
        "*2\r\n$1\r\n0\r\n:0\r\n",
        "*3\r\n:0\r\n:0\r\n:0\r\n",
        "*3\r\n+0\r\n:0\r\n:0\r\n",
        "*3\r\n$0\r\n\r\n:0\r\n:0\r\n",
        "*3\r\n$2\r\n07\r\n:0\r\n:0\r\n",
        "*3\r\n$2\r\n-1\r\n:0\r\n:0\r\n",
        "*3\r\n$21\r\n123456789012345678901\r\n:0\r\n:0\r\n",
        "*3\r\n$1\r\n0\r\n:-1\r\n:0\r\n",
        "*3\r\n$1\r\n0\r\n:0\r\n:-2\r\n",
        "*4\r\n$1\r\n0\r\n:0\r\n:0\r\n*1\r\n$1\r\nx\r\n",
        "*4\r\n$1\r\n0\r\n:0\r\n:0\r\n$-1\r\n",
    };

    (void)state;
    assert_true(decoded(as_page, "*5\r\n$20\r\n18446744073709551615\r\n:250\r\n:9000\r\n"
                                 "$1\r\nx\r\n$1\r\ny\r\n"));
    assert_string_equal(cursor, "18446744073709551615");
    assert_int_equal(page.seen, 250);
    assert_int_equal(page.keys, 9000);
    assert_true(decoded(as_page, "*3\r\n$1\r\n0\r\n:0\r\n:-1\r\n"));
    assert_int_equal(page.keys, -1);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_false(decoded(as_page, wrong[i]));
    }
}

static bool renewed[3];

static bool as_renewed(const struct lw__reply *reply)
{
    return lw__decode_renewed(reply, 3, renewed);
}

static bool as_renewed_none(const struct lw__reply *reply)
{
    return lw__decode_renewed(reply, 0, renewed);
}

static void test_a_renewal_answers_for_each(void **state)
{
    (void)state;
    refuses_scalars(as_renewed);
    CHECK(as_renewed, NO_WORD, "1", "0", "1");
    assert_true(array_decoded(as_renewed, 3, (const char *[]){"1", "0", "1"}));
    assert_true(renewed[0] && !renewed[1] && renewed[2]);
    assert_false(array_decoded(as_renewed, 3, (const char *[]){"1", "2", "1"}));
    assert_true(decoded(as_renewed_none, "*0\r\n"));
    assert_true(decoded(as_renewed, ":3\r\n"));
    assert_true(renewed[0] && renewed[1] && renewed[2]);
    assert_false(decoded(as_renewed, ":2\r\n"));
    assert_true(decoded(as_renewed_none, ":0\r\n"));
    assert_false(decoded(as_renewed_none, ":1\r\n"));
    assert_false(decoded(as_renewed_none, "$-1\r\n"));
}

static bool detached;
static struct lw__adopted adopted;
static char adopted_owner[8];

static bool as_detached(const struct lw__reply *reply)
{
    return lw__decode_detached(reply, &detached);
}

static bool as_adopted(const struct lw__reply *reply)
{
    return lw__decode_adopted(reply, false, &adopted);
}

static bool as_adopted_rw(const struct lw__reply *reply)
{
    bool good = lw__decode_adopted(reply, true, &adopted);

    (void)snprintf(adopted_owner, sizeof(adopted_owner), "%s", adopted.owner);
    return good;
}

static void test_a_detach_and_an_adoption(void **state)
{
    static const char *const wrong[] = {":-3\r\n",     "$-1\r\n",
                                        "+OK\r\n",     "*0\r\n",
                                        "$1\r\n1\r\n", ":9007199254740993\r\n"};

    (void)state;
    assert_true(decoded(as_detached, ":1\r\n") && detached);
    assert_true(decoded(as_detached, ":0\r\n") && !detached);
    assert_false(decoded(as_detached, ":2\r\n"));
    assert_false(decoded(as_detached, ":-1\r\n"));
    assert_false(decoded(as_detached, "$-1\r\n"));
    assert_true(decoded(as_adopted, ":0\r\n") && adopted.kind == LW__ADOPTED);
    assert_true(decoded(as_adopted, ":1700000000000000\r\n"));
    assert_true(adopted.fence == 1700000000000000 && *adopted.owner == '\0');
    assert_true(decoded(as_adopted, ":-1\r\n") && adopted.kind == LW__ADOPTED_NOT_HELD);
    assert_true(decoded(as_adopted, ":-2\r\n"));
    assert_int_equal(adopted.kind, LW__ADOPTED_OTHER_KIND);
    assert_true(decoded(as_adopted_rw, ":-1\r\n"));
    assert_int_equal(adopted.kind, LW__ADOPTED_NOT_HELD);
    CHECK(as_adopted_rw, 1, "5", "'anna");
    assert_true(array_decoded(as_adopted_rw, 2, (const char *[]){"5", "'anna"}));
    assert_true(adopted.fence == 5 && strcmp(adopted_owner, "anna") == 0);
    assert_false(array_decoded(as_adopted_rw, 2, (const char *[]){"0", "'anna"}));
    assert_false(decoded(as_adopted_rw, ":5\r\n"));
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_false(decoded(as_adopted, wrong[i]));
        assert_false(decoded(as_adopted_rw, wrong[i]));
    }
}

/* ---- errors ---- */

/* the text that the error must have, without what the server wrapped around it */
static const char *said;

static bool says(const struct lw__reply *reply)
{
    size_t length;
    const char *text = lw__reply_text(reply, &length);

    assert_string_equal(text, said);
    return length == strlen(said);
}

/* The words that Redis 6.2 puts around a command's error are removed; all else stays. */
static void test_an_error_in_a_script_says_what_its_command_said(void **state)
{
#define RUNNING "ERR Error running script (call to f_8c60): "
    static const char *const cases[][2] = {
        {RUNNING "@user_script:9: @user_script: 9: -OOM command not allowed: -X y",
         "OOM command not allowed: -X y"},
        {RUNNING "@user_script:3: -READONLY You can't", "READONLY You can't"},
        {RUNNING "@user_script:3: @user_script: 3: Wrong number of args", NULL},
        {RUNNING "@user_script:3: took: -1 keys", NULL},
        {RUNNING "@user_script:3: took: -OOM", NULL},
        {RUNNING, NULL},
        {"ERR unknown command: -OOM x", NULL},
        {"OOM command not allowed when used memory > 'maxmemory'. script: ab, on "
         "@user_script:9.",
         NULL},
    };
#undef RUNNING
    char bytes[256];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        said = cases[i][cases[i][1] != NULL];
        (void)snprintf(bytes, sizeof(bytes), "-%s\r\n", cases[i][0]);
        assert_true(decoded(says, bytes));
    }
    said = cases[0][0];
    (void)snprintf(bytes, sizeof(bytes), "+%s\r\n", cases[0][0]);
    assert_true(decoded(says, bytes)); /* no error */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_grant_of_redisson_s_has_no_number),
        cmocka_unit_test(test_a_place_in_the_queue),
        cmocka_unit_test(test_a_place_at_the_limits),
        cmocka_unit_test(test_a_stranger_is_named),
        cmocka_unit_test(test_a_deadlock_is_of_read_write_locks_alone),
        cmocka_unit_test(test_a_read_write_grant_is_its_fence),
        cmocka_unit_test(test_no_array_is_no_answer_to_redisson_s),
        cmocka_unit_test(test_a_mutex_s_grant_is_its_number),
        cmocka_unit_test(test_a_mutex_s_refusal_is_a_line),
        cmocka_unit_test(test_who_joins_a_mutex_s_queue_has_the_time_as_ticket),
        cmocka_unit_test(test_a_full_queue_is_a_position_of_minus_two),
        cmocka_unit_test(test_no_other_line_is_a_mutex_s_refusal),
        cmocka_unit_test(test_a_mutex_release_is_two_bits),
        cmocka_unit_test(test_a_drop_is_done_or_to_be_looked_at),
        cmocka_unit_test(test_a_page_has_a_cursor_and_names),
        cmocka_unit_test(test_a_read_write_release_counts_what_is_left),
        cmocka_unit_test(test_a_renewal_answers_for_each),
        cmocka_unit_test(test_a_detach_and_an_adoption),
        cmocka_unit_test(test_an_error_in_a_script_says_what_its_command_said),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

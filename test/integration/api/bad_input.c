/* SPDX-License-Identifier: MIT */
/* Arguments that lw_acquire refuses at the call: names, options, sizes of structs. Each
 * call returns its error, and a text that says what is wrong and where. Independent of
 * the order of the checks.
 *
 * Usual course: a bad argument, LW_EINVAL, the text; nothing is sent, nothing is
 * leaked. */
#include "monitor.h"
#include "players.h"

#include <stdio.h>
#include <string.h>

static struct peer *a;

static void accepted(const char *name)
{
    struct hold *A = acquire_hold(a, "A", name, 0);

    UNTIL(A->result != PENDING);
    if (A->result != LW_OK) {
        stage_fail("\"%s\": %s", name, status_name(A->result));
    }
    assert_string_equal(lw_lock_name(A->lock), name);
    assert_int_equal(redis_int("EXISTS %s", name), 1);
    release_hold(A);
    UNTIL(A->released == LW_OK);
    free_hold(A);
    stage_clear_trace();
}

/* ---- names ---- */

static void name_that_is_NULL_or_empty(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    acquire_refused(a, NULL, NULL, LW_EINVAL, "name is NULL");
    acquire_refused(a, "", NULL, LW_EINVAL, "name is empty");
}

static void name_of_512_bytes_is_the_longest(void **state)
{
    char name[514];

    (void)state;
    a = peer_ready("a", NULL);
    memset(name, 'n', sizeof(name));
    name[513] = '\0';
    acquire_refused(a, name, NULL, LW_EINVAL, "512");
    name[512] = '\0';
    accepted(name);
    name[1] = '\0';
    accepted(name);
}

static void name_with_a_control_byte(void **state)
{
    char name[] = "ab?cd", place[32];

    (void)state;
    a = peer_ready("a", NULL);
    for (int byte = 1; byte < 0x20; byte++) {
        name[2] = (char)byte;
        (void)snprintf(place, sizeof(place), "0x%02x", byte);
        acquire_refused(a, name, NULL, LW_EINVAL, place);
        acquire_refused(a, name, NULL, LW_EINVAL, "position");
    }
    acquire_refused(a, "a\x7f", NULL, LW_EINVAL, "0x7f");
}

static void name_may_have_blanks_quotes_and_any_byte_above_0x7f(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    accepted("job 42: \"quoted\" 'too' \\ %s %d");
    accepted("Z\xc3\xbcrich \xff\xfe");
    accepted("a:b:c");
}

static void name_with_a_stray_brace(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    acquire_refused(a, "}", NULL, LW_EINVAL, "}");
    acquire_refused(a, "ab}", NULL, LW_EINVAL, "}");
    acquire_refused(a, "}{", NULL, LW_EINVAL, "}");
    acquire_refused(a, "a}b{c}", NULL, LW_EINVAL, "}");
    acquire_refused(a, "{a}}", NULL, LW_EINVAL, "}");
    acquire_refused(a, "{a}{b}", NULL, LW_EINVAL, "}");
}

static void name_with_an_empty_tag(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    acquire_refused(a, "{}", NULL, LW_EINVAL, "empty");
    acquire_refused(a, "a{}b", NULL, LW_EINVAL, "empty");
}

static void name_with_a_tag_is_told_apart_from_one_without(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    accepted("{tag}");
    accepted("user{42}name");
    accepted("open{brace");
    struct hold *A = acquire_and_wait(a, "A", "x"), *B = acquire_and_wait(a, "B", "{x}");
    struct peer *b = peer_ready("b", NULL);
    struct hold *C = acquire_hold(b, "C", "{x}", -1);
    UNTIL(redis_int("ZCARD lockwire:2:queue::{x}") == 1);
    release_hold(A);
    EXPECT_SET("A granted; B granted; A released OK");
    stage_expect_nothing(50);
    release_hold(B);
    EXPECT_SET("B released OK; C granted");
    assert_held_by_redis(C);
}

static void name_with_the_library_s_own_prefix(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    acquire_refused(a, "lockwire:fence", NULL, LW_EINVAL, "lockwire:");
    acquire_refused(a, "lockwire:", NULL, LW_EINVAL, "lockwire:");
    accepted("lockwire");
    accepted("my lockwire:");
}

/* ---- options of lw_acquire ---- */

static void refused_option(const struct lw_acquire_options *options, const char *text)
{
    acquire_refused(a, "x", options, LW_EINVAL, text);
}

static void lease_out_of_range(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    refused_option(asking(.lease_ms = 1), "lease_ms 1 ");
    refused_option(asking(.lease_ms = 99), "lease_ms 99 ");
    refused_option(asking(.lease_ms = 1u << 31), "lease_ms 2147483648 ");
    acquire_and_wait(a, "A", "x");
    acquire_hold_with(a, "B", "y", asking(.lease_ms = 2147483647));
    EXPECT("A granted; B granted");
    acquire_hold_with(a, "C", "z", asking(.lease_ms = 100, .flags = LW_NO_RENEW));
    UNTIL(strstr(stage.history, "C ") != NULL);
    stage_clear_trace();
}

static void wait_below_minus_one(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    refused_option(asking(.wait_ms = -2), "wait_ms -2 ");
    refused_option(asking(.wait_ms = INT64_MIN), "wait_ms");
    acquire_hold_with(a, "A", "x", asking(.wait_ms = INT64_MAX));
    EXPECT("A granted");
}

static void at_risk_that_is_none(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    refused_option(asking(.at_risk_ms = 5000),
                   "at_risk_ms 5000 is given without at_risk");
    refused_option(asking(.lease_ms = 1000, .at_risk_ms = 500, .at_risk = on_risk),
                   "at_risk_ms 500 is not below half of lease_ms 1000");
    refused_option(asking(.at_risk_ms = 15000, .at_risk = on_risk),
                   "at_risk_ms 15000 is not below half of lease_ms 30000");
    refused_option(asking(.margin_ms = 300, .at_risk_ms = 300, .at_risk = on_risk),
                   "at_risk_ms 300 is not above margin_ms 300");
    acquire_hold_with(a, "A", "x",
                      asking(.lease_ms = 30001, .margin_ms = 14999, .at_risk_ms = 15000,
                             .at_risk = on_risk));
    EXPECT("A granted");
}

static void margin_of_half_the_lease(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    refused_option(asking(.lease_ms = 1000, .margin_ms = 500), "margin_ms 500 ");
    refused_option(asking(.lease_ms = 1000, .margin_ms = UINT32_MAX), "margin_ms");
    refused_option(asking(.margin_ms = 15000), "30000"); /* half of the default lease */
    acquire_hold_with(a, "A", "x", asking(.lease_ms = 30001, .margin_ms = 15000));
    EXPECT("A granted");
}

static void unknown_flags_and_modes(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    refused_option(asking(.flags = 4), "0x4");
    refused_option(asking(.flags = 0x80000001u), "0x80000001");
    refused_option(asking(.mode = (enum lw_mode)4), "mode 4");
    refused_option(asking(.mode = (enum lw_mode) - 1), "mode");
}

static void max_hold_out_of_range(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    refused_option(asking(.max_hold_ms = 500, .margin_ms = 500), "max_hold_ms 500");
    refused_option(asking(.max_hold_ms = -1), "max_hold_ms -1 ");
}

static void max_waiting_out_of_range(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    refused_option(asking(.wait_ms = -1, .max_waiting = 1u << 31),
                   "max_waiting 2147483648 is above 2147483647");
    refused_option(asking(.wait_ms = -1, .max_waiting = UINT32_MAX), "4294967295");
    refused_option(asking(.mode = LW_REDISSON, .wait_ms = -1, .max_waiting = 3),
                   "max_waiting 3 is given, but LW_REDISSON has no queue");
    acquire_hold_with(a, "A", "x", asking(.wait_ms = -1, .max_waiting = INT32_MAX));
    EXPECT("A granted");
}

static void owner_and_permits_out_of_place(void **state)
{
    char owner[130];

    (void)state;
    a = peer_ready("a", NULL);
    refused_option(asking(.owner = "me"), "owner");
    refused_option(asking(.mode = LW_REDISSON, .owner = "me"),
                   "LW_REDISSON is not re-entrant; LW_EXCLUSIVE is");
    refused_option(asking(.permits = 2), "permits");
    refused_option(asking(.mode = LW_EXCLUSIVE, .permits = 2), "permits");
    refused_option(asking(.mode = LW_EXCLUSIVE, .owner = ""), "owner");
    refused_option(asking(.mode = LW_EXCLUSIVE, .owner = "a b"), "owner");
    refused_option(asking(.mode = LW_SHARED, .owner = "a\n"), "owner");
    memset(owner, 'o', sizeof(owner));
    owner[129] = '\0';
    refused_option(asking(.mode = LW_SHARED, .owner = owner), "owner");
}

/* ---- sizes of structs ---- */

static void on_plain(struct lw_lock *lock, int status, void *arg)
{
    (void)lock, (void)arg;
    stage_note("plain %s", status_name(status));
}

/* Calls lw_acquire directly, since players.h copies the options. */
static int acquire_plainly(const struct lw_acquire_options *options,
                           struct lw_lock **lock)
{
    *lock = NULL;
    a->error[0] = '\0';
    return lw_acquire(a->client, "x", options, on_plain, NULL, lock);
}

static void acquire_options_of_another_size(void **state)
{
    struct {
        struct lw_acquire_options options;
        char tail[32];
    } larger = {.options = {.size = sizeof(larger)}};
    struct lw_lock *lock;

    (void)state;
    a = peer_ready("a", NULL);
    assert_int_equal(acquire_plainly(&larger.options, &lock), LW_OK);
    EXPECT("plain OK");
    lw_lock_free(lock);
    larger.tail[31] = 1;
    assert_int_equal(acquire_plainly(&larger.options, &lock), LW_EINVAL);
    assert_non_null(strstr(a->error, "size"));
    larger.options.size = 0;
    assert_int_equal(acquire_plainly(&larger.options, &lock), LW_EINVAL);
    larger.options.size = sizeof(size_t) - 1;
    assert_int_equal(acquire_plainly(&larger.options, &lock), LW_EINVAL);
    assert_non_null(strstr(a->error, "size"));
    assert_null(lock);
}

static void smaller_acquire_options_default_the_rest(void **state)
{
    struct lw_acquire_options smaller = {
        .size = offsetof(struct lw_acquire_options, margin_ms),
        .lease_ms = 20000,
        .margin_ms = 19000};

    (void)state;
    a = peer_ready("a", NULL);
    acquire_hold_with(a, "A", "x", &smaller);
    EXPECT("A granted");
    assert_int_in_range(redis_int("PTTL x"), 10000, 20000);
}

static void done_and_ret_are_needed(void **state)
{
    struct lw_lock *lock = NULL;

    (void)state;
    a = peer_ready("a", NULL);
    assert_int_equal(lw_acquire(a->client, "x", NULL, NULL, NULL, &lock), LW_EINVAL);
    assert_non_null(strstr(a->error, "done"));
    assert_null(lock);
    assert_int_equal(lw_acquire(a->client, "x", NULL, on_plain, NULL, NULL), LW_EINVAL);
    assert_non_null(strstr(a->error, "ret"));
}

static void no_options_are_the_defaults(void **state)
{
    struct lw_lock *lock;

    (void)state;
    a = peer_ready("a", NULL);
    assert_int_equal(acquire_plainly(NULL, &lock), LW_OK);
    EXPECT("plain OK");
    assert_int_in_range(redis_int("PTTL x"), 20000, 30000);
    lw_lock_free(lock);
}

static void a_cap_beyond_all_time_is_none(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.max_hold_ms = INT64_MAX));
    struct hold *B =
        acquire_hold_with(a, "B", "x", asking(.wait_ms = INT64_MAX, .lease_ms = 20000));
    EXPECT("A granted");
    assert_int_in_range(lw_lock_remaining_ms(A->lock), 20000, 30000);
    wait_queued("x", 1);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_held_by_redis(B);
}

static void refused_calls_send_nothing(void **state)
{
    (void)state;
    a = peer_ready("a", NULL);
    monitor_start();
    acquire_refused(a, "", NULL, LW_EINVAL, "name");
    acquire_refused(a, "x", asking(.lease_ms = 1), LW_EINVAL, "lease");
    stage_expect_nothing(100);
    assert_int_equal(monitor_count(""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(name_that_is_NULL_or_empty),
        STAGE_TEST(name_of_512_bytes_is_the_longest),
        STAGE_TEST(name_with_a_control_byte),
        STAGE_TEST(name_may_have_blanks_quotes_and_any_byte_above_0x7f),
        STAGE_TEST(name_with_a_stray_brace),
        STAGE_TEST(name_with_an_empty_tag),
        STAGE_TEST(name_with_a_tag_is_told_apart_from_one_without),
        STAGE_TEST(name_with_the_library_s_own_prefix),
        STAGE_TEST(lease_out_of_range),
        STAGE_TEST(wait_below_minus_one),
        STAGE_TEST(margin_of_half_the_lease),
        STAGE_TEST(at_risk_that_is_none),
        STAGE_TEST(unknown_flags_and_modes),
        STAGE_TEST(max_hold_out_of_range),
        STAGE_TEST(max_waiting_out_of_range),
        STAGE_TEST(owner_and_permits_out_of_place),
        STAGE_TEST(acquire_options_of_another_size),
        STAGE_TEST(smaller_acquire_options_default_the_rest),
        STAGE_TEST(done_and_ret_are_needed),
        STAGE_TEST(no_options_are_the_defaults),
        STAGE_TEST(a_cap_beyond_all_time_is_none),
        STAGE_TEST(refused_calls_send_nothing),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/*
 * cmocka's asserts for tests with the stage: they fail with stage_fail(), which repeats a
 * test whose loop stood still. Included by stage.h, so that a file with the stage has no
 * others. Those that are undefined here are cmocka's own that no test needs.
 */
#ifndef TEST_ASSERTS_H
#define TEST_ASSERTS_H
#include "range.h"

#include <stdbool.h>
#include <string.h>

#undef assert_true
#undef assert_false
#undef assert_null
#undef assert_non_null
#undef assert_ptr_equal
#undef assert_ptr_not_equal
#undef assert_memory_equal
#undef assert_memory_not_equal
#undef assert_int_equal
#undef assert_int_not_equal
#undef assert_string_equal
#undef assert_string_not_equal
#undef assert_in_range
#undef assert_int_in_range
#undef assert_not_in_range
#undef assert_in_set
#undef assert_not_in_set
#undef assert_float_equal
#undef assert_float_not_equal
#undef assert_return_code
#undef fail
#undef fail_msg

#define assert_true(condition)                                                           \
    ((condition) ? (void)0 : fail_msg("not true: %s", #condition))
#define assert_false(condition)                                                          \
    ((condition) ? fail_msg("not false: %s", #condition) : (void)0)
#define assert_non_null(pointer)                                                         \
    ((pointer) != NULL ? (void)0 : fail_msg("null: %s", #pointer))
#define assert_null(pointer)                                                             \
    ((pointer) == NULL ? (void)0 : fail_msg("not null: %s", #pointer))
#define assert_ptr_equal(a, b)                                                           \
    ((a) == (b) ? (void)0 : fail_msg("not the same: %s, %s", #a, #b))
#define assert_memory_equal(a, b, size)                                                  \
    (memcmp(a, b, size) == 0 ? (void)0 : fail_msg("not the same: %s, %s", #a, #b))
#define assert_int_equal(a, b)                                                           \
    stage_assert_numbers((intmax_t)(a), (intmax_t)(b), true, #a, __FILE__, __LINE__)
#define assert_int_not_equal(a, b)                                                       \
    stage_assert_numbers((intmax_t)(a), (intmax_t)(b), false, #a, __FILE__, __LINE__)
#define assert_string_equal(a, b) stage_assert_strings(a, b, true, #a, __FILE__, __LINE__)
#define assert_string_not_equal(a, b)                                                    \
    stage_assert_strings(a, b, false, #a, __FILE__, __LINE__)
#define assert_int_in_range(value, least, most)                                          \
    stage_assert_range((intmax_t)(value), (intmax_t)(least), (intmax_t)(most), #value,   \
                       __FILE__, __LINE__)
#define assert_in_range(value, least, most) assert_int_in_range(value, least, most)
#define fail_msg(...) stage_fail_at(__FILE__, __LINE__, __VA_ARGS__)

_Noreturn void stage_fail_at(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* `text` is the expression whose value is `a`. */
void stage_assert_numbers(intmax_t a, intmax_t b, bool equal, const char *text,
                          const char *file, int line);
void stage_assert_strings(const char *a, const char *b, bool equal, const char *text,
                          const char *file, int line);
void stage_assert_range(intmax_t value, intmax_t least, intmax_t most, const char *text,
                        const char *file, int line);

#endif

/* SPDX-License-Identifier: MIT */
/* cmocka's check of a range by the name that version 2 has for it; before, there was one
 * for unsigned numbers alone, which does for bounds that are not negative. */
#ifndef TEST_RANGE_H
#define TEST_RANGE_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#ifndef assert_int_in_range
#define assert_int_in_range(value, minimum, maximum)                                     \
    assert_in_range(value, minimum, maximum)
#endif

#endif

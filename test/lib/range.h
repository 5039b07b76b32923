/* SPDX-License-Identifier: MIT */
/* cmocka's check of a range under the name that it has in version 2. Earlier versions
 * have only one for unsigned numbers, which suffices for bounds that are not negative. */
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

/* SPDX-License-Identifier: MIT */
/*
 * Numeric addresses: which texts are valid, the longest one, and zones by name and by
 * number. Each valid text is parsed, and comes back unchanged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/address.h"

#include <string.h>

static void test_addresses_of_both_families(void **state)
{
    static const char *const good[] = {
        "127.0.0.1",
        "255.255.255.255",
        "::1",
        "2001:db8::7",
        "fe80::1%lo",
        "fe80::1%1",
        "::ffff:10.0.0.1",
        "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255",
        "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255%interfaceof15ch", /* the longest */
    };
    struct lw__address address;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        assert_true(lw__address_parse(good[i], &address));
        assert_string_equal(address.text, good[i]);
    }
}

static void test_what_is_no_address(void **state)
{
    static const char *const bad[] = {
        "name",
        "",
        "1.2.3",
        "1.2.3.4%lo",
        "::1::2",
        "%lo",
        "fe80::1%interfaceof16chr",
        "1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19:20:21:22",
        "fe80::1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19%eth0",
    };
    struct lw__address address = {"untouched"};

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_false(lw__address_parse(bad[i], &address));
    }
    assert_string_equal(address.text, "untouched");
}

/* The loopback interface is known by its name and, on every Linux, as number 1. */
static void test_zones_become_numbers(void **state)
{
    static const char *const pairs[][2] = {
        {"::1%lo", "::1%1"},      {"::1%1", "::1%1"},
        {"::1%nowhere", "::1%0"}, {"::1", "::1"},
        {"10.0.0.1", "10.0.0.1"}, {"fe80::1%4294967295", "fe80::1%4294967295"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        struct lw__address address;
        assert_true(lw__address_parse(pairs[i][0], &address));
        lw__address_number_zone(&address);
        assert_string_equal(address.text, pairs[i][1]);
    }
}

static void test_a_list_has_each_once_and_an_end(void **state)
{
    struct lw__addresses list = {0};
    struct lw__address address = {"10.0.0.x"};

    (void)state;
    for (int i = 0; i < 2 * LW__ADDRESSES; i++) {
        address.text[7] = (char)('0' + i / 2);
        lw__address_add(&list, &address);
        lw__address_add(&list, &address);
    }
    assert_int_equal(list.count, LW__ADDRESSES);
    assert_string_equal(list.list[LW__ADDRESSES - 1].text, "10.0.0.7");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses_of_both_families),
        cmocka_unit_test(test_what_is_no_address),
        cmocka_unit_test(test_zones_become_numbers),
        cmocka_unit_test(test_a_list_has_each_once_and_an_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

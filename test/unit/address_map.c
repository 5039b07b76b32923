/* SPDX-License-Identifier: MIT */
/*
 * The address map: which pairs are accepted, which endpoints they replace, and how
 * invalid maps are refused. Usual course: a map is parsed, and each endpoint is replaced
 * once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lockwire.h"
#include "redis/address_map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct lw__address_map *parsed(const char *text)
{
    struct lw__address_map *map = NULL;
    char why[512] = "";

    if (lw__address_map_parse(text, &map, why, sizeof(why)) != 0) {
        fail_msg("%s: %s", text, why);
    }
    return map;
}

static void assert_mapped(const struct lw__address_map *map, const char *host, int port,
                          const char *to_host, int to_port)
{
    struct lw__endpoint endpoint = {.port = (uint16_t)port};

    (void)snprintf(endpoint.host, sizeof(endpoint.host), "%s", host);
    assert_int_equal(lw__address_map_apply(map, &endpoint),
                     strcmp(host, to_host) != 0 || port != to_port);
    assert_string_equal(endpoint.host, to_host);
    assert_int_equal(endpoint.port, to_port);
}

static void test_endpoints_and_whole_hosts(void **state)
{
    struct lw__address_map *map =
        parsed("10.0.0.1=192.0.2.1,10.0.0.1:6379=127.0.0.1:7001,Redis-2.example:1=h:2,"
               "redis-2.example:3=h:4,[fd00:0:0::3]=redis-3,[fd00::4]:5=[::1]:6");

    (void)state;
    assert_mapped(map, "10.0.0.1", 6379, "127.0.0.1", 7001); /* before the whole host */
    assert_mapped(map, "10.0.0.1", 6380, "192.0.2.1", 6380);
    assert_mapped(map, "10.0.0.10", 6379, "10.0.0.10", 6379);
    assert_mapped(map, "REDIS-2.EXAMPLE", 1, "h", 2);
    assert_mapped(map, "redis-2.example", 3, "h", 4);
    assert_mapped(map, "redis-2.example", 2, "redis-2.example", 2);
    assert_mapped(map, "fd00::3", 9, "redis-3", 9);
    assert_mapped(map, "FD00:0::0:3", 9, "redis-3", 9);
    assert_mapped(map, "fd00::4", 5, "::1", 6);
    assert_mapped(map, "192.0.2.1", 6380, "192.0.2.1", 6380);
    lw__address_map_free(map);
    assert_mapped(NULL, "10.0.0.1", 6379, "10.0.0.1", 6379);
}

/* The same address on both sides, with different ports, is neither a chain nor a loop. */
static void test_ports_of_one_host(void **state)
{
    struct lw__address_map *map =
        parsed("127.0.0.1:1=127.0.0.1:11,127.0.0.1:2=127.0.0.1:12");

    (void)state;
    assert_mapped(map, "127.0.0.1", 1, "127.0.0.1", 11);
    assert_mapped(map, "127.0.0.1", 2, "127.0.0.1", 12);
    assert_mapped(map, "127.0.0.1", 11, "127.0.0.1", 11);
    lw__address_map_free(map);
}

static void test_notes(void **state)
{
    struct lw__address_map *map = parsed("[fd00::4]:5=127.0.0.1:7001");
    struct lw__endpoint mapped = {"fd00::4", 5}, other = {"fd00::4", 6};
    char note[LW__ADDRESS_MAP_NOTE_SIZE];

    (void)state;
    lw__address_map_note_target(map, &mapped, note);
    assert_string_equal(note, " (mapped to 127.0.0.1:7001)");
    lw__address_map_note_origin(map, &mapped, note);
    assert_string_equal(note, " (mapped from [fd00::4]:5)");
    lw__address_map_note_target(map, &other, note);
    assert_string_equal(note, "");
    lw__address_map_note_origin(NULL, &mapped, note);
    assert_string_equal(note, "");
    lw__address_map_free(map);
}

static const char *const bad_maps[][2] = {
    {"", "address_map: pair 1 \"\": it is empty"},
    {"a:1=b:1,", "address_map: pair 2 \"\": it is empty"},
    {"a", "address_map: pair 1 \"a\": the \"=\" is missing"},
    {"a:1=b:1,c:1", "address_map: pair 2 \"c:1\": the \"=\" is missing"},
    {"=b", "pair 1 \"=b\": left of the \"=\": the host is missing"},
    {"a=", "pair 1 \"a=\": right of the \"=\": the host is missing"},
    {"a:0=b:1", "left of the \"=\": port \"0\" is not between 1 and 65535"},
    {"a:1=b:65536", "right of the \"=\": port \"65536\" is not between 1 and 65535"},
    {"a:1=b:1, c:1=d:1",
     "pair 2 \" c:1=d:1\": left of the \"=\": byte 0x20 at position 1"},
    {"a=b=c", "right of the \"=\": byte 0x3d at position 2 of host \"b=c\""},
    {"fd00::1=b", "left of the \"=\": port \":1\" is not between"},
    {"[fd00::x]=b", "left of the \"=\": host \"[fd00::x]\" is not an IPv6 address"},
    {"a\n=b", "pair 1 \"a\\x0a=b\": left of the \"=\": byte 0x0a"},
    {"a:1=b", "pair 1 \"a:1=b\": only one side has a port"},
    {"a=b:1", "pair 1 \"a=b:1\": only one side has a port"},
    {"a:1=b:1,A:1=c:1", "pair 2 \"A:1=c:1\": the left side is also that of pair 1"},
    {"a=b,c=d,a=e", "pair 3 \"a=e\": the left side is also that of pair 1"},
    {"[::1]:1=b:1,[0:0::1]:1=c:1",
     "pair 2 \"[::1]:1=c:1\": the left side is also that of "},
    {"a:1=a:1",
     "pair 1 \"a:1=a:1\": the right side is the left side of this pair itself"},
    {"a=A", "the right side is the left side of this pair itself"},
    {"a:1=b:1,b:1=a:1", "pair 1 \"a:1=b:1\": the right side is the left side of pair 2"},
    {"a:1=b:1,b:1=c:1", "pair 1 \"a:1=b:1\": the right side is the left side of pair 2"},
    {"b=c,a:1=b:1", "pair 2 \"a:1=b:1\": the right side is the left side of pair 1"},
    {"b:9=c:9,a=b", "pair 2 \"a=b\": the right side is the left side of pair 1"},
};

static void test_bad_maps_are_explained(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad_maps) / sizeof(*bad_maps); i++) {
        struct lw__address_map *map = NULL;
        char why[512] = "";

        assert_int_equal(lw__address_map_parse(bad_maps[i][0], &map, why, sizeof(why)),
                         LW_EINVAL);
        assert_null(map);
        if (strstr(why, bad_maps[i][1]) == NULL) {
            fail_msg("%s: \"%s\" does not contain \"%s\"", bad_maps[i][0], why,
                     bad_maps[i][1]);
        }
    }
}

static void test_the_most_pairs(void **state)
{
    char *text = calloc(1026, 24), why[512] = "";
    struct lw__address_map *map;
    size_t length = 0;

    (void)state;
    for (int i = 0; i < 1024; i++) {
        length += (size_t)sprintf(text + length, "%sa%d=b%d", i > 0 ? "," : "", i, i);
    }
    map = parsed(text);
    assert_mapped(map, "a1023", 1, "b1023", 1);
    lw__address_map_free(map);
    (void)strcpy(text + length, ",c=d");
    assert_int_equal(lw__address_map_parse(text, &map, why, sizeof(why)), LW_EINVAL);
    assert_string_equal(why, "address_map: more than 1024 pairs");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endpoints_and_whole_hosts),
        cmocka_unit_test(test_ports_of_one_host),
        cmocka_unit_test(test_notes),
        cmocka_unit_test(test_bad_maps_are_explained),
        cmocka_unit_test(test_the_most_pairs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

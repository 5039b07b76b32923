/* SPDX-License-Identifier: MIT */
/*
 * The slot of a key, and that keys made for a slot, or for a name, are in that slot. Uses
 * slot.h, and format.h for the keys.
 *
 * The slots are those that servers reply to CLUSTER KEYSLOT. Usual course: a key, its
 * slot.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/buffer.h"
#include "base/check.h"
#include "redis/format.h"
#include "redis/slot.h"

#include <stdlib.h>
#include <string.h>

static unsigned slot_of(const char *key)
{
    return lw__slot_of(key, strlen(key));
}

static void test_a_key_and_its_slot(void **state)
{
    static const struct {
        const char *key;
        unsigned slot;
    } cases[] = {
        {"123456789", 0x31c3}, /* the check value of CRC16/XMODEM */
        {"", 0},
        {"a", 15495},
        {"foo", 12182},
        {"bar", 5061},
        {"lockwire:fence", 8757},
        {"\xc3\xbc\xff\x80", 12689},
        /* a tag, from the first { to the first } after it */
        {"user1000", 3443},
        {"{user1000}.following", 3443},
        {"{user1000}.followers", 3443},
        {"foo{bar}{zap}", 5061},
        {"}foo{bar}", 5061},
        {"foo{{bar}}zap", 4015},
        {"{ }", 9314},
        /* no tag */
        {"foo{}{bar}", 8363},
        {"{}foo", 9500},
        {"{}", 15257},
        {"foo{bar", 15278},
        {"foo}bar{", 11073},
        {"foo}bar", 7223},
        {"{", 4092},
        {"}", 12090},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        if (slot_of(cases[i].key) != cases[i].slot) {
            fail_msg("\"%s\" is in %u", cases[i].key, slot_of(cases[i].key));
        }
    }
    assert_int_equal(lw__slot_of("a\0b", 3), 8383);
}

/* The key has memory of its own, so that reading beyond its end is noticed. */
static void test_no_more_than_the_key_is_read(void **state)
{
    static const char whole[] = "foo{bar}";

    (void)state;
    for (size_t length = 0; length < sizeof(whole); length++) {
        char *key = malloc(length + 1);

        assert_non_null(key);
        memcpy(key + 1, whole, length);
        assert_int_equal(lw__slot_of(key + 1, length),
                         length < 8 ? lw__slot_of(whole, length) : 5061);
        free(key);
    }
}

static void test_each_tag_leads_to_its_slot(void **state)
{
    static const char legal[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "abcdefghijklmnopqrstuvwxyz";
    char tag[LW__SLOT_TAG_SIZE], key[LW__FENCE_SIZE];

    (void)state;
    for (unsigned slot = 0; slot < LW__SLOTS; slot++) {
        size_t length = lw__slot_tag(slot, tag);

        assert_true(length >= 1 && length < sizeof(tag));
        assert_int_equal(strlen(tag), length);
        assert_int_equal(strspn(tag, legal), length);
        assert_int_equal(slot_of(tag), slot);
        length = lw__format_fence("", (int)slot, key);
        assert_int_equal(strlen(key), length);
        assert_int_equal(slot_of(key), slot);
    }
}

/* Clients of two versions use one counter: no tag may ever change. */
static void test_the_tags_are_those_of_all_versions(void **state)
{
    static const struct {
        unsigned slot;
        const char *key;
    } cases[] = {
        {0, "lockwire:fence:{06S}"},     {1, "lockwire:fence:{Qi}"},
        {12739, "lockwire:fence:{74C}"}, {15495, "lockwire:fence:{a}"},
        {16383, "lockwire:fence:{6ZJ}"},
    };
    uint64_t hash = 14695981039346656037U; /* FNV-1a of all tags, each with its NUL */
    char tag[LW__SLOT_TAG_SIZE], key[LW__FENCE_SIZE];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        lw__format_fence("", (int)cases[i].slot, key);
        assert_string_equal(key, cases[i].key);
    }
    for (unsigned slot = 0; slot < LW__SLOTS; slot++) {
        size_t length = lw__slot_tag(slot, tag) + 1;

        for (size_t i = 0; i < length; i++) {
            hash = (hash ^ (unsigned char)tag[i]) * 1099511628211U;
        }
    }
    assert_true(hash == 15372660980082285317U);
}

/* Returns the slot of a key that was encoded as this word. */
static unsigned slot_of_word(const struct lw__buffer *word)
{
    const char *key = memchr(word->data, '\n', word->length);

    assert_false(word->failed);
    assert_non_null(key);
    key++;
    return lw__slot_of(key, (size_t)(word->data + word->length - key) - 2);
}

static void test_a_queue_is_where_its_name_is(void **state)
{
    static const char *const names[] = {
        "job", "{job}", "a{job}b", "a{job}{b", "a{{job}",
        "a{b", "{",     "{{",      "a b",      "\xc3\xbc",
    };
    char why[160];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        for (int rw = 0; rw < 2; rw++) {
            struct lw__buffer word = {0};

            assert_null(lw__check_name(names[i], why, sizeof(why)));
            lw__format_put_queue(&word, "", names[i], rw);
            if (slot_of_word(&word) != slot_of(names[i])) {
                fail_msg("\"%s\"", names[i]);
            }
            lw__buffer_clear(&word);
        }
    }
}

/* The name's tag decides, or that of the prefix, or the whole key. */
static void test_with_a_prefix_a_queue_is_where_its_name_is(void **state)
{
    static const char *const prefixes[] = {"team:", "{team}:", "{", "a{team}b"};
    static const char *const names[] = {"job", "{job}", "a{job}b", "a{b", "a b"};
    char why[160], key[LW__NAME_SIZE], fence[LW__FENCE_SIZE];

    (void)state;
    for (size_t i = 0; i < 4 * 5; i++) {
        const char *prefix = prefixes[i / 5], *name = names[i % 5];
        struct lw__buffer word = {0};

        if (i / 5 == 2) { /* a lone brace */
            assert_non_null(lw__check_prefix(prefix, why, sizeof(why)));
            continue;
        }
        assert_null(lw__check_prefix(prefix, why, sizeof(why)));
        if (lw__format_has_tag(prefix) && strchr(name, '}') != NULL) {
            assert_non_null(lw__check_key(prefix, name, why, sizeof(why)));
            continue;
        }
        assert_null(lw__check_key(prefix, name, why, sizeof(why)));
        (void)lw__format_name(prefix, name, key);
        lw__format_put_queue(&word, prefix, key, false);
        assert_int_equal(slot_of_word(&word), slot_of(key));
        lw__format_fence(prefix, (int)slot_of(key), fence);
        assert_int_equal(slot_of(fence), slot_of(key));
        lw__buffer_clear(&word);
    }
}

static void test_a_prefix_with_a_tag_has_one_counter(void **state)
{
    char key[LW__FENCE_SIZE], channel[LW__CHANNEL_OF_OURS_SIZE];
    unsigned slot = slot_of("team");

    (void)state;
    lw__format_fence("{team}:", (int)slot, key);
    assert_string_equal(key, "{team}:lockwire:fence");
    lw__format_fence("{team}:", LW__NO_SLOT, key);
    assert_string_equal(key, "{team}:lockwire:fence");
    lw__format_channel("{team}:", "uuid", (int)slot, channel);
    assert_int_equal(slot_of(channel), slot);
}

static void test_prefixes_that_are_refused(void **state)
{
    static const char *const refused[] = {
        "",
        "lockwire:",
        "lockwire:2:",
        "a b",
        "team*",
        "[team]",
        "te\"am",
        "te\\am",
        "\n",
        "\xc3\xbc",
        "}",
        "{",
        "{}:",
        "{a}{b}",
        "a}b{c",
        "{a}}",
        "12345678901234567890123456789012345678901234567890123456789012345",
    };
    char why[160];

    (void)state;
    for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++) {
        if (lw__check_prefix(refused[i], why, sizeof(why)) == NULL) {
            fail_msg("\"%s\"", refused[i]);
        }
    }
    /* together they would be a key of another client's */
    assert_null(lw__check_prefix("lock", why, sizeof(why)));
    assert_non_null(lw__check_key("lock", "wire:fence", why, sizeof(why)));
    assert_non_null(lw__check_key("team:", "lockwire:fence", why, sizeof(why)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_key_and_its_slot),
        cmocka_unit_test(test_no_more_than_the_key_is_read),
        cmocka_unit_test(test_each_tag_leads_to_its_slot),
        cmocka_unit_test(test_the_tags_are_those_of_all_versions),
        cmocka_unit_test(test_a_queue_is_where_its_name_is),
        cmocka_unit_test(test_with_a_prefix_a_queue_is_where_its_name_is),
        cmocka_unit_test(test_a_prefix_with_a_tag_has_one_counter),
        cmocka_unit_test(test_prefixes_that_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

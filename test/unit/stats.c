/* SPDX-License-Identifier: MIT */
/*
 * Statistics as Prometheus' text: its form, line by line, its values, lack of room, what
 * is refused. Depends on the public header alone.
 *
 * Usual course: a text is made, read by a strict parser, and searched for single samples.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lockwire.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 200

static struct sample {
    char name[200], value[40]; /* the name includes the labels */
} samples[SAMPLES];
static size_t sample_count;
static char text[32768];

/* ---- a parser of the text format, as strict as the format allows ---- */

static const char *value_of(const char *name)
{
    for (size_t i = 0; i < sample_count; i++) {
        if (strcmp(samples[i].name, name) == 0) {
            return samples[i].value;
        }
    }
    return NULL;
}

static void assert_value(const char *name, const char *value)
{
    const char *found = value_of(name);

    if (found == NULL) {
        fail_msg("%s is not there", name);
    }
    assert_string_equal(found, value);
}

static bool is_number(const char *value)
{
    size_t whole = strspn(value, "0123456789"), decimals;

    if (whole == 0 || value[whole] == '\0') {
        return whole > 0;
    }
    decimals = strspn(value + whole + 1, "0123456789");
    return value[whole] == '.' && (decimals == 3 || decimals == 6) &&
           value[whole + 1 + decimals] == '\0';
}

/* Reads a sample of the family `name`, right after its head. */
static void read_sample(const char *line, const char *name, const char *type)
{
    static const char *const parts[] = {"_bucket", "_sum", "_count"};
    const char *space = strrchr(line, ' ');
    size_t length = strcspn(line, "{ "), family = strlen(name);
    bool histogram = strcmp(type, "histogram") == 0, known = !histogram;
    struct sample *sample = &samples[sample_count];

    assert_non_null(space);
    assert_memory_equal(line, name, family);
    for (size_t i = 0; histogram && i < sizeof(parts) / sizeof(*parts); i++) {
        known = known || (length == family + strlen(parts[i]) &&
                          memcmp(line + family, parts[i], strlen(parts[i])) == 0);
    }
    assert_true(known && (histogram || length == family));
    assert_true(line[length] == ' ' ? line + length == space : space[-1] == '}');
    assert_true(sample_count < SAMPLES);
    (void)snprintf(sample->name, sizeof(sample->name), "%.*s", (int)(space - line), line);
    (void)snprintf(sample->value, sizeof(sample->value), "%s", space + 1);
    assert_true(is_number(sample->value));
    assert_null(value_of(sample->name)); /* not twice */
    sample_count++;
}

/* Reads HELP, TYPE and samples; each family may come once. */
static void read_text(void)
{
    static char copy[sizeof(text)], families[4000];
    char name[100] = "", helped[100] = "", type[20] = "";
    char *rest = NULL;

    memcpy(copy, text, sizeof(copy));
    sample_count = 0;
    families[0] = '\0';
    assert_true(*text == '\0' || text[strlen(text) - 1] == '\n');
    assert_null(strstr(text, "\n\n"));
    for (char *line = strtok_r(copy, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char key[102];

        if (sscanf(line, "# HELP %99s %*[A-Z]", helped) == 1) {
            *type = '\0';
        } else if (sscanf(line, "# TYPE %99s %19s", name, type) == 2) {
            assert_string_equal(name, helped);
            (void)snprintf(key, sizeof(key), " %s ", name);
            assert_null(strstr(families, key));
            assert_true(strlen(families) + strlen(key) < sizeof(families));
            (void)snprintf(families + strlen(families), sizeof(key), "%s", key);
            assert_int_equal(strncmp(name, "lockwire_", 9), 0);
            assert_int_equal(strcmp(type, "counter") == 0,
                             strcmp(name + strlen(name) - 6, "_total") == 0);
        } else {
            assert_true(*type != '\0' && *line != '#');
            read_sample(line, name, type);
        }
    }
}

static void make(const struct lw_stats *const *stats, const char *const *labels,
                 size_t count)
{
    int length = lw_stats_prometheus(stats, labels, count, text, sizeof(text));

    assert_in_range(length, 0, sizeof(text) - 1);
    assert_int_equal(strlen(text), length);
    read_text();
}

#define FIRST offsetof(struct lw_stats, held) /* padding may precede it */

/* Gives each field a number of its own: field i, after the size, is 1000 + i. */
static struct lw_stats distinct(void)
{
    struct lw_stats stats = LW_STATS_INIT;
    uint64_t value = 1000;

    for (size_t at = FIRST; at < sizeof(stats); at += sizeof(value)) {
        memcpy((char *)&stats + at, &value, sizeof(value));
        value++;
    }
    return stats;
}

/* ---- the values ---- */

static void test_every_field_is_there(void **state)
{
    struct lw_stats stats = distinct();
    const struct lw_stats *one = &stats;
    size_t first = offsetof(struct lw_stats, wait_us);
    size_t last = offsetof(struct lw_stats, wait_histogram) +
                  sizeof(stats.wait_histogram);

    (void)state;
    make(&one, NULL, 1);
    for (size_t at = FIRST; at < sizeof(stats); at += sizeof(uint64_t)) {
        char value[40];
        uint64_t number;
        size_t found = 0;

        memcpy(&number, (char *)&stats + at, sizeof(number));
        if (at == offsetof(struct lw_stats, guard_left_ms) ||
            at == offsetof(struct lw_stats, server_guard_ms)) { /* in seconds */
            (void)snprintf(value, sizeof(value), "%" PRIu64 ".%03" PRIu64, number / 1000,
                           number % 1000);
        } else {
            (void)snprintf(value, sizeof(value), "%" PRIu64, number);
        }
        for (size_t i = 0; i < sample_count; i++) {
            found += strcmp(samples[i].value, value) == 0 &&
                     strncmp(samples[i].name, "lockwire_wait_s", 15) != 0;
        }
        assert_int_equal(found, (at >= first && at < last) ||
                                        at == offsetof(struct lw_stats, degraded)
                                    ? 0
                                    : 1);
    }
    assert_value("lockwire_held", "1000");
    assert_value("lockwire_lost_total{reason=\"deadline\"}", "1007");
    assert_value("lockwire_lost_total{reason=\"taken\"}", "1008");
    assert_value("lockwire_lost_total{reason=\"max_hold\"}", "1009");
}

static void test_what_is_lacking(void **state)
{
    struct lw_stats stats = LW_STATS_INIT;
    const struct lw_stats *one = &stats;

    (void)state;
    stats.degraded = LW_DEGRADED_PUBLISH | LW_DEGRADED_SENTINEL;
    make(&one, NULL, 1);
    assert_value("lockwire_degraded{capability=\"publish\"}", "1");
    assert_value("lockwire_degraded{capability=\"subscribe\"}", "0");
    assert_value("lockwire_degraded{capability=\"sentinel\"}", "1");
}

static void test_the_histogram(void **state)
{
    static const char *const bounds[LW_WAIT_BUCKETS] = {
        "0.001", "0.002", "0.004", "0.008", "0.016", "0.032", "0.064",  "0.128",
        "0.256", "0.512", "1.024", "2.048", "4.096", "8.192", "16.384", "+Inf"};
    struct lw_stats stats = LW_STATS_INIT;
    const struct lw_stats *one = &stats;

    (void)state;
    stats.wait_us = 61000007;
    for (size_t i = 0; i < LW_WAIT_BUCKETS; i++) {
        stats.wait_histogram[i] = i + 1;
    }
    make(&one, NULL, 1);
    for (size_t i = 0, sum = 0; i < LW_WAIT_BUCKETS; i++) {
        char name[80], value[40];

        sum += i + 1;
        (void)snprintf(name, sizeof(name), "lockwire_wait_seconds_bucket{le=\"%s\"}",
                       bounds[i]);
        (void)snprintf(value, sizeof(value), "%zu", sum);
        assert_value(name, value);
    }
    assert_value("lockwire_wait_seconds_sum", "61.000007");
    assert_value("lockwire_wait_seconds_count", "136");
}

static void test_the_largest_numbers(void **state)
{
    struct lw_stats stats;
    const struct lw_stats *one = &stats;

    (void)state;
    memset(&stats, 0xff, sizeof(stats));
    stats.size = sizeof(stats);
    make(&one, NULL, 1);
    for (size_t i = 0; i < sample_count; i++) {
        const char *name = samples[i].name;
        bool sum = strcmp(name, "lockwire_wait_seconds_sum") == 0;
        bool seconds = strcmp(name + strlen(name) - 8, "_seconds") == 0;
        bool bit = strncmp(name, "lockwire_degraded{", 18) == 0;

        assert_string_equal(samples[i].value, bit       ? "1"
                                              : sum     ? "18446744073709.551615"
                                              : seconds ? "18446744073709551.615"
                                                        : "18446744073709551615");
    }
}

static void test_two_clients_share_one_head(void **state)
{
    struct lw_stats a = LW_STATS_INIT, b = LW_STATS_INIT;
    const struct lw_stats *both[] = {&a, &b};
    const char *labels[] = {"client=\"a\"", "client=\"b\",zone=\"x\""};

    (void)state;
    a.held = 3;
    b.held = 4;
    b.lost_taken = 5;
    b.wait_histogram[0] = 6;
    make(both, labels, 2);
    assert_value("lockwire_held{client=\"a\"}", "3");
    assert_value("lockwire_held{client=\"b\",zone=\"x\"}", "4");
    assert_value("lockwire_lost_total{client=\"b\",zone=\"x\",reason=\"taken\"}", "5");
    assert_value("lockwire_wait_seconds_bucket{client=\"a\",le=\"+Inf\"}", "0");
    assert_value("lockwire_wait_seconds_bucket{client=\"b\",zone=\"x\",le=\"0.001\"}",
                 "6");
    assert_value("lockwire_wait_seconds_count{client=\"b\",zone=\"x\"}", "6");
    labels[0] = NULL; /* one of them may be without labels */
    make(both, labels, 2);
    assert_value("lockwire_held", "3");
}

static void test_nobody(void **state)
{
    (void)state;
    make(NULL, NULL, 0);
    assert_string_equal(text, "");
}

/* ---- room ---- */

static void test_room_as_snprintf_has_it(void **state)
{
    struct lw_stats stats = distinct();
    const struct lw_stats *one = &stats;
    int length = lw_stats_prometheus(&one, NULL, 1, text, sizeof(text));
    size_t sizes[] = {
        0, 1, 2, 100, (size_t)length - 1, (size_t)length, (size_t)length + 1};

    (void)state;
    assert_true(length > 1000);
    assert_int_equal(lw_stats_prometheus(&one, NULL, 1, NULL, 0), length);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        char *buffer = malloc(sizes[i] + 1); /* its last byte is a guard */

        assert_non_null(buffer);
        memset(buffer, '?', sizes[i] + 1);
        assert_int_equal(lw_stats_prometheus(&one, NULL, 1, buffer, sizes[i]), length);
        assert_int_equal(buffer[sizes[i]], '?');
        if (sizes[i] > 0) {
            size_t written = sizes[i] <= (size_t)length ? sizes[i] - 1 : (size_t)length;

            assert_memory_equal(buffer, text, written);
            assert_int_equal(buffer[written], '\0');
        }
        free(buffer);
    }
}

/* ---- structs of other versions ---- */

static void test_an_earlier_struct(void **state)
{
    struct lw_stats stats = distinct(), whole = LW_STATS_INIT;
    const struct lw_stats *both[] = {&stats, &whole};
    const char *labels[] = {"client=\"old\"", "client=\"new\""};

    (void)state;
    stats.size = offsetof(struct lw_stats, failovers); /* as in 0.1.0 */
    make(both, NULL, 1);
    assert_value("lockwire_reconnects_total", "1016");
    assert_non_null(value_of("lockwire_wait_seconds_count"));
    assert_null(strstr(text, "lockwire_failovers_total"));
    make(both, labels, 2);
    assert_null(value_of("lockwire_failovers_total{client=\"old\"}"));
    assert_value("lockwire_failovers_total{client=\"new\"}", "0");
    stats.size = offsetof(struct lw_stats, failovers) - 1;
    make(both, NULL, 1);
    assert_null(strstr(text, "lockwire_wait_seconds"));
    stats.size = sizeof(stats.size);
    make(both, NULL, 1);
    assert_string_equal(text, "");
}

static void test_a_later_struct(void **state)
{
    struct {
        struct lw_stats stats;
        uint64_t more;
    } later = {distinct(), 77};
    const struct lw_stats *one = &later.stats;
    size_t count;

    (void)state;
    make(&one, NULL, 1);
    count = sample_count;
    later.stats.size = sizeof(later);
    make(&one, NULL, 1);
    assert_int_equal(sample_count, count);
}

/* ---- what is refused ---- */

static void test_labels(void **state)
{
    static const char *const good[] = {"",
                                       "a=\"\"",
                                       "_a=\"1\"",
                                       "A9=\"x y,z{}=\",b=\"\xc3\xa9\"",
                                       "a=\"\\\\ \\\" \\n\"",
                                       "le_=\"1\"",
                                       "lea=\"1\",reasons=\"2\"",
                                       "ab=\"1\",a=\"2\",abc=\"3\""};
    static const char *const bad[] = {",",
                                      "a",
                                      "a=",
                                      "a=b",
                                      "a=\"",
                                      "a=\"b",
                                      "=\"b\"",
                                      "1a=\"b\"",
                                      "a b=\"c\"",
                                      "a-b=\"c\"",
                                      "{a=\"b\"}",
                                      " a=\"b\"",
                                      "a =\"b\"",
                                      "a= \"b\"",
                                      "a=\"b\" ",
                                      "a=\"b\",",
                                      "a=\"b\",,c=\"d\"",
                                      "a=\"b\"c=\"d\"",
                                      "a=\"b\", c=\"d\"",
                                      "a=\"\n\"",
                                      "a=\"\t\"",
                                      "a=\"\x7f\"",
                                      "a=\"\\t\"",
                                      "a=\"\\\"",
                                      "a=\"\\",
                                      "a=\"\xc3\"",
                                      "a=\"\xff\"",
                                      "le=\"1\"",
                                      "reason=\"x\"",
                                      "capability=\"x\"",
                                      "__a=\"b\"",
                                      "a=\"1\",a=\"2\"",
                                      "a=\"1\",b=\"x\",a=\"1\"",
                                      "a=\"1\",le=\"2\"",
                                      "\xc3\xa9=\"b\""};
    struct lw_stats stats = LW_STATS_INIT;
    const struct lw_stats *one = &stats;

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        make(&one, &good[i], 1);
    }
    (void)snprintf(text, sizeof(text), "as it was");
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        if (lw_stats_prometheus(&one, &bad[i], 1, text, sizeof(text)) != LW_EINVAL) {
            fail_msg("taken: %s", bad[i]);
        }
    }
    assert_string_equal(text, "as it was");
}

static void test_what_makes_no_sense(void **state)
{
    struct lw_stats a = LW_STATS_INIT, b = LW_STATS_INIT;
    const struct lw_stats *both[] = {&a, &b}, *none = NULL;
    const char *same[] = {"client=\"a\"", "client=\"a\""}, *bare[] = {NULL, ""};

    (void)state;
    assert_int_equal(lw_stats_prometheus(both, same, 2, NULL, 0), LW_EINVAL);
    assert_int_equal(lw_stats_prometheus(both, bare, 2, NULL, 0), LW_EINVAL);
    assert_int_equal(lw_stats_prometheus(both, NULL, 2, NULL, 0), LW_EINVAL);
    assert_int_equal(lw_stats_prometheus(NULL, NULL, 1, NULL, 0), LW_EINVAL);
    assert_int_equal(lw_stats_prometheus(&none, NULL, 1, NULL, 0), LW_EINVAL);
    assert_int_equal(lw_stats_prometheus(both, NULL, 1, NULL, 1), LW_EINVAL);
    b.size = sizeof(b.size) - 1;
    same[1] = "client=\"b\"";
    assert_int_equal(lw_stats_prometheus(both, same, 2, NULL, 0), LW_EINVAL);
    b.size = 0;
    assert_int_equal(lw_stats_prometheus(both, same, 2, NULL, 0), LW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_field_is_there),
        cmocka_unit_test(test_what_is_lacking),
        cmocka_unit_test(test_the_histogram),
        cmocka_unit_test(test_the_largest_numbers),
        cmocka_unit_test(test_two_clients_share_one_head),
        cmocka_unit_test(test_nobody),
        cmocka_unit_test(test_room_as_snprintf_has_it),
        cmocka_unit_test(test_an_earlier_struct),
        cmocka_unit_test(test_a_later_struct),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_what_makes_no_sense),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * A sentinel's replies: valid ones are understood, all others are refused with a reason.
 * Uses sentinel_parse.h, and makes replies from bytes with the reader of reader.h.
 *
 * Fields are written as "ip 10.0.0.1 port 6379 ...", separated by blanks; "~" stands for
 * a blank in a word. Usual course: the fields as sentinels send them, and the result.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/escape.h"
#include "redis/reader.h"
#include "redis/sentinel_parse.h"
#include "lockwire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Encodes the words as an array. */
static void put_words(char *out, size_t size, const char *words)
{
    char copy[2048], *rest = NULL, body[4096] = "";
    size_t length = 0, count = 0;

    (void)snprintf(copy, sizeof(copy), "%s", words);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        for (char *at = word; (at = strchr(at, '~')) != NULL;) {
            *at = ' ';
        }
        length += (size_t)snprintf(body + length, sizeof(body) - length, "$%zu\r\n%s\r\n",
                                   strlen(word), word);
        count++;
    }
    (void)snprintf(out, size, "*%zu\r\n%s", count, body);
}

typedef void fn(const struct lw__reply *reply, void *arg);

static void with_reply(const char *bytes, size_t length, fn *use, void *arg)
{
    redisReader *reader = redisReaderCreate();
    struct lw__reader guard;
    void *reply = NULL;

    lw__reader_init(&guard, 1 << 16);
    lw__reader_install(&guard, reader);
    assert_int_equal(redisReaderFeed(reader, bytes, length), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    use(reply, arg);
    redisReaderFree(reader);
    lw__reader_clear(&guard);
}

struct answer {
    struct lw__sentinel_answer master;
    bool good;
    char why[LW_WHY_SIZE];
};

static void take_master(const struct lw__reply *reply, void *arg)
{
    struct answer *answer = arg;

    answer->good = lw__sentinel_parse_master(reply, &answer->master, answer->why);
}

static struct answer master(const char *words)
{
    struct answer answer = {.why = ""};
    char bytes[4096];

    put_words(bytes, sizeof(bytes), words);
    with_reply(bytes, strlen(bytes), take_master, &answer);
    return answer;
}

#define AS_GIVEN                                                                         \
    "name mymaster ip 10.0.0.1 port 6379 runid abc flags master link-pending-commands "  \
    "0 config-epoch 7 num-slaves 2"

static void test_a_master(void **state)
{
    struct answer answer = master(AS_GIVEN);

    (void)state;
    assert_true(answer.good);
    assert_string_equal(answer.master.endpoint.host, "10.0.0.1");
    assert_int_equal(answer.master.endpoint.port, 6379);
    assert_int_equal(answer.master.epoch, 7);
    assert_false(answer.master.down);
    assert_string_equal(answer.master.run_id, "abc");
    assert_true(answer.master.info_ms > (int64_t)1 << 52); /* it does not say */
    answer = master(AS_GIVEN " info-refresh 9000");
    assert_int_equal(answer.master.info_ms, 9000);
    answer = master("ip fe80::1%eth0 port 65535 flags master config-epoch "
                    "4611686018427387904");
    assert_true(answer.good);
    assert_string_equal(answer.master.endpoint.host, "fe80::1%eth0");
    assert_true(answer.master.epoch == (int64_t)1 << 62);
    assert_string_equal(answer.master.run_id, "");
    assert_true(master("ip redis-1.example port 1 flags master config-epoch 0").good);
    answer = master("ip h port 1 runid  flags master config-epoch 0 runid ~");
    assert_string_equal(answer.master.run_id, "");
}

static void test_for_how_long(void **state)
{
    static const struct {
        const char *fields;
        int64_t for_ms;
    } cases[] = {
        {"role-reported master role-reported-time 86400000", 86400000},
        {"role-reported-time 0 role-reported master", 0},
        {"role-reported master role-reported-time 9007199254740992", (int64_t)1 << 53},
        {"role-reported master role-reported-time 9007199254740993", -1},
        {"role-reported master role-reported-time -1", -1}, /* its clock was set back */
        {"role-reported master role-reported-time 1s", -1},
        {"role-reported master role-reported-time", -1},
        {"role-reported master", -1},
        {"role-reported slave role-reported-time 5", -1},
        {"role-reported-time 5", -1},
        {"", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char words[256];

        (void)snprintf(words, sizeof(words), "%s %s", AS_GIVEN, cases[i].fields);
        assert_true(master(words).good);
        assert_true(master(words).master.for_ms == cases[i].for_ms);
    }
}

static void test_who_is_being_replaced(void **state)
{
    (void)state;
    assert_false(master(AS_GIVEN).master.moving);
    assert_true(master("ip h port 1 config-epoch 1 flags "
                       "master,failover_in_progress,force_failover")
                    .master.moving);
    assert_false(
        master("ip h port 1 config-epoch 1 flags master,reconf_inprog").master.moving);
}

static void test_who_is_down(void **state)
{
    static const struct {
        const char *flags;
        bool down;
    } cases[] = {
        {"master", false},
        {"s_down,master", true},
        {"master,o_down", true},
        {"master,failover_in_progress,s_down", true},
        {"o_down", true},
        {"master,disconnected", false},
        {"master,s_downed", false},
        {"xs_down,master", false},
        {",", false},
        {",,s_down", true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char words[256];

        (void)snprintf(words, sizeof(words), "ip h port 1 config-epoch 1 flags %s",
                       cases[i].flags);
        assert_true(master(words).good);
        assert_int_equal(master(words).master.down, cases[i].down);
    }
}

/* Each with the field that is reported as invalid. */
static const char *const bad[][2] = {
    {"", "ip"},
    {"ip", "ip"},
    {"port 1 flags master config-epoch 1", "ip"},
    {"ip a~b port 1 flags master config-epoch 1", "ip"},
    {"ip a/b port 1 flags master config-epoch 1", "ip"},
    {"ip .h port 1 flags master config-epoch 1", "ip"},
    {"ip . port 1 flags master config-epoch 1", "ip"},
    {"ip 1:2 port 1 flags master config-epoch 1", "ip"},
    {"ip fe80::1%\001 port 1 flags master config-epoch 1", "ip"},
    {"ip h port 0 flags master config-epoch 1", "port"},
    {"ip h port 65536 flags master config-epoch 1", "port"},
    {"ip h port -1 flags master config-epoch 1", "port"},
    {"ip h port 1x flags master config-epoch 1", "port"},
    {"ip h port 18446744073709551617 flags master config-epoch 1", "port"},
    {"ip h flags master config-epoch 1", "port"},
    {"ip h port 1 flags master", "config-epoch"},
    {"ip h port 1 flags master config-epoch x", "config-epoch"},
    {"ip h port 1 flags master config-epoch -1", "config-epoch"},
    {"ip h port 1 flags master config-epoch 4611686018427387905", "config-epoch"},
    {"ip h port 1 flags master config-epoch 9223372036854775808", "config-epoch"},
    {"ip h port 1 config-epoch 1", "flags"},
    {"ip h port 1 config-epoch 1 flags", "flags"},
};

static void test_what_is_of_no_use_is_told(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        struct answer answer = master(bad[i][0]);
        char why[LW_WHY_SIZE];

        (void)snprintf(why, sizeof(why), "invalid reply to SENTINEL MASTER: no valid %s",
                       bad[i][1]);
        assert_false(answer.good);
        assert_string_equal(answer.why, why);
    }
}

static void test_errors_and_other_types(void **state)
{
    static const char *const answers[][2] = {
        {"-ERR No such master\r\n", "ERR No such master"},
        {"-NOAUTH \x01\r\n", "NOAUTH \\x01"},
        {"+OK\r\n", "invalid reply to SENTINEL MASTER: no valid ip"},
        {":1\r\n", "invalid reply to SENTINEL MASTER: no valid ip"},
        {"$-1\r\n", "invalid reply to SENTINEL MASTER: no valid ip"},
        {"*-1\r\n", "invalid reply to SENTINEL MASTER: no valid ip"},
        {"*2\r\n$2\r\nip\r\n:1\r\n", "invalid reply to SENTINEL MASTER: no valid ip"},
        {"*2\r\n:1\r\n:1\r\n", "invalid reply to SENTINEL MASTER: no valid ip"},
        {"*2\r\n$2\r\nip\r\n*0\r\n", "invalid reply to SENTINEL MASTER: no valid ip"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
        struct answer answer = {.why = ""};

        with_reply(answers[i][0], strlen(answers[i][0]), take_master, &answer);
        assert_false(answer.good);
        assert_string_equal(answer.why, answers[i][1]);
    }
}

static void test_no_nul_gets_through(void **state)
{
    static const char bytes[] =
        "*8\r\n$2\r\nip\r\n$3\r\nh\0x\r\n$4\r\nport\r\n$1\r\n1\r\n"
        "$5\r\nflags\r\n$1\r\nm\r\n$12\r\nconfig-epoch\r\n$1\r\n1"
        "\r\n";
    struct answer answer = {.why = ""};

    (void)state;
    with_reply(bytes, sizeof(bytes) - 1, take_master, &answer);
    assert_false(answer.good);
}

static void test_a_host_as_long_as_may_be(void **state)
{
    char words[600] = "port 1 flags master config-epoch 1 ip ";
    size_t begin = strlen(words);

    (void)state;
    memset(words + begin, 'h', LW__HOST_SIZE - 1);
    assert_true(master(words).good);
    words[begin + LW__HOST_SIZE - 1] = 'h';
    assert_false(master(words).good);
}

static void list_others(const struct lw__reply *reply, void *arg)
{
    char *text = arg;
    struct lw__sentinel_peer other;

    for (size_t at = 0; lw__sentinel_parse_peer(reply, &at, &other);) {
        size_t length = strlen(text);

        (void)snprintf(text + length, 256 - length, "%s:%u=%s%s ", other.endpoint.host,
                       (unsigned)other.endpoint.port, other.id,
                       other.down ? "(down)" : "");
    }
}

static void test_others(void **state)
{
    static const char *const elements[] = {
        "name a ip 10.0.0.1 port 26379 flags sentinel runid "
        "0123456789abcdef0123456789abcdef01234567",
        "name b ip 10.0.0.2 port 26379 flags s_down,sentinel,disconnected runid 1b",
        "name c ip a~b port 1 flags sentinel runid 1c",
        "name d ip 10.0.0.4 port 0 flags sentinel runid 1d",
        "name e ip 10.0.0.5 port 1 runid 1e",
        "",
        "name f ip s3 port 65535 flags sentinel,disconnected runid 1f",
        "name g ip 10.0.0.7 port 1 flags sentinel",
        "name h ip 10.0.0.8 port 1 flags sentinel runid ?",
        "name i ip 10.0.0.9 port 1 flags sentinel runid "
        "0123456789abcdef0123456789abcdef012345678",
    };
    char bytes[8192] = "*12\r\n$1\r\nx\r\n:1\r\n", text[256] = "";

    (void)state;
    for (size_t i = 0; i < sizeof(elements) / sizeof(*elements); i++) {
        size_t length = strlen(bytes);

        put_words(bytes + length, sizeof(bytes) - length, elements[i]);
    }
    with_reply(bytes, strlen(bytes), list_others, text);
    assert_string_equal(text, "10.0.0.1:26379=0123456789abcdef0123456789abcdef01234567 "
                              "10.0.0.2:26379=1b(down) s3:65535=1f ");
    text[0] = '\0';
    with_reply("-ERR no\r\n", 9, list_others, text);
    assert_string_equal(text, "");
}

static void test_a_switch(void **state)
{
    static const char *const others[] = {
        "",           " ",           "m",          "m a 1 b",    "m a 1 b ",
        "m a 1 b 2 ", "m a 1 b 2 c", "m  1 b 2",   "mm a 1 b 2", " m a 1 b 2",
        "m a 1 b 0",  "m a 1 b x",   "m a 1 b? 2", "M a 1 b 2",  "m a 0 b 2",
        "m a x b 2",  "m a? 1 b 2",
    };
    struct lw__endpoint from = {.host = "untouched"}, to = from;

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        assert_false(
            lw__sentinel_parse_switch(others[i], strlen(others[i]), "m", &from, &to));
    }
    assert_false(lw__sentinel_parse_switch("m a 1 b\0 2", 10, "m", &from, &to));
    assert_string_equal(from.host, "untouched");
    assert_string_equal(to.host, "untouched");
    assert_true(lw__sentinel_parse_switch("m a 1 b.c 65535", 15, "m", &from, &to));
    assert_string_equal(to.host, "b.c");
    assert_int_equal(to.port, 65535);
    assert_string_equal(from.host, "a");
    assert_int_equal(from.port, 1);
    assert_true(lw__sentinel_parse_switch("m ::1 1 ::2 3 ", 13, "m", &from, &to));
    assert_string_equal(to.host, "::2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_master),
        cmocka_unit_test(test_for_how_long),
        cmocka_unit_test(test_who_is_being_replaced),
        cmocka_unit_test(test_who_is_down),
        cmocka_unit_test(test_what_is_of_no_use_is_told),
        cmocka_unit_test(test_errors_and_other_types),
        cmocka_unit_test(test_no_nul_gets_through),
        cmocka_unit_test(test_a_host_as_long_as_may_be),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_a_switch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

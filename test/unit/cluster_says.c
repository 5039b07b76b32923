/* SPDX-License-Identifier: MIT */
/*
 * The replies of a cluster's node: valid ones are parsed, invalid ones are refused with a
 * reason. The replies are made from bytes by the reader of reader.h.
 *
 * A reply is written as "[[0 8000 [$10.0.0.1 6379 $id]]]": arrays in brackets, numbers,
 * strings behind a $, and ~ for nil; a string ends before a blank or a bracket. Usual
 * course: a reply as nodes send it is parsed into ranges such as "0-8000 10.0.0.1:6379".
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/escape.h"
#include "redis/cluster_parse.h"
#include "redis/reader.h"
#include "redis/reply.h"
#include "lockwire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES 8192
#define PREFIX "CLUSTER SLOTS: "

/* Returns the number of elements of the array whose bracket is just before `at`. */
static size_t elements(const char *at)
{
    size_t count = 0;

    for (int depth = 0; depth > 0 || *at != ']'; at++) {
        count += depth == 0 && *at != ' ' && (at[-1] == ' ' || at[-1] == '[');
        depth += (*at == '[') - (*at == ']');
    }
    return count;
}

static void put_answer(char *out, const char *answer)
{
    size_t used = 0;

    while (*answer != '\0') {
        size_t length = strcspn(answer, " []");

        if (*answer == '[') {
            used += (size_t)snprintf(out + used, BYTES - used, "*%zu\r\n",
                                     elements(answer + 1));
        } else if (*answer == '$') {
            used += (size_t)snprintf(out + used, BYTES - used, "$%zu\r\n%.*s\r\n",
                                     length - 1, (int)length - 1, answer + 1);
        } else if (*answer == '~') {
            used += (size_t)snprintf(out + used, BYTES - used, "$-1\r\n");
        } else if (length > 0) {
            used += (size_t)snprintf(out + used, BYTES - used, ":%.*s\r\n", (int)length,
                                     answer);
        }
        answer += length > 0 ? length : 1;
    }
    assert_true(used < BYTES);
}

struct told {
    bool good;
    char why[LW_WHY_SIZE], ranges[4096];
};

static void take(const struct lw__reply *reply, struct told *told)
{
    struct lw__range range;
    size_t used = 0;

    told->good = lw__cluster_parse_map(reply, told->why);
    for (size_t at = 0; lw__cluster_parse_range(reply, &at, &range);) {
        used += (size_t)snprintf(told->ranges + used, sizeof(told->ranges) - used,
                                 "%s%u-%u %s:%u", used > 0 ? "; " : "", range.first,
                                 range.last, range.master.host,
                                 (unsigned)range.master.port);
        assert_true(used < sizeof(told->ranges));
    }
}

static struct told bytes(const char *bytes, size_t length)
{
    redisReader *reader = redisReaderCreate();
    struct told told = {.why = ""};
    struct lw__reader guard;
    void *reply = NULL;

    lw__reader_init(&guard, 1 << 16);
    lw__reader_install(&guard, reader);
    assert_int_equal(redisReaderFeed(reader, bytes, length), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    take(reply, &told);
    redisReaderFree(reader);
    lw__reader_clear(&guard);
    return told;
}

static struct told answer(const char *answer)
{
    char out[BYTES] = "";

    put_answer(out, answer);
    return bytes(out, strlen(out));
}

static void test_ranges(void **state)
{
    static const char *const cases[][2] = {
        /* Redis 7 and Valkey; 6.2; before 4.0 */
        {"[[0 8000 [$10.0.0.1 6379 $id []]] [8002 16383 [$10.0.0.2 6380 $id []]]]",
         "0-8000 10.0.0.1:6379; 8002-16383 10.0.0.2:6380"},
        {"[[0 16383 [$10.0.0.1 6379 $id]]]", "0-16383 10.0.0.1:6379"},
        {"[[0 16383 [$10.0.0.1 6379]]]", "0-16383 10.0.0.1:6379"},
        /* replicas, which are ignored */
        {"[[0 5 [$a 1 $id []] [$b 2 $id []] [$c 99999]]]", "0-5 a:1"},
        {"[[0 5 [$a 1 $id []] ~ 7 []]]", "0-5 a:1"},
        /* in any order, of a single slot, with gaps */
        {"[[7 7 [$a 65535]] [0 0 [$b 1]] [16383 16383 [$a 65535]]]",
         "7-7 a:65535; 0-0 b:1; 16383-16383 a:65535"},
        /* IPv6, with a zone; names */
        {"[[0 1 [$::1 6379]] [2 3 [$fe80::1%eth0 1]] [4 5 [$node-1.example_x 2]]]",
         "0-1 ::1:6379; 2-3 fe80::1%eth0:1; 4-5 node-1.example_x:2"},
        /* no host: the node that was asked */
        {"[[0 1 [$ 6379 $id []]] [2 3 [~ 6380 $id [$ip $10.0.0.1]]]]",
         "0-1 :6379; 2-3 :6380"},
        /* a host of "?": the node's address, if the reply has it */
        {"[[0 1 [$? 6379 $id [$ip $10.0.0.1]]]]", "0-1 10.0.0.1:6379"},
        {"[[0 1 [$? 6379 $id [$x $y $ip $::1 $z $w]]]]", "0-1 ::1:6379"},
        {"[[0 1 [$? 6379 $id [$ip $]]]]", "0-1 :6379"},
        {"[[0 1 [$? 6379 $id [$hostname $h]]]]", "0-1 :0"},
        {"[[0 1 [$? 6379 $id [$ip $?]]]]", "0-1 :0"},
        {"[[0 1 [$? 6379 $id [$ip 7]]]]", "0-1 :0"},
        {"[[0 1 [$? 6379 $id [$ip]]]]", "0-1 :0"},
        {"[[0 1 [$? 6379 $id [7 $ip]]]]", "0-1 :0"},
        {"[[0 1 [$? 6379 $id $ip]]]", "0-1 :0"},
        {"[[0 1 [$? 6379 $id]]]", "0-1 :0"},
        {"[[0 1 [$? 6379]]]", "0-1 :0"},
        /* no port for this kind of connection */
        {"[[0 1 [$h 0 $id []]]]", "0-1 h:0"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct told told = answer(cases[i][0]);

        if (!told.good || strcmp(told.ranges, cases[i][1]) != 0) {
            fail_msg("%s: %s%s", cases[i][0], told.why, told.ranges);
        }
    }
}

/* Each reply, its error, and the ranges in it that are usable all the same. */
static void test_what_is_of_no_use_is_told(void **state)
{
    static const char *const cases[][3] = {
        {"[]", "no node has any slot", ""},
        {"~", "the reply is not an array", ""},
        {"7", "the reply is not an array", ""},
        {"$OK", "the reply is not an array", ""},
        {"[7]", "range 1 is invalid", ""},
        {"[[]]", "range 1 is invalid", ""},
        {"[[7]]", "range 1 is invalid", ""},
        {"[[[] []]]", "range 1 is invalid", ""},
        {"[[0 $1 [$a 1]]]", "range 1 is invalid", ""},
        {"[[~ 1 [$a 1]]]", "range 1 is invalid", ""},
        {"[[[0 1 [$a 1]]]]", "range 1 is invalid", ""},
        {"[[0 1 [$a 1]] [2 3 [$b 2]] [5461 4000 [$c 3]]]",
         "range 3 (5461-4000) is invalid", "0-1 a:1; 2-3 b:2"},
        {"[[0 16384 [$a 1]] [2 3 [$b 2]]]", "range 1 (0-16384) is invalid", "2-3 b:2"},
        {"[[-1 5 [$a 1]]]", "range 1 (-1-5) is invalid", ""},
        {"[[16384 16384 [$a 1]]]", "range 1 (16384-16384) is invalid", ""},
        {"[[-9223372036854775808 9223372036854775807 [$a 1]]]",
         "range 1 (-9223372036854775808-9223372036854775807) is invalid", ""},
        {"[[0 1]]", "range 1 has no master", ""},
        {"[[0 1 []]]", "range 1 has no master", ""},
        {"[[0 1 [$a]]]", "range 1 has no master", ""},
        {"[[0 1 ~ [$b 1]]]", "range 1 has no master", ""},
        {"[[0 1 $a 1]]", "range 1 has no master", ""},
        {"[[0 1 [$a $1]]]", "range 1: the master has no port", ""},
        {"[[0 1 [$a ~]]]", "range 1: the master has no port", ""},
        {"[[0 1 [$a -1]]]", "range 1: the master's port -1 is invalid", ""},
        {"[[0 1 [$a 65536]]]", "range 1: the master's port 65536 is invalid", ""},
        {"[[0 1 [7 1]]]", "range 1: the master has no host", ""},
        {"[[0 1 [[$a] 1]]]", "range 1: the master has no host", ""},
        {"[[0 1 [$a/b 1]]]", "range 1: the master's host \"a/b\" is invalid", ""},
        {"[[0 1 [$.a 1]]]", "range 1: the master's host \".a\" is invalid", ""},
        {"[[0 1 [$?? 1]]]", "range 1: the master's host \"??\" is invalid", ""},
        {"[[0 1 [$1:2 1]]]", "range 1: the master's host \"1:2\" is invalid", ""},
        {"[[0 1 [$a\x1b 1]]]", "range 1: the master's host \"a\\x1b\" is invalid", ""},
        {"[[0 1 [$::1%\x01 1]]]", "range 1: the master's host \"::1%\\x01\" is invalid",
         ""},
        {"[[0 1 [$::1%a/b 1]]]", "range 1: the master's host \"::1%a/b\" is invalid", ""},
        {"[[0 1 [$a%b 1]]]", "range 1: the master's host \"a%b\" is invalid", ""},
        {"[[0 9 [$a 1]] [10 19 [$b 1]] [5 12 [$a 1]]]",
         "range 3 (5-12) overlaps an earlier one at slot 5",
         "0-9 a:1; 10-19 b:1; 5-12 a:1"},
        {"[[8 9 [$a 1]] [0 16383 [$b 1]]]",
         "range 2 (0-16383) overlaps an earlier one at slot 8", "8-9 a:1; 0-16383 b:1"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct told told = answer(cases[i][0]);

        if (told.good || strncmp(told.why, PREFIX, sizeof(PREFIX) - 1) != 0 ||
            strcmp(told.why + sizeof(PREFIX) - 1, cases[i][1]) != 0 ||
            strcmp(told.ranges, cases[i][2]) != 0) {
            fail_msg("%s: %s: %s", cases[i][0], told.why, told.ranges);
        }
    }
}

static void test_errors(void **state)
{
    static const char disabled[] = "-ERR This instance has cluster support disabled\r\n";
    static const char vile[] = "-NOPERM \x01\r\n";
    struct told told = bytes(disabled, sizeof(disabled) - 1);

    (void)state;
    assert_false(told.good);
    assert_string_equal(told.why,
                        "ERR This instance has cluster support disabled (use redis://)");
    told = bytes(vile, sizeof(vile) - 1);
    assert_false(told.good);
    assert_string_equal(told.why, "NOPERM \\x01");
}

static void test_no_nul_gets_through(void **state)
{
    static const char host[] = "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$3\r\nh\0x\r\n:1\r\n";
    static const char address[] = "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$5\r\n::1\0x\r\n:1\r\n";
    static const char asked[] = "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$2\r\n\0x\r\n:1\r\n";
    struct told told = bytes(host, sizeof(host) - 1);

    (void)state;
    assert_false(told.good);
    assert_string_equal(told.why, PREFIX "range 1: the master's host \"h\" is invalid");
    assert_false(bytes(address, sizeof(address) - 1).good);
    assert_false(bytes(asked, sizeof(asked) - 1).good);
}

static void test_a_host_as_long_as_may_be(void **state)
{
    char host[LW__HOST_SIZE + 1], words[600];
    struct told told;

    (void)state;
    memset(host, 'h', sizeof(host));
    (void)snprintf(words, sizeof(words), "[[0 1 [$%.*s 1]]]", LW__HOST_SIZE - 1, host);
    assert_true(answer(words).good);
    (void)snprintf(words, sizeof(words), "[[0 1 [$%.*s 1]]]", LW__HOST_SIZE, host);
    told = answer(words);
    assert_false(told.good);
    assert_null(strchr(told.why, '\n'));
    assert_true(strlen(told.why) < 128); /* the quoted part is limited */
}

/* A map of many ranges, the last of which is invalid. */
static void test_many_ranges(void **state)
{
    char words[BYTES] = "";
    size_t used = 0;

    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        used += (size_t)snprintf(words + used, sizeof(words) - used, "%s[%u %u [$ 1]]",
                                 i == 0 ? "[" : " ", 2 * i, 2 * i);
    }
    (void)snprintf(words + used, sizeof(words) - used, "]");
    assert_true(answer(words).good);
    (void)snprintf(words + used, sizeof(words) - used, " [398 400 [$ 1]]]");
    assert_string_equal(answer(words).why,
                        PREFIX "range 201 (398-400) overlaps an earlier one at slot 398");
}

/* Each redirect, and its parsed form. */
static void test_redirects(void **state)
{
    static const struct {
        const char *text;
        bool ask;
        unsigned slot;
        const char *host;
        unsigned port;
    } cases[] = {
        {"MOVED 3999 127.0.0.1:6381", false, 3999, "127.0.0.1", 6381},
        {"ASK 3999 127.0.0.1:6381", true, 3999, "127.0.0.1", 6381},
        {"MOVED 0 node-1.example:1", false, 0, "node-1.example", 1},
        {"MOVED 16383 ::1:65535", false, 16383, "::1", 65535},
        {"ASK 16383 fe80::1%eth0:6379", true, 16383, "fe80::1%eth0", 6379},
        {"MOVED 3999 :6379", false, 3999, "", 6379}, /* the node that sent it */
        {"MOVED 3999 ?:6379", false, 3999, "", 0},   /* unknown */
        {"ASK 3999 ?:6379", true, 3999, "", 0},
        {"MOVED 3999 :0", false, 3999, "", 0},
        {"MOVED 3999 h:0", false, 3999, "h", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct lw__redirect redirect = {.slot = 77777};

        assert_true(
            lw__cluster_parse_redirect(cases[i].text, strlen(cases[i].text), &redirect));
        assert_int_equal(redirect.ask, cases[i].ask);
        assert_int_equal(redirect.slot, cases[i].slot);
        assert_string_equal(redirect.endpoint.host, cases[i].host);
        assert_int_equal(redirect.endpoint.port, cases[i].port);
    }
}

static void test_what_is_no_redirect(void **state)
{
    static const char *const others[] = {
        "",
        "MOVED",
        "MOVED ",
        "MOVED 3999",
        "MOVED 3999 ",
        "MOVED 3999 h",
        "MOVED 3999 h:",
        "MOVED 3999 :",
        "MOVED 3999 ?:",
        "MOVED 3999 ?:65536",
        "MOVED 3999 h:65536",
        "MOVED 3999 h:-1",
        "MOVED 3999 h:+1",
        "MOVED 3999 h:1x",
        "MOVED 3999 h:4294973675",
        "MOVED 3999 h:18446744073709557995",
        "MOVED 3999 h:1 ",
        "MOVED 3999 h:1 x",
        "MOVED 3999  h:1",
        "MOVED  3999 h:1",
        "MOVED 3999 .h:1",
        "MOVED 3999 a/b:1",
        "MOVED 3999 1:2:3",
        "MOVED 3999 [::1]:1",
        "MOVED 3999 ::1%\x1b:1",
        "MOVED 3999 ??:1",
        "MOVED 16384 h:1",
        "MOVED -1 h:1",
        "MOVED x h:1",
        "MOVED  h:1",
        "MOVED 4294971295 h:1",
        "MOVED 18446744073709555615 h:1",
        "MOVEDX 3999 h:1",
        "moved 3999 h:1",
        " MOVED 3999 h:1",
        "ASKING 3999 h:1",
        "ASK3999 h:1",
        "ASK 3999",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "CLUSTERDOWN Hash slot not served",
        "CROSSSLOT Keys in request don't hash to the same slot",
        "ERR MOVED 3999 h:1",
    };
    struct lw__redirect redirect = {.slot = 77777};

    (void)state;
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        if (lw__cluster_parse_redirect(others[i], strlen(others[i]), &redirect)) {
            fail_msg("\"%s\"", others[i]);
        }
    }
    assert_false(lw__cluster_parse_redirect("MOVED 3999 h\0:1", 15, &redirect));
    assert_false(lw__cluster_parse_redirect("MOVED 3999 h:1\0", 15, &redirect));
    assert_int_equal(redirect.slot, 77777);
}

/* The parser neither reads nor needs a byte behind the text. */
static void test_redirects_cut_at_every_byte(void **state)
{
    static const char whole[] = "ASK 3999 h:6379";
    struct lw__redirect redirect;

    (void)state;
    for (size_t cut = 0; cut < sizeof(whole); cut++) {
        char *copy = malloc(cut + 1);

        assert_non_null(copy);
        memcpy(copy + 1, whole, cut);
        assert_int_equal(lw__cluster_parse_redirect(copy + 1, cut, &redirect),
                         cut >= strlen("ASK 3999 h:6") && cut < sizeof(whole));
        free(copy);
    }
}

/* ---- the id of a node, and the state of its cluster ---- */

#define ID_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define ID_B "0123456789abcdef0123456789abcdef01234567"

/* The results of all parsers for a reply of one text, or of an array. */
struct view {
    struct lw__cluster_info info;
    char myid[LW__NODE_ID_SIZE], ids[400];
};

static struct view view_of(const char *text, size_t length)
{
    redisReader *reader = redisReaderCreate();
    struct view view = {.ids = ""};
    struct lw__reader guard;
    void *reply = NULL;
    char id[LW__NODE_ID_SIZE];

    lw__reader_init(&guard, 1 << 16);
    lw__reader_install(&guard, reader);
    assert_int_equal(redisReaderFeed(reader, text, length), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    view.info = lw__cluster_parse_info(reply);
    lw__cluster_parse_myid(reply, view.myid);
    for (size_t at = 0; at < lw__reply_count(reply); at++) {
        for (size_t node = 0; lw__cluster_parse_node_id(reply, at, node, id); node++) {
            (void)snprintf(view.ids + strlen(view.ids),
                           sizeof(view.ids) - strlen(view.ids), "%zu:%s ", at,
                           *id != '\0' ? id : "-");
        }
    }
    redisReaderFree(reader);
    lw__reader_clear(&guard);
    return view;
}

static struct view view_of_text(const char *text)
{
    char out[BYTES];

    (void)snprintf(out, sizeof(out), "$%zu\r\n%s\r\n", strlen(text), text);
    return view_of(out, strlen(out));
}

static void test_info(void **state)
{
    static const struct {
        const char *text;
        bool down;
        uint64_t epoch;
    } cases[] = {
        {"cluster_enabled:1\r\ncluster_state:ok\r\ncluster_current_epoch:7\r\n", false,
         7},
        {"cluster_state:fail\r\ncluster_current_epoch:18446744073709551615\r\n", true,
         UINT64_MAX},
        {"cluster_my_epoch:3\r\ncluster_current_epoch:x\r\n", false, 0},
        {"x cluster_state:fail\r\n", false, 0},
        {"cluster_state:", true, 0},
        {"", false, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct view view = view_of_text(cases[i].text);

        assert_int_equal(view.info.down, cases[i].down);
        assert_true(view.info.epoch == cases[i].epoch);
    }
    assert_false(view_of("-NOPERM cluster_state:fail\r\n", 28).info.down);
}

static void test_ids(void **state)
{
    static const char slots[] = "[[0 5 [$a 1 $" ID_A " []] [$b 2 $" ID_B
                                "] [$c 3]] [6 7 ~ 8]"
                                " [9 9] 3]";
    char out[BYTES] = "";

    (void)state;
    assert_string_equal(view_of_text(ID_A).myid, ID_A);
    assert_string_equal(view_of_text(ID_A "a").myid, "");
    assert_string_equal(view_of_text("Aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa").myid,
                        "");
    assert_string_equal(view_of_text("").myid, "");
    put_answer(out, slots);
    assert_string_equal(view_of(out, strlen(out)).ids,
                        "0:" ID_A " 0:" ID_B " 0:- 1:- 1:- ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_what_is_of_no_use_is_told),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_no_nul_gets_through),
        cmocka_unit_test(test_a_host_as_long_as_may_be),
        cmocka_unit_test(test_many_ranges),
        cmocka_unit_test(test_redirects),
        cmocka_unit_test(test_what_is_no_redirect),
        cmocka_unit_test(test_redirects_cut_at_every_byte),
        cmocka_unit_test(test_info),
        cmocka_unit_test(test_ids),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

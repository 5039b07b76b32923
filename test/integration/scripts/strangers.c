/* SPDX-License-Identifier: MIT
 *
 * Tests what the scripts do with foreign keys: keys of other types and formats, in place
 * of the lock or of its queue. A foreign key counts as held, and stays as it is.
 * Independent of the C client. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "script_calls.h"

/* Each command makes the key %s; ~ stands for a space within a word. */
static const struct {
    const char *type;
    const char *command;
} STRANGERS[] = {
    {"string", "SET %s x"},
    {"list", "RPUSH %s x"},
    {"set", "SADD %s x"},
    {"zset", "ZADD %s 1 x"},
    {"hash", "HSET %s x 1"},
    {"stream", "XADD %s 1-1 x 1"},
    {"hash", "HSET %s mode read"}, /* another client's read-write lock */
    /* a read-write lock of wire version 1, and one of some later version */
    {"hash",
     "HSET %s mode read rcount 1 readers 1 wcount 0 writer ~ soonest 4000000000000 "
     "r:A 1 f:A 1763690000000001 h:t 4000000000000~r~A"},
    {"hash", "HSET %s mode 3~1~1~0~4000000000000~0~ r:A 1~1763690000000001 "
             "h:t 4000000000000~r~A"},
    {"hash", "HSET %s mode 2"},
};
#define STRANGER_COUNT (sizeof(STRANGERS) / sizeof(STRANGERS[0]))

static void make_stranger(size_t i, const char *key)
{
    const char *words[32];
    redisReply *reply;
    char line[256];
    int count = 0;

    script_do(&server, "DEL %s", key);
    (void)snprintf(line, sizeof(line), STRANGERS[i].command, key);
    for (char *at = line, *word; (word = strsep(&at, " ")) != NULL;) {
        words[count++] = word;
        for (; (word = strchr(word, '~')) != NULL;) {
            *word = ' ';
        }
    }
    reply = redisCommandArgv(server.admin, count, words, NULL);
    assert_non_null(reply);
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
}

static void assert_stranger(const char *dump, const char *key)
{
    assert_string_equal(script_get(&server, "EVAL %s 1 %s",
                                   "return redis.sha1hex(redis.call('DUMP', KEYS[1]))",
                                   key),
                        dump);
}

static void remember(char *dump, size_t size, const char *key)
{
    (void)snprintf(dump, size, "%s",
                   script_get(&server, "EVAL %s 1 %s",
                              "return redis.sha1hex(redis.call('DUMP', KEYS[1]))", key));
}

/* Asserts a refusal at position 0, with the key's type unless the script knows it. */
static void assert_held_by(struct script_answer answer, const char *type)
{
    refused(answer, 0);
    assert_int_equal(answer.n[1], -1);
    assert_string_equal(answer.text, type);
}

#define FOREIGN "foreign", "lockwire:2:queue:{foreign}", "lockwire:fence"
#define FOREIGN_RW "foreign", "lockwire:2:rwqueue:{foreign}", "lockwire:fence"

static void a_stranger_s_key_of_any_type_is_held_and_never_touched_mutex(void **state)
{
    struct script_answer answer;
    char dump[64];

    (void)state;
    for (size_t i = 0; i < STRANGER_COUNT; i++) {
        const char *type = strcmp(STRANGERS[i].type, "string") != 0 ? STRANGERS[i].type
                                                                    : "";

        make_stranger(i, "foreign");
        remember(dump, sizeof(dump), "foreign");
        answer = mutex_answer(
            script_run(&server, LW__SCRIPT_MUTEX_ACQUIRE, 3, FOREIGN, t1,
                       script_how_long(script_how(1, NO_TICKET, 1), LEASE), NULL));
        assert_held_by(answer, type);
        answer =
            script_run(&server, LW__SCRIPT_MUTEX_RENEW, 1, "foreign", t2, "600000", NULL);
        assert_int_equal(answer.n[0], 0);
        answer =
            script_run(&server, LW__SCRIPT_MUTEX_RELEASE, 3, FOREIGN, t2, NUMBERS, NULL);
        assert_int_equal(answer.n[0], 0);
        answer =
            script_run(&server, LW__SCRIPT_MUTEX_RELEASE, 3, FOREIGN, t1, NUMBERS, NULL);
        assert_int_equal(answer.n[0], 0);
        assert_int_equal(script_do(&server, "EXISTS lockwire:2:queue:{foreign}"), 0);
        assert_stranger(dump, "foreign");
        assert_int_equal(script_do(&server, "PTTL foreign"), -1);
    }
}

static void a_stranger_s_key_of_any_type_is_held_and_never_touched_rw(void **state)
{
    struct script_answer answer;
    char dump[64];

    (void)state;
    for (size_t i = 0; i < STRANGER_COUNT; i++) {
        make_stranger(i, "foreign");
        remember(dump, sizeof(dump), "foreign");
        answer = script_run(&server, LW__SCRIPT_RW_ACQUIRE, 3, FOREIGN_RW, t1, "600000",
                            "w A", "1 -1 0 " NUMBERS, NULL);
        assert_held_by(answer, STRANGERS[i].type);
        answer = script_run(&server, LW__SCRIPT_RW_RENEW, 3, "lockwire:fence", "foreign",
                            "lockwire:2:rwqueue:{foreign}", NUMBERS, t1, "600000", NULL);
        assert_int_equal(answer.n[0], 0);
        answer = script_run(&server, LW__SCRIPT_RW_RELEASE, 3, FOREIGN_RW, t1,
                            NUMBERS " w0 A", NULL);
        assert_int_equal(answer.n[0], 0);
        assert_int_equal(script_do(&server, "EXISTS lockwire:2:rwqueue:{foreign}"), 0);
        assert_stranger(dump, "foreign");
        assert_int_equal(script_do(&server, "PTTL foreign"), -1);
    }
}

/* Makes "foreign" with this state and this hold of t1: first in our form, then damaged in
 * one place. */
static void make_damaged(const char *mode, const char *record)
{
    script_do(&server, "DEL foreign");
    script_do(&server, "HSET foreign mode %s h:%s %s", mode, t1, record);
    script_do(&server, "HSET foreign r:A %s", "1 1763690000000001");
}

static struct script_answer release_foreign(void)
{
    return script_run(&server, LW__SCRIPT_RW_RELEASE, 3, FOREIGN_RW, t1, NUMBERS " r0 A",
                      NULL);
}

/* A renewal of an only hold reads that hold alone: it may live on, and excludes
 * others. */
static void a_lock_that_is_damaged_is_a_stranger_s_though_our_token_is_in_it(void **state)
{
    static const char *const damaged[][2] = {
        {"2 1 ", "0 r A"},
        {"2 1 1 0 0 0", "0 r A"},
        {"2 1 1 0 0x 0 ", "0 r A"},
        {"2 1 1 0 -1 0 ", "0 r A"},
        {"2 1 x", "0 r A"},
        {"2 2 2 0 4000000000000 0", "4000000000000 r A"},
        {"read", "0 r A"},
        {"read/2", "0 r A"},
        {"2 1 0 1 0 1763690000000001", "0 w A"},
        {"2 1 0 1 0 x A", "0 w A"},
        {"2 2 1 1 0 0 ", "r A"},
        {"2 2 1 1 0 0 ", "0 q A"},
        {"2 2 1 1 0 0 ", "0x r A"},
        {"2 2 2 0 4000000000000 0 ", "x"},
    };
    struct script_answer answer;
    char dump[64];
    bool renewed;

    (void)state;
    make_damaged("2 1 1 0 0 0 ", "0 r A");
    assert_int_equal(release_foreign().n[0], 1); /* this one is not damaged */
    for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
        make_damaged(damaged[i][0], damaged[i][1]);
        remember(dump, sizeof(dump), "foreign");
        answer = script_run(&server, LW__SCRIPT_RW_ACQUIRE, 3, FOREIGN_RW, t1, "600000",
                            "r A", "1 -1 0 " NUMBERS, NULL);
        assert_held_by(answer, "hash");
        answer = script_run(&server, LW__SCRIPT_RW_RENEW, 3, "lockwire:fence", "foreign",
                            "lockwire:2:rwqueue:{foreign}", NUMBERS, t1, "600000", NULL);
        renewed = strncmp(damaged[i][1], "0 ", 2) == 0 && damaged[i][1][2] != 'q';
        assert_int_equal(first_of(answer, 1), renewed);
        if (renewed) {
            assert_int_equal(script_do(&server, "PERSIST foreign"), 1);
        }
        assert_int_equal(first_of(release_foreign(), 1), 0);
        assert_int_equal(script_do(&server, "EXISTS lockwire:2:rwqueue:{foreign}"), 0);
        assert_stranger(dump, "foreign");
        assert_int_equal(script_do(&server, "PTTL foreign"), -1);
    }
}

static void the_two_modes_are_strangers_to_each_other(void **state)
{
    struct script_answer answer;

    (void)state;
    answer = script_run(&server, LW__SCRIPT_RW_ACQUIRE, 3, "n", "lockwire:2:rwqueue:{n}",
                        "lockwire:fence", t1, "600000", "r A", "0 -1 0 " NUMBERS, NULL);
    granted(rw_asked(answer));
    answer = acquire(t2, LEASE, 1, NO_TICKET);
    assert_int_equal(answer.n[0], 0);
    assert_string_equal(answer.text, "hash");
    script_do(&server, "DEL n");
    granted(acquire(t2, LEASE, 1, NO_TICKET));
    answer = script_run(&server, LW__SCRIPT_RW_ACQUIRE, 3, "n", "lockwire:2:rwqueue:{n}",
                        "lockwire:fence", t1, "600000", "r A", "0 -1 0 " NUMBERS, NULL);
    assert_int_equal(answer.n[0], 0);
    assert_string_equal(answer.text, "string");
}

/* Redisson enters a hash without a mode field, or with the mode "read" or its own
 * "write". */
static void redisson_s_read_write_lock_finds_ours_held(void **state)
{
    static const char *const kinds[] = {"w", "r"};

    (void)state;
    for (int i = 0; i < 2; i++) {
        granted(rw_acquire(t1, kinds[i], "A", 1, NO_TICKET));
        assert_int_equal(script_do(&server, "HEXISTS rw mode"), 1);
        assert_string_not_equal(script_get(&server, "HGET rw mode"), "read");
        assert_string_not_equal(script_get(&server, "HGET rw mode"), "write");
        rw_released(rw_release(t1, kinds[i], "A"), 0);
    }
}

static void a_queue_key_of_another_type_only_keeps_from_queueing_mutex(void **state)
{
    struct script_answer answer;

    (void)state;
    for (size_t i = 0; i < STRANGER_COUNT; i++) {
        if (strcmp(STRANGERS[i].type, "zset") == 0) {
            continue;
        }
        make_stranger(i, QUEUE);
        script_do(&server, "PEXPIRE " QUEUE " 100000");
        granted(acquire(t1, LEASE, 1, NO_TICKET));
        answer = acquire(t2, LEASE, 1, NO_TICKET);
        assert_int_equal(refused(answer, -1), answer.n[4]);
        assert_int_equal(refused(acquire(t2, LEASE, 1, answer.n[4]), -1), answer.n[4]);
        assert_int_equal(release(t1), 1);
        granted(acquire(t3, LEASE, 1, NO_TICKET));
        assert_int_equal(release(t1), 0);
        assert_int_equal(release(t3), 1);
        assert_free();
        assert_string_equal(script_get(&server, "TYPE " QUEUE), STRANGERS[i].type);
    }
}

static void a_queue_key_of_another_type_only_keeps_from_queueing_rw(void **state)
{
    struct script_answer answer;

    (void)state;
    for (size_t i = 0; i < STRANGER_COUNT; i++) {
        if (strcmp(STRANGERS[i].type, "zset") == 0) {
            continue;
        }
        make_stranger(i, RW_QUEUE);
        script_do(&server, "PEXPIRE " RW_QUEUE " 100000");
        granted(rw_acquire(t1, "r", "A", 1, NO_TICKET));
        granted(rw_acquire(t2, "r", "B", 1, NO_TICKET));
        answer = rw_acquire(t4, "w", "C", 1, NO_TICKET);
        assert_int_equal(refused(answer, -1), answer.n[4]);
        answer = rw_acquire(t4, "w", "C", 1, answer.n[4]);
        assert_true(refused(answer, -1) < answer.n[4]);
        assert_int_equal(refused(rw_acquire(t3, "w", "A", 1, NO_TICKET), -1), 0);
        assert_int_equal(rw_renew(t1, LEASE), 1);
        rw_released(rw_release(t1, "r", "A"), 0);
        rw_released(rw_release(t2, "r", "B"), 0);
        assert_string_equal(script_get(&server, "TYPE " RW_QUEUE), STRANGERS[i].type);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOKENS_TEST(a_stranger_s_key_of_any_type_is_held_and_never_touched_mutex),
        TOKENS_TEST(a_stranger_s_key_of_any_type_is_held_and_never_touched_rw),
        TOKENS_TEST(a_lock_that_is_damaged_is_a_stranger_s_though_our_token_is_in_it),
        TOKENS_TEST(the_two_modes_are_strangers_to_each_other),
        TOKENS_TEST(redisson_s_read_write_lock_finds_ours_held),
        TOKENS_TEST(a_queue_key_of_another_type_only_keeps_from_queueing_mutex),
        TOKENS_TEST(a_queue_key_of_another_type_only_keeps_from_queueing_rw),
    };

    return cmocka_run_group_tests(tests, start_server, stop_server);
}

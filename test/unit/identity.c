/* SPDX-License-Identifier: MIT */
/*
 * Where ids come from, and the keyed hash of a client's tables. The host program's own
 * random numbers are not affected by a client. No server is needed: a client has its id
 * before it connects.
 *
 * Usual course: clients are made in this process and in its children, and their ids are
 * compared.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/hash.h"
#include "base/random.h"
#include "lock/lock_private.h"

#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define URL "unix:///nonexistent/lockwire"

static bool exhausted; /* the system has no random bytes */

int __real_getentropy(void *ret, size_t size);
int __wrap_getentropy(void *ret, size_t size);

int __wrap_getentropy(void *ret, size_t size)
{
    if (!exhausted) {
        return __real_getentropy(ret, size);
    }
    errno = ENOSYS;
    return -1;
}

/* Creates and frees a client; returns its id. */
static void live(char uuid[LW__UUID_SIZE])
{
    struct event_base *base = event_base_new();
    struct lw_client *client = NULL;

    if (base == NULL || lw_client_new(base, URL, NULL, &client) != 0) {
        abort();
    }
    memcpy(uuid, client->holds.uuid, LW__UUID_SIZE);
    lw_client_free(client);
    event_base_free(base);
}

static void test_the_hosts_random_numbers_stay_its_own(void **state)
{
    char uuid[LW__UUID_SIZE];
    long expected[20];

    (void)state;
    srandom(1);
    for (int i = 0; i < 20; i++) {
        expected[i] = random();
    }
    srandom(1);
    for (int i = 0; i < 20; i++) {
        live(uuid);
        assert_true(random() == expected[i]);
    }
}

static void live_in_a_child(char uuid[LW__UUID_SIZE])
{
    int ends[2], status;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        live(uuid);
        _exit(write(ends[1], uuid, LW__UUID_SIZE) == LW__UUID_SIZE ? 0 : 1);
    }
    assert_true(child > 0);
    close(ends[1]);
    assert_int_equal(read(ends[0], uuid, LW__UUID_SIZE), LW__UUID_SIZE);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_forked_children_have_ids_of_their_own(void **state)
{
    char ids[4][LW__UUID_SIZE];

    (void)state;
    live(ids[0]); /* before the fork: no random bytes are kept */
    live_in_a_child(ids[1]);
    live_in_a_child(ids[2]);
    live(ids[3]);
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(ids[i], ids[j]);
        }
    }
}

static void test_an_id_is_a_random_uuid(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        char uuid[LW__UUID_SIZE];

        assert_true(lw__random_uuid(uuid));
        assert_int_equal(strlen(uuid), LW__UUID_SIZE - 1);
        assert_int_equal(strspn(uuid, "0123456789abcdef-"), LW__UUID_SIZE - 1);
        assert_true(uuid[8] == '-' && uuid[13] == '-' && uuid[18] == '-' &&
                    uuid[23] == '-');
        assert_int_equal(uuid[14], '4');
        assert_non_null(strchr("89ab", uuid[19]));
    }
}

static void test_without_random_bytes_there_is_no_client(void **state)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    struct event_base *base = event_base_new();
    struct lw_client *client = NULL;
    char why[100] = "";

    (void)state;
    options.errbuf = why;
    options.errbuf_size = sizeof(why);
    exhausted = true;
    assert_int_equal(lw_client_new(base, URL, &options, &client), LW_ENOMEM);
    exhausted = false;
    assert_null(client);
    assert_string_equal(why, "no random bytes from the system");
    event_base_free(base);
}

/* The expected hashes are those of CPython, which uses the same function, with
 * PYTHONHASHSEED=0. */
static void test_the_hash_is_siphash(void **state)
{
    static const struct {
        const char *text;
        uint64_t hash;
    } known[] = {{"x", UINT64_C(0xd141bba7fdc215a3)},
                 {"abcdefg", UINT64_C(0x6db12aae9070f506)},
                 {"abcdefgh", UINT64_C(0x3f7b849c0b8e35ea)},
                 {"job:42 and its name", UINT64_C(0xe22f61fb2ff094af)}};
    const struct lw__hash_key none = {{0, 0}}, one = {{1, 0}}, other = {{0, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
        const char *text = known[i].text;
        size_t length = strlen(text);

        assert_true(lw__hash(&none, text, length) == known[i].hash);
        assert_true(lw__hash(&one, text, length) != known[i].hash);
        assert_true(lw__hash(&other, text, length) != known[i].hash);
        assert_true(lw__hash(&one, text, length) != lw__hash(&other, text, length));
    }
}

#define NAMES 1000 /* the table grows four times */

static void test_names_are_found_among_many(void **state)
{
    struct event_base *base = event_base_new();
    struct lw__name *names[NAMES];
    const struct lw__name *name = NULL;
    struct lw_client *client;
    char text[16];
    unsigned count = 0;

    (void)state;
    assert_int_equal(lw_client_new(base, URL, NULL, &client), 0);
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(text, sizeof(text), "n%d", i);
        assert_non_null(names[i] = lw__name_get(&client->holds, text));
    }
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(text, sizeof(text), "n%d", i);
        assert_ptr_equal(lw__name_find(&client->holds, text), names[i]);
        assert_ptr_equal(lw__name_get(&client->holds, text), names[i]);
        lw__name_unref(&client->holds, names[i]);
    }
    assert_null(lw__name_find(&client->holds, "n"));
    while ((name = lw__name_after(&client->holds, name)) != NULL) {
        count++;
    }
    assert_int_equal(count, NAMES);
    for (int i = 0; i < NAMES; i++) {
        lw__name_unref(&client->holds, names[i]);
        (void)snprintf(text, sizeof(text), "n%d", i);
        assert_null(lw__name_find(&client->holds, text));
    }
    assert_null(lw__name_after(&client->holds, NULL));
    lw_client_free(client);
    event_base_free(base);
}

/* The position of a name in one client's table does not reveal that in another's. */
static void test_no_two_clients_hash_alike(void **state)
{
    struct event_base *base = event_base_new();
    struct lw_client *clients[2];
    unsigned alike = 0;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lw_client_new(base, URL, NULL, &clients[i]), 0);
    }
    for (char text[] = "a"; *text <= 'z'; ++*text) {
        struct lw__name *names[2];

        for (int i = 0; i < 2; i++) {
            assert_non_null(names[i] = lw__name_get(&clients[i]->holds, text));
        }
        alike += names[0]->hash == names[1]->hash;
        for (int i = 0; i < 2; i++) {
            assert_ptr_equal(lw__name_find(&clients[i]->holds, text), names[i]);
            lw__name_unref(&clients[i]->holds, names[i]);
        }
    }
    assert_true(alike < 26);
    for (int i = 0; i < 2; i++) {
        lw_client_free(clients[i]);
    }
    event_base_free(base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_hosts_random_numbers_stay_its_own),
        cmocka_unit_test(test_forked_children_have_ids_of_their_own),
        cmocka_unit_test(test_an_id_is_a_random_uuid),
        cmocka_unit_test(test_without_random_bytes_there_is_no_client),
        cmocka_unit_test(test_the_hash_is_siphash),
        cmocka_unit_test(test_no_two_clients_hash_alike),
        cmocka_unit_test(test_names_are_found_among_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

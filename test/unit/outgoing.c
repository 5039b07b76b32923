/* SPDX-License-Identifier: MIT */
/*
 * Bytes on their way out: kept in order however few the socket takes, no more than fits in
 * memory, and no large buffer kept; and what a dialled socket is like. Knows outgoing.h and
 * dial.h.
 *
 * Happy path: bytes are added, written to one end of a socket pair, read at the other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "dial.h"
#include "lockwire.h"
#include "outgoing.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define LARGE ((size_t)1 << 20)

static int ends[2];

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)close(ends[0]);
    (void)close(ends[1]);
    return 0;
}

/* Byte `at` of everything that is ever written. */
static char byte_at(size_t at)
{
    return (char)('a' + at % 26);
}

static void add(struct lw__outgoing *out, size_t at, size_t length)
{
    static char bytes[LARGE];

    for (size_t i = 0; i < length; i++) {
        bytes[i] = byte_at(at + i);
    }
    assert_int_equal(lw__outgoing_reserve(out, length), 0);
    lw__outgoing_add(out, bytes, length);
}

/* All that has arrived, which must go on at byte `at`; how much it was. */
static size_t take_in(size_t at)
{
    static char bytes[4096];
    size_t taken = 0;
    ssize_t length;

    while ((length = recv(ends[1], bytes, sizeof(bytes), 0)) > 0) {
        for (ssize_t i = 0; i < length; i++) {
            assert_int_equal(bytes[i], byte_at(at + taken + (size_t)i));
        }
        taken += (size_t)length;
    }
    return taken;
}

static void test_nothing_to_write_is_no_error(void **state)
{
    struct lw__outgoing out = {0};

    (void)state;
    assert_int_equal(lw__outgoing_write(&out, ends[0]), 0);
    assert_int_equal(lw__outgoing_reserve(&out, 0), 0);
    lw__outgoing_add(&out, "", 0);
    assert_int_equal(lw__outgoing_write(&out, ends[0]), 0);
    lw__outgoing_clear(&out);
}

/* The socket takes less than there is; more is added behind what is left. */
static void test_what_is_left_goes_first(void **state)
{
    struct lw__outgoing out = {0};
    size_t added = LARGE, taken = 0;

    (void)state;
    add(&out, 0, LARGE);
    for (int i = 0; taken < added; i++) {
        assert_int_equal(lw__outgoing_write(&out, ends[0]), 0);
        assert_int_equal(lw__outgoing_write(&out, ends[0]), 0); /* full: later */
        if (i < 40) {
            add(&out, added, 1000);
            added += 1000;
        }
        taken += take_in(taken);
    }
    assert_int_equal(out.begin, out.end);
    assert_true(out.size < LARGE / 4); /* no such buffer is kept */
    lw__outgoing_clear(&out);
}

static void test_a_small_buffer_is_kept(void **state)
{
    struct lw__outgoing out = {0};

    (void)state;
    for (size_t at = 0; at < 30000; at += 3000) {
        add(&out, at, 3000);
        assert_int_equal(lw__outgoing_write(&out, ends[0]), 0);
        assert_int_equal(take_in(at), 3000);
        assert_int_equal(out.size, 4096);
    }
    lw__outgoing_clear(&out);
}

/* Room that the begin of the buffer has is used, if the end has none. */
static void test_what_was_written_makes_room(void **state)
{
    struct lw__outgoing out = {0};

    (void)state;
    add(&out, 0, 4096);
    out.begin = 3000; /* as if that had been written */
    add(&out, 4096, 3000);
    assert_int_equal(out.size, 4096);
    assert_int_equal(lw__outgoing_write(&out, ends[0]), 0);
    assert_int_equal(take_in(3000), 4096);
    lw__outgoing_clear(&out);
}

static void test_more_than_any_memory_is_refused(void **state)
{
    struct lw__outgoing out = {0};

    (void)state;
    add(&out, 0, 10);
    assert_int_equal(lw__outgoing_reserve(&out, SIZE_MAX), LW_ENOMEM);
    assert_int_equal(lw__outgoing_reserve(&out, SIZE_MAX / 4), LW_ENOMEM);
    assert_int_equal(lw__outgoing_write(&out, ends[0]), 0); /* what was there is */
    assert_int_equal(take_in(0), 10);
    lw__outgoing_clear(&out);
}

static void test_an_error_of_the_socket_is_told(void **state)
{
    struct lw__outgoing out = {0};

    (void)state;
    add(&out, 0, 10);
    assert_int_equal(shutdown(ends[0], SHUT_WR), 0);
    assert_int_equal(lw__outgoing_write(&out, ends[0]), EPIPE);
    lw__outgoing_clear(&out);
}

/* Dialling */

static void test_hosts_that_are_no_address(void **state)
{
    static const char *const hosts[] = {
        "name",
        "::1::2",
        "1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19:20:21:22",
        "fe80::1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19%eth0",
        "1.2.3",
        "",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++) {
        struct lw__link_options options = {.host = hosts[i], .port = 1};
        assert_int_equal(lw__dial(&options), -EINVAL);
    }
}

/* A zone is an interface's name or number; the loopback's is known under both. */
static void test_zones_by_name_and_by_number(void **state)
{
    static const char *const hosts[] = {"::1%lo", "::1%1"};

    (void)state;
    for (size_t i = 0; i < sizeof(hosts) / sizeof(*hosts); i++) {
        struct lw__link_options options = {.host = hosts[i], .port = 1};
        int fd = lw__dial(&options);
        assert_int_not_equal(fd, -EINVAL); /* whether anybody is there is another matter */
        if (fd >= 0) {
            (void)close(fd);
        }
    }
}

static void test_no_descriptor_is_left(void **state)
{
    struct lw__link_options options = {.host = "127.0.0.1", .port = 1};
    struct rlimit before, none;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int fd = lw__dial(&options);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(fd, -EMFILE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_to_write_is_no_error),
        TEST(test_what_is_left_goes_first),
        TEST(test_a_small_buffer_is_kept),
        TEST(test_what_was_written_makes_room),
        TEST(test_more_than_any_memory_is_refused),
        TEST(test_an_error_of_the_socket_is_told),
        TEST(test_hosts_that_are_no_address),
        TEST(test_zones_by_name_and_by_number),
        TEST(test_no_descriptor_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

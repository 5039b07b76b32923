/* SPDX-License-Identifier: MIT */
/*
 * busy_poll_us: the rule by which a link looks at its socket before the loop sleeps, and
 * when a link looks. Looks are counted as calls of recv with MSG_PEEK, which only a look
 * makes here. The fake server does not reply in the meantime, so no test depends on how
 * long a look takes.
 */
#include "link_scene.h"
#include "redis/busy_poll.h"

#include <sys/socket.h>
#include <sys/types.h>

static unsigned peeks;

ssize_t __real_recv(int fd, void *bytes, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags);

ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags)
{
    peeks += (flags & MSG_PEEK) != 0;
    return __real_recv(fd, bytes, size, flags);
}

/* ---- the rule ---- */

/* Returns for how many writes there is no look. */
static unsigned pause_of(struct lw__busy_poll *poll)
{
    unsigned writes = 0;

    while (!lw__busy_poll_wants(poll)) {
        writes++;
    }
    return writes;
}

static void test_four_fruitless_looks_in_a_row_pause_it_and_later_one(void **state)
{
    struct lw__busy_poll poll = {0};

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pause_of(&poll), 0);
        lw__busy_poll_note(&poll, 100, false);
    }
    for (unsigned pause = 256; pause <= 4096; pause *= 2) {
        assert_int_equal(pause_of(&poll), pause);
        lw__busy_poll_note(&poll, 100, false);
    }
    assert_int_equal(pause_of(&poll), 4096);
}

static void test_a_look_that_finds_a_reply_makes_up_for_those_before(void **state)
{
    struct lw__busy_poll poll = {0};

    (void)state;
    for (int i = 0; i < 4; i++) {
        lw__busy_poll_note(&poll, 100, false);
    }
    (void)pause_of(&poll);
    lw__busy_poll_note(&poll, 2, true);
    for (int i = 0; i < 3; i++) {
        lw__busy_poll_note(&poll, 100, false);
        assert_int_equal(pause_of(&poll), 0);
    }
    lw__busy_poll_note(&poll, 100, false);
    assert_int_equal(pause_of(&poll), 256);
}

static void test_replies_that_had_come_already_pause_it_in_the_end(void **state)
{
    struct lw__busy_poll poll = {0};

    (void)state;
    for (int i = 0; i < 63; i++) {
        lw__busy_poll_note(&poll, 1, true);
        assert_int_equal(pause_of(&poll), 0);
    }
    lw__busy_poll_note(&poll, 1, true);
    assert_int_equal(pause_of(&poll), 256);
}

/* ---- a link ---- */

static void open_with(struct scene *scene, uint32_t busy_poll_us)
{
    scene->busy_poll_us = busy_poll_us;
    scene_open(scene);
    settle(scene);
    peeks = 0;
}

/* Sends a request, has it served, and returns how often the link peeked. */
static unsigned peeks_of(struct scene *scene, struct ask *ask, int number)
{
    char reply[16], entry[16];

    peeks = 0;
    scene_send(scene, ask, number, 1);
    await_bytes(scene, (size_t)number * 14);
    settle(scene);
    (void)snprintf(reply, sizeof(reply), ":%d\r\n", number);
    (void)snprintf(entry, sizeof(entry), "%d:%d ", number, number);
    serve(scene, reply);
    await(scene, entry);
    return peeks;
}

static void test_a_link_looks_until_the_rule_pauses_it(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    open_with(scene, 100);
    for (int i = 1; i <= 4; i++) {
        assert_true(peeks_of(scene, &ask, i) > 0);
    }
    assert_int_equal(peeks_of(scene, &ask, 5), 0);
}

static void test_a_link_without_the_option_never_looks(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    open_with(scene, 0);
    assert_int_equal(peeks_of(scene, &ask, 1), 0);
}

static void nothing(void *arg)
{
    (void)arg;
}

/* Called by the loop: another call is then to be made in the next turn. */
static void defer_other(void *arg)
{
    struct scene *scene = arg;
    static struct lw__deferred other;

    lw__defer_init(&other, nothing, NULL);
    lw__defer(scene->loop, &other, false);
}

static void test_a_link_does_not_look_while_calls_wait(void **state)
{
    struct scene *scene = *state;
    static struct lw__deferred first;
    static struct ask ask;

    open_with(scene, 100);
    lw__defer_init(&first, defer_other, scene);
    lw__defer(scene->loop, &first, false);
    assert_int_equal(peeks_of(scene, &ask, 1), 0);
    assert_true(peeks_of(scene, &ask, 2) > 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_four_fruitless_looks_in_a_row_pause_it_and_later_one),
        cmocka_unit_test(test_a_look_that_finds_a_reply_makes_up_for_those_before),
        cmocka_unit_test(test_replies_that_had_come_already_pause_it_in_the_end),
        TEST(test_a_link_looks_until_the_rule_pauses_it),
        TEST(test_a_link_without_the_option_never_looks),
        TEST(test_a_link_does_not_look_while_calls_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * Which watches look again when a server reports that a key has changed, and when: those
 * of the key's name, within a fifth of the interval, however many reports follow. No
 * server is needed: the report is a call, and the look is a timer.
 *
 * Usual course: idle() has the watch wait for nothing; lw__watch_key_changed(); then
 * looks_again().
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "look/look.h"
#include "loop/loop.h"

#include <event2/event.h>

#define INTERVAL_MS 10000
#define IDLE_US ((int64_t)INTERVAL_MS * LW__MS * 10)

static struct event_base *base;
static struct lw_client *client;
static struct lw_watcher *job, *other;

static void on_changed(struct lw_watcher *watch, int status,
                       const struct lw_inspection *now, const char *why, void *arg)
{
    (void)watch, (void)status, (void)now, (void)why, (void)arg;
}

static struct lw_watcher *begin(const char *name)
{
    struct lw_watch_options options = LW_WATCH_OPTIONS_INIT;
    struct lw_watcher *watch = NULL;

    options.interval_ms = INTERVAL_MS;
    assert_int_equal(lw_watch(client, name, &options, on_changed, NULL, &watch), 0);
    return watch;
}

static int set_up(void **state)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;

    (void)state;
    base = event_base_new();
    assert_non_null(base);
    options.prefix = "team:";
    assert_int_equal(
        lw_client_new(base, "unix:///nonexistent/lockwire", &options, &client), 0);
    job = begin("job");
    other = begin("another");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lw_watcher_free(job);
    lw_watcher_free(other);
    lw_client_free(client);
    event_base_free(base);
    return 0;
}

/* As an interval after a look, with a long time until the next one. */
static void idle(struct lw_watcher *watch)
{
    watch->again = watch->again_soon = watch->looking = false;
    watch->looked_us = lw__now_us() - (int64_t)INTERVAL_MS * LW__MS;
    lw__timer_set(client->loop, &watch->timer, watch->looked_us + IDLE_US);
}

static int64_t due_us(const struct lw_watcher *watch)
{
    return lw__timer_due_us(client->loop, &watch->timer);
}

static bool looks_again(const struct lw_watcher *watch)
{
    if (!watch->again) {
        assert_int_equal(due_us(watch), watch->looked_us + IDLE_US);
        return false;
    }
    assert_true(due_us(watch) <= lw__now_us() + (int64_t)INTERVAL_MS * LW__MS / 5);
    return true;
}

static bool is_woken_by(const char *key)
{
    idle(job);
    lw__watch_key_changed(client, key);
    return looks_again(job);
}

static void test_the_keys_of_the_name(void **state)
{
    (void)state;
    assert_true(is_woken_by("team:job"));
    assert_true(is_woken_by("team:lockwire:2:queue:{team:job}"));
    assert_true(is_woken_by("team:lockwire:2:rwqueue:{team:job}"));
    assert_true(is_woken_by("team:lockwire:2:holder:{team:job}"));
}

static void test_the_keys_of_other_names(void **state)
{
    static const char *const keys[] = {"",        "job",
                                       "team:jo", "team:jobless",
                                       "eam:job", "team:lockwire:2:queue:{team:jobs}",
                                       "x",       "}"};

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        assert_false(is_woken_by(keys[i]));
    }
}

static void test_a_report_is_for_one_watch_and_a_flush_for_all(void **state)
{
    (void)state;
    idle(other);
    assert_true(is_woken_by("team:job"));
    assert_false(looks_again(other));
    idle(job);
    lw__watch_key_changed(client, NULL);
    assert_true(looks_again(job) && looks_again(other));
}

static void test_further_reports_do_not_delay_the_look(void **state)
{
    int64_t first_us;

    (void)state;
    assert_true(is_woken_by("team:job"));
    first_us = due_us(job);
    for (int i = 0; i < 100; i++) {
        lw__watch_key_changed(client, "team:job");
        assert_true(due_us(job) <= first_us);
    }
}

/* The look is repeated when it has ended. */
static void test_a_report_during_a_look_is_kept(void **state)
{
    (void)state;
    idle(job);
    job->looking = true;
    lw__watch_key_changed(client, "team:job");
    assert_true(job->again);
    assert_int_equal(due_us(job), job->looked_us + IDLE_US);
    job->looking = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_keys_of_the_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_keys_of_other_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            test_a_report_is_for_one_watch_and_a_flush_for_all, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_further_reports_do_not_delay_the_look,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_report_during_a_look_is_kept, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * The mark by which a forked child differs from its parent: with the page that the kernel
 * wipes, without it, and with a madvise() that returns 0 without effect. Usual course: a
 * mark is made, a child checks it, and its exit status is the result.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/process.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* qemu-user 7.2 accepts all advice, and ignores it. */
static bool ignores_advice;

int __real_madvise(void *address, size_t length, int advice);
int __wrap_madvise(void *address, size_t length, int advice);
int __wrap_madvise(void *address, size_t length, int advice)
{
    return ignores_advice ? 0 : __real_madvise(address, length, advice);
}

static bool child_sees_itself(const struct lw__process_mark *mark)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        _exit(lw__process_is_child(mark) ? 7 : 0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status) == 7;
}

static void test_a_child_is_told_from_its_parent(void **state)
{
    struct lw__process_mark mark;

    (void)state;
    lw__process_mark(&mark);
    assert_int_equal(mark.pid, getpid());
    assert_false(lw__process_is_child(&mark));
    assert_true(child_sees_itself(&mark));
    assert_false(lw__process_is_child(&mark));
    lw__process_unmark(&mark);
}

static void test_without_a_page_the_pid_tells(void **state)
{
    struct lw__process_mark mark;

    (void)state;
    lw__process_mark(&mark);
    lw__process_unmark(&mark);
    assert_null(mark.page);
    assert_false(lw__process_is_child(&mark));
    assert_true(child_sees_itself(&mark));
    lw__process_unmark(&mark); /* again: no effect */
}

static void test_an_emulator_that_ignores_advice_is_not_believed(void **state)
{
    struct lw__process_mark mark;

    (void)state;
    ignores_advice = true;
    lw__process_mark(&mark);
    ignores_advice = false;
    assert_false(lw__process_is_child(&mark));
    assert_true(child_sees_itself(&mark));
    lw__process_unmark(&mark);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_is_told_from_its_parent),
        cmocka_unit_test(test_without_a_page_the_pid_tells),
        cmocka_unit_test(test_an_emulator_that_ignores_advice_is_not_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

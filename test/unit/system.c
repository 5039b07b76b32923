/* SPDX-License-Identifier: MIT */
/*
 * The descriptors of a child after system_close_descriptors_above. Uses system.h.
 *
 * Usual course: pipes, a fork, the child's exit code.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "system.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY 100

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

/* Returns the first descriptor that is open and should not be, or the reverse; else 0. */
static int first_wrong(int last, int highest)
{
    for (int fd = 1; fd <= highest; fd++) {
        if (is_open(fd) != (fd <= last)) {
            return fd;
        }
    }
    return 0;
}

static void check_above(int last)
{
    int highest = 0, status;

    for (int i = 0; i < MANY; i++) {
        highest = dup(1);
    }
    assert_true(highest >= MANY);
    pid_t pid = fork();
    if (pid == 0) {
        system_close_descriptors_above(last);
        _exit(first_wrong(last, highest));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    for (int fd = highest; fd > highest - MANY; fd--) {
        assert_int_equal(close(fd), 0); /* the child closed only its own */
    }
}

static void test_all_above_are_closed_and_no_other(void **state)
{
    (void)state;
    check_above(2);
    check_above(50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_above_are_closed_and_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

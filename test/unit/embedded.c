/* SPDX-License-Identifier: MIT */
/*
 * An embedded server that is reaped by a waitpid outside of embedded.c. The test counts
 * the signals that the process sends. It is the only unit test that needs a redis-server.
 *
 * Usual course: embedded_start, a SIGKILL, waitpid, embedded_reaped; embedded_stop then
 * sends no signal, and removes the directory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "embedded.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int signals;

/* Replaces the system's function, also for embedded.c. */
int kill(pid_t pid, int number)
{
    signals++;
    return (int)syscall(SYS_kill, pid, number);
}

static void start(struct embedded *server, const char *dir)
{
    char why[EMBEDDED_WHY_MAX] = "";

    if (embedded_start(server, dir, NULL, why) < 0) {
        fail_msg("%s", why);
    }
}

static bool is_there(const char *path)
{
    struct stat info;

    return lstat(path, &info) == 0;
}

/* Ends the server, and reaps it outside of embedded.c. */
static void end_and_reap(struct embedded *server)
{
    pid_t pid = server->pid;

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(embedded_reaped(server, pid + 1));
    assert_true(embedded_reaped(server, pid));
    assert_false(embedded_reaped(server, pid));
    signals = 0;
}

static void test_one_in_a_directory_of_its_own(void **state)
{
    struct embedded server;

    (void)state;
    start(&server, NULL);
    end_and_reap(&server);
    embedded_stop(&server);
    assert_int_equal(signals, 0);
    assert_false(is_there(server.dir));
}

static void test_one_in_a_directory_that_stays(void **state)
{
    char dir[] = "/tmp/lockwire-test-XXXXXX";
    struct embedded server;

    (void)state;
    assert_non_null(mkdtemp(dir));
    start(&server, dir);
    end_and_reap(&server);
    embedded_stop(&server);
    assert_int_equal(signals, 0);
    assert_false(is_there(server.socket));
    assert_true(is_there(server.dir));
    char log[sizeof(dir) + sizeof("/log")];
    (void)snprintf(log, sizeof(log), "%s/log", dir);
    assert_int_equal(unlink(log), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void test_one_that_lives_is_killed_once(void **state)
{
    struct embedded server;

    (void)state;
    start(&server, NULL);
    pid_t pid = server.pid;
    signals = 0;
    embedded_stop(&server);
    assert_int_equal(signals, 1);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
    embedded_stop(&server);
    assert_int_equal(signals, 1);
    assert_false(embedded_reaped(&server, pid));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_in_a_directory_of_its_own),
        cmocka_unit_test(test_one_in_a_directory_that_stays),
        cmocka_unit_test(test_one_that_lives_is_killed_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

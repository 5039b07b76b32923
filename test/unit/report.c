/* SPDX-License-Identifier: MIT */
/*
 * The command's exit codes, which one function decides for all subcommands, and its
 * reports of failures. Independent of the rest of the command.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "report.h"
#include "lockwire.h"

#define BUSY 42 /* --conflict-exit-code */

static void test_each_status_with_each_cause(void **state)
{
    static const struct {
        int status, cause, code;
    } cases[] = {
        {LW_EBUSY, LW_OK, BUSY},
        {LW_EDEADLOCK, LW_OK, BUSY},
        {LW_ETIMEOUT, LW_OK, BUSY},
        {LW_ETIMEOUT, LW_ECONN, EXIT_NO_SERVER},
        {LW_ETIMEOUT, LW_EREDIS, EXIT_REFUSED},
        {LW_ETIMEOUT, LW_ESYSTEM, EXIT_SYSTEM},
        {LW_ECONN, LW_OK, EXIT_NO_SERVER},
        {LW_ECONN, LW_ECONN, EXIT_NO_SERVER},
        {LW_ECONN, LW_EREDIS, EXIT_REFUSED},
        {LW_ECONN, LW_ESYSTEM, EXIT_SYSTEM},
        {LW_ECONN, LW_ENOMEM, EXIT_SYSTEM},
        {LW_EREDIS, LW_OK, EXIT_REFUSED},
        {LW_EREDIS, LW_EREDIS, EXIT_REFUSED},
        {LW_EREDIS, LW_ECONN, EXIT_NO_SERVER},
        {LW_ELOST, LW_OK, EXIT_LOST},
        {LW_ELOST, LW_ECONN, EXIT_LOST},
        {LW_ELOST, LW_EREDIS, EXIT_REFUSED},
        {LW_ENOTHELD, LW_OK, EXIT_LOST},
        {LW_EINVAL, LW_OK, EXIT_USAGE},
        {LW_EUNKNOWN, LW_OK, EXIT_NO_SERVER},
        {LW_ENOMEM, LW_OK, EXIT_SYSTEM},
        {LW_ECLOSED, LW_OK, EXIT_SYSTEM},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(exit_code_for(cases[i].status, cases[i].cause, BUSY),
                         cases[i].code);
    }
}

/* Compares what report_failure writes, which goes through a pipe. */
static void check_failure(const char *name, int error, bool link_up, const char *why,
                          const char *expected)
{
    char text[200] = "";
    int ends[2], saved = dup(STDERR_FILENO);

    assert_int_equal(pipe(ends), 0);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    report_failure("lock", name, error, link_up, why);
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    assert_true(read(ends[0], text, sizeof(text) - 1) > 0);
    assert_string_equal(text, expected);
    (void)close(ends[0]);
    (void)close(ends[1]);
    (void)close(saved);
}

static void test_each_error_has_a_reason(void **state)
{
    (void)state;
    check_failure("x", LW_EREDIS, true, "",
                  "lockwire: cannot lock 'x': refused by the server\n");
    check_failure(
        "x", LW_EREDIS, false, "NOAUTH",
        "lockwire: cannot lock 'x': the server rejected the connection: NOAUTH\n");
    check_failure(
        "x", LW_ECONN, true, "",
        "lockwire: cannot lock 'x': the server cannot process the request now\n");
    check_failure("x", LW_ECONN, false, "",
                  "lockwire: cannot lock 'x': no connection to the server\n");
    check_failure("x", LW_EUNKNOWN, true, "",
                  "lockwire: cannot lock 'x': no reply in time\n");
    check_failure("x", LW_ENOMEM, true, "", "lockwire: cannot lock 'x': out of memory\n");
    check_failure(NULL, LW_ENOMEM, true, "", "lockwire: cannot lock: out of memory\n");
}

/* The state is in the reply, or in why the link is down. A reply may quote it. */
static void test_each_state_is_named(void **state)
{
    (void)state;
    check_failure("x", LW_ECONN, true, "OOM command not allowed",
                  "lockwire: cannot lock 'x': the server is out of memory: OOM command "
                  "not allowed\n");
    check_failure("x", LW_ECONN, false, "CLIENT SETNAME: LOADING Redis",
                  "lockwire: cannot lock 'x': the server is loading its data: CLIENT "
                  "SETNAME: LOADING Redis\n");
    check_failure("x", LW_ECONN, true, "BUSYKEY x",
                  "lockwire: cannot lock 'x': the server cannot process the request now: "
                  "BUSYKEY x\n");
    check_failure("x", LW_EREDIS, true, "OOM",
                  "lockwire: cannot lock 'x': refused by the server: OOM\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_status_with_each_cause),
        cmocka_unit_test(test_each_error_has_a_reason),
        cmocka_unit_test(test_each_state_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

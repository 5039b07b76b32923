/* SPDX-License-Identifier: MIT */
/*
 * The command's exit codes: one function decides them for all subcommands, by the status
 * of a call and by the class of what the server or the socket said. Knows report.h alone.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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
        {LW_ENOMEM, LW_OK, EXIT_SYSTEM},
        {LW_ECLOSED, LW_OK, EXIT_SYSTEM},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_int_equal(exit_code_for(cases[i].status, cases[i].cause, BUSY),
                         cases[i].code);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_status_with_each_cause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

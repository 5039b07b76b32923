/* SPDX-License-Identifier: MIT */
/*
 * The job of a command, without other processes. Usual course: the command's process
 * ends, job_signal is called, and then `on_end`.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "job.h"

#include <event2/event.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define TURNS 1000 /* of the loop; a check takes one */

struct scene {
    struct event_base *base;
    struct job job;
    int turns, code;
};

static void on_over(int code, void *arg)
{
    struct scene *scene = arg;

    scene->code = code;
    event_base_loopbreak(scene->base);
}

static int64_t left_ms(void *arg)
{
    (void)arg;
    return 60000;
}

static void on_child_signal(evutil_socket_t fd, short what, void *arg)
{
    struct scene *scene = arg;

    (void)fd, (void)what;
    job_signal(&scene->job, SIGCHLD, false);
    if (++scene->turns == TURNS) {
        event_base_loopbreak(scene->base);
    }
}

/* Starts a job whose process has ended, which the job has not seen yet. */
static void begin(struct scene *scene)
{
    static char *argv[] = {"true", NULL};
    struct job_plan plan = {.argv = argv,
                            .name = "n",
                            .direct = true,
                            .on_end = on_over,
                            .left_ms = left_ms,
                            .arg = scene};
    siginfo_t ended;

    *scene = (struct scene){.base = event_base_new(), .code = -1};
    assert_int_equal(job_start(&scene->job, scene->base, &plan), 0);
    assert_int_equal(waitid(P_PID, (id_t)scene->job.child, &ended, WEXITED | WNOWAIT), 0);
}

static void end(struct scene *scene)
{
    job_free(&scene->job);
    event_base_free(scene->base);
}

/* Children that end in every turn of the loop do not delay the check. */
static void test_signals_without_end(void **state)
{
    struct scene scene;
    struct event *always;
    int ends[2];

    (void)state;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    begin(&scene);
    always =
        event_new(scene.base, ends[0], EV_READ | EV_PERSIST, on_child_signal, &scene);
    event_add(always, NULL);
    event_base_dispatch(scene.base);
    assert_int_equal(scene.code, 0);
    event_free(always);
    end(&scene);
    close(ends[0]);
    close(ends[1]);
}

/* No process is left to be stopped: the job ends, whichever signal is handled first. */
static void test_stop_after_its_end(void **state)
{
    struct scene scene;

    (void)state;
    begin(&scene);
    job_signal(&scene.job, SIGTSTP, false);
    assert_int_equal(scene.code, 0);
    end(&scene);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signals_without_end),
        cmocka_unit_test(test_stop_after_its_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * The differential test of the model server: it does the same random steps on the model
 * and on a real redis-server, at the same frozen time. Replies, messages, keys and TTLs
 * must be the same after every step. This file has the options, the mix of steps and the
 * passing of time.
 *
 * The model is of Redis 7.0. Other versions word errors differently: for them only the
 * codes must be the same, and the fixed lists, which test texts and odd shapes, are left
 * out.
 *
 * Usual course: difftest --clock LIBRARY [--redis-server PROGRAM] [--seed N] [--steps N]
 * prints the seed and the figures, and exits with 0. It exits with 77 (skipped) if there
 * is no redis-server, or if its time cannot be frozen.
 */
#include "diff.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct options {
    const char *clock_library;
    const char *program;
    uint64_t seed;
    uint64_t steps;
};

static bool parse_options(int argc, char **argv, struct options *options)
{
    const char *seed = getenv("LOCKWIRE_SEED"); /* as for the simulator (sim.c) */

    *options = (struct options){.program = "redis-server", .steps = 20000};
    options->seed = seed != NULL ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--clock") == 0) {
            options->clock_library = argv[i + 1];
        } else if (strcmp(argv[i], "--redis-server") == 0) {
            options->program = argv[i + 1];
        } else if (strcmp(argv[i], "--seed") == 0) {
            options->seed = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--steps") == 0) {
            options->steps = strtoull(argv[i + 1], NULL, 10);
        } else {
            return false;
        }
    }
    return options->clock_library != NULL && argc % 2;
}

/* Advances the time, mostly by little, so that queues grow; sometimes past leases, claim
 * windows and queues. Sometimes sets it back. */
static void pass_time(struct diff *diff)
{
    static const struct {
        unsigned in_thousand;
        int64_t low_us, high_us;
    } ways[] = {
        {500, 0, 0},
        {300, 1, 900},
        {150, 1000, 300000},
        {44, 300000, 5000000},
        {4, 100000000, 200000000},
        {2, -60000000, -1},
    };
    uint64_t draw = rng_below(&diff->rng, 1000);
    size_t at = 0;

    for (; draw >= ways[at].in_thousand; at++) {
        draw -= ways[at].in_thousand;
    }
    diff_set_time(diff, diff->time_us +
                            rng_between(&diff->rng, ways[at].low_us, ways[at].high_us));
}

static void flush_scripts(struct diff *diff)
{
    diff_admin(diff, "script flush");
    model_server_flush_scripts(diff->model);
}

static void run_steps(struct diff *diff, uint64_t steps)
{
    for (diff->step = 1; diff->step <= steps; diff->step++) {
        uint64_t draw = rng_below(&diff->rng, 1000);

        pass_time(diff);
        if (draw < 740) {
            diff_step_lock(diff);
        } else if (draw < 905) {
            diff_step_plain(diff);
        } else if (draw < 930) {
            diff_step_clean(diff);
        } else if (draw < 975) {
            diff_step_listen(diff);
        } else if (draw < 998) {
            diff_step_fault(diff);
        } else {
            flush_scripts(diff);
        }
        diff_check_keys(diff);
    }
}

static void print_figures(const struct diff *diff, uint64_t steps)
{
    const struct diff_figures *figures = &diff->figures;

    (void)printf("%" PRIu64 " steps alike: %" PRIu64 " commands, %" PRIu64
                 " of them errors; %" PRIu64 " grants, %" PRIu64 " refusals, %" PRIu64
                 " messages; %" PRIu64 " states of keys compared\n",
                 steps, figures->commands, figures->errors, figures->grants,
                 figures->refusals, figures->messages, figures->key_states);
}

int main(int argc, char **argv)
{
    struct options options;
    struct diff diff = {0};

    if (!parse_options(argc, argv, &options)) {
        (void)fputs("usage: difftest --clock LIBRARY [--redis-server PROGRAM] [--seed N] "
                    "[--steps N]\n",
                    stderr);
        return 2;
    }
    (void)printf("seed %" PRIu64 "\n", options.seed);
    (void)fflush(stdout);
    diff.seed = options.seed;
    rng_seed(&diff.rng, options.seed);
    if (!diff_start(&diff, options.program, options.clock_library)) {
        (void)printf("%s is not there, or does not stand still: skipped\n",
                     options.program);
        return 77;
    }
    diff_fixed_identity(&diff);
    if (diff.texts) {
        diff_fixed_scripts(&diff);
        diff_fixed_refusals(&diff);
    }
    run_steps(&diff, options.steps);
    diff_clear_fault(&diff);
    print_figures(&diff, options.steps);
    bool nothing_happened = options.steps >= 1000 &&
                            (!diff.figures.grants || !diff.figures.refusals ||
                             !diff.figures.messages || !diff.figures.errors);
    if (nothing_happened) {
        (void)puts("but too little happened: the test's mix of steps is wrong");
    }
    diff_stop(&diff);
    return nothing_happened;
}

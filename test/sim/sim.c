/* SPDX-License-Identifier: MIT
 *
 * The simulator's command line: one seed with its trace, or many, each in a process of
 * its own that starts from the same memory. Knows nothing of what a run does.
 *
 *   sim --seed N          runs one and tells what happens
 *   sim --seeds A..B      runs many; says which failed and why, with the end of the first
 *                         one's trace, and ends with 1 if any did
 *   sim --replay A..B     runs each twice; ends with 1 if their traces are not the same
 *
 * A further word, --sentinels, has hosts ask sentinels in all of them; without, one seed
 * in six does. With --cluster the servers are a cluster in all of them, as they are in
 * one of six without. With --sets many calls acquire several names at once. With --guard
 * all clients use the guard; without, one seed in twelve does. With --detach locks are
 * detached and adopted in all worlds, else in one of eight.
 */
#include "world.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CPU_SECONDS 30 /* no seed takes a tenth of it */

#ifdef __SANITIZE_ADDRESS__
static size_t allocated(void)
{
    return 0; /* its own leak check runs at exit */
}
#else
static size_t allocated(void)
{
    return mallinfo2().uordblks;
}
#endif

/* Blocks that malloc keeps aside for reuse count as allocated, unless it keeps none. */
static void count_exactly(char **argv)
{
    static const char name[] = "GLIBC_TUNABLES";

    if (getenv(name) == NULL) {
        setenv(name, "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0", 1);
        execv("/proc/self/exe", argv);
    }
}

/* Once before it is counted: what the C library and libevent keep for good. */
static void warm_up(void)
{
    struct event_base *base = event_base_new();

    event_base_free(base);
}

static void run(uint64_t seed)
{
    size_t before = allocated();

    world_run(seed);
    if (allocated() != before) {
        violation("%zd bytes are still allocated", (ssize_t)(allocated() - before));
    }
    trace("done: %u operations, %u granted, %u failed, %u lost", world.op_count,
          world.granted, world.failed, world.lost);
    if (world.plan.watched || world.plan.clustered) {
        trace("%u failovers, %u excused, %u moves", world.failovers, world.excused,
              world.moves);
    }
}

/* What a run came to; all zero where it failed. */
struct outcome {
    bool good;
    int64_t virtual_us;
    uint64_t sum, granted, failovers, excused, moves;
};

static void be_the_child(uint64_t seed, int out)
{
    struct outcome outcome = {.good = true};

    setrlimit(RLIMIT_CPU, &(struct rlimit){CPU_SECONDS, CPU_SECONDS});
    run(seed);
    outcome.virtual_us = world.now_us - BEGIN_US;
    outcome.sum = trace_sum;
    outcome.granted = world.granted;
    outcome.failovers = world.failovers;
    outcome.excused = world.excused;
    outcome.moves = world.moves;
    if (write(out, &outcome, sizeof(outcome)) != sizeof(outcome)) {
        _exit(1);
    }
    exit(0); /* where a sanitizer looks for leaks */
}

static struct outcome run_apart(uint64_t seed, enum trace_mode mode)
{
    struct outcome outcome = {0};
    int status, ends[2];
    pid_t pid;

    trace_mode = mode;
    if (pipe(ends) != 0 || (pid = fork()) < 0) {
        perror("sim");
        exit(2);
    }
    if (pid == 0) {
        close(ends[0]);
        be_the_child(seed, ends[1]);
    }
    close(ends[1]);
    if (read(ends[0], &outcome, sizeof(outcome)) != sizeof(outcome)) {
        outcome.good = false;
    }
    close(ends[0]);
    if (waitpid(pid, &status, 0) != pid || status != 0) {
        outcome.good = false;
    }
    if (WIFSIGNALED(status)) {
        (void)fprintf(stderr, "seed %llu: ended by signal %d\n", (unsigned long long)seed,
                      WTERMSIG(status));
    }
    return outcome;
}

static int run_many(uint64_t first, uint64_t last)
{
    unsigned long long granted = 0, failovers = 0, excused = 0, moves = 0;
    int64_t virtual_us = 0;
    unsigned failures = 0;

    for (uint64_t seed = first; seed <= last; seed++) {
        struct outcome outcome = run_apart(seed, TRACE_OFF);

        virtual_us += outcome.virtual_us;
        granted += outcome.granted;
        failovers += outcome.failovers;
        excused += outcome.excused;
        moves += outcome.moves;
        if (!outcome.good && failures++ == 0) {
            run_apart(seed, TRACE_LAST);
        }
    }
    (void)printf(
        "%llu seeds, %.1f virtual hours, %llu grants, %u failed; under sentinels and in "
        "clusters %llu failovers, %llu overlaps by what they lost, %llu slots moved\n",
        (unsigned long long)(last - first + 1), (double)virtual_us / SECOND / 3600,
        granted, failures, failovers, excused, moves);
    return failures > 0;
}

/* A seed is of use if it does the same again, to the last byte on the wire. */
static int compare_replays(uint64_t first, uint64_t last)
{
    int failures = 0;

    for (uint64_t seed = first; seed <= last; seed++) {
        struct outcome a = run_apart(seed, TRACE_SUM), b = run_apart(seed, TRACE_SUM);

        if (a.good && b.good && a.sum == b.sum && a.virtual_us == b.virtual_us) {
            continue;
        }
        (void)fprintf(stderr, "seed %llu does not do the same twice\n",
                      (unsigned long long)seed);
        failures++;
    }
    return failures > 0;
}

int main(int argc, char **argv)
{
    unsigned long long first, last;

    count_exactly(argv);
    (void)setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    warm_up();
    if (argc == 4) {
        plan_watches_all = strcmp(argv[3], "--sentinels") == 0;
        plan_clusters_all = strcmp(argv[3], "--cluster") == 0;
        plan_sets_all = strcmp(argv[3], "--sets") == 0;
        plan_guards_all = strcmp(argv[3], "--guard") == 0;
        plan_detaches_all = strcmp(argv[3], "--detach") == 0;
        plan_quorums_all = strcmp(argv[3], "--quorum") == 0;
        argc -= plan_watches_all || plan_clusters_all || plan_sets_all ||
                plan_guards_all || plan_detaches_all || plan_quorums_all;
    }
    if (argc == 3 && strcmp(argv[1], "--seed") == 0 &&
        sscanf(argv[2], "%llu", &first) == 1) {
        trace_mode = TRACE_ALL;
        run(first);
        return 0;
    }
    if (argc == 3 && sscanf(argv[2], "%llu..%llu", &first, &last) == 2 && first <= last) {
        if (strcmp(argv[1], "--seeds") == 0) {
            return run_many(first, last);
        }
        if (strcmp(argv[1], "--replay") == 0) {
            return compare_replays(first, last);
        }
    }
    (void)fprintf(stderr, "usage: sim --seed N | --seeds A..B | --replay A..B "
                          "[--sentinels | --cluster | --sets | --guard | "
                          "--detach | --quorum]\n");
    return 2;
}

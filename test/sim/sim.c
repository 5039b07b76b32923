/* SPDX-License-Identifier: MIT
 *
 * The simulator's command line: runs one seed with its trace, or many, each in a process
 * of its own that starts from the same memory. Independent of what a run does.
 *
 *   sim --seed N          runs one and prints its trace
 *   sim --seeds A..B      runs many; prints which failed and why, and the end of the
 *                         trace of the first of them; exits with 1 if any failed
 *   sim --replay A..B     runs each twice; exits with 1 if their traces differ
 *
 * +N in place of A..B: N seeds, the first of which is in the environment's LOCKWIRE_SEED,
 * or 1. scripts/test takes it from the last commit.
 *
 * A further word sets a property of all worlds:
 *
 *   --sentinels   hosts ask sentinels; without the word, for one seed in six
 *   --cluster     the servers are a cluster; without it, for one seed in six
 *   --sets        many calls acquire several names at once
 *   --guard       all clients use the guard; without it, for one seed in twelve
 *   --detach      locks are detached and adopted; without it, for one seed in eight
 *   --quorum      the servers are a quorum
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
    return 0; /* the sanitizer's own leak check runs at exit */
}
#else
static size_t allocated(void)
{
    return mallinfo2().uordblks;
}
#endif

/* Blocks that malloc keeps for reuse would count as allocated: makes it keep none. */
static void count_exactly(char **argv)
{
    static const char name[] = "GLIBC_TUNABLES";

    if (getenv(name) == NULL) {
        setenv(name, "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0", 1);
        execv("/proc/self/exe", argv);
    }
}

/* Makes the C library and libevent allocate what they keep, before memory is counted. */
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

/* The result of a run; all zero if it failed. */
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
    exit(0); /* a sanitizer looks for leaks here */
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
    (void)printf("%llu seeds from %llu, %.1f virtual hours, %llu grants, %u failed; "
                 "under sentinels "
                 "and in clusters %llu failovers, %llu overlaps by what they lost, %llu "
                 "slots moved\n",
                 (unsigned long long)(last - first + 1), (unsigned long long)first,
                 (double)virtual_us / SECOND / 3600, granted, failures, failovers,
                 excused, moves);
    return failures > 0;
}

/* A seed is useful only if it repeats the run exactly, to the last byte on the wire. */
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

/* Reads A..B or +N. Returns false if the text is neither, or names no seed. */
static bool read_seeds(const char *text, unsigned long long *first,
                       unsigned long long *last)
{
    const char *seed = getenv("LOCKWIRE_SEED");
    unsigned long long count;

    if (sscanf(text, "+%llu", &count) == 1) {
        *first = seed != NULL ? strtoull(seed, NULL, 10) : 1;
        *last = *first + count - 1;
        return count > 0 && *first > 0;
    }
    return sscanf(text, "%llu..%llu", first, last) == 2 && *first <= *last;
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
        if (plan_watches_all || plan_clusters_all || plan_sets_all || plan_guards_all ||
            plan_detaches_all || plan_quorums_all) {
            plan_option = argv[3];
            argc--;
        }
    }
    if (argc == 3 && strcmp(argv[1], "--seed") == 0 &&
        sscanf(argv[2], "%llu", &first) == 1) {
        trace_mode = TRACE_ALL;
        run(first);
        return 0;
    }
    if (argc == 3 && read_seeds(argv[2], &first, &last)) {
        if (strcmp(argv[1], "--seeds") == 0) {
            return run_many(first, last);
        }
        if (strcmp(argv[1], "--replay") == 0) {
            return compare_replays(first, last);
        }
    }
    (void)fprintf(stderr, "usage: sim --seed N | --seeds A..B|+N | --replay A..B|+N "
                          "[--sentinels | --cluster | --sets | --guard | "
                          "--detach | --quorum]\n");
    return 2;
}

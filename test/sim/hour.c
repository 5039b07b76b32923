/* SPDX-License-Identifier: MIT
 *
 * An hour of three processes that contend for one lock, in the simulator's virtual time:
 * for the test of the alerts, integration/examples/alerts.py, which needs metrics of the
 * library rather than numbers that someone has written down.
 *
 *   hour standby     each process keeps the lock (lw_keep_new): one leads, two wait. The
 *                    leader restarts at minute 15, and dies and comes back at minute 40
 *   hour unlimited   the same by lw_acquire without a limit, where each holder releases
 *                    the lock after ten minutes, and requests it again
 *   hour stuck       each process has a job a minute, for which the second waits for up
 * to 30 s, so that no look finds it waiting, and the third for two hours. At minute 10
 * the job of the first process hangs, under the lock
 *
 * Prints, for each minute and each process, a line `# minute M process P` and the text of
 * lw_stats_prometheus. Nothing fails in this hour, and the simulator's checks of scripts
 * and keys apply.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MINUTE (60 * SECOND)
#define MINUTES 60
#define TEXT_SIZE 16384
#define SEED 1

struct process {
    struct host *host;
    struct lw_keep *keep;
    struct lw_lock *lock;
};

static struct process processes[HOSTS];

/* The host's own code runs until leave(). */
static void enter(struct host *host)
{
    world.current = host;
    host->in_call++;
}

static void leave(struct host *host)
{
    host->in_call--;
    host->ready = true;
    world.current = NULL;
}

static void must(int status, const char *what)
{
    if (status != LW_OK) {
        violation("%s: %s", what, lw_strerror(status));
    }
}

/* ---- leaders and standbys ---- */

static void keep(struct process *process)
{
    enter(process->host);
    must(lw_keep_new(process->host->client, load_name(0), NULL, NULL, NULL, NULL,
                     &process->keep),
         "lw_keep_new");
    leave(process->host);
}

static struct process *leader(void)
{
    for (unsigned i = 0; i < world.plan.hosts; i++) {
        if (lw_lock_state(lw_keep_lock(processes[i].keep)) == LW_HELD) {
            return &processes[i];
        }
    }
    violation("there is no leader");
}

static void drop_keep(struct process *process)
{
    enter(process->host);
    lw_keep_free(process->keep); /* releases the lock */
    leave(process->host);
}

static void restart_leader(void)
{
    struct process *process = leader();

    drop_keep(process);
    world_run_until(world.now_us + SECOND);
    host_close(process->host);
    world_run_until(world.now_us + SECOND);
    host_open(process->host);
    keep(process);
}

/* The lock expires with its lease. */
static void kill_leader(void)
{
    struct process *process = leader();

    host_kill(process->host);
    lw_keep_free(process->keep); /* inert */
    host_open(process->host);
    keep(process);
}

static void standby(unsigned minute)
{
    for (unsigned i = 0; minute == 0 && i < world.plan.hosts; i++) {
        keep(&processes[i]);
    }
    if (minute == 15) {
        restart_leader();
    }
    if (minute == 40) {
        kill_leader();
    }
}

/* ---- acquisitions ---- */

static void drop_lock(struct process *process)
{
    enter(process->host);
    lw_lock_free(process->lock); /* releases it */
    leave(process->host);
    process->lock = NULL;
}

/* The state of the handle says the same. */
static void on_done(struct lw_lock *lock, int status, void *arg)
{
    (void)lock, (void)status, (void)arg;
}

static void acquire(struct process *process, int64_t wait_ms)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;

    options.wait_ms = wait_ms;
    enter(process->host);
    must(lw_acquire(process->host->client, load_name(0), &options, on_done, NULL,
                    &process->lock),
         "lw_acquire");
    leave(process->host);
}

static void unlimited(unsigned minute)
{
    for (unsigned i = 0; i < world.plan.hosts; i++) {
        struct process *process = &processes[i];

        if (minute > 0 && minute % 10 == 0 && lw_lock_state(process->lock) == LW_HELD) {
            drop_lock(process);
        }
        if (process->lock == NULL) {
            acquire(process, -1);
        }
    }
}

static void stuck(unsigned minute)
{
    for (unsigned i = 0; i < world.plan.hosts; i++) {
        struct process *process = &processes[i];
        bool hangs = i == 0 && minute > 10;

        if (process->lock != NULL && !hangs && lw_lock_state(process->lock) == LW_DONE) {
            drop_lock(process);
        }
        if (process->lock == NULL) {
            acquire(process, i == 1 ? 30000 : 7200000);
            world_run_until(world.now_us + SECOND);
        }
        if (!hangs && !(i == 0 && minute == 10) &&
            lw_lock_state(process->lock) == LW_HELD) {
            drop_lock(process);
        }
    }
}

/* ---- the hour ---- */

static void print_metrics(unsigned minute)
{
    static char text[TEXT_SIZE];

    for (unsigned i = 0; i < world.plan.hosts; i++) {
        struct lw_stats stats = LW_STATS_INIT;
        const struct lw_stats *one = &stats;
        int length;

        must(lw_client_stats(world.hosts[i].client, &stats), "lw_client_stats");
        length = lw_stats_prometheus(&one, NULL, 1, text, sizeof(text));
        if (length < 0 || length >= TEXT_SIZE) {
            violation("lw_stats_prometheus: %d", length);
        }
        (void)printf("# minute %u process %u\n%s", minute, i, text);
    }
}

static void run(void (*play)(unsigned minute))
{
    plan_uneventful = true;
    world_begin(SEED);
    for (unsigned i = 0; i < world.plan.hosts; i++) {
        processes[i].host = &world.hosts[i];
    }
    world_run_until(BEGIN_US + SECOND);
    for (unsigned minute = 0; minute <= MINUTES; minute++) {
        play(minute);
        world_run_until(BEGIN_US + (minute + 1) * MINUTE);
        print_metrics(minute);
    }
    for (unsigned i = 0; i < world.plan.hosts; i++) {
        if (processes[i].keep != NULL) {
            drop_keep(&processes[i]);
        }
        if (processes[i].lock != NULL) {
            drop_lock(&processes[i]);
        }
        host_close(processes[i].host);
    }
    world_run_until(world.now_us + 10 * SECOND);
    world_end();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*play)(unsigned minute);
    } plays[] = {{"standby", standby}, {"unlimited", unlimited}, {"stuck", stuck}};

    for (size_t i = 0; argc == 2 && i < sizeof(plays) / sizeof(*plays); i++) {
        if (strcmp(argv[1], plays[i].name) == 0) {
            run(plays[i].play);
            return 0;
        }
    }
    (void)fprintf(stderr, "usage: hour standby | unlimited | stuck\n");
    return 2;
}

/* SPDX-License-Identifier: MIT */
/*
 * The campaigns against one server and its links, with each fault of the table that can
 * strike repeatedly (campaign.h). If state is lost on purpose (an empty restart,
 * FLUSHALL, eviction) or a process is stopped for longer than its lease, only fencing
 * protects, and the canary is not checked.
 *
 * Usual course: CAMPAIGN(name, .strike = what breaks something, .mend = what repairs
 * it)
 */
#include "campaign.h"

#include <signal.h>

static void cut(int round)
{
    proxy_cut(proxy, COMMANDS);
    if (round % 2) {
        proxy_cut(proxy, SUBSCRIPTION);
    }
}

static void hole(int round)
{
    (void)round;
    proxy_black_hole(proxy, true);
}

static void end_hole(int round)
{
    (void)round;
    proxy_black_hole(proxy, false);
    proxy_cut(proxy, COMMANDS);
    proxy_cut(proxy, SUBSCRIPTION);
}

static void half(int round)
{
    proxy_swallow(proxy, COMMANDS, round % 2 ? TO_SERVER : TO_CLIENT, true);
}

static void slow(int round)
{
    proxy_delay(proxy, COMMANDS, round % 2 ? TO_SERVER : TO_CLIENT, 220 + 100 * round);
}

static void fast(int round)
{
    (void)round;
    proxy_delay(proxy, COMMANDS, TO_SERVER, 0);
    proxy_delay(proxy, COMMANDS, TO_CLIENT, 0);
}

static void deaf(int round)
{
    (void)round;
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, true);
}

static void late_messages(int round)
{
    proxy_delay(proxy, SUBSCRIPTION, TO_CLIENT, 150 + 50 * round);
}

static void timely_messages(int round)
{
    (void)round;
    proxy_delay(proxy, SUBSCRIPTION, TO_CLIENT, 0);
}

static void kill_links(int round)
{
    redis_ok(round % 2 ? "CLIENT KILL TYPE pubsub"
                       : "CLIENT KILL TYPE normal SKIPME yes");
}

static void pause_writes(int round)
{
    redis_ok("CLIENT PAUSE %d WRITE", 100 + 200 * round);
}

static void flush_scripts(int round)
{
    (void)round;
    redis_ok("SCRIPT FLUSH");
}

static void stop_server(int round)
{
    (void)round;
    server_pause(&stage.server);
}

static void continue_server(int round)
{
    (void)round;
    server_resume(&stage.server);
}

static void restart(int round)
{
    (void)round;
    server_kill(&stage.server);
    server_restart(&stage.server);
}

static void lose_all(int round)
{
    redis_ok("FLUSHALL");
    if (round % 2) {
        restart(round);
    }
}

static void fill_memory(int round)
{
    (void)round;
    redis_ok("CONFIG SET maxmemory 1");
}

static void free_memory(int round)
{
    (void)round;
    redis_ok("CONFIG SET maxmemory 0");
}

static void want_replicas(int round)
{
    (void)round;
    redis_ok("CONFIG SET min-replicas-to-write 1");
}

static void want_no_replicas(int round)
{
    (void)round;
    redis_ok("CONFIG SET min-replicas-to-write 0");
}

/* Returns one of the commands with which this way's scripts write, in turn. */
static const char *refused_command(int round)
{
    static const char *const mutex[] = {"set", "zrem"};
    static const char *const hash[] = {"hset", "zrem", "hdel", "pexpire"};
    static const char *const redisson[] = {"hsetnx", "hdel", "pexpire"};

    switch (way->holder) {
    case LW_MUTEX:
        return mutex[round % 2];
    case LW_REDISSON:
        return redisson[round % 3];
    default:
        return hash[round % 4];
    }
}

/* A script may be half done when the server refuses one of its commands. */
static void refuse_writes(int round)
{
    redis_ok("ACL SETUSER default -%s", refused_command(round));
}

static void permit_writes(int round)
{
    redis_ok("ACL SETUSER default +%s", refused_command(round));
}

/* Evicts all keys, also those of the scripts: all have a TTL. */
static void evict_all(int round)
{
    redis_ok("CONFIG SET maxmemory-policy %s",
             round % 2 ? "volatile-ttl" : "allkeys-lru");
    redis_ok("CONFIG SET maxmemory 1");
    freeReplyObject(
        server_try(&stage.server, "SET filler 1 PX 1")); /* evicts even if refused */
    redis_ok("CONFIG SET maxmemory 0");
    redis_ok("CONFIG SET maxmemory-policy noeviction");
}

static void demote(int round)
{
    (void)round;
    redis_ok("REPLICAOF 127.0.0.1 1");
}

static void promote(int round)
{
    (void)round;
    redis_ok("REPLICAOF NO ONE");
}

static void turn_away(int round)
{
    redis_ok("CONFIG SET maxclients 1");
    kill_links(round);
}

static void let_in(int round)
{
    (void)round;
    redis_ok("CONFIG SET maxclients 10000");
}

static void fork_workers(int round)
{
    uint64_t before = workers_forks();

    (void)round;
    workers_fork();
    UNTIL(workers_forks() > before);
}

static void replace_worker(int round)
{
    workers_replace(round % WORKERS);
}

static void stop_worker(int round)
{
    kill(workers_pid(round % WORKERS), SIGSTOP);
    stage_run_for(LEASE_MS);
}

static void continue_worker(int round)
{
    kill(workers_pid(round % WORKERS), SIGCONT);
}

CELL(canary_and_checker_fail_with_the_lock_disabled)
{
    campaign_unlocked();
}

CAMPAIGN(nothing_is_broken, .strike = NULL)
CAMPAIGN(resets, .strike = cut)
CAMPAIGN(black_holes, .strike = hole, .mend = end_hole)
CAMPAIGN(half_open_links, .strike = half, .mend = end_hole)
CAMPAIGN(slow_links, .strike = slow, .mend = fast)
CAMPAIGN(lost_messages, .strike = deaf, .mend = end_hole)
CAMPAIGN(late_messages, .strike = late_messages, .mend = timely_messages,
         .while_ms = 1000)
CAMPAIGN(killed_links, .strike = kill_links)
CAMPAIGN(paused_writes, .strike = pause_writes)
CAMPAIGN(flushed_scripts, .strike = flush_scripts)
CAMPAIGN(stopped_server, .strike = stop_server, .mend = continue_server)
CAMPAIGN(killed_server_with_aof, .strike = restart)
CAMPAIGN(lost_state, .strike = lose_all, .loses_state = true)
CAMPAIGN(full_memory, .strike = fill_memory, .mend = free_memory)
CAMPAIGN(no_replicas, .strike = want_replicas, .mend = want_no_replicas)
/* Holds are long, and a strike outlasts a lease: a holder without a renewed lease would
 * overlap with the next one. */
CAMPAIGN(refused_writes, .strike = refuse_writes, .mend = permit_writes, .strikes = 6,
         .while_ms = 1000, .wishes = {.long_hold_every = 2, .long_hold_ms = 60})
CAMPAIGN(evicted_keys, .strike = evict_all, .loses_state = true)
CAMPAIGN(demoted_server, .strike = demote, .mend = promote)
CAMPAIGN(too_many_clients, .strike = turn_away, .mend = let_in)
CAMPAIGN(forks, .strike = fork_workers)
CAMPAIGN(killed_processes, .strike = replace_worker)
CAMPAIGN(stopped_processes, .strike = stop_worker, .mend = continue_worker,
         .stops_process = true)

/* Some holds end by a detach, and most of these are adopted by another process. */
#define DETACHING .detach_every = 4, .wait_ms = STAGE_WAIT_MS

static void nothing(int round)
{
    (void)round;
}

CAMPAIGN(detached_locks, .strike = nothing, .wishes = {DETACHING})
CAMPAIGN(detached_locks_resets, .strike = cut, .wishes = {DETACHING})
CAMPAIGN(detached_locks_half_open_links, .strike = half, .mend = end_hole,
         .wishes = {DETACHING})
CAMPAIGN(detached_locks_slow_links, .strike = slow, .mend = fast, .wishes = {DETACHING})
CAMPAIGN(detached_locks_lost_messages, .strike = deaf, .mend = end_hole,
         .wishes = {DETACHING})
CAMPAIGN(detached_locks_stopped_server, .strike = stop_server, .mend = continue_server,
         .wishes = {DETACHING})
CAMPAIGN(detached_locks_killed_server_with_aof, .strike = restart, .wishes = {DETACHING})
CAMPAIGN(detached_locks_lost_state, .strike = lose_all, .loses_state = true,
         .wishes = {DETACHING})
CAMPAIGN(detached_locks_killed_processes, .strike = replace_worker, .wishes = {DETACHING})
CAMPAIGN(detached_locks_stopped_processes, .strike = stop_worker, .mend = continue_worker,
         .stops_process = true, .wishes = {.detach_every = 4})

static int open_stage(void **state)
{
    stage_open(state);
    server_stop(&stage.server);
    server_start(&stage.server, "--appendonly yes --appendfsync always");
    return 0;
}

int main(int argc, char **argv)
{
    static const struct cell cells[] = {
        PLAY(canary_and_checker_fail_with_the_lock_disabled),
        PLAY(campaign_nothing_is_broken),
        PLAY(campaign_resets),
        PLAY(campaign_black_holes),
        PLAY(campaign_half_open_links),
        PLAY(campaign_slow_links),
        PLAY(campaign_lost_messages),
        PLAY(campaign_late_messages),
        PLAY(campaign_killed_links),
        PLAY(campaign_paused_writes),
        PLAY(campaign_flushed_scripts),
        PLAY(campaign_stopped_server),
        PLAY(campaign_killed_server_with_aof),
        PLAY(campaign_lost_state),
        PLAY(campaign_full_memory),
        PLAY(campaign_refused_writes),
        PLAY(campaign_no_replicas),
        PLAY(campaign_evicted_keys),
        PLAY(campaign_demoted_server),
        PLAY(campaign_too_many_clients),
        PLAY(campaign_forks),
        PLAY(campaign_killed_processes),
        PLAY(campaign_stopped_processes),
        PLAY_OURS(campaign_detached_locks),
        PLAY_OURS(campaign_detached_locks_resets),
        PLAY_OURS(campaign_detached_locks_half_open_links),
        PLAY_OURS(campaign_detached_locks_slow_links),
        PLAY_OURS(campaign_detached_locks_lost_messages),
        PLAY_OURS(campaign_detached_locks_stopped_server),
        PLAY_OURS(campaign_detached_locks_killed_server_with_aof),
        PLAY_OURS(campaign_detached_locks_lost_state),
        PLAY_OURS(campaign_detached_locks_killed_processes),
        PLAY_OURS(campaign_detached_locks_stopped_processes),
    };

    (void)argc;
    return CELLS_RUN(cells, argv + 1, open_stage, stage_close);
}

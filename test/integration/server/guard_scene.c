/* SPDX-License-Identifier: MIT */
/* See server/guard_scene.h. */
#include "server/guard_scene.h"

void close_for(int ms)
{
    guard_record_open_in(&stage.server, GUARD_MS, ms);
}

void assert_open(void)
{
    assert_true(guard_record_left_us(&stage.server) <= 0);
}

void assert_closed(void)
{
    assert_true(guard_record_left_us(&stage.server) > 0);
}

void grow_old(void)
{
    while (redis_info("uptime_in_seconds") < GUARD_MS / 1000 + 1) {
        stage_run_for(100);
    }
}

struct peer *guarded_at(const char *label, const char *url)
{
    return peer_start_at(
        label, url,
        client_of(.local_turns = 1, .guard_ms = GUARD_MS, .backoff_max_ms = 100));
}

struct peer *guarded(const char *label)
{
    struct peer *peer = guarded_at(label, stage.server.url);

    peer_wait_ready(peer);
    return peer;
}

struct hold *ask_guarded(struct peer *peer, const char *label, const char *name,
                         int64_t wait_ms)
{
    return acquire_hold_with(peer, label, name,
                             asking(.wait_ms = wait_ms, .lease_ms = LEASE_MS));
}

struct hold *take_guarded(struct peer *peer, const char *label, const char *name)
{
    struct hold *hold = ask_guarded(peer, label, name, 0);

    UNTIL(hold->result != PENDING);
    assert_int_equal(hold->result, LW_OK);
    stage_clear_trace();
    return hold;
}

void open_at_once(struct peer *peer)
{
    struct hold *hold = ask_guarded(peer, "O", "o", 0);

    EXPECT("O granted");
    assert_int_equal(peer_stats(peer).guard_left_ms, 0);
    assert_int_equal(peer_stats(peer).guarded, 0);
    assert_false(peer_logged(peer, "no locks are granted"));
    release_hold(hold);
    EXPECT("O released OK");
    free_hold(hold);
}

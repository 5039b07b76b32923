/* SPDX-License-Identifier: MIT */
/* LW_REDISSON at random: several clients acquire, release, free and renew, also inside
 * callbacks, while an RLock comes and goes and links are cut. Checks that only one handle
 * at a time believes that it holds the lock; that the first waiter of each client's queue
 * requests, or knows when it will; that no waiter behind it requests; and that in the end
 * no handle still waits or holds. LOCKWIRE_SEED sets another seed.
 *
 * play() draws the steps, look() checks after each of them, settle() ends the run. */
#include "base/hash.h"
#include "lock/lock_private.h"
#include "hold/machine.h"
#include "redis/route.h"
#include "players.h"

#include <stdio.h>
#include <string.h>
#include <utlist.h>

enum { PEERS = 3, LIVE = 30, STEPS = 1200, NAMES = 2 };

static const char *const names[NAMES] = {"x", "y"};

static struct peer *all[PEERS];
static struct hold *live[LIVE];
static uint64_t state;
static bool settling;

static unsigned below(unsigned most)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 11) % most);
}

/* ---- checks ---- */

static bool believes(const struct hold *hold)
{
    return hold != NULL && hold->lock != NULL && lw_lock_state(hold->lock) == LW_HELD &&
           lw_lock_remaining_ms(hold->lock) > 0;
}

static void one_handle_holds(const struct hold *hold)
{
    for (int i = 0; i < LIVE; i++) {
        const struct hold *other = live[i];

        if (other != hold && believes(other) && other->aim == hold->aim) {
            stage_complain("%s and %s hold at once", hold->label, other->label);
        }
    }
}

/* A name has at most one claim. It requests for all handles, now or at a due time, or
 * will when its present hold ends. */
static void one_claim_is_awake(const struct lw__name *name)
{
    const struct lw__claim *claim;
    int count = 0;

    DL_FOREACH(name->claims, claim) {
        if (claim->machine.phase == LW__QUEUED && claim->machine.due_us == LW__NEVER) {
            stage_fail("nobody asks for the line of %s", name->text);
        }
        count++;
    }
    if (count > 1) {
        stage_fail("one behind another asks for %s", name->text);
    }
}

static void look(void)
{
    for (int i = 0; i < PEERS; i++) {
        struct lw_client *client = all[i]->client;
        const struct lw__name *name = NULL;

        if (!lw__node_is_up(lw__route_find(client->route, "", NULL))) {
            continue;
        }
        while ((name = lw__name_after(&client->holds, name)) != NULL) {
            one_claim_is_awake(name);
        }
    }
}

/* ---- steps ---- */

static void ask_for_any(void);

static struct hold *any(bool held)
{
    struct hold *hold = live[below(LIVE)];

    return hold != NULL && hold->lock != NULL &&
                   (lw_lock_state(hold->lock) == LW_HELD) == held
               ? hold
               : NULL;
}

static void any_moment(struct hold *hold, enum moment moment)
{
    if (moment == AT_RESULT && hold->result == LW_OK) {
        one_handle_holds(hold);
        if (settling || below(3) == 0) {
            release_hold(hold);
        } else if (below(6) == 0) {
            free_hold(hold);
        }
    } else if (settling) {
        return;
    } else if (below(3) == 0) {
        free_hold(hold);
    }
    if (!settling && below(3) == 0) {
        ask_for_any();
    }
}

static struct hold **room(void)
{
    for (int i = 0; i < LIVE; i++) {
        struct hold *hold = live[i];

        if (hold != NULL && hold->lock != NULL && lw_lock_state(hold->lock) >= LW_LOST &&
            hold->result != PENDING && !hold->releasing) {
            free_hold(hold);
        }
        if (hold == NULL || hold->lock == NULL) {
            return &live[i];
        }
    }
    return NULL;
}

static void ask_for_any(void)
{
    static const uint32_t leases[] = {150, 1000, 20000};
    static const int64_t waits[] = {0, 0, 20, 300, -1, -1};
    unsigned name = below(NAMES);
    struct hold **place = room();
    unsigned who = below(PEERS);
    char label[24];

    if (place == NULL) {
        return;
    }
    *place = NULL;
    (void)snprintf(label, sizeof(label), "%c%td", "abc"[who], place - live);
    struct hold *hold = acquire_hold_with(
        all[who], label, names[name],
        asking(.mode = LW_REDISSON, .lease_ms = leases[below(3)],
               .wait_ms = waits[below(6)], .margin_ms = below(4) ? 0 : 40,
               .max_hold_ms = below(6) ? 0 : 200, .flags = below(3) ? 0 : LW_NO_RENEW));
    hold->aim = (void *)names[name];
    hold->then = any_moment;
    *place = hold;
}

static void java_comes_or_goes(const char *name)
{
    const char *script = "local has = redis.call('HDEL', KEYS[1], 'java:1') "
                         "if has == 1 then redis.call('PUBLISH', ARGV[1], '0') "
                         "elseif redis.call('EXISTS', KEYS[1]) == 0 then "
                         "redis.call('HSET', KEYS[1], 'java:1', 1) "
                         "redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return has";
    char channel[64];

    (void)snprintf(channel, sizeof(channel), "redisson_lock__channel:{%s}", name);
    (void)redis_int("EVAL %s 1 %s %s %d", script, name, channel, below(3) ? 100 : 30000);
}

static void cut_links(void)
{
    freeReplyObject(server_try(&stage.server, "CLIENT KILL TYPE %s SKIPME yes",
                               below(2) ? "normal" : "pubsub"));
}

static void step(void)
{
    unsigned what = below(100);
    struct hold *hold = any(what < 60);

    if (what < 40) {
        ask_for_any();
    } else if (what < 52 && hold != NULL) {
        release_hold(hold);
    } else if (what < 56 && hold != NULL) {
        renew_hold(hold, below(2) ? 200 : 1000);
    } else if (what < 75 && hold != NULL) {
        free_hold(hold);
    } else if (what >= 75 && what < 82) {
        java_comes_or_goes(names[below(NAMES)]);
    } else if (what == 99 && below(3) == 0) {
        cut_links();
    } else {
        stage_run_for(below(8) ? below(4) : below(60));
    }
}

static bool is_over(void)
{
    for (int i = 0; i < LIVE; i++) {
        if (live[i] != NULL && live[i]->lock != NULL &&
            (live[i]->result == PENDING || lw_lock_state(live[i]->lock) < LW_LOST)) {
            return false;
        }
    }
    return true;
}

/* Releases all holds, and waits until each waiter has had its turn. */
static void settle(void)
{
    settling = true;
    for (int i = 0; i < NAMES; i++) {
        redis_ok("HDEL %s java:1", names[i]);
        redis_ok("PUBLISH redisson_lock__channel:{%s} 0", names[i]);
    }
    for (int i = 0; i < LIVE; i++) {
        if (live[i] != NULL && live[i]->lock != NULL &&
            lw_lock_state(live[i]->lock) == LW_HELD) {
            release_hold(live[i]);
        }
    }
    UNTIL((look(), is_over()));
    stage_clear_trace();
}

static void play(uint64_t seed)
{
    static const char *const labels[PEERS] = {"a", "b", "c"};

    print_message("LOCKWIRE_SEED=%llu\n", (unsigned long long)seed);
    state = seed * 0x9e3779b97f4a7c15u + 1;
    settling = false;
    memset(live, 0, sizeof(live));
    for (int i = 0; i < PEERS; i++) {
        all[i] = peer_start(labels[i], NULL);
    }
    for (int i = 0; i < STEPS; i++) {
        step();
        look();
        stage_clear_trace();
    }
    settle();
}

static void some_play_at_random(void **unused)
{
    const char *seed = getenv("LOCKWIRE_SEED");

    (void)unused;
    play(seed != NULL ? strtoull(seed, NULL, 10) : 1);
}

static void others_play_at_random(void **unused)
{
    (void)unused;
    play(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(some_play_at_random),
        STAGE_TEST(others_play_at_random),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/* The load of load.h: a lock is granted, released, and requested again from the
 * callback. */
#include "tls/load.h"

#include <stdio.h>
#include <string.h>

#define NAMES 3
#define HOLD_US 500

static struct {
    int grants, busy;
    bool ending;
    struct {
        bool held;
        uint64_t fence;
    } names[NAMES];
} load;

static void ask_again(struct peer *peer, int name);

static int name_of(const struct hold *hold)
{
    return atoi(hold->label + 1);
}

static void on_enough(evutil_socket_t fd, short what, void *arg)
{
    struct hold *hold = arg;

    (void)fd, (void)what;
    load.names[name_of(hold)].held = false;
    release_hold(hold);
}

static void granted(struct hold *hold, int name)
{
    if (hold->result != LW_OK) {
        stage_complain("load: %s %s", hold->label, status_name(hold->result));
        return;
    }
    if (load.names[name].held || hold->fence <= load.names[name].fence) {
        stage_complain("load: %s with %llu, which another one had", hold->label,
                       (unsigned long long)hold->fence);
    }
    load.names[name].held = true;
    load.names[name].fence = hold->fence;
    load.grants++;
    if (event_base_once(stage.base, -1, EV_TIMEOUT, on_enough, hold,
                        &(struct timeval){.tv_usec = HOLD_US}) < 0) {
        stage_complain("load: memory");
    }
}

static void released(struct hold *hold, int name)
{
    if (hold->released != LW_OK) {
        stage_complain("load: released %s", status_name(hold->released));
    }
    load.busy--;
    if (!load.ending) {
        ask_again(hold->peer, name);
    }
    free_hold(hold);
}

static void then(struct hold *hold, enum moment moment)
{
    int name = name_of(hold);

    if (moment == AT_RESULT) {
        granted(hold, name);
    } else if (moment == AT_RELEASED) {
        released(hold, name);
    } else if (moment == AT_LOST) {
        stage_complain("load: %s lost", hold->label);
    }
    stage_clear_trace();
}

static void ask_again(struct peer *peer, int name)
{
    char label[16], lock[16];

    (void)snprintf(label, sizeof(label), "L%d", name);
    (void)snprintf(lock, sizeof(lock), "load%d", name);
    load.busy++;
    acquire_hold(peer, label, lock, -1)->then = then;
}

static void forget(bool in_good_order)
{
    (void)in_good_order;
    memset(&load, 0, sizeof(load));
}

void load_begin(struct peer *peer)
{
    stage_at_exit(forget);
    for (int name = 0; name < NAMES; name++) {
        ask_again(peer, name);
    }
}

void load_pass(int grants)
{
    grants += load.grants;
    UNTIL(load.grants >= grants);
}

void load_end(void)
{
    load.ending = true;
    UNTIL(load.busy == 0);
    stage_clear_trace();
}

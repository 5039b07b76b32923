/* SPDX-License-Identifier: MIT */
/* groups.h's groups, and the checks of each callback. */
#include "groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct group *groups;

/* ---- callbacks ---- */

static bool is_fair(const struct group *group, const struct lw_all *all, const char *what)
{
    if (players_in_call) {
        stage_complain("rule 1: %s %s came inside a call", group->label, what);
    } else if (group->all == NULL) {
        stage_complain("rule 3: %s %s came after lw_all_free", group->label, what);
    } else if (group->all != all) {
        stage_complain("%s %s came with another pointer", group->label, what);
    } else if (group->peer->client == NULL || group->peer->closed) {
        stage_complain("rule 7: %s %s came after its client's end", group->label, what);
    } else {
        return true;
    }
    return false;
}

static void then(struct group *group, enum moment moment)
{
    if (group->then != NULL) {
        group->then(group, moment);
    }
}

static void check_granted(const struct group *group)
{
    if (lw_all_remaining_ms(group->all) <= 0) {
        stage_complain("I1: %s was granted and does not hold", group->label);
    }
    for (int i = 0; i < group->count; i++) {
        const struct lw_lock *lock = lw_all_lock(group->all, (size_t)i);

        if (lock == NULL || lw_lock_state(lock) != LW_HELD ||
            strcmp(lw_lock_name(lock), group->names[i]) != 0 ||
            lw_lock_fence(lock) == 0) {
            stage_complain("%s was granted without %s", group->label, group->names[i]);
        }
    }
}

static void on_result(struct lw_all *all, int status, void *arg)
{
    struct group *group = arg;

    if (!is_fair(group, all, "result")) {
        return;
    }
    stage_note("%s %s", group->label, status == LW_OK ? "granted" : status_name(status));
    if (group->result != PENDING) {
        stage_complain("rule 2: %s has a second result", group->label);
    }
    group->result = status;
    group->result_ms = now_ms();
    if (status == LW_OK) {
        check_granted(group);
    } else if (lw_all_remaining_ms(all) != 0) {
        stage_complain("%s failed and has time left", group->label);
    }
    then(group, AT_RESULT);
}

static void on_lost(struct lw_all *all, int reason, void *arg)
{
    struct group *group = arg;

    if (!is_fair(group, all, "lost")) {
        return;
    }
    stage_note("%s lost %s", group->label, status_name(reason));
    if (group->result != LW_OK || group->lost != PENDING || group->releasing) {
        stage_complain("rule 6: %s lost out of place", group->label);
    }
    group->lost = reason;
    group->lost_ms = now_ms();
    then(group, AT_LOST);
}

static void on_released(struct lw_all *all, int status, void *arg)
{
    struct group *group = arg;

    if (!is_fair(group, all, "released")) {
        return;
    }
    stage_note("%s released %s", group->label, status_name(status));
    if (!group->releasing || group->released != PENDING) {
        stage_complain("rule 2: %s was released twice", group->label);
    }
    group->released = status;
    for (int i = 0; i < group->count; i++) {
        if (lw_lock_state(lw_all_lock(all, (size_t)i)) != LW_DONE) {
            stage_complain("%s was released before %s", group->label, group->names[i]);
        }
    }
    then(group, AT_RELEASED);
}

static void on_group_risk(struct lw_lock *lock, int at_risk, int64_t remaining_ms,
                          void *arg)
{
    struct group *group = arg;

    (void)lock, (void)remaining_ms;
    if (group->all == NULL || group->result != LW_OK || group->lost != PENDING) {
        stage_complain("%s: at_risk out of place", group->label);
        return;
    }
    stage_note("%s %s", group->label, at_risk ? "at risk" : "safe");
    then(group, AT_RISK);
}

/* ---- calls ---- */

static void all_leave(bool in_good_order)
{
    (void)in_good_order;
    while (groups != NULL) {
        struct group *group = groups;

        groups = group->next;
        group->then = NULL;
        group_free(group);
        free(group);
    }
}

static void split(struct group *group, const char *names)
{
    while (*names) {
        size_t length = strcspn(names, " ");

        (void)snprintf(group->names[group->count++], sizeof(group->names[0]), "%.*s",
                       (int)length, names);
        names += length + (names[length] == ' ');
    }
}

static struct group *new_group(struct peer *peer, const char *label, const char *names)
{
    struct group *group = calloc(1, sizeof(*group));

    if (group == NULL) {
        abort();
    }
    stage_at_exit(all_leave);
    group->peer = peer;
    group->result = group->lost = group->released = PENDING;
    (void)snprintf(group->label, sizeof(group->label), "%s", label);
    split(group, names);
    group->next = groups;
    groups = group;
    return group;
}

static int call(struct group *group, const struct lw_acquire_options *given)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    const char *names[GROUP_MOST];
    int result;

    if (given != NULL) {
        options = *given;
    }
    if (options.at_risk_ms != 0) {
        options.at_risk = on_group_risk;
    }
    for (int i = 0; i < group->count; i++) {
        names[i] = group->names[i];
    }
    group->asked_ms = now_ms();
    players_in_call++;
    result = lw_acquire_all(group->peer->client, names, (size_t)group->count, &options,
                            on_result, on_lost, group, &group->all);
    players_in_call--;
    return result;
}

struct group *group_ask(struct peer *peer, const char *label,
                        const struct lw_acquire_options *options, const char *names)
{
    struct group *group = new_group(peer, label, names);
    int result = call(group, options);

    if (result != LW_OK) {
        stage_complain("lw_acquire_all %s: %s: %s", label, status_name(result),
                       peer->error);
    } else if (lw_all_remaining_ms(group->all) != 0) {
        stage_complain("rule 5: %s has time left at once", label);
    }
    return group;
}

struct group *group_take(struct peer *peer, const char *label, const char *names)
{
    struct group *group = group_ask(peer, label, asking(.wait_ms = -1), names);

    UNTIL(group->result != PENDING);
    assert_int_equal(group->result, LW_OK);
    return group;
}

static void never(struct lw_all *all, int status, void *arg)
{
    (void)all, (void)status, (void)arg;
    stage_complain("rule 2: a refused call has a callback");
}

void group_refused(struct peer *peer, const char *const *names, size_t count,
                   const struct lw_acquire_options *options, int error, const char *text)
{
    struct lw_all *all = NULL;
    int result;

    peer->error[0] = '\0';
    players_in_call++;
    result =
        lw_acquire_all(peer->client, names, count, options, never, never, NULL, &all);
    players_in_call--;
    if (result != error || all != NULL) {
        stage_fail("lw_acquire_all: %s, not %s: %s", status_name(result),
                   status_name(error), peer->error);
    }
    if (strstr(peer->error, text) == NULL) {
        stage_fail("lw_acquire_all: \"%s\" does not say \"%s\"", peer->error, text);
    }
}

void group_release(struct group *group)
{
    int result;

    players_in_call++;
    result = lw_all_release(group->all, on_released, group);
    players_in_call--;
    if (result != LW_OK) {
        stage_complain("lw_all_release %s: %s", group->label, status_name(result));
        return;
    }
    group->releasing = true;
    if (lw_all_remaining_ms(group->all) != 0) {
        stage_complain("rule 5: %s has time left after its release", group->label);
    }
}

void group_free(struct group *group)
{
    struct lw_all *all = group->all;

    group->all = NULL;
    players_in_call++;
    lw_all_free(all);
    players_in_call--;
}

void group_assert_held(const struct group *group)
{
    char value[80];

    check_granted(group);
    for (int i = 0; i < group->count; i++) {
        const struct lw_lock *lock = lw_all_lock(group->all, (size_t)i);
        size_t length = strlen(lw_lock_owner(lock));

        (void)snprintf(value, sizeof(value), "%s",
                       redis_text("GET %s", key_of(group->names[i])));
        assert_true(length > 10);
        assert_memory_equal(value, lw_lock_owner(lock), length - 1); /* - or + follows */
    }
}

/* ---- a crowd ---- */

#define NAMES 20
#define ACTORS 3 /* of each client */
#define CLIENTS 8

struct actor {
    struct peer **peer; /* of its client, which may be replaced */
    bool single;
    struct lw_all *all;   /* or NULL */
    struct lw_lock *lock; /* or NULL */
    int names[GROUP_MOST], count;
    bool held;
    int64_t asked_ms, act_ms; /* when it releases, or acquires again; 0: it waits */
};

static struct {
    struct crowd *wanted;
    int count; /* of actors */
    unsigned random;
    struct peer *peers[CLIENTS];
    struct actor actors[CLIENTS * ACTORS];
    uint64_t fence[NAMES];
    struct actor *holder[NAMES];
    int64_t progress_ms;
    bool over;
} crowd;

static int draw(int below)
{
    crowd.random = crowd.random * 1664525 + 1013904223;
    return (int)((crowd.random >> 8) % (unsigned)below);
}

static const char *name_of(int name)
{
    static char names[NAMES][8];

    (void)snprintf(names[name], sizeof(names[name]), "n%d", name);
    return names[name];
}

static struct lw_lock *lock_at(const struct actor *actor, int index)
{
    return actor->single ? actor->lock : lw_all_lock(actor->all, (size_t)index);
}

static bool believes(const struct actor *actor)
{
    return actor->held && (actor->single ? lw_lock_remaining_ms(actor->lock)
                                         : lw_all_remaining_ms(actor->all)) > 0;
}

static void end_hold(struct actor *actor)
{
    for (int i = 0; i < actor->count; i++) {
        if (crowd.holder[actor->names[i]] == actor) {
            crowd.holder[actor->names[i]] = NULL;
        }
    }
    actor->held = false;
}

static void rest(struct actor *actor)
{
    struct lw_all *all = actor->all;
    struct lw_lock *lock = actor->lock;

    end_hold(actor);
    actor->all = NULL;
    actor->lock = NULL;
    actor->act_ms = now_ms() + 1 + draw(5);
    lw_all_free(all);
    lw_lock_free(lock);
}

static void begin_hold(struct actor *actor)
{
    actor->held = true;
    for (int i = 0; i < actor->count; i++) {
        int name = actor->names[i];
        const struct actor *other = crowd.holder[name];
        uint64_t fence = lw_lock_fence(lock_at(actor, i));

        if (other != NULL && believes(other)) {
            crowd.wanted->overlapped++;
            if (!crowd.wanted->overlaps) {
                stage_complain("I1: two hold %s", name_of(name));
            }
        }
        if (!crowd.wanted->overlaps && fence <= crowd.fence[name]) {
            stage_complain("I2: the fence of %s does not grow", name_of(name));
        }
        crowd.fence[name] = fence;
        crowd.holder[name] = actor;
    }
    if (!believes(actor)) {
        stage_complain("I1: granted what is not held");
    }
    /* some holds are long enough for renewals, and so for losses */
    actor->act_ms = now_ms() + (draw(100) == 0 ? 400 : draw(4));
}

static void actor_result(struct actor *actor, int status)
{
    int64_t waited_ms = now_ms() - actor->asked_ms;

    crowd.progress_ms = now_ms();
    if (waited_ms > crowd.wanted->longest_ms) {
        crowd.wanted->longest_ms = waited_ms;
    }
    if (status != LW_OK) {
        crowd.wanted->ended++;
        if (status != LW_EBUSY && status != LW_ETIMEOUT && status != LW_ECONN &&
            !(status == LW_EREDIS && crowd.wanted->overlaps)) {
            stage_complain("an acquisition ended with %s", status_name(status));
        }
        rest(actor);
        return;
    }
    crowd.wanted->granted++;
    begin_hold(actor);
    if (draw(10) == 0) {
        rest(actor); /* frees it inside its callback */
    }
}

static void actor_lost(struct actor *actor)
{
    crowd.wanted->lost++;
    if (!actor->held) {
        stage_complain("rule 6: lost out of place");
    }
    end_hold(actor);
    actor->act_ms = now_ms() + draw(5);
}

static void all_result(struct lw_all *all, int status, void *arg)
{
    (void)all;
    actor_result(arg, status);
}

static void all_lost(struct lw_all *all, int reason, void *arg)
{
    (void)all, (void)reason;
    actor_lost(arg);
}

static void all_released(struct lw_all *all, int status, void *arg)
{
    (void)all, (void)status;
    rest(arg);
}

static void one_result(struct lw_lock *lock, int status, void *arg)
{
    (void)lock;
    actor_result(arg, status);
}

static void one_lost(struct lw_lock *lock, int reason, void *arg)
{
    (void)lock, (void)reason;
    actor_lost(arg);
}

static void one_released(struct lw_lock *lock, int status, void *arg)
{
    (void)lock, (void)status;
    rest(arg);
}

static void draw_names(struct actor *actor)
{
    int names[NAMES];

    for (int i = 0; i < NAMES; i++) {
        names[i] = i;
    }
    actor->count = actor->single ? 1 : 2 + draw(draw(4) == 0 ? 15 : 4);
    for (int i = 0; i < actor->count; i++) {
        int at = i + draw(NAMES - i);

        actor->names[i] = names[at];
        names[at] = names[i];
    }
}

static void acquire(struct actor *actor)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    struct lw_client *client = (*actor->peer)->client;
    const char *names[GROUP_MOST] = {NULL};
    int result, kind = draw(10);

    options.lease_ms = crowd.wanted->lease_ms;
    options.wait_ms = kind == 0 ? 0 : kind == 1 ? 1 + draw(500) : -1;
    draw_names(actor);
    for (int i = 0; i < actor->count; i++) {
        names[i] = name_of(actor->names[i]);
    }
    actor->asked_ms = now_ms();
    actor->act_ms = 0;
    if (actor->single) {
        options.lost = one_lost;
        result = lw_acquire(client, names[0], &options, one_result, actor, &actor->lock);
    } else {
        result = lw_acquire_all(client, names, (size_t)actor->count, &options, all_result,
                                all_lost, actor, &actor->all);
    }
    if (result != LW_OK) {
        stage_fail("an acquisition was refused: %s", status_name(result));
    }
}

/* Takes the actor's next step: acquires, releases, or frees what it has lost. */
static void act(struct actor *actor)
{
    bool had = actor->held;

    if (actor->all == NULL && actor->lock == NULL) {
        if (crowd.over) {
            actor->act_ms = INT64_MAX;
        } else {
            acquire(actor);
        }
        return;
    }
    end_hold(actor);
    actor->act_ms = 0;
    if (!had || draw(5) == 0 ||
        (actor->single ? lw_release(actor->lock, one_released, actor)
                       : lw_all_release(actor->all, all_released, actor)) != LW_OK) {
        rest(actor);
    }
}

static bool is_resting(const struct actor *actor)
{
    return actor->all == NULL && actor->lock == NULL;
}

static struct peer *start_client(const char *label, uint32_t local_turns)
{
    return peer_start_at(label, crowd.wanted->url,
                         client_of(.claim_ms = 500, .backoff_max_ms = 200,
                                   .request_timeout_ms = 2000, .connect_timeout_ms = 2000,
                                   .local_turns = local_turns));
}

/* Frees a client as if its process died: its holds last until their leases expire. */
static void replace(int index)
{
    static int number;
    char label[16];

    peer_free(crowd.peers[index]);
    (void)snprintf(label, sizeof(label), "c%d", ++number);
    for (int i = 0; i < crowd.count; i++) {
        if (crowd.actors[i].peer == &crowd.peers[index]) {
            rest(&crowd.actors[i]);
        }
    }
    crowd.peers[index] = start_client(label, 16);
}

static bool all_rest(void)
{
    for (int i = 0; i < crowd.count; i++) {
        if (!is_resting(&crowd.actors[i])) {
            return false;
        }
    }
    return true;
}

static bool is_enough(void)
{
    bool goes_on = crowd.wanted->disturb != NULL && crowd.wanted->disturb();

    return crowd.wanted->granted >= crowd.wanted->grants && !goes_on;
}

static void turn(void)
{
    int64_t now = now_ms();

    for (int i = 0; i < crowd.count; i++) {
        struct actor *actor = &crowd.actors[i];

        if (actor->act_ms != 0 && actor->act_ms <= now) {
            act(actor);
        }
    }
    if (crowd.wanted->kills && !crowd.over && draw(300) == 0) {
        replace(draw(crowd.wanted->clients));
    }
    if (event_base_loop(stage.base, EVLOOP_ONCE) < 0) {
        stage_fail("event_base_loop");
    }
    crowd.over = crowd.over || is_enough();
    if (now_ms() - crowd.progress_ms > STAGE_WAIT_MS) {
        stage_fail("no acquisition has ended for %d ms", STAGE_WAIT_MS);
    }
}

static void crowd_leaves(bool in_good_order)
{
    (void)in_good_order;
    for (int i = 0; i < crowd.count; i++) {
        rest(&crowd.actors[i]);
    }
    crowd.count = 0;
}

static int keys_left(void)
{
    int left = 0;

    for (int i = 0; i < NAMES; i++) {
        left += (int)redis_int("EXISTS %s", name_of(i));
    }
    return left;
}

void crowd_run(struct crowd *wanted)
{
    memset(&crowd, 0, sizeof(crowd));
    crowd.wanted = wanted;
    crowd.count = wanted->clients * ACTORS;
    crowd.random = wanted->seed;
    stage_at_exit(crowd_leaves);
    stage.notes_may_stay = true;
    for (int i = 0; i < wanted->clients; i++) {
        char label[16];

        (void)snprintf(label, sizeof(label), "a%d", i);
        crowd.peers[i] = start_client(label, i % 2 ? 16 : 1);
        for (int j = 0; j < ACTORS; j++) {
            crowd.actors[i * ACTORS + j] = (struct actor){
                .peer = &crowd.peers[i], .single = j == 2, .act_ms = now_ms() + draw(5)};
        }
    }
    crowd.progress_ms = now_ms();
    while (!crowd.over || !all_rest()) {
        turn();
    }
    if (!wanted->overlaps && !wanted->elsewhere) {
        UNTIL(keys_left() == 0);
    }
    print_message("%d granted, %d ended otherwise, %d lost, %d overlaps, longest wait "
                  "%lld ms\n",
                  wanted->granted, wanted->ended, wanted->lost, wanted->overlapped,
                  (long long)wanted->longest_ms);
}

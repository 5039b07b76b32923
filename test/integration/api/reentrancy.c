/* SPDX-License-Identifier: MIT */
/* Callback rule 4 as a matrix: in each kind of callback each function of the API, on the
 * same handle, on another one, on the client. Each pair runs on fresh clients. No
 * callback may follow a free (players.h checks that), nothing may leak (ASan), and the
 * loop must end when everything is freed. Independent of the results of the calls, which
 * states.c and the tests of the rules check.
 *
 * Usual course: a scene leads to the callback, the action is done in it, the rest of the
 * scene runs, and everything is freed. */
#include "players.h"

#include <stdio.h>
#include <string.h>

/* What the actions may use. */
static struct {
    struct peer *a, *b;
    struct hold *self;   /* whose callback runs; NULL for link and close */
    struct hold *other;  /* another handle of the same client, held */
    struct hold *queued; /* another one, which waits */
    int acted;
} scene;

/* ---- the actions ---- */

struct action {
    const char *name;
    void (*act)(void);
};

static struct hold *self_or_other(void)
{
    return scene.self != NULL ? scene.self : scene.other;
}

static void acquire_same_name(void)
{
    const struct lw_lock *lock = self_or_other()->lock;

    if (scene.a->client != NULL && lock != NULL && !scene.a->closing) {
        acquire_hold(scene.a, "New", lw_lock_name(lock), -1);
    }
}

static void acquire_same_name_once(void)
{
    const struct lw_lock *lock = self_or_other()->lock;

    if (scene.a->client != NULL && lock != NULL && !scene.a->closing) {
        acquire_hold(scene.a, "New", lw_lock_name(lock), 0);
    }
}

static void acquire_other_name(void)
{
    if (scene.a->client != NULL && !scene.a->closing) {
        acquire_hold(scene.a, "New", "new", 1000);
    }
}

static void release_handle(struct hold *hold)
{
    if (hold->lock != NULL && lw_lock_state(hold->lock) == LW_HELD) {
        release_hold(hold);
    } else if (hold->lock != NULL) {
        (void)lw_release(hold->lock, NULL, NULL);
    }
}

static void release_self(void)
{
    release_handle(self_or_other());
}

static void release_other(void)
{
    release_handle(scene.other);
}

static void release_queued(void)
{
    release_handle(scene.queued);
}

static void renew_handle(struct hold *hold)
{
    if (hold->lock != NULL && lw_lock_state(hold->lock) == LW_HELD) {
        renew_hold(hold, 40000);
    } else if (hold->lock != NULL) {
        (void)lw_renew(hold->lock, 40000, NULL, NULL);
    }
}

static void renew_self(void)
{
    renew_handle(self_or_other());
}

static void renew_other(void)
{
    renew_handle(scene.other);
}

static void free_self(void)
{
    free_hold(self_or_other());
}

static void free_other(void)
{
    free_hold(scene.other);
}

static void free_queued(void)
{
    free_hold(scene.queued);
}

static void free_all_handles(void)
{
    free_self();
    free_other();
    free_queued();
}

static void release_then_free_self(void)
{
    release_self();
    free_self();
}

static void renew_then_free_self(void)
{
    renew_self();
    free_self();
}

static void close_client(void)
{
    if (scene.a->client != NULL && !scene.a->closing) {
        peer_close(scene.a);
    } else if (scene.a->client != NULL) {
        (void)lw_client_close(scene.a->client, NULL, NULL);
    }
}

static void free_client(void)
{
    peer_free(scene.a);
}

static void close_then_free_client(void)
{
    close_client();
    free_client();
}

static void free_self_then_client(void)
{
    free_self();
    free_client();
}

static void free_client_then_self(void)
{
    free_client();
    free_self();
}

static void free_everything(void)
{
    free_all_handles();
    free_client();
}

static void look_at_everything(void)
{
    const struct hold *all[] = {scene.self, scene.other, scene.queued};
    char text[256];

    if (scene.a->client != NULL) {
        (void)peer_stats(scene.a);
    }
    for (size_t i = 0; i < 3; i++) {
        const struct lw_lock *lock = all[i] != NULL ? all[i]->lock : NULL;
        if (lock == NULL) {
            continue;
        }
        (void)snprintf(text, sizeof(text), "%s %s %s %d %d %d %d", lw_lock_name(lock),
                       lw_lock_owner(lock), lw_lock_errstr(lock),
                       (int)lw_lock_state(lock), (int)lw_lock_remaining_ms(lock),
                       lw_lock_fence(lock) != 0, (int)lw_lock_retry_ms(lock));
    }
    (void)lw_strerror(-1);
    (void)lw_version();
}

static void make_another_client(void)
{
    if (scene.acted == 1) {
        acquire_hold(peer_start("n", NULL), "New", "new", 1000);
    }
}

static const struct action actions[] = {
    {"acquire the same name", acquire_same_name},
    {"acquire the same name once", acquire_same_name_once},
    {"acquire another name", acquire_other_name},
    {"release self", release_self},
    {"release another", release_other},
    {"release a waiting one", release_queued},
    {"renew self", renew_self},
    {"renew another", renew_other},
    {"free self", free_self},
    {"free another", free_other},
    {"free a waiting one", free_queued},
    {"free all handles", free_all_handles},
    {"release, then free self", release_then_free_self},
    {"renew, then free self", renew_then_free_self},
    {"close the client", close_client},
    {"free the client", free_client},
    {"close, then free the client", close_then_free_client},
    {"free self, then the client", free_self_then_client},
    {"free the client, then self", free_client_then_self},
    {"free everything", free_everything},
    {"look at everything", look_at_everything},
    {"make another client", make_another_client},
};

/* ---- the callbacks in which the actions are done ---- */

static const struct action *playing;
static enum moment wanted;

static void act(void)
{
    scene.acted++;
    playing->act();
}

static void act_once(struct hold *hold, enum moment moment)
{
    if (moment != wanted) {
        return;
    }
    hold->then = NULL;
    scene.self = hold;
    act();
}

static void arm(struct hold *hold, enum moment moment)
{
    wanted = moment;
    hold->then = act_once;
}

static void in_granted(void)
{
    arm(acquire_hold(scene.a, "Self", "self", 0), AT_RESULT);
}

static void in_busy(void)
{
    arm(acquire_hold(scene.a, "Self", "theirs", 0), AT_RESULT);
}

static void in_timed_out(void)
{
    arm(acquire_hold(scene.a, "Self", "theirs", 20), AT_RESULT);
}

/* The grant comes by a hand-over message. */
static void in_granted_after_waiting(void)
{
    arm(acquire_hold(scene.a, "Self", "late", 60000), AT_RESULT);
    wait_queued("late", 1);
    for (struct hold *hold = holds; hold != NULL; hold = hold->next) {
        if (hold->peer == scene.b && strcmp(lw_lock_name(hold->lock), "late") == 0) {
            release_hold(hold);
        }
    }
}

static void in_lost_by_deadline(void)
{
    arm(acquire_hold_with(scene.a, "Self", "self",
                          asking(.lease_ms = 100, .flags = LW_NO_RENEW)),
        AT_LOST);
}

static void in_lost_by_max_hold(void)
{
    arm(acquire_hold_with(scene.a, "Self", "self", asking(.max_hold_ms = 50)), AT_LOST);
}

static void in_lost_to_the_server(void)
{
    struct hold *self = acquire_hold(scene.a, "Self", "self", 0);

    arm(self, AT_LOST);
    UNTIL(self->result != PENDING);
    redis_ok("DEL self");
    renew_hold(self, 0); /* one that is pending at the loss */
}

static void in_released(void)
{
    struct hold *self = acquire_hold(scene.a, "Self", "self", 0);

    arm(self, AT_RELEASED);
    UNTIL(self->result != PENDING);
    release_hold(self);
}

static void in_renewed(void)
{
    struct hold *self = acquire_hold(scene.a, "Self", "self", 0);

    arm(self, AT_RENEWED);
    UNTIL(self->result != PENDING);
    renew_hold(self, 0);
    renew_hold(self, 0);
}

static void in_renewed_canceled(void)
{
    struct hold *self = acquire_hold(scene.a, "Self", "self", 0);

    arm(self, AT_RENEWED);
    UNTIL(self->result != PENDING);
    renew_hold(self, 0);
    renew_hold(self, 0);
    release_hold(self);
}

static void in_renewed_lost(void)
{
    in_lost_to_the_server();
    wanted = AT_RENEWED;
}

static void act_for_peer(struct peer *peer)
{
    peer->on_link = NULL;
    peer->on_closed = NULL;
    act();
}

static void in_link_down(void)
{
    scene.a->on_link = act_for_peer;
    redis_ok("CLIENT KILL ID %lld", peer_link_id(scene.a, false));
}

static void act_when_up(struct peer *peer)
{
    if (peer->up) {
        act_for_peer(peer);
    }
}

static void in_link_up(void)
{
    scene.a->on_link = act_when_up;
    redis_ok("CLIENT KILL ID %lld", peer_link_id(scene.a, false));
}

static void in_closed(void)
{
    scene.a->on_closed = act_for_peer;
    peer_close(scene.a);
}

/* The callback of a handle that waited when its client was closed. */
static void in_closed_while_waiting(void)
{
    arm(scene.queued, AT_RESULT);
    peer_close(scene.a);
}

/* ---- one run ---- */

static void play(void (*lead_to_callback)(void), const struct action *action,
                 uint32_t turns)
{
    const struct lw_client_options *options =
        client_of(.local_turns = turns, .backoff_max_ms = 50);

    redis_ok("FLUSHALL");
    memset(&scene, 0, sizeof(scene));
    playing = action;
    scene.a = peer_ready("a", options);
    scene.b = peer_ready("b", options);
    acquire_and_wait(scene.b, "B", "theirs");
    acquire_and_wait(scene.b, "L", "late");
    scene.other = acquire_and_wait(scene.a, "Other", "other");
    scene.queued = acquire_hold(scene.a, "Queued", "theirs", -1);
    wait_queued("theirs", 1);
    lead_to_callback();
    UNTIL(scene.acted > 0);
    stage_run_for(15); /* what the action started goes on */
    players_leave();
    if (event_base_get_num_events(stage.base, EVENT_BASE_COUNT_ADDED) != 1) {
        stage_fail("\"%s\": events are left", action->name); /* besides the stage's */
    }
    stage_clear_trace();
}

static void play_row(void (*lead_to_callback)(void), uint32_t turns)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++) {
        stage.history[0] = '\0';
        stage_note("inside: %s", actions[i].name);
        play(lead_to_callback, &actions[i], turns);
    }
    stage.keys_may_stay = true;
}

#define CALLBACKS(X)                                                                     \
    X(granted)                                                                           \
    X(granted_after_waiting)                                                             \
    X(busy)                                                                              \
    X(timed_out)                                                                         \
    X(closed_while_waiting)                                                              \
    X(lost_by_deadline)                                                                  \
    X(lost_by_max_hold)                                                                  \
    X(lost_to_the_server)                                                                \
    X(released)                                                                          \
    X(renewed)                                                                           \
    X(renewed_canceled)                                                                  \
    X(renewed_lost)                                                                      \
    X(link_down)                                                                         \
    X(link_up)                                                                           \
    X(closed)

#define ROW(callback)                                                                    \
    static void rule4_in_##callback##_every_call(void **state)                           \
    {                                                                                    \
        (void)state;                                                                     \
        play_row(in_##callback, 1);                                                      \
    }                                                                                    \
    static void rule4_in_##callback##_every_call_with_turns(void **state)                \
    {                                                                                    \
        (void)state;                                                                     \
        play_row(in_##callback, 16);                                                     \
    }
CALLBACKS(ROW)

int main(void)
{
#define ROW_TESTS(callback)                                                              \
    STAGE_TEST(rule4_in_##callback##_every_call),                                        \
        STAGE_TEST(rule4_in_##callback##_every_call_with_turns),
    const struct CMUnitTest tests[] = {CALLBACKS(ROW_TESTS)};

    return STAGE_RUN(tests);
}

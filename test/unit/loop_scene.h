/* SPDX-License-Identifier: MIT */
/*
 * A loop on an event_base of its own, and the actors that it calls: each call is noted as
 * one letter.
 *
 * Usual course: loop_set_up; loop_cast, then lw__timer_set or lw__defer; loop_await; the
 * word is compared.
 */
#ifndef TEST_LOOP_SCENE_H
#define TEST_LOOP_SCENE_H
#include "loop/loop.h"

#include <event2/event.h>

struct actor;

struct scene {
    struct event_base *base;
    struct lw__loop *loop;
    int ends[2];
    struct event *watch; /* of ends[0], like that of hiredis' adapter */
    struct actor *watcher;
    char word[256];
    size_t length;
};

/* A timer, or a deferred call, of the loop. Its letter is noted when it is called. */
struct actor {
    struct scene *scene;
    char letter;
    void (*act)(struct actor *actor);
    struct lw__timer timer;
    struct lw__deferred call;
    struct actor *other;
    int left;
};

/* For cmocka: `state` is the scene. Tearing down fails if any event is left. */
int loop_set_up(void **state);
int loop_tear_down(void **state);

/* `act` may be NULL; it is called after the letter is noted. */
void loop_cast(struct actor *actor, struct scene *scene, char letter,
               void (*act)(struct actor *));
/* Watches ends[0] for EV_READ or EV_WRITE: noted as 'r' or 'w', or calls the watcher. */
void loop_watch(struct scene *scene, short what);
void loop_unwatch(struct scene *scene);
/* Runs the loop until that many letters have been noted. */
void loop_await(struct scene *scene, size_t letters);
void loop_turn(struct scene *scene);
/* Keeps the loop from running until then, on the loop's own clock. */
void loop_stall(int64_t until_us);

#endif

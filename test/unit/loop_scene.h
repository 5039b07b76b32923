/* SPDX-License-Identifier: MIT */
/*
 * A loop on a base of its own, and whom it calls: each call is noted as one letter. Must
 * not know what is tested.
 *
 * Happy path: loop_set_up; loop_cast, then lw__timer_set or lw__defer; loop_await;
 * compare the word.
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
    struct event *watch; /* of ends[0], as hiredis' adapter has one */
    struct actor *watcher;
    char word[256];
    size_t length;
};

/* Whom the loop calls: as a timer, or deferred. Its letter is noted. */
struct actor {
    struct scene *scene;
    char letter;
    void (*act)(struct actor *actor);
    struct lw__timer timer;
    struct lw__deferred call;
    struct actor *other;
    int left;
};

/* For cmocka: `state` is the scene. No event of anybody's may be left. */
int loop_set_up(void **state);
int loop_tear_down(void **state);

/* `act` may be NULL; it is called after the letter is noted. */
void loop_cast(struct actor *actor, struct scene *scene, char letter,
               void (*act)(struct actor *));
/* EV_READ or EV_WRITE of ends[0]: noted as 'r' or 'w', or the watcher is called. */
void loop_watch(struct scene *scene, short what);
void loop_unwatch(struct scene *scene);
/* Turns the loop until that many letters have been noted. */
void loop_await(struct scene *scene, size_t letters);
void loop_turn(struct scene *scene);
/* The loop does not run until then, on its own clock. */
void loop_stall(int64_t until_us);

#endif

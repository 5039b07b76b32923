/* SPDX-License-Identifier: MIT */
/* The loop of loop_scene.h, its event_base, and a socket pair. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "loop_scene.h"

#include "loop/loop.h"

#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void note(struct scene *scene, char letter)
{
    if (scene->length + 1 < sizeof(scene->word)) {
        scene->word[scene->length++] = letter;
    }
}

static void on_actor(void *arg)
{
    struct actor *actor = arg;

    note(actor->scene, actor->letter);
    if (actor->act != NULL) {
        actor->act(actor);
    }
}

void loop_cast(struct actor *actor, struct scene *scene, char letter,
               void (*act)(struct actor *))
{
    *actor = (struct actor){.scene = scene, .letter = letter, .act = act};
    lw__timer_init(&actor->timer, on_actor, actor);
    lw__defer_init(&actor->call, on_actor, actor);
}

/* An event that is not the loop's own. */
static void on_end(evutil_socket_t fd, short what, void *arg)
{
    struct scene *scene = arg;
    struct lw__loop *loop = scene->loop;
    char byte;

    if (loop == NULL || !lw__loop_enter(loop)) {
        return;
    }
    if (scene->watcher != NULL) {
        on_actor(scene->watcher);
    } else {
        note(scene, what == EV_READ && read(fd, &byte, 1) == 1 ? 'r' : 'w');
    }
    lw__loop_leave(loop);
}

void loop_watch(struct scene *scene, short what)
{
    scene->watch =
        event_new(scene->base, scene->ends[0], what | EV_PERSIST, on_end, scene);
    assert_int_equal(event_add(scene->watch, NULL), 0);
}

void loop_unwatch(struct scene *scene)
{
    if (scene->watch != NULL) {
        event_free(scene->watch);
    }
    scene->watch = NULL;
}

int loop_set_up(void **state)
{
    static struct scene scene;

    memset(&scene, 0, sizeof(scene));
    scene.base = event_base_new();
    assert_non_null(scene.base);
    assert_int_equal(lw__loop_new(scene.base, &scene.loop), 0);
    assert_int_equal(lw__timer_reserve(scene.loop, 8), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, scene.ends), 0);
    assert_int_equal(fcntl(scene.ends[0], F_SETFL, O_NONBLOCK), 0);
    *state = &scene;
    return 0;
}

int loop_tear_down(void **state)
{
    struct scene *scene = *state;

    loop_unwatch(scene);
    lw__loop_free(scene->loop);
    (void)close(scene->ends[0]);
    (void)close(scene->ends[1]);
    (void)event_base_loop(scene->base, EVLOOP_NONBLOCK);
    assert_int_equal(event_base_get_num_events(scene->base, EVENT_BASE_COUNT_ADDED |
                                                                EVENT_BASE_COUNT_ACTIVE |
                                                                EVENT_BASE_COUNT_VIRTUAL),
                     0);
    event_base_free(scene->base);
    return 0;
}

static void on_too_long(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    *(bool *)arg = true;
}

void loop_await(struct scene *scene, size_t letters)
{
    const struct timeval limit = {30, 0};
    bool too_long = false;
    struct event *event = evtimer_new(scene->base, on_too_long, &too_long);

    assert_int_equal(evtimer_add(event, &limit), 0);
    while (scene->length < letters && !too_long) {
        assert_true(event_base_loop(scene->base, EVLOOP_ONCE) >= 0);
    }
    event_free(event);
    assert_false(too_long);
}

void loop_turn(struct scene *scene)
{
    assert_true(event_base_loop(scene->base, EVLOOP_NONBLOCK) >= 0);
}

void loop_stall(int64_t until_us)
{
    while (lw__now_us() < until_us) {
    }
}

/* SPDX-License-Identifier: MIT */
/*
 * Callbacks of a link that close it, make it fail, send again, or forget its requests;
 * and a forked child's copy of a link. Uses the scene of link_scene.h.
 */
#include "link_scene.h"

#include "../lib/child.h"
#include "lockwire.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void close_link(struct scene *scene, struct ask *ask)
{
    (void)ask;
    lw__link_close(scene->link);
    scene->link = NULL;
    scene->meanwhile = NULL;
}

static void close_all(struct scene *scene, struct ask *ask)
{
    close_link(scene, ask);
    lw__loop_free(scene->loop);
    scene->loop = NULL;
}

/* Checks that nothing is called after `end`, which closes the link in this event. */
static void run_ends(const char *event, void (*end)(struct scene *, struct ask *))
{
    struct scene *scene;
    static struct ask asks[2];
    bool failed = strcmp(event, "failed0") == 0, down = strcmp(event, "down") == 0;

    assert_int_equal(scene_set_up((void **)&scene), 0);
    if (strcmp(event, "up") == 0) {
        scene->meanwhile = end;
        scene_start(scene);
        await(scene, "up ");
    } else if (strcmp(event, "push") == 0) {
        scene_open_subscribed(scene);
        scene->meanwhile = end;
        serve(scene, CONFIRMED MESSAGE);
    } else {
        scene_open(scene);
        scene->meanwhile = down ? NULL : end;
        if (!down) {
            scene_send(scene, &asks[0], 0, 1);
            scene_send(scene, &asks[1], 1, 1);
        }
        if (failed || down) {
            scene->meanwhile = end;
            serve_end(scene);
        } else {
            serve(scene, ":1\r\n:2\r\n");
        }
    }
    await(scene, event);
    assert_null(scene->link);
    settle(scene);
    assert_null(strstr(scene->trace, "1:2"));
    assert_null(strstr(scene->trace, "failed1"));
    assert_int_equal(strstr(scene->trace, "down") != NULL, down);
    assert_int_equal(scene_tear_down((void **)&scene), 0);
}

static void test_the_link_is_closed_by_each_of_its_events(void **state)
{
    static const char *const events[] = {"up", "0:1", "push", "failed0", "down"};

    (void)state;
    for (size_t i = 0; i < sizeof(events) / sizeof(events[0]); i++) {
        run_ends(events[i], close_link);
        run_ends(events[i], close_all);
    }
}

static struct ask shared[4];

static void forget_the_others(struct scene *scene, struct ask *ask)
{
    if (ask != NULL && scene->link != NULL) {
        lw__link_forget(&shared[1].request);
        lw__link_forget(&shared[3].request);
        memset(&shared[1], 0xee, sizeof(shared[1]));
        memset(&shared[3], 0xee, sizeof(shared[3]));
        assert_int_equal(lw__link_send(scene->link, &ask->request, "x", 1), LW_ECONN);
        scene->meanwhile = NULL;
    }
}

static void test_one_failure_forgets_the_others(void **state)
{
    struct scene *scene = *state;

    scene_open(scene);
    for (int i = 0; i < 4; i++) {
        scene_send(scene, &shared[i], i, 1);
    }
    await_bytes(scene, 4 * 14);
    scene->meanwhile = forget_the_others;
    serve_end(scene);
    await(scene, "down");
    assert_string_equal(scene->trace, "up failed0 failed2 "
                                      "down(PEER closed the connection) ");
}

static void fail_link(struct scene *scene, struct ask *ask)
{
    (void)ask;
    if (scene->link != NULL) {
        lw__link_fail(scene->link, "had enough");
    }
}

static void test_the_link_is_failed_from_a_reply(void **state)
{
    struct scene *scene = *state;
    static struct ask asks[2];

    scene_open(scene);
    scene_send(scene, &asks[0], 0, 1);
    scene_send(scene, &asks[1], 1, 1);
    scene->meanwhile = fail_link;
    serve(scene, ":1\r\n:2\r\n");
    await(scene, "down");
    assert_string_equal(scene->trace, "up 0:1 failed1 down(had enough) ");
}

static void ask_again(struct scene *scene, struct ask *ask)
{
    if (ask->number < 5) {
        scene_send(scene, ask, ask->number + 1, 1);
    }
}

static void test_a_request_is_sent_again_by_its_answer(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;

    scene_open(scene);
    scene->meanwhile = ask_again;
    scene_send(scene, &ask, 1, 1);
    serve(scene, ":1\r\n:2\r\n:3\r\n:4\r\n:5\r\n");
    await(scene, "5:");
    assert_string_equal(scene->trace, "up 1:1 2:2 3:3 4:4 5:5 ");
}

static void test_a_forked_child_leaves_the_parents_link_alone(void **state)
{
    struct scene *scene = *state;
    static struct ask ask;
    int status = -1;
    pid_t child;

    scene_open(scene);
    scene_send(scene, &ask, 1, 1);
    child = fork_for_test();
    assert_true(child >= 0);
    if (child == 0) {
        lw__link_close(scene->link);
        lw__loop_free(scene->loop);
        (void)event_base_loop(scene->base, EVLOOP_NONBLOCK); /* nothing is called */
        end_child(scene->trace[3] == '\0' ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    await_bytes(scene, 14);
    serve(scene, ":1\r\n");
    await(scene, "1:1");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, scene_set_up, scene_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_link_is_closed_by_each_of_its_events),
        TEST(test_one_failure_forgets_the_others),
        TEST(test_the_link_is_failed_from_a_reply),
        TEST(test_a_request_is_sent_again_by_its_answer),
        TEST(test_a_forked_child_leaves_the_parents_link_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

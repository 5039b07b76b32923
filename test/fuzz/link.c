/* SPDX-License-Identifier: MIT */
/*
 * Fuzz target: a whole link, connected to a socket on which the server sends the input,
 * cut into pieces. Every request gets the replies that it expects, in order, or fails
 * once, or belongs to a link that was closed. Nothing is called after the end.
 *
 * Usual course: connect, send requests or subscribe, write the pieces, run the loop.
 */
#include "fuzz.h"
#include "base/escape.h"
#include "loop/loop.h"
#include "redis/link.h"
#include "redis/reply.h"
#include "lockwire.h"

#include <event2/event.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define REQUESTS 6
#define TURNS 4

struct scene;
struct ask {
    struct lw__request request; /* must be first */
    struct scene *scene;
    unsigned expected, replies;
    bool open, forgotten;
};

struct scene {
    struct event_base *base;
    struct lw__loop *loop;
    struct lw__link *link;
    struct ask asks[REQUESTS];
    bool up, down, subscribed, close_inside;
    int peer;
};

static char folder[] = "/tmp/lockwire-fuzz-XXXXXX";
static char path[sizeof(folder) + 8];
static int listening = -1;

static void clean_up(void)
{
    unlink(path);
    rmdir(folder);
}

static void listen_once(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (listening >= 0) {
        return;
    }
    CHECK(mkdtemp(folder) != NULL);
    (void)snprintf(path, sizeof(path), "%s/socket", folder);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listening, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(listening, 4) == 0);
    (void)atexit(clean_up);
}

/* ---- what the link calls ---- */

static void close_link(struct scene *scene)
{
    struct lw__link *link = scene->link;

    scene->link = NULL;
    lw__link_close(link);
    for (int i = 0; i < REQUESTS; i++) {
        scene->asks[i].open = false;
    }
}

static void touch(const struct lw__reply *reply)
{
    size_t length;

    CHECK(lw__reply_text(reply, &length)[length] == '\0');
    for (size_t i = 0; i < lw__reply_count(reply); i++) {
        touch(lw__reply_at(reply, i));
    }
}

static void on_reply(struct lw__request *request, const struct lw__reply *reply)
{
    struct ask *ask = (struct ask *)request;

    CHECK(ask->open && !ask->forgotten && ask->scene->link != NULL && !ask->scene->down);
    for (struct ask *older = ask->scene->asks; older < ask; older++) {
        CHECK(!older->open || older->forgotten);
    }
    touch(reply);
    ask->replies++;
    CHECK(ask->request.expected == ask->expected - ask->replies);
    if (ask->replies == ask->expected) {
        ask->open = false;
    }
    if (ask->scene->close_inside) {
        close_link(ask->scene);
    }
}

static void on_failed(struct lw__request *request, const char *why)
{
    struct ask *ask = (struct ask *)request;

    CHECK(ask->open && !ask->forgotten && why != NULL);
    ask->open = false;
}

static void on_up(void *arg)
{
    struct scene *scene = arg;

    CHECK(!scene->up && scene->link != NULL);
    scene->up = true;
}

static void on_down(void *arg, const char *why)
{
    struct scene *scene = arg;

    CHECK(!scene->down && scene->link != NULL && why != NULL);
    scene->down = true;
    scene->link = NULL;
    for (int i = 0; i < REQUESTS; i++) {
        CHECK(!scene->asks[i].open || scene->asks[i].forgotten);
    }
}

static void on_push(void *arg, const struct lw__reply *reply)
{
    struct scene *scene = arg;

    CHECK(scene->subscribed && scene->link != NULL && !scene->down);
    touch(reply);
    if (scene->close_inside) {
        close_link(scene);
    }
}

static void on_unclaimed(void *arg)
{
    struct scene *scene = arg;

    CHECK(scene->link != NULL && !scene->down);
}

static const struct lw__link_events events = {on_up, on_down, on_push, on_unclaimed};

/* ---- the scene ---- */

static void turn(struct scene *scene)
{
    for (int i = 0; i < TURNS; i++) {
        CHECK(event_base_loop(scene->base, EVLOOP_NONBLOCK) >= 0);
    }
}

static void open_scene(struct scene *scene)
{
    struct lw__link_options options = {.path = path,
                                       .connect_timeout_ms = 60000,
                                       .request_timeout_ms = 60000,
                                       .reply_max = 2000};
    char why[LW_WHY_SIZE];

    listen_once();
    scene->base = event_base_new();
    CHECK(scene->base != NULL && lw__loop_new(scene->base, &scene->loop) == 0);
    CHECK(lw__link_open(scene->loop, &options, &events, scene, why, &scene->link) == 0);
    scene->peer = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    CHECK(scene->peer >= 0);
    turn(scene);
    CHECK(scene->up);
}

static const char pings[] = "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n";

static const struct lw__request_type ask_type = {on_reply, on_failed};

static void ask_all(struct scene *scene, struct input *in)
{
    for (int i = 0; i < REQUESTS; i++) {
        struct ask *ask = &scene->asks[i];

        *ask = (struct ask){.scene = scene, .expected = 1 + input_number(in, 1) % 2};
        ask->request = (struct lw__request){
            .expected = (uint8_t)ask->expected, .second = 14, .type = &ask_type};
        ask->open = true;
        CHECK(lw__link_send(scene->link, &ask->request, pings, ask->expected * 14) == 0);
    }
}

static void serve(struct scene *scene, struct input *in, size_t piece)
{
    while (in->left > 0 && scene->link != NULL) {
        size_t length = in->left < piece ? in->left : piece;
        ssize_t sent = send(scene->peer, in->data, length, MSG_NOSIGNAL);

        if (sent <= 0) {
            break;
        }
        in->data += sent;
        in->left -= (size_t)sent;
        turn(scene);
    }
}

static void close_scene(struct scene *scene)
{
    close(scene->peer);
    turn(scene);
    CHECK(scene->link == NULL); /* the server is gone: the link is down or closed */
    lw__loop_free(scene->loop);
    event_base_free(scene->base);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint64_t flags = input_number(&in, 1), victim = input_number(&in, 1) % REQUESTS;
    size_t piece = 1 + input_number(&in, 1) * 8;
    struct scene scene = {.subscribed = flags & 1, .close_inside = (flags & 6) == 6};

    open_scene(&scene);
    if (scene.subscribed) {
        CHECK(lw__link_subscribe(scene.link, "lockwire:channel") == 0);
    } else {
        ask_all(&scene, &in);
    }
    if (!scene.subscribed && flags & 8) {
        lw__link_forget(&scene.asks[victim].request);
        scene.asks[victim].forgotten = true;
    }
    turn(&scene);
    serve(&scene, &in, piece);
    close_scene(&scene);
    return 0;
}

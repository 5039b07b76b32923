/* SPDX-License-Identifier: MIT */
/*
 * The route's side of a cluster's scene: commands, their replies, and the route's events.
 * Independent of the fake nodes.
 */
#include "cluster_scene.h"
#include "cluster_scene_inside.h"

#include "base/buffer.h"
#include "base/container_of.h"
#include "lockwire.h"
#include "redis/encode.h"
#include "redis/reply.h"
#include "redis/resp.h"
#include "redis/slot.h"

#include <stdio.h>
#include <string.h>

#define SHA "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* ---- commands ---- */

static struct asked *asked_of(struct lw__command *command)
{
    return LW__CONTAINER_OF(struct asked, command, command);
}

static unsigned slot_of(const struct asked *asked)
{
    return lw__slot_of(asked->key, strlen(asked->key));
}

static void put_words(struct lw__buffer *out, size_t count, const char *const *words)
{
    lw__resp_words(out, count, words);
}

static void put_script(struct asked *asked, struct lw__buffer *out)
{
    bool text = lw__command_evals(&asked->command);

    put_words(out, 4,
              (const char *[]){text ? "EVAL" : "EVALSHA", text ? "return 1" : SHA, "1",
                               asked->key});
}

static void put_number(struct asked *asked, struct lw__buffer *out)
{
    asked->command.request.second = (uint32_t)out->length;
    asked->command.request.expected = 2;
    if (asked->kind == PAIR) {
        put_words(out, 2, (const char *[]){"INCR", asked->key});
    } else {
        lw__node_encode_fence(&asked->command, slot_of(asked), out);
    }
}

static void put(struct lw__command *command, struct lw__buffer *out)
{
    struct asked *asked = asked_of(command);

    asked->heard = 0;
    switch (asked->kind) {
    case ONE:
        put_words(out, 2, (const char *[]){"GET", asked->key});
        break;
    case SOME:
        put_words(out, 3, (const char *[]){"MGET", asked->key, asked->key});
        break;
    case SCRIPT:
        put_script(asked, out);
        break;
    case PAIR:
    case TRY:
        put_words(out, 3, (const char *[]){"SET", asked->key, "1"});
        put_number(asked, out);
        break;
    }
}

static const char *text_of(const struct lw__reply *reply)
{
    static char text[32];

    switch (lw__reply_type(reply)) {
    case LW__REPLY_INTEGER:
        (void)snprintf(text, sizeof(text), "%lld", (long long)lw__reply_integer(reply));
        return text;
    case LW__REPLY_NIL:
        return "nil";
    case LW__REPLY_ARRAY:
        return "array";
    default:
        return lw__reply_text(reply, NULL);
    }
}

static bool answer(struct lw__command *command, const struct lw__reply *reply)
{
    struct asked *asked = asked_of(command);
    uint64_t number = 0;

    if (asked->kind == TRY && ++asked->heard == 2) {
        if (!lw__node_read_fence(command, slot_of(asked), reply, &number)) {
            return false;
        }
        if (number == 0) {
            note(asked->scene, "%s: no number", asked->key);
            return true;
        }
    }
    note(asked->scene, "%s: %s", asked->key, text_of(reply));
    return true;
}

static void failed(struct lw__command *command, const char *why, bool sent)
{
    struct asked *asked = asked_of(command);

    note(asked->scene, "%s failed%s: %s", asked->key, sent ? "" : " unsent", why);
}

struct asked *ask(struct scene *scene, enum kind kind, const char *key)
{
    static const struct lw__command_type type = {put, answer, .failed = failed};
    static const struct lw__command_type once = {put, answer, .failed = failed,
                                                 .noscript_is_error = true};
    struct asked *asked = scene->asked;

    while (asked->command.request.prev != NULL) {
        asked++;
        assert_true(asked < scene->asked + COMMANDS);
    }
    *asked = (struct asked){.scene = scene, .key = key, .kind = kind};
    if (!lw__node_send_early(at(scene, key), &asked->command, kind == TRY ? &once : &type,
                             kind == ONE || kind == SCRIPT)) {
        note(scene, "%s is not sent", key);
    }
    return asked;
}

void leads(struct scene *scene, const char *key, const char *node)
{
    char events[64];

    (void)snprintf(events, sizeof(events), "%s up; %s < GET %s; %s: 1; ", node, node, key,
                   key);
    (void)ask(scene, ONE, key);
    await(scene, events);
}

struct lw__node *at(struct scene *scene, const char *key)
{
    return lw__route_find(scene->route, key, NULL);
}

/* ---- the route's events ---- */

static const char *name_of(const struct lw__node *node)
{
    static char name[300];
    const struct lw__session_config *config = lw__node_config(node);

    if (config->host == NULL) {
        return "nowhere";
    }
    (void)snprintf(name, sizeof(name), "%s:%u", config->host, (unsigned)config->port);
    return name;
}

static void on_link(void *arg, int status, const char *why)
{
    bool up = status == LW_OK;

    if (up) {
        note(arg, "link");
    } else {
        note(arg, "no link: %s", why);
    }
}

static void on_remapped(void *arg)
{
    struct scene *scene = arg;

    if (scene->follow == NULL) {
        note(scene, "led");
    } else {
        note(scene, "%s led to %s", scene->follow, name_of(at(scene, scene->follow)));
    }
}

static void on_up(void *arg, struct lw__node *node)
{
    note(arg, "%s up", name_of(node));
}

static void on_down(void *arg, struct lw__node *node)
{
    note(arg, "%s down: %s", name_of(node), lw__node_reason(node));
}

/* Notes the slots of the scene that have just become bound. */
static void on_bound(void *arg, struct lw__node *node)
{
    static const unsigned slots[] = {SLOT_A, SLOT_B, SLOT_C, SLOT_X};
    char keys[8] = "";
    size_t count = 0;

    for (size_t i = 0; i < 4; i++) {
        if (lw__node_is_bound(node, slots[i]) &&
            lw__node_is_newly_bound(node, slots[i])) {
            keys[count++] = "abcx"[i];
        }
    }
    note(arg, "%s bound: %s", name_of(node), keys);
}

void scene_on_message(void *arg, const char *text, size_t length)
{
    note(arg, "message %.*s", (int)length, text);
}

static void on_dropped(void *arg, struct lw__node *node, unsigned slot)
{
    note(arg, "%s dropped %u", name_of(node), slot);
}

static void on_map_unavailable(void *arg, unsigned map, const char *why)
{
    (void)arg, (void)map, (void)why;
}

static void on_keep_slots(void *arg, struct lw__node *node)
{
    struct scene *scene = arg;

    if (scene->keeps != NULL && at(scene, scene->keeps) == node) {
        lw__node_subscribe(node, lw__route_slot(scene->route, scene->keeps));
    }
}

const struct lw__route_events scene_route_events = {on_link,
                                                    on_remapped,
                                                    on_map_unavailable,
                                                    {.up = on_up,
                                                     .down = on_down,
                                                     .bound = on_bound,
                                                     .slot_unsubscribed = on_dropped,
                                                     .keep_slots = on_keep_slots}};

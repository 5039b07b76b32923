/* SPDX-License-Identifier: MIT
 *
 * What must be true after each script: whoever is first in the queue cannot enter, a
 * hand-over went to one that heard of it and told nobody else but the next, counts match
 * their holds; and where nothing goes wrong, turns come in order and at two commands each.
 * Changes nothing.
 *
 * Happy path: the server shows each message and each script as it ends, and each function
 * returns; a violation does not.
 */
#include "look.h"

#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNHEARD 32

/* ---- messages and scripts ---- */

static unsigned turns, standbys; /* heard, of the script that runs */
static char turn[128];           /* the token whose turn it is, of a mutex */
static unsigned unheard_count;
static struct {
    char token[128];
    bool rw;
} unheard[UNHEARD];

static void on_publish(struct bytes channel, struct bytes message, int64_t receivers)
{
    char text[256];

    (void)channel;
    look_copy(text, sizeof(text), message);
    if (receivers > 0 && *text == 's')
        standbys++;
    else if (receivers > 0 && sscanf(text, "t %127s", turn) == 1)
        turns++;
    if (receivers > 0 || *text == 's' || unheard_count == UNHEARD)
        return;
    unheard[unheard_count].rw = *text == 'r';
    if (sscanf(text, "%*c %127s", unheard[unheard_count].token) == 1)
        unheard_count++;
}

/* The answer says that more of the queue is to be looked at. */
static bool says_again(struct bytes reply)
{
    char text[512], *rest = text, *items[8];
    int count = 0;

    look_copy(text, sizeof(text), reply);
    while (count < 8 && (items[count] = look_take(&rest)) != NULL)
        count++;
    if (count == 1)
        return (atoll(items[0]) & 2) != 0;
    return (count == 3 && atoll(items[2]) == 1) || (count >= 6 && atoll(items[5]) == 1) ||
           (count >= 7 && atoll(items[6]) == 1);
}

static void check_counts(const char *name, const struct look_rw *rw, bool excused)
{
    if (rw->ended && !excused)
        violation("%s has %lld holds whose leases have ended", name, (long long)rw->ended);
    if (rw->rcount != rw->reads || rw->wcount != rw->writes)
        violation("%s counts %lld reads and %lld writes, but has %lld and %lld", name,
                  (long long)rw->rcount, (long long)rw->wcount, (long long)rw->reads,
                  (long long)rw->writes);
}

/* Whoever is first in the queue cannot enter, or the script had let it in. `left`: one
 * that may not publish left it waiting; a renewal alone need not notice that it may now. */
static void check_head(const char *name, const char *queue, bool is_rw, bool excused,
                       bool *left)
{
    char head[256] = "", *rest = (char *)look_ask("ZRANGE", queue, "0", "0", NULL);
    const char *member = look_take(&rest);
    struct look_rw rw = {0};
    bool could;

    if (member)
        (void)snprintf(head, sizeof(head), "%s", member);
    if (is_rw) {
        rw = look_at_rw(name);
        check_counts(name, &rw, excused);
    }
    could = *head && (rw.ours || look_is_free(name)) &&
            (!is_rw || look_could_enter(name, &rw, head));
    if (could && !excused)
        violation("%s could enter %s after a script, but waits", head, name);
    *left = could;
}

/* Nobody was let in that did not hear of it, and nobody else was told. */
static void check_messages(const char *name)
{
    if (turns > 1 || standbys > 1)
        violation("a script told %u of the turn and %u to stand by", turns, standbys);
    if (turns > 0 && look_has_mutex(name, turn) &&
        look_number(look_ask("PTTL", name, NULL)) > atoll(strrchr(turn, ':') + 1))
        violation("%s was handed over for longer than %s claims", name, turn);
    for (unsigned i = 0; i < unheard_count; i++) {
        const char *token = unheard[i].token;

        if (unheard[i].rw ? look_has_hold(name, token) : look_has_mutex(name, token))
            violation("%s was handed to %s, who is dead", name, token);
    }
    turns = standbys = unheard_count = 0;
}

/* ---- where all wait for their turn ---- */

static unsigned script_count;
static struct place {
    struct place *next;
    unsigned name;
    char token[LW__TOKEN_SIZE];
} * places; /* in the order in which they came to the server */

static struct place **find_place(const char *token)
{
    struct place **at = &places;

    while (*at && strcmp((*at)->token, token) != 0)
        at = &(*at)->next;
    return at;
}

static unsigned name_index(const char *name)
{
    unsigned i = 0;

    while (strcmp(load_name(i), name) != 0)
        i++;
    return i;
}

/* An acquisition that waits. */
static void note_place(const struct model_script_run *run)
{
    char token[LW__TOKEN_SIZE], name[64];
    struct place *place, **at;

    look_copy(token, sizeof(token), run->args[0]);
    look_copy(name, sizeof(name), run->keys[0]);
    at = find_place(token);
    if (*at || !bytes_equal(run->args[2], bytes_of("1"))) /* it does not queue yet */
        return;
    place = must_alloc(sizeof(*place));
    memcpy(place->token, token, sizeof(token));
    place->name = name_index(name);
    *at = place;
}

void check_order(const struct op *op)
{
    struct place **at, *first = places;

    if (!world.plan.quiet)
        return;
    while (first && first->name != op->name)
        first = first->next;
    at = find_place(lw_lock_owner(op->lock));
    if (!*at)
        return; /* it found the name free, by SET NX */
    if (*at != first)
        violation("op %u did not wait for its turn", op->id);
    *at = first->next;
    free(first);
}

/* Two commands for each hand-over: the one that asks and the one that lets go. */
static void check_frugality(void)
{
    if (world.plan.quiet)
        trace("%u scripts ran for %u grants", script_count, world.granted);
    if (world.plan.quiet && script_count > 2 * world.granted + world.granted / 20 + 20)
        violation("%u scripts ran for %u grants", script_count, world.granted);
}

static bool unserved[NAMES];

static bool begins(struct bytes text, const char *with)
{
    return text.len >= strlen(with) && memcmp(text.data, with, strlen(with)) == 0;
}

/* `excused`: the script may leave whoever is first waiting. */
static void check_keys_of(const struct model_script_run *run, bool excused)
{
    for (int i = 1; i < run->key_count; i++) {
        bool is_rw = begins(run->keys[i], "lockwire:rwqueue:"), *left;
        char name[64], queue[128];

        if (!is_rw && !begins(run->keys[i], "lockwire:queue:"))
            continue;
        look_copy(name, sizeof(name), run->keys[i - 1]);
        look_copy(queue, sizeof(queue), run->keys[i]);
        left = &unserved[name_index(name)];
        check_head(name, queue, is_rw, excused || (i > 1 && *left), left);
        check_messages(name);
    }
}

/* Remembers who was released, for what it will be told. */
static void note_release(struct bytes token)
{
    for (struct op *op = world.ops; op; op = op->next) {
        if (op->state == OP_RELEASING && op->options.mode == LW_MUTEX &&
            world.now_us < op->deadline_us &&
            bytes_equal(bytes_of(lw_lock_owner(op->lock)), token))
            op->let_go = true;
    }
}

static bool is_release(const struct model_script_run *run)
{
    return run->key_count == 3 && run->arg_count == 1 &&
           (begins(run->reply, ":1") || begins(run->reply, ":3"));
}

static bool only_reads(const struct model_script_run *run)
{
    return run->key_count == 3 && begins(run->keys[1], "lockwire:queue:") &&
           begins(run->keys[2], "lockwire:rwqueue:");
}

static void on_script(const struct model_script_run *run)
{
    bool failed = begins(run->reply, "-");
    bool mute = model_server_faults(world.server)->deny_channels;

    script_count++;
    if (world.plan.quiet && run->key_count == 3 && run->arg_count == 5)
        note_place(run);
    if (is_release(run))
        note_release(run->args[0]);
    if (!only_reads(run))
        check_keys_of(run, failed || mute || says_again(run->reply));
}

void check_scripts_begin(void)
{
    turns = standbys = unheard_count = script_count = 0;
    places = NULL;
    memset(unserved, 0, sizeof(unserved));
    model_server_watch(world.server, &(struct model_watch){on_script, on_publish});
}

void check_scripts_end(void)
{
    check_frugality();
    while (places) {
        struct place *place = places;

        places = place->next;
        free(place);
    }
}

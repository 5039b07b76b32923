/* SPDX-License-Identifier: MIT */
/*
 * A random walk: several processes, each with one token at a time, and a foreign client
 * want the same name of a model of one server (machine_model.h). Commands and messages
 * are slow, are lost before or after they ran, run late from a dead connection, come
 * twice. Processes stall. Callers give up, hold. The server's clock runs at
 * another rate. Now and then the world is calm, and every player must be served.
 *
 * After every step: a token that counts as held has the name in the server at least until
 * D; fencing tokens grow; at most one command is in flight; an ended token has left
 * nothing behind. Usual course: each seed's walk finds nothing. Arguments: a seed, a
 * number of steps.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "machine_walk.h"

#include <stdlib.h>
#include <string.h>

#define SEEDS 8
#define STEPS 40000

struct world world;

static uint64_t seed_wanted;
static unsigned long steps_wanted = STEPS;

int64_t draw(int64_t low, int64_t high)
{
    return lw__random_between(&world.random, low, high);
}

bool chance(int percent)
{
    return draw(1, 100) <= percent;
}

/* Mostly short; sometimes longer than any window. */
int64_t delay(void)
{
    return chance(85) || world.calm ? draw(100, 5 * MS) : draw(5 * MS, 3000 * MS);
}

void broken(const struct player *p, const char *what)
{
    print_error("seed %llu, step %lu, %lld us: player %d: %s (phase %d, D %lld us)\n",
                (unsigned long long)world.seed, world.steps, (long long)world.now_us,
                p->client, what, p->machine.phase, (long long)p->machine.deadline_us);
    fail();
}

/* ---- the server's side ---- */

void deliver(void)
{
    for (size_t i = 0; i < world.server.messages; i++) {
        struct model_message message = world.server.outbox[i];
        struct player *p = &world.players[MODEL_CLIENT(message.token) - 1];
        int copies = world.calm ? 1 : chance(5) ? 0 : chance(10) ? 2 : 1;

        for (size_t j = 0; j < INBOX && copies > 0; j++) {
            if (p->inbox[j].at_us != 0) {
                continue;
            }
            p->inbox[j].at_us = world.now_us + delay();
            p->inbox[j].message = message;
            copies--;
        }
    }
    world.server.messages = 0;
}

static void run(struct command *c)
{
    c->answer = (struct lw__input){.sent_us = c->sent_us};
    model_run(&world.server, world.now_us, c->lease_us, &c->call, &c->answer);
    c->ran = true;
    deliver();
}

static void stranger(void)
{
    struct lw__input ignored;

    model_run(&world.server, world.now_us, draw(100, 2000) * MS,
              &(struct model_call){.kind = MODEL_TRY, .token = MODEL_FOREIGN}, &ignored);
    world.stranger_us = world.now_us + draw(5000, 20000) * MS;
}

/* ---- the next event ---- */

/* An event that is due at `at_us`, for a player unless it is NULL. */
struct candidate {
    int64_t at_us;
    struct player *player;
    void (*happens)(struct player *player);
    size_t index; /* a message's or a ghost's */
    enum { HAPPENS, RUNS_ASK, RUNS_RENEWAL, MESSAGE, GHOST, STRANGER } kind;
};

static struct candidate candidates[PLAYERS * (INBOX + 12) + GHOSTS + 1];
static size_t candidate_count;

static void add(struct candidate candidate)
{
    if (candidate.player != NULL && candidate.kind != RUNS_ASK &&
        candidate.kind != RUNS_RENEWAL &&
        candidate.at_us < candidate.player->stalled_until_us) {
        candidate.at_us = candidate.player->stalled_until_us;
    }
    candidates[candidate_count++] = candidate;
}

static void add_if(bool wanted, struct player *p, int64_t at_us,
                   void (*happens)(struct player *))
{
    if (wanted) {
        add((struct candidate){.at_us = at_us, .player = p, .happens = happens});
    }
}

static void add_player(struct player *p)
{
    const struct lw__machine *m = &p->machine;
    bool asks = p->ask.in_flight, renews = p->renewal.in_flight;

    if (asks && p->ask.runs && !p->ask.ran) {
        add((struct candidate){.at_us = p->ask.run_us, .player = p, .kind = RUNS_ASK});
    }
    if (renews && p->renewal.runs && !p->renewal.ran) {
        add((struct candidate){
            .at_us = p->renewal.run_us, .player = p, .kind = RUNS_RENEWAL});
    }
    add_if(asks, p, p->ask.answer_us, player_answer);
    add_if(renews, p, p->renewal.answer_us, player_renewal);
    add_if(!p->linked, p, p->link_up_us, player_link_up);
    add_if(m->due_us != LW__NEVER && !lw__machine_holds(m->phase), p, m->due_us,
           player_due);
    add_if(lw__machine_holds(m->phase), p, m->deadline_us - p->margin_us,
           player_deadline);
    add_if(lw__machine_holds(m->phase) && !renews && p->linked, p, p->renew_us,
           player_renew);
    add_if(lw__machine_holds(m->phase) && !p->told, p, p->tell_us, player_tell);
    add_if(!lw__machine_releases(m->phase), p, p->act_us, player_act);
    for (size_t i = 0; i < INBOX; i++) {
        if (p->inbox[i].at_us != 0) {
            add((struct candidate){
                .at_us = p->inbox[i].at_us, .player = p, .index = i, .kind = MESSAGE});
        }
    }
}

static void add_all(void)
{
    candidate_count = 0;
    for (size_t i = 0; i < PLAYERS; i++) {
        add_player(&world.players[i]);
    }
    for (size_t i = 0; i < GHOSTS; i++) {
        if (world.ghosts[i].in_flight) {
            add((struct candidate){
                .at_us = world.ghosts[i].run_us, .index = i, .kind = GHOST});
        }
    }
    add((struct candidate){.at_us = world.stranger_us, .kind = STRANGER});
}

/* Moves to the time of the first event. Returns any of those due by then: after a stall
 * there are many. */
static struct candidate choose(void)
{
    int64_t first = INT64_MAX;
    size_t due_count = 0;

    add_all();
    for (size_t i = 0; i < candidate_count; i++) {
        first = candidates[i].at_us < first ? candidates[i].at_us : first;
    }
    if (first > world.now_us) {
        world.now_us = first;
    }
    for (size_t i = 0; i < candidate_count; i++) {
        if (candidates[i].at_us <= world.now_us) {
            candidates[due_count++] = candidates[i];
        }
    }
    return candidates[draw(0, (int64_t)due_count - 1)];
}

static void happen(struct candidate c)
{
    switch (c.kind) {
    case RUNS_ASK:
        run(&c.player->ask);
        return;
    case RUNS_RENEWAL:
        run(&c.player->renewal);
        return;
    case GHOST:
        run(&world.ghosts[c.index]);
        world.ghosts[c.index].in_flight = false;
        return;
    case STRANGER:
        stranger();
        return;
    default:
        break;
    }
    player_deadline(c.player);
    if (c.kind == MESSAGE) {
        player_message(c.player, c.index);
    } else if (c.happens != player_deadline) {
        c.happens(c.player);
    }
    if (!world.calm && chance(1)) {
        c.player->stalled_until_us = world.now_us + draw(1, 8000) * MS;
    }
}

static void go_on(void)
{
    struct player *any = &world.players[draw(0, PLAYERS - 1)];

    happen(choose());
    if (!world.calm && chance(1) && any->linked &&
        any->stalled_until_us <= world.now_us) {
        player_subscribed(any);
    }
    for (size_t i = 0; i < PLAYERS; i++) {
        player_check(&world.players[i]);
    }
}

/* Continues without faults until every player has been served. */
static void be_calm(void)
{
    int64_t until = world.now_us + CALM_US;
    bool all = false;

    world.calm = true;
    world.calms++;
    for (size_t i = 0; i < PLAYERS; i++) {
        world.players[i].served = 0;
    }
    while (!all) {
        all = true;
        go_on();
        for (size_t i = 0; i < PLAYERS; i++) {
            if (world.players[i].served < 2) {
                all = false;
            }
            if (world.now_us > until && world.players[i].served < 2) {
                broken(&world.players[i], "was not served although all is calm");
            }
        }
    }
    world.calm = false;
}

static void walk(uint64_t seed)
{
    memset(&world, 0, sizeof(world));
    world.seed = seed;
    lw__random_seed(&world.random, seed);
    world.now_us = 1000 * MS;
    world.server = (struct model){
        .ahead_us = draw(0, 1000000000) * MS,
        .ppm = draw(-5000, 5000),
        .window_us = draw(100, 2000) * MS,
        .mutex = {.holder = MODEL_NOBODY},
        .last_number = 1000,
    };
    for (int i = 0; i < PLAYERS; i++) {
        world.players[i].client = i + 1;
        world.players[i].linked = true;
        world.players[i].act_us = world.now_us;
    }
    while (world.steps < steps_wanted) {
        for (int i = 0; i < 4000; i++) {
            go_on();
        }
        be_calm();
    }
    print_message("seed %llu: %lu steps, %lu grants (%lu by message), "
                  "%lu losses, %lu calms, %lld s\n",
                  (unsigned long long)seed, world.steps, world.grants, world.by_message,
                  world.losses, world.calms, (long long)(world.now_us / 1000000));
    assert_true(world.grants > 0 && world.by_message > 0 && world.losses > 0);
}

static void test_random_walk(void **state)
{
    (void)state;
    if (seed_wanted != 0) {
        walk(seed_wanted);
        return;
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        walk(seed);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random_walk)};

    if (argc > 1) {
        seed_wanted = strtoull(argv[1], NULL, 10);
    }
    if (argc > 2) {
        steps_wanted = strtoul(argv[2], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT
 *
 * The property test of the scripts: random calls of all of them, each perhaps sent twice
 * at once or again much later, between accidents (keys that expire or vanish, a foreign
 * lock, holds whose lease has expired, a lost counter). After every call the holders,
 * counts, queues, messages and fencing tokens must be those of the reference model.
 * Independent of how the scripts work.
 *
 * --seed N --steps N; a failure names its seed and step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "script_replay.h"

enum { POOL = 44, HISTORY = 64, MUTEX_POOL = 24 };

static long steps = 50000;
static uint64_t random_state;
static int token_count;
static struct call history[HISTORY];
static int pool[POOL]; /* the tokens in use, the mutex's first */
static bool plague;    /* most new tokens belong to a dead process */

static unsigned roll(unsigned below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)((random_state >> 33) % below);
}

static int new_token(bool rw)
{
    static const int permits[] = {0, 0, 0, 1, 2, 3};
    struct model_token *token = &world.tokens[token_count];
    struct script_client dead;
    int kind = (int)roll(10);

    script_client_dead(&dead, 0x77);
    token->client = roll(10) < (plague ? 9 : 1) ? MODEL_DEAD_CLIENT : (int)roll(2);
    token->window = 50000 + (int)roll(10000); /* no claim window ends by itself */
    token->owner = (int)roll(MODEL_OWNERS);
    if (rw) {
        token->kind = kind < 6 ? 'r' : 'w';
        token->permits = kind < 6 ? permits[roll(6)] : 0;
    }
    (void)snprintf(token->text, sizeof(token->text), "%s",
                   script_token(token->client == 0   ? &a
                                : token->client == 1 ? &b
                                                     : &dead,
                                token_count, token->window));
    world.tickets[token_count] = MODEL_NO_TICKET;
    return token_count++;
}

static bool is_used(int token)
{
    return world.mutex.holder == token || model_find(&world.mutex.queue, token) >= 0 ||
           model_find(&world.rw.holds, token) >= 0 ||
           model_find(&world.rw.queue, token) >= 0;
}

/* Returns a token of the pool, in which a new token may replace an unused one. */
static int pick(bool rw)
{
    int slot = rw ? MUTEX_POOL + (int)roll(POOL - MUTEX_POOL) : (int)roll(MUTEX_POOL);

    if (!is_used(pool[slot]) && roll(3) == 0) {
        pool[slot] = new_token(rw);
    }
    return pool[slot];
}

/* Accidents that no script causes. */

static void end_a_hold(void)
{
    struct model_entry *hold;

    if (world.rw.holds.count == 0) {
        return;
    }
    hold = &world.rw.holds.entries[roll((unsigned)world.rw.holds.count)];
    rw_end(world.tokens[hold->token].text);
    hold->ended = true;
}

/* Time passes without a request of this waiter. */
static void let_one_hang(void)
{
    struct model_entry *note;

    if (world.rw.notes.count == 0) {
        return;
    }
    note = &world.rw.notes.entries[roll((unsigned)world.rw.notes.count)];
    script_do(&server, "HSET rw a:%s 1", world.tokens[note->token].text);
    note->ended = true;
}

static void change_the_stranger(void)
{
    if (world.mutex.holder == MODEL_FOREIGN) {
        script_do(&server, "DEL n");
        world.mutex.holder = MODEL_NOBODY;
    } else if (world.mutex.holder == MODEL_NOBODY) {
        script_do(&server, "SET n stranger PX 600000");
        world.mutex.holder = MODEL_FOREIGN;
    }
}

/* A plain SET NX by a client that does not know of the queue. */
static void take_the_free(void)
{
    int token = pick(false);
    struct model_answer taken;

    if (world.mutex.holder != MODEL_NOBODY || world.tokens[token].adopts ||
        model_find(&world.mutex.queue, token) >= 0) {
        return;
    }
    script_do(&server, "SET n %s PX 600000", world.tokens[token].text);
    mutex_model_run(&world.mutex, &(struct model_call){.kind = MODEL_TRY, .token = token},
                    &taken);
}

static void seed_fence(void)
{
    struct script_answer answer =
        script_run(&server, LW__SCRIPT_FENCE_SEED, 1, "lockwire:fence", NULL);

    CHECK(answer.n[0] > world.last_number, "seeded %lld after %lld", answer.n[0],
          world.last_number);
    world.last_number = answer.n[0];
    world.done[LW__SCRIPT_FENCE_SEED]++;
}

static void ask_guard(void)
{
    static const char *const identities[] = {"a:0:-1", "b:0:-1", "b:a:17"};
    static const long long guards[] = {300000, 300000, 300000, 300000, 600000};
    static struct {
        unsigned identity;
        long long guard, most; /* no record if guard is 0 */
    } last;
    unsigned identity = roll(3);
    long long guard = guards[roll(5)], left;
    bool goes_on = roll(2), same_process, same;
    struct script_answer answer;

    if (roll(8) == 0) {
        script_do(&server, "DEL lockwire:guard");
        last.guard = 0;
    }
    answer = script_run(&server, LW__SCRIPT_GUARD, 1, "lockwire:guard",
                        identities[identity], script_number(guard), goes_on ? "1" : "0",
                        NULL);
    CHECK(!answer.error && answer.count == 1, "%s", answer.text);
    left = answer.n[0];
    world.done[LW__SCRIPT_GUARD]++;
    if (last.guard > guard) { /* a shorter one, which a longer one replaces: see below */
        CHECK(left == -last.guard, "%lld ms, of another guard time", left);
        return;
    }
    same_process = *identities[last.identity] == *identities[identity];
    same = last.guard == guard &&
           (last.identity == identity || (same_process && (goes_on || identity != 2)));
    if (!same) {
        CHECK(left == guard, "%lld ms, not %lld", left, guard);
        last.most = guard;
    }
    CHECK(left >= 0 && left <= last.most, "%lld ms, after %lld", left, last.most);
    last.guard = guard;
    last.identity = identity;
    last.most = left;
}

static void play_accident(void)
{
    switch (roll(17)) {
    case 15:
    case 16:
        ask_guard();
        break;
    case 0:
        script_do(&server, "DEL n");
        world.mutex.holder = MODEL_NOBODY;
        break;
    case 1:
    case 2:
        change_the_stranger();
        break;
    case 3:
        script_do(&server, "DEL " QUEUE);
        world.mutex.queue.count = 0;
        break;
    case 4:
        script_do(&server, "DEL " RW_QUEUE);
        world.rw.queue.count = 0;
        break;
    case 5:
        script_do(&server, "DEL rw");
        world.rw.holds.count = world.rw.notes.count = 0;
        break;
    case 6:
        script_do(&server, "DEL lockwire:fence");
        break;
    case 7:
        seed_fence();
        break;
    case 8:
    case 9:
    case 10:
        let_one_hang();
        break;
    case 11:
    case 12:
        take_the_free();
        break;
    default:
        end_a_hold();
    }
}

/* Chooses a hold to adopt, and a new token of its kind and owner. Returns false if there
 * is no room for that in the pool. */
static bool choose_adopter(struct call *call, bool rw)
{
    int slot = rw ? MUTEX_POOL + (int)roll(POOL - MUTEX_POOL) : (int)roll(MUTEX_POOL);
    const struct model_list *holds = &world.rw.holds;
    struct model_token *token;

    if (is_used(pool[slot])) {
        return false;
    }
    if (rw && roll(4) && holds->count > 0) {
        call->old = holds->entries[roll((unsigned)holds->count)].token;
    } else if (rw) {
        call->old = pick(true);
    }
    call->token = pool[slot] = new_token(rw);
    token = &world.tokens[call->token];
    token->kind = world.tokens[call->old].kind;
    token->owner = world.tokens[call->old].owner;
    token->permits = world.tokens[call->old].permits;
    token->adopts = true;
    return true;
}

/* Returns true for a script that may put the call's token into a queue. */
static bool may_queue(enum lw__script_id script)
{
    return script == LW__SCRIPT_MUTEX_ACQUIRE || script == LW__SCRIPT_RW_ACQUIRE;
}

/* Chooses what a client would most likely do: a holder releases, others request. */
static struct call random_call(void)
{
    static const enum lw__script_id mutex[] = {
        LW__SCRIPT_MUTEX_ACQUIRE, LW__SCRIPT_MUTEX_ACQUIRE, LW__SCRIPT_MUTEX_RELEASE,
        LW__SCRIPT_MUTEX_RELEASE, LW__SCRIPT_MUTEX_RENEW,   LW__SCRIPT_MUTEX_RELEASE_FAST,
        LW__SCRIPT_MUTEX_DETACH,  LW__SCRIPT_MUTEX_ADOPT,
    };
    static const enum lw__script_id rw[] = {
        LW__SCRIPT_RW_ACQUIRE, LW__SCRIPT_RW_ACQUIRE, LW__SCRIPT_RW_ACQUIRE,
        LW__SCRIPT_RW_RELEASE, LW__SCRIPT_RW_RENEW,   LW__SCRIPT_RW_DETACH,
        LW__SCRIPT_RW_ADOPT,
    };
    bool is_rw = roll(2);
    struct call call = {.script = is_rw ? rw[roll(7)] : mutex[roll(8)],
                        .token = pick(is_rw),
                        .wait = roll(8) > 0,
                        .want_fence = roll(8) > 0};

    if (plague && !is_rw && roll(3)) { /* a queue of the dead grows long */
        call.script = LW__SCRIPT_MUTEX_ACQUIRE;
    }
    if ((call.script == LW__SCRIPT_MUTEX_RELEASE ||
         call.script == LW__SCRIPT_MUTEX_RELEASE_FAST) &&
        roll(2) && world.mutex.holder >= 0) {
        call.token = world.mutex.holder;
    }
    if (call.script == LW__SCRIPT_RW_RELEASE && roll(3) && world.rw.holds.count > 0) {
        call.token = world.rw.holds.entries[roll((unsigned)world.rw.holds.count)].token;
    }
    call.closed = (call.script == LW__SCRIPT_MUTEX_RELEASE ||
                   call.script == LW__SCRIPT_RW_RELEASE ||
                   call.script == LW__SCRIPT_RW_RENEW) &&
                  roll(4) == 0;
    call.old = roll(3) && world.mutex.holder >= 0 ? world.mutex.holder : pick(false);
    call.limit = roll(3) == 0 ? 1 + (int)roll(6) : 0;
    call.ticket = roll(3) ? world.tickets[call.token] : MODEL_NO_TICKET;
    if (((call.script == LW__SCRIPT_RW_ADOPT || call.script == LW__SCRIPT_MUTEX_ADOPT) &&
         !choose_adopter(&call, is_rw)) ||
        (may_queue(call.script) && world.tokens[call.token].adopts)) {
        call.script = is_rw ? LW__SCRIPT_RW_RENEW : LW__SCRIPT_MUTEX_RENEW;
    }
    return call;
}

static void begin(void)
{
    size_t count = (size_t)steps * 2 + POOL;

    random_state = world.seed * 2654435761u + 88172645463325252u;
    world.tokens = calloc(count, sizeof(*world.tokens));
    world.tickets = calloc(count, sizeof(*world.tickets));
    assert_non_null(world.tokens);
    assert_non_null(world.tickets);
    world.mutex = (struct mutex_model){.holder = MODEL_NOBODY};
    world.rw = (struct rw_model){.tokens = world.tokens};
    for (int i = 0; i < POOL; i++) {
        pool[i] = new_token(i >= MUTEX_POOL);
    }
    for (int i = 0; i < HISTORY; i++) {
        history[i] = (struct call){.script = LW__SCRIPT_MUTEX_RENEW, .token = pool[0]};
    }
    script_server_watch(&server, replay_state);
}

static void random_calls_sent_again_have_the_effect_of_once(void **state)
{
    (void)state;
    print_message("--seed %llu --steps %ld\n", world.seed, steps);
    begin();
    for (world.step = 0; world.step < steps; world.step++) {
        struct call call = random_call();

        if (roll(20) == 0) {
            play_accident();
        }
        if (roll(500) == 0) {
            plague = !plague;
        }
        if (roll(8) == 0) {
            call = history[roll(HISTORY)];
        }
        history[roll(HISTORY)] = call;
        replay_run(&call, roll(4) == 0);
    }
    print_message("%ld grants, %ld turns, %ld deadlocks, %ld unfinished, %ld "
                  "while closed, %ld refused by a limit; calls:",
                  world.grants, world.turns, world.deadlocks, world.agains, world.closed,
                  world.full);
    for (int i = 0; i < LW__SCRIPT_COUNT; i++) {
        print_message(" %s %ld", lw__scripts[i].name, world.done[i]);
    }
    print_message("\n");
    free(world.tokens);
    free(world.tickets);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(random_calls_sent_again_have_the_effect_of_once),
    };

    world.seed = (unsigned long long)time(NULL);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) {
            world.seed = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--steps") == 0) {
            steps = strtol(argv[i + 1], NULL, 10);
        } else {
            argc = 0;
        }
    }
    if (argc % 2 == 0 || steps < 1) {
        (void)fprintf(stderr, "usage: %s [--seed N] [--steps N]\n", argv[0]);
        return 2;
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

/* SPDX-License-Identifier: MIT
 *
 * One call of the property test: sends it, asks the model, and compares the reply,
 * messages, fencing tokens and the whole state. Independent of the choice of the call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "script_replay.h"

#define DETACH_MS 55000 /* the lease of a detached token, which a message can name */

struct world world;

static struct script_answer send_mutex(const struct call *call)
{
    const char *token = world.tokens[call->token].text;
    const char *how = script_how(call->wait, call->ticket, call->want_fence);

    if (call->script == LW__SCRIPT_MUTEX_ACQUIRE) {
        return mutex_answer(script_run(&server, call->script, 3, KEYS, token,
                                       script_how_long(how, LEASE), NULL));
    }
    if (call->script == LW__SCRIPT_MUTEX_RENEW) {
        return script_run(&server, call->script, 1, "n", token, "600000", NULL);
    }
    if (call->script == LW__SCRIPT_MUTEX_RELEASE_FAST) {
        return script_run(&server, call->script, 1, "n", token, NULL);
    }
    if (call->script == LW__SCRIPT_MUTEX_DETACH) {
        return script_run(&server, call->script, 3, KEYS, token, script_number(DETACH_MS),
                          NULL);
    }
    if (call->script == LW__SCRIPT_MUTEX_ADOPT) {
        return script_run(&server, call->script, 2, "n", "lockwire:fence",
                          world.tokens[call->old].text, token, "600000",
                          call->want_fence ? "f" : "-", NULL);
    }
    return script_run(&server, LW__SCRIPT_MUTEX_RELEASE, 3, KEYS, token, script_numbers,
                      NULL);
}

static struct script_answer send_rw(const struct call *call)
{
    const struct model_token *token = &world.tokens[call->token];
    char owner[] = {'o', (char)('0' + token->owner), '\0'};
    char kind[] = {token->kind, (char)('0' + token->permits), '\0'};

    if (call->script == LW__SCRIPT_RW_ACQUIRE) {
        return rw_acquire(token->text, kind, owner, call->wait, call->ticket);
    }
    if (call->script == LW__SCRIPT_RW_RELEASE) {
        return rw_release(token->text, kind, owner);
    }
    if (call->script == LW__SCRIPT_RW_DETACH) {
        return script_run(&server, call->script, 3, RW_KEYS, token->text,
                          script_number(DETACH_MS), NULL);
    }
    if (call->script == LW__SCRIPT_RW_ADOPT) {
        kind[1] = ' ';
        return rw_adopt(world.tokens[call->old].text, token->text, LEASE, kind);
    }
    return script_run(&server, LW__SCRIPT_RW_RENEW, 3, "lockwire:fence", "rw", RW_QUEUE,
                      script_numbers, token->text, "600000", NULL);
}

static struct script_answer send_call(const struct call *call)
{
    return world.tokens[call->token].kind ? send_rw(call) : send_mutex(call);
}

int model_client(int token)
{
    return world.tokens[token].client;
}

int model_compare(int token, int other)
{
    const struct model_token *a = &world.tokens[token], *b = &world.tokens[other];

    if (a->kind != b->kind) {
        return a->kind - b->kind;
    }
    if (a->permits != b->permits) {
        return a->permits - b->permits;
    }
    return strcmp(a->text, b->text);
}

static void expect(const struct call *call, struct model_answer *answer)
{
    static const enum model_kind kinds[LW__SCRIPT_COUNT] = {
        [LW__SCRIPT_MUTEX_ACQUIRE] = MODEL_ACQUIRE,
        [LW__SCRIPT_MUTEX_RELEASE] = MODEL_RELEASE,
        [LW__SCRIPT_MUTEX_RELEASE_FAST] = MODEL_RELEASE_FAST,
        [LW__SCRIPT_MUTEX_RENEW] = MODEL_RENEW,
        [LW__SCRIPT_MUTEX_DETACH] = MODEL_DETACH,
        [LW__SCRIPT_MUTEX_ADOPT] = MODEL_ADOPT,
        [LW__SCRIPT_RW_ACQUIRE] = MODEL_ACQUIRE,
        [LW__SCRIPT_RW_RELEASE] = MODEL_RELEASE,
        [LW__SCRIPT_RW_RENEW] = MODEL_RENEW,
        [LW__SCRIPT_RW_DETACH] = MODEL_DETACH,
        [LW__SCRIPT_RW_ADOPT] = MODEL_ADOPT,
    };
    struct model_call expected = {kinds[call->script], call->token,  call->old,
                                  call->wait,          call->closed, call->limit,
                                  call->ticket};

    if (world.tokens[call->token].kind) {
        rw_model_run(&world.rw, &expected, answer);
    } else {
        mutex_model_run(&world.mutex, &expected, answer);
    }
}

/* Comparing. */

static void check_number(const struct model_event *event, long long number)
{
    const struct model_token *token = &world.tokens[event->token];

    if (event->fresh) {
        CHECK(number > world.last_number, "number %lld after %lld", number,
              world.last_number);
    } else {
        CHECK(number == world.numbers[token->owner], "number %lld, not the owner's %lld",
              number, world.numbers[token->owner]);
    }
    if (event->fresh) {
        world.last_number = token->kind ? number : number + 15;
    }
    if (token->kind) {
        world.numbers[token->owner] = number;
    }
}

static void check_events(const struct call *call, const struct model_answer *expected,
                         long long number)
{
    for (int i = 0; i < expected->event_count; i++) {
        const struct model_event *event = &expected->events[i];
        const struct model_token *token = &world.tokens[event->token];
        struct script_client *client = token->client == 0 ? &a : &b;

        if (event->what == MODEL_STANDBY) {
            script_client_standby(client, token->text,
                                  event->head == MODEL_NOBODY
                                      ? DETACH_MS
                                      : world.tokens[event->head].window);
        } else if (event->what == MODEL_HANDED_OVER) {
            check_number(event, script_client_turn(client, token->text).fence);
        } else if (token->kind || call->want_fence) {
            check_number(event, number);
        } else {
            CHECK(number == 0, "number %lld though none was wanted", number);
        }
        world.grants += event->what == MODEL_GRANTED;
        world.turns += event->what == MODEL_HANDED_OVER;
    }
}

static struct model_entry *find_queued(int token)
{
    struct model_list *queue = world.tokens[token].kind ? &world.rw.queue
                                                        : &world.mutex.queue;
    int i = model_find(queue, token);

    return i < 0 ? NULL : &queue->entries[i];
}

/* {0, remaining, position, ticket, us, again [, type]} */
static void check_refusal(const struct call *call, const struct model_answer *expected,
                          const struct script_answer *answer, int from)
{
    struct model_entry *entry = find_queued(call->token);
    const long long *n = answer->n + from;

    CHECK(answer->count == from + 6, "%d elements", answer->count);
    CHECK(n[2] == expected->position, "position %lld, not %d", n[2], expected->position);
    world.full += n[2] == FULL;
    if (entry != NULL && entry->ticket == MODEL_NO_TICKET && call->wait) {
        CHECK(n[3] > 1LL << 50, "ticket %lld", n[3]);
        CHECK(expected->position == 0 || entry[-1].ticket < n[3], "ticket %lld", n[3]);
        entry->ticket = n[3];
    } else if (expected->ticket == MODEL_NO_TICKET) { /* it has just come */
        CHECK(n[3] == n[4], "ticket %lld, not %lld", n[3], n[4]);
    } else {
        CHECK(n[3] == expected->ticket, "ticket %lld, not %lld", n[3], expected->ticket);
    }
    CHECK(n[5] == expected->again, "again %lld, not %d", n[5], expected->again);
    world.tickets[call->token] = n[3];
}

static void check_outcome(const struct call *call, const struct model_answer *expected,
                          const struct script_answer *answer, int from)
{
    CHECK(answer->n[from] == expected->outcome, "outcome %lld, not %d", answer->n[from],
          expected->outcome);
    if (expected->outcome == 0) {
        check_refusal(call, expected, answer, from);
    } else {
        CHECK(answer->count == from + (expected->outcome == 1 ? 2 : 1), "%d elements",
              answer->count);
    }
    world.deadlocks += expected->outcome == -1;
    check_events(call, expected, answer->n[from + 1]);
}

static void check_answer(const struct call *call, const struct model_answer *expected,
                         const struct script_answer *answer)
{
    CHECK(!answer->error, "%s", answer->text);
    switch (call->script) {
    case LW__SCRIPT_MUTEX_ACQUIRE:
    case LW__SCRIPT_RW_ACQUIRE:
        check_outcome(call, expected, answer, 0);
        break;
    case LW__SCRIPT_MUTEX_RELEASE_FAST:
    case LW__SCRIPT_MUTEX_RELEASE:
        CHECK(answer->n[0] == expected->released + 2 * expected->again, "released %lld",
              answer->n[0]);
        check_events(call, expected, 0);
        break;
    case LW__SCRIPT_RW_RELEASE:
        CHECK(answer->n[0] == expected->released, "released %lld", answer->n[0]);
        CHECK(answer->n[1] == expected->left, "left %lld, not %d", answer->n[1],
              expected->left);
        check_events(call, expected, 0);
        break;
    case LW__SCRIPT_MUTEX_ADOPT:
    case LW__SCRIPT_RW_ADOPT:
        CHECK((answer->n[0] >= 0 ? 1 : answer->n[0]) == expected->outcome, "adopted %lld",
              answer->n[0]);
        check_events(call, expected, answer->n[0]);
        break;
    default:
        CHECK(answer->n[0] == expected->outcome, "renewed %lld", answer->n[0]);
        check_events(call, expected, 0);
    }
}

/* The whole state in one line, from the server and from the model. The counts in the hash
 * are compared with its holds after every script anyway. */
const char replay_state[] =
    "local holds, notes = {}, {} "
    "for _, field in ipairs(redis.call('HKEYS', 'rw')) do "
    "  if field:sub(1, 2) == 'h:' then holds[#holds + 1] = field:sub(3) end "
    "  if field:sub(1, 2) == 'a:' then "
    "    local late = redis.call('HGET', 'rw', field) == '1' "
    "    notes[#notes + 1] = field:sub(3) .. (late and '!' or '') "
    "  end "
    "end "
    "table.sort(holds) "
    "table.sort(notes) "
    "local waiting = redis.call('ZRANGE', 'lockwire:2:rwqueue:{rw}', 0, -1) "
    "for i, member in ipairs(waiting) do "
    "  waiting[i] = member:match('^%S+ (%S+)') "
    "end "
    "local queue = redis.call('ZRANGE', 'lockwire:2:queue:{n}', 0, -1) "
    "return (redis.call('GET', 'n') or '-') .. '|' .. table.concat(queue, ' ') .. "
    "  '|' .. table.concat(holds, ' ') .. '|' .. table.concat(waiting, ' ') .. "
    "  '|' .. table.concat(notes, ' ')";

static int compare_texts(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static char *append(char *end, const char *text)
{
    size_t length = strlen(text);

    memcpy(end, text, length + 1);
    return end + length;
}

static char *write_list(char *end, const struct model_list *list, bool sorted)
{
    const char *texts[MODEL_CAPACITY];

    for (int i = 0; i < list->count; i++) {
        texts[i] = world.tokens[list->entries[i].token].text;
    }
    if (sorted && list->count > 0) {
        qsort(texts, (size_t)list->count, sizeof(texts[0]), compare_texts);
    }
    end = append(end, "|");
    for (int i = 0; i < list->count; i++) {
        end = append(end, i > 0 ? " " : "");
        end = append(end, texts[i]);
    }
    return end;
}

static int compare_marked(const void *x, const void *y)
{
    return strcmp(x, y);
}

/* Writes the notes; the waiters that should have requested again by now are marked. */
static void write_notes(char *end)
{
    static char texts[MODEL_CAPACITY][96];
    const struct model_list *notes = &world.rw.notes;

    for (int i = 0; i < notes->count; i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "%s%s",
                       world.tokens[notes->entries[i].token].text,
                       notes->entries[i].ended ? "!" : "");
    }
    if (notes->count > 0) {
        qsort(texts, (size_t)notes->count, sizeof(texts[0]), compare_marked);
    }
    end = append(end, "|");
    for (int i = 0; i < notes->count; i++) {
        end = append(end, i > 0 ? " " : "");
        end = append(end, texts[i]);
    }
}

/* Reads the tickets that were assigned without being in a reply. */
static void learn_tickets(void)
{
    struct model_entry *entries = world.rw.queue.entries;
    char member[120];

    for (int i = 0; i < world.rw.queue.count; i++) {
        const struct model_token *token = &world.tokens[entries[i].token];

        if (entries[i].ticket != MODEL_NO_TICKET) {
            continue;
        }
        (void)snprintf(member, sizeof(member), "%c%d %s o%d", token->kind, token->permits,
                       token->text, token->owner);
        entries[i].ticket =
            strtoll(script_get(&server, "ZSCORE " RW_QUEUE " %s", member), NULL, 10);
        CHECK(entries[i].ticket > 1LL << 50, "ticket %lld", entries[i].ticket);
    }
}

static void check_state(char *text)
{
    char *end = append(text, world.mutex.holder >= 0
                                 ? world.tokens[world.mutex.holder].text
                             : world.mutex.holder == MODEL_FOREIGN ? "stranger"
                                                                   : "-");

    if (world.mutex.holder >= 0 && world.mutex.marked) {
        end[-1] = '+';
    }
    end = write_list(end, &world.mutex.queue, false);
    end = write_list(end, &world.rw.holds, true);
    end = write_list(end, &world.rw.queue, false);
    write_notes(end);
    CHECK(strcmp(server.watched, text) == 0, "the server has\n%s\nthe model\n%s",
          server.watched, text);
    CHECK(rw_model_excludes(&world.rw), "two exclude each other:\n%s", text);
}

/* Returns false for a call that reads no queue: a renewal of a hold, a reply of a
 * deadlock, a fast release, detaching and adopting, and any call while the guard is
 * closed. */
static bool serves(const struct call *call, const struct model_answer *answer)
{
    switch (call->script) {
    case LW__SCRIPT_MUTEX_RENEW:
    case LW__SCRIPT_MUTEX_RELEASE_FAST:
    case LW__SCRIPT_MUTEX_DETACH:
    case LW__SCRIPT_MUTEX_ADOPT:
    case LW__SCRIPT_RW_DETACH:
    case LW__SCRIPT_RW_ADOPT:
        return false;
    default:
        break;
    }
    if (call->closed) {
        return false;
    }
    return call->script == LW__SCRIPT_RW_RENEW ? answer->outcome == 0
                                               : answer->outcome >= 0;
}

/* No script that reads the queue may leave such a state, unless it returns `again`. */
static bool head_could_enter(char kind)
{
    return kind ? rw_model_head_could_enter(&world.rw)
                : world.mutex.holder == MODEL_NOBODY && world.mutex.queue.count > 0;
}

void replay_run(const struct call *call, bool twice)
{
    /* each token appears once: it holds, or waits */
    static char first[128 * MODEL_CAPACITY], second[128 * MODEL_CAPACITY];
    struct model_answer expected;
    struct script_answer answer;

    world.current = call->script;
    script_limit = call->limit;
    script_numbers = call->closed ? CLOSED : NUMBERS;
    for (int time = 0; time < (twice ? 2 : 1); time++) {
        answer = send_call(call);
        expect(call, &expected);
        check_answer(call, &expected, &answer);
        check_state(time ? second : first);
        learn_tickets();
        CHECK(expected.again || !serves(call, &expected) ||
                  !head_could_enter(world.tokens[call->token].kind),
              "a head is left:\n%s", time ? second : first);
        if (expected.again) {
            break;
        }
    }
    world.agains += expected.again;
    if (twice && !expected.again) {
        CHECK(strcmp(first, second) == 0, "sent twice, first\n%s\nthen\n%s", first,
              second);
    }
    world.done[call->script]++;
    world.closed += call->closed;
}

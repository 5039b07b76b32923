/* SPDX-License-Identifier: MIT
 *
 * Random steps of the lock scripts, on few names and few tokens, so that they interfere.
 * The steps need not make sense, since both servers only have to agree. But most
 * releases and renewals of mutexes are the holder's, and tickets are taken from replies:
 * otherwise little would happen.
 *
 * Usual course: diff_step_lock() draws a script and its arguments, and sends EVALSHA,
 * then EVAL if the reply is NOSCRIPT.
 */
#include "diff.h"
#include "scripts.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if LONG_MAX > INT32_MAX
#define WIDE "%d"
#else
#define WIDE "%.0f" /* Lua's %d has not enough bits for a fencing token */
#endif

#define NAMES 4
#define TOKENS 16

struct names {
    const char *name, *queue, *rw_queue;
};

static const struct names names[NAMES] = {
    {"a", "lockwire:2:queue:{a}", "lockwire:2:rwqueue:{a}"},
    {"b", "lockwire:2:queue:{b}", "lockwire:2:rwqueue:{b}"},
    {"{t}x", "lockwire:2:queue::{t}x", "lockwire:2:rwqueue::{t}x"},
    {"long name", "lockwire:2:queue:{long name}", "lockwire:2:rwqueue:{long name}"},
};
static const char fence[] = "lockwire:fence";

static const struct names *any_name(struct diff *diff)
{
    return &names[rng_below(&diff->rng, NAMES)];
}

const char *diff_any_key(struct diff *diff)
{
    static const char *const plain[] = {"p0", "p1", "p2", "p3"};
    const struct names *of = any_name(diff);

    switch (rng_below(&diff->rng, 20)) {
    case 0:
        return of->name;
    case 1:
        return of->queue;
    case 2:
        return of->rw_queue;
    case 3:
        return fence;
    default:
        return plain[rng_below(&diff->rng, 4)];
    }
}

static void client_uuid(int client, char *out, size_t size)
{
    (void)snprintf(out, size, "c0ffee00-0000-4000-8000-00000000000%d", client);
}

void diff_client_channel(int client, char *out, size_t size)
{
    char uuid[40];

    client_uuid(client, uuid, sizeof(uuid));
    (void)snprintf(out, size, "lockwire:2:%s", uuid);
}

static void token_text(uint64_t token, char *out, size_t size)
{
    static const int windows[] = {100, 2000, 750};
    char uuid[40];

    client_uuid((int)(token % DIFF_CLIENTS), uuid, sizeof(uuid));
    (void)snprintf(out, size, "%s:%d:%d-", uuid, (int)token, windows[token % 3]);
}

/* Copies the token that holds the name now, if it is a mutex; else, and sometimes anyway,
 * any token. The real server is asked, too, since looking at an expired key removes it,
 * which shows when the clock is set back. */
static void likely_token(struct diff *diff, const char *name, char *out, size_t size)
{
    struct bytes get[] = {bytes_of("get"), bytes_of(name)};
    struct buffer answer = {0};
    const char *value;
    char words[64];

    token_text(rng_below(&diff->rng, TOKENS), out, size);
    if (rng_chance(&diff->rng, 400)) {
        return;
    }
    (void)snprintf(words, sizeof(words), "get \"%s\"", name);
    diff_admin_answer(diff, words, &answer);
    buffer_clear(&answer);
    model_server_ask(diff->model, 0, get, 2, &answer);
    buffer_append(&answer, "", 1);
    value = answer.data[0] == '$' ? strchr(answer.data, '\n') : NULL;
    if (value != NULL && value[1]) {
        (void)snprintf(out, size, "%.*s", (int)strcspn(value + 1, "\r"), value + 1);
    }
    buffer_free(&answer);
}

static int64_t lease(struct diff *diff)
{
    return rng_between(&diff->rng, 100, 3000);
}

/* Returns the ticket of the last refusal, its fourth element or its third word; mostly
 * -1, though, as in a first request. */
static long long ticket(struct diff *diff)
{
    const char *at = diff->answer.data;
    long long ret;

    if (at != NULL && at[0] == '$' && sscanf(at, "$%*d\r\n%*d %*d %lld", &ret) == 1 &&
        rng_chance(&diff->rng, 300)) {
        return ret;
    }
    if (at == NULL || at[0] != '*' || rng_chance(&diff->rng, 700)) {
        return -1;
    }
    for (int i = 0; i < 4; i++) {
        at = strstr(at, "\r\n:");
        if (at == NULL) {
            return rng_chance(&diff->rng, 100) ? 0 : -1;
        }
        at += 3;
    }
    return atoll(at);
}

struct rw_request {
    char token[64], owner[64]; /* owner is "" if it is the token */
    char mode;
    int permits;
};

static void any_rw_request(struct diff *diff, struct rw_request *request)
{
    uint64_t token = rng_below(&diff->rng, TOKENS);

    if (rng_chance(&diff->rng, 100)) {
        request->mode = rng_chance(&diff->rng, 500) ? 'r' : 'w';
    } else {
        request->mode = token % 3 == 0 ? 'w' : 'r';
    }
    request->permits = token % 4 == 1 ? 2 : 0;
    token_text(token, request->token, sizeof(request->token));
    if (token % 2) {
        request->owner[0] = '\0';
    } else {
        (void)snprintf(request->owner, sizeof(request->owner), "owner %d",
                       (int)(token % 8));
    }
}

/* Returns `numbers` for a script: the format of fencing tokens in messages, and the
 * server that is named there. The latter is empty if the server does not report its run
 * id. */
static const char *any_numbers(struct diff *diff)
{
    static const char *const texts[] = {WIDE " 0123456789abcdef",
                                        WIDE " 0123456789abcdef", "%.0f 0123456789abcdef",
                                        WIDE " ", "- "}; /* the guard is closed */

    return texts[rng_below(&diff->rng, 5)];
}

static void add_keys(struct diff *diff, const struct names *of, bool rw)
{
    arguments_add(diff, "3");
    arguments_add(diff, "%s", of->name);
    arguments_add(diff, "%s", rw ? of->rw_queue : of->queue);
    arguments_add(diff, "%s", fence);
}

/* Adds `how`, which mutex_acquire.lua describes. */
static void add_how(struct diff *diff, const char *end)
{
    char place[32] = "";
    long long old = ticket(diff);

    if (old >= 0) {
        (void)snprintf(place, sizeof(place), "%lld", old);
    }
    arguments_add(diff, "%c%c%s %s%s", "njjjk"[rng_below(&diff->rng, 5)],
                  rng_chance(&diff->rng, 800) ? 'f' : '-', place, any_numbers(diff), end);
}

static void mutex_acquire(struct diff *diff, const struct names *of)
{
    char token[64], end[32];

    token_text(rng_below(&diff->rng, TOKENS), token, sizeof(token));
    (void)snprintf(end, sizeof(end), " %lld", (long long)lease(diff));
    add_keys(diff, of, false);
    arguments_add(diff, "%s", token);
    add_how(diff, end);
}

static void mutex_release(struct diff *diff, const struct names *of)
{
    char token[64];

    likely_token(diff, of->name, token, sizeof(token));
    add_keys(diff, of, false);
    arguments_add(diff, "%s", token);
    arguments_add(diff, "%s", any_numbers(diff));
}

static void mutex_release_fast(struct diff *diff, const struct names *of)
{
    char token[64];

    likely_token(diff, of->name, token, sizeof(token));
    arguments_add(diff, "1");
    arguments_add(diff, "%s", of->name);
    arguments_add(diff, "%s", token);
}

/* All keys, or the name's alone as while its slot is migrating. */
static void add_detach_keys(struct diff *diff, const struct names *of, bool rw)
{
    if (rng_chance(&diff->rng, 700)) {
        add_keys(diff, of, rw);
    } else {
        arguments_add(diff, "1");
        arguments_add(diff, "%s", of->name);
    }
}

static void mutex_detach(struct diff *diff, const struct names *of)
{
    char token[64];

    likely_token(diff, of->name, token, sizeof(token));
    add_detach_keys(diff, of, false);
    arguments_add(diff, "%s", token);
    arguments_add(diff, "%lld",
                  (long long)lease(diff) * (rng_chance(&diff->rng, 300) ? -1 : 1));
}

static void mutex_adopt(struct diff *diff, const struct names *of)
{
    char old[64], token[64];

    likely_token(diff, of->name, old, sizeof(old));
    token_text(rng_below(&diff->rng, TOKENS), token, sizeof(token));
    arguments_add(diff, "2");
    arguments_add(diff, "%s", of->name);
    arguments_add(diff, "%s", fence);
    arguments_add(diff, "%s", old);
    arguments_add(diff, "%s", token);
    arguments_add(diff, "%lld", (long long)lease(diff));
    arguments_add(diff, "%s", rng_chance(&diff->rng, 800) ? "f" : "-");
}

static void add_leases(struct diff *diff, int count)
{
    int own = rng_chance(&diff->rng, 500) ? count : 1;

    for (int i = 0; i < own; i++) {
        arguments_add(diff, "%lld", (long long)lease(diff));
    }
}

static void mutex_renew(struct diff *diff, const struct names *of)
{
    int count = (int)rng_between(&diff->rng, 1, NAMES);
    char token[64];

    (void)of;
    arguments_add(diff, "%d", count);
    for (int i = 0; i < count; i++) {
        arguments_add(diff, "%s", names[i].name);
    }
    for (int i = 0; i < count; i++) {
        likely_token(diff, names[i].name, token, sizeof(token));
        arguments_add(diff, "%s", token);
    }
    add_leases(diff, count);
}

static void rw_acquire(struct diff *diff, const struct names *of)
{
    struct rw_request request;

    any_rw_request(diff, &request);
    long long place = ticket(diff);
    add_keys(diff, of, true);
    arguments_add(diff, "%s", request.token);
    arguments_add(diff, "%lld", (long long)lease(diff));
    arguments_add(diff, "%c %s", request.mode, request.owner);
    arguments_add(diff, "%d %lld %d %s", rng_chance(&diff->rng, 800), place,
                  request.permits, any_numbers(diff));
}

static void rw_release(struct diff *diff, const struct names *of)
{
    struct rw_request request;

    any_rw_request(diff, &request);
    if (rng_chance(&diff->rng, 300)) { /* the short form */
        arguments_add(diff, "2");
        arguments_add(diff, "%s", of->name);
        arguments_add(diff, "%s", of->rw_queue);
        arguments_add(diff, "h:%s", request.token);
        return;
    }
    add_keys(diff, of, true);
    arguments_add(diff, "%s", request.token);
    if (rng_chance(&diff->rng, 100)) { /* as for an operator's break */
        arguments_add(diff, "%s", any_numbers(diff));
    } else {
        arguments_add(diff, "%s %c%d %s", any_numbers(diff), request.mode,
                      request.permits, request.owner);
    }
}

static void rw_renew(struct diff *diff, const struct names *of)
{
    int count = (int)rng_between(&diff->rng, 1, NAMES);
    struct rw_request request;

    (void)of;
    arguments_add(diff, "%d", 1 + 2 * count);
    arguments_add(diff, "%s", fence);
    for (int i = 0; i < count; i++) {
        arguments_add(diff, "%s", names[i].name);
        arguments_add(diff, "%s", names[i].rw_queue);
    }
    arguments_add(diff, "%s", any_numbers(diff));
    for (int i = 0; i < count; i++) {
        any_rw_request(diff, &request);
        arguments_add(diff, "%s", request.token);
    }
    add_leases(diff, count);
}

static void rw_detach(struct diff *diff, const struct names *of)
{
    struct rw_request request;

    any_rw_request(diff, &request);
    add_detach_keys(diff, of, true);
    arguments_add(diff, "%s", request.token);
    arguments_add(diff, "%lld",
                  (long long)lease(diff) * (rng_chance(&diff->rng, 300) ? -1 : 1));
}

static void rw_adopt(struct diff *diff, const struct names *of)
{
    struct rw_request old;
    char token[64];

    any_rw_request(diff, &old);
    token_text(rng_below(&diff->rng, TOKENS), token, sizeof(token));
    arguments_add(diff, "2");
    arguments_add(diff, "%s", of->name);
    arguments_add(diff, "%s", fence);
    arguments_add(diff, "%s", old.token);
    arguments_add(diff, "%s", token);
    arguments_add(diff, "%lld", (long long)lease(diff));
    arguments_add(diff, "%c %s", old.mode, rng_chance(&diff->rng, 300) ? old.owner : "");
}

static void fence_seed(struct diff *diff, const struct names *of)
{
    (void)of;
    arguments_add(diff, "1");
    arguments_add(diff, "%s", fence);
}

static void fence_raise(struct diff *diff, const struct names *of)
{
    char token[96];

    likely_token(diff, of->name, token, sizeof(token));
    arguments_add(diff, "2");
    arguments_add(diff, "%s", fence);
    arguments_add(diff, "%s", of->name);
    arguments_add(diff, "%lld", (1LL << 50) + (long long)rng_below(&diff->rng, 1u << 30));
    arguments_add(diff, "%s", token);
}

static void guard(struct diff *diff, const struct names *of)
{
    static const char *const identities[] = {"a:0:-1", "b:0:-1", "b:a:17"};

    (void)of;
    arguments_add(diff, "1");
    arguments_add(diff, "lockwire:guard");
    arguments_add(diff, "%s", identities[rng_below(&diff->rng, 3)]);
    arguments_add(diff, "%d", rng_chance(&diff->rng, 900) ? 15000 : 20000);
    arguments_add(diff, "%d", rng_chance(&diff->rng, 500));
}

static void inspect(struct diff *diff, const struct names *of)
{
    arguments_add(diff, "3");
    arguments_add(diff, "%s", of->name);
    arguments_add(diff, "%s", of->queue);
    arguments_add(diff, "%s", of->rw_queue);
    if (rng_chance(&diff->rng, 500)) {
        arguments_add(diff, "%d", (int)rng_below(&diff->rng, 4));
    }
}

static const struct {
    const char *script;
    void (*arguments)(struct diff *diff, const struct names *of);
    unsigned weight;
} steps[] = {
    {"mutex_acquire", mutex_acquire, 20},
    {"mutex_release", mutex_release, 12},
    {"mutex_release_fast", mutex_release_fast, 4},
    {"mutex_renew", mutex_renew, 5},
    {"rw_acquire", rw_acquire, 24},
    {"rw_release", rw_release, 18},
    {"rw_renew", rw_renew, 5},
    {"fence_seed", fence_seed, 2},
    {"fence_raise", fence_raise, 2},
    {"guard", guard, 3},
    {"inspect", inspect, 3},
    {"mutex_detach", mutex_detach, 4},
    {"mutex_adopt", mutex_adopt, 4},
    {"rw_detach", rw_detach, 4},
    {"rw_adopt", rw_adopt, 4},
};

/* Deletes a name's keys, so that no foreign key stays indefinitely. */
void diff_step_clean(struct diff *diff)
{
    const struct names *of = any_name(diff);

    arguments_words(diff, "del");
    arguments_add(diff, "%s", of->name);
    arguments_add(diff, "%s", of->queue);
    arguments_add(diff, "%s", of->rw_queue);
    if (rng_chance(&diff->rng, 200)) {
        arguments_add(diff, "%s", fence);
    }
    diff_send(diff);
}

static const struct lw__script *find_script(struct diff *diff, const char *name)
{
    for (int i = 0; i < LW__SCRIPT_COUNT; i++) {
        if (strcmp(lw__scripts[i].name, name) == 0) {
            return &lw__scripts[i];
        }
    }
    (void)fprintf(stderr, "no script called %s\n", name);
    diff_fail(diff, "the scripts are not what this test knows");
}

/* Replaces one argument by nonsense: the errors of scripts must be the same, too. */
static void spoil(struct diff *diff)
{
    static const char *const nonsense[] = {"", "x", "-1", "1.5", "0", "nan", "a b c"};
    int at = (int)rng_between(&diff->rng, 3, diff->last.count - 1);

    buffer_set(&diff->last.text[at], bytes_of(nonsense[rng_below(&diff->rng, 7)]));
}

void diff_step_lock(struct diff *diff)
{
    const struct lw__script *script;
    uint64_t draw = rng_below(&diff->rng, 114);
    size_t at = 0;
    bool by_text = rng_chance(&diff->rng, 50);

    for (; draw >= steps[at].weight; at++) {
        draw -= steps[at].weight;
    }
    script = find_script(diff, steps[at].script);
    arguments_clear(diff);
    arguments_add(diff, by_text ? "eval" : "evalsha");
    if (by_text) {
        arguments_add_bytes(diff, (struct bytes){script->text, script->length});
    } else {
        arguments_add(diff, "%s", script->sha1);
    }
    steps[at].arguments(diff, any_name(diff));
    if (rng_chance(&diff->rng, 10)) {
        spoil(diff);
    }
    diff_send(diff);
    if (strncmp(diff->answer.data, "-NOSCRIPT", 9) == 0) {
        buffer_set(&diff->last.text[0], bytes_of("eval"));
        buffer_set(&diff->last.text[1], (struct bytes){script->text, script->length});
        diff_send(diff);
    }
    diff->figures.grants += strncmp(diff->answer.data, "*2\r\n:1", 6) == 0 ||
                            strncmp(diff->answer.data, ":1795", 5) == 0;
    diff->figures.refusals += strncmp(diff->answer.data, "*6\r\n:0", 6) == 0 ||
                              diff->answer.data[0] == '$';
}

/* SPDX-License-Identifier: MIT
 *
 * Each script in a random state, run by an account that lacks one permission, or several
 * if the script may create a key. Lua does not roll back. So each script must be written
 * in such an order that, whatever the server refuses, it leaves a state that the scripts
 * know, and everything it has announced (by a message, or by the reply) is true.
 *
 * --seed N --cases N; a failure is one line with the case, the call and what is wrong.
 * Each case begins with an empty server, builds a state by a few calls with all
 * permissions, revokes permissions and makes one more call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "script_calls.h"

enum { TOKENS = 12, RW = 6 /* the first of the read-write lock's */, MESSAGES = 16 };

struct token {
    char text[80], member[120]; /* member: of the queue */
    char kind, owner;           /* of the read-write lock's tokens */
    bool dead;
};

struct state {
    bool held[TOKENS];
    long long place[TOKENS]; /* in the queue; -1: none */
    long long exists[2];     /* the mutex's key, and the read-write lock's */
};

struct call {
    enum lw__script_id script;
    int token, old, limit; /* limit: of waiters; 0: none */
    bool wait;
};

static const char *const denials[] = {
    "-set",       "-get",    "-mget",       "-del",           "-exists",
    "-incrby",    "-type",   "-time",       "-pttl",          "-pexpire",
    "-pexpireat", "-zadd",   "-zrem",       "-zrange",        "-zrank",
    "-zrevrank",  "-zscore", "-zcard",      "-zrangebyscore", "-hget",
    "-hset",      "-hsetnx", "-hdel",       "-hgetall",       "-hkeys",
    "-hexists",   "-hlen",   "-publish",    "-pubsub",        "resetchannels",
    "-@write",    "-@hash",  "-@sortedset",
};
enum { DENIALS = sizeof(denials) / sizeof(denials[0]) };

/* The commands that give a key its TTL, or undo what was written. */
static const char *const ends[] = {"-pexpire", "-hdel", "-zrem", "-del"};
enum { ENDS = sizeof(ends) / sizeof(ends[0]) };

static const enum lw__script_id scripts[] = {
    LW__SCRIPT_MUTEX_ACQUIRE,    LW__SCRIPT_MUTEX_ACQUIRE,
    LW__SCRIPT_MUTEX_RELEASE,    LW__SCRIPT_MUTEX_RELEASE,
    LW__SCRIPT_MUTEX_RENEW,      LW__SCRIPT_MUTEX_RELEASE_FAST,
    LW__SCRIPT_MUTEX_DETACH,     LW__SCRIPT_MUTEX_ADOPT,
    LW__SCRIPT_MUTEX_ADOPT,      LW__SCRIPT_RW_DETACH,
    LW__SCRIPT_RW_DETACH,        LW__SCRIPT_RW_ADOPT,
    LW__SCRIPT_RW_ADOPT,         LW__SCRIPT_RW_ACQUIRE,
    LW__SCRIPT_RW_ACQUIRE,       LW__SCRIPT_RW_ACQUIRE,
    LW__SCRIPT_RW_RELEASE,       LW__SCRIPT_RW_RELEASE,
    LW__SCRIPT_RW_RELEASE,       LW__SCRIPT_RW_RENEW,
    LW__SCRIPT_RW_RENEW,         LW__SCRIPT_RW_RELEASE_ONE_KEY,
    LW__SCRIPT_RW_KEEPALIVE,     LW__SCRIPT_FENCE_SEED,
    LW__SCRIPT_REDISSON_ACQUIRE, LW__SCRIPT_REDISSON_RENEW,
    LW__SCRIPT_REDISSON_RELEASE, LW__SCRIPT_GUARD,
    LW__SCRIPT_FENCE_RAISE,
};

#define RAISED 2000000000000000
#define DETACH_MS "50000" /* short enough for a message to the first waiter */

static unsigned long long seed = 3; /* this seed finds all faults of test/mutations */
static long cases = 6000, this_case;
static uint64_t random_state;
static redisContext *other; /* the account that lacks a permission */
static struct token tokens[TOKENS];
static bool expired[TOKENS]; /* holds whose own lease has expired */
static char snapshot[41];    /* SHA-1 of a script */

static struct {
    long messages, counts, endless, answers, queued, lost, silent, errors;
} found;

static unsigned roll(unsigned below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)((random_state >> 33) % below);
}

static void make_tokens(void)
{
    struct script_client dead;

    script_client_dead(&dead, 0x77);
    for (int i = 0; i < TOKENS; i++) {
        struct token *token = &tokens[i];
        char text[sizeof(token->text)];

        token->dead = i % 6 == 5;
        (void)snprintf(token->text, sizeof(token->text), "%s",
                       script_token(token->dead ? &dead
                                    : i % 2     ? &b
                                                : &a,
                                    i + 1, WINDOW - i));
        memcpy(text, token->text, sizeof(text));
        if (i < RW) {
            memcpy(token->member, text, sizeof(text));
            continue;
        }
        token->kind = "rwrrwr"[i - RW];
        token->owner = "ABCACB"[i - RW]; /* two have a hold of each kind */
        (void)snprintf(token->member, sizeof(token->member), "%c0 %.79s %c", token->kind,
                       text, token->owner);
    }
}

static void load_snapshot(void)
{
    (void)snprintf(
        snapshot, sizeof(snapshot), "%s",
        script_get(&server, "SCRIPT LOAD %s",
                   "local out, value = {}, redis.call('GET', 'n') or '' "
                   "for i = 1, 12 do "
                   "  local token, member = ARGV[i], ARGV[12 + i] "
                   "  local queue, held = 'lockwire:2:queue:{n}', false "
                   "  if i > 6 then "
                   "    held = redis.pcall('HEXISTS', 'rw', 'h:' .. token) == 1 "
                   "    queue = 'lockwire:2:rwqueue:{rw}' "
                   "  else "
                   "    held = value:sub(1, -2) == token:sub(1, -2) "
                   "  end "
                   "  out[2 * i - 1] = held and 1 or 0 "
                   "  out[2 * i] = redis.call('ZRANK', queue, member) or -1 "
                   "end "
                   "out[25] = redis.call('EXISTS', 'n') "
                   "out[26] = redis.call('EXISTS', 'rw') "
                   "out[27] = redis.call('PTTL', 'foreign') "
                   "return out"));
}

static void take_state(struct state *state)
{
    const char *words[3 + 2 * TOKENS] = {"EVALSHA", snapshot, "0"};
    redisReply *reply;

    for (int i = 0; i < TOKENS; i++) {
        words[3 + i] = tokens[i].text;
        words[3 + TOKENS + i] = tokens[i].member;
    }
    reply = redisCommandArgv(server.admin, 3 + 2 * TOKENS, words, NULL);
    assert_non_null(reply);
    assert_int_equal(reply->elements, 27);
    for (int i = 0; i < TOKENS; i++) {
        state->held[i] = reply->element[2 * i]->integer == 1;
        state->place[i] = reply->element[2 * i + 1]->integer;
    }
    state->exists[0] = reply->element[24]->integer;
    state->exists[1] = reply->element[25]->integer;
    found.endless += reply->element[26]->integer == -1; /* Redisson's key */
    freeReplyObject(reply);
}

static struct script_answer send_call(const struct call *call)
{
    const struct token *token = &tokens[call->token];
    char owner[] = {token->owner, '\0'}, kind[] = {token->kind, '\0'}, asker[8];
    const char *how;

    script_limit = call->limit;
    how = script_how(call->wait, NO_TICKET, 1);
    switch (call->script) {
    case LW__SCRIPT_MUTEX_ACQUIRE:
        return mutex_answer(script_run(&server, call->script, 3, KEYS, token->text,
                                       script_how_long(how, LEASE), NULL));
    case LW__SCRIPT_MUTEX_RELEASE:
        return script_run(&server, call->script, 3, KEYS, token->text, script_numbers,
                          NULL);
    case LW__SCRIPT_MUTEX_RENEW:
        return script_run(&server, call->script, 1, "n", token->text, "900000", NULL);
    case LW__SCRIPT_MUTEX_RELEASE_FAST:
        return script_run(&server, call->script, 1, "n", token->text, NULL);
    case LW__SCRIPT_MUTEX_DETACH:
        return script_run(&server, call->script, 4, KEYS, HOLDER, token->text, DETACH_MS,
                          ABOUT, NULL);
    case LW__SCRIPT_MUTEX_ADOPT:
        return adopt_described(tokens[call->old].text, token->text, 900000, ABOUT);
    case LW__SCRIPT_RW_DETACH:
        return script_run(&server, call->script, 3, RW_KEYS, token->text, DETACH_MS,
                          ABOUT, NULL);
    case LW__SCRIPT_RW_ADOPT:
        (void)snprintf(asker, sizeof(asker), "%c ", tokens[call->old].kind);
        return rw_adopt_described(tokens[call->old].text, token->text, 900000, asker,
                                  ABOUT);
    case LW__SCRIPT_RW_ACQUIRE:
        return rw_acquire(token->text, kind, owner, call->wait, NO_TICKET);
    case LW__SCRIPT_RW_RELEASE:
        return rw_release(token->text, kind, owner);
    case LW__SCRIPT_RW_RENEW:
        return script_run(&server, call->script, 3, "lockwire:fence", "rw", RW_QUEUE,
                          script_numbers, token->text, "900000", NULL);
    case LW__SCRIPT_RW_RELEASE_ONE_KEY:
        return rw_release_one_key(token->text);
    case LW__SCRIPT_RW_KEEPALIVE:
        return script_run(&server, call->script, 1, "rw", token->text, "900000", NULL);
    case LW__SCRIPT_FENCE_SEED:
        return script_run(&server, call->script, 1, "lockwire:fence", NULL);
    case LW__SCRIPT_FENCE_RAISE:
        return script_run(&server, call->script, 2, "lockwire:fence", "n",
                          script_number(RAISED), token->text, NULL);
    case LW__SCRIPT_GUARD:
        return script_run(&server, call->script, 1, "lockwire:guard", "id", "15000", "0",
                          NULL);
    case LW__SCRIPT_REDISSON_RELEASE:
        return script_run(&server, call->script, 1, "foreign", token->text, "channel",
                          NULL);
    default:
        return script_run(&server, call->script, 1, "foreign", token->text, "900000",
                          NULL);
    }
}

static bool is_rw(enum lw__script_id script)
{
    return script == LW__SCRIPT_RW_ACQUIRE || script == LW__SCRIPT_RW_RELEASE ||
           script == LW__SCRIPT_RW_RENEW || script == LW__SCRIPT_RW_RELEASE_ONE_KEY ||
           script == LW__SCRIPT_RW_KEEPALIVE || script == LW__SCRIPT_RW_DETACH ||
           script == LW__SCRIPT_RW_ADOPT;
}

/* Returns true for a script that replaces one token by another. */
static bool replaces(enum lw__script_id script)
{
    return script == LW__SCRIPT_MUTEX_ADOPT || script == LW__SCRIPT_RW_ADOPT;
}

/* Chooses a call, often one whose token is a holder's. */
static struct call random_call(const struct state *state)
{
    struct call call = {.script = scripts[roll(sizeof(scripts) / sizeof(scripts[0]))],
                        .wait = roll(4) > 0,
                        .limit = roll(3) == 0 ? 1 + (int)roll(3) : 0};
    int first = is_rw(call.script) ? RW : 0;

    call.token = first + (int)roll(RW);
    call.old = first + (int)roll(RW);
    if (roll(2)) {
        for (int i = 0; i < RW; i++) {
            if (state->held[first + i]) {
                call.token = first + i;
                break;
            }
        }
    }
    if (replaces(call.script)) {
        for (int i = 0; i < RW && roll(4) > 0; i++) {
            call.old = state->held[first + i] ? first + i : call.old;
        }
        call.token = first + (int)roll(RW);
        if (call.token == call.old) {
            call.token = first + (call.old - first + 1) % RW;
        }
    }
    return call;
}

/* Changes that no script makes: keys and leases expire, the counter gets lost. */
static void change_something(void)
{
    int token = RW + (int)roll(RW);

    switch (roll(6)) {
    case 0:
        script_do(&server, "DEL n");
        break;
    case 1:
        script_do(&server, "DEL lockwire:fence");
        break;
    case 2:
        script_do(&server, "PEXPIRE " QUEUE " 50000");
        break;
    case 3:
        script_do(&server, "DEL rw");
        memset(expired, 0, sizeof(expired));
        break;
    default:
        if (script_do(&server, "HEXISTS rw h:%s", tokens[token].text) == 1) {
            rw_end(tokens[token].text);
            expired[token] = true;
        }
    }
}

static void build(void)
{
    static const enum lw__script_id building[] = {
        LW__SCRIPT_MUTEX_ACQUIRE,    LW__SCRIPT_MUTEX_ACQUIRE, LW__SCRIPT_MUTEX_RELEASE,
        LW__SCRIPT_RW_ACQUIRE,       LW__SCRIPT_RW_ACQUIRE,    LW__SCRIPT_RW_RELEASE,
        LW__SCRIPT_REDISSON_ACQUIRE,
    };
    int count = 2 + (int)roll(10);

    server.link = server.admin;
    server.lenient = false;
    script_numbers = NUMBERS;
    script_do(&server, "FLUSHALL");
    memset(expired, 0, sizeof(expired));
    if (roll(4)) {
        script_run(&server, LW__SCRIPT_FENCE_SEED, 1, "lockwire:fence", NULL);
    }
    for (int i = 0; i < count; i++) {
        struct call call = {.script = building[roll(roll(4) ? 7 : 5)], .wait = true};

        call.token = (is_rw(call.script) ? RW : 0) + (int)roll(RW);
        send_call(&call);
    }
    if (roll(2)) {
        change_something();
    }
}

/* Appends the messages that a client got; with NULL, discards them. */
static void read_messages(struct script_client *client, char texts[][512], int *count)
{
    void *reply;
    bool more = true;

    assert_int_equal(redisAppendCommand(client->link, "PING"), REDIS_OK);
    while (more) {
        assert_int_equal(redisGetReply(client->link, &reply), REDIS_OK);
        const redisReply *got = reply;

        more = strcmp(got->element[0]->str, "message") == 0;
        if (more && texts != NULL) {
            assert_true(*count < MESSAGES);
            (void)snprintf(texts[(*count)++], 512, "%s", got->element[2]->str);
        }
        freeReplyObject(reply);
    }
}

static void complain(const struct call *call, const char *denial, const char *what,
                     long *counter)
{
    if ((*counter)++ < 5) {
        print_error("seed %llu, case %ld, %s, %s: %s\n", seed, this_case,
                    lw__scripts[call->script].name, denial, what);
    }
}

static int find_token(const char *text)
{
    for (int i = 0; i < TOKENS; i++) {
        if (strcmp(tokens[i].text, text) == 0) {
            return i;
        }
    }
    fail_msg("a message for an unknown token: %s", text);
    return -1;
}

static bool is_detach(enum lw__script_id script)
{
    return script == LW__SCRIPT_MUTEX_DETACH || script == LW__SCRIPT_RW_DETACH;
}

/* Returns true if all waiters ahead of this one are dead. */
static bool is_first_alive(const struct state *state, int token)
{
    int first = token < RW ? 0 : RW;

    for (int i = first; i < first + RW; i++) {
        if (!tokens[i].dead && state->place[i] >= 0 &&
            state->place[i] < state->place[token]) {
            return false;
        }
    }
    return state->place[token] >= 0;
}

/* Returns true if the token's lock or hold ends within DETACH_MS. */
static bool has_short_lease(int token)
{
    const char *hold = script_get(&server, "HGET rw h:%s", tokens[token].text);
    long long ends = strtoll(hold, NULL, 10), left;

    if (token >= RW && ends > 0) {
        left = ends - strtoll(script_get(&server, "TIME"), NULL, 10) * 1000;
        return left <= strtoll(DETACH_MS, NULL, 10) + 1000;
    }
    left = script_do(&server, "PTTL %s", token < RW ? "n" : "rw");
    return left >= 0 && left <= strtoll(DETACH_MS, NULL, 10);
}

static void check_messages(const struct call *call, const char *denial,
                           const struct state *after, bool told[TOKENS])
{
    char texts[MESSAGES][512], text[80];
    int count = 0;

    read_messages(&a, texts, &count);
    read_messages(&b, texts, &count);
    for (int i = 0; i < count; i++) {
        if (sscanf(texts[i], "%*c %79s", text) != 1) {
            fail_msg("what a message: %s", texts[i]);
        }
        int token = find_token(text);

        if (texts[i][0] == 's') {
            if (is_detach(call->script)
                    ? !is_first_alive(after, token) || !has_short_lease(call->token)
                    : after->place[token] != 0 || !after->exists[token >= RW]) {
                complain(call, denial, "a message to stand by that is not true",
                         &found.messages);
            }
            continue;
        }
        told[token] = true;
        if (!after->held[token]) {
            complain(call, denial, "a message without the lock", &found.messages);
        }
        if (after->place[token] >= 0) {
            complain(call, denial, "a message for a token that is still queued",
                     &found.queued);
        }
    }
}

/* {1, fence} or {0, remaining ms, position, ...} */
static bool is_true_of(const long long *n, const struct state *after, int token)
{
    bool free = !after->exists[token >= RW];

    if (n[0] == 1) {
        return after->held[token] && n[1] > 1LL << 50;
    }
    if (n[0] == -1) {
        return !after->held[token];
    }
    return !after->held[token] && (n[2] == FULL ? -1 : n[2]) == after->place[token] &&
           (n[1] == NOT_TOLD || token >= RW || (n[1] == 0) == free);
}

static int holds_of(const struct state *state, char owner)
{
    int count = 0;

    for (int i = RW; i < TOKENS; i++) {
        count += state->held[i] && tokens[i].owner == owner;
    }
    return count;
}

/* Returns true if the denial concerns only the message of a detach to a waiter. */
static bool denies_only_message(const char *denial)
{
    return strcmp(denial, "-publish") == 0 || strcmp(denial, "-pubsub") == 0 ||
           strcmp(denial, "resetchannels") == 0 || strcmp(denial, "-zrange") == 0;
}

/* Checks that the reply is true. An error announces nothing. */
static bool is_true(const struct call *call, const struct script_answer *answer,
                    const struct state *before, const struct state *after,
                    const char *denial)
{
    int token = call->token;
    bool was = before->held[token], is = after->held[token];
    const long long *n = answer->n;

    if (answer->error) {
        return !is_detach(call->script) || !denies_only_message(denial);
    }
    switch (call->script) {
    case LW__SCRIPT_MUTEX_ACQUIRE:
    case LW__SCRIPT_RW_ACQUIRE:
        return is_true_of(n, after, token);
    case LW__SCRIPT_MUTEX_RELEASE:
        return n[0] % 2 == was && !is && after->place[token] < 0;
    case LW__SCRIPT_RW_RELEASE:
        return n[0] == was && !is && after->place[token] < 0 &&
               n[1] == holds_of(after, tokens[token].owner);
    case LW__SCRIPT_RW_RELEASE_ONE_KEY:
        return n[0] == was && !is &&
               (!was || n[1] == holds_of(after, tokens[token].owner));
    case LW__SCRIPT_MUTEX_RELEASE_FAST:
        return n[0] == (was && !is);
    case LW__SCRIPT_MUTEX_DETACH:
    case LW__SCRIPT_RW_DETACH:
        return was == is && (n[0] == is || (n[0] == 0 && expired[token]));
    case LW__SCRIPT_MUTEX_ADOPT:
    case LW__SCRIPT_RW_ADOPT: /* a token that has a hold of its own keeps it */
        return n[0] < 0
                   ? is == was && after->held[call->old] == before->held[call->old]
                   : is &&
                         (was || (before->held[call->old] && !after->held[call->old])) &&
                         n[0] > 1LL << 50;
    case LW__SCRIPT_MUTEX_RENEW:
    case LW__SCRIPT_RW_RENEW:
    case LW__SCRIPT_RW_KEEPALIVE:
        return n[0] ? is : !was || !is; /* a queued token may be let in after it */
    case LW__SCRIPT_FENCE_RAISE:
        return n[0] == is &&
               strtoll(script_get(&server, "GET lockwire:fence"), NULL, 10) >= RAISED;
    case LW__SCRIPT_GUARD: /* the record is new */
        return n[0] == 15000 && script_do(&server, "EXISTS lockwire:guard") == 1;
    default:
        return true;
    }
}

/* Other tokens keep their holds and places, except expired holds, dead waiters, and
 * waiters that got the lock together with a message. */
static void check_others(const struct call *call, const char *denial,
                         const struct state *before, const struct state *after,
                         const bool told[TOKENS])
{
    for (int i = 0; i < TOKENS; i++) {
        if (i == call->token || (replaces(call->script) && i == call->old)) {
            continue;
        }
        if (before->held[i] && !after->held[i] && !expired[i]) {
            complain(call, denial, "another one's hold was lost", &found.lost);
        }
        if (before->place[i] >= 0 && after->place[i] < 0 && !after->held[i] &&
            !tokens[i].dead) {
            complain(call, denial, "a waiter lost its place", &found.lost);
        }
        /* Without DEL as well, a waiter that cannot be notified keeps the lock: see
         * mutex_hand_over.lua. */
        if (!before->held[i] && after->held[i] && !told[i] && !strchr(denial, ' ')) {
            complain(call, denial, "a hold that its waiter was not told of",
                     &found.silent);
        }
    }
}

static const char *random_denial(const struct call *call)
{
    static char text[80];

    (void)snprintf(text, sizeof(text), "%s", denials[roll(DENIALS)]);
    if (strcmp(text, "-set") != 0 && /* SET is the last resort */
        (call->script == LW__SCRIPT_MUTEX_ACQUIRE ||
         call->script == LW__SCRIPT_RW_ACQUIRE ||
         call->script == LW__SCRIPT_REDISSON_ACQUIRE) &&
        roll(3) == 0) {
        for (int i = 0; i < ENDS; i++) {
            if (roll(3)) {
                (void)strcat(strcat(text, " "), ends[i]);
            }
        }
    }
    return text;
}

static void permit_other_all_but(const char *denial)
{
    char words[80], *rest = words, *word;

    (void)snprintf(words, sizeof(words), "%s", denial);
    script_do(&server, "ACL SETUSER other +@all allkeys allchannels");
    while ((word = strsep(&rest, " ")) != NULL) {
        script_do(&server, "ACL SETUSER other %s", word);
    }
}

static void play(void)
{
    const char *denial;
    struct state before, after;
    bool told[TOKENS] = {false};
    struct script_answer answer;
    struct call call;

    build();
    read_messages(&a, NULL, NULL);
    read_messages(&b, NULL, NULL);
    take_state(&before);
    call = random_call(&before);
    denial = random_denial(&call);
    permit_other_all_but(denial);
    server.link = other;
    server.lenient = true;
    script_numbers = roll(4) ? NUMBERS : CLOSED;
    answer = send_call(&call);
    if (strcmp(server.wrong, "no TTL: lockwire:fence") == 0 && strchr(denial, ' ')) {
        /* No client waits for the key's end, and the next one that seeds it sets a
         * TTL. */
    } else if (strncmp(server.wrong, "no TTL", 6) == 0) {
        complain(&call, denial, server.wrong, &found.endless);
    } else if (server.wrong[0]) {
        complain(&call, denial, server.wrong, &found.counts);
    }
    take_state(&after);
    check_messages(&call, denial, &after, told);
    if (!is_true(&call, &answer, &before, &after, denial)) {
        complain(&call, denial, "the answer is not true", &found.answers);
    }
    check_others(&call, denial, &before, &after, told);
    found.errors += answer.error;
}

static void whatever_is_refused_what_is_announced_is_true(void **state)
{
    (void)state;
    make_tokens();
    load_snapshot();
    script_server_become(&server, "");
    other = server.link;
    random_state = seed * 2654435761u + 88172645463325252u;
    for (this_case = 0; this_case < cases; this_case++) {
        play();
    }
    server.link = other;
    server.lenient = false;
    print_message("--seed %llu --cases %ld: %ld calls failed; messages without the lock "
                  "%ld, for a queued token %ld; wrong counts %ld; keys without TTL %ld; "
                  "untrue answers %ld; lost holds and places %ld; untold holds %ld\n",
                  seed, cases, found.errors, found.messages, found.queued, found.counts,
                  found.endless, found.answers, found.lost, found.silent);
    /* The server does refuse calls. */
    assert_true(cases < 1000 || found.errors > cases / 20);
    assert_int_equal(found.messages + found.queued + found.counts + found.endless +
                         found.answers + found.lost + found.silent,
                     0);
}

/* Returns true if a client ends an operation by this reply. It does not if it waits, or
 * if it sends mutex_release.lua next. */
static bool ends_something(const struct call *call, const struct script_answer *answer)
{
    switch (call->script) {
    case LW__SCRIPT_MUTEX_ACQUIRE:
    case LW__SCRIPT_RW_ACQUIRE:
        return !call->wait || answer->n[0] != 0 || answer->n[2] == FULL;
    case LW__SCRIPT_MUTEX_RELEASE_FAST:
        return answer->n[0] != 0;
    default:
        return true;
    }
}

/* A former master that does not know yet that it was replaced, or a replica that was cut
 * off: it has the keys, and a writing command fails. */
static void a_stale_replica_ends_no_operation(void **state)
{
    long replies = 0, seen[LW__SCRIPT_COUNT] = {0}, ended = 0;

    (void)state;
    make_tokens();
    load_snapshot();
    random_state = seed * 2654435761u + 88172645463325252u;
    for (this_case = 0; this_case < cases / 2; this_case++) {
        struct state before;
        struct script_answer answer;
        struct call call;

        build();
        if (roll(2)) {
            script_do(&server, "SET lockwire:guard %s PX 600000", "id 20000 1");
        }
        take_state(&before);
        call = random_call(&before);
        script_do(&server, "REPLICAOF 127.0.0.1 1");
        server.lenient = true;
        answer = send_call(&call);
        if (!answer.error && ends_something(&call, &answer)) {
            complain(&call, "a replica", "an operation ends by its reply", &ended);
        }
        if (call.script == LW__SCRIPT_MUTEX_RELEASE_FAST) { /* the slot migrates */
            answer = script_run(&server, call.script, 1, "n", tokens[call.token].text,
                                "anyway", NULL);
            ended += !answer.error;
        }
        ended += !script_run(&server, LW__SCRIPT_INSPECT, 3, "n", QUEUE, RW_QUEUE, "1000",
                             "0", NULL) /* to break */
                      .error;
        replies += !answer.error;
        seen[call.script] += answer.error;
        script_do(&server, "REPLICAOF NO ONE");
    }
    server.lenient = false;
    read_messages(&a, NULL, NULL);
    read_messages(&b, NULL, NULL);
    print_message("--seed %llu --cases %ld: %ld replies of a stale replica, %ld of them "
                  "end an operation\n",
                  seed, cases, replies, ended);
    assert_int_equal(ended, 0);
    for (size_t i = 0; cases >= 1000 && i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        assert_true(seen[scripts[i]] > 0);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SCRIPT_TEST(whatever_is_refused_what_is_announced_is_true),
        SCRIPT_TEST(a_stale_replica_ends_no_operation),
    };

    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seed") == 0) {
            seed = strtoull(argv[i + 1], NULL, 10);
        } else if (strcmp(argv[i], "--cases") == 0) {
            cases = strtol(argv[i + 1], NULL, 10);
        } else {
            argc = 0;
        }
    }
    if (argc % 2 == 0 || cases < 1) {
        (void)fprintf(stderr, "usage: %s [--seed N] [--cases N]\n", argv[0]);
        return 2;
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}

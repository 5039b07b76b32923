/* SPDX-License-Identifier: MIT
 *
 * Implements script_calls.h: turns arguments into strings, and checks the form of each
 * reply. */
#include "script_calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct script_server server;
struct script_client a, b;
const char *script_numbers = NUMBERS;
int script_limit;
char t1[80], t2[80], t3[80], t4[80];

int start_server(void **state)
{
    (void)state;
    script_server_start(&server);
    script_client_start(&a, &server, 1);
    script_client_start(&b, &server, 2);
    return 0;
}

int stop_server(void **state)
{
    (void)state;
    script_client_stop(&a);
    script_client_stop(&b);
    script_server_stop(&server);
    return 0;
}

int empty_server(void **state)
{
    (void)state;
    script_server_flush(&server);
    script_numbers = NUMBERS;
    script_limit = 0;
    return 0;
}

int both_silent(void **state)
{
    (void)state;
    script_client_silent(&a);
    script_client_silent(&b);
    return 0;
}

int four_tokens(void **state)
{
    strcpy(t1, script_token(&a, 1, WINDOW));
    strcpy(t2, script_token(&b, 2, 50000));
    strcpy(t3, script_token(&a, 3, 40000));
    strcpy(t4, script_token(&b, 4, 30000));
    return empty_server(state);
}

/* Returns "/3" for a limit of 3, "" without a limit. */
static const char *limit_text(void)
{
    static char text[16];

    (void)snprintf(text, sizeof(text), "/%d", script_limit);
    return script_limit > 0 ? text : "";
}

const char *script_how(int wait, long long ticket, int want_fence)
{
    static char texts[16][64];
    static unsigned next;
    char *text = texts[next++ % 16];

    (void)snprintf(text, sizeof(texts[0]), "%c%c%s%s %s", "njk"[wait],
                   want_fence ? 'f' : '-', ticket >= 0 ? script_number(ticket) : "",
                   limit_text(), NUMBERS);
    return text;
}

const char *script_how_long(const char *how, long long lease)
{
    static char text[96];

    (void)snprintf(text, sizeof(text), "%s %lld", how, lease);
    return text;
}

struct script_answer mutex_answer(struct script_answer answer)
{
    struct script_answer ret = {.error = answer.error};
    char *at = answer.text, *end;
    long long n[5] = {0}; /* in the reply's order; a missing ticket is the time */

    if (answer.error || answer.count > 0) {
        memcpy(ret.text, answer.text, sizeof(ret.text));
        ret.n[ret.count++] = 1;
        ret.n[ret.count++] = answer.n[0];
        return ret;
    }
    ret.n[ret.count++] = 0;
    for (int i = 0; i < 5 && (i < 3 || *at); i++) {
        n[i] = strtoll(at, &end, 10);
        assert_true(end > at);
        n[3] = i == 2 ? n[i] : n[3];
        at = end;
    }
    memcpy(ret.n + ret.count, (long long[]){n[0], n[1], n[3], n[2], n[4]}, sizeof(n));
    ret.count += 5;
    (void)snprintf(ret.text, sizeof(ret.text), "%s", *at ? at + 1 : "");
    return ret;
}

struct script_answer acquire(const char *token, int lease, int wait, long long ticket)
{
    return mutex_answer(script_run(&server, LW__SCRIPT_MUTEX_ACQUIRE, 3, KEYS, token,
                                   script_how_long(script_how(wait, ticket, 1), lease),
                                   NULL));
}

long long first_of(struct script_answer answer, int count)
{
    if (answer.error) {
        fail_msg("%s", answer.text);
    }
    assert_int_equal(answer.count, count);
    return answer.n[0];
}

long long release(const char *token)
{
    return first_of(script_run(&server, LW__SCRIPT_MUTEX_RELEASE, 3, KEYS, token,
                               script_numbers, NULL),
                    1);
}

long long drop(const char *token)
{
    return first_of(
        script_run(&server, LW__SCRIPT_MUTEX_RELEASE_FAST, 1, "n", token, NULL), 1);
}

long long drop_anyway(const char *token)
{
    return first_of(
        script_run(&server, LW__SCRIPT_MUTEX_RELEASE_FAST, 1, "n", token, "anyway", NULL),
        1);
}

long long detach(const char *token, long long lease)
{
    return first_of(script_run(&server, LW__SCRIPT_MUTEX_DETACH, 3, KEYS, token,
                               script_number(lease), NULL),
                    1);
}

long long detach_one_key(const char *token, long long lease)
{
    return first_of(script_run(&server, LW__SCRIPT_MUTEX_DETACH, 1, "n", token,
                               script_number(lease), NULL),
                    1);
}

long long rw_detach(const char *token, long long lease)
{
    return first_of(script_run(&server, LW__SCRIPT_RW_DETACH, 3, RW_KEYS, token,
                               script_number(lease), NULL),
                    1);
}

long long rw_detach_one_key(const char *token, long long lease)
{
    return first_of(script_run(&server, LW__SCRIPT_RW_DETACH, 1, "rw", token,
                               script_number(lease), NULL),
                    1);
}

long long detach_described(const char *token, long long lease, const char *about)
{
    return first_of(script_run(&server, LW__SCRIPT_MUTEX_DETACH, 4, KEYS, HOLDER, token,
                               script_number(lease), about, NULL),
                    1);
}

long long rw_detach_described(const char *token, long long lease, const char *about)
{
    return first_of(script_run(&server, LW__SCRIPT_RW_DETACH, 3, RW_KEYS, token,
                               script_number(lease), about, NULL),
                    1);
}

struct script_answer adopt_described(const char *old, const char *token, int lease,
                                     const char *about)
{
    return script_run(&server, LW__SCRIPT_MUTEX_ADOPT, 3, "n", "lockwire:fence", HOLDER,
                      old, token, script_number(lease), "f", about, NULL);
}

struct script_answer rw_adopt_described(const char *old, const char *token, int lease,
                                        const char *asker, const char *about)
{
    return script_run(&server, LW__SCRIPT_RW_ADOPT, 2, "rw", "lockwire:fence", old, token,
                      script_number(lease), asker, about, NULL);
}

long long release_described(const char *token)
{
    return first_of(script_run(&server, LW__SCRIPT_MUTEX_RELEASE, 4, KEYS, HOLDER, token,
                               script_numbers, NULL),
                    1);
}

long long describe(const char *token, const char *about)
{
    return first_of(
        script_run(&server, LW__SCRIPT_DESCRIBE, 2, "n", HOLDER, token, about, NULL), 1);
}

long long rw_describe(const char *token, const char *about)
{
    return first_of(script_run(&server, LW__SCRIPT_DESCRIBE, 2, "rw",
                               "lockwire:2:holder:{rw}", token, about, NULL),
                    1);
}

struct script_answer adopt(const char *old, const char *token, int lease)
{
    return script_run(&server, LW__SCRIPT_MUTEX_ADOPT, 2, "n", "lockwire:fence", old,
                      token, script_number(lease), "f", NULL);
}

struct script_answer rw_adopt(const char *old, const char *token, int lease,
                              const char *asker)
{
    return script_run(&server, LW__SCRIPT_RW_ADOPT, 2, "rw", "lockwire:fence", old, token,
                      script_number(lease), asker, NULL);
}

void assert_holder(const char *token)
{
    char value[80];

    (void)snprintf(value, sizeof(value), "%s", script_get(&server, "GET n"));
    if (*value && value[strlen(value) - 1] == '+') {
        value[strlen(value) - 1] = '-';
    }
    assert_string_equal(value, token);
}

void assert_marked(const char *token)
{
    char value[80];

    (void)snprintf(value, sizeof(value), "%.*s+", (int)strlen(token) - 1, token);
    assert_string_equal(script_get(&server, "GET n"), value);
}

void assert_unmarked(const char *token)
{
    assert_string_equal(script_get(&server, "GET n"), token);
}

void assert_free(void)
{
    assert_int_equal(script_do(&server, "EXISTS n"), 0);
}

void expire(void)
{
    assert_int_equal(script_do(&server, "DEL n"), 1);
}

static const char *permits_of(const char *kind)
{
    return kind[1] ? kind + 1 : "0";
}

struct script_answer rw_asked(struct script_answer answer)
{
    if (!answer.error && answer.count == 1 && answer.n[0] > 0) {
        answer.count = 2;
        answer.n[1] = answer.n[0];
        answer.n[0] = 1;
    }
    return answer;
}

struct script_answer rw_acquire(const char *token, const char *kind, const char *owner,
                                int wait, long long ticket)
{
    char asker[160], waiting[80];

    (void)snprintf(asker, sizeof(asker), "%c %s", kind[0], owner);
    (void)snprintf(waiting, sizeof(waiting), "%d %lld %s%s %s", wait, ticket,
                   permits_of(kind), limit_text(), NUMBERS);
    return rw_asked(script_run(&server, LW__SCRIPT_RW_ACQUIRE, 3, RW_KEYS, token,
                               script_number(LEASE), asker, waiting, NULL));
}

/* {released, left, again} */
static struct script_answer released(struct script_answer answer)
{
    if (!answer.error) {
        assert_int_equal(answer.count, 1);
        answer.count = 3;
        answer.n[1] = answer.n[0] / 4;
        answer.n[2] = answer.n[0] / 2 % 2;
        answer.n[0] %= 2;
    }
    return answer;
}

/* Every second release first sends the short form, as a client's release of a hold
 * does. */
static bool released_in_short(const char *token, struct script_answer *answer)
{
    static unsigned calls;
    char hold[768];

    if (++calls % 2 == 0) {
        return false;
    }
    (void)snprintf(hold, sizeof(hold), "h:%s", token);
    *answer = script_run(&server, LW__SCRIPT_RW_RELEASE, 2, "rw", RW_QUEUE, hold, NULL);
    return answer->error || answer->count != 1 || answer->n[0] != 2;
}

struct script_answer rw_release(const char *token, const char *kind, const char *owner)
{
    char leaver[160];
    struct script_answer answer;

    if (released_in_short(token, &answer)) {
        return released(answer);
    }
    (void)snprintf(leaver, sizeof(leaver), "%s %c%s %s", script_numbers, kind[0],
                   permits_of(kind), owner);
    return released(
        script_run(&server, LW__SCRIPT_RW_RELEASE, 3, RW_KEYS, token, leaver, NULL));
}

struct script_answer rw_release_one_key(const char *token)
{
    return released(
        script_run(&server, LW__SCRIPT_RW_RELEASE_ONE_KEY, 1, "rw", token, NULL));
}

long long rw_keepalive(const char *token, int lease)
{
    return first_of(script_run(&server, LW__SCRIPT_RW_KEEPALIVE, 1, "rw", token,
                               script_number(lease), NULL),
                    1);
}

long long rw_renew(const char *token, int lease)
{
    return first_of(script_run(&server, LW__SCRIPT_RW_RENEW, 3, "lockwire:fence", "rw",
                               RW_QUEUE, script_numbers, token, script_number(lease),
                               NULL),
                    1);
}

void rw_queue_dead(const char *kind, const char *owner, int position)
{
    struct script_client mortal;

    script_client_start(&mortal, &server, 3);
    refused(rw_acquire(script_token(&mortal, 5 + position, WINDOW), kind, owner, 1,
                       NO_TICKET),
            position);
    script_client_stop(&mortal);
}

void rw_released(struct script_answer answer, long long left)
{
    assert_int_equal(first_of(answer, 3), 1);
    assert_int_equal(answer.n[1], left);
    assert_int_equal(answer.n[2], 0);
}

void assert_counts(int reads, int readers, int writes)
{
    const char *state = script_get(&server, "HGET rw mode");
    char counts[48];

    (void)snprintf(counts, sizeof(counts), "2 %d %d %d ", reads + writes, readers,
                   writes);
    if (strncmp(state, counts, strlen(counts)) != 0) {
        fail_msg("%s... expected, found %s", counts, state);
    }
}

void rw_end(const char *token)
{
    char record[160], state[256], ended[256], *rest;
    int holds, readers, writes, behind;

    (void)snprintf(record, sizeof(record), "%s",
                   script_get(&server, "HGET rw h:%s", token));
    rest = strchr(record, ' ');
    assert_non_null(rest);
    (void)snprintf(state, sizeof(state), "%s", script_get(&server, "HGET rw mode"));
    assert_int_equal(
        sscanf(state, "2 %d %d %d %*d %n", &holds, &readers, &writes, &behind), 3);
    (void)snprintf(ended, sizeof(ended), "2 %d %d %d 1 %s", holds, readers, writes,
                   state + behind);
    script_do(&server, "HSET rw h:%s 1%s mode %s", token, rest, ended);
}

long long granted(struct script_answer answer)
{
    assert_int_equal(first_of(answer, 2), 1);
    return answer.n[1];
}

long long refused(struct script_answer answer, long long position)
{
    assert_int_equal(first_of(answer, 6), 0);
    assert_int_equal(answer.n[2], position);
    assert_int_equal(answer.n[5], 0);
    return answer.n[3];
}

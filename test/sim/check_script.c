/* SPDX-License-Identifier: MIT
 *
 * Checks after each script that the first waiter in the queue cannot enter; that a
 * hand-over went to a waiter that received it, and was published to no other waiter
 * except the next one; and that counts match their holds. In plans where nothing goes
 * wrong (plan.quiet), also that waiters are served in order, and that each hold costs two
 * commands. Changes nothing.
 *
 * Usual course: the server reports each message, and each script when it ends, and each
 * function returns; a violation does not return.
 */
#include "look.h"

#include "lock/lock_private.h"
#include "redis/format.h"
#include "scripts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_US (2 * MS) /* how early a hold with a minimum time may be released */
#define UNSEEN_US                                                                        \
    (20 * MS) /* the longest hold that may be released without a look at the queue */

/* ---- messages and scripts ---- */

static void on_publish(struct model_server *server, struct bytes channel,
                       struct bytes message, int64_t receivers)
{
    (void)server;
    (void)channel;
    told_note(message, receivers);
}

static void on_undeclared(struct model_server *server, struct bytes key)
{
    violation("a script at s%u uses %.*s, which it was not given", servers_index(server),
              (int)key.len, key.data);
}

static bool begins(struct bytes text, const char *with)
{
    return text.len >= strlen(with) && memcmp(text.data, with, strlen(with)) == 0;
}

/* The same behind the prefix of all clients. */
static bool key_begins(struct bytes key, const char *with)
{
    size_t before = strlen(load_prefix());

    return begins(key, load_prefix()) &&
           begins((struct bytes){key.data + before, key.len - before}, with);
}

static bool says_again_in(const char *text)
{
    long long n[6];
    int count = sscanf(text, "%lld %lld %lld %lld %lld %lld", &n[0], &n[1], &n[2], &n[3],
                       &n[4], &n[5]);

    return (count == 5 && n[4] == 1) || (count == 6 && n[5] == 1);
}

/* Returns true if the reply reports that more of the queue is to be examined. */
static bool says_again(const struct model_script_run *run)
{
    bool is_rw = run->key_count == 3 && key_begins(run->keys[1], RW_QUEUE);
    char text[512], *rest = text, *items[8];
    int count = 0;

    if (is_rw && run->arg_count >= 4 && !begins(run->reply, "*")) {
        return false; /* a fencing token */
    }
    look_copy(text, sizeof(text), run->reply);
    if (*text == '$') { /* a mutex: 5 numbers; perhaps a type */
        return says_again_in(strstr(text, "\r\n") + 2);
    }
    while (count < 8 && (items[count] = look_take(&rest)) != NULL) {
        count++;
    }
    if (count == 1) {
        long long number = atoll(items[0]);

        return is_rw ? (number & 2) != 0 : number == 2 || number == 3; /* else a fence */
    }
    return count >= 6 && atoll(items[5]) == 1;
}

static void check_counts(const char *name, const struct look_rw *rw, bool excused)
{
    if (rw->ended && !excused) {
        violation("%s has %lld holds whose leases have ended", name,
                  (long long)rw->ended);
    }
    if (rw->rcount != rw->reads || rw->wcount != rw->writes) {
        violation("%s counts %lld reads and %lld writes, but has %lld and %lld", name,
                  (long long)rw->rcount, (long long)rw->wcount, (long long)rw->reads,
                  (long long)rw->writes);
    }
}

/* Checks that the first waiter cannot enter, since the script should have let it in. Sets
 * `*left` if it could enter but still waits, as after a script that may not publish: a
 * later renewal need not notice that. */
static void check_head(const char *name, const char *queue, bool is_rw, bool excused,
                       bool *left)
{
    char head[256] = "", *rest = (char *)look_ask("ZRANGE", queue, "0", "0", NULL);
    const char *member = look_take(&rest);
    struct look_rw rw = {0};
    bool could;

    if (member != NULL) {
        (void)snprintf(head, sizeof(head), "%s", member);
    }
    if (is_rw) {
        rw = look_at_rw(name);
        check_counts(name, &rw, excused);
    }
    could = *head && (rw.ours || look_is_free(name)) &&
            (!is_rw || look_could_enter(name, &rw, head));
    if (could && !excused) {
        violation("%s could enter %s after a script, but waits", head, name);
    }
    *left = could;
}

static char value_before[LW__TOKEN_SIZE]; /* the lock's before the script ran, or "" */

static void copy_value(struct bytes name, char ret[LW__TOKEN_SIZE])
{
    char text[64], *rest;
    const char *value;

    look_copy(text, sizeof(text), name);
    rest = (char *)look_ask("GET", text, NULL);
    value = look_take(&rest);
    (void)snprintf(ret, LW__TOKEN_SIZE, "%s", value != NULL ? value : "");
}

static bool is_ours(const char *value)
{
    return strlen(value) > LW__UUID_SIZE && value[LW__UUID_SIZE - 1] == ':';
}

/* Checks the value's queue mark, by which fast releases decide not to look at the queue:
 * the value may lack it only if there are no waiters. A foreign value has no mark, and
 * stays as it is unless an operator breaks it. */
static void check_mark(const struct model_script_run *run, const char *queue)
{
    char value[LW__TOKEN_SIZE];

    copy_value(run->keys[0], value);
    if (is_ours(value) && value[strlen(value) - 1] == '-' &&
        look_number(look_ask("ZCARD", queue, NULL)) > 0) {
        violation("%s says after a script that nobody waits, but some do", value);
    }
    if (*value_before && !is_ours(value_before) && strcmp(value, value_before) != 0 &&
        !bytes_equal(run->args[0], bytes_of(value_before))) {
        violation("%s, a stranger's, was made %s", value_before, value);
    }
}

/* ---- the order of waiters, in quiet plans ---- */

static unsigned script_count;
static struct place {
    struct place *next;
    int64_t since_us;
    char token[LW__TOKEN_SIZE];
} * places; /* in the order in which they reached the server */
static char holders[NAMES][LW__TOKEN_SIZE];

static struct place **find_place(const char *token)
{
    struct place **at = &places;

    while (*at != NULL && strcmp((*at)->token, token) != 0) {
        at = &(*at)->next;
    }
    return at;
}

static unsigned name_index(const char *name)
{
    unsigned i = 0;

    while (strcmp(load_name(i), name) != 0) {
        i++;
    }
    return i;
}

/* Returns true if the client's links may not be bound yet: then its place in the queue is
 * that of a later request. The links are bound at once, unless sentinels must be asked
 * first where the server is or, in a cluster, the client has not waited in that slot
 * before. */
static bool is_unbound(const struct model_script_run *run)
{
    return (world.plan.watched && world.now_us < BEGIN_US + SECOND) ||
           (world.plan.clustered && begins(run->args[1], "n"));
}

/* Records the place of an acquisition by its first request, though it joins the queue
 * only later. */
static void note_place(const struct model_script_run *run)
{
    char token[LW__TOKEN_SIZE];
    struct place *place, **at;

    look_copy(token, sizeof(token), run->args[0]);
    at = find_place(token);
    if (*at != NULL) {
        return;
    }
    place = must_alloc(sizeof(*place));
    memcpy(place->token, token, sizeof(token));
    place->since_us = is_unbound(run) ? NEVER : world.now_us;
    *at = place;
}

static bool came_before(const char *token, const struct place *place)
{
    const struct place *at = places;

    while (at != NULL && at != place && strcmp(at->token, token) != 0) {
        at = at->next;
    }
    return at != NULL && place->since_us != NEVER && at->since_us < place->since_us;
}

/* Checks that a new holder came before all waiters that are left in the queue. */
static void check_order(const char *name, const char *queue)
{
    char *last = holders[name_index(name)], *rest = (char *)look_ask("GET", name, NULL);
    char *holder = look_take(&rest);
    const char *member;
    struct place *place;

    if (holder == NULL || strcmp(look_unmark(holder), last) == 0) {
        return;
    }
    (void)snprintf(last, LW__TOKEN_SIZE, "%s", holder);
    place = *find_place(last);
    rest = (char *)look_ask("ZRANGE", queue, "0", "-1", NULL);
    while (place != NULL && (member = look_take(&rest)) != NULL) {
        if (came_before(member, place)) {
            violation("%s did not wait for its turn: %s came before", last, member);
        }
    }
}

/* Checks that a grant costs two scripts on average, with some allowance: the request and
 * the release. */
static void check_frugality(void)
{
    unsigned most = 2 * world.granted + world.granted / 20 + 20;

    if (world.plan.clustered) { /* one more before the first channel of each slot */
        most += world.plan.hosts * world.plan.names;
    }
    if (world.plan.quiet) {
        trace("%u scripts ran for %u grants", script_count, world.granted);
    }
    if (world.plan.quiet && script_count > most) {
        violation("%u scripts ran for %u grants", script_count, world.granted);
    }
}

static bool unserved[SERVERS][NAMES];

static bool is_script(const struct model_script_run *run, enum lw__script_id id)
{
    return strcmp(run->sha1, lw__scripts[id].sha1) == 0;
}

static bool is_detach(const struct model_script_run *run)
{
    return is_script(run, LW__SCRIPT_MUTEX_DETACH) ||
           is_script(run, LW__SCRIPT_RW_DETACH);
}

/* Notes a script that serves no waiters: its only key is the lock's, or it is a detach.
 * The next script that can serve them does, at whichever server the lock is by then. */
static void note_alone(const struct model_script_run *run)
{
    char key[128];

    look_copy(key, sizeof(key), run->keys[0]);
    if ((run->key_count == 1 || is_detach(run)) &&
        !key_begins(run->keys[0], "lockwire:")) {
        for (unsigned i = 0; i < SERVERS; i++) {
            unserved[i][name_index(key)] = true;
        }
    }
}

/* Checks the names in a script's keys. `unmarked`: the script may leave a value without
 * its queue mark. `excused`: it may leave the first waiter waiting. */
static void check_keys_of(const struct model_server *server,
                          const struct model_script_run *run, bool unmarked, bool excused)
{
    for (int i = 1; i < run->key_count; i++) {
        bool is_rw = key_begins(run->keys[i], RW_QUEUE), *left;
        char name[64], queue[128];

        if (!is_rw && !key_begins(run->keys[i], QUEUE)) {
            continue;
        }
        look_copy(name, sizeof(name), run->keys[i - 1]);
        look_copy(queue, sizeof(queue), run->keys[i]);
        left = &unserved[servers_index(server)][name_index(name)];
        if (world.plan.quiet && run->key_count == 3) {
            check_order(name, queue);
        }
        check_head(name, queue, is_rw, excused || (i > 1 && *left), left);
        if (!is_rw && !unmarked) {
            check_mark(run, queue);
        }
    }
}

static bool has_token(const struct op *op, struct bytes token)
{
    return *op->token && bytes_equal(bytes_of(op->token), token);
}

/* Records which operation a script has released, to check the status that it will get.
 * `dropped`: by a fast release. After a hold longer than UNSEEN_US a release must look at
 * the queue, since a waiter may have joined it unnoticed. */
static void note_release(struct bytes token, bool dropped)
{
    for (struct op *op = world.ops; op != NULL; op = op->next) {
        op->let_go = op->let_go || (op->detaches && has_token(op, token));
        if (op->state != OP_RELEASING || op->options.mode != LW_MUTEX || op->detaches ||
            !bytes_equal(bytes_of(lw_lock_owner(op->lock)), token)) {
            continue;
        }
        if (world.now_us < op->deadline_us) {
            op->let_go = true;
        }
        if (dropped && op->release_us - op->granted_us > UNSEEN_US) {
            violation("op %u: held for %.3f ms and released without a look at the queue",
                      op->id, (double)(op->release_us - op->granted_us) / 1000);
        }
    }
}

/* ---- detaching ---- */

/* Checks that a detached hold, whose token stays, is no longer renewed. A renewal that
 * was sent on an earlier connection may still arrive. */
static void note_detached(const struct model_script_run *run)
{
    bool detaches = is_detach(run);
    bool renews = is_script(run, LW__SCRIPT_MUTEX_RENEW) ||
                  is_script(run, LW__SCRIPT_RW_RENEW) ||
                  is_script(run, LW__SCRIPT_RW_KEEPALIVE);

    for (struct op *op = world.ops; op != NULL && (detaches || renews); op = op->next) {
        for (int i = 0; op->detaches && i < run->arg_count; i++) {
            if (!has_token(op, run->args[i])) {
                continue;
            }
            if (renews && op->detached && op->host->up_us < op->release_us) {
                violation("op %u: %s is renewed after it was detached", op->id,
                          op->token);
            }
            op->detached = op->detached || (detaches && begins(run->reply, ":1"));
        }
    }
}

/* A hold that an adopter takes over has another token from then on. */
static void note_adopted(const struct model_script_run *run)
{
    bool adopts =
        (is_script(run, LW__SCRIPT_MUTEX_ADOPT) || is_script(run, LW__SCRIPT_RW_ADOPT)) &&
        !begins(run->reply, "-") && !begins(run->reply, ":-");
    struct op *const lists[] = {world.ops, world.past};

    for (int i = 0; i < 2 && adopts; i++) {
        for (struct op *op = lists[i]; op != NULL; op = op->next) {
            op->passed_on = op->passed_on || has_token(op, run->args[0]);
        }
    }
}

/* Checks that a hold with a minimum time is not released earlier, except by an operator's
 * break. A request of its token that comes late, or the new master after a failover that
 * lost the hold, may still have the token as a waiter. It is handed the lock when that
 * hold has gone, and the client, which waits no longer, releases it: not the hold that
 * had the minimum time. */
static void check_minimum(struct bytes token)
{
    const struct op *const lists[] = {world.ops, world.past};

    if (world.plan.every_us[FAULT_BREAK]) {
        return;
    }
    for (int i = 0; i < 2; i++) {
        for (const struct op *op = lists[i]; op != NULL; op = op->next) {
            if (op->options.at_least_ms && has_token(op, token) && !op->passed_on &&
                !stray_was(op) &&
                world.now_us < op->granted_us + op->options.at_least_ms * MS - LEAST_US) {
                violation("op %u: %s is released %.3f ms after its grant, not %u", op->id,
                          op->token, (double)(world.now_us - op->granted_us) / 1000,
                          (unsigned)op->options.at_least_ms);
            }
        }
    }
}

/* Returns true for a fast release, by its script or by a command in its place, and not
 * for a release in a slot that is migrating, although there may be waiters. */
static bool is_drop(const struct model_script_run *run)
{
    return run->key_count == 1 && run->arg_count == 1 &&
           !is_script(run, LW__SCRIPT_RW_RELEASE_ONE_KEY);
}

/* Returns true if bit 0 of a reply that is a number is set. The number may end with CRLF.
 */
static bool is_odd(struct bytes reply)
{
    size_t last = 1;

    while (last + 1 < reply.len && reply.data[last + 1] >= '0') {
        last++;
    }
    return begins(reply, ":") && last < reply.len && reply.data[last] % 2 == 1;
}

static bool is_release(const struct model_script_run *run)
{
    return (is_drop(run) || is_script(run, LW__SCRIPT_MUTEX_RELEASE_FAST) ||
            is_script(run, LW__SCRIPT_MUTEX_RELEASE) ||
            is_script(run, LW__SCRIPT_RW_RELEASE) ||
            is_script(run, LW__SCRIPT_RW_RELEASE_ONE_KEY)) &&
           is_odd(run->reply);
}

/* Returns the token that a release names. The short form for a read-write lock names the
 * hold's field, `h:<token>`. */
static struct bytes released_token(const struct model_script_run *run)
{
    struct bytes token = run->args[0];

    if (run->key_count == 2 && token.len > 2) {
        token.data += 2;
        token.len -= 2;
    }
    return token;
}

static bool only_reads(const struct model_script_run *run)
{
    return is_script(run, LW__SCRIPT_INSPECT);
}

static bool takes_no_writes(const struct model_faults *faults)
{
    return faults->oom || faults->readonly || faults->misconf || faults->noreplicas;
}

/* Returns true if the client sent the script while the guard forbade it to grant locks.
 */
static bool is_guarded(const struct model_script_run *run)
{
    for (int i = 0; i < run->arg_count; i++) {
        if (begins(run->args[i], LW__NO_HAND_OVER)) {
            return true;
        }
    }
    return false;
}

/* Returns true if the script only draws a fencing token. In a cluster it does what a
 * command does elsewhere. */
static bool draws_alone(const struct model_script_run *run)
{
    return run->key_count == 1 && key_begins(run->keys[0], "lockwire:fence");
}

static void on_script(struct model_server *server, const struct model_script_run *run)
{
    bool failed = begins(run->reply, "-") || model_server_is_replica(server);
    const struct model_faults *faults = model_server_faults(server);
    bool mute = faults->deny_channels || (faults->denied_commands != NULL &&
                                          strstr(faults->denied_commands, "pub") != NULL);

    script_count += !draws_alone(run);
    if (world.plan.quiet && is_script(run, LW__SCRIPT_MUTEX_ACQUIRE)) {
        note_place(run);
    }
    if (is_release(run)) {
        note_release(released_token(run), is_drop(run));
        check_minimum(released_token(run));
    }
    note_detached(run);
    note_adopted(run);
    note_alone(run);
    if (is_script(run, LW__SCRIPT_GUARD)) {
        foreign_check(server, run);
    }
    look_from(server);
    if (!only_reads(run) && !is_detach(run)) {
        check_keys_of(server, run, failed || takes_no_writes(faults),
                      failed || mute || says_again(run) || is_guarded(run));
    }
    told_check(servers_index(server), run->args, run->arg_count);
    look_from(NULL);
}

static bool is_of_one_name(const struct model_script_run *run)
{
    return (run->key_count == 3 || run->key_count == 4) && !only_reads(run) &&
           (begins(run->keys[1], QUEUE) || begins(run->keys[1], RW_QUEUE));
}

static void before_script(struct model_server *server, const struct model_script_run *run)
{
    bool of_one = is_of_one_name(run);

    look_from(server);
    told_begin_script(of_one ? run->keys[0] : bytes_of(""));
    *value_before = '\0';
    if (of_one && begins(run->keys[1], QUEUE)) {
        copy_value(run->keys[0], value_before);
    }
    look_from(NULL);
}

void check_scripts_begin(void)
{
    script_count = 0;
    told_begin();
    places = NULL;
    memset(holders, 0, sizeof(holders));
    memset(unserved, 0, sizeof(unserved));
    for (unsigned i = 0; i < world.plan.servers; i++) {
        model_server_watch(
            world.servers[i],
            &(struct model_watch){before_script, on_script, on_publish, on_undeclared});
    }
}

void check_scripts_end(void)
{
    check_frugality();
    told_end();
    while (places != NULL) {
        struct place *place = places;

        places = place->next;
        free(place);
    }
}

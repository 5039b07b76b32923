/* SPDX-License-Identifier: MIT
 *
 * Checks the messages of hand-overs, `<t|r> <token> <fence> <server> <s> <us> <name>`, at
 * the server that publishes them: the addressee holds the name when the script ends, and
 * has received the message; no fencing token is published to two holders; the named
 * server is the one that publishes. A replica passes all of them on, so this is true for
 * every receiver. Changes nothing.
 *
 * Usual course: told_note() records a message; told_check() judges all of a script's
 * messages when it has ended.
 *
 * While two servers live on separately, each publishes fencing tokens of its own. Those
 * of the one that then becomes the other's replica may be published again.
 */
#include "look.h"
#include "nodes.h"

#include "lock/lock_private.h"
#include "redis/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 256        /* messages of a script */
#define TURN_NUMBERS 16 /* that a mutex's hand-over draws */

struct message {
    char kind; /* t, r, s */
    char token[LW__TOKEN_SIZE], server[LW__SERVER_SIZE], name[64];
    uint64_t fence;
    int64_t receivers;
};

static struct message messages[MOST];
static unsigned message_count;

/* Fencing tokens and their owner: a lock token, or an owner of a name. */
struct told {
    uint64_t first, last;
    unsigned server, slot; /* in a cluster: each slot has its own counter */
    int64_t at_us;
    char whose[128];
};

static struct told *told;
static size_t told_count, told_size;
static int64_t apart_us; /* when two servers were separated; NEVER if none are */
static unsigned losing;  /* the one of them that will become the other's replica */

/* Returns the next word, which may be empty, or "" if there is none. */
static const char *word(char **rest)
{
    const char *at = strsep(rest, " ");

    return at != NULL ? at : "";
}

void told_note(struct bytes text, int64_t receivers)
{
    struct message *message = &messages[message_count];
    char line[256], *rest = line;

    look_copy(line, sizeof(line), text);
    if (*line == '\0' || strchr("trs", *line) == NULL || line[1] != ' ') {
        return; /* Redisson's, or the empty probe of the permission to publish */
    }
    if (++message_count == MOST) {
        violation("a script tells as many as %d", MOST);
    }
    *message = (struct message){.kind = *word(&rest), .receivers = receivers};
    (void)snprintf(message->token, sizeof(message->token), "%s", word(&rest));
    message->fence = strtoull(word(&rest), NULL, 10); /* of an s: a claim window */
    if (message->kind != 's') {
        (void)snprintf(message->server, sizeof(message->server), "%s", word(&rest));
        word(&rest); /* the time: seconds, microseconds */
        word(&rest);
    }
    (void)snprintf(message->name, sizeof(message->name), "%s", rest != NULL ? rest : "");
}

/* Copies the name and the owner of the hold that the message names. Returns false if
 * there is no such hold. */
static bool find_owner(const struct message *message, char *ret, size_t size)
{
    char field[128], *rest;
    const char *record;

    (void)snprintf(field, sizeof(field), "h:%s", message->token);
    rest = (char *)look_ask("HGET", message->name, field, NULL);
    record = look_take(&rest);
    record = record != NULL ? strchr(record, ' ') : NULL;
    record = record != NULL ? strchr(record + 1, ' ') : NULL;
    if (record != NULL) {
        (void)snprintf(ret, size, "%s%s", message->name, record);
    }
    return record != NULL;
}

/* Checks that the addressee holds the name and has received the message. Stores in
 * `whose` whose fencing token it is: an owner of a read-write lock has one for all its
 * holds. */
static void check_has_name(const struct message *message, char *whose, size_t size)
{
    bool has;

    if (message->kind == 't') {
        has = look_has_mutex(message->name, message->token);
        (void)snprintf(whose, size, "%s", message->token);
    } else {
        has = find_owner(message, whose, size);
    }
    if (!has) {
        violation("%s was told that it has %s, and has it not", message->token,
                  message->name);
    }
    if (message->receivers == 0) {
        violation("%s was handed to %s, who is dead", message->name, message->token);
    }
    if (message->kind == 't' && look_number(look_ask("PTTL", message->name, NULL)) >
                                    atoll(strrchr(message->token, ':') + 1)) {
        violation("%s was handed over for longer than %s claims", message->name,
                  message->token);
    }
}

static bool is_comparable(const struct told *old, const struct told *new)
{
    if (world.plan.clustered) {
        return old->slot == new->slot;
    }
    return old->server == new->server || (old->at_us < apart_us && !world.plan.quorum);
}

static void check_number(const struct told *new)
{
    for (size_t i = 0; i < told_count; i++) {
        const struct told *old = &told[i];

        if (old->first <= new->last &&new->first <= old->last &&
            is_comparable(old, new) && strcmp(old->whose, new->whose) != 0) {
            violation("%" PRIu64 " was told to %s, and now to %s", new->first, old->whose,
                      new->whose);
        }
    }
    if (told_count == told_size) {
        told_size = told_size ? 2 * told_size : 256;
        told = must_realloc(told, told_size * sizeof(*told));
    }
    told[told_count++] = *new;
}

static void check_server(const struct message *message)
{
    char info[256], *at;

    if (!*message->server) {
        return;
    }
    look_copy(info, sizeof(info), bytes_of(look_ask("INFO", NULL)));
    at = strstr(info, "run_id:");
    if (at == NULL ||
        strncmp(at + strlen("run_id:"), message->server, LW__SERVER_SIZE - 1) != 0) {
        violation("%s is told of the server %s by another", message->token,
                  message->server);
    }
}

static void check_turn(const struct message *message, unsigned server)
{
    struct told new = {.first = message->fence,
                       .last = message->fence,
                       .server = server,
                       .slot = world.plan.clustered ? nodes_slot(message->name) : 0,
                       .at_us = world.now_us};

    if (message->kind == 't') {
        new.last += TURN_NUMBERS - 1;
    }
    check_has_name(message, new.whose, sizeof(new.whose));
    check_server(message);
    if (!world.plan.clustered || !nodes[server].apart) {
        check_number(&new);
    }
}

/* Checks that a script asks at most one waiter of a name to stand by, and hands a mutex
 * over to at most one. */
static void check_alone(const struct message *message)
{
    for (const struct message *other = messages; other < message; other++) {
        if (message->kind != 'r' && message->receivers > 0 && other->receivers > 0 &&
            other->kind == message->kind && strcmp(other->name, message->name) == 0) {
            violation("a script told %s and %s the same of %s", other->token,
                      message->token, message->name);
        }
    }
}

static char name[64];      /* of the script that runs */
static char before[16384]; /* its holders before the script */

/* Lists the tokens that hold the name, each between blanks. */
static void list_holders(char *list, size_t size)
{
    char *rest = (char *)look_ask("GET", name, NULL);
    bool is_hash = *rest == '-';
    char *item;
    size_t used = 0;

    *list = '\0';
    if (is_hash) {
        rest = (char *)look_ask("HKEYS", name, NULL);
    }
    while ((item = look_take(&rest)) != NULL) {
        if (is_hash && strncmp(item, "h:", 2) != 0) {
            continue;
        }
        used += (size_t)snprintf(list + used, size - used, " %s ",
                                 is_hash ? item + 2 : look_unmark(item));
        if (used >= size) {
            violation("%s has more holders than can be checked", name);
        }
    }
}

void told_begin_script(struct bytes of)
{
    look_copy(name, sizeof(name), of);
    if (*name) {
        list_holders(before, sizeof(before));
    }
}

static bool was_told(const char *token)
{
    for (unsigned i = 0; i < message_count; i++) {
        if (messages[i].kind != 's' && strcmp(messages[i].token, token) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_argument(const char *token, const struct bytes *args, int arg_count)
{
    for (int i = 0; i < arg_count; i++) {
        if (bytes_equal(args[i], bytes_of(token))) {
            return true;
        }
    }
    return false;
}

/* Checks that each new holder was sent a message, unless it sent the script itself. */
static void check_gifts(const struct bytes *args, int arg_count)
{
    static char now[sizeof(before)];

    list_holders(now, sizeof(now));
    for (char *token = strtok(now, " "); token != NULL; token = strtok(NULL, " ")) {
        char sought[160];

        (void)snprintf(sought, sizeof(sought), " %s ", token);
        if (strstr(before, sought) == NULL && !was_told(token) &&
            !is_argument(token, args, arg_count)) {
            violation("%s was handed to %s, who was not told", name, token);
        }
    }
}

void told_check(unsigned server, const struct bytes *args, int arg_count)
{
    if (*name) {
        check_gifts(args, arg_count);
    }
    for (unsigned i = 0; i < message_count; i++) {
        check_alone(&messages[i]);
        if (messages[i].kind != 's') {
            check_turn(&messages[i], server);
        }
    }
    message_count = 0;
}

void told_split(unsigned loser, int64_t since_us)
{
    losing = loser;
    apart_us = since_us;
}

void told_join(void)
{
    told_lose(losing, apart_us);
    apart_us = NEVER;
}

void told_lose(unsigned loser, int64_t since_us)
{
    size_t kept = 0;

    for (size_t i = 0; i < told_count; i++) {
        if (told[i].server != loser || told[i].at_us < since_us) {
            told[kept++] = told[i];
        }
    }
    told_count = kept;
}

void told_begin(void)
{
    message_count = 0;
    apart_us = NEVER;
}

void told_end(void)
{
    free(told);
    told = NULL;
    told_count = told_size = 0;
}

/* SPDX-License-Identifier: MIT
 *
 * What must be true of the messages of hand-overs, `<t|r> <token> <fence> <server> <s>
 * <us> <name>`, at the server that publishes them: who is told has the name when the
 * script ends, and heard of it; no number is told to two; the server that is named is
 * this one. A replica passes all of them on: so they are true for whoever hears them,
 * wherever. Changes nothing.
 *
 * Happy path: told_note() takes a message, told_check() judges all when their script has
 * ended.
 *
 * Where two servers live by themselves each tells numbers of its own, and those of the
 * one that becomes the other's copy may be told again.
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
#define TURN_NUMBERS 16 /* that a mutex' hand-over draws */

struct message {
    char kind; /* t, r, s */
    char token[LW__TOKEN_SIZE], server[LW__SERVER_SIZE], name[64];
    uint64_t fence;
    int64_t receivers;
};

static struct message messages[MOST];
static unsigned message_count;

/* Numbers, and whose they are: a token's, or an owner's of a name. */
struct told {
    uint64_t first, last;
    unsigned server, slot; /* of a cluster: each has a counter of its own */
    int64_t at_us;
    char whose[128];
};

static struct told *told;
static size_t told_count, told_size;
static int64_t apart_us; /* since when two servers live by themselves; NEVER: none do */
static unsigned losing;  /* the one of them that will be the other's copy */

/* The next word, which may be empty; "" where there is none. */
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
        return; /* Redisson's, or the empty one that asks whether publishing is allowed */
    }
    if (++message_count == MOST) {
        violation("a script tells as many as %d", MOST);
    }
    *message = (struct message){.kind = *word(&rest), .receivers = receivers};
    (void)snprintf(message->token, sizeof(message->token), "%s", word(&rest));
    message->fence = strtoull(word(&rest), NULL, 10); /* or a window, to stand by */
    if (message->kind != 's') {
        (void)snprintf(message->server, sizeof(message->server), "%s", word(&rest));
        word(&rest); /* when: seconds, microseconds */
        word(&rest);
    }
    (void)snprintf(message->name, sizeof(message->name), "%s", rest != NULL ? rest : "");
}

/* Copies the owner of a hold that is there. */
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

/* Says whose the number is: each owner of a read-write lock has one for all its holds. */
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

/* Of a name, one is told to stand by, and of a mutex one that it has it. */
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
static char before[16384]; /* who had it */

/* The tokens that have a name, blanks around each. */
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

/* Nobody was given the name who does not hear of it. */
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

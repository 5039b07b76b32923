/* SPDX-License-Identifier: MIT
 *
 * Reads the servers' keys past all faults: which client holds a name, and which may get
 * it next. Judges nothing and changes nothing.
 *
 * Usual course: look_ask() with the words of a command, then look_take() for each item of
 * the reply.
 */
#include "look.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS 6
#define CROWD 100

static struct model_server *asked;

void look_from(struct model_server *server)
{
    asked = server;
}

static struct model_server *server_of(const char *key)
{
    return asked != NULL ? asked : servers_of(key);
}

/* Returns the server for the time, and for commands without a key. In a cluster it need
 * not be the key's: if the clocks of its masters differ, there are only mutexes, for
 * which the time is not read. */
static struct model_server *server(void)
{
    return asked != NULL ? asked : world.server;
}

const char *look_ask(const char *word, ...)
{
    static char answer[16384];
    struct bytes argv[WORDS];
    struct buffer buffer = {0};
    va_list args;
    int argc = 0;

    va_start(args, word);
    for (; word != NULL && argc < WORDS; word = va_arg(args, const char *)) {
        argv[argc++] = bytes_of(word);
    }
    va_end(args);
    model_server_ask(argc > 1 ? server_of(argv[1].data) : server(), 0, argv, argc,
                     &buffer);
    if (buffer.len >= sizeof(answer)) {
        violation("the server's answer is too long to be checked");
    }
    memcpy(answer, buffer.data, buffer.len);
    answer[buffer.len] = '\0';
    buffer_free(&buffer);
    return answer;
}

char *look_take(char **rest)
{
    for (;;) {
        char *line = *rest, *end = line != NULL ? strstr(line, "\r\n") : NULL;

        if (end == NULL) {
            return NULL;
        }
        *end = '\0';
        *rest = end + 2;
        if (*line == '*') {
            continue;
        }
        if (*line == ':') {
            return line + 1;
        }
        if (*line != '$' || line[1] == '-') {
            return NULL;
        }
        line = *rest;
        end = strstr(line, "\r\n");
        *end = '\0';
        *rest = end + 2;
        return line;
    }
}

int64_t look_number(const char *answer)
{
    return *answer == ':' ? atoll(answer + 1) : 0;
}

void look_copy(char *to, size_t size, struct bytes from)
{
    (void)snprintf(to, size, "%.*s", (int)from.len, from.data);
}

/* Returns true if the hold's own lease has expired; 0 in its record means the key's
 * TTL. */
static bool has_ended(const char *record)
{
    int64_t ends_ms = atoll(record);

    return ends_ms > 0 && ends_ms <= model_server_time_us(server()) / 1000;
}

static void note_hold(struct look_rw *rw, const char *record)
{
    rw->reads += strstr(record, " r ") != NULL;
    rw->writes += strstr(record, " w ") != NULL;
    rw->ended += has_ended(record);
}

/* `2 <holds> <owners that read> <write holds> <soonest> <number> <writer>` */
static void note_state(struct look_rw *rw, const char *state)
{
    long long holds, readers, writes;

    rw->ours = sscanf(state, "2 %lld %lld %lld %*s %*s %63s", &holds, &readers, &writes,
                      rw->writer) >= 3;
    if (!rw->ours) {
        return;
    }
    rw->rcount = holds - writes;
    rw->wcount = writes;
    rw->readers = readers;
}

static void note_field(struct look_rw *rw, const char *field, const char *value)
{
    if (strcmp(field, "mode") == 0) {
        note_state(rw, value);
    } else if (strncmp(field, "h:", 2) == 0) {
        note_hold(rw, value);
    }
}

struct look_rw look_at_rw(const char *name)
{
    char *rest = (char *)look_ask("HGETALL", name, NULL), *field, *value;
    struct look_rw rw = {0};

    while ((field = look_take(&rest)) != NULL && (value = look_take(&rest)) != NULL) {
        note_field(&rw, field, value);
    }
    return rw;
}

static int64_t reads_of(const char *name, const char *owner)
{
    char field[128], *rest, *value;

    (void)snprintf(field, sizeof(field), "r:%s", owner);
    rest = (char *)look_ask("HGET", name, field, NULL);
    value = look_take(&rest);
    return value != NULL ? atoll(value) : 0;
}

bool look_could_enter(const char *name, const struct look_rw *rw, const char *member)
{
    const char *owner = strchr(member, ' ');
    int64_t its_reads, permits = atoll(member + 1);

    owner = owner != NULL ? strchr(owner + 1, ' ') : NULL;
    if (owner == NULL || rw->rcount + rw->wcount == 0) {
        return true;
    }
    if (rw->wcount > 0 && strcmp(rw->writer, ++owner) != 0) {
        return false;
    }
    its_reads = reads_of(name, owner);
    if (*member == 'w') {
        return rw->rcount == its_reads;
    }
    return permits == 0 || rw->readers < permits || its_reads > 0 || rw->wcount > 0;
}

char *look_unmark(char *value)
{
    size_t length = strlen(value);

    if (length > 0 && value[length - 1] == '+') {
        value[length - 1] = '-';
    }
    return value;
}

bool look_has_mutex(const char *name, const char *token)
{
    char *rest = (char *)look_ask("GET", name, NULL), *value = look_take(&rest);

    return value != NULL && strcmp(look_unmark(value), token) == 0;
}

bool look_has_hold(const char *name, const char *token)
{
    char field[128], *rest, *record;

    (void)snprintf(field, sizeof(field), "h:%s", token);
    rest = (char *)look_ask("HGET", name, field, NULL);
    record = look_take(&rest);
    return record != NULL && !has_ended(record);
}

/* Returns the time left of a hold, which has an expiry time of its own or the key's. */
static int64_t hold_left_ms(const char *name, const char *token)
{
    char field[128], *rest, *record;
    int64_t ends_ms;

    if (!look_has_hold(name, token)) {
        return -1;
    }
    (void)snprintf(field, sizeof(field), "h:%s", token);
    rest = (char *)look_ask("HGET", name, field, NULL);
    record = look_take(&rest);
    ends_ms = record != NULL ? atoll(record) : 0;
    return ends_ms > 0 ? ends_ms - model_server_time_us(server()) / 1000
                       : look_number(look_ask("PTTL", name, NULL));
}

int64_t look_left_ms(unsigned name, const char *token)
{
    const char *key = load_name(name);
    bool has;

    switch (world.plan.kinds[name]) {
    case KIND_MUTEX:
        has = look_has_mutex(key, token);
        break;
    case KIND_REDISSON:
        has = look_number(look_ask("HEXISTS", key, token, NULL)) == 1;
        break;
    default:
        return hold_left_ms(key, token);
    }
    return has ? look_number(look_ask("PTTL", key, NULL)) : -1;
}

bool look_is_free(const char *name)
{
    return look_number(look_ask("EXISTS", name, NULL)) == 0;
}

bool look_is_crowded(unsigned name)
{
    static const char *const formats[] = {QUEUE "{%s}", QUEUE ":%s", RW_QUEUE "{%s}",
                                          RW_QUEUE ":%s"};
    char queue[128];
    int64_t most = 0;

    for (int i = 0; i < 4; i++) {
        int64_t count;

        (void)snprintf(queue, sizeof(queue), "%s", load_prefix());
        (void)snprintf(queue + strlen(queue), sizeof(queue) - strlen(queue), formats[i],
                       load_name(name));
        count = look_number(look_ask("ZCARD", queue, NULL));
        most = count > most ? count : most;
    }
    return most > CROWD;
}

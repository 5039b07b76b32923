/* SPDX-License-Identifier: MIT
 *
 * Clients with another guard time than the hosts': each sends guard.lua to a server once,
 * as at the start of a connection, is granted no lock, and goes. After a loss it may come
 * before all hosts. Until an operator deletes its record, the hosts may then be refused,
 * except in one case, which is checked: they replace a shorter time that is still waited
 * for. Independent of locks.
 */
#include "world.h"

#include "redis/format.h"
#include "scripts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SHORTER_MS 5000
#define LONGER_MS 10000

struct record {
    uint32_t guard_ms;
    int64_t from_us;
};

static void format_key(char ret[LW__PREFIX_SIZE + sizeof(LW__GUARD_KEY)])
{
    (void)strcpy(stpcpy(ret, load_prefix()), LW__GUARD_KEY);
}

static void ask_of_record(struct model_server *server, const char *command,
                          struct buffer *answer)
{
    char key[LW__PREFIX_SIZE + sizeof(LW__GUARD_KEY)], words[sizeof(key) + 8];

    format_key(key);
    (void)snprintf(words, sizeof(words), "%s %s", command, key);
    model_server_ask_words(server, words, answer);
}

static bool read_record(struct model_server *server, struct record *ret)
{
    struct buffer answer = {0};
    char text[256] = "";
    bool found;

    ask_of_record(server, "GET", &answer);
    if (answer.len < sizeof(text)) {
        memcpy(text, answer.data, answer.len);
    }
    buffer_free(&answer);
    found =
        sscanf(text, "$%*d %*s %" SCNu32 " %" SCNd64, &ret->guard_ms, &ret->from_us) == 2;
    return found;
}

/* Returns true if the server has a record that a host's request does not replace. */
static bool refuses_hosts(struct model_server *server)
{
    struct record record;

    return read_record(server, &record) && record.guard_ms != world.plan.guard_ms &&
           (record.guard_ms > world.plan.guard_ms ||
            record.from_us <= model_server_time_us(server));
}

static void delete_record(struct model_server *server)
{
    struct buffer answer = {0};

    if (refuses_hosts(server)) {
        trace("an operator deletes the guard's record of s%u", servers_index(server));
        ask_of_record(server, "DEL", &answer);
        buffer_free(&answer);
    }
}

static void operate(void *arg)
{
    (void)arg;
    for (unsigned i = 0; i < world.plan.servers; i++) {
        if (!model_server_is_replica(world.servers[i])) {
            delete_record(world.servers[i]);
        }
    }
}

static const char *field_of(const char *info, const char *name, char ret[64])
{
    const char *at = strstr(info, name);

    if (at == NULL || sscanf(at + strlen(name), "%63[^\r]", ret) != 1) {
        violation("INFO has no %s", name);
    }
    return ret;
}

static void read_identity(struct model_server *server, char *ret, size_t size)
{
    struct buffer info = {0};
    char id[64], former[64], offset[64];

    model_server_ask_words(server, "INFO", &info);
    buffer_append(&info, "", 1);
    (void)snprintf(ret, size, "%s:%s:%s", field_of(info.data, "run_id:", id),
                   field_of(info.data, "master_replid2:", former),
                   field_of(info.data, "second_repl_offset:", offset));
    buffer_free(&info);
}

void foreign_come(void)
{
    unsigned index = world.plan.quorum ? servers_any() : servers_index(world.server);
    struct model_server *server = world.servers[index];
    uint32_t ms = rng_chance(&world.rng, 700) ? world.plan.guard_ms - SHORTER_MS
                                              : world.plan.guard_ms + LONGER_MS;
    const struct lw__script *script = &lw__scripts[LW__SCRIPT_GUARD];
    char identity[256], number[16], key[LW__PREFIX_SIZE + sizeof(LW__GUARD_KEY)];
    struct buffer answer = {0};

    if (servers_refuse(index) || servers_lack_replicas(index) ||
        servers_frozen_until(index) > world.now_us) {
        return;
    }
    trace("a client with the guard time %" PRIu32 " ms asks s%u", ms, index);
    read_identity(server, identity, sizeof(identity));
    format_key(key);
    (void)snprintf(number, sizeof(number), "%" PRIu32, ms);
    const struct bytes words[] = {bytes_of("EVAL"),   {script->text, script->length},
                                  bytes_of("1"),      bytes_of(key),
                                  bytes_of(identity), bytes_of(number),
                                  bytes_of("0")};
    model_server_ask(server, 0, words, sizeof(words) / sizeof(words[0]), &answer);
    buffer_free(&answer);
    agenda_add(world.now_us + rng_between(&world.rng, 1, 10 * SECOND), operate, NULL);
}

void foreign_end(void)
{
    if (world.plan.every_us[FAULT_FOREIGN]) {
        operate(NULL);
    }
}

void foreign_check(struct model_server *server, const struct model_script_run *run)
{
    bool is_refused = run->reply.len > 1 && memcmp(run->reply.data, ":-", 2) == 0;
    char number[16];

    (void)snprintf(number, sizeof(number), "%" PRIu32, world.plan.guard_ms);
    if (is_refused && bytes_equal(run->args[1], bytes_of(number)) &&
        !refuses_hosts(server)) {
        violation(
            "a client is refused, although its guard time is the longer one, and the "
            "shorter one is still waited for");
    }
}

/* SPDX-License-Identifier: MIT */
/*
 * What the fake nodes of a cluster's scene reply to each command: the reply that the test
 * has set, or else the usual reply of a node.
 */
#include "cluster_scene.h"
#include "cluster_scene_inside.h"

#include "redis/slot.h"
#include "scripts.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <stdio.h>
#include <string.h>

#define FOREIGN_ID "ffffffffffffffffffffffffffffffffffffffff"
#define RUN_ID "%c123456789abcdef0123456789abcdef01234567"

/* ---- the map ---- */

static void put_node(struct evbuffer *out, const char *host, uint16_t port,
                     const char *id)
{
    (void)evbuffer_add_printf(out, "*3\r\n");
    if (host == NULL) {
        (void)evbuffer_add_printf(out, "$-1\r\n");
    } else {
        (void)evbuffer_add_printf(out, "$%zu\r\n%s\r\n", strlen(host), host);
    }
    (void)evbuffer_add_printf(out, ":%u\r\n$40\r\n%s\r\n", port, id);
}

static void put_range(struct evbuffer *out, unsigned first, unsigned last,
                      const char *host, uint16_t port, const char *id, int replicas)
{
    (void)evbuffer_add_printf(out, "*%d\r\n:%u\r\n:%u\r\n", 3 + replicas, first, last);
    put_node(out, host, port, id);
}

static void say_pieces(struct connection *connection)
{
    struct evbuffer *out = bufferevent_get_output(connection->stream);
    const struct fake *n = connection->fake->node.scene->n;

    (void)evbuffer_add_printf(out, "*%d\r\n", LW__SLOTS);
    for (unsigned slot = 0; slot < LW__SLOTS; slot++) {
        put_range(out, slot, slot, "127.0.0.1", n[slot % 2].node.port,
                  id_of(&n[slot % 2]), 0);
    }
}

/* Puts the replicas of a range, "/N3/N4". */
static void put_replicas(struct evbuffer *out, const struct fake *n, const char *text,
                         int count)
{
    for (int i = 0; i < count; i++) {
        const struct fake *replica = &n[text[3 * i + 2] - '1'];

        put_node(out, "127.0.0.1", replica->node.port, id_of(replica));
    }
}

/* Sends fake->map, "0-5460 N1, 5461-16383 N2/N3, ...", as the reply to CLUSTER SLOTS. */
static void say_map(struct connection *connection)
{
    const struct fake *fake = connection->fake;
    struct evbuffer *out = bufferevent_get_output(connection->stream);
    struct evbuffer *ranges = evbuffer_new();
    unsigned first, last, node;
    int count = 0, length, replicas;

    for (const char *at = fake->map; *at != '\0'; at += length, count++) {
        const struct fake *master;
        const char *host = fake->host;

        at += strspn(at, ", ");
        assert_int_equal(sscanf(at, "%u-%u N%u%n", &first, &last, &node, &length), 3);
        replicas = (int)strspn(at + length, "/N1234") / 3;
        master = &fake->node.scene->n[node - 1];
        if (host == NULL) {
            host = master->node.six ? "::1" : "127.0.0.1";
        }
        put_range(ranges, first, last, strcmp(host, "nil") == 0 ? NULL : host,
                  master->node.port, id_of(master), replicas);
        put_replicas(ranges, fake->node.scene->n, at + length, replicas);
        length += 3 * replicas;
    }
    (void)evbuffer_add_printf(out, "*%d\r\n", count);
    (void)evbuffer_add_buffer(out, ranges);
    evbuffer_free(ranges);
}

static void tell_map(struct connection *connection)
{
    struct fake *fake = connection->fake;

    fake->asked++;
    if (fake->raw != NULL) {
        say(connection, fake->raw);
    } else if (fake->in_pieces) {
        say_pieces(connection);
    } else {
        say_map(connection);
    }
}

/* Returns the id of the node within its cluster: for "N1", 40 times its digit. */
const char *id_of(const struct fake *fake)
{
    static char id[41];

    memset(id, fake->id != '\0' ? fake->id : fake->node.name[1], 40);
    return id;
}

static void say_cluster(struct connection *connection, const char *what)
{
    struct fake *fake = connection->fake;
    char info[200];

    if (fake->refuses_cluster && strcmp(what, "SLOTS") != 0) {
        say(connection, "-NOPERM this user has no permissions\r\n");
    } else if (strcmp(what, "MYID") == 0) {
        say_text(connection, fake->foreign ? FOREIGN_ID : id_of(fake));
    } else if (strcmp(what, "INFO") == 0) {
        (void)snprintf(info, sizeof(info),
                       "cluster_enabled:1\r\ncluster_state:%s\r\n"
                       "cluster_current_epoch:%u\r\ncluster_my_epoch:1\r\n",
                       fake->down ? "fail" : "ok", fake->epoch);
        say_text(connection, info);
    } else {
        tell_map(connection);
    }
}

void map_is(struct scene *scene, const char *map)
{
    for (int i = 0; i < NODES; i++) {
        scene->n[i].map = map;
    }
}

/* ---- the fakes ---- */

static void say_to_all(struct fake *fake, const char *kind, unsigned slot,
                       const char *text)
{
    char channel[LW__CHANNEL_OF_OURS_SIZE];

    lw__format_channel("", UUID, (int)slot, channel);
    say_to_subscribers(fake, kind, channel, text);
}

void publish(struct fake *fake, unsigned slot, const char *text)
{
    say_to_all(fake, "smessage", slot, text);
}

void drop_channel(struct fake *fake, unsigned slot)
{
    say_to_all(fake, "sunsubscribe", slot, NULL);
}

void says(struct fake *fake, const char *to, const char *text)
{
    struct answer *answer = fake->answers;

    while (answer->text != NULL) {
        answer++;
        assert_true(answer < fake->answers + ANSWERS);
    }
    *answer = (struct answer){to, text, false};
}

void says_always(struct fake *fake, const char *to, const char *text)
{
    for (int i = 0; i < ANSWERS; i++) {
        if (fake->answers[i].text != NULL && strcmp(fake->answers[i].to, to) == 0) {
            fake->answers[i].text = NULL;
        }
    }
    if (text != NULL) {
        says(fake, to, text);
        for (int i = 0; i < ANSWERS; i++) {
            if (fake->answers[i].text == text) {
                fake->answers[i].always = true;
            }
        }
    }
}

/* Sends the reply that the test has set for this command. Returns false if there is
 * none. */
static bool say_told(struct connection *connection, const char *line, const char *key)
{
    struct fake *fake = connection->fake;
    char out[512];

    for (int i = 0; i < ANSWERS; i++) {
        struct answer *answer = &fake->answers[i];

        if (answer->text != NULL && (strncmp(line, answer->to, strlen(answer->to)) == 0 ||
                                     strcmp(key, answer->to) == 0)) {
            with_addresses(fake->node.scene, answer->text, out, sizeof(out) - 3);
            if (!answer->always) {
                answer->text = NULL;
            }
            if (*out != '\0') {
                (void)strcat(out, "\r\n");
            }
            say(connection, out);
            return true;
        }
    }
    return false;
}

static void say_info(struct connection *connection)
{
    struct fake *fake = connection->fake;
    char info[256];

    (void)snprintf(info, sizeof(info),
                   "# Server\r\nredis_mode:cluster\r\narch_bits:64\r\nrun_id:" RUN_ID
                   "\r\n",
                   fake->astray > 0 ? 'f' : fake->node.name[1]);
    fake->astray -= fake->astray > 0;
    say_text(connection, info);
}

static void subscribe(struct connection *connection, const char *line,
                      const char *channel, bool on)
{
    struct fake *fake = connection->fake;

    note(fake->node.scene, "%s < %s", fake->node.name, line);
    if (say_told(connection, line, "")) {
        return;
    }
    add_subscriber(connection);
    say_channel(connection, on ? "ssubscribe" : "sunsubscribe", channel, NULL);
}

static void say_role(struct connection *connection)
{
    struct fake *fake = connection->fake;

    fake->roles_asked++;
    if (fake->role != NULL) {
        say(connection, fake->role);
    } else {
        say(connection, "*1\r\n$5\r\nslave\r\n");
    }
}

/* Answers the commands of the handshake and the like, which no test is about. */
static bool is_greeting(struct connection *connection, char *const words[8])
{
    if (strcmp(words[0], "INFO") == 0) {
        say_info(connection);
    } else if (strcmp(words[0], "ROLE") == 0) {
        say_role(connection);
    } else if (strcmp(words[0], "CLIENT") == 0) {
        say(connection, strcmp(words[1], "ID") == 0 ? ":1\r\n" : "+OK\r\n");
    } else if (strcmp(words[0], "CONFIG") == 0 || strcmp(words[0], "COMMAND") == 0) {
        say(connection, "*0\r\n");
    } else if (strcmp(words[0], "SPUBLISH") == 0 || strcmp(words[0], "PUBSUB") == 0) {
        /* are these permitted? */
        say(connection, ":0\r\n");
    } else if (strcmp(words[0], "CLUSTER") == 0) {
        say_cluster(connection, words[1]);
    } else if (strcmp(words[0], "AUTH") == 0) {
        say(connection, "+OK\r\n");
    } else {
        return false;
    }
    return true;
}

static bool is_seed(char *const words[8])
{
    const struct lw__script *seed = &lw__scripts[LW__SCRIPT_FENCE_SEED];

    return strcmp(words[1], seed->sha1) == 0 || strcmp(words[1], seed->text) == 0;
}

static void answer_as_usual(struct connection *connection, const char *command)
{
    if (strcmp(command, "GET") == 0) {
        say(connection, "$1\r\n1\r\n");
    } else if (strcmp(command, "MGET") == 0) {
        say(connection, "*0\r\n");
    } else if (strcmp(command, "INCR") == 0 || strncmp(command, "SEED", 4) == 0) {
        say(connection, ":1700000000000001\r\n");
    } else if (strcmp(command, "PEXPIRE") == 0) {
        say(connection, ":1\r\n");
    } else {
        say(connection, "+OK\r\n");
    }
}

void obey(struct connection *connection, char *const words[8])
{
    struct fake *fake = connection->fake;
    bool script = strncmp(words[0], "EVAL", 4) == 0, seed = script && is_seed(words);
    const char *key = script ? words[3] : words[1] != NULL ? words[1] : "";
    const char *command = words[0];
    char line[256];

    if (is_greeting(connection, words)) {
        return;
    }
    if (seed) {
        command = strcmp(words[0], "EVAL") == 0 ? "SEED text" : "SEED";
        fake->seeded++;
    }
    if (strstr(words[0], "SUBSCRIBE") != NULL ||
        strncmp(key, "lockwire:fence:", 15) == 0) {
        (void)snprintf(line, sizeof(line), "%s %u", command,
                       lw__slot_of(key, strlen(key)));
    } else {
        (void)snprintf(line, sizeof(line), *key != '\0' ? "%s %s" : "%s", command, key);
    }
    if (strstr(words[0], "SUBSCRIBE") != NULL) {
        subscribe(connection, line, key, words[0][1] == 'S');
        return;
    }
    if (strcmp(command, "PEXPIRE") != 0 && (!seed || fake->node.scene->tells_seeds)) {
        note(fake->node.scene, "%s < %s", fake->node.name, line);
    }
    if (!say_told(connection, line, key)) {
        answer_as_usual(connection, command);
    }
}

void end_subscriptions(struct fake *fake)
{
    for (int i = 0; i < CONNECTIONS; i++) {
        struct connection *connection = &fake->node.scene->nodes.connections[i];

        if (connection->fake == fake && connection->subscribed) {
            end_connection(connection);
        }
    }
}

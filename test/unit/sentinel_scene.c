/* SPDX-License-Identifier: MIT */
/*
 * The scene of the sentinels' tests, see sentinel_scene.h. Independent of the tests.
 */
#include "sentinel_scene.h"
#include "skip_clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHANNEL "+switch-master"

/* ---- the sessions' events ---- */

static void on_ready(void *arg)
{
    struct guided *guided = arg;

    note(guided->scene, "%s at 127.0.0.1:%u", guided->name,
         (unsigned)guided->session.endpoint.port);
}

static void on_lost(void *arg, const char *why)
{
    struct guided *guided = arg;

    note(guided->scene, "%s lost: %s", guided->name, why);
}

/* ---- the fakes ---- */

static void put(char *out, size_t size, const char *word)
{
    size_t length = strlen(out);

    (void)snprintf(out + length, size - length, "$%zu\r\n%s\r\n", strlen(word), word);
}

static const char *run_id_of(const struct fake *server)
{
    static char id[41];

    (void)snprintf(id, sizeof(id), "%040x", 0xf0000U + server->node.port);
    return server->run_id != NULL ? server->run_id : id;
}

static void put_place(char *out, size_t size, const struct fake *fake, const char *flags)
{
    char port[8];

    (void)snprintf(port, sizeof(port), "%u", (unsigned)fake->node.port);
    put(out, size, "name");
    put(out, size, SERVICE);
    put(out, size, "ip");
    put(out, size, "127.0.0.1");
    put(out, size, "port");
    put(out, size, port);
    put(out, size, "flags");
    put(out, size, flags);
}

const char *replica(const struct fake *server, const char *run_id, const char *info_ms)
{
    static char out[1024];

    (void)snprintf(out, sizeof(out), "*1\r\n*12\r\n");
    put_place(out, sizeof(out), server, "slave");
    put(out, sizeof(out), "runid");
    put(out, sizeof(out), run_id != NULL ? run_id : run_id_of(server));
    put(out, sizeof(out), "info-refresh");
    put(out, sizeof(out), info_ms);
    return out;
}

static void say_master(struct connection *connection)
{
    const struct fake *fake = connection->fake;
    char out[1024], epoch[16], age[16];

    connection->owes = fake->mute;
    if (fake->mute) {
        return;
    }
    if (fake->raw != NULL || fake->master == NULL) {
        say(connection,
            fake->raw != NULL ? fake->raw : "-ERR No such master with that name\r\n");
        return;
    }
    (void)snprintf(out, sizeof(out), "*%d\r\n", fake->for_ms != NULL ? 18 : 14);
    put_place(out, sizeof(out), fake->master, fake->flags);
    (void)snprintf(age, sizeof(age), "%d", fake->info_ms);
    put(out, sizeof(out), "runid");
    put(out, sizeof(out),
        fake->master_id != NULL ? fake->master_id : run_id_of(fake->master));
    put(out, sizeof(out), "info-refresh");
    put(out, sizeof(out), age);
    (void)snprintf(epoch, sizeof(epoch), "%d", fake->epoch);
    put(out, sizeof(out), "config-epoch");
    put(out, sizeof(out), epoch);
    if (fake->for_ms != NULL) {
        put(out, sizeof(out), "role-reported");
        put(out, sizeof(out), "master");
        put(out, sizeof(out), "role-reported-time");
        put(out, sizeof(out), fake->for_ms);
    }
    say(connection, out);
}

/* Returns the id by which other sentinels know the one at this port. */
static const char *id_of(const struct fake *sentinel)
{
    static char id[41];

    (void)snprintf(id, sizeof(id), "%040x", (unsigned)sentinel->node.port);
    return sentinel->known_as != NULL ? sentinel->known_as : id;
}

const char *other(const struct fake *sentinel, const char *flags)
{
    static char out[1024];

    (void)snprintf(out, sizeof(out), "*10\r\n");
    put_place(out, sizeof(out), sentinel, flags);
    put(out, sizeof(out), "runid");
    put(out, sizeof(out), id_of(sentinel));
    return out;
}

static void say_id(struct connection *connection)
{
    const char *id = connection->fake->id;

    if (id != NULL && *id == '-') {
        say(connection, id);
    } else {
        say_text(connection, id != NULL ? id : id_of(connection->fake));
    }
}

static void say_info(struct connection *connection)
{
    const struct fake *fake = connection->fake;
    char info[256];

    (void)snprintf(info, sizeof(info), "run_id:%s\r\nuptime_in_seconds:%d\r\n",
                   run_id_of(fake), fake->uptime_s);
    say_text(connection, info);
}

static void subscribe(struct connection *connection)
{
    struct fake *fake = connection->fake;

    fake->subscriptions++;
    if (fake->subscription != NULL && *fake->subscription != '\0') {
        say(connection, fake->subscription);
        return;
    }
    add_subscriber(connection);
    if (fake->subscription == NULL) {
        say_channel(connection, "subscribe", CHANNEL, NULL);
    }
}

void confirm(struct fake *sentinel)
{
    sentinel->subscription = NULL;
    say_to_subscribers(sentinel, "subscribe", CHANNEL, NULL);
}

void obey(struct connection *connection, char *const words[8])
{
    struct fake *fake = connection->fake;

    if (fake->guarded && !connection->authenticated && strcmp(words[0], "AUTH") != 0) {
        say(connection, "-NOAUTH Authentication required.\r\n");
    } else if (strcmp(words[0], "SENTINEL") == 0 && strcmp(words[1], "MASTER") == 0) {
        assert_string_equal(words[2], SERVICE);
        fake->asked++;
        say_master(connection);
    } else if (strcmp(words[0], "SENTINEL") == 0 && strcmp(words[1], "MYID") == 0) {
        say_id(connection);
    } else if (strcmp(words[0], "SENTINEL") == 0 && strcmp(words[1], "REPLICAS") == 0) {
        fake->asked_for_replicas++;
        say(connection, fake->replicas != NULL ? fake->replicas : "*0\r\n");
    } else if (strcmp(words[0], "SENTINEL") == 0) {
        say(connection, fake->others != NULL ? fake->others : "*0\r\n");
    } else if (strcmp(words[0], "SUBSCRIBE") == 0) {
        subscribe(connection);
    } else if (strcmp(words[0], "ROLE") == 0) {
        say(connection, fake->role);
    } else if (strcmp(words[0], "AUTH") == 0) {
        connection->authenticated = true;
        (void)snprintf(fake->password, sizeof(fake->password), "%s", words[1]);
        say(connection, "+OK\r\n");
    } else if (strcmp(words[0], "CLIENT") == 0) {
        say(connection, strcmp(words[1], "ID") == 0 ? ":1\r\n" : "+OK\r\n");
    } else {
        say_info(connection);
    }
}

void names(struct fake *sentinel, struct fake *master, int epoch, const char *flags)
{
    sentinel->master = master;
    sentinel->epoch = epoch;
    sentinel->flags = flags;
}

void speak(struct fake *sentinel)
{
    sentinel->mute = false;
    for (int i = 0; i < CONNECTIONS; i++) {
        struct connection *connection = &sentinel->node.scene->nodes.connections[i];

        if (connection->fake == sentinel && connection->owes) {
            say_master(connection);
        }
    }
}

void announce(struct fake *sentinel, const char *text)
{
    say_to_subscribers(sentinel, "message", CHANNEL, text);
}

void announce_switch(struct fake *sentinel, const struct fake *from,
                     const struct fake *to)
{
    char text[256];

    (void)snprintf(text, sizeof(text), "%s 127.0.0.1 %u 127.0.0.1 %u", SERVICE,
                   (unsigned)from->node.port, (unsigned)to->node.port);
    announce(sentinel, text);
}

/* ---- the scene ---- */

static void stage_fakes(struct scene *scene)
{
    for (int i = 0; i < SENTINELS; i++) {
        struct fake *fake = &scene->s[i];

        add_fake(scene, fake, 'S', i + 1);
        scene->hosts[i] = (struct lw__url_host){scene->host, fake->node.port};
    }
    for (int i = 0; i < MASTERS; i++) {
        struct fake *fake = &scene->m[i];

        add_fake(scene, fake, 'M', i + 1);
        fake->uptime_s = 3600;
        fake->role = "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n";
    }
}

int scene_set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));

    assert_non_null(scene);
    nodes_set_up(scene, 2);
    skip_clock_stop();
    (void)snprintf(scene->host, sizeof(scene->host), "127.0.0.1");
    stage_fakes(scene);
    scene->config = (struct lw__session_config){
        .loop = scene->nodes.loop,
        .log = &scene->nodes.log,
        .random = &scene->nodes.random,
        .client_name = "test",
        .connect_timeout_ms = 60000,
        .request_timeout_ms = 60000,
        .backoff_min_ms = 5,
        .backoff_max_ms = 20,
    };
    scene->a = (struct guided){.scene = scene, .name = "a"};
    scene->b = (struct guided){.scene = scene, .name = "b"};
    *state = scene;
    return 0;
}

void scene_start(struct scene *scene, size_t listed)
{
    static const struct lw__session_events events = {on_ready, on_lost, NULL, NULL, NULL};

    scene->options.service = SERVICE;
    scene->options.hosts = scene->hosts;
    scene->options.host_count = listed;
    assert_int_equal(lw__sentinel_new(&scene->options, &scene->config, &scene->failovers,
                                      &scene->sentinels),
                     0);
    lw__sentinel_configure(scene->sentinels, &scene->config);
    lw__session_init(&scene->a.session, &scene->config, &events, &scene->a);
    lw__session_init(&scene->b.session, &scene->config, &events, &scene->b);
}

void go(struct scene *scene, struct guided *guided)
{
    (void)scene;
    lw__session_start(&guided->session);
}

void scene_stop(struct scene *scene)
{
    if (scene->sentinels != NULL) {
        lw__session_stop(&scene->a.session);
        lw__session_stop(&scene->b.session);
    }
    lw__sentinel_free(scene->sentinels);
    scene->sentinels = NULL;
}

int scene_tear_down(void **state)
{
    scene_stop(*state);
    nodes_tear_down(*state);
    return 0;
}

void turn(struct scene *scene, int64_t until_us)
{
    skip_clock_turn(scene->nodes.base, until_us);
}

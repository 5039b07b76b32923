/* SPDX-License-Identifier: MIT */
/*
 * trio.h's six processes. Independent of their clients.
 *
 * Usual course of the start: the servers, the gates, REPLICAOF; then the sentinels, whose
 * configuration names all of them, so that none has to be discovered.
 */
#include "trio.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define PAUSE_MS 20000
#define ASK_EVERY_MS 10
#define LONGER 3 /* longer than a second, the usual period of PING */
#define SERVERS_ADDRESS "127.0.0.3"
#define SENTINELS_ADDRESS "127.0.0.2"

/* All different: otherwise the sentinels' elections may fail several times, and each is
 * repeated only after seconds. The master counts as down as soon as the second sentinel
 * considers it so. */
static const int down_ms[TRIO] = {500, 600, 1200};

static struct {
    struct server servers[TRIO];
    struct sentinel sentinels[TRIO];
    struct proxy *gates[TRIO], *sentinel_gates[TRIO];
    char paths[TRIO][128], sockets[TRIO][128]; /* configuration; listening socket */
    char url[128];
    int leading;
    char epoch[32]; /* of the configuration since the last switch */
    bool binds;     /* this Redis has an option for the source address */
} trio;

int trio_leader(void)
{
    return trio.leading;
}

struct server *trio_server(int index)
{
    return &trio.servers[index];
}

struct server *trio_master(void)
{
    return trio_server(trio.leading);
}

struct sentinel *trio_sentinel(int index)
{
    return &trio.sentinels[index];
}

struct proxy *trio_gate(int server)
{
    return trio.gates[server];
}

struct proxy *trio_sentinel_gate(int sentinel)
{
    return trio.sentinel_gates[sentinel];
}

const char *trio_url(void)
{
    return trio.url;
}

/* ---- questions ---- */

/* Returns `yes`, after a pause if it is false: the condition sends queries to the
 * servers, which should not be done in each turn of the loop. */
static bool seldom(bool yes)
{
    if (!yes) {
        stage_run_for(ASK_EVERY_MS);
    }
    return yes;
}

/* Sends a command. Returns the reply, or NULL without one. */
static redisReply *ask(int server, const char *command)
{
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    redisContext *context = redisConnectUnix(trio.servers[server].path);
    redisReply *reply = context != NULL ? redisCommand(context, command) : NULL;

    redisFree(context);
    (void)signal(SIGPIPE, before);
    return reply;
}

long long trio_info(int server, const char *section, const char *field)
{
    char command[64], wanted[64];

    (void)snprintf(command, sizeof(command), "INFO %s", section);
    (void)snprintf(wanted, sizeof(wanted), "\n%s", field);
    redisReply *reply = ask(server, command);
    const char *at = reply != NULL && reply->str != NULL ? strstr(reply->str, wanted)
                                                         : NULL;
    long long number = at != NULL ? atoll(at + strlen(wanted)) : -1;
    freeReplyObject(reply);
    return number;
}

static bool says(int server, const char *text)
{
    redisReply *reply = ask(server, "INFO replication");
    bool yes = reply != NULL && reply->str != NULL && strstr(reply->str, text) != NULL;

    freeReplyObject(reply);
    return yes;
}

long long trio_number(int server, const char *key)
{
    char command[64];

    (void)snprintf(command, sizeof(command), "GET %s", key);
    redisReply *reply = ask(server, command);
    long long number =
        reply != NULL && reply->type == REDIS_REPLY_STRING ? atoll(reply->str) : -1;
    freeReplyObject(reply);
    return number;
}

bool trio_takes(int server, const char *command)
{
    redisReply *reply = ask(server, command);
    bool yes = reply != NULL && reply->type != REDIS_REPLY_ERROR;

    freeReplyObject(reply);
    return yes;
}

int trio_clients(int server)
{
    return proxy_count(trio.gates[server], COMMANDS) +
           proxy_count(trio.gates[server], SUBSCRIPTION);
}

/* ---- the sentinels' reports ---- */

static bool runs(int sentinel)
{
    return trio.sentinels[sentinel].pid > 0 && !trio.sentinels[sentinel].paused;
}

static bool is_told(int sentinel, const char *field, const char *text)
{
    return strcmp(sentinel_says(&trio.sentinels[sentinel], "MASTER", field), text) == 0;
}

static const char *port_of(int server)
{
    static char text[16];

    (void)snprintf(text, sizeof(text), "%d", trio.gates[server]->port);
    return text;
}

/* Returns true if the flags are those of a working `kind`. master_down is ignored: it is
 * the last known view of another sentinel, and may be outdated. Each sentinel is asked
 * for its own view anyway. */
static bool is_well(const char *flags, const char *kind)
{
    size_t length = strlen(kind);

    return strncmp(flags, kind, length) == 0 &&
           (flags[length] == '\0' || strcmp(flags + length, ",master_down") == 0);
}

/* Returns how many servers of the sentinel's list work; replicas must also follow the
 * present leader. */
static int are_well(int sentinel, const char *of, const char *kind)
{
    redisReply *reply =
        redisCommand(trio.sentinels[sentinel].admin, "SENTINEL %s " SENTINEL_SERVICE, of);
    int well = 0;

    for (size_t i = 0; reply != NULL && i < reply->elements; i++) {
        const redisReply *one = reply->element[i];
        well +=
            is_well(sentinel_field(one, "flags"), kind) &&
            (strcmp(of, "REPLICAS") != 0 ||
             (strcmp(sentinel_field(one, "master-link-status"), "ok") == 0 &&
              strcmp(sentinel_field(one, "master-port"), port_of(trio.leading)) == 0));
    }
    freeReplyObject(reply);
    return well;
}

static bool is_content(int sentinel)
{
    return is_told(sentinel, "port", port_of(trio.leading)) &&
           is_told(sentinel, "flags", "master") &&
           are_well(sentinel, "SENTINELS", "sentinel") == TRIO - 1 &&
           are_well(sentinel, "REPLICAS", "slave") == TRIO - 1;
}

static bool all_stand(void)
{
    if (!says(trio.leading, "role:master") ||
        trio_info(trio.leading, "replication", "connected_slaves:") != TRIO - 1) {
        return false;
    }
    for (int i = 0; i < TRIO; i++) {
        if ((i != trio.leading && !says(i, "master_link_status:up")) || !is_content(i)) {
            return false;
        }
    }
    return true;
}

static const char *epoch_of(int sentinel)
{
    return sentinel_says(&trio.sentinels[sentinel], "MASTER", "config-epoch");
}

static bool all_know(const char *epoch)
{
    for (int i = 0; i < TRIO; i++) {
        if (runs(i) && !is_told(i, "config-epoch", epoch)) {
            return false;
        }
    }
    return true;
}

void trio_check(void)
{
    if (!all_know(trio.epoch)) {
        (void)fprintf(stderr, "%s: the master was changed unasked: once more\n",
                      stage.test);
        stage_skip_if_lag(-1);
    }
}

/* A sentinel that has not yet heard of the last switch does not count. */
bool trio_is_as_before(void)
{
    bool known = false;

    for (int i = 0; i < TRIO; i++) {
        known = known || (runs(i) && atoll(epoch_of(i)) > atoll(trio.epoch));
    }
    return !known;
}

void trio_stand(void)
{
    UNTIL(seldom(all_stand() || !trio_is_as_before()));
    trio_check();
}

/* ---- who leads ---- */

static int told_by(int sentinel)
{
    int port = atoi(sentinel_says(&trio.sentinels[sentinel], "MASTER", "port"));

    for (int i = 0; i < TRIO; i++) {
        if (trio.gates[i]->port == port) {
            return i;
        }
    }
    return trio.leading;
}

/* Returns the new master that all running sentinels report, or -1 if they do not agree
 * yet. */
static int next_leader(void)
{
    int next = -1;

    for (int i = 0; i < TRIO; i++) {
        int told = runs(i) ? told_by(i) : next;
        if (runs(i) && (told == trio.leading || (next >= 0 && told != next))) {
            return -1;
        }
        next = told;
    }
    return next;
}

static void note_epoch(void)
{
    int speaker = 0;

    while (speaker < TRIO - 1 && !runs(speaker)) {
        speaker++;
    }
    (void)snprintf(trio.epoch, sizeof(trio.epoch), "%s", epoch_of(speaker));
}

void trio_switched(void)
{
    int next = -1;

    UNTIL(seldom((next = next_leader()) >= 0 && says(next, "role:master")));
    trio.leading = next;
    note_epoch();
    server_ask_in_place(&stage.server, trio_master());
}

static bool have_all(long long offset)
{
    for (int i = 0; i < TRIO; i++) {
        if (i != trio.leading &&
            trio_info(i, "replication", "slave_repl_offset:") < offset) {
            return false;
        }
    }
    return true;
}

void trio_agree(void)
{
    long long offset = trio_info(trio.leading, "replication", "master_repl_offset:");

    UNTIL(seldom(have_all(offset)));
}

void trio_freeze(void)
{
    char pause[64];

    (void)snprintf(pause, sizeof(pause), "CLIENT PAUSE %d WRITE", PAUSE_MS);
    freeReplyObject(ask(trio.leading, pause));
    trio_agree();
}

void trio_fail_over(int sentinel)
{
    sentinel_fail_over(&trio.sentinels[sentinel]);
}

/* ---- gates ---- */

static void hold(struct proxy *gate, enum proxy_kind kind, bool on)
{
    proxy_hold(gate, kind, TO_SERVER, on);
    proxy_hold(gate, kind, TO_CLIENT, on);
}

void trio_part_clients(struct proxy *gate, bool on)
{
    hold(gate, COMMANDS, on);
    hold(gate, SUBSCRIPTION, on);
}

void trio_part_servers(struct proxy *gate, bool on)
{
    hold(gate, SERVERS, on);
}

/* ---- sentinels ---- */

static void write_id(int sentinel, char *ret)
{
    memset(ret, 'a' + sentinel, 40);
    ret[40] = '\0';
}

static void write_known(FILE *file, int sentinel)
{
    char id[41];

    for (int i = 0; i < TRIO; i++) {
        write_id(i, id);
        if (i != trio.leading) {
            (void)fprintf(file, "sentinel known-replica %s 127.0.0.1 %d\n",
                          SENTINEL_SERVICE, trio.gates[i]->port);
        }
        if (i != sentinel) {
            (void)fprintf(file, "sentinel known-sentinel %s 127.0.0.1 %d %s\n",
                          SENTINEL_SERVICE, trio.sentinel_gates[i]->port, id);
        }
    }
}

static void write_configuration(int sentinel)
{
    FILE *file = fopen(trio.paths[sentinel], "w");
    const char *name = SENTINEL_SERVICE;
    char id[41];

    if (file == NULL) {
        stage_fail("%s: %s", trio.paths[sentinel], strerror(errno));
    }
    write_id(sentinel, id);
    (void)fprintf(file,
                  "port 0\nbind " SENTINELS_ADDRESS "\n%sunixsocket %s\ndir %s\n"
                  "logfile %s.log\nsentinel myid %s\nsentinel announce-ip 127.0.0.1\n"
                  "sentinel announce-port %d\nsentinel monitor %s 127.0.0.1 %d 2\n"
                  "sentinel down-after-milliseconds %s %d\n"
                  "sentinel failover-timeout %s 3000\n",
                  trio.binds ? "bind-source-addr " SENTINELS_ADDRESS "\n" : "",
                  trio.sockets[sentinel], stage.server.dir, trio.paths[sentinel], id,
                  trio.sentinel_gates[sentinel]->port, name,
                  trio.gates[trio.leading]->port, name,
                  down_ms[sentinel] * (trio.binds ? 1 : LONGER), name);
    write_known(file, sentinel);
    if (fclose(file) != 0) {
        stage_fail("%s: %s", trio.paths[sentinel], strerror(errno));
    }
}

/* Shortens the sentinel's periods. Redis 6.2 lacks these commands, and takes longer. The
 * first PING is sent only after one period, which is never longer than down-after. With
 * the usual period a new master counts as down for a moment, sometimes by two sentinels.
 * A replica's report is valid for five periods, and a replica is asked once a second. */
static void hurry(const struct sentinel *sentinel)
{
    freeReplyObject(redisCommand(sentinel->admin, "SENTINEL DEBUG ping-period 300"));
    freeReplyObject(redisCommand(sentinel->admin, "SENTINEL DEBUG publish-period 200"));
    freeReplyObject(redisCommand(sentinel->admin, "SENTINEL DEBUG info-period 500"));
    freeReplyObject(redisCommand(sentinel->admin, "SENTINEL DEBUG tilt-period 500"));
}

static void launch(int sentinel)
{
    sentinel_launch(&trio.sentinels[sentinel], trio.paths[sentinel],
                    trio.sockets[sentinel]);
    hurry(&trio.sentinels[sentinel]);
}

void trio_sentinels_away(bool dead)
{
    for (int i = 0; i < TRIO; i++) {
        if (dead) {
            sentinel_stop(&trio.sentinels[i]);
        } else {
            sentinel_pause(&trio.sentinels[i]);
        }
    }
}

void trio_sentinels_back(void)
{
    for (int i = 0; i < TRIO; i++) {
        if (trio.sentinels[i].pid == 0) {
            launch(i);
        } else if (trio.sentinels[i].paused) {
            sentinel_resume(&trio.sentinels[i]);
        }
    }
}

/* ---- the start ---- */

static void all_leave(bool in_good_order)
{
    (void)in_good_order;
    for (int i = 0; i < TRIO; i++) {
        sentinel_stop(&trio.sentinels[i]);
    }
    server_ask_in_place(&stage.server, &stage.server);
    for (int i = 0; i < TRIO; i++) {
        server_stop(&trio.servers[i]);
    }
}

static void start_server(int index, const char *more)
{
    char args[256];

    server_absent(&trio.servers[index]);
    trio.gates[index] = proxy_start(trio.servers[index].path, true);
    (void)snprintf(args, sizeof(args),
                   "%s " SERVERS_ADDRESS " --replica-announce-ip 127.0.0.1 "
                   "--replica-announce-port %d --repl-diskless-sync-delay 0 %s",
                   trio.binds ? "--bind-source-addr" : "--bind", trio.gates[index]->port,
                   more);
    server_run(&trio.servers[index], args);
}

static void follow(int index)
{
    freeReplyObject(server_command(&trio.servers[index], "REPLICAOF 127.0.0.1 %d",
                                   trio.gates[trio.leading]->port));
}

static void start_sentinel(int index)
{
    (void)snprintf(trio.paths[index], sizeof(trio.paths[index]), "%s/sentinel-%d",
                   stage.server.dir, index);
    (void)snprintf(trio.sockets[index], sizeof(trio.sockets[index]), "%s/sentinel-%d.s",
                   stage.server.dir, index);
    trio.sentinel_gates[index] = proxy_start(trio.sockets[index], true);
}

static bool is_in_sync(int index)
{
    return index == trio.leading || says(index, "master_link_status:up");
}

void trio_set(const char *args)
{
    bool binds = trio.binds;

    memset(&trio, 0, sizeof(trio));
    trio.binds = binds;
    stage_at_exit(all_leave);
    stage.keys_may_stay = stage.notes_may_stay = true;
    for (int i = 0; i < TRIO; i++) {
        start_server(i, args);
        start_sentinel(i);
        if (i != trio.leading) {
            follow(i);
        }
    }
    UNTIL(seldom(is_in_sync(0) && is_in_sync(1) && is_in_sync(2)));
    for (int i = 0; i < TRIO; i++) {
        write_configuration(i);
        launch(i);
    }
    (void)snprintf(trio.url, sizeof(trio.url),
                   "redis-sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/%s",
                   trio.sentinel_gates[0]->port, trio.sentinel_gates[1]->port,
                   trio.sentinel_gates[2]->port, SENTINEL_SERVICE);
    note_epoch();
    server_ask_in_place(&stage.server, trio_master());
    trio_stand();
}

int trio_open(void **state)
{
    redisReply *reply;

    stage_open(state);
    reply = server_command(&stage.server, "CONFIG GET bind-source-addr");
    trio.binds = reply->elements > 0;
    freeReplyObject(reply);
    return 0;
}

int trio_close(void **state)
{
    return stage_close(state);
}

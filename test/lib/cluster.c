/* SPDX-License-Identifier: MIT */
/*
 * cluster.h's cluster. Independent of who connects to it.
 *
 * Usual course of the start: the file in which each node stores its view of the cluster
 * lists all nodes and the owners of all slots, so that no node has to be introduced to
 * another; then they connect. (The servers themselves take two seconds: a master that has
 * just started accepts no commands.)
 */
#include "cluster.h"
#include "stage.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BUS 10000 /* a node uses its port plus this for other nodes, in every version */
#define PORT_ATTEMPTS 100
#define ASK_EVERY_MS 10
#define ORDER_EVERY_MS 6000 /* a node gives up a failover after 5 s */
#define PROMOTED_MS 20000   /* at the latest, including elections that fail before */
#define MIGRATE_MS 10000
#define KEYS_MOST 1000
#define VIEW_SIZE 8192
#define LOOPBACK "127.0.0.1"

struct node {
    struct server server;
    int port, keepers[2];     /* sockets that reserve both ports */
    bool known;               /* the others know it: it is not forgotten */
    bool parted;              /* left out by cluster_leave_out() */
    struct cluster_told told; /* announced in place of its own ports, if set */
    char id[41], address[32];
};

static struct {
    struct node nodes[CLUSTER_MOST];
    int count, masters;
    char args[160], hosts[32 * CLUSTER_MOST], url[64 + 32 * CLUSTER_MOST];
    char stood[VIEW_SIZE];  /* the owners of the slots since the last move by the test */
    bool asked;             /* a node is asked in place of the stage's server */
    cluster_teller *teller; /* NULL: all announce their own ports */
    bool binds;             /* this Redis has bind-source-addr */
    bool shards;            /* nodes' files name the shard of each node */
} cluster;
static const char *home = LOOPBACK; /* the address of all nodes */

int cluster_count(void)
{
    return cluster.count;
}

struct server *cluster_server(int node)
{
    return &cluster.nodes[node].server;
}

int cluster_port(int node)
{
    return cluster.nodes[node].port;
}

const char *cluster_address(int node)
{
    return cluster.nodes[node].address;
}

const char *cluster_id(int node)
{
    return cluster.nodes[node].id;
}

const char *cluster_hosts(void)
{
    return cluster.hosts;
}

const char *cluster_url(void)
{
    return cluster.url;
}

/* Returns the port at which the node listens for clients. */
static int own_port(const struct node *it)
{
    return it->server.tls_port != 0 ? it->server.tls_port : it->port;
}

int cluster_main_port(int node)
{
    const struct node *it = &cluster.nodes[node];

    return it->told.port != 0 ? it->told.port : own_port(it);
}

static int bus_port(int node)
{
    const struct node *it = &cluster.nodes[node];

    return it->told.bus_port != 0 ? it->told.bus_port : it->port + BUS;
}

int cluster_at(int port)
{
    for (int i = 0; i < cluster.count; i++) {
        if (cluster.nodes[i].port == port || cluster_main_port(i) == port) {
            return i;
        }
    }
    return -1;
}

/* ---- commands to nodes ---- */

/* Pauses unless the awaited condition is true: each check costs the servers some
 * commands, so it is not repeated at each turn of the loop. */
static bool seldom(bool yes)
{
    if (!yes) {
        stage_run_for(ASK_EVERY_MS);
    }
    return yes;
}

static bool answers(int node)
{
    const struct server *server = &cluster.nodes[node].server;

    return cluster.nodes[node].known && server->running && !server->paused &&
           !cluster.nodes[node].parted;
}

/* Returns the first node from `from` on that can be asked, or cluster.count. */
static int speaker(int from)
{
    while (from < cluster.count && !answers(from)) {
        from++;
    }
    return from;
}

static int any_speaker(void)
{
    int node = speaker(0);

    if (node == cluster.count) {
        stage_fail("no node of the cluster runs");
    }
    return node;
}

static bool says(int node, const char *command, const char *text)
{
    redisReply *reply = server_command(cluster_server(node), command);
    bool yes = reply->str != NULL && strstr(reply->str, text) != NULL;

    freeReplyObject(reply);
    return yes;
}

static void order(int node, const char *command)
{
    freeReplyObject(server_command(cluster_server(node), command));
}

/* ---- a node's view of the cluster ---- */

/* Copies from a line of CLUSTER NODES what all nodes can agree on, without this node's
 * own opinions and measurements. */
static size_t read_line(const char *line, char *ret, size_t size)
{
    char flags[64], master[64], link[16], slots[700] = "";
    const char *role = flags;

    if (sscanf(line, "%*s %*s %63s %63s %*s %*s %*s %15s%699[^[\n]", flags, master, link,
               slots) < 3) {
        stage_fail("CLUSTER NODES: %s", line);
    }
    if (strncmp(flags, "myself,", 7) == 0) {
        role += 7;
    }
    for (size_t end = strlen(slots); end > 0 && slots[end - 1] == ' '; end--) {
        slots[end - 1] = '\0'; /* moving slots were cut off */
    }
    return (size_t)snprintf(ret, size, "%.40s %s %s %s%s\n", line, role, master, link,
                            slots);
}

typedef size_t line_reader(const char *line, char *ret, size_t size);

static void read_nodes(int node, line_reader *read, char *ret)
{
    redisReply *reply = server_command(cluster_server(node), "CLUSTER NODES");
    char all[VIEW_SIZE], wanted[48];
    size_t used = 0;

    (void)snprintf(all, sizeof(all), "\n%s", reply->str);
    freeReplyObject(reply);
    ret[0] = '\0';
    for (int i = 0; i < cluster.count; i++) {
        (void)snprintf(wanted, sizeof(wanted), "\n%s ", cluster.nodes[i].id);
        const char *at = strstr(all, wanted);
        if (at != NULL) {
            used += read(at + 1, ret + used, VIEW_SIZE - used);
        }
    }
}

static void read_view(int node, char *ret)
{
    read_nodes(node, read_line, ret);
}

/* Copies the node's configuration epoch: of two nodes that claim a slot, the one with the
 * higher epoch has it. */
static size_t read_epoch(const char *line, char *ret, size_t size)
{
    char epoch[24] = "";

    (void)sscanf(line, "%*s %*s %*s %*s %*s %*s %23s", epoch);
    return (size_t)snprintf(ret, size, "%.40s %s\n", line, epoch);
}

static bool all_say_the_same(line_reader *read)
{
    char first[VIEW_SIZE], other[VIEW_SIZE];
    int node = any_speaker();

    read_nodes(node, read, first);
    while ((node = speaker(node + 1)) < cluster.count) {
        read_nodes(node, read, other);
        if (strcmp(first, other) != 0) {
            return false;
        }
    }
    return true;
}

static bool all_agree(void)
{
    return all_say_the_same(read_line);
}

static bool all_stand(void)
{
    for (int i = any_speaker(); i < cluster.count; i = speaker(i + 1)) {
        if (!says(i, "CLUSTER INFO", "cluster_state:ok") ||
            (says(i, "INFO replication", "role:slave") &&
             !says(i, "INFO replication", "master_link_status:up"))) {
            return false;
        }
    }
    return all_agree();
}

void cluster_stand(void)
{
    UNTIL(seldom(all_stand()));
}

/* ---- the owner of a slot ---- */

int cluster_slot(const char *key)
{
    redisReply *reply =
        server_command(cluster_server(any_speaker()), "CLUSTER KEYSLOT %s", key);
    int slot = (int)reply->integer;

    freeReplyObject(reply);
    return slot;
}

static int number_of(const char *id)
{
    for (int i = 0; i < cluster.count; i++) {
        if (strcmp(cluster.nodes[i].id, id) == 0) {
            return i;
        }
    }
    return -1;
}

int cluster_owner_by(int node, int slot)
{
    redisReply *reply = server_command(cluster_server(node), "CLUSTER SLOTS");
    int owner = -1;

    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *range = reply->element[i];
        if (range->element[0]->integer <= slot && slot <= range->element[1]->integer) {
            owner = number_of(range->element[2]->element[2]->str);
        }
    }
    freeReplyObject(reply);
    return owner;
}

/* Returns -1 if the nodes do not agree. */
static int owner_by_all(int slot)
{
    int node = any_speaker(), owner = cluster_owner_by(node, slot);

    while ((node = speaker(node + 1)) < cluster.count) {
        if (cluster_owner_by(node, slot) != owner) {
            return -1;
        }
    }
    return owner;
}

int cluster_owner(int slot)
{
    int owner = -1;

    UNTIL(seldom((owner = owner_by_all(slot)) >= 0));
    return owner;
}

void cluster_ask_owner(int slot)
{
    server_ask_in_place(&stage.server, cluster_server(cluster_owner(slot)));
    cluster.asked = true;
}

/* Writes "<node> <first>-<last>" for all ranges, according to this node. */
static void read_ranges(int node, char *ret)
{
    redisReply *reply = server_command(cluster_server(node), "CLUSTER SLOTS");
    int used = 0;

    ret[0] = '\0';
    for (int owner = 0; owner < cluster.count; owner++) {
        for (size_t i = 0; i < reply->elements && used < VIEW_SIZE - 64; i++) {
            redisReply **range = reply->element[i]->element;
            if (strcmp(range[2]->element[2]->str, cluster.nodes[owner].id) == 0) {
                used += sprintf(ret + used, "%d %lld-%lld; ", owner, range[0]->integer,
                                range[1]->integer);
            }
        }
    }
    freeReplyObject(reply);
}

static void note_ranges(void)
{
    read_ranges(any_speaker(), cluster.stood);
}

static void replaced_unasked(void)
{
    (void)fprintf(stderr, "%s: a master was replaced unasked: once more\n", stage.test);
    stage_skip_if(true);
}

void cluster_check(void)
{
    char now[VIEW_SIZE];

    read_ranges(any_speaker(), now);
    if (strcmp(now, cluster.stood) != 0) {
        replaced_unasked();
    }
}

/* ---- slots move ---- */

void cluster_begin(int slot, int to)
{
    int owner = cluster_owner(slot);

    freeReplyObject(server_command(cluster_server(to), "CLUSTER SETSLOT %d IMPORTING %s",
                                   slot, cluster.nodes[owner].id));
    freeReplyObject(server_command(cluster_server(owner),
                                   "CLUSTER SETSLOT %d MIGRATING %s", slot,
                                   cluster.nodes[to].id));
}

static void migrate(int from, int to, size_t count, redisReply *const *keys)
{
    char port[16], limit[16];
    const char *words[7 + KEYS_MOST] = {"MIGRATE", home, port, "", "0", limit, "KEYS"};
    size_t lengths[7 + KEYS_MOST];
    redisReply *reply;

    (void)snprintf(port, sizeof(port), "%d", cluster_main_port(to));
    (void)snprintf(limit, sizeof(limit), "%d", MIGRATE_MS);
    for (size_t i = 0; i < 7 + count; i++) {
        words[i] = i < 7 ? words[i] : keys[i - 7]->str;
        lengths[i] = i < 7 ? strlen(words[i]) : keys[i - 7]->len;
    }
    reply = redisCommandArgv(cluster_server(from)->admin, 7 + (int)count, words, lengths);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        stage_fail("MIGRATE: %s", reply != NULL ? reply->str : "no answer");
    }
    freeReplyObject(reply);
}

/* Returns how many keys were found. */
static size_t carry_some(int slot, int from, int to, int most)
{
    redisReply *keys =
        server_command(cluster_server(from), "CLUSTER GETKEYSINSLOT %d %d", slot, most);
    size_t count = keys->elements;

    if (count > 0) {
        migrate(from, to, count, keys->element);
    }
    freeReplyObject(keys);
    return count;
}

void cluster_carry(int slot, int to, int count)
{
    int owner = cluster_owner(slot);

    if (count >= 0) {
        (void)carry_some(slot, owner, to, count);
        return;
    }
    while (carry_some(slot, owner, to, KEYS_MOST) > 0) {
        /* until this node has no keys of the slot */
    }
}

void cluster_carry_key(const char *key, int to)
{
    redisReply one = {.str = (char *)(uintptr_t)key, .len = strlen(key)};
    redisReply *keys[] = {&one};

    migrate(cluster_owner(cluster_slot(key)), to, 1, keys);
}

/* A master that has lost its last slot may just have become a replica: its refusal is
 * fine. */
static void tell_owner(int node, int slot, int to)
{
    redisReply *reply = server_try(cluster_server(node), "CLUSTER SETSLOT %d NODE %s",
                                   slot, cluster.nodes[to].id);

    if (reply->type == REDIS_REPLY_ERROR &&
        strstr(reply->str, "only with masters") == NULL) {
        stage_fail("CLUSTER SETSLOT NODE: %s", reply->str);
    }
    freeReplyObject(reply);
}

/* All nodes must have heard of this move before the slot's next one: otherwise two nodes
 * claim it in the same epoch, and it moves back. */
void cluster_end(int slot, int to)
{
    int owner = cluster_owner(slot);

    tell_owner(to, slot, to);
    tell_owner(owner, slot, to);
    for (int i = any_speaker(); i < cluster.count; i = speaker(i + 1)) {
        tell_owner(i, slot, to);
    }
    UNTIL(seldom(owner_by_all(slot) == to && all_say_the_same(read_epoch)));
    note_ranges();
}

void cluster_move(int slot, int to)
{
    cluster_begin(slot, to);
    cluster_carry(slot, to, -1);
    cluster_end(slot, to);
}

bool cluster_move_whole(int slot, int to)
{
    redisReply *reply = server_try(cluster_server(cluster_owner(slot)),
                                   "CLUSTER MIGRATESLOTS SLOTSRANGE %d %d NODE %s", slot,
                                   slot, cluster.nodes[to].id);
    bool unknown = reply->type == REDIS_REPLY_ERROR &&
                   strstr(reply->str, "nknown subcommand") != NULL;

    if (reply->type == REDIS_REPLY_ERROR && !unknown) {
        stage_fail("CLUSTER MIGRATESLOTS: %s", reply->str);
    }
    freeReplyObject(reply);
    if (!unknown) {
        UNTIL(seldom(owner_by_all(slot) == to));
        note_ranges();
    }
    return !unknown;
}

/* ---- nodes change their roles ---- */

void cluster_fail_over(int replica, const char *how)
{
    char command[64];
    int64_t again = now_ms() + ORDER_EVERY_MS, limit;

    if (how[0] == '\0') {
        cluster_stand(); /* a master does not agree to a replica that it does not know */
    }
    (void)snprintf(command, sizeof(command), "CLUSTER FAILOVER%s%s", how[0] ? " " : "",
                   how);
    order(replica, command);
    limit = now_ms() + STAGE_WAIT_MS;
    while (!says(replica, "INFO replication", "role:master")) {
        if (now_ms() > limit) {
            stage_fail("%s: node %d is no master yet", command, replica);
        }
        stage_run_for(ASK_EVERY_MS);
        if (now_ms() > again) { /* an error is fine: it may just have become one */
            freeReplyObject(server_try(cluster_server(replica), command));
            again += ORDER_EVERY_MS;
        }
    }
}

static bool is_promoted(int node)
{
    char view[VIEW_SIZE], wanted[64];

    if (!all_stand()) {
        return false;
    }
    read_view(node, view);
    (void)snprintf(wanted, sizeof(wanted), "%s master - connected ",
                   cluster.nodes[node].id);
    return strstr(view, wanted) != NULL;
}

/* If the node has not been promoted in time, the others may have declared it down
 * although it was only slow: the test is repeated. */
void cluster_promoted(int node)
{
    int64_t late_ms = now_ms() + PROMOTED_MS;

    while (!seldom(is_promoted(node))) {
        if (now_ms() > late_ms) {
            replaced_unasked();
        }
    }
    note_ranges();
}

/* ---- the start ---- */

static void keep_ports(struct node *node)
{
    for (int attempts = 0; attempts < PORT_ATTEMPTS; attempts++) {
        int port = 0, fd = server_reserve_port(&port), bus = port + BUS;
        int other = bus < 65536 ? server_reserve_port(&bus) : -1;

        if (other >= 0) {
            node->keepers[0] = fd;
            node->keepers[1] = other;
            node->port = port;
            return;
        }
        close(fd);
    }
    stage_fail("no two ports are free");
}

static void all_leave(bool in_good_order)
{
    (void)in_good_order;
    if (cluster.asked) {
        server_ask_in_place(&stage.server, &stage.server);
    }
    for (int i = 0; i < cluster.count; i++) {
        server_stop(cluster_server(i));
        if (cluster.nodes[i].port != 0) {
            close(cluster.nodes[i].keepers[0]);
            close(cluster.nodes[i].keepers[1]);
        }
    }
    cluster.count = 0;
    home = LOOPBACK;
}

static void prepare(void)
{
    struct node *node = &cluster.nodes[cluster.count];

    *node = (struct node){.known = true};
    (void)snprintf(node->id, sizeof(node->id), "%040x", (unsigned)++cluster.count);
    server_absent(&node->server);
    keep_ports(node);
    if (cluster.teller != NULL) {
        node->told = cluster.teller(cluster.count - 1, own_port(node), node->port + BUS);
    }
    (void)snprintf(node->address, sizeof(node->address), "%s:%d", home,
                   node->told.port != 0 ? node->told.port : node->port);
}

/* A version that has shards crashes at its first SPUBLISH if a node has no shard. */
static void write_node(FILE *file, int node, int shard, const char *rest)
{
    const struct node *it = &cluster.nodes[node];

    (void)fprintf(file, "%s %s:%d@%d", it->id, home, cluster_main_port(node),
                  bus_port(node));
    if (cluster.shards) {
        (void)fprintf(file, ",,shard-id=%s", cluster.nodes[shard].id);
    }
    (void)fprintf(file, " %s\n", rest);
}

static void write_known(FILE *file, int node, bool myself)
{
    const char *me = myself ? "myself," : "";
    int masters = cluster.masters, shard = node % masters;
    char rest[128];

    if (node < masters) {
        (void)snprintf(rest, sizeof(rest), "%smaster - 0 0 %d connected %d-%d", me,
                       node + 1, CLUSTER_SLOTS * node / masters,
                       CLUSTER_SLOTS * (node + 1) / masters - 1);
    } else {
        /* epoch 0: Redis 6.2 takes this number for the replica's own epoch, and a replica
         * with the highest one gives itself no new epoch when it takes over */
        (void)snprintf(rest, sizeof(rest), "%sslave %s 0 0 0 connected", me,
                       cluster.nodes[shard].id);
    }
    write_node(file, node, shard, rest);
}

static FILE *open_file(int node, const char *name)
{
    char path[128];
    FILE *file;

    (void)snprintf(path, sizeof(path), "%s/%s", cluster_server(node)->dir, name);
    file = fopen(path, "w");
    if (file == NULL) {
        stage_fail("%s: %s", path, strerror(errno));
    }
    return file;
}

static void close_file(FILE *file)
{
    if (fclose(file) != 0) {
        stage_fail("a node's file: %s", strerror(errno));
    }
}

/* Configures TLS from the start, since nodes also use it among each other. */
static void write_tls(FILE *file, int node)
{
    const char *folder = getenv("LOCKWIRE_CERTIFICATES");

    (void)fprintf(file,
                  "tls-port %d\ncluster-port %d\ntls-cluster yes\ntls-replication yes\n"
                  "tls-auth-clients no\ntls-key-file %s/server.key\n"
                  "tls-cert-file %s/server.pem\ntls-ca-cert-file %s/ca.pem\n",
                  own_port(&cluster.nodes[node]), cluster.nodes[node].port + BUS, folder,
                  folder, folder);
}

/* Redis 6.2 has no bind-source-addr. */
static void write_told(FILE *file, int node)
{
    const struct cluster_told *told = &cluster.nodes[node].told;
    bool tls = cluster_server(node)->tls_port != 0;

    (void)fprintf(file,
                  "%s %s%s\ncluster-announce-ip 127.0.0.1\n"
                  "cluster-announce-%sport %d\ncluster-announce-bus-port %d\n",
                  cluster.binds ? "bind-source-addr" : "bind", told->from,
                  cluster.binds ? "" : " 127.0.0.1", tls ? "tls-" : "", told->port,
                  told->bus_port);
}

/* The node's files are in the folder of the link to its socket, since the server's own
 * folder is removed with its process. */
static void launch(int node)
{
    FILE *file = open_file(node, "conf");
    char args[256];

    (void)fprintf(file,
                  "port %d\nbind %s\ncluster-enabled yes\n"
                  "cluster-config-file %s/nodes\ncluster-node-timeout %d\n"
                  "repl-diskless-sync-delay 0\n",
                  cluster.nodes[node].port, home, cluster_server(node)->dir,
                  CLUSTER_TIMEOUT_MS);
    if (cluster_server(node)->tls_port != 0) {
        write_tls(file, node);
    }
    if (cluster.teller != NULL) {
        write_told(file, node);
    }
    close_file(file);
    (void)snprintf(args, sizeof(args), "--include %s/conf %s", cluster_server(node)->dir,
                   cluster.args);
    server_run(cluster_server(node), args);
}

static void list_hosts(void)
{
    const char *format = strchr(home, ':') != NULL ? "%s[%s]:%d" : "%s%s:%d";
    size_t used = 0;

    for (int i = 0; i < cluster.count; i++) {
        used += (size_t)snprintf(cluster.hosts + used, sizeof(cluster.hosts) - used,
                                 format, i > 0 ? "," : "", home, cluster_main_port(i));
    }
    (void)snprintf(cluster.url, sizeof(cluster.url), "%s://%s",
                   own_port(&cluster.nodes[0]) == cluster.nodes[0].port
                       ? "redis-cluster"
                       : "rediss-cluster",
                   cluster.hosts);
}

/* Returns true for Redis 7.0 and later. */
static bool has_binding(void)
{
    redisReply *reply = server_command(&stage.server, "CONFIG GET bind-source-addr");
    bool yes = reply->elements > 0;

    freeReplyObject(reply);
    return yes;
}

/* Returns true for Redis 7.2 and later. */
static bool has_shards(void)
{
    redisReply *reply = server_try(&stage.server, "CLUSTER MYSHARDID");
    bool yes = strstr(reply->str, "nknown subcommand") == NULL;

    freeReplyObject(reply);
    return yes;
}

bool cluster_has_places(void)
{
    redisReply *reply = server_command(cluster_server(0), "COMMAND INFO SPUBLISH");
    bool has = reply->element[0]->type == REDIS_REPLY_ARRAY;

    freeReplyObject(reply);
    return has;
}

void cluster_need_places(void)
{
    if (!cluster_has_places()) {
        (void)fprintf(stderr, "%s: skipped, this server has no sharded pub/sub\n",
                      stage.test);
        skip();
    }
}

void cluster_set_at(const char *address, int masters, const char *args)
{
    home = address;
    cluster_set(masters, 0, args);
}

void cluster_set_told(int masters, int replicas, const char *args, cluster_teller *teller)
{
    memset(&cluster, 0, sizeof(cluster));
    cluster.masters = masters;
    cluster.teller = teller;
    cluster.binds = has_binding();
    cluster.shards = has_shards();
    (void)snprintf(cluster.args, sizeof(cluster.args), "%s", args);
    stage_at_exit(all_leave);
    for (int i = 0; i < masters + replicas; i++) {
        prepare();
    }
    list_hosts();
    for (int node = 0; node < cluster.count; node++) {
        FILE *file = open_file(node, "nodes");
        for (int i = 0; i < cluster.count; i++) {
            write_known(file, i, i == node);
        }
        (void)fprintf(file, "vars currentEpoch %d lastVoteEpoch 0\n", masters);
        close_file(file);
        launch(node);
    }
    cluster_stand();
    note_ranges();
}

void cluster_set(int masters, int replicas, const char *args)
{
    cluster_set_told(masters, replicas, args, NULL);
}

/* ---- nodes that do not hear from each other ---- */

void cluster_leave_out(int node, bool on)
{
    cluster.nodes[node].parted = on;
}

bool cluster_is_down_by(int node)
{
    return says(node, "CLUSTER INFO", "cluster_state:fail");
}

bool cluster_has_failed(int by, int node)
{
    char view[VIEW_SIZE], wanted[64];

    read_view(by, view);
    (void)snprintf(wanted, sizeof(wanted), "%s master,fail ", cluster.nodes[node].id);
    return strstr(view, wanted) != NULL;
}

/* ---- nodes come and go ---- */

static bool knows_each(void)
{
    char view[VIEW_SIZE];

    for (int i = any_speaker(); i < cluster.count; i = speaker(i + 1)) {
        read_view(i, view);
        for (int of = 0; of < cluster.count; of++) {
            if (cluster.nodes[of].known && strstr(view, cluster.nodes[of].id) == NULL) {
                return false;
            }
        }
    }
    return true;
}

int cluster_add(void)
{
    int greeter = any_speaker(), node = cluster.count;
    FILE *file;

    if (node == CLUSTER_MOST) {
        stage_fail("no room for another node");
    }
    prepare();
    file = open_file(node, "nodes");
    write_node(file, node, node, "myself,master - 0 0 0 connected");
    (void)fprintf(file, "vars currentEpoch 0 lastVoteEpoch 0\n");
    close_file(file);
    launch(node);
    freeReplyObject(server_command(cluster_server(greeter), "CLUSTER MEET %s %d %d", home,
                                   cluster_main_port(node), bus_port(node)));
    UNTIL(seldom(knows_each() && all_stand()));
    list_hosts();
    return node;
}

void cluster_forget(int node)
{
    cluster.nodes[node].known = false;
    for (int i = any_speaker(); i < cluster.count; i = speaker(i + 1)) {
        freeReplyObject(server_command(cluster_server(i), "CLUSTER FORGET %s",
                                       cluster.nodes[node].id));
    }
    if (cluster_server(node)->running) {
        server_kill(cluster_server(node));
    }
    cluster_stand();
}

int cluster_add_alone(int first, int last)
{
    int node = cluster.count;
    char slots[64];
    FILE *file;

    if (node == CLUSTER_MOST) {
        stage_fail("no room for another node");
    }
    prepare();
    cluster.nodes[node].known = false;
    file = open_file(node, "nodes");
    (void)snprintf(slots, sizeof(slots), "myself,master - 0 0 1 connected %d-%d", first,
                   last);
    write_node(file, node, node, slots);
    (void)fprintf(file, "vars currentEpoch 1 lastVoteEpoch 0\n");
    close_file(file);
    launch(node);
    order(node, "CONFIG SET cluster-require-full-coverage no");
    UNTIL(seldom(!cluster_is_down_by(node)));
    return node;
}

/* SPDX-License-Identifier: MIT */
/*
 * Many failovers with lost writes, side by side: with guard_ms no two owners hold one
 * lock, without it some do. The clients without the guard are the canary: if they did not
 * overlap, the other test would prove nothing.
 *
 *     fault_campaign_guard [DEPLOYMENTS [ROUNDS]]
 *
 * A deployment is a master, its replica and two clients, each with a proxy in between. In
 * each round the replication is cut, client a is granted locks that the replica never
 * learns of, and the replica is promoted as Sentinel does it, by one transaction that
 * also ends the connections. Client b waits for each of these locks and follows at once.
 * The old master either dies before the promotion, or continues to grant locks to client
 * a until min-replicas-max-lag stops it. When client a loses a lock, it waits for the
 * lock again. In the next round the promoted server is the master, with a new replica.
 *
 * Each grant is judged as it is delivered: no other owner may have time left on the lock.
 *
 * Fails if two owners hold a lock with the guard, if none do without it, and if a request
 * is not served in the end. */
#include "guard_record.h"
#include "proxy.h"
#include "stage.h"

#include <lockwire.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define GUARD_MS 15000
#define LEASE_MIN_MS 1000
#define LEASE_MAX_MS 3000 /* the longest that the guard time allows */
#define DEPLOYMENTS_MAX 60
#define LOCKS_MAX 32
#define ROUND_LIMIT_S 120
#define LOOK_EVERY_MS 5
#define MASTER_ARGS "--min-replicas-max-lag 10 --repl-diskless-sync-delay 0"

/* Client a follows to the new master at once, a while after the promotion, or when the
 * old master refuses its request. */
enum kind { KILLED_FOLLOWED, KILLED, PARTED, KINDS };
enum phase { GRANTING, DEAD, PROMOTED, LED, DONE };

struct deployment;

/* One acquisition of a name, from its call to its end. */
struct request {
    struct deployment *deployment;
    int client, name;
    struct lw_lock *lock; /* NULL before the call and after the end */
    bool granted, over;
    int64_t release_at_ms; /* 0: held until it is lost */
};

struct deployment {
    int number, master; /* index of the server that grants locks now */
    struct server servers[2];
    struct proxy *replication, *ways[2]; /* to the master: the replica's, each client's */
    struct lw_client *clients[2];
    enum kind kind;
    enum phase phase;
    /* For each lock of the round: a's, which the failover loses, b's, and a's second. */
    struct request requests[LOCKS_MAX][3];
    int count, wanted;
    bool refused;                         /* the master accepts no more writes */
    int64_t next_ms, due_ms, promoted_ms; /* the last is 0 before the promotion */
    bool served;                          /* b was granted a lock after the promotion */
    int overlaps;                         /* in this round */
};

static struct {
    struct deployment *deployments;
    int count, rounds, round;
    bool guarded;
    int failovers, lossy, overlapped, overlaps, locks;
    int64_t shortest_ms, longest_ms; /* from a promotion to the first grant after it */
} campaign = {.count = 8, .rounds = 3};

static int64_t between(int64_t least, int64_t most)
{
    return least + random() % (most - least + 1);
}

/* ---- requests ---- */

static void acquire(struct request *request, int64_t wait_ms);

static void end_request(struct request *request)
{
    lw_lock_free(request->lock);
    request->lock = NULL;
    request->over = true;
}

static bool is_relied_on(const struct request *request)
{
    return request->granted && !request->over && lw_lock_remaining_ms(request->lock) > 0;
}

/* Returns true if client a made the request, at the old master. */
static bool is_owner(const struct request *request)
{
    return request == &request->deployment->requests[request->name][0];
}

static void judge(const struct request *granted)
{
    struct deployment *deployment = granted->deployment;

    for (int i = 0; i < 3; i++) {
        const struct request *other = &deployment->requests[granted->name][i];

        deployment->overlaps += other != granted && is_relied_on(other);
    }
}

static void note_outage(struct deployment *deployment)
{
    int64_t outage_ms = now_ms() - deployment->promoted_ms;

    if (deployment->promoted_ms == 0 || deployment->served) {
        return;
    }
    deployment->served = true;
    if (campaign.shortest_ms == 0 || outage_ms < campaign.shortest_ms) {
        campaign.shortest_ms = outage_ms;
    }
    if (outage_ms > campaign.longest_ms) {
        campaign.longest_ms = outage_ms;
    }
}

static void on_result(struct lw_lock *lock, int status, void *arg)
{
    struct request *request = arg;

    (void)lock;
    if (status != LW_OK) {
        if (is_owner(request)) {
            request->deployment->refused = true;
        } else {
            stage_complain("a waiter failed: %s", lw_strerror(status));
        }
        end_request(request);
        return;
    }
    request->granted = true;
    judge(request);
    if (request->client == 1) {
        note_outage(request->deployment);
    }
    if (!is_owner(request)) {
        request->release_at_ms = now_ms() + between(20, 200);
    }
}

static void on_lost(struct lw_lock *lock, int reason, void *arg)
{
    struct request *lost = arg;

    (void)lock, (void)reason;
    end_request(lost);
    if (is_owner(lost)) {
        acquire(&lost->deployment->requests[lost->name][2], -1);
    }
}

static void on_released(struct lw_lock *lock, int status, void *arg)
{
    (void)lock, (void)status;
    end_request(arg);
}

static void acquire(struct request *request, int64_t wait_ms)
{
    struct deployment *deployment = request->deployment;
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    char name[32];

    options.wait_ms = wait_ms;
    options.lease_ms = (uint32_t)between(LEASE_MIN_MS, LEASE_MAX_MS);
    options.lost = on_lost;
    (void)snprintf(name, sizeof(name), "lock-%d-%d", campaign.round, request->name);
    int status = lw_acquire(deployment->clients[request->client], name, &options,
                            on_result, request, &request->lock);
    if (status != LW_OK) {
        stage_complain("lw_acquire: %s", lw_strerror(status));
    }
}

/* Requests one more lock for client a. */
static void request_next(struct deployment *deployment)
{
    struct request *requests = deployment->requests[deployment->count];

    for (int i = 0; i < 3; i++) {
        requests[i] = (struct request){
            .deployment = deployment, .client = i == 1, .name = deployment->count};
    }
    deployment->count++;
    deployment->next_ms = now_ms() + (deployment->kind == PARTED ? 400 : between(5, 60));
    acquire(&requests[0], 0);
}

/* Requests more locks for client a, and for client b the locks that a was granted. */
static void step_requests(struct deployment *deployment)
{
    int last = deployment->count - 1;
    struct request *owner = last >= 0 ? &deployment->requests[last][0] : NULL;

    if (owner != NULL && !owner->granted && !owner->over) {
        return;
    }
    if (owner != NULL && owner->granted && owner[1].lock == NULL && !owner[1].over) {
        acquire(&owner[1], -1);
    }
    if (deployment->count < deployment->wanted && !deployment->refused &&
        now_ms() >= deployment->next_ms) {
        request_next(deployment);
    }
}

static void release_due(struct deployment *deployment)
{
    for (int i = 0; i < deployment->count; i++) {
        for (int j = 1; j < 3; j++) {
            struct request *request = &deployment->requests[i][j];

            if (!request->over && request->release_at_ms > 0 &&
                request->release_at_ms <= now_ms()) {
                request->release_at_ms = 0;
                request->granted = false;
                (void)lw_release(request->lock, on_released, request);
            }
        }
    }
}

/* Returns true if all requests have ended, and client a has lost all its locks. */
static bool all_over(const struct deployment *deployment)
{
    for (int i = 0; i < deployment->count; i++) {
        const struct request *requests = deployment->requests[i];

        if (!requests[0].over ||
            (requests[0].granted && (!requests[1].over || !requests[2].over))) {
            return false;
        }
    }
    return true;
}

/* ---- a failover ---- */

static struct server *master_of(struct deployment *deployment)
{
    return &deployment->servers[deployment->master];
}

static struct server *other_of(struct deployment *deployment)
{
    return &deployment->servers[!deployment->master];
}

static void hold_replication(struct deployment *deployment, bool on)
{
    proxy_hold(deployment->replication, COMMANDS, TO_SERVER, on);
    proxy_hold(deployment->replication, COMMANDS, TO_CLIENT, on);
}

/* Ends the client's connections. Its next ones lead to the master. */
static void lead(struct deployment *deployment, int client)
{
    struct proxy *way = deployment->ways[client];

    proxy_lead(way, master_of(deployment)->path, NULL);
    proxy_cut(way, COMMANDS);
    proxy_cut(way, SUBSCRIPTION);
}

/* Returns true if client a relies on a lock. The replica has none of its locks. */
static bool loses_a_lock(const struct deployment *deployment)
{
    for (int i = 0; i < deployment->count; i++) {
        if (is_relied_on(&deployment->requests[i][0])) {
            return true;
        }
    }
    return false;
}

/* Promotes the replica by the commands that Sentinel sends. */
static void promote(struct deployment *deployment)
{
    static const char *const words[] = {"MULTI", "SLAVEOF NO ONE",
                                        "CLIENT KILL TYPE normal",
                                        "CLIENT KILL TYPE pubsub", "EXEC"};

    campaign.failovers++;
    campaign.lossy += loses_a_lock(deployment);
    deployment->master = !deployment->master;
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
        freeReplyObject(server_command(master_of(deployment), words[i]));
    }
    deployment->promoted_ms = now_ms();
    deployment->due_ms = now_ms() + (deployment->kind == KILLED ? between(500, 4000) : 0);
    deployment->phase = PROMOTED;
    lead(deployment, 1);
}

/* Ends the old master, if it runs. Client a follows to the new one. */
static void end_old_master(struct deployment *deployment)
{
    if (other_of(deployment)->running) {
        server_kill(other_of(deployment));
    }
    proxy_cut(deployment->replication, COMMANDS);
    hold_replication(deployment, false);
    lead(deployment, 0);
    deployment->phase = LED;
}

static bool is_last(const struct deployment *deployment)
{
    return deployment->count == deployment->wanted;
}

static void step_granting(struct deployment *deployment)
{
    step_requests(deployment);
    if (deployment->kind == PARTED) {
        if (now_ms() >= deployment->due_ms) {
            promote(deployment);
        }
        return;
    }
    if ((is_last(deployment) || deployment->refused) &&
        (deployment->requests[deployment->count - 1][1].lock != NULL ||
         deployment->requests[deployment->count - 1][0].over)) {
        server_kill(master_of(deployment));
        deployment->due_ms = now_ms() + between(0, 800);
        deployment->phase = DEAD;
    }
}

static void step(struct deployment *deployment)
{
    release_due(deployment);
    switch (deployment->phase) {
    case GRANTING:
        step_granting(deployment);
        break;
    case DEAD:
        if (now_ms() >= deployment->due_ms) {
            promote(deployment);
        }
        break;
    case PROMOTED:
        step_requests(deployment);
        if (deployment->kind == PARTED ? deployment->refused || is_last(deployment)
                                       : now_ms() >= deployment->due_ms) {
            end_old_master(deployment);
        }
        break;
    case LED:
        step_requests(deployment);
        if (all_over(deployment)) {
            deployment->phase = DONE;
        }
        break;
    default:
        break;
    }
}

/* ---- rounds ---- */

static bool says(struct server *server, const char *text)
{
    redisReply *reply = server_command(server, "INFO replication");
    bool yes = strstr(reply->str, text) != NULL;

    freeReplyObject(reply);
    return yes;
}

/* Returns true if the replica's last acknowledgement came within about a second. */
static bool is_recent(struct server *master)
{
    redisReply *reply = server_command(master, "INFO replication");
    const char *lag = strstr(reply->str, ",lag=");
    bool yes = lag != NULL && atoi(lag + strlen(",lag=")) <= 1;

    freeReplyObject(reply);
    return yes;
}

/* Returns true if the replica is up and has acknowledged recently. */
static bool is_in_step(struct deployment *deployment)
{
    return says(other_of(deployment), "master_link_status:up") &&
           says(master_of(deployment), "state=online,offset=") &&
           is_recent(master_of(deployment));
}

static void attach_replica(struct deployment *deployment)
{
    proxy_lead(deployment->replication, master_of(deployment)->path, NULL);
    freeReplyObject(server_command(other_of(deployment), "REPLICAOF 127.0.0.1 %d",
                                   deployment->replication->port));
}

static bool are_linked(const struct deployment *deployment)
{
    for (int i = 0; i < 2; i++) {
        struct lw_stats stats = LW_STATS_INIT;

        if (lw_client_stats(deployment->clients[i], &stats) != LW_OK || !stats.link_up ||
            stats.guard_left_ms != 0) {
            return false;
        }
    }
    return true;
}

static bool is_ready(struct deployment *deployment)
{
    return is_in_step(deployment) && are_linked(deployment);
}

/* Cuts the replication. */
static void begin_failover(struct deployment *deployment)
{
    deployment->kind = (enum kind)((deployment->number + campaign.round) % KINDS);
    deployment->phase = GRANTING;
    deployment->count = deployment->overlaps = 0;
    deployment->refused = deployment->served = false;
    deployment->wanted = deployment->kind == PARTED ? LOCKS_MAX : (int)between(2, 6);
    deployment->next_ms = deployment->promoted_ms = 0;
    /* By then the gate holds back an acknowledgement of the replica, and so also the end
     * of the connection behind it. The old master notices only the replica's silence. */
    deployment->due_ms = now_ms() + between(1200, 3500);
    /* The server that is promoted has no replica until the next round. */
    freeReplyObject(
        server_command(master_of(deployment), "CONFIG SET min-replicas-to-write 1"));
    hold_replication(deployment, true);
    request_next(deployment);
}

static void end_failover(struct deployment *deployment)
{
    campaign.overlapped += deployment->overlaps > 0;
    campaign.overlaps += deployment->overlaps;
    campaign.locks += deployment->count;
    if (campaign.guarded && deployment->overlaps > 0) {
        (void)fprintf(stderr, "deployment %d, round %d: %d overlaps\n",
                      deployment->number, campaign.round, deployment->overlaps);
    }
}

#define UNTIL_ROUND(condition)                                                           \
    do {                                                                                 \
        for (int64_t limit_ms = now_ms() + ROUND_LIMIT_S * 1000; !(condition);) {        \
            if (now_ms() > limit_ms) {                                                   \
                stage_fail("round %d: waited %d s for: " #condition, campaign.round,     \
                           ROUND_LIMIT_S);                                               \
            }                                                                            \
            stage_run_for(LOOK_EVERY_MS);                                                \
        }                                                                                \
    } while (0)

static bool step_all(void)
{
    bool done = true;

    for (int i = 0; i < campaign.count; i++) {
        step(&campaign.deployments[i]);
        done = done && campaign.deployments[i].phase == DONE;
    }
    return done;
}

static void play_round(void)
{
    (void)alarm(3 * ROUND_LIMIT_S);
    for (int i = 0; i < campaign.count; i++) {
        UNTIL_ROUND(is_ready(&campaign.deployments[i]));
    }
    for (int i = 0; i < campaign.count; i++) {
        begin_failover(&campaign.deployments[i]);
    }
    UNTIL_ROUND(step_all());
    for (int i = 0; i < campaign.count; i++) {
        end_failover(&campaign.deployments[i]);
    }
    (void)fprintf(stderr,
                  "%s: %d failovers, %d that lost held locks, %d with two owners\n",
                  stage.test, campaign.failovers, campaign.lossy, campaign.overlapped);
}

static void bring_back(struct deployment *deployment)
{
    server_restart(other_of(deployment));
    attach_replica(deployment);
    stage_run_for(LOOK_EVERY_MS);
}

/* ---- the scene ---- */

static void on_log(int level, const char *message, void *arg)
{
    (void)level, (void)message, (void)arg;
}

static void start_client(struct deployment *deployment, int index)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;

    options.local_turns = 1;
    options.guard_ms = campaign.guarded ? GUARD_MS : LW_GUARD_NONE;
    options.backoff_min_ms = 10;
    options.backoff_max_ms = 200;
    options.request_timeout_ms = options.connect_timeout_ms = 3000;
    options.log = on_log;
    deployment->ways[index] = proxy_start(master_of(deployment)->path, false);
    int status = lw_client_new(stage.base, deployment->ways[index]->url, &options,
                               &deployment->clients[index]);
    if (status != LW_OK) {
        stage_fail("lw_client_new: %s", lw_strerror(status));
    }
}

static void start_deployment(struct deployment *deployment, int number)
{
    deployment->number = number;
    server_start(&deployment->servers[0], MASTER_ARGS);
    server_start(&deployment->servers[1], MASTER_ARGS);
    deployment->replication = proxy_start(master_of(deployment)->path, true);
    attach_replica(deployment);
    guard_record_open_in(master_of(deployment), GUARD_MS, 0); /* as if long up */
    start_client(deployment, 0);
    start_client(deployment, 1);
    stage_run_for(LOOK_EVERY_MS);
}

static void all_leave(bool orderly)
{
    (void)orderly;
    for (int at = 0; at < campaign.count; at++) {
        struct deployment *deployment = &campaign.deployments[at];

        lw_client_free(deployment->clients[0]);
        lw_client_free(deployment->clients[1]);
        for (int i = 0; i < deployment->count; i++) {
            for (int j = 0; j < 3; j++) {
                lw_lock_free(deployment->requests[i][j].lock);
            }
        }
        server_stop(&deployment->servers[0]);
        server_stop(&deployment->servers[1]);
    }
    free(campaign.deployments);
    campaign.deployments = NULL;
}

static void play(bool guarded)
{
    int count = campaign.count, rounds = campaign.rounds;

    memset(&campaign, 0, sizeof(campaign));
    campaign.count = count;
    campaign.rounds = rounds;
    campaign.guarded = guarded;
    campaign.deployments = calloc((size_t)count, sizeof(*campaign.deployments));
    if (campaign.deployments == NULL) {
        stage_fail("calloc");
    }
    stage_at_exit(all_leave);
    for (int i = 0; i < count; i++) {
        start_deployment(&campaign.deployments[i], i);
    }
    for (; campaign.round < rounds; campaign.round++) {
        for (int i = 0; campaign.round > 0 && i < count; i++) {
            bring_back(&campaign.deployments[i]);
        }
        play_round();
    }
    (void)fprintf(
        stderr,
        "%s: %d locks in %d failovers, %d of which lost held locks; %d failovers "
        "with two owners, %d overlaps; first grant %.2f to %.2f s after the "
        "promotion\n",
        stage.test, campaign.locks, campaign.failovers, campaign.lossy,
        campaign.overlapped, campaign.overlaps, (double)campaign.shortest_ms / 1000,
        (double)campaign.longest_ms / 1000);
    assert_true(campaign.lossy > 0);
}

static void campaign_guard__with_it_no_lock_has_two_owners(void **state)
{
    (void)state;
    play(true);
    assert_int_equal(campaign.overlaps, 0);
}

static void campaign_guard__without_it_some_have(void **state)
{
    (void)state;
    play(false);
    assert_true(campaign.overlaps > 0);
}

static int number(const char *text, int most)
{
    char *end;
    long value = strtol(text, &end, 10);

    if (*end != '\0' || value < 1 || value > most) {
        (void)fprintf(stderr, "'%s' is not a number from 1 to %d\n", text, most);
        exit(64);
    }
    return (int)value;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(campaign_guard__without_it_some_have),
        STAGE_TEST(campaign_guard__with_it_no_lock_has_two_owners),
    };
    struct rlimit files;

    if (argc > 1) {
        campaign.count = number(argv[1], DEPLOYMENTS_MAX);
    }
    if (argc > 2) {
        campaign.rounds = number(argv[2], 1000);
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    srandom((unsigned)now_ms());
    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/* life_steps.h's steps, and the checks in each callback. */
#include "life_steps.h"
#include "allocator.h"
#include "stage.h"

#include <stdio.h>
#include <string.h>

#define PLAYERS 16
#define LEASE_MS 400
#define LONG_LEASE_MS 10000 /* if all must go well, on a slow machine as well */
#define BRIEF_LEASE_MS 100  /* of a lock that is not renewed */
#define BRIEF_LONG_MS 3000  /* the same, if all must go well */
#define SETTLED_MS 3000     /* the limit for life_is_settled */

static struct {
    struct event_base *base;
    struct event *tick;
    struct lw_client *clients[2];
    struct player players[PLAYERS];
    bool up[2];                   /* the clients' links */
    int count, closed, inquiries; /* closed, inquiries: callbacks outstanding */
    int good;
} life;
int life_calls;
void (*life_meanwhile)(const char *name, enum life_moment moment);
bool (*life_is_settled)(const char *name);
bool life_polls;
void (*life_deletes)(const char *key);
void (*life_granted)(const char *name);
struct life_tls life_tls;
int64_t step_wait_ms;

void step_counts(bool good)
{
    life.good += good;
}

static void answered(int status)
{
    step_counts(status == LW_OK || status == LW_STILLHELD);
}

static void called(int status)
{
    life_calls++;
    if (status != LW_OK && status != LW_ENOMEM) {
        stage_fail("a call was refused: %s", lw_strerror(status));
    }
}

/* ---- callbacks ---- */

static bool excludes(const struct player *one, const struct player *other)
{
    return strcmp(one->name, other->name) == 0 && !(one->reads && other->reads) &&
           !(one->owner != NULL && other->owner != NULL &&
             strcmp(one->owner, other->owner) == 0);
}

static void check_alone(const struct player *me)
{
    for (int i = 0; i < life.count; i++) {
        const struct player *other = &life.players[i];
        if (other != me && other->lock != NULL && excludes(me, other) &&
            lw_lock_state(other->lock) == LW_HELD &&
            lw_lock_remaining_ms(other->lock) > 0) {
            stage_complain("I1: two hold %s", me->name);
        }
    }
}

/* Calls the function, if it is not NULL, while no allocation fails or counts. */
static void call_paused(void (*function)(const char *name), const char *name)
{
    bool armed = allocator_pause();

    if (function != NULL) {
        function(name);
    }
    allocator_resume(armed);
}

static void on_result(struct lw_lock *lock, int status, void *arg)
{
    struct player *player = arg;

    if (lock != player->lock || player->result != PENDING) {
        stage_complain("rule 2: a second result");
    }
    player->result = status;
    if (status == LW_OK) {
        check_alone(player);
        call_paused(life_granted, player->name);
    }
    answered(status);
}

static void on_lost(struct lw_lock *lock, int reason, void *arg)
{
    struct player *player = arg;

    if (lock != player->lock || player->lost != PENDING || player->result != LW_OK) {
        stage_complain("rule 6: lost out of place");
    }
    player->lost = reason;
}

static void on_risk(struct lw_lock *lock, int at_risk, int64_t remaining_ms, void *arg)
{
    struct player *player = arg;

    if (lock != player->lock || player->lost != PENDING || player->result != LW_OK ||
        at_risk == player->at_risk || remaining_ms < 0) {
        stage_complain("a warning out of place");
    }
    player->at_risk = at_risk;
}

static void on_released(struct lw_lock *lock, int status, void *arg)
{
    struct player *player = arg;

    if (lock != player->lock || player->released != PENDING) {
        stage_complain("rule 2: released twice");
    }
    player->released = status;
    answered(status);
}

static void on_renewed(struct lw_lock *lock, int status, void *arg)
{
    struct player *player = arg;

    if (lock != player->lock || player->renewals-- <= 0) {
        stage_complain("rule 2: renewed twice");
    }
    answered(status);
}

static void on_inspected(struct lw_client *client, int status,
                         const struct lw_inspection *found, const char *why, void *arg)
{
    (void)client, (void)found, (void)why, (void)arg;
    if (life.inquiries-- <= 0) {
        stage_complain("rule 2: inspected twice");
    }
    answered(status);
}

static void on_broken(struct lw_client *client, int status, const char *why, void *arg)
{
    on_inspected(client, status, NULL, why, arg);
}

static void on_yielded(struct lw_client *client, int status, size_t holders,
                       size_t reached, const char *why, void *arg)
{
    (void)holders, (void)reached;
    on_inspected(client, status, NULL, why, arg);
}

/* A holder that is asked keeps its lock. */
static void on_asked(struct lw_lock *lock, void *arg)
{
    (void)arg;
    if (lw_lock_state(lock) != LW_HELD) {
        stage_complain("asked to yield in state %d", (int)lw_lock_state(lock));
    }
}

static int on_found(struct lw_client *client, const struct lw_inspection *found,
                    const struct lw_listing *listing, void *arg)
{
    (void)client, (void)found, (void)listing, (void)arg;
    return 0;
}

static void on_listed(struct lw_client *client, int status,
                      const struct lw_listing *listing, const char *why, void *arg)
{
    (void)listing;
    on_inspected(client, status, NULL, why, arg);
}

static void on_closed(struct lw_client *client, void *arg)
{
    (void)client, (void)arg;
    if (life.closed-- <= 0) {
        stage_complain("rule 7: closed twice");
    }
    answered(LW_OK);
}

static void on_link(struct lw_client *client, int up, const char *why, void *arg)
{
    (void)client;
    *(bool *)arg = up;
    if (!up && why != NULL && life_tls.judge != NULL) {
        life_tls.judge(LW_OK, why);
    }
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg;
}

/* ---- waiting ---- */

#define AWAIT(condition)                                                                 \
    do {                                                                                 \
        for (int64_t limit_ = now_ms() + STAGE_WAIT_MS; !(condition);) {                 \
            turn(limit_, #condition);                                                    \
        }                                                                                \
    } while (0)

static void turn(int64_t limit_ms, const char *awaited)
{
    if (event_base_loop(life.base, EVLOOP_ONCE) < 0) {
        stage_fail("event_base_loop");
    }
    if (stage.broken) {
        stage_fail("%s", stage.complaint);
    }
    if (now_ms() > limit_ms) {
        stage_fail("waited for %s", awaited);
    }
}

static bool redis_has(const char *command, const char *key)
{
    char line[64];

    bool armed = allocator_pause();
    (void)snprintf(line, sizeof(line), "%s %s", command, key);
    bool has = redis_int(line, NULL) > 0;
    allocator_resume(armed);
    return has;
}

static bool is_listened_to(const char *channel)
{
    bool armed = allocator_pause();
    bool is = redis_int("EVAL %s 0 %s",
                        "return redis.call('PUBSUB', 'NUMSUB', ARGV[1])[2]", channel) > 0;
    allocator_resume(armed);
    return is;
}

static bool is_settled(const char *name)
{
    bool armed = allocator_pause();
    bool is = life_is_settled(name);

    allocator_resume(armed);
    return is;
}

/* A quorum grants a lock before all its servers have replied. A vote that is on its way
 * when the keys are deleted is granted after that, and then its loss is noticed only when
 * it is renewed. */
static void await_all_votes(const char *name)
{
    int64_t patience = now_ms() + SETTLED_MS;

    if (life_deletes != NULL && step_wait_ms > LEASE_MS) {
        AWAIT(now_ms() > patience || is_settled(name));
    }
}

void step_delete(const char *key)
{
    (void)redis_has("DEL", key);
    call_paused(life_deletes, key);
}

static bool holds(const struct player *player)
{
    return player->lock != NULL && lw_lock_state(player->lock) == LW_HELD;
}

/* ---- the steps ---- */

static uint32_t lease_ms(bool brief)
{
    if (step_wait_ms > LEASE_MS) {
        return brief ? BRIEF_LONG_MS : LONG_LEASE_MS;
    }
    return brief ? BRIEF_LEASE_MS : LEASE_MS;
}

/* Adopts the lock if `token` is not NULL, else requests it. */
static struct player *request(int client, const char *name, const char *token,
                              struct lw_acquire_options options)
{
    struct player *player = &life.players[life.count++];

    *player = (struct player){.name = name,
                              .owner = options.owner,
                              .reads = options.mode == LW_SHARED && !options.permits,
                              .result = PENDING,
                              .lost = PENDING,
                              .released = PENDING};
    options.lost = on_lost;
    options.at_risk = on_risk;
    options.lease_ms = lease_ms(options.flags & LW_NO_RENEW);
    if (life.clients[client] == NULL) {
        return player;
    }
    called(token != NULL ? lw_adopt(life.clients[client], name, token, &options,
                                    on_result, player, &player->lock)
                         : lw_acquire(life.clients[client], name, &options, on_result,
                                      player, &player->lock));
    return player;
}

struct player *step_ask(int client, const char *name, struct lw_acquire_options options)
{
    return request(client, name, NULL, options);
}

void step_await_result(const struct player *player)
{
    AWAIT(player->lock == NULL || player->result != PENDING);
}

void step_await_queued(const struct player *player, const char *queue)
{
    AWAIT(player->lock == NULL || player->result != PENDING || life_polls ||
          redis_has("ZCARD", queue));
}

void step_await_listener(const struct player *player, const char *channel)
{
    AWAIT(player->lock == NULL || player->result != PENDING || is_listened_to(channel));
}

/* Also ends if the key exists: then the lock was acquired again before the loss was
 * noticed. At a quorum one server's key proves little; in an undisturbed life the loss is
 * certain. */
void step_await_loss(const struct player *player, const char *key)
{
    bool certain = life_deletes != NULL && step_wait_ms > LEASE_MS;

    AWAIT(!holds(player) || (!certain && redis_has("EXISTS", key)));
}

void step_await_risk(const struct player *player)
{
    AWAIT(!holds(player) || player->at_risk);
}

void step_renew(struct player *player)
{
    int status;

    if (!holds(player)) {
        return;
    }
    player->renewals++;
    status = lw_renew(player->lock, 0, on_renewed, player);
    called(status);
    if (status != LW_OK) {
        player->renewals--;
    }
    AWAIT(player->renewals == 0);
}

/* The release of a held lock cannot fail, since it needs no memory. */
void step_release(struct player *player)
{
    if (!holds(player)) {
        return;
    }
    life_calls++;
    if (lw_release(player->lock, on_released, player) != LW_OK) {
        stage_fail("a release was refused");
    }
    AWAIT(player->released != PENDING);
}

/* A detach needs no memory either; the text of a token does. */
struct player *step_detach_and_adopt(struct player *player, int client,
                                     struct lw_acquire_options options)
{
    char token[96] = "";

    if (!holds(player)) {
        return NULL;
    }
    (void)snprintf(token, sizeof(token), "%s", lw_lock_token(player->lock));
    life_calls++;
    if (lw_detach(player->lock, lease_ms(false), on_released, player) != LW_OK) {
        stage_fail("a detach was refused");
    }
    AWAIT(player->released != PENDING);
    return *token ? request(client, player->name, token, options) : NULL;
}

void step_await_end(const char *key)
{
    AWAIT(!redis_has("EXISTS", key));
}

void step_drop(struct player *player)
{
    struct lw_lock *lock = player->lock;

    player->lock = NULL;
    lw_lock_free(lock);
}

struct turns {
    int gained, lost;
};

static void on_kept(struct lw_keep *keep, int status, void *arg)
{
    struct turns *turns = arg;

    if (status == LW_OK) {
        turns->gained++;
        step_counts(lw_lock_fence(lw_keep_lock(keep)) > 0);
    } else {
        turns->lost++;
    }
    if (turns->gained - turns->lost != (status == LW_OK)) {
        stage_complain("gained and lost out of turn");
    }
}

void step_keep(int client, const char *name, struct lw_acquire_options options)
{
    struct turns turns = {0, 0};
    struct lw_keep *keep = NULL;

    options.lease_ms = step_wait_ms > LEASE_MS ? LONG_LEASE_MS : LEASE_MS;
    options.wait_ms = -1;
    if (life.clients[client] == NULL) {
        return;
    }
    called(lw_keep_new(life.clients[client], name, &options, on_kept, on_kept, &turns,
                       &keep));
    step_counts(keep != NULL);
    AWAIT(keep == NULL || turns.gained > 0 || allocator_is_empty());
    if (turns.gained > 0) {
        await_all_votes(name);
        step_delete(name);
        (void)lw_renew(lw_keep_lock(keep), 0, NULL, NULL);
    }
    AWAIT(keep == NULL || turns.gained > 1 || allocator_is_empty());
    life_calls += 2;
    lw_keep_free(keep);
}

struct several {
    struct lw_all *all;
    int result, lost, released;
};

static void on_all_result(struct lw_all *all, int status, void *arg)
{
    struct several *several = arg;

    if (several->result != PENDING || all != several->all) {
        stage_complain("rule 2: a second result of several");
    }
    several->result = status;
    answered(status);
}

static void on_all_lost(struct lw_all *all, int reason, void *arg)
{
    struct several *several = arg;

    if (several->result != LW_OK || several->lost != PENDING || all != several->all) {
        stage_complain("rule 6: several lost out of place");
    }
    several->lost = reason;
}

static void on_all_released(struct lw_all *all, int status, void *arg)
{
    struct several *several = arg;

    if (several->released != PENDING || all != several->all) {
        stage_complain("rule 2: several released twice");
    }
    several->released = status;
    answered(status);
}

static bool acquire_several(int client, struct several *several)
{
    static const char *const names[] = {"n3", "n1", "n2"};
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;

    *several = (struct several){NULL, PENDING, PENDING, PENDING};
    options.lease_ms = lease_ms(false);
    options.wait_ms = step_wait_ms;
    if (life.clients[client] == NULL) {
        return false;
    }
    called(lw_acquire_all(life.clients[client], names, 3, &options, on_all_result,
                          on_all_lost, several, &several->all));
    return several->all != NULL;
}

void step_several(int client, struct player *holder)
{
    struct several several;

    if (acquire_several(client, &several)) {
        AWAIT(several.result != PENDING || life_polls ||
              redis_has("ZCARD", "lockwire:2:queue:{n2}"));
        step_release(holder);
        AWAIT(several.result != PENDING);
        if (several.result == LW_OK) {
            life_calls++;
            if (lw_all_release(several.all, on_all_released, &several) != LW_OK) {
                stage_fail("a release of several was refused");
            }
            AWAIT(several.released != PENDING);
        }
        lw_all_free(several.all);
    }
    if (acquire_several(client, &several)) {
        AWAIT(several.result != PENDING);
        if (several.result == LW_OK) {
            step_delete("n1");
            (void)lw_renew(lw_all_lock(several.all, 1), 0, NULL, NULL);
            AWAIT(several.lost != PENDING);
        }
        lw_all_free(several.all);
    }
}

void step_meanwhile(const char *name, enum life_moment moment)
{
    bool armed = allocator_pause();

    if (life_meanwhile != NULL) {
        life_meanwhile(name, moment);
    }
    allocator_resume(armed);
}

void step_await_settled(const struct player *player)
{
    int64_t patience = now_ms() + SETTLED_MS;
    bool settled = false;

    AWAIT(!holds(player) || now_ms() > patience || (settled = is_settled(player->name)));
    life_calls++;
    step_counts(settled);
}

/* The server reports the loss, or a renewal discovers it. */
void step_lose(struct player *player, const char *key)
{
    if (holds(player)) {
        await_all_votes(key);
    }
    step_delete(key);
    step_renew(player);
    step_await_loss(player, key);
    step_counts(player->lost == LW_ENOTHELD);
}

void step_look_and_break(int index, const char *name)
{
    struct lw_client *client = life.clients[index];
    int64_t patience = now_ms() + step_wait_ms;

    /* Unlike a lock, an inquiry waits for no link; without memory there may never be
     * one. */
    AWAIT(client == NULL || life.up[index] || now_ms() > patience);
    for (int i = 0; client != NULL && i < 4; i++) {
        int status = i == 0   ? lw_inspect(client, name, on_inspected, NULL)
                     : i == 1 ? lw_list(client, "*", on_found, on_listed, NULL)
                     : i == 2 ? lw_ask_to_yield(client, name, on_yielded, NULL)
                              : lw_break(client, name, NULL, on_broken, NULL);
        called(status);
        life.inquiries += status == LW_OK;
        AWAIT(life.inquiries == 0);
    }
}

static struct lw_watcher *watch;
static int watched; /* its callbacks */

static void on_changed(struct lw_watcher *of, int status, const struct lw_inspection *now,
                       const char *why, void *arg)
{
    (void)why, (void)arg;
    if (of != watch || (status == LW_OK) != (now != NULL)) {
        stage_complain("a watch's callback out of place");
    }
    if (watched++ == 0) {
        answered(status);
    }
}

void step_watch(int index, const char *name)
{
    struct lw_watch_options options = LW_WATCH_OPTIONS_INIT;

    options.interval_ms = 10;
    options.every_look = 1;
    watched = 0;
    if (life.clients[index] != NULL) {
        called(lw_watch(life.clients[index], name, &options, on_changed, NULL, &watch));
    }
}

void step_end_watch(void)
{
    int64_t patience = now_ms() + step_wait_ms;

    AWAIT(watch == NULL || watched > 0 || now_ms() > patience);
    lw_watcher_free(watch);
    watch = NULL;
}

/* The server accepts any password of this user. */
static int on_credentials(struct lw_client *client, struct lw_credentials *ret, void *arg)
{
    (void)client;
    (void)arg;
    (void)snprintf(ret->username, sizeof(ret->username), "default");
    (void)snprintf(ret->password, sizeof(ret->password), "any");
    return LW_OK;
}

void step_connect_client(int i, const char *url)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;

    options.tls_ca = life_tls.ca;
    options.tls_cert = life_tls.cert;
    options.tls_key = life_tls.key;
    options.backoff_min_ms = 1;
    options.backoff_max_ms = 8;
    if (strstr(url, "-sentinel://") != NULL || strstr(url, "-cluster://") != NULL) {
        options.address_map = "nowhere.invalid=localhost"; /* for its allocations */
    }
    /* Without memory, requests and connections end only by these time-outs. */
    options.request_timeout_ms = options.connect_timeout_ms = 3 * (uint32_t)step_wait_ms;
    if (strstr(url, "-quorum://") != NULL && options.request_timeout_ms > 15000) {
        options.request_timeout_ms = 15000; /* guard_ms limits the leases by it */
    }
    options.close_timeout_ms = (uint32_t)step_wait_ms;
    options.claim_ms = 200;
    options.link = on_link;
    options.asked_to_yield = on_asked;
    options.arg = &life.up[i];
    options.credentials = i == 1 ? on_credentials : NULL;
    called(lw_client_new(life.base, url, &options, &life.clients[i]));
    step_counts(life.clients[i] != NULL);
}

void step_connect(const char *url)
{
    step_connect_client(0, url);
    step_connect_client(1, url);
}

void step_close(void)
{
    for (int i = 0; i < 2; i++) {
        if (life.clients[i] == NULL) {
            continue;
        }
        life_calls++;
        life.closed++;
        if (lw_client_close(life.clients[i], on_closed, NULL) != LW_OK) {
            stage_fail("a close was refused");
        }
    }
    AWAIT(life.closed == 0);
    for (int i = 0; i < 2; i++) {
        lw_client_free(life.clients[i]);
        life.clients[i] = NULL;
    }
}

void step_begin(int64_t wait_ms)
{
    memset(&life, 0, sizeof(life));
    step_wait_ms = wait_ms;
    life_calls = 0;
    bool armed = allocator_pause(); /* the base belongs to the host program */
    life.base = event_base_new();
    life.tick = event_new(life.base, -1, EV_PERSIST, on_tick, NULL);
    if (life.tick == NULL || event_add(life.tick, &(struct timeval){0, 5000}) < 0) {
        stage_fail("event_base_new");
    }
    allocator_resume(armed);
}

int step_end(void)
{
    event_free(life.tick);
    event_base_free(life.base);
    return life.good;
}

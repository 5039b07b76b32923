/* SPDX-License-Identifier: MIT */
/*
 * players.h's clients and handles: the callbacks with the rules that every one must keep,
 * and the calls. Must not know which test plays.
 *
 * Happy path: ask_with notes the call, on_result finds it open, writes the trace.
 */
#include "players.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct peer *peers;
struct hold *holds;
static int in_call; /* an API function is running */

const char *status_name(int status)
{
    switch (status) {
#define NAME(name, value, text)                                                          \
    case name:                                                                           \
        return &#name[3];
        LW_ERROR_MAP(NAME)
#undef NAME
    default:
        return "?";
    }
}

const char *queue_of(const char *name)
{
    static char key[600];

    snprintf(key, sizeof(key), "lockwire:2:queue:{%s}", name);
    return key;
}

/* ---- the callbacks ---- */

/* What holds for each of them. */
static bool is_fair(const struct hold *hold, const struct lw_lock *lock, const char *what)
{
    if (in_call)
        stage_complain("rule 1: %s %s came inside a call", hold->label, what);
    else if (!hold->lock)
        stage_complain("rule 3: %s %s came after lw_lock_free", hold->label, what);
    else if (hold->lock != lock)
        stage_complain("%s %s came with another handle", hold->label, what);
    else if (!hold->peer->client)
        stage_complain("rule 7: %s %s came after lw_client_free", hold->label, what);
    else
        return true;
    return false;
}

static void on_result(struct lw_lock *lock, int status, void *arg)
{
    struct hold *hold = arg;

    if (!is_fair(hold, lock, "result"))
        return;
    if (hold->result != PENDING)
        stage_complain("rule 2: %s got a second result", hold->label);
    hold->result = status;
    hold->result_ms = now_ms();
    hold->fence = lw_lock_fence(lock);
    stage_note("%s %s", hold->label, status == LW_OK ? "granted" : status_name(status));
    if (lw_lock_state(lock) != (status == LW_OK ? LW_HELD : LW_DONE))
        stage_complain("rule 5: %s is in state %d at its result %s", hold->label,
                       (int)lw_lock_state(lock), status_name(status));
    if (status == LW_OK && lw_lock_remaining_ms(lock) <= 0)
        stage_complain("I1: %s was granted with no time remaining", hold->label);
    if ((status == LW_OK && !hold->no_fence) != (hold->fence != 0) && !hold->no_fence)
        stage_complain("I2: %s has fence %llu at its result %s", hold->label,
                       (unsigned long long)hold->fence, status_name(status));
    if (hold->then)
        hold->then(hold, AT_RESULT);
}

static void on_lost(struct lw_lock *lock, int reason, void *arg)
{
    struct hold *hold = arg;

    if (!is_fair(hold, lock, "lost"))
        return;
    if (hold->lost != PENDING)
        stage_complain("rule 6: %s was lost twice", hold->label);
    if (hold->result != LW_OK || hold->releasing || hold->released != PENDING)
        stage_complain("rule 6: %s was lost while it was not held", hold->label);
    if (reason != LW_ELOST && reason != LW_ENOTHELD && reason != LW_ETIMEOUT)
        stage_complain("rule 6: %s was lost for reason %d", hold->label, reason);
    hold->lost = reason;
    hold->lost_ms = now_ms();
    hold->remaining_at_lost = lw_lock_remaining_ms(lock);
    stage_note("%s lost %s", hold->label, status_name(reason));
    if (lw_lock_state(lock) != LW_LOST)
        stage_complain("rule 5: %s is in state %d when lost", hold->label,
                       (int)lw_lock_state(lock));
    if (hold->then)
        hold->then(hold, AT_LOST);
}

static void on_released(struct lw_lock *lock, int status, void *arg)
{
    struct hold *hold = arg;

    if (!is_fair(hold, lock, "released"))
        return;
    if (!hold->releasing)
        stage_complain("rule 2: %s released without a call", hold->label);
    if (hold->renewals)
        stage_complain("rule 6: %s released before %d pending renewals ended",
                       hold->label, hold->renewals);
    hold->releasing = false;
    hold->released = status;
    hold->released_ms = now_ms();
    stage_note("%s released %s", hold->label, status_name(status));
    if (lw_lock_state(lock) != LW_DONE || lw_lock_remaining_ms(lock) != 0)
        stage_complain("rule 5: %s is in state %d when released", hold->label,
                       (int)lw_lock_state(lock));
    if (hold->then)
        hold->then(hold, AT_RELEASED);
}

static void on_renewed(struct lw_lock *lock, int status, void *arg)
{
    struct hold *hold = arg;

    if (!is_fair(hold, lock, "renewed"))
        return;
    if (hold->renewals-- == 0)
        stage_complain("rule 2: %s renewed without a call", hold->label);
    hold->renewed = status;
    hold->renewed_ms = now_ms();
    stage_note("%s renewed %s", hold->label, status_name(status));
    if (status == LW_OK && lw_lock_state(lock) != LW_HELD)
        stage_complain("rule 5: %s renewed in state %d", hold->label,
                       (int)lw_lock_state(lock));
    if (status == LW_ELOST && hold->lost == PENDING)
        stage_complain("rule 6: %s renewal ELOST before lost", hold->label);
    if (hold->then)
        hold->then(hold, AT_RENEWED);
}

static void add_line(char *text, size_t size, const char *line)
{
    size_t used = strlen(text);

    snprintf(text + used, size - used, "%s\n", line);
}

static void on_link(struct lw_client *client, int up, const char *why, void *arg)
{
    struct peer *peer = arg;

    if (in_call)
        stage_complain("rule 1: link of %s came inside a call", peer->label);
    if (!peer->client || (client != peer->client) || peer->closed)
        stage_complain("link of %s came after its end", peer->label);
    if (up && peer->up)
        stage_complain("link of %s came up twice", peer->label);
    peer->up = up;
    up ? peer->ups++ : peer->downs++;
    if (peer->links < 64)
        peer->linked_ms[peer->links++] = now_ms();
    snprintf(peer->why, sizeof(peer->why), "%s", why);
    add_line(peer->whys, sizeof(peer->whys), why);
    if (peer->shows_link)
        stage_note("%s %s", peer->label, up ? "up" : "down");
    if (peer->on_link)
        peer->on_link(peer);
}

static void on_log(int level, const char *message, void *arg)
{
    struct peer *peer = arg;
    char line[1024];

    snprintf(line, sizeof(line), "%d %s", level, message);
    add_line(peer->log, sizeof(peer->log), line);
}

static void on_closed(struct lw_client *client, void *arg)
{
    struct peer *peer = arg;

    if (in_call)
        stage_complain("rule 1: close of %s came inside a call", peer->label);
    if (client != peer->client || !peer->closing || peer->closed)
        stage_complain("rule 7: close of %s came out of place", peer->label);
    for (struct hold *hold = holds; hold; hold = hold->next)
        if (hold->peer == peer && hold->lock &&
            (hold->result == PENDING || hold->releasing))
            stage_complain("rule 7: %s closed before %s ended", peer->label, hold->label);
    peer->closed = true;
    peer->closed_ms = now_ms();
    stage_note("%s closed", peer->label);
    if (peer->on_closed)
        peer->on_closed(peer);
}

/* ---- clients ---- */

static void everybody_leaves(bool in_good_order)
{
    for (struct hold *hold = holds; hold; hold = hold->next) {
        hold->then = NULL;
        drop(hold);
    }
    for (struct peer *peer = peers; in_good_order && peer; peer = peer->next) {
        peer->on_link = NULL;
        peer->on_closed = NULL;
        if (peer->client && !peer->closing)
            peer_close(peer);
        while (peer->client && !peer->closed && !stage.broken) {
            if (now_ms() > peer->close_called_ms + STAGE_WAIT_MS)
                stage_complain("rule 7: %s does not close", peer->label);
            event_base_loop(stage.base, EVLOOP_ONCE);
        }
    }
    while (peers) {
        struct peer *peer = peers;
        peer_free(peer);
        peers = peer->next;
        free(peer);
    }
    while (holds) {
        struct hold *hold = holds;
        holds = hold->next;
        free(hold);
    }
}

void players_leave(void)
{
    everybody_leaves(false);
}

struct peer *peer_start_at(const char *label, const char *url,
                           const struct lw_client_options *wanted)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    struct peer *peer = calloc(1, sizeof(*peer));
    char name[32];

    if (!peer)
        stage_fail("memory");
    snprintf(name, sizeof(name), "test-%s", label);
    stage_at_exit(everybody_leaves);
    snprintf(peer->label, sizeof(peer->label), "%s", label);
    peer->next = peers;
    peers = peer;
    if (wanted)
        options = *wanted;
    else
        options.local_turns = 1;
    if (!options.client_name)
        options.client_name = name;
    options.link = on_link;
    options.log = on_log;
    options.log_level = 7;
    options.arg = peer;
    options.errbuf = peer->error;
    options.errbuf_size = sizeof(peer->error);
    in_call++;
    int result = lw_client_new(stage.base, url, &options, &peer->client);
    in_call--;
    if (result != LW_OK)
        stage_fail("lw_client_new %s: %s: %s", label, status_name(result), peer->error);
    return peer;
}

struct peer *peer_start(const char *label, const struct lw_client_options *options)
{
    return peer_start_at(label, stage.server.url, options);
}

/* The lines of CLIENT LIST are told apart by the name that peer_start_at gave. */
long long peer_link_id(const struct peer *peer, bool subscription)
{
    char name[64];
    const char *wanted = subscription ? " sub=2 " : " sub=0 ";

    snprintf(name, sizeof(name), " name=test-%s ", peer->label);
    for (char *rest = (char *)(uintptr_t)redis_text("CLIENT LIST"), *line;
         (line = strtok_r(rest, "\n", &rest));)
        if (strstr(line, name) && strstr(line, wanted))
            return atoll(line + strlen("id="));
    return 0;
}

void peer_wait_ready(struct peer *peer)
{
    UNTIL(peer->up);
    UNTIL(peer_link_id(peer, true) != 0);
    stage_run_for(5); /* until the confirmation has been read */
}

struct peer *peer_ready(const char *label, const struct lw_client_options *options)
{
    struct peer *peer = peer_start(label, options);

    peer_wait_ready(peer);
    return peer;
}

void peer_close(struct peer *peer)
{
    peer->closing = true;
    peer->close_called_ms = now_ms();
    in_call++;
    int result = lw_client_close(peer->client, on_closed, peer);
    in_call--;
    if (result != LW_OK)
        stage_complain("lw_client_close %s: %s", peer->label, status_name(result));
}

void peer_free(struct peer *peer)
{
    struct lw_client *client = peer->client;

    peer->client = NULL;
    peer->up = false;
    in_call++;
    lw_client_free(client);
    in_call--;
}

struct lw_stats peer_stats(const struct peer *peer)
{
    struct lw_stats stats = LW_STATS_INIT;

    if (lw_client_stats(peer->client, &stats) != LW_OK)
        stage_complain("lw_client_stats %s", peer->label);
    return stats;
}

bool peer_logged(const struct peer *peer, const char *text)
{
    return strstr(peer->log, text) != NULL;
}

/* ---- handles ---- */

static int try_ask(struct hold *hold, const char *name,
                   const struct lw_acquire_options *wanted)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;

    if (wanted)
        options = *wanted;
    if (!options.lost)
        options.lost = on_lost;
    hold->no_fence = (options.flags & LW_NO_FENCE) || options.mode == LW_REDISSON;
    hold->mode = options.mode;
    hold->margin_ms = options.margin_ms;
    hold->asked_ms = now_ms();
    in_call++;
    int result =
        lw_acquire(hold->peer->client, name, &options, on_result, hold, &hold->lock);
    in_call--;
    return result;
}

static struct hold *new_hold(struct peer *peer, const char *label)
{
    struct hold *hold = calloc(1, sizeof(*hold));

    if (!hold)
        abort();
    *hold = (struct hold){.peer = peer,
                          .result = PENDING,
                          .lost = PENDING,
                          .released = PENDING,
                          .renewed = PENDING};
    snprintf(hold->label, sizeof(hold->label), "%s", label);
    hold->next = holds;
    holds = hold;
    return hold;
}

struct hold *ask_with(struct peer *peer, const char *label, const char *name,
                      const struct lw_acquire_options *options)
{
    struct hold *hold = new_hold(peer, label);
    int result = try_ask(hold, name, options);

    if (result != LW_OK)
        stage_complain("lw_acquire %s: %s: %s", label, status_name(result), peer->error);
    else if (lw_lock_state(hold->lock) != LW_WAITING)
        stage_complain("rule 5: %s does not wait after lw_acquire", label);
    return hold;
}

struct hold *ask(struct peer *peer, const char *label, const char *name, int64_t wait_ms)
{
    return ask_with(peer, label, name, asking(.wait_ms = wait_ms));
}

struct hold *take(struct peer *peer, const char *label, const char *name)
{
    struct hold *hold = ask(peer, label, name, STAGE_WAIT_MS);

    UNTIL(hold->result != PENDING);
    if (hold->result != LW_OK)
        stage_fail("%s was to be granted: %s", label, status_name(hold->result));
    return hold;
}

/* `ret` must stay as it was, and no callback may come; `lock` stays NULL for that. */
void ask_refused(struct peer *peer, const char *name,
                 const struct lw_acquire_options *options, int error, const char *text)
{
    struct hold *hold = new_hold(peer, "refused");

    peer->error[0] = '\0';
    int result = try_ask(hold, name, options);
    if (result != error)
        stage_fail("lw_acquire \"%s\": %s, not %s: %s", name ? name : "(null)",
                   status_name(result), status_name(error), peer->error);
    if (hold->lock)
        stage_fail("lw_acquire \"%s\" touched *ret", name ? name : "(null)");
    if (!strstr(peer->error, text))
        stage_fail("lw_acquire \"%s\": \"%s\" does not say \"%s\"",
                   name ? name : "(null)", peer->error, text);
}

void wait_queued(const char *name, long long members)
{
    UNTIL(redis_int("ZCARD %s", queue_of(name)) == members);
}

void let_go(struct hold *hold)
{
    hold->releasing = true;
    in_call++;
    int result = lw_release(hold->lock, on_released, hold);
    in_call--;
    if (result != LW_OK)
        stage_complain("lw_release %s: %s", hold->label, status_name(result));
    else if (lw_lock_state(hold->lock) != LW_RELEASING ||
             lw_lock_remaining_ms(hold->lock) != 0)
        stage_complain("rule 5: %s is in state %d, %lld ms, after lw_release",
                       hold->label, (int)lw_lock_state(hold->lock),
                       (long long)lw_lock_remaining_ms(hold->lock));
}

void let_go_refused(struct hold *hold, int error)
{
    in_call++;
    int result = lw_release(hold->lock, on_released, hold);
    in_call--;
    if (result != error)
        stage_complain("lw_release %s: %s, not %s", hold->label, status_name(result),
                       status_name(error));
}

void extend(struct hold *hold, uint32_t lease_ms)
{
    hold->renewals++;
    in_call++;
    int result = lw_renew(hold->lock, lease_ms, on_renewed, hold);
    in_call--;
    if (result != LW_OK)
        stage_complain("lw_renew %s: %s", hold->label, status_name(result));
}

void extend_refused(struct hold *hold, uint32_t lease_ms, int error)
{
    in_call++;
    int result = lw_renew(hold->lock, lease_ms, on_renewed, hold);
    in_call--;
    if (result != error)
        stage_complain("lw_renew %s: %s, not %s", hold->label, status_name(result),
                       status_name(error));
}

void drop(struct hold *hold)
{
    struct lw_lock *lock = hold->lock;

    hold->lock = NULL;
    in_call++;
    lw_lock_free(lock);
    in_call--;
}

/* Redis' own words for: this handle's owner has the lock, as its mode writes it. By plain
 * reads, which any version knows, no pause of writers holds up and no test counts as work. */
static bool is_held_in_redis(const struct hold *hold)
{
    const char *name = lw_lock_name(hold->lock), *owner = lw_lock_owner(hold->lock),
               *value;

    switch (hold->mode) {
    case LW_MUTEX: /* the token, which ends in + there once somebody queues */
        value = redis_text("GET %s", name);
        return strlen(value) == strlen(owner) &&
               strncmp(value, owner, strlen(owner) - 1) == 0;
    case LW_EXCLUSIVE:
        return strcmp(redis_text("HGET %s writer", name), owner) == 0;
    case LW_SHARED:
        return redis_int("HEXISTS %s r:%s", name, owner) == 1;
    case LW_REDISSON:
        break;
    }
    return redis_int("HEXISTS %s %s", name, owner) == 1;
}

/* The key is this handle's, and lives at least as long as the handle believes. */
void assert_held_by_redis(const struct hold *hold)
{
    long long left = redis_int("PTTL %s", lw_lock_name(hold->lock)) + 1;
    int64_t remaining = lw_lock_remaining_ms(hold->lock); /* time has passed since */

    if (remaining > left)
        stage_fail("I1: %s believes in %lld ms, Redis in %lld", hold->label,
                   (long long)remaining, left);
    if (!is_held_in_redis(hold))
        stage_fail("I1: %s believes, Redis does not: %s", hold->label,
                   lw_lock_owner(hold->lock));
    assert_int_equal(lw_lock_state(hold->lock), LW_HELD);
}

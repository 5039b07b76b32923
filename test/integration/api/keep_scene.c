/* SPDX-License-Identifier: MIT */
/* Implements keep_scene.h. Usual course: keeper_start, on_gained, on_lost,
 * keeper_free. */
#include "keep_scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct keeper *keepers;

static bool is_fair(const struct keeper *keeper, const struct lw_keep *keep,
                    const char *what)
{
    if (players_in_call) {
        stage_complain("rule 1: %s %s came inside a call", keeper->label, what);
    } else if (keeper->keep == NULL) {
        stage_complain("rule 3: %s %s came after lw_keep_free", keeper->label, what);
    } else if (keeper->keep != keep) {
        stage_complain("%s %s came with another keep", keeper->label, what);
    } else if (keeper->peer->client == NULL || keeper->peer->closing) {
        stage_complain("rule 7: %s %s came after its client's end", keeper->label, what);
    } else {
        return true;
    }
    return false;
}

static void on_gained(struct lw_keep *keep, int status, void *arg)
{
    struct keeper *keeper = arg;
    struct lw_lock *lock;

    if (!is_fair(keeper, keep, "gained")) {
        return;
    }
    lock = lw_keep_lock(keep);
    stage_note("%s gained", keeper->label);
    if (keeper->leads || status != LW_OK) {
        stage_complain("%s gained twice, or with %s", keeper->label, status_name(status));
    }
    if (lw_lock_state(lock) != LW_HELD || lw_lock_remaining_ms(lock) <= 0) {
        stage_complain("I1: %s gained what it does not hold", keeper->label);
    }
    if (keeper->no_fence ? lw_lock_fence(lock) != 0
                         : lw_lock_fence(lock) <= keeper->fence) {
        stage_complain("I2: %s gained with a fence that does not grow", keeper->label);
    }
    keeper->fence = lw_lock_fence(lock);
    keeper->leads = true;
    keeper->gains++;
    keeper->gained_ms = now_ms();
    if (keeper->then != NULL) {
        keeper->then(keeper);
    }
}

static void on_lost(struct lw_keep *keep, int reason, void *arg)
{
    struct keeper *keeper = arg;
    struct lw_lock *lock;

    if (!is_fair(keeper, keep, "lost")) {
        return;
    }
    lock = lw_keep_lock(keep);
    stage_note("%s lost %s", keeper->label, status_name(reason));
    if (!keeper->leads) {
        stage_complain("%s lost what it had not gained", keeper->label);
    }
    if (lw_lock_state(lock) != LW_LOST || lw_lock_fence(lock) != keeper->fence) {
        stage_complain("%s lost another hold than its own", keeper->label);
    }
    keeper->leads = false;
    keeper->losses++;
    keeper->lost_ms = now_ms();
    keeper->remaining_at_lost = lw_lock_remaining_ms(lock);
    if (keeper->then != NULL) {
        keeper->then(keeper);
    }
}

static void all_leave(bool in_good_order)
{
    (void)in_good_order;
    while (keepers != NULL) {
        struct keeper *keeper = keepers;

        keeper_free(keeper);
        keepers = keeper->next;
        free(keeper);
    }
}

static struct keeper *new_keeper(struct peer *peer, const char *label)
{
    struct keeper *keeper = calloc(1, sizeof(*keeper));

    if (keeper == NULL) {
        abort();
    }
    stage_at_exit(all_leave);
    keeper->peer = peer;
    (void)snprintf(keeper->label, sizeof(keeper->label), "%s", label);
    keeper->next = keepers;
    keepers = keeper;
    return keeper;
}

static int try_start(struct keeper *keeper, const char *name,
                     const struct lw_acquire_options *options)
{
    struct lw_client *client = keeper->peer->client;

    keeper->no_fence = options != NULL &&
                       ((options->flags & LW_NO_FENCE) || options->mode == LW_REDISSON);
    players_in_call++;
    int result =
        lw_keep_new(client, name, options, on_gained, on_lost, keeper, &keeper->keep);
    players_in_call--;
    return result;
}

struct keeper *keeper_start(struct peer *peer, const char *label, const char *name,
                            const struct lw_acquire_options *options)
{
    struct keeper *keeper = new_keeper(peer, label);
    int result = try_start(keeper, name, options);

    if (result != LW_OK) {
        stage_complain("lw_keep_new %s: %s: %s", label, status_name(result), peer->error);
    } else if (lw_lock_state(lock_of(keeper)) != LW_WAITING) {
        stage_complain("rule 5: %s does not wait after lw_keep_new", label);
    }
    return keeper;
}

void keeper_refused(struct peer *peer, const char *name,
                    const struct lw_acquire_options *options, int error, const char *text)
{
    struct keeper *keeper = new_keeper(peer, "refused");

    peer->error[0] = '\0';
    int result = try_start(keeper, name, options);
    if (result != error || keeper->keep != NULL) {
        stage_fail("lw_keep_new: %s, not %s: %s", status_name(result), status_name(error),
                   peer->error);
    }
    if (strstr(peer->error, text) == NULL) {
        stage_fail("lw_keep_new: \"%s\" does not say \"%s\"", peer->error, text);
    }
}

void keeper_free(struct keeper *keeper)
{
    struct lw_keep *keep = keeper->keep;

    keeper->keep = NULL;
    keeper->leads = false;
    players_in_call++;
    lw_keep_free(keep);
    players_in_call--;
}

struct lw_lock *lock_of(const struct keeper *keeper)
{
    return lw_keep_lock(keeper->keep);
}

/* SPDX-License-Identifier: MIT */
/* The line of those who wait for one name in LW_REDISSON, in one client: in order of
 * arrival, the first asks for all, since one refusal would be every one's. Owns who is
 * first, what keeps it from asking (one of ours that holds, asks or lets go), and how
 * long a name is left to those elsewhere whom a release woke. Must not know channels or
 * replies.
 *
 * Happy path: the first is refused and sleeps, those behind it sleep without end; a
 * message has the first ask; once it holds, the next one is first and stands by; the
 * release's end has it ask, at once where nobody else was told. A message that never
 * comes costs a poll. */
#include "lock/line.h"

#include "base/hash.h"
#include "lock/claim.h"
#include "lock/mode.h"
#include "lock/name.h"
#include "lock/structs.h"
#include "loop/loop.h"
#include "redis/node.h"

#include <string.h>
#include <utlist.h>

#define REST_US (8 * LW__MS) /* a stand-by adds 2 ms */
#define STAND_BY_US (2800 * LW__MS)

static bool waits(const struct lw__claim *claim)
{
    return claim->mode->in_line != NULL && claim->waiting != NULL &&
           (claim->machine.phase == LW__ASKING || claim->machine.phase == LW__QUEUED);
}

/* Its answer, soon to come, has the first one called. */
static bool is_about(const struct lw__claim *claim)
{
    return claim->machine.phase == LW__ASKING ||
           (claim->machine.phase == LW__LEAVING && claim->machine.in_flight);
}

static bool holds(const struct lw__claim *claim)
{
    return claim->machine.phase == LW__HELD || claim->machine.phase == LW__LAPSED;
}

struct lw__claim *lw__line_first(const struct lw__name *name)
{
    struct lw__claim *claim;

    DL_FOREACH(name->claims, claim) {
        if (waits(claim)) {
            return claim;
        }
    }
    return NULL;
}

/* One of ours that came before `first` and is about to be answered, or else holds. */
static const struct lw__claim *ahead_of(const struct lw__claim *first,
                                        const struct lw__name *name)
{
    const struct lw__claim *claim, *found = NULL;

    DL_FOREACH(name->claims, claim) {
        if (claim == first) {
            break;
        }
        if (claim->mode->in_line == NULL) {
            continue;
        }
        if (is_about(claim)) {
            return claim;
        }
        if (holds(claim)) {
            found = claim;
        }
    }
    return found;
}

int64_t lw__line_before(const struct lw__claim *claim)
{
    const struct lw__claim *before;
    const struct lw_lock *lock;
    int64_t count = 0;

    DL_FOREACH(claim->name->claims, before) {
        if (before == claim) {
            break;
        }
        DL_FOREACH2(before->waiting, lock, turn_next) {
            count += before->mode->in_line != NULL;
        }
    }
    return count;
}

bool lw__line_is_behind(const struct lw__claim *claim)
{
    return waits(claim) && lw__line_first(claim->name) != claim;
}

int64_t lw__line_busy_ms(const struct lw__name *name)
{
    const struct lw__claim *first = lw__line_first(name), *ahead = ahead_of(first, name);
    int64_t now = lw__now_us(), left = 0;

    if (ahead != NULL && holds(ahead)) {
        left = (ahead->machine.deadline_us - now) / LW__MS;
    } else if (first != NULL && first->asking.remaining_ms < 0) {
        return first->asking.remaining_ms; /* no TTL */
    } else if (first != NULL) {
        left = first->asking.remaining_ms - (now - first->asking.pair.sent_us) / LW__MS;
    }
    return left > 0 ? left : 0;
}

/* ---- leaving a name to others ---- */

static struct lw__rest *rest_of(struct lw_client *client, const char *name)
{
    uint32_t hash = (uint32_t)lw__hash(&client->hash_key, name, strlen(name));
    struct lw__rest *rest = &client->rests[hash % LW__RESTS];

    if (rest->hash != hash) {
        *rest = (struct lw__rest){.hash = hash};
    }
    return rest;
}

static int64_t rest_us(struct lw_client *client, const char *name)
{
    int64_t left = rest_of(client, name)->until_us - lw__now_us();

    return left > 0 ? left : 0;
}

void lw__line_released(struct lw_client *client, const char *name, int64_t told,
                       bool told_us)
{
    struct lw__rest *rest = rest_of(client, name);

    rest->until_us = told > told_us ? lw__now_us() + REST_US : 0;
    rest->own = told > 0 && told_us && !rest->heard;
    rest->heard = false;
}

/* ---- whose turn it is to ask ---- */

bool lw__line_must_wait(const struct lw__claim *claim)
{
    const struct lw__claim *ahead = ahead_of(claim, claim->name);

    return lw__line_first(claim->name) != NULL || (ahead != NULL && is_about(ahead)) ||
           rest_us(claim->client, claim->name->text) > 0;
}

static void stand_by(struct lw__claim *first, int64_t window_us)
{
    struct lw__input input = {.event = LW__EV_STANDBY,
                              .standby = {.window_us = window_us}};

    lw__claim_step(first, &input);
}

/* Where one of ours holds, its release is what to wait for; unless it never comes. */
static void call(struct lw__claim *first)
{
    const struct lw__claim *ahead = ahead_of(first, first->name);
    struct lw_client *client = first->client;
    int64_t left;

    if (client->closing || !lw__node_is_up(first->name->node) ||
        (ahead != NULL && is_about(ahead))) {
        return;
    }
    if (ahead != NULL) {
        left = ahead->machine.deadline_us - lw__now_us();
        stand_by(first, left < STAND_BY_US ? left : STAND_BY_US);
    } else if ((left = rest_us(client, first->name->text)) > 0) {
        stand_by(first, left);
    } else {
        lw__claim_event(first, LW__EV_ASK_NOW);
    }
}

void lw__line_moved(struct lw__name *name, bool freed)
{
    struct lw__claim *first = lw__line_first(name);

    if (first == NULL) {
        return;
    }
    /* one that sleeps without end was not first until now */
    if (freed ||
        (first->machine.phase == LW__QUEUED && first->machine.due_us == LW__NEVER)) {
        call(first);
    }
}

static bool lets_go(const struct lw__name *name)
{
    const struct lw__claim *claim;

    DL_FOREACH(name->claims, claim) {
        if (claim->mode->in_line != NULL && claim->machine.phase == LW__LEAVING &&
            is_about(claim)) {
            return true;
        }
    }
    return false;
}

void lw__line_unheard(struct lw_client *client, const char *text)
{
    struct lw__name *name = lw__name_find(client, text);
    struct lw__claim *first = name != NULL ? lw__line_first(name) : NULL;

    if (first != NULL && lw__node_is_up(name->node)) {
        stand_by(first, STAND_BY_US);
    }
}

void lw__line_message(struct lw_client *client, const char *text)
{
    struct lw__name *name = lw__name_find(client, text);
    struct lw__rest *rest = rest_of(client, text);
    struct lw__claim *first = name != NULL ? lw__line_first(name) : NULL;

    if (name != NULL && lets_go(name)) {
        rest->heard = true; /* its own, most likely; the answer has the first called */
    } else if (rest->own && rest->until_us > lw__now_us()) {
        rest->own = false;
    } else {
        rest->until_us = 0; /* somebody had it meanwhile */
        if (first != NULL && lw__node_is_up(name->node) &&
            ahead_of(first, name) == NULL) {
            lw__claim_event(first, LW__EV_ASK_NOW);
        }
    }
}

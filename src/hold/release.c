/* SPDX-License-Identifier: MIT */
/* The ways to release a claim's token: which one is sent, and how each is encoded.
 * claim.c sends the command that this file chooses, and reads its reply. */
#include "hold/hold.h"

#include "base/asserts.h"
#include "base/buffer.h"
#include "base/random.h"
#include "redis/encode.h"
#include "redis/node.h"

#define FAST_RELEASE_US (20 * LW__MS) /* for a short release, too */
#define SLOW_RELEASE_ONE_IN 32

/* The ways to release. SEND_RELEASE sends the first one whose condition is true.
 *
 *   name     command                    when                       if others wait
 *   detach   mutex_detach, rw_detach    the token has to stay      the first stands by
 *   short    rw_release, 2 keys         a read-write lock; once;   no effect
 *                                       a short hold
 *   fast     mutex_release_fast,        a mutex granted by a try;  no effect
 *            DELIFEQ or DELEX           a short hold; not each
 *   release  mutex_release, rw_release  otherwise                  the first gets it
 *            redisson_release                                      they retry
 *
 * A short hold lasted up to FAST_RELEASE_US, this client has no other claim for the name,
 * and nothing shows that the name is contended.
 *
 * Each reply tells whether the token had the lock (`released`). Without an effect it also
 * has `again`, and the machine sends the next release, which is a full one. If a script
 * fails since the slot is migrating, a detach or a release of the name alone follows
 * (release_failed), and the waiters poll. */

/* The try was granted, so there were no waiters then as far as is known, and the value
 * would be marked if one had joined since. That is wrong if an earlier holder's lease
 * expired while others waited. So a full release, which serves them, ends each hold that
 * lasted a while and some of the others. Only the length of a wait depends on it. */
static bool may_release_fast(struct lw__claim *claim, int64_t now_us)
{
    struct lw__holds *holds = claim->holds;

    return claim->try == LW__TRY_WON && !claim->machine.unconfirmed &&
           claim->extras->description == NULL && claim->name->claims == claim &&
           claim->next == NULL && !lw__name_is_contended(holds, claim->name) &&
           now_us - claim->command.request.sent_us <= FAST_RELEASE_US &&
           lw__random_between(&holds->random, 1, SLOW_RELEASE_ONE_IN) != 1;
}

/* The short form is cheaper, but if there are waiters, or if the owner has other holds,
 * the full one follows a round trip later. */
static bool may_release_in_short(const struct lw__claim *claim, int64_t now_us)
{
    return claim->mode->rw && claim->machine.held_until_us != 0 &&
           !claim->short_release_sent && claim->name->claims == claim &&
           claim->next == NULL && !lw__name_is_contended(claim->holds, claim->name) &&
           now_us <= claim->command.request.sent_us + FAST_RELEASE_US;
}

enum lw__release lw__release_choose(struct lw__claim *claim, int64_t now_us)
{
    LW__ASSERT(lw__machine_releases(claim->machine.phase));
    if (lw__claim_stays(claim)) {
        return LW__RELEASE_DETACH;
    }
    if (may_release_in_short(claim, now_us)) {
        claim->short_release_sent = true;
        return LW__RELEASE_SHORT;
    }
    return may_release_fast(claim, now_us) ? LW__RELEASE_FAST : LW__RELEASE_FULL;
}

/* ---- encoding ---- */

void lw__release_encode_fast(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__token token = lw__claim_token(claim);

    claim->fast_release = lw__node_fast_release(lw__node_of_command(command));
    lw__encode_fast_release(out, lw__command_evals(command), claim->fast_release,
                            claim->name->text, &token);
}

/* The slot is migrating: releases by the name's key alone, without regard to waiters. */
static void put_release_one_key(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__token token = lw__claim_token(claim);
    char text[LW__TOKEN_SIZE];

    (void)lw__format_token(&token, text);
    lw__encode_release_one_key(out, lw__command_evals(command), claim->name->text, text,
                               claim->mode->rw);
}

static void encode(struct lw__command *command, struct lw__buffer *out, bool in_short)
{
    struct lw__claim *claim = lw__claim_of(command);
    struct lw__rw rw;
    struct lw__release_args args = {
        .name = claim->name->text,
        .token = lw__claim_token(claim),
        .rw = lw__claim_rw(claim, &rw),
        .site = lw__node_script_env(lw__node_of_command(command), claim->name->slot),
        .in_short = in_short,
        .described = claim->extras->description != NULL,
    };

    if (command->request.one_key) {
        put_release_one_key(command, out);
        return;
    }
    claim->mode->encode_release(out, lw__command_evals(command), &args);
}

void lw__release_encode(struct lw__command *command, struct lw__buffer *out)
{
    encode(command, out, false);
}

void lw__release_encode_short(struct lw__command *command, struct lw__buffer *out)
{
    encode(command, out, true);
}

/* A detach that is sent again sets the rest of its time. While the slot is migrating it
 * uses the name's key alone, so that no waiter learns of the lease. */
void lw__release_encode_detach(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__claim *claim = lw__claim_of(command);
    int64_t left_us = claim->held.stays_until_us - lw__now_us();
    char about[LW__ABOUT_SIZE];
    struct lw__detach_args args = {
        .name = claim->name->text,
        .token = lw__claim_token(claim),
        .rw = claim->mode->rw,
        .site = lw__node_script_env(lw__node_of_command(command), claim->name->slot),
        .one_key = command->request.one_key,
        .lease_ms = (left_us + LW__MS - 1) / LW__MS,
        .about = lw__description_about(claim, about) ? about : NULL,
    };

    if (claim->held.stays_until_us == LW__NEVER) {
        args.lease_ms = -(claim->machine.lease_us / LW__MS);
    } else if (args.lease_ms < 1) {
        args.lease_ms = 1; /* it had to wait for room */
    }
    lw__encode_detach(out, lw__command_evals(command), &args);
}

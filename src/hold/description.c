/* SPDX-License-Identifier: MIT */
/* The description of a hold, for those who inspect the lock: since when it is held, by
 * which process and user, and the caller's note. Nothing depends on it, so that its
 * failures are not reported. It is independent of how a hold ends: the scripts remove it
 * with the hold, or it expires with the lease.
 *
 * A detach has it as an argument, because the client may be gone right after. A claim
 * with a note, or that has adopted its hold, sends describe.lua after its grant and after
 * each renewal, which sets the description's TTL to the new lease. Any other hold is not
 * described: its token names its client, whose identity (identity.c) is in Redis while
 * the client is open and has published one. */
#include "hold/hold.h"

#include "base/container_of.h"
#include "loop/loop.h"
#include "redis/encode.h"
#include "redis/node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNIT_US (10 * (int64_t)LW__MS) /* of granted_10ms */

struct lw__description {
    struct lw__command command;
    struct lw__claim *claim;
    char note[]; /* "": without one */
};

struct lw__description *lw__description_new(struct lw__claim *claim, const char *note)
{
    size_t size = note != NULL ? strlen(note) + 1 : 1;
    struct lw__description *description = calloc(1, sizeof(*description) + size);

    if (description != NULL) {
        description->claim = claim;
        memcpy(description->note, note != NULL ? note : "", size);
    }
    return description;
}

void lw__description_free(struct lw__description *description)
{
    if (description != NULL) {
        lw__node_forget(&description->command);
        free(description);
    }
}

void lw__description_granted(struct lw__claim *claim)
{
    claim->held.granted_10ms = (uint32_t)(lw__loop_now_us(claim->holds->loop) / UNIT_US);
    lw__description_send(claim);
}

bool lw__description_about(const struct lw__claim *claim, char ret[LW__ABOUT_SIZE])
{
    const struct lw__description *description = claim->extras->description;
    const char *note = description != NULL ? description->note : "";
    const char *who = claim->holds->who;
    uint32_t held = (uint32_t)(lw__now_us() / UNIT_US) - claim->held.granted_10ms;

    if (who == NULL && description == NULL) {
        return false;
    }
    (void)snprintf(ret, LW__ABOUT_SIZE, "%" PRId64 " %s%s%s",
                   (int64_t)held * (UNIT_US / LW__MS), who != NULL ? who : "- - - -",
                   *note ? " " : "", note);
    return true;
}

/* ---- describe.lua ---- */

static struct lw__description *description_of(struct lw__command *command)
{
    return LW__CONTAINER_OF(struct lw__description, command, command);
}

static void encode(struct lw__command *command, struct lw__buffer *out)
{
    const struct lw__claim *claim = description_of(command)->claim;
    struct lw__token token = {claim->holds->uuid, claim->n, claim->window_ms};
    char about[LW__ABOUT_SIZE] = "";

    (void)lw__description_about(claim, about);
    lw__encode_describe(out, lw__command_evals(command), claim->holds->prefix,
                        claim->name->text, &token, about);
}

static bool replied(struct lw__command *command, const struct lw__reply *reply)
{
    (void)command;
    (void)reply;
    return true;
}

static void failed(struct lw__command *command, const char *why, bool sent)
{
    (void)command;
    (void)why;
    (void)sent; /* the next renewal is followed by another one */
}

void lw__description_send(struct lw__claim *claim)
{
    static const struct lw__command_type type = {
        .encode = encode, .on_reply = replied, .failed = failed};
    struct lw__description *description = claim->extras->description;

    if (description != NULL && claim->extras->votes == NULL &&
        description->command.request.prev == NULL && lw__node_is_up(claim->name->node)) {
        (void)lw__node_send(claim->name->node, &description->command, &type,
                            LW__PRIORITY_NEW, false);
    }
}

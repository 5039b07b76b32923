/* SPDX-License-Identifier: MIT */
/* The fencing tokens of a quorum's grant: which number it has, and which votes agree to
 * it. Independent of why a vote is held.
 *
 * Usual course: the first number of a grant is one that a majority of the votes did not
 * exceed. A vote agrees if its server's fence counter has passed the numbers of the
 * grant, so that every later majority draws larger ones. A server that drew smaller ones
 * is asked to raise its counter first, while the vote is held there (fence_raise.lua);
 * the reply has the votes counted again.
 *
 * Failures: after an error, or without a reply, the votes are counted again a moment
 * later, which sends the command again. A vote that turns out not to be held is renewed
 * at once, which finds its loss. */
#include "quorum/quorum_private.h"

#include "redis/encode.h"
#include "redis/reply.h"

#include <stdlib.h>

#define RETRY_US (50 * LW__MS)          /* without a reply */
#define RETRY_REFUSED_US (200 * LW__MS) /* after an error */

static void encode_raise(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__vote *vote = LW__CONTAINER_OF(struct lw__vote, raise, command);

    lw__encode_fence_raise(out, lw__command_evals(command),
                           lw__node_script_env(lw__node_of_command(command), 0).fence,
                           vote->raising_to, vote->votes->claim->name->text,
                           &vote->token);
}

/* A token that is not held any longer is found by its renewal. */
static bool raised(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__vote *vote = LW__CONTAINER_OF(struct lw__vote, raise, command);

    if (lw__reply_type(reply) == LW__REPLY_INTEGER && lw__reply_integer(reply) == 1) {
        vote->raised_to = vote->raising_to;
    } else if (lw__reply_type(reply) == LW__REPLY_INTEGER) {
        lw__renewal_verify(vote->claim);
    } else if (lw__reply_type(reply) != LW__REPLY_ERROR) {
        return false;
    } else {
        lw__votes_count_at(vote->votes, lw__now_us() + RETRY_REFUSED_US);
        return true;
    }
    lw__votes_changed(vote->votes);
    return true;
}

static void raise_failed(struct lw__command *command, const char *why, bool sent)
{
    struct lw__vote *vote = LW__CONTAINER_OF(struct lw__vote, raise, command);

    (void)why, (void)sent;
    lw__votes_count_at(vote->votes, lw__now_us() + RETRY_US);
}

static void raise_fence(struct lw__vote *vote, uint64_t number)
{
    static const struct lw__command_type type = {encode_raise, raised,
                                                 .failed = raise_failed};

    if (vote->raise.request.prev == NULL && lw__member_is_up(vote->member) &&
        number < LW__FENCE_END) {
        vote->raising_to = number;
        vote->token = lw__claim_token(vote->claim);
        (void)lw__node_send(lw__member_node(vote->member), &vote->raise, &type,
                            LW__PRIORITY_RENEW, false);
    }
}

void lw__quorum_fence_forget(struct lw__vote *vote)
{
    lw__node_forget(&vote->raise);
    vote->raised_to = 0;
}

/* Returns a number below which the server's counter is not while the vote is held. */
static uint64_t last_of(const struct lw__vote *vote)
{
    uint64_t drawn = vote->claim->machine.fence + vote->claim->fences_drawn - 1;

    return drawn > vote->raised_to ? drawn : vote->raised_to;
}

uint64_t lw__quorum_fence_choose(const struct lw__votes *votes)
{
    uint64_t numbers[LW__QUORUM_MOST], chosen, floor = votes->floor;
    unsigned held = 0;

    for (unsigned i = 0; i < votes->quorum->count; i++) {
        if (lw__vote_is_live(&votes->vote[i])) {
            numbers[held++] = votes->vote[i].claim->machine.fence;
        }
    }
    qsort(numbers, held, sizeof(numbers[0]), lw__quorum_compare);
    chosen = numbers[votes->quorum->majority - 1];
    if (floor != 0) { /* numbers of an earlier grant were used */
        floor += lw__handles(votes->claim)->passed_count;
    }
    return chosen > floor ? chosen : floor;
}

int64_t lw__quorum_fence_agree(struct lw__votes *votes, uint64_t number,
                               uint64_t raise_to, uint64_t *last)
{
    uint64_t deadlines[LW__QUORUM_MOST], lasts[LW__QUORUM_MOST];
    unsigned agree = 0, majority = votes->quorum->majority;

    for (unsigned i = 0; i < votes->quorum->count; i++) {
        struct lw__vote *vote = &votes->vote[i];

        if (!lw__vote_is_live(vote)) {
            continue;
        }
        if (last_of(vote) < number) {
            raise_fence(vote, raise_to);
            continue;
        }
        deadlines[agree] = (uint64_t)lw__vote_deadline_us(vote);
        lasts[agree++] = last_of(vote);
    }
    if (agree < majority) {
        return 0;
    }
    qsort(deadlines, agree, sizeof(deadlines[0]), lw__quorum_compare);
    qsort(lasts, agree, sizeof(lasts[0]), lw__quorum_compare);
    *last = lasts[agree - majority];
    return (int64_t)deadlines[agree - majority];
}

/* SPDX-License-Identifier: MIT */
/* What a client keeps of detached tokens: their claims leave the list that each request
 * for the name walks, and are freed after some request time-outs, however long the token
 * stays. The counts are read from the client itself.
 *
 * Usual course: A holds and detaches; C adopts A's token and releases it; and again. */
#include "players.h"

#include "lock/lock_private.h"

#include <stdio.h>
#include <utlist.h>

#define LONG_MS 600000
#define MANY 50

static int claims_of(const struct peer *peer, const char *name)
{
    const struct lw__name *found = lw__name_find(&peer->client->holds, name);
    const struct lw__claim *claim;
    int count = 0;

    if (found != NULL) {
        DL_COUNT(found->claims, claim, count);
    }
    return count;
}

static int lingering(const struct peer *peer)
{
    const struct lw__claim *claim;
    int count;

    DL_COUNT(peer->client->holds.lingering, claim, count);
    return count;
}

/* Detaches a token of x for `keep_ms` (0: for its lease), adopts and releases it. */
static void leave_and_adopt(struct peer *from, struct peer *to, int64_t keep_ms)
{
    struct hold *A = acquire_and_wait(from, "A", "x"), *C;
    char token[96];

    (void)snprintf(token, sizeof(token), "%s", lw_lock_token(A->lock));
    detach_hold(A, keep_ms);
    EXPECT("A granted; A detached OK");
    C = adopt_hold(to, "C", "x", token, NULL);
    EXPECT("C granted");
    release_hold(C);
    EXPECT("C released OK");
    free_hold(A);
    free_hold(C);
}

static void no_request_passes_detached_tokens(void **state)
{
    struct peer *from = peer_ready("f", client_of(.request_timeout_ms = LONG_MS)),
                *to = peer_ready("t", NULL);

    (void)state;
    for (int i = 0; i < MANY; i++) {
        leave_and_adopt(from, to, LONG_MS);
        assert_int_equal(claims_of(from, "x"), 0);
    }
    assert_int_equal(lingering(from), MANY);
    assert_int_equal(from->client->holds.open_claims, MANY);
    peer_close(from);
    EXPECT("f closed");
}

static void they_are_freed_long_before_their_time(void **state)
{
    struct peer *from = peer_ready("f", client_of(.request_timeout_ms = 250)),
                *to = peer_ready("t", NULL);

    (void)state;
    for (int i = 0; i < MANY; i++) {
        leave_and_adopt(from, to, i % 2 == 0 ? LONG_MS : 0);
    }
    UNTIL(from->client->holds.open_claims == 0);
    assert_int_equal(lingering(from), 0);
    assert_null(lw__name_find(&from->client->holds, "x"));
}

/* A token that ends earlier is kept no longer than it lasts. */
static void a_short_time_ends_first(void **state)
{
    struct peer *from = peer_ready("f", client_of(.request_timeout_ms = LONG_MS));
    struct hold *A = acquire_and_wait(from, "A", "x");

    (void)state;
    detach_hold(A, 50);
    EXPECT("A granted; A detached OK");
    UNTIL(from->client->holds.open_claims == 0);
    assert_int_equal(lingering(from), 0);
    UNTIL(redis_int("EXISTS x") == 0);
}

static void a_client_is_freed_with_them(void **state)
{
    struct peer *from = peer_ready("f", NULL), *to = peer_ready("t", NULL);

    (void)state;
    leave_and_adopt(from, to, LONG_MS);
    assert_int_equal(lingering(from), 1);
    peer_free(from);
    stage.notes_may_stay = true;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(no_request_passes_detached_tokens),
        STAGE_TEST(they_are_freed_long_before_their_time),
        STAGE_TEST(a_short_time_ends_first),
        STAGE_TEST(a_client_is_freed_with_them),
    };

    return STAGE_RUN(tests);
}

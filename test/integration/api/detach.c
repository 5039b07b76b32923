/* SPDX-License-Identifier: MIT */
/* lw_detach, lw_adopt and at_least_ms in every mode that has them: a lock stays in Redis
 * without its holder, and another client takes it over. Lost replies, losses and waiters
 * in between do not change that.
 *
 * Usual course: A holds and detaches; B waits; C adopts A's token, and releases; B
 * holds. */
#include "groups.h"
#include "players.h"
#include "proxy.h"

#include <stdio.h>
#include <string.h>

#define LONG_MS 600000

static const enum lw_mode modes[] = {LW_MUTEX, LW_EXCLUSIVE, LW_SHARED};
enum { MODES = sizeof(modes) / sizeof(modes[0]) };

static struct peer *a, *b, *c;

static void three_clients(void)
{
    a = peer_ready("a", NULL);
    b = peer_ready("b", NULL);
    c = peer_ready("c", NULL);
}

static const char *token_of(const struct hold *hold)
{
    static char texts[4][96];
    static int next;
    char *text = texts[next++ % 4];

    (void)snprintf(text, sizeof(texts[0]), "%s", lw_lock_token(hold->lock));
    assert_true(*text);
    return text;
}

static void assert_ttl(const char *name, long long ms)
{
    assert_int_in_range(redis_int("PTTL %s", name), ms - STAGE_WAIT_MS, ms);
}

/* Makes B wait for a lock that excludes it. */
static struct hold *wait_for(const char *name, enum lw_mode mode)
{
    enum lw_mode its = mode == LW_MUTEX ? LW_MUTEX : LW_EXCLUSIVE;
    struct hold *B = acquire_hold_with(b, "B", name, asking(.mode = its, .wait_ms = -1));

    UNTIL(redis_int("ZCARD lockwire:2:%s:{%s}", its == LW_MUTEX ? "queue" : "rwqueue",
                    name) == 1);
    return B;
}

/* ---- the life of a detached lock ---- */

static void a_detached_lock_is_adopted(void **state)
{
    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        struct hold *A = acquire_hold_with(a, "A", "x", asking(.mode = modes[i])), *B, *C,
                    *D;
        const char *token;
        uint64_t renewed;

        EXPECT("A granted");
        B = wait_for("x", modes[i]);
        token = token_of(A);
        renewed = peer_stats(a).renewed;
        detach_hold(A, LONG_MS);
        EXPECT("A detached OK");
        assert_ttl("x", LONG_MS);
        assert_int_equal(lw_lock_state(A->lock), LW_DONE);
        assert_string_equal(lw_lock_token(A->lock), token);
        C = adopt_hold(c, "C", "x", token, asking(.mode = modes[i]));
        EXPECT("C granted");
        assert_held_by_redis(C);
        assert_true(C->fence > A->fence);
        assert_string_not_equal(lw_lock_token(C->lock), token);
        D = adopt_hold(a, "D", "x", token, asking(.mode = modes[i]));
        EXPECT("D ENOTHELD");
        renew_hold(C, 0);
        EXPECT("C renewed OK");
        assert_int_equal(peer_stats(a).renewed, renewed);
        release_hold(C);
        EXPECT_SET("C released OK; B granted");
        assert_true(B->fence > C->fence);
        release_hold(B);
        EXPECT("B released OK");
        free_hold(A);
        free_hold(B);
        free_hold(C);
        free_hold(D);
        assert_int_equal(redis_int("EXISTS x"), 0);
    }
}

static void waiters_get_it_when_it_ends(void **state)
{
    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        struct hold *A =
            acquire_hold_with(a, "A", "x", asking(.mode = modes[i], .lease_ms = LONG_MS));
        struct hold *B;
        int64_t detached_ms;

        EXPECT("A granted");
        B = wait_for("x", modes[i]);
        detached_ms = now_ms();
        detach_hold(A, 700); /* shorter */
        EXPECT("A detached OK; B granted");
        assert_true(B->result_ms >= detached_ms + 700);
        release_hold(B);
        EXPECT("B released OK");
        free_hold(A);
        free_hold(B);
    }
}

/* Has the peer wait for a lock that ends by itself, later than one that is detached for
 * 100 ms and earlier than the next poll of a waiter that knows a long lease. */
static struct hold *wait_for_a_later_end(struct peer *peer, const char *label)
{
    redis_ok("SET y stranger PX 1500");
    return acquire_hold_with(peer, label, "y", asking(.wait_ms = -1));
}

/* The waiter has learnt of a long lease, and would poll after some 3 s. Its own client
 * requests y as well, so that the order of both grants is that of the two polls. */
static void a_waiter_polls_when_a_shortened_lease_ends(void **state)
{
    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        struct hold *A =
            acquire_hold_with(a, "A", "x", asking(.mode = modes[i], .lease_ms = LONG_MS));
        struct hold *B, *C;

        EXPECT("A granted");
        B = wait_for("x", modes[i]);
        detach_hold(A, 100);
        C = wait_for_a_later_end(b, "C");
        EXPECT("A detached OK; B granted; C granted");
        release_hold(B);
        EXPECT("B released OK");
        release_hold(C);
        EXPECT("C released OK");
        free_hold(A);
        free_hold(B);
        free_hold(C);
    }
}

static void a_waiter_polls_when_the_minimum_time_ends(void **state)
{
    struct hold *A, *B;

    (void)state;
    three_clients();
    A = acquire_hold_with(a, "A", "x", asking(.at_least_ms = 1000, .lease_ms = LONG_MS));
    EXPECT("A granted");
    B = wait_for("x", LW_MUTEX);
    release_hold(A);
    wait_for_a_later_end(b, "C");
    EXPECT("A released OK; B granted; C granted");
    assert_true(B->fence > A->fence);
}

/* No message reaches the client whose handle waits. The reply to that handle's request
 * has the short lease, since the request follows the detach. (The server knows both
 * scripts from a first round, since one that it does not know is sent again later.) */
static void a_waiter_of_the_same_client_knows_the_shortened_lease(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *far = peer_start_at("f", proxy->url, client_of(.local_turns = 16));
    struct hold *A, *B;

    (void)state;
    peer_wait_ready(far);
    three_clients();
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    B = wait_for("x", LW_MUTEX);
    detach_hold(A, 1);
    EXPECT("A detached OK; B granted");
    release_hold(B);
    EXPECT("B released OK");
    free_hold(B);
    A = acquire_hold_with(far, "A", "x", asking(.lease_ms = LONG_MS));
    EXPECT("A granted");
    acquire_hold(far, "B", "x", -1);
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, true);
    detach_hold(A, 100);
    wait_for_a_later_end(far, "C");
    EXPECT("A detached OK; B granted; C granted");
}

/* The lease would end, or be renewed, several times in that time. */
static void nothing_renews_it(void **state)
{
    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        struct hold *A =
            acquire_hold_with(a, "A", "x", asking(.mode = modes[i], .lease_ms = 300));
        struct hold *B;
        uint64_t renewed;
        int64_t detached_ms;

        EXPECT("A granted");
        UNTIL(peer_stats(a).renewed > 0);
        B = wait_for("x", modes[i]);
        renewed = peer_stats(a).renewed;
        detached_ms = now_ms();
        detach_hold(A, 1500); /* longer */
        EXPECT("A detached OK; B granted");
        assert_true(B->result_ms >= detached_ms + 1500);
        assert_int_equal(peer_stats(a).renewed, renewed);
        release_hold(B);
        EXPECT("B released OK");
        free_hold(A);
        free_hold(B);
    }
}

static void it_may_keep_its_lease(void **state)
{
    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        struct hold *A =
            acquire_hold_with(a, "A", "x", asking(.mode = modes[i], .lease_ms = LONG_MS));

        EXPECT("A granted");
        detach_hold(A, 0);
        EXPECT("A detached OK");
        assert_ttl("x", LONG_MS);
        redis_ok("DEL x lockwire:2:holder:{x}");
        free_hold(A);
    }
}

static void an_adopter_that_dies_leaves_it_for_its_lease(void **state)
{
    struct hold *A, *C;

    (void)state;
    three_clients();
    A = acquire_and_wait(a, "A", "x");
    detach_hold(A, 1000);
    EXPECT("A granted; A detached OK");
    C = adopt_hold(c, "C", "x", token_of(A), asking(.lease_ms = LONG_MS));
    EXPECT("C granted");
    peer_free(c); /* its lock expires with the lease */
    free_hold(C);
    assert_ttl("x", LONG_MS);
    redis_ok("DEL x lockwire:2:holder:{x}");
    stage.notes_may_stay = true;
}

static void owners_and_other_holds_stay(void **state)
{
    struct hold *A, *B, *C;

    (void)state;
    three_clients();
    A = acquire_hold_with(a, "A", "x", asking(.mode = LW_SHARED, .owner = "anna"));
    B = acquire_hold_with(b, "B", "x", asking(.mode = LW_SHARED, .owner = "anna"));
    EXPECT_SET("A granted; B granted");
    detach_hold(A, LONG_MS);
    EXPECT("A detached OK");
    C = adopt_hold(c, "C", "x", token_of(A), asking(.mode = LW_SHARED, .owner = "bob"));
    EXPECT("C EINVAL");
    assert_non_null(strstr(lw_lock_errstr(C->lock), "owner"));
    assert_int_equal(lw_lock_error(C->lock), LW_EINVAL);
    free_hold(C);
    C = adopt_hold(c, "C", "x", token_of(A), asking(.mode = LW_EXCLUSIVE));
    EXPECT("C EINVAL");
    free_hold(C);
    C = adopt_hold(c, "C", "x", token_of(A), asking(.mode = LW_SHARED));
    EXPECT("C granted");
    assert_string_equal(lw_lock_owner(C->lock), "anna");
    /* version 2: two holds, one owner that reads, no writer */
    assert_memory_equal(redis_text("HGET x mode"), "2 2 1 0 ", 8);
    release_hold(B);
    EXPECT("B released STILLHELD");
    release_hold(C);
    EXPECT("C released OK");
}

/* The owner of a hold without `owner` is its token. It stays when the token changes. */
static void a_default_owner_stays(void **state)
{
    struct hold *A, *C, *D;

    (void)state;
    three_clients();
    A = acquire_hold_with(a, "A", "x", asking(.mode = LW_EXCLUSIVE));
    EXPECT("A granted");
    detach_hold(A, LONG_MS);
    EXPECT("A detached OK");
    C = adopt_hold(c, "C", "x", token_of(A), asking(.mode = LW_EXCLUSIVE));
    EXPECT("C granted");
    assert_string_equal(lw_lock_owner(C->lock), token_of(A));
    detach_hold(C, LONG_MS);
    EXPECT("C detached OK");
    D = adopt_hold(b, "D", "x", token_of(C), asking(.mode = LW_EXCLUSIVE));
    EXPECT("D granted");
    assert_string_equal(lw_lock_owner(D->lock), token_of(A));
    release_hold(D);
    EXPECT("D released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
}

/* Interop: the token is the value of a plain key. */
static void a_plain_script_releases_it(void **state)
{
    struct hold *A;

    (void)state;
    three_clients();
    A = acquire_and_wait(a, "A", "x");
    detach_hold(A, LONG_MS);
    EXPECT("A granted; A detached OK");
    assert_int_equal(redis_int("EVAL %s 1 x %s",
                               "if redis.call('GET', KEYS[1]) == ARGV[1] then "
                               "return redis.call('DEL', KEYS[1]) end return 0",
                               token_of(A)),
                     1);
    adopt_hold(c, "C", "x", token_of(A), NULL);
    EXPECT("C ENOTHELD");
    redis_ok("DEL lockwire:2:holder:{x}"); /* that script leaves it until its TTL ends */
}

/* ---- calls that are refused ---- */

static void invalid_arguments_are_refused(void **state)
{
    static const char id[] = "3f1c0a9b-7d5e-4468-8a1b-0123456789ab";
    struct hold *A, *R;
    char token[96];

    (void)state;
    three_clients();
    A = acquire_and_wait(a, "A", "x");
    detach_refused(A, -1, LW_EINVAL, "keep_ms -1 is not between 0 and 2147483647");
    detach_refused(A, 1LL << 31, LW_EINVAL, "keep_ms 2147483648");
    assert_int_equal(lw_lock_state(A->lock), LW_HELD);
    R = acquire_hold_with(a, "R", "y", asking(.mode = LW_REDISSON));
    EXPECT("A granted; R granted");
    detach_refused(R, 0, LW_EINVAL, "LW_REDISSON cannot be detached");
    adopt_refused(a, "y", token_of(A), asking(.mode = LW_REDISSON), LW_EINVAL,
                  "LW_REDISSON cannot be adopted");
    adopt_refused(a, "y", token_of(R), NULL, LW_EINVAL, "a token of LW_REDISSON");
    adopt_refused(a, "x", NULL, NULL, LW_EINVAL, "token is NULL");
    adopt_refused(a, "x", "", NULL, LW_EINVAL, "token is empty");
    adopt_refused(a, "x", "nonsense", NULL, LW_EINVAL, "no lock token");
    adopt_refused(a, "", token_of(A), NULL, LW_EINVAL, "name");
    (void)snprintf(token, sizeof(token), "%s:7:2000", id);
    adopt_refused(a, "x", token, NULL, LW_EINVAL, "another version");
    for (int i = 0; i < 6; i++) {
        static const char *const rests[] = {":7:2000", ":7:02000-", ":7:-",
                                            "::2000-", ":7:2000- ", ":7:60001-"};

        (void)snprintf(token, sizeof(token), "%s%s%s", id, rests[i], i == 0 ? "--" : "");
        adopt_refused(a, "x", token, NULL, LW_EINVAL, "no lock token");
    }
    acquire_refused(a, "y", asking(.at_least_ms = 1000, .max_hold_ms = 999), LW_EINVAL,
                    "at_least_ms 1000 is above max_hold_ms 999");
    acquire_refused(a, "y", asking(.at_least_ms = 1u << 31), LW_EINVAL, "at_least_ms");
    acquire_refused(a, "y", asking(.at_least_ms = 1, .mode = LW_REDISSON), LW_EINVAL,
                    "LW_REDISSON");
    release_hold(A);
    release_hold(R);
    EXPECT_SET("A released OK; R released OK");
    detach_refused(A, 0, LW_ENOTHELD, "");
}

static void a_key_of_another_kind_is_not_adopted(void **state)
{
    struct hold *A, *B, *C;

    (void)state;
    three_clients();
    A = acquire_and_wait(a, "A", "x");
    B = acquire_hold_with(b, "B", "y", asking(.mode = LW_SHARED));
    EXPECT("A granted; B granted");
    detach_hold(A, LONG_MS);
    detach_hold(B, LONG_MS);
    EXPECT_SET("A detached OK; B detached OK");
    C = adopt_hold(c, "C", "x", token_of(A), asking(.mode = LW_SHARED));
    EXPECT("C EINVAL");
    assert_non_null(strstr(lw_lock_errstr(C->lock), "no read-write lock"));
    C = adopt_hold(c, "C", "y", token_of(B), NULL);
    EXPECT("C EINVAL");
    assert_non_null(strstr(lw_lock_errstr(C->lock), "no mutex"));
    adopt_hold(c, "C", "y", token_of(A), asking(.mode = LW_SHARED));
    EXPECT("C ENOTHELD"); /* the token of another name */
    assert_ttl("x", LONG_MS);
    assert_ttl("y", LONG_MS);
    redis_ok("DEL x y lockwire:2:holder:{x} lockwire:2:holder:{y}");
}

/* ---- losses, renewals, other handles of the client ---- */

static void what_is_lost_is_not_detached(void **state)
{
    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        struct hold *A = acquire_hold_with(a, "A", "x", asking(.mode = modes[i]));

        EXPECT("A granted");
        redis_ok("DEL x lockwire:2:holder:{x}");
        detach_hold(A, LONG_MS);
        EXPECT("A detached ENOTHELD");
        assert_int_equal(redis_int("EXISTS x"), 0);
        free_hold(A);
    }
}

static void a_pending_renewal_is_canceled(void **state)
{
    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        struct hold *A =
            acquire_hold_with(a, "A", "x", asking(.mode = modes[i], .lease_ms = LONG_MS));

        EXPECT("A granted");
        renew_hold(A, LONG_MS);
        detach_hold(A, 1000);
        EXPECT("A renewed ECANCELED; A detached OK");
        assert_true(redis_int("PTTL x") <= 1000); /* or it has expired */
        redis_ok("DEL x lockwire:2:holder:{x}");
        free_hold(A);
    }
}

/* After a release, another handle of the same client would get the lock locally. */
static void no_handle_of_the_client_gets_it(void **state)
{
    struct peer *many = peer_ready("m", client_of(.local_turns = 16));
    struct hold *A = acquire_hold_with(many, "A", "x", asking(.flags = LW_NO_FENCE)),
                *B = acquire_hold_with(many, "B", "x",
                                       asking(.flags = LW_NO_FENCE, .wait_ms = -1)),
                *C;

    (void)state;
    EXPECT("A granted");
    detach_hold(A, LONG_MS);
    EXPECT("A detached OK");
    wait_queued("x", 1);
    assert_int_equal(B->result, PENDING);
    C = acquire_hold(many, "C", "x", 0);
    EXPECT("C EBUSY");
    free_hold(C);
    C = adopt_hold(many, "C", "x", token_of(A), NULL);
    EXPECT("C granted");
    release_hold(C);
    EXPECT_SET("C released OK; B granted");
    assert_int_equal(peer_stats(many).passed, 0);
}

/* The client remembers the token for as long as a late message could release it. */
static void a_client_that_has_detached_closes_at_once(void **state)
{
    struct peer *slow =
        peer_ready("s", client_of(.close_timeout_ms = 10 * STAGE_WAIT_MS));
    struct hold *A = acquire_and_wait(slow, "A", "x"),
                *B = acquire_and_wait(slow, "B", "y");

    (void)state;
    EXPECT("A granted; B granted");
    detach_hold(A, LONG_MS);
    detach_hold(B, 0);
    EXPECT_SET("A detached OK; B detached OK");
    peer_close(slow);
    EXPECT("s closed");
    redis_ok("DEL x y lockwire:2:holder:{x} lockwire:2:holder:{y}");
}

/* Until the detach is answered, calls on the handle are refused as during a release. */
static void calls_while_it_is_detached(void **state)
{
    struct hold *A;

    (void)state;
    three_clients();
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    detach_hold(A, LONG_MS);
    release_refused(A, LW_EINVAL);
    detach_refused(A, 0, LW_EINVAL, "");
    renew_refused(A, 0, LW_EINVAL);
    EXPECT("A detached OK");
    release_refused(A, LW_ENOTHELD);
    assert_ttl("x", LONG_MS);
    redis_ok("DEL x lockwire:2:holder:{x}");
}

static void the_client_closes_or_ends(void **state)
{
    struct hold *A;
    const char *token;

    (void)state;
    three_clients();
    A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    token = token_of(A);
    detach_hold(A, LONG_MS);
    peer_close(a);
    EXPECT("A detached OK; a closed");
    assert_ttl("x", LONG_MS);
    A = adopt_hold(b, "A", "x", token, NULL);
    EXPECT("A granted");
    token = token_of(A);
    detach_hold(A, LONG_MS);
    free_hold(A); /* finishes silently */
    UNTIL(redis_int("PTTL x") > LONG_MS - STAGE_WAIT_MS);
    adopt_hold(b, "A", "x", token, NULL);
    EXPECT("A granted");
}

/* A former master lacks the keys, and a reply of its cannot end anything: the commands
 * succeed at the master that it becomes again. */
static void what_a_stale_replica_lacks_is_not_lost(void **state)
{
    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        struct hold *A = acquire_hold_with(a, "A", "x", asking(.mode = modes[i])), *B, *C;
        const char *token;

        EXPECT("A granted");
        token = token_of(A);
        detach_hold(A, LONG_MS);
        EXPECT("A detached OK");
        B = acquire_hold_with(b, "B", "y", asking(.mode = modes[i], .lease_ms = LONG_MS));
        EXPECT("B granted");
        redis_ok("RENAME x kept:x");
        redis_ok("RENAME y kept:y");
        redis_ok("REPLICAOF 127.0.0.1 1");
        C = adopt_hold(c, "C", "x", token, asking(.mode = modes[i], .wait_ms = -1));
        detach_hold(B, LONG_MS);
        UNTIL(!b->up && !c->up); /* they know that it is a replica */
        redis_ok("REPLICAOF NO ONE");
        redis_ok("RENAME kept:x x");
        redis_ok("RENAME kept:y y");
        EXPECT_SET("C granted; B detached OK");
        release_hold(C);
        EXPECT("C released OK");
        free_hold(A);
        free_hold(B);
        free_hold(C);
        redis_int("DEL y lockwire:2:holder:{y}");
        UNTIL(a->up && b->up && c->up);
    }
}

/* ---- replies that do not come ---- */

/* Makes the server know the scripts, so that it executes them when they are first
 * sent. */
static void teach(enum lw_mode mode)
{
    struct hold *A = acquire_hold_with(a, "A", "taught", asking(.mode = mode)), *C;

    EXPECT("A granted");
    detach_hold(A, LONG_MS);
    EXPECT("A detached OK");
    C = adopt_hold(c, "C", "taught", token_of(A), asking(.mode = mode));
    EXPECT("C granted");
    release_hold(C);
    EXPECT("C released OK");
    free_hold(A);
    free_hold(C);
}

static struct peer *behind(struct proxy *proxy, const char *label)
{
    struct peer *peer = peer_start_at(
        label, proxy->url,
        client_of(.local_turns = 1, .backoff_min_ms = 10, .backoff_max_ms = 50));

    peer_wait_ready(peer);
    return peer;
}

static void a_lost_reply_to_a_detach(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);

    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        teach(modes[i]);
    }
    for (int i = 0; i < MODES; i++) {
        struct peer *far = behind(proxy, "f");
        struct hold *A = acquire_hold_with(far, "A", "x", asking(.mode = modes[i]));

        EXPECT("A granted");
        proxy_swallow(proxy, COMMANDS, TO_CLIENT, true);
        detach_hold(A, LONG_MS);
        UNTIL(redis_int("PTTL x") > LONG_MS - STAGE_WAIT_MS); /* executed */
        proxy_swallow(proxy, COMMANDS, TO_CLIENT, false);
        proxy_cut(proxy, COMMANDS);
        EXPECT("A detached OK");
        assert_ttl("x", LONG_MS);
        redis_ok("DEL x lockwire:2:holder:{x}");
        free_hold(A);
        peer_free(far);
        stage.notes_may_stay = true;
    }
}

/* The detach, sent again, finds that the token is gone. Whether it was detached is
 * unknown. */
static void a_lost_reply_and_an_adopter_in_between(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);

    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        teach(modes[i]);
    }
    for (int i = 0; i < MODES; i++) {
        struct peer *far = behind(proxy, "f");
        struct hold *A = acquire_hold_with(far, "A", "x", asking(.mode = modes[i])), *C;

        EXPECT("A granted");
        proxy_swallow(proxy, COMMANDS, TO_CLIENT, true);
        detach_hold(A, 300000);
        UNTIL(redis_int("PTTL x") > 300000 - STAGE_WAIT_MS);
        C = adopt_hold(c, "C", "x", token_of(A),
                       asking(.mode = modes[i], .lease_ms = LONG_MS));
        EXPECT("C granted");
        proxy_swallow(proxy, COMMANDS, TO_CLIENT, false);
        proxy_cut(proxy, COMMANDS);
        EXPECT("A detached ENOTHELD");
        assert_ttl("x", LONG_MS); /* the adopter's lease is whole */
        assert_held_by_redis(C);
        release_hold(C);
        EXPECT("C released OK");
        free_hold(A);
        free_hold(C);
        peer_free(far);
        stage.notes_may_stay = true;
    }
}

static void a_lost_reply_to_an_adoption(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);

    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        teach(modes[i]);
    }
    for (int i = 0; i < MODES; i++) {
        struct peer *far = behind(proxy, "f");
        struct hold *A = acquire_hold_with(a, "A", "x", asking(.mode = modes[i])), *C;
        const char *token;

        EXPECT("A granted");
        token = token_of(A);
        detach_hold(A, LONG_MS);
        EXPECT("A detached OK");
        proxy_swallow(proxy, COMMANDS, TO_CLIENT, true);
        C = adopt_hold(far, "C", "x", token, asking(.mode = modes[i], .wait_ms = -1));
        if (modes[i] == LW_MUTEX) {
            UNTIL(strcmp(redis_text("GET x"), token) != 0);
        } else {
            UNTIL(redis_int("HEXISTS x h:%s", token) == 0);
        }
        proxy_swallow(proxy, COMMANDS, TO_CLIENT, false);
        proxy_cut(proxy, COMMANDS);
        EXPECT("C granted");
        assert_held_by_redis(C);
        release_hold(C);
        EXPECT("C released OK");
        assert_int_equal(redis_int("EXISTS x"), 0);
        free_hold(A);
        free_hold(C);
        peer_free(far);
        stage.notes_may_stay = true;
    }
}

/* If a handle that adopts is freed before the reply, the lock is released. */
static void an_adoption_that_was_given_up_is_released(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *far = behind(proxy, "f");
    struct hold *A, *C;

    (void)state;
    three_clients();
    A = acquire_and_wait(a, "A", "x");
    detach_hold(A, LONG_MS);
    EXPECT("A granted; A detached OK");
    proxy_hold(proxy, COMMANDS, TO_SERVER, true);
    C = adopt_hold(far, "C", "x", token_of(A), asking(.wait_ms = -1));
    stage_run_for(20);
    free_hold(C);
    proxy_hold(proxy, COMMANDS, TO_SERVER, false);
    UNTIL(redis_int("EXISTS x") == 0);
}

/* The grant arrives too late to be used: the same token is requested again. */
static void a_late_grant_is_asked_for_again(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *far = behind(proxy, "f");
    struct hold *A, *C;

    (void)state;
    three_clients();
    A = acquire_and_wait(a, "A", "x");
    detach_hold(A, LONG_MS);
    EXPECT("A granted; A detached OK");
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    C = adopt_hold(far, "C", "x", token_of(A), asking(.wait_ms = -1, .lease_ms = 500));
    stage_run_for(600);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    EXPECT("C granted");
    assert_held_by_redis(C);
    release_hold(C);
    EXPECT("C released OK");
}

/* The hand-over message arrives after the token was detached. A message for any other
 * token without a handle would release the lock. */
static void a_late_message_does_not_release_it(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);

    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        struct peer *far = behind(proxy, "f");
        struct hold *A = acquire_hold_with(
                        a, "A", "x",
                        asking(.mode = modes[i] == LW_MUTEX ? LW_MUTEX : LW_EXCLUSIVE,
                               .lease_ms = 1000)),
                    *B;
        int messages = proxy->messages;

        EXPECT("A granted");
        B = acquire_hold_with(far, "B", "x", asking(.mode = modes[i], .wait_ms = -1));
        UNTIL(redis_int("ZCARD lockwire:2:%s:{x}",
                        modes[i] == LW_MUTEX ? "queue" : "rwqueue") == 1);
        proxy_hold(proxy, SUBSCRIPTION, TO_CLIENT, true);
        release_hold(A);
        EXPECT_SET("A released OK; B granted"); /* B polls */
        detach_hold(B, LONG_MS);
        EXPECT("B detached OK");
        proxy_hold(proxy, SUBSCRIPTION, TO_CLIENT, false);
        UNTIL(proxy->messages > messages);
        /* This grant comes after any effect of the message. */
        B = acquire_hold_with(far, "B", "y", asking(.wait_ms = -1));
        EXPECT("B granted");
        release_hold(B);
        EXPECT("B released OK");
        assert_ttl("x", LONG_MS);
        redis_ok("DEL x lockwire:2:holder:{x}");
        free_hold(A);
        peer_free(far);
        stage.notes_may_stay = true;
    }
}

/* The hold has ended for its caller, and the lock expires with its lease. */
static void a_server_that_refuses(void **state)
{
    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        struct hold *A = acquire_hold_with(a, "A", "x", asking(.mode = modes[i])), *C;

        EXPECT("A granted");
        redis_ok("ACL SETUSER default -pexpire");
        detach_hold(A, LONG_MS);
        EXPECT("A detached EREDIS");
        assert_true(*lw_lock_errstr(A->lock));
        assert_int_equal(lw_lock_error(A->lock), LW_EREDIS);
        assert_ttl("x", 30000);
        C = adopt_hold(c, "C", "x", token_of(A), asking(.mode = modes[i], .wait_ms = -1));
        EXPECT("C EREDIS");
        redis_ok("ACL SETUSER default +pexpire");
        free_hold(C);
        C = adopt_hold(c, "C", "x", token_of(A), asking(.mode = modes[i]));
        EXPECT("C granted");
        release_hold(C);
        EXPECT("C released OK");
        free_hold(A);
        free_hold(C);
    }
}

/* A token that was not detached: its process has died. */
static void the_token_of_a_dead_process_is_adopted(void **state)
{
    struct hold *A, *C;
    const char *token;

    (void)state;
    three_clients();
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = LONG_MS));
    EXPECT("A granted");
    token = token_of(A);
    peer_free(a);
    free_hold(A);
    C = adopt_hold(c, "C", "x", token, NULL);
    EXPECT("C granted");
    release_hold(C);
    EXPECT("C released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
    stage.notes_may_stay = true;
}

/* As after a break: the holder learns of it when it renews. */
static void the_token_of_a_living_holder_is_adopted(void **state)
{
    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        struct hold *A = acquire_hold_with(a, "A", "x", asking(.mode = modes[i])), *C;

        EXPECT("A granted");
        C = adopt_hold(c, "C", "x", token_of(A), asking(.mode = modes[i]));
        EXPECT("C granted");
        renew_hold(A, 0);
        EXPECT("A lost ENOTHELD; A renewed ELOST");
        assert_held_by_redis(C);
        release_hold(C);
        EXPECT("C released OK");
        free_hold(A);
        free_hold(C);
    }
}

static void without_a_server(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *far = behind(proxy, "f");
    struct hold *A, *C, *D;

    (void)state;
    three_clients();
    A = acquire_and_wait(a, "A", "x");
    detach_hold(A, LONG_MS);
    EXPECT("A granted; A detached OK");
    proxy_refuse(proxy, true);
    proxy_cut(proxy, COMMANDS);
    UNTIL(!far->up);
    C = adopt_hold(far, "C", "x", token_of(A), NULL);
    EXPECT("C ECONN");
    D = adopt_hold(far, "D", "x", token_of(A), asking(.wait_ms = -1));
    proxy_refuse(proxy, false);
    EXPECT("D granted");
    free_hold(C);
    release_hold(D);
    EXPECT("D released OK");
}

/* ---- at_least_ms ---- */

static void a_lock_is_held_for_a_minimum_time(void **state)
{
    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        struct hold *A =
            acquire_hold_with(a, "A", "x", asking(.mode = modes[i], .at_least_ms = 1200));
        struct hold *B;
        int64_t asked_ms = now_ms();

        EXPECT("A granted");
        B = wait_for("x", modes[i]);
        release_hold(A);
        EXPECT("A released OK; B granted");
        assert_true(B->result_ms >= asked_ms + 1200);
        release_hold(B);
        EXPECT("B released OK");
        free_hold(A);
        free_hold(B);
    }
}

static void after_the_minimum_time_it_is_released(void **state)
{
    struct hold *A;

    (void)state;
    three_clients();
    for (int i = 0; i < MODES; i++) {
        A = acquire_hold_with(a, "A", "x", asking(.mode = modes[i], .at_least_ms = 50));
        EXPECT("A granted");
        stage_run_for(60);
        release_hold(A);
        EXPECT("A released OK");
        assert_int_equal(redis_int("EXISTS x"), 0);
        free_hold(A);
    }
}

static void freed_and_closed_it_stays_as_well(void **state)
{
    struct hold *A;

    (void)state;
    three_clients();
    A = acquire_hold_with(a, "A", "x", asking(.at_least_ms = LONG_MS));
    EXPECT("A granted");
    free_hold(A);
    UNTIL(redis_int("PTTL x") > LONG_MS - STAGE_WAIT_MS);
    A = acquire_hold(a, "A", "x", 0);
    EXPECT("A EBUSY");
    assert_true(lw_lock_retry_ms(A->lock) > LONG_MS - STAGE_WAIT_MS);
    free_hold(A);
    acquire_hold_with(b, "B", "y", asking(.at_least_ms = LONG_MS));
    EXPECT("B granted");
    peer_close(b);
    EXPECT("b closed");
    assert_ttl("y", LONG_MS);
    redis_ok("DEL x y lockwire:2:holder:{x} lockwire:2:holder:{y}");
}

static void a_grant_that_is_not_delivered_does_not_count(void **state)
{
    struct hold *A;

    (void)state;
    three_clients();
    A = acquire_hold_with(a, "A", "x", asking(.at_least_ms = LONG_MS));
    free_hold(A);
    A = acquire_and_wait(b, "A", "x");
    EXPECT("A granted");
    release_hold(A);
    EXPECT("A released OK");
}

/* The next handle of the client has a minimum of its own, or none. */
static void handles_of_one_client_wait_as_well(void **state)
{
    struct peer *many = peer_ready("m", client_of(.local_turns = 16));
    int64_t asked_ms = now_ms();
    struct hold *A = acquire_hold_with(many, "A", "x", asking(.at_least_ms = 1000)),
                *B = acquire_hold(many, "B", "x", -1), *C;

    (void)state;
    EXPECT("A granted");
    release_hold(A);
    EXPECT("A released OK; B granted");
    assert_true(B->result_ms >= asked_ms + 1000);
    C = acquire_hold(many, "C", "x", -1);
    release_hold(B);
    EXPECT_SET("B released OK; C granted");
    release_hold(C);
    EXPECT("C released OK");
    assert_int_equal(redis_int("EXISTS x"), 0);
}

static void a_detach_for_less_keeps_the_minimum(void **state)
{
    struct hold *A;

    (void)state;
    three_clients();
    A = acquire_hold_with(a, "A", "x", asking(.at_least_ms = LONG_MS));
    EXPECT("A granted");
    detach_hold(A, 10);
    EXPECT("A detached OK");
    assert_ttl("x", LONG_MS);
    redis_ok("DEL x lockwire:2:holder:{x}");
    A = acquire_hold_with(a, "A", "x", asking(.at_least_ms = LONG_MS, .lease_ms = 1000));
    EXPECT("A granted");
    detach_hold(A, 0);
    EXPECT("A detached OK");
    assert_ttl("x", LONG_MS);
    redis_ok("DEL x lockwire:2:holder:{x}");
}

static void a_keep_holds_for_a_minimum_time(void **state)
{
    struct lw_keep *keep = NULL;

    (void)state;
    three_clients();
    assert_int_equal(lw_keep_new(a->client, "x", asking(.at_least_ms = LONG_MS), NULL,
                                 NULL, NULL, &keep),
                     0);
    UNTIL(lw_lock_state(lw_keep_lock(keep)) == LW_HELD);
    lw_keep_free(keep);
    UNTIL(redis_int("PTTL x") > LONG_MS - STAGE_WAIT_MS);
    redis_ok("DEL x lockwire:2:holder:{x}");
}

static int all_status;

static void on_all(struct lw_all *all, int status, void *arg)
{
    (void)all, (void)arg;
    all_status = status;
}

/* at_least_ms does not apply to names that were held only during a failed acquisition. */
static void names_acquired_as_one_count_together(void **state)
{
    static const char *const names[] = {"x", "y", "z"};
    struct lw_all *all = NULL;
    struct hold *B;

    (void)state;
    three_clients();
    B = acquire_and_wait(b, "B", "y");
    EXPECT("B granted");
    all_status = PENDING;
    assert_int_equal(lw_acquire_all(a->client, names, 3, asking(.at_least_ms = LONG_MS),
                                    on_all, NULL, NULL, &all),
                     0);
    UNTIL(all_status == LW_EBUSY);
    lw_all_free(all);
    UNTIL(redis_int("EXISTS x z") == 0);
    release_hold(B);
    EXPECT("B released OK");
    all_status = PENDING;
    assert_int_equal(lw_acquire_all(a->client, names, 3, asking(.at_least_ms = LONG_MS),
                                    on_all, NULL, NULL, &all),
                     0);
    UNTIL(all_status == LW_OK);
    all_status = PENDING;
    assert_int_equal(lw_all_release(all, on_all, NULL), 0);
    UNTIL(all_status == LW_OK);
    for (int i = 0; i < 3; i++) {
        assert_ttl(names[i], LONG_MS);
    }
    lw_all_free(all);
    redis_ok(
        "DEL x y z lockwire:2:holder:{x} lockwire:2:holder:{y} lockwire:2:holder:{z}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_detached_lock_is_adopted),
        STAGE_TEST(waiters_get_it_when_it_ends),
        STAGE_TEST(a_waiter_polls_when_a_shortened_lease_ends),
        STAGE_TEST(a_waiter_polls_when_the_minimum_time_ends),
        STAGE_TEST(a_waiter_of_the_same_client_knows_the_shortened_lease),
        STAGE_TEST(nothing_renews_it),
        STAGE_TEST(it_may_keep_its_lease),
        STAGE_TEST(an_adopter_that_dies_leaves_it_for_its_lease),
        STAGE_TEST(owners_and_other_holds_stay),
        STAGE_TEST(a_default_owner_stays),
        STAGE_TEST(a_plain_script_releases_it),
        STAGE_TEST(invalid_arguments_are_refused),
        STAGE_TEST(a_key_of_another_kind_is_not_adopted),
        STAGE_TEST(what_is_lost_is_not_detached),
        STAGE_TEST(a_pending_renewal_is_canceled),
        STAGE_TEST(no_handle_of_the_client_gets_it),
        STAGE_TEST(a_client_that_has_detached_closes_at_once),
        STAGE_TEST(calls_while_it_is_detached),
        STAGE_TEST(the_client_closes_or_ends),
        STAGE_TEST(what_a_stale_replica_lacks_is_not_lost),
        STAGE_TEST(a_lost_reply_to_a_detach),
        STAGE_TEST(a_lost_reply_and_an_adopter_in_between),
        STAGE_TEST(a_lost_reply_to_an_adoption),
        STAGE_TEST(an_adoption_that_was_given_up_is_released),
        STAGE_TEST(a_late_grant_is_asked_for_again),
        STAGE_TEST(a_late_message_does_not_release_it),
        STAGE_TEST(a_server_that_refuses),
        STAGE_TEST(the_token_of_a_dead_process_is_adopted),
        STAGE_TEST(the_token_of_a_living_holder_is_adopted),
        STAGE_TEST(without_a_server),
        STAGE_TEST(a_lock_is_held_for_a_minimum_time),
        STAGE_TEST(after_the_minimum_time_it_is_released),
        STAGE_TEST(freed_and_closed_it_stays_as_well),
        STAGE_TEST(a_grant_that_is_not_delivered_does_not_count),
        STAGE_TEST(handles_of_one_client_wait_as_well),
        STAGE_TEST(a_detach_for_less_keeps_the_minimum),
        STAGE_TEST(a_keep_holds_for_a_minimum_time),
        STAGE_TEST(names_acquired_as_one_count_together),
    };

    return STAGE_RUN(tests);
}

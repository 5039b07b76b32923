/* SPDX-License-Identifier: MIT */
/* The header's table of calls by state, cell by cell: lw_release, lw_detach, lw_renew and
 * lw_lock_free in LW_WAITING, LW_RELEASING, LW_LOST, LW_DONE, and on inert handles.
 * LW_HELD is in states_held.c. Relies only on what the header says about states.
 *
 * Usual course: a test brings a handle into a state, calls a function, and compares its
 * result. */
#include "players.h"
#include "proxy.h"

static struct peer *a, *b;

/* ---- the ways into each state ---- */

static struct hold *waiting(void)
{
    a = peer_ready("a", NULL);
    b = peer_ready("b", NULL);
    acquire_and_wait(b, "B", "x");
    struct hold *A = acquire_hold(a, "A", "x", -1);
    EXPECT("B granted");
    wait_queued("x", 1);
    return A;
}

static struct hold *held(void)
{
    a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    return A;
}

static struct hold *releasing(void)
{
    struct hold *A = held();
    release_hold(A);
    return A;
}

static struct hold *lost(void)
{
    a = peer_ready("a", NULL);
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.lease_ms = 200, .flags = LW_NO_RENEW));
    EXPECT("A granted; A lost ELOST");
    return A;
}

static struct hold *released(void)
{
    struct hold *A = releasing();
    EXPECT("A released OK");
    return A;
}

static struct hold *failed(void)
{
    a = peer_ready("a", NULL);
    b = peer_ready("b", NULL);
    acquire_and_wait(b, "B", "x");
    struct hold *A = acquire_hold(a, "A", "x", 0);
    EXPECT("B granted; A EBUSY");
    return A;
}

static struct hold *timed_out(void)
{
    a = peer_ready("a", NULL);
    b = peer_ready("b", NULL);
    acquire_and_wait(b, "B", "x");
    struct hold *A = acquire_hold(a, "A", "x", 50);
    EXPECT("B granted; A ETIMEOUT");
    return A;
}

static void assert_state(const struct hold *hold, enum lw_state state)
{
    assert_int_equal(lw_lock_state(hold->lock), state);
}

/* ---- LW_WAITING ---- */

static void waiting_release_is_EINVAL(void **state)
{
    struct hold *A = waiting();

    (void)state;
    release_refused(A, LW_EINVAL);
    detach_refused(A, 0, LW_EINVAL, "");
    assert_state(A, LW_WAITING);
    stage_expect_nothing(50);
    assert_int_equal(redis_int("ZCARD %s", queue_of("x")), 1);
}

static void waiting_renew_is_EINVAL(void **state)
{
    struct hold *A = waiting();

    (void)state;
    renew_refused(A, 0, LW_EINVAL);
    renew_refused(A, 1000, LW_EINVAL);
    assert_state(A, LW_WAITING);
    stage_expect_nothing(50);
}

static void waiting_free_leaves(void **state)
{
    struct hold *A = waiting();

    (void)state;
    free_hold(A);
    UNTIL(redis_int("EXISTS %s", queue_of("x")) == 0);
    stage_expect_nothing(50);
}

static void waiting_free_gives_a_late_grant_back(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);

    (void)state;
    a = peer_start_at("a", proxy->url, NULL);
    peer_wait_ready(a);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    struct hold *A = acquire_hold(a, "A", "x", -1);
    UNTIL(redis_int("EXISTS x") == 1);
    free_hold(A);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
    UNTIL(redis_int("EXISTS x") == 0);
    stage_expect_nothing(50);
}

static void waiting_free_gives_a_grant_by_message_to_the_next(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *c = peer_ready("c", NULL);

    (void)state;
    a = peer_start_at("a", proxy->url, client_of(.local_turns = 1, .claim_ms = 60000));
    peer_wait_ready(a);
    struct hold *C = acquire_and_wait(c, "C", "x"), *A = acquire_hold(a, "A", "x", -1);
    wait_queued("x", 1);
    struct hold *D = acquire_hold(c, "D", "x", -1);
    wait_queued("x", 2);
    proxy_hold(proxy, SUBSCRIPTION, TO_CLIENT, true);
    release_hold(C);
    /* the lock has been handed over to A, which does not know it yet */
    EXPECT("C granted; C released OK");
    free_hold(A);
    proxy_hold(proxy, SUBSCRIPTION, TO_CLIENT, false);
    EXPECT("D granted");
    assert_held_by_redis(D);
}

/* ---- LW_RELEASING ---- */

static void releasing_release_is_EINVAL(void **state)
{
    struct hold *A = releasing();

    (void)state;
    release_refused(A, LW_EINVAL);
    detach_refused(A, 0, LW_EINVAL, "");
    EXPECT("A released OK");
    stage_expect_nothing(50);
}

static void releasing_renew_is_EINVAL(void **state)
{
    struct hold *A = releasing();

    (void)state;
    renew_refused(A, 0, LW_EINVAL);
    EXPECT("A released OK");
    stage_expect_nothing(50);
}

static void releasing_free_finishes_silently(void **state)
{
    struct hold *A = releasing();

    (void)state;
    free_hold(A);
    UNTIL(redis_int("EXISTS x") == 0);
    stage_expect_nothing(50);
}

/* ---- LW_LOST and the ways into LW_DONE ---- */

static void ended_release_and_renew_are_ENOTHELD_and_free_forgets(struct hold *A,
                                                                  enum lw_state state)
{
    assert_state(A, state);
    release_refused(A, LW_ENOTHELD);
    detach_refused(A, 0, LW_ENOTHELD, "");
    renew_refused(A, 0, LW_ENOTHELD);
    renew_refused(A, 1000, LW_ENOTHELD);
    assert_state(A, state);
    assert_int_equal(lw_lock_remaining_ms(A->lock), 0);
    assert_string_equal(lw_lock_name(A->lock), "x");
    stage_expect_nothing(30);
    free_hold(A);
    stage_expect_nothing(30);
}

static void lost_release_and_renew_are_ENOTHELD_and_free_forgets(void **state)
{
    struct hold *A = lost();

    (void)state;
    UNTIL(lw_lock_remaining_ms(A->lock) == 0);
    ended_release_and_renew_are_ENOTHELD_and_free_forgets(A, LW_LOST);
}

static void done_by_release_is_ENOTHELD_and_free_forgets(void **state)
{
    (void)state;
    ended_release_and_renew_are_ENOTHELD_and_free_forgets(released(), LW_DONE);
}

static void done_by_EBUSY_is_ENOTHELD_and_free_forgets(void **state)
{
    (void)state;
    ended_release_and_renew_are_ENOTHELD_and_free_forgets(failed(), LW_DONE);
}

static void done_by_ETIMEOUT_is_ENOTHELD_and_free_forgets(void **state)
{
    (void)state;
    ended_release_and_renew_are_ENOTHELD_and_free_forgets(timed_out(), LW_DONE);
}

/* ---- inert handles ---- */

static void assert_inert(struct hold *hold)
{
    assert_state(hold, LW_DONE);
    release_refused(hold, LW_ECLOSED);
    detach_refused(hold, 0, LW_ECLOSED, "");
    renew_refused(hold, 0, LW_ECLOSED);
    assert_int_equal(lw_lock_remaining_ms(hold->lock), 0);
    assert_string_equal(lw_lock_name(hold->lock), "x");
    assert_non_null(lw_lock_owner(hold->lock));
    assert_non_null(lw_lock_errstr(hold->lock));
    lw_lock_fence(hold->lock);
    assert_int_equal(lw_lock_retry_ms(hold->lock), 0);
}

static void client_freed_makes_every_handle_inert(struct hold *hold)
{
    peer_free(a);
    assert_inert(hold);
    stage_expect_nothing(30);
    assert_inert(hold);
    free_hold(hold);
    stage.keys_may_stay = true;
}

static void client_freed_while_waiting_ECLOSED(void **state)
{
    struct hold *hold = waiting();

    (void)state;
    assert_int_equal(lw_lock_retry_ms(hold->lock), 0);
    client_freed_makes_every_handle_inert(hold);
}

static void client_freed_while_held_ECLOSED(void **state)
{
    (void)state;
    client_freed_makes_every_handle_inert(held());
}

static void client_freed_while_releasing_ECLOSED(void **state)
{
    struct hold *A = releasing();

    (void)state;
    A->releasing = false;
    client_freed_makes_every_handle_inert(A);
}

static void client_freed_when_lost_ECLOSED(void **state)
{
    (void)state;
    client_freed_makes_every_handle_inert(lost());
}

static void client_freed_when_done_ECLOSED(void **state)
{
    (void)state;
    client_freed_makes_every_handle_inert(released());
}

/* A closed client exists until it is freed, so the table's column LW_DONE applies. */
static void client_closed_is_done_and_client_freed_is_ECLOSED(void **state)
{
    struct hold *A = held();
    struct lw_lock *lock = NULL;

    (void)state;
    peer_close(a);
    assert_state(A, LW_DONE);
    release_refused(A, LW_ENOTHELD);
    renew_refused(A, 0, LW_ENOTHELD);
    detach_refused(A, 0, LW_ENOTHELD, "");
    assert_int_equal(lw_acquire(a->client, "y", NULL, NULL, NULL, &lock), LW_ECLOSED);
    assert_int_equal(lw_adopt(a->client, "y", "", NULL, NULL, NULL, &lock), LW_ECLOSED);
    assert_null(lock);
    assert_int_equal(lw_client_close(a->client, NULL, NULL), LW_ECLOSED);
    EXPECT("a closed");
    release_refused(A, LW_ENOTHELD);
    assert_int_equal(lw_client_close(a->client, NULL, NULL), LW_ECLOSED);
    peer_free(a);
    assert_inert(A);
}

static void destructors_take_NULL(void **state)
{
    (void)state;
    lw_lock_free(NULL);
    lw_client_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(waiting_release_is_EINVAL),
        STAGE_TEST(waiting_renew_is_EINVAL),
        STAGE_TEST(waiting_free_leaves),
        STAGE_TEST(waiting_free_gives_a_late_grant_back),
        STAGE_TEST(waiting_free_gives_a_grant_by_message_to_the_next),
        STAGE_TEST(releasing_release_is_EINVAL),
        STAGE_TEST(releasing_renew_is_EINVAL),
        STAGE_TEST(releasing_free_finishes_silently),
        STAGE_TEST(lost_release_and_renew_are_ENOTHELD_and_free_forgets),
        STAGE_TEST(done_by_release_is_ENOTHELD_and_free_forgets),
        STAGE_TEST(done_by_EBUSY_is_ENOTHELD_and_free_forgets),
        STAGE_TEST(done_by_ETIMEOUT_is_ENOTHELD_and_free_forgets),
        STAGE_TEST(client_freed_while_waiting_ECLOSED),
        STAGE_TEST(client_freed_while_held_ECLOSED),
        STAGE_TEST(client_freed_while_releasing_ECLOSED),
        STAGE_TEST(client_freed_when_lost_ECLOSED),
        STAGE_TEST(client_freed_when_done_ECLOSED),
        STAGE_TEST(client_closed_is_done_and_client_freed_is_ECLOSED),
        STAGE_TEST(destructors_take_NULL),
    };

    return STAGE_RUN(tests);
}

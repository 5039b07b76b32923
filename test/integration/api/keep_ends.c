/* SPDX-License-Identifier: MIT */
/* How a keep begins and ends: what lw_keep_new refuses; lw_keep_free in every state and
 * callback; the client's end before the keep's. Independent of what the library stores
 * for a keep.
 *
 * Usual course: a keep in some state, its end; no callback follows, and nothing stays. */
#include "child.h"
#include "keep_scene.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>

/* ---- refused calls ---- */

static void on_lost_of_a_lock(struct lw_lock *lock, int reason, void *arg)
{
    (void)lock;
    (void)reason;
    (void)arg;
    stage_complain("an option's `lost` was called");
}

static void bad_options_are_refused_with_a_text(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct lw_keep *keep = NULL;

    (void)state;
    keeper_refused(a, NULL, NULL, LW_EINVAL, "name is NULL");
    keeper_refused(a, "x", asking(.lost = on_lost_of_a_lock), LW_EINVAL, "options.lost");
    keeper_refused(a, "x", asking(.wait_ms = 5000), LW_EINVAL, "wait_ms 5000");
    keeper_refused(a, "x", asking(.wait_ms = -2), LW_EINVAL, "wait_ms -2");
    keeper_refused(a, "x", asking(.lease_ms = 99), LW_EINVAL, "lease_ms 99");
    keeper_refused(a, "x", asking(.owner = "me"), LW_EINVAL, "owner is given");
    assert_int_equal(lw_keep_new(a->client, "x", NULL, NULL, NULL, NULL, NULL),
                     LW_EINVAL);
    assert_string_equal(a->error, "ret is NULL");
    assert_null(keep);
    stage_expect_nothing(50);
    assert_int_equal(redis_int("EXISTS x"), 0);
}

static void options_of_other_versions_are_judged_by_their_size(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct {
        struct lw_acquire_options options;
        uint64_t field;
    } later = {.options = LW_ACQUIRE_OPTIONS_INIT, .field = 1};
    struct lw_acquire_options none = {.size = 0};

    (void)state;
    later.options.size = sizeof(later);
    keeper_refused(a, "x", &later.options, LW_EINVAL, "newer version");
    keeper_refused(a, "x", &none, LW_EINVAL, "too small");
    later.field = 0;
    keeper_free(keeper_start(a, "K", "x", &later.options));
    none.size = offsetof(struct lw_acquire_options, lease_ms); /* an earlier version's */
    none.lease_ms = 1;
    keeper_start(a, "L", "y", &none);
    EXPECT("L gained");
}

static void wait_ms_of_minus_one_is_what_it_does(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    keeper_start(a, "K", "x", asking(.wait_ms = -1));
    EXPECT("K gained");
}

static void what_was_given_may_be_gone_after_the_call(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    char name[] = "x", owner[] = "me";
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;

    (void)state;
    options.mode = LW_EXCLUSIVE;
    options.owner = owner;
    options.lease_ms = 900;
    struct keeper *K = keeper_start(a, "K", name, &options);
    memset(name, '?', sizeof(name));
    memset(owner, '?', sizeof(owner));
    memset(&options, 0xff, sizeof(options));
    EXPECT("K gained");
    redis_ok("DEL x");
    EXPECT("K lost ENOTHELD; K gained");
    assert_string_equal(lw_lock_owner(lock_of(K)), "me");
    assert_string_equal(lw_lock_name(lock_of(K)), "x");
}

static void without_callbacks_its_handle_tells(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    struct lw_keep *keep = NULL;

    (void)state;
    options.lease_ms = 500;
    assert_int_equal(lw_keep_new(a->client, "x", &options, NULL, NULL, NULL, &keep),
                     LW_OK);
    UNTIL(lw_lock_remaining_ms(lw_keep_lock(keep)) > 0);
    uint64_t fence = lw_lock_fence(lw_keep_lock(keep));
    redis_ok("DEL x");
    UNTIL(lw_lock_fence(lw_keep_lock(keep)) > fence);
    lw_keep_free(keep);
    lw_keep_free(NULL);
    UNTIL(redis_int("EXISTS x") == 0);
}

/* ---- freed ---- */

static void freed_while_waiting_it_leaves_the_queue(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "x");
    struct keeper *K = keeper_start(a, "K", "x", NULL);

    (void)state;
    wait_queued("x", 1);
    keeper_free(K);
    wait_queued("x", 0);
    release_hold(B);
    EXPECT("B granted; B released OK");
    stage_expect_nothing(50);
}

static void freed_at_once_it_takes_nothing(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    keeper_free(keeper_start(a, "K", "x", NULL));
    works(a);
}

static void freed_while_held_it_hands_over(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct keeper *K = keeper_start(a, "K", "x", NULL);

    (void)state;
    EXPECT("K gained");
    keeper_start(b, "L", "x", NULL);
    wait_queued("x", 1);
    keeper_free(K);
    EXPECT("L gained");
}

static void freed_within_its_margin_it_hands_over(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct keeper *K = keeper_start(
        a, "K", "x", asking(.lease_ms = 60000, .max_hold_ms = 29000, .margin_ms = 28800));

    (void)state;
    EXPECT("K gained");
    keeper_start(b, "L", "x", NULL);
    wait_queued("x", 1);
    EXPECT("K lost ETIMEOUT");
    int64_t end_ms = now_ms() + lw_lock_remaining_ms(lock_of(K));
    keeper_free(K);
    EXPECT("L gained");
    assert_true(now_ms() < end_ms);
}

static void refused_now(struct peer **ret_peer, struct keeper **ret_keeper)
{
    redis_ok("ACL SETUSER app reset on >secret +@all -set -eval -evalsha ~* &*");
    *ret_peer = peer_ready("a", client_of(.username = "app", .password = "secret"));
    *ret_keeper = keeper_start(*ret_peer, "K", "x", NULL);
    UNTIL(lw_lock_state(lock_of(*ret_keeper)) == LW_DONE);
}

static void freed_in_its_pause_it_asks_no_more(void **state)
{
    struct peer *a;
    struct keeper *K;

    (void)state;
    refused_now(&a, &K);
    keeper_free(K);
    redis_ok("ACL SETUSER app +@all");
    stage_expect_nothing(1200);
    assert_int_equal(redis_int("EXISTS x"), 0);
}

/* ---- in its callbacks ---- */

static void frees_itself(struct keeper *keeper)
{
    keeper_free(keeper);
}

static void frees_itself_when_lost(struct keeper *keeper)
{
    if (!keeper->leads) {
        keeper_free(keeper);
    }
}

static void frees_the_client(struct keeper *keeper)
{
    peer_free(keeper->peer);
}

static void frees_the_client_when_lost(struct keeper *keeper)
{
    if (!keeper->leads) {
        peer_free(keeper->peer);
    }
}

static void frees_both(struct keeper *keeper)
{
    keeper_free(keeper);
    peer_free(keeper->peer);
}

static void frees_both_the_client_first(struct keeper *keeper)
{
    peer_free(keeper->peer);
    keeper_free(keeper);
}

static void closes_the_client(struct keeper *keeper)
{
    peer_close(keeper->peer);
}

static void closes_the_client_when_lost(struct keeper *keeper)
{
    if (!keeper->leads) {
        peer_close(keeper->peer);
    }
}

static void free_in_gained(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    keeper_start(a, "K", "x", NULL)->then = frees_itself;
    EXPECT("K gained");
    UNTIL(redis_int("EXISTS x") == 0);
    works(a);
}

static void free_in_lost(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    keeper_start(a, "K", "x", asking(.lease_ms = 500))->then = frees_itself_when_lost;
    EXPECT("K gained");
    redis_ok("DEL x");
    EXPECT("K lost ENOTHELD");
    stage_expect_nothing(100);
    assert_int_equal(redis_int("EXISTS x"), 0);
}

static void client_freed_in_gained(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct keeper *K = keeper_start(a, "K", "x", asking(.lease_ms = 500));

    (void)state;
    K->then = frees_the_client;
    EXPECT("K gained");
    assert_int_equal(lw_lock_state(lock_of(K)), LW_DONE);
    assert_int_equal(lw_lock_remaining_ms(lock_of(K)), 0);
    stage_expect_nothing(700);
    stage.keys_may_stay = stage.notes_may_stay = true;
}

static void client_freed_in_lost(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct keeper *K = keeper_start(a, "K", "x", asking(.lease_ms = 500));

    (void)state;
    K->then = frees_the_client_when_lost;
    EXPECT("K gained");
    redis_ok("DEL x");
    EXPECT("K lost ENOTHELD");
    stage_expect_nothing(100);
    stage.keys_may_stay = stage.notes_may_stay = true;
}

static void both_freed_in_gained(void **state)
{
    (void)state;
    keeper_start(peer_ready("a", NULL), "K", "x", asking(.lease_ms = 500))->then =
        frees_both;
    EXPECT("K gained");
    UNTIL(redis_int("EXISTS x") == 0);
    keeper_start(peer_ready("b", NULL), "L", "x", asking(.lease_ms = 500))->then =
        frees_both_the_client_first;
    EXPECT("L gained");
    stage_expect_nothing(50);
    stage.keys_may_stay = stage.notes_may_stay = true;
}

static void client_closed_in_gained(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct keeper *K = keeper_start(a, "K", "x", NULL);

    (void)state;
    K->then = closes_the_client;
    EXPECT("K gained; a closed");
    assert_int_equal(lw_lock_state(lock_of(K)), LW_DONE);
    assert_int_equal(redis_int("EXISTS x"), 0);
}

static void client_closed_in_lost(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct keeper *K = keeper_start(
        a, "K", "x", asking(.lease_ms = 4000, .max_hold_ms = 1000, .margin_ms = 700));

    (void)state;
    K->then = closes_the_client_when_lost;
    EXPECT("K gained; K lost ETIMEOUT; a closed");
    stage_expect_nothing(50);
    assert_int_equal(redis_int("EXISTS x"), 0);
}

/* ---- the client's end ---- */

static void closed_while_it_waits(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    acquire_and_wait(b, "B", "x");
    struct keeper *K = keeper_start(a, "K", "x", NULL);
    wait_queued("x", 1);
    peer_close(a);
    EXPECT("B granted; a closed");
    wait_queued("x", 0);
    keeper_free(K);
}

static void closed_in_its_pause(void **state)
{
    struct peer *a;
    struct keeper *K;

    (void)state;
    refused_now(&a, &K);
    redis_ok("ACL SETUSER app +@all");
    peer_close(a);
    EXPECT("a closed");
    stage_expect_nothing(1200);
    assert_int_equal(redis_int("EXISTS x"), 0);
    peer_free(a);
    assert_int_equal(lw_lock_state(lock_of(K)), LW_DONE);
    stage_run_for(20);
}

static void freed_in_its_pause_the_client_leaves_nothing(void **state)
{
    struct peer *a;
    struct keeper *K;

    (void)state;
    refused_now(&a, &K);
    peer_free(a);
    stage_run_for(1200);
    assert_int_equal(lw_lock_state(lock_of(K)), LW_DONE);
    stage.notes_may_stay = true;
}

static void a_closed_client_takes_none(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct lw_keep *keep = NULL;

    (void)state;
    peer_close(a);
    EXPECT("a closed");
    assert_int_equal(lw_keep_new(a->client, "x", NULL, NULL, NULL, NULL, &keep),
                     LW_ECLOSED);
    assert_null(keep);
}

static void forked_child_frees(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct keeper *K = keeper_start(a, "K", "x", asking(.lease_ms = 1500));
    int status = 1;

    (void)state;
    EXPECT("K gained");
    pid_t child = fork_for_test();
    if (child == 0) {
        lw_keep_free(K->keep);
        lw_client_free(a->client);
        end_child(0);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    stage_expect_nothing(200);
    assert_int_equal(redis_int("EXISTS x"), 1);
    assert_int_equal(lw_lock_state(lock_of(K)), LW_HELD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(bad_options_are_refused_with_a_text),
        STAGE_TEST(options_of_other_versions_are_judged_by_their_size),
        STAGE_TEST(wait_ms_of_minus_one_is_what_it_does),
        STAGE_TEST(what_was_given_may_be_gone_after_the_call),
        STAGE_TEST(without_callbacks_its_handle_tells),
        STAGE_TEST(freed_while_waiting_it_leaves_the_queue),
        STAGE_TEST(freed_at_once_it_takes_nothing),
        STAGE_TEST(freed_while_held_it_hands_over),
        STAGE_TEST(freed_within_its_margin_it_hands_over),
        STAGE_TEST(freed_in_its_pause_it_asks_no_more),
        STAGE_TEST(free_in_gained),
        STAGE_TEST(free_in_lost),
        STAGE_TEST(client_freed_in_gained),
        STAGE_TEST(client_freed_in_lost),
        STAGE_TEST(both_freed_in_gained),
        STAGE_TEST(client_closed_in_gained),
        STAGE_TEST(client_closed_in_lost),
        STAGE_TEST(closed_while_it_waits),
        STAGE_TEST(closed_in_its_pause),
        STAGE_TEST(freed_in_its_pause_the_client_leaves_nothing),
        STAGE_TEST(a_closed_client_takes_none),
        STAGE_TEST(forked_child_frees),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/*
 * lw_acquire_all on one server: granted, refused, lost and released as one; the order in
 * which names are acquired; each member lost in each phase; every call inside every
 * callback; a crowd of clients with random sets. Depends on test/lib alone.
 *
 * A test acquires a group, something happens to one name, and the trace and Redis show
 * what became of all of them.
 */
#include "groups.h"

#include <stdio.h>
#include <string.h>

static long long existing(const char *names)
{
    return redis_int("EVAL %s 0 %s",
                     "local n = 0 for k in string.gmatch(ARGV[1], '%w+') do "
                     "n = n + redis.call('EXISTS', k) end return n",
                     names);
}

static void let_go_and_drop(struct hold *hold)
{
    release_hold(hold);
    UNTIL(hold->released == LW_OK);
    free_hold(hold);
}

/* ---- granted and released ---- */

static void all_names_are_granted_in_one_round_trip(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct group *G = group_ask(a, "G", asking(.wait_ms = -1), "z x y");

    (void)state;
    EXPECT("G granted");
    group_assert_held(G);
    group_release(G);
    EXPECT("G released OK");
    assert_int_equal(existing("x y z"), 0);
    group_free(G);

    /* The fence is seeded by now: SET and INCR for each name, nothing else. */
    uint64_t before = peer_stats(a).commands;
    G = group_ask(a, "G", asking(.wait_ms = -1), "z x y");
    EXPECT("G granted");
    assert_int_equal(peer_stats(a).commands - before, 6);
    assert_true(lw_lock_fence(lw_all_lock(G->all, 0)) !=
                lw_lock_fence(lw_all_lock(G->all, 1)));
    assert_null(lw_all_lock(G->all, 3));
    group_free(G);
    UNTIL(existing("x y z") == 0);
}

static void sixteen_names_and_one_name(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct group *G = group_take(a, "G", "p o n m l k j i h g f e d c b a");
    struct group *H = group_take(a, "H", "q");

    (void)state;
    group_assert_held(G);
    group_assert_held(H);
    group_release(G);
    group_release(H);
    UNTIL(G->released == LW_OK && H->released == LW_OK);
    assert_int_equal(existing("a b c d e f g h i j k l m n o p q"), 0);
    stage_clear_trace();
}

static void the_remaining_time_is_the_least_of_all(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct group *G = group_take(a, "G", "x y z");
    int64_t least;

    (void)state;
    stage_clear_trace();
    assert_int_equal(lw_renew(lw_all_lock(G->all, 0), 90000, NULL, NULL), 0);
    assert_int_equal(lw_renew(lw_all_lock(G->all, 2), 60000, NULL, NULL), 0);
    UNTIL(lw_lock_remaining_ms(lw_all_lock(G->all, 0)) > 60000 &&
          lw_lock_remaining_ms(lw_all_lock(G->all, 2)) > 40000);
    least = lw_all_remaining_ms(G->all);
    assert_true(least > 0 && least <= 30000);
}

static void a_release_reports_after_the_last_reply_and_the_worst(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct group *G = group_take(a, "G", "x y z");

        stage_clear_trace();
        redis_ok("DEL %s", G->names[i]);
        group_release(G);
        EXPECT("G released ENOTHELD");
        assert_int_equal(existing("x y z"), 0);
        for (int j = 0; j < 3; j++) { /* the error shows which name it was */
            assert_int_equal(lw_lock_error(lw_all_lock(G->all, (size_t)j)),
                             j == i ? LW_ENOTHELD : LW_OK);
        }
        group_free(G);
    }
}

static void a_release_without_an_answer_is_unknown(void **state)
{
    struct peer *a = peer_ready("a", client_of(.request_timeout_ms = 300));
    struct group *G = group_take(a, "G", "x y");

    (void)state;
    stage.notes_may_stay = true; /* the connection may not be back when it closes */
    stage_clear_trace();
    server_pause(&stage.server);
    group_release(G);
    EXPECT("G released EUNKNOWN");
    server_resume(&stage.server);
    UNTIL(existing("x y") == 0);
}

static void calls_out_of_place_are_refused(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "x");
    struct group *G = group_ask(a, "G", asking(.wait_ms = -1), "x y");

    (void)state;
    stage.notes_may_stay = true; /* a client is freed */
    EXPECT("B granted");
    assert_int_equal(lw_all_release(G->all, NULL, NULL), LW_EINVAL);
    wait_queued("x", 1);
    assert_int_equal(lw_all_release(G->all, NULL, NULL), LW_EINVAL);
    assert_int_equal(lw_all_remaining_ms(G->all), 0);
    release_hold(B);
    EXPECT_SET("B released OK; G granted");
    group_release(G);
    assert_int_equal(lw_all_release(G->all, NULL, NULL), LW_EINVAL);
    EXPECT("G released OK");
    assert_int_equal(lw_all_release(G->all, NULL, NULL), LW_ENOTHELD);
    peer_free(a);
    assert_int_equal(lw_all_release(G->all, NULL, NULL), LW_ECLOSED);
    lw_all_free(NULL);
}

/* ---- refused ---- */

static void a_busy_name_ends_a_try_and_explains_it(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "y"), *C = acquire_and_wait(b, "C", "z");
    struct group *G = group_ask(a, "G", NULL, "z y x");

    (void)state;
    EXPECT("B granted; C granted; G EBUSY");
    UNTIL(existing("x") == 0);
    /* the first refused name by order */
    assert_null(lw_all_lock(G->all, 0));
    assert_null(lw_all_lock(G->all, 2));
    assert_true(lw_lock_retry_ms(lw_all_lock(G->all, 1)) > 20000);
    assert_string_equal(lw_lock_name(lw_all_lock(G->all, 1)), "y");
    let_go_and_drop(B);
    let_go_and_drop(C);
}

static void a_wait_that_times_out_releases_everything(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct group *G;

    (void)state;
    acquire_and_wait(b, "B", "y");
    G = group_ask(a, "G", asking(.wait_ms = 300), "x y z");
    EXPECT("B granted; G ETIMEOUT");
    assert_true(now_ms() - G->asked_ms >= 300);
    assert_string_equal(lw_lock_errstr(lw_all_lock(G->all, 1)), "");
    assert_int_equal(lw_lock_state(lw_all_lock(G->all, 1)), LW_DONE);
    UNTIL(existing("x z") == 0);
    UNTIL(redis_int("ZCARD %s", queue_of("y")) == 0);
}

/* request_timeout_ms would be longer than any wait of this test. */
static void wait_ms_also_limits_the_first_round(void **state)
{
    struct peer *a = peer_ready("a", client_of(.request_timeout_ms = 600000));

    (void)state;
    server_pause(&stage.server);
    group_ask(a, "G", asking(.wait_ms = 200), "x y");
    EXPECT("G ETIMEOUT");
    server_resume(&stage.server);
    UNTIL(existing("x y") == 0);
}

static void an_outage_ends_a_try_and_is_waited_out_otherwise(void **state)
{
    struct peer *a = peer_ready("a", client_of(.backoff_max_ms = 100));
    struct group *G, *H;

    (void)state;
    server_kill(&stage.server);
    UNTIL(!a->up);
    G = group_ask(a, "G", NULL, "x y");
    H = group_ask(a, "H", asking(.wait_ms = -1), "z x");
    EXPECT("G ECONN");
    assert_true(*lw_lock_errstr(lw_all_lock(G->all, 0)) != '\0');
    server_restart(&stage.server);
    EXPECT("H granted");
    group_assert_held(H);
}

static void granted(struct lw_all *all, int status, void *arg)
{
    (void)all;
    ((char *)arg)[sizeof(struct lw_acquire_options)] = status == LW_OK ? 1 : 2;
}

static void refused_arguments_are_explained(void **state)
{
    static const char *const names[] = {"a", "b", "c", "b", "e", "f", "g", "h", "i",
                                        "j", "k", "l", "m", "n", "o", "p", "q"};
    static const char *const bad[] = {"a", "b", "c\n"};
    static const char *const null[] = {"a", NULL};
    struct peer *a = peer_ready("a", NULL);
    struct lw_all *all = NULL;
    struct lw_acquire_options small = LW_ACQUIRE_OPTIONS_INIT;
    struct {
        struct lw_acquire_options options;
        char tail[8]; /* of a later version */
    } larger = {.options = LW_ACQUIRE_OPTIONS_INIT};

    (void)state;
    small.size = 1;
    group_refused(a, names, 0, NULL, LW_EINVAL, "count 0 is not between 1 and 16");
    group_refused(a, names + 4, 17, NULL, LW_EINVAL, "count 17 is not between 1 and 16");
    group_refused(a, NULL, 1, NULL, LW_EINVAL, "names is NULL");
    group_refused(a, names, 5, NULL, LW_EINVAL, "names[1] and names[3] are the same");
    group_refused(a, bad, 3, NULL, LW_EINVAL, "names[2]: ");
    group_refused(a, bad, 3, NULL, LW_EINVAL, "0x0a");
    group_refused(a, null, 2, NULL, LW_EINVAL, "names[1]: the name is NULL");
    group_refused(a, names, 2, asking(.mode = LW_SHARED), LW_EINVAL, "LW_MUTEX");
    group_refused(a, names, 2, asking(.mode = LW_EXCLUSIVE), LW_EINVAL, "LW_MUTEX");
    group_refused(a, names, 2, asking(.mode = LW_REDISSON), LW_EINVAL, "LW_MUTEX");
    group_refused(a, names, 2, asking(.owner = "o"), LW_EINVAL, "owner");
    group_refused(a, names, 2, asking(.lease_ms = 99), LW_EINVAL, "lease_ms 99");
    group_refused(a, names, 2, asking(.wait_ms = -2), LW_EINVAL, "wait_ms -2");
    group_refused(a, names, 2, &small, LW_EINVAL, "size 1");
    larger.options.size = sizeof(larger);
    larger.tail[7] = 1;
    group_refused(a, names, 2, &larger.options, LW_EINVAL, "size");
    larger.tail[7] = 0;
    assert_int_equal(lw_acquire_all(a->client, names, 2, &larger.options, granted, NULL,
                                    &larger, &all),
                     LW_OK);
    UNTIL(larger.tail[0] != 0);
    assert_int_equal(larger.tail[0], 1);
    lw_all_free(all);
    small = *asking(.lost = (lw_lock_cb *)stage_fail);
    group_refused(a, names, 2, &small, LW_EINVAL, "options.lost");
    assert_int_equal(lw_acquire_all(a->client, names, 2, NULL, NULL, NULL, NULL, &all),
                     LW_EINVAL);
    assert_string_equal(a->error, "done is NULL");
    peer_close(a);
    group_refused(a, names, 2, NULL, LW_ECLOSED, "closed");
    EXPECT("a closed");
}

/* ---- the order ---- */

static void a_waiting_call_holds_smaller_names_only(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "m"), *C;
    struct group *G = group_ask(a, "G", asking(.wait_ms = -1), "z m q c a");

    (void)state;
    EXPECT("B granted");
    wait_queued("m", 1);
    assert_int_equal(existing("a c"), 2);
    UNTIL(existing("q z") == 0);
    C = acquire_and_wait(b, "C", "z");
    release_hold(B);
    EXPECT_SET("C granted; B released OK");
    wait_queued("z", 1);
    assert_int_equal(existing("a c m q"), 4);
    release_hold(C);
    EXPECT_SET("C released OK; G granted");
    group_assert_held(G);
}

static void names_held_while_waiting_are_renewed(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "y");
    struct group *G = group_ask(a, "G", asking(.wait_ms = -1, .lease_ms = 600), "x y");

    (void)state;
    EXPECT("B granted");
    wait_queued("y", 1);
    UNTIL(peer_stats(a).renewed >= 4);
    release_hold(B);
    EXPECT_SET("B released OK; G granted");
    group_assert_held(G);
}

/* With the callers' own orders each would wait for the other's name. */
static void opposite_orders_do_not_deadlock(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "x"), *C = acquire_and_wait(b, "C", "y");
    struct group *G = group_ask(a, "G", asking(.wait_ms = -1), "x y");
    struct group *H = group_ask(b, "H", asking(.wait_ms = -1), "y x");

    (void)state;
    EXPECT("B granted; C granted");
    UNTIL(redis_int("ZCARD %s", queue_of("x")) + redis_int("ZCARD %s", queue_of("y")) ==
          2);
    let_go_and_drop(B);
    let_go_and_drop(C);
    stage_clear_trace();
    UNTIL(G->result == LW_OK || H->result == LW_OK);
    group_release(G->result == LW_OK ? G : H);
    UNTIL(G->result == LW_OK && H->result == LW_OK);
    stage_clear_trace();
}

/* ---- lost ---- */

static void any_name_lost_loses_all_once(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct group *G = group_ask(a, "G", asking(.lease_ms = 900), "x y z");

        EXPECT("G granted");
        redis_ok("DEL %s", G->names[i]);
        EXPECT("G lost ENOTHELD");
        assert_int_equal(lw_all_remaining_ms(G->all), 0);
        assert_int_equal(lw_all_release(G->all, NULL, NULL), LW_ENOTHELD);
        UNTIL(existing("x y z") == 0);
        assert_true(lw_lock_fence(lw_all_lock(G->all, 0)) > 0);
        stage_expect_nothing(10);
        group_free(G);
    }
}

/* The client detects both losses within the margin. */
static void two_names_lost_are_one_loss(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct group *G =
        group_ask(a, "G", asking(.lease_ms = 1200, .margin_ms = 550), "x y z");

    (void)state;
    EXPECT("G granted");
    redis_ok("DEL x z");
    EXPECT("G lost ENOTHELD");
    UNTIL(lw_lock_state(lw_all_lock(G->all, 0)) != LW_HELD &&
          lw_lock_state(lw_all_lock(G->all, 2)) != LW_HELD);
    UNTIL(existing("y") == 0);
    stage_expect_nothing(10);
}

static void an_outage_loses_all_once(void **state)
{
    struct peer *a = peer_ready("a", client_of(.backoff_max_ms = 100));
    struct group *G = group_ask(a, "G", asking(.lease_ms = 500), "x y z");

    (void)state;
    EXPECT("G granted");
    server_kill(&stage.server);
    EXPECT("G lost ELOST");
    stage_expect_nothing(100);
    server_restart(&stage.server);
    UNTIL(a->up);
    group_free(G);
}

/* The other names stay held until the margin has passed. If the loop stands still, `lost`
 * is called late, but the margin has begun. */
static void the_others_are_kept_for_the_margin(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct group *G;
    struct hold *B;

    (void)state;
    G = group_ask(a, "G", asking(.lease_ms = 4500, .margin_ms = 2000), "x y");
    EXPECT("G granted");
    B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    redis_ok("DEL y");
    EXPECT("G lost ENOTHELD");
    UNTIL(B->result != PENDING);
    assert_int_equal(B->result, LW_OK);
    assert_true(B->result_ms - G->lost_ms >= 2000 - stage.worst_lag_ms);
    stage_clear_trace();
}

static void the_earliest_max_hold_ends_all(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct group *G = group_ask(
        a, "G", asking(.lease_ms = 3000, .max_hold_ms = 400, .margin_ms = 100), "x y");

    (void)state;
    EXPECT("G granted; G lost ETIMEOUT");
    UNTIL(existing("x y") == 0);
    (void)G;
}

/* Phase CLIMBING: `lost` is not called, all are released, and it starts again. */
static void a_name_lost_while_waiting_starts_again(void **state)
{
    static const char *const held[] = {"a", "b", "c"};
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    char token[80];

    (void)state;
    for (int i = 0; i < 3; i++) {
        const char *other = held[(i + 1) % 3];
        struct hold *B = acquire_and_wait(b, "B", "m");
        struct group *G =
            group_ask(a, "G", asking(.wait_ms = -1, .lease_ms = 900), "m c b a");

        EXPECT("B granted");
        wait_queued("m", 1);
        (void)snprintf(token, sizeof(token), "%s", redis_text("GET %s", other));
        redis_ok("SET %s stranger PX 1500", held[i]);
        UNTIL(strcmp(redis_text("GET %s", other), token) != 0);
        UNTIL(strcmp(redis_text("GET %s", held[i]), "stranger") != 0 &&
              existing("a b c") == 3);
        wait_queued("m", 1);
        release_hold(B);
        EXPECT_SET("B released OK; G granted");
        group_assert_held(G);
        group_free(G);
        free_hold(B);
        UNTIL(existing("a b c m") == 0);
    }
}

/* Every loss starts the acquisition again, which must not extend its time. */
static void starting_again_does_not_extend_the_wait(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "y");
    struct group *G = group_ask(a, "G", asking(.wait_ms = 2500, .lease_ms = 600), "x y");
    int64_t limit_ms = now_ms() + STAGE_WAIT_MS;
    int broken = 0;

    (void)state;
    while (G->result == PENDING && now_ms() < limit_ms) {
        broken += redis_int("DEL x") == 1;
        stage_run_for(50);
    }
    assert_int_equal(G->result, LW_ETIMEOUT);
    assert_true(broken > 1 || stage.worst_lag_ms > 100);
    stage_clear_trace();
    let_go_and_drop(B);
    stage_clear_trace();
}

/* Phase TRYING: the loop stands still after one grant, until its lease has expired. */
static void a_lease_that_ends_during_the_first_round(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "y");
    struct group *G = group_ask(a, "G", asking(.wait_ms = -1, .lease_ms = 200), "x y");

    (void)state;
    EXPECT("B granted");
    for (int i = 0; i < 5; i++) {
        event_base_loop(stage.base, EVLOOP_ONCE | EVLOOP_NONBLOCK);
        stage_stall(250);
    }
    release_hold(B);
    EXPECT_SET("B released OK; G granted");
    group_assert_held(G);
}

static void warnings_come_for_each_name_after_the_grant(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    group_ask(a, "G", asking(.lease_ms = 2000, .at_risk_ms = 900), "x y");
    EXPECT("G granted");
    server_pause(&stage.server);
    EXPECT("G at risk; G at risk");
    server_resume(&stage.server);
    EXPECT("G safe; G safe");
}

/* x is at risk while y is waited for: the warning comes after the grant. */
static void a_warning_before_the_grant_comes_after_it(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "y");

    (void)state;
    group_ask(a, "G",
              asking(.lease_ms = 8000, .margin_ms = 100, .at_risk_ms = 3900,
                     .wait_ms = -1, .flags = LW_NO_RENEW),
              "x y");
    EXPECT("B granted");
    wait_queued("y", 1);
    UNTIL(redis_int("PTTL x") < 3700); /* the warning was due at 3900 */
    release_hold(B);
    EXPECT_SET("B released OK; G granted; G at risk");
}

/* ---- any call inside any callback ---- */

static enum moment at_moment;
static void (*act)(struct group *group);
static int acted;

static void then_act(struct group *group, enum moment moment)
{
    if (moment == at_moment && acted++ == 0) {
        act(group);
    }
}

static void free_and_acquire_again(struct group *group)
{
    struct peer *peer = group->peer;

    group_free(group);
    group_ask(peer, "H", asking(.wait_ms = -1), "z y x");
}

static void close_client(struct group *group)
{
    peer_close(group->peer);
}

static void free_client(struct group *group)
{
    peer_free(group->peer);
}

static void free_client_and_group(struct group *group)
{
    peer_free(group->peer);
    group_free(group);
}

static void free_group_and_client(struct group *group)
{
    struct peer *peer = group->peer;

    group_free(group);
    peer_free(peer);
}

static void release_if_held(struct group *group)
{
    if (lw_all_remaining_ms(group->all) > 0) {
        group_release(group);
    }
}

static void reach(struct group *group, enum moment moment, struct hold *holder)
{
    UNTIL(group->result != PENDING);
    if (group->all == NULL || group->peer->client == NULL || group->peer->closing) {
        return;
    }
    if (moment == AT_LOST) {
        redis_ok("DEL y");
        UNTIL(acted > 0);
    } else if (moment == AT_RISK) {
        server_pause(&stage.server);
        UNTIL(acted > 0);
        server_resume(&stage.server);
    } else if (moment == AT_RELEASED) {
        group_release(group);
        UNTIL(acted > 0);
    }
    (void)holder;
}

static void any_call_is_legal_in_any_callback(void **state)
{
    static void (*const acts[])(struct group *) = {
        group_free,      free_and_acquire_again, close_client,
        free_client,     free_client_and_group,  free_group_and_client,
        release_if_held,
    };
    static const enum moment moments[] = {AT_RESULT, AT_LOST, AT_RELEASED, AT_RISK};

    (void)state;
    stage.keys_may_stay = stage.notes_may_stay = true; /* freed clients leave holds */
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++) {
        for (size_t j = 0; j < 2 * sizeof(moments) / sizeof(moments[0]); j++) {
            bool fails = j >= 4; /* the same with a result that is not a grant */
            struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
            struct hold *B = acquire_and_wait(b, "B", fails ? "y" : "w");
            struct group *G;

            at_moment = moments[j % 4];
            act = acts[i];
            acted = 0;
            G = group_ask(
                a, "G",
                asking(.wait_ms = fails ? 100 : -1, .lease_ms = 1500, .at_risk_ms = 700),
                "z x y");
            G->then = then_act;
            if (!fails) {
                reach(G, at_moment, B);
            } else {
                UNTIL(G->result != PENDING);
            }
            G->then = NULL;
            if (a->client != NULL && !a->closing) {
                peer_close(a);
            }
            UNTIL(a->client == NULL || a->closed);
            free_hold(B);
            peer_close(b);
            UNTIL(b->closed);
            group_free(G);
            players_leave();
            redis_ok("FLUSHALL");
            stage_clear_trace();
        }
    }
}

/* ---- ends ---- */

static void a_close_ends_a_wait_and_is_silent_about_a_hold(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "y");
    struct group *G = group_take(a, "G", "c d"), *H;

    (void)state;
    H = group_ask(a, "H", asking(.wait_ms = -1), "x y z");
    wait_queued("y", 1);
    stage_clear_trace();
    peer_close(a);
    EXPECT("H ECLOSED; a closed");
    assert_int_equal(lw_all_remaining_ms(G->all), 0);
    assert_int_equal(lw_all_release(G->all, NULL, NULL), LW_ECLOSED);
    assert_int_equal(lw_all_release(H->all, NULL, NULL), LW_ECLOSED);
    assert_int_equal(existing("c d x z"), 0);
    release_hold(B);
    EXPECT("B released OK");
}

static void a_close_ends_the_first_round(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    server_pause(&stage.server);
    group_ask(a, "G", NULL, "x y");
    group_ask(a, "H", asking(.wait_ms = -1), "u v");
    stage_run_for(20);
    peer_close(a);
    EXPECT_SET("G ECLOSED; H ECLOSED");
    server_resume(&stage.server);
    EXPECT("a closed");
    UNTIL(existing("x y u v") == 0);
}

static void freed_in_each_phase_nothing_stays(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "y");
    struct group *G;

    (void)state;
    EXPECT("B granted");
    group_free(group_ask(a, "G", asking(.wait_ms = -1), "x y z"));
    UNTIL(existing("x z") == 0);
    G = group_ask(a, "G", asking(.wait_ms = -1), "x y z"); /* in phase CLIMBING */
    wait_queued("y", 1);
    group_free(G);
    UNTIL(existing("x z") == 0);
    UNTIL(redis_int("ZCARD %s", queue_of("y")) == 0);
    G = group_ask(a, "G", asking(.lease_ms = 2000, .margin_ms = 900), "u v");
    EXPECT("G granted");
    redis_ok("DEL u");
    EXPECT("G lost ENOTHELD");
    group_free(G); /* before the margin has passed */
    UNTIL(existing("u v") == 0);
    G = group_ask(a, "G", NULL, "u v");
    EXPECT("G granted");
    group_release(G);
    group_free(G);
    UNTIL(existing("u v") == 0);
    release_hold(B);
    EXPECT("B released OK");
}

/* ---- a crowd ---- */

static void a_crowd_of_two_clients(void **state)
{
    struct crowd crowd = {.url = stage.server.url,
                          .seed = 1,
                          .clients = 2,
                          .grants = 2000,
                          .lease_ms = 10000};

    (void)state;
    crowd_run(&crowd);
    stage_skip_if_lag(1000);
    assert_int_equal(crowd.lost, 0);
}

static void a_crowd_of_eight_clients_that_are_killed(void **state)
{
    (void)state;
    for (unsigned seed = 1; seed <= 2; seed++) {
        struct crowd crowd = {.url = stage.server.url,
                              .seed = seed,
                              .clients = 8,
                              .grants = 1000,
                              .lease_ms = 500,
                              .kills = true};

        crowd_run(&crowd);
        players_leave();
        stage_clear_trace();
    }
}

static bool names_are_taken_away(void)
{
    static int turn;

    if (turn++ % 50 == 0) {
        redis_ok("DEL n%d n%d", turn / 50 % 20, turn / 50 * 7 % 20);
    }
    return false;
}

/* Losses in every phase; for a moment two clients believe that they hold a name. */
static void a_crowd_whose_names_are_taken_away(void **state)
{
    struct crowd crowd = {.url = stage.server.url,
                          .seed = 4,
                          .clients = 4,
                          .grants = 2000,
                          .lease_ms = 300,
                          .overlaps = true,
                          .disturb = names_are_taken_away};

    (void)state;
    stage.keys_may_stay = true;
    crowd_run(&crowd);
    assert_true(crowd.lost > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(all_names_are_granted_in_one_round_trip),
        STAGE_TEST(sixteen_names_and_one_name),
        STAGE_TEST(the_remaining_time_is_the_least_of_all),
        STAGE_TEST(a_release_reports_after_the_last_reply_and_the_worst),
        STAGE_TEST(a_release_without_an_answer_is_unknown),
        STAGE_TEST(calls_out_of_place_are_refused),
        STAGE_TEST(a_busy_name_ends_a_try_and_explains_it),
        STAGE_TEST(a_wait_that_times_out_releases_everything),
        STAGE_TEST(wait_ms_also_limits_the_first_round),
        STAGE_TEST(an_outage_ends_a_try_and_is_waited_out_otherwise),
        STAGE_TEST(refused_arguments_are_explained),
        STAGE_TEST(a_waiting_call_holds_smaller_names_only),
        STAGE_TEST(names_held_while_waiting_are_renewed),
        STAGE_TEST(opposite_orders_do_not_deadlock),
        STAGE_TEST(any_name_lost_loses_all_once),
        STAGE_TEST(two_names_lost_are_one_loss),
        STAGE_TEST(an_outage_loses_all_once),
        STAGE_TEST(the_others_are_kept_for_the_margin),
        STAGE_TEST(the_earliest_max_hold_ends_all),
        STAGE_TEST(a_name_lost_while_waiting_starts_again),
        STAGE_TEST(starting_again_does_not_extend_the_wait),
        STAGE_TEST(a_lease_that_ends_during_the_first_round),
        STAGE_TEST(warnings_come_for_each_name_after_the_grant),
        STAGE_TEST(a_warning_before_the_grant_comes_after_it),
        STAGE_TEST(any_call_is_legal_in_any_callback),
        STAGE_TEST(a_close_ends_a_wait_and_is_silent_about_a_hold),
        STAGE_TEST(a_close_ends_the_first_round),
        STAGE_TEST(freed_in_each_phase_nothing_stays),
        STAGE_TEST(a_crowd_of_two_clients),
        STAGE_TEST(a_crowd_of_eight_clients_that_are_killed),
        STAGE_TEST(a_crowd_whose_names_are_taken_away),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/* lw_watch: the state at first, then each change, which the server reports: of any
 * client or library, in each kind of lock, when a lease ends, without a lock of the
 * watching client. An account that lacks a command polls. Outages, the
 * callback rules, refused calls.
 *
 * Usual course: begin_watch(c, "x", PUSHED_MS); a client acquires and releases x; the
 * trace has "seen held by ..." and "seen free". With PUSHED_MS a poll follows after 27 s
 * at the earliest, and a look at a reported change within a second. */
#include "fake_redis.h"
#include "inspect/scene.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define PUSHED_MS 5000
#define POLL_MS 27000
#define POLLED_MS 100

static int64_t began_ms;

/* Three clients, of which c watches the free lock x, and gets messages. */
static void watched(void)
{
    three_clients();
    begin_watch(c, "x", PUSHED_MS);
    EXPECT("seen free");
    UNTIL(peer_stats(c).subscription_up == 1);
    stage_run_for(200); /* the look that follows the subscription */
    began_ms = now_ms();
}

/* Checks that what was seen since watched() was no poll's. */
static void not_polled(void)
{
    assert_true(now_ms() - began_ms < POLL_MS);
}

static void each_state_of_a_mutex_is_reported_with_its_waiters(void **state)
{
    struct hold *A;

    (void)state;
    watched();
    A = acquire_hold(a, "A", "x", 0);
    EXPECT("A granted; seen held by m - test-a");
    acquire_hold(b, "B", "x", -1);
    EXPECT("seen held by m - test-a; 1 m - test-b");
    release_hold(A);
    EXPECT_SET("A released OK; B granted; seen held by m - test-b");
    release_hold(holds);
    EXPECT("B released OK; seen free");
    not_polled();
    end_watch();
}

static void a_read_write_lock_and_the_note_of_its_holder(void **state)
{
    (void)state;
    watched();
    struct hold *A = acquire_hold_with(
        a, "A", "x", asking(.mode = LW_EXCLUSIVE, .note = "http://host:8080/"));
    EXPECT("A granted");
    UNTIL(look.holder_count == 1 && *look.holders[0].note != '\0');
    assert_string_equal(look.holders[0].note, "http://host:8080/");
    assert_true(look.holders[0].since_ms > 0);
    stage_clear_trace();
    release_hold(A);
    EXPECT_SET("A released OK; seen free");
    not_polled();
    end_watch();
}

static void what_others_write_and_the_end_of_a_lease(void **state)
{
    (void)state;
    watched();
    redis_ok("SET x other PX 700");
    EXPECT("seen held by m - -; seen free");
    redis_ok("HSET x field value");
    EXPECT("seen hash");
    redis_ok("DEL x");
    EXPECT("seen free");
    redis_ok("SET x other");
    EXPECT("seen held by m - -");
    redis_ok("FLUSHALL");
    EXPECT("seen free");
    not_polled();
    end_watch();
    redis_ok("DEL x");
}

/* A renewal changes the key, but nothing that is reported. */
static void a_renewal_is_no_change(void **state)
{
    struct hold *A;

    (void)state;
    watched();
    A = acquire_hold(a, "A", "x", 0);
    EXPECT("A granted; seen held by m - test-a");
    for (int i = 0; i < 3; i++) {
        renew_hold(A, 0);
        EXPECT("A renewed OK");
        stage_expect_nothing(700);
    }
    release_hold(A);
    EXPECT_SET("A released OK; seen free");
    end_watch();
}

static void a_watch_has_its_state_also_beside_the_client_s_own_lock(void **state)
{
    struct hold *A;

    (void)state;
    watched();
    A = acquire_hold(c, "A", "x", 0);
    EXPECT("A granted; seen held by m - test-c");
    release_hold(A);
    EXPECT("A released OK; seen free");
    not_polled();
    end_watch();
}

/* A watch writes nothing, and looks ever more rarely, down to once in an interval. */
static void a_hot_lock_costs_a_bounded_number_of_looks(void **state)
{
    int64_t begun;

    (void)state;
    three_clients();
    begin_watch(c, "x", 1000);
    EXPECT("seen free");
    begun = now_ms();
    while (now_ms() - begun < 2500) {
        redis_ok("SET x %d PX 60000", (int)(now_ms() % 1000000));
        stage_run_for(2);
    }
    assert_true(look.calls >= 2);
    assert_true(look.calls <= 4 + (now_ms() - begun) / 200); /* a tenth: 25 and more */
    stage_clear_trace();
    redis_ok("DEL x");
    UNTIL(look.holder_total == 0); /* the last state is always reported */
    stage_clear_trace();
    assert_int_equal(redis_int("DBSIZE"), 1); /* the fence counter */
    end_watch();
}

/* ---- accounts ---- */

/* Redis 6.2 can grant a subcommand, but not deny one. */
static void polls_with(const char *rules, const char *logged)
{
    char account[200];

    (void)snprintf(account, sizeof(account),
                   "ACL SETUSER app reset on >pw +@all %s ~* &*", rules);
    redis_ok(account);
    c = peer_start("c", client_of(.username = "app", .password = "pw", .log_level = 6));
    begin_watch(c, "x", POLLED_MS);
    EXPECT("seen free");
    redis_ok("SET x other PX 60000");
    EXPECT("seen held by m - -");
    redis_ok("DEL x");
    EXPECT("seen free");
    assert_true(peer_logged(c, logged));
    end_watch();
    peer_free(c);
}

static void an_account_without_a_command_polls(void **state)
{
    (void)state;
    look.then = NULL;
    polls_with("-SUBSCRIBE", " refused SUBSCRIBE");
    polls_with("-CLIENT +CLIENT|ID +CLIENT|CACHING",
               "5 CLIENT TRACKING is not permitted; watches poll");
    polls_with("-CLIENT +CLIENT|ID +CLIENT|TRACKING", "connected");
    polls_with("-CLIENT +CLIENT|TRACKING +CLIENT|CACHING", "connected");
}

static void an_account_that_may_not_look_is_refused_until_it_may(void **state)
{
    (void)state;
    look.then = NULL;
    redis_ok("ACL SETUSER app reset on >pw +@all -EVAL -EVALSHA ~* &*");
    c = peer_start("c", client_of(.username = "app", .password = "pw"));
    begin_watch(c, "x", POLLED_MS);
    EXPECT("seen EREDIS");
    assert_non_null(strstr(look.why, "permission"));
    stage_expect_nothing(300); /* once */
    redis_ok("ACL SETUSER app +@all");
    EXPECT("seen free");
    end_watch();
    peer_free(c);
}

static bool is_tracked;
static int tracked_looks;

/* Refuses each look that follows CLIENT CACHING. */
static const char *answer(struct fake_redis *fake, int argc, char **argv)
{
    bool was_tracked = is_tracked;

    (void)fake;
    is_tracked = argc == 3 && strcasecmp(argv[0], "CLIENT") == 0 &&
                 strcasecmp(argv[1], "CACHING") == 0;
    if (!was_tracked || strncasecmp(argv[0], "EVAL", 4) != 0) {
        return FAKE_REAL;
    }
    tracked_looks++;
    return "-ERR not with CLIENT CACHING\r\n";
}

/* A redirection is followed only if it is the reply to a command that is alone. */
static void a_look_that_is_refused_is_repeated_without_tracking(void **state)
{
    struct fake_redis *fake = fake_start(answer);

    (void)state;
    look.then = NULL;
    is_tracked = false;
    tracked_looks = 0;
    c = peer_start_at("c", fake->url, NULL);
    begin_watch(c, "x", POLLED_MS);
    EXPECT("seen free");
    UNTIL(tracked_looks > 1);
    redis_ok("SET x other PX 60000");
    EXPECT("seen held by m - -");
    redis_ok("DEL x");
    EXPECT("seen free");
    end_watch();
}

/* ---- outages ---- */

static void an_outage_is_reported_once_and_its_end(void **state)
{
    (void)state;
    stage.keys_may_stay = true;
    look.then = NULL;
    c = peer_ready("c", client_of(.backoff_min_ms = 1, .backoff_max_ms = 20));
    begin_watch(c, "x", POLLED_MS);
    EXPECT("seen free");
    server_kill(&stage.server);
    EXPECT("seen ECONN");
    assert_true(*look.why != '\0');
    stage_expect_nothing(300);
    server_restart(&stage.server);
    EXPECT("seen free"); /* although it was free before */
    redis_ok("SET x other PX 60000");
    EXPECT("seen held by m - -");
    redis_ok("DEL x");
    EXPECT("seen free");
    end_watch();
}

/* The server reports changes to the former listener, until both are bound again. */
static void a_lost_connection_of_either_kind_is_made_again(void **state)
{
    (void)state;
    watched();
    for (int i = 0; i < 2; i++) {
        long long id = peer_link_id(c, i == 0);

        redis_ok("CLIENT KILL ID %lld", id);
        UNTIL(peer_link_id(c, i == 0) != id && peer_stats(c).subscription_up == 1);
        stage_run_for(300);
        stage_clear_trace();
        began_ms = now_ms();
        redis_ok("SET x other%d PX 60000", i);
        UNTIL(look.holder_count == 1 && look.holders[0].token[5] == '0' + i);
        not_polled();
    }
    stage_clear_trace();
    redis_ok("DEL x");
    EXPECT("seen free");
    end_watch();
}

static void a_watch_of_a_server_that_is_down_begins_with_that(void **state)
{
    struct server other;

    (void)state;
    look.then = NULL;
    server_absent(&other);
    c = peer_start_at("c", other.url,
                      client_of(.backoff_min_ms = 1, .backoff_max_ms = 20));
    begin_watch(c, "x", POLLED_MS);
    EXPECT("seen ECONN");
    server_run(&other, "");
    EXPECT("seen free");
    end_watch();
    peer_free(c);
    server_stop(&other);
}

/* ---- the rules ---- */

static void free_it(struct peer *peer)
{
    (void)peer;
    lw_watcher_free(look.watch);
    look.watch = NULL;
}

static void free_both(struct peer *peer)
{
    peer_free(peer);
    free_it(peer);
}

static void free_client(struct peer *peer)
{
    peer_free(peer);
}

static void close_client(struct peer *peer)
{
    peer_close(peer);
}

static void a_watch_and_its_client_may_end_in_its_callback(void **state)
{
    static void (*const ways[])(struct peer *) = {free_it, free_both, free_client,
                                                  close_client};

    (void)state;
    for (int i = 0; i < 4; i++) {
        look.then = ways[i];
        c = peer_ready("c", NULL);
        begin_watch(c, "x", POLLED_MS);
        EXPECT(i < 3 ? "seen free" : "seen free; c closed");
        redis_ok("SET x other PX 60000");
        stage_expect_nothing(300);
        redis_ok("DEL x");
        look.then = NULL;
        lw_watcher_free(look.watch);
        peer_free(c);
    }
}

static void nothing_follows_the_end_of_a_watch_or_of_its_client(void **state)
{
    (void)state;
    look.then = NULL;
    c = peer_ready("c", NULL);
    begin_watch(c, "x", POLLED_MS);
    end_watch(); /* before its first callback */
    stage_expect_nothing(200);
    begin_watch(c, "x", POLLED_MS);
    EXPECT("seen free");
    redis_ok("SET x other PX 60000");
    end_watch();
    stage_expect_nothing(200);
    begin_watch(c, "x", POLLED_MS);
    EXPECT("seen held by m - -");
    peer_close(c);
    EXPECT("c closed");
    redis_ok("DEL x");
    stage_expect_nothing(200);
    lw_watcher_free(look.watch);
}

static void on_any(struct lw_watcher *watch, int status, const struct lw_inspection *seen,
                   const char *why, void *arg)
{
    (void)watch, (void)status, (void)seen, (void)why;
    ++*(int *)arg;
}

static void refused(const char *name, const struct lw_watch_options *options,
                    lw_watch_cb *changed, struct lw_watcher **ret, const char *text)
{
    int calls = 0;

    c->error[0] = '\0';
    assert_int_equal(lw_watch(c->client, name, options, changed, &calls, ret), LW_EINVAL);
    assert_non_null(strstr(c->error, text));
}

static void invalid_calls_are_refused_with_a_reason(void **state)
{
    struct lw_watch_options options = LW_WATCH_OPTIONS_INIT;
    struct lw_watcher *watch = NULL;

    (void)state;
    c = peer_ready("c", NULL);
    refused("", NULL, on_any, &watch, "name");
    refused("x", NULL, NULL, &watch, "changed is NULL");
    refused("x", NULL, on_any, NULL, "ret is NULL");
    options.interval_ms = 9;
    refused("x", &options, on_any, &watch, "interval_ms 9");
    options.interval_ms = (uint32_t)INT32_MAX + 1;
    refused("x", &options, on_any, &watch, "interval_ms 2147483648");
    options.size = 1;
    refused("x", &options, on_any, &watch, "lw_watch_options.size 1");
    assert_null(watch);
}

static void with_every_look_each_one_is_reported(void **state)
{
    struct lw_watch_options options = LW_WATCH_OPTIONS_INIT;
    struct lw_watcher *watch;
    static int calls;

    (void)state;
    c = peer_ready("c", NULL);
    options.interval_ms = 20;
    options.every_look = 1;
    assert_int_equal(lw_watch(c->client, "x", &options, on_any, &calls, &watch), 0);
    UNTIL(calls >= 10);
    lw_watcher_free(watch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(each_state_of_a_mutex_is_reported_with_its_waiters),
        STAGE_TEST(a_read_write_lock_and_the_note_of_its_holder),
        STAGE_TEST(what_others_write_and_the_end_of_a_lease),
        STAGE_TEST(a_renewal_is_no_change),
        STAGE_TEST(a_watch_has_its_state_also_beside_the_client_s_own_lock),
        STAGE_TEST(a_hot_lock_costs_a_bounded_number_of_looks),
        STAGE_TEST(an_account_without_a_command_polls),
        STAGE_TEST(an_account_that_may_not_look_is_refused_until_it_may),
        STAGE_TEST(a_look_that_is_refused_is_repeated_without_tracking),
        STAGE_TEST(an_outage_is_reported_once_and_its_end),
        STAGE_TEST(a_lost_connection_of_either_kind_is_made_again),
        STAGE_TEST(a_watch_of_a_server_that_is_down_begins_with_that),
        STAGE_TEST(a_watch_and_its_client_may_end_in_its_callback),
        STAGE_TEST(nothing_follows_the_end_of_a_watch_or_of_its_client),
        STAGE_TEST(invalid_calls_are_refused_with_a_reason),
        STAGE_TEST(with_every_look_each_one_is_reported),
    };

    return STAGE_RUN(tests);
}

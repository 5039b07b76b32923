/* SPDX-License-Identifier: MIT */
/* Callback rule 8, on fork: a child may free what it inherits from its parent, before or
 * after it makes the event_base its own by event_reinit, or without that. The parent is
 * not affected, and nothing of the parent's is left in the child.
 *
 * Usual course: a lock is held, a child frees the handle, the parent keeps holding. */
#include "child.h"
#include "players.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs the function in a forked child. Returns true if it came to its end. */
static bool run_in_child(void (*function)(struct peer *, struct hold *),
                         struct peer *peer, struct hold *hold)
{
    int status = 1;
    pid_t child = fork_for_test();

    if (child == 0) {
        function(peer, hold);
        end_child(0);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void child_frees(struct peer *peer, struct hold *hold)
{
    event_reinit(stage.base);
    lw_lock_free(hold->lock);
    lw_client_free(peer->client);
}

static void child_frees_the_client_first(struct peer *peer, struct hold *hold)
{
    lw_client_free(peer->client);
    if (lw_lock_state(hold->lock) == LW_HELD || lw_lock_remaining_ms(hold->lock) != 0) {
        _exit(1);
    }
    lw_lock_free(hold->lock);
}

static void on_nothing(struct lw_client *client, int status,
                       const struct lw_inspection *inspection, const char *why, void *arg)
{
    (void)client, (void)status, (void)inspection, (void)why, (void)arg;
}

/* Anything else that the child does by mistake is refused, and it holds nothing. */
static void child_tries(struct peer *peer, struct hold *hold)
{
    struct lw_lock *lock = NULL;

    if (lw_release(hold->lock, NULL, NULL) >= 0 ||
        lw_renew(hold->lock, 0, NULL, NULL) >= 0 ||
        lw_lock_remaining_ms(hold->lock) != 0 ||
        lw_detach(hold->lock, 0, NULL, NULL) != LW_ECLOSED ||
        lw_acquire(peer->client, "y", NULL, (lw_lock_cb *)NULL, NULL, &lock) >= 0 ||
        lw_adopt(peer->client, "y", "", NULL, (lw_lock_cb *)NULL, NULL, &lock) !=
            LW_ECLOSED ||
        lw_inspect(peer->client, "y", on_nothing, NULL) >= 0 ||
        lw_client_close(peer->client, NULL, NULL) >= 0) {
        _exit(1);
    }
    lw_lock_free(hold->lock);
    lw_client_free(peer->client);
}

static void after_fork(void (*in_child)(struct peer *, struct hold *))
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 1500)), *B;

    EXPECT("A granted");
    B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    assert_true(run_in_child(in_child, a, A));
    stage_forget_lag();
    stage_run_for(2000); /* renewals go on */
    stage_skip_if_lag(400);
    assert_held_by_redis(A);
    assert_int_equal(a->downs, 0);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_held_by_redis(B);
}

static void rule8_fork_child_frees_and_the_parent_is_unaffected(void **state)
{
    (void)state;
    after_fork(child_frees);
}

static void rule8_fork_child_frees_the_client_first(void **state)
{
    (void)state;
    after_fork(child_frees_the_client_first);
}

static void rule8_fork_child_holds_nothing(void **state)
{
    (void)state;
    after_fork(child_tries);
}

/* The client's third link is subscribed to Redisson's channels. */
static void rule8_fork_child_frees_a_client_that_listens(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    redis_ok("HSET x foreign:1 1");
    redis_ok("PEXPIRE x 3600000");
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.mode = LW_REDISSON, .wait_ms = -1));
    UNTIL(redis_int("EVAL %s 0", "return #redis.call('PUBSUB', 'CHANNELS', 'redis*')") ==
          1);
    assert_true(run_in_child(child_frees, a, A));
    redis_ok("DEL x");
    redis_ok("PUBLISH redisson_lock__channel:{x} 0");
    EXPECT("A granted");
}

/* ---- an event_base that becomes the child's ---- */

#define PIPES 16 /* more than a client's descriptors */
#define LEASE_MS 2000

/* A daemon whose loop has no events except the library's. */
struct daemon {
    struct event_base *base;
    struct lw_client *client;
    struct lw_lock *lock;
    int result;
    bool closed;
    int64_t turned_ms;  /* when the loop last turned; 0: not yet */
    int64_t longest_ms; /* between two turns */
};

static void on_closed(struct lw_client *client, void *arg)
{
    (void)client;
    ((struct daemon *)arg)->closed = true;
}

static void on_acquired(struct lw_lock *lock, int status, void *arg)
{
    (void)lock;
    ((struct daemon *)arg)->result = status;
}

static void daemon_turn(struct daemon *daemon)
{
    const struct timeval soon = {0, 20000};

    event_base_loopexit(daemon->base, &soon);
    event_base_loop(daemon->base, 0);
    if (daemon->turned_ms != 0 && now_ms() - daemon->turned_ms > daemon->longest_ms) {
        daemon->longest_ms = now_ms() - daemon->turned_ms;
    }
    daemon->turned_ms = now_ms();
}

static void daemon_holds(struct daemon *daemon, const char *url)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;

    options.lease_ms = LEASE_MS;
    options.wait_ms = -1;
    *daemon = (struct daemon){.result = PENDING};
    daemon->base = event_base_new();
    assert_int_equal(lw_client_new(daemon->base, url, NULL, &daemon->client), 0);
    assert_int_equal(
        lw_acquire(daemon->client, "x", &options, on_acquired, daemon, &daemon->lock), 0);
    for (int64_t end = now_ms() + STAGE_WAIT_MS; daemon->result == PENDING;) {
        daemon_turn(daemon);
        assert_true(now_ms() < end);
    }
    assert_int_equal(daemon->result, LW_OK);
}

static void daemon_frees(struct daemon *daemon)
{
    lw_client_free(daemon->client);
    lw_lock_free(daemon->lock);
}

/* Tests whether the event_base has become the child's own, with nothing of the parent's.
 * The pipes get the numbers that the client's descriptors had, and only what is written
 * to the pipes may arrive. */
static int heard;

static void on_pipe(evutil_socket_t fd, short what, void *arg)
{
    char byte;

    (void)what;
    (void)arg;
    heard++;
    if (read(fd, &byte, 1) != 1) {
        _exit(3);
    }
}

static bool is_quiet(struct event_base *base)
{
    struct event *events[PIPES];
    int ends[PIPES][2];

    if (event_base_get_num_events(base, EVENT_BASE_COUNT_ADDED | EVENT_BASE_COUNT_ACTIVE |
                                            EVENT_BASE_COUNT_VIRTUAL) != 0) {
        return false;
    }
    for (int i = 0; i < PIPES; i++) {
        if (pipe(ends[i]) != 0) {
            return false;
        }
        events[i] = event_new(base, ends[i][0], EV_READ | EV_PERSIST, on_pipe, NULL);
        if (event_add(events[i], NULL) != 0) {
            return false;
        }
    }
    for (int i = 0; i < PIPES; i++) {
        if (write(ends[i][1], "x", 1) != 1) {
            return false;
        }
    }
    for (int i = 0; i < 20; i++) {
        event_base_loop(base, EVLOOP_NONBLOCK);
    }
    for (int i = 0; i < PIPES; i++) {
        event_free(events[i]);
    }
    return heard == PIPES && event_base_loop(base, EVLOOP_NONBLOCK) == 1;
}

static int frees_then_reinits(struct daemon *daemon)
{
    daemon_frees(daemon);
    if (event_reinit(daemon->base) != 0) {
        return 1;
    }
    return is_quiet(daemon->base) ? 0 : 2;
}

static int reinits_then_frees(struct daemon *daemon)
{
    if (event_reinit(daemon->base) != 0) {
        return 1;
    }
    daemon_frees(daemon);
    return is_quiet(daemon->base) ? 0 : 2;
}

static int frees_all(struct daemon *daemon)
{
    daemon_frees(daemon);
    event_base_free(daemon->base);
    return 0;
}

static int reinits_and_frees_all(struct daemon *daemon)
{
    if (event_reinit(daemon->base) != 0) {
        return 1;
    }
    return frees_all(daemon);
}

/* Replies still arrive in the parent, so that its renewals count and the lock stays
 * held. */
static void parent_holds_on(struct daemon *daemon)
{
    for (int64_t end = now_ms() + 2 * LEASE_MS; now_ms() < end;) {
        daemon_turn(daemon);
    }
    stage_skip_if(lw_lock_state(daemon->lock) != LW_HELD &&
                  daemon->longest_ms > LEASE_MS / 4);
    assert_int_equal(lw_lock_state(daemon->lock), LW_HELD);
    assert_true(redis_int("PTTL x") > 0);
    assert_int_equal(lw_client_close(daemon->client, on_closed, daemon), 0);
    while (!daemon->closed) {
        daemon_turn(daemon);
    }
}

static void in_a_child(int (*in_child)(struct daemon *))
{
    struct daemon daemon;
    int status = -1;
    pid_t child;

    daemon_holds(&daemon, stage.server.url);
    child = fork_for_test();
    if (child == 0) {
        end_child(in_child(&daemon));
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    assert_int_equal(status, 0);
    parent_holds_on(&daemon);
    daemon_frees(&daemon);
    event_base_free(daemon.base);
}

static void rule8_fork_child_frees_then_reinits(void **state)
{
    (void)state;
    in_a_child(frees_then_reinits);
}

static void rule8_fork_child_reinits_then_frees(void **state)
{
    (void)state;
    in_a_child(reinits_then_frees);
}

static void rule8_fork_child_frees_the_base_too(void **state)
{
    (void)state;
    in_a_child(frees_all);
    in_a_child(reinits_and_frees_all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(rule8_fork_child_frees_and_the_parent_is_unaffected),
        STAGE_TEST(rule8_fork_child_frees_the_client_first),
        STAGE_TEST(rule8_fork_child_holds_nothing),
        STAGE_TEST(rule8_fork_child_frees_a_client_that_listens),
        STAGE_TEST(rule8_fork_child_frees_then_reinits),
        STAGE_TEST(rule8_fork_child_reinits_then_frees),
        STAGE_TEST(rule8_fork_child_frees_the_base_too),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/* The getters of a client and a handle: whether the link is up and why not; the handle's
 * client, mode, arg and position; in each state, after the client's end, and after fork.
 * Independent of what the library stores for them.
 *
 * Usual course: two handles wait behind a holder, at the positions 0 and 1. */
#include "child.h"
#include "players.h"
#include "proxy.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOWHERE "unix:///tmp/lockwire-test-nowhere/s"

/* ---- the link ---- */

static void assert_link(const struct peer *peer, int up, const char *text)
{
    const char *why = NULL;

    assert_int_equal(lw_client_is_up(peer->client, NULL), up);
    assert_int_equal(lw_client_is_up(peer->client, &why), up);
    assert_string_equal(why, text);
}

/* A state that lw_client_is_up has returned and that no callback has reported yet. On a
 * slow machine the next attempt may also have failed before the callback for the last one
 * is called. */
static struct {
    bool owed;
    int up;
    char why[512];
} ahead;

static void says_the_same(struct peer *peer)
{
    const char *why = NULL;
    int up = lw_client_is_up(peer->client, &why);

    if (ahead.owed && ahead.up == peer->up && strcmp(ahead.why, peer->why) == 0) {
        ahead.owed = false;
    }
    if (up != peer->up || strcmp(why, peer->why) != 0) {
        ahead.owed = true;
        ahead.up = up;
        (void)snprintf(ahead.why, sizeof(ahead.why), "%s", why);
    }
}

static void link_is_not_up_before_the_first_attempt(void **state)
{
    (void)state;
    assert_link(peer_start("a", NULL), 0, "");
}

static void link_is_up_and_down_as_its_callback_is_told(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    assert_link(a, 1, "");
    ahead.owed = false;
    a->on_link = says_the_same;
    server_kill(&stage.server);
    UNTIL(a->downs == 2);
    assert_string_not_equal(a->why, "");
    server_restart(&stage.server);
    UNTIL(a->ups == 2);
    assert_false(ahead.owed);
    assert_link(a, 1, "");
}

static int logged; /* messages */

static void on_log(int level, const char *message, void *arg)
{
    (void)level, (void)message, (void)arg;
    logged++;
}

static void link_without_a_callback(void **state)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    struct lw_client *client;
    const char *why;
    int before = logged;

    (void)state;
    options.log = on_log;
    assert_int_equal(lw_client_new(stage.base, NOWHERE, &options, &client), 0);
    UNTIL(logged > before);
    assert_int_equal(lw_client_is_up(client, &why), 0);
    assert_non_null(strstr(why, strerror(ENOENT)));
    lw_client_free(client);
}

static void says_that_it_is_closed(struct peer *peer)
{
    assert_link(peer, 0, lw_strerror(LW_ECLOSED));
}

static void link_of_a_client_that_closes(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x");

    (void)state;
    a->on_closed = says_that_it_is_closed;
    server_pause(&stage.server);
    peer_close(a);
    assert_link(a, 1, ""); /* it is still needed */
    server_resume(&stage.server);
    EXPECT("A granted; a closed");
    says_that_it_is_closed(a);
    assert_null(lw_lock_client(A->lock));
}

/* ---- client and mode ---- */

static void client_of_a_handle_in_each_state(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "x"),
                *A = acquire_hold(a, "A", "x", STAGE_WAIT_MS);

    (void)state;
    assert_ptr_equal(lw_lock_client(A->lock), a->client);
    wait_queued("x", 1);
    release_hold(B);
    assert_ptr_equal(lw_lock_client(B->lock), b->client);
    EXPECT_SET("B granted; B released OK; A granted");
    assert_ptr_equal(lw_lock_client(B->lock), b->client);
    assert_ptr_equal(lw_lock_client(A->lock), a->client);
    redis_ok("DEL x");
    renew_hold(A, 0);
    EXPECT("A lost ENOTHELD; A renewed ELOST");
    assert_ptr_equal(lw_lock_client(A->lock), a->client);
    peer_free(a);
    assert_null(lw_lock_client(A->lock));
    peer_close(b);
    assert_ptr_equal(lw_lock_client(B->lock), b->client);
    EXPECT("b closed");
    assert_null(lw_lock_client(B->lock));
    stage.notes_may_stay = true;
}

static void mode_of_a_handle(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    static const enum lw_mode modes[] = {LW_MUTEX, LW_EXCLUSIVE, LW_SHARED, LW_REDISSON};

    (void)state;
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); i++) {
        struct hold *A = acquire_hold_with(a, "A", "x", asking(.mode = modes[i]));

        assert_int_equal(lw_lock_mode(A->lock), modes[i]);
        EXPECT("A granted");
        assert_int_equal(lw_lock_mode(A->lock), modes[i]);
        release_hold(A);
        EXPECT("A released OK");
        assert_int_equal(lw_lock_mode(A->lock), modes[i]);
    }
    peer_free(a);
    assert_int_equal(lw_lock_mode(holds->lock), LW_REDISSON);
    stage.notes_may_stay = true;
}

/* ---- arg ---- */

static void tells_its_arg(struct lw_lock *lock, int status, void *arg)
{
    assert_ptr_equal(lw_lock_arg(lock), arg);
    stage_note("%s %s", (const char *)arg, status_name(status));
}

static void tells_what_it_was_given(struct lw_lock *lock, int status, void *arg)
{
    (void)lock;
    stage_note("%s %s", (const char *)arg, status_name(status));
}

static void tells_its_arg_at_risk(struct lw_lock *lock, int at_risk, int64_t remaining_ms,
                                  void *arg)
{
    (void)remaining_ms;
    assert_ptr_equal(lw_lock_arg(lock), arg);
    stage_note("%s risk %d", (const char *)arg, at_risk);
}

static struct lw_lock *acquire(const struct peer *peer, char *arg,
                               const struct lw_acquire_options *options)
{
    struct lw_lock *lock;

    assert_int_equal(lw_acquire(peer->client, "x", options, tells_its_arg, arg, &lock),
                     0);
    assert_ptr_equal(lw_lock_arg(lock), arg);
    return lock;
}

static void set(struct lw_lock *lock, char *arg)
{
    lw_lock_set_arg(lock, arg);
    assert_ptr_equal(lw_lock_arg(lock), arg);
}

static void arg_of_what_is_still_to_come(void **state)
{
    struct peer *a = peer_ready("a", client_of(.local_turns = 16));
    struct lw_lock *lock = acquire(a, "first",
                                   asking(.lease_ms = 600, .flags = LW_NO_RENEW,
                                          .lost = tells_its_arg,
                                          .at_risk = tells_its_arg_at_risk)),
                   *other;

    (void)state;
    set(lock, "second");
    EXPECT("second OK");
    other = acquire(a, "other", asking(.wait_ms = 0)); /* its result is already queued */
    set(other, "another");
    EXPECT("another EBUSY");
    lw_lock_free(other);
    set(lock, "third");
    EXPECT("third risk 1");
    set(lock, "fourth");
    EXPECT("fourth ELOST");
    set(lock, "fifth");
    lw_client_free(a->client);
    a->client = NULL;
    set(lock, "sixth");
    lw_lock_free(lock);
    stage.keys_may_stay = stage.notes_may_stay = true;
}

static void arg_of_a_release_and_of_a_renewal(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct lw_lock *lock = acquire(a, "first", NULL);

    (void)state;
    EXPECT("first OK");
    assert_int_equal(lw_renew(lock, 0, tells_what_it_was_given, "renewal"), 0);
    assert_string_equal(lw_lock_arg(lock), "first");
    set(lock, "second");
    EXPECT("renewal OK");
    assert_int_equal(lw_release(lock, tells_its_arg, "release"), 0);
    assert_string_equal(lw_lock_arg(lock), "release");
    set(lock, "third");
    EXPECT("third OK");
    lw_lock_free(lock);
}

/* ---- position ---- */

static int64_t position(const struct hold *hold)
{
    return lw_lock_position(hold->lock);
}

static void position_in_the_queue(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_and_wait(a, "A", "x"), *B, *C, *D;

    (void)state;
    assert_int_equal(position(A), -1); /* A does not wait */
    B = acquire_hold(b, "B", "x", STAGE_WAIT_MS);
    assert_int_equal(position(B), -1); /* no reply yet */
    UNTIL(position(B) == 0);
    C = acquire_hold(a, "C", "x", STAGE_WAIT_MS);
    UNTIL(position(C) == 1);
    D = acquire_hold(b, "D", "x", STAGE_WAIT_MS);
    UNTIL(position(D) == 2);
    release_hold(A);
    assert_int_equal(position(A), -1);
    EXPECT_SET("A granted; A released OK; B granted");
    assert_int_equal(position(A), -1);
    UNTIL(position(C) == 0); /* by a standby message */
    UNTIL(position(D) == 1); /* or by its own poll */
    free_hold(C);
    UNTIL(position(D) == 0);
    peer_free(b);
    assert_int_equal(position(D), -1);
    stage.keys_may_stay = stage.notes_may_stay = true;
}

static void position_of_those_who_share_a_turn(void **state)
{
    struct peer *a = peer_ready("a", client_of(.local_turns = 16)),
                *b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "x"), *A, *C, *D;

    (void)state;
    A = acquire_hold(a, "A", "x", STAGE_WAIT_MS);
    wait_queued("x", 1);
    C = acquire_hold(b, "C", "x", STAGE_WAIT_MS);
    UNTIL(position(C) == 1);
    D = acquire_hold(a, "D", "x", STAGE_WAIT_MS);
    UNTIL(position(A) == 0);
    assert_int_equal(position(D), 1); /* D goes before C, with A */
    assert_int_equal(position(C), 1);
    release_hold(B);
    EXPECT_SET("B granted; B released OK; A granted");
    assert_int_equal(position(D), 0); /* A holds */
    free_hold(A);
    EXPECT("D granted");
}

static void position_of_readers_and_writers(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.mode = LW_EXCLUSIVE)), *B, *C;

    (void)state;
    EXPECT("A granted");
    B = acquire_hold_with(b, "B", "x",
                          asking(.mode = LW_SHARED, .wait_ms = STAGE_WAIT_MS));
    UNTIL(position(B) == 0);
    C = acquire_hold_with(b, "C", "x",
                          asking(.mode = LW_EXCLUSIVE, .wait_ms = STAGE_WAIT_MS));
    UNTIL(position(C) == 1);
    free_hold(A);
    EXPECT("B granted");
    UNTIL(position(C) == 0);
}

static void position_in_Redissons_line(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.mode = LW_REDISSON)), *B, *C,
                *D, *E;

    (void)state;
    EXPECT("A granted");
    B = acquire_hold_with(a, "B", "x",
                          asking(.mode = LW_REDISSON, .wait_ms = STAGE_WAIT_MS));
    C = acquire_hold_with(a, "C", "x",
                          asking(.mode = LW_REDISSON, .wait_ms = STAGE_WAIT_MS));
    D = acquire_hold_with(a, "D", "x",
                          asking(.mode = LW_REDISSON, .wait_ms = STAGE_WAIT_MS));
    E = acquire_hold_with(a, "E", "x",
                          asking(.mode = LW_REDISSON, .wait_ms = STAGE_WAIT_MS));
    assert_int_equal(position(B), 0);
    assert_int_equal(position(C), 1);
    assert_int_equal(position(D), 2);
    assert_int_equal(position(E), 3);
    free_hold(A);
    EXPECT("B granted");
    assert_int_equal(position(C), 0);
    assert_int_equal(position(D), 1);
    assert_int_equal(position(E), 2);
    peer_close(a);
    assert_int_equal(position(D), -1);
    EXPECT_SET("C ECLOSED; D ECLOSED; E ECLOSED; a closed");
}

/* Without messages a request does not queue. */
static void position_is_not_known_where_it_polls(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *b = peer_ready("b", NULL), *a;
    struct hold *A;

    (void)state;
    proxy_hold(proxy, SUBSCRIPTION, TO_CLIENT, true);
    acquire_and_wait(b, "B", "x");
    a = peer_start_at("a", proxy->url, NULL);
    UNTIL(a->up);
    A = acquire_hold(a, "A", "x", 1000);
    EXPECT("B granted");
    for (int64_t end = now_ms() + 500; now_ms() < end;) {
        assert_int_equal(position(A), -1);
        stage_run_for(10);
    }
    EXPECT("A ETIMEOUT");
}

/* ---- a forked child ---- */

static void asked_in_a_child_the_link_is_down_and_nothing_waits(void **state)
{
    struct peer *a = peer_ready("a", NULL);
    struct hold *A, *B = acquire_and_wait(a, "B", "x");
    int status = 1;
    pid_t child;

    (void)state;
    A = acquire_hold(a, "A", "x", STAGE_WAIT_MS);
    UNTIL(position(A) == 0);
    child = fork_for_test();
    if (child == 0) {
        end_child(lw_client_is_up(a->client, NULL) != 0 || position(A) != -1 ||
                  lw_lock_client(A->lock) != a->client || lw_lock_arg(A->lock) != A ||
                  lw_lock_mode(B->lock) != LW_MUTEX);
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    assert_int_equal(status, 0);
    assert_int_equal(position(A), 0);
    EXPECT("B granted");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(link_is_not_up_before_the_first_attempt),
        STAGE_TEST(link_is_up_and_down_as_its_callback_is_told),
        STAGE_TEST(link_without_a_callback),
        STAGE_TEST(link_of_a_client_that_closes),
        STAGE_TEST(client_of_a_handle_in_each_state),
        STAGE_TEST(mode_of_a_handle),
        STAGE_TEST(arg_of_what_is_still_to_come),
        STAGE_TEST(arg_of_a_release_and_of_a_renewal),
        STAGE_TEST(position_in_the_queue),
        STAGE_TEST(position_of_those_who_share_a_turn),
        STAGE_TEST(position_of_readers_and_writers),
        STAGE_TEST(position_in_Redissons_line),
        STAGE_TEST(position_is_not_known_where_it_polls),
        STAGE_TEST(asked_in_a_child_the_link_is_down_and_nothing_waits),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/* options.priority: next to a host whose events are always ready, a client with a more
 * urgent priority is served as usual, and one with a less urgent priority is starved.
 * Independent of the events that the library has.
 *
 * Usual course: an event_base with six priorities, a host that is always busy at a middle
 * one, a client at 0. */
#include "players.h"

#include <stdio.h>

#define LEASE 600

static struct event *busy;

static void on_busy(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg;
    event_active(busy, EV_TIMEOUT, 0);
    (void)event_base_loopbreak(stage.base); /* otherwise the loop would never return */
}

/* Gives the event_base six priorities. The stage's own event keeps the most urgent one.
 * An event without a priority of its own has 3, and is starved by each of the busy hosts
 * here. */
static void with_six_priorities(void)
{
    assert_int_equal(event_base_priority_init(stage.base, 6), 0);
}

static void be_busy(int priority)
{
    busy = event_new(stage.base, -1, 0, on_busy, NULL);
    assert_non_null(busy);
    assert_int_equal(event_priority_set(busy, priority), 0);
    event_active(busy, EV_TIMEOUT, 0);
}

static void rest(void)
{
    event_free(busy);
}

/* A lock is granted, renewed, handed over and released while the host is busy. */
static void served(int priority, int busy_priority)
{
    struct peer *a, *b;
    struct hold *A, *B;

    with_six_priorities();
    be_busy(busy_priority);
    a = peer_ready("a", client_of(.priority = priority));
    b = peer_ready("b", client_of(.priority = priority));
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = LEASE));
    EXPECT("A granted");
    B = acquire_hold_with(b, "B", "x",
                          asking(.lease_ms = LEASE, .wait_ms = STAGE_WAIT_MS));
    wait_queued("x", 1);
    UNTIL(peer_stats(a).renewed >= 4);
    assert_held_by_redis(A);
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    release_hold(B);
    EXPECT("B released OK");
    peer_close(a);
    EXPECT("a closed");
    rest();
}

static void priority_0_is_served_beside_a_busy_host(void **state)
{
    (void)state;
    served(0, 1);
}

static void priority_1_is_served_beside_a_less_urgent_host(void **state)
{
    (void)state;
    served(1, 2);
}

/* A connection is made again while the host is busy. */
static void priority_of_a_connection_made_anew(void **state)
{
    struct peer *a;

    (void)state;
    with_six_priorities();
    a = peer_ready("a", NULL);
    be_busy(1);
    redis_ok("CLIENT KILL TYPE normal SKIPME yes");
    redis_ok("CLIENT KILL TYPE pubsub");
    UNTIL(a->ups == 2);
    works(a);
    rest();
}

/* With TCP the loop reports when the client is connected. */
static void priority_of_a_connection_by_TCP(void **state)
{
    struct peer *a;
    char url[64];

    (void)state;
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d",
                   server_listen(&stage.server));
    with_six_priorities();
    be_busy(1);
    a = peer_start_at("a", url, NULL);
    UNTIL(a->up);
    works(a);
    rest();
}

/* The precondition of the tests above. */
static void priority_below_a_busy_host_is_starved(void **state)
{
    struct peer *a;
    struct hold *A;
    struct lw_stats before;

    (void)state;
    with_six_priorities();
    a = peer_ready("a", client_of(.priority = 2));
    A = acquire_hold_with(a, "A", "x", asking(.lease_ms = LEASE));
    EXPECT("A granted");
    before = peer_stats(a);
    be_busy(1);
    UNTIL(lw_lock_remaining_ms(A->lock) == 0);
    stage_run_for(5); /* 0 is returned already in the last millisecond */
    assert_int_equal(peer_stats(a).renewed, before.renewed);
    assert_int_equal(A->lost, PENDING);
    rest();
    EXPECT("A lost ELOST");
}

static void refused(int priority, const char *text)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    struct lw_client *client = NULL;
    char error[128] = "";

    options.priority = priority;
    options.errbuf = error;
    options.errbuf_size = sizeof(error);
    assert_int_equal(lw_client_new(stage.base, stage.server.url, &options, &client),
                     LW_EINVAL);
    assert_null(client);
    assert_string_equal(error, text);
}

static void priority_that_the_base_does_not_have(void **state)
{
    (void)state;
    refused(1, "priority 1 is not between 0 and 0, the priorities of the event_base");
    refused(-1, "priority -1 is not between 0 and 0, the priorities of the event_base");
    with_six_priorities();
    refused(6, "priority 6 is not between 0 and 5, the priorities of the event_base");
    refused(-1, "priority -1 is not between 0 and 5, the priorities of the event_base");
    works(peer_ready("a", client_of(.priority = 5)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(priority_0_is_served_beside_a_busy_host),
        STAGE_TEST(priority_1_is_served_beside_a_less_urgent_host),
        STAGE_TEST(priority_of_a_connection_made_anew),
        STAGE_TEST(priority_of_a_connection_by_TCP),
        STAGE_TEST(priority_below_a_busy_host_is_starved),
        STAGE_TEST(priority_that_the_base_does_not_have),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/*
 * Connecting: name look-ups by evdns, a server that starts later, backoff, the link
 * callback, time-outs, the heartbeat, and the state that a new connection finds.
 * Independent of the order of the handshake.
 *
 * Usual course: a client starts, its link comes up, and it comes up again after every
 * loss.
 */
#include "fake_redis.h"
#include "monitor.h"
#include "proxy.h"
#include "server/scene.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- finding the server ---- */

static void tcp_by_address(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, true);

    (void)state;
    works(peer_start_at("a", proxy->url, NULL));
    assert_true(proxy->accepted >= 2);
}

static void tcp_by_name_through_evdns(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, true);
    char url[64];

    (void)state;
    (void)snprintf(url, sizeof(url), "redis://localhost:%d", proxy->port);
    works(peer_start_at("a", url, NULL));
}

static void name_that_does_not_exist_is_told(void **state)
{
    (void)state;
    struct peer *a =
        peer_start_at("a", "redis://no-such-host.invalid:6379",
                      client_of(.connect_timeout_ms = 500, .backoff_max_ms = 100));
    acquire_hold(a, "A", "x", 0);
    EXPECT("A ECONN");
    UNTIL(a->downs >= 1);
    assert_true(a->why[0] != '\0');
    assert_int_equal(a->ups, 0);
}

static void I8_name_look_up_does_not_block_the_loop(void **state)
{
    (void)state;
    stage_run_for(50);
    stage_forget_lag();
    struct peer *a = peer_start_at("a", "redis://slow.example.invalid:6379", NULL);
    stage_run_for(300);
    stage_expect_turning(3000); /* a resolver's time-out is longer */
    peer_free(a);               /* during the look-up */
    stage_run_for(50);
}

static void server_that_comes_later(void **state)
{
    struct server late;

    (void)state;
    server_absent(&late);
    struct peer *a = peer_start_at("a", late.url, client_of(.backoff_max_ms = 200));
    UNTIL(a->downs >= 3);
    assert_true(a->why[0] != '\0');
    server_restart(&late);
    UNTIL(a->up);
    struct hold *A = acquire_and_wait(a, "A", "x");
    release_hold(A);
    EXPECT("A granted; A released OK");
    peer_free(a);
    server_stop(&late);
}

static void port_where_nobody_listens(void **state)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    char url[64];
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    /* without listen() */
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    getsockname(fd, (struct sockaddr *)&address, &size);
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d", ntohs(address.sin_port));
    struct peer *a = peer_start_at("a", url, NULL);
    UNTIL(a->downs >= 1);
    assert_non_null(strstr(a->why, "refused"));
    close(fd);
}

/* ---- the link callback and reconnecting ---- */

static void link_tells_up_down_and_why(void **state)
{
    struct peer *a = peer_start("a", client_of(.backoff_max_ms = 200));

    (void)state;
    a->shows_link = true;
    EXPECT("a up");
    assert_string_equal(a->why, "");
    UNTIL(peer_link_id(a, false) != 0);
    redis_ok("CLIENT KILL ID %lld", peer_link_id(a, false));
    EXPECT("a down");
    assert_true(a->why[0] != '\0');
    EXPECT("a up");
    assert_string_equal(a->why, "");
    UNTIL(peer_stats(a).reconnects == 1);
}

static void each_failed_attempt_is_told(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a = peer_start_at("a", proxy->url, client_of(.backoff_max_ms = 100));

    (void)state;
    UNTIL(a->up);
    proxy_refuse(proxy, true);
    proxy_cut(proxy, COMMANDS);
    UNTIL(a->downs >= 4);
    assert_int_equal(a->ups, 1);
    proxy_refuse(proxy, false);
    UNTIL(a->ups == 2);
}

static void backoff_grows_with_jitter_up_to_its_limit(void **state)
{
    struct server nobody;

    (void)state;
    server_absent(&nobody);
    struct peer *a = peer_start_at(
        "a", nobody.url, client_of(.backoff_min_ms = 40, .backoff_max_ms = 320));
    stage_forget_lag();
    UNTIL(a->links >= 9);
    stage_skip_if_lag(30);
    int64_t limit = 40, sum = 0;
    bool jitter = false;
    for (int i = 1; i < 9; i++) {
        int64_t gap = a->linked_ms[i] - a->linked_ms[i - 1];
        if (gap < limit / 2 - 2 || gap > limit + 40) {
            stage_fail("attempt %d came %lld ms after the last, not %lld to %lld", i + 1,
                       (long long)gap, (long long)limit / 2, (long long)limit);
        }
        jitter |= gap < limit - 5;
        sum += gap;
        limit = limit * 2 > 320 ? 320 : limit * 2;
    }
    assert_true(jitter && sum > 500);
    server_stop(&nobody);
}

static void connect_time_out(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);

    (void)state;
    proxy_black_hole(proxy, true);
    struct peer *a = peer_start_at(
        "a", proxy->url, client_of(.connect_timeout_ms = 300, .backoff_max_ms = 100));
    UNTIL(a->downs >= 2);
    assert_int_equal(a->ups, 0);
    assert_true(a->linked_ms[1] - a->linked_ms[0] >= 290);
    proxy_black_hole(proxy, false);
    UNTIL(a->up);
    works(a);
}

static void request_time_out_on_a_stopped_server(void **state)
{
    struct peer *a =
        peer_ready("a", client_of(.request_timeout_ms = 400, .backoff_max_ms = 100));

    (void)state;
    server_pause(&stage.server);
    int64_t before = now_ms();
    struct hold *A = acquire_hold(a, "A", "x", 0);
    UNTIL(!a->up);
    assert_true(a->linked_ms[1] - before >= 390);
    assert_true(a->linked_ms[1] - before <= 400 + 100 + 3 * stage.worst_lag_ms);
    EXPECT("A ECONN"); /* wait_ms is 0: no later than the request's time-out */
    assert_int_equal(A->result, LW_ECONN);
    server_resume(&stage.server);
    UNTIL(a->up);
    works(a);
}

/* If the time-out ran from the newest request, renewals would hide a dead link
 * indefinitely. */
static void request_time_out_is_of_the_oldest_request(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a = peer_start_at(
        "a", proxy->url, client_of(.request_timeout_ms = 600, .backoff_max_ms = 100));

    (void)state;
    peer_wait_ready(a);
    struct hold *A = acquire_and_wait(a, "A", "x");
    proxy_swallow(proxy, COMMANDS, TO_CLIENT, true);
    int64_t before = now_ms();
    while (a->up && now_ms() - before < 20000) {
        renew_hold(A, 0); /* one more request each time */
        stage_run_for(30);
    }
    assert_false(a->up);
    assert_true(now_ms() - before < 600 + 400 + 3 * stage.worst_lag_ms);
    proxy_swallow(proxy, COMMANDS, TO_CLIENT, false);
    UNTIL(a->up && A->renewals == 0);
    assert_held_by_redis(A);
    stage_clear_trace();
}

static void heartbeat_finds_a_half_open_subscription(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a = peer_start_at(
        "a", proxy->url, client_of(.request_timeout_ms = 300, .backoff_max_ms = 100));

    (void)state;
    peer_wait_ready(a);
    long long id = peer_link_id(a, true);
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, true);
    UNTIL(peer_link_id(a, true) != id);
    proxy_swallow(proxy, SUBSCRIPTION, TO_CLIENT, false);
    peer_wait_ready(a);
    assert_true(peer_link_id(a, true) != id);
    assert_int_equal(a->downs, 0); /* the command link is unaffected */
}

static void heartbeat_keeps_the_fence_counter_alive(void **state)
{
    struct peer *a = peer_ready("a", client_of(.request_timeout_ms = 200));

    (void)state;
    redis_ok("PEXPIRE lockwire:fence 60000");
    UNTIL(redis_int("PTTL lockwire:fence") > 3600000);
    redis_ok("DEL lockwire:fence");
    UNTIL(redis_int("EXISTS lockwire:fence") == 1);
    (void)a;
}

/* ---- reconnecting with locks ---- */

static void reconnect_verifies_holds_at_once(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);
    struct peer *a = peer_start_at("a", proxy->url, client_of(.backoff_max_ms = 50));

    (void)state;
    peer_wait_ready(a);
    /* The own renewals would come after a third of the lease: EXPECT does not wait so
     * long. */
    const uint32_t lease_ms = 4 * STAGE_WAIT_MS;
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = lease_ms));
    acquire_hold_with(a, "B", "y", asking(.lease_ms = lease_ms));
    EXPECT("A granted; B granted");
    proxy_refuse(proxy, true);
    proxy_cut(proxy, COMMANDS);
    UNTIL(!a->up);
    redis_ok("DEL y");
    proxy_refuse(proxy, false);
    EXPECT("B lost ENOTHELD");
    assert_held_by_redis(A);
    assert_int_equal(A->lost, PENDING);
}

static void server_killed_and_restarted_empty(void **state)
{
    struct peer *a = peer_ready("a", client_of(.backoff_max_ms = 100)), *b;

    (void)state;
    struct hold *A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    server_kill(&stage.server);
    UNTIL(!a->up);
    assert_int_equal(lw_lock_state(A->lock), LW_HELD);
    server_restart(&stage.server);
    EXPECT("A lost ENOTHELD");
    b = peer_ready("b", NULL);
    struct hold *B = acquire_and_wait(b, "B", "x");
    assert_true(B->fence > A->fence); /* I2: also after an empty restart */
}

static void server_killed_and_restarted_with_its_data(void **state)
{
    struct server keeping;

    (void)state;
    server_start(&keeping, "--appendonly yes --appendfsync always");
    struct peer *a = peer_start_at("a", keeping.url, client_of(.backoff_max_ms = 100));
    struct hold *A = acquire_and_wait(a, "A", "x");
    EXPECT("A granted");
    server_restart(&keeping);
    UNTIL(a->ups == 2);
    renew_hold(A, 0);
    EXPECT("A renewed OK");
    release_hold(A);
    EXPECT("A released OK");
    peer_free(a);
    server_stop(&keeping);
}

static void I8_no_SIGPIPE_when_the_server_dies(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, true);
    struct peer *a = peer_start_at("a", proxy->url, client_of(.backoff_max_ms = 50));

    (void)state; /* SIGPIPE has its default action here: it would end the test */
    for (int i = 0; i < 20; i++) {
        peer_wait_ready(a);
        struct hold *all[10];
        for (int j = 0; j < 10; j++) {
            all[j] = acquire_hold(a, "A", "x", -1);
        }
        event_base_loop(stage.base, EVLOOP_NONBLOCK);
        proxy_cut(proxy, COMMANDS);
        proxy_cut(proxy, SUBSCRIPTION);
        for (int j = 0; j < 10; j++) {
            free_hold(all[j]); /* writes into the dead connection */
        }
        UNTIL(!a->up || i % 2);
    }
    stage_clear_trace();
    works(a); /* over a new connection: a client that is closed during an outage leaves
                 its identity's key to expire */
    UNTIL(redis_int("EXISTS x %s", queue_of("x")) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(tcp_by_address),
        STAGE_TEST(tcp_by_name_through_evdns),
        STAGE_TEST(name_that_does_not_exist_is_told),
        STAGE_TEST(I8_name_look_up_does_not_block_the_loop),
        STAGE_TEST(server_that_comes_later),
        STAGE_TEST(port_where_nobody_listens),
        STAGE_TEST(link_tells_up_down_and_why),
        STAGE_TEST(each_failed_attempt_is_told),
        STAGE_TEST(backoff_grows_with_jitter_up_to_its_limit),
        STAGE_TEST(connect_time_out),
        STAGE_TEST(request_time_out_on_a_stopped_server),
        STAGE_TEST(request_time_out_is_of_the_oldest_request),
        STAGE_TEST(heartbeat_finds_a_half_open_subscription),
        STAGE_TEST(heartbeat_keeps_the_fence_counter_alive),
        STAGE_TEST(reconnect_verifies_holds_at_once),
        STAGE_TEST(server_killed_and_restarted_empty),
        STAGE_TEST(server_killed_and_restarted_with_its_data),
        STAGE_TEST(I8_no_SIGPIPE_when_the_server_dies),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/*
 * The handshake, and the choice among a name's addresses: handshake commands that the
 * server refuses, an unsafe eviction policy, several addresses. Independent of the order
 * of the handshake.
 *
 * Usual course: the server refuses a command that is not needed; the client logs it and
 * goes on.
 */
#include "fake_redis.h"
#include "server/scene.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- handshakes ---- */

static void a_refused_greeting_that_is_not_needed_is_no_hindrance(void **state)
{
    (void)state;
    redis_ok("ACL SETUSER app reset on >pw +@all -client -info -config ~* &*");
    struct peer *a = peer_start("a", client_of(.username = "app", .password = "pw"));
    works(a);
    assert_true(peer_logged(a, "6 CLIENT SETNAME: NOPERM"));
    assert_true(peer_logged(a, "6 CLIENT ID: NOPERM"));
    assert_true(peer_logged(a, "4 INFO: NOPERM"));
    assert_int_equal(a->downs, 0);
}

/* A server that is loading its data may reply so to any command. */
static const char *loading_for_a_while(struct fake_redis *fake, int argc, char **argv)
{
    (void)argc;
    if (strcasecmp(argv[0], "INFO") == 0 && fake->count++ < 2) {
        return "-LOADING Redis is loading the dataset in memory\r\n";
    }
    return FAKE_REAL;
}

static void a_server_that_loads_is_no_server_yet(void **state)
{
    struct fake_redis *fake = fake_start(loading_for_a_while);

    (void)state;
    struct peer *a = peer_start_at("a", fake->url, client_of(.backoff_min_ms = 10));
    UNTIL(a->up);
    assert_int_equal(fake->count >= 2, 1);
    assert_true(a->downs > 0);
    assert_non_null(strstr(a->whys, "INFO: LOADING"));
    works(a);
}

static void each_policy_that_evicts_locks_is_told(void **state)
{
    static const char *const policies[] = {"allkeys-lru", "volatile-ttl", "noeviction"};

    (void)state;
    for (int i = 0; i < 3; i++) {
        char label[4] = {'p', (char)('0' + i), '\0'}, told[64];

        redis_ok("CONFIG SET maxmemory-policy %s", policies[i]);
        struct peer *peer = peer_ready(label, NULL);
        works(peer);
        (void)snprintf(told, sizeof(told), " is %s; the server may evict", policies[i]);
        assert_int_equal(peer_logged(peer, told), i < 2);
    }
}

/* Each connection finds the same faults of its server. They are logged only once. */
static void what_each_connection_reports_is_logged_once(void **state)
{
    (void)state;
    redis_ok("CONFIG SET maxmemory-policy allkeys-lru");
    redis_ok("ACL SETUSER app reset on >pw +@all -info ~* &*");
    struct peer *a = peer_start(
        "a", client_of(.username = "app", .password = "pw", .backoff_min_ms = 1));
    for (int ups = 1; ups <= 3; ups++) {
        UNTIL(a->ups == ups && peer_link_id(a, true) != 0);
        works(a);
        assert_int_equal(peer_count_logged(a, "4 INFO: NOPERM"), 1);
        assert_int_equal(peer_count_logged(a, " is allkeys-lru; the server may evict"),
                         1);
        if (ups < 3) {
            redis_ok("CLIENT KILL ID %lld", peer_link_id(a, true));
            redis_ok("CLIENT KILL ID %lld", peer_link_id(a, false));
        }
    }
}

/* Each connection tries to subscribe again, but the refusal is logged only once. */
static void a_forbidden_subscription_is_told_once(void **state)
{
    (void)state;
    redis_ok("ACL SETUSER default resetchannels");
    struct peer *a = peer_start("a", client_of(.backoff_min_ms = 1));
    works(a);
    UNTIL(peer_count_logged(a, " refused SUBSCRIBE; waiters poll") == 1);
    redis_ok("CLIENT KILL ID %lld", peer_link_id(a, false));
    UNTIL(a->ups == 2);
    works(a);
    stage_run_for(100);
    redis_ok("ACL SETUSER default allchannels");
    redis_ok("CLIENT KILL ID %lld", peer_link_id(a, false));
    UNTIL(peer_link_id(a, true) != 0); /* it is permitted again */
    assert_int_equal(peer_count_logged(a, " refused SUBSCRIBE; waiters poll"), 1);
}

/* ---- addresses ---- */

/* Returns a free port of ::1; 0 if this machine has no ::1. */
static int free_port_of_v6(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6,
                                   .sin6_addr = in6addr_loopback};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 0;

    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0) {
        port = ntohs(address.sin6_port);
    }
    if (fd >= 0) {
        close(fd);
    }
    return port;
}

/* localhost has both addresses, in the order of the hosts file. The client finds a server
 * at either. */
static void every_address_of_a_name_is_tried(void **state)
{
    const struct {
        const char *address;
        int port;
    } places[] = {{"127.0.0.1", server_free_port()}, {"::1", free_port_of_v6()}};
    char label[2] = "a", url[64];

    (void)state;
    for (int i = 0; i < 2; i++) {
        if (places[i].port == 0) {
            continue;
        }
        redis_ok("CONFIG SET bind %s", places[i].address);
        redis_ok("CONFIG SET port %d", places[i].port);
        (void)snprintf(url, sizeof(url), "redis://localhost:%d", places[i].port);
        label[0] = (char)('a' + i);
        struct peer *peer = peer_start_at(label, url, NULL);
        works(peer);
        assert_int_equal(peer->downs, 0); /* one attempt, whichever addresses it tried */
        peer_close(peer);
        UNTIL(peer->closed);
        stage_clear_trace();
        redis_ok("CONFIG SET port 0");
    }
}

static void an_attempt_fails_when_all_addresses_did(void **state)
{
    char url[64];

    (void)state;
    (void)snprintf(url, sizeof(url), "redis://localhost:%d", server_free_port());
    struct peer *a = peer_start_at("a", url, client_of(.backoff_min_ms = 10));
    UNTIL(a->downs >= 2);
    assert_non_null(strstr(a->whys, "connecting to "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_refused_greeting_that_is_not_needed_is_no_hindrance),
        STAGE_TEST(a_server_that_loads_is_no_server_yet),
        STAGE_TEST(each_policy_that_evicts_locks_is_told),
        STAGE_TEST(what_each_connection_reports_is_logged_once),
        STAGE_TEST(a_forbidden_subscription_is_told_once),
        STAGE_TEST(every_address_of_a_name_is_tried),
        STAGE_TEST(an_attempt_fails_when_all_addresses_did),
    };

    return STAGE_RUN(tests);
}

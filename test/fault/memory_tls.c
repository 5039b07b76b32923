/* SPDX-License-Identifier: MIT */
/*
 * The n-th allocation fails, for every n, during work over TLS, OpenSSL's allocations
 * included: reading the files for a link; its handshake, a command and its reply; and,
 * except for OpenSSL's allocations, a whole life of two clients. A life has tens of
 * thousands of OpenSSL's, most of them repetitions. In a small life only every SAMPLES-th
 * allocation fails, OpenSSL's included. Whatever fails, no callback is missing, no memory
 * leaks, and the reported reason is lack of memory.
 *
 * An undisturbed first life makes the allocations that OpenSSL keeps for the process;
 * those that it keeps for the thread are freed after each life.
 *
 * Usual course: CRYPTO_set_mem_functions before OpenSSL does anything; then as in
 * memory.c.
 */
#include "allocator.h"
#include "lives.h"
#include "tls/scene.h"

#include "base/escape.h"
#include "lockwire.h"
#include "loop/loop.h"
#include "redis/link.h"
#include "redis/reply.h"
#include "redis/tls.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 211 /* in a small life, the step between failing allocations */

static bool spares_openssl;

static void *openssl_malloc(size_t size, const char *file, int line)
{
    bool armed = spares_openssl && allocator_pause();
    void *memory = malloc(size);

    (void)file, (void)line;
    if (spares_openssl) {
        allocator_resume(armed);
    }
    return memory;
}

static void *openssl_realloc(void *old, size_t size, const char *file, int line)
{
    bool armed = spares_openssl && allocator_pause();
    void *memory = realloc(old, size);

    (void)file, (void)line;
    if (spares_openssl) {
        allocator_resume(armed);
    }
    return memory;
}

static void openssl_free(void *memory, const char *file, int line)
{
    (void)file, (void)line;
    free(memory);
}

/* ---- the reported reasons ---- */

/* Returns true if the server sent the reason: without memory for the client's
 * certificate, a handshake may continue without it. */
static bool is_the_servers_word(const char *why)
{
    return strstr(why, "alert certificate required") != NULL;
}

static void judge(int status, const char *why)
{
    if ((status != LW_OK && status != LW_ENOMEM) ||
        (strstr(why, lw_strerror(LW_ENOMEM)) == NULL && !is_the_servers_word(why))) {
        stage_complain("memory was out, and %d was told: %s", status, why);
    }
}

/* A client's time-outs are short here, since without memory a life waits for all of them.
 * On a busy machine they may pass with memory as well, so they are accepted. */
static void judge_client(int status, const char *why)
{
    static const char *const late[] = {" within ", " in time", "timed out "};

    for (size_t i = 0; i < sizeof(late) / sizeof(late[0]); i++) {
        if (strstr(why, late[i]) != NULL) {
            return;
        }
    }
    judge(status, why);
}

/* ---- the files ---- */

static struct lw__tls_trust *trust;

static const struct lw__tls_options *files(void)
{
    static struct lw__tls_options options;

    options = (struct lw__tls_options){.ca = tls_file("ca.pem"),
                                       .cert = tls_file("client.pem"),
                                       .key = tls_file("client.key"),
                                       .server_name = "localhost",
                                       .trust = &trust};
    return &options;
}

/* ---- a link ---- */

static struct {
    struct event_base *base;
    struct lw__loop *loop;
    struct lw__link *link;
    struct lw__request request;
    bool over;
    int answers;
} alone;

static void on_pong(struct lw__request *request, const struct lw__reply *reply)
{
    (void)request;
    if (lw__reply_type(reply) != LW__REPLY_STATUS) {
        stage_complain("a wrong reply");
    }
    alone.answers++;
    alone.over = true;
}

static void on_failed(struct lw__request *request, const char *why)
{
    (void)request;
    judge(LW_OK, why);
}

/* If this fails, `down` follows. */
static void on_up(void *arg)
{
    static const struct lw__request_type type = {on_pong, on_failed};
    static const char ping[] = "*1\r\n$4\r\nPING\r\n";

    (void)arg;
    alone.request = (struct lw__request){.expected = 1, .type = &type};
    (void)lw__link_send(alone.link, &alone.request, ping, strlen(ping));
}

static void on_down(void *arg, const char *why)
{
    (void)arg;
    alone.link = NULL;
    alone.over = true;
    judge(LW_OK, why);
}

static void on_push(void *arg, const struct lw__reply *reply)
{
    (void)arg, (void)reply;
    stage_complain("a message to who listens to nothing");
}

static void on_unclaimed(void *arg)
{
    (void)arg;
    stage_complain("a reply to nobody");
}

/* Returns what lw__link_open does. */
static int open_link(int port)
{
    static const struct lw__link_events events = {on_up, on_down, on_push, on_unclaimed};
    struct lw__link_options options = {.host = "127.0.0.1",
                                       .port = (uint16_t)port,
                                       .connect_timeout_ms = STAGE_WAIT_MS,
                                       .request_timeout_ms = STAGE_WAIT_MS,
                                       .reply_max = 100000,
                                       .tls = files()};
    char why[LW_WHY_SIZE] = "";
    int status = lw__link_open(alone.loop, &options, &events, NULL, why, &alone.link);

    if (status != 0) {
        judge(status, why);
        alone.over = true;
    }
    return status;
}

/* The life of a link, of which a part is without memory. */
static int life_of_link(const char *url, bool opening)
{
    bool armed = allocator_pause();
    int status;

    memset(&alone, 0, sizeof(alone));
    life_calls = 1;
    alone.base = event_base_new();
    assert_non_null(alone.base);
    assert_int_equal(lw__loop_new(alone.base, &alone.loop), 0);
    if (opening) {
        allocator_resume(armed);
    }
    status = open_link(atoi(strrchr(url, ':') + 1));
    if (opening) {
        armed = allocator_pause();
    } else {
        assert_int_equal(status, 0);
        allocator_resume(armed);
    }
    while (!alone.over) {
        if (event_base_loop(alone.base, EVLOOP_ONCE) < 0) {
            stage_fail("event_base_loop");
        }
    }
    lw__link_close(alone.link);
    lw__loop_free(alone.loop);
    event_base_free(alone.base);
    if (stage.broken) {
        stage_fail("%s", stage.complaint);
    }
    lw__tls_trust_free(trust);
    trust = NULL;
    OPENSSL_thread_stop();
    if (opening) {
        allocator_resume(armed);
    }
    return alone.answers;
}

/* Allocations for the files and for OpenSSL's objects. OpenSSL may leave out an authority
 * without a word: the failed handshake must not be blamed on the server then. */
static int life_opening(const char *url, int64_t wait_ms)
{
    (void)wait_ms;
    return life_of_link(url, true);
}

/* Allocations from the connect on. */
static int life_handshake(const char *url, int64_t wait_ms)
{
    (void)wait_ms;
    return life_of_link(url, false);
}

/* ---- clients ---- */

static int life_clients(const char *url, int64_t wait_ms)
{
    int good = life_mutex(url, wait_ms);

    OPENSSL_thread_stop();
    return good;
}

static int life_sampled(const char *url, int64_t wait_ms)
{
    int good = life_small(url, wait_ms);

    OPENSSL_thread_stop();
    return good;
}

static void live(life_function *life, bool always, long step)
{
    static char url[64], ca[300], cert[300], key[300];

    (void)snprintf(url, sizeof(url), "rediss://127.0.0.1:%d", tls_listen("server", true));
    (void)snprintf(ca, sizeof(ca), "%s", tls_file("ca.pem"));
    (void)snprintf(cert, sizeof(cert), "%s", tls_file("client.pem"));
    (void)snprintf(key, sizeof(key), "%s", tls_file("client.key"));
    life_tls.ca = ca;
    life_tls.cert = cert;
    life_tls.key = key;
    life_tls.judge = judge_client;
    (void)life(url, STAGE_WAIT_MS);
    lives(life, url, always, step);
    stage.notes_may_stay = stage.keys_may_stay = true;
}

#define LIFE(name, step, spare)                                                          \
    static void name##__one_allocation_fails(void **state)                               \
    {                                                                                    \
        (void)state;                                                                     \
        spares_openssl = spare;                                                          \
        live(life_##name, false, step);                                                  \
    }                                                                                    \
    static void name##__all_allocations_fail(void **state)                               \
    {                                                                                    \
        (void)state;                                                                     \
        spares_openssl = spare;                                                          \
        live(life_##name, true, step);                                                   \
    }

LIFE(opening, 1, false)
LIFE(handshake, 1, false)
LIFE(clients, 1, true)
LIFE(sampled, SAMPLES, false)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(opening__one_allocation_fails),
        STAGE_TEST(opening__all_allocations_fail),
        STAGE_TEST(handshake__one_allocation_fails),
        STAGE_TEST(handshake__all_allocations_fail),
        STAGE_TEST(clients__one_allocation_fails),
        STAGE_TEST(clients__all_allocations_fail),
        STAGE_TEST(sampled__one_allocation_fails),
        STAGE_TEST(sampled__all_allocations_fail),
    };

    if (CRYPTO_set_mem_functions(openssl_malloc, openssl_realloc, openssl_free) != 1) {
        return 1;
    }
    allocator_install();
    return STAGE_RUN(tests);
}

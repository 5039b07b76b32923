/* SPDX-License-Identifier: MIT */
/* A server that sends data that TLS does not allow, or too much that it allows: in place
 * of the handshake, in it, or after it. The reason is reported, the link is made again,
 * and held locks stay held.
 *
 * Usual course: a client connects to a front (front.h), the nonsense comes, and
 * everything goes on. */
#include "tls/front.h"

#include <openssl/x509.h>
#include <string.h>

#define TIMEOUT_MS 600

/* Asserts that the link is lost for this reason and made again, and that A is held all
 * the time. */
static void survives(struct peer *a, struct hold *A, const char *told)
{
    UNTIL(a->downs == 1);
    if (strstr(a->why, told) == NULL) {
        stage_fail("why: \"%s\" does not say %s", a->why, told);
    }
    UNTIL(a->up);
    renew_hold(A, 0);
    EXPECT("A granted; A renewed OK");
    assert_held_by_redis(A);
}

#define RAW(bytes) bytes, sizeof(bytes) - 1

struct said {
    bool raw;
    const char *bytes;
    size_t length;
    const char *told;
};

static void nonsense_after_the_handshake(void **state)
{
    static const struct said said[] = {
        {true, RAW("+PONG\r\n"),
         "TLS with "}, /* the reason depends on OpenSSL's version */
        {true, RAW("\x15\x03\x03\x00\x02\x02\x28"), "bad record type"},
        {true, RAW("\x17\x03\x03\xff\xff nonsense"), "length too long"},
        {true, RAW("\x17\x03\x03\x00\x05 none"), "bad record mac"},
        {false, RAW("nonsense\r\n"), "Protocol error"},
        {false, RAW("+PONG\r\n"), "no command is waiting"},
        {false, RAW("\x16\x03\x01"), "Protocol error"},
    };

    (void)state;
    stage.notes_may_stay = true;
    for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++) {
        struct front *front = front_start(NULL);
        struct peer *a = tls_start("a", front->port, NULL);
        struct hold *A;

        peer_wait_ready(a);
        A = acquire_and_wait(a, "A", "x");
        (said[i].raw ? front_say_raw : front_say)(front, said[i].bytes, said[i].length);
        survives(a, A, said[i].told);
        assert_null(strstr(a->whys, "redis://")); /* no hint: the server uses TLS */
        release_hold(A);
        EXPECT("A released OK");
        peer_free(a);
    }
}

static void nonsense_in_place_of_the_handshake(void **state)
{
    static const struct said said[] = {
        {true, RAW("\x15\x03\x03\x00\x02\x02\x28"), "handshake failure"},
        {true, RAW("\x15\x03\x03\x00\x02\x01\x00"), "closed the connection"},
        {true, RAW("\x16\x03\x03\x00\x04\x02\xff\xff\xff"), "excessive message size"},
        {true, RAW("\x16\x03\x03\x00\x04\x0e\x00\x00\x00"), "unexpected message"},
        {true, RAW("\x17\x03\x03\x00\x01+"), "unexpected message"},
        {true, RAW("HTTP/1.1 400 Bad Request\r\n\r\n"), "wrong version number"},
    };

    (void)state;
    stage.notes_may_stay = true;
    for (size_t i = 0; i < sizeof(said) / sizeof(*said); i++) {
        struct front *front = front_start(NULL);
        struct peer *a;

        front->says = said[i].bytes;
        front->says_length = said[i].length;
        a = tls_start("a", front->port, NULL);
        assert_down(a, said[i].told);
        front->says = NULL;
        UNTIL(a->up);
        works(a);
        peer_free(a);
    }
}

/* The reply comes in records of one byte each. */
static void an_answer_without_end(void **state)
{
    struct front *front = front_start(NULL);
    struct peer *a;

    (void)state;
    stage_forget_lag();
    front->record = 1;
    front->endless = "++++++++++++++++";
    a = tls_start("a", front->port, client_of(.connect_timeout_ms = TIMEOUT_MS));
    assert_down(a, "no reply to the handshake");
    stage_expect_turning(TIMEOUT_MS);
    front->endless = NULL;
    UNTIL(a->up);
    works(a);
}

static void long_chain(SSL *ssl, int length)
{
    for (int i = 0; i < length; i++) {
        assert_int_equal(SSL_add1_chain_cert(ssl, SSL_get_certificate(ssl)), 1);
    }
}

static void chain_of_100(SSL *ssl)
{
    long_chain(ssl, 100);
}

static void chain_of_10000(SSL *ssl)
{
    long_chain(ssl, 10000);
}

static void a_chain_of_absurd_length(void **state)
{
    struct front *front = front_start(chain_of_10000);
    struct peer *a = tls_start("a", front->port, NULL);

    (void)state;
    assert_down(a, "excessive message size");
    front->prepare = chain_of_100;
    UNTIL(a->up);
    works(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(nonsense_after_the_handshake),
        STAGE_TEST(nonsense_in_place_of_the_handshake),
        STAGE_TEST(an_answer_without_end),
        STAGE_TEST(a_chain_of_absurd_length),
    };
    return STAGE_RUN(tests);
}

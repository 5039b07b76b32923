/* SPDX-License-Identifier: MIT */
/* What a server with TLS may do to a connection: new keys during load, renegotiation in
 * TLS 1.2, an end at any point, silence. The link stays up, or is lost and made again;
 * held locks stay held. Independent of certificates.
 *
 * Usual course: a client connects to a front (front.h), the fault happens, and everything
 * goes on. */
#include "tls/front.h"
#include "tls/load.h"

#include <stdio.h>
#include <string.h>

/* ---- keys ---- */

static void tls_1_2(SSL *ssl)
{
    SSL_set_max_proto_version(ssl, TLS1_2_VERSION);
}

static void new_keys_in_the_middle_of_load(void **state)
{
    struct front *front = front_start(NULL);
    struct peer *a = tls_start("a", front->port, NULL);
    struct peer *b = tls_start("b", front->port, NULL);

    (void)state;
    peer_wait_ready(a);
    peer_wait_ready(b);
    load_begin(a);
    load_begin(b);
    for (int round = 1; round <= 40; round++) {
        int before = front->updated;
        front_update_keys(front);
        load_pass(10);
        UNTIL(front->updated >= before + 2); /* the command connections send something */
    }
    load_end();
    assert_int_equal(a->downs + b->downs, 0);
    assert_int_equal(front->accepted, 4);
}

static struct hold *many[1000];

/* Sends more requests than the connection takes, while the front does not read. */
static void ask_many(struct front *front, struct peer *a)
{
    char name[32];

    make_narrow(front->port);
    front_read(front, false);
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        many[i] = acquire_hold(a, "N", name, -1);
    }
    stage_run_for(5);
}

static void serve_many(struct front *front)
{
    front_read(front, true);
    for (int i = 0; i < 1000; i++) {
        UNTIL(many[i]->result == LW_OK);
        release_hold(many[i]);
    }
    for (int i = 0; i < 1000; i++) {
        UNTIL(many[i]->released == LW_OK);
    }
    stage_clear_trace();
}

/* The reply to a request for new keys comes after data that could not be written. */
static void new_keys_while_nothing_can_be_written(void **state)
{
    struct front *front = front_start(NULL);
    struct peer *a = tls_start("a", front->port, NULL);

    (void)state;
    peer_wait_ready(a);
    for (int i = 1; i <= 3; i++) {
        ask_many(front, a);
        front_update_keys(front);
        stage_run_for(5);
        serve_many(front);
        assert_true(front->updated >= i);
    }
    assert_int_equal(a->downs, 0);
}

/* On a second request OpenSSL (3.0) has a record half written and a reply outstanding,
 * and gives up. */
static void new_keys_twice_while_nothing_can_be_written(void **state)
{
    struct front *front = front_start(NULL);
    struct peer *a = tls_start("a", front->port, NULL);
    struct hold *A;

    (void)state;
    peer_wait_ready(a);
    A = acquire_and_wait(a, "A", "x");
    ask_many(front, a);
    for (int i = 0; i < 2; i++) {
        front_update_keys(front);
        stage_run_for(5);
    }
    serve_many(front);
    UNTIL(a->up);
    assert_held_by_redis(A);
    assert_int_equal(A->lost, PENDING);
    stage_clear_trace();
}

static void a_life_by_tls_1_2(void **state)
{
    struct front *front = front_start(tls_1_2);
    struct peer *a = tls_start("a", front->port, NULL);
    struct peer *b = tls_start("b", front->port, NULL);

    (void)state;
    peer_wait_ready(a);
    peer_wait_ready(b);
    load_begin(a);
    load_begin(b);
    load_pass(100);
    load_end();
    assert_int_equal(a->downs + b->downs, 0);
}

/* The client refuses it; this server's OpenSSL then closes the connection. */
static void another_handshake_is_refused(void **state)
{
    struct front *front = front_start(tls_1_2);
    struct peer *a = tls_start("a", front->port, NULL);
    struct hold *A;

    (void)state;
    peer_wait_ready(a);
    A = acquire_and_wait(a, "A", "x");
    load_begin(a);
    for (int round = 0; round < 5; round++) {
        int before = a->downs;
        load_pass(5);
        /* Messages have a connection of their own, whose first handshake may be late. */
        UNTIL(front->greeted == front->accepted);
        front_renegotiate(front);
        UNTIL(a->downs > before);
        UNTIL(a->up);
    }
    load_end();
    UNTIL(front->greeted == front->accepted);
    assert_int_equal(A->lost, PENDING);
    assert_held_by_redis(A);
}

static void old_tls(SSL *ssl)
{
    SSL_set_security_level(ssl, 0);
    SSL_set_min_proto_version(ssl, TLS1_VERSION);
    SSL_set_max_proto_version(ssl, TLS1_1_VERSION);
}

static void tls_1_1_is_refused(void **state)
{
    struct front *front = front_start(old_tls);

    (void)state;
    assert_down(tls_start("a", front->port, NULL), "protocol version");
}

/* ---- ends ---- */

struct ending {
    const char *name;
    enum front_end ends;
    long half, left; /* as in front.h */
};
static const struct ending endings[] = {
    {"half an answer, with an alert", CLOSED_WITH_NOTIFY, 2, -1},
    {"half an answer, without", CLOSED, 2, -1},
    {"half an answer, reset", RESET, 2, -1},
    {"between two answers, with an alert", CLOSED_WITH_NOTIFY, 0, -1},
    {"between two answers, without", CLOSED, 0, -1},
    {"in a record's head", CLOSED, -1, 3},
    {"in a record", CLOSED, -1, 8},
    {"in a record, reset", RESET, -1, 8},
};

static void end_half_way(const struct ending *ending)
{
    struct front *front = front_start(NULL);
    struct peer *a = tls_start("a", front->port, NULL);
    struct peer *b = tls_start("b", front->port, NULL);
    struct hold *A, *B;
    int accepted;

    peer_wait_ready(a);
    peer_wait_ready(b);
    A = acquire_and_wait(a, "A", "x");
    B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    EXPECT("A granted");
    accepted = front->accepted;
    front->ends = ending->ends;
    front->half = ending->half;
    front->left = ending->left;
    renew_hold(A, 0);
    UNTIL(a->downs + b->downs > 0);
    front->half = front->left = -1;
    UNTIL(a->up && b->up && front->accepted > accepted);
    /* Its reply was lost if it was on the connection that ended. */
    UNTIL(A->renewals == 0);
    renew_hold(A, 0);
    UNTIL(A->renewals == 0);
    assert_int_equal(A->renewed, LW_OK);
    assert_held_by_redis(A);
    assert_int_equal(A->lost, PENDING);
    stage_clear_trace();
    release_hold(A);
    EXPECT_SET("A released OK; B granted");
    assert_true(B->fence > A->fence);
    release_hold(B);
    EXPECT("B released OK");
    peer_free(a);
    peer_free(b);
}

static void ends_in_the_middle_of_anything(void **state)
{
    (void)state;
    stage.notes_may_stay = true;
    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        (void)fprintf(stderr, "    %s\n", endings[i].name);
        end_half_way(&endings[i]);
    }
}

/* The connection ends in the middle of load, at any point of it. */
static void ends_again_and_again(void **state)
{
    struct front *front = front_start(NULL);
    /* a release without a reply is reported as unknown after this time */
    const struct lw_client_options *patient = client_of(.request_timeout_ms = 12000);
    struct peer *a = tls_start("a", front->port, patient);
    struct peer *b = tls_start("b", front->port, patient);

    (void)state;
    peer_wait_ready(a);
    peer_wait_ready(b);
    load_begin(a);
    load_begin(b);
    for (long round = 0; round < 20; round++) {
        int before = a->downs + b->downs;
        front->ends = (enum front_end)(round % 3);
        front->left = 1 + round * 37;
        UNTIL(a->downs + b->downs > before);
        front->left = -1;
        load_pass(10);
    }
    load_end();
}

/* ---- silence ---- */

#define TIMEOUT_MS 600

static void silence_in_the_handshake(void **state)
{
    static const long lengths[] = {0, 1, 5, 100, 700};
    struct front *front = front_start(NULL);

    (void)state;
    stage.notes_may_stay = true;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        struct peer *a;
        stage_forget_lag();
        front->mute = lengths[i];
        a = tls_start("a", front->port, client_of(.connect_timeout_ms = TIMEOUT_MS));
        /* at a later attempt if the machine was too slow to send these bytes */
        UNTIL(a->downs > 0 &&
              (strstr(a->why, "it sent nothing") != NULL) == (lengths[i] == 0));
        stage_expect_turning(TIMEOUT_MS);
        assert_non_null(strstr(a->why, "no TLS handshake with 127.0.0.1:"));
        front->mute = -1;
        UNTIL(a->up);
        works(a);
        peer_free(a);
    }
}

static void silence_of_a_connection_that_is_up(void **state)
{
    struct front *front = front_start(NULL);
    struct peer *a =
        tls_start("a", front->port, client_of(.request_timeout_ms = TIMEOUT_MS));
    struct hold *A;
    int64_t asked;

    (void)state;
    peer_wait_ready(a);
    A = acquire_and_wait(a, "A", "x");
    stage_forget_lag();
    front->hole = true;
    asked = now_ms();
    renew_hold(A, 0);
    UNTIL(a->downs == 1);
    stage_expect_turning(TIMEOUT_MS);
    assert_non_null(strstr(a->why, "no reply from 127.0.0.1:"));
    assert_true(now_ms() - asked >= TIMEOUT_MS - 1);
    front->hole = false;
    UNTIL(a->up && A->renewals == 0);
    assert_int_equal(A->lost, PENDING);
    assert_held_by_redis(A);
    stage_clear_trace();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(new_keys_in_the_middle_of_load),
        STAGE_TEST(new_keys_while_nothing_can_be_written),
        STAGE_TEST(new_keys_twice_while_nothing_can_be_written),
        STAGE_TEST(a_life_by_tls_1_2),
        STAGE_TEST(another_handshake_is_refused),
        STAGE_TEST(tls_1_1_is_refused),
        STAGE_TEST(ends_in_the_middle_of_anything),
        STAGE_TEST(ends_again_and_again),
        STAGE_TEST(silence_in_the_handshake),
        STAGE_TEST(silence_of_a_connection_that_is_up),
    };
    return STAGE_RUN(tests);
}

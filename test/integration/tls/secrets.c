/* SPDX-License-Identifier: MIT */
/* Over TLS, too, no part of a password stays in memory once it has been sent, or will
 * never be sent: however little the socket takes at once, and in whichever version of TLS
 * OpenSSL makes records of it. The same is true of the file of the client's key.
 * Independent of which module wipes what.
 *
 * The send(2) of this executable replaces the C library's, also for the library. Usual
 * course: a link comes up, and memory is searched for the secret. */
#include "secret.h"
#include "tls/scene.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PIECE 100

/* ---- a socket that takes little at once ---- */

static struct {
    bool little; /* a piece, then nothing once, then a piece ... */
    bool full;
    int breaks_after; /* this many pieces; 0: never */
    int pieces;
    const struct secret *sought; /* looked for whenever the client sends; or NULL */
    int copies;                  /* the most that were found */
} sockets;

/* Returns true for the client's sockets. The test's own connection to the server has a
 * path. */
static bool is_to_a_host(int fd)
{
    struct sockaddr_storage name = {0};
    socklen_t size = sizeof(name);

    return getsockname(fd, (struct sockaddr *)&name, &size) == 0 &&
           name.ss_family == AF_INET;
}

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
    if (sockets.sought != NULL && is_to_a_host(fd)) {
        int copies = secret_copies(sockets.sought);
        sockets.copies = copies > sockets.copies ? copies : sockets.copies;
    }
    if (sockets.little && is_to_a_host(fd)) {
        sockets.full = !sockets.full;
        if (sockets.full) {
            errno = EAGAIN;
            return -1;
        }
        if (++sockets.pieces == sockets.breaks_after) {
            errno = EPIPE;
            return -1;
        }
        length = length < PIECE ? length : PIECE;
    }
    return syscall(SYS_sendto, fd, bytes, length, flags, NULL, 0);
}

/* ---- the password ---- */

static const struct secret_password *given;
static int calls, calls_good, seen_when_given;

static int on_credentials(struct lw_client *client, struct lw_credentials *ret, void *arg)
{
    (void)client, (void)arg;
    if (++calls > calls_good) {
        return LW_ETIMEOUT;
    }
    sockets.little = sockets.little || sockets.breaks_after > 0;
    (void)snprintf(ret->username, sizeof(ret->username), "app");
    secret_give(given, ret->password);
    seen_when_given = secret_copies(&given->secret);
    return 0;
}

static struct peer *start(const char *version, const struct secret_password *password,
                          int good)
{
    int port = tls_listen("server", false);

    redis_ok("CONFIG SET tls-protocols %s", version);
    redis_ok("ACL SETUSER app reset on #%s +@all ~* &*", password->sha256);
    redis_ok("ACL SETUSER default off");
    given = password;
    calls = 0;
    calls_good = good;
    return tls_start("a", port, client_of(.credentials = on_credentials));
}

static void log_in_and_look(const char *version, const struct secret_password *password)
{
    struct peer *a = start(version, password, 2);

    UNTIL(a->up);
    assert_int_equal(seen_when_given, 1);
    peer_wait_ready(a);
    assert_int_equal(calls, 2);
    assert_int_equal(secret_copies(&given->secret), 0);
    works(a);
    peer_free(a);
    stage.notes_may_stay = true;
}

static void log_in_each_way(void)
{
    for (size_t i = 0; i < SECRET_PASSWORDS; i++) {
        log_in_and_look("TLSv1.2", &secret_passwords[i]);
        log_in_and_look("TLSv1.3", &secret_passwords[i]);
    }
}

/* Meson has the C library overwrite what is freed (MALLOC_PERTURB_): not here. */
static void be_able_to_look(void)
{
    if (!secret_can_look()) {
        skip();
    }
    (void)mallopt(M_PERTURB, 0);
    memset(&sockets, 0, sizeof(sockets));
}

static void nothing_of_a_password_stays_in_memory(void **state)
{
    (void)state;
    be_able_to_look();
    log_in_each_way();
}

static void nor_where_the_socket_takes_little_at_once(void **state)
{
    (void)state;
    be_able_to_look();
    sockets.little = true;
    log_in_each_way();
    assert_true(sockets.pieces > 2 * 2 * 4000 / PIECE);
    sockets.little = false;
}

/* The connection breaks somewhere among the pieces of the password. */
static void nor_where_it_never_goes_out(void **state)
{
    struct peer *a;

    (void)state;
    be_able_to_look();
    for (int pieces = 2; pieces < 40; pieces += 7) {
        memset(&sockets, 0, sizeof(sockets));
        a = start("TLSv1.3", &secret_passwords[1], 1);
        sockets.breaks_after = pieces;
        UNTIL(a->downs >= 1);
        sockets.little = false;
        assert_int_equal(secret_copies(&given->secret), 0);
        peer_free(a);
        stage_clear_trace();
    }
}

/* ---- the key ---- */

/* Returns a part of the file's text that belongs to the key itself. */
static void take_key(struct secret *ret)
{
    char text[400];
    int fd = open(tls_file("client.key"), O_RDONLY | O_CLOEXEC);
    ssize_t length = read(fd, text, sizeof(text) - 1);
    char *body;

    assert_true(length > 100);
    text[length] = '\0';
    close(fd);
    body = strchr(text, '\n');
    assert_non_null(body);
    secret_take(ret, body + 11, 40);
    explicit_bzero(text, sizeof(text));
}

static void nothing_of_the_keys_file_stays_in_memory(void **state)
{
    static struct secret key;
    int port = tls_listen("server", true);

    (void)state;
    be_able_to_look();
    take_key(&key);
    sockets.sought = &key;
    struct peer *a = tls_start(
        "a", port,
        client_of(.tls_cert = tls_file("client.pem"), .tls_key = tls_file("client.key")));
    peer_wait_ready(a);
    works(a);
    assert_int_equal(secret_copies(&key), 0);
    assert_int_equal(sockets.copies, 0);
    sockets.sought = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(nothing_of_a_password_stays_in_memory),
        STAGE_TEST(nor_where_the_socket_takes_little_at_once),
        STAGE_TEST(nor_where_it_never_goes_out),
        STAGE_TEST(nothing_of_the_keys_file_stays_in_memory),
    };

    return STAGE_RUN(tests);
}

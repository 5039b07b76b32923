/* SPDX-License-Identifier: MIT */
/*
 * Texts from a server reach the log, errstr and every `why` without control bytes and
 * with bounded length, whatever they contain: terminal escapes and megabytes, as errors
 * of each command and as content. And an error code inside such a text is not taken as
 * the error's code. Independent of which function escapes them.
 *
 * Usual course: a fake server sends a malicious text, which is reported in harmless form.
 */
#include "fake_redis.h"
#include "inspect/scene.h"
#include "proxy.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Without a line end: hiredis 1.2 does not accept an error with one as an error. Content
 * with a line end is tested below. */
#define VILE "vile\x1b[2J\x1b]0;title\x07\x08\x7f\x9b\xc2\x9b."
#define TOLD "vile\\x1b[2J\\x1b]0;title\\x07\\x08\\x7f\\x9b\\xc2\\x9b."
#define MEGABYTE ((size_t)1 << 20) /* the most that is read of one reply */
#define LINE_MOST 520              /* of the log, which has the longest lines */

static const char *lie, *lie_to; /* the reply to this command */
static int kills;                /* of earlier connections */

static const char *liar(struct fake_redis *fake, int argc, char **argv)
{
    (void)fake;
    kills += argc > 1 && strcasecmp(argv[1], "KILL") == 0;
    return lie_to != NULL && strcasecmp(argv[0], lie_to) == 0 ? lie : FAKE_REAL;
}

/* Returns an error of `length` bytes, without its line end; valid until the next call. */
static const char *long_error(const char *start, size_t length)
{
    static char text[2 * MEGABYTE + 3];

    memset(text, 'e', length);
    memcpy(text, start, strlen(start));
    memcpy(text + length, "\r\n", 3);
    return text;
}

/* `timeout_ms` of a request and of connecting. */
static struct peer *start_with(const char *url, uint32_t timeout_ms)
{
    return peer_start_at("a", url,
                         client_of(.local_turns = 1, .backoff_min_ms = 10,
                                   .backoff_max_ms = 40, .connect_timeout_ms = timeout_ms,
                                   .request_timeout_ms = timeout_ms));
}

static struct peer *start(const char *url)
{
    return start_with(url, 2000);
}

/* Checks that lines have no control bytes and are not too long. */
static void assert_harmless(const char *text, const char *what)
{
    size_t length = 0;

    for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
        length = *at == '\n' ? 0 : length + 1;
        if ((*at < 0x20 && *at != '\n') || *at >= 0x7f || length > LINE_MOST) {
            stage_fail("%s: byte 0x%02x, %zu in its line", what, *at, length);
        }
    }
}

/* Checks errstr of a handle, which is one line. */
static void assert_told_harmlessly(const struct hold *hold)
{
    const char *text = lw_lock_errstr(hold->lock);

    if (strchr(text, '\n') != NULL) {
        stage_fail("errstr of %s has several lines", hold->label);
    }
    assert_harmless(text, "errstr");
}

static char heard[65536]; /* all texts that the last live_until_told received */

static void hear(const char *text)
{
    size_t used = strlen(heard);

    (void)snprintf(heard + used, sizeof(heard) - used, "%s\n", text);
}

/* Returns true if the client has received this text, or if it is NULL. */
static bool has_heard(const struct peer *a, const char *text)
{
    return text == NULL || strstr(heard, text) != NULL || strstr(a->whys, text) != NULL ||
           strstr(a->log, text) != NULL;
}

/* Calls all functions that send a command, and waits until the client has received
 * `text`. Nothing ends by a time-out before then: a slow machine may take seconds to read
 * a long text. If `text` is NULL each call completes, with whatever result. */
static void live_until_told(const char *url, const char *text)
{
    struct peer *a = start_with(url, text != NULL ? STAGE_WAIT_MS : 2000);
    struct hold *A, *B;

    look.then = NULL;
    heard[0] = '\0';
    UNTIL(a->ups + a->downs > 0);
    A = acquire_hold_with(
        a, "A", "x",
        asking(.wait_ms = text != NULL ? -1 : 500, .lease_ms = 4 * STAGE_WAIT_MS));
    B = acquire_hold_with(a, "B", "x", asking(.wait_ms = 200));
    UNTIL(A->result != PENDING || (text != NULL && has_heard(a, text)));
    UNTIL(B->result != PENDING);
    hear(lw_lock_errstr(A->lock));
    if (lw_lock_state(A->lock) == LW_HELD) {
        renew_hold(A, 0);
        UNTIL(A->renewals == 0);
        hear(lw_lock_errstr(A->lock));
        release_hold(A);
        UNTIL(A->released != PENDING);
    }
    assert_told_harmlessly(A);
    assert_told_harmlessly(B);
    hear(lw_lock_errstr(A->lock));
    free_hold(A); /* it may still wait */
    call_inspect(a, "x");
    UNTIL(look.status != PENDING);
    hear(look.why);
    call_break(a, "x", NULL);
    UNTIL(look.broken != PENDING);
    hear(look.why);
    UNTIL(has_heard(a, text)); /* the listener's error: no call above waits for it */
    hear(a->whys);
    hear(a->log);
    assert_harmless(heard, lie_to != NULL ? lie_to : "content");
    peer_free(a);
    stage_clear_trace();
    redis_ok("DEL x %s", queue_of("x"));
    stage.keys_may_stay = true;
}

static void live_through(const char *url)
{
    live_until_told(url, NULL);
}

static const char *const commands[] = {"CLIENT",  "INFO",      "SET",
                                       "EVALSHA", "SUBSCRIBE", "PUBSUB"};
#define COMMANDS_TOLD (sizeof(commands) / sizeof(*commands))

static void an_error_is_told_without_control_bytes(void **state)
{
    static const char *const codes[] = {"NOPERM", "ERR", "LOADING"};
    struct fake_redis *fake = fake_start(liar);
    char error[200];

    (void)state;
    for (size_t i = 0; i < COMMANDS_TOLD * 3; i++) {
        (void)snprintf(error, sizeof(error), "-%s %s\r\n", codes[i % 3], VILE);
        lie = error;
        lie_to = commands[i / 3];
        if (i % 3 == 0) {
            live_until_told(fake->url, TOLD);
        } else { /* other errors are not always reported */
            live_through(fake->url);
        }
    }
    lie_to = NULL;
}

/* hiredis looks through all that it has of an error after each read, so that a megabyte
 * takes long under valgrind: only one is as long as possible. */
static void a_long_error_is_cut(void **state)
{
    struct fake_redis *fake = fake_start(liar);

    (void)state;
    for (size_t i = 0; i < COMMANDS_TOLD; i++) {
        bool longest = strcmp(commands[i], "SET") == 0;
        lie = long_error("-NOPERM " VILE, longest ? MEGABYTE - 4096 : MEGABYTE / 16);
        lie_to = commands[i];
        live_until_told(fake->url, TOLD "eeeeeeee");
    }
    lie_to = NULL;
}

static void an_error_that_is_not_read_to_its_end_costs_the_link(void **state)
{
    struct fake_redis *fake = fake_start(liar);

    (void)state;
    lie = long_error("-ERR " VILE, 2 * MEGABYTE);
    lie_to = "SET";
    live_until_told(fake->url, "longer than");
    lie_to = NULL;
}

/* ---- content ---- */

static void a_policy_s_name_is_told_without_control_bytes(void **state)
{
    struct fake_redis *fake = fake_start(liar);
    static char policy[200];

    (void)state;
    (void)snprintf(policy, sizeof(policy),
                   "*2\r\n$16\r\nmaxmemory-policy\r\n$%zu\r\n%s\r\n",
                   strlen("allkeys-\n" VILE), "allkeys-\n" VILE);
    lie = policy;
    lie_to = "CONFIG";
    live_until_told(fake->url, "allkeys-\\x0a" TOLD);
    lie_to = NULL;
}

static void a_stranger_s_type_is_told_without_control_bytes(void **state)
{
    struct fake_redis *fake = fake_start(liar);
    static char refusal[200];
    struct peer *a = start(fake->url);

    (void)state;
    UNTIL(a->up);
    (void)snprintf(refusal, sizeof(refusal), "$%zu\r\n%s\r\n",
                   strlen("500 -1 1700000000000000 -1 0 " VILE),
                   "500 -1 1700000000000000 -1 0 " VILE);
    redis_ok("SET x theirs");
    lie = refusal;
    lie_to = "EVALSHA";
    acquire_hold(a, "A", "x", 0);
    EXPECT("A EBUSY");
    acquire_hold(a, "B", "x", 0);
    EXPECT("B EBUSY");
    assert_int_equal(
        peer_count_logged(a, "contains a " TOLD " not written by this kind of lock"), 1);
    assert_harmless(a->log, "log");
    lie_to = NULL;
    redis_ok("DEL x");
}

#define VILE_ERROR "-ERR " VILE "\r\n"

static void what_nobody_asked_for_is_told_without_control_bytes(void **state)
{
    struct fake_redis *fake = fake_start(liar);
    struct peer *a = start(fake->url);

    (void)state;
    UNTIL(a->up);
    lie = VILE_ERROR VILE_ERROR VILE_ERROR VILE_ERROR; /* more replies than requests */
    lie_to = "SET";
    acquire_hold_with(a, "A", "x", asking(.flags = LW_NO_FENCE));
    EXPECT("A EREDIS");
    UNTIL(a->downs > 0);
    assert_non_null(strstr(a->whys, TOLD));
    assert_harmless(a->whys, "why");
    lie_to = NULL;
}

/* Hangs up after an error, which becomes the reason that the connection is down. */
static const char *dying(struct fake_redis *fake, int argc, char **argv)
{
    (void)fake;
    return argc > 1 && strcasecmp(argv[1], "SETNAME") == 0 ? VILE_ERROR : FAKE_HANG_UP;
}

static void a_cluster_s_seed_is_told_of_without_control_bytes(void **state)
{
    struct fake_redis *fake = fake_start(dying);
    struct proxy *proxy = proxy_start(fake->path, true);
    const char *why;
    char url[80];

    (void)state;
    (void)snprintf(url, sizeof(url), "redis-cluster://127.0.0.1:%d", proxy->port);
    struct peer *a = start(url);
    UNTIL(a->downs > 0 && strstr(a->whys, "vile") != NULL);
    assert_harmless(a->whys, "why");
    assert_int_equal(lw_client_is_up(a->client, &why), 0);
    assert_harmless(why, "why of lw_client_is_up");
    assert_null(strchr(why, '\n'));
}

/* ---- codes and fields inside texts ---- */

/* The server's error quotes the name, which contains an error code. */
static void a_code_in_a_name_is_no_code(void **state)
{
    struct server other;

    (void)state;
    server_start(&other, "--rename-command EVALSHA ELSEWHERE");
    struct peer *a = start(other.url);
    freeReplyObject(server_command(&other, "SET job:LOADING theirs"));
    UNTIL(a->up);
    acquire_hold_with(a, "A", "job:LOADING", asking(.flags = LW_NO_FENCE, .wait_ms = -1));
    EXPECT("A EREDIS");
    assert_non_null(strstr(lw_lock_errstr(holds->lock), "unknown command"));
    assert_int_equal(a->downs, 0);
    peer_free(a);
    server_stop(&other);
}

/* A field begins only at the beginning of a line. Here the server's run id is empty. */
static void a_field_s_name_in_another_field_is_no_field(void **state)
{
    static const char path[] =
        "# Server\r\nexecutable:/opt/run_id:0123456789abcdef/x\r\n";
    struct fake_redis *fake = fake_start(liar);
    static char info[200];

    (void)state;
    (void)snprintf(info, sizeof(info), "$%zu\r\n%s\r\n", strlen(path), path);
    lie = info;
    lie_to = "INFO";
    kills = 0;
    struct peer *a = start(fake->url);
    UNTIL(a->up);
    fake_hang_up(fake);
    UNTIL(a->ups == 2);
    assert_int_equal(kills, 0); /* the client cannot know that it is the same server */
    lie_to = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(an_error_is_told_without_control_bytes),
        STAGE_TEST(a_long_error_is_cut),
        STAGE_TEST(an_error_that_is_not_read_to_its_end_costs_the_link),
        STAGE_TEST(a_policy_s_name_is_told_without_control_bytes),
        STAGE_TEST(a_stranger_s_type_is_told_without_control_bytes),
        STAGE_TEST(what_nobody_asked_for_is_told_without_control_bytes),
        STAGE_TEST(a_cluster_s_seed_is_told_of_without_control_bytes),
        STAGE_TEST(a_code_in_a_name_is_no_code),
        STAGE_TEST(a_field_s_name_in_another_field_is_no_field),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/* lw_list: how it ends, by the caller, the client, the connection, or a server that sends
 * nonsense. Independent of the script, except for the replies that a fake server sends in
 * its place.
 *
 * Usual course: call_list(a, NULL), the end, and one callback with its status. */
#include "fake_redis.h"
#include "inspect/list_scene.h"
#include "proxy.h"

#include <string.h>
#include <strings.h>

/* ---- its ends ---- */

static int nothing(struct lw_client *client, const struct lw_inspection *found,
                   const struct lw_listing *listing, void *arg)
{
    (void)client, (void)found, (void)listing, (void)arg;
    return 0;
}

static void never(struct lw_client *client, int status, const struct lw_listing *listing,
                  const char *why, void *arg)
{
    (void)client, (void)status, (void)listing, (void)why, (void)arg;
    stage_complain("a call that was refused has a callback");
}

static void refused(struct peer *peer, const char *pattern, lw_found_cb *found,
                    lw_listed_cb *done, int error, const char *text)
{
    peer->error[0] = '\0';
    assert_int_equal(lw_list(peer->client, pattern, found, done, NULL), error);
    assert_non_null(strstr(peer->error, text));
}

static void bad_calls_are_refused(void **state)
{
    char pattern[514];

    (void)state;
    begin_listing();
    memset(pattern, '*', sizeof(pattern) - 1);
    pattern[sizeof(pattern) - 1] = '\0';
    refused(a, NULL, NULL, never, LW_EINVAL, "found is NULL");
    refused(a, NULL, nothing, NULL, LW_EINVAL, "done is NULL");
    refused(a, "", nothing, never, LW_EINVAL, "pattern");
    refused(a, pattern, nothing, never, LW_EINVAL, "the pattern has 513 bytes");
    list_all(a, pattern + 1);
    peer_close(a);
    refused(a, NULL, nothing, never, LW_ECLOSED, "closed");
    EXPECT("a closed");
}

static void who_has_had_enough_is_told_no_more(void **state)
{
    (void)state;
    begin_listing();
    hold_as(a, "x", LW_MUTEX, NULL);
    hold_as(a, "y", LW_MUTEX, NULL);
    hold_as(a, "z", LW_MUTEX, NULL);
    list.stops_at = 2;
    call_list(b, NULL);
    EXPECT("listed ECANCELED");
    assert_int_equal(list.told, 2);
    list.stops_at = 4; /* after the step */
    call_list(b, NULL);
    EXPECT("listed ECANCELED");
    list.stops_at = 0;
}

static void rule4_the_client_may_be_freed_in_the_callback(void **state)
{
    (void)state;
    begin_listing();
    hold_as(a, "x", LW_MUTEX, NULL);
    hold_as(a, "y", LW_MUTEX, NULL);
    list.then = peer_free;
    call_list(b, NULL);
    UNTIL(list.told == 1);
    call_list(c, "nothing");
    UNTIL(list.steps == 1);
    list.then = NULL;
    stage_expect_nothing(50);
}

static void rule7_free_is_silent_and_close_ends_it_first(void **state)
{
    (void)state;
    begin_listing();
    hold_as(a, "x", LW_MUTEX, NULL);
    call_list(b, NULL);
    peer_free(b);
    stage_expect_nothing(100);
    call_list(c, NULL);
    peer_close(c);
    EXPECT("listed ECLOSED; c closed");
    list.then = peer_close;
    call_list(a, NULL);
    EXPECT("listed ECLOSED; a closed");
    list.then = NULL;
    redis_ok("DEL x");
}

static void without_a_link_it_ends_at_once(void **state)
{
    struct server nobody;

    (void)state;
    list.then = NULL;
    server_absent(&nobody);
    a = peer_start_at("a", nobody.url, NULL);
    UNTIL(a->downs > 0);
    call_list(a, NULL);
    EXPECT("listed ECONN");
    assert_true(list.why[0] != '\0');
    server_stop(&nobody);
}

static void a_link_that_goes_ends_it(void **state)
{
    struct proxy *proxy = proxy_start(stage.server.path, false);

    (void)state;
    list.then = NULL;
    a = peer_start_at("a", proxy->url, NULL);
    peer_wait_ready(a);
    proxy_hold(proxy, COMMANDS, TO_CLIENT, true);
    call_list(a, NULL);
    stage_expect_nothing(50);
    proxy_cut(proxy, COMMANDS);
    EXPECT("listed ECONN");
    proxy_hold(proxy, COMMANDS, TO_CLIENT, false);
}

/* ---- a server that lies ---- */

static const char *step;        /* the reply to the script */
static const char *look_answer; /* to that of lw_inspect */

static const char *answer(struct fake_redis *fake, int argc, char **argv)
{
    (void)fake;
    if (strncasecmp(argv[0], "EVAL", 4) == 0 && argc >= 5 && strcmp(argv[2], "0") == 0 &&
        strcmp(argv[4], "250") == 0) {
        return step;
    }
    if (strncasecmp(argv[0], "EVAL", 4) == 0 && argc >= 5 && strcmp(argv[2], "1") != 0) {
        return look_answer;
    }
    return FAKE_REAL;
}

static struct peer *before_a_liar(void)
{
    struct fake_redis *fake = fake_start(answer);
    struct peer *peer = peer_start_at(
        "a", fake->url, client_of(.backoff_min_ms = 1, .backoff_max_ms = 2));

    list.then = NULL;
    list.stops_at = 0;
    step = look_answer = FAKE_REAL;
    UNTIL(peer->up);
    return peer;
}

static void what_may_be_no_lock_is_not_told_as_one(void **state)
{
    struct peer *liar = before_a_liar(), *honest = peer_ready("b", NULL);

    (void)state;
    hold_as(honest, "x", LW_SHARED, NULL);
    look_answer = "-BUSY Redis is busy running a script\r\n";
    call_list(liar, NULL);
    EXPECT("listed ECONN");
    assert_int_equal(list.count, 0);
    assert_non_null(strstr(list.why, "BUSY"));
    look_answer = "-NOPERM this user has no permissions to access a key\r\n";
    list_all(liar, NULL);
    LISTED("x:?");
}

static void nonsense_is_no_answer_and_costs_the_connection(void **state)
{
    static const char *const nonsense[] = {
        "$-1\r\n",
        ":5\r\n",
        "*0\r\n",
        "*2\r\n$1\r\n0\r\n:0\r\n",
        "*3\r\n:0\r\n:0\r\n:0\r\n",
        "*3\r\n$0\r\n\r\n:0\r\n:0\r\n",
        "*3\r\n$2\r\n00\r\n:0\r\n:0\r\n",
        "*3\r\n$2\r\n-1\r\n:0\r\n:0\r\n",
        "*3\r\n$21\r\n123456789012345678901\r\n:0\r\n:0\r\n",
        "*3\r\n$1\r\n0\r\n:-1\r\n:0\r\n",
        "*3\r\n$1\r\n0\r\n$1\r\n0\r\n:0\r\n",
        "*3\r\n$1\r\n0\r\n:0\r\n:-2\r\n",
        "*4\r\n$1\r\n0\r\n:0\r\n:0\r\n*1\r\n$1\r\nx\r\n",
        "*4\r\n$1\r\n0\r\n:0\r\n:0\r\n:7\r\n",
        "*5\r\n$1\r\n0\r\n:0\r\n:0\r\n$1\r\nx\r\n$-1\r\n",
    };
    struct peer *a = before_a_liar();

    (void)state;
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(*nonsense); i++) {
        int downs = a->downs;

        step = nonsense[i];
        call_list(a, NULL);
        EXPECT("listed ECONN");
        assert_string_equal(list.why,
                            "invalid reply: the server sent something this command "
                            "cannot return");
        UNTIL(a->downs > downs && a->up);
    }
}

static void names_of_no_lock_are_passed_over(void **state)
{
    struct peer *a = before_a_liar();

    (void)state;
    redis_ok("SET x theirs");
    step = "*8\r\n$1\r\n0\r\n:5\r\n:7\r\n$0\r\n\r\n$1\r\nx\r\n$4\r\ngone\r\n$2\r\n\x1b["
           "\r\n$8\r\nlockwire\r\n";
    list_all(a, NULL);
    LISTED("");
    assert_int_equal(list.seen, 5);
    assert_int_equal(list.keys, 7);
    redis_ok("DEL x");
}

/* If the cursor never ends, the caller can end the listing. */
static void a_cursor_that_never_ends_can_be_ended(void **state)
{
    struct peer *a = before_a_liar();

    (void)state;
    step = "*3\r\n$1\r\n7\r\n:250\r\n:1000\r\n";
    list.stops_at = 100;
    call_list(a, NULL);
    EXPECT("listed ECANCELED");
    assert_int_equal(list.steps, 100);
    assert_int_equal(list.seen, 1000);
    list.stops_at = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(bad_calls_are_refused),
        STAGE_TEST(who_has_had_enough_is_told_no_more),
        STAGE_TEST(rule4_the_client_may_be_freed_in_the_callback),
        STAGE_TEST(rule7_free_is_silent_and_close_ends_it_first),
        STAGE_TEST(without_a_link_it_ends_at_once),
        STAGE_TEST(a_link_that_goes_ends_it),
        STAGE_TEST(what_may_be_no_lock_is_not_told_as_one),
        STAGE_TEST(nonsense_is_no_answer_and_costs_the_connection),
        STAGE_TEST(names_of_no_lock_are_passed_over),
        STAGE_TEST(a_cursor_that_never_ends_can_be_ended),
    };

    return STAGE_RUN(tests);
}

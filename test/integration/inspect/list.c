/* SPDX-License-Identifier: MIT */
/*
 * lw_list: every lock that is held is found, in each mode, among keys of all kinds; how
 * far it is; and its ends. Must not know the script, but for what a liar answers in its
 * place.
 *
 * Happy path: some hold, list_all(a); LISTED("w:r x:m").
 */
#include "fake_redis.h"
#include "inspect/scene.h"
#include "proxy.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define TOKEN "c0ffee00-0000-4000-8000-00000000000%d:7:2000"

static struct {
    struct peer *peer;
    int status;           /* PENDING, or what the last callback was told */
    char names[200][520]; /* of what was found, with how it is held */
    size_t count, told, steps;
    uint64_t seen, keys;
    char why[256];
    int stops_at; /* the call of `found` that answers "enough"; 0: none */
    void (*then)(struct peer *peer);
} list;
static bool in_call;

static void judge(const struct lw_client *client, const struct lw_listing *listing,
                  const void *arg)
{
    if (in_call || arg != &list || list.status != PENDING ||
        client != list.peer->client) {
        stage_complain("rule 1 or 2: a callback out of place");
    }
    if (listing->size != sizeof(*listing) || listing->found != list.told ||
        listing->seen < list.seen) {
        stage_complain("it counts wrongly: %llu found, %llu seen",
                       (unsigned long long)listing->found,
                       (unsigned long long)listing->seen);
    }
    list.seen = listing->seen;
    list.keys = listing->keys;
}

/* A name may come twice. */
static void note(const struct lw_inspection *found)
{
    const struct lw_inspected *holder = lw_inspection_holder(found, 0);
    char line[sizeof(*list.names)];

    (void)snprintf(line, sizeof(line), "%s:%c", found->name,
                   holder != NULL ? "mwr"[holder->mode] : '?');
    for (size_t i = 0; i < list.count; i++) {
        if (strcmp(list.names[i], line) == 0) {
            return;
        }
    }
    if (list.count < sizeof(list.names) / sizeof(*list.names)) {
        memcpy(list.names[list.count++], line, sizeof(line));
    }
}

static int on_found(struct lw_client *client, const struct lw_inspection *found,
                    const struct lw_listing *listing, void *arg)
{
    list.told += found != NULL;
    list.steps += found == NULL;
    judge(client, listing, arg);
    if (found != NULL) {
        note(found);
    }
    if (list.then != NULL) {
        list.then(list.peer);
    }
    return list.stops_at > 0 && (int)(list.told + list.steps) >= list.stops_at;
}

static void on_listed(struct lw_client *client, int status,
                      const struct lw_listing *listing, const char *why, void *arg)
{
    judge(client, listing, arg);
    list.status = status;
    (void)snprintf(list.why, sizeof(list.why), "%s", why);
    stage_note("listed %s", status_name(status));
}

static void call_list(struct peer *peer, const char *pattern)
{
    int stops_at = list.stops_at;
    void (*then)(struct peer *) = list.then;

    memset(&list, 0, sizeof(list));
    list.peer = peer;
    list.status = PENDING;
    list.stops_at = stops_at;
    list.then = then;
    in_call = true;
    int result = lw_list(peer->client, pattern, on_found, on_listed, &list);
    in_call = false;
    if (result != LW_OK) {
        stage_complain("lw_list: %s: %s", status_name(result), peer->error);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* In the order of their names. */
static const char *listed(void)
{
    static char text[65536];
    size_t used = 0;

    text[0] = '\0';
    qsort(list.names, list.count, sizeof(*list.names), by_text);
    for (size_t i = 0; i < list.count; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i ? " " : "",
                                 list.names[i]);
    }
    return text;
}
#define LISTED(names) assert_string_equal(listed(), names)

static void list_all(struct peer *peer, const char *pattern)
{
    call_list(peer, pattern);
    UNTIL(list.status != PENDING);
    if (list.status != LW_OK) {
        stage_fail("lw_list: %s: %s", status_name(list.status), list.why);
    }
    stage_clear_trace();
}

static void begin(void)
{
    list.then = NULL;
    list.stops_at = 0;
    three_clients();
}

static struct hold *hold_as(struct peer *peer, const char *name, enum lw_mode mode,
                            const char *owner)
{
    struct hold *hold =
        ask_with(peer, name, name, asking(.mode = mode, .owner = owner, .wait_ms = -1));

    UNTIL(hold->result != PENDING);
    assert_int_equal(hold->result, LW_OK);
    stage_clear_trace();
    return hold;
}

/* ---- what is found ---- */

static void nothing_is_held(void **state)
{
    (void)state;
    begin();
    list_all(a, NULL);
    LISTED("");
    assert_int_equal(list.steps, 1);
}

static void each_mode_is_found_with_all_that_is_known(void **state)
{
    (void)state;
    begin();
    hold_as(a, "job:1", LW_MUTEX, NULL);
    hold_as(a, "{tag}job:2", LW_EXCLUSIVE, "anna");
    hold_as(a, "job:3", LW_SHARED, "bert");
    hold_as(b, "job:3", LW_SHARED, NULL);
    ask(b, "W", "job:1", -1);
    wait_queued("job:1", 1); /* which marks its token */
    list_all(c, NULL);
    LISTED("job:1:m job:3:r {tag}job:2:w");
    list_all(c, "job:*");
    LISTED("job:1:m job:3:r");
    list_all(c, "nothing*");
    LISTED("");
}

static void make_others(void)
{
    redis_ok("SET plain value");
    redis_ok("SET job:uuid c0ffee00-0000-4000-8000-000000000001");
    redis_ok("SET job:more " TOKEN "x", 1);
    redis_ok("SET job:number 12");
    redis_ok("SET job:empty %s", "");
    redis_ok("RPUSH job:list 1");
    redis_ok("SADD job:set 1");
    redis_ok("ZADD job:zset 1 1");
    redis_ok("XADD job:stream * a b");
    redis_ok("HSET job:hash field value");
    redis_ok("HSET job:mode mode 2");
    redis_ok("HSET job:redisson mode read");
    redis_ok("HSET job:rlock " TOKEN " 1", 1);
    redis_ok("SETRANGE job:large 30000000 x");
    redis_ok("SET lockwire:mine " TOKEN "-", 2);
    redis_ok("SET job:}bad{ " TOKEN "-", 3);
    redis_ok("SET %b " TOKEN "-", "job:\n", (size_t)5, 4);
    redis_ok("SET %b " TOKEN "-", "job:\0x", (size_t)6, 5);
}

static void other_keys_are_none(void **state)
{
    (void)state;
    begin();
    make_others();
    list_all(a, NULL);
    LISTED("");
    assert_int_equal(list.seen, redis_int("DBSIZE"));
    assert_int_equal(list.keys, list.seen);
    assert_int_equal(a->downs, 0);
    redis_ok("FLUSHALL");
}

static void those_that_version_0_1_wrote_are_found(void **state)
{
    (void)state;
    begin();
    redis_ok("SET old " TOKEN " PX 60000", 1);
    redis_ok("SET new " TOKEN "- PX 60000", 2);
    redis_ok("SET marked " TOKEN "+ PX 60000", 3);
    list_all(a, NULL);
    LISTED("marked:m new:m old:m");
    redis_ok("DEL old new marked");
}

static void among_very_many(void **state)
{
    char name[32], wanted[4096] = "";
    size_t used = 0;

    (void)state;
    begin();
    redis_ok("EVAL %s 0",
             "for i = 1, 10000 do redis.call('SET', 'key:' .. i, i, 'EX', 600) end");
    for (int i = 10; i < 90; i++) {
        (void)snprintf(name, sizeof(name), "job:%d", i);
        hold_as(a, name, i % 2 ? LW_MUTEX : LW_SHARED, NULL);
        used += (size_t)snprintf(wanted + used, sizeof(wanted) - used, "%s%s:%c",
                                 used > 0 ? " " : "", name, i % 2 ? 'm' : 'r');
    }
    redis_ok("CONFIG RESETSTAT");
    list_all(b, NULL);
    LISTED(wanted);
    assert_true(list.steps >= 40);
    assert_true(list.seen >= 10080);
    assert_in_range(list.keys, 10080, 10100);
    assert_non_null(strstr(redis_text("INFO commandstats"), "cmdstat_scan:"));
    assert_null(strstr(redis_text("INFO commandstats"), "cmdstat_keys:"));
    list_all(b, "job:1?");
    LISTED("job:10:r job:11:m job:12:r job:13:m job:14:r job:15:m job:16:r job:17:m "
           "job:18:r job:19:m");
    stage.keys_may_stay = true;
}

static void a_lock_of_which_too_much_is_said_is_named(void **state)
{
    char owner[600];

    (void)state;
    begin();
    hold_as(a, "x", LW_SHARED, "anna");
    hold_as(a, "y", LW_SHARED, "anna");
    memset(owner, 'o', sizeof(owner) - 1);
    owner[sizeof(owner) - 1] = '\0';
    redis_ok("HSET x h:one %s", owner);
    list_all(b, NULL);
    LISTED("x:? y:r");
    redis_ok("DEL x");
}

static void others_commands_are_answered_meanwhile(void **state)
{
    (void)state;
    begin();
    redis_ok("EVAL %s 0",
             "for i = 1, 20000 do redis.call('SET', 'key:' .. i, i, 'EX', 600) end");
    call_list(a, NULL);
    struct hold *A = ask(a, "A", "x", 0);
    UNTIL(A->result == LW_OK);
    assert_int_equal(list.status, PENDING);
    UNTIL(list.status == LW_OK);
    stage.keys_may_stay = true;
    stage_clear_trace();
}

/* ---- its ends ---- */

static int none(struct lw_client *client, const struct lw_inspection *found,
                const struct lw_listing *listing, void *arg)
{
    (void)client, (void)found, (void)listing, (void)arg;
    return 0;
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
    begin();
    memset(pattern, '*', sizeof(pattern) - 1);
    pattern[sizeof(pattern) - 1] = '\0';
    refused(a, NULL, NULL, on_listed, LW_EINVAL, "found is NULL");
    refused(a, NULL, none, NULL, LW_EINVAL, "done is NULL");
    refused(a, "", none, on_listed, LW_EINVAL, "pattern");
    refused(a, pattern, none, on_listed, LW_EINVAL, "not 513");
    list_all(a, pattern + 1);
    peer_close(a);
    refused(a, NULL, none, on_listed, LW_ECLOSED, "closed");
    EXPECT("a closed");
}

static void who_has_had_enough_is_told_no_more(void **state)
{
    (void)state;
    begin();
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
    begin();
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
    begin();
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

/* ---- what is not permitted ---- */

static void what_is_denied_is_told(void **state)
{
    static const char *const commands[] = {"scan", "getrange", "hstrlen", "hget"};

    (void)state;
    begin();
    hold_as(a, "x", LW_SHARED, NULL);
    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
        redis_ok("ACL SETUSER default -%s", commands[i]);
        call_list(b, NULL);
        EXPECT("listed EREDIS");
        redis_ok("ACL SETUSER default +@all");
        assert_non_null(strcasestr(list.why, commands[i]));
    }
    redis_ok("ACL SETUSER default -dbsize");
    list_all(b, NULL);
    LISTED("x:r");
    assert_int_equal(list.keys, 0);
    redis_ok("ACL SETUSER default +@all");
}

static void keys_that_may_not_be_read_are_passed_over(void **state)
{
    (void)state;
    begin();
    redis_ok("SET secret value");
    redis_ok("HSET shadows field value");
    hold_as(a, "job:1", LW_MUTEX, NULL);
    redis_ok("ACL SETUSER default resetkeys ~job:* ~lockwire:*");
    list_all(b, NULL);
    redis_ok("ACL SETUSER default allkeys");
    LISTED("job:1:m");
    redis_ok("DEL secret shadows");
}

/* ---- a server that lies ---- */

static const char *step; /* the answer to the script */

static const char *answer(struct fake_redis *fake, int argc, char **argv)
{
    (void)fake;
    if (strncasecmp(argv[0], "EVAL", 4) == 0 && argc >= 5 && strcmp(argv[2], "0") == 0 &&
        strcmp(argv[4], "250") == 0) {
        return step;
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
    step = FAKE_REAL;
    UNTIL(peer->up);
    return peer;
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
        assert_string_equal(list.why, "the server answered what no server can answer");
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

/* It is for the caller to have enough of that. */
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
        STAGE_TEST(nothing_is_held),
        STAGE_TEST(each_mode_is_found_with_all_that_is_known),
        STAGE_TEST(other_keys_are_none),
        STAGE_TEST(those_that_version_0_1_wrote_are_found),
        STAGE_TEST(among_very_many),
        STAGE_TEST(a_lock_of_which_too_much_is_said_is_named),
        STAGE_TEST(others_commands_are_answered_meanwhile),
        STAGE_TEST(bad_calls_are_refused),
        STAGE_TEST(who_has_had_enough_is_told_no_more),
        STAGE_TEST(rule4_the_client_may_be_freed_in_the_callback),
        STAGE_TEST(rule7_free_is_silent_and_close_ends_it_first),
        STAGE_TEST(without_a_link_it_ends_at_once),
        STAGE_TEST(a_link_that_goes_ends_it),
        STAGE_TEST(what_is_denied_is_told),
        STAGE_TEST(keys_that_may_not_be_read_are_passed_over),
        STAGE_TEST(nonsense_is_no_answer_and_costs_the_connection),
        STAGE_TEST(names_of_no_lock_are_passed_over),
        STAGE_TEST(a_cursor_that_never_ends_can_be_ended),
    };

    return STAGE_RUN(tests);
}

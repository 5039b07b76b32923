/* SPDX-License-Identifier: MIT */
/* lw_inspect and lw_break if the reply is nonsense, odd, an error, or never comes, and
 * for keys in a state that no client of ours leaves. Independent of the script.
 *
 * Usual course: a fake server replies something about "x" that is not there; the callback
 * is called once, with whatever the reply allows to report. */
#include "fake_redis.h"
#include "inspect/scene.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NO_SERVER "invalid reply: the server sent something this command cannot return"
#define UUID_A "0b5ab8f5-4e5f-4b06-a53c-7d2f0c1c64aa"

/* The parts of a reply about a name that is not in use. */
#define HEAD(elements) "*" elements "\r\n$4\r\nnone\r\n:-2\r\n:1700000000000000\r\n"
#define NO_VALUE "$0\r\n\r\n"
#define NOTHING "*0\r\n"
#define NO_QUEUE "*2\r\n:0\r\n:-2\r\n"
#define NO_TEXT "$0\r\n\r\n"
#define ROLE "$6\r\nmaster\r\n" NO_TEXT
#define NO_LOCK ":-1\r\n" NOTHING
#define UP_TO_QUEUES(elements) HEAD(elements) NO_VALUE NO_LOCK
/* A read-write lock with these holds. */
#define HOLDS_AT(time, holds)                                                            \
    "*10\r\n$4\r\nhash\r\n:500\r\n:" time "\r\n" NO_VALUE                                \
    ":1\r\n" holds NO_QUEUE NO_QUEUE ROLE
#define HOLDS_OF(holds) HOLDS_AT("1700000000000000", holds)
#define FOR_EVER "*4\r\n$1\r\nt\r\n$22\r\n9223372036854775807 r\x20\r\n$0\r\n\r\n" NO_TEXT

static const char *inspected; /* the reply to lw_inspect's first command, or FAKE_REAL */
static const char *released;  /* the reply to lw_break's second command */
static const char *others;    /* the reply to the plain try for "other" */
static void (*before_release)(void);

static const char *answer(struct fake_redis *fake, int argc, char **argv)
{
    bool script = strncasecmp(argv[0], "EVAL", 4) == 0;

    (void)fake;
    if (script && argc > 5 && strncmp(argv[5], "lockwire:2:rwqueue:", 19) == 0) {
        return inspected;
    }
    if (script && argc > 5 && strcmp(argv[3], "x") == 0) {
        if (before_release != NULL) {
            before_release();
        }
        return released;
    }
    if (strcasecmp(argv[0], "SET") == 0 && strcmp(argv[1], "other") == 0) {
        return others;
    }
    return FAKE_REAL;
}

static struct peer *before_a_liar(const struct lw_client_options *options)
{
    struct fake_redis *fake = fake_start(answer);
    struct peer *a = peer_start_at("a", fake->url, options);

    look.then = NULL;
    inspected = released = others = FAKE_REAL;
    before_release = NULL;
    UNTIL(a->up);
    return a;
}

static struct peer *patient_before_a_liar(void)
{
    return before_a_liar(client_of(.backoff_min_ms = 1, .backoff_max_ms = 2));
}

/* ---- nonsense ---- */

static void nonsense_is_no_answer_and_costs_the_connection(void **state)
{
    static const char *const nonsense[] = {
        "$-1\r\n",
        ":5\r\n",
        "*0\r\n",
        UP_TO_QUEUES("9") NO_QUEUE NO_QUEUE,
        UP_TO_QUEUES("10") ":0\r\n" NO_QUEUE ROLE,
        UP_TO_QUEUES("10") "*1\r\n:0\r\n" NO_QUEUE ROLE,
        UP_TO_QUEUES("10") NO_QUEUE ":0\r\n" ROLE,
        UP_TO_QUEUES("10") NO_QUEUE "*1\r\n:0\r\n" ROLE,
        "*10\r\n:1\r\n:-2\r\n:1\r\n" NO_VALUE NO_LOCK NO_QUEUE NO_QUEUE ROLE,
        "*10\r\n+none\r\n:-2\r\n:1\r\n" NO_VALUE NO_LOCK NO_QUEUE NO_QUEUE ROLE,
        "*10\r\n$4\r\nnone\r\n$1\r\n2\r\n:1\r\n" NO_VALUE NO_LOCK NO_QUEUE NO_QUEUE ROLE,
        "*10\r\n$6\r\nstring\r\n:5\r\n:1\r\n:7\r\n" NO_LOCK NO_QUEUE NO_QUEUE ROLE,
        "*10\r\n$4\r\nnone\r\n:-2\r\n:-1\r\n" NO_VALUE NO_LOCK NO_QUEUE NO_QUEUE ROLE,
        HEAD("10") NO_VALUE NOTHING NOTHING NO_QUEUE NO_QUEUE ROLE,
        HEAD("10") NO_VALUE "$1\r\n1\r\n" NOTHING NO_QUEUE NO_QUEUE ROLE,
        HOLDS_AT("-9223372036854775808", FOR_EVER),
        HOLDS_OF("*4\r\n:1\r\n$4\r\n9 r \r\n$0\r\n\r\n" NO_TEXT),
        HOLDS_OF("*4\r\n$1\r\nt\r\n$-1\r\n$0\r\n\r\n" NO_TEXT),
        HOLDS_OF("*4\r\n$1\r\nt\r\n$4\r\n9 r \r\n:1\r\n" NO_TEXT),
        HOLDS_OF("*4\r\n$1\r\nt\r\n$4\r\n9 r \r\n$0\r\n\r\n:1\r\n"),
        "*10\r\n$6\r\nstring\r\n:5\r\n:1\r\n$1\r\nt\r\n" NO_LOCK NO_QUEUE NO_QUEUE
        "$6\r\nmaster\r\n:7\r\n",
        UP_TO_QUEUES("10") "*4\r\n:1\r\n:9\r\n:1\r\n$1\r\n5\r\n" NO_QUEUE ROLE,
        UP_TO_QUEUES("10") "*4\r\n:1\r\n:9\r\n$1\r\nm\r\n:5\r\n" NO_QUEUE ROLE,
        UP_TO_QUEUES("10") NO_QUEUE "*4\r\n:1\r\n:9\r\n$-1\r\n$1\r\n5\r\n" ROLE,
        UP_TO_QUEUES("10") NO_QUEUE NO_QUEUE ":1\r\n" NO_TEXT,
        UP_TO_QUEUES("10") NO_QUEUE NO_QUEUE "+master\r\n" NO_TEXT,
    };
    struct peer *a = patient_before_a_liar();

    (void)state;
    for (size_t i = 0; i < sizeof(nonsense) / sizeof(*nonsense); i++) {
        int downs = a->downs;

        inspected = nonsense[i];
        call_inspect(a, "x");
        EXPECT("inspected ECONN");
        assert_string_equal(look.why, NO_SERVER);
        UNTIL(a->downs > downs && a->up);
    }
}

static void a_break_stops_at_nonsense(void **state)
{
    struct peer *a = patient_before_a_liar();

    (void)state;
    redis_ok("SET x theirs PX 60000");
    inspected = "$-1\r\n";
    call_break(a, "x", NULL);
    EXPECT("broken ECONN"); /* it had only read so far */
    assert_string_equal(redis_text("GET x"), "theirs");
    UNTIL(a->downs > 0 && a->up);
    inspected = FAKE_REAL;
    released = "+WHAT\r\n";
    call_break(a, "x", NULL);
    EXPECT("broken EUNKNOWN");
    assert_string_equal(look.why, NO_SERVER);
    redis_ok("DEL x");
}

/* ---- odd replies, reported all the same ---- */

static void more_clients_than_notes_are_asked_for(void **state)
{
    static char many[64000];
    struct peer *a = patient_before_a_liar();
    size_t used = (size_t)snprintf(many, sizeof(many), "%s*642\r\n:320\r\n:9\r\n",
                                   UP_TO_QUEUES("10"));

    (void)state;
    for (int i = 0; i < 320; i++) {
        used += (size_t)snprintf(many + used, sizeof(many) - used,
                                 "$45\r\n" UUID_A ":%03d:2000\r\n$1\r\n5\r\n", i);
    }
    (void)snprintf(many + used, sizeof(many) - used, NO_QUEUE ROLE);
    redis_ok("SET lockwire:client:" UUID_A " %s PX 60000", "anna host 1");
    stage.notes_may_stay = true;
    inspected = many;
    look_at(a, "x");
    assert_int_equal(look.waiter_total, 320);
    assert_int_equal(look.waiter_count, 320);
    assert_string_equal(look.waiters[299].client, "anna host 1");
}

static void a_member_of_no_known_form_is_passed_over(void **state)
{
    struct peer *a = patient_before_a_liar();

    (void)state;
    inspected = UP_TO_QUEUES("10") NO_QUEUE
        "*10\r\n:4\r\n:9\r\n"
        "$1\r\nr\r\n$1\r\n5\r\n"
        "$3\r\nr t\r\n$1\r\n5\r\n"
        "$5\r\nx t o\r\n$1\r\n5\r\n"
        "$6\r\nr7 t o\r\n$17\r\n99999999999999999\r\n" ROLE;
    look_at(a, "x");
    FOUND("1 r7 o -");
    assert_int_equal(look.waiter_total, 4);
    assert_int_equal(look.waiters[0].waited_ms, 0); /* its ticket is in the future */
}

static void a_server_at_the_end_of_time_is_believed(void **state)
{
    struct peer *a = patient_before_a_liar();

    (void)state;
    inspected = HOLDS_AT("0", FOR_EVER);
    look_at(a, "x");
    assert_true(look.holders[0].remaining_ms == INT64_MAX);
    inspected = HOLDS_AT("9223372036854775807", FOR_EVER);
    look_at(a, "x");
    assert_true(look.holders[0].remaining_ms == INT64_MAX - INT64_MAX / 1000);
}

static void a_lock_that_counts_too_few_has_the_holds_that_are_seen(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    look.then = NULL;
    redis_ok("HSET x mode %s h:t1 %s h:t2 nonsense", "2 0 0 0 9 0 ",
             "99999999999999 r anna");
    redis_ok("PEXPIRE x 60000");
    look_at(a, "x");
    FOUND("held by r anna -");
    assert_int_equal(look.holder_total, 1);
    redis_ok("HSET x mode %s", "2 5 1 2 9 7 anna");
    look_at(a, "x");
    assert_int_equal(look.holder_total, 5);
    redis_ok("DEL x");
}

static void a_hold_whose_lease_is_over_has_nothing_left(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    look.then = NULL;
    redis_ok("HSET x mode %s h:t1 %s", "2 1 1 0 9 0 ", "9 r anna");
    redis_ok("PEXPIRE x 60000");
    look_at(a, "x");
    FOUND("held by r anna -");
    assert_int_equal(look.holders[0].remaining_ms, 0);
    redis_ok("DEL x");
}

static void a_hold_that_ends_with_the_key_has_what_that_has(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    look.then = NULL;
    redis_ok("HSET x mode %s h:t1 %s", "2 1 1 0 0 0 ", "0 r anna");
    look_at(a, "x");
    FOUND("held by r anna -");
    assert_int_equal(look.holders[0].remaining_ms, -1);
    redis_ok("PEXPIRE x 60000");
    look_at(a, "x");
    assert_int_in_range(look.holders[0].remaining_ms, 1, 60000);
    redis_ok("DEL x");
}

static void a_client_without_a_note_is_not_known(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    look.then = NULL;
    redis_ok("SET x " UUID_A ":1:2000 PX 60000");
    look_at(a, "x");
    FOUND("held by m - -");
    redis_ok("SET x %s:1:2000 PX 60000", "somebody else's token, of that length");
    look_at(a, "x");
    FOUND("held by m - -");
    redis_ok("DEL x");
}

/* ---- errors ---- */

static void a_long_error_is_cut(void **state)
{
    static char error[700];
    struct peer *a = patient_before_a_liar();

    (void)state;
    memset(error, 'e', 600);
    memcpy(error, "-ERR ", 5);
    memcpy(error + 600, "\r\n", 3);
    inspected = error;
    call_inspect(a, "x");
    EXPECT("inspected EREDIS");
    assert_int_equal(strncmp(look.why, "ERR eee", 7), 0);
    assert_int_in_range(strlen(look.why), 100, 300);
}

static void a_break_that_is_refused_tells_the_server_s_words(void **state)
{
    struct peer *a = patient_before_a_liar();

    (void)state;
    redis_ok("SET x theirs PX 60000");
    released = "-NOPERM not you\r\n";
    call_break(a, "x", NULL);
    EXPECT("broken EREDIS");
    assert_string_equal(look.why, "NOPERM not you");
    assert_string_equal(redis_text("GET x"), "theirs");
    redis_ok("DEL x");
}

/* ---- changes in the meantime ---- */

static void holder_leaves(void)
{
    redis_ok("DEL x");
}

static void a_holder_that_leaves_meanwhile_was_not_broken(void **state)
{
    struct peer *a = patient_before_a_liar();

    (void)state;
    redis_ok("SET x theirs PX 60000");
    before_release = holder_leaves;
    call_break(a, "x", NULL);
    EXPECT("broken ENOTHELD");
    assert_string_equal(look.why, "the lock is not held");
}

/* With one command in flight at a time, a release waits behind another handle's command
 * when the link ends: it was not sent. */
static struct peer *one_at_a_time(void)
{
    return before_a_liar(
        client_of(.max_inflight = 1, .backoff_min_ms = 5000, .local_turns = 1));
}

static void a_break_that_was_not_sent_was_not_done(void **state)
{
    struct peer *a = one_at_a_time();

    (void)state;
    redis_ok("SET x theirs PX 60000");
    others = FAKE_HANG_UP;
    call_break(a, "x", NULL);
    acquire_hold(a, "O", "other", 0);
    EXPECT_SET("broken ECONN; O ECONN");
    assert_string_equal(redis_text("GET x"), "theirs");
    redis_ok("DEL x");
    stage.notes_may_stay = true;
}

static void somebody_asks(void)
{
    if (strcmp(holds->label, "R2") == 0) {
        acquire_hold(look.peer, "O", "other", 0);
    }
}

static void a_break_that_ends_half_way_leaves_the_outcome_open(void **state)
{
    struct peer *a = one_at_a_time();

    (void)state;
    struct peer *b = peer_ready("b", NULL);
    acquire_hold_with(b, "R1", "x", asking(.mode = LW_SHARED));
    acquire_hold_with(b, "R2", "x", asking(.mode = LW_SHARED));
    EXPECT("R1 granted; R2 granted");
    before_release = somebody_asks;
    others = FAKE_HANG_UP;
    call_break(a, "x", NULL);
    EXPECT_SET("broken EUNKNOWN; O ECONN");
    assert_string_equal(redis_counts("x"), "1 1 0");
    stage.notes_may_stay = true;
}

/* ---- the end of the client ---- */

static void a_result_that_is_there_is_told_as_it_is_at_close(void **state)
{
    struct server nobody;

    (void)state;
    server_absent(&nobody);
    struct peer *a = peer_start_at("a", nobody.url, NULL);
    look.then = NULL;
    UNTIL(a->downs > 0);
    call_inspect(a, "x");
    peer_close(a);
    EXPECT("inspected ECONN; a closed");
    server_stop(&nobody);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(nonsense_is_no_answer_and_costs_the_connection),
        STAGE_TEST(a_break_stops_at_nonsense),
        STAGE_TEST(more_clients_than_notes_are_asked_for),
        STAGE_TEST(a_member_of_no_known_form_is_passed_over),
        STAGE_TEST(a_server_at_the_end_of_time_is_believed),
        STAGE_TEST(a_lock_that_counts_too_few_has_the_holds_that_are_seen),
        STAGE_TEST(a_hold_whose_lease_is_over_has_nothing_left),
        STAGE_TEST(a_hold_that_ends_with_the_key_has_what_that_has),
        STAGE_TEST(a_client_without_a_note_is_not_known),
        STAGE_TEST(a_long_error_is_cut),
        STAGE_TEST(a_break_that_is_refused_tells_the_server_s_words),
        STAGE_TEST(a_holder_that_leaves_meanwhile_was_not_broken),
        STAGE_TEST(a_break_that_was_not_sent_was_not_done),
        STAGE_TEST(a_break_that_ends_half_way_leaves_the_outcome_open),
        STAGE_TEST(a_result_that_is_there_is_told_as_it_is_at_close),
    };

    return STAGE_RUN(tests);
}

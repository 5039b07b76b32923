/* SPDX-License-Identifier: MIT */
/*
 * How a mutex is released. If its value shows no waiters, the release does not read the
 * queue, and uses the best command that the server has. Also how soon an unseen waiter is
 * found. Independent of the scripts.
 *
 * Usual course: the lock is granted by a plain try, and released by one command on one
 * key.
 */
#include "fake_redis.h"
#include "monitor.h"
#include "players.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Acquires the lock, and releases it at once. */
static void pass_through(struct peer *peer, const char *name)
{
    struct hold *hold = acquire_and_wait(peer, "A", name);

    release_hold(hold);
    UNTIL(hold->released != PENDING);
    assert_int_equal(hold->released, LW_OK);
    free_hold(hold);
}

/* Returns how often the monitor saw this text. */
static int sightings(const char *text)
{
    int count = 0;

    for (const char *at = monitor_text(); (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

/* One release in 32 reads the queue nevertheless: twenty of 640, on average. */
static void releases_look_at_the_name_alone_but_for_some(void **state)
{
    struct peer *a = peer_ready("a", client_of(.local_turns = 1));

    (void)state;
    for (int i = 0; i < 40; i++) { /* from here on the server knows the scripts */
        pass_through(a, "x");
    }
    monitor_start();
    for (int i = 0; i < 640; i++) {
        pass_through(a, "x");
    }
    assert_int_in_range(sightings("\"lockwire:2:queue:{x}\""), 1, 100);
    assert_int_equal(monitor_count("set"), 640);
    assert_int_equal(monitor_count("evalsha") + monitor_count("delifeq") +
                         monitor_count("delex"),
                     640);
    stage_clear_trace();
}

static void who_held_for_a_while_looks(void **state)
{
    struct peer *a = peer_ready("a", client_of(.local_turns = 1));

    (void)state;
    monitor_start();
    for (int i = 1; i <= 5; i++) {
        struct hold *A = acquire_and_wait(a, "A", "x");

        EXPECT("A granted");
        stage_run_for(21);
        release_hold(A);
        EXPECT("A released OK");
        assert_true(sightings("\"lockwire:2:queue:{x}\"") >= i);
    }
}

static void the_first_contended_release_hands_over(void **state)
{
    struct peer *a = peer_ready("a", client_of(.local_turns = 1));
    struct peer *b = peer_ready("b", client_of(.local_turns = 1));

    (void)state;
    for (int i = 0; i < 5; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "x%d", i);
        struct hold *A = acquire_and_wait(a, "A", name),
                    *B = acquire_hold(b, "B", name, -1);
        wait_queued(name, 1);
        EXPECT("A granted");
        release_hold(A);
        EXPECT_SET("A released OK; B granted");
        release_hold(B);
        EXPECT("B released OK");
    }
    assert_int_equal(peer_stats(b).handed_over, 5);
}

/* B waited, and has left. The value is still marked, so that the release takes a second
 * command, which is sent after the request of C. */
static void who_tries_in_the_turn_of_a_release_is_not_kept_out_by_it(void **state)
{
    struct peer *a = peer_ready("a", client_of(.local_turns = 1));
    struct peer *b = peer_ready("b", client_of(.local_turns = 1));

    (void)state;
    for (int i = 0; i < 5; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "x%d", i);
        struct hold *A = acquire_and_wait(a, "A", name),
                    *B = acquire_hold(b, "B", name, -1), *C;
        EXPECT("A granted");
        wait_queued(name, 1);
        free_hold(B);
        UNTIL(redis_int("EXISTS %s", queue_of(name)) == 0);
        release_hold(A);
        C = acquire_hold(a, "C", name, 0);
        EXPECT_SET("A released OK; C granted");
        release_hold(C);
        EXPECT("C released OK");
    }
}

/* The tickets of the requests for x, "-" for a request without one. */
static char tickets[256];

/* Has clients that cannot bind their subscriptions, and that release only by EVAL. */
static const char *behind(struct fake_redis *fake, int argc, char **argv)
{
    const char *ticket;

    (void)fake;
    if (argc > 1 && strcasecmp(argv[1], "NUMSUB") == 0) {
        return "-NOPERM this user has no permissions to run the 'pubsub|numsub' "
               "command\r\n";
    }
    if (argc == 8 && strcasecmp(argv[0], "EVALSHA") == 0 && *argv[7] == '%') {
        return "-NOSCRIPT No matching script. Please use EVAL.\r\n";
    }
    if (argc == 8 && strcasecmp(argv[0], "EVALSHA") == 0 && strlen(tickets) < 100) {
        ticket = argv[7] + 2; /* after two letters */
        strncat(tickets, *ticket == ' ' ? "-" : ticket,
                *ticket == ' ' ? 1 : strcspn(ticket, " "));
        strcat(tickets, " ");
    }
    return FAKE_REAL;
}

/* C waits, but cannot join the queue yet. Its request is refused because of A, whose
 * release is sent again after it, so C sends its request again at once. It has the ticket
 * of that reply, since the release may come after this request as well, and waiters of
 * other clients may join before that. */
static void who_waits_behind_a_release_of_its_own_client_keeps_its_place(void **state)
{
    struct fake_redis *fake = fake_start(behind);
    struct peer *a = peer_start_at("a", fake->url, client_of(.local_turns = 1));
    bool seen = false;

    (void)state;
    UNTIL(a->up);
    stage_clear_trace();
    /* repeated if the machine was so slow that the client forgot the holder */
    for (int i = 0; i < 20 && !seen; i++) {
        struct hold *A = acquire_and_wait(a, "A", "x"), *B, *C;
        EXPECT("A granted");
        /* B makes the first request of C the script. */
        B = acquire_hold(a, "B", "x", 0);
        EXPECT("B EBUSY");
        free_hold(B);
        tickets[0] = '\0';
        release_hold(A);
        C = acquire_hold(a, "C", "x", -1);
        EXPECT_SET("A released OK; C granted");
        seen = strlen(tickets) > 2;
        release_hold(C);
        EXPECT("C released OK");
    }
    stage_note("%s", tickets);
    assert_int_equal(strncmp(tickets, "- 1", 3), 0);
}

/* The holder's key vanished while B waited, and newcomers take the name by a plain SET.
 * Their releases do not read the queue, as the value shows no waiters, but one of them
 * does before long. B's own poll would come after three seconds. */
static void who_waits_unseen_is_found_by_one_of_those_who_come(void **state)
{
    struct peer *a = peer_ready("a", client_of(.local_turns = 1));
    struct peer *b = peer_ready("b", client_of(.local_turns = 1));
    struct peer *c = peer_ready("c", client_of(.local_turns = 1));
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.lease_ms = 60000)), *B, *C;
    int newcomers = 0;

    (void)state;
    EXPECT("A granted");
    B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 1);
    redis_ok("DEL x");
    while (B->result == PENDING) {
        C = acquire_hold(c, "C", "x", -1);
        UNTIL(C->result != PENDING || B->result != PENDING);
        if (C->result == LW_OK) {
            newcomers++;
            release_hold(C);
            UNTIL(C->released != PENDING);
        }
        free_hold(C);
        stage_clear_trace();
    }
    assert_int_equal(B->result, LW_OK);
    assert_int_in_range(newcomers, 0, 600);
    release_hold(B);
    EXPECT("B released OK");
    release_hold(A);
    EXPECT("A released ENOTHELD");
}

/* ---- servers that have a compare-and-delete, or report one ---- */

static const char *abilities, *refusal; /* replies to COMMAND INFO, to the command */
static int asked;                       /* how often the command came */

static const char *able(struct fake_redis *fake, int argc, char **argv)
{
    (void)fake;
    if (strcasecmp(argv[0], "COMMAND") == 0) {
        return abilities;
    }
    if (strcasecmp(argv[0], "DELIFEQ") != 0 && strcasecmp(argv[0], "DELEX") != 0) {
        return FAKE_REAL;
    }
    asked++;
    if (refusal != NULL) {
        return refusal;
    }
    assert_int_equal(argc, strcasecmp(argv[0], "DELEX") == 0 ? 4 : 3);
    if (argc == 4) {
        assert_string_equal(argv[2], "IFEQ");
    }
    assert_string_equal(argv[argc - 1], redis_text("GET %s", argv[1]));
    redis_ok("DEL %s", argv[1]);
    return ":1\r\n";
}

#define KNOWS_DELIFEQ "*2\r\n*2\r\n$7\r\ndelifeq\r\n:3\r\n*-1\r\n"
#define KNOWS_DELEX "*2\r\n*-1\r\n*2\r\n$5\r\ndelex\r\n:-2\r\n"

/* Releases so often that some releases do not read the queue. Returns how often the
 * server got its command. */
static int times_asked(const char *answer, const char *refused)
{
    abilities = answer;
    refusal = refused;
    asked = 0;
    struct fake_redis *fake = fake_start(able);
    struct peer *a = peer_start_at("a", fake->url, client_of(.local_turns = 1));

    UNTIL(a->up);
    for (int i = 0; i < 20; i++) {
        pass_through(a, "x");
        assert_int_equal(redis_int("EXISTS x"), 0);
    }
    stage_clear_trace();
    peer_close(a);
    EXPECT("a closed");
    peer_free(a);
    stage.history[0] = '\0';
    return asked;
}

static void a_server_that_compares_and_deletes_is_asked_to(void **state)
{
    (void)state;
    assert_true(times_asked(KNOWS_DELIFEQ, NULL) > 10);
    assert_true(times_asked(KNOWS_DELEX, NULL) > 10);
}

static void a_server_that_does_not_say_so_is_not_asked(void **state)
{
    static const char *const answers[] = {
        "*2\r\n*-1\r\n*-1\r\n",
        "*2\r\n$-1\r\n$-1\r\n",
        "*0\r\n",
        ":0\r\n",
        "-ERR unknown command 'COMMAND'\r\n",
        "-NOPERM this user has no permissions to run the 'command|info' command\r\n"};

    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
        assert_int_equal(times_asked(answers[i], ":1\r\n"), 0);
    }
}

static void a_command_that_is_refused_gives_way_to_the_script(void **state)
{
    static const char *const refusals[] = {
        "-NOPERM this user has no permissions to run the 'delifeq' command\r\n",
        "-ERR unknown command 'DELIFEQ'\r\n",
        "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"};

    (void)state;
    for (size_t i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
        assert_int_equal(times_asked(KNOWS_DELIFEQ, refusals[i]), 1);
        assert_int_equal(times_asked(KNOWS_DELEX, refusals[i]), 1);
    }
}

/* A command with such a reply is not the one that we know. One connection ends, in case
 * the reply belongs to another request. */
static void a_command_that_answers_something_else_is_asked_once(void **state)
{
    static const char *const answers[] = {"$-1\r\n", ":2\r\n", "+OK\r\n", "*0\r\n"};

    (void)state;
    for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
        assert_int_equal(times_asked(KNOWS_DELIFEQ, answers[i]), 1);
        assert_int_equal(times_asked(KNOWS_DELEX, answers[i]), 1);
    }
}

/* The reply means that nothing was deleted, as for a marked value. The script then reads
 * the queue. */
static void a_command_that_finds_another_value_gives_way_once(void **state)
{
    (void)state;
    assert_true(times_asked(KNOWS_DELIFEQ, ":0\r\n") > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(releases_look_at_the_name_alone_but_for_some),
        STAGE_TEST(who_held_for_a_while_looks),
        STAGE_TEST(the_first_contended_release_hands_over),
        STAGE_TEST(who_tries_in_the_turn_of_a_release_is_not_kept_out_by_it),
        STAGE_TEST(who_waits_behind_a_release_of_its_own_client_keeps_its_place),
        STAGE_TEST(who_waits_unseen_is_found_by_one_of_those_who_come),
        STAGE_TEST(a_server_that_compares_and_deletes_is_asked_to),
        STAGE_TEST(a_server_that_does_not_say_so_is_not_asked),
        STAGE_TEST(a_command_that_is_refused_gives_way_to_the_script),
        STAGE_TEST(a_command_that_answers_something_else_is_asked_once),
        STAGE_TEST(a_command_that_finds_another_value_gives_way_once),
    };

    return STAGE_RUN(tests);
}

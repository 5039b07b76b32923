/* SPDX-License-Identifier: MIT */
/* The read-write lock, re-entrant by owner: which requests enter next to which holds, the
 * counts after each step, upgrade and downgrade. Two clients; the hash is checked after
 * each step. Independent of how the scripts work.
 *
 * Usual course: readers share the lock, a writer is alone, and an owner may acquire again
 * what it holds. */
#include "modes/scene.h"
#include "monitor.h"

#include <stdio.h>

/* Asserts that one script was sent since monitor_start(). On a slow machine waiters also
 * poll in the meantime. */
static void was_one_script(void)
{
    stage_skip_if_lag(300);
    assert_int_equal(monitor_count("evalsha") + monitor_count("eval"), 1);
}

static void readers_share_and_a_writer_is_alone(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = get_in(a, "A", "r", "anna"), *B = get_in(b, "B", "r", "bert");
    HOLDS("x", "read anna=1 bert=1");
    enter(b, "W", "w", "carl", 0);
    EXPECT("W EBUSY");
    get_out(A, LW_OK);
    HOLDS("x", "read bert=1");
    get_out(B, LW_OK);
    HOLDS("x", "");
    struct hold *W = get_in(a, "W2", "w", "carl");
    HOLDS("x", "write carl*1");
    enter(b, "R", "r", "anna", 0);
    EXPECT("R EBUSY");
    enter(b, "W3", "w", "bert", 0);
    EXPECT("W3 EBUSY");
    HOLDS("x", "write carl*1");
    get_out(W, LW_OK);
    HOLDS("x", "");
}

static void busy_tells_the_remaining_lease_of_the_first_to_end(void **state)
{
    (void)state;
    two_clients();
    enter_with(a, "A", "r", "anna", asking(.lease_ms = 50000));
    enter_with(a, "B", "r", "bert", asking(.lease_ms = 20000));
    EXPECT("A granted; B granted");
    struct hold *W = enter(b, "W", "w", "carl", 0);
    EXPECT("W EBUSY");
    assert_int_in_range(lw_lock_retry_ms(W->lock), 1, 20000);
    assert_string_equal(lw_lock_owner(W->lock), "");
    assert_int_equal(redis_int("EXISTS lockwire:2:rwqueue:{x}"), 0);
}

static void the_writer_may_read_as_well(void **state)
{
    (void)state;
    two_clients();
    struct hold *W = get_in(a, "W", "w", "anna"), *R = get_in(b, "R", "r", "anna");
    HOLDS("x", "write anna*1 anna=1");
    get_out(R, LW_STILLHELD);
    HOLDS("x", "write anna*1");
    get_out(W, LW_OK);
    HOLDS("x", "");
}

static void re_entry_counts_level_by_level(void **state)
{
    (void)state;
    two_clients();
    for (const char *kind = "rw"; *kind; kind++) {
        char one[] = {*kind, '\0'};

        struct hold *first = get_in(a, "1", one, "anna");
        struct hold *second = get_in(a, "2", one, "anna");
        struct hold *third = get_in(b, "3", one, "anna");
        HOLDS("x", *kind == 'r' ? "read anna=3" : "write anna*3");
        get_out(second, LW_STILLHELD);
        HOLDS("x", *kind == 'r' ? "read anna=2" : "write anna*2");
        get_out(first, LW_STILLHELD);
        get_out(third, LW_OK);
        HOLDS("x", "");
    }
}

static void re_entry_refreshes_the_lease_and_never_shortens_it(void **state)
{
    (void)state;
    two_clients();
    for (const char *kind = "rw"; *kind; kind++) {
        char one[] = {*kind, '\0'};
        struct hold *holds[3];
        holds[0] = enter_with(a, "1", one, "anna", asking(.lease_ms = 30000));
        EXPECT("1 granted");
        holds[1] = enter_with(a, "2", one, "anna", asking(.lease_ms = 5000));
        EXPECT("2 granted");
        assert_true(redis_int("PTTL x") > 15000);
        HOLDS("x", *kind == 'r' ? "read anna=2" : "write anna*2");
        holds[2] = enter_with(b, "3", one, "anna", asking(.lease_ms = 90000));
        EXPECT("3 granted");
        assert_true(redis_int("PTTL x") > 60000);
        for (int i = 0; i < 3; i++) {
            get_out(holds[i], i < 2 ? LW_STILLHELD : LW_OK);
        }
    }
}

static void the_last_read_of_a_reader_takes_its_field_and_the_last_of_all_the_key(
    void **state)
{
    (void)state;
    two_clients();
    struct hold *A = get_in(a, "A", "r", "anna"), *A2 = get_in(a, "A2", "r", "anna");
    struct hold *B = get_in(b, "B", "r", "bert");
    get_out(A, LW_STILLHELD);
    HOLDS("x", "read anna=1 bert=1");
    get_out(A2, LW_OK);
    assert_int_equal(redis_int("HEXISTS x r:anna"), 0);
    HOLDS("x", "read bert=1");
    get_out(B, LW_OK);
    assert_int_equal(redis_int("EXISTS x"), 0);
}

static void the_last_read_in_write_mode_takes_only_its_field(void **state)
{
    (void)state;
    two_clients();
    get_in(a, "W", "w", "anna");
    struct hold *R = get_in(a, "R", "r", "anna");
    get_out(R, LW_STILLHELD);
    assert_int_equal(redis_int("HEXISTS x r:anna"), 0);
    assert_string_equal(redis_counts("x"), "1 0 1");
    HOLDS("x", "write anna*1");
}

static void a_release_of_what_is_not_held_changes_nothing(void **state)
{
    (void)state;
    two_clients();
    for (const char *kind = "rw"; *kind; kind++) {
        char one[] = {*kind, '\0'}, before[512];

        struct hold *A = get_in(a, "A", one, "anna");
        redis_ok("DEL x");
        struct hold *B = get_in(b, "B", one, "bert");
        (void)snprintf(before, sizeof(before), "%s %lld", holds_of("x"),
                       redis_int("HLEN x"));
        get_out(A, LW_ENOTHELD);
        char after[512];
        (void)snprintf(after, sizeof(after), "%s %lld", holds_of("x"),
                       redis_int("HLEN x"));
        assert_string_equal(after, before);
        get_out(B, LW_OK);
    }
}

/* ---- upgrade ---- */

static void a_sole_reader_upgrades_at_once(void **state)
{
    (void)state;
    two_clients();
    struct hold *R1 = get_in(a, "R1", "r", "anna"), *R2 = get_in(b, "R2", "r", "anna");
    struct hold *W = get_in(a, "W", "w", "anna");
    HOLDS("x", "write anna*1 anna=2");
    assert_true(W->fence > R2->fence);
    assert_true(R2->fence == R1->fence);
    enter(b, "B", "r", "bert", 0);
    EXPECT("B EBUSY");
    get_out(W, LW_STILLHELD);
    HOLDS("x", "read anna=2");
    get_out(R1, LW_STILLHELD);
    get_out(R2, LW_OK);
    HOLDS("x", "");
}

static void an_upgrade_beside_other_readers_is_busy_or_waits_for_them(void **state)
{
    (void)state;
    two_clients();
    get_in(a, "A", "r", "anna");
    struct hold *B = get_in(b, "B", "r", "bert");
    enter(a, "W0", "w", "anna", 0);
    EXPECT("W0 EBUSY");
    enter(a, "W1", "w", "anna", 100);
    EXPECT("W1 ETIMEOUT");
    wait_rw_queued(0);
    HOLDS("x", "read anna=1 bert=1");
    struct hold *W = enter(a, "W", "w", "anna", -1);
    wait_rw_queued(1);
    get_in(b, "B2", "r", "bert"); /* the blocking owner never waits behind it */
    HOLDS("x", "read anna=1 bert=2");
    get_out(B, LW_STILLHELD);
    struct hold *B2 = holds;
    release_hold(B2);
    EXPECT_SET("B2 released OK; W granted");
    HOLDS("x", "write anna*1 anna=1");
    get_out(W, LW_STILLHELD);
}

static void of_two_upgrades_the_second_is_told_of_the_deadlock(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = get_in(a, "A", "r", "anna"), *B = get_in(b, "B", "r", "bert");
    struct hold *WA = enter(a, "WA", "w", "anna", -1);
    wait_rw_queued(1);
    enter(b, "WB", "w", "bert", -1);
    EXPECT("WB EDEADLOCK");
    enter(b, "WB0", "w", "bert", 0);
    EXPECT("WB0 EDEADLOCK");
    assert_int_equal(rw_queue_length(), 1);
    HOLDS("x", "read anna=1 bert=1");
    release_hold(B);
    EXPECT_SET("B released OK; WA granted");
    HOLDS("x", "write anna*1 anna=1");
    assert_true(WA->fence > A->fence);
    get_out(WA, LW_STILLHELD);
    get_out(A, LW_OK);
    HOLDS("x", "");
}

static void two_upgrades_of_one_owner_are_no_deadlock(void **state)
{
    (void)state;
    two_clients();
    get_in(a, "A", "r", "anna");
    struct hold *B = get_in(b, "B", "r", "bert");
    enter(a, "W1", "w", "anna", -1);
    wait_rw_queued(1);
    enter(b, "W2", "w", "anna", -1);
    wait_rw_queued(2);
    release_hold(B);
    EXPECT_SET("B released OK; W1 granted; W2 granted");
    HOLDS("x", "write anna*2 anna=1");
}

static void an_upgrade_goes_before_writers_that_queued_earlier(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = get_in(a, "A", "r", "anna"), *B = get_in(b, "B", "r", "bert");
    struct hold *C = enter(b, "C", "w", "carl", -1);
    wait_rw_queued(1);
    struct hold *W = enter(a, "W", "w", "anna", -1);
    wait_rw_queued(2);
    release_hold(B);
    EXPECT_SET("B released OK; W granted");
    get_out(W, LW_STILLHELD);
    release_hold(A);
    EXPECT_SET("A released OK; C granted");
    get_out(C, LW_OK);
}

/* ---- downgrade ---- */

static void the_end_of_writing_lets_waiting_readers_in_by_the_same_script(void **state)
{
    (void)state;
    two_clients();
    struct hold *W = get_in(a, "W", "w", "anna"), *R = get_in(a, "R", "r", "anna");
    struct hold *W2 = get_in(a, "W2", "w", "anna");
    enter(b, "B", "r", "bert", -1);
    wait_rw_queued(1);
    enter(b, "C", "r", "carl", -1);
    wait_rw_queued(2);
    get_out(W2, LW_STILLHELD);
    HOLDS("x", "write anna*1 anna=1");
    monitor_start();
    release_hold(W);
    EXPECT_SET("W released STILLHELD; B granted; C granted");
    was_one_script();
    HOLDS("x", "read anna=1 bert=1 carl=1");
    get_out(R, LW_OK);
    HOLDS("x", "read bert=1 carl=1");
}

static void the_end_of_writing_without_reads_hands_the_lock_on(void **state)
{
    (void)state;
    two_clients();
    struct hold *W = get_in(a, "W", "w", "anna");
    struct hold *V = enter(b, "V", "w", "bert", -1);
    wait_rw_queued(1);
    enter(a, "R", "r", "carl", -1);
    wait_rw_queued(2);
    enter(b, "S", "r", "dora", -1);
    wait_rw_queued(3);
    release_hold(W);
    EXPECT_SET("W released OK; V granted");
    HOLDS("x", "write bert*1");
    assert_true(V->fence > W->fence);
    release_hold(V);
    EXPECT_SET("V released OK; R granted; S granted");
    HOLDS("x", "read carl=1 dora=1");
}

/* ---- waiting ---- */

static void readers_queue_behind_a_waiting_writer(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = get_in(a, "A", "r", "anna");
    struct hold *W = enter(b, "W", "w", "carl", -1);
    wait_rw_queued(1);
    enter(b, "R0", "r", "bert", 0);
    EXPECT("R0 EBUSY");
    enter(b, "R", "r", "bert", -1);
    wait_rw_queued(2);
    stage_expect_nothing(100);
    HOLDS("x", "read anna=1");
    release_hold(A);
    EXPECT_SET("A released OK; W granted");
    release_hold(W);
    EXPECT_SET("W released OK; R granted");
}

static void re_entrant_requests_never_queue(void **state)
{
    (void)state;
    two_clients();
    get_in(a, "A", "r", "anna");
    enter(b, "W", "w", "carl", -1);
    wait_rw_queued(1);
    enter(b, "R", "r", "bert", -1);
    wait_rw_queued(2);
    enter(a, "A2", "r", "anna", 0);
    EXPECT("A2 granted");
    HOLDS("x", "read anna=2");
    enter(a, "A3", "w", "anna", 0); /* the sole reader's upgrade as well */
    EXPECT("A3 granted");
    enter(b, "A4", "w", "anna", 0);
    EXPECT("A4 granted");
    HOLDS("x", "write anna*2 anna=2");
    assert_int_equal(rw_queue_length(), 2);
}

/* A writer gives up in both ways, and each time one script lets the readers in. */
static void a_writer_that_gives_up_lets_the_readers_behind_it_in(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = get_in(a, "A", "r", "anna");
    enter(a, "W", "w", "carl", 300);
    wait_rw_queued(1);
    enter(b, "R1", "r", "bert", -1);
    wait_rw_queued(2);
    enter(b, "R2", "r", "dora", -1);
    wait_rw_queued(3);
    EXPECT_SET("W ETIMEOUT; R1 granted; R2 granted");
    HOLDS("x", "read anna=1 bert=1 dora=1");
    struct hold *V = enter(a, "V", "w", "carl", -1);
    wait_rw_queued(1);
    enter(b, "R3", "r", "emil", -1);
    wait_rw_queued(2);
    monitor_start();
    free_hold(V);
    EXPECT("R3 granted");
    was_one_script();
    get_out(A, LW_OK);
    HOLDS("x", "read bert=1 dora=1 emil=1");
}

static void a_wait_ends_on_time_and_leaves_nothing_in_the_queue(void **state)
{
    (void)state;
    two_clients();
    get_in(a, "A", "w", "anna");
    enter(b, "R", "r", "bert", 150);
    enter(b, "W", "w", "carl", 300);
    EXPECT("R ETIMEOUT; W ETIMEOUT");
    wait_rw_queued(0);
    HOLDS("x", "write anna*1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(readers_share_and_a_writer_is_alone),
        STAGE_TEST(busy_tells_the_remaining_lease_of_the_first_to_end),
        STAGE_TEST(the_writer_may_read_as_well),
        STAGE_TEST(re_entry_counts_level_by_level),
        STAGE_TEST(re_entry_refreshes_the_lease_and_never_shortens_it),
        STAGE_TEST(the_last_read_of_a_reader_takes_its_field_and_the_last_of_all_the_key),
        STAGE_TEST(the_last_read_in_write_mode_takes_only_its_field),
        STAGE_TEST(a_release_of_what_is_not_held_changes_nothing),
        STAGE_TEST(a_sole_reader_upgrades_at_once),
        STAGE_TEST(an_upgrade_beside_other_readers_is_busy_or_waits_for_them),
        STAGE_TEST(of_two_upgrades_the_second_is_told_of_the_deadlock),
        STAGE_TEST(two_upgrades_of_one_owner_are_no_deadlock),
        STAGE_TEST(an_upgrade_goes_before_writers_that_queued_earlier),
        STAGE_TEST(the_end_of_writing_lets_waiting_readers_in_by_the_same_script),
        STAGE_TEST(the_end_of_writing_without_reads_hands_the_lock_on),
        STAGE_TEST(readers_queue_behind_a_waiting_writer),
        STAGE_TEST(re_entrant_requests_never_queue),
        STAGE_TEST(a_writer_that_gives_up_lets_the_readers_behind_it_in),
        STAGE_TEST(a_wait_ends_on_time_and_leaves_nothing_in_the_queue),
    };

    return STAGE_RUN(tests);
}

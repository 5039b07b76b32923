/* SPDX-License-Identifier: MIT */
/* The read-write lock between processes: exclusion, upgrade, deadlock, downgrade, a
 * crashed reader, and that neither kind of request starves the other. Independent of how
 * the scripts work.
 *
 * Two processes, each with a client of its own, are controlled by lines of text. */
#include "modes/scene.h"
#include "process.h"

#include <signal.h>
#include <stdio.h>

static struct process *p, *q;

static void two_processes(void)
{
    p = process_start("P", NULL);
    q = process_start("Q", NULL);
}

static void readers_share_and_a_writer_is_alone(void **state)
{
    (void)state;
    two_processes();
    process_tell(p, "acquire A x 0 30000 r anna");
    EXPECT("P: A granted");
    process_tell(q, "acquire B x 0 30000 r bert");
    EXPECT("Q: B granted");
    HOLDS("x", "read anna=1 bert=1");
    process_tell(q, "acquire W x 0 30000 w carl");
    EXPECT("Q: W EBUSY");
    process_tell(q, "acquire V x -1 30000 w carl");
    wait_rw_queued(1);
    process_tell(p, "release A");
    EXPECT("P: A released OK");
    process_tell(q, "release B");
    EXPECT_SET("Q: B released OK; Q: V granted");
    HOLDS("x", "write carl*1");
    process_tell(p, "acquire A x 0 30000 r anna");
    EXPECT("P: A EBUSY");
    process_tell(q, "release V");
    EXPECT("Q: V released OK");
    HOLDS("x", "");
}

static void upgrade_deadlock_and_downgrade(void **state)
{
    (void)state;
    two_processes();
    process_tell(p, "acquire A x 0 30000 r anna");
    EXPECT("P: A granted");
    process_tell(q, "acquire B x 0 30000 r bert");
    EXPECT("Q: B granted");
    process_tell(p, "acquire WA x -1 30000 w anna");
    wait_rw_queued(1);
    process_tell(q, "acquire WB x -1 30000 w bert");
    EXPECT("Q: WB EDEADLOCK");
    HOLDS("x", "read anna=1 bert=1");
    process_tell(q, "release B");
    EXPECT_SET("Q: B released OK; P: WA granted");
    HOLDS("x", "write anna*1 anna=1");
    process_tell(q, "acquire R x -1 30000 r bert");
    wait_rw_queued(1);
    process_tell(p, "release WA");
    EXPECT_SET("P: WA released STILLHELD; Q: R granted");
    HOLDS("x", "read anna=1 bert=1");
    process_tell(p, "release A");
    EXPECT("P: A released OK");
    HOLDS("x", "read bert=1");
    process_tell(q, "release R");
    EXPECT("Q: R released OK");
}

/* The living reader releases: in the end the writer waits only for the crashed one's
 * lease. */
static void a_crashed_reader_goes_when_its_own_lease_ends(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    two_processes();
    process_tell(p, "acquire A x 0 20000 r anna");
    EXPECT("P: A granted");
    process_tell(q, "acquire B x 0 1500 r bert");
    EXPECT("Q: B granted");
    struct hold *W = enter(a, "W", "w", "carl", -1);
    wait_rw_queued(1);
    process_kill(q);
    HOLDS("x", "read anna=1 bert=1");
    int64_t died = now_ms();
    process_tell(p, "release A");
    EXPECT("P: A released OK");
    EXPECT("W granted");
    stage_skip_if_lag(300);
    assert_int_in_range(now_ms() - died, 100, 2500);
    HOLDS("x", "write carl*1");
    assert_true(W->fence > q->fence);
}

static void a_crashed_reader_is_dropped_while_another_reads_and_renews(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    two_processes();
    process_tell(p, "acquire A x 0 900 r anna");
    EXPECT("P: A granted");
    process_tell(q, "acquire B x 0 1500 r bert");
    EXPECT("Q: B granted");
    process_kill(q);
    enter(a, "W", "w", "anna", -1); /* anna's upgrade waits only for bert */
    EXPECT("W granted");
    HOLDS("x", "write anna*1 anna=1");
    process_tell(p, "release A");
    EXPECT("P: A released STILLHELD");
}

static void a_crashed_writer_hands_on_at_its_lease_s_end(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    two_processes();
    process_tell(p, "acquire A x 0 1500 w anna");
    EXPECT("P: A granted");
    process_tell(q, "acquire B x -1 30000 r bert");
    wait_rw_queued(1);
    enter(a, "R", "r", "carl", -1);
    wait_rw_queued(2);
    process_kill(p);
    EXPECT_SET("Q: B granted; R granted");
    HOLDS("x", "read bert=1 carl=1");
    process_tell(q, "release B");
    EXPECT("Q: B released OK");
}

static void a_stopped_process_does_not_believe_in_what_ended_meanwhile(void **state)
{
    struct peer *a = peer_ready("a", NULL);

    (void)state;
    two_processes();
    process_tell(p, "acquire A x 0 1000 w anna");
    EXPECT("P: A granted");
    process_signal(p, SIGSTOP);
    struct hold *W = enter(a, "W", "w", "bert", -1);
    EXPECT("W granted");
    process_signal(p, SIGCONT);
    EXPECT("P: A lost ELOST");
    HOLDS("x", "write bert*1");
    assert_true(W->fence > p->fence);
}

/* ---- waiting writers that no longer poll ---- */

static long long channels(void)
{
    return redis_int("EVAL %s 0", "return #redis.call('PUBSUB', 'CHANNELS')");
}

static void a_dead_waiting_writer_keeps_out_no_reader_that_tries_once(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    long long living = channels();

    (void)state;
    p = process_start("P", NULL);
    get_in(a, "A", "r", "anna");
    process_tell(p, "acquire W x -1 30000 w carl");
    wait_rw_queued(1);
    process_kill(p);
    UNTIL(channels() == living); /* the server has noticed */
    enter(b, "B", "r", "bert", 0);
    EXPECT("B granted");
    HOLDS("x", "read anna=1 bert=1");
    assert_int_equal(rw_queue_length(), 0);
}

/* The writer is past the time by which it should have polled again: its note is written
 * into the past. */
static void a_stopped_waiting_writer_is_passed_over_and_has_its_place_when_it_goes_on(
    void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    (void)state;
    p = process_start("P", NULL);
    struct hold *A = get_in(a, "A", "r", "anna");
    process_tell(p, "acquire W x -1 30000 w carl");
    wait_rw_queued(1);
    process_signal(p, SIGSTOP);
    enter(b, "B", "r", "bert", 0);
    EXPECT("B EBUSY");
    assert_int_equal(redis_int("EVAL %s 1 x",
                               "local notes = 0 "
                               "for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do "
                               "  if field:sub(1, 2) == 'a:' then "
                               "    redis.call('HSET', KEYS[1], field, 1) "
                               "    notes = notes + 1 "
                               "  end "
                               "end "
                               "return notes"),
                     1);
    struct hold *C = get_in(b, "C", "r", "bert");
    enter(b, "V", "w", "dora", -1); /* V came later than W */
    wait_rw_queued(1);
    process_signal(p, SIGCONT);
    wait_rw_queued(2);
    get_out(A, LW_OK);
    release_hold(C);
    EXPECT_SET("C released OK; P: W granted");
    HOLDS("x", "write carl*1");
    process_tell(p, "release W");
    EXPECT_SET("P: W released OK; V granted");
}

/* ---- starvation ---- */

static int rounds;

/* Each handle of the stream requests again as soon as it has released. Without a rule
 * against that, the lock would never be free of the stream's kind. */
static void come_again(struct hold *hold, enum moment moment)
{
    const char *kind = hold->aim;

    if (moment == AT_RESULT && hold->result == LW_OK) {
        rounds++;
        release_hold(hold);
    } else if (moment == AT_RELEASED) {
        struct hold *next = enter(hold->peer, hold->label, kind, NULL, -1);

        next->then = come_again;
        next->aim = hold->aim;
        free_hold(hold);
    }
}

static void stream(struct peer *peer, const char *kind, int count)
{
    char label[16];

    for (int i = 0; i < count; i++) {
        (void)snprintf(label, sizeof(label), "s%d", i);
        struct hold *hold = enter(peer, label, kind, NULL, -1);
        hold->then = come_again;
        hold->aim = (void *)(uintptr_t)kind;
    }
}

static void end_stream(void)
{
    for (struct hold *hold = holds; hold != NULL; hold = hold->next) {
        hold->then = NULL;
    }
    stage_clear_trace();
}

static void against_a_stream(const char *kind, const char *other)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);

    rounds = 0;
    stream(a, kind, 4);
    UNTIL(rounds > 100);
    for (int i = 0; i < 10; i++) {
        struct hold *W = enter(b, "W", other, "guest", STAGE_WAIT_MS);
        UNTIL(W->result != PENDING);
        assert_int_equal(W->result, LW_OK);
        release_hold(W);
        UNTIL(W->released != PENDING);
        assert_int_equal(W->released, LW_OK);
    }
    int before = rounds;
    UNTIL(rounds > before + 20); /* the stream goes on */
    end_stream();
}

static void writers_are_not_starved_by_a_stream_of_readers(void **state)
{
    (void)state;
    against_a_stream("r", "w");
}

static void readers_are_not_starved_by_a_stream_of_writers(void **state)
{
    (void)state;
    against_a_stream("w", "r");
}

/* Readers that would overlap for certain: one leaves only after the next has
 * requested. */
static void a_writer_gets_in_though_readers_overlap_all_the_time(void **state)
{
    struct peer *a = peer_ready("a", NULL), *b = peer_ready("b", NULL);
    char label[16];

    (void)state;
    struct hold *before = get_in(a, "0", "r", NULL);
    struct hold *W = enter(b, "W", "w", NULL, -1);
    wait_rw_queued(1);
    struct hold *next = enter(a, "1", "r", NULL, 1000);
    UNTIL(next->result != PENDING);
    assert_int_equal(next->result, LW_ETIMEOUT); /* it may not pass the writer */
    stage_clear_trace();
    release_hold(before);
    EXPECT_SET("0 released OK; W granted");
    for (int i = 2; i < 5; i++) {
        (void)snprintf(label, sizeof(label), "%d", i);
        enter(a, label, "r", NULL, -1);
        wait_rw_queued(i - 1);
    }
    release_hold(W);
    EXPECT_SET("W released OK; 2 granted; 3 granted; 4 granted");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(readers_share_and_a_writer_is_alone),
        STAGE_TEST(upgrade_deadlock_and_downgrade),
        STAGE_TEST(a_crashed_reader_goes_when_its_own_lease_ends),
        STAGE_TEST(a_crashed_reader_is_dropped_while_another_reads_and_renews),
        STAGE_TEST(a_crashed_writer_hands_on_at_its_lease_s_end),
        STAGE_TEST(a_stopped_process_does_not_believe_in_what_ended_meanwhile),
        STAGE_TEST(a_dead_waiting_writer_keeps_out_no_reader_that_tries_once),
        STAGE_TEST(
            a_stopped_waiting_writer_is_passed_over_and_has_its_place_when_it_goes_on),
        STAGE_TEST(writers_are_not_starved_by_a_stream_of_readers),
        STAGE_TEST(readers_are_not_starved_by_a_stream_of_writers),
        STAGE_TEST(a_writer_gets_in_though_readers_overlap_all_the_time),
    };

    return STAGE_RUN(tests);
}

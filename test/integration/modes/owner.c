/* SPDX-License-Identifier: MIT */
/* Owners: the plain re-entrant lock, one owner with several handles, clients and
 * processes, an owner that comes back after its process died, handles without an owner,
 * invalid owners. Independent of how holds are stored, except for the hash that
 * modes/scene.c reads.
 *
 * Usual course: a request with the holder's owner string enters. A release completes with
 * LW_STILLHELD while the owner has further holds, the last one with LW_OK, and one of a
 * lost hold with LW_ENOTHELD. */
#include "modes/scene.h"
#include "process.h"

#include <stdio.h>
#include <string.h>

static void the_three_ends_of_a_release_are_distinct(void **state)
{
    (void)state;
    two_clients();
    struct hold *first = get_in(a, "1", "w", "anna"),
                *second = get_in(a, "2", "w", "anna");
    struct hold *taken = get_in(b, "3", "w", "anna");

    redis_ok("EVAL %s 1 x %s",
             "redis.call('HDEL', KEYS[1], 'h:' .. ARGV[1]) "
             "local state = redis.call('HGET', KEYS[1], 'mode') "
             "state = state:gsub('^2 3 0 3 ', '2 2 0 2 ') "
             "redis.call('HSET', KEYS[1], 'mode', state) return 1",
             redis_text("EVAL %s 1 x",
                        "local f, n = redis.call('HKEYS', KEYS[1]), 0 "
                        "local last = '' "
                        "for _, k in ipairs(f) do "
                        "  if k:match('^h:') and k > last then last = k end end "
                        "return last:sub(3)"));
    HOLDS("x", "write anna*2");
    struct hold *all[] = {first, second, taken};
    int counts[3] = {0}; /* any of the three may have lost its hold */
    for (int i = 0; i < 3; i++) {
        release_hold(all[i]);
        UNTIL(all[i]->released != PENDING);
        counts[0] += all[i]->released == LW_STILLHELD;
        counts[1] += all[i]->released == LW_OK;
        counts[2] += all[i]->released == LW_ENOTHELD;
    }
    stage_clear_trace();
    assert_int_equal(counts[0], 1);
    assert_int_equal(counts[1], 1);
    assert_int_equal(counts[2], 1);
    HOLDS("x", "");
}

static void another_owner_is_busy_and_the_same_one_is_not(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = get_in(a, "A", "w", "anna");
    enter(b, "B", "w", "bert", 0);
    EXPECT("B EBUSY");
    struct hold *A2 = enter(b, "A2", "w", "anna", 0);
    EXPECT("A2 granted");
    assert_string_equal(lw_lock_owner(A2->lock), "anna");
    get_out(A, LW_STILLHELD);
    enter(a, "B2", "w", "bert", 0);
    EXPECT("B2 EBUSY");
    get_out(A2, LW_OK);
}

static void owners_are_compared_byte_by_byte(void **state)
{
    static const char *const others[] = {"ann", "annaa", "Anna", "anna:", "a", "writer"};

    (void)state;
    two_clients();
    get_in(a, "A", "w", "anna");
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        enter(b, "B", "w", others[i], 0);
        EXPECT("B EBUSY");
    }
    HOLDS("x", "write anna*1");
}

/* Owners that a hash, a Lua pattern or a printf format might misread. */
static void an_owner_may_have_any_printable_byte(void **state)
{
    char longest[129];
    const char *const odd[] = {"%d%s", "a:b", "r:x", "[%w]*", "h:1", "\\\"'{}", longest};

    (void)state;
    two_clients();
    memset(longest, 'z', 128);
    longest[128] = '\0';
    for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
        struct hold *W = get_in(a, "W", "w", odd[i]), *R = get_in(b, "R", "r", odd[i]);
        struct hold *B = enter(b, "B", "r", "other", -1);
        wait_rw_queued(1);
        get_out(R, LW_STILLHELD);
        release_hold(W);
        EXPECT_SET("W released OK; B granted");
        get_out(B, LW_OK);
        HOLDS("x", "");
    }
}

static void bad_owners_are_refused_with_what_and_where(void **state)
{
    char longer[130];

    (void)state;
    two_clients();
    memset(longer, 'z', 129);
    longer[129] = '\0';
    for (int mode = LW_EXCLUSIVE; mode <= LW_SHARED; mode++) {
        enum lw_mode m = (enum lw_mode)mode;

        acquire_refused(a, "x", asking(.mode = m, .owner = ""), LW_EINVAL, "owner");
        acquire_refused(a, "x", asking(.mode = m, .owner = "a b"), LW_EINVAL, "owner");
        acquire_refused(a, "x", asking(.mode = m, .owner = "a\nb"), LW_EINVAL, "owner");
        acquire_refused(a, "x", asking(.mode = m, .owner = "a\x7f"), LW_EINVAL, "owner");
        acquire_refused(a, "x", asking(.mode = m, .owner = "\xc3\xa4"), LW_EINVAL,
                        "owner");
        acquire_refused(a, "x", asking(.mode = m, .owner = longer), LW_EINVAL, "owner");
    }
    acquire_refused(a, "x", asking(.owner = "anna"), LW_EINVAL, "owner");
    acquire_refused(a, "x", asking(.permits = 1), LW_EINVAL, "permits");
    acquire_refused(a, "x", asking(.mode = LW_EXCLUSIVE, .permits = 1), LW_EINVAL,
                    "permits");
    acquire_refused(a, "x", asking(.mode = (enum lw_mode)4), LW_EINVAL, "mode");
    stage_expect_nothing(50);
    assert_int_equal(redis_int("EXISTS x"), 0);
}

/* ---- without an owner each handle holds alone ---- */

static void handles_without_an_owner_exclude_each_other(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = get_in(a, "A", "w", NULL);
    assert_string_equal(lw_lock_owner(A->lock), redis_writer("x"));
    enter(a, "B", "w", NULL, 0);
    EXPECT("B EBUSY");
    struct hold *C = enter(a, "C", "w", NULL, -1);
    wait_rw_queued(1);
    release_hold(A);
    EXPECT_SET("A released OK; C granted");
    get_out(C, LW_OK);
    HOLDS("x", "");
}

static void readers_without_an_owner_are_each_one(void **state)
{
    (void)state;
    two_clients();
    struct hold *A = get_in(a, "A", "r", NULL), *B = get_in(a, "B", "r", NULL);
    assert_string_equal(redis_counts("x"), "2 2 0");
    assert_true(A->fence < B->fence);
    enter(a, "C", "r2", NULL, 0);
    EXPECT("C EBUSY");
    get_out(A, LW_OK);
    get_out(B, LW_OK);
}

/* ---- one owner, several handles ---- */

/* Scenario 8 of the protocol: the server forgets the first hold, and the owner acquires
 * again. The old handle's renewal and release concern only its own hold, which no longer
 * exists. */
static void an_old_handle_s_renewal_leaves_the_owner_s_new_hold_alone(void **state)
{
    (void)state;
    two_clients();
    struct hold *old = get_in(a, "old", "w", "anna");
    redis_ok("DEL x");
    struct hold *fresh = get_in(b, "new", "w", "anna");
    assert_true(fresh->fence > old->fence);
    renew_hold(old, 60000);
    EXPECT("old lost ENOTHELD; old renewed ELOST");
    HOLDS("x", "write anna*1");
    assert_true(redis_int("PTTL x") <= 30000);
    get_out(fresh, LW_OK);
    HOLDS("x", "");
}

static void an_old_handle_s_release_leaves_the_owner_s_new_hold_alone(void **state)
{
    (void)state;
    two_clients();
    struct hold *old = get_in(a, "old", "w", "anna");
    redis_ok("DEL x");
    struct hold *fresh = get_in(b, "new", "w", "anna");
    get_out(old, LW_ENOTHELD);
    HOLDS("x", "write anna*1");
    renew_hold(fresh, 60000);
    EXPECT("new renewed OK");
    get_out(fresh, LW_OK);
}

static void the_same_with_a_read_hold_and_the_owner_still_in_otherwise(void **state)
{
    (void)state;
    two_clients();
    struct hold *old =
        enter_with(a, "old", "r", "anna", asking(.lease_ms = 400, .flags = LW_NO_RENEW));
    EXPECT("old granted");
    struct hold *other = get_in(b, "other", "r", "anna");
    EXPECT("old lost ELOST"); /* its lease has expired; the owner's other hold stays */
    UNTIL(strncmp(redis_text("HGET x r:anna"), "1 ", 2) == 0);
    HOLDS("x", "read anna=1");
    release_refused(old, LW_ENOTHELD);
    renew_refused(old, 1000, LW_ENOTHELD);
    HOLDS("x", "read anna=1");
    get_out(other, LW_OK);
}

/* ---- across processes ---- */

static void one_owner_in_two_processes(void **state)
{
    struct process *p = process_start("P", NULL), *q = process_start("Q", NULL);

    (void)state;
    process_tell(p, "acquire A x 0 30000 w daemon");
    EXPECT("P: A granted");
    process_tell(q, "acquire B x 0 30000 w daemon");
    EXPECT("Q: B granted");
    assert_true(p->fence == q->fence);
    HOLDS("x", "write daemon*2");
    process_tell(q, "acquire C x 0 30000 w another");
    EXPECT("Q: C EBUSY");
    process_tell(p, "release A");
    EXPECT("P: A released STILLHELD");
    HOLDS("x", "write daemon*1");
    process_tell(q, "release B");
    EXPECT("Q: B released OK");
    HOLDS("x", "");
}

static void a_daemon_that_restarts_gets_back_in_with_its_old_owner(void **state)
{
    struct process *p = process_start("P", NULL);

    (void)state;
    two_clients();
    process_tell(p, "acquire A x -1 5000 w daemon");
    EXPECT("P: A granted");
    process_kill(p);
    enter(a, "B", "w", "bert", 0);
    EXPECT("B EBUSY");
    struct hold *waits = enter(a, "W", "w", "bert", -1);
    wait_rw_queued(1);
    struct process *q = process_start("Q", NULL);
    process_tell(q, "acquire A x 0 30000 w daemon");
    EXPECT("Q: A granted");
    assert_true(q->fence == p->fence); /* as a re-entrant grant: the owner never left */
    process_tell(q, "release A");      /* while the dead process's hold lives on */
    EXPECT("Q: A released STILLHELD");
    EXPECT("W granted"); /* at the end of the dead process's lease */
    assert_true(waits->fence > q->fence);
    HOLDS("x", "write bert*1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(the_three_ends_of_a_release_are_distinct),
        STAGE_TEST(another_owner_is_busy_and_the_same_one_is_not),
        STAGE_TEST(owners_are_compared_byte_by_byte),
        STAGE_TEST(an_owner_may_have_any_printable_byte),
        STAGE_TEST(bad_owners_are_refused_with_what_and_where),
        STAGE_TEST(handles_without_an_owner_exclude_each_other),
        STAGE_TEST(readers_without_an_owner_are_each_one),
        STAGE_TEST(an_old_handle_s_renewal_leaves_the_owner_s_new_hold_alone),
        STAGE_TEST(an_old_handle_s_release_leaves_the_owner_s_new_hold_alone),
        STAGE_TEST(the_same_with_a_read_hold_and_the_owner_still_in_otherwise),
        STAGE_TEST(one_owner_in_two_processes),
        STAGE_TEST(a_daemon_that_restarts_gets_back_in_with_its_old_owner),
    };

    return STAGE_RUN(tests);
}

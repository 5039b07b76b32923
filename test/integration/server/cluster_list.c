/* SPDX-License-Identifier: MIT */
/*
 * lw_list on a real cluster. The client asks all masters, though it was connected to none
 * of them, also while slots move or have just moved, and if a master is down.
 *
 * Usual course: a client holds locks at all masters, and list_all(other, NULL) lists
 * them.
 */
#include "cluster.h"
#include "cluster_players.h"
#include "inspect/list_scene.h"

#include <stdio.h>
#include <string.h>

#define LOCKS 12

/* Acquires locks at all nodes. Returns them as "n0:m n1:w ...", in the order of their
 * names. */
static const char *hold_all_over(struct peer *peer)
{
    static char wanted[1024];

    for (int i = 0; i < LOCKS; i++) {
        const char *name = name_at(i % 3, i / 3);

        hold_of(peer, "A", name, &kinds[i % 2 == 0 ? 0 : 1], 60000);
    }
    list_all(peer, NULL);
    (void)snprintf(wanted, sizeof(wanted), "%s", listed());
    return wanted;
}

static void three_masters(void)
{
    stage.keys_may_stay = stage.notes_may_stay = true;
    list.then = NULL;
    list.stops_at = 0;
    cluster_set(3, 0, "");
}

static void all_masters_are_asked(void **state)
{
    struct peer *one, *other;
    const char *wanted;

    (void)state;
    three_masters();
    one = client("a");
    wanted = hold_all_over(one);
    assert_int_equal(list.count, LOCKS);
    other = client("b");
    list_all(other, NULL);
    LISTED(wanted);
    assert_int_equal(list.steps, 3);
    assert_int_equal(list.keys, list.seen);
    list_all(other, name_at(1, 0));
    assert_int_equal(list.count, 1);
}

static void a_slot_on_its_way_hides_nothing(void **state)
{
    struct peer *one, *other;
    const char *wanted, *name;
    int slot;

    (void)state;
    three_masters();
    one = client("a");
    wanted = hold_all_over(one);
    other = client("b");
    name = name_at(0, 0);
    slot = cluster_slot(name);
    cluster_begin(slot, 1);
    list_all(other, NULL);
    LISTED(wanted);
    cluster_carry(slot, 1, -1);
    /* The keys are at the new node, which does not own the slot yet. */
    list_all(other, NULL);
    LISTED(wanted);
    cluster_end(slot, 1);
    list_all(other, NULL);
    LISTED(wanted);
}

static int moving; /* the slot that moves; its destination is node 0 */

static void move_it(struct peer *peer)
{
    (void)peer;
    list.then = NULL;
    cluster_move(moving, 0);
}

/* Node 0 has been scanned by then, or is being scanned. */
static void a_slot_that_moves_meanwhile_is_found_where_it_came(void **state)
{
    struct peer *one, *other;
    const char *wanted;

    (void)state;
    three_masters();
    one = client("a");
    wanted = hold_all_over(one);
    for (int from = 1; from <= 2; from++) {
        other = client("b");
        moving = cluster_slot(name_at(from, 0));
        list.then = move_it;
        list_all(other, NULL);
        LISTED(wanted);
        peer_free(other);
    }
}

static void a_master_that_is_away_ends_it(void **state)
{
    struct peer *one;

    (void)state;
    three_masters();
    one = client("a");
    hold_all_over(one);
    server_kill(cluster_server(2));
    call_list(one, NULL);
    UNTIL(list.status != PENDING);
    assert_int_equal(list.status, LW_ECONN);
    assert_true(list.why[0] != '\0');
    stage_clear_trace();
}

/* Kills the nodes when all have been scanned, and only the slot map is outstanding. */
static void end_all_at_last(struct peer *peer)
{
    (void)peer;
    for (int node = 0; list.steps == 3 && node < 3; node++) {
        server_kill(cluster_server(node));
    }
}

static void without_a_map_in_the_end_it_is_not_complete(void **state)
{
    struct peer *one;

    (void)state;
    three_masters();
    one = client("a");
    hold_all_over(one);
    list.then = end_all_at_last;
    call_list(one, NULL);
    UNTIL(list.status != PENDING);
    list.then = NULL;
    assert_int_equal(list.steps, 3);
    assert_int_equal(list.status, LW_ECONN);
    assert_true(list.why[0] != '\0');
    stage_clear_trace();
}

/* Existing connections go on, but no node sends the slot map any more. */
static void a_map_that_nobody_tells_any_more_ends_it(void **state)
{
    struct peer *one;

    (void)state;
    three_masters();
    one = client("a");
    hold_all_over(one);
    for (int node = 0; node < 3; node++) {
        freeReplyObject(
            server_try(cluster_server(node), "CONFIG SET requirepass another"));
    }
    call_list(one, NULL);
    UNTIL(list.status != PENDING);
    assert_int_equal(list.steps, 3);
    assert_int_equal(list.status, LW_ECONN);
    assert_non_null(strstr(list.why, "NOAUTH"));
    for (int node = 0; node < 3; node++) {
        freeReplyObject(
            server_try(cluster_server(node), "CONFIG SET requirepass %s", ""));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(all_masters_are_asked),
        STAGE_TEST(a_slot_on_its_way_hides_nothing),
        STAGE_TEST(a_slot_that_moves_meanwhile_is_found_where_it_came),
        STAGE_TEST(a_master_that_is_away_ends_it),
        STAGE_TEST(without_a_map_in_the_end_it_is_not_complete),
        STAGE_TEST(a_map_that_nobody_tells_any_more_ends_it),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/*
 * Claims without a client: the test is their owner. It answers `terms`, notes each event
 * as a word, and has a route to the fake nodes of a cluster. The name x is in a slot of
 * N3, which is connected.
 *
 * Usual course: request(); await_event("granted"); lw__claim_event(claim,
 * LW__EV_RELEASE).
 */
#include "cluster_scene.h"

#include "hold/hold.h"
#include "redis/node.h"
#include "redis/route.h"

#include <stdio.h>
#include <string.h>

#define NUMBER ":1700000000000001"
#define FENCE 1700000000000001u
#define NOT_QUEUED "$44\r\n60000 -1 1700000000000000 1700000000000000 0"
#define QUEUED "$24\r\n60000 0 1700000000000000"
#define LEASE_MS 3000

static struct lw__holds holds;
static struct lw__terms wanted;
static char events[1024]; /* since await_event read them, each followed by "; " */
static struct lw__claim *claim;

/* ---- the owner ---- */

static void note_event(const char *text)
{
    size_t length = strlen(events);

    (void)snprintf(events + length, sizeof(events) - length, "%s; ", text);
}

static void give_terms(const struct lw__claim *asker, struct lw__terms *ret)
{
    (void)asker;
    *ret = wanted;
}

static int64_t margin(const struct lw__claim *asker)
{
    (void)asker;
    return wanted.margin_us;
}

static void granted(struct lw__claim *held)
{
    note_event(held->machine.phase == LW__HELD_BY_MESSAGE ? "granted by a message"
                                                          : "granted");
    lw__renewal_plan(held);
}

static void busy(struct lw__claim *asker)
{
    (void)asker;
    note_event("busy");
}

static void failed(struct lw__claim *asker, int status)
{
    (void)asker;
    (void)status;
    note_event("failed");
}

static void errored(struct lw__claim *asker, int status, const char *text)
{
    (void)asker;
    (void)status;
    note_event(text);
}

static void unknown(struct lw__claim *asker, int status, const char *text)
{
    errored(asker, status, text);
}

static void not_released(struct lw__claim *asker)
{
    (void)asker;
    note_event("not released");
}

static void released(struct lw__claim *asker, int status)
{
    (void)asker;
    note_event(status == LW_OK ? "released" : lw_strerror(status));
}

static void lost(struct lw__claim *asker)
{
    lw__renewal_forget(asker);
    note_event("lost");
}

static void renewed(struct lw__claim *held, bool sure)
{
    note_event(sure ? "renewed" : "not renewed");
    lw__renewal_plan(held);
}

static void asked(struct lw__claim *held)
{
    assert_ptr_equal(held, claim);
    note_event("asked");
}

static void ended(struct lw__claim *asker)
{
    note_event("ended");
    lw__renewal_forget(asker);
    lw__claim_free(asker);
    claim = asker == claim ? NULL : claim;
}

static const struct lw__claim_events owner = {
    .terms = give_terms,
    .grant_margin_us = margin,
    .granted = granted,
    .busy = busy,
    .failed = failed,
    .on_error = errored,
    .not_released = not_released,
    .outcome_unknown = unknown,
    .released = released,
    .lost = lost,
    .renewed = renewed,
    .asked = asked,
    .ended = ended,
};

/* ---- the scene ---- */

static int begin(void **state)
{
    struct scene *scene;

    assert_int_equal(scene_set_up(state), 0);
    scene = *state;
    scene->options.node.message = lw__claim_message;
    scene->options.node.message_arg = &holds;
    start_linked(scene, "N1");
    leads(scene, "x", "N3");
    holds = (struct lw__holds){.loop = scene->nodes.loop,
                               .log = &scene->nodes.log,
                               .stats = &scene->stats,
                               .route = scene->route,
                               .events = &owner,
                               .modes = lw__mode_table,
                               .request_timeout_ms = 60000,
                               .claim_size = sizeof(struct lw__claim),
                               .uuid = UUID,
                               .prefix = ""};
    wanted = (struct lw__terms){.lease_us = (int64_t)LEASE_MS * LW__MS,
                                .hold_until_us = LW__NEVER,
                                .renews = true,
                                .fence = true,
                                .place = true};
    events[0] = '\0';
    assert_int_equal(lw__timer_reserve(holds.loop, 1), 0);
    lw__renewal_init(&holds);
    skip_idle_time(true);
    return 0;
}

static int end(void **state)
{
    skip_idle_time(false);
    if (claim != NULL) {
        lw__renewal_forget(claim);
        lw__claim_free(claim);
        claim = NULL;
    }
    assert_int_equal(holds.open_claims, 0);
    lw__claim_close(&holds);
    lw__claim_clear(&holds);
    lw__timer_cancel(holds.loop, &holds.renewals.timer);
    lw__renewal_clear(&holds);
    lw__name_clear(&holds);
    return scene_tear_down(state);
}

/* Runs the loop until the events since the last call end with this one. Fails if one of
 * them differs from those that are listed. */
static void await_events(struct scene *scene, const char *expected)
{
    UNTIL(scene, strlen(events) >= strlen(expected));
    assert_string_equal(events, expected);
    events[0] = '\0';
}

/* Requests a mutex. Only the claim has the name. */
static void request(const char *text)
{
    struct lw__name *name = lw__name_get(&holds, text);
    struct lw__claim_args args = {.name = name,
                                  .mode = &lw__mode_table[LW_MUTEX],
                                  .lease_ms = LEASE_MS,
                                  .window_ms = 1000};

    assert_non_null(name);
    claim = lw__claim_new(&holds, &args);
    assert_non_null(claim);
    lw__name_unref(&holds, name);
    lw__claim_start(claim, 0, 0);
}

static void hold(struct scene *scene)
{
    request("x");
    await_events(scene, "granted; ");
    assert_int_equal(claim->machine.phase, LW__HELD);
}

/* The claim waits in the queue, and its node sends it messages. */
static void queue(struct scene *scene)
{
    says(&scene->n[2], "SET x", "$-1");
    says(&scene->n[2], "EVALSHA x", NOT_QUEUED);
    request("x");
    await_events(scene, "busy; ");
    UNTIL(scene, lw__node_is_bound(claim->name->node, SLOT_X));
    says(&scene->n[2], "EVALSHA x", QUEUED);
    lw__claim_event(claim, LW__EV_RETRY_NOW);
    await_events(scene, "busy; ");
    assert_int_equal(claim->asking.place, 1);
}

/* Sends the message that the lock was handed over to claim number `n`, five microseconds
 * after the clock of QUEUED. */
static void hand_over(struct scene *scene, uint64_t n, const char *name)
{
    struct lw__token token = {holds.uuid, n, 1000};
    char words[LW__TOKEN_SIZE], text[256];
    int length = (int)lw__format_token(&token, words);

    (void)snprintf(text, sizeof(text), "t %.*s 1700000000000017 %s 1700000000 5 %s",
                   length, words, lw__node_server(at(scene, "x")), name);
    publish(&scene->n[2], SLOT_X, text);
}

/* ---- the tests ---- */

static void test_a_claim_is_granted_and_released(void **state)
{
    struct scene *scene = *state;

    hold(scene);
    assert_int_equal(claim->machine.fence, FENCE);
    says(&scene->n[2], "EVALSHA x", ":1");
    lw__renewal_forget(claim);
    lw__claim_event(claim, LW__EV_RELEASE);
    await_events(scene, "released; ended; ");
    assert_int_equal(holds.open_claims, 0);
    assert_null(lw__name_find(&holds, "x"));
}

static void test_a_claim_without_a_fencing_token_sends_one_command(void **state)
{
    struct scene *scene = *state;

    wanted.fence = false;
    scene->tells_seeds = true;
    pass(scene);
    hold(scene);
    assert_int_equal(claim->machine.fence, 0);
    assert_false(came(scene, "SEED"));
    assert_false(came(scene, "INCR"));
}

static void test_a_held_claim_is_renewed_before_its_deadline(void **state)
{
    struct scene *scene = *state;
    int64_t deadline;

    hold(scene);
    deadline = claim->machine.deadline_us;
    says(&scene->n[2], "EVALSHA x", "*1\r\n:1");
    await_events(scene, "renewed; ");
    assert_true(lw__now_us() < deadline - LEASE_MS * LW__MS / 2);
    assert_true(claim->machine.deadline_us > deadline);
    assert_int_equal(scene->stats.renewed, 1);
}

static void test_terms_without_renewal_end_renewals(void **state)
{
    struct scene *scene = *state;

    hold(scene);
    wanted.renews = false;
    lw__renewal_plan(claim);
    pass(scene);
    nothing_for(scene, 2 * LEASE_MS);
    assert_string_equal(events, "");
}

static void test_a_claim_that_the_server_does_not_know_is_lost(void **state)
{
    struct scene *scene = *state;

    hold(scene);
    says(&scene->n[2], "EVALSHA x", "*1\r\n:0");
    await_events(scene, "lost; ended; ");
    assert_null(claim);
}

static void test_a_claim_that_its_owner_gives_up_is_released_at_its_deadline(void **state)
{
    struct scene *scene = *state;
    struct lw__input input = {.event = LW__EV_LOST_LOCALLY};

    hold(scene);
    lw__renewal_forget(claim);
    input.lost_locally.at_us = claim->machine.deadline_us;
    lw__claim_step(claim, &input);
    assert_int_equal(claim->machine.phase, LW__EXPIRED);
    says(&scene->n[2], "EVALSHA x", ":1");
    pass(scene);
    await_events(scene, "released; ended; ");
    assert_true(came(scene, "N3 < EVALSHA x; "));
}

static void test_a_hand_over_message_grants(void **state)
{
    struct scene *scene = *state;

    queue(scene);
    hand_over(scene, claim->n, "x");
    await_events(scene, "granted by a message; ");
    assert_int_equal(claim->machine.fence, 1700000000000017u);
    assert_int_equal(scene->stats.handed_over, 1);
    says(&scene->n[2], "EVALSHA x", "*1\r\n:1");
    await_events(scene, "renewed; "); /* a quarter of the claim window later */
    assert_int_equal(claim->machine.phase, LW__HELD);
}

static void test_a_hand_over_to_an_unknown_token_is_released(void **state)
{
    struct scene *scene = *state;

    queue(scene);
    pass(scene);
    says(&scene->n[2], "EVALSHA {x}2", ":1");
    hand_over(scene, claim->n + 1, "{x}2");
    await_events(scene, "released; ended; ");
    assert_true(came(scene, "N3 < EVALSHA {x}2; "));
    assert_non_null(claim); /* which still waits */
}

/* A message asks for the release of what claim number `n` holds. */
static void ask_for(uint64_t n, const char *name)
{
    struct lw__token token = {holds.uuid, n, 1000};
    char words[LW__TOKEN_SIZE], text[256];
    int length = (int)lw__format_token(&token, words);

    length = snprintf(text, sizeof(text), "y %.*s %s", length, words, name);
    lw__claim_message(&holds, text, (size_t)length);
}

static void test_a_request_to_yield_reaches_a_hold_alone(void **state)
{
    struct scene *scene = *state;
    struct lw__input input = {.event = LW__EV_LOST_LOCALLY};

    queue(scene);
    ask_for(claim->n, "x");
    assert_string_equal(events, "");
    hand_over(scene, claim->n, "x");
    await_events(scene, "granted by a message; ");
    ask_for(claim->n, "x");
    await_events(scene, "asked; ");
    ask_for(claim->n + 1, "x");
    ask_for(claim->n, "y");
    assert_string_equal(events, "");
    says(&scene->n[2], "EVALSHA x", "*1\r\n:1");
    await_events(scene, "renewed; ");
    ask_for(claim->n, "x");
    ask_for(claim->n, "x");
    await_events(scene, "asked; asked; ");
    lw__renewal_forget(claim);
    input.lost_locally.at_us = claim->machine.deadline_us;
    lw__claim_step(claim, &input);
    ask_for(claim->n, "x");
    assert_string_equal(events, "");
}

static void test_a_request_follows_MOVED_to_another_node(void **state)
{
    struct scene *scene = *state;
    struct lw__name *name = lw__name_get(&holds, "x");

    lw__name_note_contended(&holds, name); /* so that the script is sent first */
    says(&scene->n[2], "EVALSHA x", "-MOVED 16287 N4");
    says(&scene->n[3], "EVALSHA x", NUMBER);
    pass(scene);
    request("x");
    lw__name_unref(&holds, name);
    await_events(scene, "granted; ");
    assert_true(came(scene, "N4 < EVALSHA x; "));
}

static void test_an_error_is_reported_with_its_text(void **state)
{
    struct scene *scene = *state;

    says(&scene->n[2], "SET x", "-ERR of SET");
    request("x");
    await_events(scene, "ERR of SET; failed; ");
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_claim_is_granted_and_released),
        TEST(a_claim_without_a_fencing_token_sends_one_command),
        TEST(a_held_claim_is_renewed_before_its_deadline),
        TEST(terms_without_renewal_end_renewals),
        TEST(a_claim_that_the_server_does_not_know_is_lost),
        TEST(a_claim_that_its_owner_gives_up_is_released_at_its_deadline),
        TEST(a_hand_over_message_grants),
        TEST(a_hand_over_to_an_unknown_token_is_released),
        TEST(a_request_to_yield_reaches_a_hold_alone),
        TEST(a_request_follows_MOVED_to_another_node),
        TEST(an_error_is_reported_with_its_text),
    };

    return cmocka_run_group_tests_name("holds", tests, NULL, NULL);
}

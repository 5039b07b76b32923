/* SPDX-License-Identifier: MIT */
/* Descriptions of holds in lw_inspect: the note, the user, and since when; for holds with
 * a note, for detached and for adopted ones. Tests what is shown, for how long, and that
 * nothing is left behind (which the stage checks after each test). */
#include "inspect/scene.h"
#include "monitor.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONG_MS 600000

static const enum lw_mode modes[] = {LW_MUTEX, LW_EXCLUSIVE, LW_SHARED};
#define MODES (sizeof(modes) / sizeof(*modes))

static struct peer *d; /* with a user */

static void four_clients(void)
{
    three_clients();
    d = peer_ready("d", client_of(.user = "deploy"));
}

static long long server_ms(void)
{
    return redis_int("EVAL %s 0", "local t = redis.call('TIME') "
                                  "return t[1] * 1000 + math.floor(t[2] / 1000)");
}

/* Waits until the only holder of "x" is shown with these words, and returns since when.
 */
static long long shown(const char *client, const char *user, const char *note)
{
    long long limit_ms = server_ms() + 30000;
    char name[64];

    do {
        look_at(c, "x");
        (void)snprintf(name, sizeof(name), "%s ", client);
    } while (look.holder_count == 1 && server_ms() < limit_ms &&
             (look.holders[0].since_ms == 0 || strcmp(look.holders[0].note, note) != 0));
    assert_int_equal(look.holder_count, 1);
    assert_string_equal(look.holders[0].note, note);
    assert_string_equal(look.holders[0].user, user);
    assert_int_equal(strncmp(look.holders[0].client, name, strlen(name)), 0);
    return look.holders[0].since_ms;
}

static const char *own_user(void)
{
    static char text[24];

    (void)snprintf(text, sizeof(text), "%lu", (unsigned long)geteuid());
    return text;
}

static void a_note_is_shown_while_the_lock_is_held(void **state)
{
    (void)state;
    four_clients();
    for (size_t i = 0; i < MODES; i++) {
        long long before = server_ms(), since;
        struct hold *D = acquire_hold_with(
            d, "D", "x", asking(.mode = modes[i], .note = "one, \xe2\x86\x92 two"));

        EXPECT("D granted");
        since = shown("test-d", "deploy", "one, \xe2\x86\x92 two");
        assert_true(since >= before - 10 && since <= server_ms());
        renew_hold(D, LONG_MS);
        EXPECT("D renewed OK");
        assert_true(shown("test-d", "deploy", "one, \xe2\x86\x92 two") == since);
        release_hold(D);
        EXPECT("D released OK");
        look_at(c, "x");
        FOUND("");
        assert_int_equal(redis_int("EXISTS lockwire:2:holder:{x}"), 0);
    }
}

static void its_ttl_follows_the_lease(void **state)
{
    (void)state;
    four_clients();
    struct hold *A =
        acquire_hold_with(a, "A", "x", asking(.note = "n", .lease_ms = 30000));
    EXPECT("A granted");
    UNTIL(redis_int("PTTL lockwire:2:holder:{x}") > 0);
    assert_true(redis_int("PTTL lockwire:2:holder:{x}") <= 30000);
    renew_hold(A, LONG_MS);
    EXPECT("A renewed OK");
    UNTIL(redis_int("PTTL lockwire:2:holder:{x}") > 30000);
    assert_true(redis_int("PTTL lockwire:2:holder:{x}") <= LONG_MS);
    redis_ok("DEL lockwire:2:holder:{x}"); /* as a failover may lose it */
    renew_hold(A, 0);
    EXPECT("A renewed OK");
    shown("test-a", own_user(), "n");
}

static void a_lock_without_a_note_costs_nothing(void **state)
{
    (void)state;
    four_clients();
    for (int i = 0; i < 2; i++) { /* the first time the server learns the scripts */
        struct hold *A = acquire_and_wait(a, "A", "x");

        EXPECT("A granted");
        release_hold(A);
        EXPECT("A released OK");
        if (i == 0) {
            monitor_start();
        }
    }
    assert_int_equal(monitor_count("set"), 1);
    /* A fast release may do nothing; a server may have a command for it. */
    assert_in_range(monitor_count("evalsha") + monitor_count("delifeq") +
                        monitor_count("delex"),
                    1, 2);
    assert_false(monitor_saw("lockwire:2:holder"));
    monitor_stop();
}

static void a_detached_lock_shows_its_client(void **state)
{
    (void)state;
    for (size_t i = 0; i < MODES; i++) {
        long long before, since;
        char token[96];

        four_clients();
        before = server_ms();
        struct hold *D = acquire_hold_with(d, "D", "x", asking(.mode = modes[i]));
        EXPECT("D granted");
        (void)snprintf(token, sizeof(token), "%s", lw_lock_token(D->lock));
        detach_hold(D, LONG_MS);
        EXPECT("D detached OK");
        peer_close(d);
        EXPECT("d closed");
        since = shown("test-d", "deploy", "");
        assert_true(since >= before - 10 && since <= server_ms());
        break_it(b, "x", token, LW_OK);
        EXPECT("broken OK");
        look_at(c, "x");
        FOUND("");
        assert_int_equal(redis_int("EXISTS lockwire:2:holder:{x}"), 0);
        peer_close(a);
        EXPECT("a closed");
        peer_close(b);
        EXPECT("b closed");
        peer_close(c);
        EXPECT("c closed");
    }
}

static void it_ends_with_the_lease(void **state)
{
    (void)state;
    four_clients();
    for (size_t i = 0; i < MODES; i++) {
        struct hold *A = acquire_hold_with(
            a, "A", "x", asking(.mode = modes[i], .at_least_ms = 500, .note = "brief"));

        EXPECT("A granted");
        release_hold(A);
        EXPECT("A released OK");
        UNTIL(redis_int("EXISTS x") == 0);
        assert_int_equal(redis_int("EXISTS lockwire:2:holder:{x}"), 0);
    }
}

static void an_adopter_is_shown_with_the_note_and_the_time(void **state)
{
    static const char *const notes[] = {NULL, "another"};

    (void)state;
    four_clients();
    for (size_t i = 0; i < 2 * MODES; i++) {
        const char *note = notes[i / MODES];
        enum lw_mode mode = modes[i % MODES];
        struct hold *A, *D;
        long long since;

        A = acquire_hold_with(a, "A", "x", asking(.mode = mode, .note = "first"));
        EXPECT("A granted");
        since = shown("test-a", own_user(), "first");
        detach_hold(A, LONG_MS);
        EXPECT("A detached OK");
        D = adopt_hold(d, "D", "x", lw_lock_token(A->lock),
                       asking(.mode = mode, .note = note));
        EXPECT("D granted");
        assert_true(shown("test-d", "deploy", note != NULL ? note : "first") == since);
        renew_hold(D, 2 * LONG_MS);
        EXPECT("D renewed OK");
        UNTIL(mode != LW_MUTEX || redis_int("PTTL lockwire:2:holder:{x}") > LONG_MS);
        assert_true(shown("test-d", "deploy", note != NULL ? note : "first") == since);
        release_hold(D);
        EXPECT("D released OK");
        assert_int_equal(redis_int("EXISTS x lockwire:2:holder:{x}"), 0);
        free_hold(A);
        free_hold(D);
    }
}

static void the_next_holder_has_its_own(void **state)
{
    (void)state;
    four_clients();
    struct hold *A = acquire_hold_with(a, "A", "x", asking(.note = "first"));
    EXPECT("A granted");
    shown("test-a", own_user(), "first");
    acquire_hold_with(d, "D", "x", asking(.note = "second", .wait_ms = -1));
    wait_queued("x", 1);
    struct hold *B = acquire_hold(b, "B", "x", -1);
    wait_queued("x", 2);
    release_hold(A);
    EXPECT_SET("A released OK; D granted");
    shown("test-d", "deploy", "second");
    release_hold(holds->next->label[0] == 'D' ? holds->next : holds);
    EXPECT_SET("D released OK; B granted");
    look_at(c, "x");
    FOUND("held by m - test-b");
    assert_string_equal(look.holders[0].note, "");
    assert_int_equal(look.holders[0].since_ms, 0);
    release_hold(B);
    EXPECT("B released OK");
}

/* They would be handed the lock inside their client otherwise, under one token. */
static void handles_of_a_client_have_their_own(void **state)
{
    (void)state;
    four_clients();
    struct peer *e = peer_ready("e", client_of(.local_turns = 16));
    struct hold *E = acquire_hold_with(e, "E", "x", asking(.note = "first"));
    EXPECT("E granted");
    struct hold *F =
        acquire_hold_with(e, "F", "x", asking(.note = "second", .wait_ms = -1));
    wait_queued("x", 1);
    struct hold *G = acquire_hold(e, "G", "x", -1);
    wait_queued("x", 2);
    shown("test-e", own_user(), "first");
    release_hold(E);
    EXPECT_SET("E released OK; F granted");
    shown("test-e", own_user(), "second");
    release_hold(F);
    EXPECT_SET("F released OK; G granted");
    look_at(c, "x");
    assert_string_equal(look.holders[0].note, "");
    release_hold(G);
    EXPECT("G released OK");
}

static void without_an_identity_only_a_note_is_stored(void **state)
{
    (void)state;
    three_clients();
    d = peer_ready("d", client_of(.user = "deploy", .no_identity = 1));
    for (size_t i = 0; i < MODES; i++) {
        struct hold *D = acquire_hold_with(d, "D", "x", asking(.mode = modes[i]));

        EXPECT("D granted");
        detach_hold(D, LONG_MS);
        EXPECT("D detached OK");
        look_at(c, "x");
        assert_string_equal(look.holders[0].client, "");
        assert_int_equal(look.holders[0].since_ms, 0);
        break_it(c, "x", NULL, LW_OK);
        EXPECT("broken OK");
        D = acquire_hold_with(d, "D", "x", asking(.mode = modes[i], .note = "why"));
        EXPECT("D granted");
        detach_hold(D, LONG_MS);
        EXPECT("D detached OK");
        look_at(c, "x");
        assert_string_equal(look.holders[0].client, "");
        assert_string_equal(look.holders[0].user, "");
        assert_string_equal(look.holders[0].note, "why");
        assert_true(look.holders[0].since_ms > 0);
        break_it(c, "x", NULL, LW_OK);
        EXPECT("broken OK");
    }
    assert_int_equal(
        redis_int("EVAL %s 0", "return #redis.call('KEYS', 'lockwire:client:*')"), 0);
}

static void on_keep(struct lw_keep *keep, int status, void *arg)
{
    (void)keep;
    (void)status;
    *(bool *)arg = true;
}

static void a_keep_and_several_names_copy_it(void **state)
{
    char *note = strdup("of the caller");
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    static bool gained; /* not a local variable: clang would not see who changes it */
    struct lw_keep *keep;

    (void)state;
    four_clients();
    options.note = note;
    options.wait_ms = -1;
    assert_int_equal(
        lw_keep_new(d->client, "x", &options, on_keep, on_keep, &gained, &keep), LW_OK);
    memset(note, '?', strlen(note));
    free(note);
    UNTIL(gained);
    shown("test-d", "deploy", "of the caller");
    lw_keep_free(keep);
    UNTIL(redis_int("EXISTS x lockwire:2:holder:{x}") == 0);
}

static void bad_notes_and_users_are_refused(void **state)
{
    char note[102];
    struct lw_client *client;
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;

    (void)state;
    three_clients();
    memset(note, 'n', sizeof(note));
    note[101] = '\0';
    acquire_refused(a, "x", asking(.note = note), LW_EINVAL,
                    "the note is longer than 100 bytes");
    acquire_refused(
        a, "x", asking(.note = "a\tb"), LW_EINVAL,
        "the note has a control character, or no UTF-8, at position 2: byte 0x09");
    acquire_refused(
        a, "x", asking(.note = "\xff"), LW_EINVAL,
        "the note has a control character, or no UTF-8, at position 1: byte 0xff");
    acquire_refused(a, "x", asking(.note = "n", .mode = LW_REDISSON), LW_EINVAL,
                    "note is not supported with LW_REDISSON");
    options.user = "two words";
    assert_int_equal(lw_client_new(stage.base, stage.server.url, &options, &client),
                     LW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_note_is_shown_while_the_lock_is_held),
        STAGE_TEST(its_ttl_follows_the_lease),
        STAGE_TEST(a_lock_without_a_note_costs_nothing),
        STAGE_TEST(a_detached_lock_shows_its_client),
        STAGE_TEST(it_ends_with_the_lease),
        STAGE_TEST(an_adopter_is_shown_with_the_note_and_the_time),
        STAGE_TEST(the_next_holder_has_its_own),
        STAGE_TEST(handles_of_a_client_have_their_own),
        STAGE_TEST(without_an_identity_only_a_note_is_stored),
        STAGE_TEST(a_keep_and_several_names_copy_it),
        STAGE_TEST(bad_notes_and_users_are_refused),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/*
 * The minimal account that lockwire(7) gives. With it each kind of lock goes through its
 * whole life, also with a prefix, which is then all that the account may access. By the
 * server's own log and its own count, the server refuses only commands
 * that lockwire(7) calls optional; once these are granted as well, it refuses nothing.
 * The account is also minimal: the clients use each command that it grants. The tests
 * read the manual's source, whose path is given to the compiler. Independent of which
 * commands there are.
 *
 * Usual course: a test makes the account, clients log in with it and take a lock through
 * its life, and the test checks ACL LOG.
 */
#include "groups.h"
#include "guard_record.h"
#include "inspect/list_scene.h"
#include "monitor.h"

#include <stdio.h>
#include <string.h>

#define NAME "job:1" /* the manual's account is for job:* */
#define PREFIX "team:"
#define BEGINS "An account needs no more than the following"
#define RECIPE "\nACL SETUSER daemon "
#define LIST_BEGINS "*lw_list*(3) also need *"
#define WORDS 16
#define CHANNEL_OF_REDISSON "&redisson_lock__channel:*"
#define CHANNEL_IN_MANUAL "&redisson_lock\\_\\_channel:\\*" /* as written for scdoc */

/* ---- the manual ---- */

static struct {
    char text[4096];   /* from BEGINS to the end of the recipe */
    char recipe[2048]; /* the command */
    char list[256];    /* what lw_list needs in addition */
    char optional[WORDS][32];
    size_t optionals;
} told;
static char called[65536]; /* names of all commands called, each between blanks */
static const char *beside; /* a word that this test needs in addition; or NULL */

/* Notes the commands in the text before the recipe. */
static void note_optional(void)
{
    char text[sizeof(told.text)];

    memcpy(text, told.text, sizeof(text));
    told.optionals = 0;
    for (char *rest = text, *word; (word = strtok_r(rest, " \n*,;()", &rest)) != NULL;) {
        if (*word == '+' && told.optionals < WORDS) {
            (void)snprintf(told.optional[told.optionals++], sizeof(*told.optional), "%s",
                           word + 1);
        }
    }
    assert_true(told.optionals >= 3);
}

static void read_manual(void)
{
    static char all[200000];
    FILE *file = fopen(MANUAL, "r");
    size_t length;

    assert_non_null(file);
    length = fread(all, 1, sizeof(all) - 1, file);
    (void)fclose(file);
    all[length] = '\0';
    const char *from = strstr(all, BEGINS);
    const char *recipe = from != NULL ? strstr(from, RECIPE) : NULL;
    const char *end = recipe != NULL ? strstr(recipe, "\n```") : NULL;
    if (end == NULL) {
        stage_fail("lockwire(7) has no account");
    }
    (void)snprintf(told.text, sizeof(told.text), "%.*s", (int)(recipe - from), from);
    (void)snprintf(told.recipe, sizeof(told.recipe), "%.*s", (int)(end - recipe) - 1,
                   recipe + 1);
    const char *lists = strstr(end, LIST_BEGINS);
    if (lists == NULL) {
        stage_fail("lockwire(7) does not say what lw_list wants");
    }
    lists += strlen(LIST_BEGINS);
    (void)snprintf(told.list, sizeof(told.list), "%.*s", (int)strcspn(lists, "*"), lists);
    note_optional();
}

/* ---- the account ---- */

/* Which of the manual's optional commands are granted. */
enum grant { NOTHING_OPTIONAL, OPTIONAL_SUBCOMMANDS, ALL_OPTIONAL };

static bool is_granted(const char *optional, enum grant grant)
{
    return grant == ALL_OPTIONAL ||
           (grant == OPTIONAL_SUBCOMMANDS && strchr(optional, '|') != NULL);
}

/* Grants the command. Returns false if the server does not know it: older versions lack
 * some. */
static bool server_takes(const char *optional)
{
    redisReply *reply = server_try(&stage.server, "ACL SETUSER daemon +%s", optional);
    bool taken = reply->type != REDIS_REPLY_ERROR;

    freeReplyObject(reply);
    return taken;
}

/* Runs the command as the manual gives it, word by word. */
static void make_account(enum grant grant)
{
    char words[sizeof(told.recipe)], *rest = words, *word;
    const char *arguments[128];
    int count = 0;

    memcpy(words, told.recipe, sizeof(words));
    while (count < 127 && (word = strtok_r(rest, " \n", &rest)) != NULL) {
        arguments[count++] = stage.prefix == NULL ? word
                             : *word == '~'       ? "~" PREFIX "*"
                             : *word == '&'       ? "&" PREFIX "*"
                                                  : word;
    }
    if (beside != NULL) {
        arguments[count++] = beside;
    }
    redisReply *reply = redisCommandArgv(stage.server.admin, count, arguments, NULL);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        stage_fail("lockwire(7)'s account: %s", reply != NULL ? reply->str : "no answer");
    }
    freeReplyObject(reply);
    for (size_t i = 0; i < told.optionals; i++) {
        if (is_granted(told.optional[i], grant)) {
            (void)server_takes(told.optional[i]);
        }
    }
    redis_ok("ACL LOG RESET");
    redis_ok("CONFIG RESETSTAT");
}

/* ---- commands that were used ---- */

/* The server's count includes commands of scripts. (The test's own are among them.) */
static void note_called(void)
{
    size_t used = strlen(called);

    for (char *rest = (char *)(uintptr_t)redis_text("INFO commandstats"), *line;
         (line = strtok_r(rest, "\r\n", &rest)) != NULL;) {
        char name[64];
        if (sscanf(line, "cmdstat_%63[^:]", name) == 1 &&
            strstr(line, ":calls=0") == NULL) {
            used += (size_t)snprintf(called + used, sizeof(called) - used, " %s ", name);
        }
    }
}

/* Redis 6.2 does not count subcommands separately. */
static bool was_called(const char *command)
{
    char whole[64], first[64];

    (void)snprintf(whole, sizeof(whole), " %s ", command);
    (void)snprintf(first, sizeof(first), " %.*s ", (int)strcspn(command, "|"), command);
    return strstr(called, whole) != NULL || strstr(called, first) != NULL;
}

/* ---- commands that were refused ---- */

static bool refused[WORDS]; /* optional commands that were refused in any test */

/* Redis 6.2 logs commands without their subcommands. */
static bool names(const char *object, const char *optional)
{
    size_t length = strcspn(optional, "|");

    return strcmp(object, optional) == 0 ||
           (strlen(object) == length && strncmp(object, optional, length) == 0);
}

static void account_for(const redisReply *entry, enum grant grant)
{
    const char *reason = entry->element[3]->str, *context = entry->element[5]->str;
    const char *object = entry->element[7]->str, *user = entry->element[9]->str;
    bool known = false;

    for (size_t i = 0; i < told.optionals; i++) {
        if (names(object, told.optional[i]) && !is_granted(told.optional[i], grant)) {
            known = refused[i] = true;
        }
    }
    if (!known || strcmp(reason, "command") != 0 || strcmp(context, "toplevel") != 0 ||
        strcmp(user, "daemon") != 0) {
        stage_fail("refused: %s (%s, %s) to %s", object, reason, context, user);
    }
}

static long long errors_counted(void)
{
    const char *at = strstr(redis_text("INFO errorstats"), "errorstat_NOPERM:count=");

    return at != NULL ? atoll(strchr(at, '=') + 1) : 0;
}

/* An entry of the log may stand for several refusals. Together they are as many as the
 * server counts. */
static void only_what_is_optional_was_refused(enum grant grant)
{
    note_called();
    redisReply *log = server_command(&stage.server, "ACL LOG 128");
    long long count = 0;

    for (size_t i = 0; i < log->elements; i++) {
        account_for(log->element[i], grant);
        count += log->element[i]->element[1]->integer;
    }
    freeReplyObject(log);
    assert_int_equal(count, errors_counted());
    if (grant == ALL_OPTIONAL) {
        assert_int_equal(count, 0);
    }
}

/* ---- a life ---- */

/* The options of the first holder and of the waiters, for one kind of lock. */
static struct lw_acquire_options holder, waiter;

static struct peer *log_in(const char *label)
{
    return peer_ready(label, client_of(.username = "daemon", .password = "password",
                                       .request_timeout_ms = 1000));
}

static struct hold *hold(uint32_t lease_ms)
{
    struct lw_acquire_options options = holder;

    options.lease_ms = lease_ms;
    options.wait_ms = -1; /* an earlier release in the background may be pending */
    struct hold *A = acquire_hold_with(a, "A", NAME, &options);
    UNTIL(A->result == LW_OK);
    stage_clear_trace();
    return A;
}

static struct hold *want(struct peer *peer, const char *label, int64_t wait_ms)
{
    struct lw_acquire_options options = waiter;

    options.wait_ms = wait_ms;
    return acquire_hold_with(peer, label, NAME, &options);
}

/* A mutex has one queue entry for each client. */
static void wait_waiting(long long members)
{
    if (waiter.mode == LW_MUTEX) {
        wait_queued(NAME, members);
    } else if (waiter.mode == LW_REDISSON) {
        UNTIL(redis_int("EVAL %s 0 %s", "return redis.call('PUBSUB','NUMSUB',ARGV[1])[2]",
                        "redisson_lock__channel:{" NAME "}") >= 1);
    } else {
        UNTIL(redis_int("ZCARD %slockwire:2:rwqueue:{%s}",
                        stage.prefix != NULL ? stage.prefix : "",
                        key_of(NAME)) >= members);
    }
}

static void end(struct hold *held)
{
    release_hold(held);
    UNTIL(held->released == LW_OK);
    free_hold(held);
}

static void granted(struct hold *asked)
{
    UNTIL(asked->result != PENDING);
    assert_int_equal(asked->result, LW_OK);
}

static void hand_over_and_take_turns(void)
{
    struct hold *A = hold(0), *B = want(b, "B", -1), *C = want(b, "C", -1);

    wait_waiting(1);
    renew_hold(A, 0);
    UNTIL(A->renewed == LW_OK);
    end(A);
    granted(B);
    end(B);
    granted(C);
    end(C);
}

static void ask_in_vain(void)
{
    struct hold *A = hold(0), *B = want(b, "B", 0), *C, *D;

    UNTIL(B->result == LW_EBUSY);
    C = want(b, "C", 60);
    UNTIL(C->result == LW_ETIMEOUT);
    D = want(b, "D", -1);
    wait_waiting(1);
    free_hold(D);
    free_hold(A); /* while it is held */
    A = hold(0);
    end(A);
}

static void be_renewed(void)
{
    uint64_t renewed = peer_stats(a).renewed;
    struct hold *A = hold(400);

    UNTIL(peer_stats(a).renewed > renewed);
    end(A);
}

static void lose_by_the_clock_and_by_the_server(void)
{
    struct hold *A = hold(300);

    server_pause(&stage.server);
    UNTIL(A->lost == LW_ELOST);
    server_resume(&stage.server);
    free_hold(A);
    A = hold(0);
    redis_ok("DEL %s", key_of(NAME));
    renew_hold(A, 0);
    UNTIL(A->lost == LW_ENOTHELD);
    free_hold(A);
}

/* Ends either connection. The next command connection ends the previous one at the
 * server, if it is permitted to. */
static void lose_the_connections(void)
{
    struct hold *A = hold(0);

    for (int subscription = 0; subscription <= 1; subscription++) {
        long long id = peer_link_id(a, subscription);
        redis_ok("CLIENT KILL ID %lld", id);
        UNTIL(peer_link_id(a, subscription) != id);
        peer_wait_ready(a);
    }
    end(A);
}

static void look_and_break(void)
{
    struct hold *A = hold(0), *B = want(b, "B", -1);
    bool stranger = holder.mode == LW_REDISSON;

    wait_waiting(1);
    stage_clear_trace();
    look_at(b, NAME);
    break_it(b, NAME, NULL, stranger ? LW_ENOTHELD : LW_OK);
    if (stranger) {
        end(A);
    } else {
        renew_hold(A, 0);
        UNTIL(A->lost == LW_ENOTHELD);
        free_hold(A);
    }
    granted(B);
    end(B);
}

static void outlive_one_who_waits(void)
{
    struct hold *A = hold(0), *B;
    struct peer *c = log_in("c");

    want(c, "C", -1);
    wait_waiting(1);
    peer_free(c);
    B = want(b, "B", -1);
    wait_waiting(waiter.mode == LW_REDISSON ? 1 : 2);
    end(A);
    granted(B);
    end(B);
    stage.notes_may_stay = true; /* those of client c */
}

/* Deletes the counter of fencing tokens, and the server's cached scripts. */
static void start_anew(void)
{
    redis_ok("DEL %s", key_of("lockwire:fence"));
    redis_ok("SCRIPT FLUSH");
    end(hold(0));
    monitor_start();
    UNTIL(monitor_count("pexpire") > 0); /* a heartbeat refreshes the counter */
    monitor_stop();
}

static void live(enum grant grant)
{
    read_manual();
    make_account(grant);
    a = log_in("a");
    b = log_in("b");
    hand_over_and_take_turns();
    ask_in_vain();
    be_renewed();
    lose_by_the_clock_and_by_the_server();
    lose_the_connections();
    look_and_break();
    outlive_one_who_waits();
    start_anew();
    stage_clear_trace();
}

static void close_and_account(enum grant grant)
{
    stage_clear_trace();
    peer_close(a);
    peer_close(b);
    EXPECT_SET("a closed; b closed");
    peer_free(a);
    peer_free(b);
    only_what_is_optional_was_refused(grant);
}

static void life_of(struct lw_acquire_options held, struct lw_acquire_options waited)
{
    for (enum grant grant = NOTHING_OPTIONAL; grant <= ALL_OPTIONAL; grant++) {
        holder = held;
        waiter = waited;
        live(grant);
        close_and_account(grant);
    }
}

/* ---- the kinds of lock ---- */

static void a_mutex(void **state)
{
    (void)state;
    life_of(*asking(.mode = LW_MUTEX), *asking(.mode = LW_MUTEX));
}

static void a_mutex_without_fence(void **state)
{
    (void)state;
    life_of(*asking(.flags = LW_NO_FENCE), *asking(.flags = LW_NO_FENCE));
}

static void a_writer_before_writers(void **state)
{
    (void)state;
    life_of(*asking(.mode = LW_EXCLUSIVE), *asking(.mode = LW_EXCLUSIVE));
}

static void a_writer_before_readers(void **state)
{
    (void)state;
    life_of(*asking(.mode = LW_EXCLUSIVE), *asking(.mode = LW_SHARED));
}

static void a_reader_before_writers(void **state)
{
    (void)state;
    life_of(*asking(.mode = LW_SHARED), *asking(.mode = LW_EXCLUSIVE));
}

static void a_permit(void **state)
{
    (void)state;
    life_of(*asking(.mode = LW_SHARED, .permits = 1),
            *asking(.mode = LW_SHARED, .permits = 1));
}

static struct hold *as(struct peer *peer, const char *label, enum lw_mode mode,
                       const char *owner)
{
    return acquire_hold_with(peer, label, NAME,
                             asking(.mode = mode, .owner = owner, .wait_ms = -1));
}

/* Covers re-entry, a waiting upgrade, and a second upgrade. */
static void an_upgrade(void **state)
{
    (void)state;
    read_manual();
    make_account(NOTHING_OPTIONAL);
    a = log_in("a");
    b = log_in("b");
    struct hold *R = as(a, "R", LW_SHARED, "anna"), *S = as(b, "S", LW_SHARED, "bert");
    granted(R);
    granted(S);
    struct hold *W = as(a, "W", LW_EXCLUSIVE, "anna");
    UNTIL(redis_int("ZCARD lockwire:2:rwqueue:{" NAME "}") == 1);
    struct hold *V = as(b, "V", LW_EXCLUSIVE, "bert");
    UNTIL(V->result == LW_EDEADLOCK);
    end(S);
    granted(W);
    struct hold *X = as(a, "X", LW_EXCLUSIVE, "anna");
    granted(X);
    release_hold(X);
    UNTIL(X->released == LW_STILLHELD);
    release_hold(R);
    UNTIL(R->released == LW_STILLHELD);
    end(W);
    close_and_account(NOTHING_OPTIONAL);
}

static void another_database(void **state)
{
    (void)state;
    read_manual();
    make_account(NOTHING_OPTIONAL);
    holder = *asking();
    a = peer_ready("a", client_of(.username = "daemon", .password = "password", .db = 7));
    b = peer_ready("b", client_of(.username = "daemon", .password = "password", .db = 7));
    end(hold(0));
    close_and_account(NOTHING_OPTIONAL);
}

/* The manual grants Redisson's channel separately from the account. */
static void redissons(void **state)
{
    (void)state;
    read_manual();
    assert_non_null(strstr(told.text, CHANNEL_IN_MANUAL));
    beside = CHANNEL_OF_REDISSON;
    life_of(*asking(.mode = LW_REDISSON), *asking(.mode = LW_REDISSON));
    beside = NULL;
}

/* There are also foreign keys, which the account may not read. */
static void the_list(void **state)
{
    (void)state;
    read_manual();
    make_account(NOTHING_OPTIONAL);
    a = log_in("a");
    b = log_in("b");
    hold_as(b, NAME, LW_SHARED, NULL);
    redis_ok("SET theirs value PX 60000");
    for (char *rest = told.list, *word; (word = strtok_r(rest, " \n", &rest)) != NULL;) {
        call_list(a, NULL); /* fails: a word of the list is not granted yet */
        UNTIL(list.status != PENDING);
        assert_true(list.status == LW_EREDIS || list.keys == 0);
        redis_ok("ACL SETUSER daemon %s", word);
    }
    list_all(a, NULL);
    LISTED(NAME ":r");
    assert_true(list.keys > 0);
    redis_ok("DEL theirs");
}

/* ---- with a prefix ---- */

static void live_behind_the_prefix(struct lw_acquire_options held,
                                   struct lw_acquire_options waited)
{
    holder = held;
    waiter = waited;
    live(NOTHING_OPTIONAL);
    close_and_account(NOTHING_OPTIONAL);
}

static void detach_and_adopt(void)
{
    struct hold *A = hold(0), *D;
    char token[128];

    (void)snprintf(token, sizeof(token), "%s", lw_lock_token(A->lock));
    detach_hold(A, 60000);
    EXPECT("A detached OK");
    D = adopt_hold(b, "D", NAME, token, NULL);
    EXPECT("D granted");
    assert_held_by_redis(D);
    end(D);
    stage_clear_trace();
}

static void several_names(void)
{
    struct group *G = group_take(a, "G", "job:1 job:2 job:3");

    EXPECT("G granted");
    group_assert_held(G);
    group_release(G);
    EXPECT("G released OK");
    group_free(G);
}

/* The record of a guard is behind the prefix, too. */
static void with_the_guard(void)
{
    struct hold *A;
    struct peer *g;

    guard_record_open_in(&stage.server, 15000, 0);
    redis_ok("RENAME " GUARD_RECORD " " PREFIX GUARD_RECORD);
    g = peer_ready(
        "g", client_of(.username = "daemon", .password = "password", .guard_ms = 15000));
    A = acquire_hold_with(g, "A", NAME, asking(.lease_ms = 3000));
    granted(A);
    end(A);
    assert_int_equal(peer_stats(g).server_guard_ms, 15000);
    peer_close(g);
    UNTIL(g->closed);
    stage_clear_trace();
}

static void everything_behind_a_prefix(void **state)
{
    (void)state;
    stage.prefix = PREFIX;
    live_behind_the_prefix(*asking(.mode = LW_MUTEX), *asking(.mode = LW_MUTEX));
    live_behind_the_prefix(*asking(.mode = LW_EXCLUSIVE), *asking(.mode = LW_SHARED));
    live_behind_the_prefix(*asking(.mode = LW_SHARED, .permits = 1),
                           *asking(.mode = LW_SHARED, .permits = 1));
    holder = waiter = *asking();
    make_account(NOTHING_OPTIONAL);
    a = log_in("a");
    b = log_in("b");
    detach_and_adopt();
    several_names();
    with_the_guard();
    for (char *rest = told.list, *word; (word = strtok_r(rest, " \n", &rest)) != NULL;) {
        redis_ok("ACL SETUSER daemon %s", word);
    }
    hold_as(b, NAME, LW_SHARED, NULL);
    redis_ok("SET theirs value PX 60000");
    list_all(a, NULL);
    LISTED(NAME ":r");
    redis_ok("DEL theirs");
    assert_int_equal(redis_int("EXISTS " NAME " lockwire:fence lockwire:guard"), 0);
}

/* After all other tests: they must have tried each command that the manual calls
 * optional, and used each one that it grants. Otherwise the account is not minimal. */

static void begin_to_sum_up(void)
{
    read_manual();
    make_account(NOTHING_OPTIONAL);
    if (getenv("LOCKWIRE_TEST") != NULL) {
        skip(); /* not all tests have run */
    }
}

static void what_is_optional_was_tried(void **state)
{
    (void)state;
    begin_to_sum_up();
    for (size_t i = 0; i < told.optionals; i++) {
        if (!refused[i] && server_takes(told.optional[i])) {
            stage_fail("lockwire(7) calls %s optional, and nobody tried it",
                       told.optional[i]);
        }
    }
}

static void what_is_granted_was_used(void **state)
{
    char words[sizeof(told.recipe)];

    (void)state;
    begin_to_sum_up();
    if (strstr(redis_text("INFO server"), "redis_version:6.") != NULL) {
        skip(); /* this version lacks some commands that scripts use */
    }
    memcpy(words, told.recipe, sizeof(words));
    for (char *rest = words, *word; (word = strtok_r(rest, " \n", &rest)) != NULL;) {
        if (*word == '+' && !was_called(word + 1)) {
            stage_fail("lockwire(7) grants %s, and nobody used it", word);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_mutex),
        STAGE_TEST(a_mutex_without_fence),
        STAGE_TEST(a_writer_before_writers),
        STAGE_TEST(a_writer_before_readers),
        STAGE_TEST(a_reader_before_writers),
        STAGE_TEST(a_permit),
        STAGE_TEST(an_upgrade),
        STAGE_TEST(another_database),
        STAGE_TEST(redissons),
        STAGE_TEST(the_list),
        STAGE_TEST(everything_behind_a_prefix),
        STAGE_TEST(what_is_optional_was_tried),
        STAGE_TEST(what_is_granted_was_used),
    };

    return STAGE_RUN(tests);
}

/* SPDX-License-Identifier: MIT */
/*
 * The minimal account for a cluster: lockwire(7)'s account, all the optional commands,
 * and those that it says a cluster needs in addition. (account.c tests what is refused
 * without the optional ones.) With it each kind of lock goes through its whole life at
 * each master, also in slots that move, and by its own log no node has refused anything.
 * The test reads the manual's source, whose path is given to the compiler.
 *
 * Usual course: the test makes the account at each node, clients log in with it and take
 * locks through their lives, and the test checks ACL LOG.
 */
#include "cluster_players.h"
#include "inspect/scene.h"

#include <stdio.h>
#include <string.h>

#define BEGINS "An account needs no more than the following"
#define RECIPE "\nACL SETUSER daemon "
#define BESIDE "In a cluster a client also needs *+asking"

static char account[2048], beside[512], before[4096];
static char called[65536]; /* names of commands, each between blanks */

static void read_part(const char *all, const char *from, const char *until, char *ret,
                      size_t size)
{
    const char *begin = strstr(all, from), *end;

    if (begin == NULL || (end = strstr(begin + strlen(from), until)) == NULL) {
        stage_fail("lockwire(7) has no \"%s\"", from);
    }
    begin += strlen(from);
    (void)snprintf(ret, size, "%.*s", (int)(end - begin), begin);
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
    read_part(all, BEGINS, RECIPE, before, sizeof(before));
    read_part(all, RECIPE, "\n```", account, sizeof(account));
    read_part(all, BESIDE, "*", beside, sizeof(beside));
    (void)strncat(beside, " +asking", sizeof(beside) - strlen(beside) - 1);
}

/* ---- the account ---- */

/* Older servers lack some of these commands. */
static void grant_what_is_optional(int node)
{
    char words[sizeof(before)], *rest = words, *word;

    memcpy(words, before, sizeof(words));
    while ((word = strtok_r(rest, " \n*,;()", &rest)) != NULL) {
        if (*word == '+') {
            freeReplyObject(
                server_try(cluster_server(node), "ACL SETUSER daemon %s", word));
        }
    }
}

static void make_account_at(int node)
{
    char words[sizeof(account) + sizeof(beside)], *rest = words, *word;
    const char *arguments[128] = {"ACL", "SETUSER", "daemon"};
    int count = 3;

    (void)snprintf(words, sizeof(words), "%s %s", account, beside);
    while (count < 128 && (word = strtok_r(rest, " \n", &rest)) != NULL) {
        arguments[count++] = word;
    }
    redisReply *reply =
        redisCommandArgv(cluster_server(node)->admin, count, arguments, NULL);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        stage_fail("the account: %s", reply != NULL ? reply->str : "no answer");
    }
    freeReplyObject(reply);
    grant_what_is_optional(node);
    freeReplyObject(server_command(cluster_server(node), "ACL LOG RESET"));
    freeReplyObject(server_command(cluster_server(node), "CONFIG RESETSTAT"));
}

static struct peer *log_in(const char *label)
{
    struct peer *peer =
        peer_start_at(label, cluster_url(),
                      client_of(.username = "daemon", .local_turns = 1,
                                .password = "password", .request_timeout_ms = 2000));

    UNTIL(peer->up);
    return peer;
}

static void nothing_was_refused(int node)
{
    redisReply *log = server_command(cluster_server(node), "ACL LOG 128");

    for (size_t i = 0; i < log->elements; i++) {
        const redisReply *entry = log->element[i];
        stage_fail("refused: %s (%s, %s)", entry->element[7]->str, entry->element[3]->str,
                   entry->element[5]->str);
    }
    freeReplyObject(log);
}

static void note_called(int node)
{
    redisReply *stats = server_command(cluster_server(node), "INFO commandstats");
    size_t used = strlen(called);

    for (char *rest = stats->str, *line;
         (line = strtok_r(rest, "\r\n", &rest)) != NULL;) {
        char name[64];
        if (sscanf(line, "cmdstat_%63[^:]", name) == 1 &&
            strstr(line, ":calls=0") == NULL && used < sizeof(called) - 80) {
            used += (size_t)snprintf(called + used, sizeof(called) - used, " %s ", name);
        }
    }
    freeReplyObject(stats);
}

static bool was_called(const char *command)
{
    char whole[64];

    (void)snprintf(whole, sizeof(whole), " %s ", command);
    return strstr(called, whole) != NULL;
}

/* ---- a life ---- */

static void job_at(int node, char *ret, size_t size)
{
    int i = 0;

    do {
        (void)snprintf(ret, size, "job:%d", i++);
    } while (cluster_owner(cluster_slot(ret)) != node);
}

static void ask_in_vain(struct peer *peer, const char *name, const struct kind *kind)
{
    for (int64_t wait_ms = 0; wait_ms <= 60; wait_ms += 60) {
        struct hold *B = acquire_hold_with(
            peer, "B", name,
            asking(.mode = kind->waiter, .wait_ms = wait_ms, .permits = kind->permits));
        UNTIL(B->result != PENDING);
        assert_int_equal(B->result, wait_ms ? LW_ETIMEOUT : LW_EBUSY);
        free_hold(B);
    }
    stage_clear_trace();
}

static void be_renewed(struct peer *peer, const char *name, const struct kind *kind)
{
    uint64_t renewed = peer_stats(peer).renewed;
    struct hold *A = hold_of(peer, "A", name, kind, 400);

    UNTIL(peer_stats(peer).renewed > renewed);
    end(A);
}

static void be_broken(struct peer *one, struct peer *other, const char *name,
                      const struct kind *kind)
{
    struct hold *A = hold_of(one, "A", name, kind, 0),
                *B = queue_behind(other, "B", A, kind);

    look_at(other, name);
    break_it(other, name, NULL, LW_OK);
    UNTIL(B->result == LW_OK);
    renew_hold(A, 0);
    UNTIL(A->lost == LW_ENOTHELD);
    free_hold(A);
    end(B);
}

/* Releases A when the key of its name has moved, but its other keys have not. */
static void be_moved(struct peer *one, struct peer *other, const char *name,
                     const struct kind *kind)
{
    struct hold *A = hold_of(one, "A", name, kind, 0),
                *B = queue_behind(other, "B", A, kind);
    int slot = slot_of(A), to = (cluster_owner(slot) + 1) % 3;

    cluster_begin(slot, to);
    cluster_carry_key(name, to);
    renew_hold(A, 0);
    UNTIL(A->renewals == 0);
    release_hold(A);
    UNTIL(A->released != PENDING);
    cluster_carry(slot, to, -1);
    cluster_end(slot, to);
    UNTIL(B->result == LW_OK);
    free_hold(A);
    end(B);
}

static void live(struct peer *one, struct peer *other, const char *name,
                 const struct kind *kind)
{
    struct hold *A = hold_of(one, "A", name, kind, 0), *B;

    ask_in_vain(other, name, kind);
    B = queue_behind(other, "B", A, kind);
    hand_over(A, B);
    free_hold(A);
    end(B);
    be_renewed(one, name, kind);
    be_broken(one, other, name, kind);
    be_moved(one, other, name, kind);
}

/* A client unsubscribes from a channel that it has not used for a minute. The test does
 * not wait for that. */
static void what_is_beside_was_used(void)
{
    for (char *rest = beside, *word; (word = strtok_r(rest, " \n", &rest)) != NULL;) {
        if (!was_called(word + 1) && strcmp(word, "+sunsubscribe") != 0) {
            stage_fail("lockwire(7) grants %s, and nobody used it", word);
        }
    }
}

static void the_least_account_is_enough(void **state)
{
    struct peer *one, *other;
    char name[32];

    (void)state;
    read_manual();
    cluster_set(3, 0, "");
    cluster_need_places(); /* older versions do not know all commands of the account */
    for (int node = 0; node < 3; node++) {
        make_account_at(node);
    }
    one = log_in("a");
    other = log_in("b");
    for (int i = 0; i < KINDS; i++) {
        job_at(i % 3, name, sizeof(name));
        live(one, other, name, &kinds[i]);
    }
    peer_close(one);
    peer_close(other);
    EXPECT_SET("a closed; b closed");
    called[0] = '\0';
    for (int node = 0; node < 3; node++) {
        nothing_was_refused(node);
        note_called(node);
    }
    what_is_beside_was_used();
}

/* What lockwire(7) lists for a cluster in addition, and a client can do without. */
static void what_a_node_denies_is_logged_with_its_price(void **state)
{
    static const struct {
        const char *rule, *entry;
    } rows[] = {
        {"-pubsub|shardnumsub",
         "4 PUBSUB SHARDNUMSUB is not permitted; released locks are "
         "not handed over"},
        {"-spublish", "4 SPUBLISH is not permitted; released locks are not handed over"},
        {"-cluster|info",
         "4 CLUSTER INFO is not permitted; the slot map of a node that is "
         "cut off may be used"},
        {"-cluster|myid", "; a node of another cluster at its address is used"},
    };
    struct peer *a;

    (void)state;
    read_manual();
    cluster_set(3, 0, "");
    cluster_need_places();
    for (int node = 0; node < 3; node++) {
        make_account_at(node);
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
            freeReplyObject(server_command(cluster_server(node), "ACL SETUSER daemon %s",
                                           rows[i].rule));
        }
    }
    a = log_in("a");
    free_hold(acquire_and_wait(a, "A", "job:1"));
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        UNTIL(peer_logged(a, rows[i].entry));
    }
    assert_int_equal(peer_stats(a).degraded,
                     LW_DEGRADED_NUMSUB | LW_DEGRADED_PUBLISH | LW_DEGRADED_CLUSTER);
    peer_close(a);
    UNTIL(a->closed);
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        assert_int_equal(peer_count_logged(a, rows[i].entry), 1);
    }
    for (int node = 0; node < 3; node++) { /* CLUSTER INFO is the only one left */
        freeReplyObject(server_command(
            cluster_server(node),
            "ACL SETUSER daemon +pubsub|shardnumsub +spublish +cluster|myid"));
    }
    a = log_in("b");
    free_hold(acquire_and_wait(a, "B", "job:1"));
    assert_int_equal(peer_stats(a).degraded, LW_DEGRADED_CLUSTER);
    stage_clear_trace();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(the_least_account_is_enough),
        STAGE_TEST(what_a_node_denies_is_logged_with_its_price),
    };

    return STAGE_RUN(tests);
}

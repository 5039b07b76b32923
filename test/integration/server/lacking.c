/* SPDX-License-Identifier: MIT */
/*
 * Commands without which a client works, but worse: the account may not use one, or the
 * server does not know it (rename-command). Each row of the table has the command, its
 * bit in the statistics, and the log entry with the price, which occurs once however
 * often the client connects. Independent of what the entries lead to.
 */
#include "players.h"
#include "server/scene.h"

#include <stdio.h>
#include <string.h>

static const struct row {
    const char *command;
    const char *entry; /* with its level */
    uint64_t degraded;
} rows[] = {
    {"PUBLISH", "4 PUBLISH is ", LW_DEGRADED_PUBLISH},
    {"PUBSUB", "4 PUBSUB NUMSUB is ", LW_DEGRADED_NUMSUB},
    {"SUBSCRIBE", " refused SUBSCRIBE; waiters poll", LW_DEGRADED_SUBSCRIBE},
    {"INFO", "; each hand-over costs one request more", LW_DEGRADED_INFO},
    {"CONFIG", "6 CONFIG GET is ", LW_DEGRADED_CONFIG},
    {"COMMAND", "6 COMMAND INFO is ", LW_DEGRADED_COMMAND},
    {"CLIENT", "6 CLIENT SETNAME: ", LW_DEGRADED_KILL},
};
#define ROWS (sizeof(rows) / sizeof(*rows))

static void lock_once(struct peer *peer)
{
    struct hold *hold = acquire_hold(peer, "A", "x", 0);

    EXPECT("A granted");
    release_hold(hold);
    EXPECT("A released OK");
}

/* `kill` ends the connections of the client at the server. */
static void logs_once(struct peer *peer, const struct row *row, struct server *server,
                      const char *kill)
{
    UNTIL(peer->up);
    lock_once(peer);
    UNTIL(peer_count_logged(peer, row->entry) == 1);
    UNTIL(peer_stats(peer).degraded == row->degraded);
    freeReplyObject(server_command(server, kill));
    UNTIL(peer->ups == 2);
    lock_once(peer);
    if (peer_count_logged(peer, row->entry) != 1) {
        stage_fail("%s: %s", row->command, peer->log);
    }
    UNTIL(peer_stats(peer).degraded == row->degraded);
}

static void closes(struct peer *peer)
{
    peer_close(peer);
    EXPECT("a closed");
}

static void a_command_that_is_not_permitted_is_logged_with_its_price(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        redis_ok("ACL SETUSER app reset on >pw +@all -%s ~* &*", rows[i].command);
        struct peer *a = peer_start(
            "a", client_of(.username = "app", .password = "pw", .backoff_min_ms = 1));

        logs_once(a, &rows[i], &stage.server, "CLIENT KILL USER app");
        redis_ok("ACL SETUSER app +@all");
        redis_int("CLIENT KILL USER app");
        UNTIL(a->ups == 3 && peer_stats(a).degraded == 0);
        closes(a);
    }
}

static void a_command_that_the_server_does_not_know_is_logged_with_its_price(void **state)
{
    struct server other;
    char arguments[80];

    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        bool client = strcmp(rows[i].command, "CLIENT") == 0;

        (void)snprintf(arguments, sizeof(arguments), "--rename-command %s ELSEWHERE",
                       rows[i].command);
        server_start(&other, arguments);
        struct peer *a = peer_start_at("a", other.url, client_of(.backoff_min_ms = 1));

        logs_once(a, &rows[i], &other,
                  client ? "ELSEWHERE KILL TYPE normal" : "CLIENT KILL TYPE normal");
        closes(a);
        server_stop(&other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_command_that_is_not_permitted_is_logged_with_its_price),
        STAGE_TEST(a_command_that_the_server_does_not_know_is_logged_with_its_price),
    };

    return STAGE_RUN(tests);
}

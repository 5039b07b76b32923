/* SPDX-License-Identifier: MIT */
/*
 * What the random walk's files share: the world, and the events of a player in it.
 * machine_walk.c draws the events. machine_player.c is a process that does what the
 * library does around its machine, and what its callers may do.
 *
 * Usual course: player_act starts a token; player_answer, player_tell; player_act
 * releases it.
 */
#ifndef TEST_MACHINE_WALK_H
#define TEST_MACHINE_WALK_H
#include "base/random.h"
#include "hold/machine.h"
#include "machine_model.h"

#define MS 1000
#define PLAYERS 4
#define INBOX 8
#define GHOSTS 8
#define CALM_US (180000000) /* every player must be served within this */

struct command {
    struct model_call call;
    int64_t lease_us;
    bool in_flight;
    bool runs, ran;  /* it is not lost before it runs; it has run */
    bool lost, open; /* ends with the link; ends with an error that decides nothing */
    bool unsent;     /* the link was lost before it left */
    bool forgotten;  /* of a renewal: its reply is ignored */
    int64_t sent_us, run_us, answer_us;
    struct lw__input answer;
};

struct player {
    struct lw__machine machine;
    struct command ask, renewal;
    int client, number, token;
    int64_t margin_us;
    bool linked, told;
    bool haunted;   /* a command of its token may still run from a dead connection */
    bool wants_out; /* its caller has given up */
    int64_t stalled_until_us, link_up_us, act_us, tell_us, renew_us;
    int64_t last_run_us; /* commands of one connection run in order */
    int64_t pair_sent_us, pair_server_us;
    int64_t deadline_at_most_us;
    unsigned long served;
    struct {
        int64_t at_us; /* 0: free */
        struct model_message message;
    } inbox[INBOX];
};

struct world {
    struct model server;
    struct player players[PLAYERS];
    struct command ghosts[GHOSTS];
    struct lw__random random;
    uint64_t seed;
    int64_t now_us, stranger_us;
    uint64_t last_fence;
    bool calm;
    unsigned long steps, grants, by_message, losses, calms;
};
extern struct world world;

int64_t draw(int64_t low, int64_t high);
bool chance(int percent);
int64_t delay(void); /* of a command or a message on its way */
void broken(const struct player *player, const char *what); /* fails the test */
void deliver(void);                                         /* the published messages */

/* Checks the conditions that always hold for a player. */
void player_check(const struct player *player);
/* The events of a player. */
void player_act(struct player *player);    /* its caller's next move */
void player_tell(struct player *player);   /* the caller learns of its grant */
void player_answer(struct player *player); /* its command is answered, or the link ends */
void player_renew(struct player *player);
void player_renewal(struct player *player); /* the renewal's answer */
void player_link_up(struct player *player);
void player_subscribed(struct player *player); /* or a new link: requests, or renews */
void player_due(struct player *player);
void player_deadline(struct player *player); /* checks it, before anything else */
void player_message(struct player *player, size_t index);
#endif

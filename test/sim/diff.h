/* SPDX-License-Identifier: MIT
 *
 * What the files of difftest share: a real server and the model server at the same frozen
 * time, given the same commands and compared after every step.
 *
 *   diff.c         the two servers: start, send, compare replies, messages and keys
 *   diff_locks.c   random steps of the lock scripts
 *   diff_plain.c   random plain commands, also those of a foreign client
 *   diff_faults.c  faults that both servers can have
 *   diff_fixed.c   fixed lists: scripts of every shape, refusals in every state
 *   difftest.c     options, the mix of steps, the figures at the end
 *
 * Usual course: diff_start(); for each step arguments_*(), diff_send() and
 * diff_check_keys(); diff_stop(). The first difference ends the program, which prints the
 * step, the command and both replies.
 */
#ifndef LW_SIM_DIFF_H
#define LW_SIM_DIFF_H

#include "bytes.h"
#include "model_server.h"
#include "real_redis.h"
#include "rng.h"

#define DIFF_CLIENTS 4
#define DIFF_LINKS (DIFF_CLIENTS + 1)
#define DIFF_STRANGER DIFF_CLIENTS /* index of the link that subscribes to a pattern */
#define MAX_ARGUMENTS 40

struct arguments {
    struct buffer text[MAX_ARGUMENTS];
    int count;
};

/* A connection to each of the two servers. */
struct diff_link {
    struct real_link real;
    int64_t real_id;
    struct model_conn *model;
    bool open;
};

struct diff_figures {
    uint64_t commands, errors, grants, refusals, messages, key_states;
};

struct diff {
    uint64_t seed;
    uint64_t step;
    struct rng rng;
    int64_t time_us;
    struct real_redis real;
    struct model_server *model;
    struct diff_link command;            /* for the commands */
    struct diff_link listen[DIFF_LINKS]; /* the clients' subscriptions */
    struct real_link admin;              /* exempt from all faults */
    struct arguments last;
    struct buffer answer; /* the reply to the last diff_send() */
    struct diff_figures figures;
    int version; /* the real server's, 602 for 6.2 */
    bool texts;  /* it is the modelled version: error texts are compared, too */
    int fault;   /* index in diff_faults.c of the fault that is on, or -1 */
};

/* diff.c */
/* Starts both servers. Returns false if there is no such program, or if its clock cannot
 * be frozen. */
bool diff_start(struct diff *diff, const char *program, const char *clock_library);
void diff_stop(struct diff *diff);
void diff_set_time(struct diff *diff, int64_t time_us);
void diff_open(struct diff *diff, struct diff_link *link);
void diff_close(struct diff *diff, struct diff_link *link);
/* Sends the last arguments on a link to both servers, and compares the replies. */
void diff_send_on(struct diff *diff, struct diff_link *link);
void diff_send(struct diff *diff); /* on the link for commands; reply in diff->answer */
void diff_check_messages(struct diff *diff);
void diff_check_keys(struct diff *diff); /* all keys, with types, contents and TTLs */
void diff_admin(struct diff *diff, const char *words); /* to the real server alone */
void diff_admin_answer(struct diff *diff, const char *words, struct buffer *answer);
void diff_fail(struct diff *diff, const char *what) __attribute__((noreturn));

void arguments_clear(struct diff *diff);
void arguments_add(struct diff *diff, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void arguments_add_bytes(struct diff *diff, struct bytes value);
void arguments_words(struct diff *diff, const char *words); /* clears; splits at blanks */

/* The steps. */
void diff_step_lock(struct diff *diff);
void diff_step_clean(struct diff *diff);
void diff_step_plain(struct diff *diff);
void diff_step_listen(struct diff *diff);
void diff_step_fault(struct diff *diff);
void diff_clear_fault(struct diff *diff);
void diff_fixed_scripts(struct diff *diff);
void diff_fixed_refusals(struct diff *diff);
void diff_fixed_identity(struct diff *diff);

/* Draws one of the few keys that all steps share, so that they interfere (diff_locks.c).
 */
const char *diff_any_key(struct diff *diff);
void diff_client_channel(int client, char *out, size_t size);

#endif

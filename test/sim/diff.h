/* SPDX-License-Identifier: MIT
 *
 * What the files of difftest share: a real server and the model server at the same frozen
 * time, driven alike and compared after every step.
 *
 *   diff.c         the pair: start, send, compare answers, messages and keys
 *   diff_locks.c   random steps of the lock scripts
 *   diff_plain.c   random plain commands, strangers' doings included
 *   diff_faults.c  what can be made to fail on both
 *   diff_fixed.c   fixed lists: scripts of every shape, refusals in every state
 *   difftest.c     options, the mix of steps, the figures at the end
 *
 * Happy path: diff_start(); for each step arguments_*() and diff_send();
 * diff_check_keys(); diff_stop(). The first difference ends the program: step, command
 * and both answers are printed.
 */
#ifndef LW_SIM_DIFF_H
#define LW_SIM_DIFF_H

#include "bytes.h"
#include "model_server.h"
#include "real_redis.h"
#include "rng.h"

#define DIFF_CLIENTS 4
#define DIFF_LINKS (DIFF_CLIENTS + 1)
#define DIFF_STRANGER DIFF_CLIENTS /* the index of the one that listens to a pattern */
#define MAX_ARGUMENTS 40

struct arguments {
    struct buffer text[MAX_ARGUMENTS];
    int count;
};

/* A connection to both. */
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
    struct diff_link command;            /* where commands go */
    struct diff_link listen[DIFF_LINKS]; /* the clients' subscriptions */
    struct real_link admin;              /* past all faults */
    struct arguments last;
    struct buffer answer; /* to the last diff_send() */
    struct diff_figures figures;
    int version; /* the real server's, 602 for 6.2 */
    bool texts;  /* it is the modelled version, down to how it words its errors */
    int fault;   /* diff_faults.c: the one that is on, or -1 */
};

/* diff.c */
/* False: there is no such program, or its clock does not stand still. */
bool diff_start(struct diff *diff, const char *program, const char *clock_library);
void diff_stop(struct diff *diff);
void diff_set_time(struct diff *diff, int64_t time_us);
void diff_open(struct diff *diff, struct diff_link *link);
void diff_close(struct diff *diff, struct diff_link *link);
/* Sends the last arguments on a link to both, compares what they answer. */
void diff_send_on(struct diff *diff, struct diff_link *link);
void diff_send(struct diff *diff); /* on the link for commands; answer in diff->answer */
void diff_check_messages(struct diff *diff);
void diff_check_keys(struct diff *diff); /* all keys, with types, contents and TTLs */
void diff_admin(struct diff *diff, const char *words); /* to the real server alone */
void diff_admin_answer(struct diff *diff, const char *words, struct buffer *answer);
void diff_fail(struct diff *diff, const char *what) __attribute__((noreturn));

void arguments_clear(struct diff *diff);
void arguments_add(struct diff *diff, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void arguments_add_bytes(struct diff *diff, struct bytes value);
void arguments_words(struct diff *diff, const char *words); /* clears; split at blanks */

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

/* The few keys that all steps share, so that they meet (diff_locks.c). */
const char *diff_any_key(struct diff *diff);
void diff_client_channel(int client, char *out, size_t size);

#endif

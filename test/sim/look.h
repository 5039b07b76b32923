/* SPDX-License-Identifier: MIT
 *
 * What the server's keys say, asked past all faults, for who judges them. See look.c.
 */
#ifndef LW_SIM_LOOK_H
#define LW_SIM_LOOK_H

#include "world.h"

#define QUEUE "lockwire:2:queue:"
#define RW_QUEUE "lockwire:2:rwqueue:"

/* Whom the others ask from now on. NULL: the master, whoever that is. */
void look_from(struct model_server *server);
/* Words, then NULL. The answer is NUL-terminated and valid until the next one. */
const char *look_ask(const char *word, ...) __attribute__((sentinel));
/* Cuts the next string or number out of an answer; NULL: none, or nil. */
char *look_take(char **rest);
int64_t look_number(const char *answer);
void look_copy(char *to, size_t size, struct bytes from);

/* A read-write lock. */
struct look_rw {
    int64_t rcount, wcount, readers; /* as they are counted */
    int64_t reads, writes, ended;    /* as the holds are */
    char writer[64];
    bool ours;
};

struct look_rw look_at_rw(const char *name);
/* Could this member of the queue, `<r|w><permits> <token> <owner>`, enter now? */
bool look_could_enter(const char *name, const struct look_rw *rw, const char *member);
/* Who has a mutex, whether its value is marked or not. */
bool look_has_mutex(const char *name, const char *token);
/* The value with its mark taken off, in place. */
char *look_unmark(char *value);
/* What is left of a token's hold, of whatever kind the name is; -1: it has none. */
int64_t look_left_ms(unsigned name, const char *token);
bool look_has_hold(const char *name, const char *token);
bool look_is_free(const char *name); /* no such key */
bool look_is_crowded(unsigned name); /* more than a hundred in its queue, dead or alive */

#endif

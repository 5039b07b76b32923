/* SPDX-License-Identifier: MIT
 *
 * The state of the servers' keys, read past all faults, for the checks. See look.c.
 */
#ifndef LW_SIM_LOOK_H
#define LW_SIM_LOOK_H

#include "world.h"

#define QUEUE "lockwire:2:queue:"
#define RW_QUEUE "lockwire:2:rwqueue:"

/* Sets the server that the functions below ask. NULL: the present master. */
void look_from(struct model_server *server);
/* The arguments are words, then NULL. The reply is NUL-terminated and valid until the
 * next call. */
const char *look_ask(const char *word, ...) __attribute__((sentinel));
/* Cuts the next string or number out of a reply. Returns NULL at the end, or for nil. */
char *look_take(char **rest);
int64_t look_number(const char *answer);
void look_copy(char *to, size_t size, struct bytes from);

/* A read-write lock. */
struct look_rw {
    int64_t rcount, wcount, readers; /* by the lock's counters */
    int64_t reads, writes, ended;    /* by counting the holds */
    char writer[64];
    bool ours;
};

struct look_rw look_at_rw(const char *name);
/* Returns true if this member of the queue, `<r|w><permits> <token> <owner>`, could enter
 * now. */
bool look_could_enter(const char *name, const struct look_rw *rw, const char *member);
/* Returns true if the token has the mutex, with or without the queue mark. */
bool look_has_mutex(const char *name, const char *token);
/* Removes the queue mark from a value, in place. */
char *look_unmark(char *value);
/* Returns the time left of a token's hold, of any kind of lock, or -1 if it has none. */
int64_t look_left_ms(unsigned name, const char *token);
bool look_has_hold(const char *name, const char *token);
bool look_is_free(const char *name); /* there is no such key */
bool look_is_crowded(unsigned name); /* over 100 in its queue, dead or alive */

#endif

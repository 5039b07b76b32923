/* SPDX-License-Identifier: MIT */
/* Between turns.c and turns_events.c alone. */
#ifndef LW_TURNS_INSIDE_H
#define LW_TURNS_INSIDE_H
#include <stdbool.h>

struct lw__claim;
struct lw_lock;

/* No further handle joins it. */
void lw__turns_close(struct lw__claim *claim);
/* The claim is dead, or about to be; those who wait for it queue anew. */
void lw__turns_queue_anew(struct lw__claim *claim);
/* It is held by nobody here any more: turned to the next one, or released. */
void lw__turns_turn(struct lw__claim *claim);
/* Who waits has its turn: it holds. */
void lw__turns_begin(struct lw__claim *claim, struct lw_lock *lock);
/* A grant that its handle was not told of yet came to nothing: back to the head. */
void lw__turns_take_back(struct lw_lock *lock);
bool lw__turns_may_pass(const struct lw__claim *claim, const struct lw_lock *next);
#endif

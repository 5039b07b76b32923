/* SPDX-License-Identifier: MIT */
/* Those who wait for one name in LW_REDISSON, in one client: who asks for all of them. */
#ifndef LW_LINE_H
#define LW_LINE_H
#include <stdbool.h>
#include <stdint.h>

struct lw__claim;
struct lw__name;
struct lw_client;

/* A name that was released in LW_REDISSON and is left to others. */
struct lw__rest {
    int64_t until_us;
    uint32_t hash; /* of the name */
    bool own;      /* the message of that release is still to come to us, too */
    bool heard;    /* a message came while a release was in flight */
};
#define LW__RESTS 16

/* Who asks for all that wait for the name; NULL: nobody waits. */
struct lw__claim *lw__line_first(const struct lw__name *name);
/* How many handles wait for the name before those who wait by this claim. */
int64_t lw__line_before(const struct lw__claim *claim);
bool lw__line_is_behind(const struct lw__claim *claim); /* another one asks for it */
/* Of a claim that is new: may it not ask yet? lw__line_moved will have it ask. */
bool lw__line_must_wait(const struct lw__claim *claim);
/* How long the name stays with who has it, as far as is known, in ms. */
int64_t lw__line_busy_ms(const struct lw__name *name);
/* A claim of the name has made a step; `freed`: it has the lock no more. */
void lw__line_moved(struct lw__name *name, bool freed);
/* A release told so many listeners (-1: it found nothing to release), us among them?
 * Asking rests where there are others. */
void lw__line_released(struct lw_client *client, const char *name, int64_t told,
                       bool told_us);
/* The channel of the name `text` is not heard any more: who asks for it asks sooner. */
void lw__line_unheard(struct lw_client *client, const char *text);
void lw__line_message(struct lw_client *client, const char *text);
#endif

/* SPDX-License-Identifier: MIT */
/*
 * The ranks of commands: see backlog.h. Happy path: push, and pull what is next when
 * there is room. A lease must not run out behind the many who ask for one, so there are
 * several ranks. Nothing can fail: a command brings its own link.
 */
#include "redis/backlog.h"

#include "base/owner.h"

static struct lw__rank *rank_of(struct lw__backlog *backlog,
                                const struct lw__command *command)
{
    return &backlog->ranks[command->type->order];
}

void lw__backlog_init(struct lw__backlog *backlog)
{
    for (unsigned order = 0; order < LW__ORDERS; order++) {
        backlog->ranks[order] = (struct lw__rank){NULL, &backlog->ranks[order].first};
    }
    backlog->count = 0;
}

/* One that is sent again, as EVAL, goes behind others of that kind, so that requests of
 * one client keep their order. */
void lw__backlog_push(struct lw__backlog *backlog, struct lw__command *command,
                      bool resent)
{
    struct lw__rank *rank = rank_of(backlog, command);
    struct lw__request *r = &command->request, **at = resent ? &rank->first : rank->end;

    while (resent && *at != NULL && LW__OWNER(struct lw__command, request, *at)->eval) {
        at = &(*at)->next;
    }
    backlog->count++;
    r->next = *at;
    r->prev = at;
    *at = r;
    if (r->next != NULL) {
        r->next->prev = &r->next;
    } else {
        rank->end = &r->next;
    }
}

void lw__backlog_pull(struct lw__backlog *backlog, struct lw__command *command)
{
    struct lw__request *r = &command->request;

    backlog->count--;
    *r->prev = r->next;
    if (r->next != NULL) {
        r->next->prev = r->prev;
    } else {
        rank_of(backlog, command)->end = r->prev;
    }
    r->next = NULL;
    r->prev = NULL;
}

struct lw__command *lw__backlog_next(const struct lw__backlog *backlog,
                                     enum lw__order last)
{
    for (unsigned order = 0; order <= last; order++) {
        if (backlog->ranks[order].first != NULL) {
            return LW__OWNER(struct lw__command, request, backlog->ranks[order].first);
        }
    }
    return NULL;
}

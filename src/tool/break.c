/* SPDX-License-Identifier: MIT */
/*
 * `lockwire break`: takes a lock away from its holders. Owns whom: those that hold when
 * it looks, each by its own token, so that whoever comes after is left alone; and what
 * another library made only if that is wanted. Must not know how.
 *
 * Happy path: the link comes up, reach_look; on_inspected keeps the tokens; lw_break
 * answers LW_OK for each. Of more holders than a look shows the others are found by the
 * next one.
 */
#include "base/escape.h"
#include "report.h"
#include "lockwire.h"
#include "subcommands.h"
#include "options.h"
#include "status_format.h"
#include "query.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UUID 36
#define PADDED 23  /* digits of a number that has zeros before it */
#define SHOWN 1024 /* bytes of a plain string: what is as long may be longer */

struct breaking {
    struct reach *reach;
    char **tokens;      /* of the last look, to break in turn */
    size_t count, next; /* of these */
    size_t left; /* of those that held at the first look, how many it did not show */
    bool looked, any_broken;
};

static void finish(struct breaking *breaking, const char *why)
{
    struct reach *reach = breaking->reach;

    if (!breaking->any_broken) {
        say("'%s' is not broken: %s", reach->options->name, why);
    }
    reach_end(reach, breaking->any_broken ? EXIT_SUCCESS : STATUS_NOT_HELD);
}

/* ---- whose it is ---- */

/* A number and what ends it; NULL: it is none. */
static const char *behind_number(const char *text, char end)
{
    size_t digits = strspn(text, "0123456789");

    return digits > 0 && *text != '0' && text[digits] == end ? text + digits + 1 : NULL;
}

/* `<client uuid>:<n>:<window ms>-`, and nothing else; n alone, or of 23 digits. */
static bool is_our_token(const char *token)
{
    for (size_t i = 0; i < UUID; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        if (token[i] == '\0' ||
            strchr(dash ? "-" : "0123456789abcdef", token[i]) == NULL) {
            return false;
        }
    }
    if (token[UUID] != ':') {
        return false;
    }
    token += UUID + 1;
    if (strspn(token, "0123456789") == PADDED) {
        token += strspn(token, "0");
    }
    token = behind_number(token, ':');
    token = token != NULL ? behind_number(token, '-') : NULL;
    return token != NULL && *token == '\0';
}

/* Why the only holder of a plain string is not of this library; read-write locks are. */
static bool is_foreign(const struct lw_inspection *seen, char *why, size_t size)
{
    const struct lw_inspected *holder = lw_inspection_holder(seen, 0);
    char token[1000];

    if (holder == NULL || holder->mode != LW_MUTEX) {
        return false;
    }
    lw__escape(holder->token, token, sizeof(token));
    if (!is_our_token(holder->token)) {
        (void)snprintf(
            why, size,
            "another library's token '%s' holds it, and goes only with --foreign", token);
    } else if (holder->remaining_ms < 0) {
        (void)snprintf(why, size,
                       "it has no TTL, as no lock of ours, and goes only with "
                       "--foreign");
    } else {
        return false;
    }
    return true;
}

/* Of ours it may also be given as it stands in Redis while others queue: with a + at its
 * end. */
static bool means(const char *given, const char *token)
{
    size_t length = strlen(token);

    return strcmp(given, token) == 0 ||
           (is_our_token(token) && strlen(given) == length &&
            strncmp(given, token, length - 1) == 0 && given[length - 1] == '+');
}

/* Does --token mean another one? */
static bool is_spared(const struct breaking *breaking, const struct lw_inspection *seen)
{
    const char *token = breaking->reach->options->token;

    return token != NULL && seen->holder_count == 1 &&
           !means(token, lw_inspection_holder(seen, 0)->token);
}

/* ---- one after the other ---- */

static void forget(struct breaking *breaking)
{
    for (size_t i = 0; i < breaking->count; i++) {
        free(breaking->tokens[i]);
    }
    free(breaking->tokens);
    breaking->tokens = NULL;
    breaking->count = breaking->next = 0;
}

static bool add(struct breaking *breaking, const char *token)
{
    char *copy = strdup(token);

    if (copy != NULL) {
        breaking->tokens[breaking->count++] = copy;
    }
    return copy != NULL;
}

/* At most as many as held at the first look: those who followed them are not meant. */
static bool keep(struct breaking *breaking, const struct lw_inspection *seen)
{
    const char *only = breaking->reach->options->token;
    bool kept = true;

    if (!breaking->looked && only == NULL) {
        breaking->left = seen->holder_total;
    }
    breaking->looked = true;
    forget(breaking);
    breaking->tokens = calloc(seen->holder_count + 1, sizeof(*breaking->tokens));
    if (breaking->tokens == NULL) {
        return false;
    }
    if (only != NULL) {
        return add(breaking, only);
    }
    for (size_t i = 0; kept && i < seen->holder_count && breaking->left > 0; i++) {
        kept = add(breaking, lw_inspection_holder(seen, i)->token);
        breaking->left--;
    }
    return kept;
}

static bool is_cut(const struct lw_inspection *seen)
{
    const struct lw_inspected *holder = lw_inspection_holder(seen, 0);

    return holder != NULL && holder->mode == LW_MUTEX && strlen(holder->token) >= SHOWN;
}

/* What stands there is too long to be shown (or the server does not let us look): with
 * --foreign the operator means it as it is. */
static bool keep_unseen(struct breaking *breaking)
{
    const char *only = breaking->reach->options->token;

    forget(breaking);
    breaking->looked = true;
    breaking->tokens = calloc(1, sizeof(*breaking->tokens));
    if (breaking->tokens == NULL) {
        return false;
    }
    if (only != NULL) {
        return add(breaking, only);
    }
    breaking->count = 1; /* NULL: whoever holds it */
    return true;
}

static void go_on(struct breaking *breaking);

static void on_broken(struct lw_client *client, int result, const char *why, void *arg)
{
    struct breaking *breaking = arg;

    (void)client;
    if (breaking->reach->ending) {
        return;
    }
    if (result != LW_OK && result != LW_ENOTHELD) {
        bool unknown = result == LW_ECONN && breaking->any_broken;

        reach_fail(breaking->reach, unknown ? LW_EUNKNOWN : result, why);
        return;
    }
    breaking->any_broken = breaking->any_broken || result == LW_OK;
    breaking->next++;
    go_on(breaking);
}

static void on_inspected(struct lw_client *client, int result,
                         const struct lw_inspection *seen, const char *why, void *arg)
{
    struct breaking *breaking = arg;
    char foreign[1200];

    (void)client;
    if (breaking->reach->ending) {
        return;
    }
    if ((result == LW_EREDIS || (result == LW_OK && is_cut(seen))) &&
        breaking->reach->options->foreign && !breaking->looked) {
        if (keep_unseen(breaking)) {
            go_on(breaking);
        } else {
            reach_fail(breaking->reach, LW_ENOMEM, "");
        }
        return;
    }
    if (result != LW_OK) {
        reach_fail(breaking->reach, result, why);
    } else if (*seen->stranger) {
        finish(breaking, "the key is a stranger's, and is not touched");
    } else if (!breaking->reach->options->foreign && !is_spared(breaking, seen) &&
               is_foreign(seen, foreign, sizeof(foreign))) {
        finish(breaking, foreign);
    } else if (!keep(breaking, seen)) {
        reach_fail(breaking->reach, LW_ENOMEM, "");
    } else {
        go_on(breaking);
    }
}

static void go_on(struct breaking *breaking)
{
    struct reach *reach = breaking->reach;
    int error;

    if (breaking->next < breaking->count) {
        error = lw_break(reach->client, reach->options->name,
                         breaking->tokens[breaking->next], on_broken, breaking);
        if (error != 0) {
            reach_fail(reach, error, "");
        }
    } else if (breaking->count > 0 && breaking->left > 0) {
        reach_look(reach, on_inspected, breaking);
    } else if (breaking->count == 0) {
        finish(breaking, "nobody holds it");
    } else {
        finish(breaking, reach->options->token != NULL ? "that token does not hold it"
                                                       : "it changed hands meanwhile");
    }
}

static void on_up(struct reach *reach)
{
    struct breaking *breaking = reach->arg;

    breaking->reach = reach;
    reach_look(reach, on_inspected, breaking);
}

int break_lock(const struct options *options)
{
    static const struct reach_events events = {.up = on_up};
    struct breaking breaking = {0};
    int code = reach(options, &events, "lockwire-break", &breaking);

    forget(&breaking);
    return code;
}

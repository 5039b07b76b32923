/* SPDX-License-Identifier: MIT */
/* break: force-releases a lock. Only the clients that hold it at the first look are
 * meant, each by its token, so that later holders keep it. Keys that another library
 * wrote are released only with --foreign.
 *
 * query_inspect; on_inspected keeps the tokens; lw_break is called for each of them. If
 * there are more holders than one reply lists, it looks again. */
#include "break.h"

#include "base/escape.h"
#include "lockwire.h"
#include "options.h"
#include "query.h"
#include "quorum_query.h"
#include "report.h"
#include "status_format.h"
#include "subcommands.h"
#include "token.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN 1024 /* lw_inspect cuts a longer plain string */

struct operation {
    struct query query;
    char **tokens; /* as listed by the last look; an element is NULL for any holder */
    size_t count, next;
    size_t remaining; /* holders of the first look that have not been listed yet */
    bool inspected, any_broken;
    bool gone; /* no holder was there to break */
};

static void finish(struct operation *op, const char *why)
{
    struct query *query = &op->query;

    if (!op->any_broken && query->silent) {
        (void)snprintf(query->error, sizeof(query->error), "%s", why);
    } else if (!op->any_broken) {
        report("cannot break '%s': %s", query->options->name, why);
    }
    query_end(query, op->any_broken ? EXIT_SUCCESS : EXIT_NOT_HELD);
}

/* ---- which holders ---- */

/* Returns true, with the reason, if a plain string was not written by this library. */
static bool is_foreign(const struct lw_inspection *seen, char *why, size_t size)
{
    const struct lw_inspected *holder = lw_inspection_holder(seen, 0);
    char token[STATUS_VALUE_SIZE];

    if (holder == NULL || holder->mode != LW_MUTEX) {
        return false;
    }
    status_value(holder->token, token);
    if (!token_is_ours(holder->token)) {
        (void)snprintf(why, size,
                       "held by another library or version with the token '%s'; use "
                       "--foreign to break the lock anyway",
                       token);
    } else if (holder->remaining_ms < 0) {
        (void)snprintf(
            why, size,
            "the key has no TTL, unlike a lock of lockwire's; use --foreign to "
            "break the lock anyway");
    } else {
        return false;
    }
    return true;
}

/* Returns true if --token names another holder. */
static bool token_differs(const struct operation *op, const struct lw_inspection *seen)
{
    const char *token = op->query.options->token;

    return token != NULL && seen->holder_count == 1 &&
           !token_matches(token, lw_inspection_holder(seen, 0)->token);
}

/* ---- the breaks ---- */

static void free_tokens(struct operation *op)
{
    for (size_t i = 0; i < op->count; i++) {
        free(op->tokens[i]);
    }
    free(op->tokens);
    op->tokens = NULL;
    op->count = op->next = 0;
}

static bool add(struct operation *op, const char *token)
{
    char *copy = strdup(token);

    if (copy != NULL) {
        op->tokens[op->count++] = copy;
    }
    return copy != NULL;
}

/* Keeps the tokens to break: the given one, or as many of those listed as there were
 * holders at the first look. With `seen` NULL the value is too long to be listed, or may
 * not be read: any holder is meant. Returns false if there is no memory. */
static bool keep_tokens(struct operation *op, const struct lw_inspection *seen)
{
    const char *only = op->query.options->token;
    bool kept = true;

    if (!op->inspected && only == NULL && seen != NULL) {
        op->remaining = seen->holder_total;
    }
    op->inspected = true;
    free_tokens(op);
    op->tokens = calloc(seen != NULL ? seen->holder_count + 1 : 1, sizeof(*op->tokens));
    if (op->tokens == NULL) {
        return false;
    }
    if (only != NULL) {
        return add(op, only);
    }
    if (seen == NULL) {
        op->count = 1;
        return true;
    }
    for (size_t i = 0; kept && i < seen->holder_count && op->remaining > 0; i++) {
        kept = add(op, lw_inspection_holder(seen, i)->token);
        op->remaining--;
    }
    return kept;
}

static bool is_truncated(const struct lw_inspection *seen)
{
    const struct lw_inspected *holder = lw_inspection_holder(seen, 0);

    return holder != NULL && holder->mode == LW_MUTEX && strlen(holder->token) >= SHOWN;
}

static void break_next(struct operation *op);

static void on_broken(struct lw_client *client, int result, const char *why, void *arg)
{
    struct operation *op = arg;

    (void)client;
    if (op->query.ending) {
        return;
    }
    if (result != LW_OK && result != LW_ENOTHELD) {
        bool unknown = result == LW_ECONN && op->any_broken;

        query_fail(&op->query, unknown ? LW_EUNKNOWN : result, why);
        return;
    }
    op->any_broken = op->any_broken || result == LW_OK;
    op->next++;
    break_next(op);
}

static void on_inspected(struct lw_client *client, int result,
                         const struct lw_inspection *seen, const char *why, void *arg)
{
    struct operation *op = arg;
    const struct options *options = op->query.options;
    char reason[1200], type[200];

    (void)client;
    if (op->query.ending) {
        return;
    }
    if ((result == LW_EREDIS || (result == LW_OK && is_truncated(seen))) &&
        options->foreign && !op->inspected) {
        result = LW_OK;
        seen = NULL;
    }
    if (result != LW_OK) {
        query_fail(&op->query, result, why);
    } else if (seen != NULL && *seen->foreign) {
        lw__escape(seen->foreign, type, sizeof(type));
        (void)snprintf(reason, sizeof(reason),
                       "the key contains a %s in an unknown format; key left unchanged",
                       type);
        finish(op, reason);
    } else if (seen != NULL && !options->foreign && !token_differs(op, seen) &&
               is_foreign(seen, reason, sizeof(reason))) {
        finish(op, reason);
    } else if (!keep_tokens(op, seen)) {
        query_fail(&op->query, LW_ENOMEM, "");
    } else {
        break_next(op);
    }
}

static void break_next(struct operation *op)
{
    struct query *query = &op->query;
    int error;

    if (op->next < op->count) {
        error = lw_break(query->client, query->options->name, op->tokens[op->next],
                         on_broken, op);
        if (error != 0) {
            query_fail(query, error, "");
        }
    } else if (op->count > 0 && op->remaining > 0) {
        query_inspect(query, on_inspected, op);
    } else if (op->count == 0) {
        op->gone = true;
        finish(op, "the lock is not held");
    } else {
        op->gone = !op->any_broken;
        finish(op, query->options->token != NULL ? "not held by the given --token"
                                                 : "the holder changed in the meantime");
    }
}

static void on_up(struct query *query)
{
    query_inspect(query, on_inspected, query->arg);
}

static const struct query_events events = {.up = on_up};

enum break_result break_vote(const struct options *options, const char *token,
                             const struct quorum_member *at, int *code,
                             char why[LW_WHY_SIZE])
{
    struct options own = *options;
    struct operation op = {.query = {.events = &events}};

    own.token = token;
    op.query.arg = &op;
    *code = quorum_query(&op.query, &own, at, "lockwire-break");
    free_tokens(&op);
    (void)snprintf(why, LW_WHY_SIZE, "%s", *op.query.error ? op.query.error : "no reply");
    return *code == EXIT_SUCCESS ? BREAK_DONE : op.gone ? BREAK_GONE : BREAK_FAILED;
}

int break_lock(const struct options *options)
{
    struct operation op = {.query = {.options = options, .events = &events}};
    int code;

    if (options->quorum) {
        return break_quorum(options);
    }
    op.query.arg = &op;
    code = query(&op.query, "lockwire-break");
    free_tokens(&op);
    return code;
}

/* SPDX-License-Identifier: MIT */
/* The calls and callbacks of inspect/scene.h. on_inspected copies everything that is
 * valid only during the callback to `look`. */
#include "inspect/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct peer *c;
struct look look;
static bool in_call;

void three_clients(void)
{
    look.then = NULL;
    two_clients();
    c = peer_ready("c", NULL);
}

static bool is_fair(struct lw_client *client, int status, const char *what)
{
    stage_note("%s %s", what, status_name(status));
    if (in_call) {
        stage_complain("rule 1: %s came inside a call", what);
    } else if (look.peer->client == NULL || client != look.peer->client ||
               look.peer->closed) {
        stage_complain("%s came after its client's end", what);
    } else {
        return true;
    }
    return false;
}

static void copy(struct entry *to, const struct lw_inspected *from)
{
    (void)snprintf(to->token, sizeof(to->token), "%s", from->token);
    (void)snprintf(to->owner, sizeof(to->owner), "%s", from->owner);
    (void)snprintf(to->client, sizeof(to->client), "%s", from->client);
    (void)snprintf(to->user, sizeof(to->user), "%s", from->user);
    (void)snprintf(to->note, sizeof(to->note), "%s", from->note);
    to->since_ms = from->since_ms;
    to->remaining_ms = from->remaining_ms;
    to->waited_ms = from->waited_ms;
    to->fence = from->fence;
    to->permits = from->permits;
    to->mode = from->mode;
}

static void copy_entries(const struct lw_inspection *seen)
{
    for (size_t i = 0; i < seen->holder_count && i < MOST; i++) {
        copy(&look.holders[i], lw_inspection_holder(seen, i));
    }
    for (size_t i = 0; i < seen->waiter_count && i < MOST; i++) {
        copy(&look.waiters[i], lw_inspection_waiter(seen, i));
    }
    if (lw_inspection_holder(seen, seen->holder_count) != NULL ||
        lw_inspection_waiter(seen, seen->waiter_count) != NULL) {
        stage_complain("an entry behind the last one");
    }
    if (seen->entry_size != sizeof(struct lw_inspected)) {
        stage_complain("entries of another size");
    }
}

static void take(const struct lw_inspection *seen)
{
    copy_entries(seen);
    look.holder_count = seen->holder_count;
    look.waiter_count = seen->waiter_count;
    look.holder_total = seen->holder_total;
    look.waiter_total = seen->waiter_total;
    (void)snprintf(look.foreign, sizeof(look.foreign), "%s", seen->foreign);
    (void)snprintf(look.server, sizeof(look.server), "%s", seen->server);
    (void)snprintf(look.role, sizeof(look.role), "%s", seen->role);
}

static void on_inspected(struct lw_client *client, int status,
                         const struct lw_inspection *seen, const char *why, void *arg)
{
    if (!is_fair(client, status, "inspected") || arg != &look) {
        return;
    }
    if (look.status != PENDING || (status == LW_OK) != (seen != NULL)) {
        stage_complain("rule 2: inspected twice, or %s with%s a result",
                       status_name(status), seen != NULL ? "" : "out");
    }
    look.status = status;
    (void)snprintf(look.why, sizeof(look.why), "%s", why);
    if (seen != NULL) {
        take(seen);
    }
    if (look.then != NULL) {
        look.then(look.peer);
    }
}

static void on_changed(struct lw_watcher *watch, int status,
                       const struct lw_inspection *seen, const char *why, void *arg)
{
    if (in_call) {
        stage_complain("rule 1: a watch's callback came inside a call");
    }
    if (watch != look.watch || arg != &look || (status == LW_OK) != (seen != NULL) ||
        look.peer->client == NULL || look.peer->closing) {
        stage_complain("rule 2: a watch's callback out of place");
        return;
    }
    look.calls++;
    look.status = status;
    (void)snprintf(look.why, sizeof(look.why), "%s", why);
    if (seen != NULL) {
        take(seen);
    }
    stage_note("seen %s", seen == NULL    ? status_name(status)
                          : *look.foreign ? look.foreign
                          : *found()      ? found()
                                          : "free");
    if (look.then != NULL) {
        look.then(look.peer);
    }
}

static void on_broken(struct lw_client *client, int status, const char *why, void *arg)
{
    if (!is_fair(client, status, "broken") || arg != &look) {
        return;
    }
    if (look.broken != PENDING) {
        stage_complain("rule 2: broken twice");
    }
    look.broken = status;
    (void)snprintf(look.why, sizeof(look.why), "%s", why);
    if (look.then != NULL) {
        look.then(look.peer);
    }
}

static void on_yielded(struct lw_client *client, int status, size_t holders,
                       size_t reached, const char *why, void *arg)
{
    if (!is_fair(client, status, "yielded") || arg != &look) {
        return;
    }
    if (look.yielded != PENDING || reached > holders) {
        stage_complain("rule 2: yielded twice, or %zu of %zu reached", reached, holders);
    }
    look.yielded = status;
    look.asked = holders;
    look.reached = reached;
    (void)snprintf(look.why, sizeof(look.why), "%s", why);
    if (look.then != NULL) {
        look.then(look.peer);
    }
}

static void prepare(struct peer *peer)
{
    void (*then)(struct peer *) = look.then;

    look = (struct look){.peer = peer,
                         .status = PENDING,
                         .broken = PENDING,
                         .yielded = PENDING,
                         .then = then};
}

void call_inspect(struct peer *peer, const char *name)
{
    prepare(peer);
    in_call = true;
    int result = lw_inspect(peer->client, name, on_inspected, &look);
    in_call = false;
    if (result != LW_OK) {
        stage_complain("lw_inspect: %s: %s", status_name(result), peer->error);
    }
}

void call_break(struct peer *peer, const char *name, const char *token)
{
    prepare(peer);
    in_call = true;
    int result = lw_break(peer->client, name, token, on_broken, &look);
    in_call = false;
    if (result != LW_OK) {
        stage_complain("lw_break: %s: %s", status_name(result), peer->error);
    }
}

void call_yield(struct peer *peer, const char *name)
{
    prepare(peer);
    in_call = true;
    int result = lw_ask_to_yield(peer->client, name, on_yielded, &look);
    in_call = false;
    if (result != LW_OK) {
        stage_complain("lw_ask_to_yield: %s: %s", status_name(result), peer->error);
    }
}

void begin_watch(struct peer *peer, const char *name, uint32_t interval_ms)
{
    struct lw_watch_options options = LW_WATCH_OPTIONS_INIT;

    prepare(peer);
    options.interval_ms = interval_ms;
    in_call = true;
    int result = lw_watch(peer->client, name, &options, on_changed, &look, &look.watch);
    in_call = false;
    if (result != LW_OK) {
        stage_complain("lw_watch: %s: %s", status_name(result), peer->error);
    }
}

void end_watch(void)
{
    in_call = true;
    lw_watcher_free(look.watch);
    in_call = false;
    look.watch = NULL;
}

static void refused(struct peer *peer, int result, int error, const char *text)
{
    if (result != error || strstr(peer->error, text) == NULL) {
        stage_fail("%s, not %s: \"%s\" does not say \"%s\"", status_name(result),
                   status_name(error), peer->error, text);
    }
}

void inspect_refused(struct peer *peer, const char *name, int error, const char *text)
{
    prepare(peer);
    peer->error[0] = '\0';
    refused(peer, lw_inspect(peer->client, name, on_inspected, &look), error, text);
}

void break_refused(struct peer *peer, const char *name, int error, const char *text)
{
    prepare(peer);
    peer->error[0] = '\0';
    refused(peer, lw_break(peer->client, name, NULL, on_broken, &look), error, text);
}

void yield_refused(struct peer *peer, const char *name, int error, const char *text)
{
    prepare(peer);
    peer->error[0] = '\0';
    refused(peer, lw_ask_to_yield(peer->client, name, on_yielded, &look), error, text);
}

void look_at(struct peer *peer, const char *name)
{
    call_inspect(peer, name);
    EXPECT("inspected OK");
}

void break_it(struct peer *peer, const char *name, const char *token, int status)
{
    call_break(peer, name, token);
    UNTIL(look.broken != PENDING);
    assert_int_equal(look.broken, status);
}

static void word_of(const struct entry *entry, char *word, size_t size)
{
    char permits[16] = "", client[64] = "-";

    if (entry->permits) {
        (void)snprintf(permits, sizeof(permits), "%u", entry->permits);
    }
    (void)sscanf(entry->client, "%63s", client);
    (void)snprintf(word, size, "%c%s %s %s", "mwr"[entry->mode], permits,
                   entry -> owner[0] ? entry -> owner : "-", client);
}

static int by_words(const void *a, const void *b)
{
    char one[256], two[256];

    word_of(a, one, sizeof(one));
    word_of(b, two, sizeof(two));
    return strcmp(one, two);
}

const char *found(void)
{
    static char text[65536];
    char word[256];
    size_t used = 0;

    text[0] = '\0';
    qsort(look.holders, look.holder_count, sizeof(*look.holders), by_words);
    for (size_t i = 0; i < look.holder_count; i++) {
        word_of(&look.holders[i], word, sizeof(word));
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
                                 i ? ", " : "held by ", word);
    }
    for (size_t i = 0; i < look.waiter_count; i++) {
        word_of(&look.waiters[i], word, sizeof(word));
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%zu %s",
                                 used ? "; " : "", i + 1, word);
    }
    return text;
}

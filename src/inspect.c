/* SPDX-License-Identifier: MIT */
/*
 * lw_inspect and lw_break: who holds a name, who waits for it, and taking it away. Owns
 * the calls on their way. Must not touch any handle: a holder of ours learns from its
 * renewal.
 *
 * Happy path: inspect.lua's answer -> take_in(); the notes of the clients in it (MGET) ->
 * the callback. lw_break takes the first step alone, then releases what it found there,
 * each holder by its token, so that a holder who came meanwhile is left alone.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define HOLDERS 100 /* that are shown; and as many waiters of each queue */
#define WAITERS 100
#define BROKEN_HOLDERS 1000 /* that one lw_break takes the lock from */
#define ENTRIES (HOLDERS + 2 * WAITERS)

/* ---- the script's answer ---- */

struct reader {
    struct lw__inquiry *inquiry;
    struct lw_inspected *next; /* the entry to fill in */
    char *text;                /* where the next string goes */
    int64_t server_us;
};

/* Bytes that all strings of the answer take, each with a NUL. */
static size_t text_size(const struct lw__reply *reply)
{
    size_t size = 0, length = 0;

    if (lw__reply_type(reply) == LW__REPLY_STRING) {
        (void)lw__reply_text(reply, &length);
    }
    size = length + 1;
    for (size_t i = 0; i < lw__reply_count(reply); i++) {
        size += text_size(lw__reply_at(reply, i));
    }
    return size;
}

static const char *keep(struct reader *r, const char *text, size_t length)
{
    char *kept = r->text;

    memcpy(kept, text, length);
    kept[length] = '\0';
    r->text += length + 1;
    return kept;
}

static const char *string_at(const struct lw__reply *reply, size_t index, size_t *length)
{
    const struct lw__reply *at = lw__reply_at(reply, index);

    *length = 0;
    return lw__reply_type(at) == LW__REPLY_STRING ? lw__reply_text(at, length) : NULL;
}

static struct lw_inspected *entry(struct reader *r, enum lw_mode mode)
{
    *r->next =
        (struct lw_inspected){.token = "", .owner = "", .client = "", .mode = mode};
    return r->next++;
}

static bool take_mutex(struct reader *r, const struct lw__reply *reply, int64_t ttl_ms)
{
    size_t length;
    const char *token = string_at(reply, 3, &length);
    struct lw_inspected *holder = entry(r, LW_MUTEX);

    if (token == NULL) {
        return false;
    }
    holder->token = keep(r, token, length);
    holder->remaining_ms = ttl_ms;
    return true;
}

/* token, "<end ms> <r|w> <owner>", fence: each hold's own lease counts. What is not of
 * that form is no hold, as for the scripts. */
static bool take_holds(struct reader *r, const struct lw__reply *holds)
{
    for (size_t i = 0; i + 2 < lw__reply_count(holds); i += 3) {
        size_t length, record_length, fence_length;
        const char *token = string_at(holds, i, &length);
        const char *record = string_at(holds, i + 1, &record_length);
        const char *fence = string_at(holds, i + 2, &fence_length);
        struct lw_inspected *holder;
        long long ending;
        char *end;

        if (token == NULL || record == NULL || fence == NULL) {
            return false;
        }
        ending = strtoll(record, &end, 10);
        if (ending < 0 || (strncmp(end, " r ", 3) != 0 && strncmp(end, " w ", 3) != 0)) {
            continue;
        }
        holder = entry(r, end[1] == 'w' ? LW_EXCLUSIVE : LW_SHARED);
        holder->token = keep(r, token, length);
        holder->owner = keep(r, end + 3, strlen(end + 3));
        holder->remaining_ms = ending - r->server_us / LW__MS; /* neither is negative */
        if (holder->remaining_ms < 0) {
            holder->remaining_ms = 0;
        }
        holder->fence = strtoull(fence, NULL, 10);
    }
    return true;
}

/* A mutex's member is the token; a read-write lock's `<r|w><permits> <token> <owner>`.
 * NULL: of no such form, the scripts will drop it. */
static struct lw_inspected *take_member(struct reader *r, const char *member,
                                        size_t length, bool rw)
{
    struct lw_inspected *waiter;
    const char *token, *owner;

    if (!rw) {
        waiter = entry(r, LW_MUTEX);
        waiter->token = keep(r, member, length);
        return waiter;
    }
    token = strchr(member, ' ');
    owner = token != NULL ? strchr(token + 1, ' ') : NULL;
    if (owner == NULL || (*member != 'r' && *member != 'w')) {
        return NULL;
    }
    waiter = entry(r, *member == 'w' ? LW_EXCLUSIVE : LW_SHARED);
    waiter->permits = (uint32_t)strtoul(member + 1, NULL, 10);
    waiter->token = keep(r, token + 1, (size_t)(owner - token - 1));
    waiter->owner = keep(r, owner + 1, strlen(owner + 1));
    return waiter;
}

/* length, TTL, then member and ticket in turn. */
static bool take_queue(struct reader *r, const struct lw__reply *queue, bool rw)
{
    int64_t total = lw__reply_integer(lw__reply_at(queue, 0));

    if (total > 0) {
        r->inquiry->found.waiter_total += (size_t)total;
    }
    for (size_t i = 2; i + 1 < lw__reply_count(queue); i += 2) {
        size_t length, ticket_length;
        const char *member = string_at(queue, i, &length);
        const char *ticket = string_at(queue, i + 1, &ticket_length);
        struct lw_inspected *waiter;
        double since;

        if (member == NULL || ticket == NULL) {
            return false;
        }
        waiter = take_member(r, member, length, rw);
        since = strtod(ticket, NULL); /* 0: an upgrade, ahead of all */
        if (waiter != NULL && since > 0 && since < (double)r->server_us) {
            waiter->waited_ms = (r->server_us - (int64_t)since) / LW__MS;
        }
    }
    return true;
}

static bool take_holders(struct reader *r, const struct lw__reply *reply)
{
    size_t length;
    const char *type = string_at(reply, 0, &length);
    const struct lw__reply *ttl = lw__reply_at(reply, 1);
    bool ours = lw__reply_count(lw__reply_at(reply, 4)) > 0;

    if (type == NULL || lw__reply_type(ttl) != LW__REPLY_INTEGER) {
        return false;
    }
    if (strcmp(type, "string") == 0) {
        return take_mutex(r, reply, lw__reply_integer(ttl));
    }
    if (ours) {
        return take_holds(r, lw__reply_at(reply, 5));
    }
    if (strcmp(type, "none") != 0) {
        r->inquiry->found.stranger = keep(r, type, length);
    }
    return true;
}

/* By the counts of a read-write lock: mode, rcount, readers, writer, wcount, soonest. */
static size_t total_holds(const struct lw__reply *counts, size_t shown)
{
    size_t length, total;
    const char *reads, *writes;

    if (lw__reply_count(counts) < 5) {
        return shown;
    }
    reads = string_at(counts, 1, &length);
    writes = string_at(counts, 4, &length);
    if (reads == NULL || writes == NULL) {
        return shown;
    }
    total = strtoul(reads, NULL, 10) + strtoul(writes, NULL, 10);
    return total > shown ? total : shown;
}

static size_t count_entries(const struct lw__reply *reply)
{
    return 1 + lw__reply_count(lw__reply_at(reply, 5)) +
           lw__reply_count(lw__reply_at(reply, 6)) +
           lw__reply_count(lw__reply_at(reply, 7));
}

static bool is_answer(const struct lw__reply *reply)
{
    return lw__reply_type(reply) == LW__REPLY_ARRAY && lw__reply_count(reply) == 8 &&
           lw__reply_integer(lw__reply_at(reply, 2)) >= 0 &&
           lw__reply_type(lw__reply_at(reply, 6)) == LW__REPLY_ARRAY &&
           lw__reply_count(lw__reply_at(reply, 6)) >= 2 &&
           lw__reply_type(lw__reply_at(reply, 7)) == LW__REPLY_ARRAY &&
           lw__reply_count(lw__reply_at(reply, 7)) >= 2;
}

/* 1, 0: not an answer of ours, LW_ENOMEM. */
static int take_in(struct lw__inquiry *inquiry, const struct lw__reply *reply)
{
    struct lw_inspection *found = &inquiry->found;
    struct reader r = {.inquiry = inquiry};
    /* a type's word and a queue's members are copied at most once, tokens twice */
    size_t room = 2 * text_size(reply) + 64;

    if (!is_answer(reply)) {
        return 0;
    }
    inquiry->entries = calloc(count_entries(reply), sizeof(*inquiry->entries));
    inquiry->texts = malloc(room);
    if (inquiry->entries == NULL || inquiry->texts == NULL) {
        return LW_ENOMEM;
    }
    r.next = inquiry->entries;
    r.text = inquiry->texts;
    r.server_us = lw__reply_integer(lw__reply_at(reply, 2));
    if (!take_holders(&r, reply)) {
        return 0;
    }
    found->holder_count = (size_t)(r.next - inquiry->entries);
    found->holder_total = total_holds(lw__reply_at(reply, 4), found->holder_count);
    if (!take_queue(&r, lw__reply_at(reply, 6), false) ||
        !take_queue(&r, lw__reply_at(reply, 7), true)) {
        return 0;
    }
    found->waiter_count = (size_t)(r.next - inquiry->entries) - found->holder_count;
    found->holders_ = inquiry->entries;
    found->waiters_ = inquiry->entries + found->holder_count;
    return 1;
}

/* ---- the calls ---- */

static void finish(struct lw__inquiry *inquiry, int status, const char *why)
{
    lw__told(why, inquiry->why, sizeof(inquiry->why));
    lw__notify_inquiry(inquiry, status);
}

static void send_or_finish(struct lw__inquiry *inquiry,
                           const struct lw__command_type *type)
{
    if (!lw__node_send(inquiry->client->node, &inquiry->command, type)) {
        finish(inquiry, LW_ECONN, inquiry->client->down_why);
    }
}

static bool is_error(struct lw__inquiry *inquiry, const struct lw__reply *reply)
{
    if (lw__reply_type(reply) != LW__REPLY_ERROR) {
        return false;
    }
    finish(inquiry, LW_EREDIS, lw__reply_text(reply, NULL));
    return true;
}

static bool is_our_token(const char *token)
{
    size_t length = strlen(token);

    return length > LW__UUID_SIZE && token[LW__UUID_SIZE - 1] == ':' && token[8] == '-';
}

static size_t our_tokens(const struct lw__inquiry *inquiry, struct lw_inspected **entries,
                         const char **uuids)
{
    size_t all = inquiry->found.holder_count + inquiry->found.waiter_count, count = 0;

    for (size_t i = 0; i < all && count < ENTRIES; i++) {
        if (!is_our_token(inquiry->entries[i].token)) {
            continue;
        }
        entries[count] = &inquiry->entries[i];
        uuids[count++] = inquiry->entries[i].token;
    }
    return count;
}

static void put_notes(struct lw__command *command, struct lw__buffer *out)
{
    struct lw_inspected *entries[ENTRIES];
    const char *uuids[ENTRIES];
    size_t count = our_tokens((struct lw__inquiry *)command, entries, uuids);

    command->request.expected = 1;
    lw__put_get_notes(out, count, uuids);
}

/* The notes are an extra: without permission for them the rest is told. */
static bool notes_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__inquiry *inquiry = (struct lw__inquiry *)command;
    struct lw_inspected *entries[ENTRIES];
    const char *uuids[ENTRIES];
    size_t count = our_tokens(inquiry, entries, uuids);
    struct reader r = {.inquiry = inquiry};
    char *texts;

    if (lw__reply_count(reply) == count && (texts = malloc(text_size(reply))) != NULL) {
        inquiry->notes = r.text = texts;
        for (size_t i = 0; i < count; i++) {
            size_t length;
            const char *note = string_at(reply, i, &length);

            if (note != NULL) {
                entries[i]->client = keep(&r, note, length);
            }
        }
    }
    finish(inquiry, LW_OK, "");
    return true;
}

static void failed(struct lw__command *command, const char *why, bool sent)
{
    (void)sent;
    finish((struct lw__inquiry *)command, LW_ECONN, why);
}

static const struct lw__command_type notes_type = {put_notes, notes_answered, failed,
                                                   LW__ORDER_FRESH};

static void put_break(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__inquiry *inquiry = (struct lw__inquiry *)command;
    const struct lw_inspected *holder = &inquiry->entries[inquiry->breaking];

    command->request.expected = 1;
    lw__put_break(out, command->eval, inquiry->name, holder->token,
                  holder->mode != LW_MUTEX, lw__node_server(inquiry->client->node));
}

static void break_next(struct lw__inquiry *inquiry);

static bool break_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__inquiry *inquiry = (struct lw__inquiry *)command;
    bool rw = inquiry->entries[inquiry->breaking].mode != LW_MUTEX;
    struct lw__released answer;

    if (is_error(inquiry, reply)) {
        return true;
    }
    if (!lw__get_released(reply, rw, &answer)) {
        return false;
    }
    inquiry->any_broken = inquiry->any_broken || answer.released;
    if (!answer.again) { /* else more dead heads are to be passed over first */
        inquiry->breaking++;
    }
    break_next(inquiry);
    return true;
}

static void break_failed(struct lw__command *command, const char *why, bool sent)
{
    struct lw__inquiry *inquiry = (struct lw__inquiry *)command;

    finish(inquiry, sent || inquiry->any_broken ? LW_EUNKNOWN : LW_ECONN, why);
}

static const struct lw__command_type break_type = {put_break, break_answered,
                                                   break_failed, LW__ORDER_FRESH};

/* An empty token of a hold stands for all that are too long to be named (inspect.lua),
 * and so is nobody's. */
static bool is_meant(const struct lw__inquiry *inquiry, const struct lw_inspected *holder)
{
    if (inquiry->token == NULL) {
        return true;
    }
    return strcmp(inquiry->token, holder->token) == 0 &&
           (*holder->token || holder->mode == LW_MUTEX);
}

static void break_next(struct lw__inquiry *inquiry)
{
    const struct lw_inspection *found = &inquiry->found;

    while (inquiry->breaking < found->holder_count &&
           !is_meant(inquiry, &inquiry->entries[inquiry->breaking])) {
        inquiry->breaking++;
    }
    if (inquiry->breaking < found->holder_count) {
        send_or_finish(inquiry, &break_type);
    } else if (inquiry->any_broken) {
        finish(inquiry, LW_OK, "");
    } else if (*found->stranger) {
        finish(inquiry, LW_ENOTHELD, "the key is a stranger's, and is not touched");
    } else {
        finish(inquiry, LW_ENOTHELD,
               inquiry->token != NULL ? "that token does not hold it"
                                      : "nobody holds it");
    }
}

static void put_inspect(struct lw__command *command, struct lw__buffer *out)
{
    struct lw__inquiry *inquiry = (struct lw__inquiry *)command;

    command->request.expected = 1;
    lw__put_inspect(out, command->eval, inquiry->name,
                    inquiry->broken != NULL ? BROKEN_HOLDERS : HOLDERS,
                    inquiry->broken != NULL ? 0 : WAITERS);
}

static bool inspect_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__inquiry *inquiry = (struct lw__inquiry *)command;
    struct lw_inspected *entries[ENTRIES];
    const char *uuids[ENTRIES];
    int status;

    if (is_error(inquiry, reply)) {
        return true;
    }
    status = take_in(inquiry, reply);
    if (status == 0) {
        return false;
    }
    if (status < 0) {
        finish(inquiry, status, "");
    } else if (inquiry->broken != NULL) {
        break_next(inquiry);
    } else if (our_tokens(inquiry, entries, uuids) > 0) {
        send_or_finish(inquiry, &notes_type);
    } else {
        finish(inquiry, LW_OK, "");
    }
    return true;
}

static const struct lw__command_type inspect_type = {put_inspect, inspect_answered,
                                                     failed, LW__ORDER_FRESH};

void lw__inquiry_free(struct lw__inquiry *inquiry)
{
    struct lw_client *client = inquiry->client;

    if (client != NULL) {
        lw__notify_cancel(client, &inquiry->notice);
        lw__node_forget(client->node, &inquiry->command);
        DL_DELETE(client->inquiries, inquiry);
    }
    free(inquiry->name);
    free(inquiry->token);
    free(inquiry->entries);
    free(inquiry->texts);
    free(inquiry->notes);
    free(inquiry);
}

void lw__inquiries_close(struct lw_client *client)
{
    struct lw__inquiry *inquiry;

    DL_FOREACH(client->inquiries, inquiry) {
        lw__node_forget(client->node, &inquiry->command);
        if (inquiry->notice.kind == LW__NOTICE_NONE) {
            finish(inquiry, LW_ECLOSED, "");
        }
    }
}

static int ask(struct lw_client *client, const char *text, const char *token,
               lw_inspect_cb *inspected, lw_break_cb *broken, void *arg)
{
    struct lw__inquiry *inquiry;
    char why[LW__WHY];

    if (client->closing || lw__client_in_child(client)) {
        lw__client_explain(client, "the client is closed");
        return LW_ECLOSED;
    }
    if (lw__name_check(text, why, sizeof(why)) != NULL) {
        lw__client_explain(client, "%s", why);
        return LW_EINVAL;
    }
    inquiry = calloc(1, sizeof(*inquiry));
    if (inquiry != NULL) {
        inquiry->name = strdup(text);
        inquiry->token = token != NULL ? strdup(token) : NULL;
    }
    if (inquiry == NULL || inquiry->name == NULL ||
        (token != NULL && inquiry->token == NULL)) {
        if (inquiry != NULL) {
            lw__inquiry_free(inquiry);
        }
        lw__client_explain(client, "%s", lw_strerror(LW_ENOMEM));
        return LW_ENOMEM;
    }
    inquiry->found = (struct lw_inspection){.size = sizeof(inquiry->found),
                                            .name = inquiry->name,
                                            .stranger = "",
                                            .entry_size = sizeof(*inquiry->entries)};
    inquiry->inspected = inspected;
    inquiry->broken = broken;
    inquiry->arg = arg;
    inquiry->client = client;
    DL_APPEND(client->inquiries, inquiry);
    send_or_finish(inquiry, &inspect_type);
    return 0;
}

int lw_inspect(struct lw_client *client, const char *name, lw_inspect_cb *done, void *arg)
{
    if (done == NULL) {
        lw__client_explain(client, "done is NULL");
        return LW_EINVAL;
    }
    return ask(client, name, NULL, done, NULL, arg);
}

const struct lw_inspected *lw_inspection_holder(const struct lw_inspection *inspection,
                                                size_t index)
{
    const struct lw_inspected *holders = inspection->holders_;

    return index < inspection->holder_count ? &holders[index] : NULL;
}

const struct lw_inspected *lw_inspection_waiter(const struct lw_inspection *inspection,
                                                size_t index)
{
    const struct lw_inspected *waiters = inspection->waiters_;

    return index < inspection->waiter_count ? &waiters[index] : NULL;
}

int lw_break(struct lw_client *client, const char *name, const char *token,
             lw_break_cb *done, void *arg)
{
    if (done == NULL) {
        lw__client_explain(client, "done is NULL");
        return LW_EINVAL;
    }
    return ask(client, name, token, NULL, done, arg);
}

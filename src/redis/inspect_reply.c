/* SPDX-License-Identifier: MIT */
/* One look at a name. Must not know who asked. Happy path: lw__inspect_reply_read copies
 * what inspect.lua answered; lw__inspect_reply_clients, lw__inspect_reply_name_clients.
 * What is no hold and no request of ours is left out, as the scripts do; an answer of
 * another form is refused as a whole. */
#include "redis/inspect_reply.h"

#include "redis/format.h"
#include "redis/reply.h"

#include <stdlib.h>
#include <string.h>

#define CLIENT_SIZE 256 /* of what a client says of itself, with its NUL (whoami.c) */

void lw__inspect_reply_init(struct lw__inspect_reply *look, const char *name)
{
    look->found = (struct lw_inspection){.size = sizeof(look->found),
                                         .name = name,
                                         .stranger = "",
                                         .entry_size = sizeof(*look->entries),
                                         .server = "",
                                         .role = ""};
}

void lw__inspect_reply_clear(struct lw__inspect_reply *look)
{
    free(look->entries);
    free(look->texts);
    free(look->client_texts);
}

/* ---- the script's answer ---- */

struct reader {
    struct lw__inspect_reply *look;
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

static const char *keep_text(struct reader *r, const char *text)
{
    return keep(r, text, strlen(text));
}

static const char *string_at(const struct lw__reply *reply, size_t index)
{
    const struct lw__reply *at = lw__reply_at(reply, index);

    return lw__reply_type(at) == LW__REPLY_STRING ? lw__reply_text(at, NULL) : NULL;
}

static struct lw_inspected *entry(struct reader *r, enum lw_mode mode)
{
    *r->next =
        (struct lw_inspected){.token = "", .owner = "", .client = "", .mode = mode};
    return r->next++;
}

static bool take_mutex(struct reader *r, const struct lw__reply *reply, int64_t ttl_ms)
{
    const char *token = string_at(reply, 3);
    struct lw_inspected *holder = entry(r, LW_MUTEX);

    if (token == NULL) {
        return false;
    }
    holder->token = keep_text(r, token);
    holder->remaining_ms = ttl_ms;
    return true;
}

/* A token, its record (format.h), its fence: each hold's own lease counts. */
static bool take_holds(struct reader *r, const struct lw__reply *holds, int64_t ttl_ms)
{
    for (size_t i = 0; i + 2 < lw__reply_count(holds); i += 3) {
        const char *token = string_at(holds, i);
        const char *record = string_at(holds, i + 1);
        const char *fence = string_at(holds, i + 2);
        struct lw_inspected *holder;
        struct lw__hold hold;

        if (token == NULL || record == NULL || fence == NULL) {
            return false;
        }
        if (!lw__format_read_hold(record, &hold)) {
            continue;
        }
        holder = entry(r, hold.write ? LW_EXCLUSIVE : LW_SHARED);
        holder->token = keep_text(r, token);
        holder->owner = keep_text(r, hold.owner);
        holder->remaining_ms = hold.ends_ms - r->server_us / 1000; /* neither negative */
        if (hold.ends_ms == 0) {
            holder->remaining_ms = ttl_ms;
        } else if (holder->remaining_ms < 0) {
            holder->remaining_ms = 0;
        }
        holder->fence = strtoull(fence, NULL, 10);
    }
    return true;
}

/* A mutex's member is the token. NULL: of no form of ours. */
static struct lw_inspected *take_member(struct reader *r, const char *text, bool rw)
{
    struct lw_inspected *waiter;
    struct lw__member member;

    if (!rw) {
        waiter = entry(r, LW_MUTEX);
        waiter->token = keep_text(r, text);
        return waiter;
    }
    if (!lw__format_read_member(text, &member)) {
        return NULL;
    }
    waiter = entry(r, member.write ? LW_EXCLUSIVE : LW_SHARED);
    waiter->permits = member.permits;
    waiter->token = keep(r, member.token, member.token_length);
    waiter->owner = keep_text(r, member.owner);
    return waiter;
}

/* length, TTL, then member and ticket in turn. */
static bool take_queue(struct reader *r, const struct lw__reply *queue, bool rw)
{
    int64_t total = lw__reply_integer(lw__reply_at(queue, 0));

    if (total > 0) {
        r->look->found.waiter_total += (size_t)total;
    }
    for (size_t i = 2; i + 1 < lw__reply_count(queue); i += 2) {
        const char *member = string_at(queue, i);
        const char *ticket = string_at(queue, i + 1);
        struct lw_inspected *waiter;
        double since;

        if (member == NULL || ticket == NULL) {
            return false;
        }
        waiter = take_member(r, member, rw);
        since = strtod(ticket, NULL); /* 0: an upgrade, ahead of all */
        if (waiter != NULL && since > 0 && since < (double)r->server_us) {
            waiter->waited_ms = (r->server_us - (int64_t)since) / 1000;
        }
    }
    return true;
}

static bool take_holders(struct reader *r, const struct lw__reply *reply)
{
    const char *type = string_at(reply, 0);
    const struct lw__reply *ttl = lw__reply_at(reply, 1);
    bool ours = lw__reply_integer(lw__reply_at(reply, 4)) >= 0;

    if (type == NULL || lw__reply_type(ttl) != LW__REPLY_INTEGER) {
        return false;
    }
    if (strcmp(type, "string") == 0) {
        return take_mutex(r, reply, lw__reply_integer(ttl));
    }
    if (ours) {
        return take_holds(r, lw__reply_at(reply, 5), lw__reply_integer(ttl));
    }
    if (strcmp(type, "none") != 0) {
        r->look->found.stranger = keep_text(r, type);
    }
    return true;
}

static size_t count_entries(const struct lw__reply *reply)
{
    return 1 + lw__reply_count(lw__reply_at(reply, 5)) +
           lw__reply_count(lw__reply_at(reply, 6)) +
           lw__reply_count(lw__reply_at(reply, 7));
}

static bool is_answer(const struct lw__reply *reply)
{
    return lw__reply_type(reply) == LW__REPLY_ARRAY && lw__reply_count(reply) == 9 &&
           lw__reply_integer(lw__reply_at(reply, 2)) >= 0 &&
           lw__reply_type(lw__reply_at(reply, 4)) == LW__REPLY_INTEGER &&
           lw__reply_type(lw__reply_at(reply, 6)) == LW__REPLY_ARRAY &&
           lw__reply_count(lw__reply_at(reply, 6)) >= 2 &&
           lw__reply_type(lw__reply_at(reply, 7)) == LW__REPLY_ARRAY &&
           lw__reply_count(lw__reply_at(reply, 7)) >= 2 &&
           lw__reply_type(lw__reply_at(reply, 8)) == LW__REPLY_STRING;
}

static const char *role_of(const char *text)
{
    if (strcmp(text, "master") == 0) {
        return "master";
    }
    return strcmp(text, "slave") == 0 || strcmp(text, "replica") == 0 ? "replica" : "";
}

int lw__inspect_reply_read(struct lw__inspect_reply *look, const struct lw__reply *reply)
{
    struct lw_inspection *found = &look->found;
    struct reader r = {.look = look};
    /* a type's word and a queue's members are copied at most once, tokens twice */
    size_t room = 2 * text_size(reply) + 64;

    if (!is_answer(reply)) {
        return 0;
    }
    look->entries = calloc(count_entries(reply), sizeof(*look->entries));
    look->texts = malloc(room);
    if (look->entries == NULL || look->texts == NULL) {
        return LW_ENOMEM;
    }
    r.next = look->entries;
    r.text = look->texts;
    r.server_us = lw__reply_integer(lw__reply_at(reply, 2));
    if (!take_holders(&r, reply)) {
        return 0;
    }
    found->holder_count = (size_t)(r.next - look->entries);
    found->holder_total = found->holder_count;
    if (lw__reply_integer(lw__reply_at(reply, 4)) > (int64_t)found->holder_total) {
        found->holder_total = (size_t)lw__reply_integer(lw__reply_at(reply, 4));
    }
    if (!take_queue(&r, lw__reply_at(reply, 6), false) ||
        !take_queue(&r, lw__reply_at(reply, 7), true)) {
        return 0;
    }
    found->waiter_count = (size_t)(r.next - look->entries) - found->holder_count;
    found->role = role_of(lw__reply_text(lw__reply_at(reply, 8), NULL));
    found->holders_ = look->entries;
    found->waiters_ = look->entries + found->holder_count;
    return 1;
}

/* ---- who they are ---- */

static size_t our_entries(const struct lw__inspect_reply *look,
                          struct lw_inspected *ret[LW__INSPECT_ENTRIES])
{
    size_t all = look->found.holder_count + look->found.waiter_count, count = 0;

    for (size_t i = 0; i < all && count < LW__INSPECT_ENTRIES; i++) {
        if (lw__format_is_token(look->entries[i].token)) {
            ret[count++] = &look->entries[i];
        }
    }
    return count;
}

size_t lw__inspect_reply_clients(const struct lw__inspect_reply *look,
                                 const char *ret[LW__INSPECT_ENTRIES])
{
    struct lw_inspected *entries[LW__INSPECT_ENTRIES];
    size_t count = our_entries(look, entries);

    for (size_t i = 0; i < count; i++) {
        ret[i] = entries[i]->token;
    }
    return count;
}

void lw__inspect_reply_name_clients(struct lw__inspect_reply *look,
                                    const struct lw__reply *reply)
{
    struct lw_inspected *entries[LW__INSPECT_ENTRIES];
    size_t count = our_entries(look, entries);
    struct reader r = {.look = look};

    if (lw__reply_count(reply) != count ||
        (look->client_texts = malloc(text_size(reply))) == NULL) {
        return;
    }
    r.text = look->client_texts;
    for (size_t i = 0; i < count; i++) {
        const char *text = string_at(reply, i);

        if (text != NULL) {
            entries[i]->client = keep_text(&r, text);
        }
    }
}

void lw__inspect_reply_name_client(struct lw__inspect_reply *look, size_t which,
                                   const struct lw__reply *reply)
{
    struct lw_inspected *entries[LW__INSPECT_ENTRIES];
    size_t count = our_entries(look, entries), length;
    const char *text = lw__reply_text(reply, &length);
    char *kept;

    if (which >= count || lw__reply_type(reply) != LW__REPLY_STRING ||
        length >= CLIENT_SIZE || strlen(text) != length) {
        return;
    }
    if (look->client_texts == NULL &&
        (look->client_texts = calloc(count, CLIENT_SIZE)) == NULL) {
        return;
    }
    kept = look->client_texts + which * CLIENT_SIZE;
    memcpy(kept, text, length + 1);
    entries[which]->client = kept;
}

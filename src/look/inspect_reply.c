/* SPDX-License-Identifier: MIT */
/* The reply of inspect.lua: see inspect_reply.h. Independent of the caller.
 * lw__inspect_reply_read copies the reply; the caller reads the identities of
 * lw__inspect_reply_clients, and lw__inspect_reply_name_clients adds them.
 *
 * Holds and requests of another form than ours are left out, as the scripts do. A reply
 * of another form is rejected as a whole. */
#include "look/inspect_reply.h"

#include "base/check.h"
#include "redis/format.h"
#include "redis/reply.h"

#include <stdlib.h>
#include <string.h>

#define CLIENT_SIZE 256 /* of a client's identity, with its NUL (identity.c) */

void lw__inspect_reply_init(struct lw__inspect_reply *result, const char *name)
{
    result->found = (struct lw_inspection){.size = sizeof(result->found),
                                           .name = name,
                                           .foreign = "",
                                           .entry_size = sizeof(*result->entries),
                                           .server = "",
                                           .role = ""};
}

void lw__inspect_reply_clear(struct lw__inspect_reply *result)
{
    free(result->entries);
    free(result->texts);
    free(result->client_texts);
}

/* ---- the script's reply ---- */

struct reader {
    struct lw__inspect_reply *result;
    struct lw_inspected *next; /* the next entry to fill in */
    char *text;                /* the memory for the next string */
    int64_t server_us;
};

/* Returns the size of all strings of the reply, each with a NUL. */
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

static const char *copy(struct reader *r, const char *text, size_t length)
{
    char *copied = r->text;

    memcpy(copied, text, length);
    copied[length] = '\0';
    r->text += length + 1;
    return copied;
}

static const char *copy_text(struct reader *r, const char *text)
{
    return copy(r, text, strlen(text));
}

static const char *string_at(const struct lw__reply *reply, size_t index)
{
    const struct lw__reply *at = lw__reply_at(reply, index);

    return lw__reply_type(at) == LW__REPLY_STRING ? lw__reply_text(at, NULL) : NULL;
}

static struct lw_inspected *add_entry(struct reader *r, enum lw_mode mode)
{
    *r->next = (struct lw_inspected){
        .token = "", .owner = "", .client = "", .mode = mode, .user = "", .note = ""};
    return r->next++;
}

/* Cuts the text at its next blank, and returns what is behind it; NULL without one. */
static char *cut(char *text)
{
    char *blank = strchr(text, ' ');

    if (blank != NULL) {
        *blank++ = '\0';
    }
    return blank;
}

/* Reads a description, `<since> <client> <host> <pid> <user>[ <note>]`, in which an
 * unknown word is "-". Has no effect if the text has another form. */
static void read_description(struct reader *r, struct lw_inspected *holder,
                             const char *text)
{
    char *since = (char *)copy_text(r, text), *client = cut(since), *end = client;
    int64_t since_ms = client != NULL ? lw__check_number(since, strlen(since), INT64_MAX)
                                      : -1;
    char *user;

    for (int i = 0; i < 2 && end != NULL; i++) {
        end = strchr(end, ' ');
        end = end != NULL ? end + 1 : NULL;
    }
    user = end != NULL ? cut(end) : NULL;
    if (since_ms < 0 || user == NULL) {
        return;
    }
    end = cut(user);
    holder->since_ms = since_ms;
    holder->client = strcmp(client, "- - -") != 0 ? client : "";
    holder->user = strcmp(user, "-") != 0 ? user : "";
    holder->note = end != NULL ? end : "";
}

static bool read_mutex(struct reader *r, const struct lw__reply *reply, int64_t ttl_ms)
{
    const char *token = string_at(reply, 3), *description = string_at(reply, 9);
    struct lw_inspected *holder = add_entry(r, LW_MUTEX);

    if (token == NULL || description == NULL) {
        return false;
    }
    holder->token = copy_text(r, token);
    holder->remaining_ms = ttl_ms;
    read_description(r, holder, description);
    return true;
}

/* Reads holds: a token, its record (format.h), its fencing token and its description for
 * each. Each hold has a lease of its own. */
static bool read_holds(struct reader *r, const struct lw__reply *holds, int64_t ttl_ms)
{
    for (size_t i = 0; i + 3 < lw__reply_count(holds); i += 4) {
        const char *token = string_at(holds, i);
        const char *record = string_at(holds, i + 1);
        const char *fence = string_at(holds, i + 2);
        const char *description = string_at(holds, i + 3);
        struct lw_inspected *holder;
        struct lw__hold hold;

        if (token == NULL || record == NULL || fence == NULL || description == NULL) {
            return false;
        }
        if (!lw__format_read_hold(record, &hold)) {
            continue;
        }
        holder = add_entry(r, hold.write ? LW_EXCLUSIVE : LW_SHARED);
        holder->token = copy_text(r, token);
        holder->owner = copy_text(r, hold.owner);
        /* Cannot overflow: neither is negative. */
        holder->remaining_ms = hold.ends_ms - r->server_us / 1000;
        if (hold.ends_ms == 0) {
            holder->remaining_ms = ttl_ms;
        } else if (holder->remaining_ms < 0) {
            holder->remaining_ms = 0;
        }
        holder->fence = strtoull(fence, NULL, 10);
        read_description(r, holder, description);
    }
    return true;
}

/* Reads a member of a queue, which is the token if it is a mutex's. Returns NULL if it is
 * of another form than ours. */
static struct lw_inspected *read_member(struct reader *r, const char *text, bool rw)
{
    struct lw_inspected *waiter;
    struct lw__member member;

    if (!rw) {
        waiter = add_entry(r, LW_MUTEX);
        waiter->token = copy_text(r, text);
        return waiter;
    }
    if (!lw__format_read_member(text, &member)) {
        return NULL;
    }
    waiter = add_entry(r, member.write ? LW_EXCLUSIVE : LW_SHARED);
    waiter->permits = member.permits;
    waiter->token = copy(r, member.token, member.token_length);
    waiter->owner = copy_text(r, member.owner);
    return waiter;
}

/* Reads a queue: its length and TTL, then a member and its ticket for each waiter. */
static bool read_queue(struct reader *r, const struct lw__reply *queue, bool rw)
{
    int64_t total = lw__reply_integer(lw__reply_at(queue, 0));

    if (total > 0) {
        r->result->found.waiter_total += (size_t)total;
    }
    for (size_t i = 2; i + 1 < lw__reply_count(queue); i += 2) {
        const char *member = string_at(queue, i);
        const char *ticket = string_at(queue, i + 1);
        struct lw_inspected *waiter;
        double since;

        if (member == NULL || ticket == NULL) {
            return false;
        }
        waiter = read_member(r, member, rw);
        since = strtod(ticket, NULL); /* 0: an upgrade, ahead of all others */
        if (waiter != NULL && since > 0 && since < (double)r->server_us) {
            waiter->waited_ms = (r->server_us - (int64_t)since) / 1000;
        }
    }
    return true;
}

static bool read_holders(struct reader *r, const struct lw__reply *reply)
{
    const char *type = string_at(reply, 0);
    const struct lw__reply *ttl = lw__reply_at(reply, 1);
    bool ours = lw__reply_integer(lw__reply_at(reply, 4)) >= 0;

    if (type == NULL || lw__reply_type(ttl) != LW__REPLY_INTEGER) {
        return false;
    }
    if (strcmp(type, "string") == 0) {
        return read_mutex(r, reply, lw__reply_integer(ttl));
    }
    if (ours) {
        return read_holds(r, lw__reply_at(reply, 5), lw__reply_integer(ttl));
    }
    if (strcmp(type, "none") != 0) {
        r->result->found.foreign = copy_text(r, type);
    }
    return true;
}

static size_t count_entries(const struct lw__reply *reply)
{
    return 1 + lw__reply_count(lw__reply_at(reply, 5)) +
           lw__reply_count(lw__reply_at(reply, 6)) +
           lw__reply_count(lw__reply_at(reply, 7));
}

static bool is_valid(const struct lw__reply *reply)
{
    return lw__reply_type(reply) == LW__REPLY_ARRAY && lw__reply_count(reply) == 10 &&
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

int lw__inspect_reply_read(struct lw__inspect_reply *result,
                           const struct lw__reply *reply)
{
    struct lw_inspection *found = &result->found;
    struct reader r = {.result = result};
    /* Tokens are copied at most twice, a type and the members of a queue once. */
    size_t room = 2 * text_size(reply) + 64;

    if (!is_valid(reply)) {
        return 0;
    }
    result->entries = calloc(count_entries(reply), sizeof(*result->entries));
    result->texts = malloc(room);
    if (result->entries == NULL || result->texts == NULL) {
        return LW_ENOMEM;
    }
    r.next = result->entries;
    r.text = result->texts;
    r.server_us = lw__reply_integer(lw__reply_at(reply, 2));
    if (!read_holders(&r, reply)) {
        return 0;
    }
    found->holder_count = (size_t)(r.next - result->entries);
    found->holder_total = found->holder_count;
    if (lw__reply_integer(lw__reply_at(reply, 4)) > (int64_t)found->holder_total) {
        found->holder_total = (size_t)lw__reply_integer(lw__reply_at(reply, 4));
    }
    if (!read_queue(&r, lw__reply_at(reply, 6), false) ||
        !read_queue(&r, lw__reply_at(reply, 7), true)) {
        return 0;
    }
    found->waiter_count = (size_t)(r.next - result->entries) - found->holder_count;
    found->role = role_of(lw__reply_text(lw__reply_at(reply, 8), NULL));
    found->holders_ = result->entries;
    found->waiters_ = result->entries + found->holder_count;
    return 1;
}

/* ---- identities of clients ---- */

static size_t client_entries(const struct lw__inspect_reply *result,
                             struct lw_inspected *ret[LW__INSPECT_ENTRIES])
{
    size_t all = result->found.holder_count + result->found.waiter_count, count = 0;

    for (size_t i = 0; i < all && count < LW__INSPECT_ENTRIES; i++) {
        if (lw__format_is_token(result->entries[i].token)) {
            ret[count++] = &result->entries[i];
        }
    }
    return count;
}

size_t lw__inspect_reply_clients(const struct lw__inspect_reply *result,
                                 const char *ret[LW__INSPECT_ENTRIES])
{
    struct lw_inspected *entries[LW__INSPECT_ENTRIES];
    size_t count = client_entries(result, entries);

    for (size_t i = 0; i < count; i++) {
        ret[i] = entries[i]->token;
    }
    return count;
}

void lw__inspect_reply_name_clients(struct lw__inspect_reply *result,
                                    const struct lw__reply *reply)
{
    struct lw_inspected *entries[LW__INSPECT_ENTRIES];
    size_t count = client_entries(result, entries);
    struct reader r = {.result = result};

    if (lw__reply_count(reply) != count ||
        (result->client_texts = malloc(text_size(reply))) == NULL) {
        return;
    }
    r.text = result->client_texts;
    for (size_t i = 0; i < count; i++) {
        const char *text = string_at(reply, i);

        if (text != NULL) {
            entries[i]->client = copy_text(&r, text);
        }
    }
}

void lw__inspect_reply_name_client(struct lw__inspect_reply *result, size_t which,
                                   const struct lw__reply *reply)
{
    struct lw_inspected *entries[LW__INSPECT_ENTRIES];
    size_t count = client_entries(result, entries), length;
    const char *text = lw__reply_text(reply, &length);
    char *copied;

    if (which >= count || lw__reply_type(reply) != LW__REPLY_STRING ||
        length >= CLIENT_SIZE || strlen(text) != length) {
        return;
    }
    if (result->client_texts == NULL &&
        (result->client_texts = calloc(count, CLIENT_SIZE)) == NULL) {
        return;
    }
    copied = result->client_texts + which * CLIENT_SIZE;
    memcpy(copied, text, length + 1);
    entries[which]->client = copied;
}

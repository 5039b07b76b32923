/* SPDX-License-Identifier: MIT */
/* lw_list: finds the locks that are held, by SCAN. Owns the pending calls. Independent of
 * how a lock is stored in Redis (list.lua), and of its holders (inspect.c).
 *
 * A step of SCAN is a script that returns the names that may be locks of this library. A
 * few names at a time are inspected as by lw_inspect. `found` is called for those that
 * are still held, and then without a lock, to report the progress. The next step follows.
 * When the cursor is 0 the next server is scanned, until every slot is done. At any time
 * a call has one step or a few inspections in flight, which leaves room for other
 * commands.
 *
 * In a cluster a slot is done if its node was the scanned one both before the scan and at
 * the end, by a slot map that is requested then. A slot that has moved in between is
 * scanned again, with all others of its new node that are not done.
 *
 * A cursor is valid in one server process only. On another connection the server is
 * scanned from the beginning; if it is the only one the call ends. Every failure ends the
 * call, so that a list without an error is complete. */
#include "look/look.h"

#include "base/check.h"
#include "base/container_of.h"
#include "redis/classify.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/explain.h"
#include "redis/reply.h"
#include "redis/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define STEP_KEYS 250 /* take the server less than 1 ms */
#define PATTERN_MAX 512

/* States of a slot. Any other value: it is done, and its node was scanned on the command
 * connection with this number (lw__node_command_link). */
#define TO_SCAN 0
#define SCANNING 1

static struct lw__list *list_of(struct lw__command *command)
{
    return LW__CONTAINER_OF(struct lw__list, command, command);
}

/* ---- the end ---- */

static void drop_names(struct lw__list *list)
{
    free(list->names);
    list->names = NULL;
    list->names_left = 0;
}

/* Drops everything that is in flight. */
static void cancel_all(struct lw__list *list)
{
    lw__node_forget(&list->command);
    for (size_t i = 0; i < LW__LIST_LOOKS; i++) {
        if (list->looks[i] != NULL) {
            lw__inspect_free(list->looks[i]);
            list->looks[i] = NULL;
        }
    }
    list->looking = 0;
    drop_names(list);
}

static void finish(struct lw__list *list, int status, const char *why)
{
    lw__escape(why, list->why, sizeof(list->why));
    list->over = true;
    cancel_all(list);
    lw__notify_call(list->client, &list->notice, LW__NOTICE_LISTED, status);
}

/* ---- choosing a server ---- */

static struct lw__node *node_at(const struct lw__list *list, unsigned slot)
{
    return lw__route_node(list->client->route, slot);
}

/* Chooses the server of the first slot that is not done, with all such slots that it has.
 * Returns false if all slots are done. */
static bool choose_server(struct lw__list *list)
{
    const struct lw__node *node = NULL;

    for (unsigned slot = 0; slot < list->slots; slot++) {
        if (list->scans[slot] != TO_SCAN) {
            continue;
        }
        if (node == NULL) {
            node = node_at(list, slot);
        }
        if (node_at(list, slot) == node) {
            list->scans[slot] = SCANNING;
        }
    }
    (void)snprintf(list->cursor, sizeof(list->cursor), "0");
    list->link = 0;
    return node != NULL;
}

/* Returns the server that is being scanned, found by the slots in state SCANNING. Returns
 * NULL if none of their nodes has the connection on which the scan began. */
static struct lw__node *scanned_server(const struct lw__list *list)
{
    for (unsigned slot = 0; slot < list->slots; slot++) {
        if (list->scans[slot] == SCANNING) {
            struct lw__node *node = node_at(list, slot);

            if (list->link == 0 || (lw__node_is_connected(node) &&
                                    lw__node_command_link(node) == list->link)) {
                return node;
            }
        }
    }
    return NULL;
}

/* Marks the server's slots as done, except for those that have moved away from it. */
static void leave_server(struct lw__list *list)
{
    const struct lw__node *node = scanned_server(list);

    for (unsigned slot = 0; slot < list->slots; slot++) {
        if (list->scans[slot] == SCANNING) {
            bool done = node != NULL && node_at(list, slot) == node;

            list->scans[slot] = done ? list->link : TO_SCAN;
        }
    }
    list->keys_before = list->listing.keys;
}

/* ---- a step of SCAN ---- */

static void inspect_more(struct lw__list *list);

static void encode_step(struct lw__command *command, struct lw__buffer *out)
{
    const struct lw__list *list = list_of(command);

    lw__encode_list(out, lw__command_evals(command), list->client->holds.prefix,
                    list->cursor, STEP_KEYS, list->pattern);
}

/* Copies the valid lock names from the reply. Returns false if memory is short. */
static bool copy_names(struct lw__list *list, const struct lw__reply *reply)
{
    const char *prefix = list->client->holds.prefix;
    size_t size = 1;
    char *to;

    for (size_t i = LW__SCAN_PAGE_NAMES; i < lw__reply_count(reply); i++) {
        size_t length;

        (void)lw__reply_text(lw__reply_at(reply, i), &length);
        size += length + 1;
    }
    list->name = list->names = to = malloc(size);
    if (to == NULL) {
        return false;
    }
    for (size_t i = LW__SCAN_PAGE_NAMES; i < lw__reply_count(reply); i++) {
        char why[LW_WHY_SIZE];
        size_t length;
        const char *text = lw__reply_text(lw__reply_at(reply, i), &length);

        if (strlen(text) == length && strncmp(text, prefix, strlen(prefix)) == 0 &&
            lw__check_key(prefix, text + strlen(prefix), why, sizeof(why)) == NULL) {
            to = stpcpy(to, text + strlen(prefix)) + 1;
            list->names_left++;
        }
    }
    return true;
}

/* Updates the progress. Both numbers are approximate; `seen` never exceeds `keys`. */
static void update_progress(struct lw__list *list, const struct lw__scan_page *page)
{
    struct lw_listing *listing = &list->listing;

    listing->seen += (uint64_t)page->seen;
    if (page->keys >= 0) {
        listing->keys = list->keys_before + (uint64_t)page->keys;
        if (listing->seen > listing->keys) {
            listing->seen = listing->keys;
        }
    }
}

static bool step_replied(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__list *list = list_of(command);
    struct lw__scan_page page;

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        const char *text = lw__reply_text(reply, NULL);
        char why[LW_WHY_SIZE];

        finish(list, lw__classify_status(text), lw__explain(text, why));
        return true;
    }
    if (!lw__decode_scan_page(reply, &page)) {
        return false;
    }
    list->link = lw__node_command_link(lw__node_of_command(command));
    (void)snprintf(list->cursor, sizeof(list->cursor), "%s", page.cursor);
    update_progress(list, &page);
    if (copy_names(list, reply)) {
        inspect_more(list);
    } else {
        finish(list, LW_ENOMEM, "");
    }
    return true;
}

static void step_failed(struct lw__command *command, const char *why, bool sent)
{
    finish(list_of(command),
           sent ? LW_ECONN : lw__node_error(lw__node_of_command(command)), why);
}

static const struct lw__command_type step_type = {
    encode_step, step_replied, .failed = step_failed, .node_bound = true};

static void send_step(struct lw__list *list, struct lw__node *node)
{
    if (!lw__node_send_early(node, &list->command, &step_type, false)) {
        finish(list, lw__node_error(node), lw__node_reason(node));
    }
}

/* Scans the next server. If there is none, requests a slot map to check the scanned slots
 * against, or ends the call if they have been checked. */
static void scan_next_server(struct lw__list *list)
{
    if (choose_server(list)) {
        list->checked = false;
        send_step(list, scanned_server(list));
    } else if (list->checked) {
        finish(list, LW_OK, "");
    } else {
        list->map = lw__route_refresh_map(list->client->route);
    }
}

/* Compares the scanned slots with a slot map that was requested after the last scan. */
static void check_slots(struct lw__list *list)
{
    list->map = 0;
    list->checked = true;
    for (unsigned slot = 0; slot < list->slots; slot++) {
        if (lw__node_command_link(node_at(list, slot)) != list->scans[slot]) {
            list->scans[slot] = TO_SCAN;
        }
    }
    scan_next_server(list);
}

void lw__list_remapped(struct lw_client *client)
{
    struct lw__list *list;

    DL_FOREACH(client->lists, list) {
        if (!list->over && list->map > 0 &&
            lw__route_map_version(client->route) >= list->map) {
            check_slots(list);
        }
    }
}

void lw__list_map_unavailable(struct lw_client *client, unsigned map, const char *why)
{
    struct lw__list *list;

    DL_FOREACH(client->lists, list) {
        if (!list->over && list->map > 0 && list->map <= map) {
            finish(list, LW_ECONN, why);
        }
    }
}

static void continue_scan(struct lw__list *list)
{
    struct lw__node *node = scanned_server(list);
    bool complete = strcmp(list->cursor, "0") == 0;

    if (!complete && node != NULL) {
        send_step(list, node);
    } else if (list->slots > 1) {
        leave_server(list);
        scan_next_server(list);
    } else if (complete) {
        finish(list, LW_OK, "");
    } else {
        finish(list, lw__node_error(node_at(list, 0)), lw__node_reason(node_at(list, 0)));
    }
}

/* ---- inspections ---- */

static void inspect_more(struct lw__list *list)
{
    for (size_t i = 0; i < LW__LIST_LOOKS && list->names_left > 0; i++) {
        if (list->looks[i] != NULL) {
            continue;
        }
        list->looks[i] = lw__inspect_for(list->client, list->name, list);
        if (list->looks[i] == NULL) {
            finish(list, LW_ENOMEM, "");
            return;
        }
        list->looking++;
        list->names_left--;
        list->name += strlen(list->name) + 1;
    }
    if (list->looking == 0) {
        drop_names(list);
        lw__notify_call(list->client, &list->notice, LW__NOTICE_LISTING, LW_OK);
    }
}

static bool is_lock(const struct lw_inspection *found)
{
    const struct lw_inspected *holder = lw_inspection_holder(found, 0);

    return found->holder_total > 0 && (holder == NULL || holder->mode != LW_MUTEX ||
                                       lw__format_is_token(holder->token));
}

/* Returns true if the inspection was refused permanently: the name may be a lock, and is
 * reported without details. A temporary error (BUSY, CLUSTERDOWN) is no such refusal. */
static bool is_withheld(const struct lw__inspect_call *call, int status)
{
    return status == LW_EREDIS && lw__classify(call->why) == LW__ERR_REFUSED;
}

bool lw__list_inspected(struct lw__list *list, struct lw__inspect_call *call, int status)
{
    for (size_t i = 0; i < LW__LIST_LOOKS; i++) {
        if (list->looks[i] == call) {
            list->looks[i] = NULL;
            list->looking--;
        }
    }
    if (status == LW_OK ? is_lock(&call->look.found) : is_withheld(call, status)) {
        list->listing.found++;
        return true;
    }
    if (status != LW_OK) {
        finish(list, status, call->why);
    }
    return false;
}

void lw__list_continue(struct lw__list *list)
{
    if (!list->over) {
        inspect_more(list);
    }
}

void lw__list_delivered(struct lw__list *list, bool stops)
{
    list->in_callback = false;
    if (list->client == NULL) {
        lw__list_free(list);
    } else if (list->over) {
        return;
    } else if (stops) {
        finish(list, LW_ECANCELED, "");
    } else if (list->names != NULL) {
        inspect_more(list);
    } else {
        continue_scan(list);
    }
}

/* ---- lw_list ---- */

void lw__list_take_out(struct lw__list *list)
{
    DL_DELETE(list->client->lists, list);
    list->client = NULL;
}

void lw__list_free(struct lw__list *list)
{
    if (list->client != NULL) {
        lw__notify_cancel(list->client, &list->notice);
        cancel_all(list);
        lw__list_take_out(list);
    }
    if (!list->in_callback) {
        free(list->pattern);
        free(list);
    }
}

void lw__list_close(struct lw_client *client)
{
    struct lw__list *list;

    DL_FOREACH(client->lists, list) {
        if (!list->over) {
            finish(list, LW_ECLOSED, "");
        }
    }
}

static int check_arguments(struct lw_client *client, const char *pattern,
                           lw_found_cb *found, lw_listed_cb *done)
{
    int status = lw__options_check_open(client);

    if (status == 0) {
        status = lw__options_check_single(client);
    }
    if (status != 0) {
        return status;
    }
    if (found == NULL || done == NULL) {
        lw__options_explain(client, "%s is NULL", found == NULL ? "found" : "done");
        return LW_EINVAL;
    }
    if (pattern != NULL && (*pattern == '\0' || strlen(pattern) > PATTERN_MAX)) {
        lw__options_explain(client, "the pattern has %zu bytes, 1 to %d are allowed",
                            strlen(pattern), PATTERN_MAX);
        return LW_EINVAL;
    }
    return 0;
}

int lw_list(struct lw_client *client, const char *pattern, lw_found_cb *found,
            lw_listed_cb *done, void *arg)
{
    int status = check_arguments(client, pattern, found, done);
    struct lw__list *list;
    unsigned slots;

    if (status != 0) {
        return status;
    }
    slots = lw__route_slots(client->route);
    list = calloc(1, sizeof(*list) + slots * sizeof(*list->scans));
    if (list != NULL && pattern != NULL && (list->pattern = strdup(pattern)) == NULL) {
        free(list);
        list = NULL;
    }
    if (list == NULL) {
        lw__options_explain(client, "%s", lw_strerror(LW_ENOMEM));
        return LW_ENOMEM;
    }
    list->found = found;
    list->done = done;
    list->arg = arg;
    list->listing.size = sizeof(list->listing);
    list->slots = slots;
    list->client = client;
    DL_APPEND(client->lists, list);
    scan_next_server(list);
    return 0;
}

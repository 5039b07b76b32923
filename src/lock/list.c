/* SPDX-License-Identifier: MIT */
/* lw_list: the locks that are held, by SCAN. Owns the calls on their way. Must not know
 * what a lock looks like in Redis (list.lua), nor what stands behind a name (inspect.c).
 *
 * Happy path: a step of SCAN, by a script that names what may be a lock of ours; each of
 * these is looked at as lw_inspect does, a few at a time; `found` for those that are held
 * still; `found` with nothing, which says how far it is; the next step. The cursor is 0:
 * the next server, until each slot is done. One step, or some looks, are in flight at a
 * time, so that others' commands have room.
 *
 * In a cluster a slot is done if it leads to the node that was scanned both before that
 * and in the end, by a map that is asked for then: one that moved meanwhile is scanned
 * once more, with all that is there.
 *
 * A cursor is of one process, so another connection begins the server anew, or ends the
 * list where it is the only one. Whatever fails ends it: nothing is left out in silence.
 */
#include "lock/lock_private.h"

#include "base/check.h"
#include "base/container_of.h"
#include "redis/classify.h"
#include "redis/decode.h"
#include "redis/encode.h"
#include "redis/reply.h"
#include "redis/route.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define STEP_KEYS 250 /* below 1 ms of the server's time */
#define PATTERN_MAX 512

/* Of a slot; else it is done, by this lw__node_command_link of a cluster's node. */
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

/* What is on its way. */
static void drop_all(struct lw__list *list)
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
    drop_all(list);
    lw__notify_list(list, LW__NOTICE_LISTED, status);
}

/* ---- which server ---- */

static struct lw__node *node_at(const struct lw__list *list, unsigned slot)
{
    return lw__route_node(list->client->route, slot);
}

/* All slots that are at the server of the first one that is not done. false: all are. */
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

/* The server that is scanned, by any slot that is there still, and is reached as it was
 * when that began. NULL: there is no such one. */
static struct lw__node *server_of(const struct lw__list *list)
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

/* Its slots are done, but for those that are elsewhere by now. */
static void leave_server(struct lw__list *list)
{
    const struct lw__node *node = server_of(list);

    for (unsigned slot = 0; slot < list->slots; slot++) {
        if (list->scans[slot] == SCANNING) {
            bool stays = node != NULL && node_at(list, slot) == node;

            list->scans[slot] = stays ? list->link : TO_SCAN;
        }
    }
    list->keys_before = list->listing.keys;
}

/* ---- a step ---- */

static void look_at_more(struct lw__list *list);

static void put_step(struct lw__command *command, struct lw__buffer *out)
{
    const struct lw__list *list = list_of(command);

    lw__encode_list(out, lw__command_evals(command), list->cursor, STEP_KEYS,
                    list->pattern);
}

/* Those that a lock may have. false: no memory. */
static bool keep_names(struct lw__list *list, const struct lw__reply *reply)
{
    size_t room = 1;
    char *to;

    for (size_t i = LW__SCAN_PAGE_NAMES; i < lw__reply_count(reply); i++) {
        size_t length;

        (void)lw__reply_text(lw__reply_at(reply, i), &length);
        room += length + 1;
    }
    list->name = list->names = to = malloc(room);
    if (to == NULL) {
        return false;
    }
    for (size_t i = LW__SCAN_PAGE_NAMES; i < lw__reply_count(reply); i++) {
        char why[LW__WHY_MAX];
        size_t length;
        const char *text = lw__reply_text(lw__reply_at(reply, i), &length);

        if (strlen(text) == length && lw__check_name(text, why, sizeof(why)) == NULL) {
            memcpy(to, text, length + 1);
            to += length + 1;
            list->names_left++;
        }
    }
    return true;
}

/* What is looked at may be about so much, and is no more than there is. */
static void count(struct lw__list *list, const struct lw__scan_page *page)
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

static bool step_answered(struct lw__command *command, const struct lw__reply *reply)
{
    struct lw__list *list = list_of(command);
    struct lw__scan_page page;

    if (lw__reply_type(reply) == LW__REPLY_ERROR) {
        const char *text = lw__reply_text(reply, NULL);

        finish(list, lw__classify_status(text), text);
        return true;
    }
    if (!lw__decode_scan_page(reply, &page)) {
        return false;
    }
    list->link = lw__node_command_link(lw__node_of_command(command));
    (void)snprintf(list->cursor, sizeof(list->cursor), "%s", page.cursor);
    count(list, &page);
    if (keep_names(list, reply)) {
        look_at_more(list);
    } else {
        finish(list, LW_ENOMEM, "");
    }
    return true;
}

static void step_failed(struct lw__command *command, const char *why, bool sent)
{
    (void)sent;
    finish(list_of(command), LW_ECONN, why);
}

static const struct lw__command_type step_type = {put_step, step_answered, step_failed,
                                                  LW__PRIORITY_NEW, .node_bound = true};

static void send_step(struct lw__list *list, struct lw__node *node)
{
    if (!lw__node_send_early(node, &list->command, &step_type)) {
        finish(list, LW_ECONN, lw__node_reason(node));
    }
}

static void begin_server(struct lw__list *list)
{
    if (choose_server(list)) {
        list->checked = false;
        send_step(list, server_of(list));
    } else if (list->checked) {
        finish(list, LW_OK, "");
    } else {
        list->map = lw__route_refresh_map(list->client->route);
    }
}

/* By a map that was asked for when all was done. */
static void check_slots(struct lw__list *list)
{
    list->map = 0;
    list->checked = true;
    for (unsigned slot = 0; slot < list->slots; slot++) {
        if (lw__node_command_link(node_at(list, slot)) != list->scans[slot]) {
            list->scans[slot] = TO_SCAN;
        }
    }
    begin_server(list);
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

static void go_on(struct lw__list *list)
{
    struct lw__node *node = server_of(list);
    bool scanned = strcmp(list->cursor, "0") == 0;

    if (!scanned && node != NULL) {
        send_step(list, node);
    } else if (list->slots > 1) {
        leave_server(list);
        begin_server(list);
    } else if (scanned) {
        finish(list, LW_OK, "");
    } else {
        finish(list, LW_ECONN, lw__node_reason(node_at(list, 0)));
    }
}

/* ---- looks ---- */

static void look_at_more(struct lw__list *list)
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
        lw__notify_list(list, LW__NOTICE_LISTING, LW_OK);
    }
}

static bool is_lock(const struct lw_inspection *found)
{
    const struct lw_inspected *holder = lw_inspection_holder(found, 0);

    return found->holder_total > 0 && (holder == NULL || holder->mode != LW_MUTEX ||
                                       lw__format_is_token(holder->token));
}

/* There is a lock that cannot be told of, as far as anybody knows; what passes by itself
 * (BUSY, CLUSTERDOWN) says nothing of one. */
static bool is_withheld(const struct lw__inspect_call *inquiry, int status)
{
    return status == LW_EREDIS && lw__classify(inquiry->why) == LW__ERR_REFUSED;
}

bool lw__list_inspected(struct lw__list *list, struct lw__inspect_call *inquiry,
                        int status)
{
    for (size_t i = 0; i < LW__LIST_LOOKS; i++) {
        if (list->looks[i] == inquiry) {
            list->looks[i] = NULL;
            list->looking--;
        }
    }
    if (status == LW_OK ? is_lock(&inquiry->look.found) : is_withheld(inquiry, status)) {
        list->listing.found++;
        return true;
    }
    if (status != LW_OK) {
        finish(list, status, inquiry->why);
    }
    return false;
}

void lw__list_continue(struct lw__list *list)
{
    if (!list->over) {
        look_at_more(list);
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
        look_at_more(list);
    } else {
        go_on(list);
    }
}

/* ---- its life ---- */

void lw__list_free(struct lw__list *list)
{
    if (list->client != NULL) {
        lw__notify_cancel(list->client, &list->notice);
        drop_all(list);
        DL_DELETE(list->client->lists, list);
        list->client = NULL;
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

static int check(struct lw_client *client, const char *pattern, lw_found_cb *found,
                 lw_listed_cb *done)
{
    int status = lw__name_check_open(client);

    if (status != 0) {
        return status;
    }
    if (found == NULL || done == NULL) {
        lw__options_explain(client, "%s is NULL", found == NULL ? "found" : "done");
        return LW_EINVAL;
    }
    if (pattern != NULL && (*pattern == '\0' || strlen(pattern) > PATTERN_MAX)) {
        lw__options_explain(client, "pattern: must have 1 to %d bytes, not %zu",
                            PATTERN_MAX, strlen(pattern));
        return LW_EINVAL;
    }
    return 0;
}

int lw_list(struct lw_client *client, const char *pattern, lw_found_cb *found,
            lw_listed_cb *done, void *arg)
{
    int status = check(client, pattern, found, done);
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
    begin_server(list);
    return 0;
}

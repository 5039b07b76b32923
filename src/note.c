/* SPDX-License-Identifier: MIT */
/*
 * Who this client is, for whoever asks Redis: a short note under a key of its own, kept
 * there while the client holds or waits. Nothing depends on it, so no failure of it is
 * told.
 *
 * Happy path: the first acquisition sends it; a timer refreshes it long before it
 * expires.
 */
#include "core.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define REFRESH_US (40000 * (int64_t)LW__MS)

static struct lw_client *client_of(struct lw__command *command)
{
    return (struct lw_client *)((char *)command -
                                offsetof(struct lw_client, note_command));
}

static void put_note(struct lw__command *command, struct lw__buffer *out)
{
    struct lw_client *client = client_of(command);
    char host[65] = "", note[256];

    command->request.expected = 1;
    if (gethostname(host, sizeof(host) - 1) != 0 || host[0] == '\0') {
        memcpy(host, "-", 2);
    }
    (void)snprintf(note, sizeof(note), "%s %s %ld", client->options.client_name, host,
                   (long)client->fork_mark.pid);
    lw__put_note(out, client->uuid, client->closing ? NULL : note);
}

/* One that the client sent before it was closed is followed by the end of it. */
static void settled(struct lw__command *command, bool kept)
{
    struct lw_client *client = client_of(command);

    client->note_kept = kept;
    if (!client->closing) {
        return;
    }
    lw__note_drop(client);
    lw__client_drained(client);
}

static bool answered(struct lw__command *command, const struct lw__reply *reply)
{
    settled(command, lw__reply_type(reply) == LW__REPLY_STATUS); /* of SET; DEL counts */
    return true;
}

static void failed(struct lw__command *command, const char *why, bool sent)
{
    const struct lw_client *client = client_of(command);

    (void)why; /* what an outage left unanswered may stand there */
    settled(command, !client->closing && (sent || client->note_kept));
}

static void send_note(struct lw_client *client)
{
    static const struct lw__command_type type = {put_note, answered, failed,
                                                 LW__ORDER_FRESH};

    if (client->note_command.request.prev == NULL) {
        (void)lw__node_send(client->node, &client->note_command, &type);
    }
}

static void due(void *arg)
{
    struct lw_client *client = arg;

    if (client->open_tokens > 0) {
        lw__note_keep(client, lw__now_us());
    }
}

void lw__note_init(struct lw_client *client)
{
    lw__timer_init(&client->note_timer, due, client);
}

void lw__note_keep(struct lw_client *client, int64_t now_us)
{
    if (now_us < client->note_due_us || client->closing ||
        !lw__node_is_up(client->node)) {
        return;
    }
    client->note_due_us = now_us + REFRESH_US;
    lw__timer_set(client->loop, &client->note_timer, client->note_due_us);
    send_note(client);
}

void lw__note_renew(struct lw_client *client)
{
    client->note_due_us = 0;
    due(client);
}

void lw__note_drop(struct lw_client *client)
{
    lw__timer_cancel(client->loop, &client->note_timer);
    if (client->note_kept) {
        send_note(client);
    }
}

/* SPDX-License-Identifier: MIT */
/*
 * See cluster_scene.h.
 */
#include "cluster_scene.h"

#include <stdio.h>
#include <string.h>

static void write_text(const redisReply *reply, char *ret, size_t size)
{
    if (reply->type == REDIS_REPLY_INTEGER) {
        (void)snprintf(ret, size, "%lld", reply->integer);
    } else {
        (void)snprintf(ret, size, "%s", reply->str != NULL ? reply->str : "");
    }
}

const char *answer_of(int node, const char *command)
{
    static char text[1024];
    redisReply *reply = server_try(cluster_server(node), command, " ");

    write_text(reply, text, sizeof(text));
    freeReplyObject(reply);
    return text;
}

const char *answer_if_asking(int node, const char *command)
{
    redisContext *link = cluster_server(node)->admin;
    static char text[1024];
    void *reply = NULL;

    assert_int_equal(redisAppendCommand(link, "ASKING"), REDIS_OK);
    assert_int_equal(redisAppendCommand(link, command, " "), REDIS_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(redisGetReply(link, &reply), REDIS_OK);
        write_text(reply, text, sizeof(text));
        freeReplyObject(reply);
    }
    return text;
}

const char *redirect(const char *word, int slot, int to)
{
    static char texts[2][80];
    static int next;
    char *text = texts[next++ % 2];

    (void)snprintf(text, sizeof(texts[0]), "%s %d %s", word, slot, cluster_address(to));
    return text;
}

void assert_begins(const char *text, const char *with)
{
    if (strncmp(text, with, strlen(with)) != 0) {
        stage_fail("\"%s\" does not begin with \"%s\"", text, with);
    }
}

void give_keys(int node)
{
    assert_string_equal(answer_of(node, "SET " NAME " 1"), "OK");
    assert_string_equal(answer_of(node, "SET " QUEUE " 1"), "OK");
    assert_string_equal(answer_of(node, "SET " FENCE " 1"), "OK");
}

int other_than(int master)
{
    return (master + 1) % 3;
}

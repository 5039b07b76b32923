/* SPDX-License-Identifier: MIT */
/* The text of an error reply, as a user reads it: see explain.h. Independent of what an
 * error means for a command (classify.c). */
#include "redis/explain.h"

#include "redis/classify.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define NAME_MAX_SHOWN 32
#define NO_CLUSTER "ERR This instance has cluster support disabled"

/* Finds the name of the command in the error of a server that does not know it, which has
 * it in quotes of some kind. Returns the length of the name, 0 for any other error. */
static size_t find_command(const char *error, const char **name)
{
    static const char begin[] = "ERR unknown command";

    if (!lw__classify_unknown(error)) {
        return 0;
    }
    *name = error + strlen(begin);
    *name += strcspn(*name, LETTERS);
    return strspn(*name, LETTERS);
}

static bool is_command(const char *name, size_t length, const char *command)
{
    return length == strlen(command) && strncasecmp(name, command, length) == 0;
}

/* Returns the text that follows the name of an unknown command. */
static const char *purpose_of(const char *name, size_t length)
{
    if (is_command(name, length, "SENTINEL")) {
        return ": not a sentinel (list the sentinels, or use redis://)";
    }
    if (is_command(name, length, "CLUSTER")) {
        return ": not a node of a cluster (use redis://)";
    }
    if (is_command(name, length, "EVALSHA") || is_command(name, length, "EVAL")) {
        return ", which waiting, releasing and fencing tokens need (a proxy, another "
               "kind of server, or a renamed command?)";
    }
    return ", which locks need (a proxy, another kind of server, or a renamed command?)";
}

/* Returns the length of an error without the place in a script, with which Redis
 * since 7.0 and Valkey end it: " script: <sha>, on @user_script:9." or " script: on ...".
 */
static size_t length_without_place(const char *error)
{
    static const char begin[] = " script: ", place[] = "on @user_script:";
    const char *end = strstr(error, begin), *next, *at;

    while (end != NULL && (next = strstr(end + 1, begin)) != NULL) {
        end = next; /* the last one: the text before may quote another */
    }
    if (end == NULL) {
        return strlen(error);
    }
    at = end + strlen(begin);
    at += strspn(at, "0123456789abcdef");
    at += at[0] == ',' && at[1] == ' ' ? 2 : 0;
    if (strncmp(at, place, strlen(place)) != 0) {
        return strlen(error);
    }
    at += strlen(place);
    at += strspn(at, "0123456789");
    return strcmp(at, ".") == 0 ? (size_t)(end - error) : strlen(error);
}

const char *lw__explain(const char *error, char ret[LW_WHY_SIZE])
{
    const char *name;
    size_t length = find_command(error, &name);

    if (length > 0) {
        (void)snprintf(ret, LW_WHY_SIZE, "unknown command %.*s%s",
                       (int)(length < NAME_MAX_SHOWN ? length : NAME_MAX_SHOWN), name,
                       purpose_of(name, length));
    } else {
        const char *text = lw__classify_skip_place(error);

        (void)snprintf(ret, LW_WHY_SIZE, "%s%.*s%s", text != error ? "ERR " : "",
                       (int)length_without_place(text), text,
                       strcmp(error, NO_CLUSTER) == 0 ? " (use redis://)" : "");
    }
    return ret;
}

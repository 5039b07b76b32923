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

const char *lw__explain(const char *error, char ret[LW_WHY_SIZE])
{
    const char *name;
    size_t length = find_command(error, &name);

    if (length > 0) {
        (void)snprintf(ret, LW_WHY_SIZE, "unknown command %.*s%s",
                       (int)(length < NAME_MAX_SHOWN ? length : NAME_MAX_SHOWN), name,
                       purpose_of(name, length));
    } else {
        (void)snprintf(ret, LW_WHY_SIZE, "%s%s", error,
                       strcmp(error, NO_CLUSTER) == 0 ? " (use redis://)" : "");
    }
    return ret;
}

/* SPDX-License-Identifier: MIT */
/* guard_record.h's record. Independent of what the tests do with it. */
#include "guard_record.h"
#include "stage.h"

#include <stdio.h>
#include <string.h>

/* Returns the result of a Lua script as a text, valid until the next call. */
static const char *eval(const struct server *server, const char *lua,
                        const char *argument)
{
    static char text[256];
    redisContext *context = redisConnectUnix(server->path);
    redisReply *reply = redisCommand(context, "EVAL %s 0 %s", lua, argument);

    if (reply == NULL || reply->type != REDIS_REPLY_STRING) {
        stage_fail("%s: %s", lua,
                   reply != NULL && reply->str != NULL ? reply->str : "no text");
    }
    (void)snprintf(text, sizeof(text), "%s", reply->str);
    freeReplyObject(reply);
    redisFree(context);
    return text;
}

static void read_field(const char *info, const char *field, char ret[48])
{
    const char *at = strstr(info, field);

    if (at == NULL || sscanf(at + strlen(field), "%47s", ret) != 1) {
        stage_fail("INFO has no %s", field + 1);
    }
}

static void read_identity(const struct server *server, char *ret, size_t size)
{
    redisContext *context = redisConnectUnix(server->path);
    redisReply *reply = redisCommand(context, "INFO");
    char id[48], former[48], offset[48];

    if (reply == NULL || reply->str == NULL) {
        stage_fail("no INFO of %s", server->path);
    }
    read_field(reply->str, "\nrun_id:", id);
    read_field(reply->str, "\nmaster_replid2:", former);
    read_field(reply->str, "\nsecond_repl_offset:", offset);
    freeReplyObject(reply);
    redisFree(context);
    (void)snprintf(ret, size, "%s:%s:%s", id, former, offset);
}

void guard_record_open_in(const struct server *server, int guard_ms, int ms)
{
    char identity[160], arguments[200];

    read_identity(server, identity, sizeof(identity));
    (void)snprintf(arguments, sizeof(arguments), "%s %d %d", identity, guard_ms, ms);
    (void)eval(server,
               "local t, id, guard, ms = redis.call('TIME'), "
               "  ARGV[1]:match('^(%S+) (%d+) (%d+)$') "
               "local record = string.format('%s %s %.0f', id, guard, "
               "  t[1] * 1000000 + t[2] + ms * 1000) "
               "redis.call('SET', '" GUARD_RECORD "', record, 'PX', 86400000) "
               "return record",
               arguments);
}

long long guard_record_left_us(const struct server *server)
{
    return atoll(eval(server,
                      "local t = redis.call('TIME') "
                      "local from = redis.call('GET', '" GUARD_RECORD "'):match('%d+$') "
                      "return string.format('%.0f', from - t[1] * 1000000 - t[2])",
                      ""));
}

const char *guard_record_text(const struct server *server)
{
    return eval(server, "return redis.call('GET', '" GUARD_RECORD "') or ''", "");
}

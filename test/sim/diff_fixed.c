/* SPDX-License-Identifier: MIT
 *
 * Fixed lists: scripts of every shape that a value or an error can have, and refusals in
 * states that the random steps do not enter (a replica, no master, BUSY, a password).
 */
#include "diff.h"

#include <string.h>

static const char *const scripts[] = {
    "return redis.call('get')",
    "return redis.call('nope')",
    "return redis.call()",
    "return redis.call('get',{})",
    "return redis.call('set','p0',true)",
    "return redis.call('set','p0','x')",
    "return redis.call('hget','p0','x')",
    "return redis.pcall('hget','p0','x')",
    "return redis.pcall('hget','p0','x').err",
    "return redis.pcall('nope').err",
    "return redis.error_reply('My Err')",
    "return redis.error_reply('-My Err')",
    "return redis.error_reply('Single')",
    "return redis.error_reply('')",
    "return redis.error_reply()",
    "return redis.error_reply('a','b')",
    "return {err='My Err'}",
    "return {err='ab\\ncd'}",
    "return {err='ab\\n'}",
    "return {ok='ab\\n'}",
    "return redis.error_reply('a b\\r\\n')",
    "error('ab\\n')",
    "return {err='E x', ok='y'}",
    "return redis.status_reply('FINE')",
    "return {ok='fine'}",
    "return redis.status_reply()",
    "return redis.status_reply(1)",
    "return foo",
    "foo=1",
    "error('boom')",
    "error({err='My boom'})",
    "error({err='ab'})",
    "error({err=5})",
    "error(5)",
    "error(true)",
    "error('x y',0)",
    "error('ab\\ncd')",
    "return 1 + +",
    "local x=nil; return x.y",
    "\n\nlocal x=nil; return x.y",
    "return {1,2.9,-2.9,'a',true,false,nil,3}",
    "return {1,nil,3}",
    "return {{1,{'x'}},{},false}",
    "return 1e300",
    "return 0/0",
    "return -1e300",
    "return 2^53+1",
    "return 1.5 ..''",
    "return 1795000000000000 ..''",
    "return tostring(1795000000000001)",
    "return string.format('%.0f', 1795000000000001)",
    "redis.call('set','p0',1795000000000001) return redis.call('get','p0')",
    "redis.call('set','p0',0.1) return redis.call('get','p0')",
    "redis.call('set','p0',-0) return redis.call('get','p0')",
    "redis.call('set','p0',1/0) return redis.call('get','p0')",
    "return redis.call('get','nope')",
    "return type(redis.call('get','nope'))",
    "return redis.call('set','p0','v','nx')",
    "return type(redis.call('set','p0','v','nx'))",
    "return redis.call('ping')",
    "return redis.call('ping').ok",
    "return redis.call('time')",
    "return redis.call('TIME')[1]+0 > 5",
    "return redis.call('GeT','nope')",
    "return redis.call('subscribe','a')",
    "return redis.call('role')",
    "return redis.call('eval','return 1','0')",
    "return redis.call('auth','a')",
    "return redis.call('client','id')",
    "return redis.call('config','get','x')",
    "return redis.call('select','1')",
    "redis.call('select','1') redis.call('set','other','1') return "
    "redis.call('del','other')",
    "return redis.call('pubsub','numsub','x')",
    "return redis.call('pubsub','foo','x')",
    "return redis.call('script','flush')",
    "return redis.call('publish','c','m')",
    "return redis.pcall('set','p0').err",
    "return pcall(redis.call,'nope')",
    "local ok,e=pcall(redis.call,'hget','p0','f') return {type(e),tostring(e)}",
    "local ok,e=pcall(error,'x') return {type(e),tostring(e)}",
    "local ok,e=pcall(function() return foo end) return {type(e),tostring(e)}",
    "return {pcall(function(...) return ... end, 1, 2)}",
    "return redis.sha1hex('')",
    "return redis.sha1hex(string.rep('a',119))",
    "return function() end",
    "return {function() end, 2}",
    "KEYS[1]='x' return KEYS[1]",
    "return table.getn({1})",
    "return tostring(print)",
    "local function f() local r = redis.call('hget','p0','x') return r end\nreturn f()",
    "local function f() error('deep') end\nlocal a = 1\nf()\nreturn 1",
    "local function f() local x = 1 + nil end\nlocal a = 1\nf()\nreturn 1",
    "local x = tonumber({}) return 1",
    "local s = string.rep() return s",
    "table.sort({1,'a'})",
    "redis.log(redis.LOG_WARNING,'x') return 1",
    "redis.call('rpush','p1','a','b') return redis.call('lrange','p1',0,-1)",
    "redis.call('zadd','p2',1,'a',2.5,'b') return "
    "redis.call('zrange','p2',0,-1,'withscores')",
    "redis.call('hset','p3','a',1,'b','') return redis.call('hgetall','p3')",
    "return redis.call('hmget','p3','a','nope','b')",
    "return redis.call('del','p0','p1','p2','p3')",
};

/* A state that `on` and `off` begin and end on the real server. Each refused command is
 * compared in it. */
struct state {
    const char *on, *off;
    void (*model)(struct model_faults *faults, bool on);
};

static const char *const refused[] = {
    "set a b",         "del a",       "get a",         "ping",
    "publish a b",     "time",        "incr x y",      "nope",
    "client id x",     "select 0",    "unsubscribe c", "client setname x",
    "hset a",          "pexpire a 5", "flushall",      "config get maxmemory-policy",
    "script exists x",
};

static const char *const refused_scripts[] = {
    "return redis.call('set','a','b')",
    "return redis.pcall('set','a','b').err",
    "redis.call('get','a') return redis.pcall('del','a').err",
    "return redis.call('publish','a','b')",
    "return redis.call('time')",
    "return 1",
};

static void replica(struct model_faults *faults, bool on)
{
    faults->readonly = on;
}

static void masterless(struct model_faults *faults, bool on)
{
    faults->masterdown = on;
}

static void busy(struct model_faults *faults, bool on)
{
    faults->busy = on;
}

static void password(struct model_faults *faults, bool on)
{
    faults->password = on ? "secret" : NULL;
}

void diff_fixed_scripts(struct diff *diff)
{
    for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
        arguments_clear(diff);
        arguments_add(diff, "eval");
        arguments_add(diff, "%s", scripts[i]);
        arguments_add(diff, "0");
        diff_send(diff);
        diff_check_keys(diff);
    }
    static const char *const evals[] = {
        "eval x",
        "eval return x",
        "eval return -1",
        "eval return 5 a",
        "evalsha nope 0",
        "evalsha e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0",
        "script load return",
        "script exists 63143b6f8007b98c53ca2149822777b3566f9241 xx",
        "evalsha 63143B6F8007B98C53CA2149822777B3566F9241 0",
        "script load +",
        "script flush x",
        "script flush sync",
        "evalsha 63143b6f8007b98c53ca2149822777b3566f9241 0",
        "select 16",
        "select x",
        "client kill id abc",
        "client kill id 999999",
        "client kill id 0",
        "client kill 1.2.3.4:5",
        "client kill id",
        "auth x",
        "auth u p",
        "auth default any",
        "auth a b c",
        "role",
        "role x",
        "sentinel master x",
    };
    for (size_t i = 0; i < sizeof(evals) / sizeof(evals[0]); i++) {
        arguments_words(diff, evals[i]);
        diff_send(diff);
    }
}

static void compare_refusals(struct diff *diff, struct diff_link *link)
{
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        arguments_words(diff, refused[i]);
        /* TIME and writes compare equal, since time is frozen and both servers write. */
        diff_send_on(diff, link);
    }
    for (size_t i = 0; i < sizeof(refused_scripts) / sizeof(refused_scripts[0]); i++) {
        arguments_clear(diff);
        arguments_add(diff, "eval");
        arguments_add(diff, "%s", refused_scripts[i]);
        arguments_add(diff, "0");
        diff_send_on(diff, link);
    }
}

/* Compares refusals while a script on a link of its own runs endlessly, until the
 * administrator kills it. */
static void compare_busy(struct diff *diff)
{
    static const char endless[] =
        "*3\r\n$4\r\neval\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n";
    struct real_link link;
    struct buffer answer = {0};

    real_open(&link, &diff->real);
    real_write(&link, bytes_of(endless));
    do {
        buffer_clear(&answer);
        diff_admin_answer(diff, "ping", &answer);
    } while (answer.data[0] != '-');
    busy(model_server_faults(diff->model), true);
    compare_refusals(diff, &diff->command);
    busy(model_server_faults(diff->model), false);
    diff_admin(diff, "script kill");
    buffer_clear(&answer);
    real_read_answer(&link, &answer);
    buffer_free(&answer);
    real_close(&link);
}

static void compare_state(struct diff *diff, const struct state *state)
{
    struct diff_link fresh;

    diff_admin(diff, state->on);
    state->model(model_server_faults(diff->model), true);
    compare_refusals(diff, &diff->command);
    diff_open(diff, &fresh);
    compare_refusals(diff, &fresh);
    diff_close(diff, &fresh);
    diff_admin(diff, state->off);
    state->model(model_server_faults(diff->model), false);
    diff_check_keys(diff);
}

static void compare_password(struct diff *diff)
{
    static const char *const words[] = {
        "get a",         "get",         "nope",
        "ping",          "auth wrong",  "auth default wrong",
        "auth u secret", "auth secret", "ping"};
    struct diff_link fresh;

    diff_admin(diff, "config set requirepass secret");
    password(model_server_faults(diff->model), true);
    fresh.model = model_server_connect(diff->model);
    fresh.open = true;
    real_open(&fresh.real, &diff->real);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        arguments_words(diff, words[i]);
        diff_send_on(diff, &fresh);
    }
    arguments_words(diff, "ping");
    diff_send(diff); /* a connection made before stays authenticated */
    diff_admin(diff, "config set requirepass \"\"");
    password(model_server_faults(diff->model), false);
    real_close(&fresh.real);
    model_conn_free(fresh.model);
}

/* Returns the line of a field of INFO; fails if the field is missing. */
static struct bytes info_field(struct diff *diff, struct buffer *info, const char *field)
{
    const char *at;

    buffer_append(info, "", 1);
    at = strstr(info->data, field);
    if (at == NULL) {
        diff_fail(diff, field);
    }
    return (struct bytes){at, 1 + strcspn(at + 1, "\r\n")};
}

/* Compares the fields by which a client identifies the server. */
void diff_fixed_identity(struct diff *diff)
{
    static const char *const fields[] = {
        "\nrole:", "\nmaster_replid2:", "\nsecond_repl_offset:", "\nuptime_in_seconds:"};

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        struct buffer real = {0}, model = {0};

        diff_admin_answer(diff, "info", &real);
        model_server_ask_words(diff->model, "info", &model);
        if (!bytes_equal(info_field(diff, &real, fields[i]),
                         info_field(diff, &model, fields[i]))) {
            diff_fail(diff, fields[i] + 1);
        }
        buffer_free(&real);
        buffer_free(&model);
    }
}

void diff_fixed_refusals(struct diff *diff)
{
    static const struct state states[] = {
        {"replicaof 127.0.0.1 1", "replicaof no one", replica},
        {"config set replica-serve-stale-data no",
         "config set replica-serve-stale-data yes", masterless},
    };

    compare_state(diff, &states[0]);
    diff_admin(diff, "replicaof 127.0.0.1 1");
    compare_state(diff, &states[1]);
    diff_admin(diff, "replicaof no one");
    compare_busy(diff);
    compare_password(diff);
    diff_check_keys(diff);
}

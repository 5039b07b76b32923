/* SPDX-License-Identifier: MIT
 *
 * Decides whether a command may run now: authentication, permissions, memory,
 * replication, loading, busy, in Redis' order and words. Reads the fault switches, and
 * resets error_once.
 *
 * Usual course: gate_pass() decides for a request. gate_script_permission(),
 * gate_write_error() and the OOM text are for a script's commands (script_call.c has the
 * order).
 */
#include "model.h"

#include <string.h>

const char gate_oom_error[] = "OOM command not allowed when used memory > 'maxmemory'.";
const char gate_masterdown[] =
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";

static const char loading[] = "LOADING Redis is loading the dataset in memory";
static const char busy[] = "BUSY Redis is busy running a script. "
                           "You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
static const char readonly[] = "READONLY You can't write against a read only replica.";
static const char noreplicas[] = "NOREPLICAS Not enough good replicas to write.";
static const char misconf[] =
    "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to "
    "persist to "
    "disk. Commands that may modify the data set are disabled, because this instance is "
    "configured to report errors during writes if RDB snapshotting fails "
    "(stop-writes-on-bgsave-error option). Please check the Redis logs for details about "
    "the RDB "
    "error.";

static bool is_denied(const struct call *call)
{
    const char *at = call->server->faults.denied_commands;
    const char *name = call->command->name;
    size_t len = strlen(name);

    for (; at != NULL && *at; at += strspn(at, " ")) {
        size_t word = strcspn(at, " ");
        if (word == len && memcmp(at, name, len) == 0) {
            return true;
        }
        at += word;
    }
    return false;
}

static bool key_allowed(const struct call *call, int index)
{
    const char *prefix = call->server->faults.allowed_prefix;
    size_t len = strlen(prefix);
    struct bytes key = call->argv[index];
    return key.len >= len && memcmp(key.data, prefix, len) == 0;
}

static bool keys_allowed(const struct call *call)
{
    int first, last;

    if (call->server->faults.allowed_prefix == NULL ||
        (call->command->flags & CMD_SHARD) || !gate_keys(call, &first, &last)) {
        return true;
    }
    for (int i = first; i <= last; i++) {
        if (!key_allowed(call, i)) {
            return false;
        }
    }
    return true;
}

static bool channels_allowed(const struct call *call)
{
    return !call->server->faults.deny_channels ||
           !(call->command->flags & (CMD_CHANNELS | CMD_FIRST_CHANNEL));
}

const char *gate_script_permission(const struct call *call)
{
    if (is_denied(call)) {
        return "ERR The user executing the script can't run this command or subcommand";
    }
    if (!keys_allowed(call)) {
        return "ERR The user executing the script can't access at least one of the keys "
               "mentioned in the command arguments";
    }
    if (!channels_allowed(call)) {
        return "ERR The user executing the script can't publish to the channel mentioned "
               "in the "
               "command";
    }
    return NULL;
}

const char *gate_write_error(const struct call *call)
{
    const struct model_faults *faults = &call->server->faults;

    if (!(call->command->flags & CMD_WRITE)) {
        return NULL;
    }
    if (faults->misconf) {
        return misconf;
    }
    if (faults->noreplicas) {
        return noreplicas;
    }
    if (faults->readonly || faults->masterdown || call->server->master != NULL) {
        return readonly;
    }
    return NULL;
}

static const char *server_error(const struct call *call)
{
    const struct model_faults *faults = &call->server->faults;
    unsigned flags = call->command->flags;
    const char *error;

    if (faults->oom && (flags & CMD_DENY_OOM)) {
        return gate_oom_error;
    }
    error = gate_write_error(call);
    if (error != NULL) {
        return error;
    }
    if (faults->masterdown && !(flags & CMD_STALE)) {
        return gate_masterdown;
    }
    if (faults->loading && !(flags & CMD_LOADING)) {
        return loading;
    }
    if (faults->busy && !(flags & CMD_ALLOW_BUSY)) {
        return busy;
    }
    return NULL;
}

static bool refuse(struct call *call, const char *error)
{
    resp_error(call->reply, "%s", error);
    return false;
}

static bool permitted(struct call *call)
{
    if (is_denied(call)) {
        resp_error(call->reply,
                   "NOPERM this user has no permissions to run the '%s' command",
                   call->command->name);
        return false;
    }
    if (!keys_allowed(call)) {
        return refuse(
            call, "NOPERM this user has no permissions to access one of the keys used "
                  "as arguments");
    }
    if (!channels_allowed(call)) {
        return refuse(call,
                      "NOPERM this user has no permissions to access one of the channels "
                      "used as arguments");
    }
    return true;
}

bool gate_pass(struct call *call)
{
    struct model_faults *faults = &call->server->faults;
    unsigned flags = call->command->flags;
    const char *error;

    if (faults->error_once != NULL) {
        error = faults->error_once;
        faults->error_once = NULL;
        return refuse(call, error);
    }
    if (!call->conn->authenticated && !(flags & CMD_NO_AUTH)) {
        return refuse(call, "NOAUTH Authentication required.");
    }
    if (!permitted(call) || !gate_slots(call)) {
        return false;
    }
    if (call->conn->subscription_count && !(flags & CMD_SUBSCRIBED)) {
        /* Redis checks memory and replication before this. No client notices the
         * difference, since none sends such commands on a subscribed connection. */
        resp_error(call->reply,
                   "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / "
                   "PING / QUIT "
                   "/ RESET are allowed in this context",
                   call->command->name);
        return false;
    }
    error = server_error(call);
    return error != NULL ? refuse(call, error) : true;
}

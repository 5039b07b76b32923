/* SPDX-License-Identifier: MIT */
/* See findings.h. The remedies are chosen by words of the library's and the servers'
 * texts; a test compares these words with their sources. */
#include "findings.h"

#include "base/escape.h"
#include "lockwire.h"

#include <ctype.h>
#include <json-c/json.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define REMEDY_MAX 300

struct finding {
    enum finding_level level;
    char server[300]; /* or "" */
    char text[LW_WHY_SIZE + 200];
    char remedy[REMEDY_MAX]; /* or "" */
};

static const char *const level_names[] = {"ok", "warning", "fails"};

/* ---- remedies ---- */

/* The first one whose words are in the text. */
static const struct {
    const char *words, *remedy;
} remedies[] = {
    {"WRONGPASS", "correct the user or the password in the URL or in --password-file"},
    {"NOAUTH", "give the password: --password-file, or in the URL"},
    {"LOADING", "wait until the server has loaded its data"},
    {"MASTERDOWN", "use the URL of the master, or redis-sentinel://"},
    {"READONLY", "use the URL of the master, or redis-sentinel://"},
    {" is a replica", "use the URL of the master, or redis-sentinel://"},
    {"not listed in the URL",
     "add it to the URL: only a listed sentinel can name a new master"},
    {"is not the master", "wait for the failover to end, or compare the sentinels"},
    {"DENIED", "set a password at the server, or let it listen at a private address"},
    {"ERR max number of clients", "raise maxclients, or find out who connects so often"},
    {"BUSY", "wait for the script to end, or SCRIPT KILL"},
    {"OOM", "raise maxmemory, or use a server for locks alone"},
    {"MISCONF", "see the server's log: the disk is full, or may not be written"},
    {"NOREPLICAS", "start the replicas, or lower min-replicas-to-write"},
    {"CLUSTERDOWN", "start the nodes that are down; see CLUSTER INFO and CLUSTER NODES"},
    {"no node reports the cluster as up",
     "start the nodes that are down; see CLUSTER INFO and CLUSTER NODES"},
    {"slots are unreachable",
     "start the masters that are down, or promote their replicas; see CLUSTER NODES"},
    {"no connection to the cluster's node", "start it, or let it rejoin the cluster"},
    {"the server may evict held locks", "CONFIG SET maxmemory-policy noeviction"},
    {"min-replicas-to-write or min-replicas-max-lag is 0",
     "CONFIG SET min-replicas-to-write 1 and min-replicas-max-lag 10, at all servers"},
    {"with the guard it must not be above",
     "CONFIG SET min-replicas-max-lag 10, at all servers"},
    {"fencing tokens may become smaller",
     "synchronize the clocks of the servers and of this host (NTP)"},
    {"seem to reach different servers",
     "connect to the server itself, by its own address"},
    {"Connection refused",
     "start the server, or correct its host and port; see its `bind` and firewalls"},
    {"timed out looking up", "correct the host in the URL, or the name server"},
    {"timed out", "see whether the server hangs, or a firewall drops the packets"},
    {"no sentinel reported a usable master",
     "compare the service's name with the sentinels' configuration, and start the "
     "master"},
    {"is unknown to the server", "use a newer server, or connect past the proxy"},
};

/* Copies the name of a command, in lower case and with its subcommand behind a |. */
static void copy_command(const char *name, size_t length, char *ret, size_t size)
{
    size_t i;

    for (i = 0; i < length && i + 1 < size; i++) {
        ret[i] = (char)(name[i] == ' ' ? '|' : tolower((unsigned char)name[i]));
    }
    ret[i] = '\0';
}

/* Returns true, with the command, if the account may not execute one. The library's text
 * is "CONFIG GET is not permitted; ...", a server's "... to run the 'config|get'
 * command".
 */
static bool find_denied(const char *text, char *ret, size_t size)
{
    static const char ours[] = " is not permitted; ", theirs[] = " to run the '";
    const char *at = strstr(text, ours);

    if (at != NULL) {
        copy_command(text, (size_t)(at - text), ret, size);
        return true;
    }
    at = strstr(text, theirs);
    if (at != NULL) {
        at += strlen(theirs);
        copy_command(at, strcspn(at, "'"), ret, size);
    }
    return at != NULL;
}

/* Returns true if the account may execute the command, but not use the channel. The
 * library names the command in front of the server's text. */
static bool is_denied_channel(const char *text)
{
    return strstr(text, "permissions to access one of the channels") != NULL ||
           strstr(text, "permissions to access a channel") != NULL || /* Redis 7.2 */
           strstr(text, "can't publish to the channel") != NULL;
}

/* Returns how all keys and channels begin that an account needs besides the names. */
static const char *start_of_keys(const struct findings *findings)
{
    return *findings->prefix ? findings->prefix : "lockwire:";
}

/* Writes what the account lacks. Returns false if that is not what the text is about. */
static bool write_grant(const struct findings *findings, const char *text, char *ret)
{
    const char *user = findings->user;
    char command[60];

    if (is_denied_channel(text)) {
        (void)snprintf(ret, REMEDY_MAX, "ACL SETUSER %s &%s*", user,
                       start_of_keys(findings));
    } else if (find_denied(text, command, sizeof(command))) {
        bool sentinel = strncmp(command, "sentinel|", strlen("sentinel|")) == 0;

        (void)snprintf(ret, REMEDY_MAX, "ACL SETUSER %s +%s%s",
                       sentinel ? findings->sentinel_user : user, command,
                       sentinel ? ", at the sentinels" : "");
    } else if (strstr(text, "can't run this command") != NULL) {
        (void)snprintf(ret, REMEDY_MAX,
                       "ACL LOG, at the server, has the command; ACCOUNTS in lockwire(7) "
                       "has all that are needed");
    } else if (strstr(text, "permissions to access") == NULL &&
               strstr(text, "can't access at least one of the keys") == NULL) {
        return false;
    } else {
        (void)snprintf(ret, REMEDY_MAX,
                       *findings->prefix
                           ? "ACL SETUSER %s ~%s*"
                           : "ACL SETUSER %s ~%s* and a pattern for the names of locks; "
                             "or try a NAME that this account may use",
                       user, start_of_keys(findings));
    }
    return true;
}

static void write_remedy(const struct findings *findings, const char *text, char *ret)
{
    static const char sentinel[] = "sentinel ";

    if (write_grant(findings, text, ret)) {
        return;
    }
    for (size_t i = 0; i < sizeof(remedies) / sizeof(*remedies); i++) {
        if (strstr(text, remedies[i].words) != NULL) {
            (void)snprintf(ret, REMEDY_MAX, "%s", remedies[i].remedy);
            return;
        }
    }
    if (strncmp(text, sentinel, strlen(sentinel)) == 0 &&
        strstr(text, " as the master") == NULL) {
        (void)snprintf(ret, REMEDY_MAX, "mend it, or leave it out of the URL");
    }
}

/* ---- the list ---- */

/* The client of a quorum puts a server in front of what that server's own client logs. */
static bool is_same(const struct finding *one, const struct finding *new)
{
    size_t length = strlen(one->text), whole = strlen(new->text);

    if (*one->server && !*new->server) {
        return whole > length + 2 && strcmp(new->text + whole - length, one->text) == 0 &&
               strncmp(new->text + whole - length - 2, ": ", 2) == 0;
    }
    return strcmp(one->text, new->text) == 0 && strcmp(one->server, new->server) == 0;
}

static struct finding *find(const struct findings *findings, const struct finding *new)
{
    for (size_t i = 0; i < findings->count; i++) {
        if (is_same(&findings->list[i], new)) {
            return &findings->list[i];
        }
    }
    return NULL;
}

/* One that is there already keeps the worse level. */
static void add(struct findings *findings, const struct finding *new)
{
    struct finding *same = find(findings, new);

    if (same != NULL) {
        same->level = new->level > same->level ? new->level : same->level;
        return;
    }
    if (findings->count == findings->room) {
        size_t room = findings->room > 0 ? findings->room * 2 : 16;
        struct finding *list = realloc(findings->list, room * sizeof(*list));

        if (list == NULL) {
            findings->incomplete = true;
            return;
        }
        findings->list = list;
        findings->room = room;
    }
    findings->list[findings->count++] = *new;
}

void findings_add(struct findings *findings, enum finding_level level, const char *remedy,
                  const char *format, ...)
{
    struct finding new = {.level = level};
    char text[sizeof(new.text)];
    va_list args;

    (void)snprintf(new.server, sizeof(new.server), "%s", findings->server);
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    lw__escape(text, new.text, sizeof(new.text));
    if (*remedy) {
        (void)snprintf(new.remedy, sizeof(new.remedy), "%s", remedy);
    } else if (level != FINDING_OK) {
        write_remedy(findings, new.text, new.remedy);
    }
    add(findings, &new);
}

void findings_add_log(struct findings *findings, int syslog_level, const char *message)
{
    char remedy[REMEDY_MAX] = "";

    write_remedy(findings, message, remedy);
    findings_add(findings,
                 syslog_level >= LOG_INFO && !*remedy ? FINDING_OK : FINDING_WARNING,
                 remedy, "%s", message);
}

void findings_clear(struct findings *findings)
{
    free(findings->list);
}

/* ---- writing ---- */

static void write_lines(const struct findings *findings, int code)
{
    size_t problems = 0;

    for (size_t i = 0; i < findings->count; i++) {
        const struct finding *one = &findings->list[i];

        problems += one->level != FINDING_OK;
        (void)printf("%-8s %s%s%s\n", level_names[one->level], one->server,
                     *one->server ? ": " : "", one->text);
        if (*one->remedy) {
            (void)printf("         -> %s\n", one->remedy);
        }
    }
    if (code == 0) {
        (void)printf("\nLocks work here; problems: %zu\n", problems);
    } else {
        (void)printf("\nLocks do not work here; the exit code is %d\n", code);
    }
}

/* Adds a member; takes `value`. Returns false without memory. */
static bool put(struct json_object *object, const char *key, struct json_object *value)
{
    if (value != NULL && json_object_object_add(object, key, value) == 0) {
        return true;
    }
    json_object_put(value);
    return false;
}

static bool put_text(struct json_object *object, const char *key, const char *text)
{
    return *text ? put(object, key, json_object_new_string(text))
                 : json_object_object_add(object, key, NULL) == 0;
}

static bool add_object(struct json_object *array, const struct finding *one)
{
    struct json_object *object = json_object_new_object();

    if (object == NULL) {
        return false;
    }
    if (!put_text(object, "level", level_names[one->level]) ||
        !put_text(object, "server", one->server) ||
        !put_text(object, "text", one->text) ||
        !put_text(object, "remedy", one->remedy) ||
        json_object_array_add(array, object) < 0) {
        json_object_put(object);
        return false;
    }
    return true;
}

/* Returns false without memory. */
static bool fill(struct json_object *object, const struct findings *findings, int code)
{
    struct json_object *array = json_object_new_array();

    if (!put(object, "findings", array) ||
        !put(object, "exit_code", json_object_new_int(code))) {
        return false;
    }
    for (size_t i = 0; i < findings->count; i++) {
        if (!add_object(array, &findings->list[i])) {
            return false;
        }
    }
    return true;
}

static int write_json(const struct findings *findings, int code)
{
    struct json_object *object = json_object_new_object();
    const char *text = NULL;

    if (object != NULL && fill(object, findings, code)) {
        text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY |
                                                          JSON_C_TO_STRING_NOSLASHESCAPE);
    }
    if (text != NULL) {
        (void)printf("%s\n", text);
    }
    json_object_put(object);
    return text != NULL ? 0 : -1;
}

int findings_write(const struct findings *findings, int code, bool json)
{
    if (findings->incomplete) {
        return -1;
    }
    if (json) {
        return write_json(findings, code);
    }
    write_lines(findings, code);
    return 0;
}

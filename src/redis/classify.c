/* SPDX-License-Identifier: MIT */
/* What an error reply means for whoever asked. Must not know which command was answered.
 * What has no code that is known is refused for good. The rest of the text may say
 * anything, names of keys, arguments, users: so a code counts only where the server
 * itself puts one, at the beginning (lw__reply_text sees to it that the error of a
 * script's command begins with it, too). */
#include "redis/classify.h"

#include "lockwire.h"

#include <string.h>

/* A script's own command met a key that is not there, in a slot that is on its way: the
 * script itself has just deleted it, and what it did before that stands. */
#define NOT_HERE "ERR Script attempted to access a non local key"
#define NOT_HERE_BY_VALKEY "ERR Attempted to access a non local key"
#define TOO_MANY "ERR max number of clients"

/* A command of a script met CLUSTERDOWN: the node lost the others meanwhile. */
#define DOWN_IN_SCRIPT "ERR Script attempted to execute a "
#define DOWN_IN_SCRIPT_BY_VALKEY "ERR Can not execute a "
#define IS_DOWN "while the cluster is down"

static bool begins_with(const char *error, const char *code)
{
    size_t length = strlen(code);

    return strncmp(error, code, length) == 0 &&
           (error[length] == ' ' || error[length] == '\0');
}

/* The words in between name the command at most. */
static bool is_down_in_script(const char *error)
{
    static const char *const begins[] = {DOWN_IN_SCRIPT, DOWN_IN_SCRIPT_BY_VALKEY};

    for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++) {
        if (strncmp(error, begins[i], strlen(begins[i])) == 0) {
            return strstr(error, IS_DOWN) != NULL;
        }
    }
    return false;
}

bool lw__classify_down(const char *error)
{
    return begins_with(error, "CLUSTERDOWN") || is_down_in_script(error);
}

enum lw__error_class lw__classify(const char *error)
{
    static const struct {
        const char *code;
        enum lw__error_class class;
    } codes[] = {
        {"NOSCRIPT", LW__ERR_NOSCRIPT},
        {"LOADING", LW__ERR_LINK},
        {"NOAUTH", LW__ERR_LINK},
        {"READONLY", LW__ERR_LINK},
        {"MASTERDOWN", LW__ERR_LINK},
        {TOO_MANY, LW__ERR_LINK},
        {"DENIED", LW__ERR_LINK},
        {"BUSY", LW__ERR_TRANSIENT},
        {"OOM", LW__ERR_TRANSIENT},
        {"MISCONF", LW__ERR_TRANSIENT},
        {"NOREPLICAS", LW__ERR_TRANSIENT},
        {"TRYAGAIN", LW__ERR_TRANSIENT},
        {"ASK", LW__ERR_TRANSIENT},
        {NOT_HERE, LW__ERR_TRANSIENT},
        {NOT_HERE_BY_VALKEY, LW__ERR_TRANSIENT},
    };

    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        if (begins_with(error, codes[i].code)) {
            return codes[i].class;
        }
    }
    if (lw__classify_down(error)) {
        return LW__ERR_TRANSIENT;
    }
    /* NOPERM, and what Redis 7 says of what a script may not use */
    return LW__ERR_REFUSED;
}

bool lw__classify_no_replicas(const char *error)
{
    return begins_with(error, "NOREPLICAS");
}

bool lw__classify_moving(const char *error)
{
    return begins_with(error, "TRYAGAIN") || begins_with(error, "ASK");
}

bool lw__classify_moved(const char *error)
{
    return begins_with(error, "MOVED");
}

bool lw__classify_denied(const char *error)
{
    return begins_with(error, "NOPERM");
}

bool lw__classify_unknown(const char *error)
{
    return begins_with(error, "ERR unknown command");
}

bool lw__classify_account(const char *error)
{
    return begins_with(error, "WRONGPASS") || begins_with(error, "NOAUTH") ||
           begins_with(error, "NOPERM");
}

bool lw__classify_login(const char *error)
{
    return lw__classify_account(error) ||
           (begins_with(error, "ERR") && !begins_with(error, TOO_MANY));
}

bool lw__classify_guide(const char *error)
{
    return lw__classify_account(error) || lw__classify_unknown(error) ||
           begins_with(error, "ERR No such master") ||
           begins_with(error, "ERR This instance has cluster support disabled");
}

int lw__classify_status(const char *error)
{
    bool away = lw__classify(error) == LW__ERR_LINK || lw__classify_down(error) ||
                lw__classify_moving(error) || lw__classify_moved(error) ||
                begins_with(error, NOT_HERE) || begins_with(error, NOT_HERE_BY_VALKEY);

    return away && !lw__classify_account(error) ? LW_ECONN : LW_EREDIS;
}

/* Codes by which a server turns a command down before it is run; a proxy's are others. */
bool lw__classify_undone(const char *error)
{
    static const char *const codes[] = {
        "CLUSTERDOWN", "TRYAGAIN", "ASK",    "MOVED", "LOADING", "MASTERDOWN", "NOAUTH",
        "BUSY",        "READONLY", "NOPERM", "OOM",   "MISCONF", "NOREPLICAS"};

    if (strstr(error, "user_script") != NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        if (begins_with(error, codes[i])) {
            return true;
        }
    }
    return false;
}

/* What stands behind a prefix; NULL: it is not there. */
static const char *behind(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);

    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

/* Behind `user_script:7: `, in any of its forms; NULL: no such place. */
static const char *behind_place(const char *text)
{
    const char *at = behind(*text == '@' ? text + 1 : text, "user_script:");
    size_t digits;

    if (at == NULL) {
        return NULL;
    }
    if (*at == ' ') {
        at++;
    }
    digits = strspn(at, "0123456789");
    return digits > 0 ? behind(at + digits, ": ") : NULL;
}

/* ERR Error running script (call to f_<sha>): @user_script:7: @user_script: 7: -OOM ...
 * @user_script: 7: -OOM ...                    (an error that the script answered itself)
 * An error that is not a command's, but of Lua, has no code there. */
const char *lw__classify_own_words(const char *error)
{
    const char *at = behind(error, "ERR Error running script (call to "), *next;
    size_t code;

    if (at != NULL && (at = strstr(at, "): ")) != NULL) {
        at += strlen("): ");
    } else {
        at = error;
    }
    while ((next = behind_place(at)) != NULL) {
        at = next;
    }
    if (at == error) {
        return error;
    }
    at += *at == '-';
    code = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return code > 0 && (at[code] == ' ' || at[code] == '\0') ? at : error;
}

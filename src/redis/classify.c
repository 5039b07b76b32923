/* SPDX-License-Identifier: MIT */
/* What an error reply means: see classify.h. Independent of the command that it answers.
 * An error with an unknown code counts as permanent. The rest of the text may contain
 * anything (names of keys, arguments, users), so a code counts only at the beginning,
 * where the server puts it. lw__reply_text makes the error of a script's command begin
 * with its code, too. */
#include "redis/classify.h"

#include "base/outcome.h"
#include "lockwire.h"

#include <string.h>

/* "Attempted to access a non local key": a command of a script named a key that does not
 * exist, in a slot that is migrating. The script itself has just deleted the key, and its
 * earlier writes remain. */

#define TOO_MANY "ERR max number of clients"

/* A command of a script got CLUSTERDOWN: the script began, since the node may be read
 * while the cluster is down, or has lost contact with the others in the meantime. */
#define DOWN_IN_SCRIPT "ERR Script attempted to execute a "
#define DOWN_IN_SCRIPT_BY_6_2 "ERR Error running script (call to "
#define DOWN_IN_SCRIPT_BY_VALKEY "ERR Can not execute a "
#define IS_DOWN "while the cluster is down"

static bool begins_with(const char *error, const char *code)
{
    size_t length = strlen(code);

    return strncmp(error, code, length) == 0 &&
           (error[length] == ' ' || error[length] == '\0');
}

/* The words in between name the command, if anything. */
static bool is_down_in_script(const char *error)
{
    static const char *const begins[] = {DOWN_IN_SCRIPT, DOWN_IN_SCRIPT_BY_6_2,
                                         DOWN_IN_SCRIPT_BY_VALKEY};

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
#define CODE(code, class, sentence) {code, LW__ERR_##class},
        LW__OUTCOME_NOT_NOW_MAP(CODE)
#undef CODE
            {"NOSCRIPT", LW__ERR_NOSCRIPT},
        {"NOAUTH", LW__ERR_LINK},
    };

    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        if (begins_with(error, codes[i].code)) {
            return codes[i].class;
        }
    }
    if (lw__classify_down(error)) {
        return LW__ERR_TRANSIENT;
    }
    /* NOPERM, and Redis 7's errors for commands and keys that scripts may not use */
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

bool lw__classify_topology(const char *error)
{
    return lw__classify_account(error) || lw__classify_unknown(error) ||
           begins_with(error, "ERR No such master") ||
           begins_with(error, "ERR This instance has cluster support disabled");
}

int lw__classify_status(const char *error)
{
    enum lw__error_class class = lw__classify(error);
    bool not_now = class == LW__ERR_LINK || class == LW__ERR_TRANSIENT ||
                   lw__classify_moved(error);

    return not_now && !lw__classify_account(error) ? LW_ECONN : LW_EREDIS;
}

/* Servers return these codes before they execute a command. Proxies use other ones. */
static bool is_undone_command(const char *error)
{
    static const char *const codes[] = {
        "CLUSTERDOWN", "TRYAGAIN", "ASK",    "MOVED", "LOADING", "MASTERDOWN", "NOAUTH",
        "BUSY",        "READONLY", "NOPERM", "OOM",   "MISCONF", "NOREPLICAS"};

    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        if (begins_with(error, codes[i])) {
            return true;
        }
    }
    return false;
}

/* A server refuses a script's write by one of these codes only if it has refused all
 * writes of that script so far: the state does not change while a script runs, and OOM is
 * for the first write. */
static bool is_undone_script(const char *error)
{
    const char *own_words = lw__classify_own_words(error);

    return begins_with(own_words, "OOM") || begins_with(own_words, "MISCONF") ||
           begins_with(own_words, "NOREPLICAS") || begins_with(own_words, "READONLY");
}

bool lw__classify_undone(const char *error)
{
    return strstr(error, "user_script") != NULL ? is_undone_script(error)
                                                : is_undone_command(error);
}

/* Returns the text after the prefix, or NULL if the text does not begin with it. */
static const char *skip_prefix(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);

    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

/* Returns the text after a position, `user_script:7: ` in any of its forms, or NULL. */
static const char *skip_position(const char *text)
{
    const char *at = skip_prefix(*text == '@' ? text + 1 : text, "user_script:");
    size_t digits;

    if (at == NULL) {
        return NULL;
    }
    if (*at == ' ') {
        at++;
    }
    digits = strspn(at, "0123456789");
    return digits > 0 ? skip_prefix(at + digits, ": ") : NULL;
}

const char *lw__classify_skip_place(const char *error)
{
    const char *at = skip_prefix(error, "ERR Error running script (call to "), *next;

    if (at != NULL && (at = strstr(at, "): ")) != NULL) {
        at += strlen("): ");
    } else {
        at = error;
    }
    while ((next = skip_position(at)) != NULL) {
        at = next;
    }
    return at;
}

/* ERR Error running script (call to f_<sha>): @user_script:7: @user_script: 7: -OOM ...
 * @user_script: 7: -OOM ...                    (an error that the script itself returned)
 * There is no code in this place if the error is Lua's, not a command's. */
const char *lw__classify_own_words(const char *error)
{
    const char *at = lw__classify_skip_place(error);
    size_t code;

    if (at == error) {
        return error;
    }
    at += *at == '-';
    code = strspn(at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    return code > 0 && (at[code] == ' ' || at[code] == '\0') ? at : error;
}

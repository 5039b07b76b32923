/* SPDX-License-Identifier: MIT */
/*
 * What an error reply means for whoever asked: see protocol.h. Must not know which command was
 * answered.
 *
 * The rest of the text may say anything: names of keys, arguments, users. So a code counts only
 * where the server itself puts one: at the beginning, and, where Redis 6 tells of what happened
 * inside a script, behind the places:
 *     ERR Error running script (call to f_<sha>): @user_script:7: @user_script: 7: -OOM ...
 *     @user_script: 7: -OOM ...                       (an error that the script answered itself)
 * Happy path: OOM -> code_of() -> LW__ERR_TRANSIENT.
 */
#include "protocol.h"

#include <string.h>

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

    if (!at)
        return NULL;
    if (*at == ' ')
        at++;
    digits = strspn(at, "0123456789");
    return digits > 0 ? behind(at + digits, ": ") : NULL;
}

static const char *code_of(const char *error)
{
    const char *at = behind(error, "ERR Error running script (call to "), *next;

    if (at && (at = strstr(at, "): ")) != NULL)
        at += strlen("): ");
    else
        at = error;
    while ((next = behind_place(at)) != NULL)
        at = next;
    return at != error && *at == '-' ? at + 1 : at;
}

static bool is_code(const char *at, const char *code)
{
    const char *end = behind(at, code);

    return end && (*end == ' ' || *end == '\0');
}

enum lw__error_class lw__classify(const char *error)
{
    static const struct {
        const char *code;
        enum lw__error_class class;
    } codes[] = {
        {"NOSCRIPT", LW__ERR_NOSCRIPT},     {"LOADING", LW__ERR_LINK},
        {"NOAUTH", LW__ERR_LINK},           {"READONLY", LW__ERR_LINK},
        {"MASTERDOWN", LW__ERR_LINK},       {"ERR max number of clients", LW__ERR_LINK},
        {"BUSY", LW__ERR_TRANSIENT},        {"OOM", LW__ERR_TRANSIENT},
        {"MISCONF", LW__ERR_TRANSIENT},     {"NOREPLICAS", LW__ERR_TRANSIENT},
        {"CLUSTERDOWN", LW__ERR_TRANSIENT}, {"TRYAGAIN", LW__ERR_TRANSIENT},
    };
    const char *at = code_of(error);

    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (is_code(at, codes[i].code))
            return codes[i].class;
    }
    /* NOPERM, and what Redis 7 says of a key, command or channel that a script may not use. */
    return LW__ERR_REFUSED;
}

bool lw__denied(const char *error)
{
    return is_code(code_of(error), "NOPERM");
}

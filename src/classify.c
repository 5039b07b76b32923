/* SPDX-License-Identifier: MIT */
/*
 * What an error reply means for whoever asked: see protocol.h. Must not know which
 * command was answered.
 *
 * The rest of the text may say anything: names of keys, arguments, users. So a code
 * counts only where the server itself puts one, at the beginning (lw__reply_text sees to
 * it that the error of a script's command begins with it, too). Happy path: OOM ->
 * LW__ERR_TRANSIENT.
 */
#include "protocol.h"

#include <string.h>

static bool begins_with(const char *error, const char *code)
{
    size_t length = strlen(code);

    return strncmp(error, code, length) == 0 &&
           (error[length] == ' ' || error[length] == '\0');
}

enum lw__error_class lw__classify(const char *error)
{
    static const struct {
        const char *code;
        enum lw__error_class class;
    } codes[] = {
        {"NOSCRIPT", LW__ERR_NOSCRIPT},    {"LOADING", LW__ERR_LINK},
        {"NOAUTH", LW__ERR_LINK},          {"READONLY", LW__ERR_LINK},
        {"MASTERDOWN", LW__ERR_LINK},      {"ERR max number of clients", LW__ERR_LINK},
        {"DENIED", LW__ERR_LINK},          {"BUSY", LW__ERR_TRANSIENT},
        {"OOM", LW__ERR_TRANSIENT},        {"MISCONF", LW__ERR_TRANSIENT},
        {"NOREPLICAS", LW__ERR_TRANSIENT}, {"CLUSTERDOWN", LW__ERR_TRANSIENT},
        {"TRYAGAIN", LW__ERR_TRANSIENT},
    };

    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        if (begins_with(error, codes[i].code)) {
            return codes[i].class;
        }
    }
    /* NOPERM, and what Redis 7 says of a key, command or channel that a script may not
     * use. */
    return LW__ERR_REFUSED;
}

bool lw__denied(const char *error)
{
    return begins_with(error, "NOPERM");
}

/* SPDX-License-Identifier: MIT */
/*
 * See refusal.h. The library names the command that was answered: "AUTH: WRONGPASS ...".
 * What passes by itself (LOADING, MASTERDOWN, too many clients ...) is no refusal; nor is
 * an error that is not known here, which a proxy may have made up for the moment.
 */
#include "refusal.h"

#include <stddef.h>
#include <string.h>

static const char *behind(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);

    return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

/* Of AUTH or SELECT. */
static bool refuses(const char *answer)
{
    static const char *const codes[] = {"WRONGPASS ", "NOPERM ", "NOAUTH ", "ERR "};

    if (behind(answer, "ERR max number of clients") != NULL) {
        return false;
    }
    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        if (behind(answer, codes[i]) != NULL) {
            return true;
        }
    }
    return false;
}

bool is_refusal(const char *why)
{
    const char *logged = behind(why, "no connection: ");
    const char *said = logged != NULL ? logged : why;
    /* without a password the first question is another one */
    static const char *const others[] = {"CLIENT SETNAME: NOAUTH ", "CLIENT ID: NOAUTH ",
                                         "INFO: NOAUTH "};
    const char *answer = behind(said, "AUTH: ");

    if (answer == NULL) {
        answer = behind(said, "SELECT: ");
    }
    if (answer != NULL) {
        return refuses(answer);
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
        if (behind(said, others[i]) != NULL) {
            return true;
        }
    }
    return false;
}

/* SPDX-License-Identifier: MIT */
/*
 * See refusal.h. The library names the command that was answered: "AUTH: WRONGPASS ...". What
 * passes by itself (LOADING, MASTERDOWN, too many clients ...) is no refusal; nor is an error
 * that is not known here, which a proxy may have made up for the moment.
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

    for (size_t i = 0; i < sizeof(codes) / sizeof(*codes); i++) {
        if (behind(answer, codes[i]))
            return !strstr(answer, "max number of clients");
    }
    return false;
}

bool is_refusal(const char *why)
{
    const char *logged = behind(why, "no connection: ");
    const char *said = logged ? logged : why;
    const char *answer = behind(said, "AUTH: ");

    if (!answer)
        answer = behind(said, "SELECT: ");
    if (!answer) /* without a password the first question is another one */
        return strstr(said, ": NOAUTH ") != NULL;
    return refuses(answer);
}

/* SPDX-License-Identifier: MIT */
/*
 * See refusal.h. The library names the command that was answered: "AUTH: WRONGPASS ...".
 * What passes by itself (LOADING, MASTERDOWN, too many clients ...) is no refusal; nor is
 * an error that is not known here, which a proxy may have made up for the moment.
 */
#include "refusal.h"

#include "base/told.h"

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

/* What a server says to the first questions of a connection. */
static bool is_server_s(const char *said)
{
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

/* What a sentinel says when it is asked for the master, or a node for the slots. */
static bool is_guide_s(const char *said)
{
    return is_server_s(said) || behind(said, "NOAUTH ") != NULL ||
           behind(said, "NOPERM ") != NULL ||
           behind(said, "ERR No such master") != NULL ||
           behind(said, "ERR This instance has cluster support disabled") != NULL ||
           behind(said, "ERR unknown command") != NULL; /* a plain server's */
}

/* The same of a text that is cut: as far as can be seen. */
static bool may_be_sentinel_s(const char *said)
{
    static const char *const begins[] = {"AUTH: ",
                                         "CLIENT SETNAME: ",
                                         "CLIENT ID: ",
                                         "INFO: ",
                                         "NOAUTH ",
                                         "NOPERM ",
                                         "ERR No ",
                                         "ERR This instance has cluster",
                                         "ERR unknown command"};

    for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++) {
        size_t seen = strlen(said), length = strlen(begins[i]);

        if (strncmp(said, begins[i], seen < length ? seen : length) == 0) {
            return true;
        }
    }
    return false;
}

/* Of "host:port: text; host:port: text ...": all, since one of them may be better
 * tomorrow. */
static bool all_refuse(const char *list, bool cut)
{
    for (const char *next; list != NULL; list = next) {
        const char *said = strstr(list, ": ");

        next = strstr(list, "; ");
        if (next != NULL) {
            next += 2;
        } else if (cut) {
            return said == NULL || may_be_sentinel_s(said + 2);
        }
        if (said == NULL || !is_guide_s(said + 2)) {
            return false;
        }
    }
    return true;
}

bool is_refusal(const char *why)
{
    const char *logged = behind(why, "no connection: ");
    const char *said = logged != NULL ? logged : why;
    const char *guides = behind(said, "no sentinel leads to the master; ");

    if (guides == NULL) {
        guides = behind(said, "no node tells which slots the nodes have; ");
    }
    if (guides != NULL) { /* what is cut is cut between characters */
        return all_refuse(guides, strlen(said) >= LW__WHY - 4);
    }
    return is_server_s(said);
}

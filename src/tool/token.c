/* SPDX-License-Identifier: MIT */
/* See token.h. */
#include "token.h"

#include <stddef.h>
#include <string.h>

#define UUID 36
#define PADDED 23 /* digits of a number with leading zeros */

/* Returns the text behind a number and the character `end`, or NULL. */
static const char *skip_number(const char *text, char end)
{
    size_t digits = strspn(text, "0123456789");

    return digits > 0 && *text != '0' && text[digits] == end ? text + digits + 1 : NULL;
}

/* A token is `<client uuid>:<n>:<window ms>-`, and n may have leading zeros, in sum 23
 * digits. */
bool token_is_ours(const char *token)
{
    for (size_t i = 0; i < UUID; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;

        if (token[i] == '\0' ||
            strchr(dash ? "-" : "0123456789abcdef", token[i]) == NULL) {
            return false;
        }
    }
    if (token[UUID] != ':') {
        return false;
    }
    token += UUID + 1;
    if (strspn(token, "0123456789") == PADDED) {
        token += strspn(token, "0");
    }
    token = skip_number(token, ':');
    token = token != NULL ? skip_number(token, '-') : NULL;
    return token != NULL && *token == '\0';
}

bool token_matches(const char *given, const char *token)
{
    size_t length = strlen(token);

    return strcmp(given, token) == 0 ||
           (token_is_ours(token) && strlen(given) == length &&
            strncmp(given, token, length - 1) == 0 && given[length - 1] == '+');
}

bool token_same_client(const char *token, const char *other)
{
    return strcmp(token, other) == 0 || (token_is_ours(token) && token_is_ours(other) &&
                                         strncmp(token, other, UUID) == 0);
}

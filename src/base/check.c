/* SPDX-License-Identifier: MIT */
/* Checks of names, words and struct sizes, independent of the callers. An
 * explanation gives the position of the error, counted from 1, but quotes nothing of the
 * text, which may hold anything. */
#include "base/check.h"

#include "base/escape.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct why {
    char *text;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static const char *wrong(const struct why *why,
                                                               const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(why->text, why->size, format, args);
    va_end(args);
    return why->text;
}

/* Cluster nodes hash only the part between the first '{' and the next '}'. The other keys
 * of a name repeat that part in braces, which works only if the name has no second '}'.
 */
static const char *check_tag(const char *what, const char *name, const struct why *why)
{
    const char *close = strchr(name, '}'), *open;

    if (close == NULL) {
        return NULL;
    }
    open = strchr(name, '{');
    if (open == NULL || open > close) {
        return wrong(why, "%s: \"}\" at position %zu has no \"{\" before it", what,
                     (size_t)(close - name) + 1);
    }
    if (close == open + 1) {
        return wrong(why, "%s: the tag \"{}\" at position %zu is empty", what,
                     (size_t)(open - name) + 1);
    }
    if (strchr(close + 1, '}') != NULL) {
        return wrong(why, "%s: second \"}\" at position %zu, only one is allowed", what,
                     (size_t)(strchr(close + 1, '}') - name) + 1);
    }
    return NULL;
}

const char *lw__check_name(const char *name, char *why_text, size_t why_size)
{
    const struct why why = {why_text, why_size};
    size_t length = name != NULL ? strnlen(name, 513) : 0;

    if (length == 0) {
        return wrong(&why, "the name is %s", name != NULL ? "empty" : "NULL");
    }
    if (length > 512) {
        return wrong(&why, "the name is longer than 512 bytes");
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)name[i];

        if (byte < 0x20 || byte == 0x7f) {
            return wrong(&why, "name: byte 0x%02x at position %zu is not allowed", byte,
                         i + 1);
        }
    }
    if (strncmp(name, "lockwire:", 9) == 0) {
        return wrong(&why, "the name begins with \"lockwire:\", which is reserved");
    }
    return check_tag("name", name, &why);
}

/* The key must not be one of those that begin with "lockwire:" either. */
const char *lw__check_key(const char *prefix, const char *name, char *why_text,
                          size_t why_size)
{
    const struct why why = {why_text, why_size};
    const char *not_a_name = lw__check_name(name, why_text, why_size);
    char key[LW__NAME_MOST + 1];

    if (not_a_name != NULL || *prefix == '\0') {
        return not_a_name;
    }
    if (strchr(name, '}') != NULL && strchr(prefix, '}') != NULL) {
        return wrong(&why, "the name has a \"}\", and the prefix has a tag");
    }
    if (strlen(prefix) + strlen(name) > LW__NAME_MOST) {
        return wrong(&why, "prefix and name are longer than %d bytes", LW__NAME_MOST);
    }
    (void)stpcpy(stpcpy(key, prefix), name);
    return lw__check_name(key, why_text, why_size);
}

/* The bytes that a pattern of an ACL, SCAN or a shell gives a meaning are left out, so
 * that `prefix*` is a pattern for everything that begins with the prefix. */
const char *lw__check_prefix(const char *prefix, char *why_text, size_t why_size)
{
    const struct why why = {why_text, why_size};
    size_t length = strnlen(prefix, LW__PREFIX_MOST + 1);
    const char *open = strchr(prefix, '{');

    if (length == 0) {
        return wrong(&why, "the prefix is empty");
    }
    if (length > LW__PREFIX_MOST) {
        return wrong(&why, "the prefix is longer than %d bytes", LW__PREFIX_MOST);
    }
    for (size_t i = 0; i < length; i++) {
        if (prefix[i] <= 0x20 || prefix[i] >= 0x7f ||
            strchr("*?[]\\\"'", prefix[i]) != NULL) {
            return wrong(&why, "prefix: byte 0x%02x at position %zu is not allowed",
                         (unsigned char)prefix[i], i + 1);
        }
    }
    if (strncmp(prefix, "lockwire:", 9) == 0) {
        return wrong(&why, "the prefix begins with \"lockwire:\", which is reserved");
    }
    if (open != NULL && strchr(prefix, '}') == NULL) {
        return wrong(&why, "prefix: \"{\" at position %zu has no \"}\" after it",
                     (size_t)(open - prefix) + 1);
    }
    return check_tag("prefix", prefix, &why);
}

const char *lw__check_word(const char *word, const char *what, char *why_text,
                           size_t why_size)
{
    const struct why why = {why_text, why_size};
    size_t length = word != NULL ? strnlen(word, 129) : 0;

    if (length == 0 || length > 128) {
        return wrong(&why, "%s is %s, 1 to 128 bytes are allowed", what,
                     length == 0 ? "empty" : "too long");
    }
    for (size_t i = 0; i < length; i++) {
        if (word[i] <= 0x20 || word[i] >= 0x7f) {
            return wrong(&why, "%s: byte 0x%02x at position %zu is not allowed", what,
                         (unsigned char)word[i], i + 1);
        }
    }
    return NULL;
}

const char *lw__check_note(const char *note, char *why_text, size_t why_size)
{
    const struct why why = {why_text, why_size};

    if (strnlen(note, LW__NOTE_MOST + 1) > LW__NOTE_MOST) {
        return wrong(&why, "the note is longer than %d bytes", LW__NOTE_MOST);
    }
    for (const char *at = note; *at != '\0';) {
        size_t length = lw__escape_character(at);

        if (length == 0) {
            return wrong(
                &why,
                "the note has a control character, or no UTF-8, at position %zu: "
                "byte 0x%02x",
                (size_t)(at - note) + 1, (unsigned char)*at);
        }
        at += length;
    }
    return NULL;
}

int64_t lw__check_number(const char *text, size_t length, int64_t most)
{
    int64_t value = 0;

    if (length == 0) {
        return -1;
    }
    for (size_t i = 0; i < length; i++) {
        int digit = text[i] - '0';

        if (digit < 0 || digit > 9 || value > (most - digit) / 10) {
            return -1;
        }
        value = value * 10 + digit;
    }
    return value;
}

bool lw__check_take_struct(void *ret, size_t size, const void *given, size_t given_size)
{
    const unsigned char *bytes = given;

    if (given_size < sizeof(size_t)) {
        return false;
    }
    for (size_t i = size; i < given_size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    memcpy(ret, given, given_size < size ? given_size : size);
    return true;
}

bool lw__check_give_struct(void *ret, size_t ret_size, const void *from, size_t size)
{
    if (ret_size < sizeof(size_t)) {
        return false;
    }
    if (ret_size > size) {
        memset((char *)ret + size, 0, ret_size - size);
    }
    memcpy(ret, from, ret_size < size ? ret_size : size);
    memcpy(ret, &ret_size, sizeof(ret_size));
    return true;
}

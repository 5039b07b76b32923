/* SPDX-License-Identifier: MIT
 *
 * Byte strings; see bytes.h.
 */
#include "bytes.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void *checked(void *memory)
{
    if (memory == NULL) {
        (void)fputs("model server: out of memory\n", stderr);
        exit(2);
    }
    return memory;
}

void *must_alloc(size_t size)
{
    return checked(calloc(1, size ? size : 1));
}

void *must_realloc(void *old, size_t size)
{
    return checked(realloc(old, size ? size : 1));
}

struct bytes bytes_of(const char *text)
{
    return (struct bytes){text, strlen(text)};
}

struct bytes bytes_copy(struct bytes source)
{
    char *data = must_alloc(source.len + 1);
    if (source.len) {
        memcpy(data, source.data, source.len);
    }
    return (struct bytes){data, source.len};
}

bool bytes_equal(struct bytes a, struct bytes b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

int bytes_compare(struct bytes a, struct bytes b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter ? memcmp(a.data, b.data, shorter) : 0;
    if (order) {
        return order;
    }
    return (a.len > b.len) - (a.len < b.len);
}

bool bytes_is(struct bytes a, const char *word)
{
    return strlen(word) == a.len && strncasecmp(a.data, word, a.len) == 0;
}

bool bytes_to_int(struct bytes text, int64_t *ret)
{
    size_t at = 0;
    bool negative = text.len > 0 && text.data[0] == '-';
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    uint64_t value = 0;

    if (text.len == 1 && text.data[0] == '0') {
        *ret = 0;
        return true;
    }
    at = negative;
    if (at == text.len || text.data[at] < '1' || text.data[at] > '9') {
        return false;
    }
    for (; at < text.len; at++) {
        unsigned digit = (unsigned)(text.data[at] - '0');
        if (digit > 9 || value > (limit - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *ret = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

bool bytes_to_double(struct bytes text, double *ret)
{
    char copy[256], *end;

    if (text.len == 0 || text.len >= sizeof(copy) ||
        strchr(" \t\n\v\f\r", text.data[0]) != NULL) {
        return false;
    }
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    errno = 0;
    double value = strtod(copy, &end);
    if (end != copy + text.len || isnan(value)) {
        return false;
    }
    if (errno == ERANGE && (isinf(value) || value == 0)) {
        return false;
    }
    *ret = value;
    return true;
}

static void buffer_reserve(struct buffer *buffer, size_t more)
{
    size_t wanted = buffer->len + more;
    if (wanted <= buffer->capacity) {
        return;
    }
    size_t capacity = buffer->capacity ? buffer->capacity : 64;
    while (capacity < wanted) {
        capacity *= 2;
    }
    buffer->data = must_realloc(buffer->data, capacity);
    buffer->capacity = capacity;
}

void buffer_append(struct buffer *buffer, const void *data, size_t len)
{
    if (len == 0) {
        return;
    }
    buffer_reserve(buffer, len);
    memcpy(buffer->data + buffer->len, data, len);
    buffer->len += len;
}

void buffer_text(struct buffer *buffer, const char *text)
{
    buffer_append(buffer, text, strlen(text));
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
    va_list arguments;
    char small[128];

    va_start(arguments, format);
    int len = vsnprintf(small, sizeof(small), format, arguments);
    va_end(arguments);
    if (len < 0) {
        return;
    }
    if ((size_t)len < sizeof(small)) {
        buffer_append(buffer, small, (size_t)len);
        return;
    }
    buffer_reserve(buffer, (size_t)len + 1);
    va_start(arguments, format);
    (void)vsnprintf(buffer->data + buffer->len, (size_t)len + 1, format, arguments);
    va_end(arguments);
    buffer->len += (size_t)len;
}

void buffer_consume(struct buffer *buffer, size_t len)
{
    if (len >= buffer->len) {
        buffer->len = 0;
        return;
    }
    if (len) {
        memmove(buffer->data, buffer->data + len, buffer->len - len);
    }
    buffer->len -= len;
}

void buffer_set(struct buffer *buffer, struct bytes content)
{
    buffer->len = 0;
    buffer_append(buffer, content.data, content.len);
}

struct bytes buffer_view(const struct buffer *buffer)
{
    return (struct bytes){buffer->data, buffer->len};
}

void buffer_clear(struct buffer *buffer)
{
    buffer->len = 0;
}

void buffer_free(struct buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct buffer){0};
}

/* SPDX-License-Identifier: MIT
 *
 * RESP2; see resp.h.
 */
#include "resp.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_ARGUMENTS (1024 * 1024)
#define MAX_BULK (512 * 1024 * 1024)
#define MAX_LINE (64 * 1024)

static void push_argument(struct resp_request *request, struct bytes argument)
{
    if (request->argc == request->capacity) {
        request->capacity = request->capacity ? request->capacity * 2 : 16;
        request->argv = must_realloc(request->argv,
                                     (size_t)request->capacity * sizeof(*request->argv));
    }
    request->argv[request->argc++] = argument;
}

static enum resp_result bad(struct resp_request *request, const char *error)
{
    request->error = error;
    return RESP_BAD;
}

/* Takes one CRLF-ended line at *at and moves past it. */
static enum resp_result take_line(struct bytes input, size_t *at, struct bytes *line)
{
    const char *start = input.data + *at;
    size_t left = input.len - *at;
    const char *end = left ? memchr(start, '\r', left) : NULL;

    if (end == NULL || (size_t)(end - start) + 1 >= left) {
        return end == NULL && left > MAX_LINE ? RESP_BAD : RESP_MORE;
    }
    *line = (struct bytes){start, (size_t)(end - start)};
    *at += line->len + 2;
    return RESP_REQUEST;
}

/* Parses a bare line of words, as typed in a terminal. */
static enum resp_result parse_inline(struct bytes input, struct resp_request *request)
{
    const char *end = memchr(input.data, '\n', input.len);
    size_t at = 0;

    if (end == NULL) {
        return input.len > MAX_LINE ? bad(request, "too big inline request") : RESP_MORE;
    }
    size_t len = (size_t)(end - input.data);
    request->used = len + 1;
    if (len && input.data[len - 1] == '\r') {
        len--;
    }
    while (at < len) {
        size_t start;
        while (at < len && input.data[at] == ' ') {
            at++;
        }
        start = at;
        while (at < len && input.data[at] != ' ') {
            at++;
        }
        if (at > start) {
            push_argument(request, (struct bytes){input.data + start, at - start});
        }
    }
    return RESP_REQUEST;
}

static enum resp_result parse_bulk(struct bytes input, size_t *at,
                                   struct resp_request *request)
{
    struct bytes line;
    int64_t len;
    enum resp_result result;

    if (*at == input.len) {
        return RESP_MORE;
    }
    if (input.data[*at] != '$') {
        return bad(request, "expected '$'");
    }
    result = take_line(input, at, &line);
    if (result == RESP_BAD) {
        return bad(request, "too big bulk count string");
    }
    if (result != RESP_REQUEST) {
        return result;
    }
    line = (struct bytes){line.data + 1, line.len - 1};
    if (!bytes_to_int(line, &len) || len < 0 || len > MAX_BULK) {
        return bad(request, "invalid bulk length");
    }
    if (input.len - *at < (size_t)len + 2) {
        return RESP_MORE;
    }
    push_argument(request, (struct bytes){input.data + *at, (size_t)len});
    *at += (size_t)len + 2;
    return RESP_REQUEST;
}

/* Starts from the beginning when more bytes have come: requests are small here. */
enum resp_result resp_parse(struct bytes input, struct resp_request *request)
{
    struct bytes line;
    int64_t count;
    size_t at = 0;
    enum resp_result result;

    request->argc = 0;
    request->used = 0;
    if (input.len == 0) {
        return RESP_MORE;
    }
    if (input.data[0] != '*') {
        return parse_inline(input, request);
    }
    result = take_line(input, &at, &line);
    if (result == RESP_BAD) {
        return bad(request, "too big mbulk count string");
    }
    if (result != RESP_REQUEST) {
        return result;
    }
    line = (struct bytes){line.data + 1, line.len - 1};
    if (!bytes_to_int(line, &count) || count > MAX_ARGUMENTS) {
        return bad(request, "invalid multibulk length");
    }
    for (int64_t i = 0; i < count; i++) {
        result = parse_bulk(input, &at, request);
        if (result != RESP_REQUEST) {
            return result;
        }
    }
    request->used = at;
    return RESP_REQUEST;
}

void resp_request_free(struct resp_request *request)
{
    free(request->argv);
    *request = (struct resp_request){0};
}

void resp_status(struct buffer *out, const char *text)
{
    buffer_printf(out, "+%s\r\n", text);
}

void resp_error(struct buffer *out, const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    for (size_t len = strlen(text); len && strchr("\r\n", text[len - 1]) != NULL; len--) {
        text[len - 1] = '\0';
    }
    for (char *at = text; *at; at++) {
        if (*at == '\r' || *at == '\n') {
            *at = ' ';
        }
    }
    buffer_printf(out, "-%s\r\n", text);
}

void resp_int(struct buffer *out, int64_t value)
{
    buffer_printf(out, ":%lld\r\n", (long long)value);
}

void resp_bulk(struct buffer *out, struct bytes value)
{
    buffer_printf(out, "$%zu\r\n", value.len);
    buffer_append(out, value.data, value.len);
    buffer_append(out, "\r\n", 2);
}

void resp_text(struct buffer *out, const char *value)
{
    resp_bulk(out, bytes_of(value));
}

void resp_double(struct buffer *out, double value)
{
    char text[64];

    if (isinf(value)) {
        strcpy(text, value > 0 ? "inf" : "-inf");
    } else {
        (void)snprintf(text, sizeof(text), "%.17g", value);
    }
    resp_text(out, text);
}

void resp_nil(struct buffer *out)
{
    buffer_text(out, "$-1\r\n");
}

void resp_array(struct buffer *out, size_t count)
{
    buffer_printf(out, "*%zu\r\n", count);
}

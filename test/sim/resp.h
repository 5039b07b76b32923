/* SPDX-License-Identifier: MIT
 *
 * RESP2 on the server's side: parses requests, and writes replies. Independent of
 * connections and of commands.
 *
 * Usual course: resp_parse() on a connection's input until it returns RESP_MORE. For each
 * RESP_REQUEST the command runs, and writes its reply by resp_*().
 */
#ifndef LW_SIM_RESP_H
#define LW_SIM_RESP_H

#include "bytes.h"

enum resp_result { RESP_MORE, RESP_REQUEST, RESP_BAD };

/* The arguments are views into the parsed input. Zero-initialize, reuse, free once. */
struct resp_request {
    struct bytes *argv;
    int argc;
    int capacity;
    size_t used;       /* how many bytes of the input the request took */
    const char *error; /* RESP_BAD: the text after "Protocol error: " */
};

enum resp_result resp_parse(struct bytes input, struct resp_request *request);
void resp_request_free(struct resp_request *request);

void resp_status(struct buffer *out, const char *text);
void resp_error(struct buffer *out, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* without '-'; line ends become blanks */
void resp_int(struct buffer *out, int64_t value);
void resp_bulk(struct buffer *out, struct bytes value);
void resp_text(struct buffer *out, const char *value); /* as a bulk */
void resp_double(struct buffer *out, double value);    /* a bulk, as in Redis 7.0 */
void resp_nil(struct buffer *out);
void resp_array(struct buffer *out, size_t count);

#endif

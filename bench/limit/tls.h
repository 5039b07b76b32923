/* SPDX-License-Identifier: MIT */
/*
 * TLS for a limit's connection, as hiredis_ssl has it by itself, but for the host's name,
 * which it does not verify. Must not know what the connection is for.
 */
#ifndef BENCH_TLS_H
#define BENCH_TLS_H
struct redisContext;

/* `ca`: a file; NULL = the system's. Returns NULL, or why it cannot begin. */
const char *tls_begin(struct redisContext *context, const char *host, const char *ca);
#endif

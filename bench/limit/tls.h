/* SPDX-License-Identifier: MIT */
/*
 * TLS for a limit's connection, as hiredis_ssl offers it, and verification of the host
 * name, which hiredis_ssl does not do. Independent of the use of the connection.
 */
#ifndef BENCH_TLS_H
#define BENCH_TLS_H
struct redisContext;

/* Starts TLS. `ca` is a file, or NULL for the system's authorities. Returns NULL, or
 * the reason why TLS cannot start. */
const char *tls_begin(struct redisContext *context, const char *host, const char *ca);
#endif

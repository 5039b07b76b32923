/* SPDX-License-Identifier: MIT */
/*
 * The gateway's command line: argv in, a struct or an exit code out. Knows no HTTP.
 *
 * Happy path: options_parse fills the struct and returns -1: go on.
 */
#ifndef GATEWAY_OPTIONS_H
#define GATEWAY_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>

struct options {
    const char *ledger, *grants, *port_file, *url;
    const char *password_file;                          /* or NULL */
    const char *sentinel_user, *sentinel_password_file; /* the sentinels' own, or NULL */
    char map[8192]; /* the pairs of each --map behind a comma, or "" */
    char host[64];
    uint16_t port;
    int64_t work_ms, lease_ms, idle_ms;
    int64_t guard_ms; /* 0: no guard */
    bool unlocked;
};

/* -1: go on; else what to exit with, and everything has been said. */
int options_parse(int argc, char **argv, struct options *options);

#endif

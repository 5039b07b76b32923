/* SPDX-License-Identifier: MIT */
/*
 * The gateway's command line: options_parse fills in a struct from argv, or returns an
 * exit code. Independent of HTTP.
 */
#ifndef GATEWAY_OPTIONS_H
#define GATEWAY_OPTIONS_H
#include <stdbool.h>
#include <stdint.h>

struct options {
    const char *ledger, *grants, *port_file, *url;
    const char *map; /* or NULL */
    char host[64];
    uint16_t port;
    int64_t work_ms, lease_ms, idle_ms;
    int64_t guard_ms; /* 0: no guard */
    bool unlocked;
};

/* Returns -1 to go on, else the exit code; the reason has been reported. */
int options_parse(int argc, char **argv, struct options *options);

#endif

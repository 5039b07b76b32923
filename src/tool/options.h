/* SPDX-License-Identifier: MIT */
/* The command line: its options, and all texts about usage (usage.c). Independent of
 * locks except for their limits.
 *
 * options_parse fills the struct and returns -1, or the exit code after --help or an
 * error, which has been reported. */
#ifndef LW_TOOL_OPTIONS_H
#define LW_TOOL_OPTIONS_H
#include "lockwire.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum subcommand { RUN, LEAD, HOLD, STATUS, WATCH, LIST, BREAK, SUBCOMMANDS };

#define MAX_MORE_NAMES 15 /* --and */

struct options {
    enum subcommand subcommand;
    const char *name; /* list: a pattern, or NULL */
    const char *url;
    const char *password_file; /* or NULL */
    char *password;            /* what main read there, or NULL */
    /* the sentinels' own, or NULL */
    const char *sentinel_user, *sentinel_password_file;
    char *sentinel_password;
    /* files and a name for rediss://, or NULL */
    const char *tls_ca, *tls_cert, *tls_key, *tls_server_name;
    bool embedded; /* a server is to be started */
    /* run, lead, hold */
    enum lw_mode mode;
    const char *owner; /* or NULL */
    uint32_t permits;
    uint32_t lease_ms;
    int64_t wait_ms; /* -1: for ever */
    int64_t grace_ms;
    int64_t margin_ms;   /* the grace time and what it takes to kill */
    int64_t max_hold_ms; /* 0: no end */
    int busy_code;       /* the exit code where somebody else has it */
    bool verbose;
    /* run */
    const char *more_names[MAX_MORE_NAMES]; /* --and */
    int more_count;
    /* run, lead */
    bool direct;    /* one process, not a group of them */
    char **command; /* NULL-terminated */
    /* status */
    bool json; /* of watch, too */
    bool wide; /* nothing is cut */
    /* break */
    const char *token; /* or NULL */
    bool foreign;
    /* watch */
    int64_t interval_ms;
};

/* -1: go on with `options`. Else the code to exit with; everything has been said. */
int options_parse(int argc, char **argv, struct options *options);
/* What they say of how a client gets in. */
void options_configure_client(const struct options *options,
                              struct lw_client_options *client);

#define DEFAULT_URL "redis://localhost"

extern const char *const usage_names[SUBCOMMANDS]; /* as they are typed */

/* The lines of this subcommand, or of all where it is SUBCOMMANDS. */
void usage_brief(FILE *out, enum subcommand subcommand);
/* The same, and everything else there is to tell. */
void usage_help(FILE *out, enum subcommand subcommand);

#endif

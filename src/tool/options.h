/* SPDX-License-Identifier: MIT */
/* The command line: its options, the client that they describe (options_client.c), and
 * all texts about usage (usage.c). Independent of locks except for their limits.
 *
 * options_parse fills the struct and returns -1, or the exit code after --help or an
 * error, which has been reported. */
#ifndef LW_TOOL_OPTIONS_H
#define LW_TOOL_OPTIONS_H
#include "base/check.h"
#include "lockwire.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum subcommand {
    RUN,
    LEAD,
    HOLD,
    TAKE,
    RELEASE,
    STATUS,
    WATCH,
    LIST,
    YIELD,
    BREAK,
    DOCTOR,
    SUBCOMMANDS
};

/* A subcommand in a set of them. */
#define IN(subcommand) (1U << (subcommand))

#define MAX_MORE_NAMES 15 /* --and */
#define MAX_MAPS 256      /* --map */

struct event_base;

struct options {
    enum subcommand subcommand;
    const char *name; /* list: a pattern, or NULL; doctor: NULL unless given */
    const char *url;  /* never NULL after options_parse */
    /* A password that cannot be read again, from "-" or a pipe, is read by main; the file
     * is NULL then. */
    const char *password_file, *sentinel_password_file;        /* or NULL */
    char *password, *sentinel_password;                        /* or NULL */
    const char *sentinel_user;                                 /* or NULL */
    const char *tls_ca, *tls_cert, *tls_key, *tls_server_name; /* or NULL */
    const char *maps[MAX_MAPS];
    int map_count;
    bool embedded; /* main starts a server */
    bool quorum;   /* the URL lists the servers of a quorum */
    /* How long to try to connect at first; 0: without limit. If it was not given, status,
     * list, yield, break and release try once. */
    int64_t connect_ms;
    bool connect_given;
    int64_t guard_ms;  /* of --guard or the URL; 0: neither; LW_GUARD_NONE */
    bool guard_in_url; /* it is the URL's */
    char prefix[LW__PREFIX_MOST + 1]; /* of --prefix or the URL; "": neither */
    /* run, take, release, break: a token, or NULL. If it was given as @FILE or -, it is
     * read from `token_file` by main, and NULL before. */
    const char *token, *token_file;
    /* run, lead, hold, take */
    enum lw_mode mode;
    const char *owner; /* or NULL */
    uint32_t permits;
    uint32_t lease_ms;
    int64_t wait_ms; /* -1: without limit */
    int64_t grace_ms;
    int64_t margin_ms;    /* the grace time and the time for SIGKILL */
    int64_t max_hold_ms;  /* 0: without limit */
    int busy_code;        /* the exit code if the lock is busy */
    uint32_t max_waiting; /* 0: no limit */
    const char *on_lost;  /* a command, or NULL */
    const char *on_yield; /* run, lead, hold: likewise */
    const char *note;     /* or NULL */
    bool no_identity;
    bool verbose, quiet;
    /* run */
    const char *more_names[MAX_MORE_NAMES]; /* --and */
    int more_count;
    bool keep_running; /* a loss does not end the command */
    /* lead */
    bool keep_trying; /* refused logins do not end it */
    /* run, lead */
    int64_t at_least_ms; /* 0: no minimum */
    bool direct;         /* a single process, no process group */
    char **command;      /* NULL-terminated */
    bool json;           /* take, status, watch, list, doctor */
    bool wide;           /* status, list: nothing is cut */
    /* break */
    bool foreign;
    /* watch */
    int64_t interval_ms;
};

/* Returns -1 if the command is to continue with `options`. Otherwise returns the exit
 * code, and has reported everything. */
int options_parse(int argc, char **argv, struct options *options);

/* ---- options_client.c ---- */

/* Calls lw_client_new for the server and with the credentials of `options`, and wipes the
 * passwords. */
int options_new_client(const struct options *options, struct event_base *base,
                       struct lw_client_options *client, struct lw_client **ret);
/* Has `passed` called when connect_ms has passed, unless that is without limit. Returns 0
 * or LW_ENOMEM. */
int options_limit_connecting(const struct options *options, struct event_base *base,
                             void (*passed)(int fd, short what, void *arg), void *arg);
/* Writes why there was no connection within connect_ms: `why` (maybe "") with the server,
 * as in the URL but without the user part, and the time. */
void options_explain_timeout(const struct options *options, const char *why, char *text,
                             size_t size);

/* ---- usage.c ---- */

#define DEFAULT_URL "redis://localhost"

extern const char *const usage_names[SUBCOMMANDS];

/* Writes the synopsis of this subcommand, or of all if it is SUBCOMMANDS. */
void usage_brief(FILE *out, enum subcommand subcommand);
/* Writes the text of --help, for SUBCOMMANDS that of the command itself. */
void usage_help(FILE *out, enum subcommand subcommand);
/* Writes the text of -h: at most 24 lines. */
void usage_short_help(FILE *out, enum subcommand subcommand);

#endif

/* SPDX-License-Identifier: MIT */
/* See usage.h. */
#include "usage.h"

const char *const usage_names[SUBCOMMANDS] = {
    [RUN] = "run",       [LEAD] = "lead",   [HOLD] = "hold",
    [STATUS] = "status", [BREAK] = "break", [WATCH] = "watch"};

static const char *const synopses[SUBCOMMANDS] = {
    [RUN] = "lockwire run NAME [OPTION...] -- COMMAND [ARG...]",
    [LEAD] = "lockwire lead NAME [OPTION...] -- COMMAND [ARG...]",
    [HOLD] = "lockwire hold NAME [OPTION...]",
    [STATUS] = "lockwire status NAME [--json] [OPTION...]",
    [BREAK] = "lockwire break NAME [--token TOKEN] [--foreign] [OPTION...]",
    [WATCH] = "lockwire watch NAME [--interval TIME] [OPTION...]",
};

static const char about[] =
    "\n"
    "Distributed locks in Redis.\n"
    "\n"
    "  run        run a command while holding a lock\n"
    "  status     who holds a lock and who waits for it\n"
    "  break      take a lock away from its holder\n"
    "  watch      follow who holds a lock and who waits for it\n"
    "  --help     this text; `lockwire SUBCOMMAND --help` tells more\n"
    "  --version  the versions of the command and the library\n";

#define REDIS_OPTION                                                                     \
    "  --redis URL    redis://[[user][:password]@]host[:port][/db], rediss:// (with "    \
    "TLS),\n"                                                                            \
    "                 redis-sentinel://[...@]host[:port][,host[:port]...]/service[/db] " \
    "(its\n"                                                                             \
    "                 master, by the sentinels at these hosts), rediss-sentinel://,\n"   \
    "                 redis-cluster://[...@]host[:port][,host[:port]...], "              \
    "rediss-cluster://,\n"                                                               \
    "                 unix:///path[?db=N],\n"
#define PASSWORD_OPTION                                                                  \
    "  --password-file FILE\n"                                                           \
    "                 the password is the first line of FILE; where FILE is - that of "  \
    "the\n"                                                                              \
    "                 standard input, the rest of which is left to be read. A URL's\n"   \
    "                 shows in the list of processes, LOCKWIRE_URL in the\n"             \
    "                 environment of whatever `lockwire run` starts, which also\n"       \
    "                 inherits N where FILE is /dev/fd/N\n"
#define SENTINEL_OPTIONS                                                                 \
    "  --sentinel-user NAME, --sentinel-password-file FILE\n"                            \
    "                 with redis-sentinel://: what the sentinels themselves are\n"       \
    "                 logged in to with; FILE as above. User and password of the URL\n"  \
    "                 and of --password-file are the servers'\n"
#define TLS_OPTIONS                                                                      \
    "  --cacert FILE, --cert FILE, --key FILE, --sni NAME\n"                             \
    "                 with rediss://: whom to trust (a file or a folder; else as the\n"  \
    "                 system does), this client's certificate and key, and the name\n"   \
    "                 that the server's certificate must be for (else the URL's)\n"
#define HELP_OPTION "  --help         this text\n"
#define URL_ENVIRONMENT                                                                  \
    "Environment: LOCKWIRE_URL is used where --redis is not given; without "             \
    "it\n" DEFAULT_URL
#define TIMES "TIME is like 500ms, 30s, 5m, 1.5h; a plain number is seconds.\n"
#define SERVER_CODES                                                                     \
    "   64  wrong usage                    71  the system refuses (memory, output "      \
    "...)\n"                                                                             \
    "   69  no connection to the server    77  the server refuses\n"

static const char run_options[] =
    "\n"
    "Waits for the lock NAME, runs COMMAND while it holds it, and releases it.\n"
    "\n"
    "  --lease TIME   how long the lock outlives this process should it die (30s, at\n"
    "                 least 100ms); it is renewed for as long as COMMAND runs\n"
    "  --wait TIME    how long to wait for the lock: 0 (try once), a time, or forever\n"
    "                 (the default)\n"
    "  --grace TIME   if the lock is lost: how long after SIGTERM COMMAND gets SIGKILL\n"
    "                 (5s, or a quarter of the lease if that is shorter; below half of "
    "it)\n"
    "  --direct       COMMAND is one process, in the group of this one: see below\n"
    "  --exclusive    as the writer of a read-write lock, re-entrant by owner\n"
    "  --shared       as one of its readers. Without either the lock is a mutex, which\n"
    "                 is another kind of key: all users of a NAME use the same kind\n"
    "  --owner OWNER  with --exclusive or --shared: who holds, and so may enter again,\n"
    "                 from any process; 1 to 128 printable bytes without spaces\n"
    "  --permits N    with --shared: enter only while fewer than N owners "
    "hold\n" REDIS_OPTION
    "                 embedded: (a throw-away redis-server for as long as COMMAND runs)\n"
    "                 or embedded:/path (the same, shared by all who name that "
    "folder,\n"
    "                 which is theirs alone, with mode 0700)\n" PASSWORD_OPTION
        SENTINEL_OPTIONS TLS_OPTIONS HELP_OPTION "\n" TIMES;

static const char run_codes[] =
    "\n"
    "The exit code is COMMAND's (128 + n if signal n ended it), or:\n"
    "   64  wrong usage                    75  the lock is busy, or the wait is over\n"
    "   69  no connection to the server    77  the server refuses (the password, a "
    "write)\n"
    "   70  the lock was lost              126 COMMAND cannot be executed\n"
    "   71  the system refuses (fork ...)  127 COMMAND was not found\n"
    "  128 + n  signal n came while waiting\n"
    "After Ctrl-C it ends by SIGINT itself, so that a script around it does, too.\n"
    "\n"
    "COMMAND, with all that it starts, is a job of its own. SIGINT, SIGTERM, SIGHUP,\n"
    "SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to its process group; the lock is given\n"
    "back when nothing of it is left. If the lock is lost, all of it gets SIGTERM and, "
    "after\n"
    "the grace time, SIGKILL. Where the server does not answer, that begins early enough "
    "to\n"
    "be over before the lease is; where the lock was taken away, the next holder may "
    "have\n"
    "begun. If this process is killed, or is stopped for too long, a small one beside "
    "it,\n"
    "lw-keeper, does the same. After Ctrl-Z and fg COMMAND goes on only if it still has "
    "the\n"
    "lock.\n"
    "Neither awaited nor ended is what calls setsid(2), as daemons do; awaited only, "
    "what\n"
    "may not be signalled (sudo). When this process is killed, what has left both "
    "COMMAND's\n"
    "group and its parents within the last second may be missed; and if the keeper is\n"
    "killed at the same time, everything is.\n"
    "  --direct: signals go to COMMAND's own process, whose end is the end; its children "
    "are\n"
    "not looked after. When this process is killed, it gets SIGTERM (Linux).\n"
    "\n" URL_ENVIRONMENT
    ". COMMAND sees LOCKWIRE_NAME, LOCKWIRE_FENCE (the fencing token:\n"
    "larger than that of every earlier holder) and, of an embedded server, "
    "LOCKWIRE_URL.\n";

#define ASK_OPTIONS                                                                      \
    REDIS_OPTION                                                                         \
    "                 or embedded:/path (see run)\n" PASSWORD_OPTION SENTINEL_OPTIONS    \
        TLS_OPTIONS HELP_OPTION

static const char status_text[] =
    "\n"
    "Shows who holds NAME, how long the lease still lasts, its fencing token where "
    "Redis\n"
    "keeps it (not of a mutex), and who waits: each with the name, host and pid of its\n"
    "client, which are known for two minutes after it was last in use. With\n"
    "redis-sentinel:// also which master that is, and for how long it has been it.\n"
    "\n"
    "  --json         for programs: name, stranger (a key's type that is not ours, or\n"
    "                 null), holder_total, holders (mode, token, owner, client,\n"
    "                 remaining_ms, fence), waiter_total, waiters (mode, token, owner,\n"
    "                 client, position, waited_ms, permits), master (service, host, "
    "port,\n"
    "                 for_ms) with redis-sentinel://; null is what there is none of. At\n"
    "                 most 100 of each are listed, the totals count all\n" ASK_OPTIONS
    "\n"
    "The exit code is 0, whether it is held or free, or:\n" SERVER_CODES
    "\n" URL_ENVIRONMENT ".\n";

static const char break_text[] =
    "\n"
    "Takes NAME away from whoever holds it and hands it to the first who waits. For "
    "when\n"
    "a holder is stuck: it goes on believing that it holds until its next renewal tells\n"
    "it; only a resource that checks fencing tokens is safe meanwhile.\n"
    "\n"
    "  --token TOKEN  only if TOKEN holds it (see `lockwire status`); safer, since the\n"
    "                 lock may have changed hands since you looked\n"
    "  --foreign      also if it is a plain string that another library has written, or "
    "a\n"
    "                 version of this one before 0.2, or one without a TTL, and so may "
    "be\n"
    "                 no lock at all; and where it is too long to be shown\n" ASK_OPTIONS
    "\n"
    "The exit code is 0 if it was taken away, or:\n"
    "    1  nobody holds it, or not TOKEN, or the key is not ours (see "
    "--foreign)\n" SERVER_CODES "\n" URL_ENVIRONMENT ".\n";

static const char watch_text[] =
    "\n"
    "Follows NAME: in a terminal the table of `lockwire status`, drawn anew at each "
    "look;\n"
    "elsewhere a line for each change (holds, waits, left: mode, owner, client, token; "
    "with\n"
    "redis-sentinel:// master: another one).\n"
    "Ends at SIGINT, SIGTERM or SIGHUP, or when nobody reads its output any more.\n"
    "\n"
    "  --interval TIME  between two looks (1s, at least 10ms)\n" ASK_OPTIONS "\n" TIMES
    "\n"
    "The exit code is 0, also after an outage of the server, which is waited for; "
    "or:\n" SERVER_CODES "\n" URL_ENVIRONMENT ".\n";

void usage_brief(FILE *out, enum subcommand subcommand)
{
    const char *before = "usage: ";

    for (int i = 0; i < SUBCOMMANDS; i++) {
        if (subcommand != SUBCOMMANDS && subcommand != (enum subcommand)i) {
            continue;
        }
        (void)fprintf(out, "%s%s\n", before, synopses[i]);
        before = "       ";
    }
    if (subcommand == SUBCOMMANDS) {
        (void)fputs("       lockwire SUBCOMMAND --help | --help | --version\n", out);
    }
}

void usage_help(FILE *out, enum subcommand subcommand)
{
    usage_brief(out, subcommand);
    switch (subcommand) {
    case RUN:
        (void)fputs(run_options, out);
        (void)fputs(run_codes, out);
        break;
    case STATUS:
        (void)fputs(status_text, out);
        break;
    case BREAK:
        (void)fputs(break_text, out);
        break;
    case WATCH:
        (void)fputs(watch_text, out);
        break;
    default:
        (void)fputs(about, out);
    }
}

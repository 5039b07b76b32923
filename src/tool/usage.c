/* SPDX-License-Identifier: MIT */
/* See options.h. */
#include "options.h"

const char *const usage_names[SUBCOMMANDS] = {
    [RUN] = "run",     [LEAD] = "lead",   [HOLD] = "hold", [STATUS] = "status",
    [BREAK] = "break", [WATCH] = "watch", [LIST] = "list"};

static const char *const synopses[SUBCOMMANDS] = {
    [RUN] = "lockwire run NAME [OPTION...] -- COMMAND [ARG...]",
    [LEAD] = "lockwire lead NAME [OPTION...] -- COMMAND [ARG...]",
    [HOLD] = "lockwire hold NAME [OPTION...]",
    [STATUS] = "lockwire status NAME [--json] [--wide] [OPTION...]",
    [WATCH] = "lockwire watch NAME [--interval TIME] [--json] [OPTION...]",
    [LIST] = "lockwire list [PATTERN] [--json] [--wide] [OPTION...]",
    [BREAK] = "lockwire break NAME [--token TOKEN] [--foreign] [OPTION...]",
};

static const char about[] =
    "\n"
    "Distributed locks in Redis.\n"
    "\n"
    "  run        run a command while holding a lock\n"
    "  lead       run a command whenever it holds a lock, again after each loss\n"
    "  hold       hold a lock until the end of the standard input\n"
    "  status     who holds a lock and who waits for it\n"
    "  watch      follow who holds a lock and who waits for it\n"
    "  list       which locks are held\n"
    "  break      take a lock away from its holder\n"
    "  --help     or -h: this text; `lockwire SUBCOMMAND --help` tells more\n"
    "  --version  or -V: the versions of the command and the library\n";

#define REDIS_OPTION                                                                     \
    "  --redis URL    redis://[[user][:password]@]host[:port][/db]\n"                    \
    "                 redis-sentinel://[...@]host[:port][,...]/service[/db]\n"           \
    "                 (its master, by the sentinels at these hosts)\n"                   \
    "                 redis-cluster://[...@]host[:port][,...]\n"                         \
    "                 rediss://, rediss-sentinel://, rediss-cluster:// (with TLS)\n"     \
    "                 unix:///path[?db=N]\n"
#define PASSWORD_OPTION                                                                  \
    "  --password-file FILE\n"                                                           \
    "                 the password is the first line of FILE; where FILE is - that\n"    \
    "                 of the standard input, the rest of which is left to be read. A\n"  \
    "                 URL's shows in the list of processes, LOCKWIRE_URL in the\n"       \
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
#define HELP_OPTION "  -h, --help     this text\n"
#define URL_ENVIRONMENT                                                                  \
    "Environment: LOCKWIRE_URL is used where --redis is not given; without "             \
    "it\n" DEFAULT_URL
#define TIMES "TIME is like 500ms, 30s, 5m, 1.5h; a plain number is seconds.\n"
#define SERVER_CODES                                                                     \
    "   64  wrong usage                    71  the system refuses (memory ...)\n"        \
    "   69  no connection to the server    77  the server refuses\n"

#define WAIT_OPTIONS                                                                     \
    "  -w, --wait TIME\n"                                                                \
    "                 how long to wait for the lock: 0 (try once), a time, or forever\n" \
    "                 (the default)\n"                                                   \
    "  -n, --nonblock, --nb\n"                                                           \
    "                 the same as --wait 0\n"                                            \
    "  -E, --conflict-exit-code CODE\n"                                                  \
    "                 0 to 255, in place of 75: the lock is busy, or the wait is over\n"
#define LEASE_OPTION                                                                     \
    "  --lease TIME   how long the lock outlives this process should it die (30s, at\n"  \
    "                 least 100ms); it is renewed for as long as it is held\n"
#define MAX_HOLD_OPTION                                                                  \
    "  --max-hold TIME\n"                                                                \
    "                 when it was held for so long (at least 100ms) the lock is lost\n"
#define WORK_OPTIONS                                                                     \
    "  --grace TIME   if the lock is lost: how long after SIGTERM COMMAND gets\n"        \
    "                 SIGKILL (5s, or a quarter of the lease or of --max-hold if that\n" \
    "                 is shorter; below half of it)\n"                                   \
    "  --direct       COMMAND is one process, in the group of this one: see below\n"
#define MODE_OPTIONS                                                                     \
    "  -x, -e, --exclusive\n"                                                            \
    "                 as the writer of a read-write lock, re-entrant by owner\n"         \
    "  -s, --shared   as one of its readers\n"                                           \
    "  --redisson     as Redisson's RLock of that name, which has no fencing token.\n"   \
    "                 Without any of the three the lock is a mutex, which is another\n"  \
    "                 kind of key: all users of a NAME use the same kind\n"              \
    "  --owner OWNER  with --exclusive or --shared: who holds, and so may enter\n"       \
    "                 again, from any process; 1 to 128 printable bytes without\n"       \
    "                 spaces\n"                                                          \
    "  --permits N    with --shared: enter only while fewer than N owners hold\n"        \
    "  --verbose      while waiting a line for each change of who holds the lock and\n"  \
    "                 of the place in the queue. A terminal shows that without it, in\n" \
    "                 a line that goes away\n"
#define EMBEDDED_OPTION                                                                  \
    "                 embedded: (a temporary redis-server for this run)\n"
#define ENTRY_OPTIONS                                                                    \
    REDIS_OPTION EMBEDDED_OPTION PASSWORD_OPTION SENTINEL_OPTIONS TLS_OPTIONS HELP_OPTION

static const char run_begin[] =
    "\n"
    "Waits for the lock NAME, runs COMMAND while it holds it, and releases it.\n"
    "\n"
    "  --and NAME     another lock, up to 15 times. COMMAND runs while all are held,\n"
    "                 and is ended if any of them is lost. The order does not matter:\n"
    "                 commands that share locks never deadlock. Mutexes "
    "only\n" WAIT_OPTIONS;

static const char lead_begin[] =
    "\n"
    "Whenever it holds the lock NAME it runs COMMAND. After a loss COMMAND is ended,\n"
    "as with run, and started again when the lock is held again, with a new fencing\n"
    "token; never beside what is left of the one before. It waits for as long as it\n"
    "takes. When COMMAND ends by itself, the lock is released, and that is the end.\n"
    "SIGUSR1 and SIGUSR2 are for COMMAND: while there is none they pass by.\n"
    "\n";

static const char hold_begin[] =
    "\n"
    "Holds the lock NAME without a command, for a script. Once it holds the lock it\n"
    "writes a line with the fencing token (with --redisson: -) to the standard\n"
    "output. At the end of the standard input, or at a signal, it releases the lock\n"
    "and ends with 0. If the lock is lost it says so and ends at once with 70: what\n"
    "works under the lock must stop, see --grace. In bash:\n"
    "\n"
    "  coproc lock { lockwire hold nightly -w 10m; }\n"
    "  pid=$lock_PID out=${lock[1]} in=${lock[0]}\n"
    "  read -r fence <&\"$in\" || { wait \"$pid\"; exit; }    # it says why\n"
    "  ...                                      # kill -0 \"$pid\": not told lost\n"
    "  exec {out}>&-; wait \"$pid\"                # released\n"
    "\n"
    "Who is stopped (Ctrl-Z) is told when it goes on: what is written meanwhile only\n"
    "the fencing token can refuse.\n"
    "\n"
    "If the input ends before the lock is held, the wait ends as if it had timed out.\n"
    "What is read is thrown away. A file, /dev/null or a closed input ends at once,\n"
    "and is refused with 64.\n"
    "\n" WAIT_OPTIONS LEASE_OPTION MAX_HOLD_OPTION
    "  --grace TIME   how long before the end of the lease, or of --max-hold, a loss\n"
    "                 is told (5s, or a quarter of it if that is shorter; below half\n"
    "                 of it): the time to stop in\n" MODE_OPTIONS;

static const char work_options[] = LEASE_OPTION MAX_HOLD_OPTION WORK_OPTIONS MODE_OPTIONS;

static const char entry_options[] = ENTRY_OPTIONS "\n" TIMES;

#define REFUSED_LATER                                                                    \
    "77 also if the server refuses to renew the lock, which is lost then, or to\n"       \
    "release it, so that it stays locked until its lease ends.\n"
#define COMMAND_S "\nThe exit code is COMMAND's (128 + n if signal n ended it), or:\n"

static const char run_codes[] = COMMAND_S
    "   64  wrong usage                    75  the lock is busy, or the wait is over\n"
    "   69  no connection to the server    77  the server refuses (password, write)\n"
    "   70  the lock was lost              126 COMMAND cannot be executed\n"
    "   71  the system refuses (fork ...)  127 COMMAND was not found\n"
    "  128 + n  signal n came while waiting\n" REFUSED_LATER;

static const char lead_codes[] = COMMAND_S
    "   64  wrong usage                    77  the server refuses (password, write)\n"
    "   69  no connection to the server    126 COMMAND cannot be executed\n"
    "   70  lost when COMMAND had ended    127 COMMAND was not found\n"
    "   71  the system refuses (fork ...)\n"
    "  128 + n  signal n came while waiting\n" REFUSED_LATER;

static const char work_codes[] =
    "After Ctrl-C it ends by SIGINT itself, so that a script around it does, too.\n"
    "\n"
    "COMMAND, with all that it starts, is a job of its own. SIGINT, SIGTERM, SIGHUP,\n"
    "SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to its process group; the lock is\n"
    "given back when nothing of it is left. If the lock is lost, all of it gets\n"
    "SIGTERM and, after the grace time, SIGKILL. Where the server does not answer,\n"
    "that begins early enough to be over before the lease is; where the lock was\n"
    "taken away, the next holder may have begun. If this process is killed, or is\n"
    "stopped for too long, a small one beside it, lw-keeper, does the same. After\n"
    "Ctrl-Z and fg COMMAND goes on only if it still has the lock.\n"
    "Neither awaited nor ended is what calls setsid(2), as daemons do; awaited only,\n"
    "what may not be signalled (sudo). When this process is killed, what has left\n"
    "both COMMAND's group and its parents within the last second may be missed; and\n"
    "if the keeper is killed at the same time, everything is.\n"
    "  --direct: signals go to COMMAND's own process, whose end is the end; its\n"
    "children are not looked after. When this process is killed, it gets SIGTERM\n"
    "(Linux).\n"
    "\n" URL_ENVIRONMENT ". COMMAND sees LOCKWIRE_NAME,\n"
    "LOCKWIRE_FENCE (the fencing token: larger than that of every earlier holder; not\n"
    "set with --redisson), with --and also LOCKWIRE_FENCE_2, LOCKWIRE_FENCE_3 ... of\n"
    "the further locks, in the order given, and, of an embedded server,\n"
    "LOCKWIRE_URL.\n";

static const char hold_codes[] =
    "\n"
    "The exit code is 0 if the lock was held to the end, or:\n"
    "   64  wrong usage                    71  the system refuses (output ...)\n"
    "   69  no connection to the server    75  the lock is busy, or the wait is over\n"
    "   70  the lock was lost              77  the server refuses (password, write)\n"
    "  128 + n  signal n came while waiting\n" REFUSED_LATER "\n" URL_ENVIRONMENT ".\n";

#define ASK_OPTIONS REDIS_OPTION PASSWORD_OPTION SENTINEL_OPTIONS TLS_OPTIONS HELP_OPTION

static const char status_text[] =
    "\n"
    "Shows who holds NAME, how long the lease still lasts, its fencing token where\n"
    "Redis keeps it (not of a mutex), and who waits: each with the name, host and pid\n"
    "of its client, which are known for two minutes after it was last in use. Above\n"
    "them the server that answered, whether it is a master, and how long ago that\n"
    "was; with redis-sentinel:// the service, its master, and for how long it has\n"
    "been that. On the standard error output it says if waiting is slow, since this\n"
    "account may not publish or subscribe, or the server has too many clients.\n"
    "\n"
    "In a terminal it is as wide as that, elsewhere 80 columns: what is too long\n"
    "there has an ellipsis in its middle, and columns that say nothing, or the\n"
    "tokens, are left out.\n"
    "\n"
    "  --wide         nothing is cut or left out: whole tokens, as `lockwire break\n"
    "                 --token` takes them\n"
    "  --json         for programs: name, stranger (a key's type that is not ours),\n"
    "                 holder_total, holders (mode, token, owner, client,\n"
    "                 remaining_ms, fence), waiter_total, waiters (mode, token,\n"
    "                 owner, client, position, waited_ms, permits), server, role,\n"
    "                 master (service, host, port, for_ms) with redis-sentinel://;\n"
    "                 null is what there is none of. At most 100 of each are listed,\n"
    "                 the totals count all\n" ASK_OPTIONS "\n"
    "The exit code is 0 if it is held, also by a stranger, or:\n"
    "    1  nobody holds it, whoever waits\n" SERVER_CODES "\n" URL_ENVIRONMENT ".\n";

static const char break_text[] =
    "\n"
    "Takes NAME away from whoever holds it and hands it to the first who waits. For\n"
    "when a holder is stuck. A message asks the holder's client to verify its hold;\n"
    "if it is lost, the holder believes that it holds until its next renewal. Only a\n"
    "resource that checks fencing tokens is safe in the meantime.\n"
    "\n"
    "  --token TOKEN  only if TOKEN holds it (see `lockwire status --wide`); safer,\n"
    "                 since the lock may have changed hands since you looked\n"
    "  --foreign      also if it is a plain string that another library has written,\n"
    "                 or a version of this one before 0.2, or one without a TTL, and\n"
    "                 so may be no lock at all; and where it is too long to be "
    "shown\n" ASK_OPTIONS "\n"
    "The exit code is 0 if it was taken away, or:\n"
    "    1  nobody holds it, or not TOKEN, or the key is not ours (see "
    "--foreign)\n" SERVER_CODES "\n" URL_ENVIRONMENT ".\n";

static const char watch_text[] =
    "\n"
    "Follows NAME. In a terminal it shows what `lockwire status` does, drawn anew at\n"
    "each look; where the server does not answer the last picture stays, with its\n"
    "age. Elsewhere a line for each change (holds, waits, left: mode, owner, client,\n"
    "token; with redis-sentinel:// master: another one), where the server does not\n"
    "answer, and when it does again.\n"
    "Ends at the key q, at SIGINT, SIGTERM or SIGHUP, or when its output is closed.\n"
    "\n"
    "  --interval TIME  between two looks (1s, at least 10ms)\n"
    "  --json           a JSON object in each line, as of `lockwire status --json`\n"
    "                   and with the time: for the first look, for each that differs\n"
    "                   by more than the times that passed, and for the first after\n"
    "                   an outage; of an outage one with outage (no answer, no\n"
    "                   connection), why, and age_ms, that of the last look\n" ASK_OPTIONS
    "\n" TIMES "\n"
    "The exit code is 0, also after an outage of the server, which is waited for; "
    "or:\n" SERVER_CODES "\n" URL_ENVIRONMENT ".\n";

static const char list_text[] =
    "\n"
    "Shows the locks that are held, by name: how (both: written and read), by how\n"
    "many, how many wait, whose it is (of several the first, and how many more), and\n"
    "how long the longest lease still lasts. PATTERN is a glob as Redis has it: *, ?,\n"
    "[abc]; without it all are shown. In a cluster every master is asked.\n"
    "\n"
    "All keys of the server are gone through, a few hundred at a time (SCAN): what\n"
    "is taken or given back meanwhile may be missing or not, what is held all the\n"
    "time is not missing. Locks of other libraries, Redisson's (--redisson) as well,\n"
    "look like any other key and are not shown. A terminal is told how far it is.\n"
    "\n"
    "In a terminal the table is as wide as that, elsewhere 80 columns: what is too\n"
    "long has an ellipsis in its middle.\n"
    "\n"
    "  --wide         nothing is cut or left out\n"
    "  --json         for programs: a line for each, an object as that of `lockwire\n"
    "                 status --json`, with the time\n" ASK_OPTIONS "\n"
    "The exit code is 0, also where none is held, or:\n" SERVER_CODES "\n" URL_ENVIRONMENT
    ".\n";

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
    static const char *const texts[SUBCOMMANDS + 1][5] = {
        [RUN] = {run_begin, work_options, entry_options, run_codes, work_codes},
        [LEAD] = {lead_begin, work_options, entry_options, lead_codes, work_codes},
        [HOLD] = {hold_begin, entry_options, hold_codes},
        [STATUS] = {status_text},
        [WATCH] = {watch_text},
        [LIST] = {list_text},
        [BREAK] = {break_text},
        [SUBCOMMANDS] = {about},
    };

    usage_brief(out, subcommand);
    for (int i = 0; i < 5 && texts[subcommand][i] != NULL; i++) {
        (void)fputs(texts[subcommand][i], out);
    }
}

/* SPDX-License-Identifier: MIT */
/* See options.h. The texts of --help: a synopsis, an introduction, groups of options with
 * a heading each, exit codes. src/man/section1.py makes lockwire(1) from them, and the
 * completions read the options:
 *  - A heading is a line without indent, ends in a colon, and follows an empty line.
 *  - An option is indented by two blanks; its text begins on the same line, at least two
 *    blanks later, or on the next one, and goes on on lines indented by 17 blanks.
 *  - A line of exit codes has one or two columns, each a code and its meaning.
 *  - A line indented by four blanks is an example; other lines are prose.
 * The text of -h is the first paragraph of the introduction, and lines of a table. */
#include "options_private.h"

#include <string.h>

const char *const usage_names[SUBCOMMANDS] = {
    [RUN] = "run",     [LEAD] = "lead",       [HOLD] = "hold",    [STATUS] = "status",
    [TAKE] = "take",   [RELEASE] = "release", [BREAK] = "break",  [WATCH] = "watch",
    [YIELD] = "yield", [LIST] = "list",       [DOCTOR] = "doctor"};

static const char *const synopses[SUBCOMMANDS] = {
    [RUN] = "lockwire run NAME [OPTION...] -- COMMAND [ARG...]",
    [LEAD] = "lockwire lead NAME [OPTION...] -- COMMAND [ARG...]",
    [HOLD] = "lockwire hold NAME [OPTION...]",
    [TAKE] = "lockwire take NAME [--lease TIME] [--json] [OPTION...]",
    [RELEASE] = "lockwire release NAME TOKEN [OPTION...]",
    [STATUS] = "lockwire status NAME [--json] [--wide] [OPTION...]",
    [WATCH] = "lockwire watch NAME [--interval TIME] [--json] [OPTION...]",
    [LIST] = "lockwire list [PATTERN] [--json] [--wide] [OPTION...]",
    [YIELD] = "lockwire yield NAME [OPTION...]",
    [BREAK] = "lockwire break NAME [--token TOKEN] [--foreign] [OPTION...]",
    [DOCTOR] = "lockwire doctor [NAME] [--json] [OPTION...]",
};

static const char about[] =
    "Distributed locks in Redis.\n"
    "\n"
    "Subcommands:\n"
    "  run        run a command while holding a lock\n"
    "  lead       leader election: run a command while holding a lock, and again\n"
    "             after each loss\n"
    "  hold       hold a lock until the standard input ends, for scripts\n"
    "  take       acquire a lock, print its token, and leave the lock held\n"
    "  release    release a lock by its token\n"
    "  status     show the holders and the waiters of a lock\n"
    "  watch      follow the holders and the waiters of a lock\n"
    "  list       list the held locks\n"
    "  yield      ask the holder of a lock to release it\n"
    "  break      force-release a lock whose holder is stuck\n"
    "  doctor     check that a server, its configuration and an account are fit for\n"
    "             locks\n"
    "\n"
    "Options:\n"
    "  -h, --help     show this text. `lockwire help SUBCOMMAND` shows all about one,\n"
    "                 `lockwire SUBCOMMAND -h` the options that are needed most\n"
    "  -V, --version  show the versions of the command and of the library\n";

static const char run_intro[] =
    "Waits for the lock NAME, runs COMMAND while holding it, and releases it when\n"
    "COMMAND and all processes it has started have ended.\n";

static const char lead_intro[] =
    "Leader election: waits for the lock NAME, without limit, and runs COMMAND while\n"
    "holding it. If the lock is lost, COMMAND is terminated as with `lockwire run`.\n"
    "It is started again, with a new fencing token, when the lock is held again and\n"
    "no process of the former COMMAND is left. When COMMAND exits by itself, the lock\n"
    "is released, and lockwire exits.\n"
    "\n"
    "SIGUSR1 and SIGUSR2 are for COMMAND. They are ignored while it is not running.\n";

static const char hold_intro[] =
    "Holds the lock NAME without a command, for a script. Once it holds the lock, it\n"
    "writes a line with the fencing token (with --redisson: -) to the standard\n"
    "output. When the standard input ends, or on a signal, it releases the lock and\n"
    "exits with 0. If the lock is lost, it reports that and exits at once with 70:\n"
    "the script must stop its work under the lock, see --grace.\n"
    "\n"
    "For example, in bash:\n"
    "\n"
    "    coproc lock { lockwire hold nightly -w 10m; }\n"
    "    pid=$lock_PID out=${lock[1]} in=${lock[0]}\n"
    "    read -r fence <&\"$in\" || { wait \"$pid\"; exit; }  # it reported why\n"
    "    ...                           # kill -0 \"$pid\": no loss so far\n"
    "    exec {out}>&-; wait \"$pid\"    # release\n"
    "\n"
    "If lockwire is stopped (Ctrl-Z), it can report a loss only when it continues.\n"
    "Until then, only a fencing token can reject late writes.\n"
    "\n"
    "The input is read and discarded. If it ends before the lock is held, the wait\n"
    "ends as if it had timed out. A file, /dev/null or a closed input, which would\n"
    "end at once, is refused with 64.\n";

static const char take_intro[] =
    "Waits for the lock NAME, and exits with 0 while it stays held: for the time of\n"
    "--lease, without renewal. Its token is written to the standard output. Whoever\n"
    "has the token can release the lock, prolong it or run a command under it, from\n"
    "any host; nothing else is needed, so keep it secret.\n"
    "\n"
    "For example, with a lock of an hour:\n"
    "\n"
    "    token=$(lockwire take deploy --lease 1h) || exit\n"
    "    token=$(lockwire take deploy --lease 1h --token \"$token\")  # prolong\n"
    "    lockwire run deploy --token \"$token\" -- ./deploy.sh        # or:\n"
    "    lockwire release deploy \"$token\"\n"
    "\n"
    "With --token the lock gets a new token; the old one is gone. A command\n"
    "that works under the lock after its time has ended may not be alone: only a\n"
    "fencing token (--json) can reject its writes.\n";

static const char take_output[] =
    "Output:\n"
    "  --json         a line with an object: name, token, fence (the fencing token),\n"
    "                 and until (when the lock ends, if it is not released before)\n";

static const char taking[] =
    "Holding:\n"
    "  --lease TIME   how long the lock stays held (default 30s, at least 100ms)\n";

static const char token_option[] =
    "  --token TOKEN  take over the lock from TOKEN, which `lockwire take` has\n"
    "                 printed, in place of waiting for the lock. With @FILE, or -\n"
    "                 for the standard input, TOKEN is the first line of that, so\n"
    "                 that the process list does not show it. --wait is then how\n"
    "                 long an outage of the server is waited out, and --max-waiting\n"
    "                 has no effect. If TOKEN does not hold the lock, the exit code\n"
    "                 is 70\n";

static const char at_least[] =
    "  --at-least TIME\n"
    "                 minimum time to hold the lock, from its grant on. If COMMAND\n"
    "                 ends earlier, lockwire exits, and the lock stays held for the\n"
    "                 rest. So a short job of cron with --nonblock runs once,\n"
    "                 although the clocks of its hosts differ. At most --max-hold\n";

static const char release_intro[] =
    "Releases the lock NAME if TOKEN holds it, and hands it to the first waiter.\n"
    "TOKEN is that of `lockwire take` or of LOCKWIRE_TOKEN, or the value of a key\n"
    "that another library has set. With @FILE, or - for the standard input, TOKEN is\n"
    "the first line of that, so that the process list does not show it. If a program\n"
    "still works under the lock, this is a `lockwire break`.\n";

static const char release_codes[] = "Exit codes:\n"
                                    "  The exit code is 0 if the lock was released, or:\n"
                                    "   70  TOKEN does not hold the lock (any longer)\n";

static const char take_codes[] =
    "Exit codes:\n"
    "  The exit code is 0 if the lock was taken, or:\n"
    "   64  usage error                    71  system error (output, memory)\n"
    "   69  no server can do it now        75  lock busy, or wait timed out\n"
    "   70  --token does not hold, or      77  refused by the server (password ...)\n"
    "       the lock was lost at once\n"
    "  128 + n  signal n arrived while waiting for the lock\n";

static const char status_intro[] =
    "Shows the holders and the waiters of the lock NAME, the remaining time of each\n"
    "lease, and the fencing tokens as far as Redis stores them (not those of\n"
    "mutexes). A client is shown by its name, host and pid, which are stored until\n"
    "two minutes after its last use. The second line has the server that replied,\n"
    "its role, and the age of the reply; with redis-sentinel:// the service, its\n"
    "master, and for how long that has been the master. If waiting is slow because\n"
    "this account may not publish or subscribe, or because the server has too many\n"
    "clients, a warning on the standard error output says so.\n"
    "\n"
    "With redis-quorum:// a line for each server shows the holder there, or why it\n"
    "did not reply. The lock counts as held if a majority has a holder. With --json\n"
    "it is an array, with the object of each server.\n"
    "\n"
    "The table is as wide as the terminal, else 80 columns. If it is too wide, empty\n"
    "columns and the tokens are left out, and long cells are cut in the middle.\n";

static const char watch_intro[] =
    "Follows the holders and the waiters of the lock NAME. In a terminal it shows\n"
    "what `lockwire status` shows, without the guard, and redraws it at each look;\n"
    "during an outage of the server the last state stays, with its age. Without a\n"
    "terminal it writes a line for each change: holds, waits or left, with the mode,\n"
    "owner, client and token; with redis-sentinel:// a new master; an outage of the\n"
    "server and its end.\n"
    "\n"
    "It exits at the key q, on SIGINT, SIGTERM or SIGHUP, or when the reader\n"
    "of its output has gone.\n";

static const char list_intro[] =
    "Lists the held locks by name: the mode (both: read and write), the number of\n"
    "holders and of waiters, the first holder and how many more there are, and the\n"
    "remaining time of the longest lease. PATTERN is a glob of Redis: *, ?, [abc];\n"
    "without it all held locks are listed. In a cluster all masters are asked.\n"
    "\n"
    "With redis-quorum:// each server is asked. SERVERS is at how many of them the\n"
    "client with the most votes holds the lock: less than a majority is no hold.\n"
    "Servers that do not reply are reported; the exit code is 69 unless a majority\n"
    "replies. With --json there is a line for each lock at each server.\n"
    "\n"
    "lockwire goes through all keys of the server, a few hundred at a time (SCAN).\n"
    "Locks that are held all the time are listed; those that are acquired or released\n"
    "in the meantime may be missing. Locks of other libraries, also Redisson's\n"
    "(--redisson), look like any other key and are not listed. A terminal shows the\n"
    "progress.\n"
    "\n"
    "The table is as wide as the terminal, else 80 columns; long cells are cut in the\n"
    "middle.\n";

static const char yield_intro[] =
    "Asks the holder of the lock NAME to release it, all holders if there are\n"
    "several. `lockwire run` and `lead` send their COMMAND SIGTERM, and release the\n"
    "lock when it has ended. `lockwire hold` releases it and exits. With --on-yield\n"
    "they run a command instead. A program is called back (asked_to_yield in\n"
    "lockwire.h), or ignores the request. Nothing is released by force.\n"
    "\n"
    "The exit code 0 means that the request has reached a holder. It may take its\n"
    "time, or ignore the request: `lockwire watch NAME` shows what it does. If only\n"
    "some of the holders were reached, that is reported. A client cannot be reached\n"
    "if it is gone, is another library's, has detached the lock (`lockwire take`), or\n"
    "may not subscribe: then only `lockwire break` or the end of the lease is left.\n"
    "\n"
    "With redis-quorum:// the client with the most votes is asked by one server\n"
    "after another, until one has reached it. It is not asked unless a majority\n"
    "replies (exit code 69).\n";

static const char break_intro[] =
    "Force-releases the lock NAME and hands it to the first waiter. Use it if a\n"
    "holder is stuck, and does not react to `lockwire yield`. The holder's client is\n"
    "sent a message to verify its hold. If the message is lost, the holder relies on\n"
    "the lock until its next renewal. In the meantime, only a resource that checks\n"
    "fencing tokens is safe.\n"
    "\n"
    "With redis-quorum:// the votes of one client are broken at each server: those of\n"
    "the client with the most votes, or of the one with the --token. The lock is\n"
    "broken if a majority has none of them any longer. Other servers are reported.\n"
    "Nothing is broken unless a majority replies (exit code 69).\n";

static const char doctor_intro[] =
    "Checks that locks work with this URL and account, and what endangers them: the\n"
    "server, its role, version and clock, each sentinel, the cluster's slots, each\n"
    "server of a quorum, the guard, maxmemory-policy, min-replicas, the rights of the\n"
    "account. Each line is ok, a warning (locks work, but slower, or not in every\n"
    "situation) or fails; the last two have a remedy where one is known.\n"
    "\n"
    "Then it tries: it acquires a lock, waits for it with a second request, hands it\n"
    "over, renews and releases it, as a mutex and as a read-write lock; in a cluster\n"
    "at each master, up to 32. The name of that lock is NAME, or lockwire-doctor, and\n"
    "a suffix that no other client uses, so that none is disturbed. Give a NAME if\n"
    "the account may use some names only. What stays at the server is what each\n"
    "client leaves there, and expires: fence counters and the client's identity. It\n"
    "does not write the guard's record, except with a quorum if a majority of the\n"
    "servers has the record already.\n";

static const char doctor_output[] =
    "Output:\n"
    "  --json         an object with exit_code and findings (level, server, text,\n"
    "                 remedy)\n";

static const char doctor_codes[] =
    "Exit codes:\n"
    "  The exit code is 0 if all of that works, also with warnings, or, as for\n"
    "  `lockwire run` of a lock that is free:\n";

#define WAITING                                                                          \
    "Waiting:\n"                                                                         \
    "  -w, --wait TIME\n"                                                                \
    "                 how long to wait for the lock: a time, 0 (try once), or\n"         \
    "                 forever (the default)\n"                                           \
    "  -n, --nonblock, --nb\n"                                                           \
    "                 same as --wait 0\n"                                                \
    "  -E, --conflict-exit-code CODE\n"                                                  \
    "                 exit code if the lock is busy or the wait times out: 0 to 255\n"   \
    "                 (default 75)\n"                                                    \
    "  -q, --quiet    do not report that the lock is busy or that the wait timed out.\n" \
    "                 (A holder without a time limit is reported.) No status line\n"     \
    "  --max-waiting N\n"                                                                \
    "                 do not wait if N others already do: the lock is busy. With 1,\n"   \
    "                 wait only if no other does. A dead waiter counts until its turn\n" \
    "                 comes."

static const char waiting[] = WAITING " Not for --redisson\n";

static const char waiting_to_take[] = WAITING "\n";

static const char lead_waiting[] =
    "Waiting:\n"
    "  --max-waiting N\n"
    "                 do not wait while N others do, and try again after 1s, later\n"
    "                 after up to 30s. A dead waiter counts until its turn comes.\n"
    "                 Not for --redisson\n"
    "  --keep-trying  do not exit if the server refuses the logins, neither at the\n"
    "                 first connection nor later. Without it lead exits with 77,\n"
    "                 later once they have been refused for the time of --lease\n";

static const char verbose[] =
    "  --verbose      while waiting, print a line for each change of the holder or of\n"
    "                 the place in the queue. On a terminal a status line shows this\n"
    "                 even without --verbose\n";

#define DESCRIBING                                                                       \
    "Description:\n"                                                                     \
    "  --note TEXT    a text that `lockwire status` and `lockwire list` show for as\n"   \
    "                 long as the lock is held, with the user and the time of the\n"     \
    "                 grant: at most 100 bytes of UTF-8 without control\n"               \
    "                 characters."

#define NO_IDENTITY "  --no-identity  store neither host, process nor user\n"

static const char describing[] = DESCRIBING " Not for --redisson\n" NO_IDENTITY;

static const char describing_to_take[] = DESCRIBING "\n" NO_IDENTITY;

static const char holding[] =
    "Holding:\n"
    "  --lease TIME   how long the lock stays held if lockwire dies (default 30s, at\n"
    "                 least 100ms). The lease is renewed as long as the lock is held\n"
    "  --max-hold TIME\n"
    "                 maximum time to hold the lock (at least 100ms). After it, the\n"
    "                 lock counts as lost\n";

static const char on_lost[] =
    "  --on-lost CMD  if the lock is lost, or at risk because a renewal is late: run\n"
    "                 CMD by /bin/sh; see \"If the lock is lost\"\n";

static const char on_yield[] =
    "  --on-yield CMD\n"
    "                 if `lockwire yield` asks for the lock: run CMD by /bin/sh, in\n"
    "                 place of SIGTERM to COMMAND; see \"If the lock is asked for\"\n";

static const char on_yield_in_hold[] =
    "  --on-yield CMD\n"
    "                 if `lockwire yield` asks for the lock: run CMD by /bin/sh, in\n"
    "                 place of releasing the lock; see \"If the lock is asked for\"\n";

static const char keep_running[] =
    "  --keep-running\n"
    "                 do not end COMMAND if the lock is lost. Two holders may then\n"
    "                 work at the same time; see \"If the lock is lost\"\n";

static const char job_options[] =
    "  --grace TIME   if the lock is lost: time between SIGTERM and SIGKILL. Default\n"
    "                 5s, or a quarter of the lease or of --max-hold, if shorter;\n"
    "                 must be less than half of it\n"
    "  --direct       run COMMAND as a single process in lockwire's own process\n"
    "                 group; see \"Processes and signals\"\n";

static const char hold_grace[] =
    "  --grace TIME   how long before the end of the lease or of --max-hold a loss is\n"
    "                 reported: the script's time to stop. Default 5s, or a quarter\n"
    "                 of the lease or of --max-hold, if shorter; must be less than\n"
    "                 half of it\n";

static const char several[] =
    "Several locks:\n"
    "  --and NAME     another lock, up to 15 times. COMMAND runs while all are held,\n"
    "                 and is terminated if any of them is lost. Mutexes only. The\n"
    "                 order does not matter: commands that share locks never deadlock\n";

#define KIND                                                                             \
    "Kind of lock:\n"                                                                    \
    "  Without an option the lock is a mutex. All users of a NAME must use the same\n"   \
    "  kind of lock.\n"                                                                  \
    "  -x, -e, --exclusive\n"                                                            \
    "                 a lock that is re-entrant for its owner; also the write side of\n" \
    "                 a read-write lock\n"                                               \
    "  -s, --shared   the read side of a read-write lock\n"                              \
    "  --permits N    with --shared: a semaphore; enter only while fewer than N\n"       \
    "                 owners hold the lock\n"                                            \
    "  --owner OWNER  with --exclusive or --shared: the owner, which may enter again\n"  \
    "                 from any process; 1 to 128 printable bytes without spaces\n"

static const char kind[] = KIND
    "  --redisson     Redisson's RLock of the same name; has no fencing token\n";

static const char kind_to_take[] = KIND;

static const char status_output[] =
    "Output:\n"
    "  --wide         cut nothing and leave nothing out; shows whole tokens, as\n"
    "                 `lockwire break --token` takes them\n"
    "  --json         an object with name, foreign (the type of a key in an unknown\n"
    "                 format), holder_total, holders (mode, token, owner, client,\n"
    "                 remaining_ms, fence, since, user, note), waiter_total, waiters\n"
    "                 (mode, token, owner, client, position, waited_ms, permits),\n"
    "                 server, role, with redis-sentinel:// master (service, host,\n"
    "                 port, for_ms); with a guard guard_ms and guard_left_ms (null if\n"
    "                 the times differ); degraded (words for what this account or the\n"
    "                 server lacks, see MONITORING in lockwire(7); not of a quorum).\n"
    "                 Fields without a value are null; so are since, user and note of\n"
    "                 a holder without a note, unless the lock was detached or\n"
    "                 adopted. At most 100 holders and 100 waiters are listed; the\n"
    "                 totals count all\n";

static const char watch_output[] =
    "Output:\n"
    "  --interval TIME\n"
    "                 time between two looks (default 1s, at least 10ms). A change\n"
    "                 that the server reports is shown within a tenth of it, or\n"
    "                 within it while there are many; see +client|tracking in\n"
    "                 lockwire(7)\n"
    "  --json         a line with an object like that of `lockwire status --json`,\n"
    "                 and the time: for the first look, for each that differs in more\n"
    "                 than passing times, and for the first after an outage. An\n"
    "                 outage is an object with name, outage (no answer, no\n"
    "                 connection, or not now), why, age_ms (of the last look) and\n"
    "                 time\n";

static const char list_output[] =
    "Output:\n"
    "  --wide         cut nothing and leave nothing out\n"
    "  --json         a line for each lock, with an object like that of `lockwire\n"
    "                 status --json`, and the time\n";

static const char break_options[] =
    "Which holder:\n"
    "  --token TOKEN  break the lock only if TOKEN holds it (see `lockwire status\n"
    "                 --wide`). Safer, since the holder may have changed since then.\n"
    "                 @FILE, or - for the standard input: the first line of that\n"
    "  --foreign      also break a plain string that was written by another library\n"
    "                 or by lockwire before 0.2, that has no TTL, or that is too long\n"
    "                 to be shown. Such a key may not be a lock at all\n";

static const char server[] =
    "Server:\n"
    "  --redis URL    redis://[[user][:password]@]host[:port][/db]\n"
    "                 redis-sentinel://[...@]host[:port][,...]/service[/db]\n"
    "                   (the current master; list all sentinels)\n"
    "                 redis-cluster://[...@]host[:port][,...][/db]\n"
    "                 redis-quorum://[...@]host[:port],host[:port],host[:port][/db]\n"
    "                   (a majority of 3, 5 or 7 independent servers)\n"
    "                 rediss://, rediss-sentinel://, rediss-cluster://,\n"
    "                 rediss-quorum:// (with TLS)\n"
    "                 valkey://, valkeys://, valkey-sentinel:// ... (same as redis)\n"
    "                 unix:///path[?db=N]\n"
    "                 Behind each may be ?guard=TIME (a cluster: only none) and\n"
    "                 ?prefix=TEXT, the second one as &prefix=TEXT: see --guard and\n"
    "                 --prefix\n"
    "                 embedded: (run, lead, hold: a temporary redis-server)\n"
    "  --connect-timeout TIME\n"
    "                 how long to try to connect at first (at least 100ms), or\n"
    "                 forever; after that the exit code is 69. Default: 30s with run,\n"
    "                 hold and take; forever with lead and watch. The others try\n"
    "                 once, for at most 30s, if this is not given; doctor, and status\n"
    "                 with each server of a quorum, always do. Outages after the\n"
    "                 first connection do not count\n"
    "  --password-file FILE\n"
    "                 read the password from the first line of FILE, again for each\n"
    "                 login, so that it can be replaced. With \"-\" that is the\n"
    "                 standard input, whose other lines are left to be read; it and\n"
    "                 pipes are read once\n"
    "  --sentinel-user NAME, --sentinel-password-file FILE\n"
    "                 credentials for the sentinels themselves; the user and password\n"
    "                 in the URL and --password-file are for the Redis servers\n"
    "  --cacert FILE, --cert FILE, --key FILE, --sni NAME\n"
    "                 TLS: trusted CAs (file or directory; default: the system's),\n"
    "                 client certificate and key, and the name to verify in the\n"
    "                 server's certificate (default: the host in the URL)\n"
    "  --map FROM=TO  connect to TO in place of the address FROM that sentinels or\n"
    "                 cluster nodes announce: HOST:PORT=HOST:PORT, or HOST=HOST for\n"
    "                 all ports of a host. May be repeated. Not for hosts in the URL\n"
    "  --prefix TEXT  put TEXT before every key and channel: with team: the lock NAME\n"
    "                 is the key team:NAME, and an account needs only ~team:* and\n"
    "                 &team:*. All users of a lock need the same TEXT. With {team}:\n"
    "                 all keys are in one slot; see PREFIX in lockwire(7)\n"
    "  --guard TIME   grant no lock for TIME after the server was restarted, promoted\n"
    "                 or exchanged, nor at the first use of a guard there, so that\n"
    "                 a grant that was lost has no second holder;\n"
    "                 45s fits the default lease. All users of the server need the\n"
    "                 same TIME, as ?guard=TIME in the URL gives it to all of them;\n"
    "                 see lockwire-guard(7). \"none\" is no guard, also where others\n"
    "                 use one. With redis-quorum:// it is 45s unless TIME is given. A\n"
    "                 wait that ends earlier exits with 69\n"
    "  -h, --help     -h: show the options that are needed most; --help: this text\n"
    "\n"
    "  A password in the URL is visible in the process list, and one in LOCKWIRE_URL\n"
    "  in the environment of the COMMAND that run and lead start. That COMMAND also\n"
    "  inherits file descriptor N with --password-file /dev/fd/N.\n";

static const char times[] =
    "Times:\n"
    "  TIME is a number with a unit, such as 500ms, 30s, 5m or 1.5h; the default\n"
    "  unit is seconds.\n";

static const char run_codes[] =
    "Exit codes:\n"
    "  COMMAND's own exit code, or 128 + n if signal n killed it, or:\n"
    "   64  usage error                    75  lock busy, or wait timed out\n"
    "   69  no server can do it now        77  refused by the server (password ...)\n"
    "   70  the lock was lost              126 COMMAND cannot be executed\n"
    "   71  system error (fork, memory)    127 COMMAND not found\n"
    "  128 + n  signal n arrived while waiting for the lock\n";

static const char lead_codes[] =
    "Exit codes:\n"
    "  COMMAND's own exit code, or 128 + n if signal n killed it, or:\n"
    "   64  usage error                    77  refused by the server (password ...)\n"
    "   69  no server can do it now        126 COMMAND cannot be executed\n"
    "   70  lost before the release        127 COMMAND not found\n"
    "   71  system error (fork, memory)\n"
    "  128 + n  signal n arrived while waiting for the lock\n";

static const char hold_codes[] =
    "Exit codes:\n"
    "  The exit code is 0 if the lock was held until its release, or:\n"
    "   64  usage error                    71  system error (output, memory)\n"
    "   69  no server can do it now        75  lock busy, or wait timed out\n"
    "   70  the lock was lost              77  refused by the server (password ...)\n"
    "  128 + n  signal n arrived while waiting for the lock\n";

static const char refused_later[] =
    "  Code 77 also means that the server refused to renew the lock, which is then\n"
    "  lost, or to release it; code 69 also that no server could release it. It then\n"
    "  stays locked until its lease expires. A release without a reply may have been\n"
    "  executed: that is reported, and changes no exit code.\n";

static const char now_codes[] =
    "  A later try may end otherwise after 69: there is no connection or no reply, a\n"
    "  guard is closed, or the server is, for example, loading, busy with a script,\n"
    "  out of memory, without enough replicas or a replica. 77 is permanent.\n";

static const char status_codes[] =
    "Exit codes:\n"
    "  The exit code is 0 if the lock is held, also by another program, or:\n"
    "    1  the lock is free, even if there are waiters\n"
    "  A lock that no client is granted now is not free: the code is 69 while the\n"
    "  guard is closed, and 77 if the server's guard time is not this command's.\n";

static const char watch_codes[] =
    "Exit codes:\n"
    "  The exit code is 0, also after outages of the server, which it waits out, or:\n";

static const char list_codes[] = "Exit codes:\n"
                                 "  The exit code is 0, even if no lock is held, or:\n";

static const char yield_codes[] =
    "Exit codes:\n"
    "  The exit code is 0 if the request has reached a holder, or:\n"
    "    1  free, or of an unknown format   71  system error (memory ...)\n"
    "   64  usage error                     75  held, but no holder was reached\n"
    "   69  no server can do it now         77  refused by the server\n";

static const char break_codes[] =
    "Exit codes:\n"
    "  The exit code is 0 if the lock was released, or:\n"
    "    1  not held, not held by TOKEN, or not a lock of lockwire's (see --foreign)\n";

static const char server_codes[] =
    "   64  usage error                    71  system error (memory ...)\n"
    "   69  no server can do it now        77  refused by the server\n";

static const char processes[] =
    "Processes and signals:\n"
    "  COMMAND and everything it starts run as a job in a process group of their own.\n"
    "  SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are forwarded to the\n"
    "  group. The lock is released when no process of the job is left. After Ctrl-C,\n"
    "  lockwire terminates itself with SIGINT, so that a calling script stops too.\n"
    "\n"
    "  If the lock is lost, all processes of the job get SIGTERM, and SIGKILL after\n"
    "  the grace time. If the server does not respond, this starts early enough to\n"
    "  finish before the lease expires. After `lockwire break` the next holder may\n"
    "  already have started. A helper process, lw-keeper, does the same if lockwire\n"
    "  is killed or is stopped for too long. After Ctrl-Z and fg, COMMAND continues\n"
    "  only if the lock is still held.\n"
    "\n"
    "  Exceptions: a process that calls setsid(2), as daemons do, is neither waited\n"
    "  for nor killed. One that lockwire may not signal (sudo) is waited for only. If\n"
    "  lockwire is killed, processes that left both the group and their parent within\n"
    "  the last second may survive; if lw-keeper is killed at the same time, all do.\n"
    "\n"
    "  With --direct only COMMAND's own process is signaled and waited for; its\n"
    "  children are ignored. If lockwire is killed, COMMAND gets SIGTERM (Linux).\n";

#define LOST                                                                             \
    "If the lock is lost:\n"                                                             \
    "  CMD of --on-lost runs in addition to everything else that a loss causes. It\n"    \
    "  gets LOCKWIRE_NAME, LOCKWIRE_FENCE (not with --redisson),\n"                      \
    "  LOCKWIRE_LOST_REASON (a text) and LOCKWIRE_LOST_STATE, which is one of two\n"     \
    "  words: lost; or at-risk if a renewal is late, so that the lock is still\n"        \
    "  held, but not for long. A lock may be at risk several times. CMD gets no\n"       \
    "  LOCKWIRE_TOKEN.\n"                                                                \
    "\n"                                                                                 \
    "  lockwire does not wait for CMD. If CMD hangs, all else goes on, and CMD\n"        \
    "  also survives lockwire; until it ends, it is not started again for the same\n"    \
    "  state. If it fails while lockwire runs, that is reported; no exit code\n"         \
    "  depends on it. CMD has a session of its own and reads /dev/null, and its\n"       \
    "  output goes to the standard error output. It does not run if lockwire is\n"       \
    "  killed.\n"

static const char if_lost[] = LOST;

static const char if_lost_in_run[] = LOST
    "\n"
    "  With --keep-running COMMAND goes on after a loss, and lockwire waits for\n"
    "  its end. In that time another holder may work, too. Use it only if COMMAND\n"
    "  reacts to CMD, or if a resource checks the fencing token. The exit code is\n"
    "  70 (or 69, 77) as without it. COMMAND is still ended if lockwire is killed.\n";

#define ON_YIELD                                                                         \
    "  With --on-yield CMD runs in place of that, for each request: as CMD of\n"         \
    "  --on-lost does, but with LOCKWIRE_NAME and LOCKWIRE_FENCE only.\n"

#define ON_YIELD_JOB                                                                     \
    "\n" ON_YIELD                                                                        \
    "  lockwire forwards a signal that CMD sends to its parent, so that COMMAND gets\n"  \
    "  SIGUSR1 with:\n"                                                                  \
    "\n"                                                                                 \
    "    --on-yield 'kill -USR1 $PPID'\n"

#define ASKED                                                                            \
    "If the lock is asked for:\n"                                                        \
    "  `lockwire yield NAME` asks the holder of a lock to release it. A request while\n" \
    "  lockwire waits for the lock has no effect; each other one is reported.\n"

#define ASKED_JOB                                                                        \
    ASKED                                                                                \
    "  COMMAND gets SIGTERM, once, and no SIGKILL follows: it may finish its work\n"     \
    "  first, or go on. The lock is released when no process of it is left."

static const char if_asked_in_run[] = ASKED_JOB " The exit\n"
                                                "  code is COMMAND's.\n" ON_YIELD_JOB;

static const char if_asked_in_lead[] = ASKED_JOB
    " Then\n"
    "  lockwire waits for it again, behind all others that wait.\n" ON_YIELD_JOB "\n"
    "  If COMMAND ends after a request, lockwire waits again with --on-yield, too.\n";

static const char if_asked_in_hold[] = ASKED "  It is like the end of the input.\n"
                                             "\n" ON_YIELD;

#define URL_ENVIRONMENT                                                                  \
    "Environment:\n"                                                                     \
    "  LOCKWIRE_URL is used if --redis is not given. "

static const char environment[] = URL_ENVIRONMENT "The default is\n  " DEFAULT_URL ".\n";

#define NO_DEFAULT                                                                       \
    "There is no default:\n"                                                             \
    "  two hosts with a server each would both hold the lock.\n"

static const char taking_environment[] = URL_ENVIRONMENT NO_DEFAULT;

static const char job_environment[] = URL_ENVIRONMENT NO_DEFAULT
    "\n"
    "  COMMAND gets LOCKWIRE_NAME, LOCKWIRE_FENCE (the fencing token, larger than\n"
    "  that of every earlier holder; not set with --redisson), LOCKWIRE_TOKEN (the\n"
    "  token that holds the lock, with --and the first one) and, with an embedded\n"
    "  server, LOCKWIRE_URL.\n";

static const char several_environment[] =
    "  With --and, COMMAND also gets LOCKWIRE_FENCE_2, LOCKWIRE_FENCE_3 and so on:\n"
    "  the fencing tokens of the further locks, in the order given.\n";

/* clang-format off */
static const char *const sections[SUBCOMMANDS + 1][25] = {
    [RUN] = {run_intro, waiting, verbose, holding, at_least, token_option, job_options,
             on_lost, on_yield, keep_running, describing, kind, several, server, times,
             run_codes, now_codes, refused_later, processes, if_lost_in_run, if_asked_in_run, job_environment,
             several_environment},
    [LEAD] = {lead_intro, lead_waiting, verbose, holding, at_least, job_options, on_lost, on_yield,
              describing, kind, server, times, lead_codes, now_codes, processes, if_lost,
              if_asked_in_lead, job_environment},
    [HOLD] = {hold_intro, waiting, verbose, holding, hold_grace, on_lost, on_yield_in_hold,
              describing, kind, server, times, hold_codes, now_codes, refused_later, if_lost,
              if_asked_in_hold, taking_environment},
    [TAKE] = {take_intro, take_output, waiting_to_take, verbose, taking, token_option,
              describing_to_take, kind_to_take, server, times, take_codes, now_codes, taking_environment},
    [RELEASE] = {release_intro, server, release_codes, server_codes, now_codes,
                 taking_environment},
    [STATUS] = {status_intro, status_output, server, status_codes, server_codes, now_codes,
                environment},
    [WATCH] = {watch_intro, watch_output, server, times, watch_codes, server_codes, now_codes,
               environment},
    [LIST] = {list_intro, list_output, server, list_codes, server_codes, now_codes, environment},
    [YIELD] = {yield_intro, server, yield_codes, now_codes, environment},
    [BREAK] = {break_intro, break_options, server, break_codes, server_codes, now_codes,
               environment},
    [DOCTOR] = {doctor_intro, doctor_output, server, doctor_codes, server_codes, now_codes,
                environment},
    [SUBCOMMANDS] = {about},
};
/* clang-format on */

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
        (void)fputs("       lockwire help [SUBCOMMAND] | --version\n", out);
    }
}

/* clang-format off */
static const struct {
    unsigned subcommands; /* bits */
    const char *text;
} short_help[] = {
    {WAITERS, "  -w, --wait TIME       how long to wait for the lock (default: forever)\n"},
    {WAITERS, "  -n, --nonblock        do not wait\n"},
    {HOLDERS, "  --lease TIME          how long the lock stays held if lockwire dies (30s)\n"},
    {IN(TAKE), "  --lease TIME          how long the lock stays held (30s)\n"},
    {RUNNERS, "  --max-hold TIME       after this time the lock counts as lost\n"},
    {HOLDERS, "  --grace TIME          if the lock is lost: time to stop (5s)\n"},
    {RUNNERS, "  --at-least TIME       minimum time to hold the lock, for short jobs of cron\n"},
    {HOLDERS, "  --on-lost CMD         run CMD if the lock is lost or at risk\n"},
    {IN(RUN), "  --and NAME            another lock that must be held, too\n"},
    {TAKERS, "  -s, --shared          read side of a read-write lock; with --permits N a\n"
             "                        semaphore; -x, --exclusive: the write side\n"},
    {TAKERS, "  --note TEXT           shown by `lockwire status` while the lock is held\n"},
    {IN(TAKE), "  --token TOKEN         prolong the lock that TOKEN holds\n"},
    {IN(BREAK), "  --token TOKEN         break the lock only if TOKEN holds it\n"
                "  --foreign             also break a key that is not one of lockwire's\n"},
    {IN(WATCH), "  --interval TIME       time between two looks (1s)\n"},
    {IN(STATUS) | IN(LIST), "  --wide                cut nothing and leave nothing out\n"},
    {IN(TAKE) | IN(STATUS) | IN(WATCH) | IN(LIST) | IN(DOCTOR),
     "  --json                output for programs\n"},
    {ALL, "  --redis URL           redis://HOST, redis-sentinel://HOST,.../SERVICE,\n"
          "                        redis-cluster://HOST,..., redis-quorum://HOST,...\n"},
    {TAKERS | IN(RELEASE), "                        (default: LOCKWIRE_URL)\n"},
    {ALL & ~(TAKERS | IN(RELEASE)),
     "                        (default: LOCKWIRE_URL, else " DEFAULT_URL ")\n"},
    {ALL, "  --password-file FILE  read the server's password from FILE\n"
          "  --help                show all options, exit codes and rules\n"
          "\n"},
    {RUNNERS, "Exit codes: COMMAND's own, or "},
    {ALL & ~RUNNERS, "Exit codes: 0, or "},
    {IN(STATUS), "1 free, "},
    {IN(YIELD) | IN(BREAK), "1 not held, "},
    {ALL, "64 usage error, 69 no server can do it now,\n"},
    {HOLDERS, "70 the lock was lost, "},
    {IN(TAKE) | IN(RELEASE), "70 TOKEN does not hold, "},
    {WAITERS, "75 busy or timed out, "},
    {IN(YIELD), "75 not reached, "},
    {ALL, "77 refused by the server\n"},
};
/* clang-format on */

void usage_short_help(FILE *out, enum subcommand subcommand)
{
    const char *intro = sections[subcommand][0], *end = strstr(intro, "\n\n");

    usage_brief(out, subcommand);
    (void)fprintf(out, "\n%.*s\n",
                  (int)(end != NULL ? (size_t)(end - intro) + 1 : strlen(intro)), intro);
    for (size_t i = 0; i < sizeof(short_help) / sizeof(*short_help); i++) {
        if (short_help[i].subcommands & IN(subcommand)) {
            (void)fputs(short_help[i].text, out);
        }
    }
}

/* An indented section continues the one before. */
void usage_help(FILE *out, enum subcommand subcommand)
{
    const char *const *section = sections[subcommand];

    usage_brief(out, subcommand);
    for (; *section != NULL; section++) {
        (void)fprintf(out, "%s%s", **section == ' ' ? "" : "\n", *section);
    }
}

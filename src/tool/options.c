/* SPDX-License-Identifier: MIT */
/* See options.h. Options may stand before and after NAME. The command begins after "--"
 * or with the first word after NAME, and its own options are left alone. */
#include "options_private.h"

#include "base/check.h"
#include "base/duration.h"
#include "base/escape.h"
#include "base/url.h"
#include "nearest.h"
#include "report.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CONTINUE (-1) /* returned by parse_... and check_..., or an exit code */
#define EMBEDDED "embedded:"
#define DEFAULT_LEASE_MS 30000
#define DEFAULT_GRACE_MS 5000
#define DEFAULT_INTERVAL_MS 1000
#define DEFAULT_CONNECT_MS 30000 /* usage.c has it, too */
#define MIN_CONNECT_MS 100
#define MIN_LEASE_MS 100
#define GUARD_SPARE_MS 12000
#define KILL_MS                                                                          \
    500 /* reserved for SIGKILL before the deadline; less of a short lease               \
         */
#define MAX_GRACE_MS (INT32_MAX / 2 - 2 * KILL_MS) /* fits the longest lease */
#define MIN_INTERVAL_MS 10

/* ---- the value of one option ---- */

/* Reports the error and the subcommand's synopsis. Returns the exit code. */
static int refuse(enum subcommand subcommand, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int refuse(enum subcommand subcommand, const char *format, ...)
{
    char text[1024], shown[sizeof(text)];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    lw__escape(text, shown, sizeof(shown));
    (void)fprintf(stderr, "lockwire: %s\n", shown);
    usage_brief(stderr, subcommand);
    return EXIT_USAGE;
}

/* `limits` is the text for a time below `least` or above `most`. */
static int parse_time(const struct options *options, const char *option, const char *text,
                      int64_t least, int64_t most, const char *limits, int64_t *ms)
{
    char why[200];

    if (lw__duration_parse(text, ms, why, sizeof(why)) < 0) {
        return refuse(options->subcommand, "%s %s", option, why);
    }
    if (*ms < least || *ms > most) {
        return refuse(options->subcommand, "%s '%s': must be %s", option, text, limits);
    }
    return CONTINUE;
}

/* Returns true if the text is a number, and at most `most`. */
static bool parse_number(const char *text, unsigned long most, unsigned long *number)
{
    char *end;

    if (*text < '0' || *text > '9') {
        return false;
    }
    *number = strtoul(text, &end, 10);
    return *end == '\0' && *number <= most;
}

static int parse_wait(const char *text, struct options *options)
{
    if (strcmp(text, "forever") != 0) {
        return parse_time(options, "--wait", text, 0, INT64_MAX, "", &options->wait_ms);
    }
    options->wait_ms = -1;
    return CONTINUE;
}

static int parse_nonblock(const char *text, struct options *options)
{
    (void)text;
    options->wait_ms = 0;
    return CONTINUE;
}

static int parse_lease(const char *text, struct options *options)
{
    int64_t lease = 0;
    int result = parse_time(options, "--lease", text, MIN_LEASE_MS, INT32_MAX,
                            "between 100ms and 596h", &lease);

    if (result == CONTINUE) {
        options->lease_ms = (uint32_t)lease;
    }
    return result;
}

static int parse_grace(const char *text, struct options *options)
{
    return parse_time(options, "--grace", text, 0, MAX_GRACE_MS, "at most 298h",
                      &options->grace_ms);
}

static int parse_max_hold(const char *text, struct options *options)
{
    return parse_time(options, "--max-hold", text, MIN_LEASE_MS, INT64_MAX,
                      "at least 100ms", &options->max_hold_ms);
}

static int parse_at_least(const char *text, struct options *options)
{
    return parse_time(options, "--at-least", text, 0, INT32_MAX, "at most 596h",
                      &options->at_least_ms);
}

/* A token that is read from elsewhere is in no process list. */
static int parse_token(const char *text, struct options *options)
{
    options->token = options->token_file = NULL;
    if (strcmp(text, "-") == 0 || text[0] == '@') {
        options->token_file = text[0] == '@' ? text + 1 : text;
    } else {
        options->token = text;
    }
    if (*text == '\0' || strcmp(text, "@") == 0) {
        return refuse(options->subcommand, "%s is empty",
                      options->subcommand == RELEASE ? "TOKEN" : "--token");
    }
    return CONTINUE;
}

static int parse_interval(const char *text, struct options *options)
{
    return parse_time(options, "--interval", text, MIN_INTERVAL_MS, INT32_MAX,
                      "between 10ms and 596h", &options->interval_ms);
}

static int parse_connect_timeout(const char *text, struct options *options)
{
    options->connect_given = true;
    if (strcmp(text, "forever") != 0) {
        return parse_time(options, "--connect-timeout", text, MIN_CONNECT_MS, INT32_MAX,
                          "between 100ms and 596h, or forever", &options->connect_ms);
    }
    options->connect_ms = 0;
    return CONTINUE;
}

static int parse_guard(const char *text, struct options *options)
{
    if (strcmp(text, "none") != 0) {
        return parse_time(options, "--guard", text, LW__GUARD_LEAST_MS, LW__GUARD_MOST_MS,
                          "between 15s and 10m, or none", &options->guard_ms);
    }
    options->guard_ms = LW_GUARD_NONE;
    return CONTINUE;
}

static int parse_prefix(const char *text, struct options *options)
{
    char why[LW_WHY_SIZE];

    if (lw__check_prefix(text, why, sizeof(why)) != NULL) {
        return refuse(options->subcommand, "--prefix: %s", why);
    }
    (void)snprintf(options->prefix, sizeof(options->prefix), "%s", text);
    return CONTINUE;
}

static int choose_mode(enum lw_mode mode, struct options *options)
{
    if (options->mode != LW_MUTEX && options->mode != mode) {
        return refuse(options->subcommand,
                      "--exclusive, --shared and --redisson exclude each other");
    }
    options->mode = mode;
    return CONTINUE;
}

static int parse_exclusive(const char *text, struct options *options)
{
    (void)text;
    return choose_mode(LW_EXCLUSIVE, options);
}

static int parse_shared(const char *text, struct options *options)
{
    (void)text;
    return choose_mode(LW_SHARED, options);
}

static int parse_redisson(const char *text, struct options *options)
{
    (void)text;
    return choose_mode(LW_REDISSON, options);
}

static int parse_permits(const char *text, struct options *options)
{
    unsigned long number;

    if (!parse_number(text, INT32_MAX, &number) || number < 1) {
        return refuse(options->subcommand,
                      "--permits '%s': must be a number from 1 to 2147483647", text);
    }
    options->permits = (uint32_t)number;
    return CONTINUE;
}

static int parse_max_waiting(const char *text, struct options *options)
{
    unsigned long number;

    if (!parse_number(text, INT32_MAX, &number) || number < 1) {
        return refuse(options->subcommand,
                      "--max-waiting '%s': must be a number from 1 to 2147483647; use "
                      "--wait 0 not to wait at all",
                      text);
    }
    options->max_waiting = (uint32_t)number;
    return CONTINUE;
}

static int parse_busy_code(const char *text, struct options *options)
{
    unsigned long number;

    if (!parse_number(text, UINT8_MAX, &number)) {
        return refuse(options->subcommand,
                      "--conflict-exit-code '%s': must be a number from 0 to 255", text);
    }
    options->busy_code = (int)number;
    return CONTINUE;
}

static int parse_note(const char *text, struct options *options)
{
    char why[LW_WHY_SIZE];

    if (lw__check_note(text, why, sizeof(why)) != NULL) {
        return refuse(options->subcommand, "--note: %s", why);
    }
    options->note = text;
    return CONTINUE;
}

static int parse_map(const char *text, struct options *options)
{
    if (options->map_count == MAX_MAPS) {
        return refuse(options->subcommand,
                      "--map '%s': more than %d times; separate pairs by commas", text,
                      MAX_MAPS);
    }
    options->maps[options->map_count++] = text;
    return CONTINUE;
}

static int parse_and(const char *text, struct options *options)
{
    if (options->more_count == MAX_MORE_NAMES) {
        return refuse(options->subcommand,
                      "--and '%s': at most %d locks can be acquired together", text,
                      MAX_MORE_NAMES + 1);
    }
    options->more_names[options->more_count++] = text;
    return CONTINUE;
}

/* ---- options together, and the arguments ---- */

/* Returns the first option for rediss:// that was given, or NULL. */
static const char *tls_option(const struct options *options)
{
    return options->tls_ca != NULL            ? "--cacert"
           : options->tls_cert != NULL        ? "--cert"
           : options->tls_key != NULL         ? "--key"
           : options->tls_server_name != NULL ? "--sni"
                                              : NULL;
}

static bool begins(const char *text, const char *start)
{
    return strncasecmp(text, start, strlen(start)) == 0;
}

/* Returns true if the URL begins with `scheme`, or with valkey in place of its redis. */
static bool has_scheme(const struct options *options, const char *scheme)
{
    return begins(options->url, scheme) ||
           (begins(options->url, "valkey") &&
            begins(options->url + strlen("valkey"), scheme + strlen("redis")));
}

#define OR_VALKEY " (or with valkey in place of redis)"

static int check_sentinel(const struct options *options)
{
    const char *user = options->sentinel_user, *file = options->sentinel_password_file;
    const char *option = user != NULL   ? "--sentinel-user"
                         : file != NULL ? "--sentinel-password-file"
                                        : NULL;

    if (option != NULL && !has_scheme(options, "redis-sentinel://") &&
        !has_scheme(options, "rediss-sentinel://")) {
        return refuse(options->subcommand,
                      "%s needs a URL that begins with redis-sentinel:// or "
                      "rediss-sentinel://" OR_VALKEY,
                      option);
    }
    if (user != NULL && file == NULL) {
        return refuse(options->subcommand,
                      "--sentinel-user needs --sentinel-password-file");
    }
    return CONTINUE;
}

static int check_tls(const struct options *options)
{
    if (tls_option(options) != NULL && !has_scheme(options, "rediss")) {
        return refuse(options->subcommand,
                      "%s needs a URL that begins with rediss://, rediss-sentinel://, "
                      "rediss-cluster:// or rediss-quorum://" OR_VALKEY,
                      tls_option(options));
    }
    if ((options->tls_cert != NULL) != (options->tls_key != NULL)) {
        return refuse(options->subcommand, "--cert and --key must be given together");
    }
    return CONTINUE;
}

static int check_map(const struct options *options)
{
    if (options->map_count > 0 && !has_scheme(options, "redis-sentinel://") &&
        !has_scheme(options, "rediss-sentinel://") &&
        !has_scheme(options, "redis-cluster://") &&
        !has_scheme(options, "rediss-cluster://")) {
        return refuse(
            options->subcommand,
            "--map needs a URL that begins with redis-sentinel://, "
            "rediss-sentinel://, redis-cluster:// or rediss-cluster://" OR_VALKEY);
    }
    return CONTINUE;
}

/* Only one secret can be the first line of the standard input. */
static int check_standard_input(const struct options *options)
{
    const char *files[] = {options->password_file, options->sentinel_password_file,
                           options->token_file};
    const char *names[] = {"--password-file", "--sentinel-password-file",
                           options->subcommand == RELEASE ? "TOKEN" : "--token"};
    const char *first = NULL;

    for (int i = 0; i < 3; i++) {
        if (files[i] == NULL || strcmp(files[i], "-") != 0) {
            continue;
        }
        if (first != NULL) {
            return refuse(options->subcommand,
                          "only one of %s and %s can be the standard input (-)", first,
                          names[i]);
        }
        first = names[i];
    }
    return CONTINUE;
}

static void format_guard(int64_t guard_ms, char *text, size_t size)
{
    if (guard_ms == LW_GUARD_NONE) {
        (void)snprintf(text, size, "none");
    } else {
        (void)snprintf(text, size, "%" PRId64 "ms", guard_ms);
    }
}

/* Takes the guard of the URL, if there is no --guard. */
static int merge_guard(uint32_t url_ms, struct options *options)
{
    char given[24], in_url[24];

    if (options->guard_ms == 0) {
        options->guard_ms = url_ms;
        options->guard_in_url = url_ms != 0;
    } else if (url_ms != 0 && url_ms != options->guard_ms) {
        format_guard(options->guard_ms, given, sizeof(given));
        format_guard(url_ms, in_url, sizeof(in_url));
        return refuse(options->subcommand,
                      "--guard %s differs from guard=%s in the URL: use the same, or one "
                      "of the two",
                      given, in_url);
    }
    return CONTINUE;
}

/* Returns true for a subcommand that has no default server: two hosts with a server each
 * would both hold the lock. */
static bool needs_url(enum subcommand subcommand)
{
    return (IN(subcommand) & (TAKERS | IN(RELEASE))) != 0;
}

/* Takes the prefix of the URL, if there is no --prefix. */
static int merge_prefix(const char *in_url, struct options *options)
{
    char why[LW_WHY_SIZE];

    if (in_url == NULL || strcmp(in_url, options->prefix) == 0) {
        return CONTINUE;
    }
    if (*options->prefix != '\0') {
        return refuse(options->subcommand,
                      "--prefix %s differs from prefix=%s in the URL: use the same, or "
                      "one of the two",
                      options->prefix, in_url);
    }
    if (lw__check_prefix(in_url, why, sizeof(why)) != NULL) {
        report("%s", why);
        return EXIT_USAGE;
    }
    (void)snprintf(options->prefix, sizeof(options->prefix), "%s", in_url);
    return CONTINUE;
}

/* Chooses the URL, and parses it as the library does, so that an invalid one ends the
 * command before there is a client. */
static int check_url(struct options *options)
{
    const char *environment = getenv("LOCKWIRE_URL");
    struct lw__url url = {.db = -1};
    char why[LW_WHY_SIZE];
    int status, result;

    if (options->url == NULL && environment != NULL && *environment == '\0') {
        return refuse(
            options->subcommand,
            "%s: LOCKWIRE_URL is empty: set it to the URL of the server, or use "
            "--redis URL",
            usage_names[options->subcommand]);
    }
    if (options->url == NULL) {
        options->url = environment;
    }
    if (options->url == NULL && needs_url(options->subcommand)) {
        return CONTINUE; /* check_server refuses it, after what else may be wrong */
    }
    if (options->url == NULL) {
        options->url = DEFAULT_URL;
    }
    options->embedded = strncmp(options->url, EMBEDDED, strlen(EMBEDDED)) == 0;
    if (options->embedded) {
        return CONTINUE;
    }
    status = lw__url_parse(options->url, &url, why, sizeof(why));
    if (status != 0) {
        report("%s", why);
        return exit_code_for(status, LW_OK, EXIT_BUSY);
    }
    options->quorum = url.quorum;
    result = merge_guard(url.guard_ms, options);
    if (result == CONTINUE) {
        result = merge_prefix(url.prefix, options);
    }
    if (result == CONTINUE && url.cluster && options->guard_ms != 0 &&
        options->guard_ms != LW_GUARD_NONE) {
        result = refuse(options->subcommand, "a guard is not supported in a cluster");
    }
    lw__url_clear(&url);
    return result;
}

/* A subcommand that asks a single server. (status, list, yield and break ask each server
 * of a quorum.) */
static bool needs_single(enum subcommand subcommand)
{
    return subcommand == WATCH || subcommand == RELEASE;
}

static int check_server(struct options *options)
{
    int result;

    if (options->url == NULL) {
        return refuse(options->subcommand,
                      "%s: no server is given: use --redis URL, or set LOCKWIRE_URL (the "
                      "server of this host is " DEFAULT_URL ")",
                      usage_names[options->subcommand]);
    }
    if (options->embedded && options->url[strlen(EMBEDDED)]) {
        return refuse(
            options->subcommand,
            "'%s': \"" EMBEDDED "\" takes no directory; to share a temporary server, run "
            "other commands inside `lockwire run NAME --redis embedded: -- bash`, which "
            "sets LOCKWIRE_URL, or start `redis-server --unixsocket FILE` and use "
            "--redis unix://FILE",
            options->url);
    }
    if (options->embedded &&
        (options->subcommand == TAKE || options->subcommand == RELEASE)) {
        return refuse(options->subcommand,
                      "%s: an " EMBEDDED " server, and all its locks, end with lockwire",
                      usage_names[options->subcommand]);
    }
    if (options->subcommand == TAKE && options->quorum) {
        return refuse(options->subcommand,
                      "take: a lock of a quorum cannot outlive the process");
    }
    if (needs_single(options->subcommand) && options->quorum) {
        return refuse(options->subcommand,
                      "%s: not supported by a quorum; ask each server by its own URL",
                      usage_names[options->subcommand]);
    }
    if (options->embedded && options->password_file != NULL) {
        return refuse(options->subcommand, "--password-file cannot be used with " EMBEDDED
                                           ", whose server has no password");
    }
    result = check_sentinel(options);
    if (result == CONTINUE) {
        result = check_map(options);
    }
    if (result == CONTINUE) {
        result = check_standard_input(options);
    }
    return result == CONTINUE ? check_tls(options) : result;
}

/* Returns the time for which a granted lock is held at least. */
static int64_t shortest_hold(const struct options *options)
{
    return options->max_hold_ms > 0 && options->max_hold_ms < options->lease_ms
               ? options->max_hold_ms
               : options->lease_ms;
}

/* With --max-hold a lease beyond its end would only delay other clients if the release
 * fails. The lease exceeds it a little, so that --max-hold ends first. */
static uint32_t shortest_lease(const struct options *options)
{
    int64_t enough = options->max_hold_ms + options->max_hold_ms / 10 + MIN_LEASE_MS;

    return options->max_hold_ms > 0 && enough < options->lease_ms ? (uint32_t)enough
                                                                  : options->lease_ms;
}

/* After a loss SIGTERM, the grace time and SIGKILL must end before the lease or
 * --max-hold does: their time is the margin, which is less than half of it. */
static int check_times(struct options *options)
{
    int64_t hold = shortest_hold(options);
    int64_t kill = hold / 20 < KILL_MS ? hold / 20 : KILL_MS;
    int64_t most = (hold - 1) / 2 - kill, least;
    const char *option = hold < options->lease_ms ? "--max-hold" : "--lease";

    if (options->grace_ms < 0) {
        options->grace_ms = hold / 4 < DEFAULT_GRACE_MS ? hold / 4 : DEFAULT_GRACE_MS;
    }
    options->margin_ms = options->grace_ms + kill;
    if (options->grace_ms <= most) {
        options->lease_ms = shortest_lease(options);
        return CONTINUE;
    }
    least = 2 * (options->grace_ms + KILL_MS) + 1;
    return refuse(options->subcommand,
                  "--grace %" PRId64 "ms does not fit into %s %" PRId64
                  "ms: use %s %" PRId64 "ms or more, or --grace %" PRId64 "ms or less",
                  options->grace_ms, option, hold, option, least, most);
}

/* A lease may not outlast the guard time, less what an old master may grant for. */
static int check_guard(const struct options *options)
{
    int64_t most = options->guard_ms - GUARD_SPARE_MS;
    const char *guard = options->guard_in_url ? "guard=" : "--guard ";
    bool lease = options->lease_ms > most;

    if (options->guard_ms == 0 || options->guard_ms == LW_GUARD_NONE) {
        return CONTINUE;
    }
    if (options->mode == LW_REDISSON) {
        return refuse(options->subcommand, "--redisson cannot be used with a guard");
    }
    if (lease || options->at_least_ms > most) {
        const char *option = lease ? "--lease" : "--at-least";
        int64_t ms = lease ? options->lease_ms : options->at_least_ms;

        return refuse(options->subcommand,
                      "%s %" PRId64 "ms is too long for %s%" PRId64 "ms: use %s %" PRId64
                      "ms or less, or %s%" PRId64 "ms or more",
                      option, ms, guard, options->guard_ms, option, most, guard,
                      ms + GUARD_SPARE_MS);
    }
    return CONTINUE;
}

static int check_at_least(const struct options *options)
{
    if (options->at_least_ms > 0 && options->mode == LW_REDISSON) {
        return refuse(options->subcommand, "--at-least is not for --redisson");
    }
    if (options->max_hold_ms > 0 && options->at_least_ms > options->max_hold_ms) {
        return refuse(options->subcommand,
                      "--at-least %" PRId64 "ms is longer than --max-hold %" PRId64 "ms",
                      options->at_least_ms, options->max_hold_ms);
    }
    return CONTINUE;
}

static bool has_token(const struct options *options)
{
    return options->token != NULL || options->token_file != NULL;
}

static int check_token(const struct options *options)
{
    if (!has_token(options)) {
        return CONTINUE;
    }
    if (options->mode == LW_REDISSON) {
        return refuse(options->subcommand, "--token is not for --redisson");
    }
    if (options->more_count > 0) {
        return refuse(options->subcommand, "--token and --and exclude each other");
    }
    return CONTINUE;
}

static int check_more_names(const struct options *options)
{
    if (options->more_count > 0 && options->mode != LW_MUTEX) {
        return refuse(options->subcommand,
                      "--and is for mutexes only, not for --exclusive, --shared or "
                      "--redisson");
    }
    for (int i = 0; i < options->more_count; i++) {
        for (int j = -1; j < i; j++) {
            const char *other = j < 0 ? options->name : options->more_names[j];

            if (strcmp(options->more_names[i], other) == 0) {
                return refuse(options->subcommand, "--and: '%s' is given twice", other);
            }
        }
    }
    return CONTINUE;
}

static int check_holding(struct options *options)
{
    if (options->owner != NULL && options->mode != LW_EXCLUSIVE &&
        options->mode != LW_SHARED) {
        return refuse(options->subcommand, "--owner needs --exclusive or --shared");
    }
    if (options->permits && options->mode != LW_SHARED) {
        return refuse(options->subcommand, "--permits needs --shared");
    }
    if (options->max_waiting > 0 && options->mode == LW_REDISSON) {
        return refuse(options->subcommand,
                      "--max-waiting is not for --redisson, which has no queue");
    }
    if (options->note != NULL && options->mode == LW_REDISSON) {
        return refuse(options->subcommand, "--note is not for --redisson");
    }
    if (options->on_lost != NULL && *options->on_lost == '\0') {
        return refuse(options->subcommand, "--on-lost is empty");
    }
    if (options->on_yield != NULL && *options->on_yield == '\0') {
        return refuse(options->subcommand, "--on-yield is empty");
    }
    if (check_more_names(options) != CONTINUE || check_guard(options) != CONTINUE ||
        check_at_least(options) != CONTINUE || check_token(options) != CONTINUE) {
        return EXIT_USAGE;
    }
    return options->subcommand == TAKE ? CONTINUE : check_times(options);
}

static int check_command(char **words, int count, struct options *options)
{
    const char *subcommand = usage_names[options->subcommand];

    if (count == 0) {
        return refuse(options->subcommand,
                      "%s: the COMMAND to run is missing; the NAME is '%s'", subcommand,
                      options->name);
    }
    if (strcmp(words[0], "--") == 0) {
        return refuse(options->subcommand,
                      "%s: unexpected second \"--\" in place of COMMAND", subcommand);
    }
    options->command = words;
    return check_holding(options);
}

static int check_alone(char **words, int count, const struct options *options)
{
    if (options->subcommand == RELEASE && !has_token(options)) {
        return refuse(RELEASE, "release: the TOKEN is missing");
    }
    if (count > 0) {
        return refuse(options->subcommand, "%s: unexpected argument '%s' after %s",
                      usage_names[options->subcommand], words[0],
                      options->subcommand == LIST      ? "PATTERN"
                      : options->subcommand == RELEASE ? "TOKEN"
                                                       : "NAME");
    }
    if (options->subcommand == LIST && options->name != NULL && *options->name == '\0') {
        return refuse(LIST, "PATTERN is empty");
    }
    return CONTINUE;
}

/* The library checks names as well, but only once there is a client. */
static int check_names(const struct options *options)
{
    char why[LW_WHY_SIZE];

    for (int i = -1; options->subcommand != LIST && i < options->more_count; i++) {
        const char *name = i < 0 ? options->name : options->more_names[i];

        if (name == NULL) { /* of doctor */
            continue;
        }
        if (lw__check_key(options->prefix, name, why, sizeof(why)) != NULL) {
            report("%s%s", i < 0 ? "" : "--and: ", why);
            return EXIT_USAGE;
        }
    }
    return CONTINUE;
}

/* ---- the command line ---- */

static int help(const char *text, struct options *options)
{
    (void)text;
    usage_help(stdout, options->subcommand);
    return report_flush() ? EXIT_SUCCESS : EXIT_SYSTEM;
}

#define TEXT(field) required_argument, NULL, offsetof(struct options, field)
#define FLAG(field) no_argument, NULL, offsetof(struct options, field)
#define PARSED(function) required_argument, function, 0
#define CALL(function) no_argument, function, 0

/* clang-format off */
static const struct spec {
    const char *name;
    char letter;
    unsigned subcommands; /* bits */
    int has_arg;
    int (*parse)(const char *text, struct options *options); /* NULL: sets the field */
    size_t field;
} specs[] = {
    {"and", '&', IN(RUN), PARSED(parse_and)},
    {"wait", 'w', WAITERS, PARSED(parse_wait)},
    {"nonblock", 'n', WAITERS, CALL(parse_nonblock)},
    {"nb", 'n', WAITERS, CALL(parse_nonblock)},
    {"conflict-exit-code", 'E', WAITERS, PARSED(parse_busy_code)},
    {"quiet", 'q', WAITERS, FLAG(quiet)},
    {"max-waiting", 'M', TAKERS, PARSED(parse_max_waiting)},
    {"lease", 'l', TAKERS, PARSED(parse_lease)},
    {"grace", 'g', HOLDERS, PARSED(parse_grace)},
    {"max-hold", 'm', HOLDERS, PARSED(parse_max_hold)},
    {"on-lost", 'O', HOLDERS, TEXT(on_lost)},
    {"on-yield", 'Y', HOLDERS, TEXT(on_yield)},
    {"keep-running", 'k', IN(RUN), FLAG(keep_running)},
    {"keep-trying", 'y', IN(LEAD), FLAG(keep_trying)},
    {"exclusive", 'x', TAKERS, CALL(parse_exclusive)},
    {"shared", 's', TAKERS, CALL(parse_shared)},
    {"redisson", 'J', HOLDERS, CALL(parse_redisson)},
    /* the abbreviations of --redis, although there is --redisson */
    {"r", 'r', HOLDERS, TEXT(url)},
    {"re", 'r', HOLDERS, TEXT(url)},
    {"red", 'r', HOLDERS, TEXT(url)},
    {"redi", 'r', HOLDERS, TEXT(url)},
    /* those of --nonblock, --and, --grace, --max-hold, --owner, --on-lost, --key and
     * --conflict-exit-code, likewise */
    {"n", 'n', WAITERS, CALL(parse_nonblock)},
    {"no", 'n', WAITERS, CALL(parse_nonblock)},
    {"a", '&', IN(RUN), PARSED(parse_and)},
    {"g", 'g', HOLDERS, PARSED(parse_grace)},
    {"m", 'm', HOLDERS, PARSED(parse_max_hold)},
    {"ma", 'm', HOLDERS, PARSED(parse_max_hold)},
    {"max", 'm', HOLDERS, PARSED(parse_max_hold)},
    {"max-", 'm', HOLDERS, PARSED(parse_max_hold)},
    {"o", 'o', HOLDERS, TEXT(owner)},
    {"on", 'O', HOLDERS, TEXT(on_lost)},
    {"on-", 'O', HOLDERS, TEXT(on_lost)},
    {"k", 'K', IN(RUN) | IN(LEAD), TEXT(tls_key)},
    {"ke", 'K', IN(RUN) | IN(LEAD), TEXT(tls_key)},
    {"co", 'E', WAITERS, PARSED(parse_busy_code)},
    {"con", 'E', WAITERS, PARSED(parse_busy_code)},
    {"p", 'P', ALL & ~TAKERS, TEXT(password_file)},
    {"owner", 'o', TAKERS, TEXT(owner)},
    {"permits", 'p', TAKERS, PARSED(parse_permits)},
    {"note", 'N', TAKERS, PARSED(parse_note)},
    {"no-identity", 'I', TAKERS, FLAG(no_identity)},
    {"verbose", 'v', TAKERS, FLAG(verbose)},
    {"direct", 'd', IN(RUN) | IN(LEAD), FLAG(direct)},
    {"at-least", 'a', IN(RUN) | IN(LEAD), PARSED(parse_at_least)},
    {"json", 'j', IN(TAKE) | IN(STATUS) | IN(WATCH) | IN(LIST) | IN(DOCTOR),
     FLAG(json)},
    {"wide", 'W', IN(STATUS) | IN(LIST), FLAG(wide)},
    {"token", 't', IN(RUN) | IN(TAKE) | IN(BREAK), PARSED(parse_token)},
    {"foreign", 'f', IN(BREAK), FLAG(foreign)},
    {"interval", 'i', IN(WATCH), PARSED(parse_interval)},
    {"redis", 'r', ALL, TEXT(url)},
    {"connect-timeout", 'c', ALL, PARSED(parse_connect_timeout)},
    {"password-file", 'P', ALL, TEXT(password_file)},
    {"sentinel-user", 'u', ALL, TEXT(sentinel_user)},
    {"sentinel-password-file", 'R', ALL, TEXT(sentinel_password_file)},
    {"cacert", 'A', ALL, TEXT(tls_ca)},
    {"cert", 'C', ALL, TEXT(tls_cert)},
    {"key", 'K', ALL, TEXT(tls_key)},
    {"sni", 'S', ALL, TEXT(tls_server_name)},
    {"map", 'T', ALL, PARSED(parse_map)},
    {"guard", 'G', ALL, PARSED(parse_guard)},
    {"prefix", 'Q', ALL, PARSED(parse_prefix)},
    {"help", 'H', ALL, CALL(help)},
};
/* clang-format on */
#define SPECS (sizeof(specs) / sizeof(*specs))

/* `ret` has SPECS + 1 elements. */
static void make_long_options(enum subcommand subcommand, struct option *ret)
{
    for (size_t i = 0; i < SPECS; i++) {
        if (specs[i].subcommands & IN(subcommand)) {
            *ret++ =
                (struct option){specs[i].name, specs[i].has_arg, NULL, specs[i].letter};
        }
    }
    *ret = (struct option){NULL, 0, NULL, 0};
}

/* Returns true for an entry that is there only so that its name remains unambiguous. */
static bool is_abbreviation(const struct spec *spec)
{
    for (size_t i = 0; i < SPECS; i++) {
        if (specs[i].letter == spec->letter &&
            strlen(specs[i].name) > strlen(spec->name) &&
            strncmp(specs[i].name, spec->name, strlen(spec->name)) == 0) {
            return true;
        }
    }
    return false;
}

/* Refuses an option that is unknown, or begins the names of several. */
static int refuse_option(enum subcommand subcommand, const char *word)
{
    size_t length = strncmp(word, "--", 2) == 0 ? strcspn(word + 2, "=") : 0;
    struct nearest nearest = {"", 0};
    char names[200] = "";

    for (size_t i = 0; length > 0 && i < SPECS; i++) {
        size_t used = strlen(names);

        if ((specs[i].subcommands & IN(subcommand)) == 0 || is_abbreviation(&specs[i])) {
            continue;
        }
        nearest_compare(word + 2, length, specs[i].name, &nearest);
        if (strlen(specs[i].name) > length &&
            strncmp(specs[i].name, word + 2, length) == 0) {
            (void)snprintf(names + used, sizeof(names) - used, "%s--%s",
                           used > 0 ? " or " : "", specs[i].name);
        }
    }
    return *names
               ? refuse(subcommand, "%s: ambiguous option %s: %s",
                        usage_names[subcommand], word, names)
               : refuse(subcommand,
                        "%s: unknown option %s%s%s%s (`lockwire %s --help` has a list)",
                        usage_names[subcommand], word,
                        *nearest.name ? "; did you mean --" : "", nearest.name,
                        *nearest.name ? "?" : "", usage_names[subcommand]);
}

/* `option` is as getopt_long has returned it, `word` as it was typed. */
static int parse_option(int option, const char *word, struct options *options)
{
    if (option == ':') {
        return refuse(options->subcommand, "%s needs a value", word);
    }
    if (option == '?' && strncmp(word, "--", 2) == 0 && optopt != 0) {
        return refuse(options->subcommand, "%.*s takes no value", (int)strcspn(word, "="),
                      word);
    }
    if (option == 'h') {
        usage_short_help(stdout, options->subcommand);
        return report_flush() ? EXIT_SUCCESS : EXIT_SYSTEM;
    }
    for (size_t i = 0; i < SPECS; i++) {
        void *field = (char *)options + specs[i].field;

        if (specs[i].letter != (option == 'e' ? 'x' : option)) {
            continue;
        }
        if (specs[i].parse != NULL) {
            return specs[i].parse(optarg, options);
        }
        if (specs[i].has_arg == required_argument) {
            *(const char **)field = optarg;
        } else {
            *(bool *)field = true;
        }
        return CONTINUE;
    }
    return refuse_option(options->subcommand, word);
}

static bool has_command(enum subcommand subcommand)
{
    return subcommand == RUN || subcommand == LEAD;
}

/* As flock(1) has them. */
static const char *short_options(enum subcommand subcommand)
{
    return IN(subcommand) & WAITERS ? "-:hsxenqw:E:"
           : subcommand == LEAD     ? "-:hsxe"
                                    : "-:h";
}

/* Returns the option that getopt_long has just read from this word. */
static const char *option_text(const char *word, char letter[3])
{
    if (strncmp(word, "--", 2) == 0) {
        return word;
    }
    letter[0] = '-';
    letter[1] = (char)optopt;
    letter[2] = '\0';
    return letter;
}

static int check_arguments(char **words, int count, struct options *options)
{
    int result = check_url(options); /* first: it may have the guard */

    if (result == CONTINUE) {
        result = has_command(options->subcommand) ? check_command(words, count, options)
                                                  : check_alone(words, count, options);
    }
    if (result == CONTINUE &&
        (options->subcommand == HOLD || options->subcommand == TAKE)) {
        result = check_holding(options);
    }
    if (result == CONTINUE) {
        result = check_server(options);
    }
    return result == CONTINUE ? check_names(options) : result;
}

/* Returns true if the next word is NAME, or TOKEN of release. */
static bool wants_word(const struct options *options)
{
    return options->name == NULL ||
           (options->subcommand == RELEASE && !has_token(options));
}

static int take_word(const char *word, struct options *options)
{
    if (options->name != NULL) {
        return parse_token(word, options);
    }
    options->name = word;
    return CONTINUE;
}

static int parse(int argc, char **argv, struct options *options)
{
    enum subcommand subcommand = options->subcommand;
    struct option long_options[SPECS + 1];
    int option, at = 1, result;
    char letter[3];

    make_long_options(subcommand, long_options);
    opterr = 0;
    while ((option = getopt_long(argc, argv, short_options(subcommand), long_options,
                                 NULL)) != -1) {
        if (option == 1 && !wants_word(options)) { /* the first word of COMMAND */
            optind--;
            break;
        }
        result = option == 1
                     ? take_word(optarg, options)
                     : parse_option(option, option_text(argv[at], letter), options);
        if (result != CONTINUE) {
            return result;
        }
        at = optind;
    }
    while (optind < argc && wants_word(options) &&
           !has_command(subcommand)) { /* after "--" */
        result = take_word(argv[optind++], options);
        if (result != CONTINUE) {
            return result;
        }
    }
    if (options->name == NULL && subcommand != LIST && subcommand != DOCTOR) {
        return refuse(subcommand, "%s: the lock's NAME is missing%s",
                      usage_names[subcommand], optind < argc ? " before \"--\"" : "");
    }
    return check_arguments(argv + optind, argc - optind, options);
}

/* Returns the subcommand of this name, or SUBCOMMANDS. */
static enum subcommand find_subcommand(const char *word)
{
    int ret = 0;

    while (ret < SUBCOMMANDS && strcmp(word, usage_names[ret]) != 0) {
        ret++;
    }
    return (enum subcommand)ret;
}

static int refuse_subcommand(const char *word)
{
    struct nearest nearest = {"", 0};

    if (*word == '-') {
        return refuse(SUBCOMMANDS, "the subcommand is missing before '%s'", word);
    }
    for (int i = 0; i < SUBCOMMANDS; i++) {
        nearest_compare(word, strlen(word), usage_names[i], &nearest);
    }
    return refuse(SUBCOMMANDS, "unknown subcommand '%s'%s%s%s", word,
                  *nearest.name ? "; did you mean " : "", nearest.name,
                  *nearest.name ? "?" : "");
}

int options_parse(int argc, char **argv, struct options *options)
{
    const char *word = argc > 1 ? argv[1] : "";
    bool asks_help = strcmp(word, "help") == 0;

    *options = (struct options){.lease_ms = DEFAULT_LEASE_MS,
                                .busy_code = EXIT_BUSY,
                                .wait_ms = -1,
                                .grace_ms = -1,
                                .interval_ms = DEFAULT_INTERVAL_MS};
    options->subcommand = find_subcommand(asks_help && argc > 2 ? argv[2] : word);
    options->connect_ms = options->subcommand == LEAD || options->subcommand == WATCH
                              ? 0
                              : DEFAULT_CONNECT_MS;
    if (asks_help && argc > 2 && options->subcommand == SUBCOMMANDS) {
        return refuse_subcommand(argv[2]);
    }
    if (asks_help || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        return help(NULL, options);
    }
    if (options->subcommand != SUBCOMMANDS) {
        return parse(argc - 1, argv + 1, options);
    }
    if (strcmp(word, "--version") != 0 && strcmp(word, "-V") != 0) {
        return *word ? refuse_subcommand(word)
                     : refuse(SUBCOMMANDS, "the subcommand is missing");
    }
    (void)printf("lockwire %s (library %s)\n", LW_VERSION, lw_version());
    return report_flush() ? EXIT_SUCCESS : EXIT_SYSTEM;
}

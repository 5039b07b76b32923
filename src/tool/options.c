/* SPDX-License-Identifier: MIT */
/* See options.h. Options may stand before and after NAME. The command begins after "--"
 * or with the first word after NAME, and its own options are left alone. */
#include "options.h"

#include "duration.h"
#include "report.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CONTINUE (-1)
#define MIN_LEASE_MS 100
#define KILL_MS 500 /* from SIGKILL to the end of the lease; of a short lease a part */
/* The longest lease has room for it. */
#define MAX_GRACE_MS (INT32_MAX / 2 - 2 * KILL_MS)
#define MIN_INTERVAL_MS 10

int refuse(enum subcommand subcommand, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fputs("lockwire: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputs("\n", stderr);
    va_end(args);
    usage_brief(stderr, subcommand);
    return EXIT_USAGE;
}

static int parse_time(const struct options *options, const char *option, const char *text,
                      int64_t *ms)
{
    char why[200];

    if (duration_parse(text, ms, why, sizeof(why)) < 0) {
        return refuse(options->subcommand, "%s %s", option, why);
    }
    return CONTINUE;
}

/* A number and nothing else, at most `most`. */
static bool parse_number(const char *text, unsigned long most, unsigned long *number)
{
    char *end;

    if (*text < '0' || *text > '9') {
        return false;
    }
    *number = strtoul(text, &end, 10);
    return *end == '\0' && *number <= most;
}

int parse_wait(const char *text, struct options *options)
{
    if (strcmp(text, "forever") != 0) {
        return parse_time(options, "--wait", text, &options->wait_ms);
    }
    options->wait_ms = -1;
    return CONTINUE;
}

int parse_lease(const char *text, struct options *options)
{
    int64_t lease = 0;
    int result = parse_time(options, "--lease", text, &lease);

    if (result != CONTINUE) {
        return result;
    }
    if (lease < MIN_LEASE_MS || lease > INT32_MAX) {
        return refuse(options->subcommand, "--lease '%s': must be between 100ms and 596h",
                      text);
    }
    options->lease_ms = (uint32_t)lease;
    return CONTINUE;
}

int parse_grace(const char *text, struct options *options)
{
    int result = parse_time(options, "--grace", text, &options->grace_ms);

    if (result == CONTINUE && options->grace_ms > MAX_GRACE_MS) {
        return refuse(options->subcommand, "--grace '%s': must be at most 298h", text);
    }
    return result;
}

int parse_max_hold(const char *text, struct options *options)
{
    int result = parse_time(options, "--max-hold", text, &options->max_hold_ms);

    if (result == CONTINUE && options->max_hold_ms < MIN_LEASE_MS) {
        return refuse(options->subcommand, "--max-hold '%s': must be at least 100ms",
                      text);
    }
    return result;
}

int parse_mode(enum lw_mode mode, struct options *options)
{
    if (options->mode != LW_MUTEX && options->mode != mode) {
        return refuse(options->subcommand,
                      "--exclusive, --shared and --redisson exclude each other");
    }
    options->mode = mode;
    return CONTINUE;
}

int parse_permits(const char *text, struct options *options)
{
    unsigned long number;

    if (!parse_number(text, INT32_MAX, &number) || number < 1) {
        return refuse(options->subcommand,
                      "--permits '%s': must be a number from 1 to 2147483647", text);
    }
    options->permits = (uint32_t)number;
    return CONTINUE;
}

int parse_busy_code(const char *text, struct options *options)
{
    unsigned long number;

    if (!parse_number(text, UINT8_MAX, &number)) {
        return refuse(options->subcommand,
                      "--conflict-exit-code '%s': must be a number from 0 to 255", text);
    }
    options->busy_code = (int)number;
    return CONTINUE;
}

int parse_and(const char *text, struct options *options)
{
    if (options->more_count == MAX_MORE_NAMES) {
        return refuse(options->subcommand,
                      "--and '%s': at most %d locks are acquired together", text,
                      MAX_MORE_NAMES + 1);
    }
    options->more_names[options->more_count++] = text;
    return CONTINUE;
}

int parse_interval(const char *text, struct options *options)
{
    int result = parse_time(options, "--interval", text, &options->interval_ms);

    if (result == CONTINUE &&
        (options->interval_ms < MIN_INTERVAL_MS || options->interval_ms > INT32_MAX)) {
        return refuse(options->subcommand,
                      "--interval '%s': must be between 10ms and 596h", text);
    }
    return result;
}

#define EMBEDDED "embedded:"
#define DEFAULT_GRACE_MS 5000

/* The first of the options for rediss:// that was given; NULL: none. */
static const char *tls_option(const struct options *options)
{
    return options->tls_ca != NULL            ? "--cacert"
           : options->tls_cert != NULL        ? "--cert"
           : options->tls_key != NULL         ? "--key"
           : options->tls_server_name != NULL ? "--sni"
                                              : NULL;
}

static bool begins(const char *url, const char *scheme)
{
    return strncasecmp(url, scheme, strlen(scheme)) == 0;
}

static int check_sentinel(const struct options *options)
{
    const char *user = options->sentinel_user, *file = options->sentinel_password_file;
    const char *option = user != NULL   ? "--sentinel-user"
                         : file != NULL ? "--sentinel-password-file"
                                        : NULL;

    if (option != NULL && !begins(options->url, "redis-sentinel://") &&
        !begins(options->url, "rediss-sentinel://")) {
        return refuse(options->subcommand,
                      "%s needs a URL that begins with redis-sentinel:// or "
                      "rediss-sentinel://",
                      option);
    }
    if (user != NULL && file == NULL) {
        return refuse(options->subcommand,
                      "--sentinel-user needs --sentinel-password-file");
    }
    if (file != NULL && strcmp(file, "-") == 0 && options->password_file != NULL &&
        strcmp(options->password_file, "-") == 0) {
        return refuse(options->subcommand,
                      "--password-file and --sentinel-password-file: only one of them "
                      "can be the standard input (-)");
    }
    return CONTINUE;
}

static int check_tls(const struct options *options)
{
    if (tls_option(options) != NULL && !begins(options->url, "rediss")) {
        return refuse(options->subcommand,
                      "%s needs a URL that begins with rediss://, rediss-sentinel:// or "
                      "rediss-cluster://",
                      tls_option(options));
    }
    if ((options->tls_cert != NULL) != (options->tls_key != NULL)) {
        return refuse(options->subcommand, "--cert and --key need each other");
    }
    return CONTINUE;
}

int check_server(struct options *options)
{
    const char *environment = getenv("LOCKWIRE_URL");
    int result;

    if (options->url == NULL) {
        options->url = environment != NULL && *environment ? environment : DEFAULT_URL;
    }
    options->embedded = strncmp(options->url, EMBEDDED, strlen(EMBEDDED)) == 0;
    if (options->embedded && options->url[strlen(EMBEDDED)]) {
        return refuse(
            options->subcommand,
            "'%s': \"" EMBEDDED "\" takes no directory. To share a temporary server, run "
            "other commands in `lockwire run NAME --redis embedded: -- bash`, where "
            "LOCKWIRE_URL is its URL; or start redis-server --unixsocket FILE, and write "
            "--redis unix://FILE",
            options->url);
    }
    if (options->embedded && options->password_file != NULL) {
        return refuse(options->subcommand,
                      "--password-file: the server of %s has no password", EMBEDDED);
    }
    result = check_sentinel(options);
    return result == CONTINUE ? check_tls(options) : result;
}

/* The time that is surely there once the lock is granted. */
static int64_t shortest_hold(const struct options *options)
{
    return options->max_hold_ms > 0 && options->max_hold_ms < options->lease_ms
               ? options->max_hold_ms
               : options->lease_ms;
}

/* A hold that ends by itself needs no lease beyond its end, which would keep others out
 * where nothing is given back; but a little, so that the end comes first. */
static uint32_t shortest_lease(const struct options *options)
{
    int64_t enough = options->max_hold_ms + options->max_hold_ms / 10 + MIN_LEASE_MS;

    return options->max_hold_ms > 0 && enough < options->lease_ms ? (uint32_t)enough
                                                                  : options->lease_ms;
}

/*
 * If the lock is lost, SIGTERM, the grace time and SIGKILL have to come to their end
 * while the lease is still ours: they are the margin of the hold, and a margin is below
 * half the lease. Of a hold that has an end of its own before that: likewise.
 */
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
                  "a %s of %" PRId64 "ms is too short for a --grace of %" PRId64
                  "ms, which must be over before it is: a %s of %" PRId64
                  "ms would do, or a grace of %" PRId64 "ms",
                  option, hold, options->grace_ms, option + 2, least, most);
}

static int check_more_names(const struct options *options)
{
    if (options->more_count > 0 && options->mode != LW_MUTEX) {
        return refuse(options->subcommand,
                      "--and is for mutexes, not for --exclusive, --shared or "
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

int check_holding(struct options *options)
{
    if (options->owner != NULL && options->mode != LW_EXCLUSIVE &&
        options->mode != LW_SHARED) {
        return refuse(options->subcommand, "--owner needs --exclusive or --shared");
    }
    if (options->permits && options->mode != LW_SHARED) {
        return refuse(options->subcommand, "--permits needs --shared");
    }
    if (check_more_names(options) != CONTINUE) {
        return EXIT_USAGE;
    }
    return check_times(options);
}

int check_command(char **words, int count, struct options *options)
{
    const char *subcommand = usage_names[options->subcommand];

    if (count == 0) {
        return refuse(options->subcommand, "%s: the COMMAND to run is missing",
                      subcommand);
    }
    if (strcmp(words[0], "--") == 0) {
        return refuse(options->subcommand,
                      "%s: a second \"--\" stands where COMMAND should begin",
                      subcommand);
    }
    options->command = words;
    return check_holding(options);
}

int check_alone(char **words, int count, const struct options *options)
{
    if (count > 0) {
        return refuse(options->subcommand, "'%s': there is one %s only", words[0],
                      options->subcommand == LIST ? "PATTERN" : "NAME");
    }
    if (options->subcommand == LIST && options->name != NULL && *options->name == '\0') {
        return refuse(LIST, "PATTERN is empty");
    }
    if (options->token != NULL && *options->token == '\0') {
        return refuse(options->subcommand, "--token is empty");
    }
    return CONTINUE;
}

#define DEFAULT_LEASE_MS 30000
#define DEFAULT_INTERVAL_MS 1000

/* A long text is written in parts, of which the first ones may have failed. */
static bool all_written(void)
{
    return fflush(stdout) == 0 && !ferror(stdout);
}

static int help(enum subcommand subcommand)
{
    usage_help(stdout, subcommand);
    return all_written() ? EXIT_SUCCESS : EXIT_SYSTEM;
}

/* word: as it was typed, or the one letter of several that stand together. */
static int parse_option(int option, const char *word, struct options *options)
{
    switch (option) {
    case 'l':
        return parse_lease(optarg, options);
    case 'w':
        return parse_wait(optarg, options);
    case 'n':
        options->wait_ms = 0;
        return CONTINUE;
    case 'E':
        return parse_busy_code(optarg, options);
    case 'g':
        return parse_grace(optarg, options);
    case 'm':
        return parse_max_hold(optarg, options);
    case 'd':
        options->direct = true;
        return CONTINUE;
    case 'v':
        options->verbose = true;
        return CONTINUE;
    case 'e':
    case 'x':
        return parse_mode(LW_EXCLUSIVE, options);
    case 's':
        return parse_mode(LW_SHARED, options);
    case 'J':
        return parse_mode(LW_REDISSON, options);
    case '&':
        return parse_and(optarg, options);
    case 'o':
        options->owner = optarg;
        return CONTINUE;
    case 'p':
        return parse_permits(optarg, options);
    case 'j':
        options->json = true;
        return CONTINUE;
    case 'W':
        options->wide = true;
        return CONTINUE;
    case 't':
        options->token = optarg;
        return CONTINUE;
    case 'f':
        options->foreign = true;
        return CONTINUE;
    case 'i':
        return parse_interval(optarg, options);
    case 'r':
        options->url = optarg;
        return CONTINUE;
    case 'P':
        options->password_file = optarg;
        return CONTINUE;
    case 'u':
        options->sentinel_user = optarg;
        return CONTINUE;
    case 'R':
        options->sentinel_password_file = optarg;
        return CONTINUE;
    case 'A':
        options->tls_ca = optarg;
        return CONTINUE;
    case 'C':
        options->tls_cert = optarg;
        return CONTINUE;
    case 'K':
        options->tls_key = optarg;
        return CONTINUE;
    case 'S':
        options->tls_server_name = optarg;
        return CONTINUE;
    case 'h':
        return help(options->subcommand);
    case ':':
        return refuse(options->subcommand, "%s needs a value", word);
    default:
        return refuse(options->subcommand, "%s: no such option, or an ambiguous one",
                      word);
    }
}

#define COMMON                                                                           \
    {"redis", required_argument, NULL, 'r'},                                             \
        {"password-file", required_argument, NULL, 'P'},                                 \
        {"sentinel-user", required_argument, NULL, 'u'},                                 \
        {"sentinel-password-file", required_argument, NULL, 'R'},                        \
        {"cacert", required_argument, NULL, 'A'},                                        \
        {"cert", required_argument, NULL, 'C'}, {"key", required_argument, NULL, 'K'},   \
        {"sni", required_argument, NULL, 'S'},                                           \
    {                                                                                    \
        "help", no_argument, NULL, 'h'                                                   \
    }

/* "r" and so on: what --redis could be shortened to, beside --redisson. */
#define HOLDING                                                                          \
    {"lease", required_argument, NULL, 'l'}, {"grace", required_argument, NULL, 'g'},    \
        {"max-hold", required_argument, NULL, 'm'},                                      \
        {"exclusive", no_argument, NULL, 'x'}, {"shared", no_argument, NULL, 's'},       \
        {"redisson", no_argument, NULL, 'J'}, {"r", required_argument, NULL, 'r'},       \
        {"re", required_argument, NULL, 'r'}, {"red", required_argument, NULL, 'r'},     \
        {"redi", required_argument, NULL, 'r'}, {"owner", required_argument, NULL, 'o'}, \
        {"permits", required_argument, NULL, 'p'},                                       \
    {                                                                                    \
        "verbose", no_argument, NULL, 'v'                                                \
    }
#define WAITING                                                                          \
    {"wait", required_argument, NULL, 'w'}, {"nonblock", no_argument, NULL, 'n'},        \
        {"nb", no_argument, NULL, 'n'},                                                  \
    {                                                                                    \
        "conflict-exit-code", required_argument, NULL, 'E'                               \
    }
#define WORKING                                                                          \
    {                                                                                    \
        "direct", no_argument, NULL, 'd'                                                 \
    }

static const struct option run_options[] = {{"and", required_argument, NULL, '&'},
                                            WAITING,
                                            HOLDING,
                                            WORKING,
                                            COMMON,
                                            {NULL, 0, NULL, 0}};
static const struct option lead_options[] = {
    HOLDING, WORKING, COMMON, {NULL, 0, NULL, 0}};
static const struct option hold_options[] = {
    WAITING, HOLDING, COMMON, {NULL, 0, NULL, 0}};
static const struct option status_options[] = {{"json", no_argument, NULL, 'j'},
                                               {"wide", no_argument, NULL, 'W'},
                                               COMMON,
                                               {NULL, 0, NULL, 0}};
static const struct option break_options[] = {{"token", required_argument, NULL, 't'},
                                              {"foreign", no_argument, NULL, 'f'},
                                              COMMON,
                                              {NULL, 0, NULL, 0}};
static const struct option watch_options[] = {{"interval", required_argument, NULL, 'i'},
                                              {"json", no_argument, NULL, 'j'},
                                              COMMON,
                                              {NULL, 0, NULL, 0}};

static const struct option list_options[] = {{"json", no_argument, NULL, 'j'},
                                             {"wide", no_argument, NULL, 'W'},
                                             COMMON,
                                             {NULL, 0, NULL, 0}};

static const struct option *const option_tables[SUBCOMMANDS] = {
    [RUN] = run_options,       [LEAD] = lead_options,   [HOLD] = hold_options,
    [STATUS] = status_options, [BREAK] = break_options, [WATCH] = watch_options,
    [LIST] = list_options,
};

static bool has_command(enum subcommand subcommand)
{
    return subcommand == RUN || subcommand == LEAD;
}

/* Those of flock(1). */
static const char *short_options(enum subcommand subcommand)
{
    return subcommand == RUN || subcommand == HOLD ? "-:hsxenw:E:"
           : subcommand == LEAD                    ? "-:hsxe"
                                                   : "-:h";
}

/* What getopt_long has just read of this word. */
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
    int result = has_command(options->subcommand) ? check_command(words, count, options)
                                                  : check_alone(words, count, options);

    if (result == CONTINUE && options->subcommand == HOLD) {
        result = check_holding(options);
    }
    return result == CONTINUE ? check_server(options) : result;
}

static int parse(int argc, char **argv, struct options *options)
{
    enum subcommand subcommand = options->subcommand;
    int option, at = 1, result;
    char letter[3];

    opterr = 0;
    while ((option = getopt_long(argc, argv, short_options(subcommand),
                                 option_tables[subcommand], NULL)) != -1) {
        if (option == 1 && options->name != NULL) { /* the program's first word */
            optind--;
            break;
        }
        if (option == 1) {
            options->name = optarg;
        } else {
            result = parse_option(option, option_text(argv[at], letter), options);
            if (result != CONTINUE) {
                return result;
            }
        }
        at = optind;
    }
    if (options->name == NULL && optind < argc) {
        options->name = argv[optind++];
    }
    if (options->name == NULL && subcommand != LIST) {
        return refuse(subcommand, "%s: the lock's NAME is missing",
                      usage_names[subcommand]);
    }
    return check_arguments(argv + optind, argc - optind, options);
}

void options_configure_client(const struct options *options,
                              struct lw_client_options *client)
{
    client->password = options->password;
    client->sentinel_username = options->sentinel_user;
    client->sentinel_password = options->sentinel_password;
    client->tls_ca = options->tls_ca;
    client->tls_cert = options->tls_cert;
    client->tls_key = options->tls_key;
    client->tls_server_name = options->tls_server_name;
}

int options_parse(int argc, char **argv, struct options *options)
{
    const char *what = argc > 1 ? argv[1] : "";

    *options = (struct options){.lease_ms = DEFAULT_LEASE_MS,
                                .busy_code = EXIT_BUSY,
                                .wait_ms = -1,
                                .grace_ms = -1,
                                .interval_ms = DEFAULT_INTERVAL_MS};
    for (int i = 0; i < SUBCOMMANDS; i++) {
        options->subcommand = (enum subcommand)i;
        if (strcmp(what, usage_names[i]) == 0) {
            return parse(argc - 1, argv + 1, options);
        }
    }
    if (strcmp(what, "--help") == 0 || strcmp(what, "-h") == 0) {
        return help(SUBCOMMANDS);
    }
    if (strcmp(what, "--version") != 0 && strcmp(what, "-V") != 0) {
        return *what ? refuse(SUBCOMMANDS, "'%s': no such subcommand", what)
                     : refuse(SUBCOMMANDS, "a subcommand is missing");
    }
    (void)printf("lockwire %s (library %s)\n", LW_VERSION, lw_version());
    return all_written() ? EXIT_SUCCESS : EXIT_SYSTEM;
}

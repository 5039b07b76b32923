/* SPDX-License-Identifier: MIT */
/*
 * See options.h. Options may stand before and after NAME; run's program begins after "--"
 * or with the first word after NAME, and its own options are left alone.
 *
 * Happy path: parse reads the subcommand's options, then checks what must be there.
 */
#include "options.h"

#include "codes.h"
#include "duration.h"
#include "usage.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define EMBEDDED "embedded:"
#define DEFAULT_LEASE_MS 30000
#define DEFAULT_GRACE_MS 5000
/* The longest lease has room for it. */
#define MAX_GRACE_MS (INT32_MAX / 2 - 2 * KILL_MS)
#define KILL_MS 500 /* from SIGKILL to the end of the lease; of a short lease a part */
#define DEFAULT_INTERVAL_MS 1000
#define MIN_LEASE_MS 100
#define MIN_INTERVAL_MS 10
#define GO_ON (-1)

static int refuse(enum subcommand subcommand, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int refuse(enum subcommand subcommand, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)fputs("lockwire: ", stderr);
    (void)vfprintf(stderr, format, args);
    (void)fputs("\n", stderr);
    va_end(args);
    usage_brief(stderr, subcommand);
    return STATUS_USAGE;
}

static int parse_time(enum subcommand subcommand, const char *option, const char *text,
                      int64_t *ms)
{
    char why[200];

    if (duration_parse(text, ms, why, sizeof(why)) < 0) {
        return refuse(subcommand, "%s %s", option, why);
    }
    return GO_ON;
}

static int parse_wait(const char *text, int64_t *ms)
{
    if (strcmp(text, "forever") != 0) {
        return parse_time(RUN, "--wait", text, ms);
    }
    *ms = -1;
    return GO_ON;
}

static int parse_lease(const char *text, uint32_t *ms)
{
    int64_t lease = 0;
    int result = parse_time(RUN, "--lease", text, &lease);

    if (result != GO_ON) {
        return result;
    }
    if (lease < MIN_LEASE_MS || lease > INT32_MAX) {
        return refuse(RUN, "--lease '%s': must be between 100ms and 596h", text);
    }
    *ms = (uint32_t)lease;
    return GO_ON;
}

static int parse_grace(const char *text, int64_t *ms)
{
    int result = parse_time(RUN, "--grace", text, ms);

    if (result == GO_ON && *ms > MAX_GRACE_MS) {
        return refuse(RUN, "--grace '%s': must be at most 298h", text);
    }
    return result;
}

static int parse_interval(const char *text, int64_t *ms)
{
    int result = parse_time(WATCH, "--interval", text, ms);

    if (result == GO_ON && (*ms < MIN_INTERVAL_MS || *ms > INT32_MAX)) {
        return refuse(WATCH, "--interval '%s': must be between 10ms and 596h", text);
    }
    return result;
}

static int parse_permits(const char *text, uint32_t *permits)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);

    if (*text < '0' || *text > '9' || *end || number < 1 || number > INT32_MAX) {
        return refuse(RUN, "--permits '%s': must be a number from 1 to 2147483647", text);
    }
    *permits = (uint32_t)number;
    return GO_ON;
}

static int parse_mode(enum lw_mode mode, struct options *options)
{
    if (options->mode != LW_MUTEX && options->mode != mode) {
        return refuse(RUN, "--exclusive and --shared exclude each other");
    }
    options->mode = mode;
    return GO_ON;
}

/* A long text is written in parts, of which the first ones may have failed. */
static bool all_written(void)
{
    return fflush(stdout) == 0 && !ferror(stdout);
}

static int help(enum subcommand subcommand)
{
    usage_help(stdout, subcommand);
    return all_written() ? EXIT_SUCCESS : STATUS_SYSTEM;
}

static int parse_option(int option, char **argv, struct options *options)
{
    switch (option) {
    case 'l':
        return parse_lease(optarg, &options->lease_ms);
    case 'w':
        return parse_wait(optarg, &options->wait_ms);
    case 'g':
        return parse_grace(optarg, &options->grace_ms);
    case 'd':
        options->direct = true;
        return GO_ON;
    case 'x':
        return parse_mode(LW_EXCLUSIVE, options);
    case 's':
        return parse_mode(LW_SHARED, options);
    case 'o':
        options->owner = optarg;
        return GO_ON;
    case 'p':
        return parse_permits(optarg, &options->permits);
    case 'j':
        options->json = true;
        return GO_ON;
    case 'W':
        options->wide = true;
        return GO_ON;
    case 't':
        options->token = optarg;
        return GO_ON;
    case 'f':
        options->foreign = true;
        return GO_ON;
    case 'i':
        return parse_interval(optarg, &options->interval_ms);
    case 'r':
        options->url = optarg;
        return GO_ON;
    case 'P':
        options->password_file = optarg;
        return GO_ON;
    case 'u':
        options->sentinel_user = optarg;
        return GO_ON;
    case 'R':
        options->sentinel_password_file = optarg;
        return GO_ON;
    case 'A':
        options->tls_ca = optarg;
        return GO_ON;
    case 'C':
        options->tls_cert = optarg;
        return GO_ON;
    case 'K':
        options->tls_key = optarg;
        return GO_ON;
    case 'S':
        options->tls_server_name = optarg;
        return GO_ON;
    case 'h':
        return help(options->subcommand);
    case ':':
        return refuse(options->subcommand, "%s needs a value", argv[optind - 1]);
    default:
        return refuse(options->subcommand, "%s: no such option, or an ambiguous one",
                      argv[optind - 1]);
    }
}

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
    return GO_ON;
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
    return GO_ON;
}

static int choose_server(struct options *options)
{
    const char *environment = getenv("LOCKWIRE_URL");
    int result;

    if (options->url == NULL) {
        options->url = environment != NULL && *environment ? environment : DEFAULT_URL;
    }
    options->embedded = strncmp(options->url, EMBEDDED, strlen(EMBEDDED)) == 0;
    if (options->embedded && options->url[strlen(EMBEDDED)]) {
        options->embedded_dir = options->url + strlen(EMBEDDED);
    }
    if (options->embedded && options->password_file != NULL) {
        return refuse(options->subcommand,
                      "--password-file: the server of %s has no password", EMBEDDED);
    }
    result = check_sentinel(options);
    return result == GO_ON ? check_tls(options) : result;
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

static const struct option run_options[] = {{"lease", required_argument, NULL, 'l'},
                                            {"wait", required_argument, NULL, 'w'},
                                            {"grace", required_argument, NULL, 'g'},
                                            {"direct", no_argument, NULL, 'd'},
                                            {"exclusive", no_argument, NULL, 'x'},
                                            {"shared", no_argument, NULL, 's'},
                                            {"owner", required_argument, NULL, 'o'},
                                            {"permits", required_argument, NULL, 'p'},
                                            COMMON,
                                            {NULL, 0, NULL, 0}};
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

static const struct option *const known[SUBCOMMANDS] = {
    [RUN] = run_options,     [STATUS] = status_options, [BREAK] = break_options,
    [WATCH] = watch_options, [LIST] = list_options,
};

/*
 * If the lock is lost, SIGTERM, the grace time and SIGKILL have to come to their end
 * while the lease is still ours: they are the margin of the hold, and a margin is below
 * half the lease.
 */
static int check_times(struct options *options)
{
    int64_t lease = options->lease_ms, kill = lease / 20 < KILL_MS ? lease / 20 : KILL_MS;
    int64_t most = (lease - 1) / 2 - kill, least;

    if (options->grace_ms < 0) {
        options->grace_ms = lease / 4 < DEFAULT_GRACE_MS ? lease / 4 : DEFAULT_GRACE_MS;
    }
    options->margin_ms = options->grace_ms + kill;
    if (options->grace_ms <= most) {
        return GO_ON;
    }
    least = 2 * (options->grace_ms + KILL_MS) + 1;
    return refuse(RUN,
                  "a --lease of %" PRId64 "ms is too short for a --grace of %" PRId64
                  "ms, which must be over before the lease is: a lease of %" PRId64
                  "ms would do, or a grace of %" PRId64 "ms",
                  lease, options->grace_ms, least, most);
}

static int check_run(int argc, char **argv, struct options *options)
{
    if (optind >= argc) {
        return refuse(RUN, "run: the COMMAND to run is missing");
    }
    if (strcmp(argv[optind], "--") == 0) {
        return refuse(RUN, "run: a second \"--\" stands where COMMAND should begin");
    }
    if (options->owner != NULL && options->mode == LW_MUTEX) {
        return refuse(RUN, "--owner needs --exclusive or --shared");
    }
    if (options->permits && options->mode != LW_SHARED) {
        return refuse(RUN, "--permits needs --shared");
    }
    options->command = argv + optind;
    return check_times(options);
}

static int check_others(int argc, char **argv, const struct options *options)
{
    if (optind < argc) {
        return refuse(options->subcommand, "'%s': there is one %s only", argv[optind],
                      options->subcommand == LIST ? "PATTERN" : "NAME");
    }
    if (options->subcommand == LIST && options->name != NULL && *options->name == '\0') {
        return refuse(LIST, "PATTERN is empty");
    }
    if (options->token != NULL && *options->token == '\0') {
        return refuse(options->subcommand, "--token is empty");
    }
    return GO_ON;
}

static int parse(int argc, char **argv, struct options *options)
{
    enum subcommand subcommand = options->subcommand;
    int option, result;

    opterr = 0;
    while ((option = getopt_long(argc, argv, "-:h", known[subcommand], NULL)) != -1) {
        if (option == 1 && options->name != NULL) { /* the program's first word */
            optind--;
            break;
        }
        if (option == 1) {
            options->name = optarg;
            continue;
        }
        result = parse_option(option, argv, options);
        if (result != GO_ON) {
            return result;
        }
    }
    if (options->name == NULL && optind < argc) {
        options->name = argv[optind++];
    }
    if (options->name == NULL && subcommand != LIST) {
        return refuse(subcommand, "%s: the lock's NAME is missing",
                      usage_names[subcommand]);
    }
    result = subcommand == RUN ? check_run(argc, argv, options)
                               : check_others(argc, argv, options);
    return result == GO_ON ? choose_server(options) : result;
}

void options_client(const struct options *options, struct lw_client_options *client)
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
    if (strcmp(what, "--version") != 0) {
        return *what ? refuse(SUBCOMMANDS, "'%s': no such subcommand", what)
                     : refuse(SUBCOMMANDS, "a subcommand is missing");
    }
    (void)printf("lockwire %s (library %s)\n", LW_VERSION, lw_version());
    return all_written() ? EXIT_SUCCESS : STATUS_SYSTEM;
}

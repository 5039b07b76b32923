/* SPDX-License-Identifier: MIT */
/*
 * See options.h. Options may stand before and after NAME; a program to run begins after
 * "--" or with the first word after NAME, and its own options are left alone. What an
 * option's text means is options_values.c's to say, what they mean together
 * options_check.c's.
 *
 * Happy path: parse reads the subcommand's options, then checks what must be there.
 */
#include "options_inside.h"

#include "codes.h"
#include "usage.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    return all_written() ? EXIT_SUCCESS : STATUS_SYSTEM;
}

/* word: as it was typed, or the one letter of several that stand together. */
static int parse_option(int option, const char *word, struct options *options)
{
    switch (option) {
    case 'l':
        return options_lease(optarg, options);
    case 'w':
        return options_wait(optarg, options);
    case 'n':
        options->wait_ms = 0;
        return GO_ON;
    case 'E':
        return options_busy_code(optarg, options);
    case 'g':
        return options_grace(optarg, options);
    case 'm':
        return options_max_hold(optarg, options);
    case 'd':
        options->direct = true;
        return GO_ON;
    case 'v':
        options->verbose = true;
        return GO_ON;
    case 'e':
    case 'x':
        return options_mode(LW_EXCLUSIVE, options);
    case 's':
        return options_mode(LW_SHARED, options);
    case 'J':
        return options_mode(LW_REDISSON, options);
    case '&':
        return options_and(optarg, options);
    case 'o':
        options->owner = optarg;
        return GO_ON;
    case 'p':
        return options_permits(optarg, options);
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
        return options_interval(optarg, options);
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
        return options_refuse(options->subcommand, "%s needs a value", word);
    default:
        return options_refuse(options->subcommand,
                              "%s: no such option, or an ambiguous one", word);
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

static const struct option *const known[SUBCOMMANDS] = {
    [RUN] = run_options,       [LEAD] = lead_options,   [HOLD] = hold_options,
    [STATUS] = status_options, [BREAK] = break_options, [WATCH] = watch_options,
    [LIST] = list_options,
};

static bool has_command(enum subcommand subcommand)
{
    return subcommand == RUN || subcommand == LEAD;
}

/* Those of flock(1). */
static const char *letters(enum subcommand subcommand)
{
    return subcommand == RUN || subcommand == HOLD ? "-:hsxenw:E:"
           : subcommand == LEAD                    ? "-:hsxe"
                                                   : "-:h";
}

/* What getopt_long has just read of this word. */
static const char *read_of(const char *word, char letter[3])
{
    if (strncmp(word, "--", 2) == 0) {
        return word;
    }
    letter[0] = '-';
    letter[1] = (char)optopt;
    letter[2] = '\0';
    return letter;
}

static int check(char **words, int count, struct options *options)
{
    int result = has_command(options->subcommand)
                     ? options_check_command(words, count, options)
                     : options_check_alone(words, count, options);

    if (result == GO_ON && options->subcommand == HOLD) {
        result = options_check_holding(options);
    }
    return result == GO_ON ? options_check_server(options) : result;
}

static int parse(int argc, char **argv, struct options *options)
{
    enum subcommand subcommand = options->subcommand;
    int option, at = 1, result;
    char letter[3];

    opterr = 0;
    while ((option = getopt_long(argc, argv, letters(subcommand), known[subcommand],
                                 NULL)) != -1) {
        if (option == 1 && options->name != NULL) { /* the program's first word */
            optind--;
            break;
        }
        if (option == 1) {
            options->name = optarg;
        } else {
            result = parse_option(option, read_of(argv[at], letter), options);
            if (result != GO_ON) {
                return result;
            }
        }
        at = optind;
    }
    if (options->name == NULL && optind < argc) {
        options->name = argv[optind++];
    }
    if (options->name == NULL && subcommand != LIST) {
        return options_refuse(subcommand, "%s: the lock's NAME is missing",
                              usage_names[subcommand]);
    }
    return check(argv + optind, argc - optind, options);
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
                                .busy_code = STATUS_BUSY,
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
        return *what ? options_refuse(SUBCOMMANDS, "'%s': no such subcommand", what)
                     : options_refuse(SUBCOMMANDS, "a subcommand is missing");
    }
    (void)printf("lockwire %s (library %s)\n", LW_VERSION, lw_version());
    return all_written() ? EXIT_SUCCESS : STATUS_SYSTEM;
}

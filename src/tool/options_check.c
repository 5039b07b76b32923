/* SPDX-License-Identifier: MIT */
/*
 * What options mean together, what must be there and what may not, and which server is
 * meant. Must not read a single option's text.
 *
 * Happy path: everything fits; the times and the server are filled in.
 */
#include "options_inside.h"

#include "codes.h"
#include "usage.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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
        return options_refuse(options->subcommand,
                              "%s needs a URL that begins with redis-sentinel:// or "
                              "rediss-sentinel://",
                              option);
    }
    if (user != NULL && file == NULL) {
        return options_refuse(options->subcommand,
                              "--sentinel-user needs --sentinel-password-file");
    }
    if (file != NULL && strcmp(file, "-") == 0 && options->password_file != NULL &&
        strcmp(options->password_file, "-") == 0) {
        return options_refuse(
            options->subcommand,
            "--password-file and --sentinel-password-file: only one of them "
            "can be the standard input (-)");
    }
    return GO_ON;
}

static int check_tls(const struct options *options)
{
    if (tls_option(options) != NULL && !begins(options->url, "rediss")) {
        return options_refuse(
            options->subcommand,
            "%s needs a URL that begins with rediss://, rediss-sentinel:// or "
            "rediss-cluster://",
            tls_option(options));
    }
    if ((options->tls_cert != NULL) != (options->tls_key != NULL)) {
        return options_refuse(options->subcommand, "--cert and --key need each other");
    }
    return GO_ON;
}

int options_check_server(struct options *options)
{
    const char *environment = getenv("LOCKWIRE_URL");
    int result;

    if (options->url == NULL) {
        options->url = environment != NULL && *environment ? environment : DEFAULT_URL;
    }
    options->embedded = strncmp(options->url, EMBEDDED, strlen(EMBEDDED)) == 0;
    if (options->embedded && options->url[strlen(EMBEDDED)]) {
        return options_refuse(
            options->subcommand,
            "'%s': \"" EMBEDDED "\" takes no directory. To share a temporary server, run "
            "other commands in `lockwire run NAME --redis embedded: -- bash`, where "
            "LOCKWIRE_URL is its URL; or start redis-server --unixsocket FILE, and write "
            "--redis unix://FILE",
            options->url);
    }
    if (options->embedded && options->password_file != NULL) {
        return options_refuse(options->subcommand,
                              "--password-file: the server of %s has no password",
                              EMBEDDED);
    }
    result = check_sentinel(options);
    return result == GO_ON ? check_tls(options) : result;
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
        return GO_ON;
    }
    least = 2 * (options->grace_ms + KILL_MS) + 1;
    return options_refuse(options->subcommand,
                          "a %s of %" PRId64 "ms is too short for a --grace of %" PRId64
                          "ms, which must be over before it is: a %s of %" PRId64
                          "ms would do, or a grace of %" PRId64 "ms",
                          option, hold, options->grace_ms, option + 2, least, most);
}

static int check_more_names(const struct options *options)
{
    if (options->more_count > 0 && options->mode != LW_MUTEX) {
        return options_refuse(options->subcommand,
                              "--and is for mutexes, not for --exclusive, --shared or "
                              "--redisson");
    }
    for (int i = 0; i < options->more_count; i++) {
        for (int j = -1; j < i; j++) {
            const char *other = j < 0 ? options->name : options->more_names[j];

            if (strcmp(options->more_names[i], other) == 0) {
                return options_refuse(options->subcommand, "--and: '%s' is given twice",
                                      other);
            }
        }
    }
    return GO_ON;
}

int options_check_holding(struct options *options)
{
    if (options->owner != NULL && options->mode != LW_EXCLUSIVE &&
        options->mode != LW_SHARED) {
        return options_refuse(options->subcommand,
                              "--owner needs --exclusive or --shared");
    }
    if (options->permits && options->mode != LW_SHARED) {
        return options_refuse(options->subcommand, "--permits needs --shared");
    }
    if (check_more_names(options) != GO_ON) {
        return STATUS_USAGE;
    }
    return check_times(options);
}

int options_check_command(char **words, int count, struct options *options)
{
    const char *subcommand = usage_names[options->subcommand];

    if (count == 0) {
        return options_refuse(options->subcommand, "%s: the COMMAND to run is missing",
                              subcommand);
    }
    if (strcmp(words[0], "--") == 0) {
        return options_refuse(options->subcommand,
                              "%s: a second \"--\" stands where COMMAND should begin",
                              subcommand);
    }
    options->command = words;
    return options_check_holding(options);
}

int options_check_alone(char **words, int count, const struct options *options)
{
    if (count > 0) {
        return options_refuse(options->subcommand, "'%s': there is one %s only", words[0],
                              options->subcommand == LIST ? "PATTERN" : "NAME");
    }
    if (options->subcommand == LIST && options->name != NULL && *options->name == '\0') {
        return options_refuse(LIST, "PATTERN is empty");
    }
    if (options->token != NULL && *options->token == '\0') {
        return options_refuse(options->subcommand, "--token is empty");
    }
    return GO_ON;
}

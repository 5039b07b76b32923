/* SPDX-License-Identifier: MIT */
/*
 * See options.h. Reports the option and the reason if a value is invalid.
 */
#include "options.h"

#include "base/duration.h"
#include "gateway.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USAGE 64

static const char usage[] =
    "usage: gateway --ledger FILE [OPTION...]\n"
    "\n"
    "  --ledger FILE       where gifts are noted; shared by all gateways\n"
    "  --grants FILE       where every grant of a lock is noted, for checking\n"
    "  --listen HOST:PORT  numeric (127.0.0.1:8080); port 0: any free one\n"
    "  --port-file FILE    where the port is written once connections are accepted\n"
    "  --redis URL         ($LOCKWIRE_URL, else redis://localhost); or sentinels:\n"
    "                      redis-sentinel://host[:port][,host[:port]...]/service\n"
    "                      or a quorum: redis-quorum://host[:port],host[:port]...\n"
    "                      (valkey, valkeys and so on are the same as redis, rediss)\n"
    "  --password-file FILE\n"
    "                      whose first line is the server's password\n"
    "  --sentinel-user NAME, --sentinel-password-file FILE\n"
    "                      what the sentinels themselves are logged in to with\n"
    "  --map FROM=TO       connect to TO in place of the address FROM that sentinels or\n"
    "                      cluster nodes announce: HOST:PORT=HOST:PORT, or HOST=HOST\n"
    "                      for all ports of a host. May be repeated. Not for hosts in\n"
    "                      the URL\n"
    "  --work TIME         how long giving a gift takes (20ms)\n"
    "  --lease TIME        of the locks (30s)\n"
    "  --guard TIME        after the server was restarted or promoted, no gift is given\n"
    "                      for this time (a quorum: 45s); see GUARD in lockwire(7)\n"
    "  --idle TIME         after which a connection without a request ends (60s)\n"
    "  --unlocked          without any lock, to measure what the lock costs: gifts are\n"
    "                      given twice then\n"
    "\n"
    "TIME is like 500ms, 30s, 5m, 1h; a plain number is seconds.\n";

/* Parses HOST:PORT; an IPv6 address is in brackets. */
static bool parse_listen(const char *text, struct options *options)
{
    const char *colon = strrchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : 0;
    char *rest;
    unsigned long port;

    if (length > 1 && text[0] == '[' && text[length - 1] == ']') {
        text++;
        length -= 2;
    }
    if (length == 0 || length >= sizeof(options->host) || colon[1] < '0' ||
        colon[1] > '9') {
        return false;
    }
    port = strtoul(colon + 1, &rest, 10);
    if (*rest || port > UINT16_MAX) {
        return false;
    }
    memcpy(options->host, text, length);
    options->host[length] = '\0';
    options->port = (uint16_t)port;
    return true;
}

static bool parse_time(const char *option, const char *text, int64_t *ms)
{
    char why[200];

    if (lw__duration_parse(text, ms, why, sizeof(why)) == 0 && *ms <= INT32_MAX) {
        return true;
    }
    report("--%s %s", option, *ms > INT32_MAX ? "is too long" : why);
    return false;
}

/* Appends the pairs. Returns false, after a report, if there is no room. */
static bool add_map(const char *pairs, struct options *options)
{
    size_t length = strlen(options->map), room = sizeof(options->map) - length;

    if ((size_t)snprintf(options->map + length, room, ",%s", pairs) < room) {
        return true;
    }
    report("--map '%.40s': more than %zu bytes together", pairs,
           sizeof(options->map) - 2);
    return false;
}

static bool parse_option(int option, struct options *options)
{
    switch (option) {
    case 'l':
        options->ledger = optarg;
        return true;
    case 'g':
        options->grants = optarg;
        return true;
    case 'U':
        options->unlocked = true;
        return true;
    case 'p':
        options->port_file = optarg;
        return true;
    case 'r':
        options->url = optarg;
        return true;
    case 'P':
        options->password_file = optarg;
        return true;
    case 'u':
        options->sentinel_user = optarg;
        return true;
    case 'R':
        options->sentinel_password_file = optarg;
        return true;
    case 'm':
        return add_map(optarg, options);
    case 'w':
        return parse_time("work", optarg, &options->work_ms);
    case 'e':
        return parse_time("lease", optarg, &options->lease_ms);
    case 'G':
        return parse_time("guard", optarg, &options->guard_ms);
    case 'i':
        return parse_time("idle", optarg, &options->idle_ms);
    case 'a':
        if (parse_listen(optarg, options)) {
            return true;
        }
        report("--listen '%s': HOST:PORT was expected, PORT from 0 to 65535", optarg);
        return false;
    default:
        return false; /* getopt_long has reported the reason */
    }
}

int options_parse(int argc, char **argv, struct options *options)
{
    static const struct option known[] = {
        {"ledger", required_argument, NULL, 'l'},
        {"grants", required_argument, NULL, 'g'},
        {"listen", required_argument, NULL, 'a'},
        {"port-file", required_argument, NULL, 'p'},
        {"redis", required_argument, NULL, 'r'},
        {"password-file", required_argument, NULL, 'P'},
        {"sentinel-user", required_argument, NULL, 'u'},
        {"sentinel-password-file", required_argument, NULL, 'R'},
        {"map", required_argument, NULL, 'm'},
        {"work", required_argument, NULL, 'w'},
        {"lease", required_argument, NULL, 'e'},
        {"guard", required_argument, NULL, 'G'},
        {"idle", required_argument, NULL, 'i'},
        {"unlocked", no_argument, NULL, 'U'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0}};
    const char *url = getenv("LOCKWIRE_URL");
    int option;

    *options = (struct options){.url = url != NULL && *url ? url : "redis://localhost",
                                .host = "127.0.0.1",
                                .port = 8080,
                                .work_ms = 20,
                                .lease_ms = 30000,
                                .idle_ms = 60000};
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        if (option == 'h') {
            return fputs(usage, stdout) < 0;
        }
        if (!parse_option(option, options)) {
            (void)fputs(usage, stderr);
            return USAGE;
        }
    }
    if (options->ledger != NULL && optind == argc) {
        return -1;
    }
    (void)fputs(usage, stderr);
    return USAGE;
}

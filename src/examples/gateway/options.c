/* SPDX-License-Identifier: MIT */
/*
 * See options.h. Reports the option and the reason if a value is invalid.
 */
#include "options.h"

#include "gateway.h"

#include <errno.h>
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
    "  --redis URL         redis://, redis-sentinel://, redis-quorum:// and so on\n"
    "                      ($LOCKWIRE_URL)\n"
    "  --map FROM=TO[,FROM=TO]...\n"
    "                      connect to TO in place of the address FROM that sentinels or\n"
    "                      cluster nodes announce: HOST:PORT=HOST:PORT, or HOST=HOST\n"
    "  --work MS           how long giving a gift takes (20)\n"
    "  --lease MS          of the locks (30000)\n"
    "  --guard MS          after the server was restarted or promoted, no gift is given\n"
    "                      for this time (a quorum: 45000); see lockwire-guard(7)\n"
    "  --idle MS           after which a connection without a request ends (60000)\n"
    "  --unlocked          without any lock, to measure what the lock costs: gifts are\n"
    "                      given twice then\n";

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

static bool parse_ms(const char *option, int64_t *ms)
{
    char *rest;

    errno = 0;
    *ms = strtoll(optarg, &rest, 10);
    if (errno == 0 && rest != optarg && *rest == '\0' && *ms >= 0 && *ms <= INT32_MAX) {
        return true;
    }
    report("--%s '%s': a number of milliseconds was expected", option, optarg);
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
    case 'm':
        options->map = optarg;
        return true;
    case 'w':
        return parse_ms("work", &options->work_ms);
    case 'e':
        return parse_ms("lease", &options->lease_ms);
    case 'G':
        return parse_ms("guard", &options->guard_ms);
    case 'i':
        return parse_ms("idle", &options->idle_ms);
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
    static const struct option known[] = {{"ledger", required_argument, NULL, 'l'},
                                          {"grants", required_argument, NULL, 'g'},
                                          {"listen", required_argument, NULL, 'a'},
                                          {"port-file", required_argument, NULL, 'p'},
                                          {"redis", required_argument, NULL, 'r'},
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

    *options = (struct options){.url = url,
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
    if (options->url == NULL) {
        report("no server is given: use --redis URL, or set LOCKWIRE_URL");
    } else if (options->ledger != NULL && optind == argc) {
        return -1;
    }
    (void)fputs(usage, stderr);
    return USAGE;
}

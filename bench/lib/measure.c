/* SPDX-License-Identifier: MIT */
/*
 * See measure.h. Owns the rows, which are in one lazily filled mapping, so that noting a
 * row costs no allocation. Independent of the workloads.
 */
#include "measure.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#define ROWS_MAX ((size_t)16 << 20)

static struct measure_row *rows;
static size_t rows_used;
static int64_t started_ns, cpu_started_ns;

static int64_t clock_ns(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

int64_t measure_now(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

int64_t measure_round(const struct measure_options *options)
{
    return measure_now() / (1000 * (int64_t)options->round_us);
}

/* Returns the time until `halves` halves of this round have passed; 0 if they have. */
static unsigned us_until(const struct measure_options *options, int halves)
{
    int64_t round = 1000 * (int64_t)options->round_us;
    int64_t left = halves * round / 2 - measure_now() % round;

    return left > 0 ? (unsigned)(left / 1000) : 0;
}

unsigned measure_pause_us(const struct measure_options *options)
{
    unsigned rest = options->round_us > 0 ? us_until(options, 2) : 0;

    if (options->pause_us == 0) {
        return rest;
    }
    return rest + options->pause_us / 2 +
           (unsigned)((double)options->pause_us * ((double)random() / RAND_MAX));
}

unsigned measure_hold_us(const struct measure_options *options)
{
    return options->round_us > 0 ? us_until(options, 1) : options->hold_us;
}

static double number(const char *option, const char *text, double least, double most)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= least && value <= most)) {
        (void)fprintf(stderr, "bench: --%s: '%s' is not a number from %g to %g\n", option,
                      text, least, most);
        exit(64);
    }
    return value;
}

static bool is_one_of(const char *word, const char *words)
{
    const char *at = words;
    size_t length = strlen(word);

    if (!length) {
        return true;
    }
    while ((at = strstr(at, word)) != NULL) {
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length])) {
            return true;
        }
        at += length;
    }
    return false;
}

static void take(int option, const char *name, struct measure_options *ret)
{
    switch (option) {
    case 'u':
        ret->url = optarg;
        break;
    case 'n':
        ret->name = optarg;
        break;
    case 'v':
        ret->variant = optarg;
        break;
    case 'r':
        ret->rows = optarg;
        break;
    case 't':
        ret->tls_ca = optarg;
        break;
    case 'c':
        ret->slots = (unsigned)number(name, optarg, 1, 1e6);
        break;
    case 's':
        ret->seconds = number(name, optarg, 0, 1e5);
        break;
    case 'l':
        ret->lease_ms = (unsigned)number(name, optarg, 100, 1e9);
        break;
    case 'h':
        ret->hold_us = (unsigned)number(name, optarg, 0, 1e9);
        break;
    case 'p':
        ret->pause_us = (unsigned)number(name, optarg, 0, 1e9);
        break;
    case 'o':
        ret->round_us = (unsigned)number(name, optarg, 0, 1e9);
        break;
    case 'N':
        ret->names = (unsigned)number(name, optarg, 1, 16);
        break;
    case 'O':
        ret->of = (unsigned)number(name, optarg, 1, 1000);
        break;
    case 'g':
        ret->guard_ms = (unsigned)number(name, optarg, 0, 600000);
        break;
    case 'b':
        ret->busy_poll = (unsigned)number(name, optarg, 0, 100);
        break;
    case 'C':
        ret->clients = (unsigned)number(name, optarg, 1, 10000);
        break;
    default:
        exit(64);
    }
}

void measure_options(int argc, char **argv, const char *variants,
                     struct measure_options *ret)
{
    static const struct option known[] = {{"url", required_argument, NULL, 'u'},
                                          {"name", required_argument, NULL, 'n'},
                                          {"variant", required_argument, NULL, 'v'},
                                          {"rows", required_argument, NULL, 'r'},
                                          {"tls-ca", required_argument, NULL, 't'},
                                          {"slots", required_argument, NULL, 'c'},
                                          {"seconds", required_argument, NULL, 's'},
                                          {"lease-ms", required_argument, NULL, 'l'},
                                          {"hold-us", required_argument, NULL, 'h'},
                                          {"pause-us", required_argument, NULL, 'p'},
                                          {"round-us", required_argument, NULL, 'o'},
                                          {"names", required_argument, NULL, 'N'},
                                          {"of", required_argument, NULL, 'O'},
                                          {"guard-ms", required_argument, NULL, 'g'},
                                          {"busy-poll", required_argument, NULL, 'b'},
                                          {"clients", required_argument, NULL, 'C'},
                                          {NULL, 0, NULL, 0}};
    int option, index = 0;

    *ret = (struct measure_options){.name = "bench",
                                    .variant = "",
                                    .slots = 1,
                                    .seconds = 1,
                                    .lease_ms = 30000,
                                    .names = 1,
                                    .of = 1,
                                    .clients = 1};
    if (argc < 2 || strlen(argv[1]) != 1 || strchr("UDLNMHXEFW", argv[1][0]) == NULL) {
        (void)fprintf(
            stderr,
            "usage: %s U|D|L|N|M|H|X|E|F|W --url URL [--slots N] [--seconds S] "
            "[--name KEY] [--variant V] [--lease-ms MS] [--hold-us US] "
            "[--pause-us US] [--round-us US] [--names N] [--of N] [--rows FILE] "
            "[--tls-ca FILE] [--guard-ms MS] [--clients N] [--busy-poll US]\n"
            "variants: %s\n",
            argv[0], variants);
        exit(64);
    }
    ret->workload = argv[1][0];
    optind = 2;
    while ((option = getopt_long(argc, argv, "", known, &index)) != -1) {
        take(option, known[index].name, ret);
    }
    if (ret->url == NULL || optind != argc || !is_one_of(ret->variant, variants)) {
        (void)fprintf(stderr, "bench: needed: --url, and a variant of: %s\n", variants);
        exit(64);
    }
    srandom((unsigned)clock_ns(CLOCK_MONOTONIC));
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void measure_say(const char *event, int64_t value)
{
    (void)printf("{\"%s\": %lld}\n", event, (long long)value);
    (void)fflush(stdout);
}

void measure_say_when(const char *event, int64_t value)
{
    (void)printf("{\"%s\": %lld, \"at_ns\": %lld}\n", event, (long long)value,
                 (long long)measure_now());
    (void)fflush(stdout);
}

void measure_start(void)
{
    char line[64];

    if (rows == NULL) {
        rows = mmap(NULL, ROWS_MAX * sizeof(*rows), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (rows == MAP_FAILED) {
            perror("bench: memory for the rows");
            exit(1);
        }
    }
    rows_used = 0;
    measure_say("ready", 1);
    if (fgets(line, sizeof(line), stdin) == NULL) {
        exit(1); /* the driver has ended */
    }
    cpu_started_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    started_ns = measure_now();
}

void measure_row(const struct measure_row *row)
{
    if (rows != NULL && rows_used < ROWS_MAX) {
        rows[rows_used++] = *row;
    }
}

static int write_rows(const char *path)
{
    FILE *file = fopen(path, "wb");

    if (file == NULL || fwrite(rows, sizeof(*rows), rows_used, file) != rows_used) {
        (void)fprintf(stderr, "bench: %s: %s\n", path, strerror(errno));
        if (file != NULL) {
            (void)fclose(file);
        }
        return -1;
    }
    return fclose(file);
}

int measure_finish(const struct measure_options *options, const char *version,
                   uint64_t errors, uint64_t commands)
{
    int64_t ended_ns = measure_now(), cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

    if (options->rows != NULL && write_rows(options->rows) < 0) {
        return 1;
    }
    (void)printf(
        "{\"workload\": \"%c\", \"variant\": \"%s\", \"slots\": %u, "
        "\"start_ns\": %lld, \"seconds\": %.6f, \"cpu_us\": %lld, \"rows\": %zu, "
        "\"errors\": %llu, \"commands\": %llu, \"version\": \"%s\"}\n",
        options->workload, options->variant, options->slots, (long long)started_ns,
        (double)(ended_ns - started_ns) / 1e9,
        (long long)(cpu_ns - cpu_started_ns) / 1000, rows_used,
        (unsigned long long)errors, (unsigned long long)commands, version);
    return fflush(stdout) ? 1 : 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * `lockwire watch`: follows a lock. In a terminal the table is drawn anew at each look;
 * else each change is a line. Owns the looks' rhythm and what was there before. Outages
 * are shown and ridden out.
 *
 * Happy path: the link comes up, look(); on_inspected draws, the timer has it look again;
 * a signal ends it.
 */
#include "base/told.h"
#include "codes.h"
#include "lockwire.h"
#include "look.h"
#include "options.h"
#include "picture.h"
#include "reach.h"
#include "say.h"
#include "signals.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define WORDS 13000

/* A holder or a waiter of the last look. */
struct known {
    bool holds, named; /* it is known whose it is */
    char *token, *words;
};

struct watch {
    struct reach reach;
    struct event *again;
    struct known *known;
    size_t count;
    bool terminal, drawn;
    char master[300];     /* of the last look; "": there are no sentinels */
    char headline[WORDS]; /* the last one without holders, so that it is written once */
};

static bool written(struct watch *watch)
{
    if (fflush(stdout) == 0) {
        return true;
    }
    if (errno == EPIPE) { /* nobody reads any more: a pipe's usual end */
        reach_end(&watch->reach, EXIT_SUCCESS);
        return false;
    }
    say("cannot write: %s", strerror(errno));
    reach_end(&watch->reach, STATUS_SYSTEM);
    return false;
}

/* ---- lines ---- */

static void write_line(const char *what, const char *words)
{
    char stamp[40];
    time_t now = time(NULL);
    struct tm local;

    localtime_r(&now, &local);
    (void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S%z", &local);
    (void)printf("%s %s%s%s\n", stamp, what, *words ? " " : "", words);
}

static struct known *find(struct known *list, size_t count, const char *token, bool holds)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].holds == holds && strcmp(list[i].token, token) == 0) {
            return &list[i];
        }
    }
    return NULL;
}

static void forget(struct known *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(list[i].token);
        free(list[i].words);
    }
    free(list);
}

static bool note(struct known *known, const struct lw_inspected *entry, bool holds)
{
    char words[WORDS];

    picture_words(entry, words, sizeof(words));
    *known = (struct known){holds, *entry->client != '\0', strdup(entry->token),
                            strdup(words)};
    return known->token != NULL && known->words != NULL;
}

/* Who ends takes back first what it said of itself: what was known stays. */
static void stay_named(struct watch *watch, struct known *now)
{
    struct known *before = find(watch->known, watch->count, now->token, now->holds);

    if (before != NULL && before->named && !now->named) {
        struct known nameless = *now;
        *now = *before;
        *before = nameless;
    }
}

/* Takes over `now`, which has as many as the inspection. */
static void write_changes(struct watch *watch, struct known *now, size_t count)
{
    for (size_t i = 0; i < watch->count; i++) {
        const struct known *before = &watch->known[i];

        if (find(now, count, before->token, true) == NULL &&
            find(now, count, before->token, false) == NULL) {
            write_line("left", before->words);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (find(watch->known, watch->count, now[i].token, now[i].holds) == NULL) {
            write_line(now[i].holds ? "holds" : "waits", now[i].words);
        }
        stay_named(watch, &now[i]);
    }
    forget(watch->known, watch->count);
    watch->known = now;
    watch->count = count;
}

static void write_headline(struct watch *watch, const char *headline)
{
    if (strcmp(headline, watch->headline) == 0) {
        return;
    }
    if (*headline) {
        write_line(headline, "");
    }
    (void)snprintf(watch->headline, sizeof(watch->headline), "%s", headline);
}

static void write_master(struct watch *watch, const struct lw_master *master)
{
    char place[sizeof(watch->master)], words[WORDS];

    picture_place(master, place, sizeof(place));
    if (*watch->master && strcmp(place, watch->master) != 0) {
        (void)snprintf(words, sizeof(words), "%s, of %s, was %s", place, master->service,
                       watch->master);
        write_line("master", words);
    }
    (void)snprintf(watch->master, sizeof(watch->master), "%s", place);
}

static bool write_lines(struct watch *watch, const struct lw_inspection *seen,
                        const struct lw_master *master)
{
    size_t count = seen->holder_count + seen->waiter_count;
    struct known *now = calloc(count + 1, sizeof(*now));
    char headline[WORDS];
    bool done = now != NULL;

    for (size_t i = 0; done && i < count; i++) {
        done = i < seen->holder_count
                   ? note(&now[i], lw_inspection_holder(seen, i), true)
                   : note(&now[i], lw_inspection_waiter(seen, i - seen->holder_count),
                          false);
    }
    if (!done) {
        if (now != NULL) {
            forget(now, count);
        }
        return false;
    }
    if (master != NULL) {
        write_master(watch, master);
    }
    write_changes(watch, now, count);
    headline[0] = '\0';
    if (seen->holder_total == 0) {
        picture_headline(seen, headline, sizeof(headline));
    }
    write_headline(watch, headline);
    return true;
}

/* ---- the terminal ---- */

/* The first `columns` characters of a line, and how many bytes they are. */
static size_t cut(const char *line, size_t length, int columns)
{
    size_t at = 0;

    for (; at < length; at++) {
        if (((unsigned char)line[at] & 0xc0) != 0x80 && columns-- == 0) {
            break;
        }
    }
    return at;
}

/* From the top left corner, no line too long, none below the last one. */
static void draw(struct watch *watch, const char *text)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    int rows;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row == 0 ||
        size.ws_col == 0) {
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    }
    (void)fputs(watch->drawn ? "\033[H" : "\033[2J\033[H", stdout);
    watch->drawn = true;
    for (rows = size.ws_row - 1; *text && rows > 0; rows--) {
        size_t length = strcspn(text, "\n");

        (void)fwrite(text, 1, cut(text, length, size.ws_col), stdout);
        (void)fputs("\033[K\n", stdout);
        text += length + (text[length] == '\n');
    }
    (void)fputs("\033[J", stdout);
}

static bool draw_table(struct watch *watch, const struct lw_inspection *seen,
                       const struct lw_master *master)
{
    char *text = NULL;
    size_t size;
    FILE *memory = open_memstream(&text, &size);

    if (memory == NULL) {
        return false;
    }
    picture_table(memory, seen, master);
    if (fclose(memory) != 0) {
        free(text);
        return false;
    }
    draw(watch, text);
    free(text);
    return true;
}

/* ---- the looks ---- */

static void schedule(struct watch *watch)
{
    int64_t ms = watch->reach.options->interval_ms;
    struct timeval wait = {(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};

    if (!watch->reach.ending) {
        event_add(watch->again, &wait);
    }
}

static void show_outage(struct watch *watch, const char *why)
{
    char clean[2000], text[4000];

    lw__told(*why ? why : "it is being made", clean, sizeof(clean));
    (void)snprintf(text, sizeof(text), "%s%sno connection: %s%s",
                   watch->terminal ? watch->reach.options->name : "",
                   watch->terminal ? ": " : "", clean, watch->terminal ? "\n" : "");
    if (watch->terminal) {
        draw(watch, text);
    } else {
        write_headline(watch, text);
    }
    written(watch);
}

static bool show(struct watch *watch, const struct lw_inspection *seen)
{
    struct lw_master followed = LW_MASTER_INIT;
    const struct lw_master *master = reach_master(&watch->reach, &followed);

    return watch->terminal ? draw_table(watch, seen, master)
                           : write_lines(watch, seen, master);
}

static void on_inspected(struct lw_client *client, int result,
                         const struct lw_inspection *seen, const char *why, void *arg)
{
    struct watch *watch = arg;

    (void)client;
    if (watch->reach.ending) {
        return;
    }
    if (result == LW_ECONN) {
        return; /* `down` shows it, `up` looks again */
    }
    if (result != LW_OK) {
        reach_fail(&watch->reach, result, why);
    } else if (!show(watch, seen)) {
        reach_fail(&watch->reach, LW_ENOMEM, "");
    } else if (written(watch)) {
        schedule(watch);
    }
}

static void look(struct watch *watch)
{
    struct reach *reach = &watch->reach;
    int error = lw_inspect(reach->client, reach->options->name, on_inspected, watch);

    if (error != 0) {
        reach_fail(reach, error, "");
    }
}

static void on_again(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    look(arg);
}

static void on_up(struct reach *reach)
{
    struct watch *watch = reach->arg;

    event_del(watch->again);
    look(watch);
}

static void on_down(struct reach *reach, const char *why)
{
    struct watch *watch = reach->arg;

    event_del(watch->again);
    show_outage(watch, why);
}

static void on_signal(int number, bool from_terminal, void *arg)
{
    struct watch *watch = arg;

    (void)from_terminal;
    if (number != SIGCHLD) {
        reach_end(&watch->reach, EXIT_SUCCESS);
    }
}

int watch(const struct options *options)
{
    static const struct reach_events events = {.up = on_up, .down = on_down};
    struct watch watch = {.reach = {.options = options, .events = &events}};
    int code;

    watch.reach.arg = &watch;
    watch.terminal = isatty(STDOUT_FILENO) == 1;
    code = reach_open(&watch.reach, "lockwire-watch");
    if (code == 0) {
        watch.again = event_new(watch.reach.base, -1, 0, on_again, &watch);
        if (watch.again != NULL &&
            signals_watch(watch.reach.base, on_signal, &watch) == 0) {
            code = reach_run(&watch.reach);
        } else {
            say("cannot start an event loop");
            code = STATUS_SYSTEM;
        }
    }
    signals_unwatch();
    if (watch.again != NULL) {
        event_free(watch.again);
    }
    reach_close(&watch.reach);
    forget(watch.known, watch.count);
    return code;
}

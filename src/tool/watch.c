/* SPDX-License-Identifier: MIT */
/* watch: follows a lock in one of three forms: a screen that is redrawn, a line for each
 * change, a JSON object for each change. An outage of the server is shown and waited for:
 * the last state stays on the screen, with its age.
 *
 * When the link is up, begin() starts a watch of the library; on_looked shows each look,
 * and the timer the age of the last one. A signal or the key q ends it. Keys are read
 * only while this job is in the foreground of the terminal, which each tick checks. The
 * modes of the terminal are restored whenever this job leaves the foreground. */
#include "base/escape.h"
#include "columns.h"
#include "lockwire.h"
#include "options.h"
#include "query.h"
#include "report.h"
#include "signals.h"
#include "status_format.h"
#include "subcommands.h"
#include "system.h"
#include "terminal.h"

#include <errno.h>
#include <event2/event.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORDS 13000

/* Why there is no newer state. */
struct watch_outage {
    const char *kind; /* "no answer", "no connection", "not now"; NULL: no outage */
    char why[2000];   /* or "" */
};

/* ---- lines ---- */

/* A holder or waiter at the last look. */
struct watch_entry {
    bool holds, named; /* named: its client is known */
    char *token, *words;
};

struct watch_lines {
    struct watch_entry *entries;
    size_t count;
    bool outage_written;  /* and its end is not */
    char master[300];     /* "" without sentinels */
    char headline[WORDS]; /* written last, so that it is not repeated */
};

static void write_event(const char *kind, const char *words)
{
    char stamp[40];
    time_t now = time(NULL);
    struct tm local;

    localtime_r(&now, &local);
    (void)strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S%z", &local);
    (void)printf("%s %s%s%s\n", stamp, kind, *words ? " " : "", words);
}

static struct watch_entry *find(struct watch_entry *list, size_t count, const char *token,
                                bool holds)
{
    for (size_t i = 0; i < count; i++) {
        if (list[i].holds == holds && strcmp(list[i].token, token) == 0) {
            return &list[i];
        }
    }
    return NULL;
}

static void free_entries(struct watch_entry *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(list[i].token);
        free(list[i].words);
    }
    free(list);
}

static bool note(struct watch_entry *entries, const struct lw_inspected *entry,
                 bool holds)
{
    char words[WORDS];

    status_entry(entry, words, sizeof(words));
    *entries = (struct watch_entry){holds, *entry->client != '\0', strdup(entry->token),
                                    strdup(words)};
    return entries->token != NULL && entries->words != NULL;
}

/* A client that ends withdraws its name before its token goes: the known name stays. */
static void keep_client_name(struct watch_lines *lines, struct watch_entry *now)
{
    struct watch_entry *before =
        find(lines->entries, lines->count, now->token, now->holds);

    if (before != NULL && before->named && !now->named) {
        struct watch_entry nameless = *now;
        *now = *before;
        *before = nameless;
    }
}

/* Takes `now`, which has `count` entries. */
static void write_changes(struct watch_lines *lines, struct watch_entry *now,
                          size_t count)
{
    for (size_t i = 0; i < lines->count; i++) {
        const struct watch_entry *before = &lines->entries[i];

        if (find(now, count, before->token, true) == NULL &&
            find(now, count, before->token, false) == NULL) {
            write_event("left", before->words);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (find(lines->entries, lines->count, now[i].token, now[i].holds) == NULL) {
            write_event(now[i].holds ? "holds" : "waits", now[i].words);
        }
        keep_client_name(lines, &now[i]);
    }
    free_entries(lines->entries, lines->count);
    lines->entries = now;
    lines->count = count;
}

static void write_headline(struct watch_lines *lines, const char *headline)
{
    if (strcmp(headline, lines->headline) == 0) {
        return;
    }
    if (*headline) {
        write_event(headline, "");
    }
    (void)snprintf(lines->headline, sizeof(lines->headline), "%s", headline);
}

static void write_master(struct watch_lines *lines, const struct lw_master *master)
{
    char place[sizeof(lines->master)], words[WORDS];

    status_endpoint(master, place, sizeof(place));
    if (*lines->master && strcmp(place, lines->master) != 0) {
        (void)snprintf(words, sizeof(words), "of %s: %s, was %s", master->service, place,
                       lines->master);
        write_event("master", words);
    }
    (void)snprintf(lines->master, sizeof(lines->master), "%s", place);
}

/* Returns false if there is no memory. */
static bool lines_seen(struct watch_lines *lines, const struct lw_inspection *seen,
                       const struct lw_master *master)
{
    size_t count = seen->holder_count + seen->waiter_count;
    struct watch_entry *now = calloc(count + 1, sizeof(*now));
    char headline[WORDS], server[1000];
    bool done = now != NULL;

    for (size_t i = 0; done && i < count; i++) {
        done = i < seen->holder_count
                   ? note(&now[i], lw_inspection_holder(seen, i), true)
                   : note(&now[i], lw_inspection_waiter(seen, i - seen->holder_count),
                          false);
    }
    if (!done) {
        if (now != NULL) {
            free_entries(now, count);
        }
        return false;
    }
    if (lines->outage_written) {
        status_server(seen, server, sizeof(server));
        write_event("answers:", server);
        lines->outage_written = false;
    }
    if (master != NULL) {
        write_master(lines, master);
    }
    write_changes(lines, now, count);
    headline[0] = '\0';
    if (seen->holder_total == 0) {
        status_headline(seen, "free", 0, headline, sizeof(headline));
    }
    write_headline(lines, headline);
    return true;
}

/* Called when an outage begins or changes. `age_ms` is that of the last look, or -1. */
static void lines_outage(struct watch_lines *lines, const struct watch_outage *outage,
                         int64_t age_ms)
{
    char age[40], words[WORDS];

    if (*outage->why) {
        (void)snprintf(words, sizeof(words), "%s: %s", outage->kind, outage->why);
    } else if (age_ms >= 0) {
        status_age(age_ms, age, sizeof(age));
        (void)snprintf(words, sizeof(words), "%s, the last one was %s ago", outage->kind,
                       age);
    } else {
        (void)snprintf(words, sizeof(words), "%s", outage->kind);
    }
    write_headline(lines, words);
    lines->outage_written = true;
}

/* ---- JSON ---- */

/* Returns false if there is no memory. */
static bool write_json(char *line)
{
    if (line == NULL) {
        return false;
    }
    (void)printf("%s\n", line);
    free(line);
    return true;
}

/* `last` is the last state without times, or NULL if none, or an outage, was written
 * last. */
static bool json_seen(char **last, const struct lw_inspection *seen,
                      const struct lw_master *master)
{
    char *lasting = status_json_line(seen, NULL, master, true);

    if (lasting == NULL) {
        return false;
    }
    if (*last != NULL && strcmp(*last, lasting) == 0) {
        free(lasting);
        return true;
    }
    free(*last);
    *last = lasting;
    return write_json(status_json_line(seen, NULL, master, false));
}

static bool json_outage(char **last, const char *name, const struct watch_outage *outage,
                        int64_t age_ms)
{
    free(*last);
    *last = NULL;
    return write_json(status_json_outage(name, outage->kind, outage->why, age_ms));
}

/* ---- the watch ---- */

#define SILENCE_MS 1000 /* a look that is so late is shown as an outage */
#define TICK_MS 1000    /* the age is redrawn, at least */

enum form { SCREEN, LINES, JSON };

struct watch {
    struct query query;
    struct event *tick;
    enum form form;
    struct status_view view;    /* SCREEN: the last state */
    bool drawn;                 /* SCREEN: the screen has been cleared */
    struct watch_lines lines;   /* LINES */
    char *last_json;            /* JSON */
    struct lw_watcher *watcher; /* NULL until the link was up */
    bool up;
    int failures;      /* successive looks that failed */
    int64_t looked_ms; /* when the last look ended, or the link came up */
    int64_t answer_ms; /* when the last successful look ended; -1: none was */
    struct watch_outage outage;
    struct terminal terminal; /* for the keys, in form SCREEN */
    struct event *key;        /* NULL if keys are never read */
    bool reading_keys;        /* the terminal has our modes */
};

/* Ends the query if there was no memory, or if the output cannot be written. */
static void shown(struct watch *watch, bool done)
{
    if (!done) {
        query_fail(&watch->query, LW_ENOMEM, "");
    } else if (fflush(stdout) != 0 && errno == EPIPE) { /* the usual end of a pipe */
        query_end(&watch->query, EXIT_SUCCESS);
    } else if (!report_flush()) {
        query_end(&watch->query, EXIT_SYSTEM);
    }
}

static int64_t age_ms(const struct watch *watch)
{
    return watch->answer_ms < 0 ? -1 : system_now_ms() - watch->answer_ms;
}

/* ---- the screen ---- */

/* Returns the last state with its age, or without one the outage; NULL if there is no
 * memory. */
static char *screen_text(const struct watch *watch)
{
    const struct watch_outage *outage = &watch->outage;
    char remark[40] = "", shown[2000], *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    if (out == NULL) {
        return NULL;
    }
    if (outage->kind != NULL) {
        (void)snprintf(remark, sizeof(remark), "%s since", outage->kind);
    }
    if (watch->view.tables != NULL) {
        status_view_write(out, &watch->view, age_ms(watch), remark, outage->why,
                          terminal_size(STDOUT_FILENO).ws_col);
    } else if (outage->kind != NULL) {
        lw__escape(watch->query.options->name, shown, sizeof(shown));
        (void)fprintf(out, "%s: %s%s%s\n", shown, outage->kind, *outage->why ? ": " : "",
                      outage->why);
    }
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* Draws from the top left corner as much as fits. Returns false if there is no memory. */
static bool draw_screen(struct watch *watch)
{
    struct winsize size = terminal_size(STDOUT_FILENO);
    char *text = screen_text(watch), *line = text;

    if (text == NULL) {
        return false;
    }
    (void)fputs(watch->drawn ? "\033[H" : "\033[2J\033[H", stdout);
    watch->drawn = true;
    for (int rows = size.ws_row - 1; *line && rows > 0; rows--) {
        size_t length = strcspn(line, "\n");

        (void)fwrite(line, 1, columns_fit(line, length, size.ws_col), stdout);
        (void)fputs("\033[K\n", stdout);
        line += length + (line[length] == '\n');
    }
    (void)fputs("\033[J", stdout);
    free(text);
    return true;
}

/* ---- keys ---- */

static void on_key(evutil_socket_t fd, short what, void *arg)
{
    struct watch *watch = arg;
    char keys[64];
    ssize_t length;

    (void)what;
    if (!terminal_is_ours(&watch->terminal)) { /* a read would stop this process */
        watch->reading_keys = false;
        return;
    }
    length = read(fd, keys, sizeof(keys));
    if (length > 0 && memchr(keys, 'q', (size_t)length) != NULL) {
        query_end(&watch->query, EXIT_SUCCESS);
    } else if (length > 0 || (length < 0 && (errno == EAGAIN || errno == EINTR))) {
        event_add(watch->key, NULL);
    }
}

/* Starts to read keys, unless it does already or the terminal is another job's. */
static void read_keys(struct watch *watch)
{
    if (watch->key != NULL && !watch->reading_keys &&
        terminal_read_keys(&watch->terminal)) {
        watch->reading_keys = true;
        event_add(watch->key, NULL);
    }
}

static void leave_keys(struct watch *watch)
{
    if (watch->reading_keys) {
        watch->reading_keys = false;
        event_del(watch->key);
        terminal_restore(&watch->terminal);
    }
}

static bool open_keys(struct watch *watch)
{
    if (watch->form != SCREEN || isatty(STDIN_FILENO) != 1) {
        return true;
    }
    terminal_open(&watch->terminal);
    if (watch->terminal.fd < 0) {
        return true;
    }
    signals_enable_job_control();
    (void)evutil_make_socket_nonblocking(watch->terminal.fd); /* not shared with others */
    watch->key = event_new(watch->query.base, watch->terminal.fd, EV_READ, on_key, watch);
    read_keys(watch);
    return watch->key != NULL;
}

static void close_keys(struct watch *watch)
{
    if (watch->key != NULL) {
        leave_keys(watch);
        event_free(watch->key);
    }
    terminal_close(&watch->terminal);
}

/* ---- outages ---- */

static void show_outage(struct watch *watch)
{
    switch (watch->form) {
    case SCREEN:
        shown(watch, draw_screen(watch));
        break;
    case LINES:
        lines_outage(&watch->lines, &watch->outage, age_ms(watch));
        shown(watch, true);
        break;
    case JSON:
        shown(watch, json_outage(&watch->last_json, watch->query.options->name,
                                 &watch->outage, age_ms(watch)));
    }
}

/* Shows an outage when it begins or changes. */
static void note_outage(struct watch *watch, const char *kind, const char *why)
{
    struct watch_outage outage = {.kind = kind};

    lw__escape(why, outage.why, sizeof(outage.why));
    if (watch->outage.kind == NULL || strcmp(watch->outage.kind, kind) != 0 ||
        strcmp(watch->outage.why, outage.why) != 0) {
        watch->outage = outage;
        show_outage(watch);
    }
}

static void note_no_connection(struct watch *watch, const char *why)
{
    note_outage(watch, "no connection", *why ? why : "connecting");
}

static void note_not_now(struct watch *watch, const char *why)
{
    if (report_state(why) != NULL) {
        note_outage(watch, "not now", why);
    } else {
        note_no_connection(watch, why);
    }
}

/* ---- the looks ---- */

static bool show(struct watch *watch, const struct lw_inspection *seen)
{
    struct lw_master followed = LW_MASTER_INIT;
    const struct lw_master *master = query_master(&watch->query, &followed);

    switch (watch->form) {
    case SCREEN:
        return status_view_take(&watch->view, seen, "free", master,
                                terminal_size(STDOUT_FILENO).ws_col) == 0 &&
               draw_screen(watch);
    case LINES:
        return lines_seen(&watch->lines, seen, master);
    default:
        return json_seen(&watch->last_json, seen, master);
    }
}

static void schedule(struct watch *watch)
{
    int64_t ms = watch->query.options->interval_ms;
    struct timeval wait;

    ms = ms < TICK_MS ? ms : TICK_MS;
    wait = (struct timeval){(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};
    if (!watch->query.ending) {
        event_add(watch->tick, &wait);
    }
}

/* Returns true if the failure is waited out: a refusal as well, once the lock was seen,
 * because a password or a permission may be changing. */
static bool is_outage(const struct watch *watch, int result)
{
    return result == LW_ECONN || (result == LW_EREDIS && watch->answer_ms >= 0);
}

static void on_looked(struct lw_watcher *watcher, int result,
                      const struct lw_inspection *seen, const char *why, void *arg)
{
    struct watch *watch = arg;

    (void)watcher;
    if (watch->query.ending) {
        return;
    }
    watch->looked_ms = system_now_ms();
    if (result == LW_OK) {
        watch->failures = 0;
        watch->answer_ms = watch->looked_ms;
        watch->outage = (struct watch_outage){.kind = NULL};
        shown(watch, show(watch, seen));
    } else if (!is_outage(watch, result)) {
        query_fail(&watch->query, result, why);
    } else if (watch->up && watch->failures++ > 0) {
        note_not_now(watch, why); /* at first on_down may follow, with a better reason */
    }
}

static void begin(struct watch *watch)
{
    struct lw_watch_options options = LW_WATCH_OPTIONS_INIT;
    int error;

    options.interval_ms = (uint32_t)watch->query.options->interval_ms;
    options.every_look = 1;
    error = lw_watch(watch->query.client, watch->query.options->name, &options, on_looked,
                     watch, &watch->watcher);
    if (error != LW_OK) {
        query_fail(&watch->query, error, "");
    }
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct watch *watch = arg;
    int64_t late_ms = system_now_ms() - watch->looked_ms -
                      watch->query.options->interval_ms;

    (void)fd, (void)what;
    if (watch->query.ending) {
        return;
    }
    read_keys(watch);
    if (watch->up && watch->outage.kind == NULL && late_ms >= SILENCE_MS) {
        note_outage(watch, "no answer", "");
    } else if (watch->form == SCREEN) {
        shown(watch, draw_screen(watch));
    }
    schedule(watch);
}

static void on_up(struct query *query)
{
    struct watch *watch = query->arg;

    watch->up = true;
    watch->looked_ms = system_now_ms();
    if (watch->watcher == NULL) {
        begin(watch);
    }
    schedule(watch);
}

static void on_down(struct query *query, const char *why)
{
    struct watch *watch = query->arg;

    watch->up = false;
    note_no_connection(watch, why);
    if (!event_pending(watch->tick, EV_TIMEOUT,
                       NULL)) { /* not delayed by attempts to connect */
        schedule(watch);
    }
}

static void on_signal(int number, bool from_terminal, void *arg)
{
    struct watch *watch = arg;

    (void)from_terminal;
    if (number == SIGTSTP) {
        leave_keys(watch);
        (void)signals_stop(number, false);
        watch->drawn = false; /* the shell has written to it */
        read_keys(watch);
    } else if (number != SIGCHLD && number != SIGTTIN) {
        query_end(&watch->query, EXIT_SUCCESS);
    }
}

static void clear(struct watch *watch)
{
    status_view_clear(&watch->view);
    free_entries(watch->lines.entries, watch->lines.count);
    free(watch->last_json);
}

int watch(const struct options *options)
{
    static const struct query_events events = {.up = on_up, .down = on_down};
    struct watch watch = {.query = {.options = options, .events = &events},
                          .answer_ms = -1,
                          .terminal.fd = -1};
    int code;

    watch.query.arg = &watch;
    watch.form = options->json ? JSON : isatty(STDOUT_FILENO) == 1 ? SCREEN : LINES;
    code = query_open(&watch.query, "lockwire-watch");
    if (code == 0) {
        watch.tick = event_new(watch.query.base, -1, 0, on_tick, &watch);
        if (watch.tick != NULL && open_keys(&watch) &&
            signals_watch(watch.query.base, on_signal, &watch) == 0) {
            code = query_run(&watch.query);
        } else {
            report("cannot start an event loop");
            code = EXIT_SYSTEM;
        }
    }
    close_keys(&watch);
    signals_unwatch();
    if (watch.tick != NULL) {
        event_free(watch.tick);
    }
    lw_watcher_free(watch.watcher);
    query_close(&watch.query);
    clear(&watch);
    return code;
}

/* SPDX-License-Identifier: MIT */
/*
 * The machine's runs as text: see machine_trace.h. Reads a line up to the arrow, steps,
 * writes the line again with the result, and compares.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "machine_trace.h"

#include "lockwire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE 256
#define NOT_GIVEN INT64_MIN
#define WINDOW_US 2000000
#define AHEAD_US 50000000 /* the server's clock is ahead of ours by this */

static const char *const events[] = {
    [LW__EV_START] = "start",
    [LW__EV_GRANTED] = "granted",
    [LW__EV_QUEUED] = "queued",
    [LW__EV_NOT_GRANTED] = "not_granted",
    [LW__EV_DEADLOCK] = "deadlock",
    [LW__EV_UNKNOWN] = "unknown",
    [LW__EV_REFUSED] = "refused",
    [LW__EV_RELEASED] = "released",
    [LW__EV_RENEWED] = "renewed",
    [LW__EV_LOST_ON_SERVER] = "lost_on_server",
    [LW__EV_HANDED_OVER] = "handed_over",
    [LW__EV_STANDBY] = "standby",
    [LW__EV_RETRY_NOW] = "retry_now",
    [LW__EV_DUE] = "due",
    [LW__EV_CANCEL] = "cancel",
    [LW__EV_RELEASE] = "release",
    [LW__EV_UNDELIVERED] = "undelivered",
    [LW__EV_LOST_LOCALLY] = "lost_locally",
    [LW__EV_NOT_ADOPTED] = "not_adopted",
    [LW__EV_SHORTEN] = "shorten",
    [LW__EV_LEASE_SET] = "lease_set",
    [LW__EV_VOTED] = "voted",
};
#define EVENTS (sizeof(events) / sizeof(*events))

const char *trace_phase(enum lw__phase phase)
{
    static const char *const phases[] = {"idle",      "acquiring",       "queued",
                                         "held",      "held_by_message", "expired",
                                         "releasing", "release_due",     "ended"};

    return phases[phase];
}

const char *trace_ms(int64_t us, char room[32])
{
    size_t length;

    (void)snprintf(room, 32, "%lld.%03d", (long long)(us / 1000), (int)(us % 1000));
    length = strlen(room);
    while (room[length - 1] == '0') {
        room[--length] = '\0';
    }
    if (room[length - 1] == '.') {
        room[length - 1] = '\0';
    }
    return room;
}

/* ---- reading ---- */

/* "12.5" -> 12500; fails the test on anything else. */
static int64_t read_ms(const char *text)
{
    char *end;
    int64_t us = strtoll(text, &end, 10) * 1000;
    int64_t unit = 100;

    if (*end == '.') {
        for (end++; *end >= '0' && *end <= '9'; end++, unit /= 10) {
            us += (*end - '0') * unit;
        }
    }
    if (*end != '\0' || end == text) {
        fail_msg("no time: %s", text);
    }
    return us;
}

static int64_t read_number(const char *text)
{
    char *end;
    int64_t number = strtoll(text, &end, 10);

    if (*end != '\0' || end == text) {
        fail_msg("no number: %s", text);
    }
    return number;
}

/* Returns the flag for this word of the event, or NULL. */
static bool *flag_of(struct lw__input *in, const char *word)
{
    const struct {
        enum lw__event event;
        const char *word;
        bool *flag;
    } flags[] = {
        {LW__EV_START, "script", &in->start.first_script},
        {LW__EV_START, "behind", &in->start.behind},
        {LW__EV_QUEUED, "again", &in->queued.again},
        {LW__EV_RELEASED, "again", &in->released.again},
        {LW__EV_RELEASED, "released", &in->released.released},
        {LW__EV_NOT_GRANTED, "set", &in->not_granted.set_done},
        {LW__EV_RELEASE, "detaches", &in->release.detaches},
    };

    for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++) {
        if (in->event == flags[i].event && strcmp(word, flags[i].word) == 0) {
            return flags[i].flag;
        }
    }
    return NULL;
}

static bool read_flag(struct lw__input *in, const char *word)
{
    bool *flag = flag_of(in, word);

    if (flag != NULL) {
        *flag = true;
    } else if (strcmp(word, "unlinked") == 0) {
        in->linked = false;
    } else if (strcmp(word, "unsent") == 0) {
        in->unknown.was_sent = false;
    } else if (strcmp(word, "for_now") == 0) {
        in->unknown.for_now = true;
    } else {
        return false;
    }
    return true;
}

static void read_field(struct lw__input *in, const char *word)
{
    const struct {
        enum lw__event event;
        const char *name;
        int64_t *number;
        bool time;
    } fields[] = {
        {in->event, "sent", &in->sent_us, true},
        {in->event, "jitter", &in->jitter, false},
        {LW__EV_QUEUED, "left", &in->queued.remaining_ms, false},
        {LW__EV_QUEUED, "pos", &in->queued.position, false},
        {LW__EV_QUEUED, "ticket", &in->queued.ticket, false},
        {LW__EV_NOT_GRANTED, "ticket", &in->not_granted.ticket, false},
        {LW__EV_QUEUED, "server", &in->queued.server_us, true},
        {LW__EV_HANDED_OVER, "t", &in->handed_over.handed_us, true},
        {LW__EV_HANDED_OVER, "s", &in->handed_over.pair_sent_us, true},
        {LW__EV_HANDED_OVER, "tau", &in->handed_over.pair_server_us, true},
        {LW__EV_HANDED_OVER, "fence", (int64_t *)&in->handed_over.fence, false},
        {LW__EV_GRANTED, "fence", (int64_t *)&in->granted.fence, false},
        {LW__EV_STANDBY, "window", &in->standby.window_us, true},
        {LW__EV_RENEWED, "lease", &in->renewed.lease_us, true},
        {LW__EV_RENEWED, "wanted", &in->renewed.wanted_us, true},
        {LW__EV_SHORTEN, "lease", &in->shorten.lease_us, true},
        {LW__EV_LEASE_SET, "lease", &in->lease_set.lease_us, true},
        {LW__EV_LOST_LOCALLY, "at", &in->lost_locally.at_us, true},
        {LW__EV_START, "ticket", &in->start.ticket, false},
        {LW__EV_VOTED, "D", &in->voted.deadline_us, true},
        {LW__EV_VOTED, "wanted", &in->voted.wanted_us, true},
        {LW__EV_RELEASED, "holds", &in->released.holds_left, false},
    };
    const char *value = strchr(word, '=');
    size_t length = value != NULL ? (size_t)(value - word) : 0;

    if (read_flag(in, word)) {
        return;
    }
    for (size_t i = 0; value != NULL && i < sizeof(fields) / sizeof(*fields); i++) {
        if (in->event == fields[i].event && strlen(fields[i].name) == length &&
            strncmp(word, fields[i].name, length) == 0) {
            *fields[i].number = fields[i].time ? read_ms(value + 1)
                                               : read_number(value + 1);
            return;
        }
    }
    fail_msg("no field of that event: %s", word);
}

static enum lw__event read_event(const char *word)
{
    for (size_t i = 0; word != NULL && i < EVENTS; i++) {
        if (strcmp(events[i], word) == 0) {
            return (enum lw__event)i;
        }
    }
    fail_msg("no event: %s", word != NULL ? word : "(nothing)");
    return LW__EV_START;
}

static void read_terms(struct trace *trace)
{
    const char *word;

    while ((word = strtok(NULL, " ")) != NULL) {
        if (strncmp(word, "lease=", 6) == 0) {
            lw__machine_init(&trace->machine, WINDOW_US, read_ms(word + 6));
        } else if (strncmp(word, "margin=", 7) == 0) {
            trace->margin_us = read_ms(word + 7);
        } else {
            fail_msg("no term: %s", word);
        }
    }
}

/* Returns the event's usual fields, for a line without them. */
static struct lw__input usual(const struct trace *trace, enum lw__event event)
{
    const struct lw__machine *m = &trace->machine;
    struct lw__input in = {.event = event,
                           .sent_us = trace->sent_us,
                           .margin_us = trace->margin_us,
                           .linked = true};

    switch (event) {
    case LW__EV_UNKNOWN:
    case LW__EV_REFUSED:
        in.unknown.was_sent = true;
        break;
    case LW__EV_QUEUED:
        in.queued.ticket = NOT_GIVEN;
        break;
    case LW__EV_HANDED_OVER:
        in.handed_over.pair_sent_us = trace->pair_sent_us;
        in.handed_over.pair_server_us = trace->pair_server_us;
        break;
    case LW__EV_LEASE_SET:
        in.lease_set.lease_us = m->lease_us;
        break;
    case LW__EV_NOT_ADOPTED:
        in.not_adopted.status = LW_ENOTHELD;
        break;
    case LW__EV_RENEWED:
        in.renewed.wanted_us = INT64_MAX;
        break;
    case LW__EV_VOTED:
        in.voted.deadline_us = m->deadline_us;
        in.voted.wanted_us = m->lease_us;
        break;
    case LW__EV_LOST_LOCALLY:
        in.lost_locally.at_us = m->deadline_us;
        break;
    default:
        break;
    }
    return in;
}

/* Cuts up the line. */
static struct lw__input read_input(const struct trace *trace, char *first)
{
    int64_t now_us = read_ms(first);
    struct lw__input in = usual(trace, read_event(strtok(NULL, " ")));
    const char *word;

    in.now_us = now_us;
    while ((word = strtok(NULL, " ")) != NULL) {
        read_field(&in, word);
    }
    if (in.event == LW__EV_QUEUED && in.queued.server_us == 0) {
        in.queued.server_us = in.sent_us + AHEAD_US;
    }
    if (in.event == LW__EV_QUEUED && in.queued.ticket == NOT_GIVEN) {
        in.queued.ticket = in.queued.position >= 0 && trace->machine.ticket < 0
                               ? 100
                               : trace->machine.ticket;
    }
    return in;
}

/* ---- writing ---- */

static void add(char *line, const char *separator, const char *format, ...)
{
    size_t at = strlen(line);
    va_list args;

    at += (size_t)snprintf(line + at, LINE - at, "%s", separator);
    va_start(args, format);
    (void)vsnprintf(line + at, LINE - at, format, args);
    va_end(args);
}

static const char *status(int error)
{
    static const struct {
        int error;
        const char *name;
    } names[] = {
        {LW_OK, "OK"},
        {LW_STILLHELD, "STILLHELD"},
        {LW_ENOTHELD, "ENOTHELD"},
        {LW_EUNKNOWN, "EUNKNOWN"},
        {LW_ECONN, "ECONN"},
        {LW_EREDIS, "EREDIS"},
        {LW_EDEADLOCK, "EDEADLOCK"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (names[i].error == error) {
            return names[i].name;
        }
    }
    return "(no status of these)";
}

static void write_actions(char *line, const struct lw__output *out)
{
    static const struct {
        unsigned action;
        const char *name;
    } names[] = {
        {LW__DO_RELEASED, "RELEASED"}, {LW__DO_LOST, "LOST"},
        {LW__DO_GRANT, "GRANT"},       {LW__DO_BUSY, "BUSY"},
        {LW__DO_FAIL, "FAIL"},         {LW__SEND_TRY, "try"},
        {LW__SEND_ACQUIRE, "acquire"}, {LW__SEND_RELEASE, "release"},
        {LW__DO_END, "END"},
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        if (!(out->actions & names[i].action)) {
            continue;
        }
        if (names[i].action == LW__DO_RELEASED) {
            add(line, " ", "RELEASED %s,", status(out->release_status));
        } else if (names[i].action == LW__DO_FAIL) {
            add(line, " ", "FAIL %s,", status(out->fail_status));
        } else {
            add(line, " ", "%s,", names[i].name);
        }
    }
}

static void write_state(char *line, const struct lw__machine *m)
{
    char room[32];

    add(line, " ", "%s", trace_phase(m->phase));
    if (lw__machine_holds(m->phase) || m->phase == LW__EXPIRED) {
        add(line, " ", "D=%s", trace_ms(m->deadline_us, room));
    }
    if (lw__machine_holds(m->phase)) {
        add(line, " ", "fence=%llu", (unsigned long long)m->fence);
    }
    if (m->due_us != LW__NEVER) {
        add(line, " ", "due=%s", trace_ms(m->due_us, room));
    }
    if (m->ticket >= 0 && m->phase != LW__ENDED) {
        add(line, " ", "ticket=%lld", (long long)m->ticket);
    }
}

/* ---- running ---- */

void trace_init(struct trace *trace)
{
    *trace = (struct trace){.sent_us = 0};
    lw__machine_init(&trace->machine, WINDOW_US, 10000000);
}

static void note(struct trace *trace, const struct lw__input *in,
                 const struct lw__output *out)
{
    if (out->actions & (LW__SEND_TRY | LW__SEND_ACQUIRE | LW__SEND_RELEASE)) {
        trace->sent_us = in->now_us;
    }
    if (in->event == LW__EV_QUEUED) {
        trace->pair_sent_us = in->sent_us;
        trace->pair_server_us = in->queued.server_us;
    }
}

/* Returns the event, or -1 for a line of terms. */
static int run_line(struct trace *trace, const char *line)
{
    const char *arrow = strstr(line, " -> ");
    char before[LINE], actual[LINE] = "", *first;
    struct lw__input in;
    struct lw__output out;

    (void)snprintf(before, sizeof(before), "%.*s",
                   arrow != NULL ? (int)(arrow - line) : LINE, line);
    add(actual, before, " ->");
    first = strtok(before, " ");
    if (strcmp(first, "terms") == 0) {
        read_terms(trace);
        return -1;
    }
    in = read_input(trace, first);
    out = lw__machine_step(&trace->machine, &in);
    note(trace, &in, &out);
    write_actions(actual, &out);
    write_state(actual, &trace->machine);
    assert_string_equal(actual, line);
    return (int)in.event;
}

static const char *next_line(const char *script, char line[LINE])
{
    size_t length;

    while (*script == ' ' || *script == '\n') {
        script++;
    }
    length = strcspn(script, "\n");
    if (length >= LINE) {
        fail_msg("a line is too long: %s", script);
        abort(); /* never; for the compiler */
    }
    memcpy(line, script, length);
    line[length] = '\0';
    return script + length;
}

void trace_run(struct trace *trace, const char *script)
{
    char line[LINE];

    for (script = next_line(script, line); *line; script = next_line(script, line)) {
        run_line(trace, line);
    }
}

void trace_check(const char *script)
{
    struct trace trace;

    trace_init(&trace);
    trace_run(&trace, script);
}

static void changes_nothing(const struct trace *trace, enum lw__event event,
                            int64_t now_us)
{
    struct trace cell = *trace;
    struct lw__input in = usual(trace, event);
    struct lw__output out;

    in.now_us = now_us;
    if (event == LW__EV_HANDED_OVER) {
        in.handed_over.handed_us = 1;
    }
    out = lw__machine_step(&cell.machine, &in);
    if (out.actions != 0 ||
        memcmp(&cell.machine, &trace->machine, sizeof(cell.machine)) != 0) {
        fail_msg("%s should change nothing", events[event]);
    }
}

void trace_cells(const char *before, const char *lines)
{
    bool seen[EVENTS] = {false};
    struct trace trace, cell;
    int64_t now_us = 0;
    char line[LINE];

    trace_init(&trace);
    trace_run(&trace, before);
    for (lines = next_line(lines, line); *line; lines = next_line(lines, line)) {
        int event;

        cell = trace;
        event = run_line(&cell, line);
        assert_true(event >= 0);
        seen[event] = true;
        line[strcspn(line, " ")] = '\0';
        now_us = read_ms(line);
    }
    for (size_t i = 0; i < EVENTS; i++) {
        if (!seen[i]) {
            changes_nothing(&trace, (enum lw__event)i, now_us);
        }
    }
}

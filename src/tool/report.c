/* SPDX-License-Identifier: MIT */
/* See report.h. Whether a transient line is displayed, and which messages are kept, is
 * static: there is one standard error output. */
#include "report.h"

#include "lockwire.h"

#include <errno.h>
#include <event2/event.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TRANSIENT_MAX 4096
#define WRITE_LIMIT_MS 200
#define KEPT_US 100000

static bool transient_displayed;

void report_transient(const char *line)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    char text[TRANSIENT_MAX];
    int length = snprintf(text, sizeof(text), "\r%s\033[K", line);

    if ((!transient_displayed && !*line) || length >= TRANSIENT_MAX ||
        poll(&out, 1, 0) != 1 || (out.revents & POLLOUT) == 0) {
        return;
    }
    transient_displayed = write(STDERR_FILENO, text, (size_t)length) > 0 && *line;
}

/* At most PIPE_BUF bytes are written as a whole. */
static void write_line(const char *message)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    char text[PIPE_BUF];
    size_t length;

    report_transient("");
    (void)snprintf(text, sizeof(text) - 1, "lockwire: %s", message);
    length = strlen(text);
    text[length++] = '\n';
    if (poll(&out, 1, WRITE_LIMIT_MS) == 1) {
        transient_displayed = write(STDERR_FILENO, text, length) < 0 &&
                              transient_displayed;
    }
}

void report(const char *format, ...)
{
    char message[PIPE_BUF];
    va_list args;

    report_kept();
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    write_line(message);
}

/* ---- messages that may be repeated by the next report ---- */

static struct {
    char text[4][LW_WHY_SIZE];
    size_t count;
    bool is_due_soon; /* an event calls report_kept */
} kept;

static void on_due(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg;
    report_kept();
}

void report_later(struct event_base *base, const char *message)
{
    if (kept.count == sizeof(kept.text) / sizeof(*kept.text)) {
        report_kept();
    }
    (void)snprintf(kept.text[kept.count++], LW_WHY_SIZE, "%s", message);
    if (!kept.is_due_soon) {
        kept.is_due_soon = event_base_once(base, -1, EV_TIMEOUT, on_due, NULL,
                                           &(struct timeval){0, KEPT_US}) == 0;
    }
}

void report_drop(const char *cause)
{
    size_t count = 0;

    for (size_t i = 0; *cause && i < kept.count; i++) {
        if (strstr(kept.text[i], cause) == NULL) {
            memmove(kept.text[count++], kept.text[i], LW_WHY_SIZE);
        }
    }
    kept.count = *cause ? count : kept.count;
}

void report_kept(void)
{
    for (size_t i = 0; i < kept.count; i++) {
        write_line(kept.text[i]);
    }
    kept.count = 0;
    kept.is_due_soon = false;
}

/* ---- failures ---- */

/* Returns true if the text has this error of a server: at its beginning, or behind the
 * step at which the server sent it ("CLIENT SETNAME: LOADING ..."). */
static bool has_code(const char *text, const char *code)
{
    size_t length = strlen(code);

    for (; text != NULL; text = strstr(text, ": ")) {
        text += strncmp(text, ": ", 2) == 0 ? 2 : 0;
        if (strncmp(text, code, length) == 0 &&
            (text[length] == ' ' || text[length] == '\0')) {
            return true;
        }
    }
    return false;
}

const char *report_state(const char *why)
{
    static const struct {
        const char *code, *sentence;
    } states[] = {
#define STATE(code, class, sentence) {code, sentence},
        LW__OUTCOME_NOT_NOW_MAP(STATE)
#undef STATE
    };

    for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
        if (has_code(why, states[i].code)) {
            return states[i].sentence;
        }
    }
    return NULL;
}

static enum lw__outcome outcome_of(int error)
{
    static const struct {
        int error;
        enum lw__outcome outcome;
    } outcomes[] = {
#define OUTCOME(error, outcome) {error, LW__OUTCOME_##outcome},
        LW__OUTCOME_OF_ERROR_MAP(OUTCOME)
#undef OUTCOME
    };

    for (size_t i = 0; i < sizeof(outcomes) / sizeof(*outcomes); i++) {
        if (outcomes[i].error == error) {
            return outcomes[i].outcome;
        }
    }
    return LW__OUTCOME_SYSTEM;
}

static const char *reason_of(int error, bool link_up, const char *why)
{
    static const char *const sentences[] = {
#define SENTENCE(outcome, code, retried, sentence) sentence,
        LW__OUTCOME_MAP(SENTENCE)
#undef SENTENCE
    };
    enum lw__outcome outcome = outcome_of(error);
    const char *state = outcome == LW__OUTCOME_NOT_NOW ? report_state(why) : NULL;

    if (state != NULL) {
        return state;
    }
    if (!link_up && outcome == LW__OUTCOME_NOT_NOW) {
        return "no connection to the server";
    }
    if (!link_up && outcome == LW__OUTCOME_NEVER) {
        return "the server rejected the connection";
    }
    return outcome == LW__OUTCOME_SYSTEM ? lw_strerror(error) : sentences[outcome];
}

void report_failure(const char *action, const char *name, int error, bool link_up,
                    const char *why)
{
    const char *reason = reason_of(error, link_up, why), *colon = *why ? ": " : "";

    report_drop(why);
    if (name != NULL) {
        report("cannot %s '%s': %s%s%s", action, name, reason, colon, why);
    } else {
        report("cannot %s: %s%s%s", action, reason, colon, why);
    }
}

bool report_flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return true;
    }
    report("cannot write to the standard output: %s", strerror(errno));
    return false;
}

bool report_is_no_connection(const char *message)
{
    static const char begin[] = "no connection: ";

    return strncmp(message, begin, sizeof(begin) - 1) == 0;
}

bool report_is_no_grant(const char *message)
{
    static const char begin[] = "no locks are granted by this server: ";

    return strncmp(message, begin, sizeof(begin) - 1) == 0;
}

static int code_of(int error, int busy)
{
    static const int codes[] = {
#define EXIT_CODE(outcome, code, retried, sentence) code,
        LW__OUTCOME_MAP(EXIT_CODE)
#undef EXIT_CODE
    };
    enum lw__outcome outcome = outcome_of(error);

    return outcome == LW__OUTCOME_BUSY ? busy : codes[outcome];
}

int exit_code_for(int status, int cause, int busy)
{
    bool by_cause = false;

    switch (outcome_of(status)) {
    case LW__OUTCOME_LOST: /* silence or a state of the server is not the caller's fault
                            */
        by_cause = cause == LW_EREDIS;
        break;
    case LW__OUTCOME_BUSY: /* or, with LW_ETIMEOUT, never requested successfully */
        by_cause = status == LW_ETIMEOUT && cause != LW_OK;
        break;
    case LW__OUTCOME_NOT_NOW:
    case LW__OUTCOME_NEVER:
        by_cause = cause != LW_OK;
        break;
    default:
        break;
    }
    return code_of(by_cause ? cause : status, busy);
}

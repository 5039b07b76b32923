/* SPDX-License-Identifier: MIT */
/* lockwire: standard descriptors, options, passwords, signals, the embedded server if
 * there is one, the subcommand, the end of the server, in this order. */
#include "embedded.h"
#include "options.h"
#include "password.h"
#include "report.h"
#include "signals.h"
#include "subcommands.h"
#include "system.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Otherwise a pipe or a socket could get the number of a closed one, and its data. open
 * returns the lowest free number. Writing to a closed output fails nevertheless, also for
 * COMMAND, so that no output is lost without an error. */
static bool open_standard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != fd) {
            return false;
        }
    }
    return true;
}

static int dispatch(const struct options *options, struct embedded *server)
{
    static int (*const functions[SUBCOMMANDS])(const struct options *options) = {
        [HOLD] = hold,        [TAKE] = take,        [RELEASE] = release,
        [STATUS] = status,    [WATCH] = watch,      [LIST] = list,
        [YIELD] = yield_lock, [BREAK] = break_lock, [DOCTOR] = doctor};

    return functions[options->subcommand] != NULL
               ? functions[options->subcommand](options)
               : run(options, server);
}

static int dispatch_embedded(struct options *options)
{
    struct embedded server;
    char why[EMBEDDED_WHY_MAX];
    int code;

    if (embedded_start(&server, NULL, NULL, why) < 0) {
        (void)fprintf(stderr, "lockwire: %s\n", why);
        return EXIT_NO_SERVER;
    }
    options->url = embedded_url(&server);
    code = dispatch(options, &server);
    embedded_stop(&server);
    return code;
}

/* The messages of libevent's name resolution are left out: the library reports names that
 * cannot be resolved. The library itself sets no such function, because it would be that
 * of the whole host process. */
static void on_libevent_log(int severity, const char *message)
{
    if (severity >= EVENT_LOG_WARN) {
        report("libevent: %s", message);
    }
}

/* libevent has reported the reason; its own exit code has another meaning. */
static void on_fatal(int error)
{
    (void)error;
    exit(EXIT_SYSTEM);
}

static bool catches_signals(enum subcommand subcommand)
{
    return subcommand == RUN || subcommand == LEAD || subcommand == HOLD ||
           subcommand == TAKE || subcommand == WATCH;
}

/* These promise that no process of COMMAND outlives the lock, which needs a parent for
 * each, or belong to a script that relies on the same. Returns true after a report. */
static bool is_refused(enum subcommand subcommand)
{
    if (system_adopts_descendants() ||
        (subcommand != RUN && subcommand != LEAD && subcommand != HOLD)) {
        return false;
    }
    report("run, lead and hold are not offered on this system, which cannot end all "
           "descendants of a process; take and release are");
    return true;
}

static char password[PASSWORD_MAX + 1], sentinel_password[PASSWORD_MAX + 1];
static char token[PASSWORD_MAX + 1];

/* Reads a password. If it can be read again, for each login, `ret` stays NULL; otherwise
 * *file becomes NULL. Returns 0, or the exit code after a report. */
static int read_password(const char *option, const char **file,
                         char buffer[PASSWORD_MAX + 1], char **ret)
{
    int code = password_read(option, *file, buffer);

    if (code == 0 && password_is_kept(*file)) {
        password_wipe(buffer);
    } else if (code == 0) {
        *file = NULL;
        *ret = buffer;
    }
    return code;
}

/* Reads the passwords and the token that are in files. Returns 0, or the exit code after
 * a report. */
static int read_secrets(struct options *options)
{
    int code = 0;

    if (options->password_file != NULL) {
        code = read_password("--password-file", &options->password_file, password,
                             &options->password);
    }
    if (code == 0 && options->sentinel_password_file != NULL) {
        code = read_password("--sentinel-password-file", &options->sentinel_password_file,
                             sentinel_password, &options->sentinel_password);
    }
    if (code == 0 && options->token_file != NULL) {
        code = password_read(options->subcommand == RELEASE ? "TOKEN" : "--token",
                             options->token_file, token);
        options->token = token;
    }
    return code;
}

int main(int argc, char **argv)
{
    struct options options;
    int code;

    if (!open_standard_descriptors()) {
        return EXIT_SYSTEM;
    }
    code = options_parse(argc, argv, &options);
    if (code >= 0) {
        return code;
    }
    if (is_refused(options.subcommand)) {
        return EXIT_USAGE;
    }
    code = read_secrets(&options); /* signals still end a long read */
    if (code != 0) {
        return code;
    }
    event_set_log_callback(on_libevent_log);
    event_set_fatal_callback(on_fatal);
    /* other subcommands may be ended by any signal, unless there is a server to stop */
    if ((options.embedded || catches_signals(options.subcommand)) &&
        signals_catch() < 0) {
        (void)fprintf(stderr, "lockwire: cannot catch signals: %s\n", strerror(errno));
        return EXIT_SYSTEM;
    }
    code = options.embedded ? dispatch_embedded(&options) : dispatch(&options, NULL);
    if (code < 0) {
        signals_terminate_by(-code);
    }
    return code;
}

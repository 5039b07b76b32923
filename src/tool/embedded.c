/* SPDX-License-Identifier: MIT */
/*
 * Starts, shares and stops a throw-away redis-server; see embedded.h. Must not know of
 * lockwire itself: the tests use it to judge the library.
 *
 * Happy path, private: a fresh folder, fork, exec, connect until PING is answered;
 * SIGKILL, waitpid. Shared: two files of the folder carry flocks. Starting and stopping
 * happen under `gate` (exclusive); everybody who uses the server holds `users` (shared)
 * for as long. Who leaves and can get `users` exclusively was the last one, and stops the
 * server. Both locks end with their process, so that one who crashed blocks nobody; a
 * server that the last one left running by crashing is taken over by the next. Who is
 * stopped while it has the gate keeps others waiting, until their limit.
 */
#include "embedded.h"

#include "base/escape.h"
#include "descriptors.h"
#include "patience.h"
#include "listener.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/wait.h>
#include <unistd.h>

#define START_LIMIT_MS 30000    /* our server's start, and our turn at the gate */
#define HANG_LIMIT_MS 30000     /* the silence after which a shared server is replaced */
#define STRANGER_LIMIT_MS 10000 /* the same of who cannot be told to be one */
#define KILL_LIMIT_MS 10000
#define EXIT_NOT_FOUND 127
#define MAX_ARGS 64

/* The socket's path and its URL, in which what is special in URLs is escaped. */
static void name_socket(struct embedded *server)
{
    char *out = server->url + sprintf(server->url, "unix://");

    (void)snprintf(server->socket, sizeof(server->socket), "%s/" LISTENER_SOCKET,
                   server->folder.path);
    for (const char *in = server->socket; *in; in++) {
        if (strchr("/._-~", *in) != NULL || (*in >= '0' && *in <= '9') ||
            (*in >= 'A' && *in <= 'Z') || (*in >= 'a' && *in <= 'z')) {
            *out++ = *in;
        } else {
            out += sprintf(out, "%%%02X", (unsigned char)*in);
        }
    }
    *out = '\0';
}

/* In the folder: the names are relative. */
static void exec_server(char *const extra_args[])
{
    char *args[MAX_ARGS];
    /* clang-format off */
    const char *fixed[] = {
        "redis-server", "--port", "0", "--unixsocket", LISTENER_SOCKET,
        "--unixsocketperm", "700", "--daemonize", "no", "--save", "",
        "--appendonly", "no", "--maxmemory-policy", "noeviction", "--dir", ".",
        "--logfile", "log"};
    /* clang-format on */
    size_t count = 0;

    for (; count < sizeof(fixed) / sizeof(*fixed); count++) {
        args[count] = (char *)(uintptr_t)fixed[count];
    }
    for (; extra_args != NULL && *extra_args != NULL && count < MAX_ARGS - 1;
         extra_args++) {
        args[count++] = *extra_args;
    }
    args[count] = NULL;
    execvp("redis-server", args);
    execvp("valkey-server", args);
}

/* In the child, between fork and exec. */
static _Noreturn void become_server(const struct embedded *server,
                                    char *const extra_args[], pid_t parent)
{
    int null = open("/dev/null", O_RDWR);
    sigset_t none;

    setsid(); /* a terminal's Ctrl-C is for the command, not for its server */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (fchdir(server->folder.fd) < 0) {
        _exit(EXIT_FAILURE);
    }
    for (int fd = 0; fd <= 2; fd++) {
        dup2(null, fd);
    }
    descriptors_close_above(2); /* it would keep the caller's locks for ever */
#ifdef __linux__
    if (server->own_dir) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
#endif
    if (!server->own_dir || getppid() == parent) {
        exec_server(extra_args);
    }
    _exit(EXIT_NOT_FOUND);
}

/* The last line of the server's log, "" if there is none. */
static void read_log(const struct embedded *server, char *last, size_t size)
{
    int fd = folder_file(&server->folder, "log", (struct why){0});
    FILE *log = fd >= 0 ? fdopen(fd, "r") : NULL;
    char line[256];

    last[0] = '\0';
    if (log == NULL) {
        return;
    }
    while (fgets(line, sizeof(line), log) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0]) {
            lw__escape(line, last, size);
        }
    }
    (void)fclose(log);
}

static int explain_death(struct embedded *server, int status, struct why why)
{
    char line[256];

    embedded_reaped(server, server->pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NOT_FOUND) {
        return why_set(why,
                       "cannot execute redis-server: is it installed and on the PATH?");
    }
    read_log(server, line, sizeof(line));
    return why_set(why, "redis-server in %s ended at once%s%s", server->folder.path,
                   line[0] ? ": " : "", line);
}

/* 0: not yet. */
static int is_up(const struct embedded *server, int limit_ms, struct why why)
{
    struct listener listener;
    int result = listener_connect(&listener, &server->folder, limit_ms, why);

    if (result <= 0) {
        return result;
    }
    result = listener_answers(&listener, limit_ms);
    listener_close(&listener);
    return result;
}

static int await(struct embedded *server, struct why why)
{
    struct patience patience = patience_for(START_LIMIT_MS);
    int status, up;

    do {
        up = is_up(server, patience_left_ms(&patience), why);
        if (up != 0) {
            return up;
        }
        if (waitpid(server->pid, &status, WNOHANG) == server->pid) {
            return explain_death(server, status, why);
        }
    } while (patience_pause(&patience));
    return why_set(why, "redis-server in %s did not answer within %d s",
                   server->folder.path, START_LIMIT_MS / 1000);
}

/* Its own child, which the limit is for in case the system cannot let go of it. */
static void end_child(struct embedded *server)
{
    struct patience patience = patience_for(KILL_LIMIT_MS);

    if (!server->child) {
        return;
    }
    kill(server->pid, SIGKILL);
    while (waitpid(server->pid, NULL, WNOHANG) == 0 && patience_pause(&patience)) {
        /* it is on its way */
    }
    embedded_reaped(server, server->pid);
}

/* 1: it answers. Where it does not, nothing of it is left. */
static int launch(struct embedded *server, char *const extra_args[], struct why why)
{
    int log = folder_file(&server->folder, "log", why); /* redis-server follows links */
    pid_t parent = getpid();

    if (log < 0) {
        return -1;
    }
    close(log);
    unlinkat(server->folder.fd, LISTENER_SOCKET, 0); /* of one that crashed */
    server->pid = fork();
    if (server->pid < 0) {
        server->pid = 0;
        return why_set(why, "cannot fork: %s", strerror(errno));
    }
    if (server->pid == 0) {
        become_server(server, extra_args, parent);
    }
    server->child = true;
    if (await(server, why) > 0) {
        return 1;
    }
    end_child(server);
    unlinkat(server->folder.fd, LISTENER_SOCKET, 0);
    return -1;
}

/* 1: a server that answers is there. 0: none is, or one that hung, which has been
 * killed. */
static int find(struct embedded *server, struct why why)
{
    struct listener listener;
    int found = listener_connect(&listener, &server->folder, HANG_LIMIT_MS, why);

    if (found <= 0) {
        return found;
    }
    if (listener_answers(&listener, listener_is_server(&listener, &server->folder)
                                        ? HANG_LIMIT_MS
                                        : STRANGER_LIMIT_MS)) {
        server->pid = listener.pid;
    } else { /* one that hangs for so long is of no use to anybody */
        found = listener_kill(&listener, &server->folder, KILL_LIMIT_MS, why);
    }
    listener_close(&listener);
    return found;
}

/* Stops whoever serves: our own child may have been replaced by another user's. */
static void stop_shared(struct embedded *server)
{
    struct listener listener;
    struct why nobody = {0};
    int found;

    end_child(server);
    found = listener_connect(&listener, &server->folder, KILL_LIMIT_MS, nobody);
    if (found > 0) {
        found = listener_kill(&listener, &server->folder, KILL_LIMIT_MS, nobody);
        listener_close(&listener);
    }
    if (found == 0) {
        unlinkat(server->folder.fd, LISTENER_SOCKET, 0);
    }
}

/* Unlocked by name: a copy of the descriptor may live on in a child of the caller's. */
static void drop(int *file)
{
    if (*file < 0) {
        return;
    }
    flock(*file, LOCK_UN);
    close(*file);
    *file = -1;
}

static void forget(struct embedded *server)
{
    drop(&server->users);
    drop(&server->gate);
    folder_close(&server->folder);
}

/* Stops a shared server if nobody else uses it, and nobody keeps the gate shut. */
static void leave(struct embedded *server)
{
    if (folder_lock(server->gate, LOCK_EX, START_LIMIT_MS) &&
        flock(server->users, LOCK_EX | LOCK_NB) == 0) {
        stop_shared(server);
    }
    forget(server);
}

static int lock(const struct embedded *server, int file, const char *name, int operation,
                struct why why)
{
    if (folder_lock(file, operation, START_LIMIT_MS)) {
        return 0;
    }
    if (errno != EWOULDBLOCK) {
        return why_set(why, "cannot lock %s/%s: %s", server->folder.path, name,
                       strerror(errno));
    }
    return why_set(why, "another process has kept %s/%s locked for %d s: is it stopped?",
                   server->folder.path, name, START_LIMIT_MS / 1000);
}

static int join(struct embedded *server, char *const extra_args[], struct why why)
{
    int up = -1;

    server->gate = folder_file(&server->folder, "gate", why);
    if (server->gate >= 0) {
        server->users = folder_file(&server->folder, "users", why);
    }
    if (server->users >= 0 && lock(server, server->gate, "gate", LOCK_EX, why) == 0 &&
        lock(server, server->users, "users", LOCK_SH, why) == 0) {
        up = find(server, why);
    }
    if (up == 0) {
        up = launch(server, extra_args, why);
    }
    if (up < 0) {
        forget(server); /* no leaving: it would end a server that it cannot see */
        return -1;
    }
    flock(server->gate, LOCK_UN);
    return 0;
}

static int start_private(struct embedded *server, char *const extra_args[],
                         struct why why)
{
    if (launch(server, extra_args, why) > 0) {
        return 0;
    }
    folder_remove(&server->folder);
    return -1;
}

static int open_shared(struct embedded *server, const char *dir, struct why why)
{
    char here[4096], full[2 * sizeof(here)];

    if (dir[0] == '/') {
        return folder_open(&server->folder, dir, why);
    }
    if (getcwd(here, sizeof(here)) == NULL) {
        return why_set(why, "cannot tell where the folder %s is: %s", dir,
                       strerror(errno));
    }
    (void)snprintf(full, sizeof(full), "%s/%s", strcmp(here, "/") == 0 ? "" : here, dir);
    return folder_open(&server->folder, full, why);
}

int embedded_start(struct embedded *server, const char *dir, char *const extra_args[],
                   char *why_text, size_t why_size)
{
    struct why why = {why_text, why_size};
    const char *tmp = getenv("TMPDIR");
    int opened;

    *server = (struct embedded){
        .own_dir = dir == NULL, .gate = -1, .users = -1, .folder = {.fd = -1}};
    if (dir != NULL) {
        opened = open_shared(server, dir, why);
    } else {
        opened = folder_make(&server->folder, tmp != NULL && tmp[0] == '/' ? tmp : "/tmp",
                             why);
    }
    if (opened < 0) {
        return -1;
    }
    name_socket(server);
    return dir != NULL ? join(server, extra_args, why)
                       : start_private(server, extra_args, why);
}

bool embedded_reaped(struct embedded *server, pid_t pid)
{
    if (!server->child || pid != server->pid) {
        return false;
    }
    server->child = false;
    server->pid = 0;
    return true;
}

void embedded_stop(struct embedded *server)
{
    if (server->folder.fd < 0) {
        return;
    }
    if (server->own_dir) {
        end_child(server);
        folder_remove(&server->folder);
    } else {
        leave(server);
    }
    server->pid = 0;
}

const char *embedded_url(const struct embedded *server)
{
    return server->url;
}

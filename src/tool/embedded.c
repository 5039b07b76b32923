/* SPDX-License-Identifier: MIT */
/* See embedded.h. The server runs in a session of its own, so that a terminal's Ctrl-C
 * does not reach it, and inherits no descriptor of this process. */
#include "embedded.h"

#include "base/escape.h"
#include "system.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_LIMIT_MS 30000
#define KILL_LIMIT_MS 10000
#define EXIT_NOT_FOUND 127
#define PAUSE_MS 2
#define MAX_ARGS 64

/* ---- the directory ---- */

static void remove_contents(int fd)
{
    DIR *entries = fdopendir(fd); /* which closes fd in the end */
    struct dirent *entry;

    if (entries == NULL) {
        close(fd);
        return;
    }
    while ((entry = readdir(entries)) != NULL) {
        const char *name = entry->d_name;
        int below;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 ||
            unlinkat(fd, name, 0) == 0) {
            continue;
        }
        below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (below >= 0) {
            remove_contents(below);
        }
        unlinkat(fd, name, AT_REMOVEDIR);
    }
    closedir(entries);
}

static void remove_dir(const char *dir)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd >= 0) {
        remove_contents(fd);
        rmdir(dir);
    }
}

/* Returns 0, or -1 with the reason in `why`. */
static int choose_dir(struct embedded *server, const char *dir, char *why)
{
    const char *tmp = getenv("TMPDIR");
    int length;

    server->owns_dir = dir == NULL;
    if (dir == NULL) {
        dir = tmp != NULL && tmp[0] == '/' ? tmp : "/tmp";
    }
    length = snprintf(server->dir, sizeof(server->dir), "%s%s", dir,
                      server->owns_dir ? "/lockwire-XXXXXX" : "");
    if ((size_t)length >= sizeof(server->dir)) {
        (void)snprintf(why, EMBEDDED_WHY_MAX,
                       "the path of the embedded server's directory is longer than %zu "
                       "bytes, too long for a unix socket; set TMPDIR to a shorter path: "
                       "%.40s...",
                       sizeof(server->dir) - 1, server->dir);
        return -1;
    }
    if (server->owns_dir && mkdtemp(server->dir) == NULL) {
        (void)snprintf(why, EMBEDDED_WHY_MAX,
                       "cannot create the embedded server's directory %s: %s",
                       server->dir, strerror(errno));
        return -1;
    }
    return 0;
}

/* Sets the path of the socket, and the URL with special characters escaped. */
static void name_socket(struct embedded *server)
{
    char *out = server->url + sprintf(server->url, "unix://");

    (void)snprintf(server->socket, sizeof(server->socket), "%s/socket", server->dir);
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

/* ---- the server's process, before exec ---- */

/* Starts a child of the server that removes the directory when the server has ended: if
 * this process is killed, embedded_stop is never called. */
static void start_cleaner(const char *dir)
{
#if defined(__linux__) || defined(__FreeBSD__)
    pid_t server = getpid();
    sigset_t all, end;
    int number;

    if (fork() != 0) {
        return;
    }
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    system_set_name("lw-cleaner"); /* not to be found by `pkill -9 lockwire` */
    system_die_with_parent(SIGTERM);
    while (getppid() == server) {
        (void)sigwait(&end, &number);
    }
    remove_dir(dir);
    _exit(EXIT_SUCCESS);
#else
    (void)dir;
#endif
}

static void exec_server(char *const extra_args[])
{
    /* clang-format off */
    char *args[MAX_ARGS] = {
        "redis-server", "--port", "0", "--unixsocket", "socket",
        "--unixsocketperm", "700", "--daemonize", "no", "--save", "",
        "--appendonly", "no", "--maxmemory-policy", "noeviction", "--dir", ".",
        "--logfile", "log"};
    /* clang-format on */
    size_t count = 0;

    while (args[count] != NULL) {
        count++;
    }
    for (; extra_args != NULL && *extra_args != NULL && count < MAX_ARGS - 1;
         extra_args++) {
        args[count++] = *extra_args;
    }
    execvp("redis-server", args);
    execvp("valkey-server", args);
}

static _Noreturn void become_server(const struct embedded *server,
                                    char *const extra_args[], pid_t parent)
{
    int null = open("/dev/null", O_RDWR);
    sigset_t none;

    setsid();
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (chdir(server->dir) < 0) {
        _exit(EXIT_FAILURE);
    }
    for (int fd = 0; fd <= 2; fd++) {
        dup2(null, fd);
    }
    system_close_descriptors_above(2);
    if (server->owns_dir) {
        start_cleaner(server->dir);
    }
    system_die_with_parent(SIGKILL);
    if (getppid() == parent) {
        exec_server(extra_args);
    }
    _exit(EXIT_NOT_FOUND);
}

/* ---- its start ---- */

/* The server appends to this file. It is opened before the server starts, so that its
 * last words can be read although the cleaner may have removed it. Returns NULL on
 * failure. */
static FILE *open_log(const struct embedded *server)
{
    char path[sizeof(server->socket)];

    (void)snprintf(path, sizeof(path), "%s/log", server->dir);
    return fopen(path, "a+e");
}

static void explain_death(const struct embedded *server, int status, FILE *log, char *why)
{
    char line[256], last[256] = "";

    rewind(log);
    while (fgets(line, sizeof(line), log) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0]) {
            lw__escape(line, last, sizeof(last));
        }
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NOT_FOUND) {
        (void)snprintf(
            why, EMBEDDED_WHY_MAX,
            "cannot execute redis-server or valkey-server; one of them must be "
            "installed and in PATH");
    } else {
        (void)snprintf(why, EMBEDDED_WHY_MAX,
                       "redis-server in %s exited while it started%s%s", server->dir,
                       last[0] ? ": " : "", last);
    }
}

/* Returns true if the server replies to PING; an error is a reply, too. */
static bool replies(const struct embedded *server, int limit_ms)
{
    static const char ping[] = "PING\r\n";
    struct timeval limit = {limit_ms / 1000, limit_ms % 1000 * 1000};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    char byte;
    bool replied;

    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    memcpy(address.sun_path, server->socket, sizeof(server->socket));
    replied = setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)) == 0 &&
              connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
              send(fd, ping, sizeof(ping) - 1, MSG_NOSIGNAL) == sizeof(ping) - 1 &&
              recv(fd, &byte, 1, 0) == 1;
    if (fd >= 0) {
        close(fd);
    }
    return replied;
}

/* Returns 0 when the server replies; or -1 with the reason in `why`. */
static int await_reply(struct embedded *server, FILE *log, char *why)
{
    int64_t left_ms, end_ms = system_now_ms() + START_LIMIT_MS;
    int status;

    while ((left_ms = end_ms - system_now_ms()) > 0) {
        if (replies(server, (int)left_ms)) {
            return 0;
        }
        if (waitpid(server->pid, &status, WNOHANG) == server->pid) {
            server->pid = 0;
            explain_death(server, status, log, why);
            return -1;
        }
        system_sleep_ms(PAUSE_MS);
    }
    (void)snprintf(why, EMBEDDED_WHY_MAX, "redis-server in %s did not reply within %d s",
                   server->dir, START_LIMIT_MS / 1000);
    return -1;
}

/* Returns 0, or -1 with the reason in `why`. */
static int launch(struct embedded *server, char *const extra_args[], char *why)
{
    pid_t parent = getpid();
    FILE *log = open_log(server);
    int result = -1;

    if (log == NULL) {
        (void)snprintf(why, EMBEDDED_WHY_MAX, "cannot open %s/log: %s", server->dir,
                       strerror(errno));
        return -1;
    }
    server->pid = fork();
    if (server->pid == 0) {
        become_server(server, extra_args, parent);
    }
    if (server->pid > 0) {
        result = await_reply(server, log, why);
    } else {
        (void)snprintf(why, EMBEDDED_WHY_MAX, "cannot fork: %s", strerror(errno));
        server->pid = 0;
    }
    (void)fclose(log);
    return result;
}

int embedded_start(struct embedded *server, const char *dir, char *const extra_args[],
                   char why[EMBEDDED_WHY_MAX])
{
    *server = (struct embedded){0};
    if (choose_dir(server, dir, why) < 0) {
        return -1;
    }
    name_socket(server);
    if (launch(server, extra_args, why) == 0) {
        return 0;
    }
    embedded_stop(server);
    return -1;
}

/* ---- its end ---- */

bool embedded_reaped(struct embedded *server, pid_t pid)
{
    if (server->pid == 0 || pid != server->pid) {
        return false;
    }
    server->pid = 0;
    return true;
}

void embedded_stop(struct embedded *server)
{
    int64_t end_ms = system_now_ms() + KILL_LIMIT_MS;

    if (server->pid > 0) {
        kill(server->pid, SIGKILL);
        while (waitpid(server->pid, NULL, WNOHANG) == 0 && system_now_ms() < end_ms) {
            system_sleep_ms(PAUSE_MS);
        }
        server->pid = 0;
    }
    if (server->owns_dir) {
        remove_dir(server->dir);
    } else {
        unlink(server->socket);
    }
}

const char *embedded_url(const struct embedded *server)
{
    return server->url;
}

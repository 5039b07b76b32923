/* SPDX-License-Identifier: MIT */
/*
 * Starts, shares and stops a throw-away redis-server; see embedded.h. Must not know of
 * lockwire itself: the tests use it to judge the library.
 *
 * Happy path, private: mkdtemp, fork, exec, connect until PING is answered; SIGKILL, waitpid.
 * Shared: two files of the folder carry flocks. Starting and stopping happen under `gate`
 * (exclusive); everybody who uses the server holds `users` (shared) for as long. Who leaves
 * and can get `users` exclusively was the last one, and stops the server. Both locks end with
 * their process, so that one who crashed blocks nobody; a server that the last one left
 * running by crashing is taken over by the next.
 */
#include "embedded.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_LIMIT_MS 30000
#define EXIT_NOT_FOUND 127
#define MAX_ARGS 64

struct text {
    char *bytes;
    size_t size;
};

static int fail(struct text why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int fail(struct text why, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (why.size > 0)
        vsnprintf(why.bytes, why.size, format, args);
    va_end(args);
    return -1;
}

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* The socket's path and its URL, in which what is special in URLs is escaped. */
static void name_socket(struct embedded *server)
{
    char *out = server->url + sprintf(server->url, "unix://");

    sprintf(server->socket, "%s/socket", server->dir);
    for (const char *in = server->socket; *in; in++) {
        if (strchr("/._-~", *in) || (*in >= '0' && *in <= '9') ||
            (*in >= 'A' && *in <= 'Z') || (*in >= 'a' && *in <= 'z'))
            *out++ = *in;
        else
            out += sprintf(out, "%%%02X", (unsigned char)*in);
    }
    *out = '\0';
}

/* A blocking connection with a limit on each answer, or -1 and errno. */
static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

/* Any answer will do: a server that wants a password is up as well. */
static bool answers(int fd, int limit_ms)
{
    static const char ping[] = "PING\r\n";
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    char answer[64];
    int ready;

    if (send(fd, ping, sizeof(ping) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(ping) - 1)
        return false;
    do
        ready = poll(&wait, 1, limit_ms);
    while (ready < 0 && errno == EINTR);
    return ready == 1 && recv(fd, answer, sizeof(answer), 0) > 0;
}

/* Who listens at the other end; 0 if that cannot be known. */
static pid_t peer(int fd)
{
#ifdef SO_PEERCRED
    struct ucred who;
    socklen_t size = sizeof(who);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0)
        return who.pid;
#endif
    (void)fd;
    return 0;
}

/* 1: it answers within the limit, its process is noted. 0: it does not. -1 and errno: nobody
 * can tell from here, it may well be up. */
static int is_up(struct embedded *server, int limit_ms)
{
    int fd = connect_to(server->socket);

    if (fd < 0)
        return errno == ENOENT || errno == ECONNREFUSED ? 0 : -1;
    bool up = answers(fd, limit_ms);
    if (up && !server->child)
        server->pid = peer(fd);
    close(fd);
    return up;
}

static void exec_server(const struct embedded *server, char *const extra_args[])
{
    char log[sizeof(server->dir) + 8], *args[MAX_ARGS];
    /* clang-format off */
    const char *fixed[] = {
        "redis-server", "--port", "0", "--unixsocket", server->socket,
        "--unixsocketperm", "700", "--daemonize", "no", "--save", "", "--appendonly", "no",
        "--maxmemory-policy", "noeviction", "--dir", server->dir, "--logfile", log};
    /* clang-format on */
    size_t count = 0;

    snprintf(log, sizeof(log), "%s/log", server->dir);
    for (; count < sizeof(fixed) / sizeof(*fixed); count++)
        args[count] = (char *)(uintptr_t)fixed[count];
    for (; extra_args && *extra_args && count < MAX_ARGS - 1; extra_args++)
        args[count++] = *extra_args;
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
    for (int fd = 0; fd <= 2; fd++)
        dup2(null, fd);
#ifdef __linux__
    if (server->own_dir)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (!server->own_dir || getppid() == parent)
        exec_server(server, extra_args);
    _exit(EXIT_NOT_FOUND);
}

/* The last line of the server's log, "" if there is none. */
static void read_log(const struct embedded *server, struct text last)
{
    char path[sizeof(server->dir) + 8], line[256];
    FILE *log;

    last.bytes[0] = '\0';
    snprintf(path, sizeof(path), "%s/log", server->dir);
    log = fopen(path, "re");
    if (!log)
        return;
    while (fgets(line, sizeof(line), log)) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0])
            snprintf(last.bytes, last.size, "%s", line);
    }
    fclose(log);
}

static int explain_death(struct embedded *server, int status, struct text why)
{
    char line[256];

    server->child = false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NOT_FOUND)
        return fail(why, "cannot execute redis-server: is it installed and on the PATH?");
    read_log(server, (struct text){line, sizeof(line)});
    return fail(why, "redis-server in %s ended at once%s%s", server->dir,
                line[0] ? ": " : "", line);
}

static int launch(struct embedded *server, char *const extra_args[], struct text why)
{
    int64_t limit = now_ms() + START_LIMIT_MS;
    pid_t parent = getpid();
    int status;

    unlink(server->socket); /* of one that crashed */
    server->pid = fork();
    if (server->pid < 0)
        return fail(why, "cannot fork: %s", strerror(errno));
    if (server->pid == 0)
        become_server(server, extra_args, parent);
    server->child = true;
    for (long pause_ms = 1; now_ms() < limit;
         pause_ms = pause_ms < 20 ? pause_ms * 2 : 20) {
        if (is_up(server, START_LIMIT_MS) > 0)
            return 0;
        if (waitpid(server->pid, &status, WNOHANG) == server->pid)
            return explain_death(server, status, why);
        nanosleep(&(struct timespec){0, pause_ms * 1000000}, NULL);
    }
    return fail(why, "redis-server in %s did not answer within %d s", server->dir,
                START_LIMIT_MS / 1000);
}

static void kill_server(struct embedded *server)
{
    int fd = server->child ? -1 : connect_to(server->socket);
    char byte;

    if (server->child) {
        kill(server->pid, SIGKILL);
        waitpid(server->pid, NULL, 0);
    } else if (fd >= 0 && peer(fd) > 0) {
        kill(peer(fd), SIGKILL);
        while (recv(fd, &byte, 1, 0) > 0) /* until its end of the connection is gone */
            continue;
    }
    if (fd >= 0)
        close(fd);
    server->child = false;
    unlink(server->socket);
}

static int open_lock(const struct embedded *server, const char *name, int operation)
{
    char path[sizeof(server->dir) + 8];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", server->dir, name);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, operation) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Stops a shared server if nobody else uses it. */
static void leave(struct embedded *server)
{
    int gate = open_lock(server, "gate", LOCK_EX);

    if (server->users >= 0 && flock(server->users, LOCK_EX | LOCK_NB) == 0)
        kill_server(server);
    if (server->users >= 0)
        close(server->users);
    server->users = -1;
    if (gate >= 0)
        close(gate);
}

static int join(struct embedded *server, char *const extra_args[], struct text why)
{
    int gate, up, result = 0;

    name_socket(server);
    if (mkdir(server->dir, 0700) < 0 && errno != EEXIST)
        return fail(why, "cannot make the folder %s: %s", server->dir, strerror(errno));
    gate = open_lock(server, "gate", LOCK_EX);
    if (gate >= 0)
        server->users = open_lock(server, "users", LOCK_SH);
    if (server->users < 0) {
        result = fail(why, "cannot lock the folder %s: %s", server->dir, strerror(errno));
    } else if ((up = is_up(server, START_LIMIT_MS)) < 0) {
        result = fail(why, "cannot connect to %s: %s", server->socket, strerror(errno));
        close(server->users); /* no leaving: it would end a server that it cannot see */
        server->users = -1;
    } else if (up == 0) {
        kill_server(server); /* one that hangs for so long is of no use to anybody */
        result = launch(server, extra_args, why);
    }
    if (gate >= 0)
        close(gate);
    if (result < 0)
        leave(server);
    return result;
}

static int remove_one(const char *path, const struct stat *info, int type,
                      struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static int start_private(struct embedded *server, char *const extra_args[],
                         struct text why)
{
    if (!mkdtemp(server->dir))
        return fail(why, "cannot make a folder %s: %s", server->dir, strerror(errno));
    name_socket(server);
    if (launch(server, extra_args, why) == 0)
        return 0;
    if (server->child)
        kill_server(server);
    nftw(server->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return -1;
}

int embedded_start(struct embedded *server, const char *dir, char *const extra_args[],
                   char *why_bytes, size_t why_size)
{
    struct text why = {why_bytes, why_size};
    const char *tmp = getenv("TMPDIR");
    char real[4096];
    int length;

    *server = (struct embedded){.own_dir = !dir, .users = -1};
    if (!dir) {
        length = snprintf(server->dir, sizeof(server->dir), "%s/lockwire-XXXXXX",
                          tmp && tmp[0] == '/' ? tmp : "/tmp");
    } else if (dir[0] == '/') {
        length = snprintf(server->dir, sizeof(server->dir), "%s", dir);
    } else {
        length = snprintf(server->dir, sizeof(server->dir), "%s/%s",
                          getcwd(real, sizeof(real)) ? real : ".", dir);
    }
    if ((size_t)length >= sizeof(server->dir))
        return fail(why,
                    "the folder's path %.40s... is longer than %zu bytes: a unix socket"
                    " would not fit",
                    server->dir, sizeof(server->dir) - 1);
    return dir ? join(server, extra_args, why) : start_private(server, extra_args, why);
}

void embedded_stop(struct embedded *server)
{
    if (server->pid == 0)
        return;
    if (server->own_dir) {
        kill_server(server);
        nftw(server->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    } else {
        leave(server);
    }
    server->pid = 0;
}

const char *embedded_url(const struct embedded *server)
{
    return server->url;
}

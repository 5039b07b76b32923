/* SPDX-License-Identifier: MIT */
/*
 * See listener.h.
 *
 * Happy path: connect, SO_PEERCRED, PING and an answer. To kill: a descriptor for the
 * process, a look at it in /proc, the signal by that descriptor, which cannot reach a
 * successor of the same number.
 */
#include "listener.h"

#include "patience.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* Through the descriptor where there is a way, else by the path. */
static void set_address(struct sockaddr_un *address, const struct folder *folder)
{
    char own[64];
    struct stat info;

    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    (void)snprintf(own, sizeof(own), "/proc/self/fd/%d", folder->fd);
    (void)snprintf(address->sun_path, sizeof(address->sun_path), "%s/" LISTENER_SOCKET,
                   stat(own, &info) == 0 ? own : folder->path);
}

/* Who listens at the other end. Without such a call: the folder lets nobody else in. */
static bool is_ours(struct listener *listener, const struct folder *folder,
                    struct why why)
{
#ifdef __linux__
    struct ucred who;
    socklen_t size = sizeof(who);

    if (getsockopt(listener->fd, SOL_SOCKET, SO_PEERCRED, &who, &size) < 0) {
        why_set(why, "cannot tell who listens in %s: %s", folder->path, strerror(errno));
        return false;
    }
    if (who.uid != geteuid()) {
        why_set(why, "the socket in %s is served by user %ju", folder->path,
                (uintmax_t)who.uid);
        return false;
    }
    listener->pid = who.pid;
#else
    (void)folder, (void)why;
    listener->pid = 0;
#endif
    return true;
}

/* A queue of connections that is full is waited for, too. */
static bool try_to_connect(int fd, const struct folder *folder, int limit_ms)
{
    struct patience patience = patience_for(limit_ms);
    struct sockaddr_un address;

    set_address(&address, folder);
    while (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
        if ((errno != EAGAIN && errno != EINTR) || !patience_pause(&patience)) {
            return false;
        }
    }
    return true;
}

static int explain_connect(const struct folder *folder, int limit_ms, struct why why)
{
    if (errno == ENOENT || errno == ECONNREFUSED) {
        return 0;
    }
    if (errno == EAGAIN) {
        return why_set(why, "who listens in %s has taken no connection for %d s: end it",
                       folder->path, limit_ms / 1000);
    }
    return why_set(why, "cannot connect to %s/" LISTENER_SOCKET ": %s", folder->path,
                   strerror(errno));
}

int listener_connect(struct listener *listener, const struct folder *folder, int limit_ms,
                     struct why why)
{
    int result = folder_socket(folder, LISTENER_SOCKET, why);

    if (result <= 0) {
        return result;
    }
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd < 0) {
        return why_set(why, "cannot make a socket: %s", strerror(errno));
    }
    if (!try_to_connect(listener->fd, folder, limit_ms)) {
        result = explain_connect(folder, limit_ms, why);
    } else if (!is_ours(listener, folder, why)) {
        result = -1;
    }
    if (result <= 0) {
        listener_close(listener);
    }
    return result;
}

void listener_close(struct listener *listener)
{
    close(listener->fd);
}

/* The number of bytes received; 0 when the other end is gone, -1 when the limit has
 * passed. */
static int receive(const struct listener *listener, int limit_ms)
{
    struct patience patience = patience_for(limit_ms);
    struct pollfd wait = {.fd = listener->fd, .events = POLLIN};
    char bytes[64];
    int ready;

    do {
        ready = poll(&wait, 1, patience_left_ms(&patience));
    } while (ready < 0 && errno == EINTR);
    if (ready != 1) {
        return -1;
    }
    ssize_t got = recv(listener->fd, bytes, sizeof(bytes), 0);
    return got > 0 ? (int)got : 0;
}

bool listener_answers(const struct listener *listener, int limit_ms)
{
    static const char ping[] = "PING\r\n";

    return send(listener->fd, ping, sizeof(ping) - 1, MSG_NOSIGNAL) ==
               (ssize_t)sizeof(ping) - 1 &&
           receive(listener, limit_ms) > 0;
}

bool listener_is_server(const struct listener *listener, const struct folder *folder)
{
    char path[64];
    struct stat process, cwd, here;

    if (listener->pid <= 0 || fstat(folder->fd, &here) < 0) {
        return false;
    }
    (void)snprintf(path, sizeof(path), "/proc/%ld", (long)listener->pid);
    if (stat(path, &process) < 0 || process.st_uid != geteuid()) {
        return false;
    }
    (void)snprintf(path, sizeof(path), "/proc/%ld/cwd", (long)listener->pid);
    return stat(path, &cwd) == 0 && cwd.st_dev == here.st_dev &&
           cwd.st_ino == here.st_ino;
}

/* Between the look and a signal by number the number may become another's; by descriptor,
 * if the system has those, it cannot. */
static bool signal_server(const struct listener *listener, const struct folder *folder)
{
#if defined(SYS_pidfd_open) && defined(SYS_pidfd_send_signal)
    int process = (int)syscall(SYS_pidfd_open, listener->pid, 0);

    if (process >= 0) {
        bool sent = listener_is_server(listener, folder) &&
                    syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0) == 0;
        close(process);
        return sent;
    }
#endif
    return listener_is_server(listener, folder) && kill(listener->pid, SIGKILL) == 0;
}

static bool is_gone(const struct folder *folder)
{
    struct listener again;
    int result = listener_connect(&again, folder, 0, (struct why){0});

    if (result > 0) {
        listener_close(&again);
    }
    return result == 0;
}

int listener_kill(const struct listener *listener, const struct folder *folder,
                  int limit_ms, struct why why)
{
    struct patience patience = patience_for(limit_ms);
    int got;

    if (!signal_server(listener, folder)) {
        return is_gone(folder)
                   ? 0
                   : why_set(why,
                             "process %ld, which listens in %s, cannot be told to"
                             " be its server: it is not killed",
                             (long)listener->pid, folder->path);
    }
    do {
        got = receive(listener, patience_left_ms(&patience));
    } while (got > 0 && patience_left_ms(&patience) > 0);
    if (got != 0) {
        return why_set(why, "the server in %s, process %ld, does not end, even killed",
                       folder->path, (long)listener->pid);
    }
    return 0;
}

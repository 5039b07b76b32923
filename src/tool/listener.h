/* SPDX-License-Identifier: MIT */
/*
 * The process that listens on a folder's socket. Owns a connection to it, who it is, and
 * the decision whether it may be killed. Every wait has a limit: it may be stopped, hang,
 * or be another program altogether.
 *
 * Not trusted: the process, before it is known to run as this user; only then it is sent
 * a byte. Nor the number by which it goes: who listened once may be gone, its number
 * another's and its socket in a third one's hands. Killed is only who runs as this user
 * and in the very folder.
 *
 * Happy path: listener_connect, listener_answers, listener_close.
 */
#ifndef LW_TOOL_LISTENER_H
#define LW_TOOL_LISTENER_H
#include "folder.h"

#include <sys/types.h>

#define LISTENER_SOCKET "socket" /* its name in the folder */

struct listener {
    int fd;
    pid_t pid; /* 0 where the system does not say */
};

/* 1: connected, and to a process of this user's. 0: nobody listens. -1: neither, or
 * nobody can tell; there is nothing to close. */
int listener_connect(struct listener *listener, const struct folder *folder, int limit_ms,
                     struct why why);

/* Any answer will do: a server that wants a password is up as well. */
bool listener_answers(const struct listener *listener, int limit_ms);

/* Does it run as this user, in the folder? Always false where the system does not say. */
bool listener_is_server(const struct listener *listener, const struct folder *folder);

/* Kills it if it is the folder's server, and waits for its end. */
int listener_kill(const struct listener *listener, const struct folder *folder,
                  int limit_ms, struct why why);

void listener_close(struct listener *listener);

#endif

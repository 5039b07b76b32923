/* SPDX-License-Identifier: MIT */
/* A temporary redis-server on a private unix socket, for trying lockwire and for its
 * tests. Starting and stopping it block, for some milliseconds as a rule. The server
 * stores nothing on disk unless `extra_args` say so. Independent of locks and of the
 * event loop.
 *
 * embedded_start starts the server, embedded_url is its URL, embedded_stop ends it. On
 * Linux the server is killed when the calling process ends in any way, SIGKILL included;
 * its directory is removed then as well, by a small process that outlives the server.
 *
 * Trusted: processes of the same user, root, and the redis-server on the PATH. */
#ifndef LW_TOOL_EMBEDDED_H
#define LW_TOOL_EMBEDDED_H
#include <stdbool.h>
#include <sys/types.h>

#define EMBEDDED_WHY_MAX 400

struct embedded {
    pid_t pid;     /* a child of this process; 0: it has been reaped */
    bool owns_dir; /* the directory is removed with the server */
    char dir[96];
    char socket[104]; /* sun_path has at least as many bytes on each system */
    char url[340];    /* "unix:///..." */
};

/* Starts a server, and returns 0 when it replies; or -1 with the reason in `why`, and
 * then nothing is left of it. `dir` is an existing directory, which stays; NULL for a
 * fresh one (mode 0700, in TMPDIR or /tmp), which is removed at the end. `extra_args`
 * (NULL-terminated, or NULL) are appended to redis-server's arguments. */
int embedded_start(struct embedded *server, const char *dir, char *const extra_args[],
                   char why[EMBEDDED_WHY_MAX]);

/* To be called for a child that another waitpid has reaped. Returns true if it was the
 * server, which is neither signaled nor waited for after that. embedded_stop is still
 * needed, for the directory. */
bool embedded_reaped(struct embedded *server, pid_t pid);

/* Kills the server, also if it is stopped or hangs, reaps it and removes its directory. A
 * second call has no effect. Only for a server that was started. */
void embedded_stop(struct embedded *server);

/* Returns the URL, as lw_client_new takes it. */
const char *embedded_url(const struct embedded *server);

#endif

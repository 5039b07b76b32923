/* SPDX-License-Identifier: MIT */
/*
 * A throw-away redis-server on a private unix socket, for trying out and for tests. Owns its
 * process, its folder and who shares it. Knows nothing of locks or event loops: starting and
 * stopping block, for some milliseconds. The server keeps nothing on disk.
 *
 * Happy path: embedded_start, embedded_url to connect to, embedded_stop.
 */
#ifndef LW_TOOL_EMBEDDED_H
#define LW_TOOL_EMBEDDED_H
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct embedded {
    pid_t pid;    /* of the server, whoever started it */
    bool child;   /* this process started it, and so must reap it */
    bool own_dir; /* the folder goes with the server; nobody else shares it */
    int users;    /* shared folder: our place among its users; else -1 */
    char dir[96];
    char socket[108];
    char url[340];
};

/*
 * Starts a server and returns 0 when it answers; -1 with what and where in `why`.
 * `dir` NULL: in a fresh folder (0700, under TMPDIR or /tmp) that is removed at the end; the
 * server dies with the calling process. `dir` given: the folder is made if it is not there,
 * and processes that name the same one share its server, which then outlives the process
 * that started it; the last one out stops it. `extra_args` (NULL-terminated, or NULL) are put
 * at the end of redis-server's command line; one who joins a running server cannot add any.
 * A struct that embedded_start did not fill must not be given to embedded_stop.
 */
int embedded_start(struct embedded *server, const char *dir, char *const extra_args[],
                   char *why, size_t why_size);

/* Kills the server (stopped or hung ones too) unless others share it, reaps it, removes its
 * files. A second call has no effect. */
void embedded_stop(struct embedded *server);

/* unix:///..., as lw_client_new takes it; embedded.socket is the bare path. */
const char *embedded_url(const struct embedded *server);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * A throw-away redis-server on a private unix socket, for trying out and for tests. Owns
 * its process and who shares it. Knows nothing of locks or event loops: starting and
 * stopping block, for some milliseconds; where another process is stopped or hangs, for
 * half a minute at most for each wait. The server keeps nothing on disk.
 *
 * Trusted: who runs as the same user, root, and what redis-server on the PATH is (a
 * relative entry of PATH counts from the server's folder). Others may look for a way in:
 * what folder.h and listener.h do not trust is not trusted here. The server itself gets
 * no descriptor of this process along. Who connects by the URL goes by the path, and so
 * trusts the folders above.
 *
 * Happy path: embedded_start, embedded_url to connect to, embedded_stop.
 */
#ifndef LW_TOOL_EMBEDDED_H
#define LW_TOOL_EMBEDDED_H
#include "folder.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct embedded {
    pid_t pid;    /* of the server, whoever started it; 0: none that is known */
    bool child;   /* this process started it, and so must reap it */
    bool own_dir; /* the folder goes with the server; nobody else shares it */
    int gate;  /* shared folder: the lock under which servers start and stop; else -1 */
    int users; /* shared folder: our place among its users; else -1 */
    struct folder folder;
    char socket[108];
    char url[340];
};

/*
 * Starts a server and returns 0 when it answers; -1 with what and where in `why`.
 * `dir` NULL: in a fresh folder (0700, under TMPDIR or /tmp) that is removed at the end;
 * the server dies with the calling process. `dir` given: the folder is made if it is not
 * there, else it must be the effective user's own, with mode 0700; processes that name
 * the same one share its server, which then outlives the process that started it; the
 * last one out stops it. `extra_args` (NULL-terminated, or NULL) are put at the end of
 * redis-server's command line, and leave it in its folder (no --dir); one who joins a
 * running server cannot add any. A struct that embedded_start did not fill must not be
 * given to the others.
 */
int embedded_start(struct embedded *server, const char *dir, char *const extra_args[],
                   char *why, size_t why_size);

/* Another's waitpid has met this process; true if it was the server, which from now on is
 * gone and is neither signalled nor waited for. It is still to be stopped, for its
 * folder. */
bool embedded_reaped(struct embedded *server, pid_t pid);

/* Kills the server (stopped or hung ones too) unless others share it, reaps it, removes
 * its files. What listens in a shared folder and cannot be told to be its server is left
 * alone. A second call has no effect. */
void embedded_stop(struct embedded *server);

/* unix:///..., as lw_client_new takes it; embedded.socket is the bare path. */
const char *embedded_url(const struct embedded *server);

#endif

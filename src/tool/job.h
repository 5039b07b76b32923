/* SPDX-License-Identifier: MIT */
/* A job: the command while the lock is held, from its start until nothing of it is left.
 * Owns its environment, its processes, their watchdog, the terminal while it has it, and
 * how all of these end. Independent of locks and of the library.
 *
 * Unless `direct`, the command runs in a process group of its own, like a shell's job:
 * signals go to the group, and the job has ended when its last process has (see
 * process_tree.h). When the job stops (Ctrl-Z), lockwire stops as well. When lockwire is
 * continued, it asks how long the lock is still held before it continues the job.
 *
 * job_start starts it, job_signal passes it each signal, SIGCHLD included, `over` is
 * called at its end, and job_free follows. */
#ifndef LW_TOOL_JOB_H
#define LW_TOOL_JOB_H
#include "process_tree.h"
#include "terminal.h"
#include "watchdog.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define CHILD_FENCES 15 /* beyond the first */

struct child {
    char *const *argv;
    const char *name; /* LOCKWIRE_NAME */
    uint64_t fence;   /* LOCKWIRE_FENCE; 0: it is not set, an outer lock's neither */
    uint64_t more_fences[CHILD_FENCES]; /* LOCKWIRE_FENCE_2 to _16, likewise */
    const char *url;                    /* LOCKWIRE_URL; NULL: as this process has it */
    bool group;   /* in a process group of its own, whose number is its pid ... */
    int terminal; /* ... which has this terminal from its start; -1: not */
    const struct keeper
        *keeper;        /* of a group: who is told of it before it does anything */
    struct order order; /* the first one */
};

struct embedded;
struct event;
struct event_base;

struct work_plan {
    struct child child; /* `group` and `terminal` are work_start's to fill in */
    bool direct; /* no group, no keeper: one process, signalled and awaited by itself */
    int64_t grace_ms;        /* from SIGTERM to SIGKILL when it is ended ... */
    int64_t kill_ms;         /* ... and what SIGKILL itself may take */
    struct embedded *server; /* a child of this process beside the command, or NULL */
    /* Nothing is left of it; the exit code of the command itself. */
    void (*over)(int code, void *arg);
    /* For how long it may still work; after that work_end comes, or is to be done
     * without. */
    int64_t (*left_ms)(void *arg);
    void *arg;
};

struct work {
    struct work_plan plan;
    struct family family;
    struct keeper keeper;
    struct terminal terminal;
    struct event *grace; /* when it is over, SIGKILL */
    struct event *look;  /* SIGCHLD came; or it may not tell the end of what is left */
    struct event *beat;  /* when the keeper is told again */
    pid_t child;         /* 0: it has ended, others may be left */
    int code;            /* the child's */
    int64_t ended_ms;    /* when the child did, by the keeper's clock; 0: said already */
    int64_t kill_at_ms;  /* by the keeper's clock, once it is being ended */
    bool working;        /* something is left */
    bool stopped;        /* by a signal */
    bool stop_asked;     /* SIGTSTP was passed on, and nothing has stopped since */
    bool ending;         /* SIGTERM was sent ... */
    bool killing;     /* ... and SIGKILL; also to what is found after the child's end */
    bool hung_up;     /* SIGHUP was sent: nobody can give it a terminal */
    bool interrupted; /* by a key, for all that the terminal runs */
};

/* 0, or -1 and errno; then nothing was started. work_free afterwards in either case. */
int work_start(struct work *work, struct event_base *base, const struct work_plan *plan);
/* A signal that came to this process: SIGCHLD, or one to be passed on. */
void work_signal(struct work *work, int number, bool from_terminal);
/* It must end: SIGTERM, after the grace time SIGKILL; SIGKILL at once if it is stopped,
 * so that it never runs on. `over` follows. */
void work_end(struct work *work);
/* A struct of zeros is fine. */
void work_free(struct work *work);

#endif

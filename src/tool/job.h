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

#define JOB_FENCES 15 /* beyond the first */

struct child {
    char *const *argv;
    const char *name; /* LOCKWIRE_NAME */
    uint64_t fence;   /* LOCKWIRE_FENCE; 0: it is not set, an outer lock's neither */
    uint64_t more_fences[JOB_FENCES]; /* LOCKWIRE_FENCE_2 to _16, likewise */
    const char *url;                  /* LOCKWIRE_URL; NULL: as this process has it */
    bool group;   /* in a process group of its own, whose number is its pid ... */
    int terminal; /* ... which has this terminal from its start; -1: not */
    const struct watchdog
        *watchdog; /* of a group: who is told of it before it does anything */
    struct watchdog_order order; /* the first one */
};

struct embedded;
struct event;
struct event_base;

struct job_plan {
    struct child child; /* `group` and `terminal` are job_start's to fill in */
    bool direct; /* no group, no keeper: one process, signalled and awaited by itself */
    int64_t grace_ms;        /* from SIGTERM to SIGKILL when it is ended ... */
    int64_t kill_ms;         /* ... and what SIGKILL itself may take */
    struct embedded *server; /* a child of this process beside the command, or NULL */
    /* Nothing is left of it; the exit code of the command itself. */
    void (*on_end)(int code, void *arg);
    /* For how long it may still work; after that job_end comes, or is to be done
     * without. */
    int64_t (*left_ms)(void *arg);
    void *arg;
};

struct job {
    struct job_plan plan;
    struct process_tree tree;
    struct watchdog watchdog;
    struct terminal terminal;
    struct event *grace_timer; /* when it is over, SIGKILL */
    struct event
        *look_timer; /* SIGCHLD came; or it may not tell the end of what is left */
    struct event *beat_timer;   /* when the keeper is told again */
    pid_t child;                /* 0: it has ended, others may be left */
    int code;                   /* the child's */
    int64_t leftovers_since_ms; /* when the child did, by the keeper's clock; 0: said
                                   already */
    int64_t kill_at_ms;         /* by the keeper's clock, once it is being ended */
    bool running;               /* something is left */
    bool stopped;               /* by a signal */
    bool stop_asked;            /* SIGTSTP was passed on, and nothing has stopped since */
    bool ending;                /* SIGTERM was sent ... */
    bool killing;     /* ... and SIGKILL; also to what is found after the child's end */
    bool hung_up;     /* SIGHUP was sent: nobody can give it a terminal */
    bool interrupted; /* by a key, for all that the terminal runs */
};

/* 0, or -1 and errno; then nothing was started. job_free afterwards in either case. */
int job_start(struct job *job, struct event_base *base, const struct job_plan *plan);
/* A signal that came to this process: SIGCHLD, or one to be passed on. */
void job_signal(struct job *job, int number, bool from_terminal);
/* It must end: SIGTERM, after the grace time SIGKILL; SIGKILL at once if it is stopped,
 * so that it never runs on. `over` follows. */
void job_end(struct job *job);
/* A struct of zeros is fine. */
void job_free(struct job *job);

#endif

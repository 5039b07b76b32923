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
 * job_start starts it, job_signal passes it each signal, SIGCHLD included, on_end is
 * called at its end, and job_free follows. */
#ifndef LW_TOOL_JOB_H
#define LW_TOOL_JOB_H
#include "process_tree.h"
#include "terminal.h"
#include "watchdog.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define JOB_MORE_FENCES 15

struct embedded;
struct event;
struct event_base;

struct job_plan {
    char *const *argv;
    const char *name; /* LOCKWIRE_NAME */
    uint64_t fence;   /* LOCKWIRE_FENCE; 0: the variable is removed */
    uint64_t more_fences[JOB_MORE_FENCES]; /* LOCKWIRE_FENCE_2 to _16, likewise */
    const char *token;                     /* LOCKWIRE_TOKEN; NULL, "": removed */
    const char *url;                       /* LOCKWIRE_URL; NULL: unchanged */
    bool direct;             /* a single process, without a group and a watchdog */
    int64_t grace_ms;        /* from SIGTERM to SIGKILL */
    int64_t kill_ms;         /* the time that SIGKILL may take */
    struct embedded *server; /* another child of this process, or NULL */
    /* Returns true if a child whose status has changed does not belong to the job; or
     * NULL. */
    bool (*on_other_child)(pid_t pid, int status, void *arg);
    /* Nothing is left of the job. `code` is the exit code of the command. */
    void (*on_end)(int code, void *arg);
    /* Returns for how long the job may still run. */
    int64_t (*left_ms)(void *arg);
    void *arg;
};

struct job {
    struct job_plan plan;
    struct process_tree tree;
    struct watchdog watchdog;
    struct terminal terminal;
    struct event *grace_timer; /* at its end SIGKILL */
    struct event *look_timer;  /* reaps after SIGCHLD; looks for changes without one */
    struct event *beat_timer;  /* the next order to the watchdog */
    pid_t child;               /* the command; 0: it has ended */
    int code;                  /* its exit code */
    int64_t
        leftovers_since_ms; /* when the command ended; 0: its leftovers are reported */
    int64_t kill_at_ms;     /* set once it is being ended */
    bool running;           /* a process of it is left */
    bool stopped;           /* by a signal */
    bool stop_asked;        /* SIGTSTP was forwarded, and the job has not stopped */
    bool ending;            /* SIGTERM was sent */
    bool killing;           /* SIGKILL was sent, and is to any process found later */
    bool hung_up;           /* SIGHUP was sent: the job cannot get the terminal */
    bool interrupted;       /* by a key, meant for all processes of the terminal */
};

/* Returns 0, or -1 with errno set if nothing was started. job_free follows either way. */
int job_start(struct job *job, struct event_base *base, const struct job_plan *plan);
/* Handles a signal of this process: SIGCHLD, or one to be forwarded. */
void job_signal(struct job *job, int number, bool from_terminal);
/* Ends the job: SIGTERM, after the grace time SIGKILL; SIGKILL at once if it is stopped,
 * so that it never continues. on_end follows. */
void job_end(struct job *job);
/* Also for a struct of zeros. */
void job_free(struct job *job);

#endif

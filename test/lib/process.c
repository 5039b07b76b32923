/* SPDX-License-Identifier: MIT */
/*
 * process.h's child processes, by fork without exec. Independent of the tests.
 *
 * Usual course: fork; the child closes every descriptor except its pipes, and makes a new
 * event_base and a client; the parent turns the child's lines into events of the trace.
 */
#include "process.h"
#include "players.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_LABELS 8

static struct process *processes;

/* ---- in the child ---- */

struct task {
    char label[16];
    struct lw_lock *lock;
    struct lw_keep *keep;
};

static struct {
    struct event_base *base;
    struct lw_client *client;
    struct task tasks[MAX_LABELS];
    char line[256];
    size_t used;
} child;

static void report(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void report(const char *format, ...)
{
    char line[256];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof(line)) { /* cut off, but still a line */
        length = sizeof(line) - 1;
        line[length - 1] = '\n';
    }
    if (write(1, line, (size_t)length) != length) {
        _exit(3);
    }
}

static void child_lost(struct lw_lock *lock, int reason, void *arg)
{
    struct task *task = arg;

    (void)lock;
    report("%s lost %s\n", task->label, status_name(reason));
}

static void child_result(struct lw_lock *lock, int status, void *arg)
{
    struct task *task = arg;

    if (status == LW_OK) {
        report("fence %llu\n", (unsigned long long)lw_lock_fence(lock));
        report("token %s\n", lw_lock_token(lock));
    }
    report("%s %s\n", task->label, status == LW_OK ? "granted" : status_name(status));
}

static void child_gave_up(struct lw_lock *lock, int status, struct task *task,
                          const char *how)
{
    report("%s %s %s\n", task->label, how, status_name(status));
    lw_lock_free(lock);
    task->label[0] = '\0';
}

static void child_released(struct lw_lock *lock, int status, void *arg)
{
    child_gave_up(lock, status, arg, "released");
}

static void child_detached(struct lw_lock *lock, int status, void *arg)
{
    child_gave_up(lock, status, arg, "detached");
}

static void child_kept(struct lw_keep *keep, int status, void *arg)
{
    struct task *task = arg;

    if (status != LW_OK) {
        report("%s lost %s\n", task->label, status_name(status));
        return;
    }
    report("fence %llu\n", (unsigned long long)lw_lock_fence(lw_keep_lock(keep)));
    report("%s gained\n", task->label);
}

static struct task *find_task(const char *label)
{
    for (size_t i = 0; i < MAX_LABELS; i++) {
        if (strcmp(child.tasks[i].label, label) == 0) {
            return &child.tasks[i];
        }
    }
    _exit(4);
}

static struct task *new_task(const char *label)
{
    struct task *task = find_task("");

    (void)snprintf(task->label, sizeof(task->label), "%s", label);
    return task;
}

static void keep(const char *label, const char *name, unsigned lease_ms)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    struct task *task = new_task(label);

    options.lease_ms = lease_ms;
    if (lw_keep_new(child.client, name, &options, child_kept, child_kept, task,
                    &task->keep) != LW_OK) {
        _exit(8);
    }
}

/* `words` are an order's words after the name; adopts if `token` is not NULL. */
static bool request(const char *label, const char *name, const char *token,
                    const char *words)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    char mode = 0, owner[130] = "-";
    long long wait_ms;
    struct task *task;

    if (sscanf(words, "%lld %u %c %129s %u", &wait_ms, &options.lease_ms, &mode, owner,
               &options.permits) < 2) {
        return false;
    }
    options.lost = child_lost;
    options.wait_ms = wait_ms;
    if (mode) {
        options.mode = mode == 'w' ? LW_EXCLUSIVE : mode == 'r' ? LW_SHARED : LW_REDISSON;
    }
    if (strcmp(owner, "-") != 0) {
        options.owner = owner;
    }
    task = new_task(label);
    return (token != NULL ? lw_adopt(child.client, name, token, &options, child_result,
                                     task, &task->lock)
                          : lw_acquire(child.client, name, &options, child_result, task,
                                       &task->lock)) == LW_OK;
}

static void obey(const char *line)
{
    char label[16], name[128], token[96];
    unsigned ms;
    int rest = 0;

    if (sscanf(line, "acquire %15s %127s %n", label, name, &rest) == 2) {
        if (!request(label, name, NULL, line + rest)) {
            _exit(5);
        }
    } else if (sscanf(line, "adopt %15s %127s %95s %n", label, name, token, &rest) == 3) {
        if (!request(label, name, token, line + rest)) {
            _exit(9);
        }
    } else if (sscanf(line, "keep %15s %127s %u", label, name, &ms) == 3) {
        keep(label, name, ms);
    } else if (sscanf(line, "release %15s", label) == 1) {
        struct task *task = find_task(label);
        if (lw_release(task->lock, child_released, task) != LW_OK) {
            _exit(6);
        }
    } else if (sscanf(line, "detach %15s %u", label, &ms) == 2) {
        struct task *task = find_task(label);
        if (lw_detach(task->lock, ms, child_detached, task) != LW_OK) {
            _exit(10);
        }
    } else {
        _exit(strcmp(line, "quit") == 0 ? 0 : 7);
    }
}

/* Takes whole lines out of a buffer. */
static void split_lines(char *buffer, size_t *used, void (*use)(const char *, void *),
                        void *arg)
{
    for (char *end; (end = memchr(buffer, '\n', *used)) != NULL;) {
        *end = '\0';
        use(buffer, arg);
        *used -= (size_t)(end + 1 - buffer);
        memmove(buffer, end + 1, *used);
    }
}

static void obey_line(const char *line, void *arg)
{
    (void)arg;
    obey(line);
}

static void on_order(evutil_socket_t fd, short what, void *arg)
{
    ssize_t count = read(fd, child.line + child.used, sizeof(child.line) - child.used);

    (void)what, (void)arg;
    if (count <= 0) {
        _exit(0);
    }
    child.used += (size_t)count;
    split_lines(child.line, &child.used, obey_line, NULL);
}

static void child_link(struct lw_client *client, int up, const char *why, void *arg)
{
    (void)client, (void)arg;
    report(up ? "up\n" : "down %s\n", why);
}

static _Noreturn void be_child(const char *url, const struct lw_client_options *wanted,
                               const char *name, pid_t parent)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    char own_name[32], error[256];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(0);
    }
    if (wanted != NULL) {
        options = *wanted;
    }
    (void)snprintf(own_name, sizeof(own_name), "test-%s", name);
    options.client_name = own_name;
    if (options.prefix == NULL) {
        options.prefix = stage.prefix;
    }
    options.link = child_link;
    options.errbuf = error;
    options.errbuf_size = sizeof(error);
    child.base = event_base_new();
    struct event *orders = event_new(child.base, 0, EV_READ | EV_PERSIST, on_order, NULL);
    if (orders == NULL || event_add(orders, NULL) < 0 ||
        lw_client_new(child.base, url, &options, &child.client) != LW_OK) {
        _exit(2);
    }
    event_base_dispatch(child.base);
    _exit(0);
}

/* ---- in the parent ---- */

static void hear_line(const char *line, void *arg)
{
    struct process *process = arg;

    if (strcmp(line, "up") == 0) {
        process->linked = true;
    } else if (sscanf(line, "fence %llu", &process->fence) != 1 &&
               sscanf(line, "token %95s", process->token) != 1 &&
               strncmp(line, "down", 4) != 0) {
        stage_note("%s: %s", process->label, line);
    }
}

static void on_report(evutil_socket_t fd, short what, void *arg)
{
    struct process *process = arg;
    ssize_t count =
        read(fd, process->line + process->used, sizeof(process->line) - process->used);

    (void)what;
    if (count <= 0) {
        event_del(process->from);
        return;
    }
    process->used += (size_t)count;
    split_lines(process->line, &process->used, hear_line, process);
}

static void all_leave(bool in_good_order)
{
    (void)in_good_order;
    while (processes != NULL) {
        struct process *process = processes;
        process_kill(process);
        processes = process->next;
        free(process);
    }
}

static bool has_subscription(const struct process *process)
{
    struct peer peer = {.next = NULL};

    (void)snprintf(peer.label, sizeof(peer.label), "%s", process->label);
    return peer_link_id(&peer, true) != 0;
}

struct process *process_start(const char *label, const struct lw_client_options *options)
{
    struct process *process = calloc(1, sizeof(*process));
    int to[2], from[2];
    pid_t parent = getpid();

    stage_at_exit(all_leave);
    stage.notes_may_stay = true;
    if (process == NULL || pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0) {
        stage_fail("%s: %s", label, strerror(errno));
    }
    (void)snprintf(process->label, sizeof(process->label), "%s", label);
    process->pid = fork();
    if (process->pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        for (int fd = 3; fd < 1024; fd++) {
            close(fd);
        }
        be_child(stage.server.url, options, label, parent);
    }
    close(to[0]);
    close(from[1]);
    process->to = to[1];
    process->next = processes;
    processes = process;
    process->from =
        event_new(stage.base, from[0], EV_READ | EV_PERSIST, on_report, process);
    if (process->pid < 0 || process->from == NULL || event_add(process->from, NULL) < 0) {
        stage_fail("%s: %s", label, strerror(errno));
    }
    UNTIL(process->linked && has_subscription(process));
    return process;
}

void process_tell(struct process *process, const char *format, ...)
{
    char line[256];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(line, sizeof(line) - 1, format, arguments);
    va_end(arguments);
    if (length >= (int)sizeof(line) - 1) {
        stage_fail("%s: an order that is too long: %s", process->label, line);
    }
    line[length++] = '\n';
    if (write(process->to, line, (size_t)length) != length) {
        stage_complain("%s does not listen: %s", process->label, strerror(errno));
    }
}

void process_signal(struct process *process, int signal)
{
    kill(process->pid, signal);
    if (signal == SIGSTOP) {
        waitpid(process->pid, &(int){0}, WUNTRACED);
    }
}

void process_kill(struct process *process)
{
    if (process->pid <= 0) {
        return;
    }
    kill(process->pid, SIGKILL);
    while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR) {
        continue;
    }
    process->pid = 0;
    int from = event_get_fd(process->from);
    event_free(process->from);
    close(from);
    close(process->to);
}

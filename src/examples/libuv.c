/* SPDX-License-Identifier: MIT */
/*
 * Locks for a program with another event loop, here libuv's: lockwire runs in a thread of
 * its own with its own event_base, and the two loops exchange messages through two pipes.
 * The same works with libev, GLib or Asio: only the main thread's half changes.
 *
 *     cc libuv.c $(pkg-config --cflags --libs lockwire libuv) -o libuv
 *     LOCKWIRE_URL=redis://localhost ./libuv NAME [JOB_MS]
 *
 * All calls of lockwire and all its callbacks are made in the lock thread. The main
 * thread sends ACQUIRE, RELEASE and STOP, and receives GRANTED, LOST and RELEASED. A
 * message is shorter than PIPE_BUF, so that each write and each read transfers a whole
 * one. A job has at most three messages in a pipe; with fewer than 500 jobs a pipe (64
 * KiB) never fills, and no write blocks.
 *
 * LOST reaches the main thread later than `lost` is called: margin_ms covers that delay,
 * and the time that the main thread needs to stop its work.
 *
 * Here: the lock is acquired, a job takes JOB_MS, the lock is released. SIGTERM ends the
 * job early. If the lock is lost, the job is stopped, and the exit code is 1.
 */
#include <event2/event.h>
#include <inttypes.h>
#include <lockwire.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <uv.h>

#define MARGIN_MS 1000

enum what { ACQUIRE, RELEASE, STOP, GRANTED, LOST, RELEASED };

struct job {
    const char *name;
    struct lw_lock *lock; /* used by the lock thread only */
    uv_timer_t work;      /* the rest is used by the main thread only */
    uv_signal_t terminate;
    long ms;
    int code;
};

struct message {
    enum what what;
    int status;     /* an lw_error */
    uint64_t fence; /* of GRANTED */
    struct job *job;
};

static int to_locks[2],
    to_main[2]; /* pipes: each thread reads one, and writes the other */

static void post(int fd, const struct message *message)
{
    if (write(fd, message, sizeof(*message)) != (ssize_t)sizeof(*message)) {
        perror("libuv: write");
        abort(); /* else a job would never get its lock */
    }
}

/* ---- the lock thread ---- */

static struct lw_client *client;

static void on_closed(struct lw_client *closed, void *arg)
{
    (void)arg;
    lw_client_free(closed); /* no event is left, so that the loop ends */
}

static void on_released(struct lw_lock *lock, int status, void *arg)
{
    struct message message = {.what = RELEASED, .status = status, .job = arg};

    lw_lock_free(lock);
    post(to_main[1], &message);
}

static void on_lost(struct lw_lock *lock, int reason, void *arg)
{
    struct message message = {.what = LOST, .status = reason, .job = arg};

    (void)lock;
    post(to_main[1], &message);
}

static void on_granted(struct lw_lock *lock, int status, void *arg)
{
    struct message message = {
        .what = GRANTED, .status = status, .fence = lw_lock_fence(lock), .job = arg};

    if (status != LW_OK) {
        (void)fprintf(stderr, "libuv: %s: %s\n", lw_strerror(status),
                      lw_lock_errstr(lock));
        lw_lock_free(lock);
    }
    post(to_main[1], &message);
}

static void acquire(struct job *job)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    struct message refused = {.what = GRANTED, .job = job};

    options.wait_ms = -1;
    options.margin_ms = MARGIN_MS;
    options.lost = on_lost;
    refused.status = lw_acquire(client, job->name, &options, on_granted, job, &job->lock);
    if (refused.status != 0) { /* no callback follows */
        (void)fprintf(stderr, "libuv: %s\n", lw_strerror(refused.status));
        post(to_main[1], &refused);
    }
}

static void release(struct job *job)
{
    struct message over = {.what = RELEASED, .status = LW_ELOST, .job = job};

    if (lw_release(job->lock, on_released, job) != 0) { /* it was lost in the meantime */
        lw_lock_free(job->lock);
        post(to_main[1], &over);
    }
}

static void on_request(evutil_socket_t fd, short events, void *arg)
{
    struct event **reading = arg;
    struct message message;

    (void)events;
    if (read(fd, &message, sizeof(message)) != (ssize_t)sizeof(message)) {
        return;
    }
    if (message.what == ACQUIRE) {
        acquire(message.job);
    } else if (message.what == RELEASE) {
        release(message.job);
    } else {
        event_free(*reading);
        lw_client_close(client, on_closed, NULL);
    }
}

static void run_locks(void *arg)
{
    struct event_base *base = arg;
    struct event *reading = NULL;

    reading = event_new(base, to_locks[0], EV_READ | EV_PERSIST, on_request, &reading);
    if (reading == NULL || event_add(reading, NULL) != 0 ||
        event_base_dispatch(base) < 0) {
        abort();
    }
    event_base_free(base);
}

/* ---- the main thread ---- */

static void end_job(struct job *job)
{
    struct message stop = {.what = STOP};

    uv_close((uv_handle_t *)&job->work, NULL);
    uv_close((uv_handle_t *)&job->terminate, NULL);
    post(to_locks[1], &stop);
}

static void job_is_done(uv_timer_t *timer)
{
    struct message message = {.what = RELEASE, .job = timer->data};

    post(to_locks[1], &message);
}

static void on_terminate(uv_signal_t *signal, int number)
{
    struct job *job = signal->data;

    (void)number;
    if (uv_is_active((uv_handle_t *)&job->work)) {
        uv_timer_stop(&job->work);
        job_is_done(&job->work);
    }
}

static void on_reply(uv_poll_t *poll, int status, int events)
{
    struct message message;
    struct job *job;

    (void)status, (void)events;
    if (read(to_main[0], &message, sizeof(message)) != (ssize_t)sizeof(message)) {
        return;
    }
    job = message.job;
    if (message.what == GRANTED && message.status == LW_OK) {
        (void)printf("granted with fence %" PRIu64 "\n", message.fence);
        (void)fflush(stdout);
        uv_timer_start(&job->work, job_is_done, (uint64_t)job->ms, 0);
    } else if (message.what == LOST) {
        job->code = EXIT_FAILURE;
        (void)fprintf(stderr, "libuv: lost: %s\n", lw_strerror(message.status));
        if (uv_is_active((uv_handle_t *)&job->work)) { /* else RELEASE was sent */
            uv_timer_stop(&job->work);
            job_is_done(&job->work);
        }
    } else { /* released, or not granted */
        (void)printf("%s\n", message.what == RELEASED ? "released" : "not granted");
        job->code = message.what == RELEASED ? job->code : EXIT_FAILURE;
        uv_close((uv_handle_t *)poll, NULL);
        end_job(job);
    }
}

static int begin(uv_loop_t *loop, struct job *job, uv_poll_t *poll)
{
    struct message message = {.what = ACQUIRE, .job = job};

    job->work.data = job->terminate.data = job;
    if (uv_poll_init(loop, poll, to_main[0]) != 0 ||
        uv_poll_start(poll, UV_READABLE, on_reply) != 0 ||
        uv_timer_init(loop, &job->work) != 0 ||
        uv_signal_init(loop, &job->terminate) != 0 ||
        uv_signal_start(&job->terminate, on_terminate, SIGTERM) != 0) {
        return -1;
    }
    post(to_locks[1], &message);
    return 0;
}

int main(int argc, char **argv)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    struct job job = {.ms = argc > 2 ? strtol(argv[2], NULL, 10) : 100};
    struct event_base *base = event_base_new();
    char why[LW_WHY_SIZE] = "out of memory";
    uv_thread_t thread;
    uv_poll_t poll;

    if (argc < 2) {
        (void)fprintf(stderr, "usage: libuv NAME [JOB_MS]\n");
        return EXIT_FAILURE;
    }
    job.name = argv[1];
    options.errbuf = why;
    options.errbuf_size = sizeof(why);
    if (base == NULL || pipe(to_locks) != 0 || pipe(to_main) != 0 ||
        lw_client_new(base, getenv("LOCKWIRE_URL"), &options, &client) != 0) {
        (void)fprintf(stderr, "libuv: %s\n", why);
        return EXIT_FAILURE;
    }
    /* From here on the client and its base belong to the lock thread. */
    if (uv_thread_create(&thread, run_locks, base) != 0 ||
        begin(uv_default_loop(), &job, &poll) != 0) {
        abort();
    }
    (void)uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    uv_thread_join(&thread);
    (void)uv_loop_close(uv_default_loop());
    return job.code;
}

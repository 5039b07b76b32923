/* SPDX-License-Identifier: MIT */
/*
 * One of several workers, on any hosts, of which one works at a time. It waits in the
 * queue for each job, and passes its fencing token to the resource with every write.
 *
 *     cc worker.c $(pkg-config --cflags --libs lockwire) -o worker
 *     LOCKWIRE_URL=redis://localhost ./worker NAME STORE WORK_MS
 *
 * request_lock() requests the lock. acquired() starts the work, here a timer; worked()
 * stores the result and releases the lock, and released() calls request_lock() again. If
 * the lock is lost during the work, the job is dropped, and the lock requested again.
 * SIGTERM closes the client, which releases the lock; the next worker does the job.
 */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <inttypes.h>
#include <lockwire.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

struct worker {
    struct lw_client *client;
    struct lw_lock *lock; /* NULL: neither requested nor held */
    struct event *work, *term;
    const char *name, *store;
    struct timeval takes;  /* the duration of a job */
    char why[LW_WHY_SIZE]; /* the library's explanation of a refused call */
    int code;              /* the exit code */
};

/*
 * The resource: a file of lines that begin with a fencing token. It refuses a token that
 * is smaller than an earlier one. This protects it from a worker that was stopped between
 * checking its lock and writing. (flock makes the check and the write atomic; a database
 * has: update ... where fence <= ?.) Returns NULL, or the reason why nothing was written.
 */
static const char *store(const char *path, uint64_t fence, const char *what)
{
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    FILE *file = fd >= 0 && flock(fd, LOCK_EX) == 0 ? fdopen(fd, "r+") : NULL;
    const char *why = NULL;
    uint64_t seen = 0;
    char line[100];

    if (file == NULL) {
        why = strerror(errno);
        (void)close(fd);
        return why;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        seen = strtoull(line, NULL, 10); /* never smaller: the last is the largest */
    }
    if (seen > fence) {
        why = "a larger fencing token was here before";
    } else if (fseek(file, 0, SEEK_END) != 0 ||
               fprintf(file, "%" PRIu64 " %ld %s\n", fence, (long)getpid(), what) < 0) {
        why = strerror(errno);
    }
    if (fclose(file) != 0 && why == NULL) { /* writes the line, and unlocks */
        why = strerror(errno);
    }
    return why;
}

/* The last callback: the loop has no further events. */
static void closed(struct lw_client *client, void *arg)
{
    struct worker *worker = arg;

    lw_lock_free(worker->lock);
    lw_client_free(client);
    event_free(worker->work);
    event_free(worker->term);
}

static void stop(struct worker *worker, int code)
{
    worker->code = code;
    (void)event_del(worker->work);
    (void)lw_client_close(worker->client, closed, worker); /* fails if it is closing */
}

static void fail(struct worker *worker, const char *what, const char *why)
{
    (void)fprintf(stderr, "%s: %s\n", what, why);
    stop(worker, EXIT_FAILURE);
}

static void request_lock(struct worker *worker);

static void released(struct lw_lock *lock, int status, void *arg)
{
    struct worker *worker = arg;

    /* LW_ENOTHELD: the lock was already lost; the fencing token has protected the store.
     * LW_EUNKNOWN: no reply; LW_ECONN: no server could do it now. The library keeps
     * trying after both. LW_EREDIS: the server refused, so the lock stays held until its
     * lease expires. None of them undoes the job. */
    if (status != LW_OK) {
        (void)fprintf(stderr, "release: %s %s\n", lw_strerror(status),
                      lw_lock_errstr(lock));
    }
    lw_lock_free(lock);
    worker->lock = NULL;
    request_lock(worker);
}

/* The job's last step. */
static void worked(evutil_socket_t fd, short what, void *arg)
{
    struct worker *worker = arg;
    const char *why = store(worker->store, lw_lock_fence(worker->lock), "done");

    (void)fd, (void)what;
    if (why != NULL) {
        fail(worker, worker->store, why);
        return;
    }
    /* cannot fail: had the lock been lost, lost() would have deleted this timer */
    (void)lw_release(worker->lock, released, worker);
}

/* Another worker may hold the lock by now: nothing is written, the job begins again. */
static void lost(struct lw_lock *lock, int reason, void *arg)
{
    struct worker *worker = arg;

    (void)fprintf(stderr, "lost: %s\n", lw_strerror(reason));
    (void)event_del(worker->work);
    lw_lock_free(lock);
    worker->lock = NULL;
    request_lock(worker);
}

static void acquired(struct lw_lock *lock, int status, void *arg)
{
    struct worker *worker = arg;
    const char *why;

    if (status == LW_ECLOSED) {
        return; /* stop() has closed the client */
    }
    if (status != LW_OK) { /* permanent (a missing permission): outages are waited out */
        why = lw_lock_errstr(lock);
        fail(worker, worker->name, *why != '\0' ? why : lw_strerror(status));
        return;
    }
    why = store(worker->store, lw_lock_fence(lock), "begins");
    if (why != NULL) {
        fail(worker, worker->store, why);
    } else if (event_add(worker->work, &worker->takes) < 0) {
        fail(worker, worker->name, "no timer");
    }
}

static void request_lock(struct worker *worker)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    int error;

    options.wait_ms = -1;    /* first come, first served; wait without a limit */
    options.lease_ms = 3000; /* a worker that died blocks the others for so long */
    options.lost = lost;
    error = lw_acquire(worker->client, worker->name, &options, acquired, worker,
                       &worker->lock);
    if (error < 0 && error != LW_ECLOSED) { /* LW_ECLOSED: SIGTERM during a release */
        fail(worker, worker->name, worker->why);
    }
}

static void terminated(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what;
    stop(arg, EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;
    const char *url = getenv("LOCKWIRE_URL"); /* no argument: it may have a password */
    struct event_base *base = event_base_new();
    struct worker worker = {.why = "out of memory"}; /* or the library's text */
    long work_ms = argc == 4 ? strtol(argv[3], NULL, 10) : 0;

    if (base == NULL || work_ms <= 0) {
        (void)fprintf(stderr, "usage: worker NAME STORE WORK_MS\n");
        return EXIT_FAILURE;
    }
    worker.name = argv[1];
    worker.store = argv[2];
    worker.takes = (struct timeval){work_ms / 1000, work_ms % 1000 * 1000};
    worker.work = event_new(base, -1, 0, worked, &worker);
    worker.term = evsignal_new(base, SIGTERM, terminated, &worker);
    options.client_name = "worker";
    options.errbuf = worker.why;
    options.errbuf_size = sizeof(worker.why);
    if (worker.work == NULL || worker.term == NULL || event_add(worker.term, NULL) < 0 ||
        url == NULL || lw_client_new(base, url, &options, &worker.client) < 0) {
        (void)fprintf(stderr, "worker: %s\n",
                      url != NULL ? worker.why : "LOCKWIRE_URL is not set");
        return EXIT_FAILURE;
    }
    request_lock(&worker);
    event_base_dispatch(base);
    event_base_free(base);
    return worker.code;
}

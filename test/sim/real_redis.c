/* SPDX-License-Identifier: MIT
 *
 * A private redis-server; see real_redis.h.
 */
#include "real_redis.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_MS 60000

static struct real_redis *running; /* to be removed however the test ends */

static void remove_files(struct real_redis *redis);

static void stop_at_signal(int signal_number)
{
    if (running != NULL) {
        remove_files(running);
    }
    _exit(128 + signal_number);
}

static void stop_at_exit(void)
{
    if (running != NULL) {
        real_redis_stop(running);
    }
}

static void fail(const char *what)
{
    (void)fprintf(stderr, "real redis: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void make_clock(struct real_redis *redis, int64_t time_us)
{
    const char *path = redis->clock_path;
    int fd;

    (void)snprintf(redis->clock_path, sizeof(redis->clock_path), "%s/clock",
                   redis->directory);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(int64_t))) {
        fail(path);
    }
    void *memory = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) {
        fail(path);
    }
    close(fd);
    redis->clock_us = memory;
    *redis->clock_us = time_us;
    setenv("LOCKWIRE_FROZEN_CLOCK", path, 1);
}

/* Starts the server. Hashes of any size stay in the order of insertion, so that HGETALL
 * can be compared. The options have the names of 6.2, which later versions accept. Later
 * versions have DEBUG only if it is enabled; 6.2 always has it. */
static void run_server(const struct real_redis *redis, const char *program,
                       const char *clock_library, bool ask_for_debug, int log)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("LD_PRELOAD", clock_library, 1);
    dup2(log, 1);
    dup2(log, 2);
    execlp(program, program, "--port", "0", "--unixsocket", redis->socket_path, "--save",
           "", "--dir", redis->directory, "--hz", "1", "--hash-max-ziplist-entries",
           "100000", "--hash-max-ziplist-value", "100000", "--lua-time-limit", "1",
           ask_for_debug ? "--enable-debug-command" : (char *)NULL, "yes", (char *)NULL);
    _exit(127);
}

/* Waits for the line in the server's log. Returns false if the server ended before, or if
 * there is no such program. */
static bool wait_until_ready(struct real_redis *redis, bool last_try)
{
    struct buffer text = {0};
    bool ready = false, ended = false;

    while (!ready && !ended) {
        struct pollfd log = {.fd = redis->log, .events = POLLIN};
        char piece[4096];
        if (poll(&log, 1, PATIENCE_MS) <= 0) {
            fail("not ready in time");
        }
        ssize_t len = read(redis->log, piece, sizeof(piece));
        ended = len <= 0;
        buffer_append(&text, piece, ended ? 0 : (size_t)len);
        ready = text.len && memmem(text.data, text.len, "accept connections", 18) != NULL;
    }
    if (!ready && last_try) {
        (void)fprintf(stderr, "%.*s", (int)text.len, text.data != NULL ? text.data : "");
    }
    buffer_free(&text);
    return ready;
}

static bool try_to_start(struct real_redis *redis, const char *program,
                         const char *clock_library, int64_t time_us, bool ask_for_debug)
{
    int log[2];

    *redis = (struct real_redis){.pid = -1};
    strcpy(redis->directory, "/tmp/lockwire-diff-XXXXXX");
    if (mkdtemp(redis->directory) == NULL || pipe2(log, O_CLOEXEC)) {
        fail(redis->directory);
    }
    (void)snprintf(redis->socket_path, sizeof(redis->socket_path), "%s/redis.sock",
                   redis->directory);
    make_clock(redis, time_us);
    redis->log = log[0];
    redis->pid = fork();
    if (redis->pid < 0) {
        fail("fork");
    }
    if (redis->pid == 0) {
        run_server(redis, program, clock_library, ask_for_debug, log[1]);
    }
    close(log[1]);
    running = redis;
    (void)atexit(stop_at_exit);
    (void)signal(SIGTERM, stop_at_signal);
    (void)signal(SIGINT, stop_at_signal);
    if (wait_until_ready(redis, !ask_for_debug)) {
        fcntl(redis->log, F_SETFL, O_NONBLOCK);
        return true;
    }
    real_redis_stop(redis);
    return false;
}

bool real_redis_start(struct real_redis *redis, const char *program,
                      const char *clock_library, int64_t time_us)
{
    return try_to_start(redis, program, clock_library, time_us, true) ||
           try_to_start(redis, program, clock_library, time_us, false);
}

/* Does only what a signal handler may do. */
static void remove_files(struct real_redis *redis)
{
    kill(redis->pid, SIGKILL);
    waitpid(redis->pid, NULL, 0);
    unlink(redis->clock_path);
    unlink(redis->socket_path);
    rmdir(redis->directory);
}

void real_redis_stop(struct real_redis *redis)
{
    if (running != redis) {
        return;
    }
    running = NULL;
    remove_files(redis);
    close(redis->log);
    munmap((void *)redis->clock_us, sizeof(int64_t));
}

void real_redis_set_time(struct real_redis *redis, int64_t time_us)
{
    char ignored[4096];

    *redis->clock_us = time_us;
    while (read(redis->log, ignored, sizeof(ignored)) > 0) {
        ; /* a full pipe would stop the server */
    }
}

void real_open(struct real_link *link, const struct real_redis *redis)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    *link = (struct real_link){.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    strncpy(address.sun_path, redis->socket_path, sizeof(address.sun_path) - 1);
    if (link->fd < 0 || connect(link->fd, (struct sockaddr *)&address, sizeof(address))) {
        fail(redis->socket_path);
    }
}

void real_close(struct real_link *link)
{
    close(link->fd);
    link->fd = -1;
    buffer_free(&link->in);
}

void real_write(struct real_link *link, struct bytes data)
{
    while (data.len) {
        ssize_t sent = send(link->fd, data.data, data.len, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) {
            continue;
        }
        if (sent < 0) {
            return; /* closed: the reader notices */
        }
        data = (struct bytes){data.data + sent, data.len - (size_t)sent};
    }
}

static bool read_more(struct real_link *link)
{
    struct pollfd wait = {.fd = link->fd, .events = POLLIN};
    char piece[65536];
    int ready;

    do {
        ready = poll(&wait, 1, PATIENCE_MS);
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0) {
        fail("no answer in time");
    }
    ssize_t len = read(link->fd, piece, sizeof(piece));
    if (len > 0) {
        buffer_append(&link->in, piece, (size_t)len);
    }
    return len > 0;
}

bool real_read_bytes(struct real_link *link, size_t len, struct buffer *answer)
{
    while (link->in.len < len) {
        if (!read_more(link)) {
            return false;
        }
    }
    buffer_append(answer, link->in.data, len);
    buffer_consume(&link->in, len);
    return true;
}

/* Returns the length of the first value, or 0 if it is not complete. */
static size_t value_length(struct bytes data)
{
    const char *end = data.len ? memchr(data.data, '\n', data.len) : NULL;
    long long number;
    size_t at;

    if (end == NULL) {
        return 0;
    }
    at = (size_t)(end - data.data) + 1;
    number = atoll(data.data + 1);
    if (data.data[0] == '$' && number >= 0) {
        at += (size_t)number + 2;
    }
    for (long long i = 0; data.data[0] == '*' && i < number; i++) {
        struct bytes rest = {data.data + at, at < data.len ? data.len - at : 0};
        size_t inner = value_length(rest);
        if (!inner) {
            return 0;
        }
        at += inner;
    }
    return at <= data.len ? at : 0;
}

bool real_read_answer(struct real_link *link, struct buffer *answer)
{
    size_t len;

    while ((len = value_length(buffer_view(&link->in))) == 0) {
        if (!read_more(link)) {
            return false;
        }
    }
    return real_read_bytes(link, len, answer);
}

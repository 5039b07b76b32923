/* SPDX-License-Identifier: MIT */
/* A daemon that restarts for an upgrade: it detaches 1,000 locks for 30 s and execs the
 * new daemon, which adopts all of them, each with a larger fencing token. No lock is
 * lost, and no waiter of another process gets one before the new daemon releases it. The
 * test forks before it execs, since it needs the other process.
 *
 * Usual course: main() without arguments runs the test, and execs itself with the
 * arguments adopt URL FILE. */
#include "child.h"
#include "players.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOCKS 1000
#define KEEP_MS 30000
#define LEASE_MS 20000

struct job {
    char name[16], token[96];
    struct lw_lock *lock, *rival;
    unsigned long long fence;
};
static struct job jobs[LOCKS];
static struct event_base *base;
static int held, detached, failed, rivals_granted;

/* ---- both daemons ---- */

static void on_held(struct lw_lock *lock, int status, void *arg)
{
    struct job *job = arg;
    uint64_t fence = lw_lock_fence(lock);

    if (status != LW_OK || fence <= job->fence) {
        failed++;
        (void)fprintf(stderr, "%s: %s, fence %llu after %llu\n", job->name,
                      lw_strerror(status), (unsigned long long)fence, job->fence);
    }
    job->fence = fence;
    held++;
}

static void on_lost(struct lw_lock *lock, int reason, void *arg)
{
    (void)arg;
    failed++;
    (void)fprintf(stderr, "%s is lost: %s\n", lw_lock_name(lock), lw_strerror(reason));
}

/* ---- the new daemon ---- */

static void on_input(evutil_socket_t fd, short what, void *arg)
{
    (void)fd, (void)what, (void)arg;
    event_base_loopbreak(base);
}

static void on_closed(struct lw_client *client, void *arg)
{
    (void)client, (void)arg;
    event_base_loopbreak(base);
}

static int run_new_daemon(const char *url, const char *file)
{
    FILE *state = fopen(file, "r");
    struct lw_client *client;
    struct event *input;

    base = event_base_new();
    if (state == NULL || base == NULL || lw_client_new(base, url, NULL, &client) != 0) {
        return 2;
    }
    for (int i = 0; i < LOCKS; i++) {
        if (fscanf(state, "%15s %95s %llu", jobs[i].name, jobs[i].token,
                   &jobs[i].fence) != 3 ||
            lw_adopt(client, jobs[i].name, jobs[i].token,
                     asking(.lease_ms = LEASE_MS, .wait_ms = -1, .lost = on_lost),
                     on_held, &jobs[i], &jobs[i].lock) != 0) {
            return 3;
        }
    }
    (void)fclose(state);
    while (held < LOCKS) {
        event_base_loop(base, EVLOOP_ONCE);
    }
    (void)printf("adopted all, %d failed\n", failed);
    (void)fflush(stdout);
    input = event_new(base, STDIN_FILENO, EV_READ, on_input, NULL);
    event_add(input, NULL);
    event_base_dispatch(base); /* until the test closes its end of the pipe */
    event_free(input);
    lw_client_close(client, on_closed, NULL);
    event_base_dispatch(base);
    for (int i = 0; i < LOCKS; i++) {
        lw_lock_free(jobs[i].lock);
    }
    lw_client_free(client);
    event_base_free(base);
    return failed == 0 ? 0 : 4;
}

/* ---- the old daemon, and its rivals ---- */

static void on_detached(struct lw_lock *lock, int status, void *arg)
{
    (void)lock, (void)arg;
    failed += status != LW_OK;
    detached++;
}

static void on_rival(struct lw_lock *lock, int status, void *arg)
{
    (void)lock, (void)arg;
    rivals_granted += status == LW_OK;
}

static void hold_all(struct peer *daemon, struct peer *other)
{
    for (int i = 0; i < LOCKS; i++) {
        (void)snprintf(jobs[i].name, sizeof(jobs[i].name), "n%d", i);
        assert_int_equal(
            lw_acquire(daemon->client, jobs[i].name,
                       asking(.lease_ms = LEASE_MS, .wait_ms = -1, .lost = on_lost),
                       on_held, &jobs[i], &jobs[i].lock),
            0);
    }
    UNTIL(held == LOCKS);
    for (int i = 0; i < LOCKS; i++) {
        assert_int_equal(lw_acquire(other->client, jobs[i].name, asking(.wait_ms = -1),
                                    on_rival, NULL, &jobs[i].rival),
                         0);
    }
    UNTIL(redis_int("EVAL %s 0", "return #redis.call('KEYS', 'lockwire:2:queue:*')") ==
          LOCKS);
}

static void detach_all(struct peer *daemon, const char *file)
{
    FILE *state = fopen(file, "w");

    assert_non_null(state);
    for (int i = 0; i < LOCKS; i++) {
        (void)fprintf(state, "%s %s %llu\n", jobs[i].name, lw_lock_token(jobs[i].lock),
                      jobs[i].fence);
        assert_int_equal(lw_detach(jobs[i].lock, KEEP_MS, on_detached, NULL), 0);
    }
    assert_int_equal(fclose(state), 0);
    UNTIL(detached == LOCKS);
    for (int i = 0; i < LOCKS; i++) {
        assert_int_equal(lw_lock_state(jobs[i].lock), LW_DONE);
        lw_lock_free(jobs[i].lock);
    }
    peer_close(daemon);
    UNTIL(daemon->closed);
    assert_int_equal(failed, 0);
}

static const char *program; /* under valgrind /proc/self/exe is valgrind */

/* Returns the pid; `from` reads its output, and its input ends with `to`. */
static pid_t start_new_daemon(const char *file, int *from, int *to)
{
    int out[2], in[2];
    pid_t child;

    assert_int_equal(pipe(out) + pipe(in), 0);
    child = fork_for_test();
    if (child == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        for (int fd = 3; fd < 256; fd++) {
            close(fd);
        }
        execl(program, "restart", "adopt", stage.server.url, file, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    *from = out[0];
    *to = in[1];
    assert_int_equal(fcntl(*from, F_SETFL, O_NONBLOCK), 0);
    return child;
}

/* Reads the output that has come, and returns true once it is a whole line. */
static bool has_line(int fd, char *line, size_t size)
{
    size_t length = strlen(line);
    ssize_t got = read(fd, line + length, size - length - 1);

    line[got > 0 ? length + (size_t)got : length] = '\0';
    return strchr(line, '\n') != NULL;
}

static void a_thousand_locks_outlive_a_restart(void **state)
{
    struct peer *daemon = peer_ready("d", client_of(.max_inflight = 200));
    struct peer *other = peer_ready("o", NULL);
    char file[] = "/tmp/lockwire-restart-XXXXXX", line[128] = "";
    int from, to, status = 1, fd = mkstemp(file);
    pid_t child;

    (void)state;
    assert_true(fd >= 0);
    close(fd);
    held = detached = failed = rivals_granted = 0;
    memset(jobs, 0, sizeof(jobs));
    hold_all(daemon, other);
    detach_all(daemon, file);
    child = start_new_daemon(file, &from, &to);
    UNTIL(has_line(from, line, sizeof(line)));
    (void)unlink(file);
    assert_string_equal(line, "adopted all, 0 failed\n");
    assert_int_equal(rivals_granted, 0);
    close(to);
    UNTIL(rivals_granted == LOCKS);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    close(from);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    for (int i = 0; i < LOCKS; i++) {
        assert_true(lw_lock_fence(jobs[i].rival) > jobs[i].fence);
        lw_lock_free(jobs[i].rival);
    }
    stage_clear_trace();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(a_thousand_locks_outlive_a_restart),
    };

    program = argv[0];
    if (argc == 4 && strcmp(argv[1], "adopt") == 0) {
        return run_new_daemon(argv[2], argv[3]);
    }
    return STAGE_RUN(tests);
}

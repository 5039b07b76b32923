/* SPDX-License-Identifier: MIT */
/* Callback rule 8, on fork: the children of a pre-fork server. They inherit clients that
 * hold, wait, and have requests in flight, and they run their event loops. No child calls
 * back, sends, or reads the parent's data; each parent keeps its locks.
 *
 * Usual course: nineteen clients; children of several kinds, whose loops run first; then
 * the parent's loop for longer than a lease, and everything is still held. */
#include "child.h"
#include "stage.h"

#include "lockwire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLIENTS 19
#define CHILDREN 3
#define LEASE_MS 4000
#define ENTRY "the client was created before fork"

struct parent {
    struct event_base *base;
    struct lw_client *clients[CLIENTS];
    struct lw_lock *held[CLIENTS], *waiting[CLIENTS];
    struct lw_keep *keep;
    struct lw_all *all, *waiting_all;
    struct lw_watcher *watch;
    pid_t pid;
    int granted, downs, renewed, lost, closed, watched, others;
    int asked, yielded; /* asked_to_yield; holders that lw_ask_to_yield has reached */
    int64_t still_ms;   /* how long its loop stood still while it had children */
    char errbuf[256];
};

/* The counts of this process: callbacks, of which a child must have none, and log
 * entries. */
static int called, entries, other_entries;

static void count(int *counter)
{
    called++;
    *counter += 1;
}

static void on_link(struct lw_client *client, int up, const char *why, void *arg)
{
    (void)client, (void)why;
    count(up ? &((struct parent *)arg)->others : &((struct parent *)arg)->downs);
}

static void on_log(int level, const char *message, void *arg)
{
    (void)level, (void)arg;
    if (strstr(message, ENTRY) != NULL) {
        entries++;
    } else {
        other_entries++;
    }
}

static void on_done(struct lw_lock *lock, int status, void *arg)
{
    (void)lock;
    count(status == LW_OK ? &((struct parent *)arg)->granted
                          : &((struct parent *)arg)->others);
}

static void on_renewed(struct lw_lock *lock, int status, void *arg)
{
    (void)lock;
    count(status == LW_OK ? &((struct parent *)arg)->renewed
                          : &((struct parent *)arg)->others);
}

static void on_lost(struct lw_lock *lock, int status, void *arg)
{
    (void)lock, (void)status;
    count(&((struct parent *)arg)->lost);
}

static void on_kept(struct lw_keep *keep, int status, void *arg)
{
    (void)keep, (void)status;
    count(&((struct parent *)arg)->granted);
}

static void on_unkept(struct lw_keep *keep, int status, void *arg)
{
    (void)keep, (void)status;
    count(&((struct parent *)arg)->lost);
}

static void on_all(struct lw_all *all, int status, void *arg)
{
    (void)all, (void)status;
    count(&((struct parent *)arg)->granted);
}

static void on_all_lost(struct lw_all *all, int status, void *arg)
{
    (void)all, (void)status;
    count(&((struct parent *)arg)->lost);
}

static void on_changed(struct lw_watcher *watch, int status,
                       const struct lw_inspection *now, const char *why, void *arg)
{
    struct parent *parent = arg;

    (void)watch, (void)status, (void)now, (void)why;
    parent->watched++;
    called += getpid() != parent->pid; /* other counts are of events that come once */
}

static void on_closed(struct lw_client *client, void *arg)
{
    (void)client;
    count(&((struct parent *)arg)->closed);
}

static void on_inspected(struct lw_client *client, int status,
                         const struct lw_inspection *found, const char *why, void *arg)
{
    (void)client, (void)status, (void)found, (void)why;
    count(&((struct parent *)arg)->others);
}

static void on_broken(struct lw_client *client, int status, const char *why, void *arg)
{
    (void)client, (void)status, (void)why;
    count(&((struct parent *)arg)->others);
}

static void on_yielded(struct lw_client *client, int status, size_t holders,
                       size_t reached, const char *why, void *arg)
{
    struct parent *parent = arg;

    (void)client, (void)why;
    count(status == LW_OK && holders == 1 && reached == 1 ? &parent->yielded
                                                          : &parent->others);
}

static void on_asked(struct lw_lock *lock, void *arg)
{
    (void)lock;
    count(&((struct parent *)arg)->asked);
}

static int on_found(struct lw_client *client, const struct lw_inspection *found,
                    const struct lw_listing *listing, void *arg)
{
    (void)client, (void)found, (void)listing;
    count(&((struct parent *)arg)->others);
    return 0;
}

static void on_listed(struct lw_client *client, int status,
                      const struct lw_listing *listing, const char *why, void *arg)
{
    (void)client, (void)status, (void)listing, (void)why;
    count(&((struct parent *)arg)->others);
}

static void run_ms(struct event_base *base, int ms)
{
    const struct timeval end = {ms / 1000, ms % 1000 * 1000};

    (void)event_base_loopexit(base, &end);
    (void)event_base_dispatch(base);
}

#define AWAIT(parent, condition)                                                         \
    for (int64_t end_ = now_ms() + STAGE_WAIT_MS; !(condition);) {                       \
        run_ms((parent)->base, 10);                                                      \
        assert_true(now_ms() < end_);                                                    \
    }

/* Each client holds a lock of its own and waits for that of the client before it. The
 * first one also has a keep, and waits for the set that the second one holds. */
static void parent_open(struct parent *parent)
{
    struct lw_watch_options watching = LW_WATCH_OPTIONS_INIT;
    struct lw_client_options client = LW_CLIENT_OPTIONS_INIT;
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    static const char *const names[] = {"set1", "set2"};
    char name[16];

    *parent = (struct parent){.base = event_base_new(), .pid = getpid()};
    called = entries = other_entries = 0;
    client.link = on_link;
    client.log = on_log;
    client.asked_to_yield = on_asked;
    client.arg = parent;
    client.errbuf = parent->errbuf;
    client.errbuf_size = sizeof(parent->errbuf);
    client.client_name = "prefork";
    client.request_timeout_ms = 2000;
    options.lease_ms = LEASE_MS;
    options.wait_ms = -1;
    options.lost = on_lost;
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(
            lw_client_new(parent->base, stage.server.url, &client, &parent->clients[i]),
            0);
        (void)snprintf(name, sizeof(name), "lock%d", i);
        assert_int_equal(lw_acquire(parent->clients[i], name, &options, on_done, parent,
                                    &parent->held[i]),
                         0);
    }
    options.lost = NULL;
    assert_int_equal(lw_keep_new(parent->clients[0], "kept", &options, on_kept, on_unkept,
                                 parent, &parent->keep),
                     0);
    assert_int_equal(lw_acquire_all(parent->clients[1], names, 2, &options, on_all,
                                    on_all_lost, parent, &parent->all),
                     0);
    AWAIT(parent, parent->granted == CLIENTS + 2);
    for (int i = 0; i < CLIENTS; i++) {
        (void)snprintf(name, sizeof(name), "lock%d", (i + CLIENTS - 1) % CLIENTS);
        assert_int_equal(lw_acquire(parent->clients[i], name, &options, on_done, parent,
                                    &parent->waiting[i]),
                         0);
    }
    assert_int_equal(lw_acquire_all(parent->clients[0], names, 2, &options, on_all,
                                    on_all_lost, parent, &parent->waiting_all),
                     0);
    watching.interval_ms = 100;
    watching.every_look = 1;
    assert_int_equal(lw_watch(parent->clients[2], "lock0", &watching, on_changed, parent,
                              &parent->watch),
                     0);
    AWAIT(parent, lw_lock_position(parent->waiting[CLIENTS - 1]) == 0);
    AWAIT(parent, lw_all_lock(parent->waiting_all, 0) != NULL &&
                      lw_lock_position(lw_all_lock(parent->waiting_all, 0)) == 0);
    parent->others = 0; /* the links that came up */
}

/* Sends renewals, and asks the holder of each lock to yield: no reply or message is read
 * before the fork. */
static void parent_asks(struct parent *parent)
{
    for (int i = 0; i < CLIENTS; i++) {
        const char *name = lw_lock_name(parent->waiting[i]);

        assert_int_equal(lw_renew(parent->held[i], 0, on_renewed, parent), 0);
        assert_int_equal(lw_ask_to_yield(parent->clients[i], name, on_yielded, parent),
                         0);
    }
    (void)event_base_loop(parent->base, EVLOOP_NONBLOCK);
}

static void parent_close(struct parent *parent)
{
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(lw_client_close(parent->clients[i], on_closed, parent), 0);
    }
    AWAIT(parent, parent->closed == CLIENTS);
    lw_keep_free(parent->keep);
    lw_watcher_free(parent->watch);
    lw_all_free(parent->all);
    lw_all_free(parent->waiting_all);
    for (int i = 0; i < CLIENTS; i++) {
        lw_lock_free(parent->held[i]);
        lw_lock_free(parent->waiting[i]);
        lw_client_free(parent->clients[i]);
    }
    event_base_free(parent->base);
}

/* Repeats the test on a slow machine: no hold outlasts a lease for which the client's
 * loop stood still. */
static void parent_goes_on(struct parent *parent)
{
    if (parent->still_ms > LEASE_MS / 2) {
        parent_close(parent);
        stage.worst_lag_ms = parent->still_ms;
        stage_skip_if_lag(LEASE_MS / 2);
    }
}

/* Checks that the parent holds beyond its lease by its own renewals, and that each of its
 * requests is answered. */
static void parent_holds_on(struct parent *parent)
{
    int watched = parent->watched;

    stage_forget_lag();
    run_ms(parent->base, LEASE_MS + LEASE_MS / 4);
    AWAIT(parent, parent->watched > watched);
    AWAIT(parent, parent->renewed == CLIENTS);
    AWAIT(parent, parent->asked == CLIENTS && parent->yielded == CLIENTS);
    for (int i = 0; i < CLIENTS; i++) {
        assert_int_equal(lw_lock_state(parent->held[i]), LW_HELD);
        assert_true(lw_lock_remaining_ms(parent->held[i]) > 0);
        assert_int_equal(lw_lock_state(parent->waiting[i]), LW_WAITING);
    }
    assert_int_equal(lw_lock_state(lw_keep_lock(parent->keep)), LW_HELD);
    assert_true(lw_all_remaining_ms(parent->all) > 0);
    assert_int_equal(lw_lock_state(lw_all_lock(parent->waiting_all, 0)), LW_WAITING);
    assert_int_equal(parent->granted, CLIENTS + 2);
    assert_int_equal(parent->downs, 0);
    assert_int_equal(parent->lost, 0);
    assert_int_equal(entries, 0);
    assert_int_equal(other_entries, 0);
}

/* ---- children ---- */

#define CHECK(condition)                                                                 \
    if (!(condition)) {                                                                  \
        (void)fprintf(stderr, "%s:%d: in a child: not %s\n", __FILE__, __LINE__,         \
                      #condition);                                                       \
        return 1;                                                                        \
    }

/* Returns the number of descriptors that this process's epoll sets watch. */
static int watched(void)
{
    DIR *folder = opendir("/proc/self/fdinfo");
    const struct dirent *entry;
    char path[300], line[256];
    int sum = 0;

    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        FILE *file;

        (void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%s", entry->d_name);
        file = fopen(path, "r");
        while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
            sum += strncmp(line, "tfd:", 4) == 0;
        }
        if (file != NULL) {
            (void)fclose(file);
        }
    }
    if (folder != NULL) {
        (void)closedir(folder);
    }
    return sum;
}

static int at_first; /* the result of watched() before there was a client */

static int refuses_handle(struct parent *parent, struct lw_lock *lock)
{
    const char *why = lw_lock_errstr(lock);

    CHECK(lw_release(lock, on_done, parent) == LW_ECLOSED);
    CHECK(lw_renew(lock, 0, on_done, parent) == LW_ECLOSED);
    CHECK(lw_lock_state(lock) == LW_DONE);
    CHECK(lw_lock_remaining_ms(lock) == 0);
    CHECK(lw_lock_position(lock) == -1);
    CHECK(lw_lock_retry_ms(lock) == 0);
    CHECK(strstr(why, ENTRY) != NULL);
    return 0;
}

#define CHECK_REFUSED(call)                                                              \
    do {                                                                                 \
        parent->errbuf[0] = '\0';                                                        \
        CHECK((call) == LW_ECLOSED);                                                     \
        CHECK(strstr(parent->errbuf, ENTRY) != NULL);                                    \
    } while (0)

/* Checks that every call returns LW_ECLOSED, with the reason. */
static int refuses(struct parent *parent)
{
    for (int i = 0; i < CLIENTS; i++) {
        struct lw_client *client = parent->clients[i];
        struct lw_lock *lock = NULL;
        struct lw_keep *keep = NULL;
        static const char *const names[] = {"x", "y"};
        struct lw_all *all = NULL;
        struct lw_watcher *watch = NULL;
        struct lw_master master = LW_MASTER_INIT;
        struct lw_stats stats = LW_STATS_INIT;
        const char *why = "";

        CHECK(refuses_handle(parent, parent->held[i]) == 0);
        CHECK(refuses_handle(parent, parent->waiting[i]) == 0);
        CHECK_REFUSED(lw_acquire(client, "x", NULL, on_done, parent, &lock));
        CHECK_REFUSED(lw_keep_new(client, "x", NULL, on_kept, on_unkept, parent, &keep));
        CHECK_REFUSED(
            lw_acquire_all(client, names, 2, NULL, on_all, on_all_lost, parent, &all));
        CHECK_REFUSED(lw_inspect(client, "x", on_inspected, parent));
        CHECK_REFUSED(lw_break(client, "x", NULL, on_broken, parent));
        CHECK_REFUSED(lw_ask_to_yield(client, "x", on_yielded, parent));
        CHECK_REFUSED(lw_watch(client, "x", NULL, on_changed, parent, &watch));
        CHECK_REFUSED(lw_list(client, "*", on_found, on_listed, parent));
        CHECK(lw_client_close(client, on_closed, parent) == LW_ECLOSED);
        CHECK(lw_client_master(client, &master) == LW_ECLOSED);
        CHECK(lw_client_is_up(client, &why) == 0);
        CHECK(strstr(why, ENTRY) != NULL);
        CHECK(lw_client_stats(client, &stats) == 0);
    }
    CHECK(refuses_handle(parent, lw_keep_lock(parent->keep)) == 0);
    CHECK(lw_all_release(parent->all, on_all, parent) == LW_ECLOSED);
    CHECK(lw_all_release(parent->waiting_all, on_all, parent) == LW_ECLOSED);
    CHECK(lw_all_remaining_ms(parent->all) == 0);
    CHECK(refuses_handle(parent, lw_all_lock(parent->all, 0)) == 0);
    return 0;
}

static int frees(struct parent *parent)
{
    lw_keep_free(parent->keep);
    lw_all_free(parent->all);
    lw_all_free(parent->waiting_all);
    for (int i = 0; i < CLIENTS; i++) {
        lw_client_free(parent->clients[i]);
        lw_lock_free(parent->held[i]);
        lw_lock_free(parent->waiting[i]);
    }
    CHECK(called == 0);
    return 0;
}

/* The loop of a child with an event_base of its own ends by itself: no event is left in
 * it. */
static int runs_out(struct parent *parent)
{
    CHECK(event_base_dispatch(parent->base) == 1);
    CHECK(watched() == at_first);
    CHECK(called == 0);
    CHECK(entries == CLIENTS);
    CHECK(other_entries == 0);
    return 0;
}

static int reinits_and_dispatches(struct parent *parent)
{
    CHECK(event_reinit(parent->base) == 0);
    return runs_out(parent);
}

static int reinits_dispatches_and_calls(struct parent *parent)
{
    CHECK(reinits_and_dispatches(parent) == 0);
    CHECK(refuses(parent) == 0);
    return frees(parent);
}

/* Against libevent's rules: the child's event_base shares the parent's epoll set. */
static int dispatches(struct parent *parent)
{
    CHECK(event_base_dispatch(parent->base) == 1);
    CHECK(called == 0);
    CHECK(entries == CLIENTS);
    CHECK(other_entries == 0);
    CHECK(refuses(parent) == 0);
    return frees(parent);
}

static int calls_and_frees(struct parent *parent)
{
    CHECK(refuses(parent) == 0);
    CHECK(frees(parent) == 0);
    CHECK(event_reinit(parent->base) == 0);
    CHECK(watched() == at_first);
    return event_base_dispatch(parent->base) == 1 ? 0 : 1;
}

static int does_nothing(struct parent *parent)
{
    (void)parent;
    return 0;
}

static int result_of(pid_t child)
{
    int status = -1;

    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        continue;
    }
    return status;
}

/* One level further: the child's own child makes the calls, and the child only runs its
 * loop. */
static int forks_one_that_reinits(struct parent *parent)
{
    pid_t child = fork();

    if (child == 0) {
        _exit(reinits_dispatches_and_calls(parent));
    }
    CHECK(result_of(child) == 0);
    return reinits_and_dispatches(parent);
}

/* The child's own child shares an epoll set with it, but not with the parent, and may
 * delete from that set what neither of them needs. So this loop need not end by
 * itself. */
static int reinits_and_forks_one(struct parent *parent)
{
    pid_t child;

    CHECK(event_reinit(parent->base) == 0);
    child = fork();
    if (child == 0) {
        _exit(dispatches(parent));
    }
    CHECK(result_of(child) == 0);
    run_ms(parent->base, 200);
    CHECK(called == 0);
    CHECK(refuses(parent) == 0);
    return frees(parent);
}

/* The parent reads nothing while its children's loops run. */
static void with_children(int (*child_does)(struct parent *))
{
    struct parent parent;
    pid_t children[CHILDREN];
    int64_t from_ms;

    at_first = watched();
    parent_open(&parent);
    parent_asks(&parent);
    from_ms = now_ms();
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork_for_test();
        if (children[i] == 0) {
            (void)alarm(60);
            called = 0;
            end_child(child_does(&parent));
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        assert_int_equal(result_of(children[i]), 0);
    }
    parent.still_ms = now_ms() - from_ms;
    parent_goes_on(&parent);
    parent_holds_on(&parent);
    parent_close(&parent);
}

#define KIND(kind)                                                                       \
    static void child_##kind(void **state)                                               \
    {                                                                                    \
        (void)state;                                                                     \
        with_children(kind);                                                             \
    }
KIND(reinits_and_dispatches)
KIND(reinits_dispatches_and_calls)
KIND(dispatches)
KIND(calls_and_frees)
KIND(does_nothing)
KIND(forks_one_that_reinits)
KIND(reinits_and_forks_one)

/* ---- a fork in a callback ---- */

static int result; /* exit status of on_fork's child; -1 before */
static int (*forked_does)(struct parent *);
static struct parent *forking;
static bool in_forked;

/* In the child it returns to the library. The further callbacks of this turn, and the
 * writes at its end, belong to the parent alone. */
static void on_fork(struct lw_lock *lock, int status, void *arg)
{
    pid_t child;
    int64_t from_ms = now_ms();

    (void)lock, (void)status, (void)arg;
    called++;
    if (result >= 0) {
        return;
    }
    child = fork_for_test();
    if (child == 0) {
        in_forked = true;
        called = 0;
        (void)event_base_loopbreak(forking->base);
        result = 0;
        return;
    }
    result = result_of(child);
    forking->still_ms = now_ms() - from_ms;
}

#define HANDLES 300

/* Forks after `before` of the turn's callbacks, which are at most 256. */
static void fork_in_a_callback(int before)
{
    struct parent parent;
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    struct lw_lock *locks[HANDLES];

    at_first = watched();
    parent_open(&parent);
    forking = &parent;
    result = -1;
    called = 0;
    options.wait_ms = 0;
    for (int i = 0; i < HANDLES; i++) { /* all are refused at once */
        assert_int_equal(lw_acquire(parent.clients[1], "lock1", &options,
                                    i == before ? on_fork : on_done, &parent, &locks[i]),
                         0);
    }
    for (int64_t end = now_ms() + STAGE_WAIT_MS; result < 0 && now_ms() < end;) {
        (void)event_base_loop(parent.base, EVLOOP_ONCE);
        if (in_forked) {
            end_child(forked_does(&parent));
        }
    }
    assert_int_equal(result, 0);
    AWAIT(&parent, called >= HANDLES);
    for (int i = 0; i < HANDLES; i++) {
        lw_lock_free(locks[i]);
    }
    parent_goes_on(&parent);
    assert_int_equal(called, HANDLES);
    parent.others = 0;
    parent_asks(&parent);
    parent_holds_on(&parent);
    parent_close(&parent);
}

static void forked_in_a_callback_the_rest_is_the_parents(void **state)
{
    (void)state;
    forked_does = reinits_dispatches_and_calls;
    fork_in_a_callback(10);
}

static void forked_in_the_last_callback_of_a_turn(void **state)
{
    (void)state;
    forked_does = dispatches;
    fork_in_a_callback(255);
}

/* ---- daemon(3) ---- */

/* The daemon's parent is gone: its event_base shares an epoll set with no other
 * process. */
static int daemon_lives(struct parent *parent, int told)
{
    CHECK(event_base_dispatch(parent->base) == 1);
    CHECK(called == 0);
    CHECK(entries == CLIENTS);
    CHECK(refuses(parent) == 0);
    CHECK(write(told, "x", 1) == 1);
    return 0;
}

/* The connections end with the process that made the clients, although the daemon still
 * runs: its copies of the descriptors are closed. */
static void daemon_after_the_clients_were_made(void **state)
{
    int told[2], hold[2];
    char byte = '\0';
    pid_t child;

    (void)state;
    assert_int_equal(pipe(told), 0);
    assert_int_equal(pipe(hold), 0);
    child = fork_for_test();
    if (child == 0) {
        struct parent parent;

        parent_open(&parent);
        parent_asks(&parent);
        called = 0;
        if (daemon(1, 1) != 0 || daemon_lives(&parent, told[1]) != 0) {
            _exit(1);
        }
        (void)close(hold[1]);
        _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1); /* until the test has ended */
    }
    assert_int_equal(result_of(child), 0);
    (void)close(told[1]);
    assert_int_equal(read(told[0], &byte, 1), 1); /* end of file if the daemon failed */
    UNTIL(redis_int("EVAL %s 0",
                    "return #redis.call('PUBSUB', 'CHANNELS', 'lockwire:*')") == 0);
    (void)close(told[0]);
    (void)close(hold[0]);
    (void)close(hold[1]);
    stage.keys_may_stay = stage.notes_may_stay = true; /* until the leases end */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        STAGE_TEST(child_reinits_and_dispatches),
        STAGE_TEST(child_reinits_dispatches_and_calls),
        STAGE_TEST(child_dispatches),
        STAGE_TEST(child_calls_and_frees),
        STAGE_TEST(child_does_nothing),
        STAGE_TEST(child_forks_one_that_reinits),
        STAGE_TEST(child_reinits_and_forks_one),
        STAGE_TEST(forked_in_a_callback_the_rest_is_the_parents),
        STAGE_TEST(forked_in_the_last_callback_of_a_turn),
        STAGE_TEST(daemon_after_the_clients_were_made),
    };

    return STAGE_RUN(tests);
}

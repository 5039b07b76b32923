/* SPDX-License-Identifier: MIT */
/*
 * lockwire as a peer of the interop tests. Owns one client and at most one lock: a mutex,
 * with the mode word `exclusive` or `shared` a read-write lock, and with `redisson` an
 * LW_REDISSON lock. Obeys the commands that peers.py describes. In addition it has slots,
 * each of which acquires one name again and again. Uses only the public header, and is
 * independent of the other peers.
 *
 * Usual course: a line on stdin, a call, its callback, a line on stdout. A round runs by
 * itself: acquire, read the counter, hold, write it, release, report.
 */
#include <lockwire.h>

#include <event2/buffer.h>
#include <event2/event.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLOTS 64

/* A slot acquires a name, holds it, releases it, and acquires it again. */
struct slot {
    struct peer *peer;
    struct lw_lock *lock;
    struct event *held;
};

struct round {
    bool running;
    bool locked; /* false: runs without the lock, to show that updates are then lost */
    char path[256];
    struct timeval hold;
    long long value;
    int64_t asked_us, done_us;
};

struct peer {
    struct event_base *base;
    struct lw_client *client;
    enum lw_mode mode;
    struct lw_lock *lock;
    struct evbuffer *input;
    struct event *readable, *held;
    struct round round;
    struct slot slots[SLOTS];
    size_t slot_count;
    char slot_name[513];
    uint32_t slot_lease_ms;
    struct timeval slot_hold;
    long long slot_grants;
    char why[256]; /* the client's errbuf */
};

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vprintf(format, args);
    va_end(args);
    (void)putchar('\n');
    (void)fflush(stdout);
}

/* Returns the time of a clock that the peers in all languages can read. */
static int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static void forget(struct peer *peer)
{
    lw_lock_free(peer->lock);
    peer->lock = NULL;
}

static void fail(struct peer *peer, const char *what, int status)
{
    const char *said = peer->lock != NULL ? lw_lock_errstr(peer->lock) : "";

    say("error %s: %s %s", what, lw_strerror(status), said);
    peer->round.running = false;
    forget(peer);
}

static long long read_counter(const char *path)
{
    FILE *file = fopen(path, "r");
    long long value = 0;

    if (file == NULL) {
        return 0;
    }
    if (fscanf(file, "%lld", &value) != 1) {
        value = 0;
    }
    (void)fclose(file);
    return value;
}

static bool write_counter(const char *path, long long value)
{
    FILE *file = fopen(path, "r+"); /* of fixed width, so that it is never read empty */
    bool written;

    if (file == NULL) {
        return false;
    }
    written = fprintf(file, "%020lld\n", value) > 0;
    return fclose(file) == 0 && written;
}

static void report_round(struct peer *peer, const char *outcome)
{
    peer->round.running = false;
    say("wrote %lld %" PRId64 " %" PRId64 " %s", peer->round.value, peer->round.asked_us,
        peer->round.done_us, outcome);
}

static void on_released(struct lw_lock *lock, int status, void *arg)
{
    struct peer *peer = arg;
    const char *outcome = status == LW_ENOTHELD ? "gone" : "released";

    (void)lock;
    if (status != LW_OK && status != LW_ENOTHELD) {
        fail(peer, "release", status);
        return;
    }
    if (peer->round.running) {
        report_round(peer, outcome);
    } else {
        say("%s", outcome);
    }
    forget(peer);
}

static void release(struct peer *peer)
{
    int status = peer->lock != NULL ? lw_release(peer->lock, on_released, peer)
                                    : LW_ENOTHELD;

    if (status == LW_ENOTHELD) {
        on_released(peer->lock, status, peer);
    } else if (status != 0) {
        fail(peer, "release", status);
    }
}

static void start_hold(struct peer *peer)
{
    say("held -");
    peer->round.value = read_counter(peer->round.path) + 1;
    evtimer_add(peer->held, &peer->round.hold);
}

static void on_hold_over(evutil_socket_t fd, short what, void *arg)
{
    struct peer *peer = arg;

    (void)fd;
    (void)what;
    if (!write_counter(peer->round.path, peer->round.value)) {
        fail(peer, "the counter file", LW_EINVAL);
        return;
    }
    peer->round.done_us = now_us();
    if (peer->round.locked) {
        release(peer);
    } else {
        report_round(peer, "released");
    }
}

static void on_acquired(struct lw_lock *lock, int status, void *arg)
{
    struct peer *peer = arg;

    switch (status) {
    case LW_OK:
        if (peer->round.running) {
            start_hold(peer);
        } else {
            say("held %s", lw_lock_owner(lock));
        }
        return;
    case LW_EBUSY:
        say("busy %" PRId64, lw_lock_retry_ms(lock));
        break;
    case LW_ETIMEOUT:
        say("timeout");
        break;
    default:
        fail(peer, "acquire", status);
    }
    forget(peer);
}

static void on_lost(struct lw_lock *lock, int reason, void *arg)
{
    (void)lock;
    (void)arg;
    say("note lost: %s", lw_strerror(reason));
}

static void acquire(struct peer *peer, const char *name, uint32_t lease_ms,
                    int64_t wait_ms)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;
    int status;

    options.lease_ms = lease_ms;
    options.wait_ms = wait_ms;
    options.lost = on_lost;
    options.mode = peer->mode;
    if (peer->lock != NULL) {
        say("error acquire: this peer has a lock already");
        return;
    }
    status = lw_acquire(peer->client, name, &options, on_acquired, peer, &peer->lock);
    if (status != 0) {
        fail(peer, "acquire", status);
    }
}

static void on_renewed(struct lw_lock *lock, int status, void *arg)
{
    (void)lock;
    (void)arg;
    say(status == LW_OK ? "extended" : "gone");
}

static void extend(struct peer *peer, uint32_t lease_ms)
{
    int status = peer->lock != NULL ? lw_renew(peer->lock, lease_ms, on_renewed, peer)
                                    : LW_ENOTHELD;

    if (status != 0) {
        on_renewed(peer->lock, status, peer);
    }
}

/* ---- slots ---- */

static void on_slot_held(struct lw_lock *lock, int status, void *arg)
{
    struct slot *slot = arg;

    (void)lock;
    if (status != LW_OK) {
        say("error slot: %s", lw_strerror(status));
        return;
    }
    slot->peer->slot_grants++;
    evtimer_add(slot->held, &slot->peer->slot_hold);
}

static void want_slot(struct slot *slot)
{
    struct lw_acquire_options options = LW_ACQUIRE_OPTIONS_INIT;

    options.lease_ms = slot->peer->slot_lease_ms;
    options.wait_ms = -1;
    options.mode = slot->peer->mode;
    if (lw_acquire(slot->peer->client, slot->peer->slot_name, &options, on_slot_held,
                   slot, &slot->lock) != 0) {
        say("error slot: %s", slot->peer->why);
    }
}

static void on_slot_released(struct lw_lock *lock, int status, void *arg)
{
    struct slot *slot = arg;

    if (status != LW_OK) {
        say("error slot: %s", lw_strerror(status));
    }
    lw_lock_free(lock);
    slot->lock = NULL;
    want_slot(slot);
}

static void on_slot_over(evutil_socket_t fd, short what, void *arg)
{
    struct slot *slot = arg;

    (void)fd;
    (void)what;
    if (lw_release(slot->lock, on_slot_released, slot) != 0) {
        say("error slot: it was lost");
    }
}

static void start_slots(struct peer *peer, size_t count)
{
    peer->slot_grants = 0;
    for (size_t i = 0; i < count && i < SLOTS; i++) {
        struct slot *slot = &peer->slots[peer->slot_count++];

        slot->peer = peer;
        slot->held = evtimer_new(peer->base, on_slot_over, slot);
        want_slot(slot);
    }
    say("started");
}

static void stop_slots(struct peer *peer)
{
    while (peer->slot_count > 0) {
        struct slot *slot = &peer->slots[--peer->slot_count];

        event_free(slot->held);
        lw_lock_free(slot->lock);
        *slot = (struct slot){0};
    }
}

static void obey(struct peer *peer, const char *line)
{
    char name[513], mode[16];
    unsigned lease_ms, hold_ms, count;
    long long wait_ms;

    if (sscanf(line, "acquire %512s %u %lld", name, &lease_ms, &wait_ms) == 3) {
        acquire(peer, name, lease_ms, wait_ms);
    } else if (strcmp(line, "release") == 0) {
        release(peer);
    } else if (sscanf(line, "slots %u %512s %u %u", &count, peer->slot_name,
                      &peer->slot_lease_ms, &hold_ms) == 4) {
        peer->slot_hold.tv_usec = hold_ms * 1000;
        start_slots(peer, count);
    } else if (strcmp(line, "stop") == 0) {
        stop_slots(peer);
        say("stopped %lld", peer->slot_grants);
    } else if (strcmp(line, "fence") == 0) {
        say("fence %" PRIu64, peer->lock != NULL ? lw_lock_fence(peer->lock) : 0);
    } else if (sscanf(line, "extend %u", &lease_ms) == 1) {
        extend(peer, lease_ms);
    } else if (sscanf(line, "round %512s %u %u %255s %15s", name, &lease_ms, &hold_ms,
                      peer->round.path, mode) == 5) {
        peer->round.running = true;
        peer->round.locked = strcmp(mode, "lock") == 0;
        peer->round.hold.tv_sec = hold_ms / 1000;
        peer->round.hold.tv_usec = hold_ms % 1000 * 1000;
        peer->round.asked_us = now_us();
        if (peer->round.locked) {
            acquire(peer, name, lease_ms, -1);
        } else {
            start_hold(peer);
        }
    } else {
        say("error unknown command: %s", line);
    }
}

static void on_input(evutil_socket_t fd, short what, void *arg)
{
    struct peer *peer = arg;
    char *line;

    (void)what;
    if (evbuffer_read(peer->input, fd, -1) <= 0) {
        event_base_loopbreak(peer->base);
        return;
    }
    while ((line = evbuffer_readln(peer->input, NULL, EVBUFFER_EOL_LF)) != NULL) {
        obey(peer, line);
        free(line);
    }
}

static void on_link(struct lw_client *client, int up, const char *why, void *arg)
{
    static bool told; /* the first connection was reported; the others are not */

    (void)client;
    (void)arg;
    if (!up) {
        say("note link down: %s", why);
    } else if (!told) {
        say("ready lockwire %s", lw_version());
    }
    told = told || up;
}

static void on_log(int level, const char *message, void *arg)
{
    (void)arg;
    say("note log %d: %s", level, message);
}

static bool start(struct peer *peer, const char *url, uint32_t claim_ms)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;

    options.claim_ms = claim_ms;
    options.link = on_link;
    options.log = on_log;
    options.errbuf = peer->why;
    options.errbuf_size = sizeof(peer->why);
    peer->base = event_base_new();
    peer->input = evbuffer_new();
    if (peer->base == NULL || peer->input == NULL) {
        return false;
    }
    peer->readable =
        event_new(peer->base, STDIN_FILENO, EV_READ | EV_PERSIST, on_input, peer);
    peer->held = evtimer_new(peer->base, on_hold_over, peer);
    if (peer->readable == NULL || peer->held == NULL ||
        event_add(peer->readable, NULL) != 0) {
        return false;
    }
    if (lw_client_new(peer->base, url, &options, &peer->client) != 0) {
        say("error %s", peer->why);
        return false;
    }
    return true;
}

static void finish(struct peer *peer)
{
    while (peer->lock != NULL) {
        forget(peer);
    }
    stop_slots(peer);
    lw_client_free(peer->client);
    if (peer->held != NULL) {
        event_free(peer->held);
    }
    if (peer->readable != NULL) {
        event_free(peer->readable);
    }
    if (peer->input != NULL) {
        evbuffer_free(peer->input);
    }
    if (peer->base != NULL) {
        event_base_free(peer->base);
    }
}

/* Returns false if there is no such mode. */
static bool choose_mode(const char *word, enum lw_mode *mode)
{
    static const char *const words[] = {
        [LW_EXCLUSIVE] = "exclusive",
        [LW_SHARED] = "shared",
        [LW_REDISSON] = "redisson",
    };

    for (int i = LW_EXCLUSIVE; i <= LW_REDISSON; i++) {
        if (strcmp(word, words[i]) == 0) {
            *mode = (enum lw_mode)i;
            return true;
        }
    }
    return false;
}

int main(int argc, char **argv)
{
    struct peer peer = {0};
    bool started;

    if (argc < 2 || argc > 4 || (argc == 4 && !choose_mode(argv[3], &peer.mode))) {
        (void)fprintf(stderr, "usage: %s URL [CLAIM_MS [exclusive|shared|redisson]]\n",
                      argv[0]);
        return 64;
    }
    started = start(&peer, argv[1], argc >= 3 ? (uint32_t)atol(argv[2]) : 0);
    if (started) {
        event_base_dispatch(peer.base);
    }
    finish(&peer);
    return started ? 0 : 1;
}

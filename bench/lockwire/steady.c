/* SPDX-License-Identifier: MIT */
/*
 * Runs a given number of pairs by one handle, of pairs by sixteen handles of one client
 * (each with its own key), or of hand-overs between two clients, so that instructions and
 * allocations can be counted per pair. Both counts are the same on any machine. Owns the
 * counting of allocations: its functions have glibc's names and call glibc's own.
 * Independent of the comparison.
 *
 *     bench_steady uncontended|parallel|handover URL COUNT [GUARD_MS]
 *
 * Warms up, runs COUNT, and prints {"pairs": .., "allocations": .., "ours": ..}.
 */
#include <event2/event.h>
#include <link.h>
#include <lockwire.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARM_UP 500
#define SLOTS_MOST 16

struct user {
    struct event_base *base;
    struct lw_client *client;
    struct lw_acquire_options acquire;
};

/* A user of locks that acquires and releases in a loop. */
struct slot {
    struct user *user;
    struct lw_lock *lock;
    char key[24];
};

static const struct kind {
    const char *name;
    int users, slots; /* clients, and the slots of each one */
} kinds[] = {
    {"uncontended", 1, 1},
    {"parallel", 1, SLOTS_MOST},
    {"handover", 2, 1},
};

static unsigned long all, ours, left;
static uintptr_t library_from, library_to;

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);
void *malloc(size_t size);
void *calloc(size_t count, size_t size);
void *realloc(void *memory, size_t size);

static void count(const void *caller)
{
    all++;
    if ((uintptr_t)caller >= library_from && (uintptr_t)caller < library_to) {
        ours++;
    }
}

void *malloc(size_t size)
{
    count(__builtin_return_address(0));
    return __libc_malloc(size);
}

void *calloc(size_t items, size_t size)
{
    count(__builtin_return_address(0));
    return __libc_calloc(items, size);
}

void *realloc(void *memory, size_t size)
{
    count(__builtin_return_address(0));
    return __libc_realloc(memory, size);
}

/* Finds the library's code, to tell its own allocations from others. */
static int find_library(struct dl_phdr_info *info, size_t size, void *arg)
{
    (void)size, (void)arg;
    if (strstr(info->dlpi_name, "liblockwire") == NULL) {
        return 0;
    }
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];

        if (part->p_type == PT_LOAD && (part->p_flags & PF_X)) {
            library_from = info->dlpi_addr + part->p_vaddr;
            library_to = library_from + part->p_memsz;
        }
    }
    return 1;
}

static void check(const char *what, int status)
{
    if (status >= 0) {
        return;
    }
    (void)fprintf(stderr, "steady: %s: %s\n", what, lw_strerror(status));
    exit(1);
}

static void ask(struct slot *slot);

static void on_released(struct lw_lock *lock, int status, void *arg)
{
    struct slot *slot = arg;

    check("released", status);
    lw_lock_free(lock);
    if (--left == 0) {
        event_base_loopbreak(slot->user->base);
    }
    ask(slot);
}

static void on_granted(struct lw_lock *lock, int status, void *arg)
{
    check("acquired", status);
    check("lw_release", lw_release(lock, on_released, arg));
}

static void ask(struct slot *slot)
{
    struct user *user = slot->user;

    check("lw_acquire", lw_acquire(user->client, slot->key, &user->acquire, on_granted,
                                   slot, &slot->lock));
}

static void on_link(struct lw_client *client, int up, const char *why, void *arg)
{
    struct user *user = arg;

    (void)client, (void)why;
    check("connecting", up ? LW_OK : LW_ECONN);
    event_base_loopbreak(user->base);
}

/* Returns the longest lease that a guard allows. */
static unsigned lease_of(unsigned guard_ms)
{
    return guard_ms > 12000 ? guard_ms - 12000 : 0;
}

/* Waits for the end of the guard time, during which a new server grants no locks. */
static void await_guard(struct user *user)
{
    struct lw_stats stats = LW_STATS_INIT;

    do {
        check("lw_client_stats", lw_client_stats(user->client, &stats));
        event_base_loopexit(user->base,
                            &(struct timeval){.tv_sec = stats.guard_left_ms > 0});
        event_base_dispatch(user->base);
    } while (stats.guard_left_ms > 0);
}

static void open_user(struct user *user, struct event_base *base, const char *url,
                      unsigned guard_ms)
{
    struct lw_client_options options = LW_CLIENT_OPTIONS_INIT;

    *user = (struct user){.base = base, .acquire = LW_ACQUIRE_OPTIONS_INIT};
    user->acquire.wait_ms = -1;
    user->acquire.lease_ms = lease_of(guard_ms);
    options.guard_ms = guard_ms;
    options.local_turns = 1;
    options.link = on_link;
    options.arg = user;
    check("lw_client_new", lw_client_new(base, url, &options, &user->client));
    event_base_dispatch(base);
    await_guard(user);
}

static void run(struct event_base *base, unsigned long pairs)
{
    left = pairs;
    event_base_dispatch(base);
}

static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

/* Starts the slots. Slots of one user have different keys; slots of two users have the
 * same keys. */
static void start(const struct kind *kind, struct user *users, struct slot *slots)
{
    for (int i = 0; i < kind->users * kind->slots; i++) {
        slots[i].user = &users[i / kind->slots];
        (void)snprintf(slots[i].key, sizeof(slots[i].key), "steady%d", i % kind->slots);
        ask(&slots[i]);
    }
}

int main(int argc, char **argv)
{
    struct user users[2];
    struct slot slots[SLOTS_MOST];
    struct event_base *base = event_base_new();
    char *end = NULL;
    unsigned long pairs = argc >= 4 ? strtoul(argv[3], &end, 10) : 0;
    unsigned guard_ms = argc == 5 ? (unsigned)strtoul(argv[4], NULL, 10) : 0;
    const struct kind *kind = argc >= 4 ? find_kind(argv[1]) : NULL;

    if (base == NULL || !pairs || *end || kind == NULL) {
        (void)fprintf(stderr, "usage: bench_steady uncontended|parallel|handover URL "
                              "COUNT [GUARD_MS]\n");
        return 64;
    }
    if (!dl_iterate_phdr(find_library, NULL)) {
        (void)fprintf(
            stderr,
            "steady: liblockwire.so is not there; a static build is not judged\n");
        return 1;
    }
    for (int i = 0; i < kind->users; i++) {
        open_user(&users[i], base, argv[2], guard_ms);
    }
    start(kind, users, slots);
    run(base, WARM_UP);
    unsigned long all_before = all, ours_before = ours;
    run(base, pairs);
    (void)printf("{\"pairs\": %lu, \"allocations\": %lu, \"ours\": %lu}\n", pairs,
                 all - all_before, ours - ours_before);
    return 0;
}
